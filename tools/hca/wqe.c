/* SPDX-License-Identifier: MIT */
/*
 * HCA model: work queue entries, from guest memory to struct wqe.
 *
 * An entry is copied once and parsed from the copy, so that a guest that
 * writes to it meanwhile changes nothing that was checked.
 */
#include "hca.h"

#define CTRL_SIZE sizeof(struct hw_wqe_ctrl)
#define DATA_SIZE sizeof(struct hw_wqe_data)
#define OPCODE    0x1fu
#define FENCE     0x40u
#define SIZE      0x3fu
#define CQ_UPDATE 0x0cu
#define SOLICITED 0x02u
#define INLINE    0x80000000u
#define LEN_2G    0x80000000ull

static void *sq_slot(struct qp *qp, uint16_t index, uint64_t len)
{
	const uint64_t i = index & ((1u << qp->sq_log_size) - 1);

	return mtt_ptr(qp->h, &qp->buf, qp->sq_off + (i << qp->sq_log_stride), len);
}

/* Has the driver handed over entry @index? */
enum sq_entry wqe_state(struct qp *qp, uint16_t index)
{
	const be32_t *owner_op = sq_slot(qp, index, CTRL_SIZE); /* the first field */
	uint32_t word;

	if (!owner_op)
		return SQ_FAULT;
	word = be32_to_cpu(__atomic_load_n(owner_op, __ATOMIC_ACQUIRE));
	/* Software stamps stale entries with all ones; bit 31 alone decides. */
	return (word >> 31) == (((uint32_t)index >> qp->sq_log_size) & 1) ? SQ_READY : SQ_EMPTY;
}

/* The opcode of entry @index, which is ready; what will be executed is read again later. */
uint8_t wqe_opcode(struct qp *qp, uint16_t index)
{
	const struct hw_wqe_ctrl *ctrl = sq_slot(qp, index, CTRL_SIZE);

	return ctrl ? be32_to_cpu(ctrl->owner_op) & OPCODE : WQE_NOP;
}

/* Does entry @index begin with these @len bytes? */
bool wqe_is(struct qp *qp, uint16_t index, const uint8_t *raw, size_t len)
{
	const void *p = len <= 1u << qp->sq_log_stride ? sq_slot(qp, index, len) : NULL;

	return p && !memcmp(p, raw, len);
}

static bool add_sge(struct wqe *w, const struct sge *s)
{
	if (w->nr_sge == MAX_SGE)
		return false;
	w->sge[w->nr_sge++] = *s;
	w->len += s->len;
	return true;
}

static bool parse_data(const uint8_t *raw, size_t off, size_t len, struct wqe *w)
{
	while (off + 4 <= len) {
		const struct hw_wqe_data *d = (const void *)(raw + off);
		const uint32_t word = be32_to_cpu(d->count);
		struct sge s = { 0 };

		if (word & INLINE) {
			s.len = word & ~INLINE;
			if (s.len > len - off - 4)
				return false;
			s.inl = raw + off + 4;
			off = (off + 4 + s.len + 15) & ~(size_t)15;
		} else {
			if (len - off < DATA_SIZE)
				return false;
			s.len = word ? word : LEN_2G;
			s.lkey = be32_to_cpu(d->lkey);
			s.addr = be64_to_cpu(d->addr);
			off += DATA_SIZE;
		}
		if (!add_sge(w, &s))
			return false;
	}
	return true;
}

static size_t atomic_size(bool masked)
{
	return masked ? sizeof(struct hw_wqe_atomic) : offsetof(struct hw_wqe_atomic, swap_mask);
}

static bool parse_atomic(struct wqe *w, const void *raw, size_t left, bool masked)
{
	const struct hw_wqe_atomic *a = raw;

	if (left < atomic_size(masked))
		return false;
	w->swap_add = be64_to_cpu(a->swap_add);
	w->compare = be64_to_cpu(a->compare);
	w->swap_mask = masked ? be64_to_cpu(a->swap_mask) : ~0ull;
	w->compare_mask = masked ? be64_to_cpu(a->compare_mask) : ~0ull;
	return true;
}

/* The segments between control and data of a connected QP. */
static bool parse_remote(struct wqe *w, const uint8_t *raw, size_t len, size_t *off)
{
	const bool masked = w->opcode == WQE_MASKED_CAS || w->opcode == WQE_MASKED_FAA;
	const struct hw_wqe_raddr *r = (const void *)(raw + *off);

	switch (w->opcode) {
	case WQE_NOP:
	case WQE_SEND:
	case WQE_SEND_IMM:
		return true;
	case WQE_WRITE:
	case WQE_WRITE_IMM:
	case WQE_READ:
	case WQE_CAS:
	case WQE_FAA:
	case WQE_MASKED_CAS:
	case WQE_MASKED_FAA:
		break;
	default:
		return false;
	}
	if (len - *off < sizeof(*r))
		return false;
	w->raddr = be64_to_cpu(r->addr);
	w->rkey = be32_to_cpu(r->rkey);
	*off += sizeof(*r);
	if (w->opcode < WQE_CAS)
		return true;
	if (!parse_atomic(w, raw + *off, len - *off, masked))
		return false;
	*off += atomic_size(masked);
	return true;
}

/*
 * Parse @len bytes of a send WQE at @raw, which must live as long as @w is used.
 * False: malformed (local QP operation error).
 */
bool wqe_parse(enum qp_type type, const uint8_t *raw, size_t len, struct wqe *w)
{
	const struct hw_wqe_ctrl *ctrl = (const void *)raw;
	const struct hw_wqe_ud *ud = (const void *)(ctrl + 1);
	size_t off = CTRL_SIZE;
	uint32_t flags;

	w->nr_sge = 0;
	w->len = 0;
	if (len < CTRL_SIZE)
		return false;
	flags = be32_to_cpu(ctrl->flags);
	w->opcode = be32_to_cpu(ctrl->owner_op) & OPCODE;
	w->fence = be32_to_cpu(ctrl->qpn_size) & FENCE;
	w->signaled = (flags & CQ_UPDATE) == CQ_UPDATE;
	w->solicited = flags & SOLICITED;
	w->imm = be32_to_cpu(ctrl->imm);
	if (type == QPT_MLX) {
		w->mlx_flags = flags;
		w->mlx_rlid = be16_to_cpu(ctrl->rlid);
		if (w->opcode != WQE_SEND && w->opcode != WQE_NOP)
			return false;
	} else if (type == QPT_UD) {
		if (w->opcode == WQE_NOP)
			return true;
		if ((w->opcode != WQE_SEND && w->opcode != WQE_SEND_IMM) || len - off < sizeof(*ud))
			return false;
		w->av = ud->av;
		w->dqpn = be32_to_cpu(ud->dqpn) & QPN_MASK;
		w->qkey = be32_to_cpu(ud->qkey);
		off += sizeof(*ud);
	} else if (!parse_remote(w, raw, len, &off)) {
		return false;
	}
	if (w->opcode == WQE_NOP)
		return true;
	return parse_data(raw, off, len, w);
}

/* Bytes of the entry that begins with control segment @raw, as that says. */
unsigned wqe_size(const void *raw)
{
	const struct hw_wqe_ctrl *ctrl = raw;

	return (be32_to_cpu(ctrl->qpn_size) & SIZE) * 16;
}

enum cqe_syndrome wqe_fetch(struct qp *qp, uint16_t index, struct wqe *w)
{
	const void *p = sq_slot(qp, index, CTRL_SIZE);
	size_t len;

	if (!p)
		return SYN_LOCAL_QP_OP;
	len = wqe_size(p);
	if (len < CTRL_SIZE || len > 1u << qp->sq_log_stride || len > sizeof(w->raw))
		return SYN_LOCAL_QP_OP;
	p = sq_slot(qp, index, len);
	if (!p)
		return SYN_LOCAL_QP_OP;
	memcpy(w->raw, p, len);
	if (!wqe_parse(qp->type, w->raw, len, w))
		return SYN_LOCAL_QP_OP;
	return w->len > BIT64(qp->log_max_msg) ? SYN_LOCAL_LENGTH : SYN_OK;
}

/* A receive WQE is data segments only; LKEY_END ends a short list. */
bool wqe_parse_recv(const uint8_t *raw, size_t len, struct wqe *w)
{
	w->nr_sge = 0;
	w->len = 0;
	for (size_t off = 0; off + DATA_SIZE <= len; off += DATA_SIZE) {
		const struct hw_wqe_data *d = (const void *)(raw + off);
		const uint32_t count = be32_to_cpu(d->count);
		struct sge s = { 0 };

		s.lkey = be32_to_cpu(d->lkey);
		s.addr = be64_to_cpu(d->addr);
		if (s.lkey == LKEY_END && count == 0)
			break;
		if (count & INLINE)
			return false;
		s.len = count ? count : LEN_2G;
		if (!add_sge(w, &s))
			return false;
	}
	return true;
}
