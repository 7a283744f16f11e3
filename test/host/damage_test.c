/* SPDX-License-Identifier: MIT */
/*
 * A disk that becomes bad under a mount that may write: blocks that change by themselves, and
 * writes that fail. The mount turns read-only, nothing is written from then on, and every call
 * ends with an errno.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <drivers/blkdev.h>
#include <fs/ext4.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>

#include "logdisk.h"

#define NR_NAMES  40u
#define NR_STEPS  150u
#define NR_ROUNDS 120u
#define PAGES     4u

struct fixture {
	struct ktest *t;
	char dir[64], image[80];
	struct logdisk *disk;
	struct fs *fs;
	struct fs_inode *root;
	struct prng rnd;
	size_t nr_events; /* when the mount was seen to be read-only; SIZE_MAX: it is not */
	unsigned int nr_done, nr_refused;
};

static uint8_t data[PAGES * 4096] __attribute__((aligned(4096)));
static void *const pages[PAGES] = { data, data + 4096, data + 8192, data + 12288 };

static const struct fs_change change = { .privileged = true, .now = { .sec = 1700000000 } };

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static int mount_image(struct fixture *r)
{
	const struct fs_mount_options opt = { .cache_bytes = 128u << 10,
					      .writable = true,
					      .manual_commit = true };
	int err;

	r->disk = logdisk_open(r->image);
	err = ext4_mount(logdisk_bd(r->disk), &opt, &r->fs);
	if (err) {
		logdisk_close(r->disk);
		return err;
	}
	r->root = fs_inode_get(r->fs, r->fs->root_ino, FS_ANY_GEN);
	must(!IS_ERR(r->root), "no root");
	return 0;
}

static void unmount(struct fixture *r)
{
	fs_inode_put(r->root);
	fs_unmount(r->fs);
}

static void name_of(struct fixture *r, char *name)
{
	snprintf(name, 32, "a name that is long enough %u",
		 (unsigned int)prng_below(&r->rnd, NR_NAMES));
}

/* One change. A result, which may be an error. */
static int step(struct fixture *r)
{
	const struct fs_new what = { .mode = prng_below(&r->rnd, 4) ? S_IFREG | 0644
								    : S_IFDIR | 0755 };
	struct fs_inode *in;
	char name[32];
	int err;

	name_of(r, name);
	switch (prng_below(&r->rnd, 4)) {
	case 0:
		return fs_unlink(r->root, name, strlen(name), &change);
	case 1:
		return fs_rmdir(r->root, name, strlen(name), &change);
	case 2:
		in = fs_create(r->root, name, strlen(name), &what, &change);
		break;
	default:
		in = fs_lookup(r->root, name, strlen(name));
		break;
	}
	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	err = fs_write_pages(in, prng_below(&r->rnd, 100) * 4096ull, sizeof(data), pages,
			     sizeof(data) + 409600, &change);
	if (!err && !prng_below(&r->rnd, 4))
		err = fs_fsync(in, false);
	fs_inode_put(in);
	return err;
}

static void fill(struct fixture *r)
{
	for (uint32_t i = 0; i < 4 * NR_NAMES; i++)
		(void)!step(r);
	must(!fs_sync(r->fs), "sync");
}

/* Some bytes of the first megabytes, where most metadata is, are others. */
static void damage(struct fixture *r)
{
	uint8_t *bytes = logdisk_bytes(r->disk);

	for (uint32_t i = 0; i < 400; i++)
		bytes[4096 + prng_below(&r->rnd, 3u << 20)] ^=
			(uint8_t)(1 + prng_below(&r->rnd, 255));
}

/* A call has ended with @err. */
static void look(struct fixture *r, int err)
{
	const bool read_only = fs_is_read_only(r->fs);

	r->nr_done += !err;
	EXPECT_TRUE(r->t, err <= 0 && err > -4096);
	if (r->nr_events == SIZE_MAX && read_only)
		r->nr_events = logdisk_nr_events(r->disk);
	else if (read_only)
		r->nr_refused += err == -EROFS;
	if (r->nr_events == SIZE_MAX)
		return;
	EXPECT_TRUE(r->t, read_only); /* for good */
	EXPECT_EQ(r->t, logdisk_nr_events(r->disk), r->nr_events);
}

static void make_image(struct fixture *r, struct ktest *t, const char *options)
{
	char cmd[256];

	*r = (struct fixture){ .t = t, .nr_events = SIZE_MAX };
	prng_seed(&r->rnd, 1);
	strcpy(r->dir, "/tmp/damage.XXXXXX");
	must(mkdtemp(r->dir) != NULL, "mkdtemp");
	snprintf(r->image, sizeof(r->image), "%s/image", r->dir);
	snprintf(cmd, sizeof(cmd), "PATH=$PATH:/usr/sbin:/sbin mke2fs -q -F %s %s 16M >/dev/null",
		 options, r->image);
	must(!system(cmd), "mke2fs");
	must(!mount_image(r), "mount");
	fill(r);
	unmount(r);
	logdisk_save(r->disk, r->image);
	logdisk_close(r->disk);
}

static void drop_image(struct fixture *r)
{
	unlink(r->image);
	rmdir(r->dir);
}

/* @fails: writes do from some moment on; else blocks are damaged. True: it turned read-only. */
static bool one_round(struct fixture *r, uint64_t seed, bool fails)
{
	prng_seed(&r->rnd, seed);
	r->nr_events = SIZE_MAX;
	must(!mount_image(r), "mount again");
	if (fails)
		logdisk_fail_at(r->disk, logdisk_nr_events(r->disk) + prng_below(&r->rnd, 60));
	else
		damage(r);
	for (uint32_t i = 0; i < NR_STEPS; i++) {
		look(r, step(r));
		if (!prng_below(&r->rnd, 10))
			look(r, fs_sync(r->fs));
	}
	/* Writes work again: nobody may notice. */
	logdisk_fail_at(r->disk, SIZE_MAX);
	look(r, step(r));
	unmount(r);
	if (r->nr_events != SIZE_MAX)
		EXPECT_EQ(r->t, logdisk_nr_events(r->disk), r->nr_events);
	logdisk_close(r->disk);
	return r->nr_events != SIZE_MAX;
}

static void rounds(struct ktest *t, const char *options, bool fails, unsigned int at_least)
{
	unsigned int nr = 0;
	struct fixture r;

	make_image(&r, t, options);
	for (uint64_t seed = 1; seed <= NR_ROUNDS && !t->nr_failed; seed++)
		nr += one_round(&r, seed, fails);
	EXPECT_GE(t, nr, at_least);
	EXPECT_GE(t, r.nr_refused, at_least);
	EXPECT_GE(t, r.nr_done, 100u);
	drop_image(&r);
}

static void blocks_that_change_by_themselves(struct ktest *t)
{
	rounds(t, "-t ext4 -b 1024 -J size=1", false, 30);
	rounds(t, "-t ext4 -b 4096 -J size=4", false, 30);
}

static void writes_that_fail(struct ktest *t)
{
	rounds(t, "-t ext4 -J size=1", true, NR_ROUNDS / 2);
	rounds(t, "-t ext3 -J size=1", true, NR_ROUNDS / 2);
}

static const struct ktest_case cases[] = {
	KTEST(blocks_that_change_by_themselves),
	KTEST(writes_that_fail),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "fs.damage", .cases = cases };
KTEST_SUITE(suite);
