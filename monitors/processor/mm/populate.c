/* SPDX-License-Identifier: MIT */
/*
 * Touching ranges for mlock() and madvise(), as the program could.
 *
 * Locking:	aspace.map_lock to look at a vma, none while its pages are touched.
 */
#include <arch/pgtable.h>
#include <kernel/thread.h>
#include <lib/errno.h>

#include "aspace.h"
#include "guard.h"

bool aspace_maps(struct aspace *as, vaddr_t addr, unsigned int prot)
{
	struct pgtable_entry e;
	bool mapped;

	spin_lock(&as->lock);
	mapped = pgtable_query(as->pt, addr, &e) && (e.prot & prot) == prot;
	spin_unlock(&as->lock);
	return mapped;
}

/* The vma at @at, to be released. -ENOMEM: there is none; -EINTR. */
static int vma_at(struct aspace *as, vaddr_t at, struct vma *v)
{
	int err = mutex_lock_killable(&as->map_lock);

	if (err)
		return err;
	err = aspace_vma_at(as, at, v);
	mutex_unlock(&as->map_lock);
	return err == -EFAULT ? -ENOMEM : err;
}

static int populate_pages(struct aspace *as, vaddr_t at, vaddr_t end, bool write)
{
	const unsigned int prot = write ? PGT_READ | PGT_WRITE : PGT_READ;
	int err = 0;

	for (; !err && at < end; at += PAGE_SIZE) {
		if (__atomic_load_n(&thread_current()->flags, __ATOMIC_ACQUIRE) & THREAD_F_KILL)
			return -EINTR;
		if (!aspace_maps(as, at, prot))
			err = aspace_fault(as, at, write ? FAULT_ACC_WRITE : FAULT_ACC_READ);
	}
	/* A mapping that has gone meanwhile is a hole as any other. */
	return err == -EFAULT && !guard_meets(as, at - PAGE_SIZE, at) ? -ENOMEM : err;
}

int aspace_populate(struct aspace *as, vaddr_t start, uint64_t len, enum populate how)
{
	int err = 0;

	for (vaddr_t at = start, end; !err && at < start + len; at = end) {
		struct vma v;
		bool write;

		err = vma_at(as, at, &v);
		if (err)
			return err;
		write = how == POPULATE_WRITE ||
			(how == POPULATE_LOCK && (v.prot & VMA_PROT_WRITE) &&
			 !(v.flags & VMA_SHARED));
		end = MIN(v.end, start + len);
		vma_release(&v);
		err = populate_pages(as, at, end, write);
	}
	return err;
}
