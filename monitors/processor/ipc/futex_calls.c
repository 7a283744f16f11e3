/* SPDX-License-Identifier: MIT */
/*
 * System calls on futexes, and robust lists.
 *
 * Ordering:	arguments are checked in Linux's order: timeout, operation, bit set, address.
 * Failure:	a wait that a signal ended begins again: without a timeout by -ERESTARTSYS, with a
 *		timeout for the time that is left. Of a robust list whose pages a silent node has,
 *		a killed thread lets go of what it reaches in ROBUST_LIST_NS.
 */
#include <abi/futex.h>
#include <abi/time.h>
#include <arch/uaccess.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <lib/errno.h>
#include <mm/slab.h>
#include <processor/process/process.h>
#include <processor/process/timespec.h>
#include <processor/syscall/syscall.h>

#include "futex.h"
#include "futex_private.h"

#define ROBUST_LIST_NS (150 * NSEC_PER_MSEC)

/* --- futex() ------------------------------------------------------------------------- */

enum wait_arg { /* of a wait that goes on after a signal */
	WAIT_ADDR,
	WAIT_VAL,
	WAIT_BITSET,
	WAIT_DEADLINE,
	WAIT_SHARED,
};
static_assert(WAIT_SHARED < RESTART_ARGS, "a wait must fit a restart block");

static long wait(const uint64_t args[RESTART_ARGS])
{
	const uint64_t deadline = args[WAIT_DEADLINE];
	struct futex_word word;
	int err = futex_word_get(aspace_current(), args[WAIT_ADDR], args[WAIT_SHARED], &word);

	if (err)
		return err;
	err = futex_wait(&word, (uint32_t)args[WAIT_VAL], (uint32_t)args[WAIT_BITSET], deadline);
	futex_word_put(&word);
	if (err != -EINTR)
		return err;
	return deadline == WAIT_FOREVER ? -ERESTARTSYS : signal_restart_later(wait, args);
}

/* Absolute monotonic deadline from a user's timespec; WAIT_FOREVER for none. */
static int get_deadline(uint64_t uts, bool relative, bool real, uint64_t *deadline)
{
	uint64_t ns;
	int err;

	if (relative || !uts)
		return user_timeout_get(uts, deadline);
	if (real)
		return user_real_deadline_get(uts, deadline);
	err = user_timespec_get(uts, &ns);
	if (!err)
		*deadline = ns;
	return err;
}

static long sys_wait(const struct syscall_args *args, bool shared, uint32_t bitset)
{
	const uint32_t op = (uint32_t)args->a[1];
	uint64_t wait_args[RESTART_ARGS] = {
		[WAIT_ADDR] = args->a[0],
		[WAIT_VAL] = (uint32_t)args->a[2],
		[WAIT_BITSET] = bitset,
		[WAIT_SHARED] = shared,
	};
	const bool relative = (op & ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME)) == FUTEX_WAIT;
	const int err = get_deadline(args->a[3], relative, op & FUTEX_CLOCK_REALTIME,
				     &wait_args[WAIT_DEADLINE]);

	if (err)
		return err;
	if ((relative && (op & FUTEX_CLOCK_REALTIME)))
		return -ENOSYS;
	return bitset ? wait(wait_args) : -EINVAL;
}

static long sys_wake(const struct syscall_args *args, bool shared, uint32_t bitset)
{
	struct futex_word word;
	int ret;

	if (!bitset)
		return -EINVAL;
	ret = futex_word_get(aspace_current(), args->a[0], shared, &word);
	if (ret)
		return ret;
	ret = futex_wake(&word.key, (int)args->a[2], bitset);
	futex_word_put(&word);
	return ret;
}

/* The operations on two words. */
static long sys_two(const struct syscall_args *args, uint32_t cmd, bool shared)
{
	struct aspace *as = aspace_current();
	const int nr = (int)args->a[2], nr2 = (int)args->a[3];
	const uint32_t val3 = (uint32_t)args->a[5];
	struct futex_word one, two;
	int ret;

	if (cmd != FUTEX_WAKE_OP && (nr < 0 || nr2 < 0))
		return -EINVAL;
	ret = futex_word_get(as, args->a[0], shared, &one);
	if (ret)
		return ret;
	ret = futex_word_get(as, args->a[4], shared, &two);
	if (!ret) {
		ret = cmd == FUTEX_WAKE_OP ? futex_wake_op(&one, &two, nr, nr2, val3)
					   : futex_requeue(&one, &two, nr, nr2,
							   cmd == FUTEX_CMP_REQUEUE ? &val3 : NULL);
		futex_word_put(&two);
	}
	futex_word_put(&one);
	return ret;
}

/* --- mutexes that lend priority --- */

static long sys_lock_pi(const struct syscall_args *args, uint32_t cmd, bool shared)
{
	const bool real = cmd == FUTEX_LOCK_PI || (args->a[1] & FUTEX_CLOCK_REALTIME);
	uint64_t deadline = WAIT_FOREVER;
	struct futex_word word;
	int err = 0;

	if (cmd != FUTEX_TRYLOCK_PI)
		err = get_deadline(args->a[3], false, real, &deadline);
	if (!err && cmd != FUTEX_LOCK_PI2 && (args->a[1] & FUTEX_CLOCK_REALTIME))
		err = -ENOSYS;
	if (!err)
		err = futex_word_get(aspace_current(), args->a[0], shared, &word);
	if (err)
		return err;
	err = futex_lock_pi(&word, deadline, cmd == FUTEX_TRYLOCK_PI);
	futex_word_put(&word);
	return err == -EINTR ? -ERESTARTNOINTR : err; /* the time is absolute */
}

static long sys_unlock_pi(const struct syscall_args *args, bool shared)
{
	struct futex_word word;
	int err = futex_word_get(aspace_current(), args->a[0], shared, &word);

	if (err)
		return err;
	err = futex_unlock_pi(&word);
	futex_word_put(&word);
	return err;
}

/* FUTEX_WAIT_REQUEUE_PI, FUTEX_CMP_REQUEUE_PI */
static long sys_requeue_pi(const struct syscall_args *args, bool waits, bool shared)
{
	struct aspace *as = aspace_current();
	uint64_t deadline = WAIT_FOREVER;
	struct futex_word one, two;
	int ret = 0;

	if (waits)
		ret = get_deadline(args->a[3], false, args->a[1] & FUTEX_CLOCK_REALTIME, &deadline);
	else if ((int)args->a[2] != 1 || (int)args->a[3] < 0)
		ret = -EINVAL;
	if (!ret && args->a[0] == args->a[4])
		ret = -EINVAL;
	if (!ret)
		ret = futex_word_get(as, args->a[0], shared, &one);
	if (ret)
		return ret;
	ret = futex_word_get(as, args->a[4], shared, &two);
	if (!ret) {
		ret = waits ? futex_wait_requeue_pi(&one, (uint32_t)args->a[2], &two, deadline)
			    : futex_requeue_pi(&one, &two, (int)args->a[3], (uint32_t)args->a[5]);
		futex_word_put(&two);
	}
	futex_word_put(&one);
	return ret == -EINTR ? -ERESTARTNOINTR : ret; /* the time is absolute */
}

/* futex(uaddr, op, val, timeout or val2, uaddr2, val3) */
long sys_futex(const struct syscall_args *args)
{
	const uint32_t op = (uint32_t)args->a[1];
	const uint32_t cmd = op & ~(uint32_t)(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
	const bool shared = !(op & FUTEX_PRIVATE_FLAG);

	if (cmd == FUTEX_WAIT || cmd == FUTEX_WAIT_BITSET)
		return sys_wait(args, shared,
				cmd == FUTEX_WAIT ? FUTEX_BITSET_MATCH_ANY : (uint32_t)args->a[5]);
	if (cmd == FUTEX_LOCK_PI || cmd == FUTEX_LOCK_PI2)
		return sys_lock_pi(args, cmd, shared);
	if (cmd == FUTEX_WAIT_REQUEUE_PI)
		return sys_requeue_pi(args, true, shared);
	if (op & FUTEX_CLOCK_REALTIME)
		return -ENOSYS;
	switch (cmd) {
	case FUTEX_TRYLOCK_PI:
		return sys_lock_pi(args, cmd, shared);
	case FUTEX_UNLOCK_PI:
		return sys_unlock_pi(args, shared);
	case FUTEX_CMP_REQUEUE_PI:
		return sys_requeue_pi(args, false, shared);
	case FUTEX_WAKE:
		return sys_wake(args, shared, FUTEX_BITSET_MATCH_ANY);
	case FUTEX_WAKE_BITSET:
		return sys_wake(args, shared, (uint32_t)args->a[5]);
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
	case FUTEX_WAKE_OP:
		return sys_two(args, cmd, shared);
	default:
		return -ENOSYS;
	}
}

/* --- futex_waitv() ------------------------------------------------------------------- */

struct waitv_entry {
	struct futex_word word;
	struct futex_waiter waiter;
	uint32_t val;
};

static int waitv_decode(const struct linux_futex_waitv *u, struct waitv_entry *e)
{
	if ((u->flags & ~FUTEX2_PRIVATE) != FUTEX2_SIZE_U32 || u->reserved || u->val > UINT32_MAX)
		return -EINVAL;
	e->val = (uint32_t)u->val;
	return futex_word_get(aspace_current(), u->uaddr, !(u->flags & FUTEX2_PRIVATE), &e->word);
}

static int waitv_woken(const struct waitv_entry *e, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		if (futex_woken(&e[i].waiter))
			return (int)i;
	}
	return -1;
}

static long waitv(struct waitv_entry *e, uint32_t nr, uint64_t deadline)
{
	struct waitqueue wq;
	uint32_t queued = 0;
	int err = 0, first = -1;

	waitqueue_init(&wq);
	while (!err && queued < nr) {
		futex_waiter_init(&e[queued].waiter, &e[queued].word, FUTEX_BITSET_MATCH_ANY, &wq);
		err = futex_queue(&e[queued].waiter, e[queued].word.addr, e[queued].val);
		queued += !err;
	}
	if (!err)
		err = wait_event_interruptible_timeout(&wq, waitv_woken(e, nr) >= 0, deadline);
	for (uint32_t i = 0; i < queued; i++) {
		if (futex_unqueue(&e[i].waiter) && first < 0)
			first = (int)i;
	}
	if (first >= 0)
		return first;
	return err == -EINTR ? -ERESTARTSYS : err;
}

/* futex_waitv(waiters, nr, flags, timeout, clockid) */
long sys_futex_waitv(const struct syscall_args *args)
{
	const uint32_t nr = (uint32_t)args->a[1];
	const int clock = (int)args->a[4];
	struct waitv_entry *e;
	uint64_t deadline = WAIT_FOREVER;
	uint32_t words = 0;
	long ret;

	if (args->a[2] || nr == 0 || nr > FUTEX_WAITV_MAX || !args->a[0])
		return -EINVAL;
	if (args->a[3] && clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
		return -EINVAL;
	ret = get_deadline(args->a[3], false, clock == 0, &deadline);
	if (ret)
		return ret;
	e = kcalloc(nr, sizeof(*e));
	if (!e)
		return -ENOMEM;
	while (!ret && words < nr) {
		struct linux_futex_waitv u;

		ret = copy_from_user(&u, (const void __user *)(args->a[0] + words * sizeof(u)),
				     sizeof(u));
		if (!ret)
			ret = waitv_decode(&u, &e[words]);
		words += !ret;
	}
	if (!ret)
		ret = waitv(e, nr, deadline);
	while (words)
		futex_word_put(&e[--words].word);
	kfree(e);
	return ret;
}

/* --- robust lists -------------------------------------------------------------------- */

/* set_robust_list(head, len) */
long sys_set_robust_list(const struct syscall_args *args)
{
	struct task *t = task_current();

	if (args->a[1] != sizeof(struct linux_robust_list_head))
		return -EINVAL;
	t->robust_list = args->a[0];
	return 0;
}

/* The list of task @vtid, 0 being the caller; pid 1 is the kernel's, and has none. */
static int robust_list_of(uint32_t vtid, uint64_t *head)
{
	const uint32_t tid = vtid ? pid_from_vnr(vtid) : 0;
	struct task *t;
	int err = 0;

	*head = 0;
	if (tid == INIT_PID)
		return capable(CAP_SYS_PTRACE) ? 0 : -EPERM;
	t = vtid ? task_find(tid) : task_current();
	if (!t)
		return -ESRCH;
	if (!vtid)
		task_get(t);
	if (process_may_look(t->process))
		*head = READ_ONCE(t->robust_list);
	else
		err = -EPERM;
	task_put(t);
	return err;
}

/* get_robust_list(tid, head, len) */
long sys_get_robust_list(const struct syscall_args *args)
{
	uint64_t head;
	const int err = robust_list_of((uint32_t)args->a[0], &head);

	if (err)
		return err;
	if (put_user_u64(sizeof(struct linux_robust_list_head), (void __user *)args->a[2]) ||
	    put_user_u64(head, (void __user *)args->a[1]))
		return -EFAULT;
	return 0;
}

unsigned int futex_wake_addr(struct aspace *as, uint64_t addr, unsigned int nr)
{
	struct futex_word word;
	int woken;

	if (futex_word_get(as, addr, true, &word))
		return 0;
	woken = futex_wake(&word.key, (int)nr, FUTEX_BITSET_MATCH_ANY);
	futex_word_put(&word);
	return woken < 0 ? 0 : (unsigned int)woken;
}

/* The word of a mutex that task @tid, as it sees itself, may have held when it died. */
static int let_go(struct aspace *as, uint32_t tid, uint64_t addr, bool pi, bool pending)
{
	void __user *word = (void __user *)addr;
	uint32_t old, want;

	if ((addr & 3) || get_user_u32(&want, word))
		return -EFAULT;
	/* It let go itself, but died before it could wake anybody. */
	if (pending && !pi && !want) {
		futex_wake_addr(as, addr, 1);
		return 0;
	}
	for (;;) {
		if ((want & FUTEX_TID_MASK) != tid)
			return 0;
		if (cmpxchg_user_u32(&old, word, want, (want & FUTEX_WAITERS) | FUTEX_OWNER_DIED))
			return -EFAULT;
		if (old == want)
			break;
		want = old;
	}
	if (!pi && (want & FUTEX_WAITERS))
		futex_wake_addr(as, addr, 1);
	return 0;
}

/*
 * Everything here is the program's own, so nothing of it is believed: a list may be endless, or
 * lead nowhere.
 */
static void walk_robust_list(struct task *t, uint64_t head)
{
	struct aspace *as = t->process->as;
	uint64_t
		words[3]; /* first entry, offset of the word in each, entry that is being changed */
	uint64_t entry, next, pending;

	if (copy_from_user(words, (const void __user *)head, sizeof(words)))
		return;
	entry = words[0];
	pending = words[2] & ~1ull;
	for (int i = 0; i < ROBUST_LIST_LIMIT && (entry & ~1ull) != head; i++) {
		const uint64_t at = entry & ~1ull;
		/* Read before the mutex is let go: its next owner may unlink it. */
		const int err = get_user_u64(&next, (const void __user *)at);

		if (at != pending && let_go(as, task_vtid(t), at + words[1], entry & 1, false))
			return;
		if (err)
			return;
		entry = next;
	}
	if (pending)
		(void)let_go(as, task_vtid(t), pending + words[1], words[2] & 1, true);
}

static void end_walk(void *thread)
{
	thread_notify(thread, THREAD_F_KILL);
}

/* Mutexes on the robust list of @t, which the program made and may have made wrong. */
static void leave_robust_list(struct task *t)
{
	const uint64_t head = t->robust_list;
	struct timer timer;
	bool killed;

	if (!head)
		return;
	t->robust_list = 0;
	/*
	 * Pages may have to be fetched, which a thread that is to die does not wait for. Here it
	 * waits for as long as a node that is not silent needs.
	 */
	killed = __atomic_load_n(&t->thread->flags, __ATOMIC_ACQUIRE) & THREAD_F_KILL;
	timer_init(&timer, end_walk, t->thread);
	if (killed)
		timer_set(&timer, time_after_ns(ROBUST_LIST_NS));
	thread_clear_flags(t->thread, THREAD_F_KILL | THREAD_F_SIGNAL);
	walk_robust_list(t, head);
	(void)timer_cancel(&timer);
	if (killed)
		thread_notify(t->thread, THREAD_F_KILL);
}

void futex_task_exit(struct task *t, bool ends)
{
	leave_robust_list(t);
	/* Behind it: who is given a mutex by this finds the mark of the dead owner. */
	futex_pi_release(t, ends);
}
