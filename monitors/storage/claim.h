/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: the record of which memory node caches and changes which file.
 *
 * Flow:	MS_CLAIM makes a claim unless a member has it; MS_WRITE, MS_CHANGE and MS_RESERVE
 *		hold it while they act; MS_RELEASE ends it, and so does the end of the node's life.
 * Invariants:	a file has one claim. An operation holds the claim under which it began, and no
 *		other node gets a claim of the file before that has ended: so nothing of an older
 *		claim is written after something of a newer one.
 * Locking:	claims.lock, a leaf but for the look whether a node has left.
 * Limits:	records are in memory. A memory node keeps a bounded number of unused claims; one
 *		that asks again after storage was started anew is known by its epoch.
 * See:		docs/design/files.md
 */
#pragma once

#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/compiler.h>
#include <lib/rbtree.h>
#include <lib/types.h>
#include <proto/types.h>

#include "record.h"
#include "share.h"

struct claim;

struct claims {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	struct rb_root tree __guarded_by(&lock);
	uint64_t nr __guarded_by(&lock); /* also read without the lock: 0, no file is claimed */
	uint64_t epoch __guarded_by(&lock);
	struct shares shares __guarded_by(&lock); /* records of each memory node's */
	struct waitqueue quiet;                   /* woken when an operation has ended */
	/* const: is this life of the node over? Any context, spinlocks held. */
	bool (*has_left)(uint32_t node, uint32_t incarn);
};

void claims_init(struct claims *c, uint32_t incarn, bool (*has_left)(uint32_t, uint32_t));
void claims_destroy(struct claims *c);

/*
 * @file is claimed by @who, by *@epoch; or another member has it: *@node. Waits until operations of
 * a node that has left are over. -ENOMEM, also when @who has SHARE_MAX; -EINTR: the asker has given
 * up.
 */
int claim_take(struct claims *c, const struct proto_file *file, const struct storage_peer *who,
	       uint64_t *epoch, uint32_t *node) __must_check;
/* Hold the claim @epoch of @who for an operation: -ESTALE, it is not theirs. */
int claim_begin(struct claims *c, const struct proto_file *file, const struct storage_peer *who,
		uint64_t epoch, struct claim **out) __must_check;
/* True: the claim is over, and its promise is to be looked after by claim_begin_left(). */
bool claim_end(struct claims *c, struct claim *claim);
/*
 * It ends, if it is there. Not NULL: it had a promise, which is to be looked after; it is held, and
 * claim_end() is its end.
 */
struct claim *claim_release(struct claims *c, const struct proto_file *file,
			    const struct storage_peer *who, uint64_t epoch);
/* Has a member other than @node claimed @file? */
bool claim_is_others(struct claims *c, const struct proto_file *file, uint32_t node);
/* Claims of nodes that have left go; those that operations hold or that have promises stay. */
void claims_drop_left(struct claims *c);
/* The file system may have a promise for @claim, which is held. */
void claim_set_promised(struct claims *c, struct claim *claim);
bool claim_is_promised(struct claims *c, const struct claim *claim);
/* Hold a claim with a promise that is over, of *@file; it has none from now on. False: no more. */
bool claim_begin_left(struct claims *c, struct proto_file *file, struct claim **out);
