/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: the time after a start again, in which the members say what they still have.
 *
 * The records of claims and of files without a name are in memory, and were lost with the earlier
 * life of this node. Until each processor and memory node has declared again what it had, or one
 * lease is over, no claim is given to a node that did not have it, and no file without a name is
 * freed.
 *
 * Flow:	grace_init() -> grace_declare() by each member -> grace_end().
 * Context:	threads.
 * Locking:	one spinlock (RANK_SPIN_MONITOR) inside.
 */
#pragma once

#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/compiler.h>
#include <lib/list.h>

#include "record.h"

struct grace {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	/* Members that have declared all, with their lives. */
	struct list_head declared __guarded_by(&lock);
	bool over;                /* atomic; goes one way */
	struct waitqueue changed; /* somebody has declared, or it is over */
};

/* @wanted: this is a start again. */
void grace_init(struct grace *g, bool wanted);
void grace_destroy(struct grace *g);
/* @who has declared all. -ENOMEM. */
int grace_declare(struct grace *g, const struct storage_peer *who) __must_check;
bool grace_has_declared(struct grace *g, const struct storage_peer *who);
/* It is over; waiters go on. False: it was already. */
bool grace_end(struct grace *g);
/* There are other members: the thread that waits for the last declaration looks again. */
void grace_look(struct grace *g);
/* Until it is over: 0, -EINTR. */
int grace_wait(struct grace *g) __must_check;
static inline bool grace_is_over(const struct grace *g)
{
	return __atomic_load_n(&g->over, __ATOMIC_ACQUIRE);
}
