/* SPDX-License-Identifier: MIT */
/*
 * Pipes and FIFOs.
 *
 * Flow:	the ring has slots of one page each; head and tail count for ever, slot = count %
 *		nr_slots. A write fills the rest of the last page if the part that does not fill a
 *		page of its own fits there, else it takes new slots; so a write of at most PIPE_BUF
 *		(one page) lies in one slot and is atomic. Pages are allocated when they are
 *		written; two are kept for the next write. The program that opened the ring pays
 *		for the most pages that it has held. A write wakes one reader when the ring stops
 *		being empty, and a read wakes one writer when it stops being full. A woken thread
 *		that leaves something behind wakes the next one, and so does one that is killed
 *		before it has looked. The last close of a side wakes the whole other side.
 * Locking:	pipe.lock (RANK_PIPE) is held over the copies, which may fault and sleep, so it is
 *		taken killably; the close of an end does not wait for it at all: who has the lock
 *		counts the end out when it takes it or lets go (pipe_lock(), pipe_unlock()). head,
 *		tail, nr_slots, readers and writers change under it and are read without it by poll
 *		and by wait conditions.
 * Failure:	as Linux: bytes moved before a fault or a signal are returned.
 * See:		splice.c
 */
#include "pipe.h"

#include <arch/uaccess.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/vfs/file.h>
#include <processor/vfs/inode.h>
#include <processor/vfs/uio.h>

#include "pipe_limit_private.h"
#include "pipe_private.h"

static uint64_t last_ino; /* atomic */

/* --- pages --------------------------------------------------------------------------- */

static int charge_page(struct pipe *p) __must_hold(&p->lock)
{
	int err;

	if (p->nr_pages < p->charged_pages)
		return 0;
	err = kmem_charge(kmem_account_of(p->slots), PAGE_SIZE);
	if (!err)
		p->charged_pages++;
	return err;
}

uint8_t *pipe_page_get(struct pipe *p)
{
	struct frame *f;

	assert_mutex_held(&p->lock);
	if (p->nr_spares)
		return p->spares[--p->nr_spares];
	if (charge_page(p))
		return NULL;
	f = frame_alloc(0, 0);
	if (!f)
		return NULL;
	p->nr_pages++;
	return frame_to_virt(f);
}

static void page_free(struct pipe *p, uint8_t *page) __must_hold(&p->lock)
{
	ASSERT(p->nr_pages);
	p->nr_pages--;
	frame_free(virt_to_frame(page), 0);
}

static void page_put(struct pipe *p, uint8_t *page) __must_hold(&p->lock)
{
	if (p->nr_spares < MAX_SPARES)
		p->spares[p->nr_spares++] = page;
	else
		page_free(p, page);
}

static void drop_contents(struct pipe *p) __must_hold(&p->lock)
{
	for (uint32_t i = p->tail; i != p->head; i++)
		page_put(p, pipe_slot_at(p, i)->page);
	if (p->back.page)
		page_put(p, p->back.page);
	p->back = (struct pipe_slot){ 0 };
	__atomic_store_n(&p->back_len, 0, __ATOMIC_RELEASE);
	while (p->nr_spares)
		page_free(p, p->spares[--p->nr_spares]);
	kmem_uncharge(kmem_account_of(p->slots), (size_t)p->charged_pages * PAGE_SIZE);
	p->charged_pages = 0;
	p->head = 0;
	p->tail = 0;
}

/* --- life ---------------------------------------------------------------------------- */

struct pipe *pipe_create(void)
{
	struct pipe *p = kmem_alloc(kmem_current(), sizeof(*p));

	if (!p)
		return ERR_PTR(-ENOMEM);
	refcount_set(&p->refs, 1);
	mutex_init(&p->lock, "pipe", RANK_PIPE);
	mutex_init(&p->splice_lock, "pipe.splice", RANK_SPLICE);
	waitqueue_init(&p->rd_wait);
	waitqueue_init(&p->wr_wait);
	p->ino = __atomic_add_fetch(&last_ino, 1, __ATOMIC_RELAXED);
	p->born_s = (int64_t)(time_real_ns() / 1000000000u);
	return p;
}

/* The ring, for the first that opens an end. -ENFILE, -ENOMEM. */
static int ring_create(struct pipe *p, uint32_t uid) __must_hold(&p->lock)
{
	struct pipe_user *user;
	uint32_t nr;

	if (p->nr_slots)
		return 0;
	user = pipe_user_get(uid);
	if (!user)
		return -ENOMEM;
	nr = pipe_charge_new(user, kmem_current(), PIPE_DEF_SLOTS);
	p->slots = nr ? kmem_alloc(kmem_current(), nr * sizeof(*p->slots)) : NULL;
	if (!p->slots) {
		if (nr)
			pipe_uncharge(user, kmem_current(), nr);
		pipe_user_put(user);
		return nr ? -ENOMEM : -ENFILE;
	}
	p->user = user;
	__atomic_store_n(&p->nr_slots, nr, __ATOMIC_RELEASE);
	return 0;
}

static void ring_destroy(struct pipe *p) __must_hold(&p->lock)
{
	if (!p->nr_slots)
		return;
	drop_contents(p);
	pipe_uncharge(p->user, kmem_account_of(p->slots), p->nr_slots);
	kmem_free(p->slots);
	p->slots = NULL;
	pipe_user_put(p->user);
	p->user = NULL;
	__atomic_store_n(&p->nr_slots, 0, __ATOMIC_RELEASE);
}

/* --- the end of an end --------------------------------------------------------------- */

static bool has_closed(const struct pipe *p)
{
	return __atomic_load_n(&p->r_closed, __ATOMIC_SEQ_CST) ||
	       __atomic_load_n(&p->w_closed, __ATOMIC_SEQ_CST);
}

/* Ends that have closed since do not count any more; if a side has none left, all wake. */
static void count_out(struct pipe *p) __must_hold(&p->lock)
{
	const uint32_t r = __atomic_exchange_n(&p->r_closed, 0, __ATOMIC_SEQ_CST);
	const uint32_t w = __atomic_exchange_n(&p->w_closed, 0, __ATOMIC_SEQ_CST);

	assert_mutex_held(&p->lock);
	ASSERT(r <= p->readers && w <= p->writers);
	if (!r && !w)
		return;
	__atomic_store_n(&p->readers, p->readers - r, __ATOMIC_RELEASE);
	__atomic_store_n(&p->writers, p->writers - w, __ATOMIC_RELEASE);
	if (!p->readers && !p->writers)
		ring_destroy(p);
	if (!p->readers || !p->writers) {
		wake_all(&p->rd_wait);
		wake_all(&p->wr_wait);
	}
}

int pipe_lock(struct pipe *p)
{
	const int err = mutex_lock_killable(&p->lock);

	if (!err && has_closed(p))
		count_out(p);
	return err;
}

/*
 * Ordering: who closes an end says so and then tries the lock; we let go of the lock and then look.
 * One of the two sees the other.
 */
void pipe_unlock(struct pipe *p)
	__no_lock_analysis("takes the lock again for an end that was closed meanwhile")
{
	do {
		count_out(p);
		mutex_unlock(&p->lock);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	} while (has_closed(p) && mutex_trylock(&p->lock));
}

/* Never waits: the lock may be held for as long as a node is silent. */
static void close_end(struct pipe *p, const struct file *f)
{
	__atomic_fetch_add(&p->r_closed, file_readable(f), __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&p->w_closed, file_writable(f), __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (mutex_trylock(&p->lock))
		pipe_unlock(p);
}

void pipe_put(struct pipe *p)
{
	if (!refcount_dec_and_test(&p->refs))
		return;
	lock_not_needed(&p->lock, "the last reference is gone");
	ring_destroy(p);
	kmem_free(p);
}

/* --- reading ------------------------------------------------------------------------- */

/*
 * Read from the oldest slot. Data that does not arrive whole stays in the pipe: -EFAULT. *@stop
 * when the read ends here whatever room is left.
 */
static ssize_t take(struct pipe *p, struct uio *uio, bool *stop) __must_hold(&p->lock)
{
	const bool back = p->back.len;
	struct pipe_slot *s = back ? &p->back : pipe_slot_at(p, p->tail);
	const uint32_t n = (uint32_t)MIN((uint64_t)s->len, uio->left);

	assert_mutex_held(&p->lock);
	if (uio_put(uio, s->page + s->off, n) < n)
		return -EFAULT;
	s->off += n;
	s->len -= n;
	if (s->packet) {
		s->len = 0;
		*stop = true;
	}
	if (back) {
		__atomic_store_n(&p->back_len, s->len, __ATOMIC_RELEASE);
	} else if (!s->len) {
		page_put(p, s->page);
		s->page = NULL;
		__atomic_store_n(&p->tail, p->tail + 1, __ATOMIC_RELEASE);
	}
	return (ssize_t)n;
}

/* All that is there, up to what is wanted. */
static ssize_t take_all(struct pipe *p, struct uio *uio) __must_hold(&p->lock)
{
	bool stop = false;
	ssize_t done = 0;

	assert_mutex_held(&p->lock);
	while (uio->left && !stop && !pipe_empty(p)) {
		const ssize_t n = take(p, uio, &stop);

		if (n < 0)
			return done ? done : n;
		done += n;
	}
	return done;
}

ssize_t pipe_take(struct pipe *p, struct uio *uio, bool nonblock)
{
	bool was_full, room, more, slept = false;
	ssize_t ret;

	if (!uio->left)
		return 0;
	ret = pipe_lock(p);
	if (ret)
		return ret;
	for (;;) {
		was_full = pipe_full(p);
		ret = take_all(p, uio);
		if (ret || !p->writers)
			break;
		if (nonblock) {
			ret = -EAGAIN;
			break;
		}
		pipe_unlock(p);
		if (wait_event_interruptible(&p->rd_wait, pipe_may_read(p)))
			return -ERESTARTSYS;
		slept = true;
		ret = pipe_lock(p);
		if (ret) { /* killed: the wake-up that came to us is another reader's */
			pipe_wake(&p->rd_wait);
			return ret;
		}
	}
	room = was_full && !pipe_full(p);
	more = slept && !pipe_empty(p);
	pipe_unlock(p);
	if (room)
		pipe_wake(&p->wr_wait);
	if (more)
		pipe_wake(&p->rd_wait);
	return ret;
}

static ssize_t pipe_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	return pipe_take(f->private, uio, file_nonblock(f) || uio->nowait);
}

/* --- writing ------------------------------------------------------------------------- */

/* The part that does not fill a page goes behind the last write, if all of it fits. */
static ssize_t merge(struct pipe *p, struct uio *uio) __must_hold(&p->lock)
{
	const uint32_t n = (uint32_t)(uio->left & (PAGE_SIZE - 1));
	struct pipe_slot *s;

	assert_mutex_held(&p->lock);
	if (!n || p->head == p->tail)
		return 0;
	s = pipe_slot_at(p, p->head - 1);
	if (s->packet || s->off + s->len + n > PAGE_SIZE)
		return 0;
	if (uio_fetch(uio, s->page + s->off + s->len, n) < n)
		return -EFAULT;
	s->len += n;
	return (ssize_t)n;
}

void pipe_push(struct pipe *p, uint8_t *page, uint32_t len)
{
	assert_mutex_held(&p->lock);
	ASSERT(p->head - p->tail < p->nr_slots);
	*pipe_slot_at(p, p->head) = (struct pipe_slot){ .page = page, .len = len };
	__atomic_store_n(&p->head, p->head + 1, __ATOMIC_RELEASE);
}

/* A new slot; as Linux, nothing of one that a fault cut short. */
static ssize_t append(struct pipe *p, struct uio *uio, bool packet) __must_hold(&p->lock)
{
	const uint32_t n = (uint32_t)MIN(uio->left, (uint64_t)PAGE_SIZE);
	uint8_t *page = pipe_page_get(p);

	if (!page)
		return -ENOMEM;
	if (uio_fetch(uio, page, n) < n) {
		page_put(p, page);
		return -EFAULT;
	}
	pipe_push(p, page, n);
	pipe_slot_at(p, p->head - 1)->packet = packet;
	return (ssize_t)n;
}

/*
 * As much as there is room for now. 0 when all is written or the ring is full; the errno that ends
 * the call; *@done grows.
 */
static int put_all(struct pipe *p, struct uio *uio, bool packet, ssize_t *done)
	__must_hold(&p->lock)
{
	assert_mutex_held(&p->lock);
	while (uio->left) {
		ssize_t n;

		if (!p->readers)
			return -EPIPE;
		if (pipe_full(p))
			return 0;
		n = append(p, uio, packet);
		if (n < 0)
			return (int)n;
		*done += n;
	}
	return 0;
}

static ssize_t pipe_write(struct file *f, struct uio *uio, uint64_t *pos)
{
	struct pipe *p = f->private;
	const bool packet = f->flags & O_DIRECT;
	bool was_empty, room, slept = false;
	ssize_t done = 0, n;
	int err;

	if (!uio->left)
		return 0;
	err = pipe_lock(p);
	if (err)
		return err;
	was_empty = p->head == p->tail;
	n = p->readers ? merge(p, uio) : 0;
	if (n > 0)
		done = n;
	err = n < 0 ? (int)n : 0;
	while (!err) {
		err = put_all(p, uio, packet, &done);
		if (err || !uio->left)
			break;
		if (file_nonblock(f) || uio->nowait) {
			err = -EAGAIN;
			break;
		}
		pipe_unlock(p);
		if (was_empty)
			pipe_wake(&p->rd_wait);
		err = wait_event_interruptible(&p->wr_wait, pipe_may_write(p));
		slept = true;
		if (pipe_lock(p)) { /* as in pipe_read() */
			pipe_wake(&p->wr_wait);
			return done ? done : -EINTR;
		}
		was_empty = p->head == p->tail;
		if (err)
			err = -ERESTARTSYS;
	}
	room = slept && !pipe_full(p);
	was_empty = was_empty && p->head != p->tail;
	pipe_unlock(p);
	if (was_empty || (done && waitqueue_watched(&p->rd_wait))) /* edges, for epoll */
		pipe_wake(&p->rd_wait);
	if (room)
		pipe_wake(&p->wr_wait);
	if (err == -EPIPE)
		signal_raise_sigpipe();
	return done ? done : err;
}

/* --- the rest of a file -------------------------------------------------------------- */

/*
 * An end hangs up when the writers that it has seen are gone; a FIFO's that had none yet does not.
 */
static unsigned int pipe_poll(struct file *f)
{
	const struct pipe *p = f->private;
	unsigned int events = 0;

	if (file_readable(f)) {
		if (!pipe_empty(p))
			events |= POLLIN | POLLRDNORM;
		if (!READ_ONCE(p->writers) && f->minor != READ_ONCE(p->w_opened))
			events |= POLLHUP;
	}
	if (file_writable(f)) {
		if (!pipe_full(p))
			events |= POLLOUT | POLLWRNORM;
		if (!READ_ONCE(p->readers))
			events |= POLLERR;
	}
	return events;
}

static struct waitqueue *pipe_poll_wait(struct file *f)
{
	struct pipe *p = f->private;

	return file_readable(f) ? &p->rd_wait : &p->wr_wait;
}

static struct waitqueue *pipe_poll_wait_out(struct file *f)
{
	struct pipe *p = f->private;

	return file_writable(f) ? &p->wr_wait : &p->rd_wait;
}

static long pipe_ioctl(struct file *f, uint32_t cmd, uint64_t arg)
{
	struct pipe *p = f->private;
	uint64_t bytes = 0;
	int err;

	if (cmd != FIONREAD)
		return -ENOTTY;
	err = pipe_lock(p);
	if (err)
		return err;
	for (uint32_t i = p->tail; i != p->head; i++)
		bytes += pipe_slot_at(p, i)->len;
	bytes += p->back.len;
	pipe_unlock(p);
	return put_user_u32((uint32_t)bytes, (void __user *)arg);
}

static int pipe_stat(struct file *f, struct file_attr *attr)
{
	const struct pipe *p = f->private;

	*attr = (struct file_attr){ 0 };
	attr->file.ino = p->ino;
	attr->fsid = 14;
	attr->mode = 0010600;
	attr->nlink = 1;
	attr->blksize = PAGE_SIZE;
	attr->uid = p->uid;
	attr->gid = p->gid;
	attr->atime.sec = attr->mtime.sec = attr->ctime.sec = p->born_s;
	return 0;
}

static int fifo_stat(struct file *f, struct file_attr *attr)
{
	return inode_getattr(f->inode, attr);
}

static void pipe_release(struct file *f)
{
	struct pipe *p = f->private;

	if (!p)
		return; /* a FIFO whose open failed */
	close_end(p, f);
	pipe_put(p);
}

#define PIPE_FILE_OPS                                                                    \
	.read = pipe_read, .write = pipe_write, .ioctl = pipe_ioctl, .poll = pipe_poll,  \
	.async = true, .poll_wait = pipe_poll_wait, .poll_wait_out = pipe_poll_wait_out, \
	.release = pipe_release

static const struct file_ops pipe_ops = {
	.name = "pipe",
	.magic = 0x50495045,
	.stat = pipe_stat,
	PIPE_FILE_OPS,
};

const struct file_ops fifo_ops = {
	.name = "fifo",
	.stat = fifo_stat,
	PIPE_FILE_OPS,
};

struct pipe *pipe_of(const struct file *f)
{
	return f->ops->read == pipe_read ? f->private : NULL;
}

/* --- opening ------------------------------------------------------------------------- */

static void open_end_locked(struct pipe *p, const struct file *f)
{
	assert_mutex_held(&p->lock);
	if (file_readable(f)) {
		__atomic_store_n(&p->readers, p->readers + 1, __ATOMIC_RELEASE);
		__atomic_store_n(&p->r_opened, p->r_opened + 1, __ATOMIC_RELEASE);
	}
	if (file_writable(f)) {
		__atomic_store_n(&p->writers, p->writers + 1, __ATOMIC_RELEASE);
		__atomic_store_n(&p->w_opened, p->w_opened + 1, __ATOMIC_RELEASE);
	}
}

static struct file *end_create(struct pipe *p, uint32_t flags)
{
	struct file *f = file_create(&pipe_ops, flags, NULL);

	if (IS_ERR(f))
		return f;
	refcount_inc(&p->refs);
	f->private = p;
	mutex_lock(&p->lock);
	open_end_locked(p, f);
	pipe_unlock(p);
	return f;
}

int pipe_open(uint32_t flags, struct file *ends[2])
{
	struct pipe *p = pipe_create();
	int err;

	if (IS_ERR(p))
		return -ENFILE; /* as Linux, where it is an inode */
	lock_not_needed(&p->lock, "nothing else knows the pipe yet");
	p->uid = cred_current()->fsuid;
	p->gid = cred_current()->fsgid;
	err = ring_create(p, p->uid) ? -ENFILE : 0;
	if (err)
		goto out;
	ends[0] = end_create(p, O_RDONLY | (flags & O_NONBLOCK));
	if (IS_ERR(ends[0])) {
		err = PTR_ERR(ends[0]);
		goto out;
	}
	ends[1] = end_create(p, O_WRONLY | (flags & (O_NONBLOCK | O_DIRECT)));
	if (IS_ERR(ends[1])) {
		err = PTR_ERR(ends[1]);
		file_put(ends[0]);
	}
out:
	pipe_put(p); /* the ends have their own */
	return err;
}

/* Sleep until the other side has been opened since @seen was read, even if it has gone again. */
static int wait_for_partner(struct waitqueue *wq, const uint32_t *opened, uint32_t seen)
{
	return wait_event_interruptible(wq, __atomic_load_n(opened, __ATOMIC_ACQUIRE) != seen)
		       ? -ERESTARTSYS
		       : 0;
}

int fifo_open(struct file *f, struct pipe *p)
{
	const uint32_t acc = f->flags & O_ACCMODE;
	uint32_t r_seen, w_seen;
	bool alone;
	int err;

	err = pipe_lock(p);
	if (err)
		return err;
	if (acc == O_WRONLY && file_nonblock(f) && !p->readers)
		err = -ENXIO;
	else
		err = ring_create(p, cred_current()->fsuid);
	if (err) {
		pipe_unlock(p);
		return err;
	}
	r_seen = p->r_opened;
	w_seen = p->w_opened;
	/* One that is there now may go before we look again: it has been met all the same. */
	alone = acc == O_RDONLY ? !p->writers && !file_nonblock(f) : acc == O_WRONLY && !p->readers;
	/* A reader that does not wait must not see "hung up" before there was a writer. */
	f->minor = acc == O_RDONLY && !p->writers ? w_seen : w_seen - 1;
	f->private = p;
	refcount_inc(&p->refs);
	open_end_locked(p, f);
	pipe_unlock(p);
	wake_all(&p->rd_wait);
	wake_all(&p->wr_wait);
	if (alone && acc == O_RDONLY)
		err = wait_for_partner(&p->rd_wait, &p->w_opened, w_seen);
	else if (alone)
		err = wait_for_partner(&p->wr_wait, &p->r_opened, r_seen);
	if (err) {
		pipe_release(f);
		f->private = NULL;
	}
	return err;
}

/* --- size ---------------------------------------------------------------------------- */

long pipe_size(const struct pipe *p)
{
	return (long)READ_ONCE(p->nr_slots) << PAGE_SHIFT;
}

static int resize_locked(struct pipe *p, uint32_t nr)
{
	const uint32_t used = p->head - p->tail + p->reserved, old = p->nr_slots;
	struct pipe_slot *slots;
	int err;

	assert_mutex_held(&p->lock);
	if (nr < used)
		return -EBUSY;
	slots = kmem_alloc(kmem_account_of(p->slots), nr * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	err = pipe_recharge(p->user, kmem_account_of(slots), old, nr);
	if (err) {
		kmem_free(slots);
		return err;
	}
	for (uint32_t i = p->tail; i != p->head; i++)
		slots[i & (nr - 1)] = *pipe_slot_at(p, i);
	kmem_free(p->slots);
	p->slots = slots;
	__atomic_store_n(&p->nr_slots, nr, __ATOMIC_RELEASE);
	return 0;
}

long pipe_set_size(struct pipe *p, uint64_t bytes)
{
	uint32_t nr = 1;
	bool room;
	int err;

	if (bytes > 1u << 31)
		return -EINVAL;
	while (((uint64_t)nr << PAGE_SHIFT) < bytes)
		nr *= 2;
	err = pipe_lock(p);
	if (err)
		return err;
	if (nr > p->nr_slots && ((uint64_t)nr << PAGE_SHIFT) > PIPE_MAX_SIZE &&
	    !capable(CAP_SYS_RESOURCE))
		err = -EPERM;
	else
		err = resize_locked(p, nr);
	room = !pipe_full(p);
	pipe_unlock(p);
	if (room)
		wake_all(&p->wr_wait);
	return err ? err : (long)nr << PAGE_SHIFT;
}
