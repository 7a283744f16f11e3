/* SPDX-License-Identifier: MIT */
/* RPC wire format: round trips, octet positions and tables of rejections. */
#include <lib/errno.h>
#include <lib/ktest.h>
#include <net/rpc.h>
#include <net/rpc_wire.h>

static const struct rpc_hdr good_hdr = {
	.cls = RPC_CLASS_DEMAND,
	.opcode = 0x1234,
	.body_len = 16,
	.bulk_len = 4096,
	.src_node = 7,
	.req_id = 0x1122334455667788ull,
	.incarn = 0xa1a2a3a4,
	.dst_incarn = 0xb1b2b3b4,
	.epoch = 9,
	.status = 0,
	.timeout_ms = 30000,
};

static void hdr_round_trip(struct ktest *t)
{
	struct rpc_hdr_wire w;
	struct rpc_hdr out;

	rpc_hdr_encode(&good_hdr, &w);
	ASSERT_EQ(t, rpc_hdr_decode(&w, 48 + 16 + 4096, false, &out), 0);
	EXPECT_EQ(t, out.cls, good_hdr.cls);
	EXPECT_EQ(t, out.opcode, good_hdr.opcode);
	EXPECT_EQ(t, out.body_len, good_hdr.body_len);
	EXPECT_EQ(t, out.bulk_len, good_hdr.bulk_len);
	EXPECT_EQ(t, out.src_node, good_hdr.src_node);
	EXPECT_EQ(t, out.req_id, good_hdr.req_id);
	EXPECT_EQ(t, out.incarn, good_hdr.incarn);
	EXPECT_EQ(t, out.dst_incarn, good_hdr.dst_incarn);
	EXPECT_EQ(t, out.epoch, good_hdr.epoch);
	EXPECT_EQ(t, out.status, good_hdr.status);
	EXPECT_EQ(t, out.timeout_ms, good_hdr.timeout_ms);
}

static void hdr_octets(struct ktest *t)
{
	static const uint8_t want[48] = {
		1,    1,    0x34, 0x12, 16,   0,    0,    0,    0,    0x10, 0,
		0,    7,    0,    0,    0,    0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
		0x22, 0x11, 0xa4, 0xa3, 0xa2, 0xa1, 0xb4, 0xb3, 0xb2, 0xb1, 9,
		0,    0,    0,    0,    0,    0,    0,    0x30, 0x75, 0,    0,
	};
	struct rpc_hdr_wire w;

	rpc_hdr_encode(&good_hdr, &w);
	EXPECT_MEMEQ(t, &w, want, sizeof(want));
}

static void hdr_rejects(struct ktest *t)
{
	static const struct {
		uint32_t off;
		uint8_t val;
		uint32_t len;
		bool reply;
		int want;
	} cases[] = {
		{ 0, 1, 4160, false, 0 },           { 0, 2, 4160, false, -EPROTO }, /* version */
		{ 1, 4, 4160, false, -EPROTO },                                     /* class */
		{ 4, 17, 4160, false, -EPROTO }, /* lengths do not add up */
		{ 7, 0xff, 4160, false, -EPROTO },  { 11, 0xff, 4160, false, -EPROTO },
		{ 0, 1, 47, false, -EPROTO },       { 0, 1, 4159, false, -EPROTO },
		{ 36, 1, 4160, false, -EPROTO },    /* status in a request */
		{ 36, 0xff, 4160, false, -EPROTO }, /* positive, too */
		{ 0, 1, 4160, true, -EPROTO },      /* bulk in a reply */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rpc_hdr_wire w;
		struct rpc_hdr out;

		rpc_hdr_encode(&good_hdr, &w);
		((uint8_t *)&w)[cases[i].off] = cases[i].val;
		EXPECT_EQ(t, rpc_hdr_decode(&w, cases[i].len, cases[i].reply, &out), cases[i].want);
	}
}

static void hdr_status(struct ktest *t)
{
	static const struct {
		int32_t status;
		uint64_t req_id;
		int want;
	} cases[] = {
		{ 0, 1, 0 },           { -ENOMEM, 1, 0 }, { -4095, 1, 0 },
		{ -4096, 1, -EPROTO }, { 1, 1, -EPROTO }, { 0, 0, -EPROTO },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rpc_hdr h = good_hdr, out = { 0 };
		struct rpc_hdr_wire w;

		h.bulk_len = 0;
		h.status = cases[i].status;
		h.req_id = cases[i].req_id;
		rpc_hdr_encode(&h, &w);
		EXPECT_EQ(t, rpc_hdr_decode(&w, 64, true, &out), cases[i].want);
		if (!cases[i].want)
			EXPECT_EQ(t, out.status, cases[i].status);
	}
}

static void imm_codec(struct ktest *t)
{
	static const struct {
		uint32_t raw;
		int want;
		bool reply;
		uint32_t slot, len;
	} cases[] = {
		{ 48, 0, false, 0, 48 },
		{ 0x80000000u | 3 << 20 | 100, 0, true, 3, 100 },
		{ 7u << 20 | 8192, 0, false, 7, 8192 },
		{ 8u << 20 | 48, -EPROTO, false, 0, 0 },     /* slot */
		{ 0x7ffu << 20 | 48, -EPROTO, false, 0, 0 }, /* slot */
		{ 47, -EPROTO, false, 0, 0 },                /* shorter than a header */
		{ 8193, -EPROTO, false, 0, 0 },              /* longer than the slot */
		{ 0x80000000u | 2097, -EPROTO, true, 0, 0 }, /* longer than a reply slot */
		{ 0xffffffffu, -EPROTO, true, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rpc_imm imm = { 0 };

		EXPECT_EQ(t, rpc_imm_decode(cases[i].raw, 8, 8192, 2096, &imm), cases[i].want);
		if (cases[i].want)
			continue;
		EXPECT_EQ(t, imm.reply, cases[i].reply);
		EXPECT_EQ(t, imm.slot, cases[i].slot);
		EXPECT_EQ(t, imm.len, cases[i].len);
		EXPECT_EQ(t, rpc_imm_encode(&imm), cases[i].raw);
	}
}

static const struct rpc_conn_info good_conn = {
	.cls = RPC_CLASS_WRITEBACK,
	.role = NODE_ROLE_MEMORY,
	.node = 3,
	.incarn = 77,
	.ring_addr = 0x123456000,
	.ring_rkey = 0xfeedbeef,
	.nr_slots = 16,
	.req_slot_size = 8192,
	.rep_slot_size = 2112,
	.epoch = 5,
	.dgram_qpn = 0x41,
	.dgram_qkey = 0x1a2b3c4d,
	.dgram_mtu = RDMA_MTU_2048,
};

static void conn_round_trip(struct ktest *t)
{
	uint8_t buf[92] __aligned(8) = { 0 };
	struct rpc_conn_info out;

	rpc_conn_encode(&good_conn, (void *)buf);
	ASSERT_EQ(t, rpc_conn_decode(buf, sizeof(buf), &out), 0);
	EXPECT_EQ(t, out.cls, good_conn.cls);
	EXPECT_EQ(t, out.role, good_conn.role);
	EXPECT_EQ(t, out.node, good_conn.node);
	EXPECT_EQ(t, out.incarn, good_conn.incarn);
	EXPECT_EQ(t, out.ring_addr, good_conn.ring_addr);
	EXPECT_EQ(t, out.ring_rkey, good_conn.ring_rkey);
	EXPECT_EQ(t, out.nr_slots, good_conn.nr_slots);
	EXPECT_EQ(t, out.req_slot_size, good_conn.req_slot_size);
	EXPECT_EQ(t, out.rep_slot_size, good_conn.rep_slot_size);
	EXPECT_EQ(t, out.epoch, good_conn.epoch);
	EXPECT_EQ(t, out.dgram_qpn, good_conn.dgram_qpn);
	EXPECT_EQ(t, out.dgram_qkey, good_conn.dgram_qkey);
	EXPECT_EQ(t, out.dgram_mtu, good_conn.dgram_mtu);
	EXPECT_EQ(t, rpc_conn_decode(buf, 87, &out), -EMSGSIZE);
}

static void conn_rejects(struct ktest *t)
{
	static const struct {
		uint32_t off;
		uint8_t val;
		int want;
	} cases[] = {
		{ 0, 0, -EPROTO },                                          /* magic */
		{ 4, 9, -EPROTONOSUPPORT }, { 5, RPC_NR_CLASSES, -EPROTO }, /* version, class */
		{ 4, 1, -EPROTONOSUPPORT },                                 /* without datagrams */
		{ 4, 2, -EPROTONOSUPPORT },                                 /* without a proof */
		{ 6, 0, -EPROTO },          { 6, 4, -EPROTO },              /* role */
		{ 7, 0x80, -EPROTO },                                       /* flags */
		{ 8, 0, -EPROTO },          { 10, 1, -EPROTO },             /* node 0, node 65539 */
		{ 12, 0, -EPROTO },                                         /* incarnation 0 */
		{ 28, 0, -EPROTO },         { 29, 0x10, -EPROTO },          /* slots 0, 4112 */
		{ 35, 1, -EPROTO },         { 39, 1, -EPROTO },             /* slot sizes */
		{ 44, 1, -EPROTO },         { 47, 1, -EPROTO }, /* datagrams: QP1, 25 bits */
		{ 51, 0x80, -EPROTO },                          /* a privileged key */
		{ 52, 0, -EPROTO },         { 52, 6, -EPROTO }, /* length */
	};
	static const uint8_t all_ones[8] = { 255, 255, 255, 255, 255, 255, 255, 255 };
	struct rpc_conn_wire w;
	struct rpc_conn_info out;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		rpc_conn_encode(&good_conn, &w);
		((uint8_t *)&w)[cases[i].off] = cases[i].val;
		EXPECT_EQ(t, rpc_conn_decode(&w, sizeof(w), &out), cases[i].want);
	}
	rpc_conn_encode(&good_conn, &w);
	memcpy(&w.ring_addr, all_ones, sizeof(all_ones)); /* the ring would wrap around */
	EXPECT_EQ(t, rpc_conn_decode(&w, sizeof(w), &out), -EPROTO);
}

static const struct rpc_dgram_hdr good_dgram = {
	.kind = RPC_DGRAM_REQUEST,
	.opcode = 0x0f00,
	.body_len = 3,
	.attempt = 2,
	.src_node = 7,
	.req_id = 0x1122334455667788ull,
	.incarn = 0xa1a2a3a4,
	.dst_incarn = 0xb1b2b3b4,
	.epoch = 9,
	.timeout_ms = 30000,
};

static void dgram_round_trip(struct ktest *t)
{
	static const uint8_t want[64] = {
		'T',  'S',  'R',  'D',  2,    1,    0,    0x0f, 7,    0,    0,    0,
		3,    0,    2,    0,    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
		0xa4, 0xa3, 0xa2, 0xa1, 0xb4, 0xb3, 0xb2, 0xb1, 9,    0,    0,    0,
		0,    0,    0,    0,    0x30, 0x75, 0,    0,    0,    0,    0,    0,
	};
	struct rpc_dgram_hdr out;
	uint8_t buf[67] __aligned(8) = { 0 };

	rpc_dgram_encode(&good_dgram, (void *)buf);
	EXPECT_MEMEQ(t, buf, want, sizeof(want));
	ASSERT_EQ(t, rpc_dgram_decode(buf, sizeof(buf), &out), 0);
	EXPECT_EQ(t, out.kind, good_dgram.kind);
	EXPECT_EQ(t, out.opcode, good_dgram.opcode);
	EXPECT_EQ(t, out.body_len, good_dgram.body_len);
	EXPECT_EQ(t, out.attempt, good_dgram.attempt);
	EXPECT_EQ(t, out.src_node, good_dgram.src_node);
	EXPECT_EQ(t, out.req_id, good_dgram.req_id);
	EXPECT_EQ(t, out.incarn, good_dgram.incarn);
	EXPECT_EQ(t, out.dst_incarn, good_dgram.dst_incarn);
	EXPECT_EQ(t, out.epoch, good_dgram.epoch);
	EXPECT_EQ(t, out.status, 0);
	EXPECT_EQ(t, out.timeout_ms, good_dgram.timeout_ms);
}

static void dgram_rejects(struct ktest *t)
{
	static const struct {
		uint32_t off;
		uint8_t val;
		size_t len;
		int want;
	} cases[] = {
		{ 5, 2, 67, 0 },         { 5, 1, 0, -EMSGSIZE },  { 5, 1, 63, -EMSGSIZE },
		{ 5, 1, 66, -EMSGSIZE }, { 5, 1, 68, -EMSGSIZE }, { 13, 1, 67, -EMSGSIZE },
		{ 0, 0, 67, -EPROTO },   { 4, 1, 67, -EPROTO }, /* magic, version */
		{ 5, 0, 67, -EPROTO },   { 5, 3, 67, -EPROTO }, /* kind */
		{ 36, 1, 67, -EPROTO },                         /* status in a request */
	};
	struct rpc_dgram_hdr out, h = good_dgram;
	uint8_t buf[80] __aligned(8) = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		rpc_dgram_encode(&good_dgram, (void *)buf);
		buf[cases[i].off] = cases[i].val;
		EXPECT_EQ(t, rpc_dgram_decode(buf, cases[i].len, &out), cases[i].want);
	}
	h.kind = RPC_DGRAM_REPLY;
	for (int32_t status = -4097; status <= 1; status++) {
		h.status = status;
		rpc_dgram_encode(&h, (void *)buf);
		EXPECT_EQ(t, rpc_dgram_decode(buf, 67, &out),
			  status < -4095 || status > 0 ? -EPROTO : 0);
	}
	h.status = 0;
	h.req_id = 0;
	rpc_dgram_encode(&h, (void *)buf);
	EXPECT_EQ(t, rpc_dgram_decode(buf, 67, &out), -EPROTO);
}

static void rej_codec(struct ktest *t)
{
	const struct rpc_rej rej = { .code = RPC_REJ_STALE, .node = 4, .incarn = 99 };
	struct rpc_rej_wire w;
	struct rpc_rej out;

	rpc_rej_encode(&rej, &w);
	ASSERT_EQ(t, rpc_rej_decode(&w, sizeof(w), &out), 0);
	EXPECT_EQ(t, out.code, rej.code);
	EXPECT_EQ(t, out.node, rej.node);
	EXPECT_EQ(t, out.incarn, rej.incarn);
	EXPECT_EQ(t, rpc_rej_decode(&w, 31, &out), -EMSGSIZE);
	w.code = 0;
	EXPECT_EQ(t, rpc_rej_decode(&w, sizeof(w), &out), -EPROTO);
	w.code = 10;
	EXPECT_EQ(t, rpc_rej_decode(&w, sizeof(w), &out), -EPROTO);
	rpc_rej_encode(&rej, &w);
	w.version = 2;
	EXPECT_EQ(t, rpc_rej_decode(&w, sizeof(w), &out), -EPROTONOSUPPORT);
	memset(&w, 0, sizeof(w));
	EXPECT_EQ(t, rpc_rej_decode(&w, sizeof(w), &out), -EPROTO);
}

static const struct ktest_case cases[] = {
	KTEST(hdr_round_trip),
	KTEST(hdr_octets),
	KTEST(hdr_rejects),
	KTEST(hdr_status),
	KTEST(imm_codec),
	KTEST(conn_round_trip),
	KTEST(conn_rejects),
	KTEST(rej_codec),
	KTEST(dgram_round_trip),
	KTEST(dgram_rejects),
	{ 0 },
};
static const struct ktest_suite rpc_wire_suite = { .name = "rpc.wire", .cases = cases };
KTEST_SUITE(rpc_wire_suite);
