/* SPDX-License-Identifier: MIT */
/* Attributes of a file and of a file system, in host order. */
#pragma once

#include <abi/stat.h>
#include <lib/types.h>

#define FS_NAME_MAX 255u
#define FS_PATH_MAX 4096u /* with the NUL, as Linux counts */

/* The type of a directory entry, DT_*, for a mode. */
static inline uint8_t fs_dtype_of_mode(uint32_t mode)
{
	return (uint8_t)((mode & S_IFMT) >> 12);
}

struct fs_time {
	int64_t sec;
	uint32_t nsec; /* below 10^9 */
};

static inline bool fs_time_is_same(struct fs_time a, struct fs_time b)
{
	return a.sec == b.sec && a.nsec == b.nsec;
}

/* Is @a later than @b? */
static inline bool fs_time_is_later(struct fs_time a, struct fs_time b)
{
	return a.sec != b.sec ? a.sec > b.sec : a.nsec > b.nsec;
}

struct fs_stat {
	uint64_t ino;
	uint32_t gen;
	uint32_t mode; /* type and permission bits */
	uint32_t nlink;
	uint32_t uid;
	uint32_t gid;
	uint32_t rdev_major; /* devices only */
	uint32_t rdev_minor;
	uint32_t blksize;
	uint32_t attrs; /* STATX_ATTR_* */
	bool acl;       /* it may have access control lists (fs/acl.h) */
	/* fs_stat_for(): what a list lets the user do, a bit for each FS_MAY_*; 0: none says */
	uint16_t granted;
	uint64_t size;
	uint64_t max_size; /* that a regular file may have; only where it can be changed */
	uint64_t blocks;   /* of 512 bytes */
	uint64_t version;  /* i_version: rises with every change of the inode or its data */
	struct fs_time atime;
	struct fs_time mtime;
	struct fs_time ctime;
	struct fs_time crtime; /* zero when the inode has no room for it */
};

struct fs_statfs {
	uint64_t magic; /* 0xEF53 */
	uint32_t bsize;
	uint32_t name_max;
	uint64_t blocks;
	uint64_t bfree;
	uint64_t bavail; /* for users other than root */
	uint64_t files;
	uint64_t ffree;
	uint64_t fsid;
};
