/* SPDX-License-Identifier: MIT */
/*
 * System calls on POSIX timers: timer_create, timer_settime, timer_gettime, timer_getoverrun,
 * timer_delete.
 *
 * Limits:	each takes one signal of the user's RLIMIT_SIGPENDING, from its creation on.
 */
#include <abi/signal.h>
#include <abi/time.h>
#include <arch/uaccess.h>
#include <lib/errno.h>
#include <processor/process/timespec.h>
#include <processor/syscall/syscall.h>

#include "signal_private.h"
#include "timers_private.h"

static int get_sigevent(struct linux_sigevent *ev, uint64_t uev)
{
	if (!uev) {
		*ev = (struct linux_sigevent){ .signo = SIGALRM, .notify = SIGEV_SIGNAL };
		return 0;
	}
	if (copy_from_user(ev, (const void __user *)uev, sizeof(*ev)))
		return -EFAULT;
	switch (ev->notify) {
	case SIGEV_NONE:
		return 0;
	case SIGEV_THREAD_ID:
		ev->tid = ev->tid > 0 ? (int32_t)pid_from_vnr((uint32_t)ev->tid) : 0;
		if (!ev->tid || signal_post_tid(process_current(), (uint32_t)ev->tid, NULL))
			return -EINVAL;
		break;
	case SIGEV_SIGNAL:
	case SIGEV_THREAD: /* a matter of the C library */
		break;
	default:
		return -EINVAL;
	}
	return ev->signo > 0 && ev->signo < NR_SIGNALS ? 0 : -EINVAL;
}

static int timer_clock(int clock, struct clock_id *id)
{
	switch (clock) {
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_REALTIME_COARSE:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_REALTIME_ALARM: /* no clock could wake the machine up */
	case CLOCK_BOOTTIME_ALARM:
		return -EOPNOTSUPP;
	default:
		break;
	}
	if (clock_decode(clock, id))
		return -EINVAL;
	/* The CPU time of another process can be read, but not waited for. */
	return clock_is_process(id) && id->id != process_current()->pid ? -EINVAL : 0;
}

/* process.lock held: the next id that is free, from the last one on. -EAGAIN: all are taken. */
static int next_id_locked(struct process_timers *timers)
{
	const struct ptimer *t;
	bool taken;

	assert_mutex_held(&process_current()->lock);
	do {
		const int id = timers->next_id;

		timers->next_id = id == INT32_MAX ? 0 : id + 1;
		taken = false;
		list_for_each_entry(t, &timers->posix, link)
			taken |= t->id == id;
		if (!taken)
			return id;
	} while (timers->next_id != 0);
	return -EAGAIN;
}

static struct ptimer *find_locked(struct process *p, int id)
{
	struct ptimer *t;

	assert_mutex_held(&p->lock);
	if (!p->sig.timers)
		return NULL;
	list_for_each_entry(t, &p->sig.timers->posix, link) {
		if (t->id == id)
			return t;
	}
	return NULL;
}

static int create_locked(struct process *p, const struct linux_sigevent *ev,
			 const struct clock_id *clock, bool has_event)
{
	struct process_timers *timers = timers_get_locked(p);
	struct ptimer proto = {
		.process = p,
		.kind = PTIMER_POSIX,
		.clock = *clock,
		.notify = ev->notify,
		.tid = ev->notify == SIGEV_THREAD_ID ? (uint32_t)ev->tid : 0,
	};
	struct sig_charge charge;
	struct ptimer *t;

	assert_mutex_held(&p->lock);
	if (!timers)
		return -EAGAIN;
	proto.id = next_id_locked(timers);
	if (proto.id < 0)
		return proto.id;
	if (proto.notify != SIGEV_NONE) {
		signal_charge_of(p, &charge);
		proto.entry = sigentry_alloc(&charge, false);
		if (!proto.entry)
			return -EAGAIN;
		proto.entry->info = (struct linux_siginfo){
			.signo = ev->signo,
			.code = SI_TIMER,
			.timer_id = proto.id,
			.value = has_event ? ev->value : (uint64_t)proto.id,
		};
	}
	t = ptimer_create(&proto);
	if (!t) {
		if (proto.entry)
			sigentry_free(proto.entry);
		return -EAGAIN;
	}
	list_add_tail(&t->link, &timers->posix);
	return t->id;
}

/* timer_create(clock, event, id) */
long sys_timer_create(const struct syscall_args *args)
{
	struct process *p = process_current();
	struct linux_sigevent ev;
	struct clock_id clock;
	struct ptimer *t;
	int ret = get_sigevent(&ev, args->a[1]);

	if (ret == -EFAULT)
		return ret;
	if (!ret)
		ret = timer_clock((int)args->a[0], &clock);
	if (ret)
		return ret;
	mutex_lock(&p->lock);
	ret = create_locked(p, &ev, &clock, args->a[1] != 0);
	mutex_unlock(&p->lock);
	if (ret < 0 || !put_user_u32((uint32_t)ret, (void __user *)args->a[2]))
		return ret < 0 ? ret : 0;
	mutex_lock(&p->lock);
	t = find_locked(p, ret);
	if (t) {
		list_del(&t->link);
		ptimer_destroy(t);
	}
	mutex_unlock(&p->lock);
	return -EFAULT;
}

static int get_value(uint64_t user, struct ptimer_value *v)
{
	const int err = user_timespec_get(user, &v->interval);

	return err ? err : user_timespec_get(user + 16, &v->value);
}

static int put_value(uint64_t user, const struct ptimer_value *v)
{
	const int err = user_timespec_put(user, v->interval);

	return err ? err : user_timespec_put(user + 16, v->value);
}

/* timer_settime(id, flags, new, old) */
long sys_timer_settime(const struct syscall_args *args)
{
	struct process *p = process_current();
	struct ptimer_value new, old;
	struct ptimer *t;
	int err;

	if (!args->a[2])
		return -EINVAL;
	err = get_value(args->a[2], &new);
	if (err)
		return err;
	mutex_lock(&p->lock);
	t = find_locked(p, (int)args->a[0]);
	if (t)
		ptimer_set(t, &new, (uint32_t)args->a[1] & TIMER_ABSTIME, &old);
	mutex_unlock(&p->lock);
	if (!t)
		return -EINVAL;
	return args->a[3] ? put_value(args->a[3], &old) : 0;
}

/* timer_gettime(id, value) */
long sys_timer_gettime(const struct syscall_args *args)
{
	struct process *p = process_current();
	struct ptimer_value v;
	struct ptimer *t;

	mutex_lock(&p->lock);
	t = find_locked(p, (int)args->a[0]);
	if (t)
		ptimer_get(t, &v);
	mutex_unlock(&p->lock);
	return t ? put_value(args->a[1], &v) : -EINVAL;
}

/* timer_getoverrun(id) */
long sys_timer_getoverrun(const struct syscall_args *args)
{
	struct process *p = process_current();
	struct ptimer *t;
	long ret = -EINVAL;

	mutex_lock(&p->lock);
	t = find_locked(p, (int)args->a[0]);
	if (t) {
		spin_lock(&p->sig_lock);
		ret = (long)MIN(t->overrun, (uint64_t)INT32_MAX);
		spin_unlock(&p->sig_lock);
	}
	mutex_unlock(&p->lock);
	return ret;
}

/* timer_delete(id) */
long sys_timer_delete(const struct syscall_args *args)
{
	struct process *p = process_current();
	struct ptimer *t;

	mutex_lock(&p->lock);
	t = find_locked(p, (int)args->a[0]);
	if (t) {
		list_del(&t->link);
		ptimer_destroy(t);
	}
	mutex_unlock(&p->lock);
	return t ? 0 : -EINVAL;
}
