/* SPDX-License-Identifier: MIT */
/* See user_word.h: the access is made under the space's lock, as the mapping may go at any time. */
#include "user_word.h"

#include <abi/resource.h>
#include <mm/kmap.h>
#include <processor/process/process.h>
#include <shim/pgtable.h>

uint64_t user_memlock = UINT64_MAX;

uint64_t process_rlimit(unsigned int kind)
{
	return kind == RLIMIT_MEMLOCK ? user_memlock : UINT64_MAX;
}

bool capable(unsigned int cap)
{
	return user_memlock == UINT64_MAX;
}

#define WORDS_PER_PAGE (PAGE_SIZE / sizeof(uint64_t))

int user_word(struct aspace *as, vaddr_t base, uint64_t page, uint64_t *val, bool write)
{
	const vaddr_t va = base + page * PAGE_SIZE;

	for (;;) {
		struct pgtable_entry e;
		bool ok;
		int err;

		spin_lock(&as->lock);
		ok = pgtable_query(as->pt, va, &e) && shim_pgtable_touch(as->pt, va, write);
		if (ok) {
			uint64_t *word = (uint64_t *)phys_to_virt(e.paddr) + page % WORDS_PER_PAGE;

			if (write)
				*word = *val;
			else
				*val = *word;
		}
		spin_unlock(&as->lock);
		if (ok)
			return 0;
		err = aspace_fault(as, va, write ? FAULT_ACC_WRITE : FAULT_ACC_READ);
		if (err)
			return err;
	}
}
