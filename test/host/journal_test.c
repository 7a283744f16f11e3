/* SPDX-License-Identifier: MIT */
/*
 * Transactions of ext4 on images of mke2fs: what a handle may do, what reaches the disk when, what
 * several threads may do at once, what recovery makes of journals of debugfs, and of broken ones.
 *
 * The blocks that are changed here belong to a file, so that e2fsck has nothing to say about them.
 */
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

#include "../../fs/ext4/group.h"
#include "../../fs/ext4/journal_priv.h"
#include "image_kit.h"
#include "logdisk.h"
#include <shim/shim.h>

#define NR_BLOCKS 64u

struct fixture {
	struct ktest *t;
	char dir[64];
	struct logdisk *disk;
	struct ext4_fs *fs;
	uint64_t first; /* of NR_BLOCKS neighbours */
	uint32_t ino;
};

static const char *path_of(const struct fixture *r, const char *name)
{
	static char path[4][128];
	static int turn;

	turn = (turn + 1) % 4;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", r->dir, name);
	return path[turn];
}

static void make_image(struct fixture *r, const char *options)
{
	image_dir(r->dir, "journal");
	MUST(!shell("cd %s && mkdir t && : >t/g1 && : >t/g2 && : >t/g3 && "
		    "dd if=/dev/zero bs=65536 count=4 2>/dev/null "
		    "| tr '\\000' x >t/file && "
		    "PATH=$PATH:/usr/sbin:/sbin mke2fs -q -F -b 1024 -d t %s image 8M >/dev/null",
		    r->dir, options));
}

static int try_mount(struct fixture *r, bool writable)
{
	const struct fs_mount_options opt = { .cache_bytes = 64u << 10,
					      .writable = writable,
					      .manual_commit = true };
	struct fs *fs = NULL;
	const int err = ext4_mount(logdisk_bd(r->disk), &opt, &fs);

	r->fs = err ? NULL : container_of(fs, struct ext4_fs, base);
	return err;
}

static void find_file(struct fixture *r)
{
	struct fs_inode *root = fs_inode_get(&r->fs->base, r->fs->base.root_ino, FS_ANY_GEN), *in;
	struct fs_stat st;
	struct ext4_map map;

	in = fs_lookup(root, "file", 4);
	MUST(!IS_ERR(in));
	fs_inode_stat(in, &st);
	r->ino = (uint32_t)st.ino;
	MUST(!ext4_map(in, 100, NR_BLOCKS, &map) && map.len == NR_BLOCKS);
	r->first = map.block;
	fs_inode_put(in);
	fs_inode_put(root);
}

static void start(struct fixture *r, struct ktest *t, const char *options)
{
	memset(r, 0, sizeof(*r));
	r->t = t;
	make_image(r, options);
	r->disk = logdisk_open(path_of(r, "image"));
	MUST(!try_mount(r, true));
	find_file(r);
}

static void finish(struct fixture *r)
{
	if (r->fs)
		fs_unmount(&r->fs->base);
	logdisk_close(r->disk);
	shell("rm -rf %s", r->dir);
}

/* The power goes off behind event @at, and the disk is mounted again. */
static int cut_and_mount(struct fixture *r, size_t at, uint64_t seed)
{
	if (r->fs)
		fs_unmount(&r->fs->base);
	logdisk_crash(r->disk, at, seed, path_of(r, "cut"));
	logdisk_close(r->disk);
	r->disk = logdisk_open(path_of(r, "cut"));
	return try_mount(r, true);
}

static struct bcache_buf *block(struct fixture *r, uint32_t i)
{
	struct bcache_buf *buf = bcache_get(r->fs->bc, r->first + i);

	MUST(!IS_ERR(buf));
	return buf;
}

static uint32_t value(struct fixture *r, uint32_t i)
{
	struct bcache_buf *buf = block(r, i);
	const uint32_t v = get_unaligned_be32(buf->data);

	bcache_put(buf);
	return v;
}

/* The value that the disk has in place. */
static uint32_t on_disk(struct fixture *r, uint32_t i)
{
	static uint8_t raw[1024];

	MUST(!blk_read(logdisk_bd(r->disk), (r->first + i) * 2, raw, sizeof(raw)));
	return get_unaligned_be32(raw);
}

static void set(struct fixture *r, struct ext4_handle *h, uint32_t i, uint32_t v)
{
	struct bcache_buf *buf = block(r, i);

	MUST(!ext4_write_access(h, buf));
	put_unaligned_be32(v, buf->data);
	MUST(!ext4_dirty(h, buf));
	bcache_put(buf);
}

/* One transaction that sets block @i; it is not waited for. */
static ext4_tid_t set_one(struct fixture *r, uint32_t i, uint32_t v)
{
	struct ext4_handle *h = ext4_begin(r->fs, 1);
	ext4_tid_t tid;

	MUST(!IS_ERR(h));
	set(r, h, i, v);
	tid = ext4_handle_tid(h);
	MUST(!ext4_end(h));
	return tid;
}

#define XXXX 0x78787878u

static void handles_nest_and_count(struct ktest *t)
{
	struct ext4_handle *h, *inner;
	struct bcache_buf *buf;
	struct fixture r;
	uint32_t max;

	start(&r, t, "-t ext4 -J size=1");
	max = ext4_max_credits(r.fs);
	EXPECT_TRUE(t, IS_ERR(ext4_begin(r.fs, max + 1)));
	h = ext4_begin(r.fs, 2);
	inner = ext4_begin(r.fs, 100);
	EXPECT_TRUE(t, inner == h);
	EXPECT_EQ(t, ext4_credits_left(h), 2u);
	set(&r, h, 0, 1);
	set(&r, h, 0, 2); /* the same block again is free */
	EXPECT_EQ(t, ext4_credits_left(h), 1u);
	EXPECT_EQ(t, ext4_end(inner), 0);
	set(&r, h, 1, 1);
	buf = block(&r, 2);
	EXPECT_EQ(t, ext4_write_access(h, buf), -ENOSPC);
	bcache_put(buf);
	EXPECT_EQ(t, ext4_extend(h, 3), 0);
	set(&r, h, 2, 1);
	EXPECT_EQ(t, ext4_extend(h, max), 1); /* the transaction has no room for that */
	EXPECT_EQ(t, ext4_restart(h, max), 0);
	EXPECT_EQ(t, ext4_credits_left(h), max);
	EXPECT_EQ(t, ext4_end(h), 0);
	finish(&r);
}

static void nothing_is_in_place_before_its_commit(struct ktest *t)
{
	ext4_tid_t tid;
	struct fixture r;
	size_t nr;

	start(&r, t, "-t ext4 -J size=1");
	nr = logdisk_nr_events(r.disk);
	tid = set_one(&r, 3, 77);
	EXPECT_EQ(t, logdisk_nr_events(r.disk), nr);
	EXPECT_EQ(t, ext4_commit_wait(r.fs, tid, false), 0);
	EXPECT_EQ(t, on_disk(&r, 3), XXXX);
	nr = logdisk_nr_events(r.disk);
	EXPECT_EQ(t, ext4_commit_wait(r.fs, tid, false), 0); /* no second time */
	EXPECT_EQ(t, logdisk_nr_events(r.disk), nr);
	EXPECT_EQ(t, ext4_commit_wait(r.fs, tid, true), 0); /* but data may want a flush */
	EXPECT_EQ(t, logdisk_nr_events(r.disk), nr + 1);
	EXPECT_EQ(t, cut_and_mount(&r, nr, 1), 0);
	EXPECT_EQ(t, value(&r, 3), 77u);
	EXPECT_EQ(t, on_disk(&r, 3), 77u);
	set_one(&r, 3, 78);
	EXPECT_EQ(t, ext4_sync(r.fs), 0);
	fs_unmount(&r.fs->base);
	r.fs = NULL;
	EXPECT_EQ(t, on_disk(&r, 3), 78u);
	EXPECT_EQ(t, try_mount(&r, false), 0); /* clean again */
	finish(&r);
}

/* In how many pieces do @nr blocks of the log from its head on lie on the disk? */
static size_t pieces_of_log(const struct fixture *r, uint32_t nr)
{
	const struct journal *j = r->fs->journal;
	size_t pieces = 1;

	for (uint32_t at = j->head; at + 1 < j->head + nr; at++)
		pieces += log_sector(j->log, at + 1) != log_sector(j->log, at) + 2;
	return pieces;
}

/* Descriptor and blocks in one write, a flush, and the commit block: as Linux does it. */
static void a_commit_is_two_writes_and_a_flush(struct ktest *t)
{
	struct ext4_handle *h;
	struct fixture r;
	ext4_tid_t tid;
	size_t nr, pieces;

	start(&r, t, "-t ext4 -J size=1");
	EXPECT_EQ(t, ext4_commit_wait(r.fs, set_one(&r, 0, 1), false), 0); /* marks the log */
	for (uint32_t n = 1; n <= 5; n++) {
		h = ext4_begin(r.fs, n);
		for (uint32_t i = 0; i < n; i++)
			set(&r, h, 2 * i, 100 * n + i);
		tid = ext4_handle_tid(h);
		EXPECT_EQ(t, ext4_end(h), 0);
		pieces = pieces_of_log(&r, n + 1);
		EXPECT_LE(t, pieces, 2);
		nr = logdisk_nr_asked(r.disk);
		EXPECT_EQ(t, ext4_commit_wait(r.fs, tid, false), 0);
		EXPECT_EQ(t, logdisk_nr_asked(r.disk), nr + pieces + 2);
	}
	EXPECT_EQ(t, cut_and_mount(&r, logdisk_nr_events(r.disk), 1), 0);
	for (uint32_t i = 0; i < 5; i++)
		EXPECT_EQ(t, value(&r, 2 * i), 500 + i);
	finish(&r);
}

/* A block that begins as the journal's own blocks do comes back as it was. */
static void magic_is_escaped(struct ktest *t)
{
	struct fixture r;

	start(&r, t, "-t ext4 -J size=1");
	EXPECT_EQ(t, ext4_commit_wait(r.fs, set_one(&r, 5, JBD2_MAGIC), false), 0);
	EXPECT_EQ(t, value(&r, 5), JBD2_MAGIC);
	EXPECT_EQ(t, cut_and_mount(&r, logdisk_nr_events(r.disk), 3), 0);
	EXPECT_EQ(t, value(&r, 5), JBD2_MAGIC);
	finish(&r);
}

/* There is one place for the copy of such a block, so the log is written in several batches. */
static void magic_many_times(struct ktest *t)
{
	struct ext4_handle *h;
	struct fixture r;
	ext4_tid_t tid;

	start(&r, t, "-t ext4 -J size=1");
	h = ext4_begin(r.fs, 20);
	for (uint32_t i = 0; i < 20; i++)
		set(&r, h, i, i % 4 ? JBD2_MAGIC : i);
	tid = ext4_handle_tid(h);
	EXPECT_EQ(t, ext4_end(h), 0);
	EXPECT_EQ(t, ext4_commit_wait(r.fs, tid, false), 0);
	EXPECT_EQ(t, cut_and_mount(&r, logdisk_nr_events(r.disk), 5), 0);
	for (uint32_t i = 0; i < 20; i++)
		EXPECT_EQ(t, value(&r, i), i % 4 ? JBD2_MAGIC : i);
	finish(&r);
}

/* Transactions as large as can be, many times what the log holds. */
static void a_full_log_makes_writers_wait(struct ktest *t)
{
	struct ext4_handle *h;
	struct fixture r;

	start(&r, t, "-t ext4 -J size=1");
	for (uint32_t i = 0; i < 200; i++) {
		h = ext4_begin(r.fs, ext4_max_credits(r.fs));
		MUST(!IS_ERR(h));
		for (uint32_t b = 0; b < NR_BLOCKS; b++)
			set(&r, h, b, i);
		EXPECT_EQ(t, ext4_end(h), 0);
	}
	EXPECT_GE(t, r.fs->journal->next_tid, 100ull); /* each pushed the one before out */
	fs_unmount(&r.fs->base);
	r.fs = NULL;
	EXPECT_EQ(t, on_disk(&r, 9), 199u);
	finish(&r);
}

static void a_failed_write_ends_all_writing(struct ktest *t)
{
	struct fixture r;
	size_t nr;

	start(&r, t, "-t ext4 -J size=1");
	EXPECT_EQ(t, ext4_commit_wait(r.fs, set_one(&r, 1, 5), false), 0);
	nr = logdisk_nr_events(r.disk);
	logdisk_fail_at(r.disk, nr);
	EXPECT_EQ(t, ext4_commit_wait(r.fs, set_one(&r, 1, 6), false), -EIO);
	logdisk_fail_at(r.disk, SIZE_MAX);
	EXPECT_TRUE(t, ext4_aborted(r.fs));
	EXPECT_FALSE(t, ext4_writable(r.fs));
	EXPECT_TRUE(t, PTR_ERR(ext4_begin(r.fs, 1)) == -EROFS);
	EXPECT_EQ(t, ext4_sync(r.fs), -EROFS);
	fs_unmount(&r.fs->base);
	r.fs = NULL;
	EXPECT_EQ(t, logdisk_nr_events(r.disk), nr);
	EXPECT_EQ(t, cut_and_mount(&r, nr, 1), 0);
	EXPECT_EQ(t, value(&r, 1), 5u);
	/* The same when corruption was found. */
	set_one(&r, 1, 9);
	nr = logdisk_nr_events(r.disk);
	ext4_abort(r.fs, "a test says so");
	fs_unmount(&r.fs->base);
	r.fs = NULL;
	EXPECT_EQ(t, logdisk_nr_events(r.disk), nr);
	finish(&r);
}

/* --- threads --- */

struct crew {
	struct fixture *r;
	pthread_mutex_t lock; /* between ext4_write_access() and ext4_dirty() of a pair of blocks */
	uint32_t seed;
	int nr_failed;
};

/* Blocks 2i and 2i + 1 always hold the same number. */
static void *member(void *arg)
{
	struct crew *c = arg;
	struct prng rng;

	prng_seed(&rng, __atomic_add_fetch(&c->seed, 1, __ATOMIC_RELAXED));
	for (uint32_t n = 0; n < 300; n++) {
		const uint32_t i = (uint32_t)prng_below(&rng, NR_BLOCKS / 2);
		struct ext4_handle *h = ext4_begin(c->r->fs, 2);
		ext4_tid_t tid;
		uint32_t v;

		MUST(!IS_ERR(h));
		pthread_mutex_lock(&c->lock);
		v = value(c->r, 2 * i) + 1;
		set(c->r, h, 2 * i, v);
		set(c->r, h, 2 * i + 1, v);
		pthread_mutex_unlock(&c->lock);
		tid = ext4_handle_tid(h);
		MUST(!ext4_end(h));
		if (prng_below(&rng, 10) == 0)
			MUST(!ext4_commit_wait(c->r->fs, tid, true));
	}
	return NULL;
}

static void pairs_are_equal(struct fixture *r)
{
	for (uint32_t i = 0; i < NR_BLOCKS; i += 2)
		EXPECT_EQ(r->t, value(r, i), value(r, i + 1));
}

static void threads_share_commits(struct ktest *t)
{
	struct crew c = { .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t threads[6];
	struct prng rng;
	struct fixture r;
	uint64_t nr;

	start(&r, t, "-t ext4 -J size=1");
	c.r = &r;
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		MUST(!pthread_create(&threads[i], NULL, member, &c));
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	pairs_are_equal(&r);
	nr = r.fs->journal->nr_commits;
	EXPECT_GE(t, nr, 10ull);
	prng_seed(&rng, 5);
	fs_unmount(&r.fs->base);
	r.fs = NULL;
	for (int i = 0; i < 10 && !t->nr_failed; i++) {
		struct fixture cut = r;

		logdisk_crash(r.disk, prng_below(&rng, logdisk_nr_events(r.disk) + 1),
			      prng_next(&rng), path_of(&r, "cut"));
		cut.disk = logdisk_open(path_of(&r, "cut"));
		EXPECT_EQ(t, try_mount(&cut, true), 0);
		pairs_are_equal(&cut);
		fs_unmount(&cut.fs->base);
		logdisk_close(cut.disk);
	}
	finish(&r);
}

struct waiter_thread {
	struct fixture *r;
	ext4_tid_t tid;
	bool done; /* atomic */
};

static void *commits(void *arg)
{
	struct waiter_thread *w = arg;

	MUST(!ext4_commit_wait(w->r->fs, w->tid, false));
	__atomic_store_n(&w->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void a_commit_waits_for_ordered_data(struct ktest *t)
{
	struct waiter_thread w = { 0 };
	size_t nr;
	struct ext4_ordered o;
	struct ext4_handle *h;
	pthread_t thread;
	struct fixture r;

	start(&r, t, "-t ext4 -J size=1");
	h = ext4_begin(r.fs, 1);
	set(&r, h, 0, 1);
	ext4_order_begin(h, &o);
	w.r = &r;
	w.tid = ext4_handle_tid(h);
	MUST(!ext4_end(h));
	MUST(!pthread_create(&thread, NULL, commits, &w));
	/* The next transaction goes on meanwhile, once the first one is locked. */
	while (set_one(&r, 1, 1) == w.tid)
		;
	set_one(&r, 0, 2); /* the commit still has to log the 1 */
	EXPECT_FALSE(t, __atomic_load_n(&w.done, __ATOMIC_ACQUIRE));
	ext4_order_end(r.fs, &o, 0);
	pthread_join(thread, NULL);
	EXPECT_TRUE(t, w.done);
	EXPECT_EQ(t, value(&r, 0), 2u);
	nr = logdisk_nr_events(r.disk);
	EXPECT_EQ(t, cut_and_mount(&r, nr, 1), 0);
	EXPECT_EQ(t, value(&r, 0), 1u);
	finish(&r);
}

/* --- without a journal, orphans --- */

static void without_a_journal(struct ktest *t)
{
	struct fixture r;

	start(&r, t, "-t ext2");
	EXPECT_EQ(t, ext4_commit_wait(r.fs, set_one(&r, 3, 77), false), 0);
	EXPECT_EQ(t, on_disk(&r, 3), 77u);
	set_one(&r, 4, 78);
	fs_unmount(&r.fs->base);
	r.fs = NULL;
	EXPECT_EQ(t, on_disk(&r, 4), 78u);
	logdisk_save(r.disk, path_of(&r, "image"));
	EXPECT_EQ(t,
		  shell("PATH=$PATH:/usr/sbin:/sbin e2fsck -fn %s >/dev/null 2>&1",
			path_of(&r, "image")),
		  0);
	finish(&r);
}

/* Many blocks are written in several goes; when one fails the others are not begun. */
static void a_failed_write_without_a_journal(struct ktest *t)
{
	struct ext4_handle *h;
	struct fixture r;
	size_t nr;

	start(&r, t, "-t ext2");
	h = ext4_begin(r.fs, 150);
	MUST(!IS_ERR(h));
	for (uint32_t i = 0; i < 150; i++)
		set(&r, h, i, i);
	nr = logdisk_nr_events(r.disk);
	logdisk_fail_at(r.disk, nr);
	EXPECT_EQ(t, ext4_end(h), 0);
	EXPECT_EQ(t, ext4_sync(r.fs), -EIO);
	EXPECT_FALSE(t, ext4_writable(r.fs));
	EXPECT_EQ(t, logdisk_nr_events(r.disk), nr);
	finish(&r);
}

/* A truncation that fails for want of memory, at its @n-th allocation; false: it did not fail. */
static bool truncation_fails(struct ktest *t, long n)
{
	const struct fs_attr attr = { .mask = FS_SET_SIZE, .size = 1000 };
	const struct fs_change ch = { .now = { .sec = 1 } };
	static uint8_t page[PAGE_SIZE] __aligned(4096);
	void *pages[1] = { page };
	struct fs_inode *in;
	struct fixture r;
	struct fs_stat st;
	int err;

	start(&r, t, "-t ext4 -J size=1");
	in = fs_inode_get(&r.fs->base, r.ino, FS_ANY_GEN);
	MUST(!IS_ERR(in));
	shim_fail_alloc_after(n);
	err = fs_setattr(in, &attr, &ch);
	shim_fail_alloc_after(-1);
	fs_inode_stat(in, &st);
	EXPECT_FALSE(t, ext4_aborted(r.fs));
	EXPECT_EQ(t, st.size, err ? 4u * 65536u : 1000u);
	if (err) {
		MUST(!fs_read_pages(in, 0, pages, 1));
		EXPECT_EQ(t, page[999], 'x');
		EXPECT_EQ(t, page[1000], 'x');
		EXPECT_EQ(t, fs_setattr(in, &attr, &ch), 0);
	}
	fs_inode_put(in);
	finish(&r);
	return err != 0;
}

static void a_truncation_that_fails_changes_nothing(struct ktest *t)
{
	long n = 0;

	while (truncation_fails(t, n))
		n++;
	EXPECT_GT(t, n, 0);
}

static uint32_t seen[8], nr_seen;

static int see(struct ext4_fs *fs, uint32_t ino)
{
	struct ext4_handle *h = ext4_begin(fs, EXT4_ORPHAN_CREDITS);
	int err;

	MUST(!IS_ERR(h) && nr_seen < ARRAY_SIZE(seen));
	seen[nr_seen++] = ino;
	err = ext4_orphan_del(h, ino);
	MUST(!ext4_end(h));
	return err;
}

static void orphans_are_a_chain(struct ktest *t)
{
	struct ext4_handle *h;
	struct fixture r;

	start(&r, t, "-t ext4 -J size=1");
	h = ext4_begin(r.fs, 20);
	for (uint32_t i = 0; i < 4; i++)
		EXPECT_EQ(t, ext4_orphan_add(h, r.ino + i), 0);
	EXPECT_EQ(t, ext4_orphan_add(h, r.ino), 0); /* it is there */
	EXPECT_EQ(t, ext4_orphan_del(h, r.ino + 2), 0);
	EXPECT_EQ(t, ext4_orphan_del(h, r.ino + 3), 0);
	EXPECT_EQ(t, ext4_orphan_del(h, r.ino + 3), 0);
	EXPECT_EQ(t, ext4_end(h), 0);
	nr_seen = 0;
	ext4_orphans_free(r.fs); /* as if it was mounted anew */
	EXPECT_EQ(t, ext4_orphans_process(r.fs, see), 0);
	EXPECT_EQ(t, nr_seen, 2u);
	EXPECT_EQ(t, seen[0], r.ino + 1);
	EXPECT_EQ(t, seen[1], r.ino);
	EXPECT_EQ(t, le32_to_cpu(ext4_super_in(r.fs, r.fs->super_buf)->last_orphan), 0u);
	finish(&r);
}

/* The accessors of bitmaps that nothing else tests. */
static void inode_bitmaps(struct ktest *t)
{
	struct ext4_handle *h;
	struct bcache_buf *map;
	struct ext4_gd gd;
	struct fixture r;
	int64_t before;

	start(&r, t, "-t ext4 -J size=1");
	before = atomic64_read(&r.fs->free_inodes);
	EXPECT_TRUE(t, ext4_group_has_super(r.fs, 0));
	h = ext4_begin(r.fs, 4);
	ext4_group_lock(r.fs, 0);
	EXPECT_EQ(t, ext4_gd_read(r.fs, 0, &gd), 0);
	map = ext4_inode_bitmap(r.fs, 0, &gd);
	ASSERT_FALSE(t, IS_ERR(map));
	EXPECT_EQ(t, map->data[0], 0xff);
	EXPECT_EQ(t, ext4_write_access(h, map), 0);
	EXPECT_EQ(t, ext4_inode_bitmap_dirty(h, &gd, map), 0);
	EXPECT_EQ(t, ext4_gd_write(h, 0, &gd), 0);
	bcache_put(map);
	ext4_group_unlock(r.fs, 0);
	EXPECT_EQ(t, ext4_end(h), 0);
	ext4_count_free_inodes(r.fs, -1);
	EXPECT_EQ(t, atomic64_read(&r.fs->free_inodes), before - 1);
	ext4_count_free_inodes(r.fs, 1);
	fs_unmount(&r.fs->base);
	r.fs = NULL;
	logdisk_save(r.disk, path_of(&r, "image"));
	EXPECT_EQ(t,
		  shell("PATH=$PATH:/usr/sbin:/sbin e2fsck -fn %s >/dev/null 2>&1",
			path_of(&r, "image")),
		  0);
	finish(&r);
}

/* --- journals of others --- */

static const struct foreign {
	const char *mke2fs;
	const char *open; /* of debugfs */
} foreign[] = {
	{ "-t ext4 -J size=1", "jo -c -v 3" },
	{ "-t ext4 -J size=1", "jo -c -v 2" },
	{ "-t ext4 -J size=1 -O ^64bit,^metadata_csum", "jo" },
	{ "-t ext3 -J size=1", "jo" },
};

/* Journals that debugfs wrote: we make of them what e2fsck does. */
static void journals_of_debugfs(struct ktest *t)
{
	struct fixture r;

	for (size_t i = 0; i < ARRAY_SIZE(foreign) && !t->nr_failed; i++) {
		unsigned long long b;

		start(&r, t, foreign[i].mke2fs);
		fs_unmount(&r.fs->base);
		r.fs = NULL;
		b = r.first;
		logdisk_save(r.disk, path_of(&r, "image"));
		MUST(!shell(
			"cd %s && dd if=/dev/urandom of=a bs=1024 count=2 2>/dev/null && "
			"printf '\\300\\073\\071\\230' | dd of=a conv=notrunc 2>/dev/null && "
			"dd if=/dev/urandom of=b bs=1024 count=2 2>/dev/null && "
			"printf '%s\\njw -b %llu,%llu a\\njw -b %llu,%llu b\\njw -r %llu\\n"
			"jw -b %llu,%llu a\\njc\\n' >cmds && PATH=$PATH:/usr/sbin:/sbin "
			"debugfs -w -f cmds image >/dev/null 2>&1 && cp image ref && "
			"{ PATH=$PATH:/usr/sbin:/sbin e2fsck -p ref >/dev/null || [ $? = 1 ]; }",
			r.dir, foreign[i].open, b, b + 1, b + 2, b + 3, b + 3, b + 8, b + 9));
		logdisk_close(r.disk);
		r.disk = logdisk_open(path_of(&r, "image"));
		MUST(!try_mount(&r, true));
		EXPECT_EQ(t, value(&r, 0), JBD2_MAGIC); /* it was escaped */
		EXPECT_EQ(t, value(&r, 8), JBD2_MAGIC);
		EXPECT_EQ(t, value(&r, 3), XXXX); /* it was revoked */
		fs_unmount(&r.fs->base);
		r.fs = NULL;
		logdisk_save(r.disk, path_of(&r, "image"));
		EXPECT_EQ(t,
			  shell("cd %s && for i in image ref; do dd if=$i bs=1024 skip=%llu "
				"count=%u 2>/dev/null >$i.part; done; cmp image.part ref.part",
				r.dir, b, NR_BLOCKS),
			  0);
		EXPECT_EQ(t,
			  shell("PATH=$PATH:/usr/sbin:/sbin e2fsck -fn %s >/dev/null 2>&1",
				path_of(&r, "image")),
			  0);
		finish(&r);
	}
}

/* Flip a bit somewhere in what the log has, and mount; 0 or what the mount answered. */
static int mount_damaged(struct fixture *cut, const struct fixture *r, struct prng *rng,
			 int nr_bits)
{
	const struct log *log = r->fs->journal->log;

	*cut = *r;
	cut->disk = logdisk_open(path_of(r, "cut"));
	while (nr_bits--) {
		const uint32_t lblk = log->first + (uint32_t)prng_below(rng, 24);
		uint8_t *block =
			logdisk_bytes(cut->disk) + (log_sector(log, lblk) << BLK_SECTOR_SHIFT);
		/* Headers and tags, of which there are few, as often as data. */
		const uint64_t at = prng_below(rng, prng_next(rng) % 2 ? 64 : 1024);

		block[at] ^= (uint8_t)(1u << prng_below(rng, 8));
	}
	return try_mount(cut, true);
}

static void write_eight(struct fixture *r, struct ktest *t, const char *options)
{
	start(r, t, options);
	for (uint32_t i = 1; i <= 8; i++)
		MUST(!ext4_commit_wait(r->fs, set_one(r, i, i), false));
	logdisk_crash(r->disk, logdisk_nr_events(r->disk), 1, path_of(r, "cut"));
}

/* A journal with damage anywhere: refused, or replayed as far as it is good. */
static void damaged_journals(struct ktest *t)
{
	struct fixture r, cut;
	struct prng rng;
	int nr_good = 0;

	write_eight(&r, t, "-t ext4 -J size=1");
	prng_seed(&rng, 9);
	for (int i = 0; i < 300 && !t->nr_failed; i++) {
		const int err = mount_damaged(&cut, &r, &rng, 1);
		bool ended = false;

		EXPECT_TRUE(t, !err || err == -EUCLEAN);
		for (uint32_t b = 1; b <= 8 && !err; b++) {
			const uint32_t v = value(&cut, b);

			/* The replayed blocks are a beginning of what was committed. */
			EXPECT_TRUE(t, v == (ended ? XXXX : b) || v == XXXX);
			ended = ended || v == XXXX;
		}
		nr_good += !err;
		if (!err)
			fs_unmount(&cut.fs->base);
		logdisk_close(cut.disk);
	}
	EXPECT_GE(t, nr_good, 1);
	finish(&r);
}

/* A wrong checksum in the last commit block: the log ends before that transaction. */
static void a_bad_commit_block_ends_the_log(struct ktest *t)
{
	struct fixture r, cut;
	uint32_t lblk;

	write_eight(&r, t, "-t ext4 -J size=1");
	lblk = r.fs->journal->head - 1;
	cut = r;
	cut.disk = logdisk_open(path_of(&r, "cut"));
	logdisk_bytes(cut.disk)[(log_sector(r.fs->journal->log, lblk) << BLK_SECTOR_SHIFT) + 900] ^=
		1;
	EXPECT_EQ(t, try_mount(&cut, true), 0);
	EXPECT_EQ(t, value(&cut, 7), 7u);
	EXPECT_EQ(t, value(&cut, 8), XXXX);
	fs_unmount(&cut.fs->base);
	logdisk_close(cut.disk);
	finish(&r);
}

/* Without checksums damage may be replayed: what counts is that the sanitizers stay silent. */
static void damaged_journals_without_checksums(struct ktest *t)
{
	struct fixture r, cut;
	struct prng rng;

	write_eight(&r, t, "-t ext3 -J size=1");
	prng_seed(&rng, 10);
	for (int i = 0; i < 500; i++) {
		if (!mount_damaged(&cut, &r, &rng, 1 + i % 4))
			fs_unmount(&cut.fs->base);
		logdisk_close(cut.disk);
	}
	finish(&r);
}

static const struct ktest_case journal_cases[] = {
	KTEST(handles_nest_and_count),
	KTEST(nothing_is_in_place_before_its_commit),
	KTEST(a_commit_is_two_writes_and_a_flush),
	KTEST(magic_is_escaped),
	KTEST(magic_many_times),
	KTEST(a_full_log_makes_writers_wait),
	KTEST(a_failed_write_ends_all_writing),
	KTEST(threads_share_commits),
	KTEST(a_commit_waits_for_ordered_data),
	KTEST(without_a_journal),
	KTEST(a_failed_write_without_a_journal),
	KTEST(a_truncation_that_fails_changes_nothing),
	KTEST(orphans_are_a_chain),
	KTEST(inode_bitmaps),
	KTEST(journals_of_debugfs),
	KTEST(damaged_journals),
	KTEST(a_bad_commit_block_ends_the_log),
	KTEST(damaged_journals_without_checksums),
	{ 0 },
};
static const struct ktest_suite journal_suite = { .name = "fs.journal", .cases = journal_cases };
KTEST_SUITE(journal_suite);
