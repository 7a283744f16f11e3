/* SPDX-License-Identifier: MIT */
/*
 * The scheduler with real threads and CPUs.  Shares are compared in CPU time that was charged,
 * never with the clock on the wall.  The host may stop a virtual CPU at any moment, and what it
 * takes is charged to the thread that ran; that evens out, so a case looks again for a while.
 */
#include <arch/cpu.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/ktest.h>

#define MS       NSEC_PER_MSEC
#define SPINNERS 16u
#define TRIES    40u

struct spinner {
	struct thread *thread;
	uint64_t before_ns;
};

static struct spinner spinners[SPINNERS];
static bool stop;

static void spin(void *arg)
{
	while (!READ_ONCE(stop))
		cpu_relax();
}

/* On @cpu only, or on all: MAX_CPUS. */
static bool spinner_start(struct ktest *t, struct spinner *s, enum thread_prio prio,
			  unsigned int cpu)
{
	struct cpu_mask mask;

	s->thread = thread_create_stopped("spinner", spin, NULL, prio);
	if (IS_ERR(s->thread)) {
		EXPECT_TRUE(t, false);
		return false;
	}
	if (cpu < MAX_CPUS) {
		cpu_mask_only(&mask, cpu);
		EXPECT_EQ(t, thread_set_affinity(s->thread, &mask), 0);
	}
	return true;
}

static unsigned int start_all(struct ktest *t, unsigned int nr, unsigned int cpu)
{
	unsigned int n = 0;

	WRITE_ONCE(stop, false);
	while (n < nr && spinner_start(t, &spinners[n], THREAD_PRIO_USER, cpu))
		n++;
	return n;
}

static void go(unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		thread_start(spinners[i].thread);
}

static void stop_all(unsigned int nr)
{
	WRITE_ONCE(stop, true);
	for (unsigned int i = 0; i < nr; i++)
		thread_join(spinners[i].thread);
}

static uint64_t weight_of(unsigned int i)
{
	return spinners[i].thread->fair.weight;
}

/* Since before_ns each has had its part of what all have had, to @permille. */
static bool shared_within(unsigned int nr, unsigned int permille, uint64_t *sum)
{
	uint64_t ran[SPINNERS], weights = 0;
	bool good = true;

	*sum = 0;
	for (unsigned int i = 0; i < nr; i++) {
		ran[i] = thread_cpu_ns(spinners[i].thread) - spinners[i].before_ns;
		*sum += ran[i];
		weights += weight_of(i);
	}
	for (unsigned int i = 0; i < nr; i++) {
		const uint64_t share = *sum / weights * weight_of(i);
		const uint64_t off = ran[i] > share ? ran[i] - share : share - ran[i];

		good &= off * 1000 <= share * permille;
	}
	return good;
}

/* They share @cpus CPUs to 2 % over a second. */
static void expect_shares(struct ktest *t, unsigned int nr, unsigned int cpus)
{
	uint64_t sum = 0;
	unsigned int tries;

	for (unsigned int i = 0; i < nr; i++)
		spinners[i].before_ns = thread_cpu_ns(spinners[i].thread);
	for (tries = 0; tries < TRIES; tries++) {
		thread_sleep_ns(tries ? 100 * MS : 1000 * MS);
		if (shared_within(nr, 20, &sum) && sum >= 900 * MS * cpus)
			break;
	}
	EXPECT_LT(t, tries, TRIES);
}

static void a_cpu_is_shared(struct ktest *t)
{
	const unsigned int nr = start_all(t, 3, 0);

	go(nr);
	expect_shares(t, nr, 1);
	stop_all(nr);
}

static void a_cpu_is_shared_by_weight(struct ktest *t)
{
	const unsigned int nr = start_all(t, 3, 0);

	for (unsigned int i = 0; i < nr; i++)
		thread_set_weight(spinners[i].thread, fair_nice_weight((int)i * 5 - 5), false);
	go(nr);
	expect_shares(t, nr, 1);
	/* And while they run. */
	for (unsigned int i = 0; i < nr; i++)
		thread_set_weight(spinners[i].thread, fair_nice_weight(5 - (int)i * 5), false);
	expect_shares(t, nr, 1);
	stop_all(nr);
}

/* Two for each CPU, all made on one: they spread, and share all. */
static void all_cpus_are_shared(struct ktest *t)
{
	const unsigned int cpus = MIN(cpu_online_count(), SPINNERS / 2);
	const unsigned int nr = start_all(t, 2 * cpus, MAX_CPUS);

	if (cpu_online_count() > cpus) {
		for (unsigned int i = 0; i < nr; i++) {
			struct cpu_mask mask = { 0 };

			for (unsigned int cpu = 0; cpu < cpus; cpu++)
				cpu_mask_set(&mask, cpu);
			EXPECT_EQ(t, thread_set_affinity(spinners[i].thread, &mask), 0);
		}
	}
	go(nr);
	thread_sleep_ns(100 * MS);
	expect_shares(t, nr, cpus);
	stop_all(nr);
}

struct sleeper {
	struct waitqueue wq;
	struct completion ran;
	unsigned int rounds; /* atomic: woken so often */
	unsigned int done;
	unsigned int waited; /* rounds in which the spinner ran before it */
	uint64_t switches;   /* of the spinner, when it was woken */
};

static void sleeper_main(void *arg)
{
	struct sleeper *s = arg;

	while (s->done < 100) {
		wait_event(&s->wq, __atomic_load_n(&s->rounds, __ATOMIC_ACQUIRE) > s->done);
		s->waited += READ_ONCE(spinners[0].thread->nr_switches) != s->switches;
		s->done++;
		complete(&s->ran);
	}
}

/* Woken with a spinner on its CPU: the spinner does not run before the sleeper has. */
static void a_sleeper_runs_when_it_wakes(struct ktest *t)
{
	struct sleeper s = { .rounds = 0 };
	struct cpu_mask mask;
	struct thread *th;

	waitqueue_init(&s.wq);
	completion_init(&s.ran);
	cpu_mask_fill(&mask);
	thread_pin(0);
	ASSERT_EQ(t, start_all(t, 1, 0), 1);
	th = thread_create_stopped("sleeper", sleeper_main, &s, THREAD_PRIO_USER);
	ASSERT_FALSE(t, IS_ERR(th));
	cpu_mask_only(&mask, 0);
	EXPECT_EQ(t, thread_set_affinity(th, &mask), 0);
	thread_start(th);
	go(1);
	for (unsigned int i = 1; i <= 100; i++) {
		thread_sleep_ns(MS);
		preempt_disable();
		s.switches = READ_ONCE(spinners[0].thread->nr_switches);
		__atomic_store_n(&s.rounds, i, __ATOMIC_RELEASE);
		wake_all(&s.wq);
		preempt_enable();
		completion_wait(&s.ran);
	}
	thread_join(th);
	stop_all(1);
	EXPECT_LE(t, s.waited, 50); /* a stall that was charged to it costs a dozen */
	cpu_mask_fill(&mask);
	EXPECT_EQ(t, thread_set_affinity(thread_current(), &mask), 0);
}

/* A kernel thread that never sleeps: programs have about a tenth of its CPU all the same. */
static void a_flood_leaves_programs_their_part(struct ktest *t)
{
	uint64_t program, flood;
	unsigned int tries;

	WRITE_ONCE(stop, false);
	ASSERT_TRUE(t, spinner_start(t, &spinners[0], THREAD_PRIO_USER, 0));
	ASSERT_TRUE(t, spinner_start(t, &spinners[1], THREAD_PRIO_NORMAL, 0));
	go(2);
	for (tries = 0; tries < TRIES; tries++) {
		thread_sleep_ns(tries ? 100 * MS : 1000 * MS);
		program = thread_cpu_ns(spinners[0].thread);
		flood = thread_cpu_ns(spinners[1].thread);
		if (program * 12 > program + flood && program * 8 < program + flood)
			break;
	}
	EXPECT_LT(t, tries, TRIES);
	stop_all(2);
}

static const struct ktest_case sched_cases[] = {
	KTEST(a_cpu_is_shared),
	KTEST(a_cpu_is_shared_by_weight),
	KTEST(all_cpus_are_shared),
	KTEST(a_sleeper_runs_when_it_wakes),
	KTEST(a_flood_leaves_programs_their_part),
	{ 0 },
};
static const struct ktest_suite sched_suite = { .name = "kernel.sched", .cases = sched_cases };
KTEST_SUITE(sched_suite);
