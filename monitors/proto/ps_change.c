/* SPDX-License-Identifier: MIT */
/*
 * Processor -> storage messages that change something, that of a name in a directory, and those of
 * extended attributes: encode and decode. Pure; linked into both monitors, the host tests and the
 * fuzzer.
 *
 * A message is a fixed part, the words of the caller's groups, and up to two strings whose lengths
 * the fixed part has. A fixed part begins with struct ps_change_wire or struct proto_cred_wire,
 * and both of them begin with the credentials.
 *
 * See:	docs/protocol/ps.md
 */
#include <abi/stat.h>
#include <proto/ps.h>

#include <lib/errno.h>
#include <lib/string.h>

#include "codec.h"
#include "parts.h"

#define NSEC_PER_SEC 1000000000u
#define PERMISSIONS  07777u

/* --- the part behind the fixed one ------------------------------------------------------- */

struct tail {
	const void *first, *second;
	size_t first_len, second_len;
};

/* The whole message; @w is its fixed part, with all but the credentials in place. */
static ssize_t put_message(void *w, size_t fixed, const struct proto_cred *cred,
			   const struct tail *tail, void *buf, size_t cap)
{
	const size_t groups = (size_t)cred->nr_groups * sizeof(le32_t);
	const size_t len = fixed + groups + tail->first_len + tail->second_len;
	le32_t group_words[PROTO_MAX_GROUPS];
	struct proto_cred_wire cred_wire;
	uint8_t *out = buf;

	if (cred->nr_groups > PROTO_MAX_GROUPS || len > cap)
		return -EMSGSIZE;
	proto_cred_encode(cred, &cred_wire, group_words);
	memcpy(w, &cred_wire, sizeof(cred_wire));
	memcpy(out, w, fixed);
	out += fixed;
	memcpy(out, group_words, groups);
	out += groups;
	if (tail->first_len)
		memcpy(out, tail->first, tail->first_len);
	if (tail->second_len)
		memcpy(out + tail->first_len, tail->second, tail->second_len);
	return (ssize_t)len;
}

/* The lengths in @tail are those of the fixed part; finds where the strings are. */
static int get_tail(const void *buf, size_t len, size_t fixed, struct proto_cred *cred,
		    struct tail *tail)
{
	const uint8_t *in = buf;
	struct proto_cred_wire w;
	size_t groups;
	int err;

	memcpy(&w, in, sizeof(w));
	if (le32_to_cpu(w.nr_groups) > PROTO_MAX_GROUPS)
		return -EPROTO;
	groups = le32_to_cpu(w.nr_groups) * sizeof(le32_t);
	if (len != fixed + groups + tail->first_len + tail->second_len)
		return -EMSGSIZE;
	err = proto_cred_decode(&w, in + fixed, groups, cred);
	if (err)
		return err;
	tail->first = in + fixed + groups;
	tail->second = (const uint8_t *)tail->first + tail->first_len;
	return 0;
}

/* A name of an entry. */
static bool name_ok(const char *name, size_t len)
{
	if (!len || len > PS_NAME_MAX || memchr(name, 0, len) || memchr(name, '/', len))
		return false;
	return !(name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')));
}

/* A name of an extended attribute. */
static bool xattr_name_ok(const char *name, size_t len)
{
	return len && len <= PS_NAME_MAX && !memchr(name, 0, len);
}

/* --- struct ps_change_wire --------------------------------------------------------------- */

#define PS_CHANGE(F) F(own, cred), F(u64, seq), F(u64, acked)

static bool change_is_valid(const struct ps_change *c)
{
	return c->acked && c->acked <= c->seq;
}

CODEC_FIELDS(ps_change, PS_CHANGE, change_is_valid)

#define PUT_change(w, v) ps_change_put(&(v), &(w))
#define GET_change(v, w) (!ps_change_get(&(w), &(v)))

/* A file that has to be one. */
#define PUT_some(w, v) proto_file_encode(&(v), &(w))
#define GET_some(v, w) (proto_file_decode(&(w), &(v)) != 0 || !(v).node)

/* --- making ------------------------------------------------------------------------------ */

#define PS_MAKE_REQ(F)                                                                             \
	F(change, change), F(some, dir), F(u32, mode), F(u32, umask), F(u32, rdev), F(u32, flags), \
		F(u16, name_len), F(u16, target_len), F(zero32, reserved)

static bool make_req_is_valid(const struct ps_make_req *r)
{
	const uint32_t type = r->mode & S_IFMT;

	if (r->mode & ~(S_IFMT | PERMISSIONS) || r->umask & ~0777u)
		return false;
	return !r->rdev || type == S_IFCHR || type == S_IFBLK;
}

CODEC_FIELDS(ps_make_req, PS_MAKE_REQ, make_req_is_valid)

/* Does the request fit its opcode? */
static bool make_fits(uint16_t opcode, const struct ps_make_req *r)
{
	const uint32_t type = r->mode & S_IFMT;

	if (r->flags & ~(opcode == PS_TMPFILE ? (uint32_t)PS_MAKE_ALL : 0))
		return false;
	if (opcode == PS_SYMLINK ? !r->target_len || r->target_len >= PROTO_PATH_MAX ||
					   memchr(r->target, 0, r->target_len)
				 : r->target_len)
		return false;
	if (opcode == PS_TMPFILE ? r->name_len : !name_ok(r->name, r->name_len))
		return false;
	switch (opcode) {
	case PS_CREATE:
	case PS_TMPFILE:
		return type == S_IFREG;
	case PS_MKDIR:
		return type == S_IFDIR;
	case PS_SYMLINK:
		return type == S_IFLNK;
	case PS_MKNOD:
		return type == S_IFIFO || type == S_IFSOCK || type == S_IFCHR || type == S_IFBLK;
	default:
		return false;
	}
}

ssize_t ps_make_req_encode(uint16_t opcode, const struct ps_make_req *req, void *buf, size_t cap)
{
	const struct tail tail = { req->name, req->target, req->name_len, req->target_len };
	struct ps_make_req_wire w;

	if (!make_fits(opcode, req))
		return -EMSGSIZE;
	ps_make_req_put(req, &w);
	return put_message(&w, sizeof(w), &req->change.cred, &tail, buf, cap);
}

int ps_make_req_decode(uint16_t opcode, const void *buf, size_t len, struct ps_make_req *out)
{
	struct ps_make_req_wire w;
	struct ps_make_req r;
	struct tail tail;
	int err;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (!ps_make_req_get(&w, &r))
		return -EPROTO;
	tail = (struct tail){ .first_len = r.name_len, .second_len = r.target_len };
	err = get_tail(buf, len, sizeof(w), &r.change.cred, &tail);
	if (err)
		return err;
	r.name = tail.first;
	r.target = tail.second;
	if (!make_fits(opcode, &r))
		return -EPROTO;
	*out = r;
	return 0;
}

/* --- requests with one name --------------------------------------------------------------- */

/* x_encode() and x_decode() of a request that has a name behind its groups. */
#define CODEC_NAMED(msg, FIELDS)                                                             \
	CODEC_FIELDS(msg, FIELDS, codec_any)                                                 \
	ssize_t msg##_encode(const struct msg *req, void *buf, size_t cap)                   \
	{                                                                                    \
		const struct tail tail = { .first = req->name, .first_len = req->name_len }; \
		struct msg##_wire w;                                                         \
                                                                                             \
		if (!name_ok(req->name, req->name_len))                                      \
			return -EMSGSIZE;                                                    \
		msg##_put(req, &w);                                                          \
		return put_message(&w, sizeof(w), &req->change.cred, &tail, buf, cap);       \
	}                                                                                    \
	int msg##_decode(const void *buf, size_t len, struct msg *out)                       \
	{                                                                                    \
		struct tail tail = { 0 };                                                    \
		struct msg##_wire w;                                                         \
		struct msg r;                                                                \
		int err;                                                                     \
                                                                                             \
		if (len < sizeof(w))                                                         \
			return -EMSGSIZE;                                                    \
		memcpy(&w, buf, sizeof(w));                                                  \
		if (!msg##_get(&w, &r))                                                      \
			return -EPROTO;                                                      \
		tail.first_len = r.name_len;                                                 \
		err = get_tail(buf, len, sizeof(w), &r.change.cred, &tail);                  \
		if (err)                                                                     \
			return err;                                                          \
		r.name = tail.first;                                                         \
		if (!name_ok(r.name, r.name_len))                                            \
			return -EPROTO;                                                      \
		*out = r;                                                                    \
		return 0;                                                                    \
	}

#define PS_LINK_REQ(F)                                                                         \
	F(change, change), F(some, file), F(some, dir), F(u16, name_len), F(zero16, reserved), \
		F(zero32, reserved2)

CODEC_NAMED(ps_link_req, PS_LINK_REQ)

#define PS_REMOVE_REQ(F)                                                                       \
	F(change, change), F(some, dir), F(some, victim), F(u16, name_len), F(flag16, unused), \
		F(zero32, reserved2)

CODEC_NAMED(ps_remove_req, PS_REMOVE_REQ)

/* --- renaming ---------------------------------------------------------------------------- */

#define PS_RENAME_REQ(F)                                                                         \
	F(change, change), F(some, from_dir), F(some, to_dir), F(some, source), F(file, target), \
		F(u32, flags), F(u16, from_len), F(u16, to_len)

/* As renameat2(): an exchange replaces nothing and leaves nothing behind. */
static bool rename_req_is_valid(const struct ps_rename_req *r)
{
	if (r->flags & ~(uint32_t)PS_RENAME_ALL)
		return false;
	if ((r->flags & PS_RENAME_UNUSED) && !r->target.node)
		return false;
	if ((r->flags & PS_RENAME_ROOM) && r->target.node)
		return false; /* whose entry the source gets */
	if (r->flags & PS_RENAME_EXCHANGE)
		return r->flags == PS_RENAME_EXCHANGE && r->target.node;
	return !(r->flags & PS_RENAME_NOREPLACE) || !r->target.node;
}

CODEC_FIELDS(ps_rename_req, PS_RENAME_REQ, rename_req_is_valid)

ssize_t ps_rename_req_encode(const struct ps_rename_req *req, void *buf, size_t cap)
{
	const struct tail tail = { req->from, req->to, req->from_len, req->to_len };
	struct ps_rename_req_wire w;

	if (!name_ok(req->from, req->from_len) || !name_ok(req->to, req->to_len))
		return -EMSGSIZE;
	ps_rename_req_put(req, &w);
	return put_message(&w, sizeof(w), &req->change.cred, &tail, buf, cap);
}

int ps_rename_req_decode(const void *buf, size_t len, struct ps_rename_req *out)
{
	struct ps_rename_req_wire w;
	struct ps_rename_req r;
	struct tail tail;
	int err;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (!ps_rename_req_get(&w, &r))
		return -EPROTO;
	tail = (struct tail){ .first_len = r.from_len, .second_len = r.to_len };
	err = get_tail(buf, len, sizeof(w), &r.change.cred, &tail);
	if (err)
		return err;
	r.from = tail.first;
	r.to = tail.second;
	if (!name_ok(r.from, r.from_len) || !name_ok(r.to, r.to_len))
		return -EPROTO;
	*out = r;
	return 0;
}

#define PS_REMOVED_REP(F) F(file, file), F(u32, nlink), F(zero32, reserved)

static bool removed_rep_is_valid(const struct ps_removed_rep *r)
{
	return r->file.node || !r->nlink;
}

CODEC_FIXED(ps_removed_rep, PS_REMOVED_REP, removed_rep_is_valid)

/* --- attributes, space -------------------------------------------------------------------- */

/* x_encode() and x_decode() of a request with nothing behind its groups. */
#define CODEC_PLAIN(msg, FIELDS, is_valid)                                             \
	CODEC_FIELDS(msg, FIELDS, is_valid)                                            \
	ssize_t msg##_encode(const struct msg *req, void *buf, size_t cap)             \
	{                                                                              \
		const struct tail tail = { 0 };                                        \
		struct msg##_wire w;                                                   \
                                                                                       \
		msg##_put(req, &w);                                                    \
		return put_message(&w, sizeof(w), &req->change.cred, &tail, buf, cap); \
	}                                                                              \
	int msg##_decode(const void *buf, size_t len, struct msg *out)                 \
	{                                                                              \
		struct tail tail = { 0 };                                              \
		struct msg##_wire w;                                                   \
		struct msg r;                                                          \
		int err;                                                               \
                                                                                       \
		if (len < sizeof(w))                                                   \
			return -EMSGSIZE;                                              \
		memcpy(&w, buf, sizeof(w));                                            \
		if (!msg##_get(&w, &r))                                                \
			return -EPROTO;                                                \
		err = get_tail(buf, len, sizeof(w), &r.change.cred, &tail);            \
		if (err)                                                               \
			return err;                                                    \
		*out = r;                                                              \
		return 0;                                                              \
	}

#define PS_SETATTR_REQ(F)                                                                        \
	F(change, change), F(some, file), F(u32, valid), F(u32, mode), F(u32, uid), F(u32, gid), \
		F(u64, size), F(s64, atime_s), F(s64, mtime_s), F(u32, atime_ns),                \
		F(u32, mtime_ns), F(u64, flags)

static bool setattr_req_is_valid(const struct ps_setattr_req *r)
{
	if (!r->valid || r->valid & ~(uint32_t)PS_SET_ALL || r->mode & ~PERMISSIONS)
		return false;
	if (r->flags & ~(uint64_t)PROTO_ATTRS ||
	    ((r->valid & (PS_SET_FLAGS | PS_SET_GUARDED)) &&
	     (r->valid & ~(uint32_t)PS_SET_GUARDED) != PS_SET_FLAGS))
		return false;
	/* A time is given or it is now; and only a size comes with an open file. */
	if ((r->valid & PS_SET_ATIME && r->valid & PS_SET_ATIME_NOW) ||
	    (r->valid & PS_SET_MTIME && r->valid & PS_SET_MTIME_NOW) ||
	    (r->valid & PS_SET_BY_OPEN_FILE && !(r->valid & PS_SET_SIZE)))
		return false;
	return r->size <= INT64_MAX && r->atime_ns < NSEC_PER_SEC && r->mtime_ns < NSEC_PER_SEC;
}

CODEC_PLAIN(ps_setattr_req, PS_SETATTR_REQ, setattr_req_is_valid)

#define PS_FALLOCATE_REQ(F)                                                               \
	F(change, change), F(some, file), F(u32, mode), F(zero32, reserved), F(u64, off), \
		F(u64, len)

static bool fallocate_req_is_valid(const struct ps_fallocate_req *r)
{
	return r->len && r->off <= INT64_MAX && r->len <= INT64_MAX - r->off;
}

CODEC_PLAIN(ps_fallocate_req, PS_FALLOCATE_REQ, fallocate_req_is_valid)

/* --- extended attributes ------------------------------------------------------------------ */

#define PS_SETXATTR_REQ(F) \
	F(change, change), F(some, file), F(u32, flags), F(u16, name_len), F(u16, value_len)

static bool setxattr_req_is_valid(const struct ps_setxattr_req *r)
{
	return !(r->flags & ~(uint32_t)PS_XATTR_ALL) && r->value_len <= PS_XATTR_VALUE_MAX;
}

CODEC_FIELDS(ps_setxattr_req, PS_SETXATTR_REQ, setxattr_req_is_valid)

ssize_t ps_setxattr_req_encode(const struct ps_setxattr_req *req, void *buf, size_t cap)
{
	const struct tail tail = { req->name, req->value, req->name_len, req->value_len };
	struct ps_setxattr_req_wire w;

	if (!xattr_name_ok(req->name, req->name_len) || req->value_len > PS_XATTR_VALUE_MAX)
		return -EMSGSIZE;
	ps_setxattr_req_put(req, &w);
	return put_message(&w, sizeof(w), &req->change.cred, &tail, buf, cap);
}

int ps_setxattr_req_decode(const void *buf, size_t len, struct ps_setxattr_req *out)
{
	struct ps_setxattr_req_wire w;
	struct ps_setxattr_req r;
	struct tail tail;
	int err;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (!ps_setxattr_req_get(&w, &r))
		return -EPROTO;
	tail = (struct tail){ .first_len = r.name_len, .second_len = r.value_len };
	err = get_tail(buf, len, sizeof(w), &r.change.cred, &tail);
	if (err)
		return err;
	r.name = tail.first;
	r.value = tail.second;
	if (!xattr_name_ok(r.name, r.name_len))
		return -EPROTO;
	*out = r;
	return 0;
}

#define PS_GETXATTR_REQ(F) \
	F(own, cred), F(some, file), F(u16, name_len), F(zero16, reserved), F(zero32, reserved2)

CODEC_FIELDS(ps_getxattr_req, PS_GETXATTR_REQ, codec_any)

ssize_t ps_getxattr_req_encode(const struct ps_getxattr_req *req, void *buf, size_t cap)
{
	const struct tail tail = { .first = req->name, .first_len = req->name_len };
	struct ps_getxattr_req_wire w;

	if (req->name_len && !xattr_name_ok(req->name, req->name_len))
		return -EMSGSIZE;
	ps_getxattr_req_put(req, &w);
	return put_message(&w, sizeof(w), &req->cred, &tail, buf, cap);
}

int ps_getxattr_req_decode(const void *buf, size_t len, struct ps_getxattr_req *out)
{
	struct ps_getxattr_req_wire w;
	struct ps_getxattr_req r;
	struct tail tail = { 0 };
	int err;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (!ps_getxattr_req_get(&w, &r))
		return -EPROTO;
	tail.first_len = r.name_len;
	err = get_tail(buf, len, sizeof(w), &r.cred, &tail);
	if (err)
		return err;
	r.name = tail.first;
	if (r.name_len && !xattr_name_ok(r.name, r.name_len))
		return -EPROTO;
	*out = r;
	return 0;
}

/* --- a name in a directory ---------------------------------------------------------------- */

#define PS_FIND_REQ(F) F(some, dir), F(u16, name_len), F(zero16, reserved), F(zero32, reserved2)

CODEC_FIELDS(ps_find_req, PS_FIND_REQ, codec_any)

ssize_t ps_find_req_encode(const struct ps_find_req *req, void *buf, size_t cap)
{
	const size_t len = sizeof(struct ps_find_req_wire) + req->name_len;
	struct ps_find_req_wire w;
	uint8_t *out = buf;

	if (len > cap || !name_ok(req->name, req->name_len))
		return -EMSGSIZE;
	ps_find_req_put(req, &w);
	memcpy(out, &w, sizeof(w));
	memcpy(out + sizeof(w), req->name, req->name_len);
	return (ssize_t)len;
}

int ps_find_req_decode(const void *buf, size_t len, struct ps_find_req *out)
{
	struct ps_find_req_wire w;
	struct ps_find_req r;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (!ps_find_req_get(&w, &r))
		return -EPROTO;
	if (len != sizeof(w) + r.name_len)
		return -EMSGSIZE;
	r.name = (const char *)buf + sizeof(w);
	if (!name_ok(r.name, r.name_len))
		return -EPROTO;
	*out = r;
	return 0;
}

/* --- files that are used no more, synchronising ------------------------------------------- */

CODEC_ELEMENTS(static, proto_file)

#define PS_CLOSE_REQ(F) F(u32, nr_files), F(zero32, reserved)

static bool close_req_is_valid(const struct ps_close_req *r)
{
	return r->nr_files;
}

static bool close_file_is_valid(const struct ps_close_req *r, uint32_t i)
{
	return r->files[i].node;
}

CODEC_LIST(ps_close_req, PS_CLOSE_REQ, close_req_is_valid, proto_file, files, PS_CLOSE_MAX,
	   close_file_is_valid)

#define PS_DECLARE_REQ(F) F(u32, nr_files), F(u32, flags), F(u32, incarn), F(zero32, reserved)

static bool declare_req_is_valid(const struct ps_declare_req *r)
{
	return !(r->flags & ~(uint32_t)PS_DECLARE_ALL) && r->incarn;
}

static bool declare_file_is_valid(const struct ps_declare_req *r, uint32_t i)
{
	return r->files[i].node;
}

CODEC_LIST(ps_declare_req, PS_DECLARE_REQ, declare_req_is_valid, proto_file, files, PS_CLOSE_MAX,
	   declare_file_is_valid)

#define PS_FSYNC_REQ(F) F(some, file), F(u32, flags), F(zero32, reserved)

static bool fsync_req_is_valid(const struct ps_fsync_req *r)
{
	return !(r->flags & ~(uint32_t)PS_FSYNC_ALL);
}

CODEC_FIXED(ps_fsync_req, PS_FSYNC_REQ, fsync_req_is_valid)

#define PS_KEEP_REQ(F) F(id64, acked)

CODEC_FIXED(ps_keep_req, PS_KEEP_REQ, codec_any)

#define PS_KEEP_REP(F) F(u32, granted), F(zero32, reserved)

static bool keep_rep_is_valid(const struct ps_keep_rep *r)
{
	return r->granted <= 1;
}

CODEC_FIXED(ps_keep_rep, PS_KEEP_REP, keep_rep_is_valid)
