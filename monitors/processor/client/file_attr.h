/* SPDX-License-Identifier: MIT */
/*
 * Files and their attributes as the processor knows them: neither a protocol's nor a program's.
 */
#pragma once

#include <fs/stat.h>
#include <lib/types.h>

/* Supplementary groups of one task; requests carry them all. */
#define CRED_GROUPS_MAX 32

/*
 * A file of a storage node, as requests name it: what the node sealed for the vNode in which the
 * file was looked up.
 */
struct file_id {
	uint64_t ino;
	uint32_t gen;  /* inode generation */
	uint32_t node; /* storage node id; 0: no file, or one that lives on this node only */
	uint32_t vnode;
	uint64_t seal;
};

/* The same file? A processor has programs of one vNode, and so one handle of each file. */
static inline bool file_id_equal(const struct file_id *a, const struct file_id *b)
{
	return a->ino == b->ino && a->gen == b->gen && a->node == b->node;
}

/* The answer of stat(2), for any kind of file. */
struct file_attr {
	struct file_id file;
	uint64_t size;
	uint64_t blocks; /* of 512 bytes */
	struct fs_time atime, mtime, ctime;
	struct fs_time btime; /* all 0: not known */
	uint32_t mode;        /* type and permission bits as in st_mode */
	bool acl;             /* it may have access control lists, and mode does not say all */
	uint32_t nlink, uid, gid;
	uint32_t rdev; /* Linux's new_encode_dev() form */
	uint32_t blksize;
	uint64_t version; /* changes whenever the content changes (close-to-open) */
	uint64_t fsid;
	uint32_t attrs;   /* FILE_ATTRS: STATX_ATTR_*, which are FS_*_FL as well */
	uint64_t made_at; /* of a file just made: kept_now() of before; else 0 */
};

/* Immutable, append only, not to be dumped. */
#define FILE_ATTRS 0x70u

/* The answer of statfs(2). */
struct fs_info {
	uint64_t type; /* magic number */
	uint64_t bsize;
	uint64_t blocks, bfree, bavail; /* of bsize bytes */
	uint64_t files, ffree;
	uint64_t fsid;
	uint64_t namelen;
	uint64_t flags; /* ST_* */
};
