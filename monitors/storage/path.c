/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: services that take a path: PS_LOOKUP (and MS_LOOKUP), PS_READLINK, PS_ACCESS.
 *
 * Flow:	decode -> resolve by the index, checking search permission on the way -> check that
 *		the caller may have the file as it asks -> its inode.
 * Failure:	an entry of the index that leads to an inode of another generation is forgotten, and
 *		the path is walked afresh once.
 */
#include <fs/acl.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "storage.h"

static_assert((int)PATH_AT_MOUNT_POINT == (int)PS_END_MOUNT_POINT &&
		      (int)PATH_UP == (int)PS_END_UP && (int)PATH_AT_ROOT == (int)PS_END_ROOT,
	      "the same");

COUNTER(storage_lookups, "storage.lookups", "paths resolved");

/* A request, and the result of its walk. */
struct query {
	struct ps_path_req req;
	struct path_result res;
	struct fs_inode *in; /* held on success; NULL: the walk ended elsewhere */
};

static int resolve(struct storage *st, struct query *q, uint32_t extra_flags)
{
	const struct fs_cred cred = storage_cred(&q->req.cred);
	struct path_request pr = {
		.vnode = q->req.vnode,
		.flags = extra_flags,
		.root_ino = storage_vnode_root(st, q->req.vnode),
		.path = q->req.path,
		.len = q->req.path_len,
		.mount_points = q->req.mount_points,
		.mount_points_len = q->req.mount_points_len,
		.canon_len = q->req.canon_len,
		.cred = &cred,
	};
	int err;

	if (q->req.flags & PS_LOOKUP_NOFOLLOW)
		pr.flags |= PATH_NOFOLLOW;
	if (q->req.flags & PS_LOOKUP_DIRECTORY)
		pr.flags |= PATH_DIRECTORY;
	if (q->req.flags & PS_LOOKUP_BELOW)
		pr.flags |= PATH_BELOW;
	err = pathindex_resolve(st->index, &fs_path_ops, st->fs, &pr, &q->res);
	q->in = NULL;
	if (err || q->res.end != PATH_FOUND)
		return err;
	ASSERT(q->res.node.ino); /* only the index has entries without a file */
	q->in = fs_inode_get(st->fs, q->res.node.ino, q->res.node.gen);
	return IS_ERR(q->in) ? (int)PTR_ERR(q->in) : 0;
}

/* May the caller have the file in the ways of req.access? */
static int check_access(const struct query *q)
{
	const struct fs_cred cred = storage_cred(&q->req.cred);
	struct fs_stat s;
	uint32_t type;
	int err;

	err = fs_stat_for(q->in, &cred, &s);
	if (err)
		return err;
	type = s.mode & S_IFMT;
	/* As Linux: first what the file system cannot do, for things that are in it. */
	if ((q->req.access & FS_MAY_WRITE) && fs_is_read_only(q->in->fs) &&
	    (type == S_IFREG || type == S_IFDIR || type == S_IFLNK))
		return -EROFS;
	return fs_stat_access(&cred, &s, q->req.access);
}

/* Decode and find; q->in is held on success. */
static int find(struct storage *st, const void *body, size_t len, struct query *q)
{
	int err;

	err = ps_path_req_decode(body, len, &q->req);
	if (err)
		return err;
	if (!st->fs)
		return -ENODEV;
	counter_inc(&storage_lookups);
	err = resolve(st, q, 0);
	if (err == -ESTALE) {
		pathindex_forget(st->index, q->req.vnode, q->res.canon, q->res.canon_len);
		err = resolve(st, q, PATH_NO_INDEX);
	}
	if (err || !q->in)
		return err;
	err = check_access(q);
	if (err)
		fs_inode_put(q->in);
	return err;
}

ssize_t storage_lookup(struct storage *st, const void *body, size_t len, void *reply, size_t cap)
{
	struct query *q = kmalloc(sizeof(*q)); /* too big for a stack */
	struct ps_lookup_rep rep = { 0 };
	ssize_t ret;

	if (!q)
		return -ENOMEM;
	ret = find(st, body, len, q);
	if (!ret) {
		ASSERT(!q->in == (q->res.end != PATH_FOUND));
		rep.end = (uint16_t)q->res.end;
		rep.nr_links = (uint16_t)q->res.nr_links;
		if (q->in) {
			storage_attr(st, q->in, q->req.vnode, &rep.attr);
			fs_inode_put(q->in);
		} else {
			rep.rest = q->res.rest;
			rep.rest_len = (uint16_t)q->res.rest_len;
		}
		if (!q->in || (q->req.flags & PS_LOOKUP_REALPATH)) {
			rep.path = q->res.canon;
			rep.path_len = (uint16_t)q->res.canon_len;
		}
		ret = ps_lookup_rep_encode(&rep, reply, cap);
	}
	kfree(q);
	return ret;
}

static int read_target(struct fs_inode *in, char *reply, size_t cap, size_t *len)
{
	char *target;
	int err;

	if (cap >= FS_PATH_MAX)
		return fs_readlink(in, reply, len);
	target = kmalloc(FS_PATH_MAX);
	if (!target)
		return -ENOMEM;
	err = fs_readlink(in, target, len);
	if (!err && *len > cap)
		err = -EMSGSIZE;
	if (!err)
		memcpy(reply, target, *len);
	kfree(target);
	return err;
}

ssize_t storage_readlink(struct storage *st, const void *body, size_t len, void *reply, size_t cap)
{
	struct query *q = kmalloc(sizeof(*q));
	size_t target_len = 0;
	ssize_t ret;

	if (!q)
		return -ENOMEM;
	ret = find(st, body, len, q);
	if (!ret && !q->in)
		ret = -EXDEV;
	if (!ret) {
		ret = read_target(q->in, reply, cap, &target_len);
		if (!ret)
			ret = (ssize_t)target_len;
		fs_inode_put(q->in);
	}
	kfree(q);
	return ret;
}

ssize_t storage_access(struct storage *st, const void *body, size_t len, void *reply, size_t cap)
{
	struct query *q = kmalloc(sizeof(*q));
	ssize_t ret;

	(void)reply;
	(void)cap;
	if (!q)
		return -ENOMEM;
	ret = find(st, body, len, q);
	if (!ret && !q->in)
		ret = -EXDEV;
	else if (!ret)
		fs_inode_put(q->in);
	kfree(q);
	return ret;
}
