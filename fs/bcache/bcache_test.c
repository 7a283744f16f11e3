/* SPDX-License-Identifier: MIT */
/* Block cache over a fake device: hits, eviction, errors. */
#include <drivers/blkdev.h>
#include <fs/bcache.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

static unsigned int nr_reads;
static bool broken;

/* Every byte of a block is the low byte of its number. */
static void fake_submit(struct blkdev *bd, struct blk_req *req)
{
	(void)bd;
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

static const struct ktest_case bcache_cases[] = {
	KTEST(reads_once),
	KTEST(oldest_goes_first),
	KTEST(held_blocks_may_exceed_the_limit),
	KTEST(errors_are_not_kept),
	KTEST(odd_block_sizes_are_refused),
	{ 0 },
};
static const struct ktest_suite bcache_suite = { .name = "fs.bcache", .cases = bcache_cases };
KTEST_SUITE(bcache_suite);
