/* SPDX-License-Identifier: MIT */
/*
 * MP_OOM: a memory node has no frame left.
 *
 * Failure:	a malformed request has no effect; the RPC layer refuses one of a node that is no
 *		memory node.
 */
#include "oom_server.h"

#include <lib/errno.h>
#include <lib/string.h>
#include <net/rpc.h>
#include <proto/mp.h>

static_assert((int)OOM_NONE == (int)MP_OOM_NONE, "the same");
static_assert((int)OOM_CANDIDATE == (int)MP_OOM_CANDIDATE, "the same");
static_assert((int)OOM_ENDING == (int)MP_OOM_ENDING, "the same");

static int serve(const struct oom_ops *ops, uint32_t peer, const void *body, size_t len,
		 struct oom_answer *out)
{
	struct mp_oom_req req;
	int err = mp_oom_req_decode(body, len, &req);

	if (err)
		return err;
	if (req.flags & MP_OOM_END)
		return ops->end(peer, req.pid, out);
	ops->choose(peer, req.total, out);
	return 0;
}

static enum rpc_handler_result handle_oom(struct rpc_request *req, void *arg)
{
	struct oom_answer out = { 0 };
	struct mp_oom_req_wire copy;
	struct mp_oom_rep_wire w;
	struct mp_oom_rep rep;
	uint32_t len;
	const void *body = rpc_request_body(req, &len);
	int err = len == sizeof(copy) ? 0 : -EMSGSIZE;

	if (!err) {
		memcpy(&copy, body, sizeof(copy)); /* the ring is the peer's to change */
		err = serve(arg, rpc_request_peer(req), &copy, sizeof(copy), &out);
	}
	rep = (struct mp_oom_rep){ out.badness, out.frames, out.pid, (uint32_t)out.state };
	mp_oom_rep_encode(&rep, &w);
	rpc_reply(req, err, err ? NULL : &w, err ? 0 : sizeof(w));
	return RPC_DONE;
}

/*
 * A thread of its own; the sender may be gone; races with itself: one process is ended once; twice:
 * the same.
 */
static const struct rpc_handler handlers[] = {
	{ MP_OOM, RPC_HANDLER_FROM_MEMORY | RPC_HANDLER_IDEMPOTENT | RPC_HANDLER_WAITS, "oom",
	  handle_oom },
};

int oom_serve(const struct oom_ops *ops)
{
	return rpc_handlers_register(handlers, ARRAY_SIZE(handlers), (void *)(uintptr_t)ops);
}
