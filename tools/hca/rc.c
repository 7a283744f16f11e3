/* SPDX-License-Identifier: MIT */
/*
 * HCA model: the connected transports, RC and UC.
 *
 * A message is executed at once on both sides: the requester's WQE is checked
 * and gathered, the responder's rights are checked, the bytes are copied from
 * guest to guest, and both completions are written.  Packet sequence numbers
 * advance as if the packets had crossed, and must agree.
 *
 * Failure:	an unreachable or unwilling peer costs an ack timeout and a
 *		retry; an empty receive queue an RNR timer; what is left after
 *		the last retry, and every protection error, completes the WQE in
 *		error.  UC drops instead.
 *		The ack timeout is four times the nominal one, which the
 *		specification allows: guests under emulation stall for 100 ms.
 * Limits:	one turn moves at most *bytes; a longer message goes on later.
 */
#include "hca.h"

#define ACK_TIMEOUT_UNIT_NS 4096ull
#define ACK_TIMEOUT_SCALE   4u
#define RNR_INFINITE        7u
#define RNR_MIN_NS          (100 * NSEC_PER_USEC)

/* RNR timer codes of the IBTA specification, in units of 10 us. */
static const uint32_t rnr_10us[32] = { 65536, 1,    2,    3,     4,     6,     8,     12,
				       16,    24,   32,   48,    64,    96,    128,   192,
				       256,   384,  512,  768,   1024,  1536,  2048,  3072,
				       4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152 };

static bool rc_accepts(const struct qp *peer)
{
	return peer->state == QPS_RTR || peer->state == QPS_RTS || peer->state == QPS_SQD ||
	       peer->state == QPS_SQER;
}

/* The QP at the other end, if it would take a packet from us now. */
struct qp *rc_peer(struct qp *qp)
{
	struct hca *h = fabric_route(qp->h, qp->path.dlid);
	struct qp *peer = h ? qp_find(h, qp->remote_qpn) : NULL;

	if (!peer || peer->type != qp->type || !rc_accepts(peer) || peer->special)
		return NULL;
	if (qp->path.grh && !port_has_gid(h, qp->path.dgid))
		return NULL;
	if (peer->remote_qpn != qp->qpn || peer->path.dlid != port_lid(qp->h))
		return NULL;
	if (qp->type == QPT_RC && peer->recv_psn != qp->send_psn)
		return NULL;
	return peer;
}

static enum run_result fail(struct qp *qp, enum cqe_syndrome syn)
{
	qp_complete_send(qp, NULL, syn);
	qp_send_done(qp);
	qp_error(qp);
	return RUN_ERROR;
}

static enum run_result finish(struct qp *qp, const struct wqe *w)
{
	qp_complete_send(qp, w, SYN_OK);
	qp_send_done(qp);
	return RUN_NEXT;
}

/* The acknowledgement did not come. */
static enum run_result lost(struct qp *qp, const struct wqe *w)
{
	uint64_t ns = NSEC_PER_SEC; /* a timeout of zero never gives up: look now and then */

	if (qp->type == QPT_UC)
		return finish(qp, w);
	qp->progress = 0;
	if (qp->path.ack_timeout) {
		if (qp->tries >= qp->retry_cnt)
			return fail(qp, SYN_RETRY_EXC);
		qp->tries++;
		ns = (ACK_TIMEOUT_UNIT_NS << qp->path.ack_timeout) * ACK_TIMEOUT_SCALE;
	}
	qp->h->stats.retries++;
	qp_wait(qp, ns);
	return RUN_WAIT;
}

/* The responder has no receive WQE. */
static enum run_result rnr(struct qp *qp, const struct wqe *w, struct qp *peer)
{
	const uint64_t ns = rnr_10us[peer->min_rnr] * 10 * NSEC_PER_USEC;

	if (qp->type == QPT_UC)
		return finish(qp, w);
	peer->h->stats.rnr_naks++;
	pcap_nak(qp, peer, NAK_RNR | peer->min_rnr);
	if (qp->rnr_retry != RNR_INFINITE) {
		if (qp->rnr_tries >= qp->rnr_retry)
			return fail(qp, SYN_RNR_EXC);
		qp->rnr_tries++;
	}
	qp_wait(qp, MAX(ns, RNR_MIN_NS));
	return RUN_WAIT;
}

/* The responder refuses: it goes to the error state, we get @syn. */
static enum run_result refused(struct qp *qp, const struct wqe *w, struct qp *peer,
			       enum cqe_syndrome syn)
{
	if (qp->type == QPT_UC)
		return finish(qp, w);
	pcap_nak(qp, peer, syn == SYN_REM_ACCESS ? NAK_ACCESS : NAK_INV_REQ);
	if (syn == SYN_REM_ACCESS) {
		peer->h->stats.access_errors++;
		qp_event(peer, EV_WQ_ACCESS);
	} else if (syn == SYN_REM_INV_REQ) {
		qp_event(peer, EV_WQ_INVAL_REQ);
	}
	qp_error(peer);
	return fail(qp, syn);
}

/* The responder's own receive WQE is at fault: complete it with @syn as well. */
static enum run_result recv_fault(struct qp *qp, const struct wqe *w, struct qp *peer,
				  enum cqe_syndrome syn, enum cqe_syndrome to_sender)
{
	const struct completion c = { .syndrome = (uint8_t)syn };

	qp_complete_recv(peer, &c);
	qp_error(peer);
	if (qp->type == QPT_UC)
		return finish(qp, w);
	pcap_nak(qp, peer, to_sender == SYN_REM_OP ? NAK_REM_OP : NAK_INV_REQ);
	return fail(qp, to_sender);
}

/* Count a message and move both sequence numbers. */
static void account(struct qp *qp, struct qp *peer, const struct wqe *w, bool from_peer)
{
	const uint64_t len = w->len;
	const uint64_t mtu = 128ull << qp->mtu;
	const uint64_t packets = len ? (len + mtu - 1) / mtu : 1;
	struct hca_stats *tx = from_peer ? &peer->h->stats : &qp->h->stats;
	struct hca_stats *rx = from_peer ? &qp->h->stats : &peer->h->stats;

	peer->recv_msn++;
	pcap_message(qp, peer, w, packets);
	tx->tx_packets += packets;
	tx->tx_bytes += len;
	rx->rx_packets += packets;
	rx->rx_bytes += len;
	qp->send_psn = (uint32_t)(qp->send_psn + packets) & QPN_MASK;
	peer->recv_psn = qp->send_psn;
	if (peer->state == QPS_RTR && !peer->comm_est) {
		peer->comm_est = true;
		qp_event(peer, EV_COMM_EST);
	}
}

static uint32_t recv_pd(const struct qp *qp)
{
	return qp->srq ? qp->srq->pd : qp->pd;
}

/* Move the next slice; *done when the message is complete. */
static enum copy_fault move(struct qp *qp, struct stream *dst, struct stream *src, uint64_t len,
			    uint64_t *bytes, bool *done)
{
	const uint64_t n = MIN(len - qp->progress, *bytes);
	enum copy_fault fault;

	stream_skip(dst, qp->progress);
	stream_skip(src, qp->progress);
	fault = stream_copy(dst, src, n);
	if (fault)
		return fault;
	bucket_charge(src->h, dst->h, n);
	*bytes -= n;
	qp->progress += n;
	*done = qp->progress == len;
	return COPY_OK;
}

static bool hold_recv(struct qp *peer)
{
	if (!peer->rx_held)
		peer->rx_held = rq_take(peer, &peer->rx_index);
	return peer->rx_held;
}

static void recv_done(struct qp *qp, struct qp *peer, const struct wqe *w, uint8_t opcode)
{
	const struct completion c = {
		.imm = w->imm,
		.src_qpn = qp->qpn,
		.slid = port_lid(qp->h),
		.sl = qp->path.sl,
		.len = (uint32_t)w->len,
		.opcode = opcode,
		.solicited = w->solicited,
	};

	qp_complete_recv(peer, &c);
}

static enum run_result rc_send(struct qp *qp, struct wqe *w, struct qp *peer, uint64_t *bytes)
{
	struct stream src, dst;
	struct wqe rw;
	bool done = false;

	if (!hold_recv(peer))
		return rnr(qp, w, peer);
	if (!rq_fetch(peer, peer->rx_index, &rw))
		return recv_fault(qp, w, peer, SYN_LOCAL_QP_OP, SYN_REM_OP);
	if (rw.len < w->len)
		return recv_fault(qp, w, peer, SYN_LOCAL_LENGTH, SYN_REM_INV_REQ);
	if (stream_check(peer->h, recv_pd(peer), MPT_LOCAL_WRITE, rw.sge, rw.nr_sge, w->len))
		return recv_fault(qp, w, peer, SYN_LOCAL_PROT, SYN_REM_OP);
	stream_init(&src, qp->h, qp->pd, MPT_LOCAL_READ, w->sge, w->nr_sge);
	stream_init(&dst, peer->h, recv_pd(peer), MPT_LOCAL_WRITE, rw.sge, rw.nr_sge);
	switch (move(qp, &dst, &src, w->len, bytes, &done)) {
	case COPY_SRC:
		return fail(qp, SYN_LOCAL_PROT);
	case COPY_DST:
		return recv_fault(qp, w, peer, SYN_LOCAL_PROT, SYN_REM_OP);
	case COPY_OK:
		break;
	}
	if (!done)
		return RUN_MORE;
	qp->h->stats.sends++;
	account(qp, peer, w, false);
	recv_done(qp, peer, w, w->opcode == WQE_SEND_IMM ? RCQE_SEND_IMM : RCQE_SEND);
	return finish(qp, w);
}

static enum run_result rc_write(struct qp *qp, struct wqe *w, struct qp *peer, uint64_t *bytes)
{
	const struct sge remote = { .addr = w->raddr, .len = w->len, .lkey = w->rkey };
	const bool imm = w->opcode == WQE_WRITE_IMM;
	struct stream src, dst;
	bool done = false;

	if (!peer->rwe)
		return refused(qp, w, peer, SYN_REM_INV_REQ);
	if (stream_check(peer->h, peer->pd, MPT_REMOTE_WRITE, &remote, 1, w->len))
		return refused(qp, w, peer, SYN_REM_ACCESS);
	if (imm && !hold_recv(peer))
		return rnr(qp, w, peer);
	stream_init(&src, qp->h, qp->pd, MPT_LOCAL_READ, w->sge, w->nr_sge);
	stream_init(&dst, peer->h, peer->pd, MPT_REMOTE_WRITE, &remote, 1);
	switch (move(qp, &dst, &src, w->len, bytes, &done)) {
	case COPY_SRC:
		return fail(qp, SYN_LOCAL_PROT);
	case COPY_DST:
		return refused(qp, w, peer, SYN_REM_ACCESS);
	case COPY_OK:
		break;
	}
	if (!done)
		return RUN_MORE;
	if (imm)
		qp->h->stats.writes_imm++;
	else
		qp->h->stats.writes++;
	account(qp, peer, w, false);
	if (imm)
		recv_done(qp, peer, w, RCQE_WRITE_IMM);
	return finish(qp, w);
}

static enum run_result rc_read(struct qp *qp, struct wqe *w, struct qp *peer, uint64_t *bytes)
{
	const struct sge remote = { .addr = w->raddr, .len = w->len, .lkey = w->rkey };
	struct stream src, dst;
	bool done = false;

	if (!peer->rre)
		return refused(qp, w, peer, SYN_REM_INV_REQ);
	if (stream_check(peer->h, peer->pd, MPT_REMOTE_READ, &remote, 1, w->len))
		return refused(qp, w, peer, SYN_REM_ACCESS);
	stream_init(&src, peer->h, peer->pd, MPT_REMOTE_READ, &remote, 1);
	stream_init(&dst, qp->h, qp->pd, MPT_LOCAL_WRITE, w->sge, w->nr_sge);
	switch (move(qp, &dst, &src, w->len, bytes, &done)) {
	case COPY_SRC:
		return refused(qp, w, peer, SYN_REM_ACCESS);
	case COPY_DST:
		return fail(qp, SYN_LOCAL_PROT);
	case COPY_OK:
		break;
	}
	if (!done)
		return RUN_MORE;
	qp->h->stats.reads++;
	account(qp, peer, w, true);
	return finish(qp, w);
}

/* One 64-bit word of the peer's memory, in the byte order of its (x86) host. */
static uint64_t atomic_apply(uint64_t *word, const struct wqe *w)
{
	uint64_t old = __atomic_load_n(word, __ATOMIC_SEQ_CST), new;

	do {
		if (w->opcode == WQE_FAA) {
			new = old + w->swap_add;
		} else if (w->opcode == WQE_MASKED_FAA) {
			/* swap_mask marks fields' top bits: carries do not cross them */
			const uint64_t top = w->compare;

			new = ((old & ~top) + (w->swap_add & ~top)) ^ ((old ^ w->swap_add) & top);
		} else {
			if ((old ^ w->compare) & w->compare_mask)
				return old;
			new = (old & ~w->swap_mask) | (w->swap_add & w->swap_mask);
		}
	} while (!__atomic_compare_exchange_n(word, &old, new, false, __ATOMIC_SEQ_CST,
					      __ATOMIC_SEQ_CST));
	return old;
}

static enum run_result rc_atomic(struct qp *qp, struct wqe *w, struct qp *peer)
{
	struct stream dst;
	struct mr mr;
	uint64_t n = 8, old;
	uint64_t *word;

	if (qp->type == QPT_UC || w->len != 8)
		return fail(qp, w->len != 8 ? SYN_LOCAL_LENGTH : SYN_LOCAL_QP_OP);
	if (!peer->rae || w->raddr & 7)
		return refused(qp, w, peer, SYN_REM_INV_REQ);
	if (mr_get(peer->h, w->rkey, peer->pd, MPT_ATOMIC, w->raddr, 8, &mr))
		return refused(qp, w, peer, SYN_REM_ACCESS);
	word = mr_span(peer->h, &mr, w->raddr, &n);
	if (!word || n < 8 || (uintptr_t)word & 7)
		return refused(qp, w, peer, SYN_REM_ACCESS);
	old = atomic_apply(word, w);
	w->old = old;
	stream_init(&dst, qp->h, qp->pd, MPT_LOCAL_WRITE, w->sge, w->nr_sge);
	if (!stream_put(&dst, (const uint8_t *)&old, sizeof(old)))
		return fail(qp, SYN_LOCAL_PROT);
	qp->h->stats.atomics++;
	account(qp, peer, w, true);
	return finish(qp, w);
}

static bool writes_local(uint8_t opcode)
{
	return opcode >= WQE_READ;
}

/* Run the head WQE, or a slice of it. */
enum run_result rc_run_head(struct qp *qp, struct wqe *w, uint64_t *bytes)
{
	const uint32_t need = writes_local(w->opcode) ? MPT_LOCAL_WRITE : MPT_LOCAL_READ;
	uint64_t slice, granted, wait_ns;
	struct qp *peer;
	uint8_t syn;

	syn = qp->progress ? 0 : fault_error_next(qp->h);
	if (syn)
		return fail(qp, syn);
	if (stream_check(qp->h, qp->pd, need, w->sge, w->nr_sge, w->len))
		return fail(qp, SYN_LOCAL_PROT);
	if (qp->type == QPT_UC && writes_local(w->opcode))
		return fail(qp, SYN_LOCAL_QP_OP);
	peer = rc_peer(qp);
	if (!peer)
		return lost(qp, w);
	slice = MIN(*bytes, w->len - qp->progress);
	granted = bucket_grant(qp->h, peer->h, slice, &wait_ns);
	if (wait_ns) {
		qp_wait(qp, wait_ns);
		return RUN_WAIT;
	}
	if (granted < slice)
		*bytes = granted;
	switch (w->opcode) {
	case WQE_SEND:
	case WQE_SEND_IMM:
		return rc_send(qp, w, peer, bytes);
	case WQE_WRITE:
	case WQE_WRITE_IMM:
		return rc_write(qp, w, peer, bytes);
	case WQE_READ:
		return rc_read(qp, w, peer, bytes);
	default:
		return rc_atomic(qp, w, peer);
	}
}
