/* SPDX-License-Identifier: MIT */
/*
 * Host shim of <kernel/trace.h>: events are dropped.
 */
#pragma once

#include <lib/types.h>

static inline void trace_record(const char *name, uint64_t a, uint64_t b, uint64_t c)
{
	(void)name;
	(void)a;
	(void)b;
	(void)c;
}

#define TRACE(name, a, b, c) trace_record("" name, (uint64_t)(a), (uint64_t)(b), (uint64_t)(c))
