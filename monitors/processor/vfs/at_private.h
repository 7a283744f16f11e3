/* SPDX-License-Identifier: MIT */
/* Shared by the system calls that take paths. */
#pragma once

#include <abi/fcntl.h>
#include <lib/compiler.h>

#include "path.h"

/* A path argument of the calling process: text, where it begins, and the caller's rights. */
struct at_path {
	char *text;
	struct fs_cred cred;
	struct path dir, root;
	struct walk_base base;
	uint32_t resolve; /* RESOLVE_* of openat2() */
};

/*
 * Take over the user's string and the directory that it is relative to. -EFAULT, -ENAMETOOLONG,
 * -EBADF, -ENOTDIR, -ENOMEM. With @empty_ok an empty string means the file behind @dfd itself, of
 * whatever kind.
 */
int at_get(struct at_path *at, int dfd, uint64_t upath, bool empty_ok) __must_check;
/* The same for a path in kernel memory, from the working directory. */
int at_text(struct at_path *at, const char *text) __must_check;
/* Restrict the walk of @at, with @dfd as for at_get(). The errors of that; at_put() is due. */
int at_restrict(struct at_path *at, int dfd, uint32_t resolve) __must_check;
void at_put(struct at_path *at);

/* The rest of a larger structure of the program than we know must be zero: -E2BIG, -EFAULT. */
int at_rest_is_zero(uint64_t user, uint64_t len) __must_check;

/* at_get() and path_walk() in one. */
int at_walk(int dfd, uint64_t upath, uint32_t flags, uint32_t access, struct walk_result *res)
	__must_check;
/*
 * Shall an operation begin again, since what it had found was another file's, or another mount's,
 * by the time of the change (*@err is -EAGAIN)? For who is killed it ends with -EINTR.
 */
bool at_once_more(int *err);
/* The place of an open file; -EBADF, -ENOENT for one that has no path. */
int at_file(int fd, struct path *out) __must_check;

/* Is it the calling task's, whose credentials @cred are, or has that the right of its owner? */
bool attr_is_own(const struct fs_cred *cred, const struct file_attr *attr);
/* May @cred remove @victim from directory @dir, or put something in its place? -EACCES, -EPERM. */
int may_remove(const struct fs_cred *cred, const struct path *dir, const struct file_attr *victim)
	__must_check;
/* May @cred make something in directory @dir? -EACCES. */
int may_create(const struct fs_cred *cred, const struct path *dir) __must_check;
/* The error of making something where the file system cannot. */
int create_error(const struct inode *dir);
/* Mode and owner of a new file in @dir: umask, set-group-id directories. */
void new_owner(struct new_inode *how, const struct fs_cred *cred, const struct file_attr *dir,
	       uint32_t mode);
