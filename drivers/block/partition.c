/* SPDX-License-Identifier: MIT */
/*
 * Partitions: reading the GPT of a disk, and block devices that are a part of one.
 *
 * Flow:	block 0 (the protective MBR) -> block 1 (header) -> entries; damaged: the backup in
 *		the last block.  A disk without both a protective MBR and a header has no table.
 * Context:	threads.
 * Failure:	as in <drivers/partition.h>.  A warning tells when the backup was used.
 */
#define PR_FMT "partition: "

#include <drivers/partition.h>

#include <drivers/blkdev.h>
#include <kernel/printk.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "gpt.h"

struct table {
	struct gpt_partition *parts;
	uint32_t nr;
};

static int read_blocks(struct blkdev *disk, uint64_t block, void *buf, size_t len)
{
	return blk_read(disk, block * (disk->block_size >> BLK_SECTOR_SHIFT), buf, (uint32_t)len);
}

static int read_entries(struct blkdev *disk, const struct gpt_header *h, struct table *out,
			const char **why)
{
	const size_t len = ALIGN_UP((size_t)h->nr_entries * h->entry_len, (size_t)disk->block_size);
	uint8_t *raw = kmalloc(len);
	int err;

	out->parts = kcalloc(h->nr_entries, sizeof(*out->parts));
	*why = "out of memory";
	err = raw && out->parts ? 0 : -ENOMEM;
	if (!err) {
		*why = "its entries cannot be read";
		err = read_blocks(disk, h->entries_block, raw, len);
	}
	if (!err)
		err = gpt_decode_entries(h, raw, out->parts, &out->nr, why);
	kfree(raw);
	if (err) {
		kfree(out->parts);
		out->parts = NULL;
	}
	return err;
}

/* The table whose header is in block @at.  @buf has room for a block. */
static int read_table(struct blkdev *disk, uint64_t at, uint8_t *buf, struct table *out,
		      const char **why)
{
	const uint64_t nr_blocks = disk->nr_sectors / (disk->block_size >> BLK_SECTOR_SHIFT);
	struct gpt_header h;
	int err;

	*why = "it cannot be read";
	err = read_blocks(disk, at, buf, disk->block_size);
	if (!err)
		err = gpt_decode_header(buf, disk->block_size, at, nr_blocks, &h, why);
	return err ? err : read_entries(disk, &h, out, why);
}

/* -ENOENT: @disk has no table. */
static int find_table(struct blkdev *disk, uint8_t *buf, struct table *out, char *why,
		      size_t why_size)
{
	const uint64_t nr_blocks = disk->nr_sectors / (disk->block_size >> BLK_SECTOR_SHIFT);
	const char *first, *backup;
	int err;

	if (nr_blocks < 6)
		return -ENOENT;
	err = read_blocks(disk, 0, buf, disk->block_size);
	if (err) {
		snprintf(why, why_size, "%s: its first block cannot be read", disk->name);
		return err;
	}
	if (!gpt_is_protected(buf, disk->block_size))
		return -ENOENT;
	err = read_table(disk, 1, buf, out, &first);
	if (!err)
		return 0;
	if (err == -ENOMEM) {
		snprintf(why, why_size, "%s: out of memory", disk->name);
		return err;
	}
	if (read_table(disk, nr_blocks - 1, buf, out, &backup)) {
		snprintf(why, why_size, "%s: GPT: %s; the backup: %s", disk->name, first, backup);
		return err;
	}
	pr_warn("%s: GPT: %s; its backup is used\n", disk->name, first);
	return 0;
}

static struct blkdev *make_part(struct blkdev *disk, const struct gpt_partition *p)
{
	const uint32_t per_block = disk->block_size >> BLK_SECTOR_SHIFT;
	const size_t len = strlen(disk->name);
	const char *sep = disk->name[len - 1] >= '0' && disk->name[len - 1] <= '9' ? "p" : "";
	struct blkdev *part = kzalloc(sizeof(*part));
	int n, err;

	if (!part)
		return ERR_PTR(-ENOMEM);
	n = snprintf(part->name, sizeof(part->name), "%s%s%u", disk->name, sep, p->number);
	if (n < 0 || (size_t)n >= sizeof(part->name)) {
		kfree(part);
		return ERR_PTR(-EINVAL);
	}
	part->disk = disk;
	part->driver = disk->driver;
	part->first_sector = p->first_block * per_block;
	part->nr_sectors = p->nr_blocks * per_block;
	part->block_size = disk->block_size;
	part->max_segs = disk->max_segs;
	part->max_seg_len = disk->max_seg_len;
	part->read_only = disk->read_only;
	part->has_flush = disk->has_flush;
	part->max_discard = disk->max_discard;
	part->max_zero = disk->max_zero;
	err = blkdev_register(part);
	if (err) {
		kfree(part);
		return ERR_PTR(err);
	}
	pr_info("%s: \"%s\", %llu MiB from sector %llu\n", part->name, p->label,
		(unsigned long long)(part->nr_sectors >> 11),
		(unsigned long long)part->first_sector);
	return part;
}

static struct blkdev *open_in(struct blkdev *disk, const struct table *table, const char *which,
			      char *why, size_t why_size)
{
	const struct gpt_partition *chosen;
	struct blkdev *part;
	const char *reason;
	const int err = gpt_choose(table->parts, table->nr, which, &chosen, &reason);

	if (err) {
		snprintf(why, why_size, "%s: %s", disk->name, reason);
		return ERR_PTR(err);
	}
	part = make_part(disk, chosen);
	if (IS_ERR(part))
		snprintf(why, why_size, "%s: partition %u cannot be used (%d)", disk->name,
			 chosen->number, (int)PTR_ERR(part));
	return part;
}

struct blkdev *partition_open(struct blkdev *disk, const char *which, char *why, size_t why_size)
{
	struct table table = { 0 };
	struct blkdev *bd;
	uint8_t *buf;
	int err;

	if (!strcmp(which, "whole"))
		return disk;
	buf = kmalloc(disk->block_size);
	if (!buf) {
		snprintf(why, why_size, "%s: out of memory", disk->name);
		return ERR_PTR(-ENOMEM);
	}
	err = find_table(disk, buf, &table, why, why_size);
	kfree(buf);
	if (err == -ENOENT && !*which)
		return disk;
	if (err == -ENOENT)
		snprintf(why, why_size, "%s has no table of partitions (GPT)", disk->name);
	if (err)
		return ERR_PTR(err);
	bd = open_in(disk, &table, which, why, why_size);
	kfree(table.parts);
	return bd;
}
