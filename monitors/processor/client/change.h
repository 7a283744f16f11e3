/* SPDX-License-Identifier: MIT */
/*
 * Requests of the processor monitor to storage nodes that change files, one function each.
 *
 * Each is done once: it has a number, by which the storage node knows a request that is repeated
 * after a lost answer or a restart.
 *
 * Context:	all sleep for a reply; no lock but aspace.map_lock may be held.
 * Failure:	the peer's errno; -EAGAIN: a name stands for another file than the caller has found;
 *		-EIO, -ESTALE; a malformed reply is -EPROTO.  After -EINTR, which
 *		only a thread that is to be killed sees, the change may have been done.
 */
#pragma once

#include <fs/access.h>
#include <lib/compiler.h>

#include "file_attr.h"

/* A name in a directory. */
struct storage_name {
	const struct file_id *dir;
	const char *name; /* 1 to 255 bytes, not terminated */
	size_t len;
};

struct storage_new {
	uint32_t mode;  /* type and permission bits */
	uint32_t umask; /* taken from them, where no default list of the directory counts */
	uint32_t rdev;
	const char *target; /* of a symbolic link, not terminated */
	size_t target_len;
	bool nameless; /* storage_tmpfile(): it never gets a name */
};

/* The file that lost a name by a change; node 0: none did. */
struct storage_removed {
	struct file_id file;
	uint32_t nlink;
};

/* Make a file of any type; @attr is of the new one. */
int storage_make(const struct fs_cred *cred, const struct storage_name *at,
		 const struct storage_new *what, struct file_attr *attr) __must_check;
/* A regular file without a name, on the file system of @dir. */
int storage_tmpfile(const struct fs_cred *cred, const struct file_id *dir,
		    const struct storage_new *what, struct file_attr *attr) __must_check;
int storage_link(const struct fs_cred *cred, const struct file_id *file,
		 const struct storage_name *at) __must_check;
/* @unused: no program here uses @victim; with its last name it goes, and no close is due. */
int storage_unlink(const struct fs_cred *cred, const struct storage_name *at,
		   const struct file_id *victim, bool unused, struct storage_removed *removed)
	__must_check;
int storage_rmdir(const struct fs_cred *cred, const struct storage_name *at,
		  const struct file_id *victim, struct storage_removed *removed) __must_check;

struct storage_rename {
	struct storage_name from, to;
	struct file_id source, target; /* target: node 0, nothing has the name */
	bool exchange;
	bool unused; /* the target, as in storage_unlink() */
	bool room;   /* the node has kept some for this name (behind.h) */
};
int storage_rename(const struct fs_cred *cred, const struct storage_rename *how,
		   struct storage_removed *removed) __must_check;

enum storage_set {
	STORAGE_SET_MODE = 1 << 0,
	STORAGE_SET_UID = 1 << 1,
	STORAGE_SET_GID = 1 << 2,
	STORAGE_SET_SIZE = 1 << 3,
	STORAGE_SET_ATIME = 1 << 4,
	STORAGE_SET_MTIME = 1 << 5,
	STORAGE_SET_ATIME_NOW = 1 << 6, /* the storage node's time */
	STORAGE_SET_MTIME_NOW = 1 << 7,
	STORAGE_SET_BY_OPEN_FILE = 1 << 8, /* the caller has it open for writing */
	STORAGE_SET_FLAGS = 1 << 9,        /* alone, or with: */
	STORAGE_SET_GUARDED = 1 << 10,     /* the caller may change immutable and append only */
};
struct storage_attr {
	uint32_t set; /* enum storage_set */
	uint32_t mode, uid, gid;
	uint64_t size;
	struct fs_time atime, mtime;
	uint32_t flags; /* file_attr.attrs */
};
int storage_setattr(const struct fs_cred *cred, const struct file_id *file,
		    const struct storage_attr *how, struct file_attr *attr) __must_check;

/*
 * Set an attribute by its whole name; @value NULL removes it. @flags: XATTR_*. -ENODATA, -EEXIST,
 * -ENOSPC, -EPERM, -EACCES.
 */
int storage_xattr_set(const struct fs_cred *cred, const struct file_id *file, const char *name,
		      const void *value, size_t size, int flags) __must_check;

#define STORAGE_CLOSE_MAX 64u
/* This processor uses @nr unlinked files of one node (at most STORAGE_CLOSE_MAX) no more. */
int storage_close(const struct file_id *files, size_t nr) __must_check;

/* Wait until the changes that @node has been asked for until now have their answers. */
void storage_drain(uint32_t node);
/*
 * Tell @node, which was started again as @incarn, the files without a name that this processor
 * uses: all of them. @last: that was all, also of locks. -ESTALE: it has been started again since.
 */
int storage_declare(uint32_t node, uint32_t incarn, const struct file_id *files, size_t nr,
		    bool last) __must_check;

/*
 * May names and attributes of @node's files be kept here, until it takes that back? Then each
 * change that was given up before has been done, or never will be.
 */
int storage_ask_keep(uint32_t node, bool *granted) __must_check;

/* Until the disk has all changes of @file, or, @whole, of its file system. */
int storage_commit(const struct file_id *file, bool whole) __must_check;
