/* SPDX-License-Identifier: MIT */
/*
 * Backlogs: lists of what is left to do at other nodes, in the order in which it came up, and the
 * wait until it is done.
 *
 * Invariants:	an item is in a backlog from backlog_add() to backlog_done(); its owner keeps it.
 * Locking:	backlog.lock, which is dropped before a waiter is woken.
 * Failure:	a node may be silent: a wait ends when the first item has not gone for SILENT_NS.
 */
#pragma once

#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

/* So long a thread that is about to report the end of a program waits for a silent node. */
#define BACKLOG_SILENT_NS (600 * NSEC_PER_MSEC)

struct backlog_item {
	struct list_head link; /* backlog.lock */
	uint64_t nr;           /* const while it is in */
};

struct backlog {
	struct spinlock lock; /* RANK_EXCACHE_FREE */
	struct list_head items __guarded_by(&lock);
	uint64_t last __guarded_by(&lock);     /* number of the newest item, ever */
	uint64_t size __guarded_by(&lock);     /* items */
	uint64_t moved_ns __guarded_by(&lock); /* when the first item became the first */
	bool begun __guarded_by(&lock);        /* backlog_begin() */
	struct waitqueue moved;
};

void backlog_init(struct backlog *b, const char *name);
/* Returns how many items there are now. Any context. */
uint64_t backlog_add(struct backlog *b, struct backlog_item *item);
void backlog_done(struct backlog *b, struct backlog_item *item);
/* For a worker that does items in turn: it begins to ask a node, or has ended. */
void backlog_begin(struct backlog *b, bool begun);
/* The worker is told to begin: unless it has begun, its node has not been silent so far. */
void backlog_kicked(struct backlog *b);
/* @to takes the place of @item, which is to be freed. */
void backlog_move(struct backlog *b, struct backlog_item *item, struct backlog_item *to);
/* Items. */
uint64_t backlog_size(struct backlog *b);
/*
 * Until all that is in now is done. -ETIMEDOUT: the node that the first item waits for is silent;
 * -EINTR: by @mode of wait_event_mode(). Sleeps.
 */
int backlog_wait(struct backlog *b, unsigned int mode) __must_check;
