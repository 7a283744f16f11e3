/* SPDX-License-Identifier: MIT */
/*
 * POSIX ACLs: Linux's user format (version 2: entries of 8 bytes) and the disk's (version 1:
 * entries without an id take 4).  Pure.
 */
#include <fs/acl.h>
#include <lib/byteorder.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "xattr_priv.h"

#define USER_VERSION 2u
#define DISK_VERSION 1u

static bool has_id(uint32_t tag)
{
	return tag == ACL_USER || tag == ACL_GROUP;
}

static bool tag_ok(uint32_t tag)
{
	return tag && !(tag & (tag - 1)) && tag <= ACL_OTHER;
}

int acl_to_disk(const uint8_t *user, size_t len, uint8_t *out, size_t *out_len)
{
	size_t n = 4;

	if (len < 4 || (len - 4) % 8 || get_unaligned_le32(user) != USER_VERSION)
		return -EINVAL;
	put_unaligned_le32(DISK_VERSION, out);
	for (size_t at = 4; at < len; at += 8) {
		const uint32_t tag = get_unaligned_le16(user + at);

		if (!tag_ok(tag) || get_unaligned_le16(user + at + 2) > 7)
			return -EINVAL;
		memcpy(out + n, user + at, 4);
		n += 4;
		if (has_id(tag)) {
			memcpy(out + n, user + at + 4, 4);
			n += 4;
		}
	}
	*out_len = n;
	return 0;
}

/* Bytes of the entry at @at, or 0. */
static size_t disk_entry(const uint8_t *disk, size_t len, size_t at)
{
	size_t n;

	if (len - at < 4 || !tag_ok(get_unaligned_le16(disk + at)))
		return 0;
	n = has_id(get_unaligned_le16(disk + at)) ? 8 : 4;
	return n <= len - at ? n : 0;
}

int acl_from_disk(const uint8_t *disk, size_t len, uint8_t *out, size_t *out_len)
{
	size_t n = 4, step;

	if (len < 4 || get_unaligned_le32(disk) != DISK_VERSION)
		return -EINVAL;
	put_unaligned_le32(USER_VERSION, out);
	for (size_t at = 4; at < len; at += step) {
		step = disk_entry(disk, len, at);
		if (!step)
			return -EINVAL;
		memcpy(out + n, disk + at, 4);
		if (step == 8)
			memcpy(out + n + 4, disk + at + 4, 4);
		else
			memset(out + n + 4, 0xff, 4);
		n += 8;
	}
	*out_len = n;
	return 0;
}

int acl_chmod(uint8_t *disk, size_t len, uint32_t mode)
{
	size_t step, group_at = 0, mask_at = 0;

	for (size_t at = 4; at < len; at += step) {
		step = disk_entry(disk, len, at);
		if (!step)
			return -EINVAL;
		switch (get_unaligned_le16(disk + at)) {
		case ACL_USER_OBJ:
			put_unaligned_le16((uint16_t)(mode >> 6 & 7), disk + at + 2);
			break;
		case ACL_OTHER:
			put_unaligned_le16((uint16_t)(mode & 7), disk + at + 2);
			break;
		case ACL_GROUP_OBJ:
			group_at = at;
			break;
		case ACL_MASK:
			mask_at = at;
			break;
		}
	}
	if (mask_at || group_at)
		put_unaligned_le16((uint16_t)(mode >> 3 & 7),
				   disk + (mask_at ? mask_at : group_at) + 2);
	return 0;
}
