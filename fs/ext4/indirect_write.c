/* SPDX-License-Identifier: MIT */
/*
 * ext2 and ext3: adding to and taking from indirect blocks.
 *
 * Locking:	in->lock for writing.
 * Failure:	-ENOSPC may leave an indirect block without pointers behind, which is valid.
 */
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "ext4_write.h"
#include "indirect_priv.h"

/* The block of pointers that @slot names, allocated if it was not there. */
static struct bcache_buf *pointers(struct ext4_op *op, struct ext4_inode *in, le32_t *slot,
				   uint64_t goal)
{
	const uint64_t block = le32_to_cpu(*slot);
	struct bcache_buf *buf;
	int err;

	if (block) {
		if (!ext4_block_of_file(in->fs, block))
			return ERR_PTR(ext4_corrupt(in->fs, "inode %u: indirect block %llu",
						    in->ino, (unsigned long long)block));
		return bcache_get(in->fs->bc, block);
	}
	buf = ext4_balloc_meta(op, in, goal);
	if (IS_ERR(buf))
		return buf;
	ASSERT(buf->block <= UINT32_MAX);
	err = ext4_dirty(op->h, buf);
	if (err) {
		bcache_put(buf);
		return ERR_PTR(err);
	}
	*slot = cpu_to_le32((uint32_t)buf->block);
	return buf;
}

/* Step from the pointers in @parent (NULL: in the inode) to those behind @slot. */
static int step(struct ext4_op *op, struct ext4_inode *in, struct bcache_buf **parent, le32_t *slot,
		uint64_t goal)
{
	const bool missing = !*slot;
	struct bcache_buf *child;
	int err = 0;

	if (missing && *parent)
		err = ext4_write_access(op->h, *parent);
	if (err)
		return err;
	child = pointers(op, in, slot, goal);
	if (IS_ERR(child))
		return (int)PTR_ERR(child);
	if (missing && *parent)
		err = ext4_dirty(op->h, *parent);
	if (*parent)
		bcache_put(*parent);
	*parent = child;
	return err;
}

/* Allocate for the zero pointers from @i on. */
static int fill(struct ext4_op *op, struct ext4_inode *in, le32_t *ptrs, uint32_t i, uint32_t nr,
		uint32_t want, uint64_t goal, struct ext4_map *map)
{
	uint32_t n = 1;
	int err;

	while (n < want && i + n < nr && !ptrs[i + n])
		n++;
	err = ext4_balloc(op, in, goal, &n, &map->block);
	if (err)
		return err;
	ASSERT(map->block + n - 1 <= UINT32_MAX);
	for (uint32_t k = 0; k < n; k++)
		ptrs[i + k] = cpu_to_le32((uint32_t)(map->block + k));
	map->type = EXT4_MAP_DATA;
	map->len = n;
	return 0;
}

int ext4_indirect_alloc(struct ext4_op *op, struct ext4_inode *in, uint32_t lblk, uint32_t nr,
			uint64_t goal, struct ext4_map *map)
{
	const unsigned int bits = in->fs->block_bits - 2;
	struct bcache_buf *buf = NULL;
	struct indirect_path p;
	le32_t *slot;
	int err = 0;

	if (!ext4_indirect_path(in->fs, lblk, &p))
		return -EFBIG;
	if (!p.levels)
		return fill(op, in, in->block, p.slot, EXT4_NR_DIRECT, nr, goal, map);
	slot = &in->block[p.slot];
	for (unsigned int level = p.levels; level > 0 && !err; level--) {
		err = step(op, in, &buf, slot, goal);
		if (!err && level > 1)
			slot = (le32_t *)(void *)buf->data +
			       ((p.index >> bits * (level - 1)) & ((1u << bits) - 1));
	}
	if (!err)
		err = ext4_write_access(op->h, buf);
	if (!err)
		err = fill(op, in, (le32_t *)(void *)buf->data,
			   (uint32_t)p.index & ((1u << bits) - 1), 1u << bits, nr, goal, map);
	if (!err)
		err = ext4_dirty(op->h, buf);
	if (buf)
		bcache_put(buf);
	return err;
}

/* A removal under way. */
struct removal {
	struct ext4_op *op;
	struct ext4_inode *in;
	uint64_t from, to; /* blocks of the file */
};

/*
 * Free the data blocks that @ptrs[*@i] and what follows before @ptrs[@end] name, as far as they are
 * neighbours, and clear them.  One step: two groups at most, and few blocks of metadata.
 */
static int free_run(struct removal *r, le32_t *ptrs, uint32_t *i, uint32_t end)
{
	const bool meta = (r->in->mode & S_IFMT) != S_IFREG;
	const uint32_t max = meta ? EXT4_META_STEP : r->in->fs->blocks_per_group;
	uint32_t first, n = 1;
	int err;

	while (*i < end && !ptrs[*i])
		++*i;
	if (*i >= end)
		return 0;
	first = le32_to_cpu(ptrs[*i]);
	while (n < max && *i + n < end && le32_to_cpu(ptrs[*i + n]) == first + n)
		n++;
	err = ext4_bfree(r->op, r->in, first, n, meta);
	memset(&ptrs[*i], 0, n * sizeof(*ptrs));
	*i += n;
	return err;
}

static bool all_zero(const le32_t *ptrs, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		if (ptrs[i])
			return false;
	}
	return true;
}

/* Free the blocks that pointers @i to @end - 1 of @buf, a block of the last level, name. */
static int remove_data(struct removal *r, struct bcache_buf *buf, uint32_t i, uint32_t end)
{
	int err = 0;

	while (i < end && !err) {
		err = ext4_op_step(r->op, r->in);
		if (!err)
			err = ext4_write_access(r->op->h, buf);
		if (!err)
			err = free_run(r, (le32_t *)(void *)buf->data, &i, end);
		if (!err)
			err = ext4_dirty(r->op->h, buf);
	}
	return err;
}

static int remove_below(struct removal *r, le32_t *slot, unsigned int level, uint64_t first);

/* The pointers of a block at @level, of which the first covers the file from block @first on. */
static int remove_pointers(struct removal *r, struct bcache_buf *buf, unsigned int level,
			   uint64_t first)
{
	const unsigned int bits = r->in->fs->block_bits - 2;
	const uint64_t covers = 1ull << bits * (level - 1);
	const uint32_t nr = 1u << bits;
	le32_t *ptrs = (le32_t *)(void *)buf->data;
	const uint64_t lo = r->from > first ? (r->from - first) / covers : 0;
	const uint64_t hi =
		r->to <= first ? 0 : MIN(DIV_ROUND_UP(r->to - first, covers), (uint64_t)nr);
	int err = 0;

	if (level == 1)
		return remove_data(r, buf, (uint32_t)lo, (uint32_t)hi);
	for (uint64_t i = lo; i < hi && !err; i++) {
		le32_t now = ptrs[i];

		if (!now)
			continue;
		err = remove_below(r, &now, level - 1, first + i * covers);
		if (err || now == ptrs[i])
			continue;
		err = ext4_write_access(r->op->h, buf);
		ptrs[i] = now;
		if (!err)
			err = ext4_dirty(r->op->h, buf);
	}
	return err;
}

/*
 * Remove what is in range below *@slot; the block itself too, and clear *@slot, if
 * nothing is left.
 */
static int remove_below(struct removal *r, le32_t *slot, unsigned int level, uint64_t first)
{
	const uint64_t block = le32_to_cpu(*slot);
	struct bcache_buf *buf;
	bool empty;
	int err;

	if (!ext4_block_of_file(r->in->fs, block))
		return ext4_corrupt(r->in->fs, "inode %u: indirect block %llu", r->in->ino,
				    (unsigned long long)block);
	err = ext4_op_step(r->op, r->in);
	if (err)
		return err;
	buf = bcache_get(r->in->fs->bc, block);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	err = remove_pointers(r, buf, level, first);
	empty = !err && all_zero((const le32_t *)(const void *)buf->data,
				 r->in->fs->block_size / (uint32_t)sizeof(le32_t));
	bcache_put(buf);
	if (empty) {
		err = ext4_bfree(r->op, r->in, block, 1, true);
		*slot = cpu_to_le32(0);
	}
	return err;
}

int ext4_indirect_remove(struct ext4_op *op, struct ext4_inode *in, uint64_t from, uint64_t to)
{
	struct removal r = { .op = op, .in = in, .from = from, .to = to };
	const unsigned int bits = in->fs->block_bits - 2;
	uint64_t first = EXT4_NR_DIRECT;
	uint32_t i = (uint32_t)MIN(from, (uint64_t)EXT4_NR_DIRECT);
	int err = 0;

	while (i < MIN(to, (uint64_t)EXT4_NR_DIRECT) && !err) {
		err = ext4_op_step(op, in);
		if (!err)
			err = free_run(&r, in->block, &i,
				       (uint32_t)MIN(to, (uint64_t)EXT4_NR_DIRECT));
	}
	for (unsigned int level = 1; level <= 3 && !err; level++) {
		const uint64_t covers = 1ull << bits * level;
		le32_t *slot = &in->block[EXT4_NR_DIRECT + level - 1];

		if (*slot && from < first + covers && to > first)
			err = remove_below(&r, slot, level, first);
		first += covers;
	}
	return err;
}
