/* SPDX-License-Identifier: MIT */
/*
 * Pseudo terminals: /dev/ptmx and the file that opening it gives, the master. The other side is
 * /dev/pts/N.
 *
 * Flow:	master write -> ldisc_input() -> readers, signals, echo; writers and echo -> ldisc's
 *		output ring -> master read. No thread carries anything: the master's calls do what a
 *		console's threads do.
 *		After the last close of the terminal the master reads the rest, then EIO; opening
 *		the terminal again ends that. The close of the master hangs the terminal up: its
 *		files read nothing and write EIO, the session's leader gets SIGHUP and SIGCONT, and
 *		its name is gone.
 *		In packet mode (TIOCPKT) a read gives a byte in front of the output, which is 0, or
 *		tells of stops, flushes and flow control, and is alone then.
 * Locking:	tty.lock as elsewhere. A master has no job control: it never controls a session.
 * Limits:	no TCXONC and no TIOCSTI (EIO) by way of the master; packets do not tell of EXTPROC.
 * See:		pty(7), ioctl_tty(2)
 */
#include <arch/uaccess.h>
#include <lib/err.h>
#include <mm/slab.h>
#include <processor/process/process.h>
#include <processor/signal/signal.h>
#include <processor/vfs/file.h>
#include <processor/vfs/inode.h>
#include <processor/vfs/uio.h>

#include "tty_private.h"

#define CHUNK   4096u
#define PTS_GID 5u  /* "tty", as the file system's options say */
#define AT_ONCE 16u /* bytes that are typed with the lock held */
#define SIGNALS (LDISC_INTR | LDISC_QUIT | LDISC_SUSP)

/* --- reading ------------------------------------------------------------------------- */

static bool master_readable(struct tty *tty)
{
	bool ok;

	spin_lock(&tty->lock);
	ok = tty->closed || ldisc_output_len(&tty->ld) || (tty->packet && tty->told);
	spin_unlock(&tty->lock);
	return ok;
}

/*
 * Take the terminal's output. Bytes; -EAGAIN: there is none yet; -EIO: and there is no writer.
 */
static ssize_t take_output(struct tty *tty, uint8_t *buf, uint32_t n)
{
	uint32_t got;
	bool closed;

	spin_lock(&tty->lock);
	got = ldisc_take_output(&tty->ld, buf, n);
	closed = tty->closed;
	spin_unlock(&tty->lock);
	if (got)
		wake_all(&tty->changed);
	return got ? (ssize_t)got : closed ? -EIO : -EAGAIN;
}

/* A read of up to @n bytes: in packet mode with the byte in front. The same errnos. */
static ssize_t take_packet(struct tty *tty, uint8_t *buf, uint32_t n)
{
	uint8_t told = 0;
	ssize_t got;
	bool packet;

	spin_lock(&tty->lock);
	packet = tty->packet;
	if (packet) {
		told = tty->told;
		tty->told = 0;
	}
	spin_unlock(&tty->lock);
	if (!packet)
		return take_output(tty, buf, n);
	buf[0] = told;
	if (told)
		return 1;
	/* As on Linux, a read of one byte gets a packet without bytes, if there are some. */
	got = n > 1 ? take_output(tty, buf + 1, n - 1) : master_readable(tty) ? 0 : -EAGAIN;
	return got < 0 ? got : got + 1;
}

static ssize_t master_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	const uint32_t want = (uint32_t)MIN(uio->left, (uint64_t)CHUNK);
	struct tty *tty = f->private;
	ssize_t ret;
	uint8_t *buf;

	if (!want)
		return 0;
	buf = kmalloc(want);
	if (!buf)
		return -ENOMEM;
	while ((ret = take_packet(tty, buf, want)) == -EAGAIN && !file_nonblock(f)) {
		if (wait_event_interruptible(&tty->far, master_readable(tty))) {
			ret = -ERESTARTSYS;
			break;
		}
	}
	if (ret > 0) {
		const size_t moved = uio_put(uio, buf, (size_t)ret);

		ret = moved ? (ssize_t)moved : -EFAULT;
	}
	kfree(buf);
	return ret;
}

/* --- writing ------------------------------------------------------------------------- */

static bool master_writable(struct tty *tty)
{
	bool ok;

	spin_lock(&tty->lock);
	ok = tty_input_may_go_on_locked(tty);
	spin_unlock(&tty->lock);
	return ok;
}

/*
 * Up to @n bytes are typed: how many. It ends behind a byte that raises a signal, which is sent
 * first.
 */
static uint32_t type(struct tty *tty, const uint8_t *buf, uint32_t n)
{
	unsigned int events = 0;
	uint32_t done = 0;
	bool stopped;

	spin_lock(&tty->lock);
	stopped = ldisc_stopped(&tty->ld);
	while (done < MIN(n, AT_ONCE) && !(events & SIGNALS) && tty_input_may_go_on_locked(tty))
		events |= ldisc_input(&tty->ld, buf[done++]);
	tty_tell_flow_locked(tty, stopped);
	spin_unlock(&tty->lock);
	tty_events(tty, events);
	return done;
}

/* All @n bytes, as there is room. Bytes taken, or what ended it before the first. */
static ssize_t type_chunk(struct file *f, const uint8_t *buf, uint32_t n)
{
	struct tty *tty = f->private;
	uint32_t done = 0;

	while (done < n) {
		const uint32_t now = type(tty, buf + done, n - done);

		done += now;
		if (now)
			continue;
		if (file_nonblock(f))
			return done ? (ssize_t)done : -EAGAIN;
		if (wait_event_interruptible(&tty->far, master_writable(tty)))
			return done ? (ssize_t)done : -ERESTARTSYS;
	}
	return (ssize_t)done;
}

static ssize_t master_write(struct file *f, struct uio *uio, uint64_t *pos)
{
	ssize_t done = 0, ret = 0;
	uint8_t *buf;

	if (!uio->left)
		return 0;
	buf = kmalloc(MIN(uio->left, (uint64_t)CHUNK));
	if (!buf)
		return -ENOMEM;
	while (uio->left) {
		const uint32_t want = (uint32_t)MIN(uio->left, (uint64_t)CHUNK);
		const uint32_t n = (uint32_t)uio_fetch(uio, buf, want);

		ret = n ? type_chunk(f, buf, n) : -EFAULT;
		if (ret > 0)
			done += ret;
		if (ret < (ssize_t)n || n < want)
			break;
	}
	kfree(buf);
	return done ? done : ret;
}

/* --- ioctl --------------------------------------------------------------------------- */

static long put_u32(uint64_t arg, uint32_t n)
{
	return put_user_u32(n, (void __user *)arg) ? -EFAULT : 0;
}

static long set_lock(struct tty *tty, uint64_t arg)
{
	uint32_t on;

	if (get_user_u32(&on, (const void __user *)arg))
		return -EFAULT;
	spin_lock(&tty->lock);
	tty->locked = on != 0;
	spin_unlock(&tty->lock);
	return 0;
}

static long set_packet(struct tty *tty, uint64_t arg)
{
	uint32_t on;

	if (get_user_u32(&on, (const void __user *)arg))
		return -EFAULT;
	spin_lock(&tty->lock);
	if (on && !tty->packet)
		tty->told = 0;
	tty->packet = on != 0;
	spin_unlock(&tty->lock);
	return 0;
}

/* A descriptor of the other side, whatever /dev/pts is to the caller. */
static long open_peer(struct tty *tty, uint32_t flags)
{
	struct file *f = tty_open(tty, flags & (O_ACCMODE | O_NONBLOCK));
	int fd;

	if (IS_ERR(f))
		return PTR_ERR(f);
	if (!(flags & O_NOCTTY))
		tty_opened(f);
	fd = files_install(task_current()->files, f, 0, flags & O_CLOEXEC);
	if (fd < 0)
		file_put(f);
	return fd;
}

static long send_signal(struct tty *tty, uint64_t signo)
{
	const struct linux_siginfo info = { .signo = (int)signo, .code = SI_KERNEL };
	const uint32_t pgrp = READ_ONCE(tty->pgrp);

	if (signo == 0 || signo >= NR_SIGNALS)
		return -EINVAL;
	if (pgrp)
		signal_post_group(pgrp, &info);
	return 0;
}

static long session_of(struct tty *tty, uint64_t arg)
{
	const uint32_t session = READ_ONCE(tty->session);

	return session ? put_u32(arg, session) : -ENOTTY;
}

/*
 * The master's input is the terminal's output, and the master's output is at the other side.
 */
static long flush_master(struct tty *tty, uint64_t which)
{
	if (which > TCIOFLUSH)
		return -EINVAL;
	if (which != TCOFLUSH) {
		uint8_t buf[CHUNK / 16];

		while (take_output(tty, buf, sizeof(buf)) > 0)
			;
	}
	return 0;
}

static uint32_t output_len(struct tty *tty)
{
	uint32_t n;

	spin_lock(&tty->lock);
	n = ldisc_output_len(&tty->ld);
	spin_unlock(&tty->lock);
	return n;
}

static long master_ioctl(struct file *f, uint32_t cmd, uint64_t arg)
{
	struct tty *tty = f->private;

	switch (cmd) {
	case TIOCGPTN:
		return put_u32(arg, tty->index);
	case TIOCSPTLCK:
		return set_lock(tty, arg);
	case TIOCGPTLCK:
		return put_u32(arg, READ_ONCE(tty->locked));
	case TIOCPKT:
		return set_packet(tty, arg);
	case TIOCGPKT:
		return put_u32(arg, READ_ONCE(tty->packet));
	case TIOCGPTPEER:
		return open_peer(tty, (uint32_t)arg);
	case TIOCSIG:
		return send_signal(tty, arg);
	case FIONREAD:
		return put_u32(arg, output_len(tty));
	case TIOCOUTQ:
		return put_u32(arg, 0);
	case TCSBRK:
	case TCSBRKP:
		return 0; /* nothing is ever on its way */
	case TCFLSH:
		return flush_master(tty, arg);
	case TIOCGPGRP:
		return put_u32(arg, READ_ONCE(tty->pgrp));
	case TIOCGSID:
		return session_of(tty, arg);
	case TIOCNOTTY:
		return -ENOTTY;
	case TIOCSTI:
		return -EIO;
	case TIOCEXCL:
	case TIOCNXCL:
	case TIOCGEXCL:
		return tty_exclusive_ioctl(tty, &tty->master_exclusive, cmd, arg);
	default:
		return tty_common_ioctl(tty, cmd, arg);
	}
}

/* --- the rest of a file -------------------------------------------------------------- */

static int master_stat(struct file *f, struct file_attr *attr)
{
	return inode_getattr(f->inode, attr);
}

static unsigned int master_poll(struct file *f)
{
	struct tty *tty = f->private;
	unsigned int events = 0;

	spin_lock(&tty->lock);
	if (ldisc_output_len(&tty->ld))
		events |= POLLIN | POLLRDNORM;
	if (tty->packet && tty->told)
		events |= POLLPRI | POLLIN | POLLRDNORM;
	if (tty->closed)
		events |= POLLHUP;
	if (tty_input_may_go_on_locked(tty))
		events |= POLLOUT | POLLWRNORM;
	spin_unlock(&tty->lock);
	return events;
}

static struct waitqueue *master_poll_wait(struct file *f)
{
	struct tty *tty = f->private;

	return &tty->far;
}

/* No group of its own: the first owner of a master with O_ASYNC is the process. */
static uint32_t master_async_group(struct file *f)
{
	return 0;
}

static void signal_leader(uint32_t session, int signo)
{
	const struct linux_siginfo info = { .signo = signo, .code = SI_KERNEL };
	struct process *p = process_find(session);

	if (!p)
		return;
	if (READ_ONCE(p->sid) == session)
		(void)signal_post(p, &info);
	process_put(p);
}

static void master_release(struct file *f)
{
	struct tty *tty = f->private;
	uint32_t session;

	spin_lock(&tty->lock);
	tty->gone = true;
	tty->hung_up = true;
	ldisc_set_stopped(&tty->ld, false);
	ldisc_flush_input(&tty->ld);
	session = tty->session;
	spin_unlock(&tty->lock);
	wake_all(&tty->changed);
	if (session) {
		/* Our reference is the table's now: the end of the session gives it back. */
		signal_leader(session, SIGHUP);
		signal_leader(session, SIGCONT);
		return;
	}
	tty_unlist(tty);
	tty_put(tty);
}

static const struct file_ops master_ops = {
	.name = "ptmx",
	.read = master_read,
	.write = master_write,
	.stat = master_stat,
	.ioctl = master_ioctl,
	.poll = master_poll,
	.poll_wait = master_poll_wait,
	.async = true,
	.async_group = master_async_group,
	.release = master_release,
};

int ptmx_use(struct file *f)
{
	struct fs_cred cred;
	struct tty *tty;

	process_cred(&cred);
	tty = tty_alloc(NULL, cred.uid, PTS_GID);
	if (IS_ERR(tty))
		return (int)PTR_ERR(tty);
	lock_not_needed(&tty->lock, "the terminal is not listed yet");
	tty->locked = true;
	tty->ld.handed_over = true;
	tty_list(tty);
	f->ops = &master_ops;
	f->private = tty;
	return 0;
}
