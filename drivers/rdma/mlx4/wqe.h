/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3 work queues: sizes, WQE building, CQE decoding.  Pure: memory in, memory out.
 */
#pragma once

#include <kernel/spinlock.h>
#include <lib/compiler.h>
#include <lib/types.h>
#include <rdma/verbs.h>

/* One of the two queues of a queue pair. */
struct mlx4_wq {
	struct spinlock lock; /* RANK_RDMA_QP */
	uint8_t *base;
	uint64_t *wrid;     /* per entry */
	uint32_t nr;        /* entries, a power of two */
	unsigned int shift; /* log2 of an entry's bytes */
	uint32_t max_post;  /* entries that may be outstanding */
	uint32_t max_sge;
	uint32_t head;         /* next to post; lock */
	uint32_t tail;         /* next to complete; written by poll, atomic */
	bool doorbell_pending; /* posted with RDMA_SEND_DEFER, and no doorbell yet; lock */
};

struct mlx4_wq_sizes {
	uint32_t sq_nr, rq_nr;
	unsigned int sq_shift, rq_shift;
	uint32_t sq_max_post;
	uint32_t sq_off, rq_off; /* in the buffer */
	uint32_t len;
};

enum mlx4_wqe_kind {
	WQE_KIND_RC,
	WQE_KIND_UD,
	WQE_KIND_MLX,
};

/* -EINVAL when the device's limits (descriptor sizes, log2 of entries) do not allow it. */
int mlx4_wq_sizes(enum mlx4_wqe_kind kind, const struct rdma_qp_init *init, uint32_t max_sq_desc,
		  uint32_t max_rq_desc, uint8_t log_max_wqes, struct mlx4_wq_sizes *out)
	__must_check;

/* Contents of the packet headers of a special queue pair. */
struct mlx4_mlx_hdr {
	uint32_t src_qpn;
	uint16_t pkey;
	uint32_t psn;
	uint8_t vl;
	struct rdma_gid sgid;
};

/* Owner bit set (invalid) in every entry, everything else stamped. */
void mlx4_sq_init(struct mlx4_wq *sq);
/*
 * Write the WQE for @wr into entry @index, all but its first word, which is returned in *@ctrl
 * without the owner bit.  -EINVAL for a request that does not fit or makes no sense.
 * @pdn and @port go into UD address vectors.
 */
int mlx4_wqe_rc(const struct mlx4_wq *sq, uint32_t index, const struct rdma_send_wr *wr,
		uint32_t *ctrl) __must_check;
int mlx4_wqe_ud(const struct mlx4_wq *sq, uint32_t index, const struct rdma_send_wr *wr,
		uint32_t pdn, uint8_t port, uint32_t *ctrl) __must_check;
int mlx4_wqe_mlx(const struct mlx4_wq *sq, uint32_t index, const struct rdma_send_wr *wr,
		 const struct mlx4_mlx_hdr *hdr, uint32_t *ctrl) __must_check;
/* Hand entry @index to the device. */
void mlx4_wqe_commit(const struct mlx4_wq *sq, uint32_t index, uint32_t ctrl);
/*
 * Before that: complete entry @index for BlueFlame, if it is at most @max bytes.  Returns how many
 * bytes, in lines of 64, are to be copied from *@wqe once it is committed; 0 = it is too long.
 */
uint32_t mlx4_wqe_flame(const struct mlx4_wq *sq, uint32_t index, uint32_t qpn, uint32_t max,
			uint32_t *ctrl, const void **wqe);
/* Make a prefetched copy of the entry look stale. */
void mlx4_wqe_stamp(const struct mlx4_wq *sq, uint32_t index);
int mlx4_wqe_recv(const struct mlx4_wq *rq, uint32_t index, const struct rdma_recv_wr *wr)
	__must_check;

struct mlx4_cqe {
	uint32_t qpn;
	bool is_send;
	bool error;
	uint8_t opcode;
	uint8_t syndrome;
	uint8_t vendor;
	uint16_t wqe_index;
	uint32_t byte_len;
	uint32_t imm;
	bool grh;
	uint32_t src_qpn;
	uint16_t slid;
	uint8_t sl;
	uint16_t pkey_index;
};

/* @cqe: 32 bytes. */
void mlx4_cqe_decode(const void *cqe, struct mlx4_cqe *out);
/* Fill the parts of @wc that the CQE tells. */
void mlx4_cqe_to_wc(const struct mlx4_cqe *c, struct rdma_wc *wc);
