/* SPDX-License-Identifier: MIT */
/* HCA model: injected faults of boards and ports, and delays by class of traffic. */
#include <lib/ktest.h>

#include "fixture.h"

#define MS  NSEC_PER_MSEC
#define KIB 1024u

static struct fix_wr wr_of(uint8_t opcode, uint32_t len)
{
	return (struct fix_wr){ .opcode = opcode,
				.raddr = FIX_VA + 0x20000,
				.rkey = FIX_KEY,
				.laddr = FIX_VA,
				.len = len,
				.lkey = FIX_KEY };
}

static void post(struct fix_guest *g, uint8_t opcode, uint32_t len)
{
	const struct fix_wr wr = wr_of(opcode, len);

	fix_post(g, &wr);
	fix_ring(g);
}

static unsigned completions(struct fix_guest *g)
{
	unsigned n = 0;

	while (fix_cqe(g))
		n++;
	return n;
}

static void delays_are_by_class(struct ktest *t)
{
	static const struct {
		unsigned cls;
		uint8_t opcode;
		uint32_t len;
	} kinds[] = { { CLS_SEND, WQE_SEND, 8 },
		      { CLS_WRITE, WQE_WRITE, 8 },
		      { CLS_READ, WQE_READ, 8 },
		      { CLS_ATOMIC, WQE_FAA, 8 } };

	for (size_t slow = 0; slow < ARRAY_SIZE(kinds); slow++) {
		for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
			struct fixture r;

			fix_create(&r);
			fix_connect(&r, 3, 4);
			inject_set_delay(r.f, LIDS(0, 0), 20 * MS, kinds[slow].cls);
			fix_post_recv(&r.g[1], FIX_VA, 64, FIX_KEY);
			post(&r.g[0], kinds[k].opcode, kinds[k].len);
			EXPECT_EQ(t, completions(&r.g[0]), k == slow ? 0u : 1u);
			fix_advance(&r, 19 * MS);
			EXPECT_EQ(t, completions(&r.g[0]), 0u);
			fix_advance(&r, 2 * MS);
			EXPECT_EQ(t, completions(&r.g[0]), k == slow ? 1u : 0u);
			EXPECT_EQ(t, r.g[0].h->stats.injected_delays, k == slow ? 1u : 0u);
			fix_destroy(&r);
		}
	}
}

/* The WQEs behind a slow one are slow as well: a queue keeps its order. */
static void delayed_class_keeps_the_order(struct ktest *t)
{
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	inject_set_delay(r.f, LIDS(1, 2), 20 * MS, CLS_READ);
	post(&r.g[0], WQE_READ, 64);
	post(&r.g[0], WQE_WRITE, 64);
	EXPECT_EQ(t, completions(&r.g[0]), 0u);
	fix_advance(&r, 21 * MS);
	EXPECT_EQ(t, completions(&r.g[0]), 2u);
	post(&r.g[0], WQE_WRITE, 64);
	EXPECT_EQ(t, completions(&r.g[0]), 1u);
	fix_destroy(&r);
}

/* A rule for one service level, or for one queue pair, leaves the other connections alone. */
static void rules_are_for_some_connections(struct ktest *t)
{
	static const struct {
		struct conn_match m;
		bool hit; /* a connection at level 2 whose queue pairs are FIX_QPN and FIX_QPN */
	} rules[] = {
		{ { .a = 1, .b = 2, .by_sl = true, .sl = 2 }, true },
		{ { .by_sl = true, .sl = 2 }, true },
		{ { .a = 2, .by_sl = true, .sl = 2, .qpn = FIX_QPN }, true },
		{ { .a = 1, .b = 2, .by_sl = true, .sl = 0 }, false },
		{ { .by_sl = true, .sl = 3 }, false },
		{ { .a = 1, .qpn = FIX_QPN }, true },
		{ { .a = 2, .b = 1, .qpn = FIX_QPN }, true },
		{ { .a = 1, .qpn = FIX_QPN + 1 }, false },
		{ { .a = 3, .qpn = FIX_QPN }, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		struct fixture r;

		fix_create(&r);
		fix_connect(&r, 3, 4);
		qp_find(r.g[0].h, FIX_QPN)->path.sl = 2;
		inject_set_delay(r.f, &rules[i].m, 20 * MS, CLS_RC);
		post(&r.g[0], WQE_WRITE, 64);
		EXPECT_EQ(t, completions(&r.g[0]), rules[i].hit ? 0u : 1u);
		fix_advance(&r, 21 * MS);
		EXPECT_EQ(t, completions(&r.g[0]), rules[i].hit ? 1u : 0u);
		inject_delay_off(r.f);

		inject_hold(r.f, &rules[i].m);
		post(&r.g[0], WQE_WRITE, 64);
		fix_advance(&r, 1000 * MS);
		EXPECT_EQ(t, completions(&r.g[0]), rules[i].hit ? 0u : 1u);
		EXPECT_EQ(t, inject_release(r.f), rules[i].hit ? 1u : 0u);
		fix_drain(&r);
		EXPECT_EQ(t, completions(&r.g[0]), rules[i].hit ? 1u : 0u);
		fix_destroy(&r);
	}
}

/* A QP that sends datagrams, at FIX_QPN. */
static void datagram_qp(struct ktest *t, struct fix_guest *g, enum qp_type type)
{
	fix_init_hca(g);
	g->cq_log = 4;
	g->sq_log = 3;
	EXPECT_EQ(t, fix_cq(g, FIX_CQN, 4, PAGE_CQ), ST_OK);
	EXPECT_EQ(t, fix_mr(g, FIX_KEY_INDEX, MPT_LOCAL_READ | MPT_LOCAL_WRITE, FIX_PD), ST_OK);
	if (type == QPT_MLX) /* QP0 */
		EXPECT_EQ(t, fix_cmd(g, OP_CONF_SPECIAL_QP, 0, FIX_QPN), ST_OK);
	fix_qp_ctx(g, type, FIX_CQN);
	EXPECT_EQ(t, fix_cmd(g, OP_RST2INIT, 0, FIX_QPN), ST_OK);
	for (unsigned i = 0; i < 8; i++)
		put_be32(fix_page(g, PAGE_QP) + i * 64, 1u << 31);
	fix_qp_ctx(g, type, FIX_CQN)[8] = 5 << 5 | 12; /* 4 KiB, and no longer message */
	EXPECT_EQ(t, fix_cmd(g, OP_INIT2RTR, 0, FIX_QPN), ST_OK);
	fix_qp_ctx(g, type, FIX_CQN);
	EXPECT_EQ(t, fix_cmd(g, OP_RTR2RTS, 0, FIX_QPN), ST_OK);
}

static void mads_have_a_delay_of_their_own(struct ktest *t)
{
	const uint32_t len = 8 + 12 + 8 + MAD_SIZE; /* LRH, BTH, DETH */
	struct fix_guest *g;
	struct fixture r;

	fix_create(&r);
	g = &r.g[0];
	datagram_qp(t, g, QPT_MLX);
	fix_page(g, PAGE_MR)[1] = 2; /* no GRH */
	put_be16(fix_page(g, PAGE_MR) + 2, SM_LID);
	inject_set_delay(r.f, LIDS(0, 0), 20 * MS, CLS_RC);
	post(g, WQE_SEND, len);
	EXPECT_EQ(t, completions(g), 1u);
	inject_set_delay(r.f, LIDS(1, 0), 20 * MS, CLS_MAD);
	post(g, WQE_SEND, len);
	EXPECT_EQ(t, completions(g), 0u);
	fix_advance(&r, 21 * MS);
	EXPECT_EQ(t, completions(g), 1u);
	inject_set_delay(r.f, LIDS(1, 0), 0, CLS_MAD);
	post(g, WQE_SEND, len);
	EXPECT_EQ(t, completions(g), 1u);
	fix_destroy(&r);
}

/* An empty datagram to FIX_QPN at a port: control and address segments fill the WQE. */
static void post_datagram(struct fix_guest *g, uint16_t dlid)
{
	const uint16_t i = g->sq_tail++;
	uint8_t *w = fix_page(g, PAGE_QP) + g->sq_off + (i & ((1u << g->sq_log) - 1)) * 64u;

	memset(w + 4, 0, 60);
	put_be32(w + 4, 64 / 16);
	put_be32(w + 8, 0xc);
	put_be16(w + 16 + 6, dlid);
	put_be32(w + 16 + 32, FIX_QPN);
	put_be32(w + 16 + 36, BIT(31)); /* with the queue pair's own Q_Key */
	put_be32(w, (i & (1u << g->sq_log) ? BIT(31) : 0) | WQE_SEND);
	fix_ring(g);
}

static void datagrams_are_lost_and_late(struct ktest *t)
{
	struct fix_guest *g;
	struct fixture r;

	fix_create(&r);
	g = &r.g[0];
	datagram_qp(t, g, QPT_UD);
	EXPECT_FALSE(t, fault_loss(r.f, 77, 50));
	EXPECT_TRUE(t, fault_loss(r.f, 2, 100));
	post_datagram(g, 99);
	EXPECT_EQ(t, completions(g), 1u);
	EXPECT_EQ(t, g->h->stats.injected_losses, 0u); /* it is not that port's */
	EXPECT_TRUE(t, fault_loss(r.f, 0, 100));
	post_datagram(g, 99);
	EXPECT_EQ(t, completions(g), 1u);
	EXPECT_EQ(t, g->h->stats.injected_losses, 1u);
	EXPECT_TRUE(t, fault_loss(r.f, 1, 50));
	for (unsigned i = 0; i < 64; i++) {
		post_datagram(g, 99);
		EXPECT_EQ(t, completions(g), 1u);
	}
	EXPECT_EQ(t, g->h->stats.datagrams, 66u);
	EXPECT_TRUE(t, g->h->stats.injected_losses > 17 && g->h->stats.injected_losses < 49);

	EXPECT_TRUE(t, fault_loss(r.f, 1, 0));
	inject_set_delay(r.f, LIDS(0, 0), 20 * MS, CLS_RC | CLS_MAD);
	post_datagram(g, 99);
	EXPECT_EQ(t, completions(g), 1u);
	inject_set_delay(r.f, LIDS(0, 0), 20 * MS, CLS_UD);
	post_datagram(g, 99);
	EXPECT_EQ(t, completions(g), 0u);
	fix_advance(&r, 21 * MS);
	EXPECT_EQ(t, completions(g), 1u);
	fix_destroy(&r);
}

static void datagrams_come_twice(struct ktest *t)
{
	struct fix_guest *g;
	struct fixture r;

	fix_create(&r);
	g = &r.g[0];
	datagram_qp(t, g, QPT_UD);
	for (unsigned i = 0; i < 8; i++)
		fix_post_recv(g, FIX_VA + i * 64ull, 64, FIX_KEY);
	post_datagram(g, 1);
	EXPECT_EQ(t, completions(g), 2u); /* sent, received */
	EXPECT_FALSE(t, fault_duplicate(r.f, 77, 100, CLS_UD));
	EXPECT_TRUE(t, fault_duplicate(r.f, 2, 100, CLS_UD));
	EXPECT_TRUE(t, fault_duplicate(r.f, 1, 100, CLS_MAD));
	post_datagram(g, 1);
	EXPECT_EQ(t, completions(g), 2u); /* neither port nor class */
	EXPECT_TRUE(t, fault_duplicate(r.f, 0, 100, CLS_UD));
	post_datagram(g, 1);
	EXPECT_EQ(t, completions(g), 3u);
	EXPECT_EQ(t, g->h->stats.injected_duplicates, 1u);
	EXPECT_EQ(t, g->h->stats.datagrams, 3u); /* one was sent each time */
	EXPECT_TRUE(t, fault_loss(r.f, 1, 100));
	post_datagram(g, 1);
	EXPECT_EQ(t, completions(g), 1u); /* what is lost is lost once */
	EXPECT_EQ(t, g->h->stats.injected_duplicates, 1u);
	EXPECT_TRUE(t, fault_loss(r.f, 1, 0));
	EXPECT_TRUE(t, fault_duplicate(r.f, 1, 0, CLS_UD));
	post_datagram(g, 1);
	EXPECT_EQ(t, completions(g), 2u);
	fix_destroy(&r);
}

static void mads_come_twice(struct ktest *t)
{
	const uint32_t len = 8 + 12 + 8 + MAD_SIZE;
	struct fix_guest *g;
	struct fixture r;

	fix_create(&r);
	g = &r.g[0];
	datagram_qp(t, g, QPT_MLX);
	fix_page(g, PAGE_MR)[1] = 2; /* no GRH */
	put_be16(fix_page(g, PAGE_MR) + 2, SM_LID);
	EXPECT_TRUE(t, fault_duplicate(r.f, 1, 100, CLS_UD));
	post(g, WQE_SEND, len);
	EXPECT_EQ(t, g->h->stats.mads, 1u);
	EXPECT_TRUE(t, fault_duplicate(r.f, 1, 100, CLS_MAD));
	post(g, WQE_SEND, len);
	EXPECT_EQ(t, g->h->stats.mads, 3u);
	EXPECT_EQ(t, completions(g), 2u);
	EXPECT_EQ(t, g->h->stats.injected_duplicates, 1u);
	fix_destroy(&r);
}

static void bandwidth_is_bounded(struct ktest *t)
{
	struct fixture r;
	unsigned done;

	fix_create(&r);
	fix_connect(&r, 5, 6);
	/* 1 MiB/s, 16 KiB at once: 31 writes of 16 KiB take 30/64 s */
	EXPECT_TRUE(t, fault_bandwidth(r.f, 1, 1024 * KIB, 16 * KIB));
	for (unsigned i = 0; i < 31; i++)
		post(&r.g[0], WQE_WRITE, 16 * KIB);
	done = completions(&r.g[0]);
	EXPECT_EQ(t, done, 1u);
	fix_advance(&r, 234 * MS);
	done += completions(&r.g[0]);
	EXPECT_EQ(t, done, 15u);
	fix_advance(&r, 233 * MS);
	done += completions(&r.g[0]);
	EXPECT_EQ(t, done, 30u);
	fix_advance(&r, 4 * MS);
	done += completions(&r.g[0]);
	EXPECT_EQ(t, done, 31u);
	EXPECT_TRUE(t, r.g[0].h->stats.injected_throttles >= 30);
	fix_destroy(&r);
}

/* The target's bucket binds the requester too, in slices of the burst; data stay right. */
static void bandwidth_of_the_target_binds(struct ktest *t)
{
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	for (unsigned i = 0; i < 64 * KIB; i++)
		fix_page(&r.g[0], PAGE_MR)[i] = (uint8_t)(i * 13 + (i >> 9));
	EXPECT_TRUE(t, fault_bandwidth(r.f, 2, 1024 * KIB, 4 * KIB));
	post(&r.g[0], WQE_WRITE, 64 * KIB);
	fix_drain(&r);
	fix_advance(&r, 58 * MS);
	EXPECT_EQ(t, completions(&r.g[0]), 0u);
	fix_advance(&r, 2 * MS);
	EXPECT_EQ(t, completions(&r.g[0]), 1u);
	EXPECT_MEMEQ(t, fix_page(&r.g[0], PAGE_MR), fix_page(&r.g[1], PAGE_MR) + 0x20000, 64 * KIB);
	EXPECT_TRUE(t, fault_bandwidth(r.f, 0, 0, 4 * KIB));
	post(&r.g[0], WQE_WRITE, 64 * KIB);
	fix_drain(&r);
	EXPECT_EQ(t, completions(&r.g[0]), 1u);
	fix_destroy(&r);
}

static void killed_port_is_silent(struct ktest *t)
{
	struct fixture r;
	const uint8_t *e;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	EXPECT_FALSE(t, fault_kill(r.f, 77, true));
	EXPECT_TRUE(t, fault_kill(r.f, 2, true));
	post(&r.g[0], WQE_WRITE, 64);
	EXPECT_EQ(t, completions(&r.g[0]), 0u);
	EXPECT_TRUE(t, fix_eqe(&r.g[0]) == NULL && fix_eqe(&r.g[1]) == NULL); /* nobody is told */
	EXPECT_EQ(t, r.g[1].h->port.state, PORT_ACTIVE);
	fix_advance(&r, 100 * MS);
	e = fix_cqe(&r.g[0]);
	ASSERT_TRUE(t, e != NULL);
	EXPECT_EQ(t, e[0x1b], SYN_RETRY_EXC);
	EXPECT_EQ(t, r.f->inject.kills, 1u);
	EXPECT_TRUE(t, r.g[0].h->stats.killed_drops >= 3); /* with two retries */
	fix_destroy(&r);
}

static void revived_port_carries_the_retry(struct ktest *t)
{
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	fault_kill(r.f, 1, true);
	post(&r.g[0], WQE_WRITE, 64);
	EXPECT_EQ(t, completions(&r.g[0]), 0u);
	fault_kill(r.f, 1, false);
	fix_advance(&r, 10 * MS);
	EXPECT_EQ(t, completions(&r.g[0]), 1u);
	fix_destroy(&r);
}

static void commands_fail_as_often_as_told(struct ktest *t)
{
	struct fixture r;
	struct fix_guest *g;

	fix_create(&r);
	g = &r.g[0];
	fix_init_hca(g);
	fix_in(g);
	EXPECT_TRUE(t, fault_command(r.f, 1, OP_QUERY_FW, ST_BAD_SIZE, 2, 0));
	EXPECT_FALSE(t, fault_command(r.f, 9, OP_QUERY_FW, ST_BAD_SIZE, 2, 0));
	EXPECT_EQ(t, fix_cmd(g, OP_NOP, 0, 0), ST_OK);
	memset(g->ram + FIX_OUT, 0xee, MAILBOX);
	EXPECT_EQ(t, fix_cmd(g, OP_QUERY_FW, 0, 0), ST_BAD_SIZE);
	EXPECT_EQ(t, fix_out(g)[0], 0xee); /* it did not run */
	EXPECT_EQ(t, fix_cmd(g, OP_QUERY_FW, 0, 0), ST_BAD_SIZE);
	EXPECT_EQ(t, fix_cmd(g, OP_QUERY_FW, 0, 0), ST_OK);
	EXPECT_EQ(t, g->h->stats.injected_command_faults, 2u);
	fault_command(r.f, 1, OP_QUERY_FW, ST_BUSY, 1, 1);
	EXPECT_EQ(t, fix_cmd(g, OP_QUERY_FW, 0, 0), ST_OK);
	EXPECT_EQ(t, fix_cmd(g, OP_QUERY_FW, 0, 0), ST_BUSY);
	EXPECT_EQ(t, fix_cmd(g, OP_QUERY_FW, 0, 0), ST_OK);
	fault_command(r.f, 1, FAULT_OP_ANY, ST_BUSY, 5, 0);
	EXPECT_EQ(t, fix_cmd(g, OP_NOP, 0, 0), ST_BUSY);
	fault_commands_off(r.f);
	EXPECT_EQ(t, fix_cmd(g, OP_NOP, 0, 0), ST_OK);
	fix_init_hca(&r.g[1]); /* the neighbour was not meant */
	fix_destroy(&r);
}

static void go(struct fix_guest *g, uint16_t op)
{
	bar_write(g->h, 0, REG_HCR + 0x18, swap_be32(HCR_GO | op), 4);
}

static uint32_t hcr_word(struct fix_guest *g)
{
	return swap_be32((uint32_t)bar_read(g->h, 0, REG_HCR + 0x18, 4));
}

static void hung_command_ends_with_the_reset(struct ktest *t)
{
	struct fixture r;
	struct fix_guest *g;

	fix_create(&r);
	g = &r.g[0];
	fix_init_hca(g);
	fault_command(r.f, 1, OP_NOP, FAULT_HANG, 1, 0);
	go(g, OP_NOP);
	EXPECT_TRUE(t, hcr_word(g) & HCR_GO);
	go(g, OP_NOP);
	EXPECT_TRUE(t, hcr_word(g) & HCR_GO); /* whatever comes behind it */
	bar_write(g->h, 0, REG_RESET, swap_be32(1), 4);
	EXPECT_FALSE(t, hcr_word(g) & HCR_GO);
	EXPECT_EQ(t, fix_cmd(g, OP_QUERY_FW, 0, 0), ST_OK);
	fix_destroy(&r);
}

static void catastrophe_stops_the_board(struct ktest *t)
{
	struct fixture r;
	struct fix_guest *g;
	const uint8_t *e;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	g = &r.g[0];
	EXPECT_EQ(t, bar_read(g->h, 0, REG_ERRBUF, 4), 0u);
	EXPECT_TRUE(t, fault_catastrophe(r.f, 1, 0x1234));
	EXPECT_EQ(t, swap_be32((uint32_t)bar_read(g->h, 0, REG_ERRBUF, 4)), 0x1234u);
	e = fix_eqe(g);
	ASSERT_TRUE(t, e != NULL);
	EXPECT_EQ(t, e[1], EV_LOCAL_CATAS);
	EXPECT_EQ(t, g->msi[0], 1u);
	EXPECT_TRUE(t, fix_eqe(g) == NULL); /* its last word */
	post(g, WQE_WRITE, 64);
	go(g, OP_NOP);
	EXPECT_TRUE(t, hcr_word(g) & HCR_GO);
	fix_advance(&r, 200 * MS);
	EXPECT_EQ(t, completions(g), 0u);
	post(&r.g[1], WQE_WRITE, 64); /* the peer finds nobody */
	fix_advance(&r, 200 * MS);
	e = fix_cqe(&r.g[1]);
	ASSERT_TRUE(t, e != NULL);
	EXPECT_EQ(t, e[0x1b], SYN_RETRY_EXC);
	fix_destroy(&r);
}

static void board_recovers_from_catastrophe_by_reset(struct ktest *t)
{
	struct fixture r;
	struct fix_guest *g;

	fix_create(&r);
	g = &r.g[0];
	fix_init_hca(g);
	fault_catastrophe(r.f, 1, 1);
	EXPECT_EQ(t, g->h->port.state, PORT_DOWN);
	bar_write(g->h, 0, REG_RESET, swap_be32(1), 4);
	EXPECT_EQ(t, bar_read(g->h, 0, REG_ERRBUF, 4), 0u);
	g->eq_ci = 0;
	fix_init_hca(g);
	EXPECT_EQ(t, g->h->port.state, PORT_ACTIVE);
	EXPECT_EQ(t, g->h->stats.injected_catastrophes, 1u);
	fix_destroy(&r);
}

static void events_come_out_of_the_blue(struct ktest *t)
{
	struct fixture r;
	struct fix_guest *g;
	const uint8_t *e;

	fix_create(&r);
	g = &r.g[0];
	EXPECT_FALSE(t, fault_event(r.f, 77, 5, 0, 0));
	EXPECT_FALSE(t, fault_event(r.f, 1, 5, 0, 0)); /* no event queue yet */
	fix_init_hca(g);
	while (fix_eqe(g))
		;
	EXPECT_TRUE(t, fault_event(r.f, 1, 0x77, 3, 0x123456));
	e = fix_eqe(g);
	ASSERT_TRUE(t, e != NULL);
	EXPECT_EQ(t, e[1], 0x77);
	EXPECT_EQ(t, e[3], 3);
	EXPECT_EQ(t, get_be32(e + 4), 0x123456u);
	fix_destroy(&r);
}

/* Known or not: the message ends with it, what is behind is flushed, and the peer sees nothing. */
static void messages_end_with_any_syndrome(struct ktest *t)
{
	for (unsigned syndrome = 1; syndrome < 256; syndrome += syndrome < 0x23 ? 1 : 55) {
		const uint8_t *e;
		struct fixture r;

		fix_create(&r);
		fix_connect(&r, 3, 4);
		EXPECT_FALSE(t, fault_error(r.f, 77, (uint8_t)syndrome, 1));
		EXPECT_TRUE(t, fault_error(r.f, 1, (uint8_t)syndrome, 1));
		post(&r.g[1], WQE_WRITE, 64);
		EXPECT_EQ(t, completions(&r.g[1]), 1u); /* the other port's */
		inject_hold(r.f, LIDS(1, 2));
		post(&r.g[0], WQE_WRITE, 64);
		post(&r.g[0], WQE_WRITE, 64);
		inject_release(r.f);
		fix_drain(&r);
		e = fix_cqe(&r.g[0]);
		ASSERT_TRUE(t, e != NULL);
		EXPECT_EQ(t, e[31] & 0x5f, 0x40 | CQE_OP_ERROR);
		EXPECT_EQ(t, e[0x1b], syndrome);
		e = fix_cqe(&r.g[0]);
		ASSERT_TRUE(t, e != NULL);
		EXPECT_EQ(t, e[0x1b], SYN_FLUSH);
		EXPECT_EQ(t, r.g[0].h->stats.injected_errors, 1u);
		EXPECT_TRUE(t, fix_eqe(&r.g[1]) == NULL);
		EXPECT_EQ(t, (int)qp_find(r.g[1].h, FIX_QPN)->state, QPS_RTS);
		fix_destroy(&r);
	}
}

/* Whichever queue the next completion is for, though there is room in it. */
static void completions_overrun_on_command(struct ktest *t)
{
	struct fix_guest *g;
	const uint8_t *e;
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	g = &r.g[0];
	EXPECT_FALSE(t, fault_overrun(r.f, 77, 1));
	EXPECT_TRUE(t, fault_overrun(r.f, 1, 1));
	post(&r.g[1], WQE_WRITE, 64);
	EXPECT_EQ(t, completions(&r.g[1]), 1u); /* the other port's */
	EXPECT_EQ(t, g->h->stats.injected_overruns, 0u);
	post(g, WQE_WRITE, 64);
	EXPECT_EQ(t, completions(g), 0u);
	e = fix_eqe(g);
	ASSERT_TRUE(t, e != NULL);
	EXPECT_EQ(t, e[1], EV_CQ_ERROR);
	EXPECT_EQ(t, get_be32(e + 4), FIX_CQN);
	EXPECT_EQ(t, e[0x0f], 1); /* overrun */
	EXPECT_EQ(t, g->h->stats.injected_overruns, 1u);
	EXPECT_EQ(t, g->h->stats.cq_overruns, 1u);
	post(g, WQE_WRITE, 64); /* the queue stays broken; nothing more is told of it */
	EXPECT_EQ(t, completions(g), 0u);
	EXPECT_TRUE(t, fix_eqe(g) == NULL);
	EXPECT_EQ(t, g->h->stats.injected_overruns, 1u);
	fix_destroy(&r);
}

static const struct ktest_case fault_cases[] = {
	KTEST(delays_are_by_class),
	KTEST(delayed_class_keeps_the_order),
	KTEST(rules_are_for_some_connections),
	KTEST(mads_have_a_delay_of_their_own),
	KTEST(datagrams_are_lost_and_late),
	KTEST(datagrams_come_twice),
	KTEST(mads_come_twice),
	KTEST(bandwidth_is_bounded),
	KTEST(bandwidth_of_the_target_binds),
	KTEST(killed_port_is_silent),
	KTEST(revived_port_carries_the_retry),
	KTEST(commands_fail_as_often_as_told),
	KTEST(hung_command_ends_with_the_reset),
	KTEST(events_come_out_of_the_blue),
	KTEST(completions_overrun_on_command),
	KTEST(messages_end_with_any_syndrome),
	KTEST(catastrophe_stops_the_board),
	KTEST(board_recovers_from_catastrophe_by_reset),
	{ 0 },
};
static const struct ktest_suite fault_suite = { .name = "hca.fault", .cases = fault_cases };
KTEST_SUITE(fault_suite);
