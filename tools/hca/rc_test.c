/* SPDX-License-Identifier: MIT */
/* HCA model: RC messages, their errors, and what fault injection does to them. */
#include <lib/ktest.h>

#include "fixture.h"

#define MS NSEC_PER_MSEC

static const struct fix_wr write_wr = { .opcode = WQE_WRITE,
					.raddr = FIX_VA + 0x3000,
					.rkey = FIX_KEY,
					.laddr = FIX_VA + 0x100,
					.len = 6000,
					.lkey = FIX_KEY };

static void fill(struct fix_guest *g, unsigned off, unsigned len, unsigned seed)
{
	for (unsigned i = 0; i < len; i++)
		fix_page(g, PAGE_MR)[off + i] = (uint8_t)(i * 7 + seed + (i >> 8));
}

/* One completion with this syndrome, of this WQE. */
static void expect_cqe(struct ktest *t, struct fix_guest *g, bool send, unsigned syndrome,
		       unsigned wqe)
{
	const uint8_t *e = fix_cqe(g);

	ASSERT_TRUE(t, e != NULL);
	EXPECT_EQ(t, (e[31] & 0x40) != 0, send);
	EXPECT_EQ(t, get_be32(e), FIX_QPN);
	if (syndrome) {
		EXPECT_EQ(t, e[31] & 0x1f, CQE_OP_ERROR);
		EXPECT_EQ(t, e[0x1b], syndrome);
	} else {
		EXPECT_NE(t, e[31] & 0x1f, CQE_OP_ERROR);
	}
	if (send)
		EXPECT_EQ(t, get_be16(e + 0x18), wqe);
}

static void expect_no_cqe(struct ktest *t, struct fix_guest *g)
{
	EXPECT_TRUE(t, fix_cqe(g) == NULL);
}

static void write_read_and_send_move_data(struct ktest *t)
{
	struct fix_wr wr = write_wr;
	struct fix_guest *a, *b;
	const uint8_t *e;
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	a = &r.g[0];
	b = &r.g[1];
	fill(a, 0x100, 6000, 1);
	fix_post(a, &wr);
	fix_ring(a);
	expect_cqe(t, a, true, 0, 0);
	expect_no_cqe(t, b);
	EXPECT_MEMEQ(t, fix_page(b, PAGE_MR) + 0x3000, fix_page(a, PAGE_MR) + 0x100, 6000);
	EXPECT_EQ(t, fix_page(b, PAGE_MR)[0x3000 + 6000], 0);

	fill(b, 0x9000, 5000, 9);
	wr.opcode = WQE_READ;
	wr.raddr = FIX_VA + 0x9000;
	wr.len = 5000;
	fix_post(a, &wr);
	fix_ring(a);
	e = fix_cqe(a);
	ASSERT_TRUE(t, e != NULL);
	EXPECT_EQ(t, get_be32(e + 0x14), 5000u);
	EXPECT_MEMEQ(t, fix_page(a, PAGE_MR) + 0x100, fix_page(b, PAGE_MR) + 0x9000, 5000);

	fix_post_recv(b, FIX_VA + 0x20000, 8192, FIX_KEY);
	wr.opcode = WQE_SEND_IMM;
	wr.imm = 0xcafe1234;
	fix_post(a, &wr);
	fix_ring(a);
	expect_cqe(t, a, true, 0, 2);
	e = fix_cqe(b);
	ASSERT_TRUE(t, e != NULL);
	EXPECT_EQ(t, e[31] & 0x5f, RCQE_SEND_IMM);
	EXPECT_EQ(t, get_be32(e + 4), 0xcafe1234u);
	EXPECT_EQ(t, get_be32(e + 0x14), 5000u);
	EXPECT_MEMEQ(t, fix_page(b, PAGE_MR) + 0x20000, fix_page(a, PAGE_MR) + 0x100, 5000);
	fix_destroy(&r);
}

static void atomics_return_the_old_value(struct ktest *t)
{
	struct fix_wr wr = { .opcode = WQE_FAA,
			     .raddr = FIX_VA + 64,
			     .rkey = FIX_KEY,
			     .swap = 5,
			     .laddr = FIX_VA,
			     .len = 8,
			     .lkey = FIX_KEY };
	struct fix_guest *a, *b;
	uint64_t v = 37;
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	a = &r.g[0];
	b = &r.g[1];
	memcpy(fix_page(b, PAGE_MR) + 64, &v, 8);
	fix_post(a, &wr);
	wr.opcode = WQE_CAS;
	wr.swap = 1000;
	wr.compare = 42;
	wr.laddr = FIX_VA + 8;
	fix_post(a, &wr);
	wr.compare = 41;
	wr.swap = 1;
	wr.laddr = FIX_VA + 16;
	fix_post(a, &wr);
	fix_ring(a);
	for (unsigned i = 0; i < 3; i++)
		expect_cqe(t, a, true, 0, i);
	memcpy(&v, fix_page(b, PAGE_MR) + 64, 8);
	EXPECT_EQ(t, v, 1000u);
	memcpy(&v, fix_page(a, PAGE_MR), 8);
	EXPECT_EQ(t, v, 37u);
	memcpy(&v, fix_page(a, PAGE_MR) + 8, 8);
	EXPECT_EQ(t, v, 42u);
	memcpy(&v, fix_page(a, PAGE_MR) + 16, 8);
	EXPECT_EQ(t, v, 1000u);
	wr.raddr = FIX_VA + 65; /* not aligned */
	fix_post(a, &wr);
	fix_ring(a);
	expect_cqe(t, a, true, SYN_REM_INV_REQ, 3);
	fix_destroy(&r);
}

/* Owner bits on both rings stay right over several laps; unsignalled WQEs say nothing. */
static void rings_wrap(struct ktest *t)
{
	struct fix_wr wr = write_wr;
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 2, 2);
	wr.len = 64;
	for (unsigned i = 0; i < 23; i++) {
		wr.unsignaled = i % 3 == 0;
		fix_post(&r.g[0], &wr);
		fix_ring(&r.g[0]);
		if (!wr.unsignaled)
			expect_cqe(t, &r.g[0], true, 0, i);
		expect_no_cqe(t, &r.g[0]);
	}
	fix_ring(&r.g[0]); /* a doorbell that finds nothing */
	expect_no_cqe(t, &r.g[0]);
	EXPECT_EQ(t, r.g[0].h->stats.writes, 23u);
	fix_destroy(&r);
}

enum side_effect {
	NOTHING,
	NO_WRITE_RIGHT, /* of the responder's QP */
	SMALL_RECV,
	BAD_RECV_KEY,
	NO_RECV,
};

static void errors_complete_as_hardware_would(struct ktest *t)
{
	static const struct {
		uint8_t opcode;
		uint32_t rkey, lkey;
		uint64_t raddr;
		enum side_effect effect;
		enum cqe_syndrome send, recv;
		enum hca_event event; /* at the responder, 0 = none */
	} cases[] = {
		{ WQE_WRITE, FIX_KEY + 1, FIX_KEY, FIX_VA, NOTHING, SYN_REM_ACCESS, 0,
		  EV_WQ_ACCESS },
		{ WQE_WRITE, FIX_KEY, FIX_KEY, FIX_VA + FIX_LEN - 10, NOTHING, SYN_REM_ACCESS, 0,
		  EV_WQ_ACCESS },
		{ WQE_READ, FIX_KEY, FIX_KEY, FIX_VA - 1, NOTHING, SYN_REM_ACCESS, 0,
		  EV_WQ_ACCESS },
		{ WQE_WRITE, FIX_KEY, FIX_KEY + 1, FIX_VA, NOTHING, SYN_LOCAL_PROT, 0, 0 },
		{ WQE_READ, FIX_KEY, 0, FIX_VA, NOTHING, SYN_LOCAL_PROT, 0, 0 },
		{ WQE_WRITE, FIX_KEY, FIX_KEY, FIX_VA, NO_WRITE_RIGHT, SYN_REM_INV_REQ, 0,
		  EV_WQ_INVAL_REQ },
		{ WQE_SEND, 0, FIX_KEY, 0, SMALL_RECV, SYN_REM_INV_REQ, SYN_LOCAL_LENGTH, 0 },
		{ WQE_SEND, 0, FIX_KEY, 0, BAD_RECV_KEY, SYN_REM_OP, SYN_LOCAL_PROT, 0 },
		{ WQE_SEND, 0, FIX_KEY, 0, NO_RECV, SYN_RNR_EXC, 0, 0 },
		{ 0x13, 0, FIX_KEY, 0, NOTHING, SYN_LOCAL_QP_OP, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fix_wr wr = write_wr;
		struct fix_guest *a, *b;
		const uint8_t *e;
		struct fixture r;

		fix_create(&r);
		fix_connect(&r, 3, 4);
		a = &r.g[0];
		b = &r.g[1];
		wr.opcode = cases[i].opcode;
		wr.rkey = cases[i].rkey;
		wr.lkey = cases[i].lkey;
		wr.raddr = cases[i].raddr;
		wr.unsignaled = true; /* an error completes all the same */
		qp_find(b->h, FIX_QPN)->rwe = cases[i].effect != NO_WRITE_RIGHT;
		if (cases[i].effect == SMALL_RECV)
			fix_post_recv(b, FIX_VA, 5999, FIX_KEY);
		if (cases[i].effect == BAD_RECV_KEY)
			fix_post_recv(b, FIX_VA, 8192, FIX_KEY + 1);
		fix_post(a, &wr);
		wr = write_wr;
		fix_post(a, &wr);
		fix_ring(a);
		fix_advance(&r, 10 * MS);
		expect_cqe(t, a, true, cases[i].send, 0);
		expect_cqe(t, a, true, SYN_FLUSH, 1);
		expect_no_cqe(t, a);
		if (cases[i].recv)
			expect_cqe(t, b, false, cases[i].recv, 0);
		expect_no_cqe(t, b);
		EXPECT_EQ(t, (int)qp_find(a->h, FIX_QPN)->state, QPS_ERR);
		e = fix_eqe(b);
		EXPECT_EQ(t, e ? e[1] : 0, cases[i].event);
		/* nothing was written */
		for (unsigned k = 0; k < FIX_LEN; k += 64)
			EXPECT_EQ(t, fix_page(b, PAGE_MR)[k], 0);
		fix_destroy(&r);
	}
}

/* Keys of another protection domain, without the right, of another variant, beyond the end. */
static void a_key_opens_only_what_it_is_for(struct ktest *t)
{
#define ALL_RIGHTS \
	(MPT_LOCAL_READ | MPT_LOCAL_WRITE | MPT_REMOTE_READ | MPT_REMOTE_WRITE | MPT_ATOMIC)
	static const struct {
		uint8_t opcode;
		uint32_t pd, flags;
		uint32_t variant; /* what the key's is off by */
		uint64_t off;     /* in the region */
		bool ok;
	} cases[] = {
		{ WQE_WRITE, FIX_PD, ALL_RIGHTS, 0, 0, true },
		{ WQE_READ, FIX_PD, ALL_RIGHTS, 0, 0, true },
		{ WQE_WRITE, FIX_PD + 1, ALL_RIGHTS, 0, 0, false },
		{ WQE_READ, FIX_PD + 1, ALL_RIGHTS, 0, 0, false },
		{ WQE_FAA, FIX_PD + 1, ALL_RIGHTS, 0, 0, false },
		{ WQE_WRITE, FIX_PD, ALL_RIGHTS & ~MPT_REMOTE_WRITE, 0, 0, false },
		{ WQE_READ, FIX_PD, ALL_RIGHTS & ~MPT_REMOTE_READ, 0, 0, false },
		{ WQE_FAA, FIX_PD, ALL_RIGHTS & ~MPT_ATOMIC, 0, 0, false },
		{ WQE_WRITE, FIX_PD, ALL_RIGHTS, 1, 0, false },
		{ WQE_WRITE, FIX_PD, ALL_RIGHTS, 0x80, 0, false },
		{ WQE_WRITE, FIX_PD, ALL_RIGHTS, 0, FIX_LEN - 7, false },
		{ WQE_WRITE, FIX_PD, ALL_RIGHTS, 0, UINT64_MAX - 6, false },
	};
	const uint32_t index = 0x41000022; /* a region beside the one of the fixture */

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fix_wr wr = write_wr;
		struct fix_guest *a, *b;
		struct fixture r;
		const uint8_t *e;

		fix_create(&r);
		fix_connect(&r, 3, 4);
		a = &r.g[0];
		b = &r.g[1];
		EXPECT_EQ(t, fix_mr(b, index, cases[i].flags, cases[i].pd), ST_OK);
		fill(a, 0x100, 8, 1);
		wr.opcode = cases[i].opcode;
		wr.rkey = (index << 8 | index >> 24) ^ cases[i].variant;
		wr.raddr = FIX_VA + cases[i].off;
		wr.len = 8;
		fix_post(a, &wr);
		fix_ring(a);
		expect_cqe(t, a, true, cases[i].ok ? 0 : SYN_REM_ACCESS, 0);
		e = fix_eqe(b);
		EXPECT_EQ(t, e ? e[1] : 0, cases[i].ok ? 0 : EV_WQ_ACCESS);
		for (unsigned k = 0; k < FIX_LEN; k++)
			if (!cases[i].ok && fix_page(b, PAGE_MR)[k])
				EXPECT_EQ(t, k, FIX_LEN);
		fix_destroy(&r);
	}
#undef ALL_RIGHTS
}

/* Two retries of four times 2^8 * 4.096 us: the third silence is the last. */
static void silence_ends_in_retry_exceeded(struct ktest *t)
{
	const uint64_t timeout = (4096ull << 8) * 4;
	struct fix_guest *a;
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	a = &r.g[0];
	EXPECT_EQ(t, fix_cmd(&r.g[1], OP_2RST, 2, FIX_QPN), ST_OK);
	fix_post(a, &write_wr);
	fix_ring(a);
	fix_advance(&r, 2 * timeout - 1000);
	expect_no_cqe(t, a);
	fix_advance(&r, 2000);
	expect_cqe(t, a, true, SYN_RETRY_EXC, 0);
	EXPECT_EQ(t, a->h->stats.retries, 2u);
	fix_destroy(&r);
}

static void wrong_sequence_number_is_not_answered(struct ktest *t)
{
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	qp_find(r.g[1].h, FIX_QPN)->recv_psn++;
	fix_post(&r.g[0], &write_wr);
	fix_ring(&r.g[0]);
	fix_advance(&r, 100 * MS);
	expect_cqe(t, &r.g[0], true, SYN_RETRY_EXC, 0);
	fix_destroy(&r);
}

static void late_receive_ends_the_rnr_wait(struct ktest *t)
{
	struct fix_wr wr = write_wr;
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	wr.opcode = WQE_SEND;
	fix_post(&r.g[0], &wr);
	fix_ring(&r.g[0]);
	expect_no_cqe(t, &r.g[0]);
	EXPECT_EQ(t, r.g[1].h->stats.rnr_naks, 1u);
	fix_post_recv(&r.g[1], FIX_VA, 8192, FIX_KEY);
	fix_advance(&r, MS);
	expect_cqe(t, &r.g[0], true, 0, 0);
	expect_cqe(t, &r.g[1], false, 0, 0);
	fix_destroy(&r);
}

/* A receive that is posted to a QP in error is flushed, though no doorbell tells of it. */
static void receives_are_flushed(struct ktest *t)
{
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	fix_post_recv(&r.g[0], FIX_VA, 64, FIX_KEY);
	fix_post_recv(&r.g[0], FIX_VA, 64, FIX_KEY);
	EXPECT_EQ(t, fix_cmd(&r.g[0], OP_2ERR, 0, FIX_QPN), ST_OK);
	fix_drain(&r);
	expect_cqe(t, &r.g[0], false, SYN_FLUSH, 0);
	expect_cqe(t, &r.g[0], false, SYN_FLUSH, 1);
	fix_advance(&r, 50 * MS);
	expect_no_cqe(t, &r.g[0]);
	fix_post_recv(&r.g[0], FIX_VA, 64, FIX_KEY);
	fix_advance(&r, 150 * MS);
	expect_cqe(t, &r.g[0], false, SYN_FLUSH, 2);
	fix_destroy(&r);
}

static void delay_keeps_order_and_time(struct ktest *t)
{
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	inject_set_delay(r.f, LIDS(0, 0), 50 * MS, CLS_RC);
	fix_post(&r.g[0], &write_wr);
	fix_ring(&r.g[0]);
	fix_advance(&r, 30 * MS);
	fix_post(&r.g[0], &write_wr);
	fix_ring(&r.g[0]);
	expect_no_cqe(t, &r.g[0]);
	fix_advance(&r, 21 * MS); /* 51: the first is due, the second is not */
	expect_cqe(t, &r.g[0], true, 0, 0);
	expect_no_cqe(t, &r.g[0]);
	fix_advance(&r, 30 * MS);
	expect_cqe(t, &r.g[0], true, 0, 1);
	EXPECT_EQ(t, r.g[0].h->stats.injected_delays, 2u);
	inject_delay_off(r.f);
	fix_post(&r.g[0], &write_wr);
	fix_ring(&r.g[0]);
	expect_cqe(t, &r.g[0], true, 0, 2);
	fix_destroy(&r);
}

/* Messages without a delay in between, more than an index counts, do not confuse the stamps. */
static void delay_works_again_after_many_messages(struct ktest *t)
{
	struct fix_wr wr = write_wr;
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	wr.len = 8;
	wr.unsignaled = true;
	inject_set_delay(r.f, LIDS(0, 0), MS, CLS_RC);
	fix_post(&r.g[0], &wr);
	fix_ring(&r.g[0]);
	fix_advance(&r, 2 * MS);
	inject_delay_off(r.f);
	inject_set_delay(r.f, LIDS(0, 0), 0, CLS_RC);
	for (unsigned i = 0; i < 40000; i++) {
		fix_post(&r.g[0], &wr);
		fix_ring(&r.g[0]);
	}
	EXPECT_EQ(t, r.g[0].h->stats.writes, 40001u);
	inject_set_delay(r.f, LIDS(0, 0), 50 * MS, CLS_RC);
	fix_post(&r.g[0], &write_wr);
	fix_ring(&r.g[0]);
	fix_advance(&r, 49 * MS);
	expect_no_cqe(t, &r.g[0]);
	fix_advance(&r, 2 * MS);
	expect_cqe(t, &r.g[0], true, 0, 40001 & 0xffff);
	fix_destroy(&r);
}

static void wrong_gid_is_not_answered(struct ktest *t)
{
	struct qp *qp;
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	qp = qp_find(r.g[0].h, FIX_QPN);
	qp->path.grh = true;
	port_gid(r.g[1].h, 0, qp->path.dgid);
	EXPECT_TRUE(t, rc_peer(qp) != NULL);
	qp->path.dgid[15]++;
	EXPECT_TRUE(t, rc_peer(qp) == NULL);
	fix_destroy(&r);
}

static void hold_rests_until_release(struct ktest *t)
{
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	inject_hold(r.f, LIDS(2, 1));
	fix_post(&r.g[0], &write_wr);
	fix_ring(&r.g[0]);
	fix_advance(&r, 10000 * MS);
	expect_no_cqe(t, &r.g[0]);
	EXPECT_EQ(t, inject_release(r.f), 1u);
	fix_drain(&r);
	expect_cqe(t, &r.g[0], true, 0, 0);
	fix_destroy(&r);
}

static void break_fails_both_sides(struct ktest *t)
{
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	fix_post_recv(&r.g[1], FIX_VA, 64, FIX_KEY);
	inject_hold(r.f, LIDS(1, 2));
	fix_post(&r.g[0], &write_wr);
	fix_post(&r.g[0], &write_wr);
	fix_ring(&r.g[0]);
	EXPECT_EQ(t, inject_break(r.f, 1, 2), 1u);
	fix_drain(&r);
	expect_cqe(t, &r.g[0], true, SYN_RETRY_EXC, 0);
	expect_cqe(t, &r.g[0], true, SYN_FLUSH, 1);
	expect_cqe(t, &r.g[1], false, SYN_FLUSH, 0);
	EXPECT_EQ(t, r.f->inject.breaks, 1u);
	EXPECT_EQ(t, inject_break(r.f, 1, 2), 0u);
	fix_destroy(&r);
}

static void link_down_silences_the_port(struct ktest *t)
{
	const uint8_t *e;
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	EXPECT_TRUE(t, inject_link(r.f, 2, true));
	EXPECT_FALSE(t, inject_link(r.f, 77, true));
	e = fix_eqe(&r.g[1]);
	ASSERT_TRUE(t, e != NULL);
	EXPECT_EQ(t, e[1], EV_PORT_CHANGE);
	EXPECT_EQ(t, e[3], EV_SUB_PORT_DOWN);
	fix_post(&r.g[0], &write_wr);
	fix_ring(&r.g[0]);
	fix_advance(&r, 5 * MS);
	expect_no_cqe(t, &r.g[0]);
	EXPECT_TRUE(t, inject_link(r.f, 2, false));
	fix_advance(&r, 10 * MS); /* the next retry gets through */
	expect_cqe(t, &r.g[0], true, 0, 0);
	fix_destroy(&r);
}

/* A message longer than one turn is finished in later ones, and completes once. */
static void long_message_takes_turns(struct ktest *t)
{
	struct fix_wr wr = write_wr;
	struct fix_guest *a, *b;
	struct sge sge[1];
	struct stream src, dst;
	struct fixture r;

	fix_create(&r);
	fix_connect(&r, 3, 4);
	a = &r.g[0];
	b = &r.g[1];
	wr.laddr = FIX_VA;
	wr.raddr = FIX_VA;
	wr.len = FIX_LEN;
	fill(a, 0, FIX_LEN, 5);
	{
		uint64_t bytes = 100000; /* less than the message: the same as a used-up turn */
		struct qp *qp = qp_find(a->h, FIX_QPN);
		struct wqe w;

		fix_post(a, &wr);
		ASSERT_EQ(t, (int)wqe_fetch(qp, 0, &w), SYN_OK);
		EXPECT_EQ(t, (int)rc_run_head(qp, &w, &bytes), RUN_MORE);
		EXPECT_EQ(t, qp->progress, 100000u);
		expect_no_cqe(t, a);
	}
	fix_ring(a);
	expect_cqe(t, a, true, 0, 0);
	expect_no_cqe(t, a);
	EXPECT_MEMEQ(t, fix_page(b, PAGE_MR), fix_page(a, PAGE_MR), FIX_LEN);
	/* and a stream over nothing ends at once */
	stream_init(&src, a->h, FIX_PD, 0, sge, 0);
	stream_init(&dst, b->h, FIX_PD, 0, sge, 0);
	EXPECT_EQ(t, (int)stream_copy(&dst, &src, 1), COPY_SRC);
	fix_destroy(&r);
}

static const struct ktest_case rc_cases[] = {
	KTEST(write_read_and_send_move_data),
	KTEST(atomics_return_the_old_value),
	KTEST(rings_wrap),
	KTEST(errors_complete_as_hardware_would),
	KTEST(a_key_opens_only_what_it_is_for),
	KTEST(silence_ends_in_retry_exceeded),
	KTEST(wrong_sequence_number_is_not_answered),
	KTEST(late_receive_ends_the_rnr_wait),
	KTEST(receives_are_flushed),
	KTEST(delay_keeps_order_and_time),
	KTEST(delay_works_again_after_many_messages),
	KTEST(wrong_gid_is_not_answered),
	KTEST(hold_rests_until_release),
	KTEST(break_fails_both_sides),
	KTEST(link_down_silences_the_port),
	KTEST(long_message_takes_turns),
	{ 0 },
};
static const struct ktest_suite rc_suite = { .name = "hca.rc", .cases = rc_cases };
KTEST_SUITE(rc_suite);
