/* SPDX-License-Identifier: MIT */
/*
 * RPC sessions: slots of one peer and traffic class, and what happens to them when time passes.
 *
 * Flow:	a client slot goes from FREE to BUSY when a call takes it.  It gets FREE again
 *		when its reply comes.  When the call is given up while its request may still be
 *		answered, the slot goes to QUARANTINE, and gets FREE when the late reply comes
 *		or the connection that carried the request is down.  A server slot goes from
 *		NONE to BUSY (a handler has the request) to DONE (answered), and to BUSY with
 *		the next request; the request id tells a new request from a repetition.
 * Context:	rpc_session_prepare() sleeps; the rest does not.
 * Locking:	rpc_session.lock; callbacks run after it is dropped.
 */
#define PR_FMT "rpc: "

#include "rpc_priv.h"

#include <kernel/printk.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <mm/kmap.h>
#include <mm/slab.h>

void rpc_session_init(struct rpc_session *s, struct rpc_peer *peer, uint8_t cls)
{
	s->peer = peer;
	s->cls = cls;
	s->gauge.score = RPC_SPIN_SCORE_MAX;
	spin_lock_init(&s->lock, "rpc.session", RANK_SPIN_RPC);
	waitqueue_init(&s->slot_wq);
	mutex_init(&s->conn_lock, "rpc.conn", RANK_NET_PEER);
	work_init(&s->conn_work, rpc_conn_work);
}

static int alloc_slots(struct rpc_session *s, const struct rpc_class_cfg *cfg)
{
	struct rdma_sge *sge;

	s->cslots = kcalloc(cfg->nr_slots, sizeof(*s->cslots));
	s->sslots = kcalloc(cfg->nr_slots, sizeof(*s->sslots));
	if (!s->cslots || !s->sslots)
		return -ENOMEM;
	if (cfg->max_sge) {
		sge = kcalloc((size_t)cfg->nr_slots * cfg->max_sge, sizeof(*sge));
		if (!sge)
			return -ENOMEM;
		for (uint32_t i = 0; i < cfg->nr_slots; i++)
			s->cslots[i].sge = sge + (size_t)i * cfg->max_sge;
	}
	lock_not_needed(&s->lock, "not ready: no request uses it");
	for (uint32_t i = 0; i < cfg->nr_slots * RPC_REQUESTS_PER_SLOT; i++) {
		struct rpc_request *req = kzalloc(sizeof(*req));

		if (!req)
			return -ENOMEM;
		req->next = s->free_requests;
		s->free_requests = req;
	}
	return 0;
}

static int alloc_buffers(struct rpc_session *s, const struct rpc_class_cfg *cfg)
{
	const uint64_t req_len = (uint64_t)cfg->nr_slots * s->req_stride;
	const uint64_t len =
		ALIGN_UP(req_len + (uint64_t)cfg->nr_slots * s->rep_stride, (uint64_t)PAGE_SIZE);
	struct rdma_phys_range range = { .len = len };

	s->req_buf = dma_alloc(len, &range.paddr);
	if (!s->req_buf)
		return -ENOMEM;
	s->buf_mr = rdma_mr_create(s->peer->pd, range.paddr, &range, 1, 0);
	if (IS_ERR(s->buf_mr)) {
		const int err = (int)PTR_ERR(s->buf_mr);

		dma_free(s->req_buf, len);
		s->req_buf = NULL;
		return err;
	}
	s->req_buf_phys = range.paddr;
	s->rep_buf = s->req_buf + req_len;
	s->rep_buf_phys = range.paddr + req_len;
	return 0;
}

static void free_slots(struct rpc_session *s)
{
	lock_not_needed(&s->lock, "never was ready: no request used it");
	while (s->free_requests) {
		struct rpc_request *req = s->free_requests;

		s->free_requests = req->next;
		kfree(req);
	}
	if (s->cslots)
		kfree(s->cslots[0].sge);
	kfree(s->cslots);
	kfree(s->sslots);
	s->cslots = NULL;
	s->sslots = NULL;
}

/* Get the memory of a session; called with conn_lock held, before the first connection. */
int rpc_session_prepare(struct rpc_session *s)
{
	const struct rpc_class_cfg *cfg = &rpc_class_cfg[s->cls];
	int err;

	if (s->is_ready)
		return 0;
	s->req_stride = ALIGN_UP(RPC_HDR_LEN + cfg->body_max, 64u);
	s->rep_stride = rpc_rep_slot_size(cfg);
	err = alloc_slots(s, cfg);
	if (!err)
		err = alloc_buffers(s, cfg);
	if (err) {
		free_slots(s);
		WRITE_ONCE(s->init_err, err);
		pr_err("no memory for the %s session to node %u\n", cfg->name, s->peer->info.id);
		rpc_session_wake_slots(s);
		return err;
	}
	s->queue = rpc_queue_choose(s->cls);
	lock_not_needed(&s->lock, "not ready yet: no call uses it");
	s->c_free = cfg->nr_slots == 64 ? UINT64_MAX : BIT64(cfg->nr_slots) - 1;
	s->init_err = 0;
	__atomic_store_n(&s->is_ready, true, __ATOMIC_RELEASE);
	rpc_session_wake_slots(s);
	return 0;
}

void rpc_session_wake_slots(struct rpc_session *s)
{
	if (READ_ONCE(s->nr_slot_waiters))
		wake_all(&s->slot_wq);
}

/* Let conn_work look at the session: it needs a connection, or lost one. */
void rpc_session_kick(struct rpc_session *s)
{
	work_queue(rpc_net.conn_wq, &s->conn_work);
}

void rpc_cslot_free_locked(struct rpc_session *s, uint32_t slot)
{
	struct rpc_cslot *cs = &s->cslots[slot];

	assert_spin_held(&s->lock);
	ASSERT(!(s->c_free & BIT64(slot)));
	ASSERT(s->inflight_bytes >= cs->window_len);
	if (cs->state == RPC_CSLOT_QUARANTINE) {
		s->nr_quarantine--;
		counter_inc(&rpc_c_released);
	}
	s->inflight_bytes -= cs->window_len;
	s->c_waits -= cs->waits;
	rpc_cslot_set_state_locked(s, cs, RPC_CSLOT_FREE);
	cs->call = NULL;
	s->c_unsent &= ~BIT64(slot);
	s->c_parked &= ~BIT64(slot);
	s->c_free |= BIT64(slot);
	rpc_outstanding_dec();
}

/*
 * The call on a BUSY @slot has come to an end without a reply.  The caller holds the lock, has
 * moved the call to FINISHING, and ends it after dropping the lock.
 */
bool rpc_cslot_give_up_locked(struct rpc_session *s, uint32_t slot, uint64_t now)
{
	struct rpc_cslot *cs = &s->cslots[slot];

	assert_spin_held(&s->lock);
	ASSERT(s->nr_busy > 0 && rpc_call_state(cs->call) == RPC_CALL_FINISHING);
	s->nr_busy--;
	if (cs->is_async)
		atomic_dec(&s->queue->nr_async);
	if (!cs->posted) {
		rpc_cslot_free_locked(s, slot);
		return true;
	}
	atomic_set(&cs->call->nr_to_release, 2);
	rpc_cslot_set_state_locked(s, cs, RPC_CSLOT_QUARANTINE);
	cs->quarantined_ns = now;
	s->nr_quarantine++;
	counter_inc(&rpc_c_quarantined);
	return false;
}

struct ended {
	struct rpc_call_impl *calls[2]; /* [1]: release too */
};

static void give_up_locked(struct rpc_session *s, uint32_t slot, uint64_t now, struct ended *e)
{
	struct rpc_call_impl *impl = s->cslots[slot].call;
	bool release;

	assert_spin_held(&s->lock);
	rpc_call_set_finishing(impl);
	release = rpc_cslot_give_up_locked(s, slot, now);
	impl->next = e->calls[release];
	e->calls[release] = impl;
}

static void ended_finish(struct ended *e, int status)
{
	for (int release = 0; release < 2; release++) {
		while (e->calls[release]) {
			struct rpc_call_impl *impl = e->calls[release];

			e->calls[release] = impl->next;
			rpc_call_finish(impl, status, 0, release);
		}
	}
}

void rpc_session_fail_calls(struct rpc_session *s, int status)
{
	const uint64_t now = time_now_ns();
	struct ended e = { { NULL, NULL } };

	if (!__atomic_load_n(&s->is_ready, __ATOMIC_ACQUIRE))
		goto out_wake;
	spin_lock(&s->lock);
	for (uint32_t i = 0; i < rpc_class_cfg[s->cls].nr_slots; i++) {
		if (s->cslots[i].state == RPC_CSLOT_BUSY)
			give_up_locked(s, i, now, &e);
	}
	spin_unlock(&s->lock);
	ended_finish(&e, status);
out_wake:
	wake_all(&s->slot_wq);
}

void rpc_session_forget_client(struct rpc_session *s, struct rpc_batch *b)
{
	if (!s->is_ready)
		return;
	for (uint32_t i = 0; i < rpc_class_cfg[s->cls].nr_slots; i++) {
		struct rpc_sslot *ss = &s->sslots[i];

		if (ss->req)
			rpc_request_orphan_locked(s, ss->req);
		if (ss->sent) {
			rpc_batch_add(b, ss->sent, ss->sent_arg);
			ss->sent = NULL;
			rpc_outstanding_dec();
		}
		ss->req = NULL;
		rpc_sslot_set_state_locked(s, ss, RPC_SSLOT_NONE);
		ss->req_id = 0;
		ss->nr_writes = 0;
	}
	s->s_unsent = 0;
	s->s_sent_pending = 0;
}

/* Deadlines and old quarantines; true when the connection must be reset. */
static bool check_times_locked(struct rpc_session *s, uint64_t now, struct ended *e)
{
	const uint64_t bound = (uint64_t)rpc_tune.quarantine_ms * NSEC_PER_MSEC;
	bool reset = false;

	assert_spin_held(&s->lock);
	for (uint32_t i = 0; i < rpc_class_cfg[s->cls].nr_slots; i++) {
		struct rpc_cslot *cs = &s->cslots[i];

		if (cs->state == RPC_CSLOT_BUSY && now >= cs->deadline_ns) {
			counter_inc(&rpc_c_timeouts);
			give_up_locked(s, i, now, e);
		}
		if (cs->state == RPC_CSLOT_QUARANTINE && now - cs->quarantined_ns > bound)
			reset = true;
	}
	return reset;
}

static void tick_conn_locked(struct rpc_session *s, struct rpc_conn *conn, uint64_t now,
			     struct rpc_batch *b)
{
	const uint64_t age = 2ull * rpc_tune.tick_ms * NSEC_PER_MSEC;
	uint64_t pending;

	assert_spin_held(&s->lock);
	if (conn->state == RPC_CONN_ACCEPTING && now - conn->opened_ns > 5 * NSEC_PER_SEC) {
		rpc_conn_break_locked(s, conn); /* their RTU never came */
		return;
	}
	if (conn->state != RPC_CONN_UP)
		return;
	rpc_reap_locked(conn, b);
	rpc_flush_locked(s);
	if (conn->sq_signalled > conn->sq_completed)
		return; /* a completion is on its way */
	if (s->nr_busy > 0 && now - s->probed_ns >= (uint64_t)rpc_tune.probe_ms * NSEC_PER_MSEC) {
		s->probed_ns = now;
		counter_inc(&rpc_c_probes);
		rpc_post_flush_write_locked(conn);
		return;
	}
	for (pending = s->s_sent_pending; pending; pending &= pending - 1) {
		const struct rpc_sslot *ss = &s->sslots[__builtin_ctzll(pending)];

		if (ss->gen == conn->gen && now - ss->sent_ns >= age) {
			rpc_post_flush_write_locked(conn);
			return;
		}
	}
}

/* Called every rpc.tick_ms while anything is outstanding. */
void rpc_session_tick(struct rpc_session *s, uint64_t now)
{
	struct ended e = { { NULL, NULL } };
	struct rpc_batch b = { .nr = 0 };
	bool kick = false;

	if (!__atomic_load_n(&s->is_ready, __ATOMIC_ACQUIRE))
		return;
	spin_lock(&s->lock);
	if (check_times_locked(s, now, &e) && s->conn && s->conn->state == RPC_CONN_UP) {
		counter_inc(&rpc_c_quarantine_resets);
		rpc_conn_break_locked(s, s->conn);
	}
	s->c_unsent |= s->c_parked;
	s->c_parked = 0;
	if (s->conn)
		tick_conn_locked(s, s->conn, now, &b);
	else if ((s->nr_busy || s->want_conn) && now >= READ_ONCE(s->next_attempt_ns))
		kick = true;
	spin_unlock(&s->lock);
	ended_finish(&e, -ETIMEDOUT);
	rpc_batch_run(&b);
	if (kick)
		rpc_session_kick(s);
	rpc_session_wake_slots(s);
}
