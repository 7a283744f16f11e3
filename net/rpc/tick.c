/* SPDX-License-Identifier: MIT */
/*
 * RPC tick: deadlines, quarantines, keepalives and dead peers.
 *
 * Flow:	while anything is outstanding, a thread wakes every rpc.tick_ms and looks at all
 *		sessions; with nothing outstanding for a while it sleeps until the next submit.
 * Failure:	when the tick itself comes late, this virtual CPU stood still and may have
 *		missed traffic: the silence of every peer counts from now.
 */
#define PR_FMT "rpc: "

#include "rpc_priv.h"

#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>

#define IDLE_TICKS 20 /* so many without work, then sleep */

static void ping_done(struct rpc_call *call)
{
	struct rpc_peer *peer = call->arg;

	atomic_set(&peer->ping_pending, 0);
}

static void ping_send(struct rpc_peer *peer)
{
	struct rpc_call *call;

	if (atomic_xchg(&peer->ping_pending, 1))
		return;
	call = rpc_call_alloc();
	if (!call) {
		atomic_set(&peer->ping_pending, 0);
		return;
	}
	call->peer = peer->info.id;
	call->cls = RPC_CLASS_CONTROL;
	call->opcode = RPC_OP_PING;
	call->done = ping_done;
	call->arg = peer;
	if (rpc_call_submit(call) == 0)
		counter_inc(&rpc_c_pings);
	else
		atomic_set(&peer->ping_pending, 0);
	rpc_call_put(call);
}

struct tick {
	uint64_t now;
	bool late;
};

static void peer_tick(struct rpc_peer *peer, void *arg)
{
	const struct tick *t = arg;
	uint64_t since, silent;

	if (READ_ONCE(peer->state) == RPC_PEER_REMOVED)
		return;
	if (t->late)
		WRITE_ONCE(peer->last_rx_ns, t->now);
	for (uint32_t i = 0; i < RPC_NR_CLASSES; i++)
		rpc_session_tick(&peer->sessions[i], t->now);
	if (atomic_read(&peer->nr_busy) == 0 || READ_ONCE(peer->state) != RPC_PEER_ALIVE)
		return;
	since = MAX(READ_ONCE(peer->last_rx_ns), READ_ONCE(peer->busy_since_ns));
	silent = t->now > since ? t->now - since : 0;
	if (silent > (uint64_t)rpc_tune.dead_ms * NSEC_PER_MSEC)
		rpc_peer_dead(peer);
	else if (silent > (uint64_t)rpc_tune.keepalive_ms * NSEC_PER_MSEC)
		ping_send(peer);
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
	uint64_t last = time_now_ns();
	int nr_idle = 0;

	for (;;) {
		struct tick t;

		if (nr_idle >= IDLE_TICKS && tick_go_idle()) {
			wait_event(&rpc_net.tick_wq, atomic_read(&rpc_net.tick_idle) == 0);
			nr_idle = 0;
			last = time_now_ns();
		}
		thread_sleep_until(time_now_ns() + period);
		nr_idle = atomic_read(&rpc_net.nr_outstanding) ? 0 : nr_idle + 1;
		t.now = time_now_ns();
		t.late = t.now - last > NSEC_PER_SEC;
		last = t.now;
		rpc_peers_for_each(peer_tick, &t);
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
