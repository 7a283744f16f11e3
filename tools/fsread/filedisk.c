/* SPDX-License-Identifier: MIT */
/*
 * A disk image in a file, as a block device on the host.
 *
 * Requests are done on the spot, in the submitter's thread.
 */
#include "filedisk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct filedisk {
	struct blkdev bd;
	int fd;
};

static int do_seg(struct filedisk *fd, const struct blk_req *req, uint64_t at,
		  const struct blk_seg *seg)
{
	ssize_t n;

	if (req->op == BLK_WRITE)
		n = pwrite(fd->fd, seg->buf, seg->len, (off_t)at);
	else
		n = pread(fd->fd, seg->buf, seg->len, (off_t)at);
	return n == (ssize_t)seg->len ? 0 : -EIO;
}

static void filedisk_submit(struct blkdev *bd, struct blk_req *req)
{
	struct filedisk *fd = bd->driver;
	uint64_t at = req->sector << BLK_SECTOR_SHIFT;
	int err = 0;

	for (unsigned int i = 0; i < req->nr_segs && !err; i++) {
		err = do_seg(fd, req, at, &req->segs[i]);
		at += req->segs[i].len;
	}
	req->status = err;
	req->done(req);
}

static const struct blkdev_ops filedisk_ops = { .submit = filedisk_submit };

static struct blkdev *disk_new(int fd, uint64_t len, bool read_only)
{
	struct filedisk *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->fd = fd;
	d->bd = (struct blkdev){
		.ops = &filedisk_ops,
		.driver = d,
		.name = "image",
		.nr_sectors = len >> BLK_SECTOR_SHIFT,
		.block_size = BLK_SECTOR_SIZE,
		.max_segs = 32,
		.max_seg_len = 1u << 20,
		.read_only = read_only,
	};
	return &d->bd;
}

struct blkdev *filedisk_open(const char *path, bool read_only)
{
	struct blkdev *bd;
	struct stat st;
	int fd;

	fd = open(path, (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st)) {
		close(fd);
		return NULL;
	}
	bd = disk_new(fd, (uint64_t)st.st_size, read_only);
	if (!bd)
		close(fd);
	return bd;
}

void filedisk_close(struct blkdev *bd)
{
	struct filedisk *d = bd->driver;

	close(d->fd);
	free(d);
}
