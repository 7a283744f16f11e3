/* SPDX-License-Identifier: MIT */
#include <kernel/irq.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/frame.h>

#define MS NSEC_PER_MSEC

static void add_one(void *arg)
{
	__atomic_add_fetch((unsigned int *)arg, 1, __ATOMIC_RELAXED);
}

static void many_threads_come_and_go(struct ktest *t)
{
	const size_t before = thread_count();
	unsigned int sum = 0;
	uint64_t frames = 0;

	for (unsigned int round = 0; round < 20; round++) {
		struct thread *th[10];

		if (round == 1) /* caches are warm now */
			frames = frames_free_count();
		for (unsigned int i = 0; i < 10; i++)
			th[i] = thread_create("short", add_one, &sum);
		for (unsigned int i = 0; i < 10; i++)
			thread_join(th[i]);
	}
	EXPECT_EQ(t, sum, 200);
	EXPECT_EQ(t, thread_count(), before);
	EXPECT_LE(t, frames, frames_free_count() + 64);
}

/* A thread that is notified before it was started does not run: its creator still needs it. */
static void a_new_thread_waits_for_its_start(struct ktest *t)
{
	unsigned int ran = 0;
	struct thread *th = thread_create_stopped("new", add_one, &ran, THREAD_PRIO_HIGH);

	ASSERT_FALSE(t, IS_ERR(th));
	thread_notify(th, THREAD_F_KILL);
	thread_sleep_ns(5 * MS);
	EXPECT_EQ(t, READ_ONCE(ran), 0);
	thread_start(th);
	thread_join(th);
	EXPECT_EQ(t, ran, 1);
}

static void detached_threads_are_reaped(struct ktest *t)
{
	const size_t before = thread_count();
	unsigned int sum = 0;

	for (unsigned int i = 0; i < 20; i++) {
		struct thread *th = thread_create("detached", add_one, &sum);

		ASSERT_FALSE(t, IS_ERR(th));
		if (i & 1)
			thread_yield(); /* it may be over before it is detached */
		thread_detach(th);
	}
	for (unsigned int i = 0; i < 1000 && thread_count() != before; i++)
		thread_sleep_ns(MS);
	EXPECT_EQ(t, thread_count(), before);
	EXPECT_EQ(t, sum, 20);
}

struct spin {
	bool stop;
	uint64_t count;
};

static void spin_main(void *arg)
{
	struct spin *s = arg;

	while (!READ_ONCE(s->stop))
		WRITE_ONCE(s->count, s->count + 1);
}

/* Two loops that never yield share the CPU by time slices; a sleeper still wakes on time. */
static void loops_are_preempted(struct ktest *t)
{
	struct spin a = { 0 };
	struct spin b = { 0 };
	struct thread *ta = thread_create_prio("spin-a", spin_main, &a, THREAD_PRIO_USER);
	struct thread *tb = thread_create_prio("spin-b", spin_main, &b, THREAD_PRIO_USER);
	unsigned int naps = 0;

	while (naps++ < 100 && (thread_cpu_ns(ta) < 10 * MS || thread_cpu_ns(tb) < 10 * MS))
		thread_sleep_ns(20 * MS);
	EXPECT_LT(t, naps, 100);
	EXPECT_GT(t, a.count, 0);
	EXPECT_GT(t, b.count, 0);
	WRITE_ONCE(a.stop, true);
	WRITE_ONCE(b.stop, true);
	thread_join(ta);
	thread_join(tb);
}

/* A thread that may run on this CPU only. */
static struct thread *create_here(const char *name, unsigned int *sum, enum thread_prio prio)
{
	struct thread *th = thread_create_stopped(name, add_one, sum, prio);
	struct cpu_mask here;

	if (!IS_ERR(th)) {
		cpu_mask_only(&here, cpu_id());
		if (thread_set_affinity(th, &here))
			return ERR_PTR(-EINVAL);
		thread_start(th);
	}
	return th;
}

static void higher_class_runs_first(struct ktest *t)
{
	unsigned int sum = 0;
	struct cpu_mask all;
	struct thread *th;

	thread_pin(0);
	preempt_disable();
	th = create_here("high", &sum, THREAD_PRIO_HIGH);
	EXPECT_EQ(t, sum, 0);
	preempt_enable(); /* the switch happens here */
	EXPECT_EQ(t, sum, 1);
	thread_join(th);
	th = create_here("low", &sum, THREAD_PRIO_LOW);
	thread_yield();
	EXPECT_EQ(t, sum, 1);
	thread_set_prio(th, THREAD_PRIO_HIGH);
	EXPECT_EQ(t, sum, 2);
	thread_join(th);
	cpu_mask_fill(&all);
	EXPECT_EQ(t, thread_set_affinity(thread_current(), &all), 0);
}

static void canary_main(void *arg)
{
	char deep[2000];

	memset(deep, 1, sizeof(deep));
	for (unsigned int i = 0; i < 50; i++)
		thread_yield();
	for (size_t i = 0; i < sizeof(deep); i++) {
		if (READ_ONCE(deep[i]) != 1)
			return;
	}
	__atomic_add_fetch((unsigned int *)arg, 1, __ATOMIC_RELAXED);
}

static void stacks_are_separate(struct ktest *t)
{
	unsigned int sum = 0;
	struct thread *th[6];

	for (unsigned int i = 0; i < 6; i++)
		th[i] = thread_create("stack", canary_main, &sum);
	for (unsigned int i = 0; i < 6; i++)
		thread_join(th[i]);
	EXPECT_EQ(t, sum, 6);
}

static void on_irq(unsigned int vector, void *arg)
{
	*(unsigned int *)arg = vector;
}

static void vectors(struct ktest *t)
{
	static int all[256];
	unsigned int got = 0;
	unsigned int n = 0;
	const int v = irq_alloc(on_irq, &got, "test");

	ASSERT_TRUE(t, v > 0);
	EXPECT_EQ(t, msi_data((unsigned int)v) & 0xff, v);
	EXPECT_EQ(t, msi_address((unsigned int)v, 0) >> 20, 0xfee);
	while (n < ARRAY_SIZE(all) && (all[n] = irq_alloc(on_irq, &got, "test")) >= 0)
		n++;
	EXPECT_EQ(t, all[n], -ENOSPC);
	EXPECT_GT(t, n, 100);
	while (n--)
		irq_free((unsigned int)all[n]);
	irq_free((unsigned int)v);
}

static const struct ktest_case thread_cases[] = {
	KTEST(many_threads_come_and_go),
	KTEST(a_new_thread_waits_for_its_start),
	KTEST(detached_threads_are_reaped),
	KTEST(loops_are_preempted),
	KTEST(higher_class_runs_first),
	KTEST(stacks_are_separate),
	KTEST(vectors),
	{ 0 },
};
static const struct ktest_suite thread_suite = { .name = "kernel.thread", .cases = thread_cases };
KTEST_SUITE(thread_suite);
