/* SPDX-License-Identifier: MIT */
/*
 * HCA model: completion queues.
 *
 * Flow:	cq_post() writes an entry and, when the queue is armed for it,
 *		an event.  Arming with an entry that no event has told of yet
 *		fires at once; an entry that an event has told of does not fire
 *		again, although the program may not have polled it (a program
 *		arms first and polls then).
 * Moderation:	with a period, an event waits until max_count entries are
 *		untold or the period since the first of them is over.  A count of
 *		0 means the period alone, 1 (or no period) no moderation.
 * Ordering:	an entry's body is stored before its owner byte (release).
 * Failure:	an entry that does not fit, or that fault injection lets not fit, breaks
 *		the queue: event CQ_ERROR, and nothing more is written to it.
 */
#include "hca.h"

#include <stdlib.h>

#define CQE_SIZE          32u
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
	uint8_t data[12] = { 0 };

	cq->failed = true;
	h->stats.cq_overruns++;
	hca_log(h, "CQ %u failed: %s", cq->cqn,
		syndrome == CQ_SYN_OVERRUN ? "overrun" : "buffer is not mapped");
	put_be32(data, cq->cqn);
	data[11] = syndrome;
	eq_event(h, EV_CQ_ERROR, 0, data, sizeof(data));
}

static void cq_fire(struct hca *h, struct cq *cq)
{
	uint8_t eqe[32] = { 0 };

	cq->armed = false;
	cq->armed_solicited = false;
	alarm_cancel(h->fabric, &cq->moderation);
	cq->notified = cq->producer;
	eqe[1] = EV_COMP;
	put_be32(eqe + 4, cq->cqn);
	eq_post(h, cq->eqn, eqe);
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

static void cq_moderate(struct cq *cq, const uint8_t *x)
{
	cq->period_us = get_be16(x + 0x10);
	cq->max_count = get_be16(x + 0x12);
}

static uint8_t *cq_slot(struct hca *h, struct cq *cq)
{
	const uint64_t i = cq->producer & ((1u << cq->log_size) - 1);

	return mtt_ptr(h, &cq->buf, i * CQE_SIZE, CQE_SIZE);
}

/* Does the program's consumer index leave room?  The record is the guest's word, no more. */
static bool cq_has_room(struct hca *h, struct cq *cq)
{
	uint8_t rec[4];
	uint32_t used;

	if (cq->ignore_overrun || !mem_read(h, cq->db_gpa, rec, sizeof(rec)))
		return true;
	used = (cq->producer - get_be32(rec)) & CQ_INDEX_MASK;
	return used < 1u << cq->log_size;
}

static void cqe_encode(const struct completion *c, uint8_t e[CQE_SIZE], uint8_t owner)
{
	memset(e, 0, CQE_SIZE);
	put_be32(e, c->qpn);
	put_be16(e + 0x18, c->wqe);
	if (c->syndrome) {
		e[0x1b] = c->syndrome;
		e[0x1f] = (uint8_t)(owner | (c->send ? 0x40 : 0) | CQE_OP_ERROR);
		return;
	}
	put_be32(e + 0x04, c->imm);
	put_be32(e + 0x08, c->src_qpn);
	put_be16(e + 0x0c, (uint16_t)(c->sl << 12));
	put_be16(e + 0x0e, c->slid);
	put_be32(e + 0x14, c->len);
	e[0x1f] = (uint8_t)(owner | (c->send ? 0x40 : 0) | c->opcode);
}

void cq_post(struct hca *h, uint32_t cqn, const struct completion *c)
{
	struct cq *cq = cq_find(h, cqn);
	uint8_t e[CQE_SIZE], *slot;

	if (!cq || cq->failed || h->dead)
		return;
	if (!cq_has_room(h, cq) || (!cq->ignore_overrun && fault_overruns(h))) {
		cq_fail(h, cq, CQ_SYN_OVERRUN);
		return;
	}
	slot = cq_slot(h, cq);
	if (!slot) {
		cq_fail(h, cq, CQ_SYN_ACCESS);
		return;
	}
	cqe_encode(c, e, (cq->producer >> cq->log_size) & 1 ? 0x80 : 0);
	memcpy(slot, e, CQE_SIZE - 1);
	__atomic_store_n(slot + CQE_SIZE - 1, e[CQE_SIZE - 1], __ATOMIC_RELEASE);
	cq->producer++;
	h->stats.cqes++;
	if (c->syndrome)
		h->stats.cqe_errors++;
	if (c->solicited || c->syndrome)
		cq->solicited = cq->producer;
	if (cq->armed || (cq->armed_solicited && cq->solicited == cq->producer))
		cq_tell(h, cq);
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
	for (uint64_t i = 0; i < 1u << log_size; i++) {
		uint8_t *slot = mtt_ptr(h, buf, i * CQE_SIZE, CQE_SIZE);

		if (!slot)
			return false;
		slot[CQE_SIZE - 1] = owner;
	}
	return true;
}

static void cq_buf_parse(const uint8_t *x, struct mtt_buf *buf)
{
	buf->page_shift = (x[0x18] & 31) + 12;
	buf->mtt = (uint64_t)x[0x1b] << 32 | (get_be32(x + 0x1c) & ~7u);
}

enum hca_status cmd_sw2hw_cq(struct hca *h, struct cmd *c)
{
	const uint8_t *x = c->in;
	struct cq *cq;

	if (c->im >= 1u << h->log_cq)
		return ST_BAD_INDEX;
	if (c->mod)
		return ST_BAD_OP;
	if (h->cqs[c->im])
		return ST_BAD_RES_STATE;
	if (!icm_present(h, h->base_cqc + (uint64_t)c->im * SIZE_CQC, SIZE_CQC))
		return ST_ICM_ERROR;
	if ((x[0x0c] & 31) > LOG_MAX_CQE || (x[0x18] & 31) > 20)
		return ST_BAD_PARAM;
	if (x[0x17] >= 1u << h->log_eq || !h->eqs[x[0x17]])
		return ST_BAD_RESOURCE;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return ST_INTERNAL_ERR;
	memcpy(cq->ctx, x, sizeof(cq->ctx));
	cq->h = h;
	cq->moderation.fn = moderation_over;
	cq_moderate(cq, x);
	cq->cqn = c->im;
	cq->eqn = x[0x17];
	cq->log_size = x[0x0c] & 31;
	cq->db_gpa = get_be64(x + 0x38) & ~7ull;
	cq->ignore_overrun = get_be32(x) & CQ_CTX_OVERRUN_OK;
	cq_buf_parse(x, &cq->buf);
	if (!mem_ptr(h, cq->db_gpa, 8) || !cq_claim(h, &cq->buf, cq->log_size, 0x80)) {
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
		memcpy(c->out, cq->ctx, sizeof(cq->ctx));
	cq_free(h, c->im);
	return ST_OK;
}

enum hca_status cmd_query_cq(struct hca *h, struct cmd *c)
{
	const struct cq *cq = cq_find(h, c->im);

	if (!cq)
		return c->im >= 1u << h->log_cq ? ST_BAD_INDEX : ST_BAD_RES_STATE;
	memcpy(c->out, cq->ctx, sizeof(cq->ctx));
	put_be32(c->out + 0x20, cq->notified & CQ_INDEX_MASK);
	put_be32(c->out + 0x24, cq->solicited & CQ_INDEX_MASK);
	put_be32(c->out + 0x2c, cq->producer & CQ_INDEX_MASK);
	return ST_OK;
}

/* Continue in a new buffer at the same index; a marker ends the old one. */
static enum hca_status cq_resize(struct hca *h, struct cq *cq, const uint8_t *x)
{
	const unsigned log_size = x[0x0c] & 31;
	struct mtt_buf buf;
	uint8_t *slot;

	if (log_size > LOG_MAX_CQE || (x[0x18] & 31) > 20)
		return ST_BAD_PARAM;
	cq_buf_parse(x, &buf);
	slot = cq_slot(h, cq);
	if (!slot)
		return ST_BAD_PARAM;
	/*
	 * Software reads entry i of the new buffer as valid when its owner bit is
	 * bit log_size of i: hand each over with the opposite of what it awaits.
	 */
	for (uint32_t i = 1; i <= 1u << log_size; i++) {
		const uint32_t index = cq->producer + i;
		uint8_t *e = mtt_ptr(h, &buf, (uint64_t)(index & ((1u << log_size) - 1)) * CQE_SIZE,
				     CQE_SIZE);

		if (!e)
			return ST_BAD_PARAM;
		e[CQE_SIZE - 1] = (index >> log_size) & 1 ? 0 : 0x80;
	}
	memset(slot, 0, CQE_SIZE - 1);
	__atomic_store_n(slot + CQE_SIZE - 1,
			 (uint8_t)(((cq->producer >> cq->log_size) & 1 ? 0x80 : 0) | CQE_OP_RESIZE),
			 __ATOMIC_RELEASE);
	cq->producer++;
	cq->buf = buf;
	cq->log_size = (uint8_t)log_size;
	memcpy(cq->ctx + 0x18, x + 0x18, 8);
	cq->ctx[0x0c] = x[0x0c];
	return ST_OK;
}

enum hca_status cmd_modify_cq(struct hca *h, struct cmd *c)
{
	struct cq *cq = cq_find(h, c->im);

	if (!cq)
		return c->im >= 1u << h->log_cq ? ST_BAD_INDEX : ST_BAD_RES_STATE;
	if (c->mod == 0)
		return cq_resize(h, cq, c->in);
	if (c->mod != 1)
		return ST_BAD_OP;
	memcpy(cq->ctx + 0x10, c->in + 0x10, 4);
	cq_moderate(cq, c->in);
	if (cq->moderation.slot)
		cq_tell(h, cq); /* the timer that runs keeps its time */
	return ST_OK;
}
