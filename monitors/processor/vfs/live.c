/* SPDX-License-Identifier: MIT */
/*
 * Regular files of a storage node that may change.
 *
 * Flow:	write(2) sends the bytes to the memory node that caches the file, and when that has
 *		them, enters them into the lines of the cache that are there; or does no more than
 *		that, and they are sent later (live_behind.c). read(2) and mappings
 *		use these lines. A line that is mapped for writing is dirty, and written back by
 *		live_map.c. Each open asks the caching node for the version; with another one the
 *		lines go, dirty ones after they were written back. An open that has made the file
 *		asks nothing, unless another one has written to it since.
 * Invariants:	there is one object of the file, and one struct live_file, which ends with it.
 *		object.version is the version of the lines that are there; 0: it is not known, and
 *		they go at the next open.
 * Locking:	live_file.change (RANK_FILE_DATA) over each change and its messages; faults and
 *		reads take none.
 * Ordering:	a fill that began before a write was answered is waited for, and gets the bytes;
 *		one that begins later finds them at the node.
 * Failure:	a loss of data, as the node tells it or as the node itself is gone with it, is
 *		counted, and each open file answers -EIO once, at its next write or fsync.
 * Limits:	an append of more than FILE_BUF_PAGES pages is several ones to other processors.
 */
#define PR_FMT "files: "

#include "live.h"

#include <abi/fcntl.h>
#include <abi/resource.h>
#include <arch/uaccess.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/client/file_node.h>
#include <processor/client/kept.h>
#include <processor/excache/excache.h>
#include <processor/excache/file_dirty.h>
#include <processor/excache/prefetch.h>
#include <processor/process/process.h>

#include "file.h"
#include "inode.h"
#include "live_private.h"
#include "uio.h"

#define PAGE_OFF(pos) ((size_t)((pos) & (PAGE_SIZE - 1)))

/* file.private */
struct live_handle {
	struct live_file *lf; /* const: as long as file.object */
	uint32_t seen;        /* atomic: errors that this open file has told */
	bool writes;          /* const: object_write_end() is due */
};

/* --- life ------------------------------------------------------------------------------ */

struct live_file *live_of(struct object *obj)
{
	struct live_file *lf = __atomic_load_n(&obj->owner, __ATOMIC_ACQUIRE);
	void *there = NULL;

	if (lf)
		return lf;
	lf = kzalloc(sizeof(*lf));
	if (!lf)
		return ERR_PTR(-ENOMEM);
	lf->file = obj->file;
	lf->object = obj;
	lf->node = READ_ONCE(obj->node);
	lf->may_be_behind = live_may_be_behind(obj->file.node);
	mutex_init(&lf->change, "live_file", RANK_FILE_DATA);
	if (__atomic_compare_exchange_n(&obj->owner, &there, (void *)lf, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return lf;
	kfree(lf);
	return there;
}

/* The file, found or made, with a reference of its object. ERR_PTR(-ENOMEM). */
static struct live_file *live_get(const struct file_id *file, uint64_t fsid)
{
	struct object *obj = object_live_get(file, fsid);
	struct live_file *lf;

	if (IS_ERR(obj))
		return ERR_PTR(PTR_ERR(obj));
	lf = live_of(obj);
	if (IS_ERR(lf))
		object_put(obj);
	return lf;
}

static void live_put(struct live_file *lf)
{
	object_put(lf->object);
}

/* --- what the caching node tells ------------------------------------------------------- */

void live_count_loss_locked(struct live_file *lf, const char *why)
{
	assert_mutex_held(&lf->change);
	WRITE_ONCE(lf->errors, lf->errors + 1);
	lf->unsynced = false;
	pr_warn("inode %llu of node %u: unsynced data is lost: %s\n",
		(unsigned long long)lf->file.ino, lf->file.node, why);
}

void live_told_locked(struct live_file *lf, const struct file_state *state)
{
	assert_mutex_held(&lf->change);
	if (lf->told_by && lf->told_by != lf->node && lf->unsynced)
		live_count_loss_locked(lf, "another memory node has the file");
	else if (lf->told_by == lf->node && lf->node_errors != state->errors)
		live_count_loss_locked(lf, "the disk has refused it");
	if (lf->told_by != lf->node)
		file_dirty_forget_room(lf->object);
	lf->told_by = lf->node;
	lf->node_errors = state->errors;
	WRITE_ONCE(lf->object->node, lf->node);
	lf->told_size = state->size;
	if (lf->end <= state->size)
		lf->end = 0;
	WRITE_ONCE(lf->object->size, MAX(state->size, lf->end));
}

void live_changed_locked(struct live_file *lf, const struct file_state *state)
{
	struct object *obj = lf->object;

	assert_mutex_held(&lf->change);
	live_told_locked(lf, state);
	/* Another processor's change came before: lines of before that go at the next open. */
	obj->version = obj->version == state->before ? state->version : 0;
	lf->unsynced = true;
}

bool live_again_locked(struct live_file *lf, int err, int *tries)
{
	assert_mutex_held(&lf->change);
	if (err == -EHOSTDOWN && lf->unsynced)
		live_count_loss_locked(lf, "its memory node is gone");
	return (err == -EHOSTDOWN || err == -ESTALE) && !(*tries)++;
}

/* -EIO once for each loss that this open file has not told. */
static int tell_loss(struct live_handle *h)
{
	const uint32_t errors = READ_ONCE(h->lf->errors);

	return __atomic_exchange_n(&h->seen, errors, __ATOMIC_RELAXED) == errors ? 0 : -EIO;
}

struct fs_time live_now(void)
{
	const uint64_t ns = time_real_ns();

	return (struct fs_time){ .sec = (int64_t)(ns / 1000000000u),
				 .nsec = (uint32_t)(ns % 1000000000u) };
}

/* Clocks of two nodes differ by less. */
#define SKEW_S 1

/* Is @t later than @now, by no more than clocks differ? */
static bool is_skewed(struct fs_time t, struct fs_time now)
{
	return fs_time_is_later(t, now) && t.sec - now.sec <= SKEW_S;
}

struct fs_time live_time_locked(struct live_file *lf)
{
	struct fs_time now = live_now(), next = lf->written;

	assert_mutex_held(&lf->change);
	/* Each write has a time of its own, also while our clock is behind: mtime tells of it. */
	next.nsec++;
	if (next.nsec == NSEC_PER_SEC)
		next = (struct fs_time){ .sec = next.sec + 1 };
	if (is_skewed(lf->ctime, now))
		now = lf->ctime;
	if (!fs_time_is_later(now, lf->written) && next.sec - now.sec <= SKEW_S)
		now = next;
	lf->written = now;
	return now;
}

/* Lines of another version than state->version go; no store into a mapping is lost. */
static int drop_old_locked(struct live_file *lf) __must_hold(&lf->change)
{
	struct object *obj = lf->object;
	int err;

	assert_mutex_held(&lf->change);
	file_dirty_seal(obj);
	err = live_flush_locked(lf, 0, UINT64_MAX);
	if (!err)
		err = excache_drop_killable(obj, 0, UINT64_MAX);
	file_dirty_forget_room(obj);
	file_dirty_unseal(obj);
	return err;
}

int live_refresh_locked(struct live_file *lf, struct file_state *state)
{
	int err, tries = 0;

	assert_mutex_held(&lf->change);
	do
		err = file_node_open(&lf->file, &lf->node, state);
	while (err && live_again_locked(lf, err, &tries));
	if (err)
		return err;
	live_told_locked(lf, state);
	if (lf->object->version == state->version)
		return 0;
	lf->object->version = state->version;
	err = drop_old_locked(lf);
	if (err)
		lf->object->version = 0;
	return err;
}

/* @attr is what storage knows: add what it hears of later. Its ctime will be as it is told here. */
static void attr_add(struct file_attr *attr, const struct file_state *state)
{
	const bool written = !fs_time_is_same(state->mtime, attr->mtime);

	attr->size = state->size;
	attr->mtime = state->mtime;
	if (written && fs_time_is_later(state->mtime, attr->ctime))
		attr->ctime = state->mtime;
}

int live_attr(struct file_attr *attr)
{
	struct file_state state;
	uint32_t node = 0;
	int err = live_flush_behind(&attr->file);

	if (!err)
		err = file_node_open(&attr->file, &node, &state);
	if (err)
		return err;
	attr_add(attr, &state);
	attr->version = state.version;
	return 0;
}

/* --- reading --------------------------------------------------------------------------- */

static struct live_handle *handle_of(const struct file *f)
{
	ASSERT(f->private);
	return f->private;
}

static int page_get(struct file *f, uint64_t pgoff, struct line **line)
{
	int err = excache_get(f->object, pgoff, EXCACHE_FIND, line);

	if (err == -ENOENT)
		err = excache_get(f->object, pgoff, EXCACHE_FETCH, line);
	return err;
}

static ssize_t live_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	ssize_t done = 0;

	while (uio->left) {
		const uint64_t size = READ_ONCE(f->object->size);
		const size_t off = PAGE_OFF(*pos);
		struct line *line;
		size_t n, moved;
		int err;

		if (*pos >= size)
			break;
		n = (size_t)MIN(MIN((uint64_t)(PAGE_SIZE - off), size - *pos), uio->left);
		prefetch_read(f->object, &f->read_ahead, *pos >> PAGE_SHIFT,
			      DIV_ROUND_UP(off + MIN(uio->left, size - *pos), PAGE_SIZE));
		err = page_get(f, *pos >> PAGE_SHIFT, &line);
		if (err)
			return done ? done : err;
		moved = uio_put_mapped(uio, (uint8_t *)line_data(line) + off, n);
		excache_put(line);
		done += (ssize_t)moved;
		*pos += moved;
		if (moved < n && uio_fault_in(uio, true))
			return done ? done : -EFAULT;
	}
	return done;
}

/* --- writing --------------------------------------------------------------------------- */

bool live_is_privileged(void)
{
	struct fs_cred cred;

	process_cred(&cred);
	return fs_cred_is_root(&cred);
}

/* Up to @max bytes of @uio, which go to @at, into @buf, page by page: how many. */
static size_t pieces_fetch(struct uio *uio, uint64_t at, uint64_t max, struct file_buf *buf,
			   struct file_pieces *what)
{
	uint8_t *data = file_buf_data(buf);
	size_t done = 0;

	for (what->nr = 0; what->nr < FILE_BUF_PAGES && done < max; what->nr++) {
		const size_t off = PAGE_OFF(at + done);
		const size_t n = (size_t)MIN((uint64_t)(PAGE_SIZE - off), max - done);
		const size_t moved = uio_fetch(uio, data + what->nr * PAGE_SIZE + off, n);

		done += moved;
		if (!moved)
			break;
		what->pieces[what->nr] =
			(struct file_piece){ .pgoff = (at + done - 1) >> PAGE_SHIFT,
					     .first = (uint16_t)off,
					     .bytes = (uint16_t)moved };
		if (moved < n) {
			what->nr++;
			break;
		}
	}
	return done;
}

void live_doubt(struct object *obj, uint64_t first, uint64_t end)
{
	if (excache_drop_clean(obj, first, end))
		obj->version = 0;
}

/* The node has @what: so have the lines that are there, or come meanwhile. */
static void pieces_enter(struct object *obj, const struct file_pieces *what,
			 const struct file_buf *buf)
{
	const uint8_t *data = file_buf_data(buf);

	for (uint32_t i = 0; i < what->nr; i++) {
		const struct file_piece *p = &what->pieces[i];
		struct line *line;
		const int err = excache_get(obj, p->pgoff, EXCACHE_FIND, &line);

		if (!err) {
			memcpy((uint8_t *)line_data(line) + p->first,
			       data + (size_t)i * PAGE_SIZE + p->first, p->bytes);
			excache_put(line);
		} else if (err != -ENOENT) {
			live_doubt(obj, p->pgoff, p->pgoff + 1); /* the thread is to be killed */
		}
	}
}

static int pieces_send_locked(struct live_file *lf, struct file_pieces *what, struct file_buf *buf)
	__must_hold(&lf->change)
{
	struct file_state state;
	int err, tries = 0;

	assert_mutex_held(&lf->change);
	do
		err = file_node_write(&lf->file, &lf->node, what, buf, &state);
	while (err && live_again_locked(lf, err, &tries));
	if (err) {
		live_doubt(lf->object, what->pieces[0].pgoff, what->pieces[what->nr - 1].pgoff + 1);
		return err;
	}
	live_changed_locked(lf, &state);
	pieces_enter(lf->object, what, buf);
	return 0;
}

/* Bytes [off, end) of the page that they lie in are zero now. */
static void zero_line(struct object *obj, uint64_t off, uint64_t end)
{
	struct line *line;
	int err;

	if (off >= end)
		return;
	err = excache_get(obj, off >> PAGE_SHIFT, EXCACHE_FIND, &line);
	if (!err) {
		memset((uint8_t *)line_data(line) + PAGE_OFF(off), 0, (size_t)(end - off));
		excache_put(line);
	} else if (err != -ENOENT) {
		live_doubt(obj, off >> PAGE_SHIFT, (off >> PAGE_SHIFT) + 1);
	}
}

/* Bytes that programs have stored behind the end are no part of the file when that grows. */
static void clean_tail_locked(struct live_file *lf) __must_hold(&lf->change)
{
	const uint64_t size = READ_ONCE(lf->object->size);

	assert_mutex_held(&lf->change);
	zero_line(lf->object, size, DIV_ROUND_UP(size, PAGE_SIZE) << PAGE_SHIFT);
}

/* Where @len bytes at the end of the file go. */
static int append_locked(struct live_file *lf, uint64_t len, uint64_t *at) __must_hold(&lf->change)
{
	const struct file_change what = { .op = FILE_APPEND,
					  .len = len,
					  .now = live_time_locked(lf),
					  .privileged = live_is_privileged() };
	struct file_state state;
	int err, tries = 0;

	assert_mutex_held(&lf->change);
	do
		err = file_node_change(&lf->file, &lf->node, &what, &state);
	while (err && live_again_locked(lf, err, &tries));
	if (err)
		return err;
	live_changed_locked(lf, &state);
	*at = state.pos;
	return 0;
}

/* How much of @len bytes at @pos may be written: RLIMIT_FSIZE, and what an offset can say. */
static int write_limit(uint64_t pos, uint64_t *len)
{
	const uint64_t limit = MIN(process_rlimit(RLIMIT_FSIZE), (uint64_t)SPACE_TOP);

	if (pos >= limit)
		return limit == SPACE_TOP ? -EFBIG : file_size_allowed(pos + 1);
	*len = MIN(*len, limit - pos);
	return 0;
}

/*
 * The disk has no room for @len bytes at @at: so many may fit, 0: none. By halves of the pages, as
 * one that is there already has room.
 */
static uint64_t fewer(uint64_t at, uint64_t len)
{
	const uint64_t first = at >> PAGE_SHIFT, pages = ((at + len - 1) >> PAGE_SHIFT) - first + 1;

	return pages < 2 ? 0 : ((first + pages / 2) << PAGE_SHIFT) - at;
}

/* Where up to *@len bytes at the end of the file go, for which there is room. */
static int append_some_locked(struct live_file *lf, uint64_t *len, uint64_t *at)
	__must_hold(&lf->change)
{
	const uint64_t guess = *at;
	int err;

	assert_mutex_held(&lf->change);
	clean_tail_locked(lf);
	do
		err = append_locked(lf, *len, at);
	while (err == -ENOSPC && (*len = fewer(guess, *len)));
	return err;
}

/* The bytes of @what, which begin at @at, or the first of them: how many. */
static ssize_t send_some_locked(struct live_file *lf, uint64_t at, struct file_pieces *what,
				struct file_buf *buf) __must_hold(&lf->change)
{
	uint64_t end;
	int err;

	assert_mutex_held(&lf->change);
	do {
		const struct file_piece *last = &what->pieces[what->nr - 1];

		end = (last->pgoff << PAGE_SHIFT) + last->first + last->bytes;
		what->size = end;
		err = pieces_send_locked(lf, what, buf);
	} while (err == -ENOSPC && (what->nr /= 2));
	return err ? err : (ssize_t)(end - at);
}

/*
 * The next bytes of @uio to *@at, which moves: how many, fewer than were taken from @uio when the
 * disk is full; or an error.
 */
static ssize_t write_some_locked(struct live_file *lf, struct uio *uio, uint64_t *at, bool append,
				 struct file_pieces *what, struct file_buf *buf)
	__must_hold(&lf->change)
{
	uint64_t len = MIN(uio->left, (uint64_t)FILE_BUF_PAGES * PAGE_SIZE - PAGE_OFF(*at));
	ssize_t sent;
	size_t n;
	int err;

	assert_mutex_held(&lf->change);
	if (append)
		*at = READ_ONCE(lf->object->size);
	err = write_limit(*at, &len);
	if (err)
		return err;
	/* Where in its page an appended byte goes is known first: others may append, too. */
	if (append)
		err = append_some_locked(lf, &len, at);
	if (err)
		return err;
	n = pieces_fetch(uio, *at, MIN(len, (uint64_t)FILE_BUF_PAGES * PAGE_SIZE - PAGE_OFF(*at)),
			 buf, what);
	if (!n)
		return -EFAULT;
	what->inside = what->last = false;
	what->privileged = live_is_privileged();
	what->now = live_time_locked(lf);
	if (*at > READ_ONCE(lf->object->size))
		clean_tail_locked(lf);
	sent = send_some_locked(lf, *at, what, buf);
	if (sent > 0)
		*at += (uint64_t)sent;
	return sent;
}

static ssize_t write_all_locked(struct live_file *lf, struct uio *uio, uint64_t *at, bool append)
	__must_hold(&lf->change)
{
	struct file_pieces *what;
	struct file_buf *buf;
	ssize_t done = 0, n = 1;
	bool full = false;
	int err = lf->behind ? live_flush_locked(lf, 0, UINT64_MAX) : 0;

	assert_mutex_held(&lf->change);
	if (err)
		return err;
	what = kmalloc(sizeof(*what));
	buf = what ? file_buf_get() : NULL;
	if (!buf) {
		kfree(what);
		return what ? -EINTR : -ENOMEM;
	}
	while (uio->left && n > 0 && !full) {
		const uint64_t left = uio->left;

		n = write_some_locked(lf, uio, at, append, what, buf);
		if (n > 0)
			done += n;
		full = n > 0 && (uint64_t)n < left - uio->left;
	}
	file_buf_put(buf);
	kfree(what);
	return done ? done : n;
}

int live_sync_locked(struct live_file *lf, bool datasync)
{
	struct file_state state;
	int err, tries = 0;

	assert_mutex_held(&lf->change);
	do
		err = file_node_sync(&lf->file, &lf->node, datasync, &state);
	while (err && live_again_locked(lf, err, &tries));
	if (err)
		return err;
	live_told_locked(lf, &state);
	lf->unsynced = false;
	live_count_again_locked(lf);
	return 0;
}

/* Bytes of @uio to *@at, or to the end: kept here if that is wise, else sent. */
static ssize_t write_locked(struct live_file *lf, struct uio *uio, uint64_t *at, uint32_t flags)
	__must_hold(&lf->change)
{
	ssize_t done, n = 0;

	assert_mutex_held(&lf->change);
	done = live_behind_locked(lf, uio, at, flags);
	if (uio->left)
		n = write_all_locked(lf, uio, at, flags & O_APPEND);
	done = n < 0 && !done ? n : done + MAX(n, (ssize_t)0);
	if (done > 0)
		live_wrote_locked(lf, *at - (uint64_t)done, *at);
	return done;
}

static ssize_t live_write(struct file *f, struct uio *uio, uint64_t *pos)
{
	struct live_handle *h = handle_of(f);
	const uint32_t flags = READ_ONCE(f->flags);
	uint64_t at = *pos;
	ssize_t done;
	int err;

	if (!uio->left)
		return 0;
	err = tell_loss(h);
	if (err)
		return err;
	err = mutex_lock_killable(&h->lf->change);
	if (err)
		return err;
	done = write_locked(h->lf, uio, &at, flags);
	if (done > 0 && (flags & (O_DSYNC | O_SYNC)))
		err = live_sync_locked(h->lf, (flags & O_SYNC) != O_SYNC);
	mutex_unlock(&h->lf->change);
	if (done > 0)
		*pos = at;
	return err ? err : done;
}

static int live_fsync(struct file *f, bool datasync)
{
	struct live_handle *h = handle_of(f);
	int err = mutex_lock_killable(&h->lf->change);

	if (err)
		return err;
	err = live_flush_locked(h->lf, 0, UINT64_MAX);
	if (!err)
		err = live_sync_locked(h->lf, datasync);
	mutex_unlock(&h->lf->change);
	return err ? err : tell_loss(h);
}

/* --- sizes and holes ------------------------------------------------------------------- */

/* Does @op move bytes or make holes? A line then shows what the node has. */
static bool drops_lines(enum file_op op)
{
	return op != FILE_TRUNCATE && op != FILE_ALLOCATE && op != FILE_ALLOCATE_KEEP;
}

static int change_locked(struct live_file *lf, enum file_op op, uint64_t off, uint64_t len)
	__must_hold(&lf->change)
{
	const uint64_t first = DIV_ROUND_UP(off, PAGE_SIZE);
	const struct file_change what = { .op = op,
					  .off = off,
					  .len = len,
					  .now = live_time_locked(lf),
					  .privileged = live_is_privileged() };
	struct file_state state;
	int err = lf->behind ? live_flush_locked(lf, 0, UINT64_MAX) : 0, tries = 0;

	assert_mutex_held(&lf->change);
	if (err)
		return err;
	if (off + len > READ_ONCE(lf->object->size))
		clean_tail_locked(lf);
	do
		err = file_node_change(&lf->file, &lf->node, &what, &state);
	while (err && live_again_locked(lf, err, &tries));
	file_dirty_forget_room(lf->object);
	if (err) {
		live_doubt(lf->object, off >> PAGE_SHIFT, UINT64_MAX);
		return err;
	}
	live_changed_locked(lf, &state);
	if (op == FILE_TRUNCATE) {
		/* No fault finds a page behind the end any more: the node knows that. */
		zero_line(lf->object, off, first << PAGE_SHIFT);
		excache_drop(lf->object, first, UINT64_MAX);
	}
	return 0;
}

/*
 * The same of fallocate(2). Stores into mappings before it are not lost, nor those elsewhere in the
 * file, where it may use up the room that was reserved for them.
 */
static int move_locked(struct live_file *lf, enum file_op op, uint64_t off, uint64_t len)
	__must_hold(&lf->change)
{
	const uint64_t first = off >> PAGE_SHIFT;
	const uint64_t end = op == FILE_COLLAPSE ? UINT64_MAX : DIV_ROUND_UP(off + len, PAGE_SIZE);
	int err;

	assert_mutex_held(&lf->change);
	file_dirty_seal(lf->object);
	err = live_flush_locked(lf, 0, UINT64_MAX);
	if (!err)
		err = change_locked(lf, op, off, len);
	if (!err && drops_lines(op))
		excache_drop(lf->object, first, end);
	file_dirty_unseal(lf->object);
	return err;
}

int live_truncate(const struct file_id *file, uint64_t fsid, uint64_t size)
{
	struct live_file *lf;
	int err;

	if (size > SPACE_TOP)
		return -EFBIG;
	lf = live_get(file, fsid);
	if (IS_ERR(lf))
		return (int)PTR_ERR(lf);
	err = mutex_lock_killable(&lf->change);
	if (!err) {
		err = change_locked(lf, FILE_TRUNCATE, size, 0);
		mutex_unlock(&lf->change);
	}
	live_put(lf);
	return err;
}

static int set_mtime_locked(struct live_file *lf, const struct file_change *what)
	__must_hold(&lf->change)
{
	struct file_state state;
	int err, tries = 0;

	assert_mutex_held(&lf->change);
	do
		err = file_node_change(&lf->file, &lf->node, what, &state);
	while (err && live_again_locked(lf, err, &tries));
	if (!err)
		live_changed_locked(lf, &state);
	return err;
}

int live_set_mtime_begin(const struct file_attr *attr, struct live_file **out)
	__no_lock_analysis("its end unlocks")
{
	struct live_file *lf = live_get(&attr->file, attr->fsid);
	const struct file_change what = { .op = FILE_TIME, .now = attr->mtime };
	int err;

	if (IS_ERR(lf))
		return (int)PTR_ERR(lf);
	err = mutex_lock_killable(&lf->change);
	if (!err) {
		err = set_mtime_locked(lf, &what);
		if (err)
			mutex_unlock(&lf->change);
	}
	if (err)
		live_put(lf);
	*out = lf;
	return err;
}

void live_set_mtime_end(struct live_file *lf) __no_lock_analysis("its begin locks")
{
	mutex_unlock(&lf->change);
	live_put(lf);
}

int live_set_mtime(const struct file_attr *attr)
{
	struct live_file *lf;
	const int err = live_set_mtime_begin(attr, &lf);

	if (!err)
		live_set_mtime_end(lf);
	return err;
}

static int op_of(int mode)
{
	switch (mode) {
	case 0:
		return FILE_ALLOCATE;
	case FALLOC_FL_KEEP_SIZE:
		return FILE_ALLOCATE_KEEP;
	case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE:
		return FILE_PUNCH;
	case FALLOC_FL_ZERO_RANGE:
		return FILE_ZERO;
	case FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE:
		return FILE_ZERO_KEEP;
	case FALLOC_FL_COLLAPSE_RANGE:
		return FILE_COLLAPSE;
	default:
		return -EOPNOTSUPP;
	}
}

static int live_fallocate(struct file *f, int mode, uint64_t off, uint64_t len)
{
	struct live_handle *h = handle_of(f);
	const int op = op_of(mode);
	int err;

	if (op < 0)
		return op;
	if (off + len > SPACE_TOP)
		return -EFBIG;
	if ((op == FILE_ALLOCATE || op == FILE_ZERO) && off + len > READ_ONCE(f->object->size)) {
		err = file_size_allowed(off + len);
		if (err)
			return err;
	}
	err = mutex_lock_killable(&h->lf->change);
	if (err)
		return err;
	err = move_locked(h->lf, (enum file_op)op, off, len);
	mutex_unlock(&h->lf->change);
	return err;
}

/* --- open files ------------------------------------------------------------------------ */

enum whence { /* as in lseek(2) */
	WHENCE_SET,
	WHENCE_CUR,
	WHENCE_END,
	WHENCE_DATA,
	WHENCE_HOLE,
};

/* Storage knows the holes, when it has all that was written or stored. */
static int64_t seek_hole(struct live_file *lf, uint64_t off, enum file_op op)
{
	const struct file_change what = { .op = op, .off = off, .now = live_now() };
	struct file_state state;
	int tries = 0, err = mutex_lock_killable(&lf->change);

	if (err)
		return err;
	err = live_flush_locked(lf, 0, UINT64_MAX);
	if (!err) {
		do
			err = file_node_change(&lf->file, &lf->node, &what, &state);
		while (err && live_again_locked(lf, err, &tries));
		if (!err)
			live_told_locked(lf, &state);
	}
	mutex_unlock(&lf->change);
	return err ? err : (int64_t)state.pos;
}

static int64_t live_seek(struct file *f, int64_t off, int whence)
{
	const int64_t size = (int64_t)READ_ONCE(f->object->size);
	int64_t base = 0;

	assert_mutex_held(&f->lock);
	if (whence == WHENCE_DATA || whence == WHENCE_HOLE)
		return off < 0 ? -ENXIO
			       : seek_hole(handle_of(f)->lf, (uint64_t)off,
					   whence == WHENCE_DATA ? FILE_SEEK_DATA : FILE_SEEK_HOLE);
	if (whence == WHENCE_CUR)
		base = (int64_t)f->pos;
	else if (whence == WHENCE_END)
		base = size;
	if (__builtin_add_overflow(base, off, &off))
		return -EOVERFLOW;
	return off < 0 ? -EINVAL : off;
}

static int live_stat(struct file *f, struct file_attr *attr)
{
	return inode_getattr(f->inode, attr);
}

static long live_ioctl(struct file *f, uint32_t cmd, uint64_t arg)
{
	const uint64_t size = READ_ONCE(f->object->size);
	uint64_t left;
	int err;

	if (cmd != FIONREAD)
		return -ENOTTY;
	err = mutex_lock_killable(&f->lock);
	if (err)
		return err;
	left = f->pos < size ? size - f->pos : 0;
	mutex_unlock(&f->lock);
	return put_user_u32((uint32_t)MIN(left, (uint64_t)INT32_MAX), (void __user *)arg);
}

static void live_release(struct file *f)
{
	struct live_handle *h = f->private;

	if (!h)
		return;
	if (h->writes) {
		/* Close-to-open; a thread that is to be killed leaves it to the write-behind. */
		if (file_dirty_any(f->object))
			(void)!live_write_back(f->object, 0, UINT64_MAX, false);
		object_write_end(f->object);
	}
	kfree(h);
}

static const struct file_ops live_ops = {
	.name = "live",
	.read = live_read,
	.write = live_write,
	.stat = live_stat,
	.ioctl = live_ioctl,
	.seek = live_seek,
	.fallocate = live_fallocate,
	.fsync = live_fsync,
	.release = live_release,
	.seekable = true,
};

static int open_locked(struct file *f, struct live_handle *h) __must_hold(&h->lf->change)
{
	struct file_state state = { .mtime = f->attr.mtime };
	const uint64_t grant = live_grant(h->lf);
	int err = h->lf->behind ? live_flush_locked(h->lf, 0, UINT64_MAX) : 0;

	assert_mutex_held(&h->lf->change);
	if (err)
		return err;
	/*
	 * Of a new file no line can be old: the caching node hears of it when it is written. But
	 * another thread may have found it, and have written and closed it by now.
	 */
	if (!f->fresh || h->lf->told_by || !kept_is_unwritten(&f->attr.file, f->attr.made_at))
		err = live_refresh_locked(h->lf, &state);
	if (!err)
		live_relies_locked(h->lf, grant);
	if (!err && h->writes)
		err = object_write_begin(h->lf->object);
	if (err)
		return err;
	attr_add(&f->attr, &state);
	if (fs_time_is_later(f->attr.ctime, h->lf->ctime))
		h->lf->ctime = f->attr.ctime;
	h->seen = h->lf->errors;
	return 0;
}

int live_open(struct file *f)
{
	struct live_handle *h = kzalloc(sizeof(*h));
	int err;

	ASSERT(f->inode && !f->object && !f->private);
	if (!h)
		return -ENOMEM;
	h->lf = live_get(&f->attr.file, f->attr.fsid);
	if (IS_ERR(h->lf)) {
		err = (int)PTR_ERR(h->lf);
		kfree(h);
		return err;
	}
	h->writes = file_writable(f);
	err = mutex_lock_killable(&h->lf->change);
	if (!err) {
		err = open_locked(f, h);
		mutex_unlock(&h->lf->change);
	}
	if (err) {
		live_put(h->lf);
		kfree(h);
		return err;
	}
	f->private = h;
	f->object = h->lf->object; /* with our reference */
	f->ops = &live_ops;
	return 0;
}
