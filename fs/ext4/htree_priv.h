/* SPDX-License-Identifier: MIT */
/* Hash indexes of directories: shared by the look-up and those who change them. */
#pragma once

#include "ext4_priv.h"

#define HTREE_MAX_LEVELS 3u
#define HTREE_BLOCK_MASK 0x0fffffffu

struct htree_level {
	struct bcache_buf *buf;
	const struct ext4_dx_entry *entries;
	uint32_t count;
	uint32_t at;
};

struct htree_walk {
	struct ext4_inode *dir;
	struct htree_level level[HTREE_MAX_LEVELS];
	uint32_t nr_levels;
	unsigned int version; /* of the hash, signed or not */
	uint32_t hash;
	uint32_t steps_left;
};

static inline uint32_t htree_entries_offset(bool root)
{
	return root ? EXT4_DX_ROOT_ENTRIES_OFFSET : EXT4_DX_NODE_ENTRIES_OFFSET;
}

/* htree.c */
void htree_init(struct htree_walk *w, struct ext4_inode *dir);
/* To the leaf where @name belongs, or with NULL to that of w->hash.  -EAGAIN: unknown hash. */
int __must_check htree_start(struct htree_walk *w, const char *name, size_t len);
/* Go to the next leaf; @same: only if it continues our hash.  1, 0 if not, -errno. */
int __must_check htree_next_leaf(struct htree_walk *w, bool same);
/* The block that the current entry of level @i names. */
int __must_check htree_entry_block(struct htree_walk *w, unsigned int i, uint32_t *lblk);
/* The smallest hash of the leaf where the walk stands; bit 0: it goes on from the leaf before. */
uint32_t htree_current_hash(const struct htree_walk *w);
void htree_put(struct htree_walk *w);
/* The hash version that this directory's or, without index, the file system's names have. */
unsigned int htree_hash_version(const struct ext4_fs *fs, uint8_t base);
uint32_t htree_max_levels(const struct ext4_fs *fs);
uint32_t ext4_dx_csum(const struct ext4_inode *dir, const uint8_t *data, bool root, uint32_t count,
		      const struct ext4_dx_tail *tail);
/* Is block @lblk of a directory its index's root or a node of it? */
bool ext4_htree_is_index(const struct ext4_inode *dir, uint32_t lblk, const uint8_t *data);

struct ext4_op;
/* htree_add.c */
int __must_check ext4_dx_dirty(struct ext4_op *op, struct ext4_inode *dir, struct bcache_buf *buf,
			       bool root);
/* May directories of this file system get an index? */
bool ext4_htree_possible(const struct ext4_fs *fs);
