/* SPDX-License-Identifier: MIT */
/*
 * Clocks: decoding of their ids, and CPU time of processes and threads.
 */
#include <processor/clock.h>

#include <kernel/time.h>
#include <lib/errno.h>
#include <processor/process.h>

/* Ids of other CPU clocks, as Linux makes them: the complement of a pid above three bits. */
#define CPUCLOCK_WHICH     3
#define CPUCLOCK_SCHED     2
#define CPUCLOCK_PERTHREAD 4

uint64_t process_cpu_ns_locked(struct process *p)
{
	uint64_t ns = p->sig.dead_cpu_ns;
	struct task *t;

	list_for_each_entry(t, &p->tasks, link)
		ns += thread_cpu_ns(t->thread);
	return ns;
}

bool task_cpu_ns_locked(struct process *p, uint32_t tid, uint64_t *ns)
{
	struct task *t;

	list_for_each_entry(t, &p->tasks, link) {
		if (t->tid == tid) {
			*ns = thread_cpu_ns(t->thread);
			return true;
		}
	}
	return false;
}

static int decode_cpu_clock(int clock, struct clock_id *out)
{
	const uint32_t pid = ~(uint32_t)(clock >> 3);

	/* User and system time are not kept apart: only the clocks that count both are there. */
	if ((clock & CPUCLOCK_WHICH) != CPUCLOCK_SCHED)
		return -EINVAL;
	if (clock & CPUCLOCK_PERTHREAD)
		*out = (struct clock_id){ CLOCK_KIND_THREAD, pid ? pid : task_current()->tid };
	else
		*out = (struct clock_id){ CLOCK_KIND_PROCESS, pid ? pid : process_current()->pid };
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
	bool found;

	switch (clock->kind) {
	case CLOCK_KIND_REAL:
		*ns = time_real_ns();
		return 0;
	case CLOCK_KIND_MONO:
		*ns = time_now_ns();
		return 0;
	case CLOCK_KIND_THREAD:
		p = process_current();
		spin_lock(&p->sig_lock);
		found = task_cpu_ns_locked(p, clock->id, ns);
		spin_unlock(&p->sig_lock);
		return found ? 0 : -EINVAL;
	default:
		p = process_find(clock->id);
		if (!p)
			return -EINVAL;
		*ns = process_cpu_ns(p);
		process_put(p);
		return 0;
	}
}
