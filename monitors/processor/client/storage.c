/* SPDX-License-Identifier: MIT */
/*
 * Requests to storage nodes: path look-ups, attributes, directories.
 *
 * Every request is complete in itself and is sent to the node that serves this vNode's files (the
 * file's own node when one is known).  All are idempotent, so a retry does no harm; changes, which
 * are not, are those of change.c.
 */
#include "storage.h"

#include <abi/xattr.h>
#include <cluster/patience.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <managers/placement.h>
#include <mm/slab.h>
#include <net/rpc.h>
#include <proto/ps.h>

#include "behind.h"
#include "convert.h"
#include "storage_private.h"

static_assert(FS_PATH_MAX == PROTO_PATH_MAX, "the same");
static_assert((int)STORAGE_MOUNT_POINTS_MAX == (int)PS_MOUNT_POINTS_MAX, "the same");
static_assert((int)STORAGE_NOFOLLOW == (int)PS_LOOKUP_NOFOLLOW, "the same");
static_assert((int)STORAGE_DIRECTORY == (int)PS_LOOKUP_DIRECTORY, "the same");
static_assert((int)STORAGE_REALPATH == (int)PS_LOOKUP_REALPATH, "the same");
static_assert((int)STORAGE_BELOW == (int)PS_LOOKUP_BELOW, "the same");
static_assert((int)STORAGE_AT_MOUNT_POINT == (int)PS_END_MOUNT_POINT, "the same");
static_assert((int)STORAGE_UP == (int)PS_END_UP, "the same");
static_assert((int)STORAGE_AT_ROOT == (int)PS_END_ROOT, "the same");

COUNTER(storage_calls, "vfs.storage_calls", "requests to storage nodes");

struct request {
	uint32_t node;
	uint16_t opcode;
	const void *body;
	uint32_t len;
	void *reply;
	uint32_t max;
};

static struct rpc_call *make_call(void *arg)
{
	const struct request *r = arg;
	struct rpc_call *call =
		rpc_call_create(r->node, RPC_CLASS_CONTROL, r->opcode, r->body, r->len);

	counter_inc(&storage_calls);
	if (call) {
		call->reply = r->reply;
		call->reply_max = r->max;
	}
	return call;
}

static int call(uint32_t node, struct request *r, bool killable)
{
	const int ret = patient_call(node, make_call, r, killable);

	return ret == -EHOSTDOWN ? -EIO : ret;
}

/* The same behind all that programs have been told is done. */
static int call_in_order(uint32_t node, struct request *r, bool killable)
{
	const int err = behind_flush(node, killable);

	return err < 0 ? err : call(node, r, killable);
}

int storage_call(uint32_t node, uint16_t opcode, const void *body, size_t len, void *reply,
		 size_t max)
{
	struct request r = { node, opcode, body, (uint32_t)len, reply, (uint32_t)max };

	return call_in_order(node, &r, true);
}

int storage_call_to_end(uint32_t node, uint16_t opcode, const void *body, size_t len, void *reply,
			size_t max)
{
	struct request r = { node, opcode, body, (uint32_t)len, reply, (uint32_t)max };

	return call_in_order(node, &r, false);
}

int storage_call_in(const struct file_id *dir, uint16_t opcode, const void *body, size_t len,
		    void *reply, size_t max)
{
	struct request r = { dir->node, opcode, body, (uint32_t)len, reply, (uint32_t)max };
	const int err = behind_flush_dir(dir);

	return err ? err : call(dir->node, &r, true);
}

int storage_call_behind(uint32_t node, const void *body, size_t len, void *reply, size_t max)
{
	struct request r = { node, PS_BATCH, body, (uint32_t)len, reply, (uint32_t)max };

	return call(node, &r, false);
}

struct path_call { /* too large for a stack */
	uint8_t body[sizeof(struct ps_path_req_wire) + PROTO_MAX_GROUPS * sizeof(le32_t) +
		     PROTO_PATH_MAX + PS_MOUNT_POINTS_MAX];
	uint8_t reply[sizeof(struct ps_lookup_rep_wire) + 2 * PROTO_PATH_MAX];
};

/* The node of any other file system is known by the cluster's configuration. */
static bool root_is_there(uint32_t node)
{
	(void)node;
	return gsm_storage_for("/") != 0;
}

/* The reply's length, or negative errno; *pc is the caller's to kfree() in any case. */
static int path_call(uint16_t opcode, const struct fs_cred *cred, const struct storage_walk *how,
		     struct path_call **pc)
{
	const size_t path_len = strlen(how->path);
	struct ps_path_req req = {
		.vnode = PROTO_VNODE_ROOT, /* so far a processor has programs of no other */
		.flags = how->flags,
		.access = how->access,
		.path_len = (uint16_t)path_len,
		.path = how->path,
		.canon_len = (uint16_t)how->canon_len,
		.mount_points = how->mount_points,
		.mount_points_len = (uint16_t)how->mount_points_len,
	};
	uint32_t node = how->where.node;
	ssize_t len;
	int err;

	ASSERT(how->canon_len <= path_len && how->mount_points_len <= STORAGE_MOUNT_POINTS_MAX);
	if (strcmp(how->where.at, "/"))
		req.flags |= PS_LOOKUP_BELOW;
	cred_to_proto(cred, &req.cred);
	*pc = NULL;
	if (path_len >= PROTO_PATH_MAX)
		return -ENAMETOOLONG;
	*pc = kmalloc(sizeof(**pc));
	if (!*pc)
		return -ENOMEM;
	len = ps_path_req_encode(&req, (*pc)->body, sizeof((*pc)->body));
	if (len < 0)
		return (int)len;
	while (!node && !(node = gsm_storage_for(how->where.at))) {
		err = patience_wait_until(root_is_there, 0, true);
		if (err)
			return err == -EHOSTDOWN ? -EIO : err;
	}
	return storage_call(node, opcode, (*pc)->body, (size_t)len, (*pc)->reply,
			    sizeof((*pc)->reply));
}

int storage_walk(const struct fs_cred *cred, const struct storage_walk *how,
		 struct storage_found *found, void **buf)
{
	struct ps_lookup_rep rep;
	struct path_call *pc;
	int ret = path_call(PS_LOOKUP, cred, how, &pc);

	*buf = pc;
	if (ret >= 0)
		ret = ps_lookup_rep_decode(pc->reply, (size_t)ret, &rep);
	if (ret)
		return ret;
	if ((how->flags & STORAGE_REALPATH) && !rep.path_len)
		return -EPROTO;
	found->end = (enum storage_end)rep.end;
	attr_from_proto(&rep.attr, &found->attr);
	found->path = rep.path;
	found->path_len = rep.path_len;
	found->rest = rep.rest;
	found->rest_len = rep.rest_len;
	found->nr_links = rep.nr_links;
	return 0;
}

static const struct fs_cred user_0;

int storage_lookup(const struct storage_place *where, const char *path, struct file_attr *attr)
{
	const struct storage_walk how = {
		.where = *where,
		.path = path,
		.flags = STORAGE_NOFOLLOW,
	};
	struct storage_found found;
	void *buf;
	int ret = storage_walk(&user_0, &how, &found, &buf);

	if (ret == 0 && found.end != STORAGE_FOUND)
		ret = -EPROTO;
	if (ret == 0)
		*attr = found.attr;
	kfree(buf);
	return ret;
}

/* A request about @file. The reply's length, or negative errno. */
static int file_call(uint16_t opcode, const struct file_id *file, void *reply, size_t max)
{
	const struct proto_file f = file_to_proto(file);
	struct ps_file_req_wire w;

	ps_file_req_encode(&f, &w);
	return storage_call(file->node, opcode, &w, sizeof(w), reply, max);
}

int storage_getattr(const struct file_id *file, struct file_attr *attr)
{
	struct proto_attr_wire reply;
	struct proto_attr a;
	int ret = file_call(PS_GETATTR, file, &reply, sizeof(reply));

	if (ret >= 0)
		ret = proto_attr_decode(&reply, (size_t)ret, &a);
	if (ret == 0)
		attr_from_proto(&a, attr);
	return ret;
}

int storage_lookup_in(const struct file_id *dir, const char *name, size_t len,
		      struct file_attr *attr)
{
	struct ps_find_req req = { .dir = file_to_proto(dir), .name = name };
	uint8_t body[sizeof(struct ps_find_req_wire) + PS_NAME_MAX];
	struct proto_attr_wire reply;
	struct proto_attr a;
	ssize_t ret;

	if (len > PS_NAME_MAX)
		return -ENAMETOOLONG;
	req.name_len = (uint16_t)len;
	ret = ps_find_req_encode(&req, body, sizeof(body));
	if (ret >= 0)
		ret = storage_call(dir->node, PS_FIND, body, (size_t)ret, &reply, sizeof(reply));
	if (ret >= 0)
		ret = proto_attr_decode(&reply, (size_t)ret, &a);
	if (ret)
		return (int)ret;
	attr_from_proto(&a, attr);
	return attr->file.node == dir->node ? 0 : -EPROTO;
}

ssize_t storage_readlink(const struct storage_place *where, const char *path, char *buf,
			 size_t size)
{
	const struct storage_walk how = {
		.where = *where,
		.path = path,
		.canon_len = strlen(path), /* no link is followed on the way */
		.flags = STORAGE_NOFOLLOW,
	};
	struct path_call *pc;
	ssize_t ret = path_call(PS_READLINK, &user_0, &how, &pc);

	if (ret >= 0) {
		ret = (ssize_t)MIN((size_t)ret, size);
		memcpy(buf, pc->reply, (size_t)ret);
	}
	kfree(pc);
	return ret;
}

ssize_t storage_getdents(const struct file_id *dir, uint64_t cookie, uint64_t behind, void *buf,
			 uint32_t size)
{
	const struct ps_getdents_req req = {
		.file = file_to_proto(dir), .cookie = cookie, .behind = behind, .max_bytes = size
	};
	struct ps_getdents_req_wire w;

	ps_getdents_req_encode(&req, &w);
	return storage_call(dir->node, PS_GETDENTS, &w, sizeof(w), buf, size);
}

ssize_t storage_xattr_get(const struct fs_cred *cred, const struct file_id *file, const char *name,
			  void *buf, size_t size)
{
	struct ps_getxattr_req req = { .file = file_to_proto(file), .name = name };
	uint8_t body[sizeof(struct ps_getxattr_req_wire) + PROTO_MAX_GROUPS * sizeof(le32_t) +
		     XATTR_NAME_MAX];
	ssize_t len;

	static_assert(STORAGE_XATTR_MAX == PS_XATTR_VALUE_MAX, "the same");
	cred_to_proto(cred, &req.cred);
	req.name_len = name ? (uint16_t)strlen(name) : 0;
	len = ps_getxattr_req_encode(&req, body, sizeof(body));
	if (len < 0)
		return len;
	return storage_call(file->node, name ? PS_GETXATTR : PS_LISTXATTR, body, (size_t)len, buf,
			    size);
}

int storage_dirent_next(const void *buf, size_t len, size_t *off, struct storage_dirent *out)
{
	struct ps_dirent e;
	const int err = ps_dirent_decode(buf, len, off, &e);

	if (err)
		return err;
	*out = (struct storage_dirent){
		.ino = e.ino,
		.cookie = e.cookie,
		.type = e.type,
		.more = e.more,
		.name_len = e.name_len,
		.name = e.name,
	};
	return 0;
}

int storage_statfs(const struct file_id *file, struct fs_info *info)
{
	struct ps_statfs_wire reply;
	struct ps_statfs st;
	int ret = behind_give_rooms(file->node); /* they are no part of what others use */

	if (ret >= 0)
		ret = file_call(PS_STATFS, file, &reply, sizeof(reply));

	if (ret >= 0)
		ret = ps_statfs_decode(&reply, (size_t)ret, &st);
	if (ret)
		return ret;
	*info = (struct fs_info){
		.type = st.type,
		.bsize = st.bsize,
		.blocks = st.blocks,
		.bfree = st.bfree,
		.bavail = st.bavail,
		.files = st.files,
		.ffree = st.ffree,
		.fsid = st.fsid,
		.namelen = st.namelen,
		.flags = st.flags,
	};
	return 0;
}
