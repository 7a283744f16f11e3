/* SPDX-License-Identifier: MIT */
/*
 * Files that change: what programs store into shared mappings, and what comes later of write(2)s.
 *
 * Flow:	lines that are mapped for writing are marked (excache/file_dirty.h). A flush takes
 *		them, up to FILE_BUF_PAGES at a time: copied, write-protected and sent to the memory
 *		node that caches the file, whole, since nobody knows which bytes were stored. The
 *		node leaves out what lies behind the end, unless write(2) has made the file longer
 *		(live_behind.c). fsync(), msync(), close() and munmap() flush; so does a thread of
 *		each storage node, lines that are dirty for some seconds, or when half of those are
 *		dirty that may be.
 * Context:	threads. A flush sleeps for a buffer and for the node, killably.
 * Locking:	live_file.change over a flush: it is in one order with writes and truncations.
 *		live_mount.all (RANK_FILE) over a flush of all files of a storage node, so that one
 *		does not leave a file to another that has not finished.
 * Failure:	what the node refuses for good is lost and counted, and its lines go. After another
 *		error the lines are dirty as before, and the thread tries again.
 * Limits:	of a page that two processors have mapped and store into, the last write-back wins.
 */
#include "live_private.h"

#include <kernel/counter.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/client/kept.h>
#include <processor/excache/file_dirty.h>

COUNTER(file_maps_flushed, "file.mapped_pages", "pages stored into by mappings that were sent");
COUNTER(file_maps_again, "file.mapped_again", "... that could not be sent, and stay dirty");

#define RETRY_NS NSEC_PER_SEC

static void pages_done(struct object *obj, const struct file_pieces *what, bool again)
{
	for (uint32_t i = 0; i < what->nr; i++)
		file_dirty_done(obj, what->pieces[i].pgoff, again);
}

static bool is_of_moment(int err)
{
	return err == -EINTR || err == -ENOMEM || err == -EHOSTDOWN || err == -ETIMEDOUT;
}

/*
 * Will it perhaps be possible later? write(2) has accepted the bytes that it kept: they are lost
 * only where the node says that there is no place for them, or that the file is gone. All else
 * passes, be it storage that was away for too long; what a disk refuses is counted by the node
 * (file_state.errors), and not said here. Stores into mappings do not keep their lines for that.
 */
static bool is_transient_locked(const struct live_file *lf, int err) __must_hold(&lf->change)
{
	assert_mutex_held(&lf->change);
	return is_of_moment(err) || (lf->behind && err != -ENOSPC && err != -EDQUOT &&
				     err != -EROFS && err != -EFBIG && err != -ESTALE);
}

static int send_pages_locked(struct live_file *lf, struct file_pieces *what, struct file_buf *buf)
	__must_hold(&lf->change);

/* The pages make the file longer, up to lf->end; what programs stored behind that is no part. */
static void grow_locked(struct live_file *lf, struct file_pieces *what) __must_hold(&lf->change)
{
	struct file_piece *last;

	assert_mutex_held(&lf->change);
	while (what->nr && what->pieces[what->nr - 1].pgoff << PAGE_SHIFT >= lf->end)
		file_dirty_done(lf->object, what->pieces[--what->nr].pgoff, false);
	if (!what->nr)
		return;
	last = &what->pieces[what->nr - 1];
	last->bytes = (uint16_t)MIN(lf->end - (last->pgoff << PAGE_SHIFT), (uint64_t)PAGE_SIZE);
	what->size = (last->pgoff << PAGE_SHIFT) + last->bytes;
	what->inside = false;
}

/* The disk has no room for all pages: those that it has room for are not lost. */
static int send_each_locked(struct live_file *lf, const struct file_pieces *what,
			    struct file_buf *buf) __must_hold(&lf->change)
{
	uint8_t *data = file_buf_data(buf);
	struct file_pieces one = { .nr = 1 };
	int err = 0;

	assert_mutex_held(&lf->change);
	for (uint32_t i = 0; i < what->nr; i++) {
		if (err) {
			file_dirty_done(lf->object, what->pieces[i].pgoff, true);
			continue;
		}
		one.pieces[0] = what->pieces[i];
		if (i)
			memcpy(data, data + i * PAGE_SIZE, PAGE_SIZE);
		err = send_pages_locked(lf, &one, buf);
	}
	return err;
}

static int send_pages_locked(struct live_file *lf, struct file_pieces *what, struct file_buf *buf)
	__must_hold(&lf->change)
{
	struct object *obj = lf->object;
	struct file_state state;
	int err, tries = 0;

	assert_mutex_held(&lf->change);
	what->inside = true;
	what->privileged = false;
	what->size = 0;
	what->now = lf->behind ? lf->written : live_time_locked(lf);
	if (lf->end)
		grow_locked(lf, what);
	if (!what->nr)
		return 0;
	do
		err = file_node_write(&lf->file, &lf->node, what, buf, &state);
	while (err && live_again_locked(lf, err, &tries));
	if (err == -ENOSPC && what->nr > 1)
		return send_each_locked(lf, what, buf);
	if (err && is_transient_locked(lf, err)) {
		counter_add(&file_maps_again, what->nr);
		pages_done(obj, what, true);
		return is_of_moment(err) ? err : -EIO; /* as programs are told */
	}
	pages_done(obj, what, false);
	if (err) {
		live_count_loss_locked(lf, "it cannot be written");
		live_doubt(obj, what->pieces[0].pgoff, what->pieces[what->nr - 1].pgoff + 1);
		return 0;
	}
	counter_add(&file_maps_flushed, what->nr);
	live_changed_locked(lf, &state);
	return 0;
}

struct flush {
	uint64_t first, end; /* pages */
	uint64_t stamp;      /* marked before */
	bool last;           /* no room ahead is needed afterwards */
};

/* The next pages; 1, 0: there is none, or an error. */
static int flush_some_locked(struct live_file *lf, const struct flush *f, struct file_pieces *what,
			     struct file_buf *buf) __must_hold(&lf->change)
{
	uint64_t pgoffs[FILE_BUF_PAGES + 1]; /* one more, to know whether there is one */
	const size_t nr = file_dirty_list(lf->object, f->first, f->end, f->stamp, lf->behind,
					  pgoffs, FILE_BUF_PAGES + 1);
	uint8_t *data = file_buf_data(buf);
	int err = 0;

	assert_mutex_held(&lf->change);
	what->nr = 0;
	what->last = f->last && nr <= FILE_BUF_PAGES;
	for (size_t i = 0; i < MIN(nr, (size_t)FILE_BUF_PAGES) && err != -EINTR; i++) {
		err = file_dirty_take(lf->object, pgoffs[i], data + what->nr * PAGE_SIZE);
		if (!err)
			what->pieces[what->nr++] =
				(struct file_piece){ .pgoff = pgoffs[i], .bytes = PAGE_SIZE };
	}
	if (err == -EINTR) {
		pages_done(lf->object, what, true);
		return err;
	}
	/* A truncation may have been faster for all of them. */
	err = what->nr ? send_pages_locked(lf, what, buf) : 0;
	return err ? err : nr != 0;
}

static int flush_locked(struct live_file *lf, const struct flush *f) __must_hold(&lf->change)
{
	struct file_pieces *what;
	struct file_buf *buf;
	int more;

	assert_mutex_held(&lf->change);
	what = kmalloc(sizeof(*what));
	if (!what)
		return -ENOMEM;
	buf = file_buf_get();
	if (!buf) {
		kfree(what);
		return -EINTR;
	}
	do
		more = flush_some_locked(lf, f, what, buf);
	while (more > 0);
	file_buf_put(buf);
	kfree(what);
	return more;
}

int live_flush_locked(struct live_file *lf, uint64_t first, uint64_t end)
{
	const struct flush f = { .first = lf->behind ? 0 : first,
				 .end = lf->behind ? UINT64_MAX : end,
				 .stamp = file_dirty_stamp(lf->object),
				 .last = lf->behind };
	int err = 0;

	assert_mutex_held(&lf->change);
	/* Stores into mappings have to ask again, too: that room is not told apart here. */
	if (f.last) {
		file_dirty_forget_room(lf->object);
		live_count_again_locked(lf);
	}
	if (file_dirty_any(lf->object))
		err = flush_locked(lf, &f);
	if (!err && f.last)
		live_behind_done_locked(lf);
	return err;
}

int live_flush_ahead_locked(struct live_file *lf)
{
	const struct flush f = { .end = UINT64_MAX, .stamp = file_dirty_stamp(lf->object) };
	const int err = flush_locked(lf, &f);

	assert_mutex_held(&lf->change);
	if (!err)
		live_behind_done_locked(lf);
	return err;
}

int live_write_back(struct object *obj, uint64_t first, uint64_t end, bool sync)
{
	struct live_file *lf = live_of(obj);
	uint32_t errors;
	int err;

	if (IS_ERR(lf))
		return (int)PTR_ERR(lf);
	err = mutex_lock_killable(&lf->change);
	if (err)
		return err;
	err = live_flush_locked(lf, first, end);
	if (!err && sync)
		err = live_sync_locked(lf, true);
	mutex_unlock(&lf->change);
	if (err || !sync)
		return err;
	errors = READ_ONCE(lf->errors);
	return __atomic_exchange_n(&lf->maps_seen, errors, __ATOMIC_RELAXED) == errors ? 0 : -EIO;
}

int live_flush(const struct file_id *file)
{
	struct object *obj = object_live_find(file);
	int err = 0;

	if (!obj)
		return 0;
	if (file_dirty_any(obj))
		err = live_write_back(obj, 0, UINT64_MAX, false);
	object_put(obj);
	return err;
}

/* --- faults ---------------------------------------------------------------------------- */

/* No lock: the fault may come with any that is held over copies. */
static int size_at_node(struct object *obj, uint64_t *size)
{
	uint32_t node = READ_ONCE(obj->node);
	struct file_state state;
	int err = file_node_open(&obj->file, &node, &state);

	if (err == -EHOSTDOWN && !node)
		err = file_node_open(&obj->file, &node, &state); /* its successor */
	if (!err)
		*size = state.size;
	return err;
}

/* No lock either. The store is the faulting thread's: its user may have root's blocks. */
static int room_at_node(struct object *obj, uint64_t pgoff, uint64_t nr, uint64_t *end)
{
	const struct live_file *lf = __atomic_load_n(&obj->owner, __ATOMIC_ACQUIRE);
	const struct file_change what = { .op = FILE_ROOM,
					  .off = pgoff << PAGE_SHIFT,
					  .len = nr << PAGE_SHIFT,
					  .now = live_now(),
					  .privileged = live_is_privileged(),
					  /* The node may not know yet how long the file is. */
					  .ahead = lf && READ_ONCE(lf->behind) };
	uint32_t node = READ_ONCE(obj->node);
	struct file_state state;
	int err = file_node_change(&obj->file, &node, &what, &state);

	/* Its successor, or the same with a claim that it has lost meanwhile. */
	if ((err == -EHOSTDOWN && !node) || err == -ESTALE || err == -ELOOP)
		err = file_node_change(&obj->file, &node, &what, &state);
	if (!err)
		*end = state.pos >> PAGE_SHIFT;
	return err;
}

/* --- write-behind ---------------------------------------------------------------------- */

/* One object that is due; false: it has to wait. */
static bool write_behind(struct object *obj)
{
	const int err = live_write_back(obj, 0, UINT64_MAX, false);

	object_put(obj);
	return !err;
}

/* Of the files of one storage node; these stay. */
struct live_mount {
	struct list_head link; /* mounts.lock */
	uint32_t node;         /* const */
	bool may_be_behind;    /* const */
	struct mutex all;      /* RANK_FILE */
};

static struct {
	struct spinlock lock; /* RANK_SPIN_FS */
	struct list_head list __guarded_by(&lock);
} mounts = { .lock = SPINLOCK_INIT("live.mounts", RANK_SPIN_FS),
	     .list = { &mounts.list, &mounts.list } };

/* That of @node, or NULL; @node 0: the one behind @after, or the first. */
static struct live_mount *find_mount(uint32_t node, const struct live_mount *after)
{
	struct live_mount *m, *found = NULL;
	bool begun = !after;

	spin_lock(&mounts.lock);
	list_for_each_entry(m, &mounts.list, link) {
		if (begun && (!node || m->node == node)) {
			found = m;
			break;
		}
		begun |= m == after;
	}
	spin_unlock(&mounts.lock);
	return found;
}

bool live_may_be_behind(uint32_t node)
{
	const struct live_mount *m = find_mount(node, NULL);

	return m && m->may_be_behind;
}

static void write_behind_thread(void *arg)
{
	const struct live_mount *m = arg;
	struct object *obj;

	for (;;) {
		file_dirty_wait_due(m->node, time_now_ns() + NSEC_PER_SEC);
		while ((obj = file_dirty_next_due(m->node))) {
			if (!write_behind(obj))
				thread_sleep_ns(RETRY_NS); /* its node does not take it now */
		}
	}
}

static int flush_mount(struct live_mount *m)
{
	struct object *obj;
	uint64_t round;
	int err = mutex_lock_killable(&m->all), first = 0;

	if (err)
		return err;
	round = file_dirty_round();
	while (err != -EINTR && (obj = file_dirty_next_of(round, m->node))) {
		err = live_write_back(obj, 0, UINT64_MAX, false);
		object_put(obj);
		if (!first)
			first = err;
	}
	mutex_unlock(&m->all);
	return first;
}

int live_flush_node(uint32_t node)
{
	struct live_mount *m = find_mount(node, NULL);

	return m ? flush_mount(m) : 0;
}

int live_flush_all(void)
{
	struct live_mount *m = NULL;
	int err = 0, first = 0;

	while (err != -EINTR && (m = find_mount(0, m))) {
		err = flush_mount(m);
		if (!first)
			first = err;
	}
	return first;
}

static int start_mount(struct live_mount *m)
{
	struct thread *t = thread_create("file-write-behind", write_behind_thread, m);

	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	spin_lock(&mounts.lock);
	list_add_tail(&m->link, &mounts.list);
	spin_unlock(&mounts.lock);
	return 0;
}

int live_maps_init(uint32_t node, uint64_t block)
{
	static const struct file_dirty_ops ops = { .size = size_at_node,
						   .room = room_at_node,
						   .flush = live_write_back };
	struct live_mount *m;
	int err;

	if (find_mount(node, NULL))
		return 0;
	m = kzalloc(sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->node = node;
	m->may_be_behind = block == PAGE_SIZE;
	mutex_init(&m->all, "live.all", RANK_FILE);
	file_dirty_set_ops(&ops);
	kept_set_flush(live_flush_node);
	err = start_mount(m);
	if (err)
		kfree(m);
	return err;
}
