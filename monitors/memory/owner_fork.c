/* SPDX-License-Identifier: MIT */
/*
 * Owner: MM_FORK, MM_COLLAPSE, MM_DISCARD.
 *
 * Flow:	fork: make the child's regions with copies of the areas and charge them, which can
 *		fail. Then the parent's regions get the space's areas; the space's own regions keep
 *		their pages and one area that admits every page. The fork can be undone until the
 *		processor knows of the new spaces. Collapse: pages change their region, not their
 *		frames. Pages of a small frozen region are renamed one by one; a large one gets the
 *		few pages of the region in front of it, and then the two regions exchange all
 *		pages.
 * Context:	a worker, or the home's own thread; may sleep. The home lets one call of a space
 *		through at a time; fetches and write-backs come meanwhile.
 * Locking:	a fork locks one pair of regions after the other.  A collapse locks both regions for
 *		COLLAPSE_BATCH pages at a time; between two batches the regions are COLLAPSING, and
 *		requests for them wait.
 */
#include <lib/err.h>
#include <lib/errno.h>

#include "memory.h"
#include "region_apply.h"

/* Call @fn for each region of @aspace here until one fails; not for those that redirect. */
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
	struct home_id home;
	uint64_t charge;
};

/* A region of @aspace like @r, to be filled in by a fork. */
static struct region *fork_make(struct memory *m, const struct fork_call *call, uint64_t aspace,
				struct region *r)
{
	struct region_init init = {
		.state = REGION_ACTIVE,
		.proc = r->proc,
		.vnode = r->vnode,
	};

	spin_lock(&r->lock);
	init.version = r->entry.version;
	spin_unlock(&r->lock);
	return region_make(m, aspace, call->home, r->index, m->vregion_shift, &init);
}

/* Copy the areas of @r to @child and charge them. */
static int fork_copy(struct memory *m, struct region *r, struct region *child, uint64_t *charged)
{
	struct area_spare spare = AREA_SPARE(m, r->proc);
	struct region_op op = {
		.change = { .kind = CHANGE_CLONE, .other = child->aspace },
		.from = REGION_IN(REGION_ACTIVE),
		.other = child,
		.spare = &spare,
	};
	size_t nr;
	int err;

	spin_lock(&r->lock);
	nr = r->areas.count;
	spin_unlock(&r->lock);
	err = area_spare_fill(&spare, nr);
	if (!err)
		err = region_apply_wait(m, r, &op);
	area_spare_free(&spare);
	if (!err)
		*charged += op.charge;
	return err;
}

static int fork_prepare_region(struct memory *m, struct region *r, void *arg)
{
	struct fork_call *call = arg;
	struct region *parent, *child;
	int err;

	if (!__atomic_load_n(&r->areas.count, __ATOMIC_RELAXED))
		return 0;              /* made for a mapping that was not to be */
	err = region_reserve(r, true); /* a node for the vma that will stand for all */
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

static int fork_apply_region(struct memory *m, struct region *r, void *arg)
{
	const struct fork_call *call = arg;
	struct region_op op = {
		.change = { .kind = CHANGE_GIVE, .other = call->req->parent },
		.from = REGION_IN(REGION_ACTIVE),
		.other = region_get(m, call->req->parent, r->start),
	};
	int err;

	if (!op.other)
		return __atomic_load_n(&r->areas.count, __ATOMIC_RELAXED) ? -ESTALE : 0;
	err = region_apply_wait(m, r, &op);
	region_put(op.other);
	return err;
}

/* @parent has the areas of a region of the space: give them back. */
static int fork_undo_region(struct memory *m, struct region *parent, void *arg)
{
	const struct fork_call *call = arg;
	struct region *r = region_get(m, call->req->aspace, parent->start);
	struct region_op op = {
		.change = { .kind = CHANGE_TAKE_BACK, .other = call->req->parent },
		.from = REGION_IN(REGION_ACTIVE),
		.other = parent,
	};
	int err;

	if (!r)
		return 0;
	err = region_apply_wait(m, r, &op);
	region_put(r);
	return err;
}

static void fork_abort(struct memory *m, struct fork_call *call)
{
	(void)for_each_region(m, call->req->parent, fork_undo_region, call);
	owner_destroy_space(m, call->req->parent);
	owner_destroy_space(m, call->req->child);
}

int owner_fork(struct memory *m, struct home_id home, const struct mm_fork_req *req,
	       struct mm_range_rep *rep)
{
	struct fork_call call = { .req = req, .home = home };
	int err;

	if (req->phase == MM_ABORT) {
		fork_abort(m, &call);
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
	rep->grant = owner_grant_space(m, req->aspace, req->want_credits);
	return 0;
}

/* --- collapse ------------------------------------------------------------------------------- */

/*
 * The region with fewer pages is walked. The first batch decides which; after it both are
 * COLLAPSING until the last one. -ESTALE: one of the two is not ours any more.
 */
static int collapse_regions(struct memory *m, struct region *from, struct region *into,
			    uint64_t *renamed)
{
	struct collapse_batch batch = { .nr_dead = 0 };
	struct region_op op = {
		.change = { .kind = CHANGE_COLLAPSE, .other = into->aspace },
		.from = REGION_IN(REGION_ACTIVE),
		.other = into,
		.batch = &batch,
	};
	int err;

	regions_lock(from, into);
	op.change.collapse.step =
		from->nr_pages > into->nr_pages ? COLLAPSE_GATHER : COLLAPSE_FORWARD;
	regions_unlock(from, into);
	do {
		err = region_apply_wait(m, from, &op);
		op.from = REGION_IN(REGION_COLLAPSING);
		if (op.change.collapse.swap)
			op.change.collapse.step = COLLAPSE_SCAN;
	} while (!err && !op.change.collapse.last);
	*renamed += batch.renamed;
	return err;
}

struct collapse_call {
	uint64_t into;
	uint64_t renamed;
};

static int collapse_region(struct memory *m, struct region *r, void *arg)
{
	struct collapse_call *call = arg;
	struct region *into = region_get(m, call->into, r->start);
	int err;

	if (!into)
		return 0; /* nothing is mapped in front of it: the pages go with their space */
	err = collapse_regions(m, r, into, &call->renamed);
	region_put(into);
	return err;
}

static uint64_t drop_pages(struct memory *m, struct region *r, uint64_t start, uint64_t end)
{
	struct region_op op = {
		.change = { .kind = CHANGE_DROP, .range = { .start = start, .end = end } },
	};

	(void)region_apply_wait(m, r, &op);
	return op.pages;
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
				dropped += drop_pages(m, r, addr, end);
			addr = r->end;
			region_put(r);
		}
	}
	STAT_ADD(m, pages_discarded, dropped);
	return dropped;
}

int owner_collapse(struct memory *m, const struct pm_collapse_req *req, struct mm_range_rep *rep)
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
