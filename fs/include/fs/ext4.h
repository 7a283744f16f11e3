/* SPDX-License-Identifier: MIT */
/*
 * ext2, ext3 and ext4 file systems as mke2fs makes them, for reading: a struct fs.
 *
 * Failure:	as <fs/fs.h>; corruption and refusals leave one line in the log.
 * See:		docs/design/storage.md
 */
#pragma once

#include <fs/fs.h>
#include <lib/compiler.h>
#include <lib/types.h>

/*
 * Mount the file system on @bd for reading.  On failure a line in the log says why: -EINVAL
 * (not ext2/3/4), -EOPNOTSUPP (unknown feature, needs recovery, in use), -EUCLEAN, -EIO,
 * -ENOMEM.  @opt may be NULL.
 */
int __must_check ext4_mount(struct blkdev *bd, const struct fs_mount_options *opt, struct fs **out);

enum ext4_map_type {
	EXT4_MAP_HOLE,
	EXT4_MAP_DATA,
	EXT4_MAP_UNWRITTEN, /* allocated, reads as zeros */
};

struct ext4_map {
	enum ext4_map_type type;
	uint32_t len;   /* file system blocks, at least 1 */
	uint64_t block; /* on the device; 0 for a hole */
};

/*
 * For tools: where block @lblk of a file of an ext4 is, and for how many of the next @max blocks
 * that goes on.
 */
int __must_check ext4_map(struct fs_inode *in, uint32_t lblk, uint32_t max, struct ext4_map *map);
