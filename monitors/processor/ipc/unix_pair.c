/* SPDX-License-Identifier: MIT */
/*
 * Connected pairs of AF_UNIX sockets.
 *
 * Flow:	each end has a queue of chunks to read, at most a page each. The chunks of a message
 *		of a datagram or packet socket are queued together, and the last one is marked. A
 *		chunk counts against the writer's buffer size until it is read: a writer may begin
 *		while less than that size is queued. A change wakes every thread at the queue
 *		concerned.
 * Locking:	pair.lock (RANK_PIPE) guards both ends and is held over the copies, which may fault
 *		and sleep. The fields that poll and wait conditions read change under it and are
 *		read without it.
 * Invariants:	both files hold the pair; an end that is closed drops its queue.
 * Limits:	no ancillary data, so no descriptors travel; all sockets of the node together keep
 *		no more than a sixteenth of its memory: ENOBUFS.
 */
#include "socket.h"

#include <abi/ioctl.h>
#include <abi/socket.h>
#include <arch/uaccess.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/list.h>
#include <mm/frame.h>
#include <mm/slab.h>
#include <processor/process/process.h>
#include <processor/vfs/uio.h>

#define DEF_SNDBUF  212992u
#define NODE_SHARE  16
/* Directions that are closed, as bits: SHUT_RD, SHUT_WR, SHUT_RDWR and one. */
#define CLOSED_RD   1u
#define CLOSED_WR   2u
#define CLOSED_BOTH (CLOSED_RD | CLOSED_WR)

#define MSG_KNOWN (MSG_DONTROUTE | MSG_DONTWAIT | MSG_EOR | MSG_NOSIGNAL)

struct chunk {
	struct list_head node;
	uint32_t off, len;
	bool last; /* of its message */
	uint8_t data[];
};

#define CHUNK_DATA (PAGE_SIZE - sizeof(struct chunk))

struct end {
	struct list_head queue; /* pair.lock: chunks to read */
	uint32_t queued;        /* pair.lock: what they take */
	uint32_t shut;          /* pair.lock: CLOSED_* */
	int error;              /* pair.lock: positive; told once */
	bool open;              /* pair.lock */
	bool alone;      /* pair.lock: a datagram socket that has been told that its peer is gone */
	uint32_t sndbuf; /* atomic: of what this end writes */
	struct waitqueue rd_wait, wr_wait;
};

struct pair {
	struct mutex lock; /* RANK_PIPE */
	refcount_t refs;
	uint32_t type; /* const */
	uint64_t ino;  /* const: of the first end, the second's follows */
	int64_t born_s;
	struct socket_cred cred; /* const */
	struct end end[2];
};

static uint64_t last_ino;    /* atomic */
static int64_t total_queued; /* atomic: bytes at all sockets */

static struct pair *pair_of(const struct file *f)
{
	return f->private;
}

static struct end *own(const struct file *f)
{
	return &pair_of(f)->end[f->minor];
}

static struct end *other(const struct file *f)
{
	return &pair_of(f)->end[!f->minor];
}

static void wake(struct waitqueue *wq)
{
	if (waitqueue_active(wq))
		wake_all(wq);
}

static void wake_end(struct end *e)
{
	wake(&e->rd_wait);
	wake(&e->wr_wait);
}

/* --- chunks -------------------------------------------------------------------------- */

static uint32_t cost(const struct chunk *c)
{
	return (uint32_t)sizeof(*c) + c->off + c->len;
}

static void chunk_free(struct chunk *c)
{
	__atomic_sub_fetch(&total_queued, (int64_t)cost(c), __ATOMIC_RELAXED);
	kfree(c);
}

static void free_all(struct list_head *chunks)
{
	struct chunk *c, *next;

	list_for_each_entry_safe(c, next, chunks, node) {
		list_del(&c->node);
		chunk_free(c);
	}
}

/* As much of @uio as one chunk takes. ERR_PTR(-ENOBUFS, -EFAULT) */
static struct chunk *chunk_fetch(struct uio *uio)
{
	const uint32_t n = (uint32_t)MIN(uio->left, (uint64_t)CHUNK_DATA);
	const int64_t max = (int64_t)(frames_total_count() * PAGE_SIZE / NODE_SHARE);
	struct chunk *c = kmalloc(sizeof(*c) + n);

	if (!c)
		return ERR_PTR(-ENOBUFS);
	c->off = 0;
	c->len = n;
	c->last = uio->left == n;
	if (__atomic_add_fetch(&total_queued, (int64_t)cost(c), __ATOMIC_RELAXED) > max) {
		chunk_free(c);
		return ERR_PTR(-ENOBUFS);
	}
	if (uio_fetch(uio, c->data, n) < n) {
		chunk_free(c);
		return ERR_PTR(-EFAULT);
	}
	return c;
}

static void push(struct end *to, struct list_head *chunks)
{
	const struct chunk *c;
	uint32_t bytes = 0;

	list_for_each_entry(c, chunks, node)
		bytes += cost(c);
	list_splice_tail(chunks, &to->queue);
	__atomic_store_n(&to->queued, to->queued + bytes, __ATOMIC_RELEASE);
}

static void pop(struct end *e, struct chunk *c)
{
	list_del(&c->node);
	ASSERT(e->queued >= cost(c));
	__atomic_store_n(&e->queued, e->queued - cost(c), __ATOMIC_RELEASE);
	chunk_free(c);
}

/* --- sending ------------------------------------------------------------------------- */

static bool has_room(const struct end *from, const struct end *to)
{
	return __atomic_load_n(&to->queued, __ATOMIC_ACQUIRE) < READ_ONCE(from->sndbuf);
}

/* The errno that keeps an end from writing for good; 0: none. */
static int broken(const struct pair *p, const struct end *from, const struct end *to)
{
	if (READ_ONCE(from->shut) & CLOSED_WR)
		return -EPIPE;
	if (!READ_ONCE(to->open))
		return p->type == SOCK_DGRAM ? -ECONNREFUSED : -EPIPE;
	return READ_ONCE(to->shut) & CLOSED_RD ? -EPIPE : 0;
}

/* Wait until a message may be put in. The lock is held, and let go of meanwhile. */
static int wait_for_room(struct pair *p, struct file *f, uint32_t flags) __must_hold(&p->lock)
{
	struct end *from = own(f), *to = other(f);
	int err = broken(p, from, to);

	assert_mutex_held(&p->lock);
	while (!err && !has_room(from, to)) {
		if (file_nonblock(f) || (flags & MSG_DONTWAIT))
			return -EAGAIN;
		mutex_unlock(&p->lock);
		err = wait_event_interruptible(&from->wr_wait,
					       has_room(from, to) || broken(p, from, to));
		mutex_lock(&p->lock);
		err = err ? -ERESTARTSYS : broken(p, from, to);
	}
	return err;
}

/* Bytes of a stream, as they fit. */
static ssize_t send_stream(struct pair *p, struct file *f, struct uio *uio, uint32_t flags)
	__must_hold(&p->lock)
{
	struct list_head one;
	ssize_t done = 0;

	assert_mutex_held(&p->lock);
	while (uio->left) {
		int err = wait_for_room(p, f, flags);
		struct chunk *c = err ? ERR_PTR(err) : chunk_fetch(uio);

		if (IS_ERR(c))
			return done ? done : PTR_ERR(c);
		done += c->len;
		list_init(&one);
		list_add_tail(&c->node, &one);
		push(other(f), &one);
		wake(&other(f)->rd_wait);
	}
	return done;
}

/* All of a message, or nothing. */
static ssize_t send_message(struct pair *p, struct file *f, struct uio *uio, uint32_t flags)
	__must_hold(&p->lock)
{
	const ssize_t len = (ssize_t)uio->left;
	struct list_head chunks;
	struct chunk *c;
	int err;

	assert_mutex_held(&p->lock);
	if (uio->left + sizeof(*c) > READ_ONCE(own(f)->sndbuf))
		return -EMSGSIZE;
	err = wait_for_room(p, f, flags);
	if (err == -ECONNREFUSED) {
		err = own(f)->alone ? -ENOTCONN : err;
		own(f)->alone = true;
	}
	if (err)
		return err;
	list_init(&chunks);
	do {
		c = chunk_fetch(uio);
		if (IS_ERR(c)) {
			free_all(&chunks);
			return PTR_ERR(c);
		}
		list_add_tail(&c->node, &chunks);
	} while (!c->last);
	push(other(f), &chunks);
	wake(&other(f)->rd_wait);
	return len;
}

ssize_t unix_send(struct file *f, struct uio *uio, uint32_t flags)
{
	struct pair *p = pair_of(f);
	const bool stream = p->type == SOCK_STREAM;
	ssize_t ret;

	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (flags & ~MSG_KNOWN)
		return -EINVAL;
	mutex_lock(&p->lock);
	if (stream && !uio->left)
		ret = own(f)->shut & CLOSED_WR ? -EPIPE : 0;
	else
		ret = stream ? send_stream(p, f, uio, flags) : send_message(p, f, uio, flags);
	mutex_unlock(&p->lock);
	if (ret == -EPIPE && stream && !(flags & MSG_NOSIGNAL))
		signal_raise_sigpipe();
	return ret;
}

/* --- receiving ----------------------------------------------------------------------- */

static bool may_read(const struct end *e)
{
	return __atomic_load_n(&e->queued, __ATOMIC_ACQUIRE) || READ_ONCE(e->error) ||
	       (READ_ONCE(e->shut) & CLOSED_RD);
}

/*
 * Wait for something to read: 1; 0: the end; the errno. The lock is held, and let go of meanwhile.
 */
static int wait_for_data(struct pair *p, struct file *f, uint32_t flags) __must_hold(&p->lock)
{
	struct end *e = own(f);
	const bool nonblock = file_nonblock(f) || (flags & MSG_DONTWAIT);

	assert_mutex_held(&p->lock);
	for (;;) {
		int err;

		/* A stream gives what it has before it tells of an error, the others after. */
		if (!list_empty(&e->queue) && (p->type == SOCK_STREAM || !e->error))
			return 1;
		if (e->error) {
			err = -e->error;
			e->error = 0;
			return err;
		}
		if ((e->shut & CLOSED_RD) && !(nonblock && p->type == SOCK_DGRAM))
			return 0;
		if (nonblock)
			return -EAGAIN;
		mutex_unlock(&p->lock);
		err = wait_event_interruptible(&e->rd_wait, may_read(e));
		mutex_lock(&p->lock);
		if (err)
			return -ERESTARTSYS;
	}
}

/* Read up to what is wanted; a chunk that does not arrive whole stays. */
static ssize_t take_stream(struct end *e, struct uio *uio, bool peek)
{
	struct chunk *c, *next;
	ssize_t done = 0;

	list_for_each_entry_safe(c, next, &e->queue, node) {
		const uint32_t n = (uint32_t)MIN((uint64_t)c->len, uio->left);

		if (!uio->left)
			break;
		if (uio_put(uio, c->data + c->off, n) < n)
			return done ? done : -EFAULT;
		done += n;
		if (peek)
			continue;
		c->off += n;
		c->len -= n;
		if (!c->len)
			pop(e, c);
	}
	return done;
}

/*
 * One message: what of it there is no room for is lost. As on Linux, one that does not arrive whole
 * is lost too.
 */
static ssize_t take_message(struct end *e, struct uio *uio, uint32_t asked, uint32_t *told)
{
	struct chunk *c, *next;
	ssize_t copied = 0, len = 0;
	bool fault = false, last = false;

	list_for_each_entry_safe(c, next, &e->queue, node) {
		const uint32_t n = (uint32_t)MIN((uint64_t)c->len, uio->left);

		if (!fault && uio_put(uio, c->data, n) < n)
			fault = true;
		copied += n;
		len += c->len;
		last = c->last;
		if (!(asked & MSG_PEEK))
			pop(e, c);
		if (last)
			break;
	}
	if (copied < len)
		*told |= MSG_TRUNC;
	if (fault)
		return -EFAULT;
	return asked & MSG_TRUNC ? len : copied;
}

static ssize_t recv_stream(struct pair *p, struct file *f, struct uio *uio, uint32_t flags)
	__must_hold(&p->lock)
{
	const bool peek = flags & MSG_PEEK;
	const bool all = (flags & MSG_WAITALL) && !peek;
	ssize_t done = 0;

	assert_mutex_held(&p->lock);
	if (!uio->left)
		return 0;
	do {
		const int ready = wait_for_data(p, f, flags);
		const ssize_t n = ready > 0 ? take_stream(own(f), uio, peek) : ready;

		if (n <= 0)
			return done ? done : n;
		done += n;
	} while (all && uio->left);
	return done;
}

ssize_t unix_recv(struct file *f, struct uio *uio, uint32_t *flags)
{
	struct pair *p = pair_of(f);
	const uint32_t asked = *flags;
	ssize_t ret;

	*flags = 0;
	if (asked & MSG_OOB)
		return -EOPNOTSUPP;
	mutex_lock(&p->lock);
	if (p->type == SOCK_STREAM) {
		ret = recv_stream(p, f, uio, asked);
	} else {
		ret = wait_for_data(p, f, asked);
		if (ret > 0)
			ret = take_message(own(f), uio, asked, flags);
	}
	mutex_unlock(&p->lock);
	wake(&other(f)->wr_wait);
	return ret;
}

/* --- state --------------------------------------------------------------------------- */

static void shut_locked(struct pair *p, struct end *e, uint32_t how)
{
	assert_mutex_held(&p->lock);
	ASSERT(!(how & ~CLOSED_BOTH));
	__atomic_store_n(&e->shut, e->shut | how, __ATOMIC_RELEASE);
}

int unix_shutdown(struct file *f, unsigned int how)
{
	struct pair *p = pair_of(f);
	const uint32_t mine = how + 1;
	const uint32_t theirs =
		(mine & CLOSED_RD ? CLOSED_WR : 0) | (mine & CLOSED_WR ? CLOSED_RD : 0);

	if (how > SHUT_RDWR)
		return -EINVAL;
	mutex_lock(&p->lock);
	shut_locked(p, own(f), mine);
	if (p->type != SOCK_DGRAM)
		shut_locked(p, other(f), theirs);
	mutex_unlock(&p->lock);
	wake_end(own(f));
	if (p->type != SOCK_DGRAM)
		wake_end(other(f));
	return 0;
}

uint32_t unix_type(const struct file *f)
{
	return pair_of(f)->type;
}

struct socket_cred unix_peer_cred(const struct file *f)
{
	return pair_of(f)->cred;
}

int unix_take_error(struct file *f)
{
	struct pair *p = pair_of(f);
	int err;

	mutex_lock(&p->lock);
	err = own(f)->error;
	own(f)->error = 0;
	mutex_unlock(&p->lock);
	return err;
}

uint32_t unix_sndbuf(const struct file *f)
{
	return READ_ONCE(own(f)->sndbuf);
}

void unix_set_sndbuf(struct file *f, uint32_t bytes)
{
	WRITE_ONCE(own(f)->sndbuf, bytes);
	wake(&own(f)->wr_wait);
}

/* --- the file ------------------------------------------------------------------------ */

static ssize_t socket_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	uint32_t flags = 0;

	return uio->left ? unix_recv(f, uio, &flags) : 0;
}

static ssize_t socket_write(struct file *f, struct uio *uio, uint64_t *pos)
{
	return unix_send(f, uio, 0);
}

static unsigned int socket_poll(struct file *f)
{
	const struct pair *p = pair_of(f);
	const struct end *e = own(f), *o = other(f);
	const uint32_t shut = READ_ONCE(e->shut);
	unsigned int events = 0;

	if (READ_ONCE(e->error))
		events |= POLLERR;
	if (shut == CLOSED_BOTH)
		events |= POLLHUP;
	if (shut & CLOSED_RD)
		events |= POLLRDHUP | POLLIN | POLLRDNORM;
	if (READ_ONCE(e->queued))
		events |= POLLIN | POLLRDNORM;
	/* As Linux: it is worth writing when a good part of the buffer is free. */
	if ((uint64_t)READ_ONCE(o->queued) * 4 <= READ_ONCE(e->sndbuf) ||
	    (p->type == SOCK_DGRAM && !READ_ONCE(o->open)))
		events |= POLLOUT | POLLWRNORM | POLLWRBAND;
	return events;
}

static struct waitqueue *socket_poll_wait(struct file *f)
{
	return &own(f)->rd_wait;
}

static struct waitqueue *socket_poll_wait_out(struct file *f)
{
	return &own(f)->wr_wait;
}

/* The first datagram's length, or all bytes. */
static uint32_t readable_bytes(const struct pair *p, const struct end *e)
{
	const struct chunk *c;
	uint32_t bytes = 0;

	list_for_each_entry(c, &e->queue, node) {
		bytes += c->len;
		if (c->last && p->type == SOCK_DGRAM)
			break;
	}
	return bytes;
}

static long socket_ioctl(struct file *f, uint32_t cmd, uint64_t arg)
{
	struct pair *p = pair_of(f);
	uint32_t bytes;

	if (cmd != FIONREAD && cmd != TIOCOUTQ)
		return -ENOTTY;
	mutex_lock(&p->lock);
	bytes = cmd == FIONREAD ? readable_bytes(p, own(f)) : other(f)->queued;
	mutex_unlock(&p->lock);
	return put_user_u32(bytes, (void __user *)arg);
}

static int socket_stat(struct file *f, struct file_attr *attr)
{
	const struct pair *p = pair_of(f);

	*attr = (struct file_attr){ 0 };
	attr->file.ino = p->ino + f->minor;
	attr->fsid = 8;
	attr->mode = 0140777;
	attr->nlink = 1;
	attr->blksize = PAGE_SIZE;
	attr->uid = p->cred.uid;
	attr->gid = p->cred.gid;
	attr->atime.sec = attr->mtime.sec = attr->ctime.sec = p->born_s;
	return 0;
}

static void pair_put(struct pair *p)
{
	if (refcount_dec_and_test(&p->refs))
		kfree(p);
}

static void socket_release(struct file *f)
{
	struct pair *p = pair_of(f);
	struct end *e, *o;
	bool unread;

	if (!p)
		return; /* of a pair that was not finished */
	e = own(f);
	o = other(f);
	mutex_lock(&p->lock);
	unread = !list_empty(&e->queue);
	free_all(&e->queue);
	__atomic_store_n(&e->queued, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&e->open, false, __ATOMIC_RELEASE);
	if (p->type != SOCK_DGRAM) {
		shut_locked(p, o, CLOSED_BOTH);
		if (unread)
			o->error = ECONNRESET;
	}
	mutex_unlock(&p->lock);
	if (p->type != SOCK_DGRAM)
		wake_end(o);
	else if (unread)
		wake(&o->wr_wait);
	pair_put(p);
}

static const struct file_ops socket_ops = {
	.name = "socket",
	.read = socket_read,
	.write = socket_write,
	.stat = socket_stat,
	.ioctl = socket_ioctl,
	.poll = socket_poll,
	.poll_wait = socket_poll_wait,
	.poll_wait_out = socket_poll_wait_out,
	.release = socket_release,
};

bool file_is_socket(const struct file *f)
{
	return f->ops == &socket_ops;
}

static struct pair *pair_create(uint32_t type)
{
	struct pair *p = kzalloc(sizeof(*p));

	if (!p)
		return NULL;
	mutex_init(&p->lock, "socket", RANK_PIPE);
	refcount_set(&p->refs, 1);
	p->type = type;
	p->ino = __atomic_add_fetch(&last_ino, 2, __ATOMIC_RELAXED);
	p->born_s = (int64_t)(time_real_ns() / 1000000000u);
	p->cred = (struct socket_cred){ .pid = process_current()->pid,
					.uid = cred_current()->euid,
					.gid = cred_current()->egid };
	for (int i = 0; i < 2; i++) {
		struct end *e = &p->end[i];

		list_init(&e->queue);
		e->open = true;
		e->sndbuf = DEF_SNDBUF;
		waitqueue_init(&e->rd_wait);
		waitqueue_init(&e->wr_wait);
	}
	return p;
}

int unix_pair_open(uint32_t type, uint32_t flags, struct file *ends[2])
{
	struct pair *p = pair_create(type);
	int err = 0;

	if (!p)
		return -ENOMEM;
	for (uint32_t i = 0; i < 2; i++) {
		ends[i] = file_create(&socket_ops, O_RDWR | (flags & O_NONBLOCK), NULL);
		if (IS_ERR(ends[i])) {
			err = PTR_ERR(ends[i]);
			if (i)
				file_put(ends[0]);
			break;
		}
		ends[i]->minor = i;
		ends[i]->private = p;
		refcount_inc(&p->refs);
	}
	pair_put(p); /* the files have their own */
	return err;
}
