/* SPDX-License-Identifier: MIT */
/*
 * Fair queues: the choice against a model that looks at every thread, and what follows from it for
 * shares, weights, waits and sleepers.  Time is virtual: each case is the same everywhere.
 */
#include <lib/ktest.h>
#include <lib/prng.h>

#include <kernel/fair.h>

#define US    1000ull
#define MS    1000000ull
#define SLICE (3 * MS)
#define NR    24u

/* A CPU that runs what the queue says. */
struct one {
	struct fair_entity e;
	uint64_t ran_ns;   /* altogether */
	uint64_t since_ns; /* it waits since */
	uint64_t worst_ns; /* longest wait */
	bool runnable;
};

struct machine {
	struct fair_queue q;
	struct one all[NR];
	uint64_t now;
};

static struct machine m;

static struct one *one_of(struct fair_entity *e)
{
	return container_of(e, struct one, e);
}

static void start(unsigned int nr, uint32_t (*weight)(unsigned int i))
{
	m = (struct machine){ 0 };
	fair_init(&m.q, SLICE);
	for (unsigned int i = 0; i < nr; i++)
		fair_entity_init(&m.all[i].e, weight ? weight(i) : FAIR_WEIGHT_MEAN, SLICE);
}

static void wake(struct one *o)
{
	o->runnable = true;
	o->since_ns = m.now;
	fair_join(&m.q, &o->e);
}

static void choose(struct fair_entity *next)
{
	struct fair_entity *old = m.q.curr;

	if (next == old)
		return;
	if (old) {
		one_of(old)->since_ns = m.now;
		fair_replace(&m.q, next);
	} else {
		fair_take(&m.q, next);
	}
	one_of(next)->worst_ns = MAX(one_of(next)->worst_ns, m.now - one_of(next)->since_ns);
}

/* As at the end of a slice. */
static void reschedule(void)
{
	struct fair_entity *next = fair_pick(&m.q);

	if (next)
		choose(next);
}

static void sleeps(void)
{
	struct fair_entity *e = m.q.curr;

	one_of(e)->runnable = false;
	fair_sleep(&m.q);
	reschedule();
}

/* curr runs; the rest of the machine, with nothing to run, idles. */
static void run(uint64_t ns)
{
	m.now += ns;
	if (!m.q.curr)
		return;
	one_of(m.q.curr)->ran_ns += ns;
	fair_charge(&m.q, ns);
}

/* --- against a model ------------------------------------------------------------------------ */

static bool is_owed(const struct fair_entity *e)
{
	__int128 sum = 0;

	for (unsigned int i = 0; i < NR; i++) {
		const struct one *o = &m.all[i];

		if (o->runnable)
			sum += (__int128)o->e.weight * (o->e.age - e->age);
	}
	return sum >= 0;
}

/* The earliest deadline of all that are eligible. */
static int64_t best_deadline(void)
{
	int64_t best = INT64_MAX;

	for (unsigned int i = 0; i < NR; i++) {
		const struct one *o = &m.all[i];

		if (o->runnable && is_owed(&o->e))
			best = MIN(best, o->e.deadline);
	}
	return best;
}

static bool queue_is_right(void)
{
	int64_t sum = 0;
	uint64_t weight = 0;
	uint32_t nr = 0;
	int64_t last = INT64_MIN;

	for (const struct fair_entity *e = fair_first(&m.q); e; e = fair_next(e)) {
		if (e->deadline < last || e->deadline <= e->age || e->is_detached)
			return false;
		last = e->deadline;
		sum += (int64_t)e->weight * (e->age - m.q.zero);
		weight += e->weight;
		nr++;
	}
	return sum == m.q.sum && weight == m.q.weight && nr == m.q.nr && rb_check(&m.q.tree);
}

static void check_choice(struct ktest *t)
{
	struct fair_entity *next = fair_pick(&m.q);

	ASSERT_TRUE(t, queue_is_right());
	if (m.q.resume)
		return;
	ASSERT_EQ(t, next != NULL, m.q.nr != 0 || m.q.curr != NULL);
	if (next) {
		ASSERT_TRUE(t, is_owed(next));
		ASSERT_EQ(t, next->deadline, best_deadline());
	}
}

static uint32_t some_weight(unsigned int i)
{
	return fair_nice_weight((int)(i * 7 % 40) - 20);
}

static void random_step(struct prng *rng, struct one *o)
{
	switch (prng_below(rng, 10)) {
	case 0:
	case 1:
		if (!o->runnable)
			wake(o);
		break;
	case 2:
		if (m.q.curr)
			sleeps();
		break;
	case 3:
		if (m.q.curr)
			choose(fair_yield(&m.q));
		break;
	case 4:
		if (m.q.curr) {
			fair_put(&m.q, prng_below(rng, 2));
			m.now += prng_below(rng, MS);
		}
		break;
	case 5: /* to another CPU and back */
		if (o->runnable && &o->e != m.q.curr) {
			fair_leave(&m.q, &o->e);
			fair_join(&m.q, &o->e);
		}
		break;
	case 6:
		fair_set_weight(&m.q, &o->e, some_weight((unsigned int)prng_below(rng, 40)),
				o->runnable && &o->e != m.q.curr);
		break;
	default:
		run(prng_below(rng, 2 * SLICE));
		reschedule();
	}
}

static void the_choice_is_the_models(struct ktest *t)
{
	struct prng rng;

	prng_seed(&rng, 12);
	start(NR, some_weight);
	for (unsigned int step = 0; step < 20000; step++) {
		random_step(&rng, &m.all[prng_below(&rng, NR)]);
		check_choice(t);
		if (t->nr_failed)
			return;
	}
}

/* --- shares --------------------------------------------------------------------------------- */

/*
 * Threads that never sleep: at every moment each has had its share to within a slice and what a
 * turn may be too long.
 */
static void shares_are_exact(struct ktest *t, unsigned int nr, uint32_t (*weight)(unsigned int i))
{
	const uint64_t late = 200 * US, bound = SLICE + late + US;
	uint64_t total = 0;
	struct prng rng;

	prng_seed(&rng, nr);
	start(nr, weight);
	for (unsigned int i = 0; i < nr; i++) {
		wake(&m.all[i]);
		total += m.all[i].e.weight;
	}
	reschedule();
	for (unsigned int step = 0; step < 20000; step++) {
		run(fair_left_ns(&m.q) + prng_below(&rng, late));
		reschedule();
		for (unsigned int i = 0; i < nr; i++) {
			const struct one *o = &m.all[i];
			const __int128 more =
				(__int128)o->ran_ns * total - (__int128)m.now * o->e.weight;

			ASSERT_TRUE(t, more <= (__int128)bound * total);
			ASSERT_TRUE(t, -more <= (__int128)bound * total);
		}
	}
}

static void equal_threads_share(struct ktest *t)
{
	shares_are_exact(t, 2, NULL);
	shares_are_exact(t, 3, NULL);
	shares_are_exact(t, NR, NULL);
}

static void shares_follow_weights(struct ktest *t)
{
	shares_are_exact(t, 2, some_weight);
	shares_are_exact(t, NR, some_weight);
}

static uint32_t nice_of_index(unsigned int i)
{
	return fair_nice_weight((int)i * 5);
}

/* One step of nice is a quarter, ten a factor of about ten, as programs know it from Linux. */
static void nice_is_a_weight(struct ktest *t)
{
	EXPECT_EQ(t, fair_nice_weight(0), FAIR_WEIGHT_MEAN);
	EXPECT_EQ(t, fair_nice_weight(-20), 88761);
	EXPECT_EQ(t, fair_nice_weight(19), 15);
	for (int nice = -20; nice < 19; nice++) {
		EXPECT_GT(t, fair_nice_weight(nice) * 100, fair_nice_weight(nice + 1) * 118);
		EXPECT_LT(t, fair_nice_weight(nice) * 100, fair_nice_weight(nice + 1) * 131);
	}
	shares_are_exact(t, 3, nice_of_index);
	EXPECT_GT(t, m.all[0].ran_ns * 100, m.all[1].ran_ns * 300); /* 1024 : 335 */
	EXPECT_LT(t, m.all[0].ran_ns * 100, m.all[1].ran_ns * 312);
}

/* Short runs of a heavy thread are not rounded away. */
static void short_runs_count(struct ktest *t)
{
	start(2, NULL);
	m.all[0].e.weight = fair_nice_weight(-20);
	wake(&m.all[0]);
	wake(&m.all[1]);
	choose(&m.all[0].e);
	for (unsigned int i = 0; i < 88761; i++)
		run(7);
	EXPECT_EQ(t, m.all[0].ran_ns, 88761 * 7);
	EXPECT_EQ(t, m.all[0].e.age - m.all[1].e.age, 1024 * 7);
}

/* --- waits ---------------------------------------------------------------------------------- */

/* A thread that wants to run does so within its turns, however the others come and go. */
static void no_thread_starves(struct ktest *t)
{
	const unsigned int nr = 8;
	struct prng rng;

	for (unsigned int seed = 0; seed < 8; seed++) {
		prng_seed(&rng, seed);
		start(nr, NULL);
		wake(&m.all[0]);
		reschedule();
		for (unsigned int step = 0; step < 20000; step++) {
			struct one *o = &m.all[prng_below(&rng, nr)];

			if (!o->runnable) {
				wake(o);
				if (fair_preempts(&m.q, &o->e))
					reschedule();
			} else if (&o->e == m.q.curr && o != m.all && prng_below(&rng, 2)) {
				sleeps();
			}
			if (m.q.curr) {
				run(MIN(fair_left_ns(&m.q), prng_below(&rng, 2 * MS)));
				if (m.q.is_due)
					reschedule();
			}
		}
		for (unsigned int i = 0; i < nr; i++)
			EXPECT_LE(t, m.all[i].worst_ns, 2 * nr * SLICE);
		/* The one that never sleeps has no less than its share. */
		EXPECT_GE(t, m.all[0].ran_ns, m.now / nr);
	}
}

/*
 * A thread that runs and sleeps by turns, beside @spinners that never sleep: how long it waits for
 * the CPU at most, and its part of the time in percent.
 */
static void beside(unsigned int spinners, uint64_t run_ns, uint64_t sleep_ns, uint64_t *worst,
		   unsigned int *percent)
{
	struct one *o = &m.all[0];
	uint64_t left = 0, wakes_at = 0;

	start(spinners + 1, NULL);
	for (unsigned int i = 1; i <= spinners; i++)
		wake(&m.all[i]);
	reschedule();
	while (m.now < 2000 * MS) {
		uint64_t step = fair_left_ns(&m.q);

		if (m.now > 1000 * MS && o->worst_ns > *worst)
			*worst = o->worst_ns;
		if (m.now < 1000 * MS)
			o->worst_ns = 0; /* until it has settled */
		if (!o->runnable && m.now >= wakes_at) {
			wake(o);
			left = run_ns;
			if (fair_preempts(&m.q, &o->e))
				reschedule();
			continue;
		}
		if (!o->runnable)
			step = MIN(step, wakes_at - m.now);
		if (m.q.curr == &o->e)
			step = MIN(step, left);
		run(step);
		if (m.q.curr == &o->e) {
			left -= step;
			if (!left) {
				wakes_at = m.now + sleep_ns;
				sleeps();
				continue;
			}
		}
		if (m.q.is_due)
			reschedule();
	}
	*percent = (unsigned int)(o->ran_ns * 100 / m.now);
}

/* One that uses less than its share never waits beside one that never sleeps. */
static void a_thread_below_its_share_runs_when_it_wakes(struct ktest *t)
{
	uint64_t worst = 0;
	unsigned int percent;

	beside(1, 60 * US, 70 * US, &worst, &percent);
	EXPECT_EQ(t, worst, 0);
	EXPECT_EQ(t, percent, 46); /* as alone */
	beside(1, 10 * US, 5 * MS, &worst, &percent);
	EXPECT_EQ(t, worst, 0);
	beside(1, 2 * MS, 20 * MS, &worst, &percent);
	EXPECT_EQ(t, worst, 0);
	beside(3, 60 * US, 400 * US, &worst, &percent);
	EXPECT_LE(t, worst, SLICE);
	EXPECT_GE(t, percent, 12);
	beside(3, 10 * US, 10 * MS, &worst, &percent);
	EXPECT_EQ(t, worst, 0);
}

/* One that would use more than its share has its share. */
static void a_thread_above_its_share_has_it(struct ktest *t)
{
	uint64_t worst = 0;
	unsigned int percent;

	beside(1, 150 * US, 30 * US, &worst, &percent);
	EXPECT_GE(t, percent, 49);
	EXPECT_LE(t, percent, 50);
	EXPECT_LE(t, worst, 2 * SLICE);
	beside(3, 1 * MS, 200 * US, &worst, &percent);
	EXPECT_GE(t, percent, 23);
	EXPECT_LE(t, percent, 25);
}

/* A second of sleep buys a slice, and so does a minute. */
static void a_long_sleep_buys_one_slice(struct ktest *t)
{
	for (uint64_t s = 1; s < 100; s *= 60) {
		uint64_t slept;

		start(2, NULL);
		wake(&m.all[0]);
		wake(&m.all[1]);
		reschedule();
		slept = m.q.curr == &m.all[0].e ? 0 : 1;
		sleeps();
		run(s * 1000 * MS);
		reschedule();
		EXPECT_TRUE(t, m.q.curr == &m.all[!slept].e);
		wake(&m.all[slept]);
		EXPECT_TRUE(t, fair_preempts(&m.q, &m.all[slept].e));
		EXPECT_EQ(t, m.all[!slept].e.age - m.all[slept].e.age, SLICE);
	}
}

/* A thread that has had too much does not get rid of that by sleeping a moment. */
static void a_short_sleep_buys_nothing(struct ktest *t)
{
	start(2, NULL);
	wake(&m.all[0]);
	wake(&m.all[1]);
	choose(&m.all[0].e);
	run(2 * MS);
	sleeps();
	run(10 * US);
	wake(&m.all[0]);
	EXPECT_FALSE(t, fair_preempts(&m.q, &m.all[0].e));
	EXPECT_EQ(t, m.all[0].e.age - m.all[1].e.age, 2 * MS - 10 * US);
}

/* Owed a little, it runs at once even if its deadline is the later one. */
static void the_one_that_is_owed_comes_first(struct ktest *t)
{
	start(2, NULL);
	wake(&m.all[0]);
	reschedule();
	run(SLICE - 100 * US);
	m.all[1].e.age = 50 * (int64_t)US; /* its lag */
	wake(&m.all[1]);
	EXPECT_GT(t, m.all[1].e.deadline, m.all[0].e.deadline);
	EXPECT_TRUE(t, fair_preempts(&m.q, &m.all[1].e));
}

/* A thread asks for what it uses: little while it runs for moments, a slice when it runs on. */
static void a_request_is_what_is_used(struct ktest *t)
{
	start(2, NULL);
	wake(&m.all[1]);
	for (unsigned int i = 0; i < 10; i++) {
		run(MS);
		wake(&m.all[0]);
		reschedule();
		if (m.q.curr != &m.all[0].e)
			choose(&m.all[0].e);
		run(10 * US);
		sleeps();
	}
	EXPECT_EQ(t, m.all[0].e.request_ns, SLICE / 8);
	wake(&m.all[0]);
	choose(&m.all[0].e);
	EXPECT_EQ(t, fair_left_ns(&m.q), SLICE / 8);
	for (unsigned int i = 0; i < 4; i++)
		run(fair_left_ns(&m.q));
	EXPECT_EQ(t, m.all[0].e.request_ns, SLICE);
}

/* A new thread is owed nothing: a program does not gain by making many. */
static void a_new_thread_is_owed_nothing(struct ktest *t)
{
	start(3, NULL);
	wake(&m.all[0]);
	reschedule();
	run(1000 * MS);
	wake(&m.all[1]);
	EXPECT_EQ(t, m.all[1].e.age, m.all[0].e.age);
	EXPECT_FALSE(t, fair_preempts(&m.q, &m.all[1].e) &&
				m.all[1].e.deadline >= m.all[0].e.deadline);
}

/* --- by turns -------------------------------------------------------------------------------- */

static void yield_lets_each_have_its_turn(struct ktest *t)
{
	unsigned int turns[3] = { 0 };

	start(3, NULL);
	for (unsigned int i = 0; i < 3; i++)
		wake(&m.all[i]);
	reschedule();
	EXPECT_TRUE(t, fair_yield(&m.q) != m.q.curr);
	for (unsigned int i = 0; i < 300; i++) {
		struct fair_entity *old = m.q.curr;

		run(US);
		choose(fair_yield(&m.q));
		EXPECT_TRUE(t, m.q.curr != old);
		turns[one_of(m.q.curr) - m.all]++;
	}
	for (unsigned int i = 0; i < 3; i++)
		EXPECT_EQ(t, turns[i], 100);
}

static void yielding_gives_up_what_it_is_owed(struct ktest *t)
{
	for (unsigned int nr = 2; nr <= 3; nr++) {
		start(nr, NULL);
		for (unsigned int i = 0; i < nr; i++)
			wake(&m.all[i]);
		choose(&m.all[0].e);
		for (unsigned int i = 1; i < nr; i++) {
			choose(&m.all[i].e);
			run(2 * MS);
		}
		choose(&m.all[0].e);
		choose(fair_yield(&m.q));
		EXPECT_EQ(t, m.all[0].e.age, m.all[1].e.age);
		EXPECT_EQ(t, m.all[0].e.deadline, m.all[1].e.age + (int64_t)SLICE);
	}
}

/* One that only yields leaves the CPU to one that works. */
static void yielding_costs_the_others_nothing(struct ktest *t)
{
	start(2, NULL);
	wake(&m.all[0]);
	wake(&m.all[1]);
	reschedule();
	while (m.now < 1000 * MS) {
		if (m.q.curr == &m.all[0].e) {
			run(US);
			choose(fair_yield(&m.q));
		} else {
			run(fair_left_ns(&m.q));
			reschedule();
		}
	}
	EXPECT_GT(t, m.all[1].ran_ns, 990 * MS);
}

static void alone_there_is_nothing_to_yield_to(struct ktest *t)
{
	start(1, NULL);
	EXPECT_TRUE(t, fair_pick(&m.q) == NULL);
	wake(&m.all[0]);
	reschedule();
	run(MS);
	EXPECT_TRUE(t, fair_yield(&m.q) == &m.all[0].e);
	EXPECT_TRUE(t, fair_pick(&m.q) == &m.all[0].e);
}

/* A higher class interrupts: the same thread goes on, unless a better one has come. */
static void an_interrupted_turn_goes_on(struct ktest *t)
{
	start(4, NULL);
	for (unsigned int i = 0; i < 3; i++)
		wake(&m.all[i]);
	reschedule();
	for (unsigned int i = 0; i < 10; i++) {
		struct fair_entity *old = m.q.curr;

		run(100 * US);
		fair_put(&m.q, true);
		reschedule();
		EXPECT_TRUE(t, m.q.curr == old);
	}
	run(SLICE);
	fair_put(&m.q, true);
	EXPECT_TRUE(t, m.q.resume == NULL); /* its turn was over */
	reschedule();
	run(US);
	m.all[3].e.request_ns = SLICE / 8;
	fair_put(&m.q, true);
	wake(&m.all[3]);
	EXPECT_TRUE(t, m.q.resume == NULL);
	reschedule();
	EXPECT_TRUE(t, m.q.curr == &m.all[3].e);
}

static void batch_waits_for_its_turn(struct ktest *t)
{
	start(2, NULL);
	m.all[1].e.age = (int64_t)MS; /* its lag */
	m.all[1].e.yields_to_woken = true;
	wake(&m.all[0]);
	reschedule();
	run(MS);
	wake(&m.all[1]);
	EXPECT_FALSE(t, fair_preempts(&m.q, &m.all[1].e));
	m.all[1].e.yields_to_woken = false;
	EXPECT_TRUE(t, fair_preempts(&m.q, &m.all[1].e));
	run(fair_left_ns(&m.q));
	reschedule();
	EXPECT_TRUE(t, m.q.curr == &m.all[1].e);
}

/* Another weight: the lag in real time stays. */
static void a_new_weight_keeps_what_is_owed(struct ktest *t)
{
	start(2, NULL);
	wake(&m.all[0]);
	wake(&m.all[1]);
	choose(&m.all[0].e);
	run(2 * MS);
	fair_set_weight(&m.q, &m.all[0].e, 2048, false);
	EXPECT_EQ(t, m.all[0].e.age - m.all[1].e.age, MS);
	fair_set_weight(&m.q, &m.all[1].e, 512, true);
	EXPECT_EQ(t, m.all[0].e.age - m.all[1].e.age, 2 * MS);
	EXPECT_TRUE(t, queue_is_right());
}

static const struct ktest_case fair_cases[] = {
	KTEST(the_choice_is_the_models),
	KTEST(equal_threads_share),
	KTEST(shares_follow_weights),
	KTEST(nice_is_a_weight),
	KTEST(short_runs_count),
	KTEST(no_thread_starves),
	KTEST(a_thread_below_its_share_runs_when_it_wakes),
	KTEST(a_thread_above_its_share_has_it),
	KTEST(a_long_sleep_buys_one_slice),
	KTEST(a_short_sleep_buys_nothing),
	KTEST(the_one_that_is_owed_comes_first),
	KTEST(a_request_is_what_is_used),
	KTEST(a_new_thread_is_owed_nothing),
	KTEST(yield_lets_each_have_its_turn),
	KTEST(yielding_gives_up_what_it_is_owed),
	KTEST(yielding_costs_the_others_nothing),
	KTEST(alone_there_is_nothing_to_yield_to),
	KTEST(an_interrupted_turn_goes_on),
	KTEST(batch_waits_for_its_turn),
	KTEST(a_new_weight_keeps_what_is_owed),
	{ 0 },
};
static const struct ktest_suite fair_suite = { .name = "kernel.fair", .cases = fair_cases };
KTEST_SUITE(fair_suite);
