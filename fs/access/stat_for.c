/* SPDX-License-Identifier: MIT */
/*
 * Permission to use a file of a file system on a disk: its mode, and its access list if that
 * matters, which is then read.
 *
 * Context:	threads; sleeps for the disk.
 */
#include <fs/acl.h>
#include <fs/fs.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#define GRANTED 0x100u /* a list has said */
#define TRIES   8      /* of reading attributes and list while they change */

int64_t fs_posix_acl(struct fs_inode *in, const char *name, void *buf)
{
	const int64_t len = fs_xattr_get(in, name, strlen(name), buf, POSIX_ACL_MAX);
	int err;

	if (len == -ENODATA)
		return 0;
	/* One that is kept in a way that cannot be read lets nobody in. */
	if (len == -EOPNOTSUPP)
		return -EACCES;
	if (len < 0)
		return len == -ERANGE ? -EUCLEAN : len;
	err = posix_acl_check(buf, (size_t)len);
	if (err < 0)
		return -EUCLEAN;
	return err ? 0 : len;
}

static bool same_rights(const struct fs_stat *a, const struct fs_stat *b)
{
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid;
}

/*
 * The access list, as fs_posix_acl().  Without one the mode says all, but not that of *@out from
 * before: its bits of the group may be the mask of a list that has gone since.  So *@out becomes
 * what it was both before and after.
 */
static int64_t read_list(struct fs_inode *in, const struct fs_cred *cred, void *buf,
			 struct fs_stat *out)
{
	struct fs_stat old;
	int64_t len;

	for (int i = 0; i < TRIES; i++) {
		len = fs_posix_acl(in, POSIX_ACL_ACCESS, buf);
		if (len)
			return len;
		old = *out;
		fs_inode_stat(in, out);
		if ((same_rights(&old, out) && fs_time_is_same(old.ctime, out->ctime)) ||
		    !out->acl || !posix_acl_matters(cred, out->mode, out->uid))
			return 0;
	}
	/* A file that is written all the time changes in nothing but its times. */
	return same_rights(&old, out) ? 0 : -EACCES;
}

/* The attributes, with what a list grants of the wants from @first to @last. */
static int stat_with(struct fs_inode *in, const struct fs_cred *cred, uint32_t first, uint32_t last,
		     struct fs_stat *out)
{
	uint8_t *acl;
	int64_t len;

	fs_inode_stat(in, out);
	if (!out->acl || !posix_acl_matters(cred, out->mode, out->uid))
		return 0;
	acl = kmalloc(POSIX_ACL_MAX);
	if (!acl)
		return -ENOMEM;
	len = read_list(in, cred, acl, out);
	for (uint32_t want = first; len > 0 && want <= last; want++) {
		if (!posix_acl_access(cred, out->gid, want, acl, (size_t)len))
			out->granted |= (uint16_t)(1u << want);
	}
	if (len > 0)
		out->granted |= GRANTED;
	kfree(acl);
	return len < 0 ? (int)len : 0;
}

int fs_stat_for(struct fs_inode *in, const struct fs_cred *cred, struct fs_stat *out)
{
	return stat_with(in, cred, 0, 7, out);
}

int fs_may(struct fs_inode *in, const struct fs_cred *cred, uint32_t want)
{
	struct fs_stat s;
	const int err = stat_with(in, cred, want, want, &s);

	return err ? err : fs_stat_access(cred, &s, want);
}

int fs_stat_access(const struct fs_cred *cred, const struct fs_stat *s, uint32_t want)
{
	ASSERT(want < 8);
	if (s->granted & GRANTED)
		return s->granted & 1u << want ? 0 : -EACCES;
	return fs_access(cred, s->mode, s->uid, s->gid, want);
}
