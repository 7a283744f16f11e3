/* SPDX-License-Identifier: MIT */
/*
 * The lock table: ranges against arrays, kinds that do not see each other, waits, deadlocks, and
 * nothing left.
 */
#include <kernel/thread.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <shim/shim.h>

#include "ipc_fake.h"
#include <processor/ipc/filelock.h>

#define BYTES  48
#define OWNERS 3

static struct file file_of(uint64_t ino)
{
	return (struct file){ .attr.file = { .ino = ino, .node = 1 } };
}

static const char owners[OWNERS];

static struct lock_req request(enum lock_kind kind, enum lock_type type, int owner, int64_t start,
			       int64_t len)
{
	return (struct lock_req){ .kind = kind,
				  .type = type,
				  .owner = &owners[owner],
				  .pid = (uint32_t)owner,
				  .start = start,
				  .end = len ? start + len - 1 : INT64_MAX };
}

static int set(struct file *f, enum lock_kind kind, enum lock_type type, int owner, int64_t start,
	       int64_t len)
{
	const struct lock_req req = request(kind, type, owner, start, len);

	return filelock_set(f, &req, false);
}

static bool fits(uint8_t held[OWNERS][BYTES], int owner, enum lock_type type, int64_t start,
		 int64_t len)
{
	for (int o = 0; o < OWNERS; o++) {
		for (int64_t i = start; o != owner && i < start + len; i++) {
			if (held[o][i] == 2 || (held[o][i] && type == LOCK_WRITE))
				return false;
		}
	}
	return true;
}

static void ranges_against_arrays(struct ktest *t)
{
	static const enum lock_kind kinds[OWNERS] = { LOCK_POSIX, LOCK_OFD, LOCK_POSIX };
	uint8_t held[OWNERS][BYTES] = { { 0 } };
	struct file f = file_of(1), other = file_of(2);
	struct prng rnd;

	prng_seed(&rnd, 7);
	for (int i = 0; i < 20000; i++) {
		const int o = (int)prng_below(&rnd, OWNERS);
		const enum lock_type type = (enum lock_type)prng_below(&rnd, 3);
		const int64_t start = (int64_t)prng_below(&rnd, BYTES);
		const int64_t len = 1 + (int64_t)prng_below(&rnd, (uint64_t)(BYTES - start));
		const bool ok = type == LOCK_NONE || fits(held, o, type, start, len);
		struct lock_req found;
		const struct lock_req req = request(kinds[o], type, o, start, len);

		if (type != LOCK_NONE)
			EXPECT_EQ(t, filelock_test(&f, &req, &found), !ok);
		EXPECT_EQ(t, set(&f, kinds[o], type, o, start, len), ok ? 0 : -EAGAIN);
		EXPECT_EQ(t, filelock_test(&other, &req, &found), false);
		if (ok)
			memset(&held[o][start], type == LOCK_NONE ? 0 : (int)type + 1, (size_t)len);
	}
	for (int o = 0; o < OWNERS; o++)
		filelock_drop(&f, &owners[o]);
	EXPECT_EQ(t, filelock_count(), 0u);
	EXPECT_FALSE(t, filelock_any_posix());
}

static void kinds(struct ktest *t)
{
	struct file f = file_of(1);

	EXPECT_EQ(t, set(&f, LOCK_FLOCK, LOCK_WRITE, 0, 0, 0), 0);
	EXPECT_EQ(t, set(&f, LOCK_POSIX, LOCK_WRITE, 1, 0, 0), 0);
	EXPECT_EQ(t, set(&f, LOCK_OFD, LOCK_READ, 2, 0, 1), -EAGAIN);
	EXPECT_EQ(t, set(&f, LOCK_FLOCK, LOCK_READ, 1, 0, 0), -EAGAIN);
	/* A change of kind gives up what it had. */
	EXPECT_EQ(t, set(&f, LOCK_FLOCK, LOCK_READ, 0, 0, 0), 0);
	EXPECT_EQ(t, set(&f, LOCK_FLOCK, LOCK_READ, 1, 0, 0), 0);
	EXPECT_EQ(t, set(&f, LOCK_FLOCK, LOCK_WRITE, 0, 0, 0), -EAGAIN);
	EXPECT_EQ(t, set(&f, LOCK_FLOCK, LOCK_WRITE, 1, 0, 0), 0);
	filelock_drop(&f, &owners[1]);
	EXPECT_EQ(t, filelock_count(), 0u);
}

static void without_memory(struct ktest *t)
{
	struct file f = file_of(1);

	shim_fail_alloc_after(0);
	EXPECT_EQ(t, set(&f, LOCK_POSIX, LOCK_READ, 0, 0, 0), -ENOLCK);
	shim_fail_alloc_after(-1);
	EXPECT_EQ(t, set(&f, LOCK_POSIX, LOCK_READ, 0, 0, 100), 0);
	shim_fail_alloc_after(0);
	EXPECT_EQ(t, set(&f, LOCK_POSIX, LOCK_NONE, 0, 10, 10), -ENOLCK);
	EXPECT_EQ(t, set(&f, LOCK_POSIX, LOCK_WRITE, 1, 50, 1), -EAGAIN); /* it is still there */
	EXPECT_EQ(t, set(&f, LOCK_POSIX, LOCK_NONE, 0, 0, 0), 0);
	shim_fail_alloc_after(-1);
	EXPECT_EQ(t, filelock_count(), 0u);
}

struct waiting {
	struct file *f;
	struct lock_req req;
	struct thread *th;
	int ret; /* atomic; 1: not yet */
};

static void waiting_main(void *arg)
{
	struct waiting *w = arg;

	WRITE_ONCE(w->ret, filelock_set(w->f, &w->req, true));
}

static void wait_start(struct waiting *w, struct file *f, const struct lock_req req)
{
	const uint64_t before = filelock_waiting();

	*w = (struct waiting){ .f = f, .req = req, .ret = 1 };
	w->th = thread_create("waiter", waiting_main, w);
	while (filelock_waiting() == before)
		thread_yield();
}

static void waits(struct ktest *t)
{
	struct file f = file_of(1);
	struct waiting a, b;

	EXPECT_EQ(t, set(&f, LOCK_POSIX, LOCK_WRITE, 0, 0, 10), 0);
	wait_start(&a, &f, request(LOCK_POSIX, LOCK_WRITE, 1, 5, 1));
	wait_start(&b, &f, request(LOCK_POSIX, LOCK_READ, 2, 9, 5));
	EXPECT_EQ(t, set(&f, LOCK_POSIX, LOCK_READ, 0, 0, 10), 0); /* lets readers in */
	thread_join(b.th);
	EXPECT_EQ(t, b.ret, 0);
	EXPECT_EQ(t, READ_ONCE(a.ret), 1);
	filelock_drop(&f, &owners[0]);
	thread_join(a.th);
	EXPECT_EQ(t, a.ret, 0);
	wait_start(&b, &f, request(LOCK_POSIX, LOCK_WRITE, 0, 5, 1));
	thread_notify(b.th, THREAD_F_SIGNAL);
	thread_join(b.th);
	EXPECT_EQ(t, b.ret, -EINTR);
	filelock_drop(&f, &owners[1]);
	filelock_drop(&f, &owners[2]);
	EXPECT_EQ(t, filelock_count(), 0u);
}

/* 0 waits for 1, 1 for 2, on different files; 2 for 0 would be a ring. */
static void deadlocks(struct ktest *t)
{
	struct file f[3] = { file_of(1), file_of(2), file_of(3) };
	struct lock_req last = request(LOCK_POSIX, LOCK_WRITE, 2, 0, 1);
	struct waiting w[2];

	for (int i = 0; i < 3; i++)
		EXPECT_EQ(t, set(&f[i], LOCK_POSIX, LOCK_WRITE, i, 0, 1), 0);
	for (int i = 0; i < 2; i++)
		wait_start(&w[i], &f[i + 1], request(LOCK_POSIX, LOCK_WRITE, i, 0, 1));
	EXPECT_EQ(t, filelock_set(&f[0], &last, true), -EDEADLK);
	EXPECT_EQ(t, READ_ONCE(w[0].ret), 1);
	filelock_drop(&f[2], &owners[2]);
	thread_join(w[1].th);
	filelock_drop(&f[1], &owners[1]);
	thread_join(w[0].th);
	for (int i = 0; i < 3; i++) {
		for (int o = 0; o < OWNERS; o++)
			filelock_drop(&f[i], &owners[o]);
	}
	EXPECT_EQ(t, filelock_count(), 0u);
}

static const struct ktest_case filelock_cases[] = {
	KTEST(ranges_against_arrays),
	KTEST(kinds),
	KTEST(without_memory),
	KTEST(waits),
	KTEST(deadlocks),
	{ 0 },
};
static const struct ktest_suite filelock_suite = { .name = "ipc.filelock",
						   .cases = filelock_cases };
KTEST_SUITE(filelock_suite);
