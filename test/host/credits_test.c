/* SPDX-License-Identifier: MIT */
/*
 * Credits of ext4's handles: what a step of a long change reserves is enough even when none of its
 * blocks is in the running transaction, because commits come between all of its steps.
 *
 * A handle that runs out of credits in the middle of a change aborts the file system, so that is
 * looked for.
 */
#include <abi/fcntl.h>
#include <pthread.h>
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

#include "../../fs/ext4/ext4_write.h"
#include "../../fs/ext4/journal_priv.h"
#include "image_kit.h"
#include "logdisk.h"

/* Groups as small as can be, so that what a step frees lies in different ones. */
static const char *const shapes[] = {
	"-t ext4 -b 1024 -g 256 -N 4096 -J size=1 -O ^flex_bg",
	"-t ext3 -b 1024 -g 256 -N 4096 -J size=1",
	"-t ext4 -b 1024 -J size=1",
	"-t ext4 -b 4096 -g 512 -J size=4",
};

struct fixture {
	struct ktest *t;
	char dir[64];
	struct logdisk *disk;
	struct fs *fs;
	struct fs_inode *root;
	uint32_t block_size;
	bool stop; /* atomic */
};

static struct fs_change *change(void)
{
	static struct fs_change ch = { .privileged = true, .now.sec = 1700000000 };

	return &ch;
}

static void mount_image(struct fixture *r, const char *path)
{
	const struct fs_mount_options opt = { .cache_bytes = 2u << 20,
					      .writable = true,
					      .manual_commit = true };
	struct fs_statfs st;

	r->disk = logdisk_open(path);
	MUST(!ext4_mount(logdisk_bd(r->disk), &opt, &r->fs));
	r->root = fs_inode_get(r->fs, r->fs->root_ino, FS_ANY_GEN);
	MUST(!IS_ERR(r->root));
	fs_statfs(r->fs, &st);
	r->block_size = st.bsize;
}

static void start(struct fixture *r, struct ktest *t, const char *options)
{
	char image[96];

	memset(r, 0, sizeof(*r));
	r->t = t;
	image_dir(r->dir, "credits");
	snprintf(image, sizeof(image), "%s/image", r->dir);
	MUST(!shell("PATH=$PATH:/usr/sbin:/sbin mke2fs -q -F %s %s 16M >/dev/null", options,
		    image));
	mount_image(r, image);
}

/* Nothing ran out, and e2fsck has nothing to say of what is saved as @name. */
static void finish(struct fixture *r, const char *name)
{
	char image[96];

	EXPECT_FALSE(r->t, ext4_aborted(container_of(r->fs, struct ext4_fs, base)));
	fs_inode_put(r->root);
	fs_unmount(r->fs);
	snprintf(image, sizeof(image), "%s/%s", r->dir, name);
	logdisk_save(r->disk, image);
	logdisk_close(r->disk);
	image_is_clean(r->t, r->dir, name, !strcmp(name, "image"));
}

static struct fs_inode *make(struct fs_inode *dir, const char *name, uint32_t mode)
{
	const struct fs_new what = { .mode = mode };
	struct fs_inode *in = fs_create(dir, name, strlen(name), &what, change());

	MUST(!IS_ERR(in));
	return in;
}

static const char *long_name(unsigned int i)
{
	static char name[256];

	snprintf(name, sizeof(name), "%0*u", 200, i);
	return name;
}

/* A directory of many blocks, which is empty again. */
static void make_and_empty(struct fixture *r, const char *name, unsigned int nr, bool sync)
{
	struct fs_inode *dir = make(r->root, name, S_IFDIR | 0755);

	for (unsigned int i = 0; i < nr; i++)
		fs_inode_put(make(dir, long_name(i), S_IFREG | 0644));
	if (sync)
		EXPECT_EQ(r->t, fs_sync(r->fs), 0);
	for (unsigned int i = 0; i < nr; i++)
		EXPECT_EQ(r->t, fs_unlink(dir, long_name(i), 200, change()), 0);
	fs_inode_put(dir);
}

/*
 * The blocks of a directory are metadata.  When the transaction that emptied it has committed, but
 * its blocks are not written in place yet, each of them takes a credit of the handle that frees it.
 */
static void a_directory_whose_blocks_are_logged_is_freed(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct fixture r;

		start(&r, t, shapes[i]);
		make_and_empty(&r, "dir", 50 * r.block_size / 256, true);
		EXPECT_EQ(t, fs_sync(r.fs), 0);
		EXPECT_EQ(t, fs_rmdir(r.root, "dir", 3, change()), 0);
		finish(&r, "image");
	}
}

/* --- commits between all the steps --- */

static void *commits(void *arg)
{
	struct fixture *r = arg;

	while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE))
		MUST(!fs_sync(r->fs) || fs_is_read_only(r->fs));
	return NULL;
}

static void write_at(struct fixture *r, struct fs_inode *in, uint64_t page)
{
	static uint8_t buf[4096] __attribute__((aligned(4096)));
	void *pages[1] = { buf };

	EXPECT_EQ(r->t, fs_write_pages(in, page << 12, 4096, pages, (page + 1) << 12, change()), 0);
}

/* Extents of one page, or pointers with gaps, of which a tree of several levels is needed. */
static struct fs_inode *make_gaps(struct fixture *r, const char *name, unsigned int nr)
{
	struct fs_inode *in = make(r->root, name, S_IFREG | 0644);

	for (unsigned int i = 0; i < nr && !r->t->nr_failed; i++)
		write_at(r, in, 2ull * i + (i % 7 == 0 ? 0 : 1000));
	return in;
}

static void set_size(struct fixture *r, struct fs_inode *in, uint64_t size)
{
	const struct fs_attr a = { .mask = FS_SET_SIZE, .size = size };

	EXPECT_EQ(r->t, fs_setattr(in, &a, change()), 0);
}

static void change_file(struct fixture *r, struct fs_inode *in, bool extents)
{
	const uint32_t punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	EXPECT_EQ(r->t, fs_fallocate(in, punch, 1001 << 12, 300 << 12, change()), 0);
	EXPECT_EQ(r->t, fs_fallocate(in, punch, (1501 << 12) + 1024, 2048, change()), 0);
	if (extents) {
		EXPECT_EQ(r->t, fs_fallocate(in, 0, 1300 << 12, 200 << 12, change()), 0);
		EXPECT_EQ(r->t,
			  fs_fallocate(in, FALLOC_FL_ZERO_RANGE, 1310 << 12, 100 << 12, change()),
			  0);
		for (unsigned int i = 0; i < 60; i++)
			write_at(r, in, 1320 + 3 * i); /* into what is unwritten */
		EXPECT_EQ(
			r->t,
			fs_fallocate(in, FALLOC_FL_COLLAPSE_RANGE, 1200 << 12, 100 << 12, change()),
			0);
	}
	set_size(r, in, 1100 << 12);
}

static void steps_bear_commits_between_them(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct fs_inode *in;
		pthread_t thread;
		struct fixture r;

		start(&r, t, shapes[i]);
		MUST(!pthread_create(&thread, NULL, commits, &r));
		in = make_gaps(&r, "gaps", 700);
		change_file(&r, in, i != 1);
		fs_inode_put(in);
		make_and_empty(&r, "dir", 200, false);
		EXPECT_EQ(t, fs_rmdir(r.root, "dir", 3, change()), 0);
		EXPECT_EQ(t, fs_unlink(r.root, "gaps", 4, change()), 0);
		__atomic_store_n(&r.stop, true, __ATOMIC_RELEASE);
		pthread_join(thread, NULL);
		finish(&r, "image");
	}
}

/* --- half of it is not done twice --- */

#define TAGS     2100u
#define CUT_FROM 4u
#define CUT_TO   900u

/* Page i holds i + 1; from CUT_TO on each page is two extents. */
static void write_tags(struct fixture *r, struct fs_inode *in)
{
	const uint32_t punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	static uint32_t buf[1024] __attribute__((aligned(4096)));
	void *pages[1] = { buf };

	for (uint64_t i = 0; i < TAGS && !r->t->nr_failed; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(buf); k++)
			buf[k] = (uint32_t)i + 1;
		EXPECT_EQ(r->t, fs_write_pages(in, i << 12, 4096, pages, (i + 1) << 12, change()),
			  0);
	}
	for (uint64_t at = CUT_TO << 12; at < TAGS << 12; at += 2048)
		EXPECT_EQ(r->t, fs_fallocate(in, punch, at + 1024, 1024, change()), 0);
}

/* All tags are where a collapse that was done once has them. */
static void expect_collapsed(struct ktest *t, struct fs_inode *in, size_t event)
{
	static uint32_t buf[1024] __attribute__((aligned(4096)));
	void *pages[1] = { buf };
	struct fs_stat st;

	fs_inode_stat(in, &st);
	EXPECT_EQ(t, st.size, (uint64_t)(TAGS - (CUT_TO - CUT_FROM)) << 12);
	for (uint64_t i = 0; i << 12 < st.size && !t->nr_failed; i++) {
		const uint32_t tag = (uint32_t)i + 1 + (i < CUT_FROM ? 0 : CUT_TO - CUT_FROM);

		EXPECT_EQ(t, fs_read_pages(in, i, pages, 1), 0);
		if (buf[0] != tag || buf[512] != tag)
			ktest_fail(t, __FILE__, __LINE__, "event %zu: page %u has tag %u, not %u",
				   event, (unsigned int)i, buf[0], tag);
	}
}

static int collapse(struct fs_inode *in, const struct fs_change *ch)
{
	return fs_fallocate(in, FALLOC_FL_COLLAPSE_RANGE, CUT_FROM << 12, (CUT_TO - CUT_FROM) << 12,
			    ch);
}

/* The power goes at @event; the request comes again, as its caller heard nothing. */
static void repeat_after_cut(struct fixture *r, size_t event, const struct fs_change *ch)
{
	struct fixture cut = { .t = r->t };
	struct fs_done done;
	struct fs_inode *in;
	char path[96];
	int found;

	strcpy(cut.dir, r->dir);
	snprintf(path, sizeof(path), "%s/cut", r->dir);
	logdisk_crash(r->disk, event, event, path);
	mount_image(&cut, path);
	in = fs_lookup(cut.root, "tags", 4);
	MUST(!IS_ERR(in));
	found = fs_change_find(cut.fs, ch->client, ch->seq, &done);
	if (found == -ENOENT)
		EXPECT_EQ(r->t, collapse(in, ch), 0);
	else
		EXPECT_EQ(r->t, found, 0);
	expect_collapsed(r->t, in, event);
	fs_inode_put(in);
	finish(&cut, "cut");
}

/*
 * Storage is killed in the middle of a collapse, started again, and gets the request again: what is
 * behind the part that goes must not move twice.
 */
static void a_collapse_is_done_once(struct ktest *t)
{
	const struct fs_change ch = {
		.client = 7, .seq = 3, .privileged = true, .now.sec = 1700000000
	};
	size_t last, at, nr = 0;
	struct fs_inode *in;
	struct fixture r;

	start(&r, t, shapes[0]);
	in = make(r.root, "tags", S_IFREG | 0644);
	write_tags(&r, in);
	EXPECT_EQ(t, fs_sync(r.fs), 0);
	at = logdisk_nr_events(r.disk);
	/* No room for more than the first credits: each step that needs new ones is a restart. */
	container_of(r.fs, struct ext4_fs, base)->journal->max_bufs = EXT4_CREDITS_NAMES + 3;
	EXPECT_EQ(t, collapse(in, &ch), 0);
	EXPECT_EQ(t, fs_sync(r.fs), 0);
	last = logdisk_nr_events(r.disk);
	expect_collapsed(t, in, last);
	fs_inode_put(in);
	/* The moments at which a transaction has just become durable. */
	do {
		at = logdisk_next_fua(r.disk, at);
		repeat_after_cut(&r, at, &ch);
		nr++;
	} while (at < last && !t->nr_failed);
	EXPECT_GE(t, nr, 2u);
	finish(&r, "image");
}

static const struct ktest_case credits_cases[] = {
	KTEST(a_collapse_is_done_once),
	KTEST(a_directory_whose_blocks_are_logged_is_freed),
	KTEST(steps_bear_commits_between_them),
	{ 0 },
};
static const struct ktest_suite credits_suite = { .name = "fs.credits", .cases = credits_cases };
KTEST_SUITE(credits_suite);
