/* SPDX-License-Identifier: MIT */
/*
 * Terminals: sessions, foreground groups, and what background groups may not do.
 *
 * See:		credentials(7) "Process group ID and session ID", ioctl_tty(2), POSIX.1-2017 section
 *		11.1.4
 */
#include <arch/uaccess.h>
#include <lib/errno.h>
#include <processor/process/process.h>
#include <processor/signal/signal.h>

#include "tty_private.h"

/* Is the caller in a background group of the session that @tty controls? */
static bool in_background(struct tty *tty, const struct process *p)
{
	bool background;

	spin_lock(&tty->lock);
	background = tty->session && tty->session == READ_ONCE(p->sid) && tty->pgrp &&
		     tty->pgrp != READ_ONCE(p->pgid);
	spin_unlock(&tty->lock);
	return background;
}

int tty_job_check(struct tty *tty, int signo)
{
	const struct linux_siginfo info = { .signo = signo, .code = SI_KERNEL };
	struct process *p = process_current();

	if (!in_background(tty, p))
		return 0;
	if (signal_is_held(signo))
		return signo == SIGTTOU ? 0 : -EIO;
	if (process_group_orphaned(p))
		return -EIO;
	signal_post_group(READ_ONCE(p->pgid), &info);
	return -ERESTARTSYS;
}

static bool is_controlling(struct tty *tty, const struct process *p)
{
	bool yes;

	spin_lock(&tty->lock);
	yes = tty->session && tty->session == READ_ONCE(p->sid);
	spin_unlock(&tty->lock);
	return yes;
}

/*
 * Only a session's leader without a terminal may take one that no session has; root may take it
 * away with 1.
 */
static long set_controlling(struct tty *tty, uint64_t steal)
{
	struct process *p = process_current();
	struct tty *now = tty_current();
	long ret = 0;

	if (now)
		tty_put(now);
	if (now == tty)
		return p->sid == p->pid ? 0 : -EPERM;
	if (now || p->sid != p->pid)
		return -EPERM;
	tty_forget_gone(p->sid);
	spin_lock(&tty->lock);
	if (tty->gone) {
		ret = -EIO;
	} else if (tty->session && !(steal == 1 && capable(CAP_SYS_ADMIN))) {
		ret = -EPERM;
	} else {
		tty->session = p->sid;
		tty->pgrp = p->pgid;
	}
	spin_unlock(&tty->lock);
	return ret;
}

/* The first terminal that a leader without one opens is its own, unless it says O_NOCTTY. */
void tty_job_opened(struct tty *tty)
{
	const struct process *p = process_current();

	if (p->sid == p->pid && !READ_ONCE(tty->session))
		(void)set_controlling(tty, 0); /* another session may have been faster */
}

static long give_up(struct tty *tty)
{
	struct process *p = process_current();

	if (!is_controlling(tty, p))
		return -ENOTTY;
	if (p->sid == p->pid)
		tty_leave_session(tty);
	/*
	 * Others of the session keep it: they have it by their session, which only setsid()
	 * changes.
	 */
	return 0;
}

static long get_foreground(struct tty *tty, uint64_t arg)
{
	uint32_t pgrp;

	if (!is_controlling(tty, process_current()))
		return -ENOTTY;
	spin_lock(&tty->lock);
	pgrp = tty->pgrp;
	spin_unlock(&tty->lock);
	return put_user_u32(pid_vnr(pgrp), (void __user *)arg) ? -EFAULT : 0;
}

struct group_search {
	uint32_t pgid, sid;
	bool found, here; /* the group exists; in that session */
};

static bool look_for_group(struct process *p, void *arg)
{
	struct group_search *s = arg;

	if (READ_ONCE(p->pgid) != s->pgid)
		return true;
	s->found = true;
	s->here |= READ_ONCE(p->sid) == s->sid;
	return !s->here;
}

static long set_foreground(struct tty *tty, uint64_t arg)
{
	struct group_search s = { .sid = READ_ONCE(process_current()->sid) };
	long err = tty_job_check(tty, SIGTTOU);

	if (err)
		return err;
	if (!is_controlling(tty, process_current()))
		return -ENOTTY;
	if (get_user_u32(&s.pgid, (const void __user *)arg))
		return -EFAULT;
	if ((int32_t)s.pgid <= 0)
		return -EINVAL;
	s.pgid = pid_from_vnr(s.pgid);
	process_for_each(look_for_group, &s);
	if (!s.found)
		return -ESRCH;
	if (!s.here)
		return -EPERM;
	spin_lock(&tty->lock);
	tty->pgrp = s.pgid;
	spin_unlock(&tty->lock);
	return 0;
}

long tty_job_ioctl(struct tty *tty, uint32_t cmd, uint64_t arg)
{
	switch (cmd) {
	case TIOCSCTTY:
		return set_controlling(tty, arg);
	case TIOCNOTTY:
		return give_up(tty);
	case TIOCGPGRP:
		return get_foreground(tty, arg);
	case TIOCSPGRP:
		return set_foreground(tty, arg);
	case TIOCGSID:
		if (!is_controlling(tty, process_current()))
			return -ENOTTY;
		return put_user_u32(pid_vnr(READ_ONCE(process_current()->sid)), (void __user *)arg)
			       ? -EFAULT
			       : 0;
	case TIOCGETD:
		return put_user_u32(0, (void __user *)arg) ? -EFAULT : 0; /* N_TTY */
	default:
		return -ENOTTY;
	}
}
