/* SPDX-License-Identifier: MIT */
/*
 * Connections of AF_UNIX to other processors: the messages that make them.
 *
 * Context:	a question ends in polling context; it is answered in a worker.
 * Failure:	a malformed request has no effect but its errno.
 * See:		docs/protocol/pp.md
 */
#include <lib/err.h>
#include <lib/string.h>
#include <net/node.h>
#include <net/rpc.h>
#include <proto/pp.h>

#include "unix_remote.h"
#include "unix_remote_private.h"

static_assert(PP_UNIX_NAME == sizeof(((struct unix_far *)0)->path), "the same");
static_assert((int)PP_UNIX_STREAM == SOCK_STREAM && (int)PP_UNIX_SEQPACKET == SOCK_SEQPACKET,
	      "the same");
static_assert(sizeof(((struct unix_question *)0)->reply) == sizeof(struct pp_unix_connect_rep_wire),
	      "fits");

/* --- questions of this processor ---------------------------------------------------------- */

static void connect_ended(struct rpc_call *call)
{
	struct remote_conn *c = call->arg;
	struct unix_question *q = c->extra;
	struct pp_unix_connect_rep rep = { 0 };
	int err = call->status;

	if (!err)
		err = pp_unix_connect_rep_decode(q->reply, call->reply_len, &rep);
	if (!err) {
		struct unix_side there = { .cred = { rep.pid, rep.uid, rep.gid } };

		there.name.len = rep.name_len;
		memcpy(there.name.path, rep.name, sizeof(there.name.path));
		unix_remote_learn(c, &there);
	}
	remote_connected(c, err, rep.conn, rep.limit);
	remote_put(c);
}

int unix_net_ask(struct remote_conn *c, uint64_t limit)
{
	struct unix_question *q = c->extra;
	struct pp_unix_connect_req req = {
		.conn = c->id,
		.limit = limit,
		.vnode = PROTO_VNODE_ROOT, /* so far a processor has programs of no other */
		.type = (uint16_t)q->type,
		.name_len = (uint16_t)q->from.name.len,
		.pid = q->from.cred.pid,
		.uid = q->from.cred.uid,
		.gid = q->from.cred.gid,
	};
	struct pp_unix_connect_req_wire w;
	struct rpc_call *call;

	memcpy(req.key, q->key, sizeof(req.key));
	memcpy(req.name, q->from.name.path, q->from.name.len);
	pp_unix_connect_req_encode(&req, &w);
	call = rpc_call_create(c->peer, RPC_CLASS_CONTROL, PP_UNIX_CONNECT, &w, sizeof(w));
	if (call) {
		call->reply = q->reply;
		call->reply_max = sizeof(q->reply);
		call->release = connect_ended;
	}
	return remote_net_submit(c, call);
}

/* --- questions of other processors -------------------------------------------------------- */

static int accept_one(const struct rpc_request *req, struct pp_unix_connect_rep *rep)
{
	struct remote_request r = { .node = rpc_request_peer(req),
				    .incarn = rpc_request_incarn(req) };
	struct pp_unix_connect_req_wire w;
	struct pp_unix_connect_req in;
	struct unix_question q = { 0 };
	struct unix_side here = { 0 };
	uint32_t len;
	int err = rpc_request_copy(req, &w, sizeof(w), &len);

	if (!err)
		err = pp_unix_connect_req_decode(&w, len, &in);
	if (!err)
		err = remote_check_vnode(in.vnode, r.node);
	if (err)
		return err;
	r.conn = in.conn;
	r.limit = in.limit;
	q.type = in.type;
	q.from.cred = (struct socket_cred){ in.pid, in.uid, in.gid };
	q.from.name.len = in.name_len;
	memcpy(q.from.name.path, in.name, sizeof(q.from.name.path));
	memcpy(q.key, in.key, sizeof(q.key));
	err = unix_remote_accept(&r, &q, &here, &rep->conn, &rep->limit);
	rep->pid = here.cred.pid;
	rep->uid = here.cred.uid;
	rep->gid = here.cred.gid;
	rep->name_len = (uint16_t)here.name.len;
	memcpy(rep->name, here.name.path, here.name.len);
	return err;
}

static enum rpc_handler_result handle_connect(struct rpc_request *req, void *arg)
{
	struct pp_unix_connect_rep_wire w;
	struct pp_unix_connect_rep rep = { 0 };
	const int err = accept_one(req, &rep);

	pp_unix_connect_rep_encode(&rep, &w);
	rpc_reply(req, err, err ? NULL : &w, err ? 0 : sizeof(w));
	return RPC_DONE;
}

/*
 * The sender may be gone: membership says so soon, and then its connections are reset. It races
 * with the end of the listener. Twice it makes two connections, so it is executed once.
 */
static const struct rpc_handler handlers[] = {
	{ PP_UNIX_CONNECT, RPC_HANDLER_FROM_PROCESSOR, "socket-unix-connect", handle_connect },
};

int unix_remote_init(void)
{
	int err = unix_far_start();

	if (!err)
		err = unix_far_net_init();
	return err ? err : rpc_handlers_register(handlers, ARRAY_SIZE(handlers), NULL);
}
