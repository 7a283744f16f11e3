/* SPDX-License-Identifier: MIT */
/*
 * Metadata block cache.
 *
 * Flow:	bcache_get() finds the block or inserts a buffer in state READING, which
 *		makes others wait instead of reading twice; the inserter reads it from
 *		the device and makes it VALID or FAILED.  write.c has pins, dirty buffers and
 *		writing.
 * Context:	threads; sleeps for the disk and for memory.
 * Locking:	bc->lock (RANK_SPIN_FS) guards hash, LRU, dirty list, refs, pins and states.  Data
 *		is written before the state says VALID, then only by those who have pinned it.
 * Invariants:	the LRU holds the VALID buffers without a reference, and only these; a state
 *		changes once, from READING.  A dirty buffer has a reference of the dirty list, so it
 *		is never evicted.  A buffer is not both pinned and being written.
 * Failure:	a FAILED buffer leaves the hash at once, so the next reader asks the
 *		device again; the threads that waited get -EIO.  Without memory an unused buffer is
 *		used again; the owner also has the spare ones.
 */
#include <fs/bcache.h>

#include <drivers/blkdev.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "bcache_priv.h"

#define BCACHE_MIN_BUFS    16u
#define BCACHE_MAX_BUCKETS 65536u

static struct list_head *bucket_of(struct bcache *bc, uint64_t block)
{
	return &bc->table[hash64(block) & bc->mask];
}

static uint32_t table_size(uint64_t nr_bufs)
{
	uint32_t n = BCACHE_MIN_BUFS;

	while (n < nr_bufs && n < BCACHE_MAX_BUCKETS)
		n *= 2;
	return n;
}

struct bcache *bcache_create(struct blkdev *bd, uint32_t block_size, uint64_t max_bytes)
{
	struct bcache *bc;
	uint32_t n;

	if (!block_size || block_size % bd->block_size || block_size > bd->max_seg_len)
		return ERR_PTR(-EINVAL);
	bc = kzalloc(sizeof(*bc));
	if (!bc)
		return ERR_PTR(-ENOMEM);
	bc->bd = bd;
	bc->block_size = block_size;
	bc->nr_blocks = bd->nr_sectors / (block_size >> BLK_SECTOR_SHIFT);
	bc->max_bufs = MAX(max_bytes / block_size, (uint64_t)BCACHE_MIN_BUFS);
	n = table_size(bc->max_bufs);
	bc->mask = n - 1;
	bc->table = kcalloc(n, sizeof(*bc->table));
	if (!bc->table) {
		kfree(bc);
		return ERR_PTR(-ENOMEM);
	}
	for (uint32_t i = 0; i < n; i++)
		list_init(&bc->table[i]);
	spin_lock_init(&bc->lock, "bcache", RANK_SPIN_FS);
	list_init(&bc->lru);
	list_init(&bc->dirty);
	list_init(&bc->spare);
	waitqueue_init(&bc->read_done);
	waitqueue_init(&bc->write_done);
	return bc;
}

static void buf_free(struct bcache_buf *buf)
{
	kfree(buf->data);
	kfree(buf);
}

/* Take the oldest unused buffer out of the cache. */
static struct bcache_buf *take_oldest_locked(struct bcache *bc) __must_hold(&bc->lock)
{
	struct bcache_buf *buf;

	assert_spin_held(&bc->lock);
	if (list_empty(&bc->lru))
		return NULL;
	buf = list_first_entry(&bc->lru, struct bcache_buf, lru);
	ASSERT(!buf->refs && buf->state == BUF_VALID);
	list_del(&buf->lru);
	list_del(&buf->hash);
	bc->nr_bufs--;
	bc->stats.evictions++;
	return buf;
}

static struct bcache_buf *buf_new(struct bcache *bc)
{
	struct bcache_buf *buf = kzalloc(sizeof(*buf));

	if (!buf)
		return NULL;
	buf->data = kmalloc(bc->block_size);
	if (!buf->data) {
		kfree(buf);
		return NULL;
	}
	return buf;
}

/* Without memory: the oldest unused buffer, which leaves the cache, or one of the owner's. */
static struct bcache_buf *buf_without_memory(struct bcache *bc)
{
	struct bcache_buf *buf;

	spin_lock(&bc->lock);
	buf = take_oldest_locked(bc);
	if (!buf && bc->nr_spare && bc->owner == thread_current()) {
		buf = list_first_entry(&bc->spare, struct bcache_buf, lru);
		list_del(&buf->lru);
		bc->nr_spare--;
	}
	spin_unlock(&bc->lock);
	return buf;
}

static struct bcache_buf *buf_alloc(struct bcache *bc, uint64_t block)
{
	struct bcache_buf *buf = buf_new(bc);
	uint8_t *data;

	if (!buf)
		buf = buf_without_memory(bc);
	if (!buf)
		return NULL;
	data = buf->data;
	*buf = (struct bcache_buf){
		.data = data, .bc = bc, .block = block, .refs = 1, .state = BUF_READING
	};
	list_init(&buf->hash);
	list_init(&buf->lru);
	list_init(&buf->dirty_link);
	return buf;
}

int bcache_set_aside(struct bcache *bc, uint32_t nr)
{
	struct bcache_buf *buf;
	uint32_t have;

	spin_lock(&bc->lock);
	have = bc->nr_spare;
	spin_unlock(&bc->lock);
	for (; have < nr; have++) {
		buf = buf_new(bc);
		if (!buf)
			return -ENOMEM;
		spin_lock(&bc->lock);
		list_add_tail(&buf->lru, &bc->spare);
		bc->nr_spare++;
		spin_unlock(&bc->lock);
	}
	return 0;
}

void bcache_set_owner(struct bcache *bc, struct thread *owner)
{
	spin_lock(&bc->lock);
	bc->owner = owner;
	spin_unlock(&bc->lock);
}

void bcache_destroy(struct bcache *bc)
{
	struct bcache_buf *buf, *next;

	lock_not_needed(&bc->lock, "no buffer is held, so no other thread is here");
	list_for_each_entry_safe(buf, next, &bc->dirty, dirty_link)
		bcache_mark_clean(buf);
	list_for_each_entry_safe(buf, next, &bc->lru, lru) {
		list_del(&buf->lru);
		list_del(&buf->hash);
		buf_free(buf);
		bc->nr_bufs--;
	}
	list_for_each_entry_safe(buf, next, &bc->spare, lru) {
		list_del(&buf->lru);
		buf_free(buf);
	}
	WARN_ON(bc->nr_bufs != 0);
	kfree(bc->table);
	kfree(bc);
}

static struct bcache_buf *find_locked(struct bcache *bc, uint64_t block) __must_hold(&bc->lock)
{
	struct bcache_buf *buf;

	assert_spin_held(&bc->lock);
	list_for_each_entry(buf, bucket_of(bc, block), hash) {
		if (buf->block == block)
			return buf;
	}
	return NULL;
}

/* Take the oldest unused buffer out of the cache if that is over its limit. */
static struct bcache_buf *evict_locked(struct bcache *bc) __must_hold(&bc->lock)
{
	assert_spin_held(&bc->lock);
	return bc->nr_bufs < bc->max_bufs ? NULL : take_oldest_locked(bc);
}

static int state_of(struct bcache_buf *buf)
{
	int state;

	spin_lock(&buf->bc->lock);
	state = buf->state;
	spin_unlock(&buf->bc->lock);
	return state;
}

static struct bcache_buf *hold_locked(struct bcache *bc, struct bcache_buf *buf)
	__must_hold(&bc->lock)
{
	assert_spin_held(&bc->lock);
	if (buf->refs++ == 0)
		list_del(&buf->lru);
	bc->stats.hits++;
	return buf;
}

/* Wait until another thread's read of @buf is over. */
static struct bcache_buf *await(struct bcache *bc, struct bcache_buf *buf)
{
	wait_event(&bc->read_done, state_of(buf) != BUF_READING);
	if (state_of(buf) == BUF_VALID)
		return buf;
	bcache_put(buf);
	return ERR_PTR(-EIO);
}

/* Read @buf, which is in the hash and this thread's to read. */
static struct bcache_buf *fill(struct bcache *bc, struct bcache_buf *buf)
{
	const uint64_t sector = buf->block * (bc->block_size >> BLK_SECTOR_SHIFT);
	const int err = blk_read(bc->bd, sector, buf->data, bc->block_size);

	spin_lock(&bc->lock);
	ASSERT(buf->state == BUF_READING);
	buf->state = err ? BUF_FAILED : BUF_VALID;
	if (err)
		list_del(&buf->hash);
	spin_unlock(&bc->lock);
	wake_all(&bc->read_done);
	if (!err)
		return buf;
	bcache_put(buf);
	return ERR_PTR(err == -ENOMEM ? -ENOMEM : -EIO);
}

/*
 * The buffer of @block, held, in whatever state; *@mine: it is new, in state READING, and the
 * caller's to fill.
 */
static struct bcache_buf *get(struct bcache *bc, uint64_t block, bool *mine)
{
	struct bcache_buf *buf, *fresh, *victim = NULL;

	*mine = false;
	if (block >= bc->nr_blocks)
		return ERR_PTR(-EIO);
	spin_lock(&bc->lock);
	buf = find_locked(bc, block);
	if (buf)
		hold_locked(bc, buf);
	spin_unlock(&bc->lock);
	if (buf)
		return buf;

	fresh = buf_alloc(bc, block);
	if (!fresh)
		return ERR_PTR(-ENOMEM);
	spin_lock(&bc->lock);
	buf = find_locked(bc, block); /* another thread may have been faster */
	if (buf) {
		hold_locked(bc, buf);
	} else {
		victim = evict_locked(bc);
		list_add(&fresh->hash, bucket_of(bc, block));
		bc->nr_bufs++;
		bc->stats.misses++;
		*mine = true;
	}
	spin_unlock(&bc->lock);
	if (victim)
		buf_free(victim);
	if (*mine)
		return fresh;
	buf_free(fresh);
	return buf;
}

struct bcache_buf *bcache_get(struct bcache *bc, uint64_t block)
{
	struct bcache_buf *buf = bcache_find(bc, block);
	bool mine;

	if (buf)
		return buf;
	buf = get(bc, block, &mine);
	if (IS_ERR(buf))
		return buf;
	return mine ? fill(bc, buf) : await(bc, buf);
}

struct bcache_buf *bcache_get_new(struct bcache *bc, uint64_t block)
{
	struct bcache_buf *buf;
	bool mine;

	for (;;) {
		buf = get(bc, block, &mine);
		if (IS_ERR(buf))
			return buf;
		if (mine)
			break;
		buf = await(bc, buf);
		if (!IS_ERR(buf))
			return buf; /* a failed read has left the cache, so the next one is ours */
	}
	memset(buf->data, 0, bc->block_size);
	spin_lock(&bc->lock);
	ASSERT(buf->state == BUF_READING);
	buf->state = BUF_VALID;
	spin_unlock(&bc->lock);
	wake_all(&bc->read_done);
	return buf;
}

struct bcache_buf *bcache_find(struct bcache *bc, uint64_t block)
{
	struct bcache_buf *buf;

	spin_lock(&bc->lock);
	buf = find_locked(bc, block);
	if (buf && buf->state == BUF_VALID)
		hold_locked(bc, buf);
	else
		buf = NULL;
	spin_unlock(&bc->lock);
	return buf;
}

void bcache_hold(struct bcache_buf *buf)
{
	spin_lock(&buf->bc->lock);
	ASSERT(buf->refs);
	buf->refs++;
	spin_unlock(&buf->bc->lock);
}

void bcache_put(struct bcache_buf *buf)
{
	struct bcache *bc = buf->bc;
	struct bcache_buf *dead = NULL;

	spin_lock(&bc->lock);
	ASSERT(buf->refs && buf->state != BUF_READING);
	if (--buf->refs == 0) {
		if (buf->state == BUF_VALID) {
			list_add_tail(&buf->lru, &bc->lru);
			if (bc->nr_bufs > bc->max_bufs)
				dead = evict_locked(bc);
		} else {
			bc->nr_bufs--;
			dead = buf;
		}
	}
	spin_unlock(&bc->lock);
	if (dead)
		buf_free(dead);
}

void bcache_stats(struct bcache *bc, struct bcache_stats *out)
{
	spin_lock(&bc->lock);
	*out = bc->stats;
	out->nr_bufs = bc->nr_bufs;
	out->nr_dirty = bc->nr_dirty;
	spin_unlock(&bc->lock);
}
