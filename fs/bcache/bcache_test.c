/* SPDX-License-Identifier: MIT */
/* Block cache over a fake device: hits, eviction, errors. */
#include <drivers/blkbatch.h>
#include <drivers/blkdev.h>
#include <fs/bcache.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

static unsigned int nr_reads;
static bool broken;
static uint64_t written[16]; /* sectors, in order */
static unsigned int nr_written;

/* Every byte of a block is the low byte of its number. */
static void fake_submit(struct blkdev *bd, struct blk_req *req)
{
	(void)bd;
	if (req->op == BLK_WRITE) {
		if (nr_written < ARRAY_SIZE(written))
			written[nr_written++] = req->sector;
		req->status = broken ? -EIO : 0;
		req->done(req);
		return;
	}
	nr_reads++;
	memset(req->segs[0].buf, (int)(req->sector / 2 & 0xff), req->segs[0].len);
	req->status = broken ? -EIO : 0;
	req->done(req);
}

static const struct blkdev_ops fake_ops = { .submit = fake_submit };
static struct blkdev fake = {
	.ops = &fake_ops,
	.name = "fake",
	.nr_sectors = 2000,
	.block_size = 512,
	.max_segs = 1,
	.max_seg_len = 65536,
};

static void reads_once(struct ktest *t)
{
	struct bcache *bc = bcache_create(&fake, 1024, 64 * 1024);
	struct bcache_buf *a, *b;

	ASSERT_FALSE(t, IS_ERR(bc));
	broken = false;
	nr_reads = 0;
	a = bcache_get(bc, 7);
	b = bcache_get(bc, 7);
	ASSERT_FALSE(t, IS_ERR(a));
	EXPECT_TRUE(t, a == b);
	EXPECT_EQ(t, a->data[1023], 7);
	EXPECT_EQ(t, nr_reads, 1u);
	bcache_put(a);
	bcache_put(b);
	a = bcache_get(bc, 7);
	ASSERT_FALSE(t, IS_ERR(a));
	EXPECT_EQ(t, nr_reads, 1u);
	bcache_put(a);
	bcache_destroy(bc);
}

static void oldest_goes_first(struct ktest *t)
{
	struct bcache *bc = bcache_create(&fake, 1024, 16 * 1024); /* 16 blocks */
	struct bcache_stats stats;
	struct bcache_buf *b;

	ASSERT_FALSE(t, IS_ERR(bc));
	broken = false;
	for (uint64_t i = 0; i < 16; i++)
		bcache_put(bcache_get(bc, i));
	bcache_put(bcache_get(bc, 0)); /* now block 1 is the oldest */
	bcache_put(bcache_get(bc, 100));
	nr_reads = 0;
	b = bcache_get(bc, 0);
	bcache_put(b);
	EXPECT_EQ(t, nr_reads, 0u);
	b = bcache_get(bc, 1);
	bcache_put(b);
	EXPECT_EQ(t, nr_reads, 1u);
	bcache_stats(bc, &stats);
	EXPECT_EQ(t, stats.nr_bufs, 16ull);
	EXPECT_EQ(t, stats.evictions, 2ull);
	bcache_destroy(bc);
}

static void held_blocks_may_exceed_the_limit(struct ktest *t)
{
	struct bcache *bc = bcache_create(&fake, 1024, 0); /* the least: 16 blocks */
	struct bcache_buf *held[40];
	struct bcache_stats stats;

	ASSERT_FALSE(t, IS_ERR(bc));
	broken = false;
	for (uint64_t i = 0; i < ARRAY_SIZE(held); i++) {
		held[i] = bcache_get(bc, i);
		ASSERT_FALSE(t, IS_ERR(held[i]));
	}
	for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
		EXPECT_EQ(t, held[i]->data[0], (uint8_t)i);
		bcache_put(held[i]);
	}
	bcache_stats(bc, &stats);
	EXPECT_LE(t, stats.nr_bufs, 16ull);
	bcache_destroy(bc);
}

static void errors_are_not_kept(struct ktest *t)
{
	struct bcache *bc = bcache_create(&fake, 1024, 64 * 1024);
	struct bcache_buf *b;

	ASSERT_FALSE(t, IS_ERR(bc));
	broken = true;
	b = bcache_get(bc, 3);
	EXPECT_TRUE(t, IS_ERR(b) && PTR_ERR(b) == -EIO);
	broken = false;
	b = bcache_get(bc, 3);
	ASSERT_FALSE(t, IS_ERR(b));
	bcache_put(b);
	b = bcache_get(bc, 1000); /* the device ends before it */
	EXPECT_TRUE(t, IS_ERR(b) && PTR_ERR(b) == -EIO);
	b = bcache_get(bc, UINT64_MAX);
	EXPECT_TRUE(t, IS_ERR(b) && PTR_ERR(b) == -EIO);
	bcache_destroy(bc);
}

static void odd_block_sizes_are_refused(struct ktest *t)
{
	static const uint32_t sizes[] = { 0, 100, 131072 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct bcache *bc = bcache_create(&fake, sizes[i], 65536);

		EXPECT_TRUE(t, IS_ERR(bc) && PTR_ERR(bc) == -EINVAL);
	}
}

static void change(struct bcache_buf *buf, uint8_t value)
{
	while (!bcache_try_pin(buf))
		bcache_await_write(buf);
	buf->data[0] = value;
	bcache_mark_dirty(buf);
}

static int write_bufs(struct bcache *bc, struct bcache_buf **bufs, size_t nr)
{
	struct blk_batch *batch = blk_batch_new(&fake);
	int err;

	if (!batch)
		return -ENOMEM;
	err = bcache_write(bc, batch, bufs, nr, false);
	blk_batch_free(batch);
	return err;
}

static void dirty_blocks_stay_until_written(struct ktest *t)
{
	struct bcache *bc = bcache_create(&fake, 1024, 0); /* 16 blocks */
	struct bcache_buf *b[3];
	struct bcache_stats stats;

	ASSERT_FALSE(t, IS_ERR(bc));
	broken = false;
	nr_written = 0;
	b[0] = bcache_get(bc, 9);
	b[1] = bcache_get(bc, 5);
	b[2] = bcache_get(bc, 7);
	for (int i = 0; i < 3; i++) {
		change(b[i], 0xab);
		bcache_unpin(b[i]);
		bcache_put(b[i]);
	}
	for (uint64_t i = 100; i < 140; i++)
		bcache_put(bcache_get(bc, i));
	nr_reads = 0;
	b[0] = bcache_get(bc, 9);
	EXPECT_EQ(t, b[0]->data[0], 0xab);
	EXPECT_EQ(t, nr_reads, 0u);
	EXPECT_EQ(t, bcache_nr_dirty(bc), 3ull);
	b[1] = bcache_find(bc, 5);
	b[2] = bcache_find(bc, 7);
	ASSERT_TRUE(t, b[1] && b[2]);
	EXPECT_EQ(t, write_bufs(bc, b, 3), 0);
	EXPECT_EQ(t, nr_written, 3u);
	EXPECT_EQ(t, written[0], 10ull); /* in the order of the disk */
	EXPECT_EQ(t, written[1], 14ull);
	EXPECT_EQ(t, written[2], 18ull);
	for (int i = 0; i < 3; i++)
		bcache_put(b[i]);
	bcache_stats(bc, &stats);
	EXPECT_EQ(t, stats.nr_dirty, 0ull);
	EXPECT_EQ(t, stats.writes, 3ull);
	bcache_destroy(bc);
}

static void pinned_blocks_are_not_written(struct ktest *t)
{
	struct bcache *bc = bcache_create(&fake, 1024, 0);
	struct bcache_buf *b;

	ASSERT_FALSE(t, IS_ERR(bc));
	broken = false;
	nr_written = 0;
	b = bcache_get(bc, 9);
	change(b, 1);
	EXPECT_EQ(t, write_bufs(bc, &b, 1), 0);
	EXPECT_EQ(t, nr_written, 0u);
	EXPECT_TRUE(t, bcache_is_dirty(b));
	bcache_unpin(b);
	EXPECT_EQ(t, write_bufs(bc, &b, 1), 0);
	EXPECT_EQ(t, nr_written, 1u);
	EXPECT_FALSE(t, bcache_is_dirty(b));
	bcache_put(b);
	bcache_destroy(bc);
}

static void failed_writes_stay_dirty(struct ktest *t)
{
	struct bcache *bc = bcache_create(&fake, 1024, 0);
	struct bcache_buf *b;

	ASSERT_FALSE(t, IS_ERR(bc));
	broken = false;
	b = bcache_get(bc, 9);
	change(b, 1);
	bcache_unpin(b);
	broken = true;
	EXPECT_EQ(t, write_bufs(bc, &b, 1), -EIO);
	EXPECT_TRUE(t, bcache_is_dirty(b));
	broken = false;
	EXPECT_EQ(t, write_bufs(bc, &b, 1), 0);
	EXPECT_FALSE(t, bcache_is_dirty(b));
	bcache_put(b);
	bcache_destroy(bc);
}

static void new_blocks_are_not_read(struct ktest *t)
{
	struct bcache *bc = bcache_create(&fake, 1024, 0);
	struct bcache_buf *a, *b;

	ASSERT_FALSE(t, IS_ERR(bc));
	broken = false;
	nr_reads = 0;
	EXPECT_TRUE(t, bcache_find(bc, 9) == NULL);
	a = bcache_get_new(bc, 9);
	ASSERT_FALSE(t, IS_ERR(a));
	EXPECT_EQ(t, a->data[0], 0);
	EXPECT_EQ(t, nr_reads, 0u);
	a->data[0] = 3;
	b = bcache_get_new(bc, 9); /* cached: as it is */
	EXPECT_TRUE(t, a == b && a->data[0] == 3);
	bcache_put(a);
	bcache_put(b);
	bcache_destroy(bc);
}

static const struct ktest_case bcache_cases[] = {
	KTEST(reads_once),
	KTEST(oldest_goes_first),
	KTEST(held_blocks_may_exceed_the_limit),
	KTEST(errors_are_not_kept),
	KTEST(odd_block_sizes_are_refused),
	KTEST(dirty_blocks_stay_until_written),
	KTEST(pinned_blocks_are_not_written),
	KTEST(failed_writes_stay_dirty),
	KTEST(new_blocks_are_not_read),
	{ 0 },
};
static const struct ktest_suite bcache_suite = { .name = "fs.bcache", .cases = bcache_cases };
KTEST_SUITE(bcache_suite);
