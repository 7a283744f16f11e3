/* SPDX-License-Identifier: MIT */
/*
 * splice, tee, vmsplice.
 *
 * Flow:	bytes are copied: no page changes hands. Slots of a pipe are reserved before a file
 *		is read, so that its bytes have a place. If a file does not take all bytes of a
 *		pipe, the rest is put back: the next reader gets it before the ring.
 * Locking:	pipe.splice_lock (RANK_SPLICE) over a write of a pipe's bytes to a file, so that one
 *		thread at a time may have something to put back. No pipe's lock is held over reads
 *		and writes of files.
 * Failure:	as Linux: what was moved before an error is returned. Without memory for a page
 *		bytes that a socket or terminal has given are lost, and the call says ENOMEM.
 * Limits:	SPLICE_F_MOVE, MORE and GIFT are hints, as on Linux.
 */
#include <abi/fcntl.h>
#include <abi/stat.h>
#include <arch/uaccess.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/file.h>
#include <processor/vfs/uio.h>

#include "pipe_private.h"

#define BATCH_SLOTS 4u
#define BATCH       (BATCH_SLOTS * PAGE_SIZE)
#define TEE_MAX     65536u

#define SPLICE_ALL (SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT)

/* --- into a pipe ----------------------------------------------------------------------------- */

/* Wait for room: how many slots, at most @want, are reserved to the caller. */
static int reserve(struct pipe *p, unsigned int want, bool nonblock)
{
	int ret = pipe_lock(p);

	if (ret)
		return ret;
	while (p->readers && pipe_full(p)) {
		pipe_unlock(p);
		if (nonblock)
			return -EAGAIN;
		if (wait_event_interruptible(&p->wr_wait, pipe_may_write(p)))
			return -ERESTARTSYS;
		ret = pipe_lock(p);
		if (ret) { /* killed: the wake-up that came to us is another writer's */
			pipe_wake(&p->wr_wait);
			return ret;
		}
	}
	if (!p->readers) {
		ret = -EPIPE;
	} else {
		ret = (int)MIN(p->nr_slots - (p->head - p->tail) - p->reserved, want);
		__atomic_add_fetch(&p->reserved, (uint32_t)ret, __ATOMIC_RELEASE);
	}
	pipe_unlock(p);
	return ret;
}

/* @nr reserved slots are not needed. */
static void unreserve(struct pipe *p, int nr)
{
	__atomic_sub_fetch(&p->reserved, (uint32_t)nr, __ATOMIC_RELEASE);
	pipe_wake(&p->wr_wait);
}

static ssize_t push_locked(struct pipe *p, const uint8_t *buf, size_t len) __must_hold(&p->lock)
{
	size_t done = 0;

	assert_mutex_held(&p->lock);
	while (done < len) {
		const uint32_t n = (uint32_t)MIN(len - done, (size_t)PAGE_SIZE);
		uint8_t *page;

		if (!p->readers)
			return done ? (ssize_t)done : -EPIPE;
		page = pipe_page_get(p);
		if (!page)
			return done ? (ssize_t)done : -ENOMEM;
		memcpy(page, buf + done, n);
		pipe_push(p, page, n);
		done += n;
	}
	return (ssize_t)done;
}

/* @len bytes into the @nr slots that are reserved: how many are there, or an errno. */
static ssize_t push(struct pipe *p, const uint8_t *buf, size_t len, int nr)
{
	ssize_t ret = pipe_lock(p);
	bool room;

	if (ret) {
		unreserve(p, nr);
		return ret;
	}
	__atomic_sub_fetch(&p->reserved, (uint32_t)nr, __ATOMIC_RELEASE);
	ret = push_locked(p, buf, len);
	room = !pipe_full(p);
	pipe_unlock(p);
	if (ret > 0)
		pipe_wake(&p->rd_wait);
	if (room)
		pipe_wake(&p->wr_wait);
	return ret;
}

/* --- files ----------------------------------------------------------------------------------- */

/* The side of a splice that is a file: at *@pos, or where the file is if that is NULL. */
struct end {
	struct file *f;
	uint64_t *pos;
};

static ssize_t end_io(const struct end *e, struct uio *uio, bool write)
{
	uint64_t none = 0, pos;
	ssize_t ret;

	if (!e->f->ops->seekable)
		return write ? file_write(e->f, uio, &none) : file_read(e->f, uio, &none);
	ret = mutex_lock_killable(&e->f->lock);
	if (ret)
		return ret;
	pos = e->pos ? *e->pos : e->f->pos;
	if (uio->left > (uint64_t)INT64_MAX - pos)
		ret = -EINVAL;
	else
		ret = write ? file_write(e->f, uio, &pos) : file_read(e->f, uio, &pos);
	if (ret > 0) {
		if (e->pos)
			*e->pos = pos;
		else
			e->f->pos = pos;
	}
	mutex_unlock(&e->f->lock);
	return ret;
}

/* The pipe has no room for the last @n bytes that @e gave. */
static void end_unread(const struct end *e, uint64_t n)
{
	if (!e->f->ops->seekable)
		return;
	if (e->pos) {
		*e->pos -= n;
		return;
	}
	if (mutex_lock_killable(&e->f->lock))
		return; /* killed, while the holder waits for a node */
	e->f->pos -= n;
	mutex_unlock(&e->f->lock);
}

/* One batch out of @in into @p. */
static ssize_t fill_once(const struct end *in, struct pipe *p, uint8_t *buf, uint64_t len,
			 bool nonblock)
{
	const int nr = reserve(
		p, (unsigned int)MIN((len + PAGE_SIZE - 1) / PAGE_SIZE, (uint64_t)BATCH_SLOTS),
		nonblock);
	struct uio uio;
	ssize_t got, put;

	if (nr < 0)
		return nr;
	uio_kernel(&uio, buf, MIN(len, (uint64_t)nr * PAGE_SIZE));
	if (nonblock && in->f->ops->poll && !(in->f->ops->poll(in->f) & (POLLIN | POLLHUP)))
		got = -EAGAIN;
	else
		got = end_io(in, &uio, false);
	if (got <= 0) {
		unreserve(p, nr);
		return got;
	}
	put = push(p, buf, (size_t)got, nr);
	if (put < got)
		end_unread(in, (uint64_t)(got - MAX(put, (ssize_t)0)));
	return put;
}

static ssize_t from_file(const struct end *in, struct pipe *p, uint8_t *buf, uint64_t len,
			 bool nonblock)
{
	ssize_t done = 0, n;

	do {
		const uint64_t want = MIN(len - (uint64_t)done, (uint64_t)BATCH);

		n = fill_once(in, p, buf, want, nonblock || done);
		if (n > 0)
			done += n;
		/* Less than a page more was to be had: it is the end, or all that there is now. */
		if (n <= 0 || (uint64_t)n % PAGE_SIZE)
			break;
	} while ((uint64_t)done < len);
	return done ? done : n;
}

/* The page for what is to be put back is there before something is taken. */
static int prepare_back(struct pipe *p)
{
	int err = pipe_lock(p);

	if (err)
		return err;
	if (!p->back.page)
		p->back.page = pipe_page_get(p);
	err = p->back.page ? 0 : -ENOMEM;
	pipe_unlock(p);
	return err;
}

static void put_back(struct pipe *p, const uint8_t *buf, size_t len)
{
	if (pipe_lock(p))
		return; /* killed, while the pipe's holder waits for a node: as if we had read it */
	memcpy(p->back.page, buf, len);
	p->back.off = 0;
	p->back.len = (uint32_t)len;
	__atomic_store_n(&p->back_len, (uint32_t)len, __ATOMIC_RELEASE);
	pipe_unlock(p);
	pipe_wake(&p->rd_wait);
}

/* At most a page out of @p into @out. */
static ssize_t drain_once(struct pipe *p, const struct end *out, uint8_t *buf, uint64_t len,
			  bool nonblock)
{
	struct uio uio;
	ssize_t got, put;
	int err = mutex_lock_killable(&p->splice_lock);

	if (err)
		return err;
	err = prepare_back(p);
	uio_kernel(&uio, buf, MIN(len, (uint64_t)PAGE_SIZE));
	got = err ? err : pipe_take(p, &uio, nonblock);
	put = got;
	if (got > 0) {
		uio_kernel(&uio, buf, (uint64_t)got);
		put = end_io(out, &uio, true);
		if (put < got) {
			const size_t taken = put > 0 ? (size_t)put : 0;

			put_back(p, buf + taken, (size_t)got - taken);
		}
	}
	mutex_unlock(&p->splice_lock);
	return put;
}

static ssize_t to_file(struct pipe *p, const struct end *out, uint8_t *buf, uint64_t len,
		       bool nonblock)
{
	ssize_t done = 0, n = 0;

	while ((uint64_t)done < len) {
		if (done && pipe_empty(p))
			break;
		n = drain_once(p, out, buf, len - (uint64_t)done, nonblock || done);
		if (n <= 0)
			break;
		done += n;
	}
	return done ? done : n;
}

/* --- pipes ----------------------------------------------------------------------------------- */

/* 1: there is something to read; 0: nothing comes any more. */
static int wait_input(struct pipe *p, bool nonblock)
{
	if (pipe_empty(p) && READ_ONCE(p->writers)) {
		if (nonblock)
			return -EAGAIN;
		if (wait_event_interruptible(&p->rd_wait, pipe_may_read(p)))
			return -ERESTARTSYS;
	}
	return !pipe_empty(p);
}

static ssize_t move_once(struct pipe *in, struct pipe *out, uint8_t *buf, uint64_t len,
			 bool nonblock)
{
	struct uio uio;
	ssize_t got;
	int nr;

	do {
		nr = wait_input(in, nonblock);
		if (nr <= 0)
			return nr;
		nr = reserve(out, BATCH_SLOTS, nonblock);
		if (nr < 0)
			return nr;
		uio_kernel(&uio, buf, MIN(len, (uint64_t)nr * PAGE_SIZE));
		got = pipe_take(in, &uio, true);
		if (got <= 0)
			unreserve(out, nr);
	} while (got == -EAGAIN && !nonblock); /* another reader was faster */
	return got > 0 ? push(out, buf, (size_t)got, nr) : got;
}

static ssize_t pipe_to_pipe(struct pipe *in, struct pipe *out, uint8_t *buf, uint64_t len,
			    bool nonblock)
{
	ssize_t done = 0, n = 0;

	while ((uint64_t)done < len) {
		n = move_once(in, out, buf, len - (uint64_t)done, nonblock || done);
		if (n <= 0)
			break;
		done += n;
	}
	return done ? done : n;
}

/* Up to @len bytes of what @p has, which keeps them. */
static ssize_t peek(struct pipe *p, uint8_t *buf, size_t len)
{
	ssize_t done = pipe_lock(p);
	uint32_t n;

	if (done)
		return done;
	n = (uint32_t)MIN((size_t)p->back.len, len);
	if (n)
		memcpy(buf, p->back.page + p->back.off, n);
	done = (ssize_t)n;
	for (uint32_t i = p->tail; i != p->head && (size_t)done < len; i++) {
		const struct pipe_slot *s = pipe_slot_at(p, i);

		n = (uint32_t)MIN((size_t)s->len, len - (size_t)done);
		memcpy(buf + done, s->page + s->off, n);
		done += (ssize_t)n;
	}
	pipe_unlock(p);
	return done;
}

static ssize_t tee(struct pipe *in, struct pipe *out, uint64_t len, bool nonblock)
{
	const size_t size = (size_t)MIN(len, (uint64_t)TEE_MAX);
	uint8_t *buf = kmalloc(size);
	ssize_t ret;
	int nr;

	if (!buf)
		return -ENOMEM;
	do {
		ret = wait_input(in, nonblock);
		nr = ret > 0 ? reserve(out, (unsigned int)(size / PAGE_SIZE + 1), nonblock) : 0;
		if (ret > 0 && nr < 0)
			ret = nr;
		if (ret <= 0)
			break;
		ret = peek(in, buf, MIN(size, (size_t)nr * PAGE_SIZE));
		if (ret <= 0)
			unreserve(out, nr);
		else
			ret = push(out, buf, (size_t)ret, nr);
	} while (!ret && !nonblock); /* another reader was faster */
	kfree(buf);
	return ret;
}

/* --- the calls ------------------------------------------------------------------------------- */

struct splice_call {
	struct end in, out;
	uint64_t len;
	uint32_t flags;
	uint64_t in_pos, out_pos;
};

static int check_end(const struct end *e, bool write)
{
	if ((e->f->attr.mode & S_IFMT) == S_IFDIR)
		return -EINVAL;
	if (e->pos && !e->f->ops->seekable)
		return -EINVAL;
	if (e->pos && (int64_t)*e->pos < 0)
		return -EINVAL;
	if (write && (e->f->flags & O_APPEND))
		return -EINVAL;
	return (write ? e->f->ops->write != NULL : e->f->ops->read != NULL) ? 0 : -EINVAL;
}

static ssize_t run(struct splice_call *c)
{
	struct pipe *in = pipe_of(c->in.f), *out = pipe_of(c->out.f);
	bool nonblock = c->flags & SPLICE_F_NONBLOCK;
	uint8_t *buf;
	ssize_t ret;

	if (!file_readable(c->in.f) || !file_writable(c->out.f))
		return -EBADF;
	if (in == out)
		return -EINVAL; /* the same pipe, or none */
	if (!in || !out) {
		ret = in ? check_end(&c->out, true) : check_end(&c->in, false);
		if (ret)
			return ret;
	}
	if ((in && file_nonblock(c->in.f)) || (out && file_nonblock(c->out.f)))
		nonblock = true;
	buf = kmalloc(BATCH);
	if (!buf)
		return -ENOMEM;
	if (in && out)
		ret = pipe_to_pipe(in, out, buf, c->len, nonblock);
	else if (in)
		ret = to_file(in, &c->out, buf, c->len, nonblock);
	else
		ret = from_file(&c->in, out, buf, c->len, nonblock);
	kfree(buf);
	if (ret == -EPIPE && out)
		signal_raise_sigpipe();
	return ret;
}

/* The offset that the program gave for one end; of a pipe: -ESPIPE. */
static int get_offset(struct end *e, uint64_t uoff, uint64_t *pos)
{
	if (!uoff)
		return 0;
	if (pipe_of(e->f))
		return -ESPIPE;
	e->pos = pos;
	return get_user_u64(pos, (const void __user *)uoff);
}

static int put_offset(const struct end *e, uint64_t uoff)
{
	return e->pos ? put_user_u64(*e->pos, (void __user *)uoff) : 0;
}

/* splice(in, off_in, out, off_out, len, flags) */
long sys_splice(const struct syscall_args *args)
{
	struct splice_call c = { .len = MIN(args->a[4], (uint64_t)0x7ffff000),
				 .flags = (uint32_t)args->a[5] };
	long ret;

	if (!args->a[4])
		return 0;
	if (c.flags & ~SPLICE_ALL)
		return -EINVAL;
	c.in.f = fd_get((int)args->a[0]);
	if (IS_ERR(c.in.f))
		return -EBADF;
	c.out.f = fd_get((int)args->a[2]);
	if (IS_ERR(c.out.f)) {
		file_put(c.in.f);
		return -EBADF;
	}
	ret = get_offset(&c.in, args->a[1], &c.in_pos);
	if (!ret)
		ret = get_offset(&c.out, args->a[3], &c.out_pos);
	if (!ret)
		ret = run(&c);
	if (ret > 0 && (put_offset(&c.in, args->a[1]) || put_offset(&c.out, args->a[3])))
		ret = -EFAULT;
	file_put(c.out.f);
	file_put(c.in.f);
	return ret;
}

/* tee(in, out, len, flags) */
long sys_tee(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[3];
	struct pipe *in, *out;
	struct file *f, *to;
	bool nonblock;
	long ret;

	if (flags & ~SPLICE_ALL)
		return -EINVAL;
	if (!args->a[2])
		return 0;
	f = fd_get((int)args->a[0]);
	if (IS_ERR(f))
		return -EBADF;
	to = fd_get((int)args->a[1]);
	if (IS_ERR(to)) {
		file_put(f);
		return -EBADF;
	}
	in = pipe_of(f);
	out = pipe_of(to);
	nonblock = (flags & SPLICE_F_NONBLOCK) || file_nonblock(f) || file_nonblock(to);
	if (!file_readable(f) || !file_writable(to))
		ret = -EBADF;
	else if (!in || !out || in == out)
		ret = -EINVAL;
	else
		ret = tee(in, out, args->a[2], nonblock);
	if (ret == -EPIPE)
		signal_raise_sigpipe();
	file_put(to);
	file_put(f);
	return ret;
}

/* Out of the program's memory, as far as there is room. */
static ssize_t vmsplice_in(struct pipe *p, struct uio *uio, bool nonblock)
{
	uint8_t *buf = kmalloc(BATCH);
	ssize_t done = 0, n = 0;

	if (!buf)
		return -ENOMEM;
	while (uio->left) {
		const int nr = reserve(p, BATCH_SLOTS, nonblock || done);
		size_t got;

		if (nr < 0) {
			n = nr;
			break;
		}
		got = uio_fetch(uio, buf, (size_t)MIN(uio->left, (uint64_t)nr * PAGE_SIZE));
		if (!got) {
			unreserve(p, nr);
			n = -EFAULT;
			break;
		}
		n = push(p, buf, got, nr);
		if (n <= 0)
			break;
		done += n;
	}
	kfree(buf);
	if (n == -EPIPE)
		signal_raise_sigpipe();
	return done ? done : n;
}

/* vmsplice(fd, iov, nr, flags) */
long sys_vmsplice(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[3];
	const bool nonblock = flags & SPLICE_F_NONBLOCK;
	struct pipe *p;
	struct file *f;
	struct uio uio;
	long ret;

	if (flags & ~SPLICE_ALL)
		return -EINVAL;
	f = fd_get((int)args->a[0]);
	if (IS_ERR(f))
		return -EBADF;
	p = pipe_of(f);
	if (!p || (f->flags & O_PATH)) {
		file_put(f);
		return -EBADF;
	}
	ret = uio_iovec(&uio, args->a[1], args->a[2]);
	if (!ret) {
		if (uio.left && file_writable(f))
			ret = vmsplice_in(p, &uio, nonblock);
		else if (uio.left)
			ret = pipe_take(p, &uio, nonblock);
		uio_done(&uio);
	}
	file_put(f);
	return ret;
}
