/* SPDX-License-Identifier: MIT */
/* Configuration and answers of virtio disks. */
#include <lib/errno.h>
#include <lib/ktest.h>

#include "virtio_blk.h"

#define F(name) BIT64(VIRTIO_BLK_F_##name)
#define SIZES   (F(SIZE_MAX) | F(SEG_MAX) | F(BLK_SIZE))

static void config(struct ktest *t)
{
	static const struct {
		uint64_t capacity;
		uint32_t size_max, seg_max, blk_size;
		int err;
		uint64_t nr_sectors;
		uint32_t max_seg_len;
		unsigned int max_segs;
	} cases[] = {
		{ 2048, 1u << 16, 126, 512, 0, 2048, 1u << 16, VIRTIO_BLK_MAX_SEGS },
		{ 2048, UINT32_MAX, 2, 4096, 0, 2048, 1u << 20, 2 },
		{ 2047, 5000, 1, 4096, 0, 2040, 4096, 1 }, /* no half blocks */
		{ 0, 4096, 1, 512, -EINVAL, 0, 0, 0 },
		{ 7, 4096, 1, 4096, -EINVAL, 0, 0, 0 },
		{ UINT64_MAX, 4096, 1, 512, -EINVAL, 0, 0, 0 },
		{ 2048, 511, 1, 512, -EINVAL, 0, 0, 0 },
		{ 2048, 4096, 0, 512, -EINVAL, 0, 0, 0 },
		{ 2048, 4096, 1, 0, -EINVAL, 0, 0, 0 },
		{ 2048, 4096, 1, 513, -EINVAL, 0, 0, 0 },
		{ 2048, 4096, 1, 1u << 17, -EINVAL, 0, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct virtio_blk_config cfg = {
			.capacity = cpu_to_le64(cases[i].capacity),
			.size_max = cpu_to_le32(cases[i].size_max),
			.seg_max = cpu_to_le32(cases[i].seg_max),
			.blk_size = cpu_to_le32(cases[i].blk_size),
		};
		struct blkdev bd = { 0 };
		unsigned int nr_queues = 0;

		EXPECT_EQ(t, virtio_blk_decode(&cfg, SIZES, &bd, &nr_queues), cases[i].err);
		if (cases[i].err)
			continue;
		EXPECT_EQ(t, bd.nr_sectors, cases[i].nr_sectors);
		EXPECT_EQ(t, bd.max_seg_len, cases[i].max_seg_len);
		EXPECT_EQ(t, bd.max_segs, cases[i].max_segs);
		EXPECT_EQ(t, nr_queues, 1u);
	}
}

static void config_without_features(struct ktest *t)
{
	const struct virtio_blk_config cfg = { .capacity = cpu_to_le64(100) };
	struct blkdev bd = { 0 };
	unsigned int nr_queues = 0;

	EXPECT_EQ(t, virtio_blk_decode(&cfg, 0, &bd, &nr_queues), 0);
	EXPECT_EQ(t, bd.block_size, 512u);
	EXPECT_EQ(t, bd.max_segs, 1u);
	EXPECT_EQ(t, bd.max_discard, 0ull);
	EXPECT_EQ(t, bd.max_zero, 0ull);
	EXPECT_EQ(t, nr_queues, 1u);
}

static void limits_of_ranges_and_queues(struct ktest *t)
{
	static const struct {
		uint64_t features;
		uint32_t block, sectors, ranges;
		uint16_t queues;
		int err;
		uint64_t max;
		unsigned int nr_queues;
	} cases[] = {
		{ F(DISCARD) | F(WRITE_ZEROES), 512, 4194303, 1, 0, 0, 4194303, 1 },
		{ F(DISCARD) | F(WRITE_ZEROES), 4096, UINT32_MAX, 256, 9, 0, 4294967288, 1 },
		{ F(DISCARD) | F(WRITE_ZEROES), 4096, 7, 1, 0, 0, 0, 1 },  /* less than a block */
		{ F(DISCARD) | F(WRITE_ZEROES), 512, 100, 0, 0, 0, 0, 1 }, /* no range at all */
		{ F(DISCARD) | F(WRITE_ZEROES), 512, 0, 1, 0, 0, 0, 1 },
		{ F(MQ), 512, 100, 1, 4, 0, 0, 4 }, /* limits without the features */
		{ F(MQ), 512, 0, 0, 65535, 0, 0, 65535 },
		{ F(MQ), 512, 0, 0, 0, -EINVAL, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct virtio_blk_config cfg = {
			.capacity = cpu_to_le64(2048),
			.blk_size = cpu_to_le32(cases[i].block),
			.num_queues = cpu_to_le16(cases[i].queues),
			.max_discard_sectors = cpu_to_le32(cases[i].sectors),
			.max_discard_seg = cpu_to_le32(cases[i].ranges),
			.max_write_zeroes_sectors = cpu_to_le32(cases[i].sectors),
			.max_write_zeroes_seg = cpu_to_le32(cases[i].ranges),
		};
		struct blkdev bd = { 0 };
		unsigned int nr_queues = 0;

		EXPECT_EQ(t,
			  virtio_blk_decode(&cfg, cases[i].features | F(BLK_SIZE), &bd, &nr_queues),
			  cases[i].err);
		if (cases[i].err)
			continue;
		EXPECT_EQ(t, bd.max_discard, cases[i].max);
		EXPECT_EQ(t, bd.max_zero, cases[i].max);
		EXPECT_EQ(t, nr_queues, cases[i].nr_queues);
	}
}

static void answers(struct ktest *t)
{
	EXPECT_EQ(t, virtio_blk_status(VIRTIO_BLK_S_OK), 0);
	EXPECT_EQ(t, virtio_blk_status(VIRTIO_BLK_S_IOERR), -EIO);
	EXPECT_EQ(t, virtio_blk_status(VIRTIO_BLK_S_UNSUPP), -EOPNOTSUPP);
	EXPECT_EQ(t, virtio_blk_status(VIRTIO_BLK_S_NONE), -EIO);
	EXPECT_EQ(t, virtio_blk_status(77), -EIO);
}

static const struct ktest_case virtio_blk_cases[] = {
	KTEST(config),
	KTEST(config_without_features),
	KTEST(limits_of_ranges_and_queues),
	KTEST(answers),
	{ 0 },
};
static const struct ktest_suite virtio_blk_suite = {
	.name = "virtio.blk",
	.cases = virtio_blk_cases,
};
KTEST_SUITE(virtio_blk_suite);
