/* SPDX-License-Identifier: MIT */
/* The first disk, if the machine has one: many requests at once read what single ones read. */
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
		blk_submit(bd, &b->reqs[i]);
	}
	completion_wait(&b->done);
}

static void many_at_once(struct ktest *t)
{
	struct blkdev *bd = blkdev_get("vda");
	uint8_t *once, *data;
	struct burst *b;

	if (!bd || bd->nr_sectors < SPAN / BLK_SECTOR_SIZE || bd->max_segs < NR_SEGS) {
		ktest_skip(t, "no disk");
		return;
	}
	once = kmalloc(SPAN);
	data = kmalloc(NR_REQS * REQ_LEN);
	b = kzalloc(sizeof(*b));
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

static void bad_requests_fail_at_once(struct ktest *t)
{
	struct blkdev *bd = blkdev_get("vda");
	uint8_t *page;

	if (!bd) {
		ktest_skip(t, "no disk");
		return;
	}
	page = kmalloc(4096);
	ASSERT_TRUE(t, page);
	EXPECT_EQ(t, blk_read(bd, bd->nr_sectors, page, 4096), -EIO);
	EXPECT_EQ(t, blk_read(bd, UINT64_MAX, page, 4096), -EIO);
	EXPECT_EQ(t, blk_read(bd, 0, page, 100), -EINVAL);
	EXPECT_EQ(t, blk_read(bd, 0, page, 0), -EINVAL);
	if (bd->read_only)
		EXPECT_EQ(t, blk_write(bd, 0, page, 4096, 0), -EROFS);
	EXPECT_EQ(t, blk_flush(bd), 0);
	kfree(page);
}

static const struct ktest_case vda_cases[] = {
	KTEST(many_at_once),
	KTEST(bad_requests_fail_at_once),
	{ 0 },
};
static const struct ktest_suite vda_suite = { .name = "virtio.vda", .cases = vda_cases };
KTEST_SUITE(vda_suite);
