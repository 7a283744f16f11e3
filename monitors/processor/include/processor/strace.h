/* SPDX-License-Identifier: MIT */
/*
 * Tracing of system calls into the kernel log: boot parameter strace.
 */
#pragma once

#include <lib/types.h>
#include <processor/syscall.h>

extern bool strace_on; /* const after boot */

/* Calls that do not return (exit) are logged when they begin. */
void strace_enter(const struct syscall_entry *entry, const struct syscall_args *args);
void strace_exit(const struct syscall_entry *entry, const struct syscall_args *args, long ret,
		 uint64_t ns);
/* The calling task takes a signal, and what comes of it. */
void strace_signal(int signo, int code, const char *what);
