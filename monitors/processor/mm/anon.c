/* SPDX-License-Identifier: MIT */
/*
 * Chains of anonymous objects: finding pages, hiding them, growing and collapsing chains, and which
 * spaces can see an object that has lost a page.
 *
 * Flow:	when a frozen object has one shadow left, the two collapse.  If the shadow is the
 *		top of a space, the frozen object stays, because it has more lines as a rule: it
 *		gets the top's lines, its name at the home and its place in the space.  Lines of
 *		both are held (not written back) meanwhile, so that pages and credits are accounted
 *		for exactly.  If no owner has a page of the frozen object, its name at the home just
 *		ends.  Of two frozen objects the backing one stays as well, and the shadows of the
 *		other become its own.
 * Locking:	see "anon.h"; `hidden` of a top is guarded by its space's lock.
 * Failure:	a collapse that fails leaves the chain longer; the next fork or exit tries again.
 * See:		docs/design/fork.md
 */
#include "anon.h"

#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/slab.h>
#include <processor/excache/excache.h>
#include <processor/excache/frames.h>
#include <processor/excache/home.h>

COUNTER(anon_cow, "fork.cow_copies", "pages copied from an object that a fork has frozen");
COUNTER(anon_walks, "fork.chain_walks", "steps of faults beyond the top of a chain");
COUNTER(anon_collapses, "fork.collapses", "frozen objects put into a shadow");
COUNTER(anon_local_collapses, "fork.local_collapses",
	"of these, without a message: no owner had a page");

static struct spinlock chain_lock = SPINLOCK_INIT("anon.chain", RANK_SPIN_MONITOR);
static LIST_HEAD(spaces); /* chain_lock */

/* A collapse is over, or the last walker has left an object that is to collapse. */
static struct waitqueue chain_quiet = WAITQUEUE_INIT(chain_quiet);

static void (*kill_failed_tasks)(void); /* const after start */

void anon_init(void (*kill_failed)(void))
{
	kill_failed_tasks = kill_failed;
}

/* --- life ---------------------------------------------------------------------------- */

void anon_add_space(struct aspace *as)
{
	spin_lock(&chain_lock);
	list_add_tail(&as->link, &spaces);
	as->anon->as = as;
	spin_unlock(&chain_lock);
}

struct aspace *anon_next_space(struct aspace *as)
{
	struct list_head *at;
	struct aspace *next = NULL;

	spin_lock(&chain_lock);
	for (at = as ? as->link.next : spaces.next; at != &spaces; at = at->next) {
		next = container_of(at, struct aspace, link);
		if (refcount_inc_not_zero(&next->refs))
			break;
		next = NULL;
	}
	spin_unlock(&chain_lock);
	if (as)
		aspace_put(as);
	return next;
}

void anon_remove_space(struct aspace *as)
{
	spin_lock(&chain_lock);
	list_del(&as->link);
	as->anon->as = NULL;
	spin_unlock(&chain_lock);
}

static struct object *only_shadow_locked(const struct object *obj)
{
	struct object *shadow = list_first_entry_or_null(&obj->shadows, struct object, shadow_link);

	assert_spin_held(&chain_lock);
	return shadow && shadow->shadow_link.next == &obj->shadows ? shadow : NULL;
}

/*
 * Find the space or object that @obj can collapse into, referenced: the space whose top is its
 * only shadow, or that shadow if it is frozen.
 */
static void find_collapse_locked(const struct object *obj, struct anon_collapse *m)
{
	struct object *shadow = only_shadow_locked(obj);

	assert_spin_held(&chain_lock);
	if (!shadow)
		return;
	if (shadow->as && refcount_inc_not_zero(&shadow->as->refs))
		m->as = shadow->as;
	else if (!shadow->as && !list_empty(&shadow->shadows) &&
		 refcount_inc_not_zero(&shadow->refs))
		m->shadow = shadow;
}

struct object *anon_unchain(struct object *obj, struct anon_collapse *collapse)
{
	struct object *backing;
	bool last;

	*collapse = (struct anon_collapse){ 0 };
	spin_lock(&chain_lock);
	backing = obj->backing;
	obj->backing = NULL;
	list_del(&obj->shadow_link);
	last = refcount_dec_and_test(&backing->refs);
	if (!last)
		find_collapse_locked(backing, collapse);
	spin_unlock(&chain_lock);
	return last ? backing : NULL;
}

static bool maps(struct aspace *as, const struct object *obj)
{
	const struct vma *v;
	bool found = false;

	spin_lock(&as->lock);
	rb_for_each_entry(v, &as->vmas, node)
		found |= v->file == obj;
	spin_unlock(&as->lock);
	return found;
}

static bool can_see_locked(struct aspace *as, const struct object *obj)
{
	assert_spin_held(&chain_lock);
	if (obj->kind == OBJECT_SHARED)
		return maps(as, obj);
	for (const struct object *o = as->anon; o; o = o->backing) {
		if (o == obj)
			return true;
	}
	return false;
}

static void fail_space(struct aspace *as, int error, uint32_t node)
{
	if (READ_ONCE(as->failed))
		return;
	WRITE_ONCE(as->lost_node, node);
	__atomic_store_n(&as->failed, error, __ATOMIC_RELEASE);
}

void anon_failed(struct object *obj, int error, uint32_t node)
{
	struct aspace *as;

	spin_lock(&chain_lock);
	list_for_each_entry(as, &spaces, link) {
		if (can_see_locked(as, obj))
			fail_space(as, error, node);
	}
	spin_unlock(&chain_lock);
	kill_failed_tasks();
}

/* A private object of some space that has a part at @node, referenced; NULL: there is none. */
static struct object *find_part(uint32_t node)
{
	struct object *obj = NULL;
	struct aspace *as;

	spin_lock(&chain_lock);
	list_for_each_entry(as, &spaces, link) {
		for (obj = as->anon; obj; obj = obj->backing) {
			if (object_has_part_at(obj, node) && refcount_inc_not_zero(&obj->refs))
				goto out;
		}
	}
	obj = NULL;
out:
	spin_unlock(&chain_lock);
	return obj;
}

void anon_node_gone(uint32_t node)
{
	struct object *obj;

	while ((obj = find_part(node)))
		object_node_gone(obj, node);
}

uint64_t anon_frames(struct aspace *as, uint32_t node)
{
	uint64_t nr = 0;

	spin_lock(&chain_lock);
	for (struct object *obj = as->anon; obj; obj = obj->backing)
		nr += object_frames(obj, node);
	spin_unlock(&chain_lock);
	return nr;
}

/* --- finding pages ------------------------------------------------------------------- */

static bool hides(struct aspace *as, const struct object *obj, uint64_t vpn)
{
	bool hidden;

	if (obj != as->anon)
		return page_bits_test(&obj->hidden, vpn); /* frozen: does not change */
	spin_lock(&as->lock);
	hidden = page_bits_test(&obj->hidden, vpn);
	spin_unlock(&as->lock);
	return hidden;
}

/* In @obj alone. */
static int find_in(struct aspace *as, struct object *obj, uint64_t vpn, uint64_t seq,
		   struct line **line)
{
	int err = excache_get(obj, vpn, EXCACHE_FIND, line);

	if (err != -ENOENT || !object_stored(obj, vpn))
		return err;
	err = excache_get_at(obj, vpn, EXCACHE_FETCH, as, seq, line);
	return err == -ENOENT ? -EIO : err;
}

/* --- walking along a chain ----------------------------------------------------------- */

/* @obj, which is not the top, may collapse as far as we are concerned. */
static bool walker_leaves_locked(struct object *obj)
{
	assert_spin_held(&chain_lock);
	return --obj->nr_walkers == 0 && obj->collapsing;
}

static void walk_end(const struct aspace *as, struct object *obj)
{
	bool wake = false;

	spin_lock(&chain_lock);
	if (obj != as->anon)
		wake = walker_leaves_locked(obj);
	spin_unlock(&chain_lock);
	if (wake)
		wake_all(&chain_quiet);
}

/*
 * From @obj of the chain of @as, where we are a walker unless it is the top, to the object behind
 * it: we are a walker there now, and until the next step neither its lines nor its place in the
 * chain are another object's. NULL: there is none. -EAGAIN: it was collapsing, which has been
 * waited for: begin again at the top. -EINTR: the thread is to be killed. After NULL and errors we
 * are a walker nowhere.
 */
static struct object *walk_step(const struct aspace *as, struct object *obj)
{
	struct object *next;
	bool wake = false, busy = false;
	int err;

	spin_lock(&chain_lock);
	next = obj->backing;
	if (next && next->collapsing) {
		busy = true;
		object_get(next);
	} else if (next) {
		next->nr_walkers++;
	}
	if (obj != as->anon)
		wake = walker_leaves_locked(obj);
	spin_unlock(&chain_lock);
	if (wake)
		wake_all(&chain_quiet);
	if (!busy)
		return next;
	err = wait_event_killable(&chain_quiet, !READ_ONCE(next->collapsing));
	object_put(next);
	return ERR_PTR(err ? -EINTR : -EAGAIN);
}

/*
 * Call @fn for each object behind the top of @as, from the top on, until it fails; perhaps again
 * from the top. @fn does not wait for other nodes. -EINTR: the thread is to be killed, and an
 * object is collapsing.
 */
static int for_each_behind(struct aspace *as, int (*fn)(struct object *obj, void *arg), void *arg)
{
	struct object *obj = as->anon;
	int err = 0;

	for (;;) {
		obj = walk_step(as, obj);
		if (!obj)
			return 0;
		if (IS_ERR(obj)) {
			if (PTR_ERR(obj) != -EAGAIN)
				return (int)PTR_ERR(obj);
			obj = as->anon;
			continue;
		}
		err = fn(obj, arg);
		if (err)
			break;
	}
	walk_end(as, obj);
	return err;
}

static int pages_of(struct object *obj, void *arg)
{
	return object_pages(obj, arg);
}

int anon_pages(struct aspace *as, struct page_bits *out)
{
	int err = mutex_lock_killable(&as->map_lock);

	if (err)
		return err;
	err = object_pages(as->anon, out);
	if (!err)
		err = for_each_behind(as, pages_of, out);
	mutex_unlock(&as->map_lock);
	return err;
}

/* 1: the chain has changed, begin again at the top. */
static int find_behind(struct aspace *as, uint64_t vpn, uint64_t seq, struct object **from,
		       struct line **line)
{
	struct object *obj = as->anon, *next;
	int err;

	while (!hides(as, obj, vpn)) {
		next = walk_step(as, obj);
		if (!next)
			return -ENOENT;
		if (IS_ERR(next))
			return PTR_ERR(next) == -EAGAIN ? 1 : PTR_ERR(next);
		counter_inc(&anon_walks);
		*from = obj = next;
		err = find_in(as, obj, vpn, seq, line);
		if (err != -ENOENT) {
			walk_end(as, obj);
			return err;
		}
	}
	walk_end(as, obj);
	return -ENOENT;
}

int anon_find(struct aspace *as, uint64_t vpn, uint64_t seq, struct object **from,
	      struct line **line)
{
	int err = find_in(as, as->anon, vpn, seq, line);

	*from = as->anon;
	if (err != -ENOENT || !READ_ONCE(as->anon->backing))
		return err;
	do
		err = find_behind(as, vpn, seq, from, line);
	while (err > 0);
	return err;
}

int anon_copy(struct aspace *as, uint64_t vpn, uint64_t seq, const struct line *src,
	      struct line **out)
{
	const int err = excache_get_at(as->anon, vpn, EXCACHE_COPY, as, seq, out);

	if (err || excache_is_valid(*out))
		return err;
	copy_page(line_data(*out), line_data(src));
	excache_publish(*out);
	counter_inc(&anon_cow);
	return 0;
}

/* --- hiding -------------------------------------------------------------------------- */

/* Call @fn for each page of [first, end) that @obj, which is frozen, has. Pages may come twice. */
static int for_each_page(struct object *obj, uint64_t first, uint64_t end,
			 int (*fn)(struct aspace *as, uint64_t vpn), struct aspace *as)
{
	struct line *line;
	uint64_t page;
	int err = 0;

	spin_lock(&obj->lock);
	/* A line that is not there any more is stored by now: so lines first, under one lock. */
	list_for_each_entry(line, &obj->lines, obj_link) {
		if (line->pgoff - first < end - first)
			err = fn(as, line->pgoff);
		if (err)
			break;
	}
	for (page = page_bits_next(&obj->stored, first, end); page < end && !err;
	     page = page_bits_next(&obj->stored, page + 1, end))
		err = fn(as, page);
	spin_unlock(&obj->lock);
	return err;
}

static int reserve_one(struct aspace *as, uint64_t vpn)
{
	int err;

	spin_lock(&as->lock);
	err = page_bits_reserve(&as->anon->hidden, vpn);
	spin_unlock(&as->lock);
	return err;
}

static int hide_one(struct aspace *as, uint64_t vpn)
{
	int err;

	spin_lock(&as->lock);
	err = page_bits_set(&as->anon->hidden, vpn);
	spin_unlock(&as->lock);
	BUG_ON(err); /* there is room: anon_hide_reserve() */
	return 0;
}

struct hide {
	struct aspace *as;
	uint64_t first, end;
	int (*fn)(struct aspace *as, uint64_t vpn);
};

static int hide_of(struct object *obj, void *arg)
{
	const struct hide *h = arg;

	return for_each_page(obj, h->first, h->end, h->fn, h->as);
}

int anon_hide_reserve(struct aspace *as, uint64_t first, uint64_t end)
{
	struct hide h = { .as = as, .first = first, .end = end, .fn = reserve_one };

	return for_each_behind(as, hide_of, &h);
}

void anon_hide(struct aspace *as, uint64_t first, uint64_t end)
{
	struct hide h = { .as = as, .first = first, .end = end, .fn = hide_one };

	/* A killed thread leaves pages that are gone to be seen: no program goes on with them. */
	if (for_each_behind(as, hide_of, &h))
		aspace_killed(as);
}

/* --- pulling pages into the top -------------------------------------------------------- */

static int pull_one(struct aspace *as, uint64_t vpn)
{
	struct object *from;
	struct line *src, *copy;
	int err = anon_find(as, vpn, SEQ_ANY, &from, &src);

	if (err)
		return err == -ENOENT ? 0 : err;
	if (from != as->anon) {
		err = anon_copy(as, vpn, SEQ_ANY, src, &copy);
		if (!err)
			excache_put(copy);
	}
	excache_put(src);
	return err;
}

/* The first page of [vpn, end) that @obj has, or end. */
static uint64_t next_page(struct object *obj, uint64_t vpn, uint64_t end)
{
	struct line *line;

	spin_lock(&obj->lock);
	list_for_each_entry(line, &obj->lines, obj_link) {
		if (line->pgoff - vpn < end - vpn)
			end = line->pgoff;
	}
	end = page_bits_next(&obj->stored, vpn, end);
	spin_unlock(&obj->lock);
	return end;
}

struct next {
	uint64_t vpn, end;
};

static int next_of(struct object *obj, void *arg)
{
	struct next *n = arg;

	n->end = next_page(obj, n->vpn, n->end);
	return 0;
}

/* *@vpn: the first page of [*@vpn, end) that any object behind the top has, or end. */
static int next_behind(struct aspace *as, uint64_t *vpn, uint64_t end)
{
	struct next n = { .vpn = *vpn, .end = end };
	const int err = for_each_behind(as, next_of, &n);

	*vpn = n.end;
	return err;
}

int anon_pull(struct aspace *as, uint64_t first, uint64_t end)
{
	uint64_t vpn = first;
	int err = next_behind(as, &vpn, end);

	while (!err && vpn < end) {
		err = pull_one(as, vpn++);
		if (!err)
			err = next_behind(as, &vpn, end);
	}
	return err;
}

/* --- growing and merging --------------------------------------------------------------- */

void anon_push(struct aspace *parent, struct object *shadow, struct aspace *child)
{
	struct object *frozen = parent->anon;

	assert_mutex_held(&parent->map_lock);
	ASSERT(frozen->as == parent && list_empty(&frozen->shadows)); /* a top backs none */
	spin_lock(&chain_lock);
	shadow->backing = frozen; /* with the parent's reference */
	list_add_tail(&shadow->shadow_link, &frozen->shadows);
	frozen->as = NULL;
	shadow->as = parent;
	parent->anon = shadow;
	if (child) {
		object_get(frozen);
		child->anon->backing = frozen;
		list_add_tail(&child->anon->shadow_link, &frozen->shadows);
		if (frozen->failed) /* lost before the child was known */
			fail_space(child, frozen->failed, parent->lost_node);
	}
	spin_unlock(&chain_lock);
}

bool anon_can_collapse(struct aspace *as)
{
	struct object *backing = as->anon->backing;
	bool can;

	if (!backing)
		return false;
	spin_lock(&chain_lock);
	can = only_shadow_locked(as->anon->backing) == as->anon;
	spin_unlock(&chain_lock);
	return can;
}

bool anon_collapse_asks(struct aspace *as)
{
	struct object *back;
	bool asks;

	spin_lock(&chain_lock);
	back = as->anon->backing;
	asks = back && only_shadow_locked(back) == as->anon &&
	       object_stores_any(back, 0, UINT64_MAX);
	spin_unlock(&chain_lock);
	return asks;
}

/* Stored pages of @back that its only shadow hides are dropped by their owners. */
static int collapse_remote(struct object *top, struct object *back)
{
	struct page_ranges *drop = kzalloc(sizeof(*drop));
	uint64_t page = 0;
	int err = 0;

	if (!drop)
		return -ENOMEM;
	for (; !err && (page = page_bits_next(&top->hidden, page, UINT64_MAX)) != UINT64_MAX;
	     page++) {
		if (!object_stored(back, page))
			continue;
		if (drop->nr > 0 && drop->ranges[drop->nr - 1].end == page) {
			drop->ranges[drop->nr - 1].end++;
			continue;
		}
		if (drop->nr == HOME_RANGES_MAX) {
			err = home_discard(back, drop->ranges, drop->nr);
			if (!err)
				object_clear_stored(back, drop->ranges[0].first, page);
			drop->nr = 0;
		}
		drop->ranges[drop->nr++] = (struct page_range){ .first = page, .end = page + 1 };
	}
	if (!err)
		err = home_collapse(back, top, drop);
	kfree(drop);
	return err;
}

/* Bits and lines, when the owners have done their part: cannot fail. */
static void collapse_local(struct object *top, struct object *back)
{
	uint64_t page;

	page = page_bits_next(&top->hidden, 0, UINT64_MAX);
	for (; page != UINT64_MAX; page = page_bits_next(&top->hidden, page + 1, UINT64_MAX)) {
		object_clear_stored(back, page, page + 1);
		excache_drop(back, page, page + 1);
	}
	page = page_bits_next(&top->stored, 0, UINT64_MAX);
	for (; page != UINT64_MAX; page = page_bits_next(&top->stored, page + 1, UINT64_MAX))
		excache_drop(back, page, page + 1);
	excache_retag(top, back);
	object_merge_stored(back, top);
	if (back->backing) {
		page_bits_merge(&back->hidden, &top->hidden);
	} else {
		page_bits_destroy(&back->hidden);
		page_bits_init(&back->hidden);
	}
}

/* Not the last reference: the caller has one. */
static void unref_locked(struct object *obj)
{
	const bool last = refcount_dec_and_test(&obj->refs);

	assert_spin_held(&chain_lock);
	BUG_ON(last);
}

/*
 * @back takes the place of @shadow: in its space if it is a top, else behind those in front of it.
 */
static void replace_shadow(struct object *shadow, struct object *back)
{
	struct radix_tree vregions;
	const uint64_t id = back->id;
	struct object *o;

	spin_lock(&chain_lock);
	lock_not_needed(&shadow->lock, "no other thread can find it any more");
	spin_lock(&back->lock);
	vregions = back->vregions;
	back->id = shadow->id;
	back->vregions = shadow->vregions;
	back->near = NULL;
	spin_unlock(&back->lock);
	shadow->id = id;
	shadow->vregions = vregions;
	shadow->near = NULL; /* no look-up uses it any more */
	if (!back->failed)
		back->failed = shadow->failed;
	list_del(&shadow->shadow_link);
	shadow->backing = NULL;
	if (shadow->as) {
		back->as = shadow->as;
		back->as->anon = back; /* the shadow's reference is the space's now */
		shadow->as = NULL;
	} else {
		list_splice_tail(&shadow->shadows, &back->shadows);
		list_init(&shadow->shadows);
		list_for_each_entry(o, &back->shadows, shadow_link) {
			object_get(back); /* their references change over */
			o->backing = back;
			unref_locked(shadow);
		}
		unref_locked(back); /* @shadow's */
	}
	spin_unlock(&chain_lock);
}

/* False: a write-back is under way, or owners must be asked, and the caller does not @wait. */
static bool hold_both(struct object *shadow, struct object *back, bool wait)
{
	if (wait) {
		excache_hold(shadow);
		excache_hold(back);
		return true;
	}
	if (!excache_try_hold(shadow))
		return false;
	if (excache_try_hold(back)) {
		if (!object_stores_any(back, 0, UINT64_MAX))
			return true;
		excache_release(back);
	}
	excache_release(shadow);
	return false;
}

static bool has_walkers(const struct object *obj)
{
	bool has;

	spin_lock(&chain_lock);
	has = obj->nr_walkers > 0;
	spin_unlock(&chain_lock);
	return has;
}

/*
 * The object behind @shadow, with the two collapsing: no other collapse has a part in them, and no
 * thread walks there. NULL: @pair says that they cannot. -EAGAIN: another collapse or a walker has
 * to be waited for, and the caller does not @wait.
 */
static struct object *collapse_begin(struct object *shadow,
				     struct object *(*pair)(const struct object *shadow), bool wait)
{
	struct object *back, *busy;
	bool later;

	for (;;) {
		spin_lock(&chain_lock);
		back = pair(shadow);
		busy = back && shadow->collapsing ? shadow : back && back->collapsing ? back : NULL;
		later = !wait && back && (busy || shadow->nr_walkers || back->nr_walkers);
		if (busy && !later)
			object_get(busy);
		else if (back && !later)
			shadow->collapsing = back->collapsing = true;
		spin_unlock(&chain_lock);
		if (later)
			return ERR_PTR(-EAGAIN);
		if (!busy)
			break;
		wait_event(&chain_quiet, !READ_ONCE(busy->collapsing));
		object_put(busy);
	}
	if (back)
		wait_event(&chain_quiet, !has_walkers(shadow) && !has_walkers(back));
	return back;
}

static void collapse_end(struct object *shadow, struct object *back)
{
	spin_lock(&chain_lock);
	shadow->collapsing = back->collapsing = false;
	spin_unlock(&chain_lock);
	wake_all(&chain_quiet);
}

/*
 * collapse_begin() has returned @back; of a top, its space is blocked and without faults. On
 * success one reference of @shadow is put. -EAGAIN: it would have to wait for owners.
 */
static int collapse_one(struct object *shadow, struct object *back, bool wait)
{
	bool stored;
	int err;

	ASSERT(shadow->collapsing && back->collapsing);
	ASSERT(shadow->backing == back && shadow->seed == back->seed);
	if (!hold_both(shadow, back, wait)) {
		collapse_end(shadow, back);
		return -EAGAIN;
	}
	/* Nothing writes to these: no thread walks there, write-backs are held. */
	spin_lock(&back->lock);
	err = page_bits_reserve_all(&back->stored, &shadow->stored);
	spin_unlock(&back->lock);
	if (!err && back->backing)
		err = page_bits_reserve_all(&back->hidden, &shadow->hidden);
	/* Owners that have no page of the frozen object have nothing to rename: it just ends. */
	stored = object_stores_any(back, 0, UINT64_MAX);
	if (!err && stored)
		err = collapse_remote(shadow, back);
	if (!err) {
		collapse_local(shadow, back);
		replace_shadow(shadow, back);
		counter_inc(&anon_collapses);
		if (!stored)
			counter_inc(&anon_local_collapses);
	}
	excache_release(back);
	excache_release(shadow);
	collapse_end(shadow, back);
	if (!err)
		object_free_collapsed(shadow, stored);
	return err;
}

/* The object behind @shadow, a top, if that is its only shadow; else NULL. */
static struct object *top_pair_locked(const struct object *shadow)
{
	struct object *back = shadow->backing;

	assert_spin_held(&chain_lock);
	return back && only_shadow_locked(back) == shadow ? back : NULL;
}

int anon_collapse(struct aspace *as, bool wait)
{
	struct object *back;
	int err = 0;

	assert_mutex_held(&as->map_lock);
	while (!err && (back = collapse_begin(as->anon, top_pair_locked, wait)))
		err = IS_ERR(back) ? (int)PTR_ERR(back) : collapse_one(as->anon, back, wait);
	return err;
}

/* The same if both are frozen. */
static struct object *frozen_pair_locked(const struct object *shadow)
{
	assert_spin_held(&chain_lock);
	return shadow->as || list_empty(&shadow->shadows) ? NULL : top_pair_locked(shadow);
}

int anon_collapse_frozen(struct object *shadow, bool wait)
{
	struct object *back;
	int err = 0;

	object_get(shadow);
	while (!err && (back = collapse_begin(shadow, frozen_pair_locked, wait))) {
		if (IS_ERR(back)) {
			err = (int)PTR_ERR(back);
			break;
		}
		object_get(back); /* it stays, whatever ends meanwhile */
		err = collapse_one(shadow, back, wait);
		if (err)
			object_put(back); /* @shadow has one, too */
		else
			shadow = back;
	}
	object_put(shadow);
	return err;
}

struct object *anon_collapse_behind(struct aspace *as)
{
	struct object *found;

	do {
		found = NULL;
		spin_lock(&chain_lock);
		for (struct object *o = as->anon->backing; o && !found; o = o->backing) {
			if (o->backing && only_shadow_locked(o->backing) == o &&
			    refcount_inc_not_zero(&o->refs))
				found = o;
		}
		spin_unlock(&chain_lock);
		if (found && anon_collapse_frozen(found, false))
			return found;
		if (found)
			object_put(found);
	} while (found);
	return NULL;
}
