/* SPDX-License-Identifier: MIT */
/*
 * Changes of a file system while its disk is damaged below it, or that was damaged before it was
 * mounted: every answer is fine, a crash is not.
 */
#include <drivers/blkdev.h>
#include <lib/err.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fswork.h"

static uint64_t state;

static uint32_t rnd(uint32_t n)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(state >> 33) % n;
}

/* Change some bytes of one sector among the first quarter of the disk, where metadata lies. */
static void damage(struct blkdev *disk)
{
	static uint8_t sector[512] __attribute__((aligned(512)));
	const uint64_t at =
		rnd(3) ? rnd((uint32_t)disk->nr_sectors / 32) : rnd((uint32_t)disk->nr_sectors);

	if (blk_read(disk, at, sector, sizeof(sector)))
		return;
	for (uint32_t i = rnd(8) + 1; i > 0; i--)
		sector[rnd(512)] = (uint8_t)(rnd(2) ? rnd(256) : 0);
	if (blk_write(disk, at, sector, sizeof(sector), 0))
		die("writing damage", -EIO);
}

static struct fs_inode *some_dir(void)
{
	struct fs_inode *root = fs_inode_get(fs, fs->root_ino, FS_ANY_GEN), *dir;
	char name[16];

	if (IS_ERR(root) || !rnd(3))
		return root;
	snprintf(name, sizeof(name), "f%u", rnd(30));
	dir = fs_lookup(root, name, strlen(name));
	if (IS_ERR(dir))
		return root;
	fs_inode_put(root);
	return dir;
}

static void change_file(struct fs_inode *in)
{
	static uint8_t buf[16384] __attribute__((aligned(4096)));
	void *pages[] = { buf, buf + 4096, buf + 8192, buf + 12288 };
	struct fs_attr a = { .mask = FS_SET_SIZE, .size = rnd(400000) };
	struct fs_xattr x = {
		.name = "user.x", .name_len = 6, .value = buf, .value_len = rnd(900) + 1
	};
	char target[FS_PATH_MAX];
	size_t len;
	int err;

	switch (rnd(7)) {
	case 0:
		err = fs_setattr(in, &a, change_now());
		break;
	case 1:
		err = fs_xattr_set(in, &x, 0, change_now());
		break;
	case 2:
		err = fs_fallocate(in, rnd(2) ? 0 : FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   rnd(300000), rnd(90000) + 1, change_now());
		break;
	case 3:
		err = fs_read_pages(in, rnd(60), pages, 4);
		break;
	case 4:
		err = fs_readlink(in, target, &len);
		break;
	default:
		err = fs_write_pages(in, rnd(80) * 4096ull, sizeof(buf), pages, rnd(400000),
				     change_now());
	}
	(void)err;
}

static void change_names(struct fs_inode *dir, const char *name, const char *other)
{
	struct fs_inode *to = some_dir();
	int err = 0;

	if (!IS_ERR(to)) {
		err = fs_rename(dir, name, strlen(name), to, other, strlen(other), rnd(5),
				change_now());
		fs_inode_put(to);
	}
	if (rnd(2))
		err = fs_unlink(dir, name, strlen(name), change_now());
	else
		err = fs_rmdir(dir, other, strlen(other), change_now());
	(void)err;
}

int work_damage(struct blkdev *disk, unsigned long seed, unsigned long nr)
{
	static const uint32_t types[] = { S_IFREG, S_IFDIR, S_IFLNK, S_IFREG };

	state = seed * 99991 + 7;
	for (unsigned long i = 0; i < nr; i++) {
		struct fs_inode *dir = some_dir(), *in;
		struct fs_new what = { .mode = types[rnd(4)] | 0700,
				       .target = "to",
				       .target_len = 2 };
		char name[16], other[16];

		if (disk && i > nr / 4 && !rnd(20))
			damage(disk);
		if (IS_ERR(dir))
			continue;
		snprintf(name, sizeof(name), "f%u", rnd(30));
		snprintf(other, sizeof(other), "f%u", rnd(30));
		in = rnd(2) ? fs_create(dir, name, strlen(name), &what, change_now())
			    : fs_lookup(dir, name, strlen(name));
		if (!IS_ERR(in)) {
			change_file(in);
			fs_inode_put(in);
		}
		if (!rnd(3))
			change_names(dir, name, other);
		fs_inode_put(dir);
	}
	printf("%s\n", fs_is_read_only(fs) ? "read-only" : "writable");
	return 0;
}
