/* SPDX-License-Identifier: MIT */
/*
 * Owner: moving pages, for mremap (MM_MOVE) and when a vRegion gets another owner (MM_VREGION_MOVE
 * at the old owner, MM_VREGION_TAKE at the new one).
 *
 * Flow:	mremap: the processor has written back and dropped the old range's lines and blocks
 *		faults, so no request that it waits for touches either range. A page gets a number
 *		newer than any write-back of its new address, so one of these that is still being
 *		served does not replace it.
 *		vRegion: while it is LEAVING, fetches and write-backs wait. The device only reads
 *		pages that it sends to the processor, so they may be sent to the new owner as well.
 *		After MM_TAKE_DONE the old owner keeps the new owner's name and redirects the
 *		waiting requests.
 * Context:	a thread; it waits for the other owner's MM_PAGES and MM_VREGION_TAKE.
 * Failure:	until MM_TAKE_DONE has been answered the old owner has everything, and serves
 *		again. The new owner drops its part when it hears so, or when a move to the same
 *		version begins again: no other node has been told of it. A home whose request got
 *		no answer repeats it and gets the result.
 */
#include <lib/alloc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "memory.h"
#include "region_apply.h"

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
			struct region_op op = {
				.change = { .kind = CHANGE_SENT, .page = { .vaddr = page->index } },
				.page = page,
			};

			(void)region_apply_wait(m, r, &op);
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

/* The page at @vaddr of @r gets the address @to, which is ours too.  *@moved counts it. */
static int move_here(struct memory *m, struct region *r, uint64_t vaddr, uint64_t to, uint64_t seq,
		     uint64_t *moved)
{
	struct region_op op = {
		.change = { .kind = CHANGE_MOVE_PAGE,
			    .page = { .vaddr = vaddr, .to = to, .seq = seq } },
		.from = REGION_IN(REGION_ACTIVE),
		.other = region_get(m, r->aspace, to),
	};
	int err;

	if (!op.other)
		return -ESTALE;
	err = region_apply_wait(m, r, &op);
	region_put(op.other);
	*moved += op.pages;
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

	if (dest == m->node)
		return move_here(m, r, vaddr, to, req->seq, moved);
	if (b->dest != dest || b->req.nr_pages == MM_PAGES_MAX) {
		err = batch_send(m, b);
		if (err)
			return err;
		b->dest = dest;
	}
	spin_lock(&r->lock);
	page = page_lookup_locked(m, r, vaddr);
	if (page)
		mpage_get(page);
	spin_unlock(&r->lock);
	if (!page)
		return 0;
	(*moved)++;
	__atomic_add_fetch(&r->refs, 1, __ATOMIC_RELAXED);
	batch_add(b, page, r, to, req->seq);
	return 0;
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

/* The hand-over is over, and has failed unless there is @to: the new owner's entry. */
static void leave_done(struct memory *m, struct region *r, const struct pm_vregion *to)
{
	struct region_op op = {
		.change = { .kind = to ? CHANGE_RESET : CHANGE_STATE,
			    .state = { .to = to ? REGION_REDIRECT : REGION_ACTIVE, .entry = to } },
		.from = REGION_IN(REGION_LEAVING),
	};

	(void)region_apply_wait(m, r, &op); /* or it has been killed meanwhile */
}

static int leave(struct memory *m, struct region *r, const struct mm_vregion_move_req *req,
		 struct mm_vregion_take_req *take)
{
	int err;

	take->aspace = req->aspace;
	take->vregion = req->vregion;
	take->home = owner_masters(m, req->aspace).home;
	take->processor = r->proc;
	take->vnode = req->vnode;
	take->vregion_shift = m->vregion_shift;
	err = take_stage(m, take, MM_TAKE_BEGIN);
	if (!err)
		err = send_vmas(m, r, take);
	if (!err)
		err = send_pages(m, r, req->vregion.owner);
	if (!err)
		err = take_stage(m, take, MM_TAKE_DONE);
	if (err && take_stage(m, take, MM_TAKE_ABORT))
		/* the new owner is out of reach: it drops what it has when it rejoins */
		return err;
	return err;
}

/* Begin a hand-over to @to.  -EALREADY: it has been done; -EINVAL: it cannot be. */
static int leave_begin(struct memory *m, struct region *r, const struct pm_vregion *to,
		       uint64_t *pages)
{
	struct region_op op = {
		.change = { .kind = CHANGE_STATE, .state = { .to = REGION_LEAVING } },
		.from = REGION_IN(REGION_ACTIVE),
	};
	enum region_state state;
	uint32_t owner;
	int err;

	do {
		/* One that is leaving does so by the same request, which is still being served. */
		wait_event(&r->idle,
			   __atomic_load_n(&r->state, __ATOMIC_ACQUIRE) != REGION_LEAVING);
		spin_lock(&r->lock);
		state = r->state;
		owner = r->entry.owner;
		*pages = r->nr_pages;
		spin_unlock(&r->lock);
		if (state == REGION_REDIRECT && owner == to->owner)
			return -EALREADY; /* asked again: the answer was lost */
		if (state != REGION_LEAVING && (state != REGION_ACTIVE || to->owner == m->node))
			return -EINVAL;
		err = region_apply_wait(m, r, &op);
	} while (err == -ESTALE);
	return err;
}

int owner_vregion_move(struct memory *m, struct home_id home, const struct mm_vregion_move_req *req,
		       struct mm_range_rep *rep)
{
	/*
	 * A region without mappings may be gone here; the new owner must learn of it all the same.
	 */
	const struct region_init init = {
		.state = REGION_ACTIVE, .holes = true, .proc = req->processor, .vnode = req->vnode
	};
	struct region *r =
		region_make(m, req->aspace, home, req->vregion.index, m->vregion_shift, &init);
	struct mm_vregion_take_req *take;
	int err;

	if (IS_ERR(r))
		return (int)PTR_ERR(r);
	take = lib_zalloc(sizeof(*take));
	err = take ? leave_begin(m, r, &req->vregion, &rep->pages) : -ENOMEM;
	if (!err) {
		/*
		 * The frames will have other contents, and the processor would not know. A page
		 * that it has written back elsewhere meanwhile it does not look for here.
		 */
		extents_recall(&m->pool, r->proc, true);
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
 * Give up what has come of @move, perhaps all of it (then the answer to MM_TAKE_DONE was lost, and
 * the old owner serves), and be in @state; @entry: the node that has the vRegion. @from: states
 * beside ARRIVING and ACTIVE by this very move.
 */
static int take_drop(struct memory *m, struct region *r, const struct pm_vregion *move,
		     unsigned int from, enum region_state state, const struct pm_vregion *entry)
{
	struct region_op op = {
		.change = { .kind = CHANGE_RESET, .state = { .to = state, .entry = entry } },
		.from = from | REGION_IN(REGION_ARRIVING) | REGION_IN(REGION_ACTIVE),
		.move = move,
	};

	return region_apply_wait(m, r, &op);
}

static int take_begin(struct memory *m, const struct mm_vregion_take_req *req)
{
	/* The home has told of it. It need not be asked: if it has left, so has the space. */
	const struct region_init init = { .state = REGION_ARRIVING,
					  .holes = true,
					  .proc = req->processor,
					  .vnode = req->vnode,
					  .known = true };
	const struct home_id home = { req->home, 0 };
	struct region *r =
		region_make(m, req->aspace, home, req->vregion.index, req->vregion_shift, &init);
	int err;

	if (IS_ERR(r))
		return (int)PTR_ERR(r);
	err = take_drop(m, r, &req->vregion, REGION_IN(REGION_REDIRECT), REGION_ARRIVING,
			&req->vregion);
	region_put(r);
	return err;
}

static int take_vma(struct memory *m, struct region *r, const struct pm_vma *v)
{
	struct region_op op = {
		.change = { .kind = CHANGE_MAP, .map = { .area = v } },
		.from = REGION_IN(REGION_ARRIVING),
	};
	int err = v->start < r->start || v->end > r->end ? -EPROTO : region_reserve(r, true);

	if (!err)
		err = region_apply_wait(m, r, &op);
	return err == -EEXIST ? -ESTALE : err;
}

/* It is not to be: drop what has come, and point to the node that still has it. */
static void take_abort(struct memory *m, struct region *r, uint32_t peer,
		       const struct mm_vregion_take_req *req)
{
	const struct pm_vregion entry = { .index = r->index, .owner = peer };

	(void)take_drop(m, r, &req->vregion, 0, REGION_REDIRECT, &entry);
}

static int take_done(struct memory *m, struct region *r, const struct mm_vregion_take_req *req)
{
	struct region_op op = {
		.change = { .kind = CHANGE_STATE,
			    .state = { .to = REGION_ACTIVE,
				       .entry = &req->vregion,
				       .holes = true } }, /* not known here */
		.from = REGION_IN(REGION_ARRIVING),
	};

	return region_apply_wait(m, r, &op);
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
		err = take_done(m, r, req);
	for (uint32_t i = 0; i < req->nr_vmas && !err; i++)
		err = take_vma(m, r, &req->vmas[i]);
	region_put(r);
	return err;
}
