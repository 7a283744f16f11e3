/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: which changes were done, and what they were answered.
 *
 * Flow:	record_begin() -> the change -> record_end().  A request that comes again is
 *		answered by record_begin(); one that comes while the first one still runs waits for
 *		it.
 * Context:	threads; record_begin() may sleep.
 * Locking:	one spinlock (RANK_SPIN_MONITOR) inside; it is never held across a change.
 * Limits:	a client has RECORD_MAX changes whose answers it has not acknowledged; clients are
 *		members of the cluster, and a view without them ends them.
 */
#pragma once

#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <proto/ps.h>

#define RECORD_MAX       1024u
#define RECORD_REPLY_MAX 256u /* bytes; changes have short answers */

/* The sender of a request, as the connection says. */
struct storage_peer {
	uint32_t node;
	uint32_t incarn;
};

struct record_table {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	struct list_head clients __guarded_by(&lock);
	struct waitqueue done; /* some change was */
	uint32_t nr_late
		__guarded_by(&lock); /* records off their lists whose changes are not done */
	/* const: as in struct claims; NULL: nobody leaves */
	bool (*has_left)(uint32_t node, uint32_t incarn);
};

struct record;

void record_table_init(struct record_table *table, bool (*has_left)(uint32_t, uint32_t));
/* No change is running. */
void record_table_destroy(struct record_table *table);

/*
 * The record of a change that is to be done now, for record_end().  NULL: there is nothing to do,
 * and *@ret is the answer: bytes in @reply (RECORD_REPLY_MAX) or an errno.  -ESTALE: the client has
 * acknowledged it, or has left; -ENOBUFS: too many are not acknowledged; -ENOMEM, -EINTR.
 */
struct record *record_begin(struct record_table *table, const struct storage_peer *from,
			    const struct ps_change *change, void *reply, ssize_t *ret);
void record_end(struct record_table *table, struct record *rec, const void *reply, ssize_t ret);
/*
 * @from has the answers of its changes below @acked, or wants them no more: none of them is begun
 * from here on. -EAGAIN: one is being done still; -ESTALE: it has left; -ENOMEM.
 */
int record_acknowledge(struct record_table *table, const struct storage_peer *from, uint64_t acked)
	__must_check;

/* Forget the clients for which @is_member says no. */
void record_members(struct record_table *table,
		    bool (*is_member)(const void *arg, const struct storage_peer *peer),
		    const void *arg);
