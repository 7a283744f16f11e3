/* SPDX-License-Identifier: MIT */
/*
 * HCA model: the commands that create, change and end queue pairs.
 *
 * A transition takes from the mailbox only the fields that belong to it, or
 * that the optional-parameter mask names; the context that results is kept as
 * the driver wrote it and parsed anew, so QUERY_QP returns what was set.
 */
#include "hca.h"

#include <stdlib.h>

/* Optional-parameter mask */
#define OPT_RRE       BIT(1)
#define OPT_RAE       BIT(2)
#define OPT_RWE       BIT(3)
#define OPT_PKEY      BIT(4)
#define OPT_QKEY      BIT(5)
#define OPT_RNR_TIMER BIT(6)
#define OPT_PATH      BIT(7)
#define OPT_SRA_MAX   BIT(8)
#define OPT_RRA_MAX   BIT(9)
#define OPT_RETRY     BIT(12)
#define OPT_RNR_RETRY BIT(13)
#define OPT_ACK       BIT(14)
#define OPT_ACCESS    (OPT_RRE | OPT_RAE | OPT_RWE)

/* Fields of params1 and params2, and of the word with the PSN that is expected */
#define P1_SRA_MAX   (7u << 21)
#define P1_RETRY     (7u << 16)
#define P1_RNR_RETRY (7u << 13)
#define P1_RTS       0xffe000u /* what RTR2RTS sets */
#define P2_RRA_MAX   (7u << 21)
#define P2_RRE       BIT(15)
#define P2_RWE       BIT(14)
#define P2_RAE       BIT(13)
#define RNR_TIMER    (31u << 24)
#define HAS_SRQ      BIT(24)

#define FROM(s) BIT(QPS_##s)

struct transition {
	uint16_t op;
	uint8_t from; /* mask of enum qp_state */
	enum qp_state to;
	uint32_t opt; /* optional parameters that it may change */
};

static const struct transition transitions[] = {
	{ OP_RST2INIT, FROM(RST), QPS_INIT, 0 },
	{ OP_INIT2INIT, FROM(INIT), QPS_INIT, OPT_ACCESS | OPT_PKEY | OPT_QKEY | OPT_PATH },
	{ OP_INIT2RTR, FROM(INIT), QPS_RTR, OPT_ACCESS | OPT_PKEY | OPT_QKEY },
	{ OP_RTR2RTS, FROM(RTR), QPS_RTS, OPT_ACCESS | OPT_QKEY | OPT_RNR_TIMER | OPT_PATH },
	{ OP_RTS2RTS, FROM(RTS), QPS_RTS, OPT_ACCESS | OPT_QKEY | OPT_RNR_TIMER | OPT_PATH },
	{ OP_SQERR2RTS, FROM(SQER), QPS_RTS, OPT_ACCESS | OPT_QKEY | OPT_RNR_TIMER },
	{ OP_RTS2SQD, FROM(RTS), QPS_SQD, 0 },
	{ OP_SQD2SQD, FROM(SQD), QPS_SQD, ~0u },
	{ OP_SQD2RTS, FROM(SQD), QPS_RTS, OPT_ACCESS | OPT_QKEY | OPT_RNR_TIMER | OPT_PATH },
};

static void path_parse(struct path *p, const struct hw_path *raw)
{
	p->pkey_index = raw->pkey_index & 0x7f;
	p->grh = raw->grh_mlid & 0x80;
	p->dlid = be16_to_cpu(raw->dlid);
	p->ack_timeout = raw->ack_timeout >> 3;
	memcpy(p->dgid, raw->dgid, sizeof(p->dgid));
	p->sl = (raw->sched >> 2) & 0xf;
}

/* Read qp->ctx into the fields that the data path uses. */
static void ctx_parse(struct qp *qp)
{
	const struct hw_qpc *x = &qp->ctx;
	const uint32_t params1 = be32_to_cpu(x->params1), params2 = be32_to_cpu(x->params2);

	path_parse(&qp->path, &x->path);
	qp->pd = be32_to_cpu(x->pd) & QPN_MASK;
	qp->mtu = x->mtu_msg >> 5;
	qp->log_max_msg = x->mtu_msg & 31;
	qp->remote_qpn = be32_to_cpu(x->remote_qpn) & QPN_MASK;
	qp->retry_cnt = (uint8_t)bits(params1, 18, 16);
	qp->rnr_retry = (uint8_t)bits(params1, 15, 13);
	qp->rre = params2 & P2_RRE;
	qp->rwe = params2 & P2_RWE;
	qp->rae = params2 & P2_RAE;
	qp->min_rnr = (uint8_t)bits(be32_to_cpu(x->rnr_psn), 28, 24);
	qp->qkey = be32_to_cpu(x->qkey);
}

/* @old with the bits of @mask from @new. */
static be32_t merge(be32_t old, be32_t new, uint32_t mask)
{
	return cpu_to_be32((be32_to_cpu(old) & ~mask) | (be32_to_cpu(new) & mask));
}

static void copy_path(struct qp *qp, const struct hw_qpc *x, uint32_t opt)
{
	const struct hw_path old = qp->ctx.path;

	qp->ctx.path = x->path;
	if (!(opt & OPT_PKEY))
		qp->ctx.path.pkey_index = old.pkey_index;
	if (!(opt & OPT_ACK))
		qp->ctx.path.ack_timeout = old.ack_timeout;
}

static void copy_optional(struct qp *qp, const struct hw_qpc *x, uint32_t opt)
{
	struct hw_qpc *c = &qp->ctx;

	if (opt & OPT_PATH)
		copy_path(qp, x, opt);
	if (opt & OPT_RRE)
		c->params2 = merge(c->params2, x->params2, P2_RRE);
	if (opt & OPT_RWE)
		c->params2 = merge(c->params2, x->params2, P2_RWE);
	if (opt & OPT_RAE)
		c->params2 = merge(c->params2, x->params2, P2_RAE);
	if (opt & OPT_SRA_MAX)
		c->params1 = merge(c->params1, x->params1, P1_SRA_MAX);
	if (opt & OPT_RRA_MAX)
		c->params2 = merge(c->params2, x->params2, P2_RRA_MAX);
	if (opt & OPT_RETRY)
		c->params1 = merge(c->params1, x->params1, P1_RETRY);
	if (opt & OPT_RNR_RETRY)
		c->params1 = merge(c->params1, x->params1, P1_RNR_RETRY);
	if (opt & OPT_RNR_TIMER)
		c->rnr_psn = merge(c->rnr_psn, x->rnr_psn, RNR_TIMER);
	if (opt & OPT_PKEY)
		c->path.pkey_index = x->path.pkey_index;
	if (opt & OPT_ACK)
		c->path.ack_timeout = x->path.ack_timeout;
	if (opt & OPT_QKEY)
		c->qkey = x->qkey;
}

/* Is QP number @qpn one that this HCA may use, for this kind of service? */
static enum hca_status check_number(const struct hca *h, uint32_t qpn, enum qp_type type)
{
	const bool special = h->special_base && qpn - h->special_base < 8;

	if (type != QPT_RC && type != QPT_UC && type != QPT_UD && type != QPT_MLX)
		return ST_BAD_PARAM;
	if (special != (type == QPT_MLX))
		return ST_BAD_PARAM;
	return ST_OK;
}

static bool ctx_backed(struct hca *h, uint32_t qpn)
{
	const uint64_t rd = (uint64_t)SIZE_RDMARC << h->log_rdmarc;

	return icm_present(h, h->base_qpc + (uint64_t)qpn * SIZE_QPC, SIZE_QPC) &&
	       icm_present(h, h->base_auxc + (uint64_t)qpn * SIZE_AUXC, SIZE_AUXC) &&
	       icm_present(h, h->base_altc + (uint64_t)qpn * SIZE_ALTC, SIZE_ALTC) &&
	       icm_present(h, h->base_rdmarc + qpn * rd, rd) &&
	       icm_present(h, h->base_cmpt + (uint64_t)qpn * SIZE_CMPT, SIZE_CMPT);
}

/* Lay out the two queues in the buffer: the larger stride comes first. */
static enum hca_status parse_queues(struct qp *qp, const struct hw_qpc *x)
{
	const uint32_t srq = be32_to_cpu(x->srq);

	qp->sq_log_size = (x->sq_size >> 3) & 0xf;
	qp->sq_log_stride = (uint8_t)((x->sq_size & 7) + 4);
	mtt_buf_parse(&qp->buf, &x->buf);
	if (qp->sq_log_size > LOG_MAX_WQES || qp->buf.page_shift > 32)
		return ST_BAD_PARAM;
	if (srq & HAS_SRQ) {
		qp->srq = srq_find(qp->h, srq & QPN_MASK);
		if (!qp->srq)
			return ST_BAD_RESOURCE;
		return ST_OK; /* the size byte of the receive queue is rubbish now */
	}
	qp->rq_log_size = (x->rq_size >> 3) & 0xf;
	qp->rq_log_stride = (uint8_t)((x->rq_size & 7) + 4);
	if (qp->rq_log_size > LOG_MAX_WQES)
		return ST_BAD_PARAM;
	qp->rq_db_gpa = be64_to_cpu(x->rq_db) & ~3ull;
	qp->has_rq = qp->rq_db_gpa && mem_ptr(qp->h, qp->rq_db_gpa, 4);
	if (qp->rq_log_stride > qp->sq_log_stride)
		qp->sq_off = 1u << (qp->rq_log_size + qp->rq_log_stride);
	else
		qp->rq_off = 1u << (qp->sq_log_size + qp->sq_log_stride);
	return ST_OK;
}

static void timer_fired(struct alarm *t)
{
	struct qp *qp = container_of(t, struct qp, timer);

	qp->wait = WAIT_NONE;
	fabric_queue(qp);
}

static enum hca_status create(struct hca *h, struct cmd *c)
{
	const struct hw_qp_change *change = c->in;
	const struct hw_qpc *x = &change->ctx;
	const enum qp_type type = (enum qp_type)bits(be32_to_cpu(x->state), 19, 16);
	struct cq *scq, *rcq;
	enum hca_status st;
	struct qp *qp;

	if (h->qps[c->im])
		return ST_BAD_QP_STATE;
	st = check_number(h, c->im, type);
	if (st)
		return st;
	if (!ctx_backed(h, c->im))
		return ST_ICM_ERROR;
	scq = cq_find(h, be32_to_cpu(x->send_cqn) & QPN_MASK);
	rcq = cq_find(h, be32_to_cpu(x->recv_cqn) & QPN_MASK);
	if (!scq || !rcq)
		return ST_BAD_RESOURCE;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return ST_INTERNAL_ERR;
	qp->h = h;
	qp->qpn = c->im;
	qp->type = type;
	qp->special = type == QPT_MLX;
	st = parse_queues(qp, x);
	if (st) {
		free(qp);
		return st;
	}
	qp->send_cqn = scq->cqn;
	qp->recv_cqn = rcq->cqn;
	scq->refs++;
	rcq->refs++;
	if (qp->srq)
		qp->srq->refs++;
	list_init(&qp->run);
	qp->timer.fn = timer_fired;
	qp->ctx = *x;
	ctx_parse(qp);
	qp->log_max_msg = LOG_MAX_MSG;
	qp->state = QPS_INIT;
	h->qps[c->im] = qp;
	return ST_OK;
}

static enum hca_status to_rtr(struct qp *qp, const struct hw_qpc *x, uint32_t opt)
{
	const uint8_t mtu = x->mtu_msg >> 5;

	if (!qp->special && (mtu < 1 || mtu > IB_MTU_4096))
		return ST_BAD_PARAM;
	qp->ctx.mtu_msg = x->mtu_msg;
	qp->ctx.rnr_psn = x->rnr_psn;
	if (qp->type == QPT_RC || qp->type == QPT_UC) {
		copy_path(qp, x, opt);
		qp->ctx.remote_qpn = x->remote_qpn;
		qp->ctx.params2 = merge(qp->ctx.params2, x->params2, P2_RRA_MAX);
		qp->recv_psn = be32_to_cpu(x->rnr_psn) & QPN_MASK;
	}
	return ST_OK;
}

static void to_rts(struct qp *qp, const struct hw_qpc *x)
{
	qp->ctx.send_psn = x->send_psn;
	qp->send_psn = be32_to_cpu(x->send_psn) & QPN_MASK;
	if (qp->type != QPT_RC)
		return;
	qp->ctx.path.ack_timeout = x->path.ack_timeout;
	qp->ctx.params1 = merge(qp->ctx.params1, x->params1, P1_RTS);
}

static enum hca_status apply(struct qp *qp, const struct transition *t, struct cmd *c)
{
	const struct hw_qp_change *change = c->in;
	const uint32_t named = be32_to_cpu(change->opt);
	const struct hw_qpc *x = &change->ctx;
	enum hca_status st;

	if (t->op == OP_INIT2RTR) {
		st = to_rtr(qp, x, named);
		if (st)
			return st;
	} else if (t->op == OP_RTR2RTS) {
		to_rts(qp, x);
	}
	copy_optional(qp, x, named & t->opt);
	ctx_parse(qp);
	if (qp->log_max_msg == 0 || qp->log_max_msg > LOG_MAX_MSG)
		qp->log_max_msg = LOG_MAX_MSG;
	qp->state = t->to;
	if (t->op == OP_RTS2SQD && c->im >> 31)
		qp_event(qp, EV_SQ_DRAINED); /* nothing is ever half sent at a command */
	if (t->to == QPS_RTS) {
		if (inject_stamping(qp->h->fabric))
			inject_stamp(qp);
		fabric_queue(qp);
	}
	return ST_OK;
}

enum hca_status cmd_qp_modify(struct hca *h, struct cmd *c)
{
	const uint32_t qpn = c->im & QPN_MASK;
	struct cmd local = *c;
	struct qp *qp;

	if (qpn >= 1u << h->log_qp || qpn < 1u << LOG_RSVD_QP)
		return ST_BAD_INDEX;
	if (c->op == OP_RST2INIT) {
		local.im = qpn;
		return create(h, &local);
	}
	qp = h->qps[qpn];
	for (size_t i = 0; i < ARRAY_SIZE(transitions); i++) {
		const struct transition *t = &transitions[i];

		if (t->op != c->op)
			continue;
		if (!qp || !(t->from & BIT(qp->state)))
			return ST_BAD_QP_STATE;
		return apply(qp, t, c);
	}
	return ST_BAD_OP;
}

enum hca_status cmd_qp_2err(struct hca *h, struct cmd *c)
{
	struct qp *qp = qp_find(h, c->im & QPN_MASK);

	if (!qp)
		return ST_BAD_QP_STATE;
	qp_error(qp);
	return ST_OK;
}

enum hca_status cmd_qp_2rst(struct hca *h, struct cmd *c)
{
	const uint32_t qpn = c->im & QPN_MASK;

	if (qpn >= 1u << h->log_qp)
		return ST_BAD_INDEX;
	if (h->qps[qpn])
		qp_free(h->qps[qpn]);
	return ST_OK;
}

enum hca_status cmd_query_qp(struct hca *h, struct cmd *c)
{
	const struct qp *qp = qp_find(h, c->im & QPN_MASK);
	struct hw_qp_change *o = c->out;
	struct hw_qpc *x = &o->ctx;

	if (!qp)
		return ST_BAD_QP_STATE;
	*x = qp->ctx;
	x->state = merge(x->state, cpu_to_be32((uint32_t)qp->state << 28), 0xf0000000u);
	x->send_psn = cpu_to_be32(qp->send_psn);
	x->rnr_psn = cpu_to_be32((uint32_t)qp->min_rnr << 24 | qp->recv_psn);
	x->rq_head = cpu_to_be16(qp->rq_head);
	x->sq_head = cpu_to_be16(qp->sq_head);
	return ST_OK;
}

/* im = first number of the block of special QPs; 0 = none. */
enum hca_status cmd_conf_special_qp(struct hca *h, struct cmd *c)
{
	const uint32_t base = c->im & QPN_MASK;

	if (base & 7 || base + 8 > 1u << h->log_qp)
		return ST_BAD_PARAM;
	for (uint32_t i = 0; h->special_base && i < 8; i++) {
		if (h->qps[h->special_base + i])
			return ST_BUSY;
	}
	h->special_base = base;
	return ST_OK;
}
