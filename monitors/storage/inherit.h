/* SPDX-License-Identifier: MIT */
/* Storage monitor: access control lists that new files get, and set-group-id beside them. */
#pragma once

#include <fs/access.h>
#include <fs/fs.h>
#include <lib/compiler.h>

struct inherited {
	uint8_t *def; /* the directory's default list, and room for an access list; NULL: none */
	size_t len;
	struct fs_xattr xattrs[2];
};

/*
 * Find what a file of @mode's type inherits in @dir, of attributes @s: in->def says whether
 * anything, and then the umask does not count. -ENOMEM, errors of the disk; else inherit_end()
 * follows.
 */
int __must_check inherit_begin(struct inherited *in, struct fs_inode *dir, const struct fs_stat *s,
			       uint32_t mode);
/* Change what->mode, and add the lists, which stay @in's. */
void inherit_apply(struct inherited *in, struct fs_new *what);
void inherit_end(struct inherited *in);
/*
 * @cred sets attribute @x of the file of attributes @s: an access list takes set-group-id from it
 * unless the user is of its group.
 */
bool inherit_drops_setgid(const struct fs_stat *s, const struct fs_cred *cred,
			  const struct fs_xattr *x);
