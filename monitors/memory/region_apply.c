/* SPDX-License-Identifier: MIT */
/*
 * Owner: making the changes of regions, each in one place.
 *
 * Flow:	region_apply() -> one function for each kind of change: lock, check, change, show
 *		the log, unlock, then free what is left over.
 * Context:	see region_apply.h.
 * Locking:	owner.lock for MAKE, KILL, FORGET and prepared charges; then one region's lock or
 *		two regions' locks in the order of their addresses; a bucket's lock and pool.lock
 *		inside.
 * Ordering:	a range's areas go first, then its pages in batches: without an area no page can
 *		come back, so the batches need not be one change.
 * Failure:	a refused change gives back what its op brought along.
 *		A walk of a region's list (drop_pages(), a collapse) moves pages that stay to its
 *		end, so two at once would miss some: drop_pages() goes on by address when another
 *		walk has begun (region.walks), and does not begin one beside a collapse.
 */
#include "region_apply.h"

#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/alloc.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "memory.h"
#include "owner_private.h"

#define DROP_BATCH    64                      /* pages freed under one hold of a region's lock */
#define FRAME_WAIT_NS (1000ull * 1000 * 1000) /* for frames that are pinned just now */

/* --- completion and log -------------------------------------------------------------------- */

void region_completion_put(struct region_completion *c, int err)
{
	int none = 0;

	if (err)
		(void)__atomic_compare_exchange_n(&c->err, &none, err, false, __ATOMIC_RELAXED,
						  __ATOMIC_RELAXED);
	if (!__atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL))
		c->done(c);
}

void owner_set_log(struct memory *m, region_log_fn log, void *arg)
{
	m->owner.log_arg = arg;
	m->owner.log = log;
}

static inline void show(struct memory *m, struct region *r, const struct region_op *op)
{
	if (unlikely(m->owner.log))
		m->owner.log(m->owner.log_arg, r, &op->change, op->completion);
}

struct change_wait {
	struct region_completion completion;
	struct completion over; /* complete() is done with it when the waiter goes on */
};

static void change_complete(struct region_completion *c)
{
	struct change_wait *w = container_of(c, struct change_wait, completion);

	complete(&w->over);
}

int region_apply_wait(struct memory *m, struct region *r, struct region_op *op)
{
	struct change_wait w;
	int err;

	if (likely(!m->owner.log))
		return region_apply(m, r, op);
	completion_init(&w.over);
	region_completion_init(&w.completion, change_complete);
	op->completion = &w.completion;
	err = region_apply(m, r, op);
	region_completion_put(&w.completion, err);
	completion_wait(&w.over);
	return w.completion.err;
}

/* --- state --------------------------------------------------------------------------------- */

/* The states that may follow each state. */
static const uint8_t next_states[] __maybe_unused = {
	/* by ASSERT() */
	[REGION_ACTIVE] = REGION_IN(REGION_ACTIVE) | REGION_IN(REGION_LEAVING) |
			  REGION_IN(REGION_ARRIVING) | REGION_IN(REGION_COLLAPSING) |
			  REGION_IN(REGION_REDIRECT) | REGION_IN(REGION_DEAD),
	[REGION_LEAVING] =
		REGION_IN(REGION_ACTIVE) | REGION_IN(REGION_REDIRECT) | REGION_IN(REGION_DEAD),
	[REGION_ARRIVING] = REGION_IN(REGION_ARRIVING) | REGION_IN(REGION_ACTIVE) |
			    REGION_IN(REGION_REDIRECT) | REGION_IN(REGION_DEAD),
	[REGION_COLLAPSING] =
		REGION_IN(REGION_COLLAPSING) | REGION_IN(REGION_ACTIVE) | REGION_IN(REGION_DEAD),
	[REGION_REDIRECT] = REGION_IN(REGION_ARRIVING) | REGION_IN(REGION_DEAD),
	[REGION_DEAD] = 0,
};

static void set_state_locked(struct region *r, enum region_state to) __must_hold(&r->lock)
{
	assert_spin_held(&r->lock);
	ASSERT(next_states[r->state] & REGION_IN(to));
	/* A region that redirects, or is no more, keeps nothing to serve from. */
	ASSERT((to != REGION_REDIRECT && to != REGION_DEAD) || !r->areas.count);
	__atomic_store_n(&r->state, to, __ATOMIC_RELEASE);
}

static bool is_in_locked(const struct region *r, unsigned int states) __must_hold(&r->lock)
{
	assert_spin_held(&r->lock);
	return states & REGION_IN(r->state);
}

/* --- pages of a range ---------------------------------------------------------------------- */

/*
 * Unlink up to DROP_BATCH pages of [start, end), looking at *@scan pages of the region's list.
 * Those that stay go to its end, so that each is looked at once however often the lock is dropped.
 */
static size_t unlink_by_list_locked(struct memory *m, struct region *r, uint64_t start,
				    uint64_t end, uint64_t *scan, struct mpage **out)
	__must_hold(&r->lock)
{
	size_t n = 0;

	assert_spin_held(&r->lock);
	while (*scan && n < DROP_BATCH && !list_empty(&r->pages)) {
		struct mpage *page = list_first_entry(&r->pages, struct mpage, link);

		(*scan)--;
		if (page->index < start || page->index >= end) {
			list_move_tail(&page->link, &r->pages);
			continue;
		}
		page_remove_locked(m, r, page);
		out[n++] = page;
	}
	return n;
}

/* The same for DROP_BATCH addresses from *@start, by looking each up. */
static size_t unlink_by_address_locked(struct memory *m, struct region *r, uint64_t *start,
				       uint64_t end, struct mpage **out) __must_hold(&r->lock)
{
	const uint64_t stop = MIN(end, *start + DROP_BATCH * PAGE_SIZE);
	size_t n = 0;

	assert_spin_held(&r->lock);
	for (; *start < stop; *start += PAGE_SIZE) {
		struct mpage *page = page_lookup_locked(m, r, *start);

		if (!page)
			continue;
		page_remove_locked(m, r, page);
		out[n++] = page;
	}
	return n;
}

/*
 * Free the pages of [start, end): walk whichever is shorter, the addresses or the region's pages.
 */
static uint64_t drop_pages(struct memory *m, struct region *r, uint64_t start, uint64_t end)
{
	struct mpage *batch[DROP_BATCH];
	uint64_t freed = 0, scan, walk;
	bool by_list;

	start = MAX(start, r->start);
	end = MIN(end, r->end);
	spin_lock(&r->lock);
	scan = r->nr_pages;
	by_list = scan <= (end - start) >> PAGE_SHIFT && r->state != REGION_COLLAPSING;
	walk = by_list ? ++r->walks : 0;
	spin_unlock(&r->lock);
	while (by_list ? scan > 0 : start < end) {
		size_t n;

		spin_lock(&r->lock);
		if (by_list && r->walks != walk)
			by_list = false; /* from the start, which is where it was */
		if (list_empty(&r->pages)) {
			scan = 0;
			start = end;
		}
		n = by_list ? unlink_by_list_locked(m, r, start, end, &scan, batch)
			    : unlink_by_address_locked(m, r, &start, end, batch);
		spin_unlock(&r->lock);
		for (size_t i = 0; i < n; i++)
			mpage_put(&m->pool, batch[i]);
		freed += n;
	}
	return freed;
}

/* --- the life of a region ------------------------------------------------------------------ */

/* A node that is gone gives back nothing of what it has asked for. */
static bool home_has_left(struct memory *m, uint32_t home, uint32_t incarn)
{
	return incarn && m->net->has_left && m->net->has_left(m, home, incarn);
}

static int apply_make(struct memory *m, struct region *r, struct region_op *op)
{
	struct owner *o = &m->owner;
	const struct owner_space *s;
	int err = 0;

	spin_lock(&o->lock);
	/* Before what the home has here goes, or after it has left: not between. */
	if (pool_is_fenced(&m->pool, r->proc) ||
	    home_has_left(m, op->change.make.home, op->home_incarn)) {
		spin_unlock(&o->lock);
		return -ESTALE;
	}
	s = owner_space_find_locked(o, r->aspace);
	if (!s && op->known) {
		err = -ESTALE; /* its home has left since it was expected */
	} else if (!s) {
		owner_space_link_locked(o, op->space);
		op->space = NULL;
	} else if (s->proc != r->proc || s->vnode != op->change.make.vnode) {
		err = -EPROTO;
	}
	if (!err && region_overlaps_locked(o, r))
		err = -EEXIST;
	if (!err) {
		lock_not_needed(&r->lock, "it is in no tree yet");
		r->state = op->change.make.state;
		r->holes = op->change.make.holes;
		r->entry.version = op->change.make.version;
		region_link_locked(o, r);
		show(m, r, op);
	}
	spin_unlock(&o->lock);
	return err;
}

static int apply_kill(struct memory *m, struct region *r, struct region_op *op)
{
	struct owner *o = &m->owner;
	struct area_spare dead = AREA_SPARE(m, r->proc);
	uint64_t charge;
	bool linked;

	spin_lock(&o->lock);
	spin_lock(&r->lock);
	linked = r->state != REGION_DEAD;
	charge = area_range_charge(&r->areas, r->start, r->end);
	area_set_clear(&r->areas, &dead);
	if (linked) {
		set_state_locked(r, REGION_DEAD);
		show(m, r, op);
	}
	spin_unlock(&r->lock);
	if (linked)
		region_unlink_locked(o, r);
	spin_unlock(&o->lock);

	drop_pages(m, r, r->start, r->end);
	pool_uncommit(&m->pool, charge);
	area_spare_free(&dead);
	wake_all(&r->idle);
	if (linked)
		region_put(r);
	return 0;
}

static int apply_state(struct memory *m, struct region *r, struct region_op *op)
{
	const struct region_change *c = &op->change;

	spin_lock(&r->lock);
	if (!is_in_locked(r, op->from)) {
		spin_unlock(&r->lock);
		return -ESTALE;
	}
	if (c->state.entry)
		r->entry = *c->state.entry;
	r->holes |= c->state.holes;
	set_state_locked(r, c->state.to);
	show(m, r, op);
	spin_unlock(&r->lock);
	if (!region_is_busy(c->state.to))
		wake_all(&r->idle);
	return 0;
}

/* An active region is reset only if it is what the move that is given up has made. */
static bool may_reset_locked(const struct region *r, const struct region_op *op)
	__must_hold(&r->lock)
{
	assert_spin_held(&r->lock);
	if (!is_in_locked(r, op->from))
		return false;
	return r->state != REGION_ACTIVE || !op->move ||
	       (r->entry.owner == op->move->owner && r->entry.version == op->move->version);
}

static int apply_reset(struct memory *m, struct region *r, struct region_op *op)
{
	const struct region_change *c = &op->change;
	struct area_spare dead = AREA_SPARE(m, r->proc);
	uint64_t charge;

	spin_lock(&r->lock);
	if (!may_reset_locked(r, op)) {
		spin_unlock(&r->lock);
		return -EEXIST;
	}
	charge = area_range_charge(&r->areas, r->start, r->end);
	area_set_clear(&r->areas, &dead);
	r->entry = *c->state.entry;
	set_state_locked(r, c->state.to);
	show(m, r, op);
	spin_unlock(&r->lock);

	drop_pages(m, r, r->start, r->end);
	pool_uncommit(&m->pool, charge);
	area_spare_free(&dead);
	if (!region_is_busy(c->state.to))
		wake_all(&r->idle);
	return 0;
}

/* --- areas --------------------------------------------------------------------------------- */

static int apply_map(struct memory *m, struct region *r, struct region_op *op)
{
	const struct region_change *c = &op->change;
	const struct pm_vma *v = c->map.area;
	struct area_spare *spare = op->spare ? op->spare : &r->spare;
	int err = 0;

	ASSERT(v->start >= r->start && v->end <= r->end);
	spin_lock(&r->lock);
	if (!is_in_locked(r, op->from))
		err = -ESTALE;
	else if (!area_range_is_free(&r->areas, v->start, v->end))
		err = -EEXIST;
	else if (!spare->count)
		err = -ENOMEM;
	else if (!c->map.charged)
		err = pool_commit(&m->pool, area_charge(v));
	if (!err) {
		if (c->map.version)
			r->entry.version = c->map.version;
		area_insert(&r->areas, v, spare);
		show(m, r, op);
	}
	spin_unlock(&r->lock);
	region_trim(r);
	return err;
}

/*
 * Nodes are needed only where the range begins or ends inside the region: only there an area is
 * cut.
 */
static bool has_nodes_locked(const struct region *r, const struct region_change *c)
	__must_hold(&r->lock)
{
	assert_spin_held(&r->lock);
	return (c->range.start == r->start && c->range.end == r->end) ||
	       r->spare.count >= AREA_SPARE_MAX;
}

static int apply_unmap(struct memory *m, struct region *r, struct region_op *op)
{
	const struct region_change *c = &op->change;
	uint64_t charge;

	spin_lock(&r->lock);
	if (!has_nodes_locked(r, c)) {
		spin_unlock(&r->lock);
		return -ENOMEM;
	}
	charge = area_range_charge(&r->areas, c->range.start, c->range.end);
	area_remove(&r->areas, c->range.start, c->range.end, &r->spare);
	r->holes = true;
	show(m, r, op);
	spin_unlock(&r->lock);
	region_trim(r);
	op->pages = drop_pages(m, r, c->range.start, c->range.end);
	pool_uncommit(&m->pool, charge);
	return 0;
}

static int apply_protect(struct memory *m, struct region *r, struct region_op *op)
{
	const struct region_change *c = &op->change;
	uint64_t before, after;

	spin_lock(&r->lock);
	if (!has_nodes_locked(r, c)) {
		spin_unlock(&r->lock);
		return -ENOMEM;
	}
	before = area_range_charge(&r->areas, c->range.start, c->range.end);
	after = area_range_charge_as(&r->areas, c->range.start, c->range.end, c->range.prot);
	area_protect(&r->areas, c->range.start, c->range.end, c->range.prot, &r->spare);
	/*
	 * By what the region has, under its lock: it may have come or gone since its home asked for
	 * the charge. The caller gives back the charge that was prepared.
	 */
	if (before > after)
		pool_uncommit(&m->pool, before - after);
	else
		pool_commit_more(&m->pool, after - before);
	show(m, r, op);
	spin_unlock(&r->lock);
	region_trim(r);
	return 0;
}

static void set_move(struct area_set *to, struct area_set *from)
{
	*to = *from;
	area_set_init(from);
}

static int apply_clone(struct memory *m, struct region *r, struct region_op *op)
{
	struct region *child = op->other;
	int err = 0;

	regions_lock(r, child);
	/* The child may be gone again: its processor has been fenced. */
	if (!is_in_locked(r, op->from) ||
	    !is_in_locked(child, op->from & ~REGION_IN(REGION_DEAD)) ||
	    op->spare->count != r->areas.count || child->areas.count)
		err = -ESTALE;
	op->charge = err ? 0 : area_range_charge(&r->areas, r->start, r->end);
	if (!err)
		err = pool_commit(&m->pool, op->charge);
	if (!err) {
		area_set_clone(&child->areas, &r->areas, op->spare);
		show(m, r, op);
	}
	regions_unlock(r, child);
	return err;
}

static int apply_give(struct memory *m, struct region *r, struct region_op *op)
{
	const struct pm_vma all = area_pages_only(r->start, r->end);
	struct region *parent = op->other;
	int err = 0;

	regions_lock(r, parent);
	if (!is_in_locked(r, op->from) || !is_in_locked(parent, op->from) || parent->areas.count ||
	    !r->spare.count)
		err = -ESTALE;
	if (!err) {
		set_move(&parent->areas, &r->areas);
		area_insert(&r->areas, &all, &r->spare);
		show(m, r, op);
	}
	regions_unlock(r, parent);
	return err;
}

static int apply_take_back(struct memory *m, struct region *r, struct region_op *op)
{
	struct region *parent = op->other;
	struct area_spare dead = AREA_SPARE(m, r->proc);

	regions_lock(r, parent);
	if (parent->areas.count && is_in_locked(r, op->from)) {
		area_set_clear(&r->areas, &dead);
		set_move(&r->areas, &parent->areas);
		show(m, r, op);
	}
	regions_unlock(r, parent);
	area_spare_free(&dead);
	return 0;
}

/* --- page contents ------------------------------------------------------------------------- */

/* May the page at @vaddr be written back?  Protection does not count: it may have changed since. */
static int store_check_locked(const struct region *r, uint64_t vaddr) __must_hold(&r->lock)
{
	const struct area *area = area_at(&r->areas, vaddr);

	assert_spin_held(&r->lock);
	if (!area)
		return -EFAULT;
	if ((area->v.flags & (PM_VMA_FILE | PM_VMA_OBJECT)) && (area->v.flags & PM_VMA_SHARED))
		return -EROFS;
	return 0;
}

/* A frame for a page of @proc, or one in the place of a frame that the page has: see pool.h. */
static struct mpage *frame_try(struct memory *m, uint32_t proc, bool instead, bool *credit)
{
	*credit = false;
	return instead ? pool_alloc_instead(&m->pool) : pool_alloc_anon(&m->pool, proc, credit);
}

/* The same; waits a while for pinned ones if it may. */
static struct mpage *frame_for(struct memory *m, uint32_t proc, bool instead, bool may_sleep,
			       bool *credit)
{
	struct mpage *page = frame_try(m, proc, instead, credit);

	if (page || !may_sleep)
		return page;
	if (!instead)
		(void)relief_kick(m);
	(void)wait_event_timeout(&m->pool.freed,
				 (page = frame_try(m, proc, instead, credit)) != NULL,
				 time_now_ns() + FRAME_WAIT_NS);
	return page;
}

/* There is no frame. One that is reserved is only pinned for the moment, which is no ENOMEM. */
static int no_frame(struct memory *m, uint32_t proc, bool instead, bool may_sleep)
{
	if (!may_sleep)
		return -EAGAIN;
	return instead || pool_credits(&m->pool, proc) ? -EBUSY : -ENOMEM;
}

/* A credit went with a frame that the change did not need: the processor counts it as used. */
static void show_lost_credit(struct memory *m, const struct region_op *store)
{
	const struct region_op op = {
		.change = { .kind = CHANGE_ACCOUNT,
			    .account = { .proc = store->change.store.proc, .credits = -1 } },
		.completion = store->completion,
	};

	show(m, NULL, &op);
}

/*
 * A page that is being sent (pinned) is not written: the new content goes into another frame,
 * which takes its place. So does that of a page that its processor cannot read by itself, if
 * there is a frame for it that it can.
 */
static int apply_store(struct memory *m, struct region *r, struct region_op *op)
{
	struct region_change *c = &op->change;
	struct mpage *page, *fresh = NULL, *replaced = NULL;
	bool asked = false, readable = false; /* for such a frame; it is one */
	int err;

	if (unlikely(c->store.credit)) { /* a replay: the other node has used one up */
		fresh = pool_alloc_anon(&m->pool, c->store.proc, &c->store.credit);
		if (!fresh)
			return -ENOMEM;
	}
	for (;;) {
		spin_lock(&r->lock);
		err = is_in_locked(r, op->from) ? store_check_locked(r, c->store.vaddr) : -EAGAIN;
		if (err)
			break;
		page = page_lookup_locked(m, r, c->store.vaddr);
		if (page && c->store.seq && page->seq >= c->store.seq) {
			STAT_INC(m, writeback_stale);
			break;
		}
		if (page && !asked && !fresh && pool_may_move(&m->pool, c->store.proc, page)) {
			spin_unlock(&r->lock);
			asked = true;
			fresh = pool_alloc_readable(&m->pool, c->store.proc, page);
			readable = fresh != NULL;
			continue;
		}
		if (page && !readable && __atomic_load_n(&page->refs, __ATOMIC_ACQUIRE) == 1) {
			memcpy(mpage_virt(&m->pool, page), c->store.data, PAGE_SIZE);
			page->seq = c->store.seq;
			break;
		}
		if (fresh) {
			if (page)
				page_remove_locked(m, r, page);
			replaced = page;
			memcpy(mpage_virt(&m->pool, fresh), c->store.data, PAGE_SIZE);
			fresh->seq = c->store.seq;
			page_insert_locked(m, r, fresh, c->store.vaddr);
			page = fresh;
			fresh = NULL;
			break;
		}
		spin_unlock(&r->lock);
		fresh = frame_for(m, c->store.proc, page != NULL, op->may_sleep, &c->store.credit);
		if (!fresh)
			return no_frame(m, c->store.proc, page != NULL, op->may_sleep);
	}
	if (!err) {
		op->place = mpage_place(&m->pool, page, r->proc);
		show(m, r, op);
	}
	spin_unlock(&r->lock);
	if (unlikely(err && c->store.credit)) {
		show_lost_credit(m, op);
		c->store.credit = false; /* the caller may try again */
	}
	if (fresh)
		mpage_put(&m->pool, fresh);
	if (replaced)
		mpage_put(&m->pool, replaced);
	return err;
}

void region_page_readable(struct memory *m, struct region *r, struct mpage **page)
{
	struct mpage *fresh, *old = *page;

	if (likely(!pool_may_move(&m->pool, r->proc, old)))
		return;
	fresh = pool_alloc_readable(&m->pool, r->proc, old);
	if (!fresh)
		return;
	spin_lock(&r->lock);
	/* Held by the page table and by the caller alone: nobody sends it. */
	if (r->state == REGION_ACTIVE && page_lookup_locked(m, r, old->index) == old &&
	    __atomic_load_n(&old->refs, __ATOMIC_ACQUIRE) == 2) {
		memcpy(mpage_virt(&m->pool, fresh), mpage_virt(&m->pool, old), PAGE_SIZE);
		fresh->seq = old->seq;
		page_remove_locked(m, r, old);
		page_insert_locked(m, r, fresh, old->index);
		mpage_get(fresh);
		*page = fresh;
	}
	spin_unlock(&r->lock);
	mpage_put(&m->pool, *page == fresh ? old : fresh);
	if (*page == fresh)
		mpage_put(&m->pool, old);
}

static int apply_drop(struct memory *m, struct region *r, struct region_op *op)
{
	spin_lock(&r->lock);
	show(m, r, op);
	spin_unlock(&r->lock);
	op->pages = drop_pages(m, r, op->change.range.start, op->change.range.end);
	return 0;
}

static int apply_sent(struct memory *m, struct region *r, struct region_op *op)
{
	struct mpage *page;

	spin_lock(&r->lock);
	page = page_lookup_locked(m, r, op->change.page.vaddr);
	if (page && op->page && page != op->page)
		page = NULL;
	if (page) {
		page_remove_locked(m, r, page);
		show(m, r, op);
	}
	spin_unlock(&r->lock);
	if (page)
		mpage_put(&m->pool, page);
	return 0;
}

/* op->other, which may be the same region, has the new address. */
static int apply_move_page(struct memory *m, struct region *r, struct region_op *op)
{
	const struct region_change *c = &op->change;
	struct region *to = op->other;
	struct mpage *page;
	int err = 0;

	regions_lock(r, to);
	page = page_lookup_locked(m, r, c->page.vaddr);
	if (page && (!is_in_locked(to, op->from) || page_lookup_locked(m, to, c->page.to)))
		err = -ESTALE;
	if (page && !err) {
		page_remove_locked(m, r, page);
		page->seq = c->page.seq;
		page_insert_locked(m, to, page, c->page.to);
		op->pages = 1;
		show(m, r, op);
	}
	regions_unlock(r, to);
	return err;
}

/* --- collapse ------------------------------------------------------------------------------ */

static void collapse_drop_locked(struct memory *m, struct collapse_batch *b, struct region *r,
				 struct mpage *page) __must_hold(&r->lock)
{
	assert_spin_held(&r->lock);
	page_remove_locked(m, r, page);
	b->dead[b->nr_dead++] = page;
}

static void page_rename_locked(struct memory *m, struct region *from, struct region *into,
			       struct mpage *page) __must_hold(&from->lock) __must_hold(&into->lock)
{
	assert_spin_held(&into->lock);
	page_remove_locked(m, from, page);
	page_insert_locked(m, into, page, page->index);
}

/* A page of the small frozen region: the other's, unless it has that page or maps nothing there. */
static void collapse_forward_locked(struct memory *m, struct collapse_batch *b, struct region *from,
				    struct region *into, struct mpage *page)
	__must_hold(&from->lock) __must_hold(&into->lock)
{
	assert_spin_held(&from->lock);
	if (!area_at(&into->areas, page->index) || page_lookup_locked(m, into, page->index)) {
		collapse_drop_locked(m, b, from, page);
	} else {
		page_rename_locked(m, from, into, page);
		b->renamed++;
	}
}

/* A page of the other takes the place of the large frozen region's. */
static void collapse_gather_locked(struct memory *m, struct collapse_batch *b, struct region *from,
				   struct region *into, struct mpage *page) __must_hold(&from->lock)
	__must_hold(&into->lock)
{
	struct mpage *old = page_lookup_locked(m, from, page->index);

	assert_spin_held(&from->lock);
	if (old)
		collapse_drop_locked(m, b, from, old);
	page_rename_locked(m, into, from, page);
}

static void collapse_page_locked(struct memory *m, struct region *from, struct region *into,
				 struct region_op *op, struct mpage *page) __must_hold(&from->lock)
	__must_hold(&into->lock)
{
	assert_spin_held(&from->lock);
	if (op->change.collapse.step == COLLAPSE_FORWARD)
		collapse_forward_locked(m, op->batch, from, into, page);
	else if (op->change.collapse.step == COLLAPSE_GATHER)
		collapse_gather_locked(m, op->batch, from, into, page);
	else
		collapse_drop_locked(m, op->batch, into, page);
}

/*
 * Do again what a description says was done to each of its pages. One that is not here is gone by a
 * CHANGE_DROP: the other node shows that when it begins to drop pages, and shows collapses between
 * its batches; here the whole range has been dropped already. No program sees dropped pages either
 * way.
 */
static void collapse_replay_locked(struct memory *m, struct region *from, struct region *into,
				   struct region_op *op) __must_hold(&from->lock)
	__must_hold(&into->lock)
{
	const struct region_change *c = &op->change;
	struct region *walked = c->collapse.step == COLLAPSE_FORWARD ? from : into;

	assert_spin_held(&from->lock);
	assert_spin_held(&walked->lock);
	for (uint32_t i = 0; i < c->collapse.nr; i++) {
		struct mpage *page = page_lookup_locked(m, walked, c->collapse.addrs[i]);

		if (page)
			collapse_page_locked(m, from, into, op, page);
	}
}

/* Treat up to COLLAPSE_BATCH pages, note which, and what comes next. */
static void collapse_step_locked(struct memory *m, struct region *from, struct region *into,
				 struct region_op *op) __must_hold(&from->lock)
	__must_hold(&into->lock)
{
	struct region_change *c = &op->change;
	struct collapse_batch *b = op->batch;
	struct region *walked = c->collapse.step == COLLAPSE_FORWARD ? from : into;
	size_t budget = COLLAPSE_BATCH;

	assert_spin_held(&from->lock);
	c->collapse.addrs = b->addrs;
	c->collapse.nr = 0;
	c->collapse.swap = false;
	/* An MM_DISCARD between two batches may have taken pages that were still to be scanned. */
	b->scan = MIN(b->scan, walked->nr_pages);
	while (budget-- && (c->collapse.step == COLLAPSE_SCAN ? b->scan : walked->nr_pages)) {
		struct mpage *page = list_first_entry(&walked->pages, struct mpage, link);

		if (c->collapse.step == COLLAPSE_SCAN) {
			b->scan--;
			if (area_at(&into->areas, page->index)) {
				list_move_tail(&page->link, &into->pages);
				continue;
			}
		}
		b->addrs[c->collapse.nr++] = page->index;
		collapse_page_locked(m, from, into, op, page);
	}
	if (c->collapse.step == COLLAPSE_GATHER && !into->nr_pages) {
		c->collapse.swap = true;
		b->renamed = from->nr_pages;
		b->scan = into->holes ? from->nr_pages : 0;
	}
	c->collapse.last = c->collapse.step == COLLAPSE_FORWARD  ? !from->nr_pages
			   : c->collapse.step == COLLAPSE_GATHER ? c->collapse.swap && !b->scan
								 : !b->scan;
}

/*
 * One of the two was killed between two batches: the other is to be used again. Before its first
 * batch a collapse has made neither COLLAPSING; one that is belongs to another call.
 */
static void collapse_release_locked(struct region *from, struct region *into,
				    const struct region_op *op) __must_hold(&from->lock)
	__must_hold(&into->lock)
{
	assert_spin_held(&from->lock);
	assert_spin_held(&into->lock);
	if (op->from != REGION_IN(REGION_COLLAPSING))
		return;
	if (from->state == REGION_COLLAPSING)
		set_state_locked(from, REGION_ACTIVE);
	if (into->state == REGION_COLLAPSING)
		set_state_locked(into, REGION_ACTIVE);
}

static int apply_collapse(struct memory *m, struct region *from, struct region_op *op)
{
	struct region_change *c = &op->change;
	struct region *into = op->other;
	enum region_state to;

	regions_lock(from, into);
	if (!is_in_locked(from, op->from) || !is_in_locked(into, op->from)) {
		collapse_release_locked(from, into, op);
		regions_unlock(from, into);
		wake_all(&from->idle);
		wake_all(&into->idle);
		return -ESTALE;
	}
	from->walks++;
	into->walks++;
	if (op->replay)
		collapse_replay_locked(m, from, into, op);
	else
		collapse_step_locked(m, from, into, op);
	if (c->collapse.swap)
		pages_swap_locked(from, into);
	if (c->collapse.last)
		into->holes |= from->holes;
	to = c->collapse.last ? REGION_ACTIVE : REGION_COLLAPSING;
	set_state_locked(from, to);
	set_state_locked(into, to);
	show(m, from, op);
	regions_unlock(from, into);
	while (op->batch->nr_dead)
		mpage_put(&m->pool, op->batch->dead[--op->batch->nr_dead]);
	if (c->collapse.last) {
		wake_all(&from->idle);
		wake_all(&into->idle);
	}
	return 0;
}

/* --- accounts ------------------------------------------------------------------------------ */

static int apply_forget(struct memory *m, struct region_op *op)
{
	struct owner *o = &m->owner;
	struct owner_space *s;

	spin_lock(&o->lock);
	s = owner_space_find_locked(o, op->change.account.aspace);
	if (s) {
		owner_space_unlink_locked(o, s);
		show(m, NULL, op);
	}
	spin_unlock(&o->lock);
	if (!s)
		return 0;
	pool_uncommit(&m->pool, s->prepared);
	owner_space_free(m, s);
	return 0;
}

static int apply_expect(struct memory *m, struct region_op *op)
{
	const struct region_change *c = &op->change;
	struct owner *o = &m->owner;
	struct owner_space *s;
	int err = 0;

	spin_lock(&o->lock);
	s = owner_space_find_locked(o, c->expect.aspace);
	if (!s && c->expect.from) {
		if (pool_is_fenced(&m->pool, c->expect.proc) ||
		    home_has_left(m, c->expect.home, op->home_incarn))
			err = -ESTALE;
		s = err ? NULL : op->space;
	}
	if (s && s == op->space) {
		owner_space_link_locked(o, s);
		op->space = NULL;
	}
	if (s && (s->proc != c->expect.proc || s->vnode != c->expect.vnode)) {
		err = -EPROTO;
	} else if (s) {
		s->source = c->expect.from;
		show(m, NULL, op);
	}
	spin_unlock(&o->lock);
	return err;
}

static int change_credits(struct memory *m, struct region_op *op)
{
	struct region_change *c = &op->change;
	const uint32_t want = (uint32_t)c->account.credits;
	uint32_t hold = op->hold;

	if (op->replay && c->account.report) /* the account may only be what it was there */
		hold = (uint32_t)(pool_credits(&m->pool, c->account.proc) + c->account.credits);
	if (c->account.report)
		return pool_report(&m->pool, c->account.proc, c->account.report, hold,
				   op->replay ? 0 : want, op->replay, &c->account.credits,
				   &op->hold);
	if (c->account.credits > 0)
		c->account.credits =
			pool_grant(&m->pool, c->account.proc, want, op->replay, &op->report);
	else if (c->account.credits < 0)
		c->account.credits = -(int64_t)pool_revoke(&m->pool, c->account.proc,
							   (uint32_t)-c->account.credits);
	return 0;
}

static int apply_account(struct memory *m, struct region_op *op)
{
	struct region_change *c = &op->change;
	int err = 0;

	if (c->account.commit > 0)
		err = pool_commit(&m->pool, (uint64_t)c->account.commit);
	if (!err && c->account.prepared &&
	    !owner_prepared(m, c->account.aspace, c->account.prepared)) {
		if (c->account.commit > 0)
			pool_uncommit(&m->pool, (uint64_t)c->account.commit);
		err = -ESRCH;
	}
	if (err)
		return err;
	if (c->account.commit < 0)
		pool_uncommit(&m->pool, (uint64_t)-c->account.commit);
	err = change_credits(m, op); /* not with a commitment */
	if (!err)
		show(m, NULL, op);
	return err;
}

/* --- all ----------------------------------------------------------------------------------- */

int region_apply(struct memory *m, struct region *r, struct region_op *op)
{
	ASSERT(op->completion || !m->owner.log);
	switch (op->change.kind) {
	case CHANGE_STORE:
		return apply_store(m, r, op);
	case CHANGE_ACCOUNT:
		return apply_account(m, op);
	case CHANGE_MAKE:
		return apply_make(m, r, op);
	case CHANGE_KILL:
		return apply_kill(m, r, op);
	case CHANGE_STATE:
		return apply_state(m, r, op);
	case CHANGE_RESET:
		return apply_reset(m, r, op);
	case CHANGE_MAP:
		return apply_map(m, r, op);
	case CHANGE_UNMAP:
		return apply_unmap(m, r, op);
	case CHANGE_PROTECT:
		return apply_protect(m, r, op);
	case CHANGE_DROP:
		return apply_drop(m, r, op);
	case CHANGE_SENT:
		return apply_sent(m, r, op);
	case CHANGE_MOVE_PAGE:
		return apply_move_page(m, r, op);
	case CHANGE_CLONE:
		return apply_clone(m, r, op);
	case CHANGE_GIVE:
		return apply_give(m, r, op);
	case CHANGE_TAKE_BACK:
		return apply_take_back(m, r, op);
	case CHANGE_COLLAPSE:
		return apply_collapse(m, r, op);
	case CHANGE_FORGET:
		return apply_forget(m, op);
	case CHANGE_EXPECT:
		return apply_expect(m, op);
	}
	return -EINVAL;
}

struct pm_grant owner_grant(struct memory *m, uint32_t proc, uint32_t want,
			    struct region_completion *completion)
{
	struct pm_grant grant = { .node = m->node };
	struct region_op op;

	if (!want)
		return grant;
	op = (struct region_op){
		.change = { .kind = CHANGE_ACCOUNT, .account = { .proc = proc, .credits = want } },
		.completion = completion,
	};
	if (completion ? region_apply(m, NULL, &op) : region_apply_wait(m, NULL, &op))
		return grant;
	grant.frames = (uint32_t)op.change.account.credits;
	grant.report = op.report;
	return grant;
}

int owner_report(struct memory *m, uint32_t proc, const struct pm_credit_req *req, uint32_t *frames)
{
	struct region_op op = {
		.change = { .kind = CHANGE_ACCOUNT,
			    .account = { .proc = proc,
					 .credits = req->want,
					 .report = req->report } },
		.hold = req->hold,
	};
	const int err = region_apply_wait(m, NULL, &op);

	*frames = op.hold;
	return err;
}

void owner_revoke(struct memory *m, uint32_t proc)
{
	struct region_op op = {
		.change = { .kind = CHANGE_ACCOUNT,
			    .account = { .proc = proc, .credits = -(int64_t)UINT32_MAX } },
	};

	(void)region_apply_wait(m, NULL, &op);
}
