/* SPDX-License-Identifier: MIT */
/*
 * remap_file_pages, as Linux has it since 4.0: a part of a shared mapping is mapped again over
 * itself, from another page of what it shows.
 *
 * Locking:	aspace.map_lock
 * Limits:	nothing is populated: pages come when they are touched.
 */
#include <lib/errno.h>
#include <processor/excache/object.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "aspace.h"
#include "attach.h"
#include "remote.h"

/* aspace_vma_at(), but -EINVAL where nothing is mapped. */
static int vma_at(struct aspace *as, vaddr_t at, struct vma *v)
{
	const int err = aspace_vma_at(as, at, v);

	return err == -EFAULT ? -EINVAL : err;
}

/* Is all of [at, end) mapped as @v is, and shows the same object? */
static int check_rest(struct aspace *as, const struct vma *v, vaddr_t at, vaddr_t end)
{
	int err = 0;

	while (!err && at < end) {
		struct vma next;

		err = vma_at(as, at, &next);
		if (err)
			break;
		if (next.file != v->file || next.flags != v->flags || next.prot != v->prot)
			err = -EINVAL;
		at = next.end;
		vma_release(&next);
	}
	return err;
}

/* The last page of what may be shown, as for mmap(). */
static int check_offset(const struct object *file, uint64_t pgoff, uint64_t nr)
{
	const uint64_t most = file->kind == OBJECT_SHARED ? SPACE_TOP >> PAGE_SHIFT
							  : (uint64_t)INT64_MAX >> PAGE_SHIFT;

	return nr > most || pgoff > most - nr ? -EOVERFLOW : 0;
}

static long remap(struct aspace *as, const struct vma *v, vaddr_t start, uint64_t len,
		  uint64_t pgoff)
{
	struct map_request req = {
		.addr = start,
		.len = len,
		.prot = v->prot,
		.flags = MAPPING_SHARED | MAPPING_FIXED |
			 (v->flags & VMA_READ_ONLY ? MAPPING_READ_ONLY : 0),
		.object = v->file,
		.pgoff = pgoff,
	};
	struct attachable *what = attach_at(as, start);
	long ret;

	assert_mutex_held(&as->map_lock);
	if (what)
		what->attached(what, 1); /* it stays while its old range goes */
	ret = aspace_map_locked(as, &req);
	if (what && ret >= 0)
		attach_part(as, what, start, len, start - (pgoff << PAGE_SHIFT));
	if (what)
		what->attached(what, -1);
	return ret < 0 ? ret : 0;
}

/* remap_file_pages(addr, len, prot, pgoff, flags) */
long sys_remap_file_pages(const struct syscall_args *args)
{
	const uint64_t start = args->a[0] & ~(uint64_t)PAGE_MASK_LOW;
	const uint64_t len = args->a[1] & ~(uint64_t)PAGE_MASK_LOW, pgoff = args->a[3];
	struct aspace *as = aspace_current();
	struct vma v;
	long ret;

	if (args->a[2] || start + len <= start || pgoff + (len >> PAGE_SHIFT) < pgoff)
		return -EINVAL;
	if (start >= SPACE_TOP || len > SPACE_TOP - start)
		return -EINVAL;
	ret = mutex_lock_killable(&as->map_lock);
	if (ret)
		return ret;
	ret = vma_at(as, start, &v);
	if (!ret) {
		if (!(v.flags & VMA_SHARED) || !v.file)
			ret = -EINVAL;
		if (!ret)
			ret = check_rest(as, &v, v.end, start + len);
		if (!ret)
			ret = check_offset(v.file, pgoff, len >> PAGE_SHIFT);
		if (!ret)
			ret = remap(as, &v, start, len, pgoff);
		vma_release(&v);
	}
	mutex_unlock(&as->map_lock);
	return ret;
}
