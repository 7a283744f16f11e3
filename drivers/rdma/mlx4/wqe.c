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

#include "hw.h"

#define MAX_WR_LEN     0x7fffffffU /* 0 means 2^31 on the wire of a data segment */
#define LRH_LEN        sizeof(struct mlx4_hw_lrh)
#define GRH_LEN        sizeof(struct mlx4_hw_grh)
#define BTH_LEN        sizeof(struct mlx4_hw_bth)
#define DETH_LEN       sizeof(struct mlx4_hw_deth)
#define ICRC_LEN       4
#define MLX_HDR_MAX    96 /* control, and inline segments with all headers */
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
		const uint32_t room = WQE_LINE - (off & (WQE_LINE - 1)) - WQE_INLINE_LEN;
		const uint32_t part = MIN(len, room);

		off = ALIGN_UP(off + WQE_INLINE_LEN + part, 16U);
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

static struct mlx4_hw_ctrl *ctrl_of(void *wqe)
{
	return wqe;
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
		put_unaligned_be32(WQE_STAMP, wqe + off);
}

void mlx4_sq_init(struct mlx4_wq *sq)
{
	for (uint32_t n = 0; n < sq->nr; n++) {
		ctrl_of(wqe_at(sq, n))->owner_op = cpu_to_be32(WQE_CTRL_OWNER);
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
	struct mlx4_hw_ctrl *hw = ctrl_of(wqe_at(sq, index));
	const uint32_t size = be32_to_cpu(hw->size);
	const uint32_t len = ALIGN_UP((size & WQE_CTRL_SIZE) * 16U, (uint32_t)WQE_LINE);

	if (len > max)
		return 0;
	/* A doorbell names the queue pair by itself; here the entry says whose and which it is. */
	hw->size = cpu_to_be32(size | qpn << WQE_CTRL_QPN_SH);
	*ctrl |= (index & 0xffff) << WQE_CTRL_INDEX_SH;
	*wqe = hw;
	return len;
}

static void put_data(uint8_t *seg, const struct rdma_sge *sge)
{
	struct mlx4_hw_data *hw = (struct mlx4_hw_data *)seg;

	hw->lkey = cpu_to_be32(sge->lkey);
	hw->addr = cpu_to_be64(sge->addr);
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
			const uint32_t at = seg + WQE_INLINE_LEN + len;
			const uint32_t room = WQE_LINE - (at & (WQE_LINE - 1));
			uint32_t part;

			if (room == WQE_LINE && len) { /* the line is full */
				put_word_last(wqe + seg, WQE_INLINE | len);
				seg = at;
				len = 0;
				continue;
			}
			part = MIN(left, room);
			memcpy(wqe + at, src, part);
			src += part;
			left -= part;
			len += part;
		}
	}
	if (!len)
		return seg;
	put_word_last(wqe + seg, WQE_INLINE | len);
	return ALIGN_UP(seg + WQE_INLINE_LEN + len, 16U);
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
	struct mlx4_hw_ctrl *hw = ctrl_of(wqe);
	uint32_t flags = 0;

	if (wr->flags & RDMA_SEND_SIGNALED)
		flags |= WQE_CTRL_CQE;
	if (wr->flags & RDMA_SEND_SOLICITED)
		flags |= WQE_CTRL_SOLICITED;
	hw->size = cpu_to_be32(len / 16 | (wr->flags & RDMA_SEND_FENCE ? WQE_CTRL_FENCE : 0));
	hw->flags = cpu_to_be32(flags);
	hw->imm = cpu_to_be32(imm);
}

static void put_raddr(uint8_t *seg, uint64_t addr, uint32_t rkey)
{
	struct mlx4_hw_raddr *hw = (struct mlx4_hw_raddr *)seg;

	hw->addr = cpu_to_be64(addr);
	hw->rkey = cpu_to_be32(rkey);
	hw->reserved_0c = cpu_to_be32(0);
}

static int put_atomic(uint8_t *wqe, const struct rdma_send_wr *wr)
{
	const uint32_t off = WQE_CTRL_LEN + WQE_RADDR_LEN;
	const bool cas = wr->opcode == RDMA_WR_ATOMIC_CAS;
	struct mlx4_hw_atomic *hw = (struct mlx4_hw_atomic *)(wqe + off);

	if (wr->nr_sge != 1 || wr->sge[0].len != 8 || wr->remote_addr & 7 ||
	    wr->flags & RDMA_SEND_INLINE)
		return -EINVAL;
	put_data(wqe + off + WQE_ATOMIC_LEN, &wr->sge[0]);
	hw->swap_add = cpu_to_be64(cas ? wr->swap : wr->compare_add);
	hw->compare = cpu_to_be64(cas ? wr->compare_add : 0);
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

static void put_ud(struct mlx4_hw_ud *hw, const struct rdma_send_wr *wr, uint32_t pdn, uint8_t port)
{
	const struct rdma_addr *to = &wr->dest;

	memset(hw, 0, sizeof(*hw));
	hw->port_pd = cpu_to_be32((uint32_t)port << UD_PORT_SH | pdn);
	hw->dlid = cpu_to_be16(to->dlid);
	hw->sl_tclass_flow = cpu_to_be32((uint32_t)to->sl << UD_SL_SH);
	if (to->has_grh) {
		hw->grh = PATH_GRH;
		hw->hop_limit = PATH_HOP_LIMIT;
		memcpy(hw->dgid, to->dgid.raw, sizeof(hw->dgid));
	}
	hw->qpn = cpu_to_be32(wr->dest_qpn & UD_QPN_MASK);
	hw->qkey = cpu_to_be32(wr->dest_qkey);
}

int mlx4_wqe_ud(const struct mlx4_wq *sq, uint32_t index, const struct rdma_send_wr *wr,
		uint32_t pdn, uint8_t port, uint32_t *ctrl)
{
	uint8_t *wqe = wqe_at(sq, index);
	int end;

	if (wr->opcode != RDMA_WR_SEND && wr->opcode != RDMA_WR_SEND_WITH_IMM)
		return -EINVAL;
	end = put_payload(sq, wqe, WQE_CTRL_LEN + WQE_UD_LEN, wr);
	if (end < 0)
		return end;
	put_ud((struct mlx4_hw_ud *)(wqe + WQE_CTRL_LEN), wr, pdn, port);
	put_ctrl(wqe, wr, (uint32_t)end, wr->imm);
	*ctrl = wr->opcode == RDMA_WR_SEND ? WQE_OP_SEND : WQE_OP_SEND_IMM;
	return 0;
}

/* Packet headers of a special queue pair's datagram; returns their length. */
static uint32_t mlx_headers(uint8_t *h, const struct rdma_send_wr *wr,
			    const struct mlx4_mlx_hdr *hdr, uint32_t payload)
{
	const bool has_grh = wr->dest.has_grh;
	const uint32_t pad = -payload & 3;
	/* Behind the route headers. */
	const uint32_t len = (uint32_t)(BTH_LEN + DETH_LEN) + payload + pad + ICRC_LEN;
	const uint32_t route_len = (uint32_t)(LRH_LEN + (has_grh ? GRH_LEN : 0));
	struct mlx4_hw_lrh *lrh = (struct mlx4_hw_lrh *)h;
	struct mlx4_hw_grh *grh = (struct mlx4_hw_grh *)(lrh + 1);
	struct mlx4_hw_bth *bth = (struct mlx4_hw_bth *)(h + route_len);
	struct mlx4_hw_deth *deth = (struct mlx4_hw_deth *)(bth + 1);

	*lrh = (struct mlx4_hw_lrh){
		.vl = (uint8_t)(hdr->vl << LRH_VL_SH),
		.sl = (uint8_t)(wr->dest.sl << LRH_SL_SH |
				(has_grh ? LRH_LNH_GLOBAL : LRH_LNH_LOCAL)),
		.dlid = cpu_to_be16(wr->dest.dlid),
		.dwords = cpu_to_be16((uint16_t)((route_len + len) / 4)),
	};
	if (has_grh) {
		*grh = (struct mlx4_hw_grh){
			.version_tclass_flow = cpu_to_be32(GRH_VERSION << GRH_VERSION_SH),
			.len = cpu_to_be16((uint16_t)len),
			.next_hdr = GRH_NEXT_HDR,
			.hop_limit = PATH_HOP_LIMIT,
		};
		memcpy(grh->sgid, hdr->sgid.raw, sizeof(grh->sgid));
		memcpy(grh->dgid, wr->dest.dgid.raw, sizeof(grh->dgid));
	}
	*bth = (struct mlx4_hw_bth){
		.opcode = BTH_UD_SEND,
		.flags = (uint8_t)((wr->flags & RDMA_SEND_SOLICITED ? BTH_SOLICITED : 0) |
				   pad << BTH_PAD_SH),
		.pkey = cpu_to_be16(hdr->pkey),
		.qpn = cpu_to_be32(wr->dest_qpn & UD_QPN_MASK),
		.psn = cpu_to_be32(hdr->psn & BTH_PSN_MASK),
	};
	deth->qkey = cpu_to_be32(wr->dest_qkey);
	deth->src_qpn = cpu_to_be32(hdr->src_qpn);
	return route_len + (uint32_t)(BTH_LEN + DETH_LEN);
}

int mlx4_wqe_mlx(const struct mlx4_wq *sq, uint32_t index, const struct rdma_send_wr *wr,
		 const struct mlx4_mlx_hdr *hdr, uint32_t *ctrl)
{
	uint8_t headers[LRH_LEN + GRH_LEN + BTH_LEN + DETH_LEN];
	uint8_t *wqe = wqe_at(sq, index);
	struct mlx4_hw_ctrl *hw = ctrl_of(wqe);
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
	memset(wqe + off + WQE_INLINE_LEN, 0, 16 - WQE_INLINE_LEN);
	put_word_last(wqe + off, WQE_INLINE | ICRC_LEN);
	off += 16;

	put_ctrl(wqe, wr, off, 0);
	flags = be32_to_cpu(hw->flags) | (uint32_t)wr->dest.sl << WQE_MLX_SL_SH;
	if (hdr->src_qpn == 0)
		flags |= WQE_MLX_VL15;
	if (wr->dest.dlid == LID_PERMISSIVE)
		flags |= WQE_MLX_SLR;
	hw->flags = cpu_to_be32(flags);
	hw->dlid = cpu_to_be16(wr->dest.dlid); /* put_ctrl() has zeroed what follows it */
	*ctrl = WQE_OP_SEND;
	return 0;
}

int mlx4_wqe_recv(const struct mlx4_wq *rq, uint32_t index, const struct rdma_recv_wr *wr)
{
	struct mlx4_hw_data *seg = (struct mlx4_hw_data *)wqe_at(rq, index);
	uint32_t nr = 0;

	if (wr->nr_sge > rq->max_sge)
		return -EINVAL;
	for (uint32_t n = 0; n < wr->nr_sge; n++) {
		if (wr->sge[n].len > MAX_WR_LEN)
			return -EINVAL;
		if (!wr->sge[n].len)
			continue;
		seg[nr].len = cpu_to_be32(wr->sge[n].len);
		seg[nr].lkey = cpu_to_be32(wr->sge[n].lkey);
		seg[nr].addr = cpu_to_be64(wr->sge[n].addr);
		nr++;
	}
	if (nr < 1U << (rq->shift - 4)) {
		seg[nr].len = cpu_to_be32(0);
		seg[nr].lkey = cpu_to_be32(WQE_INVALID_LKEY);
		seg[nr].addr = cpu_to_be64(0);
	}
	return 0;
}

/* --- completions --------------------------------------------------------------------- */

void mlx4_cqe_decode(const void *cqe, struct mlx4_cqe *out)
{
	const struct mlx4_hw_cqe *hw = cqe;
	const uint32_t src = be32_to_cpu(hw->grh_src_qpn);
	const uint32_t imm = be32_to_cpu(hw->imm);

	*out = (struct mlx4_cqe){
		.qpn = be32_to_cpu(hw->qpn) & CQE_QPN_MASK,
		.is_send = hw->owner & CQE_IS_SEND,
		.opcode = hw->owner & CQE_OPCODE_MASK,
		.error = (hw->owner & CQE_OPCODE_MASK) == CQE_OPCODE_ERROR,
		.wqe_index = be16_to_cpu(hw->wqe_index),
		.vendor = hw->vendor,
		.syndrome = hw->syndrome,
		.byte_len = be32_to_cpu(hw->byte_len),
		.imm = imm,
		.pkey_index = imm & CQE_PKEY_MASK,
		.grh = src & CQE_GRH,
		.src_qpn = src & CQE_QPN_MASK,
		.sl = (uint8_t)(be16_to_cpu(hw->sl) >> CQE_SL_SH),
		.slid = be16_to_cpu(hw->slid),
	};
}

static enum rdma_wc_status mlx4_wc_status(uint8_t syndrome)
{
	switch (syndrome) {
	case SYNDROME_LOCAL_LEN:
		return RDMA_WC_LOC_LEN_ERR;
	case SYNDROME_LOCAL_QP_OP:
		return RDMA_WC_LOC_QP_OP_ERR;
	case SYNDROME_LOCAL_PROT:
		return RDMA_WC_LOC_PROT_ERR;
	case SYNDROME_FLUSHED:
		return RDMA_WC_WR_FLUSH_ERR;
	case SYNDROME_MW_BIND:
		return RDMA_WC_MW_BIND_ERR;
	case SYNDROME_BAD_RESP:
		return RDMA_WC_BAD_RESP_ERR;
	case SYNDROME_LOCAL_ACCESS:
		return RDMA_WC_LOC_ACCESS_ERR;
	case SYNDROME_REMOTE_INVALID:
		return RDMA_WC_REM_INV_REQ_ERR;
	case SYNDROME_REMOTE_ACCESS:
		return RDMA_WC_REM_ACCESS_ERR;
	case SYNDROME_REMOTE_OP:
		return RDMA_WC_REM_OP_ERR;
	case SYNDROME_RETRIES:
		return RDMA_WC_RETRY_EXC_ERR;
	case SYNDROME_RNR_RETRIES:
		return RDMA_WC_RNR_RETRY_EXC_ERR;
	case SYNDROME_REMOTE_ABORT:
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
