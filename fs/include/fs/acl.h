/* SPDX-License-Identifier: MIT */
/*
 * POSIX access control lists as programs see them: values of two extended attributes, in Linux's
 * format (version 2: entries of 8 bytes, from the owner's to the others').
 *
 * Invariants:	the mode's bits of the group are those of the list's mask, if it has one. A list
 *		that says no more than the mode is not kept.
 */
#pragma once

#include <fs/access.h>
#include <lib/compiler.h>
#include <lib/types.h>

#define POSIX_ACL_ACCESS  "system.posix_acl_access"
#define POSIX_ACL_DEFAULT "system.posix_acl_default"
/* The longest value that any file system here keeps, in bytes. */
#define POSIX_ACL_MAX     8192u

enum posix_acl_tag {
	ACL_USER_OBJ = 0x01,
	ACL_USER = 0x02,
	ACL_GROUP_OBJ = 0x04,
	ACL_GROUP = 0x08,
	ACL_MASK = 0x10,
	ACL_OTHER = 0x20,
};

/* Is that the name of one of the two attributes? @name is not terminated. */
bool posix_acl_is_name(const char *name, size_t len);

/*
 * Is the value of @len bytes a list? 0; 1: of no entries, which stands for no list; -EINVAL;
 * -EOPNOTSUPP: of another version. The other functions want one that is.
 */
int __must_check posix_acl_check(const void *value, size_t len);

/*
 * May the list change what @cred may do with a file of this mode and owner? If not, fs_access()
 * says it all.
 */
bool posix_acl_matters(const struct fs_cred *cred, uint32_t mode, uint32_t uid);

/*
 * May @cred, for whom it matters, do all of @want with a file of group @gid that has this access
 * list? 0, -EACCES.
 */
int __must_check posix_acl_access(const struct fs_cred *cred, uint32_t gid, uint32_t want,
				  const void *value, size_t len);

/* The permission bits that the list stands for; true: it says no more than they do. */
bool posix_acl_mode(const void *value, size_t len, uint32_t *mode);
/* Change the list in place so that it stands for @mode. */
void posix_acl_chmod(void *value, size_t len, uint32_t mode);
/*
 * Make its directory's default list the access list of a file of *@mode, in place; *@mode becomes
 * what that stands for. True: it says no more than *@mode.
 */
bool posix_acl_inherit(void *value, size_t len, uint32_t *mode);

/* --- of files of a struct fs (fs/access/stat_for.c) */

struct fs_inode;
struct fs_stat;

/* The attributes, for questions of @cred: those that fs_stat_access() answers. -errno of a disk. */
int __must_check fs_stat_for(struct fs_inode *in, const struct fs_cred *cred, struct fs_stat *out);
/* May @cred, for whom they were filled in, do all of @want? 0, -EACCES. */
int __must_check fs_stat_access(const struct fs_cred *cred, const struct fs_stat *s, uint32_t want);
/* Both at once, which asks the list about @want alone. */
int __must_check fs_may(struct fs_inode *in, const struct fs_cred *cred, uint32_t want);
/*
 * The list @name of the file into @buf of POSIX_ACL_MAX bytes: its length, which is that of one
 * that posix_acl_check() takes; 0: it has none; -EACCES: it cannot be read; -EUCLEAN, and other
 * errors of a disk.
 */
int64_t __must_check fs_posix_acl(struct fs_inode *in, const char *name, void *buf);
