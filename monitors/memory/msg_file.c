/* SPDX-License-Identifier: MIT */
/*
 * Handlers of messages of processors about files that change.
 *
 * Context:	threads; they wait for storage.
 */
#include <lib/errno.h>

#include "dispatch.h"
#include "file_live.h"
#include "memory.h"

static int reply_state(const struct msg *msg, int err, const struct pm_file_state *state)
{
	struct pm_file_state_wire w;

	/* Storage was away for too long; -EHOSTDOWN would say that this node is gone. */
	if (err == -EHOSTDOWN || err == -ESHUTDOWN)
		return -EIO;
	if (err)
		return err;
	pm_file_state_encode(state, &w);
	return msg_reply(msg, &w, sizeof(w));
}

int msg_file_open(struct msg *msg)
{
	struct pm_file_state state;

	return reply_state(msg, file_open(msg->m, msg->req, &state), &state);
}

int msg_file_write(struct msg *msg)
{
	const struct pm_file_write_req *req = msg->req;
	struct pm_file_state state;

	if (msg->bulk_len != req->nr_pages * PAGE_SIZE)
		return -EMSGSIZE;
	return reply_state(msg, file_write(msg->m, req, msg->bulk, &state), &state);
}

int msg_file_change(struct msg *msg)
{
	struct pm_file_state state;

	return reply_state(msg, file_change(msg->m, msg->req, &state), &state);
}
