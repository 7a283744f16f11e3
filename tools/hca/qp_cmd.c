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

#define CTX 8u /* of the context in the mailbox */

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

/* Context offsets */
#define C_STATE   0x00
#define C_PD      0x04
#define C_MTU     0x08
#define C_REMOTE  0x14
#define C_PATH    0x18
#define C_PARAMS1 0x70
#define C_SENDPSN 0x78
#define C_SCQN    0x7c
#define C_PARAMS2 0x90
#define C_RECVPSN 0x94
#define C_RCQN    0x9c
#define C_RQDB    0xa0
#define C_QKEY    0xa8
#define C_SRQ     0xac
#define C_BUF     0xc8
#define P_PKEY    0x03
#define P_ACK     0x08
#define P_SIZE    0x2c
#define C_SIZE    248u

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

static void path_parse(struct path *p, const uint8_t *raw)
{
	p->pkey_index = raw[3] & 0x7f;
	p->grh = raw[5] & 0x80;
	p->dlid = get_be16(raw + 6);
	p->ack_timeout = raw[8] >> 3;
	memcpy(p->dgid, raw + 0x10, 16);
	p->sl = (raw[0x20] >> 2) & 0xf;
}

/* Read qp->ctx into the fields that the data path uses. */
static void ctx_parse(struct qp *qp)
{
	const uint8_t *x = qp->ctx;
	const uint32_t params1 = get_be32(x + C_PARAMS1), params2 = get_be32(x + C_PARAMS2);

	path_parse(&qp->path, x + C_PATH);
	qp->pd = get_be32(x + C_PD) & QPN_MASK;
	qp->mtu = x[C_MTU] >> 5;
	qp->log_max_msg = x[C_MTU] & 31;
	qp->remote_qpn = get_be32(x + C_REMOTE) & QPN_MASK;
	qp->retry_cnt = (uint8_t)bits(params1, 18, 16);
	qp->rnr_retry = (uint8_t)bits(params1, 15, 13);
	qp->rre = params2 & BIT(15);
	qp->rwe = params2 & BIT(14);
	qp->rae = params2 & BIT(13);
	qp->min_rnr = (uint8_t)bits(get_be32(x + C_RECVPSN), 28, 24);
	qp->qkey = get_be32(x + C_QKEY);
}

static void copy_field(struct qp *qp, const uint8_t *x, unsigned off, unsigned len)
{
	memcpy(qp->ctx + off, x + off, len);
}

static void copy_bits(struct qp *qp, const uint8_t *x, unsigned off, uint32_t mask)
{
	const uint32_t old = get_be32(qp->ctx + off);

	put_be32(qp->ctx + off, (old & ~mask) | (get_be32(x + off) & mask));
}

static void copy_path(struct qp *qp, const uint8_t *x, uint32_t opt)
{
	const uint8_t pkey = qp->ctx[C_PATH + P_PKEY], ack = qp->ctx[C_PATH + P_ACK];

	copy_field(qp, x, C_PATH, P_SIZE);
	if (!(opt & OPT_PKEY))
		qp->ctx[C_PATH + P_PKEY] = pkey;
	if (!(opt & OPT_ACK))
		qp->ctx[C_PATH + P_ACK] = ack;
}

static void copy_optional(struct qp *qp, const uint8_t *x, uint32_t opt)
{
	if (opt & OPT_PATH)
		copy_path(qp, x, opt);
	if (opt & OPT_RRE)
		copy_bits(qp, x, C_PARAMS2, BIT(15));
	if (opt & OPT_RWE)
		copy_bits(qp, x, C_PARAMS2, BIT(14));
	if (opt & OPT_RAE)
		copy_bits(qp, x, C_PARAMS2, BIT(13));
	if (opt & OPT_SRA_MAX)
		copy_bits(qp, x, C_PARAMS1, 7u << 21);
	if (opt & OPT_RRA_MAX)
		copy_bits(qp, x, C_PARAMS2, 7u << 21);
	if (opt & OPT_RETRY)
		copy_bits(qp, x, C_PARAMS1, 7u << 16);
	if (opt & OPT_RNR_RETRY)
		copy_bits(qp, x, C_PARAMS1, 7u << 13);
	if (opt & OPT_RNR_TIMER)
		copy_bits(qp, x, C_RECVPSN, 31u << 24);
	if (opt & OPT_PKEY)
		copy_field(qp, x, C_PATH + P_PKEY, 1);
	if (opt & OPT_ACK)
		copy_field(qp, x, C_PATH + P_ACK, 1);
	if (opt & OPT_QKEY)
		copy_field(qp, x, C_QKEY, 4);
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
static enum hca_status parse_queues(struct qp *qp, const uint8_t *x)
{
	const uint32_t srq = get_be32(x + C_SRQ);

	qp->sq_log_size = (x[0x0a] >> 3) & 0xf;
	qp->sq_log_stride = (uint8_t)((x[0x0a] & 7) + 4);
	qp->buf.page_shift = (uint8_t)((x[C_BUF] & 31) + 12);
	qp->buf.mtt = (uint64_t)x[C_BUF + 3] << 32 | (get_be32(x + C_BUF + 4) & ~7u);
	if (qp->sq_log_size > LOG_MAX_WQES || qp->buf.page_shift > 32)
		return ST_BAD_PARAM;
	if (srq & BIT(24)) {
		qp->srq = srq_find(qp->h, srq & QPN_MASK);
		if (!qp->srq)
			return ST_BAD_RESOURCE;
		return ST_OK; /* the size byte of the receive queue is rubbish now */
	}
	qp->rq_log_size = (x[0x09] >> 3) & 0xf;
	qp->rq_log_stride = (uint8_t)((x[0x09] & 7) + 4);
	if (qp->rq_log_size > LOG_MAX_WQES)
		return ST_BAD_PARAM;
	qp->rq_db_gpa = get_be64(x + C_RQDB) & ~3ull;
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
	const uint8_t *x = (const uint8_t *)c->in + CTX;
	const uint32_t head = get_be32(x + C_STATE);
	const enum qp_type type = (enum qp_type)bits(head, 19, 16);
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
	scq = cq_find(h, get_be32(x + C_SCQN) & QPN_MASK);
	rcq = cq_find(h, get_be32(x + C_RCQN) & QPN_MASK);
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
	memcpy(qp->ctx, x, C_SIZE);
	ctx_parse(qp);
	qp->log_max_msg = LOG_MAX_MSG;
	qp->state = QPS_INIT;
	h->qps[c->im] = qp;
	return ST_OK;
}

static enum hca_status to_rtr(struct qp *qp, const uint8_t *x, uint32_t opt)
{
	const uint8_t mtu = x[C_MTU] >> 5;

	if (!qp->special && (mtu < 1 || mtu > IB_MTU_4096))
		return ST_BAD_PARAM;
	copy_field(qp, x, C_MTU, 1);
	copy_field(qp, x, C_RECVPSN, 4);
	if (qp->type == QPT_RC || qp->type == QPT_UC) {
		copy_path(qp, x, opt);
		copy_field(qp, x, C_REMOTE, 4);
		copy_bits(qp, x, C_PARAMS2, 7u << 21);
		qp->recv_psn = get_be32(x + C_RECVPSN) & QPN_MASK;
	}
	return ST_OK;
}

static void to_rts(struct qp *qp, const uint8_t *x)
{
	copy_field(qp, x, C_SENDPSN, 4);
	qp->send_psn = get_be32(x + C_SENDPSN) & QPN_MASK;
	if (qp->type != QPT_RC)
		return;
	copy_field(qp, x, C_PATH + P_ACK, 1);
	copy_bits(qp, x, C_PARAMS1, 0xffe000u);
}

static enum hca_status apply(struct qp *qp, const struct transition *t, struct cmd *c)
{
	const uint32_t opt = get_be32((const uint8_t *)c->in) & t->opt;
	const uint8_t *x = (const uint8_t *)c->in + CTX;
	enum hca_status st;

	if (t->op == OP_INIT2RTR) {
		st = to_rtr(qp, x, get_be32((const uint8_t *)c->in));
		if (st)
			return st;
	} else if (t->op == OP_RTR2RTS) {
		to_rts(qp, x);
	}
	copy_optional(qp, x, opt);
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
	uint8_t *x = (uint8_t *)c->out + CTX;

	if (!qp)
		return ST_BAD_QP_STATE;
	memcpy(x, qp->ctx, C_SIZE);
	put_be32(x + C_STATE, (get_be32(x + C_STATE) & 0x0fffffff) | (uint32_t)qp->state << 28);
	put_be32(x + C_SENDPSN, qp->send_psn);
	put_be32(x + C_RECVPSN, (uint32_t)qp->min_rnr << 24 | qp->recv_psn);
	put_be16(x + 0xb4, qp->rq_head);
	put_be16(x + 0xb6, qp->sq_head);
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
