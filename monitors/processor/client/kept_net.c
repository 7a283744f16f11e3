/* SPDX-License-Identifier: MIT */
/*
 * Names and attributes that this processor keeps: asking for it, and SP_RECALL.
 *
 * Failure:	a storage node that does not answer, or refuses, is asked as often as before.
 */
#include <cluster/cluster.h>
#include <kernel/initcall.h>
#include <lib/errno.h>
#include <net/node.h>
#include <net/rpc.h>
#include <proto/sp.h>

#include "behind.h"
#include "change.h"
#include "kept.h"
#include "kept_private.h"

void kept_ask(uint32_t node)
{
	bool granted = false;
	uint64_t gen;

	/* The node would refuse it. */
	if (cluster_nodes(NODE_ROLE_PROCESSOR, NULL, 0) > 1 || !kept_ask_begin(node, &gen))
		return;
	if (storage_ask_keep(node, &granted))
		granted = false;
	kept_ask_end(node, gen, granted);
}

static enum rpc_handler_result handle_recall(struct rpc_request *req, void *arg)
{
	uint32_t len;
	int err = 0;

	(void)arg;
	(void)rpc_request_body(req, &len);
	if (!len) {
		err = kept_recall(rpc_request_peer(req));
		/* The node does these while it waits for the answer. */
		(void)!behind_flush(rpc_request_peer(req), false);
		behind_forget_rooms(rpc_request_peer(req));
	}
	rpc_reply(req, len ? -EMSGSIZE : err, NULL, 0);
	return RPC_DONE;
}

/*
 * A thread of its own, which waits for the node that sends it, and for memory nodes, which do not
 * wait for the sender's answer to another processor; the sender may be gone; races with answers on
 * their way, which then are not kept; twice: the same.
 */
static const struct rpc_handler handlers[] = {
	{ SP_RECALL, RPC_HANDLER_FROM_STORAGE | RPC_HANDLER_IDEMPOTENT | RPC_HANDLER_WAITS,
	  "sp.recall", handle_recall },
};

static int kept_init(void)
{
	return rpc_handlers_register(handlers, ARRAY_SIZE(handlers), NULL);
}
INITCALL(fs, kept_init);
