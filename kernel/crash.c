/* SPDX-License-Identifier: MIT */
/*
 * Deliberate crashes, to test what a panic prints and that the traps behind
 * it work: boot parameter crash=<kind>.  Runs after the init calls.
 */
#include <arch/cpu.h>
#include <arch/layout.h>
#include <kernel/bootparam.h>
#include <kernel/initcall.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <kernel/trace.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>

static const char *crash_kind;
BOOT_PARAM(
	"crash", string, crash_kind,
	"for tests of panics: null, user, stack, text, data, bug, sleep, lock, heap, free or cpus");

static void crash_null(void)
{
	volatile uintptr_t addr = 8; /* hidden from the compiler, which would refuse */

	*(volatile uint32_t *)addr = 1;
}

/* A user address in kernel mode: SMAP, or simply nothing there. */
static void crash_user(void)
{
	volatile uintptr_t addr = 0x400000;

	(void)*(volatile uint32_t *)addr;
}

static __noinline uint64_t recurse(uint64_t n)
{
	volatile uint64_t big[64];

	big[n & 63] = n;
	return n == UINT64_MAX ? 0 : recurse(n + 1) + big[n & 63];
}

static void crash_stack(void)
{
	TRACE("crash.stack", recurse(1), 0, 0);
}

static void crash_text(void)
{
	*(volatile uint8_t *)(uintptr_t)crash_text = 0x90;
}

static void crash_data(void)
{
	static uint8_t code[] = { 0xc3 };

	((void (*)(void))(uintptr_t)code)();
}

static void crash_bug(void)
{
	BUG_ON(thread_current() != NULL);
}

static void crash_sleep(void)
{
	preempt_disable();
	thread_sleep_ns(1);
	preempt_enable();
}

static void crash_lock(void)
{
	static struct spinlock inner = SPINLOCK_INIT("crash-inner", RANK_SPIN_NET);
	static struct spinlock outer = SPINLOCK_INIT("crash-outer", RANK_SPIN_MONITOR);

	spin_lock(&inner);
	spin_lock(&outer);
	spin_unlock(&outer);
	spin_unlock(&inner);
}

static void crash_heap(void)
{
	volatile uint8_t *p = kmalloc(128);

	if (p)
		p[130] = 1;
	kfree((void *)(uintptr_t)p);
}

static void crash_free(void)
{
	void *volatile p = kmalloc(100);

	kfree(p);
	kfree(p);
}

static unsigned int nr_deaf; /* atomic */

static __noinline void deaf_loop(void *arg)
{
	local_irq_disable();
	__atomic_add_fetch(&nr_deaf, 1, __ATOMIC_SEQ_CST);
	for (;;)
		cpu_relax();
}

/* Every other CPU in a loop with interrupts off: the panic must reach it all the same. */
static void crash_cpus(void)
{
	thread_pin(0);
	for (unsigned int cpu = 1; cpu < cpu_online_count(); cpu++) {
		struct thread *t = thread_create_stopped("deaf", deaf_loop, NULL, THREAD_PRIO_HIGH);
		struct cpu_mask mask;

		cpu_mask_only(&mask, cpu);
		if (IS_ERR(t) || thread_set_affinity(t, &mask))
			return;
		thread_start(t);
	}
	while (__atomic_load_n(&nr_deaf, __ATOMIC_SEQ_CST) + 1 < cpu_online_count())
		cpu_relax();
	panic("with %u other CPUs at work", cpu_online_count() - 1);
}

static const struct {
	const char *kind;
	void (*fn)(void);
} crashes[] = {
	{ "null", crash_null },   { "user", crash_user }, { "stack", crash_stack },
	{ "text", crash_text },   { "data", crash_data }, { "bug", crash_bug },
	{ "sleep", crash_sleep }, { "lock", crash_lock }, { "heap", crash_heap },
	{ "free", crash_free },   { "cpus", crash_cpus },
};

static int crash_run(void)
{
	if (!crash_kind)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(crashes); i++) {
		if (strcmp(crashes[i].kind, crash_kind) == 0) {
			TRACE("crash.now", i, 0, 0);
			crashes[i].fn();
		}
	}
	return 0;
}
INITCALL(program, crash_run);
