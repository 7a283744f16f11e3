/* SPDX-License-Identifier: MIT */
/*
 * ext4: extended attributes, changed.
 *
 * A set of attributes is taken apart, changed and built anew, in the inode's bytes and in its
 * block.
 * A new value goes into the inode if there is room, else into the block.  A block that other inodes
 * share is left to them.
 *
 * Locking:	in->lock for writing.
 * Failure:	-ENOSPC: more than inode and block can keep, or no block is left; nothing changed.
 */
#include <abi/xattr.h>
#include <drivers/blkdev.h>
#include <fs/acl.h>
#include <kernel/panic.h>
#include <kernel/rwsem.h>
#include <lib/byteorder.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "ext4_write.h"
#include "xattr_priv.h"

/* Where attributes begin in the inode's bytes, and how many bytes there are; 0: no room. */
static uint32_t body_room(const struct ext4_inode *in, uint32_t *first)
{
	const uint32_t size = in->fs->inode_size;

	if (size == EXT4_GOOD_INODE_SIZE)
		return 0;
	*first = EXT4_GOOD_INODE_SIZE + get_unaligned_le16(in->raw + EXT4_GOOD_INODE_SIZE) + 4;
	return *first + 4 < size ? size - *first : 0;
}

/* The place of an inline file's contents may have moved. */
static void find_inline(struct ext4_inode *in, uint32_t first, uint32_t room)
{
	struct xattr_set set = { 0 };
	struct xattr_item *item;

	if (!(in->flags & EXT4_FL_INLINE_DATA) || xattr_parse(in->raw + first, 0, room, &set)) {
		kfree(set.items);
		return;
	}
	item = xattr_find(&set, XATTR_INDEX_SYSTEM, "data", 4);
	if (item)
		in->inline_at = (uint32_t)(item->value - in->raw);
	kfree(set.items);
}

static void write_body(struct ext4_inode *in, const struct xattr_set *set)
{
	uint32_t first;
	const uint32_t room = body_room(in, &first);

	if (!room)
		return;
	put_unaligned_le32(set->nr ? EXT4_XATTR_MAGIC : 0, in->raw + first - 4);
	xattr_build(set, in->raw + first, 0, room, false);
	find_inline(in, first, room);
}

int ext4_ibody_remove_data(struct ext4_inode *in)
{
	struct xattr_item *item;
	struct xattr_sets s;
	int err;

	err = xattr_load(in, &s);
	if (err)
		return err;
	item = xattr_find(&s.body, XATTR_INDEX_SYSTEM, "data", 4);
	if (item) {
		xattr_drop(&s.body, item);
		write_body(in, &s.body);
	}
	xattr_unload(&s);
	return 0;
}

/* Fill a block with @set, and put its checksum there. */
static int write_block(struct ext4_op *op, struct bcache_buf *buf, const struct xattr_set *set)
{
	struct ext4_fs *fs = op->fs;
	struct ext4_xattr_header *h = (void *)buf->data;
	uint32_t hash = 0;

	memset(h, 0, sizeof(*h));
	h->magic = cpu_to_le32(EXT4_XATTR_MAGIC);
	h->refcount = cpu_to_le32(1);
	h->blocks = cpu_to_le32(1);
	xattr_build(set, buf->data, XATTR_BLOCK_HEADER, fs->block_size - XATTR_BLOCK_HEADER, true);
	for (uint32_t at = XATTR_BLOCK_HEADER; get_unaligned_le32(buf->data + at);) {
		struct ext4_xattr_entry e;

		memcpy(&e, buf->data + at, sizeof(e));
		hash = (hash << 16) ^ (hash >> 16) ^ le32_to_cpu(e.hash);
		at += (uint32_t)ALIGN_UP(sizeof(e) + e.name_len, (size_t)4);
	}
	h->hash = cpu_to_le32(hash);
	if (fs->has_csum)
		h->checksum = cpu_to_le32(xattr_block_csum(fs, buf->block, buf->data));
	return ext4_dirty(op->h, buf);
}

/* Give up this inode's part in its block. */
static int drop_block(struct ext4_op *op, struct ext4_inode *in, struct bcache_buf *buf)
{
	struct ext4_xattr_header *h = (void *)buf->data;
	const uint32_t refs = le32_to_cpu(h->refcount);
	const uint64_t block = in->file_acl;
	int err;

	in->file_acl = 0;
	if (refs <= 1)
		return ext4_bfree(op, in, block, 1, true);
	in->blocks -= MIN(in->blocks, (uint64_t)in->fs->block_size >> BLK_SECTOR_SHIFT);
	err = ext4_write_access(op->h, buf);
	if (err)
		return err;
	h->refcount = cpu_to_le32(refs - 1);
	if (op->fs->has_csum)
		h->checksum = cpu_to_le32(xattr_block_csum(op->fs, block, buf->data));
	return ext4_dirty(op->h, buf);
}

int ext4_xattr_drop_block(struct ext4_op *op, struct ext4_inode *in)
{
	struct bcache_buf *buf;
	int err;

	if (!in->file_acl)
		return 0;
	if (!ext4_block_of_file(in->fs, in->file_acl))
		return ext4_corrupt(in->fs, "inode %u: block of attributes", in->ino);
	buf = bcache_get(in->fs->bc, in->file_acl);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	if (get_unaligned_le32(buf->data) != EXT4_XATTR_MAGIC)
		err = ext4_corrupt(in->fs, "inode %u: block of attributes", in->ino);
	else
		err = drop_block(op, in, buf);
	bcache_put(buf);
	return err;
}

/* The block's new contents: in place, in a new block if others share it, or none at all. */
static int store_block(struct ext4_op *op, struct ext4_inode *in, struct xattr_sets *s)
{
	struct bcache_buf *fresh;
	uint64_t block;
	int err;

	if (!s->block.nr)
		return s->buf ? drop_block(op, in, s->buf) : 0;
	if (s->buf &&
	    le32_to_cpu(((const struct ext4_xattr_header *)(const void *)s->buf->data)->refcount) ==
		    1) {
		err = ext4_write_access(op->h, s->buf);
		return err ? err : write_block(op, s->buf, &s->block);
	}
	fresh = ext4_balloc_beside(op, in, 0);
	if (IS_ERR(fresh))
		return (int)PTR_ERR(fresh);
	block = fresh->block;
	err = write_block(op, fresh, &s->block);
	bcache_put(fresh);
	if (!err && s->buf)
		err = drop_block(op, in, s->buf);
	in->file_acl = block;
	return err ? ext4_op_abort(op, err, "extended attributes") : 0;
}

/* Where the new value goes; the sets are as they shall be afterwards. */
static int place(struct ext4_inode *in, struct xattr_sets *s, const struct xattr_item *item)
{
	uint32_t first;
	const uint32_t room = body_room(in, &first);
	int err;

	err = xattr_add(&s->body, item);
	if (err || (room && xattr_fits(&s->body, room)))
		return err;
	s->body.nr--;
	err = xattr_add(&s->block, item);
	if (!err && !xattr_fits(&s->block, in->fs->block_size - XATTR_BLOCK_HEADER))
		err = -ENOSPC;
	return err;
}

/* Set, or with a NULL value remove, one attribute in its form on disk. */
static int set_item(struct ext4_op *op, struct ext4_inode *in, const struct xattr_item *item,
		    uint32_t flags)
{
	struct xattr_item *in_body, *in_block;
	struct xattr_sets s;
	bool block_changes;
	uint32_t nr_block;
	int err;

	err = xattr_load(in, &s);
	if (err)
		return err;
	in_body = xattr_find(&s.body, item->index, item->name, item->name_len);
	in_block = xattr_find(&s.block, item->index, item->name, item->name_len);
	err = 0;
	if ((in_body || in_block) && (flags & XATTR_CREATE))
		err = -EEXIST;
	else if (!in_body && !in_block && ((flags & XATTR_REPLACE) || !item->value))
		err = -ENODATA;
	if (err)
		goto out;
	block_changes = in_block != NULL;
	if (in_body)
		xattr_drop(&s.body, in_body);
	if (in_block)
		xattr_drop(&s.block, in_block);
	nr_block = s.block.nr;
	if (item->value)
		err = place(in, &s, item);
	if (err)
		goto out;
	block_changes |= s.block.nr != nr_block;
	if (block_changes)
		err = store_block(op, in, &s);
	if (!err)
		write_body(in, &s.body);
out:
	xattr_unload(&s);
	return err;
}

/*
 * Set or remove a list.  One that says no more than the mode is not kept, and removing one that is
 * not there is no error: XATTR_CREATE and _REPLACE do not count.
 */
static int set_acl(struct ext4_op *op, struct ext4_inode *in, struct xattr_item *item,
		   const struct fs_xattr *x)
{
	const bool access = item->index == XATTR_INDEX_ACL_ACCESS;
	int err = x->value ? posix_acl_check(x->value, x->value_len) : 1;
	uint32_t mode = in->mode & 0777;
	uint8_t *disk = NULL;
	bool keep = !err;
	size_t len;

	if (err < 0)
		return err;
	if (!access && !ext4_is_dir(in))
		return keep ? -EACCES : 0;
	if (keep && access)
		keep = !posix_acl_mode(x->value, x->value_len, &mode);
	if (keep) {
		disk = ext4_alloc(op->fs, x->value_len);
		if (!disk)
			return -ENOMEM;
		err = acl_to_disk(x->value, x->value_len, disk, &len);
		if (err)
			goto out;
		item->value_len = (uint32_t)len;
	}
	item->value = disk;
	err = set_item(op, in, item, 0);
	if (err == -ENODATA && !disk)
		err = 0;
	if (!err)
		in->mode = (in->mode & ~(x->drops_setgid ? 02777u : 0777u)) | mode;
out:
	kfree(disk);
	return err;
}

int ext4_xattr_set_op(struct ext4_op *op, struct ext4_inode *in, const struct fs_xattr *x,
		      uint32_t flags)
{
	struct xattr_item item = { .value = x->value };
	size_t rest_len;
	int err;

	assert_rwsem_held_write(&in->lock);
	err = xattr_split_name(x->name, x->name_len, &item.index, &item.name, &rest_len);
	if (err)
		return err;
	if (x->value_len > XATTR_SIZE_MAX)
		return -E2BIG;
	item.name_len = (uint8_t)rest_len;
	item.value_len = x->value ? (uint32_t)x->value_len : 0;
	if (item.index == XATTR_INDEX_ACL_ACCESS || item.index == XATTR_INDEX_ACL_DEFAULT)
		return set_acl(op, in, &item, x);
	return set_item(op, in, &item, flags);
}

int ext4_acl_chmod(struct ext4_op *op, struct ext4_inode *in)
{
	struct xattr_item *item, changed;
	struct xattr_sets s;
	uint8_t *disk = NULL;
	int err;

	err = xattr_load(in, &s);
	if (err)
		return err == -EOPNOTSUPP ? 0 : err;
	item = xattr_find(&s.body, XATTR_INDEX_ACL_ACCESS, "", 0);
	if (!item)
		item = xattr_find(&s.block, XATTR_INDEX_ACL_ACCESS, "", 0);
	if (item) {
		changed = *item;
		disk = ext4_alloc(op->fs, item->value_len + 1);
		err = disk ? 0 : -ENOMEM;
		if (!err) {
			memcpy(disk, item->value, item->value_len);
			err = acl_chmod(disk, item->value_len, in->mode);
		}
		changed.value = disk;
		changed.name = "";
	}
	xattr_unload(&s);
	if (!err && disk)
		err = set_item(op, in, &changed, XATTR_REPLACE);
	kfree(disk);
	return err;
}

int ext4_xattr_set(struct ext4_inode *in, const struct fs_xattr *x, uint32_t flags,
		   const struct fs_change *ch)
{
	struct ext4_op op;
	int err;

	err = ext4_op_begin(&op, in->fs, EXT4_CREDITS_NAMES, ch, &in, 1);
	if (err)
		return err;
	err = in->gone ? -ESTALE : ext4_xattr_set_op(&op, in, x, flags);
	if (!err) {
		ext4_inode_touch(&op, in, false);
		err = ext4_inode_write(&op, in);
	}
	return ext4_op_end(&op, in, err);
}
