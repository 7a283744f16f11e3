/* SPDX-License-Identifier: MIT */
/*
 * ext4: a way down an extent tree that can be changed.
 *
 * Locking:	in->lock, for writing; the path holds its blocks.
 * Invariants:	a node's first block is what its parent's entry says, up to the root: e2fsck and
 *		Linux ask for it.
 */
#include <kernel/panic.h>
#include <lib/byteorder.h>
#include <lib/crc.h>
#include <lib/err.h>
#include <lib/errno.h>

#include "ext4_write.h"
#include "extent_priv.h"

int ext4_path_find(struct ext4_inode *in, uint32_t lblk, struct ext4_path *p)
{
	struct ext4_node n;
	int err;

	*p = (struct ext4_path){ .in = in };
	err = ext4_node_root(in, &n);
	for (unsigned int i = 0; !err; i++) {
		int at = ext4_node_find(n.hdr, lblk);

		p->level[i].hdr = (struct ext4_extent_header *)(uintptr_t)n.hdr;
		p->depth = i;
		if (!n.depth) {
			p->level[i].at = at;
			return 0;
		}
		if (at < 0)
			/* before the whole tree: what is added there goes into its first leaf */
			at = 0;
		p->level[i].at = at;
		ASSERT(i < EXT4_EXTENT_MAX_DEPTH);
		err = ext4_node_descend(in, &n, at, &p->level[i + 1].buf);
	}
	p->depth = EXT4_EXTENT_MAX_DEPTH; /* put all */
	ext4_path_put(p);
	return err;
}

void ext4_path_put(struct ext4_path *p)
{
	for (unsigned int i = 0; i <= p->depth; i++) {
		if (p->level[i].buf)
			bcache_put(p->level[i].buf);
		p->level[i].buf = NULL;
	}
}

int ext4_path_access(struct ext4_op *op, struct ext4_path *p, unsigned int level)
{
	ASSERT(level <= p->depth);
	return p->level[level].buf ? ext4_write_access(op->h, p->level[level].buf) : 0;
}

int ext4_node_dirty(struct ext4_op *op, struct ext4_inode *in, struct bcache_buf *buf)
{
	const struct ext4_extent_header *hdr = (const void *)buf->data;
	const size_t tail =
		sizeof(*hdr) + (size_t)le16_to_cpu(hdr->max) * sizeof(struct ext4_extent);

	if (op->fs->has_csum)
		put_unaligned_le32(crc32c(in->csum_seed, buf->data, tail), buf->data + tail);
	ext4_set_checked(buf, in->ino, EXT4_CHECK_EXTENT);
	return ext4_dirty(op->h, buf);
}

int ext4_path_dirty(struct ext4_op *op, struct ext4_path *p, unsigned int level)
{
	struct bcache_buf *buf = p->level[level].buf;

	return buf ? ext4_node_dirty(op, p->in, buf) : 0;
}

int ext4_path_fix_keys(struct ext4_op *op, struct ext4_path *p, unsigned int level)
{
	int err = 0;

	while (level > 0 && !err) {
		const le32_t key = extents_of(p->level[level].hdr)->lblk;
		struct ext4_extent_index *x;

		level--;
		x = ext4_node_index(p->level[level].hdr, p->level[level].at);
		if (x->lblk == key)
			break;
		err = ext4_path_access(op, p, level);
		if (err)
			break;
		x->lblk = key;
		err = ext4_path_dirty(op, p, level);
		if (p->level[level].at)
			break;
	}
	return err;
}
