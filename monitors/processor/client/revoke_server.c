/* SPDX-License-Identifier: MIT */
/*
 * MP_REVOKE: a memory node takes back what it has let this node read.
 *
 * Failure:	a malformed request has no effect; the RPC layer refuses one of a node that is no
 *		memory node. A node can take back what is its own alone.
 */
#include "revoke_server.h"

#include <lib/errno.h>
#include <net/rpc.h>
#include <proto/mp.h>

static void (*forget_places)(uint32_t node, uint32_t number, bool below); /* const after start */

static enum rpc_handler_result handle_revoke(struct rpc_request *rpc, void *arg)
{
	struct mp_revoke_req_wire copy; /* the ring is the peer's to change */
	struct mp_revoke_req req;
	uint32_t len;
	int err = rpc_request_copy(rpc, &copy, sizeof(copy), &len);

	if (!err)
		err = mp_revoke_req_decode(&copy, len, &req);
	if (!err)
		forget_places(rpc_request_peer(rpc), req.extent, req.flags & MP_REVOKE_BELOW);
	rpc_reply(rpc, err, NULL, 0);
	return RPC_DONE;
}

/*
 * A thread of its own, as it waits for reads; the sender may be gone; races with itself: the
 * second finds less to do; twice: the same.
 */
static const struct rpc_handler handlers[] = {
	{ MP_REVOKE, RPC_HANDLER_FROM_MEMORY | RPC_HANDLER_IDEMPOTENT | RPC_HANDLER_WAITS, "revoke",
	  handle_revoke },
};

int revoke_serve(void (*forget)(uint32_t node, uint32_t number, bool below))
{
	forget_places = forget;
	return rpc_handlers_register(handlers, ARRAY_SIZE(handlers), NULL);
}
