/* SPDX-License-Identifier: MIT */
/* Credentials, and the check of mode bits against them. */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct fs_cred {
	uint32_t uid;
	uint32_t gid;
	uint32_t nr_groups;
	const uint32_t *groups;
	/* User 0 is an owner like any other: it has no rights over files of others. */
	bool plain;
	/*
	 * May it all the same do everything to files of these two ids, as root may? NULL: no. @ns
	 * is for over().
	 */
	bool (*over)(const struct fs_cred *cred, uint32_t uid, uint32_t gid);
	const void *ns;
};

static inline bool fs_cred_is_root(const struct fs_cred *cred)
{
	return !cred->uid && !cred->plain;
}

/* Is @gid the user's group, or one of its others? */
bool fs_in_group(const struct fs_cred *cred, uint32_t gid);

/* Bits of access(2) and of one class of permission bits. */
#define FS_MAY_EXEC  1u /* or search a directory */
#define FS_MAY_WRITE 2u
#define FS_MAY_READ  4u

/*
 * May @cred (NULL: the kernel itself) do all of @want with a file of this mode and owner?
 * Returns 0 or -EACCES.  User 0 may do everything but execute a file that nobody may execute,
 * unless it is a plain one.
 */
int __must_check fs_access(const struct fs_cred *cred, uint32_t mode, uint32_t uid, uint32_t gid,
			   uint32_t want);
