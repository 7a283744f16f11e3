/* SPDX-License-Identifier: MIT */
/*
 * Calls whose thread was killed, until they are answered.
 *
 * Limits:	each occupies a thread, of which there are LATE_THREADS: a node has few slots, so
 *		few calls can wait for it. Calls beyond that are looked after in turn.
 */
#include "late.h"

#include <kernel/counter.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <mm/slab.h>

#define LATE_THREADS 64u

COUNTER(late_left, "rpc.left_calls", "calls to memory nodes whose thread was killed meanwhile");

static struct workqueue *late_wq; /* const after start */
static struct backlog late;

static int prepare(struct late_call *lc, uint32_t node, uint16_t opcode, const void *body,
		   size_t len, void *reply, size_t max)
{
	lc->call = rpc_call_create(node, RPC_CLASS_CONTROL, opcode, body, (uint32_t)len);
	if (!lc->call)
		return -ENOMEM;
	lc->call->reply = reply;
	lc->call->reply_max = (uint32_t)max;
	return 0;
}

static int forget_unsent(struct late_call *lc, int err)
{
	if (err) {
		rpc_call_put(lc->call);
		lc->call = NULL;
	}
	return err;
}

int late_call_submit(struct late_call *lc, uint32_t node, uint16_t opcode, const void *body,
		     size_t len, void *reply, size_t max)
{
	const int err = prepare(lc, node, opcode, body, len, reply, max);

	return err ? err : forget_unsent(lc, rpc_call_submit_killable(lc->call));
}

int late_call_try(struct late_call *lc, uint32_t node, uint16_t opcode, const void *body,
		  size_t len, void *reply, size_t max)
{
	const int err = prepare(lc, node, opcode, body, len, reply, max);

	return err ? err : forget_unsent(lc, rpc_call_submit(lc->call));
}

static int result(struct late_call *lc)
{
	struct rpc_call *call = lc->call;
	const int ret = call->status ? call->status : (int)call->reply_len;

	lc->call = NULL;
	rpc_call_put(call);
	return ret;
}

static void late_work(struct work *w)
{
	struct late_call *lc = container_of(w, struct late_call, work);

	(void)rpc_call_wait(lc->call);
	lc->answered(lc, result(lc));
	backlog_done(&late, &lc->item);
	kfree(lc);
}

bool late_call_wait(struct late_call *lc, int *len)
{
	ASSERT(lc->call);
	if (rpc_call_wait_or_leave(lc->call)) {
		*len = result(lc);
		return true;
	}
	counter_inc(&late_left);
	(void)backlog_add(&late, &lc->item);
	work_init(&lc->work, late_work);
	(void)work_queue(late_wq, &lc->work);
	return false;
}

int late_calls_wait(void)
{
	return backlog_wait(&late, WAIT_PLAIN);
}

uint64_t late_calls_left(void)
{
	return backlog_size(&late);
}

int late_init(void)
{
	backlog_init(&late, "calls.left");
	late_wq = workqueue_create("left-calls", LATE_THREADS);
	return IS_ERR(late_wq) ? PTR_ERR(late_wq) : 0;
}
