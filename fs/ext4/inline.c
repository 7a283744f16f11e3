/* SPDX-License-Identifier: MIT */
/*
 * ext4: files and directories whose contents stand in the inode itself.
 *
 * The first 60 bytes are where block pointers would be; the rest is the value of the
 * attribute "system.data" between the inode's extra fields and its end.
 */
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "ext4_priv.h"

struct attr_area {
	const uint8_t *first; /* the first entry */
	uint32_t len;         /* from there to the inode's end */
};

/* Find "system.data" in @area: its value's place, or -ENODATA. */
static int find_data(const struct attr_area *area, uint32_t *offs, uint32_t *size)
{
	uint32_t at = 0;

	for (;;) {
		struct ext4_xattr_entry e;

		/* Four zero bytes end the list; the area's end has to come after them. */
		if (area->len - at < 4)
			return -EUCLEAN;
		if (!get_unaligned_le32(area->first + at))
			return -ENODATA;
		if (area->len - at < sizeof(e))
			return -EUCLEAN;
		memcpy(&e, area->first + at, sizeof(e));
		if (e.name_len > area->len - at - sizeof(e))
			return -EUCLEAN;
		if (e.name_index == EXT4_XATTR_INDEX_SYSTEM && e.name_len == 4 &&
		    !memcmp(area->first + at + sizeof(e), "data", 4)) {
			*offs = le16_to_cpu(e.value_offs);
			*size = le32_to_cpu(e.value_size);
			return le32_to_cpu(e.value_inum) ? -EUCLEAN : 0;
		}
		at += (uint32_t)ALIGN_UP(sizeof(e) + e.name_len, (size_t)4);
		if (at > area->len)
			return -EUCLEAN;
	}
}

/* The entries of a directory begin behind its parent's number, which takes 4 bytes. */
static int check_dir(const struct ext4_inode *in)
{
	int err = ext4_dirents_check(in, in->iblock + 4, EXT4_IBLOCK_LEN - 4, 0);

	if (!err)
		err = ext4_dirents_check(in, in->inline_more, in->inline_more_len, 1);
	return err;
}

int ext4_inline_decode(struct ext4_inode *in, const uint8_t *raw, uint32_t len, uint32_t extra)
{
	const uint32_t start = EXT4_GOOD_INODE_SIZE + extra;
	struct attr_area area;
	uint32_t offs, size;
	int err = -ENODATA;

	if (len >= start + 8 && get_unaligned_le32(raw + start) == EXT4_XATTR_MAGIC) {
		area.first = raw + start + 4;
		area.len = len - start - 4;
		err = find_data(&area, &offs, &size);
	}
	if (!err && size && (offs > area.len || size > area.len - offs))
		err = -EUCLEAN;
	if (err)
		return ext4_corrupt(in->fs, "inode %u: inline data attribute", in->ino);
	in->inline_at = start + 4 + offs;
	if (size) {
		in->inline_more = kmalloc(size);
		if (!in->inline_more)
			return -ENOMEM;
		memcpy(in->inline_more, area.first + offs, size);
		in->inline_more_len = size;
	}
	/* mke2fs leaves a file that is all hole as an inline one: missing bytes are 0. */
	if (in->size > ext4_inline_capacity(in) && (in->mode & S_IFMT) != S_IFREG)
		return ext4_corrupt(in->fs, "inode %u: inline size %llu", in->ino,
				    (unsigned long long)in->size);
	return ext4_is_dir(in) ? check_dir(in) : 0;
}

uint32_t ext4_inline_capacity(const struct ext4_inode *in)
{
	return EXT4_IBLOCK_LEN + in->inline_more_len;
}

void ext4_inline_copy(const struct ext4_inode *in, uint32_t pos, void *buf, uint32_t len)
{
	uint8_t *out = buf;

	ASSERT(pos <= ext4_inline_capacity(in) && len <= ext4_inline_capacity(in) - pos);
	if (pos < EXT4_IBLOCK_LEN) {
		const uint32_t n = MIN(len, EXT4_IBLOCK_LEN - pos);

		memcpy(out, in->iblock + pos, n);
		out += n;
		pos += n;
		len -= n;
	}
	if (len)
		memcpy(out, in->inline_more + (pos - EXT4_IBLOCK_LEN), len);
}
