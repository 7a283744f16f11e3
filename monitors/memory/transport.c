/* SPDX-License-Identifier: MIT */
/*
 * The memory monitor and the RPC layer: how an instance reaches other nodes, and how requests
 * reach it.
 *
 * Flow:	server: a thread copies the request's body out of the ring, which its sender can
 *		still change, then serves it by its table entry (dispatch.c) and replies.
 * Context:	calls sleep, except reads that may not (fault-around and read-ahead of files).
 * Failure:	after a timeout the pages that a call names stay pinned until the RPC layer
 *		releases it.
 */
#include "service.h"

#include <cluster/cluster.h>
#include <cluster/patience.h>
#include <kernel/counter.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <managers/placement.h>
#include <mm/slab.h>
#include <net/rpc.h>
#include <proto/mp.h>

#include "dispatch.h"
#include "memory.h"

#define OOM_WAIT_NS (5 * NSEC_PER_SEC)
#define ASK_WAIT_NS NSEC_PER_SEC

/* Pages of a call stay where they are until nothing can read them any more. */
struct bulk_pins {
	uint32_t nr;
	struct mpage *pages[MM_PAGES_MAX];
};

static void bulk_release(struct rpc_call *call)
{
	struct bulk_pins *pins = call->arg;

	for (uint32_t i = 0; i < pins->nr; i++)
		mpage_put(&memory_node.pool, pins->pages[i]);
	kfree(pins);
}

struct rpc_sge page_sge(const struct mpage *page)
{
	return (struct rpc_sge){
		.mem = mpage_mem(&memory_node.pool, page),
		.addr = mpage_paddr(&memory_node.pool, page),
		.len = PAGE_SIZE,
	};
}

/* A storage node is sent pages of files, from the region that it may write. */
static struct rpc_sge bulk_sge(const struct mpage *page, uint16_t opcode)
{
	struct rpc_sge sge = page_sge(page);

	if (proto_of(opcode) == PROTO_MS)
		sge.mem = mpage_file_mem(&memory_node.pool, page);
	return sge;
}

struct bulk_call {
	uint32_t peer;
	uint16_t opcode;
	const void *body;
	uint32_t body_len;
	struct mpage *const *bulk;
	uint32_t nr_bulk;
	void *reply;
	uint32_t reply_max;
	struct rpc_sge sge[MM_PAGES_MAX];
};

/* With pages pinned until it is released. */
static void add_bulk(struct rpc_call *call, struct bulk_call *bc, struct bulk_pins *pins)
{
	pins->nr = bc->nr_bulk;
	for (uint32_t i = 0; i < bc->nr_bulk; i++) {
		pins->pages[i] = bc->bulk[i];
		mpage_get(bc->bulk[i]);
		bc->sge[i] = bulk_sge(bc->bulk[i], bc->opcode);
	}
	call->bulk = bc->sge;
	call->nr_bulk = bc->nr_bulk;
	call->release = bulk_release;
	call->arg = pins;
}

static struct rpc_call *make_call(void *arg)
{
	struct bulk_call *bc = arg;
	const enum rpc_class cls = bc->nr_bulk ? RPC_CLASS_WRITEBACK : RPC_CLASS_CONTROL;
	struct bulk_pins *pins = bc->nr_bulk ? kmalloc(sizeof(*pins)) : NULL;
	struct rpc_call *call = rpc_call_create(bc->peer, cls, bc->opcode, bc->body, bc->body_len);

	if (!call || (bc->nr_bulk && !pins) || bc->nr_bulk > MM_PAGES_MAX) {
		kfree(pins);
		if (call)
			rpc_call_put(call);
		return NULL;
	}
	call->reply = bc->reply;
	call->reply_max = bc->reply_max;
	call->waits = proto_ms_waits(bc->opcode, bc->body, bc->body_len);
	if (pins)
		add_bulk(call, bc, pins);
	return call;
}

static int call_with_bulk(struct bulk_call *bc)
{
	struct rpc_call *call = make_call(bc);
	int err;

	if (!call)
		return -ENOMEM;
	err = rpc_call_submit_wait(call, WAIT_FOREVER);
	if (err)
		bulk_release(call);
	else
		err = rpc_call_wait(call);
	if (!err)
		err = (int)call->reply_len;
	rpc_call_put(call);
	return err;
}

/* How long to wait where silence is an answer; 0: for ever. */
static uint64_t time_for(uint16_t opcode)
{
	switch (opcode) {
	case MP_OOM: /* a processor that does not answer keeps no other from being asked */
		return OOM_WAIT_NS;
	case MP_REVOKE: /* the region is revoked whatever it says */
	case PM_MEMINFO:
	case PM_COMMIT:
		return ASK_WAIT_NS;
	default:
		return 0;
	}
}

static int node_call(struct memory *m, uint32_t peer, uint16_t opcode, const void *body,
		     uint32_t body_len, struct mpage *const *bulk, uint32_t nr_bulk, void *reply,
		     uint32_t reply_max)
{
	struct bulk_call bc = {
		.peer = peer,
		.opcode = opcode,
		.body = body,
		.body_len = body_len,
		.bulk = bulk,
		.nr_bulk = nr_bulk,
		.reply = reply,
		.reply_max = reply_max,
	};

	if (proto_of(opcode) == PROTO_MS)
		return patient_call(peer, make_call, &bc, false);
	return nr_bulk ? call_with_bulk(&bc)
		       : rpc_call_sync(peer, RPC_CLASS_CONTROL, opcode, body, body_len, reply,
				       reply_max, time_for(opcode));
}

static void read_done(struct rpc_call *call)
{
	page_cache_read_done(call->arg, call->status, call->reply_len);
}

static void read_release(struct rpc_call *call)
{
	page_cache_read_release(call->arg);
}

static int node_read(struct memory *m, struct page_cache_read *rd, bool prefetch, bool may_sleep)
{
	struct rpc_call *call =
		rpc_call_create(rd->cf->file.node, prefetch ? RPC_CLASS_PREFETCH : RPC_CLASS_DEMAND,
				MS_READ, rd->body, rd->body_len);
	int err;

	if (!call)
		return -ENOMEM;
	call->reply = &rd->reply;
	call->reply_max = sizeof(rd->reply);
	call->done = read_done;
	call->release = read_release;
	call->arg = rd;
	call->deadline_ns = time_after_ns(patience_ns());
	err = may_sleep ? rpc_call_submit_killable(call) : rpc_call_submit(call);
	rpc_call_put(call);
	return err;
}

static int node_storage_wait(struct memory *m, uint32_t node, int err)
{
	return patience_wait(node, err, true);
}

static uint32_t node_rkey(struct memory *m, uint32_t node, const struct mpage *page)
{
	return rpc_mem_rkey(mpage_file_mem(&m->pool, page), node);
}

static uint32_t node_owner_for(struct memory *m, uint64_t aspace, uint64_t index)
{
	return gmm_owner_for(aspace, index, m->node);
}

static uint32_t node_cache_node(struct memory *m, const struct proto_file *file)
{
	return gsm_cache_node_for(file);
}

/* By what the RPC layer knows before gone() and until joined() of the next one, or after it. */
static bool node_has_left(struct memory *m, uint32_t node, uint32_t incarn)
{
	struct node_info info;

	return rpc_peer_has_left(node, incarn) || !rpc_peer_info(node, &info) ||
	       info.incarn != incarn;
}

static bool node_is_processor(struct memory *m, uint32_t node)
{
	struct node_info info;

	return rpc_peer_info(node, &info) && info.role == NODE_ROLE_PROCESSOR;
}

static int node_vnode_check(struct memory *m, uint32_t vnode, uint32_t node, bool may_wait)
{
	return cluster_vnode_check(vnode, node, may_wait);
}

const struct memory_net node_net = {
	.has_left = node_has_left,
	.is_processor = node_is_processor,
	.vnode_check = node_vnode_check,
	.call = node_call,
	.read = node_read,
	.storage_wait = node_storage_wait,
	.rkey = node_rkey,
	.owner_for = node_owner_for,
	.cache_node = node_cache_node,
};

/* --- server -------------------------------------------------------------------------------- */

static enum rpc_handler_result serve_request(struct rpc_request *req, void *arg)
{
	const struct msg_type *type = arg;
	struct msg msg = { .m = &memory_node,
			   .peer = rpc_request_peer(req),
			   .incarn = rpc_request_incarn(req) };
	const void *ring_body = rpc_request_body(req, &msg.len);
	void *body = kmalloc(msg.len ? msg.len : 1);
	const uint64_t start = time_now_ns();
	int ret = -ENOMEM;

	msg.bulk = rpc_request_bulk(req, &msg.bulk_len);
	msg.reply = kmalloc(RPC_BODY_MAX_CTL);
	msg.reply_max = RPC_BODY_MAX_CTL;
	if (msg.reply && body) {
		memcpy(body, ring_body, msg.len);
		msg.body = body;
		ret = msg_serve(type, &msg);
	}
	if (ret >= 0)
		rpc_reply(req, 0, msg.reply, (uint32_t)ret);
	else
		rpc_reply(req, ret, msg.reply, msg.error_len);
	if (type->time)
		hist_record(type->time, time_now_ns() - start);
	kfree(body);
	kfree(msg.reply);
	return RPC_DONE;
}

int memory_handlers_register(void)
{
	struct rpc_handler *handlers = kcalloc(nr_msg_types, sizeof(*handlers));
	int err = handlers ? 0 : -ENOMEM;

	/*
	 * One at a time: each is called with its own entry. The array lives as long as the kernel.
	 */
	for (size_t i = 0; i < nr_msg_types && !err; i++) {
		const struct msg_type *type = &msg_types[i];

		handlers[i] = (struct rpc_handler){
			.opcode = type->opcode,
			.flags = type->flags & MSG_RPC_FLAGS,
			.name = type->name,
			.fn = type->direct ? type->direct : serve_request,
		};
		err = rpc_handlers_register(&handlers[i], 1, (void *)(uintptr_t)type);
	}
	return err;
}
