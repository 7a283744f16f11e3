/* SPDX-License-Identifier: MIT */
/*
 * Home: leases, address ranges in which a processor maps, unmaps and protects by itself.
 *
 * Flow:	PM_MMAP, PM_MPROTECT and PM_BRK may ask for more than the program does: that is a
 *		lease. In the range map, and at its owners, it is one writable area with
 *		PM_VMA_LEASE, charged in full, whatever of it the program has mapped. PM_LEASE ends
 *		leases: of a range that is given back nothing is left; one that is converted becomes
 *		a mapping as any other.
 * Invariants:	what a call does to a range ends the lease there: MM_UNMAP removes the area, and
 *		area_protect() takes the flag away, unless it is to set it.
 * Locking:	home_space.mutex across each call.
 * Failure:	a lease that cannot be had is not an error: the mapping is made without it. Ranges
 *		of a batch are done in their order; the reply says how far that went. A batch with
 *		a number that has been served does nothing and is answered as it was then.
 * See:		docs/design/leases.md
 */
#include <lib/err.h>
#include <lib/errno.h>

#include "memory.h"

/* As Linux, the strict mode counts exactly what is mapped. */
static bool may_lease(struct memory *m)
{
	return pool_commit_mode(&m->pool) != PM_COMMIT_STRICT;
}

/* A place for @len bytes where the request wants them; 0: there is none. */
static uint64_t lease_place(const struct home_space *as, const struct pm_mmap_req *req,
			    uint64_t len) __must_hold(&as->mutex)
{
	assert_mutex_held(&as->mutex);
	if (!(req->flags & PM_MAP_FIXED_NOREPLACE))
		return place_find(&as->map, as->mmap_top, req->addr, len, len == req->len);
	if (req->addr < HOME_MMAP_MIN || len > PM_USER_TOP || req->addr > PM_USER_TOP - len)
		return 0;
	return area_range_is_free(&as->map, req->addr, req->addr + len) ? req->addr : 0;
}

int home_lease_map(struct memory *m, struct home_space *as, const struct pm_mmap_req *req,
		   struct grants *grants, struct pm_vma *v)
{
	const uint64_t len = (uint64_t)req->lease_pages << PAGE_SHIFT;

	assert_mutex_held(&as->mutex);
	if (!len || len > PM_USER_TOP || !may_lease(m))
		return -ENOMEM;
	*v = (struct pm_vma){
		.start = lease_place(as, req, len),
		.prot = PM_PROT_READ | PM_PROT_WRITE,
		.flags = PM_VMA_LEASE,
	};
	if (!v->start)
		return -ENOMEM;
	v->end = v->start + len;
	return span_map(m, as, v, home_wanted(req->want_credits, req->len), grants);
}

int home_lease_protect(struct memory *m, struct home_space *as, const struct pm_range_req *req,
		       struct pm_range_rep *rep)
{
	const uint64_t end = req->addr + ((uint64_t)req->lease_pages << PAGE_SHIFT);
	const uint32_t prot = PM_PROT_READ | PM_PROT_WRITE;
	int err;

	assert_mutex_held(&as->mutex);
	if (!req->lease_pages || !may_lease(m) || !area_range_is_plain(&as->map, req->addr, end))
		return -ENOMEM;
	err = span_protect(m, as, req->addr, end, prot | MM_PROT_LEASE);
	if (err)
		return err;
	rep->addr = req->addr;
	rep->nr_vmas = 1;
	rep->vmas[0] = (struct pm_vma){
		.start = req->addr, .end = end, .prot = prot, .flags = PM_VMA_LEASE
	};
	reply_vregions(m, as, req->addr, end, rep);
	return 0;
}

uint64_t home_lease_brk(struct memory *m, const struct home_space *as, const struct pm_brk_req *req)
{
	const uint64_t more = (uint64_t)req->lease_pages << PAGE_SHIFT;
	const uint64_t end = ALIGN_UP(req->brk, PAGE_SIZE);

	assert_mutex_held(&as->mutex);
	if (!more || !may_lease(m) || end > as->brk_max || more > as->brk_max - end)
		return 0;
	return end + more;
}

/* --- batches ------------------------------------------------------------------------------- */

/* May the range of a batch be what it is to become? What has been done already counts as well. */
static bool range_is_ours(const struct home_space *as, const struct pm_lease_range *r)
	__must_hold(&as->mutex)
{
	const uint64_t end = r->addr + r->len;
	const bool convert = r->flags & PM_LEASE_MAPPED;
	const struct area *area = area_above(&as->map, r->addr);

	if (convert && area_mapped_until(&as->map, r->addr, end) < end)
		return false;
	for (; area && area->v.start < end; area = area_next(area))
		if (area->v.flags != PM_VMA_LEASE && !(convert && !area->v.flags))
			return false;
	return true;
}

static bool batch_is_ours(const struct home_space *as, const struct pm_lease_req *req)
	__must_hold(&as->mutex)
{
	for (uint32_t i = 0; i < req->nr_ranges; i++)
		if (!range_is_ours(as, &req->ranges[i]))
			return false;
	return true;
}

/* As many of the ranges as there is memory for; 0 or an error that says that none has been done. */
static int batch_do(struct memory *m, struct home_space *as, const struct pm_lease_req *req)
	__must_hold(&as->mutex)
{
	for (uint32_t i = 0; i < req->nr_ranges; i++) {
		const struct pm_lease_range *r = &req->ranges[i];
		const uint64_t end = r->addr + r->len;
		int err;

		if (r->flags & PM_LEASE_MAPPED)
			err = span_protect(m, as, r->addr, end, r->prot);
		else
			err = span_unmap(m, as, r->addr, end);
		if (err)
			return i && err == -ENOMEM ? 0 : err;
		as->lease_number = req->number;
		as->lease_done = end;
	}
	return 0;
}

int home_lease(struct memory *m, uint32_t proc, const struct pm_lease_req *req,
	       struct pm_range_rep *rep)
{
	struct home_space *as = home_space_lock(m, req->aspace, proc, SPACE_MAPPED);
	int err = 0;

	reply_init(rep);
	if (IS_ERR(as))
		return (int)PTR_ERR(as);
	assert_mutex_held(&as->mutex);
	if (req->number < as->lease_number)
		err = -ESTALE;
	else if (req->number > as->lease_number)
		err = batch_is_ours(as, req) ? batch_do(m, as, req) : -EINVAL;
	rep->addr = as->lease_done;
	home_space_unlock(as);
	return err;
}
