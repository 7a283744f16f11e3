/* SPDX-License-Identifier: MIT */
/*
 * Timers: a red-black tree per CPU ordered by deadline, one hardware one-shot.
 *
 * Flow:	timer_set() inserts and, when the earliest deadline changed, programs the
 *		hardware; the interrupt runs what has expired and programs the next.
 * Locking:	base->lock guards its tree and the fields of timers in it.  Callbacks run
 *		without it; base->running names the one that runs.
 * Idle:	no pending timer and no time slice means no interrupt at all.
 */
#include <kernel/timer.h>

#include <arch/clockevent.h>
#include <arch/cpu.h>
#include <kernel/panic.h>
#include <kernel/percpu.h>
#include <kernel/sched.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <kernel/timer_irq.h>

struct timer_base {
	struct spinlock lock; /* RANK_TIMER */
	struct rb_root tree __guarded_by(&lock);
	struct rb_node *first __guarded_by(&lock);
	struct timer *running; /* atomic: callback in progress */
	uint64_t slice_end_ns; /* owner cpu, interrupts off; UINT64_MAX: none */
	bool ready;            /* owner cpu: clock events work */
};

static DEFINE_PERCPU(struct timer_base, timer_base) = {
	.lock = SPINLOCK_INIT("timer", RANK_TIMER),
	.slice_end_ns = UINT64_MAX,
};

#define NO_CPU UINT32_MAX

void timer_init(struct timer *t, void (*fn)(void *arg), void *arg)
{
	*t = (struct timer){ .fn = fn, .arg = arg, .cpu = NO_CPU };
}

static struct timer *first_timer(const struct timer_base *b)
{
	return rb_entry_or_null(b->first, struct timer, node);
}

static void program(struct timer_base *b)
{
	const struct timer *t = first_timer(b);

	if (b->ready)
		clockevent_set(MIN(t ? t->deadline_ns : UINT64_MAX, b->slice_end_ns));
}

static void insert_locked(struct timer_base *b, struct timer *t) __must_hold(&b->lock)
{
	struct rb_node **link = &b->tree.node;
	struct rb_node *parent = NULL;
	bool leftmost = true;

	while (*link) {
		parent = *link;
		if (t->deadline_ns < rb_entry(parent, struct timer, node)->deadline_ns) {
			link = &parent->left;
		} else {
			link = &parent->right;
			leftmost = false;
		}
	}
	rb_link_node(&t->node, parent, link);
	rb_insert_color(&t->node, &b->tree);
	if (leftmost)
		b->first = &t->node;
	t->pending = true;
}

static void remove_locked(struct timer_base *b, struct timer *t) __must_hold(&b->lock)
{
	if (b->first == &t->node)
		b->first = rb_next(&t->node);
	rb_erase(&t->node, &b->tree);
	t->pending = false;
}

/* Lock the base that @t belongs to; NULL if it was never set. */
static struct timer_base *lock_base(const struct timer *t, unsigned long *flags)
{
	for (;;) {
		const uint32_t cpu = READ_ONCE(t->cpu);
		struct timer_base *b;

		if (cpu == NO_CPU)
			return NULL;
		b = per_cpu_ptr(&timer_base, cpu);
		*flags = spin_lock_irqsave(&b->lock);
		if (t->cpu == cpu)
			return b;
		spin_unlock_irqrestore(&b->lock, *flags);
	}
}

bool timer_cancel_async(struct timer *t)
{
	unsigned long flags;
	struct timer_base *b = lock_base(t, &flags);
	bool was;

	if (!b)
		return false;
	was = t->pending;
	if (was)
		remove_locked(b, t);
	spin_unlock_irqrestore(&b->lock, flags);
	return was;
}

bool timer_cancel(struct timer *t)
{
	const bool was = timer_cancel_async(t);
	const uint32_t cpu = READ_ONCE(t->cpu);

	if (cpu != NO_CPU) {
		const struct timer_base *b = per_cpu_ptr(&timer_base, cpu);

		while (__atomic_load_n(&b->running, __ATOMIC_ACQUIRE) == t)
			cpu_relax();
	}
	return was;
}

void timer_set(struct timer *t, uint64_t deadline_ns)
{
	unsigned long flags;
	struct timer_base *b;

	(void)timer_cancel_async(t);
	flags = local_irq_save();
	b = this_cpu_ptr(&timer_base);
	spin_lock(&b->lock);
	t->deadline_ns = deadline_ns;
	WRITE_ONCE(t->cpu, cpu_id());
	insert_locked(b, t);
	if (b->first == &t->node)
		program(b);
	spin_unlock(&b->lock);
	local_irq_restore(flags);
}

bool timer_pending(const struct timer *t)
{
	return READ_ONCE(t->pending);
}

void timer_slice_set(uint64_t end_ns)
{
	struct timer_base *b = this_cpu_ptr(&timer_base);

	if (b->slice_end_ns == end_ns)
		return;
	b->slice_end_ns = end_ns;
	/* An interrupt that comes too early does no harm; one that is missing would. */
	if (end_ns == UINT64_MAX)
		return;
	spin_lock(&b->lock);
	program(b);
	spin_unlock(&b->lock);
}

static struct timer *take_expired(struct timer_base *b, uint64_t now)
{
	struct timer *t;

	spin_lock(&b->lock);
	t = first_timer(b);
	if (t && t->deadline_ns <= now) {
		remove_locked(b, t);
		__atomic_store_n(&b->running, t, __ATOMIC_RELEASE);
	} else {
		t = NULL;
	}
	spin_unlock(&b->lock);
	return t;
}

void timer_interrupt(void)
{
	struct timer_base *b = this_cpu_ptr(&timer_base);
	const uint64_t now = time_now_ns();
	struct timer *t;

	while ((t = take_expired(b, now))) {
		void (*fn)(void *arg) = t->fn;
		void *arg = t->arg;

		fn(arg); /* may free or set @t */
		__atomic_store_n(&b->running, NULL, __ATOMIC_RELEASE);
	}
	if (b->slice_end_ns <= now) {
		b->slice_end_ns = UINT64_MAX;
		percpu_write(need_resched, 1);
	}
	spin_lock(&b->lock);
	program(b);
	spin_unlock(&b->lock);
}

void timer_start_cpu(void)
{
	const unsigned long flags = local_irq_save();
	struct timer_base *b = this_cpu_ptr(&timer_base);

	spin_lock(&b->lock);
	b->ready = true;
	program(b);
	spin_unlock(&b->lock);
	local_irq_restore(flags);
}
