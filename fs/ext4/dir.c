/* SPDX-License-Identifier: MIT */
/*
 * ext4: lookup and readdir over the three shapes of a directory: inline, plain, indexed.
 *
 * Cookies of plain and indexed directories are byte positions.  In an inline directory 0 is
 * ".", 1 is "..", and byte position p of its contents is p + 16.
 *
 * Context:	threads; may sleep for the disk.
 */
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "ext4_priv.h"

#define INLINE_PARENT_LEN  4u /* the parent's inode number stands before the entries */
#define INLINE_COOKIE_BASE 16u

static bool is_dots(const char *name, size_t len)
{
	return (len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.');
}

static bool is_inline(const struct ext4_inode *dir)
{
	return dir->flags & EXT4_FL_INLINE_DATA;
}

/* The two runs of entries of an inline directory. */
static const uint8_t *inline_part(const struct ext4_inode *dir, unsigned int part, uint32_t *len)
{
	if (part == 0) {
		*len = EXT4_IBLOCK_LEN - INLINE_PARENT_LEN;
		return dir->iblock + INLINE_PARENT_LEN;
	}
	*len = dir->inline_more_len;
	return dir->inline_more;
}

static uint32_t inline_parent(const struct ext4_inode *dir)
{
	return get_unaligned_le32(dir->iblock);
}

static int inline_lookup(struct ext4_inode *dir, const char *name, size_t len, uint32_t *ino)
{
	const uint8_t *data;
	uint32_t part_len;
	int err = -ENOENT;

	if (is_dots(name, len)) {
		*ino = len == 1 ? dir->ino : inline_parent(dir);
		return 0;
	}
	for (unsigned int part = 0; part < 2 && err == -ENOENT; part++) {
		data = inline_part(dir, part, &part_len);
		err = ext4_dirents_find(dir->fs, data, part_len, name, len, ino);
	}
	return err;
}

static int linear_lookup(struct ext4_inode *dir, const char *name, size_t len, uint32_t nr_blocks,
			 uint32_t *ino)
{
	struct bcache_buf *buf;
	uint32_t entries_len;
	int err = -ENOENT;

	for (uint32_t lblk = 0; lblk < nr_blocks && err == -ENOENT; lblk++) {
		buf = ext4_dir_block(dir, lblk, EXT4_CHECK_DIR, &entries_len);
		if (IS_ERR(buf))
			return (int)PTR_ERR(buf);
		err = ext4_dirents_find(dir->fs, buf->data, entries_len, name, len, ino);
		bcache_put(buf);
	}
	return err;
}

static int lookup(struct ext4_inode *dir, const char *name, size_t len, uint32_t *ino)
{
	int err;

	if (!ext4_is_dir(dir))
		return -ENOTDIR;
	if (len > FS_NAME_MAX)
		return -ENAMETOOLONG;
	if (!len)
		return -ENOENT;
	if (is_inline(dir))
		return inline_lookup(dir, name, len, ino);
	if (is_dots(name, len))
		return linear_lookup(dir, name, len, 1, ino);
	if (ext4_dir_is_indexed(dir)) {
		err = ext4_htree_lookup(dir, name, len, ino);
		if (err != -EAGAIN)
			return err;
	}
	return linear_lookup(dir, name, len, ext4_dir_nr_blocks(dir), ino);
}

struct ext4_inode *ext4_lookup_get(struct ext4_inode *dir, const char *name, size_t len)
{
	struct ext4_inode *in;
	uint32_t ino;
	int err;

	err = lookup(dir, name, len, &ino);
	if (err)
		return ERR_PTR(err);
	in = ext4_inode_get(dir->fs, ino, FS_ANY_GEN);
	if (IS_ERR(in) && PTR_ERR(in) == -ESTALE)
		return ERR_PTR(ext4_corrupt(dir->fs, "directory %u names inode %u, which is free",
					    dir->ino, ino));
	return in;
}

/* The type of an entry, if the disk has it. */
static uint8_t dtype_of(const struct ext4_fs *fs, uint8_t file_type)
{
	static const uint8_t types[] = {
		DT_UNKNOWN, DT_REG, DT_DIR, DT_CHR, DT_BLK, DT_FIFO, DT_SOCK, DT_LNK,
	};

	if (!(fs->incompat & EXT4_INCOMPAT_FILETYPE) || file_type >= ARRAY_SIZE(types))
		return DT_UNKNOWN;
	return types[file_type];
}

/* Where a readdir is going on, and for whom. */
struct reader {
	struct ext4_inode *dir;
	uint64_t *cookie;
	fs_fill_fn fill;
	void *arg;
};

/*
 * Report the entries of one run of @len checked bytes, whose first byte has cookie @base.
 * Entries that begin before *cookie are skipped.  Returns what fill() returned.
 */
static int fill_run(struct reader *r, const uint8_t *data, uint32_t len, uint64_t base)
{
	const struct ext4_fs *fs = r->dir->fs;
	uint32_t at = 0;
	int stop;

	while (at < len) {
		const struct ext4_dirent_disk *de = (const void *)(data + at);
		const uint32_t rec_len = ext4_rec_len(de->rec_len, fs->block_size);
		const struct fs_dirent out = {
			.next_cookie = base + at + rec_len,
			.name = de->name,
			.ino = le32_to_cpu(de->ino),
			.name_len = de->name_len,
			.dtype = dtype_of(fs, de->file_type),
		};

		if (de->ino && base + at >= *r->cookie) {
			stop = r->fill(r->arg, &out);
			if (stop)
				return stop;
			*r->cookie = out.next_cookie;
		}
		at += rec_len;
	}
	return 0;
}

static int fill_dots(struct reader *r, bool parent)
{
	const struct fs_dirent out = {
		.next_cookie = parent ? INLINE_COOKIE_BASE : 1,
		.name = "..",
		.ino = parent ? inline_parent(r->dir) : r->dir->ino,
		.name_len = parent ? 2 : 1,
		.dtype = DT_DIR,
	};
	const int stop = r->fill(r->arg, &out);

	if (!stop)
		*r->cookie = out.next_cookie;
	return stop;
}

static int inline_readdir(struct reader *r)
{
	uint64_t base = INLINE_COOKIE_BASE;
	const uint8_t *data;
	uint32_t len;

	if (*r->cookie == 0 && fill_dots(r, false))
		return 0;
	if (*r->cookie == 1 && fill_dots(r, true))
		return 0;
	for (unsigned int part = 0; part < 2; part++) {
		data = inline_part(r->dir, part, &len);
		if (fill_run(r, data, len, base))
			return 0;
		base += len;
	}
	*r->cookie = MAX(*r->cookie, base);
	return 0;
}

int ext4_readdir(struct ext4_inode *dir, uint64_t *cookie, fs_fill_fn fill, void *arg)
{
	struct reader r = { .dir = dir, .cookie = cookie, .fill = fill, .arg = arg };
	struct bcache_buf *buf;
	uint64_t start;
	uint32_t len;
	int stop;

	if (!ext4_is_dir(dir))
		return -ENOTDIR;
	if (is_inline(dir))
		return inline_readdir(&r);

	while (*cookie < dir->size) {
		const uint32_t lblk = (uint32_t)(*cookie >> dir->fs->block_bits);

		buf = ext4_dir_block(dir, lblk, EXT4_CHECK_DIR, &len);
		if (IS_ERR(buf))
			return (int)PTR_ERR(buf);
		start = (uint64_t)lblk << dir->fs->block_bits;
		stop = fill_run(&r, buf->data, len, start);
		bcache_put(buf);
		if (stop)
			return 0;
		*cookie = start + dir->fs->block_size;
	}
	return 0;
}
