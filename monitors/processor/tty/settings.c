/* SPDX-License-Identifier: MIT */
/*
 * Terminals: settings and window sizes, which a terminal and its master have in common.
 *
 * Flow:	the settings come in three shapes: struct termios, the same with speeds in baud
 *		(termios2), and System V's termio, which is the low half of each word. Each changes
 *		what it has room for and leaves the rest.
 * Locking:	tty.lock
 * Limits:	there is no line: speeds are kept and told, and the bits of one (character size,
 *		parity, receiver) are those of a Linux pseudo terminal, whatever is asked for. No
 *		line discipline but N_TTY: TIOCSETD answers EINVAL for others.
 * See:		ioctl_tty(2)
 */
#include <arch/uaccess.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <processor/process/process.h>

#include "tty_private.h"

/* --- speeds -------------------------------------------------------------------------- */

/* Of a Bfoo value of @cflag; @other: what BOTHER stands for. */
static uint32_t baud_of(uint32_t cflag, uint32_t other)
{
	static const uint32_t bauds[] = {
		0,       50,      75,      110,     134,     150,     200,     300,
		600,     1200,    1800,    2400,    4800,    9600,    19200,   38400,
		57600,   115200,  230400,  460800,  500000,  576000,  921600,  1000000,
		1152000, 1500000, 2000000, 2500000, 3000000, 3500000, 4000000,
	};
	uint32_t i = cflag & CBAUD;

	if (i == BOTHER)
		return other;
	if (i & CBAUDEX)
		i = (i & ~CBAUDEX) + 15;
	return i < ARRAY_SIZE(bauds) ? bauds[i] : 0;
}

/* The speeds that @s means, whichever way it says so. An input of B0 has the output's. */
static void name_speeds(struct linux_termios2 *s)
{
	const uint32_t in = s->t.cflag >> IBSHIFT;
	const uint32_t ispeed = s->ispeed;

	s->ospeed = baud_of(s->t.cflag, s->ospeed);
	s->ispeed = in & CBAUD ? baud_of(in, ispeed) : s->ospeed;
}

/* --- settings ------------------------------------------------------------------------ */

/* Does ^S stop output and ^Q let it go on? The master in packet mode is told so. */
static bool flow_by_keys_locked(struct tty *tty) __must_hold(&tty->lock)
{
	const struct linux_termios *t = &tty->ld.t;

	assert_spin_held(&tty->lock);
	return (t->iflag & IXON) && t->cc[VSTOP] == ('S' - '@') && t->cc[VSTART] == ('Q' - '@');
}

static unsigned int change_termios_locked(struct tty *tty, const struct linux_termios2 *s)
	__must_hold(&tty->lock)
{
	const bool by_keys = flow_by_keys_locked(tty), stopped = ldisc_stopped(&tty->ld);
	struct linux_termios t = s->t;
	unsigned int events;

	assert_spin_held(&tty->lock);
	t.cflag = (t.cflag & ~(CSIZE | PARENB)) | CS8 | CREAD;
	events = ldisc_set_termios(&tty->ld, &t);
	tty->ispeed = s->ispeed;
	tty->ospeed = s->ospeed;
	if (flow_by_keys_locked(tty) != by_keys)
		tty_tell_master_locked(tty, by_keys ? TIOCPKT_NOSTOP : TIOCPKT_DOSTOP);
	tty_tell_flow_locked(tty, stopped);
	return events;
}

static void settings_of(struct tty *tty, struct linux_termios2 *s)
{
	spin_lock(&tty->lock);
	s->t = tty->ld.t;
	s->ispeed = tty->ispeed;
	s->ospeed = tty->ospeed;
	spin_unlock(&tty->lock);
}

enum shape {
	TERMIOS,
	TERMIOS2,
	TERMIO,
};

/* @s gets what @arg has of it. -EFAULT */
static int fetch(struct linux_termios2 *s, enum shape shape, uint64_t arg)
{
	const void __user *from = (const void __user *)arg;
	struct linux_termio v;

	if (shape == TERMIOS2)
		return copy_from_user(s, from, sizeof(*s)) ? -EFAULT : 0;
	if (shape == TERMIOS)
		return copy_from_user(&s->t, from, sizeof(s->t)) ? -EFAULT : 0;
	if (copy_from_user(&v, from, sizeof(v)))
		return -EFAULT;
	s->t.iflag = (s->t.iflag & 0xffff0000u) | v.iflag;
	s->t.oflag = (s->t.oflag & 0xffff0000u) | v.oflag;
	s->t.cflag = (s->t.cflag & 0xffff0000u) | v.cflag;
	s->t.lflag = (s->t.lflag & 0xffff0000u) | v.lflag;
	s->t.line = v.line;
	memcpy(s->t.cc, v.cc, sizeof(v.cc));
	return 0;
}

static long get_settings(struct tty *tty, enum shape shape, uint64_t arg)
{
	void __user *to = (void __user *)arg;
	struct linux_termio v = { 0 };
	struct linux_termios2 s;

	settings_of(tty, &s);
	if (shape == TERMIOS2)
		return copy_to_user(to, &s, sizeof(s)) ? -EFAULT : 0;
	if (shape == TERMIOS)
		return copy_to_user(to, &s.t, sizeof(s.t)) ? -EFAULT : 0;
	v.iflag = (uint16_t)s.t.iflag;
	v.oflag = (uint16_t)s.t.oflag;
	v.cflag = (uint16_t)s.t.cflag;
	v.lflag = (uint16_t)s.t.lflag;
	v.line = s.t.line;
	memcpy(v.cc, s.t.cc, sizeof(v.cc));
	return copy_to_user(to, &v, sizeof(v)) ? -EFAULT : 0;
}

enum when {
	AT_ONCE,
	DRAINED,
	FLUSHED, /* and what was typed is gone */
};

static long set_settings(struct tty *tty, enum shape shape, enum when when, uint64_t arg)
{
	struct linux_termios2 s;
	unsigned int events;
	int err = tty_job_check(tty, SIGTTOU);

	if (err)
		return err;
	settings_of(tty, &s);
	err = fetch(&s, shape, arg);
	if (err)
		return err;
	name_speeds(&s);
	if (when != AT_ONCE && tty_drain(tty, WAIT_INTERRUPTIBLE))
		return -ERESTARTSYS;
	spin_lock(&tty->lock);
	if (when == FLUSHED) {
		ldisc_flush_input(&tty->ld);
		tty_tell_master_locked(tty, TIOCPKT_FLUSHREAD);
	}
	events = change_termios_locked(tty, &s);
	spin_unlock(&tty->lock);
	/* A reader may be waiting by the old rules. */
	tty_events(tty, events | LDISC_READABLE);
	wake_all(&tty->far);
	return 0;
}

static long get_carrier(struct tty *tty, uint64_t arg)
{
	struct linux_termios2 s;

	settings_of(tty, &s);
	return put_user_u32(!!(s.t.cflag & CLOCAL), (void __user *)arg) ? -EFAULT : 0;
}

static long set_carrier(struct tty *tty, uint64_t arg)
{
	uint32_t on;

	if (get_user_u32(&on, (const void __user *)arg))
		return -EFAULT;
	spin_lock(&tty->lock);
	tty->ld.t.cflag = (tty->ld.t.cflag & ~CLOCAL) | (on ? CLOCAL : 0);
	spin_unlock(&tty->lock);
	return 0;
}

static long set_discipline(uint64_t arg)
{
	uint32_t which;

	if (get_user_u32(&which, (const void __user *)arg))
		return -EFAULT;
	return which ? -EINVAL : 0;
}

/* --- windows ------------------------------------------------------------------------- */

static long set_winsize(struct tty *tty, uint64_t arg)
{
	struct ctl_winsize ws;
	bool changed;

	if (copy_from_user(&ws, (const void __user *)arg, sizeof(ws)))
		return -EFAULT;
	spin_lock(&tty->lock);
	changed = memcmp(&tty->size, &ws, sizeof(ws)) != 0;
	tty->size = ws;
	spin_unlock(&tty->lock);
	if (changed)
		tty_events(tty, LDISC_WINCH);
	return 0;
}

static long get_winsize(struct tty *tty, uint64_t arg)
{
	struct ctl_winsize ws;

	spin_lock(&tty->lock);
	ws = tty->size;
	spin_unlock(&tty->lock);
	return copy_to_user((void __user *)arg, &ws, sizeof(ws)) ? -EFAULT : 0;
}

/* ------------------------------------------------------------------------------------- */

long tty_exclusive_ioctl(struct tty *tty, bool *flag, uint32_t cmd, uint64_t arg)
{
	bool on;

	spin_lock(&tty->lock);
	if (cmd != TIOCGEXCL)
		*flag = cmd == TIOCEXCL;
	on = *flag;
	spin_unlock(&tty->lock);
	if (cmd != TIOCGEXCL)
		return 0;
	return put_user_u32(on, (void __user *)arg) ? -EFAULT : 0;
}

long tty_common_ioctl(struct tty *tty, uint32_t cmd, uint64_t arg)
{
	switch (cmd) {
	case TCGETS:
		return get_settings(tty, TERMIOS, arg);
	case TCSETS:
	case TCSETSW:
	case TCSETSF:
		return set_settings(tty, TERMIOS, (enum when)(cmd - TCSETS), arg);
	case TCGETS2:
		return get_settings(tty, TERMIOS2, arg);
	case TCSETS2:
	case TCSETSW2:
	case TCSETSF2:
		return set_settings(tty, TERMIOS2, (enum when)(cmd - TCSETS2), arg);
	case TCGETA:
		return get_settings(tty, TERMIO, arg);
	case TCSETA:
	case TCSETAW:
	case TCSETAF:
		return set_settings(tty, TERMIO, (enum when)(cmd - TCSETA), arg);
	case TIOCGSOFTCAR:
		return get_carrier(tty, arg);
	case TIOCSSOFTCAR:
		return set_carrier(tty, arg);
	case TIOCSETD:
		return set_discipline(arg);
	case TIOCGWINSZ:
		return get_winsize(tty, arg);
	case TIOCSWINSZ:
		return set_winsize(tty, arg);
	default:
		return tty_job_ioctl(tty, cmd, arg);
	}
}
