/* SPDX-License-Identifier: MIT */
/*
 * poll, ppoll, select, pselect6.
 *
 * Flow:	look at every file; if none has what is wanted, watch them all, look again, and
 *		sleep until one of them says that something has changed. A kind of file without
 *		poll() is always ready.
 * Failure:	a wait that a signal ended: poll goes on for the rest of its timeout; the others
 *		begin again with the timeout that they have written back, unless a handler ran.
 * Limits:	each wake-up that matters costs a look at every file.
 */
#include "poll.h"

#include <abi/poll.h>
#include <abi/prctl.h>
#include <arch/uaccess.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/rpc.h>
#include <processor/process/process.h>
#include <processor/process/timespec.h>
#include <processor/syscall/syscall.h>

/* --- watching files ------------------------------------------------------------------ */

void file_watch_begin(struct file_watch *fw, struct file *f, unsigned int events, bool exclusive,
		      bool (*notify_in)(struct watcher *w), bool (*notify_out)(struct watcher *w))
{
	struct waitqueue *in = f->ops->poll_wait ? f->ops->poll_wait(f) : NULL;
	struct waitqueue *out = f->ops->poll_wait_out ? f->ops->poll_wait_out(f) : NULL;
	const bool want_out = events & POLL_EVENTS_OUT;

	if (out == in || (!want_out && (events & POLL_EVENTS_IN)))
		out = NULL;
	if (out && want_out && !(events & POLL_EVENTS_IN))
		in = NULL;
	fw->in_wq = in;
	fw->out_wq = out;
	fw->in = (struct watcher){ .notify = notify_in, .exclusive = exclusive };
	fw->out = (struct watcher){ .notify = notify_out, .exclusive = exclusive };
	if (in)
		watch_begin(in, &fw->in);
	if (out)
		watch_begin(out, &fw->out);
}

void file_watch_end(struct file_watch *fw)
{
	if (fw->in_wq)
		watch_end(fw->in_wq, &fw->in);
	if (fw->out_wq)
		watch_end(fw->out_wq, &fw->out);
}

/* --- waiting for any of several ------------------------------------------------------ */

struct sleeper {               /* who is told */
	struct thread *thread; /* const */
	bool told;             /* atomic */
	bool far;              /* a message of another node may be what it waits for */
	uint64_t deadline;     /* const */
};

struct poll_entry {
	struct file_watch watch;
	struct file *file; /* counted */
	struct sleeper *sleeper;
};

#define CHUNK_ENTRIES 32u

struct poll_chunk {
	struct poll_chunk *next;
	size_t nr;
	struct poll_entry entries[CHUNK_ENTRIES];
};

static bool tell(struct sleeper *s)
{
	__atomic_store_n(&s->told, true, __ATOMIC_RELEASE);
	(void)thread_wake(s->thread);
	return true;
}

static bool notify_in(struct watcher *w)
{
	return tell(container_of(w, struct poll_entry, watch.in)->sleeper);
}

static bool notify_out(struct watcher *w)
{
	return tell(container_of(w, struct poll_entry, watch.out)->sleeper);
}

/*
 * Look at all; returns how many have something to say. @always: events that are told
 * unasked.
 */
static int look(struct linux_pollfd *fds, size_t nr, unsigned int always)
{
	int hits = 0;

	for (size_t i = 0; i < nr; i++) {
		struct file *f;

		fds[i].revents = 0;
		if (fds[i].fd < 0)
			continue;
		f = fd_get(fds[i].fd);
		if (IS_ERR(f)) {
			fds[i].revents = POLLNVAL;
		} else {
			fds[i].revents = (uint16_t)(file_poll(f) & (fds[i].events | always));
			file_put(f);
		}
		hits += fds[i].revents != 0;
	}
	return hits;
}

static void unwatch(struct poll_chunk *c)
{
	while (c) {
		struct poll_chunk *next = c->next;

		for (size_t i = 0; i < c->nr; i++)
			file_watch_end(&c->entries[i].watch);
		for (size_t i = 0; i < c->nr; i++)
			file_put(c->entries[i].file);
		kfree(c);
		c = next;
	}
}

/*
 * Be told of every file that can say something some day. The caller unwatches what is there after
 * -ENOMEM too.
 */
static int watch(struct poll_chunk **chunks, struct sleeper *s, const struct linux_pollfd *fds,
		 size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		struct file *f = fds[i].fd >= 0 ? fd_get(fds[i].fd) : ERR_PTR(-EBADF);
		struct poll_chunk *c = *chunks;
		struct poll_entry *e;

		if (IS_ERR(f))
			continue;
		if (!f->ops->poll_wait) {
			file_put(f);
			continue;
		}
		if (!c || c->nr == CHUNK_ENTRIES) {
			c = kmalloc(sizeof(*c));
			if (!c) {
				file_put(f);
				return -ENOMEM;
			}
			c->nr = 0;
			c->next = *chunks;
			*chunks = c;
		}
		e = &c->entries[c->nr++];
		e->file = f;
		e->sleeper = s;
		s->far = s->far || (f->ops->is_far && f->ops->is_far(f));
		file_watch_begin(&e->watch, f, fds[i].events, false, notify_in, notify_out);
	}
	return 0;
}

static bool need_not_sleep(void *arg)
{
	const struct sleeper *s = arg;

	return __atomic_load_n(&s->told, __ATOMIC_ACQUIRE) ||
	       (s->deadline != WAIT_FOREVER && time_now_ns() >= s->deadline);
}

/*
 * Until somebody tells, or a signal or the deadline comes. Messages of other nodes are looked for
 * first: an interrupt and a wake-up would be most of the wait.
 */
static int sleep(struct sleeper *s)
{
	struct rpc_spin *spin = &task_current()->far_wait;
	const uint64_t start = s->far ? time_now_ns() : 0;
	struct waiter w = { .thread = s->thread };
	int err = 0;

	if (s->far)
		(void)rpc_poll_until(spin, need_not_sleep, s);
	thread_prepare_sleep();
	if (!__atomic_load_n(&s->told, __ATOMIC_ACQUIRE))
		err = wait_sleep(&w, WAIT_INTERRUPTIBLE, s->deadline);
	thread_cancel_sleep();
	/* A wait that nothing has ended was long, too: polling for such does not pay. */
	if (s->far && (!err || err == -ETIMEDOUT))
		rpc_spin_waited(spin, time_now_ns() - start);
	return err;
}

/* Hits, 0 when the deadline came, -EINTR, -ENOMEM. */
static int do_poll(struct linux_pollfd *fds, size_t nr, unsigned int always, uint64_t deadline)
{
	struct sleeper s = { .thread = thread_current(), .deadline = deadline };
	struct poll_chunk *chunks = NULL;
	int hits = look(fds, nr, always), err;

	if (hits || deadline == 0)
		return hits;
	err = watch(&chunks, &s, fds, nr);
	while (err != -ENOMEM) {
		__atomic_store_n(&s.told, false, __ATOMIC_SEQ_CST);
		hits = look(fds, nr, always);
		if (hits || err)
			break;
		err = sleep(&s);
	}
	unwatch(chunks);
	return hits ? hits : err == -ETIMEDOUT ? 0 : err;
}

/* --- poll ---------------------------------------------------------------------------- */

static long poll_user(uint64_t ufds, uint64_t nr, uint64_t deadline)
{
	const size_t bytes = nr * sizeof(struct linux_pollfd);
	struct linux_pollfd few[8], *fds = few;
	long ret;

	if (nr > process_rlimit(RLIMIT_NOFILE))
		return -EINVAL;
	if (nr > ARRAY_SIZE(few))
		fds = kmalloc(bytes);
	if (!fds)
		return -ENOMEM;
	ret = copy_from_user(fds, (const void __user *)ufds, bytes);
	if (!ret)
		ret = do_poll(fds, nr, POLLERR | POLLHUP, deadline);
	if (ret >= 0 && copy_to_user((void __user *)ufds, fds, bytes))
		ret = -EFAULT;
	if (fds != few)
		kfree(fds);
	return ret;
}

enum poll_arg { /* of a poll that goes on after a signal */
	POLL_FDS,
	POLL_NR,
	POLL_DEADLINE,
};

static long poll_again(const uint64_t args[RESTART_ARGS])
{
	const long ret = poll_user(args[POLL_FDS], args[POLL_NR], args[POLL_DEADLINE]);

	return ret == -EINTR ? signal_restart_later(poll_again, args) : ret;
}

/* 0: look once. */
static uint64_t deadline_after(uint64_t ns)
{
	return ns ? time_after_ns(ns) : 0;
}

/* poll(fds, nr, timeout_ms) */
long sys_poll(const struct syscall_args *args)
{
	const int ms = (int)args->a[2];
	const uint64_t again[RESTART_ARGS] = {
		[POLL_FDS] = args->a[0],
		[POLL_NR] = (uint32_t)args->a[1],
		[POLL_DEADLINE] = ms < 0 ? WAIT_FOREVER : deadline_after((uint64_t)ms * 1000000u),
	};

	return poll_again(again);
}

/* --- timeouts and masks -------------------------------------------------------------- */

/* A relative timeout as a deadline, which is 0 for "look once". */
static int get_deadline(uint64_t uts, uint64_t *deadline)
{
	uint64_t ns;
	int err;

	*deadline = WAIT_FOREVER;
	if (!uts)
		return 0;
	err = user_timespec_get(uts, &ns);
	if (!err)
		*deadline = deadline_after(ns);
	return err;
}

/*
 * Write the rest of the timeout back, so that the call may begin again with it. If the memory
 * cannot be written, the call does not begin again, as on Linux.
 */
static long finish(long ret, uint64_t utime, uint64_t deadline, bool timeval)
{
	int err = 0;

	if (READ_ONCE(process_current()->personality) & STICKY_TIMEOUTS) {
		if (ret == -EINTR)
			return -EINTR; /* it cannot begin again with the whole timeout */
	} else if (utime && deadline != WAIT_FOREVER) {
		err = timeval ? user_timeval_put(utime, time_left_ns(deadline))
			      : user_timespec_put(utime, time_left_ns(deadline));
	}
	if (ret != -EINTR)
		return ret;
	return err ? -EINTR : -ERESTARTNOHAND;
}

/* ppoll(fds, nr, timeout, sigmask, sigsetsize) */
long sys_ppoll(const struct syscall_args *args)
{
	uint64_t deadline;
	long ret = get_deadline(args->a[2], &deadline);

	if (!ret)
		ret = signal_mask_begin_user(args->a[3], args->a[4]);
	if (ret)
		return ret;
	ret = poll_user(args->a[0], (uint32_t)args->a[1], deadline);
	ret = finish(ret, args->a[2], deadline, false);
	return args->a[3] ? signal_mask_end(ret) : ret;
}

/* --- select -------------------------------------------------------------------------- */

#define SET_WORDS(nr) (((nr) + 63) / 64)

static const uint16_t select_events[3] = {
	POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR,
	POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR,
	POLLPRI,
};

static int get_set(uint64_t uset, uint64_t *words, size_t nr)
{
	const size_t nr_words = SET_WORDS(nr);

	memset(words, 0, nr_words * 8);
	if (uset && copy_from_user(words, (const void __user *)uset, nr_words * 8))
		return -EFAULT;
	if (nr % 64)
		words[nr_words - 1] &= (1ull << (nr % 64)) - 1;
	return 0;
}

/* Bits of all three sets. */
static size_t count_fds(uint64_t *const sets[3], size_t nr)
{
	size_t n = 0;

	for (size_t w = 0; w < SET_WORDS(nr); w++)
		n += (size_t)__builtin_popcountll(sets[0][w] | sets[1][w] | sets[2][w]);
	return n;
}

/* Translate three sets into poll entries; returns how many. */
static size_t sets_to_fds(struct linux_pollfd *fds, uint64_t *const sets[3], size_t nr)
{
	size_t n = 0;

	for (size_t fd = 0; fd < nr; fd++) {
		const uint64_t bit = 1ull << (fd % 64);
		uint16_t want = 0;

		for (size_t s = 0; s < 3; s++)
			want |= (sets[s][fd / 64] & bit) ? select_events[s] : 0;
		if (want)
			fds[n++] = (struct linux_pollfd){ .fd = (int)fd, .events = want };
	}
	return n;
}

/* The answer as sets; returns the number of bits, or -EBADF. */
static long fds_to_sets(const struct linux_pollfd *fds, size_t n, uint64_t *const sets[3])
{
	long bits = 0;

	for (size_t i = 0; i < n; i++) {
		const size_t word = (size_t)fds[i].fd / 64;
		const uint64_t bit = 1ull << (fds[i].fd % 64);

		if (fds[i].revents & POLLNVAL)
			return -EBADF;
		for (size_t s = 0; s < 3; s++) {
			if (!(fds[i].revents & select_events[s]))
				sets[s][word] &= ~bit;
			bits += !!(sets[s][word] & bit);
		}
	}
	return bits;
}

static long do_select(const uint64_t usets[3], size_t nr, uint64_t deadline)
{
	const size_t words = MAX(SET_WORDS(nr), (size_t)1);
	uint64_t *mem = kcalloc(3, words * 8);
	uint64_t *const sets[3] = { mem, mem + words, mem + 2 * words };
	struct linux_pollfd *fds = NULL;
	long ret = mem ? 0 : -ENOMEM;
	size_t n = 0;

	for (size_t s = 0; !ret && s < 3; s++)
		ret = get_set(usets[s], sets[s], nr);
	if (!ret) {
		fds = kmalloc(MAX(count_fds(sets, nr), (size_t)1) * sizeof(*fds));
		ret = fds ? 0 : -ENOMEM;
	}
	if (!ret) {
		n = sets_to_fds(fds, sets, nr);
		ret = do_poll(fds, n, 0, deadline);
	}
	if (ret >= 0)
		ret = fds_to_sets(fds, n, sets);
	for (size_t s = 0; ret >= 0 && s < 3; s++) {
		if (usets[s] && copy_to_user((void __user *)usets[s], sets[s], SET_WORDS(nr) * 8))
			ret = -EFAULT;
	}
	kfree(fds);
	kfree(mem);
	return ret;
}

static long select_sets(const uint64_t usets[3], int nr, uint64_t deadline)
{
	if (nr < 0)
		return -EINVAL;
	/* As on Linux, bits of descriptors that cannot be open are not looked at. */
	return do_select(usets, (size_t)MIN((uint64_t)nr, process_rlimit(RLIMIT_NOFILE)), deadline);
}

/* A struct timeval; as Linux, microseconds may be a million and more here. */
static int get_select_deadline(uint64_t utv, uint64_t *deadline)
{
	uint64_t tv[2], ns;

	*deadline = WAIT_FOREVER;
	if (!utv)
		return 0;
	if (copy_from_user(tv, (const void __user *)utv, sizeof(tv)))
		return -EFAULT;
	if ((int64_t)tv[0] < 0 || (int64_t)tv[1] < 0)
		return -EINVAL;
	if (tv[0] + tv[1] / 1000000u >= TIMESPEC_MAX_NS / 1000000000u)
		ns = TIMESPEC_MAX_NS;
	else
		ns = tv[0] * 1000000000u + tv[1] * 1000u;
	*deadline = deadline_after(ns);
	return 0;
}

/* select(nr, readfds, writefds, exceptfds, timeout) */
long sys_select(const struct syscall_args *args)
{
	const uint64_t usets[3] = { args->a[1], args->a[2], args->a[3] };
	uint64_t deadline;
	const int err = get_select_deadline(args->a[4], &deadline);

	if (err)
		return err;
	return finish(select_sets(usets, (int)args->a[0], deadline), args->a[4], deadline, true);
}

/* pselect6(nr, readfds, writefds, exceptfds, timeout, {sigmask, size}) */
long sys_pselect6(const struct syscall_args *args)
{
	const uint64_t usets[3] = { args->a[1], args->a[2], args->a[3] };
	uint64_t deadline, sig[2] = { 0, 0 };
	long ret;

	if (args->a[5] && copy_from_user(sig, (const void __user *)args->a[5], sizeof(sig)))
		return -EFAULT;
	ret = get_deadline(args->a[4], &deadline);
	if (!ret)
		ret = signal_mask_begin_user(sig[0], sig[1]);
	if (ret)
		return ret;
	ret = select_sets(usets, (int)args->a[0], deadline);
	ret = finish(ret, args->a[4], deadline, false);
	return sig[0] ? signal_mask_end(ret) : ret;
}
