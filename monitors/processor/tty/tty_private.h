/* SPDX-License-Identifier: MIT */
/* Terminals: what the files of this folder share. */
#pragma once

#include <abi/ioctl.h>
#include <ctl/ctl.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/list.h>

#include "ldisc_private.h"
#include "tty.h"

struct tty {
	struct list_head link; /* table lock */
	bool listed;           /* table lock */
	refcount_t refs;
	uint32_t index; /* const */
	struct ctl_prog
		*prog;  /* const; counted; NULL: a pseudo terminal, whose far side is a file */
	int64_t born_s; /* const */
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	uint32_t uid __guarded_by(&lock);
	uint32_t gid __guarded_by(&lock);
	uint32_t mode __guarded_by(&lock);
	struct ldisc ld __guarded_by(&lock);
	/* Baud, as they are told: nothing is sent by them. */
	uint32_t ispeed __guarded_by(&lock);
	uint32_t ospeed __guarded_by(&lock);
	struct ctl_winsize size __guarded_by(&lock);
	bool exclusive __guarded_by(&lock);   /* TIOCEXCL: only CAP_SYS_ADMIN opens it again */
	uint32_t session __guarded_by(&lock); /* 0: it controls no session */
	uint32_t pgrp __guarded_by(&lock);    /* in the foreground */
	uint32_t nr_files __guarded_by(&lock);
	bool hung_up __guarded_by(&lock);  /* the far side is gone: reads end, writes fail */
	bool out_busy __guarded_by(&lock); /* bytes are on their way to the launcher */
	/* Of a pseudo terminal: */
	bool locked __guarded_by(&lock); /* TIOCSPTLCK: it cannot be opened */
	bool closed __guarded_by(
		&lock); /* it was opened, and no file of it is left: the master reads EIO */
	bool master_exclusive __guarded_by(&lock); /* TIOCEXCL at the master: told, no more */
	bool packet __guarded_by(&lock);           /* TIOCPKT: the master reads packets */
	uint8_t told __guarded_by(&lock);          /* TIOCPKT_*: what it is told by the next one */
	bool gone __guarded_by(&lock);             /* the master is closed: no path leads to it */
	struct waitqueue changed;                  /* readers, writers, drainers, poll */
	struct waitqueue
		far; /* the threads that carry a console's input and output; files of a master */
};

static inline bool tty_is_pty(const struct tty *tty)
{
	return !tty->prog;
}

/* tty.c */
/*
 * A terminal that is in no table yet, with one reference; @prog may be NULL. ERR_PTR(-ENOMEM,
 * -ENOSPC)
 */
struct tty *tty_alloc(struct ctl_prog *prog, uint32_t uid, uint32_t gid);
/* Others can find it now; the table has no reference of its own. */
void tty_list(struct tty *tty);
void tty_unlist(struct tty *tty);

/*
 * The master in packet mode is told @what, one TIOCPKT_* bit, which takes back its opposite. The
 * caller wakes tty.far.
 */
void tty_tell_master_locked(struct tty *tty, uint8_t what) __must_hold(&tty->lock);
/* The same, if output was stopped or goes on since it was @was_stopped. */
void tty_tell_flow_locked(struct tty *tty, bool was_stopped) __must_hold(&tty->lock);
/* Act on enum ldisc_event bits; no lock held. */
void tty_events(struct tty *tty, unsigned int events);
/* Wait until the launcher has everything that was written. @mode of wait_event_mode(). */
int tty_drain(struct tty *tty, unsigned int mode);
/*
 * May more be typed? As Linux throttles: with little room left, as long as a reader could make
 * some.
 */
bool tty_input_may_go_on_locked(struct tty *tty) __must_hold(&tty->lock);
/* Its session has it no longer; the foreground group hears of it. */
void tty_leave_session(struct tty *tty);
/*
 * The session @sid takes another terminal: it has nothing to do with those any more that have gone
 * away from it.
 */
void tty_forget_gone(uint32_t sid);

/* settings.c */
/* The ioctls that a terminal and its master have in common. -ENOTTY: none of these. */
long tty_common_ioctl(struct tty *tty, uint32_t cmd, uint64_t arg);
/* TIOCEXCL, TIOCNXCL and TIOCGEXCL, where @flag is the side's. */
long tty_exclusive_ioctl(struct tty *tty, bool *flag, uint32_t cmd, uint64_t arg);

/* job.c */
/*
 * May the caller use @tty now? 0; -ERESTARTSYS: @signo was sent to its group, which is in the
 * background; -EIO: it cannot be stopped. For SIGTTOU a caller that ignores or blocks it goes on.
 */
int tty_job_check(struct tty *tty, int signo) __must_check;
long tty_job_ioctl(struct tty *tty, uint32_t cmd, uint64_t arg);
/* The caller has opened @tty, and did not say O_NOCTTY. */
void tty_job_opened(struct tty *tty);
