/* SPDX-License-Identifier: MIT */
/* Extended attributes: sets of them in memory, and where they stand on the disk. */
#pragma once

#include "ext4_priv.h"

enum ext4_xattr_index {
	XATTR_INDEX_USER = 1,
	XATTR_INDEX_ACL_ACCESS = 2,
	XATTR_INDEX_ACL_DEFAULT = 3,
	XATTR_INDEX_TRUSTED = 4,
	XATTR_INDEX_SECURITY = 6,
	XATTR_INDEX_SYSTEM = EXT4_XATTR_INDEX_SYSTEM,
};

/* One attribute; name and value lie in the bytes that were parsed, or are the caller's. */
struct xattr_item {
	uint8_t index;
	uint8_t name_len;
	const char *name; /* without its prefix */
	const uint8_t *value;
	uint32_t value_len;
};

struct xattr_set {
	struct ext4_fs *fs; /* for memory */
	struct xattr_item *items;
	uint32_t nr;
	uint32_t room;
};

/* The attributes of an inode: in it, and in its block. */
struct xattr_sets {
	struct xattr_set body;
	struct xattr_set block;
	uint8_t *bytes;         /* a copy that the items point into */
	struct bcache_buf *buf; /* the block, held; NULL: it has none */
};

#define XATTR_BLOCK_HEADER 32u

/* Header of a block of attributes. */
struct ext4_xattr_header {
	le32_t magic;
	le32_t refcount;
	le32_t blocks;
	le32_t hash;
	le32_t checksum;
	le32_t reserved[3];
};
static_assert(sizeof(struct ext4_xattr_header) == XATTR_BLOCK_HEADER, "attributes: disk layout");

/* xattr.c; in->lock. */
int __must_check xattr_load(struct ext4_inode *in, struct xattr_sets *s);
void xattr_unload(struct xattr_sets *s);
struct xattr_item *xattr_find(struct xattr_set *set, uint8_t index, const char *name, size_t len);
/* From "user.x" to an index and "x".  -EOPNOTSUPP. */
int __must_check xattr_split_name(const char *name, size_t len, uint8_t *index, const char **rest,
				  size_t *rest_len);
uint32_t xattr_block_csum(const struct ext4_fs *fs, uint64_t block, const uint8_t *data);

/* xattr_layout.c; pure. */
/* The attributes in @len bytes from @first on, whose values' places count from @base. */
int __must_check xattr_parse(const uint8_t *base, uint32_t first, uint32_t len,
			     struct xattr_set *out);
int __must_check xattr_add(struct xattr_set *set, const struct xattr_item *item);
void xattr_drop(struct xattr_set *set, struct xattr_item *item);
/* Do they fit in @len bytes? */
bool xattr_fits(const struct xattr_set *set, uint32_t len);
/* Write them to @len bytes from @first on, which are zeroed; with hashes in a block. */
void xattr_build(const struct xattr_set *set, uint8_t *base, uint32_t first, uint32_t len,
		 bool hashes);

/* acl.c; pure.  Values of ACLs in Linux's user format and as on the disk.  -EINVAL. */
int __must_check acl_to_disk(const uint8_t *user, size_t len, uint8_t *out, size_t *out_len);
int __must_check acl_from_disk(const uint8_t *disk, size_t len, uint8_t *out, size_t *out_len);
/* Change an ACL (on disk) in place so that it stands for @mode. */
int __must_check acl_chmod(uint8_t *disk, size_t len, uint32_t mode);

/* xattr_write.c */
/* Take the attribute with an inline file's contents out of the inode's bytes. */
int __must_check ext4_ibody_remove_data(struct ext4_inode *in);
