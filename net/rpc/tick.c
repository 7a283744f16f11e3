/* SPDX-License-Identifier: MIT */
/*
 * RPC tick: deadlines, quarantines, and connections that may have lost their other end.
 *
 * Flow:	while anything is outstanding, a thread wakes every rpc.tick_ms and looks at all
 *		sessions; with nothing outstanding for a while it sleeps until the next submit.
 *		A connection that a call waits on is probed every rpc.probe_ms by an empty
 *		WRITE: when the other end is gone its completion says so, and a new connection
 *		carries the request again.
 * Failure:	the tick never decides that a peer is dead: membership does.
 */
#define PR_FMT "rpc: "

#include "rpc_priv.h"

#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>

#define IDLE_TICKS 20 /* so many without work, then sleep */

static void peer_tick(struct rpc_peer *peer, void *arg)
{
	const uint64_t *now = arg;

	if (READ_ONCE(peer->state) == RPC_PEER_REMOVED)
		return;
	for (uint32_t i = 0; i < RPC_NR_CLASSES; i++)
		rpc_session_tick(&peer->sessions[i], *now);
}

/* True: nothing is outstanding, and the thread that changes that will kick us. */
static bool tick_go_idle(void)
{
	atomic_xchg(&rpc_net.tick_idle, 1);
	/* Pairs with rpc_outstanding_inc(): one of the two sees the other. */
	if (atomic_add_return(&rpc_net.nr_outstanding, 0) == 0)
		return true;
	atomic_set(&rpc_net.tick_idle, 0);
	return false;
}

static void tick_main(void *arg)
{
	const uint64_t period = rpc_tune.tick_ms * NSEC_PER_MSEC;
	int nr_idle = 0;

	for (;;) {
		uint64_t now;

		if (nr_idle >= IDLE_TICKS && tick_go_idle()) {
			wait_event(&rpc_net.tick_wq, atomic_read(&rpc_net.tick_idle) == 0);
			nr_idle = 0;
		}
		thread_sleep_until(time_now_ns() + period);
		nr_idle = atomic_read(&rpc_net.nr_outstanding) ? 0 : nr_idle + 1;
		now = time_now_ns();
		rpc_peers_for_each(peer_tick, &now);
	}
}

void rpc_tick_kick(void)
{
	atomic_set(&rpc_net.tick_idle, 0);
	wake_one(&rpc_net.tick_wq);
}

int rpc_tick_init(void)
{
	struct thread *t;

	waitqueue_init(&rpc_net.tick_wq);
	t = thread_create("rpc-tick", tick_main, NULL);
	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	return 0;
}
