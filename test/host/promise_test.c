/* SPDX-License-Identifier: MIT */
/*
 * Promises of blocks: whatever others do to the disk, pages that were promised room can be written,
 * though each makes the file's map as large as it can be; and what is not promised is refused.
 */
#include <abi/fcntl.h>
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

static const char *const shapes[] = {
	"-t ext4 -b 1024 -J size=1",
	"-t ext4 -b 4096 -J size=4 -m 10",
	"-t ext3 -b 1024 -J size=1",
	"-t ext4 -b 4096 -O inline_data -J size=4",
};

struct fixture {
	struct ktest *t;
	char dir[64];
	struct logdisk *disk;
	struct fs *fs;
	struct fs_inode *root;
};

static const struct fs_change as_user = { .uid = 1000, .now.sec = 1700000000 };
static const struct fs_change as_root = { .privileged = true, .now.sec = 1700000000 };

static void start(struct fixture *r, struct ktest *t, const char *options)
{
	const struct fs_mount_options opt = { .cache_bytes = 2u << 20,
					      .writable = true,
					      .max_inodes = 4 };
	char image[96];

	memset(r, 0, sizeof(*r));
	r->t = t;
	image_dir(r->dir, "promise");
	snprintf(image, sizeof(image), "%s/image", r->dir);
	MUST(!shell("PATH=$PATH:/usr/sbin:/sbin mke2fs -q -F %s %s 16M >/dev/null", options,
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

static struct fs_inode *make(struct fixture *r, const char *name)
{
	const struct fs_new what = { .mode = S_IFREG | 0644 };
	struct fs_inode *in = fs_create(r->root, name, strlen(name), &what, &as_root);

	MUST(!IS_ERR(in));
	return in;
}

static int write_page(struct fs_inode *in, uint64_t index, const struct fs_change *ch)
{
	static uint8_t page[PAGE_SIZE] __aligned(PAGE_SIZE);
	void *const pages[1] = { page };

	memset(page, 'a' + (int)(index % 26), sizeof(page));
	return fs_write_pages(in, index * PAGE_SIZE, PAGE_SIZE, pages, (index + 1) * PAGE_SIZE, ch);
}

/* Promise @need pages at @index beside @others. */
static int promise(struct fs_inode *in, uint64_t others, uint64_t index, uint32_t nr, uint32_t need,
		   struct fs_promise *p, const struct fs_change *ch)
{
	*p = (struct fs_promise){ .others = others, .index = index, .nr = nr, .need = need };
	return fs_promise(in, p, ch);
}

static uint64_t room(struct fixture *r)
{
	struct fs_statfs st;

	fs_statfs(r->fs, &st);
	return st.bavail;
}

/* Write page by page at the end of @in until nothing fits. */
static uint64_t fill(struct fixture *r, struct fs_inode *in, const struct fs_change *ch)
{
	uint64_t nr = 0;
	int err = 0;

	while (!err && nr < 100000) {
		err = write_page(in, nr, ch);
		nr += !err;
	}
	EXPECT_EQ(r->t, err, -ENOSPC);
	return nr;
}

#define SPARSE 600u
#define INODES 20u

static const char *nth_name(unsigned int i)
{
	static char name[16];

	snprintf(name, sizeof(name), "inode%u", i);
	return name;
}

static void make_inodes(struct fixture *r)
{
	for (unsigned int i = 0; i < INODES; i++)
		fs_inode_put(make(r, nth_name(i)));
}

static void use_inodes(struct fixture *r)
{
	for (unsigned int i = 0; i < INODES; i++) {
		struct fs_inode *in = fs_lookup(r->root, nth_name(i), strlen(nth_name(i)));

		MUST(!IS_ERR(in));
		fs_inode_put(in);
	}
}

/* Pages far from each other, in an order that splits what it can. */
static void promised_pages_fit(struct ktest *t, const char *shape)
{
	struct fs_inode *in, *other;
	uint64_t places[SPARSE], nr;
	struct fs_promise p;
	struct fs_stat stat;
	struct fixture r;
	struct prng rng;

	start(&r, t, shape);
	in = make(&r, "sparse");
	other = make(&r, "other");
	make_inodes(&r);
	/* A map of several levels, whose nodes are full. */
	for (uint64_t i = 0; i < 900; i++)
		ASSERT_EQ(t, write_page(in, 6 * i + 6000, &as_root), 0);
	prng_seed(&rng, 5);
	for (uint32_t i = 0; i < SPARSE; i++) {
		const uint32_t k = (uint32_t)(prng_next(&rng) % (i + 1));

		places[i] = places[k];
		places[k] = 6 * i + 6003;
	}
	for (uint32_t i = 0; i < SPARSE; i++) {
		ASSERT_EQ(t, promise(in, i, places[i], 1, 1, &p, &as_user), 0);
		ASSERT_EQ(t, p.holes[0], 1);
	}
	nr = fill(&r, other, &as_root);
	EXPECT_GE(t, nr, 10u);
	EXPECT_EQ(t, room(&r), 0);
	/* Used inodes push unused ones out of the cache, but not this one: its promise stays. */
	fs_inode_stat(in, &stat);
	fs_inode_put(in);
	use_inodes(&r);
	in = fs_inode_get(r.fs, stat.ino, stat.gen);
	ASSERT_FALSE(t, IS_ERR(in));
	for (uint32_t i = 0; i < SPARSE; i++)
		ASSERT_EQ(t, write_page(in, places[i], &as_user), 0);
	/* It is used up, or given back. */
	ASSERT_EQ(t, promise(in, 0, 0, 0, 0, &p, &as_user), 0);
	EXPECT_EQ(t, container_of(r.fs, struct ext4_fs, base)->delayed, 0);
	fs_inode_put(in);
	fs_inode_put(other);
	finish(&r);
}

static void pages_fit_whatever_the_map(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes) && !t->nr_failed; i++)
		promised_pages_fit(t, shapes[i]);
}

/* Asking again, less, more; and root's blocks. */
static void a_promise_takes_the_place_of_the_last(struct ktest *t)
{
	struct fs_inode *in, *other;
	uint64_t before, nr;
	struct fs_promise p;
	struct fixture r;

	start(&r, t, shapes[1]);
	in = make(&r, "file");
	other = make(&r, "other");
	before = room(&r);
	ASSERT_EQ(t, promise(in, 0, 0, 16, 1, &p, &as_user), 0);
	EXPECT_EQ(t, p.covered, 16);
	EXPECT_EQ(t, p.holes[0], 0xffff);
	nr = before - room(&r);
	EXPECT_GE(t, nr, 16u);
	ASSERT_EQ(t, promise(in, 0, 0, 16, 1, &p, &as_user), 0); /* again */
	EXPECT_EQ(t, before - room(&r), nr);
	ASSERT_EQ(t, write_page(in, 0, &as_user), 0);
	EXPECT_LE(t, before - room(&r), nr);
	ASSERT_EQ(t, promise(in, 0, 0, 16, 1, &p, &as_user), 0);
	EXPECT_EQ(t, p.holes[0], 0xfffe);
	EXPECT_EQ(t, p.mapped, 1);
	ASSERT_EQ(t, promise(in, 0, 0, 0, 0, &p, &as_user), 0);
	EXPECT_EQ(t, before - room(&r), 1);
	/* More than is left for users, which root may have. */
	(void)fill(&r, other, &as_user);
	EXPECT_EQ(t, promise(in, 0, 1, 1, 1, &p, &as_user), -ENOSPC);
	EXPECT_EQ(t, promise(in, 0, 0, 1, 1, &p, &as_user), 0); /* it has a block */
	EXPECT_EQ(t, promise(in, 0, 1, 1, 1, &p, &as_root), 0);
	/* The page that root got is kept, whoever writes it. */
	EXPECT_EQ(t, write_page(in, 1, &as_user), 0);
	EXPECT_EQ(t, write_page(in, 2, &as_user), -ENOSPC);
	/* Of a file that goes nothing stays. */
	EXPECT_EQ(t, promise(in, 9, 0, 0, 0, &p, &as_user), 0);
	EXPECT_EQ(t, fs_unlink(r.root, "file", 4, &as_root), 0);
	fs_inode_put(in);
	EXPECT_EQ(t, container_of(r.fs, struct ext4_fs, base)->delayed, 0);
	fs_inode_put(other);
	finish(&r);
}

static int set_attribute(struct fs_inode *in, size_t len, const struct fs_change *ch)
{
	static const uint8_t value[1000] = "v";
	const struct fs_xattr x = {
		.name = "user.x", .name_len = 6, .value = value, .value_len = len
	};

	return fs_xattr_set(in, &x, 0, ch);
}

/* The block of a file's attributes is none of those that its pages were promised. */
static void attributes_leave_promises_alone(struct ktest *t)
{
	struct fs_inode *in, *other, *filler;
	struct fs_promise p;
	struct fixture r;
	uint64_t before;

	start(&r, t, shapes[1]);
	in = make(&r, "file");
	other = make(&r, "other");
	filler = make(&r, "filler");
	ASSERT_EQ(t, promise(other, 0, 0, 1, 1, &p, &as_root), 0);
	before = room(&r);
	EXPECT_EQ(t, set_attribute(other, 1000, &as_root), 0);
	EXPECT_EQ(t, before - room(&r), 1);
	ASSERT_EQ(t, promise(in, 0, 0, 1, 1, &p, &as_root), 0);
	(void)fill(&r, filler, &as_root);
	EXPECT_EQ(t, set_attribute(in, 1000, &as_root), -ENOSPC);
	EXPECT_EQ(t, set_attribute(in, 20, &as_root), 0); /* in the inode */
	EXPECT_EQ(t, write_page(in, 0, &as_user), 0);
	EXPECT_EQ(t, write_page(other, 0, &as_user), 0);
	EXPECT_EQ(t, set_attribute(other, 900, &as_user), 0); /* in its block */
	fs_inode_put(in);
	fs_inode_put(other);
	fs_inode_put(filler);
	finish(&r);
}

/* A memory node may say that it has promises for any number of pages. */
static void no_more_is_promised_than_there_is(struct ktest *t)
{
	struct fs_inode *in, *other;
	struct fs_promise p;
	struct fs_statfs st;
	struct fixture r;

	start(&r, t, shapes[1]);
	in = make(&r, "file");
	other = make(&r, "other");
	ASSERT_EQ(t, promise(other, 0, 0, 1, 1, &p, &as_user), 0);
	EXPECT_EQ(t, promise(in, 1u << 20, 0, 0, 0, &p, &as_user), 0);
	fs_statfs(r.fs, &st);
	EXPECT_EQ(t, st.bavail, 0);
	EXPECT_LE(t, container_of(r.fs, struct ext4_fs, base)->delayed,
		  ext4_free_blocks(container_of(r.fs, struct ext4_fs, base)));
	EXPECT_EQ(t, write_page(other, 0, &as_user), 0);
	EXPECT_EQ(t, promise(in, 0, 0, 0, 0, &p, &as_user), 0);
	EXPECT_GE(t, room(&r), 1000u);
	fs_inode_put(in);
	fs_inode_put(other);
	finish(&r);
}

/* After a start again room for names is kept before the promises come that are told again. */
static void a_promise_told_again_comes_before_rooms(struct ktest *t)
{
	struct fs_attr cut = { .mask = FS_SET_SIZE };
	struct fs_inode *in, *other;
	struct fs_promise p;
	struct ext4_fs *fs;
	struct fixture r;
	uint64_t nr;

	start(&r, t, "-t ext4 -b 1024 -J size=1 -m 0");
	fs = container_of(r.fs, struct ext4_fs, base);
	in = make(&r, "file");
	other = make(&r, "other");
	ASSERT_EQ(t, promise(in, 64, 0, 0, 0, &p, &as_user), 0);
	nr = fs->delayed;
	cut.size = fill(&r, other, &as_root) * PAGE_SIZE; /* the last one had some blocks */
	ASSERT_EQ(t, fs_setattr(other, &cut, &as_root), 0);
	ASSERT_EQ(t, fs_sync(r.fs), 0);
	ASSERT_EQ(t, promise(in, 0, 0, 0, 0, &p, &as_user), 0);
	ASSERT_EQ(t, fs->delayed, 0);
	/* As the node does when it begins. */
	EXPECT_EQ(t, fs_rooms(r.fs, 20), 20);
	/* A new one takes nothing of that, nor what it has not asked for. */
	EXPECT_EQ(t, promise(in, 60, 0, 1, 1, &p, &as_user), -ENOSPC);
	EXPECT_EQ(t, fs->rooms, 20);
	ASSERT_EQ(t, promise(in, 64, 0, 0, 0, &p, &as_user), 0);
	EXPECT_EQ(t, fs->delayed, nr);
	EXPECT_EQ(t, fs->rooms, (ext4_free_blocks(fs) - nr) / EXT4_ROOM_BLOCKS);
	for (uint64_t i = 0; i < 64; i++)
		ASSERT_EQ(t, write_page(in, 200 + 2 * i, &as_user), 0);
	fs_inode_put(in);
	fs_inode_put(other);
	finish(&r);
}

/* Blocks that are there but not written need no promise; the range may lie behind all. */
static void what_has_blocks_needs_none(struct ktest *t)
{
	struct fs_promise p;
	struct fs_inode *in;
	struct fixture r;

	start(&r, t, shapes[0]);
	in = make(&r, "file");
	ASSERT_EQ(t, fs_fallocate(in, FALLOC_FL_KEEP_SIZE, 8 * PAGE_SIZE, 4 * PAGE_SIZE, &as_user),
		  0);
	/* One block of four is missing in page 12. */
	ASSERT_EQ(t, fs_fallocate(in, FALLOC_FL_KEEP_SIZE, 12 * PAGE_SIZE, 3072, &as_user), 0);
	ASSERT_EQ(t, promise(in, 0, 6, 8, 1, &p, &as_user), 0);
	EXPECT_EQ(t, p.holes[0], 0xc3);
	EXPECT_EQ(t, p.mapped, 0);
	ASSERT_EQ(t, promise(in, 0, 8, 1, 1, &p, &as_user), 0);
	EXPECT_EQ(t, p.holes[0], 0);
	EXPECT_EQ(t, p.mapped, 4);
	EXPECT_EQ(t, promise(in, 0, 1ull << 40, 1, 1, &p, &as_user), -EFBIG);
	EXPECT_EQ(t, promise(in, 1ull << 50, 0, 0, 0, &p, &as_user), -EFBIG);
	EXPECT_EQ(t, promise(in, 1u << 20, 0, 1, 1, &p, &as_user), -ENOSPC);
	EXPECT_EQ(t, promise(r.root, 0, 0, 1, 1, &p, &as_user), -EISDIR);
	fs_inode_put(in);
	finish(&r);
}

/* A change of the same file takes nothing that some of its pages were promised. */
static void allocations_leave_kept_pages_alone(struct ktest *t)
{
	struct fs_change keeps = as_root;
	struct fs_inode *in, *other;
	struct fs_promise p;
	struct fixture r;
	uint64_t nr;

	start(&r, t, shapes[1]);
	in = make(&r, "file");
	other = make(&r, "other");
	/* Nothing is left but what 64 pages far from each other may need. */
	ASSERT_EQ(t, promise(in, 64, 0, 0, 0, &p, &as_root), 0);
	nr = container_of(r.fs, struct ext4_fs, base)->delayed;
	keeps.kept = 64;
	EXPECT_EQ(t, fs_fallocate(in, FALLOC_FL_KEEP_SIZE, 50 * PAGE_SIZE, PAGE_SIZE, &keeps), 0);
	EXPECT_EQ(t, container_of(r.fs, struct ext4_fs, base)->delayed, nr);
	(void)fill(&r, other, &as_root);
	EXPECT_EQ(t, fs_fallocate(in, FALLOC_FL_KEEP_SIZE, 100 * PAGE_SIZE, PAGE_SIZE, &keeps),
		  -ENOSPC);
	EXPECT_EQ(t, container_of(r.fs, struct ext4_fs, base)->delayed, nr);
	keeps.kept = 63;
	EXPECT_EQ(t, fs_fallocate(in, FALLOC_FL_KEEP_SIZE, 100 * PAGE_SIZE, PAGE_SIZE, &keeps), 0);
	for (uint64_t i = 0; i < 63; i++)
		ASSERT_EQ(t, write_page(in, 200 + 2 * i, &as_user), 0);
	fs_inode_put(in);
	fs_inode_put(other);
	finish(&r);
}

static const struct ktest_case promise_cases[] = {
	KTEST(a_promise_takes_the_place_of_the_last),
	KTEST(pages_fit_whatever_the_map),
	KTEST(what_has_blocks_needs_none),
	KTEST(attributes_leave_promises_alone),
	KTEST(no_more_is_promised_than_there_is),
	KTEST(a_promise_told_again_comes_before_rooms),
	KTEST(allocations_leave_kept_pages_alone),
	{ 0 },
};
static const struct ktest_suite promise_suite = { .name = "fs.promise", .cases = promise_cases };
KTEST_SUITE(promise_suite);
