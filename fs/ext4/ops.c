/* SPDX-License-Identifier: MIT */
/* ext4 as a struct fs: from the generic structures to the reader's own. */
#include <fs/ext4.h>
#include <lib/err.h>
#include <lib/errno.h>

#include "ext4_priv.h"

static struct ext4_fs *ext4_of(struct fs *fs)
{
	return container_of(fs, struct ext4_fs, base);
}

static struct ext4_inode *inode_of(struct fs_inode *in)
{
	return container_of(in, struct ext4_inode, base);
}

static struct fs_inode *base_of(struct ext4_inode *in)
{
	return IS_ERR(in) ? ERR_CAST(in) : &in->base;
}

static void op_unmount(struct fs *fs)
{
	ext4_unmount(ext4_of(fs));
}

static void op_statfs(struct fs *fs, struct fs_statfs *out)
{
	ext4_statfs(ext4_of(fs), out);
}

static void op_counts(struct fs *fs, struct fs_counts *out)
{
	ext4_counts(ext4_of(fs), out);
}

static struct fs_inode *op_inode_get(struct fs *fs, uint64_t ino, uint64_t gen)
{
	return base_of(ext4_inode_get(ext4_of(fs), ino, gen));
}

static void op_inode_put(struct fs_inode *in)
{
	ext4_inode_put(inode_of(in));
}

static void op_stat(const struct fs_inode *in, struct fs_stat *out)
{
	ext4_inode_stat(container_of(in, const struct ext4_inode, base), out);
}

static struct fs_inode *op_lookup(struct fs_inode *dir, const char *name, size_t len,
				  struct fs_place *place)
{
	return base_of(ext4_lookup_get(inode_of(dir), name, len, NULL, place));
}

static int op_readdir(struct fs_inode *dir, uint64_t *cookie, uint64_t behind, fs_fill_fn fill,
		      void *arg)
{
	return ext4_readdir(inode_of(dir), cookie, behind, fill, arg);
}

static int op_readlink(struct fs_inode *in, char *buf, size_t *len)
{
	return ext4_readlink(inode_of(in), buf, len);
}

static int op_read_pages(struct fs_inode *in, uint64_t index, void *const *pages, unsigned int nr)
{
	return ext4_read_pages(inode_of(in), index, pages, nr);
}

static int64_t op_seek(struct fs_inode *in, uint64_t off, int whence)
{
	return ext4_seek(inode_of(in), off, whence);
}

static int64_t op_xattr_get(struct fs_inode *in, const char *name, size_t len, void *buf,
			    size_t size)
{
	return ext4_xattr_get(inode_of(in), name, len, buf, size);
}

static int64_t op_xattr_list(struct fs_inode *in, char *buf, size_t size)
{
	return ext4_xattr_list(inode_of(in), buf, size);
}

const struct fs_ops ext4_fs_ops = {
	.name = "ext4",
	.unmount = op_unmount,
	.statfs = op_statfs,
	.counts = op_counts,
	.inode_get = op_inode_get,
	.inode_put = op_inode_put,
	.stat = op_stat,
	.lookup = op_lookup,
	.readdir = op_readdir,
	.readlink = op_readlink,
	.read_pages = op_read_pages,
	.xattr_get = op_xattr_get,
	.xattr_list = op_xattr_list,
	.seek = op_seek,
};

int ext4_map(struct fs_inode *in, uint32_t lblk, uint32_t max, struct ext4_map *map)
{
	return ext4_map_blocks(inode_of(in), lblk, max, map);
}
