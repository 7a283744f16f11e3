/* SPDX-License-Identifier: MIT */
/*
 * madvise: pages that go, pages that are touched, guard pages.
 *
 * Flow:	what goes is blocked, dropped at the home if that may have some of it, then here.
 *		Guards (guard.h) come where pages went, before their range is unblocked.
 * Limits:	HUGEPAGE and NOHUGEPAGE are hints that change nothing, as on a Linux whose
 *		transparent_hugepage/enabled is "never"; MERGEABLE and UNMERGEABLE answer EINVAL, as
 *		on one without KSM.
 * Locking:	aspace.map_lock, but while pages are touched
 * Failure:	as of mmap_calls.c
 */
#include <abi/mman.h>
#include <lib/errno.h>
#include <processor/excache/home.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "advice.h"
#include "aspace.h"
#include "guard.h"
#include "range.h"
#include "seal.h"

/*
 * Drop the pages: private anonymous ones read as zero afterwards, file ones as the file. @guards:
 * and guards take their place (guard_prepare()).
 */
static int discard(struct aspace *as, vaddr_t start, uint64_t len, bool guards)
{
	const struct page_range range = { .first = start >> PAGE_SHIFT,
					  .end = (start + len) >> PAGE_SHIFT };
	struct blocked_range r;
	int err = range_begin(as, &r, start, len);

	if (err)
		return err;
	if (object_stores_any(as->anon, range.first, range.end))
		err = home_discard(as->anon, &range, 1);
	if (err)
		range_failed(as, start, err);
	else
		(void)pages_forget(as, start, len);
	if (!err && guards)
		guard_add(as, start, start + len);
	range_end(as, &r);
	return err;
}

int range_discard(struct aspace *as, vaddr_t start, uint64_t len)
{
	return discard(as, start, len, false);
}

/* The pages of the range go, and an access faults until the guards are removed. */
static int install_guards(struct aspace *as, vaddr_t start, uint64_t len)
{
	int err = guard_prepare(as, true);

	if (!err)
		err = discard(as, start, len, true);
	return err;
}

static int remove_guards(struct aspace *as, vaddr_t start, uint64_t len)
{
	const int err = guard_prepare(as, false);

	if (!err)
		guard_cut(as, start, start + len);
	return err;
}

/* Is all of the range, which is mapped, private memory without a file? Else MADV_FREE is EINVAL. */
static int check_anonymous(struct aspace *as, vaddr_t start, uint64_t len)
{
	for (vaddr_t at = start; at < start + len;) {
		struct layout_seq seq;
		struct vma v;
		bool anonymous;

		if (aspace_find_vma(as, at, &v, &seq))
			return -ENOMEM;
		anonymous = !v.file && !(v.flags & VMA_SHARED);
		at = v.end;
		vma_release(&v);
		if (!anonymous)
			return -EINVAL;
	}
	return 0;
}

static long populate(struct aspace *as, vaddr_t start, uint64_t len, enum populate how)
{
	const int err = aspace_populate(as, start, len, how);

	return err == -EACCES ? -EINVAL : err == -EIO ? -EFAULT : err;
}

/* Locked pages are to stay. */
static bool takes_pages_away(int advice)
{
	return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_COLD ||
	       advice == MADV_PAGEOUT || advice == MADV_GUARD_INSTALL;
}

static bool is_mark(int advice)
{
	return advice == MADV_DONTFORK || advice == MADV_DOFORK ||
	       (advice >= MADV_DONTDUMP && advice <= MADV_KEEPONFORK);
}

static int advise_marks(struct aspace *as, vaddr_t start, uint64_t len, int advice)
{
	int err = mutex_lock_killable(&as->map_lock);

	if (err)
		return err;
	if (len)
		err = advice_give(as, start, start + len, advice);
	mutex_unlock(&as->map_lock);
	return err;
}

/* madvise(addr, len, advice) */
long sys_madvise(const struct syscall_args *args)
{
	struct aspace *as = aspace_current();
	const uint64_t start = args->a[0];
	uint64_t len = args->a[1];
	const int advice = (int)args->a[2];
	bool drop = false;
	int err;

	if (range_check(start, &len, -EINVAL))
		return -EINVAL;
	if (is_mark(advice))
		return advise_marks(as, start, len, advice);
	switch (advice) {
	case MADV_POPULATE_READ:
	case MADV_POPULATE_WRITE:
		return populate(as, start, len,
				advice == MADV_POPULATE_READ ? POPULATE_READ : POPULATE_WRITE);
	case MADV_DONTNEED:
	case MADV_DONTNEED_LOCKED:
	case MADV_FREE:
	case MADV_GUARD_INSTALL:
		drop = true;
		break;
	case MADV_NORMAL ... MADV_WILLNEED:
	case MADV_HUGEPAGE:
	case MADV_NOHUGEPAGE:
	case MADV_COLD:
	case MADV_PAGEOUT:
	case MADV_GUARD_REMOVE:
		break;
	default:
		return -EINVAL;
	}
	err = mutex_lock_killable(&as->map_lock);
	if (err)
		return err;
	if (len)
		err = aspace_check_mapped(as, start, len);
	if (len && !err && takes_pages_away(advice) && locked_in(as, start, start + len))
		err = -EINVAL;
	if (len && !err && advice == MADV_FREE)
		err = check_anonymous(as, start, len);
	if (len && !err && drop)
		err = seal_check_discard(as, start, len);
	if (len && !err && advice == MADV_GUARD_INSTALL)
		err = install_guards(as, start, len);
	else if (len && !err && drop)
		err = discard(as, start, len, false);
	else if (len && !err && advice == MADV_GUARD_REMOVE)
		err = remove_guards(as, start, len);
	mutex_unlock(&as->map_lock);
	return err;
}
