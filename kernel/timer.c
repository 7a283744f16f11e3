/* SPDX-License-Identifier: MIT */
/*
 * Timers: a red-black tree per CPU ordered by deadline, one hardware one-shot.
 *
 * Flow:	timer_set() inserts and, when the earliest deadline changed, programs the
 *		hardware; the interrupt runs what has expired and programs the next.
 *		Ticks: while user threads run, one every TICK_NS tells their user time from
 *		their system time. It is not stopped when another thread gets the CPU, but it is
 *		not set again once it finds no user thread.
 *		Idle: no pending timer and no time slice means no interrupt at all.
 *		Early: setting the hardware is dear.  It is not done for a time later than the one
 *		it is set to: the interrupt that comes too early sets it anew.
 * Locking:	base->lock guards its tree and the fields of timers in it.  Callbacks run
 *		without it; base->running names the one that runs.  timer->cpu names the
 *		base; it changes under the old base's lock, and while a timer goes from one to
 *		the other it belongs to none (MOVING_CPU).
 */
#include <kernel/timer.h>

#include <arch/clockevent.h>
#include <arch/cpu.h>
#include <kernel/panic.h>
#include <kernel/percpu.h>
#include <kernel/sched.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <kernel/timer_next.h>

struct timer_base {
	struct spinlock lock; /* RANK_TIMER */
	struct rb_root tree __guarded_by(&lock);
	struct rb_node *first __guarded_by(&lock);
	struct timer *running; /* atomic: callback in progress; set with the lock held */
	uint64_t slice_end_ns; /* owner cpu, interrupts off; UINT64_MAX: none */
	uint64_t tick_ns;      /* owner cpu, interrupts off: the next tick; UINT64_MAX: none */
	uint64_t set_ns;       /* owner cpu, interrupts off: what the hardware is set to */
	bool ready;            /* owner cpu: clock events work */
};

#define TICK_NS (4 * NSEC_PER_MSEC)

static DEFINE_PERCPU(struct timer_base, timer_base);

/* timer->cpu: */
#define NO_CPU     UINT32_MAX       /* never set */
#define MOVING_CPU (UINT32_MAX - 1) /* between two bases, for a moment with interrupts off */

void timer_init(struct timer *t, void (*fn)(void *arg), void *arg)
{
	*t = (struct timer){ .fn = fn, .arg = arg, .cpu = NO_CPU };
}

static struct timer *first_locked(const struct timer_base *b) __must_hold(&b->lock)
{
	assert_spin_held(&b->lock);
	return rb_entry_or_null(b->first, struct timer, node);
}

static void program_locked(struct timer_base *b) __must_hold(&b->lock)
{
	const struct timer *t;
	uint64_t ns;

	assert_spin_held(&b->lock);
	t = first_locked(b);
	ns = MIN(t ? t->deadline_ns : UINT64_MAX, MIN(b->slice_end_ns, b->tick_ns));
	if (!b->ready || ns >= b->set_ns)
		return;
	b->set_ns = ns;
	clockevent_set(ns);
}

uint64_t timer_next_ns(void)
{
	return percpu_read(timer_base.set_ns);
}

static void insert_locked(struct timer_base *b, struct timer *t) __must_hold(&b->lock)
{
	struct rb_node **link;
	struct rb_node *parent = NULL;
	bool leftmost = true;

	assert_spin_held(&b->lock);
	ASSERT(!t->pending);
	link = &b->tree.node;
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
	assert_spin_held(&b->lock);
	ASSERT(t->pending);
	if (b->first == &t->node)
		b->first = rb_next(&t->node);
	rb_erase(&t->node, &b->tree);
	t->pending = false;
}

/* Lock the base that @t belongs to, interrupts off; NULL if it was never set. */
static struct timer_base *lock_base(const struct timer *t, unsigned long *flags)
	__no_lock_analysis("returns it locked, or NULL")
{
	for (;;) {
		const uint32_t cpu = __atomic_load_n(&t->cpu, __ATOMIC_ACQUIRE);
		struct timer_base *b;

		if (cpu == NO_CPU)
			return NULL;
		if (cpu == MOVING_CPU) {
			cpu_relax();
			continue;
		}
		b = per_cpu_ptr(&timer_base, cpu);
		*flags = spin_lock_irqsave(&b->lock);
		if (__atomic_load_n(&t->cpu, __ATOMIC_RELAXED) == cpu)
			return b;
		spin_unlock_irqrestore(&b->lock, *flags);
	}
}

/* Disarm; *running says whether the callback is under way. */
static bool cancel(struct timer *t, bool *running)
{
	unsigned long flags;
	struct timer_base *b = lock_base(t, &flags);
	bool was;

	*running = false;
	if (!b)
		return false;
	assert_spin_held(&b->lock);
	was = t->pending;
	if (was)
		remove_locked(b, t);
	*running = __atomic_load_n(&b->running, __ATOMIC_ACQUIRE) == t;
	spin_unlock_irqrestore(&b->lock, flags);
	return was;
}

bool timer_cancel_async(struct timer *t)
{
	bool running;

	return cancel(t, &running);
}

/* A callback that runs meanwhile may set its timer again: look until it does not run. */
bool timer_cancel(struct timer *t)
{
	bool was = false;
	bool running;

	for (;;) {
		was |= cancel(t, &running);
		if (!running)
			return was;
		cpu_relax();
	}
}

/*
 * Lock the base on which to set @t: this CPU's, unless its callback is under way on
 * another, which then goes on to serve it: so timer_cancel() has one place to look at.
 */
static struct timer_base *lock_base_to_set(struct timer *t, unsigned long *flags)
	__no_lock_analysis("returns it locked")
{
	struct timer_base *b;
	uint32_t none = NO_CPU;

	for (;;) {
		b = lock_base(t, flags);
		if (b)
			break;
		/* The first time: nobody else can have it in a tree. */
		*flags = local_irq_save();
		if (__atomic_compare_exchange_n(&t->cpu, &none, MOVING_CPU, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			goto take;
		local_irq_restore(*flags);
		none = NO_CPU;
	}
	if (t->pending)
		remove_locked(b, t);
	if (b == this_cpu_ptr(&timer_base) || __atomic_load_n(&b->running, __ATOMIC_ACQUIRE) == t)
		return b;
	__atomic_store_n(&t->cpu, MOVING_CPU, __ATOMIC_RELAXED);
	spin_unlock(&b->lock);
take:
	b = this_cpu_ptr(&timer_base);
	spin_lock(&b->lock);
	__atomic_store_n(&t->cpu, cpu_id(), __ATOMIC_RELEASE);
	return b;
}

void timer_set(struct timer *t, uint64_t deadline_ns)
{
	unsigned long flags;
	struct timer_base *b = lock_base_to_set(t, &flags);

	assert_spin_held(&b->lock);
	t->deadline_ns = deadline_ns;
	insert_locked(b, t);
	/* Another CPU's hardware is programmed at the end of the interrupt that runs there. */
	if (b->first == &t->node && b == this_cpu_ptr(&timer_base))
		program_locked(b);
	spin_unlock_irqrestore(&b->lock, flags);
}

bool timer_pending(const struct timer *t)
{
	return READ_ONCE(t->pending);
}

static __noinline void program(struct timer_base *b)
{
	spin_lock(&b->lock);
	program_locked(b);
	spin_unlock(&b->lock);
}

void timer_slice_set(uint64_t end_ns)
{
	struct timer_base *b = this_cpu_ptr(&timer_base);

	b->slice_end_ns = end_ns;
	if (unlikely(end_ns < b->set_ns))
		program(b);
}

void timer_tick_start(void)
{
	struct timer_base *b = this_cpu_ptr(&timer_base);

	if (b->tick_ns != UINT64_MAX)
		return;
	b->tick_ns = time_now_ns() + TICK_NS;
	program(b);
}

static struct timer *take_expired(struct timer_base *b, uint64_t now)
{
	struct timer *t;

	spin_lock(&b->lock);
	t = first_locked(b);
	if (t && t->deadline_ns <= now) {
		remove_locked(b, t);
		__atomic_store_n(&b->running, t, __ATOMIC_RELEASE);
	} else {
		t = NULL;
	}
	spin_unlock(&b->lock);
	return t;
}

void timer_interrupt(bool user)
{
	struct timer_base *b = this_cpu_ptr(&timer_base);
	const uint64_t now = time_now_ns();
	struct timer *t;

	b->set_ns = UINT64_MAX; /* it is over, or was too early */
	if (b->tick_ns <= now)
		b->tick_ns = sched_tick(user, now) ? now + TICK_NS : UINT64_MAX;
	while ((t = take_expired(b, now))) {
		void (*fn)(void *arg) = t->fn;
		void *arg = t->arg;

		fn(arg); /* may free or set @t */
		__atomic_store_n(&b->running, NULL, __ATOMIC_RELEASE);
	}
	if (b->slice_end_ns <= now) {
		b->slice_end_ns = UINT64_MAX;
		sched_slice_end();
	}
	program(b);
}

void timer_init_cpu(void)
{
	struct timer_base *b = this_cpu_ptr(&timer_base);

	spin_lock_init(&b->lock, "timer", RANK_TIMER);
	b->slice_end_ns = UINT64_MAX;
	b->tick_ns = UINT64_MAX;
	b->set_ns = UINT64_MAX;
}

void timer_start_cpu(void)
{
	const unsigned long flags = local_irq_save();
	struct timer_base *b = this_cpu_ptr(&timer_base);

	spin_lock(&b->lock);
	b->ready = true;
	program_locked(b);
	spin_unlock(&b->lock);
	local_irq_restore(flags);
}
