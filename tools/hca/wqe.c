/* SPDX-License-Identifier: MIT */
/*
 * HCA model: work queue entries, from guest memory to struct wqe.
 *
 * An entry is copied once and parsed from the copy, so that a guest that
 * writes to it meanwhile changes nothing that was checked.
 */
#include "hca.h"

#define CTRL_SIZE   16u
#define RADDR_SIZE  16u
#define ATOMIC_SIZE 16u
#define UD_SIZE     48u
#define DATA_SIZE   16u
#define INLINE      0x80000000u
#define LEN_2G      0x80000000ull

static uint8_t *sq_slot(struct qp *qp, uint16_t index, uint64_t len)
{
	const uint64_t i = index & ((1u << qp->sq_log_size) - 1);

	return mtt_ptr(qp->h, &qp->buf, qp->sq_off + (i << qp->sq_log_stride), len);
}

/* Has the driver handed over entry @index? */
enum sq_entry wqe_state(struct qp *qp, uint16_t index)
{
	const uint8_t *p = sq_slot(qp, index, CTRL_SIZE);
	uint32_t word;

	if (!p)
		return SQ_FAULT;
	word = swap_be32(__atomic_load_n((const uint32_t *)(const void *)p, __ATOMIC_ACQUIRE));
	/* Software stamps stale entries with all ones; bit 31 alone decides. */
	return (word >> 31) == (((uint32_t)index >> qp->sq_log_size) & 1) ? SQ_READY : SQ_EMPTY;
}

/* The opcode of entry @index, which is ready; what will be executed is read again later. */
uint8_t wqe_opcode(struct qp *qp, uint16_t index)
{
	const uint8_t *p = sq_slot(qp, index, CTRL_SIZE);

	return p ? p[3] & 31 : WQE_NOP;
}

/* Does entry @index begin with these @len bytes? */
bool wqe_is(struct qp *qp, uint16_t index, const uint8_t *raw, size_t len)
{
	const uint8_t *p = len <= 1u << qp->sq_log_stride ? sq_slot(qp, index, len) : NULL;

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
		const uint32_t word = get_be32(raw + off);
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
			s.lkey = get_be32(raw + off + 4);
			s.addr = get_be64(raw + off + 8);
			off += DATA_SIZE;
		}
		if (!add_sge(w, &s))
			return false;
	}
	return true;
}

static bool parse_atomic(struct wqe *w, const uint8_t *p, size_t left, bool masked)
{
	if (left < (masked ? 2 : 1) * ATOMIC_SIZE)
		return false;
	w->swap_add = get_be64(p);
	w->compare = get_be64(p + 8);
	w->swap_mask = masked ? get_be64(p + 16) : ~0ull;
	w->compare_mask = masked ? get_be64(p + 24) : ~0ull;
	return true;
}

/* The segments between control and data of a connected QP. */
static bool parse_remote(struct wqe *w, const uint8_t *raw, size_t len, size_t *off)
{
	const bool masked = w->opcode == WQE_MASKED_CAS || w->opcode == WQE_MASKED_FAA;

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
	if (len - *off < RADDR_SIZE)
		return false;
	w->raddr = get_be64(raw + *off);
	w->rkey = get_be32(raw + *off + 8);
	*off += RADDR_SIZE;
	if (w->opcode < WQE_CAS)
		return true;
	if (!parse_atomic(w, raw + *off, len - *off, masked))
		return false;
	*off += (masked ? 2 : 1) * ATOMIC_SIZE;
	return true;
}

/*
 * Parse @len bytes of a send WQE at @raw, which must live as long as @w is used.
 * False: malformed (local QP operation error).
 */
bool wqe_parse(enum qp_type type, const uint8_t *raw, size_t len, struct wqe *w)
{
	size_t off = CTRL_SIZE;

	w->nr_sge = 0;
	w->len = 0;
	if (len < CTRL_SIZE)
		return false;
	w->opcode = raw[3] & 31;
	w->fence = raw[7] & 0x40;
	w->signaled = (get_be32(raw + 8) & 0xc) == 0xc;
	w->solicited = get_be32(raw + 8) & 2;
	w->imm = get_be32(raw + 12);
	if (type == QPT_MLX) {
		w->mlx_flags = get_be32(raw + 8);
		w->mlx_rlid = get_be16(raw + 12);
		if (w->opcode != WQE_SEND && w->opcode != WQE_NOP)
			return false;
	} else if (type == QPT_UD) {
		if (w->opcode == WQE_NOP)
			return true;
		if ((w->opcode != WQE_SEND && w->opcode != WQE_SEND_IMM) || len - off < UD_SIZE)
			return false;
		memcpy(w->av, raw + off, sizeof(w->av));
		w->dqpn = get_be32(raw + off + 32) & QPN_MASK;
		w->qkey = get_be32(raw + off + 36);
		off += UD_SIZE;
	} else if (!parse_remote(w, raw, len, &off)) {
		return false;
	}
	if (w->opcode == WQE_NOP)
		return true;
	return parse_data(raw, off, len, w);
}

enum cqe_syndrome wqe_fetch(struct qp *qp, uint16_t index, struct wqe *w)
{
	const uint8_t *p = sq_slot(qp, index, CTRL_SIZE);
	size_t len;

	if (!p)
		return SYN_LOCAL_QP_OP;
	len = (size_t)(p[7] & 0x3f) * 16;
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
		const uint32_t count = get_be32(raw + off);
		struct sge s = { 0 };

		s.lkey = get_be32(raw + off + 4);
		s.addr = get_be64(raw + off + 8);
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
