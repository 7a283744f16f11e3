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
#include <kernel/wait.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/rpc.h>

#include "storage.h"

COUNTER(storage_errors, "storage.errors", "requests that were answered with an error");
COUNTER(storage_pages_sent, "storage.pages_sent", "pages of files written to memory nodes");
HISTOGRAM(storage_write_ns, "storage.write_ns", "MS_WRITE, from its arrival to its reply");
HISTOGRAM(storage_read_ns, "storage.read_ns", "MS_READ, from its arrival to its reply");

static struct storage *storage; /* const once handlers are registered */

/* Requests under way, and whether new ones are let in. */
static struct {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	uint64_t nr __guarded_by(&lock);
	bool closed __guarded_by(&lock);
	struct waitqueue quiet;
} gate = { .lock = SPINLOCK_INIT("storage.gate", RANK_SPIN_MONITOR) };

static bool gate_enter(void)
{
	bool in;

	spin_lock(&gate.lock);
	in = !gate.closed;
	gate.nr += in;
	spin_unlock(&gate.lock);
	return in;
}

static void gate_leave(void)
{
	bool quiet;

	spin_lock(&gate.lock);
	ASSERT(gate.nr);
	quiet = !--gate.nr && gate.closed;
	spin_unlock(&gate.lock);
	if (quiet)
		wake_all(&gate.quiet);
}

static bool gate_is_quiet(void)
{
	bool quiet;

	spin_lock(&gate.lock);
	quiet = !gate.nr;
	spin_unlock(&gate.lock);
	return quiet;
}

int storage_serve_end(uint64_t ns)
{
	spin_lock(&gate.lock);
	gate.closed = true;
	spin_unlock(&gate.lock);
	return wait_event_timeout(&gate.quiet, gate_is_quiet(), time_after_ns(ns)) ? 0 : -ETIMEDOUT;
}

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
	if (!err && claim_is_others(&storage->claims, &buf->read.file, rpc_request_peer(req)))
		err = -EREMCHG;
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

/* --- files that change ------------------------------------------------------------------- */

static void answer_state(struct rpc_request *req, int err, const struct ms_file_state *state)
{
	struct ms_file_state_wire w;

	if (!err)
		ms_file_state_encode(state, &w);
	answer(req, err ? err : (ssize_t)sizeof(w), &w);
}

static struct storage_peer claimant_of(const struct rpc_request *req)
{
	return (struct storage_peer){ .node = rpc_request_peer(req),
				      .incarn = rpc_request_incarn(req) };
}

static enum rpc_handler_result handle_claim(struct rpc_request *req, void *arg)
{
	const struct storage_peer who = claimant_of(req);
	struct ms_file_state state;
	struct ms_claim_req_wire w;
	struct ms_claim_req claim;
	uint32_t len;
	int err = rpc_request_copy(req, &w, sizeof(w), &len);

	if (!err)
		err = ms_claim_req_decode(&w, len, &claim);
	if (!err)
		err = storage_claim(storage, &who, &claim, &state);
	answer_state(req, err, &state);
	return RPC_DONE;
}

/* The pages are copied out of the ring, which their sender could change, to where disks read. */
static enum rpc_handler_result handle_write(struct rpc_request *req, void *arg)
{
	const struct storage_peer who = claimant_of(req);
	const uint64_t start = time_now_ns();
	struct ms_file_state state;
	struct ms_write_req_wire w;
	struct ms_write_req write;
	struct storage_buf *buf;
	uint32_t len, bulk_len;
	const uint8_t *data = rpc_request_bulk(req, &bulk_len);
	int err = rpc_request_copy(req, &w, sizeof(w), &len);

	if (!err)
		err = ms_write_req_decode(&w, len, &write);
	if (!err && bulk_len != write.nr_pages * PAGE_SIZE)
		err = -EMSGSIZE;
	if (!err) {
		buf = bufpool_get();
		for (uint32_t i = 0; i < write.nr_pages; i++)
			memcpy(buf->pages[i], data + (size_t)i * PAGE_SIZE, PAGE_SIZE);
		err = storage_write(storage, &who, &write, buf->pages, &state);
		bufpool_put(buf);
	}
	answer_state(req, err, &state);
	hist_record(&storage_write_ns, time_now_ns() - start);
	return RPC_DONE;
}

static enum rpc_handler_result handle_change(struct rpc_request *req, void *arg)
{
	const struct storage_peer who = claimant_of(req);
	struct ms_change_req change;
	struct ms_change_req_wire w;
	struct ms_file_state state;
	uint32_t len;
	int err = rpc_request_copy(req, &w, sizeof(w), &len);

	if (!err)
		err = ms_change_req_decode(&w, len, &change);
	if (!err)
		err = storage_file_change(storage, &who, &change, &state);
	answer_state(req, err, &state);
	return RPC_DONE;
}

static enum rpc_handler_result handle_release(struct rpc_request *req, void *arg)
{
	const struct storage_peer who = claimant_of(req);
	struct ms_release_req release;
	struct ms_release_req_wire w;
	uint32_t len;
	int err = rpc_request_copy(req, &w, sizeof(w), &len);

	if (!err)
		err = ms_release_req_decode(&w, len, &release);
	if (!err)
		storage_release(storage, &who, &release);
	answer(req, err, NULL);
	return RPC_DONE;
}

static enum rpc_handler_result handle_reserve(struct rpc_request *req, void *arg)
{
	const struct storage_peer who = claimant_of(req);
	struct ms_reserve_rep_wire reply;
	struct ms_reserve_req reserve;
	struct ms_reserve_req_wire w;
	struct ms_reserve_rep rep;
	uint32_t len;
	int err = rpc_request_copy(req, &w, sizeof(w), &len);

	if (!err)
		err = ms_reserve_req_decode(&w, len, &reserve);
	if (!err)
		err = storage_reserve(storage, &who, &reserve, &rep);
	if (!err)
		ms_reserve_rep_encode(&rep, &reply);
	answer(req, err ? err : (ssize_t)sizeof(reply), &reply);
	return RPC_DONE;
}

static enum rpc_handler_result handle_declare(struct rpc_request *req, void *arg)
{
	const struct storage_peer who = claimant_of(req);
	struct ms_declare_req declare;
	struct ms_declare_req_wire w;
	uint32_t len;
	int err = rpc_request_copy(req, &w, sizeof(w), &len);

	if (!err)
		err = ms_declare_req_decode(&w, len, &declare);
	if (!err)
		err = storage_declare_claims(storage, &who, &declare);
	answer(req, err, NULL);
	return RPC_DONE;
}

/* Of messages that come or go with pages, or whose sender counts. */
static enum rpc_handler_result (*direct_of(uint16_t opcode))(struct rpc_request *req, void *arg)
{
	switch (opcode) {
	case MS_READ:
		return handle_read;
	case MS_CLAIM:
		return handle_claim;
	case MS_WRITE:
		return handle_write;
	case MS_CHANGE:
		return handle_change;
	case MS_RELEASE:
		return handle_release;
	case MS_RESERVE:
		return handle_reserve;
	case MS_DECLARE:
		return handle_declare;
	default:
		return NULL;
	}
}

/* All handlers come here. @arg: the message's entry in the table. */
static enum rpc_handler_result serve_request(struct rpc_request *req, void *arg)
{
	const struct storage_msg *msg = arg;
	enum rpc_handler_result result;

	if (!gate_enter()) {
		answer(req, -ESHUTDOWN, NULL);
		return RPC_DONE;
	}
	if (msg->service || msg->client_service)
		result = handle(req, arg);
	else
		result = direct_of(msg->opcode)(req, arg);
	gate_leave();
	return result;
}

int storage_serve(struct storage *st)
{
	struct rpc_handler *handlers = kcalloc(nr_storage_msgs, sizeof(*handlers));
	int err = handlers ? 0 : -ENOMEM;

	storage = st;
	waitqueue_init(&gate.quiet);
	/*
	 * One at a time: each is called with its own entry. The array lives as long as the kernel.
	 */
	for (size_t i = 0; i < nr_storage_msgs && !err; i++) {
		const struct storage_msg *msg = &storage_msgs[i];

		handlers[i] = (struct rpc_handler){
			.opcode = msg->opcode,
			.flags = msg->flags,
			.name = msg->name,
			.fn = serve_request,
		};
		err = rpc_handlers_register(&handlers[i], 1, (void *)(uintptr_t)msg);
	}
	return err;
}
