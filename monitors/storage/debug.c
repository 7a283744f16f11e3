/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: test commands of the control channel.
 *
 *	crc PATH	zlib's CRC-32 of a file's contents and its size, read as MS_READ does
 *	forget		drop the path index
 *
 * Context:	a thread of the control service for each command; sleeps for the disk.
 */
#include <lib/crc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "storage.h"

/* The file behind @path, as user 0 sees it. */
static int open_path(struct storage *st, const char *path, struct ms_read_req *req, uint64_t *size)
{
	const struct path_request pr = {
		.root_ino = storage_vnode_root(st, PROTO_VNODE_ROOT),
		.path = path,
		.len = strlen(path),
	};
	struct path_result *res = kmalloc(sizeof(*res));
	struct fs_inode *in;
	struct fs_stat s;
	int err;

	if (!res)
		return -ENOMEM;
	err = pathindex_resolve(st->index, &fs_path_ops, st->fs, &pr, res);
	if (!err) {
		in = fs_inode_get(st->fs, res->node.ino, res->node.gen);
		if (IS_ERR(in)) {
			err = (int)PTR_ERR(in);
		} else {
			fs_inode_stat(in, &s);
			*size = s.size;
			req->file = storage_handle(st, &s, PROTO_VNODE_ROOT);
			fs_inode_put(in);
		}
	}
	kfree(res);
	return err;
}

static int file_crc(struct storage *st, const char *path, uint32_t *crc, uint64_t *size)
{
	struct storage_buf *buf;
	struct ms_read_rep rep;
	uint64_t left;
	int err;

	buf = bufpool_get();
	err = open_path(st, path, &buf->read, size);
	left = *size;
	*crc = ~0u;
	buf->read.pgoff = 0;
	buf->read.nr_pages = MS_READ_MAX_PAGES;
	while (!err && left) {
		err = storage_read(st, &buf->read, buf->pages, &rep);
		if (!err && !rep.nr_valid)
			err = -EIO;
		for (uint32_t i = 0; !err && i < rep.nr_valid; i++) {
			const size_t n = (size_t)MIN(left, (uint64_t)PAGE_SIZE);

			*crc = crc32(*crc, buf->pages[i], n);
			left -= n;
		}
		buf->read.pgoff += MS_READ_MAX_PAGES;
	}
	*crc = ~*crc;
	bufpool_put(buf);
	return err;
}

int storage_debug(struct storage *st, const char *cmd, char *reply, size_t cap)
{
	uint64_t size = 0;
	uint32_t crc;
	int err;

	if (!strcmp(cmd, "forget")) {
		pathindex_invalidate(st->index);
		return 0;
	}
	if (!str_has_prefix(cmd, "crc "))
		return -ENOSYS;
	if (!st->fs)
		return -ENODEV;
	err = file_crc(st, cmd + 4, &crc, &size);
	if (!err)
		(void)scnprintf(reply, cap, "%08x %llu", crc, (unsigned long long)size);
	return err;
}
