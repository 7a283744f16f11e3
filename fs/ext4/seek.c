/* SPDX-License-Identifier: MIT */
/*
 * ext4: SEEK_DATA and SEEK_HOLE.
 *
 * Unwritten extents count as holes: they read as zeros.  The end of the file is a hole.
 *
 * Context:	threads; may sleep for the disk.
 */
#include <abi/fcntl.h>
#include <fs/fs.h>
#include <kernel/panic.h>
#include <kernel/rwsem.h>
#include <lib/errno.h>

#include "ext4_priv.h"

static int64_t seek(struct ext4_inode *in, uint64_t off, int whence)
{
	const struct ext4_fs *fs = in->fs;
	const uint64_t end = DIV_ROUND_UP(in->size, (uint64_t)fs->block_size);
	uint64_t lblk = off >> fs->block_bits;
	struct ext4_map map;
	int err;

	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		return -EINVAL;
	if ((in->mode & S_IFMT) != S_IFREG)
		return -EINVAL;
	if (off >= in->size)
		return -ENXIO;
	if (in->flags & EXT4_FL_INLINE_DATA)
		return whence == SEEK_DATA ? (int64_t)off : (int64_t)in->size;

	while (lblk < end) {
		err = ext4_map_blocks(in, (uint32_t)lblk, (uint32_t)(end - lblk), &map);
		if (err)
			return err;
		ASSERT(map.len);
		if ((map.type == EXT4_MAP_DATA) == (whence == SEEK_DATA))
			return (int64_t)MAX(off, lblk << fs->block_bits);
		lblk += map.len;
	}
	return whence == SEEK_DATA ? -ENXIO : (int64_t)in->size;
}

int64_t ext4_seek(struct ext4_inode *in, uint64_t off, int whence)
{
	int64_t ret;

	rwsem_read_lock(&in->lock);
	ret = in->gone ? -ESTALE : seek(in, off, whence);
	rwsem_read_unlock(&in->lock);
	return ret;
}
