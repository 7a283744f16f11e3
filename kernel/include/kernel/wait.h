/* SPDX-License-Identifier: MIT */
/*
 * Wait queues and completions.
 *
 * Flow:	the waker changes the state that the condition reads, then calls
 *		wake_one() or wake_all(); the waiter evaluates the condition again
 *		each time it is woken.  The condition may be evaluated several times
 *		and must not sleep.
 * Ordering:	a waker's stores before wake_*() are visible to a condition
 *		evaluated after the wake-up (both sides take the queue's lock).
 * Context:	waiting: threads, no spinlock held.  Waking: anywhere, interrupt
 *		handlers included.
 */
#pragma once

#include <kernel/spinlock.h>
#include <lib/compiler.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <lib/types.h>

struct thread;

#define WAIT_FOREVER UINT64_MAX

/* The events besides the condition that may end a wait. */
#define WAIT_PLAIN         0x0u
#define WAIT_KILLABLE      0x2u /* THREAD_F_KILL */
#define WAIT_INTERRUPTIBLE 0x3u /* THREAD_F_KILL or THREAD_F_SIGNAL */

struct waitqueue {
	struct spinlock lock; /* RANK_WAITQUEUE */
	struct list_head waiters __guarded_by(&lock);
	struct list_head watchers __guarded_by(&lock);
};

#define WAITQUEUE_INIT(var)                                         \
	{                                                           \
		.lock = SPINLOCK_INIT("waitqueue", RANK_WAITQUEUE), \
		.waiters = { &(var).waiters, &(var).waiters },      \
		.watchers = { &(var).watchers, &(var).watchers }    \
	}

struct waiter { /* on the waiting thread's stack */
	struct list_head link;
	struct thread *thread;
	bool woken;
};

/*
 * For poll and its kin: told of every wake-up, and takes none away from the waiters. It stays on
 * the queue until watch_end().
 */
struct watcher {
	struct list_head link;
	/*
	 * Called by wake_one() and wake_all() with the queue's lock held, perhaps in an interrupt
	 * handler: may wake threads and take locks of higher rank. False: it had no use for it.
	 */
	bool (*notify)(struct watcher *w);
	bool exclusive; /* a wake-up goes only to the first of these that has a use for it */
};

/*
 * No change is missed: a waker that does not see @w has made its change before this returns, so the
 * caller's next look at the state sees it.
 */
void watch_begin(struct waitqueue *wq, struct watcher *w);
/* On return notify() is neither running nor called again. */
void watch_end(struct waitqueue *wq, struct watcher *w);
/* Is there a watcher? A hint without the lock, as waitqueue_active(). */
bool waitqueue_watched(struct waitqueue *wq);

void waitqueue_init(struct waitqueue *wq);
void wake_one(struct waitqueue *wq);
void wake_all(struct waitqueue *wq);
/* A hint without the lock: the caller has changed the state before, see waitqueue_busy_mb(). */
bool waitqueue_active(struct waitqueue *wq);

/*
 * Is there a thread or watcher to wake? For a waker that has put a full barrier between its change
 * of the state and this look, perhaps one for several queues. Then no wake-up is lost without the
 * lock: a waiter puts itself on the queue, then comes a full barrier (wait_prepare(),
 * watch_begin()), then it looks at the state. Of two such pairs at least one look comes after the
 * other side's store: either the waker sees the waiter, or the waiter sees the new state and does
 * not sleep.
 */
static inline bool waitqueue_busy_mb(const struct waitqueue *wq)
{
	return __atomic_load_n(&wq->waiters.next, __ATOMIC_RELAXED) != &wq->waiters ||
	       __atomic_load_n(&wq->watchers.next, __ATOMIC_RELAXED) != &wq->watchers;
}

/* The parts of the wait_event macros. */
void wait_begin(struct waitqueue *wq, struct waiter *w);
void wait_prepare(struct waitqueue *wq, struct waiter *w, unsigned int mode);
/* Sleep; 0 after a wake-up, -EINTR by flags of @mode, -ETIMEDOUT at @deadline_ns. */
int wait_sleep(struct waiter *w, unsigned int mode, uint64_t deadline_ns);
/* A wake-up that this waiter got but did not use (@err) goes to the next one. */
void wait_finish(struct waitqueue *wq, struct waiter *w, int err);

/*
 * 0, -EINTR or -ETIMEDOUT; a condition that is true wins over both. The deadline is evaluated
 * once, the condition each time round.
 */
#define wait_event_mode(wq, cond, mode, deadline_ns)                         \
	({                                                                   \
		const uint64_t _wdeadline = (deadline_ns);                   \
		struct waiter _w;                                            \
		int _werr = 0;                                               \
                                                                             \
		if (!(cond)) {                                               \
			wait_begin((wq), &_w);                               \
			for (;;) {                                           \
				wait_prepare((wq), &_w, (mode));             \
				if (cond) {                                  \
					_werr = 0;                           \
					break;                               \
				}                                            \
				if (_werr)                                   \
					break;                               \
				_werr = wait_sleep(&_w, (mode), _wdeadline); \
			}                                                    \
			wait_finish((wq), &_w, _werr);                       \
		}                                                            \
		_werr;                                                       \
	})

#define wait_event(wq, cond) ((void)wait_event_mode(wq, cond, WAIT_PLAIN, WAIT_FOREVER))
/* @deadline_ns is absolute monotonic time; false when it came first. */
#define wait_event_timeout(wq, cond, deadline_ns) \
	(wait_event_mode(wq, cond, WAIT_PLAIN, deadline_ns) == 0)
/* 0, or -EINTR when the thread was told to die. */
#define wait_event_killable(wq, cond) wait_event_mode(wq, cond, WAIT_KILLABLE, WAIT_FOREVER)
#define wait_event_killable_timeout(wq, cond, deadline_ns) \
	wait_event_mode(wq, cond, WAIT_KILLABLE, deadline_ns)
/* 0, or -EINTR when a signal or a kill came. */
#define wait_event_interruptible(wq, cond) \
	wait_event_mode(wq, cond, WAIT_INTERRUPTIBLE, WAIT_FOREVER)
#define wait_event_interruptible_timeout(wq, cond, deadline_ns) \
	wait_event_mode(wq, cond, WAIT_INTERRUPTIBLE, deadline_ns)

struct completion {
	struct waitqueue wq;
	uint32_t done; /* atomic: number of complete() not yet waited for; UINT32_MAX: all */
};

#define COMPLETION_INIT(var) { .wq = WAITQUEUE_INIT((var).wq), .done = 0 }

void completion_init(struct completion *c);
/* Let one waiter through, now or later. */
void complete(struct completion *c);
/* Let everyone through until completion_init(). */
void complete_all(struct completion *c);
void completion_wait(struct completion *c);
bool completion_wait_until(struct completion *c, uint64_t deadline_ns) __must_check;
int completion_wait_killable(struct completion *c) __must_check;
bool completion_done(const struct completion *c);
