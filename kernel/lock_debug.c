/* SPDX-License-Identifier: MIT */
/*
 * Lock rules, checked at run time (CONFIG_DEBUG).
 *
 * Invariants:	ranks rise (equal ranks: addresses rise); no lock twice; only the holder
 *		unlocks; nothing that sleeps with preemption off.
 * Flow:	each thread lists the locks it holds.  An interrupt handler's locks are
 *		listed on top with its nesting level and ordered among themselves; taking
 *		one that the interrupted code holds is a deadlock and found as "twice".
 * Locking:	the list belongs to the running thread; interrupts push and pop in
 *		balance.
 */
#define PR_FMT "lock: "

#include <kernel/lock_debug.h>
#include <kernel/lock_rank.h>
#include <kernel/panic.h>
#include <kernel/panic_state.h>
#include <kernel/preempt.h>
#include <kernel/printk.h>
#include <kernel/thread.h>

#ifdef CONFIG_DEBUG

static bool expecting;
static unsigned int nr_violations;

void lock_debug_expect(bool on)
{
	expecting = on;
	nr_violations = 0;
}

unsigned int lock_debug_violations(void)
{
	const unsigned int n = nr_violations;

	nr_violations = 0;
	return n;
}

static bool tolerate(void)
{
	if (!expecting)
		return false;
	nr_violations++;
	return true;
}

static void check_order(const struct thread *t, const void *lock, const char *name, uint32_t rank,
			uint32_t level, bool try_only)
{
	for (unsigned int i = 0; i < t->nr_held; i++) {
		const struct held_lock *h = &t->held[i];

		if (h->lock == lock) {
			if (tolerate())
				return;
			panic("lock %s taken twice", name);
		}
		if (try_only || h->irq_level != level)
			continue;
		if (rank < h->rank || (rank == h->rank && lock < h->lock)) {
			if (tolerate())
				return;
			panic("lock order: %s (rank %u) taken under %s (rank %u)", name, rank,
			      h->name, h->rank);
		}
	}
}

static uint32_t irq_level(void)
{
	return percpu_read(preempt_count) / PREEMPT_IRQ;
}

void lock_debug_acquire(const void *lock, const char *name, uint32_t rank, uint32_t how)
{
	struct thread *t = thread_current();
	const uint32_t level = irq_level();
	unsigned long flags;

	if (!t || panic_in_progress())
		return;
	check_order(t, lock, name, rank, level, how & LOCK_DEBUG_TRY);
	flags = local_irq_save();
	if (t->nr_held == LOCK_DEBUG_DEPTH)
		panic("lock %s is the %uth that thread %s holds", name, LOCK_DEBUG_DEPTH + 1,
		      t->name);
	t->held[t->nr_held++] = (struct held_lock){
		.lock = lock,
		.name = name,
		.rank = rank,
		.irq_level = level,
		.shared = how & LOCK_DEBUG_SHARED,
	};
	local_irq_restore(flags);
}

void lock_debug_release(const void *lock, const char *name)
{
	struct thread *t = thread_current();
	unsigned long flags;

	if (!t || panic_in_progress())
		return;
	flags = local_irq_save();
	for (unsigned int i = t->nr_held; i-- > 0;) {
		if (t->held[i].lock != lock)
			continue;
		t->nr_held--;
		for (; i < t->nr_held; i++)
			t->held[i] = t->held[i + 1];
		local_irq_restore(flags);
		return;
	}
	local_irq_restore(flags);
	if (!tolerate())
		panic("lock %s released by thread %s, which does not hold it", name, t->name);
}

/* This thread's entry of @lock, taken at the current interrupt level; NULL: it does not hold it. */
static struct held_lock *find_held(struct thread *t, const void *lock)
{
	const uint32_t level = irq_level();

	for (unsigned int i = t->nr_held; i-- > 0;) {
		if (t->held[i].lock == lock && t->held[i].irq_level == level)
			return &t->held[i];
	}
	return NULL;
}

void lock_debug_assert_held(const void *lock, const char *name, uint32_t how)
{
	struct thread *t = thread_current();
	const struct held_lock *h;

	if (!t || panic_in_progress())
		return;
	h = find_held(t, lock);
	if (h && (!h->shared || (how & LOCK_DEBUG_SHARED)))
		return;
	if (!tolerate())
		panic("lock %s is not held%s by thread %s", name, h ? " for writing" : "", t->name);
}

void lock_debug_may_sleep(const char *what)
{
	if (panic_in_progress() || (preemptible() && local_irqs_enabled()))
		return;
	if (!tolerate())
		panic("%s where sleeping is not allowed (preempt count %#x)", what,
		      percpu_read(preempt_count));
}

void lock_debug_print_held(void)
{
	const struct thread *t = thread_current();

	if (!t || t->nr_held == 0)
		return;
	printk(LOG_ERR, "locks held:\n");
	for (unsigned int i = 0; i < t->nr_held; i++)
		printk(LOG_ERR, "  %s (rank %u, %p)\n", t->held[i].name, t->held[i].rank,
		       t->held[i].lock);
}

#endif
