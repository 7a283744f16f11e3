/* SPDX-License-Identifier: MIT */
/*
 * Trace ring: the last events of each CPU, printed by a panic.
 *
 * Context:	anywhere; about ten instructions; no lock.  @name must be a literal.
 */
#pragma once

#include <arch/percpu.h>
#include <lib/types.h>

#define TRACE_ENTRIES ((unsigned int)CONFIG_TRACE_ENTRIES) /* per CPU, a power of two */

struct trace_entry {
	uint64_t time_ns;
	const char *name;
	uint64_t a, b, c;
};

void trace_record(const char *name, uint64_t a, uint64_t b, uint64_t c);
#define TRACE(name, a, b, c) trace_record("" name, (uint64_t)(a), (uint64_t)(b), (uint64_t)(c))

/* Print the newest @max entries of all CPUs in time order, straight to the console. */
void trace_dump(unsigned int max);
