/* SPDX-License-Identifier: MIT */
/*
 * Multi-mount protection: two nodes that are given one disk. The clock stands and goes on by the
 * seconds of these tests, so that a busy host changes nothing.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <drivers/blkdev.h>
#include <fs/ext4.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <shim/shim.h>

#include "../../fs/ext4/disk.h"
#include "image_kit.h"
#include "logdisk.h"

#define RENEW 5u /* seconds: what mke2fs writes into the superblock */

/* A node that mounts the disk in a thread of its own, as the mount waits. */
struct node {
	struct logdisk *disk;
	const char *name;
	char why[160];
	struct fs *fs;
	int err;
	bool done; /* atomic */
	struct thread *thread;
};

struct fixture {
	struct ktest *t;
	char dir[64];
	struct logdisk *disk;
	struct node a, b;
};

static struct fs_change *change(void)
{
	static struct fs_change ch = { .privileged = true };

	ch.now.sec = 1700000000;
	return &ch;
}

static void mount_thread(void *arg)
{
	struct node *n = arg;
	const struct fs_mount_options opt = { .cache_bytes = 256u << 10,
					      .writable = true,
					      .manual_commit = true,
					      .owner = n->name,
					      .why = n->why,
					      .why_size = sizeof(n->why) };

	n->err = ext4_mount(logdisk_bd(n->disk), &opt, &n->fs);
	__atomic_store_n(&n->done, true, __ATOMIC_SEQ_CST);
}

static void mount_begin(struct fixture *r, struct node *n, const char *name)
{
	*n = (struct node){ .disk = r->disk, .name = name };
	n->thread = thread_create("mount", mount_thread, n);
	MUST(!IS_ERR(n->thread));
}

static bool is_done(struct node *n)
{
	return __atomic_load_n(&n->done, __ATOMIC_SEQ_CST);
}

/* Until @n has mounted or not; the seconds that it took. */
static unsigned int mount_end(struct node *n)
{
	unsigned int seconds = 0;

	while (!is_done(n)) {
		/* The thread may be at work rather than asleep: it sees the time later then. */
		shim_time_advance_ns(NSEC_PER_SEC);
		seconds++;
		usleep(1000);
	}
	thread_join(n->thread);
	return seconds;
}

static struct ext4_mmp_disk *mark(struct fixture *r)
{
	const struct ext4_super_disk *sb = (void *)(logdisk_bytes(r->disk) + EXT4_SUPER_OFFSET);
	const uint64_t size = 1024u << le32_to_cpu(sb->log_block_size);

	return (void *)(logdisk_bytes(r->disk) + le64_to_cpu(sb->mmp_block) * size);
}

static uint32_t seq_of(struct fixture *r)
{
	return __atomic_load_n((uint32_t *)&mark(r)->seq, __ATOMIC_SEQ_CST);
}

/* One interval goes by, and the owner has renewed its mark, or @other has mounted or not. */
static void let_owner_renew(struct fixture *r, struct node *other)
{
	const uint32_t before = seq_of(r);

	while (seq_of(r) == before && !is_done(other)) {
		shim_time_advance_ns(NSEC_PER_SEC);
		usleep(1000);
	}
}

/* Another node, which is not a part of this test, takes the disk. */
static void take_over(struct fixture *r)
{
	mark(r)->seq = cpu_to_le32(0x1234);
	strcpy(mark(r)->nodename, "stranger");
}

static void start(struct fixture *r, struct ktest *t)
{
	char path[80];

	memset(r, 0, sizeof(*r));
	r->t = t;
	image_dir(r->dir, "mmp");
	/* Without checksums, so that the tests can write a mark. */
	MUST(!shell("PATH=$PATH:/usr/sbin:/sbin mke2fs -q -F -t ext4 -O mmp,^metadata_csum "
		    "-J size=1 %s/image 16M >/dev/null",
		    r->dir));
	snprintf(path, sizeof(path), "%s/image", r->dir);
	r->disk = logdisk_open(path);
	shim_time_freeze(true);
	mount_begin(r, &r->a, "node-a");
	mount_end(&r->a);
	MUST(!r->a.err);
}

static void stop(struct fixture *r, bool clean)
{
	char path[80];

	shim_time_freeze(false);
	snprintf(path, sizeof(path), "%s/image", r->dir);
	logdisk_save(r->disk, path);
	logdisk_close(r->disk);
	if (clean)
		image_is_clean(r->t, r->dir, "image", true);
	else
		shell("rm -rf %s", r->dir);
}

static int make_dir(struct fs *fs, const char *name)
{
	const struct fs_new what = { .mode = S_IFDIR | 0755 };
	struct fs_inode *root = fs_inode_get(fs, fs->root_ino, FS_ANY_GEN), *in;
	int err = 0;

	MUST(!IS_ERR(root));
	in = fs_create(root, name, strlen(name), &what, change());
	if (IS_ERR(in))
		err = (int)PTR_ERR(in);
	else
		fs_inode_put(in);
	fs_inode_put(root);
	return err;
}

/* The second node is refused as long as the first one renews its mark, and welcome afterwards. */
static void one_owner_at_a_time(struct ktest *t)
{
	struct fixture r;

	start(&r, t);
	EXPECT_TRUE(t, seq_of(&r) != EXT4_MMP_SEQ_CLEAN);
	EXPECT_STREQ(t, mark(&r)->nodename, "node-a");
	EXPECT_EQ(t, make_dir(r.a.fs, "of-a"), 0);
	mount_begin(&r, &r.b, "node-b");
	while (!is_done(&r.b))
		let_owner_renew(&r, &r.b);
	mount_end(&r.b);
	EXPECT_EQ(t, r.b.err, -EBUSY);
	EXPECT_STREQ(t, r.b.why, "in use by node-a");
	EXPECT_EQ(t, make_dir(r.a.fs, "still-of-a"), 0);
	fs_unmount(r.a.fs);
	EXPECT_EQ(t, seq_of(&r), EXT4_MMP_SEQ_CLEAN);
	mount_begin(&r, &r.b, "node-b");
	EXPECT_TRUE(t, mount_end(&r.b) >= 2 * RENEW + 1); /* it looks whether it is alone */
	EXPECT_EQ(t, r.b.err, 0);
	EXPECT_EQ(t, make_dir(r.b.fs, "of-b"), 0);
	fs_unmount(r.b.fs);
	stop(&r, true);
}

/* A node that stood still finds its successor's mark, and writes nothing any more. */
static void nothing_is_written_after_a_successor(struct ktest *t)
{
	struct fixture r;
	size_t events;

	start(&r, t);
	EXPECT_EQ(t, make_dir(r.a.fs, "before"), 0);
	take_over(&r);
	events = logdisk_nr_events(r.disk);
	shim_time_advance_ns(2 * RENEW * NSEC_PER_SEC);
	EXPECT_EQ(t, make_dir(r.a.fs, "after"), -EROFS);
	EXPECT_TRUE(t, fs_sync(r.a.fs) < 0);
	fs_unmount(r.a.fs);
	EXPECT_EQ(t, logdisk_nr_events(r.disk), events);
	EXPECT_EQ(t, seq_of(&r), 0x1234u);
	stop(&r, false);
}

/* Nor when it had nothing to write: the end of its mount finds the successor. */
static void an_idle_mount_ends_without_a_word(struct ktest *t)
{
	struct fixture r;
	size_t events;

	start(&r, t);
	EXPECT_EQ(t, make_dir(r.a.fs, "before"), 0);
	EXPECT_EQ(t, fs_sync(r.a.fs), 0);
	take_over(&r);
	events = logdisk_nr_events(r.disk);
	shim_time_advance_ns(2 * RENEW * NSEC_PER_SEC);
	fs_unmount(r.a.fs);
	EXPECT_EQ(t, logdisk_nr_events(r.disk), events);
	stop(&r, false);
}

/* So is a commit that comes late, of a change that was begun in time. */
static void a_late_commit_is_not_written(struct ktest *t)
{
	struct fixture r;
	size_t events;

	start(&r, t);
	EXPECT_EQ(t, make_dir(r.a.fs, "uncommitted"), 0);
	events = logdisk_nr_events(r.disk);
	take_over(&r);
	shim_time_advance_ns(2 * RENEW * NSEC_PER_SEC);
	EXPECT_TRUE(t, fs_sync(r.a.fs) < 0);
	fs_unmount(r.a.fs);
	EXPECT_EQ(t, logdisk_nr_events(r.disk), events);
	stop(&r, false);
}

/* After a crash the next mount waits, recovers, and keeps the disk meanwhile. */
static void a_crash_is_waited_for(struct ktest *t)
{
	struct logdisk *old;
	struct fixture r;
	char path[80];

	start(&r, t);
	EXPECT_EQ(t, make_dir(r.a.fs, "synced"), 0);
	EXPECT_EQ(t, fs_sync(r.a.fs), 0);
	snprintf(path, sizeof(path), "%s/crashed", r.dir);
	logdisk_save(r.disk, path);
	old = r.disk;
	r.disk = logdisk_open(path);
	mount_begin(&r, &r.b, "node-b");
	EXPECT_TRUE(t, mount_end(&r.b) >= 2 * (2 * 2 * RENEW + 1));
	EXPECT_EQ(t, r.b.err, 0);
	EXPECT_EQ(t, make_dir(r.b.fs, "synced"), -EEXIST);
	fs_unmount(r.b.fs);
	fs_unmount(r.a.fs);
	logdisk_close(old);
	stop(&r, true);
}

/* Of two nodes that read a clean mark at once the one that writes last has the disk. */
static void the_last_of_two_claims_wins(struct ktest *t)
{
	size_t events;
	struct fixture r;

	start(&r, t);
	fs_unmount(r.a.fs);
	events = logdisk_nr_events(r.disk);
	mount_begin(&r, &r.b, "node-b");
	while (seq_of(&r) == EXT4_MMP_SEQ_CLEAN)
		usleep(1000);
	take_over(&r);
	mount_end(&r.b);
	EXPECT_EQ(t, r.b.err, -EBUSY);
	EXPECT_EQ(t, logdisk_nr_events(r.disk), events + 1);
	stop(&r, false);
}

/* Marks that no tool makes are refused before anything is written. */
static void bad_marks_are_refused(struct ktest *t)
{
	static const struct {
		uint32_t seq, magic;
		uint16_t interval;
		int err;
	} cases[] = {
		{ EXT4_MMP_SEQ_FSCK, EXT4_MMP_MAGIC, 5, -EBUSY },
		{ EXT4_MMP_SEQ_CLEAN, EXT4_MMP_MAGIC, 601, -EUCLEAN },
		{ EXT4_MMP_SEQ_CLEAN, 0, 5, -EUCLEAN },
	};
	size_t events;
	struct fixture r;

	start(&r, t);
	fs_unmount(r.a.fs);
	events = logdisk_nr_events(r.disk);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		mark(&r)->seq = cpu_to_le32(cases[i].seq);
		mark(&r)->magic = cpu_to_le32(cases[i].magic);
		mark(&r)->check_interval = cpu_to_le16(cases[i].interval);
		mount_begin(&r, &r.b, "node-b");
		mount_end(&r.b);
		EXPECT_EQ(t, r.b.err, cases[i].err);
	}
	EXPECT_EQ(t, logdisk_nr_events(r.disk), events);
	stop(&r, false);
}

/* A bitmap that calls the mark's block free does not have it overwritten. */
static void no_file_gets_the_mark(struct ktest *t)
{
	const struct ext4_super_disk *sb;
	const struct ext4_group_disk *gd;
	uint8_t *bytes, *bitmap;
	struct fixture r;
	uint64_t bit;
	int err = 0;

	start(&r, t);
	fs_unmount(r.a.fs);
	bytes = logdisk_bytes(r.disk);
	sb = (const void *)(bytes + EXT4_SUPER_OFFSET);
	gd = (const void *)(bytes + 2 * EXT4_SUPER_OFFSET);
	MUST(!le32_to_cpu(sb->log_block_size) && le32_to_cpu(sb->first_data_block) == 1);
	bitmap = bytes + (uint64_t)le32_to_cpu(gd->block_bitmap_lo) * 1024;
	bit = le64_to_cpu(sb->mmp_block) - 1;
	MUST(bit < le32_to_cpu(sb->blocks_per_group) && bitmap[bit / 8] & 1u << bit % 8);
	bitmap[bit / 8] &= (uint8_t)~(1u << bit % 8);
	mount_begin(&r, &r.b, "node-b");
	mount_end(&r.b);
	EXPECT_EQ(t, r.b.err, 0);
	for (char name[] = "a"; name[0] <= 'z' && !err; name[0]++)
		err = make_dir(r.b.fs, name);
	EXPECT_EQ(t, err, -EUCLEAN);
	fs_unmount(r.b.fs);
	EXPECT_EQ(t, le32_to_cpu(mark(&r)->magic), EXT4_MMP_MAGIC);
	EXPECT_STREQ(t, mark(&r)->nodename, "node-b");
	stop(&r, false);
}

static const struct ktest_case mmp_cases[] = {
	KTEST(one_owner_at_a_time),
	KTEST(nothing_is_written_after_a_successor),
	KTEST(an_idle_mount_ends_without_a_word),
	KTEST(a_late_commit_is_not_written),
	KTEST(a_crash_is_waited_for),
	KTEST(the_last_of_two_claims_wins),
	KTEST(bad_marks_are_refused),
	KTEST(no_file_gets_the_mark),
	{ 0 },
};
static const struct ktest_suite mmp_suite = { .name = "fs.mmp", .cases = mmp_cases };
KTEST_SUITE(mmp_suite);
