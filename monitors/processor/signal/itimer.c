/* SPDX-License-Identifier: MIT */
/*
 * Interval timers (setitimer, getitimer, alarm) and RLIMIT_CPU.
 */
#include <abi/time.h>
#include <lib/errno.h>
#include <processor/process/timespec.h>
#include <processor/syscall/syscall.h>

#include "signal_private.h"
#include "timers_private.h"

#define NS_PER_S NSEC_PER_SEC

static struct ptimer *itimer_create(struct process *p, unsigned int which)
{
	static const int signals[NR_ITIMERS] = { SIGALRM, SIGVTALRM, SIGPROF };
	static const enum clock_kind clocks[NR_ITIMERS] = { CLOCK_KIND_MONO,
							    CLOCK_KIND_PROCESS_USER,
							    CLOCK_KIND_PROCESS };
	struct ptimer proto = {
		.process = p,
		.kind = PTIMER_ITIMER,
		.clock = { clocks[which], p->pid },
	};
	struct sig_charge charge;
	struct ptimer *t;

	signal_charge_of(p, &charge);
	proto.entry = sigentry_alloc(&charge, true);
	if (!proto.entry)
		return NULL;
	proto.entry->info = (struct linux_siginfo){ .signo = signals[which], .code = SI_KERNEL };
	t = ptimer_create(&proto);
	if (!t)
		sigentry_free(proto.entry);
	return t;
}

/* @new NULL: only tell. */
static int itimer_change(unsigned int which, const struct ptimer_value *new,
			 struct ptimer_value *old)
{
	struct process *p = process_current();
	struct process_timers *timers;
	struct ptimer *t;

	*old = (struct ptimer_value){ 0, 0 };
	mutex_lock(&p->lock);
	timers = timers_get_locked(p);
	t = timers ? timers->itimers[which] : NULL;
	if (timers && !t && new && new->value)
		t = timers->itimers[which] = itimer_create(p, which);
	if (t && new)
		ptimer_set(t, new, false, old);
	else if (t)
		ptimer_get(t, old);
	mutex_unlock(&p->lock);
	return t || !new || !new->value ? 0 : -ENOMEM;
}

static int get_value(uint64_t user, struct ptimer_value *v)
{
	const int err = user_timeval_get(user, &v->interval);

	return err ? err : user_timeval_get(user + 16, &v->value);
}

static int put_value(uint64_t user, const struct ptimer_value *v)
{
	const int err = user_timeval_put(user, v->interval);

	/* Rounded up: what is still running is not nothing. */
	return err ? err : user_timeval_put(user + 16, v->value ? v->value + 999 : 0);
}

/* setitimer(which, new, old) */
long sys_setitimer(const struct syscall_args *args)
{
	struct ptimer_value new = { 0, 0 }, old;
	int err = args->a[1] ? get_value(args->a[1], &new) : 0;

	if (err)
		return err;
	if ((uint32_t)args->a[0] >= NR_ITIMERS)
		return -EINVAL;
	err = itimer_change((unsigned int)args->a[0], &new, &old);
	return err || !args->a[2] ? err : put_value(args->a[2], &old);
}

/* getitimer(which, value) */
long sys_getitimer(const struct syscall_args *args)
{
	struct ptimer_value v;
	int err;

	if ((uint32_t)args->a[0] >= NR_ITIMERS)
		return -EINVAL;
	err = itimer_change((unsigned int)args->a[0], NULL, &v);
	return err ? err : put_value(args->a[1], &v);
}

/* alarm(seconds): what was left of the last one, to the nearest second, but not 0 */
long sys_alarm(const struct syscall_args *args)
{
	const struct ptimer_value new = { .value = (uint32_t)args->a[0] * NS_PER_S };
	struct ptimer_value old;
	const int err = itimer_change(ITIMER_REAL, &new, &old);

	if (err)
		return err;
	return old.value && old.value < NS_PER_S ? 1
						 : (long)((old.value + NS_PER_S / 2) / NS_PER_S);
}

/* --- RLIMIT_CPU -------------------------------------------------------------------------- */

static uint64_t limit_ns(uint64_t seconds)
{
	return seconds > TIMESPEC_MAX_NS / NS_PER_S ? TIMESPEC_MAX_NS : seconds * NS_PER_S;
}

/* SIGXCPU at the soft limit and each second from there on, SIGKILL at the hard one. */
void cpu_limit_expired_locked(struct ptimer *t, uint64_t now)
{
	struct process *p = t->process;
	struct linux_siginfo info = { .signo = SIGXCPU, .code = SI_KERNEL };

	assert_spin_held(&p->sig_lock);
	if (now >= limit_ns(READ_ONCE(p->rlimits[RLIMIT_CPU].max)))
		info.signo = SIGKILL;
	t->deadline = now + NS_PER_S;
	(void)signal_post_locked(p, &info);
}

int signal_cpu_limit_locked(struct process *p, uint64_t seconds)
{
	const struct ptimer proto = {
		.process = p,
		.kind = PTIMER_CPU_LIMIT,
		.clock = { CLOCK_KIND_PROCESS, p->pid },
	};
	/* As Linux: a limit of 0 is one of a second. */
	const struct ptimer_value v = {
		.value = seconds == RLIM_INFINITY ? 0 : limit_ns(MAX(seconds, (uint64_t)1)),
	};
	struct process_timers *timers = timers_get_locked(p);
	struct ptimer_value old;

	assert_mutex_held(&p->lock);
	if (!timers)
		return p->sig.timers_over ? 0 : -ENOMEM;
	if (!timers->cpu_limit && !v.value)
		return 0;
	if (!timers->cpu_limit)
		timers->cpu_limit = ptimer_create(&proto);
	if (!timers->cpu_limit)
		return -ENOMEM;
	ptimer_set(timers->cpu_limit, &v, true, &old);
	return 0;
}
