/* SPDX-License-Identifier: MIT */
/* Mounts, between the files of this folder. */
#pragma once

#include "path.h"

struct mount {
	struct mount *chain;        /* same bucket */
	const struct fs_type *type; /* NULL: a file of the covered directory, at its own name */
	struct inode *root;         /* referenced: what is mounted */
	struct inode
		*parent;  /* referenced: the directory that has the mount point; NULL: the root */
	char *at;         /* canonical path of the mount point */
	const char *name; /* last component of it */
	char *points;     /* mount points in it, as those of struct path_lookup */
	size_t points_len;
};

/* The mount on entry @name of @dir; NULL: none. */
struct mount *mount_in_dir(const struct mounts *m, const struct inode *dir, const char *name,
			   size_t len);
/* The mount at canonical path @at; NULL: none. */
struct mount *mount_at(const struct mounts *m, const char *at);
/* The file system that has @inode as its root directory; NULL: none. */
struct mount *mount_of_root(const struct mounts *m, const struct inode *inode);
/* The mount of the file system that @inode is of. */
struct mount *mount_of(const struct mounts *m, const struct inode *inode);
/* The @i-th of all mounts; NULL: there are no more. */
const struct mount *mount_nth(const struct mounts *m, size_t i);
