/* SPDX-License-Identifier: MIT */
/*
 * System V message queues.
 *
 * Flow:	a message is copied into the kernel before the queue is locked, and out of it after
 *		it has left the queue. Receivers wait for a type, senders for room; a change wakes
 *		all of a side, and each looks again, for what one waits for is not the next one's.
 * Locking:	queue.lock (RANK_SYSV) guards messages and counts; it is held over no access to user
 *		memory.
 * Failure:	a queue that is removed ends the waits with EIDRM.
 * Limits:	/proc/sys/kernel/msg*; a message is charged to the program that sends it: ENOMEM.
 */
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/list.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "ipc_ns.h"
#include "sysv_private.h"

#define READS  0444u
#define WRITES 0222u

struct message {
	struct list_head link; /* queue.lock */
	int64_t type;          /* const, as the rest */
	size_t len;
	uint8_t data[];
};

struct msg_queue {
	struct sysv common;
	struct mutex lock; /* RANK_SYSV */
	struct list_head messages __guarded_by(&lock);
	uint64_t nr __guarded_by(&lock), bytes __guarded_by(&lock);
	uint64_t max_bytes __guarded_by(&lock);
	uint64_t changes __guarded_by(&lock); /* grows with each; read without it */
	int64_t stime __guarded_by(&lock), rtime __guarded_by(&lock);
	int32_t lspid __guarded_by(&lock), lrpid __guarded_by(&lock);
	struct waitqueue senders, receivers;
};

static struct sysv *queue_make(const void *arg);
static int queue_fits(const struct sysv *obj, const void *arg);
static void queue_free(struct sysv *obj);

static void queue_end(struct sysv *obj);

const struct sysv_ops msg_ops = {
	.make = queue_make,
	.fits = queue_fits,
	.remove = queue_end,
	.free = queue_free,
};

static struct sysv_kind *queues(void)
{
	return &ipc_ns_current()->msg;
}

/* --- making and the end ---------------------------------------------------------------------- */

static struct msg_queue *queue_of(struct sysv *obj)
{
	return container_of(obj, struct msg_queue, common);
}

static struct sysv *queue_make(const void *arg)
{
	struct msg_queue *q = kmem_alloc(kmem_current(), sizeof(*q));

	if (!q)
		return ERR_PTR(-ENOMEM);
	mutex_init(&q->lock, "msg", RANK_SYSV);
	list_init(&q->messages);
	waitqueue_init(&q->senders);
	waitqueue_init(&q->receivers);
	q->max_bytes = READ_ONCE(sysv_limits()->msgmnb);
	return &q->common;
}

static int queue_fits(const struct sysv *obj, const void *arg)
{
	return 0;
}

static void count_all(struct msg_queue *q, int64_t nr, int64_t bytes)
{
	struct ipc_ns *ns = q->common.kind->ns;

	__atomic_add_fetch(&ns->nr_messages, (uint64_t)nr, __ATOMIC_RELAXED);
	__atomic_add_fetch(&ns->message_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
}

static void queue_free(struct sysv *obj)
{
	struct msg_queue *q = queue_of(obj);
	struct message *m, *next;

	lock_not_needed(&q->lock, "the last reference is gone");
	list_for_each_entry_safe(m, next, &q->messages, link) {
		count_all(q, -1, -(int64_t)m->len);
		list_del(&m->link);
		kmem_free(m);
	}
	kmem_free(q);
}

/* msgget(key, flags) */
long sys_msgget(const struct syscall_args *args)
{
	return sysv_get(queues(), (int32_t)args->a[0], (int)args->a[1], NULL);
}

/* 0: @q is locked, and it is there. */
static int queue_lock(struct msg_queue *q) __acquires_if_0(&q->lock)
	__no_lock_analysis("the lock is dropped where the result is not 0")
{
	int err = mutex_lock_killable(&q->lock);

	if (!err && READ_ONCE(q->common.removed)) {
		mutex_unlock(&q->lock);
		err = -EIDRM;
	}
	return err;
}

/* Something is different for those who wait at @wq. */
static void changed_locked(struct msg_queue *q, struct waitqueue *wq) __must_hold(&q->lock)
{
	assert_mutex_held(&q->lock);
	WRITE_ONCE(q->changes, q->changes + 1);
	if (waitqueue_active(wq))
		wake_all(wq);
}

static int wait_change(struct msg_queue *q, struct waitqueue *wq, uint64_t seen)
{
	return wait_event_interruptible(wq, READ_ONCE(q->changes) != seen) ? -ERESTARTNOHAND : 0;
}

static void queue_end(struct sysv *obj)
{
	struct msg_queue *q = queue_of(obj);

	mutex_lock(&q->lock);
	if (sysv_remove(obj)) {
		changed_locked(q, &q->senders);
		changed_locked(q, &q->receivers);
	}
	mutex_unlock(&q->lock);
}

/* --- msgsnd ---------------------------------------------------------------------------------- */

/* 0: @m is in the queue; 1: it has to wait until q->changes is not *@seen. */
static int try_send(struct msg_queue *q, struct message *m, bool wait, uint64_t *seen)
{
	int ret = queue_lock(q);

	if (ret)
		return ret;
	*seen = q->changes;
	if (!sysv_allowed(&q->common, WRITES)) {
		ret = -EACCES;
	} else if (m->len + q->bytes <= q->max_bytes && q->nr + 1 <= q->max_bytes) {
		list_add_tail(&m->link, &q->messages);
		q->nr++;
		q->bytes += m->len;
		q->stime = sysv_now();
		q->lspid = sysv_pid();
		count_all(q, 1, (int64_t)m->len);
		changed_locked(q, &q->receivers);
	} else {
		ret = wait ? 1 : -EAGAIN;
	}
	mutex_unlock(&q->lock);
	return ret;
}

static int send(int id, struct message *m, bool wait)
{
	struct sysv *obj = sysv_find(queues(), id, 0);
	struct msg_queue *q;
	uint64_t seen = 0;
	int ret;

	if (IS_ERR(obj))
		return PTR_ERR(obj);
	q = queue_of(obj);
	while ((ret = try_send(q, m, wait, &seen)) == 1) {
		ret = wait_change(q, &q->senders, seen);
		if (ret)
			break;
	}
	sysv_put(obj);
	return ret;
}

/* msgsnd(id, msg, size, flags) */
long sys_msgsnd(const struct syscall_args *args)
{
	const uint64_t umsg = args->a[1], len = args->a[2];
	struct message *m;
	uint64_t type;
	int ret;

	if (get_user_u64(&type, (const void __user *)umsg))
		return -EFAULT;
	if (len > READ_ONCE(sysv_limits()->msgmax) || (int)args->a[0] < 0 || (int64_t)type < 1)
		return -EINVAL;
	m = kmem_alloc(kmem_current(), sizeof(*m) + len);
	if (!m)
		return -ENOMEM;
	m->type = (int64_t)type;
	m->len = len;
	if (copy_from_user(m->data, (const void __user *)(umsg + sizeof(type)), len))
		ret = -EFAULT;
	else
		ret = send((int)args->a[0], m, !((int)args->a[3] & IPC_NOWAIT));
	if (ret)
		kmem_free(m);
	return ret;
}

/* --- msgrcv ---------------------------------------------------------------------------------- */

struct receive {
	size_t size;
	int64_t type;
	int flags;
	struct message *copy; /* MSG_COPY: what is copied into */
};

static bool matches(const struct message *m, const struct receive *r)
{
	if (r->type == 0)
		return true;
	if (r->type < 0)
		return r->type == INT64_MIN || m->type <= -r->type;
	return (m->type == r->type) == !(r->flags & MSG_EXCEPT);
}

/* The message that @r wants, or NULL. Of a negative type: the first of the lowest type. */
static struct message *pick_locked(struct msg_queue *q, const struct receive *r)
	__must_hold(&q->lock)
{
	struct message *m, *best = NULL;
	int64_t nr = 0;

	assert_mutex_held(&q->lock);
	list_for_each_entry(m, &q->messages, link) {
		if (r->copy) {
			if (nr++ == r->type)
				return m;
		} else if (matches(m, r)) {
			if (r->type >= 0)
				return m;
			if (!best || m->type < best->type)
				best = m;
		}
	}
	return best;
}

static int take_locked(struct msg_queue *q, struct message *m, const struct receive *r,
		       struct message **out) __must_hold(&q->lock)
{
	assert_mutex_held(&q->lock);
	if (m->len > r->size && !(r->flags & MSG_NOERROR))
		return -E2BIG;
	if (r->copy) {
		if (m->len > r->copy->len)
			return -EINVAL;
		r->copy->type = m->type;
		r->copy->len = m->len;
		memcpy(r->copy->data, m->data, m->len);
		*out = r->copy;
		return 0;
	}
	list_del(&m->link);
	q->nr--;
	q->bytes -= m->len;
	q->rtime = sysv_now();
	q->lrpid = sysv_pid();
	count_all(q, -1, -(int64_t)m->len);
	changed_locked(q, &q->senders);
	*out = m;
	return 0;
}

/* 0: *@out is the caller's; 1: it has to wait until q->changes is not *@seen. */
static int try_receive(struct msg_queue *q, const struct receive *r, struct message **out,
		       uint64_t *seen)
{
	int ret = queue_lock(q);
	struct message *m;

	if (ret)
		return ret;
	*seen = q->changes;
	if (!sysv_allowed(&q->common, READS)) {
		ret = -EACCES;
	} else {
		m = pick_locked(q, r);
		if (m)
			ret = take_locked(q, m, r, out);
		else
			ret = (r->flags & IPC_NOWAIT) ? -ENOMSG : 1;
	}
	mutex_unlock(&q->lock);
	return ret;
}

static int receive(int id, const struct receive *r, struct message **out)
{
	struct sysv *obj = sysv_find(queues(), id, 0);
	struct msg_queue *q;
	uint64_t seen = 0;
	int ret;

	if (IS_ERR(obj))
		return PTR_ERR(obj);
	q = queue_of(obj);
	while ((ret = try_receive(q, r, out, &seen)) == 1) {
		ret = wait_change(q, &q->receivers, seen);
		if (ret)
			break;
	}
	sysv_put(obj);
	return ret;
}

/* Type and contents to @umsg: how many bytes. */
static long put_message(const struct message *m, uint64_t umsg, size_t size)
{
	const size_t len = MIN(m->len, size);

	if (put_user_u64((uint64_t)m->type, (void __user *)umsg) ||
	    copy_to_user((void __user *)(umsg + sizeof(uint64_t)), m->data, len))
		return -EFAULT;
	return (long)len;
}

/* msgrcv(id, msg, size, type, flags) */
long sys_msgrcv(const struct syscall_args *args)
{
	struct receive r = { .size = args->a[2],
			     .type = (int64_t)args->a[3],
			     .flags = (int)args->a[4] };
	struct message *m = NULL;
	long ret;

	if ((int)args->a[0] < 0 || (int64_t)args->a[2] < 0)
		return -EINVAL;
	if (r.flags & MSG_COPY) {
		const size_t len = MIN(r.size, READ_ONCE(sysv_limits()->msgmax));

		if ((r.flags & MSG_EXCEPT) || !(r.flags & IPC_NOWAIT))
			return -EINVAL;
		r.copy = kmem_alloc(kmem_current(), sizeof(*r.copy) + len);
		if (!r.copy)
			return -ENOMEM;
		r.copy->len = len;
	}
	ret = receive((int)args->a[0], &r, &m);
	if (!ret)
		ret = put_message(m, args->a[1], r.size);
	if (m && m != r.copy)
		kmem_free(m);
	kmem_free(r.copy);
	return ret;
}

/* --- msgctl ---------------------------------------------------------------------------------- */

static void queue_fill(struct msg_queue *q, struct linux_msqid64_ds *ds)
{
	*ds = (struct linux_msqid64_ds){ 0 };
	sysv_fill(&q->common, &ds->perm, &ds->ctime);
	mutex_lock(&q->lock);
	ds->stime = q->stime;
	ds->rtime = q->rtime;
	ds->cbytes = q->bytes;
	ds->qnum = q->nr;
	ds->qbytes = q->max_bytes;
	ds->lspid = (int32_t)pid_vnr((uint32_t)q->lspid);
	ds->lrpid = (int32_t)pid_vnr((uint32_t)q->lrpid);
	mutex_unlock(&q->lock);
}

bool msg_next(uint32_t *index, struct linux_msqid64_ds *ds)
{
	struct sysv *obj = sysv_next(queues(), index);

	if (!obj)
		return false;
	queue_fill(queue_of(obj), ds);
	sysv_put(obj);
	return true;
}

static long msg_info(int cmd, uint64_t to)
{
	struct ipc_ns *ns = ipc_ns_current();
	struct linux_msginfo info = {
		.msgmax = (int)READ_ONCE(sysv_limits()->msgmax),
		.msgmnb = (int)READ_ONCE(sysv_limits()->msgmnb),
		.msgmni = (int)READ_ONCE(sysv_limits()->msgmni),
		.msgpool = 32000 * 16,
		.msgmap = 16384,
		.msgtql = 16384,
		.msgssz = 16,
		.msgseg = 0xffff,
	};
	int nr, highest;

	sysv_count(queues(), &nr, &highest);
	if (cmd == MSG_INFO) {
		info.msgpool = nr;
		info.msgmap = (int)__atomic_load_n(&ns->nr_messages, __ATOMIC_RELAXED);
		info.msgtql = (int)__atomic_load_n(&ns->message_bytes, __ATOMIC_RELAXED);
	}
	return copy_to_user((void __user *)to, &info, sizeof(info)) ? -EFAULT : highest;
}

static long msg_stat(int cmd, int nr, uint64_t to)
{
	const uint32_t mode = cmd == MSG_STAT_ANY ? 0 : READS;
	struct linux_msqid64_ds ds;
	struct sysv *obj;
	int id = 0;

	if (cmd == IPC_STAT)
		obj = sysv_find(queues(), nr, mode);
	else
		obj = sysv_find_index(queues(), nr, mode, &id);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	queue_fill(queue_of(obj), &ds);
	sysv_put(obj);
	return copy_to_user((void __user *)to, &ds, sizeof(ds)) ? -EFAULT : id;
}

static int set_locked(struct msg_queue *q, const struct linux_msqid64_ds *ds) __must_hold(&q->lock)
{
	int err;

	assert_mutex_held(&q->lock);
	err = sysv_check_owner(&q->common);
	if (!err && ds->qbytes > READ_ONCE(sysv_limits()->msgmnb) && !capable(CAP_SYS_RESOURCE))
		err = -EPERM;
	if (!err)
		err = sysv_set(&q->common, &ds->perm);
	if (!err)
		q->max_bytes = ds->qbytes;
	return err;
}

static long msg_change(int cmd, int id, uint64_t from)
{
	struct linux_msqid64_ds ds;
	struct msg_queue *q;
	struct sysv *obj;
	long ret;

	if (cmd == IPC_SET && copy_from_user(&ds, (const void __user *)from, sizeof(ds)))
		return -EFAULT;
	obj = sysv_find(queues(), id, 0);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	q = queue_of(obj);
	ret = queue_lock(q);
	if (!ret) {
		if (cmd == IPC_SET)
			ret = set_locked(q, &ds);
		else
			ret = sysv_check_owner(obj);
		if (!ret && cmd == IPC_RMID)
			(void)sysv_remove(obj);
		if (!ret) { /* who waits looks again: it may not, there is room, or nothing is */
			changed_locked(q, &q->senders);
			changed_locked(q, &q->receivers);
		}
		mutex_unlock(&q->lock);
	}
	sysv_put(obj);
	return ret;
}

/* msgctl(id, cmd, buf) */
long sys_msgctl(const struct syscall_args *args)
{
	const int id = (int)args->a[0], cmd = (int)args->a[1];

	if (id < 0 || cmd < 0)
		return -EINVAL;
	switch (cmd) {
	case IPC_INFO:
	case MSG_INFO:
		return msg_info(cmd, args->a[2]);
	case IPC_STAT:
	case MSG_STAT:
	case MSG_STAT_ANY:
		return msg_stat(cmd, id, args->a[2]);
	case IPC_SET:
	case IPC_RMID:
		return msg_change(cmd, id, args->a[2]);
	default:
		return -EINVAL;
	}
}
