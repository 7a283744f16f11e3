/* SPDX-License-Identifier: MIT */
/*
 * Connections to sockets on other processors: the messages.
 *
 * Flow:	remote_conn.c says what is to be sent and hears what comes of it; requests of other
 *		processors are decoded here and go there.
 * Context:	calls end, and bytes are received, in polling context; connections are accepted in a
 *		worker.
 * Failure:	a malformed request has no effect but its errno.
 */
#include <cluster/cluster.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/string.h>
#include <net/node.h>
#include <net/rpc.h>
#include <proto/pp.h>

#include "relay.h"
#include "remote_private.h"

COUNTER(remote_messages, "socket.remote.messages", "messages of bytes to other processors");
COUNTER(remote_bytes, "socket.remote.bytes", "bytes to other processors");
COUNTER(remote_bulks, "socket.remote.bulks", "of the messages, those whose bytes the device read");
COUNTER(remote_copied, "socket.remote.copied",
	"bytes that this node copied between a program's write() and another's read()");
COUNTER(remote_windows, "socket.remote.windows", "messages that told of room for more bytes");
COUNTER(remote_resets, "socket.remote.resets", "connections reset at another processor");

static_assert(REMOTE_SMALL == PP_INLINE_MAX && REMOTE_LARGE <= PP_BULK_MAX, "one message");
static_assert(sizeof(struct pp_data_req_wire) == REMOTE_HEAD, "fits");
static_assert(PP_INLINE_MAX + sizeof(struct pp_data_req_wire) <= RPC_BODY_MAX, "fits");
static_assert(PP_BULK_MAX <= RPC_BULK_MAX, "fits");
static_assert((int)REMOTE_FIN == (int)PP_FIN && (int)REMOTE_CLOSED == (int)PP_CLOSED &&
		      (int)REMOTE_DEAF == (int)PP_DEAF,
	      "the same");
static_assert(sizeof(((struct remote_conn *)0)->connect_reply) ==
		      sizeof(struct pp_connect_rep_wire),
	      "fits");
static_assert(sizeof(((struct remote_conn *)0)->data_reply) == sizeof(struct pp_data_rep_wire),
	      "fits");

/* --- requests of this processor ----------------------------------------------------------- */

int remote_net_submit(struct remote_conn *c, struct rpc_call *call)
{
	int err;

	if (!call)
		return -ENOMEM;
	call->arg = c;
	remote_get(c);
	err = rpc_call_submit(call);
	rpc_call_put(call);
	if (err)
		remote_put(c);
	return err;
}

static void connect_ended(struct rpc_call *call)
{
	struct remote_conn *c = call->arg;
	struct pp_connect_rep rep = { 0 };
	int err = call->status;

	if (!err)
		err = pp_connect_rep_decode(c->connect_reply, call->reply_len, &rep);
	remote_connected(c, err, rep.conn, rep.limit);
	remote_put(c);
}

int remote_net_connect(struct remote_conn *c, uint64_t limit)
{
	struct pp_connect_req req = {
		.conn = c->id,
		.limit = limit,
		.vnode = PROTO_VNODE_ROOT, /* so far a processor has programs of no other */
		.from_port = c->from.port,
		.to_port = c->to.port,
	};
	struct pp_connect_req_wire w;
	struct rpc_call *call;

	memcpy(req.from_addr, c->from.addr, sizeof(req.from_addr));
	memcpy(req.to_addr, c->to.addr, sizeof(req.to_addr));
	if (c->outside) {
		req.flags = PP_OUTSIDE;
		req.scope = c->to.scope_id;
	}
	pp_connect_req_encode(&req, &w);
	call = rpc_call_create(c->peer, RPC_CLASS_CONTROL, PP_CONNECT, &w, sizeof(w));
	if (call) {
		call->reply = c->connect_reply;
		call->reply_max = sizeof(c->connect_reply);
		call->release = connect_ended;
	}
	return remote_net_submit(c, call);
}

/* Nothing reads the bytes any more: the buffer may be used again. */
static void data_ended(struct rpc_call *call)
{
	struct remote_conn *c = call->arg;
	struct pp_data_rep rep = { 0 };
	int err = call->status;

	if (!err)
		err = pp_data_rep_decode(c->data_reply, call->reply_len, &rep);
	remote_sent(c, err, rep.limit);
	remote_put(c);
}

/*
 * The header goes in front of the bytes: there lie bytes that have been sent, or the space for it.
 */
int remote_net_data(struct remote_conn *c, struct remote_buf *b, uint32_t off, uint32_t len,
		    uint64_t position, uint64_t limit, uint32_t flags)
{
	const struct pp_data_req req = {
		.conn = c->peer_id,
		.position = position,
		.limit = limit,
		.len = len,
		.flags = flags,
	};
	const bool bulk = len > REMOTE_SMALL;
	struct pp_data_req_wire w;
	const void *body = &w;
	struct rpc_call *call;
	struct rpc_sge sge;
	int err;

	ASSERT(!bulk || b->mem);
	pp_data_req_encode(&req, &w);
	if (!bulk && len)
		body = memcpy(b->data + off - sizeof(w), &w, sizeof(w));
	call = rpc_call_create(c->peer, bulk ? RPC_CLASS_WRITEBACK : RPC_CLASS_DEMAND, PP_DATA,
			       body, (uint32_t)sizeof(w) + (bulk ? 0 : len));
	if (call) {
		call->reply = c->data_reply;
		call->reply_max = sizeof(c->data_reply);
		call->release = data_ended;
	}
	if (call && bulk) {
		sge = (struct rpc_sge){ .mem = b->mem, .addr = b->paddr + off, .len = len };
		call->bulk = &sge;
		call->nr_bulk = 1;
	}
	err = remote_net_submit(c, call);
	if (err)
		return err;
	counter_inc(&remote_messages);
	counter_add(&remote_bytes, len);
	if (bulk)
		counter_inc(&remote_bulks);
	else
		counter_add(&remote_copied, len); /* into the message */
	return 0;
}

static void told(struct rpc_call *call)
{
	remote_put(call->arg);
}

int remote_net_window(struct remote_conn *c, uint64_t limit)
{
	const struct pp_window window = { .conn = c->peer_id, .limit = limit };
	struct pp_window_wire w;
	struct rpc_call *call;

	pp_window_encode(&window, &w);
	call = rpc_call_create(c->peer, RPC_CLASS_CONTROL, PP_WINDOW, &w, sizeof(w));
	if (call)
		call->release = told;
	counter_inc(&remote_windows);
	return remote_net_submit(c, call);
}

int remote_net_reset(struct remote_conn *c)
{
	const struct pp_reset reset = { .conn = c->peer_id };
	struct pp_reset_wire w;
	struct rpc_call *call;

	pp_reset_encode(&reset, &w);
	call = rpc_call_create(c->peer, RPC_CLASS_CONTROL, PP_RESET, &w, sizeof(w));
	if (call)
		call->release = told;
	counter_inc(&remote_resets);
	return remote_net_submit(c, call);
}

int remote_net_opened(struct remote_conn *c, int status, const uint8_t addr[16])
{
	struct pp_opened opened = { .conn = c->peer_id, .status = status };
	struct pp_opened_wire w;
	struct rpc_call *call;

	memcpy(opened.addr, addr, sizeof(opened.addr));
	pp_opened_encode(&opened, &w);
	call = rpc_call_create(c->peer, RPC_CLASS_CONTROL, PP_OPENED, &w, sizeof(w));
	if (call)
		call->release = told;
	return remote_net_submit(c, call);
}

int remote_net_options(struct remote_conn *c, struct socket *s)
{
	struct remote_options o;
	struct pp_options options;
	struct pp_options_wire w;
	struct rpc_call *call;

	remote_options_of(s, &o);
	options = (struct pp_options){
		.conn = c->peer_id,
		.user_timeout_ms = o.user_timeout_ms,
		.keep_idle_s = o.keep_idle_s,
		.keep_interval_s = o.keep_interval_s,
		.keep_count = o.keep_count,
		.ttl = o.ttl,
		.tos = o.tos,
		.flags = (uint8_t)((o.nodelay ? PP_NODELAY : 0) | (o.keepalive ? PP_KEEPALIVE : 0)),
	};
	pp_options_encode(&options, &w);
	call = rpc_call_create(c->peer, RPC_CLASS_CONTROL, PP_OPTIONS, &w, sizeof(w));
	if (call)
		call->release = told;
	return remote_net_submit(c, call);
}

/* --- requests of other processors ------------------------------------------------------------ */

int remote_check_vnode(uint32_t vnode, uint32_t node)
{
	const int err = cluster_vnode_check(vnode, node, false);

	/* Sockets of this processor are all of one vNode; a sender in two may mean the other. */
	return err ? err : vnode == PROTO_VNODE_ROOT ? 0 : -EACCES;
}

static int accept_one(const struct rpc_request *req, struct pp_connect_rep *rep)
{
	struct remote_request r = { .node = rpc_request_peer(req),
				    .incarn = rpc_request_incarn(req) };
	struct pp_connect_req_wire w;
	struct pp_connect_req in;
	uint32_t len;
	int err = rpc_request_copy(req, &w, sizeof(w), &len);

	if (!err)
		err = pp_connect_req_decode(&w, len, &in);
	if (!err)
		err = remote_check_vnode(in.vnode, r.node);
	if (err)
		return err;
	r.conn = in.conn;
	r.limit = in.limit;
	r.from.port = in.from_port;
	r.to.port = in.to_port;
	memcpy(r.from.addr, in.from_addr, sizeof(r.from.addr));
	memcpy(r.to.addr, in.to_addr, sizeof(r.to.addr));
	r.to.scope_id = in.scope;
	r.outside = in.flags & PP_OUTSIDE;
	if (r.outside)
		return relay_connect(&r, &rep->conn, &rep->limit);
	return remote_accept(&r, &rep->conn, &rep->limit);
}

static enum rpc_handler_result handle_connect(struct rpc_request *req, void *arg)
{
	struct pp_connect_rep_wire w;
	struct pp_connect_rep rep = { 0 };
	const int err = accept_one(req, &rep);

	pp_connect_rep_encode(&rep, &w);
	rpc_reply(req, err, err ? NULL : &w, err ? 0 : sizeof(w));
	return RPC_DONE;
}

static enum rpc_handler_result handle_data(struct rpc_request *req, void *arg)
{
	struct remote_message m = { .node = rpc_request_peer(req),
				    .incarn = rpc_request_incarn(req) };
	uint32_t len, bulk_len;
	const uint8_t *body = rpc_request_body(req, &len);
	const void *bulk = rpc_request_bulk(req, &bulk_len);
	struct pp_data_req_wire head;
	struct remote_result res = { 0 };
	struct pp_data_rep_wire w;
	struct pp_data_req r;
	int err = len < sizeof(head) ? -EMSGSIZE : 0;

	if (!err) {
		/* The ring is the peer's to change: the header is copied once, the bytes, too. */
		memcpy(&head, body, sizeof(head));
		err = pp_data_req_decode(&head, sizeof(head), &r);
	}
	if (!err)
		err = pp_data_check(&r, len - (uint32_t)sizeof(head), bulk_len);
	if (!err) {
		m.conn = r.conn;
		m.position = r.position;
		m.limit = r.limit;
		m.len = r.len;
		m.fin = r.flags & PP_FIN;
		m.closed = r.flags & PP_CLOSED;
		m.deaf = r.flags & PP_DEAF;
		m.data = bulk_len ? bulk : body + sizeof(head);
		m.req = bulk_len ? req : NULL;
		err = remote_receive(&m, &res);
		if (res.lent)
			return RPC_DONE;
		if (!err)
			counter_add(&remote_copied, m.len); /* into the socket's queue */
	}
	pp_data_rep_encode(&(struct pp_data_rep){ .limit = res.limit }, &w);
	/* Only a small message has its answer in its own class. */
	if (res.answer && !err && !bulk_len)
		rpc_reply_late(req, 0, &w, sizeof(w));
	else
		rpc_reply(req, err, err ? NULL : &w, err ? 0 : sizeof(w));
	return RPC_DONE;
}

void remote_net_read(struct rpc_request *req, uint64_t limit)
{
	const struct pp_data_rep rep = { .limit = limit };
	struct pp_data_rep_wire w;

	pp_data_rep_encode(&rep, &w);
	rpc_reply(req, 0, &w, sizeof(w));
}

static enum rpc_handler_result handle_window(struct rpc_request *req, void *arg)
{
	struct remote_message m = { .node = rpc_request_peer(req),
				    .incarn = rpc_request_incarn(req) };
	struct pp_window_wire w;
	struct pp_window in;
	uint32_t len;
	int err = rpc_request_copy(req, &w, sizeof(w), &len);

	if (!err)
		err = pp_window_decode(&w, len, &in);
	if (!err) {
		m.conn = in.conn;
		m.limit = in.limit;
		err = remote_window(&m);
	}
	rpc_reply(req, err, NULL, 0);
	return RPC_DONE;
}

static enum rpc_handler_result handle_reset(struct rpc_request *req, void *arg)
{
	struct remote_message m = { .node = rpc_request_peer(req),
				    .incarn = rpc_request_incarn(req) };
	struct pp_reset_wire w;
	struct pp_reset in;
	uint32_t len;
	int err = rpc_request_copy(req, &w, sizeof(w), &len);

	if (!err)
		err = pp_reset_decode(&w, len, &in);
	if (!err) {
		m.conn = in.conn;
		err = remote_reset(&m);
	}
	rpc_reply(req, err, NULL, 0);
	return RPC_DONE;
}

static enum rpc_handler_result handle_opened(struct rpc_request *req, void *arg)
{
	struct remote_message m = { .node = rpc_request_peer(req),
				    .incarn = rpc_request_incarn(req) };
	struct pp_opened_wire w;
	struct pp_opened in;
	uint32_t len;
	int err = rpc_request_copy(req, &w, sizeof(w), &len);

	if (!err)
		err = pp_opened_decode(&w, len, &in);
	if (!err) {
		m.conn = in.conn;
		err = remote_opened(&m, in.status, in.addr);
	}
	rpc_reply(req, err, NULL, 0);
	return RPC_DONE;
}

static enum rpc_handler_result handle_options(struct rpc_request *req, void *arg)
{
	struct remote_message m = { .node = rpc_request_peer(req),
				    .incarn = rpc_request_incarn(req) };
	struct remote_options o;
	struct pp_options_wire w;
	struct pp_options in;
	uint32_t len;
	int err = rpc_request_copy(req, &w, sizeof(w), &len);

	if (!err)
		err = pp_options_decode(&w, len, &in);
	if (!err) {
		m.conn = in.conn;
		o = (struct remote_options){ .user_timeout_ms = in.user_timeout_ms,
					     .keep_idle_s = in.keep_idle_s,
					     .keep_interval_s = in.keep_interval_s,
					     .keep_count = in.keep_count,
					     .ttl = in.ttl,
					     .tos = in.tos,
					     .nodelay = in.flags & PP_NODELAY,
					     .keepalive = in.flags & PP_KEEPALIVE };
		err = remote_take_options(&m, &o);
	}
	rpc_reply(req, err, NULL, 0);
	return RPC_DONE;
}

#define FROM RPC_HANDLER_FROM_PROCESSOR

/*
 * The sender may be gone: membership says so soon, and then its connections are reset. All race
 * with the end of the connection; twice: two connections (so it is executed once), the second is
 * refused (likewise), the same, the same, the second is refused and changes nothing, the same.
 */
static const struct rpc_handler handlers[] = {
	{ PP_CONNECT, FROM, "socket-connect", handle_connect },
	{ PP_DATA, FROM | RPC_HANDLER_INLINE, "socket-data", handle_data },
	{ PP_WINDOW, FROM | RPC_HANDLER_INLINE | RPC_HANDLER_IDEMPOTENT, "socket-window",
	  handle_window },
	{ PP_RESET, FROM | RPC_HANDLER_INLINE | RPC_HANDLER_IDEMPOTENT, "socket-reset",
	  handle_reset },
	{ PP_OPENED, FROM | RPC_HANDLER_IDEMPOTENT, "socket-opened", handle_opened },
	{ PP_OPTIONS, FROM | RPC_HANDLER_IDEMPOTENT, "socket-options", handle_options },
};

int remote_net_init(void)
{
	return rpc_handlers_register(handlers, ARRAY_SIZE(handlers), NULL);
}
