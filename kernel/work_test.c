/* SPDX-License-Identifier: MIT */
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/wait.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <mm/slab.h>

#define MS NSEC_PER_MSEC

/* Items may run on several CPUs at once. */
static struct spinlock counts = SPINLOCK_INIT("work-test", RANK_SPIN_MONITOR);
static unsigned int ran;
static unsigned int inside;
static unsigned int max_inside;
static unsigned int last_seen;
static unsigned int out_of_order;

struct item {
	struct work work;
	unsigned int nr;
};

static void run_item(struct work *w)
{
	const struct item *i = container_of(w, struct item, work);

	spin_lock(&counts);
	inside++;
	max_inside = MAX(max_inside, inside);
	out_of_order += i->nr < last_seen;
	last_seen = i->nr;
	spin_unlock(&counts);
	thread_sleep_ns(MS);
	spin_lock(&counts);
	inside--;
	ran++;
	spin_unlock(&counts);
}

static void run_all(struct ktest *t, unsigned int threads)
{
	static struct item items[12];
	struct workqueue *wq = workqueue_create("test-wq", threads);

	ASSERT_FALSE(t, IS_ERR(wq));
	ran = inside = max_inside = last_seen = out_of_order = 0;
	for (unsigned int i = 0; i < ARRAY_SIZE(items); i++) {
		items[i].nr = i;
		work_init(&items[i].work, run_item);
		EXPECT_TRUE(t, work_queue(wq, &items[i].work));
	}
	EXPECT_FALSE(t, work_queue(wq, &items[11].work));
	work_flush(&items[0].work);
	EXPECT_GE(t, ran, 1);
	EXPECT_TRUE(t, workqueue_flush(wq, WAIT_FOREVER));
	EXPECT_EQ(t, ran, ARRAY_SIZE(items));
	workqueue_destroy(wq);
}

static void one_thread_keeps_order(struct ktest *t)
{
	run_all(t, 1);
	EXPECT_EQ(t, max_inside, 1);
	EXPECT_EQ(t, out_of_order, 0);
}

static void several_threads_run_at_once(struct ktest *t)
{
	run_all(t, 4);
	EXPECT_GT(t, max_inside, 1);
	EXPECT_LE(t, max_inside, 4);
}

static struct completion gate;
static struct completion at_gate; /* a worker has come to the gate */

static void wait_gate(struct work *w)
{
	complete(&at_gate);
	completion_wait(&gate);
}

static void open_gate(struct work *w)
{
	complete(&gate);
}

/* The second item lets the first one go on: needs a worker that is made on demand. */
static void blocked_worker_does_not_stop_the_queue(struct ktest *t)
{
	struct workqueue *wq = workqueue_create("test-wq", 2);
	struct work first;
	struct work second;

	ASSERT_FALSE(t, IS_ERR(wq));
	completion_init(&gate);
	completion_init(&at_gate);
	work_init(&first, wait_gate);
	work_init(&second, open_gate);
	work_queue(wq, &first);
	completion_wait(&at_gate);
	work_queue(wq, &second);
	work_flush(&first);
	workqueue_destroy(wq);
}

static void free_self(struct work *w)
{
	kfree(container_of(w, struct item, work));
	spin_lock(&counts);
	ran++;
	spin_unlock(&counts);
}

static void handler_may_free_its_item(struct ktest *t)
{
	struct workqueue *wq = workqueue_create("test-wq", 2);

	ASSERT_FALSE(t, IS_ERR(wq));
	ran = 0;
	for (unsigned int i = 0; i < 30; i++) {
		struct item *it = kmalloc(sizeof(*it));

		ASSERT_TRUE(t, it != NULL);
		work_init(&it->work, free_self);
		work_queue(wq, &it->work);
	}
	workqueue_destroy(wq);
	EXPECT_EQ(t, ran, 30);
}

struct irq_item {
	struct item item;
	struct workqueue *wq;
	struct timer timer;
};

static void queue_from_timer(void *arg)
{
	struct irq_item *i = arg;

	work_queue(i->wq, &i->item.work);
}

static void queued_from_interrupts(struct ktest *t)
{
	struct irq_item i = { .wq = workqueue_create("test-wq", 2) };

	ASSERT_FALSE(t, IS_ERR(i.wq));
	ran = 0;
	work_init(&i.item.work, run_item);
	timer_init(&i.timer, queue_from_timer, &i);
	for (unsigned int k = 1; k <= 5; k++) {
		timer_set(&i.timer, time_now_ns() + 50 * NSEC_PER_USEC);
		for (unsigned int n = 0; n < 1000 && READ_ONCE(ran) < k; n++)
			thread_sleep_ns(MS);
		EXPECT_EQ(t, ran, k);
	}
	workqueue_destroy(i.wq);
}

static void cancel_before_start(struct ktest *t)
{
	struct workqueue *wq = workqueue_create("test-wq", 1);
	struct work block;
	struct item it = { 0 };

	ASSERT_FALSE(t, IS_ERR(wq));
	ran = 0;
	completion_init(&gate);
	completion_init(&at_gate);
	work_init(&block, wait_gate);
	work_init(&it.work, run_item);
	work_queue(wq, &block);
	work_queue(wq, &it.work);
	completion_wait(&at_gate);
	EXPECT_TRUE(t, work_cancel(&it.work));
	EXPECT_FALSE(t, work_cancel(&it.work));
	EXPECT_FALSE(t, work_cancel(&block)); /* it runs already */
	complete(&gate);
	workqueue_destroy(wq);
	EXPECT_EQ(t, ran, 0);
}

static const struct ktest_case work_cases[] = {
	KTEST(one_thread_keeps_order),
	KTEST(several_threads_run_at_once),
	KTEST(blocked_worker_does_not_stop_the_queue),
	KTEST(handler_may_free_its_item),
	KTEST(queued_from_interrupts),
	KTEST(cancel_before_start),
	{ 0 },
};
static const struct ktest_suite work_suite = { .name = "kernel.work", .cases = work_cases };
KTEST_SUITE(work_suite);
