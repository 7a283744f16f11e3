/* SPDX-License-Identifier: MIT */
/* Decoding inodes: times, sizes, devices, checksums, and what has to be refused. */
#include <drivers/blkdev.h>
#include <lib/crc.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "ext4_priv.h"

static struct blkdev test_bd = { .name = "test" };

static void fs_init(struct ext4_fs *fs)
{
	memset(fs, 0, sizeof(*fs));
	fs->bd = &test_bd;
	fs->nr_blocks = 1000;
	fs->nr_inodes = 100;
	fs->block_bits = 12;
	fs->block_size = 4096;
	fs->inode_size = 256;
	fs->incompat = EXT4_INCOMPAT_FILETYPE | EXT4_INCOMPAT_EXTENTS;
	fs->ro_compat = EXT4_RO_COMPAT_HUGE_FILE;
	/* Cases below are meant to be refused: keep them out of the log. */
	atomic64_set(&fs->corruptions, 1000);
}

/* A plain file of 256 bytes of inode, all extra fields in use. */
static void raw_init(uint8_t raw[256])
{
	struct ext4_inode_disk d = {
		.mode = cpu_to_le16(S_IFREG | 0644),
		.links_count = cpu_to_le16(1),
		.extra_isize = cpu_to_le16(32),
		.size_lo = cpu_to_le32(5),
	};

	memset(raw, 0, 256);
	memcpy(raw, &d, sizeof(d));
}

static uint8_t inode_bytes[256];

static int decode(struct ext4_fs *fs, const uint8_t *raw, uint32_t len, struct ext4_inode *in)
{
	int err;

	memset(in, 0, sizeof(*in));
	in->fs = fs;
	in->ino = 12;
	in->raw = inode_bytes;
	memcpy(inode_bytes, raw, sizeof(inode_bytes));
	err = ext4_inode_decode(in, raw, len);
	kfree(in->inline_more);
	in->inline_more = NULL;
	return err;
}

static void times(struct ktest *t)
{
	static const struct {
		uint32_t lo, extra;
		int64_t sec;
		uint32_t nsec;
	} cases[] = {
		{ 0, 0, 0, 0 },
		{ 0x7fffffff, 0, 0x7fffffff, 0 },
		{ 0xffffffff, 0, -1, 0 },
		{ 0x80000000, 0, -0x80000000ll, 0 },
		{ 0x80000000, 1, 0x80000000ll, 0 },
		{ 0, 2, 0x200000000ll, 0 },
		{ 0x7fffffff, 3, 0x37fffffffll, 0 },
		{ 5, 999999999u << 2, 5, 999999999 },
		{ 5, 1000000000u << 2, 5, 0 }, /* nonsense counts as none */
	};
	struct ext4_inode_disk *d;
	struct ext4_inode in;
	struct ext4_fs fs;
	uint8_t raw[256] __aligned(8);

	fs_init(&fs);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		raw_init(raw);
		d = (void *)raw;
		d->mtime = cpu_to_le32(cases[i].lo);
		d->mtime_extra = cpu_to_le32(cases[i].extra);
		ASSERT_EQ(t, decode(&fs, raw, 256, &in), 0);
		EXPECT_EQ(t, in.mtime.sec, cases[i].sec);
		EXPECT_EQ(t, in.mtime.nsec, cases[i].nsec);
		/* An inode without room for the extra bits has none. */
		ASSERT_EQ(t, decode(&fs, raw, 128, &in), 0);
		EXPECT_EQ(t, in.mtime.sec, (int64_t)(int32_t)cases[i].lo);
		EXPECT_EQ(t, in.mtime.nsec, 0u);
	}
}

static void wide_fields(struct ktest *t)
{
	struct ext4_inode_disk *d;
	struct ext4_inode in;
	struct fs_stat st;
	struct ext4_fs fs;
	uint8_t raw[256] __aligned(8);

	fs_init(&fs);
	raw_init(raw);
	d = (void *)raw;
	d->uid_lo = cpu_to_le16(0x86a0);
	d->uid_hi = cpu_to_le16(1);
	d->gid_lo = cpu_to_le16(0x0d40);
	d->gid_hi = cpu_to_le16(3);
	d->size_lo = cpu_to_le32(0x1001);
	d->size_hi = cpu_to_le32(1);
	d->blocks_lo = cpu_to_le32(3);
	d->blocks_hi = cpu_to_le16(1);
	d->generation = cpu_to_le32(0xdeadbeef);
	ASSERT_EQ(t, decode(&fs, raw, 256, &in), 0);
	ext4_inode_fill_stat(&in, &st);
	EXPECT_EQ(t, st.uid, 100000u);
	EXPECT_EQ(t, st.gid, 200000u);
	EXPECT_EQ(t, st.size, 0x100001001ull);
	EXPECT_EQ(t, st.blocks, 0x100000003ull);
	EXPECT_EQ(t, st.gen, 0xdeadbeefu);
	d->flags = cpu_to_le32(EXT4_FL_HUGE_FILE); /* now in units of 4 KiB */
	ASSERT_EQ(t, decode(&fs, raw, 256, &in), 0);
	EXPECT_EQ(t, in.blocks, 0x100000003ull * 8);
}

static void device_numbers(struct ktest *t)
{
	struct ext4_inode_disk *d;
	struct ext4_inode in;
	struct fs_stat st;
	struct ext4_fs fs;
	uint8_t raw[256] __aligned(8);

	fs_init(&fs);
	raw_init(raw);
	d = (void *)raw;
	d->mode = cpu_to_le16(S_IFCHR | 0666);
	d->block[0] = cpu_to_le32(0x0103);
	ASSERT_EQ(t, decode(&fs, raw, 256, &in), 0);
	ext4_inode_fill_stat(&in, &st);
	EXPECT_EQ(t, st.rdev_major, 1u);
	EXPECT_EQ(t, st.rdev_minor, 3u);
	d->block[0] = 0;
	d->block[1] = cpu_to_le32(0x11110370); /* 259, 70000 */
	ASSERT_EQ(t, decode(&fs, raw, 256, &in), 0);
	ext4_inode_fill_stat(&in, &st);
	EXPECT_EQ(t, st.rdev_major, 259u);
	EXPECT_EQ(t, st.rdev_minor, 0x11170u);
}

static void free_inodes_are_stale(struct ktest *t)
{
	struct ext4_inode_disk *d;
	struct ext4_inode in;
	struct ext4_fs fs;
	uint8_t raw[256] __aligned(8);

	fs_init(&fs);
	memset(raw, 0, sizeof(raw));
	EXPECT_EQ(t, decode(&fs, raw, 256, &in), -ESTALE);
	raw_init(raw);
	d = (void *)raw;
	d->links_count = 0;
	EXPECT_EQ(t, decode(&fs, raw, 256, &in), -ESTALE);
}

static void refusals(struct ktest *t)
{
	static const struct {
		size_t at;
		uint32_t value;
	} cases[] = {
		{ offsetof(struct ext4_inode_disk, mode), 0x000101a4 }, /* no such type */
		{ offsetof(struct ext4_inode_disk, mode), 0x0001f1a4 },
		{ offsetof(struct ext4_inode_disk, size_hi), 0x7fffffff },
		{ offsetof(struct ext4_inode_disk, flags), EXT4_FL_ENCRYPT },
		{ offsetof(struct ext4_inode_disk, flags), EXT4_FL_CASEFOLD },
		{ offsetof(struct ext4_inode_disk, flags), EXT4_FL_EA_INODE },
		{ offsetof(struct ext4_inode_disk, flags), EXT4_FL_INLINE_DATA },
		{ offsetof(struct ext4_inode_disk, extra_isize), 132 },
		{ offsetof(struct ext4_inode_disk, extra_isize), 30 },
		/* A directory of a size that is no number of blocks. */
		{ offsetof(struct ext4_inode_disk, mode), 0x000041ed },
	};
	struct ext4_inode in;
	struct ext4_fs fs;
	uint8_t raw[256] __aligned(8);

	fs_init(&fs);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		raw_init(raw);
		put_unaligned_le32(cases[i].value, raw + cases[i].at);
		if (cases[i].at == offsetof(struct ext4_inode_disk, mode))
			put_unaligned_le16(1, raw + offsetof(struct ext4_inode_disk, links_count));
		EXPECT_EQ(t, decode(&fs, raw, 256, &in), -EUCLEAN);
	}
}

static void directories_are_no_bigger_than_the_disk(struct ktest *t)
{
	struct ext4_inode_disk *d;
	struct ext4_inode in;
	struct ext4_fs fs;
	uint8_t raw[256] __aligned(8);

	fs_init(&fs);
	raw_init(raw);
	d = (void *)raw;
	d->mode = cpu_to_le16(S_IFDIR | 0755);
	d->size_lo = cpu_to_le32(1000 * 4096);
	EXPECT_EQ(t, decode(&fs, raw, 256, &in), 0);
	d->size_lo = cpu_to_le32(1001 * 4096);
	EXPECT_EQ(t, decode(&fs, raw, 256, &in), -EUCLEAN);
	d->size_lo = 0;
	EXPECT_EQ(t, decode(&fs, raw, 256, &in), -EUCLEAN);
}

static void every_bit_is_under_the_checksum(struct ktest *t)
{
	const size_t lo = offsetof(struct ext4_inode_disk, checksum_lo);
	const size_t hi = offsetof(struct ext4_inode_disk, checksum_hi);
	struct ext4_inode in;
	struct ext4_fs fs;
	uint8_t raw[256] __aligned(8);
	uint32_t crc;
	le32_t word;

	fs_init(&fs);
	fs.has_csum = true;
	fs.csum_seed = 0x12345678;
	raw_init(raw);
	/* The checksum's own fields count as zero, which they still are. */
	word = cpu_to_le32(12);
	crc = crc32c(fs.csum_seed, &word, 4);
	word = 0;
	crc = crc32c(crc, &word, 4);
	crc = crc32c(crc, raw, sizeof(raw));
	put_unaligned_le16((uint16_t)crc, raw + lo);
	put_unaligned_le16((uint16_t)(crc >> 16), raw + hi);
	ASSERT_EQ(t, decode(&fs, raw, 256, &in), 0);
	for (size_t at = 0; at < sizeof(raw); at++) {
		raw[at] ^= 0x10;
		EXPECT_EQ(t, decode(&fs, raw, 256, &in), -EUCLEAN);
		raw[at] ^= 0x10;
	}
}

static const struct ktest_case inode_cases[] = {
	KTEST(times),
	KTEST(wide_fields),
	KTEST(device_numbers),
	KTEST(free_inodes_are_stale),
	KTEST(refusals),
	KTEST(directories_are_no_bigger_than_the_disk),
	KTEST(every_bit_is_under_the_checksum),
	{ 0 },
};
static const struct ktest_suite inode_suite = { .name = "ext4.inode", .cases = inode_cases };
KTEST_SUITE(inode_suite);
