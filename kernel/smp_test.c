/* SPDX-License-Identifier: MIT */
/*
 * Several CPUs at once, in everything of kernel/ and mm/ that they share.  With one
 * CPU the same cases run by turns.
 */
#include <arch/cpu.h>
#include <arch/ipi.h>
#include <kernel/counter.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/wait.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/slab.h>

#define MS NSEC_PER_MSEC

COUNTER(count_test, "test.smp", "for tests of counters over several CPUs");

struct member {
	unsigned int cpu;
	void (*fn)(struct member *m);
	struct ktest *t;
	void *arg;
	unsigned int errors;
};

static void member_main(void *arg)
{
	struct member *m = arg;

	m->fn(m);
}

static unsigned int atomic_get(const unsigned int *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static void atomic_inc(unsigned int *p)
{
	__atomic_add_fetch(p, 1, __ATOMIC_SEQ_CST);
}

/* @fn on every CPU at once, @each threads pinned to each; returns the errors they counted. */
static unsigned int on_all(struct ktest *t, unsigned int each, void (*fn)(struct member *m),
			   void *arg)
{
	const unsigned int nr = cpu_online_count() * each;
	struct member *members = kcalloc(nr, sizeof(*members));
	struct thread **threads = kcalloc(nr, sizeof(struct thread *));
	unsigned int errors = !members || !threads;

	for (unsigned int i = 0; i < nr && !errors; i++) {
		struct cpu_mask mask;

		members[i] = (struct member){ .cpu = i / each, .fn = fn, .t = t, .arg = arg };
		threads[i] = thread_create_stopped("smp-test", member_main, &members[i],
						   THREAD_PRIO_NORMAL);
		if (IS_ERR(threads[i])) {
			threads[i] = NULL;
			errors = 1;
			break;
		}
		cpu_mask_only(&mask, members[i].cpu);
		errors += thread_set_affinity(threads[i], &mask) != 0;
	}
	for (unsigned int i = 0; i < nr && threads && threads[i]; i++)
		thread_start(threads[i]);
	for (unsigned int i = 0; i < nr && threads && threads[i]; i++) {
		thread_join(threads[i]);
		errors += members[i].errors;
	}
	kfree(threads);
	kfree(members);
	return errors;
}

/* --- locks ---------------------------------------------------------------------------- */

static struct spinlock lock = SPINLOCK_INIT("smp-test", RANK_SPIN_MONITOR);
static unsigned int locked_sum;
static unsigned int inside;

static void lock_round(struct member *m, unsigned int i)
{
	unsigned long flags = 0;

	if (i & 1)
		flags = spin_lock_irqsave(&lock);
	else
		spin_lock(&lock);
	m->errors += inside++ != 0;
	locked_sum++;
	inside--;
	if (i & 1)
		spin_unlock_irqrestore(&lock, flags);
	else
		spin_unlock(&lock);
}

static void lock_member(struct member *m)
{
	m->errors += cpu_id() != m->cpu;
	for (unsigned int i = 0; i < 500; i++)
		lock_round(m, i);
}

static void spinlocks_exclude(struct ktest *t)
{
	locked_sum = 0;
	EXPECT_EQ(t, on_all(t, 2, lock_member, NULL), 0);
	EXPECT_EQ(t, locked_sum, 1000 * cpu_online_count());
}

/* --- waking ----------------------------------------------------------------------------- */

struct ring {
	struct waitqueue wq;
	unsigned int turn; /* atomic */
};

/* Less of it on many CPUs: where few host CPUs run them all, each step takes its time. */
static unsigned int rounds(unsigned int total)
{
	return MAX(total / cpu_online_count(), 4u) & ~1u;
}

/* Each waits for its turn and passes it on: a wake-up that is lost stops the ring. */
static void ring_member(struct member *m)
{
	const unsigned int nr = cpu_online_count();
	struct ring *r = m->arg;

	for (unsigned int i = 0; i < rounds(200); i++) {
		wait_event(&r->wq, atomic_get(&r->turn) % nr == m->cpu);
		atomic_inc(&r->turn);
		wake_all(&r->wq);
	}
}

static void wake_ups_are_not_lost(struct ktest *t)
{
	struct ring r = { .turn = 0 };

	waitqueue_init(&r.wq);
	EXPECT_EQ(t, on_all(t, 1, ring_member, &r), 0);
	EXPECT_EQ(t, r.turn, rounds(200) * cpu_online_count());
}

static void killable_sleeper(void *arg)
{
	struct ring *r = arg;

	while (wait_event_killable(&r->wq, false) != -EINTR)
		;
	atomic_inc(&r->turn);
}

static void notified_wherever_it_sleeps(struct ktest *t)
{
	struct ring r = { .turn = 0 };

	waitqueue_init(&r.wq);
	for (unsigned int i = 0; i < 50; i++) {
		struct thread *th = thread_create("killable", killable_sleeper, &r);

		ASSERT_FALSE(t, IS_ERR(th));
		if (i & 1)
			thread_yield();
		thread_notify(th, THREAD_F_KILL);
		thread_join(th);
	}
	EXPECT_EQ(t, r.turn, 50);
}

/* --- threads and their CPUs --------------------------------------------------------------- */

static void hop(struct member *m)
{
	const unsigned int nr = cpu_online_count();
	struct prng rng;

	prng_seed(&rng, m->cpu + 1);
	for (unsigned int i = 0; i < rounds(300); i++) {
		const unsigned int cpu = (unsigned int)prng_below(&rng, nr);
		uint64_t local[16];

		for (unsigned int k = 0; k < ARRAY_SIZE(local); k++)
			local[k] = (uint64_t)&local[k] ^ i;
		thread_pin(cpu);
		m->errors += cpu_id() != cpu;
		m->errors += thread_cpu(thread_current()) != cpu;
		for (unsigned int k = 0; k < ARRAY_SIZE(local); k++)
			m->errors += READ_ONCE(local[k]) != ((uint64_t)&local[k] ^ i);
	}
}

static void threads_go_where_they_are_sent(struct ktest *t)
{
	struct cpu_mask none = { 0 };

	EXPECT_EQ(t, on_all(t, 3, hop, NULL), 0);
	EXPECT_EQ(t, thread_set_affinity(thread_current(), &none), -EINVAL);
	if (cpu_online_count() < MAX_CPUS) {
		cpu_mask_only(&none, MAX_CPUS - 1);
		EXPECT_EQ(t, thread_set_affinity(thread_current(), &none), -EINVAL);
	}
}

struct shoved {
	struct thread *thread;
	unsigned int stop; /* atomic */
	unsigned int errors;
	uint64_t rounds;
};

/* One that never sleeps, is preempted anywhere, and checks that nobody else uses its stack. */
static void shoved_main(void *arg)
{
	struct shoved *s = arg;
	volatile uint64_t mine[32];

	while (!atomic_get(&s->stop)) {
		const uint64_t mark = s->rounds * 0x9e3779b97f4a7c15ull;

		for (unsigned int i = 0; i < ARRAY_SIZE(mine); i++)
			mine[i] = mark + i;
		if (s->rounds % 7 == 0)
			thread_yield();
		for (unsigned int i = 0; i < ARRAY_SIZE(mine); i++)
			s->errors += mine[i] != mark + i;
		s->errors += thread_current() != s->thread;
		WRITE_ONCE(s->rounds, s->rounds + 1);
	}
}

static void running_threads_can_be_moved(struct ktest *t)
{
	const unsigned int nr = cpu_online_count();
	struct shoved s[4];
	uint64_t sum = 0;
	struct prng rng;

	prng_seed(&rng, 11);
	for (unsigned int i = 0; i < ARRAY_SIZE(s); i++) {
		s[i] = (struct shoved){ 0 };
		s[i].thread = thread_create_stopped("shoved", shoved_main, &s[i], THREAD_PRIO_USER);
		ASSERT_FALSE(t, IS_ERR(s[i].thread));
		thread_start(s[i].thread);
	}
	for (unsigned int i = 0; i < 150; i++) {
		struct thread *th = s[i % ARRAY_SIZE(s)].thread;
		struct cpu_mask mask;

		cpu_mask_only(&mask, (unsigned int)prng_below(&rng, nr));
		EXPECT_EQ(t, thread_set_affinity(th, &mask), 0);
		if (i % 5 == 0)
			thread_set_prio(th, i & 1 ? THREAD_PRIO_USER : THREAD_PRIO_LOW);
		if (i % 3 == 0)
			thread_sleep_ns(100 * NSEC_PER_USEC);
	}
	/* All, before the first is waited for: one may keep another of a lower class off. */
	for (unsigned int i = 0; i < ARRAY_SIZE(s); i++)
		atomic_inc(&s[i].stop);
	for (unsigned int i = 0; i < ARRAY_SIZE(s); i++) {
		thread_join(s[i].thread);
		EXPECT_EQ(t, s[i].errors, 0);
		sum += s[i].rounds;
	}
	EXPECT_GT(t, sum, 0);
}

static void spin_until(void *arg)
{
	while (!atomic_get(arg))
		cpu_relax();
}

static unsigned int cpus_in_use(struct thread *const *threads, unsigned int nr)
{
	struct cpu_mask used = { 0 };
	unsigned int n = 0;

	for (unsigned int i = 0; i < nr; i++)
		cpu_mask_set(&used, thread_cpu(threads[i]));
	for_each_cpu_in(cpu, &used) n++;
	return n;
}

/* As many loops as CPUs, all on one: set free, they spread over all. */
static void load_spreads(struct ktest *t)
{
	const unsigned int nr = MIN(cpu_online_count(), 8u);
	struct thread *threads[8] = { NULL };
	unsigned int stop = 0;
	struct cpu_mask mask;
	unsigned int i;

	cpu_mask_only(&mask, 0);
	for (i = 0; i < nr; i++) {
		threads[i] = thread_create_stopped("load", spin_until, &stop, THREAD_PRIO_USER);
		ASSERT_FALSE(t, IS_ERR(threads[i]));
		EXPECT_EQ(t, thread_set_affinity(threads[i], &mask), 0);
		thread_start(threads[i]);
	}
	thread_sleep_ns(5 * MS);
	EXPECT_EQ(t, cpus_in_use(threads, nr), 1);
	cpu_mask_fill(&mask);
	for (i = 0; i < nr; i++)
		EXPECT_EQ(t, thread_set_affinity(threads[i], &mask), 0);
	for (i = 0; i < 2000 && cpus_in_use(threads, nr) < nr; i++)
		thread_sleep_ns(5 * MS);
	EXPECT_EQ(t, cpus_in_use(threads, nr), nr);
	atomic_inc(&stop);
	for (i = 0; i < nr; i++)
		thread_join(threads[i]);
}

static void short_life(void *arg)
{
	atomic_inc(arg);
}

static void create_and_join(struct member *m)
{
	unsigned int sum = 0;

	for (unsigned int i = 0; i < rounds(100); i++) {
		struct thread *th = thread_create("short", short_life, &sum);

		if (IS_ERR(th)) {
			m->errors++;
			return;
		}
		if (i & 1)
			thread_yield();
		thread_join(th);
	}
	m->errors += sum != rounds(100);
}

static void threads_come_and_go_on_all(struct ktest *t)
{
	const size_t before = thread_count();

	EXPECT_EQ(t, on_all(t, 1, create_and_join, NULL), 0);
	EXPECT_EQ(t, thread_count(), before);
}

/* --- calls to other CPUs ------------------------------------------------------------------- */

static void count_here(void *arg)
{
	unsigned int *counts = arg;

	atomic_inc(&counts[cpu_id()]);
}

static unsigned int call_counts[MAX_CPUS];

static void calls_reach_their_cpus(struct ktest *t)
{
	memset(call_counts, 0, sizeof(call_counts));
	smp_call_all(count_here, call_counts);
	for_each_cpu(cpu)
		EXPECT_EQ(t, call_counts[cpu], 1);
}

/* Each CPU calls all others: one that waits serves the others' calls meanwhile. */
static void call_member(struct member *m)
{
	for (unsigned int i = 0; i < rounds(100); i++)
		smp_call_all(count_here, call_counts);
}

static void calls_cross(struct ktest *t)
{
	const unsigned int nr = cpu_online_count();
	unsigned int sum = 0;

	memset(call_counts, 0, sizeof(call_counts));
	EXPECT_EQ(t, on_all(t, 1, call_member, NULL), 0);
	for_each_cpu(cpu)
		sum += call_counts[cpu];
	EXPECT_EQ(t, sum, rounds(100) * nr * nr);
}

static void counting_member(struct member *m)
{
	for (unsigned int i = 0; i < 1000; i++)
		counter_inc(&count_test);
}

static void counters_add_up(struct ktest *t)
{
	const uint64_t before = counter_read(&count_test);

	EXPECT_EQ(t, on_all(t, 3, counting_member, NULL), 0);
	EXPECT_EQ(t, counter_read(&count_test) - before, 3000 * cpu_online_count());
}

/* --- timers and work ------------------------------------------------------------------------ */

struct rearming {
	struct timer timer;
	unsigned int fired; /* atomic */
	unsigned int stopped;
	unsigned int late; /* atomic: fired after timer_cancel() had returned */
};

static void rearm(void *arg)
{
	struct rearming *r = arg;

	atomic_inc(&r->fired);
	if (atomic_get(&r->stopped))
		atomic_inc(&r->late);
	delay_ns(20 * NSEC_PER_USEC); /* long enough to be cancelled in the middle */
	timer_set(&r->timer, time_now_ns() + 20 * NSEC_PER_USEC);
}

/* A callback that sets its own timer runs on one CPU; others set and cancel it meanwhile. */
static void timer_member(struct member *m)
{
	struct rearming *r = m->arg;

	for (unsigned int i = 0; i < 50; i++) {
		timer_set(&r->timer, time_now_ns() + 10 * NSEC_PER_USEC);
		if (i % 4 == 0)
			delay_ns(30 * NSEC_PER_USEC);
		(void)timer_cancel_async(&r->timer);
	}
}

static void cancelled_timers_stay_quiet(struct ktest *t)
{
	const unsigned int nr = cpu_online_count();

	for (unsigned int i = 0; i < 30; i++) {
		struct rearming r = { 0 };
		struct cpu_mask all;

		thread_affinity(thread_current(), &all);
		timer_init(&r.timer, rearm, &r);
		thread_pin(i % nr);
		timer_set(&r.timer, time_now_ns() + 20 * NSEC_PER_USEC);
		thread_pin((i + 1) % nr);
		for (unsigned int k = 0; k < 2000 && atomic_get(&r.fired) < 1 + i % 3; k++)
			delay_ns(10 * NSEC_PER_USEC);
		(void)timer_cancel(&r.timer);
		r.stopped = 1;
		delay_ns(60 * NSEC_PER_USEC);
		EXPECT_FALSE(t, timer_pending(&r.timer));
		EXPECT_EQ(t, r.late, 0);
		EXPECT_EQ(t, thread_set_affinity(thread_current(), &all), 0);
	}
}

static void one_timer_from_all_cpus(struct ktest *t)
{
	struct rearming r = { 0 };

	timer_init(&r.timer, rearm, &r);
	EXPECT_EQ(t, on_all(t, 1, timer_member, &r), 0);
	(void)timer_cancel(&r.timer);
	r.stopped = 1;
	thread_sleep_ns(MS);
	EXPECT_EQ(t, r.late, 0);
	EXPECT_FALSE(t, timer_pending(&r.timer));
}

struct shared_work {
	struct work work;
	struct workqueue *wq;
	unsigned int queued; /* atomic: times that work_queue() said true */
	unsigned int ran;    /* atomic */
	unsigned int inside; /* atomic */
	unsigned int errors;
};

static void run_shared(struct work *w)
{
	struct shared_work *s = container_of(w, struct shared_work, work);

	s->errors += __atomic_add_fetch(&s->inside, 1, __ATOMIC_SEQ_CST) != 1;
	atomic_inc(&s->ran);
	__atomic_sub_fetch(&s->inside, 1, __ATOMIC_SEQ_CST);
}

static void work_member(struct member *m)
{
	struct shared_work *s = m->arg;

	for (unsigned int i = 0; i < rounds(200); i++) {
		if (work_queue(s->wq, &s->work))
			atomic_inc(&s->queued);
		if (i % 10 == 0)
			work_flush(&s->work);
	}
}

static void work_from_all_cpus(struct ktest *t)
{
	struct shared_work s = { .wq = workqueue_create("smp-test", 4) };

	ASSERT_FALSE(t, IS_ERR(s.wq));
	work_init(&s.work, run_shared);
	EXPECT_EQ(t, on_all(t, 1, work_member, &s), 0);
	EXPECT_TRUE(t, workqueue_flush(s.wq, WAIT_FOREVER));
	EXPECT_EQ(t, s.ran, s.queued);
	EXPECT_GT(t, s.ran, 0);
	EXPECT_EQ(t, s.errors, 0);
	workqueue_destroy(s.wq);
}

/* --- memory ------------------------------------------------------------------------------- */

#define NR_SHARED 64u
static void *shared[NR_SHARED]; /* atomic: objects on their way from one CPU to another */

/* Every object carries its size and a pattern; the CPU that takes it out checks and frees it. */
static uint64_t *make_object(size_t size)
{
	uint64_t *p = kmalloc(size);

	for (size_t i = 0; p && i < size / 8; i++)
		p[i] = size ^ (uint64_t)&p[i];
	if (p)
		p[0] = size;
	return p;
}

static bool object_ok(const uint64_t *p)
{
	for (size_t i = 1; i < p[0] / 8; i++) {
		if (p[i] != (p[0] ^ (uint64_t)&p[i]))
			return false;
	}
	return true;
}

static void slab_member(struct member *m)
{
	struct prng rng;

	prng_seed(&rng, m->cpu + 77);
	for (unsigned int i = 0; i < 1000; i++) {
		void **slot = &shared[prng_below(&rng, NR_SHARED)];
		uint64_t *p = make_object(16 + 8 * prng_below(&rng, i % 50 ? 60 : 1000));

		m->errors += !p;
		p = __atomic_exchange_n(slot, p, __ATOMIC_SEQ_CST);
		m->errors += p && !object_ok(p);
		kfree(p);
	}
}

static void slab_from_all_cpus(struct ktest *t)
{
	const size_t before = slab_bytes_in_use();

	EXPECT_EQ(t, on_all(t, 1, slab_member, NULL), 0);
	for (unsigned int i = 0; i < NR_SHARED; i++) {
		kfree(shared[i]);
		shared[i] = NULL;
	}
	/* Less is all right: threads of earlier tests are freed in the background. */
	EXPECT_LE(t, slab_bytes_in_use(), before);
}

static void frame_member(struct member *m)
{
	struct frame *held[16] = { NULL };
	unsigned int orders[16] = { 0 };
	struct prng rng;

	prng_seed(&rng, m->cpu + 5);
	for (unsigned int i = 0; i < 600; i++) {
		const unsigned int k = (unsigned int)prng_below(&rng, ARRAY_SIZE(held));
		uint64_t *q;

		if (held[k]) {
			q = frame_to_virt(held[k]);
			m->errors += q[0] != (uint64_t)m + k;
			frame_free(held[k], orders[k]);
			held[k] = NULL;
			continue;
		}
		orders[k] = (unsigned int)prng_below(&rng, 5);
		held[k] = frame_alloc(orders[k], 0);
		if (held[k]) {
			q = frame_to_virt(held[k]);
			q[0] = (uint64_t)m + k;
		}
	}
	for (unsigned int k = 0; k < ARRAY_SIZE(held); k++) {
		if (held[k])
			frame_free(held[k], orders[k]);
	}
}

static void frames_from_all_cpus(struct ktest *t)
{
	EXPECT_EQ(t, on_all(t, 2, frame_member, NULL), 0);
	EXPECT_EQ(t, frame_check(), 0);
}

static const struct ktest_case smp_cases[] = {
	KTEST(spinlocks_exclude),
	KTEST(wake_ups_are_not_lost),
	KTEST(notified_wherever_it_sleeps),
	KTEST(threads_go_where_they_are_sent),
	KTEST(running_threads_can_be_moved),
	KTEST(load_spreads),
	KTEST(threads_come_and_go_on_all),
	KTEST(calls_reach_their_cpus),
	KTEST(calls_cross),
	KTEST(counters_add_up),
	KTEST(cancelled_timers_stay_quiet),
	KTEST(one_timer_from_all_cpus),
	KTEST(work_from_all_cpus),
	KTEST(slab_from_all_cpus),
	KTEST(frames_from_all_cpus),
	{ 0 },
};
static const struct ktest_suite smp_suite = { .name = "kernel.smp", .cases = smp_cases };
KTEST_SUITE(smp_suite);
