/* SPDX-License-Identifier: MIT */
/*
 * A disk that refuses one write or flush, each in turn, while files change: who is told, that
 * nothing is written afterwards unless only old bytes were concerned, and what is left on the disk.
 */
#include <stdlib.h>
#include <string.h>

#include <drivers/blkdev.h>
#include <fs/ext4.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <shim/shim.h>

#include "../../fs/ext4/ext4_priv.h"
#include "../../fs/ext4/journal.h"
#include "image_kit.h"
#include "logdisk.h"

#define LEN     20480u
#define PAGES   (LEN / 4096)
#define NR_OPS  14u
#define MAX_RUN 200u /* requests of one run, far more than there are */

struct fixture {
	struct ktest *t;
	char dir[64];
	struct logdisk *disk;
	struct fs *fs;
	struct fs_inode *root, *in;
	int err[NR_OPS];        /* of each operation */
	bool aborted;           /* found so behind an operation, */
	size_t last_event;      /* and so many events then */
	unsigned int nr_synced; /* operations that a sync has promised */
};

static struct fs_change *change(void)
{
	static struct fs_change ch = { .privileged = true };

	ch.now.sec = 1700000000;
	return &ch;
}

static const char *path_of(const struct fixture *r, const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", r->dir, name);
	return path;
}

static int write_pages(struct fixture *r, uint64_t off, char byte)
{
	static uint8_t buf[LEN] __attribute__((aligned(4096)));
	void *pages[PAGES];

	memset(buf, byte, sizeof(buf));
	for (size_t i = 0; i < PAGES; i++)
		pages[i] = buf + i * 4096;
	return fs_write_pages(r->in, off, LEN, pages, off + LEN, change());
}

static int create(struct fixture *r, const char *name)
{
	const struct fs_new what = { .mode = S_IFREG | 0644 };
	struct fs_inode *in = fs_create(r->root, name, strlen(name), &what, change());

	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	fs_inode_put(in);
	return 0;
}

/* Operation @nr of a run. A file "old", of LEN bytes 'o' and synced, was there before the first. */
static int operate(struct fixture *r, unsigned int nr)
{
	const struct fs_attr cut = { .mask = FS_SET_SIZE, .size = 100 };

	switch (nr) {
	case 0:
		return write_pages(r, 0, 'p'); /* over the old bytes: no metadata but the inode */
	case 1:
	case 5:
	case 9:
	case 13:
		return fs_sync(r->fs);
	case 2:
		return write_pages(r, LEN, 'q'); /* new blocks */
	case 3:
		return create(r, "a");
	case 4:
		return fs_fsync(r->in, false);
	case 6:
		return fs_rename(r->root, "a", 1, r->root, "b", 1, 0, change());
	case 7:
		return fs_setattr(r->in, &cut, change());
	case 8:
		return write_pages(r, 0, 'r');
	case 10:
		return fs_unlink(r->root, "b", 1, change());
	case 11:
		return create(r, "c");
	default:
		return fs_fsync(r->in, true);
	}
}

static void mount_it(struct fixture *r, const char *image)
{
	const struct fs_mount_options opt = { .cache_bytes = 256u << 10,
					      .writable = true,
					      .manual_commit = true };

	r->disk = logdisk_open(path_of(r, image));
	MUST(!ext4_mount(logdisk_bd(r->disk), &opt, &r->fs));
	r->root = fs_inode_get(r->fs, r->fs->root_ino, FS_ANY_GEN);
	MUST(!IS_ERR(r->root));
	r->in = fs_lookup(r->root, "old", 3);
	if (IS_ERR(r->in))
		r->in = NULL;
}

static void unmount_it(struct fixture *r, const char *image)
{
	if (r->in)
		fs_inode_put(r->in);
	fs_inode_put(r->root);
	fs_unmount(r->fs);
	logdisk_save(r->disk, path_of(r, image));
}

/* Request number @fail of the disk fails; the number of requests that there were. */
static size_t run(struct fixture *r, size_t fail)
{
	size_t nr;

	memset(r->err, 0, sizeof(r->err));
	r->aborted = false;
	r->nr_synced = 0;
	shim_log_clear();
	mount_it(r, "image");
	nr = logdisk_nr_asked(r->disk); /* the mount's own are another matter */
	if (fail != SIZE_MAX)
		logdisk_fail_only(r->disk, nr + fail);
	for (unsigned int i = 0; i < NR_OPS; i++) {
		r->err[i] = operate(r, i);
		if (r->aborted)
			continue;
		r->aborted = ext4_aborted(container_of(r->fs, struct ext4_fs, base));
		r->last_event = logdisk_nr_events(r->disk);
		if (!r->err[i] && (i % 4 == 1 || i == 4 || i == 12))
			r->nr_synced = i + 1;
	}
	nr = logdisk_nr_asked(r->disk) - nr;
	unmount_it(r, "after");
	return nr;
}

/* After an aborted run nothing was written behind, each change says so, one line too. */
static void check_aborted(struct fixture *r, size_t fail)
{
	unsigned int first = 0;

	EXPECT_EQ(r->t, logdisk_nr_events(r->disk), r->last_event);
	EXPECT_TRUE(r->t, shim_log_contains("the file system is read-only from now on"));
	while (first < NR_OPS && !r->err[first])
		first++;
	/* The operation that met it may be a change of which only the data were written at once. */
	for (unsigned int i = first + 1; i < NR_OPS; i++) {
		if (r->err[i] != -EROFS)
			ktest_fail(r->t, __FILE__, __LINE__, "request %zu: operation %u: %d", fail,
				   i, r->err[i]);
	}
	EXPECT_LT(r->t, first, NR_OPS);
}

/* All that was promised is there, in an image that e2fsck has only to replay. */
static void check_image(struct fixture *r, const char *image)
{
	const int status = shell("PATH=$PATH:/usr/sbin:/sbin e2fsck -p %s >%s/log 2>&1",
				 path_of(r, image), r->dir);

	EXPECT_TRUE(r->t, status == 0 || status == 1);
	image_is_clean(r->t, r->dir, image, false);
	/* Operation 5 promises "a" and the second half of "old"; 9 the rename; 13 the rest. */
	if (r->nr_synced > 13)
		EXPECT_EQ(r->t,
			  shell("debugfs -R 'stat c' %s 2>/dev/null | grep -q Inode:",
				path_of(r, image)),
			  0);
	else if (r->nr_synced == 10)
		EXPECT_EQ(r->t,
			  shell("debugfs -R 'stat b' %s 2>/dev/null | grep -q Inode:",
				path_of(r, image)),
			  0);
	else if (r->nr_synced == 5 || r->nr_synced == 6)
		EXPECT_EQ(r->t,
			  shell("debugfs -R 'stat a' %s 2>/dev/null | grep -q Inode:",
				path_of(r, image)),
			  0);
}

static void start(struct fixture *r, struct ktest *t, const char *options)
{
	const struct fs_new what = { .mode = S_IFREG | 0644 };

	memset(r, 0, sizeof(*r));
	r->t = t;
	image_dir(r->dir, "errors");
	MUST(!shell("PATH=$PATH:/usr/sbin:/sbin mke2fs -q -F %s %s 4M >/dev/null", options,
		    path_of(r, "image")));
	mount_it(r, "image");
	r->in = fs_create(r->root, "old", 3, &what, change());
	MUST(!IS_ERR(r->in) && !write_pages(r, 0, 'o'));
	unmount_it(r, "image");
	logdisk_close(r->disk);
}

static void one_failure(struct fixture *r, size_t fail, bool journalled)
{
	const unsigned int before = r->t->nr_failed;

	(void)run(r, fail);
	if (r->aborted)
		check_aborted(r, fail);
	else /* old bytes only: the writer is told, and all goes on */
		EXPECT_TRUE(r->t, r->err[0] == -EIO || r->err[8] == -EIO || r->err[13] == 0);
	logdisk_close(r->disk);
	if (journalled)
		check_image(r, "after");
	if (r->t->nr_failed != before)
		fprintf(stderr, "request %zu failed\n", fail);
}

static void each_request_once(struct ktest *t)
{
	static const char *const shapes[] = { "-t ext4 -J size=1", "-t ext4 -O ^has_journal",
					      "-t ext3 -b 1024 -J size=1" };

	for (size_t i = 0; i < ARRAY_SIZE(shapes) && !t->nr_failed; i++) {
		unsigned int nr_aborted = 0;
		struct fixture r;
		size_t nr;

		start(&r, t, shapes[i]);
		nr = run(&r, SIZE_MAX);
		EXPECT_FALSE(t, r.aborted);
		for (unsigned int op = 0; op < NR_OPS; op++)
			EXPECT_EQ(t, r.err[op], 0);
		logdisk_close(r.disk);
		image_is_clean(t, r.dir, "after", false);
		EXPECT_TRUE(t, nr > 20 && nr < MAX_RUN);
		for (size_t fail = 0; fail < nr && !t->nr_failed; fail++) {
			one_failure(&r, fail, i != 1);
			nr_aborted += r.aborted;
		}
		EXPECT_TRUE(t, nr_aborted > nr / 2);
		if (!t->nr_failed)
			shell("rm -rf %s", r.dir);
	}
}

static const struct ktest_case errors_cases[] = {
	KTEST(each_request_once),
	{ 0 },
};
static const struct ktest_suite errors_suite = { .name = "fs.errors", .cases = errors_cases };
KTEST_SUITE(errors_suite);
