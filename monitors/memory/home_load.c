/* SPDX-License-Identifier: MIT */
/*
 * Home: the mappings of a new space, sent to their owners in as few messages as can be.
 *
 * Flow:	the loader has laid out everything in the range map. The vRegions that it touches
 *		become active; each owner gets its vRegions and the vmas that touch them, in one
 *		message unless there are very many.
 * Failure:	the space is new, so there are no phases: the loader destroys it, at all nodes.
 */
#include <lib/alloc.h>
#include <lib/errno.h>

#include "memory.h"

struct load_args {
	struct mm_load_req req;
	uint8_t body[MM_LOAD_MAX_BYTES];
};

/* Make every vRegion that the map touches active. */
static int load_activate(struct memory *m, struct home_space *as) __must_hold(&as->mutex)
{
	const struct area *area;

	for (area = area_above(&as->map, 0); area; area = area_next(area)) {
		const uint64_t first = area->v.start >> m->vregion_shift;
		const uint64_t last = (area->v.end - 1) >> m->vregion_shift;

		if (last - first >= SPAN_MAX_VREGIONS ||
		    home_may_commit(m, area->v.start, area->v.end, area_charge(&area->v)))
			return -ENOMEM;
		for (uint64_t i = first; i <= last; i++)
			if (home_space_vregion_activate(m, as, i))
				return -ENOMEM;
	}
	return 0;
}

/* vRegions of @owner from *@next on, as many as a message holds. */
static void load_entries(const struct home_space *as, uint32_t owner, uint64_t *next,
			 struct mm_load_req *req) __must_hold(&as->mutex)
{
	const struct home_vregion *vr;

	req->nr_vregions = 0;
	while (req->nr_vregions < MM_MAP_MAX_VREGIONS && (vr = radix_next(&as->vregions, next))) {
		if (vr->owner == owner)
			req->vregions[req->nr_vregions++] =
				(struct mm_map_vregion){ *next, vr->version };
		(*next)++;
	}
}

static bool load_touches(const struct mm_load_req *req, const struct pm_vma *v)
{
	for (uint32_t i = 0; i < req->nr_vregions; i++)
		if (v->end > req->vregions[i].index << req->vregion_shift &&
		    v->start < (req->vregions[i].index + 1) << req->vregion_shift)
			return true;
	return false;
}

static int load_send(struct memory *m, uint32_t owner, struct load_args *a, struct grants *grants)
{
	const ssize_t len = mm_load_req_encode(&a->req, a->body, sizeof(a->body));
	struct mm_range_rep_wire w;
	struct mm_range_rep rep;
	int ret;

	if (len < 0)
		return (int)len;
	ret = memory_call(m, owner, MM_LOAD, a->body, (uint32_t)len, &w, sizeof(w));
	if (ret >= 0)
		ret = mm_range_rep_decode(&w, (size_t)ret, &rep);
	if (!ret)
		grants_add(grants, &rep.grant);
	a->req.want_credits = 0; /* the first message has asked */
	return ret;
}

/* The vmas in the vRegions of @a: one message, or more if there are many. */
static int load_chunk(struct memory *m, const struct home_space *as, uint32_t owner,
		      struct load_args *a, struct grants *grants) __must_hold(&as->mutex)
{
	const struct area *area = area_above(&as->map, 0);
	int err = 0;

	while (area && !err) {
		a->req.nr_vmas = 0;
		for (; area && a->req.nr_vmas < MM_LOAD_MAX_VMAS; area = area_next(area))
			if (load_touches(&a->req, &area->v))
				a->req.vmas[a->req.nr_vmas++] = area->v;
		if (a->req.nr_vmas)
			err = load_send(m, owner, a, grants);
	}
	return err;
}

static int load_at_owner(struct memory *m, const struct home_space *as, uint32_t owner,
			 struct load_args *a, struct grants *grants) __must_hold(&as->mutex)
{
	uint64_t next = 0;
	int err = 0;

	do {
		load_entries(as, owner, &next, &a->req);
		if (a->req.nr_vregions)
			err = load_chunk(m, as, owner, a, grants);
	} while (!err && a->req.nr_vregions == MM_MAP_MAX_VREGIONS);
	return err;
}

int span_load(struct memory *m, struct home_space *as, uint32_t want_credits, struct grants *grants)
{
	struct load_args *a = lib_alloc(sizeof(*a));
	const void *held;
	uint64_t node;
	int err = -ENOMEM;

	if (a)
		err = load_activate(m, as);
	if (err)
		goto out;
	a->req.aspace = as->id;
	a->req.vregion_shift = m->vregion_shift;
	a->req.processor = as->proc;
	a->req.vnode = as->vnode;
	radix_for_each(held, &as->nodes, node) {
		a->req.want_credits = span_share(want_credits, as->nodes.count);
		err = load_at_owner(m, as, (uint32_t)node, a, grants);
		if (err)
			break;
	}
out:
	lib_free(a);
	return err;
}
