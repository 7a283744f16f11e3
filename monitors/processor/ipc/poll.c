/* SPDX-License-Identifier: MIT */
/*
 * poll, ppoll, pselect6.
 *
 * A kind of file without poll() is always ready.  To wait, the thread stands on the wait queues of all files at
 * once: first it is on all of them, then it looks at every file, then it sleeps until one of them is woken.
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

struct pollfd_user {
	int32_t fd;
	uint16_t events;
	uint16_t revents;
};

static unsigned int ready(struct file *f)
{
	return f->ops->poll ? f->ops->poll(f) : POLL_IN | POLL_OUT;
}

/* One file to wait for. */
struct poll_entry {
	struct file *file;    /* counted; NULL: none, or not open */
	struct waitqueue *wq; /* NULL: its state does not change */
	struct waiter waiter;
};

/* The files behind all descriptors, so that they stay while we are on their queues. */
static void entries_get(struct poll_entry *e, const struct pollfd_user *fds, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		struct file *f = fds[i].fd >= 0 ? fd_get(fds[i].fd) : NULL;

		e[i].file = IS_ERR(f) ? NULL : f;
		e[i].wq = e[i].file && f->ops->poll_wait ? f->ops->poll_wait(f) : NULL;
		if (e[i].wq)
			wait_begin(e[i].wq, &e[i].waiter);
	}
}

static void entries_put(struct poll_entry *e, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		if (e[i].file)
			file_put(e[i].file);
	}
}

/* Look at all; returns how many have events. Does not sleep. */
static int look(const struct poll_entry *e, struct pollfd_user *fds, size_t nr)
{
	int hits = 0;

	for (size_t i = 0; i < nr; i++) {
		fds[i].revents = 0;
		if (fds[i].fd < 0)
			continue;
		if (!e[i].file)
			fds[i].revents = POLL_NVAL;
		else
			fds[i].revents = (uint16_t)(ready(e[i].file) &
						    (fds[i].events | POLL_ERR | POLL_HUP));
		hits += fds[i].revents != 0;
	}
	return hits;
}

/* Hits, 0 when the deadline came, -EINTR. */
static int wait_for_any(struct poll_entry *e, struct pollfd_user *fds, size_t nr, uint64_t deadline)
{
	struct waitqueue none; /* so that there is one to sleep on */
	struct waiter w;
	int hits, err = 0;

	waitqueue_init(&none);
	wait_begin(&none, &w);
	for (;;) {
		wait_prepare(&none, &w, WAIT_INTERRUPTIBLE);
		for (size_t i = 0; i < nr; i++) {
			if (e[i].wq)
				wait_prepare(e[i].wq, &e[i].waiter, WAIT_INTERRUPTIBLE);
		}
		hits = look(e, fds, nr);
		if (hits || err)
			break;
		err = wait_sleep(&w, WAIT_INTERRUPTIBLE, deadline);
	}
	for (size_t i = 0; i < nr; i++) {
		if (e[i].wq)
			wait_finish(e[i].wq, &e[i].waiter, 0);
	}
	wait_finish(&none, &w, 0);
	return hits ? hits : err == -ETIMEDOUT ? 0 : err;
}

static long do_poll(struct pollfd_user *fds, size_t nr, uint64_t deadline)
{
	struct poll_entry *e = kcalloc(MAX(nr, (size_t)1), sizeof(*e));
	long ret;

	if (!e)
		return -ENOMEM;
	entries_get(e, fds, nr);
	ret = look(e, fds, nr);
	if (!ret)
		ret = wait_for_any(e, fds, nr, deadline);
	entries_put(e, nr);
	kfree(e);
	return ret;
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

/* A signal mask for the wait only, as ppoll and pselect pass it. 0: none, or it holds now. */
static int mask_begin(uint64_t umask, uint64_t size)
{
	uint64_t mask;

	if (!umask)
		return 0;
	if (size != 8)
		return -EINVAL;
	if (get_user_u64(&mask, (const void __user *)umask))
		return -EFAULT;
	signal_mask_begin(mask);
	return 0;
}

/* Linux's calls say how much of the time was left; who passes read-only memory does not hear it. */
static void put_left(uint64_t uts, uint64_t deadline)
{
	const uint64_t now = time_now_ns();
	const uint64_t left = deadline > now ? deadline - now : 0;
	const uint64_t ts[2] = { left / 1000000000u, left % 1000000000u };

	if (uts && deadline != WAIT_FOREVER && copy_to_user((void __user *)uts, ts, sizeof(ts)))
		return; /* as above */
}

/* ppoll(fds, nr, timeout, sigmask, sigsetsize) */
long sys_ppoll(const struct syscall_args *args)
{
	uint64_t deadline;
	long ret = deadline_of(args->a[2], &deadline);

	if (!ret)
		ret = mask_begin(args->a[3], args->a[4]);
	if (ret)
		return ret;
	ret = poll_user(args->a[0], (uint32_t)args->a[1], deadline);
	if (args->a[3])
		ret = signal_mask_end(ret);
	put_left(args->a[2], deadline);
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
	uint64_t deadline, sig[2] = { 0, 0 };
	const int nr = (int)args->a[0];
	long ret = deadline_of(args->a[4], &deadline);

	if (ret)
		return ret;
	if (nr < 0)
		return -EINVAL;
	if (args->a[5] && copy_from_user(sig, (const void __user *)args->a[5], sizeof(sig)))
		return -EFAULT;
	ret = mask_begin(sig[0], sig[1]);
	if (ret)
		return ret;
	/* As on Linux, bits of descriptors that cannot be open are not looked at. */
	ret = do_select(usets, (size_t)MIN((uint64_t)nr, process_rlimit(RLIM_NOFILE)), deadline);
	if (sig[0])
		ret = signal_mask_end(ret);
	put_left(args->a[4], deadline);
	return ret;
}
