/* SPDX-License-Identifier: MIT */
/*
 * Owner: PM_FETCH, PM_FETCH_AHEAD, PM_FILL_VMA, PM_WRITEBACK, MM_PAGES.
 *
 * Flow:	fetch: find the region, check the area, pin the page, store the victim, answer; the
 *		page is unpinned when the device has sent it. Write-back: region_apply() copies
 *		each page from the ring into its frame, or into a new one.
 * Context:	polling context first (no sleep, no allocation but a frame from the pool). A thread
 *		when a region is busy or frames are short for the moment.
 * Failure:	a fetch that fails has no effect: its victim has not been stored.
 */
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "memory.h"
#include "region_apply.h"

/*
 * May @proc use @r? Each request is checked; the view is asked again only when a placement has
 * ended since the last time. 0; -ESRCH; errors as memory_check_vnode()'s.
 */
static int region_check_sender(struct memory *m, struct region *r, uint32_t proc, bool may_sleep)
{
	/* Before the view is asked, so that an answer of before the change counts as such. */
	const uint32_t now = __atomic_load_n(&m->placements, __ATOMIC_ACQUIRE);
	int err;

	if (r->proc != proc)
		return -ESRCH;
	if (likely(__atomic_load_n(&r->placed, __ATOMIC_RELAXED) == now))
		return 0;
	err = memory_check_vnode(m, r->vnode, proc, may_sleep);
	if (!err)
		__atomic_store_n(&r->placed, now, __ATOMIC_RELAXED);
	return err;
}

/*
 * Find the region of @vaddr in a state to be used.  0; -ESRCH it is not known here, or its space is
 * not @proc's; -EACCES @proc does not have its vNode; -EREMCHG with *@redirect; -EAGAIN it is busy,
 * or nobody can tell about the vNode yet, and we may not sleep.
 */
static int region_find(struct memory *m, uint32_t proc, uint64_t aspace, uint64_t vaddr,
		       bool may_sleep, struct region **out, struct pm_vregion *redirect)
{
	struct region *r;
	int err;

	for (;;) {
		r = region_get(m, aspace, vaddr);
		if (!r)
			return -ESRCH;
		err = region_check_sender(m, r, proc, may_sleep);
		if (err)
			break;
		spin_lock(&r->lock);
		if (r->state == REGION_REDIRECT) {
			*redirect = r->entry;
			err = -EREMCHG;
		} else if (r->state == REGION_DEAD) {
			err = -ESRCH;
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

/* The same for a question about what is mapped: where there is no region, nothing is: -EFAULT. */
static int region_find_mapped(struct memory *m, uint32_t proc, uint64_t aspace, uint64_t vaddr,
			      bool may_sleep, struct region **out, struct pm_vregion *redirect)
{
	const int err = region_find(m, proc, aspace, vaddr, may_sleep, out, redirect);

	/* But of a space of which nothing is here, we may have lost what there was. */
	return err == -ESRCH && owner_masters(m, aspace).processor == proc ? -EFAULT : err;
}

static const uint8_t zero_page[PAGE_SIZE]; /* the data of a page of zeroes, which is not sent */

/* --- store ----------------------------------------------------------------------------- */

/*
 * Store a page that has come from @proc (0: from another owner) into @r, if it is in @state; then
 * its place is in *@place, unless that is NULL. Errors as region_apply()'s. @completion NULL: wait
 * until it is complete.
 */
static int store_in(struct memory *m, struct region *r, enum region_state state, uint32_t proc,
		    const struct pm_writeback_page *page, const void *data, bool may_sleep,
		    struct pm_place *place, struct region_completion *completion)
{
	struct region_op op; /* not cleared: this is the write-back path */
	int err;

	op.change.kind = CHANGE_STORE;
	op.change.store.vaddr = page->vaddr;
	op.change.store.seq = page->seq;
	op.change.store.data = data;
	op.change.store.proc = proc;
	op.change.store.credit = false;
	op.from = REGION_IN(state);
	op.may_sleep = may_sleep;
	op.completion = completion;
	err = completion ? region_apply(m, r, &op) : region_apply_wait(m, r, &op);
	if (!err && place)
		*place = op.place;
	return err;
}

/*
 * Store a page that has come from @proc, which may read it at *@place then. -ESRCH the region is
 * not known here; -EFAULT it is, and nothing is mapped there; -EROFS; -EREMCHG; -ENOMEM; -EAGAIN
 * (only unless @may_sleep).
 */
static int store(struct memory *m, uint32_t proc, uint64_t aspace,
		 const struct pm_writeback_page *page, const void *data, bool may_sleep,
		 struct pm_place *place, struct region_completion *completion)
{
	struct pm_vregion redirect;
	struct region *r;
	int err;

	do {
		err = region_find(m, proc, aspace, page->vaddr, may_sleep, &r, &redirect);
		if (err)
			return err;
		err = store_in(m, r, REGION_ACTIVE, proc, page, data, may_sleep, place, completion);
		region_put(r);
	} while (err == -EAGAIN && may_sleep);
	if (!err) {
		STAT_INC(m, writebacks);
		STAT_ADD(m, bytes_in, data == zero_page ? 0 : PAGE_SIZE);
	} else if (err == -ENOMEM) {
		STAT_INC(m, enomem);
	}
	return err;
}

int owner_pages(struct memory *m, const struct mm_pages_req *req, const void *data)
{
	int err = 0;

	for (uint32_t i = 0; i < req->nr_pages && !err; i++) {
		struct region *r = region_get(m, req->aspace, req->pages[i].vaddr);
		enum region_state state;

		if (!r)
			return -EFAULT;
		state = __atomic_load_n(&r->state, __ATOMIC_ACQUIRE);
		err = -ESTALE;
		if (state == REGION_ACTIVE || state == REGION_ARRIVING)
			err = store_in(m, r, state, 0, &req->pages[i],
				       (const uint8_t *)data + i * PAGE_SIZE, true, NULL, NULL);
		region_put(r);
	}
	return err;
}

/* --- fetch ----------------------------------------------------------------------------- */

/* The result of a fetch of a page that has never been written. */
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

	assert_spin_held(&r->lock);
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
static int fetch_pin(struct memory *m, uint32_t proc, const struct pm_fetch_req *req,
		     bool may_sleep, struct pm_fetch_rep *rep, struct mpage **page,
		     struct pm_vregion *redirect)
{
	struct region *r;
	int err;

	do {
		err = region_find_mapped(m, proc, req->aspace, req->vaddr, may_sleep, &r, redirect);
		if (err)
			return err;
		spin_lock(&r->lock);
		err = r->state == REGION_ACTIVE ? fetch_locked(m, r, req, rep, page) : -EAGAIN;
		spin_unlock(&r->lock);
		if (!err && *page) {
			region_page_readable(m, r, page);
			rep->page = mpage_place(&m->pool, *page, r->proc);
		}
		region_put(r);
	} while (err == -EAGAIN && may_sleep);
	return err;
}

int owner_fetch(struct memory *m, uint32_t proc, const struct pm_fetch_req *req,
		const void *victim_data, bool may_sleep, struct pm_fetch_rep *rep,
		struct mpage **page, struct pm_vregion *redirect,
		struct region_completion *completion)
{
	int err;

	*rep = (struct pm_fetch_rep){ 0 };
	*page = NULL;
	err = fetch_pin(m, proc, req, may_sleep, rep, page, redirect);
	if (!err && (req->flags & PM_FETCH_VICTIM)) {
		const struct pm_writeback_page victim = { req->victim_vaddr, req->victim_seq };

		err = store(m, proc, req->victim_aspace, &victim, victim_data, may_sleep,
			    &rep->victim, completion);
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
	rep->grant = owner_grant(m, proc, req->want_credits, completion);
	fetch_count(m, rep);
	return 0;
}

uint32_t owner_fetch_ahead(struct memory *m, uint32_t proc, const struct pm_fetch_ahead_req *req,
			   struct mpage **pages)
{
	struct pm_vregion redirect;
	struct pm_fetch_rep rep;
	uint32_t sent = 0;

	memset(pages, 0, req->nr_pages * sizeof(*pages));
	for (uint32_t i = 0; i < req->nr_pages; i++) {
		const struct pm_fetch_req one = { .aspace = req->aspace,
						  .vaddr = req->pages[i].vaddr };

		if (fetch_pin(m, proc, &one, false, &rep, &pages[i], &redirect) == 0 && pages[i])
			sent |= 1u << i;
	}
	STAT_INC(m, fetches_ahead);
	STAT_ADD(m, fetch_ahead_pages, (uint64_t)__builtin_popcount(sent));
	STAT_ADD(m, bytes_out, (uint64_t)__builtin_popcount(sent) * PAGE_SIZE);
	return sent;
}

int owner_fill_vma(struct memory *m, uint32_t proc, const struct pm_fill_vma_req *req,
		   struct pm_vma *out, struct pm_vregion *redirect)
{
	const struct area *area;
	struct region *r;
	int err;

	err = region_find_mapped(m, proc, req->aspace, req->vaddr, true, &r, redirect);
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

/* Could every page of @req be stored without waiting for a busy region? */
static bool writeback_ready(struct memory *m, uint32_t proc, const struct pm_writeback_req *req)
{
	struct pm_vregion redirect;
	struct region *r;

	for (uint32_t i = 0; i < req->nr_pages; i++) {
		const int err = region_find(m, proc, req->aspace, req->pages[i].vaddr, false, &r,
					    &redirect);

		if (!err)
			region_put(r);
		if (err == -EAGAIN)
			return false;
	}
	return true;
}

int owner_writeback(struct memory *m, uint32_t proc, const struct pm_writeback_req *req,
		    const void *data, bool may_sleep, struct pm_writeback_rep *rep,
		    struct region_completion *completion)
{
	const uint8_t *next = data;
	bool is_short = false, moved = false;

	*rep = (struct pm_writeback_rep){ .nr_pages = req->nr_pages };
	if (!may_sleep && !writeback_ready(m, proc, req))
		return -EAGAIN;
	for (uint32_t i = 0; i < req->nr_pages; i++) {
		const bool zero = req->zeroes & (1u << i);
		struct pm_stored *stored = &rep->pages[i];
		int *status = &stored->status;

		/*
		 * Running this again is harmless: a page that is stored is not newer than itself.
		 */
		*status = store(m, proc, req->aspace, &req->pages[i], zero ? zero_page : next,
				may_sleep && !is_short, &stored->place, completion);
		next += zero ? 0 : PAGE_SIZE;
		if (*status == -EAGAIN && !may_sleep)
			return -EAGAIN;
		moved |= *status == -EREMCHG;
		/* Room is being made: the page is to be sent again. One wait is enough for all. */
		is_short |= *status == -ENOMEM;
		if (*status == -ENOMEM && relief_kick(m))
			*status = -EAGAIN;
	}
	if (unlikely(moved))
		STAT_INC(m, redirects_sent);
	return 0;
}
