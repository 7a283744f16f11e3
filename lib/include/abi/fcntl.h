/* SPDX-License-Identifier: MIT */
/*
 * Opening files, descriptors, locks of files: Linux's <linux/fcntl.h>, <linux/fs.h>,
 * <linux/falloc.h>, <linux/openat2.h>, <linux/uio.h>.
 */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

/* open() */
#define O_ACCMODE   03u
#define O_RDONLY    00u
#define O_WRONLY    01u
#define O_RDWR      02u
#define O_CREAT     0100u
#define O_EXCL      0200u
#define O_NOCTTY    0400u
#define O_TRUNC     01000u
#define O_APPEND    02000u
#define O_NONBLOCK  04000u
#define O_DSYNC     010000u
#define O_ASYNC     020000u
#define O_DIRECT    040000u
#define O_LARGEFILE 0100000u
#define O_DIRECTORY 0200000u
#define O_NOFOLLOW  0400000u
#define O_NOATIME   01000000u
#define O_CLOEXEC   02000000u
#define O_SYNC      04010000u
#define O_PATH      010000000u
#define O_TMPFILE   020200000u

/* The calls with a directory: *at() */
#define AT_FDCWD (-100)

#define AT_SYMLINK_NOFOLLOW     0x100u
#define AT_HANDLE_FID           0x200u
#define AT_HANDLE_MNT_ID_UNIQUE 0x1u
#define AT_EACCESS              0x200u
#define AT_REMOVEDIR            0x200u
#define AT_SYMLINK_FOLLOW       0x400u
#define AT_NO_AUTOMOUNT         0x800u
#define AT_EMPTY_PATH           0x1000u
#define AT_STATX_FORCE_SYNC     0x2000u
#define AT_STATX_DONT_SYNC      0x4000u
#define AT_STATX_SYNC_TYPE      0x6000u

/* openat2() */
#define RESOLVE_NO_XDEV       0x1u
#define RESOLVE_NO_MAGICLINKS 0x2u
#define RESOLVE_NO_SYMLINKS   0x4u
#define RESOLVE_BENEATH       0x8u
#define RESOLVE_IN_ROOT       0x10u
#define RESOLVE_CACHED        0x20u

/* access() */
#define F_OK 0u
#define X_OK 1u
#define W_OK 2u
#define R_OK 4u

/* lseek(), and where a lock begins. */
#define SEEK_SET  0
#define SEEK_CUR  1
#define SEEK_END  2
#define SEEK_DATA 3
#define SEEK_HOLE 4

/* fcntl() */
#define F_DUPFD         0
#define F_GETFD         1
#define F_SETFD         2
#define F_GETFL         3
#define F_SETFL         4
#define F_GETLK         5
#define F_SETLK         6
#define F_SETLKW        7
#define F_SETOWN        8
#define F_GETOWN        9
#define F_SETSIG        10
#define F_GETSIG        11
#define F_SETOWN_EX     15
#define F_GETOWN_EX     16
#define F_OFD_GETLK     36
#define F_OFD_SETLK     37
#define F_OFD_SETLKW    38
#define F_SETLEASE      1024
#define F_GETLEASE      1025
#define F_NOTIFY        1026
#define F_DUPFD_QUERY   1027
#define F_CREATED_QUERY 1028
#define F_DUPFD_CLOEXEC 1030
#define F_SETPIPE_SZ    1031
#define F_GETPIPE_SZ    1032
#define F_ADD_SEALS     1033
#define F_GET_SEALS     1034

/* F_ADD_SEALS: what they forbid of a file. */
#define F_SEAL_SEAL         0x1u /* more seals */
#define F_SEAL_SHRINK       0x2u
#define F_SEAL_GROW         0x4u
#define F_SEAL_WRITE        0x8u
#define F_SEAL_FUTURE_WRITE 0x10u /* but by mappings that there are */
#define F_SEAL_EXEC         0x20u /* changes of who may execute it */
#define F_SEAL_ALL          0x3fu

#define FD_CLOEXEC 1u

/* F_NOTIFY: what a directory tells. */
#define DN_ACCESS    0x1u
#define DN_MODIFY    0x2u
#define DN_CREATE    0x4u
#define DN_DELETE    0x8u
#define DN_RENAME    0x10u
#define DN_ATTRIB    0x20u
#define DN_MULTISHOT 0x80000000u /* more than once */

/* struct f_owner_ex: its type. */
#define F_OWNER_TID  0
#define F_OWNER_PID  1
#define F_OWNER_PGRP 2

struct linux_f_owner_ex {
	int32_t type;
	int32_t pid;
};

/* struct flock: its type. */
#define F_RDLCK 0
#define F_WRLCK 1
#define F_UNLCK 2

struct linux_flock {
	int16_t type;
	int16_t whence;
	uint32_t pad;
	int64_t start;
	int64_t len;
	int32_t pid;
	uint32_t pad2;
};
static_assert(sizeof(struct linux_flock) == 32, "struct flock is ABI");

/* flock() */
#define LOCK_SH 1u
#define LOCK_EX 2u
#define LOCK_NB 4u
#define LOCK_UN 8u

/* renameat2(), fallocate(), close_range(), sync_file_range(), preadv2() */
#define RENAME_NOREPLACE  0x1u
#define RENAME_EXCHANGE   0x2u
#define RENAME_WHITEOUT   0x4u
#define SPLICE_F_MOVE     1
#define SPLICE_F_NONBLOCK 2
#define SPLICE_F_MORE     4
#define SPLICE_F_GIFT     8

#define FALLOC_FL_KEEP_SIZE         0x1u
#define FALLOC_FL_PUNCH_HOLE        0x2u
#define FALLOC_FL_NO_HIDE_STALE     0x4u
#define FALLOC_FL_COLLAPSE_RANGE    0x8u
#define FALLOC_FL_ZERO_RANGE        0x10u
#define FALLOC_FL_INSERT_RANGE      0x20u
#define FALLOC_FL_UNSHARE_RANGE     0x40u
#define CLOSE_RANGE_UNSHARE         0x2u
#define CLOSE_RANGE_CLOEXEC         0x4u
#define SYNC_FILE_RANGE_WAIT_BEFORE 0x1u
#define SYNC_FILE_RANGE_WRITE       0x2u
#define SYNC_FILE_RANGE_WAIT_AFTER  0x4u
#define RWF_HIPRI                   0x1u
#define RWF_DSYNC                   0x2u
#define RWF_SYNC                    0x4u
#define RWF_NOWAIT                  0x8u
#define RWF_APPEND                  0x10u

/* readv() and its kin: struct iovec. */
#define UIO_MAXIOV 1024

struct linux_iovec {
	uint64_t base;
	uint64_t len;
};
