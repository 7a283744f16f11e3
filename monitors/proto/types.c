/* SPDX-License-Identifier: MIT */
/*
 * Encode and decode the pieces that several protocol headers share.
 *
 * See:	docs/protocol/pm.md
 */
#include <proto/types.h>

#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/string.h>

#define NSEC_PER_SEC 1000000000u

/* File types of st_mode. */
#define MODE_TYPE_SHIFT 12
#define MODE_MAX        0xffffu

le32_t proto_status_encode(int status)
{
	return cpu_to_le32((uint32_t)status);
}

int proto_status_decode(le32_t w, int *out)
{
	const uint32_t v = le32_to_cpu(w);

	if (v && v < (uint32_t)-PROTO_ERRNO_MAX)
		return -EPROTO;
	*out = (int)v;
	return 0;
}

void proto_mr_ref_encode(const struct proto_mr_ref *ref, struct proto_mr_ref_wire *w)
{
	w->addr = cpu_to_le64(ref->addr);
	w->rkey = cpu_to_le32(ref->rkey);
	w->len = cpu_to_le32(ref->len);
}

int proto_mr_ref_decode(const struct proto_mr_ref_wire *w, struct proto_mr_ref *out)
{
	struct proto_mr_ref r;

	r.addr = le64_to_cpu(w->addr);
	r.rkey = le32_to_cpu(w->rkey);
	r.len = le32_to_cpu(w->len);
	if (r.len != PAGE_SIZE || (r.addr & PAGE_MASK_LOW))
		return -EPROTO;
	*out = r;
	return 0;
}

void proto_mr_refs_encode(const struct proto_mr_ref *refs, uint32_t nr, void *buf)
{
	uint8_t *pos = buf;

	for (uint32_t i = 0; i < nr; i++, pos += sizeof(struct proto_mr_ref_wire)) {
		struct proto_mr_ref_wire w;

		proto_mr_ref_encode(&refs[i], &w);
		memcpy(pos, &w, sizeof(w));
	}
}

int proto_mr_refs_decode(const void *buf, uint32_t nr, struct proto_mr_ref *out)
{
	const uint8_t *pos = buf;

	for (uint32_t i = 0; i < nr; i++, pos += sizeof(struct proto_mr_ref_wire)) {
		struct proto_mr_ref_wire w;

		memcpy(&w, pos, sizeof(w));
		if (proto_mr_ref_decode(&w, &out[i]))
			return -EPROTO;
	}
	return 0;
}

void proto_file_encode(const struct proto_file *file, struct proto_file_wire *w)
{
	w->ino = cpu_to_le64(file->ino);
	w->gen = cpu_to_le32(file->gen);
	w->node = cpu_to_le32(file->node);
}

int proto_file_decode(const struct proto_file_wire *w, struct proto_file *out)
{
	struct proto_file f;

	f.ino = le64_to_cpu(w->ino);
	f.gen = le32_to_cpu(w->gen);
	f.node = le32_to_cpu(w->node);
	if (f.node > PROTO_NODE_MAX)
		return -EPROTO;
	if (f.node ? !f.ino : f.ino || f.gen)
		return -EPROTO;
	*out = f;
	return 0;
}

bool proto_file_equal(const struct proto_file *a, const struct proto_file *b)
{
	return a->ino == b->ino && a->gen == b->gen && a->node == b->node;
}

void proto_attr_encode(const struct proto_attr *attr, struct proto_attr_wire *w)
{
	proto_file_encode(&attr->file, &w->file);
	w->size = cpu_to_le64(attr->size);
	w->blocks = cpu_to_le64(attr->blocks);
	w->atime_s = cpu_to_le64((uint64_t)attr->atime_s);
	w->mtime_s = cpu_to_le64((uint64_t)attr->mtime_s);
	w->ctime_s = cpu_to_le64((uint64_t)attr->ctime_s);
	w->btime_s = cpu_to_le64((uint64_t)attr->btime_s);
	w->atime_ns = cpu_to_le32(attr->atime_ns);
	w->mtime_ns = cpu_to_le32(attr->mtime_ns);
	w->ctime_ns = cpu_to_le32(attr->ctime_ns);
	w->btime_ns = cpu_to_le32(attr->btime_ns);
	w->mode = cpu_to_le32(attr->mode);
	w->nlink = cpu_to_le32(attr->nlink);
	w->uid = cpu_to_le32(attr->uid);
	w->gid = cpu_to_le32(attr->gid);
	w->rdev = cpu_to_le32(attr->rdev);
	w->blksize = cpu_to_le32(attr->blksize);
	w->version = cpu_to_le64(attr->version);
	w->fsid = cpu_to_le64(attr->fsid);
}

/* fifo, character device, directory, block device, regular file, symbolic link, socket */
static bool mode_is_valid(uint32_t mode)
{
	const uint32_t types = BIT(1) | BIT(2) | BIT(4) | BIT(6) | BIT(8) | BIT(10) | BIT(12);

	return mode <= MODE_MAX && (types & BIT(mode >> MODE_TYPE_SHIFT));
}

int proto_attr_decode(const void *buf, size_t len, struct proto_attr *out)
{
	struct proto_attr_wire w;
	struct proto_attr a;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (proto_file_decode(&w.file, &a.file))
		return -EPROTO;

	a.size = le64_to_cpu(w.size);
	a.blocks = le64_to_cpu(w.blocks);
	a.atime_s = (int64_t)le64_to_cpu(w.atime_s);
	a.mtime_s = (int64_t)le64_to_cpu(w.mtime_s);
	a.ctime_s = (int64_t)le64_to_cpu(w.ctime_s);
	a.btime_s = (int64_t)le64_to_cpu(w.btime_s);
	a.atime_ns = le32_to_cpu(w.atime_ns);
	a.mtime_ns = le32_to_cpu(w.mtime_ns);
	a.ctime_ns = le32_to_cpu(w.ctime_ns);
	a.btime_ns = le32_to_cpu(w.btime_ns);
	a.mode = le32_to_cpu(w.mode);
	a.nlink = le32_to_cpu(w.nlink);
	a.uid = le32_to_cpu(w.uid);
	a.gid = le32_to_cpu(w.gid);
	a.rdev = le32_to_cpu(w.rdev);
	a.blksize = le32_to_cpu(w.blksize);
	a.version = le64_to_cpu(w.version);
	a.fsid = le64_to_cpu(w.fsid);

	if (!a.file.node || a.size > INT64_MAX || !mode_is_valid(a.mode) || !a.blksize)
		return -EPROTO;
	if (a.atime_ns >= NSEC_PER_SEC || a.mtime_ns >= NSEC_PER_SEC ||
	    a.ctime_ns >= NSEC_PER_SEC || a.btime_ns >= NSEC_PER_SEC)
		return -EPROTO;
	*out = a;
	return 0;
}

void proto_cred_encode(const struct proto_cred *cred, struct proto_cred_wire *w, le32_t *groups)
{
	w->uid = cpu_to_le32(cred->uid);
	w->gid = cpu_to_le32(cred->gid);
	w->nr_groups = cpu_to_le32(cred->nr_groups);
	w->flags = cpu_to_le32(0);
	for (uint32_t i = 0; i < cred->nr_groups; i++)
		groups[i] = cpu_to_le32(cred->groups[i]);
}

int proto_cred_decode(const struct proto_cred_wire *w, const void *groups, size_t groups_len,
		      struct proto_cred *out)
{
	const uint32_t nr = le32_to_cpu(w->nr_groups);

	if (nr > PROTO_MAX_GROUPS || le32_to_cpu(w->flags))
		return -EPROTO;
	if (groups_len / sizeof(le32_t) < nr)
		return -EMSGSIZE;
	out->uid = le32_to_cpu(w->uid);
	out->gid = le32_to_cpu(w->gid);
	out->nr_groups = nr;
	memset(out->groups, 0, sizeof(out->groups));
	for (uint32_t i = 0; i < nr; i++)
		out->groups[i] = get_unaligned_le32((const uint8_t *)groups + i * sizeof(le32_t));
	return 0;
}

uint32_t proto_file_cache_node(const struct proto_file *file, const uint32_t *nodes, size_t nr)
{
	if (!nr)
		return 0;
	return nodes[hash64_pair(file->ino, (uint64_t)file->gen << 32 | file->node) % nr];
}
