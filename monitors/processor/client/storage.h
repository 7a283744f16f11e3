/* SPDX-License-Identifier: MIT */
/*
 * Requests of the processor monitor to storage nodes, one function each.
 *
 * Context:	all sleep for a reply; no lock but aspace.map_lock may be held.
 * Failure:	the peer's errno, or -EIO, -ESTALE; a malformed reply is -EPROTO.
 */
#pragma once

#include <fs/access.h>
#include <lib/compiler.h>
#include <lib/types.h>

#include "file_attr.h"

enum storage_flags {
	STORAGE_NOFOLLOW = 1 << 0,  /* a link in the last component is the result itself */
	STORAGE_DIRECTORY = 1 << 1, /* -ENOTDIR unless it is one */
	STORAGE_REALPATH = 1 << 2,  /* the answer has the canonical path */
	STORAGE_BELOW = 1 << 3,     /* its root is not "/" for the program */
};

struct storage_place {  /* of a file system: the paths below are those in it */
	const char *at; /* where it is mounted: GSM knows the node that has it */
	uint32_t node;  /* that one; 0: not known yet */
};

/* Bytes: those of mounts, and the path of a process's root directory. */
#define STORAGE_MOUNT_POINTS_MAX (1024 + 4096)

/*
 * Attributes of @path (absolute within the file system), by user 0, and without a link followed in
 * its last component.
 */
int storage_lookup(const struct storage_place *where, const char *path, struct file_attr *attr)
	__must_check;
/*
 * Attributes of what has the name of @len bytes (1 to FS_NAME_MAX, not "." or "..") in @dir, asked
 * for by user 0; a link is not followed. -ENOENT; -ENOTDIR; -ESTALE: @dir is gone.
 */
int storage_lookup_in(const struct file_id *dir, const char *name, size_t len,
		      struct file_attr *attr) __must_check;
/*
 * A walk from a canonical part of @canon_len bytes on, as far as one of @mount_points (canonical
 * paths, each with its NUL, @mount_points_len bytes in all).
 */
struct storage_walk {
	struct storage_place where;
	const char *path;
	size_t canon_len;
	const char *mount_points;
	size_t mount_points_len;
	uint32_t flags; /* enum storage_flags */
	uint32_t access;
};
enum storage_end {
	STORAGE_FOUND,
	STORAGE_AT_MOUNT_POINT,
	/* Of a file system that is not mounted at "/", and with STORAGE_BELOW: */
	STORAGE_UP,      /* ".." out of its root */
	STORAGE_AT_ROOT, /* an absolute link, with which the rest begins */
};
struct storage_found {
	enum storage_end end;
	struct file_attr attr; /* all 0 if it was not found here */
	const char *path;      /* canonical, if asked for, or the mount point; not terminated */
	size_t path_len;
	const char *rest; /* if it was not found: what is left to be walked; not terminated */
	size_t rest_len;
	unsigned int nr_links; /* followed */
};
/* @found points into *buf, the caller's to kfree() in any case. */
int storage_walk(const struct fs_cred *cred, const struct storage_walk *how,
		 struct storage_found *found, void **buf) __must_check;
int storage_getattr(const struct file_id *file, struct file_attr *attr) __must_check;
/* The target's length (not terminated, cut at @size), or negative errno. */
ssize_t storage_readlink(const struct storage_place *where, const char *path, char *buf,
			 size_t size) __must_check;

struct storage_dirent {
	uint64_t ino;
	uint64_t cookie; /* to go on behind this entry */
	uint8_t type;    /* DT_* */
	bool more;       /* entries behind it have the same cookie */
	uint8_t name_len;
	const char *name; /* not terminated; points into the answer */
};
/*
 * The value of an attribute by its whole name (-ENODATA, -EACCES), or, @name NULL, all names, each
 * with its NUL: so many bytes of @buf.
 */
ssize_t storage_xattr_get(const struct fs_cred *cred, const struct file_id *file, const char *name,
			  void *buf, size_t size) __must_check;
#define STORAGE_XATTR_MAX 8192u /* bytes of a value, or of all names: no answer is longer */
/*
 * Bytes of @buf that hold entries behind @cookie; 0 at the end. @behind: name_tie() of the last
 * entry if it had @more, else 0.
 */
ssize_t storage_getdents(const struct file_id *dir, uint64_t cookie, uint64_t behind, void *buf,
			 uint32_t size) __must_check;
/* The entry at *@off of these, which moves behind it. -ENOENT at the end; -EPROTO malformed. */
int storage_dirent_next(const void *buf, size_t len, size_t *off, struct storage_dirent *out)
	__must_check;
int storage_statfs(const struct file_id *file, struct fs_info *info) __must_check;
