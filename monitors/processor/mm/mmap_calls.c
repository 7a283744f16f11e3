/* SPDX-License-Identifier: MIT */
/*
 * mmap, munmap, mprotect, brk.
 *
 * Flow:	check the arguments as Linux does; ask the home, which assigns addresses and tells
 *		the owners; bring the copies up to date. A range that goes away: block, keep its
 *		lines where they are, ask the home, unmap, flush and drop the lines, unblock.
 * Locking:	aspace.map_lock across each call.
 * Failure:	a refusal of the home has changed nothing, here either; after an error that leaves
 *		open what the owners have done, the program ends.
 * See:		docs/design/excache.md, "a range goes away"
 */
#include <abi/mman.h>
#include <abi/prctl.h>
#include <arch/uaccess.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/excache/excache.h>
#include <processor/excache/home.h>
#include <processor/excache/write_maps.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/file.h>

#include "advice.h"
#include "anon.h"
#include "aspace.h"
#include "attach.h"
#include "commit.h"
#include "expand.h"
#include "file_maps.h"
#include "guard.h"
#include "kmem.h"
#include "lease.h"
#include "range.h"
#include "remote.h"
#include "seal.h"

/*
 * Where mappings of the program may be: what lies above is the kernel's, see
 * <processor/vdso/vdso.h>.
 */
static bool map_range_ok(uint64_t start, uint64_t len)
{
	return start <= SPACE_TOP && len <= SPACE_TOP - start;
}

int range_check(uint64_t start, uint64_t *len, int err)
{
	if ((start & (PAGE_SIZE - 1)) || *len > SPACE_TOP)
		return err;
	*len = page_up(*len);
	return map_range_ok(start, *len) ? 0 : err;
}

int layout_prepare(struct aspace *as, bool attaches, bool locks)
{
	int err = attach_prepare(as, attaches);

	if (!err)
		err = guard_prepare(as, false);
	if (!err)
		err = advice_prepare(as);
	return err ? err : locked_prepare(as, locks);
}

/* --- a range goes away ----------------------------------------------------------------- */

int range_begin(struct aspace *as, struct blocked_range *r, vaddr_t start, uint64_t len)
{
	const uint64_t first = start >> PAGE_SHIFT, end = (start + len) >> PAGE_SHIFT;
	int err;

	assert_mutex_held(&as->map_lock);
	aspace_block(as, r, start, start + len);
	err = anon_hide_reserve(as, first, end);
	if (!err) {
		err = excache_keep(as, first, end);
		if (err)
			excache_keep_end(as);
	}
	if (err)
		aspace_unblock(as, r);
	return err;
}

void range_end(struct aspace *as, struct blocked_range *r)
{
	excache_keep_end(as);
	aspace_unblock(as, r);
}

uint64_t pages_forget(struct aspace *as, vaddr_t start, uint64_t len)
{
	const uint64_t first = start >> PAGE_SHIFT, end = (start + len) >> PAGE_SHIFT;
	uint64_t nr;

	/*
	 * Each line with its mappings; then what is mapped of files and of objects behind the top.
	 */
	excache_drop_top(as, first, end);
	aspace_unmap_range(as, start, start + len);
	nr = object_clear_stored(as->anon, first, end);
	anon_hide(as, first, end);
	return nr;
}

void range_replaced(struct aspace *as, vaddr_t start, uint64_t len)
{
	(void)pages_forget(as, start, len);
	attach_cut(as, start, start + len);
	guard_cut(as, start, start + len);
	advice_cut(as, start, start + len);
	locked_cut(as, start, start + len);
}

void range_forget(struct aspace *as, vaddr_t start, uint64_t len)
{
	range_replaced(as, start, len);
	aspace_clear_vmas(as, start, start + len);
}

void range_failed(struct aspace *as, vaddr_t start, int err)
{
	switch (err) {
	case -ENOMEM:
	case -EINVAL:
	case -EPERM:
	case -EEXIST:
	case -EACCES:
	case -EFAULT:
	case -EINTR: /* the calling thread is being killed, and has sent nothing */
		break;
	case -ECANCELED:
		/*
		 * It is being killed, and has left the call, which may have been executed or not:
		 * others that share the space may not go on with it.
		 */
		aspace_killed(as);
		break;
	default:
		object_fail(as->anon, err, start >> PAGE_SHIFT);
		break;
	}
}

int range_over_failed(struct aspace *as, vaddr_t start, uint64_t len, int err)
{
	if (err != -EIDRM) {
		range_failed(as, start, err);
		return err;
	}
	range_forget(as, start, len);
	return -ENOMEM;
}

/* --- mmap ---------------------------------------------------------------------------- */

/* MAP_SHARED_VALIDATE lets these pass: the flags that were there before it. */
#define MAP_BEFORE_VALIDATE                                                                      \
	(MAP_TYPE | MAP_FIXED | MAP_ANONYMOUS | MAP_32BIT | MAP_GROWSDOWN | MAP_DENYWRITE |      \
	 MAP_EXECUTABLE | MAP_LOCKED | MAP_NORESERVE | MAP_POPULATE | MAP_NONBLOCK | MAP_STACK | \
	 MAP_HUGETLB | MAP_HUGE_MASK << MAP_HUGE_SHIFT)

static int map_flags(uint32_t flags, uint32_t *out)
{
	uint32_t f = 0;

	switch (flags & MAP_TYPE) {
	case MAP_PRIVATE:
		break;
	case MAP_SHARED_VALIDATE:
		if (flags & MAP_ANONYMOUS)
			return -EINVAL;
		if (flags & ~MAP_BEFORE_VALIDATE)
			return -EOPNOTSUPP;
		f |= MAPPING_SHARED;
		break;
	case MAP_SHARED:
		f |= MAPPING_SHARED;
		break;
	default:
		return -EINVAL;
	}
	if ((flags & MAP_GROWSDOWN) &&
	    (flags & (MAP_TYPE | MAP_ANONYMOUS)) != (MAP_PRIVATE | MAP_ANONYMOUS))
		return -EINVAL; /* only what is like a stack grows like one */
	if (flags & MAP_HUGETLB)
		return -ENOMEM; /* as a Linux without reserved huge pages */
	if (flags & MAP_FIXED_NOREPLACE)
		f |= MAPPING_FIXED_NOREPLACE;
	else if (flags & MAP_FIXED)
		f |= MAPPING_FIXED;
	if (flags & (MAP_STACK | MAP_GROWSDOWN))
		f |= MAPPING_STACK;
	if (flags & MAP_GROWSDOWN)
		f |= MAPPING_GROWS;
	if (flags & MAP_NORESERVE)
		f |= MAPPING_NORESERVE;
	if (flags & MAP_32BIT)
		f |= MAPPING_LOW;
	*out = f;
	return 0;
}

static int check_file(const struct file *f, uint32_t prot, uint32_t flags)
{
	const bool shared = (flags & MAP_TYPE) != MAP_PRIVATE;
	int err;

	if (f->flags & O_PATH)
		return -EBADF;
	if (!file_readable(f))
		return -EACCES;
	if (f->ops->maps_zeroes)
		return shared && (prot & PROT_WRITE) && !file_writable(f) ? -EACCES : 0;
	err = shared ? file_may_share(f) : 0;
	if (err)
		return err;
	if (!f->object)
		return -ENODEV;
	if ((prot & PROT_EXEC) && file_noexec(f))
		return -EPERM;
	/* A file of a read-only mount is not open for writing. */
	return shared && (prot & PROT_WRITE) && !file_writable(f) ? -EACCES : 0;
}

/* Memory of the mapping's own: an object if it is shared. */
static int map_memory(struct map_request *req)
{
	struct object *object;

	req->pgoff = 0;
	if (!(req->flags & MAPPING_SHARED))
		return 0;
	object = object_shared_create(req->len,
				      !(req->flags & MAPPING_NORESERVE) || commit_is_strict());
	if (IS_ERR(object))
		return PTR_ERR(object);
	req->object = object;
	return 0;
}

/*
 * Do the pages that the mapping shows end before the largest offset of a file? Those of a file in
 * memory have addresses in a space of their own.
 */
static int check_offset(const struct file *f, const struct map_request *req)
{
	const uint64_t nr = req->len >> PAGE_SHIFT;
	uint64_t most = UINT64_MAX >> PAGE_SHIFT;

	if (f->object)
		most = f->object->kind == OBJECT_SHARED ? SPACE_TOP >> PAGE_SHIFT
							: (uint64_t)INT64_MAX >> PAGE_SHIFT;
	return nr > most || req->pgoff > most - nr ? -EOVERFLOW : 0;
}

/*
 * A shared mapping of @f, which is open for writing. As Linux: of a file that is sealed against
 * writes, one that may be read is made, and cannot become another.
 */
static int map_seals(struct map_request *req, const struct file *f)
{
	int err = 0;

	if (f->object && f->object->kind == OBJECT_SHARED && !f->ops->maps_zeroes) {
		err = write_map_begin(f->object);
		req->write_map = !err;
	}
	if (!err || (req->prot & VMA_PROT_WRITE))
		return err;
	req->flags |= MAPPING_READ_ONLY;
	return 0;
}

/*
 * Put what the mapping shows into @req, with a reference: a file, memory of its own, or nothing.
 */
static int map_object(struct map_request *req, const struct syscall_args *args)
{
	const uint32_t prot = (uint32_t)args->a[2], flags = (uint32_t)args->a[3];
	struct file *f;
	int err;

	if (flags & MAP_ANONYMOUS)
		return map_memory(req);
	f = fd_get((int)args->a[4]);
	if (IS_ERR(f))
		return PTR_ERR(f);
	req->pgoff = args->a[5] >> PAGE_SHIFT;
	err = check_offset(f, req);
	if (!err)
		err = check_file(f, prot, flags);
	if ((req->flags & MAPPING_SHARED) && !file_writable(f))
		req->flags |= MAPPING_READ_ONLY;
	else if (!err && (req->flags & MAPPING_SHARED))
		err = map_seals(req, f);
	if (!err && f->ops->maps_zeroes) {
		err = map_memory(req);
	} else if (!err) {
		req->object = f->object;
		object_get(req->object);
		if (f->path)
			object_set_path(f->object, f->path);
	}
	file_put(f);
	return err;
}

int locked_check(struct aspace *as, uint64_t more)
{
	const uint64_t limit = process_rlimit(RLIMIT_MEMLOCK);

	if (capable(CAP_IPC_LOCK))
		return 0;
	if (!limit)
		return -EPERM;
	return READ_ONCE(as->locked.nr_pages) + more > limit >> PAGE_SHIFT ? -ENOMEM : 0;
}

/* Nothing has been mapped yet. As Linux: EPERM is for a program that asks for a lock. */
static int check_lock(struct aspace *as, struct map_request *req)
{
	const bool asked = req->locks;
	int err;

	assert_mutex_held(&as->map_lock);
	req->locks |= as->locked.future && !req->moves;
	if (!req->locks)
		return 0;
	err = locked_check(as, req->len >> PAGE_SHIFT);
	return err && (!asked || err != -EPERM) ? -EAGAIN : err;
}

/* The home is asked for the mapping; with MAPPING_FIXED its range is blocked. */
static int map_at_home(struct aspace *as, struct map_request *req, vaddr_t *addr)
{
	const struct object *object = req->object;
	const bool fixed = req->flags & MAPPING_FIXED;
	int err = lease_remote_mmap(as, req, addr);

	if (fixed && err)
		err = range_over_failed(as, req->addr, req->len, err);
	else if (fixed)
		range_replaced(as, req->addr, req->len);
	if (!err && req->attached)
		attach_add(as, req->attached, *addr, req->len);
	if (!err && object && object->kind == OBJECT_FILE && !(req->prot & VMA_PROT_WRITE) &&
	    !(req->flags & MAPPING_SHARED))
		aspace_set_vma_flags(as, *addr, *addr + req->len, VMA_PRISTINE);
	return err;
}

/*
 * In the place of what is there, which is blocked meanwhile: no thread sees a part of it gone that
 * had to leave a lease before.
 */
static int map_over(struct aspace *as, struct map_request *req, vaddr_t *addr)
{
	struct blocked_range all, r;
	int err;

	aspace_block(as, &all, req->addr, req->addr + req->len);
	err = lease_mmap(as, req, addr);
	if (err == LEASE_NOT) {
		err = range_begin(as, &r, req->addr, req->len);
		if (!err) {
			err = map_at_home(as, req, addr);
			range_end(as, &r);
		}
	}
	aspace_unblock(as, &all);
	return err;
}

static int map_anywhere(struct aspace *as, struct map_request *req, vaddr_t *out)
{
	const bool fixed = req->flags & MAPPING_FIXED;
	vaddr_t addr = 0;
	int err;

	assert_mutex_held(&as->map_lock);
	err = fixed ? seal_check(as, req->addr, req->len) : 0;
	if (!err)
		err = kmem_may_map(as);
	if (!err)
		err = req->counted ? 0 : expand_check_map(as, req);
	if (!err)
		err = check_lock(as, req);
	if (!err)
		err = layout_prepare(as, req->attached, req->locks);
	if (!err && fixed) {
		err = map_over(as, req, &addr);
	} else if (!err) {
		err = lease_mmap(as, req, &addr);
		if (err == LEASE_NOT)
			err = map_at_home(as, req, &addr);
	}
	*out = addr;
	return err;
}

long aspace_map_locked(struct aspace *as, struct map_request *req)
{
	vaddr_t addr;
	int err;

	assert_mutex_held(&as->map_lock);
	err = map_anywhere(as, req, &addr);
	if (err)
		return err;
	if (req->locks)
		locked_add(as, addr, addr + req->len);
	return (long)addr;
}

long aspace_map(struct aspace *as, struct map_request *req)
{
	long ret = mutex_lock_killable(&as->map_lock);

	if (ret)
		return ret;
	ret = aspace_map_locked(as, req);
	mutex_unlock(&as->map_lock);
	return ret;
}

static uint32_t as_personality(uint32_t prot)
{
	const bool exec = READ_ONCE(process_current()->personality) & READ_IMPLIES_EXEC;

	return exec && (prot & PROT_READ) ? prot | PROT_EXEC : prot;
}

/* The errno of a call without a length, or at a wrong offset: as Linux, whose order it has. */
static long refusal(const struct syscall_args *args)
{
	struct file *f;

	if ((args->a[5] & (PAGE_SIZE - 1)) || ((uint32_t)args->a[3] & MAP_ANONYMOUS))
		return -EINVAL;
	f = fd_get((int)args->a[4]);
	if (IS_ERR(f))
		return PTR_ERR(f);
	file_put(f);
	return -EINVAL;
}

/*
 * New locked memory is there at once (@asked: by MAP_LOCKED), as far as it can be: what cannot be
 * touched is no error, as on Linux.
 */
void locked_touch(vaddr_t start, uint64_t len, bool asked)
{
	struct aspace *as = aspace_current();

	if (asked || !READ_ONCE(as->locked.on_fault))
		(void)!aspace_populate(as, start, len, POPULATE_LOCK);
}

/* mmap(addr, len, prot, flags, fd, offset) */
long sys_mmap(const struct syscall_args *args)
{
	struct map_request req = { .addr = args->a[0], .len = args->a[1] };
	const uint32_t prot = (uint32_t)args->a[2], flags = (uint32_t)args->a[3];
	long ret;

	if (req.len == 0 || (args->a[5] & (PAGE_SIZE - 1)))
		return refusal(args);
	if (req.len > SPACE_TOP)
		return -ENOMEM;
	req.len = page_up(req.len);
	ret = map_flags(flags, &req.flags);
	if (ret)
		return ret;
	if (req.flags & (MAPPING_FIXED | MAPPING_FIXED_NOREPLACE)) {
		if (req.addr & (PAGE_SIZE - 1))
			return -EINVAL;
		if (!map_range_ok(req.addr, req.len))
			return -ENOMEM;
	} else {
		req.addr &= ~(uint64_t)(PAGE_SIZE - 1);
		if (!map_range_ok(req.addr, req.len))
			req.addr = 0; /* a hint only */
	}
	req.prot = as_personality(prot & (PROT_READ | PROT_WRITE | PROT_EXEC));
	req.locks = flags & MAP_LOCKED;
	ret = map_object(&req, args);
	if (ret)
		return ret;
	ret = aspace_map(aspace_current(), &req);
	if (req.write_map)
		write_map_end(req.object);
	if (req.object)
		object_put(req.object); /* the mapping has one of its own */
	if (ret >= 0 && req.locks)
		locked_touch((vaddr_t)ret, req.len, flags & MAP_LOCKED);
	return ret;
}

/* Would an munmap of the range leave two parts of one vma, as this node knows it? */
static bool leaves_two(struct aspace *as, vaddr_t start, uint64_t len)
{
	struct layout_seq seq;
	struct vma v;
	bool two;

	if (aspace_find_vma(as, start, &v, &seq))
		return false;
	two = v.start < start && v.end - start > len;
	vma_release(&v);
	return two;
}

int aspace_unmap(struct aspace *as, vaddr_t start, uint64_t len)
{
	struct blocked_range r;
	int err = seal_check(as, start, len);

	if (!err && leaves_two(as, start, len))
		err = kmem_may_map(as);
	if (!err)
		err = layout_prepare(as, false, false);
	if (!err)
		err = lease_munmap(as, start, len);
	if (err == LEASE_NOT) {
		err = range_begin(as, &r, start, len);
		if (err)
			return err;
		err = remote_munmap(as, start, len);
		if (err)
			range_failed(as, start, err);
		else
			range_forget(as, start, len);
		range_end(as, &r);
	}
	kmem_unmapped(as);
	return err;
}

/* munmap(addr, len) */
long sys_munmap(const struct syscall_args *args)
{
	const uint64_t start = args->a[0];
	struct aspace *as = aspace_current();
	uint64_t len = args->a[1];
	int err;

	if (len == 0 || range_check(start, &len, -EINVAL))
		return -EINVAL;
	file_maps_flush(as, start, start + len);
	err = mutex_lock_killable(&as->map_lock);
	if (err)
		return err;
	err = aspace_unmap(as, start, len);
	mutex_unlock(&as->map_lock);
	return err;
}

/* A shared mapping of a file that is not open for writing cannot become writable: -EACCES. */
static int check_writable(struct aspace *as, vaddr_t start, vaddr_t end)
{
	for (vaddr_t at = start; at < end;) {
		struct vma v;
		bool refused;
		const int err = aspace_vma_at(as, at, &v);

		if (err) /* a hole: the home knows what it means */
			return err == -EFAULT ? 0 : err;
		refused = v.flags & VMA_READ_ONLY;
		at = v.end;
		vma_release(&v);
		if (refused)
			return -EACCES;
	}
	return 0;
}

/* mprotect of [start, +len), which is blocked; it may become a lease. */
static int protect_at_home(struct aspace *as, vaddr_t start, uint64_t len, uint32_t prot)
{
	int err = lease_grow(as, start, len, prot);

	if (err != LEASE_NOT)
		return err;
	err = remote_mprotect(as, start, len, prot);
	if (lease_may_help(as, err))
		err = remote_mprotect(as, start, len, prot);
	/* After a failure half way the home knows best: ask again on the next touch. */
	if (err)
		aspace_clear_vmas(as, start, start + len);
	else
		aspace_protect_vmas(as, start, start + len, prot);
	return err;
}

/* mprotect of [start, +len), which is all leased, or all not. */
static int protect_part(struct aspace *as, vaddr_t start, uint64_t len, uint32_t prot,
			uint32_t rights)
{
	struct blocked_range r;
	int err = lease_mprotect(as, start, len, rights);

	if (err != LEASE_NOT)
		return err;
	err = (prot & PROT_WRITE) ? check_writable(as, start, start + len) : 0;
	if (err)
		return err;
	aspace_block(as, &r, start, start + len);
	err = protect_at_home(as, start, len, rights);
	/* PTEs are a cache of tags and rights: the next touch makes them anew. */
	aspace_unmap_range(as, start, start + len);
	aspace_unblock(as, &r);
	return err;
}

/* As Linux: what stands before a part that is an error is changed. */
static int protect_locked(struct aspace *as, vaddr_t start, uint64_t len, uint32_t prot,
			  uint32_t rights)
{
	int err = seal_check(as, start, len);

	assert_mutex_held(&as->map_lock);
	if (!err)
		err = kmem_may_map(as);
	if (!err)
		err = expand_check_protect(as, start, start + len, rights);
	while (!err && len) {
		const uint64_t part = lease_uniform(as, start, len);

		err = protect_part(as, start, part, prot, rights);
		start += part;
		len -= part;
	}
	return err;
}

/* mprotect(addr, len, prot) */
long sys_mprotect(const struct syscall_args *args)
{
	const uint32_t prot = (uint32_t)args->a[2];
	struct aspace *as = aspace_current();
	const uint64_t start = args->a[0];
	uint64_t len = args->a[1];
	int err;

	if (prot & ~(PROT_READ | PROT_WRITE | PROT_EXEC | PROT_GROWSDOWN | PROT_GROWSUP))
		return -EINVAL;
	if (start & (PAGE_SIZE - 1))
		return -EINVAL;
	if (len == 0)
		return 0;
	if (range_check(start, &len, -ENOMEM))
		return -ENOMEM;
	err = mutex_lock_killable(&as->map_lock);
	if (err)
		return err;
	err = protect_locked(as, start, len, prot, as_personality(prot & VMA_PROT_ALL));
	mutex_unlock(&as->map_lock);
	return err;
}

/* No lease is in the way of a break that goes from @old_end to @new_end. */
static int leave_for_brk(struct aspace *as, vaddr_t old_end, vaddr_t new_end)
{
	const vaddr_t start = MIN(old_end, new_end);
	int err = layout_prepare(as, false, false);

	if (!err && new_end > old_end && as->locked.future)
		err = locked_check(as, (new_end - old_end) >> PAGE_SHIFT);
	return err ? err : lease_leave(as, start, MAX(old_end, new_end) - start, new_end > old_end);
}

static void set_brk(struct aspace *as, vaddr_t want)
{
	const vaddr_t old_end = page_up(as->brk), new_end = page_up(want);
	vaddr_t brk;
	int err;

	err = remote_brk(as, want, &brk);
	if (!err && brk == want && new_end < old_end)
		range_forget(as, new_end, old_end - new_end);
	else if (err && new_end < old_end)
		range_failed(as, new_end, err);
	if (!err)
		as->brk = brk;
	if (!err && brk == want && new_end > old_end && as->locked.future)
		locked_add(as, old_end, new_end);
}

/* brk(addr): the break that holds now, in any case */
long sys_brk(const struct syscall_args *args)
{
	struct aspace *as = aspace_current();
	const vaddr_t want = args->a[0];
	const vaddr_t new_end = page_up(want);
	struct blocked_range r;
	vaddr_t brk, old_end;
	bool locks;

	if (mutex_lock_killable(&as->map_lock))
		return -EINTR; /* which no program sees */
	old_end = page_up(as->brk);
	if (want < as->brk_start || want > SPACE_TOP) {
		/* refused: the answer is the break that holds */
	} else if (expand_check_brk(as, want)) {
		/* the same */
	} else if (new_end == old_end) {
		as->brk = want;
	} else if (new_end < old_end && seal_check(as, new_end, old_end - new_end)) {
		/* the same */
	} else if (leave_for_brk(as, old_end, new_end)) {
		/* the same */
	} else if (new_end > old_end) {
		set_brk(as, want);
	} else if (!range_begin(as, &r, new_end, old_end - new_end)) {
		set_brk(as, want);
		range_end(as, &r);
	}
	brk = as->brk;
	locks = as->locked.future && page_up(brk) > old_end;
	mutex_unlock(&as->map_lock);
	if (locks)
		locked_touch(old_end, page_up(brk) - old_end, false);
	return (long)brk;
}

int aspace_vma_at(struct aspace *as, vaddr_t addr, struct vma *out)
{
	struct layout_seq seq;

	while (aspace_find_vma(as, addr, out, &seq)) {
		const int err = remote_fill_vma(as, addr, SEQ_ANY);

		if (err)
			return err;
	}
	return 0;
}

int aspace_check_mapped(struct aspace *as, vaddr_t start, uint64_t len)
{
	for (vaddr_t at = start; at < start + len;) {
		struct vma v;
		const int err = aspace_vma_at(as, at, &v);

		if (err)
			return err == -EFAULT ? -ENOMEM : err;
		at = v.end;
		vma_release(&v);
	}
	return 0;
}
