/* SPDX-License-Identifier: MIT */
/*
 * Keys: how futex code knows a word.
 *
 * Two threads mean the same word if they reach the same byte of memory: in a shared mapping that is
 * the object and the offset in it, whatever addresses it has; private memory belongs to one space.
 * So a shared operation on private memory has the same key as a private one, as on Linux.
 */
#include "futex_private.h"

#include <arch/uaccess.h>
#include <lib/errno.h>
#include <processor/mm/aspace.h>

static int find_vma(struct aspace *as, uint64_t addr, struct vma *v)
{
	struct layout_seq seq;
	uint32_t word;
	int err = aspace_find_vma(as, addr, v, &seq);

	if (err != -ENOENT)
		return err;
	/* The copy of the layout knows what has been touched. */
	if (get_user_u32(&word, (const void __user *)addr))
		return -EFAULT;
	return aspace_find_vma(as, addr, v, &seq) ? -EFAULT : 0;
}

int futex_word_get(struct aspace *as, uint64_t addr, bool shared, struct futex_word *w)
{
	struct vma v;
	uint32_t word;
	int err;

	if (addr & 3)
		return -EINVAL;
	if (!user_range_ok(addr, 4))
		return -EFAULT;
	w->addr = addr;
	w->key = (struct futex_key){ .owner = as, .where = addr };
	if (!shared)
		return 0;
	err = find_vma(as, addr, &v);
	if (err)
		return err;
	/* As Linux, which must be able to make a private copy to know the page. */
	if (!(v.flags & VMA_SHARED) && !v.file && !(v.prot & VMA_PROT_WRITE))
		err = -EFAULT;
	/* The page may lie behind the end of its file. */
	if (!err && (v.flags & VMA_SHARED) && v.file &&
	    get_user_u32(&word, (const void __user *)addr))
		err = -EFAULT;
	if (!err && (v.flags & VMA_SHARED) && v.file) {
		object_get(v.file);
		w->key.object = v.file;
		w->key.owner = v.file;
		w->key.where = (v.pgoff << PAGE_SHIFT) + (addr - v.start);
	}
	vma_release(&v);
	return err;
}

void futex_word_put(struct futex_word *w)
{
	if (w->key.object)
		object_put(w->key.object);
}
