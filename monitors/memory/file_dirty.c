/* SPDX-License-Identifier: MIT */
/*
 * Dirty pages of files, and how they reach storage.
 *
 * Flow:	a flush takes runs of consecutive dirty pages off the file's list, one MS_WRITE
 *		each, until it meets its own mark: what became dirty before the mark is with
 *		storage then, and what becomes dirty meanwhile waits behind it.
 * Ordering:	in order of their places, and with each run the size up to its end: a power cut
 *		leaves a shorter file, and no place within it that was not written.
 * Context:	threads. Readers find a page that is being written, and may send it.
 */
#define PR_FMT "files: "

#include <kernel/printk.h>
#include <kernel/time.h>
#include <lib/alloc.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <lib/string.h>

#include "page_cache_private.h"

#define OLD_NS (5 * NSEC_PER_SEC) /* a page stays dirty for that long without pressure */

/* --- lists --------------------------------------------------------------------------- */

static void list_file_locked(struct page_cache *pc, struct file_live *lf) __must_hold(&pc->lock)
{
	assert_spin_held(&pc->lock);
	if (lf->listed)
		return;
	lf->listed = true;
	lf->since_ns = time_now_ns();
	list_add_tail(&lf->dirty_link, &pc->dirty);
}

static void unlist_file_locked(struct page_cache *pc, struct file_live *lf) __must_hold(&pc->lock)
{
	assert_spin_held(&pc->lock);
	if (!lf->listed || lf->nr_dirty || lf->size_dirty)
		return;
	lf->listed = false;
	list_del(&lf->dirty_link);
}

static uint64_t background(const struct page_cache *pc)
{
	return pc->dirty_max / 2;
}

void file_mark_dirty(struct memory *m, struct cached_file *cf, struct mpage *page, uint32_t end)
{
	struct page_cache *pc = &m->page_cache;
	struct file_live *lf = cf->live;
	bool kick;

	spin_lock(&pc->lock);
	ASSERT(is_claimed(cf) && page->key == (uintptr_t)cf);
	if (page->state == CACHE_PAGE_VALID) {
		mpage_get(page);
		page->state = CACHE_PAGE_DIRTY;
		list_move_tail(&page->link, &lf->dirty);
		lf->nr_dirty++;
		pc->nr_dirty++;
	} else if (page->state == CACHE_PAGE_WRITING) {
		page->state = CACHE_PAGE_WRITING_DIRTY;
	}
	/* With the page, as a flush sends no page behind the end. */
	cf->size = MAX(cf->size, (page->index << PAGE_SHIFT) + end);
	lf->changes++;
	list_file_locked(pc, lf);
	kick = pc->nr_dirty > background(pc);
	spin_unlock(&pc->lock);
	if (kick)
		wake_all(&pc->writer);
}

void file_mark_size_dirty(struct memory *m, struct cached_file *cf)
{
	struct page_cache *pc = &m->page_cache;

	spin_lock(&pc->lock);
	cf->live->size_dirty = true;
	cf->live->changes++;
	list_file_locked(pc, cf->live);
	spin_unlock(&pc->lock);
}

/* @nr pages are the caller's to make dirty, if there is room. */
static bool take_room(struct page_cache *pc, uint32_t nr)
{
	uint64_t used;
	bool room;

	spin_lock(&pc->lock);
	used = pc->nr_dirty + pc->nr_room;
	room = !used || used + nr <= pc->dirty_max;
	if (room)
		pc->nr_room += nr;
	spin_unlock(&pc->lock);
	return room;
}

void file_give_room(struct memory *m, uint32_t nr)
{
	struct page_cache *pc = &m->page_cache;

	spin_lock(&pc->lock);
	ASSERT(pc->nr_room >= nr);
	pc->nr_room -= nr;
	spin_unlock(&pc->lock);
	wake_all(&pc->room);
}

int file_take_room(struct memory *m, uint32_t nr)
{
	struct page_cache *pc = &m->page_cache;
	uint64_t written, until_ns;
	int err = 0;

	while (unlikely(!take_room(pc, nr))) {
		wake_all(&pc->writer);
		written = __atomic_load_n(&m->stats.file_write_pages, __ATOMIC_RELAXED);
		until_ns = m->storage_wait_ns ? time_after_ns(m->storage_wait_ns) : WAIT_FOREVER;
		err = wait_event_mode(&pc->room, take_room(pc, nr), WAIT_KILLABLE, until_ns);
		if (err != -ETIMEDOUT)
			return err;
		/* A slow disk is no lost one. */
		if (written == __atomic_load_n(&m->stats.file_write_pages, __ATOMIC_RELAXED))
			return -EHOSTDOWN;
	}
	return 0;
}

/* @page is dirty no more; the caller drops its reference once it has unlocked. */
static void clean_locked(struct page_cache *pc, struct file_live *lf, struct mpage *page)
	__must_hold(&pc->lock)
{
	assert_spin_held(&pc->lock);
	ASSERT(lf->nr_dirty && pc->nr_dirty);
	lf->nr_dirty--;
	pc->nr_dirty--;
	page->state = CACHE_PAGE_VALID;
}

/* Takes the first dirty page of [first, end) off the file; NULL: there is none. */
static struct mpage *forget_one(struct page_cache *pc, struct cached_file *cf, uint64_t first,
				uint64_t end)
{
	struct mpage *page, *found = NULL;

	spin_lock(&pc->lock);
	list_for_each_entry(page, &cf->live->dirty, link) {
		if (page->index < first || page->index >= end)
			continue;
		found = page;
		break;
	}
	if (found) {
		ASSERT(found->state == CACHE_PAGE_DIRTY);
		clean_locked(pc, cf->live, found);
		file_reserve_forget_locked(pc, cf->live, found->index, found->index + 1);
		cache_remove_locked(pc, cf, found);
	}
	unlist_file_locked(pc, cf->live);
	spin_unlock(&pc->lock);
	return found;
}

void file_forget_dirty(struct memory *m, struct cached_file *cf, uint64_t first, uint64_t end)
{
	struct mpage *page;

	while ((page = forget_one(&m->page_cache, cf, first, end))) {
		mpage_put(&m->pool, page); /* the cache's */
		mpage_put(&m->pool, page); /* for being dirty */
	}
	wake_all(&m->page_cache.room);
}

/* --- a flush --------------------------------------------------------------------------- */

struct flush_run {
	struct ms_write_req req;
	struct mpage *pages[MS_WRITE_MAX_PAGES];
	struct list_head mark; /* in file_live.dirty, between mpage.link's */
	uint64_t size;         /* the file's, when the mark was set */
	bool last;
};

static bool is_behind(const struct list_head *a, const struct list_head *b)
{
	return container_of(a, struct mpage, link)->index >
	       container_of(b, struct mpage, link)->index;
}

static void set_mark(struct page_cache *pc, struct cached_file *cf, struct flush_run *run)
{
	spin_lock(&pc->lock);
	list_sort(&cf->live->dirty, is_behind);
	list_add_tail(&run->mark, &cf->live->dirty);
	run->size = cf->size;
	spin_unlock(&pc->lock);
}

/* How long the file is, as far as storage has its bytes when it has those of the run. */
static uint64_t size_with_locked(struct page_cache *pc, const struct cached_file *cf,
				 const struct flush_run *run, uint32_t nr) __must_hold(&pc->lock)
{
	uint64_t size = run->last ? run->size : 0;

	assert_spin_held(&pc->lock);
	if (nr)
		size = MAX(size, (run->pages[nr - 1]->index + 1) << PAGE_SHIFT);
	return MIN(cf->size, MAX(size, cf->live->disk_size));
}

/* The next run of consecutive pages before the mark; without one only the size is sent. */
static void take_run(struct page_cache *pc, struct cached_file *cf, struct flush_run *run,
		     uint32_t flags)
{
	struct file_live *lf = cf->live;
	struct mpage *page;
	uint32_t nr = 0;

	spin_lock(&pc->lock);
	page = lf->dirty.next == &run->mark ? NULL
					    : list_first_entry(&lf->dirty, struct mpage, link);
	while (page && page->state == CACHE_PAGE_DIRTY && nr < MS_WRITE_MAX_PAGES) {
		page->state = CACHE_PAGE_WRITING;
		list_del(&page->link);
		run->pages[nr++] = page;
		page = cache_find_locked(pc, cf, page->index + 1);
	}
	run->last = lf->dirty.next == &run->mark;
	run->req = (struct ms_write_req){
		.file = cf->file,
		.epoch = lf->epoch,
		.pgoff = nr ? run->pages[0]->index : 0,
		.size = size_with_locked(pc, cf, run, nr),
		.mtime_s = lf->mtime_s,
		.mtime_ns = lf->mtime_ns,
		.nr_pages = nr,
		.flags = run->last ? flags : 0,
	};
	lf->size_dirty = run->req.size < cf->size;
	spin_unlock(&pc->lock);
}

/*
 * Is @status no word of storage's about the pages? It was away, or is about to end, or the request
 * did not get there: they stay dirty, and are sent again.
 */
static bool is_undecided(int status)
{
	switch (status) {
	case -EHOSTDOWN:
	case -ESHUTDOWN:
	case -ETIMEDOUT:
	case -EAGAIN:
	case -ENODEV:
	case -ENOBUFS:
	case -ENOMEM:
	case -EINTR:
		return true;
	default:
		return false;
	}
}

/*
 * How many pages of @run have all their blocks now: storage gives a page only the blocks that the
 * file's size reaches.
 */
static uint32_t nr_whole(const struct flush_run *run)
{
	const uint64_t whole = run->req.size >> PAGE_SHIFT;

	if (whole <= run->req.pgoff)
		return 0;
	return (uint32_t)MIN(whole - run->req.pgoff, (uint64_t)run->req.nr_pages);
}

/* The answer @status to @run: each page is clean, or dirty again. */
static void end_run(struct memory *m, struct cached_file *cf, struct flush_run *run, int status,
		    const struct ms_file_state *state)
{
	struct page_cache *pc = &m->page_cache;
	struct file_live *lf = cf->live;
	const bool again = is_undecided(status);
	struct mpage *puts[MS_WRITE_MAX_PAGES];
	uint32_t nr_puts = 0;

	spin_lock(&pc->lock);
	for (uint32_t i = 0; i < run->req.nr_pages; i++) {
		struct mpage *page = run->pages[i];

		if (again || page->state == CACHE_PAGE_WRITING_DIRTY) {
			page->state = CACHE_PAGE_DIRTY;
			list_add_tail(&page->link, &lf->dirty);
			continue;
		}
		clean_locked(pc, lf, page);
		/* The newer bytes of those that are dirty again need theirs still. */
		file_reserve_forget_locked(pc, lf, page->index, page->index + 1);
		if (!status)
			page->seq = cf->gen;
		list_add_tail(&page->link, &pc->lru);
		puts[nr_puts++] = page;
	}
	if (!status) {
		file_reserve_kept_locked(pc, lf, run->req.pgoff, run->req.pgoff + nr_whole(run));
		lf->disk_size = state->size;
		cf->version = state->version;
	} else if (again) {
		lf->size_dirty = true;
	} else {
		lf->errors++;
	}
	unlist_file_locked(pc, lf);
	spin_unlock(&pc->lock);
	for (uint32_t i = 0; i < nr_puts; i++)
		mpage_put(&m->pool, puts[i]);
	wake_all(&pc->room);
}

static int send_run(struct memory *m, struct cached_file *cf, struct flush_run *run,
		    struct ms_file_state *state)
{
	struct ms_write_req_wire w;
	struct ms_file_state_wire rep;
	bool again = false;
	int ret;

	do {
		ms_write_req_encode(&run->req, &w);
		ret = m->net->call(m, cf->file.node, MS_WRITE, &w, sizeof(w), run->pages,
				   run->req.nr_pages, &rep, sizeof(rep));
		if (ret >= 0)
			ret = ms_file_state_decode(&rep, (size_t)ret, state);
		if (ret != -ESTALE || again)
			break;
		/* Storage may have been started again: it knows the claim when it is told. */
		again = true;
		ret = file_claim_again(m, cf);
		spin_lock(&m->page_cache.lock);
		run->req.epoch = cf->live->epoch;
		spin_unlock(&m->page_cache.lock);
	} while (!ret);
	return ret;
}

int file_flush_locked(struct memory *m, struct cached_file *cf, uint32_t flags)
{
	struct page_cache *pc = &m->page_cache;
	struct flush_run *run = lib_alloc(sizeof(*run));
	struct ms_file_state state;
	int err = 0;

	assert_mutex_held(&cf->live->flush);
	if (!run)
		return -ENOMEM;
	set_mark(pc, cf, run);
	do {
		int status;

		take_run(pc, cf, run, flags);
		status = run->req.epoch ? send_run(m, cf, run, &state) : -ESTALE;
		end_run(m, cf, run, status, &state);
		if (!err)
			err = status;
		STAT_INC(m, file_writes);
		STAT_ADD(m, file_write_pages, status ? 0 : run->req.nr_pages);
	} while (!run->last && !is_undecided(err) && err != -ESTALE && err != -ENOENT);
	spin_lock(&pc->lock);
	list_del(&run->mark);
	spin_unlock(&pc->lock);
	lib_free(run);
	return err;
}

void file_claim_refused(struct memory *m, struct cached_file *cf, int err)
{
	assert_mutex_held(&cf->live->flush);
	if (err == -ESTALE)
		pr_warn("inode %llu of node %u: another node has it: unwritten data is lost\n",
			(unsigned long long)cf->file.ino, cf->file.node);
	mutex_lock(&cf->live->change);
	file_claim_lost_locked(m, cf);
	mutex_unlock(&cf->live->change);
}

int file_flush(struct memory *m, struct cached_file *cf, uint32_t flags)
{
	int err = mutex_lock_killable(&cf->live->flush);

	if (err)
		return err;
	err = file_flush_locked(m, cf, flags);
	if (err == -ESTALE || err == -ENOENT)
		file_claim_refused(m, cf, err);
	mutex_unlock(&cf->live->flush);
	return err;
}

/* The log is told, as no caller waits. Dirty pages of a file that has been removed are no loss. */
static int flush_quietly(struct memory *m, struct cached_file *cf)
{
	const int err = file_flush(m, cf, 0);

	if (!err || err == -ENOENT)
		return 0;
	pr_warn_ratelimited("inode %llu of node %u: cannot be written: error %d\n",
			    (unsigned long long)cf->file.ino, cf->file.node, err);
	return err;
}

/* Files are taken in the order of their numbers, so it ends however much is written meanwhile. */
int file_flush_all(struct memory *m, uint32_t node)
{
	struct cached_file *cf = cached_file_next_dirty(m, NULL), *next;
	int err, first = 0;

	while (cf) {
		err = !node || cf->file.node == node ? flush_quietly(m, cf) : 0;
		if (!first)
			first = err;
		next = err == -EINTR ? NULL : cached_file_next_dirty(m, &cf->file);
		cached_file_put(m, cf);
		cf = next;
	}
	return first;
}

/* --- write-behind ---------------------------------------------------------------------- */

static bool file_is_due_locked(struct page_cache *pc, bool all) __must_hold(&pc->lock)
{
	const struct file_live *lf =
		list_first_entry_or_null(&pc->dirty, struct file_live, dirty_link);

	assert_spin_held(&pc->lock);
	return lf &&
	       (all || pc->nr_dirty > background(pc) || time_now_ns() - lf->since_ns >= OLD_NS);
}

bool file_write_behind_wanted(struct memory *m)
{
	struct page_cache *pc = &m->page_cache;
	bool wanted;

	spin_lock(&pc->lock);
	wanted = file_is_due_locked(pc, false) || pc->nr_claims > pc->claims_max ||
		 file_reserve_is_idle_locked(pc);
	spin_unlock(&pc->lock);
	return wanted;
}

/* The file that waits longest, referenced, and last in the list from now on. */
static struct cached_file *due_file(struct page_cache *pc, bool all)
{
	struct cached_file *cf = NULL;
	struct file_live *lf;

	spin_lock(&pc->lock);
	if (file_is_due_locked(pc, all)) {
		lf = list_first_entry(&pc->dirty, struct file_live, dirty_link);
		list_move_tail(&lf->dirty_link, &pc->dirty);
		lf->since_ns = time_now_ns();
		cf = lf->cf;
		cf->refs++;
	}
	spin_unlock(&pc->lock);
	return cf;
}

bool file_write_behind(struct memory *m, bool all)
{
	struct cached_file *cf = due_file(&m->page_cache, all);
	int err;

	if (cf) {
		err = flush_quietly(m, cf);
		cached_file_put(m, cf);
		return !err;
	}
	return file_reserve_give_idle(m) || file_release_unused(m);
}
