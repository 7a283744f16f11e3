/* SPDX-License-Identifier: MIT */
/* Terminals: what the files of this folder share. */
#pragma once

#include <ctl/ctl.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/list.h>
#include <processor/tty.h>

#include "ldisc.h"

struct tty {
	struct list_head link; /* table lock */
	refcount_t refs;
	uint32_t index;        /* const */
	struct ctl_prog *prog; /* const; counted */
	uint32_t uid, gid;     /* const: whose it is */
	int64_t born_s;        /* const */
	struct spinlock lock;  /* RANK_SPIN_MONITOR */
	struct ldisc ld __guarded_by(&lock);
	struct ctl_winsize size __guarded_by(&lock);
	uint32_t session __guarded_by(&lock); /* 0: nobody's controlling terminal */
	uint32_t pgrp __guarded_by(&lock);    /* in the foreground */
	uint32_t nr_files __guarded_by(&lock);
	bool hung_up __guarded_by(&lock);  /* the launcher is gone: reads end, writes fail */
	bool out_busy __guarded_by(&lock); /* bytes are on their way to the launcher */
	struct waitqueue changed;          /* readers, writers, drainers, poll */
	struct waitqueue out;              /* the thread that carries output */
	struct waitqueue in;               /* the thread that carries input: room again */
};

/* Act on enum ldisc_event bits; no lock held. */
void tty_events(struct tty *tty, unsigned int events);
/* Wait until the launcher has everything that was written. @mode of wait_event_mode(). */
int tty_drain(struct tty *tty, unsigned int mode);

/* job.c */
/*
 * May the caller use @tty now?  0; -ERESTARTSYS: @signo was sent to its group, which is in the background; -EIO: it
 * cannot be stopped.  For SIGTTOU a caller that ignores or blocks it goes on.
 */
int tty_job_check(struct tty *tty, int signo) __must_check;
long tty_job_ioctl(struct tty *tty, uint32_t cmd, uint64_t arg);
