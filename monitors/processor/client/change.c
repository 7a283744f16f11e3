/* SPDX-License-Identifier: MIT */
/*
 * Requests to storage nodes that change files.
 *
 * Flow:	begin() takes the next number -> the request -> call(), which repeats it to a node
 *		that was started again -> end().
 * Invariants:	numbers in use are in the list `pending`, in order, so that the first of a node is
 *		the smallest one that it has not answered: each request tells the node that, and it
 *		forgets the answers before it. Those of another node, which may be away, have no
 *		part in it.
 * Locking:	pending.lock (RANK_SPIN_FS).
 */
#include "change.h"

#include <abi/xattr.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <proto/ps.h>

#include "behind.h"
#include "change_private.h"
#include "convert.h"
#include "storage_private.h"

static_assert((int)STORAGE_SET_MODE == (int)PS_SET_MODE, "the same");
static_assert((int)STORAGE_SET_MTIME_NOW == (int)PS_SET_MTIME_NOW, "the same");
static_assert((int)STORAGE_SET_BY_OPEN_FILE == (int)PS_SET_BY_OPEN_FILE, "the same");
static_assert((int)STORAGE_SET_FLAGS == (int)PS_SET_FLAGS, "the same");
static_assert((int)STORAGE_SET_GUARDED == (int)PS_SET_GUARDED, "the same");
static_assert((int)STORAGE_CLOSE_MAX == (int)PS_CLOSE_MAX, "the same");

/* The longest request but PS_SETXATTR: fixed part, groups, a name and a target. */
#define BODY_MAX                                                               \
	(sizeof(struct ps_rename_req_wire) + sizeof(struct ps_make_req_wire) + \
	 PROTO_MAX_GROUPS * sizeof(le32_t) + 2 * PS_NAME_MAX + PROTO_PATH_MAX)

static struct {
	struct spinlock lock;
	struct list_head list __guarded_by(&lock);
	uint64_t last __guarded_by(&lock);
	struct waitqueue ended; /* one has its answer */
} pending = {
	.lock = SPINLOCK_INIT("storage.changes", RANK_SPIN_FS),
	.list = { &pending.list, &pending.list },
	.ended = WAITQUEUE_INIT(pending.ended),
};

/* The smallest number that @node has not answered; those to come are larger than what is here. */
static uint64_t acked_locked(uint32_t node) __must_hold(&pending.lock)
{
	const struct numbered *n;

	assert_spin_held(&pending.lock);
	list_for_each_entry(n, &pending.list, link) {
		if (n->node == node)
			return n->seq;
	}
	return pending.last + 1;
}

struct numbered *change_number(const struct fs_cred *cred, struct ps_change *change, uint32_t node,
			       size_t room)
{
	struct numbered *n = kmalloc(sizeof(*n) + room);

	if (!n)
		return NULL;
	cred_to_proto(cred, &change->cred);
	n->node = node;
	n->to_end = false;
	n->dir = NULL;
	spin_lock(&pending.lock);
	n->seq = ++pending.last;
	list_add_tail(&n->link, &pending.list);
	change->acked = acked_locked(node);
	spin_unlock(&pending.lock);
	change->seq = n->seq;
	return n;
}

void change_renumber(struct numbered *n)
{
	struct ps_change_wire w;

	memcpy(&w, n->body, sizeof(w));
	spin_lock(&pending.lock);
	list_del(&n->link);
	n->seq = ++pending.last;
	list_add_tail(&n->link, &pending.list);
	w.acked = cpu_to_le64(acked_locked(n->node));
	spin_unlock(&pending.lock);
	w.seq = cpu_to_le64(n->seq);
	memcpy(n->body, &w, sizeof(w));
}

void change_answered(struct numbered *n)
{
	spin_lock(&pending.lock);
	list_del(&n->link);
	spin_unlock(&pending.lock);
	wake_all(&pending.ended);
	kfree(n);
}

static struct numbered *begin(const struct fs_cred *cred, struct ps_change *change, uint32_t node)
{
	return change_number(cred, change, node, BODY_MAX);
}

static int send(struct numbered *n, uint16_t opcode, size_t size, void *reply, size_t max)
{
	if (n->to_end)
		return storage_call_to_end(n->node, opcode, n->body, size, reply, max);
	if (n->dir)
		return storage_call_in(n->dir, opcode, n->body, size, reply, max);
	return storage_call(n->node, opcode, n->body, size, reply, max);
}

/* Send @len bytes of request, unless that is an error.  The reply's length or an errno. */
static int finish(struct numbered *n, uint16_t opcode, ssize_t len, void *reply, size_t max)
{
	int ret = len < 0 ? (int)len : send(n, opcode, (size_t)len, reply, max);

	if (len >= 0 && ret == -ENOSPC && behind_give_rooms(n->node) > 0) {
		change_renumber(n);
		ret = send(n, opcode, (size_t)len, reply, max);
	}
	change_answered(n);
	return ret;
}

/* Has no change up to number @last at @node to wait for its answer any more? */
static bool is_drained(uint32_t node, uint64_t last)
{
	struct numbered *n;
	bool drained = true;

	spin_lock(&pending.lock);
	list_for_each_entry(n, &pending.list, link) {
		if (n->seq > last)
			break;
		if (n->node == node)
			drained = false;
	}
	spin_unlock(&pending.lock);
	return drained;
}

void storage_drain(uint32_t node)
{
	uint64_t last;

	spin_lock(&pending.lock);
	last = pending.last;
	spin_unlock(&pending.lock);
	wait_event(&pending.ended, is_drained(node, last));
}

/* The same for a request that is answered by the attributes of a file. */
static int finish_attr(struct numbered *n, uint16_t opcode, ssize_t len, struct file_attr *attr)
{
	struct proto_attr_wire reply;
	struct proto_attr a;
	int ret = finish(n, opcode, len, &reply, sizeof(reply));

	if (ret >= 0)
		ret = proto_attr_decode(&reply, (size_t)ret, &a);
	if (!ret && attr)
		attr_from_proto(&a, attr);
	return ret;
}

/* The same for a request that is answered by what lost a name. */
static int finish_removed(struct numbered *n, uint16_t opcode, ssize_t len,
			  struct storage_removed *removed)
{
	struct ps_removed_rep_wire reply;
	struct ps_removed_rep rep;
	int ret = finish(n, opcode, len, &reply, sizeof(reply));

	if (ret >= 0)
		ret = ps_removed_rep_decode(&reply, (size_t)ret, &rep);
	if (!ret)
		*removed = (struct storage_removed){ file_from_proto(&rep.file), rep.nlink };
	return ret;
}

/* --- making --------------------------------------------------------------------------- */

static uint16_t opcode_of(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return PS_CREATE;
	case S_IFDIR:
		return PS_MKDIR;
	case S_IFLNK:
		return PS_SYMLINK;
	default:
		return PS_MKNOD;
	}
}

static int make(const struct fs_cred *cred, uint16_t opcode, const struct storage_name *at,
		const struct storage_new *what, struct file_attr *attr)
{
	struct ps_make_req req = {
		.dir = file_to_proto(at->dir),
		.mode = what->mode,
		.umask = what->umask,
		.rdev = what->rdev,
		.flags = what->nameless ? PS_MAKE_NAMELESS : 0,
		.name_len = (uint16_t)at->len,
		.target_len = (uint16_t)what->target_len,
		.name = at->name,
		.target = what->target,
	};
	struct numbered *n = begin(cred, &req.change, at->dir->node);

	ASSERT(at->len <= PS_NAME_MAX && what->target_len < PROTO_PATH_MAX);
	if (!n)
		return -ENOMEM;
	n->dir = at->dir;
	return finish_attr(n, opcode, ps_make_req_encode(opcode, &req, n->body, BODY_MAX), attr);
}

int storage_make(const struct fs_cred *cred, const struct storage_name *at,
		 const struct storage_new *what, struct file_attr *attr)
{
	return make(cred, opcode_of(what->mode), at, what, attr);
}

int storage_tmpfile(const struct fs_cred *cred, const struct file_id *dir,
		    const struct storage_new *what, struct file_attr *attr)
{
	const struct storage_name at = { .dir = dir };

	return make(cred, PS_TMPFILE, &at, what, attr);
}

int storage_link(const struct fs_cred *cred, const struct file_id *file,
		 const struct storage_name *at)
{
	struct ps_link_req req = { .file = file_to_proto(file),
				   .dir = file_to_proto(at->dir),
				   .name_len = (uint16_t)at->len,
				   .name = at->name };
	struct numbered *n;

	if (file->node != at->dir->node)
		return -EXDEV;
	n = begin(cred, &req.change, at->dir->node);
	if (!n)
		return -ENOMEM;
	return finish_attr(n, PS_LINK, ps_link_req_encode(&req, n->body, BODY_MAX), NULL);
}

/* --- removing, renaming ------------------------------------------------------------------ */

static int remove_entry(const struct fs_cred *cred, uint16_t opcode, const struct storage_name *at,
			const struct file_id *victim, bool unused, struct storage_removed *removed)
{
	struct ps_remove_req req = { .dir = file_to_proto(at->dir),
				     .victim = file_to_proto(victim),
				     .name_len = (uint16_t)at->len,
				     .unused = unused,
				     .name = at->name };
	struct numbered *n = begin(cred, &req.change, at->dir->node);

	if (!n)
		return -ENOMEM;
	/* Were it done later, a program might use the file by then. */
	n->to_end = unused;
	return finish_removed(n, opcode, ps_remove_req_encode(&req, n->body, BODY_MAX), removed);
}

int storage_unlink(const struct fs_cred *cred, const struct storage_name *at,
		   const struct file_id *victim, bool unused, struct storage_removed *removed)
{
	return remove_entry(cred, PS_UNLINK, at, victim, unused, removed);
}

int storage_rmdir(const struct fs_cred *cred, const struct storage_name *at,
		  const struct file_id *victim, struct storage_removed *removed)
{
	return remove_entry(cred, PS_RMDIR, at, victim, false, removed);
}

struct ps_rename_req change_of_rename(const struct storage_rename *how)
{
	return (struct ps_rename_req){
		.from_dir = file_to_proto(how->from.dir),
		.to_dir = file_to_proto(how->to.dir),
		.source = file_to_proto(&how->source),
		.target = file_to_proto(&how->target),
		.flags = (how->exchange ? PS_RENAME_EXCHANGE : 0u) |
			 (how->unused ? PS_RENAME_UNUSED : 0u) | (how->room ? PS_RENAME_ROOM : 0u),
		.from_len = (uint16_t)how->from.len,
		.to_len = (uint16_t)how->to.len,
		.from = how->from.name,
		.to = how->to.name,
	};
}

int storage_rename(const struct fs_cred *cred, const struct storage_rename *how,
		   struct storage_removed *removed)
{
	struct ps_rename_req req = change_of_rename(how);
	struct numbered *n;

	if (how->from.dir->node != how->to.dir->node)
		return -EXDEV;
	n = begin(cred, &req.change, how->from.dir->node);
	if (!n)
		return -ENOMEM;
	n->to_end = how->unused;
	return finish_removed(n, PS_RENAME, ps_rename_req_encode(&req, n->body, BODY_MAX), removed);
}

/* --- attributes, the end of a use ---------------------------------------------------------- */

struct ps_setattr_req change_of_attr(const struct file_id *file, const struct storage_attr *how)
{
	return (struct ps_setattr_req){
		.file = file_to_proto(file),
		.valid = how->set,
		.mode = how->mode,
		.uid = how->uid,
		.gid = how->gid,
		.size = how->size,
		.atime_s = how->atime.sec,
		.mtime_s = how->mtime.sec,
		.atime_ns = how->atime.nsec,
		.mtime_ns = how->mtime.nsec,
		.flags = how->flags,
	};
}

int storage_setattr(const struct fs_cred *cred, const struct file_id *file,
		    const struct storage_attr *how, struct file_attr *attr)
{
	struct ps_setattr_req req = change_of_attr(file, how);
	struct numbered *n = begin(cred, &req.change, file->node);

	if (!n)
		return -ENOMEM;
	return finish_attr(n, PS_SETATTR, ps_setattr_req_encode(&req, n->body, BODY_MAX), attr);
}

int storage_xattr_set(const struct fs_cred *cred, const struct file_id *file, const char *name,
		      const void *value, size_t size, int flags)
{
	const size_t name_len = strlen(name);
	const size_t room = sizeof(struct ps_setxattr_req_wire) +
			    PROTO_MAX_GROUPS * sizeof(le32_t) + name_len + size;
	struct ps_setxattr_req req = {
		.file = file_to_proto(file),
		.flags = (flags & XATTR_CREATE ? PS_XATTR_CREATE : 0u) |
			 (flags & XATTR_REPLACE ? PS_XATTR_REPLACE : 0u),
		.name_len = (uint16_t)name_len,
		.value_len = (uint16_t)size,
		.name = name,
		.value = value,
	};
	struct numbered *n;

	if (size > PS_XATTR_VALUE_MAX)
		return -ENOSPC; /* as ext4 says of what no block holds */
	if (!value)
		req.flags = 0;
	n = change_number(cred, &req.change, file->node, room);
	if (!n)
		return -ENOMEM;
	return finish_attr(n, value ? PS_SETXATTR : PS_REMOVEXATTR,
			   ps_setxattr_req_encode(&req, n->body, room), NULL);
}

int storage_close(const struct file_id *files, size_t nr)
{
	struct ps_close_req *req = kmalloc(sizeof(*req)); /* too large for a stack */
	uint8_t *body =
		kmalloc(sizeof(struct ps_close_req_wire) + nr * sizeof(struct proto_file_wire));
	ssize_t ret = -ENOMEM;

	ASSERT(nr && nr <= STORAGE_CLOSE_MAX);
	if (req && body) {
		req->nr_files = (uint32_t)nr;
		for (size_t i = 0; i < nr; i++)
			req->files[i] = file_to_proto(&files[i]);
		ret = ps_close_req_encode(req, body,
					  sizeof(struct ps_close_req_wire) +
						  nr * sizeof(struct proto_file_wire));
	}
	if (ret >= 0)
		ret = storage_call(files[0].node, PS_CLOSE, body, (size_t)ret, NULL, 0);
	kfree(body);
	kfree(req);
	return (int)MIN(ret, 0);
}

/* One message's worth. */
static int declare_some(uint32_t node, uint32_t incarn, const struct file_id *files, size_t nr,
			bool last)
{
	const size_t cap = sizeof(struct ps_declare_req_wire) + nr * sizeof(struct proto_file_wire);
	struct ps_declare_req *req = kmalloc(sizeof(*req)); /* too large for a stack */
	uint8_t *body = kmalloc(cap);
	ssize_t ret = -ENOMEM;

	if (req && body) {
		req->nr_files = (uint32_t)nr;
		req->flags = last ? PS_DECLARE_LAST : 0;
		req->incarn = incarn;
		for (size_t i = 0; i < nr; i++)
			req->files[i] = file_to_proto(&files[i]);
		ret = ps_declare_req_encode(req, body, cap);
	}
	if (ret >= 0)
		ret = storage_call(node, PS_DECLARE, body, (size_t)ret, NULL, 0);
	kfree(body);
	kfree(req);
	return (int)MIN(ret, 0);
}

int storage_declare(uint32_t node, uint32_t incarn, const struct file_id *files, size_t nr,
		    bool last)
{
	size_t n;
	int err;

	do {
		n = MIN(nr, (size_t)STORAGE_CLOSE_MAX);
		err = declare_some(node, incarn, files, n, last && n == nr);
		files += n;
		nr -= n;
	} while (!err && nr);
	return err;
}

int storage_ask_keep(uint32_t node, bool *granted)
{
	struct ps_keep_req_wire w;
	struct ps_keep_rep_wire reply;
	struct ps_keep_req req;
	struct ps_keep_rep rep;
	int ret;

	spin_lock(&pending.lock);
	req.acked = acked_locked(node);
	spin_unlock(&pending.lock);
	ps_keep_req_encode(&req, &w);
	ret = storage_call(node, PS_KEEP, &w, sizeof(w), &reply, sizeof(reply));
	if (ret >= 0)
		ret = ps_keep_rep_decode(&reply, (size_t)ret, &rep);
	if (!ret)
		*granted = rep.granted;
	return ret;
}

int storage_commit(const struct file_id *file, bool whole)
{
	const struct ps_fsync_req req = { .file = file_to_proto(file) };
	struct ps_fsync_req_wire one;
	struct ps_file_req_wire all;
	ssize_t ret;

	ps_fsync_req_encode(&req, &one);
	ps_file_req_encode(&req.file, &all);
	ret = whole ? storage_call(file->node, PS_SYNC, &all, sizeof(all), NULL, 0)
		    : storage_call(file->node, PS_FSYNC, &one, sizeof(one), NULL, 0);
	/* Of the whole it is also for sync(2), which tells nobody what it finds. */
	return ret < 0 ? (int)ret : behind_error(file->node, !whole);
}
