/* SPDX-License-Identifier: MIT */
/*
 * Processor -> storage messages: encode and decode.  Pure; linked into both monitors, the host tests and
 * the fuzzer.  Every decoder checks all of its input and writes its result only on success.
 */
#include <proto/ps.h>

#include <lib/errno.h>
#include <lib/string.h>

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

ssize_t ps_path_req_encode(const struct ps_path_req *req, void *buf, size_t cap)
{
	const size_t groups = (size_t)req->cred.nr_groups * sizeof(le32_t);
	const size_t len =
		sizeof(struct ps_path_req_wire) + groups + req->path_len + req->mount_points_len;
	le32_t group_words[PROTO_MAX_GROUPS];
	struct ps_path_req_wire w = { 0 };
	uint8_t *out = buf;

	if (req->cred.nr_groups > PROTO_MAX_GROUPS || len > cap ||
	    !path_ok(req->path, req->path_len) ||
	    !mount_points_ok(req->mount_points, req->mount_points_len) ||
	    req->canon_len > req->path_len)
		return -EMSGSIZE;
	proto_cred_encode(&req->cred, &w.cred, group_words);
	w.vnode = cpu_to_le32(req->vnode);
	w.flags = cpu_to_le32(req->flags);
	w.access = cpu_to_le32(req->access);
	w.path_len = cpu_to_le16(req->path_len);
	w.canon_len = cpu_to_le16(req->canon_len);
	w.mount_points_len = cpu_to_le16(req->mount_points_len);
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
	r.vnode = le32_to_cpu(w.vnode);
	r.flags = le32_to_cpu(w.flags);
	r.access = le32_to_cpu(w.access);
	r.path_len = le16_to_cpu(w.path_len);
	r.canon_len = le16_to_cpu(w.canon_len);
	r.mount_points_len = le16_to_cpu(w.mount_points_len);
	if ((r.flags & ~(uint32_t)PS_LOOKUP_ALL) || (r.access & ~7u) || le16_to_cpu(w.reserved))
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

ssize_t ps_lookup_rep_encode(const struct ps_lookup_rep *rep, void *buf, size_t cap)
{
	const size_t len = sizeof(struct ps_lookup_rep_wire) + rep->path_len + rep->rest_len;
	struct ps_lookup_rep_wire w = {
		.path_len = cpu_to_le16(rep->path_len),
		.rest_len = cpu_to_le16(rep->rest_len),
		.nr_links = cpu_to_le16(rep->nr_links),
		.at_mount_point = cpu_to_le16(rep->at_mount_point),
	};
	uint8_t *out = buf;

	if (len > cap)
		return -EMSGSIZE;
	if (!rep->at_mount_point)
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
	err = w.at_mount_point ? 0 : proto_attr_decode(&w.attr, sizeof(w.attr), &r.attr);
	if (err)
		return err;
	r.path_len = le16_to_cpu(w.path_len);
	r.rest_len = le16_to_cpu(w.rest_len);
	r.nr_links = le16_to_cpu(w.nr_links);
	r.at_mount_point = le16_to_cpu(w.at_mount_point);
	r.path = (const char *)in + sizeof(w);
	r.rest = r.path + r.path_len;
	if (len != sizeof(w) + r.path_len + r.rest_len)
		return -EMSGSIZE;
	if (le16_to_cpu(w.at_mount_point) > 1 || (r.path_len && !path_ok(r.path, r.path_len)))
		return -EPROTO;
	if (r.at_mount_point ? !r.path_len : r.rest_len != 0)
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

void ps_getdents_req_encode(const struct ps_getdents_req *req, struct ps_getdents_req_wire *w)
{
	*w = (struct ps_getdents_req_wire){ 0 };
	proto_file_encode(&req->file, &w->file);
	w->cookie = cpu_to_le64(req->cookie);
	w->max_bytes = cpu_to_le32(req->max_bytes);
}

int ps_getdents_req_decode(const void *buf, size_t len, struct ps_getdents_req *out)
{
	struct ps_getdents_req_wire w;
	struct ps_getdents_req r;
	int err;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	err = proto_file_decode(&w.file, &r.file);
	if (err)
		return err;
	r.cookie = le64_to_cpu(w.cookie);
	r.max_bytes = le32_to_cpu(w.max_bytes);
	if (le32_to_cpu(w.reserved))
		return -EPROTO;
	*out = r;
	return 0;
}

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
		.type = ent->type,
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
				   .type = w.type,
				   .name_len = w.name_len,
				   .name = (const char *)in + fixed };
	*off += le16_to_cpu(w.rec_len);
	return 0;
}

void ps_statfs_encode(const struct ps_statfs *st, struct ps_statfs_rep_wire *w)
{
	w->type = cpu_to_le64(st->type);
	w->bsize = cpu_to_le64(st->bsize);
	w->blocks = cpu_to_le64(st->blocks);
	w->bfree = cpu_to_le64(st->bfree);
	w->bavail = cpu_to_le64(st->bavail);
	w->files = cpu_to_le64(st->files);
	w->ffree = cpu_to_le64(st->ffree);
	w->fsid = cpu_to_le64(st->fsid);
	w->namelen = cpu_to_le64(st->namelen);
	w->flags = cpu_to_le64(st->flags);
}

int ps_statfs_decode(const void *buf, size_t len, struct ps_statfs *out)
{
	struct ps_statfs_rep_wire w;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	*out = (struct ps_statfs){
		.type = le64_to_cpu(w.type),
		.bsize = le64_to_cpu(w.bsize),
		.blocks = le64_to_cpu(w.blocks),
		.bfree = le64_to_cpu(w.bfree),
		.bavail = le64_to_cpu(w.bavail),
		.files = le64_to_cpu(w.files),
		.ffree = le64_to_cpu(w.ffree),
		.fsid = le64_to_cpu(w.fsid),
		.namelen = le64_to_cpu(w.namelen),
		.flags = le64_to_cpu(w.flags),
	};
	return 0;
}
