/* SPDX-License-Identifier: MIT */
/*
 * timerfd: timers that are read.
 *
 * Flow:	the kernel timer's interrupt wakes readers; how many periods have passed is found
 *		out by the read, which sets a periodic timer again. So an unread timer costs one
 *		interrupt.
 * Locking:	lock, which the interrupt takes too.
 */
#include <abi/time.h>
#include <arch/uaccess.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <processor/account/account.h>
#include <processor/process/clock.h>
#include <processor/process/process.h>
#include <processor/process/timespec.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/file.h>
#include <processor/vfs/uio.h>

struct timerfd {
	enum clock_kind clock; /* const */
	struct spinlock lock;  /* RANK_SPIN_MONITOR */
	bool armed __guarded_by(&lock);
	uint64_t deadline __guarded_by(&lock); /* monotonic */
	uint64_t interval __guarded_by(&lock);
	struct timer timer;
	struct waitqueue wq;
};

static void expired(void *arg)
{
	struct timerfd *t = arg;

	wake_all(&t->wq);
}

static bool due_locked(const struct timerfd *t)
{
	assert_spin_held(&t->lock);
	return t->armed && time_now_ns() >= t->deadline;
}

static bool is_due(struct timerfd *t)
{
	const unsigned long flags = spin_lock_irqsave(&t->lock);
	const bool due = due_locked(t);

	spin_unlock_irqrestore(&t->lock, flags);
	return due;
}

/* Expirations since the last read; 0: none. */
static uint64_t take(struct timerfd *t)
{
	const unsigned long flags = spin_lock_irqsave(&t->lock);
	uint64_t n = 0;

	if (due_locked(t)) {
		n = 1;
		if (t->interval) {
			n += (time_now_ns() - t->deadline) / t->interval;
			t->deadline += n * t->interval;
			timer_set(&t->timer, t->deadline);
		} else {
			t->armed = false;
		}
	}
	spin_unlock_irqrestore(&t->lock, flags);
	return n;
}

static ssize_t timerfd_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	struct timerfd *t = f->private;
	uint64_t n;

	if (uio->left < sizeof(n))
		return -EINVAL;
	while (!(n = take(t))) {
		if (file_nonblock(f))
			return -EAGAIN;
		if (wait_event_interruptible(&t->wq, is_due(t)))
			return -ERESTARTSYS;
	}
	return uio_put(uio, &n, sizeof(n)) == sizeof(n) ? (ssize_t)sizeof(n) : -EFAULT;
}

static int timerfd_stat(struct file *f, struct file_attr *attr)
{
	*attr = (struct file_attr){ .mode = 0600, .nlink = 1 };
	return 0;
}

static unsigned int timerfd_poll(struct file *f)
{
	return is_due(f->private) ? POLLIN | POLLRDNORM : 0;
}

static struct waitqueue *timerfd_poll_wait(struct file *f)
{
	struct timerfd *t = f->private;

	return &t->wq;
}

static void timerfd_release(struct file *f)
{
	struct timerfd *t = f->private;

	(void)timer_cancel(&t->timer);
	kmem_free(t);
}

static const struct file_ops timerfd_ops = {
	.name = "timerfd",
	.read = timerfd_read,
	.stat = timerfd_stat,
	.poll = timerfd_poll,
	.poll_wait = timerfd_poll_wait,
	.release = timerfd_release,
};

/* timerfd_create(clock, flags) */
long sys_timerfd_create(const struct syscall_args *args)
{
	const int clock = (int)args->a[0];
	const uint32_t flags = (uint32_t)args->a[1];
	/* These would wake the machine up; it never sleeps. */
	const bool on_alarm = clock == CLOCK_REALTIME_ALARM || clock == CLOCK_BOOTTIME_ALARM;
	struct timerfd *t;
	struct file *f;
	int fd;

	if (flags & ~(TFD_CLOEXEC | TFD_NONBLOCK))
		return -EINVAL;
	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME &&
	    !on_alarm)
		return -EINVAL;
	if (on_alarm && !capable(CAP_WAKE_ALARM))
		return -EPERM;
	t = kmem_alloc(kmem_current(), sizeof(*t));
	if (!t)
		return -ENOMEM;
	f = file_create(&timerfd_ops, O_RDWR | (flags & TFD_NONBLOCK), NULL);
	if (IS_ERR(f)) {
		kmem_free(t);
		return PTR_ERR(f);
	}
	t->clock = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_ALARM ? CLOCK_KIND_REAL
									    : CLOCK_KIND_MONO;
	spin_lock_init(&t->lock, "timerfd", RANK_SPIN_MONITOR);
	waitqueue_init(&t->wq);
	timer_init(&t->timer, expired, t);
	f->private = t;
	fd = files_install(files_current(), f, 0, flags & TFD_CLOEXEC);
	if (fd < 0)
		file_put(f);
	return fd;
}

static void get_locked(const struct timerfd *t, uint64_t *value, uint64_t *interval)
{
	const uint64_t now = time_now_ns();

	assert_spin_held(&t->lock);
	*interval = t->interval;
	*value = 0;
	if (!t->armed)
		return;
	if (now < t->deadline)
		*value = t->deadline - now;
	else if (t->interval)
		*value = t->interval - (now - t->deadline) % t->interval;
}

static void set_locked(struct timerfd *t, uint64_t value, uint64_t interval, bool absolute)
{
	const uint64_t now = time_now_ns();
	uint64_t real;

	assert_spin_held(&t->lock);
	t->armed = value != 0;
	t->interval = value ? interval : 0;
	(void)timer_cancel_async(&t->timer);
	if (!value)
		return;
	t->deadline = absolute ? value : now + value;
	if (absolute && t->clock == CLOCK_KIND_REAL) {
		real = time_real_ns();
		t->deadline = value > real ? now + (value - real) : now;
	}
	timer_set(&t->timer, t->deadline);
}

static int put_value(uint64_t user, uint64_t value, uint64_t interval)
{
	const int err = user_timespec_put(user, interval);

	return err ? err : user_timespec_put(user + 16, value);
}

/* The timer behind descriptor @fd; *f is referenced. */
static struct timerfd *timerfd_get(int fd, struct file **f)
{
	*f = fd_get(fd);
	if (IS_ERR(*f))
		return ERR_PTR(-EBADF);
	if ((*f)->ops == &timerfd_ops)
		return (*f)->private;
	file_put(*f);
	return ERR_PTR(-EINVAL);
}

/* timerfd_settime(fd, flags, new, old) */
long sys_timerfd_settime(const struct syscall_args *args)
{
	const uint32_t how = (uint32_t)args->a[1];
	uint64_t value, interval, old_value, old_interval;
	unsigned long flags;
	struct timerfd *t;
	struct file *f;
	int err = user_timespec_get(args->a[2], &interval);

	if (!err)
		err = user_timespec_get(args->a[2] + 16, &value);
	if (err)
		return err;
	if (how & ~(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET))
		return -EINVAL;
	t = timerfd_get((int)args->a[0], &f);
	if (IS_ERR(t))
		return PTR_ERR(t);
	flags = spin_lock_irqsave(&t->lock);
	get_locked(t, &old_value, &old_interval);
	set_locked(t, value, interval, how & TFD_TIMER_ABSTIME);
	spin_unlock_irqrestore(&t->lock, flags);
	file_put(f);
	return args->a[3] ? put_value(args->a[3], old_value, old_interval) : 0;
}

/* timerfd_gettime(fd, value) */
long sys_timerfd_gettime(const struct syscall_args *args)
{
	uint64_t value, interval;
	unsigned long flags;
	struct file *f;
	struct timerfd *t = timerfd_get((int)args->a[0], &f);

	if (IS_ERR(t))
		return PTR_ERR(t);
	flags = spin_lock_irqsave(&t->lock);
	get_locked(t, &value, &interval);
	spin_unlock_irqrestore(&t->lock, flags);
	file_put(f);
	return put_value(args->a[1], value, interval);
}
