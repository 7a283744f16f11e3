/* SPDX-License-Identifier: MIT */
/*
 * ext4: contents of files and links.
 *
 * Flow:	ext4_read_pages() maps the pages to runs of blocks, gathers the runs into as
 *		few requests as the device allows, starts them all and waits once.
 * Context:	threads; sleeps.  done() runs wherever the driver completes.
 * Limits:	data goes straight into the caller's pages, never through the block cache.
 */
#include <drivers/blkdev.h>
#include <kernel/panic.h>
#include <kernel/rwsem.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "ext4_priv.h"

#define BATCH_REQS 16u
#define BATCH_SEGS 128u

/* Requests that are gathered, then run together. */
struct batch {
	struct ext4_fs *fs;
	struct blk_req reqs[BATCH_REQS];
	struct blk_seg segs[BATCH_SEGS];
	unsigned int nr_reqs;
	unsigned int nr_segs;
	uint64_t next_sector; /* where the last request ends */
	atomic_t pending;
	atomic_t err; /* the first error, as a positive errno */
	struct completion done;
};

static void batch_req_done(struct blk_req *req)
{
	struct batch *b = req->arg;

	if (req->status)
		atomic_cmpxchg(&b->err, 0, -req->status);
	ASSERT(atomic_read(&b->pending) > 0);
	if (atomic_dec_and_test(&b->pending))
		complete(&b->done);
}

/* Run what was gathered; 0 or the first error. */
static int batch_run(struct batch *b)
{
	const unsigned int nr = b->nr_reqs;

	if (!nr)
		return 0;
	atomic_set(&b->pending, (int)nr);
	atomic_set(&b->err, 0);
	completion_init(&b->done);
	for (unsigned int i = 0; i < nr; i++) {
		atomic64_add(&b->fs->data_bytes, (int64_t)blk_req_len(&b->reqs[i]));
		blk_submit(b->fs->bd, &b->reqs[i]);
	}
	completion_wait(&b->done);
	atomic64_add(&b->fs->data_reads, (int64_t)nr);
	b->nr_reqs = 0;
	b->nr_segs = 0;
	b->next_sector = 0;
	return -atomic_read(&b->err);
}

/* Append to the last request if @sector follows it there. */
static bool batch_extend(struct batch *b, uint64_t sector, uint8_t *buf, uint32_t len)
{
	const struct blkdev *bd = b->fs->bd;
	struct blk_req *req;
	struct blk_seg *seg;

	if (!b->nr_reqs || sector != b->next_sector)
		return false;
	req = &b->reqs[b->nr_reqs - 1];
	seg = &b->segs[b->nr_segs - 1];
	if ((uint8_t *)seg->buf + seg->len == buf && len <= bd->max_seg_len - seg->len) {
		seg->len += len;
	} else {
		if (b->nr_segs == BATCH_SEGS || req->nr_segs == bd->max_segs)
			return false;
		b->segs[b->nr_segs++] = (struct blk_seg){ .buf = buf, .len = len };
		req->nr_segs++;
	}
	b->next_sector += len >> BLK_SECTOR_SHIFT;
	return true;
}

/* Gather a read of @len bytes; runs the batch first when it is full. */
static int batch_add(struct batch *b, uint64_t sector, uint8_t *buf, uint32_t len)
{
	struct blk_req *req;
	int err = 0;

	if (batch_extend(b, sector, buf, len))
		return 0;
	if (b->nr_reqs == BATCH_REQS || b->nr_segs == BATCH_SEGS)
		err = batch_run(b);
	ASSERT(b->nr_reqs < BATCH_REQS && b->nr_segs < BATCH_SEGS);
	req = &b->reqs[b->nr_reqs++];
	memset(req, 0, sizeof(*req));
	req->op = BLK_READ;
	req->sector = sector;
	req->segs = &b->segs[b->nr_segs];
	req->nr_segs = 1;
	req->done = batch_req_done;
	req->arg = b;
	b->segs[b->nr_segs++] = (struct blk_seg){ .buf = buf, .len = len };
	b->next_sector = sector + (len >> BLK_SECTOR_SHIFT);
	return err;
}

/* The mapping found last, so that one run of blocks is looked up once. */
struct run {
	uint64_t lblk;
	struct ext4_map map;
};

static int run_find(struct ext4_inode *in, uint64_t lblk, uint64_t left, struct run *run)
{
	int err;

	if (run->map.len && lblk >= run->lblk && lblk < run->lblk + run->map.len)
		return 0;
	err = ext4_map_blocks(in, (uint32_t)lblk, (uint32_t)MIN(left, (uint64_t)UINT32_MAX),
			      &run->map);
	if (err)
		run->map.len = 0;
	run->lblk = lblk;
	return err;
}

/* Gather the reads for the page at byte @off, which has contents up to @end. */
static int gather_page(struct ext4_inode *in, struct batch *b, struct run *run, uint64_t off,
		       uint64_t end, uint8_t *page)
{
	const struct ext4_fs *fs = in->fs;
	const uint64_t last = (end - 1) >> fs->block_bits;
	uint32_t at = 0;
	int err;

	while (at < PAGE_SIZE) {
		const uint64_t pos = off + at;
		const uint64_t lblk = pos >> fs->block_bits;
		const uint32_t skip = (uint32_t)(pos & (fs->block_size - 1));
		uint64_t run_len, block;
		uint32_t n;

		if (pos >= end) {
			memset(page + at, 0, PAGE_SIZE - at);
			return 0;
		}
		err = run_find(in, lblk, last - lblk + 1, run);
		if (err)
			return err;
		ASSERT(lblk >= run->lblk && lblk < run->lblk + run->map.len);
		run_len = ((run->lblk + run->map.len - lblk) << fs->block_bits) - skip;
		n = (uint32_t)MIN((uint64_t)PAGE_SIZE - at, run_len);
		if (run->map.type == EXT4_MAP_DATA) {
			block = run->map.block + (lblk - run->lblk);
			err = batch_add(b,
					(block << (fs->block_bits - BLK_SECTOR_SHIFT)) +
						(skip >> BLK_SECTOR_SHIFT),
					page + at, n);
			if (err)
				return err;
		} else {
			memset(page + at, 0, n);
		}
		at += n;
	}
	return 0;
}

static void inline_page(const struct ext4_inode *in, uint64_t off, uint8_t *page)
{
	const uint64_t end = MIN(in->size, (uint64_t)ext4_inline_capacity(in));
	uint32_t n = 0;

	if (off < end) {
		n = (uint32_t)MIN(end - off, (uint64_t)PAGE_SIZE);
		ext4_inline_copy(in, (uint32_t)off, page, n);
	}
	memset(page + n, 0, PAGE_SIZE - n);
}

static int check_readable(const struct ext4_inode *in)
{
	switch (in->mode & S_IFMT) {
	case S_IFREG:
		return 0;
	case S_IFDIR:
		return -EISDIR;
	default:
		return -EINVAL;
	}
}

/* Blocks are read whole: clear what the last one has behind the file's end. */
static void clear_tail(const struct ext4_inode *in, uint64_t index, void *const *pages,
		       unsigned int nr)
{
	const uint64_t page = in->size >> PAGE_SHIFT;
	const uint32_t used = (uint32_t)(in->size & PAGE_MASK_LOW);

	if (used && page >= index && page - index < nr)
		memset((uint8_t *)pages[page - index] + used, 0, PAGE_SIZE - used);
}

static int read_pages(struct ext4_inode *in, uint64_t index, void *const *pages, unsigned int nr)
{
	struct run run = { 0 };
	struct batch *b;
	int err, err_run;

	err = check_readable(in);
	if (err)
		return err;
	if (index > (UINT64_MAX >> PAGE_SHIFT) - nr)
		return -EINVAL;
	if (in->flags & EXT4_FL_INLINE_DATA) {
		for (unsigned int i = 0; i < nr; i++)
			inline_page(in, (index + i) << PAGE_SHIFT, pages[i]);
		return 0;
	}
	b = kmalloc(sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->fs = in->fs;
	b->nr_reqs = 0;
	b->nr_segs = 0;
	b->next_sector = 0;
	for (unsigned int i = 0; i < nr && !err; i++) {
		const uint64_t off = (index + i) << PAGE_SHIFT;

		if (off >= in->size)
			memset(pages[i], 0, PAGE_SIZE);
		else
			err = gather_page(in, b, &run, off, in->size, pages[i]);
	}
	/* After an error too: nothing may be left half done in the caller's pages. */
	err_run = batch_run(b);
	kfree(b);
	if (err || err_run)
		return err ? err : err_run;
	clear_tail(in, index, pages, nr);
	return 0;
}

int ext4_read_pages(struct ext4_inode *in, uint64_t index, void *const *pages, unsigned int nr)
{
	int err;

	/* Until the data are read: nobody frees their blocks meanwhile. */
	rwsem_read_lock(&in->lock);
	err = in->gone ? -ESTALE : read_pages(in, index, pages, nr);
	rwsem_read_unlock(&in->lock);
	return err;
}

int ext4_map_blocks(struct ext4_inode *in, uint32_t lblk, uint32_t max, struct ext4_map *map)
{
	int err;

	if (!max || (in->flags & EXT4_FL_INLINE_DATA))
		return -EINVAL;
	if (in->flags & EXT4_FL_EXTENTS)
		err = ext4_extent_map(in, lblk, max, map);
	else
		err = ext4_indirect_map(in, lblk, max, map);
	if (!err && map->type != EXT4_MAP_HOLE && ext4_zones_hit(in->fs, map->block, map->len))
		err = ext4_corrupt(in->fs, "inode %u: its block %llu is metadata", in->ino,
				   (unsigned long long)map->block);
	return err;
}

bool ext4_link_is_fast(const struct ext4_inode *in)
{
	const struct ext4_fs *fs = in->fs;
	uint64_t ea_sectors = 0;

	if (in->file_acl)
		ea_sectors = ((uint64_t)fs->block_size * fs->cluster_ratio) >> BLK_SECTOR_SHIFT;
	return in->size < EXT4_IBLOCK_LEN && in->blocks == ea_sectors;
}

static int read_slow_link(struct ext4_inode *in, char *buf)
{
	struct bcache_buf *block;
	struct ext4_map map;
	int err;

	if (in->size > in->fs->block_size)
		return ext4_corrupt(in->fs, "link %u: size %llu", in->ino,
				    (unsigned long long)in->size);
	err = ext4_map_blocks(in, 0, 1, &map);
	if (err)
		return err;
	if (map.type != EXT4_MAP_DATA)
		return ext4_corrupt(in->fs, "link %u: no contents", in->ino);
	block = bcache_get(in->fs->bc, map.block);
	if (IS_ERR(block))
		return (int)PTR_ERR(block);
	memcpy(buf, block->data, in->size);
	bcache_put(block);
	return 0;
}

static int readlink(struct ext4_inode *in, char *buf, size_t *len)
{
	int err = 0;

	if ((in->mode & S_IFMT) != S_IFLNK)
		return -EINVAL;
	if (!in->size || in->size >= FS_PATH_MAX)
		return ext4_corrupt(in->fs, "link %u: size %llu", in->ino,
				    (unsigned long long)in->size);
	if (in->flags & EXT4_FL_INLINE_DATA)
		ext4_inline_copy(in, 0, buf, (uint32_t)in->size);
	else if (ext4_link_is_fast(in))
		memcpy(buf, in->iblock, in->size);
	else
		err = read_slow_link(in, buf);
	if (err)
		return err;
	if (memchr(buf, '\0', in->size))
		return ext4_corrupt(in->fs, "link %u: NUL in its target", in->ino);
	buf[in->size] = '\0';
	*len = in->size;
	return 0;
}

int ext4_readlink(struct ext4_inode *in, char *buf, size_t *len)
{
	int err;

	rwsem_read_lock(&in->lock);
	err = in->gone ? -ESTALE : readlink(in, buf, len);
	rwsem_read_unlock(&in->lock);
	return err;
}
