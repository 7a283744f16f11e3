/* SPDX-License-Identifier: MIT */
/* HCA model: completion queues, arming, overrun, resize. */
#include <lib/ktest.h>

#include "fixture.h"

#define ARM_SOLICITED 1u
#define ARM_NEXT      2u

static void post_cqe(struct fix_guest *g, bool solicited)
{
	const struct completion c = { .qpn = FIX_QPN, .opcode = RCQE_SEND, .solicited = solicited };

	cq_post(g->h, FIX_CQN, &c);
}

static struct fix_guest *setup(struct fixture *r, unsigned log_size)
{
	struct fix_guest *g = &r->g[0];

	fix_create(r);
	fix_init_hca(g);
	g->cq_log = log_size;
	if (fix_cq(g, FIX_CQN, log_size, PAGE_CQ))
		return NULL;
	return g;
}

/* Take the completion event that is there; false if there is none. */
static bool event(struct fix_guest *g)
{
	const uint8_t *e = fix_eqe(g);

	return e && e[1] == EV_COMP && get_be32(e + 4) == FIX_CQN;
}

static void armed_queue_tells_once(struct ktest *t)
{
	struct fixture r;
	struct fix_guest *g = setup(&r, 4);

	post_cqe(g, false);
	EXPECT_FALSE(t, event(g)); /* not armed */
	EXPECT_TRUE(t, fix_cqe(g) != NULL);
	fix_arm(g, ARM_NEXT);
	EXPECT_FALSE(t, event(g));
	post_cqe(g, false);
	EXPECT_TRUE(t, event(g));
	post_cqe(g, false);
	EXPECT_FALSE(t, event(g)); /* once */
	EXPECT_EQ(t, g->msi[0], 1u);
	fix_destroy(&r);
}

/* Armed while entries wait that no event told of: at once. */
static void arming_behind_an_entry_fires(struct ktest *t)
{
	struct fixture r;
	struct fix_guest *g = setup(&r, 4);

	post_cqe(g, false);
	fix_arm(g, ARM_NEXT);
	EXPECT_TRUE(t, event(g));
	/* The program arms again before it polls: the same entry must not fire twice. */
	fix_arm(g, ARM_NEXT);
	EXPECT_FALSE(t, event(g));
	EXPECT_TRUE(t, fix_cqe(g) != NULL);
	EXPECT_TRUE(t, fix_cqe(g) == NULL);
	/* It is armed all the same. */
	post_cqe(g, false);
	EXPECT_TRUE(t, event(g));
	/* A new entry between the event and the arming fires. */
	post_cqe(g, false);
	fix_arm(g, ARM_NEXT);
	EXPECT_TRUE(t, event(g));
	fix_destroy(&r);
}

static void solicited_arm_waits_for_solicited(struct ktest *t)
{
	const struct completion error = { .qpn = FIX_QPN, .syndrome = SYN_FLUSH };
	struct fixture r;
	struct fix_guest *g = setup(&r, 4);

	fix_arm(g, ARM_SOLICITED);
	post_cqe(g, false);
	EXPECT_FALSE(t, event(g));
	post_cqe(g, true);
	EXPECT_TRUE(t, event(g));
	fix_arm(g, ARM_SOLICITED);
	EXPECT_FALSE(t, event(g)); /* told of already */
	cq_post(g->h, FIX_CQN, &error);
	EXPECT_TRUE(t, event(g)); /* an error counts */
	fix_destroy(&r);
}

static unsigned answers;

static void answer(struct hca *h, uint32_t val)
{
	(void)h;
	(void)val;
	answers++;
}

/* A read of the wait register ends with what comes, or with its time. */
static void a_read_waits_for_an_entry(struct ktest *t)
{
	struct fixture r;
	struct fix_guest *g = setup(&r, 4);
	struct front_ops ops = *g->h->front;

	ops.answer = answer;
	g->h->front = &ops;
	answers = 0;
	/* The board's start has written events. */
	(void)hca_wait_begin(g->h, 0, REG_WAIT, 4);
	ASSERT_TRUE(t, hca_wait_begin(g->h, 0, REG_WAIT + 4 * 2, 4));
	fix_advance(&r, (WAIT_UNIT_US << 2) * 1000 - 1);
	EXPECT_EQ(t, answers, 0u);
	fix_advance(&r, 1);
	EXPECT_EQ(t, answers, 1u);
	/* An entry from before it began ends it at once, a later one as it comes. */
	post_cqe(g, false);
	EXPECT_FALSE(t, hca_wait_begin(g->h, 0, REG_WAIT, 4));
	ASSERT_TRUE(t, hca_wait_begin(g->h, 0, REG_WAIT_END - 4, 4));
	EXPECT_EQ(t, answers, 1u);
	post_cqe(g, false);
	post_cqe(g, false);
	EXPECT_EQ(t, answers, 1u); /* the doorbell that writes them is not over */
	hca_wait_flush(r.f);
	EXPECT_EQ(t, answers, 2u);
	ASSERT_TRUE(t, hca_wait_begin(g->h, 0, REG_WAIT, 4)); /* these have been told of */
	fix_arm(g, ARM_NEXT);
	EXPECT_EQ(t, answers, 2u);
	post_cqe(g, false);
	hca_wait_flush(r.f);
	EXPECT_EQ(t, answers, 3u);
	EXPECT_TRUE(t, event(g));
	/* It is no other register, and a board that has failed answers. */
	EXPECT_FALSE(t, hca_wait_begin(g->h, 0, REG_WAIT_END, 4));
	EXPECT_FALSE(t, hca_wait_begin(g->h, 0, REG_WAIT, 8));
	EXPECT_FALSE(t, hca_wait_begin(g->h, 2, REG_WAIT, 4));
	(void)hca_wait_begin(g->h, 0, REG_WAIT, 4); /* the event */
	g->h->dead = true;
	EXPECT_FALSE(t, hca_wait_begin(g->h, 0, REG_WAIT, 4));
	g->h->dead = false;
	/* The VM leaves while it waits. */
	ASSERT_TRUE(t, hca_wait_begin(g->h, 0, REG_WAIT, 4));
	post_cqe(g, false);
	hca_wait_drop(g->h);
	hca_wait_flush(r.f);
	fix_advance(&r, 1000000);
	EXPECT_EQ(t, answers, 3u);
	fix_destroy(&r);
}

static void overrun_breaks_the_queue(struct ktest *t)
{
	const uint8_t *e;
	struct fixture r;
	struct fix_guest *g = setup(&r, 2);

	for (unsigned i = 0; i < 4; i++)
		post_cqe(g, false);
	EXPECT_TRUE(t, fix_eqe(g) == NULL);
	post_cqe(g, false);
	e = fix_eqe(g);
	ASSERT_TRUE(t, e != NULL);
	EXPECT_EQ(t, e[1], EV_CQ_ERROR);
	EXPECT_EQ(t, get_be32(e + 4), FIX_CQN);
	EXPECT_EQ(t, e[0x0f], 1);
	for (unsigned i = 0; i < 4; i++)
		EXPECT_TRUE(t, fix_cqe(g) != NULL);
	post_cqe(g, false);
	EXPECT_TRUE(t, fix_cqe(g) == NULL);
	fix_destroy(&r);
}

/* The marker takes an index; the new buffer goes on after it. */
static void resize_goes_on_at_the_next_index(struct ktest *t)
{
	struct fixture r;
	struct fix_guest *g = setup(&r, 2);
	const uint8_t *e;
	uint8_t *in;

	for (unsigned i = 0; i < 5; i++) {
		post_cqe(g, false);
		EXPECT_TRUE(t, fix_cqe(g) != NULL);
	}
	in = fix_in(g);
	in[0x0c] = 3;
	put_be32(in + 0x1c, (PAGE_CQ + 1) * 8);
	EXPECT_EQ(t, fix_cmd(g, OP_MODIFY_CQ, 0, FIX_CQN), ST_OK);
	e = fix_cqe(g);
	ASSERT_TRUE(t, e != NULL);
	EXPECT_EQ(t, e[31] & 0x1f, CQE_OP_RESIZE);
	for (unsigned i = 6; i < 30; i++) {
		const uint8_t *n = fix_page(g, PAGE_CQ + 1) + (i & 7) * 32;

		EXPECT_NE(t, n[31] >> 7, i >> 3 & 1); /* not ours yet */
		post_cqe(g, false);
		EXPECT_EQ(t, n[31] >> 7, i >> 3 & 1);
		put_be32(g->ram + FIX_DB, i + 1);
	}
	fix_destroy(&r);
}

static void bad_doorbells_are_counted(struct ktest *t)
{
	static const struct {
		uint64_t off, val;
		unsigned size;
	} cases[] = {
		{ FIX_UAR * 4096 + 0x14, ~0ull, 4 },    /* no such QP */
		{ FIX_UAR * 4096 + 0x14, 0, 8 },        /* wrong width */
		{ FIX_UAR * 4096 + 0x20, ~0ull, 8 },    /* no such CQ */
		{ FIX_UAR * 4096 + 0x24, ~0ull, 4 },    /* second half alone */
		{ FIX_UAR * 4096 + 0x800, 0x80, 4 },    /* no such EQ */
		{ 2 * 4096 + 0x800, 0xffffff00ull, 4 }, /* consumer beyond the producer */
		{ 15 * 4096 + 0x30, 0, 4 },
		{ 16 * 4096 + 0x14, 0, 4 }, /* beyond the UARs of INIT_HCA */
		{ BAR2_SIZE - 4, 0, 4 },
	};
	struct fixture r;
	struct fix_guest *g = setup(&r, 2);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const uint64_t before = g->h->stats.bad_doorbells;

		bar_write(g->h, 2, cases[i].off, cases[i].val, cases[i].size);
		EXPECT_EQ(t, g->h->stats.bad_doorbells, before + 1);
	}
	fix_destroy(&r);
}

/* MODIFY_CQ: an event after @count entries or @us. */
static enum hca_status moderate(struct fix_guest *g, unsigned us, unsigned count)
{
	uint8_t *in = fix_in(g);

	put_be16(in + 0x10, (uint16_t)us);
	put_be16(in + 0x12, (uint16_t)count);
	return fix_cmd(g, OP_MODIFY_CQ, 1, FIX_CQN);
}

static void moderation_waits_for_the_count(struct ktest *t)
{
	struct fixture r;
	struct fix_guest *g = setup(&r, 4);

	EXPECT_EQ(t, moderate(g, 1000, 3), ST_OK);
	fix_arm(g, ARM_NEXT);
	post_cqe(g, false);
	post_cqe(g, false);
	EXPECT_FALSE(t, event(g));
	post_cqe(g, false);
	EXPECT_TRUE(t, event(g));
	fix_advance(&r, 2 * NSEC_PER_MSEC);
	EXPECT_FALSE(t, event(g)); /* the timer went with it */
	fix_destroy(&r);
}

static void moderation_waits_no_longer_than_its_period(struct ktest *t)
{
	struct fixture r;
	struct fix_guest *g = setup(&r, 4);

	EXPECT_EQ(t, moderate(g, 1000, 3), ST_OK);
	fix_arm(g, ARM_NEXT);
	post_cqe(g, false);
	fix_advance(&r, 999 * NSEC_PER_USEC);
	post_cqe(g, false); /* the period is that of the first */
	EXPECT_FALSE(t, event(g));
	fix_advance(&r, 2 * NSEC_PER_USEC);
	EXPECT_TRUE(t, event(g));
	EXPECT_FALSE(t, event(g));
	fix_arm(g, ARM_NEXT); /* nothing new */
	fix_advance(&r, 5 * NSEC_PER_MSEC);
	EXPECT_FALSE(t, event(g));
	post_cqe(g, false);
	EXPECT_EQ(t, moderate(g, 0, 3), ST_OK); /* off: at once */
	EXPECT_TRUE(t, event(g));
	fix_destroy(&r);
}

/* A queue that goes away takes its timer along. */
static void moderated_queue_can_be_destroyed(struct ktest *t)
{
	struct fixture r;
	struct fix_guest *g = setup(&r, 4);

	EXPECT_EQ(t, moderate(g, 1000, 0), ST_OK);
	fix_arm(g, ARM_NEXT);
	post_cqe(g, false);
	EXPECT_EQ(t, fix_cmd(g, OP_HW2SW_CQ, 1, FIX_CQN), ST_OK);
	fix_advance(&r, 5 * NSEC_PER_MSEC);
	EXPECT_FALSE(t, event(g));
	fix_destroy(&r);
}

static const struct ktest_case cq_cases[] = {
	KTEST(armed_queue_tells_once),
	KTEST(arming_behind_an_entry_fires),
	KTEST(a_read_waits_for_an_entry),
	KTEST(solicited_arm_waits_for_solicited),
	KTEST(overrun_breaks_the_queue),
	KTEST(resize_goes_on_at_the_next_index),
	KTEST(moderation_waits_for_the_count),
	KTEST(moderation_waits_no_longer_than_its_period),
	KTEST(moderated_queue_can_be_destroyed),
	KTEST(bad_doorbells_are_counted),
	{ 0 },
};
static const struct ktest_suite cq_suite = { .name = "hca.cq", .cases = cq_cases };
KTEST_SUITE(cq_suite);
