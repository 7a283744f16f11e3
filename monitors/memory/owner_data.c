/* SPDX-License-Identifier: MIT */
/*
 * Owner: PM_FETCH, PM_FILL_VMA, PM_WRITEBACK.
 *
 * Flow:	fetch: find the region, check the area, pin the page, store the victim, answer; the
 *		page is unpinned when it has been sent.  Write-back: copy from the ring into the
 *		page's frame, or into a new one.
 * Context:	polling context first (no sleep, no allocation but a frame from the pool); a worker
 *		when a region is being handed over or frames are short for the moment.
 * Copy:	a page that is being sent (pinned) is not written: the new content goes into another
 *		frame, which takes its place.
 * Failure:	a fetch that fails has no effect: its victim has not been stored.
 */
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "memory.h"

#define FRAME_WAIT_NS (1000ull * 1000 * 1000) /* for frames that are pinned just now */

/*
 * Find the region of @vaddr in a state to be used.  0; -ESRCH no such space here; -EFAULT nothing
 * mapped there; -EREMCHG with *@redirect; -EAGAIN it settles and we may not sleep.
 */
static int region_find(struct memory *m, uint64_t aspace, uint64_t vaddr, bool may_sleep,
		       struct region **out, struct pm_vregion *redirect)
{
	struct region *r;
	int err;

	for (;;) {
		r = region_get(m, aspace, vaddr);
		if (!r)
			return -EFAULT;
		err = 0;
		spin_lock(&r->lock);
		if (r->state == REGION_REDIRECT) {
			*redirect = r->entry;
			err = -EREMCHG;
		} else if (r->state == REGION_DEAD) {
			err = -EFAULT;
		} else if (region_is_busy(r->state)) {
			err = -EAGAIN;
		}
		spin_unlock(&r->lock);
		if (err != -EAGAIN || !may_sleep)
			break;
		err = region_wait_idle(r);
		region_put(r);
		if (err)
			return err;
	}
	if (err) {
		region_put(r);
		return err;
	}
	*out = r;
	return 0;
}

/* --- store ----------------------------------------------------------------------------- */

/* May the page at @vaddr be written back?  Protection does not matter: it may have changed since. */
static int store_check_locked(const struct region *r, uint64_t vaddr) __must_hold(&r->lock)
{
	const struct area *area = area_at(&r->areas, vaddr);

	if (!area)
		return -EFAULT;
	if ((area->v.flags & (PM_VMA_FILE | PM_VMA_OBJECT)) && (area->v.flags & PM_VMA_SHARED))
		return -EROFS;
	return 0;
}

/*
 * Try to store with *@fresh (may be NULL) as the frame to use if a new one is needed; it is taken when
 * it was.  -ENOBUFS: a new frame is needed and there is none; -EBUSY: the same, in the place of one that is being sent.
 */
static int store_locked(struct memory *m, struct region *r, uint64_t vaddr, uint64_t seq,
			const void *data, struct mpage **fresh, struct mpage **replaced)
	__must_hold(&r->lock)
{
	struct mpage *page = page_lookup_locked(m, r, vaddr);

	if (page && seq && page->seq >= seq) {
		STAT_INC(m, writeback_stale);
		return 0;
	}
	if (page && __atomic_load_n(&page->refs, __ATOMIC_ACQUIRE) == 1) {
		memcpy(mpage_virt(&m->pool, page), data, PAGE_SIZE);
		page->seq = seq;
		return 0;
	}
	if (!*fresh)
		return page ? -EBUSY : -ENOBUFS;
	if (page) {
		page_remove_locked(m, r, page);
		*replaced = page;
	}
	memcpy(mpage_virt(&m->pool, *fresh), data, PAGE_SIZE);
	(*fresh)->seq = seq;
	page_insert_locked(m, r, *fresh, vaddr);
	*fresh = NULL;
	return 0;
}

/* A frame for a page of @proc; waits a while for pinned ones if it may. */
static struct mpage *frame_for(struct memory *m, uint32_t proc, bool may_sleep)
{
	struct mpage *page = pool_alloc_anon(&m->pool, proc);

	if (!page && may_sleep)
		(void)wait_event_timeout(&m->pool.freed,
					 (page = pool_alloc_anon(&m->pool, proc)) != NULL,
					 time_now_ns() + FRAME_WAIT_NS);
	return page;
}

/*
 * A frame in the place of one that the page has already: the processor counts no credit as used, so none is taken
 * unless there is no other way.
 */
static struct mpage *frame_instead(struct memory *m, uint32_t proc, bool may_sleep)
{
	struct mpage *page = frame_for(m, 0, may_sleep);

	return page || !may_sleep ? page : pool_alloc_anon(&m->pool, proc);
}

/* As owner_store(), into a region in @want state. */
static int store_in(struct memory *m, struct region *r, enum region_state want, uint32_t proc,
		    uint64_t vaddr, uint64_t seq, const void *data, bool may_sleep)
{
	struct mpage *fresh = NULL, *replaced = NULL;
	int err;

	for (;;) {
		spin_lock(&r->lock);
		err = r->state == want ? store_check_locked(r, vaddr) : -EAGAIN;
		if (!err)
			err = store_locked(m, r, vaddr, seq, data, &fresh, &replaced);
		spin_unlock(&r->lock);
		if (err != -ENOBUFS && err != -EBUSY)
			break;
		fresh = err == -EBUSY ? frame_instead(m, proc, may_sleep)
				      : frame_for(m, proc, may_sleep);
		if (!fresh) {
			err = may_sleep ? -ENOMEM : -EAGAIN;
			break;
		}
	}
	/*
	 * A frame taken in vain (somebody stored the page meanwhile, or it went away) goes back, and
	 * with it the credit that it may have used up: the processor counts it as used.
	 */
	if (fresh)
		mpage_put(&m->pool, fresh);
	if (replaced)
		mpage_put(&m->pool, replaced);
	return err;
}

int owner_store(struct memory *m, uint32_t proc, uint64_t aspace, uint64_t vaddr, uint64_t seq,
		const void *data, bool may_sleep)
{
	struct pm_vregion redirect;
	struct region *r;
	int err;

	do {
		err = region_find(m, aspace, vaddr, may_sleep, &r, &redirect);
		if (err)
			return err;
		err = store_in(m, r, REGION_ACTIVE, proc, vaddr, seq, data, may_sleep);
		region_put(r);
	} while (err == -EAGAIN && may_sleep);
	if (!err) {
		STAT_INC(m, writebacks);
		STAT_ADD(m, bytes_in, PAGE_SIZE);
	} else if (err == -ENOMEM) {
		STAT_INC(m, enomem);
	} else if (err == -EREMCHG) {
		STAT_INC(m, redirects_sent);
	}
	return err;
}

int owner_pages(struct memory *m, const struct mm_pages_req *req, const void *data)
{
	int err = 0;

	for (uint32_t i = 0; i < req->nr_pages && !err; i++) {
		const uint64_t vaddr = req->pages[i].vaddr;
		struct region *r = region_get(m, req->aspace, vaddr);
		enum region_state state;

		if (!r)
			return -EFAULT;
		state = __atomic_load_n(&r->state, __ATOMIC_ACQUIRE);
		err = -ESTALE;
		if (state == REGION_ACTIVE || state == REGION_ARRIVING)
			err = store_in(m, r, state, 0, vaddr, req->pages[i].seq,
				       (const uint8_t *)data + i * PAGE_SIZE, true);
		region_put(r);
	}
	return err;
}

/* --- fetch ----------------------------------------------------------------------------- */

/* What lies behind a page that has never been written? */
static enum pm_fetch_result unwritten(const struct pm_vma *v, uint64_t vaddr)
{
	if ((v->flags & (PM_VMA_FILE | PM_VMA_OBJECT)) && vaddr - v->start < v->file_bytes)
		return PM_FETCH_FILE;
	return PM_FETCH_ZERO;
}

static int fetch_locked(struct memory *m, struct region *r, const struct pm_fetch_req *req,
			struct pm_fetch_rep *rep, struct mpage **page) __must_hold(&r->lock)
{
	const struct area *area = area_at(&r->areas, req->vaddr);

	if (!area)
		return -EFAULT;
	if (!area->v.prot || ((req->flags & PM_FETCH_WRITE) && !(area->v.prot & PM_PROT_WRITE)))
		return -EACCES;
	rep->prot = area->v.prot;
	*page = page_lookup_locked(m, r, req->vaddr);
	if (*page) {
		mpage_get(*page);
		rep->result = PM_FETCH_DATA;
	} else {
		rep->result = unwritten(&area->v, req->vaddr);
	}
	return 0;
}

static void fetch_count(struct memory *m, const struct pm_fetch_rep *rep)
{
	STAT_INC(m, fetches);
	if (rep->result == PM_FETCH_DATA) {
		STAT_INC(m, fetch_data);
		STAT_ADD(m, bytes_out, PAGE_SIZE);
	} else if (rep->result == PM_FETCH_ZERO) {
		STAT_INC(m, fetch_zero);
	} else {
		STAT_INC(m, fetch_file);
	}
}

/* Pin the page, or find out why there is none.  -EAGAIN (only unless @may_sleep). */
static int fetch_pin(struct memory *m, const struct pm_fetch_req *req, bool may_sleep,
		     struct pm_fetch_rep *rep, struct mpage **page, struct pm_vregion *redirect)
{
	struct region *r;
	int err;

	do {
		err = region_find(m, req->aspace, req->vaddr, may_sleep, &r, redirect);
		if (err)
			return err;
		spin_lock(&r->lock);
		err = r->state == REGION_ACTIVE ? fetch_locked(m, r, req, rep, page) : -EAGAIN;
		spin_unlock(&r->lock);
		region_put(r);
	} while (err == -EAGAIN && may_sleep);
	return err;
}

int owner_fetch(struct memory *m, uint32_t proc, const struct pm_fetch_req *req,
		const void *victim_data, bool may_sleep, struct pm_fetch_rep *rep,
		struct mpage **page, struct pm_vregion *redirect)
{
	int err;

	*rep = (struct pm_fetch_rep){ 0 };
	*page = NULL;
	if (space_processor(req->aspace) != proc)
		return -ESRCH;
	err = fetch_pin(m, req, may_sleep, rep, page, redirect);
	if (!err && (req->flags & PM_FETCH_VICTIM)) {
		err = -ESRCH;
		if (space_processor(req->victim_aspace) == proc)
			err = owner_store(m, proc, req->victim_aspace, req->victim_vaddr,
					  req->victim_seq, victim_data, may_sleep);
		if (err == -EAGAIN && *page) {
			mpage_put(&m->pool, *page);
			*page = NULL;
		}
		if (err != -EAGAIN) {
			STAT_INC(m, victims);
			rep->victim_status = err;
			err = 0;
		}
	}
	if (err == -EAGAIN)
		return err;
	if (err) {
		if (err == -EREMCHG)
			STAT_INC(m, redirects_sent);
		else
			STAT_INC(m, fetch_errors);
		return err;
	}
	rep->grant.node = m->node;
	rep->grant.frames = pool_grant(&m->pool, proc, req->want_credits);
	fetch_count(m, rep);
	return 0;
}

int owner_fill_vma(struct memory *m, const struct pm_fill_vma_req *req, struct pm_vma *out,
		   struct pm_vregion *redirect)
{
	const struct area *area;
	struct region *r;
	int err;

	err = region_find(m, req->aspace, req->vaddr, true, &r, redirect);
	if (err == -EREMCHG)
		STAT_INC(m, redirects_sent);
	if (err)
		return err;
	spin_lock(&r->lock);
	area = area_at(&r->areas, req->vaddr);
	if (area)
		*out = area->v;
	else
		err = -EFAULT;
	spin_unlock(&r->lock);
	region_put(r);
	return err;
}

/* Would storing every page of @req work without sleeping for a region to settle? */
static bool writeback_ready(struct memory *m, const struct pm_writeback_req *req)
{
	struct pm_vregion redirect;
	struct region *r;

	for (uint32_t i = 0; i < req->nr_pages; i++) {
		const int err =
			region_find(m, req->aspace, req->pages[i].vaddr, false, &r, &redirect);

		if (!err)
			region_put(r);
		if (err == -EAGAIN)
			return false;
	}
	return true;
}

int owner_writeback(struct memory *m, uint32_t proc, const struct pm_writeback_req *req,
		    const void *data, bool may_sleep, struct pm_writeback_rep *rep)
{
	*rep = (struct pm_writeback_rep){ .nr_pages = req->nr_pages };
	if (space_processor(req->aspace) != proc)
		return -ESRCH;
	if (!may_sleep && !writeback_ready(m, req))
		return -EAGAIN;
	for (uint32_t i = 0; i < req->nr_pages; i++) {
		/* Running this again is harmless: a page that is stored is not newer than itself. */
		rep->status[i] =
			owner_store(m, proc, req->aspace, req->pages[i].vaddr, req->pages[i].seq,
				    (const uint8_t *)data + i * PAGE_SIZE, may_sleep);
		if (rep->status[i] == -EAGAIN && !may_sleep)
			return -EAGAIN;
	}
	return 0;
}
