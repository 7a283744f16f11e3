/* SPDX-License-Identifier: MIT */
/* ext4 as path resolution sees it. */
#include <fs/pathindex.h>
#include <lib/err.h>
#include <lib/errno.h>

#include "ext4_priv.h"

static void node_fill(const struct ext4_inode *in, struct path_node *out)
{
	out->ino = in->ino;
	out->gen = in->gen;
	out->mode = in->mode;
	out->uid = in->uid;
	out->gid = in->gid;
}

static int path_get(void *fs, uint64_t ino, struct path_node *out)
{
	struct ext4_inode *in = ext4_inode_get(fs, ino, EXT4_ANY_GEN);

	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	node_fill(in, out);
	ext4_inode_put(in);
	return 0;
}

static int path_lookup(void *fs, const struct path_node *dir, const char *name, size_t len,
		       struct path_node *out)
{
	struct ext4_inode *parent, *in;
	int err = 0;

	parent = ext4_inode_get(fs, dir->ino, dir->gen);
	if (IS_ERR(parent))
		return (int)PTR_ERR(parent);
	in = ext4_lookup_get(parent, name, len);
	if (IS_ERR(in)) {
		err = (int)PTR_ERR(in);
	} else {
		node_fill(in, out);
		ext4_inode_put(in);
	}
	ext4_inode_put(parent);
	return err;
}

static int path_readlink(void *fs, const struct path_node *link, char *buf, size_t *len)
{
	struct ext4_inode *in = ext4_inode_get(fs, link->ino, link->gen);
	int err;

	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	err = ext4_readlink(in, buf, len);
	ext4_inode_put(in);
	return err;
}

const struct path_ops ext4_path_ops = {
	.get = path_get,
	.lookup = path_lookup,
	.readlink = path_readlink,
};
