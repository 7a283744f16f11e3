/* SPDX-License-Identifier: MIT */
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <processor/account/account.h>

#include "queue_private.h"

#define UID 4711

static const struct sig_charge charge = { .uid = UID, .limit = 4 };

static struct linux_siginfo info_of(int signo, int code, uint64_t value)
{
	return (struct linux_siginfo){ .signo = signo, .code = code, .value = value };
}

static int add(struct sigqueue *q, int signo, int code, uint64_t value)
{
	const struct linux_siginfo info = info_of(signo, code, value);

	return sigqueue_add(q, &info, &charge);
}

static void standard_signals_coalesce(struct ktest *t)
{
	struct linux_siginfo got;
	struct sigqueue q;

	sigqueue_init(&q);
	EXPECT_EQ(t, add(&q, SIGUSR1, SI_QUEUE, 1), 0);
	EXPECT_EQ(t, add(&q, SIGUSR1, SI_QUEUE, 2), 0);
	EXPECT_EQ(t, sig_account_count(UID), 1);
	EXPECT_TRUE(t, sigqueue_take(&q, SIGUSR1, &got) == NULL);
	EXPECT_EQ(t, got.value, 1); /* the first one's word counts */
	EXPECT_EQ(t, q.set, 0);
	EXPECT_EQ(t, sig_account_count(UID), 0);
}

static void realtime_signals_queue_in_order(struct ktest *t)
{
	struct linux_siginfo got;
	struct sigqueue q;

	sigqueue_init(&q);
	for (uint64_t i = 0; i < 3; i++) {
		EXPECT_EQ(t, add(&q, SIGRTMIN + 1, SI_QUEUE, i), 0);
		if (i == 1)
			EXPECT_EQ(t, add(&q, SIGRTMIN, SI_QUEUE, 100), 0);
	}
	EXPECT_EQ(t, sigqueue_first(&q, UINT64_MAX), SIGRTMIN);
	EXPECT_EQ(t, sigqueue_first(&q, ~SIGMASK(SIGRTMIN)), SIGRTMIN + 1);
	EXPECT_EQ(t, sigqueue_first(&q, SIGMASK(SIGUSR1)), 0);
	for (uint64_t i = 0; i < 3; i++) {
		EXPECT_EQ(t, q.set, SIGMASK(SIGRTMIN) | SIGMASK(SIGRTMIN + 1));
		(void)sigqueue_take(&q, SIGRTMIN + 1, &got);
		EXPECT_EQ(t, got.value, i);
	}
	EXPECT_EQ(t, q.set, SIGMASK(SIGRTMIN));
	sigqueue_drop(&q, UINT64_MAX);
	EXPECT_EQ(t, q.set, 0);
	EXPECT_EQ(t, sig_account_count(UID), 0);
}

static void faults_come_first(struct ktest *t)
{
	struct sigqueue q;

	sigqueue_init(&q);
	EXPECT_EQ(t, add(&q, SIGHUP, SI_USER, 0), 0);
	EXPECT_EQ(t, add(&q, SIGSEGV, SEGV_MAPERR, 0), 0);
	EXPECT_EQ(t, add(&q, SIGILL, SI_KERNEL, 0), 0);
	EXPECT_EQ(t, sigqueue_first(&q, UINT64_MAX), SIGILL);
	EXPECT_EQ(t, sigqueue_first(&q, ~SIGMASK(SIGILL)), SIGSEGV);
	sigqueue_drop(&q, SIGMASK(SIGILL) | SIGMASK(SIGSEGV));
	EXPECT_EQ(t, sigqueue_first(&q, UINT64_MAX), SIGHUP);
	sigqueue_drop(&q, UINT64_MAX);
}

static void the_limit_is_the_users(struct ktest *t)
{
	struct sigqueue a, b;
	struct linux_siginfo got;

	sigqueue_init(&a);
	sigqueue_init(&b);
	for (uint64_t i = 0; i < charge.limit; i++)
		EXPECT_EQ(t, add(i & 1 ? &a : &b, SIGRTMIN, SI_QUEUE, i), 0);
	EXPECT_EQ(t, add(&a, SIGRTMIN, SI_QUEUE, 9), -EAGAIN);
	EXPECT_EQ(t, add(&a, SIGRTMIN + 1, SI_TKILL, 9), -EAGAIN);
	EXPECT_EQ(t, a.set, SIGMASK(SIGRTMIN));
	/*
	 * kill() gets through: a real-time signal loses what is said about it, a standard one does
	 * not.
	 */
	EXPECT_EQ(t, add(&a, SIGRTMIN + 2, SI_USER, 5), 0);
	EXPECT_EQ(t, sig_account_count(UID), charge.limit);
	(void)sigqueue_take(&a, SIGRTMIN + 2, &got);
	EXPECT_EQ(t, got.signo, SIGRTMIN + 2);
	EXPECT_EQ(t, got.value, 0);
	EXPECT_EQ(t, add(&a, SIGUSR1, SI_USER, 5), 0);
	EXPECT_EQ(t, sig_account_count(UID), charge.limit + 1);
	EXPECT_EQ(t, add(&a, SIGUSR2, SI_QUEUE, 6), 0); /* but what sigqueue() says is lost */
	(void)sigqueue_take(&a, SIGUSR2, &got);
	EXPECT_EQ(t, got.value, 0);
	sigqueue_drop(&a, UINT64_MAX);
	sigqueue_drop(&b, UINT64_MAX);
	EXPECT_EQ(t, sig_account_count(UID), 0);
}

static void timers_keep_their_entry(struct ktest *t)
{
	struct ptimer *const timer = (struct ptimer *)&(uint64_t){ 0 };
	struct sigentry *e = sigentry_alloc(&charge, false);
	struct linux_siginfo got;
	struct sigqueue q;

	ASSERT_TRUE(t, e != NULL);
	sigqueue_init(&q);
	e->timer = timer;
	e->info = info_of(SIGALRM, SI_TIMER, 3);
	sigqueue_add_timer(&q, e);
	EXPECT_EQ(t, add(&q, SIGRTMIN, SI_QUEUE, 0), 0);
	EXPECT_TRUE(t, sigqueue_take(&q, SIGALRM, &got) == timer);
	EXPECT_EQ(t, got.value, 3);
	EXPECT_EQ(t, q.set, SIGMASK(SIGRTMIN));
	sigqueue_remove_timer(e); /* not queued: nothing happens */
	sigqueue_add_timer(&q, e);
	sigqueue_remove_timer(e);
	EXPECT_EQ(t, q.set, SIGMASK(SIGRTMIN));
	sigqueue_drop(&q, UINT64_MAX);
	EXPECT_EQ(t, sig_account_count(UID), 1);
	sigentry_free(e);
	EXPECT_EQ(t, sig_account_count(UID), 0);
	e = sigentry_alloc(&(struct sig_charge){ .uid = UID, .limit = 0 }, false);
	EXPECT_TRUE(t, e == NULL);
}

/* The receiver's program is at its limit: what carries a value is refused, kill() gets through. */
static void the_program_is_charged(struct ktest *t)
{
	struct kmem_account *a = kmem_account_create();
	const struct sig_charge c = { .uid = UID, .limit = 1000, .kmem = a };
	struct linux_siginfo info = info_of(SIGRTMIN, SI_QUEUE, 1);
	struct sigqueue q;
	uint64_t nr = 0;
	int err;

	sigqueue_init(&q);
	kmem_account_set_limits(4096, 0);
	while (!(err = sigqueue_add(&q, &info, &c)))
		nr++;
	EXPECT_EQ(t, err, -EAGAIN);
	EXPECT_GT(t, nr, 10u);
	EXPECT_LT(t, nr, 100u);
	info = info_of(SIGTERM, SI_USER, 0);
	EXPECT_EQ(t, sigqueue_add(&q, &info, &c), 0);
	EXPECT_EQ(t, sig_account_count(UID), nr); /* without an entry */
	(void)sigqueue_take(&q, SIGRTMIN, &info);
	info = info_of(SIGRTMIN, SI_QUEUE, 1);
	EXPECT_EQ(t, sigqueue_add(&q, &info, &c), 0);
	EXPECT_EQ(t, sigqueue_add(&q, &info, &c), -EAGAIN);
	sigqueue_drop(&q, UINT64_MAX);
	EXPECT_EQ(t, kmem_charged(a), 0u);
	kmem_account_put(a);
	kmem_account_set_limits(UINT64_MAX, 0);
}

static const struct ktest_case queue_cases[] = {
	KTEST(standard_signals_coalesce),
	KTEST(realtime_signals_queue_in_order),
	KTEST(faults_come_first),
	KTEST(the_limit_is_the_users),
	KTEST(timers_keep_their_entry),
	KTEST(the_program_is_charged),
	{ 0 },
};
static const struct ktest_suite queue_suite = { .name = "signal.queue", .cases = queue_cases };
KTEST_SUITE(queue_suite);
