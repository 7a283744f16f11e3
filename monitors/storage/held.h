/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: files without a name that processors still use.
 *
 * A file that loses its last name, or never had one, is held for the client whose change did it,
 * until that client says that it uses the file no more, or leaves the cluster.
 *
 * Context:	threads; all functions may sleep, but held_begin() and held_cancel().
 * Locking:	one spinlock (RANK_SPIN_MONITOR) inside.
 */
#pragma once

#include <fs/fs.h>
#include <kernel/spinlock.h>
#include <lib/compiler.h>
#include <lib/list.h>

#include "record.h"
#include "share.h"

#define HELD_BUCKETS 256u

struct held_table {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	struct list_head buckets[HELD_BUCKETS] __guarded_by(&lock);
	uint64_t nr __guarded_by(&lock);          /* also read without the lock */
	struct shares shares __guarded_by(&lock); /* of users: what is held, and places for it */
	/* const: as in struct claims; NULL: nobody leaves */
	bool (*has_left)(uint32_t node, uint32_t incarn);
};

/* A place for a file in the table, made before the change, which it must not fail. */
struct held;

void held_table_init(struct held_table *table, bool (*has_left)(uint32_t, uint32_t));
void held_table_destroy(struct held_table *table);

/*
 * Before a change of @user that may take the last name of @in.  ERR_PTR, as fs_inode_get(), and
 * -ENOMEM too when SHARE_MAX files are held for @user.
 */
struct held *held_begin(struct held_table *table, struct fs_inode *in,
			const struct storage_peer *user);
/* After it, if @in has no name left: it is held for the user, unless that one has left. */
void held_add(struct held *h);
/* @in, which may have no name left, is held for @user if so. -ENOMEM, or as fs_inode_get(). */
int held_again(struct held_table *table, struct fs_inode *in, const struct storage_peer *user)
	__must_check;
/* After it, if it has one. */
void held_cancel(struct held *h);

/* @user uses file @ino of generation @gen no more.  One that is not held for it is ignored. */
void held_drop(struct held_table *table, const struct storage_peer *user, uint64_t ino,
	       uint32_t gen);
uint64_t held_count(const struct held_table *table);
/* Drop what is held for clients of which @is_member says no. */
void held_members(struct held_table *table,
		  bool (*is_member)(const void *arg, const struct storage_peer *peer),
		  const void *arg);
