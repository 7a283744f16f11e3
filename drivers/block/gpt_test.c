/* SPDX-License-Identifier: MIT */
/* Tables of partitions: good ones, damaged ones, and ones that somebody made to do harm. */
#include <drivers/blkdev.h>
#include <drivers/partition.h>
#include <lib/crc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "gpt_test.h"

static uint8_t *image;
static bool bad_read; /* of block 1 */

static void mem_submit(struct blkdev *bd, struct blk_req *req)
{
	uint8_t *at = image + (req->disk_sector << BLK_SECTOR_SHIFT);

	(void)bd;
	for (unsigned int i = 0; i < req->nr_segs; i++) {
		if (req->op == BLK_WRITE)
			memcpy(at, req->segs[i].buf, req->segs[i].len);
		else
			memcpy(req->segs[i].buf, at, req->segs[i].len);
		at += req->segs[i].len;
	}
	req->status = bad_read && req->disk_sector == 1 ? -EIO : 0;
	req->done(req);
}

static const struct blkdev_ops mem_ops = { .submit = mem_submit };

/* A new disk each time: partitions stay registered under its name. */
static struct blkdev *new_disk(const struct gpt_test_part *parts, unsigned int nr)
{
	static unsigned int number;
	struct blkdev *bd = kzalloc(sizeof(*bd));

	image = kzalloc(GPT_TEST_BYTES);
	if (!bd || !image)
		return NULL;
	snprintf(bd->name, sizeof(bd->name), "gpt%c%c", (char)('a' + number / 26 % 26),
		 (char)('a' + number % 26));
	number++;
	bd->ops = &mem_ops;
	bd->nr_sectors = GPT_TEST_BLOCKS;
	bd->block_size = GPT_TEST_BLOCK;
	bd->max_segs = 4;
	bd->max_seg_len = 65536;
	gpt_test_format(image, parts, nr);
	return bd;
}

static void free_disk(struct blkdev *bd)
{
	kfree(image);
	kfree(bd);
}

/* Tests unplug partitions, which the storage monitor never does. */
static void unplug(struct blkdev *part)
{
	list_del(&part->link);
	kfree(part);
}

static const struct gpt_test_part usual[] = {
	{ 40, 99, false, "boot" },
	{ 100, 999, true, "root" },
	{ 0, 0, false, NULL },
	{ 1000, 1500, false, "data" },
};

static void choices(struct ktest *t)
{
	static const struct {
		const char *which;
		int err;
		uint64_t first, nr;
		const char *name;
	} cases[] = {
		{ "", 0, 100, 900, "2" },
		{ "1", 0, 40, 60, "1" },
		{ "2", 0, 100, 900, "2" },
		{ "4", 0, 1000, 501, "4" },
		{ "label=data", 0, 1000, 501, "4" },
		{ "uuid=a3a2a1a0-a5a4-a7a6-a8a9-aaabacadaeaf", 0, 40, 60, "1" },
		{ "uuid=A3A2A1A0-A5A4-A7A6-A8A9-AAABACADAEAF", 0, 40, 60, "1" },
		{ "3", -ENOENT, 0, 0, NULL },
		{ "02", -ENOENT, 0, 0, NULL },
		{ "5000000000", -ENOENT, 0, 0, NULL },
		{ "label=dat", -ENOENT, 0, 0, NULL },
		{ "label=", -ENOENT, 0, 0, NULL },
		{ "uuid=", -ENOENT, 0, 0, NULL },
		{ "root", -EINVAL, 0, 0, NULL },
		{ "-1", -EINVAL, 0, 0, NULL },
		{ "Label=root", -EINVAL, 0, 0, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct blkdev *bd = new_disk(usual, ARRAY_SIZE(usual)), *part;
		char why[200] = "", name[BLKDEV_NAME_LEN];

		ASSERT_TRUE(t, bd);
		part = partition_open(bd, cases[i].which, why, sizeof(why));
		EXPECT_EQ(t, IS_ERR(part) ? (int)PTR_ERR(part) : 0, cases[i].err);
		EXPECT_EQ(t, why[0] != '\0', cases[i].err != 0);
		if (!IS_ERR(part)) {
			EXPECT_EQ(t, part->first_sector, cases[i].first);
			EXPECT_EQ(t, part->nr_sectors, cases[i].nr);
			snprintf(name, sizeof(name), "%s%s", bd->name, cases[i].name);
			EXPECT_STREQ(t, part->name, name);
			EXPECT_TRUE(t, blkdev_get(name) == part);
			unplug(part);
		}
		free_disk(bd);
	}
}

static void whole_disks(struct ktest *t)
{
	struct blkdev *bd = new_disk(usual, ARRAY_SIZE(usual));
	char why[200] = "";

	ASSERT_TRUE(t, bd);
	EXPECT_TRUE(t, partition_open(bd, "whole", why, sizeof(why)) == bd);
	/* Without a protective MBR there is no table, whatever follows. */
	image[MBR_SIGNATURE] = 0;
	EXPECT_TRUE(t, partition_open(bd, "", why, sizeof(why)) == bd);
	EXPECT_EQ(t, PTR_ERR(partition_open(bd, "2", why, sizeof(why))), -ENOENT);
	image[MBR_SIGNATURE] = 0x55;
	image[MBR_PARTITIONS + MBR_ENTRY_TYPE] = 0x83;
	EXPECT_TRUE(t, partition_open(bd, "", why, sizeof(why)) == bd);
	free_disk(bd);
}

static void none_or_several(struct ktest *t)
{
	static const struct gpt_test_part none[] = { { 40, 99, false, "x" },
						     { 100, 200, false, "x" } };
	static const struct gpt_test_part two[] = { { 40, 99, true, "x" },
						    { 100, 200, true, "x" } };
	char why[200];
	struct blkdev *bd = new_disk(none, 2);

	ASSERT_TRUE(t, bd);
	EXPECT_EQ(t, PTR_ERR(partition_open(bd, "", why, sizeof(why))), -ENOENT);
	EXPECT_TRUE(t, strstr(why, "none of its partitions is a Linux file system"));
	EXPECT_EQ(t, PTR_ERR(partition_open(bd, "label=x", why, sizeof(why))), -EEXIST);
	free_disk(bd);
	bd = new_disk(two, 2);
	ASSERT_TRUE(t, bd);
	EXPECT_EQ(t, PTR_ERR(partition_open(bd, "", why, sizeof(why))), -EEXIST);
	EXPECT_TRUE(t, strstr(why, "several partitions with Linux file systems"));
	free_disk(bd);
}

/* Requests go to the partition's sectors, and never beyond. */
static void transfers_stay_inside(struct ktest *t)
{
	struct blkdev *bd = new_disk(usual, ARRAY_SIZE(usual)), *part;
	uint8_t *buf = kmalloc(4096);
	char why[200];

	ASSERT_TRUE(t, bd && buf);
	part = partition_open(bd, "", why, sizeof(why));
	ASSERT_TRUE(t, !IS_ERR(part));
	memset(buf, 0x5a, 4096);
	EXPECT_EQ(t, blk_write(part, 0, buf, 512, 0), 0);
	EXPECT_EQ(t, blk_write(part, 899, buf, 512, 0), 0);
	EXPECT_EQ(t, image[99 * 512 + 511], 0);
	EXPECT_EQ(t, image[100 * 512], 0x5a);
	EXPECT_EQ(t, image[999 * 512 + 511], 0x5a);
	EXPECT_EQ(t, image[1000 * 512], 0);
	EXPECT_EQ(t, blk_write(part, 900, buf, 512, 0), -EIO);
	EXPECT_EQ(t, blk_write(part, 899, buf, 1024, 0), -EIO);
	EXPECT_EQ(t, blk_write(part, UINT64_MAX - 99, buf, 512, 0), -EIO);
	unplug(part);
	kfree(buf);
	free_disk(bd);
}

struct damage {
	const char *why;
	unsigned int off, len; /* in the header */
	uint64_t val;
	bool sealed; /* the checksums are right */
};

#define FIELD(f) offsetof(struct gpt_wire_header, f), sizeof(((struct gpt_wire_header *)NULL)->f)

static const struct damage damages[] = {
	{ "it is not there", 0, 1, 'X', true },
	{ "its checksum is wrong", FIELD(first_usable), 35, false },
	{ "its length makes no sense", FIELD(header_len), 91, true },
	{ "its length makes no sense", FIELD(header_len), 513, true },
	{ "its length makes no sense", FIELD(header_len), UINT32_MAX, true },
	{ "it is of a revision that is not known", FIELD(revision), 0x20000, true },
	{ "it belongs to another block", FIELD(my_block), 2, true },
	{ "its entries have a length", FIELD(entry_len), 64, true },
	{ "its entries have a length", FIELD(entry_len), 0, true },
	{ "its entries have a length", FIELD(entry_len), 192, true },
	{ "its entries have a length", FIELD(entry_len), 1u << 31, true },
	{ "more than 1024", FIELD(nr_entries), UINT32_MAX, true },
	{ "more than 1024", FIELD(nr_entries), 1025, true },
	{ "it has no entries", FIELD(nr_entries), 0, true },
	{ "its usable blocks are not on the disk", FIELD(last_usable), 2048, true },
	{ "its usable blocks are not on the disk", FIELD(last_usable), UINT64_MAX, true },
	{ "its usable blocks are not on the disk", FIELD(first_usable), 2015, true },
	{ "it lies in its own usable blocks", FIELD(first_usable), 0, true },
	{ "its entries lie in its usable blocks", FIELD(first_usable), 33, true },
	{ "its entries lie in its usable blocks", FIELD(entries_block), 100, true },
	{ "its entries are not on the disk", FIELD(entries_block), UINT64_MAX, true },
	{ "its entries are not on the disk", FIELD(entries_block), 2030, true },
	{ "its entries are not on the disk", FIELD(entries_block), 1, true },
	{ "the checksum of its entries is wrong", FIELD(entries_crc), 1, false },
};

static void do_damage(const struct damage *d, uint64_t at)
{
	struct gpt_wire_header *h = (void *)(image + at * GPT_TEST_BLOCK);
	const le64_t val = cpu_to_le64(d->val);

	memcpy((uint8_t *)h + d->off, &val, d->len);
	if (d->sealed)
		gpt_test_seal(image, at);
	if (d->off != offsetof(struct gpt_wire_header, entries_crc))
		return;
	h->entries_crc = cpu_to_le32(1); /* under a header whose own checksum is right */
	h->header_crc = cpu_to_le32(0);
	h->header_crc = cpu_to_le32(~crc32(~0u, h, GPT_HEADER_LEN));
}

static void damaged_headers(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(damages); i++) {
		struct blkdev *bd = new_disk(usual, ARRAY_SIZE(usual)), *part;
		char why[200] = "";

		ASSERT_TRUE(t, bd);
		/* The first is damaged: the backup says the same. */
		do_damage(&damages[i], 1);
		part = partition_open(bd, "", why, sizeof(why));
		ASSERT_TRUE(t, !IS_ERR(part));
		EXPECT_EQ(t, part->first_sector, 100u);
		unplug(part);
		/* The backup as well. */
		memset(image + (GPT_TEST_BLOCKS - 1) * GPT_TEST_BLOCK, 0, GPT_TEST_BLOCK);
		EXPECT_EQ(t, PTR_ERR(partition_open(bd, "", why, sizeof(why))), -EINVAL);
		if (!strstr(why, damages[i].why))
			EXPECT_STREQ(t, why, damages[i].why);
		EXPECT_TRUE(t, strstr(why, "the backup: it is not there"));
		EXPECT_TRUE(t, partition_open(bd, "whole", why, sizeof(why)) == bd);
		free_disk(bd);
	}
}

static void damaged_entries(struct ktest *t)
{
	static const struct gpt_test_part cases[][2] = {
		{ { 40, 99, true, "a" }, { 99, 200, false, "b" } }, /* they overlap */
		{ { 40, 200, true, "a" }, { 50, 60, false, "b" } },
		{ { 40, 99, true, "a" }, { 40, 99, false, "b" } },
		{ { 33, 99, true, "a" }, { 100, 200, false, "b" } }, /* outside */
		{ { 40, 99, true, "a" }, { 100, 2015, false, "b" } },
		{ { 40, 99, true, "a" }, { 100, UINT64_MAX, false, "b" } },
		{ { 40, 99, true, "a" }, { 200, 199, false, "b" } }, /* less than nothing */
		{ { UINT64_MAX, 99, true, "a" }, { 100, 200, false, "b" } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct blkdev *bd = new_disk(cases[i], 2);
		char why[200] = "";

		ASSERT_TRUE(t, bd);
		EXPECT_EQ(t, PTR_ERR(partition_open(bd, "", why, sizeof(why))), -EINVAL);
		EXPECT_TRUE(t, strstr(why, i < 3 ? "two partitions overlap" : "lies outside"));
		free_disk(bd);
	}
}

static void labels_are_harmless(struct ktest *t)
{
	struct blkdev *bd = new_disk(usual, ARRAY_SIZE(usual));
	struct gpt_wire_entry *e = (void *)(image + 2 * GPT_TEST_BLOCK);
	static struct gpt_partition parts[GPT_TEST_ENTRIES];
	struct gpt_header h;
	const char *why;
	uint32_t nr;

	ASSERT_TRUE(t, bd);
	for (unsigned int i = 0; i < GPT_NAME_UNITS; i++)
		e->name[i] = cpu_to_le16(0xffff); /* the longest as UTF-8, and no end */
	e[1].name[0] = cpu_to_le16(0x1b);
	e[1].name[1] = cpu_to_le16(0xe9);
	e[1].name[2] = cpu_to_le16(0xd801);
	gpt_test_seal(image, 1);
	ASSERT_EQ(t, gpt_decode_header(image + 512, 512, 1, GPT_TEST_BLOCKS, &h, &why), 0);
	ASSERT_EQ(t, gpt_decode_entries(&h, image + 1024, parts, &nr, &why), 0);
	EXPECT_EQ(t, nr, 3u);
	EXPECT_EQ(t, strlen(parts[0].label), GPT_LABEL_LEN - 1u);
	EXPECT_STREQ(t, parts[1].label, "?\xc3\xa9?t");
	free_disk(bd);
}

static void unreadable_blocks(struct ktest *t)
{
	struct blkdev *bd = new_disk(usual, ARRAY_SIZE(usual)), *part;
	char why[200] = "";

	ASSERT_TRUE(t, bd);
	bad_read = true;
	part = partition_open(bd, "2", why, sizeof(why));
	bad_read = false;
	ASSERT_TRUE(t, !IS_ERR(part));
	EXPECT_EQ(t, part->first_sector, 100u);
	unplug(part);
	free_disk(bd);
}

static const struct ktest_case gpt_cases[] = {
	KTEST(choices),
	KTEST(whole_disks),
	KTEST(none_or_several),
	KTEST(transfers_stay_inside),
	KTEST(damaged_headers),
	KTEST(damaged_entries),
	KTEST(labels_are_harmless),
	KTEST(unreadable_blocks),
	{ 0 },
};
static const struct ktest_suite gpt_suite = { .name = "block.gpt", .cases = gpt_cases };
KTEST_SUITE(gpt_suite);
