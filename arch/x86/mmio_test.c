/* SPDX-License-Identifier: MIT */
/* The lock behind the mmio_ accessors: it keeps another CPU out when it is on, and only then. */
#include <arch/cpu.h>
#include <arch/io.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/ktest.h>

#define PATIENCE_NS (10 * NSEC_PER_SEC)
#define LOOK_NS     (2 * NSEC_PER_MSEC)

struct other {
	uint32_t reg; /* stands for a device's register */
	unsigned int ready, go, started, done;
};

static unsigned int get(const unsigned int *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static void set(unsigned int *p)
{
	__atomic_store_n(p, 1, __ATOMIC_SEQ_CST);
}

static void other_main(void *arg)
{
	struct other *o = arg;

	set(&o->ready);
	while (!get(&o->go))
		cpu_relax();
	set(&o->started);
	mmio_write32((void __iomem __force *)&o->reg, 0x600d);
	set(&o->done);
}

static bool becomes(const unsigned int *flag, uint64_t ns)
{
	const uint64_t end = time_now_ns() + ns;

	while (!get(flag) && time_now_ns() < end)
		cpu_relax();
	return get(flag);
}

/* While this CPU is inside the lock, another one writes a register: does it get through? */
static void write_beside_lock(struct ktest *t, bool quirk)
{
	struct other o = { 0 };
	unsigned int cpu = cpu_online_count() - 1;
	struct cpu_mask mask;
	struct thread *thread;
	unsigned long flags;
	bool through;

	thread = thread_create_stopped("mmio-test", other_main, &o, THREAD_PRIO_NORMAL);
	ASSERT_TRUE(t, !IS_ERR(thread));
	if (cpu == cpu_id())
		cpu = 0;
	cpu_mask_only(&mask, cpu);
	EXPECT_EQ(t, thread_set_affinity(thread, &mask), 0);
	thread_start(thread);
	EXPECT_TRUE(t, becomes(&o.ready, PATIENCE_NS));
	mmio_lock_quirk_set(quirk);
	flags = mmio_lock_enter();
	set(&o.go);
	EXPECT_TRUE(t, becomes(&o.started, PATIENCE_NS));
	through = becomes(&o.done, quirk ? LOOK_NS : PATIENCE_NS);
	mmio_lock_leave(flags);
	thread_join(thread);
	EXPECT_EQ(t, through, !quirk);
	EXPECT_EQ(t, o.reg, 0x600dU);
}

static void lock_keeps_others_out_when_on(struct ktest *t)
{
	const bool before = mmio_lock_quirk;

	if (cpu_online_count() > 1) {
		write_beside_lock(t, true);
		write_beside_lock(t, false);
	}
	mmio_lock_quirk_set(before);
}

/* A device that asks gets it with several CPUs; with one nothing is ever beside an access. */
static void device_may_ask(struct ktest *t)
{
	const bool before = mmio_lock_quirk;

	mmio_lock_quirk_set(false);
	mmio_lock_ask("a test");
	EXPECT_EQ(t, mmio_lock_quirk, cpu_online_count() > 1);
	mmio_lock_ask("a test, again");
	EXPECT_EQ(t, mmio_lock_quirk, cpu_online_count() > 1);
	mmio_lock_quirk_set(before);
}

static const struct ktest_case mmio_cases[] = {
	KTEST(lock_keeps_others_out_when_on),
	KTEST(device_may_ask),
	{ 0 },
};
static const struct ktest_suite mmio_suite = { .name = "arch.mmio", .cases = mmio_cases };
KTEST_SUITE(mmio_suite);
