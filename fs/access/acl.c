/* SPDX-License-Identifier: MIT */
/* POSIX access control lists, by Linux's rules.  Pure. */
#include <fs/acl.h>

#include <kernel/panic.h>
#include <lib/byteorder.h>
#include <lib/errno.h>
#include <lib/string.h>

#define VERSION     2u
#define HEADER      4u
#define ENTRY       8u
#define ALL         7u
#define PERMISSIONS 0777u

static uint32_t tag_at(const uint8_t *value, size_t at)
{
	return get_unaligned_le16(value + at);
}

static uint32_t perm_at(const uint8_t *value, size_t at)
{
	return get_unaligned_le16(value + at + 2);
}

static uint32_t id_at(const uint8_t *value, size_t at)
{
	return get_unaligned_le32(value + at + 4);
}

static void set_perm(uint8_t *value, size_t at, uint32_t perm)
{
	put_unaligned_le16((uint16_t)perm, value + at + 2);
}

bool posix_acl_is_name(const char *name, size_t len)
{
	return (len == strlen(POSIX_ACL_ACCESS) && !memcmp(name, POSIX_ACL_ACCESS, len)) ||
	       (len == strlen(POSIX_ACL_DEFAULT) && !memcmp(name, POSIX_ACL_DEFAULT, len));
}

/* The tag that may come behind @last, 0 at the begin; named ones may repeat. */
static bool may_follow(uint32_t last, uint32_t tag, bool named)
{
	switch (tag) {
	case ACL_USER_OBJ:
		return !last;
	case ACL_USER:
	case ACL_GROUP_OBJ:
		return last == ACL_USER_OBJ || last == ACL_USER;
	case ACL_GROUP:
	case ACL_MASK:
		return last == ACL_GROUP_OBJ || last == ACL_GROUP;
	case ACL_OTHER:
		return last == ACL_MASK || (!named && (last == ACL_GROUP_OBJ || last == ACL_GROUP));
	default:
		return false;
	}
}

int posix_acl_check(const void *value, size_t len)
{
	const uint8_t *v = value;
	uint32_t last = 0;
	bool named = false;

	if (len < HEADER)
		return -EINVAL;
	if (get_unaligned_le32(v) != VERSION)
		return -EOPNOTSUPP;
	if ((len - HEADER) % ENTRY)
		return -EINVAL;
	if (len == HEADER)
		return 1;
	for (size_t at = HEADER; at < len; at += ENTRY) {
		const uint32_t tag = tag_at(v, at);

		if (!may_follow(last, tag, named) || perm_at(v, at) > ALL)
			return -EINVAL;
		if (tag == ACL_USER || tag == ACL_GROUP) {
			if (id_at(v, at) == UINT32_MAX)
				return -EINVAL;
			named = true;
		}
		last = tag;
	}
	return last == ACL_OTHER ? 0 : -EINVAL;
}

bool posix_acl_matters(const struct fs_cred *cred, uint32_t mode, uint32_t uid)
{
	return cred && !fs_cred_is_root(cred) && cred->uid != uid && (mode & 070);
}

/* Where the entry with @tag is, which there is once at most; 0: nowhere. */
static size_t find(const uint8_t *value, size_t len, uint32_t tag)
{
	for (size_t at = HEADER; at < len; at += ENTRY) {
		if (tag_at(value, at) == tag)
			return at;
	}
	return 0;
}

/* Is the entry about @cred? Of the owner of the file it is not. */
static bool names(const uint8_t *value, size_t at, const struct fs_cred *cred, uint32_t gid)
{
	switch (tag_at(value, at)) {
	case ACL_USER:
		return id_at(value, at) == cred->uid;
	case ACL_GROUP_OBJ:
		return fs_in_group(cred, gid);
	case ACL_GROUP:
		return fs_in_group(cred, id_at(value, at));
	default:
		return false;
	}
}

int posix_acl_access(const struct fs_cred *cred, uint32_t gid, uint32_t want, const void *value,
		     size_t len)
{
	const uint8_t *v = value;
	const size_t mask_at = find(v, len, ACL_MASK), other = find(v, len, ACL_OTHER);
	const uint32_t mask = mask_at ? perm_at(v, mask_at) : ALL;
	bool named = false;

	for (size_t at = HEADER; at < len; at += ENTRY) {
		if (!names(v, at, cred, gid))
			continue;
		/* The first entry of the user decides; of groups any one that grants it all. */
		if (!(want & ~(perm_at(v, at) & mask)))
			return 0;
		named = true;
		if (tag_at(v, at) == ACL_USER)
			break;
	}
	return !named && other && !(want & ~perm_at(v, other)) ? 0 : -EACCES;
}

bool posix_acl_mode(const void *value, size_t len, uint32_t *mode)
{
	const uint8_t *v = value;
	const size_t mask = find(v, len, ACL_MASK), group = find(v, len, ACL_GROUP_OBJ);
	const size_t owner = find(v, len, ACL_USER_OBJ), other = find(v, len, ACL_OTHER);

	ASSERT(owner && group && other);
	*mode = perm_at(v, owner) << 6 | perm_at(v, mask ? mask : group) << 3 | perm_at(v, other);
	return len == HEADER + 3 * ENTRY;
}

void posix_acl_chmod(void *value, size_t len, uint32_t mode)
{
	uint8_t *v = value;
	const size_t mask = find(v, len, ACL_MASK), group = find(v, len, ACL_GROUP_OBJ);
	const size_t owner = find(v, len, ACL_USER_OBJ), other = find(v, len, ACL_OTHER);

	ASSERT(owner && group && other);
	set_perm(v, owner, mode >> 6 & ALL);
	set_perm(v, mask ? mask : group, mode >> 3 & ALL);
	set_perm(v, other, mode & ALL);
}

bool posix_acl_inherit(void *value, size_t len, uint32_t *mode)
{
	uint32_t has;
	bool exact = posix_acl_mode(value, len, &has);

	*mode &= ~PERMISSIONS | has;
	posix_acl_chmod(value, len, *mode);
	return exact;
}
