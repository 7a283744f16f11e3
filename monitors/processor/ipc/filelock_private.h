/* SPDX-License-Identifier: MIT */
/* Between filelock.c and filelock_remote.c. */
#pragma once

#include <fs/lock.h>
#include <kernel/mutex.h>
#include <kernel/wait.h>
#include <lib/list.h>
#include <processor/client/file_attr.h>

#include "filelock.h"

/* RANK_MONITOR: guards all that is below and the locks; no thread holds it while it waits. */
extern struct mutex filelock_mutex;

struct lock_key {
	uint64_t a, b, c;
};

struct lock_file {
	struct hlist_node link;
	struct lock_key key;
	struct lock_tree tree;
	struct list_head waiters; /* struct lock_waiter, of a file of this processor */
	uint32_t users; /* calls that use it, and its place in the list of doubtful ones */
	/* Of a storage node's file: */
	struct file_id id; /* const; node 0: it is none */
	uint32_t declared; /* to this start of the node */
	bool busy;         /* a thread asks the storage node about this file's locks */
	struct waitqueue idle;
	struct list_head doubts; /* struct owner_record */
	struct list_head doubtful_link;
};

/* An owner in the tree of a file, or one for which the storage node may know something else. */
struct owner_record {
	struct lock_owner o;
	bool keep;             /* it leaves the tree for a list of doubts */
	struct list_head link; /* lock_file.doubts */
};

struct lock_waiter {               /* on the waiting thread's stack */
	struct list_head link;     /* lock_file.waiters */
	struct list_head all_link; /* those that can be part of a deadlock */
	struct list_head todo;     /* a look for deadlocks */
	const struct lock_req *req;
	struct lock_file *file;
	struct waitqueue wq;
	bool retry; /* atomic */
	uint64_t mark;
	/* Of a storage node's file: */
	struct list_head remote_link;
	uint64_t token;
	int err; /* its node cannot be asked */
};

/* filelock.c */
void filelock_waiter_init(struct lock_waiter *w, struct lock_file *lf, const struct lock_req *req);
/* -ENOLCK: all is as it was. */
int filelock_apply(struct lock_file *lf, const struct lock_req *req) __must_hold(&filelock_mutex)
	__must_check;
/* All that @who has with @kind. True: there was something. */
bool filelock_drop_owner(struct lock_file *lf, enum lock_kind kind, const void *who)
	__must_hold(&filelock_mutex);
/* True: it has what it asks for. */
bool filelock_give_up(struct lock_file *lf, const struct lock_req *req)
	__must_hold(&filelock_mutex);
bool filelock_would_deadlock(const struct lock_file *lf, const struct lock_req *req)
	__must_hold(&filelock_mutex);
/* Sleep until w->retry, with the mutex dropped meanwhile. -EINTR. */
int filelock_sleep(struct lock_waiter *w) __must_hold(&filelock_mutex);
void filelock_put_file(struct lock_file *lf) __must_hold(&filelock_mutex);
/*
 * A file of @node that has locks and is not marked with @incarn: it is now, and is the caller's to
 * put.
 * @at, at first all 0, is where it was. NULL: there is none.
 */
struct lock_walk {
	size_t bucket, nr_buckets;
};
struct lock_file *filelock_next_of(uint32_t node, uint32_t incarn, struct lock_walk *at)
	__must_hold(&filelock_mutex);

/* filelock_remote.c: as filelock_set() and its kin, for a file of a storage node. */
int filelock_remote_set(struct lock_file *lf, const struct lock_req *req, bool wait)
	__must_hold(&filelock_mutex) __must_check;
/* 1: @found; 0: nothing is in the way; else an errno. */
int filelock_remote_test(struct lock_file *lf, const struct lock_req *req, struct lock_req *found)
	__must_hold(&filelock_mutex) __must_check;
void filelock_remote_drop(struct lock_file *lf, const void *owner) __must_hold(&filelock_mutex);
