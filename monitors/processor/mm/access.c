/* SPDX-License-Identifier: MIT */
/*
 * Memory of a space that is not the calling thread's: /proc, process_vm_readv() and its kin.
 *
 * Flow:	a page that the space maps with the right is copied through the kernel's mapping;
 *		for one that it does not map a fault is made, as if the space's own thread had
 *		touched it.
 *		A debugger's access that the mapping does not allow goes to the page's line itself
 *		(aspace_force()).
 * Locking:	aspace.lock over the copy of a part of a page: the entry cannot go, so the frame
 *		stays, and nobody clears its dirty bit between the store and our setting it.
 */
#include <arch/layout.h>
#include <arch/pgtable.h>
#include <kernel/panic.h>
#include <lib/string.h>
#include <mm/kmap.h>

#include "aspace.h"

static bool copy_mapped(struct aspace *as, vaddr_t addr, void *buf, size_t len, bool write)
{
	struct pgtable_entry e;
	uint8_t *at;
	bool ok;

	spin_lock(&as->lock);
	ok = pgtable_query(as->pt, addr, &e) && (e.prot & (write ? PGT_WRITE : PGT_READ));
	if (ok) {
		at = (uint8_t *)phys_to_virt(e.paddr) + (addr & (PAGE_SIZE - 1));
		if (write)
			memcpy(at, buf, len);
		else
			memcpy(buf, at, len);
		BUG_ON(write && !pgtable_set_dirty(as->pt, addr));
	}
	spin_unlock(&as->lock);
	return ok;
}

/* @forced: what the mapping does not allow is done all the same, if that can be. */
static int move_part(struct aspace *as, vaddr_t at, uint8_t *buf, size_t n, bool write, bool forced)
{
	const struct forced_copy f = { .buf = buf, .len = n, .write = write };
	int err = 0;

	while (!err && !copy_mapped(as, at, buf, n, write)) {
		err = aspace_fault(as, at, write ? FAULT_ACC_WRITE : FAULT_ACC_READ);
		if (err == -EACCES && forced && at < SPACE_TOP)
			return aspace_force(as, at, &f);
	}
	return err;
}

static size_t move(struct aspace *as, vaddr_t addr, uint8_t *buf, size_t len, bool write,
		   bool forced)
{
	const vaddr_t top = forced ? USER_TOP : SPACE_TOP; /* the vDSO lies between them */
	size_t done = 0;

	while (done < len) {
		const vaddr_t at = addr + done;
		const size_t n = MIN(len - done, (size_t)(PAGE_SIZE - (at & (PAGE_SIZE - 1))));

		ASSERT(n && n <= PAGE_SIZE);
		if (at < addr || at >= top || move_part(as, at, buf + done, n, write, forced))
			break;
		done += n;
	}
	return done;
}

size_t aspace_read_memory(struct aspace *as, vaddr_t addr, void *buf, size_t len)
{
	return move(as, addr, buf, len, false, false);
}

size_t aspace_write_memory(struct aspace *as, vaddr_t addr, const void *buf, size_t len)
{
	/* Not written to: it is what is copied from. */
	return move(as, addr, (uint8_t *)(uintptr_t)buf, len, true, false);
}

size_t aspace_read_forced(struct aspace *as, vaddr_t addr, void *buf, size_t len)
{
	return move(as, addr, buf, len, false, true);
}

size_t aspace_write_forced(struct aspace *as, vaddr_t addr, const void *buf, size_t len)
{
	/* Not written to: it is what is copied from. */
	return move(as, addr, (uint8_t *)(uintptr_t)buf, len, true, true);
}
