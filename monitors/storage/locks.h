/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: advisory locks of the files of this node, of the programs of all processors.
 *
 * A processor names owners, and its threads' waits (tokens), by numbers of its own. A wait is told
 * by an event, as often as its processor asks, until that one acknowledges it; the thread then asks
 * for its lock again.
 *
 * Flow:	lock_table_init() -> requests -> lock_table_members() for each view ->
 *		lock_table_close(), lock_table_destroy().
 * Context:	threads; lock_table_events() waits for an event, all others only for memory.
 * Locking:	one mutex (RANK_FILE_LOCKS) inside.
 * Limits:	SHARE_MAX locks and waits, together, for each life of a processor: -ENOLCK.
 */
#pragma once

#include <kernel/mutex.h>
#include <kernel/wait.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/rbtree.h>
#include <proto/ps.h>

#include "record.h"

struct lock_table {
	struct mutex lock; /* RANK_FILE_LOCKS */
	struct rb_root files __guarded_by(&lock);
	struct list_head peers __guarded_by(&lock);
	struct list_head posix_waits __guarded_by(&lock); /* a deadlock may pass through them */
	struct list_head grace_waits __guarded_by(&lock);
	bool grace __guarded_by(&lock);
	uint64_t look_number __guarded_by(&lock);
	uint64_t nr_locks;       /* atomic; changes under lock */
	uint64_t nr_waits;       /* atomic; changes under lock: those that have not been told */
	uint64_t nr_events;      /* atomic; changes under lock */
	struct waitqueue events; /* there are more, or the table is closed */
	bool closed;             /* atomic; goes one way */
	uint32_t incarn;         /* const: of this node */
	uint64_t max;            /* const: SHARE_MAX, less in tests */
	uint64_t events_ns;      /* const: how long lock_table_events() waits; less in tests */
	/* const: as in struct claims; NULL: nobody leaves */
	bool (*has_left)(uint32_t node, uint32_t incarn);
};

/* @grace: nobody gets a lock until lock_table_grace_end(). */
void lock_table_init(struct lock_table *table, uint32_t incarn, bool grace,
		     bool (*has_left)(uint32_t, uint32_t));
/* Waiting requests go on, and end with -ESHUTDOWN. */
void lock_table_close(struct lock_table *table);
void lock_table_destroy(struct lock_table *table);
void lock_table_grace_end(struct lock_table *table);

/*
 * Do what @req says for @who. -ESTALE: @who has left, or has given the request up; -EDEADLK;
 * -ENOLCK.
 */
int lock_table_request(struct lock_table *table, const struct storage_peer *who,
		       const struct ps_lock_req *req, struct ps_lock_rep *rep) __must_check;
/*
 * Programs of @who have these locks. -ESTALE as above; -ENOLCK: another one's is in the way, or
 * there are too many, and @who has none of that file's any more.
 */
int lock_table_declare(struct lock_table *table, const struct storage_peer *who,
		       const struct ps_locks_req *req) __must_check;
/*
 * The next events of @who, at most PS_LOCK_EVENTS_MAX; none after some seconds. -ESTALE: it has
 * left; -ESHUTDOWN; -EINTR.
 */
int lock_table_events(struct lock_table *table, const struct storage_peer *who,
		      const struct ps_lock_events_req *req, struct ps_lock_events_rep *rep)
	__must_check;
/* Drop all of those for which @is_member says no. */
void lock_table_members(struct lock_table *table,
			bool (*is_member)(const void *arg, const struct storage_peer *peer),
			const void *arg);
