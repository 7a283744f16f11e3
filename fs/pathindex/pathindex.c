/* SPDX-License-Identifier: MIT */
/*
 * The index of paths: entries, hash and eviction.  The walk is in pathwalk.c.
 *
 * Changes are counted.  An entry knows the count from before its look-up, and the index knows for
 * each inode (for each of a number of hashes of them) the count of its last change: an entry is
 * good if neither the directory that it was found in nor the file that it leads to has changed
 * since.
 *
 * Locking:	pi->lock (RANK_SPIN_FS) guards the buckets, the LRU and the counts.  Entries are
 *		const once inserted and are copied out under the lock.
 */
#include <fs/pathindex.h>

#include <kernel/panic.h>
#include <kernel/random.h>
#include <kernel/spinlock.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/list.h>
#include <lib/siphash.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "pathindex_priv.h"

#define STAMPS 1024u

struct entry {
	struct list_head hash;
	struct list_head lru;
	uint64_t key;
	uint64_t dir; /* inode in which it was looked up; 0: it is the root */
	uint64_t now; /* changes that there had been before the walk that found this */
	struct path_node node;
	uint32_t vnode;
	uint32_t len;
	char path[];
};

struct pathindex {
	struct spinlock lock;
	struct list_head *table;                      /* const; the buckets: lock */
	struct list_head lru __guarded_by(&lock);     /* oldest first */
	uint64_t now __guarded_by(&lock);             /* changes so far */
	uint64_t all_changed __guarded_by(&lock);     /* number of the last one of everything */
	uint64_t changed[STAMPS] __guarded_by(&lock); /* of the last one, by hash of the inode */
	struct pathindex_stats stats __guarded_by(&lock);
	uint64_t max_bytes;     /* const */
	uint32_t mask;          /* const: table size - 1 */
	struct siphash_key key; /* const, random: programs choose paths */
};

#define ENTRY_TYPICAL_BYTES 128u
#define MIN_BUCKETS         64u
#define MAX_BUCKETS         65536u

struct pathindex *pathindex_create(uint64_t max_bytes)
{
	struct pathindex *pi = kzalloc(sizeof(*pi));
	uint32_t n = MIN_BUCKETS;

	if (!pi)
		return ERR_PTR(-ENOMEM);
	while (n < max_bytes / ENTRY_TYPICAL_BYTES && n < MAX_BUCKETS)
		n *= 2;
	pi->mask = n - 1;
	pi->max_bytes = max_bytes;
	pi->table = kcalloc(n, sizeof(*pi->table));
	if (!pi->table) {
		kfree(pi);
		return ERR_PTR(-ENOMEM);
	}
	for (uint32_t i = 0; i < n; i++)
		list_init(&pi->table[i]);
	spin_lock_init(&pi->lock, "pathindex", RANK_SPIN_FS);
	list_init(&pi->lru);
	random_bytes(&pi->key, sizeof(pi->key));
	return pi;
}

static size_t entry_bytes(const struct entry *e)
{
	return sizeof(*e) + e->len;
}

static void unlink_locked(struct pathindex *pi, struct entry *e) __must_hold(&pi->lock)
{
	assert_spin_held(&pi->lock);
	ASSERT(pi->stats.nr_entries && pi->stats.bytes >= entry_bytes(e));
	list_del(&e->hash);
	list_del(&e->lru);
	pi->stats.nr_entries--;
	pi->stats.bytes -= entry_bytes(e);
}

/* The last change of @ino, or of one that shares its hash. */
static uint64_t *stamp_locked(struct pathindex *pi, uint64_t ino) __must_hold(&pi->lock)
{
	assert_spin_held(&pi->lock);
	return &pi->changed[hash64(ino) % STAMPS];
}

/* Has anything changed since @now of what an entry for @ino, found in @dir, rests on? */
static bool is_stale_locked(struct pathindex *pi, uint64_t dir, uint64_t ino, uint64_t now)
	__must_hold(&pi->lock)
{
	assert_spin_held(&pi->lock);
	return pi->all_changed > now || *stamp_locked(pi, dir) > now ||
	       (ino && *stamp_locked(pi, ino) > now);
}

void pathindex_destroy(struct pathindex *pi)
{
	struct entry *e, *next;

	lock_not_needed(&pi->lock, "no other thread has the index any more");
	list_for_each_entry_safe(e, next, &pi->lru, lru)
		kfree(e);
	kfree(pi->table);
	kfree(pi);
}

static uint64_t key_of(const struct pathindex *pi, uint32_t vnode, const char *path, size_t len)
{
	struct siphash_key key = pi->key;

	/* The vNode goes into the key, so that no two of them share chains by design. */
	key.k0 ^= vnode;
	return siphash24(&key, path, len);
}

static struct entry *find_locked(struct pathindex *pi, uint64_t key, uint32_t vnode,
				 const char *path, size_t len) __must_hold(&pi->lock)
{
	struct entry *e;

	assert_spin_held(&pi->lock);
	list_for_each_entry(e, &pi->table[key & pi->mask], hash) {
		if (e->key == key && e->vnode == vnode && e->len == len &&
		    !memcmp(e->path, path, len))
			return e;
	}
	return NULL;
}

uint64_t pathindex_now(struct pathindex *pi)
{
	uint64_t now;

	spin_lock(&pi->lock);
	now = pi->now;
	spin_unlock(&pi->lock);
	return now;
}

bool pathindex_find(struct pathindex *pi, uint32_t vnode, const char *path, size_t len,
		    struct path_node *out)
{
	const uint64_t key = key_of(pi, vnode, path, len);
	struct entry *dead = NULL, *e;
	bool found = false;

	spin_lock(&pi->lock);
	e = find_locked(pi, key, vnode, path, len);
	if (e && is_stale_locked(pi, e->dir, e->node.ino, e->now)) {
		unlink_locked(pi, e);
		dead = e;
	} else if (e) {
		list_move_tail(&e->lru, &pi->lru);
		*out = e->node;
		found = true;
	}
	if (found)
		pi->stats.hits++;
	else
		pi->stats.misses++;
	spin_unlock(&pi->lock);
	kfree(dead);
	return found;
}

/* Make room: entries that were pushed out go to @dead, to be freed without the lock. */
static void evict_locked(struct pathindex *pi, struct list_head *dead) __must_hold(&pi->lock)
{
	assert_spin_held(&pi->lock);
	while (pi->stats.bytes > pi->max_bytes && !list_empty(&pi->lru)) {
		struct entry *e = list_first_entry(&pi->lru, struct entry, lru);

		unlink_locked(pi, e);
		list_add(&e->lru, dead);
		pi->stats.evictions++;
	}
}

void pathindex_add(struct pathindex *pi, uint32_t vnode, const char *path, size_t len, uint64_t dir,
		   const struct path_node *node, uint64_t now)
{
	const uint64_t key = key_of(pi, vnode, path, len);
	struct entry *e = kmalloc(sizeof(*e) + len);
	struct entry *old, *next;
	LIST_HEAD(dead);

	if (!e)
		return; /* only a cache */
	e->key = key;
	e->dir = dir;
	e->now = now;
	e->node = *node;
	e->vnode = vnode;
	e->len = (uint32_t)len;
	memcpy(e->path, path, len);

	spin_lock(&pi->lock);
	old = find_locked(pi, key, vnode, path, len);
	if (old) {
		unlink_locked(pi, old);
		list_add(&old->lru, &dead);
	}
	if (!is_stale_locked(pi, dir, node->ino, now)) {
		list_add(&e->hash, &pi->table[key & pi->mask]);
		list_add_tail(&e->lru, &pi->lru);
		pi->stats.nr_entries++;
		pi->stats.bytes += entry_bytes(e);
		evict_locked(pi, &dead);
	} else {
		list_add(&e->lru, &dead);
	}
	spin_unlock(&pi->lock);

	list_for_each_entry_safe(e, next, &dead, lru)
		kfree(e);
}

void pathindex_invalidate(struct pathindex *pi)
{
	spin_lock(&pi->lock);
	pi->all_changed = ++pi->now;
	spin_unlock(&pi->lock);
}

void pathindex_touch(struct pathindex *pi, uint64_t ino)
{
	spin_lock(&pi->lock);
	*stamp_locked(pi, ino) = ++pi->now;
	spin_unlock(&pi->lock);
}

void pathindex_forget(struct pathindex *pi, uint32_t vnode, const char *canon, size_t len)
{
	struct entry *e;
	uint64_t key;

	if (len == 1 && canon[0] == '/')
		len = 0;
	key = key_of(pi, vnode, canon, len);
	spin_lock(&pi->lock);
	e = find_locked(pi, key, vnode, canon, len);
	if (e)
		unlink_locked(pi, e);
	spin_unlock(&pi->lock);
	kfree(e);
}

void pathindex_stats(struct pathindex *pi, struct pathindex_stats *out)
{
	spin_lock(&pi->lock);
	*out = pi->stats;
	spin_unlock(&pi->lock);
}
