/* SPDX-License-Identifier: MIT */
/*
 * msync, and the end of shared mappings of files that change.
 *
 * Locking:	aspace.map_lock only while the next mapping is looked for: a write-back may take as
 *		long as a disk needs.
 * Failure:	msync() goes on behind a hole, as Linux does, and answers -ENOMEM at the end.
 * Limits:	a loss of data is told to the first msync(MS_SYNC) of the file after it, whichever
 *		process makes it, and besides to each open file.
 */
#include "file_maps.h"

#include <abi/mman.h>
#include <processor/excache/file_dirty.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "aspace.h"

static bool is_live(const struct vma *v)
{
	return v->file && v->file->kind == OBJECT_FILE && v->file->live && (v->flags & VMA_SHARED);
}

/* A part of a file that is mapped. */
struct file_part {
	struct object *file; /* counted */
	uint64_t first, end; /* pages */
};

static struct file_part part_of(const struct vma *v, vaddr_t start, vaddr_t end)
{
	const vaddr_t from = MAX(v->start, start), to = MIN(v->end, end);
	const uint64_t first = v->pgoff + ((from - v->start) >> PAGE_SHIFT);

	return (struct file_part){ v->file, first, first + ((to - from) >> PAGE_SHIFT) };
}

/* The next such part from *@at on, which goes behind it; false: there is none before @end. */
static bool next_part(struct aspace *as, vaddr_t *at, vaddr_t end, struct file_part *part)
{
	const vaddr_t start = *at;
	struct vma v;

	while (aspace_next_vma(as, *at, end, &v)) {
		*at = v.end;
		if (is_live(&v)) {
			*part = part_of(&v, start, end);
			return true; /* with the vma's reference */
		}
		vma_release(&v);
	}
	return false;
}

void file_maps_flush(struct aspace *as, vaddr_t start, vaddr_t end)
{
	struct file_part part;

	if (!file_dirty_is_used())
		return;
	while (next_part(as, &start, end, &part)) {
		if (file_dirty_any(part.file))
			(void)!file_dirty_flush(part.file, part.first, part.end, false);
		object_put(part.file);
	}
}

void file_maps_end(struct aspace *as)
{
	struct file_part part;
	vaddr_t at = 0;

	if (!file_dirty_is_used())
		return;
	while (next_part(as, &at, SPACE_TOP, &part)) {
		file_dirty_soon(part.file);
		object_put(part.file);
	}
}

/* --- msync ----------------------------------------------------------------------------- */

/*
 * The mapping at *@at, which moves to its end, or the hole: -ENOMEM. part->file is NULL if it is
 * not one of a file that changes.
 */
static int msync_next(struct aspace *as, vaddr_t *at, vaddr_t end, struct file_part *part)
{
	const vaddr_t start = *at;
	struct layout_seq seq;
	struct vma v;
	int err;

	part->file = NULL;
	err = aspace_check_mapped(as, start, PAGE_SIZE);
	if (err == -ENOMEM) {
		*at = end;
		if (aspace_next_vma(as, start, end, &v)) {
			*at = MAX(v.start, start + PAGE_SIZE);
			vma_release(&v);
		}
		return err;
	}
	if (!err)
		err = aspace_find_vma(as, start, &v, &seq);
	if (err)
		return err;
	*at = v.end;
	if (is_live(&v))
		*part = part_of(&v, start, end);
	else
		vma_release(&v);
	return 0;
}

/*
 * The same for msync(@flags), with map_lock taken. As Linux: pages that are locked cannot be
 * invalidated.
 */
static int msync_look(struct aspace *as, vaddr_t *at, vaddr_t end, uint32_t flags,
		      struct file_part *part)
{
	const vaddr_t start = *at;
	int err;

	part->file = NULL;
	err = mutex_lock_killable(&as->map_lock);
	if (err)
		return err;
	err = msync_next(as, at, end, part);
	if (!err && (flags & MS_INVALIDATE) && locked_in(as, start, MIN(*at, end)))
		err = -EBUSY;
	mutex_unlock(&as->map_lock);
	if (err == -EBUSY && part->file)
		object_put(part->file);
	return err;
}

/* msync(addr, len, flags) */
long sys_msync(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[2];
	struct aspace *as = aspace_current();
	vaddr_t at = args->a[0];
	const uint64_t len = args->a[1];
	vaddr_t end;
	int err = 0, hole = 0;

	if (flags & ~(MS_ASYNC | MS_INVALIDATE | MS_SYNC))
		return -EINVAL;
	if (((flags & MS_ASYNC) && (flags & MS_SYNC)) || (at & (PAGE_SIZE - 1)))
		return -EINVAL;
	if (len > SPACE_TOP || at > SPACE_TOP - len)
		return -ENOMEM;
	end = (at + len + PAGE_SIZE - 1) & ~(vaddr_t)(PAGE_SIZE - 1);
	while (at < end && !err) {
		struct file_part part;

		err = msync_look(as, &at, end, flags, &part);
		if (err == -ENOMEM) {
			hole = err;
			err = 0;
		}
		if (err || !part.file)
			continue;
		if (flags & MS_SYNC)
			err = file_dirty_flush(part.file, part.first, part.end, true);
		else if (flags & MS_ASYNC)
			file_dirty_soon(part.file);
		object_put(part.file);
	}
	return err ? err : hole;
}
