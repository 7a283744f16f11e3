/* SPDX-License-Identifier: MIT */
/*
 * The table of all messages to a memory monitor, and how one is served.
 *
 * Flow:	find the entry, check the sender, decode into the entry's structure, check that the
 *		sender has the vNode of what the request names, act.
 * Context:	a thread that may sleep, but for entries with @direct.
 * Failure:	a malformed request is counted and answered with -EMSGSIZE or -EPROTO before any
 *		effect; an unknown one with -ENOSYS.
 */
#define PR_FMT "memory: "

#include "dispatch.h"

#include <kernel/counter.h>
#include <kernel/printk.h>
#include <lib/alloc.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "memory.h"

/* --- decoding ------------------------------------------------------------------------------ */

/* The codecs take typed pointers: the table needs one type for all. */
#define DECODER(type)                                                     \
	static int decode_##type(const void *body, size_t len, void *req) \
	{                                                                 \
		return type##_decode(body, len, (struct type *)req);      \
	}

DECODER(pm_exec_req)
DECODER(pm_mmap_req)
DECODER(pm_range_req)
DECODER(pm_mremap_req)
DECODER(pm_brk_req)
DECODER(pm_lease_req)
DECODER(pm_fork_req)
DECODER(pm_space_req)
DECODER(pm_vregions_req)
DECODER(pm_collapse_req)
DECODER(pm_discard_req)
DECODER(pm_credit_req)
DECODER(pm_commit)
DECODER(pm_fill_vma_req)
DECODER(pm_file_open_req)
DECODER(pm_file_write_req)
DECODER(pm_file_change_req)
DECODER(mm_map_req)
DECODER(mm_load_req)
DECODER(mm_range_req)
DECODER(mm_move_req)
DECODER(mm_pages_req)
DECODER(mm_fork_req)
DECODER(mm_vregion_move_req)
DECODER(mm_vregion_take_req)
DECODER(mm_relieve_req)
DECODER(mm_expect_req)
DECODER(mm_file_read_req)

static int decode_nothing(const void *body, size_t len, void *req)
{
	return len ? -EMSGSIZE : 0;
}

static int decode_aspace(const void *body, size_t len, void *req)
{
	return pm_destroy_req_decode(body, len, (uint64_t *)req);
}

static int decode_destroy_list(const void *body, size_t len, void *req)
{
	struct destroy_list *list = req;

	return pm_destroy_list_decode(body, len, list->ids, &list->nr);
}

/* --- the table ----------------------------------------------------------------------------- */

HISTOGRAM(memory_exec_ns, "memory.exec_ns", "PM_EXEC, from its arrival to its reply");
HISTOGRAM(memory_fork_ns, "memory.fork_ns", "PM_FORK, from its arrival to its reply");
HISTOGRAM(memory_collapse_ns, "memory.collapse_ns", "PM_COLLAPSE, from its arrival to its reply");

#define FROM_PROC   RPC_HANDLER_FROM_PROCESSOR
#define INLINE      RPC_HANDLER_INLINE
#define WAITS       RPC_HANDLER_WAITS
#define IDEMPOTENT  RPC_HANDLER_IDEMPOTENT
#define FROM_MEMORY (MSG_FROM_MEMORY | RPC_HANDLER_FROM_MEMORY)
#define FROM_HOME   (FROM_MEMORY | MSG_FROM_HOME)
#define RESERVE     MSG_RESERVE

#define ENTRY(op, op_flags, where, size, decoder, handler)                            \
	.opcode = (op), .flags = (op_flags), .vnode = MSG_VNODE_##where, .name = #op, \
	.req_size = (size), .decode = (decoder), .act = (handler)
#define CALL(op, op_flags, where, type, handler) \
	ENTRY(op, op_flags, where, sizeof(struct type), decode_##type, handler)
#define DIRECT(op, op_flags, where, handler)                                          \
	.opcode = (op), .flags = (op_flags), .vnode = MSG_VNODE_##where, .name = #op, \
	.direct = (handler)

/*
 * Context:	INLINE: polling context first, then a thread; WAITS: a thread of its own, as it
 *		waits for other nodes; else a worker, which waits for no node but, if
 *		the owner has a log, for what completes its changes.
 * Retry:	IDEMPOTENT entries may run twice.  The RPC layer runs the others at most once and
 *		repeats the remembered reply.
 * Sender:	a member whose connection is up.  It may die at any time, which changes nothing here
 *		until the cluster says that it is gone.
 * Races:	the home orders the calls of one space by its mutex. At the owner a region's lock
 *		and state order everything.
 */
const struct msg_type msg_types[] = {
	/* From a processor to the home.  They wait for owners. */
	{ CALL(PM_EXEC, FROM_PROC | WAITS, NAMED, pm_exec_req, msg_exec),
	  .time = &memory_exec_ns }, /* and for storage */
	{ CALL(PM_MMAP, FROM_PROC | WAITS, SPACES, pm_mmap_req, msg_mmap) },
	{ CALL(PM_MUNMAP, FROM_PROC | WAITS, SPACES, pm_range_req, msg_munmap) },
	{ CALL(PM_MPROTECT, FROM_PROC | WAITS, SPACES, pm_range_req, msg_mprotect) },
	{ CALL(PM_MREMAP, FROM_PROC | WAITS, SPACES, pm_mremap_req, msg_mremap) },
	{ CALL(PM_BRK, FROM_PROC | WAITS, SPACES, pm_brk_req, msg_brk) },
	{ CALL(PM_LEASE, FROM_PROC | WAITS | IDEMPOTENT, SPACES, pm_lease_req,
	       msg_lease) }, /* a number is served once */
	{ CALL(PM_VREGIONS, FROM_PROC | WAITS, SPACES, pm_vregions_req,
	       msg_vregions) }, /* twice would grant twice */
	{ ENTRY(PM_DESTROY, FROM_PROC | WAITS | IDEMPOTENT, OWN_END, sizeof(struct destroy_list),
		decode_destroy_list, msg_destroy) },
	{ CALL(PM_FORK, FROM_PROC | WAITS, SPACES, pm_fork_req, msg_fork),
	  .time = &memory_fork_ns },
	{ CALL(PM_COLLAPSE, FROM_PROC | WAITS, SPACES, pm_collapse_req, msg_collapse),
	  .time = &memory_collapse_ns },
	{ CALL(PM_DISCARD, FROM_PROC | WAITS | IDEMPOTENT, SPACES, pm_discard_req, msg_discard) },
	{ CALL(PM_SPACE, FROM_PROC | WAITS, NAMED, pm_space_req, msg_make_pages) },
	/* From a processor to an owner.  They wait only while a vRegion is handed over. */
	{ DIRECT(PM_FETCH, FROM_PROC | INLINE | WAITS | IDEMPOTENT, REGION, msg_fetch) },
	{ DIRECT(PM_FETCH_AHEAD, FROM_PROC | INLINE | IDEMPOTENT, REGION, msg_fetch_ahead) },
	{ CALL(PM_FILL_VMA, FROM_PROC | WAITS | IDEMPOTENT, REGION, pm_fill_vma_req,
	       msg_fill_vma) },
	{ DIRECT(PM_WRITEBACK, FROM_PROC | INLINE | WAITS | IDEMPOTENT, REGION, msg_writeback) },
	{ CALL(PM_CREDIT, FROM_PROC, NONE, pm_credit_req,
	       msg_credit) }, /* the second would be stale */
	{ ENTRY(PM_MEMINFO, FROM_PROC | RPC_HANDLER_FROM_MEMORY | IDEMPOTENT, NONE, 0,
		decode_nothing, msg_meminfo) }, /* from memory nodes, too */
	{ CALL(PM_COMMIT, FROM_PROC | RPC_HANDLER_FROM_MEMORY | IDEMPOTENT, NONE, pm_commit,
	       msg_commit) }, /* from memory nodes, too */
	/* From a processor to the node with a file's page cache.  Waits for storage. */
	{ DIRECT(PM_FILE_FETCH, FROM_PROC | INLINE | WAITS | IDEMPOTENT, HANDLE, msg_file_fetch) },
	{ CALL(PM_FILE_OPEN, FROM_PROC | WAITS | IDEMPOTENT, HANDLE, pm_file_open_req,
	       msg_file_open) },
	{ CALL(PM_FILE_WRITE, FROM_PROC | WAITS | IDEMPOTENT, HANDLE, pm_file_write_req,
	       msg_file_write) },
	{ CALL(PM_FILE_CHANGE, FROM_PROC | WAITS, HANDLE, pm_file_change_req, msg_file_change) },
	/* From the home to an owner.  Only MM_MOVE and MM_VREGION_MOVE wait: for another owner. */
	{ CALL(MM_MAP, FROM_HOME | RESERVE, BY_MEMORY, mm_map_req, msg_mm_map) },
	{ CALL(MM_LOAD, FROM_HOME, BY_MEMORY, mm_load_req, msg_mm_load) },
	{ CALL(MM_UNMAP, FROM_HOME, BY_MEMORY, mm_range_req, msg_mm_unmap) },
	{ CALL(MM_PROTECT, FROM_HOME, BY_MEMORY, mm_range_req, msg_mm_protect) },
	{ ENTRY(MM_MOVE, FROM_HOME | RESERVE | WAITS, BY_MEMORY, sizeof(struct owner_move_work),
		decode_mm_move_req, msg_mm_move) },
	{ ENTRY(MM_DESTROY, FROM_HOME | IDEMPOTENT, BY_MEMORY, sizeof(uint64_t), decode_aspace,
		msg_mm_destroy) },
	{ CALL(MM_FORK, FROM_HOME, BY_MEMORY, mm_fork_req, msg_mm_fork) },
	{ CALL(MM_COLLAPSE, FROM_HOME | RESERVE | IDEMPOTENT, BY_MEMORY, pm_collapse_req,
	       msg_mm_collapse) },
	{ CALL(MM_DISCARD, FROM_HOME | RESERVE | IDEMPOTENT, BY_MEMORY, pm_discard_req,
	       msg_mm_discard) },
	{ CALL(MM_VREGION_MOVE, FROM_HOME | WAITS, BY_MEMORY, mm_vregion_move_req,
	       msg_mm_vregion_move) },
	{ CALL(MM_EXPECT, FROM_HOME | IDEMPOTENT, BY_MEMORY, mm_expect_req, msg_mm_expect) },
	/* From an owner to a home. It waits for owners, not for another call of the space. */
	{ CALL(MM_RELIEVE, FROM_MEMORY | WAITS, BY_MEMORY, mm_relieve_req, msg_mm_relieve) },
	/* From an owner to another one. */
	{ CALL(MM_PAGES, FROM_MEMORY, BY_MEMORY, mm_pages_req, msg_mm_pages) },
	{ CALL(MM_VREGION_TAKE, FROM_MEMORY, BY_MEMORY, mm_vregion_take_req, msg_mm_vregion_take) },
	/*
	 * From a home that loads a program to the node with the file's page cache. Waits for
	 * storage.
	 */
	{ CALL(MM_FILE_READ, FROM_MEMORY | WAITS | IDEMPOTENT, BY_MEMORY, mm_file_read_req,
	       msg_mm_file_read) },
};
const size_t nr_msg_types = ARRAY_SIZE(msg_types);

/* --- serving ------------------------------------------------------------------------------- */

#define SMALL_REQ 544 /* bytes: a decoded request up to this size lies on the stack */

const struct msg_type *msg_find(uint16_t opcode)
{
	for (size_t i = 0; i < nr_msg_types; i++)
		if (msg_types[i].opcode == opcode)
			return &msg_types[i];
	return NULL;
}

int msg_reply(const struct msg *msg, const void *w, size_t len)
{
	if (msg->reply_max < len)
		return -EMSGSIZE;
	memcpy(msg->reply, w, len);
	return (int)len;
}

bool is_memory_node(struct memory *m, uint32_t node)
{
	bool found = false;

	spin_lock(&m->nodes_lock);
	for (size_t i = 0; i < m->nr_nodes && !found; i++)
		found = m->nodes[i] == node;
	spin_unlock(&m->nodes_lock);
	return found;
}

int msg_not_home(const struct msg *msg)
{
	STAT_INC(msg->m, not_home);
	pr_warn_ratelimited("node %u commands a space whose home is another node: refused\n",
			    msg->peer);
	return -EPERM;
}

/* Is the sender the home of every space of the request? */
static bool is_from_home(const struct msg_type *type, const struct msg *msg, const void *req)
{
	const uint64_t *aspace = req;
	const struct pm_collapse_req *collapse = req;
	const struct mm_fork_req *fork = req;
	bool ok = owner_masters(msg->m, *aspace).home == msg->peer;

	if (type->opcode == MM_COLLAPSE)
		ok = ok && owner_masters(msg->m, collapse->into).home == msg->peer;
	if (type->opcode == MM_FORK)
		ok = ok && owner_masters(msg->m, fork->parent).home == msg->peer &&
		     owner_masters(msg->m, fork->child).home == msg->peer;
	return ok;
}

/* Does the sender have the vNode of a space? Its home does not know it: the handler says so. */
static int check_space(const struct msg *msg, uint64_t aspace)
{
	const uint32_t vnode = home_space_vnode(msg->m, aspace, msg->peer);

	return vnode ? memory_check_vnode(msg->m, vnode, msg->peer, true) : 0;
}

static int check_spaces(const struct msg_type *type, const struct msg *msg, const void *req)
{
	const struct pm_collapse_req *collapse = req;
	const struct pm_mmap_req *map = req;
	const uint64_t *aspace = req;
	int err = check_space(msg, *aspace);

	if (!err && type->opcode == PM_COLLAPSE)
		err = check_space(msg, collapse->into);
	if (!err && type->opcode == PM_MMAP && map->object)
		err = check_space(msg, map->object);
	if (!err && type->opcode == PM_MMAP && map->file.node)
		err = memory_check_file(msg->m, &map->file, msg->peer, true);
	return err;
}

static int check_named(const struct msg_type *type, const struct msg *msg, const void *req)
{
	const struct pm_exec_req *exec = req;
	const struct pm_space_req *space = req;
	int err;

	if (type->opcode == PM_SPACE)
		return memory_check_vnode(msg->m, space->vnode, msg->peer, true);
	err = memory_check_vnode(msg->m, exec->vnode, msg->peer, true);
	if (!err && exec->object)
		err = check_space(msg, exec->object);
	if (!err && exec->file.node)
		err = memory_check_file(msg->m, &exec->file, msg->peer, true);
	return err;
}

/* Where check_vnode() finds the handle; of PM_FILE_FETCH its handler checks it. */
static_assert(offsetof(struct pm_file_open_req, file) == 0, "PM_FILE_OPEN begins with a handle");
static_assert(offsetof(struct pm_file_write_req, file) == 0, "PM_FILE_WRITE begins with a handle");
static_assert(offsetof(struct pm_file_change_req, file) == 0,
	      "PM_FILE_CHANGE begins with a handle");

static int check_vnode(const struct msg_type *type, const struct msg *msg, const void *req)
{
	switch (type->vnode) {
	case MSG_VNODE_NAMED:
		return check_named(type, msg, req);
	case MSG_VNODE_SPACES:
		return check_spaces(type, msg, req);
	case MSG_VNODE_HANDLE:
		return memory_check_file(msg->m, req, msg->peer, true);
	case MSG_VNODE_NONE:
	case MSG_VNODE_OWN_END:
	case MSG_VNODE_REGION:
	case MSG_VNODE_BY_MEMORY:
		return 0;
	case MSG_VNODE_UNSAID:
		break;
	}
	return -EACCES;
}

static int decode_and_act(const struct msg_type *type, struct msg *msg, void *req)
{
	int err = type->decode(msg->body, msg->len, req);

	if (err)
		return err;
	msg->req = req;
	if ((type->flags & MSG_FROM_HOME) && !is_from_home(type, msg, req))
		return msg_not_home(msg);
	err = check_vnode(type, msg, req);
	return err ? err : type->act(msg);
}

/*
 * With memory for the decoded request, from the reserve if the message must not fail for want of
 * it.
 */
static int serve_large(const struct msg_type *type, struct msg *msg)
{
	struct memory *m = msg->m;
	void *req = lib_alloc(type->req_size);
	int ret = -ENOMEM;

	if (req) {
		ret = decode_and_act(type, msg, req);
	} else if (type->flags & MSG_RESERVE) {
		mutex_lock(&m->reserve_lock);
		ret = decode_and_act(type, msg, m->reserve);
		mutex_unlock(&m->reserve_lock);
	}
	lib_free(req);
	return ret;
}

int msg_serve(const struct msg_type *type, struct msg *msg)
{
	uint64_t small[SMALL_REQ / sizeof(uint64_t)];
	int ret;

	msg->error_len = 0;
	if ((type->flags & MSG_FROM_MEMORY) && !is_memory_node(msg->m, msg->peer))
		return -EPERM;
	if (type->req_size <= sizeof(small))
		ret = decode_and_act(type, msg, small);
	else
		ret = serve_large(type, msg);
	if (ret == -EPROTO || ret == -EMSGSIZE)
		STAT_INC(msg->m, bad_requests);
	return ret;
}

int memory_serve(struct memory *m, uint32_t peer, uint16_t opcode, const void *body, uint32_t len,
		 const void *bulk, uint32_t bulk_len, void *reply, uint32_t reply_max,
		 uint32_t *error_len)
{
	const struct msg_type *type = msg_find(opcode);
	struct msg msg = {
		.m = m,
		.peer = peer,
		.body = body,
		.len = len,
		.bulk = bulk,
		.bulk_len = bulk_len,
		.reply = reply,
		.reply_max = reply_max,
	};
	int ret = -ENOSYS;

	if (type && type->act)
		ret = msg_serve(type, &msg);
	if (error_len)
		*error_len = msg.error_len;
	return ret;
}
