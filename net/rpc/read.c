/* SPDX-License-Identifier: MIT */
/*
 * RPC: one-sided reads.
 *
 * Flow:	a call of RPC_CLASS_READ or RPC_CLASS_READ_AHEAD takes a slot like others, and
 *		becomes one RDMA READ with a completion, from one place there into one or several
 *		here: no header, no message, and no CPU of the peer. Calls that are submitted
 *		together share a doorbell. The completion comes to the queue of the class, where its
 *		poller ends the call.
 * Invariants:	each of the two classes has a connection of its own, on which nothing else is sent:
 *		a READ that the peer's device refuses breaks this connection and no other. All work
 *		requests on it are signalled, and complete in order in the queue of the class
 *		instead of one of the connection.
 * Failure:	a READ is never sent twice: those that were posted on a connection that broke end
 *		with -EIO when its queue pair is gone, after which nothing writes their targets.
 *		One that was given up keeps its slot in quarantine until then, or until it
 *		completes.
 * Locking:	as in send.c.
 */
#define PR_FMT "rpc: "

#include "rpc_priv.h"

#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/time.h>

#define SLOT_SHIFT 56 /* of wr_id: the slot, behind which is the number of the work request */
#define SEQ_MASK   (BIT64(SLOT_SHIFT) - 1)

static_assert(RPC_MAX_SLOTS <= 64, "a slot's number fits");

int rpc_post_read_locked(struct rpc_conn *conn, uint32_t slot)
{
	struct rpc_session *s = conn->session;
	struct rpc_cslot *cs = &s->cslots[slot];
	const struct rpc_call *call = &cs->call->pub;
	struct rdma_send_wr wr = {
		.wr_id = (uint64_t)slot << SLOT_SHIFT | (conn->sq_posted + 1),
		.sge = cs->sge,
		.nr_sge = cs->nr_sge,
		.opcode = RDMA_WR_READ,
		.flags = RDMA_SEND_SIGNALED,
		.remote_addr = call->remote_addr,
		.rkey = call->rkey,
	};
	const struct rdma_send_wr *bad;
	bool chained;
	int err;

	assert_spin_held(&s->lock);
	chained = s->is_chaining;
	if (chained)
		wr.flags |= RDMA_SEND_DEFER;
	ASSERT(conn->sq_posted - conn->sq_completed < conn->sq_size);
	conn->sq_posted++;
	conn->sq_signalled = conn->sq_posted;
	conn->doorbell_pending = chained;
	err = rdma_post_send(conn->qp, &wr, &bad);
	if (unlikely(err)) {
		rpc_conn_break_locked(s, conn);
		return err;
	}
	cs->posted = true;
	s->c_unsent &= ~BIT64(slot);
	counter_inc(&rpc_c_reads);
	counter_add(&rpc_c_doorbells, !chained);
	counter_inc(&rpc_c_work_requests);
	return 0;
}

void rpc_read_failed(struct rpc_conn *conn, const struct rdma_wc *wc)
{
	const uint32_t slot = (uint32_t)(wc->wr_id >> SLOT_SHIFT);
	const uint64_t seq = wc->wr_id & SEQ_MASK;
	struct rpc_session *s = conn->session;
	struct rpc_cslot *cs;

	if (wc->status != RDMA_WC_REM_ACCESS_ERR)
		return;
	counter_inc(&rpc_c_read_refused);
	if (!rpc_class_is_read(s->cls) || slot >= rpc_class_cfg[s->cls].nr_slots)
		return;
	/* Those behind it end with it, and tell nothing of what they would have read. */
	spin_lock(&s->lock);
	cs = &s->cslots[slot];
	if (s->conn == conn && seq > conn->sq_completed && seq <= conn->sq_posted &&
	    cs->state == RPC_CSLOT_BUSY && cs->posted)
		cs->call->pub.refused = true;
	spin_unlock(&s->lock);
}

/* Polling context: @wc is a READ or a probe, and a success. */
void rpc_read_completed(struct rpc_conn *conn, const struct rdma_wc *wc, uint64_t now)
{
	const uint32_t slot = (uint32_t)(wc->wr_id >> SLOT_SHIFT);
	const uint64_t seq = wc->wr_id & SEQ_MASK;
	struct rpc_session *s = conn->session;
	struct rpc_call_impl *impl;
	struct rpc_cslot *cs;
	bool late;

	spin_lock(&s->lock);
	/* Completions come in order; one out of order is ignored. */
	if (s->conn != conn || seq <= conn->sq_completed || seq > conn->sq_posted) {
		spin_unlock(&s->lock);
		return;
	}
	conn->sq_completed = seq;
	if (wc->opcode != RDMA_WC_READ) { /* a probe */
		spin_unlock(&s->lock);
		return;
	}
	cs = &s->cslots[slot];
	impl = cs->call;
	late = cs->state == RPC_CSLOT_QUARANTINE;
	ASSERT(late || (cs->state == RPC_CSLOT_BUSY && cs->posted));
	if (late) {
		counter_inc(&rpc_c_late_replies);
	} else {
		rpc_call_set_finishing(impl);
		s->nr_busy--;
		impl->pub.answered = true;
		impl->answered_ns = now;
		if (cs->is_async)
			atomic_dec(&s->queue->nr_async);
		rpc_note_latency_locked(s, now - impl->submitted_ns);
	}
	rpc_cslot_free_locked(s, slot);
	spin_unlock(&s->lock);
	if (late)
		rpc_call_left_quarantine(impl);
	else
		rpc_call_finish(impl, 0, 0, true);
	rpc_session_wake_slots(s);
}

bool rpc_read_end_locked(struct rpc_session *s, uint32_t slot)
{
	struct rpc_cslot *cs = &s->cslots[slot];

	assert_spin_held(&s->lock);
	ASSERT(cs->state == RPC_CSLOT_BUSY);
	if (!rpc_class_is_read(s->cls) || !cs->posted)
		return false;
	rpc_call_set_finishing(cs->call);
	s->nr_busy--;
	if (cs->is_async)
		atomic_dec(&s->queue->nr_async);
	rpc_cslot_free_locked(s, slot);
	return true;
}
