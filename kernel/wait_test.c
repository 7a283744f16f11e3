/* SPDX-License-Identifier: MIT */
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/ktest.h>

#define MS NSEC_PER_MSEC

struct pingpong {
	struct waitqueue wq;
	unsigned int turn;
	unsigned int rounds;
};

static void ponger(void *arg)
{
	struct pingpong *p = arg;

	for (unsigned int i = 0; i < p->rounds; i++) {
		wait_event(&p->wq, READ_ONCE(p->turn) == 1);
		WRITE_ONCE(p->turn, 0);
		wake_all(&p->wq);
	}
}

static void wake_ups_are_not_lost(struct ktest *t)
{
	struct pingpong p = { .rounds = 500 };
	struct thread *th;

	waitqueue_init(&p.wq);
	th = thread_create("pong", ponger, &p);
	ASSERT_FALSE(t, IS_ERR(th));
	for (unsigned int i = 0; i < p.rounds; i++) {
		WRITE_ONCE(p.turn, 1);
		wake_all(&p.wq);
		wait_event(&p.wq, READ_ONCE(p.turn) == 0);
	}
	thread_join(th);
	EXPECT_FALSE(t, waitqueue_active(&p.wq));
}

static void timeouts(struct ktest *t)
{
	struct waitqueue wq;
	uint64_t start = time_now_ns();

	waitqueue_init(&wq);
	EXPECT_FALSE(t, wait_event_timeout(&wq, false, start + 3 * MS));
	EXPECT_GE(t, time_now_ns() - start, 3 * MS);
	EXPECT_LT(t, time_now_ns() - start, 1000 * MS);
	/* A condition that holds wins over a deadline that has passed. */
	EXPECT_TRUE(t, wait_event_timeout(&wq, true, 0));
	EXPECT_FALSE(t, wait_event_timeout(&wq, false, 0));
	start = time_now_ns();
	thread_sleep_ns(2 * MS);
	EXPECT_GE(t, time_now_ns() - start, 2 * MS);
	EXPECT_FALSE(t, waitqueue_active(&wq));
}

/* A deadline that is computed in the call must not move with each wake-up. */
static unsigned int nr_computed;

static uint64_t computed_deadline(void)
{
	nr_computed++;
	return time_now_ns() + 2 * MS;
}

static void deadline_is_evaluated_once(struct ktest *t)
{
	struct waitqueue wq;

	waitqueue_init(&wq);
	nr_computed = 0;
	EXPECT_FALSE(t, wait_event_timeout(&wq, false, computed_deadline()));
	EXPECT_EQ(t, nr_computed, 1);
}

struct sleeper {
	struct waitqueue wq;
	unsigned int mode;
	int result;
	bool cond;
	uint32_t running;
};

static void sleep_main(void *arg)
{
	struct sleeper *s = arg;

	WRITE_ONCE(s->running, 1);
	s->result = wait_event_mode(&s->wq, READ_ONCE(s->cond), s->mode, WAIT_FOREVER);
}

static int notified_wait(struct ktest *t, unsigned int mode, uint32_t flags, bool cond)
{
	struct sleeper s = { .mode = mode, .result = 99 };
	struct thread *th;

	waitqueue_init(&s.wq);
	th = thread_create("sleeper", sleep_main, &s);
	while (!READ_ONCE(s.running))
		thread_yield();
	thread_notify(th, flags);
	thread_sleep_ns(MS);
	if (cond) {
		EXPECT_EQ(t, s.result, 99); /* still waiting */
		WRITE_ONCE(s.cond, true);
		wake_all(&s.wq);
	}
	thread_join(th);
	return s.result;
}

static void kill_and_signal_end_waits(struct ktest *t)
{
	EXPECT_EQ(t, notified_wait(t, WAIT_INTERRUPTIBLE, THREAD_F_SIGNAL, false), -EINTR);
	EXPECT_EQ(t, notified_wait(t, WAIT_INTERRUPTIBLE, THREAD_F_KILL, false), -EINTR);
	EXPECT_EQ(t, notified_wait(t, WAIT_KILLABLE, THREAD_F_KILL, false), -EINTR);
	EXPECT_EQ(t, notified_wait(t, WAIT_KILLABLE, THREAD_F_SIGNAL, true), 0);
	EXPECT_EQ(t, notified_wait(t, WAIT_PLAIN, THREAD_F_KILL, true), 0);
}

/* Until @nr threads wait; a test whose threads never come ends by its time limit. */
static void wait_for_waiters(struct waitqueue *wq, size_t nr)
{
	size_t now;

	do {
		thread_yield();
		spin_lock(&wq->lock);
		now = list_length(&wq->waiters);
		spin_unlock(&wq->lock);
	} while (now != nr);
}

static void wake_one_wakes_one(struct ktest *t)
{
	struct sleeper s = { .result = 99 };
	struct thread *th[3];

	waitqueue_init(&s.wq);
	for (unsigned int i = 0; i < 3; i++)
		th[i] = thread_create("sleeper", sleep_main, &s);
	wait_for_waiters(&s.wq, 3);
	WRITE_ONCE(s.cond, true);
	wake_one(&s.wq);
	wait_for_waiters(&s.wq, 2);
	thread_sleep_ns(MS);
	wait_for_waiters(&s.wq, 2); /* and stays so */
	wake_all(&s.wq);
	for (unsigned int i = 0; i < 3; i++)
		thread_join(th[i]);
	EXPECT_EQ(t, s.result, 0);
}

struct watch {
	struct watcher w;
	unsigned int told;
	bool useless;
};

static bool count_watch(struct watcher *w)
{
	struct watch *watch = container_of(w, struct watch, w);

	watch->told++;
	return !watch->useless;
}

static void watchers_are_told_and_take_nothing(struct ktest *t)
{
	struct sleeper s = { 0 };
	struct watch plain = { .w.notify = count_watch }, first = plain, second = plain;
	struct thread *th;

	waitqueue_init(&s.wq);
	EXPECT_FALSE(t, waitqueue_active(&s.wq));
	first.w.exclusive = second.w.exclusive = true;
	first.useless = true;
	watch_begin(&s.wq, &plain.w);
	watch_begin(&s.wq, &first.w);
	watch_begin(&s.wq, &second.w);
	EXPECT_TRUE(t, waitqueue_active(&s.wq));
	EXPECT_TRUE(t, waitqueue_watched(&s.wq));
	th = thread_create("sleeper", sleep_main, &s);
	thread_sleep_ns(MS);
	WRITE_ONCE(s.cond, true);
	wake_one(&s.wq);
	thread_join(th);
	EXPECT_EQ(t, plain.told, 1);
	EXPECT_EQ(t, first.told, 1);
	EXPECT_EQ(t, second.told, 1); /* the first could not make use of it */
	first.useless = false;
	wake_all(&s.wq);
	EXPECT_EQ(t, first.told, 2);
	EXPECT_EQ(t, second.told, 1);
	watch_end(&s.wq, &first.w);
	watch_end(&s.wq, &plain.w);
	wake_one(&s.wq);
	EXPECT_EQ(t, plain.told, 2);
	EXPECT_EQ(t, second.told, 2);
	watch_end(&s.wq, &second.w);
	EXPECT_FALSE(t, waitqueue_watched(&s.wq));
}

static void complete_from_timer(void *arg)
{
	complete(arg);
}

static void completions(struct ktest *t)
{
	struct completion c;
	struct timer timer;

	completion_init(&c);
	EXPECT_FALSE(t, completion_wait_until(&c, time_now_ns() + MS));
	complete(&c);
	complete(&c);
	EXPECT_TRUE(t, completion_done(&c));
	completion_wait(&c);
	EXPECT_TRUE(t, completion_wait_until(&c, 0));
	EXPECT_FALSE(t, completion_wait_until(&c, 0));
	complete_all(&c);
	completion_wait(&c);
	completion_wait(&c);
	/* From interrupt context, many times. */
	completion_init(&c);
	timer_init(&timer, complete_from_timer, &c);
	for (unsigned int i = 0; i < 50; i++) {
		timer_set(&timer, time_now_ns() + 20 * NSEC_PER_USEC);
		completion_wait(&c);
	}
	(void)timer_cancel(&timer);
	EXPECT_FALSE(t, completion_done(&c));
}

static const struct ktest_case wait_cases[] = {
	KTEST(wake_ups_are_not_lost),
	KTEST(timeouts),
	KTEST(deadline_is_evaluated_once),
	KTEST(kill_and_signal_end_waits),
	KTEST(wake_one_wakes_one),
	KTEST(watchers_are_told_and_take_nothing),
	KTEST(completions),
	{ 0 },
};
static const struct ktest_suite wait_suite = { .name = "kernel.wait", .cases = wait_cases };
KTEST_SUITE(wait_suite);
