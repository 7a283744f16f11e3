/* SPDX-License-Identifier: MIT */
/*
 * Attributes of files and file systems: Linux's <linux/stat.h>, <asm/statfs.h>,
 * <linux/magic.h>, <linux/dirent.h>.
 */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

/* Type and permissions */
#define S_IFMT   0170000u
#define S_IFIFO  0010000u
#define S_IFCHR  0020000u
#define S_IFDIR  0040000u
#define S_IFBLK  0060000u
#define S_IFREG  0100000u
#define S_IFLNK  0120000u
#define S_IFSOCK 0140000u
#define S_ISUID  0004000u
#define S_ISGID  0002000u
#define S_ISVTX  0001000u

struct linux_stat {
	uint64_t dev, ino, nlink;
	uint32_t mode, uid, gid, pad;
	uint64_t rdev;
	int64_t size, blksize, blocks;
	uint64_t atime, atime_ns, mtime, mtime_ns, ctime, ctime_ns;
	int64_t unused[3];
};
static_assert(sizeof(struct linux_stat) == 144, "struct stat is ABI");

/* statx() */
#define STATX_BASIC_STATS     0x7ffu
#define STATX_BTIME           0x800u
#define STATX_MNT_ID          0x1000u
#define STATX_MNT_ID_UNIQUE   0x4000u
#define STATX_ATTR_COMPRESSED 0x4u
#define STATX_ATTR_IMMUTABLE  0x10u
#define STATX_ATTR_APPEND     0x20u
#define STATX_ATTR_NODUMP     0x40u

struct linux_statx_timestamp {
	int64_t sec;
	uint32_t nsec;
	int32_t pad;
};

struct linux_statx {
	uint32_t mask, blksize;
	uint64_t attributes;
	uint32_t nlink, uid, gid;
	uint16_t mode, pad;
	uint64_t ino, size, blocks, attributes_mask;
	struct linux_statx_timestamp atime, btime, ctime, mtime;
	uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
	uint64_t mnt_id;
	uint64_t spare[13];
};
static_assert(sizeof(struct linux_statx) == 256, "struct statx is ABI");

/* utimensat() */
#define UTIME_NOW  0x3fffffff
#define UTIME_OMIT 0x3ffffffe

/* statfs(): flags and magic numbers. */
#define ST_RDONLY          0x1u
#define ST_NOSUID          0x2u
#define ST_NODEV           0x4u
#define ST_NOEXEC          0x8u
#define ST_NOATIME         0x400u
#define ST_NODIRATIME      0x800u
#define ST_RELATIME        0x1000u
#define EXT4_SUPER_MAGIC   0xef53u
#define TMPFS_MAGIC        0x1021994u
#define PROC_SUPER_MAGIC   0x9fa0u
#define SYSFS_MAGIC        0x62656572u
#define DEVPTS_SUPER_MAGIC 0x1cd1u

#define ST_VALID 0x20u /* of the kernel only: statfs() has filled f_flags in */

struct linux_statfs {
	int64_t type, bsize;
	uint64_t blocks, bfree, bavail, files, ffree;
	int32_t fsid[2];
	int64_t namelen, frsize, flags, spare[4];
};
static_assert(sizeof(struct linux_statfs) == 120, "struct statfs is ABI");

/* getdents64() */
#define DT_UNKNOWN 0
#define DT_FIFO    1
#define DT_CHR     2
#define DT_DIR     4
#define DT_BLK     6
#define DT_REG     8
#define DT_LNK     10
#define DT_SOCK    12

struct linux_dirent64 {
	uint64_t ino;
	uint64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
} __packed;
static_assert(offsetof(struct linux_dirent64, name) == 19, "struct linux_dirent64 is ABI");

struct linux_dirent { /* the last byte of a record is the type */
	uint64_t ino;
	uint64_t off;
	uint16_t reclen;
	char name[];
} __packed;
static_assert(offsetof(struct linux_dirent, name) == 18, "struct linux_dirent is ABI");

struct linux_ustat {
	int32_t tfree;
	uint32_t pad;
	uint64_t tinode;
	char fname[6], fpack[6];
	uint32_t pad2;
};
static_assert(sizeof(struct linux_ustat) == 32, "struct ustat is ABI");
