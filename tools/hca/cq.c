/* SPDX-License-Identifier: MIT */
/*
 * HCA model: completion queues.
 *
 * Flow:	cq_post() writes an entry and, when the queue is armed for it,
 *		an event.  Arming with an entry that no event has told of yet
 *		fires at once; an entry that an event has told of does not fire
 *		again, although the program may not have polled it (a program
 *		arms first and polls then).  With a moderation period, an event waits
 *		until max_count entries are untold or the period since the first of
 *		them is over.  A count of 0 means the period alone, 1 (or no period)
 *		no moderation.
 * Ordering:	an entry's body is stored before its owner byte (release).
 * Failure:	an entry that finds the queue full (or that fault injection says does)
 *		breaks the queue: event CQ_ERROR, and nothing more is written to it.
 */
#include "hca.h"

#include <stdlib.h>

#define CQ_SYN_OVERRUN    1
#define CQ_SYN_ACCESS     2
#define CQ_ARM_SOLICIT    1
#define CQ_ARM_NEXT       2
#define CQ_INDEX_MASK     0xffffffu
#define CQ_CTX_OVERRUN_OK BIT(17)

struct cq *cq_find(struct hca *h, uint32_t cqn)
{
	return h->cqs && cqn < 1u << h->log_cq ? h->cqs[cqn] : NULL;
}

static void cq_fail(struct hca *h, struct cq *cq, uint8_t syndrome)
{
	const struct hw_ev_cq ev = { .cqn = cpu_to_be32(cq->cqn), .syndrome = syndrome };

	cq->failed = true;
	h->stats.cq_overruns++;
	hca_log(h, "CQ %u failed: %s", cq->cqn,
		syndrome == CQ_SYN_OVERRUN ? "overrun" : "buffer is not mapped");
	eq_event(h, EV_CQ_ERROR, 0, &ev, sizeof(ev));
}

static void cq_fire(struct hca *h, struct cq *cq)
{
	const struct hw_eqe eqe = { .type = EV_COMP, .number = cpu_to_be32(cq->cqn) };

	cq->armed = false;
	cq->armed_solicited = false;
	alarm_cancel(h->fabric, &cq->moderation);
	cq->notified = cq->producer;
	eq_post(h, cq->eqn, &eqe);
}

static void moderation_over(struct alarm *t)
{
	struct cq *cq = container_of(t, struct cq, moderation);

	if (cq->armed || cq->armed_solicited)
		cq_fire(cq->h, cq);
}

/* An event is due: now, or when moderation lets it. */
static void cq_tell(struct hca *h, struct cq *cq)
{
	const bool enough = cq->max_count && cq->producer - cq->notified >= cq->max_count;

	if (cq->period_us == 0 || enough) {
		cq_fire(h, cq);
		return;
	}
	if (!cq->moderation.slot)
		alarm_set(h->fabric, &cq->moderation,
			  h->fabric->now_ns + cq->period_us * NSEC_PER_USEC);
}

static void cq_moderate(struct cq *cq, const struct hw_cqc *x)
{
	cq->period_us = be16_to_cpu(x->period_us);
	cq->max_count = be16_to_cpu(x->max_count);
}

/* The entry of @index in a buffer of 1 << @log_size. */
static struct hw_cqe *cq_slot(struct hca *h, const struct mtt_buf *buf, unsigned log_size,
			      uint32_t index)
{
	const uint64_t i = index & ((1u << log_size) - 1);

	return mtt_ptr(h, buf, i * sizeof(struct hw_cqe), sizeof(struct hw_cqe));
}

/* Does the program's consumer index leave room?  The record is the guest's word, no more. */
static bool cq_has_room(struct hca *h, struct cq *cq)
{
	uint32_t used;
	be32_t rec;

	if (cq->ignore_overrun || !mem_read(h, cq->db_gpa, &rec, sizeof(rec)))
		return true;
	used = (cq->producer - be32_to_cpu(rec)) & CQ_INDEX_MASK;
	return used < 1u << cq->log_size;
}

static void cqe_encode(const struct completion *c, struct hw_cqe *e, uint8_t owner)
{
	const uint8_t opcode = c->syndrome ? CQE_OP_ERROR : c->opcode;

	*e = (struct hw_cqe){
		.qpn = cpu_to_be32(c->qpn),
		.wqe = cpu_to_be16(c->wqe),
		.syndrome = c->syndrome,
		.owner = (uint8_t)(owner | (c->send ? CQE_SEND : 0) | opcode),
	};
	if (c->syndrome)
		return;
	e->imm = cpu_to_be32(c->imm);
	e->src_qpn = cpu_to_be32(c->src_qpn);
	e->sl = cpu_to_be16((uint16_t)(c->sl << 12));
	e->slid = cpu_to_be16(c->slid);
	e->len = cpu_to_be32(c->len);
}

/* The owner bit of entry @index once the device has written it. */
static uint8_t cq_owner(uint32_t index, unsigned log_size)
{
	return (index >> log_size) & 1 ? CQE_OWNER : 0;
}

/* Hand over an entry: its last byte tells the driver that the others are there. */
static void cqe_store(struct hw_cqe *slot, const struct hw_cqe *e)
{
	memcpy(slot, e, offsetof(struct hw_cqe, owner));
	__atomic_store_n(&slot->owner, e->owner, __ATOMIC_RELEASE);
}

void cq_post(struct hca *h, uint32_t cqn, const struct completion *c)
{
	struct cq *cq = cq_find(h, cqn);
	struct hw_cqe e, *slot;

	if (!cq || cq->failed || h->dead)
		return;
	if (!cq_has_room(h, cq) || (!cq->ignore_overrun && fault_overruns(h))) {
		cq_fail(h, cq, CQ_SYN_OVERRUN);
		return;
	}
	slot = cq_slot(h, &cq->buf, cq->log_size, cq->producer);
	if (!slot) {
		cq_fail(h, cq, CQ_SYN_ACCESS);
		return;
	}
	cqe_encode(c, &e, cq_owner(cq->producer, cq->log_size));
	cqe_store(slot, &e);
	cq->producer++;
	h->stats.cqes++;
	if (c->syndrome)
		h->stats.cqe_errors++;
	if (c->solicited || c->syndrome)
		cq->solicited = cq->producer;
	if (cq->armed || (cq->armed_solicited && cq->solicited == cq->producer))
		cq_tell(h, cq);
	hca_wait_mark(h);
}

/* UAR doorbell: @dw0 = sequence, command and number; @dw1 = consumer index. */
void cq_doorbell(struct hca *h, uint32_t dw0, uint32_t dw1)
{
	struct cq *cq = cq_find(h, dw0 & CQ_INDEX_MASK);
	const unsigned cmd = bits(dw0, 26, 24);
	uint32_t behind;
	bool news;

	if (!cq || (cmd != CQ_ARM_SOLICIT && cmd != CQ_ARM_NEXT)) {
		h->stats.bad_doorbells++;
		return;
	}
	h->stats.cq_arms++;
	behind = (cq->producer - dw1) & CQ_INDEX_MASK; /* entries not polled yet */
	if (cmd == CQ_ARM_NEXT) {
		cq->armed = true;
		news = (int32_t)(cq->producer - cq->notified) > 0;
	} else {
		cq->armed_solicited = true;
		news = (int32_t)(cq->solicited - cq->notified) > 0 &&
		       (int32_t)(cq->solicited - (cq->producer - behind)) > 0;
	}
	if (behind && news)
		cq_tell(h, cq);
}

void cq_free(struct hca *h, uint32_t cqn)
{
	struct cq *cq = h->cqs[cqn];

	if (h->eqs[cq->eqn])
		h->eqs[cq->eqn]->refs--;
	alarm_cancel(h->fabric, &cq->moderation);
	free(cq);
	h->cqs[cqn] = NULL;
}

/* Give every entry of the buffer to the device. */
static bool cq_claim(struct hca *h, const struct mtt_buf *buf, unsigned log_size, uint8_t owner)
{
	for (uint32_t i = 0; i < 1u << log_size; i++) {
		struct hw_cqe *slot = cq_slot(h, buf, log_size, i);

		if (!slot)
			return false;
		slot->owner = owner;
	}
	return true;
}

enum hca_status cmd_sw2hw_cq(struct hca *h, struct cmd *c)
{
	const struct hw_cqc *x = c->in;
	struct cq *cq;

	if (c->im >= 1u << h->log_cq)
		return ST_BAD_INDEX;
	if (c->mod)
		return ST_BAD_OP;
	if (h->cqs[c->im])
		return ST_BAD_RES_STATE;
	if (!icm_present(h, h->base_cqc + (uint64_t)c->im * SIZE_CQC, SIZE_CQC))
		return ST_ICM_ERROR;
	if ((x->log_size & 31) > LOG_MAX_CQE || (x->buf.page_shift & 31) > 20)
		return ST_BAD_PARAM;
	if (x->eqn >= 1u << h->log_eq || !h->eqs[x->eqn])
		return ST_BAD_RESOURCE;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return ST_INTERNAL_ERR;
	cq->ctx = *x;
	cq->h = h;
	cq->moderation.fn = moderation_over;
	cq_moderate(cq, x);
	cq->cqn = c->im;
	cq->eqn = x->eqn;
	cq->log_size = x->log_size & 31;
	cq->db_gpa = be64_to_cpu(x->db) & ~7ull;
	cq->ignore_overrun = be32_to_cpu(x->flags) & CQ_CTX_OVERRUN_OK;
	mtt_buf_parse(&cq->buf, &x->buf);
	if (!mem_ptr(h, cq->db_gpa, 8) || !cq_claim(h, &cq->buf, cq->log_size, CQE_OWNER)) {
		free(cq);
		return ST_BAD_PARAM;
	}
	h->cqs[c->im] = cq;
	h->eqs[cq->eqn]->refs++;
	return ST_OK;
}

enum hca_status cmd_hw2sw_cq(struct hca *h, struct cmd *c)
{
	const struct cq *cq = cq_find(h, c->im);

	if (!cq)
		return c->im >= 1u << h->log_cq ? ST_BAD_INDEX : ST_BAD_RES_STATE;
	if (cq->refs)
		return ST_BUSY;
	if (c->mod == 0)
		memcpy(c->out, &cq->ctx, sizeof(cq->ctx));
	cq_free(h, c->im);
	return ST_OK;
}

enum hca_status cmd_query_cq(struct hca *h, struct cmd *c)
{
	const struct cq *cq = cq_find(h, c->im);
	struct hw_cqc *x = c->out;

	if (!cq)
		return c->im >= 1u << h->log_cq ? ST_BAD_INDEX : ST_BAD_RES_STATE;
	*x = cq->ctx;
	x->notified = cpu_to_be32(cq->notified & CQ_INDEX_MASK);
	x->solicited = cpu_to_be32(cq->solicited & CQ_INDEX_MASK);
	x->producer = cpu_to_be32(cq->producer & CQ_INDEX_MASK);
	return ST_OK;
}

/* Continue in a new buffer at the same index; a marker ends the old one. */
static enum hca_status cq_resize(struct hca *h, struct cq *cq, const struct hw_cqc *x)
{
	const struct hw_cqe marker = {
		.owner = cq_owner(cq->producer, cq->log_size) | CQE_OP_RESIZE,
	};
	const unsigned log_size = x->log_size & 31;
	struct mtt_buf buf;
	struct hw_cqe *slot;

	if (log_size > LOG_MAX_CQE || (x->buf.page_shift & 31) > 20)
		return ST_BAD_PARAM;
	mtt_buf_parse(&buf, &x->buf);
	slot = cq_slot(h, &cq->buf, cq->log_size, cq->producer);
	if (!slot)
		return ST_BAD_PARAM;
	/*
	 * Software reads entry i of the new buffer as valid when its owner bit is
	 * bit log_size of i: hand each over with the opposite of what it awaits.
	 */
	for (uint32_t i = 1; i <= 1u << log_size; i++) {
		const uint32_t index = cq->producer + i;
		struct hw_cqe *e = cq_slot(h, &buf, log_size, index);

		if (!e)
			return ST_BAD_PARAM;
		e->owner = cq_owner(index, log_size) ^ CQE_OWNER;
	}
	cqe_store(slot, &marker);
	cq->producer++;
	cq->buf = buf;
	cq->log_size = (uint8_t)log_size;
	cq->ctx.buf = x->buf;
	cq->ctx.log_size = x->log_size;
	return ST_OK;
}

enum hca_status cmd_modify_cq(struct hca *h, struct cmd *c)
{
	const struct hw_cqc *x = c->in;
	struct cq *cq = cq_find(h, c->im);

	if (!cq)
		return c->im >= 1u << h->log_cq ? ST_BAD_INDEX : ST_BAD_RES_STATE;
	if (c->mod == 0)
		return cq_resize(h, cq, x);
	if (c->mod != 1)
		return ST_BAD_OP;
	cq->ctx.period_us = x->period_us;
	cq->ctx.max_count = x->max_count;
	cq_moderate(cq, x);
	if (cq->moderation.slot)
		cq_tell(h, cq); /* the timer that runs keeps its time */
	return ST_OK;
}
