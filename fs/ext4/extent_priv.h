/* SPDX-License-Identifier: MIT */
/* Nodes of extent trees: shared by the reader and those who change them. */
#pragma once

#include "ext4_priv.h"

/* A node of the tree: where it is, and which part of the file it may speak about. */
struct ext4_node {
	const struct ext4_extent_header *hdr;
	uint32_t len;      /* bytes that the node has */
	uint32_t depth;    /* 0: a leaf */
	uint64_t from, to; /* blocks of the file: @from up to, not including, @to */
};

static inline const struct ext4_extent *extents_of(const struct ext4_extent_header *hdr)
{
	return (const struct ext4_extent *)(hdr + 1);
}

static inline const struct ext4_extent_index *indexes_of(const struct ext4_extent_header *hdr)
{
	return (const struct ext4_extent_index *)(hdr + 1);
}

static inline uint32_t extent_len(const struct ext4_extent *e)
{
	const uint32_t len = le16_to_cpu(e->len);

	return len > EXT4_EXTENT_MAX_INIT ? len - EXT4_EXTENT_MAX_INIT : len;
}

static inline bool extent_unwritten(const struct ext4_extent *e)
{
	return le16_to_cpu(e->len) > EXT4_EXTENT_MAX_INIT;
}

static inline uint64_t extent_start(const struct ext4_extent *e)
{
	return le32_to_cpu(e->start_lo) | (uint64_t)le16_to_cpu(e->start_hi) << 32;
}

static inline uint64_t index_leaf(const struct ext4_extent_index *x)
{
	return le32_to_cpu(x->leaf_lo) | (uint64_t)le16_to_cpu(x->leaf_hi) << 32;
}

static inline uint32_t ext4_node_entries(const struct ext4_extent_header *hdr)
{
	return le16_to_cpu(hdr->entries);
}

/* extent.c */
/* The root of @in's tree, checked. */
int __must_check ext4_node_root(const struct ext4_inode *in, struct ext4_node *n);
/* The last entry that begins at or before @lblk; -1: all begin later. */
int ext4_node_find(const struct ext4_extent_header *hdr, uint32_t lblk);
/* Step from @n to the child of entry @i; *@buf, put if not NULL, becomes the child's block. */
int __must_check ext4_node_descend(struct ext4_inode *in, struct ext4_node *n, int i,
				   struct bcache_buf **buf);

/* For changes. */
static inline struct ext4_extent *ext4_node_extent(struct ext4_extent_header *hdr, int i)
{
	return (struct ext4_extent *)(hdr + 1) + i;
}

static inline struct ext4_extent_index *ext4_node_index(struct ext4_extent_header *hdr, int i)
{
	return (struct ext4_extent_index *)(hdr + 1) + i;
}

static inline struct ext4_extent ext4_extent_make(uint32_t lblk, uint32_t len, uint64_t block,
						  bool unwritten)
{
	return (struct ext4_extent){
		.lblk = cpu_to_le32(lblk),
		.len = cpu_to_le16((uint16_t)(len + (unwritten ? EXT4_EXTENT_MAX_INIT : 0))),
		.start_hi = cpu_to_le16((uint16_t)(block >> 32)),
		.start_lo = cpu_to_le32((uint32_t)block),
	};
}

struct ext4_op;
/* extent_path.c: checksum and ext4_dirty() of a node. */
int __must_check ext4_node_dirty(struct ext4_op *op, struct ext4_inode *in, struct bcache_buf *buf);
