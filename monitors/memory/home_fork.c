/* SPDX-License-Identifier: MIT */
/*
 * Home: fork, and the spaces without mappings: frozen ones and those of shared objects.
 *
 * Flow:	a fork freezes the space; two new spaces take its place. The home makes both, with
 *		everything that can fail, before the owners hear of it, and enters them into the
 *		table when all owners have agreed. The RPC layer executes these calls at most once;
 *		a processor that got no answer may ask again with the same ids and gets the same
 *		answer.
 * Locking:	the space's mutex; a collapse holds two spaces' mutexes.
 * Failure:	a fork that fails has changed nothing. If it lost an owner halfway, the home puts
 *		back what it can reach. A collapse that fails can be repeated: an owner forgets the
 *		frozen space when it is done.
 */
#include <lib/alloc.h>
#include <lib/err.h>
#include <lib/errno.h>

#include "memory.h"

/* --- fork -------------------------------------------------------------------------------- */

/* Made by a fork before it asks the owners. */
struct fork_new {
	struct home_space *parent;
	struct home_space *child;
	struct area_spare spare; /* for the map of the space itself */
	struct grants grants;
};

static void fork_copy_fields(struct home_space *to, const struct home_space *from)
	__must_hold(&from->mutex)
{
	to->mmap_top = from->mmap_top;
	to->brk_start = from->brk_start;
	to->brk = from->brk;
	to->brk_max = from->brk_max;
	to->lease_number = from->lease_number;
	to->lease_done = from->lease_done;
}

static struct home_space *fork_alloc(struct home_space *as, uint64_t id) __must_hold(&as->mutex)
{
	struct home_space *made = home_space_alloc(as->m, id, as->proc, as->vnode, SPACE_MAPPED);

	if (!made)
		return NULL;
	fork_copy_fields(made, as);
	if (!home_space_copy_vregions(made, as))
		return made;
	home_space_put(made);
	return NULL;
}

static int fork_make(struct memory *m, struct home_space *as, const struct pm_fork_req *req,
		     struct fork_new *f) __must_hold(&as->mutex)
{
	struct area_spare copies = AREA_SPARE(m, as->proc);
	int err;

	if (home_space_exists(m, req->parent) || home_space_exists(m, req->child))
		return -EEXIST;
	f->parent = fork_alloc(as, req->parent);
	f->child = fork_alloc(as, req->child);
	if (!f->parent || !f->child)
		return -ENOMEM;
	f->spare = AREA_SPARE(m, as->proc);
	err = area_spare_fill(&f->spare, 1);
	if (!err)
		err = area_spare_fill(&copies, as->map.count);
	if (!err)
		area_set_clone(&f->child->map, &as->map, &copies);
	area_spare_free(&copies);
	return err;
}

static int fork_call(struct memory *m, uint32_t node, const struct mm_fork_req *req,
		     struct grants *grants)
{
	struct mm_fork_req_wire w;
	struct mm_range_rep_wire rw;
	struct mm_range_rep rep;
	int ret;

	mm_fork_req_encode(req, &w);
	ret = memory_call(m, node, MM_FORK, &w, sizeof(w), &rw, sizeof(rw));
	if (ret >= 0)
		ret = mm_range_rep_decode(&rw, (size_t)ret, &rep);
	if (!ret)
		grants_add(grants, &rep.grant);
	return ret;
}

/*
 * At every node below @end: undo the fork. Credits that it granted are void with the processor's
 * next report.
 */
static void fork_abort(struct memory *m, const struct radix_tree *nodes, struct mm_fork_req *req,
		       uint64_t end)
{
	const void *held;
	uint64_t node;

	req->phase = MM_ABORT;
	req->want_credits = 0;
	radix_for_each(held, nodes, node) {
		if (node >= end)
			break;
		(void)fork_call(m, (uint32_t)node, req, NULL);
	}
}

/* All owners or none, one message each. */
static int fork_at_owners(struct memory *m, const struct radix_tree *nodes, struct mm_fork_req *req,
			  struct grants *grants)
{
	const void *held;
	uint64_t node;

	req->phase = MM_ONCE;
	radix_for_each(held, nodes, node) {
		const int err = fork_call(m, (uint32_t)node, req, grants);

		if (!err)
			continue;
		/* One that did not answer may have done it. */
		fork_abort(m, nodes, req, err == -ETIMEDOUT ? node + 1 : node);
		return err;
	}
	return 0;
}

/*
 * The owners have done it: so do we. An error, with nothing changed: an id has come into use, or
 * the processor is fenced. Once they are in the table, the two may be used.
 */
static int fork_commit(struct memory *m, struct home_space *as, struct fork_new *f)
	__must_hold(&as->mutex)
{
	const struct pm_vma all = area_pages_only(0, PM_USER_TOP);

	int err;

	f->parent->map = as->map;
	err = home_space_link_two(m, as, f->parent, f->child);
	if (err) {
		area_set_init(&f->parent->map);
		return err;
	}
	area_set_init(&as->map);
	area_insert(&as->map, &all, &f->spare);
	as->kind = SPACE_FROZEN;
	as->fork_parent = f->parent->id;
	as->fork_child = f->child->id;
	return 0;
}

static int fork_locked(struct memory *m, struct home_space *as, const struct pm_fork_req *req,
		       struct fork_new *f) __must_hold(&as->mutex)
{
	assert_mutex_held(&as->mutex);
	struct mm_fork_req mm = {
		.aspace = req->aspace,
		.parent = req->parent,
		.child = req->child,
	};
	int err = fork_make(m, as, req, f);

	if (err)
		return err;
	mm.want_credits = span_share(req->want_credits, f->parent->nodes.count);
	err = fork_at_owners(m, &f->parent->nodes, &mm, &f->grants);
	if (err)
		return err;
	err = fork_commit(m, as, f);
	if (err)
		fork_abort(m, &f->parent->nodes, &mm, UINT64_MAX);
	return err;
}

static bool is_repeated(const struct home_space *as, const struct pm_fork_req *req)
	__must_hold(&as->mutex)
{
	return as->kind == SPACE_FROZEN && as->fork_parent == req->parent &&
	       as->fork_child == req->child;
}

int home_fork(struct memory *m, uint32_t proc, const struct pm_fork_req *req,
	      struct pm_range_rep *rep)
{
	struct home_space *as = home_space_lock(m, req->aspace, proc, SPACE_MAPPED | SPACE_FROZEN);
	struct fork_new f = { 0 };
	int err = 0;

	reply_init(rep);
	if (IS_ERR(as))
		return (int)PTR_ERR(as);
	assert_mutex_held(&as->mutex);
	if (pm_space_home(req->parent) != m->node || pm_space_home(req->child) != m->node)
		err = -EINVAL;
	else if (as->kind == SPACE_MAPPED)
		err = fork_locked(m, as, req, &f);
	else if (!is_repeated(as, req))
		err = -EINVAL;
	if (!err) {
		rep->addr = 1ull << m->vregion_shift;
		/* Of a repeated one the three may have moved apart since: asked for when needed. */
		if (f.parent)
			reply_vregions(m, as, 0, PM_USER_TOP, rep);
		reply_grants(&f.grants, rep);
		STAT_INC(m, forks);
	}
	if (f.parent)
		home_space_put(f.parent);
	if (f.child)
		home_space_put(f.child);
	area_spare_free(&f.spare);
	home_space_unlock(as);
	return err;
}

/* --- collapse and discard -------------------------------------------------------------------- */

/* Bring the vRegions of @from to where @into has them. */
static int collapse_gather(struct memory *m, struct home_space *from, const struct home_space *into)
	__must_hold(&from->mutex) __must_hold(&into->mutex)
{
	const struct home_vregion *vr, *there;
	uint64_t index;
	int err = 0;

	radix_for_each(vr, &from->vregions, index) {
		there = radix_lookup(&into->vregions, index);
		if (!err && there && there->owner != vr->owner)
			err = home_move_locked(m, from, index, there->owner);
	}
	return err;
}

/* Does @node own a vRegion of one of the ranges? */
static bool has_range(const struct memory *m, const struct home_space *as, uint64_t node,
		      const struct pm_discard_req *req) __must_hold(&as->mutex)
{
	for (uint32_t i = 0; i < req->nr_ranges; i++) {
		const uint64_t last =
			(req->ranges[i].addr + req->ranges[i].len - 1) >> m->vregion_shift;
		uint64_t index = req->ranges[i].addr >> m->vregion_shift;
		const struct home_vregion *vr;

		for (; (vr = radix_next(&as->vregions, &index)) && index <= last; index++)
			if (vr->owner == node)
				return true;
	}
	return false;
}

/*
 * Tell every node that has, or had, a part of @as; with @req, those that it concerns. All are
 * told; the first error is returned. A node that is down has lost its part already.
 */
static int tell_nodes(struct memory *m, const struct home_space *as, uint16_t opcode,
		      const void *body, uint32_t len, const struct pm_discard_req *req)
	__must_hold(&as->mutex)
{
	struct mm_range_rep_wire w;
	const void *held;
	uint64_t node;
	int err = 0;

	radix_for_each(held, &as->nodes, node) {
		int ret;

		if (req && !has_range(m, as, node, req))
			continue;
		ret = memory_call(m, (uint32_t)node, opcode, body, len, &w, sizeof(w));
		if (ret < 0 && ret != -EHOSTDOWN && !err)
			err = ret;
	}
	return err;
}

/* Has it been done already, and the answer been lost? */
static bool is_collapsed(struct memory *m, uint32_t proc, const struct pm_collapse_req *req)
{
	struct home_space *into = home_space_lock(m, req->into, proc, SPACE_ANY);
	bool collapsed;

	if (IS_ERR(into))
		return false;
	assert_mutex_held(&into->mutex);
	collapsed = into->collapsed == req->from;
	home_space_unlock(into);
	return collapsed;
}

int home_collapse(struct memory *m, uint32_t proc, const struct pm_collapse_req *req,
		  const void *body, uint32_t len)
{
	struct home_space *from, *into;
	int err = home_space_lock_two(m, proc, req->from, SPACE_FROZEN, req->into,
				      SPACE_MAPPED | SPACE_FROZEN, &from, &into);

	if (err == -ESRCH && is_collapsed(m, proc, req))
		return 0;
	if (err)
		return err;
	assert_mutex_held(&from->mutex);
	assert_mutex_held(&into->mutex);
	err = collapse_gather(m, from, into);
	if (!err)
		err = tell_nodes(m, from, MM_COLLAPSE, body, len, NULL);
	if (!err) {
		into->collapsed = from->id;
		home_space_unlink(m, from);
		STAT_INC(m, collapses);
	}
	home_space_unlock(from);
	home_space_unlock(into);
	return err;
}

int home_discard(struct memory *m, uint32_t proc, const struct pm_discard_req *req,
		 const void *body, uint32_t len)
{
	struct home_space *as = home_space_lock(m, req->aspace, proc, SPACE_ANY);
	int err;

	if (IS_ERR(as))
		return (int)PTR_ERR(as);
	assert_mutex_held(&as->mutex);
	err = tell_nodes(m, as, MM_DISCARD, body, len, req);
	home_space_unlock(as);
	return err;
}

/* --- page-only spaces ---------------------------------------------------------------------- */

/*
 * Make the vRegions of [start, end) active, those that are not. @start and @end are vRegions'
 * ends.
 */
static int activate(struct memory *m, struct home_space *as, uint64_t start, uint64_t end,
		    uint32_t want_credits, struct grants *grants) __must_hold(&as->mutex)
{
	uint32_t want = home_wanted(want_credits, end - start);
	int err = 0;

	while (start < end && !err) {
		const struct area *next = area_above(&as->map, start);
		const uint64_t gap = next ? MIN(MAX(next->v.start, start), end) : end;
		const struct pm_vma v = area_pages_only(start, gap);

		if (gap == start) {
			start = next->v.end;
			continue;
		}
		err = span_map(m, as, &v, want, grants); /* may join @next with what is new */
		want = 0;
		start = gap;
	}
	return err;
}

int home_vregions(struct memory *m, uint32_t proc, const struct pm_vregions_req *req,
		  struct pm_range_rep *rep)
{
	const bool active = req->flags & PM_VREGIONS_ACTIVATE;
	struct home_space *as =
		home_space_lock(m, req->aspace, proc, active ? SPACE_PAGES : SPACE_ANY);
	uint64_t start = PM_USER_TOP, end = 0;
	struct grants grants = { 0 };
	int err = 0;

	reply_init(rep);
	if (IS_ERR(as))
		return (int)PTR_ERR(as);
	assert_mutex_held(&as->mutex);
	if (req->first <= PM_USER_TOP >> m->vregion_shift) {
		start = req->first << m->vregion_shift;
		end = MIN((req->first + req->count) << m->vregion_shift, PM_USER_TOP);
	}
	if (active && (as->fixed_size || start >= end))
		err = -EINVAL;
	if (active && !err)
		err = activate(m, as, start, end, req->want_credits, &grants);
	/* Asked for one: an owner that knows nothing of it has sent the processor here. */
	if (req->count == 1 && !err && start < end)
		err = home_space_check_owners(m, as, start, end);
	if (!err) {
		rep->addr = 1ull << m->vregion_shift;
		if (start < end)
			reply_vregions(m, as, start, end, rep);
		reply_grants(&grants, rep);
	}
	home_space_unlock(as);
	return err;
}

static int space_fill(struct memory *m, struct home_space *as, const struct pm_space_req *req,
		      struct grants *grants) __must_hold(&as->mutex)
{
	const uint64_t end = MIN(ALIGN_UP(req->len, 1ull << m->vregion_shift), PM_USER_TOP);
	struct pm_vma v = area_pages_only(0, req->len);

	as->fixed_size = req->flags & PM_SPACE_RESERVE;
	if (!req->len)
		return 0;
	if (!as->fixed_size)
		return activate(m, as, 0, end, req->want_credits, grants);
	v.flags &= ~(uint32_t)PM_VMA_NORESERVE;
	return span_map(m, as, &v, home_wanted(req->want_credits, req->len), grants);
}

int home_make_pages(struct memory *m, uint32_t proc, uint32_t incarn,
		    const struct pm_space_req *req, struct pm_range_rep *rep)
{
	struct grants grants = { 0 };
	struct home_space *as;
	int err;

	reply_init(rep);
	as = home_space_create(m, req->aspace, proc, req->vnode, SPACE_PAGES, incarn);
	if (IS_ERR(as))
		return (int)PTR_ERR(as);
	assert_mutex_held(&as->mutex);
	err = space_fill(m, as, req, &grants);
	if (!err) {
		rep->addr = 1ull << m->vregion_shift;
		if (req->len)
			reply_vregions(m, as, 0, req->len, rep);
		reply_grants(&grants, rep);
	}
	home_space_unlock(as);
	if (err)
		(void)home_destroy_space(m, req->aspace, proc);
	return err;
}
