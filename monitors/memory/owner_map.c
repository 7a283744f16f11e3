/* SPDX-License-Identifier: MIT */
/*
 * Owner: MM_MAP, MM_LOAD, MM_UNMAP, MM_PROTECT.
 *
 * Flow:	see proto/mm.h for the phases. MM_PREPARE does everything that can fail
 *		(map_prepare(), protect_prepare(), reserve_edges()); MM_APPLY does the rest and
 *		cannot fail; MM_ONCE does both.
 * Context:	a worker of the owner, or the home's own thread; may sleep. The home lets one such
 *		call of a space through at a time.
 * Locking:	each region's lock during its own change only. A range over several regions does
 *		not change at once, but no program sees that: the processor has blocked faults on
 *		the range, or does not know of it yet.
 */
#include <lib/err.h>
#include <lib/errno.h>

#include "memory.h"
#include "region_apply.h"

/* The vma's part in the @i-th vRegion of @req. */
static struct pm_vma map_part(const struct mm_map_req *req, uint32_t i)
{
	const uint64_t start = req->vregions[i].index << req->vregion_shift;
	const uint64_t end = start + (1ull << req->vregion_shift);

	return area_clip(&req->vma, MAX(req->vma.start, start), MIN(req->vma.end, end));
}

static uint64_t map_charge(const struct mm_map_req *req)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < req->nr_vregions; i++) {
		const struct pm_vma v = map_part(req, i);

		sum += area_charge(&v);
	}
	return sum;
}

/* Change this node's commitments, and what of them has been prepared for @aspace. */
static int account(struct memory *m, uint64_t aspace, int64_t commit, int64_t prepared)
{
	struct region_op op = {
		.change = { .kind = CHANGE_ACCOUNT,
			    .account = { .aspace = aspace,
					 .commit = commit,
					 .prepared = prepared } },
	};

	return commit || prepared ? region_apply_wait(m, NULL, &op) : 0;
}

/* Give @charge back, which has been committed; cannot fail. */
static void uncommit(struct memory *m, uint64_t aspace, uint64_t charge)
{
	(void)account(m, aspace, -(int64_t)charge, 0);
}

/*
 * Spend a prepared charge; -EPROTO when the home's figure is not ours. The figure comes from the
 * message: one that no signed change can hold was never prepared.
 */
static int prepared_spend(struct memory *m, uint64_t aspace, uint64_t charge)
{
	if (charge > INT64_MAX)
		return -EPROTO;
	if (!owner_has_space(m, aspace) || account(m, aspace, 0, -(int64_t)charge))
		return -EPROTO;
	return 0;
}

/* Make the vRegion and have nodes ready; check that the home is right about it. */
static int map_prepare_region(struct memory *m, struct home_id home, const struct mm_map_req *req,
			      uint32_t i)
{
	const struct pm_vma v = map_part(req, i);
	struct region *r;
	int err;

	r = region_make(m, req->aspace, home, req->vregions[i].index, req->vregion_shift,
			&(struct region_init){ REGION_ACTIVE, true, req->vregions[i].version,
					       req->processor, req->vnode, false });
	if (IS_ERR(r))
		return (int)PTR_ERR(r);
	err = region_reserve(r, true);
	spin_lock(&r->lock);
	if (!err && r->state != REGION_ACTIVE)
		err = -ESTALE;
	if (!err && !area_range_is_free(&r->areas, v.start, v.end))
		err = -EEXIST;
	spin_unlock(&r->lock);
	region_put(r);
	return err;
}

/* Regions that were made for a mapping that is not to be. */
static void map_unprepare(struct memory *m, const struct mm_map_req *req)
{
	for (uint32_t i = 0; i < req->nr_vregions; i++) {
		struct region *r =
			region_get(m, req->aspace, req->vregions[i].index << req->vregion_shift);

		if (!r)
			continue;
		region_kill_if_empty(m, r);
		region_put(r);
	}
}

static int map_prepare(struct memory *m, struct home_id home, const struct mm_map_req *req,
		       uint64_t *charge)
{
	int err;

	*charge = map_charge(req);
	err = account(m, req->aspace, (int64_t)*charge, 0);
	if (err)
		return err;
	for (uint32_t i = 0; i < req->nr_vregions && !err; i++)
		err = map_prepare_region(m, home, req, i);
	if (!err)
		err = account(m, req->aspace, 0, (int64_t)*charge);
	if (err) {
		map_unprepare(m, req);
		uncommit(m, req->aspace, *charge);
	}
	return err;
}

static int map_apply_region(struct memory *m, const struct mm_map_req *req, uint32_t i)
{
	const struct pm_vma v = map_part(req, i);
	struct region *r = region_get(m, req->aspace, v.start);
	struct region_op op = {
		.change = { .kind = CHANGE_MAP,
			    .map = { .area = &v,
				     .version = req->vregions[i].version,
				     .charged = true } },
		.from = REGION_IN(REGION_ACTIVE),
	};
	int err;

	if (!r)
		return -ESTALE;
	err = region_apply_wait(m, r, &op);
	region_put(r);
	return err == -EEXIST ? -ESTALE : err;
}

static int map_apply(struct memory *m, const struct mm_map_req *req, uint64_t charge)
{
	int err = prepared_spend(m, req->aspace, charge);

	if (err)
		return err;
	/*
	 * From here on the charge belongs to the vmas; on a failure, what is not inserted is
	 * returned.
	 */
	for (uint32_t i = 0; i < req->nr_vregions; i++) {
		err = map_apply_region(m, req, i);
		if (!err)
			continue;
		for (; i < req->nr_vregions; i++) {
			const struct pm_vma v = map_part(req, i);

			uncommit(m, req->aspace, area_charge(&v));
		}
		return err;
	}
	return 0;
}

int owner_map(struct memory *m, struct home_id home, const struct mm_map_req *req,
	      struct mm_range_rep *rep)
{
	int err = 0;

	if (req->phase == MM_ABORT) {
		err = prepared_spend(m, req->aspace, req->charge);
		if (err)
			return err;
		map_unprepare(m, req);
		uncommit(m, req->aspace, req->charge);
		return 0;
	}
	rep->charge = req->charge;
	if (req->phase == MM_PREPARE || req->phase == MM_ONCE)
		err = map_prepare(m, home, req, &rep->charge);
	if (!err && (req->phase == MM_APPLY || req->phase == MM_ONCE))
		err = map_apply(m, req, map_charge(req));
	if (err == -ENOMEM)
		STAT_INC(m, enomem);
	if (err || req->phase == MM_PREPARE)
		return err;
	STAT_INC(m, maps);
	rep->grant = owner_grant_space(m, req->aspace, req->want_credits);
	return 0;
}

/* --- load ---------------------------------------------------------------------------------- */

/* Charge the parts of the vmas that lie in @r and insert them. */
static int load_vmas(struct memory *m, struct region *r, const struct mm_load_req *req)
{
	struct area_spare spare = AREA_SPARE(m, r->proc);
	int err = area_spare_fill(&spare, req->nr_vmas);

	for (uint32_t i = 0; i < req->nr_vmas && !err; i++) {
		const struct pm_vma *v = &req->vmas[i];
		struct pm_vma part;
		struct region_op op = {
			.change = { .kind = CHANGE_MAP, .map = { .area = &part } },
			.from = REGION_IN(REGION_ACTIVE),
			.spare = &spare,
		};

		if (v->end <= r->start || v->start >= r->end)
			continue;
		part = area_clip(v, MAX(v->start, r->start), MIN(v->end, r->end));
		err = region_apply_wait(m, r, &op);
	}
	area_spare_free(&spare);
	return err;
}

int owner_load(struct memory *m, struct home_id home, const struct mm_load_req *req,
	       struct mm_range_rep *rep)
{
	int err = 0;

	for (uint32_t i = 0; i < req->nr_vregions && !err; i++) {
		const struct region_init init = {
			REGION_ACTIVE,  true,       req->vregions[i].version,
			req->processor, req->vnode, false
		};
		struct region *r = region_make(m, req->aspace, home, req->vregions[i].index,
					       req->vregion_shift, &init);

		err = IS_ERR(r) ? (int)PTR_ERR(r) : load_vmas(m, r, req);
		if (!IS_ERR(r))
			region_put(r);
	}
	if (err == -ENOMEM)
		STAT_INC(m, enomem);
	if (err) {
		owner_destroy_space(m, req->aspace);
		return err;
	}
	STAT_ADD(m, maps, req->nr_vmas);
	rep->grant = owner_grant_space(m, req->aspace, req->want_credits);
	return 0;
}

/* --- ranges ---------------------------------------------------------------------------- */

/*
 * Call @fn for each active region of [req->addr, +len) until one fails.  Regions that redirect have
 * another owner by now.
 */
static int for_each_region(struct memory *m, const struct mm_range_req *req,
			   int (*fn)(struct memory *m, struct region *r, uint64_t start,
				     uint64_t end, void *arg),
			   void *arg)
{
	const uint64_t end = req->addr + req->len;
	uint64_t addr = req->addr;
	struct region *r;
	int err = 0;

	while (addr < end && !err && (r = region_get_above(m, req->aspace, addr))) {
		if (r->start >= end) {
			region_put(r);
			break;
		}
		if (__atomic_load_n(&r->state, __ATOMIC_ACQUIRE) == REGION_ACTIVE)
			err = fn(m, r, MAX(r->start, req->addr), MIN(r->end, end), arg);
		addr = r->end;
		region_put(r);
	}
	return err;
}

/* Only where the range begins or ends inside a region can a vma be cut. */
static int reserve_edges(struct memory *m, struct region *r, uint64_t start, uint64_t end,
			 void *arg)
{
	return start > r->start || end < r->end ? region_reserve(r, true) : 0;
}

/* The same for areas that go: the processor that has had its part may give back what it has. */
static int reserve_edges_unmap(struct memory *m, struct region *r, uint64_t start, uint64_t end,
			       void *arg)
{
	bool grows;

	if (start <= r->start && end >= r->end)
		return 0;
	spin_lock(&r->lock);
	grows = area_range_is_inside(&r->areas, start, end);
	spin_unlock(&r->lock);
	return region_reserve(r, grows);
}

static int unmap_region(struct memory *m, struct region *r, uint64_t start, uint64_t end, void *arg)
{
	uint64_t *pages = arg;
	struct region_op op = {
		.change = { .kind = CHANGE_UNMAP, .range = { .start = start, .end = end } },
	};
	const int err = region_apply_wait(m, r, &op);

	if (err)
		return err;
	*pages += op.pages;
	region_kill_if_empty(m, r);
	return 0;
}

int owner_unmap(struct memory *m, const struct mm_range_req *req, struct mm_range_rep *rep)
{
	int err = 0;

	if (req->phase == MM_ABORT)
		return 0;
	if (req->phase == MM_PREPARE || req->phase == MM_ONCE)
		err = for_each_region(m, req, reserve_edges_unmap, NULL);
	if (err || req->phase == MM_PREPARE)
		return err;
	err = for_each_region(m, req, unmap_region, &rep->pages);
	STAT_INC(m, unmaps);
	return err;
}

struct protect_sum {
	uint32_t prot;
	uint64_t before;
	uint64_t after;
};

static int protect_measure(struct memory *m, struct region *r, uint64_t start, uint64_t end,
			   void *arg)
{
	struct protect_sum *sum = arg;

	spin_lock(&r->lock);
	sum->before += area_range_charge(&r->areas, start, end);
	sum->after += area_range_charge_as(&r->areas, start, end, sum->prot);
	spin_unlock(&r->lock);
	return 0;
}

static int protect_region(struct memory *m, struct region *r, uint64_t start, uint64_t end,
			  void *arg)
{
	const struct protect_sum *sum = arg;
	struct region_op op = {
		.change = { .kind = CHANGE_PROTECT,
			    .range = { .start = start, .end = end, .prot = sum->prot } },
	};

	return region_apply_wait(m, r, &op);
}

/* Charge what the range will need on top; how much that is goes to *@charge. */
static int protect_prepare(struct memory *m, const struct mm_range_req *req,
			   const struct protect_sum *sum, uint64_t *charge)
{
	int err = for_each_region(m, req, reserve_edges, NULL);

	*charge = 0;
	if (err || sum->after <= sum->before)
		return err;
	err = account(m, req->aspace, (int64_t)(sum->after - sum->before),
		      (int64_t)(sum->after - sum->before));
	if (!err)
		*charge = sum->after - sum->before;
	return err;
}

static int protect_apply(struct memory *m, const struct mm_range_req *req, struct protect_sum *sum,
			 uint64_t charge)
{
	int err = prepared_spend(m, req->aspace, charge);

	if (err)
		return err;
	err = for_each_region(m, req, protect_region, sum);
	/* Each region has been charged for what it has now, which need not be what was measured. */
	uncommit(m, req->aspace, charge);
	return err;
}

int owner_protect(struct memory *m, const struct mm_range_req *req, struct mm_range_rep *rep)
{
	struct protect_sum sum = { .prot = req->prot };
	uint64_t charge = req->charge;
	int err;

	if (req->phase == MM_ABORT) {
		err = prepared_spend(m, req->aspace, charge);
		if (!err)
			uncommit(m, req->aspace, charge);
		return err;
	}
	err = for_each_region(m, req, protect_measure, &sum);
	if (!err && (req->phase == MM_PREPARE || req->phase == MM_ONCE))
		err = protect_prepare(m, req, &sum, &charge);
	if (!err && (req->phase == MM_APPLY || req->phase == MM_ONCE))
		err = protect_apply(m, req, &sum, charge);
	rep->charge = charge;
	if (err == -ENOMEM)
		STAT_INC(m, enomem);
	return err;
}
