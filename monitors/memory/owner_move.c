/* SPDX-License-Identifier: MIT */
/*
 * Owner: moving pages, for mremap (MM_MOVE) and when a vRegion gets another owner
 * (MM_VREGION_MOVE at the old owner, MM_VREGION_TAKE at the new one).
 *
 * Context:	a worker; waits for the other owner's MM_PAGES and MM_VREGION_TAKE.
 * mremap:	the processor has written back and dropped the old range's lines and blocks faults, so
 *		nobody touches either range.  A page's write-back numbers begin anew at its new address.
 * vRegion:	while it is LEAVING, fetches and write-backs wait.  Pages being sent to the processor
 *		are only read, so they may be sent to the new owner as well.  After MM_TAKE_DONE the old
 *		owner keeps nothing but the new owner's name and the waiting requests get "moved".
 * Failure:	until MM_TAKE_DONE has been answered the old owner has everything and takes up service
 *		again.  What the new owner has by then it drops when it hears so, or when the same
 *		version of the vRegion is begun again: nobody else has been told of it.
 * Again:	a home whose request had no answer says it again, and hears what came of it.
 */
#include <lib/alloc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "memory.h"
#include "owner_private.h"

/* Send the batch and unpin its pages; those with @from leave the page table if it worked. */
static int batch_send(struct memory *m, struct page_batch *b)
{
	ssize_t len;
	int err;

	if (!b->req.nr_pages)
		return 0;
	len = mm_pages_req_encode(&b->req, b->body, sizeof(b->body));
	if (len < 0)
		err = (int)len;
	else
		err = m->net->call(m, b->dest, MM_PAGES, b->body, (uint32_t)len, b->pages,
				   b->req.nr_pages, NULL, 0);
	for (uint32_t i = 0; i < b->req.nr_pages; i++) {
		struct region *r = b->from[i];
		struct mpage *page = b->pages[i];

		if (r && err >= 0) {
			bool there;

			spin_lock(&r->lock);
			there = !list_empty(&page->link);
			if (there)
				page_remove_locked(m, r, page);
			spin_unlock(&r->lock);
			if (there)
				mpage_put(&m->pool, page);
		}
		if (r)
			region_put(r);
		mpage_put(&m->pool, page);
	}
	if (err >= 0)
		STAT_ADD(m, pages_moved, b->req.nr_pages);
	b->req.nr_pages = 0;
	return err < 0 ? err : 0;
}

static void batch_add(struct page_batch *b, struct mpage *page, struct region *from, uint64_t vaddr,
		      uint64_t seq)
{
	const uint32_t i = b->req.nr_pages++;

	b->pages[i] = page;
	b->from[i] = from;
	b->req.pages[i].vaddr = vaddr;
	b->req.pages[i].seq = seq;
}

/* --- mremap ---------------------------------------------------------------------------- */

/* Give @page, just taken out of the table, its new address here. */
static int page_rekey(struct memory *m, uint64_t aspace, struct mpage *page, uint64_t vaddr)
{
	struct region *r = region_get(m, aspace, vaddr);
	int err = 0;

	if (!r)
		return -ESTALE;
	spin_lock(&r->lock);
	if (r->state != REGION_ACTIVE || page_lookup_locked(m, r, vaddr)) {
		err = -ESTALE;
	} else {
		page->seq = 0;
		page_insert_locked(m, r, page, vaddr);
	}
	spin_unlock(&r->lock);
	region_put(r);
	return err;
}

/* Move the page at @vaddr of @r, if there is one. */
static int move_one(struct memory *m, const struct mm_move_req *req, struct region *r,
		    uint64_t vaddr, struct page_batch *b, uint64_t *moved)
{
	const uint64_t to = req->new_addr + (vaddr - req->old_addr);
	const uint32_t dest =
		req->vregions[(to >> req->vregion_shift) - req->vregions[0].index].owner;
	struct mpage *page;
	int err = 0;

	if (dest != m->node && (b->dest != dest || b->req.nr_pages == MM_PAGES_MAX)) {
		err = batch_send(m, b);
		if (err)
			return err;
		b->dest = dest;
	}
	spin_lock(&r->lock);
	page = page_lookup_locked(m, r, vaddr);
	if (page && dest == m->node)
		page_remove_locked(m, r, page);
	else if (page)
		mpage_get(page);
	spin_unlock(&r->lock);
	if (!page)
		return 0;
	(*moved)++;
	if (dest != m->node) {
		__atomic_add_fetch(&r->refs, 1, __ATOMIC_RELAXED);
		batch_add(b, page, r, to, 0);
		return 0;
	}
	err = page_rekey(m, req->aspace, page, to);
	if (err)
		mpage_put(&m->pool, page);
	return err;
}

static int move_region(struct memory *m, const struct mm_move_req *req, struct region *r,
		       struct page_batch *b, uint64_t *moved)
{
	const uint64_t end = MIN(r->end, req->old_addr + req->len);
	uint64_t left, done = *moved;
	int err = 0;

	spin_lock(&r->lock);
	left = r->nr_pages;
	spin_unlock(&r->lock);
	for (uint64_t va = MAX(r->start, req->old_addr); va < end && !err; va += PAGE_SIZE) {
		if (*moved - done >= left)
			break;
		err = move_one(m, req, r, va, b, moved);
	}
	return err;
}

int owner_move(struct memory *m, struct owner_move_work *work, struct mm_range_rep *rep)
{
	const struct mm_move_req *req = &work->req;
	const uint64_t end = req->old_addr + req->len;
	struct page_batch *b = &work->batch;
	uint64_t addr = req->old_addr;
	struct region *r;
	int err = 0, sent;

	b->dest = 0;
	b->req.nr_pages = 0;
	b->req.aspace = req->aspace;
	while (addr < end && !err && (r = region_get_above(m, req->aspace, addr))) {
		addr = r->end;
		if (r->start < end && __atomic_load_n(&r->state, __ATOMIC_ACQUIRE) == REGION_ACTIVE)
			err = move_region(m, req, r, b, &rep->pages);
		region_put(r);
	}
	sent = batch_send(m, b);
	return err ? err : sent;
}

/* --- a vRegion leaves ------------------------------------------------------------------ */

static int take_call(struct memory *m, const struct mm_vregion_take_req *req)
{
	const size_t cap = sizeof(struct mm_vregion_take_req_wire) +
			   MM_TAKE_MAX_VMAS * sizeof(struct pm_vma_wire);
	uint8_t *body = lib_alloc(cap);
	ssize_t len;
	int err;

	if (!body)
		return -ENOMEM;
	len = mm_vregion_take_req_encode(req, body, cap);
	err = len < 0 ? (int)len
		      : m->net->call(m, req->vregion.owner, MM_VREGION_TAKE, body, (uint32_t)len,
				     NULL, 0, NULL, 0);
	lib_free(body);
	return err < 0 ? err : 0;
}

static int take_stage(struct memory *m, struct mm_vregion_take_req *req, uint32_t stage)
{
	req->stage = stage;
	req->nr_vmas = 0;
	return take_call(m, req);
}

static int send_vmas(struct memory *m, struct region *r, struct mm_vregion_take_req *req)
{
	uint64_t addr = r->start;
	const struct area *area;
	int err;

	do {
		req->stage = MM_TAKE_VMAS;
		req->nr_vmas = 0;
		spin_lock(&r->lock);
		for (area = area_above(&r->areas, addr); area && req->nr_vmas < MM_TAKE_MAX_VMAS;
		     area = area_next(area)) {
			req->vmas[req->nr_vmas++] = area->v;
			addr = area->v.end;
		}
		spin_unlock(&r->lock);
		err = req->nr_vmas ? take_call(m, req) : 0;
	} while (!err && req->nr_vmas == MM_TAKE_MAX_VMAS);
	return err;
}

/* Pin every page of @r and put it into an array: *@nr of them.  NULL without memory. */
static struct mpage **pin_pages(struct region *r, uint64_t *nr)
{
	struct mpage **pages;
	struct mpage *page;
	uint64_t n = 0;

	spin_lock(&r->lock);
	*nr = r->nr_pages;
	spin_unlock(&r->lock);
	pages = lib_alloc((*nr + 1) * sizeof(*pages));
	if (!pages) {
		*nr = 0;
		return NULL;
	}
	spin_lock(&r->lock);
	list_for_each_entry(page, &r->pages, link) {
		if (n == *nr)
			break;
		mpage_get(page);
		pages[n++] = page;
	}
	spin_unlock(&r->lock);
	*nr = n;
	return pages;
}

static int send_pages(struct memory *m, struct region *r, uint32_t dest)
{
	struct page_batch *b = lib_zalloc(sizeof(*b));
	uint64_t nr = 0, i = 0;
	struct mpage **pages = b ? pin_pages(r, &nr) : NULL;
	int err = pages ? 0 : -ENOMEM;

	if (!err) {
		b->req.aspace = r->aspace;
		b->dest = dest;
	}
	for (; i < nr && !err; i++) {
		batch_add(b, pages[i], NULL, pages[i]->index, pages[i]->seq);
		if (b->req.nr_pages == MM_PAGES_MAX)
			err = batch_send(m, b);
	}
	if (!err)
		err = batch_send(m, b);
	for (; i < nr; i++)
		mpage_put(&m->pool, pages[i]);
	lib_free(pages);
	lib_free(b);
	return err;
}

/* Leave LEAVING, unless the region has been killed meanwhile. */
static void leave_done(struct memory *m, struct region *r, const struct pm_vregion *to)
{
	struct area_spare dead = { 0 };
	uint64_t charge = 0;

	spin_lock(&r->lock);
	if (r->state == REGION_LEAVING && to) {
		charge = area_range_charge(&r->areas, r->start, r->end);
		area_set_clear(&r->areas, &dead);
		r->entry = *to;
		__atomic_store_n(&r->state, REGION_REDIRECT, __ATOMIC_RELEASE);
	} else if (r->state == REGION_LEAVING) {
		__atomic_store_n(&r->state, REGION_ACTIVE, __ATOMIC_RELEASE);
	}
	spin_unlock(&r->lock);
	if (to) {
		region_drop_pages(m, r, r->start, r->end);
		pool_uncommit(&m->pool, charge);
		area_spare_free(&dead);
	}
	wake_all(&r->idle);
}

static int leave(struct memory *m, struct region *r, const struct mm_vregion_move_req *req,
		 struct mm_vregion_take_req *take)
{
	int err;

	take->aspace = req->aspace;
	take->vregion = req->vregion;
	take->home = owner_space_home(m, req->aspace);
	take->vregion_shift = m->vregion_shift;
	err = take_stage(m, take, MM_TAKE_BEGIN);
	if (!err)
		err = send_vmas(m, r, take);
	if (!err)
		err = send_pages(m, r, req->vregion.owner);
	if (!err)
		err = take_stage(m, take, MM_TAKE_DONE);
	if (err && take_stage(m, take, MM_TAKE_ABORT))
		return err; /* the new owner is out of reach: it drops what it has when it rejoins */
	return err;
}

int owner_vregion_move(struct memory *m, uint32_t home, const struct mm_vregion_move_req *req,
		       struct mm_range_rep *rep)
{
	/* One in which nothing is mapped may be gone here; the new owner must learn of it all the same. */
	struct region *r = region_make(m, req->aspace, home, req->vregion.index, m->vregion_shift,
				       &(struct region_init){ REGION_ACTIVE, true, 0 });
	struct mm_vregion_take_req *take;
	int err = 0;

	if (IS_ERR(r))
		return (int)PTR_ERR(r);
	take = lib_zalloc(sizeof(*take));
	if (!take) {
		region_put(r);
		return -ENOMEM;
	}
	spin_lock(&r->lock);
	while (r->state == REGION_LEAVING) { /* by the same request, which is still being served */
		spin_unlock(&r->lock);
		wait_event(&r->idle,
			   __atomic_load_n(&r->state, __ATOMIC_ACQUIRE) != REGION_LEAVING);
		spin_lock(&r->lock);
	}
	if (r->state == REGION_REDIRECT && r->entry.owner == req->vregion.owner)
		err = -EALREADY; /* asked again: the answer was lost */
	else if (r->state != REGION_ACTIVE || req->vregion.owner == m->node)
		err = -EINVAL;
	else
		__atomic_store_n(&r->state, REGION_LEAVING, __ATOMIC_RELEASE);
	rep->pages = r->nr_pages;
	spin_unlock(&r->lock);
	if (!err) {
		err = leave(m, r, req, take);
		leave_done(m, r, err ? NULL : &req->vregion);
		if (!err)
			STAT_INC(m, vregion_moves);
	} else if (err == -EALREADY) {
		err = 0;
	}
	lib_free(take);
	region_put(r);
	return err;
}

/* --- a vRegion arrives ----------------------------------------------------------------- */

/*
 * Does @r hold what has come of this very move?  Perhaps all of it: then the answer to MM_TAKE_DONE was
 * lost, and the old owner serves.
 */
static bool take_is_same_locked(const struct region *r, const struct pm_vregion *entry)
	__must_hold(&r->lock)
{
	return r->state == REGION_ARRIVING ||
	       (r->state == REGION_ACTIVE && r->entry.owner == entry->owner &&
		r->entry.version == entry->version);
}

/* Give up what has come of a move, and be in @state; @entry: who has the vRegion. */
static bool take_drop(struct memory *m, struct region *r, const struct pm_vregion *move,
		      enum region_state state, const struct pm_vregion *entry)
{
	struct area_spare dead = { 0 };
	uint64_t charge = 0;
	bool drop;

	spin_lock(&r->lock);
	drop = take_is_same_locked(r, move);
	if (drop) {
		charge = area_range_charge(&r->areas, r->start, r->end);
		area_set_clear(&r->areas, &dead);
		r->entry = *entry;
		__atomic_store_n(&r->state, state, __ATOMIC_RELEASE);
	}
	spin_unlock(&r->lock);
	if (drop)
		region_drop_pages(m, r, r->start, r->end);
	pool_uncommit(&m->pool, charge);
	area_spare_free(&dead);
	return drop;
}

static int take_begin(struct memory *m, const struct mm_vregion_take_req *req)
{
	struct region *r =
		region_make(m, req->aspace, req->home, req->vregion.index, req->vregion_shift,
			    &(struct region_init){ REGION_ARRIVING, true, 0 });
	bool moved;
	int err = 0;

	if (IS_ERR(r))
		return (int)PTR_ERR(r);
	spin_lock(&r->lock);
	moved = r->state == REGION_REDIRECT;
	if (moved)
		__atomic_store_n(&r->state, REGION_ARRIVING, __ATOMIC_RELEASE);
	spin_unlock(&r->lock);
	if (!moved && !take_drop(m, r, &req->vregion, REGION_ARRIVING, &req->vregion))
		err = -EEXIST;
	region_put(r);
	return err;
}

static int take_vma(struct memory *m, struct region *r, const struct pm_vma *v)
{
	int err = pool_commit(&m->pool, area_charge(v));

	if (err)
		return err;
	err = region_reserve(r);
	spin_lock(&r->lock);
	if (!err &&
	    (r->state != REGION_ARRIVING || !area_range_is_free(&r->areas, v->start, v->end)))
		err = -ESTALE;
	if (!err)
		area_insert(&r->areas, v, &r->spare);
	spin_unlock(&r->lock);
	if (err)
		pool_uncommit(&m->pool, area_charge(v));
	return err;
}

/* It is not to be: drop what has come, and point to the node that still has it. */
static void take_abort(struct memory *m, struct region *r, uint32_t peer,
		       const struct mm_vregion_take_req *req)
{
	const struct pm_vregion entry = { .index = r->index, .owner = peer };

	(void)take_drop(m, r, &req->vregion, REGION_REDIRECT, &entry);
	wake_all(&r->idle);
}

static int take_done(struct region *r, const struct mm_vregion_take_req *req)
{
	int err = 0;

	spin_lock(&r->lock);
	if (r->state == REGION_ARRIVING) {
		r->entry = req->vregion;
		r->holes = true; /* not known here */
		__atomic_store_n(&r->state, REGION_ACTIVE, __ATOMIC_RELEASE);
	} else {
		err = -ESTALE;
	}
	spin_unlock(&r->lock);
	wake_all(&r->idle);
	return err;
}

int owner_vregion_take(struct memory *m, uint32_t peer, const struct mm_vregion_take_req *req)
{
	struct region *r;
	int err = 0;

	if (req->vregion.owner != m->node)
		return -EPROTO;
	if (req->stage == MM_TAKE_BEGIN)
		return take_begin(m, req);
	r = region_get(m, req->aspace, req->vregion.index << req->vregion_shift);
	if (!r)
		return -ESTALE;
	if (req->stage == MM_TAKE_ABORT)
		take_abort(m, r, peer, req);
	else if (req->stage == MM_TAKE_DONE)
		err = take_done(r, req);
	for (uint32_t i = 0; i < req->nr_vmas && !err; i++)
		err = take_vma(m, r, &req->vmas[i]);
	region_put(r);
	return err;
}
