/* SPDX-License-Identifier: MIT */
/*
 * Futexes between real threads: counts, bit sets, requeueing, WAKE_OP, faults, and no wake-up lost;
 * mutexes that lend priority.
 */
#include <stdlib.h>

#include <kernel/panic.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <processor/ipc/futex.h>
#include <processor/process/process.h>
#include <shim/pgtable.h>
#include <shim/shim.h>

#include <processor/ipc/futex_private.h>

#define MS 1000000ull

static uint32_t words[4];

static struct futex_word word(unsigned int i)
{
	return (struct futex_word){
		.addr = (uint64_t)(uintptr_t)&words[i],
		.key = { .owner = words, .where = i * 4 },
	};
}

static void start(void)
{
	static bool done;

	if (!done)
		futex_init();
	done = true;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = 0;
}

struct sleeper {
	struct thread *th;
	unsigned int at;
	uint32_t bitset;
	int ret; /* atomic: 1 while it sleeps */
};

static void sleeper_main(void *arg)
{
	struct sleeper *s = arg;
	const struct futex_word w = word(s->at);

	WRITE_ONCE(s->ret, futex_wait(&w, 0, s->bitset, WAIT_FOREVER));
}

/* The number of waiters of a word, counted by moving them to the word where they are. */
static int nr_waiting(unsigned int at)
{
	const struct futex_word w = word(at);

	return futex_requeue(&w, &w, 0, INT32_MAX, NULL);
}

static void sleeper_start(struct sleeper *s, unsigned int at, uint32_t bitset)
{
	const int before = nr_waiting(at);

	*s = (struct sleeper){ .at = at, .bitset = bitset, .ret = 1 };
	s->th = thread_create("sleeper", sleeper_main, s);
	while (nr_waiting(at) == before)
		thread_yield();
}

static void waits_and_wakes(struct ktest *t)
{
	struct futex_word w, other;
	struct sleeper s[3];

	start();
	w = word(0);
	other = word(1);
	EXPECT_EQ(t, futex_wait(&w, 1, FUTEX_BITSET_MATCH_ANY, WAIT_FOREVER), -EAGAIN);
	EXPECT_EQ(t, nr_waiting(0), 0);
	EXPECT_EQ(t, futex_wait(&w, 0, FUTEX_BITSET_MATCH_ANY, time_now_ns() + MS), -ETIMEDOUT);
	EXPECT_EQ(t, futex_wake(&w.key, 1, FUTEX_BITSET_MATCH_ANY), 0);
	for (int i = 0; i < 3; i++)
		sleeper_start(&s[i], 0, 1u << i);
	EXPECT_EQ(t, futex_wake(&other.key, 5, FUTEX_BITSET_MATCH_ANY), 0);
	EXPECT_EQ(t, futex_wake(&w.key, 5, 2), 1);
	thread_join(s[1].th);
	EXPECT_EQ(t, s[1].ret, 0);
	EXPECT_EQ(t, futex_wake(&w.key, 0, FUTEX_BITSET_MATCH_ANY), 1); /* as Linux: one at least */
	thread_join(s[0].th); /* first come, first served */
	EXPECT_EQ(t, READ_ONCE(s[2].ret), 1);
	EXPECT_EQ(t, futex_wake(&w.key, 1, FUTEX_BITSET_MATCH_ANY), 1);
	thread_join(s[2].th);
}

static void requeues(struct ktest *t)
{
	const uint32_t zero = 0, one = 1;
	struct futex_word a, b;
	struct sleeper s[4];

	start();
	a = word(0);
	b = word(1);
	for (int i = 0; i < 4; i++)
		sleeper_start(&s[i], 0, FUTEX_BITSET_MATCH_ANY);
	EXPECT_EQ(t, futex_requeue(&a, &b, 1, 2, &one), -EAGAIN);
	EXPECT_EQ(t, futex_requeue(&a, &b, 1, 2, &zero), 3);
	thread_join(s[0].th);
	EXPECT_EQ(t, futex_wake(&a.key, 9, FUTEX_BITSET_MATCH_ANY), 1);
	thread_join(s[3].th);
	EXPECT_EQ(t, futex_wake(&b.key, 9, FUTEX_BITSET_MATCH_ANY), 2);
	thread_join(s[1].th);
	thread_join(s[2].th);
	/* A signal ends the wait of one who was moved. */
	sleeper_start(&s[0], 0, FUTEX_BITSET_MATCH_ANY);
	EXPECT_EQ(t, futex_requeue(&a, &b, 0, 1, NULL), 1);
	thread_notify(s[0].th, THREAD_F_SIGNAL);
	thread_join(s[0].th);
	EXPECT_EQ(t, s[0].ret, -EINTR);
	EXPECT_EQ(t, futex_wake(&b.key, 9, FUTEX_BITSET_MATCH_ANY), 0);
	/* To a word in another object: woken, so that it looks for itself. */
	sleeper_start(&s[0], 0, FUTEX_BITSET_MATCH_ANY);
	b.key.object = (struct object *)(uintptr_t)words;
	EXPECT_EQ(t, futex_requeue(&a, &b, 0, 1, NULL), 1);
	thread_join(s[0].th);
	EXPECT_EQ(t, s[0].ret, 0);
}

static void wake_op(struct ktest *t)
{
	static const struct {
		uint32_t op, before, after;
		int ret;
	} cases[] = {
		{ 0x0 << 28 | 0x0 << 24 | 5 << 12 | 7, 7, 5, 2 },     /* = 5, was 7 */
		{ 0x1 << 28 | 0x1 << 24 | 0xfff << 12 | 7, 7, 6, 1 }, /* += -1, was not 7 */
		{ 0x2 << 28 | 0x2 << 24 | 8 << 12 | 8, 7, 15, 2 },    /* |= 8, was < 8 */
		{ 0x3 << 28 | 0x4 << 24 | 3 << 12 | 7, 7, 4, 1 },     /* &= ~3, was > 7 */
		{ 0xcu << 28 | 0x5 << 24 | 4 << 12 | 7, 7, 23, 2 },   /* ^= 1 << 4, was >= 7 */
		{ 0x1 << 28 | 0x3 << 24 | 1 << 12 | 0xfff, UINT32_MAX, 0, 2 }, /* was <= -1 */
		{ 0x5 << 28, 7, 7, -ENOSYS },
		{ 0x6 << 24, 7, 7, -ENOSYS },
	};
	struct futex_word a, b;
	struct sleeper s[2];

	start();
	a = word(0);
	b = word(1);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		words[1] = 0;
		sleeper_start(&s[0], 0, FUTEX_BITSET_MATCH_ANY);
		sleeper_start(&s[1], 1, FUTEX_BITSET_MATCH_ANY);
		words[1] = cases[i].before;
		EXPECT_EQ(t, futex_wake_op(&a, &b, 1, 1, cases[i].op), cases[i].ret);
		EXPECT_EQ(t, words[1], cases[i].after);
		(void)futex_wake(&a.key, 9, FUTEX_BITSET_MATCH_ANY);
		(void)futex_wake(&b.key, 9, FUTEX_BITSET_MATCH_ANY);
		thread_join(s[0].th);
		thread_join(s[1].th);
	}
}

static void words_that_are_not_there(struct ktest *t)
{
	const uint32_t zero = 0;
	struct futex_word a, b;

	start();
	a = word(0);
	b = word(1);
	shim_user_bad(&words[0], sizeof(words));
	EXPECT_EQ(t, futex_wait(&a, 0, FUTEX_BITSET_MATCH_ANY, WAIT_FOREVER), -EFAULT);
	EXPECT_EQ(t, futex_requeue(&a, &b, 1, 1, &zero), -EFAULT);
	EXPECT_EQ(t, futex_wake_op(&a, &b, 1, 1, 0), -EFAULT);
	EXPECT_EQ(t, futex_wake(&a.key, 1, FUTEX_BITSET_MATCH_ANY), 0);
	shim_user_bad(NULL, 0);
}

/* A mutex of three states, as C libraries have it: 0 free, 1 held, 2 held and somebody waits. */
static void lock_word(const struct futex_word *w, uint32_t *val)
{
	uint32_t old = 0;

	if (__atomic_compare_exchange_n(val, &old, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(val, 2, __ATOMIC_ACQUIRE) != 0) {
		if (futex_wait(w, 2, FUTEX_BITSET_MATCH_ANY, WAIT_FOREVER))
			continue; /* it has changed: look again */
	}
}

static void unlock_word(const struct futex_word *w, uint32_t *val)
{
	if (__atomic_exchange_n(val, 0, __ATOMIC_RELEASE) == 2)
		(void)futex_wake(&w->key, 1, FUTEX_BITSET_MATCH_ANY);
}

#define LOCKERS 6
#define ROUNDS  3000

static uint64_t counted;

static void locker_main(void *arg)
{
	const struct futex_word w = word(2);

	for (int i = 0; i < ROUNDS; i++) {
		lock_word(&w, &words[2]);
		counted++;
		if (i % 64 == 0)
			thread_yield();
		unlock_word(&w, &words[2]);
	}
}

static void no_wake_up_is_lost(struct ktest *t)
{
	struct thread *th[LOCKERS];

	start();
	counted = 0;
	for (int i = 0; i < LOCKERS; i++)
		th[i] = thread_create("locker", locker_main, NULL);
	for (int i = 0; i < LOCKERS; i++)
		thread_join(th[i]);
	EXPECT_EQ(t, counted, (uint64_t)LOCKERS * ROUNDS);
}

/* --- mutexes that lend priority ------------------------------------------------------------ */

#define TASKS     8
#define FIRST_TID 100u

static struct process owner_process;
static struct task tasks[TASKS];

/* How a task runs its cases ask inherit_lent(). */
void thread_set_weight(struct thread *t, uint32_t weight, bool batch)
{
}

void thread_set_realtime(struct thread *t, const struct fair_fixed *fixed)
{
}

struct task *task_find(uint32_t tid)
{
	if (tid < FIRST_TID || tid >= FIRST_TID + TASKS)
		return NULL;
	task_get(&tasks[tid - FIRST_TID]);
	return &tasks[tid - FIRST_TID];
}

void task_put(struct task *t)
{
	BUG_ON(refcount_dec_and_test(&t->refs));
}

uint32_t pid_from_vnr_in(uint32_t vnr, const struct pid_ns *ns)
{
	return vnr;
}

/* The calling thread is task @i. */
static struct task *be_task(unsigned int i)
{
	struct task *t = &tasks[i];

	refcount_set(&t->refs, 1);
	t->process = &owner_process;
	t->tid = FIRST_TID + i;
	t->thread = thread_current();
	thread_current()->private = t;
	inherit_init(t);
	return t;
}

static void set_priority(struct task *t, uint8_t prio)
{
	struct run_rank own = { .fixed.order = prio ? FAIR_FIFO : FAIR_SHARES,
				.fixed.prio = prio,
				.weight = FAIR_WEIGHT_MEAN };

	inherit_set_own(t, &own, false);
}

/* The priority that is lent to @t, or 0. */
static unsigned int lent_to(const struct task *t)
{
	struct run_rank now;

	inherit_lent(t, &now);
	return now.fixed.prio;
}

struct pi_locker {
	struct thread *th;
	unsigned int i, at, then; /* words */
	uint8_t prio;
	int ret, ret2;
};

static void pi_locker_main(void *arg)
{
	struct pi_locker *l = arg;
	struct futex_word w = word(l->at), w2 = word(l->then);
	struct task *t = be_task(l->i);

	set_priority(t, l->prio);
	l->ret = futex_lock_pi(&w, WAIT_FOREVER, false);
	if (l->then != l->at)
		l->ret2 = futex_lock_pi(&w2, WAIT_FOREVER, false);
	if (!l->ret2 && l->then != l->at)
		l->ret2 = futex_unlock_pi(&w2);
	if (!l->ret)
		l->ret = futex_unlock_pi(&w);
}

static void pi_start(struct pi_locker *l, const struct task *top, unsigned int prio)
{
	l->th = thread_create("locker", pi_locker_main, l);
	while (lent_to(top) != prio)
		thread_yield();
}

static void priority_is_lent_through_a_chain(struct ktest *t)
{
	struct pi_locker l[3] = { { .i = 1, .at = 1, .then = 0, .prio = 2 },
				  { .i = 2, .at = 2, .then = 1, .prio = 3 },
				  { .i = 3, .at = 2, .then = 2, .prio = 9 } };
	struct futex_word w[3];
	struct task *me;

	start();
	me = be_task(0);
	for (unsigned int i = 0; i < 3; i++)
		w[i] = word(i);
	EXPECT_EQ(t, futex_lock_pi(&w[0], WAIT_FOREVER, false), 0);
	EXPECT_EQ(t, words[0], FIRST_TID);
	EXPECT_EQ(t, futex_lock_pi(&w[0], WAIT_FOREVER, false), -EDEADLK);
	pi_start(&l[0], me, 2);
	EXPECT_EQ(t, words[0], FUTEX_WAITERS | FIRST_TID);
	EXPECT_EQ(t, futex_wake(&w[0].key, 1, FUTEX_BITSET_MATCH_ANY), -EINVAL);
	EXPECT_EQ(t, futex_lock_pi(&w[1], WAIT_FOREVER, false), -EDEADLK);
	EXPECT_EQ(t, futex_lock_pi(&w[1], 0, true), -EAGAIN);
	pi_start(&l[1], me, 3);
	EXPECT_EQ(t, futex_lock_pi(&w[2], WAIT_FOREVER, false), -EDEADLK);
	pi_start(&l[2], me, 9);
	EXPECT_EQ(t, lent_to(&tasks[1]), 9);
	EXPECT_EQ(t, lent_to(&tasks[2]), 9);
	set_priority(&tasks[3], 5);
	EXPECT_EQ(t, lent_to(me), 5);
	EXPECT_EQ(t, futex_unlock_pi(&w[0]), 0);
	EXPECT_EQ(t, lent_to(me), 0);
	for (int i = 0; i < 3; i++) {
		thread_join(l[i].th);
		EXPECT_EQ(t, l[i].ret, 0);
		EXPECT_EQ(t, l[i].ret2, 0);
	}
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(t, words[i] & FUTEX_TID_MASK, 0);
}

static void words_that_do_not_fit(struct ktest *t)
{
	struct futex_word w;
	struct sleeper s;

	start();
	(void)be_task(0);
	w = word(0);
	words[0] = 7;
	EXPECT_EQ(t, futex_lock_pi(&w, WAIT_FOREVER, false), -ESRCH);
	EXPECT_EQ(t, words[0], FUTEX_WAITERS | 7);
	words[0] = INIT_PID;
	EXPECT_EQ(t, futex_lock_pi(&w, WAIT_FOREVER, false), -EPERM);
	EXPECT_EQ(t, futex_unlock_pi(&w), -EPERM);
	words[0] = FUTEX_OWNER_DIED;
	EXPECT_EQ(t, futex_lock_pi(&w, WAIT_FOREVER, false), 0);
	EXPECT_EQ(t, words[0], FUTEX_OWNER_DIED | FIRST_TID);
	EXPECT_EQ(t, futex_unlock_pi(&w), 0);
	EXPECT_EQ(t, words[0], 0);
	sleeper_start(&s, 0, FUTEX_BITSET_MATCH_ANY);
	EXPECT_EQ(t, futex_lock_pi(&w, WAIT_FOREVER, false), -EINVAL);
	EXPECT_EQ(t, futex_wake(&w.key, 1, FUTEX_BITSET_MATCH_ANY), 1);
	thread_join(s.th);
	shim_fail_alloc_after(0);
	EXPECT_EQ(t, futex_lock_pi(&w, WAIT_FOREVER, false), -ENOMEM);
	shim_fail_alloc_after(-1);
	shim_user_bad(&words[0], sizeof(words));
	EXPECT_EQ(t, futex_lock_pi(&w, WAIT_FOREVER, false), -EFAULT);
	EXPECT_EQ(t, futex_unlock_pi(&w), -EFAULT);
	shim_user_bad(NULL, 0);
}

/* As an owner that ends lets go of a word: without the bucket's lock, between two looks at it. */
static void let_go(uint32_t *at)
{
	shim_user_changed = NULL;
	*at = FUTEX_OWNER_DIED | FUTEX_WAITERS;
}

/* A task that waits gets a mutex whose owner ends, and marks it; nothing is left of it. */
static void owners_end(struct ktest *t)
{
	struct pi_locker l[2] = { { .i = 1, .prio = 4 }, { .i = 2, .prio = 6 } };
	const size_t allocs = shim_allocs_live();
	struct futex_word w;
	struct task *me;

	start();
	me = be_task(0);
	w = word(0);
	EXPECT_EQ(t, futex_lock_pi(&w, WAIT_FOREVER, false), 0);
	pi_start(&l[0], me, 4);
	pi_start(&l[1], me, 6);
	futex_pi_release(me, true);
	EXPECT_EQ(t, lent_to(me), 0);
	for (int i = 0; i < 2; i++) {
		thread_join(l[i].th);
		EXPECT_EQ(t, l[i].ret, 0);
	}
	EXPECT_EQ(t, words[0], 0);
	words[0] = FIRST_TID; /* it has ended */
	(void)be_task(3);
	EXPECT_EQ(t, futex_lock_pi(&w, 0, false), -ESRCH);
	words[0] = FIRST_TID;
	shim_user_changed = let_go; /* just after the word has been found */
	EXPECT_EQ(t, futex_lock_pi(&w, 0, false), 0);
	EXPECT_EQ(t, words[0], FUTEX_OWNER_DIED | (FIRST_TID + 3));
	EXPECT_EQ(t, futex_unlock_pi(&w), 0);
	EXPECT_EQ(t, shim_allocs_live(), allocs);
}

static uint64_t given_up; /* atomic */

/* Tasks that come with and without a time, and with priorities of four kinds. */
static void pi_counter_main(void *arg)
{
	const struct futex_word w = word(2);
	struct task *t = be_task((unsigned int)(uintptr_t)arg);

	set_priority(t, (uint8_t)(t->tid % 4));
	for (int i = 0; i < ROUNDS / 4; i++) {
		const uint64_t until = i % 8 ? WAIT_FOREVER : time_now_ns() + MS / 100;

		if (futex_lock_pi(&w, until, false)) {
			__atomic_add_fetch(&given_up, 1, __ATOMIC_RELAXED);
			continue;
		}
		counted++;
		if (i % 32 == 0)
			thread_yield();
		BUG_ON(futex_unlock_pi(&w));
	}
}

static void no_mutex_is_lost(struct ktest *t)
{
	const size_t allocs = shim_allocs_live();
	struct thread *th[LOCKERS];

	start();
	counted = given_up = 0;
	for (uintptr_t i = 0; i < LOCKERS; i++)
		th[i] = thread_create("counter", pi_counter_main, (void *)i);
	for (int i = 0; i < LOCKERS; i++)
		thread_join(th[i]);
	EXPECT_EQ(t, counted + given_up, (uint64_t)LOCKERS * (ROUNDS / 4));
	EXPECT_LE(t, given_up, (uint64_t)LOCKERS * (ROUNDS / 4 / 8 + 1));
	EXPECT_EQ(t, words[2], 0);
	EXPECT_EQ(t, shim_allocs_live(), allocs);
}

struct mover {
	struct thread *th;
	unsigned int i;
	int ret;
};

static void mover_main(void *arg)
{
	const struct futex_word a = word(0), b = word(1);
	struct mover *m = arg;

	set_priority(be_task(m->i), (uint8_t)m->i);
	m->ret = futex_wait_requeue_pi(&a, 0, &b, WAIT_FOREVER);
	if (!m->ret)
		m->ret = futex_unlock_pi(&b);
}

/* They wait at a word, and cannot be just woken: that answers -EINVAL from then on. */
static void movers_start(struct mover *m, unsigned int nr)
{
	const struct futex_word a = word(0);

	for (unsigned int i = 0; i < nr; i++) {
		m[i].i = i + 1;
		m[i].th = thread_create("mover", mover_main, &m[i]);
		while (!shim_thread_waits_killable(m[i].th))
			thread_yield();
	}
	while (futex_wake(&a.key, 1, FUTEX_BITSET_MATCH_ANY) != -EINVAL)
		thread_yield();
}

static void waiters_move_to_a_mutex(struct ktest *t)
{
	const size_t allocs = shim_allocs_live();
	struct futex_word a, b, c;
	struct mover m[3];
	struct task *me;

	start();
	me = be_task(0);
	a = word(0);
	b = word(1);
	c = word(3);
	EXPECT_EQ(t, futex_requeue_pi(&a, &b, 9, 0), 0);
	EXPECT_EQ(t, futex_requeue_pi(&a, &a, 9, 0), -EINVAL);
	movers_start(m, 3);
	EXPECT_EQ(t, futex_requeue_pi(&a, &b, 9, 1), -EAGAIN);
	EXPECT_EQ(t, futex_requeue_pi(&a, &c, 9, 0), -EINVAL);
	EXPECT_EQ(t, futex_requeue(&a, &b, 1, 1, NULL), -EINVAL);
	EXPECT_EQ(t, futex_lock_pi(&b, WAIT_FOREVER, false), 0);
	EXPECT_EQ(t, futex_requeue_pi(&a, &b, 0, 0), 1); /* one at least */
	EXPECT_EQ(t, futex_requeue_pi(&a, &b, 9, 0), 2);
	EXPECT_EQ(t, words[1], FUTEX_WAITERS | FIRST_TID);
	EXPECT_EQ(t, lent_to(me), 3);
	EXPECT_EQ(t, futex_unlock_pi(&b), 0);
	for (int i = 0; i < 3; i++) {
		thread_join(m[i].th);
		EXPECT_EQ(t, m[i].ret, 0);
	}
	EXPECT_EQ(t, words[1], 0);
	/* The mutex is free: the first has it at once. */
	movers_start(m, 2);
	EXPECT_EQ(t, futex_requeue_pi(&a, &b, 9, 0), 2);
	for (int i = 0; i < 2; i++) {
		thread_join(m[i].th);
		EXPECT_EQ(t, m[i].ret, 0);
	}
	EXPECT_EQ(t, words[1], 0);
	/* A signal: before it has been moved, and after that. */
	movers_start(m, 1);
	thread_notify(m[0].th, THREAD_F_SIGNAL);
	thread_join(m[0].th);
	EXPECT_EQ(t, m[0].ret, -EINTR);
	movers_start(m, 1);
	EXPECT_EQ(t, futex_lock_pi(&b, WAIT_FOREVER, false), 0);
	EXPECT_EQ(t, futex_requeue_pi(&a, &b, 9, 0), 1);
	thread_notify(m[0].th, THREAD_F_SIGNAL);
	thread_join(m[0].th);
	EXPECT_EQ(t, m[0].ret, -EAGAIN);
	EXPECT_EQ(t, futex_unlock_pi(&b), 0);
	EXPECT_EQ(t, words[1], 0);
	EXPECT_EQ(t, shim_allocs_live(), allocs);
}

static const struct ktest_case futex_cases[] = {
	KTEST(waits_and_wakes),
	KTEST(requeues),
	KTEST(wake_op),
	KTEST(words_that_are_not_there),
	KTEST(no_wake_up_is_lost),
	KTEST(priority_is_lent_through_a_chain),
	KTEST(words_that_do_not_fit),
	KTEST(owners_end),
	KTEST(no_mutex_is_lost),
	KTEST(waiters_move_to_a_mutex),
	{ 0 },
};
static const struct ktest_suite futex_suite = { .name = "ipc.futex", .cases = futex_cases };
KTEST_SUITE(futex_suite);
