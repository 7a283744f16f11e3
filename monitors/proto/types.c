/* SPDX-License-Identifier: MIT */
/*
 * Encode and decode the pieces that several protocol headers share.
 *
 * See:	docs/protocol/pm.md
 */
#include <proto/types.h>

#include <lib/errno.h>
#include <lib/string.h>

#include "codec.h"
#include "parts.h"

#define NSEC_PER_SEC 1000000000u

/* File types of st_mode. */
#define MODE_TYPE_SHIFT 12
#define MODE_MAX        0xffffu

/* --- memory references, files ---------------------------------------------------------- */

CODEC_PART(, proto_mr_ref)
CODEC_ELEMENTS(, proto_mr_ref)

#define PROTO_FILE(F) \
	F(u64, ino), F(u32, gen), F(node, node), F(u32, vnode), F(zero32, reserved), F(u64, seal)

static bool file_is_valid(const struct proto_file *f)
{
	return f->node ? f->ino != 0 : !f->ino && !f->gen && !f->vnode && !f->seal;
}

CODEC_FIELDS(proto_file, PROTO_FILE, file_is_valid)
CODEC_PART(, proto_file)

bool proto_file_equal(const struct proto_file *a, const struct proto_file *b)
{
	return a->ino == b->ino && a->gen == b->gen && a->node == b->node;
}

uint64_t proto_file_seal(const struct siphash_key *key, const struct proto_file *file)
{
	struct proto_file_wire w;

	proto_file_encode(file, &w);
	return siphash24(key, &w, offsetof(struct proto_file_wire, seal));
}

/* --- attributes ------------------------------------------------------------------------ */

#define PROTO_ATTR(F)                                                                         \
	F(file, file), F(u64, size), F(u64, blocks), F(s64, atime_s), F(s64, mtime_s),        \
		F(s64, ctime_s), F(s64, btime_s), F(u32, atime_ns), F(u32, mtime_ns),         \
		F(u32, ctime_ns), F(u32, btime_ns), F(u32, mode), F(u32, nlink), F(u32, uid), \
		F(u32, gid), F(u32, rdev), F(u32, blksize), F(u64, version), F(u64, fsid),    \
		F(u64, attrs)

/* fifo, character device, directory, block device, regular file, symbolic link, socket */
static bool mode_is_valid(uint32_t mode)
{
	const uint32_t types = BIT(1) | BIT(2) | BIT(4) | BIT(6) | BIT(8) | BIT(10) | BIT(12);

	return mode <= MODE_MAX && (types & BIT(mode >> MODE_TYPE_SHIFT));
}

static bool attr_is_valid(const struct proto_attr *a)
{
	if (a->attrs & ~(uint64_t)PROTO_ATTRS)
		return false;
	if (!a->file.node || a->size > INT64_MAX || !mode_is_valid(a->mode & ~PROTO_MODE_ACL) ||
	    !a->blksize)
		return false;
	return a->atime_ns < NSEC_PER_SEC && a->mtime_ns < NSEC_PER_SEC &&
	       a->ctime_ns < NSEC_PER_SEC && a->btime_ns < NSEC_PER_SEC;
}

CODEC_FIXED(proto_attr, PROTO_ATTR, attr_is_valid)

/* --- credentials ----------------------------------------------------------------------- */

void proto_cred_encode(const struct proto_cred *cred, struct proto_cred_wire *w, le32_t *groups)
{
	w->uid = cpu_to_le32(cred->uid);
	w->gid = cpu_to_le32(cred->gid);
	w->nr_groups = cpu_to_le32(cred->nr_groups);
	w->flags = cpu_to_le32(cred->flags);
	for (uint32_t i = 0; i < cred->nr_groups; i++)
		groups[i] = cpu_to_le32(cred->groups[i]);
}

int proto_cred_decode(const struct proto_cred_wire *w, const void *groups, size_t groups_len,
		      struct proto_cred *out)
{
	const uint32_t nr = le32_to_cpu(w->nr_groups), flags = le32_to_cpu(w->flags);

	if (nr > PROTO_MAX_GROUPS || (flags & ~PROTO_CRED_ALL))
		return -EPROTO;
	if (groups_len / sizeof(le32_t) < nr)
		return -EMSGSIZE;
	out->uid = le32_to_cpu(w->uid);
	out->gid = le32_to_cpu(w->gid);
	out->nr_groups = nr;
	out->flags = flags;
	memset(out->groups, 0, sizeof(out->groups));
	for (uint32_t i = 0; i < nr; i++)
		out->groups[i] = get_unaligned_le32((const uint8_t *)groups + i * sizeof(le32_t));
	return 0;
}
