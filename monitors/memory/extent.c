/* SPDX-License-Identifier: MIT */
/*
 * Extents: taking and giving frames, and changing the use of extents.
 *
 * Flow:	a frame comes from the first extent of its use that has one, so that the others can
 *		run empty. An extent for files is emptied for programs when few frames are left for
 *		these: the emptiest if half of it is free, else the one that holds the least
 *		recently used page, as pages that were read together lie together.
 * Limits:	the choice looks at each extent with pool.lock held: EXTENTS_MAX bounds it.
 */
#include "extent.h"

#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/alloc.h>
#include <lib/errno.h>

#include "pool.h"

#define EXTENTS_MIN      32u   /* in a pool that is large enough */
#define EXTENTS_MAX      2048u /* of full size; the device has 16,384 regions unless told */
#define EXTENT_PAGES_MIN 16u
#define STUCK_GAP_NS     NSEC_PER_SEC /* without an attempt for so long nothing is known */

uint64_t extent_pages_for(uint64_t want, uint64_t total)
{
	uint64_t pages = EXTENT_PAGES_MIN;

	while (2 * pages <= want)
		pages *= 2;
	while (pages > EXTENT_PAGES_MIN && total / pages < EXTENTS_MIN)
		pages /= 2;
	while (total / pages > EXTENTS_MAX)
		pages *= 2;
	return pages;
}

static uint64_t extents_of_run(const struct pool *pool, const struct pool_run *run)
{
	return DIV_ROUND_UP(run->nr_pages, 1ull << pool->extent_shift);
}

static void cut_run(struct pool *pool, struct pool_run *run, uint64_t first)
{
	const uint64_t size = 1ull << pool->extent_shift;

	lock_not_needed(&pool->lock, "no other thread knows the pool yet");
	run->first_extent = first;
	for (uint64_t p = 0; p < run->nr_pages; p++) {
		struct extent *e = &pool->extents[first + p / size];

		if (p % size == 0) {
			list_init(&e->zero);
			list_init(&e->dirty);
			e->first = &run->pages[p];
			e->paddr = run->paddr + p * PAGE_SIZE;
			list_add_tail(&e->link, &pool->extent_lists[EXTENT_FREE]);
		}
		list_add_tail(&run->pages[p].link, &e->dirty);
		e->nr_pages++;
		e->nr_free++;
	}
	pool->nr_dirty += run->nr_pages;
	pool->capacity += run->nr_pages;
	pool->free_frames += run->nr_pages;
}

int extents_init(struct pool *pool, uint64_t extent_pages)
{
	uint64_t n = 0;

	ASSERT(extent_pages && !(extent_pages & (extent_pages - 1)));
	pool->extent_shift = (uint32_t)__builtin_ctzll(extent_pages);
	for (size_t i = 0; i < EXTENT_USES; i++)
		list_init(&pool->extent_lists[i]);
	for (size_t i = 0; i < pool->nr_runs; i++)
		n += extents_of_run(pool, &pool->runs[i]);
	pool->extents = lib_zalloc(n * sizeof(*pool->extents));
	if (!pool->extents)
		return -ENOMEM;
	pool->nr_extents = n;
	n = 0;
	for (size_t i = 0; i < pool->nr_runs; i++) {
		cut_run(pool, &pool->runs[i], n);
		n += extents_of_run(pool, &pool->runs[i]);
	}
	return 0;
}

void extents_destroy(struct pool *pool)
{
	lib_free(pool->extents);
	pool->extents = NULL;
}

struct extent *extent_of(const struct pool *pool, const struct mpage *page)
{
	const struct pool_run *run = &pool->runs[page->run];

	return &pool->extents[run->first_extent +
			      ((uint64_t)(page - run->pages) >> pool->extent_shift)];
}

/* --- frames ------------------------------------------------------------------------------ */

static void use_set_locked(struct pool *pool, struct extent *e, enum extent_use use)
	__must_hold(&pool->lock)
{
	const uint32_t n = e->nr_pages;

	assert_spin_held(&pool->lock);
	ASSERT(e->use != use);
	if (e->nr_free && e->use != EXTENT_CHANGING)
		list_del(&e->link);
	switch (e->use) {
	case EXTENT_FILE:
		pool->file_frames -= n;
		pool->file_free -= e->nr_free;
		break;
	case EXTENT_FREE:
		pool->free_frames -= n;
		pool->capacity -= use == EXTENT_ANON ? 0 : n;
		break;
	case EXTENT_ANON:
		ASSERT(use == EXTENT_FREE);
		break;
	default:
		pool->capacity += use == EXTENT_FREE ? n : 0;
	}
	e->use = (uint8_t)use;
	if (use == EXTENT_FREE) {
		pool->free_frames += n;
	} else if (use == EXTENT_FILE) {
		pool->file_frames += n;
		pool->file_free += e->nr_free;
	}
	if (e->nr_free && use != EXTENT_CHANGING)
		list_add_tail(&e->link, &pool->extent_lists[use]);
}

struct mpage *extent_take_locked(struct pool *pool, bool file) __must_hold(&pool->lock)
{
	struct list_head *list = &pool->extent_lists[file ? EXTENT_FILE : EXTENT_ANON];
	struct mpage *page;
	struct extent *e;

	assert_spin_held(&pool->lock);
	if (list_empty(list) && !file && !list_empty(&pool->extent_lists[EXTENT_FREE]))
		use_set_locked(
			pool,
			list_first_entry(&pool->extent_lists[EXTENT_FREE], struct extent, link),
			EXTENT_ANON);
	if (list_empty(list))
		return NULL;
	e = list_first_entry(list, struct extent, link);
	if (!list_empty(&e->zero)) {
		page = list_first_entry(&e->zero, struct mpage, link);
		pool->nr_zero--;
	} else {
		page = list_first_entry(&e->dirty, struct mpage, link);
		pool->nr_dirty--;
	}
	list_del(&page->link);
	pool->file_free -= file;
	if (!--e->nr_free)
		list_del(&e->link);
	return page;
}

/* A frame of @e has been put on one of its lists. */
static void frame_listed_locked(struct pool *pool, struct extent *e) __must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	ASSERT(e->nr_free < e->nr_pages);
	pool->file_free += e->use == EXTENT_FILE;
	if (!e->nr_free++ && e->use != EXTENT_CHANGING)
		list_add_tail(&e->link, &pool->extent_lists[e->use]);
	if (e->nr_free == e->nr_pages && e->use == EXTENT_ANON)
		use_set_locked(pool, e, EXTENT_FREE);
}

void extent_give_locked(struct pool *pool, struct mpage *page) __must_hold(&pool->lock)
{
	struct extent *e = extent_of(pool, page);

	assert_spin_held(&pool->lock);
	ASSERT(e->use != EXTENT_FREE);
	list_add_tail(&page->link, &e->dirty);
	pool->nr_dirty++;
	frame_listed_locked(pool, e);
}

static struct mpage *first_dirty(const struct list_head *extents)
{
	const struct extent *e;

	list_for_each_entry(e, extents, link)
		if (!list_empty(&e->dirty))
			return list_first_entry(&e->dirty, struct mpage, link);
	return NULL;
}

static struct mpage *dirty_locked(const struct pool *pool) __must_hold(&pool->lock)
{
	struct mpage *page = NULL;

	assert_spin_held(&pool->lock);
	if (pool->used + pool->reserved + pool->zeroing < pool->capacity) {
		page = first_dirty(&pool->extent_lists[EXTENT_ANON]);
		if (!page)
			page = first_dirty(&pool->extent_lists[EXTENT_FREE]);
	}
	return page;
}

bool extent_can_zero_locked(const struct pool *pool) __must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	return dirty_locked(pool) != NULL;
}

struct mpage *extent_zero_begin_locked(struct pool *pool) __must_hold(&pool->lock)
{
	struct mpage *page = dirty_locked(pool);
	struct extent *e;

	assert_spin_held(&pool->lock);
	if (!page)
		return NULL;
	e = extent_of(pool, page);
	if (e->use == EXTENT_FREE)
		use_set_locked(pool, e, EXTENT_ANON);
	list_del(&page->link);
	pool->nr_dirty--;
	pool->zeroing++;
	if (!--e->nr_free)
		list_del(&e->link);
	return page;
}

void extent_zero_end_locked(struct pool *pool, struct mpage *page) __must_hold(&pool->lock)
{
	struct extent *e = extent_of(pool, page);

	assert_spin_held(&pool->lock);
	ASSERT(e->use == EXTENT_ANON);
	list_add_tail(&page->link, &e->zero);
	pool->nr_zero++;
	pool->zeroing--;
	frame_listed_locked(pool, e);
	list_move(&e->link, &pool->extent_lists[e->use]); /* zeroed ones are taken first */
}

/* --- changes of use ------------------------------------------------------------------------ */

static uint64_t anon_spare_locked(const struct pool *pool) __must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	return pool->capacity - pool->used - pool->reserved - pool->zeroing;
}

/* Is @need not met for programs, and could an extent of files be had for them? */
static bool wants_anon_locked(const struct pool *pool, const struct extent_need *need)
	__must_hold(&pool->lock)
{
	const uint64_t size = 1ull << pool->extent_shift;

	assert_spin_held(&pool->lock);
	return anon_spare_locked(pool) < need->anon && pool->file_frames >= pool->file_floor + size;
}

/* The same for files, if programs keep theirs and one extent more: no extent goes to and fro. */
static bool wants_file_locked(const struct pool *pool, const struct extent_need *need)
	__must_hold(&pool->lock)
{
	const uint64_t size = 1ull << pool->extent_shift;
	const uint64_t least = size + pool->slack; /* pool_alloc_instead() finds the slack there */
	const uint64_t keep = need->anon ? need->anon + 2 * size : least;
	bool wants;

	assert_spin_held(&pool->lock);
	wants = pool->file_free < need->file && anon_spare_locked(pool) >= keep;
	if (pool->file_frames < pool->file_floor)
		wants = anon_spare_locked(pool) >= least;
	return wants && pool->free_frames &&
	       (!pool->open_after_ns || time_now_ns() >= pool->open_after_ns);
}

bool extents_want_change_locked(const struct pool *pool) __must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	return wants_anon_locked(pool, &pool->ahead) || wants_file_locked(pool, &pool->ahead);
}

bool extents_want_change(struct pool *pool)
{
	bool wants;

	spin_lock(&pool->lock);
	wants = extents_want_change_locked(pool);
	spin_unlock(&pool->lock);
	return wants;
}

static bool can_empty_locked(const struct pool *pool, const struct extent *e)
	__must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	return e->use == EXTENT_FILE && !e->nr_reading && !e->stuck &&
	       pool->file_frames >= pool->file_floor + e->nr_pages;
}

/* Which extent of files goes to the programs. NULL: none can now. */
static struct extent *choose_file_locked(struct pool *pool, const struct mpage *oldest)
	__must_hold(&pool->lock)
{
	struct extent *best = NULL, *old = oldest ? extent_of(pool, oldest) : NULL;

	assert_spin_held(&pool->lock);
	for (uint64_t i = 0; i < pool->nr_extents; i++) {
		struct extent *e = &pool->extents[i];

		if (can_empty_locked(pool, e) && (!best || e->nr_free > best->nr_free))
			best = e;
	}
	if (best && 2 * best->nr_free >= best->nr_pages)
		return best;
	if (old && can_empty_locked(pool, old))
		return old;
	for (uint64_t i = 0; !best && i < pool->nr_extents; i++)
		pool->extents[i].stuck = false; /* try them again, when asked again */
	return best;
}

/* An attempt to empty an extent for programs was in vain. */
static void note_stuck_locked(struct pool *pool) __must_hold(&pool->lock)
{
	const uint64_t now = time_now_ns();

	assert_spin_held(&pool->lock);
	if (!pool->stuck_since_ns || now - pool->stuck_at_ns > STUCK_GAP_NS)
		pool->stuck_since_ns = now;
	pool->stuck_at_ns = now;
}

uint64_t extents_stuck_ns(struct pool *pool)
{
	uint64_t ns = 0;

	spin_lock(&pool->lock);
	if (pool->stuck_since_ns && time_now_ns() - pool->stuck_at_ns <= STUCK_GAP_NS)
		ns = pool->stuck_at_ns - pool->stuck_since_ns;
	spin_unlock(&pool->lock);
	return ns;
}

/* Give up the file pages of @e, which is CHANGING, then its region. */
static enum extent_result extent_empty(struct pool *pool, struct extent *e)
{
	bool empty;

	if (pool->ops)
		pool->ops->empty(pool->ops_arg, e->first, e->nr_pages);
	spin_lock(&pool->lock);
	empty = e->nr_free == e->nr_pages;
	if (!empty) {
		e->stuck = true;
		note_stuck_locked(pool);
		use_set_locked(pool, e, EXTENT_FILE);
	}
	spin_unlock(&pool->lock);
	if (!empty)
		return EXTENTS_STUCK;
	/* No page of it is there to be read or written any more, but a storage node may err. */
	if (pool->ops)
		pool->ops->close(pool->ops_arg, e);
	spin_lock(&pool->lock);
	pool->extents_closed++;
	pool->stuck_since_ns = 0;
	pool->open_after_ns = 0;
	use_set_locked(pool, e, EXTENT_FREE);
	spin_unlock(&pool->lock);
	wake_all(&pool->freed);
	return EXTENTS_CHANGED;
}

/* Make @e, which is CHANGING, a region of files. */
static enum extent_result extent_open(struct pool *pool, struct extent *e)
{
	const int err = pool->ops ? pool->ops->open(pool->ops_arg, e) : 0;

	spin_lock(&pool->lock);
	pool->extents_opened += !err;
	/* Without regions files have what they have, for a while. */
	pool->open_after_ns = err ? time_now_ns() + pool->open_retry_ns : 0;
	use_set_locked(pool, e, err ? EXTENT_FREE : EXTENT_FILE);
	spin_unlock(&pool->lock);
	wake_all(&pool->freed);
	return err ? EXTENTS_NOTHING : EXTENTS_CHANGED;
}

enum extent_result extents_change(struct pool *pool, const struct extent_need *need)
{
	const struct mpage *oldest = NULL;
	struct extent *to_free = NULL, *to_file = NULL;

	if (!need)
		need = &pool->ahead;
	if (need->anon && pool->ops)
		oldest = pool->ops->oldest(pool->ops_arg);
	spin_lock(&pool->lock);
	if (wants_anon_locked(pool, need)) {
		to_free = choose_file_locked(pool, oldest);
		if (!to_free)
			note_stuck_locked(pool);
	} else if (wants_file_locked(pool, need)) {
		to_file = list_last_entry(&pool->extent_lists[EXTENT_FREE], struct extent, link);
	}
	if (to_free || to_file)
		use_set_locked(pool, to_free ? to_free : to_file, EXTENT_CHANGING);
	spin_unlock(&pool->lock);
	if (to_free)
		return extent_empty(pool, to_free);
	if (to_file)
		return extent_open(pool, to_file);
	return EXTENTS_NOTHING;
}
