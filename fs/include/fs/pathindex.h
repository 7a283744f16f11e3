/* SPDX-License-Identifier: MIT */
/*
 * Path resolution, with an index of what it found before.
 *
 * A hash keyed by (vNode, canonical full path) leads to an inode and its generation.  It is a
 * cache over the file system's directories: bounded, filled by walking, least recently used
 * first out.  A canonical path has no symbolic link, ".", ".." or double slash in it, so one
 * that is found whole needs no walk at all.
 *
 * Context:	threads; sleeps when the file system does.
 * Locking:	one internal spinlock, not held while the file system works.
 * Ordering:	after a change and before it is answered, the server of the file system calls
 *		pathindex_touch() for each directory whose names changed, for a directory that was
 *		removed, and for each file whose mode, owner or number of names changed; after the
 *		rename of a directory pathindex_invalidate().  A walk that began before either
 *		leaves nothing behind that would be found after it.
 * Failure:	as Linux: -ENOENT, -ENOTDIR, -EACCES, -ELOOP, -ENAMETOOLONG, -EINVAL, and what
 *		the file system answers.
 */
#pragma once

#include <fs/access.h>
#include <fs/stat.h>
#include <lib/compiler.h>
#include <lib/types.h>

#define PATH_MAX_LINKS 40u

struct pathindex;

/* A file as path resolution knows it. */
struct path_node {
	uint64_t ino;
	uint32_t gen;
	uint32_t mode;
	uint32_t uid;
	uint32_t gid;
	bool acl; /* it may have an access list, which path_ops.search() looks at */
};

/* Operations of a file system that resolution uses; @fs is its own pointer. */
struct path_ops {
	int (*get)(void *fs, uint64_t ino, struct path_node *out);
	/* -ENOENT when @dir has no such name, -ESTALE when @dir is not that directory any more. */
	int (*lookup)(void *fs, const struct path_node *dir, const char *name, size_t len,
		      struct path_node *out);
	/* May @cred search the directory? -EACCES, -ESTALE as lookup(). */
	int (*search)(void *fs, const struct path_node *dir, const struct fs_cred *cred);
	/* Into FS_PATH_MAX bytes, terminated. */
	int (*readlink)(void *fs, const struct path_node *link, char *buf, size_t *len);
};

enum path_flags {
	PATH_NOFOLLOW = 1u << 0,  /* a link in the last component is the result itself */
	PATH_DIRECTORY = 1u << 1, /* -ENOTDIR unless the result is one */
	PATH_NO_INDEX = 1u << 2,  /* ask the file system for everything */
	/*
	 * The root is mounted below the vNode's "/": ".." out of it, and an absolute link, end the
	 * walk, and the caller goes on.
	 */
	PATH_BELOW = 1u << 3,
};

enum path_end {
	PATH_FOUND,
	PATH_AT_MOUNT_POINT, /* canon names it */
	PATH_UP,             /* ".." out of the root, which is canon */
	PATH_AT_ROOT,        /* of the vNode, by an absolute link; canon is "/", too */
};

struct path_request {
	uint32_t vnode;
	uint32_t flags;    /* enum path_flags */
	uint64_t root_ino; /* the vNode's "/", which no path leaves */
	const char *path;  /* absolute; need not be terminated */
	size_t len;
	/*
	 * Mount points: canonical paths, each with its NUL, at which the walk ends and the
	 * caller goes on; none is looked for in the first @canon_len bytes of the path, which
	 * are canonical.
	 */
	const char *mount_points;
	size_t mount_points_len;
	size_t canon_len;
	const struct fs_cred *cred; /* NULL: search permission is not checked */
};

struct path_result {
	struct path_node node;
	/* Set on -ENOENT when only the last component is missing: where it would be made. */
	bool parent_exists;
	struct path_node parent;
	unsigned int nr_links; /* followed */
	enum path_end end;     /* but for PATH_FOUND, @node is not set */
	size_t rest_len;
	char rest[FS_PATH_MAX]; /* what is left to walk from there, not terminated */
	size_t canon_len;
	char canon[FS_PATH_MAX]; /* the canonical path, terminated; valid on success */
};

/* Resolution over a struct fs, which is then @fs. */
extern const struct path_ops fs_path_ops;

/* ERR_PTR(-ENOMEM).  @max_bytes bounds the memory of entries. */
struct pathindex *pathindex_create(uint64_t max_bytes);
void pathindex_destroy(struct pathindex *pi);

int __must_check pathindex_resolve(struct pathindex *pi, const struct path_ops *ops, void *fs,
				   const struct path_request *req, struct path_result *res);

/* The names in directory @ino may be wrong, and so may what is known of file @ino itself. */
void pathindex_touch(struct pathindex *pi, uint64_t ino);
/* All entries may be wrong. */
void pathindex_invalidate(struct pathindex *pi);
/* The entry of one canonical path may be wrong. */
void pathindex_forget(struct pathindex *pi, uint32_t vnode, const char *canon, size_t len);

struct pathindex_stats {
	uint64_t hits;
	uint64_t misses;
	uint64_t evictions;
	uint64_t nr_entries;
	uint64_t bytes;
};
void pathindex_stats(struct pathindex *pi, struct pathindex_stats *out);
