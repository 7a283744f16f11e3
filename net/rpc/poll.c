/* SPDX-License-Identifier: MIT */
/*
 * RPC receive side: which thread looks at a completion queue, and when it sleeps.
 *
 * Flow:	each traffic class has a completion queue of its own, or as many as there are CPUs,
 *		each with a net thread and an interrupt.  A node with one CPU has one queue for
 *		all (rpc.queues): there each more is a thread more to switch to.  A session
 *		belongs to one of them for good.  One thread at a time owns a queue's poll, by a
 *		try-lock, and processes what there is for all threads.  A caller that waits
 *		polls the queue of its class for a bounded time (client.c), arms it, polls once
 *		more and sleeps on its call.  The net thread wakes by the completion interrupt
 *		and polls with a budget.  After it has served requests, and with an otherwise
 *		idle CPU, it spins as long as the next request usually takes to come, at most
 *		rpc.serve_spin_us.  While callers poll by themselves and none waits for an
 *		asynchronous call, it puts off arming by rpc.lazy_us, which saves
 *		an interrupt per call; a timer looks whether they still do, and wakes it when
 *		none has polled for that long.  Otherwise it arms, polls once more and sleeps:
 *		an idle node uses no CPU.  The messages that a batch of completions causes share one
 *		doorbell per connection, at the end of the batch.
 *		A late reply (rpc_reply_late()) is posted without a doorbell: the next message of
 *		its session brings it along. If none comes, the queue's timer wakes the net thread,
 *		which rings for all that have waited.
 *		Threads wait for demand and control calls and for reads, so their queues are polled,
 *		and their net threads have the highest priority.  Prefetch, reads ahead and
 *		write-back go by interrupt alone, in threads of the next lower class, which give way
 *		after each completion
 *		(the rest of a batch stays in rpc_queue.wc).  rpc.completion changes who polls.
 * Context:	the owner runs with preemption off, so it is never switched out, and an owner on
 *		another CPU is gone after a batch.
 * Ordering:	arm, then poll once more: a completion is found by that poll or raises the
 *		event.  That last poll waits for its turn: an owner on another CPU may have
 *		looked at the queue before it was armed.
 */
#define PR_FMT "rpc: "

#include "rpc_priv.h"

#include <arch/cpu.h>
#include <arch/poll.h>
#include <kernel/percpu.h>
#include <kernel/preempt.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/timer_next.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <mm/slab.h>

#define POLL_BUDGET      256 /* completions before other threads get a turn */
#define LAZY_PERIODS_MAX 8   /* of rpc.lazy_us, while somebody polls without an end */

/* --- doorbells that wait ------------------------------------------------------------------ */

/* The queue that a thread on this CPU polls while it processes several completions. */
static DEFINE_PERCPU_PRIVATE(struct rpc_queue *, batching); /* owner cpu, preemption off */

bool rpc_poll_rings_later(struct rpc_session *s)
{
	struct rpc_queue *q;

	assert_spin_held(&s->lock); /* which keeps this thread on its CPU */
	q = *this_cpu_ptr(&batching);
	if (!q)
		return false;
	for (unsigned int i = 0; i < q->nr_to_ring; i++)
		if (q->to_ring[i] == s)
			return true;
	if (q->nr_to_ring == ARRAY_SIZE(q->to_ring))
		return false;
	q->to_ring[q->nr_to_ring++] = s;
	return true;
}

static void ring_all(struct rpc_queue *q)
{
	*this_cpu_ptr(&batching) = NULL;
	for (unsigned int i = 0; i < q->nr_to_ring; i++) {
		struct rpc_session *s = q->to_ring[i];

		/* If it broke meanwhile: its requests are retransmitted on another, or given up. */
		spin_lock(&s->lock);
		if (s->conn && s->conn->state == RPC_CONN_UP)
			rpc_ring_locked(s->conn);
		spin_unlock(&s->lock);
	}
	q->nr_to_ring = 0;
}

/* --- late replies ------------------------------------------------------------------------ */

static uint64_t late_end(const struct rpc_queue *q)
{
	return READ_ONCE(q->late_since_ns) + rpc_tune.late_us * NSEC_PER_USEC;
}

void rpc_late_begin_locked(struct rpc_session *s)
{
	struct rpc_queue *q = s->queue;

	assert_spin_held(&s->lock);
	if (s->is_late)
		return;
	s->is_late = true;
	if (atomic_add_return(&q->nr_late, 1) == 1)
		WRITE_ONCE(q->late_since_ns, time_now_ns());
	/* Pairs with on_late_timer(): it sees the session, or we see that it is not set. */
	if (!atomic_xchg(&q->late_timed, 1))
		timer_set(&q->late_timer, late_end(q));
}

void rpc_late_over_locked(struct rpc_session *s)
{
	assert_spin_held(&s->lock);
	if (!s->is_late)
		return;
	s->is_late = false;
	ASSERT(atomic_read(&s->queue->nr_late) > 0);
	atomic_sub(&s->queue->nr_late, 1);
}

/* Interrupt context. It is not set anew for each reply, so it may come too early for this one. */
static void on_late_timer(void *arg)
{
	struct rpc_queue *q = arg;

	if (atomic_read(&q->nr_late) && time_now_ns() < late_end(q)) {
		timer_set(&q->late_timer, late_end(q));
		return;
	}
	atomic_xchg(&q->late_timed, 0);
	if (!atomic_add_return(&q->nr_late, 0))
		return;
	atomic_set_release(&q->late_due, 1);
	wake_one(&q->event_wq);
}

static void ring_late_of(struct rpc_peer *peer, void *arg)
{
	struct rpc_queue *q = arg;

	for (uint32_t i = 0; i < RPC_NR_CLASSES; i++) {
		struct rpc_session *s = &peer->sessions[i];

		if (!__atomic_load_n(&s->is_ready, __ATOMIC_ACQUIRE) || s->queue != q)
			continue;
		spin_lock(&s->lock);
		if (s->is_late && s->conn && s->conn->state == RPC_CONN_UP) {
			counter_inc(&rpc_c_late_rings);
			rpc_ring_locked(s->conn);
		}
		/* Of a connection that broke: the client asks again, on another one. */
		rpc_late_over_locked(s);
		spin_unlock(&s->lock);
	}
}

/* By the net thread: all late replies have waited long enough. */
static void ring_late(struct rpc_queue *q)
{
	if (!atomic_xchg(&q->late_due, 0))
		return;
	rpc_peers_for_each(ring_late_of, q);
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
		rpc_read_failed(conn, wc);
		spin_lock(&s->lock);
		rpc_conn_break_locked(s, conn);
		spin_unlock(&s->lock);
		return;
	}
	/* A receive is the peer's doing: its wr_id tells nothing of our requests. */
	if (rpc_class_is_read(s->cls) &&
	    (wc->opcode == RDMA_WC_READ || wc->opcode == RDMA_WC_WRITE)) {
		WRITE_ONCE(s->peer->last_rx_ns, now);
		rpc_read_completed(conn, wc, now);
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

static bool poll_own(struct rpc_queue *q)
{
	if (atomic_read(&q->poll_owner))
		return false;
	preempt_disable();
	if (atomic_cmpxchg(&q->poll_owner, 0, 1) == 0)
		return true;
	preempt_enable();
	return false;
}

static void poll_disown(struct rpc_queue *q)
{
	atomic_set_release(&q->poll_owner, 0);
	preempt_enable();
}

/* The owner is on another CPU: as a rule it is done before somebody else has had a turn here. */
static void poll_own_wait(struct rpc_queue *q)
{
	for (unsigned int i = 1; !poll_own(q); i++) {
		if (i % 64 == 0)
			thread_yield();
		else
			cpu_relax();
	}
}

/* Completions that were taken off the queue and not processed. */
static bool has_left(const struct rpc_queue *q)
{
	return q->wc_next < q->wc_nr;
}

/* Process up to a batch; returns how many. Polling context: the caller owns the poll. */
static int poll_batch(struct rpc_queue *q)
{
	uint64_t now;
	bool several;
	int n;

	if (!has_left(q)) {
		counter_inc(&rpc_c_polls);
		n = rdma_poll_cq(q->cq, q->wc, RPC_POLL_BATCH);
		if (n <= 0)
			return 0;
		q->wc_next = 0;
		q->wc_nr = (uint32_t)n;
	}
	now = time_now_ns();
	several = q->wc_nr - q->wc_next > 1;
	if (several)
		*this_cpu_ptr(&batching) = q;
	n = 0;
	do {
		wc_process(&q->wc[q->wc_next++], now);
		n++;
	} while (has_left(q) && (!q->gives_way || !thread_waits_above(THREAD_PRIO_NORMAL)));
	if (several)
		ring_all(q);
	return n;
}

/* One batch, when it is our turn. True: there may be more. */
static bool poll_turn(struct rpc_queue *q, int *n)
{
	bool left, more;

	poll_own_wait(q);
	left = has_left(q); /* then the batch says nothing about what lies in the queue */
	*n = poll_batch(q);
	more = left || has_left(q) || *n == RPC_POLL_BATCH;
	poll_disown(q);
	return more;
}

bool rpc_poll_try_once(struct rpc_queue *q)
{
	int n;

	if (!poll_own(q))
		return false;
	n = poll_batch(q);
	poll_disown(q);
	return n > 0;
}

bool rpc_poll(void)
{
	bool found = false;

	for (uint32_t i = 0; i < rpc_net.nr_queues; i++) {
		rpc_net.queues[i].waiter_activity++;
		found |= rpc_poll_try_once(&rpc_net.queues[i]);
	}
	return found;
}

#define SPIN_ANYWAY 16 /* one of so many waits polls, although they usually take too long */
#define REST_SPINS  4  /* times rpc.spin_us, where the CPU can rest */
#define REST_MAX_NS (256 * NSEC_PER_USEC) /* other interrupts wait as long */
#define LOOKS       16                    /* before the clock is looked at, or the CPU rests */
#define LOOKS_AGAIN 2                     /* where it can rest */

/* A wait that slept may have been long for that alone: now and then polling is tried. */
static uint64_t spin_limit(struct rpc_spin *spin)
{
	/* One that rests takes nothing from others. */
	const uint64_t cap =
		rpc_tune.spin_us * NSEC_PER_USEC * (READ_ONCE(rpc_net.rests) ? REST_SPINS : 1);
	const uint64_t usual = READ_ONCE(spin->usual_ns);

	if (rpc_tune.completion == RPC_COMPLETION_INTERRUPT || !rpc_net.is_started)
		return 0;
	if (rpc_tune.completion == RPC_COMPLETION_POLL)
		return cap;
	if (usual <= cap)
		return MIN(2 * usual + cap / 8, cap);
	return spin->skipped++ % SPIN_ANYWAY ? 0 : cap;
}

/*
 * The caller waits for more, so it has said what it has to say: replies that still wait for a
 * message go out by themselves.
 */
static void ring_unanswered(void)
{
	for (uint32_t i = 0; i < rpc_net.nr_queues; i++)
		if (unlikely(atomic_read(&rpc_net.queues[i].nr_late)))
			rpc_peers_for_each(ring_late_of, &rpc_net.queues[i]);
}

/*
 * The device ends the rest when something has come. True: it can, and the CPU has not used a core
 * of the host meanwhile, which the peer may need. No thread that wants the CPU is kept from it.
 */
static bool rest(uint64_t left_ns)
{
	const uint64_t now = time_now_ns(), next = timer_next_ns();
	const uint64_t most = next > now ? MIN(MIN(left_ns, next - now), REST_MAX_NS) : 0;

	/* The last looks may have woken one. */
	if (thread_waits_above(THREAD_PRIO_LOW) || !rdma_wait(rpc_net.dev, most))
		return false;
	counter_inc(&rpc_c_rests);
	WRITE_ONCE(rpc_net.rests, true);
	return true;
}

/* Poll until @done(@arg), or @limit nanoseconds, or another thread wants the CPU. True: done. */
static bool reader_spin(uint64_t limit, bool (*done)(void *arg), void *arg)
{
	const uint64_t start = time_now_ns();
	uint64_t spent;
	int looks = READ_ONCE(rpc_net.rests) ? LOOKS_AGAIN : LOOKS;

	while (!thread_waits_above(THREAD_PRIO_LOW)) {
		for (int i = 0; i < looks; i++) {
			if (done(arg)) {
				counter_inc(&rpc_c_spins_won);
				return true;
			}
			if (!rpc_poll())
				cpu_poll_relax();
		}
		spent = time_now_ns() - start;
		if (spent >= limit) {
			counter_inc(&rpc_c_spins_lost);
			break;
		}
		looks = rest(limit - spent) ? LOOKS_AGAIN : LOOKS;
	}
	return false;
}

static void readers_add(int n)
{
	for (uint32_t i = 0; i < rpc_net.nr_queues; i++) {
		rpc_net.queues[i].reader_activity++; /* a hint: lost updates do no harm */
		(void)atomic_add_return(&rpc_net.queues[i].nr_readers, n);
	}
}

bool rpc_poll_until(struct rpc_spin *spin, bool (*done)(void *arg), void *arg)
{
	const uint64_t limit = spin_limit(spin);
	bool there = false;

	ring_unanswered();
	if (limit) {
		readers_add(1);
		there = reader_spin(limit, done, arg);
		readers_add(-1);
		if (!there) /* the net thread has put off arming, as somebody polled */
			rpc_poll_before_sleep();
	}
	return there || done(arg);
}

void rpc_spin_waited(struct rpc_spin *spin, uint64_t ns)
{
	WRITE_ONCE(spin->usual_ns, rpc_low_average(READ_ONCE(spin->usual_ns), ns));
}

static void queue_arm(struct rpc_queue *q)
{
	/*
	 * Others rely on what we have said we do: one that finds it armed polls and sleeps, and the
	 * poll that follows every arming finds what came before the register was written.
	 */
	preempt_disable();
	if (!atomic_xchg(&q->armed, 1)) {
		counter_inc(&rpc_c_arms);
		rdma_arm_cq(q->cq, false);
	}
	preempt_enable();
}

void rpc_queue_before_sleep(struct rpc_queue *q)
{
	int n;

	queue_arm(q);
	do {
		poll_turn(q, &n);
	} while (n > 0);
}

void rpc_poll_before_sleep(void)
{
	for (uint32_t i = 0; i < rpc_net.nr_queues; i++)
		rpc_queue_before_sleep(&rpc_net.queues[i]);
}

/* Drain the queue, and be sure that nobody still holds a completion taken before. */
void rpc_poll_barrier(struct rpc_queue *q)
{
	int n;

	while (poll_turn(q, &n))
		;
}

void rpc_poll_early(struct rpc_conn *conn)
{
	struct rpc_queue *q = conn->session->queue;

	poll_own_wait(q);
	for (uint32_t i = 0; i < conn->nr_early; i++)
		message_process(conn, conn->early[i]);
	conn->nr_early = 0;
	poll_disown(q);
}

/* --- net thread ----------------------------------------------------------------------- */

/* Interrupt context. */
static void cq_event(struct rdma_cq *cq, void *arg)
{
	struct rpc_queue *q = arg;

	counter_inc(&rpc_c_interrupts);
	WRITE_ONCE(q->event_ns, time_now_ns());
	atomic_set(&q->armed, 0);
	atomic_set_release(&q->event_pending, 1);
	wake_one(&q->event_wq);
}

static int poll_some(struct rpc_queue *q)
{
	int total = 0, n;
	bool more;

	do {
		more = poll_turn(q, &n);
		total += n;
	} while (more && total < POLL_BUDGET);
	return total;
}

/*
 * A request arrived at @now, the one before was served at @served.  The time between is the
 * client's; our own wake-up does not count: a server that sleeps must be able to find out that
 * spinning pays.
 */
static void note_gap(struct rpc_queue *q, uint64_t now, uint64_t served)
{
	if (now > served)
		q->request_gap_ns = rpc_low_average(q->request_gap_ns, now - served);
}

/* Spin for the next request while this CPU has nothing better to do. True: there is one. */
static bool serve_spin(struct rpc_queue *q, uint64_t since)
{
	const uint64_t cap = rpc_tune.serve_spin_us * NSEC_PER_USEC;
	const uint64_t gap = q->request_gap_ns;
	const bool always = rpc_tune.completion == RPC_COMPLETION_POLL;
	const uint64_t limit = always ? cap : gap < cap ? MIN(2 * gap + cap / 8, cap) : 0;
	uint64_t now = since;
	bool found = false;

	if (!q->is_polled || !limit || atomic_read(&rpc_net.nr_working) ||
	    (!always && !rpc_spin_pays(&q->serve_gauge)))
		return false;
	while (!found && !thread_waits_above(THREAD_PRIO_LOW) && now - since < limit) {
		for (int i = 0; i < 8 && !found; i++) {
			found = rpc_poll_try_once(q);
			cpu_poll_relax();
		}
		now = time_now_ns();
	}
	if (found)
		note_gap(q, now, since);
	rpc_spin_note(&q->serve_gauge, found);
	counter_inc(found ? &rpc_c_serve_spins_won : &rpc_c_serve_spins_lost);
	return found;
}

/*
 * Waiters polled by themselves since we last looked at their @activity, and nothing else needs the
 * interrupt. Also in the interrupt of the queue's timer.
 */
static bool may_be_lazy(struct rpc_queue *q, const uint32_t *activity, uint32_t *seen)
{
	const uint32_t now = READ_ONCE(*activity);
	const bool lazy = now != *seen && atomic_read(&q->nr_async) == 0;

	*seen = now;
	return (lazy || atomic_read(&q->nr_readers)) && rpc_tune.lazy_us;
}

static void lazy_timer_set(struct rpc_queue *q)
{
	timer_set(&q->lazy_timer, time_after_ns(rpc_tune.lazy_us * NSEC_PER_USEC));
}

/* Interrupt context: a thread that is woken costs more, so it sleeps on while others poll. */
static void on_lazy_timer(void *arg)
{
	struct rpc_queue *q = arg;

	if (++q->lazy_periods < LAZY_PERIODS_MAX &&
	    may_be_lazy(q, q->lazy_activity, q->lazy_seen)) {
		lazy_timer_set(q);
		return;
	}
	atomic_set_release(&q->lazy_over, 1);
	wake_one(&q->event_wq);
}

static bool event_taken(struct rpc_queue *q)
{
	return atomic_xchg(&q->event_pending, 0) != 0;
}

/* Has the net thread something to do? *@woken: by an event. */
static bool may_go_on(struct rpc_queue *q, bool *woken)
{
	*woken = event_taken(q);
	return *woken || atomic_read(&q->late_due);
}

/* Sleep without the interrupt, until nobody has polled for a while. */
static void sleep_lazily(struct rpc_queue *q, const uint32_t *activity, uint32_t *seen, bool *woken)
{
	counter_inc(&rpc_c_lazy_sleeps);
	q->lazy_activity = activity;
	q->lazy_seen = seen;
	q->lazy_periods = 0;
	atomic_set(&q->lazy_over, 0);
	lazy_timer_set(q);
	wait_event(&q->event_wq, may_go_on(q, woken) || atomic_read(&q->lazy_over));
	(void)timer_cancel(&q->lazy_timer);
}

static void net_main(void *arg)
{
	struct rpc_queue *q = arg;
	uint32_t seen_waiters = 0, seen_readers = 0, seen_served = 0;
	uint64_t served_ns = 0;
	bool woken = false; /* by an event, since the last look */
	const uint32_t *activity;
	uint32_t *seen;

	if (rpc_net.nr_queue_cpus > 1)
		thread_pin(q->cpu);
	for (;;) {
		const int n = poll_some(q);

		ring_late(q);
		if (n >= POLL_BUDGET) {
			thread_yield();
			continue;
		}
		if (q->requests_served != seen_served) {
			seen_served = q->requests_served;
			if (woken)
				note_gap(q, READ_ONCE(q->event_ns), served_ns);
			woken = false;
			served_ns = time_now_ns();
			if (serve_spin(q, served_ns))
				continue;
			/* Requests come: only those who poll for them do without the interrupt. */
			activity = &q->reader_activity;
			seen = &seen_readers;
		} else {
			activity = &q->waiter_activity;
			seen = &seen_waiters;
		}
		if (may_be_lazy(q, activity, seen)) {
			sleep_lazily(q, activity, seen, &woken);
			continue;
		}
		queue_arm(q);
		if (poll_some(q))
			continue;
		wait_event(&q->event_wq, may_go_on(q, &woken));
	}
}

/* --- the queues ------------------------------------------------------------------------- */

#define CLASSES_ALL        (BIT(RPC_NR_CLASSES) - 1)
/* Threads wait for their calls. */
#define CLASSES_WAITED_FOR (BIT(RPC_CLASS_CONTROL) | BIT(RPC_CLASS_DEMAND) | BIT(RPC_CLASS_READ))

/*
 * Receives of all sessions that may come to a queue, and room for those of a connection on its way
 * out. Sessions go where fewest are, so each of @nr_cpus queues has its share of the peers.
 */
static uint32_t queue_size(uint32_t classes, uint32_t nr_cpus)
{
	uint32_t nr_cqe = 0;

	for (uint32_t i = 0; i < RPC_NR_CLASSES; i++) {
		if (classes & BIT(i))
			nr_cqe += rpc_class_cqes(i);
	}
	nr_cqe *= DIV_ROUND_UP(rpc_tune.max_peers, nr_cpus) + 1;
	return MIN(nr_cqe, rpc_net.attr.max_cqe);
}

static int queue_create(struct rpc_queue *q, uint32_t classes, const char *name, uint32_t cpu)
{
	const bool gives_way = !(classes & CLASSES_WAITED_FOR);
	const enum thread_prio prio = gives_way ? THREAD_PRIO_NORMAL : THREAD_PRIO_HIGH;
	const uint32_t nr_cqe = queue_size(classes, rpc_net.nr_queue_cpus);
	char thread_name[THREAD_NAME_LEN];
	struct thread *t;

	q->classes = classes;
	q->gives_way = gives_way;
	q->cpu = cpu;
	q->serve_gauge.score = RPC_SPIN_SCORE_MAX;
	q->request_gap_ns = 2 * rpc_tune.serve_spin_us * NSEC_PER_USEC;
	waitqueue_init(&q->event_wq);
	timer_init(&q->late_timer, on_late_timer, q);
	timer_init(&q->lazy_timer, on_lazy_timer, q);
	q->cq = rdma_cq_create(rpc_net.dev, nr_cqe, cpu, cq_event, q);
	if (IS_ERR(q->cq))
		return (int)PTR_ERR(q->cq);
	q->room = nr_cqe;
	if (rpc_net.nr_queue_cpus > 1)
		scnprintf(thread_name, sizeof(thread_name), "rpc-net-%s.%u", name, cpu);
	else
		scnprintf(thread_name, sizeof(thread_name), "rpc-net-%s", name);
	t = thread_create_prio(thread_name, net_main, q, prio);
	if (IS_ERR(t)) {
		rdma_cq_destroy(q->cq);
		return (int)PTR_ERR(t);
	}
	thread_detach(t);
	return 0;
}

/* Do threads wait for calls of this class by polling? */
static bool class_is_polled(uint32_t cls)
{
	switch (rpc_tune.completion) {
	case RPC_COMPLETION_HYBRID:
		return CLASSES_WAITED_FOR & BIT(cls);
	case RPC_COMPLETION_POLL:
		return true;
	case RPC_COMPLETION_INTERRUPT:
		return false;
	}
	return false;
}

/* The queue of @cls that has fewest sessions; one more is there from now on. */
struct rpc_queue *rpc_queue_choose(uint8_t cls)
{
	struct rpc_queue *best = NULL;

	for (uint32_t i = 0; i < rpc_net.nr_queues; i++) {
		struct rpc_queue *q = &rpc_net.queues[i];

		if ((q->classes & BIT(cls)) &&
		    (!best || READ_ONCE(q->nr_sessions) < READ_ONCE(best->nr_sessions)))
			best = q;
	}
	BUG_ON(!best);
	__atomic_add_fetch(&best->nr_sessions, 1, __ATOMIC_RELAXED);
	return best;
}

int rpc_poll_init(void)
{
	const uint32_t nr_cpus = MIN(cpu_online_count(), rpc_net.attr.nr_comp_vectors);
	const bool one = rpc_tune.queues == RPC_QUEUES_ONE ||
			 (rpc_tune.queues == RPC_QUEUES_AUTO && cpu_online_count() == 1);
	const uint32_t nr_kinds = one ? 1 : RPC_NR_CLASSES;
	int err = 0;

	rpc_net.one_queue = one;
	rpc_net.nr_queue_cpus = one ? 1 : MAX(nr_cpus, 1u);
	rpc_net.queues =
		kcalloc((size_t)nr_kinds * rpc_net.nr_queue_cpus, sizeof(struct rpc_queue));
	if (!rpc_net.queues)
		return -ENOMEM;
	for (uint32_t i = 0; i < nr_kinds * rpc_net.nr_queue_cpus && !err; i++) {
		const uint32_t cls = i / rpc_net.nr_queue_cpus;
		struct rpc_queue *q = &rpc_net.queues[i];

		/* One queue is the demand class's, too. */
		q->is_polled = class_is_polled(one ? RPC_CLASS_DEMAND : cls);
		err = queue_create(q, one ? CLASSES_ALL : BIT(cls),
				   one ? "all" : rpc_class_cfg[cls].name,
				   i % rpc_net.nr_queue_cpus);
		rpc_net.nr_queues += !err;
	}
	return err;
}
