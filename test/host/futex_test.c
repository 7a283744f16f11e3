/* SPDX-License-Identifier: MIT */
/*
 * Futexes between real threads: counts, bit sets, requeueing, WAKE_OP, faults, and no wake-up lost.
 */
#include <stdlib.h>

#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <processor/ipc/futex.h>
#include <shim/pgtable.h>

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

static const struct ktest_case futex_cases[] = {
	KTEST(waits_and_wakes),          KTEST(requeues),           KTEST(wake_op),
	KTEST(words_that_are_not_there), KTEST(no_wake_up_is_lost), { 0 },
};
static const struct ktest_suite futex_suite = { .name = "ipc.futex", .cases = futex_cases };
KTEST_SUITE(futex_suite);
