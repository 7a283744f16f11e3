/* SPDX-License-Identifier: MIT */
/*
 * poll, ppoll, pselect6.
 *
 * A kind of file without poll() is always ready.  To wait, the thread looks at every file's state whenever one
 * of their wait queues may have been woken; files here are streams, whose three queues belong to one program,
 * so it waits on the first one that is not ready and bounds each wait (WAIT_SLICE_NS) for the others.
 */
#include <arch/uaccess.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/file.h>
#include <processor/process.h>
#include <processor/syscall.h>

#define WAIT_SLICE_NS 10000000u

struct pollfd_user {
	int32_t fd;
	uint16_t events;
	uint16_t revents;
};

static unsigned int ready(struct file *f)
{
	return f->ops->poll ? f->ops->poll(f) : POLL_IN | POLL_OUT;
}

/* Look at all; returns how many have events. *@first gets one to wait on, referenced, or NULL. */
static int look(struct pollfd_user *fds, size_t nr, struct file **first)
{
	int hits = 0;

	*first = NULL;
	for (size_t i = 0; i < nr; i++) {
		struct file *f;

		fds[i].revents = 0;
		if (fds[i].fd < 0)
			continue;
		f = fd_get(fds[i].fd);
		if (IS_ERR(f)) {
			fds[i].revents = POLL_NVAL;
			hits++;
			continue;
		}
		fds[i].revents = (uint16_t)(ready(f) & (fds[i].events | POLL_ERR | POLL_HUP));
		if (fds[i].revents)
			hits++;
		if (!*first && f->ops->poll_wait)
			*first = f;
		else
			file_put(f);
	}
	return hits;
}

static int wait_some(struct file *f, uint64_t deadline)
{
	struct waitqueue none;
	const uint64_t slice = time_now_ns() + WAIT_SLICE_NS;
	const unsigned int before = f ? ready(f) : 0;
	int err;

	if (!f) {
		waitqueue_init(&none);
		err = wait_event_interruptible_timeout(&none, false, deadline);
	} else {
		err = wait_event_interruptible_timeout(f->ops->poll_wait(f), ready(f) != before,
						       MIN(deadline, slice));
	}
	return err == -ETIMEDOUT ? 0 : err;
}

static long do_poll(struct pollfd_user *fds, size_t nr, uint64_t deadline)
{
	struct file *first;
	int hits, err = 0;

	for (;;) {
		hits = look(fds, nr, &first);
		if (!hits && time_now_ns() < deadline)
			err = wait_some(first, deadline);
		else
			err = -ETIMEDOUT;
		if (first)
			file_put(first);
		if (err)
			break;
	}
	return hits ? hits : err == -ETIMEDOUT ? 0 : err;
}

static long poll_user(uint64_t ufds, uint64_t nr, uint64_t deadline)
{
	const size_t bytes = nr * sizeof(struct pollfd_user);
	struct pollfd_user *fds;
	long ret;

	if (nr > process_rlimit(RLIM_NOFILE))
		return -EINVAL;
	fds = kmalloc(MAX(bytes, (size_t)1));
	if (!fds)
		return -ENOMEM;
	ret = copy_from_user(fds, (const void __user *)ufds, bytes);
	if (!ret)
		ret = do_poll(fds, nr, deadline);
	if (ret >= 0 && copy_to_user((void __user *)ufds, fds, bytes))
		ret = -EFAULT;
	kfree(fds);
	return ret;
}

/* poll(fds, nr, timeout_ms) */
long sys_poll(const struct syscall_args *args)
{
	const int ms = (int)args->a[2];

	return poll_user(args->a[0], (uint32_t)args->a[1],
			 ms < 0 ? WAIT_FOREVER : time_now_ns() + (uint64_t)ms * 1000000u);
}

static int deadline_of(uint64_t uts, uint64_t *deadline)
{
	uint64_t ts[2];

	*deadline = WAIT_FOREVER;
	if (!uts)
		return 0;
	if (copy_from_user(ts, (const void __user *)uts, sizeof(ts)))
		return -EFAULT;
	if ((int64_t)ts[0] < 0 || ts[1] >= 1000000000u)
		return -EINVAL;
	if (ts[0] < UINT64_MAX / 1000000000u / 2)
		*deadline = time_now_ns() + ts[0] * 1000000000u + ts[1];
	return 0;
}

/* Run @fn's wait with another signal mask; the mask comes back before return. */
static uint64_t swap_mask(uint64_t mask)
{
	struct task *t = task_current();
	uint64_t old;

	spin_lock(&t->process->sig_lock);
	old = t->sigmask;
	t->sigmask = mask & ~(SIGMASK(SIGKILL) | SIGMASK(SIGSTOP));
	spin_unlock(&t->process->sig_lock);
	thread_notify(t->thread, THREAD_F_WORK);
	return old;
}

/* ppoll(fds, nr, timeout, sigmask, sigsetsize) */
long sys_ppoll(const struct syscall_args *args)
{
	uint64_t deadline, mask, old = 0;
	long ret = deadline_of(args->a[2], &deadline);

	if (ret)
		return ret;
	if (args->a[3]) {
		if (args->a[4] != 8)
			return -EINVAL;
		if (get_user_u64(&mask, (const void __user *)args->a[3]))
			return -EFAULT;
		old = swap_mask(mask);
	}
	ret = poll_user(args->a[0], (uint32_t)args->a[1], deadline);
	if (args->a[3])
		(void)swap_mask(old);
	return ret;
}

#define SET_WORDS(nr) (((nr) + 63) / 64)

static int get_set(uint64_t uset, uint64_t *words, size_t nr)
{
	memset(words, 0, SET_WORDS(nr) * 8);
	return uset ? copy_from_user(words, (const void __user *)uset, SET_WORDS(nr) * 8) : 0;
}

/* Translate three sets into poll entries; returns how many. */
static size_t sets_to_fds(struct pollfd_user *fds, uint64_t *const sets[3], size_t nr)
{
	static const uint16_t events[3] = { POLL_IN | POLL_HUP, POLL_OUT | POLL_ERR, 0 };
	size_t n = 0;

	for (size_t fd = 0; fd < nr; fd++) {
		uint16_t want = 0;
		bool any = false;

		for (size_t s = 0; s < 3; s++) {
			if (sets[s][fd / 64] & (1ull << (fd % 64))) {
				want |= events[s];
				any = true;
			}
		}
		if (any)
			fds[n++] = (struct pollfd_user){ .fd = (int)fd, .events = want };
	}
	return n;
}

/* The answer as sets; returns the number of bits, or -EBADF. */
static long fds_to_sets(const struct pollfd_user *fds, size_t n, uint64_t *const sets[3], size_t nr)
{
	long bits = 0;

	for (size_t i = 0; i < n; i++) {
		const size_t word = (size_t)fds[i].fd / 64;
		const uint64_t bit = 1ull << (fds[i].fd % 64);

		if (fds[i].revents & POLL_NVAL)
			return -EBADF;
		if (!(fds[i].revents & (POLL_IN | POLL_HUP | POLL_ERR)))
			sets[0][word] &= ~bit;
		if (!(fds[i].revents & (POLL_OUT | POLL_ERR)))
			sets[1][word] &= ~bit;
		sets[2][word] &= ~bit;
		bits += !!(sets[0][word] & bit) + !!(sets[1][word] & bit);
	}
	return bits;
}

static long do_select(const uint64_t usets[3], size_t nr, uint64_t deadline)
{
	const size_t words = MAX(SET_WORDS(nr), (size_t)1);
	uint64_t *mem = kcalloc(3, words * 8);
	struct pollfd_user *fds = kcalloc(MAX(nr, (size_t)1), sizeof(*fds));
	uint64_t *const sets[3] = { mem, mem + words, mem + 2 * words };
	long ret = mem && fds ? 0 : -ENOMEM;
	size_t n = 0;

	for (size_t s = 0; !ret && s < 3; s++)
		ret = get_set(usets[s], sets[s], nr);
	if (!ret) {
		n = sets_to_fds(fds, sets, nr);
		ret = do_poll(fds, n, deadline);
	}
	if (ret >= 0)
		ret = fds_to_sets(fds, n, sets, nr);
	for (size_t s = 0; ret >= 0 && s < 3; s++) {
		if (usets[s] && copy_to_user((void __user *)usets[s], sets[s], SET_WORDS(nr) * 8))
			ret = -EFAULT;
	}
	kfree(fds);
	kfree(mem);
	return ret;
}

/* pselect6(nr, readfds, writefds, exceptfds, timeout, {sigmask, size}) */
long sys_pselect6(const struct syscall_args *args)
{
	const uint64_t usets[3] = { args->a[1], args->a[2], args->a[3] };
	uint64_t deadline, sig[2] = { 0, 0 }, mask, old = 0;
	long ret = deadline_of(args->a[4], &deadline);

	if (ret)
		return ret;
	if ((int)args->a[0] < 0 || args->a[0] > process_rlimit(RLIM_NOFILE))
		return -EINVAL;
	if (args->a[5] && copy_from_user(sig, (const void __user *)args->a[5], sizeof(sig)))
		return -EFAULT;
	if (sig[0]) {
		if (sig[1] != 8)
			return -EINVAL;
		if (get_user_u64(&mask, (const void __user *)sig[0]))
			return -EFAULT;
		old = swap_mask(mask);
	}
	ret = do_select(usets, (size_t)args->a[0], deadline);
	if (sig[0])
		(void)swap_mask(old);
	return ret;
}
