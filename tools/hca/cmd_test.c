/* SPDX-License-Identifier: MIT */
/* HCA model: statuses of commands, the HCR and region checks. */
#include <lib/ktest.h>

#include "fixture.h"

static void stages_are_enforced(struct ktest *t)
{
	static const struct {
		uint16_t op;
		enum hca_status want;
	} cases[] = {
		{ 0x0ab, ST_BAD_OP },
		{ OP_QUERY_FW, ST_OK },
		{ OP_QUERY_DEV_CAP, ST_BAD_SYS_STATE },
		{ OP_RUN_FW, ST_BAD_SYS_STATE }, /* no firmware area */
		{ OP_MAP_ICM, ST_BAD_SYS_STATE },
		{ OP_INIT_HCA, ST_BAD_SYS_STATE },
		{ OP_SW2HW_CQ, ST_BAD_SYS_STATE },
		{ OP_INIT_PORT, ST_BAD_SYS_STATE },
	};
	struct fixture r;

	fix_create(&r);
	fix_in(&r.g[0]);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		EXPECT_EQ(t, fix_cmd(&r.g[0], cases[i].op, 0, 0), cases[i].want);
	EXPECT_EQ(t, fix_cmd(&r.g[0], OP_MAP_FA, 0, 0), ST_BAD_PARAM);
	EXPECT_EQ(t, fix_cmd(&r.g[0], OP_MAP_FA, 0, 300), ST_BAD_PARAM);
	fix_destroy(&r);
}

static void arguments_are_checked(struct ktest *t)
{
	struct fix_guest *g;
	struct fixture r;
	uint8_t *in;

	fix_create(&r);
	g = &r.g[0];
	fix_init_hca(g);
	EXPECT_EQ(t, fix_cmd_imm(g, OP_SW2HW_CQ, 0, FIX_CQN, FIX_RAM, NULL), ST_BAD_PARAM);
	EXPECT_EQ(t, fix_cmd_imm(g, OP_SW2HW_CQ, 0, FIX_CQN, FIX_IN + 1, NULL), ST_BAD_PARAM);
	EXPECT_EQ(t, fix_cq(g, 256, 3, PAGE_CQ), ST_BAD_INDEX);
	EXPECT_EQ(t, fix_cq(g, FIX_CQN, 3, PAGE_CQ), ST_OK);
	EXPECT_EQ(t, fix_cq(g, FIX_CQN, 3, PAGE_CQ), ST_BAD_RES_STATE);
	EXPECT_EQ(t, fix_cq(g, FIX_CQN + 1, 3, 100000), ST_BAD_PARAM); /* buffer not mapped */
	EXPECT_EQ(t, fix_cmd(g, OP_HW2SW_EQ, 1, FIX_EQ), ST_BUSY);
	EXPECT_EQ(t, fix_cmd(g, OP_HW2SW_EQ, 1, 9), ST_BAD_RES_STATE);
	EXPECT_EQ(t, fix_cmd(g, OP_INIT_PORT, 0, 2), ST_BAD_INDEX);
	fix_qp_ctx(g, QPT_RC, FIX_CQN + 9);
	EXPECT_EQ(t, fix_cmd(g, OP_RST2INIT, 0, FIX_QPN), ST_BAD_RESOURCE);
	fix_qp_ctx(g, QPT_RC, FIX_CQN);
	EXPECT_EQ(t, fix_cmd(g, OP_RST2INIT, 0, 3), ST_BAD_INDEX); /* reserved */
	EXPECT_EQ(t, fix_cmd(g, OP_RST2INIT, 0, 512), ST_BAD_INDEX);
	fix_qp_ctx(g, QPT_MLX, FIX_CQN);
	EXPECT_EQ(t, fix_cmd(g, OP_RST2INIT, 0, FIX_QPN), ST_BAD_PARAM); /* not a special QP */
	fix_qp_ctx(g, QPT_RC, FIX_CQN);
	EXPECT_EQ(t, fix_cmd(g, OP_RTR2RTS, 0, FIX_QPN), ST_BAD_QP_STATE);
	EXPECT_EQ(t, fix_cmd(g, OP_RST2INIT, 0, FIX_QPN), ST_OK);
	EXPECT_EQ(t, fix_cmd(g, OP_RST2INIT, 0, FIX_QPN), ST_BAD_QP_STATE);
	EXPECT_EQ(t, fix_cmd(g, OP_RTR2RTS, 0, FIX_QPN), ST_BAD_QP_STATE);
	EXPECT_EQ(t, fix_cmd(g, OP_HW2SW_CQ, 1, FIX_CQN), ST_BUSY);
	EXPECT_EQ(t, fix_cmd(g, OP_2RST, 2, FIX_QPN), ST_OK);
	EXPECT_EQ(t, fix_cmd(g, OP_HW2SW_CQ, 1, FIX_CQN), ST_OK);
	in = fix_in(g);
	put_be64(in, 0x00030000);
	put_be64(in + 8, FIX_RAM);
	EXPECT_EQ(t, fix_cmd(g, OP_MAP_ICM, 0, 1), ST_BAD_PARAM); /* not the guest's memory */
	EXPECT_EQ(t, fix_cmd_imm(g, OP_UNMAP_ICM, 0, 16, 0x30000, NULL), ST_OK);
	EXPECT_EQ(t, fix_cq(g, FIX_CQN, 3, PAGE_CQ), ST_OK);
	fix_qp_ctx(g, QPT_RC, FIX_CQN);
	EXPECT_EQ(t, fix_cmd(g, OP_RST2INIT, 0, FIX_QPN), ST_ICM_ERROR);
	fix_destroy(&r);
}

static void only_a_bus_master_reaches_memory(struct ktest *t)
{
	struct fix_guest *g;
	struct fixture r;

	fix_create(&r);
	g = &r.g[0];
	fix_init_hca(g);
	pci_cfg_write(g->h, 0x04, 2, 2);
	EXPECT_EQ(t, fix_cq(g, FIX_CQN, 3, PAGE_CQ), ST_BAD_PARAM);
	msix_raise(g->h, 2);
	EXPECT_EQ(t, g->msi[2], 0u);
	pci_cfg_write(g->h, 0x04, 6, 2);
	EXPECT_EQ(t, g->msi[2], 1u);
	EXPECT_EQ(t, fix_cq(g, FIX_CQN, 3, PAGE_CQ), ST_OK);
	fix_destroy(&r);
}

static void init_hca_refuses_sizes(struct ktest *t)
{
	static const struct {
		unsigned off;
		uint8_t val;
	} cases[] = { { 0x00, 1 },  { 0x37, 19 }, { 0x4f, 17 }, { 0x57, 17 }, { 0x87, 8 },
		      { 0xfb, 20 }, { 0xdb, 14 }, { 0xd3, 11 }, { 0xd7, 31 }, { 0x12a, 12 } };
	struct fix_guest *g;
	struct fixture r;

	fix_create(&r);
	g = &r.g[0];
	fix_init_hca(g);
	EXPECT_EQ(t, fix_cmd(g, OP_CLOSE_HCA, 0, 0), ST_OK);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t *in = fix_in(g);

		in[0] = 2;
		in[0xd3] = 8;
		in[cases[i].off] = cases[i].val;
		EXPECT_EQ(t, fix_cmd(g, OP_INIT_HCA, 0, 0), ST_BAD_PARAM);
	}
	fix_destroy(&r);
}

/* In event mode the answer is an entry of type 0x0a with the token. */
static void command_completes_by_event(struct ktest *t)
{
	struct fix_guest *g;
	const uint8_t *e;
	struct fixture r;

	fix_create(&r);
	g = &r.g[0];
	fix_init_hca(g);
	bar_write(g->h, 0, REG_HCR + 0x14, swap_be32(0xbeefu << 16), 4);
	bar_write(g->h, 0, REG_HCR + 0x18, swap_be32(HCR_GO | HCR_EVENT | BIT(21) | OP_NOP), 4);
	e = fix_eqe(g);
	ASSERT_TRUE(t, e != NULL);
	EXPECT_EQ(t, e[1], EV_CMD);
	EXPECT_EQ(t, get_be16(e + 6), 0xbeef);
	EXPECT_EQ(t, e[0x0f], ST_OK);
	EXPECT_EQ(t, g->msi[0], 1u);
	/* the toggle stays as written, GO is clear */
	EXPECT_EQ(t, swap_be32((uint32_t)bar_read(g->h, 0, REG_HCR + 0x18, 4)),
		  HCR_EVENT | BIT(21) | OP_NOP);
	fix_destroy(&r);
}

static void ownership_and_reset(struct ktest *t)
{
	struct fix_guest *g;
	struct fixture r;

	fix_create(&r);
	g = &r.g[0];
	EXPECT_EQ(t, bar_read(g->h, 0, REG_OWNER, 4), 0u);
	EXPECT_NE(t, bar_read(g->h, 0, REG_OWNER, 4), 0u);
	bar_write(g->h, 0, REG_OWNER, 0, 4);
	EXPECT_EQ(t, bar_read(g->h, 0, REG_OWNER, 4), 0u);
	fix_init_hca(g);
	EXPECT_EQ(t, (int)g->h->port.state, PORT_ACTIVE);
	bar_write(g->h, 0, REG_RESET, swap_be32(1), 4);
	EXPECT_EQ(t, (int)g->h->port.state, PORT_DOWN);
	EXPECT_EQ(t, fix_cmd(g, OP_QUERY_HCA, 0, 0), ST_BAD_SYS_STATE);
	EXPECT_EQ(t, bar_read(g->h, 0, REG_OWNER, 4), 0u);
	fix_destroy(&r);
}

static void region_checks(struct ktest *t)
{
	const uint32_t rights = MPT_LOCAL_READ | MPT_REMOTE_READ;
	static const struct {
		uint32_t key, pd, need;
		uint64_t va, len;
		enum mr_fault want;
	} cases[] = {
		{ FIX_KEY, FIX_PD, MPT_LOCAL_READ, FIX_VA, FIX_LEN, MR_OK },
		{ FIX_KEY, FIX_PD, MPT_REMOTE_READ, FIX_VA + FIX_LEN - 1, 1, MR_OK },
		{ FIX_KEY, FIX_PD, MPT_LOCAL_READ, FIX_VA + FIX_LEN, 0, MR_OK },
		{ FIX_KEY + 1, FIX_PD, MPT_LOCAL_READ, FIX_VA, 1, MR_KEY }, /* variant */
		{ FIX_KEY + 0x100, FIX_PD, MPT_LOCAL_READ, FIX_VA, 1, MR_KEY },
		{ FIX_KEY, FIX_PD + 1, MPT_LOCAL_READ, FIX_VA, 1, MR_PD },
		{ FIX_KEY, FIX_PD, MPT_LOCAL_WRITE, FIX_VA, 1, MR_ACCESS },
		{ FIX_KEY, FIX_PD, MPT_REMOTE_WRITE, FIX_VA, 1, MR_ACCESS },
		{ FIX_KEY, FIX_PD, MPT_ATOMIC, FIX_VA, 8, MR_ACCESS },
		{ FIX_KEY, FIX_PD, MPT_LOCAL_READ, FIX_VA - 1, 1, MR_BOUNDS },
		{ FIX_KEY, FIX_PD, MPT_LOCAL_READ, FIX_VA + 1, FIX_LEN, MR_BOUNDS },
		{ FIX_KEY, FIX_PD, MPT_LOCAL_READ, FIX_VA + 1, ~0ull, MR_BOUNDS },
		{ FIX_KEY, FIX_PD, MPT_LOCAL_READ, ~0ull, 2, MR_BOUNDS },
	};
	struct fix_guest *g;
	struct mr mr;
	struct fixture r;

	fix_create(&r);
	g = &r.g[0];
	fix_init_hca(g);
	EXPECT_EQ(t, fix_mr(g, FIX_KEY_INDEX, rights, FIX_PD), ST_OK);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		EXPECT_EQ(t,
			  (int)mr_get(g->h, cases[i].key, cases[i].pd, cases[i].need, cases[i].va,
				      cases[i].len, &mr),
			  cases[i].want);
	EXPECT_EQ(t, fix_cmd(g, OP_HW2SW_MPT, 1, 0x21), ST_OK);
	EXPECT_EQ(t, fix_cmd(g, OP_HW2SW_MPT, 1, 0x21), ST_BAD_RES_STATE);
	EXPECT_EQ(t, (int)mr_get(g->h, FIX_KEY, FIX_PD, 0, FIX_VA, 1, &mr), MR_KEY);
	fix_destroy(&r);
}

/* A translated page that is not the guest's RAM, or not present, cannot be reached. */
static void region_pages_are_checked(struct ktest *t)
{
	struct fix_guest *g;
	struct mr mr;
	struct fixture r;
	uint64_t len = 4096;
	uint8_t *mtt;

	fix_create(&r);
	g = &r.g[0];
	fix_init_hca(g);
	EXPECT_EQ(t, fix_mr(g, FIX_KEY_INDEX, MPT_LOCAL_READ, FIX_PD), ST_OK);
	ASSERT_EQ(t, (int)mr_get(g->h, FIX_KEY, FIX_PD, 0, FIX_VA, FIX_LEN, &mr), MR_OK);
	EXPECT_TRUE(t, mr_span(g->h, &mr, FIX_VA, &len) == fix_page(g, PAGE_MR));
	mtt = g->ram + FIX_ICM + 0x90000 + PAGE_MR * 8;
	put_be64(mtt, (uint64_t)FIX_RAM | 1);
	len = 4096;
	EXPECT_TRUE(t, mr_span(g->h, &mr, FIX_VA, &len) == NULL);
	put_be64(mtt, FIX_BUF);
	len = 4096;
	EXPECT_TRUE(t, mr_span(g->h, &mr, FIX_VA, &len) == NULL);
	fix_destroy(&r);
}

static void config_space(struct ktest *t)
{
	struct fixture r;
	struct hca *h;

	fix_create(&r);
	h = r.g[0].h;
	EXPECT_EQ(t, pci_cfg_read(h, 0, 4), 0x100315b3u);
	pci_cfg_write(h, 0x10, ~0u, 4);
	EXPECT_EQ(t, pci_cfg_read(h, 0x10, 4), ~(BAR0_SIZE - 1) | 4);
	pci_cfg_write(h, 0x14, ~0u, 4);
	EXPECT_EQ(t, pci_cfg_read(h, 0x14, 4), 0u); /* before the first reset */
	pci_device_reset(h);
	pci_cfg_write(h, 0x14, ~0u, 4);
	EXPECT_EQ(t, pci_cfg_read(h, 0x14, 4), ~0u);
	EXPECT_EQ(t, pci_cfg_read(h, 254, 4), ~0u);
	pci_cfg_write(h, 0xffffffff, 0, 4);
	fix_destroy(&r);
}

static void answer(struct hca *h, uint32_t val)
{
	(void)h;
	(void)val;
}

/* The model's own capability, behind MSI-X, tells what the front end needs. */
static void hint_names_the_front_end(struct ktest *t)
{
	struct front_ops ops;
	struct fixture r;
	struct hca *h;
	uint32_t pos;

	fix_create(&r);
	h = r.g[0].h;
	ops = *h->front;
	h->front = &ops;
	pos = pci_cfg_read(h, 0x34, 1);
	EXPECT_EQ(t, pci_cfg_read(h, pos, 1), 0x11u);
	pos = pci_cfg_read(h, pos + 1, 1);
	EXPECT_EQ(t, pci_cfg_read(h, pos, 4), HINT_VERSION << 24 | HINT_LEN << 16 | 0x09u);
	EXPECT_EQ(t, pci_cfg_read(h, pos + 4, 4), 0x41525354u); /* "TSRA" */
	EXPECT_EQ(t, pci_cfg_read(h, pos + 8, 4), HINT_EMULATED);
	ops.one_at_once = true;
	EXPECT_EQ(t, pci_cfg_read(h, pos + 8, 1), HINT_EMULATED | HINT_ONE_AT_ONCE);
	pci_cfg_write(h, pos + 8, 0, 4);
	pci_device_reset(h);
	EXPECT_EQ(t, pci_cfg_read(h, pos + 8, 4), HINT_EMULATED | HINT_ONE_AT_ONCE);
	ops.answer = answer;
	EXPECT_EQ(t, pci_cfg_read(h, pos + 8, 4), HINT_EMULATED | HINT_ONE_AT_ONCE | HINT_WAIT);
	fix_destroy(&r);
}

/* A vector that fires while it is masked comes when it is let through. */
static void masked_interrupt_is_kept(struct ktest *t)
{
	struct fix_guest *g;
	struct fixture r;

	fix_create(&r);
	g = &r.g[0];
	bar_write(g->h, 0, MSIX_TABLE + 3 * 16 + 12, 1, 4);
	msix_raise(g->h, 3);
	EXPECT_EQ(t, g->msi[3], 0u);
	EXPECT_EQ(t, bar_read(g->h, 0, MSIX_PBA, 4), 8u);
	bar_write(g->h, 0, MSIX_TABLE + 3 * 16 + 12, 0, 4);
	EXPECT_EQ(t, g->msi[3], 1u);
	pci_cfg_write(g->h, 0x9e, 0xc000, 2);
	msix_raise(g->h, 4);
	EXPECT_EQ(t, g->msi[4], 0u);
	pci_cfg_write(g->h, 0x9e, 0x8000, 2);
	EXPECT_EQ(t, g->msi[4], 1u);
	fix_destroy(&r);
}

static const struct ktest_case cmd_cases[] = {
	KTEST(stages_are_enforced),
	KTEST(arguments_are_checked),
	KTEST(only_a_bus_master_reaches_memory),
	KTEST(init_hca_refuses_sizes),
	KTEST(command_completes_by_event),
	KTEST(ownership_and_reset),
	KTEST(region_checks),
	KTEST(region_pages_are_checked),
	KTEST(config_space),
	KTEST(hint_names_the_front_end),
	KTEST(masked_interrupt_is_kept),
	{ 0 },
};
static const struct ktest_suite cmd_suite = { .name = "hca.cmd", .cases = cmd_cases };
KTEST_SUITE(cmd_suite);
