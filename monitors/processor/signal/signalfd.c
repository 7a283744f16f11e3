/* SPDX-License-Identifier: MIT */
/*
 * signalfd: pending signals that are read.
 *
 * Flow:	a read takes the signals of the task that reads or polls, not of the task that made
 *		the descriptor, as on Linux. process.sig.posted is woken whenever a signal is queued
 *		in the process.
 */
#include <abi/signal.h>
#include <arch/uaccess.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/file.h>
#include <processor/vfs/uio.h>

#include "signal_private.h"

/* Of its own, because a file's private pointer is what its locks know it by: it never changes. */
struct signal_set {
	uint64_t set; /* atomic */
};

static uint64_t set_of(struct file *f)
{
	const struct signal_set *s = f->private;

	return __atomic_load_n(&s->set, __ATOMIC_RELAXED);
}

static bool is_fault(int signo)
{
	return signo == SIGSEGV || signo == SIGBUS || signo == SIGILL || signo == SIGFPE ||
	       signo == SIGTRAP;
}

/* As Linux: codes of O_ASYNC, but where the signal gives these codes a meaning of its own. */
static bool is_about_file(const struct linux_siginfo *info)
{
	return info->code == SI_SIGIO ||
	       ((info->code == POLL_IN || info->code == POLL_OUT) && info->signo != SIGCHLD &&
		info->signo != SIGSYS && !is_fault(info->signo));
}

static void describe(const struct linux_siginfo *info, struct linux_signalfd_siginfo *out)
{
	*out = (struct linux_signalfd_siginfo){
		.signo = (uint32_t)info->signo,
		.err = info->err,
		.code = info->code,
	};
	if (info->code == SI_TIMER) {
		out->tid = (uint32_t)info->timer_id;
		out->overrun = (uint32_t)info->overrun;
		out->ptr = info->value;
		out->int_value = (int32_t)info->value;
		return;
	}
	if (info->code > SI_USER && info->code < SI_KERNEL && is_fault(info->signo)) {
		out->addr = info->addr;
		return;
	}
	if (is_about_file(info)) {
		out->band = (uint32_t)info->band;
		out->fd = info->fd;
		return;
	}
	out->pid = info->pid;
	out->uid = info->uid;
	if (info->signo == SIGCHLD && info->code > SI_USER) {
		out->status = info->status;
		out->utime = (uint64_t)info->utime;
		out->stime = (uint64_t)info->stime;
	} else if (info->code < SI_USER && info->code != SI_TKILL) {
		out->ptr = info->value;
		out->int_value = (int32_t)info->value;
	}
}

static bool take(struct file *f, struct linux_siginfo *info)
{
	struct task *t = task_current();
	bool taken;

	spin_lock(&t->process->sig_lock);
	taken = signal_take_locked(t, set_of(f), info) != 0;
	spin_unlock(&t->process->sig_lock);
	return taken;
}

static bool has_some(struct file *f)
{
	struct task *t = task_current();
	bool some;

	spin_lock(&t->process->sig_lock);
	some = ((t->sig.pending.set | t->process->sig.pending.set) & set_of(f)) != 0;
	spin_unlock(&t->process->sig_lock);
	return some;
}

static ssize_t signalfd_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	struct waitqueue *wq = &process_current()->sig.posted;
	struct linux_signalfd_siginfo out;
	struct linux_siginfo info;
	ssize_t done = 0;

	if (uio->left < sizeof(out))
		return -EINVAL;
	while (uio->left >= sizeof(out)) {
		if (!take(f, &info)) {
			if (done)
				break;
			if (file_nonblock(f))
				return -EAGAIN;
			if (wait_event_interruptible(wq, has_some(f)))
				return -ERESTARTSYS;
			continue;
		}
		describe(&info, &out);
		if (uio_put(uio, &out, sizeof(out)) != sizeof(out))
			return done ? done : -EFAULT;
		done += (ssize_t)sizeof(out);
	}
	return done;
}

static int signalfd_stat(struct file *f, struct file_attr *attr)
{
	*attr = (struct file_attr){ .mode = 0600, .nlink = 1 };
	return 0;
}

static unsigned int signalfd_poll(struct file *f)
{
	return has_some(f) ? POLLIN | POLLRDNORM : 0;
}

static struct waitqueue *signalfd_poll_wait(struct file *f)
{
	return &process_current()->sig.posted;
}

static void signalfd_release(struct file *f)
{
	kmem_free(f->private);
}

static const struct file_ops signalfd_ops = {
	.name = "signalfd",
	.read = signalfd_read,
	.stat = signalfd_stat,
	.poll = signalfd_poll,
	.poll_wait = signalfd_poll_wait,
	.poll_by_process = true,
	.release = signalfd_release,
};

static void set_signals(struct file *f, uint64_t set)
{
	struct signal_set *s = f->private;

	__atomic_store_n(&s->set, set & ~SIGMASK_UNBLOCKABLE, __ATOMIC_RELAXED);
}

static long change(int fd, uint64_t set)
{
	struct file *f = fd_get(fd);
	long ret = fd;

	if (IS_ERR(f))
		return PTR_ERR(f);
	if (f->ops == &signalfd_ops) {
		set_signals(f, set);
		wake_all(&process_current()
				  ->sig.posted); /* what was waited for is another set now */
	} else {
		ret = -EINVAL;
	}
	file_put(f);
	return ret;
}

static long signalfd(int fd, uint64_t uset, uint64_t size, uint32_t flags)
{
	struct file *f;
	uint64_t set;

	if (flags & ~(SFD_CLOEXEC | SFD_NONBLOCK))
		return -EINVAL;
	if (size != sizeof(set))
		return -EINVAL;
	if (get_user_u64(&set, (const void __user *)uset))
		return -EFAULT;
	if (fd != -1)
		return change(fd, set);
	f = file_create(&signalfd_ops, O_RDWR | (flags & SFD_NONBLOCK), NULL);
	if (IS_ERR(f))
		return PTR_ERR(f);
	f->private = kmem_alloc(kmem_current(), sizeof(struct signal_set));
	if (!f->private) {
		file_put(f);
		return -ENOMEM;
	}
	set_signals(f, set);
	fd = files_install(files_current(), f, 0, flags & SFD_CLOEXEC);
	if (fd < 0)
		file_put(f);
	return fd;
}

/* signalfd(fd, set, size) */
long sys_signalfd(const struct syscall_args *args)
{
	return signalfd((int)args->a[0], args->a[1], args->a[2], 0);
}

/* signalfd4(fd, set, size, flags) */
long sys_signalfd4(const struct syscall_args *args)
{
	return signalfd((int)args->a[0], args->a[1], args->a[2], (uint32_t)args->a[3]);
}
