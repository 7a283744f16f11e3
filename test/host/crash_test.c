/* SPDX-License-Identifier: MIT */
/*
 * Power cuts: random transactions on images of mke2fs, the disk's writes recorded, the power cut
 * anywhere, any part of the unflushed writes lost.
 *
 * A model has the state of 24 files after each operation; an operation gives a file a block of data
 * or of attributes (metadata that is revoked when it goes), or takes it away, or changes owner and
 * time. Its number stands in the owner of file 0. After a cut, e2fsck -p on one copy of the image,
 * and our own recovery on another, must each leave a disk of which e2fsck -fn finds nothing wrong,
 * and whose files are as they were after one operation, no earlier than the last that was waited
 * for.
 *
 * Limits:	TESSERA_CRASH_IMAGES images in all (30).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <drivers/blkdev.h>
#include <fs/ext4.h>
#include <lib/crc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>

#include "../../fs/ext4/group.h"
#include "image_kit.h"
#include "logdisk.h"

#define NR_FILES   24u
#define NR_OPS     1500u /* enough for the smallest log to wrap */
#define FIRST_TIME 1700000000u

static const struct geometry {
	const char *name;
	const char *options;
	const char *size;
} geometries[] = {
	{ "4k", "-t ext4 -b 4096 -J size=4", "16M" },
	{ "1k", "-t ext4 -b 1024 -J size=1", "8M" },
	{ "2k without checksums", "-t ext4 -b 2048 -O ^metadata_csum -J size=4", "16M" },
	{ "ext3", "-t ext3 -b 1024 -J size=1", "8M" },
	{ "32 bits, small groups", "-t ext4 -b 1024 -O ^64bit,^resize_inode -g 1024 -J size=1",
	  "8M" },
	{ "crc16", "-t ext4 -b 1024 -O ^metadata_csum,uninit_bg -I 128 -J size=1", "8M" },
};

/* The state of one file. */
struct file {
	uint32_t ino;
	uint32_t uid;
	uint32_t mtime;
	uint64_t attr; /* block, or 0 */
	uint64_t data;
	uint32_t tag; /* what data holds */
};

struct snapshot {
	struct file files[NR_FILES];
	size_t event; /* the disk's, once the operation is durable; SIZE_MAX: not waited for */
};

struct world {
	struct ktest *t;
	char dir[64];
	struct logdisk *disk;
	struct ext4_fs *fs;
	struct prng rng;
	struct snapshot now;
	struct snapshot *history; /* after each operation */
	uint32_t nr_ops;
	ext4_tid_t tid;
};

static void make_image(struct world *w, const struct geometry *g)
{
	image_dir(w->dir, "crash");
	MUST(!shell(
		"cd %s && mkdir t && cd t && for i in $(seq 10 %u); do : >f$i; done && cd .. && "
		"PATH=$PATH:/usr/sbin:/sbin mke2fs -q -F -d t %s image %s >/dev/null",
		w->dir, 9 + NR_FILES, g->options, g->size));
}

static char *path_of(const struct world *w, const char *name)
{
	static char path[2][128];
	static int turn;

	turn = !turn;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", w->dir, name);
	return path[turn];
}

static struct ext4_fs *mount_rw(struct world *w, struct blkdev *bd)
{
	const struct fs_mount_options opt = { .cache_bytes = 256u << 10,
					      .writable = true,
					      .manual_commit = true };
	struct fs *fs = NULL;

	MUST(!ext4_mount(bd, &opt, &fs));
	return container_of(fs, struct ext4_fs, base);
}

static uint32_t find_ino(struct ext4_fs *fs, unsigned int i)
{
	struct fs_inode *root = fs_inode_get(&fs->base, fs->base.root_ino, FS_ANY_GEN), *in;
	struct fs_stat st = { 0 };
	char name[8];

	snprintf(name, sizeof(name), "f%u", 10 + i);
	in = fs_lookup(root, name, strlen(name));
	if (!IS_ERR(in)) {
		fs_inode_stat(in, &st);
		fs_inode_put(in);
	}
	fs_inode_put(root);
	return (uint32_t)st.ino;
}

/* --- blocks --- */

/* A block that is freed becomes usable when the commit is over. */
struct freed {
	struct ext4_commit_cb cb;
	uint64_t block;
};

static uint8_t *busy; /* blocks freed by transactions that have not committed */

static void reusable(struct ext4_fs *fs, struct ext4_commit_cb *cb, int err)
{
	struct freed *f = container_of(cb, struct freed, cb);

	(void)fs;
	(void)err;
	busy[f->block] = 0;
	free(f);
}

static void change_bit(struct ext4_handle *h, uint32_t g, struct ext4_gd *gd, uint32_t bit,
		       bool set, struct bcache_buf *map)
{
	MUST(!ext4_write_access(h, map));
	if (set)
		map->data[bit / 8] |= (uint8_t)(1u << bit % 8);
	else
		map->data[bit / 8] &= (uint8_t)~(1u << bit % 8);
	gd->free_blocks += set ? -1u : 1u;
	gd->flags &= ~EXT4_GROUP_BLOCK_UNINIT;
	MUST(!ext4_block_bitmap_dirty(h, gd, map));
	MUST(!ext4_gd_write(h, g, gd));
	ext4_count_free_blocks(ext4_handle_fs(h), set ? -1 : 1);
}

static uint64_t take_from(struct ext4_handle *h, struct prng *rng, uint32_t g)
{
	struct ext4_fs *fs = ext4_handle_fs(h);
	const uint64_t first = ext4_group_first_block(fs, g);
	const uint32_t nr = ext4_group_nr_blocks(fs, g);
	struct bcache_buf *map;
	uint64_t block = 0;
	struct ext4_gd gd;

	ext4_group_lock(fs, g);
	MUST(!ext4_gd_read(fs, g, &gd));
	map = ext4_block_bitmap(fs, g, &gd);
	MUST(!IS_ERR(map));
	for (uint32_t i = 0, at = (uint32_t)prng_below(rng, nr); i < nr && !block; i++) {
		const uint32_t bit = (at + i) % nr;

		if ((map->data[bit / 8] >> bit % 8 & 1) || busy[first + bit])
			continue;
		block = first + bit;
		change_bit(h, g, &gd, bit, true, map);
	}
	bcache_put(map);
	ext4_group_unlock(fs, g);
	return block;
}

static uint64_t take_block(struct ext4_handle *h, struct prng *rng)
{
	struct ext4_fs *fs = ext4_handle_fs(h);
	uint64_t block = 0;

	while (!block)
		block = take_from(h, rng, (uint32_t)prng_below(rng, fs->nr_groups));
	return block;
}

static void give_back(struct ext4_handle *h, uint64_t block)
{
	struct ext4_fs *fs = ext4_handle_fs(h);
	const uint32_t g = (uint32_t)((block - fs->first_data_block) / fs->blocks_per_group);
	const uint32_t bit = (uint32_t)((block - fs->first_data_block) % fs->blocks_per_group);
	struct freed *f = calloc(1, sizeof(*f));
	struct bcache_buf *map;
	struct ext4_gd gd;

	ext4_group_lock(fs, g);
	MUST(!ext4_gd_read(fs, g, &gd));
	map = ext4_block_bitmap(fs, g, &gd);
	MUST(!IS_ERR(map));
	change_bit(h, g, &gd, bit, false, map);
	bcache_put(map);
	ext4_group_unlock(fs, g);
	busy[block] = 1;
	f->block = block;
	f->cb.fn = reusable;
	ext4_on_commit(h, &f->cb);
}

/* --- operations --- */

/* Write what @f says into the inode. */
static void put_inode(struct ext4_handle *h, const struct file *f)
{
	struct ext4_fs *fs = ext4_handle_fs(h);
	struct ext4_inode_disk *d;
	struct bcache_buf *buf;
	uint32_t sectors = 0;
	uint8_t *raw;

	MUST(!ext4_raw_inode(fs, f->ino, &buf, &raw));
	MUST(!ext4_write_access(h, buf));
	ext4_raw_lock(fs, f->ino);
	d = (void *)raw;
	d->uid_lo = cpu_to_le16((uint16_t)f->uid);
	d->mtime = cpu_to_le32(f->mtime);
	d->file_acl_lo = cpu_to_le32((uint32_t)f->attr);
	sectors += f->attr ? fs->block_size / 512 : 0;
	sectors += f->data ? fs->block_size / 512 : 0;
	d->blocks_lo = cpu_to_le32(sectors);
	d->size_lo = cpu_to_le32(f->data ? fs->block_size : 0);
	if (le32_to_cpu(d->flags) & EXT4_FL_EXTENTS) {
		struct ext4_extent_header *eh = (void *)d->block;
		struct ext4_extent *ex = (void *)(eh + 1);

		eh->entries = cpu_to_le16(f->data ? 1 : 0);
		*ex = (struct ext4_extent){ .len = cpu_to_le16(f->data ? 1 : 0),
					    .start_lo = cpu_to_le32((uint32_t)f->data) };
	} else {
		d->block[0] = cpu_to_le32((uint32_t)f->data);
	}
	ext4_inode_csum_set(fs, f->ino, raw);
	ext4_raw_unlock(fs, f->ino);
	MUST(!ext4_dirty(h, buf));
	bcache_put(buf);
}

static void toggle_attr(struct world *w, struct ext4_handle *h, struct file *f)
{
	struct ext4_fs *fs = w->fs;
	struct bcache_buf *buf;
	le64_t le_block;
	uint32_t crc;

	if (f->attr) {
		struct bcache_buf *held = NULL;

		if (prng_next(&w->rng) % 2)
			held = bcache_get(fs->bc, f->attr);
		MUST(!ext4_revoke(h, f->attr, held));
		if (held)
			bcache_put(held);
		give_back(h, f->attr);
		f->attr = 0;
		return;
	}
	f->attr = take_block(h, &w->rng);
	buf = ext4_new_block(h, f->attr);
	MUST(!IS_ERR(buf));
	/* A block without attributes: magic, one reference, one block, hash, checksum. */
	put_unaligned_le32(EXT4_XATTR_MAGIC, buf->data);
	put_unaligned_le32(1, buf->data + 4);
	put_unaligned_le32(1, buf->data + 8);
	if (fs->has_csum) {
		le_block = cpu_to_le64(f->attr);
		crc = crc32c(fs->csum_seed, &le_block, sizeof(le_block));
		crc = crc32c(crc, buf->data, fs->block_size);
		put_unaligned_le32(crc, buf->data + 16);
	}
	MUST(!ext4_dirty(h, buf));
	bcache_put(buf);
}

/* Every second block of data begins as a block of the journal does. */
static void fill(uint8_t *page, uint32_t tag, uint32_t len)
{
	for (uint32_t i = 0; i < len; i += 4)
		put_unaligned_le32(tag, page + i);
	if (tag % 2)
		put_unaligned_be32(0xc03b3998u, page);
}

static void toggle_data(struct world *w, struct ext4_handle *h, struct file *f)
{
	struct ext4_fs *fs = w->fs;
	static uint8_t page[4096];
	struct ext4_ordered o;

	if (f->data) {
		give_back(h, f->data);
		f->data = 0;
		return;
	}
	f->data = take_block(h, &w->rng);
	f->tag = (uint32_t)prng_next(&w->rng);
	fill(page, f->tag, fs->block_size);
	ext4_order_begin(h, &o);
	MUST(!blk_write(fs->bd, f->data * (fs->block_size / 512), page, fs->block_size, 0));
	ext4_order_end(fs, &o, 0);
}

static void one_op(struct world *w)
{
	struct ext4_fs *fs = w->fs;
	struct file *first = &w->now.files[0];
	struct file *f = &w->now.files[1 + prng_below(&w->rng, NR_FILES - 1)];
	struct ext4_handle *h = ext4_begin(fs, 16);

	MUST(!IS_ERR(h));
	switch (prng_below(&w->rng, 4)) {
	case 0:
	case 1:
		toggle_attr(w, h, f);
		break;
	case 2:
		toggle_data(w, h, f);
		break;
	default:
		f->uid = (uint32_t)prng_next(&w->rng) & 0xffff;
		break;
	}
	f->mtime = FIRST_TIME + (uint32_t)prng_below(&w->rng, 1000000);
	put_inode(h, f);
	w->nr_ops++;
	first->uid = w->nr_ops;
	put_inode(h, first);
	w->tid = ext4_handle_tid(h);
	MUST(!ext4_end(h));
	w->now.event = SIZE_MAX;
	if (prng_below(&w->rng, 6) == 0) {
		MUST(!ext4_commit_wait(fs, w->tid, false));
		w->now.event = logdisk_nr_events(w->disk);
	}
	w->history[w->nr_ops] = w->now;
}

/* --- after the cut --- */

static bool file_is(struct world *w, struct ext4_fs *fs, const struct file *want)
{
	const struct ext4_inode_disk *d;
	static uint8_t is[4096], should[4096];
	struct bcache_buf *buf;
	uint64_t data = 0;
	uint8_t *raw;
	bool ok;

	MUST(!ext4_raw_inode(fs, want->ino, &buf, &raw));
	d = (const void *)raw;
	if (le32_to_cpu(d->flags) & EXT4_FL_EXTENTS) {
		const struct ext4_extent_header *eh = (const void *)d->block;

		if (le16_to_cpu(eh->entries))
			data = le32_to_cpu(((const struct ext4_extent *)(eh + 1))->start_lo);
	} else {
		data = le32_to_cpu(d->block[0]);
	}
	ok = le16_to_cpu(d->uid_lo) == want->uid && le32_to_cpu(d->mtime) == want->mtime &&
	     le32_to_cpu(d->file_acl_lo) == want->attr && data == want->data;
	bcache_put(buf);
	if (!ok) {
		ktest_fail(w->t, __FILE__, __LINE__, "inode %u is not as it was", want->ino);
		return false;
	}
	if (data) {
		MUST(!blk_read(fs->bd, data * (fs->block_size / 512), is, fs->block_size));
		fill(should, want->tag, fs->block_size);
		if (memcmp(is, should, fs->block_size)) {
			ktest_fail(w->t, __FILE__, __LINE__, "inode %u: block %llu has other data",
				   want->ino, (unsigned long long)data);
			return false;
		}
	}
	return true;
}

static void check_state(struct world *w, struct ext4_fs *fs, uint32_t at_least)
{
	const struct ext4_inode_disk *d;
	struct bcache_buf *buf;
	uint32_t op;
	uint8_t *raw;

	MUST(!ext4_raw_inode(fs, w->now.files[0].ino, &buf, &raw));
	d = (const void *)raw;
	op = le16_to_cpu(d->uid_lo);
	bcache_put(buf);
	EXPECT_LE(w->t, op, w->nr_ops);
	EXPECT_GE(w->t, op, at_least);
	if (op > w->nr_ops)
		return;
	for (unsigned int i = 1; i < NR_FILES; i++) {
		if (!file_is(w, fs, &w->history[op].files[i]))
			return;
	}
}

static void check_image(struct world *w, const char *name, uint32_t at_least)
{
	struct logdisk *d = logdisk_open(path_of(w, name));
	struct fs *fs = NULL;

	EXPECT_EQ(w->t,
		  shell("PATH=$PATH:/usr/sbin:/sbin e2fsck -fn %s >%s 2>&1", path_of(w, name),
			path_of(w, "log")),
		  0);
	if (w->t->nr_failed)
		shell("cat %s >&2", path_of(w, "log"));
	EXPECT_EQ(w->t, ext4_mount(logdisk_bd(d), NULL, &fs), 0);
	if (fs) {
		check_state(w, container_of(fs, struct ext4_fs, base), at_least);
		fs_unmount(fs);
	}
	logdisk_close(d);
}

static void one_cut(struct world *w, size_t at, uint64_t seed)
{
	struct logdisk *d;
	uint32_t at_least = 0;
	struct ext4_fs *fs;

	for (uint32_t i = 1; i <= w->nr_ops; i++) {
		if (w->history[i].event <= at)
			at_least = i;
	}
	logdisk_crash(w->disk, at, seed, path_of(w, "theirs"));
	shell("cp %s %s", path_of(w, "theirs"), path_of(w, "ours"));
	EXPECT_LE(w->t,
		  shell("PATH=$PATH:/usr/sbin:/sbin e2fsck -p %s >%s 2>&1", path_of(w, "theirs"),
			path_of(w, "log")),
		  1);
	check_image(w, "theirs", at_least);

	d = logdisk_open(path_of(w, "ours"));
	fs = mount_rw(w, logdisk_bd(d));
	fs_unmount(&fs->base);
	logdisk_save(d, path_of(w, "ours"));
	logdisk_close(d);
	check_image(w, "ours", at_least);
	if (w->t->nr_failed)
		fprintf(stderr, "cut at event %zu, seed %llu, operations from %u of %u\n", at,
			(unsigned long long)seed, at_least, w->nr_ops);
}

static void start(struct world *w, struct ktest *t, const struct geometry *g, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->t = t;
	prng_seed(&w->rng, seed);
	make_image(w, g);
	w->disk = logdisk_open(path_of(w, "image"));
	w->history = calloc(NR_OPS + 1, sizeof(*w->history));
	w->fs = mount_rw(w, logdisk_bd(w->disk));
	busy = calloc(1, w->fs->nr_blocks);
	for (unsigned int i = 0; i < NR_FILES; i++) {
		struct file *f = &w->now.files[i];
		struct bcache_buf *buf;
		uint8_t *raw;

		f->ino = find_ino(w->fs, i);
		MUST(!ext4_raw_inode(w->fs, f->ino, &buf, &raw));
		f->mtime = le32_to_cpu(((struct ext4_inode_disk *)raw)->mtime);
		bcache_put(buf);
	}
	w->now.event = 0;
	w->history[0] = w->now;
}

static void finish(struct world *w)
{
	logdisk_close(w->disk);
	free(w->history);
	free(busy);
	shell("rm -rf %s", w->dir);
}

static uint32_t nr_images(void)
{
	const char *s = getenv("TESSERA_CRASH_IMAGES");

	return s ? (uint32_t)strtoul(s, NULL, 10) : 30;
}

static void power_cuts(struct ktest *t)
{
	const uint32_t per_geometry = DIV_ROUND_UP(nr_images(), (uint32_t)ARRAY_SIZE(geometries));
	static struct world w;

	for (size_t g = 0; g < ARRAY_SIZE(geometries) && !t->nr_failed; g++) {
		start(&w, t, &geometries[g], 1000 + g);
		while (w.nr_ops < NR_OPS)
			one_op(&w);
		fs_unmount(&w.fs->base);
		w.history[w.nr_ops].event = logdisk_nr_events(w.disk);
		for (uint32_t i = 0; i < per_geometry && !t->nr_failed; i++) {
			const size_t nr = logdisk_nr_events(w.disk);
			size_t at = prng_below(&w.rng, nr + 1);

			if (i == 0)
				at = nr; /* no cut at all */
			else if (i % 2)
				at = logdisk_next_fua(w.disk, at);
			one_cut(&w, at, prng_next(&w.rng));
		}
		if (t->nr_failed)
			fprintf(stderr, "geometry %s, files in %s\n", geometries[g].name, w.dir);
		finish(&w);
	}
}

static const struct ktest_case crash_cases[] = {
	KTEST(power_cuts),
	{ 0 },
};
static const struct ktest_suite crash_suite = { .name = "fs.crash", .cases = crash_cases };
KTEST_SUITE(crash_suite);
