/* SPDX-License-Identifier: MIT */
/* Connection management and SA messages: exact bytes, round trips, rejections. */
#include <lib/byteorder.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

#include "cm_msg.h"
#include "sa_msg.h"

static void req_make(struct cm_msg *m)
{
	*m = (struct cm_msg){
		.attr = CM_REQ,
		.tid = 0x0102030405060708ULL,
		.local_id = 0x11223344,
		.req = {
			.service_id = 0xa1a2a3a4a5a6a7a8ULL,
			.ca_guid = 0xb1b2b3b4b5b6b7b8ULL,
			.qpn = 0x00abcdef,
			.psn = 0x00123456,
			.responder_resources = 4,
			.initiator_depth = 5,
			.remote_cm_timeout = 20,
			.local_cm_timeout = 21,
			.retry_cnt = 7,
			.rnr_retry = 6,
			.max_cm_retries = 15,
			.path_mtu = 5,
			.ack_timeout = 14,
			.sl = 3,
			.pkey = 0xffff,
			.local_lid = 2,
			.remote_lid = 1,
			.local_gid = { { 0xfe, 0x80, [15] = 2 } },
			.remote_gid = { { 0xfe, 0x80, [15] = 1 } },
		},
		.private_len = 3,
		.private_data = { 7, 8, 9 },
	};
}

static void req_bytes(struct ktest *t)
{
	uint8_t mad[MAD_LEN];
	struct cm_msg m;

	req_make(&m);
	cm_msg_encode(&m, mad);
	EXPECT_EQ(t, mad[0], 1);
	EXPECT_EQ(t, mad[1], 7);
	EXPECT_EQ(t, mad[2], 2);
	EXPECT_EQ(t, mad[3], 3);
	EXPECT_EQ(t, get_unaligned_be64(mad + 8), 0x0102030405060708ULL);
	EXPECT_EQ(t, get_unaligned_be16(mad + 16), 0x0010);
	EXPECT_EQ(t, get_unaligned_be32(mad + 24), 0x11223344U);
	EXPECT_EQ(t, get_unaligned_be64(mad + 32), 0xa1a2a3a4a5a6a7a8ULL);
	EXPECT_EQ(t, get_unaligned_be32(mad + 24 + 32), 0xabcdef04U);
	EXPECT_EQ(t, get_unaligned_be32(mad + 24 + 36), 5U);
	EXPECT_EQ(t, mad[24 + 43], 20 << 3);
	EXPECT_EQ(t, get_unaligned_be32(mad + 24 + 44), 0x12345600U | 21 << 3 | 7);
	EXPECT_EQ(t, get_unaligned_be16(mad + 24 + 48), 0xffff);
	EXPECT_EQ(t, mad[24 + 50], 0x56);
	EXPECT_EQ(t, mad[24 + 51], 0xf0);
	EXPECT_EQ(t, get_unaligned_be16(mad + 24 + 52), 2);
	EXPECT_EQ(t, mad[24 + 56], 0xfe);
	EXPECT_EQ(t, mad[24 + 87], 1);
	EXPECT_EQ(t, mad[24 + 94], 0x38);
	EXPECT_EQ(t, mad[24 + 95], 14 << 3);
	EXPECT_EQ(t, mad[24 + 140], 7);
}

static void every_message_comes_back(struct ktest *t)
{
	static const uint16_t attrs[] = {
		CM_REQ, CM_MRA, CM_REJ, CM_REP, CM_RTU, CM_DREQ, CM_DREP
	};
	uint8_t mad[MAD_LEN], again[MAD_LEN];

	for (size_t n = 0; n < ARRAY_SIZE(attrs); n++) {
		struct cm_msg m, out;

		req_make(&m);
		m.attr = attrs[n];
		if (m.attr != CM_REQ) {
			memset(&m.req, 0, sizeof(m.req));
			m.remote_id = 0x55667788;
		}
		if (m.attr == CM_REP)
			m.rep = (struct cm_rep){ .ca_guid = 9,
						 .qpn = 0x48,
						 .psn = 0xffffff,
						 .responder_resources = 1,
						 .initiator_depth = 2,
						 .ack_delay = 15,
						 .rnr_retry = 7 };
		if (m.attr == CM_REJ) {
			m.rej.msg = 1;
			m.rej.reason = CM_REJ_CONSUMER;
		}
		if (m.attr == CM_MRA) {
			m.mra.msg = 1;
			m.mra.timeout = 19;
		}
		if (m.attr == CM_DREQ)
			m.dreq_qpn = 0x48;
		memset(m.private_data, 0x5a, sizeof(m.private_data));
		m.private_len = (uint8_t)cm_private_len(m.attr);
		memset(m.private_data + m.private_len, 0, sizeof(m.private_data) - m.private_len);
		cm_msg_encode(&m, mad);
		ASSERT_EQ(t, cm_msg_decode(mad, &out), 0);
		cm_msg_encode(&out, again);
		EXPECT_MEMEQ(t, again, mad, MAD_LEN);
		EXPECT_EQ(t, out.local_id, m.local_id);
		EXPECT_EQ(t, out.remote_id, m.remote_id);
		EXPECT_EQ(t, out.private_len, m.private_len);
	}
	EXPECT_EQ(t, cm_private_len(CM_REQ), 92U);
	EXPECT_EQ(t, cm_private_len(CM_REP), 196U);
	EXPECT_EQ(t, cm_private_len(0x99), 0U);
}

static void bad_messages_are_refused(struct ktest *t)
{
	static const struct {
		uint16_t attr; /* of the good message */
		uint8_t off, val;
		int want;
	} cases[] = {
		{ CM_REQ, 0, 2, -EPROTO },         /* base version */
		{ CM_REQ, 1, 3, -EPROTO },         /* class */
		{ CM_REQ, 2, 1, -EOPNOTSUPP },     /* class version */
		{ CM_REQ, 3, 0x81, -EOPNOTSUPP },  /* method */
		{ CM_REQ, 17, 0x0f, -EOPNOTSUPP }, /* attribute */
		{ CM_REQ, 17, 0x17, -EOPNOTSUPP }, /* SIDR */
		{ CM_REJ, 24 + 8, 0xc0, -EPROTO }, /* rejects nothing known */
		{ CM_MRA, 24 + 8, 0x80, -EPROTO }, /* LAP */
	};
	uint8_t mad[MAD_LEN];
	struct cm_msg m, out;

	for (size_t n = 0; n < ARRAY_SIZE(cases); n++) {
		req_make(&m);
		m.attr = cases[n].attr;
		if (m.attr != CM_REQ)
			memset(&m.req, 0, sizeof(m.req));
		cm_msg_encode(&m, mad);
		mad[cases[n].off] = cases[n].val;
		EXPECT_EQ(t, cm_msg_decode(mad, &out), cases[n].want);
	}
	req_make(&m);
	m.req.qpn = 1; /* QP1 is never connected */
	cm_msg_encode(&m, mad);
	EXPECT_EQ(t, cm_msg_decode(mad, &out), -EPROTO);
	req_make(&m);
	m.local_id = 0;
	cm_msg_encode(&m, mad);
	EXPECT_EQ(t, cm_msg_decode(mad, &out), -EPROTO);
}

static void path_record(struct ktest *t)
{
	const struct rdma_gid me = { { 0xfe, 0x80, [15] = 1 } };
	const struct rdma_gid it = { { 0xfe, 0x80, [15] = 2 } };
	uint8_t mad[MAD_LEN];
	struct rdma_addr addr;

	sa_path_encode(77, &me, &it, mad);
	EXPECT_EQ(t, mad[1], 3);
	EXPECT_EQ(t, mad[3], 1);
	EXPECT_EQ(t, get_unaligned_be16(mad + 16), 0x0035);
	EXPECT_EQ(t, get_unaligned_be64(mad + 48), 0x100cULL);
	EXPECT_MEMEQ(t, mad + 64, it.raw, 16);
	EXPECT_MEMEQ(t, mad + 80, me.raw, 16);

	/* The query is no answer; made into one it is, and each fault has its errno. */
	EXPECT_EQ(t, sa_path_decode(mad, 77, &it, &addr), -ENOMSG);
	mad[3] = 0x81;
	put_unaligned_be16(0x0102, mad + 96);
	mad[56 + 53] = 0x05;
	ASSERT_EQ(t, sa_path_decode(mad, 77, &it, &addr), 0);
	EXPECT_EQ(t, addr.dlid, 0x0102);
	EXPECT_EQ(t, addr.sl, 5);
	EXPECT_FALSE(t, addr.has_grh);
	EXPECT_EQ(t, sa_path_decode(mad, 78, &it, &addr), -ENOMSG);
	EXPECT_EQ(t, sa_path_decode(mad, 77, &me, &addr), -EPROTO);
	put_unaligned_be16(0xc001, mad + 96); /* a multicast LID */
	EXPECT_EQ(t, sa_path_decode(mad, 77, &it, &addr), -EPROTO);
	mad[5] = 3;
	EXPECT_EQ(t, sa_path_decode(mad, 77, &it, &addr), -ENOENT);
}

static const struct ktest_case cm_msg_cases[] = {
	KTEST(req_bytes),
	KTEST(every_message_comes_back),
	KTEST(bad_messages_are_refused),
	KTEST(path_record),
	{ 0 },
};
static const struct ktest_suite cm_msg_suite = { .name = "rdma.cm_msg", .cases = cm_msg_cases };
KTEST_SUITE(cm_msg_suite);
