/* SPDX-License-Identifier: MIT */
/*
 * A mount takes over from one that ended with the power: inodes without a name, truncations
 * that are half done; and chains of orphans that no file system made.
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

#include "../../fs/ext4/group.h"
#include "../../fs/ext4/journal.h"
#include "image_kit.h"
#include "logdisk.h"

#define FILE_LEN 65536u

static const char *const shapes[] = { "-t ext4 -J size=1", "-t ext3 -J size=1",
				      "-t ext4 -b 4096 -O inline_data -J size=4" };

struct fixture {
	struct ktest *t;
	char dir[64];
	char why[160];
	bool repeats;              /* fs_mount_options.repeats of mount_image() */
	uint64_t bad_from, bad_to; /* bytes of the disk that it cannot read */
	struct logdisk *disk;
	struct fs *fs;
	struct fs_inode *root;
};

static const char *path_of(const struct fixture *r, const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", r->dir, name);
	return path;
}

static struct fs_change *change(void)
{
	static struct fs_change ch = { .privileged = true };

	ch.now.sec = 1700000000;
	return &ch;
}

static int mount_image(struct fixture *r)
{
	const struct fs_mount_options opt = { .cache_bytes = 256u << 10,
					      .writable = true,
					      .manual_commit = true,
					      .repeats = r->repeats,
					      .why = r->why,
					      .why_size = sizeof(r->why) };
	int err;

	r->disk = logdisk_open(path_of(r, "image"));
	logdisk_fail_range(r->disk, r->bad_from, r->bad_to);
	err = ext4_mount(logdisk_bd(r->disk), &opt, &r->fs);
	if (err) {
		r->fs = NULL;
		logdisk_close(r->disk);
		return err;
	}
	r->root = fs_inode_get(r->fs, r->fs->root_ino, FS_ANY_GEN);
	MUST(!IS_ERR(r->root));
	return 0;
}

static void start_sized(struct fixture *r, struct ktest *t, const char *options, const char *size)
{
	memset(r, 0, sizeof(*r));
	r->t = t;
	image_dir(r->dir, "remount");
	MUST(!shell("PATH=$PATH:/usr/sbin:/sbin mke2fs -q -F %s %s %s >/dev/null", options,
		    path_of(r, "image"), size));
	MUST(!mount_image(r));
}

static void start(struct fixture *r, struct ktest *t, const char *options)
{
	start_sized(r, t, options, "16M");
}

static void unmount(struct fixture *r)
{
	fs_inode_put(r->root);
	fs_unmount(r->fs);
	logdisk_save(r->disk, path_of(r, "image"));
	logdisk_close(r->disk);
}

/* e2fsck has nothing to say. */
static void expect_clean(struct fixture *r)
{
	const int status = shell("PATH=$PATH:/usr/sbin:/sbin e2fsck -fn %s >%s/log 2>&1",
				 path_of(r, "image"), r->dir);

	EXPECT_EQ(r->t, status, 0);
	if (status)
		shell("cat %s >&2", path_of(r, "log"));
	EXPECT_EQ(r->t, shell("grep -qE 'Clear|Free|orphan|IGNORED' %s", path_of(r, "log")), 1);
}

static void finish(struct fixture *r)
{
	if (!r->t->nr_failed)
		shell("rm -rf %s", r->dir);
	else
		fprintf(stderr, "files in %s\n", r->dir);
}

/* The power goes now: what was flushed is there, the rest by chance. */
static void cut(struct fixture *r)
{
	char image[128];

	strcpy(image, path_of(r, "crashed"));
	logdisk_crash(r->disk, logdisk_nr_events(r->disk), 5, image);
}

static void use_crashed(struct fixture *r)
{
	shell("mv %s/crashed %s/image", r->dir, r->dir);
}

static struct fs_inode *make_file(struct fixture *r, const char *name, struct fs_stat *st)
{
	const struct fs_new what = { .mode = S_IFREG | 0644 };
	static uint8_t buf[FILE_LEN] __attribute__((aligned(4096)));
	struct fs_inode *in = fs_create(r->root, name, strlen(name), &what, change());
	void *pages[FILE_LEN / 4096];

	MUST(!IS_ERR(in));
	memset(buf, 'x', sizeof(buf));
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++)
		pages[i] = buf + i * 4096;
	MUST(!fs_write_pages(in, 0, FILE_LEN, pages, FILE_LEN, change()));
	fs_inode_stat(in, st);
	return in;
}

static void expect_contents(struct fixture *r, struct fs_inode *in, uint64_t len)
{
	static uint8_t page[4096] __attribute__((aligned(4096)));
	void *pages[1] = { page };

	for (uint64_t at = 0; at < FILE_LEN; at += sizeof(page)) {
		EXPECT_EQ(r->t, fs_read_pages(in, at / sizeof(page), pages, 1), 0);
		for (size_t i = 0; i < sizeof(page); i++) {
			if (page[i] == (at + i < len ? 'x' : 0))
				continue;
			ktest_fail(r->t, __FILE__, __LINE__, "byte %zu is %u", (size_t)at + i,
				   page[i]);
			return;
		}
	}
}

static uint64_t nr_free(struct fixture *r)
{
	struct fs_statfs st;

	fs_statfs(r->fs, &st);
	return st.bfree;
}

/* A file that is open without a name is there after the crash, until it is released. */
static void open_files_outlive_a_crash(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct fs_stat a, b;
		struct fs_inode *in, *other;
		struct fixture r;
		uint64_t before;

		start(&r, t, shapes[i]);
		before = nr_free(&r);
		in = make_file(&r, "a", &a);
		other = make_file(&r, "b", &b);
		fs_open_ref(in);
		fs_open_ref(other);
		EXPECT_EQ(t, fs_unlink(r.root, "a", 1, change()), 0);
		EXPECT_EQ(t, fs_unlink(r.root, "b", 1, change()), 0);
		EXPECT_EQ(t, fs_sync(r.fs), 0);
		cut(&r);
		fs_close_ref(in);
		fs_close_ref(other);
		fs_inode_put(in);
		fs_inode_put(other);
		unmount(&r);

		use_crashed(&r);
		EXPECT_EQ(t, mount_image(&r), 0);
		in = fs_inode_get(r.fs, a.ino, a.gen);
		EXPECT_EQ(t, IS_ERR(in), false);
		if (IS_ERR(in))
			return;
		expect_contents(&r, in, FILE_LEN);
		fs_open_ref(in); /* its processor says that it has it open; b's does not come */
		fs_inode_put(in);
		fs_orphans_release(r.fs);
		EXPECT_EQ(t, PTR_ERR(fs_inode_get(r.fs, b.ino, b.gen)), -ESTALE);
		expect_contents(&r, in, FILE_LEN);
		fs_close_ref(in);
		EXPECT_EQ(t, PTR_ERR(fs_inode_get(r.fs, a.ino, a.gen)), -ESTALE);
		EXPECT_EQ(t, nr_free(&r), before);
		unmount(&r);
		expect_clean(&r);
		finish(&r);
	}
}

/* The first transaction of a truncation: the new size, and the inode is an orphan. */
static void begin_truncation(struct fixture *r, uint32_t ino, uint32_t size)
{
	struct ext4_fs *fs = container_of(r->fs, struct ext4_fs, base);
	struct ext4_handle *h = ext4_begin(fs, 8);
	struct bcache_buf *buf;
	uint8_t *raw;

	MUST(!IS_ERR(h));
	MUST(!ext4_orphan_add(h, ino));
	MUST(!ext4_raw_inode(fs, ino, &buf, &raw));
	MUST(!ext4_write_access(h, buf));
	((struct ext4_inode_disk *)raw)->size_lo = cpu_to_le32(size);
	ext4_inode_csum_set(fs, ino, raw);
	MUST(!ext4_dirty(h, buf));
	bcache_put(buf);
	MUST(!ext4_end(h));
	MUST(!ext4_sync(fs));
}

static void half_a_truncation_is_finished(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct fs_inode *in;
		struct fs_stat st;
		struct fixture r;
		uint64_t full;

		start(&r, t, shapes[i]);
		in = make_file(&r, "a", &st);
		fs_inode_put(in);
		full = nr_free(&r);
		begin_truncation(&r, (uint32_t)st.ino, 5000);
		cut(&r);
		unmount(&r);

		use_crashed(&r);
		EXPECT_EQ(t, mount_image(&r), 0);
		EXPECT_EQ(t, nr_free(&r) > full, true);
		in = fs_inode_get(r.fs, st.ino, st.gen);
		EXPECT_EQ(t, IS_ERR(in), false);
		if (IS_ERR(in))
			return;
		fs_inode_stat(in, &st);
		EXPECT_EQ(t, st.size, 5000u);
		expect_contents(&r, in, 5000);
		fs_inode_put(in);
		unmount(&r);
		expect_clean(&r);
		finish(&r);
	}
}

/* Chains that end the mount, and leave the disk as it was. */
static void hostile_chains(struct ktest *t)
{
	static const struct {
		const char *first, *links, *why;
	} chains[] = {
		{ "12", "sif <12> dtime 12", "orphan list: inode 12 is on it twice" },
		{ "12", "sif <12> dtime 13\nsif <13> dtime 12",
		  "orphan list: inode 12 is on it twice" },
		{ "5", "", "orphan list: inode 5" },
		{ "12", "sif <12> dtime 7", "orphan list: inode 7" },
		{ "4000000000", "", "orphan list: inode 4000000000" },
		{ "200", "", "orphan list: inode 200 is free" },
		{ "200", "seti <200>", "orphan list: inode 200 is not in use" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(chains); i++) {
		struct fs_stat st;
		struct fixture r;

		start(&r, t, shapes[0]);
		fs_inode_put(make_file(&r, "a", &st));
		EXPECT_EQ(t, st.ino, 12u);
		fs_inode_put(make_file(&r, "b", &st));
		EXPECT_EQ(t, st.ino, 13u);
		unmount(&r);
		MUST(!shell("printf 'ssv last_orphan %s\\n%s\\n' >%s/cmds && "
			    "PATH=$PATH:/usr/sbin:/sbin debugfs -w -f %s/cmds %s >/dev/null 2>&1",
			    chains[i].first, chains[i].links, r.dir, r.dir, path_of(&r, "image")));
		EXPECT_EQ(t, mount_image(&r), -EUCLEAN);
		EXPECT_STREQ(t, r.why, chains[i].why);
		finish(&r);
	}
}

/* --- an index made of a block that others wrote --- */

#define LONG_NAME 255u

static const char *long_name(char c)
{
	static char name[LONG_NAME + 1];

	memset(name, c, LONG_NAME);
	return name;
}

static struct fs_inode *make(struct fs_inode *dir, const char *name, uint32_t mode)
{
	const struct fs_new what = { .mode = mode };

	return fs_create(dir, name, strlen(name), &what, change());
}

/* Put @left behind ".." of the directory with a long name of 'a's; the journal has copies of it. */
static uint32_t damage(struct fixture *r, const uint8_t left[8])
{
	uint8_t *image = logdisk_bytes(r->disk);
	uint32_t n = 0;

	for (uint64_t at = 0; at < logdisk_len(r->disk); at += 1024) {
		if (memcmp(image + at + 36 + 8, long_name('a'), LONG_NAME))
			continue;
		memcpy(image + at + 24, left, 8);
		n++;
	}
	return n;
}

/*
 * Other writers may leave a removed entry's number in the space that ".." takes over, and
 * a hostile disk has anything there: nothing in that space is an entry.
 */
static void an_index_takes_no_removed_names(struct ktest *t)
{
	static const uint8_t left[][8] = {
		{ 12, 0, 0, 0, 12, 0, 1, 1 },  /* as such a writer leaves it */
		{ 12, 0, 0, 0, 0, 0, 255, 1 }, /* a loop */
	};

	for (size_t i = 0; i < ARRAY_SIZE(left); i++) {
		struct fs_inode *dir, *in;
		struct fixture r;

		start(&r, t, "-t ext3 -b 1024 -J size=1");
		dir = make(r.root, "dir", S_IFDIR | 0755);
		MUST(!IS_ERR(dir));
		fs_inode_put(make(dir, "x", S_IFREG | 0644));
		for (char c = 'a'; c <= 'c'; c++)
			fs_inode_put(make(dir, long_name(c), S_IFREG | 0644));
		MUST(!fs_unlink(dir, "x", 1, change()));
		fs_inode_put(dir);
		unmount(&r);
		MUST(!mount_image(&r));
		MUST(damage(&r, left[i]));
		dir = fs_lookup(r.root, "dir", 3);
		MUST(!IS_ERR(dir));
		in = make(dir, long_name('d'), S_IFREG | 0644);
		MUST(!IS_ERR(in));
		fs_inode_put(in);
		in = fs_lookup(dir, "x", 1);
		EXPECT_EQ(t, PTR_ERR(in), -ENOENT);
		if (!IS_ERR(in))
			fs_inode_put(in);
		for (char c = 'a'; c <= 'd'; c++) {
			in = fs_lookup(dir, long_name(c), LONG_NAME);
			MUST(!IS_ERR(in));
			fs_inode_put(in);
		}
		fs_inode_put(dir);
		unmount(&r);
		expect_clean(&r);
		finish(&r);
	}
}

/* --- the record of changes --- */

#define NR_NAMES 12u
#define NR_OPS   600u /* more than the record of a small disk holds */
#define CLIENT   77u

/* The tree: the inode behind each name, or 0. */
struct tree {
	uint64_t ino[NR_NAMES];
	size_t event; /* the disk's, once the operation was promised; SIZE_MAX: it was not */
};

static struct fs_change *numbered(uint32_t seq)
{
	static struct fs_change ch = { .privileged = true, .client = CLIENT };

	ch.seq = seq;
	ch.now.sec = 1700000000 + seq;
	return &ch;
}

static const char *name_of(uint32_t i)
{
	static const char names[NR_NAMES][2] = { "a", "b", "c", "d", "e", "f",
						 "g", "h", "i", "j", "k", "l" };

	return names[i];
}

/* Create, remove or rename, under the id @seq. */
static void one_op(struct fixture *r, struct prng *rng, struct tree *t, uint32_t seq)
{
	const uint32_t i = (uint32_t)prng_below(rng, NR_NAMES);
	const uint32_t j = (uint32_t)prng_below(rng, NR_NAMES);
	const struct fs_new what = { .mode = S_IFREG | 0644 };
	struct fs_inode *in;
	struct fs_stat st;

	if (!t->ino[i]) {
		in = fs_create(r->root, name_of(i), 1, &what, numbered(seq));
		MUST(!IS_ERR(in));
		fs_inode_stat(in, &st);
		t->ino[i] = st.ino;
		fs_inode_put(in);
	} else if (i == j || prng_below(rng, 3) == 0) {
		MUST(!fs_unlink(r->root, name_of(i), 1, numbered(seq)));
		t->ino[i] = 0;
	} else {
		MUST(!fs_rename(r->root, name_of(i), 1, r->root, name_of(j), 1, 0, numbered(seq)));
		t->ino[j] = t->ino[i];
		t->ino[i] = 0;
	}
	t->event = SIZE_MAX;
	if (prng_below(rng, 6) == 0) {
		MUST(!fs_fsync(r->root, false));
		t->event = logdisk_nr_events(r->disk);
	}
}

/* A change is in the record exactly if it is in the tree. */
static void expect_once(struct fixture *r, const struct tree *history, uint32_t at_least)
{
	const uint32_t held = (32u << 10) / 128 - 1; /* 1/256 of 8 MiB, without the header */
	struct fs_done done = { 0 };
	uint32_t last = NR_OPS;

	while (last && fs_change_find(r->fs, CLIENT, last, &done))
		last--;
	EXPECT_GE(r->t, last, at_least);
	for (uint32_t i = 1; i <= last; i++)
		EXPECT_EQ(r->t, fs_change_find(r->fs, CLIENT, i, &done),
			  i + held > last ? 0 : -ENOENT);
	EXPECT_EQ(r->t, fs_change_find(r->fs, CLIENT + 1, last, &done), -ENOENT);
	for (uint32_t i = 0; i < NR_NAMES; i++) {
		struct fs_inode *in = fs_lookup(r->root, name_of(i), 1);
		struct fs_stat st = { 0 };

		if (!IS_ERR(in)) {
			fs_inode_stat(in, &st);
			fs_inode_put(in);
		}
		EXPECT_EQ(r->t, st.ino, history[last].ino[i]);
	}
}

static void cut_and_check(struct fixture *r, struct logdisk *disk, const struct tree *history,
			  size_t at, uint64_t seed)
{
	uint32_t at_least = 0;

	for (uint32_t i = 1; i <= NR_OPS; i++) {
		if (history[i].event <= at)
			at_least = i;
	}
	logdisk_crash(disk, at, seed, path_of(r, "image"));
	EXPECT_EQ(r->t, mount_image(r), 0);
	if (!r->fs)
		return;
	expect_once(r, history, at_least);
	unmount(r);
	expect_clean(r);
	if (r->t->nr_failed)
		fprintf(stderr, "cut at event %zu, seed %llu, operations from %u\n", at,
			(unsigned long long)seed, at_least);
}

static uint32_t nr_images(void)
{
	const char *s = getenv("TESSERA_CRASH_IMAGES");

	return s ? (uint32_t)strtoul(s, NULL, 10) : 30;
}

static void changes_are_recorded_with_the_tree(struct ktest *t)
{
	static const char *const options[] = { "-b 1024 -t ext4 -J size=1",
					       "-b 1024 -t ext3 -J size=1",
					       "-b 2048 -t ext4 -J size=2" };
	static struct tree history[NR_OPS + 1];

	for (size_t g = 0; g < ARRAY_SIZE(options) && !t->nr_failed; g++) {
		struct logdisk *disk;
		struct fixture r;
		struct prng rng;
		size_t from;

		prng_seed(&rng, 40 + g);
		start_sized(&r, t, options[g], "8M");
		MUST(!fs_sync(r.fs));
		from = logdisk_nr_events(r.disk);
		memset(history, 0, sizeof(history));
		for (uint32_t i = 1; i <= NR_OPS; i++) {
			history[i] = history[i - 1];
			one_op(&r, &rng, &history[i], i);
		}
		disk = r.disk;
		fs_inode_put(r.root);
		fs_unmount(r.fs);
		history[NR_OPS].event = logdisk_nr_events(disk);
		for (uint32_t i = 0; i < nr_images() / ARRAY_SIZE(options) && !t->nr_failed; i++) {
			const size_t nr = logdisk_nr_events(disk);
			size_t at = i ? from + prng_below(&rng, nr + 1 - from) : nr;

			if (i % 2)
				at = logdisk_next_fua(disk, at);
			cut_and_check(&r, disk, history, at, prng_next(&rng));
		}
		logdisk_close(disk);
		finish(&r);
	}
}

/* The first four blocks of the record. */
static struct ext4_map record_blocks(struct fixture *r)
{
	struct fs_inode *in =
		&ext4_inode_get_special(container_of(r->fs, struct ext4_fs, base), 5)->base;
	struct ext4_map map;

	MUST(!IS_ERR(in) && !ext4_map(in, 0, 4, &map) && map.len == 4);
	fs_inode_put(in);
	return map;
}

/*
 * A record that the device cannot read: changes that may come again must not be done twice, so they
 * are not done at all; otherwise the disk is used without a record.
 */
static void an_unreadable_record(struct ktest *t)
{
	const struct fs_new what = { .mode = S_IFREG | 0644 };
	struct fs_done done;
	struct fs_inode *in;
	struct ext4_map map;
	struct fixture r;

	start_sized(&r, t, "-b 4096 -t ext4 -J size=4", "16M");
	in = fs_create(r.root, "a", 1, &what, numbered(1));
	MUST(!IS_ERR(in));
	fs_inode_put(in);
	map = record_blocks(&r);
	unmount(&r);

	r.bad_from = (map.block + 2) * 4096;
	r.bad_to = r.bad_from + 512;
	r.repeats = true;
	EXPECT_EQ(t, mount_image(&r), -EIO);
	EXPECT_TRUE(t, strstr(r.why, "the record of changes (inode 5) cannot be read") != NULL);

	r.repeats = false;
	MUST(!mount_image(&r));
	EXPECT_FALSE(t, fs_is_read_only(r.fs));
	EXPECT_EQ(t, fs_change_find(r.fs, CLIENT, 1, &done), -ENOENT);
	EXPECT_EQ(t, fs_unlink(r.root, "a", 1, numbered(2)), 0);
	EXPECT_EQ(t, fs_change_find(r.fs, CLIENT, 2, &done), -ENOENT);
	unmount(&r);
	expect_clean(&r);

	/* The device reads it again: what it says is still so. */
	r.bad_from = r.bad_to = 0;
	r.repeats = true;
	MUST(!mount_image(&r));
	EXPECT_EQ(t, fs_change_find(r.fs, CLIENT, 1, &done), 0);
	unmount(&r);
	finish(&r);
}

/* Overwrite the record's blocks, some or all, with what no checksum fits. */
static void damaged_records_are_ignored(struct ktest *t)
{
	struct fs_done done;
	struct ext4_map map;
	struct fixture r;
	struct fs_inode *in;
	uint8_t *bytes;

	start_sized(&r, t, "-b 4096 -t ext4 -J size=4", "16M");
	for (uint32_t i = 1; i <= 100; i++) {
		char name[8];
		const struct fs_new what = { .mode = S_IFREG | 0644 };

		snprintf(name, sizeof(name), "f%u", i);
		in = fs_create(r.root, name, strlen(name), &what, numbered(i));
		MUST(!IS_ERR(in));
		fs_inode_put(in);
	}
	map = record_blocks(&r);
	unmount(&r);
	expect_clean(&r);

	/* One bit of record 40, which is in slot 40, behind the header. */
	r.disk = logdisk_open(path_of(&r, "image"));
	bytes = logdisk_bytes(r.disk) + map.block * 4096;
	bytes[(size_t)40 * 128 + 50] ^= 4;
	logdisk_save(r.disk, path_of(&r, "image"));
	logdisk_close(r.disk);
	MUST(!mount_image(&r));
	EXPECT_EQ(t, fs_change_find(r.fs, CLIENT, 39, &done), 0);
	EXPECT_EQ(t, fs_change_find(r.fs, CLIENT, 40, &done), -ENOENT);
	EXPECT_EQ(t, fs_change_find(r.fs, CLIENT, 100, &done), 0);
	unmount(&r);

	/* The header: the file is another's, and is left as it is. */
	r.disk = logdisk_open(path_of(&r, "image"));
	logdisk_bytes(r.disk)[map.block * 4096] ^= 1;
	logdisk_save(r.disk, path_of(&r, "image"));
	logdisk_close(r.disk);
	MUST(!mount_image(&r));
	EXPECT_EQ(t, fs_change_find(r.fs, CLIENT, 100, &done), -ENOENT);
	EXPECT_EQ(t, fs_unlink(r.root, "f1", 2, numbered(101)), 0);
	EXPECT_EQ(t, fs_change_find(r.fs, CLIENT, 101, &done), -ENOENT);
	unmount(&r);
	expect_clean(&r);
	finish(&r);
}

/* Below 4 MiB there is no record, and all else works. */
static void a_small_disk_has_no_record(struct ktest *t)
{
	struct fs_done done;
	struct fixture r;
	struct fs_inode *in;
	const struct fs_new what = { .mode = S_IFREG | 0644 };

	start_sized(&r, t, "-b 1024 -t ext4 -O ^has_journal", "3M");
	in = fs_create(r.root, "a", 1, &what, numbered(1));
	MUST(!IS_ERR(in));
	fs_inode_put(in);
	EXPECT_EQ(t, fs_change_find(r.fs, CLIENT, 1, &done), -ENOENT);
	unmount(&r);
	expect_clean(&r);
	finish(&r);
}

static const struct ktest_case remount_cases[] = {
	KTEST(open_files_outlive_a_crash),
	KTEST(half_a_truncation_is_finished),
	KTEST(hostile_chains),
	KTEST(an_index_takes_no_removed_names),
	KTEST(changes_are_recorded_with_the_tree),
	KTEST(an_unreadable_record),
	KTEST(damaged_records_are_ignored),
	KTEST(a_small_disk_has_no_record),
	{ 0 },
};
static const struct ktest_suite remount_suite = { .name = "fs.remount", .cases = remount_cases };
KTEST_SUITE(remount_suite);
