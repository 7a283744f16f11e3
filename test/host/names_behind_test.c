/* SPDX-License-Identifier: MIT */
/*
 * Names that are to come: their places in a directory, room that is kept for them on a disk that
 * others fill, and inodes that are lent.
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

#include "../../fs/ext4/ext4_write.h"
#include "image_kit.h"
#include "logdisk.h"

#define LONG_NAME 200 /* so that few of them fill a block */

struct fixture {
	struct ktest *t;
	char dir[64];
	struct logdisk *disk;
	struct fs *fs;
	struct fs_inode *root;
};

static const struct fs_change as_user = { .uid = 1000, .now.sec = 1700000000 };
static const struct fs_change as_root = { .privileged = true, .now.sec = 1700000000 };
static const struct fs_change with_room = { .uid = 1000, .now.sec = 1700000000, .room = true };

static void start(struct fixture *r, struct ktest *t, const char *options)
{
	const struct fs_mount_options opt = { .cache_bytes = 2u << 20, .writable = true };
	char image[96];

	memset(r, 0, sizeof(*r));
	r->t = t;
	image_dir(r->dir, "behind");
	snprintf(image, sizeof(image), "%s/image", r->dir);
	MUST(!shell("PATH=$PATH:/usr/sbin:/sbin mke2fs -q -F -N 2048 %s %s 16M >/dev/null", options,
		    image));
	r->disk = logdisk_open(image);
	MUST(!ext4_mount(logdisk_bd(r->disk), &opt, &r->fs));
	r->root = fs_inode_get(r->fs, r->fs->root_ino, FS_ANY_GEN);
	MUST(!IS_ERR(r->root));
}

static void finish(struct fixture *r)
{
	char image[96];

	EXPECT_FALSE(r->t, ext4_aborted(container_of(r->fs, struct ext4_fs, base)));
	fs_inode_put(r->root);
	fs_unmount(r->fs);
	snprintf(image, sizeof(image), "%s/image", r->dir);
	logdisk_save(r->disk, image);
	logdisk_close(r->disk);
	image_is_clean(r->t, r->dir, "image", true);
}

static const char *nth_name(unsigned int i)
{
	static char name[LONG_NAME + 1];

	snprintf(name, sizeof(name), "%0*u", LONG_NAME, i);
	return name;
}

static int make(struct fixture *r, const char *name, const struct fs_lent *lent,
		const struct fs_change *ch, struct fs_stat *out)
{
	const struct fs_new what = { .mode = S_IFREG | 0644,
				     .ino = lent ? lent->ino : 0,
				     .gen = lent ? lent->gen : 0 };
	struct fs_inode *in = fs_create(r->root, name, strlen(name), &what, ch);

	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	if (out)
		fs_inode_stat(in, out);
	fs_inode_put(in);
	return 0;
}

/* Write @len bytes at page @i; what does not fit leaves nothing behind. */
static int write_at(struct fs_inode *in, uint64_t i, uint64_t len)
{
	static uint8_t page[PAGE_SIZE] __aligned(PAGE_SIZE);
	const struct fs_attr cut = { .mask = FS_SET_SIZE, .size = i * PAGE_SIZE };
	void *const pages[1] = { page };
	const int err =
		fs_write_pages(in, i * PAGE_SIZE, len, pages, i * PAGE_SIZE + len, &as_root);

	if (err)
		MUST(!fs_setattr(in, &cut, &as_root) && !fs_sync(in->fs));
	return err;
}

/* No free block is left, for root neither. */
static void fill(struct fixture *r)
{
	const struct fs_new what = { .mode = S_IFREG | 0644 };
	struct fs_inode *in = fs_create(r->root, "big", 3, &what, &as_root);
	uint64_t i = 0;

	MUST(!IS_ERR(in));
	while (!write_at(in, i, PAGE_SIZE))
		i++;
	for (uint64_t len = 3072; len && write_at(in, i, len); len -= 1024)
		;
	EXPECT_EQ(r->t, write_at(in, i + 1, 1024), -ENOSPC);
	fs_inode_put(in);
}

#define NAMES 60u

/* The directory may have to change for them, and others fill the disk before they come. */
static void names_fit(struct ktest *t, const char *options)
{
	unsigned int nr = 0;
	struct fixture r;
	int err = 0;

	start(&r, t, options);
	EXPECT_EQ(t, fs_rooms(r.fs, NAMES), NAMES);
	fill(&r);
	for (; nr < NAMES && !err; nr++)
		err = make(&r, nth_name(nr), NULL, &with_room, NULL);
	EXPECT_EQ(t, err, 0);
	EXPECT_EQ(t, container_of(r.fs, struct ext4_fs, base)->rooms, 0);
	/* One that none was kept for finds none, sooner or later. */
	for (nr = 0; nr < 64 && !err; nr++)
		err = make(&r, nth_name(1000 + nr), NULL, &as_root, NULL);
	if (t->nr_failed)
		printf("%s\n", options);
	finish(&r);
}

static void names_fit_whatever_the_directory(struct ktest *t)
{
	static const char *const shapes[] = {
		"-t ext4 -b 1024 -J size=1",
		"-t ext4 -b 1024 -J size=1 -O ^dir_index",
		"-t ext3 -b 1024 -J size=1",
		"-t ext4 -b 4096 -J size=4",
		"-t ext4 -b 1024 -I 256 -O inline_data -J size=1",
	};

	for (size_t i = 0; i < ARRAY_SIZE(shapes) && !t->nr_failed; i++)
		names_fit(t, shapes[i]);
}

/* More than there is, and what was kept before. */
static void no_more_rooms_than_there_are(struct ktest *t)
{
	struct fixture r;
	struct fs_statfs before, st;
	uint32_t most;

	start(&r, t, "-t ext4 -b 1024 -J size=1 -m 10");
	fs_statfs(r.fs, &before);
	most = fs_rooms(r.fs, 1u << 30);
	EXPECT_EQ(t, most, before.bavail / EXT4_ROOM_BLOCKS);
	fs_statfs(r.fs, &st);
	EXPECT_EQ(t, st.bavail, before.bavail % EXT4_ROOM_BLOCKS);
	EXPECT_EQ(t, fs_rooms(r.fs, 1u << 30), most);
	EXPECT_EQ(t, fs_rooms(r.fs, 5), 5);
	fs_statfs(r.fs, &st);
	EXPECT_EQ(t, before.bavail - st.bavail, 5 * EXT4_ROOM_BLOCKS);
	fill(&r);
	/* The rooms that are kept stay, and no more can be. */
	EXPECT_EQ(t, fs_rooms(r.fs, 9), 5);
	EXPECT_EQ(t, make(&r, "a", NULL, &with_room, NULL), 0);
	EXPECT_EQ(t, container_of(r.fs, struct ext4_fs, base)->rooms, 4);
	/* A change that fails uses none up, one without the mark neither. */
	EXPECT_EQ(t, make(&r, "a", NULL, &with_room, NULL), -EEXIST);
	EXPECT_EQ(t, make(&r, "b", NULL, &as_user, NULL), 0);
	EXPECT_EQ(t, container_of(r.fs, struct ext4_fs, base)->rooms, 4);
	EXPECT_EQ(t, fs_rename(r.root, "b", 1, r.root, "c", 1, 0, &with_room), 0);
	EXPECT_EQ(t, container_of(r.fs, struct ext4_fs, base)->rooms, 3);
	EXPECT_EQ(t, fs_rooms(r.fs, 0), 0);
	finish(&r);
}

/* Lent inodes come to the files that ask for them, and to no others. */
static void lent_inodes_are_nobodys(struct ktest *t)
{
	struct fs_lent lent[300], again[300];
	char name[16];
	struct fs_stat st;
	struct fixture r;
	int nr;

	start(&r, t, "-t ext4 -b 1024 -J size=1");
	nr = fs_lend(r.root, 300, lent);
	EXPECT_EQ(t, nr, 256);
	EXPECT_EQ(t, fs_lend(r.root, 300, again), 0);
	for (unsigned int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		ASSERT_EQ(t, make(&r, name, NULL, &as_user, &st), 0);
		for (int k = 0; k < nr; k++)
			ASSERT_NE(t, st.ino, lent[k].ino);
	}
	ASSERT_EQ(t, make(&r, "mine", &lent[7], &as_user, &st), 0);
	EXPECT_EQ(t, st.ino, lent[7].ino);
	EXPECT_EQ(t, st.gen, lent[7].gen);
	EXPECT_EQ(t, make(&r, "thine", &lent[7], &as_user, NULL), -EEXIST);
	EXPECT_EQ(t, make(&r, "none", &(struct fs_lent){ .ino = 1u << 20 }, &as_user, NULL),
		  -EINVAL);
	EXPECT_EQ(t, make(&r, "none", &(struct fs_lent){ .ino = 2 }, &as_user, NULL), -EINVAL);
	/* It is lent no more, so there is room for one more. */
	EXPECT_EQ(t, fs_lend(r.root, 300, again), 1);
	EXPECT_NE(t, again[0].ino, lent[7].ino);
	fs_unlend_all(r.fs);
	/* One that nobody knows to be lent any more is as good, if it is free. */
	ASSERT_EQ(t, make(&r, "late", &lent[9], &as_user, &st), 0);
	EXPECT_EQ(t, st.ino, lent[9].ino);
	ASSERT_EQ(t, make(&r, "next", NULL, &as_user, &st), 0);
	EXPECT_EQ(t, st.ino, lent[0].ino);
	finish(&r);
}

/* All inodes but those that are lent are used up. */
static void lent_inodes_are_the_last(struct ktest *t)
{
	struct fs_lent lent[4];
	char name[16];
	struct fixture r;
	int err = 0;

	start(&r, t, "-t ext4 -b 1024 -J size=1 -I 128");
	ASSERT_EQ(t, fs_lend(r.root, 4, lent), 4);
	for (unsigned int i = 0; i < 5000 && !err; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		err = make(&r, name, NULL, &as_user, NULL);
	}
	EXPECT_EQ(t, err, -ENOSPC);
	for (unsigned int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "l%u", i);
		EXPECT_EQ(t, make(&r, name, &lent[i], &as_user, NULL), 0);
	}
	EXPECT_EQ(t, fs_lend(r.root, 4, lent), 0);
	finish(&r);
}

#define PLACES 400u

/* Change name @nr, or move it to @other, by places that may have got out of date. */
static void change_by_place(struct fixture *r, bool *there, unsigned int nr, unsigned int other)
{
	const struct fs_new what = { .mode = S_IFREG | 0644 };
	struct fs_place place, to_place;
	struct fs_change ch = { .privileged = true, .place = &place, .to_place = &to_place };
	char name[32], to[32];
	struct fs_inode *in;

	snprintf(name, sizeof(name), "name%u", nr);
	snprintf(to, sizeof(to), "name%u", other);
	in = fs_lookup_place(r->root, name, strlen(name), &place);
	ASSERT_EQ(r->t, !IS_ERR(in), there[nr]);
	if (!IS_ERR(in))
		fs_inode_put(in);
	in = fs_lookup_place(r->root, to, strlen(to), &to_place);
	ASSERT_EQ(r->t, !IS_ERR(in), there[other]);
	if (!IS_ERR(in))
		fs_inode_put(in);
	if (nr % 3 == 0 && other % 5 == 0) { /* the places are out of date */
		const unsigned int k = PLACES + nr;
		char late[32];

		snprintf(late, sizeof(late), "late%u", nr);
		if (there[k])
			ASSERT_EQ(r->t, fs_unlink(r->root, late, strlen(late), &as_root), 0);
		else
			ASSERT_EQ(r->t, make(r, late, NULL, &as_root, NULL), 0);
		there[k] = !there[k];
	}
	if (!there[nr]) {
		in = fs_create(r->root, name, strlen(name), &what, &ch);
		ASSERT_FALSE(r->t, IS_ERR(in));
		fs_inode_put(in);
		there[nr] = true;
	} else if (other % 2 && nr != other) {
		ASSERT_EQ(r->t,
			  fs_rename(r->root, name, strlen(name), r->root, to, strlen(to), 0, &ch),
			  0);
		there[nr] = false;
		there[other] = true;
	} else {
		ASSERT_EQ(r->t, fs_unlink(r->root, name, strlen(name), &ch), 0);
		there[nr] = false;
	}
}

static void places_are_as_good_as_searches(struct ktest *t)
{
	static const char *const shapes[] = {
		"-t ext4 -b 1024 -J size=1",
		"-t ext4 -b 1024 -J size=1 -O ^dir_index",
		"-t ext4 -b 4096 -J size=4",
		"-t ext4 -b 1024 -I 256 -O inline_data -J size=1",
	};
	static bool there[2 * PLACES];
	struct fixture r;
	struct prng rng;

	for (size_t i = 0; i < ARRAY_SIZE(shapes) && !t->nr_failed; i++) {
		memset(there, 0, sizeof(there));
		prng_seed(&rng, 7);
		start(&r, t, shapes[i]);
		for (unsigned int k = 0; k < 3000 && !t->nr_failed; k++) {
			const uint64_t x = prng_next(&rng);

			change_by_place(&r, there, x % PLACES, x / PLACES % PLACES);
		}
		finish(&r);
	}
}

/* The ctime of @in after a change at @now. */
static struct fs_time changed_at(struct fs_inode *in, struct fs_time now)
{
	const struct fs_attr mode = { .mask = FS_SET_MODE, .mode = 0600 };
	const struct fs_change ch = { .privileged = true, .now = now };
	struct fs_stat st;

	MUST(!fs_setattr(in, &mode, &ch));
	fs_inode_stat(in, &st);
	return st.ctime;
}

/* Clocks of components differ a little; one that is far off counts as wrong. */
static void a_change_is_not_before_the_one_it_follows(struct ktest *t)
{
	static const struct {
		struct fs_time now, want;
	} steps[] = {
		{ { 1700000020, 999999999 }, { 1700000020, 999999999 } },
		{ { 1700000020, 999999999 }, { 1700000020, 999999999 } },
		{ { 1700000020, 999999998 }, { 1700000021, 0 } },
		{ { 1700000011, 0 }, { 1700000021, 1 } },
		{ { 1700000021, 7 }, { 1700000021, 7 } },
		{ { 1700000010, 0 }, { 1700000010, 0 } },
	};
	const struct fs_new what = { .mode = S_IFREG | 0644 };
	struct fs_inode *in;
	struct fixture r;

	start(&r, t, "-I 256");
	in = fs_create(r.root, "f", 1, &what, &as_root);
	MUST(!IS_ERR(in));
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		const struct fs_time got = changed_at(in, steps[i].now);

		EXPECT_EQ(t, got.sec, steps[i].want.sec);
		EXPECT_EQ(t, got.nsec, steps[i].want.nsec);
	}
	fs_inode_put(in);
	finish(&r);
}

static const struct ktest_case behind_cases[] = {
	KTEST(places_are_as_good_as_searches),
	KTEST(names_fit_whatever_the_directory),
	KTEST(no_more_rooms_than_there_are),
	KTEST(lent_inodes_are_nobodys),
	KTEST(lent_inodes_are_the_last),
	KTEST(a_change_is_not_before_the_one_it_follows),
	{ 0 },
};
static const struct ktest_suite behind_suite = { .name = "fs.names_behind", .cases = behind_cases };
KTEST_SUITE(behind_suite);
