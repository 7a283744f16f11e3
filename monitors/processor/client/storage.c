/* SPDX-License-Identifier: MIT */
/*
 * Requests to storage nodes: path look-ups, attributes, directories.
 *
 * Every request is complete in itself and is sent to the node that serves this vNode's files (the
 * file's own node when one is known).  All are idempotent, so a retry does no harm.
 */
#include "storage.h"

#include <kernel/counter.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <managers/placement.h>
#include <mm/slab.h>
#include <net/rpc.h>

#include "convert.h"

COUNTER(storage_calls, "vfs.storage_calls", "requests to storage nodes");

static int call(uint32_t node, uint16_t opcode, const void *body, size_t len, void *reply,
		size_t max)
{
	if (node == 0)
		return -EHOSTDOWN;
	counter_inc(&storage_calls);
	return rpc_call_sync(node, RPC_CLASS_CONTROL, opcode, body, (uint32_t)len, reply,
			     (uint32_t)max, 0);
}

struct path_call { /* too large for a stack */
	uint8_t body[sizeof(struct ps_path_req_wire) + PROTO_MAX_GROUPS * sizeof(le32_t) +
		     PROTO_PATH_MAX + PS_MOUNT_POINTS_MAX];
	uint8_t reply[sizeof(struct ps_lookup_rep_wire) + 2 * PROTO_PATH_MAX];
};

/* The reply's length, or negative errno; *pc is the caller's to kfree() in any case. */
static int path_call(uint16_t opcode, const struct fs_cred *cred, const struct storage_walk *how,
		     struct path_call **pc)
{
	const size_t path_len = strlen(how->path);
	struct ps_path_req req = {
		.flags = how->flags,
		.access = how->access,
		.path_len = (uint16_t)path_len,
		.path = how->path,
		.canon_len = (uint16_t)how->canon_len,
		.mount_points = how->mount_points,
		.mount_points_len = (uint16_t)how->mount_points_len,
	};
	ssize_t len;

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
	return call(gsm_storage_for(how->path), opcode, (*pc)->body, (size_t)len, (*pc)->reply,
		    sizeof((*pc)->reply));
}

int storage_walk(const struct fs_cred *cred, const struct storage_walk *how,
		 struct ps_lookup_rep *rep, void **buf)
{
	struct path_call *pc;
	int ret = path_call(PS_LOOKUP, cred, how, &pc);

	*buf = pc;
	if (ret >= 0)
		ret = ps_lookup_rep_decode(pc->reply, (size_t)ret, rep);
	if (ret == 0 && (how->flags & PS_LOOKUP_REALPATH) && !rep->path_len)
		ret = -EPROTO;
	return ret;
}

int storage_lookup(const struct fs_cred *cred, const char *path, uint32_t flags, uint32_t access,
		   struct proto_attr *attr, char *realpath)
{
	const struct storage_walk how = {
		.path = path,
		.flags = flags | (realpath ? PS_LOOKUP_REALPATH : 0),
		.access = access,
	};
	struct ps_lookup_rep rep;
	void *buf;
	int ret = storage_walk(cred, &how, &rep, &buf);

	if (ret == 0 && rep.at_mount_point)
		ret = -EPROTO;
	if (ret == 0 && realpath) {
		memcpy(realpath, rep.path, rep.path_len);
		realpath[rep.path_len] = '\0';
	}
	if (ret == 0)
		*attr = rep.attr;
	kfree(buf);
	return ret;
}

int storage_getattr(const struct proto_file *file, struct proto_attr *attr)
{
	struct ps_file_req_wire w;
	struct proto_attr_wire reply;
	int ret;

	ps_file_req_encode(file, &w);
	ret = call(file->node, PS_GETATTR, &w, sizeof(w), &reply, sizeof(reply));
	return ret < 0 ? ret : proto_attr_decode(&reply, (size_t)ret, attr);
}

ssize_t storage_readlink(const struct fs_cred *cred, const char *path, char *buf, size_t size)
{
	const struct storage_walk how = { .path = path, .flags = PS_LOOKUP_NOFOLLOW };
	struct path_call *pc;
	ssize_t ret = path_call(PS_READLINK, cred, &how, &pc);

	if (ret >= 0) {
		ret = (ssize_t)MIN((size_t)ret, size);
		memcpy(buf, pc->reply, (size_t)ret);
	}
	kfree(pc);
	return ret;
}

ssize_t storage_getdents(const struct proto_file *dir, uint64_t cookie, void *buf, uint32_t size)
{
	const struct ps_getdents_req req = { .file = *dir, .cookie = cookie, .max_bytes = size };
	struct ps_getdents_req_wire w;

	ps_getdents_req_encode(&req, &w);
	return call(dir->node, PS_GETDENTS, &w, sizeof(w), buf, size);
}

int storage_statfs(const struct proto_file *file, struct ps_statfs *st)
{
	struct ps_file_req_wire w;
	struct ps_statfs_wire reply;
	int ret;

	ps_file_req_encode(file, &w);
	ret = call(file->node, PS_STATFS, &w, sizeof(w), &reply, sizeof(reply));
	return ret < 0 ? ret : ps_statfs_decode(&reply, (size_t)ret, st);
}
