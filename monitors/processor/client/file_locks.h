/* SPDX-License-Identifier: MIT */
/*
 * Requests of the processor monitor to storage nodes about advisory locks, one function each.
 *
 * Each has a number, by which a storage node refuses one that arrives after its sender has given it
 * up.
 *
 * Context:	all sleep for a reply; no lock but aspace.map_lock may be held.
 * Failure:	the peer's errno; -EIO; -EINTR, which only a thread that is to be killed sees: the
 *		node may have done it, or not. A malformed reply is -EPROTO.
 */
#pragma once

#include <fs/lock.h>
#include <lib/compiler.h>

#include "file_attr.h"

enum storage_lock_state {
	STORAGE_LOCK_FREE,  /* granted; of a test: nothing is in the way */
	STORAGE_LOCK_BUSY,  /* something is */
	STORAGE_LOCK_WAITS, /* the same, and an event will tell when to try again */
	STORAGE_LOCK_GRACE, /* nobody gets a lock now; an event will tell the end of that */
};

/*
 * Set, change or unlock; with @wait it waits by @token for what is in the way. enum
 * storage_lock_state, or an error: -EDEADLK, -ENOLCK.
 */
int storage_lock(const struct file_id *file, const struct lock_req *req, uint64_t token, bool wait)
	__must_check;
/*
 * Is something in the way of @req? STORAGE_LOCK_FREE, _BUSY (then @found is set, but its owner),
 * _GRACE.
 */
int storage_lock_test(const struct file_id *file, const struct lock_req *req, uint64_t token,
		      struct lock_req *found) __must_check;
/* The thread that waited by @token does not any more. */
int storage_lock_cancel(const struct file_id *file, const struct lock_req *req, uint64_t token)
	__must_check;

/*
 * Tell the node, which was started again as @incarn, that programs have these locks of @file.
 * -ENOLCK: another processor has one in their way, and they have none of the file any more.
 */
int storage_locks_declare(const struct file_id *file, uint32_t incarn, const struct lock_req *locks,
			  size_t nr) __must_check;

#define STORAGE_LOCK_EVENTS 64u
struct storage_lock_events {
	uint64_t last;   /* 0 at first, then as the last answer left it */
	uint32_t incarn; /* the same; another one than before: all waits are lost */
	uint32_t nr;
	uint64_t tokens[STORAGE_LOCK_EVENTS];
};
/* Wait for the next ones, for some seconds. */
int storage_lock_events(uint32_t node, struct storage_lock_events *ev) __must_check;
