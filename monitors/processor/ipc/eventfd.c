/* SPDX-License-Identifier: MIT */
/*
 * eventfd: a counter that is a file.
 *
 * Flow:	a write wakes one reader, and a read wakes one writer. A woken thread that leaves
 *		something behind wakes the next one.
 * Locking:	lock (RANK_SPIN_TASK) guards the count.
 */
#include "eventfd.h"

#include <abi/poll.h>
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/file.h>
#include <processor/vfs/uio.h>

#define COUNT_MAX (UINT64_MAX - 1)

struct eventfd {
	struct spinlock lock; /* RANK_SPIN_TASK */
	uint64_t count __guarded_by(&lock);
	bool semaphore; /* const */
	struct waitqueue rd_wait, wr_wait;
};

/* The value for a read; 0: the read has to wait. */
static uint64_t try_take(struct eventfd *e)
{
	uint64_t got;

	spin_lock(&e->lock);
	got = e->semaphore && e->count ? 1 : e->count;
	ASSERT(e->count <= COUNT_MAX);
	e->count -= got;
	spin_unlock(&e->lock);
	return got;
}

static bool try_add(struct eventfd *e, uint64_t n)
{
	bool fits;

	spin_lock(&e->lock);
	fits = n <= COUNT_MAX - e->count;
	if (fits)
		e->count += n;
	spin_unlock(&e->lock);
	return fits;
}

static void wake(struct waitqueue *wq)
{
	if (waitqueue_active(wq))
		wake_one(wq);
}

static ssize_t eventfd_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	struct eventfd *e = f->private;
	bool slept;
	uint64_t got;

	if (uio->left < sizeof(got))
		return -EINVAL;
	got = try_take(e);
	slept = !got;
	if (slept && file_nonblock(f))
		return -EAGAIN;
	if (slept && wait_event_interruptible(&e->rd_wait, (got = try_take(e)) != 0))
		return -ERESTARTSYS;
	wake(&e->wr_wait);
	if (slept && READ_ONCE(e->count))
		wake(&e->rd_wait);
	return uio_put(uio, &got, sizeof(got)) == sizeof(got) ? (ssize_t)sizeof(got) : -EFAULT;
}

static ssize_t eventfd_write(struct file *f, struct uio *uio, uint64_t *pos)
{
	struct eventfd *e = f->private;
	bool slept;
	uint64_t n;

	if (uio->left < sizeof(n))
		return -EINVAL;
	if (uio_fetch(uio, &n, sizeof(n)) < sizeof(n))
		return -EFAULT;
	if (n == UINT64_MAX)
		return -EINVAL;
	slept = !try_add(e, n);
	if (slept && file_nonblock(f))
		return -EAGAIN;
	if (slept && wait_event_interruptible(&e->wr_wait, try_add(e, n)))
		return -ERESTARTSYS;
	wake(&e->rd_wait);
	if (slept && READ_ONCE(e->count) < COUNT_MAX)
		wake(&e->wr_wait);
	return sizeof(n);
}

static unsigned int eventfd_poll(struct file *f)
{
	const struct eventfd *e = f->private;
	const uint64_t count = READ_ONCE(e->count);

	return (count ? POLLIN : 0) | (count < COUNT_MAX ? POLLOUT : 0);
}

static struct waitqueue *eventfd_poll_wait(struct file *f)
{
	return &((struct eventfd *)f->private)->rd_wait;
}

static struct waitqueue *eventfd_poll_wait_out(struct file *f)
{
	return &((struct eventfd *)f->private)->wr_wait;
}

static void eventfd_release(struct file *f)
{
	kmem_free(f->private);
}

static const struct file_ops eventfd_ops = {
	.name = "[eventfd]",
	.read = eventfd_read,
	.write = eventfd_write,
	.stat = anon_stat,
	.poll = eventfd_poll,
	.poll_wait = eventfd_poll_wait,
	.poll_wait_out = eventfd_poll_wait_out,
	.release = eventfd_release,
};

bool is_eventfd(const struct file *f)
{
	return f->ops == &eventfd_ops;
}

void eventfd_signal(struct file *f)
{
	struct eventfd *e = f->private;

	ASSERT(is_eventfd(f));
	(void)try_add(e, 1);
	wake(&e->rd_wait);
}

static long make_eventfd(uint32_t count, uint32_t flags)
{
	struct eventfd *e;
	struct file *f;
	int fd;

	if (flags & ~(uint32_t)(EFD_SEMAPHORE | O_CLOEXEC | O_NONBLOCK))
		return -EINVAL;
	e = kmem_alloc(kmem_current(), sizeof(*e));
	if (!e)
		return -ENOMEM;
	spin_lock_init(&e->lock, "eventfd", RANK_SPIN_TASK);
	waitqueue_init(&e->rd_wait);
	waitqueue_init(&e->wr_wait);
	e->count = count;
	e->semaphore = flags & EFD_SEMAPHORE;
	f = file_create(&eventfd_ops, O_RDWR | (flags & O_NONBLOCK), NULL);
	if (IS_ERR(f)) {
		kmem_free(e);
		return PTR_ERR(f);
	}
	f->private = e;
	fd = files_install(task_current()->files, f, 0, flags & O_CLOEXEC);
	if (fd < 0)
		file_put(f);
	return fd;
}

/* eventfd(count) */
long sys_eventfd(const struct syscall_args *args)
{
	return make_eventfd((uint32_t)args->a[0], 0);
}

/* eventfd2(count, flags) */
long sys_eventfd2(const struct syscall_args *args)
{
	return make_eventfd((uint32_t)args->a[0], (uint32_t)args->a[1]);
}
