/* SPDX-License-Identifier: MIT */
/*
 * O_ASYNC: SIGIO, or the signal of F_SETSIG, when a file becomes ready.
 *
 * Flow:	an open file with O_ASYNC watches the file's wait queues, as epoll does. A wake-up
 *		puts it on a list, because no signal can be posted inside a wait queue's lock. A
 *		thread of the kernel takes it from there, asks the file what is there, and signals
 *		the owner. A task whose own call woke the queue sends what is on the list itself, on
 *		its way to user mode.
 * Locking:	switch_lock: a file begins or ends to watch. send_lock: one sender at a time, so
 *		that a task that has taken it finds everything sent. lock (RANK_EPOLL, interrupts
 *		off, inside a wait queue's lock): the list, and a file's owner and signal. None is
 *		held while a file is put.
 * Limits:	wake-ups that come before the owner is told are told once. A wake-up of a file with
 *		one queue for both directions says POLL_IN if there is something to read, else
 *		POLL_OUT. A socket says POLL_OUT whenever it has room again; Linux says it only if a
 *		send has found none. A pipe says it when it was full, Linux at every read.
 */
#include "async.h"

#include <abi/poll.h>
#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <processor/account/account.h>
#include <processor/process/process.h>

#include "poll.h"

#define TOLD_IN  1u
#define TOLD_OUT 2u
#define TOLD_ANY (TOLD_IN | TOLD_OUT) /* the one queue of both */

struct file_async {
	struct list_head link; /* lock: on the list, or empty */
	struct file *file;     /* const; not counted */
	int fd;                /* lock */
	unsigned int told;     /* lock: TOLD_* */
	struct file_watch watch;
};

static struct mutex switch_lock = MUTEX_INIT(switch_lock, "async.switch", RANK_MONITOR);
static struct mutex send_lock = MUTEX_INIT(send_lock, "async.send", RANK_MONITOR);
static struct spinlock lock = SPINLOCK_INIT("async", RANK_EPOLL);
static LIST_HEAD(noticed);    /* lock */
static uint32_t nr_unsent;    /* atomic: on the list, or being sent */
static struct thread *sender; /* const once set */

/* --- noticing ------------------------------------------------------------------------ */

static bool notice(struct file_async *a, unsigned int told)
{
	const unsigned long flags = spin_lock_irqsave(&lock);

	a->told |= told;
	if (list_empty(&a->link)) {
		list_add_tail(&a->link, &noticed);
		__atomic_add_fetch(&nr_unsent, 1, __ATOMIC_RELEASE);
	}
	spin_unlock_irqrestore(&lock, flags);
	/* A task that ends with this call does not come by async_send(). */
	(void)thread_wake(sender);
	if (!in_interrupt() && task_current())
		thread_notify(thread_current(), THREAD_F_WORK);
	return true;
}

static bool notice_in(struct watcher *w)
{
	struct file_async *a = container_of(w, struct file_async, watch.in);

	return notice(a, a->watch.out_wq ? TOLD_IN : TOLD_ANY);
}

static bool notice_out(struct watcher *w)
{
	return notice(container_of(w, struct file_async, watch.out), TOLD_OUT);
}

/* --- sending ------------------------------------------------------------------------- */

struct notice { /* a file that was taken off the list, counted */
	struct file *file;
	struct file_owner owner;
	unsigned int told;
	int fd, signo;
};

static bool take(struct notice *n)
{
	const unsigned long flags = spin_lock_irqsave(&lock);
	struct file_async *a;
	bool taken = false;

	while (!taken && (a = list_first_entry_or_null(&noticed, struct file_async, link))) {
		list_del(&a->link);
		*n = (struct notice){ .file = a->file,
				      .owner = a->file->owner,
				      .told = a->told,
				      .fd = a->fd,
				      .signo = a->file->owner_signo };
		a->told = 0;
		taken = refcount_inc_not_zero(&a->file->refs);
		if (!taken) /* on its way out */
			__atomic_sub_fetch(&nr_unsent, 1, __ATOMIC_RELEASE);
	}
	spin_unlock_irqrestore(&lock, flags);
	return taken;
}

static uint32_t band_of(int code)
{
	switch (code) {
	case POLL_IN:
		return POLLIN | POLLRDNORM;
	case POLL_OUT:
		return POLLOUT | POLLWRNORM | POLLWRBAND;
	default:
		ASSERT(code == POLL_MSG);
		return POLLIN | POLLRDNORM | POLLMSG;
	}
}

void async_tell(const struct file_owner *owner, int signo, int fd, int code)
{
	struct linux_siginfo info = { .signo = SIGIO, .code = SI_KERNEL };

	if (signo) {
		info = (struct linux_siginfo){ .signo = signo, .code = code };
		info.band = band_of(code);
		info.fd = fd;
		/* These signals give codes a meaning of their own. */
		if (signo != SIGIO &&
		    (SIGMASK(signo) &
		     (SIGMASK(SIGILL) | SIGMASK(SIGFPE) | SIGMASK(SIGSEGV) | SIGMASK(SIGBUS) |
		      SIGMASK(SIGTRAP) | SIGMASK(SIGCHLD) | SIGMASK(SIGSYS))))
			info.code = SI_SIGIO;
	}
	owner_signal(owner, &info);
}

static void send_one(const struct notice *n, int code)
{
	async_tell(&n->owner, n->signo, n->fd, code);
}

static void send(const struct notice *n)
{
	unsigned int told = n->told, events;

	if (told == TOLD_ANY) {
		events = file_poll(n->file);
		told = events & (POLLIN | POLLPRI | POLLHUP) ? TOLD_IN
		       : events & (POLLOUT | POLLERR)        ? TOLD_OUT
							     : 0;
	}
	if (told & TOLD_IN)
		send_one(n, POLL_IN);
	if (told & TOLD_OUT)
		send_one(n, POLL_OUT);
}

void async_send(void)
{
	struct notice n;
	bool taken;

	if (likely(!__atomic_load_n(&nr_unsent, __ATOMIC_ACQUIRE)))
		return;
	do {
		mutex_lock(&send_lock);
		taken = take(&n);
		if (taken) {
			send(&n);
			__atomic_sub_fetch(&nr_unsent, 1, __ATOMIC_RELEASE);
		}
		mutex_unlock(&send_lock);
		if (taken)
			file_put(n.file); /* may be the last */
	} while (taken);
}

static void sender_main(void *arg)
{
	for (;;) {
		thread_prepare_sleep();
		if (!__atomic_load_n(&nr_unsent, __ATOMIC_ACQUIRE)) {
			schedule();
			continue;
		}
		thread_cancel_sleep();
		async_send();
	}
}

static int start_sender(void)
{
	struct thread *t;

	ASSERT_BEFORE(monitor); /* where programs start */
	t = thread_create("async", sender_main, NULL);
	if (IS_ERR(t))
		return PTR_ERR(t);
	sender = t;
	thread_detach(t);
	return 0;
}
INITCALL(core, start_sender);

/* --- watching ------------------------------------------------------------------------ */

static void unwatch(struct file_async *a)
{
	unsigned long flags;

	file_watch_end(&a->watch);
	flags = spin_lock_irqsave(&lock);
	if (!list_empty(&a->link)) {
		list_del(&a->link);
		__atomic_sub_fetch(&nr_unsent, 1, __ATOMIC_RELEASE);
	}
	spin_unlock_irqrestore(&lock, flags);
	kmem_free(a);
}

void async_file_gone(struct file *f)
{
	ASSERT(!refcount_read(&f->refs));
	unwatch(f->async);
}

static void set_fd(struct file_async *a, int fd)
{
	const unsigned long flags = spin_lock_irqsave(&lock);

	a->fd = fd;
	spin_unlock_irqrestore(&lock, flags);
}

/* A terminal's first owner is its foreground group, or else the calling process. */
static void default_owner(struct file *f)
{
	struct file_owner owner = async_owner(f);
	const uint32_t pgid = f->ops->async_group ? f->ops->async_group(f) : 0;

	if (!f->ops->async_group || owner.nr)
		return;
	if ((pgid && !owner_make(F_OWNER_PGRP, pgid, &owner)) ||
	    !owner_make(F_OWNER_PID, process_current()->pid, &owner))
		async_set_owner(f, &owner);
}

static int watch(struct file *f, int fd)
{
	struct file_async *a = kmem_alloc(kmem_current(), sizeof(*a));

	if (!a)
		return -ENOMEM;
	list_init(&a->link);
	a->file = f;
	a->fd = fd;
	default_owner(f);
	f->async = a;
	file_watch_begin(&a->watch, f, POLL_EVENTS_IN | POLL_EVENTS_OUT, false, notice_in,
			 notice_out);
	return 0;
}

int async_switch(struct file *f, int fd, bool on)
{
	int err = 0;

	if (!f->ops->async)
		return 0;
	mutex_lock(&switch_lock);
	if (on && f->async) {
		set_fd(f->async, fd);
	} else if (on) {
		err = watch(f, fd);
	} else if (f->async) {
		unwatch(f->async);
		f->async = NULL;
	}
	if (!err)
		file_change_flags(f, O_ASYNC, on ? O_ASYNC : 0);
	mutex_unlock(&switch_lock);
	return err;
}

/* --- owner and signal ---------------------------------------------------------------- */

void async_set_owner(struct file *f, const struct file_owner *owner)
{
	const unsigned long flags = spin_lock_irqsave(&lock);

	f->owner = *owner;
	spin_unlock_irqrestore(&lock, flags);
}

struct file_owner async_owner(struct file *f)
{
	const unsigned long flags = spin_lock_irqsave(&lock);
	const struct file_owner owner = f->owner;

	spin_unlock_irqrestore(&lock, flags);
	return owner;
}

void async_own(struct file *f)
{
	struct file_owner owner = async_owner(f);

	if (!owner.nr && !owner_make(F_OWNER_PID, process_current()->pid, &owner))
		async_set_owner(f, &owner);
}

void async_set_signal(struct file *f, int signo)
{
	const unsigned long flags = spin_lock_irqsave(&lock);

	ASSERT(signo >= 0 && signo < NR_SIGNALS);
	f->owner_signo = signo;
	spin_unlock_irqrestore(&lock, flags);
}

int async_signal(struct file *f)
{
	const unsigned long flags = spin_lock_irqsave(&lock);
	const int signo = f->owner_signo;

	spin_unlock_irqrestore(&lock, flags);
	return signo;
}
