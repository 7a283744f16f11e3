/* SPDX-License-Identifier: MIT */
/* The kernel shim itself: what other host tests rely on. */
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/rwsem.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/wait.h>
#include <kernel/work.h>
#include <lib/atomic.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <mm/frame.h>
#include <mm/kmap.h>
#include <mm/slab.h>
#include <shim/shim.h>

#define NR_THREADS 4
#define ROUNDS     2000

/* --- threads, locks --- */

static struct spinlock count_lock = SPINLOCK_INIT("count", RANK_SPIN_MONITOR);
static struct mutex count_mutex = MUTEX_INIT(count_mutex, "count", RANK_MONITOR);
static uint64_t count; /* both locks */

static void count_up(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		mutex_lock(&count_mutex);
		spin_lock(&count_lock);
		count++;
		spin_unlock(&count_lock);
		mutex_unlock(&count_mutex);
	}
}

static void threads_and_locks(struct ktest *t)
{
	struct thread *threads[NR_THREADS];

	count = 0;
	for (int i = 0; i < NR_THREADS; i++) {
		threads[i] = thread_create("counter", count_up, NULL);
		ASSERT_FALSE(t, IS_ERR(threads[i]));
	}
	EXPECT_LE(t, thread_count(), NR_THREADS);
	for (int i = 0; i < NR_THREADS; i++)
		thread_join(threads[i]);
	EXPECT_EQ(t, count, NR_THREADS * ROUNDS);
	EXPECT_EQ(t, thread_count(), 0);
}

static void lock_order_is_checked(struct ktest *t)
{
	struct spinlock inner;
	struct mutex m;

	spin_lock_init(&inner, "inner", RANK_LEAF);
	mutex_init(&m, "m", RANK_MONITOR);
	spin_lock(&inner);
	EXPECT_TRUE(t, SHIM_PANICS(spin_lock(&count_lock)));
	EXPECT_TRUE(t, strstr(shim_panic_text, "taken under inner") != NULL);
	EXPECT_TRUE(t, SHIM_PANICS(spin_lock(&inner)));
	preempt_disable(); /* SHIM_PANICS has forgotten that a spinlock is held */
	EXPECT_TRUE(t, SHIM_PANICS(mutex_lock(&m)));
	EXPECT_TRUE(t, strstr(shim_panic_text, "sleeping") != NULL);
	preempt_disable();
	spin_unlock(&inner);
	EXPECT_TRUE(t, SHIM_PANICS(spin_unlock(&inner)));
}

static bool other_saw_it;

static void take_mutex(void *arg)
{
	mutex_lock(arg);
	assert_mutex_held(arg);
	mutex_unlock(arg);
	other_saw_it = SHIM_PANICS(assert_mutex_held(&count_mutex));
}

static void held_locks_are_asserted(struct ktest *t)
{
	struct rwsem s;
	struct mutex m;
	struct thread *other;

	rwsem_init(&s, "s", RANK_MONITOR);
	mutex_init(&m, "m", RANK_MANAGER);
	mutex_lock(&count_mutex);
	rwsem_write_lock(&s);
	spin_lock(&count_lock);
	assert_mutex_held(&count_mutex);
	assert_spin_held(&count_lock);
	assert_rwsem_held_write(&s);
	spin_unlock(&count_lock);
	EXPECT_TRUE(t, SHIM_PANICS(assert_spin_held(&count_lock)));
	rwsem_write_unlock(&s);
	rwsem_read_lock(&s);
	assert_rwsem_held(&s);
	EXPECT_TRUE(t, SHIM_PANICS(assert_rwsem_held_write(&s)));
	EXPECT_TRUE(t, strstr(shim_panic_text, "for writing") != NULL);
	rwsem_read_unlock(&s);
	EXPECT_TRUE(t, SHIM_PANICS(assert_rwsem_held(&s)));
	other = thread_create("other", take_mutex, &m); /* ours is not the other thread's */
	ASSERT_FALSE(t, IS_ERR(other));
	thread_join(other);
	EXPECT_TRUE(t, other_saw_it);
	mutex_unlock(&count_mutex);
	EXPECT_TRUE(t, SHIM_PANICS(assert_mutex_held(&count_mutex)));
}

/* --- waiting --- */

static struct waitqueue wq = WAITQUEUE_INIT(wq);
static atomic_t nr_waiting;
static atomic_t go;

static void wait_for_go(void *arg)
{
	(void)arg;
	atomic_inc(&nr_waiting);
	wait_event(&wq, atomic_read_acquire(&go));
	atomic_dec(&nr_waiting);
}

static void wake_ups_are_not_lost(struct ktest *t)
{
	for (int round = 0; round < 50; round++) {
		struct thread *threads[NR_THREADS];

		atomic_set(&go, 0);
		for (int i = 0; i < NR_THREADS; i++)
			threads[i] = thread_create("waiter", wait_for_go, NULL);
		while (atomic_read(&nr_waiting) < 1 + round % NR_THREADS)
			thread_yield();
		atomic_set_release(&go, 1);
		wake_all(&wq);
		for (int i = 0; i < NR_THREADS; i++)
			thread_join(threads[i]);
	}
	EXPECT_EQ(t, atomic_read(&nr_waiting), 0);
}

static void timeouts_follow_the_test_clock(struct ktest *t)
{
	uint64_t start;

	shim_time_freeze(true);
	start = time_now_ns();
	EXPECT_FALSE(t, wait_event_timeout(&wq, false, start)); /* past already */
	shim_time_freeze(false);

	EXPECT_FALSE(t, wait_event_timeout(&wq, false, time_after_ns(2 * NSEC_PER_MSEC)));
	EXPECT_GE(t, time_now_ns(), start + 2 * NSEC_PER_MSEC);
	EXPECT_TRUE(t, wait_event_timeout(&wq, true, start));
}

static void advance_later(void *arg)
{
	(void)arg;
	while (!waitqueue_active(&wq))
		thread_yield();
	shim_time_advance_ns(3600 * NSEC_PER_SEC);
}

static void an_hour_passes_quickly(struct ktest *t)
{
	struct thread *helper = thread_create("clock", advance_later, NULL);

	EXPECT_FALSE(t, wait_event_timeout(&wq, false, time_after_ns(3600 * NSEC_PER_SEC)));
	thread_join(helper);
}

static void killable(void *arg)
{
	*(int *)arg = wait_event_killable(&wq, false);
}

static void kill_ends_a_wait(struct ktest *t)
{
	int result = 0;
	struct thread *victim = thread_create("victim", killable, &result);

	thread_notify(victim, THREAD_F_SIGNAL); /* not enough */
	while (!waitqueue_active(&wq))
		thread_yield();
	thread_notify(victim, THREAD_F_KILL);
	thread_join(victim);
	EXPECT_EQ(t, result, -EINTR);
}

static void completions(struct ktest *t)
{
	struct completion c;

	completion_init(&c);
	EXPECT_FALSE(t, completion_wait_until(&c, time_now_ns()));
	complete(&c);
	complete(&c);
	EXPECT_TRUE(t, completion_done(&c));
	completion_wait(&c);
	EXPECT_TRUE(t, completion_wait_until(&c, 0));
	EXPECT_FALSE(t, completion_done(&c));
	complete_all(&c);
	completion_wait(&c);
	completion_wait(&c);
	EXPECT_EQ(t, completion_wait_killable(&c), 0);
}

/* --- timers, work --- */

static struct completion fired;
static bool fired_in_interrupt;

static void on_timer(void *arg)
{
	fired_in_interrupt = in_interrupt();
	atomic_inc(arg);
	complete(&fired);
}

static void timers(struct ktest *t)
{
	atomic_t n = ATOMIC_INIT(0);
	struct timer a;
	struct timer b;

	completion_init(&fired);
	timer_init(&a, on_timer, &n);
	timer_init(&b, on_timer, &n);
	timer_set(&b, time_after_ns(1000 * NSEC_PER_SEC));
	timer_set(&a, time_now_ns());
	completion_wait(&fired);
	EXPECT_EQ(t, atomic_read(&n), 1);
	EXPECT_TRUE(t, fired_in_interrupt);
	EXPECT_FALSE(t, timer_pending(&a));
	EXPECT_TRUE(t, timer_pending(&b));
	shim_time_advance_ns(1000 * NSEC_PER_SEC);
	completion_wait(&fired);
	EXPECT_FALSE(t, timer_cancel(&b));
	timer_set(&b, time_after_ns(1000 * NSEC_PER_SEC));
	EXPECT_TRUE(t, timer_cancel(&b));
	EXPECT_EQ(t, atomic_read(&n), 2);
}

static struct completion work_gate;
static atomic_t work_count;

static void blocked_work(struct work *w)
{
	(void)w;
	completion_wait(&work_gate);
	atomic_inc(&work_count);
}

static void work_queues(struct ktest *t)
{
	struct workqueue *q = workqueue_create("test", 3);
	struct work items[4];

	ASSERT_FALSE(t, IS_ERR(q));
	completion_init(&work_gate);
	atomic_set(&work_count, 0);
	for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
		work_init(&items[i], blocked_work);
		EXPECT_TRUE(t, work_queue(q, &items[i]));
	}
	EXPECT_FALSE(t, work_queue(q, &items[3])); /* three run, the fourth is pending */
	EXPECT_TRUE(t, work_cancel(&items[3]));
	EXPECT_FALSE(t, work_cancel(&items[3]));
	complete_all(&work_gate);
	EXPECT_TRUE(t, workqueue_flush(q, WAIT_FOREVER));
	EXPECT_EQ(t, atomic_read(&work_count), 3);
	EXPECT_TRUE(t, work_queue(q, &items[3]));
	work_flush(&items[3]);
	EXPECT_EQ(t, atomic_read(&work_count), 4);
	workqueue_destroy(q);
	EXPECT_EQ(t, thread_count(), 0);
}

struct shared {
	struct rwsem s;
	atomic_t nr; /* threads that were inside */
};

static void read_once(void *arg)
{
	struct shared *sh = arg;

	rwsem_read_lock(&sh->s);
	atomic_inc(&sh->nr);
	rwsem_read_unlock(&sh->s);
}

static void write_once(void *arg)
{
	struct shared *sh = arg;

	rwsem_write_lock(&sh->s);
	atomic_inc(&sh->nr);
	rwsem_write_unlock(&sh->s);
}

static void readers_and_writers(struct ktest *t)
{
	struct shared sh = { 0 };
	struct thread *other;

	rwsem_init(&sh.s, "s", RANK_MONITOR);
	rwsem_read_lock(&sh.s);
	other = thread_create("reader", read_once, &sh);
	ASSERT_FALSE(t, IS_ERR(other));
	thread_join(other); /* would not come back if readers excluded each other */
	EXPECT_EQ(t, atomic_read(&sh.nr), 1);
	other = thread_create("writer", write_once, &sh);
	ASSERT_FALSE(t, IS_ERR(other));
	thread_sleep_ns(5 * NSEC_PER_MSEC);
	EXPECT_EQ(t, atomic_read(&sh.nr), 1);
	rwsem_read_unlock(&sh.s);
	thread_join(other);
	EXPECT_EQ(t, atomic_read(&sh.nr), 2);
	rwsem_write_lock(&sh.s);
	other = thread_create("reader", read_once, &sh);
	ASSERT_FALSE(t, IS_ERR(other));
	thread_sleep_ns(5 * NSEC_PER_MSEC);
	EXPECT_EQ(t, atomic_read(&sh.nr), 2);
	rwsem_write_unlock(&sh.s);
	thread_join(other);
	EXPECT_EQ(t, atomic_read(&sh.nr), 3);
}

/* --- memory --- */

static void frames(struct ktest *t)
{
	const uint64_t before = frames_free_count();
	struct frame *f = frame_alloc(0, FRAME_ZERO);
	struct frame *big = frame_alloc(9, 0);
	const uint8_t *p;

	ASSERT_TRUE(t, f && big);
	p = frame_to_virt(f);
	EXPECT_EQ(t, p[0] | p[4095], 0);
	EXPECT_TRUE(t, virt_to_frame(p) == f);
	EXPECT_TRUE(t, paddr_to_frame(frame_to_paddr(f)) == f);
	EXPECT_TRUE(t, phys_to_virt(frame_to_paddr(f)) == p);
	EXPECT_EQ(t, virt_to_phys(p), frame_to_paddr(f));
	EXPECT_EQ(t, frame_to_paddr(big) % (2 << 20), 0);
	EXPECT_EQ(t, frames_free_count(), before - 513);
	frame_free(f, 0);
	EXPECT_TRUE(t, SHIM_PANICS(frame_free(f, 0)));
	frame_free(big, 9);
	EXPECT_EQ(t, frames_free_count(), before);

	shim_fail_frame_after(1);
	f = frame_alloc(0, 0);
	EXPECT_TRUE(t, f != NULL);
	EXPECT_TRUE(t, frame_alloc(0, 0) == NULL);
	shim_fail_frame_after(-1);
	frame_free(f, 0);
}

static void slab(struct ktest *t)
{
	const size_t live = shim_allocs_live();
	struct kmem_cache *c = kmem_cache_create("test", 40, 64);
	char *s;
	void *p;

	ASSERT_TRUE(t, c != NULL);
	p = kmem_cache_alloc(c);
	EXPECT_EQ(t, (uintptr_t)p % 64, 0);
	EXPECT_EQ(t, kmem_cache_in_use(c), 1);
	kmem_cache_free(c, p);
	kmem_cache_destroy(c);
	shim_fail_alloc_after(0);
	EXPECT_TRUE(t, kmalloc(8) == NULL);
	EXPECT_TRUE(t, vmalloc(8) == NULL);
	shim_fail_alloc_after(-1);
	EXPECT_TRUE(t, kcalloc(SIZE_MAX / 2, 4) == NULL);
	s = kstrdup("hello");
	EXPECT_STREQ(t, s, "hello");
	s = krealloc(s, 4096);
	EXPECT_STREQ(t, s, "hello");
	EXPECT_EQ(t, (uintptr_t)s % 4096, 0);
	kfree(s);
	EXPECT_EQ(t, shim_allocs_live(), live);
}

/* --- boot parameters, counters, log --- */

static uint64_t size_param;
static bool bool_param;
BOOT_PARAM("shim_test.size", size, size_param, "for this test");
BOOT_PARAM("shim_test.bool", bool, bool_param, "for this test");
COUNTER(test_counter, "shim_test.counter", "for this test");

static void tables(struct ktest *t)
{
	uint64_t v = 0;

	EXPECT_EQ(t, shim_bootparam_set("shim_test.size", "8M"), 0);
	EXPECT_EQ(t, size_param, 8 << 20);
	EXPECT_EQ(t, shim_bootparam_set("shim_test.bool", "on"), 0);
	EXPECT_TRUE(t, bool_param);
	EXPECT_EQ(t, shim_bootparam_set("shim_test.bool", "maybe"), -EINVAL);
	EXPECT_EQ(t, shim_bootparam_set("shim_test.none", "1"), -ENOENT);

	counter_add(&test_counter, 5);
	EXPECT_TRUE(t, counter_find("shim_test.counter", &v));
	EXPECT_EQ(t, v, 5);
	EXPECT_FALSE(t, counter_find("shim_test.none", &v));

	shim_log_clear();
	pr_info("number %d\n", 42);
	EXPECT_TRUE(t, shim_log_contains("number 42"));
	shim_log_clear();
	EXPECT_FALSE(t, shim_log_contains("number"));
	EXPECT_TRUE(t, SHIM_PANICS(BUG_ON(size_param == 8 << 20)));
	EXPECT_FALSE(t, SHIM_PANICS(BUG_ON(size_param != 8 << 20)));
}

static const struct ktest_case shim_cases[] = {
	KTEST(threads_and_locks),
	KTEST(lock_order_is_checked),
	KTEST(held_locks_are_asserted),
	KTEST(wake_ups_are_not_lost),
	KTEST(timeouts_follow_the_test_clock),
	KTEST(an_hour_passes_quickly),
	KTEST(kill_ends_a_wait),
	KTEST(completions),
	KTEST(timers),
	KTEST(work_queues),
	KTEST(readers_and_writers),
	KTEST(frames),
	KTEST(slab),
	KTEST(tables),
	{ 0 },
};
static const struct ktest_suite shim_suite = { .name = "shim.kernel", .cases = shim_cases };
KTEST_SUITE(shim_suite);
