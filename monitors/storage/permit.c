/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: permission to change.
 *
 * Ordering:	checks come in Linux's order, since programs see which one failed.
 */
#include "permit.h"

#include <fs/acl.h>
#include <lib/errno.h>
#include <lib/string.h>

#define SET_UID 04000u
#define SET_GID 02000u
#define STICKY  01000u

static bool is_type(const struct fs_stat *s, uint32_t type)
{
	return (s->mode & S_IFMT) == type;
}

static bool owns(const struct fs_cred *cred, const struct fs_stat *s)
{
	return fs_cred_is_root(cred) || cred->uid == s->uid;
}

static int access_to(const struct fs_cred *cred, const struct fs_stat *s, uint32_t want)
{
	return fs_stat_access(cred, s, want);
}

int permit_create(const struct fs_cred *cred, const struct fs_stat *dir)
{
	if (!is_type(dir, S_IFDIR))
		return -ENOTDIR;
	if (dir->attrs & STATX_ATTR_IMMUTABLE)
		return -EPERM;
	return access_to(cred, dir, FS_MAY_WRITE | FS_MAY_EXEC);
}

int permit_remove(const struct fs_cred *cred, const struct fs_stat *dir,
		  const struct fs_stat *victim)
{
	const int err = permit_create(cred, dir);

	if (err)
		return err;
	if (dir->attrs & STATX_ATTR_APPEND)
		return -EPERM;
	if ((dir->mode & STICKY) && !owns(cred, victim) && !owns(cred, dir))
		return -EPERM;
	return victim->attrs & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND) ? -EPERM : 0;
}

int permit_link(const struct fs_stat *file)
{
	if (is_type(file, S_IFDIR))
		return -EPERM;
	return file->attrs & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND) ? -EPERM : 0;
}

void permit_owner(const struct fs_cred *cred, const struct fs_stat *dir, uint32_t *mode,
		  uint32_t *gid)
{
	*gid = cred->gid;
	if (!(dir->mode & SET_GID))
		return;
	*gid = dir->gid;
	if ((*mode & S_IFMT) == S_IFDIR)
		*mode |= SET_GID;
	else if ((*mode & (SET_GID | 010)) == (SET_GID | 010) && !fs_cred_is_root(cred) &&
		 !fs_in_group(cred, dir->gid))
		*mode &= ~SET_GID;
}

/* --- attributes -------------------------------------------------------------------------- */

static int check_owner(const struct fs_cred *cred, const struct fs_stat *file,
		       const struct ps_setattr_req *req)
{
	if (fs_cred_is_root(cred))
		return 0;
	if ((req->valid & PS_SET_UID) && (cred->uid != file->uid || req->uid != file->uid))
		return -EPERM;
	if ((req->valid & PS_SET_GID) &&
	    (cred->uid != file->uid || (req->gid != file->gid && !fs_in_group(cred, req->gid))))
		return -EPERM;
	return (req->valid & PS_SET_MODE) && cred->uid != file->uid ? -EPERM : 0;
}

static int check_size(const struct fs_cred *cred, const struct fs_stat *file,
		      const struct ps_setattr_req *req)
{
	if (!(req->valid & PS_SET_SIZE))
		return 0;
	if (is_type(file, S_IFDIR))
		return -EISDIR;
	if (!is_type(file, S_IFREG))
		return -EINVAL;
	if (file->attrs & STATX_ATTR_APPEND)
		return -EPERM;
	return req->valid & PS_SET_BY_OPEN_FILE ? 0 : access_to(cred, file, FS_MAY_WRITE);
}

/*
 * The sender has looked for the capability, and may have compared with flags that have changed
 * since.
 */
static int check_flags(const struct fs_cred *cred, const struct fs_stat *file,
		       const struct ps_setattr_req *req)
{
	const uint32_t guarded = STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND;

	if (!owns(cred, file))
		return -EPERM;
	return ((req->flags ^ file->attrs) & guarded) && !(req->valid & PS_SET_GUARDED) ? -EPERM
											: 0;
}

/* The owner sets times as it likes; another user that may write the file makes them now. */
static int check_times(const struct fs_cred *cred, const struct fs_stat *file,
		       const struct ps_setattr_req *req)
{
	const uint32_t set = PS_SET_ATIME | PS_SET_MTIME;
	const uint32_t now = PS_SET_ATIME_NOW | PS_SET_MTIME_NOW;

	if (owns(cred, file) || !(req->valid & (set | now)))
		return 0;
	if ((req->valid & (set | now)) != now)
		return -EPERM;
	return access_to(cred, file, FS_MAY_WRITE);
}

/* Rights that came from the old owner or contents go. */
static uint32_t without_rights(uint32_t mode)
{
	mode &= ~SET_UID;
	return (mode & 010) ? mode & ~SET_GID : mode;
}

static void new_mode(const struct fs_cred *cred, const struct fs_stat *file,
		     const struct ps_setattr_req *req, struct fs_attr *out)
{
	const uint32_t gid = req->valid & PS_SET_GID ? req->gid : file->gid;
	uint32_t mode = file->mode & 07777;

	if (req->valid & PS_SET_MODE) {
		mode = req->mode;
		if (!fs_cred_is_root(cred) && !fs_in_group(cred, gid))
			mode &= ~SET_GID;
	}
	if (!is_type(file, S_IFDIR) && ((req->valid & (PS_SET_UID | PS_SET_GID)) ||
					(req->valid & PS_SET_SIZE && !fs_cred_is_root(cred))))
		mode = without_rights(mode);
	out->mode = mode;
	if ((req->valid & PS_SET_MODE) || mode != (file->mode & 07777))
		out->mask |= FS_SET_MODE;
}

int permit_setattr(const struct fs_cred *cred, const struct fs_stat *file,
		   const struct ps_setattr_req *req, struct fs_time now, struct fs_attr *out)
{
	const uint32_t touch = PS_SET_ATIME_NOW | PS_SET_MTIME_NOW;
	struct fs_attr a = { .uid = req->uid, .gid = req->gid, .size = req->size };
	int err;

	if (req->valid & PS_SET_FLAGS) {
		*out = (struct fs_attr){ .mask = FS_SET_FLAGS, .flags = (uint32_t)req->flags };
		return check_flags(cred, file, req);
	}
	if (file->attrs & STATX_ATTR_IMMUTABLE)
		return -EPERM;
	if ((file->attrs & STATX_ATTR_APPEND) && (req->valid & ~touch))
		return -EPERM;
	if ((req->valid & PS_SET_MODE) && is_type(file, S_IFLNK))
		return -EOPNOTSUPP;
	err = check_owner(cred, file, req);
	if (!err)
		err = check_size(cred, file, req);
	if (!err)
		err = check_times(cred, file, req);
	if (err)
		return err;
	if (req->valid & PS_SET_UID)
		a.mask |= FS_SET_UID;
	if (req->valid & PS_SET_GID)
		a.mask |= FS_SET_GID;
	if (req->valid & PS_SET_SIZE)
		a.mask |= FS_SET_SIZE;
	if (req->valid & (PS_SET_ATIME | PS_SET_ATIME_NOW))
		a.mask |= FS_SET_ATIME;
	if (req->valid & (PS_SET_MTIME | PS_SET_MTIME_NOW))
		a.mask |= FS_SET_MTIME;
	a.atime = req->valid & PS_SET_ATIME ? (struct fs_time){ req->atime_s, req->atime_ns } : now;
	a.mtime = req->valid & PS_SET_MTIME ? (struct fs_time){ req->mtime_s, req->mtime_ns } : now;
	new_mode(cred, file, req, &a);
	*out = a;
	return 0;
}

/* --- extended attributes ------------------------------------------------------------------- */

static bool has_prefix(const char *name, size_t len, const char *prefix)
{
	const size_t n = strlen(prefix);

	return len > n && !memcmp(name, prefix, n);
}

/* Of a user: as its contents, and only where contents are the user's. */
static int permit_user_xattr(const struct fs_cred *cred, const struct fs_stat *file, bool write)
{
	const bool dir = is_type(file, S_IFDIR);

	if (!dir && !is_type(file, S_IFREG))
		return write ? -EPERM : -ENODATA;
	if (write && dir && (file->mode & STICKY) && !owns(cred, file))
		return -EPERM;
	return access_to(cred, file, write ? FS_MAY_WRITE : FS_MAY_READ);
}

int permit_xattr(const struct fs_cred *cred, const struct fs_stat *file, const char *name,
		 size_t len, bool write)
{
	if (write && (file->attrs & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)))
		return -EPERM;
	if (has_prefix(name, len, "user."))
		return permit_user_xattr(cred, file, write);
	if (has_prefix(name, len, "trusted."))
		return fs_cred_is_root(cred) ? 0 : write ? -EPERM : -ENODATA;
	if (has_prefix(name, len, "security."))
		return write && !fs_cred_is_root(cred) ? -EPERM : 0;
	if (!posix_acl_is_name(name, len) || is_type(file, S_IFLNK))
		return -EOPNOTSUPP;
	return write && !owns(cred, file) ? -EPERM : 0;
}
