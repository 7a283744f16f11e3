/* SPDX-License-Identifier: MIT */
/*
 * inotify: instances as files, and their calls.
 *
 * Flow:	a read takes whole events, as many as fit, and waits for the first.
 * See:		notify.h
 */
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "at_private.h"
#include "file.h"
#include "notify.h"
#include "uio.h"

static ssize_t put_event(struct uio *uio, const struct notify_event *e)
{
	const struct linux_inotify_event head = {
		.wd = e->wd, .mask = e->mask, .cookie = e->cookie, .len = e->name_len
	};

	if (uio_put(uio, &head, sizeof(head)) < sizeof(head) ||
	    uio_put(uio, e->name, e->name_len) < e->name_len)
		return -EFAULT;
	return (ssize_t)(sizeof(head) + e->name_len);
}

static ssize_t inotify_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	struct notify_group *g = f->private;
	struct notify_event *e;
	ssize_t done = 0, n;

	e = notify_take(g, uio->left);
	if (!e && file_nonblock(f))
		return -EAGAIN;
	if (!e && wait_event_interruptible(notify_wait(g), (e = notify_take(g, uio->left)) != NULL))
		return -ERESTARTSYS;
	for (; e && !IS_ERR(e); e = notify_take(g, uio->left)) {
		n = put_event(uio, e);
		if (n < 0) {
			notify_untake(g, e);
			return done ? done : n;
		}
		done += n;
		kmem_free(e);
	}
	return done ? done : PTR_ERR(e);
}

static long inotify_ioctl(struct file *f, uint32_t cmd, uint64_t arg)
{
	if (cmd != FIONREAD)
		return -ENOTTY;
	return put_user_u32((uint32_t)MIN(notify_bytes(f->private), (uint64_t)INT32_MAX),
			    (void __user *)arg)
		       ? -EFAULT
		       : 0;
}

static unsigned int inotify_poll(struct file *f)
{
	return notify_bytes(f->private) ? POLLIN | POLLRDNORM : 0;
}

static struct waitqueue *inotify_poll_wait(struct file *f)
{
	return notify_wait(f->private);
}

static void inotify_release(struct file *f)
{
	notify_group_free(f->private);
}

static const struct file_ops inotify_ops = {
	.name = "inotify",
	.read = inotify_read,
	.stat = anon_stat,
	.ioctl = inotify_ioctl,
	.poll = inotify_poll,
	.poll_wait = inotify_poll_wait,
	.async = true,
	.release = inotify_release,
};

static long make_inotify(uint32_t flags)
{
	struct notify_group *g;
	struct file *f;
	int fd;

	if (flags & ~(uint32_t)(O_CLOEXEC | O_NONBLOCK))
		return -EINVAL;
	g = notify_group_create(cred_current()->uid);
	if (IS_ERR(g))
		return PTR_ERR(g);
	f = file_create(&inotify_ops, flags & O_NONBLOCK, NULL);
	if (IS_ERR(f)) {
		notify_group_free(g);
		return PTR_ERR(f);
	}
	f->private = g;
	fd = files_install(files_current(), f, 0, flags & O_CLOEXEC);
	if (fd < 0)
		file_put(f);
	return fd;
}

/* inotify_init() */
long sys_inotify_init(const struct syscall_args *args)
{
	return make_inotify(0);
}

/* inotify_init1(flags) */
long sys_inotify_init1(const struct syscall_args *args)
{
	return make_inotify((uint32_t)args->a[0]);
}

/* The instance behind @fd; file_put(). ERR_PTR(-EBADF, -EINVAL). */
static struct file *instance(int fd)
{
	struct file *f = fd_get(fd);

	if (IS_ERR(f) || f->ops == &inotify_ops)
		return f;
	file_put(f);
	return ERR_PTR(-EINVAL);
}

#define IN_FLAGS                                                                                  \
	(IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK | IN_MASK_CREATE | IN_MASK_ADD | IN_ISDIR | \
	 IN_ONESHOT)

/* inotify_add_watch(fd, path, mask) */
long sys_inotify_add_watch(const struct syscall_args *args)
{
	const uint32_t mask = (uint32_t)args->a[2];
	struct walk_result res;
	struct file *f;
	long ret;

	if (!(mask & (IN_ALL_EVENTS | IN_UNMOUNT | IN_Q_OVERFLOW | IN_IGNORED | IN_FLAGS)))
		return -EINVAL;
	f = instance((int)args->a[0]);
	if (PTR_ERR(f) == -EBADF)
		return -EBADF;
	if ((mask & IN_MASK_ADD) && (mask & IN_MASK_CREATE)) {
		ret = -EINVAL;
	} else if (IS_ERR(f)) {
		return PTR_ERR(f);
	} else {
		ret = at_walk(AT_FDCWD, args->a[1],
			      (mask & IN_DONT_FOLLOW ? WALK_NOFOLLOW : 0) |
				      (mask & IN_ONLYDIR ? WALK_DIRECTORY : 0),
			      FS_MAY_READ, &res);
		if (!ret) {
			ret = notify_add(f->private, &res.at,
					 mask & (IN_ALL_EVENTS | IN_EXCL_UNLINK | IN_MASK_ADD |
						 IN_MASK_CREATE | IN_ONESHOT));
			walk_result_put(&res);
		}
	}
	if (!IS_ERR(f))
		file_put(f);
	return ret;
}

/* inotify_rm_watch(fd, wd) */
long sys_inotify_rm_watch(const struct syscall_args *args)
{
	struct file *f = instance((int)args->a[0]);
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	ret = notify_remove(f->private, (int)args->a[1]);
	file_put(f);
	return ret;
}
