/* SPDX-License-Identifier: MIT */
/*
 * Owner: the tree of vRegions and the hash page table.
 *
 * Order:	regions are sorted by (space, start), spaces by id.
 * Freeing:	a range's vmas go first, then its pages in batches: without a vma no page can come back.
 */
#include "owner.h"

#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/alloc.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/string.h>

#include "memory.h"

#define DROP_BATCH      64 /* pages freed under one hold of a region's lock */
#define IDLE_TIMEOUT_NS (20ull * 1000 * 1000 * 1000)

int owner_init(struct memory *m)
{
	struct owner *o = &m->owner;

	memset(o, 0, sizeof(*o));
	spin_lock_init(&o->lock, "owner", RANK_SPIN_MONITOR);
	for (size_t i = 0; i < OWNER_BUCKET_LOCKS; i++)
		spin_lock_init(&o->bucket_locks[i], "page_table", RANK_SPIN_CACHE);
	o->nr_buckets = OWNER_BUCKET_LOCKS;
	while (o->nr_buckets < m->pool.total)
		o->nr_buckets *= 2;
	o->buckets = lib_zalloc(o->nr_buckets * sizeof(*o->buckets));
	return o->buckets ? 0 : -ENOMEM;
}

static bool match_all(const struct owner_space *s, uint32_t node)
{
	return true;
}

void owner_destroy(struct memory *m)
{
	if (!m->owner.buckets)
		return;
	owner_destroy_matching(m, match_all, 0);
	lib_free(m->owner.buckets);
	m->owner.buckets = NULL;
}

/* --- tree of regions ------------------------------------------------------------------- */

static struct region *to_region(struct rb_node *node)
{
	return rb_entry_or_null(node, struct region, node);
}

static struct region *above_locked(struct owner *o, uint64_t aspace, uint64_t vaddr)
	__must_hold(&o->lock)
{
	struct rb_node *node = o->regions.node;
	struct region *best = NULL;

	while (node) {
		struct region *r = to_region(node);

		if (r->aspace > aspace || (r->aspace == aspace && r->end > vaddr)) {
			best = r;
			node = node->left;
		} else {
			node = node->right;
		}
	}
	return best && best->aspace == aspace ? best : NULL;
}

struct region *region_get_above(struct memory *m, uint64_t aspace, uint64_t vaddr)
{
	struct region *r;

	spin_lock(&m->owner.lock);
	r = above_locked(&m->owner, aspace, vaddr);
	if (r)
		__atomic_add_fetch(&r->refs, 1, __ATOMIC_RELAXED);
	spin_unlock(&m->owner.lock);
	return r;
}

struct region *region_get(struct memory *m, uint64_t aspace, uint64_t vaddr)
{
	struct region *r = region_get_above(m, aspace, vaddr);

	if (r && r->start > vaddr) {
		region_put(r);
		return NULL;
	}
	return r;
}

void region_put(struct region *r)
{
	if (__atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL))
		return;
	BUG_ON(r->nr_pages || r->areas.count);
	area_spare_free(&r->spare);
	lib_free(r);
}

void regions_lock(struct region *a, struct region *b)
{
	struct region *first = a < b ? a : b;

	spin_lock(&first->lock);
	spin_lock(first == a ? &b->lock : &a->lock);
}

void regions_unlock(struct region *a, struct region *b)
{
	struct region *first = a < b ? a : b;

	spin_unlock(first == a ? &b->lock : &a->lock);
	spin_unlock(&first->lock);
}

static void region_link_locked(struct owner *o, struct region *r) __must_hold(&o->lock)
{
	struct rb_node **link = &o->regions.node;
	struct rb_node *parent = NULL;

	while (*link) {
		const struct region *p = to_region(*link);

		parent = *link;
		if (r->aspace < p->aspace || (r->aspace == p->aspace && r->start < p->start))
			link = &parent->left;
		else
			link = &parent->right;
	}
	rb_link_node(&r->node, parent, link);
	rb_insert_color(&r->node, &o->regions);
	o->nr_regions++;
}

static struct owner_space *space_find_locked(struct owner *o, uint64_t aspace) __must_hold(&o->lock)
{
	struct rb_node *node = o->spaces.node;

	while (node) {
		struct owner_space *s = rb_entry(node, struct owner_space, node);

		if (s->aspace == aspace)
			return s;
		node = aspace < s->aspace ? node->left : node->right;
	}
	return NULL;
}

static void space_link_locked(struct owner *o, struct owner_space *s) __must_hold(&o->lock)
{
	struct rb_node **link = &o->spaces.node;
	struct rb_node *parent = NULL;

	while (*link) {
		parent = *link;
		link = s->aspace < rb_entry(parent, struct owner_space, node)->aspace
			       ? &parent->left
			       : &parent->right;
	}
	rb_link_node(&s->node, parent, link);
	rb_insert_color(&s->node, &o->spaces);
	o->nr_spaces++;
}

static struct region *region_alloc(struct owner *o, uint64_t aspace, uint64_t index, uint32_t shift)
{
	struct region *r = lib_zalloc(sizeof(*r));

	if (!r)
		return NULL;
	r->refs = 2; /* the tree's and the caller's */
	r->aspace = aspace;
	r->index = index;
	r->start = index << shift;
	r->end = MIN((index + 1) << shift, PM_USER_TOP);
	r->key = __atomic_add_fetch(&o->next_key, 1, __ATOMIC_RELAXED);
	r->holes = true;
	spin_lock_init(&r->lock, "region", RANK_SPIN_ASPACE);
	area_set_init(&r->areas);
	list_init(&r->pages);
	waitqueue_init(&r->idle);
	return r;
}

struct region *region_make(struct memory *m, uint64_t aspace, uint32_t home, uint64_t index,
			   uint32_t shift, enum region_state state)
{
	struct owner *o = &m->owner;
	struct region *r = region_get(m, aspace, index << shift);
	struct owner_space *s;

	if (r)
		return r;
	r = region_alloc(o, aspace, index, shift);
	s = lib_zalloc(sizeof(*s));
	if (!r || !s) {
		lib_free(r);
		lib_free(s);
		return ERR_PTR(-ENOMEM);
	}
	r->state = state;
	s->aspace = aspace;
	s->home = home;

	spin_lock(&o->lock);
	if (pool_is_fenced(&m->pool, space_processor(aspace))) {
		spin_unlock(&o->lock);
		lib_free(s);
		lib_free(r);
		return ERR_PTR(-ESTALE);
	}
	if (!space_find_locked(o, aspace)) {
		space_link_locked(o, s);
		s = NULL;
	}
	if (!above_locked(o, aspace, r->start) ||
	    above_locked(o, aspace, r->start)->start >= r->end) {
		region_link_locked(o, r);
		spin_unlock(&o->lock);
		lib_free(s);
		return r;
	}
	spin_unlock(&o->lock);
	lib_free(s);
	lib_free(r);
	/* Somebody else was faster, or the home's idea of the size of a vRegion has changed. */
	r = region_get(m, aspace, index << shift);
	return r ? r : ERR_PTR(-EINVAL);
}

static void spare_splice(struct area_spare *to, struct area_spare *from, size_t keep)
{
	while (from->count > keep) {
		struct area *area = from->list;

		from->list = area->next;
		from->count--;
		area->next = to->list;
		to->list = area;
		to->count++;
	}
}

int region_reserve(struct region *r)
{
	struct area_spare fresh = { 0 };
	size_t have;
	int err;

	spin_lock(&r->lock);
	have = r->spare.count;
	spin_unlock(&r->lock);
	if (have >= AREA_SPARE_MAX)
		return 0;
	err = area_spare_fill(&fresh, AREA_SPARE_MAX - have);
	spin_lock(&r->lock);
	spare_splice(&r->spare, &fresh, 0);
	spin_unlock(&r->lock);
	return err;
}

void region_trim(struct region *r)
{
	struct area_spare extra = { 0 };

	spin_lock(&r->lock);
	spare_splice(&extra, &r->spare, AREA_SPARE_MAX);
	spin_unlock(&r->lock);
	area_spare_free(&extra);
}

int region_wait_idle(struct region *r)
{
	const uint64_t deadline = time_now_ns() + IDLE_TIMEOUT_NS;
	enum region_state state;

	if (!wait_event_timeout(
		    &r->idle,
		    (state = __atomic_load_n(&r->state, __ATOMIC_ACQUIRE), !region_is_busy(state)),
		    deadline))
		return -ETIMEDOUT;
	return 0;
}

/* --- page table ------------------------------------------------------------------------ */

static uint64_t bucket_of(const struct owner *o, uint64_t key, uint64_t vaddr)
{
	return hash64_pair(key, vaddr >> PAGE_SHIFT) & (o->nr_buckets - 1);
}

struct mpage *page_lookup_locked(struct memory *m, struct region *r, uint64_t vaddr)
{
	struct owner *o = &m->owner;
	const uint64_t b = bucket_of(o, r->key, vaddr);
	struct spinlock *lock = &o->bucket_locks[b % OWNER_BUCKET_LOCKS];
	struct mpage *page;

	spin_lock(lock);
	hlist_for_each_entry(page, &o->buckets[b], hash)
		if (page->key == r->key && page->index == vaddr)
			break;
	spin_unlock(lock);
	return page;
}

void page_insert_locked(struct memory *m, struct region *r, struct mpage *page, uint64_t vaddr)
{
	struct owner *o = &m->owner;
	const uint64_t b = bucket_of(o, r->key, vaddr);
	struct spinlock *lock = &o->bucket_locks[b % OWNER_BUCKET_LOCKS];

	page->key = r->key;
	page->index = vaddr;
	spin_lock(lock);
	hlist_add_head(&page->hash, &o->buckets[b]);
	spin_unlock(lock);
	list_add_tail(&page->link, &r->pages);
	r->nr_pages++;
}

void page_remove_locked(struct memory *m, struct region *r, struct mpage *page)
{
	struct owner *o = &m->owner;
	const uint64_t b = bucket_of(o, page->key, page->index);
	struct spinlock *lock = &o->bucket_locks[b % OWNER_BUCKET_LOCKS];

	spin_lock(lock);
	hlist_del(&page->hash);
	spin_unlock(lock);
	list_del(&page->link);
	r->nr_pages--;
}

/*
 * Unlink up to DROP_BATCH pages of [start, end), looking at *@scan pages of the region's list.  Those
 * that stay go to its end, so that each is looked at once however often the lock is dropped.
 */
static size_t unlink_by_list(struct memory *m, struct region *r, uint64_t start, uint64_t end,
			     uint64_t *scan, struct mpage **out)
{
	size_t n = 0;

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
static size_t unlink_by_address(struct memory *m, struct region *r, uint64_t *start, uint64_t end,
				struct mpage **out)
{
	const uint64_t stop = MIN(end, *start + DROP_BATCH * PAGE_SIZE);
	size_t n = 0;

	for (; *start < stop; *start += PAGE_SIZE) {
		struct mpage *page = page_lookup_locked(m, r, *start);

		if (!page)
			continue;
		page_remove_locked(m, r, page);
		out[n++] = page;
	}
	return n;
}

/* Walk whichever is shorter, the addresses or the region's pages. */
uint64_t region_drop_pages(struct memory *m, struct region *r, uint64_t start, uint64_t end)
{
	struct mpage *batch[DROP_BATCH];
	uint64_t freed = 0, scan;
	bool by_list;

	start = MAX(start, r->start);
	end = MIN(end, r->end);
	spin_lock(&r->lock);
	scan = r->nr_pages;
	spin_unlock(&r->lock);
	by_list = scan <= (end - start) >> PAGE_SHIFT;
	while (by_list ? scan > 0 : start < end) {
		size_t n;

		spin_lock(&r->lock);
		if (list_empty(&r->pages))
			scan = 0;
		n = by_list ? unlink_by_list(m, r, start, end, &scan, batch)
			    : unlink_by_address(m, r, &start, end, batch);
		spin_unlock(&r->lock);
		for (size_t i = 0; i < n; i++)
			mpage_put(&m->pool, batch[i]);
		freed += n;
	}
	return freed;
}

void region_kill(struct memory *m, struct region *r)
{
	struct owner *o = &m->owner;
	struct area_spare dead = { 0 };
	uint64_t charge;
	bool linked;

	spin_lock(&o->lock);
	spin_lock(&r->lock);
	linked = r->state != REGION_DEAD;
	__atomic_store_n(&r->state, REGION_DEAD, __ATOMIC_RELEASE);
	charge = area_range_charge(&r->areas, r->start, r->end);
	area_set_clear(&r->areas, &dead);
	spin_unlock(&r->lock);
	if (linked) {
		rb_erase(&r->node, &o->regions);
		o->nr_regions--;
	}
	spin_unlock(&o->lock);

	region_drop_pages(m, r, r->start, r->end);
	pool_uncommit(&m->pool, charge);
	area_spare_free(&dead);
	wake_all(&r->idle);
	if (linked)
		region_put(r);
}

/* --- whole spaces ---------------------------------------------------------------------- */

void region_kill_if_empty(struct memory *m, struct region *r)
{
	bool empty;

	spin_lock(&r->lock);
	empty = r->state == REGION_ACTIVE && !r->areas.count;
	spin_unlock(&r->lock);
	if (empty)
		region_kill(m, r);
}

static void kill_regions(struct memory *m, uint64_t aspace)
{
	struct region *r;

	while ((r = region_get_above(m, aspace, 0))) {
		region_kill(m, r);
		region_put(r);
	}
}

void owner_destroy_space(struct memory *m, uint64_t aspace)
{
	struct owner *o = &m->owner;
	struct owner_space *s;

	kill_regions(m, aspace);
	spin_lock(&o->lock);
	s = space_find_locked(o, aspace);
	if (s) {
		rb_erase(&s->node, &o->spaces);
		o->nr_spaces--;
	}
	spin_unlock(&o->lock);
	if (!s)
		return;
	pool_uncommit(&m->pool, s->prepared);
	lib_free(s);
}

void owner_destroy_matching(struct memory *m,
			    bool (*match)(const struct owner_space *s, uint32_t node),
			    uint32_t node)
{
	struct owner *o = &m->owner;
	struct owner_space *s;
	uint64_t aspace = 0;

	do {
		spin_lock(&o->lock);
		rb_for_each_entry(s, &o->spaces, node)
			if (match(s, node))
				break;
		if (s)
			aspace = s->aspace;
		spin_unlock(&o->lock);
		if (s)
			owner_destroy_space(m, aspace);
	} while (s);
}

bool owner_prepared(struct memory *m, uint64_t aspace, uint64_t add, uint64_t sub)
{
	struct owner *o = &m->owner;
	struct owner_space *s;
	bool ok;

	spin_lock(&o->lock);
	s = space_find_locked(o, aspace);
	ok = s && s->prepared + add >= sub;
	if (ok)
		s->prepared = s->prepared + add - sub;
	spin_unlock(&o->lock);
	return ok;
}

bool owner_has_space(struct memory *m, uint64_t aspace)
{
	bool has;

	spin_lock(&m->owner.lock);
	has = space_find_locked(&m->owner, aspace) != NULL;
	spin_unlock(&m->owner.lock);
	return has;
}

uint32_t owner_space_home(struct memory *m, uint64_t aspace)
{
	const struct owner_space *s;
	uint32_t home;

	spin_lock(&m->owner.lock);
	s = space_find_locked(&m->owner, aspace);
	home = s ? s->home : m->node;
	spin_unlock(&m->owner.lock);
	return home;
}

void owner_counts(struct memory *m, struct owner_counts *out)
{
	struct owner *o = &m->owner;
	struct region *r;

	memset(out, 0, sizeof(*out));
	spin_lock(&o->lock);
	out->regions = o->nr_regions;
	out->spaces = o->nr_spaces;
	rb_for_each_entry(r, &o->regions, node) {
		spin_lock(&r->lock);
		out->areas += r->areas.count;
		out->pages += r->nr_pages;
		spin_unlock(&r->lock);
	}
	spin_unlock(&o->lock);
}
