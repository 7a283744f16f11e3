/* SPDX-License-Identifier: MIT */
/* HCA model, tests: see fixture.h. */
#include "fixture.h"

#include <stdlib.h>
#include <sys/mman.h>

#define ICM_QPC    0x000000u
#define ICM_CMPT   0x020000u
#define ICM_RDMARC 0x030000u
#define ICM_ALTC   0x040000u
#define ICM_AUXC   0x050000u
#define ICM_CQC    0x060000u
#define ICM_SRQC   0x070000u
#define ICM_EQC    0x078000u
#define ICM_DMPT   0x080000u
#define ICM_MTT    0x090000u
#define ICM_MCG    0x0a0000u
#define ICM_CHUNKS 11u
#define NR_MTT     2048u

static uint64_t fix_now = 1000000000ull;

static uint64_t fix_clock(void)
{
	return fix_now;
}

static void fix_msi(struct hca *h, unsigned vector, uint64_t addr, uint32_t data)
{
	struct fix_guest *g = h->front_priv;

	(void)addr;
	(void)data;
	g->msi[vector]++;
}

static const struct front_ops fix_ops = { .name = "fixture", .msi = fix_msi };

#define GUARD (1u << 20)

/* Guest RAM between two areas that cannot be touched: a stray access is seen. */
static uint8_t *ram_alloc(void)
{
	uint8_t *p = mmap(NULL, FIX_RAM + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + GUARD, FIX_RAM, PROT_READ | PROT_WRITE))
		abort();
	return p + GUARD;
}

void fix_create(struct fixture *r)
{
	memset(r, 0, sizeof(*r));
	log_open("/dev/null"); /* refusals are what the tests are about */
	r->f = fabric_create();
	if (!r->f)
		abort();
	r->f->clock = fix_clock;
	for (unsigned i = 0; i < 2; i++) {
		struct fix_guest *g = &r->g[i];

		g->h = hca_create(r->f, NULL, 0, 0);
		g->ram = ram_alloc();
		if (!g->h)
			abort();
		g->h->front = &fix_ops;
		g->h->front_priv = g;
		g->h->mem.nr = 1;
		g->h->mem.r[0] = (struct mem_region){ .len = FIX_RAM, .host = g->ram };
		pci_cfg_write(g->h, 0x04, 6, 2);      /* memory, bus master */
		pci_cfg_write(g->h, 0x9e, 0x8000, 2); /* MSI-X on */
		for (unsigned v = 0; v < NR_MSIX; v++)
			bar_write(g->h, 0, MSIX_TABLE + v * 16 + 12, 0, 4);
	}
	fabric_run(r->f);
}

void fix_destroy(struct fixture *r)
{
	fabric_destroy(r->f);
	for (unsigned i = 0; i < 2; i++)
		munmap(r->g[i].ram - GUARD, FIX_RAM + 2 * GUARD);
}

void fix_drain(struct fixture *r)
{
	for (unsigned i = 0; i < 100000; i++) {
		fabric_run(r->f);
		if (!fabric_busy(r->f))
			return;
	}
	abort(); /* the run queue never empties */
}

/* Let time pass, stopping at each deadline on the way. */
void fix_advance(struct fixture *r, uint64_t ns)
{
	const uint64_t end = fix_now + ns;

	while (fabric_deadline(r->f) <= end) {
		fix_now = MAX(fix_now, fabric_deadline(r->f));
		fix_drain(r);
	}
	fix_now = end;
	fix_drain(r);
}

uint8_t *fix_in(struct fix_guest *g)
{
	memset(g->ram + FIX_IN, 0, MAILBOX);
	return g->ram + FIX_IN;
}

const uint8_t *fix_out(struct fix_guest *g)
{
	return g->ram + FIX_OUT;
}

static void hcr_store(struct fix_guest *g, unsigned dword, uint32_t val)
{
	bar_write(g->h, 0, REG_HCR + dword * 4, swap_be32(val), 4);
}

enum hca_status fix_cmd_imm(struct fix_guest *g, uint16_t op, uint8_t mod, uint32_t im, uint64_t in,
			    uint64_t *out)
{
	uint32_t word;

	hcr_store(g, 0, (uint32_t)(in >> 32));
	hcr_store(g, 1, (uint32_t)in);
	hcr_store(g, 2, im);
	hcr_store(g, 3, 0);
	hcr_store(g, 4, FIX_OUT);
	hcr_store(g, 5, 0xffffu << 16);
	hcr_store(g, 6, HCR_GO | (uint32_t)mod << 12 | op);
	word = swap_be32((uint32_t)bar_read(g->h, 0, REG_HCR + 0x18, 4));
	if (word & HCR_GO)
		abort(); /* commands end at once */
	if (out)
		*out = get_be64((const uint8_t *)&g->h->hcr + 0x0c);
	return (enum hca_status)(word >> 24);
}

enum hca_status fix_cmd(struct fix_guest *g, uint16_t op, uint8_t mod, uint32_t im)
{
	return fix_cmd_imm(g, op, mod, im, FIX_IN, NULL);
}

uint8_t *fix_page(struct fix_guest *g, unsigned page)
{
	return g->ram + FIX_BUF + page * 4096ul;
}

static void must(enum hca_status st)
{
	if (st)
		abort();
}

static void map_icm(struct fix_guest *g)
{
	uint8_t *in = fix_in(g);
	uint64_t aux;

	must(fix_cmd_imm(g, OP_SET_ICM_SIZE, 0, 0, ICM_CHUNKS << 16, &aux));
	put_be64(in + 8, 0x200000 | 6);
	must(fix_cmd(g, OP_MAP_ICM_AUX, 0, 1));
	in = fix_in(g);
	for (uint64_t i = 0; i < ICM_CHUNKS; i++) {
		put_be64(in + i * 16, i << 16);
		put_be64(in + i * 16 + 8, (FIX_ICM + (i << 16)) | 4);
	}
	must(fix_cmd(g, OP_MAP_ICM, 0, ICM_CHUNKS));
	for (uint64_t i = 0; i < NR_MTT; i++)
		put_be64(g->ram + FIX_ICM + ICM_MTT + i * 8, (FIX_BUF + (i << 12)) | 1);
}

static void init_hca(struct fix_guest *g)
{
	uint8_t *in = fix_in(g);

	in[0] = 2;
	put_be64(in + 0x30, ICM_QPC | 9);
	put_be64(in + 0x48, ICM_SRQC | 7);
	put_be64(in + 0x50, ICM_CQC | 8);
	put_be64(in + 0x60, ICM_ALTC);
	put_be64(in + 0x70, ICM_AUXC);
	put_be64(in + 0x80, ICM_EQC | 5);
	put_be64(in + 0x90, ICM_RDMARC);
	put_be64(in + 0xc0, ICM_MCG);
	in[0xd3] = 8;
	in[0xd7] = 3;
	in[0xdb] = 4;
	put_be64(in + 0xf0, ICM_DMPT);
	in[0xfb] = 8;
	put_be64(in + 0x100, ICM_MTT);
	put_be64(in + 0x108, ICM_CMPT);
	in[0x12a] = 4;
	must(fix_cmd(g, OP_INIT_HCA, 0, 0));
}

void fix_init_hca(struct fix_guest *g)
{
	uint8_t *in = fix_in(g);

	put_be64(in + 8, 0x300000 | 8);
	must(fix_cmd(g, OP_MAP_FA, 0, 1));
	must(fix_cmd(g, OP_RUN_FW, 0, 0));
	map_icm(g);
	init_hca(g);
	in = fix_in(g);
	put_be32(in, 9 << 8);
	in[0x0c] = 7;
	put_be32(in + 0x1c, PAGE_EQ * 8);
	must(fix_cmd(g, OP_SW2HW_EQ, 0, FIX_EQ));
	must(fix_cmd_imm(g, OP_MAP_EQ, 0, FIX_EQ, ~0ull, NULL));
	must(fix_cmd(g, OP_INIT_PORT, 0, 1));
	while (fix_eqe(g))
		;
	fix_arm_eq(g);
	memset(g->msi, 0, sizeof(g->msi));
}

/* A region of FIX_LEN bytes at FIX_VA, pages from PAGE_MR. */
enum hca_status fix_mr(struct fix_guest *g, uint32_t key_index, uint32_t flags, uint32_t pd)
{
	uint8_t *in = fix_in(g);

	put_be32(in, MPT_SW << MPT_STATUS_SHIFT | MPT_REGION | flags);
	put_be32(in + 8, key_index);
	put_be32(in + 0x0c, pd);
	put_be64(in + 0x10, FIX_VA);
	put_be64(in + 0x18, FIX_LEN);
	put_be64(in + 0x2c, PAGE_MR * 8);
	put_be32(in + 0x38, 12);
	return fix_cmd(g, OP_SW2HW_MPT, 0, key_index & 0xff);
}

enum hca_status fix_cq(struct fix_guest *g, uint32_t cqn, unsigned log_size, unsigned page)
{
	uint8_t *in = fix_in(g);

	put_be32(in + 0x0c, log_size << 24 | FIX_UAR);
	in[0x17] = FIX_EQ;
	put_be32(in + 0x1c, page * 8);
	put_be64(in + 0x38, FIX_DB + (cqn - FIX_CQN) * 16ull);
	return fix_cmd(g, OP_SW2HW_CQ, 0, cqn);
}

/* A context for RST2INIT: 2^sq_log entries of 64 bytes, 16 receives of 32 bytes behind them. */
uint8_t *fix_qp_ctx(struct fix_guest *g, enum qp_type type, uint32_t cqn)
{
	uint8_t *x = fix_in(g) + 8;

	put_be32(x, (uint32_t)type << 16);
	put_be32(x + 4, FIX_PD);
	x[9] = 4 << 3 | 1;
	x[0x0a] = (uint8_t)(g->sq_log << 3 | 2);
	put_be32(x + 0x7c, cqn);
	put_be32(x + 0x9c, cqn);
	put_be64(x + 0xa0, FIX_DB + 0x800);
	put_be32(x + 0x90, BIT(15) | BIT(14) | BIT(13));
	put_be32(x + 0xcc, PAGE_QP * 8);
	put_be32(x + 0xa8, 0x1234);
	g->sq_off = 0;
	g->rq_off = 64u << g->sq_log;
	return x;
}

static void stamp(struct fix_guest *g)
{
	for (unsigned i = 0; i < 1u << g->sq_log; i++)
		put_be32(fix_page(g, PAGE_QP) + g->sq_off + i * 64, 1u << 31);
}

void fix_connect_one(struct fix_guest *g, uint16_t dlid, unsigned sq_log)
{
	uint8_t *x;

	g->sq_log = sq_log;
	x = fix_qp_ctx(g, QPT_RC, FIX_CQN);
	must(fix_cmd(g, OP_RST2INIT, 0, FIX_QPN));
	stamp(g);
	x = fix_qp_ctx(g, QPT_RC, FIX_CQN);
	x[8] = 3 << 5 | 30;
	put_be32(x + 0x14, FIX_QPN);
	put_be16(x + 0x18 + 6, dlid);
	put_be32(x + 0x94, 1u << 24 | 0x100); /* RNR timer 10 us */
	must(fix_cmd(g, OP_INIT2RTR, 0, FIX_QPN));
	x = fix_qp_ctx(g, QPT_RC, FIX_CQN);
	x[0x18 + 8] = 8 << 3;
	put_be32(x + 0x70, 2u << 16 | 1u << 13); /* two retries, one for RNR */
	put_be32(x + 0x78, 0x100);
	must(fix_cmd(g, OP_RTR2RTS, 0, FIX_QPN));
}

void fix_connect(struct fixture *r, unsigned sq_log, unsigned cq_log)
{
	for (unsigned i = 0; i < 2; i++) {
		struct fix_guest *g = &r->g[i];

		fix_init_hca(g);
		g->cq_log = cq_log;
		must(fix_cq(g, FIX_CQN, cq_log, PAGE_CQ));
		must(fix_mr(g, FIX_KEY_INDEX,
			    MPT_LOCAL_READ | MPT_LOCAL_WRITE | MPT_REMOTE_READ | MPT_REMOTE_WRITE |
				    MPT_ATOMIC,
			    FIX_PD));
		fix_connect_one(g, (uint16_t)(2 - i), sq_log);
	}
}

void fix_post(struct fix_guest *g, const struct fix_wr *wr)
{
	const uint16_t i = g->sq_tail++;
	uint8_t *w = fix_page(g, PAGE_QP) + g->sq_off + (i & ((1u << g->sq_log) - 1)) * 64u;
	unsigned n = 16;

	memset(w + 4, 0, 60);
	put_be32(w + 8, (wr->unsignaled ? 0 : 0xc) | (wr->solicited ? 2 : 0));
	put_be32(w + 12, wr->imm);
	if (wr->opcode != WQE_SEND && wr->opcode != WQE_SEND_IMM && wr->opcode != WQE_NOP) {
		put_be64(w + n, wr->raddr);
		put_be32(w + n + 8, wr->rkey);
		n += 16;
	}
	if (wr->opcode == WQE_CAS || wr->opcode == WQE_FAA) {
		put_be64(w + n, wr->swap);
		put_be64(w + n + 8, wr->compare);
		n += 16;
	}
	if (wr->len) {
		put_be32(w + n, wr->len);
		put_be32(w + n + 4, wr->lkey);
		put_be64(w + n + 8, wr->laddr);
		n += 16;
	}
	w[7] = (uint8_t)(n / 16);
	put_be32(w, (i >> g->sq_log & 1u) << 31 | wr->opcode);
}

void fix_post_recv(struct fix_guest *g, uint64_t addr, uint32_t len, uint32_t lkey)
{
	uint8_t *w = fix_page(g, PAGE_QP) + g->rq_off + (g->rq_tail++ & 15) * 32u;

	put_be32(w, len);
	put_be32(w + 4, lkey);
	put_be64(w + 8, addr);
	put_be32(w + 16, 0);
	put_be32(w + 20, LKEY_END);
	put_be32(g->ram + FIX_DB + 0x800, g->rq_tail);
}

void fix_ring(struct fix_guest *g)
{
	bar_write(g->h, 2, FIX_UAR * 4096 + 0x14, swap_be32(FIX_QPN << 8), 4);
}

void fix_arm(struct fix_guest *g, unsigned cmd)
{
	const uint64_t dw0 = swap_be32(cmd << 24 | FIX_CQN);

	bar_write(g->h, 2, FIX_UAR * 4096 + 0x20,
		  dw0 | (uint64_t)swap_be32(g->cq_ci & 0xffffff) << 32, 8);
}

void fix_arm_eq(struct fix_guest *g)
{
	bar_write(g->h, 2, (FIX_EQ / 4) * 4096 + 0x800 + (FIX_EQ & 3) * 8,
		  swap_be32(1u << 31 | (g->eq_ci & 0xffffff)), 4);
}

const uint8_t *fix_cqe(struct fix_guest *g)
{
	const uint8_t *e = fix_page(g, PAGE_CQ) + (g->cq_ci & ((1u << g->cq_log) - 1)) * 32;

	if ((e[31] >> 7) != (g->cq_ci >> g->cq_log & 1))
		return NULL;
	g->cq_ci++;
	put_be32(g->ram + FIX_DB, g->cq_ci & 0xffffff);
	return e;
}

const uint8_t *fix_eqe(struct fix_guest *g)
{
	const uint8_t *e = fix_page(g, PAGE_EQ) + (g->eq_ci & 127) * 32;

	if ((e[31] >> 7) != (g->eq_ci >> 7 & 1))
		return NULL;
	g->eq_ci++;
	return e;
}
