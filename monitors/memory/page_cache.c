/* SPDX-License-Identifier: MIT */
/*
 * Page cache: lookup, reading, read-ahead, reclaim.
 *
 * Flow:	a page enters the cache as READING. It becomes VALID and joins the LRU list, or it
 *		becomes FAILED and leaves the cache. The read-ahead window doubles from 16 to 64
 *		pages while a file is read in order; half a window is read as soon as less than
 *		that lies ahead of the reader.
 * Invariants:	the cache holds one reference to each page in it, each read one to each of its
 *		pages, and each user one.
 */
#include "page_cache.h"

#include <kernel/time.h>
#include <lib/alloc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "page_cache_private.h"

#define RA_MIN        16u /* pages; also what a miss out of order reads */
#define RA_MAX        64u
#define RECLAIM_SCAN  64 /* pages in use that are passed over before giving up */
#define FRAME_WAIT_NS (1000ull * 1000 * 1000)

int page_cache_init(struct memory *m)
{
	struct page_cache *pc = &m->page_cache;

	memset(pc, 0, sizeof(*pc));
	spin_lock_init(&pc->lock, "page_cache", RANK_SPIN_CACHE);
	list_init(&pc->lru);
	waitqueue_init(&pc->done);
	file_live_init(m);
	pc->nr_buckets = 64;
	while (pc->nr_buckets < m->pool.total)
		pc->nr_buckets *= 2;
	pc->buckets = lib_zalloc(pc->nr_buckets * sizeof(*pc->buckets));
	return pc->buckets ? 0 : -ENOMEM;
}

void page_cache_destroy(struct memory *m)
{
	lock_not_needed(&m->page_cache.lock, "the last user");
	if (!m->page_cache.buckets)
		return;
	file_live_drop_all(m);
	(void)page_cache_drop_all(m);
	lib_free(m->page_cache.buckets);
	m->page_cache.buckets = NULL;
}

/* --- files ----------------------------------------------------------------------------- */

static int cached_file_cmp(const struct proto_file *a, const struct proto_file *b)
{
	if (a->ino != b->ino)
		return a->ino < b->ino ? -1 : 1;
	if (a->gen != b->gen)
		return a->gen < b->gen ? -1 : 1;
	if (a->node != b->node)
		return a->node < b->node ? -1 : 1;
	return 0;
}

/* Find @file, or put @fresh (may be NULL) there; with a reference for the caller. */
static struct cached_file *cached_file_get_locked(struct page_cache *pc,
						  const struct proto_file *file,
						  struct cached_file *fresh) __must_hold(&pc->lock)
{
	struct rb_node **link = &pc->files.node;
	struct rb_node *parent = NULL;

	assert_spin_held(&pc->lock);
	while (*link) {
		struct cached_file *cf = rb_entry(*link, struct cached_file, node);
		const int cmp = cached_file_cmp(file, &cf->file);

		if (!cmp) {
			cf->refs++;
			return cf;
		}
		parent = *link;
		link = cmp < 0 ? &parent->left : &parent->right;
	}
	if (!fresh)
		return NULL;
	fresh->file = *file;
	fresh->refs = 1;
	rb_link_node(&fresh->node, parent, link);
	rb_insert_color(&fresh->node, &pc->files);
	pc->nr_files++;
	return fresh;
}

/* Drop a reference; true when the caller is to free @cf once it has unlocked. */
static bool cached_file_put_locked(struct page_cache *pc, struct cached_file *cf)
	__must_hold(&pc->lock)
{
	assert_spin_held(&pc->lock);
	if (--cf->refs)
		return false;
	rb_erase(&cf->node, &pc->files);
	pc->nr_files--;
	return true;
}

static void cached_file_free(struct cached_file *cf)
{
	if (cf)
		lib_free(cf->live);
	lib_free(cf);
}

void cached_file_put(struct memory *m, struct cached_file *cf)
{
	bool last;

	spin_lock(&m->page_cache.lock);
	last = cached_file_put_locked(&m->page_cache, cf);
	spin_unlock(&m->page_cache.lock);
	if (last)
		cached_file_free(cf);
}

struct cached_file *cached_file_get(struct memory *m, const struct proto_file *file, bool may_sleep)
{
	struct cached_file *cf, *fresh;

	spin_lock(&m->page_cache.lock);
	cf = cached_file_get_locked(&m->page_cache, file, NULL);
	spin_unlock(&m->page_cache.lock);
	if (cf || !may_sleep)
		return cf;
	fresh = lib_zalloc(sizeof(*fresh));
	if (!fresh)
		return NULL;
	spin_lock(&m->page_cache.lock);
	cf = cached_file_get_locked(&m->page_cache, file, fresh);
	spin_unlock(&m->page_cache.lock);
	if (cf != fresh)
		lib_free(fresh);
	return cf;
}

/* The first file behind @after. */
static struct cached_file *next_file_locked(struct page_cache *pc, const struct proto_file *after)
	__must_hold(&pc->lock)
{
	struct cached_file *next = NULL;
	struct rb_node *node = pc->files.node;

	assert_spin_held(&pc->lock);
	while (node) {
		struct cached_file *cf = rb_entry(node, struct cached_file, node);
		const bool behind = !after || cached_file_cmp(after, &cf->file) < 0;

		if (behind)
			next = cf;
		node = behind ? node->left : node->right;
	}
	return next;
}

struct cached_file *cached_file_next_dirty(struct memory *m, const struct proto_file *after)
{
	struct page_cache *pc = &m->page_cache;
	struct cached_file *cf;

	spin_lock(&pc->lock);
	cf = next_file_locked(pc, after);
	while (cf && !(cf->live && cf->live->listed))
		cf = rb_entry_or_null(rb_next(&cf->node), struct cached_file, node);
	if (cf)
		cf->refs++;
	spin_unlock(&pc->lock);
	return cf;
}

struct cached_file *cached_file_next_claimed(struct memory *m, const struct proto_file *after,
					     uint32_t node)
{
	struct page_cache *pc = &m->page_cache;
	struct cached_file *cf;

	spin_lock(&pc->lock);
	cf = next_file_locked(pc, after);
	while (cf && !(cf->file.node == node && is_claimed(cf)))
		cf = rb_entry_or_null(rb_next(&cf->node), struct cached_file, node);
	if (cf)
		cf->refs++;
	spin_unlock(&pc->lock);
	return cf;
}

/* Is @pgoff known to lie behind the end? */
static bool behind_end(const struct cached_file *cf, uint64_t pgoff)
{
	return cf->known && pgoff >= cached_file_pages(cf);
}

/* --- pages ----------------------------------------------------------------------------- */

static struct hlist_head *cache_bucket(struct page_cache *pc, const struct cached_file *cf,
				       uint64_t pgoff) __must_hold(&pc->lock)
{
	return &pc->buckets[hash64_pair((uintptr_t)cf, pgoff) & (pc->nr_buckets - 1)];
}

struct mpage *cache_find_locked(struct page_cache *pc, struct cached_file *cf, uint64_t pgoff)
{
	struct mpage *page;

	assert_spin_held(&pc->lock);
	hlist_for_each_entry(page, cache_bucket(pc, cf, pgoff), hash)
		if (page->key == (uintptr_t)cf && page->index == pgoff)
			return page;
	return NULL;
}

void cache_insert_locked(struct page_cache *pc, struct cached_file *cf, struct mpage *page,
			 uint64_t pgoff)
{
	assert_spin_held(&pc->lock);
	page->key = (uintptr_t)cf;
	page->index = pgoff;
	page->state = CACHE_PAGE_READING;
	list_init(&page->link);
	hlist_add_head(&page->hash, cache_bucket(pc, cf, pgoff));
	cf->refs++;
}

void cache_remove_locked(struct page_cache *pc, struct cached_file *cf, struct mpage *page)
{
	assert_spin_held(&pc->lock);
	hlist_del(&page->hash);
	list_del(&page->link);
	cf->refs--;
}

/* The least recently used page that no user holds. */
static struct mpage *oldest_locked(struct page_cache *pc) __must_hold(&pc->lock)
{
	struct mpage *page, *next;
	int scanned = 0;

	assert_spin_held(&pc->lock);
	list_for_each_entry_safe(page, next, &pc->lru, link) {
		if (__atomic_load_n(&page->refs, __ATOMIC_ACQUIRE) == 1)
			return page;
		if (++scanned == RECLAIM_SCAN)
			break;
		list_move_tail(&page->link, &pc->lru);
	}
	return NULL;
}

struct mpage *page_cache_oldest(struct memory *m)
{
	struct mpage *page;

	spin_lock(&m->page_cache.lock);
	page = oldest_locked(&m->page_cache);
	spin_unlock(&m->page_cache.lock);
	return page;
}

/* Take @victim out; the file, if the caller is to free it once it has unlocked, else NULL. */
static struct cached_file *evict_locked(struct page_cache *pc, struct mpage *victim)
	__must_hold(&pc->lock)
{
	struct cached_file *cf = (struct cached_file *)(uintptr_t)victim->key;

	assert_spin_held(&pc->lock);
	cf->refs++;
	cache_remove_locked(pc, cf, victim);
	return cached_file_put_locked(pc, cf) ? cf : NULL;
}

static void evict_finish(struct memory *m, struct mpage *victim, struct cached_file *cf)
{
	STAT_INC(m, file_evicted);
	mpage_put(&m->pool, victim);
	cached_file_free(cf);
}

bool page_cache_reclaim(struct memory *m)
{
	struct page_cache *pc = &m->page_cache;
	struct cached_file *cf = NULL;
	struct mpage *victim;

	spin_lock(&pc->lock);
	victim = oldest_locked(pc);
	if (victim)
		cf = evict_locked(pc, victim);
	spin_unlock(&pc->lock);
	if (!victim)
		return false;
	evict_finish(m, victim, cf);
	return true;
}

void page_cache_empty(struct memory *m, struct mpage *first, uint64_t nr)
{
	struct page_cache *pc = &m->page_cache;

	for (struct mpage *page = first; page < first + nr; page++) {
		struct cached_file *cf = NULL;
		bool victim;

		spin_lock(&pc->lock);
		/* Frames of files only: what has been put into a bucket is in the cache. */
		victim = page->hash.link && page->state == CACHE_PAGE_VALID &&
			 __atomic_load_n(&page->refs, __ATOMIC_ACQUIRE) == 1;
		if (victim)
			cf = evict_locked(pc, page);
		spin_unlock(&pc->lock);
		if (victim)
			evict_finish(m, page, cf);
	}
}

uint64_t page_cache_drop_all(struct memory *m)
{
	uint64_t n = 0;

	while (page_cache_reclaim(m))
		n++;
	return n;
}

/* --- reading --------------------------------------------------------------------------- */

/* Does the reply agree with itself?  How many pages there must be follows from the size. */
static bool reply_is_valid(const struct page_cache_read *rd, const struct ms_read_rep *rep)
{
	const uint64_t pages = DIV_ROUND_UP(rep->file_size, PAGE_SIZE);
	const uint64_t left = pages > rd->pgoff ? pages - rd->pgoff : 0;
	const uint64_t valid = MIN(left, (uint64_t)rd->nr);
	uint64_t last;

	if (rep->nr_valid != valid)
		return false;
	if (!valid)
		return true;
	last = rep->file_size - (rd->pgoff + valid - 1) * PAGE_SIZE;
	return rep->last_bytes == MIN(last, (uint64_t)PAGE_SIZE);
}

/*
 * Storage has told the file's version: note it; pages of another one are void. A claimed file
 * changes by this node alone, which knows more of it than storage.
 */
static void note_version_locked(struct page_cache *pc, struct cached_file *cf,
				const struct ms_read_rep *rep) __must_hold(&pc->lock)
{
	assert_spin_held(&pc->lock);
	if (is_claimed(cf))
		return;
	if (!cf->known || cf->version != rep->version || cf->size != rep->file_size)
		cf->gen++;
	cf->known = true;
	cf->version = rep->version;
	cf->size = rep->file_size;
}

/* Pages behind the end that storage knows, of a file that has grown here: they are zero. */
static void read_fill_grown(struct page_cache_read *rd, struct ms_read_rep *rep)
{
	struct page_cache *pc = &rd->m->page_cache;
	uint64_t end = 0;

	spin_lock(&pc->lock);
	if (is_claimed(rd->cf))
		end = cached_file_pages(rd->cf);
	spin_unlock(&pc->lock);
	while (rep->nr_valid < rd->nr && rd->pgoff + rep->nr_valid < end)
		memset(mpage_virt(&rd->m->pool, rd->pages[rep->nr_valid++]), 0, PAGE_SIZE);
}

void page_cache_read_done(struct page_cache_read *rd, int status, uint32_t reply_len)
{
	struct memory *m = rd->m;
	struct page_cache *pc = &m->page_cache;
	struct mpage *dropped[MS_READ_MAX_PAGES];
	struct ms_read_rep rep = { 0 };
	uint32_t nr_dropped = 0;

	if (!status)
		status = ms_read_rep_decode(&rd->reply, reply_len, &rep);
	if (!status && !reply_is_valid(rd, &rep))
		status = -EIO;

	if (!status)
		read_fill_grown(rd, &rep);
	spin_lock(&pc->lock);
	if (!status)
		note_version_locked(pc, rd->cf, &rep);
	for (uint32_t i = 0; i < rd->nr; i++) {
		struct mpage *page = rd->pages[i];

		ASSERT(page->state == CACHE_PAGE_READING);
		if (!status && i < rep.nr_valid) {
			page->seq = is_claimed(rd->cf) ? rd->gen : rd->cf->gen;
			list_add_tail(&page->link, &pc->lru);
			__atomic_store_n(&page->state, CACHE_PAGE_VALID, __ATOMIC_RELEASE);
			continue;
		}
		cache_remove_locked(pc, rd->cf, page);
		page->seq = (uint64_t)-status;
		__atomic_store_n(&page->state, CACHE_PAGE_FAILED, __ATOMIC_RELEASE);
		dropped[nr_dropped++] = page;
	}
	spin_unlock(&pc->lock);
	STAT_ADD(m, file_read_pages, rd->nr - nr_dropped);
	for (uint32_t i = 0; i < rd->nr - nr_dropped; i++)
		pool_file_read(&m->pool, rd->pages[i]);
	for (uint32_t i = 0; i < nr_dropped; i++)
		mpage_put(&m->pool, dropped[i]);
	wake_all(&pc->done);
}

void page_cache_read_release(struct page_cache_read *rd)
{
	for (uint32_t i = 0; i < rd->nr; i++)
		mpage_put(&rd->m->pool, rd->pages[i]);
	cached_file_put(rd->m, rd->cf);
	lib_free(rd);
}

struct mpage *cache_frame(struct memory *m)
{
	struct mpage *page = pool_alloc_file(&m->pool, true);

	if (!page)
		(void)wait_event_timeout(&m->pool.freed,
					 (page = pool_alloc_file(&m->pool, true)) != NULL,
					 time_now_ns() + FRAME_WAIT_NS);
	return page;
}

/* Frames for up to @nr pages; waits for the first one if it may. */
static uint32_t read_frames(struct memory *m, struct page_cache_read *rd, uint32_t nr,
			    bool may_sleep)
{
	uint32_t n = 0;

	for (; n < nr; n++) {
		rd->pages[n] = !n && may_sleep ? cache_frame(m) : pool_alloc_file(&m->pool, true);
		if (!rd->pages[n])
			break;
	}
	return n;
}

/* Put frames into the cache for the run of missing pages from @pgoff; frees the others. */
static void read_insert(struct memory *m, struct page_cache_read *rd, uint64_t pgoff, uint32_t nr)
{
	struct page_cache *pc = &m->page_cache;

	rd->pgoff = pgoff;
	rd->nr = 0;
	spin_lock(&pc->lock);
	rd->gen = rd->cf->gen;
	while (rd->nr < nr && !behind_end(rd->cf, pgoff + rd->nr) &&
	       !cache_find_locked(pc, rd->cf, pgoff + rd->nr)) {
		mpage_get(rd->pages[rd->nr]); /* the read's; the first is the cache's */
		cache_insert_locked(pc, rd->cf, rd->pages[rd->nr], pgoff + rd->nr);
		rd->nr++;
	}
	rd->cf->refs++;
	spin_unlock(&pc->lock);
	for (uint32_t i = rd->nr; i < nr; i++)
		mpage_put(&m->pool, rd->pages[i]);
}

static int read_encode(struct memory *m, struct page_cache_read *rd)
{
	struct ms_read_req req = {
		.file = rd->cf->file,
		.pgoff = rd->pgoff,
		.nr_pages = rd->nr,
	};
	ssize_t len;

	for (uint32_t i = 0; i < rd->nr; i++) {
		req.pages[i].addr = mpage_paddr(&m->pool, rd->pages[i]);
		req.pages[i].rkey = m->net->rkey(m, req.file.node, rd->pages[i]);
		req.pages[i].len = PAGE_SIZE;
	}
	len = ms_read_req_encode(&req, rd->body, sizeof(rd->body));
	if (len < 0)
		return (int)len;
	rd->body_len = (uint32_t)len;
	return 0;
}

/*
 * Start to read up to @nr pages from @pgoff, as far as they are missing. 0 also when the first of
 * them is not: the thread that put it there reads it. *@first (may be NULL): the first page, held,
 * if we read it; the read may have ended by then, and failed. -EINTR: nobody waits for it.
 */
static int read_start(struct memory *m, struct cached_file *cf, uint64_t pgoff, uint32_t nr,
		      bool prefetch, bool may_sleep, struct mpage **first)
{
	struct page_cache_read *rd = lib_zalloc(sizeof(*rd));
	int err;

	if (!rd)
		return -ENOMEM;
	rd->m = m;
	rd->cf = cf;
	nr = read_frames(m, rd, MIN(nr, (uint32_t)MS_READ_MAX_PAGES), may_sleep);
	if (!nr) {
		lib_free(rd);
		return -ENOMEM;
	}
	read_insert(m, rd, pgoff, nr);
	if (!rd->nr) {
		page_cache_read_release(rd);
		return 0;
	}
	if (first) {
		*first = rd->pages[0];
		mpage_get(*first);
	}
	STAT_INC(m, file_reads);
	err = read_encode(m, rd);
	if (!err)
		err = m->net->read(m, rd, prefetch, may_sleep);
	if (err) {
		page_cache_read_done(rd, err, 0);
		page_cache_read_release(rd);
	}
	if (err == -EINTR && first) {
		mpage_put(&m->pool, *first);
		return err;
	}
	return first ? 0 : err;
}

/* --- lookup ---------------------------------------------------------------------------- */

/*
 * A processor that knows another version of the file does not get our pages: they are read again.
 * Once for each version: if storage does not know it either, the processor's version is old, and
 * it gets ours.
 */
static void check_version(struct memory *m, struct cached_file *cf, uint64_t version)
{
	spin_lock(&m->page_cache.lock);
	if (version && cf->known && !is_claimed(cf) && cf->version != version &&
	    cf->asked != version) {
		cf->asked = version;
		cf->known = false;
		cf->gen++;
	}
	spin_unlock(&m->page_cache.lock);
}

enum cache_look {
	LOOK_HIT,     /* held and valid */
	LOOK_WAIT,    /* held, being read */
	LOOK_MISSING, /* not there */
	LOOK_END,     /* behind the end of the file */
};

static enum cache_look cache_look_locked(struct memory *m, struct cached_file *cf, uint64_t pgoff,
					 struct mpage **out, struct mpage **stale)
	__must_hold(&m->page_cache.lock)
{
	struct page_cache *pc = &m->page_cache;
	struct mpage *page;

	assert_spin_held(&pc->lock);
	if (behind_end(cf, pgoff))
		return LOOK_END;
	page = cache_find_locked(pc, cf, pgoff);
	if (!page)
		return LOOK_MISSING;
	if (page->state == CACHE_PAGE_VALID && page->seq != cf->gen) {
		cache_remove_locked(pc, cf, page);
		*stale = page;
		return LOOK_MISSING;
	}
	mpage_get(page);
	*out = page;
	if (page->state == CACHE_PAGE_READING)
		return LOOK_WAIT;
	if (page->state == CACHE_PAGE_VALID)
		list_move_tail(&page->link, &pc->lru);
	return LOOK_HIT;
}

static enum cache_look cache_look(struct memory *m, struct cached_file *cf, uint64_t pgoff,
				  struct mpage **out)
{
	struct mpage *stale = NULL;
	enum cache_look res;

	spin_lock(&m->page_cache.lock);
	res = cache_look_locked(m, cf, pgoff, out, &stale);
	spin_unlock(&m->page_cache.lock);
	if (stale)
		mpage_put(&m->pool, stale);
	return res;
}

/*
 * Wait for a page that is being read; 0, or why it failed.  -EAGAIN: it is behind the end; -EINTR:
 * nobody waits for our answer any more.
 */
static int wait_read(struct memory *m, struct mpage *page)
{
	uint8_t state;

	if (wait_event_killable(&m->page_cache.done,
				(state = __atomic_load_n(&page->state, __ATOMIC_ACQUIRE)) !=
					CACHE_PAGE_READING))
		return -EINTR;
	if (state != CACHE_PAGE_FAILED)
		return 0;
	/* A reader for whom nobody waited any more has not read it: somebody else may. */
	return page->seq && page->seq != EINTR ? -(int)page->seq : -EAGAIN;
}

/*
 * The page that @out holds: wait until it is there. 1, or what page_cache_get() is to do about it.
 */
static int hold_reading(struct memory *m, struct mpage **out)
{
	const int err = wait_read(m, *out);

	if (!err)
		return 1;
	mpage_put(&m->pool, *out);
	return err;
}

int hold_page(struct memory *m, struct cached_file *cf, uint64_t pgoff, uint32_t more,
	      bool may_sleep, struct mpage **out)
{
	bool missed = false;
	enum cache_look res;
	int ret;

	do {
		res = cache_look(m, cf, pgoff, out);
		if (res == LOOK_END)
			return 0;
		ret = 1;
		if (res == LOOK_WAIT && !may_sleep)
			mpage_put(&m->pool, *out);
		if (res != LOOK_HIT && !may_sleep)
			return -EAGAIN;
		if (res == LOOK_MISSING) {
			if (!missed)
				STAT_INC(m, file_misses);
			missed = true;
			*out = NULL;
			ret = read_start(m, cf, pgoff, MAX(more, RA_MIN), false, true, out);
			if (!ret)
				ret = *out ? hold_reading(m, out) : -EAGAIN;
		} else if (res == LOOK_WAIT) {
			ret = hold_reading(m, out);
		}
		/* A storage node that was started again ends the reads that its old self had. */
		if (ret == -EHOSTDOWN || ret == -ETIMEDOUT)
			ret = m->net->storage_wait(m, cf->file.node, ret) ?: -EAGAIN;
	} while (ret == -EAGAIN); /* behind the end, as we know now, or somebody else reads it */
	/* -EHOSTDOWN would say that this node is gone. */
	if (ret == -EHOSTDOWN)
		ret = -EIO;
	if (ret > 0 && !missed)
		STAT_INC(m, file_hits);
	return ret;
}

/* Note that [pgoff, pgoff + nr) was read, and read ahead of a reader in order. */
static void cache_read_ahead(struct memory *m, struct cached_file *cf, uint64_t pgoff, uint32_t nr)
{
	const uint64_t end = pgoff + nr;
	uint64_t from = 0, to = 0;

	spin_lock(&m->page_cache.lock);
	if (pgoff == cf->ra_next && pgoff) {
		cf->ra_window = MIN(MAX(2 * cf->ra_window, RA_MIN), RA_MAX);
	} else if (end != cf->ra_next) {
		cf->ra_window = 0;
		cf->ra_end = end;
	}
	cf->ra_next = end;
	if (cf->ra_window && cf->known && cf->ra_end < end + cf->ra_window / 2) {
		from = MAX(cf->ra_end, end);
		to = MIN(from + cf->ra_window / 2, cached_file_pages(cf));
		cf->ra_end = MAX(to, cf->ra_end);
	}
	spin_unlock(&m->page_cache.lock);
	while (from < to) {
		const uint32_t n = (uint32_t)MIN(to - from, (uint64_t)MS_READ_MAX_PAGES);

		if (read_start(m, cf, from, n, true, false, NULL))
			break;
		from += n;
	}
}

int page_cache_get(struct memory *m, const struct proto_file *file, uint64_t pgoff, uint32_t nr,
		   uint64_t version, bool may_sleep, struct mpage **pages,
		   struct pm_file_fetch_rep *rep)
{
	struct cached_file *cf = cached_file_get(m, file, may_sleep);
	uint32_t n = 0;
	int ret = 1;

	if (!cf)
		return may_sleep ? -ENOMEM : -EAGAIN;
	check_version(m, cf, version);
	while (n < nr && ret > 0) {
		ret = hold_page(m, cf, pgoff + n, nr - n, may_sleep, &pages[n]);
		if (ret > 0)
			n++;
	}
	if (ret >= 0) {
		spin_lock(&m->page_cache.lock);
		rep->file_size = cf->size;
		spin_unlock(&m->page_cache.lock);
		/*
		 * A file that shrank between two of the pages: those behind its end do not count.
		 */
		while (n && rep->file_size <= (pgoff + n - 1) * PAGE_SIZE)
			mpage_put(&m->pool, pages[--n]);
		rep->nr_valid = n;
		rep->last_bytes = n ? (uint32_t)MIN(rep->file_size - (pgoff + n - 1) * PAGE_SIZE,
						    (uint64_t)PAGE_SIZE)
				    : 0;
		cache_read_ahead(m, cf, pgoff, nr);
		ret = 0;
	} else {
		while (n)
			mpage_put(&m->pool, pages[--n]);
	}
	cached_file_put(m, cf);
	return ret;
}

int page_cache_copy(struct memory *m, const struct proto_file *file, uint64_t offset, void *buf,
		    uint32_t len)
{
	struct pm_file_fetch_rep rep;
	struct mpage *page;
	uint32_t done = 0;

	while (done < len) {
		const uint64_t pos = offset + done;
		const uint32_t skip = (uint32_t)(pos & PAGE_MASK_LOW);
		uint32_t n;
		int err;

		err = page_cache_get(m, file, pos >> PAGE_SHIFT, 1, 0, true, &page, &rep);
		if (err)
			return err;
		if (!rep.nr_valid)
			break;
		n = rep.last_bytes > skip ? MIN(rep.last_bytes - skip, len - done) : 0;
		memcpy((uint8_t *)buf + done, (uint8_t *)mpage_virt(&m->pool, page) + skip, n);
		mpage_put(&m->pool, page);
		if (!n)
			break;
		done += n;
	}
	return (int)done;
}
