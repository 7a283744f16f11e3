/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: access control lists that a new file gets from its directory, and what goes with
 * a list that is set.
 *
 * Flow:	a directory with a default list gives it to what is made in it, which then has no
 *		regard for the umask: as access list, cut to the mode that was asked for, and to
 *		directories as default list again. Both are set in the transaction that makes the
 *		file.
 */
#include "inherit.h"

#include <fs/acl.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#define SET_GID 02000u

int inherit_begin(struct inherited *in, struct fs_inode *dir, const struct fs_stat *s,
		  uint32_t mode)
{
	int64_t len;

	*in = (struct inherited){ .def = NULL };
	if (!s->acl || (mode & S_IFMT) == S_IFLNK)
		return 0;
	in->def = kmalloc(2 * POSIX_ACL_MAX);
	if (!in->def)
		return -ENOMEM;
	len = fs_posix_acl(dir, POSIX_ACL_DEFAULT, in->def);
	if (len > 0) {
		in->len = (size_t)len;
		return 0;
	}
	inherit_end(in);
	return (int)len;
}

void inherit_apply(struct inherited *in, struct fs_new *what)
{
	uint8_t *access = in->def + POSIX_ACL_MAX;

	if (!in->def)
		return;
	memcpy(access, in->def, in->len);
	if (!posix_acl_inherit(access, in->len, &what->mode))
		in->xattrs[what->nr_xattrs++] =
			(struct fs_xattr){ .name = POSIX_ACL_ACCESS,
					   .name_len = strlen(POSIX_ACL_ACCESS),
					   .value = access,
					   .value_len = in->len };
	if ((what->mode & S_IFMT) == S_IFDIR)
		in->xattrs[what->nr_xattrs++] =
			(struct fs_xattr){ .name = POSIX_ACL_DEFAULT,
					   .name_len = strlen(POSIX_ACL_DEFAULT),
					   .value = in->def,
					   .value_len = in->len };
	what->xattrs = in->xattrs;
}

void inherit_end(struct inherited *in)
{
	kfree(in->def);
	in->def = NULL;
}

bool inherit_drops_setgid(const struct fs_stat *s, const struct fs_cred *cred,
			  const struct fs_xattr *x)
{
	return x->value && (s->mode & SET_GID) && !fs_cred_is_root(cred) &&
	       !fs_in_group(cred, s->gid) && x->name_len == strlen(POSIX_ACL_ACCESS) &&
	       !memcmp(x->name, POSIX_ACL_ACCESS, x->name_len) &&
	       !posix_acl_check(x->value, x->value_len);
}
