/* SPDX-License-Identifier: MIT */
/*
 * mq_notify: one process hears of the next message that comes to an empty queue.
 *
 * Flow:	a registration is taken from the queue under its lock, by the message, by its
 *		process (a call, or a close of any descriptor of the queue), or by the queue's end;
 *		the thread that takes it sends what is due, without the lock, and frees it. The
 *		bytes of SIGEV_THREAD are made at registration, so that no memory is needed later.
 * Limits:	the process is kept as a number and the time of its start. If its table of
 *		descriptors ends in another process, that is not seen: the registration stays until
 *		the queue's next message, which then signals nobody, or its end.
 */
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/socket/netlink.h>
#include <processor/socket/queue.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/file.h>

#include "mqueue_private.h"
#include "sysv_private.h"

struct mq_notify mq_notify_take_locked(struct mqueue *q)
{
	const struct mq_notify n = q->notify;

	assert_mutex_held(&q->lock);
	q->notify = (struct mq_notify){ 0 };
	return n;
}

/* --- sending ------------------------------------------------------------------------- */

static void send_signal(const struct mq_notify *n)
{
	const struct linux_siginfo info = { .signo = n->signo,
					    .code = SI_MESGQ,
					    .pid = process_vpid(process_current()),
					    .uid = cred_current()->uid,
					    .value = n->value };
	struct process *p;

	if (!n->signo)
		return; /* a number that asks for nothing */
	p = process_find(n->pid);
	if (!p)
		return;
	if (p->start_ns == n->start_ns) /* nobody else's process, whoever has its number now */
		(void)signal_post(p, &info);
	process_put(p);
}

/* @why: NOTIFY_*. */
static void send_cookie(struct mq_notify *n, uint8_t why)
{
	sock_msg_fill(n->cookie, NOTIFY_COOKIE_LEN - 1, &why, 1);
	netlink_deliver(n->socket, n->cookie);
	n->cookie = NULL;
}

static void forget(struct mq_notify *n)
{
	if (n->cookie)
		sock_msg_free(n->cookie);
	if (n->socket)
		file_put(n->socket);
	*n = (struct mq_notify){ 0 };
}

void mq_notify_send(struct mq_notify *n)
{
	if (!n->pid)
		return;
	if (n->kind == SIGEV_SIGNAL)
		send_signal(n);
	else if (n->kind == SIGEV_THREAD)
		send_cookie(n, NOTIFY_WOKENUP);
	forget(n);
}

void mq_notify_removed(struct mq_notify *n)
{
	if (n->pid && n->kind == SIGEV_THREAD)
		send_cookie(n, NOTIFY_REMOVED);
	forget(n);
}

void mq_notify_closed(struct mqueue *q)
{
	const uint32_t pid = (uint32_t)sysv_pid();
	struct mq_notify n = { 0 };

	mutex_lock(&q->lock);
	if (pid && q->notify.pid == pid && q->notify.start_ns == process_current()->start_ns)
		n = mq_notify_take_locked(q);
	mutex_unlock(&q->lock);
	mq_notify_removed(&n);
}

/* --- mq_notify ----------------------------------------------------------------------- */

/* SIGEV_THREAD: a socket to send to, and the bytes. */
static int get_thread(const struct linux_sigevent *ev, struct mq_notify *n)
{
	uint8_t cookie[NOTIFY_COOKIE_LEN];
	struct file *f;
	int err;

	if (copy_from_user(cookie, (const void __user *)ev->value, sizeof(cookie)))
		return -EFAULT;
	f = fd_get(ev->signo);
	if (IS_ERR(f))
		return PTR_ERR(f);
	n->socket = f;
	err = netlink_check(f);
	if (err)
		return err;
	n->cookie = sock_msg_copy_of(cookie, sizeof(cookie), kmem_current());
	if (IS_ERR(n->cookie)) {
		n->cookie = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int get_event(uint64_t uev, struct mq_notify *n)
{
	struct linux_sigevent ev;

	if (copy_from_user(&ev, (const void __user *)uev, sizeof(ev)))
		return -EFAULT;
	*n = (struct mq_notify){ .pid = process_current()->pid,
				 .start_ns = process_current()->start_ns,
				 .kind = ev.notify,
				 .signo = ev.signo,
				 .value = ev.value };
	switch (ev.notify) {
	case SIGEV_NONE:
		return 0;
	case SIGEV_SIGNAL:
		return (uint32_t)ev.signo >= NR_SIGNALS ? -EINVAL : 0;
	case SIGEV_THREAD:
		return get_thread(&ev, n);
	default:
		return -EINVAL;
	}
}

/* @n is the queue's after 0. */
static int enter(struct mqueue *q, struct mq_notify *n)
{
	int err = 0;

	mutex_lock(&q->lock);
	if (q->notify.pid) {
		err = -EBUSY;
	} else {
		q->notify = *n;
		*n = (struct mq_notify){ 0 };
	}
	mutex_unlock(&q->lock);
	return err;
}

/* mq_notify(fd, event) */
long sys_mq_notify(const struct syscall_args *args)
{
	struct mq_notify n = { 0 };
	struct mqueue *q;
	struct file *f;
	int err = args->a[1] ? get_event(args->a[1], &n) : 0;

	if (!err) {
		q = mqueue_of_fd((int)args->a[0], &f);
		if (IS_ERR(q)) {
			err = (int)PTR_ERR(q);
		} else {
			if (args->a[1])
				err = enter(q, &n);
			else
				mq_notify_closed(q); /* as a close does */
			file_put(f);
		}
	}
	forget(&n);
	return err;
}
