/* SPDX-License-Identifier: MIT */
/* ConnectX-3: work queue entries and completion queue entries, byte by byte. */
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

#include "raw_test.h"
#include "regs.h"
#include "wqe.h"

struct ring {
	struct mlx4_wq wq;
	uint8_t mem[4 * 256] __aligned(64);
};

static void ring_init(struct ring *r, unsigned int shift)
{
	memset(r, 0xee, sizeof(*r));
	r->wq = (struct mlx4_wq){ .base = r->mem, .nr = 4, .shift = shift, .max_sge = 4 };
	mlx4_sq_init(&r->wq);
}

static void ring_starts_invalid(struct ktest *t)
{
	struct ring r;

	ring_init(&r, 8);
	for (unsigned int n = 0; n < 4; n++) {
		EXPECT_EQ(t, mlx4_get32(r.mem, n * 256), 0x80000000U);
		for (unsigned int line = 64; line < 256; line += 64)
			EXPECT_EQ(t, mlx4_get32(r.mem, n * 256 + line), 0xffffffffU);
	}
}

static void owner_bit_turns_each_lap(struct ktest *t)
{
	struct ring r;

	ring_init(&r, 6);
	for (uint32_t index = 0; index < 12; index++) {
		mlx4_wqe_commit(&r.wq, index, WQE_OP_SEND);
		EXPECT_EQ(t, mlx4_get32(r.mem, (index & 3) * 64),
			  (index & 4 ? 0x80000000U : 0) | WQE_OP_SEND);
	}
}

static void flame_names_queue_and_entry(struct ktest *t)
{
	const struct rdma_sge sge[4] = {
		{ 0x1000, 100, 0x11 }, { 0x2000, 1, 0x22 }, { 0x3000, 2, 0x33 }, { 0x4000, 3, 0x44 }
	};
	struct rdma_send_wr wr = {
		.opcode = RDMA_WR_WRITE, .flags = RDMA_SEND_FENCE, .sge = sge, .nr_sge = 2
	};
	const void *wqe = NULL;
	struct ring r;
	uint32_t ctrl;

	ring_init(&r, 8);
	EXPECT_EQ(t, mlx4_wqe_rc(&r.wq, 0x12345, &wr, &ctrl), 0);
	EXPECT_EQ(t, mlx4_wqe_flame(&r.wq, 0x12345, 0xabcdef, 64, &ctrl, &wqe), 64U);
	EXPECT_EQ(t, ctrl, 0x234500U | WQE_OP_WRITE);
	EXPECT_TRUE(t, wqe == r.mem + 256);
	EXPECT_EQ(t, mlx4_get32(wqe, 4), 0xabcdef44U); /* fence, 64 bytes */
	wr.nr_sge = 3;
	EXPECT_EQ(t, mlx4_wqe_rc(&r.wq, 2, &wr, &ctrl), 0);
	EXPECT_EQ(t, mlx4_wqe_flame(&r.wq, 2, 0x41, 64, &ctrl, &wqe), 0U); /* 80 bytes */
	EXPECT_EQ(t, ctrl, (uint32_t)WQE_OP_WRITE);
	EXPECT_EQ(t, mlx4_get32(r.mem, 512 + 4), 0x45U);
	EXPECT_EQ(t, mlx4_wqe_flame(&r.wq, 2, 0x41, 256, &ctrl, &wqe), 128U);
}

static void write_imm_bytes(struct ktest *t)
{
	const struct rdma_sge sge[2] = { { 0x1000, 100, 0x11 }, { 0x2000, 0, 0x22 } };
	const struct rdma_send_wr wr = {
		.sge = sge,
		.nr_sge = 2,
		.opcode = RDMA_WR_WRITE_WITH_IMM,
		.flags = RDMA_SEND_SIGNALED | RDMA_SEND_SOLICITED | RDMA_SEND_FENCE,
		.imm = 0xdeadbeef,
		.remote_addr = 0x123456789abcULL,
		.rkey = 0x77,
	};
	static const uint8_t want[48] = {
		0x80, 0, 0,    0,    0,    0,    0,    0x43, 0, 0, 0, 0x0e, 0xde, 0xad, 0xbe, 0xef,
		0,    0, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0, 0, 0, 0x77, 0,    0,    0,    0,
		0,    0, 0,    100,  0,    0,    0,    0x11, 0, 0, 0, 0,    0,    0,    0x10, 0,
	};
	struct ring r;
	uint32_t ctrl;

	ring_init(&r, 6);
	ASSERT_EQ(t, mlx4_wqe_rc(&r.wq, 0, &wr, &ctrl), 0);
	EXPECT_EQ(t, ctrl, (uint32_t)WQE_OP_WRITE_IMM);
	/* The first word is still the device's "not yet"; an empty SGE takes no room. */
	EXPECT_MEMEQ(t, r.mem, want, sizeof(want));
}

static void inline_never_crosses_a_line(struct ktest *t)
{
	uint8_t data[100];
	const struct rdma_sge sge[2] = { { (uintptr_t)data, 30, 0 },
					 { (uintptr_t)data + 30, 70, 0 } };
	const struct rdma_send_wr wr = {
		.sge = sge, .nr_sge = 2, .opcode = RDMA_WR_SEND, .flags = RDMA_SEND_INLINE
	};
	struct ring r;
	uint32_t ctrl;

	for (unsigned int n = 0; n < sizeof(data); n++)
		data[n] = (uint8_t)(n + 1);
	ring_init(&r, 8);
	ASSERT_EQ(t, mlx4_wqe_rc(&r.wq, 0, &wr, &ctrl), 0);
	/* 16: header + 44 bytes to the line's end; 64: header + 56 (60 fit, 100 - 44 = 56). */
	EXPECT_EQ(t, mlx4_get32(r.mem, 16), 0x80000000U | 44);
	EXPECT_MEMEQ(t, r.mem + 20, data, 44);
	EXPECT_EQ(t, mlx4_get32(r.mem, 64), 0x80000000U | 56);
	EXPECT_MEMEQ(t, r.mem + 68, data + 44, 56);
	EXPECT_EQ(t, mlx4_get8(r.mem, 7), 128 / 16);
}

static void atomic_bytes(struct ktest *t)
{
	const struct rdma_sge sge = { 0x3000, 8, 5 };
	struct rdma_send_wr wr = {
		.sge = &sge,
		.nr_sge = 1,
		.opcode = RDMA_WR_ATOMIC_CAS,
		.compare_add = 0x11,
		.swap = 0x22,
		.remote_addr = 0x40,
		.rkey = 9,
	};
	struct ring r;
	uint32_t ctrl;

	ring_init(&r, 6);
	ASSERT_EQ(t, mlx4_wqe_rc(&r.wq, 0, &wr, &ctrl), 0);
	EXPECT_EQ(t, ctrl, (uint32_t)WQE_OP_CAS);
	EXPECT_EQ(t, mlx4_get64(r.mem, 32), 0x22ULL);
	EXPECT_EQ(t, mlx4_get64(r.mem, 40), 0x11ULL);
	EXPECT_EQ(t, mlx4_get32(r.mem, 48), 8U);
	EXPECT_EQ(t, mlx4_get8(r.mem, 7), 4);
	wr.opcode = RDMA_WR_ATOMIC_FETCH_ADD;
	ASSERT_EQ(t, mlx4_wqe_rc(&r.wq, 1, &wr, &ctrl), 0);
	EXPECT_EQ(t, mlx4_get64(r.mem, 64 + 32), 0x11ULL);
	wr.remote_addr = 0x41; /* not aligned */
	EXPECT_EQ(t, mlx4_wqe_rc(&r.wq, 1, &wr, &ctrl), -EINVAL);
}

static void bad_requests_are_refused(struct ktest *t)
{
	const struct rdma_sge big = { 0x1000, 0x80000000U, 1 };
	const struct rdma_sge five[5] = {
		{ 0, 1, 1 }, { 0, 1, 1 }, { 0, 1, 1 }, { 0, 1, 1 }, { 0, 1, 1 }
	};
	const struct rdma_send_wr cases[] = {
		{ .sge = &big, .nr_sge = 1, .opcode = RDMA_WR_SEND },
		{ .sge = five, .nr_sge = 5, .opcode = RDMA_WR_SEND },
		{ .sge = five, .nr_sge = 4, .opcode = RDMA_WR_SEND }, /* 16 + 4 * 16 > 64 */
		{ .sge = five, .nr_sge = 1, .opcode = (enum rdma_wr_opcode)99 },
		{ .sge = five, .nr_sge = 1, .opcode = RDMA_WR_READ, .flags = RDMA_SEND_INLINE },
		{ .sge = &big, .nr_sge = 1, .opcode = RDMA_WR_SEND, .flags = RDMA_SEND_INLINE },
	};
	struct ring r;
	uint32_t ctrl;

	ring_init(&r, 6);
	for (size_t n = 0; n < ARRAY_SIZE(cases); n++)
		EXPECT_EQ(t, mlx4_wqe_rc(&r.wq, 0, &cases[n], &ctrl), -EINVAL);
	for (unsigned int n = 64; n < 256; n += 64)
		EXPECT_EQ(t, mlx4_get32(r.mem, n), 0x80000000U); /* neighbours untouched */
}

static void mlx_headers_bytes(struct ktest *t)
{
	const struct rdma_sge sge = { 0x5000, 256, 6 };
	struct rdma_send_wr wr = {
		.sge = &sge,
		.nr_sge = 1,
		.opcode = RDMA_WR_SEND,
		.flags = RDMA_SEND_SIGNALED,
		.dest = { .dlid = 0x0203, .sl = 5 },
		.dest_qpn = 1,
		.dest_qkey = 0x80010000,
	};
	const struct mlx4_mlx_hdr hdr = {
		.src_qpn = 1, .pkey = 0xffff, .psn = 0x123456, .vl = 2, .sgid = { { 0xaa } }
	};
	static const uint8_t headers[28] = {
		0x20, 0x52, 2,    3, 0,    (8 + 12 + 8 + 256 + 4) / 4,
		0,    0,    0x64, 0, 0xff, 0xff,
		0,    0,    0,    1, 0,    0x12,
		0x34, 0x56, 0x80, 1, 0,    0,
		0,    0,    0,    1,
	};
	struct ring r;
	uint32_t ctrl;

	ring_init(&r, 8);
	ASSERT_EQ(t, mlx4_wqe_mlx(&r.wq, 0, &wr, &hdr, &ctrl), 0);
	EXPECT_EQ(t, mlx4_get32(r.mem, 8), 0x0000050cU); /* SL 5, completion wanted */
	EXPECT_EQ(t, mlx4_get16(r.mem, 12), 0x0203);
	EXPECT_EQ(t, mlx4_get32(r.mem, 16), 0x80000000U | 28);
	EXPECT_MEMEQ(t, r.mem + 20, headers, 28);
	EXPECT_EQ(t, mlx4_get32(r.mem, 48), 256U);            /* the MAD */
	EXPECT_EQ(t, mlx4_get32(r.mem, 64), 0x80000000U | 4); /* the ICRC */
	EXPECT_EQ(t, mlx4_get8(r.mem, 7), 80 / 16);

	wr.dest.has_grh = true;
	wr.dest.dgid.raw[15] = 0xbb;
	ASSERT_EQ(t, mlx4_wqe_mlx(&r.wq, 1, &wr, &hdr, &ctrl), 0);
	EXPECT_EQ(t, mlx4_get32(r.mem, 256 + 16), 0x80000000U | 44);
	EXPECT_EQ(t, mlx4_get8(r.mem, 256 + 21), 0x53); /* LNH: global */
	EXPECT_EQ(t, mlx4_get8(r.mem, 256 + 28), 0x60); /* GRH: version 6 */
	EXPECT_EQ(t, mlx4_get8(r.mem, 256 + 36), 0xaa); /* source GID */
	EXPECT_EQ(t, mlx4_get32(r.mem, 256 + 64), 0x80000000U | 24);
	EXPECT_EQ(t, mlx4_get8(r.mem, 256 + 71), 0xbb); /* last byte of the GID */
	EXPECT_EQ(t, mlx4_get8(r.mem, 256 + 72), 0x64); /* BTH */
	EXPECT_EQ(t, mlx4_get32(r.mem, 256 + 96), 256U);
	EXPECT_EQ(t, mlx4_get8(r.mem, 256 + 7), 128 / 16);
}

static void recv_ends_with_a_stop(struct ktest *t)
{
	const struct rdma_sge sge[2] = { { 0x1000, 64, 3 }, { 0x2000, 32, 4 } };
	struct rdma_recv_wr wr = { .sge = sge, .nr_sge = 1 };
	struct ring r;

	memset(&r, 0xee, sizeof(r));
	r.wq = (struct mlx4_wq){ .base = r.mem, .nr = 4, .shift = 5, .max_sge = 2 };
	ASSERT_EQ(t, mlx4_wqe_recv(&r.wq, 5, &wr), 0);
	EXPECT_EQ(t, mlx4_get32(r.mem, 32), 64U);
	EXPECT_EQ(t, mlx4_get32(r.mem, 36), 3U);
	EXPECT_EQ(t, mlx4_get64(r.mem, 40), 0x1000ULL);
	EXPECT_EQ(t, mlx4_get32(r.mem, 48), 0U);
	EXPECT_EQ(t, mlx4_get32(r.mem, 52), 0x100U);
	EXPECT_EQ(t, r.mem[64], 0xee);
	wr.nr_sge = 2;
	ASSERT_EQ(t, mlx4_wqe_recv(&r.wq, 0, &wr), 0);
	EXPECT_EQ(t, mlx4_get32(r.mem, 16), 32U);
	wr.nr_sge = 3;
	EXPECT_EQ(t, mlx4_wqe_recv(&r.wq, 0, &wr), -EINVAL);
}

static void sizes_follow_the_requests(struct ktest *t)
{
	struct rdma_qp_init init = {
		.max_send_wr = 100, .max_recv_wr = 60, .max_send_sge = 2, .max_recv_sge = 1
	};
	struct mlx4_wq_sizes s;

	ASSERT_EQ(t, mlx4_wq_sizes(WQE_KIND_RC, &init, 1008, 512, 14, &s), 0);
	EXPECT_EQ(t, s.sq_shift, 6U); /* 16 + 16 + 2 * 16 */
	EXPECT_EQ(t, s.sq_nr, 256U);  /* 100 + 33 of headroom */
	EXPECT_EQ(t, s.sq_max_post, 256U - 33);
	EXPECT_EQ(t, s.rq_shift, 4U);
	EXPECT_EQ(t, s.rq_nr, 64U);
	EXPECT_EQ(t, s.sq_off, 0U); /* the larger entries first */
	EXPECT_EQ(t, s.rq_off, 256U * 64);

	init.max_recv_sge = 16;
	ASSERT_EQ(t, mlx4_wq_sizes(WQE_KIND_RC, &init, 1008, 512, 14, &s), 0);
	EXPECT_EQ(t, s.rq_off, 0U);
	EXPECT_EQ(t, s.sq_off, 64U * 256);
	init.max_recv_sge = 33;
	EXPECT_EQ(t, mlx4_wq_sizes(WQE_KIND_RC, &init, 1008, 512, 14, &s), -EINVAL);
	init.max_recv_sge = 1;
	init.max_send_wr = 16384;
	EXPECT_EQ(t, mlx4_wq_sizes(WQE_KIND_RC, &init, 1008, 512, 14, &s), -EINVAL);
	init.max_send_wr = 10;
	init.max_inline = 100;
	ASSERT_EQ(t, mlx4_wq_sizes(WQE_KIND_RC, &init, 1008, 512, 14, &s), 0);
	EXPECT_EQ(t, s.sq_shift, 8U); /* 32 + (4 + 28) + (4 + 60) + (4 + 12) = 144 */
}

static void cqe_fields(struct ktest *t)
{
	uint8_t e[CQE_LEN] = { 0 };
	struct mlx4_cqe c;
	struct rdma_wc wc = { 0 };

	mlx4_put32(e, 0x00, 0xff001234);
	mlx4_put32(e, 0x04, 0xcafe0001);
	mlx4_put32(e, 0x08, 0x80000001);
	mlx4_put16(e, 0x0c, 0x3000);
	mlx4_put16(e, 0x0e, 0x0042);
	mlx4_put32(e, 0x14, 4096);
	mlx4_put16(e, 0x18, 77);
	e[0x1f] = 0x80 | CQE_RECV_SEND_IMM;
	mlx4_cqe_decode(e, &c);
	EXPECT_EQ(t, c.qpn, 0x1234U);
	EXPECT_FALSE(t, c.is_send);
	EXPECT_EQ(t, c.wqe_index, 77);
	mlx4_cqe_to_wc(&c, &wc);
	EXPECT_EQ(t, wc.status, RDMA_WC_SUCCESS);
	EXPECT_EQ(t, wc.opcode, RDMA_WC_RECV);
	EXPECT_EQ(t, wc.flags, (uint32_t)(RDMA_WC_WITH_IMM | RDMA_WC_GRH));
	EXPECT_EQ(t, wc.imm, 0xcafe0001U);
	EXPECT_EQ(t, wc.byte_len, 4096U);
	EXPECT_EQ(t, wc.slid, 0x42);
	EXPECT_EQ(t, wc.sl, 3);
	EXPECT_EQ(t, wc.src_qpn, 1U);

	e[0x1a] = 0x88;
	e[0x1b] = 0x13;
	e[0x1f] = CQE_IS_SEND | CQE_OPCODE_ERROR;
	mlx4_cqe_decode(e, &c);
	mlx4_cqe_to_wc(&c, &wc);
	EXPECT_TRUE(t, c.is_send && c.error);
	EXPECT_EQ(t, wc.status, RDMA_WC_REM_ACCESS_ERR);
	EXPECT_EQ(t, wc.vendor_err, 0x88U);
}

/* Of either queue; an unknown one is an error as well, whatever the opcode's bits would say. */
static void every_syndrome_has_its_status(struct ktest *t)
{
	static const struct {
		uint8_t syndrome;
		enum rdma_wc_status status;
	} known[] = {
		{ 0x01, RDMA_WC_LOC_LEN_ERR },    { 0x02, RDMA_WC_LOC_QP_OP_ERR },
		{ 0x04, RDMA_WC_LOC_PROT_ERR },   { 0x05, RDMA_WC_WR_FLUSH_ERR },
		{ 0x06, RDMA_WC_MW_BIND_ERR },    { 0x10, RDMA_WC_BAD_RESP_ERR },
		{ 0x11, RDMA_WC_LOC_ACCESS_ERR }, { 0x12, RDMA_WC_REM_INV_REQ_ERR },
		{ 0x13, RDMA_WC_REM_ACCESS_ERR }, { 0x14, RDMA_WC_REM_OP_ERR },
		{ 0x15, RDMA_WC_RETRY_EXC_ERR },  { 0x16, RDMA_WC_RNR_RETRY_EXC_ERR },
		{ 0x22, RDMA_WC_REM_ABORT_ERR },
	};
	enum rdma_wc_status want[256];

	for (unsigned int n = 0; n < ARRAY_SIZE(want); n++)
		want[n] = RDMA_WC_GENERAL_ERR;
	for (unsigned int n = 0; n < ARRAY_SIZE(known); n++)
		want[known[n].syndrome] = known[n].status;
	for (unsigned int n = 0; n < 2 * ARRAY_SIZE(want); n++) {
		uint8_t e[CQE_LEN] = { 0 };
		struct rdma_wc wc = { 0 };
		struct mlx4_cqe c;

		e[0x1b] = (uint8_t)n;
		e[0x1f] = (n & 256 ? CQE_IS_SEND : 0) | CQE_OPCODE_ERROR;
		mlx4_cqe_decode(e, &c);
		mlx4_cqe_to_wc(&c, &wc);
		EXPECT_EQ(t, c.is_send, !!(n & 256));
		EXPECT_EQ(t, wc.status, want[n & 255]);
		EXPECT_NE(t, strcmp(rdma_wc_status_name(wc.status), "unknown status"), 0);
	}
}

static const struct ktest_case wqe_cases[] = {
	KTEST(ring_starts_invalid),
	KTEST(flame_names_queue_and_entry),
	KTEST(owner_bit_turns_each_lap),
	KTEST(write_imm_bytes),
	KTEST(inline_never_crosses_a_line),
	KTEST(atomic_bytes),
	KTEST(bad_requests_are_refused),
	KTEST(mlx_headers_bytes),
	KTEST(recv_ends_with_a_stop),
	KTEST(sizes_follow_the_requests),
	KTEST(cqe_fields),
	KTEST(every_syndrome_has_its_status),
	{ 0 },
};
static const struct ktest_suite wqe_suite = { .name = "rdma.mlx4.wqe", .cases = wqe_cases };
KTEST_SUITE(wqe_suite);
