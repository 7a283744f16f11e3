/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: requests and replies.
 *
 * Context:	handlers run in RPC's threads for handlers that may wait, one per request, so that
 *		a slow disk read holds up no other request.
 * Failure:	a request that does not decode, or has an unknown handle or path, is answered by an
 *		errno.  A processor may repeat any request: services that ask are idempotent, and a
 *		change is done once for each of its numbers.  Of memory nodes' requests all but
 *		MS_CHANGE are idempotent.
 */
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/rpc.h>

#include "storage.h"

COUNTER(storage_errors, "storage.errors", "requests that were answered with an error");
COUNTER(storage_pages_sent, "storage.pages_sent", "pages of files written to memory nodes");
HISTOGRAM(storage_read_ns, "storage.read_ns", "MS_READ, from its arrival to its reply");

/* A private copy of the request's body, which its sender could still change; NULL: no memory. */
static void *copy_body(struct rpc_request *req, uint32_t *len)
{
	const void *body = rpc_request_body(req, len);
	void *copy = kmalloc(MAX(*len, 1u));

	if (copy)
		memcpy(copy, body, *len);
	return copy;
}

static void answer(struct rpc_request *req, ssize_t ret, const void *reply)
{
	if (ret < 0 && ret != -ENOENT)
		counter_inc(&storage_errors);
	if (ret < 0)
		rpc_reply(req, (int)ret, NULL, 0);
	else
		rpc_reply(req, 0, reply, (uint32_t)ret);
}

/* @arg: the message's entry in the table. */
static enum rpc_handler_result handle(struct rpc_request *req, void *arg)
{
	const struct storage_msg *msg = arg;
	const struct storage_peer from = { rpc_request_peer(req), rpc_request_incarn(req) };
	const uint32_t cap = rpc_request_reply_max(req);
	void *body, *reply;
	ssize_t ret = -ENOMEM;
	uint32_t len;

	body = copy_body(req, &len);
	reply = kmalloc(cap);
	if (body && reply)
		ret = storage_serve_msg(storage, msg, &from, body, len, reply, cap);
	answer(req, ret, reply);
	kfree(reply);
	kfree(body);
	return RPC_DONE;
}

static void buf_sent(void *arg)
{
	bufpool_put(arg);
}

/* Send the pages that were read, then the reply that completes them, on one doorbell. */
static void reply_pages(struct rpc_request *req, const struct ms_read_rep *rep,
			struct storage_buf *buf)
{
	struct ms_read_rep_wire w;

	for (uint32_t i = 0; i < rep->nr_valid; i++)
		buf->writes[i] = (struct rpc_write){
			.src = { .mem = bufpool_mem(),
				 .addr = buf->paddr + ((uint64_t)i << PAGE_SHIFT),
				 .len = PAGE_SIZE },
			.remote_addr = buf->read.pages[i].addr,
			.rkey = buf->read.pages[i].rkey,
		};
	ms_read_rep_encode(rep, &w);
	counter_add(&storage_pages_sent, rep->nr_valid);
	rpc_reply_bulk(req, 0, &w, sizeof(w), buf->writes, rep->nr_valid, buf_sent, buf);
}

static enum rpc_handler_result handle_read(struct rpc_request *req, void *arg)
{
	const uint64_t start = time_now_ns();
	struct storage_buf *buf = bufpool_get();
	struct ms_read_rep rep;
	uint64_t body[(sizeof(struct ms_read_req_wire) +
		       MS_READ_MAX_PAGES * sizeof(struct proto_mr_ref_wire)) /
		      sizeof(uint64_t)];
	uint32_t len;
	int err;

	err = rpc_request_copy(req, body, sizeof(body), &len);
	if (!err)
		err = storage_check_vnode(storage, arg, rpc_request_peer(req), body, len);
	if (!err)
		err = ms_read_req_decode(body, len, &buf->read);
	if (!err)
		err = storage_read(storage, &buf->read, buf->pages, &rep);
	if (err) {
		bufpool_put(buf);
		answer(req, err, NULL);
		return RPC_DONE;
	}
	reply_pages(req, &rep, buf);
	hist_record(&storage_read_ns, time_now_ns() - start);
	return RPC_DONE;
}

#define FLAGS  (RPC_HANDLER_IDEMPOTENT | RPC_HANDLER_WAITS)
#define FOR_PS (FLAGS | RPC_HANDLER_FROM_PROCESSOR)
#define FOR_MS (FLAGS | RPC_HANDLER_FROM_MEMORY)

static const struct rpc_handler handlers[] = {
	{ PS_LOOKUP, FOR_PS, "ps.lookup", handle_lookup },
	{ PS_GETATTR, FOR_PS, "ps.getattr", handle_getattr },
	{ PS_READLINK, FOR_PS, "ps.readlink", handle_readlink },
	{ PS_GETDENTS, FOR_PS, "ps.getdents", handle_getdents },
	{ PS_STATFS, FOR_PS, "ps.statfs", handle_statfs },
	{ PS_ACCESS, FOR_PS, "ps.access", handle_access },
	{ MS_READ, FOR_MS, "ms.read", handle_read },
	{ MS_LOOKUP, FOR_MS, "ms.lookup", handle_lookup },
};

int storage_serve(struct storage *st)
{
	return rpc_handlers_register(handlers, ARRAY_SIZE(handlers), st);
}
