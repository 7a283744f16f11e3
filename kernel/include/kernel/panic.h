/* SPDX-License-Identifier: MIT */
/*
 * When our own state is broken.  docs/debugging.md shows what a panic prints.
 *
 * Invariants:	never for what a peer, a user or a device did, nor for exhaustion.
 */
#pragma once

#include <lib/assert.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct pt_regs;

void panic(const char *fmt, ...) __printf(1, 2) __attribute__((noreturn, cold));
void panic_regs(struct pt_regs *regs, const char *fmt, ...) __printf(2, 3)
	__attribute__((noreturn, cold));
void warn_at(const char *file, int line, const char *cond) __attribute__((cold));
/* Log a symbolised backtrace of the caller. */
void backtrace_print(void);
/* The same of a stopped CPU: where it was, and its frame pointer. */
void backtrace_print_from(uint64_t rip, uint64_t rbp);

/* Going on would corrupt data. */
#define BUG_ON(cond)                                       \
	do {                                               \
		if (unlikely(cond))                        \
			bug_at(__FILE__, __LINE__, #cond); \
	} while (0)

/* Logs with a backtrace and goes on; evaluates to the condition. */
#define WARN_ON(cond)                                       \
	({                                                  \
		const bool _wc = (cond);                    \
		if (unlikely(_wc))                          \
			warn_at(__FILE__, __LINE__, #cond); \
		unlikely(_wc);                              \
	})
