/* SPDX-License-Identifier: MIT */
/*
 * Descriptors of processes: pidfd_open, pidfd_send_signal, CLONE_PIDFD, and what waitid(P_PIDFD)
 * looks at.
 *
 * Invariants:	an open file holds a reference of the process, zombie or gone, so it never means
 *		another one that got the number later.
 * Limits:	no descriptors of threads.
 */
#include "process_private.h"

#include <arch/uaccess.h>
#include <lib/err.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/file.h>

static unsigned int pidfd_poll(struct file *f)
{
	const struct process *p = f->private;

	switch (READ_ONCE(p->state)) {
	case PROCESS_ALIVE:
		return 0;
	case PROCESS_ZOMBIE:
		return POLLIN | POLLRDNORM;
	default:
		return POLLIN | POLLRDNORM | POLLHUP;
	}
}

static struct waitqueue *pidfd_poll_wait(struct file *f)
{
	struct process *p = f->private;

	return &p->ended;
}

static void pidfd_release(struct file *f)
{
	process_put(f->private);
}

static const struct file_ops pidfd_ops = {
	.name = "[pidfd]",
	.magic = 0x50494446,
	.stat = anon_stat,
	.poll = pidfd_poll,
	.poll_wait = pidfd_poll_wait,
	.release = pidfd_release,
};

static struct file *pidfd_file(struct process *p, uint32_t flags)
{
	struct file *f = file_create(&pidfd_ops, O_RDWR | flags, NULL);

	if (IS_ERR(f))
		return f;
	process_get(p);
	f->private = p;
	return f;
}

struct process *pidfd_process_of(const struct file *f)
{
	return f->ops == &pidfd_ops ? f->private : NULL;
}

struct process *pidfd_process(int fd, bool *nonblock)
{
	struct file *f = fd_get(fd);
	struct process *p = NULL;

	if (IS_ERR(f))
		return NULL;
	if (f->ops == &pidfd_ops) {
		p = f->private;
		process_get(p);
		*nonblock = file_nonblock(f);
	}
	file_put(f);
	return p;
}

/* --- CLONE_PIDFD ----------------------------------------------------------------------------- */

int pidfd_reserve(struct pidfd_slot *slot, struct process *p, uint64_t ufd)
{
	int err = 0;

	slot->f = pidfd_file(p, 0);
	if (IS_ERR(slot->f))
		return PTR_ERR(slot->f);
	slot->fd = files_reserve(files_current(), 0, true);
	if (slot->fd < 0)
		err = slot->fd;
	else if (put_user_u32((uint32_t)slot->fd, (void __user *)ufd))
		err = -EFAULT;
	if (!err)
		return 0;
	pidfd_cancel(slot);
	return err;
}

void pidfd_cancel(struct pidfd_slot *slot)
{
	if (slot->fd >= 0)
		files_unreserve(files_current(), slot->fd);
	file_put(slot->f);
}

void pidfd_fill(struct pidfd_slot *slot)
{
	files_fill(files_current(), slot->fd, slot->f);
}

/*
 * --- the calls ---------------------------------------------------------------------------------
 */

/* pidfd_open(pid, flags) */
long sys_pidfd_open(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[1];
	struct process *p;
	struct task *t;
	struct file *f;
	uint32_t nr;
	int fd;

	if ((flags & ~O_NONBLOCK) || (int)args->a[0] <= 0)
		return -EINVAL;
	nr = pid_from_vnr((uint32_t)args->a[0]);
	p = process_find(nr);
	if (!p) {
		t = task_find(nr);
		if (t)
			task_put(t);
		return t ? -EINVAL : -ESRCH; /* a thread that is not the first */
	}
	f = pidfd_file(p, flags);
	process_put(p);
	if (IS_ERR(f))
		return PTR_ERR(f);
	fd = files_install(files_current(), f, 0, true);
	if (fd < 0)
		file_put(f);
	return fd;
}

/* A siginfo of the caller's own may not look as if the kernel had made it, but to itself. */
static int get_info(struct linux_siginfo *info, uint64_t uinfo, int signo, const struct process *p)
{
	*info = (struct linux_siginfo){ .signo = signo,
					.code = SI_USER,
					.pid = process_vpid(process_current()),
					.uid = cred_current()->uid };
	if (!uinfo)
		return 0;
	if (copy_from_user(info, (const void __user *)uinfo, sizeof(*info)))
		return -EFAULT;
	if (info->signo != signo)
		return -EINVAL;
	info->pad = 0;
	if (p != process_current() && (info->code >= 0 || info->code == SI_TKILL))
		return -EPERM;
	return 0;
}

/*
 * Behind a descriptor of a process, or of its directory in /proc; referenced. ERR_PTR(-EBADF,
 * -ESRCH)
 */
static struct process *signal_target(int fd)
{
	struct process *p = ERR_PTR(-EBADF);
	struct file *f = fd_get(fd);

	if (IS_ERR(f))
		return ERR_PTR(-EBADF);
	if (f->ops == &pidfd_ops) {
		p = f->private;
		process_get(p);
	} else if (f->inode && !(f->flags & O_PATH)) {
		p = proc_dir_process(f->inode);
	}
	file_put(f);
	return p;
}

/* pidfd_getfd(fd, target, flags) */
long sys_pidfd_getfd(const struct syscall_args *args)
{
	struct process *p;
	struct files *table;
	struct file *f;
	bool nonblock;
	int fd;

	if ((uint32_t)args->a[2])
		return -EINVAL;
	p = pidfd_process((int)args->a[0], &nonblock);
	if (!p)
		return -EBADF;
	table = process_may_look(p) ? process_files(p) : ERR_PTR(-EPERM);
	process_put(p);
	if (IS_ERR(table))
		return PTR_ERR(table);
	if (!table)
		return -ESRCH;
	f = files_get(table, (int)args->a[1]);
	files_put(table);
	if (!f)
		return -EBADF;
	fd = files_install(files_current(), f, 0, true);
	if (fd < 0)
		file_put(f);
	return fd;
}

/* pidfd_send_signal(fd, signo, info, flags) */
long sys_pidfd_send_signal(const struct syscall_args *args)
{
	const int signo = (int)args->a[1];
	struct linux_siginfo info;
	struct process *p;
	int err;

	if (args->a[3])
		return -EINVAL;
	p = signal_target((int)args->a[0]);
	if (IS_ERR(p))
		return PTR_ERR(p);
	/* A descriptor may have been inherited into a PID namespace, or sent there. */
	if (signo < 0 || signo >= NR_SIGNALS || !pid_ns_within(p->pid_ns, pid_ns_current()))
		err = -EINVAL;
	else
		err = get_info(&info, args->a[2], signo, p);
	if (!err)
		err = process_signal(p, &info);
	process_put(p);
	return err;
}
