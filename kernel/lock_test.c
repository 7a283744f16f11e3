/* SPDX-License-Identifier: MIT */
#include <kernel/lock_debug.h>
#include <kernel/mutex.h>
#include <kernel/rwsem.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <lib/err.h>
#include <lib/ktest.h>

#define NR_THREADS 4u
#define NR_ROUNDS  300u

struct shared {
	struct mutex m;
	struct rwsem s;
	struct spinlock l;
	unsigned int inside;  /* writers in the critical section */
	unsigned int readers; /* atomic */
	unsigned int errors;
	unsigned int sum;
};

static void mutex_worker(void *arg)
{
	struct shared *s = arg;

	for (unsigned int i = 0; i < NR_ROUNDS; i++) {
		mutex_lock(&s->m);
		s->errors += s->inside++ != 0;
		s->errors += !mutex_is_mine(&s->m);
		if (i % 3 == 0)
			thread_yield();
		s->sum++;
		s->inside--;
		mutex_unlock(&s->m);
		if (i % 5 == 0)
			thread_yield();
	}
}

static void run_workers(struct ktest *t, void (*fn)(void *arg), struct shared *s)
{
	struct thread *threads[NR_THREADS];

	for (unsigned int i = 0; i < NR_THREADS; i++) {
		threads[i] = thread_create("lock-test", fn, s);
		ASSERT_FALSE(t, IS_ERR(threads[i]));
	}
	for (unsigned int i = 0; i < NR_THREADS; i++)
		thread_join(threads[i]);
}

static void mutex_excludes(struct ktest *t)
{
	struct shared s = { 0 };

	mutex_init(&s.m, "test", RANK_MONITOR);
	run_workers(t, mutex_worker, &s);
	EXPECT_EQ(t, s.errors, 0);
	EXPECT_EQ(t, s.sum, NR_THREADS * NR_ROUNDS);
	EXPECT_FALSE(t, mutex_is_mine(&s.m));
}

/* --- waiters that are killed ------------------------------------------------------------- */

struct waits {
	struct mutex *m;
	struct thread *thread;
	bool killable;
	int err;
	unsigned int *turn; /* guarded by the mutex */
	unsigned int got;   /* its turn, from 1 on; 0: it did not get the mutex */
	bool begun;         /* atomic */
};

static void wait_for_mutex(void *arg)
{
	struct waits *w = arg;

	__atomic_store_n(&w->begun, true, __ATOMIC_RELEASE);
	if (w->killable)
		w->err = mutex_lock_killable(w->m);
	else
		mutex_lock(w->m);
	if (w->err)
		return;
	w->got = ++*w->turn;
	mutex_unlock(w->m);
}

/* It waits in the queue when this returns. */
static void waits_begin(struct ktest *t, struct waits *w)
{
	w->thread = thread_create("lock-test", wait_for_mutex, w);
	ASSERT_FALSE(t, IS_ERR(w->thread));
	while (!__atomic_load_n(&w->begun, __ATOMIC_ACQUIRE))
		thread_yield();
	while (READ_ONCE(w->thread->state) != THREAD_SLEEPING)
		thread_yield();
}

static void a_killed_waiter_leaves_the_others_in_order(struct ktest *t)
{
	unsigned int turn = 0;
	struct mutex m;
	struct waits w[4] = {
		{ .m = &m, .turn = &turn, .killable = true },
		{ .m = &m, .turn = &turn },
		{ .m = &m, .turn = &turn, .killable = true },
		{ .m = &m, .turn = &turn, .killable = true },
	};

	mutex_init(&m, "test", RANK_MONITOR);
	mutex_lock(&m);
	for (unsigned int i = 0; i < ARRAY_SIZE(w); i++)
		waits_begin(t, &w[i]);
	/* The first one, and one in the middle. */
	thread_notify(w[0].thread, THREAD_F_KILL);
	thread_join(w[0].thread);
	thread_notify(w[2].thread, THREAD_F_KILL);
	thread_join(w[2].thread);
	EXPECT_EQ(t, w[0].err, -EINTR);
	EXPECT_EQ(t, w[2].err, -EINTR);
	EXPECT_TRUE(t, mutex_is_mine(&m));
	EXPECT_EQ(t, turn, 0);
	mutex_unlock(&m);
	thread_join(w[1].thread);
	thread_join(w[3].thread);
	EXPECT_EQ(t, w[1].got, 1);
	EXPECT_EQ(t, w[3].got, 2);
	EXPECT_TRUE(t, mutex_trylock(&m));
	mutex_unlock(&m);
}

/* A queue from which all have gone costs the owner nothing, and the next waiter is found. */
static void the_last_waiter_may_be_killed(struct ktest *t)
{
	unsigned int turn = 0;
	struct mutex m;
	struct waits gone = { .m = &m, .turn = &turn, .killable = true };
	struct waits next = { .m = &m, .turn = &turn, .killable = true };

	mutex_init(&m, "test", RANK_MONITOR);
	mutex_lock(&m);
	waits_begin(t, &gone);
	EXPECT_EQ(t, m.owner, (uintptr_t)thread_current() | 1);
	thread_notify(gone.thread, THREAD_F_KILL);
	thread_join(gone.thread);
	EXPECT_EQ(t, gone.err, -EINTR);
	EXPECT_EQ(t, m.owner, (uintptr_t)thread_current());
	waits_begin(t, &next);
	mutex_unlock(&m);
	thread_join(next.thread);
	EXPECT_EQ(t, next.err, 0);
	EXPECT_EQ(t, next.got, 1);
}

static void take_while_killed(void *arg)
{
	struct waits *w = arg;

	thread_notify(thread_current(), THREAD_F_KILL);
	w->err = mutex_lock_killable(w->m);
	if (w->err)
		return;
	w->got = ++*w->turn;
	mutex_unlock(w->m);
}

/* A thread that is being killed still gets what is free: it has to clean up. */
static void a_free_mutex_is_taken_by_the_killed(struct ktest *t)
{
	unsigned int turn = 0;
	struct mutex m;
	struct waits w = { .m = &m, .turn = &turn };

	mutex_init(&m, "test", RANK_MONITOR);
	w.thread = thread_create("lock-test", take_while_killed, &w);
	ASSERT_FALSE(t, IS_ERR(w.thread));
	thread_join(w.thread);
	EXPECT_EQ(t, w.got, 1);
	w.got = 0;
	mutex_lock(&m);
	w.thread = thread_create("lock-test", take_while_killed, &w);
	ASSERT_FALSE(t, IS_ERR(w.thread));
	thread_join(w.thread);
	EXPECT_EQ(t, w.err, -EINTR);
	EXPECT_EQ(t, w.got, 0);
	mutex_unlock(&m);
}

#define NR_KILLED 200u

/* Kills come while the mutex is handed over: it is had by exactly one, or is free. */
static void kills_beside_unlocks_lose_nothing(struct ktest *t)
{
	unsigned int turn = 0, got = 0;
	struct mutex m;

	mutex_init(&m, "test", RANK_MONITOR);
	for (unsigned int i = 0; i < NR_KILLED; i++) {
		struct waits a = { .m = &m, .turn = &turn, .killable = true };
		struct waits b = { .m = &m, .turn = &turn, .killable = i & 1 };

		mutex_lock(&m);
		waits_begin(t, &a);
		waits_begin(t, &b);
		if (i & 2)
			thread_notify(a.thread, THREAD_F_KILL);
		mutex_unlock(&m);
		thread_notify(a.thread, THREAD_F_KILL);
		thread_join(a.thread);
		thread_join(b.thread);
		EXPECT_EQ(t, b.err, 0);
		got += (a.got != 0) + (b.got != 0);
		ASSERT_TRUE(t, mutex_trylock(&m));
		mutex_unlock(&m);
	}
	EXPECT_EQ(t, turn, got);
}

static unsigned int readers_inside(const struct shared *s)
{
	return __atomic_load_n(&s->readers, __ATOMIC_SEQ_CST);
}

/* Counted already; not any more on return. */
static void read_inside(struct shared *s)
{
	thread_yield();
	if (READ_ONCE(s->inside) != 0)
		__atomic_add_fetch(&s->errors, 1, __ATOMIC_SEQ_CST);
	__atomic_sub_fetch(&s->readers, 1, __ATOMIC_SEQ_CST);
}

static void read_once(void *arg)
{
	struct shared *s = arg;

	rwsem_read_lock(&s->s);
	s->sum = 1;
	rwsem_read_unlock(&s->s);
}

static void rwsem_worker(void *arg)
{
	struct shared *s = arg;

	for (unsigned int i = 0; i < NR_ROUNDS; i++) {
		if (i % 4 == 0) {
			rwsem_write_lock(&s->s);
			s->errors += s->inside++ != 0 || readers_inside(s) != 0;
			thread_yield();
			s->inside--;
			rwsem_write_unlock(&s->s);
		} else {
			rwsem_read_lock(&s->s);
			__atomic_add_fetch(&s->readers, 1, __ATOMIC_SEQ_CST);
			read_inside(s);
			rwsem_read_unlock(&s->s);
		}
		__atomic_add_fetch(&s->sum, 1, __ATOMIC_SEQ_CST);
	}
}

static void rwsem_excludes_and_shares(struct ktest *t)
{
	struct shared s = { 0 };

	rwsem_init(&s.s, "test", RANK_MONITOR);
	rwsem_read_lock(&s.s);
	run_workers(t, read_once, &s); /* would not come back if readers excluded each other */
	rwsem_read_unlock(&s.s);
	EXPECT_EQ(t, s.sum, 1);
	s.sum = 0;
	run_workers(t, rwsem_worker, &s);
	EXPECT_EQ(t, s.errors, 0);
	EXPECT_EQ(t, s.sum, NR_THREADS * NR_ROUNDS);
}

static void spinlock_basics(struct ktest *t)
{
	struct spinlock l;
	unsigned long flags;

	spin_lock_init(&l, "test", RANK_SPIN_MONITOR);
	EXPECT_TRUE(t, preemptible());
	spin_lock(&l);
	EXPECT_FALSE(t, preemptible());
	EXPECT_FALSE(t, spin_trylock(&l));
	EXPECT_TRUE(t, spin_is_locked(&l));
	spin_unlock(&l);
	EXPECT_TRUE(t, preemptible());
	flags = spin_lock_irqsave(&l);
	EXPECT_FALSE(t, local_irqs_enabled());
	spin_unlock_irqrestore(&l, flags);
	EXPECT_TRUE(t, local_irqs_enabled());
	EXPECT_TRUE(t, spin_trylock(&l));
	spin_unlock(&l);
}

#ifdef CONFIG_DEBUG
static void rank_violations_are_seen(struct ktest *t)
{
	struct spinlock outer = SPINLOCK_INIT("outer", RANK_SPIN_MONITOR);
	struct spinlock pair[2];
	struct spinlock inner = SPINLOCK_INIT("inner", RANK_SPIN_RPC);
	struct mutex m;

	spin_lock_init(&pair[0], "pair", RANK_EXCACHE_SET);
	spin_lock_init(&pair[1], "pair", RANK_EXCACHE_SET);
	mutex_init(&m, "mutex", RANK_ASPACE);
	lock_debug_expect(true);

	spin_lock(&outer);
	spin_lock(&inner);
	EXPECT_EQ(t, lock_debug_violations(), 0);
	spin_unlock(&inner);
	spin_unlock(&outer);

	spin_lock(&inner);
	spin_lock(&outer);
	EXPECT_EQ(t, lock_debug_violations(), 1);
	spin_unlock(&outer);
	spin_unlock(&inner);

	spin_lock(&inner);
	EXPECT_TRUE(t, spin_trylock(&outer)); /* cannot deadlock, so it is allowed */
	EXPECT_EQ(t, lock_debug_violations(), 0);
	spin_unlock(&outer);
	spin_unlock(&inner);

	spin_lock(&pair[0]);
	spin_lock(&pair[1]);
	EXPECT_EQ(t, lock_debug_violations(), 0);
	spin_unlock(&pair[0]);
	spin_lock(&pair[0]);
	EXPECT_EQ(t, lock_debug_violations(), 1);
	spin_unlock(&pair[0]);
	spin_unlock(&pair[1]);

	/* A sleeping lock inside a spinlock: wrong order and wrong context. */
	spin_lock(&outer);
	mutex_lock(&m);
	EXPECT_EQ(t, lock_debug_violations(), 2);
	mutex_unlock(&m);
	spin_unlock(&outer);

	lock_debug_release(&m, "never taken");
	EXPECT_EQ(t, lock_debug_violations(), 1);
	lock_debug_acquire(&m, "again", RANK_ASPACE, 0);
	lock_debug_acquire(&m, "again", RANK_ASPACE, 0);
	EXPECT_EQ(t, lock_debug_violations(), 1);
	lock_debug_release(&m, "again");
	lock_debug_release(&m, "again");
	EXPECT_EQ(t, lock_debug_violations(), 0);
	lock_debug_expect(false);
}

static void hold_for_a_while(void *arg)
{
	struct shared *s = arg;

	mutex_lock(&s->m);
	rwsem_read_lock(&s->s);
	spin_lock(&s->l);
	assert_spin_held(&s->l);
	spin_unlock(&s->l);
	__atomic_store_n(&s->inside, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&s->readers, __ATOMIC_ACQUIRE) == 0)
		thread_yield();
	rwsem_read_unlock(&s->s);
	mutex_unlock(&s->m);
}

/* Locks that another thread holds are not the caller's. */
static void others_locks_do_not_count(struct ktest *t, struct shared *s)
{
	struct thread *holder = thread_create("lock-test", hold_for_a_while, s);

	ASSERT_FALSE(t, IS_ERR(holder));
	while (__atomic_load_n(&s->inside, __ATOMIC_ACQUIRE) == 0)
		thread_yield();
	assert_mutex_held(&s->m);
	EXPECT_EQ(t, lock_debug_violations(), 1);
	assert_rwsem_held(&s->s);
	EXPECT_EQ(t, lock_debug_violations(), 1);
	__atomic_store_n(&s->readers, 1, __ATOMIC_RELEASE);
	thread_join(holder);
}

static void held_locks_are_asserted(struct ktest *t)
{
	struct shared s = { 0 };
	unsigned long flags;

	mutex_init(&s.m, "test", RANK_ASPACE);
	rwsem_init(&s.s, "test", RANK_MONITOR);
	spin_lock_init(&s.l, "test", RANK_SPIN_MONITOR);
	lock_debug_expect(true);

	mutex_lock(&s.m);
	rwsem_write_lock(&s.s);
	flags = spin_lock_irqsave(&s.l);
	assert_mutex_held(&s.m);
	assert_rwsem_held(&s.s);
	assert_rwsem_held_write(&s.s);
	assert_spin_held(&s.l);
	EXPECT_EQ(t, lock_debug_violations(), 0);
	spin_unlock_irqrestore(&s.l, flags);
	assert_spin_held(&s.l);
	EXPECT_EQ(t, lock_debug_violations(), 1);

	rwsem_write_unlock(&s.s);
	rwsem_read_lock(&s.s);
	assert_rwsem_held(&s.s);
	EXPECT_EQ(t, lock_debug_violations(), 0);
	assert_rwsem_held_write(&s.s); /* for reading only now */
	EXPECT_EQ(t, lock_debug_violations(), 1);
	rwsem_read_unlock(&s.s);
	assert_rwsem_held(&s.s);
	EXPECT_EQ(t, lock_debug_violations(), 1);
	mutex_unlock(&s.m);
	assert_mutex_held(&s.m);
	EXPECT_EQ(t, lock_debug_violations(), 1);

	others_locks_do_not_count(t, &s);
	lock_debug_expect(false);
}

static void assert_in_handler(void *arg)
{
	assert_spin_held(arg); /* what the interrupted code holds is not the handler's */
}

static void a_handler_holds_nothing_of_the_interrupted(struct ktest *t)
{
	struct spinlock l = SPINLOCK_INIT("test", RANK_SPIN_MONITOR);
	struct timer timer;

	timer_init(&timer, assert_in_handler, &l);
	lock_debug_expect(true);
	spin_lock(&l);
	timer_set(&timer, time_now_ns());
	while (timer_pending(&timer))
		cpu_relax();
	spin_unlock(&l);
	(void)timer_cancel(&timer);
	EXPECT_EQ(t, lock_debug_violations(), 1);
	lock_debug_expect(false);
}
#else
static void rank_violations_are_seen(struct ktest *t)
{
	ktest_skip(t, "CONFIG_DEBUG is off");
}
static void held_locks_are_asserted(struct ktest *t)
{
	ktest_skip(t, "CONFIG_DEBUG is off");
}
static void a_handler_holds_nothing_of_the_interrupted(struct ktest *t)
{
	ktest_skip(t, "CONFIG_DEBUG is off");
}
#endif

static const struct ktest_case lock_cases[] = {
	KTEST(spinlock_basics),
	KTEST(mutex_excludes),
	KTEST(a_killed_waiter_leaves_the_others_in_order),
	KTEST(the_last_waiter_may_be_killed),
	KTEST(a_free_mutex_is_taken_by_the_killed),
	KTEST(kills_beside_unlocks_lose_nothing),
	KTEST(rwsem_excludes_and_shares),
	KTEST(rank_violations_are_seen),
	KTEST(held_locks_are_asserted),
	KTEST(a_handler_holds_nothing_of_the_interrupted),
	{ 0 },
};
static const struct ktest_suite lock_suite = { .name = "kernel.lock", .cases = lock_cases };
KTEST_SUITE(lock_suite);
