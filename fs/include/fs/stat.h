/* SPDX-License-Identifier: MIT */
/* Attributes of a file and of a file system, in host order. */
#pragma once

#include <lib/types.h>

/* File types and mode bits as Linux programs see them. */
#define FS_S_IFMT   0170000u
#define FS_S_IFIFO  0010000u
#define FS_S_IFCHR  0020000u
#define FS_S_IFDIR  0040000u
#define FS_S_IFBLK  0060000u
#define FS_S_IFREG  0100000u
#define FS_S_IFLNK  0120000u
#define FS_S_IFSOCK 0140000u

#define FS_NAME_MAX 255u
#define FS_PATH_MAX 4096u /* with the NUL, as Linux counts */

/* The type of a directory entry, as getdents64 reports it. */
enum fs_dtype {
	FS_DT_UNKNOWN = 0,
	FS_DT_FIFO = 1,
	FS_DT_CHR = 2,
	FS_DT_DIR = 4,
	FS_DT_BLK = 6,
	FS_DT_REG = 8,
	FS_DT_LNK = 10,
	FS_DT_SOCK = 12,
};

static inline uint8_t fs_dtype_of_mode(uint32_t mode)
{
	return (uint8_t)((mode & FS_S_IFMT) >> 12);
}

struct fs_time {
	int64_t sec;
	uint32_t nsec; /* below 10^9 */
};

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
	uint32_t attrs; /* FS_ATTR_* */
	uint64_t size;
	uint64_t blocks; /* of 512 bytes */
	struct fs_time atime;
	struct fs_time mtime;
	struct fs_time ctime;
	struct fs_time crtime; /* zero when the inode has no room for it */
};

/* Numbers as in statx(2). */
#define FS_ATTR_COMPRESSED 0x0004u
#define FS_ATTR_IMMUTABLE  0x0010u
#define FS_ATTR_APPEND     0x0020u
#define FS_ATTR_NODUMP     0x0040u

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
