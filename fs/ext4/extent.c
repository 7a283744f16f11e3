/* SPDX-License-Identifier: MIT */
/*
 * ext4: from a file's blocks to the disk's by the extent tree.
 *
 * The root stands in the inode; each level down is one block.  A node's depth is one less
 * than its parent's, so a walk ends after at most five blocks whatever the disk says.
 *
 * Failure:	entries out of order, outside their parent's range or outside the disk are
 *		-EUCLEAN.  A node's own contents are checked once while it is cached, its
 *		place in the tree on every walk.
 */
#include <lib/crc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "extent_priv.h"

/* The header, and that the entries fit. */
static bool header_ok(const struct ext4_extent_header *hdr, uint32_t len)
{
	const uint32_t room = (len - sizeof(*hdr)) / sizeof(struct ext4_extent);
	const uint32_t max = le16_to_cpu(hdr->max);

	return le16_to_cpu(hdr->magic) == EXT4_EXTENT_MAGIC && max > 0 && max <= room &&
	       le16_to_cpu(hdr->entries) <= max && le16_to_cpu(hdr->depth) <= EXT4_EXTENT_MAX_DEPTH;
}

static bool leaf_ok(const struct ext4_fs *fs, const struct ext4_extent_header *hdr)
{
	const uint32_t n = le16_to_cpu(hdr->entries);
	const struct ext4_extent *e = extents_of(hdr);
	uint64_t end = 0;

	for (uint32_t i = 0; i < n; i++, e++) {
		const uint64_t lblk = le32_to_cpu(e->lblk);
		const uint32_t len = extent_len(e);

		if (!len || lblk < end || !ext4_blocks_ok(fs, extent_start(e), len))
			return false;
		end = lblk + len;
		if (end > (uint64_t)UINT32_MAX + 1)
			return false;
	}
	return true;
}

static bool index_ok(const struct ext4_fs *fs, const struct ext4_extent_header *hdr)
{
	const uint32_t n = le16_to_cpu(hdr->entries);
	const struct ext4_extent_index *x = indexes_of(hdr);

	if (!n)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		if (i && le32_to_cpu(x[i].lblk) <= le32_to_cpu(x[i - 1].lblk))
			return false;
		if (!ext4_block_of_file(fs, index_leaf(&x[i])))
			return false;
	}
	return true;
}

static bool csum_ok(const struct ext4_inode *in, const struct ext4_node *n)
{
	const size_t tail =
		sizeof(*n->hdr) + (size_t)le16_to_cpu(n->hdr->max) * sizeof(struct ext4_extent);
	const uint8_t *raw = (const uint8_t *)n->hdr;

	if (!in->fs->has_csum)
		return true;
	if (tail + sizeof(le32_t) > n->len)
		return false;
	return crc32c(in->csum_seed, raw, tail) == get_unaligned_le32(raw + tail);
}

static int check_contents(const struct ext4_inode *in, const struct ext4_node *n, bool root)
{
	const char *what = NULL;

	if (!header_ok(n->hdr, n->len))
		what = "header";
	else if (!root && !csum_ok(in, n))
		what = "checksum";
	else if (n->hdr->depth ? !index_ok(in->fs, n->hdr) : !leaf_ok(in->fs, n->hdr))
		what = "entries";
	if (what)
		return ext4_corrupt(in->fs, "inode %u: extent node: %s", in->ino, what);
	return 0;
}

/* Does a node that is fine by itself fit where the tree has it? */
static int check_place(const struct ext4_inode *in, const struct ext4_node *n)
{
	const uint32_t nr = le16_to_cpu(n->hdr->entries);
	const struct ext4_extent *e = extents_of(n->hdr);
	uint64_t last;

	if (le16_to_cpu(n->hdr->depth) != n->depth)
		return ext4_corrupt(in->fs, "inode %u: extent node: depth", in->ino);
	if (!nr)
		return 0;
	/* An index entry has its block number where an extent has it. */
	last = le32_to_cpu(e[nr - 1].lblk);
	if (!n->depth)
		last += extent_len(&e[nr - 1]) - 1;
	if (le32_to_cpu(e[0].lblk) < n->from || last >= n->to)
		return ext4_corrupt(in->fs, "inode %u: extent node: range", in->ino);
	return 0;
}

int ext4_node_find(const struct ext4_extent_header *hdr, uint32_t lblk)
{
	const struct ext4_extent *e = extents_of(hdr);
	int lo = 0, hi = le16_to_cpu(hdr->entries);

	while (lo < hi) {
		const int mid = lo + (hi - lo) / 2;

		if (le32_to_cpu(e[mid].lblk) <= lblk)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo - 1;
}

static uint32_t clamp_len(uint64_t len, uint32_t max)
{
	return len < max ? (uint32_t)len : max;
}

static void map_hole(struct ext4_map *map, uint64_t len, uint32_t max)
{
	map->type = EXT4_MAP_HOLE;
	map->block = 0;
	map->len = clamp_len(len, max);
}

static void map_from_leaf(const struct ext4_node *n, uint32_t lblk, uint32_t max,
			  struct ext4_map *map)
{
	const uint32_t nr = le16_to_cpu(n->hdr->entries);
	const struct ext4_extent *e = extents_of(n->hdr);
	const int i = ext4_node_find(n->hdr, lblk);
	uint64_t next = n->to;

	if (i >= 0) {
		const uint32_t off = lblk - le32_to_cpu(e[i].lblk);
		const uint32_t len = extent_len(&e[i]);

		if (off < len) {
			map->type = extent_unwritten(&e[i]) ? EXT4_MAP_UNWRITTEN : EXT4_MAP_DATA;
			map->block = extent_start(&e[i]) + off;
			map->len = clamp_len(len - off, max);
			return;
		}
	}
	if ((uint32_t)(i + 1) < nr)
		next = le32_to_cpu(e[i + 1].lblk);
	map_hole(map, next - lblk, max);
}

int ext4_node_descend(struct ext4_inode *in, struct ext4_node *n, int i, struct bcache_buf **buf)
{
	const struct ext4_extent_index *x = indexes_of(n->hdr);
	const uint32_t nr = le16_to_cpu(n->hdr->entries);
	const uint64_t leaf = index_leaf(&x[i]);
	struct bcache_buf *child;
	int err = 0;

	n->from = le32_to_cpu(x[i].lblk);
	if ((uint32_t)(i + 1) < nr)
		n->to = le32_to_cpu(x[i + 1].lblk);
	if (*buf)
		bcache_put(*buf);
	*buf = NULL;
	child = bcache_get(in->fs->bc, leaf);
	if (IS_ERR(child))
		return (int)PTR_ERR(child);
	*buf = child;

	n->hdr = (const void *)child->data;
	n->len = in->fs->block_size;
	n->depth--;
	if (!ext4_checked(child, in->ino, EXT4_CHECK_EXTENT)) {
		err = check_contents(in, n, false);
		if (!err)
			ext4_set_checked(child, in->ino, EXT4_CHECK_EXTENT);
	}
	if (!err)
		err = check_place(in, n);
	return err;
}

int ext4_node_root(const struct ext4_inode *in, struct ext4_node *n)
{
	const struct ext4_extent_header *root = (const void *)in->iblock;
	int err;

	*n = (struct ext4_node){
		.hdr = root,
		.len = EXT4_IBLOCK_LEN,
		.depth = le16_to_cpu(root->depth),
		.from = 0,
		.to = (uint64_t)UINT32_MAX + 1,
	};
	err = check_contents(in, n, true);
	return err ? err : check_place(in, n);
}

int ext4_extent_map(struct ext4_inode *in, uint32_t lblk, uint32_t max, struct ext4_map *map)
{
	struct bcache_buf *buf = NULL;
	struct ext4_node n;
	int err;

	err = ext4_node_root(in, &n);
	while (!err && n.depth) {
		const int i = ext4_node_find(n.hdr, lblk);

		if (i < 0) { /* before the first entry of the whole tree */
			map_hole(map, le32_to_cpu(indexes_of(n.hdr)->lblk) - lblk, max);
			goto out;
		}
		err = ext4_node_descend(in, &n, i, &buf);
	}
	if (!err)
		map_from_leaf(&n, lblk, max, map);
out:
	if (buf)
		bcache_put(buf);
	return err;
}
