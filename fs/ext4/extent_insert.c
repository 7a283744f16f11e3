/* SPDX-License-Identifier: MIT */
/*
 * ext4: adding to an extent tree.
 *
 * ext4_extent_room() splits nodes, and gives the tree another level, until the leaf in question has
 * room; all allocation is there.  The steps after it need no block and cannot fail for want of one.
 *
 * Locking:	in->lock for writing.
 * Failure:	-ENOSPC leaves a valid tree that maps the same blocks as before.
 */
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "ext4_write.h"
#include "extent_priv.h"

#define ENTRY_LEN          sizeof(struct ext4_extent)
#define ROOT_MAX           ((EXT4_IBLOCK_LEN - sizeof(struct ext4_extent_header)) / ENTRY_LEN)
/* The longest extents: an unwritten one is one block shorter. */
#define MAX_LEN(unwritten) (EXT4_EXTENT_MAX_INIT - ((unwritten) ? 1u : 0u))

static void set_header(struct ext4_extent_header *hdr, uint32_t entries, uint32_t max,
		       uint32_t depth)
{
	*hdr = (struct ext4_extent_header){
		.magic = cpu_to_le16(EXT4_EXTENT_MAGIC),
		.entries = cpu_to_le16((uint16_t)entries),
		.max = cpu_to_le16((uint16_t)max),
		.depth = cpu_to_le16((uint16_t)depth),
	};
}

void ext4_extent_init_root(struct ext4_inode *in)
{
	memset(in->iblock, 0, sizeof(in->iblock));
	set_header((void *)in->iblock, 0, ROOT_MAX, 0);
	in->flags |= EXT4_FL_EXTENTS;
}

static uint32_t block_max(const struct ext4_fs *fs)
{
	return (fs->block_size - sizeof(struct ext4_extent_header)) / ENTRY_LEN;
}

static uint32_t room_of(const struct ext4_extent_header *hdr)
{
	return le16_to_cpu(hdr->max) - ext4_node_entries(hdr);
}

static void set_entries(struct ext4_extent_header *hdr, uint32_t n)
{
	ASSERT(n <= le16_to_cpu(hdr->max));
	hdr->entries = cpu_to_le16((uint16_t)n);
}

static struct ext4_extent_index make_index(uint32_t lblk, uint64_t block)
{
	return (struct ext4_extent_index){ .lblk = cpu_to_le32(lblk),
					   .leaf_lo = cpu_to_le32((uint32_t)block),
					   .leaf_hi = cpu_to_le16((uint16_t)(block >> 32)) };
}

/* Put an entry at position @at of a node that has room. */
static void entry_insert(struct ext4_extent_header *hdr, int at, const void *entry)
{
	struct ext4_extent *e = ext4_node_extent(hdr, at);
	const uint32_t n = ext4_node_entries(hdr);

	ASSERT(at >= 0 && (uint32_t)at <= n);
	memmove(e + 1, e, (n - (uint32_t)at) * ENTRY_LEN);
	memcpy(e, entry, ENTRY_LEN);
	set_entries(hdr, n + 1);
}

/* The root moves into a block of its own, and the tree gets one level more. */
static int grow(struct ext4_op *op, struct ext4_inode *in)
{
	struct ext4_extent_header *root = (void *)in->iblock;
	const uint32_t depth = le16_to_cpu(root->depth), n = ext4_node_entries(root);
	struct ext4_extent_index x;
	struct bcache_buf *buf;
	int err;

	if (depth == EXT4_EXTENT_MAX_DEPTH)
		return -EFBIG;
	buf = ext4_balloc_meta(op, in, in->last_goal);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	memcpy(buf->data, root, sizeof(*root) + n * ENTRY_LEN);
	set_header((void *)buf->data, n, block_max(op->fs), depth);
	x = make_index(n ? le32_to_cpu(extents_of(root)->lblk) : 0, buf->block);
	err = ext4_node_dirty(op, in, buf);
	bcache_put(buf);
	if (err)
		return ext4_op_abort(op, err, "growing an extent tree");
	memset(in->iblock + sizeof(*root), 0, sizeof(in->iblock) - sizeof(*root));
	set_header(root, 0, ROOT_MAX, depth + 1);
	entry_insert(root, 0, &x);
	return 0;
}

/*
 * Move the upper entries of the full node at @level to a new one beside it.  @append: the new entry
 * is the last, so the full node stays full, as files that are written in order like it.
 */
static int split(struct ext4_op *op, struct ext4_path *p, unsigned int level, uint32_t lblk,
		 bool append)
{
	struct ext4_extent_header *old = p->level[level].hdr, *fresh;
	const uint32_t n = ext4_node_entries(old), depth = le16_to_cpu(old->depth);
	const bool last = append && (uint32_t)(p->level[level].at + 1) == n;
	const uint32_t stay = last ? n - (depth ? 1 : 0) : n / 2;
	struct ext4_extent_index x;
	struct bcache_buf *buf;
	int err;

	ASSERT(level && n > 1);
	buf = ext4_balloc_meta(op, p->in, p->level[level].buf->block + 1);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	fresh = (void *)buf->data;
	set_header(fresh, n - stay, block_max(op->fs), depth);
	memcpy(fresh + 1, ext4_node_extent(old, (int)stay), (n - stay) * ENTRY_LEN);
	x = make_index(n > stay ? le32_to_cpu(extents_of(fresh)->lblk) : lblk, buf->block);
	err = ext4_node_dirty(op, p->in, buf);
	bcache_put(buf);
	if (!err)
		err = ext4_path_access(op, p, level);
	if (!err)
		err = ext4_path_access(op, p, level - 1);
	if (err)
		return ext4_op_abort(op, err, "splitting an extent node");
	memset(ext4_node_extent(old, (int)stay), 0, (n - stay) * ENTRY_LEN);
	set_entries(old, stay);
	entry_insert(p->level[level - 1].hdr, p->level[level - 1].at + 1, &x);
	err = ext4_path_dirty(op, p, level);
	if (!err)
		err = ext4_path_dirty(op, p, level - 1);
	return err ? ext4_op_abort(op, err, "splitting an extent node") : 0;
}

/* Give the leaf of @p room, or a node above it that stands in the way: one step. */
static int make_room(struct ext4_op *op, struct ext4_path *p, uint32_t lblk, bool append)
{
	unsigned int level = p->depth;

	while (level > 0 && !room_of(p->level[level - 1].hdr))
		level--;
	if (level == 0)
		return grow(op, p->in);
	return split(op, p, level, lblk, append);
}

static int room_for(struct ext4_op *op, struct ext4_inode *in, uint32_t lblk, unsigned int nr,
		    bool append)
{
	struct ext4_path p;
	bool done;
	int err;

	do {
		err = ext4_path_find(in, lblk, &p);
		if (err)
			return err;
		done = room_of(p.level[p.depth].hdr) >= nr;
		if (!done)
			err = make_room(op, &p, lblk, append);
		ext4_path_put(&p);
	} while (!err && !done);
	return err;
}

int ext4_extent_room(struct ext4_op *op, struct ext4_inode *in, uint32_t lblk, unsigned int nr)
{
	return room_for(op, in, lblk, nr, false);
}

/* Does @b go on where @a ends, so that both can be one? */
static bool can_join(const struct ext4_extent *a, const struct ext4_extent *b)
{
	const bool unwritten = extent_unwritten(a);

	return unwritten == extent_unwritten(b) &&
	       le32_to_cpu(a->lblk) + (uint64_t)extent_len(a) == le32_to_cpu(b->lblk) &&
	       extent_start(a) + extent_len(a) == extent_start(b) &&
	       extent_len(a) + extent_len(b) <= MAX_LEN(unwritten);
}

static void join(struct ext4_extent *a, const struct ext4_extent *b)
{
	*a = ext4_extent_make(le32_to_cpu(a->lblk), extent_len(a) + extent_len(b), extent_start(a),
			      extent_unwritten(a));
}

static void entry_delete(struct ext4_extent_header *hdr, int at)
{
	struct ext4_extent *e = ext4_node_extent(hdr, at);
	const uint32_t n = ext4_node_entries(hdr);

	ASSERT(at >= 0 && (uint32_t)at < n);
	memmove(e, e + 1, (n - (uint32_t)at - 1) * ENTRY_LEN);
	memset(ext4_node_extent(hdr, (int)n - 1), 0, ENTRY_LEN);
	set_entries(hdr, n - 1);
}

/* Add @fresh to the leaf, joined to its neighbours if that is possible.  1: there is no room. */
static int add_to_leaf(struct ext4_op *op, struct ext4_path *p, const struct ext4_extent *fresh)
{
	struct ext4_extent_header *hdr = p->level[p->depth].hdr;
	const int at = p->level[p->depth].at;
	const int n = (int)ext4_node_entries(hdr);
	struct ext4_extent *left = at >= 0 ? ext4_node_extent(hdr, at) : NULL;
	struct ext4_extent *right = at + 1 < n ? ext4_node_extent(hdr, at + 1) : NULL;
	const bool join_left = left && can_join(left, fresh);
	const bool join_right = right && can_join(fresh, right);
	struct ext4_extent both = *fresh;
	int err;

	if (!join_left && !join_right && !room_of(hdr))
		return 1;
	err = ext4_path_access(op, p, p->depth);
	if (err)
		return err;
	if (join_left) {
		join(left, fresh);
		if (join_right && can_join(left, right)) {
			join(left, right);
			entry_delete(hdr, at + 1);
		}
	} else if (join_right) {
		join(&both, right);
		*right = both;
	} else {
		entry_insert(hdr, at + 1, fresh);
	}
	err = ext4_path_dirty(op, p, p->depth);
	if (!err && at < 0)
		err = ext4_path_fix_keys(op, p, p->depth);
	return err ? ext4_op_abort(op, err, "adding an extent") : 0;
}

static int insert_one(struct ext4_op *op, struct ext4_inode *in, const struct ext4_extent *fresh)
{
	const uint32_t lblk = le32_to_cpu(fresh->lblk);
	struct ext4_path p;
	int err;

	do {
		err = ext4_path_find(in, lblk, &p);
		if (err)
			return err;
		err = add_to_leaf(op, &p, fresh);
		ext4_path_put(&p);
		if (err == 1) {
			err = room_for(op, in, lblk, 1, true);
			if (!err)
				err = 1;
		}
	} while (err == 1);
	return err;
}

int ext4_extent_insert(struct ext4_op *op, struct ext4_inode *in, uint32_t lblk, uint32_t len,
		       uint64_t block, bool unwritten)
{
	int err = 0;

	ASSERT(len);
	while (len && !err) {
		const uint32_t n = MIN(len, MAX_LEN(unwritten));
		const struct ext4_extent e = ext4_extent_make(lblk, n, block, unwritten);

		err = insert_one(op, in, &e);
		if (!err) /* two extents may have become one */
			err = ext4_extent_shrink(op, in);
		lblk += n;
		block += n;
		len -= n;
	}
	return err;
}
