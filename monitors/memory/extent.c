/* SPDX-License-Identifier: MIT */
/*
 * Extents: taking and giving frames, and changing the use of extents.
 *
 * Flow:	a frame comes from the first extent of its use that has one, so that the others can
 *		run empty. An extent for files is emptied for programs when few frames are left for
 *		these: the emptiest if half of it is free, else the one that holds the least
 *		recently used page, as pages that were read together lie together.
 *		An extent that is lent and at least half free is taken back before files give way.
 * Limits:	the choice looks at each extent with pool.lock held: EXTENTS_MAX bounds it.
 */
#include "extent.h"

#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/alloc.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "pool.h"

#define EXTENTS_MIN      32u   /* in a pool that is large enough */
#define EXTENTS_MAX      2048u /* of full size; the device has 16,384 regions unless told */
#define EXTENT_PAGES_MIN 16u
#define STUCK_GAP_NS     NSEC_PER_SEC /* without an attempt for so long nothing is known */
#define HEAR_GAPS        8u /* pool.open_retry_ns; a processor that was silent may be so again */

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

/* Where @e is listed while it has free frames; NULL: it is not. */
static struct list_head *list_of_locked(struct pool *pool, const struct extent *e)
	__must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	if (e->use == EXTENT_CHANGING)
		return NULL;
	return e->use == EXTENT_LENT ? &pool_account_locked(pool, e->proc)->lent
				     : &pool->extent_lists[e->use];
}

/* @e, which is LENT, has @nr more free frames. */
static void lent_free_add_locked(struct pool *pool, const struct extent *e, int64_t nr)
	__must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	pool->lent_free += (uint64_t)nr;
	pool_account_locked(pool, e->proc)->lent_free += (uint64_t)nr;
}

static void use_left_locked(struct pool *pool, const struct extent *e, enum extent_use next)
	__must_hold(&pool->lock)
{
	const uint32_t n = e->nr_pages;

	assert_spin_held(&pool->lock);
	switch (e->use) {
	case EXTENT_FILE:
		pool->file_frames -= n;
		pool->file_free -= e->nr_free;
		break;
	case EXTENT_FREE:
		pool->free_frames -= n;
		pool->capacity -= next == EXTENT_ANON ? 0 : n;
		break;
	case EXTENT_ANON:
		ASSERT(next == EXTENT_FREE);
		break;
	case EXTENT_LENT:
		pool->lent_frames -= n;
		lent_free_add_locked(pool, e, -(int64_t)e->nr_free);
		break;
	default:
		/* The frames in use of one that was lent count already. */
		if (next == EXTENT_FREE || next == EXTENT_ANON)
			pool->capacity += e->nr_free;
	}
}

static void use_set_locked(struct pool *pool, struct extent *e, enum extent_use use)
	__must_hold(&pool->lock)
{
	struct list_head *list;

	assert_spin_held(&pool->lock);
	ASSERT(e->use != use);
	if (e->nr_free && list_of_locked(pool, e))
		list_del(&e->link);
	use_left_locked(pool, e, use);
	e->use = (uint8_t)use;
	if (use == EXTENT_FREE) {
		pool->free_frames += e->nr_pages;
	} else if (use == EXTENT_FILE) {
		pool->file_frames += e->nr_pages;
		pool->file_free += e->nr_free;
	} else if (use == EXTENT_LENT) {
		pool->lent_frames += e->nr_pages;
		lent_free_add_locked(pool, e, e->nr_free);
	}
	if (use == EXTENT_FREE || use == EXTENT_ANON)
		e->proc = 0;
	list = list_of_locked(pool, e);
	if (e->nr_free && list)
		list_add_tail(&e->link, list);
}

/* A frame of @e, which has one. */
static struct mpage *take_from_locked(struct pool *pool, struct extent *e) __must_hold(&pool->lock)
{
	struct mpage *page;

	assert_spin_held(&pool->lock);
	if (!list_empty(&e->zero)) {
		page = list_first_entry(&e->zero, struct mpage, link);
		pool->nr_zero--;
	} else {
		page = list_first_entry(&e->dirty, struct mpage, link);
		pool->nr_dirty--;
	}
	list_del(&page->link);
	if (!--e->nr_free)
		list_del(&e->link);
	return page;
}

struct mpage *extent_take_locked(struct pool *pool, bool file) __must_hold(&pool->lock)
{
	struct list_head *list = &pool->extent_lists[file ? EXTENT_FILE : EXTENT_ANON];

	assert_spin_held(&pool->lock);
	if (list_empty(list) && !file && !list_empty(&pool->extent_lists[EXTENT_FREE]))
		use_set_locked(
			pool,
			list_first_entry(&pool->extent_lists[EXTENT_FREE], struct extent, link),
			EXTENT_ANON);
	if (list_empty(list))
		return NULL;
	pool->file_free -= file;
	return take_from_locked(pool, list_first_entry(list, struct extent, link));
}

struct mpage *extent_take_lent_locked(struct pool *pool, struct pool_account *account)
	__must_hold(&pool->lock)
{
	struct extent *e;

	assert_spin_held(&pool->lock);
	if (list_empty(&account->lent))
		return NULL;
	e = list_first_entry(&account->lent, struct extent, link);
	lent_free_add_locked(pool, e, -1);
	pool->capacity++;
	return take_from_locked(pool, e);
}

/* A frame of @e has been put on one of its lists. */
static void frame_listed_locked(struct pool *pool, struct extent *e) __must_hold(&pool->lock)
{
	struct list_head *list;

	assert_spin_held(&pool->lock);
	ASSERT(e->nr_free < e->nr_pages);
	pool->file_free += e->use == EXTENT_FILE;
	pool->capacity -= e->proc != 0;
	if (e->use == EXTENT_LENT)
		lent_free_add_locked(pool, e, 1);
	list = list_of_locked(pool, e);
	if (!e->nr_free++ && list)
		list_add_tail(&e->link, list);
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

/* Is @need not met for programs, and could an extent of files, or one that is lent, be had? */
static bool wants_anon_locked(const struct pool *pool, const struct extent_need *need)
	__must_hold(&pool->lock)
{
	const uint64_t size = 1ull << pool->extent_shift;

	assert_spin_held(&pool->lock);
	return anon_spare_locked(pool) < need->anon &&
	       (pool->lent_free || pool->file_frames >= pool->file_floor + size);
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

/* Files get none, and would if what is lent and not used were taken back. */
static bool wants_back_locked(const struct pool *pool, const struct extent_need *need)
	__must_hold(&pool->lock)
{
	const uint64_t size = 1ull << pool->extent_shift;

	assert_spin_held(&pool->lock);
	if (pool->file_frames < pool->file_floor)
		return pool->lent_free > 0;
	return pool->file_free < need->file && pool->lent_free >= size &&
	       (!pool->open_after_ns || time_now_ns() >= pool->open_after_ns) &&
	       anon_spare_locked(pool) + pool->lent_free >= need->anon + 2 * size;
}

/*
 * Has a processor written a page back for which nothing was free where it may read it, and are
 * there plenty of frames?
 */
static bool wants_lent_locked(const struct pool *pool, const struct extent_need *need)
	__must_hold(&pool->lock)
{
	const uint64_t size = 1ull << pool->extent_shift;

	assert_spin_held(&pool->lock);
	return pool->wants_extent && pool->next_number && pool->free_frames &&
	       pool->file_free >= need->file &&
	       anon_spare_locked(pool) >= need->anon + 3 * size + pool->slack &&
	       (!pool->lend_after_ns || time_now_ns() >= pool->lend_after_ns);
}

bool extents_want_change_locked(const struct pool *pool) __must_hold(&pool->lock)
{
	const struct extent_need *need = &pool->ahead;

	assert_spin_held(&pool->lock);
	return pool->recall_all || pool->tell_all || wants_anon_locked(pool, need) ||
	       wants_file_locked(pool, need) || wants_back_locked(pool, need) ||
	       wants_lent_locked(pool, need);
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

/* --- what is lent ---------------------------------------------------------------------------- */

/* The LENT extent with the most free frames. NULL: none has one. */
static struct extent *choose_lent_locked(const struct pool *pool) __must_hold(&pool->lock)
{
	struct extent *best = NULL;

	assert_spin_held(&pool->lock);
	for (uint64_t i = 0; pool->lent_free && i < pool->nr_extents; i++) {
		struct extent *e = &pool->extents[i];

		if (e->use == EXTENT_LENT && e->nr_free && (!best || e->nr_free > best->nr_free))
			best = e;
	}
	return best;
}

/* The next LENT extent of @proc (0: of anybody) from number *@i of the pool's extents on. */
static struct extent *next_lent_locked(const struct pool *pool, uint32_t proc, uint64_t *i)
	__must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	for (; *i < pool->nr_extents; ++*i) {
		struct extent *e = &pool->extents[*i];

		if (e->use == EXTENT_LENT && (!proc || e->proc == proc))
			return e;
	}
	return NULL;
}

/* From here on no answer names a place in @e. Its number, with that of its processor. */
static uint32_t recall_begin_locked(struct pool *pool, struct extent *e, uint32_t *proc)
	__must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	*proc = e->proc;
	use_set_locked(pool, e, EXTENT_CHANGING);
	return (uint32_t)(__atomic_exchange_n(&e->place, 0, __ATOMIC_RELAXED) >> 32);
}

/* Its processor forgets what it knows, or is refused; then the frames may have any use. */
static void recall_end(struct pool *pool, struct extent *e)
{
	pool->ops->take_back(pool->ops_arg, e);
	spin_lock(&pool->lock);
	pool->extents_taken_back++;
	pool->stuck_since_ns = 0;
	use_set_locked(pool, e, e->nr_free == e->nr_pages ? EXTENT_FREE : EXTENT_ANON);
	spin_unlock(&pool->lock);
	wake_all(&pool->freed);
}

/*
 * @proc has not said that it has forgotten all that it was to forget: it gets no extent until it
 * does, and what it has is taken back without a word. The device refuses its reads there.
 */
static void note_unheard(struct pool *pool, uint32_t proc)
{
	spin_lock(&pool->lock);
	pool_account_locked(pool, proc)->unheard = true;
	spin_unlock(&pool->lock);
}

/* Have @proc forget, unless it is silent as it is: each question may last a second. */
static void tell(struct pool *pool, uint32_t proc, uint32_t number, bool below)
{
	bool silent;

	spin_lock(&pool->lock);
	silent = pool_account_locked(pool, proc)->unheard;
	spin_unlock(&pool->lock);
	if (!silent && pool->ops->revoke(pool->ops_arg, proc, number, below))
		note_unheard(pool, proc);
}

/* @e is CHANGING. */
static void recall_one(struct pool *pool, struct extent *e, uint32_t proc, uint32_t number)
{
	tell(pool, proc, number, false);
	recall_end(pool, e);
}

/* All that is lent to @proc. With @ask it forgets one with a number above @below first. */
static void take_back_all(struct pool *pool, uint32_t proc, bool ask, uint32_t below)
{
	uint32_t number = 0, whose;
	struct extent *e;

	for (uint64_t i = 0; i < pool->nr_extents; i++) {
		spin_lock(&pool->lock);
		e = next_lent_locked(pool, proc, &i);
		if (e)
			number = recall_begin_locked(pool, e, &whose);
		spin_unlock(&pool->lock);
		if (e && ask && number > below)
			recall_one(pool, e, proc, number);
		else if (e)
			recall_end(pool, e);
	}
}

void extents_recall(struct pool *pool, uint32_t proc, bool ask)
{
	uint32_t below = 0;
	uint64_t i = 0;

	if (!pool->ops || !pool->ops->lend)
		return;
	spin_lock(&pool->lock);
	if (ask && next_lent_locked(pool, proc, &i)) {
		below = pool->next_number - 1;
		pool_account_locked(pool, proc)->told = below;
	}
	spin_unlock(&pool->lock);
	if (below)
		tell(pool, proc, below, true);
	take_back_all(pool, proc, ask, below);
}

void extents_refuse(struct pool *pool, uint32_t proc)
{
	pool_refuse(pool, proc);
	if (pool->ops && pool->ops->lend)
		take_back_all(pool, proc, false, 0);
}

void extents_refuse_end(struct pool *pool)
{
	pool_refuse_end(pool);
	if (waitqueue_active(&pool->changer))
		wake_all(&pool->changer);
}

void extents_recall_all(struct pool *pool)
{
	spin_lock(&pool->lock);
	pool->recall_all = pool->lent_frames > 0;
	spin_unlock(&pool->lock);
	if (waitqueue_active(&pool->changer))
		wake_all(&pool->changer);
}

/* One more processor of all from which everything is to be taken back. */
static enum extent_result recall_next(struct pool *pool)
{
	struct extent *e;
	uint32_t proc = 0;
	uint64_t i = 0;

	spin_lock(&pool->lock);
	e = next_lent_locked(pool, 0, &i);
	if (e)
		proc = e->proc;
	else
		pool->recall_all = false;
	spin_unlock(&pool->lock);
	if (e)
		extents_recall(pool, proc, true);
	return EXTENTS_CHANGED;
}

/*
 * Have @proc, which was silent, forget all up to @number: a place that it has not forgotten must
 * not be read as another page. All that it has is taken back, as it has forgotten this as well.
 */
static int hear(struct pool *pool, uint32_t proc, uint32_t number)
{
	const int err = number ? pool->ops->revoke(pool->ops_arg, proc, number, true) : 0;
	struct pool_account *account;

	spin_lock(&pool->lock);
	account = pool_account_locked(pool, proc);
	account->unheard = err || account->refused;
	account->hear_after_ns = err ? time_now_ns() + HEAR_GAPS * pool->open_retry_ns : 0;
	spin_unlock(&pool->lock);
	if (!err)
		take_back_all(pool, proc, true, number);
	return err;
}

/* One more of those that may read no more and were not told yet. */
static enum extent_result tell_next(struct pool *pool)
{
	struct pool_account *account;
	uint32_t number, proc;

	spin_lock(&pool->lock);
	account = pool_next_to_tell_locked(pool, &proc);
	if (account)
		account->tell = false;
	else
		pool->tell_all = false;
	number = pool->next_number - 1;
	spin_unlock(&pool->lock);
	if (account)
		(void)hear(pool, proc, number);
	return EXTENTS_CHANGED;
}

/* Make all of @e, which is CHANGING and free, zeroes: what others left there is not to be read. */
static void extent_clear(struct pool *pool, const struct extent *e)
{
	struct mpage *page;

	list_for_each_entry(page, &e->dirty, link)
		memset(mpage_virt(pool, page), 0, PAGE_SIZE);
}

/*
 * May @proc still have the extent @number that has been made for it? Not if it was told meanwhile
 * to forget that, or was silent.
 */
static bool may_have_locked(struct pool *pool, uint32_t proc, uint32_t number)
	__must_hold(&pool->lock)
{
	const struct pool_account *account = pool_account_locked(pool, proc);

	assert_spin_held(&pool->lock);
	return !pool_is_fenced(pool, proc) && !account->unheard && !account->refused &&
	       account->told < number;
}

/* Lend @e, which is CHANGING, to @e->proc. */
static enum extent_result extent_lend(struct pool *pool, struct extent *e, uint32_t number,
				      bool unheard)
{
	uint32_t key = 0;
	int err = unheard ? hear(pool, e->proc, number - 1) : 0;

	if (!err) {
		extent_clear(pool, e);
		err = pool->ops->lend(pool->ops_arg, e, &key);
	}
	spin_lock(&pool->lock);
	if (!err && !may_have_locked(pool, e->proc, number)) {
		spin_unlock(&pool->lock);
		pool->ops->take_back(pool->ops_arg, e);
		spin_lock(&pool->lock);
		err = -ESTALE;
	}
	if (err) {
		pool->lend_after_ns = time_now_ns() + pool->open_retry_ns;
		use_set_locked(pool, e, EXTENT_FREE);
	} else {
		pool->extents_lent++;
		__atomic_store_n(&e->place, (uint64_t)number << 32 | key, __ATOMIC_RELEASE);
		use_set_locked(pool, e, EXTENT_LENT);
	}
	spin_unlock(&pool->lock);
	return err ? EXTENTS_NOTHING : EXTENTS_CHANGED;
}

/* One of no use goes to the processor that wants one. */
static struct extent *lend_begin_locked(struct pool *pool, uint32_t *number, bool *unheard)
	__must_hold(&pool->lock)
{
	const uint32_t proc = pool->wants_extent;
	const struct pool_account *account = pool_account_locked(pool, proc);
	struct extent *e = NULL;

	assert_spin_held(&pool->lock);
	pool->wants_extent = 0;
	if (!account || account->lent_free >= 3ull << pool->extent_shift >> 1 ||
	    pool_is_fenced(pool, proc) || account->refused ||
	    (account->unheard && account->hear_after_ns && time_now_ns() < account->hear_after_ns))
		return NULL;
	e = list_last_entry(&pool->extent_lists[EXTENT_FREE], struct extent, link);
	use_set_locked(pool, e, EXTENT_CHANGING);
	e->proc = proc;
	*number = pool->next_number++;
	*unheard = account->unheard;
	return e;
}

/* --- changes ------------------------------------------------------------------------------- */

/* The next step: the extent, which is CHANGING then. */
struct change {
	struct extent *to_free, *to_file, *back, *lent;
	uint32_t number, proc;
	bool unheard;
};

/*
 * An extent for programs. One that is lent and not used costs nobody anything; but where its
 * processor uses most of it, few frames are won and many places lost: files give way before.
 */
static void choose_anon_locked(struct pool *pool, const struct mpage *oldest, struct change *c)
	__must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	c->back = choose_lent_locked(pool);
	if (!c->back || 2 * c->back->nr_free < c->back->nr_pages)
		c->to_free = choose_file_locked(pool, oldest);
	if (c->to_free)
		c->back = NULL;
	if (!c->back && !c->to_free)
		note_stuck_locked(pool);
}

static void change_begin_locked(struct pool *pool, const struct extent_need *need,
				const struct mpage *oldest, struct change *c)
	__must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	if (wants_anon_locked(pool, need))
		choose_anon_locked(pool, oldest, c);
	else if (wants_file_locked(pool, need))
		c->to_file = list_last_entry(&pool->extent_lists[EXTENT_FREE], struct extent, link);
	else if (wants_back_locked(pool, need))
		c->back = choose_lent_locked(pool);
	else if (wants_lent_locked(pool, need))
		c->lent = lend_begin_locked(pool, &c->number, &c->unheard);
	if (c->to_free || c->to_file)
		use_set_locked(pool, c->to_free ? c->to_free : c->to_file, EXTENT_CHANGING);
	if (c->back) {
		c->number = recall_begin_locked(pool, c->back, &c->proc);
		/* Not to and fro. */
		pool->lend_after_ns = time_now_ns() + pool->open_retry_ns;
	}
}

enum extent_result extents_change(struct pool *pool, const struct extent_need *need)
{
	const struct mpage *oldest = NULL;
	struct change c = { 0 };
	bool recall_all, tell_all;

	if (!need)
		need = &pool->ahead;
	if (need->anon && pool->ops)
		oldest = pool->ops->oldest(pool->ops_arg);
	spin_lock(&pool->lock);
	recall_all = pool->recall_all;
	tell_all = pool->tell_all;
	if (!recall_all && !tell_all)
		change_begin_locked(pool, need, oldest, &c);
	spin_unlock(&pool->lock);
	if (recall_all)
		return recall_next(pool);
	if (tell_all)
		return tell_next(pool);
	if (c.to_free)
		return extent_empty(pool, c.to_free);
	if (c.to_file)
		return extent_open(pool, c.to_file);
	if (c.back) {
		recall_one(pool, c.back, c.proc, c.number);
		return EXTENTS_CHANGED;
	}
	return c.lent ? extent_lend(pool, c.lent, c.number, c.unheard) : EXTENTS_NOTHING;
}
