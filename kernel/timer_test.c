/* SPDX-License-Identifier: MIT */
#include <arch/cpu.h>
#include <kernel/preempt.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <lib/ktest.h>
#include <lib/prng.h>

#define US NSEC_PER_USEC
#define MS NSEC_PER_MSEC
#define NR 200u

struct fired {
	struct timer timer;
	uint64_t at;
	unsigned int order;
	unsigned int count;
	bool in_irq;
};

static unsigned int next_order;

static void on_fire(void *arg)
{
	struct fired *f = arg;

	f->at = time_now_ns();
	f->order = next_order++;
	f->count++;
	f->in_irq = in_interrupt();
}

/*
 * Order means something among the timers of one CPU, all of which are set before the first can
 * fire.
 */
static void fire_in_order_and_not_early(struct ktest *t)
{
	static struct fired f[NR];
	const uint64_t start = time_now_ns();
	struct cpu_mask all;
	struct prng rng;
	unsigned long flags;

	thread_affinity(thread_current(), &all);
	thread_pin(cpu_online_count() - 1);
	prng_seed(&rng, 3);
	next_order = 0;
	flags = local_irq_save();
	for (unsigned int i = 0; i < NR; i++) {
		f[i] = (struct fired){ 0 };
		timer_init(&f[i].timer, on_fire, &f[i]);
		timer_set(&f[i].timer, start + 10 * MS + prng_below(&rng, 10 * MS));
	}
	local_irq_restore(flags);
	for (unsigned int i = 0; i < 1000 && READ_ONCE(next_order) < NR; i++)
		thread_sleep_ns(MS);
	for (unsigned int i = 0; i < NR; i++) {
		EXPECT_EQ(t, f[i].count, 1);
		EXPECT_TRUE(t, f[i].in_irq);
		EXPECT_GE(t, f[i].at, f[i].timer.deadline_ns);
		EXPECT_FALSE(t, timer_pending(&f[i].timer));
		for (unsigned int k = 0; k < i; k++) {
			if (f[k].timer.deadline_ns < f[i].timer.deadline_ns)
				EXPECT_LT(t, f[k].order, f[i].order);
		}
	}
	EXPECT_EQ(t, thread_set_affinity(thread_current(), &all), 0);
}

static void cancel_and_move(struct ktest *t)
{
	struct fired a = { 0 };
	struct fired b = { 0 };
	struct fired past = { 0 };
	const uint64_t start = time_now_ns();

	timer_init(&a.timer, on_fire, &a);
	timer_init(&b.timer, on_fire, &b);
	timer_init(&past.timer, on_fire, &past);
	EXPECT_FALSE(t, timer_cancel(&a.timer));
	timer_set(&a.timer, start + 2000 * MS); /* far enough for a stalled CPU */
	timer_set(&b.timer, start + 3000 * MS);
	EXPECT_TRUE(t, timer_pending(&a.timer));
	EXPECT_TRUE(t, timer_cancel(&a.timer));
	EXPECT_FALSE(t, timer_cancel(&a.timer));
	timer_set(&b.timer, start + 50000 * MS);
	timer_set(&b.timer, start + 4 * MS);
	timer_set(&past.timer, 0);
	for (unsigned int i = 0; i < 1000 && READ_ONCE(b.count) + READ_ONCE(past.count) < 2; i++)
		thread_sleep_ns(MS);
	(void)timer_cancel(&b.timer);
	(void)timer_cancel(&past.timer);
	EXPECT_EQ(t, a.count, 0);
	EXPECT_FALSE(t, timer_pending(&a.timer));
	EXPECT_EQ(t, b.count, 1);
	EXPECT_GE(t, b.at, start + 4 * MS);
	EXPECT_EQ(t, past.count, 1);
}

struct periodic {
	struct timer timer;
	unsigned int count;
};

static void on_period(void *arg)
{
	struct periodic *p = arg;

	if (++p->count < 20)
		timer_set(&p->timer, time_now_ns() + 100 * US);
}

static void callback_rearms_itself(struct ktest *t)
{
	struct periodic p = { 0 };

	timer_init(&p.timer, on_period, &p);
	timer_set(&p.timer, time_now_ns() + 100 * US);
	for (unsigned int i = 0; i < 1000 && READ_ONCE(p.count) < 20; i++)
		thread_sleep_ns(MS);
	(void)timer_cancel(&p.timer);
	EXPECT_EQ(t, p.count, 20);
}

/* Clocks: both advance, together. */
static void clocks(struct ktest *t)
{
	const uint64_t real = time_real_ns();
	const uint64_t mono = time_now_ns();

	delay_ns(200 * US);
	EXPECT_GE(t, time_now_ns() - mono, 200 * US);
	/* Read one after the other, so a stall lies between them. */
	EXPECT_LT(t, (time_real_ns() - real) - (time_now_ns() - mono) + 1000 * MS, 2000 * MS);
	EXPECT_GT(t, real / NSEC_PER_SEC, 1577836800ul); /* 2020: the CMOS clock was read */
	EXPECT_EQ(t, time_after_ns(UINT64_MAX), UINT64_MAX);
}

static const struct ktest_case timer_cases[] = {
	KTEST(fire_in_order_and_not_early),
	KTEST(cancel_and_move),
	KTEST(callback_rearms_itself),
	KTEST(clocks),
	{ 0 },
};
static const struct ktest_suite timer_suite = { .name = "kernel.timer", .cases = timer_cases };
KTEST_SUITE(timer_suite);
