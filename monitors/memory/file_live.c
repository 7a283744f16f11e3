/* SPDX-License-Identifier: MIT */
/*
 * Files that change: claims, writes of processors, truncation.
 *
 * Flow:	live_begin() finds the file, claims it if need be, and holds the change mutex; the
 *		call changes pages and size; live_end() tells the state.
 * Ordering:	a smaller size, and what else storage does by itself, happens in this order: dirty
 *		pages that go are forgotten, or written if they are needed; storage does it; clean
 *		pages become void, also those of reads under way, by the file's new gen.
 * Failure:	a page that cannot be had fails the write at that page; those before it are done.
 */
#define PR_FMT "files: "

#include "file_live.h"

#include <kernel/printk.h>
#include <lib/alloc.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "page_cache_private.h"

#define DIRTY_MIN  64u /* pages, on the smallest node */
#define CLAIMS_MAX 4096u

void file_live_init(struct memory *m)
{
	struct page_cache *pc = &m->page_cache;

	list_init(&pc->dirty);
	list_init(&pc->claims);
	list_init(&pc->asked);
	waitqueue_init(&pc->room);
	waitqueue_init(&pc->writer);
	/* Frames that programs never have: dirty pages take nothing from them. */
	pc->dirty_max = MAX(m->pool.file_floor / 2, (uint64_t)DIRTY_MIN);
	pc->claims_max = CLAIMS_MAX;
}

/* --- claims ---------------------------------------------------------------------------- */

/* The file's live part, which is made if there is none. */
static int live_make(struct memory *m, struct cached_file *cf)
{
	struct file_live *lf;

	if (__atomic_load_n(&cf->live, __ATOMIC_ACQUIRE))
		return 0;
	lf = lib_zalloc(sizeof(*lf));
	if (!lf)
		return -ENOMEM;
	mutex_init(&lf->flush, "file_flush", RANK_FILE_FLUSH);
	mutex_init(&lf->change, "file_change", RANK_FILE_CHANGE);
	list_init(&lf->dirty);
	lf->cf = cf;
	spin_lock(&m->page_cache.lock);
	if (!cf->live) {
		__atomic_store_n(&cf->live, lf, __ATOMIC_RELEASE);
		lf = NULL;
	}
	spin_unlock(&m->page_cache.lock);
	lib_free(lf);
	return 0;
}

int file_ask_claim(struct memory *m, struct cached_file *cf, uint64_t had,
		   struct ms_file_state *state)
{
	const struct ms_claim_req req = { .file = cf->file, .epoch = had };
	struct ms_file_state_wire rep;
	struct ms_claim_req_wire w;
	int ret;

	ms_claim_req_encode(&req, &w);
	ret = m->net->call(m, cf->file.node, MS_CLAIM, &w, sizeof(w), NULL, 0, &rep, sizeof(rep));
	if (ret >= 0)
		ret = ms_file_state_decode(&rep, (size_t)ret, state);
	if (!ret && (state->node == m->node) != (state->epoch != 0))
		ret = -EPROTO;
	return ret;
}

/* The claim is ours: what storage knows is how things are. */
static void claim_enter_locked(struct page_cache *pc, struct cached_file *cf,
			       const struct ms_file_state *state) __must_hold(&pc->lock)
{
	struct file_live *lf = cf->live;

	assert_spin_held(&pc->lock);
	ASSERT(!lf->epoch && !lf->nr_dirty && list_empty(&lf->dirty));
	if (!cf->known || cf->version != state->version || cf->size != state->size)
		cf->gen++;
	cf->known = true;
	cf->version = state->version;
	cf->size = lf->disk_size = state->size;
	lf->max_size = state->max_size;
	lf->mtime_s = state->mtime_s;
	lf->mtime_ns = state->mtime_ns;
	lf->epoch = lf->had = state->epoch;
	lf->changes = 0;
	lf->size_dirty = false;
	cf->refs++;
	list_add_tail(&lf->claim_link, &pc->claims);
	pc->nr_claims++;
}

/* @state->node: who has the claim. The change mutex is held. */
static int claim_locked(struct memory *m, struct cached_file *cf, struct ms_file_state *state)
{
	struct page_cache *pc = &m->page_cache;
	int err;

	assert_mutex_held(&cf->live->change);
	state->node = m->node;
	if (cf->live->epoch)
		return 0;
	err = file_ask_claim(m, cf, 0, state);
	if (err || state->node != m->node)
		return err;
	spin_lock(&pc->lock);
	claim_enter_locked(pc, cf, state);
	spin_unlock(&pc->lock);
	return 0;
}

/* The claim ends; true: the caller is to drop its reference of the file. */
static bool claim_leave_locked(struct page_cache *pc, struct cached_file *cf) __must_hold(&pc->lock)
{
	struct file_live *lf = cf->live;

	assert_spin_held(&pc->lock);
	if (!lf->epoch)
		return false;
	lf->epoch = 0;
	file_reserve_end_locked(pc, lf);
	cf->known = false;
	cf->gen++;
	list_del(&lf->claim_link);
	pc->nr_claims--;
	return true;
}

void file_claim_lost_locked(struct memory *m, struct cached_file *cf)
{
	struct page_cache *pc = &m->page_cache;
	bool had;

	assert_mutex_held(&cf->live->change);
	file_forget_dirty(m, cf, 0, UINT64_MAX);
	spin_lock(&pc->lock);
	cf->live->size_dirty = false;
	had = claim_leave_locked(pc, cf);
	spin_unlock(&pc->lock);
	/* Also takes it off the list of files with something to send. */
	file_forget_dirty(m, cf, 0, UINT64_MAX);
	if (had)
		cached_file_put(m, cf);
}

/* Does nobody need the claim? Stores at a processor may count on the room that goes with it. */
static bool is_unused_locked(struct page_cache *pc, struct file_live *lf) __must_hold(&pc->lock)
{
	assert_spin_held(&pc->lock);
	return !lf->nr_users && !lf->listed && !file_reserve_is_held_locked(pc, lf);
}

/* The claim that was not used for longest and that nothing needs, referenced; NULL: none. */
static struct cached_file *unused_claim(struct page_cache *pc)
{
	struct cached_file *cf = NULL;
	struct file_live *lf;

	spin_lock(&pc->lock);
	if (pc->nr_claims > pc->claims_max) {
		list_for_each_entry(lf, &pc->claims, claim_link) {
			if (!is_unused_locked(pc, lf))
				continue;
			cf = lf->cf;
			cf->refs++;
			break;
		}
	}
	spin_unlock(&pc->lock);
	return cf;
}

bool file_release_unused(struct memory *m)
{
	struct page_cache *pc = &m->page_cache;
	struct cached_file *cf = unused_claim(pc);
	struct ms_release_req req = { 0 };
	struct ms_release_req_wire w;
	bool left = false;

	if (!cf)
		return false;
	mutex_lock(&cf->live->change);
	spin_lock(&pc->lock);
	if (is_unused_locked(pc, cf->live)) {
		/* The epoch that storage has given last, if not all is done that belongs to it. */
		req = (struct ms_release_req){ .file = cf->file, .epoch = cf->live->had };
		left = claim_leave_locked(pc, cf);
	}
	spin_unlock(&pc->lock);
	if (left) {
		ms_release_req_encode(&req, &w);
		/* If it does not arrive, storage goes on to name us, and we claim it again. */
		(void)m->net->call(m, cf->file.node, MS_RELEASE, &w, sizeof(w), NULL, 0, NULL, 0);
	}
	mutex_unlock(&cf->live->change);
	if (left)
		cached_file_put(m, cf);
	cached_file_put(m, cf);
	return left;
}

/* For tests and after a failed start: everything goes. */
void file_live_drop_all(struct memory *m)
{
	struct page_cache *pc = &m->page_cache;

	for (;;) {
		struct cached_file *cf;

		spin_lock(&pc->lock);
		cf = list_empty(&pc->claims)
			     ? NULL
			     : list_first_entry(&pc->claims, struct file_live, claim_link)->cf;
		if (cf)
			cf->refs++;
		spin_unlock(&pc->lock);
		if (!cf)
			return;
		mutex_lock(&cf->live->flush);
		mutex_lock(&cf->live->change);
		file_claim_lost_locked(m, cf);
		mutex_unlock(&cf->live->change);
		mutex_unlock(&cf->live->flush);
		cached_file_put(m, cf);
	}
}

/* --- calls ----------------------------------------------------------------------------- */

/* Claim the file if nobody else has it, and count one user more of the claim. */
static int claim_for_user(struct memory *m, struct cached_file *cf, struct ms_file_state *state)
{
	int err = mutex_lock_killable(&cf->live->change);

	if (err)
		return err;
	err = claim_locked(m, cf, state);
	if (!err && state->node == m->node) {
		spin_lock(&m->page_cache.lock);
		cf->live->nr_users++;
		list_move_tail(&cf->live->claim_link, &m->page_cache.claims);
		spin_unlock(&m->page_cache.lock);
	}
	mutex_unlock(&cf->live->change);
	return err;
}

/*
 * The file, claimed, with one user more, who keeps the claim unless storage takes it. *@out is NULL
 * if another node has it: @state says which.
 */
static int live_begin(struct memory *m, const struct proto_file *file, struct ms_file_state *state,
		      struct cached_file **out)
{
	struct cached_file *cf = cached_file_get(m, file, true);
	int err = cf ? live_make(m, cf) : -ENOMEM;

	*out = NULL;
	if (!err)
		err = claim_for_user(m, cf, state);
	if (!err && state->node == m->node)
		*out = cf;
	else if (cf)
		cached_file_put(m, cf);
	return err;
}

/* Only compared: one that no other claim has told. */
static uint64_t version_of(struct memory *m, struct cached_file *cf)
{
	const struct file_live *lf = cf->live;
	uint64_t version;

	spin_lock(&m->page_cache.lock);
	version = lf->changes ? hash64_pair(lf->had, lf->changes) : cf->version;
	spin_unlock(&m->page_cache.lock);
	return version;
}

/* A request changes the file: nothing of others comes between these two versions. */
static void change_begin(struct memory *m, struct cached_file *cf, struct pm_file_state *out)
{
	assert_mutex_held(&cf->live->change);
	out->before = version_of(m, cf);
}

static void change_end(struct memory *m, struct cached_file *cf, struct pm_file_state *out)
{
	assert_mutex_held(&cf->live->change);
	out->version = version_of(m, cf);
}

/* The versions are there, unless nothing was changed. */
static void live_end(struct memory *m, struct cached_file *cf, struct pm_file_state *out)
{
	struct file_live *lf = cf->live;

	if (!out->before)
		out->before = out->version = version_of(m, cf);
	spin_lock(&m->page_cache.lock);
	out->size = cf->size;
	out->mtime_s = lf->mtime_s;
	out->mtime_ns = lf->mtime_ns;
	out->errors = lf->errors;
	lf->nr_users--;
	spin_unlock(&m->page_cache.lock);
	cached_file_put(m, cf);
}

int file_open(struct memory *m, const struct pm_file_open_req *req, struct pm_file_state *out)
{
	struct ms_file_state state = { 0 };
	struct cached_file *cf;
	int err = live_begin(m, &req->file, &state, &cf);

	*out = (struct pm_file_state){ 0 };
	if (!err && !cf)
		out->node = state.node;
	if (!cf)
		return err;
	live_end(m, cf, out);
	return 0;
}

/* --- writes ---------------------------------------------------------------------------- */

/* A page of zeroes at @pgoff, held; NULL: no frame, or *@raced, there is a page now. */
static struct mpage *make_page(struct memory *m, struct cached_file *cf, uint64_t pgoff,
			       bool *raced)
{
	struct page_cache *pc = &m->page_cache;
	struct mpage *page = cache_frame(m);

	*raced = false;
	if (!page)
		return NULL;
	memset(mpage_virt(&m->pool, page), 0, PAGE_SIZE);
	spin_lock(&pc->lock);
	*raced = cache_find_locked(pc, cf, pgoff) != NULL;
	if (!*raced) {
		mpage_get(page);
		cache_insert_locked(pc, cf, page, pgoff);
		page->seq = cf->gen;
		list_add_tail(&page->link, &pc->lru);
		page->state = CACHE_PAGE_VALID;
	}
	spin_unlock(&pc->lock);
	pool_file_read(&m->pool, page);
	if (*raced)
		mpage_put(&m->pool, page);
	return *raced ? NULL : page;
}

/* The page at @pgoff, held, perhaps being read; a void one goes. NULL: there is none. */
static struct mpage *find_page(struct memory *m, struct cached_file *cf, uint64_t pgoff)
{
	struct page_cache *pc = &m->page_cache;
	struct mpage *page, *stale = NULL;

	spin_lock(&pc->lock);
	page = cache_find_locked(pc, cf, pgoff);
	if (page && page->state == CACHE_PAGE_VALID && page->seq != cf->gen) {
		cache_remove_locked(pc, cf, page);
		stale = page;
		page = NULL;
	}
	if (page)
		mpage_get(page);
	spin_unlock(&pc->lock);
	if (stale)
		mpage_put(&m->pool, stale);
	return page;
}

static bool is_on_disk(struct memory *m, const struct cached_file *cf, uint64_t pgoff)
{
	bool on_disk;

	spin_lock(&m->page_cache.lock);
	on_disk = pgoff < DIV_ROUND_UP(cf->live->disk_size, PAGE_SIZE);
	spin_unlock(&m->page_cache.lock);
	return on_disk;
}

static bool is_read(const struct mpage *page)
{
	return __atomic_load_n(&page->state, __ATOMIC_ACQUIRE) != CACHE_PAGE_READING;
}

/* The page that is to be written at [first, first + bytes), held and with its other bytes. */
static int page_to_write(struct memory *m, struct cached_file *cf, const struct pm_file_page *p,
			 struct mpage **out)
{
	bool make = p->bytes == PAGE_SIZE, raced;
	int ret;

	for (;;) {
		*out = find_page(m, cf, p->pgoff);
		if (*out && is_read(*out))
			return 0;
		if (*out) {
			ret = wait_event_killable(&m->page_cache.done, is_read(*out));
			mpage_put(&m->pool, *out);
			if (ret)
				return ret;
		} else if (make || !is_on_disk(m, cf, p->pgoff)) {
			/* Asked last: a flush could bring a page there, which then went. */
			*out = make_page(m, cf, p->pgoff, &raced);
			if (*out || !raced)
				return *out ? 0 : -ENOMEM;
		} else {
			ret = hold_page(m, cf, p->pgoff, 1, true, out);
			if (ret < 0)
				return ret;
			if (ret)
				mpage_put(&m->pool, *out);
			make = !ret; /* behind the end: what was there is gone */
		}
	}
}

static int write_page(struct memory *m, struct cached_file *cf, const struct pm_file_page *p,
		      const uint8_t *data)
{
	struct mpage *page;
	const int err = page_to_write(m, cf, p, &page);

	if (err)
		return err;
	memcpy((uint8_t *)mpage_virt(&m->pool, page) + p->first, data + p->first, p->bytes);
	file_mark_dirty(m, cf, page, (uint32_t)p->first + p->bytes);
	mpage_put(&m->pool, page);
	return 0;
}

/* The size is at least @size, and the file was changed at the request's time. */
static void grow(struct memory *m, struct cached_file *cf, uint64_t size, int64_t mtime_s,
		 uint32_t mtime_ns)
{
	spin_lock(&m->page_cache.lock);
	cf->size = MAX(cf->size, size);
	cf->live->mtime_s = mtime_s;
	cf->live->mtime_ns = mtime_ns;
	spin_unlock(&m->page_cache.lock);
	file_mark_size_dirty(m, cf);
}

/* The part of @p, from a mapping, that lies inside the file; 0 bytes: nothing does. */
static struct pm_file_page clip_page(struct memory *m, struct cached_file *cf,
				     const struct pm_file_page *p)
{
	const uint64_t begin = (p->pgoff << PAGE_SHIFT) + p->first;
	struct pm_file_page out = *p;
	uint64_t size;

	assert_mutex_held(&cf->live->change);
	spin_lock(&m->page_cache.lock);
	size = cf->size;
	spin_unlock(&m->page_cache.lock);
	out.bytes = size > begin ? (uint16_t)MIN(size - begin, (uint64_t)p->bytes) : 0;
	return out;
}

/*
 * May the file be @size bytes long? Storage would refuse it, and every write with such a size: the
 * bytes of other writers would be lost with it.
 */
static bool size_is_possible(struct memory *m, struct cached_file *cf, uint64_t size)
{
	bool possible;

	assert_mutex_held(&cf->live->change);
	spin_lock(&m->page_cache.lock);
	possible = size <= cf->live->max_size;
	spin_unlock(&m->page_cache.lock);
	return possible;
}

/* Where the file ends at least, when @req is done. */
static uint64_t end_of(const struct pm_file_write_req *req)
{
	const struct pm_file_page *last;

	if (!req->nr_pages || req->flags & PM_FILE_INSIDE)
		return req->size;
	last = &req->pages[req->nr_pages - 1]; /* the decoder has seen to their order */
	return MAX(req->size, (last->pgoff << PAGE_SHIFT) + last->first + last->bytes);
}

/* Room on the disk for the pages of @req. */
static int reserve_pages(struct memory *m, struct cached_file *cf,
			 const struct pm_file_write_req *req)
{
	const uint32_t flags = req->flags & PM_FILE_PRIVILEGED ? MS_RESERVE_PRIVILEGED : 0;
	uint32_t first = 0, end;
	int err = 0;

	for (; first < req->nr_pages && !err; first = end) {
		const uint64_t pgoff = req->pages[first].pgoff;
		struct pm_file_page p = req->pages[first];

		end = first + 1;
		if (req->flags & PM_FILE_INSIDE)
			p = clip_page(m, cf, &p);
		while (end < req->nr_pages && !(req->flags & PM_FILE_INSIDE) &&
		       req->pages[end].pgoff == pgoff + (end - first))
			end++;
		if (p.bytes)
			err = file_reserve(m, cf, pgoff, end - first, flags);
	}
	return err;
}

/* All pages of @req, or those before the one that failed. */
static int write_locked(struct memory *m, struct cached_file *cf,
			const struct pm_file_write_req *req, const uint8_t *data)
{
	int err = 0;

	assert_mutex_held(&cf->live->change);
	if (!cf->live->epoch)
		return -ESTALE;
	if (req->nr_pages && !size_is_possible(m, cf, end_of(req)))
		return -EFBIG;
	err = reserve_pages(m, cf, req);
	for (uint32_t i = 0; i < req->nr_pages && !err; i++) {
		struct pm_file_page p = req->pages[i];

		if (req->flags & PM_FILE_INSIDE)
			p = clip_page(m, cf, &p);
		if (p.bytes)
			err = write_page(m, cf, &p, data + (size_t)i * PAGE_SIZE);
	}
	if (!err && req->nr_pages)
		grow(m, cf, req->size, req->mtime_s, req->mtime_ns);
	if (!err && req->flags & PM_FILE_LAST)
		file_reserve_last(m, cf);
	return err;
}

static int write_live(struct memory *m, struct cached_file *cf, const struct pm_file_write_req *req,
		      const void *data, struct pm_file_state *out)
{
	int err = mutex_lock_killable(&cf->live->change);

	if (err)
		return err;
	change_begin(m, cf, out);
	err = write_locked(m, cf, req, data);
	change_end(m, cf, out);
	mutex_unlock(&cf->live->change);
	return err;
}

static int sync_live(struct memory *m, struct cached_file *cf, const struct pm_file_write_req *req)
{
	uint32_t flags = MS_WRITE_SYNC;
	int err;

	if (req->flags & PM_FILE_DATASYNC)
		flags |= MS_WRITE_DATASYNC;
	err = file_flush(m, cf, flags);
	if (err == -ENOENT)
		return -ESTALE;
	/* Each open file learns by the count that storage has refused something. */
	return err == -EIO || err == -ENOSPC || err == -EDQUOT || err == -EROFS ? 0 : err;
}

int file_write(struct memory *m, const struct pm_file_write_req *req, const void *data,
	       struct pm_file_state *out)
{
	struct ms_file_state state = { 0 };
	struct cached_file *cf = NULL;
	uint32_t tries = 0;
	uint64_t epoch;
	int err;

	*out = (struct pm_file_state){ 0 };
	if (req->flags & PM_FILE_EVERY)
		return file_flush_all(m, req->file.node);
	err = req->nr_pages ? file_take_room(m, req->nr_pages) : 0;
	if (err)
		return err;
	err = live_begin(m, &req->file, &state, &cf);
	if (!err && !cf)
		out->node = state.node;
	do {
		epoch = cf ? file_epoch(m, cf) : 0;
		if (cf)
			err = write_live(m, cf, req, data, out);
	} while (cf && file_reserve_try_again(m, cf, epoch, &tries, &err));
	/* Its pages are dirty by now, or will not be. */
	if (req->nr_pages)
		file_give_room(m, req->nr_pages);
	if (!err && cf && req->flags & PM_FILE_SYNC)
		err = sync_live(m, cf, req);
	if (cf)
		live_end(m, cf, out);
	return err;
}

/* --- changes by storage ------------------------------------------------------------------ */

/*
 * Of the page that [off, ...) begins in only the bytes before it stay, if it is dirty. False: it is
 * not, or there is none.
 */
static bool cut_page(struct memory *m, struct cached_file *cf, uint64_t off)
{
	struct page_cache *pc = &m->page_cache;
	const uint64_t from = off & PAGE_MASK_LOW;
	struct mpage *page;
	bool dirty;

	if (!from)
		return false;
	spin_lock(&pc->lock);
	page = cache_find_locked(pc, cf, off >> PAGE_SHIFT);
	dirty = page && page->state == CACHE_PAGE_DIRTY;
	if (dirty)
		memset((uint8_t *)mpage_virt(&m->pool, page) + from, 0, PAGE_SIZE - from);
	spin_unlock(&pc->lock);
	return dirty;
}

/*
 * The dirty page at the new end may have lost the blocks behind it, and would need them if the file
 * grew: it gets room for them. If there is none, storage gets the page as long as it needs nothing.
 */
static void cover_end(struct memory *m, struct cached_file *cf,
		      const struct pm_file_change_req *req)
{
	const uint32_t flags = req->flags & PM_FILE_PRIVILEGED ? MS_RESERVE_PRIVILEGED : 0;

	if (file_reserve(m, cf, req->off >> PAGE_SHIFT, 1, flags))
		(void)!file_flush_locked(m, cf, 0);
}

/* Clean pages are void; dirty ones stay. */
static void void_clean(struct memory *m, struct cached_file *cf, const struct ms_file_state *state,
		       bool done)
{
	struct page_cache *pc = &m->page_cache;
	struct mpage *page;

	spin_lock(&pc->lock);
	cf->gen++;
	list_for_each_entry(page, &cf->live->dirty, link)
		page->seq = cf->gen;
	cf->size = state->size;
	if (done) {
		cf->live->disk_size = state->size;
		cf->version = state->version;
	}
	cf->live->changes++;
	cf->live->mtime_s = state->mtime_s;
	cf->live->mtime_ns = state->mtime_ns;
	spin_unlock(&pc->lock);
}

static int send_change(struct memory *m, struct cached_file *cf,
		       const struct pm_file_change_req *req, uint32_t keep,
		       struct ms_file_state *state)
{
	struct ms_change_req out = {
		.file = req->file,
		.op = req->op,
		.flags = req->flags & PM_FILE_PRIVILEGED ? MS_RESERVE_PRIVILEGED : 0,
		.off = req->off,
		.len = req->len,
		.mtime_s = req->mtime_s,
		.mtime_ns = req->mtime_ns,
		.keep = keep,
		/* Storage knows by it what it has done before it was started again. */
		.client = m->node,
		.seq = __atomic_add_fetch(&m->file_changes, 1, __ATOMIC_RELAXED),
	};
	struct ms_file_state_wire rep;
	struct ms_change_req_wire w;
	int ret, again = 0;

	do {
		spin_lock(&m->page_cache.lock);
		out.epoch = cf->live->epoch;
		spin_unlock(&m->page_cache.lock);
		if (!out.epoch)
			return -ESTALE;
		ms_change_req_encode(&out, &w);
		ret = m->net->call(m, cf->file.node, MS_CHANGE, &w, sizeof(w), NULL, 0, &rep,
				   sizeof(rep));
		if (ret >= 0)
			ret = ms_file_state_decode(&rep, (size_t)ret, state);
		if (ret != -ESTALE || again++)
			return ret;
		/* Only its refusal is the loss of the claim. */
		ret = file_claim_again(m, cf);
	} while (!ret);
	return ret == -ENOENT ? -ESTALE : ret;
}

static bool is_longer(struct memory *m, const struct cached_file *cf, uint64_t size)
{
	bool longer;

	spin_lock(&m->page_cache.lock);
	longer = size >= cf->size;
	spin_unlock(&m->page_cache.lock);
	return longer;
}

/* A truncation that makes the file longer is a size and no more: storage hears of it later. */
static int extend_locked(struct memory *m, struct cached_file *cf,
			 const struct pm_file_change_req *req)
{
	assert_mutex_held(&cf->live->change);
	if (!size_is_possible(m, cf, req->off))
		return -EFBIG;
	grow(m, cf, req->off, req->mtime_s, req->mtime_ns);
	return 0;
}

/* Both mutexes are held. */
static int change_locked(struct memory *m, struct cached_file *cf,
			 const struct pm_file_change_req *req)
{
	struct ms_file_state state;
	bool cut = false;
	uint32_t keep = 0;
	int err = 0;

	assert_mutex_held(&cf->live->change);
	if (!cf->live->epoch)
		return -ESTALE;
	if (req->op == PROTO_FILE_TRUNCATE && is_longer(m, cf, req->off))
		return extend_locked(m, cf, req);
	/*
	 * A truncation needs nothing of what is behind its end; the other changes move bytes or
	 * make holes, and storage is to have all bytes first.
	 */
	if (req->op == PROTO_FILE_TRUNCATE) {
		spin_lock(&m->page_cache.lock);
		cf->size = MIN(cf->size, req->off);
		spin_unlock(&m->page_cache.lock);
		file_forget_dirty(m, cf, DIV_ROUND_UP(req->off, PAGE_SIZE), UINT64_MAX);
		file_reserve_unmapped(m, cf, req->off);
		cut = cut_page(m, cf, req->off);
	} else {
		err = file_flush_locked(m, cf, 0);
		if (err == -ENOENT)
			err = -ESTALE;
		/* Nothing is dirty, or nothing is changed; it may take what is idle. */
		if (!err)
			keep = file_reserve_change_begin(m, cf, req);
	}
	if (!err)
		err = send_change(m, cf, req, keep, &state);
	if (err == -ESTALE) {
		file_claim_lost_locked(m, cf);
	} else if (err) {
		/* The file is as storage has it, and as the pages are that are still dirty. */
		spin_lock(&m->page_cache.lock);
		state = (struct ms_file_state){ .size = MAX(cf->size, cf->live->disk_size),
						.mtime_s = cf->live->mtime_s,
						.mtime_ns = cf->live->mtime_ns };
		spin_unlock(&m->page_cache.lock);
		void_clean(m, cf, &state, false);
	} else {
		if (req->op != PROTO_FILE_TRUNCATE)
			file_reserve_change_end(m, cf, req);
		void_clean(m, cf, &state, true);
		if (cut)
			cover_end(m, cf, req);
	}
	return err;
}

/* The bytes at the end of the file that are the asker's from now on begin at @out->pos. */
static int append_locked(struct memory *m, struct cached_file *cf,
			 const struct pm_file_change_req *req, struct pm_file_state *out)
{
	uint64_t last;
	int err;

	assert_mutex_held(&cf->live->change);
	if (!cf->live->epoch)
		return -ESTALE;
	spin_lock(&m->page_cache.lock);
	out->pos = cf->size;
	spin_unlock(&m->page_cache.lock);
	if (out->pos > INT64_MAX || req->len > INT64_MAX - out->pos ||
	    !size_is_possible(m, cf, out->pos + req->len))
		return -EFBIG;
	/* As much as one PM_FILE_WRITE brings; should there be more, that asks for itself. */
	last = (out->pos + MIN(req->len, (uint64_t)PM_FILE_WRITE_MAX * PAGE_SIZE) - 1) >>
	       PAGE_SHIFT;
	err = file_reserve(m, cf, out->pos >> PAGE_SHIFT,
			   (uint32_t)(last - (out->pos >> PAGE_SHIFT) + 1),
			   req->flags & PM_FILE_PRIVILEGED ? MS_RESERVE_PRIVILEGED : 0);
	if (err)
		return err;
	grow(m, cf, out->pos + req->len, req->mtime_s, req->mtime_ns);
	return 0;
}

static bool is_all_at_storage(struct memory *m, struct cached_file *cf)
{
	bool all;

	spin_lock(&m->page_cache.lock);
	all = !cf->live->nr_dirty && !cf->live->size_dirty;
	spin_unlock(&m->page_cache.lock);
	return all;
}

/* Storage knows the holes, once it has all bytes. Both mutexes are held. */
static int seek_locked(struct memory *m, struct cached_file *cf,
		       const struct pm_file_change_req *req, struct pm_file_state *out)
{
	struct ms_file_state state;
	int err = 0;

	assert_mutex_held(&cf->live->change);
	if (!cf->live->epoch)
		return -ESTALE;
	if (!is_all_at_storage(m, cf))
		err = file_flush_locked(m, cf, 0);
	if (!err)
		err = send_change(m, cf, req, 0, &state);
	if (err == -ENOENT)
		err = -ESTALE;
	if (!err)
		out->pos = state.pos;
	return err;
}

static bool is_seek(uint32_t op)
{
	return op == PROTO_FILE_SEEK_DATA || op == PROTO_FILE_SEEK_HOLE;
}

/* A request that needs the change mutex only, and no message but one for room. */
static int change_here(struct memory *m, struct cached_file *cf,
		       const struct pm_file_change_req *req, struct pm_file_state *out)
{
	int err = mutex_lock_killable(&cf->live->change);

	if (err)
		return err;
	change_begin(m, cf, out);
	if (req->op == PROTO_FILE_APPEND)
		err = append_locked(m, cf, req, out);
	else if (req->op == PROTO_FILE_ROOM)
		err = file_reserve_hold(m, cf, req, &out->pos);
	else if (!cf->live->epoch)
		err = -ESTALE;
	else /* storage may have had an older time from us meanwhile: it gets this one again */
		grow(m, cf, 0, req->mtime_s, req->mtime_ns);
	change_end(m, cf, out);
	mutex_unlock(&cf->live->change);
	return err;
}

static int change_live(struct memory *m, struct cached_file *cf,
		       const struct pm_file_change_req *req, struct pm_file_state *out)
{
	int err;

	if (req->op == PROTO_FILE_APPEND || req->op == PROTO_FILE_TIME ||
	    req->op == PROTO_FILE_ROOM)
		return change_here(m, cf, req, out);
	err = mutex_lock_killable(&cf->live->flush);
	if (err)
		return err;
	mutex_lock(&cf->live->change);
	change_begin(m, cf, out);
	err = is_seek(req->op) ? seek_locked(m, cf, req, out) : change_locked(m, cf, req);
	change_end(m, cf, out);
	mutex_unlock(&cf->live->change);
	mutex_unlock(&cf->live->flush);
	return err;
}

int file_change(struct memory *m, const struct pm_file_change_req *req, struct pm_file_state *out)
{
	struct ms_file_state state = { 0 };
	uint32_t tries = 0;
	uint64_t epoch;
	struct cached_file *cf;
	int err = live_begin(m, &req->file, &state, &cf);

	*out = (struct pm_file_state){ 0 };
	if (!err && !cf)
		out->node = state.node;
	if (!cf)
		return err;
	do {
		epoch = file_epoch(m, cf);
		err = change_live(m, cf, req, out);
	} while (file_reserve_try_again(m, cf, epoch, &tries, &err));
	live_end(m, cf, out);
	return err;
}
