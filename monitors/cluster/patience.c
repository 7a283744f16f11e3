/* SPDX-License-Identifier: MIT */
/*
 * Calls to a storage node that may be away.
 *
 * Flow:	patient_call(): submit, wait; when the time is over ask the node whether it is
 *		there: the time begins anew if it is. A view that has the node again makes the next
 *		try.
 * Limits:	a node that comes and goes all the time is waited for as long as it does.
 */
#include <cluster/patience.h>

#include <cluster/cluster.h>
#include <cluster/membership.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <net/rpc.h>

#define ASK_NS (2 * NSEC_PER_SEC) /* for the answer of a node that may be dead */

static uint32_t wait_s = 120;
BOOT_PARAM_RANGE("storage.wait_s", u32, wait_s, 1, 86400,
		 "seconds that a storage node may be away before programs get EIO (default 120)");

COUNTER(calls_again, "cluster.storage_again",
	"calls made again to a storage node that was started again meanwhile");
COUNTER(calls_in_vain, "cluster.storage_in_vain",
	"waits for a storage node that was away for longer than storage.wait_s");

uint64_t patience_ns(void)
{
	return wait_s * NSEC_PER_SEC;
}

static uint64_t patience_until(void)
{
	return time_after_ns(patience_ns());
}

static int in_vain(void)
{
	counter_inc(&calls_in_vain);
	return -EHOSTDOWN;
}

/* A wait that timed out has found no answer: is that because the node is not there? */
static bool is_away(uint32_t node)
{
	return rpc_peer_reachable(node) || rpc_ping(node, ASK_NS);
}

static int submit(struct rpc_call *call, bool killable)
{
	int err;

	do {
		err = rpc_call_submit_until(call, patience_until(), killable);
	} while (err == -ETIMEDOUT && !is_away(call->peer));
	if (!err)
		return 0;
	if (call->release)
		call->release(call);
	return err == -ETIMEDOUT ? in_vain() : err;
}

static int wait(struct rpc_call *call, bool killable)
{
	int err;

	do {
		err = rpc_call_wait_until(call, patience_until(), killable);
	} while (err == -ETIMEDOUT && !is_away(call->peer));
	if (!err)
		return call->status;
	rpc_call_cancel(call);
	rpc_call_wait(call);
	/* It may have ended in the meantime. */
	if (call->status != -ECANCELED)
		return call->status;
	return err == -ETIMEDOUT ? in_vain() : err;
}

/* @lost: the call ended with the node's life. */
static int try_once(struct rpc_call *call, bool killable, bool *lost)
{
	int err = submit(call, killable);

	if (err) {
		*lost = err == -EHOSTDOWN;
		return err;
	}
	err = wait(call, killable);
	*lost = err == -EHOSTDOWN && !call->answered;
	return err ? err : (int)call->reply_len;
}

int patient_call(uint32_t node, struct rpc_call *(*make)(void *arg), void *arg, bool killable)
{
	struct rpc_call *call;
	bool lost;
	int ret;

	for (;;) {
		call = make(arg);
		if (!call)
			return -ENOMEM;
		ret = try_once(call, killable, &lost);
		rpc_call_put(call);
		if (!lost)
			return ret;
		ret = patience_wait(node, -EHOSTDOWN, killable);
		if (ret)
			return ret;
		counter_inc(&calls_again);
	}
}

static bool is_back(uint32_t node)
{
	return rpc_peer_reachable(node) != -EHOSTDOWN;
}

int patience_wait(uint32_t node, int err, bool killable)
{
	if (err == -ETIMEDOUT)
		return is_away(node) ? in_vain() : 0;
	err = cluster_wait_until(is_back, node, patience_until(), killable);
	return err == -ETIMEDOUT ? in_vain() : err;
}

int patience_wait_until(bool (*is_there)(uint32_t node), uint32_t node, bool killable)
{
	const int err = cluster_wait_until(is_there, node, patience_until(), killable);

	return err == -ETIMEDOUT ? in_vain() : err;
}
