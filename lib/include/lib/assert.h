/* SPDX-License-Identifier: MIT */
/*
 * Assertions, for every layer. In release builds they are not there, so none is ever the only
 * check of an input, and none has a side effect.
 */
#pragma once

#include <lib/compiler.h>

/* Ends the kernel, or the host test: kernel/panic.c, test/host/shim/kernel.c. */
void bug_at(const char *file, int line, const char *cond) __attribute__((noreturn, cold));

#ifdef CONFIG_DEBUG
# define ASSERT(cond)                                       \
	 do {                                               \
		 if (unlikely(!(cond)))                     \
			 bug_at(__FILE__, __LINE__, #cond); \
	 } while (0)
#else
# define ASSERT(cond) ((void)sizeof(!(cond)))
#endif
