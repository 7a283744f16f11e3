/* SPDX-License-Identifier: MIT */
/*
 * For tests: a whole ext2 file system in memory (see toy_image.h).
 *
 * Blocks of 1 KiB: 1 superblock, 2 group descriptor, 3 and 4 bitmaps, 5 to 8 inode table, from 9 on
 * directories, from 16 on contents.
 */
#include "toy_image.h"

#include <lib/byteorder.h>
#include <lib/string.h>
#include <mm/slab.h>

#define BLOCK       1024u
#define NR_BLOCKS   64u
#define NR_INODES   32u
#define INODE_LEN   128u
#define INODE_TABLE 5u
#define TEXT_BLOCK  16u

struct toy_disk {
	struct blkdev bd;
	uint8_t data[NR_BLOCKS * BLOCK];
};

static void toy_submit(struct blkdev *bd, struct blk_req *req)
{
	struct toy_disk *d = bd->driver;
	uint64_t at = req->sector << BLK_SECTOR_SHIFT;

	for (unsigned int i = 0; i < req->nr_segs; i++) {
		memcpy(req->segs[i].buf, d->data + at, req->segs[i].len);
		at += req->segs[i].len;
	}
	req->status = 0;
	req->done(req);
}

static const struct blkdev_ops toy_ops = { .submit = toy_submit };

static void put16(uint8_t *p, size_t off, uint16_t v)
{
	put_unaligned_le16(v, p + off);
}

static void put32(uint8_t *p, size_t off, uint32_t v)
{
	put_unaligned_le32(v, p + off);
}

static void make_super(struct toy_disk *d)
{
	uint8_t *sb = d->data + BLOCK, *gd = d->data + 2 * (size_t)BLOCK;

	put32(sb, 0x00, NR_INODES);
	put32(sb, 0x04, NR_BLOCKS);
	put32(sb, 0x0c, 40);   /* free blocks */
	put32(sb, 0x10, 15);   /* free inodes */
	put32(sb, 0x14, 1);    /* first data block */
	put32(sb, 0x20, 8192); /* blocks per group */
	put32(sb, 0x28, NR_INODES);
	put16(sb, 0x38, 0xef53);
	put16(sb, 0x3a, 1);  /* clean */
	put32(sb, 0x4c, 1);  /* revision */
	put32(sb, 0x54, 11); /* first inode */
	put16(sb, 0x58, INODE_LEN);
	put32(sb, 0x60, 0x2); /* filetype */
	memset(sb + 0x68, 0xab, 16);
	put32(gd, 0x00, 3);
	put32(gd, 0x04, 4);
	put32(gd, 0x08, INODE_TABLE);
}

static uint8_t *make_inode(struct toy_disk *d, uint32_t ino, uint16_t mode, uint32_t size)
{
	uint8_t *p = d->data + (size_t)INODE_TABLE * BLOCK + (size_t)(ino - 1) * INODE_LEN;

	put16(p, 0x00, mode);
	put32(p, 0x04, size);
	put32(p, 0x08, 100); /* times */
	put32(p, 0x0c, 300);
	put32(p, 0x10, 200);
	put16(p, 0x1a, 1); /* links */
	put32(p, 0x64, TOY_GEN);
	return p;
}

struct toy_entry {
	const char *name;
	uint32_t ino;
	uint8_t type;
};

static void make_dir(struct toy_disk *d, uint32_t ino, uint32_t block, uint16_t mode,
		     const struct toy_entry *entries, size_t nr)
{
	uint8_t *inode = make_inode(d, ino, mode, BLOCK);
	uint8_t *p = d->data + (size_t)block * BLOCK;
	size_t at = 0;

	if (ino == TOY_INO_PRIVATE)
		put16(inode, 0x02, 7);

	put16(inode, 0x1a, 2);
	put32(inode, 0x1c, 2); /* sectors */
	put32(inode, 0x28, block);
	for (size_t i = 0; i < nr; i++) {
		const size_t len = strlen(entries[i].name);
		const size_t rec = i + 1 < nr ? ALIGN_UP(8 + len, (size_t)4) : BLOCK - at;

		put32(p, at, entries[i].ino);
		put16(p, at + 4, (uint16_t)rec);
		p[at + 6] = (uint8_t)len;
		p[at + 7] = entries[i].type;
		memcpy(p + at + 8, entries[i].name, len);
		at += rec;
	}
}

static void make_files(struct toy_disk *d)
{
	uint8_t *inode = make_inode(d, TOY_INO_TEXT, 0100644, TOY_TEXT_LEN);

	put16(inode, 0x02, 7);
	put16(inode, 0x18, 8);
	put32(inode, 0x1c, 10);
	for (uint32_t i = 0; i < 5; i++)
		put32(inode, 0x28 + (size_t)i * 4, TEXT_BLOCK + i);
	for (uint32_t i = 0; i < 5 * BLOCK; i++)
		d->data[TEXT_BLOCK * BLOCK + i] = (uint8_t)(i % 251);
	inode = make_inode(d, TOY_INO_LINK, 0120777, 8);
	memcpy(inode + 0x28, "etc/text", 8);
	make_inode(d, 15, 0100600, 0);
	inode = make_inode(d, 16, 0020666, 0);
	put32(inode, 0x28, 0x0103);
}

struct blkdev *toy_image_open(void)
{
	static const struct toy_entry root[] = {
		{ ".", 2, 2 },
		{ "..", 2, 2 },
		{ "etc", TOY_INO_ETC, 2 },
		{ "link", TOY_INO_LINK, 7 },
		{ "private", TOY_INO_PRIVATE, 2 },
		{ "null", 16, 3 },
	};
	static const struct toy_entry etc[] = {
		{ ".", TOY_INO_ETC, 2 },
		{ "..", 2, 2 },
		{ "text", TOY_INO_TEXT, 1 },
	};
	static const struct toy_entry private[] = {
		{ ".", TOY_INO_PRIVATE, 2 },
		{ "..", 2, 2 },
		{ "key", 15, 1 },
	};
	struct toy_disk *d = kzalloc(sizeof(*d));

	if (!d)
		return NULL;
	make_super(d);
	make_dir(d, 2, 9, 0040755, root, ARRAY_SIZE(root));
	make_dir(d, TOY_INO_ETC, 10, 0040755, etc, ARRAY_SIZE(etc));
	make_dir(d, TOY_INO_PRIVATE, 11, 0040700, private, ARRAY_SIZE(private));
	make_files(d);
	d->bd = (struct blkdev){
		.ops = &toy_ops,
		.driver = d,
		.name = "toy",
		.nr_sectors = NR_BLOCKS * BLOCK / BLK_SECTOR_SIZE,
		.block_size = BLK_SECTOR_SIZE,
		.max_segs = 4,
		.max_seg_len = 65536,
		.read_only = true,
	};
	return &d->bd;
}

void toy_image_close(struct blkdev *bd)
{
	kfree(bd->driver);
}
