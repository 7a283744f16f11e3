/* SPDX-License-Identifier: MIT */
/*
 * Kinds of arguments: how --strace prints each argument of a system call. syscall.tbl writes
 * STRACE_FLAGS_OPEN as flags:open.
 *
 * A kind that ends in _OUT is written by the call: strace prints it after the call, and the bare
 * pointer if the call failed.
 */
#pragma once

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
	/* What is behind a pointer. */
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
