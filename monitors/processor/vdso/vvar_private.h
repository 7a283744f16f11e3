/* SPDX-License-Identifier: MIT */
/*
 * The page of data that the kernel shares with the vDSO: one for the whole node, read-only for
 * programs.
 *
 * Locking:	a sequence count: odd while the kernel writes; a reader that saw it odd, or changed,
 *		begins again. Writers are serialised by vdso_lock.
 */
#pragma once

#include <lib/types.h>

enum vvar_flags {
	VVAR_TSC = 1
		<< 0, /* the clocks can be read from the time stamp counter; else by system call */
	VVAR_AUX = 1 << 1, /* IA32_TSC_AUX holds the number of the CPU */
};

struct vvar {
	uint32_t seq;
	uint32_t flags;
	uint64_t tsc_base;    /* ticks at monotonic zero */
	uint32_t mult, shift; /* ns = ticks * mult >> shift, 0 < shift < 64 */
	uint64_t real_offset; /* ns: real time at monotonic zero */
};

/* For the kernel: bring @v up to date with the clocks; the caller serialises writers. */
void vvar_write(struct vvar *v);
/* The page that programs see, for tests; NULL: none. */
const struct vvar *vvar_get(void);
