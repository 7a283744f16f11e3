/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: queue sizes, work queue entries and completion queue entries.
 *
 * Ordering:	the device may prefetch an entry before it is valid.  It recognises a stale 64-byte
 *		line by 0xffffffff in the line's first word, so that word is written after the rest
 *		of its line; the entry's own first word (owner bit) is written last of all, by
 *		mlx4_wqe_commit().
 */
#include "wqe.h"

#include <arch/barrier.h>
#include <lib/byteorder.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "caps.h"
#include "regs.h"

#define MAX_WR_LEN     0x7fffffffU /* 0 means 2^31 on the wire of a data segment */
#define GRH_LEN        40
#define LRH_LEN        8
#define BTH_LEN        12
#define DETH_LEN       8
#define ICRC_LEN       4
#define MLX_HDR_MAX    96 /* control, and inline segments with all headers */
#define LNH_LOCAL      2
#define LNH_GLOBAL     3
#define BTH_UD_SEND    0x64
#define GRH_NEXT_HDR   0x1b
#define LID_PERMISSIVE 0xffff

/* --- sizes --------------------------------------------------------------------------- */

static unsigned int log2_up(uint32_t v)
{
	return v <= 1 ? 0 : 32 - (unsigned int)__builtin_clz(v - 1);
}

/* Bytes that @len of inline data take when they start at @off of an entry. */
static uint32_t inline_len(uint32_t off, uint32_t len)
{
	const uint32_t start = off;

	do {
		const uint32_t room = WQE_LINE - (off & (WQE_LINE - 1)) - 4;
		const uint32_t part = MIN(len, room);

		off = ALIGN_UP(off + 4 + part, 16U);
		len -= part;
	} while (len);
	return off - start;
}

static uint32_t send_desc_len(enum mlx4_wqe_kind kind, const struct rdma_qp_init *init)
{
	uint32_t head, body;

	switch (kind) {
	case WQE_KIND_RC:
		head = WQE_CTRL_LEN + WQE_RADDR_LEN;
		body = MAX(init->max_send_sge * WQE_DATA_LEN,
			   (uint32_t)WQE_ATOMIC_LEN + WQE_DATA_LEN);
		break;
	case WQE_KIND_UD:
		head = WQE_CTRL_LEN + WQE_UD_LEN;
		body = init->max_send_sge * WQE_DATA_LEN;
		break;
	default:
		head = MLX_HDR_MAX;
		body = init->max_send_sge * WQE_DATA_LEN + 16; /* and the ICRC */
		return head + body;
	}
	if (init->max_inline)
		body = MAX(body, inline_len(head, init->max_inline));
	return head + body;
}

int mlx4_wq_sizes(enum mlx4_wqe_kind kind, const struct rdma_qp_init *init, uint32_t max_sq_desc,
		  uint32_t max_rq_desc, uint8_t log_max_wqes, struct mlx4_wq_sizes *out)
{
	const uint32_t desc = send_desc_len(kind, init);
	const uint32_t rq_desc = MAX(init->max_recv_sge, 1U) * WQE_DATA_LEN;
	struct mlx4_wq_sizes s = { 0 };
	uint32_t headroom, sq_log, rq_log;

	if (desc > max_sq_desc || rq_desc > max_rq_desc)
		return -EINVAL;
	s.sq_shift = MAX(log2_up(desc), 6U);
	s.rq_shift = MAX(log2_up(rq_desc), 4U);

	/* Entries that the device may prefetch are never posted. */
	headroom = (SQ_HEADROOM_BYTES >> s.sq_shift) + 1;
	if (init->max_send_wr > (1U << 24) || init->max_recv_wr > (1U << 24))
		return -EINVAL;
	sq_log = log2_up(MAX(init->max_send_wr, 1U) + headroom);
	rq_log = log2_up(MAX(init->max_recv_wr, 1U));
	if (sq_log > log_max_wqes || rq_log > log_max_wqes || sq_log > 15 || rq_log > 15)
		return -EINVAL;
	s.sq_nr = 1U << sq_log;
	s.rq_nr = 1U << rq_log;
	s.sq_max_post = s.sq_nr - headroom;

	/* The queue with the larger entries comes first. */
	if (s.rq_shift > s.sq_shift)
		s.sq_off = s.rq_nr << s.rq_shift;
	else
		s.rq_off = s.sq_nr << s.sq_shift;
	s.len = (s.sq_nr << s.sq_shift) + (s.rq_nr << s.rq_shift);
	*out = s;
	return 0;
}

/* --- entries ------------------------------------------------------------------------- */

static uint8_t *wqe_at(const struct mlx4_wq *wq, uint32_t index)
{
	return wq->base + ((size_t)(index & (wq->nr - 1)) << wq->shift);
}

/* A word that the device may look at as soon as it is there. */
static void put_word_last(uint8_t *p, uint32_t v)
{
	dma_wmb(); /* the rest of the line before its first word */
	WRITE_ONCE(*(be32_t *)(void *)p, cpu_to_be32(v));
}

void mlx4_wqe_stamp(const struct mlx4_wq *sq, uint32_t index)
{
	uint8_t *wqe = wqe_at(sq, index);

	for (uint32_t off = WQE_LINE; off < 1U << sq->shift; off += WQE_LINE)
		mlx4_put32(wqe, off, WQE_STAMP);
}

void mlx4_sq_init(struct mlx4_wq *sq)
{
	for (uint32_t n = 0; n < sq->nr; n++) {
		mlx4_put32(wqe_at(sq, n), 0, WQE_CTRL_OWNER);
		mlx4_wqe_stamp(sq, n);
	}
}

void mlx4_wqe_commit(const struct mlx4_wq *sq, uint32_t index, uint32_t ctrl)
{
	put_word_last(wqe_at(sq, index), ctrl | (index & sq->nr ? WQE_CTRL_OWNER : 0));
}

uint32_t mlx4_wqe_flame(const struct mlx4_wq *sq, uint32_t index, uint32_t qpn, uint32_t max,
			uint32_t *ctrl, const void **wqe)
{
	uint8_t *e = wqe_at(sq, index);
	const uint32_t len = ALIGN_UP((mlx4_get8(e, 7) & WQE_CTRL_SIZE) * 16U, (uint32_t)WQE_LINE);

	if (len > max)
		return 0;
	/* A doorbell names the queue pair by itself; here the entry says whose and which it is. */
	mlx4_put32(e, 4, mlx4_get32(e, 4) | qpn << 8);
	*ctrl |= (index & 0xffff) << 8;
	*wqe = e;
	return len;
}

static void put_data(uint8_t *seg, const struct rdma_sge *sge)
{
	mlx4_put32(seg, 4, sge->lkey);
	mlx4_put64(seg, 8, sge->addr);
	put_word_last(seg, sge->len);
}

/* Data segments at @off, last first so that each line's first word comes after the others. */
static uint32_t put_sges(uint8_t *wqe, uint32_t off, const struct rdma_send_wr *wr)
{
	uint32_t nr = 0;

	for (uint32_t n = 0; n < wr->nr_sge; n++)
		nr += wr->sge[n].len != 0;
	for (uint32_t n = wr->nr_sge, at = nr; n-- > 0;) {
		if (wr->sge[n].len)
			put_data(wqe + off + --at * WQE_DATA_LEN, &wr->sge[n]);
	}
	return off + nr * WQE_DATA_LEN;
}

/* Inline segments at @off with the bytes of all SGEs; the caller has checked the total. */
static uint32_t put_inline(uint8_t *wqe, uint32_t off, const struct rdma_sge *sge, uint32_t nr_sge)
{
	uint32_t seg = off;
	uint32_t len = 0; /* in the open segment */

	for (uint32_t n = 0; n < nr_sge; n++) {
		const uint8_t *src = (const uint8_t *)(uintptr_t)sge[n].addr;
		uint32_t left = sge[n].len;

		while (left) {
			const uint32_t room = WQE_LINE - ((seg + 4 + len) & (WQE_LINE - 1));
			const bool full = ((seg + 4 + len) & (WQE_LINE - 1)) == 0 && len;
			uint32_t part;

			if (full) {
				put_word_last(wqe + seg, WQE_INLINE | len);
				seg += 4 + len;
				len = 0;
				continue;
			}
			part = MIN(left, room);
			memcpy(wqe + seg + 4 + len, src, part);
			src += part;
			left -= part;
			len += part;
		}
	}
	if (!len)
		return seg;
	put_word_last(wqe + seg, WQE_INLINE | len);
	return ALIGN_UP(seg + 4 + len, 16U);
}

/* Check the lengths of @wr; total in *@total. */
static int wr_lengths(const struct mlx4_wq *sq, const struct rdma_send_wr *wr, uint64_t *total)
{
	*total = 0;
	if (wr->nr_sge > sq->max_sge && !(wr->flags & RDMA_SEND_INLINE))
		return -EINVAL;
	for (uint32_t n = 0; n < wr->nr_sge; n++) {
		if (wr->sge[n].len > MAX_WR_LEN)
			return -EINVAL;
		*total += wr->sge[n].len;
	}
	return *total > MAX_WR_LEN + 1ULL ? -EINVAL : 0;
}

/* Data part at @off, by reference or inline. Returns the end, or -EINVAL. */
static int put_payload(const struct mlx4_wq *sq, uint8_t *wqe, uint32_t off,
		       const struct rdma_send_wr *wr)
{
	uint64_t total;

	if (wr_lengths(sq, wr, &total))
		return -EINVAL;
	if (!(wr->flags & RDMA_SEND_INLINE)) {
		if (off + wr->nr_sge * WQE_DATA_LEN > 1U << sq->shift)
			return -EINVAL;
		return (int)put_sges(wqe, off, wr);
	}
	if (total == 0)
		return (int)off;
	if (total > 1U << sq->shift || off + inline_len(off, (uint32_t)total) > 1U << sq->shift)
		return -EINVAL;
	return (int)put_inline(wqe, off, wr->sge, wr->nr_sge);
}

/* Words 1 to 3 of the control segment. */
static void put_ctrl(uint8_t *wqe, const struct rdma_send_wr *wr, uint32_t len, uint32_t imm)
{
	uint32_t flags = 0;

	if (wr->flags & RDMA_SEND_SIGNALED)
		flags |= WQE_CTRL_CQE;
	if (wr->flags & RDMA_SEND_SOLICITED)
		flags |= WQE_CTRL_SOLICITED;
	mlx4_put32(wqe, 4, len / 16 | (wr->flags & RDMA_SEND_FENCE ? WQE_CTRL_FENCE : 0));
	mlx4_put32(wqe, 8, flags);
	mlx4_put32(wqe, 12, imm);
}

static void put_raddr(uint8_t *seg, uint64_t addr, uint32_t rkey)
{
	mlx4_put64(seg, 0, addr);
	mlx4_put32(seg, 8, rkey);
	mlx4_put32(seg, 12, 0);
}

static int put_atomic(uint8_t *wqe, const struct rdma_send_wr *wr)
{
	const uint32_t off = WQE_CTRL_LEN + WQE_RADDR_LEN;
	const bool cas = wr->opcode == RDMA_WR_ATOMIC_CAS;

	if (wr->nr_sge != 1 || wr->sge[0].len != 8 || wr->remote_addr & 7 ||
	    wr->flags & RDMA_SEND_INLINE)
		return -EINVAL;
	put_data(wqe + off + WQE_ATOMIC_LEN, &wr->sge[0]);
	mlx4_put64(wqe, off, cas ? wr->swap : wr->compare_add);
	mlx4_put64(wqe, off + 8, cas ? wr->compare_add : 0);
	return (int)off + WQE_ATOMIC_LEN + WQE_DATA_LEN;
}

int mlx4_wqe_rc(const struct mlx4_wq *sq, uint32_t index, const struct rdma_send_wr *wr,
		uint32_t *ctrl)
{
	static const uint8_t opcodes[] = {
		[RDMA_WR_SEND] = WQE_OP_SEND,
		[RDMA_WR_SEND_WITH_IMM] = WQE_OP_SEND_IMM,
		[RDMA_WR_WRITE] = WQE_OP_WRITE,
		[RDMA_WR_WRITE_WITH_IMM] = WQE_OP_WRITE_IMM,
		[RDMA_WR_READ] = WQE_OP_READ,
		[RDMA_WR_ATOMIC_CAS] = WQE_OP_CAS,
		[RDMA_WR_ATOMIC_FETCH_ADD] = WQE_OP_FAA,
	};
	uint8_t *wqe = wqe_at(sq, index);
	uint32_t off = WQE_CTRL_LEN;
	int end;

	if ((unsigned int)wr->opcode >= ARRAY_SIZE(opcodes))
		return -EINVAL;
	if (wr->opcode == RDMA_WR_READ && wr->flags & RDMA_SEND_INLINE)
		return -EINVAL;

	if (wr->opcode >= RDMA_WR_WRITE) {
		put_raddr(wqe + off, wr->remote_addr, wr->rkey);
		off += WQE_RADDR_LEN;
	}
	if (wr->opcode == RDMA_WR_ATOMIC_CAS || wr->opcode == RDMA_WR_ATOMIC_FETCH_ADD)
		end = put_atomic(wqe, wr);
	else
		end = put_payload(sq, wqe, off, wr);
	if (end < 0)
		return end;
	put_ctrl(wqe, wr, (uint32_t)end, wr->imm);
	*ctrl = opcodes[wr->opcode];
	return 0;
}

static void put_av(uint8_t *av, const struct rdma_addr *to, uint32_t pdn, uint8_t port)
{
	memset(av, 0, 32);
	mlx4_put32(av, 0x00, (uint32_t)port << 24 | pdn);
	mlx4_put8(av, 0x05, to->has_grh ? 0x80 : 0);
	mlx4_put16(av, 0x06, to->dlid);
	mlx4_put8(av, 0x0b, to->has_grh ? 0xff : 0); /* hop limit */
	mlx4_put32(av, 0x0c, (uint32_t)to->sl << 28);
	if (to->has_grh)
		memcpy(av + 0x10, to->dgid.raw, 16);
}

int mlx4_wqe_ud(const struct mlx4_wq *sq, uint32_t index, const struct rdma_send_wr *wr,
		uint32_t pdn, uint8_t port, uint32_t *ctrl)
{
	uint8_t *wqe = wqe_at(sq, index);
	uint8_t *ud = wqe + WQE_CTRL_LEN;
	int end;

	if (wr->opcode != RDMA_WR_SEND && wr->opcode != RDMA_WR_SEND_WITH_IMM)
		return -EINVAL;
	end = put_payload(sq, wqe, WQE_CTRL_LEN + WQE_UD_LEN, wr);
	if (end < 0)
		return end;
	put_av(ud, &wr->dest, pdn, port);
	mlx4_put32(ud, 32, wr->dest_qpn & 0xffffff);
	mlx4_put32(ud, 36, wr->dest_qkey);
	mlx4_put64(ud, 40, 0);
	put_ctrl(wqe, wr, (uint32_t)end, wr->imm);
	*ctrl = wr->opcode == RDMA_WR_SEND ? WQE_OP_SEND : WQE_OP_SEND_IMM;
	return 0;
}

/* Packet headers of a special queue pair's datagram; returns their length. */
static uint32_t mlx_headers(uint8_t *h, const struct rdma_send_wr *wr,
			    const struct mlx4_mlx_hdr *hdr, uint32_t payload)
{
	const uint32_t grh = wr->dest.has_grh ? GRH_LEN : 0;
	const uint32_t pad = -payload & 3;
	uint8_t *p = h;

	memset(h, 0, LRH_LEN + grh + BTH_LEN + DETH_LEN);
	mlx4_put8(p, 0, (uint8_t)(hdr->vl << 4));
	mlx4_put8(p, 1, (uint8_t)(wr->dest.sl << 4 | (grh ? LNH_GLOBAL : LNH_LOCAL)));
	mlx4_put16(p, 2, wr->dest.dlid);
	mlx4_put16(p, 4,
		   (uint16_t)((LRH_LEN + grh + BTH_LEN + DETH_LEN + payload + pad + ICRC_LEN) / 4));
	p += LRH_LEN; /* source LID 0: the device adds its own */
	if (grh) {
		mlx4_put32(p, 0, 6U << 28);
		mlx4_put16(p, 4, (uint16_t)(BTH_LEN + DETH_LEN + payload + pad + ICRC_LEN));
		mlx4_put8(p, 6, GRH_NEXT_HDR);
		mlx4_put8(p, 7, 0xff);
		memcpy(p + 8, hdr->sgid.raw, 16);
		memcpy(p + 24, wr->dest.dgid.raw, 16);
		p += GRH_LEN;
	}
	mlx4_put8(p, 0, BTH_UD_SEND);
	mlx4_put8(p, 1, (uint8_t)((wr->flags & RDMA_SEND_SOLICITED ? 0x80 : 0) | pad << 4));
	mlx4_put16(p, 2, hdr->pkey);
	mlx4_put32(p, 4, wr->dest_qpn & 0xffffff);
	mlx4_put32(p, 8, hdr->psn & 0xffffff);
	p += BTH_LEN;
	mlx4_put32(p, 0, wr->dest_qkey);
	mlx4_put32(p, 4, hdr->src_qpn);
	p += DETH_LEN;
	return (uint32_t)(p - h);
}

int mlx4_wqe_mlx(const struct mlx4_wq *sq, uint32_t index, const struct rdma_send_wr *wr,
		 const struct mlx4_mlx_hdr *hdr, uint32_t *ctrl)
{
	uint8_t headers[LRH_LEN + GRH_LEN + BTH_LEN + DETH_LEN];
	uint8_t *wqe = wqe_at(sq, index);
	struct rdma_sge sge = { .addr = (uintptr_t)headers };
	uint64_t total;
	uint32_t off, flags;

	if (wr->opcode != RDMA_WR_SEND || wr->flags & RDMA_SEND_INLINE ||
	    wr_lengths(sq, wr, &total) || total > 4096 ||
	    MLX_HDR_MAX + wr->nr_sge * WQE_DATA_LEN + 16 > 1U << sq->shift)
		return -EINVAL;

	sge.len = mlx_headers(headers, wr, hdr, (uint32_t)total);
	off = put_inline(wqe, WQE_CTRL_LEN, &sge, 1);
	off = put_sges(wqe, off, wr);
	/* Room for the invariant CRC, which the device computes. */
	memset(wqe + off + 4, 0, 12);
	put_word_last(wqe + off, WQE_INLINE | ICRC_LEN);
	off += 16;

	put_ctrl(wqe, wr, off, 0);
	flags = mlx4_get32(wqe, 8) | (uint32_t)wr->dest.sl << 8;
	if (hdr->src_qpn == 0)
		flags |= WQE_MLX_VL15;
	if (wr->dest.dlid == LID_PERMISSIVE)
		flags |= WQE_MLX_SLR;
	mlx4_put32(wqe, 8, flags);
	mlx4_put32(wqe, 12, (uint32_t)wr->dest.dlid << 16);
	*ctrl = WQE_OP_SEND;
	return 0;
}

int mlx4_wqe_recv(const struct mlx4_wq *rq, uint32_t index, const struct rdma_recv_wr *wr)
{
	uint8_t *wqe = wqe_at(rq, index);
	uint32_t nr = 0;

	if (wr->nr_sge > rq->max_sge)
		return -EINVAL;
	for (uint32_t n = 0; n < wr->nr_sge; n++) {
		if (wr->sge[n].len > MAX_WR_LEN)
			return -EINVAL;
		if (!wr->sge[n].len)
			continue;
		mlx4_put32(wqe, 16UL * nr, wr->sge[n].len);
		mlx4_put32(wqe, 16UL * nr + 4, wr->sge[n].lkey);
		mlx4_put64(wqe, 16UL * nr + 8, wr->sge[n].addr);
		nr++;
	}
	if (nr < 1U << (rq->shift - 4)) {
		mlx4_put32(wqe, 16UL * nr, 0);
		mlx4_put32(wqe, 16UL * nr + 4, WQE_INVALID_LKEY);
		mlx4_put64(wqe, 16UL * nr + 8, 0);
	}
	return 0;
}

/* --- completions --------------------------------------------------------------------- */

void mlx4_cqe_decode(const void *cqe, struct mlx4_cqe *out)
{
	const uint8_t own = mlx4_get8(cqe, 0x1f);
	const uint32_t src = mlx4_get32(cqe, 0x08);
	const uint32_t word1 = mlx4_get32(cqe, 0x04);

	*out = (struct mlx4_cqe){
		.qpn = mlx4_get32(cqe, 0x00) & 0xffffff,
		.is_send = own & CQE_IS_SEND,
		.opcode = own & CQE_OPCODE_MASK,
		.error = (own & CQE_OPCODE_MASK) == CQE_OPCODE_ERROR,
		.wqe_index = mlx4_get16(cqe, 0x18),
		.vendor = mlx4_get8(cqe, 0x1a),
		.syndrome = mlx4_get8(cqe, 0x1b),
		.byte_len = mlx4_get32(cqe, 0x14),
		.imm = word1,
		.pkey_index = word1 & 0x7f,
		.grh = src >> 31,
		.src_qpn = src & 0xffffff,
		.sl = (uint8_t)(mlx4_get16(cqe, 0x0c) >> 12),
		.slid = mlx4_get16(cqe, 0x0e),
	};
}

enum rdma_wc_status mlx4_wc_status(uint8_t syndrome)
{
	switch (syndrome) {
	case 0x01:
		return RDMA_WC_LOC_LEN_ERR;
	case 0x02:
		return RDMA_WC_LOC_QP_OP_ERR;
	case 0x04:
		return RDMA_WC_LOC_PROT_ERR;
	case 0x05:
		return RDMA_WC_WR_FLUSH_ERR;
	case 0x06:
		return RDMA_WC_MW_BIND_ERR;
	case 0x10:
		return RDMA_WC_BAD_RESP_ERR;
	case 0x11:
		return RDMA_WC_LOC_ACCESS_ERR;
	case 0x12:
		return RDMA_WC_REM_INV_REQ_ERR;
	case 0x13:
		return RDMA_WC_REM_ACCESS_ERR;
	case 0x14:
		return RDMA_WC_REM_OP_ERR;
	case 0x15:
		return RDMA_WC_RETRY_EXC_ERR;
	case 0x16:
		return RDMA_WC_RNR_RETRY_EXC_ERR;
	case 0x22:
		return RDMA_WC_REM_ABORT_ERR;
	default:
		return RDMA_WC_GENERAL_ERR;
	}
}

static void send_to_wc(const struct mlx4_cqe *c, struct rdma_wc *wc)
{
	switch (c->opcode) {
	case WQE_OP_WRITE:
	case WQE_OP_WRITE_IMM:
		wc->opcode = RDMA_WC_WRITE;
		break;
	case WQE_OP_READ:
		wc->opcode = RDMA_WC_READ;
		wc->byte_len = c->byte_len;
		break;
	case WQE_OP_CAS:
		wc->opcode = RDMA_WC_ATOMIC_CAS;
		wc->byte_len = 8;
		break;
	case WQE_OP_FAA:
		wc->opcode = RDMA_WC_ATOMIC_FETCH_ADD;
		wc->byte_len = 8;
		break;
	default:
		wc->opcode = RDMA_WC_SEND;
		break;
	}
}

static void recv_to_wc(const struct mlx4_cqe *c, struct rdma_wc *wc)
{
	wc->opcode = c->opcode == CQE_RECV_WRITE_IMM ? RDMA_WC_RECV_WRITE_IMM : RDMA_WC_RECV;
	wc->byte_len = c->byte_len;
	if (c->opcode == CQE_RECV_WRITE_IMM || c->opcode == CQE_RECV_SEND_IMM) {
		wc->flags |= RDMA_WC_WITH_IMM;
		wc->imm = c->imm;
	}
	if (c->grh)
		wc->flags |= RDMA_WC_GRH;
	wc->src_qpn = c->src_qpn;
	wc->slid = c->slid;
	wc->sl = c->sl;
	wc->pkey_index = c->pkey_index;
}

void mlx4_cqe_to_wc(const struct mlx4_cqe *c, struct rdma_wc *wc)
{
	wc->flags = 0;
	wc->imm = 0;
	wc->byte_len = 0;
	wc->vendor_err = 0;
	if (c->error) {
		wc->status = mlx4_wc_status(c->syndrome);
		wc->vendor_err = c->vendor;
		return;
	}
	wc->status = RDMA_WC_SUCCESS;
	if (c->is_send)
		send_to_wc(c, wc);
	else
		recv_to_wc(c, wc);
}
