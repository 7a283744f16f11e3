/* SPDX-License-Identifier: MIT */
/*
 * System V semaphores: sets, and operations on several of one at once.
 *
 * Flow:	a call does all of its operations or none. One that cannot is queued with what it
 *		waits for; whoever changes a value does the queued calls that have become
 *		possible, in their order, and wakes their threads.
 * Locking:	set.lock (RANK_SYSV) guards values, queue and what is to be undone; it is held over
 *		no access to user memory.
 * Failure:	a set that is removed ends the waits with EIDRM.
 * Limits:	/proc/sys/kernel/sem; sets and lists of what is to be undone are charged to the
 *		program that makes them.
 * See:		sem_undo.c: what is taken back when a task ends
 */
#include "sem_private.h"

#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/process/timespec.h>
#include <processor/syscall/syscall.h>

#include "ipc_ns.h"

#define READS  0444u
#define ALTERS 0222u

static struct sysv *set_make(const void *arg);
static int set_fits(const struct sysv *obj, const void *arg);
static void set_free(struct sysv *obj);

static void set_end(struct sysv *obj);

const struct sysv_ops sem_ops = {
	.make = set_make,
	.fits = set_fits,
	.remove = set_end,
	.free = set_free,
};

static struct sysv_kind *sets(void)
{
	return &ipc_ns_current()->sem;
}

/* --- making and the end ---------------------------------------------------------------------- */

static struct sysv *set_make(const void *arg)
{
	const uint32_t nr = *(const uint32_t *)arg;
	struct ipc_ns *ns = ipc_ns_current();
	struct sem_set *set;

	if (!nr)
		return ERR_PTR(-EINVAL);
	/* names is held: nobody else adds some. */
	if (__atomic_load_n(&ns->nr_sems, __ATOMIC_RELAXED) + nr > READ_ONCE(ns->limits.semmns))
		return ERR_PTR(-ENOSPC);
	set = kmem_alloc(kmem_current(), sizeof(*set) + nr * sizeof(set->sems[0]));
	if (!set)
		return ERR_PTR(-ENOMEM);
	__atomic_add_fetch(&ns->nr_sems, nr, __ATOMIC_RELAXED);
	mutex_init(&set->lock, "sem", RANK_SYSV);
	list_init(&set->waiting);
	list_init(&set->undos);
	set->nr = nr;
	return &set->common;
}

static int set_fits(const struct sysv *obj, const void *arg)
{
	const uint32_t nr = *(const uint32_t *)arg;

	return nr > container_of(obj, struct sem_set, common)->nr ? -EINVAL : 0;
}

static void set_free(struct sysv *obj)
{
	struct sem_set *set = sem_set_of(obj);

	lock_not_needed(&set->lock, "the last reference is gone");
	ASSERT(list_empty(&set->waiting) && list_empty(&set->undos));
	__atomic_sub_fetch(&obj->kind->ns->nr_sems, set->nr, __ATOMIC_RELAXED);
	kmem_free(set);
}

/* semget(key, nsems, flags) */
long sys_semget(const struct syscall_args *args)
{
	const int nr = (int)args->a[1];
	const uint32_t arg = (uint32_t)nr;

	if (nr < 0 || (uint64_t)nr > READ_ONCE(sysv_limits()->semmsl))
		return -EINVAL;
	return sysv_get(sets(), (int32_t)args->a[0], (int)args->a[2], &arg);
}

/* The set, referenced and locked. ERR_PTR */
static struct sem_set *set_lock(int id, uint32_t mode) __no_lock_analysis("returns it locked")
{
	struct sysv *obj = sysv_find(sets(), id, mode);
	struct sem_set *set;
	int err;

	if (IS_ERR(obj))
		return ERR_PTR(PTR_ERR(obj));
	set = sem_set_of(obj);
	err = mutex_lock_killable(&set->lock);
	if (!err && READ_ONCE(obj->removed)) {
		mutex_unlock(&set->lock);
		err = -EIDRM;
	}
	if (!err)
		return set;
	sysv_put(obj);
	return ERR_PTR(err);
}

static void set_unlock(struct sem_set *set) __releases(&set->lock)
{
	mutex_unlock(&set->lock);
	sysv_put(&set->common);
}

/* --- operations ------------------------------------------------------------------------------ */

enum {
	SEM_BLOCKS = 1
};

/* One operation, on its semaphore and on @undo: 0, SEM_BLOCKS, or an errno. */
static int step_locked(struct sem_set *set, const struct linux_sembuf *op, struct sem_undo *undo)
	__must_hold(&set->lock)
{
	struct sem *sem = &set->sems[op->num];
	const int value = sem->value + op->op;

	assert_mutex_held(&set->lock);
	if ((op->op == 0 && sem->value) || value < 0)
		return SEM_BLOCKS;
	if (value > SEM_VALUE_MAX)
		return -ERANGE;
	if (op->flg & SEM_UNDO) {
		const int adjust = undo->adjust[op->num] - op->op;

		if (adjust < -SEM_VALUE_MAX - 1 || adjust > SEM_VALUE_MAX)
			return -ERANGE;
		undo->adjust[op->num] = (int16_t)adjust;
	}
	sem->value = value;
	return 0;
}

/*
 * All operations of @call, or none: 0 done, SEM_BLOCKS it has to wait, with call->blocking set, or
 * an errno.
 */
static int perform_locked(struct sem_set *set, struct sem_call *call) __must_hold(&set->lock)
{
	uint32_t i;
	int ret = 0;

	assert_mutex_held(&set->lock);
	for (i = 0; i < call->nr && !ret; i++)
		ret = step_locked(set, &call->ops[i], call->undo);
	if (!ret) {
		for (i = 0; i < call->nr; i++)
			set->sems[call->ops[i].num].pid = call->pid;
		set->otime = sysv_now();
		return 0;
	}
	call->blocking = &call->ops[--i];
	if (ret == SEM_BLOCKS && (call->blocking->flg & IPC_NOWAIT))
		ret = -EAGAIN;
	while (i--) {
		const struct linux_sembuf *op = &call->ops[i];

		set->sems[op->num].value -= op->op;
		if (op->flg & SEM_UNDO)
			call->undo->adjust[op->num] += op->op;
	}
	return ret;
}

static void finish_locked(struct sem_set *set, struct sem_call *call, int result)
	__must_hold(&set->lock)
{
	assert_mutex_held(&set->lock);
	list_del(&call->link);
	WRITE_ONCE(call->result, result);
	wake_one(&call->wait); /* its thread takes set->lock before the call goes */
}

void sem_changed_locked(struct sem_set *set)
{
	struct sem_call *call, *next;
	bool again;

	assert_mutex_held(&set->lock);
	do {
		again = false;
		list_for_each_entry_safe(call, next, &set->waiting, link) {
			const int ret = perform_locked(set, call);

			if (ret == SEM_BLOCKS)
				continue;
			finish_locked(set, call, ret);
			/* Those before it may be possible now. */
			again = !ret && call->alters;
			if (again)
				break;
		}
	} while (again);
}

/* Nothing of it can happen any more. */
static void set_ended_locked(struct sem_set *set) __must_hold(&set->lock)
{
	struct sem_call *call, *next;

	assert_mutex_held(&set->lock);
	list_for_each_entry_safe(call, next, &set->waiting, link)
		finish_locked(set, call, -EIDRM);
}

static void set_end(struct sysv *obj)
{
	struct sem_set *set = sem_set_of(obj);

	mutex_lock(&set->lock);
	if (sysv_remove(obj))
		set_ended_locked(set);
	mutex_unlock(&set->lock);
}

static long wait_for(struct sem_set *set, struct sem_call *call, uint64_t deadline)
	__must_hold(&set->lock)
{
	int err;

	call->result = SEM_BLOCKS;
	waitqueue_init(&call->wait);
	list_add_tail(&call->link, &set->waiting);
	mutex_unlock(&set->lock);
	err = wait_event_interruptible_timeout(&call->wait, READ_ONCE(call->result) != SEM_BLOCKS,
					       deadline);
	mutex_lock(&set->lock); /* its holders wait for nobody */
	if (call->result != SEM_BLOCKS)
		return call->result;
	list_del(&call->link);
	return err == -ETIMEDOUT ? -EAGAIN : -EINTR;
}

static long do_ops(int id, struct sem_call *call, uint64_t deadline)
{
	bool undoes = false;
	uint32_t highest = 0;
	struct sem_set *set;
	long ret;

	for (uint32_t i = 0; i < call->nr; i++) {
		highest = MAX(highest, (uint32_t)call->ops[i].num);
		undoes |= call->ops[i].flg & SEM_UNDO;
		call->alters |= call->ops[i].op != 0;
	}
	if (undoes)
		sem_undo_forget_removed();
	set = set_lock(id, 0);
	if (IS_ERR(set))
		return PTR_ERR(set);
	assert_mutex_held(&set->lock);
	ret = highest < set->nr ? 0 : -EFBIG;
	if (!ret && !sysv_allowed(&set->common, call->alters ? ALTERS : READS))
		ret = -EACCES;
	if (!ret && undoes)
		ret = sem_undo_find_locked(set, &call->undo);
	if (!ret)
		ret = perform_locked(set, call);
	if (ret == SEM_BLOCKS)
		ret = wait_for(set, call, deadline);
	else if (!ret && call->alters)
		sem_changed_locked(set);
	set_unlock(set);
	return ret;
}

static long semop(int id, uint64_t uops, uint64_t nr, uint64_t deadline)
{
	struct linux_sembuf few[8], *ops = few;
	struct sem_call call = { .nr = (uint32_t)nr, .pid = sysv_pid() };
	long ret;

	if (nr > READ_ONCE(sysv_limits()->semopm))
		return -E2BIG;
	if (nr < 1 || id < 0)
		return -EINVAL;
	if (nr > ARRAY_SIZE(few)) {
		ops = kmalloc(nr * sizeof(*ops));
		if (!ops)
			return -ENOMEM;
	}
	call.ops = ops;
	if (copy_from_user(ops, (const void __user *)uops, nr * sizeof(*ops)))
		ret = -EFAULT;
	else
		ret = do_ops(id, &call, deadline);
	if (ops != few)
		kfree(ops);
	return ret;
}

/* semop(id, ops, nops) */
long sys_semop(const struct syscall_args *args)
{
	return semop((int)args->a[0], args->a[1], (uint32_t)args->a[2], WAIT_FOREVER);
}

/* semtimedop(id, ops, nops, timeout) */
long sys_semtimedop(const struct syscall_args *args)
{
	uint64_t deadline;
	const int err = user_timeout_get(args->a[3], &deadline);

	/* As Linux: of a time that is none the number of operations is told first. */
	if (err && (err != -EINVAL || (uint32_t)args->a[2] <= READ_ONCE(sysv_limits()->semopm)))
		return err;
	return semop((int)args->a[0], args->a[1], (uint32_t)args->a[2], deadline);
}

/* --- semctl ---------------------------------------------------------------------------------- */

static void set_fill(struct sem_set *set, struct linux_semid64_ds *ds)
{
	*ds = (struct linux_semid64_ds){ .nsems = set->nr };
	sysv_fill(&set->common, &ds->perm, &ds->ctime);
	mutex_lock(&set->lock);
	ds->otime = set->otime;
	mutex_unlock(&set->lock);
}

bool sem_next(uint32_t *index, struct linux_semid64_ds *ds)
{
	struct sysv *obj = sysv_next(sets(), index);

	if (!obj)
		return false;
	set_fill(sem_set_of(obj), ds);
	sysv_put(obj);
	return true;
}

static long sem_info(int cmd, uint64_t to)
{
	struct linux_seminfo info = {
		.semmni = (int)READ_ONCE(sysv_limits()->semmni),
		.semmns = (int)READ_ONCE(sysv_limits()->semmns),
		.semmsl = (int)READ_ONCE(sysv_limits()->semmsl),
		.semopm = (int)READ_ONCE(sysv_limits()->semopm),
		.semvmx = SEM_VALUE_MAX,
		.semmnu = 1024000000,
		.semmap = 1024000000,
		.semume = 500,
		.semusz = 20,
		.semaem = SEM_VALUE_MAX,
	};
	int nr, highest;

	sysv_count(sets(), &nr, &highest);
	if (cmd == SEM_INFO) {
		info.semusz = nr;
		info.semaem = (int)__atomic_load_n(&ipc_ns_current()->nr_sems, __ATOMIC_RELAXED);
	}
	return copy_to_user((void __user *)to, &info, sizeof(info)) ? -EFAULT : highest;
}

static long sem_stat(int cmd, int nr, uint64_t to)
{
	const uint32_t mode = cmd == SEM_STAT_ANY ? 0 : READS;
	struct linux_semid64_ds ds;
	struct sysv *obj;
	int id = 0;

	if (cmd == IPC_STAT)
		obj = sysv_find(sets(), nr, mode);
	else
		obj = sysv_find_index(sets(), nr, mode, &id);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	set_fill(sem_set_of(obj), &ds);
	sysv_put(obj);
	return copy_to_user((void __user *)to, &ds, sizeof(ds)) ? -EFAULT : id;
}

/* How many calls wait for semaphore @num, that it grows or (@zero) that it is 0. */
static long waiting_locked(struct sem_set *set, uint32_t num, bool zero) __must_hold(&set->lock)
{
	const struct sem_call *call;
	long nr = 0;

	assert_mutex_held(&set->lock);
	list_for_each_entry(call, &set->waiting, link)
		nr += call->blocking->num == num && (call->blocking->op == 0) == zero;
	return nr;
}

/* GETVAL and its kin. */
static long sem_ask(int id, int num, int cmd)
{
	struct sem_set *set = set_lock(id, READS);
	long ret = -EINVAL;

	if (IS_ERR(set))
		return PTR_ERR(set);
	assert_mutex_held(&set->lock);
	if (num >= 0 && (uint32_t)num < set->nr) {
		if (cmd == GETVAL)
			ret = set->sems[num].value;
		else if (cmd == GETPID)
			ret = (long)pid_vnr((uint32_t)set->sems[num].pid);
		else
			ret = waiting_locked(set, (uint32_t)num, cmd == GETZCNT);
	}
	set_unlock(set);
	return ret;
}

static void set_value_locked(struct sem_set *set, uint32_t num, int value) __must_hold(&set->lock)
{
	struct sem_undo *undo;

	assert_mutex_held(&set->lock);
	list_for_each_entry(undo, &set->undos, of_set)
		undo->adjust[num] = 0;
	set->sems[num].value = value;
	set->sems[num].pid = sysv_pid();
}

static void set_touched_locked(struct sem_set *set) __must_hold(&set->lock)
{
	assert_mutex_held(&set->lock);
	spin_lock(&set->common.kind->lock);
	set->common.ctime = sysv_now();
	spin_unlock(&set->common.kind->lock);
	sem_changed_locked(set);
}

static long sem_set_value(int id, int num, int value)
{
	struct sem_set *set;
	long ret = 0;

	if (value < 0 || value > SEM_VALUE_MAX)
		return -ERANGE;
	set = set_lock(id, 0);
	if (IS_ERR(set))
		return PTR_ERR(set);
	assert_mutex_held(&set->lock);
	if (num < 0 || (uint32_t)num >= set->nr)
		ret = -EINVAL;
	else if (!sysv_allowed(&set->common, ALTERS))
		ret = -EACCES;
	if (!ret) {
		set_value_locked(set, (uint32_t)num, value);
		set_touched_locked(set);
	}
	set_unlock(set);
	return ret;
}

static long get_all(struct sem_set *set, uint16_t *values, uint64_t to)
{
	int err = mutex_lock_killable(&set->lock);

	if (err)
		return err;
	err = READ_ONCE(set->common.removed) ? -EIDRM : 0;
	for (uint32_t i = 0; i < set->nr; i++)
		values[i] = (uint16_t)set->sems[i].value;
	mutex_unlock(&set->lock);
	if (err)
		return err;
	return copy_to_user((void __user *)to, values, set->nr * sizeof(*values)) ? -EFAULT : 0;
}

static long set_all(struct sem_set *set, uint16_t *values, uint64_t from)
{
	int err;

	if (copy_from_user(values, (const void __user *)from, set->nr * sizeof(*values)))
		return -EFAULT;
	for (uint32_t i = 0; i < set->nr; i++) {
		if (values[i] > SEM_VALUE_MAX)
			return -ERANGE;
	}
	err = mutex_lock_killable(&set->lock);
	if (err)
		return err;
	if (READ_ONCE(set->common.removed)) {
		mutex_unlock(&set->lock);
		return -EIDRM;
	}
	for (uint32_t i = 0; i < set->nr; i++)
		set_value_locked(set, i, values[i]);
	set_touched_locked(set);
	mutex_unlock(&set->lock);
	return 0;
}

static long sem_all(int id, int cmd, uint64_t where)
{
	struct sysv *obj = sysv_find(sets(), id, cmd == GETALL ? READS : ALTERS);
	struct sem_set *set;
	uint16_t *values;
	long ret = -ENOMEM;

	if (IS_ERR(obj))
		return PTR_ERR(obj);
	set = sem_set_of(obj);
	values = kmalloc(set->nr * sizeof(*values));
	if (values)
		ret = cmd == GETALL ? get_all(set, values, where) : set_all(set, values, where);
	kfree(values);
	sysv_put(obj);
	return ret;
}

static long sem_remove(int id)
{
	struct sem_set *set = set_lock(id, 0);
	long ret;

	if (IS_ERR(set))
		return PTR_ERR(set);
	assert_mutex_held(&set->lock);
	ret = sysv_check_owner(&set->common);
	if (!ret && sysv_remove(&set->common))
		set_ended_locked(set);
	set_unlock(set);
	return ret;
}

static long sem_set_perm(int id, uint64_t from)
{
	struct linux_semid64_ds ds;
	struct sysv *obj;
	long ret;

	if (copy_from_user(&ds, (const void __user *)from, sizeof(ds)))
		return -EFAULT;
	obj = sysv_find(sets(), id, 0);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = sysv_set(obj, &ds.perm);
	sysv_put(obj);
	return ret;
}

/* semctl(id, num, cmd, arg) */
long sys_semctl(const struct syscall_args *args)
{
	const int id = (int)args->a[0], num = (int)args->a[1], cmd = (int)args->a[2];
	const uint64_t arg = args->a[3];

	if (id < 0)
		return -EINVAL;
	switch (cmd) {
	case IPC_INFO:
	case SEM_INFO:
		return sem_info(cmd, arg);
	case IPC_STAT:
	case SEM_STAT:
	case SEM_STAT_ANY:
		return sem_stat(cmd, id, arg);
	case GETVAL:
	case GETPID:
	case GETNCNT:
	case GETZCNT:
		return sem_ask(id, num, cmd);
	case SETVAL:
		return sem_set_value(id, num, (int)arg);
	case GETALL:
	case SETALL:
		return sem_all(id, cmd, arg);
	case IPC_RMID:
		return sem_remove(id);
	case IPC_SET:
		return sem_set_perm(id, arg);
	default:
		return -EINVAL;
	}
}
