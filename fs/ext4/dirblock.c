/* SPDX-License-Identifier: MIT */
/*
 * ext4: blocks of directories: their checks, and the search for a name in one.
 *
 * Invariants:	a block that ext4_dir_block() returned has been walked once from end to end, so
 *		the code that searches it needs no checks of its own.
 */
#include <lib/byteorder.h>
#include <lib/crc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "ext4_priv.h"

uint32_t ext4_dir_nr_blocks(const struct ext4_inode *dir)
{
	return (uint32_t)(dir->size >> dir->fs->block_bits);
}

bool ext4_dir_is_indexed(const struct ext4_inode *dir)
{
	return (dir->fs->compat & EXT4_COMPAT_DIR_INDEX) && (dir->flags & EXT4_FL_INDEX);
}

static bool name_ok(const char *name, size_t len)
{
	return len && !memchr(name, '/', len) && !memchr(name, '\0', len);
}

int ext4_dirents_check(const struct ext4_inode *dir, const uint8_t *data, uint32_t len,
		       uint32_t lblk)
{
	const struct ext4_fs *fs = dir->fs;
	uint32_t at = 0;

	while (at < len) {
		const struct ext4_dirent_disk *de = (const void *)(data + at);
		const char *what = NULL;
		uint32_t rec_len;

		if (len - at < sizeof(*de))
			return ext4_corrupt(dir->fs, "directory %u: block %u: cut short", dir->ino,
					    lblk);
		rec_len = ext4_rec_len(de->rec_len, fs->block_size);
		if (rec_len < 12 || rec_len % 4 || rec_len > len - at ||
		    de->name_len > rec_len - sizeof(*de))
			what = "entry length";
		else if (le32_to_cpu(de->ino) > fs->nr_inodes)
			what = "inode number";
		else if (de->ino && !name_ok(de->name, de->name_len))
			what = "name";
		if (what)
			return ext4_corrupt(dir->fs, "directory %u: block %u, byte %u: %s",
					    dir->ino, lblk, at, what);
		at += rec_len;
	}
	return 0;
}

static int check_tail(const struct ext4_inode *dir, const uint8_t *data, uint32_t lblk)
{
	const struct ext4_fs *fs = dir->fs;
	const size_t at = fs->block_size - sizeof(struct ext4_dirent_tail);
	struct ext4_dirent_tail tail;

	memcpy(&tail, data + at, sizeof(tail));
	if (tail.zero1 || tail.zero2 || le16_to_cpu(tail.rec_len) != sizeof(tail) ||
	    tail.file_type != EXT4_TAIL_FILE_TYPE)
		return ext4_corrupt(dir->fs, "directory %u: block %u: no checksum", dir->ino, lblk);
	if (crc32c(dir->csum_seed, data, at) != le32_to_cpu(tail.checksum))
		return ext4_corrupt(dir->fs, "directory %u: block %u: checksum", dir->ino, lblk);
	return 0;
}

/* Does this block of an indexed directory look like one of the index's inner nodes? */
static bool is_inner_node(const struct ext4_fs *fs, const uint8_t *data)
{
	const struct ext4_dirent_disk *de = (const void *)data;

	return !de->ino && ext4_rec_len(de->rec_len, fs->block_size) == fs->block_size;
}

/* Check a block; *@len: the bytes of it that hold entries. */
static int check_block(const struct ext4_inode *dir, const uint8_t *data, uint32_t lblk,
		       enum ext4_check as, uint32_t *len, bool known)
{
	const struct ext4_fs *fs = dir->fs;
	const bool indexed = ext4_dir_is_indexed(dir);
	const bool root = indexed && lblk == 0;
	/* Without checksums an empty leaf looks the same as an inner node, and as harmless. */
	const bool inner = indexed && lblk != 0 && is_inner_node(fs, data) &&
			   (fs->has_csum || as == EXT4_CHECK_DX_NODE);
	int err = 0;

	if (as == EXT4_CHECK_DX_NODE && !inner)
		return ext4_corrupt(dir->fs, "directory %u: block %u is no index node", dir->ino,
				    lblk);
	*len = fs->block_size;
	if (fs->has_csum && !root && !inner)
		*len -= sizeof(struct ext4_dirent_tail);
	if (known)
		return 0;
	if (root || inner)
		err = ext4_dx_check(dir, data, root, lblk);
	else if (fs->has_csum)
		err = check_tail(dir, data, lblk);
	if (!err)
		err = ext4_dirents_check(dir, data, *len, lblk);
	return err;
}

struct bcache_buf *ext4_dir_block(struct ext4_inode *dir, uint32_t lblk, enum ext4_check as,
				  uint32_t *len)
{
	struct bcache_buf *buf;
	struct ext4_map map;
	int err;

	err = ext4_map_blocks(dir, lblk, 1, &map);
	if (err)
		return ERR_PTR(err);
	if (map.type != EXT4_MAP_DATA)
		return ERR_PTR(
			ext4_corrupt(dir->fs, "directory %u: block %u is missing", dir->ino, lblk));
	buf = bcache_get(dir->fs->bc, map.block);
	if (IS_ERR(buf))
		return buf;
	/* An indexed block 0 and a plain one differ, so @as is part of what was checked. */
	err = check_block(dir, buf->data, lblk, as, len, ext4_checked(buf, dir->ino, as));
	if (err) {
		bcache_put(buf);
		return ERR_PTR(err);
	}
	ext4_set_checked(buf, dir->ino, as);
	return buf;
}

/* An entry has room for so many bytes of a name, whatever its length is. */
#define SHORT_NAME 4u

/* Find the entry called @name: p->at, p->prev and p->ino. */
static __always_inline bool find_name(const uint8_t *data, uint32_t block_size, const char *name,
				      size_t name_len, struct ext4_place *p)
{
	/* The last four bytes, by which names of one directory differ most often. */
	const size_t end_at = name_len < SHORT_NAME ? 0 : name_len - SHORT_NAME;
	const uint32_t mask = name_len < SHORT_NAME ? (1u << 8 * name_len) - 1 : UINT32_MAX;
	const uint32_t len = p->len;
	uint32_t at = 0, prev = len, end = 0;

	for (size_t i = 0; i < MIN(name_len, (size_t)SHORT_NAME); i++)
		end |= (uint32_t)(uint8_t)name[end_at + i] << 8 * i;
	while (at < len) {
		const struct ext4_dirent_disk *de = (const void *)(data + at);

		if (de->name_len == name_len &&
		    (get_unaligned_le32(de->name + end_at) & mask) == end && de->ino &&
		    !memcmp(de->name, name, name_len)) {
			p->at = at;
			p->prev = prev;
			p->ino = le32_to_cpu(de->ino);
			return true;
		}
		prev = at;
		at += ext4_rec_len(de->rec_len, block_size);
	}
	return false;
}

/* The first entry behind which @need bytes are free; @len: there is none. */
static __always_inline uint32_t find_room(const uint8_t *data, uint32_t block_size, uint32_t len,
					  uint32_t need)
{
	uint32_t at = 0;

	while (at < len) {
		const struct ext4_dirent_disk *de = (const void *)(data + at);
		const uint32_t rec_len = ext4_rec_len(de->rec_len, block_size);

		/* Of names as long as this one, most have as much room as they need. */
		if (rec_len >= need + EXT4_ENTRY_MIN || (rec_len >= need && !de->ino)) {
			if (rec_len - (de->ino ? ext4_entry_need(de->name_len) : 0) >= need)
				return at;
		}
		at += rec_len;
	}
	return len;
}

static __always_inline bool search(const uint8_t *data, uint32_t block_size, const char *name,
				   size_t name_len, struct ext4_place *p)
{
	p->at = p->prev = p->room = p->len;
	if (find_name(data, block_size, name, name_len, p))
		return true;
	if (p->need)
		p->room = find_room(data, block_size, p->len, p->need);
	return false;
}

bool ext4_entry_search(const struct ext4_fs *fs, const uint8_t *data, const char *name,
		       size_t name_len, struct ext4_place *p)
{
	/* Lengths read the same in all blocks of less than 64 KiB: a constant keeps loops short. */
	if (fs->block_size < 65536)
		return search(data, PAGE_SIZE, name, name_len, p);
	return search(data, fs->block_size, name, name_len, p);
}

int ext4_block_search(struct ext4_inode *dir, uint32_t lblk, const char *name, size_t name_len,
		      struct ext4_place *p)
{
	struct ext4_place here = { .lblk = lblk, .need = p->need };
	bool found;

	here.buf = ext4_dir_block(dir, lblk, EXT4_CHECK_DIR, &here.len);
	if (IS_ERR(here.buf))
		return (int)PTR_ERR(here.buf);
	found = ext4_entry_search(dir->fs, here.buf->data, name, name_len, &here);
	if (!found && (p->buf || here.room == here.len)) {
		ext4_place_put(&here);
		return -ENOENT;
	}
	ext4_place_put(p);
	*p = here;
	return found ? 0 : -ENOENT;
}

int ext4_dirents_find(const struct ext4_fs *fs, const uint8_t *data, uint32_t len, const char *name,
		      size_t name_len, uint32_t *ino)
{
	struct ext4_place p = { .len = len };

	if (!ext4_entry_search(fs, data, name, name_len, &p))
		return -ENOENT;
	*ino = p.ino;
	return 0;
}
