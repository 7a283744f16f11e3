/* SPDX-License-Identifier: MIT */
/*
 * A storage component that is short of memory: whichever allocation of a change is the first that
 * fails, the change is done, or it answers ENOMEM and nothing is different; the mount can be
 * written afterwards, and e2fsck has nothing to say.
 */
#include <pthread.h>
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
#include <lib/string.h>
#include <shim/shim.h>

#include "image_kit.h"
#include "logdisk.h"

#define NR_PAGES  4u
#define NR_PIECES 300u /* extents of a file in pieces */

static const char *const shapes[] = {
	"-t ext4 -b 1024 -J size=1",
	"-t ext3 -b 1024 -J size=1",
	"-t ext4 -b 4096 -O inline_data -I 256 -J size=4",
	"-t ext4 -b 1024 -O ^has_journal",
	"-t ext4 -b 1024 -g 256 -G 1 -O ^resize_inode -J size=1",
};

struct fixture {
	struct ktest *t;
	char dir[64];
	struct logdisk *disk;
	struct fs *fs;
	struct fs_inode *root;
	unsigned int nr; /* of the walk: names differ by it */
};

static uint8_t data[NR_PAGES * 4096] __attribute__((aligned(4096)));
static void *const pages[NR_PAGES] = { data, data + 4096, data + 8192, data + 12288 };

static const struct fs_change *change(void)
{
	static struct fs_change ch = { .privileged = true, .client = 7 };

	ch.now.sec = 1700000000 + (int64_t)ch.seq;
	ch.seq++;
	return &ch;
}

static void mount_image(struct fixture *r)
{
	const struct fs_mount_options opt = { .cache_bytes = 256u << 10,
					      .writable = true,
					      .manual_commit = true };
	char image[80];

	snprintf(image, sizeof(image), "%s/image", r->dir);
	r->disk = logdisk_open(image);
	MUST(!ext4_mount(logdisk_bd(r->disk), &opt, &r->fs));
	r->root = fs_inode_get(r->fs, r->fs->root_ino, FS_ANY_GEN);
	MUST(!IS_ERR(r->root));
	MUST(!fs_is_read_only(r->fs));
}

static void start(struct fixture *r, struct ktest *t, const char *options)
{
	memset(r, 0, sizeof(*r));
	r->t = t;
	image_dir(r->dir, "shortage");
	MUST(!shell("PATH=$PATH:/usr/sbin:/sbin mke2fs -q -F %s %s/image 24M >/dev/null", options,
		    r->dir));
	mount_image(r);
	memset(data, 'x', sizeof(data));
}

static void check_image(struct fixture *r)
{
	const int status = shell("PATH=$PATH:/usr/sbin:/sbin e2fsck -fn %s/image >%s/log 2>&1",
				 r->dir, r->dir);

	EXPECT_EQ(r->t, status, 0);
	if (status)
		shell("cat %s/log >&2", r->dir);
	EXPECT_EQ(r->t, shell("grep -qE 'Clear|Free|orphan|IGNORED' %s/log", r->dir), 1);
}

static void unmount(struct fixture *r)
{
	char image[80];

	EXPECT_FALSE(r->t, fs_is_read_only(r->fs));
	fs_inode_put(r->root);
	fs_unmount(r->fs);
	snprintf(image, sizeof(image), "%s/image", r->dir);
	logdisk_save(r->disk, image);
	logdisk_close(r->disk);
}

static void finish(struct fixture *r)
{
	unmount(r);
	check_image(r);
	if (!r->t->nr_failed)
		shell("rm -rf %s", r->dir);
	else
		fprintf(stderr, "files in %s\n", r->dir);
}

/* --- what there is: a sum over all that a program can see --- */

struct sum {
	struct fixture *r;
	uint32_t crc;
	uint32_t inos[256];
	unsigned int nr;
};

static int note_name(void *arg, const struct fs_dirent *de)
{
	struct sum *s = arg;

	/* The order of names is not theirs to keep. */
	s->crc ^= crc32c(de->ino, de->name, de->name_len);
	MUST(s->nr < ARRAY_SIZE(s->inos));
	s->inos[s->nr++] = de->ino;
	return 0;
}

static void sum_dir(struct fixture *r, struct fs_inode *dir, uint32_t *crc);

static void sum_file(struct fixture *r, struct fs_inode *in, uint32_t *crc)
{
	static uint8_t page[4096] __attribute__((aligned(4096)));
	void *one[1] = { page };
	struct fs_stat st;
	int64_t len;

	fs_inode_stat(in, &st);
	st.version = 0;
	*crc = crc32c(*crc, &st, sizeof(st));
	for (uint64_t i = 0; (st.mode & S_IFMT) == S_IFREG && i < DIV_ROUND_UP(st.size, 4096u);
	     i++) {
		EXPECT_EQ(r->t, fs_read_pages(in, i, one, 1), 0);
		*crc = crc32c(*crc, page, sizeof(page));
	}
	len = fs_xattr_list(in, (char *)page, sizeof(page));
	if (len > 0)
		*crc = crc32c(*crc, page, (size_t)len);
}

static void sum_dir(struct fixture *r, struct fs_inode *dir, uint32_t *crc)
{
	struct sum s = { .r = r };
	uint64_t cookie = 0;

	EXPECT_EQ(r->t, fs_readdir(dir, &cookie, note_name, &s), 0);
	*crc ^= s.crc;
	for (unsigned int i = 0; i < s.nr; i++) {
		struct fs_inode *in = fs_inode_get(r->fs, s.inos[i], FS_ANY_GEN);
		uint32_t one = 0;

		MUST(!IS_ERR(in));
		sum_file(r, in, &one);
		*crc ^= one;
		fs_inode_put(in);
	}
}

static uint32_t sum_all(struct fixture *r)
{
	struct fs_statfs st;
	uint32_t crc = 0;

	sum_dir(r, r->root, &crc);
	fs_statfs(r->fs, &st);
	crc = crc32c(crc, &st.bfree, sizeof(st.bfree));
	return crc32c(crc, &st.ffree, sizeof(st.ffree));
}

/* --- the changes --- */

static struct fs_inode *open_name(struct fixture *r, const char *name)
{
	return fs_lookup(r->root, name, strlen(name));
}

static int make(struct fixture *r, const char *name, uint32_t mode)
{
	static char target[200];
	const struct fs_new what = { .mode = mode, .target = target, .target_len = sizeof(target) };
	struct fs_inode *in;

	memset(target, 't', sizeof(target));
	in = fs_create(r->root, name, strlen(name), &what, change());
	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	fs_inode_put(in);
	return 0;
}

static int write_at(struct fixture *r, const char *name, uint64_t off, uint64_t len)
{
	struct fs_inode *in = open_name(r, name);
	int err;

	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	err = fs_write_pages(in, off, len, pages, off + len, change());
	fs_inode_put(in);
	return err;
}

/* Every other page, so that each is an extent. */
static void make_pieces(struct fixture *r, const char *name)
{
	MUST(!make(r, name, S_IFREG | 0644));
	for (uint64_t i = 0; i < NR_PIECES; i++)
		MUST(!write_at(r, name, i * 8192, 4096));
}

static void make_file(struct fixture *r)
{
	MUST(!make(r, "file", S_IFREG | 0644));
	MUST(!write_at(r, "file", 0, 3 * 4096 + 100));
}

static void make_two(struct fixture *r)
{
	make_file(r);
	MUST(!make(r, "other", S_IFREG | 0644));
	MUST(!write_at(r, "other", 0, 4096));
}

static void make_big(struct fixture *r)
{
	make_pieces(r, "file");
}

/* A directory that the next name gives an index, or another block. */
static void make_names(struct fixture *r)
{
	char name[64];

	make_file(r);
	for (unsigned int i = 0; i < 40 + r->nr % 8; i++) {
		snprintf(name, sizeof(name), "%02u a name that fills its block soon", i);
		MUST(!make(r, name, S_IFREG | 0644));
	}
}

static void make_attribute(struct fixture *r, const char *name, size_t len)
{
	const struct fs_xattr x = {
		.name = name, .name_len = strlen(name), .value = data, .value_len = len
	};
	struct fs_inode *in = open_name(r, "file");

	MUST(!IS_ERR(in));
	MUST(!fs_xattr_set(in, &x, 0, change()));
	fs_inode_put(in);
}

static void make_attributes(struct fixture *r)
{
	make_file(r);
	make_attribute(r, "user.first", 300);
}

static int create_file(struct fixture *r)
{
	return make(r, "new", S_IFREG | 0644);
}

static int create_dir(struct fixture *r)
{
	return make(r, "new", S_IFDIR | 0755);
}

static int create_link(struct fixture *r)
{
	return make(r, "new", S_IFLNK | 0777);
}

static int write_new(struct fixture *r)
{
	return write_at(r, "file", 65536, sizeof(data));
}

static int write_over(struct fixture *r)
{
	return write_at(r, "file", 0, 8192);
}

static int resize(struct fixture *r, uint64_t size)
{
	const struct fs_attr attr = {
		.mask = FS_SET_SIZE | FS_SET_MODE | FS_SET_UID, .size = size, .mode = 0640, .uid = 5
	};
	struct fs_inode *in = open_name(r, "file");
	int err;

	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	err = fs_setattr(in, &attr, change());
	fs_inode_put(in);
	return err;
}

static int shrink(struct fixture *r)
{
	return resize(r, 4096 + 7);
}

static int empty(struct fixture *r)
{
	return resize(r, 0);
}

static int grow(struct fixture *r)
{
	return resize(r, 1 << 20);
}

static int unlink_file(struct fixture *r)
{
	return fs_unlink(r->root, "file", 4, change());
}

static int rename_over(struct fixture *r)
{
	return fs_rename(r->root, "file", 4, r->root, "other", 5, 0, change());
}

static int rename_new(struct fixture *r)
{
	return fs_rename(r->root, "file", 4, r->root, "new", 3, 0, change());
}

static int rename_whiteout(struct fixture *r)
{
	return fs_rename(r->root, "file", 4, r->root, "new", 3, RENAME_WHITEOUT, change());
}

static int exchange(struct fixture *r)
{
	return fs_rename(r->root, "file", 4, r->root, "other", 5, RENAME_EXCHANGE, change());
}

static int link_file(struct fixture *r)
{
	struct fs_inode *in = open_name(r, "file");
	int err;

	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	err = fs_link(in, r->root, "new", 3, change());
	fs_inode_put(in);
	return err;
}

static int set_attribute(struct fixture *r)
{
	const struct fs_xattr x = {
		.name = "user.second", .name_len = 11, .value = data, .value_len = 250
	};
	struct fs_inode *in = open_name(r, "file");
	int err;

	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	err = fs_xattr_set(in, &x, 0, change());
	fs_inode_put(in);
	return err;
}

static int sync_all(struct fixture *r)
{
	return fs_sync(r->fs);
}

static const struct step {
	const char *name;
	void (*prepare)(struct fixture *r);
	int (*change)(struct fixture *r);
	bool parts; /* an error may leave a part done, as <fs/fs.h> says */
} steps[] = {
	{ "create", make_file, create_file, false },
	{ "create among many", make_names, create_file, false },
	{ "mkdir", make_file, create_dir, false },
	{ "symlink", make_file, create_link, false },
	{ "write", make_file, write_new, true },
	{ "write over", make_file, write_over, true },
	{ "truncate", make_file, shrink, false },
	{ "truncate many pieces", make_big, shrink, false },
	{ "truncate to nothing", make_file, empty, false },
	{ "grow", make_file, grow, false },
	{ "unlink", make_file, unlink_file, false },
	{ "unlink many pieces", make_big, unlink_file, false },
	{ "rename over", make_two, rename_over, false },
	{ "rename", make_file, rename_new, false },
	{ "rename among many", make_names, rename_new, false },
	{ "rename with whiteout", make_names, rename_whiteout, false },
	{ "exchange", make_two, exchange, false },
	{ "link", make_names, link_file, false },
	{ "attribute", make_attributes, set_attribute, false },
	{ "commit", make_two, sync_all, false },
};

static int remove_one(void *arg, const struct fs_dirent *de)
{
	char *name = arg;

	if (de->name[0] == '.' || !strncmp(de->name, "lost+found", 10))
		return 0;
	memcpy(name, de->name, de->name_len);
	name[de->name_len] = 0;
	return 1;
}

static void remove_all(struct fixture *r)
{
	for (;;) {
		char name[256] = "";
		uint64_t cookie = 0;
		int err;

		MUST(!fs_readdir(r->root, &cookie, remove_one, name));
		if (!name[0])
			return;
		err = fs_unlink(r->root, name, strlen(name), change());
		if (err == -EISDIR)
			err = fs_rmdir(r->root, name, strlen(name), change());
		MUST(!err);
	}
}

/* Allocation number @n of @s, and all after it, fail.  The result. */
static int try_step(struct fixture *r, const struct step *s, long n)
{
	uint32_t before;
	int err;

	s->prepare(r);
	before = sum_all(r);
	shim_fail_alloc_after(n);
	err = s->change(r);
	shim_fail_alloc_after(-1);
	if (err && err != -ENOMEM)
		ktest_fail(r->t, __FILE__, __LINE__, "%s, allocation %ld: %d", s->name, n, err);
	if (err && !s->parts && sum_all(r) != before)
		ktest_fail(r->t, __FILE__, __LINE__, "%s, allocation %ld: ENOMEM, but a change",
			   s->name, n);
	if (fs_is_read_only(r->fs))
		ktest_fail(r->t, __FILE__, __LINE__, "%s, allocation %ld: read-only", s->name, n);
	else
		EXPECT_EQ(r->t, s->change(r) == -EROFS, 0);
	return err;
}

/* Every shape, every change, every allocation in it. */
static void no_shortage_makes_it_read_only(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct fixture r;

		start(&r, t, shapes[i]);
		for (size_t k = 0; k < ARRAY_SIZE(steps) && !t->nr_failed; k++) {
			const bool big = steps[k].prepare == make_big;
			unsigned int nr_done = 0;

			for (long n = 0; n < 400 && nr_done < 12 && !t->nr_failed;
			     n += big ? 7 : 1) {
				r.nr++;
				nr_done = try_step(&r, &steps[k], n) ? 0 : nr_done + 1;
				if (!t->nr_failed)
					remove_all(&r);
			}
			EXPECT_TRUE(t, nr_done > 0);
		}
		if (t->nr_failed)
			fprintf(stderr, "with %s\n", shapes[i]);
		finish(&r);
	}
}

/* No memory at all any more: what is set aside is for some changes, and a commit needs none. */
static void a_shortage_that_lasts(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		unsigned int nr_done = 0, nr_refused = 0;
		struct fs_inode *in[2];
		struct fixture r;

		start(&r, t, shapes[i]);
		make_big(&r);
		MUST(!make(&r, "other", S_IFREG | 0644));
		in[0] = open_name(&r, "file");
		in[1] = open_name(&r, "other");
		MUST(!IS_ERR(in[0]) && !IS_ERR(in[1]));
		for (uint64_t k = 0; k < 40; k++) {
			const struct fs_attr attr = { .mask = FS_SET_SIZE | FS_SET_MODE,
						      .size = (40 - k) * 60000,
						      .mode = 0600 };
			int err;

			/* A change may begin, and then lacks all, or all but a little. */
			shim_fail_alloc_after((long)k % 4);
			err = fs_setattr(in[k % 3 != 0], &attr, change());
			EXPECT_TRUE(t, !err || err == -ENOMEM);
			nr_done += !err;
			nr_refused += err == -ENOMEM;
			if (k % 8 == 7)
				EXPECT_EQ(t, fs_sync(r.fs), 0);
		}
		shim_fail_alloc_after(-1);
		fs_inode_put(in[0]);
		fs_inode_put(in[1]);
		EXPECT_TRUE(t, nr_done > 0);
		EXPECT_EQ(t, nr_done + nr_refused, 40u);
		EXPECT_EQ(t, fs_unlink(r.root, "file", 4, change()), 0);
		EXPECT_EQ(t, fs_unlink(r.root, "other", 5, change()), 0);
		finish(&r);
	}
}

/* A file that an unlink could not free for want of memory is freed by a later change. */
static void space_comes_back(struct ktest *t)
{
	struct fs_statfs before, after;
	struct fixture r;

	start(&r, t, shapes[0]);
	MUST(!make(&r, "other", S_IFREG | 0644));
	for (long n = 0; n < 40; n++) {
		MUST(!fs_sync(r.fs));
		fs_statfs(r.fs, &before);
		make_file(&r);
		shim_fail_alloc_after(n);
		if (fs_unlink(r.root, "file", 4, change())) {
			shim_fail_alloc_after(-1);
			MUST(!fs_unlink(r.root, "file", 4, change()));
		}
		shim_fail_alloc_after(-1);
		MUST(!fs_sync(r.fs));
		fs_statfs(r.fs, &after);
		EXPECT_EQ(t, after.bfree, before.bfree);
		EXPECT_EQ(t, after.ffree, before.ffree);
	}
	finish(&r);
}

struct commits {
	struct fs *fs;
	bool stop; /* atomic */
};

static void *commit_always(void *arg)
{
	struct commits *c = arg;

	while (!__atomic_load_n(&c->stop, __ATOMIC_SEQ_CST)) {
		if (fs_sync(c->fs))
			return (void *)1;
	}
	return NULL;
}

/* Blocks that the committing transaction has as well: no memory for a copy means waiting. */
static void changes_beside_commits(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct commits c = { 0 };
		struct fixture r;
		pthread_t thread;
		void *failed;

		start(&r, t, shapes[i]);
		c.fs = r.fs;
		MUST(!pthread_create(&thread, NULL, commit_always, &c));
		for (unsigned int k = 0; k < 60 && !t->nr_failed; k++) {
			make_names(&r);
			shim_fail_alloc_after((long)(k % 12));
			for (unsigned int m = 0; m < 12; m++) {
				const int err = steps[(k + m) % 3 ? 0 : 15].change(&r);

				EXPECT_TRUE(t, err != -EROFS && err != -EIO);
				EXPECT_TRUE(t, fs_unlink(r.root, "new", 3, change()) != -EROFS);
			}
			shim_fail_alloc_after(-1);
			EXPECT_FALSE(t, fs_is_read_only(r.fs));
			if (!t->nr_failed)
				remove_all(&r);
		}
		__atomic_store_n(&c.stop, true, __ATOMIC_SEQ_CST);
		pthread_join(thread, &failed);
		EXPECT_TRUE(t, failed == NULL);
		finish(&r);
	}
}

/* Several blocks that begin as the log's own do are logged without memory, and replayed. */
static void escaped_blocks_need_no_memory(struct ktest *t)
{
	static char target[100] = "\xc0\x3b\x39\x98 is how the log's blocks begin";
	const struct fs_new what = { .mode = S_IFLNK | 0777,
				     .target = target,
				     .target_len = sizeof(target) };
	char name[8], image[80], buf[FS_PATH_MAX];
	struct fixture r;
	size_t len;

	memset(target + strlen(target), '.', sizeof(target) - strlen(target));
	start(&r, t, shapes[0]);
	for (unsigned int i = 0; i < 9; i++) {
		struct fs_inode *in;

		snprintf(name, sizeof(name), "%u", i);
		in = fs_create(r.root, name, 1, &what, change());
		MUST(!IS_ERR(in));
		fs_inode_put(in);
	}
	shim_fail_alloc_after(0);
	EXPECT_EQ(t, fs_sync(r.fs), 0);
	shim_fail_alloc_after(-1);
	/* The power goes before any of them is in place. */
	snprintf(image, sizeof(image), "%s/image", r.dir);
	logdisk_crash(r.disk, logdisk_nr_events(r.disk), 3, image);
	fs_inode_put(r.root);
	fs_unmount(r.fs);
	logdisk_close(r.disk);
	mount_image(&r);
	for (unsigned int i = 0; i < 9; i++) {
		struct fs_inode *in;

		snprintf(name, sizeof(name), "%u", i);
		in = open_name(&r, name);
		MUST(!IS_ERR(in));
		EXPECT_EQ(t, fs_readlink(in, buf, &len), 0);
		EXPECT_EQ(t, len, sizeof(target));
		EXPECT_EQ(t, memcmp(buf, target, sizeof(target)), 0);
		fs_inode_put(in);
	}
	finish(&r);
}

static void remount(struct fixture *r)
{
	unmount(r);
	mount_image(r);
}

/* A truncation that cannot read the file's map leaves all as it was: size, mode, owner, blocks. */
static void an_unreadable_map_is_not_truncated(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		const struct fs_attr attr = { .mask = FS_SET_SIZE | FS_SET_MODE | FS_SET_UID,
					      .mode = 0600,
					      .uid = 9 };
		const struct fs_change no_record = { .privileged = true };
		struct fs_statfs st, later;
		struct fixture r;
		struct fs_inode *in;
		uint32_t before;

		start(&r, t, shapes[i]);
		fs_statfs(r.fs, &st);
		make_big(&r);
		before = sum_all(&r);
		remount(&r);
		in = open_name(&r, "file");
		MUST(!IS_ERR(in));
		logdisk_fail_reads(r.disk, true);
		EXPECT_EQ(t, fs_setattr(in, &attr, change()), -EIO);
		logdisk_fail_reads(r.disk, false);
		EXPECT_FALSE(t, fs_is_read_only(r.fs));
		EXPECT_EQ(t, sum_all(&r), before);
		fs_inode_put(in);
		remount(&r);
		check_image(&r);
		/* Nor is it freed; a later mount does that. */
		in = open_name(&r, "file");
		MUST(!IS_ERR(in));
		logdisk_fail_reads(r.disk, true);
		EXPECT_TRUE(t, fs_unlink(r.root, "file", 4, &no_record) != -EROFS);
		logdisk_fail_reads(r.disk, false);
		EXPECT_FALSE(t, fs_is_read_only(r.fs));
		fs_inode_put(in);
		remount(&r);
		in = open_name(&r, "file");
		if (!IS_ERR(in)) { /* its directory could not be read either */
			fs_inode_put(in);
			EXPECT_EQ(t, fs_unlink(r.root, "file", 4, change()), 0);
		}
		fs_statfs(r.fs, &later);
		EXPECT_EQ(t, later.bfree, st.bfree);
		finish(&r);
	}
}

static const struct ktest_case shortage_cases[] = {
	KTEST(no_shortage_makes_it_read_only),
	KTEST(a_shortage_that_lasts),
	KTEST(space_comes_back),
	KTEST(changes_beside_commits),
	KTEST(escaped_blocks_need_no_memory),
	KTEST(an_unreadable_map_is_not_truncated),
	{ 0 },
};
static const struct ktest_suite shortage_suite = { .name = "fs.shortage", .cases = shortage_cases };
KTEST_SUITE(shortage_suite);
