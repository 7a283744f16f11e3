/* SPDX-License-Identifier: MIT */
/*
 * RPC receive side: which thread looks at the completion queue, and when it sleeps.
 *
 * Flow:	one thread at a time owns the poll, by a try-lock, and processes what there is
 *		for all threads.  A caller that waits polls for a bounded time (client.c), arms
 *		the queue, polls once more and sleeps on its call.  The net thread wakes by the
 *		completion interrupt and polls with a budget.  After it has served requests, and
 *		with an otherwise idle CPU, it spins as long as the next request usually takes
 *		to come, at most rpc.serve_spin_us.  While callers poll by themselves and none
 *		waits for an asynchronous call, it puts off arming by rpc.lazy_us, which saves
 *		an interrupt per call.  Otherwise it arms, polls once more and sleeps: an idle
 *		node uses no CPU.  The messages that a batch of completions causes share one
 *		doorbell per connection, at the end of the batch.
 * Context:	the owner runs with preemption off, so it is never switched out, and an owner on
 *		another CPU is gone after a batch.
 * Ordering:	arm, then poll once more: a completion is found by that poll or raises the
 *		event.  That last poll waits for its turn: an owner on another CPU may have
 *		looked at the queue before it was armed.
 */
#define PR_FMT "rpc: "

#include "rpc_priv.h"

#include <arch/cpu.h>
#include <kernel/preempt.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>

#define POLL_BUDGET 256 /* completions before other threads get a turn */

static uint64_t event_ns; /* when the last event was raised; atomic */
static struct rpc_spin_gauge serve_gauge = { .score = RPC_SPIN_SCORE_MAX }; /* net thread */
static uint64_t request_gap_ns; /* usual time from a reply to the next request; net thread */

/* --- doorbells that wait ------------------------------------------------------------------ */

static struct thread *batching; /* atomic: the owner, while it processes several completions */
static struct rpc_session *to_ring[RPC_POLL_BATCH]; /* poll owner */
static unsigned int nr_to_ring;

bool rpc_poll_rings_later(struct rpc_session *s)
{
	/* Only this thread itself writes the value that is compared with. */
	if (__atomic_load_n(&batching, __ATOMIC_RELAXED) != thread_current())
		return false;
	for (unsigned int i = 0; i < nr_to_ring; i++)
		if (to_ring[i] == s)
			return true;
	if (nr_to_ring == ARRAY_SIZE(to_ring))
		return false;
	to_ring[nr_to_ring++] = s;
	return true;
}

static void ring_all(void)
{
	__atomic_store_n(&batching, NULL, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < nr_to_ring; i++) {
		struct rpc_session *s = to_ring[i];

		/* If it broke meanwhile: its requests are retransmitted on another, or given up. */
		spin_lock(&s->lock);
		if (s->conn && s->conn->state == RPC_CONN_UP)
			rpc_ring_locked(s->conn);
		spin_unlock(&s->lock);
	}
	nr_to_ring = 0;
}

/* --- completions ---------------------------------------------------------------------- */

/* Messages of a peer that is not known yet wait. True: done with it. */
static bool message_is_early(struct rpc_conn *conn, uint32_t imm)
{
	struct rpc_session *s = conn->session;
	bool early = false;

	if (likely(READ_ONCE(conn->is_known)))
		return false;
	spin_lock(&s->lock);
	if (!conn->is_known) {
		early = true;
		if (conn->nr_early < 2 * conn->ring->nr_slots)
			conn->early[conn->nr_early++] = imm;
		else
			counter_inc(&rpc_c_malformed);
	}
	spin_unlock(&s->lock);
	return early;
}

static void message_process(struct rpc_conn *conn, uint32_t raw)
{
	struct rpc_imm imm;

	if (unlikely(rpc_imm_decode(raw, conn->ring->nr_slots, conn->ring->req_size,
				    conn->ring->rep_size, &imm))) {
		counter_inc(&rpc_c_malformed);
		return;
	}
	if (imm.reply)
		rpc_reply_received(conn, &imm);
	else
		rpc_request_received(conn, &imm);
}

static void wc_process(const struct rdma_wc *wc, uint64_t now)
{
	/* Not by wc->qp: on another CPU conn_close() may have destroyed it meanwhile. */
	struct rpc_conn *conn = wc->context;
	struct rpc_session *s = conn->session;

	if (unlikely(wc->status != RDMA_WC_SUCCESS)) {
		spin_lock(&s->lock);
		rpc_conn_break_locked(s, conn);
		spin_unlock(&s->lock);
		return;
	}
	/* conn_close() says BROKEN, passes the poll's ownership, then destroys the queue pair. */
	if (++conn->recv_to_post >= RPC_RECV_BATCH && READ_ONCE(conn->state) != RPC_CONN_BROKEN) {
		conn->recv_to_post = 0;
		rpc_conn_post_recv(conn, RPC_RECV_BATCH);
	}
	WRITE_ONCE(s->peer->last_rx_ns, now);
	if (unlikely(wc->opcode != RDMA_WC_RECV_WRITE_IMM)) {
		counter_inc(&rpc_c_malformed);
		return;
	}
	if (!message_is_early(conn, wc->imm))
		message_process(conn, wc->imm);
}

/* --- ownership ------------------------------------------------------------------------ */

static bool poll_own(void)
{
	if (atomic_read(&rpc_net.poll_owner))
		return false;
	preempt_disable();
	if (atomic_cmpxchg(&rpc_net.poll_owner, 0, 1) == 0)
		return true;
	preempt_enable();
	return false;
}

static void poll_disown(void)
{
	atomic_set_release(&rpc_net.poll_owner, 0);
	preempt_enable();
}

/* The owner is on another CPU: as a rule it is done before somebody else has had a turn here. */
static void poll_own_wait(void)
{
	for (unsigned int i = 1; !poll_own(); i++) {
		if (i % 64 == 0)
			thread_yield();
		else
			cpu_relax();
	}
}

/* Polling context: the caller owns the poll. */
static int poll_batch(void)
{
	struct rdma_wc wc[RPC_POLL_BATCH];
	uint64_t now;
	int n;

	counter_inc(&rpc_c_polls);
	n = rdma_poll_cq(rpc_net.cq, wc, RPC_POLL_BATCH);
	if (n <= 0)
		return 0;
	now = time_now_ns();
	if (n > 1)
		__atomic_store_n(&batching, thread_current(), __ATOMIC_RELAXED);
	for (int i = 0; i < n; i++)
		wc_process(&wc[i], now);
	if (n > 1)
		ring_all();
	return n;
}

bool rpc_poll_try_once(void)
{
	int n;

	if (!poll_own())
		return false;
	n = poll_batch();
	poll_disown();
	return n > 0;
}

bool rpc_poll(void)
{
	rpc_net.waiter_activity++;
	return rpc_poll_try_once();
}

static void rpc_arm(void)
{
	/*
	 * Others rely on what we have said we do: one that finds it armed polls and sleeps, and the
	 * poll that follows every arming finds what came before the register was written.
	 */
	preempt_disable();
	if (!atomic_xchg(&rpc_net.armed, 1)) {
		counter_inc(&rpc_c_arms);
		rdma_arm_cq(rpc_net.cq, false);
	}
	preempt_enable();
}

void rpc_poll_before_sleep(void)
{
	int n;

	rpc_arm();
	do {
		poll_own_wait();
		n = poll_batch();
		poll_disown();
	} while (n > 0);
}

/* Drain the queue, and be sure that nobody still holds a completion taken before. */
void rpc_poll_barrier(void)
{
	for (;;) {
		int n;

		poll_own_wait();
		n = poll_batch();
		poll_disown();
		if (n < RPC_POLL_BATCH)
			return;
	}
}

void rpc_poll_early(struct rpc_conn *conn)
{
	poll_own_wait();
	for (uint32_t i = 0; i < conn->nr_early; i++)
		message_process(conn, conn->early[i]);
	conn->nr_early = 0;
	poll_disown();
}

/* --- net thread ----------------------------------------------------------------------- */

/* Interrupt context. */
static void cq_event(struct rdma_cq *cq, void *arg)
{
	counter_inc(&rpc_c_interrupts);
	WRITE_ONCE(event_ns, time_now_ns());
	atomic_set(&rpc_net.armed, 0);
	atomic_set_release(&rpc_net.event_pending, 1);
	wake_one(&rpc_net.event_wq);
}

static int poll_some(void)
{
	int total = 0;

	for (;;) {
		int n;

		poll_own_wait();
		n = poll_batch();
		poll_disown();
		total += n;
		if (n < RPC_POLL_BATCH || total >= POLL_BUDGET)
			return total;
	}
}

/*
 * A request arrived at @now, the one before was served at @served.  The time between is the
 * client's; our own wake-up does not count: a server that sleeps must be able to find out that
 * spinning pays.
 */
static void note_gap(uint64_t now, uint64_t served)
{
	if (now > served)
		request_gap_ns = rpc_low_average(request_gap_ns, now - served);
}

/* Spin for the next request while this CPU has nothing better to do. True: there is one. */
static bool serve_spin(uint64_t since)
{
	const uint64_t cap = rpc_tune.serve_spin_us * NSEC_PER_USEC;
	const uint64_t limit = request_gap_ns < cap ? MIN(2 * request_gap_ns + cap / 8, cap) : 0;
	uint64_t now = since;
	bool found = false;

	if (!limit || atomic_read(&rpc_net.nr_working) || !rpc_spin_pays(&serve_gauge))
		return false;
	while (!found && !thread_waits_above(THREAD_PRIO_LOW) && now - since < limit) {
		for (int i = 0; i < 8 && !found; i++) {
			found = rpc_poll_try_once();
			cpu_relax();
		}
		now = time_now_ns();
	}
	if (found)
		note_gap(now, since);
	rpc_spin_note(&serve_gauge, found);
	counter_inc(found ? &rpc_c_serve_spins_won : &rpc_c_serve_spins_lost);
	return found;
}

/* Callers polled by themselves since we last looked, and nothing else needs the interrupt. */
static bool may_be_lazy(uint32_t *seen)
{
	const uint32_t activity = READ_ONCE(rpc_net.waiter_activity);
	const bool lazy = activity != *seen && atomic_read(&rpc_net.nr_async) == 0;

	*seen = activity;
	return lazy && rpc_tune.lazy_us;
}

static bool event_taken(void)
{
	return atomic_xchg(&rpc_net.event_pending, 0) != 0;
}

static void net_main(void *arg)
{
	uint32_t seen_activity = 0, seen_served = 0;
	uint64_t served_ns = 0;
	bool woken = false; /* by an event, since the last look */

	for (;;) {
		const int n = poll_some();

		if (n >= POLL_BUDGET) {
			thread_yield();
			continue;
		}
		if (rpc_net.requests_served != seen_served) {
			seen_served = rpc_net.requests_served;
			if (woken)
				note_gap(READ_ONCE(event_ns), served_ns);
			woken = false;
			served_ns = time_now_ns();
			if (serve_spin(served_ns))
				continue;
		} else if (may_be_lazy(&seen_activity)) {
			const uint64_t lazy_end = time_after_ns(rpc_tune.lazy_us * NSEC_PER_USEC);

			counter_inc(&rpc_c_lazy_sleeps);
			woken = wait_event_timeout(&rpc_net.event_wq, event_taken(), lazy_end);
			continue;
		}
		rpc_arm();
		if (poll_some())
			continue;
		wait_event(&rpc_net.event_wq, event_taken());
		woken = true;
	}
}

int rpc_poll_init(void)
{
	/*
	 * Receives of all sessions of all peers, and room for those of a connection on its way
	 * out.
	 */
	uint32_t nr_cqe = 0;
	struct thread *t;

	for (uint32_t i = 0; i < RPC_NR_CLASSES; i++)
		nr_cqe += 2 * rpc_class_cfg[i].nr_slots + RPC_RECV_SPARE;
	nr_cqe *= rpc_tune.max_peers + 1;
	nr_cqe = MIN(nr_cqe, rpc_net.attr.max_cqe);
	waitqueue_init(&rpc_net.event_wq);
	rpc_net.cq = rdma_cq_create(rpc_net.dev, nr_cqe, 0, cq_event, NULL);
	if (IS_ERR(rpc_net.cq))
		return (int)PTR_ERR(rpc_net.cq);
	rpc_net.cq_room = nr_cqe;
	request_gap_ns = 2 * rpc_tune.serve_spin_us * NSEC_PER_USEC;
	t = thread_create_prio("rpc-net", net_main, NULL, THREAD_PRIO_HIGH);
	if (IS_ERR(t)) {
		rdma_cq_destroy(rpc_net.cq);
		return (int)PTR_ERR(t);
	}
	thread_detach(t);
	return 0;
}
