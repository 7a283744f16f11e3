/* SPDX-License-Identifier: MIT */
/*
 * Places: the extents that owners have lent, and the maps of objects.
 *
 * Invariants:	`by_id` has the extents that may be read. `by_name` has these, and those that were
 *		taken back by their number alone, known or not, so that an answer that comes later
 *		does not bring them back; of these PRUNE_AT at most: then the older half goes, and
 *		none with a number up to theirs is taken in any more (owner_floor.floor).
 * Limits:	2^32 extents in the life of this node; then no place is learned.
 */
#include "places.h"

#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/errno.h>
#include <mm/frame.h>
#include <mm/slab.h>
#include <processor/account/account.h>

#define LENT_MAX     16384u /* of one owner; no device has so many regions */
#define PRUNE_AT     64u
#define FAILURES_MAX 3u /* refused in a row: the extent is not there any more */
#define DRAIN_NS     NSEC_PER_SEC

#define CHUNK_SHIFT 6
#define CHUNK       (1u << CHUNK_SHIFT)
#define CHUNK_BYTES (CHUNK * sizeof(uint64_t))
#define MAP_BYTES   sizeof(struct place_map) /* always charged: that keeps the account */
#define MAPS_PART   32u /* of all memory: for maps at most, and left free for other uses */

static bool onesided = true;
BOOT_PARAM("excache.onesided", bool, onesided,
	   "read a page whose place at its owner is known without a request (default on)");

struct lent {
	uint32_t node, number, rkey; /* const */
	uint32_t id;                 /* const */
	uint32_t refs;               /* places.lock: the table's, one for each read, others */
	uint32_t readers;            /* places.lock: reads under way */
	uint32_t failures;           /* places.lock: refused in a row */
	bool dead;                   /* places.lock: not in by_id any more */
};

/* All that is known of one owner. They live for ever. */
struct owner_floor {
	uint32_t floor; /* places.lock: what is not known up to it is not taken in */
	uint32_t nr, nr_dead;
};

static struct {
	struct spinlock lock; /* RANK_EXCACHE_FREE */
	struct radix_tree by_id __guarded_by(&lock);
	struct radix_tree by_name __guarded_by(&lock); /* node << 32 | number */
	struct radix_tree owners __guarded_by(&lock);  /* node: struct owner_floor */
	uint32_t last_id __guarded_by(&lock);
	struct waitqueue read_ended;
} places = {
	.lock = SPINLOCK_INIT("excache.places", RANK_EXCACHE_FREE),
	.by_id = RADIX_TREE_INIT,
	.by_name = RADIX_TREE_INIT,
	.owners = RADIX_TREE_INIT,
	.read_ended = WAITQUEUE_INIT(places.read_ended),
};

static uint64_t name_of(uint32_t node, uint32_t number)
{
	return (uint64_t)node << 32 | number;
}

/* --- extents --------------------------------------------------------------------------- */

static struct owner_floor *owner_locked(uint32_t node) __must_hold(&places.lock)
{
	struct owner_floor *o = radix_lookup(&places.owners, node);

	assert_spin_held(&places.lock);
	if (o)
		return o;
	o = kzalloc(sizeof(*o));
	if (o && radix_insert(&places.owners, node, o)) {
		kfree(o);
		o = NULL;
	}
	return o;
}

static void lent_put_locked(struct lent *l) __must_hold(&places.lock)
{
	assert_spin_held(&places.lock);
	if (--l->refs == 0)
		kfree(l);
}

/* No word leads to it any more. */
static void lent_kill_locked(struct owner_floor *o, struct lent *l) __must_hold(&places.lock)
{
	assert_spin_held(&places.lock);
	if (l->dead)
		return;
	l->dead = true;
	o->nr_dead++;
	(void)radix_remove(&places.by_id, l->id);
}

/* Nor does its name. */
static void lent_forget_locked(struct owner_floor *o, struct lent *l) __must_hold(&places.lock)
{
	assert_spin_held(&places.lock);
	lent_kill_locked(o, l);
	(void)radix_remove(&places.by_name, name_of(l->node, l->number));
	o->nr--;
	o->nr_dead--;
	lent_put_locked(l);
}

/* Forget those of @node up to @number, of which all or the dead ones alone. */
static void forget_below_locked(struct owner_floor *o, uint32_t node, uint32_t number, bool all)
	__must_hold(&places.lock)
{
	uint64_t name = name_of(node, 0);
	struct lent *l;

	assert_spin_held(&places.lock);
	while ((l = radix_next(&places.by_name, &name)) && name <= name_of(node, number)) {
		if (all || l->dead)
			lent_forget_locked(o, l);
		name++;
	}
	o->floor = MAX(o->floor, number);
}

/* Too many dead ones: what has no entry up to the last of the older half is not believed. */
static void prune_locked(struct owner_floor *o, uint32_t node) __must_hold(&places.lock)
{
	uint64_t name = name_of(node, 0);
	uint32_t last = 0, nr = 0;
	struct lent *l;

	assert_spin_held(&places.lock);
	if (o->nr_dead < PRUNE_AT)
		return;
	while (nr < PRUNE_AT / 2 && (l = radix_next(&places.by_name, &name)) &&
	       name <= name_of(node, UINT32_MAX)) {
		if (l->dead) {
			last = l->number;
			nr++;
		}
		name++;
	}
	forget_below_locked(o, node, last, false);
}

/* An answer that tells of extent @number of @node, which none has yet, is not to be believed. */
static void note_dead_locked(struct owner_floor *o, uint32_t node, uint32_t number)
	__must_hold(&places.lock)
{
	struct lent *l;

	assert_spin_held(&places.lock);
	if (number <= o->floor)
		return;
	l = kzalloc(sizeof(*l));
	if (l)
		*l = (struct lent){ .node = node, .number = number, .refs = 1, .dead = true };
	if (!l || radix_insert(&places.by_name, name_of(node, number), l)) {
		kfree(l);
		o->floor = number; /* without memory for it lower ones are not believed either */
		return;
	}
	o->nr++;
	o->nr_dead++;
}

static struct lent *lent_make_locked(struct owner_floor *o, uint32_t node,
				     const struct owner_place *place) __must_hold(&places.lock)
{
	struct lent *l;

	assert_spin_held(&places.lock);
	if (place->extent <= o->floor || o->nr >= LENT_MAX || places.last_id == UINT32_MAX)
		return NULL;
	l = kzalloc(sizeof(*l));
	if (!l)
		return NULL;
	*l = (struct lent){ .node = node,
			    .number = place->extent,
			    .rkey = place->rkey,
			    .id = places.last_id + 1,
			    .refs = 1 };
	if (radix_insert(&places.by_name, name_of(node, l->number), l)) {
		kfree(l);
		return NULL;
	}
	if (radix_insert(&places.by_id, l->id, l)) {
		(void)radix_remove(&places.by_name, name_of(node, l->number));
		kfree(l);
		return NULL;
	}
	places.last_id++;
	o->nr++;
	return l;
}

uint64_t place_learn(uint32_t node, const struct owner_place *place)
{
	uint64_t word = PLACE_NONE;
	struct owner_floor *o;
	struct lent *l;

	if (!place->extent || !onesided)
		return PLACE_NONE;
	spin_lock(&places.lock);
	o = owner_locked(node);
	l = o ? radix_lookup(&places.by_name, name_of(node, place->extent)) : NULL;
	if (o && !l)
		l = lent_make_locked(o, node, place);
	if (l && !l->dead && l->rkey == place->rkey)
		word = (uint64_t)l->id << 32 | place->frame;
	spin_unlock(&places.lock);
	return word;
}

bool place_begin(uint64_t place, struct read_place *out)
{
	struct lent *l;

	if (!place)
		return false;
	spin_lock(&places.lock);
	l = radix_lookup(&places.by_id, place >> 32);
	if (l) {
		l->refs++;
		l->readers++;
	}
	spin_unlock(&places.lock);
	if (!l)
		return false;
	*out = (struct read_place){ .lent = l,
				    .node = l->node,
				    .rkey = l->rkey,
				    .addr = (place & UINT32_MAX) << PAGE_SHIFT };
	return true;
}

void place_end(struct lent *l, int err)
{
	struct owner_floor *o;
	bool wake;

	spin_lock(&places.lock);
	if (!err)
		l->failures = 0;
	o = owner_locked(l->node);
	if (err == -EACCES && ++l->failures >= FAILURES_MAX && o)
		lent_kill_locked(o, l);
	ASSERT(l->readers);
	l->readers--;
	wake = l->dead;
	lent_put_locked(l);
	spin_unlock(&places.lock);
	if (wake)
		wake_all(&places.read_ended);
}

/*
 * The next of @node's extents from *@name to @number that is or may be read, dead now, with a
 * reference, and *@name behind it. NULL: there is none.
 */
static struct lent *kill_next(uint32_t node, uint64_t *name, uint32_t number)
{
	struct lent *l = NULL, *at;
	struct owner_floor *o;

	spin_lock(&places.lock);
	o = owner_locked(node);
	while (o && !l && (at = radix_next(&places.by_name, name)) &&
	       *name <= name_of(node, number)) {
		if (!at->dead || at->readers)
			l = at;
		++*name;
	}
	if (l) {
		lent_kill_locked(o, l);
		l->refs++;
	}
	spin_unlock(&places.lock);
	return l;
}

/* Is @l, which the caller has a reference of, read by nobody any more? */
static bool is_drained(struct lent *l)
{
	bool drained;

	spin_lock(&places.lock);
	drained = !l->readers;
	spin_unlock(&places.lock);
	return drained;
}

void places_revoke(uint32_t node, uint32_t number, bool below)
{
	const uint64_t until = time_now_ns() + DRAIN_NS;
	uint64_t name = name_of(node, below ? 0 : number);
	struct owner_floor *o;
	struct lent *l;

	while ((l = kill_next(node, &name, number))) {
		(void)wait_event_timeout(&places.read_ended, is_drained(l), until);
		spin_lock(&places.lock);
		lent_put_locked(l);
		spin_unlock(&places.lock);
	}
	spin_lock(&places.lock);
	o = owner_locked(node);
	if (o && below)
		forget_below_locked(o, node, number, true);
	else if (o && !radix_lookup(&places.by_name, name_of(node, number)))
		note_dead_locked(o, node, number); /* an answer may be under way */
	if (o)
		prune_locked(o, node);
	spin_unlock(&places.lock);
}

void places_node_gone(uint32_t node)
{
	struct owner_floor *o;

	spin_lock(&places.lock);
	o = radix_lookup(&places.owners, node);
	if (o) {
		forget_below_locked(o, node, UINT32_MAX, true);
		o->floor = 0;
	}
	spin_unlock(&places.lock);
}

/* --- maps ------------------------------------------------------------------------------- */

static uint64_t nr_chunks; /* atomic */

static uint64_t map_bytes(void)
{
	return __atomic_load_n(&nr_chunks, __ATOMIC_RELAXED) * CHUNK_BYTES;
}
GAUGE(map_bytes_gauge, "excache.place_bytes", "bytes that tell where stored pages lie", map_bytes);

void place_map_init(struct place_map *m)
{
	radix_init(&m->chunks);
	m->account = NULL;
}

void place_map_charge_to(struct place_map *m, struct kmem_account *account)
{
	ASSERT(!m->account);
	if (!account)
		return;
	m->account = account;
	kmem_charge_anyway(account, MAP_BYTES + m->chunks.count * CHUNK_BYTES);
}

static void chunk_free(struct place_map *m, uint64_t *chunk)
{
	kfree(chunk);
	__atomic_sub_fetch(&nr_chunks, 1, __ATOMIC_RELAXED);
	kmem_uncharge(m->account, CHUNK_BYTES);
}

void place_map_destroy(struct place_map *m)
{
	uint64_t index;
	void *chunk;

	radix_for_each(chunk, &m->chunks, index)
		chunk_free(m, chunk);
	radix_destroy(&m->chunks);
	radix_init(&m->chunks);
	kmem_uncharge(m->account, MAP_BYTES);
	m->account = NULL;
}

uint64_t place_map_get(const struct place_map *m, uint64_t page)
{
	const uint64_t *chunk =
		m->chunks.count ? radix_lookup(&m->chunks, page >> CHUNK_SHIFT) : NULL;

	return chunk ? chunk[page % CHUNK] : PLACE_NONE;
}

/* Places are of use, but no program is to be refused something else for their sake. */
static bool may_have_chunk(const struct place_map *m)
{
	const uint64_t part = frames_total_count() / MAPS_PART;

	if (frames_free_count() <= part || map_bytes() >= part << PAGE_SHIFT)
		return false;
	return !m->account || kmem_charged(m->account) < kmem_program_limit() / 2;
}

static uint64_t *chunk_make(struct place_map *m, uint64_t index)
{
	uint64_t *chunk;

	if (!may_have_chunk(m) || kmem_charge(m->account, CHUNK_BYTES))
		return NULL;
	chunk = kzalloc(CHUNK_BYTES);
	if (!chunk || radix_insert(&m->chunks, index, chunk)) {
		kfree(chunk);
		kmem_uncharge(m->account, CHUNK_BYTES);
		return NULL;
	}
	__atomic_add_fetch(&nr_chunks, 1, __ATOMIC_RELAXED);
	return chunk;
}

void place_map_set(struct place_map *m, uint64_t page, uint64_t place)
{
	uint64_t *chunk = m->chunks.count ? radix_lookup(&m->chunks, page >> CHUNK_SHIFT) : NULL;

	if (!chunk && place)
		chunk = chunk_make(m, page >> CHUNK_SHIFT);
	if (chunk)
		chunk[page % CHUNK] = place;
}

void place_map_clear(struct place_map *m, uint64_t first, uint64_t end)
{
	uint64_t index = first >> CHUNK_SHIFT;
	uint64_t *chunk;

	while (first < end && (chunk = radix_next(&m->chunks, &index)) &&
	       index << CHUNK_SHIFT < end) {
		const uint64_t base = index << CHUNK_SHIFT;
		const uint64_t from = MAX(first, base), to = MIN(end, base + CHUNK);

		if (to - from == CHUNK) {
			(void)radix_remove(&m->chunks, index);
			chunk_free(m, chunk);
		} else {
			for (uint64_t page = from; page < to; page++)
				chunk[page % CHUNK] = PLACE_NONE;
		}
		index++;
	}
}
