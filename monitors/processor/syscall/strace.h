/* SPDX-License-Identifier: MIT */
/*
 * Tracing of system calls into the kernel log: boot parameter strace.
 */
#pragma once

#include <lib/types.h>

#include "syscall.h"

extern bool strace_on; /* const after boot */

/* Once, when requests can be sent: count them by call. */
void strace_init(void);
/* Make call @nr and log it; @entry is NULL, or has no handler, for a number that is not there. */
long strace_call(const struct syscall_entry *entry, uint64_t nr, const struct syscall_args *args);
/* The calling task takes a signal, and what comes of it. */
void strace_signal(int signo, int code, const char *what);
