/* SPDX-License-Identifier: MIT */
/*
 * HCA model: queue pairs at run time.
 *
 * Flow:	a doorbell, a timer or the run queue calls qp_run(), which runs
 *		the WQEs at the head of the send queue one after the other until
 *		none is ready, the QP must wait, or its turn is over.
 * Failure:	an error completes the head WQE, puts the QP in ERR (connected)
 *		or SQER (datagram), and the rest is flushed in order.  Nothing
 *		tells the model of a receive posted to a QP in ERR, so it looks
 *		again after 1 ms, 2 ms .. FLUSH_MAX_MS.
 */
#include "hca.h"

#include <stdlib.h>

#define FLUSH_MAX_MS 128u

struct qp *qp_find(struct hca *h, uint32_t qpn)
{
	return h->qps && qpn < 1u << h->log_qp ? h->qps[qpn] : NULL;
}

void qp_free(struct qp *qp)
{
	struct hca *h = qp->h;
	struct cq *scq = cq_find(h, qp->send_cqn), *rcq = cq_find(h, qp->recv_cqn);

	if (scq)
		scq->refs--;
	if (rcq)
		rcq->refs--;
	if (qp->srq)
		qp->srq->refs--;
	alarm_cancel(h->fabric, &qp->timer);
	list_del(&qp->run);
	free(qp->due);
	h->qps[qp->qpn] = NULL;
	free(qp);
}

/* The number that a packet carries: special QPs are 0 and 1 on the wire. */
unsigned qp_wire_number(const struct qp *qp)
{
	if (!qp->special)
		return qp->qpn;
	return (qp->qpn - qp->h->special_base) >> 1;
}

void qp_event(struct qp *qp, enum hca_event type)
{
	eq_event_num(qp->h, type, qp->qpn);
}

/* Let the QP rest for @ns. */
void qp_wait(struct qp *qp, uint64_t ns)
{
	qp->wait = WAIT_TIMER;
	alarm_set(qp->h->fabric, &qp->timer, qp->h->fabric->now_ns + ns);
}

void qp_complete_send(struct qp *qp, const struct wqe *w, enum cqe_syndrome syn)
{
	struct completion c = {
		.qpn = qp->qpn,
		.wqe = qp->sq_head,
		.send = true,
		.syndrome = (uint8_t)syn,
	};

	if (!syn && (!w || !w->signaled))
		return;
	if (!syn) {
		c.opcode = w->opcode;
		if (w->opcode >= WQE_READ && w->opcode <= WQE_MASKED_FAA)
			c.len = (uint32_t)w->len;
	}
	cq_post(qp->h, qp->send_cqn, &c);
}

void qp_complete_recv(struct qp *qp, const struct completion *c)
{
	struct completion out = *c;

	out.qpn = qp->qpn;
	out.send = false;
	out.wqe = (uint16_t)qp->rx_index;
	qp->rx_held = false;
	cq_post(qp->h, qp->recv_cqn, &out);
}

/* The head WQE is finished, for better or worse. */
void qp_send_done(struct qp *qp)
{
	if (qp->due_tail == qp->sq_head)
		qp->due_tail++; /* never falls behind, or its distance would wrap */
	qp->sq_head++;
	qp->progress = 0;
	qp->tries = 0;
	qp->rnr_tries = 0;
	qp->hold_until_ns = 0;
}

/* Take the next receive WQE.  False: none is posted. */
bool rq_take(struct qp *qp, uint32_t *index)
{
	uint16_t posted;
	be32_t rec;

	if (qp->srq)
		return srq_take(qp->h, qp->srq, index);
	if (!qp->has_rq || !mem_read(qp->h, qp->rq_db_gpa, &rec, sizeof(rec)))
		return false;
	posted = (uint16_t)((uint16_t)be32_to_cpu(rec) - qp->rq_head);
	if (posted == 0 || posted > 1u << qp->rq_log_size)
		return false;
	*index = qp->rq_head++;
	return true;
}

/* Read receive WQE @index.  False: it cannot be read or makes no sense. */
bool rq_fetch(struct qp *qp, uint32_t index, struct wqe *w)
{
	const uint8_t *p;
	size_t len;

	if (qp->srq) {
		const struct srq *s = qp->srq;

		len = (size_t)1 << s->log_stride;
		p = mtt_ptr(qp->h, &s->buf, (uint64_t)index << s->log_stride, len);
		if (!p || len > sizeof(w->raw))
			return false;
		memcpy(w->raw, p, len);
		return wqe_parse_recv(w->raw + sizeof(struct hw_srq_wqe),
				      len - sizeof(struct hw_srq_wqe), w);
	}
	len = (size_t)1 << qp->rq_log_stride;
	index &= (1u << qp->rq_log_size) - 1;
	p = mtt_ptr(qp->h, &qp->buf, qp->rq_off + ((uint64_t)index << qp->rq_log_stride), len);
	if (!p || len > sizeof(w->raw))
		return false;
	memcpy(w->raw, p, len);
	return wqe_parse_recv(w->raw, len, w);
}

/* Enter the error state; what is outstanding is flushed by qp_run(). */
void qp_error(struct qp *qp)
{
	if (qp->state == QPS_RST || qp->state == QPS_ERR)
		return;
	qp->state = QPS_ERR;
	qp->wait = WAIT_NONE;
	qp->progress = 0;
	qp->flush_ms = 1;
	alarm_cancel(qp->h->fabric, &qp->timer);
	fabric_queue(qp);
}

static bool flush_send(struct qp *qp, unsigned *budget)
{
	while (wqe_state(qp, qp->sq_head) == SQ_READY) {
		if (!*budget)
			return false;
		(*budget)--;
		qp_complete_send(qp, NULL, SYN_FLUSH);
		qp_send_done(qp);
	}
	return true;
}

static bool flush_recv(struct qp *qp, unsigned *budget)
{
	const struct completion c = { .syndrome = SYN_FLUSH };

	if (qp->rx_held)
		qp_complete_recv(qp, &c);
	if (qp->srq) {
		if (!qp->last_wqe)
			qp_event(qp, EV_LAST_WQE);
		qp->last_wqe = true;
		return true;
	}
	while (*budget && rq_take(qp, &qp->rx_index)) {
		(*budget)--;
		qp->flush_ms = 1;
		qp_complete_recv(qp, &c);
	}
	return *budget != 0;
}

static void qp_flush(struct qp *qp)
{
	unsigned budget = RUN_WQES * 4;

	if (!flush_send(qp, &budget) || (qp->state == QPS_ERR && !flush_recv(qp, &budget))) {
		fabric_queue(qp);
		return;
	}
	if (qp->state != QPS_ERR || !qp->has_rq)
		return;
	alarm_set(qp->h->fabric, &qp->timer, qp->h->fabric->now_ns + qp->flush_ms * NSEC_PER_MSEC);
	qp->flush_ms = MIN(qp->flush_ms * 2, FLUSH_MAX_MS);
}

/* The head WQE failed on this side. */
void qp_send_error(struct qp *qp, enum cqe_syndrome syn)
{
	qp_complete_send(qp, NULL, syn);
	qp_send_done(qp);
	if (qp->type == QPT_RC || qp->type == QPT_UC) {
		qp_error(qp);
		return;
	}
	qp->state = QPS_SQER;
	fabric_queue(qp);
}

static enum run_result run_head(struct qp *qp, uint64_t *bytes)
{
	struct wqe w;
	enum cqe_syndrome syn = wqe_fetch(qp, qp->sq_head, &w);

	if (syn) {
		qp_send_error(qp, syn);
		return RUN_ERROR;
	}
	if (w.opcode == WQE_NOP) {
		qp_complete_send(qp, &w, SYN_OK);
		qp_send_done(qp);
		return RUN_NEXT;
	}
	if (qp->type == QPT_RC || qp->type == QPT_UC)
		return rc_run_head(qp, &w, bytes);
	return ud_run_head(qp, &w);
}

static bool qp_may_send(const struct qp *qp)
{
	if (qp->wait != WAIT_NONE)
		return false;
	return qp->state == QPS_RTS || (qp->state == QPS_SQD && qp->progress);
}

/* Fault injection may keep the head WQE back.  True: it does. */
static bool qp_kept_back(struct qp *qp)
{
	const bool connected = qp->type == QPT_RC || qp->type == QPT_UC;
	const struct fabric *f = qp->h->fabric;
	uint64_t due;

	if (connected && inject_held(qp)) {
		qp->wait = WAIT_HELD;
		return true;
	}
	due = inject_due(qp, qp->sq_head);
	if (due <= f->now_ns)
		return false;
	qp_wait(qp, due - f->now_ns);
	return true;
}

void qp_run(struct qp *qp)
{
	uint64_t bytes = RUN_BYTES;

	if (qp->h->dead)
		return;
	if (qp->state == QPS_ERR || qp->state == QPS_SQER) {
		qp_flush(qp);
		return;
	}
	for (unsigned i = 0; i < RUN_WQES && bytes; i++) {
		enum sq_entry e;

		if (!qp_may_send(qp))
			return;
		e = wqe_state(qp, qp->sq_head);
		if (e == SQ_EMPTY)
			return;
		if (e == SQ_FAULT) {
			hca_log(qp->h, "QP %06x: send queue is not mapped", qp->qpn);
			qp_event(qp, EV_WQ_CATAS);
			qp_error(qp);
			return;
		}
		if (qp_kept_back(qp))
			return;
		switch (run_head(qp, &bytes)) {
		case RUN_NEXT:
			continue;
		case RUN_MORE:
			fabric_queue(qp);
			return;
		case RUN_WAIT:
		case RUN_ERROR:
			return;
		}
	}
	fabric_queue(qp); /* its turn is over */
}

void qp_doorbell(struct hca *h, uint32_t qpn)
{
	struct qp *qp = qp_find(h, qpn);

	h->stats.doorbells++;
	if (!qp) {
		h->stats.bad_doorbells++;
		return;
	}
	if (inject_stamping(h->fabric))
		inject_stamp(qp);
	qp_run(qp);
}
