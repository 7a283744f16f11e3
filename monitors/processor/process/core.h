/* SPDX-License-Identifier: MIT */
/*
 * Core files: what a process was when a signal ended it, for a debugger.
 *
 * Flow:	the task that takes the signal calls core_dump(). It has all other tasks of the
 *		process stand still on their way to user mode (core_park()), opens the file that
 *		the pattern names, and writes headers, notes and memory. core_over(), when the
 *		process is marked as ending, lets the others go, to their end.
 * Failure:	a file that cannot be made or written ends the dump; the process ends as it would.
 *		SIGKILL, and the loss of the program, end the dump too.
 * Locking:	process.sig_lock guards who writes and how many stand still.
 * See:		docs/design/coredump.md
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct linux_siginfo;
struct task;

#define WAIT_CORE_FLAG 0x80u /* in a wait status: there is a core file */

/* Which memory goes into the file: bits of /proc/<pid>/coredump_filter. */
#define CORE_FILTER_ANON_PRIVATE   0x1u
#define CORE_FILTER_ANON_SHARED    0x2u
#define CORE_FILTER_MAPPED_PRIVATE 0x4u
#define CORE_FILTER_MAPPED_SHARED  0x8u
#define CORE_FILTER_ELF_HEADERS    0x10u
#define CORE_FILTER_ALL            0x1ffu
#define CORE_FILTER_DEFAULT        0x33u

/*
 * The calling task is ended by the signal of @info: write a core file if there is to be one. True:
 * there is one, perhaps not a whole one.
 */
bool core_dump(const struct linux_siginfo *info);
/* The calling task, which has called that, is to end with its process. */
void core_over(void);
/* The calling task stands still until another one has written a core file. */
void core_park(struct task *t);

/* --- names (core_name.c) -------------------------------------------------------------- */

#define CORE_PATTERN_MAX 128u

struct core_name_facts {
	const char *comm, *exe, *hostname;
	uint32_t pid, tid, uid, gid, dumpable;
	int signo;
	uint64_t limit;
	int64_t time_s;
};

/* As core(5): the name that @pattern makes of the facts. -ENAMETOOLONG. */
int core_name(const char *pattern, bool uses_pid, const struct core_name_facts *f, char *out,
	      size_t size) __must_check;

/* /proc/sys/kernel/core_pattern, core_uses_pid. @out has CORE_PATTERN_MAX bytes. */
void core_pattern_get(char *out);
/* -EINVAL: a program to be run ('|'), or too long. */
int core_pattern_set(const char *buf, size_t len) __must_check;
extern uint32_t core_uses_pid; /* atomic */
