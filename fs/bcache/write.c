/* SPDX-License-Identifier: MIT */
/*
 * Metadata block cache: pins, dirty buffers, writing.
 *
 * Flow:	pin -> change -> mark dirty -> unpin; later bcache_write() marks those that may be
 *		written as WRITING, writes them in the order of the disk, and cleans them.
 * Context:	bcache_write() and bcache_await_write() sleep, the others do not.
 * Locking:	bc->lock, as in bcache.c.
 * Failure:	a buffer whose write failed is dirty again.
 */
#include <drivers/blkbatch.h>
#include <drivers/blkdev.h>
#include <fs/bcache.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/errno.h>

#include "bcache_priv.h"

bool bcache_try_pin(struct bcache_buf *buf)
{
	bool ok;

	spin_lock(&buf->bc->lock);
	ASSERT(buf->refs && buf->state == BUF_VALID);
	ok = !buf->writing;
	if (ok)
		buf->pins++;
	spin_unlock(&buf->bc->lock);
	return ok;
}

void bcache_unpin(struct bcache_buf *buf)
{
	spin_lock(&buf->bc->lock);
	ASSERT(buf->pins);
	buf->pins--;
	spin_unlock(&buf->bc->lock);
}

static bool is_writing(struct bcache_buf *buf)
{
	bool writing;

	spin_lock(&buf->bc->lock);
	writing = buf->writing;
	spin_unlock(&buf->bc->lock);
	return writing;
}

void bcache_await_write(struct bcache_buf *buf)
{
	wait_event(&buf->bc->write_done, !is_writing(buf));
}

static void dirty_locked(struct bcache *bc, struct bcache_buf *buf) __must_hold(&bc->lock)
{
	assert_spin_held(&bc->lock);
	ASSERT(buf->refs && buf->state == BUF_VALID);
	if (buf->dirty)
		return;
	buf->dirty = true;
	buf->refs++;
	bc->nr_dirty++;
	list_add_tail(&buf->dirty_link, &bc->dirty);
}

void bcache_mark_dirty(struct bcache_buf *buf)
{
	spin_lock(&buf->bc->lock);
	dirty_locked(buf->bc, buf);
	spin_unlock(&buf->bc->lock);
}

void bcache_mark_clean(struct bcache_buf *buf)
{
	struct bcache *bc = buf->bc;
	bool was;

	spin_lock(&bc->lock);
	was = buf->dirty;
	if (was) {
		buf->dirty = false;
		bc->nr_dirty--;
		list_del(&buf->dirty_link);
	}
	spin_unlock(&bc->lock);
	if (was)
		bcache_put(buf);
}

bool bcache_is_dirty(struct bcache_buf *buf)
{
	bool dirty;

	spin_lock(&buf->bc->lock);
	dirty = buf->dirty;
	spin_unlock(&buf->bc->lock);
	return dirty;
}

static void sift_down(struct bcache_buf **a, size_t i, size_t n)
{
	while (2 * i + 1 < n) {
		size_t child = 2 * i + 1;
		struct bcache_buf *tmp = a[i];

		if (child + 1 < n && a[child + 1]->block > a[child]->block)
			child++;
		if (tmp->block >= a[child]->block)
			return;
		a[i] = a[child];
		a[child] = tmp;
		i = child;
	}
}

/* Heap sort: no memory, no recursion, no bad case. */
static void sort_by_block(struct bcache_buf **a, size_t n)
{
	for (size_t i = n / 2; i-- > 0;)
		sift_down(a, i, n);
	while (n > 1) {
		struct bcache_buf *last = a[--n];

		a[n] = a[0];
		a[0] = last;
		sift_down(a, 0, n);
	}
}

#define WRITE_CHUNK 64u /* buffers that are written together */

/* Mark those of @nr buffers that may be written, and list them in @out; returns how many. */
static size_t start_writing(struct bcache *bc, struct bcache_buf *const *bufs, size_t nr,
			    bool pinned, struct bcache_buf **out)
{
	size_t n = 0;

	ASSERT(nr <= WRITE_CHUNK);
	spin_lock(&bc->lock);
	for (size_t i = 0; i < nr; i++) {
		/* A second mention of a buffer finds it being written. */
		if (!bufs[i]->dirty || (bufs[i]->pins && !pinned) || bufs[i]->writing)
			continue;
		bufs[i]->writing = true;
		out[n++] = bufs[i];
	}
	bc->stats.writes += n;
	spin_unlock(&bc->lock);
	return n;
}

static void end_writing(struct bcache *bc, struct bcache_buf *const *bufs, size_t nr, bool ok)
{
	for (size_t i = 0; i < nr; i++) {
		if (ok)
			bcache_mark_clean(bufs[i]); /* the caller's reference keeps it */
		spin_lock(&bc->lock);
		ASSERT(bufs[i]->writing);
		bufs[i]->writing = false;
		spin_unlock(&bc->lock);
	}
	wake_all(&bc->write_done);
}

static int write_chunk(struct bcache *bc, struct blk_batch *batch, struct bcache_buf *const *bufs,
		       size_t nr, bool pinned)
{
	const uint32_t sectors = bc->block_size >> BLK_SECTOR_SHIFT;
	struct bcache_buf *own[WRITE_CHUNK];
	int err;

	nr = start_writing(bc, bufs, nr, pinned, own);
	for (size_t i = 0; i < nr; i++)
		blk_batch_add(batch, BLK_WRITE, own[i]->block * sectors, own[i]->data,
			      bc->block_size);
	err = blk_batch_run(batch);
	end_writing(bc, own, nr, !err);
	return err;
}

int bcache_write(struct bcache *bc, struct blk_batch *batch, struct bcache_buf **bufs, size_t nr,
		 bool pinned)
{
	int err = 0;

	sort_by_block(bufs, nr);
	for (size_t i = 0; i < nr; i += WRITE_CHUNK) {
		const int e =
			write_chunk(bc, batch, bufs + i, MIN(nr - i, (size_t)WRITE_CHUNK), pinned);

		err = err ? err : e;
	}
	return err;
}

uint64_t bcache_nr_dirty(struct bcache *bc)
{
	uint64_t n;

	spin_lock(&bc->lock);
	n = bc->nr_dirty;
	spin_unlock(&bc->lock);
	return n;
}

uint64_t bcache_max_bufs(const struct bcache *bc)
{
	return bc->max_bufs;
}
