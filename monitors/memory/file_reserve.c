/* SPDX-License-Identifier: MIT */
/*
 * Room on the disk for pages that are going to be dirty.
 *
 * Flow:	before a page becomes dirty it is known to have its block, or storage has reserved
 *		one (MS_RESERVE). Writers in order ask for many pages at a time. A page that is
 *		written needs no reservation any more. Idle ones are given back after some seconds,
 *		and at once when storage has no room.
 * Invariants:	a bit in file_live.reserved stands for a page that storage has reserved; no other
 *		dirty page lacks one of its blocks, of which it may have several: storage gives a
 *		page only those that the file's size reaches. Storage reserves never less for a file
 *		than its bits. Each request tells all of them, so that the newest one is right by
 *		itself.
 * Locking:	file_live.change over a request, so that one is under way at a time, but for those
 *		of file_reserve_again(), which have an epoch that no other request has yet.
 *		page_cache.lock guards bits and the mapped run.
 * See:		docs/design/files.md
 */
#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/alloc.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <lib/rbtree.h>

#include "page_cache_private.h"

#define AHEAD_FIRST   16u /* pages behind the end of the file, at the first write there */
#define IDLE_NS       (5 * NSEC_PER_SEC)
#define HELD_NS       (60 * NSEC_PER_SEC) /* far longer than processors keep stores to themselves */
#define CHUNK_PAGES   64u
#define TRIES_MAX     4u /* of a request whose claim has to be made again */
#define WINDOW_CHUNKS (MS_RESERVE_MAX_PAGES / CHUNK_PAGES + 1)

struct reserve_chunk {
	struct rb_node node;
	uint64_t first;   /* const: page, a multiple of CHUNK_PAGES */
	uint64_t bits;    /* not 0 */
	uint64_t held_ns; /* when a mapping asked for some of them; 0: none has */
};

/* --- bits -------------------------------------------------------------------------------- */

/* The first chunk that ends behind @pgoff, or NULL. */
static struct reserve_chunk *chunk_from_locked(struct page_cache *pc, struct file_live *lf,
					       uint64_t pgoff) __must_hold(&pc->lock)
{
	struct rb_node *n = lf->reserved.node;
	struct reserve_chunk *found = NULL;

	assert_spin_held(&pc->lock);
	while (n) {
		struct reserve_chunk *c = rb_entry(n, struct reserve_chunk, node);

		if (pgoff < c->first + CHUNK_PAGES) {
			found = c;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	return found;
}

static bool is_reserved_locked(struct page_cache *pc, struct file_live *lf, uint64_t pgoff)
	__must_hold(&pc->lock)
{
	const struct reserve_chunk *c = chunk_from_locked(pc, lf, pgoff);

	assert_spin_held(&pc->lock);
	return c && c->first <= pgoff && c->bits & 1ull << (pgoff - c->first);
}

/* *@fresh is used up if there is no chunk for the page yet. */
static void reserve_locked(struct page_cache *pc, struct file_live *lf, uint64_t pgoff,
			   struct list_head *fresh) __must_hold(&pc->lock)
{
	const uint64_t first = pgoff - pgoff % CHUNK_PAGES;
	struct reserve_chunk *c = chunk_from_locked(pc, lf, first);
	struct rb_node **link = &lf->reserved.node, *parent = NULL;

	assert_spin_held(&pc->lock);
	if (!c || c->first != first) {
		ASSERT(!list_empty(fresh));
		c = (struct reserve_chunk *)(void *)fresh->next;
		list_del(fresh->next);
		*c = (struct reserve_chunk){ .first = first };
		while (*link) {
			parent = *link;
			link = first < rb_entry(parent, struct reserve_chunk, node)->first
				       ? &parent->left
				       : &parent->right;
		}
		rb_link_node(&c->node, parent, link);
		rb_insert_color(&c->node, &lf->reserved);
	}
	ASSERT(!(c->bits & 1ull << (pgoff - first)));
	c->bits |= 1ull << (pgoff - first);
	lf->nr_reserved++;
}

/* The bits of @mask in @c go, and the chunk with its last one. */
static void clear_locked(struct page_cache *pc, struct file_live *lf, struct reserve_chunk *c,
			 uint64_t mask) __must_hold(&pc->lock)
{
	assert_spin_held(&pc->lock);
	lf->nr_reserved -= (uint64_t)__builtin_popcountll(c->bits & mask);
	c->bits &= ~mask;
	if (c->bits)
		return;
	rb_erase(&c->node, &lf->reserved);
	lib_free(c);
}

void file_reserve_forget_locked(struct page_cache *pc, struct file_live *lf, uint64_t first,
				uint64_t end)
{
	struct reserve_chunk *c;

	assert_spin_held(&pc->lock);
	while ((c = chunk_from_locked(pc, lf, first)) && c->first < end) {
		const uint64_t from = MAX(first, c->first) - c->first;
		const uint64_t nr = MIN(end - c->first, (uint64_t)CHUNK_PAGES) - from;
		const uint64_t next = c->first + CHUNK_PAGES;

		clear_locked(pc, lf, c, (nr == 64 ? UINT64_MAX : (1ull << nr) - 1) << from);
		first = next;
	}
}

void file_reserve_end_locked(struct page_cache *pc, struct file_live *lf)
{
	assert_spin_held(&pc->lock);
	file_reserve_forget_locked(pc, lf, 0, UINT64_MAX);
	ASSERT(!lf->nr_reserved && rb_empty(&lf->reserved));
	lf->mapped_first = lf->mapped_end = 0;
	lf->ahead_next = lf->ahead = 0;
	lf->held_end = 0;
	if (lf->asked_ns)
		list_del(&lf->asked_link);
	lf->asked_ns = 0;
}

/* --- pages that have blocks -------------------------------------------------------------- */

/* [first, end) has blocks: the run that is remembered grows, or this is the one. */
static void mapped_locked(struct page_cache *pc, struct file_live *lf, uint64_t first, uint64_t end)
	__must_hold(&pc->lock)
{
	assert_spin_held(&pc->lock);
	if (first >= end)
		return;
	if (first <= lf->mapped_end && end >= lf->mapped_first) {
		lf->mapped_first = MIN(lf->mapped_first, first);
		lf->mapped_end = MAX(lf->mapped_end, end);
	} else {
		lf->mapped_first = first;
		lf->mapped_end = end;
	}
}

void file_reserve_kept_locked(struct page_cache *pc, struct file_live *lf, uint64_t first,
			      uint64_t end)
{
	assert_spin_held(&pc->lock);
	file_reserve_forget_locked(pc, lf, first, end);
	mapped_locked(pc, lf, first, end);
}

void file_reserve_unmapped(struct memory *m, struct cached_file *cf, uint64_t off)
{
	struct page_cache *pc = &m->page_cache;
	struct file_live *lf = cf->live;

	spin_lock(&pc->lock);
	/* Of the page that @off lies in some blocks may be left, or none. */
	lf->mapped_end = MIN(lf->mapped_end, off >> PAGE_SHIFT);
	lf->mapped_first = MIN(lf->mapped_first, lf->mapped_end);
	lf->held_end = MIN(lf->held_end, off >> PAGE_SHIFT);
	file_reserve_forget_locked(pc, lf, DIV_ROUND_UP(off, PAGE_SIZE), UINT64_MAX);
	spin_unlock(&pc->lock);
}

/* --- requests ---------------------------------------------------------------------------- */

static bool is_dirty_locked(struct page_cache *pc, struct cached_file *cf, uint64_t pgoff)
	__must_hold(&pc->lock)
{
	const struct mpage *page = cache_find_locked(pc, cf, pgoff);

	assert_spin_held(&pc->lock);
	return page && (page->state == CACHE_PAGE_DIRTY || page->state == CACHE_PAGE_WRITING ||
			page->state == CACHE_PAGE_WRITING_DIRTY);
}

/* Is each block there, or reserved? Of a dirty page a truncation may have taken some. */
static bool is_covered_locked(struct page_cache *pc, struct cached_file *cf, uint64_t pgoff)
	__must_hold(&pc->lock)
{
	struct file_live *lf = cf->live;

	assert_spin_held(&pc->lock);
	return (pgoff >= lf->mapped_first && pgoff < lf->mapped_end) ||
	       is_reserved_locked(pc, lf, pgoff);
}

/* From now on storage may have a reservation for the file. */
static void note_asked_locked(struct page_cache *pc, struct file_live *lf) __must_hold(&pc->lock)
{
	assert_spin_held(&pc->lock);
	if (lf->asked_ns)
		list_del(&lf->asked_link);
	list_add_tail(&lf->asked_link, &pc->asked);
	lf->asked_ns = time_now_ns();
}

/* The request for pages [pgoff, pgoff + need). */
static void plan_locked(struct page_cache *pc, struct cached_file *cf, uint64_t pgoff,
			uint32_t need, struct ms_reserve_req *req) __must_hold(&pc->lock)
{
	struct file_live *lf = cf->live;
	const bool in_order = lf->ahead && pgoff == lf->ahead_next;
	const struct reserve_chunk *c;
	uint32_t nr = need;

	assert_spin_held(&pc->lock);
	if (in_order)
		nr = MAX(need, 2 * lf->ahead);
	else if (pgoff >= cached_file_pages(cf))
		nr = MAX(need, AHEAD_FIRST);
	nr = MIN(nr, (uint32_t)MS_RESERVE_MAX_PAGES);
	/* Up to the next page that has a reservation: it is one of the others. */
	c = chunk_from_locked(pc, lf, pgoff + need);
	for (uint32_t i = need; c && i < nr; i++) {
		if (is_reserved_locked(pc, lf, pgoff + i))
			nr = i;
	}
	*req = (struct ms_reserve_req){ .file = cf->file,
					.epoch = lf->epoch,
					.others = lf->nr_reserved,
					.pgoff = pgoff,
					.nr = nr,
					.need = need };
	note_asked_locked(pc, lf);
}

static int send(struct memory *m, const struct ms_reserve_req *req, struct ms_reserve_rep *rep)
{
	struct ms_reserve_req_wire w;
	struct ms_reserve_rep_wire r;
	int ret;

	ms_reserve_req_encode(req, &w);
	ret = m->net->call(m, req->file.node, MS_RESERVE, &w, sizeof(w), NULL, 0, &r, sizeof(r));
	if (ret >= 0)
		ret = ms_reserve_rep_decode(&r, (size_t)ret, rep);
	if (!ret && (rep->covered > req->nr || rep->covered < req->need))
		ret = -EPROTO;
	return ret;
}

/* Enter the answer. -EREMCHG: the claim is another one by now, and the reservation void. */
static int enter(struct memory *m, struct cached_file *cf, const struct ms_reserve_req *req,
		 const struct ms_reserve_rep *rep, struct list_head *fresh)
{
	struct page_cache *pc = &m->page_cache;
	struct file_live *lf = cf->live;
	bool same;

	spin_lock(&pc->lock);
	same = lf->epoch == req->epoch;
	for (uint32_t i = 0; same && i < rep->covered; i++) {
		if (rep->holes[i / 8] & 1u << i % 8)
			reserve_locked(pc, lf, req->pgoff + i, fresh);
	}
	if (same) {
		mapped_locked(pc, lf, req->pgoff, req->pgoff + rep->mapped);
		lf->ahead = rep->covered;
		lf->ahead_next = req->pgoff + rep->covered;
	}
	spin_unlock(&pc->lock);
	return same ? 0 : -EREMCHG;
}

static int ask(struct memory *m, struct cached_file *cf, uint64_t pgoff, uint32_t need,
	       uint32_t flags)
{
	struct page_cache *pc = &m->page_cache;
	struct list_head fresh, *piece;
	struct ms_reserve_req req;
	struct ms_reserve_rep rep;
	int err = 0;

	assert_mutex_held(&cf->live->change);
	list_init(&fresh);
	for (size_t i = 0; i < WINDOW_CHUNKS && !err; i++) {
		static_assert(sizeof(struct reserve_chunk) >= sizeof(struct list_head), "a link");
		piece = lib_alloc(sizeof(struct reserve_chunk));
		if (piece)
			list_add(piece, &fresh);
		else
			err = -ENOMEM;
	}
	if (!err) {
		spin_lock(&pc->lock);
		plan_locked(pc, cf, pgoff, need, &req);
		spin_unlock(&pc->lock);
		req.flags = flags;
		err = req.epoch ? send(m, &req, &rep) : -ESTALE;
		/* Storage was started again, or the file is gone: the claim will tell. */
		if (err == -ESTALE)
			err = -EREMCHG;
	}
	if (!err)
		err = enter(m, cf, &req, &rep, &fresh);
	while (!list_empty(&fresh)) {
		piece = fresh.next;
		list_del(piece);
		lib_free(piece);
	}
	return err;
}

int file_reserve(struct memory *m, struct cached_file *cf, uint64_t first, uint32_t nr,
		 uint32_t flags)
{
	struct page_cache *pc = &m->page_cache;
	uint32_t at = 0, need;
	int err = 0;

	assert_mutex_held(&cf->live->change);
	while (!err) {
		spin_lock(&pc->lock);
		while (at < nr && is_covered_locked(pc, cf, first + at))
			at++;
		for (need = 0; at + need < nr && need < MS_RESERVE_MAX_PAGES; need++) {
			if (is_covered_locked(pc, cf, first + at + need))
				break;
		}
		spin_unlock(&pc->lock);
		if (!need)
			break;
		err = ask(m, cf, first + at, need, flags);
		at += need;
	}
	return err;
}

/* May a processor still have stores into page @pgoff, of @c, to itself? Or writes to it? */
static bool is_held_locked(struct page_cache *pc, const struct cached_file *cf,
			   const struct reserve_chunk *c, uint64_t pgoff) __must_hold(&pc->lock)
{
	assert_spin_held(&pc->lock);
	return c->held_ns && time_now_ns() - c->held_ns < HELD_NS &&
	       pgoff < MAX(cached_file_pages(cf), cf->live->held_end);
}

bool file_reserve_is_held_locked(struct page_cache *pc, struct file_live *lf)
{
	struct reserve_chunk *c;
	uint64_t first = 0;

	assert_spin_held(&pc->lock);
	for (; (c = chunk_from_locked(pc, lf, first)); first = c->first + CHUNK_PAGES) {
		if (c->held_ns && time_now_ns() - c->held_ns < HELD_NS)
			return true;
	}
	return false;
}

/* Reservations of pages from @first on that are neither dirty nor held go. */
static void keep_dirty_locked(struct page_cache *pc, struct cached_file *cf, uint64_t first)
	__must_hold(&pc->lock)
{
	struct file_live *lf = cf->live;
	struct reserve_chunk *c = chunk_from_locked(pc, lf, first);

	assert_spin_held(&pc->lock);
	while (c) {
		const uint64_t next = c->first + CHUNK_PAGES;
		uint64_t idle = 0;

		for (uint32_t i = 0; i < CHUNK_PAGES; i++) {
			if (c->bits & 1ull << i && c->first + i >= first &&
			    !is_held_locked(pc, cf, c, c->first + i) &&
			    !is_dirty_locked(pc, cf, c->first + i))
				idle |= 1ull << i;
		}
		clear_locked(pc, lf, c, idle);
		c = chunk_from_locked(pc, lf, next);
	}
	lf->ahead = 0;
}

/* The chunks of pages [first, end) are held from now on. */
static void hold_locked(struct page_cache *pc, struct file_live *lf, uint64_t first, uint64_t end)
	__must_hold(&pc->lock)
{
	struct reserve_chunk *c;

	assert_spin_held(&pc->lock);
	while (first < end && (c = chunk_from_locked(pc, lf, first)) && c->first < end) {
		c->held_ns = time_now_ns();
		first = c->first + CHUNK_PAGES;
	}
}

/* The pages of which @req makes blocks, whole ones only: none if it is a hole. */
static void allocated_by(const struct pm_file_change_req *req, uint64_t *first, uint64_t *end)
{
	*first = DIV_ROUND_UP(req->off, PAGE_SIZE);
	*end = (req->off + req->len) >> PAGE_SHIFT;
	if (req->op == PROTO_FILE_PUNCH || *end < *first)
		*end = *first;
}

static uint64_t nr_reserved_locked(struct page_cache *pc, struct file_live *lf, uint64_t first,
				   uint64_t end) __must_hold(&pc->lock)
{
	struct reserve_chunk *c;
	uint64_t nr = 0;

	assert_spin_held(&pc->lock);
	while (first < end && (c = chunk_from_locked(pc, lf, first)) && c->first < end) {
		for (uint64_t i = MAX(first, c->first); i < MIN(end, c->first + CHUNK_PAGES); i++)
			nr += c->bits >> (i - c->first) & 1;
		first = c->first + CHUNK_PAGES;
	}
	return nr;
}

uint32_t file_reserve_change_begin(struct memory *m, struct cached_file *cf,
				   const struct pm_file_change_req *req)
{
	struct page_cache *pc = &m->page_cache;
	struct file_live *lf = cf->live;
	uint64_t first, end, nr;

	assert_mutex_held(&lf->change);
	allocated_by(req, &first, &end);
	spin_lock(&pc->lock);
	lf->mapped_first = lf->mapped_end = 0;
	keep_dirty_locked(pc, cf, 0);
	/* Behind a range that collapses all pages become others. */
	if (req->op == PROTO_FILE_COLLAPSE)
		file_reserve_forget_locked(pc, lf, req->off >> PAGE_SHIFT, UINT64_MAX);
	nr = lf->nr_reserved - nr_reserved_locked(pc, lf, first, end);
	spin_unlock(&pc->lock);
	return (uint32_t)MIN(nr, (uint64_t)UINT32_MAX);
}

void file_reserve_change_end(struct memory *m, struct cached_file *cf,
			     const struct pm_file_change_req *req)
{
	struct page_cache *pc = &m->page_cache;
	uint64_t first, end;

	allocated_by(req, &first, &end);
	spin_lock(&pc->lock);
	if (req->op != PROTO_FILE_COLLAPSE)
		file_reserve_forget_locked(pc, cf->live, first, end);
	spin_unlock(&pc->lock);
}

/* [@first, end) is covered, where end is *@end at most, and becomes it. */
static void covered_end_locked(struct page_cache *pc, struct cached_file *cf, uint64_t first,
			       uint64_t *end) __must_hold(&pc->lock)
{
	uint64_t at = first;

	assert_spin_held(&pc->lock);
	while (at < *end && is_covered_locked(pc, cf, at))
		at++;
	*end = at;
}

int file_reserve_hold(struct memory *m, struct cached_file *cf,
		      const struct pm_file_change_req *req, uint64_t *pos)
{
	const uint32_t flags = req->flags & PM_FILE_PRIVILEGED ? MS_RESERVE_PRIVILEGED : 0;
	const bool ahead = req->flags & PM_FILE_AHEAD;
	const uint64_t first = req->off >> PAGE_SHIFT;
	uint64_t end =
		MIN(DIV_ROUND_UP(req->off + req->len, PAGE_SIZE), first + MS_RESERVE_MAX_PAGES);
	struct page_cache *pc = &m->page_cache;
	struct file_live *lf = cf->live;
	uint64_t nr_pages, epoch;
	int err;

	assert_mutex_held(&lf->change);
	spin_lock(&pc->lock);
	nr_pages = ahead ? lf->max_size >> PAGE_SHIFT : cached_file_pages(cf);
	epoch = lf->epoch;
	spin_unlock(&pc->lock);
	*pos = req->off;
	end = MIN(end, nr_pages);
	if (!epoch)
		return -ESTALE;
	if (first >= end)
		return ahead ? -EFBIG : 0;
	err = file_reserve(m, cf, first, ahead ? 1 : (uint32_t)(end - first), flags);
	if (err)
		return err;
	spin_lock(&pc->lock);
	if (ahead) {
		covered_end_locked(pc, cf, first, &end);
		lf->held_end = MAX(lf->held_end, end);
	}
	hold_locked(pc, lf, first, end);
	if (first >= lf->mapped_first && first < lf->mapped_end)
		end = MAX(end, MIN(lf->mapped_end, nr_pages));
	spin_unlock(&pc->lock);
	*pos = end << PAGE_SHIFT;
	return 0;
}

void file_reserve_last(struct memory *m, struct cached_file *cf)
{
	assert_mutex_held(&cf->live->change);
	spin_lock(&m->page_cache.lock);
	cf->live->held_end = 0;
	spin_unlock(&m->page_cache.lock);
}

int file_reserve_again(struct memory *m, struct cached_file *cf, uint64_t epoch)
{
	struct page_cache *pc = &m->page_cache;
	struct ms_reserve_req req = { .file = cf->file, .epoch = epoch };
	struct ms_reserve_rep rep;

	spin_lock(&pc->lock);
	/* Those that are idle, too: a writer may have asked for them, and not yet used them. */
	req.others = cf->live->nr_reserved;
	if (req.others)
		note_asked_locked(pc, cf->live);
	spin_unlock(&pc->lock);
	return req.others ? send(m, &req, &rep) : 0;
}

/* --- giving back ------------------------------------------------------------------------- */

/* The file that was asked for first, before @before_ns: referenced, last in the list then. */
static struct cached_file *idle_file(struct page_cache *pc, uint32_t node, uint64_t before_ns)
{
	struct cached_file *cf = NULL;
	struct file_live *lf;

	spin_lock(&pc->lock);
	list_for_each_entry(lf, &pc->asked, asked_link) {
		if (lf->asked_ns > before_ns)
			break;
		if (node && lf->cf->file.node != node)
			continue;
		cf = lf->cf;
		cf->refs++;
		note_asked_locked(pc, lf);
		break;
	}
	spin_unlock(&pc->lock);
	return cf;
}

/* @idle: also inside the file, where the bytes of appends may be still to come. */
static void give_back(struct memory *m, struct cached_file *cf, bool idle)
{
	struct page_cache *pc = &m->page_cache;
	struct ms_reserve_req req = { .file = cf->file };
	struct ms_reserve_rep rep;

	mutex_lock(&cf->live->change);
	spin_lock(&pc->lock);
	keep_dirty_locked(pc, cf, idle ? 0 : cached_file_pages(cf));
	req.epoch = cf->live->epoch;
	req.others = cf->live->nr_reserved;
	if (!req.others && cf->live->asked_ns) {
		list_del(&cf->live->asked_link);
		cf->live->asked_ns = 0;
	}
	spin_unlock(&pc->lock);
	/* One that is lost keeps too much for the file, until the next one or the claim's end. */
	if (req.epoch)
		(void)!send(m, &req, &rep);
	mutex_unlock(&cf->live->change);
}

bool file_reserve_is_idle_locked(struct page_cache *pc)
{
	const struct file_live *lf =
		list_first_entry_or_null(&pc->asked, struct file_live, asked_link);

	assert_spin_held(&pc->lock);
	return lf && time_now_ns() - lf->asked_ns >= IDLE_NS;
}

bool file_reserve_give_idle(struct memory *m)
{
	struct page_cache *pc = &m->page_cache;
	struct cached_file *cf = NULL;
	bool idle;

	spin_lock(&pc->lock);
	idle = file_reserve_is_idle_locked(pc);
	spin_unlock(&pc->lock);
	if (idle)
		cf = idle_file(pc, 0, time_now_ns());
	if (!cf)
		return false;
	give_back(m, cf, true);
	cached_file_put(m, cf);
	return true;
}

void file_reserve_give_all(struct memory *m, uint32_t node)
{
	const uint64_t now = time_now_ns();
	struct cached_file *cf;

	while ((cf = idle_file(&m->page_cache, node, now))) {
		give_back(m, cf, false);
		cached_file_put(m, cf);
	}
}

/* --- requests that want a reservation ----------------------------------------------------- */

/* The claim again, if it is still the one of @epoch. */
static int renew_claim(struct memory *m, struct cached_file *cf, uint64_t epoch)
{
	uint64_t now;
	int err = mutex_lock_killable(&cf->live->flush);

	if (err)
		return err;
	spin_lock(&m->page_cache.lock);
	now = cf->live->epoch;
	spin_unlock(&m->page_cache.lock);
	if (now && now == epoch)
		err = file_claim_again(m, cf);
	if (err == -ESTALE || err == -ENOENT) {
		file_claim_refused(m, cf, err);
		err = -ESTALE;
	}
	mutex_unlock(&cf->live->flush);
	return err;
}

uint64_t file_epoch(struct memory *m, const struct cached_file *cf)
{
	uint64_t epoch;

	spin_lock(&m->page_cache.lock);
	epoch = cf->live->epoch;
	spin_unlock(&m->page_cache.lock);
	return epoch;
}

bool file_reserve_try_again(struct memory *m, struct cached_file *cf, uint64_t epoch,
			    uint32_t *tries, int *err)
{
	if (*err == -EREMCHG && ++*tries < TRIES_MAX) {
		*err = renew_claim(m, cf, epoch);
		return !*err;
	}
	if (*err == -EREMCHG)
		*err = -ESTALE;
	if (*err != -ENOSPC || *tries >= TRIES_MAX)
		return false;
	*tries = TRIES_MAX;
	/* Promises allow for the worst map; what is written needs no more than it has. */
	(void)!file_flush_all(m, cf->file.node);
	file_reserve_give_all(m, cf->file.node);
	return true;
}
