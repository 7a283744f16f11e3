/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: may a caller make a change?  Linux's rules for programs whose capabilities are
 * those of user 0 or none.  Attributes are those of fs_stat_for() for @cred.  Pure.
 */
#pragma once

#include <fs/access.h>
#include <fs/fs.h>
#include <lib/compiler.h>
#include <proto/ps.h>

/* May @cred add an entry to the directory? -ENOTDIR, -EPERM (immutable), -EACCES. */
int __must_check permit_create(const struct fs_cred *cred, const struct fs_stat *dir);
/*
 * May @cred remove the entry of @victim from @dir, or put another file in its place? -ENOTDIR,
 * -EACCES, -EPERM (sticky directory, immutable, append only).
 */
int __must_check permit_remove(const struct fs_cred *cred, const struct fs_stat *dir,
			       const struct fs_stat *victim);
/*
 * May @cred give @file the name it asks for? -EPERM: a directory, immutable, or append only.
 */
int __must_check permit_link(const struct fs_stat *file);
/*
 * May @cred change @file as @req says, and to what?  -EPERM, -EACCES; of a size: -EISDIR, -EINVAL.
 * @now: the server's time.
 */
int __must_check permit_setattr(const struct fs_cred *cred, const struct fs_stat *file,
				const struct ps_setattr_req *req, struct fs_time now,
				struct fs_attr *out);
/*
 * May @cred read, or write, extended attribute @name?  -EPERM, -EACCES, -ENODATA, -EOPNOTSUPP (no
 * such prefix).
 */
int __must_check permit_xattr(const struct fs_cred *cred, const struct fs_stat *file,
			      const char *name, size_t len, bool write);
/* Owner and mode of a file of @mode (the umask applied, if it counts) that @cred makes in @dir. */
void permit_owner(const struct fs_cred *cred, const struct fs_stat *dir, uint32_t *mode,
		  uint32_t *gid);
