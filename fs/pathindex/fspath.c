/* SPDX-License-Identifier: MIT */
/* Any struct fs as path resolution sees it. */
#include <fs/acl.h>
#include <fs/fs.h>
#include <fs/pathindex.h>
#include <lib/err.h>
#include <lib/errno.h>

static void node_fill(const struct fs_inode *in, struct path_node *out)
{
	struct fs_stat st;

	fs_inode_stat(in, &st);
	*out = (struct path_node){
		.ino = st.ino,
		.gen = st.gen,
		.mode = st.mode,
		.uid = st.uid,
		.gid = st.gid,
		.acl = st.acl,
	};
}

static int node_get(void *fs, uint64_t ino, struct path_node *out)
{
	struct fs_inode *in = fs_inode_get(fs, ino, FS_ANY_GEN);

	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	node_fill(in, out);
	fs_inode_put(in);
	return 0;
}

static int node_lookup(void *fs, const struct path_node *dir, const char *name, size_t len,
		       struct path_node *out)
{
	struct fs_inode *parent, *in;
	int err = 0;

	parent = fs_inode_get(fs, dir->ino, dir->gen);
	if (IS_ERR(parent))
		return (int)PTR_ERR(parent);
	in = fs_lookup(parent, name, len);
	if (IS_ERR(in)) {
		err = (int)PTR_ERR(in);
	} else {
		node_fill(in, out);
		fs_inode_put(in);
	}
	fs_inode_put(parent);
	return err;
}

static int node_search(void *fs, const struct path_node *dir, const struct fs_cred *cred)
{
	struct fs_inode *in = fs_inode_get(fs, dir->ino, dir->gen);
	int err;

	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	err = fs_may(in, cred, FS_MAY_EXEC);
	fs_inode_put(in);
	return err;
}

static int node_readlink(void *fs, const struct path_node *link, char *buf, size_t *len)
{
	struct fs_inode *in = fs_inode_get(fs, link->ino, link->gen);
	int err;

	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	err = fs_readlink(in, buf, len);
	fs_inode_put(in);
	return err;
}

const struct path_ops fs_path_ops = {
	.get = node_get,
	.lookup = node_lookup,
	.search = node_search,
	.readlink = node_readlink,
};
