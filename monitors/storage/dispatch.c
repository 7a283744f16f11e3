/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: the table of all messages, and the check of the vNode that each names.
 *
 * Flow:	a processor's request names a vNode at a place that the table tells, by its number
 *		or by handles, whose seals must be ours; the sender must be a processor to which the
 *		view gives that vNode. A memory component has checked the processor for which it
 *		asks, so its requests are not compared with the view. A processor's request is begun
 *		when no other one keeps names and attributes any more (keep.h).
 * Context:	threads; may sleep, for the disk, and for the placements after the managers' node
 *		was started again.
 * Failure:	-EACCES: counted, and logged with the sender's name.
 */
#define PR_FMT "storage: "

#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "storage.h"

COUNTER(storage_not_placed, "storage.not_placed",
	"requests for a vNode that is not on the processor that sent them");
COUNTER(storage_not_sealed, "storage.not_sealed",
	"requests with a handle that no storage component made for that vNode");

#define FLAGS   (RPC_HANDLER_IDEMPOTENT | RPC_HANDLER_WAITS)
#define FOR_PS  (FLAGS | RPC_HANDLER_FROM_PROCESSOR)
#define FOR_MS  (FLAGS | RPC_HANDLER_FROM_MEMORY)
/* The RPC layer sees to it that a repetition does nothing. */
#define ONCE_MS (RPC_HANDLER_WAITS | RPC_HANDLER_FROM_MEMORY)

#define ASKS(opcode, from, vnode, name, fn) \
	{ opcode, from, STORAGE_VNODE_##vnode, 0, 0, name, fn, NULL }
/* Files are named by handles, @nr of them from @member of the body on. */
#define HANDLES(type, member, nr)       STORAGE_VNODE_HANDLES, offsetof(struct type, member), nr
#define ASKS_OF(opcode, type, name, fn) { opcode, FOR_PS, HANDLES(type, file, 1), name, fn, NULL }
/* Of a processor, which is its client. */
#define CHANGES(opcode, type, member, nr, name) \
	{ opcode, FOR_PS, HANDLES(type, member, nr), name, NULL, storage_change }

const struct storage_msg storage_msgs[] = {
	ASKS(PS_LOOKUP, FOR_PS, OF_PATH, "ps.lookup", storage_lookup),
	ASKS_OF(PS_GETATTR, ps_file_req_wire, "ps.getattr", storage_getattr),
	ASKS(PS_READLINK, FOR_PS, OF_PATH, "ps.readlink", storage_readlink),
	ASKS_OF(PS_GETDENTS, ps_getdents_req_wire, "ps.getdents", storage_getdents),
	ASKS_OF(PS_STATFS, ps_file_req_wire, "ps.statfs", storage_statfs),
	ASKS(PS_ACCESS, FOR_PS, OF_PATH, "ps.access", storage_access),
	CHANGES(PS_CREATE, ps_make_req_wire, dir, 1, "ps.create"),
	CHANGES(PS_MKDIR, ps_make_req_wire, dir, 1, "ps.mkdir"),
	CHANGES(PS_MKNOD, ps_make_req_wire, dir, 1, "ps.mknod"),
	CHANGES(PS_SYMLINK, ps_make_req_wire, dir, 1, "ps.symlink"),
	CHANGES(PS_TMPFILE, ps_make_req_wire, dir, 1, "ps.tmpfile"),
	CHANGES(PS_LINK, ps_link_req_wire, file, 2, "ps.link"),
	CHANGES(PS_UNLINK, ps_remove_req_wire, dir, 2, "ps.unlink"),
	CHANGES(PS_RMDIR, ps_remove_req_wire, dir, 2, "ps.rmdir"),
	CHANGES(PS_RENAME, ps_rename_req_wire, from_dir, 4, "ps.rename"),
	CHANGES(PS_SETATTR, ps_setattr_req_wire, file, 1, "ps.setattr"),
	ASKS_OF(PS_GETXATTR, ps_getxattr_req_wire, "ps.getxattr", storage_getxattr),
	ASKS_OF(PS_LISTXATTR, ps_getxattr_req_wire, "ps.listxattr", storage_listxattr),
	CHANGES(PS_SETXATTR, ps_setxattr_req_wire, file, 1, "ps.setxattr"),
	CHANGES(PS_REMOVEXATTR, ps_setxattr_req_wire, file, 1, "ps.removexattr"),
	CHANGES(PS_FALLOCATE, ps_fallocate_req_wire, file, 1, "ps.fallocate"),
	{ PS_CLOSE, FOR_PS, STORAGE_VNODE_OWN_USE, 0, 0, "ps.close", NULL, storage_close },
	{ PS_DECLARE, FOR_PS, STORAGE_VNODE_HANDLES, sizeof(struct ps_declare_req_wire),
	  STORAGE_HANDLES_REST, "ps.declare", NULL, storage_declare },
	{ PS_LOCK, FOR_PS, HANDLES(ps_lock_req_wire, file, 1), "ps.lock", NULL, storage_lock },
	{ PS_LOCKS, FOR_PS, HANDLES(ps_locks_req_wire, file, 1), "ps.locks", NULL, storage_locks },
	{ PS_LOCK_EVENTS, FOR_PS, STORAGE_VNODE_OWN_USE, 0, 0, "ps.lock_events", NULL,
	  storage_lock_events },
	{ PS_KEEP, FOR_PS, STORAGE_VNODE_OWN_USE, 0, 0, "ps.keep", NULL, storage_keep },
	{ PS_FIND, FOR_PS, HANDLES(ps_find_req_wire, dir, 1), "ps.find", storage_find, NULL },
	{ PS_BATCH, FOR_PS, STORAGE_VNODE_BY_PARTS, 0, 0, "ps.batch", NULL, storage_batch },
	ASKS_OF(PS_FSYNC, ps_fsync_req_wire, "ps.fsync", storage_fsync),
	ASKS_OF(PS_SYNC, ps_file_req_wire, "ps.sync", storage_sync),
	ASKS(MS_READ, FOR_MS, BY_MEMORY, "ms.read", NULL), /* msg.c sends the pages */
	ASKS(MS_LOOKUP, FOR_MS, BY_MEMORY, "ms.lookup", storage_lookup),
	ASKS(MS_CLAIM, FOR_MS, BY_MEMORY, "ms.claim", NULL),
	ASKS(MS_WRITE, FOR_MS, BY_MEMORY, "ms.write", NULL),
	ASKS(MS_CHANGE, ONCE_MS, BY_MEMORY, "ms.change", NULL),
	ASKS(MS_RELEASE, FOR_MS, BY_MEMORY, "ms.release", NULL),
	ASKS(MS_RESERVE, ONCE_MS, BY_MEMORY, "ms.reserve", NULL),
	ASKS(MS_DECLARE, FOR_MS, BY_MEMORY, "ms.declare", NULL),
};
const size_t nr_storage_msgs = ARRAY_SIZE(storage_msgs);

static int check_vnode(const struct storage *st, uint32_t vnode, uint32_t peer)
{
	int err = st->vnode_check(vnode, peer, true);

	/* It has waited for long enough, and does not know still. */
	if (err == -EACCES && st->vnode_check(vnode, peer, false) == -EAGAIN)
		err = -EAGAIN;
	if (err == -EACCES) {
		counter_inc(&storage_not_placed);
		pr_warn_ratelimited("node %u asks for vNode %u, which is not placed there: "
				    "refused\n",
				    peer, vnode);
	}
	return err;
}

static int check_path(const struct storage *st, uint32_t peer, const void *body, size_t len)
{
	struct ps_path_req_wire w;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, body, sizeof(w));
	return check_vnode(st, le32_to_cpu(w.vnode), peer);
}

/* "No file" names nothing; of another node's file the service says that it is not ours. */
static int check_handle(const struct storage *st, uint32_t peer, const struct proto_file_wire *w)
{
	struct proto_file file;
	const int err = proto_file_decode(w, &file);

	if (err || file.node != st->node)
		return err;
	if (file.seal == proto_file_seal(&st->file_key, &file))
		return check_vnode(st, file.vnode, peer);
	counter_inc(&storage_not_sealed);
	pr_warn_ratelimited("node %u has a handle that was not made for vNode %u: refused\n", peer,
			    file.vnode);
	return -EACCES;
}

static int check_handles(const struct storage *st, const struct storage_msg *msg, uint32_t peer,
			 const void *body, size_t len)
{
	size_t nr = msg->nr_handles;
	struct proto_file_wire w, before;
	int err = 0;

	ASSERT(msg->nr_handles);
	if (len < msg->handles_at)
		return -EMSGSIZE;
	if (nr == STORAGE_HANDLES_REST) {
		nr = (len - msg->handles_at) / sizeof(w);
		if ((len - msg->handles_at) % sizeof(w))
			return -EMSGSIZE;
	}
	if (len - msg->handles_at < nr * sizeof(w))
		return -EMSGSIZE;
	for (size_t i = 0; i < nr && !err; i++) {
		memcpy(&w, (const uint8_t *)body + msg->handles_at + i * sizeof(w), sizeof(w));
		/* Both directories of a rename are mostly one. */
		if (!i || memcmp(&w, &before, sizeof(w)) != 0)
			err = check_handle(st, peer, &w);
		before = w;
	}
	return err;
}

int storage_check_vnode(const struct storage *st, const struct storage_msg *msg, uint32_t peer,
			const void *body, size_t len)
{
	switch (msg->vnode) {
	case STORAGE_VNODE_OF_PATH:
		return check_path(st, peer, body, len);
	case STORAGE_VNODE_HANDLES:
		return check_handles(st, msg, peer, body, len);
	case STORAGE_VNODE_OWN_USE:
	case STORAGE_VNODE_BY_MEMORY:
	case STORAGE_VNODE_BY_PARTS:
		return 0;
	case STORAGE_VNODE_UNSAID:
		break;
	}
	BUG_ON(true); /* no entry of the table says so */
	return -EACCES;
}

ssize_t storage_serve_msg(struct storage *st, const struct storage_msg *msg,
			  const struct storage_peer *from, const void *body, size_t len,
			  void *reply, size_t cap)
{
	const bool of_processor = msg->flags & RPC_HANDLER_FROM_PROCESSOR;
	const bool owed = msg->opcode == PS_BATCH || msg->opcode == PS_DECLARE;
	struct keep_use use;
	ssize_t ret = storage_check_vnode(st, msg, from->node, body, len);

	if (ret == -EAGAIN)
		ret = -EACCES; /* -EAGAIN tells processors that a name has changed */
	if (!ret && of_processor)
		ret = keep_enter(&st->keep, &use, from, owed);
	if (ret)
		return ret;
	ASSERT(!msg->service != !msg->client_service);
	if (msg->service)
		ret = msg->service(st, body, len, reply, cap);
	else
		ret = msg->client_service(st, msg->opcode, from, body, len, reply, cap);
	if (of_processor)
		keep_leave(&st->keep, &use);
	return ret;
}
