/* SPDX-License-Identifier: MIT */
/*
 * Between strace.c (calls and lines) and strace_args.c, strace_names.c (what is in them).
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

#include "syscall.h"

#include "strace_kinds.h"

/* A line that is being written: what does not fit is left out, and the end says so. */
struct strace_text {
	char *buf;
	size_t len, size;
};

struct strace_name {
	uint64_t value;
	const char *name; /* NULL: end of the table */
};

void strace_put(struct strace_text *t, const char *fmt, ...) __printf(2, 3);

/*
 * Print arguments of a call, from *@next on: before the call (@ret is NULL) up to the first that the
 * call writes, after it the rest.
 */
void strace_put_args(struct strace_text *t, const uint8_t *kinds, const struct syscall_args *args,
		     unsigned int *next, const long *ret);

/* The name of one value; @val itself if it has none. */
void strace_put_value(struct strace_text *t, uint64_t val, const struct strace_name *names);
/* Bits by name, joined by "|", the rest in hex; @zero, or 0, for none. */
void strace_put_flags(struct strace_text *t, uint64_t val, const struct strace_name *names,
		      const char *zero);
/* "SIGINT", "SIGRT_3". */
void strace_put_signal(struct strace_text *t, int signo);

extern const struct strace_name strace_errnos[], strace_open_flags[], strace_fd_flags[],
	strace_at_flags[], strace_prots[], strace_map_flags[], strace_clone_flags[],
	strace_wait_flags[], strace_sig_how[], strace_sa_flags[], strace_fcntls[], strace_ioctls[],
	strace_whences[], strace_resources[], strace_poll_events[], strace_futex_ops[],
	strace_prctls[], strace_advices[], strace_arch_codes[], strace_clocks[], strace_families[],
	strace_access_modes[], strace_file_types[];
