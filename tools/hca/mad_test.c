/* SPDX-License-Identifier: MIT */
/* HCA model: agents, subnet administration and the parsers of work requests. */
#include <lib/ktest.h>

#include "fixture.h"

static void mad_init(uint8_t *m, uint8_t cls, uint8_t method, uint16_t attr, uint32_t mod)
{
	memset(m, 0, MAD_SIZE);
	m[0] = 1;
	m[1] = cls;
	m[2] = cls == CLASS_SA ? 2 : 1;
	m[MAD_METHOD] = method;
	put_be64(m + 8, 0x1122334455667788ull);
	put_be16(m + MAD_ATTR, attr);
	put_be32(m + MAD_MOD, mod);
}

static void agents_answer(struct ktest *t)
{
	static const struct {
		uint8_t cls, method;
		uint16_t attr;
		bool answered;
		uint16_t status;
	} cases[] = {
		{ CLASS_SMP_LID, METHOD_GET, ATTR_NODE_INFO, true, 0 },
		{ CLASS_SMP_LID, METHOD_GET, ATTR_PORT_INFO, true, 0 },
		{ CLASS_SMP_LID, METHOD_SET, ATTR_PORT_INFO, true, 0 },
		{ CLASS_SMP_ROUTED, METHOD_GET, ATTR_PORT_INFO, true, SMP_DIRECTION },
		{ CLASS_SMP_LID, METHOD_GET, 0x7777, true, MAD_ST_BAD_ATTR },
		{ CLASS_SMP_LID, METHOD_SET, 0x7777, true, MAD_ST_BAD_ATTR },
		{ CLASS_SMP_LID, 0x55, ATTR_PORT_INFO, true, MAD_ST_BAD_METHOD },
		{ CLASS_SMP_LID, METHOD_GET | METHOD_RESPONSE, ATTR_PORT_INFO, false, 0 },
		{ CLASS_PMA, METHOD_GET, ATTR_PORT_COUNTERS, true, 0 },
		{ CLASS_PMA, METHOD_GET, 0x7777, true, MAD_ST_BAD_ATTR },
		{ 0x42, METHOD_GET, ATTR_PORT_INFO, false, 0 },
	};
	struct fix_guest *g;
	struct fixture r;

	fix_create(&r);
	g = &r.g[0];
	fix_init_hca(g);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		enum hca_status st;

		mad_init(fix_in(g), cases[i].cls, cases[i].method, cases[i].attr, 0);
		st = fix_cmd(g, OP_MAD_IFC, 3, 1);
		EXPECT_EQ(t, st, cases[i].answered ? ST_OK : ST_BAD_PKT);
		if (!cases[i].answered)
			continue;
		EXPECT_EQ(t, get_be16(fix_out(g) + MAD_STATUS), cases[i].status);
		EXPECT_TRUE(t, fix_out(g)[MAD_METHOD] & METHOD_RESPONSE);
		EXPECT_EQ(t, get_be64(fix_out(g) + 8), 0x1122334455667788ull);
	}
	mad_init(fix_in(g), CLASS_SMP_LID, METHOD_GET, ATTR_PORT_INFO, 1);
	EXPECT_EQ(t, fix_cmd(g, OP_MAD_IFC, 3, 1), ST_OK);
	EXPECT_EQ(t, get_be16(fix_out(g) + SMP_DATA + 16), 1);
	EXPECT_EQ(t, get_be16(fix_out(g) + SMP_DATA + 18), SM_LID);
	EXPECT_EQ(t, fix_out(g)[SMP_DATA + 32] & 0xf, PORT_ACTIVE);
	fix_destroy(&r);
}

static void directed_routes(struct ktest *t)
{
	static const struct {
		uint8_t hops, p1, p2;
		bool answered;
		uint8_t type; /* of the node that answers */
	} cases[] = {
		{ 0, 0, 0, true, 1 },    { 1, 1, 0, true, 2 },  { 2, 1, 2, true, 1 },
		{ 2, 1, 0, true, 2 },    { 1, 2, 0, false, 0 }, { 2, 1, 3, false, 0 },
		{ 2, 1, 255, false, 0 }, { 3, 1, 2, false, 0 }, { 255, 1, 2, false, 0 },
	};
	uint8_t in[MAD_SIZE], out[MAD_SIZE];
	struct fixture r;

	fix_create(&r);
	fix_init_hca(&r.g[0]);
	fix_init_hca(&r.g[1]);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		mad_init(in, CLASS_SMP_ROUTED, METHOD_GET, ATTR_NODE_INFO, 0);
		in[SMP_HOP_CNT] = cases[i].hops;
		in[SMP_PATH + 1] = cases[i].p1;
		in[SMP_PATH + 2] = cases[i].p2;
		EXPECT_EQ(t, smp_route(r.g[0].h, in, out), cases[i].answered);
		if (cases[i].answered)
			EXPECT_EQ(t, out[SMP_DATA + 2], cases[i].type);
	}
	fix_destroy(&r);
}

static void path_records(struct ktest *t)
{
	uint8_t in[MAD_SIZE], out[MAD_SIZE];
	struct fixture r;

	fix_create(&r);
	fix_init_hca(&r.g[0]);
	fix_init_hca(&r.g[1]);
	mad_init(in, CLASS_SA, METHOD_GET, ATTR_PATH_RECORD, 0);
	put_be64(in + SA_COMP_MASK, BIT(2)); /* by DGID */
	port_gid(r.g[1].h, 0, in + SA_DATA + 8);
	ASSERT_TRUE(t, sa_process(r.f, r.g[0].h, in, out));
	EXPECT_EQ(t, out[MAD_METHOD], 0x81);
	EXPECT_EQ(t, get_be16(out + MAD_STATUS), 0);
	EXPECT_EQ(t, get_be16(out + SA_DATA + 40), 2);
	EXPECT_EQ(t, get_be16(out + SA_DATA + 42), 1);
	EXPECT_EQ(t, get_be16(out + SA_DATA + 50), PKEY_DEFAULT);
	put_be64(in + SA_COMP_MASK, BIT(4)); /* by DLID that nobody has */
	put_be16(in + SA_DATA + 40, 99);
	ASSERT_TRUE(t, sa_process(r.f, r.g[0].h, in, out));
	EXPECT_EQ(t, get_be16(out + MAD_STATUS), 0x0300);
	put_be64(in + SA_COMP_MASK, 0);
	ASSERT_TRUE(t, sa_process(r.f, r.g[0].h, in, out));
	EXPECT_EQ(t, get_be16(out + MAD_STATUS), 0x0400);
	in[MAD_METHOD] = METHOD_GET_TABLE;
	ASSERT_TRUE(t, sa_process(r.f, r.g[0].h, in, out));
	EXPECT_EQ(t, get_be16(out + MAD_STATUS), 0);
	EXPECT_EQ(t, get_be32(out + SA_RMPP + 8), 20u + 2 * 64); /* both ports */
	in[MAD_METHOD] = METHOD_GET | METHOD_RESPONSE;
	EXPECT_FALSE(t, sa_process(r.f, r.g[0].h, in, out));
	fix_destroy(&r);
}

/* A table is one segment of RMPP, or a status; nobody is asked to send another. */
static void tables_are_one_segment(struct ktest *t)
{
	static const struct {
		unsigned ports; /* active */
		uint16_t attr, status;
		unsigned records;
	} cases[] = {
		{ 1, ATTR_PATH_RECORD, 0, 1 },
		{ 2, ATTR_PATH_RECORD, 0, 2 },
		{ 3, ATTR_PATH_RECORD, 0, 3 },
		{ 4, ATTR_PATH_RECORD, 0x0400, 0 }, /* 256 bytes do not fit into 200 */
		{ 2, ATTR_MC_MEMBER, 0x0300, 0 },
		{ 2, ATTR_NODE_INFO, MAD_ST_BAD_ATTR, 0 },
	};
	uint8_t in[MAD_SIZE], out[MAD_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture r;

		fix_create(&r);
		fix_init_hca(&r.g[0]);
		if (cases[i].ports > 1)
			fix_init_hca(&r.g[1]);
		for (unsigned n = 3; n <= cases[i].ports; n++)
			hca_create(r.f, "more", (uint16_t)n, n)->port.state = PORT_ACTIVE;
		mad_init(in, CLASS_SA, METHOD_GET_TABLE, cases[i].attr, 0);
		ASSERT_TRUE(t, sa_process(r.f, r.g[0].h, in, out));
		EXPECT_EQ(t, out[MAD_METHOD], METHOD_GET_TABLE | METHOD_RESPONSE);
		EXPECT_EQ(t, get_be16(out + MAD_STATUS), cases[i].status);
		EXPECT_EQ(t, out[SA_RMPP], 1);     /* version */
		EXPECT_EQ(t, out[SA_RMPP + 1], 1); /* data */
		EXPECT_EQ(t, out[SA_RMPP + 2], 7); /* active, first, last */
		EXPECT_EQ(t, out[SA_RMPP + 3], 0); /* status */
		EXPECT_EQ(t, get_be32(out + SA_RMPP + 4), 1u);
		/* of the first segment: all that follows the header of RMPP */
		EXPECT_EQ(t, get_be32(out + SA_RMPP + 8), 20u + cases[i].records * 64);
		for (unsigned n = 0; n < cases[i].records; n++)
			EXPECT_EQ(t, get_be16(out + SA_DATA + n * 64 + 40), n + 1); /* DLID */
		fix_destroy(&r);
	}
}

/* An acknowledgement has the method of the query; to answer it would not end. */
static void acknowledgements_are_not_answered(struct ktest *t)
{
	uint8_t in[MAD_SIZE], out[MAD_SIZE];
	struct fixture r;

	fix_create(&r);
	fix_init_hca(&r.g[0]);
	mad_init(in, CLASS_SA, METHOD_GET_TABLE, ATTR_PATH_RECORD, 0);
	in[SA_RMPP] = 1;
	EXPECT_TRUE(t, sa_process(r.f, r.g[0].h, in, out)); /* RMPP is not active */
	for (unsigned type = 0; type < 8; type++) {
		in[SA_RMPP + 1] = (uint8_t)type;
		in[SA_RMPP + 2] = 1;
		EXPECT_EQ(t, sa_process(r.f, r.g[0].h, in, out), type == 1);
	}
	fix_destroy(&r);
}

static void multicast_membership(struct ktest *t)
{
	uint8_t in[MAD_SIZE], out[MAD_SIZE];
	struct fixture r;

	fix_create(&r);
	fix_init_hca(&r.g[0]);
	fix_init_hca(&r.g[1]);
	mad_init(in, CLASS_SA, METHOD_SET, ATTR_MC_MEMBER, 0);
	put_be64(in + SA_COMP_MASK, BIT(0) | BIT(1) | BIT(16));
	in[SA_DATA] = 0xff;
	in[SA_DATA + 48] = 1; /* full member */
	port_gid(r.g[1].h, 0, in + SA_DATA + 16);
	ASSERT_TRUE(t, sa_process(r.f, r.g[0].h, in, out));
	EXPECT_EQ(t, get_be16(out + MAD_STATUS), 0x0200); /* in another's name */
	port_gid(r.g[0].h, 0, in + SA_DATA + 16);
	ASSERT_TRUE(t, sa_process(r.f, r.g[0].h, in, out));
	EXPECT_EQ(t, get_be16(out + MAD_STATUS), 0);
	EXPECT_EQ(t, get_be16(out + SA_DATA + 36), LID_MCAST_BASE);
	in[MAD_METHOD] = METHOD_DELETE;
	ASSERT_TRUE(t, sa_process(r.f, r.g[0].h, in, out));
	EXPECT_EQ(t, get_be16(out + MAD_STATUS), 0);
	ASSERT_TRUE(t, sa_process(r.f, r.g[0].h, in, out));
	EXPECT_EQ(t, get_be16(out + MAD_STATUS), 0x0200); /* not a member any more */
	in[MAD_METHOD] = METHOD_SET;
	ASSERT_TRUE(t, sa_process(r.f, r.g[0].h, in, out));
	EXPECT_TRUE(t, inject_link(r.f, 1, true)); /* leaving the subnet ends it */
	EXPECT_TRUE(t, list_empty(&r.f->groups));
	fix_destroy(&r);
}

static void work_requests_are_parsed(struct ktest *t)
{
	static const struct {
		enum qp_type type;
		uint8_t opcode;
		size_t len;
		uint32_t word; /* at byte 32 */
		bool want;
	} cases[] = {
		{ QPT_RC, WQE_NOP, 16, 0, true },
		{ QPT_RC, WQE_NOP, 15, 0, false },
		{ QPT_RC, WQE_WRITE, 32, 0, true },
		{ QPT_RC, WQE_WRITE, 31, 0, false },
		{ QPT_RC, WQE_WRITE, 48, 100, true },
		{ QPT_RC, WQE_WRITE, 44, 100, false },
		{ QPT_RC, WQE_WRITE, 48, 0x8000000c, true },
		{ QPT_RC, WQE_WRITE, 48, 0x8000000d, false }, /* past the end */
		{ QPT_RC, WQE_WRITE, 48, 0xffffffff, false },
		{ QPT_RC, WQE_CAS, 48, 0, true },
		{ QPT_RC, WQE_CAS, 32, 0, false },
		{ QPT_RC, WQE_MASKED_CAS, 48, 0, false },
		{ QPT_RC, 0x1f, 64, 0, false },
		{ QPT_UD, WQE_SEND, 64, 0, true },
		{ QPT_UD, WQE_SEND, 48, 0, false },
		{ QPT_UD, WQE_WRITE, 64, 0, false },
		{ QPT_MLX, WQE_READ, 64, 0, false },
	};
	uint8_t raw[64];
	struct wqe w;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(raw, 0, sizeof(raw));
		raw[3] = cases[i].opcode;
		put_be32(raw + 32, cases[i].word);
		EXPECT_EQ(t, wqe_parse(cases[i].type, raw, cases[i].len, &w), cases[i].want);
	}
}

/* A driver that was not listening when its port came up hears of it later. */
static void sweeps_ask_to_register_again(struct ktest *t)
{
	static const unsigned after_ms[] = { 1000, 4000, 16000 };
	const uint8_t *e;
	struct fixture r;

	fix_create(&r);
	fix_init_hca(&r.g[0]);
	for (size_t i = 0; i < ARRAY_SIZE(after_ms); i++) {
		fix_advance(&r, (after_ms[i] - 1) * NSEC_PER_MSEC);
		EXPECT_TRUE(t, !fix_eqe(&r.g[0]));
		fix_advance(&r, NSEC_PER_MSEC);
		e = fix_eqe(&r.g[0]);
		ASSERT_TRUE(t, e);
		EXPECT_EQ(t, e[1], EV_PORT_MNG_CHG);
		EXPECT_EQ(t, e[3], EV_SUB_PORT_INFO);
		EXPECT_EQ(t, get_be32(e + 0x0c), BIT(3)); /* register again, nothing else */
	}
	fix_advance(&r, 100000 * NSEC_PER_MSEC);
	EXPECT_TRUE(t, !fix_eqe(&r.g[0]));
	EXPECT_TRUE(t, inject_link(r.f, 1, true) && inject_link(r.f, 1, false));
	while (fix_eqe(&r.g[0]))
		;
	EXPECT_TRUE(t, inject_link(r.f, 1, true));
	while (fix_eqe(&r.g[0]))
		;
	fix_advance(&r, 2000 * NSEC_PER_MSEC); /* the port is down: nobody sweeps */
	EXPECT_TRUE(t, !fix_eqe(&r.g[0]));
	fix_destroy(&r);
}

static const struct ktest_case mad_cases[] = {
	KTEST(agents_answer),
	KTEST(directed_routes),
	KTEST(path_records),
	KTEST(tables_are_one_segment),
	KTEST(acknowledgements_are_not_answered),
	KTEST(multicast_membership),
	KTEST(sweeps_ask_to_register_again),
	KTEST(work_requests_are_parsed),
	{ 0 },
};
static const struct ktest_suite mad_suite = { .name = "hca.mad", .cases = mad_cases };
KTEST_SUITE(mad_suite);
