/* SPDX-License-Identifier: MIT */
/*
 * Terminals: open files.
 *
 * Flow:	in canonical mode a read gets one line at most; else termios(3) says how VMIN and
 *		VTIME end it. The last close waits until the launcher has all output, so that a
 *		program's exit status comes behind its last byte. An output that ^S has stopped goes
 *		on then.
 */
#include <arch/uaccess.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/process/process.h>
#include <processor/signal/signal.h>
#include <processor/vfs/file.h>
#include <processor/vfs/uio.h>

#include "tty_private.h"

#define CHUNK      4096u
#define DECISECOND (NSEC_PER_SEC / 10)

/* --- reading ------------------------------------------------------------------------- */

struct reading {
	struct tty *tty;
	uint32_t want; /* bytes asked for */
};

/* Bytes that end a read which is not canonical. */
static uint32_t least_locked(const struct tty *tty, uint32_t want)
{
	assert_spin_held(&tty->lock);
	return MIN((uint32_t)tty->ld.t.cc[VMIN], want);
}

static bool read_ready(struct reading *r)
{
	struct tty *tty = r->tty;
	bool ok;

	spin_lock(&tty->lock);
	ok = tty->hung_up || ldisc_readable(&tty->ld, least_locked(tty, r->want));
	spin_unlock(&tty->lock);
	return ok;
}

static bool read_any(struct tty *tty)
{
	bool ok;

	spin_lock(&tty->lock);
	ok = tty->hung_up || ldisc_readable(&tty->ld, 1);
	spin_unlock(&tty->lock);
	return ok;
}

static bool read_more(struct tty *tty, uint32_t than)
{
	bool ok;

	spin_lock(&tty->lock);
	ok = tty->hung_up || ldisc_available(&tty->ld) > than;
	spin_unlock(&tty->lock);
	return ok;
}

/* VMIN > 0 and VTIME > 0: until the bytes are there or none came for so long. 0 or -ERESTARTSYS. */
static int wait_between_bytes(struct reading *r, uint64_t gap_ns)
{
	struct tty *tty = r->tty;

	if (wait_event_interruptible(&tty->changed, read_any(tty)))
		return -ERESTARTSYS;
	while (!read_ready(r)) {
		const uint32_t have = READ_ONCE(tty->ld.head) - READ_ONCE(tty->ld.tail);
		const int err = wait_event_interruptible_timeout(
			&tty->changed, read_more(tty, have), time_after_ns(gap_ns));

		if (err)
			return err == -EINTR ? -ERESTARTSYS : 0;
	}
	return 0;
}

/* Until a read may return, with something or without. 0, -ERESTARTSYS. */
static int read_wait(struct reading *r)
{
	struct tty *tty = r->tty;
	uint32_t least;
	uint64_t gap;
	bool canon;
	int err;

	spin_lock(&tty->lock);
	canon = tty->ld.t.lflag & ICANON;
	least = least_locked(tty, r->want);
	gap = tty->ld.t.cc[VTIME] * DECISECOND;
	spin_unlock(&tty->lock);
	if (!canon && least == 0) {
		err = gap ? wait_event_interruptible_timeout(&tty->changed, read_any(tty),
							     time_after_ns(gap))
			  : 0;
		return err == -EINTR ? -ERESTARTSYS : 0;
	}
	if (!canon && gap)
		return wait_between_bytes(r, gap);
	return wait_event_interruptible(&tty->changed, read_ready(r)) ? -ERESTARTSYS : 0;
}

/* Read the bytes that are there; *@again: there are none, and the caller may wait. */
static ssize_t read_now(struct tty *tty, uint8_t *buf, uint32_t n, bool *again)
{
	bool eof, hung_up, raw;
	uint32_t got;

	spin_lock(&tty->lock);
	got = ldisc_read(&tty->ld, buf, n, &eof);
	hung_up = tty->hung_up;
	raw = !(tty->ld.t.lflag & ICANON);
	spin_unlock(&tty->lock);
	*again = !got && !eof && !hung_up;
	if (*again && raw)
		*again = READ_ONCE(tty->ld.t.cc[VMIN]) > 0;
	return (ssize_t)got;
}

static ssize_t tty_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	struct tty *tty = f->private;
	struct reading r = { .tty = tty, .want = (uint32_t)MIN(uio->left, (uint64_t)CHUNK) };
	bool again = true;
	uint8_t *buf;
	ssize_t ret;

	if (!uio->left)
		return 0;
	buf = kmalloc(r.want);
	if (!buf)
		return -ENOMEM;
	do {
		ret = tty_job_check(tty, SIGTTIN);
		if (!ret && file_nonblock(f) && !read_any(tty))
			ret = -EAGAIN;
		if (!ret && !file_nonblock(f))
			ret = read_wait(&r);
		if (!ret)
			ret = read_now(tty, buf, r.want, &again);
	} while (!ret && again);
	wake_all(&tty->far);
	if (ret > 0) {
		const size_t moved = uio_put(uio, buf, (size_t)ret);

		ret = moved ? (ssize_t)moved : -EFAULT;
	}
	kfree(buf);
	return ret;
}

/* --- writing ------------------------------------------------------------------------- */

static bool write_ready(struct tty *tty)
{
	bool ok;

	spin_lock(&tty->lock);
	ok = tty->hung_up || ldisc_writable(&tty->ld);
	spin_unlock(&tty->lock);
	return ok;
}

/* All @n bytes of @buf, as room comes. Bytes taken, or what ended it before the first. */
static ssize_t write_chunk(struct file *f, const uint8_t *buf, uint32_t n)
{
	struct tty *tty = f->private;
	uint32_t done = 0;

	for (;;) {
		bool hung_up;

		spin_lock(&tty->lock);
		hung_up = tty->hung_up;
		done += hung_up ? 0 : ldisc_write(&tty->ld, buf + done, n - done);
		spin_unlock(&tty->lock);
		wake_all(&tty->far);
		if (hung_up)
			return done ? (ssize_t)done : -EIO;
		if (done == n)
			return (ssize_t)done;
		if (file_nonblock(f))
			return done ? (ssize_t)done : -EAGAIN;
		if (wait_event_interruptible(&tty->changed, write_ready(tty)))
			return done ? (ssize_t)done : -ERESTARTSYS;
	}
}

static ssize_t tty_write(struct file *f, struct uio *uio, uint64_t *pos)
{
	struct tty *tty = f->private;
	ssize_t done = 0, ret = 0;
	uint8_t *buf;

	if (READ_ONCE(tty->ld.t.lflag) & TOSTOP) {
		ret = tty_job_check(tty, SIGTTOU);
		if (ret)
			return ret;
	}
	buf = kmalloc(MIN(MAX(uio->left, (uint64_t)1), (uint64_t)CHUNK));
	if (!buf)
		return -ENOMEM;
	while (uio->left) {
		const uint32_t want = (uint32_t)MIN(uio->left, (uint64_t)CHUNK);
		const uint32_t n = (uint32_t)uio_fetch(uio, buf, want);

		ret = n ? write_chunk(f, buf, n) : -EFAULT;
		if (ret > 0)
			done += ret;
		if (ret < (ssize_t)n || n < want)
			break;
	}
	kfree(buf);
	return done ? done : ret;
}

/* --- ioctl --------------------------------------------------------------------------- */

/* tcflow(3): 0 stops output, 1 lets it go on; 2 and 3 ask the other end. */
static long flow(struct tty *tty, uint64_t how)
{
	bool stopped;

	if (how > 3)
		return -EINVAL;
	if (how <= 1) {
		spin_lock(&tty->lock);
		stopped = ldisc_stopped(&tty->ld);
		ldisc_set_stopped(&tty->ld, how == 0);
		tty_tell_flow_locked(tty, stopped);
		spin_unlock(&tty->lock);
		tty_events(tty, LDISC_FLOW);
		wake_all(&tty->far);
	}
	return 0;
}

static long flush(struct tty *tty, uint64_t which)
{
	const int err = tty_job_check(tty, SIGTTOU);

	if (err)
		return err;
	if (which > 2)
		return -EINVAL;
	spin_lock(&tty->lock);
	if (which != 1) {
		ldisc_flush_input(&tty->ld);
		tty_tell_master_locked(tty, TIOCPKT_FLUSHREAD);
	}
	if (which != 0) {
		ldisc_flush_output(&tty->ld);
		tty_tell_master_locked(tty, TIOCPKT_FLUSHWRITE);
	}
	spin_unlock(&tty->lock);
	tty_events(tty, LDISC_FLUSHED);
	wake_all(&tty->far);
	return 0;
}

/*
 * TIOCSTI: the byte at @arg is typed. As on a Linux with dev.tty.legacy_tiocsti 0, only for a
 * caller that may do more than to write to a terminal that others read.
 */
static long type_for(struct tty *tty, uint64_t arg)
{
	unsigned int events;
	bool stopped;
	uint8_t c;

	if (!capable(CAP_SYS_ADMIN))
		return -EIO;
	if (copy_from_user(&c, (const void __user *)arg, sizeof(c)))
		return -EFAULT;
	spin_lock(&tty->lock);
	stopped = ldisc_stopped(&tty->ld);
	events = ldisc_input(&tty->ld, c);
	tty_tell_flow_locked(tty, stopped);
	spin_unlock(&tty->lock);
	tty_events(tty, events);
	return 0;
}

static long put_count(uint64_t arg, uint32_t n)
{
	return put_user_u32(n, (void __user *)arg) ? -EFAULT : 0;
}

static long tty_ioctl(struct file *f, uint32_t cmd, uint64_t arg)
{
	struct tty *tty = f->private;
	uint32_t n;

	if (READ_ONCE(tty->gone))
		return cmd == TIOCSPGRP ? -ENOTTY : -EIO;
	switch (cmd) {
	case FIONREAD:
		spin_lock(&tty->lock);
		n = ldisc_available(&tty->ld);
		spin_unlock(&tty->lock);
		return put_count(arg, n);
	case TIOCOUTQ:
		spin_lock(&tty->lock);
		n = tty_is_pty(tty) ? 0 : ldisc_output_len(&tty->ld); /* there: at the other side */
		spin_unlock(&tty->lock);
		return put_count(arg, n);
	case TCSBRK:
	case TCSBRKP:
		/*
		 * There is no line to break: with or without one, what was written goes out first.
		 */
		return tty_drain(tty, WAIT_INTERRUPTIBLE) ? -ERESTARTSYS : 0;
	case TCXONC:
		return flow(tty, arg);
	case TIOCGPTPEER:
		return -EIO; /* as Linux says it of what is no master */
	case TIOCSTI:
		return type_for(tty, arg);
	case TIOCEXCL:
	case TIOCNXCL:
	case TIOCGEXCL:
		return tty_exclusive_ioctl(tty, &tty->exclusive, cmd, arg);
	case TCFLSH:
		return flush(tty, arg);
	default:
		return tty_common_ioctl(tty, cmd, arg);
	}
}

/* --- the rest of a file -------------------------------------------------------------- */

static int tty_stat(struct file *f, struct file_attr *attr)
{
	struct tty *tty = f->private;

	tty_attr(tty, attr);
	return 0;
}

static unsigned int tty_poll(struct file *f)
{
	struct tty *tty = f->private;
	unsigned int events = 0;

	spin_lock(&tty->lock);
	if (tty->hung_up)
		events |= POLLHUP | POLLIN | POLLRDNORM;
	if (tty->gone)
		events |= POLLERR | POLLOUT | POLLWRNORM;
	if (ldisc_readable(&tty->ld, tty->ld.t.cc[VTIME] ? 1 : tty->ld.t.cc[VMIN]))
		events |= POLLIN | POLLRDNORM;
	if (ldisc_writable(&tty->ld))
		events |= POLLOUT | POLLWRNORM;
	spin_unlock(&tty->lock);
	return events;
}

static struct waitqueue *tty_poll_wait(struct file *f)
{
	struct tty *tty = f->private;

	return &tty->changed;
}

/* Its foreground group is the first owner of a terminal with O_ASYNC. */
static uint32_t tty_async_group(struct file *f)
{
	struct tty *tty = f->private;
	uint32_t pgrp;

	spin_lock(&tty->lock);
	pgrp = tty->pgrp;
	spin_unlock(&tty->lock);
	return pgrp;
}

static void tty_release(struct file *f)
{
	struct tty *tty = f->private;
	bool last;

	spin_lock(&tty->lock);
	last = --tty->nr_files == 0;
	if (last)
		ldisc_set_stopped(&tty->ld, false);
	if (last && tty_is_pty(tty))
		tty->closed = true;
	spin_unlock(&tty->lock);
	if (last) {
		wake_all(&tty->far);
		(void)tty_drain(tty, WAIT_PLAIN);
	}
	tty_put(tty);
}

static const struct file_ops tty_ops = {
	.name = "tty",
	.read = tty_read,
	.write = tty_write,
	.stat = tty_stat,
	.ioctl = tty_ioctl,
	.poll = tty_poll,
	.poll_wait = tty_poll_wait,
	.async = true,
	.async_group = tty_async_group,
	.release = tty_release,
};

int tty_use(struct tty *tty, struct file *f)
{
	/* A program's terminal is opened for it by a thread of the kernel, before it has a task. */
	const bool may_share = !task_current() || capable(CAP_SYS_ADMIN);
	int err = 0;

	spin_lock(&tty->lock);
	if (tty->exclusive && !may_share && !tty->gone) {
		err = -EBUSY;
	} else if (tty->locked || tty->gone) {
		err = -EIO;
	} else {
		tty->nr_files++;
		tty->closed = false;
	}
	spin_unlock(&tty->lock);
	if (err)
		return err;
	refcount_inc(&tty->refs);
	f->ops = &tty_ops;
	f->private = tty;
	return 0;
}

void tty_opened(struct file *f)
{
	if (f->ops == &tty_ops && file_readable(f))
		tty_job_opened(f->private);
}
