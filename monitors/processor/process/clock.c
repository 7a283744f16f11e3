/* SPDX-License-Identifier: MIT */
/*
 * Clocks: decoding of their ids, and CPU time of processes and threads.
 */
#include "clock.h"

#include <kernel/time.h>
#include <lib/errno.h>

#include "process.h"
#include "process_private.h"

/* Ids of other CPU clocks, as Linux makes them: the complement of a pid above three bits. */
#define CPUCLOCK_WHICH     3
#define CPUCLOCK_VIRT      1
#define CPUCLOCK_SCHED     2
#define CPUCLOCK_PERTHREAD 4

static uint64_t task_ns(const struct task *t, bool user_only)
{
	uint64_t user_ns, system_ns;

	if (!user_only)
		return thread_cpu_ns(t->thread);
	thread_cpu_times(t->thread, &user_ns, &system_ns);
	return user_ns;
}

bool cpu_clock_read_locked(struct process *p, const struct clock_id *clock, uint64_t *ns)
{
	const bool user_only =
		clock->kind == CLOCK_KIND_PROCESS_USER || clock->kind == CLOCK_KIND_THREAD_USER;
	const bool one = clock_is_thread(clock);
	const struct task *t;

	assert_spin_held(&p->sig_lock);
	*ns = one ? 0 : user_only ? p->sig.dead_user_ns : p->sig.dead_cpu_ns;
	list_for_each_entry(t, &p->tasks, link) {
		if (one && t->tid != clock->id)
			continue;
		*ns += task_ns(t, user_only);
		if (one)
			return true;
	}
	return !one;
}

static int decode_cpu_clock(int clock, struct clock_id *out)
{
	const uint32_t pid = ~(uint32_t)(clock >> 3);
	const uint32_t nr = pid ? pid_from_vnr(pid) : 0;
	const bool user_only = (clock & CPUCLOCK_WHICH) == CPUCLOCK_VIRT;

	/* PROF and SCHED both count all time. */
	if ((clock & CPUCLOCK_WHICH) > CPUCLOCK_SCHED)
		return -EINVAL;
	if (clock & CPUCLOCK_PERTHREAD)
		*out = (struct clock_id){ user_only ? CLOCK_KIND_THREAD_USER : CLOCK_KIND_THREAD,
					  pid ? nr : task_current()->tid };
	else
		*out = (struct clock_id){ user_only ? CLOCK_KIND_PROCESS_USER : CLOCK_KIND_PROCESS,
					  pid ? nr : process_current()->pid };
	return 0;
}

int clock_decode(int clock, struct clock_id *out)
{
	uint64_t ns;
	int err;

	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
	case CLOCK_TAI:
		*out = (struct clock_id){ CLOCK_KIND_REAL, 0 };
		return 0;
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_BOOTTIME:
		*out = (struct clock_id){ CLOCK_KIND_MONO, 0 };
		return 0;
	case CLOCK_PROCESS_CPUTIME_ID:
		*out = (struct clock_id){ CLOCK_KIND_PROCESS, process_current()->pid };
		return 0;
	case CLOCK_THREAD_CPUTIME_ID:
		*out = (struct clock_id){ CLOCK_KIND_THREAD, task_current()->tid };
		return 0;
	default:
		err = clock < 0 ? decode_cpu_clock(clock, out) : -EINVAL;
		return err ? err : clock_read(out, &ns);
	}
}

int clock_read(const struct clock_id *clock, uint64_t *ns)
{
	struct process *p;
	struct usage u;
	bool found;

	switch (clock->kind) {
	case CLOCK_KIND_REAL:
		*ns = time_real_ns();
		return 0;
	case CLOCK_KIND_MONO:
		*ns = time_now_ns();
		return 0;
	case CLOCK_KIND_THREAD:
	case CLOCK_KIND_THREAD_USER:
		p = process_current();
		spin_lock(&p->sig_lock);
		found = cpu_clock_read_locked(p, clock, ns);
		spin_unlock(&p->sig_lock);
		return found ? 0 : -EINVAL;
	default:
		p = process_find(clock->id);
		if (!p)
			return -EINVAL;
		usage_of(p, &u);
		*ns = u.utime_ns + (clock->kind == CLOCK_KIND_PROCESS ? u.stime_ns : 0);
		process_put(p);
		return 0;
	}
}
