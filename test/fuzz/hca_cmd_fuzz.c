/* SPDX-License-Identifier: MIT */
/*
 * Fuzz the HCA model as a hostile guest would: commands in any order, register and doorbell
 * accesses, memory that changes, time that passes.
 *
 * Property: no access outside the guests' RAM (guard areas, ASan), and the run queue empties.
 */
#include "../../tools/hca/fixture.h"

struct input {
	const uint8_t *p;
	size_t left;
};

static uint64_t take(struct input *in, size_t n)
{
	uint64_t v = 0;

	n = MIN(n, in->left);
	memcpy(&v, in->p, n);
	in->p += n;
	in->left -= n;
	return v;
}

static const uint16_t ops[] = {
	OP_QUERY_FW,   OP_MAP_FA,        OP_UNMAP_FA,        OP_RUN_FW,        OP_MOD_STAT_CFG,
	OP_MAP_ICM,    OP_UNMAP_ICM,     OP_SET_ICM_SIZE,    OP_INIT_HCA,      OP_CLOSE_HCA,
	OP_SW2HW_EQ,   OP_HW2SW_EQ,      OP_MAP_EQ,          OP_SW2HW_CQ,      OP_HW2SW_CQ,
	OP_MODIFY_CQ,  OP_SW2HW_SRQ,     OP_HW2SW_SRQ,       OP_ARM_SRQ,       OP_SW2HW_MPT,
	OP_HW2SW_MPT,  OP_WRITE_MTT,     OP_READ_MTT,        OP_RST2INIT,      OP_INIT2RTR,
	OP_RTR2RTS,    OP_RTS2RTS,       OP_RTS2SQD,         OP_SQD2RTS,       OP_2ERR,
	OP_2RST,       OP_QUERY_QP,      OP_CONF_SPECIAL_QP, OP_INIT_PORT,     OP_CLOSE_PORT,
	OP_SET_PORT,   OP_MAD_IFC,       OP_READ_MCG,        OP_WRITE_MCG,     OP_MGID_HASH,
	OP_QUERY_PORT, OP_UNMAP_ICM_AUX, OP_MAP_ICM_AUX,     OP_QUERY_ADAPTER, OP_QUERY_CQ,
};

/* Some bytes of the mailbox, each with its place. */
static void mailbox(struct input *in, uint8_t *box)
{
	for (uint64_t n = take(in, 1) & 31; n; n--) {
		const uint64_t off = take(in, 2) & 511;

		box[off] = (uint8_t)take(in, 1);
	}
}

static void command(struct input *in, struct fix_guest *g)
{
	static const uint32_t numbers[] = { 0,           1,       FIX_EQ,      FIX_QPN,
					    FIX_QPN + 1, FIX_CQN, FIX_CQN + 1, 0x21 };
	const uint64_t pick = take(in, 1);
	uint8_t *box = g->ram + FIX_IN;
	uint32_t im = numbers[take(in, 1) & 7];

	if (pick & 0x80)
		im = (uint32_t)take(in, 4);
	if (pick & 0x40)
		fix_qp_ctx(g, (enum qp_type)(take(in, 1) & 7), FIX_CQN);
	else
		fix_in(g);
	mailbox(in, box);
	(void)fix_cmd_imm(g, ops[(pick & 0x3f) % ARRAY_SIZE(ops)], (uint8_t)(take(in, 1) & 15), im,
			  pick & 0x80 ? take(in, 8) : FIX_IN, NULL);
}

static void access(struct input *in, struct fixture *r, struct fix_guest *g)
{
	const unsigned kind = (unsigned)take(in, 1), size = 1u << (kind & 3);
	const unsigned bar = kind & 4 ? 2 : 0;
	uint64_t off = take(in, 3), val;

	if (bar == 2)
		off = (off & 15) << 12 | (off >> 4 & 0xffc) | (kind & 64 ? BIT(LOG_BF_UAR) : 0);
	val = take(in, size);
	if (kind & 8)
		(void)bar_read(g->h, bar, off, size);
	else
		bar_write(g->h, bar, off, val, size);
	if (kind & 16)
		pci_cfg_write(g->h, (uint32_t)off & 0x1ff, (uint32_t)val, MIN(size, 4u));
	if (kind & 32)
		fix_drain(r);
}

/* A BlueFlame buffer: some of an entry, which may be the one that the send queue has next. */
static void flame(struct input *in, struct fix_guest *g)
{
	const uint64_t at = BIT(LOG_BF_UAR) | (FIX_UAR << 12) | (take(in, 1) & 15) * BF_BUF;
	const unsigned kind = (unsigned)take(in, 1);
	uint8_t e[BF_BUF] = { 0 };

	memcpy(e, fix_page(g, PAGE_QP), 64);
	if (kind & 1)
		put_be32(e + 4, FIX_QPN << 8 | (uint32_t)take(in, 1));
	for (uint64_t n = take(in, 1) & 15; n; n--)
		e[take(in, 1) & 63] = (uint8_t)take(in, 1);
	for (unsigned off = 0; off < (kind >> 1) * 8u && off < sizeof(e); off += 8) {
		uint64_t v;

		memcpy(&v, e + off, sizeof(v));
		bar_write(g->h, 2, at + off, v, 8);
	}
}

static void scribble(struct input *in, struct fix_guest *g)
{
	static const uint32_t places[] = { FIX_DB,
					   FIX_ICM,
					   FIX_ICM + 0x80000,
					   FIX_ICM + 0x90000,
					   FIX_BUF,
					   FIX_BUF + PAGE_QP * 4096,
					   FIX_BUF + PAGE_CQ * 4096,
					   0 };
	uint32_t at = places[take(in, 1) & 7] + (uint32_t)(take(in, 2) & 0x1fff);

	for (uint64_t n = take(in, 1) & 63; n; n--)
		g->ram[at++ % FIX_RAM] = (uint8_t)take(in, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct fixture r;

	fix_create(&r);
	r.f->blueflame = true;
	if (take(&in, 1) & 1)
		fix_connect(&r, 3, 4);
	while (in.left) {
		const uint64_t what = take(&in, 1);
		struct fix_guest *g = &r.g[what >> 7];

		switch (what & 3) {
		case 0:
			command(&in, g);
			break;
		case 1:
			access(&in, &r, g);
			break;
		case 2:
			scribble(&in, g);
			break;
		default:
			if (what & 4)
				flame(&in, g);
			fix_ring(g);
			fix_advance(&r, take(&in, 1) * NSEC_PER_MSEC);
		}
	}
	fix_advance(&r, 10 * NSEC_PER_MSEC);
	fix_destroy(&r);
	return 0;
}
