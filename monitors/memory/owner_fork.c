/* SPDX-License-Identifier: MIT */
/*
 * Owner: MM_FORK, MM_MERGE, MM_DISCARD.
 *
 * Fork:	the child's regions are made first, with copies of the vmas, which are charged: that is
 *		what can fail.  Then the space's vmas go to the parent's regions; its own keep their
 *		pages and one vma that admits them all.  Either can be undone until the processor knows
 *		of the new spaces.
 * Merge:	pages change their region, not their frames.  The shorter list is walked: pages of a
 *		small frozen region are renamed one by one; a large one gets the few pages that are in
 *		front of it, and then the two regions change keys and lists.
 * Context:	a worker, or the home's own; may sleep.  The home lets one call per space through at a
 *		time; fetches and write-backs come meanwhile.
 * Locking:	a fork locks one region after the other: the parent's is not known to anybody yet.  A
 *		merge locks both for COLLAPSE_BATCH pages at a time; if that is not enough, requests for
 *		them wait until they have settled.
 */
#include <lib/err.h>
#include <lib/errno.h>

#include "memory.h"
#include "owner_private.h"

#define COLLAPSE_BATCH 64 /* pages renamed under one hold of two regions' locks */

/* Call @fn for each region of @aspace here until one fails.  MOVED regions are somebody else's. */
static int for_each_region(struct memory *m, uint64_t aspace,
			   int (*fn)(struct memory *m, struct region *r, void *arg), void *arg)
{
	uint64_t addr = 0;
	struct region *r;
	int err = 0;

	while (!err && (r = region_get_above(m, aspace, addr))) {
		if (__atomic_load_n(&r->state, __ATOMIC_ACQUIRE) != REGION_REDIRECT)
			err = fn(m, r, arg);
		addr = r->end;
		region_put(r);
	}
	return err;
}

/* --- fork: prepare ----------------------------------------------------------------------- */

struct fork_call {
	const struct mm_fork_req *req;
	uint32_t home;
	uint64_t charge;
};

/* A region of @aspace like @r, to be filled in by a fork. */
static struct region *fork_make(struct memory *m, const struct fork_call *call, uint64_t aspace,
				struct region *r)
{
	struct region *made = region_make(m, aspace, call->home, r->index, m->vregion_shift,
					  &(struct region_init){ REGION_ACTIVE, true, 0 });

	if (!IS_ERR(made)) {
		spin_lock(&made->lock);
		made->entry.version = r->entry.version;
		made->holes = false;
		spin_unlock(&made->lock);
	}
	return made;
}

/* Copy the vmas of @r to @child and charge them. */
static int fork_copy(struct memory *m, struct region *r, struct region *child, uint64_t *charged)
{
	struct area_spare spare = { 0 };
	uint64_t charge = 0;
	size_t nr;
	int err;

	spin_lock(&r->lock);
	nr = r->areas.count;
	spin_unlock(&r->lock);
	err = area_spare_fill(&spare, nr);
	regions_lock(r, child);
	if (!err && (r->state != REGION_ACTIVE || r->areas.count != nr || child->areas.count))
		err = -ESTALE;
	if (!err) {
		charge = area_range_charge(&r->areas, r->start, r->end);
		err = pool_commit(&m->pool, charge);
	}
	if (!err)
		area_set_clone(&child->areas, &r->areas, &spare);
	regions_unlock(r, child);
	area_spare_free(&spare);
	if (!err)
		*charged += charge;
	return err;
}

static int fork_prepare_region(struct memory *m, struct region *r, void *arg)
{
	struct fork_call *call = arg;
	struct region *parent, *child;
	int err;

	if (!__atomic_load_n(&r->areas.count, __ATOMIC_RELAXED))
		return 0;        /* made for a mapping that was not to be */
	err = region_reserve(r); /* a node for the vma that will stand for all */
	if (err)
		return err;
	parent = fork_make(m, call, call->req->parent, r);
	if (IS_ERR(parent))
		return (int)PTR_ERR(parent);
	child = fork_make(m, call, call->req->child, r);
	if (IS_ERR(child)) {
		region_put(parent);
		return (int)PTR_ERR(child);
	}
	err = fork_copy(m, r, child, &call->charge);
	region_put(parent);
	region_put(child);
	return err;
}

static int fork_prepare(struct memory *m, struct fork_call *call)
{
	const struct mm_fork_req *req = call->req;
	int err;

	if (owner_has_space(m, req->parent) || owner_has_space(m, req->child))
		return -EEXIST;
	err = for_each_region(m, req->aspace, fork_prepare_region, call);
	if (err) {
		owner_destroy_space(m, req->parent);
		owner_destroy_space(m, req->child);
	}
	return err;
}

/* --- fork: apply, and back ------------------------------------------------------------------ */

static void set_move(struct area_set *to, struct area_set *from)
{
	*to = *from;
	area_set_init(from);
}

static int fork_apply_region(struct memory *m, struct region *r, void *arg)
{
	const struct fork_call *call = arg;
	const struct pm_vma all = area_pages_only(r->start, r->end);
	struct region *parent = region_get(m, call->req->parent, r->start);
	int err = 0;

	if (!parent)
		return __atomic_load_n(&r->areas.count, __ATOMIC_RELAXED) ? -ESTALE : 0;
	regions_lock(r, parent);
	if (r->state != REGION_ACTIVE || parent->state != REGION_ACTIVE || parent->areas.count ||
	    !r->spare.count)
		err = -ESTALE;
	if (!err) {
		set_move(&parent->areas, &r->areas);
		area_insert(&r->areas, &all, &r->spare);
	}
	regions_unlock(r, parent);
	region_put(parent);
	return err;
}

/* @parent has the vmas of a region of the space: give them back. */
static int fork_undo_region(struct memory *m, struct region *parent, void *arg)
{
	const struct fork_call *call = arg;
	struct region *r = region_get(m, call->req->aspace, parent->start);
	struct area_spare dead = { 0 };

	if (!r)
		return 0;
	regions_lock(r, parent);
	if (parent->areas.count && r->state == REGION_ACTIVE) {
		area_set_clear(&r->areas, &dead);
		set_move(&r->areas, &parent->areas);
	}
	regions_unlock(r, parent);
	area_spare_free(&dead);
	region_put(r);
	return 0;
}

static void fork_abort(struct memory *m, struct fork_call *call)
{
	(void)for_each_region(m, call->req->parent, fork_undo_region, call);
	owner_destroy_space(m, call->req->parent);
	owner_destroy_space(m, call->req->child);
}

int owner_fork(struct memory *m, uint32_t home, const struct mm_fork_req *req,
	       struct mm_range_rep *rep)
{
	struct fork_call call = { .req = req, .home = home };
	int err;

	if (req->phase == MM_ABORT) {
		fork_abort(m, &call);
		pool_return_credits(&m->pool, space_processor(req->aspace), req->want_credits);
		return 0;
	}
	err = fork_prepare(m, &call);
	if (err == -ENOMEM)
		STAT_INC(m, enomem);
	if (err)
		return err;
	rep->charge = call.charge;
	err = for_each_region(m, req->aspace, fork_apply_region, &call);
	if (err) {
		fork_abort(m, &call);
		return err;
	}
	rep->grant.node = m->node;
	rep->grant.frames = pool_grant(&m->pool, space_processor(req->aspace), req->want_credits);
	return 0;
}

/* --- merge ------------------------------------------------------------------------------- */

struct collapse {
	struct memory *m;
	struct region *from;
	struct region *into;
	bool swap; /* the pages of @into go to @from, then the two change their pages */
	bool swapped;
	uint64_t scan; /* pages of @from still to be looked at for where nothing is mapped */
	uint64_t renamed;
	size_t nr_dead; /* of @dead */
	struct mpage *dead[COLLAPSE_BATCH];
};

static void collapse_drop_locked(struct collapse *g, struct region *r, struct mpage *page)
{
	page_remove_locked(g->m, r, page);
	g->dead[g->nr_dead++] = page;
}

static void collapse_rename_locked(struct collapse *g, struct region *from, struct region *into,
				   struct mpage *page)
{
	page_remove_locked(g->m, from, page);
	page_insert_locked(g->m, into, page, page->index);
}

/* Pages of the small @from, one by one.  True when none is left. */
static bool collapse_small_locked(struct collapse *g, size_t budget)
{
	struct region *from = g->from, *into = g->into;

	while (budget-- && from->nr_pages) {
		struct mpage *page = list_first_entry(&from->pages, struct mpage, link);

		if (!area_at(&into->areas, page->index) ||
		    page_lookup_locked(g->m, into, page->index)) {
			collapse_drop_locked(g, from, page);
		} else {
			collapse_rename_locked(g, from, into, page);
			g->renamed++;
		}
	}
	return !from->nr_pages;
}

static void swap_pages_locked(struct region *a, struct region *b)
{
	const uint64_t key = a->key, nr = a->nr_pages;
	struct list_head pages;

	list_init(&pages);
	list_splice_tail(&a->pages, &pages);
	list_init(&a->pages);
	list_splice_tail(&b->pages, &a->pages);
	list_init(&b->pages);
	list_splice_tail(&pages, &b->pages);
	a->key = b->key;
	a->nr_pages = b->nr_pages;
	b->key = key;
	b->nr_pages = nr;
}

/* Pages of the small @into replace those of @from; then all become those of @into. */
static bool collapse_large_locked(struct collapse *g, size_t budget)
{
	struct region *from = g->from, *into = g->into;

	while (budget && !g->swapped && into->nr_pages) {
		struct mpage *page = list_first_entry(&into->pages, struct mpage, link);
		struct mpage *old = page_lookup_locked(g->m, from, page->index);

		if (old)
			collapse_drop_locked(g, from, old);
		collapse_rename_locked(g, into, from, page);
		budget--;
	}
	if (!g->swapped && into->nr_pages)
		return false;
	if (!g->swapped) {
		g->renamed = from->nr_pages;
		g->scan = into->holes ? from->nr_pages : 0;
		swap_pages_locked(from, into);
		g->swapped = true;
	}
	for (; budget && g->scan; budget--, g->scan--) {
		struct mpage *page = list_first_entry(&into->pages, struct mpage, link);

		if (area_at(&into->areas, page->index))
			list_move_tail(&page->link, &into->pages);
		else
			collapse_drop_locked(g, into, page);
	}
	return !g->scan;
}

/* One batch.  True when all is done; -ESTALE when one of the two is not ours any more. */
static int collapse_batch_locked(struct collapse *g, enum region_state want, bool *done)
{
	if (g->from->state != want || g->into->state != want)
		return -ESTALE;
	*done = g->swap ? collapse_large_locked(g, COLLAPSE_BATCH)
			: collapse_small_locked(g, COLLAPSE_BATCH);
	if (*done)
		g->into->holes |= g->from->holes;
	__atomic_store_n(&g->from->state, *done ? REGION_ACTIVE : REGION_COLLAPSING,
			 __ATOMIC_RELEASE);
	__atomic_store_n(&g->into->state, *done ? REGION_ACTIVE : REGION_COLLAPSING,
			 __ATOMIC_RELEASE);
	return 0;
}

/* One was killed: the other is to be used again. */
static void collapse_release_locked(struct region *r)
{
	if (r->state == REGION_COLLAPSING)
		__atomic_store_n(&r->state, REGION_ACTIVE, __ATOMIC_RELEASE);
}

static int collapse_regions(struct collapse *g)
{
	enum region_state want = REGION_ACTIVE;
	bool done = false;
	int err = 0;

	while (!done && !err) {
		regions_lock(g->from, g->into);
		if (want == REGION_ACTIVE)
			g->swap = g->from->nr_pages > g->into->nr_pages;
		err = collapse_batch_locked(g, want, &done);
		if (err && want == REGION_COLLAPSING) {
			collapse_release_locked(g->from);
			collapse_release_locked(g->into);
		}
		regions_unlock(g->from, g->into);
		want = REGION_COLLAPSING;
		while (g->nr_dead)
			mpage_put(&g->m->pool, g->dead[--g->nr_dead]);
	}
	wake_all(&g->from->idle);
	wake_all(&g->into->idle);
	return err;
}

struct collapse_call {
	uint64_t into;
	uint64_t renamed;
};

static int collapse_region(struct memory *m, struct region *r, void *arg)
{
	struct collapse_call *call = arg;
	struct collapse g = { .m = m, .from = r };
	int err;

	g.into = region_get(m, call->into, r->start);
	if (!g.into)
		return 0; /* nothing is mapped in front of it: the pages go with their space */
	err = collapse_regions(&g);
	call->renamed += g.renamed;
	region_put(g.into);
	return err;
}

static uint64_t discard_ranges(struct memory *m, uint64_t aspace,
			       const struct pm_page_range *ranges, uint32_t nr)
{
	uint64_t dropped = 0;

	for (uint32_t i = 0; i < nr; i++) {
		const uint64_t end = ranges[i].addr + ranges[i].len;
		uint64_t addr = ranges[i].addr;
		struct region *r;

		while (addr < end && (r = region_get_above(m, aspace, addr))) {
			if (r->start < end)
				dropped += region_drop_pages(m, r, addr, end);
			addr = r->end;
			region_put(r);
		}
	}
	STAT_ADD(m, pages_discarded, dropped);
	return dropped;
}

int owner_collapse(struct memory *m, const struct pm_merge_req *req, struct mm_range_rep *rep)
{
	struct collapse_call call = { .into = req->into };
	int err;

	(void)discard_ranges(m, req->from, req->ranges, req->nr_ranges);
	err = for_each_region(m, req->from, collapse_region, &call);
	STAT_ADD(m, pages_renamed, call.renamed);
	rep->pages = call.renamed;
	if (err)
		return err;
	owner_destroy_space(m, req->from);
	return 0;
}

int owner_discard(struct memory *m, const struct pm_discard_req *req, struct mm_range_rep *rep)
{
	rep->pages = discard_ranges(m, req->aspace, req->ranges, req->nr_ranges);
	return 0;
}
