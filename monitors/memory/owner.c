/* SPDX-License-Identifier: MIT */
/*
 * Owner: the tree of vRegions, the spaces, and the hash page table.
 *
 * Invariants:	the tree has regions in the order of (space, start), which do not overlap; spaces
 *		are in the order of their ids.
 */
#include "owner.h"

#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/alloc.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/string.h>

#include "memory.h"
#include "owner_private.h"
#include "region_apply.h"

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

	assert_spin_held(&o->lock);
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

static void region_free(struct region *r)
{
	lock_not_needed(&r->lock, "no other thread knows it");
	memory_uncharge(r->m, r->proc, sizeof(*r));
	area_spare_free(&r->spare);
	lib_free(r);
}

void region_put(struct region *r)
{
	if (__atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL))
		return;
	lock_not_needed(&r->lock, "the last reference");
	BUG_ON(r->nr_pages || r->areas.count);
	region_free(r);
}

void regions_lock(struct region *a, struct region *b)
	__no_lock_analysis("the order depends on the addresses")
{
	struct region *first = a < b ? a : b;

	spin_lock(&first->lock);
	if (a != b)
		spin_lock(first == a ? &b->lock : &a->lock);
}

void regions_unlock(struct region *a, struct region *b)
	__no_lock_analysis("the order depends on the addresses")
{
	struct region *first = a < b ? a : b;

	if (a != b)
		spin_unlock(first == a ? &b->lock : &a->lock);
	spin_unlock(&first->lock);
}

void region_link_locked(struct owner *o, struct region *r)
{
	struct rb_node **link = &o->regions.node;
	struct rb_node *parent = NULL;

	assert_spin_held(&o->lock);
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

void region_unlink_locked(struct owner *o, struct region *r)
{
	assert_spin_held(&o->lock);
	rb_erase(&r->node, &o->regions);
	o->nr_regions--;
}

bool region_overlaps_locked(struct owner *o, const struct region *r)
{
	const struct region *above = above_locked(o, r->aspace, r->start);

	assert_spin_held(&o->lock);
	return above && above->start < r->end;
}

struct owner_space *owner_space_find_locked(struct owner *o, uint64_t aspace)
{
	struct rb_node *node = o->spaces.node;

	assert_spin_held(&o->lock);
	while (node) {
		struct owner_space *s = rb_entry(node, struct owner_space, node);

		if (s->aspace == aspace)
			return s;
		node = aspace < s->aspace ? node->left : node->right;
	}
	return NULL;
}

void owner_space_link_locked(struct owner *o, struct owner_space *s)
{
	struct rb_node **link = &o->spaces.node;
	struct rb_node *parent = NULL;

	assert_spin_held(&o->lock);
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

void owner_space_unlink_locked(struct owner *o, struct owner_space *s)
{
	assert_spin_held(&o->lock);
	rb_erase(&s->node, &o->spaces);
	o->nr_spaces--;
}

struct owner_space *owner_space_alloc(struct memory *m, uint64_t aspace, uint32_t home,
				      uint32_t proc, uint32_t vnode)
{
	struct owner_space *s;

	if (memory_charge(m, proc, sizeof(*s)))
		return NULL;
	s = lib_zalloc(sizeof(*s));
	if (!s) {
		memory_uncharge(m, proc, sizeof(*s));
		return NULL;
	}
	s->aspace = aspace;
	s->home = home;
	s->proc = proc;
	s->vnode = vnode;
	return s;
}

void owner_space_free(struct memory *m, struct owner_space *s)
{
	if (s)
		memory_uncharge(m, s->proc, sizeof(*s));
	lib_free(s);
}

static struct region *region_alloc(struct memory *m, uint64_t aspace, uint64_t index,
				   uint32_t shift, const struct region_init *init)
{
	const uint32_t proc = init->proc;
	struct region *r;

	if (memory_charge(m, proc, sizeof(*r)))
		return NULL;
	r = lib_zalloc(sizeof(*r));
	if (!r) {
		memory_uncharge(m, proc, sizeof(*r));
		return NULL;
	}
	spin_lock_init(&r->lock, "region", RANK_SPIN_ASPACE);
	r->refs = 2; /* the tree's and the caller's */
	r->m = m;
	r->aspace = aspace;
	r->proc = proc;
	r->vnode = init->vnode;
	r->index = index;
	r->start = index << shift;
	r->end = MIN((index + 1) << shift, PM_USER_TOP);
	r->key = __atomic_add_fetch(&m->owner.next_key, 1, __ATOMIC_RELAXED);
	area_set_init(&r->areas);
	lock_not_needed(&r->lock, "no other thread knows it");
	r->spare = AREA_SPARE(m, proc);
	list_init(&r->pages);
	waitqueue_init(&r->idle);
	return r;
}

struct region *region_make(struct memory *m, uint64_t aspace, struct home_id home, uint64_t index,
			   uint32_t shift, const struct region_init *init)
{
	struct region *r = region_get(m, aspace, index << shift);
	struct region_op op = {
		.change = { .kind = CHANGE_MAKE,
			    .make = { .home = home.node,
				      .shift = shift,
				      .state = init->state,
				      .holes = init->holes,
				      .version = init->version,
				      .proc = init->proc,
				      .vnode = init->vnode } },
		.home_incarn = home.incarn,
		.known = init->known,
	};
	int err;

	if (r && (r->proc != init->proc || r->vnode != init->vnode)) {
		region_put(r);
		return ERR_PTR(-EPROTO);
	}
	if (r)
		return r;
	r = region_alloc(m, aspace, index, shift, init);
	op.space = owner_space_alloc(m, aspace, home.node, init->proc, init->vnode);
	if (!r || !op.space) {
		if (r)
			region_free(r);
		owner_space_free(m, op.space);
		return ERR_PTR(-ENOMEM);
	}
	err = region_apply_wait(m, r, &op);
	owner_space_free(m, op.space);
	if (!err)
		return r;
	region_free(r);
	if (err != -EEXIST)
		return ERR_PTR(err);
	/* Another thread was faster, or the home's idea of the size of a vRegion has changed. */
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

int region_reserve(struct region *r, bool grows)
{
	struct area_spare fresh = AREA_SPARE(r->m, r->proc);
	size_t have;
	int err;

	spin_lock(&r->lock);
	have = r->spare.count;
	spin_unlock(&r->lock);
	if (have >= AREA_SPARE_MAX)
		return 0;
	err = grows ? area_spare_fill(&fresh, AREA_SPARE_MAX - have)
		    : area_spare_borrow(&fresh, AREA_SPARE_MAX - have);
	spin_lock(&r->lock);
	spare_splice(&r->spare, &fresh, 0);
	spin_unlock(&r->lock);
	return err;
}

void region_trim(struct region *r)
{
	struct area_spare extra = AREA_SPARE(r->m, r->proc);

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

	assert_spin_held(&r->lock);
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

	assert_spin_held(&r->lock);
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

	assert_spin_held(&r->lock);
	spin_lock(lock);
	hlist_del(&page->hash);
	spin_unlock(lock);
	list_del(&page->link);
	r->nr_pages--;
}

void pages_swap_locked(struct region *a, struct region *b)
{
	const uint64_t key = a->key, nr = a->nr_pages;
	struct list_head pages;

	assert_spin_held(&a->lock);
	assert_spin_held(&b->lock);
	list_init(&pages);
	list_splice_tail(&a->pages, &pages);
	list_init(&a->pages);
	list_splice_tail(&b->pages, &a->pages);
	list_init(&b->pages);
	list_splice_tail(&pages, &b->pages);
	a->key = b->key;
	a->nr_pages = b->nr_pages;
	b->key = key;
	b->nr_pages = nr;
}

/* --- whole spaces ---------------------------------------------------------------------- */

static void region_kill(struct memory *m, struct region *r)
{
	struct region_op op = { .change = { .kind = CHANGE_KILL } };

	(void)region_apply_wait(m, r, &op);
}

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
	struct region_op op = {
		.change = { .kind = CHANGE_FORGET, .account = { .aspace = aspace } },
	};

	kill_regions(m, aspace);
	(void)region_apply_wait(m, NULL, &op);
}

uint32_t owner_next_of_home(struct memory *m, uint32_t home, uint32_t proc)
{
	struct owner *o = &m->owner;
	struct owner_space *s;
	uint32_t next = 0;

	spin_lock(&o->lock);
	rb_for_each_entry(s, &o->spaces, node)
		if (s->home == home && s->proc > proc && (!next || s->proc < next))
			next = s->proc;
	spin_unlock(&o->lock);
	return next;
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

bool owner_prepared(struct memory *m, uint64_t aspace, int64_t delta)
{
	const uint64_t spent = delta < 0 ? 0 - (uint64_t)delta : 0; /* right for INT64_MIN, too */
	struct owner *o = &m->owner;
	struct owner_space *s;
	bool ok;

	spin_lock(&o->lock);
	s = owner_space_find_locked(o, aspace);
	ok = s && s->prepared >= spent;
	if (ok)
		s->prepared += (uint64_t)delta;
	spin_unlock(&o->lock);
	return ok;
}

bool owner_has_space(struct memory *m, uint64_t aspace)
{
	bool has;

	spin_lock(&m->owner.lock);
	has = owner_space_find_locked(&m->owner, aspace) != NULL;
	spin_unlock(&m->owner.lock);
	return has;
}

struct owner_masters owner_masters(struct memory *m, uint64_t aspace)
{
	struct owner_masters out = { .home = pm_space_home(aspace) };
	const struct owner_space *s;

	spin_lock(&m->owner.lock);
	s = owner_space_find_locked(&m->owner, aspace);
	if (s)
		out = (struct owner_masters){ s->home, s->proc, s->source };
	spin_unlock(&m->owner.lock);
	return out;
}

int owner_expect(struct memory *m, struct home_id home, const struct mm_expect_req *req)
{
	struct region_op op = {
		.change = { .kind = CHANGE_EXPECT,
			    .expect = { .aspace = req->aspace,
					.home = home.node,
					.proc = req->processor,
					.vnode = req->vnode,
					.from = req->from } },
		.space = req->from ? owner_space_alloc(m, req->aspace, home.node, req->processor,
						       req->vnode)
				   : NULL,
		.home_incarn = home.incarn,
	};
	int err;

	if (req->from && !op.space)
		return -ENOMEM;
	err = region_apply_wait(m, NULL, &op);
	owner_space_free(m, op.space);
	return err;
}

struct pm_grant owner_grant_space(struct memory *m, uint64_t aspace, uint32_t want)
{
	const uint32_t proc = want ? owner_masters(m, aspace).processor : 0;

	/*
	 * A home may name one that there is none of. One that this node has not heard of yet asks
	 * for credits itself when it is short of them.
	 */
	return proc && (!m->net->is_processor || m->net->is_processor(m, proc))
		       ? owner_grant(m, proc, want, NULL)
		       : (struct pm_grant){ .node = m->node };
}

/* Up to @max regions into @out; how many there are. */
static size_t list_regions(struct owner *o, struct relief_region *out, size_t max)
{
	struct region *r;
	size_t n = 0;

	spin_lock(&o->lock);
	rb_for_each_entry(r, &o->regions, node) {
		spin_lock(&r->lock);
		if (r->state == REGION_ACTIVE && r->nr_pages) {
			if (n < max)
				out[n] = (struct relief_region){
					.aspace = r->aspace,
					.index = r->index,
					.pages = r->nr_pages,
				};
			n++;
		}
		spin_unlock(&r->lock);
	}
	spin_unlock(&o->lock);
	return n;
}

struct relief_region *owner_list_regions(struct memory *m, size_t *nr)
{
	const size_t max = list_regions(&m->owner, NULL, 0);
	struct relief_region *out = lib_alloc((max + 1) * sizeof(*out));

	*nr = out ? MIN(max, list_regions(&m->owner, out, max)) : 0;
	return out;
}

uint64_t owner_pages_of(struct memory *m, uint32_t proc)
{
	struct owner *o = &m->owner;
	uint64_t pages = 0;
	struct region *r;

	spin_lock(&o->lock);
	rb_for_each_entry(r, &o->regions, node) {
		spin_lock(&r->lock);
		if (r->proc == proc)
			pages += r->nr_pages;
		spin_unlock(&r->lock);
	}
	spin_unlock(&o->lock);
	return pages;
}

uint32_t owner_next_processor(struct memory *m, uint32_t proc)
{
	struct owner *o = &m->owner;
	struct owner_space *s;
	uint32_t best = 0;

	spin_lock(&o->lock);
	rb_for_each_entry(s, &o->spaces, node)
		if (s->proc >= proc && (!best || s->proc < best))
			best = s->proc;
	spin_unlock(&o->lock);
	return best;
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
