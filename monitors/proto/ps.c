/* SPDX-License-Identifier: MIT */
/*
 * Processor -> storage messages: encode and decode. Pure; linked into both monitors, the host
 * tests and the fuzzer. Every decoder checks all of its input and writes its result only on
 * success.
 */
#include <proto/ps.h>

#include <lib/errno.h>
#include <lib/string.h>

#include "codec.h"

static bool path_ok(const char *path, size_t len)
{
	return len >= 1 && len < PROTO_PATH_MAX && path[0] == '/' && !memchr(path, 0, len);
}

/* Absolute paths, each with its NUL, none longer than the others' sum allows. */
static bool mount_points_ok(const char *mount_points, size_t len)
{
	if (len > PS_MOUNT_POINTS_MAX || (len && mount_points[len - 1] != '\0'))
		return false;
	while (len > 0) {
		const size_t n = strlen(mount_points) + 1;

		/* "/" itself cannot be one: nothing would be left to walk. */
		if (n < 3 || mount_points[0] != '/')
			return false;
		mount_points += n;
		len -= n;
	}
	return true;
}

#define PS_PATH_REQ(F)                                                                 \
	F(own, cred), F(id32, vnode), F(u32, flags), F(u32, access), F(u16, path_len), \
		F(u16, canon_len), F(u16, mount_points_len), F(zero16, reserved)

static bool path_req_is_valid(const struct ps_path_req *r)
{
	return !(r->flags & ~(uint32_t)PS_LOOKUP_ALL) && !(r->access & ~7u);
}

CODEC_FIELDS(ps_path_req, PS_PATH_REQ, path_req_is_valid)

ssize_t ps_path_req_encode(const struct ps_path_req *req, void *buf, size_t cap)
{
	const size_t groups = (size_t)req->cred.nr_groups * sizeof(le32_t);
	const size_t len =
		sizeof(struct ps_path_req_wire) + groups + req->path_len + req->mount_points_len;
	le32_t group_words[PROTO_MAX_GROUPS];
	struct ps_path_req_wire w;
	uint8_t *out = buf;

	if (req->cred.nr_groups > PROTO_MAX_GROUPS || len > cap ||
	    !path_ok(req->path, req->path_len) ||
	    !mount_points_ok(req->mount_points, req->mount_points_len) ||
	    req->canon_len > req->path_len)
		return -EMSGSIZE;
	proto_cred_encode(&req->cred, &w.cred, group_words);
	ps_path_req_put(req, &w);
	memcpy(out, &w, sizeof(w));
	memcpy(out + sizeof(w), group_words, groups);
	memcpy(out + sizeof(w) + groups, req->path, req->path_len);
	if (req->mount_points_len)
		memcpy(out + sizeof(w) + groups + req->path_len, req->mount_points,
		       req->mount_points_len);
	return (ssize_t)len;
}

int ps_path_req_decode(const void *buf, size_t len, struct ps_path_req *out)
{
	const uint8_t *in = buf;
	struct ps_path_req_wire w;
	struct ps_path_req r;
	size_t groups;
	int err;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, in, sizeof(w));
	if (!ps_path_req_get(&w, &r))
		return -EPROTO;
	if (le32_to_cpu(w.cred.nr_groups) > PROTO_MAX_GROUPS)
		return -EPROTO;
	groups = le32_to_cpu(w.cred.nr_groups) * sizeof(le32_t);
	if (len != sizeof(w) + groups + r.path_len + r.mount_points_len)
		return -EMSGSIZE;
	err = proto_cred_decode(&w.cred, in + sizeof(w), groups, &r.cred);
	if (err)
		return err;
	r.path = (const char *)in + sizeof(w) + groups;
	r.mount_points = r.path + r.path_len;
	if (!path_ok(r.path, r.path_len) || !mount_points_ok(r.mount_points, r.mount_points_len) ||
	    r.canon_len > r.path_len)
		return -EPROTO;
	*out = r;
	return 0;
}

/* Of what was not found here there are no attributes: these bytes are 0. */
#define PS_LOOKUP_REP(F) \
	F(own, attr), F(u16, path_len), F(u16, rest_len), F(u16, nr_links), F(u16, end)

static bool lookup_rep_is_valid(const struct ps_lookup_rep *r)
{
	return r->end <= PS_END_ROOT;
}

CODEC_FIELDS(ps_lookup_rep, PS_LOOKUP_REP, lookup_rep_is_valid)

ssize_t ps_lookup_rep_encode(const struct ps_lookup_rep *rep, void *buf, size_t cap)
{
	const size_t len = sizeof(struct ps_lookup_rep_wire) + rep->path_len + rep->rest_len;
	struct ps_lookup_rep_wire w = { 0 };
	uint8_t *out = buf;

	if (len > cap)
		return -EMSGSIZE;
	ps_lookup_rep_put(rep, &w);
	if (rep->end == PS_END_FOUND)
		proto_attr_encode(&rep->attr, &w.attr);
	memcpy(out, &w, sizeof(w));
	if (rep->path_len)
		memcpy(out + sizeof(w), rep->path, rep->path_len);
	if (rep->rest_len)
		memcpy(out + sizeof(w) + rep->path_len, rep->rest, rep->rest_len);
	return (ssize_t)len;
}

int ps_lookup_rep_decode(const void *buf, size_t len, struct ps_lookup_rep *out)
{
	const uint8_t *in = buf;
	struct ps_lookup_rep r = { 0 };
	struct ps_lookup_rep_wire w;
	int err;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, in, sizeof(w));
	if (!ps_lookup_rep_get(&w, &r))
		return -EPROTO;
	err = r.end != PS_END_FOUND ? 0 : proto_attr_decode(&w.attr, sizeof(w.attr), &r.attr);
	if (err)
		return err;
	r.path = (const char *)in + sizeof(w);
	r.rest = r.path + r.path_len;
	if (len != sizeof(w) + r.path_len + r.rest_len)
		return -EMSGSIZE;
	if (r.path_len && !path_ok(r.path, r.path_len))
		return -EPROTO;
	if (r.end != PS_END_FOUND ? !r.path_len : r.rest_len != 0)
		return -EPROTO;
	if (r.rest_len >= PROTO_PATH_MAX || memchr(r.rest, 0, r.rest_len))
		return -EPROTO;
	*out = r;
	return 0;
}

void ps_file_req_encode(const struct proto_file *file, struct ps_file_req_wire *w)
{
	proto_file_encode(file, &w->file);
}

int ps_file_req_decode(const void *buf, size_t len, struct proto_file *out)
{
	struct ps_file_req_wire w;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	return proto_file_decode(&w.file, out);
}

#define PS_GETDENTS_REQ(F) \
	F(file, file), F(u64, cookie), F(u64, behind), F(u32, max_bytes), F(zero32, reserved)

CODEC_FIXED(ps_getdents_req, PS_GETDENTS_REQ, codec_any)

size_t ps_dirent_size(uint8_t name_len)
{
	return (sizeof(struct ps_dirent_wire) + name_len + 7u) & ~(size_t)7;
}

int ps_dirent_encode(const struct ps_dirent *ent, void *buf, size_t cap, size_t *off)
{
	const size_t size = ps_dirent_size(ent->name_len);
	struct ps_dirent_wire w = {
		.ino = cpu_to_le64(ent->ino),
		.cookie = cpu_to_le64(ent->cookie),
		.rec_len = cpu_to_le16((uint16_t)size),
		.type = ent->type | (ent->more ? PS_DIRENT_MORE : 0),
		.name_len = ent->name_len,
	};
	uint8_t *out = (uint8_t *)buf + *off;

	if (*off > cap || size > cap - *off)
		return -EMSGSIZE;
	memset(out, 0, size);
	memcpy(out, &w, offsetof(struct ps_dirent_wire, name));
	memcpy(out + offsetof(struct ps_dirent_wire, name), ent->name, ent->name_len);
	*off += size;
	return 0;
}

int ps_dirent_decode(const void *buf, size_t len, size_t *off, struct ps_dirent *out)
{
	const size_t fixed = offsetof(struct ps_dirent_wire, name);
	const uint8_t *in = (const uint8_t *)buf + *off;
	struct ps_dirent_wire w;

	if (*off >= len)
		return -ENOENT;
	if (len - *off < fixed)
		return -EPROTO;
	memcpy(&w, in, fixed);
	if (le16_to_cpu(w.rec_len) != ps_dirent_size(w.name_len) ||
	    le16_to_cpu(w.rec_len) > len - *off || w.name_len == 0)
		return -EPROTO;
	if (memchr(in + fixed, 0, w.name_len) || memchr(in + fixed, '/', w.name_len))
		return -EPROTO;
	*out = (struct ps_dirent){ .ino = le64_to_cpu(w.ino),
				   .cookie = le64_to_cpu(w.cookie),
				   .type = w.type & ~PS_DIRENT_MORE,
				   .more = w.type & PS_DIRENT_MORE,
				   .name_len = w.name_len,
				   .name = (const char *)in + fixed };
	*off += le16_to_cpu(w.rec_len);
	return 0;
}

#define PS_STATFS(F)                                                                               \
	F(u64, type), F(u64, bsize), F(u64, blocks), F(u64, bfree), F(u64, bavail), F(u64, files), \
		F(u64, ffree), F(u64, fsid), F(u64, namelen), F(u64, flags)

CODEC_FIXED(ps_statfs, PS_STATFS, codec_any)
