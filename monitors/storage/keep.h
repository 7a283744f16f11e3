/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: the processor that may keep names and attributes.
 *
 * One processor at a time, the *keeper*, may answer its programs' look-ups from what it was told
 * before. A request of any other processor takes that back first: the keeper has dropped all of it,
 * or has left the cluster with its programs, before the request is begun.
 *
 * Flow:	keep_enter() -> the request -> keep_leave(), around each request of a processor;
 *		keep_grant() for PS_KEEP.
 * Invariants:	while there is a keeper, each request that is under way is its own.
 *		After a start again an earlier life may have had a keeper, so all processors are
 *		told before the first request is begun, its sender too: it may have bytes of files
 *		that only it knows of.
 * Context:	threads; keep_enter() may wait for the keeper.
 * Locking:	keep.lock (RANK_SPIN_MONITOR) guards everything; the thread that has set is_taking
 *		sends the message to the keeper, and the others wait for it.
 * Limits:	memory nodes are not looked at: they change what a processor asks for, which has
 *		looked the file up here.
 */
#pragma once

#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/compiler.h>
#include <lib/list.h>

#include "record.h"

struct keep_ops {
	/* Is it the only processor of the cluster? No lock but the caller's request is held. */
	bool (*is_alone)(const struct storage_peer *who);
	/*
	 * Tell @keeper that it keeps nothing any more, or, NULL, each processor: 0 when they have
	 * answered or left the cluster. Else an errno; may be asked again.
	 */
	int (*recall)(const struct storage_peer *keeper);
};

struct keep_use { /* a request under way; the caller's */
	struct list_head link;
	struct storage_peer who;
};

struct keep {
	struct spinlock lock;
	struct waitqueue taken; /* is_taking is over */
	struct list_head uses __guarded_by(&lock);
	struct storage_peer keeper __guarded_by(&lock); /* node 0: nobody */
	bool forgotten __guarded_by(&lock); /* an earlier life of this node may have had one */
	bool is_taking __guarded_by(&lock); /* a thread is; nobody becomes it meanwhile */
	const struct keep_ops *ops;         /* const; NULL: nobody may keep anything */
	void (*freed)(struct keep *k);      /* const; nobody keeps anything now; may be NULL */
};

/* @again: this node has had an earlier life in this cluster. */
void keep_init(struct keep *k, const struct keep_ops *ops, bool again);
/*
 * A request of @from begins, unless the keeper cannot be told: then an errno. @owed: it brings what
 * the programs of @from have been told is done, or what it had in an earlier life of this node, and
 * @from, which may be the keeper that is being told, answers that when the request is done.
 */
int keep_enter(struct keep *k, struct keep_use *use, const struct storage_peer *from, bool owed)
	__must_check;
void keep_leave(struct keep *k, struct keep_use *use);
/* Is @from the keeper? When k->freed() is called nobody is, nor becomes it before that returns. */
bool keep_is_keeper(struct keep *k, const struct storage_peer *from);
/* Or may it have been that of an earlier life of this node, and has not been told yet? */
bool keep_was_keeper(struct keep *k, const struct storage_peer *from);
/* Is the keeper, if there is one, no member any more? It keeps nothing then. */
bool keep_has_left(struct keep *k,
		   bool (*is_member)(const void *arg, const struct storage_peer *peer),
		   const void *arg);
/* May @from, whose request is under way, be the keeper? Then it is. */
bool keep_grant(struct keep *k, const struct storage_peer *from);
