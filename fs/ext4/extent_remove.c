/* SPDX-License-Identifier: MIT */
/*
 * ext4: taking from an extent tree: unmapping, marking as written, moving.
 *
 * All three cut a part out of one extent at a time, after ext4_extent_room() has seen to it that
 * the pieces find room in its leaf.
 *
 * Locking:	in->lock for writing.
 */
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "ext4_write.h"
#include "extent_priv.h"

#define ENTRY_LEN sizeof(struct ext4_extent)

/* A part of an extent: in the file and on the disk. */
struct cut {
	uint32_t lblk;
	uint32_t len;
	uint64_t block;
	bool unwritten;
};

static void node_delete(struct ext4_extent_header *hdr, int at)
{
	struct ext4_extent *e = ext4_node_extent(hdr, at);
	const uint32_t n = ext4_node_entries(hdr);

	ASSERT(at >= 0 && (uint32_t)at < n);
	memmove(e, e + 1, (n - (uint32_t)at - 1) * ENTRY_LEN);
	memset(ext4_node_extent(hdr, (int)n - 1), 0, ENTRY_LEN);
	hdr->entries = cpu_to_le16((uint16_t)(n - 1));
}

/* The leaf of @p has become empty: free it, and every node above that becomes so. */
static int drop_empty(struct ext4_op *op, struct ext4_path *p)
{
	struct ext4_extent_header *root = p->level[0].hdr;
	unsigned int level = p->depth;
	int err = 0;

	while (level > 0 && !ext4_node_entries(p->level[level].hdr) && !err) {
		err = ext4_bfree(op, p->in, p->level[level].buf->block, 1, true);
		if (!err)
			err = ext4_path_access(op, p, level - 1);
		if (err)
			break;
		level--;
		node_delete(p->level[level].hdr, p->level[level].at);
		err = ext4_path_dirty(op, p, level);
		if (!err && level && !p->level[level].at && ext4_node_entries(p->level[level].hdr))
			err = ext4_path_fix_keys(op, p, level);
	}
	if (!err && !ext4_node_entries(root))
		root->depth = cpu_to_le16(0);
	return err;
}

int ext4_extent_shrink(struct ext4_op *op, struct ext4_inode *in)
{
	struct ext4_extent_header *root = (void *)in->iblock;
	int err = 0;

	while (!err && le16_to_cpu(root->depth) && ext4_node_entries(root) == 1) {
		const struct ext4_extent_header *child;
		struct ext4_path p;
		uint64_t block;
		uint32_t n;

		err = ext4_path_find(in, 0, &p);
		if (err)
			return err;
		child = p.level[1].hdr;
		n = ext4_node_entries(child);
		block = p.level[1].buf->block;
		if (n > le16_to_cpu(root->max)) {
			ext4_path_put(&p);
			return 0;
		}
		memcpy(root + 1, child + 1, n * ENTRY_LEN);
		root->entries = child->entries;
		root->depth = child->depth;
		ext4_path_put(&p);
		err = ext4_bfree(op, in, block, 1, true);
	}
	return err;
}

/* Where the leaf behind that of @p begins, or the end of all. */
static uint64_t next_leaf(const struct ext4_path *p)
{
	for (unsigned int l = p->depth; l-- > 0;) {
		const int i = p->level[l].at + 1;

		if ((uint32_t)i < ext4_node_entries(p->level[l].hdr))
			return le32_to_cpu(indexes_of(p->level[l].hdr)[i].lblk);
	}
	return (uint64_t)UINT32_MAX + 1;
}

/*
 * Find the first extent that has blocks in [@from, @to), and the part of it in there.  1: there is
 * none.  The path stays held on success.
 */
static int find_cut(struct ext4_inode *in, uint64_t from, uint64_t to, struct ext4_path *p,
		    struct cut *c)
{
	while (from < to && from <= UINT32_MAX) {
		struct ext4_extent_header *hdr;
		const struct ext4_extent *e;
		int err = ext4_path_find(in, (uint32_t)from, p);
		uint64_t next, start, end;
		int at;

		if (err)
			return err;
		hdr = p->level[p->depth].hdr;
		at = p->level[p->depth].at;
		if (at < 0 || le32_to_cpu(extents_of(hdr)[at].lblk) +
					      (uint64_t)extent_len(&extents_of(hdr)[at]) <=
				      from)
			at++;
		if ((uint32_t)at < ext4_node_entries(hdr)) {
			e = &extents_of(hdr)[at];
			start = MAX(from, (uint64_t)le32_to_cpu(e->lblk));
			end = MIN(to, le32_to_cpu(e->lblk) + (uint64_t)extent_len(e));
			if (start < end) {
				p->level[p->depth].at = at;
				*c = (struct cut){
					.lblk = (uint32_t)start,
					.len = (uint32_t)(end - start),
					.block = extent_start(e) + (start - le32_to_cpu(e->lblk)),
					.unwritten = extent_unwritten(e),
				};
				return 0;
			}
			ext4_path_put(p);
			return 1;
		}
		/* Behind this leaf's last extent: on where the next one begins. */
		next = next_leaf(p);
		ext4_path_put(p);
		if (next <= from)
			return ext4_corrupt(in->fs, "inode %u: extents out of order", in->ino);
		from = next;
	}
	return 1;
}

/* Take @c out of the extent at @p's end, whose leaf has room for one more.  Frees nothing. */
static int cut_out(struct ext4_op *op, struct ext4_path *p, const struct cut *c)
{
	struct ext4_extent_header *hdr = p->level[p->depth].hdr;
	const int at = p->level[p->depth].at;
	struct ext4_extent *e = ext4_node_extent(hdr, at);
	const uint32_t lblk = le32_to_cpu(e->lblk), len = extent_len(e);
	const uint32_t before = c->lblk - lblk, behind = len - before - c->len;
	const uint64_t block = extent_start(e);
	struct ext4_extent rest;
	int err;

	ASSERT(c->lblk >= lblk && c->len <= len - before);
	err = ext4_path_access(op, p, p->depth);
	if (err)
		return err;
	rest = ext4_extent_make(c->lblk + c->len, behind, block + before + c->len, c->unwritten);
	if (before) {
		*e = ext4_extent_make(lblk, before, block, c->unwritten);
		if (behind) {
			const uint32_t n = ext4_node_entries(hdr);

			ASSERT(n < le16_to_cpu(hdr->max));
			memmove(e + 2, e + 1, (n - (uint32_t)at - 1) * ENTRY_LEN);
			e[1] = rest;
			hdr->entries = cpu_to_le16((uint16_t)(n + 1));
		}
	} else if (behind) {
		*e = rest;
	} else {
		node_delete(hdr, at);
	}
	if (!ext4_node_entries(hdr))
		return drop_empty(op, p);
	err = ext4_path_dirty(op, p, p->depth);
	if (!err && at == 0 && !before)
		err = ext4_path_fix_keys(op, p, p->depth);
	return err;
}

/* Does cutting @c leave a piece on both sides? */
static bool is_middle(const struct ext4_path *p, const struct cut *c)
{
	const struct ext4_extent *e =
		ext4_node_extent(p->level[p->depth].hdr, p->level[p->depth].at);

	return c->lblk != le32_to_cpu(e->lblk) &&
	       c->lblk + (uint64_t)c->len != le32_to_cpu(e->lblk) + (uint64_t)extent_len(e);
}

/*
 * One step frees blocks of two groups at most, so that credits and memory for it are bounded, and
 * only a few of metadata, of which each block is revoked.  The rest of the extent stays in one
 * piece, so a step needs no more room in the leaf than all of them do.
 */
static void cut_less(const struct ext4_fs *fs, const struct ext4_inode *in,
		     const struct ext4_path *p, struct cut *c)
{
	const uint32_t max = (in->mode & S_IFMT) == S_IFREG ? fs->blocks_per_group : EXT4_META_STEP;
	const struct ext4_extent *e =
		ext4_node_extent(p->level[p->depth].hdr, p->level[p->depth].at);

	if (c->len <= max)
		return;
	if (c->lblk != le32_to_cpu(e->lblk)) {
		c->lblk += c->len - max;
		c->block += c->len - max;
	}
	c->len = max;
}

/* Cut the first mapped part of [@from, @to) out of the tree.  1: there is none. */
static int cut_first(struct ext4_op *op, struct ext4_inode *in, uint64_t from, uint64_t to,
		     struct cut *c)
{
	struct ext4_path p;
	int err;

	err = find_cut(in, from, to, &p, c);
	if (err)
		return err;
	cut_less(op->fs, in, &p, c);
	if (is_middle(&p, c)) {
		ext4_path_put(&p);
		err = ext4_extent_room(op, in, c->lblk, 1);
		if (!err)
			err = find_cut(in, from, to, &p, c);
		ASSERT(err <= 0);
		if (err)
			return err;
		cut_less(op->fs, in, &p, c);
	}
	err = cut_out(op, &p, c);
	ext4_path_put(&p);
	return err ? ext4_op_abort(op, err, "unmapping blocks") : 0;
}

int ext4_extent_remove(struct ext4_op *op, struct ext4_inode *in, uint64_t from, uint64_t to)
{
	struct cut c;
	int err = 0;

	while (!err) {
		err = ext4_op_step(op, in);
		if (!err)
			err = cut_first(op, in, from, to, &c);
		if (!err)
			err = ext4_bfree(op, in, c.block, c.len, (in->mode & S_IFMT) != S_IFREG);
	}
	if (err == 1)
		err = ext4_extent_shrink(op, in);
	return err;
}

/* Change the state of the part @c of one extent. */
static int mark_one(struct ext4_op *op, struct ext4_inode *in, const struct cut *c, bool unwritten)
{
	struct ext4_extent *e;
	struct ext4_path p;
	struct cut again;
	int err;

	/* Room for the new pieces first, so that nothing is lost if the disk is full. */
	err = ext4_extent_room(op, in, c->lblk, 2);
	if (!err)
		err = find_cut(in, c->lblk, c->lblk + (uint64_t)c->len, &p, &again);
	ASSERT(err <= 0);
	if (err)
		return err;
	e = ext4_node_extent(p.level[p.depth].hdr, p.level[p.depth].at);
	if (le32_to_cpu(e->lblk) == c->lblk && extent_len(e) == c->len &&
	    c->len < EXT4_EXTENT_MAX_INIT) {
		err = ext4_path_access(op, &p, p.depth);
		if (!err) {
			*e = ext4_extent_make(c->lblk, c->len, c->block, unwritten);
			err = ext4_path_dirty(op, &p, p.depth);
		}
		ext4_path_put(&p);
		return err;
	}
	/* A part of an extent leaves the rest behind, so the leaf stays, with its room. */
	err = cut_out(op, &p, c);
	ext4_path_put(&p);
	if (!err)
		err = ext4_extent_insert(op, in, c->lblk, c->len, c->block, unwritten);
	return err ? ext4_op_abort(op, err, "marking blocks as written") : 0;
}

int ext4_extent_mark(struct ext4_op *op, struct ext4_inode *in, uint32_t lblk, uint32_t len,
		     bool unwritten)
{
	const uint64_t to = (uint64_t)lblk + len;
	uint64_t from = lblk;
	struct ext4_path p;
	struct cut c;
	int err = 0;

	while (from < to && !err) {
		err = find_cut(in, from, to, &p, &c);
		if (err)
			return err == 1 ? 0 : err;
		ext4_path_put(&p);
		from = c.lblk + (uint64_t)c.len;
		if (c.unwritten != unwritten)
			err = mark_one(op, in, &c, unwritten);
	}
	return err;
}

int ext4_extent_count_nodes(struct ext4_inode *in, uint32_t from, uint32_t *nr)
{
	uint64_t last[EXT4_EXTENT_MAX_DEPTH + 1] = { 0 }, at = from;
	struct ext4_path p;
	int err;

	*nr = 0;
	while (at <= UINT32_MAX) {
		uint64_t next;

		err = ext4_path_find(in, (uint32_t)at, &p);
		if (err)
			return err;
		for (unsigned int l = 1; l <= p.depth; l++) {
			*nr += p.level[l].buf->block != last[l];
			last[l] = p.level[l].buf->block;
		}
		next = next_leaf(&p);
		ext4_path_put(&p);
		if (next <= at)
			return ext4_corrupt(in->fs, "inode %u: extents out of order", in->ino);
		at = next;
	}
	return 0;
}

/*
 * The order of extents stays as it is, and so do the nodes: only their numbers change.  The hole
 * that the caller made keeps extents apart.  All is one transaction: half of it is no file that
 * anybody wrote, and a second try would move what has been moved.
 */
int ext4_extent_shift(struct ext4_op *op, struct ext4_inode *in, uint32_t from, uint32_t down)
{
	uint64_t at = from;
	struct ext4_extent *e;
	struct ext4_path p;
	struct cut c;
	int err;

	ASSERT(from >= down);
	for (;;) {
		err = find_cut(in, at, (uint64_t)UINT32_MAX + 1, &p, &c);
		if (err)
			return err == 1 ? 0 : err;
		e = ext4_node_extent(p.level[p.depth].hdr, p.level[p.depth].at);
		ASSERT(le32_to_cpu(e->lblk) == c.lblk);
		at = c.lblk + (uint64_t)c.len;
		err = ext4_path_access(op, &p, p.depth);
		if (!err) {
			e->lblk = cpu_to_le32(c.lblk - down);
			err = ext4_path_dirty(op, &p, p.depth);
		}
		if (!err && p.level[p.depth].at == 0)
			err = ext4_path_fix_keys(op, &p, p.depth);
		ext4_path_put(&p);
		if (err)
			return ext4_op_abort(op, err, "moving extents");
	}
}
