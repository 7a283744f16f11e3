/* SPDX-License-Identifier: MIT */
/*
 * System calls of epoll. Checks are in Linux's order.
 */
#include <abi/poll.h>
#include <arch/uaccess.h>
#include <lib/err.h>
#include <processor/process/process.h>
#include <processor/process/timespec.h>
#include <processor/syscall/syscall.h>

#include "epoll_private.h"
#include "poll.h"

/* Events and flags that are allowed beside EPOLLEXCLUSIVE. */
#define EXCLUSIVE_OK                                                                    \
	(POLL_EVENTS_IN | POLL_EVENTS_OUT | POLLERR | POLLHUP | EPOLLWAKEUP | EPOLLET | \
	 EPOLLEXCLUSIVE)

static long create(uint32_t flags)
{
	struct file *f;
	int fd;

	if (flags & ~(uint32_t)O_CLOEXEC)
		return -EINVAL;
	f = epoll_file_create();
	if (IS_ERR(f))
		return PTR_ERR(f);
	fd = files_install(task_current()->files, f, 0, flags & O_CLOEXEC);
	if (fd < 0)
		file_put(f);
	return fd;
}

/* epoll_create(size) */
long sys_epoll_create(const struct syscall_args *args)
{
	return (int)args->a[0] <= 0 ? -EINVAL : create(0);
}

/* epoll_create1(flags) */
long sys_epoll_create1(const struct syscall_args *args)
{
	return create((uint32_t)args->a[0]);
}

static long control(struct file *epf, struct file *f, int op, int fd, struct linux_epoll_event *ev)
{
	struct epoll *ep = epoll_of(epf);

	if (!f->ops->poll)
		return -EPERM; /* always ready: nothing to wait for */
	if (f == epf || !ep)
		return -EINVAL;
	if (op != EPOLL_CTL_DEL && (ev->events & EPOLLEXCLUSIVE) &&
	    (op == EPOLL_CTL_MOD || epoll_of(f) || (ev->events & ~EXCLUSIVE_OK)))
		return -EINVAL;
	switch (op) {
	case EPOLL_CTL_ADD:
		return epoll_add(ep, f, fd, ev);
	case EPOLL_CTL_DEL:
		return epoll_delete(ep, f, fd);
	case EPOLL_CTL_MOD:
		return epoll_modify(ep, f, fd, ev);
	default:
		return -EINVAL;
	}
}

/* epoll_ctl(epfd, op, fd, event) */
long sys_epoll_ctl(const struct syscall_args *args)
{
	const int op = (int)args->a[1], fd = (int)args->a[2];
	struct linux_epoll_event ev = { 0, 0 };
	struct file *epf, *f;
	long ret = -EBADF;

	if (op != EPOLL_CTL_DEL && copy_from_user(&ev, (const void __user *)args->a[3], sizeof(ev)))
		return -EFAULT;
	epf = fd_get((int)args->a[0]);
	f = fd_get(fd);
	if (!IS_ERR(epf) && !IS_ERR(f))
		ret = control(epf, f, op, fd, &ev);
	if (!IS_ERR(f))
		file_put(f);
	if (!IS_ERR(epf))
		file_put(epf);
	return ret;
}

static long wait(const struct syscall_args *args, uint64_t deadline)
{
	const int max = (int)args->a[2];
	struct epoll *ep;
	struct file *f;
	long ret;

	if (max <= 0 || (uint64_t)max > INT32_MAX / sizeof(struct linux_epoll_event))
		return -EINVAL;
	if (!user_range_ok(args->a[1], (uint64_t)max * sizeof(struct linux_epoll_event)))
		return -EFAULT;
	f = fd_get((int)args->a[0]);
	if (IS_ERR(f))
		return PTR_ERR(f);
	ep = epoll_of(f);
	ret = ep ? epoll_wait_events(ep, args->a[1], max, deadline) : -EINVAL;
	file_put(f);
	return ret;
}

/* 0: look once. */
static uint64_t deadline_of_ms(int ms)
{
	if (ms < 0)
		return WAIT_FOREVER;
	return ms ? time_after_ns((uint64_t)ms * 1000000u) : 0;
}

/* epoll_wait(epfd, events, maxevents, timeout_ms) */
long sys_epoll_wait(const struct syscall_args *args)
{
	return wait(args, deadline_of_ms((int)args->a[3]));
}

static long wait_masked(const struct syscall_args *args, uint64_t deadline)
{
	long ret = signal_mask_begin_user(args->a[4], args->a[5]);

	if (ret)
		return ret;
	ret = wait(args, deadline);
	return args->a[4] ? signal_mask_end(ret) : ret;
}

/* epoll_pwait(epfd, events, maxevents, timeout_ms, sigmask, sigsetsize) */
long sys_epoll_pwait(const struct syscall_args *args)
{
	return wait_masked(args, deadline_of_ms((int)args->a[3]));
}

/* epoll_pwait2(epfd, events, maxevents, timeout, sigmask, sigsetsize) */
long sys_epoll_pwait2(const struct syscall_args *args)
{
	uint64_t ns = 0;
	int err = 0;

	if (args->a[3])
		err = user_timespec_get(args->a[3], &ns);
	if (err)
		return err;
	return wait_masked(args, !args->a[3] ? WAIT_FOREVER : ns ? time_after_ns(ns) : 0);
}
