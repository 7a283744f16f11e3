/* SPDX-License-Identifier: MIT */
/*
 * HCA model: shared receive queues.
 *
 * The driver links free WQEs in a chain: each starts with the index of the
 * next.  The doorbell record counts how many were ever posted, so the chain
 * may be followed as long as fewer were taken.
 */
#include "hca.h"

#include <stdlib.h>

struct srq *srq_find(struct hca *h, uint32_t srqn)
{
	return h->srqs && srqn < 1u << h->log_srq ? h->srqs[srqn] : NULL;
}

/* Take the next posted WQE.  False: none. */
bool srq_take(struct hca *h, struct srq *s, uint32_t *index)
{
	const uint64_t off = (uint64_t)s->next << s->log_stride;
	const struct hw_srq_wqe *wqe;
	uint16_t posted;
	be32_t rec;

	if (s->failed || !mem_read(h, s->db_gpa, &rec, sizeof(rec)))
		return false;
	posted = (uint16_t)((uint16_t)be32_to_cpu(rec) - s->taken);
	if (posted == 0 || posted > 1u << s->log_size)
		return false;
	wqe = mtt_ptr(h, &s->buf, off, 1u << s->log_stride);
	if (!wqe) {
		s->failed = true;
		hca_log(h, "SRQ %u: buffer is not mapped", s->srqn);
		eq_event_num(h, EV_SRQ_CATAS, s->srqn);
		return false;
	}
	*index = s->next;
	s->next = be16_to_cpu(wqe->next) & (uint16_t)((1u << s->log_size) - 1);
	s->taken++;
	if (s->limit && posted - 1 < s->limit) {
		s->limit = 0;
		eq_event_num(h, EV_SRQ_LIMIT, s->srqn);
	}
	return true;
}

void srq_free(struct hca *h, uint32_t srqn)
{
	free(h->srqs[srqn]);
	h->srqs[srqn] = NULL;
}

enum hca_status cmd_sw2hw_srq(struct hca *h, struct cmd *c)
{
	const struct hw_srqc *x = c->in;
	struct srq *s;

	if (c->im >= 1u << h->log_srq)
		return ST_BAD_INDEX;
	if (h->srqs[c->im])
		return ST_BAD_RES_STATE;
	if (!icm_present(h, h->base_srqc + (uint64_t)c->im * SIZE_SRQC, SIZE_SRQC))
		return ST_ICM_ERROR;
	if ((x->log_size & 0xf) > LOG_MAX_WQES || (x->log_stride & 7) + 4 > 12 ||
	    (x->buf.page_shift & 31) > 20)
		return ST_BAD_PARAM;
	if (!mem_ptr(h, be64_to_cpu(x->db) & ~3ull, 4))
		return ST_BAD_PARAM;
	s = calloc(1, sizeof(*s));
	if (!s)
		return ST_INTERNAL_ERR;
	s->ctx = *x;
	s->srqn = c->im;
	s->log_size = x->log_size & 0xf;
	s->log_stride = (x->log_stride & 7) + 4;
	mtt_buf_parse(&s->buf, &x->buf);
	s->pd = be32_to_cpu(x->pd) & QPN_MASK;
	s->limit = be16_to_cpu(x->limit);
	s->db_gpa = be64_to_cpu(x->db) & ~3ull;
	h->srqs[c->im] = s;
	return ST_OK;
}

enum hca_status cmd_hw2sw_srq(struct hca *h, struct cmd *c)
{
	const struct srq *s = srq_find(h, c->im);

	if (!s)
		return c->im >= 1u << h->log_srq ? ST_BAD_INDEX : ST_BAD_RES_STATE;
	if (s->refs)
		return ST_BUSY;
	if (c->mod == 0)
		memcpy(c->out, &s->ctx, sizeof(s->ctx));
	srq_free(h, c->im);
	return ST_OK;
}

enum hca_status cmd_query_srq(struct hca *h, struct cmd *c)
{
	const struct srq *s = srq_find(h, c->im);
	struct hw_srqc *x = c->out;

	if (!s)
		return c->im >= 1u << h->log_srq ? ST_BAD_INDEX : ST_BAD_RES_STATE;
	*x = s->ctx;
	x->limit = cpu_to_be16(s->limit);
	x->taken = cpu_to_be16(s->taken);
	return ST_OK;
}

enum hca_status cmd_arm_srq(struct hca *h, struct cmd *c)
{
	struct srq *s = srq_find(h, c->im);

	if (!s)
		return c->im >= 1u << h->log_srq ? ST_BAD_INDEX : ST_BAD_RES_STATE;
	if (c->in_param > 0xffff)
		return ST_BAD_PARAM;
	s->limit = (uint16_t)c->in_param;
	return ST_OK;
}
