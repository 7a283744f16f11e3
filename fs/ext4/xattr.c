/* SPDX-License-Identifier: MIT */
/*
 * ext4: extended attributes, read.
 *
 * They stand behind the inode's extra fields and in one block of their own, which several inodes
 * may share.
 *
 * Locking:	in->lock, for reading at least.
 * Failure:	-EUCLEAN for what cannot be parsed; values in files of their own (ea_inode) are
 *		-EOPNOTSUPP.
 */
#include <abi/xattr.h>
#include <kernel/panic.h>
#include <kernel/rwsem.h>
#include <lib/byteorder.h>
#include <lib/crc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "ext4_write.h"
#include "xattr_priv.h"

static const struct prefix {
	const char *text;
	uint8_t len;
	uint8_t index;
	bool whole; /* nothing follows */
} prefixes[] = {
	{ "user.", 5, XATTR_INDEX_USER, false },
	{ "trusted.", 8, XATTR_INDEX_TRUSTED, false },
	{ "security.", 9, XATTR_INDEX_SECURITY, false },
	{ "system.posix_acl_access", 23, XATTR_INDEX_ACL_ACCESS, true },
	{ "system.posix_acl_default", 24, XATTR_INDEX_ACL_DEFAULT, true },
};

int xattr_split_name(const char *name, size_t len, uint8_t *index, const char **rest,
		     size_t *rest_len)
{
	if (len > XATTR_NAME_MAX)
		return -ERANGE;
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		const struct prefix *p = &prefixes[i];

		if (len < p->len || memcmp(name, p->text, p->len) || (p->whole && len != p->len))
			continue;
		if (!p->whole && len == p->len)
			return -EINVAL;
		*index = p->index;
		*rest = name + p->len;
		*rest_len = len - p->len;
		return 0;
	}
	return -EOPNOTSUPP;
}

uint32_t xattr_block_csum(const struct ext4_fs *fs, uint64_t block, const uint8_t *data)
{
	const size_t at = offsetof(struct ext4_xattr_header, checksum);
	const le64_t le_block = cpu_to_le64(block);
	const le32_t zero = cpu_to_le32(0);
	uint32_t crc = crc32c(fs->csum_seed, &le_block, sizeof(le_block));

	crc = crc32c(crc, data, at);
	crc = crc32c(crc, &zero, sizeof(zero));
	return crc32c(crc, data + at + 4, fs->block_size - at - 4);
}

static int load_body(struct ext4_inode *in, struct xattr_sets *s)
{
	uint32_t first;

	if (in->fs->inode_size == EXT4_GOOD_INODE_SIZE)
		return 0;
	first = EXT4_GOOD_INODE_SIZE + get_unaligned_le16(in->raw + EXT4_GOOD_INODE_SIZE);
	if (first + 8 > in->fs->inode_size ||
	    get_unaligned_le32(s->bytes + first) != EXT4_XATTR_MAGIC)
		return 0;
	first += 4;
	return xattr_parse(s->bytes + first, 0, in->fs->inode_size - first, &s->body);
}

static int load_block(struct ext4_inode *in, struct xattr_sets *s)
{
	const struct ext4_fs *fs = in->fs;
	const struct ext4_xattr_header *h;
	uint8_t *copy = s->bytes + fs->inode_size;

	if (!in->file_acl)
		return 0;
	if (!ext4_block_of_file(fs, in->file_acl))
		return -EUCLEAN;
	s->buf = bcache_get(fs->bc, in->file_acl);
	if (IS_ERR(s->buf)) {
		const int err = (int)PTR_ERR(s->buf);

		s->buf = NULL;
		return err;
	}
	memcpy(copy, s->buf->data, fs->block_size);
	h = (const void *)copy;
	if (le32_to_cpu(h->magic) != EXT4_XATTR_MAGIC || le32_to_cpu(h->blocks) != 1 ||
	    !h->refcount ||
	    (fs->has_csum && le32_to_cpu(h->checksum) != xattr_block_csum(fs, in->file_acl, copy)))
		return -EUCLEAN;
	return xattr_parse(copy, XATTR_BLOCK_HEADER, fs->block_size - XATTR_BLOCK_HEADER,
			   &s->block);
}

bool ext4_may_have_acl(const struct ext4_inode *in)
{
	const uint32_t size = in->fs->inode_size;
	struct ext4_xattr_entry e;
	uint32_t at;

	if (in->file_acl)
		return true;
	if (size == EXT4_GOOD_INODE_SIZE)
		return false;
	at = EXT4_GOOD_INODE_SIZE + get_unaligned_le16(in->raw + EXT4_GOOD_INODE_SIZE);
	if (at + 8 > size || get_unaligned_le32(in->raw + at) != EXT4_XATTR_MAGIC)
		return false;
	/* Entries that leave their room are an error for xattr_load(). */
	for (at += 4; at + sizeof(e) <= size && get_unaligned_le32(in->raw + at);
	     at += ALIGN_UP(sizeof(e) + e.name_len, 4u)) {
		memcpy(&e, in->raw + at, sizeof(e));
		if (e.name_index == XATTR_INDEX_ACL_ACCESS ||
		    e.name_index == XATTR_INDEX_ACL_DEFAULT)
			return true;
	}
	return false;
}

int xattr_load(struct ext4_inode *in, struct xattr_sets *s)
{
	int err;

	assert_rwsem_held(&in->lock);
	*s = (struct xattr_sets){ .body = { .fs = in->fs }, .block = { .fs = in->fs } };
	s->bytes = ext4_alloc(in->fs, in->fs->inode_size + in->fs->block_size);
	if (!s->bytes)
		return -ENOMEM;
	memcpy(s->bytes, in->raw, in->fs->inode_size);
	err = load_body(in, s);
	if (!err)
		err = load_block(in, s);
	if (!err)
		return 0;
	xattr_unload(s);
	if (err == -EUCLEAN)
		return ext4_corrupt(in->fs, "inode %u: extended attributes", in->ino);
	return err;
}

void xattr_unload(struct xattr_sets *s)
{
	if (s->buf)
		bcache_put(s->buf);
	kfree(s->body.items);
	kfree(s->block.items);
	kfree(s->bytes);
	*s = (struct xattr_sets){ 0 };
}

struct xattr_item *xattr_find(struct xattr_set *set, uint8_t index, const char *name, size_t len)
{
	for (uint32_t i = 0; i < set->nr; i++) {
		struct xattr_item *item = &set->items[i];

		if (item->index == index && item->name_len == len && !memcmp(item->name, name, len))
			return item;
	}
	return NULL;
}

/* Give @item's value to the caller of getxattr(). */
static int64_t give(const struct xattr_item *item, void *buf, size_t size)
{
	const bool acl =
		item->index == XATTR_INDEX_ACL_ACCESS || item->index == XATTR_INDEX_ACL_DEFAULT;
	const uint8_t *value = item->value;
	size_t len = item->value_len;
	uint8_t *user = NULL;
	int64_t ret;

	if (acl) {
		user = kmalloc(2 * len + 8);
		if (!user)
			return -ENOMEM;
		if (acl_from_disk(value, len, user, &len)) {
			kfree(user);
			return -EUCLEAN;
		}
		value = user;
	}
	ret = size && len > size ? -ERANGE : (int64_t)len;
	if (ret > 0 && size)
		memcpy(buf, value, len);
	kfree(user);
	return ret;
}

int64_t ext4_xattr_get(struct ext4_inode *in, const char *name, size_t len, void *buf, size_t size)
{
	struct xattr_item *item;
	struct xattr_sets s;
	const char *rest;
	size_t rest_len;
	uint8_t index;
	int64_t ret;

	ret = xattr_split_name(name, len, &index, &rest, &rest_len);
	if (ret)
		return ret;
	rwsem_read_lock(&in->lock);
	ret = in->gone ? -ESTALE : xattr_load(in, &s);
	if (!ret) {
		item = xattr_find(&s.body, index, rest, rest_len);
		if (!item)
			item = xattr_find(&s.block, index, rest, rest_len);
		ret = item ? give(item, buf, size) : -ENODATA;
		xattr_unload(&s);
	}
	rwsem_read_unlock(&in->lock);
	return ret;
}

/* Append the full names of @set to @buf from *@at on, as far as it reaches. */
static void list_set(const struct xattr_set *set, char *buf, size_t size, size_t *at)
{
	for (uint32_t i = 0; i < set->nr; i++) {
		const struct xattr_item *item = &set->items[i];

		for (size_t p = 0; p < ARRAY_SIZE(prefixes); p++) {
			const size_t len = prefixes[p].len + (size_t)item->name_len + 1;

			if (prefixes[p].index != item->index)
				continue;
			if (*at + len <= size) {
				memcpy(buf + *at, prefixes[p].text, prefixes[p].len);
				memcpy(buf + *at + prefixes[p].len, item->name, item->name_len);
				buf[*at + len - 1] = '\0';
			}
			*at += len;
		}
	}
}

int64_t ext4_xattr_list(struct ext4_inode *in, char *buf, size_t size)
{
	struct xattr_sets s;
	size_t at = 0;
	int err;

	rwsem_read_lock(&in->lock);
	err = in->gone ? -ESTALE : xattr_load(in, &s);
	if (!err) {
		list_set(&s.body, buf, size, &at);
		list_set(&s.block, buf, size, &at);
		xattr_unload(&s);
	}
	rwsem_read_unlock(&in->lock);
	if (err)
		return err;
	return size && at > size ? -ERANGE : (int64_t)at;
}
