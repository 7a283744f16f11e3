/* SPDX-License-Identifier: MIT */
/*
 * Debug registers of user threads.
 *
 * Invariants:	DR7 of a CPU is other than off only while the current thread has THREAD_F_DEBUG: the
 *		switch turns it off, and only the thread itself gives the flag up.
 * Context:	loading runs with preemption off; debug_set() is another thread's, which nothing
 *		else changes meanwhile.
 */
#include <arch/debugreg.h>

#include <arch/layout.h>
#include <kernel/panic.h>
#include <kernel/preempt.h>
#include <kernel/thread.h>
#include <lib/errno.h>

#define DR7_ONE    0x400ull /* reads as 1 */
#define DR7_ENABLE 0xffull
#define DR7_KINDS  0xffff0000ull

enum { /* R/W fields */
	KIND_EXEC,
	KIND_WRITE,
	KIND_IO,
	KIND_ACCESS,
};

static bool is_enabled(uint64_t control, unsigned int i)
{
	return control >> (2 * i) & 3;
}

int debug_regs_check(const struct debug_regs *d)
{
	static const uint8_t sizes[4] = { 1, 2, 8, 4 };

	for (unsigned int i = 0; i < NR_BREAKPOINTS; i++) {
		const unsigned int kind = (unsigned int)(d->control >> (16 + 4 * i) & 3);
		const unsigned int len = (unsigned int)(d->control >> (18 + 4 * i) & 3);

		if (!is_enabled(d->control, i))
			continue;
		if (kind == KIND_IO || (kind == KIND_EXEC && len))
			return -EINVAL;
		if (d->addr[i] > USER_TOP - sizes[len] || (d->addr[i] & (sizes[len] - 1)))
			return -EINVAL;
	}
	return 0;
}

uint64_t debug_control_of(const struct debug_regs *d)
{
	uint64_t control = d->control & DR7_KINDS;
	bool any = false;

	for (unsigned int i = 0; i < NR_BREAKPOINTS; i++) {
		if (!is_enabled(d->control, i))
			continue;
		control |= 1ull << (2 * i);
		any = true;
	}
	return any ? control | DR7_ONE : DR7_ONE;
}

static void write_control(uint64_t v)
{
	__asm__ volatile("mov %0, %%dr7" ::"r"(v) : "memory");
}

static void load(const struct debug_regs *d)
{
	ASSERT(!preemptible());
	/* A set that a tracer is changing may be half of each: the thread does not run with it. */
	if (debug_regs_check(d)) {
		write_control(DR7_ONE);
		return;
	}
	__asm__ volatile("mov %0, %%dr0" ::"r"(d->addr[0]));
	__asm__ volatile("mov %0, %%dr1" ::"r"(d->addr[1]));
	__asm__ volatile("mov %0, %%dr2" ::"r"(d->addr[2]));
	__asm__ volatile("mov %0, %%dr3" ::"r"(d->addr[3]));
	write_control(debug_control_of(d));
}

void debug_switch(const struct thread *prev, const struct thread *next)
{
	if (READ_ONCE(prev->flags) & THREAD_F_DEBUG)
		write_control(DR7_ONE);
	if (READ_ONCE(next->flags) & THREAD_F_DEBUG)
		load(&next->user.debug);
}

void debug_set(struct thread *t, const struct debug_regs *d)
{
	t->user.debug = *d;
	__atomic_fetch_or(&t->flags, THREAD_F_DEBUG, __ATOMIC_SEQ_CST);
}

void debug_reload(void)
{
	struct thread *t = thread_current();

	if (likely(!(READ_ONCE(t->flags) & THREAD_F_DEBUG)))
		return;
	preempt_disable();
	if (debug_control_of(&t->user.debug) != DR7_ONE) {
		load(&t->user.debug);
	} else {
		write_control(DR7_ONE);
		thread_clear_flags(t, THREAD_F_DEBUG);
	}
	preempt_enable();
}

void debug_clear(void)
{
	struct thread *t = thread_current();

	t->user.debug = (struct debug_regs){ 0 };
	debug_reload();
}

uint64_t debug_take_status(void)
{
	uint64_t v;

	__asm__ volatile("mov %%dr6, %0" : "=r"(v));
	__asm__ volatile("mov %0, %%dr6" ::"r"(DR6_RESERVED));
	return v & (DR6_HITS | DR6_STEP);
}
