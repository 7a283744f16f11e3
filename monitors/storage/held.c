/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: files without a name that processors still use.
 *
 * Invariants:	a file is in the table once for each client that it is held for, each time with a
 *		reference and an open reference of the file system, so that its contents stay. It
 *		is in there for no client that has left: has_left() tells of one before
 *		held_members() looks for what it left behind, and both look under the lock.
 */
#include "held.h"

#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <mm/slab.h>

struct held {
	struct list_head link; /* bucket: table.lock */
	struct held_table *table;
	struct fs_inode *in;
	uint64_t ino;
	uint32_t gen;
	struct storage_peer user;
};

void held_table_init(struct held_table *table, bool (*has_left)(uint32_t, uint32_t))
{
	table->has_left = has_left;
	spin_lock_init(&table->lock, "storage.held", RANK_SPIN_MONITOR);
	table->nr = 0;
	for (size_t i = 0; i < HELD_BUCKETS; i++)
		list_init(&table->buckets[i]);
	shares_init(&table->shares);
}

static struct list_head *bucket_locked(struct held_table *table, uint64_t ino)
	__must_hold(&table->lock)
{
	assert_spin_held(&table->lock);
	return &table->buckets[hash64(ino) % HELD_BUCKETS];
}

static void insert_locked(struct held_table *table, struct held *h) __must_hold(&table->lock)
{
	assert_spin_held(&table->lock);
	list_add(&h->link, bucket_locked(table, h->ino));
	WRITE_ONCE(table->nr, table->nr + 1);
}

static void remove_locked(struct held_table *table, struct held *h) __must_hold(&table->lock)
{
	assert_spin_held(&table->lock);
	ASSERT(table->nr);
	list_del(&h->link);
	WRITE_ONCE(table->nr, table->nr - 1);
}

uint64_t held_count(const struct held_table *table)
	__no_lock_analysis("a number to be shown, read without the lock")
{
	return READ_ONCE(table->nr);
}

static bool is_same_peer(const struct storage_peer *a, const struct storage_peer *b)
{
	return a->node == b->node && a->incarn == b->incarn;
}

static bool take_share(struct held_table *table, const struct storage_peer *user)
{
	struct share *fresh = share_alloc();
	bool taken = false;

	if (fresh) {
		spin_lock(&table->lock);
		taken = share_take(&table->shares, user, &fresh);
		spin_unlock(&table->lock);
	}
	kfree(fresh);
	return taken;
}

static void held_free(struct held *h)
{
	spin_lock(&h->table->lock);
	share_give(&h->table->shares, &h->user);
	spin_unlock(&h->table->lock);
	kfree(h);
}

struct held *held_begin(struct held_table *table, struct fs_inode *in,
			const struct storage_peer *user)
{
	struct held *h = kzalloc(sizeof(*h));
	struct fs_inode *again;
	struct fs_stat s;

	if (!h || !take_share(table, user)) {
		kfree(h);
		return ERR_PTR(-ENOMEM);
	}
	h->table = table;
	h->user = *user;
	fs_inode_stat(in, &s);
	h->ino = s.ino;
	h->gen = s.gen;
	/* A second reference: the caller puts its own. */
	again = fs_inode_get(in->fs, s.ino, s.gen);
	if (IS_ERR(again)) {
		held_free(h);
		return ERR_CAST(again);
	}
	h->in = again;
	fs_open_ref(h->in);
	return h;
}

/* The file goes, unless another user holds it. */
static void let_go(struct held *h)
{
	fs_close_ref(h->in);
	fs_inode_put(h->in);
	held_free(h);
}

void held_cancel(struct held *h)
{
	if (h)
		let_go(h);
}

static struct held *find_locked(struct held_table *table, const struct storage_peer *user,
				uint64_t ino, uint32_t gen) __must_hold(&table->lock)
{
	struct held *h;

	assert_spin_held(&table->lock);
	list_for_each_entry(h, bucket_locked(table, ino), link) {
		if (h->ino == ino && h->gen == gen && is_same_peer(&h->user, user))
			return h;
	}
	return NULL;
}

void held_add(struct held *h)
{
	struct held_table *table = h->table;
	bool drop;

	spin_lock(&table->lock);
	drop = find_locked(table, &h->user, h->ino, h->gen) ||
	       (table->has_left && table->has_left(h->user.node, h->user.incarn));
	if (!drop)
		insert_locked(table, h);
	spin_unlock(&table->lock);
	if (drop)
		let_go(h);
}

int held_again(struct held_table *table, struct fs_inode *in, const struct storage_peer *user)
{
	struct held *h = held_begin(table, in, user);
	struct fs_stat s;

	if (IS_ERR(h))
		return (int)PTR_ERR(h);
	fs_inode_stat(in, &s);
	if (s.nlink)
		held_cancel(h);
	else
		held_add(h);
	return 0;
}

void held_drop(struct held_table *table, const struct storage_peer *user, uint64_t ino,
	       uint32_t gen)
{
	struct held *h;

	spin_lock(&table->lock);
	h = find_locked(table, user, ino, gen);
	if (h)
		remove_locked(table, h);
	spin_unlock(&table->lock);
	if (h)
		let_go(h);
}

void held_members(struct held_table *table,
		  bool (*is_member)(const void *arg, const struct storage_peer *peer),
		  const void *arg)
{
	struct held *h, *next;
	LIST_HEAD(gone);

	spin_lock(&table->lock);
	for (size_t i = 0; i < HELD_BUCKETS; i++) {
		list_for_each_entry_safe(h, next, &table->buckets[i], link) {
			if (!is_member(arg, &h->user)) {
				remove_locked(table, h);
				list_add(&h->link, &gone);
			}
		}
	}
	spin_unlock(&table->lock);
	list_for_each_entry_safe(h, next, &gone, link)
		let_go(h);
}

static bool nobody(const void *arg, const struct storage_peer *peer)
{
	(void)arg, (void)peer;
	return false;
}

void held_table_destroy(struct held_table *table)
{
	held_members(table, nobody, NULL);
}
