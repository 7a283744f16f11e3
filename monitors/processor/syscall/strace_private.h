/* SPDX-License-Identifier: MIT */
/*
 * Between strace.c (calls and lines) and strace_args.c, strace_names.c (what is in them).
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

#include "syscall.h"

/*
 * Kinds of arguments: how --strace prints each argument of a system call. syscall.tbl writes
 * STRACE_FLAGS_OPEN as flags:open.
 *
 * A kind that ends in _OUT is written by the call: strace prints it after the call, and the bare
 * pointer if the call failed.
 */
enum strace_kind {
	STRACE_NONE, /* there is no such argument */
	/* Numbers. */
	STRACE_INT,
	STRACE_UINT,
	STRACE_LONG,
	STRACE_HEX,
	STRACE_OCTAL,
	STRACE_FD,
	STRACE_SIGNAL,
	STRACE_ACCESS, /* R_OK and its kin */
	STRACE_MODE,   /* type of a file, and permissions */
	STRACE_SIGMASK_HOW,
	STRACE_CLOCK,
	STRACE_RESOURCE, /* RLIMIT_* */
	STRACE_FUTEX_OP,
	STRACE_FCNTL, /* commands of these calls */
	STRACE_IOCTL,
	STRACE_PRCTL,
	STRACE_ARCH_PRCTL,
	STRACE_WHENCE,
	STRACE_ADVICE,
	STRACE_FAMILY, /* AF_* */
	/* Bits by name. */
	STRACE_FLAGS_PROT,
	STRACE_FLAGS_MAP,
	STRACE_FLAGS_OPEN,
	STRACE_FLAGS_FD, /* of calls that make a descriptor */
	STRACE_FLAGS_AT,
	STRACE_FLAGS_CLONE,
	STRACE_FLAGS_WAIT,
	/* Pointers: strace prints the object they point to. */
	STRACE_POINTER, /* only where it points */
	STRACE_PATH,    /* or another string */
	STRACE_PATH_OUT,
	STRACE_BYTES,     /* as many as the next argument says */
	STRACE_BYTES_OUT, /* as many as the call returns */
	STRACE_IOVECS,    /* as many as the next argument says */
	STRACE_IOVECS_OUT,
	STRACE_STRINGS,     /* argv */
	STRACE_ENVIRONMENT, /* only how many strings there are */
	STRACE_TIMESPEC,
	STRACE_TIMESPEC_OUT,
	STRACE_TIMESPECS, /* two */
	STRACE_TIMEVAL_OUT,
	STRACE_FUTEX_TIMEOUT, /* a number for some operations */
	STRACE_SIGSET,
	STRACE_SIGSET_OUT,
	STRACE_SIGACTION,
	STRACE_SIGACTION_OUT,
	STRACE_RLIMIT,
	STRACE_RLIMIT_OUT,
	STRACE_CLONE_ARGS,
	STRACE_WAIT_STATUS_OUT,
	STRACE_STAT_OUT,
	STRACE_FDS_OUT, /* two */
	STRACE_POLLFDS_OUT,
	STRACE_UTSNAME_OUT,
	STRACE_SYSINFO_OUT,
	STRACE_DIRENTS_OUT,
	STRACE_GROUPS_OUT,
	STRACE_CPUS_OUT,
	/* The last argument of these calls: depends on the command. */
	STRACE_FCNTL_ARGUMENT,
	STRACE_PRCTL_ARGUMENT,
	STRACE_IOCTL_ARGUMENT_OUT,

	STRACE_NR_KINDS,
};

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
 * Print arguments of a call, from *@next on: before the call (@ret is NULL) up to the first that
 * the call writes, after it the rest.
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
