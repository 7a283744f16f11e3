/* SPDX-License-Identifier: MIT */
/*
 * The first virtio disk and the first NVMe disk, if the machine has them: many requests at once
 * read what single ones read, and what is written, zeroed and discarded is so.
 *
 * Limits:	only a disk that begins with SCRATCH is written to: the test runner makes such.
 */
#include <drivers/blkdev.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/slab.h>

#define NR_REQS 200u /* more than the ring has room for */
#define SEG_LEN 4096u
#define NR_SEGS 4u
#define REQ_LEN (SEG_LEN * NR_SEGS)
#define SPAN    (1u << 20)
#define SCRATCH "tessera scratch disk"

static const char *const names[] = { "vda", "nvme0n1" };

struct burst {
	struct blk_req reqs[NR_REQS];
	struct blk_seg segs[NR_REQS][NR_SEGS];
	atomic_t pending;
	struct completion done;
};

static void burst_done(struct blk_req *req)
{
	struct burst *b = req->arg;

	if (atomic_dec_and_test(&b->pending))
		complete(&b->done);
}

/* Overlapping reads of the first MiB into @data, segments in reverse order of memory. */
static void burst_run(struct burst *b, struct blkdev *bd, uint8_t *data)
{
	atomic_set(&b->pending, NR_REQS);
	completion_init(&b->done);
	for (unsigned int i = 0; i < NR_REQS; i++) {
		for (unsigned int s = 0; s < NR_SEGS; s++)
			b->segs[i][s] = (struct blk_seg){
				.buf = data + i * REQ_LEN + (NR_SEGS - 1 - s) * SEG_LEN,
				.len = SEG_LEN,
			};
		b->reqs[i] = (struct blk_req){
			.op = BLK_READ,
			.sector = i * 37 % (SPAN / SEG_LEN - NR_SEGS) * (SEG_LEN / BLK_SECTOR_SIZE),
			.segs = b->segs[i],
			.nr_segs = NR_SEGS,
			.done = burst_done,
			.arg = b,
		};
	}
	blk_submit_many(bd, b->reqs, NR_REQS);
	completion_wait(&b->done);
}

static void burst_check(struct ktest *t, struct blkdev *bd)
{
	uint8_t *once = kmalloc(SPAN), *data = kmalloc(NR_REQS * REQ_LEN);
	struct burst *b = kzalloc(sizeof(*b));

	ASSERT_TRUE(t, once && data && b);
	memset(data, 0xa5, NR_REQS * REQ_LEN);
	ASSERT_EQ(t, blk_read(bd, 0, once, SPAN), 0);
	burst_run(b, bd, data);
	for (unsigned int i = 0; i < NR_REQS; i++) {
		const uint8_t *want = once + (b->reqs[i].sector << BLK_SECTOR_SHIFT);

		EXPECT_EQ(t, b->reqs[i].status, 0);
		for (unsigned int s = 0; s < NR_SEGS; s++)
			ASSERT_MEMEQ(t, (uint8_t *)b->segs[i][s].buf, want + s * SEG_LEN, SEG_LEN);
	}
	kfree(b);
	kfree(data);
	kfree(once);
}

static void bad_requests(struct ktest *t, struct blkdev *bd)
{
	uint8_t *page = kmalloc(4096);

	ASSERT_TRUE(t, page);
	EXPECT_EQ(t, blk_read(bd, bd->nr_sectors, page, 4096), -EIO);
	EXPECT_EQ(t, blk_read(bd, ALIGN_DOWN(UINT64_MAX, 4096ull), page, 4096), -EIO);
	EXPECT_EQ(t, blk_read(bd, 0, page, 100), -EINVAL);
	EXPECT_EQ(t, blk_read(bd, 0, page, 0), -EINVAL);
	if (bd->read_only)
		EXPECT_EQ(t, blk_write(bd, 0, page, 4096, 0), -EROFS);
	EXPECT_EQ(t, blk_flush(bd), 0);
	kfree(page);
}

/* Bytes @from to @to of the second MiB are @val. */
static void expect_bytes(struct ktest *t, struct blkdev *bd, uint8_t *buf, uint32_t from,
			 uint32_t to, uint8_t val)
{
	ASSERT_EQ(t, blk_read(bd, (SPAN + from) / BLK_SECTOR_SIZE, buf, to - from), 0);
	for (uint32_t i = 0; i < to - from; i++)
		ASSERT_EQ(t, buf[i], val);
}

static void changes(struct ktest *t, struct blkdev *bd)
{
	const uint64_t at = SPAN / BLK_SECTOR_SIZE;
	uint8_t *buf = kmalloc(SPAN);

	ASSERT_TRUE(t, buf);
	ASSERT_EQ(t, blk_read(bd, 0, buf, 4096), 0);
	if (memcmp(buf, SCRATCH, sizeof(SCRATCH) - 1)) {
		kfree(buf);
		return;
	}
	memset(buf, 0x5a, SPAN);
	EXPECT_EQ(t, blk_write(bd, at, buf, SPAN, 0), 0);
	memset(buf, 0x6b, 65536);
	EXPECT_EQ(t, blk_write(bd, at + 1024, buf, 65536, BLK_FUA), 0);
	EXPECT_EQ(t, blk_flush(bd), 0);
	expect_bytes(t, bd, buf, 0, 1024 * 512, 0x5a);
	expect_bytes(t, bd, buf, 1024 * 512, 1152 * 512, 0x6b);
	expect_bytes(t, bd, buf, 1152 * 512, SPAN, 0x5a);
	EXPECT_EQ(t, blk_zero(bd, at + 1088, 128), 0);
	expect_bytes(t, bd, buf, 1024 * 512, 1088 * 512, 0x6b);
	expect_bytes(t, bd, buf, 1088 * 512, 1216 * 512, 0);
	expect_bytes(t, bd, buf, 1216 * 512, SPAN, 0x5a);
	EXPECT_EQ(t, blk_discard(bd, at + 1024, 64), 0);
	expect_bytes(t, bd, buf, 0, 1024 * 512, 0x5a);
	expect_bytes(t, bd, buf, 1088 * 512, 1216 * 512, 0);
	kfree(buf);
}

static void each_disk(struct ktest *t, void (*check)(struct ktest *t, struct blkdev *bd))
{
	unsigned int nr = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct blkdev *bd = blkdev_get(names[i]);

		if (!bd || bd->nr_sectors < 2 * SPAN / BLK_SECTOR_SIZE || bd->max_segs < NR_SEGS)
			continue;
		nr++;
		check(t, bd);
	}
	if (!nr)
		ktest_skip(t, "no disk");
}

static void many_at_once(struct ktest *t)
{
	each_disk(t, burst_check);
}

static void bad_requests_fail_at_once(struct ktest *t)
{
	each_disk(t, bad_requests);
}

static void changes_are_there(struct ktest *t)
{
	each_disk(t, changes);
}

static const struct ktest_case disk_cases[] = {
	KTEST(many_at_once),
	KTEST(bad_requests_fail_at_once),
	KTEST(changes_are_there),
	{ 0 },
};
static const struct ktest_suite disk_suite = { .name = "block.disk", .cases = disk_cases };
KTEST_SUITE(disk_suite);
