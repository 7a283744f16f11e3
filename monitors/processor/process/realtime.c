/* SPDX-License-Identifier: MIT */
/*
 * Real-time policies: what they may be, and how much CPU time is reserved.
 *
 * Flow:	SCHED_FIFO, SCHED_RR and SCHED_DEADLINE are a place in the scheduler's fixed order
 *		(<kernel/fair.h>). They go before all other threads of programs and behind the
 *		kernel's own, and the others keep a part of each CPU (sched.c).
 *		A task with SCHED_DEADLINE reserves its runtime in each period: the sum of all
 *		reservations, in parts of a CPU, has a bound.
 * Locking:	process.sig_lock for the fields of a task; the sum is atomic.
 * Limits:	as of fixed.c: a task that has used up its runtime is not stopped until its next
 *		period. SCHED_FLAG_RECLAIM and SCHED_FLAG_DL_OVERRUN answer EINVAL.
 */
#include "process_private.h"

#include <arch/cpu.h>
#include <kernel/counter.h>
#include <lib/errno.h>

#define CPU_PARTS     (1ull << 20) /* of one CPU */
#define RESERVE_MOST  95u          /* percent of all CPUs, as on Linux */
#define RUNTIME_MIN   1024u
#define PERIOD_MIN_NS 100000ull /* as Linux's sched_deadline_period_min_us */
#define PERIOD_MAX_NS (4194304ull * 1000)

static uint64_t reserved; /* atomic */

static uint64_t read_reserved(void)
{
	return __atomic_load_n(&reserved, __ATOMIC_RELAXED);
}
GAUGE(reserved_gauge, "sched.reserved", "CPU time reserved by SCHED_DEADLINE, in 2^-20 of a CPU",
      read_reserved);

bool realtime_is(uint32_t policy)
{
	return policy == SCHED_FIFO || policy == SCHED_RR || policy == SCHED_DEADLINE;
}

static bool times_ok(const struct fair_fixed *f)
{
	return f->runtime_ns >= RUNTIME_MIN && f->runtime_ns <= f->deadline_ns &&
	       f->deadline_ns <= f->period_ns && f->period_ns >= PERIOD_MIN_NS &&
	       f->period_ns <= PERIOD_MAX_NS;
}

bool realtime_complete(uint32_t policy, struct sched_want *w)
{
	struct fair_fixed *f = &w->fixed;

	switch (policy) {
	case SCHED_FIFO:
	case SCHED_RR:
		*f = (struct fair_fixed){ .order = policy == SCHED_RR ? FAIR_RR : FAIR_FIFO,
					  .prio = (uint8_t)w->prio };
		return w->prio >= 1 && w->prio <= FAIR_PRIO_MAX;
	case SCHED_DEADLINE:
		f->order = FAIR_DEADLINE;
		if (!f->period_ns)
			f->period_ns = f->deadline_ns;
		return !w->prio && times_ok(f);
	default:
		*f = (struct fair_fixed){ 0 };
		return !w->prio;
	}
}

int realtime_may_locked(const struct task *t, uint32_t policy, const struct fair_fixed *f)
{
	const uint64_t limit = READ_ONCE(t->process->rlimits[RLIMIT_RTPRIO].cur);

	assert_spin_held(&t->process->sig_lock);
	if (capable(CAP_SYS_NICE))
		return 0;
	if (policy == SCHED_DEADLINE)
		return -EPERM;
	if (!realtime_is(policy))
		return 0;
	if (policy != policy_of(t) && !limit)
		return -EPERM;
	return f->prio > t->fixed.prio && f->prio > limit ? -EPERM : 0;
}

/* @more of the CPUs instead of @less. */
static int reserve(uint64_t less, uint64_t more)
{
	const uint64_t most = cpu_online_count() * (CPU_PARTS * RESERVE_MOST / 100);
	uint64_t is = __atomic_load_n(&reserved, __ATOMIC_RELAXED), want;

	do {
		want = is - less + more;
		if (more > less && want > most)
			return -EBUSY;
	} while (!__atomic_compare_exchange_n(&reserved, &is, want, false, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return 0;
}

int realtime_admit_locked(struct task *t, uint32_t policy, const struct fair_fixed *f)
{
	uint64_t part = 0;
	int err;

	assert_spin_held(&t->process->sig_lock);
	if (policy == SCHED_DEADLINE) {
		if (list_empty(&t->link))
			return -ESRCH; /* it has ended, and could not give it back */
		part = DIV_ROUND_UP(f->runtime_ns * CPU_PARTS, f->period_ns);
	}
	err = reserve(t->admitted, part);
	if (!err)
		t->admitted = part;
	return err;
}

void realtime_leave_locked(struct task *t)
{
	assert_spin_held(&t->process->sig_lock);
	(void)!reserve(t->admitted, 0);
	t->admitted = 0;
}
