/* SPDX-License-Identifier: MIT */
/* Mounts, between the files of this folder. */
#pragma once

#include "path.h"

struct mount {
	struct mount *chain;        /* same bucket */
	const struct fs_type *type; /* NULL: a name at which the root shows through */
	struct inode *root;         /* referenced; NULL: the same */
	struct inode *parent;       /* the directory that has it; NULL: one of the root */
	char *at;                   /* canonical path */
	const char *name;           /* last component of it */
	uint8_t dtype;              /* for readdir */
};

/* The mount on entry @name of @dir; NULL: none. */
struct mount *mount_in_dir(const struct mounts *m, const struct inode *dir, const char *name,
			   size_t len);
/* The mount at canonical path @at in a directory of the root; NULL: none. */
struct mount *mount_at_text(const struct mounts *m, const char *at, size_t len);
/* The mount that has @inode as its root directory; NULL: none. */
struct mount *mount_of_root(const struct mounts *m, const struct inode *inode);
/* What a walk in the root has to stop at. */
const char *mount_stops(const struct mounts *m, size_t *len);
/* The @i-th of all mounts; NULL: there are no more. */
const struct mount *mount_nth(const struct mounts *m, size_t i);
/* Is @mt an entry of directory @dir, or of the root's directory @text if that is NULL? */
bool mount_is_child(const struct mount *mt, const struct inode *dir, const char *text);
