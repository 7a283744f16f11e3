/* SPDX-License-Identifier: MIT */
/*
 * The vDSO: kernel-owned pages of code and data in every program, so that it reads the clocks
 * itself.
 *
 * Flow:	exec chooses a random place in [SPACE_TOP, USER_TOP) and keeps it in aspace.vdso;
 *		a forked child has the same one. The first fault of each page makes its page table
 *		entry. The frames are never freed.
 * Limits:	the home of a space never hands out these addresses, and calls that change mappings
 *		refuse them. The pages are in no vma list and never in the ExCache: walks over a
 *		page table that look for lines end at SPACE_TOP.
 */
#pragma once

#include <processor/mm/aspace.h>

/* A place for a new space: the address of the ELF header; 0: programs get no vDSO. */
vaddr_t vdso_place(uint64_t random);
/* A fault at or above SPACE_TOP: 0 mapped, -EFAULT, -EACCES, -ENOMEM. */
int vdso_fault(struct aspace *as, vaddr_t addr, enum fault_access access) __must_check;

/* The parts as /proc/<pid>/maps names them: [0] data, [1] code. false: @as has none. */
struct vdso_part {
	vaddr_t start, end;
	const char *name;
	bool exec;
};
bool vdso_parts(const struct aspace *as, struct vdso_part parts[2]);
