/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: services that take a handle and change nothing: PS_GETATTR, PS_FIND,
 * PS_GETDENTS, PS_STATFS, extended attributes, PS_CLOSE, PS_FSYNC, PS_SYNC, and the contents for
 * MS_READ.
 */
#include <abi/stat.h>
#include <fs/acl.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "permit.h"
#include "storage.h"

COUNTER(storage_reads, "storage.reads", "requests for pages of files");
COUNTER(storage_read_bytes, "storage.read_bytes", "bytes of files that were asked for and exist");

/* The attributes of @in, whose reference is taken over, or its error. */
static ssize_t reply_attr(struct storage *st, struct fs_inode *in, uint32_t vnode, void *reply)
{
	struct proto_attr_wire w;
	struct proto_attr attr;

	if (IS_ERR(in))
		return PTR_ERR(in);
	storage_attr(st, in, vnode, &attr);
	fs_inode_put(in);
	proto_attr_encode(&attr, &w);
	memcpy(reply, &w, sizeof(w));
	return sizeof(w);
}

ssize_t storage_getattr(struct storage *st, const void *body, size_t len, void *reply, size_t cap)
{
	struct proto_file file;
	int err;

	err = ps_file_req_decode(body, len, &file);
	if (err)
		return err;
	if (cap < sizeof(struct proto_attr_wire))
		return -EMSGSIZE;
	return reply_attr(st, storage_file_get(st, &file), file.vnode, reply);
}

ssize_t storage_find(struct storage *st, const void *body, size_t len, void *reply, size_t cap)
{
	struct ps_find_req req;
	struct fs_inode *dir, *in;
	int err;

	err = ps_find_req_decode(body, len, &req);
	if (err)
		return err;
	if (cap < sizeof(struct proto_attr_wire))
		return -EMSGSIZE;
	dir = storage_file_get(st, &req.dir);
	if (IS_ERR(dir))
		return PTR_ERR(dir);
	in = fs_lookup(dir, req.name, req.name_len);
	fs_inode_put(dir);
	return reply_attr(st, in, req.dir.vnode, reply);
}

/* The reply of a PS_GETDENTS that is being filled. */
struct listing {
	uint8_t *buf;
	size_t cap;
	size_t len;
	bool full;
};

static int add_entry(void *arg, const struct fs_dirent *de)
{
	struct listing *l = arg;
	const struct ps_dirent ent = {
		.ino = de->ino,
		.cookie = de->next_cookie,
		.type = de->dtype,
		.more = de->more,
		.name_len = de->name_len,
		.name = de->name,
	};

	if (ps_dirent_encode(&ent, l->buf, l->cap, &l->len)) {
		l->full = true;
		return 1;
	}
	return 0;
}

ssize_t storage_getdents(struct storage *st, const void *body, size_t len, void *reply, size_t cap)
{
	struct listing l = { .buf = reply };
	struct ps_getdents_req req;
	struct fs_inode *dir;
	uint64_t cookie;
	int err;

	err = ps_getdents_req_decode(body, len, &req);
	if (err)
		return err;
	dir = storage_file_get(st, &req.file);
	if (IS_ERR(dir))
		return PTR_ERR(dir);
	l.cap = MIN(cap, (size_t)req.max_bytes);
	cookie = req.cookie;
	err = fs_readdir_behind(dir, &cookie, req.behind, add_entry, &l);
	fs_inode_put(dir);
	ASSERT(l.len <= l.cap);
	/* Entries before a damaged block are worth having; the next call will tell of it. */
	if (err && !l.len)
		return err;
	/* Nothing would mean the end. */
	if (l.full && !l.len)
		return -EINVAL;
	return (ssize_t)l.len;
}

ssize_t storage_statfs(struct storage *st, const void *body, size_t len, void *reply, size_t cap)
{
	struct ps_statfs_wire w;
	struct proto_file file;
	struct fs_statfs s;
	struct ps_statfs out;
	int err;

	err = ps_file_req_decode(body, len, &file);
	if (err)
		return err;
	if (!st->fs)
		return -ENODEV;
	if (cap < sizeof(w))
		return -EMSGSIZE;
	fs_statfs(st->fs, &s);
	out = (struct ps_statfs){
		.type = s.magic,
		.bsize = s.bsize,
		.blocks = s.blocks,
		.bfree = s.bfree,
		.bavail = s.bavail,
		.files = s.files,
		.ffree = s.ffree,
		.fsid = s.fsid,
		.namelen = s.name_max,
		.flags = ST_VALID | (fs_is_read_only(st->fs) ? ST_RDONLY : 0),
	};
	ps_statfs_encode(&out, &w);
	memcpy(reply, &w, sizeof(w));
	return sizeof(w);
}

/* --- extended attributes ------------------------------------------------------------------ */

/* The file of a request, and the right to read the attribute it names, if any. */
static struct fs_inode *xattr_file(struct storage *st, const void *body, size_t len,
				   struct ps_getxattr_req *req)
{
	struct fs_inode *in;
	struct fs_cred cred;
	struct fs_stat s;
	int err = ps_getxattr_req_decode(body, len, req);

	if (err)
		return ERR_PTR(err);
	cred = storage_cred(&req->cred);
	in = storage_file_get(st, &req->file);
	if (IS_ERR(in) || !req->name_len)
		return in;
	err = fs_stat_for(in, &cred, &s);
	if (!err)
		err = permit_xattr(&cred, &s, req->name, req->name_len, false);
	if (!err)
		return in;
	fs_inode_put(in);
	return ERR_PTR(err);
}

ssize_t storage_getxattr(struct storage *st, const void *body, size_t len, void *reply, size_t cap)
{
	struct ps_getxattr_req req;
	struct fs_inode *in = xattr_file(st, body, len, &req);
	ssize_t ret;

	if (IS_ERR(in))
		return PTR_ERR(in);
	ret = req.name_len ? (ssize_t)fs_xattr_get(in, req.name, req.name_len, reply, cap)
			   : -EPROTO;
	fs_inode_put(in);
	return ret;
}

/* Is the name, with its NUL, one that user 0 alone may see? */
static bool is_hidden(const char *name, const struct fs_cred *cred)
{
	return !fs_cred_is_root(cred) && str_has_prefix(name, "trusted.");
}

ssize_t storage_listxattr(struct storage *st, const void *body, size_t len, void *reply, size_t cap)
{
	struct ps_getxattr_req req;
	struct fs_inode *in = xattr_file(st, body, len, &req);
	struct fs_cred cred;
	char *names = reply;
	ssize_t ret, kept = 0;

	if (IS_ERR(in))
		return PTR_ERR(in);
	cred = storage_cred(&req.cred);
	ret = req.name_len ? -EPROTO : (ssize_t)fs_xattr_list(in, names, cap);
	fs_inode_put(in);
	for (ssize_t at = 0, n; at < ret; at += n) {
		n = (ssize_t)strlen(names + at) + 1;
		if (is_hidden(names + at, &cred))
			continue;
		memmove(names + kept, names + at, (size_t)n);
		kept += n;
	}
	return ret < 0 ? ret : kept;
}

/* --- the end of a use, synchronising ------------------------------------------------------ */

ssize_t storage_close(struct storage *st, uint16_t opcode, const struct storage_peer *from,
		      const void *body, size_t len, void *reply, size_t cap)
{
	struct ps_close_req *req = kmalloc(sizeof(*req)); /* too big for a stack */
	ssize_t ret;

	(void)opcode, (void)reply, (void)cap;
	if (!req)
		return -ENOMEM;
	ret = ps_close_req_decode(body, len, req);
	for (uint32_t i = 0; !ret && i < req->nr_files; i++) {
		if (req->files[i].node == st->node)
			held_drop(&st->held, from, req->files[i].ino, req->files[i].gen);
	}
	kfree(req);
	return ret;
}

/* One that is gone was used by nobody, or its client has been told so. */
static int hold_again(struct storage *st, const struct storage_peer *from,
		      const struct proto_file *file)
{
	struct fs_inode *in = storage_file_get(st, file);
	int err;

	if (IS_ERR(in))
		return PTR_ERR(in) == -ESTALE ? 0 : (int)PTR_ERR(in);
	err = held_again(&st->held, in, from);
	fs_inode_put(in);
	return err;
}

ssize_t storage_declare(struct storage *st, uint16_t opcode, const struct storage_peer *from,
			const void *body, size_t len, void *reply, size_t cap)
{
	struct ps_declare_req *req = kmalloc(sizeof(*req)); /* too big for a stack */
	ssize_t ret;

	(void)opcode, (void)reply, (void)cap;
	if (!req)
		return -ENOMEM;
	ret = ps_declare_req_decode(body, len, req);
	if (!ret && req->incarn != st->incarn)
		ret = -ESTALE;
	for (uint32_t i = 0; !ret && i < req->nr_files; i++)
		ret = hold_again(st, from, &req->files[i]);
	if (!ret && (req->flags & PS_DECLARE_LAST))
		ret = grace_declare(&st->grace, from);
	kfree(req);
	return ret;
}

ssize_t storage_fsync(struct storage *st, const void *body, size_t len, void *reply, size_t cap)
{
	struct ps_fsync_req req;
	struct fs_inode *in;
	int err = ps_fsync_req_decode(body, len, &req);

	(void)reply;
	(void)cap;
	if (err)
		return err;
	in = storage_file_get(st, &req.file);
	if (IS_ERR(in))
		return PTR_ERR(in);
	err = fs_fsync(in, req.flags & PS_FSYNC_DATA);
	fs_inode_put(in);
	return err;
}

ssize_t storage_sync(struct storage *st, const void *body, size_t len, void *reply, size_t cap)
{
	struct proto_file file;
	const int err = ps_file_req_decode(body, len, &file);

	(void)reply;
	(void)cap;
	if (err)
		return err;
	return st->fs ? fs_sync(st->fs) : -ENODEV;
}

/* --- contents ----------------------------------------------------------------------------- */

/* How many of @nr pages from @pgoff on have contents. */
static uint32_t pages_within(uint64_t size, uint64_t pgoff, uint32_t nr)
{
	const uint64_t end = DIV_ROUND_UP(size, PAGE_SIZE);

	if (pgoff >= end)
		return 0;
	return (uint32_t)MIN((uint64_t)nr, end - pgoff);
}

int storage_read(struct storage *st, const struct ms_read_req *req, void *const *pages,
		 struct ms_read_rep *rep)
{
	struct proto_attr attr;
	struct fs_inode *in;
	uint64_t bytes;
	int err;

	in = storage_file_get(st, &req->file);
	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	storage_attr(st, in, req->file.vnode, &attr);
	memset(rep, 0, sizeof(*rep));
	rep->file_size = attr.size;
	rep->version = attr.version;
	rep->nr_valid = pages_within(attr.size, req->pgoff, req->nr_pages);
	ASSERT(rep->nr_valid <= req->nr_pages && req->nr_pages <= MS_READ_MAX_PAGES);
	/* Also when there is nothing to read: it says whether this is a file. */
	err = fs_read_pages(in, req->pgoff, pages, rep->nr_valid);
	fs_inode_put(in);
	if (err)
		return err;
	counter_inc(&storage_reads);
	if (rep->nr_valid) {
		bytes = MIN(attr.size - (req->pgoff << PAGE_SHIFT),
			    (uint64_t)rep->nr_valid << PAGE_SHIFT);
		rep->last_bytes = (uint32_t)(bytes - ((uint64_t)(rep->nr_valid - 1) << PAGE_SHIFT));
		ASSERT(rep->last_bytes && rep->last_bytes <= PAGE_SIZE);
		counter_add(&storage_read_bytes, bytes);
	}
	return 0;
}
