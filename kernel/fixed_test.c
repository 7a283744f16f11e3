/* SPDX-License-Identifier: MIT */
/*
 * The fixed order of real-time threads.
 */
#include <lib/ktest.h>

#include <kernel/fair.h>

#define MS    1000000ull
#define SLICE (3 * MS)

static struct fair_queue q;

static struct fair_entity entity(enum fair_order order, unsigned int prio)
{
	struct fair_entity e;

	fair_entity_init(&e, FAIR_WEIGHT_MEAN, SLICE);
	e.fixed = (struct fair_fixed){ .order = (uint8_t)order, .prio = (uint8_t)prio };
	return e;
}

static struct fair_entity server(uint64_t runtime, uint64_t deadline, uint64_t period, uint64_t now)
{
	struct fair_entity e = entity(FAIR_DEADLINE, 0);

	e.fixed.runtime_ns = runtime;
	e.fixed.deadline_ns = deadline;
	e.fixed.period_ns = period;
	fixed_wake(&e, now);
	return e;
}

/* Let the queue choose, and run that. */
static struct fair_entity *run_next(void)
{
	struct fair_entity *e = fair_pick(&q);

	if (e == q.curr)
		return e;
	if (q.curr)
		fair_replace(&q, e);
	else
		fair_take(&q, e);
	return e;
}

static void priorities_then_order_of_coming(struct ktest *t)
{
	struct fair_entity a = entity(FAIR_FIFO, 10), b = entity(FAIR_FIFO, 10);
	struct fair_entity c = entity(FAIR_FIFO, 99), d = entity(FAIR_RR, 1);

	fair_init(&q, SLICE);
	fair_join(&q, &d);
	EXPECT_TRUE(t, run_next() == &d);
	fair_join(&q, &a);
	EXPECT_TRUE(t, fair_preempts(&q, &a));
	EXPECT_TRUE(t, run_next() == &a);
	fair_join(&q, &b);
	EXPECT_TRUE(t, !fair_preempts(&q, &b));
	fair_charge(&q, 1000 * MS);
	EXPECT_TRUE(t, run_next() == &a); /* however long it runs */
	EXPECT_EQ(t, fair_left_ns(&q), UINT64_MAX);
	fair_join(&q, &c);
	EXPECT_TRUE(t, fair_preempts(&q, &c));
	EXPECT_TRUE(t, run_next() == &c);
	fair_sleep(&q);
	EXPECT_TRUE(t, run_next() == &a); /* it was interrupted: before the other of its priority */
	fair_sleep(&q);
	EXPECT_TRUE(t, run_next() == &b);
	fair_join(&q, &a);
	EXPECT_TRUE(t, run_next() == &b);
	EXPECT_TRUE(t, fair_yield(&q) == &a);
	fair_replace(&q, &a);
	fair_sleep(&q);
	EXPECT_TRUE(t, run_next() == &b);
	fair_sleep(&q);
	EXPECT_TRUE(t, run_next() == &d);
	EXPECT_TRUE(t, fair_yield(&q) == &d);
	fair_sleep(&q);
	EXPECT_TRUE(t, fair_pick(&q) == NULL);
}

/* A class above interrupts: the thread goes on, unless a greater priority has come. */
static void an_interrupted_one_is_the_first_of_its_priority(struct ktest *t)
{
	struct fair_entity a = entity(FAIR_FIFO, 10), b = entity(FAIR_FIFO, 10);
	struct fair_entity c = entity(FAIR_FIFO, 11);

	fair_init(&q, SLICE);
	fair_join(&q, &a);
	(void)run_next();
	fair_join(&q, &b);
	fair_put(&q, true);
	EXPECT_TRUE(t, run_next() == &a);
	fair_put(&q, true);
	fair_join(&q, &c);
	EXPECT_TRUE(t, run_next() == &c);
	fair_sleep(&q);
	EXPECT_TRUE(t, run_next() == &a);
}

static void turns_of_one_priority(struct ktest *t)
{
	struct fair_entity a = entity(FAIR_RR, 5), b = entity(FAIR_RR, 5), low = entity(FAIR_RR, 4);

	fair_init(&q, SLICE);
	fair_join(&q, &a);
	fair_join(&q, &b);
	fair_join(&q, &low);
	EXPECT_TRUE(t, run_next() == &a);
	fair_charge(&q, FAIR_RR_NS - 1);
	EXPECT_EQ(t, fair_left_ns(&q), 1);
	EXPECT_TRUE(t, run_next() == &a);
	fair_charge(&q, 1);
	EXPECT_TRUE(t, run_next() == &b);
	EXPECT_EQ(t, fair_left_ns(&q), FAIR_RR_NS);
	fair_charge(&q, 3 * FAIR_RR_NS);
	EXPECT_TRUE(t, run_next() == &a);
	fair_sleep(&q);
	EXPECT_TRUE(t, run_next() == &b);
	fair_charge(&q, FAIR_RR_NS);
	EXPECT_TRUE(t, run_next() == &b); /* never the lower one */
	fair_detach(&q, &b);
	EXPECT_TRUE(t, run_next() == &low);
}

static void deadlines_come_first(struct ktest *t)
{
	struct fair_entity a = server(10 * MS, 30 * MS, 30 * MS, 0);
	struct fair_entity b = server(5 * MS, 20 * MS, 40 * MS, 0);
	struct fair_entity f = entity(FAIR_FIFO, 99);

	fair_init(&q, SLICE);
	fair_join(&q, &f);
	(void)run_next();
	fair_join(&q, &a);
	EXPECT_TRUE(t, fair_preempts(&q, &a));
	EXPECT_TRUE(t, run_next() == &a);
	fair_join(&q, &b);
	EXPECT_TRUE(t, run_next() == &b);
	EXPECT_EQ(t, fair_left_ns(&q), 5 * MS);
	fair_charge(&q, 5 * MS); /* its next deadline is at 60 ms */
	EXPECT_EQ(t, b.fixed.until_ns, 60 * MS);
	EXPECT_EQ(t, b.fixed.left_ns, 5 * MS);
	EXPECT_TRUE(t, run_next() == &a);
	fair_charge(&q, 23 * MS); /* two runtimes and 3 ms of the third */
	EXPECT_EQ(t, a.fixed.until_ns, 90 * MS);
	EXPECT_EQ(t, a.fixed.left_ns, 7 * MS);
	EXPECT_TRUE(t, run_next() == &b);
	EXPECT_TRUE(t, fair_yield(&q) == &a); /* b: 100 ms */
	fair_replace(&q, &a);
	fair_sleep(&q);
	fair_take(&q, &b);
	fair_sleep(&q);
	EXPECT_TRUE(t, run_next() == &f);
}

/* The rest of a runtime is of use as long as it is no more than the reserved part. */
static void a_waking_server_has_no_more_than_its_part(struct ktest *t)
{
	struct fair_entity e = server(10 * MS, 30 * MS, 30 * MS, 1000 * MS);

	EXPECT_EQ(t, e.fixed.until_ns, 1030 * MS);
	e.fixed.left_ns = 2 * MS;
	fixed_wake(&e, 1020 * MS); /* 2 of 10 ms */
	EXPECT_EQ(t, e.fixed.until_ns, 1030 * MS);
	EXPECT_EQ(t, e.fixed.left_ns, 2 * MS);
	fixed_wake(&e, 1025 * MS); /* 2 of 5 ms are too many */
	EXPECT_EQ(t, e.fixed.until_ns, 1055 * MS);
	EXPECT_EQ(t, e.fixed.left_ns, 10 * MS);
	e.fixed.left_ns = 1;
	fixed_wake(&e, 1055 * MS);
	EXPECT_EQ(t, e.fixed.until_ns, 1085 * MS);
}

/* Let the queue choose, for @ns in steps of @step, and each time settle the deadlines. */
static uint64_t run_for(uint64_t now, uint64_t ns, uint64_t step)
{
	for (const uint64_t end = now + ns; now < end; now += step) {
		(void)run_next();
		fair_charge(&q, step);
		fixed_settle(&q, now + step);
	}
	return now;
}

/* One that had a CPU to itself pays nothing for that when another one comes. */
static void time_that_nobody_else_wanted_is_free(struct ktest *t)
{
	struct fair_entity a = server(10 * MS, 100 * MS, 100 * MS, 0), b, c;
	uint64_t now;

	fair_init(&q, SLICE);
	fair_join(&q, &a);
	now = run_for(0, 60000 * MS, 5 * MS);
	EXPECT_LE(t, a.fixed.until_ns, now + 100 * MS);
	EXPECT_EQ(t, a.deadline, (int64_t)(a.fixed.until_ns - (1ull << 62)));
	/* Two together, and then a third. */
	b = server(20 * MS, 100 * MS, 100 * MS, now);
	fair_join(&q, &b);
	now = run_for(now, 60000 * MS, 5 * MS);
	EXPECT_LE(t, MIN(a.fixed.until_ns, b.fixed.until_ns), now + 100 * MS);
	EXPECT_LE(t, MAX(a.fixed.until_ns, b.fixed.until_ns), now + 200 * MS);
	c = server(10 * MS, 100 * MS, 100 * MS, now);
	fair_join(&q, &c);
	(void)run_for(now, 300 * MS, 5 * MS);
	EXPECT_LE(t, c.fixed.until_ns, now + 1000 * MS);
	EXPECT_TRUE(t, fair_pick(&q) != NULL);
}

/* But what others wait for is not: each has its runtime before its deadline. */
static void a_server_that_wants_all_leaves_others_theirs(struct ktest *t)
{
	struct fair_entity a = server(10 * MS, 100 * MS, 100 * MS, 0);
	struct fair_entity b = server(500 * MS, 1000 * MS, 1000 * MS, 0);
	uint64_t now = 0, had = 0;

	fair_init(&q, SLICE);
	fair_join(&q, &a);
	fair_join(&q, &b);
	while (had < 500 * MS && now < 2000 * MS) {
		const bool is_b = run_next() == &b;

		now = run_for(now, 5 * MS, 5 * MS);
		had += is_b ? 5 * MS : 0;
	}
	EXPECT_LE(t, now, 1000 * MS);
}

/* The least runtime in the longest period. */
static void deadlines_do_not_run_away(struct ktest *t)
{
	struct fair_entity a = server(1024, 4194 * MS, 4194 * MS, 0);

	fair_init(&q, SLICE);
	fair_join(&q, &a);
	EXPECT_LE(t, run_for(0, 100000 * MS, 10 * MS), 100000 * MS);
	EXPECT_LE(t, a.fixed.until_ns, (100000 + 4194) * MS);
}

/* From shares to real time and back: nothing of the one order is left in the other. */
static void between_the_two_kinds(struct ktest *t)
{
	struct fair_entity a = entity(FAIR_SHARES, 0), b = entity(FAIR_SHARES, 0);
	struct fair_queue real;

	fair_init(&q, SLICE);
	fair_init(&real, SLICE);
	fair_join(&q, &a);
	fair_join(&q, &b);
	(void)run_next();
	fair_charge(&q, 2 * MS);
	fair_detach(&q, q.curr);
	a.fixed = (struct fair_fixed){ .order = FAIR_FIFO, .prio = 1 };
	fair_run(&real, &a);
	EXPECT_EQ(t, a.age, 0);
	fair_charge(&real, 50 * MS);
	EXPECT_EQ(t, a.age, 0);
	fair_detach(&real, &a);
	a.fixed = (struct fair_fixed){ 0 };
	fair_join(&q, &a);
	EXPECT_EQ(t, a.age, b.age);
}

/* A running thread comes into a class in which another one was interrupted. */
static void one_that_comes_running_takes_the_turn(struct ktest *t)
{
	struct fair_entity a = entity(FAIR_SHARES, 0), b = entity(FAIR_SHARES, 0);
	struct fair_entity c = entity(FAIR_FIFO, 1);

	fair_init(&q, SLICE);
	fair_join(&q, &a);
	(void)run_next();
	fair_charge(&q, MS);
	fair_put(&q, true);
	c.fixed = (struct fair_fixed){ 0 };
	fair_run(&q, &c);
	fair_join(&q, &b);
	fair_charge(&q, 4 * SLICE);
	EXPECT_TRUE(t, run_next() != &c);
	fair_charge(&q, 4 * SLICE);
	EXPECT_TRUE(t, run_next() != NULL);
	fair_sleep(&q);
	(void)run_next();
	fair_sleep(&q);
	(void)run_next();
	fair_sleep(&q);
	EXPECT_TRUE(t, fair_pick(&q) == NULL);
}

/* The mark of SCHED_BATCH, which a thread may have kept, means nothing in the fixed order. */
static void a_greater_priority_never_waits(struct ktest *t)
{
	struct fair_entity a = entity(FAIR_FIFO, 10), b = entity(FAIR_FIFO, 11);
	struct fair_entity c = entity(FAIR_FIFO, 11);

	b.yields_to_woken = c.yields_to_woken = true;
	fair_init(&q, SLICE);
	fair_join(&q, &a);
	(void)run_next();
	fair_join(&q, &b);
	EXPECT_TRUE(t, fair_preempts(&q, &b));
	EXPECT_TRUE(t, run_next() == &b);
	fair_join(&q, &c);
	EXPECT_FALSE(t, fair_preempts(&q, &c));
}

/* A weight is no place in the order: whoever runs, waits or was interrupted keeps that. */
static void a_weight_changes_no_place(struct ktest *t)
{
	struct fair_entity a = entity(FAIR_RR, 10), b = entity(FAIR_RR, 10);
	struct fair_entity c = entity(FAIR_RR, 10);

	fair_init(&q, SLICE);
	fair_join(&q, &a);
	fair_join(&q, &b);
	fair_join(&q, &c);
	(void)run_next();
	fair_charge(&q, MS);
	fair_set_weight(&q, &a, 15, false);
	EXPECT_TRUE(t, run_next() == &a);
	EXPECT_EQ(t, fair_left_ns(&q), FAIR_RR_NS - MS);
	fair_set_weight(&q, &b, 88761, true);
	EXPECT_EQ(t, q.weight, 88761 + FAIR_WEIGHT_MEAN);
	fair_put(&q, true);
	fair_set_weight(&q, &a, 110, true);
	EXPECT_EQ(t, q.weight, 88761 + FAIR_WEIGHT_MEAN + 110);
	EXPECT_TRUE(t, run_next() == &a);
	fair_sleep(&q);
	fair_set_weight(&q, &a, 1024, false);
	EXPECT_TRUE(t, run_next() == &b);
	fair_sleep(&q);
	EXPECT_TRUE(t, run_next() == &c);
	fair_sleep(&q);
	EXPECT_EQ(t, q.weight, 0);
}

static const struct ktest_case fixed_cases[] = {
	KTEST(priorities_then_order_of_coming),
	KTEST(an_interrupted_one_is_the_first_of_its_priority),
	KTEST(turns_of_one_priority),
	KTEST(deadlines_come_first),
	KTEST(a_waking_server_has_no_more_than_its_part),
	KTEST(time_that_nobody_else_wanted_is_free),
	KTEST(a_server_that_wants_all_leaves_others_theirs),
	KTEST(deadlines_do_not_run_away),
	KTEST(between_the_two_kinds),
	KTEST(a_greater_priority_never_waits),
	KTEST(a_weight_changes_no_place),
	KTEST(one_that_comes_running_takes_the_turn),
	{ 0 },
};
static const struct ktest_suite fixed_suite = { .name = "kernel.fixed", .cases = fixed_cases };
KTEST_SUITE(fixed_suite);
