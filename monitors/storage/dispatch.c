/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: the table of all messages, and the check of the vNode that each names.
 *
 * Flow:	a processor's request names a vNode at a place that the table tells; the sender must
 *		be a processor to which the view gives that vNode. A memory component has checked
 *		the processor for which it asks, so its requests are not compared with the view.
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

#define FLAGS   (RPC_HANDLER_IDEMPOTENT | RPC_HANDLER_WAITS)
#define FOR_PS  (FLAGS | RPC_HANDLER_FROM_PROCESSOR)
#define FOR_MS  (FLAGS | RPC_HANDLER_FROM_MEMORY)
/* The RPC layer sees to it that a repetition does nothing. */
#define ONCE_MS (RPC_HANDLER_WAITS | RPC_HANDLER_FROM_MEMORY)

#define ASKS(opcode, from, vnode, name, fn) { opcode, from, STORAGE_VNODE_##vnode, name, fn, NULL }
/* Of a processor, which is its client; the files are named by handles. */
#define CHANGES(opcode, name, fn)           { opcode, FOR_PS, STORAGE_VNODE_HANDLE, name, NULL, fn }

const struct storage_msg storage_msgs[] = {
	ASKS(PS_LOOKUP, FOR_PS, OF_PATH, "ps.lookup", storage_lookup),
	ASKS(PS_GETATTR, FOR_PS, HANDLE, "ps.getattr", storage_getattr),
	ASKS(PS_READLINK, FOR_PS, OF_PATH, "ps.readlink", storage_readlink),
	ASKS(PS_GETDENTS, FOR_PS, HANDLE, "ps.getdents", storage_getdents),
	ASKS(PS_STATFS, FOR_PS, HANDLE, "ps.statfs", storage_statfs),
	ASKS(PS_ACCESS, FOR_PS, OF_PATH, "ps.access", storage_access),
	CHANGES(PS_CREATE, "ps.create", storage_change),
	CHANGES(PS_MKDIR, "ps.mkdir", storage_change),
	CHANGES(PS_MKNOD, "ps.mknod", storage_change),
	CHANGES(PS_SYMLINK, "ps.symlink", storage_change),
	CHANGES(PS_TMPFILE, "ps.tmpfile", storage_change),
	CHANGES(PS_LINK, "ps.link", storage_change),
	CHANGES(PS_UNLINK, "ps.unlink", storage_change),
	CHANGES(PS_RMDIR, "ps.rmdir", storage_change),
	CHANGES(PS_RENAME, "ps.rename", storage_change),
	CHANGES(PS_SETATTR, "ps.setattr", storage_change),
	ASKS(PS_GETXATTR, FOR_PS, HANDLE, "ps.getxattr", storage_getxattr),
	ASKS(PS_LISTXATTR, FOR_PS, HANDLE, "ps.listxattr", storage_listxattr),
	CHANGES(PS_SETXATTR, "ps.setxattr", storage_change),
	CHANGES(PS_REMOVEXATTR, "ps.removexattr", storage_change),
	CHANGES(PS_FALLOCATE, "ps.fallocate", storage_change),
	CHANGES(PS_CLOSE, "ps.close", storage_close),
	CHANGES(PS_DECLARE, "ps.declare", storage_declare),
	ASKS(PS_FSYNC, FOR_PS, HANDLE, "ps.fsync", storage_fsync),
	ASKS(PS_SYNC, FOR_PS, HANDLE, "ps.sync", storage_sync),
	ASKS(MS_READ, FOR_MS, BY_MEMORY, "ms.read", NULL), /* msg.c sends the pages */
	ASKS(MS_LOOKUP, FOR_MS, BY_MEMORY, "ms.lookup", storage_lookup),
	ASKS(MS_CLAIM, FOR_MS, BY_MEMORY, "ms.claim", NULL),
	ASKS(MS_WRITE, FOR_MS, BY_MEMORY, "ms.write", NULL),
	ASKS(MS_CHANGE, ONCE_MS, BY_MEMORY, "ms.change", NULL),
	ASKS(MS_RELEASE, FOR_MS, BY_MEMORY, "ms.release", NULL),
	ASKS(MS_DECLARE, FOR_MS, BY_MEMORY, "ms.declare", NULL),
};
const size_t nr_storage_msgs = ARRAY_SIZE(storage_msgs);

/* Where the vNode's number is in the body; -1: nowhere. */
static ssize_t vnode_at(const struct storage_msg *msg)
{
	switch (msg->vnode) {
	case STORAGE_VNODE_OF_PATH:
		return offsetof(struct ps_path_req_wire, vnode);
	case STORAGE_VNODE_HANDLE:
	case STORAGE_VNODE_BY_MEMORY:
		return -1;
	case STORAGE_VNODE_UNSAID:
		break;
	}
	BUG_ON(true); /* no entry of the table says so */
	return -1;
}

int storage_check_vnode(const struct storage *st, const struct storage_msg *msg, uint32_t peer,
			const void *body, size_t len)
{
	const ssize_t at = vnode_at(msg);
	le32_t w;
	int err;

	if (at < 0 || len < (size_t)at + sizeof(w))
		return 0; /* the decoder refuses what is too short */
	memcpy(&w, (const uint8_t *)body + at, sizeof(w));
	err = st->vnode_check(le32_to_cpu(w), peer, true);
	if (err == -EACCES) {
		counter_inc(&storage_not_placed);
		pr_warn_ratelimited("node %u asks for vNode %u, which is not placed there: "
				    "refused\n",
				    peer, le32_to_cpu(w));
	}
	return err;
}

ssize_t storage_serve_msg(struct storage *st, const struct storage_msg *msg,
			  const struct storage_peer *from, const void *body, size_t len,
			  void *reply, size_t cap)
{
	const int err = storage_check_vnode(st, msg, from->node, body, len);

	if (err)
		return err;
	ASSERT(!msg->service != !msg->client_service);
	if (msg->service)
		return msg->service(st, body, len, reply, cap);
	return msg->client_service(st, msg->opcode, from, body, len, reply, cap);
}
