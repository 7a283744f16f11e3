/* SPDX-License-Identifier: MIT */
/*
 * Calls to a storage node that may be away for a while: killed and started again, or silent.
 *
 * Flow:	a call that ends with the node's life is made again to its next one; one without an
 *		answer goes on while the node is there, however slow it is.
 * Failure:	-EHOSTDOWN: the node was away for storage.wait_s seconds. Programs get EIO.
 * Ordering:	a call may be executed twice, by two lives of the node: it changes nothing, or the
 *		node knows by its id that it has been done.
 * Context:	threads; sleeps.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct rpc_call;

/* For how long a storage node may be away. */
uint64_t patience_ns(void);

/*
 * Make the call that @make makes, once for each try (NULL: no memory), to storage node @node.
 * Returns the length of its reply, what the node has answered, -ENOMEM, -EHOSTDOWN, or -EINTR, only
 * if @killable. A call that is not submitted has its release() run here.
 */
int patient_call(uint32_t node, struct rpc_call *(*make)(void *arg), void *arg, bool killable);

/*
 * A call to @node has ended without an answer, with @err (-EHOSTDOWN or -ETIMEDOUT). Wait until the
 * next one may be made: 0; -EHOSTDOWN; -EINTR, only if @killable.
 */
int patience_wait(uint32_t node, int err, bool killable) __must_check;

/*
 * Wait for a storage node until @is_there(@node), which may not sleep: 0, -EHOSTDOWN, -EINTR.
 */
int patience_wait_until(bool (*is_there)(uint32_t node), uint32_t node, bool killable) __must_check;
