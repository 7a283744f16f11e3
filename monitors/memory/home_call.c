/* SPDX-License-Identifier: MIT */
/*
 * Home: the calls of processors on a space with mappings, and moving a vRegion to another owner.
 *
 * Flow:	lock the space, act at its owners, note the result in the range map, reply with the
 *		areas of the range as they now are, the vRegion entries, and credits.
 * Context:	a thread of its own for each request, as these wait for owners.
 */
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/errno.h>

#include "memory.h"

/* --- replies --------------------------------------------------------------------------- */

static void reply_range(struct memory *m, const struct home_space *as, uint64_t start, uint64_t end,
			struct pm_range_rep *rep) __must_hold(&as->mutex)
{
	const struct area *area;

	for (area = area_above(&as->map, start);
	     area && area->v.start < end && rep->nr_vmas < PM_RANGE_MAX_VMAS;
	     area = area_next(area))
		rep->vmas[rep->nr_vmas++] =
			area_clip(&area->v, MAX(area->v.start, start), MIN(area->v.end, end));
	reply_vregions(m, as, start, end, rep);
}

void reply_vregions(struct memory *m, const struct home_space *as, uint64_t start, uint64_t end,
		    struct pm_range_rep *rep)
{
	rep->nr_vregions =
		home_space_vregions(m, as, start, end, rep->vregions, PM_RANGE_MAX_VREGIONS);
}

void reply_grants(const struct grants *g, struct pm_range_rep *rep)
{
	for (uint16_t i = 0; i < g->nr; i++)
		rep->grants[rep->nr_grants++] = g->grants[i];
}

void reply_init(struct pm_range_rep *rep)
{
	rep->addr = 0;
	rep->nr_vmas = 0;
	rep->nr_vregions = 0;
	rep->nr_grants = 0;
}

uint32_t home_wanted(uint32_t want, uint64_t len)
{
	return (uint32_t)MIN((uint64_t)want, len >> PAGE_SHIFT);
}

/* --- mmap, munmap, mprotect ------------------------------------------------------------ */

static void mmap_vma(struct memory *m, const struct pm_mmap_req *req, uint64_t addr,
		     struct pm_vma *v)
{
	*v = (struct pm_vma){
		.start = addr,
		.end = addr + req->len,
		.prot = req->prot,
	};
	if (req->flags & PM_MAP_SHARED)
		v->flags |= PM_VMA_SHARED;
	if (req->flags & PM_MAP_READ_ONLY)
		v->flags |= PM_VMA_READ_ONLY;
	if (req->flags & PM_MAP_GROWS)
		v->flags |= PM_VMA_GROWS;
	/* As Linux: the strict mode reserves all the same. */
	if ((req->flags & PM_MAP_NORESERVE) && pool_commit_mode(&m->pool) != PM_COMMIT_STRICT)
		v->flags |= PM_VMA_NORESERVE;
	if (req->object) {
		v->flags |= PM_VMA_OBJECT;
		v->object = req->object;
		v->pgoff = req->pgoff;
		v->file_bytes = UINT64_MAX;
	}
	if (!req->file.node)
		return;
	v->flags |= PM_VMA_FILE;
	v->file = req->file;
	v->pgoff = req->pgoff;
	v->file_bytes = UINT64_MAX;
	v->cache_node = memory_cache_node(m, &req->file);
}

/* Decide on the address; with PM_MAP_FIXED, clear what is there. */
static int mmap_place(struct memory *m, struct home_space *as, const struct pm_mmap_req *req,
		      uint64_t *addr) __must_hold(&as->mutex)
{
	const bool room =
		!req->file.node && !req->object && !(req->flags & (PM_MAP_SHARED | PM_MAP_STACK));

	*addr = req->addr;
	if (req->flags & (PM_MAP_FIXED | PM_MAP_FIXED_NOREPLACE)) {
		if (req->addr < HOME_MMAP_MIN)
			return -EPERM;
		if (req->flags & PM_MAP_FIXED_NOREPLACE)
			return area_range_is_free(&as->map, req->addr, req->addr + req->len)
				       ? 0
				       : -EEXIST;
		return span_unmap(m, as, req->addr, req->addr + req->len);
	}
	*addr = (req->flags & PM_MAP_LOW)
			? place_find_low(&as->map, req->addr, req->len)
			: place_find(&as->map, as->mmap_top, req->addr, req->len, room);
	return *addr ? 0 : -ENOMEM;
}

int home_mmap(struct memory *m, uint32_t proc, const struct pm_mmap_req *req,
	      struct pm_range_rep *rep)
{
	struct home_space *as = home_space_lock(m, req->aspace, proc, SPACE_MAPPED);
	struct grants grants = { 0 };
	struct pm_vma v;
	bool replaces = false;
	uint64_t addr;
	int err;

	reply_init(rep);
	if (IS_ERR(as))
		return (int)PTR_ERR(as);
	assert_mutex_held(&as->mutex);
	err = home_lease_map(m, as, req, &grants, &v);
	if (err == -ENOMEM) {
		if (req->flags & PM_MAP_FIXED)
			replaces = !area_range_is_free(&as->map, req->addr, req->addr + req->len);
		if (req->object && home_space_is_others(m, req->object, proc))
			err = -ESRCH;
		else
			err = mmap_place(m, as, req, &addr);
		if (!err) {
			mmap_vma(m, req, addr, &v);
			err = span_map(m, as, &v, home_wanted(req->want_credits, req->len),
				       &grants);
			if (err == -ENOMEM && replaces)
				err = -EIDRM; /* the processor must know that the old one is gone */
		}
	}
	if (!err) {
		rep->addr = v.start;
		reply_range(m, as, v.start, v.end, rep);
		reply_grants(&grants, rep);
	}
	home_space_unlock(as);
	return err;
}

int home_munmap(struct memory *m, uint32_t proc, const struct pm_range_req *req,
		struct pm_range_rep *rep)
{
	struct home_space *as = home_space_lock(m, req->aspace, proc, SPACE_MAPPED);
	int err;

	reply_init(rep);
	if (IS_ERR(as))
		return (int)PTR_ERR(as);
	assert_mutex_held(&as->mutex);
	err = req->lease_pages ? -EINVAL : span_unmap(m, as, req->addr, req->addr + req->len);
	rep->addr = req->addr;
	home_space_unlock(as);
	return err;
}

/* As Linux: what stands before a hole is changed, then the hole is an error. */
static int protect_locked(struct memory *m, struct home_space *as, const struct pm_range_req *req,
			  struct pm_range_rep *rep) __must_hold(&as->mutex)
{
	const uint64_t end = req->addr + req->len;
	uint64_t until;
	int err = 0;

	assert_mutex_held(&as->mutex);
	until = area_mapped_until(&as->map, req->addr, end);
	if (until > req->addr)
		err = span_protect(m, as, req->addr, until, req->prot);
	if (err)
		return err;
	if (until < end)
		return -ENOMEM;
	rep->addr = req->addr;
	reply_range(m, as, req->addr, end, rep);
	return 0;
}

int home_mprotect(struct memory *m, uint32_t proc, const struct pm_range_req *req,
		  struct pm_range_rep *rep)
{
	struct home_space *as = home_space_lock(m, req->aspace, proc, SPACE_MAPPED);
	int err;

	reply_init(rep);
	if (IS_ERR(as))
		return (int)PTR_ERR(as);
	assert_mutex_held(&as->mutex);
	err = home_lease_protect(m, as, req, rep);
	if (err == -ENOMEM) /* without a lease */
		err = protect_locked(m, as, req, rep);
	home_space_unlock(as);
	return err;
}

/* --- mremap ---------------------------------------------------------------------------- */

/* The vma as it will be at @addr with @len bytes, made from the one that begins at @old. */
static struct pm_vma remapped(const struct pm_vma *old, uint64_t addr, uint64_t len)
{
	struct pm_vma v = *old;

	v.start = addr;
	v.end = addr + len;
	return v;
}

static int mremap_grow(struct memory *m, struct home_space *as, const struct pm_mremap_req *req,
		       const struct pm_vma *old, struct grants *grants) __must_hold(&as->mutex)
{
	const uint64_t end = req->old_addr + req->old_len;
	struct pm_vma whole, tail;

	if (req->new_len > PM_USER_TOP - req->old_addr ||
	    !area_range_is_free(&as->map, end, req->old_addr + req->new_len))
		return -ENOMEM;
	whole = remapped(old, req->old_addr, req->new_len);
	tail = area_clip(&whole, end, whole.end);
	return span_map(m, as, &tail, home_wanted(req->want_credits, req->new_len - req->old_len),
			grants);
}

/* Decide on the new place and clear it. */
static int mremap_place(struct memory *m, struct home_space *as, const struct pm_mremap_req *req,
			const struct pm_vma *old, uint64_t *addr) __must_hold(&as->mutex)
{
	const bool room = !(old->flags & (PM_VMA_FILE | PM_VMA_OBJECT | PM_VMA_SHARED));

	if (req->flags & PM_MREMAP_FIXED) {
		*addr = req->new_addr;
		return *addr < HOME_MMAP_MIN ? -EPERM
					     : span_unmap(m, as, *addr, *addr + req->new_len);
	}
	*addr = place_find(&as->map, as->mmap_top, 0, req->new_len, room);
	return *addr ? 0 : -ENOMEM;
}

/* Map the new place, move the pages, unmap the old one.  *@addr: where it is now. */
static int mremap_move(struct memory *m, struct home_space *as, const struct pm_mremap_req *req,
		       const struct pm_vma *old, uint64_t *addr, struct grants *grants)
	__must_hold(&as->mutex)
{
	const uint64_t keep = MIN(req->old_len, req->new_len);
	struct move_bufs *bufs = span_move_prepare();
	bool replaces = false;
	struct pm_vma v;
	int err = -ENOMEM;

	if (req->flags & PM_MREMAP_FIXED)
		replaces =
			!area_range_is_free(&as->map, req->new_addr, req->new_addr + req->new_len);
	if (bufs)
		err = mremap_place(m, as, req, old, addr);
	if (err)
		goto out;
	v = remapped(old, *addr, req->new_len);
	err = span_map(m, as, &v, home_wanted(req->want_credits, req->new_len), grants);
	if (err)
		goto out_replaced;
	err = span_move(m, as, req->old_addr, req->old_addr + keep, *addr, req->seq, bufs);
	if (!err)
		err = span_unmap(m, as, req->old_addr, req->old_addr + req->old_len);
	if (err) {
		/* Moved pages go back; a page that does not is lost, and the program with it. */
		if (span_move(m, as, *addr, *addr + keep, req->old_addr, req->seq, bufs))
			err = -EIO;
		(void)span_unmap(m, as, *addr, *addr + req->new_len);
	}
out_replaced:
	if (err == -ENOMEM && replaces)
		err = -EIDRM; /* as in home_mmap() */
out:
	span_move_finish(bufs);
	return err;
}

static int mremap_locked(struct memory *m, struct home_space *as, const struct pm_mremap_req *req,
			 uint64_t *addr, struct grants *grants) __must_hold(&as->mutex)
{
	const uint64_t old_end = req->old_addr + req->old_len;
	const struct area *area = area_at(&as->map, req->old_addr);
	struct pm_vma old;
	int err;

	assert_mutex_held(&as->mutex);
	if (!area || area->v.end < old_end)
		return -EFAULT;
	old = area_clip(&area->v, req->old_addr, old_end);
	*addr = req->old_addr;
	if (req->flags & PM_MREMAP_FIXED) {
		if (req->new_addr < old_end && req->old_addr < req->new_addr + req->new_len)
			return -EINVAL;
		return mremap_move(m, as, req, &old, addr, grants);
	}
	if (req->new_len == req->old_len)
		return 0;
	if (req->new_len < req->old_len)
		return span_unmap(m, as, req->old_addr + req->new_len, old_end);
	err = mremap_grow(m, as, req, &old, grants);
	if (err == -ENOMEM && (req->flags & PM_MREMAP_MAYMOVE))
		err = mremap_move(m, as, req, &old, addr, grants);
	return err;
}

int home_mremap(struct memory *m, uint32_t proc, const struct pm_mremap_req *req,
		struct pm_range_rep *rep)
{
	struct home_space *as = home_space_lock(m, req->aspace, proc, SPACE_MAPPED);
	struct grants grants = { 0 };
	uint64_t addr = 0;
	int err;

	reply_init(rep);
	if (IS_ERR(as))
		return (int)PTR_ERR(as);
	assert_mutex_held(&as->mutex);
	err = mremap_locked(m, as, req, &addr, &grants);
	if (!err) {
		rep->addr = addr;
		reply_range(m, as, addr, addr + req->new_len, rep);
		reply_grants(&grants, rep);
	}
	home_space_unlock(as);
	return err;
}

/* --- brk ------------------------------------------------------------------------------- */

static int brk_grow(struct memory *m, struct home_space *as, uint64_t start, uint64_t end,
		    uint32_t want, struct grants *grants) __must_hold(&as->mutex)
{
	const struct pm_vma v = {
		.start = start,
		.end = end,
		.prot = PM_PROT_READ | PM_PROT_WRITE,
		.flags = PM_VMA_HEAP,
	};

	if (!area_range_is_free(&as->map, start, end))
		return -ENOMEM;
	return span_map(m, as, &v, home_wanted(want, end - start), grants);
}

int home_brk(struct memory *m, uint32_t proc, const struct pm_brk_req *req,
	     struct pm_range_rep *rep)
{
	struct home_space *as = home_space_lock(m, req->aspace, proc, SPACE_MAPPED);
	struct grants grants = { 0 };
	uint64_t old_end, end, brk = req->brk;
	int err = 0;

	reply_init(rep);
	if (IS_ERR(as))
		return (int)PTR_ERR(as);
	assert_mutex_held(&as->mutex);
	if (req->brk >= as->brk_start && req->brk <= as->brk_max) {
		old_end = ALIGN_UP(as->brk, PAGE_SIZE);
		end = home_lease_brk(m, as, req);
		err = -ENOMEM;
		if (end > old_end)
			err = brk_grow(m, as, old_end, end, req->want_credits, &grants);
		if (!err) {
			brk = end;
		} else if (err == -ENOMEM) { /* without a lease */
			end = ALIGN_UP(req->brk, PAGE_SIZE);
			err = 0;
			if (end > old_end)
				err = brk_grow(m, as, old_end, end, req->want_credits, &grants);
			else if (end < old_end)
				err = span_unmap(m, as, end, old_end);
		}
		if (!err)
			as->brk = brk;
		if (!err && end > old_end)
			reply_range(m, as, old_end, end, rep);
	}
	/* As Linux's brk: a failure is told by the old value; only lost owners are an error. */
	if (err == -ENOMEM)
		err = 0;
	rep->addr = as->brk;
	reply_grants(&grants, rep);
	home_space_unlock(as);
	return err;
}

/* --- vRegions -------------------------------------------------------------------------- */

int home_expect(struct memory *m, const struct home_space *as, uint32_t to, uint32_t from)
{
	const struct mm_expect_req req = {
		.aspace = as->id,
		.from = from,
		.processor = as->proc,
		.vnode = as->vnode,
	};
	struct mm_expect_req_wire w;
	int ret;

	mm_expect_req_encode(&req, &w);
	ret = memory_call(m, to, MM_EXPECT, &w, sizeof(w), NULL, 0);
	return MIN(ret, 0);
}

/* Ask the owner of @vr, or ask again: with the same version it is the same move. */
static int move_ask(struct memory *m, struct home_space *as, struct home_vregion *vr,
		    uint64_t index, uint32_t to) __must_hold(&as->mutex)
{
	const struct mm_vregion_move_req req = {
		.aspace = as->id,
		.vregion = {
			.index = index,
			.owner = to,
			.secondary = vr->secondary,
			.version = vr->version + 1,
		},
		.processor = as->proc,
		.vnode = as->vnode,
	};
	struct mm_vregion_move_req_wire w;
	struct mm_range_rep_wire rw;
	int err;

	/* If @to does not hear of it, it refuses what comes: the old owner keeps the vRegion. */
	(void)home_expect(m, as, to, vr->owner);
	mm_vregion_move_req_encode(&req, &w);
	err = memory_call(m, vr->owner, MM_VREGION_MOVE, &w, sizeof(w), &rw, sizeof(rw));
	as->move_open = err == -ETIMEDOUT;
	if (!as->move_open)
		(void)home_expect(m, as, to, 0);
	as->move_index = index;
	as->move_to = to;
	if (err < 0)
		return err;
	vr->owner = to;
	vr->life = memory_node_life(m, to);
	vr->version++;
	return 0;
}

int home_move_resolve(struct memory *m, struct home_space *as)
{
	struct home_vregion *vr = radix_lookup(&as->vregions, as->move_index);
	int err;

	ASSERT(vr); /* entries live as long as the space */
	err = move_ask(m, as, vr, as->move_index, as->move_to);
	/* Any other error is the answer that the owner still has it. */
	return err == -ETIMEDOUT ? err : 0;
}

int home_move_locked(struct memory *m, struct home_space *as, uint64_t index, uint32_t to)
{
	struct home_vregion *vr = radix_lookup(&as->vregions, index);
	const bool again = as->move_open && as->move_index == index && as->move_to == to;
	int err;

	assert_mutex_held(&as->mutex);
	if (!vr)
		return -ENOENT;
	if (as->move_open) {
		err = home_move_resolve(m, as);
		if (err || (again && vr->owner == to))
			return err;
	}
	if (vr->owner == to)
		return -EALREADY;
	err = home_space_note_node(as, to);
	return err ? err : move_ask(m, as, vr, index, to);
}

/* The first space after @id that has what is to be moved; locked.  NULL at the end. */
static struct home_space *next_space(struct memory *m, uint64_t id)
{
	struct home_space *as, *locked;
	uint64_t found = 0;

	spin_lock(&m->home.lock);
	rb_for_each_entry(as, &m->home.spaces, node) {
		if (as->id > id) {
			found = as->id;
			break;
		}
	}
	spin_unlock(&m->home.lock);
	if (!found)
		return NULL;
	locked = home_space_lock(m, found, ANY_PROC, SPACE_ANY | SPACE_MOVE_OPEN);
	return IS_ERR(locked) ? next_space(m, found) : locked;
}

/* The first vRegion of the space that holds a mapping and is not @to's. */
static uint64_t movable_index(struct memory *m, const struct home_space *as, uint32_t to)
	__must_hold(&as->mutex)
{
	const struct home_vregion *vr;
	uint64_t index;

	radix_for_each(vr, &as->vregions, index) {
		const uint64_t start = index << m->vregion_shift;

		if (vr->owner != to &&
		    !area_range_is_free(&as->map, start, start + (1ull << m->vregion_shift)))
			return index;
	}
	return UINT64_MAX;
}

int home_move_vregion(struct memory *m, uint64_t aspace, uint64_t index, uint32_t to)
{
	struct home_space *as;
	uint64_t id = 0;
	int err = -ENOENT;

	if (aspace) {
		as = home_space_lock(m, aspace, ANY_PROC, SPACE_ANY | SPACE_MOVE_OPEN);
		if (IS_ERR(as))
			return (int)PTR_ERR(as);
		assert_mutex_held(&as->mutex);
		if (index == UINT64_MAX)
			index = movable_index(m, as, to);
		err = home_move_locked(m, as, index, to);
		home_space_unlock(as);
		return err;
	}
	while (err == -ENOENT && (as = next_space(m, id))) {
		id = as->id;
		assert_mutex_held(&as->mutex);
		err = home_move_locked(m, as,
				       index == UINT64_MAX ? movable_index(m, as, to) : index, to);
		home_space_unlock(as);
	}
	return err;
}

int home_relieve(struct memory *m, uint32_t from, const struct mm_relieve_req *req)
{
	struct home_space *as = home_space_trylock(m, req->aspace);
	const struct home_vregion *vr;
	int err = -ESTALE;

	if (IS_ERR(as))
		return (int)PTR_ERR(as);
	assert_mutex_held(&as->mutex);
	vr = radix_lookup(&as->vregions, req->index);
	if (vr && vr->owner == from)
		err = home_move_locked(m, as, req->index, req->to);
	home_space_unlock(as);
	return err;
}
