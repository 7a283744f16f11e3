/* SPDX-License-Identifier: MIT */
/*
 * Pipes: bytes against a queue, records of several threads, sizes, ends, limits; no page and no
 * slot left behind. No wake-up is lost with a thread that is killed.
 */
#include <stdlib.h>

#include <kernel/thread.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <processor/ipc/pipe.h>
#include <processor/vfs/uio.h>
#include <shim/shim.h>

#include "ipc_fake.h"

#define MS 1000000ull

static ssize_t get(struct file *f, void *buf, size_t len)
{
	struct uio u;
	uint64_t pos = 0;

	uio_kernel(&u, buf, len);
	return f->ops->read(f, &u, &pos);
}

static ssize_t put(struct file *f, void *buf, size_t len)
{
	struct uio u;
	uint64_t pos = 0;

	uio_kernel(&u, buf, len);
	return f->ops->write(f, &u, &pos);
}

static void bytes_against_a_queue(struct ktest *t)
{
	static uint8_t buf[100000], queue[1 << 21];
	const uint64_t frames = frames_free_count();
	size_t head = 0, tail = 0;
	struct file *ends[2];
	struct prng rnd;

	fake_task(1000);
	prng_seed(&rnd, 3);
	ASSERT_EQ(t, pipe_open(O_NONBLOCK, ends), 0);
	for (int i = 0; i < 30000 && head < sizeof(queue) - sizeof(buf); i++) {
		const size_t n = 1 + prng_below(&rnd, i % 20 ? 300 : sizeof(buf));
		ssize_t ret;

		switch (prng_below(&rnd, 16)) {
		case 0: /* any size that holds what is there, or -EBUSY */
			ret = pipe_set_size(pipe_of(ends[0]), 1 + prng_below(&rnd, 1 << 18));
			EXPECT_TRUE(t, ret == -EBUSY || ret >= 4096);
			break;
		case 1 ... 8:
			for (size_t k = 0; k < n; k++)
				buf[k] = (uint8_t)prng_next(&rnd);
			ret = put(ends[1], buf, n);
			if (ret > 0)
				memcpy(queue + head, buf, (size_t)ret);
			head += ret > 0 ? (size_t)ret : 0;
			EXPECT_TRUE(t, ret > 0 || ret == -EAGAIN);
			break;
		default:
			ret = get(ends[0], buf, n);
			EXPECT_EQ(t, ret, tail == head ? -EAGAIN : (ssize_t)MIN(n, head - tail));
			if (ret > 0)
				EXPECT_EQ(t, memcmp(buf, queue + tail, (size_t)ret), 0);
			tail += ret > 0 ? (size_t)ret : 0;
			break;
		}
	}
	EXPECT_GT(t, head, (size_t)1 << 20);
	file_put(ends[0]);
	EXPECT_EQ(t, put(ends[1], buf, 1), -EPIPE);
	file_put(ends[1]);
	EXPECT_EQ(t, frames_free_count(), frames);
	EXPECT_EQ(t, pipe_slots_charged(), 0u);
}

#define WRITERS 4
#define RECORDS 2000

struct record {
	uint16_t len, writer;
	uint32_t number;
};

static struct file *shared[2];
static unsigned int bad, seen; /* atomic */

static void writer_main(void *arg)
{
	uint8_t buf[512];
	struct record *r = (struct record *)buf;
	struct prng rnd;

	fake_task(1);
	prng_seed(&rnd, (uint64_t)(uintptr_t)arg);
	for (uint32_t i = 0; i < RECORDS; i++) {
		*r = (struct record){ .len = (uint16_t)(16 * (1 + prng_below(&rnd, 32))),
				      .writer = (uint16_t)(uintptr_t)arg,
				      .number = i };
		memset(r + 1, (int)(i ^ r->writer), r->len - sizeof(*r));
		if (put(shared[1], r, r->len) != r->len)
			__atomic_add_fetch(&bad, 1, __ATOMIC_RELAXED);
	}
}

static void records_stay_whole(struct ktest *t)
{
	uint32_t next[WRITERS] = { 0 };
	struct thread *th[WRITERS];
	uint8_t buf[512];
	const struct record *r = (const struct record *)buf;

	fake_task(1);
	bad = 0;
	ASSERT_EQ(t, pipe_open(0, shared), 0);
	EXPECT_EQ(t, pipe_set_size(pipe_of(shared[0]), 8192), 8192);
	for (uintptr_t i = 0; i < WRITERS; i++)
		th[i] = thread_create("writer", writer_main, (void *)i);
	for (int n = 0; n < WRITERS * RECORDS; n++) {
		EXPECT_EQ(t, get(shared[0], buf, 16), 16);
		if (r->len > 16)
			EXPECT_EQ(t, get(shared[0], buf + 16, r->len - 16u), r->len - 16);
		ASSERT_TRUE(t, r->writer < WRITERS);
		EXPECT_EQ(t, r->number, next[r->writer]++);
		EXPECT_EQ(t, buf[r->len - 1], (uint8_t)(r->number ^ r->writer));
	}
	for (int i = 0; i < WRITERS; i++)
		thread_join(th[i]);
	EXPECT_EQ(t, bad, 0u);
	file_put(shared[0]);
	file_put(shared[1]);
}

static void reader_main(void *arg)
{
	uint8_t byte;

	fake_task(1);
	if (get(shared[0], &byte, 1) == 1)
		__atomic_add_fetch(&seen, 1, __ATOMIC_RELAXED);
}

/*
 * One write wakes one reader; the others are woken by it, as long as there is something; the last
 * one sees the end.
 */
static void readers_wake_each_other(struct ktest *t)
{
	struct thread *th[6];
	uint8_t buf[5] = { 0 };

	fake_task(1);
	for (int round = 0; round < 20; round++) {
		seen = 0;
		ASSERT_EQ(t, pipe_open(0, shared), 0);
		for (int i = 0; i < 6; i++)
			th[i] = thread_create("reader", reader_main, NULL);
		thread_sleep_ns(MS);
		EXPECT_EQ(t, put(shared[1], buf, sizeof(buf)), 5);
		while (READ_ONCE(seen) < 5)
			thread_yield();
		file_put(shared[1]);
		for (int i = 0; i < 6; i++)
			thread_join(th[i]);
		EXPECT_EQ(t, seen, 5u);
		file_put(shared[0]);
	}
}

/* Until somebody has filled it. */
static void wait_until_full(struct file *f)
{
	while (f->ops->poll(f) & POLLOUT)
		thread_yield();
}

static void blocked_main(void *arg)
{
	static uint8_t big[200000];

	fake_task(1);
	*(ssize_t *)arg = put(shared[1], big, sizeof(big));
}

static void ends_are_seen(struct ktest *t)
{
	struct thread *th;
	ssize_t ret = 0;

	fake_task(1);
	fake_sigpipes = 0;
	ASSERT_EQ(t, pipe_open(0, shared), 0);
	th = thread_create("blocked", blocked_main, &ret);
	wait_until_full(shared[1]);
	file_put(shared[0]);
	thread_join(th);
	EXPECT_EQ(t, ret, 65536);
	EXPECT_EQ(t, fake_sigpipes, 1u);
	file_put(shared[1]);
	ASSERT_EQ(t, pipe_open(0, shared), 0);
	th = thread_create("blocked", blocked_main, &ret);
	wait_until_full(shared[1]);
	thread_notify(th, THREAD_F_SIGNAL);
	thread_join(th);
	EXPECT_EQ(t, ret, 65536); /* what was moved before the signal */
	file_put(shared[0]);
	file_put(shared[1]);
}

static void out_of_memory(struct ktest *t)
{
	uint8_t buf[5000] = { 0 };
	struct file *ends[2];

	fake_task(1);
	for (long n = 0; n < 5; n++) {
		shim_fail_alloc_after(n);
		/* The pipe and its ring, as Linux; then the files. */
		EXPECT_EQ(t, pipe_open(0, ends), n < 3 ? -ENFILE : -ENOMEM);
	}
	shim_fail_alloc_after(-1);
	ASSERT_EQ(t, pipe_open(0, ends), 0);
	shim_fail_frame_after(1);
	EXPECT_EQ(t, put(ends[1], buf, sizeof(buf)), 4096);
	EXPECT_EQ(t, put(ends[1], buf, 1), -ENOMEM);
	shim_fail_frame_after(-1);
	EXPECT_EQ(t, get(ends[0], buf, sizeof(buf)), 4096);
	file_put(ends[0]);
	file_put(ends[1]);
	EXPECT_EQ(t, pipe_slots_charged(), 0u);
}

static void limits(struct ktest *t)
{
	const uint64_t hard = frames_total_count() / 4;
	static struct file *ends[20000][2];
	uint64_t n = 0;
	int err;

	fake_task(0);
	while (n < ARRAY_SIZE(ends) && (err = pipe_open(0, ends[n])) == 0)
		n++;
	EXPECT_EQ(t, err, -ENFILE);
	EXPECT_GT(t, n, hard / 16); /* the later ones are small */
	EXPECT_LE(t, pipe_slots_charged(), hard);
	EXPECT_EQ(t, pipe_size(pipe_of(ends[0][0])), 65536);
	EXPECT_EQ(t, pipe_size(pipe_of(ends[n - 1][0])), 8192);
	EXPECT_EQ(t, pipe_set_size(pipe_of(ends[n - 1][0]), 65536), -ENOMEM);
	while (n) {
		n--;
		file_put(ends[n][0]);
		file_put(ends[n][1]);
	}
	EXPECT_EQ(t, pipe_slots_charged(), 0u);
	fake_task(5);
	ASSERT_EQ(t, pipe_open(0, ends[0]), 0);
	EXPECT_EQ(t, pipe_set_size(pipe_of(ends[0][0]), 2u << 20), -EPERM);
	EXPECT_EQ(t, pipe_set_size(pipe_of(ends[0][0]), (1ull << 31) + 1), -EINVAL);
	file_put(ends[0][0]);
	file_put(ends[0][1]);
}

/* --- threads that are killed ------------------------------------------------------------ */

/* One byte read or written, in a thread. */
struct mover {
	struct thread *thread;
	bool writes, user; /* @user: the buffer is on a page that the copy has to fault in */
	ssize_t ret;
	bool over; /* atomic */
};

static void mover_main(void *arg)
{
	struct file *const *ends = shared;
	struct mover *m = arg;
	uint8_t page[PAGE_SIZE] = { 0 };
	const size_t len = m->writes && !m->user ? sizeof(page) : 1;
	uint64_t pos = 0;
	struct uio u;

	fake_task(1);
	if (m->user) {
		fake_slow_wait();
		if (uio_user(&u, (uint64_t)(uintptr_t)fake_slow_page, len))
			abort();
	} else {
		uio_kernel(&u, page, len);
	}
	m->ret = m->writes ? ends[1]->ops->write(ends[1], &u, &pos)
			   : ends[0]->ops->read(ends[0], &u, &pos);
	__atomic_store_n(&m->over, true, __ATOMIC_RELEASE);
}

static bool mover_over(const struct mover *m)
{
	return __atomic_load_n(&m->over, __ATOMIC_ACQUIRE);
}

static void mover_start(struct mover *m, bool writes, bool user)
{
	*m = (struct mover){ .writes = writes, .user = user };
	m->thread = thread_create("mover", mover_main, m);
	if (IS_ERR(m->thread))
		abort();
}

/*
 * Two threads sleep, and one move of the other side wakes the first. It queues for the lock of a
 * thread that waits for a node, and is killed there: the second gets the wake-up.
 */
static void a_killed_one_passes_on(struct ktest *t, bool writes)
{
	struct waitqueue *wq = shared[writes]->ops->poll_wait(shared[writes]);
	struct watcher watcher = { .notify = fake_slow_go };
	struct mover a, b, slow;
	uint8_t page[PAGE_SIZE] = { 0 };

	fake_task(1);
	fake_slow_begin();
	mover_start(&a, writes, false);
	while (fake_sleepers(wq) < 1)
		thread_yield();
	mover_start(&b, writes, false);
	while (fake_sleepers(wq) < 2)
		thread_yield();
	/* One that moves the same way as the test: it wakes nobody. */
	mover_start(&slow, !writes, true);
	watch_begin(wq, &watcher);
	if (writes)
		EXPECT_EQ(t, get(shared[0], page, sizeof(page)), PAGE_SIZE);
	else
		EXPECT_EQ(t, put(shared[1], page, 2), 2);
	watch_end(wq, &watcher);
	thread_notify(a.thread, THREAD_F_KILL);
	thread_join(a.thread);
	EXPECT_EQ(t, a.ret, -EINTR);
	fake_slow_answer();
	thread_join(slow.thread);
	EXPECT_EQ(t, slow.ret, 1);
	for (int i = 0; i < 2000 && !mover_over(&b); i++)
		thread_sleep_ns(MS);
	EXPECT_TRUE(t, mover_over(&b));
	if (!mover_over(&b))
		wake_all(wq);
	thread_join(b.thread);
	EXPECT_EQ(t, b.ret, writes ? PAGE_SIZE : 1);
}

static void a_killed_reader_passes_on(struct ktest *t)
{
	fake_task(1);
	ASSERT_EQ(t, pipe_open(0, shared), 0);
	a_killed_one_passes_on(t, false);
	file_put(shared[0]);
	file_put(shared[1]);
}

static void a_killed_writer_passes_on(struct ktest *t)
{
	static uint8_t all[16 * PAGE_SIZE];

	fake_task(1);
	ASSERT_EQ(t, pipe_open(0, shared), 0);
	EXPECT_EQ(t, put(shared[1], all, sizeof(all)), (ssize_t)sizeof(all));
	a_killed_one_passes_on(t, true);
	file_put(shared[0]);
	file_put(shared[1]);
}

/* A thread with the lock waits for a node: both ends of another program close, and are gone. */
static void an_end_waits_for_no_copy(struct ktest *t)
{
	const uint64_t frames = frames_free_count();
	struct mover slow, waiter;
	struct file *ends[2];

	for (int writes = 0; writes < 2; writes++) {
		fake_task(1);
		fake_slow_begin();
		ASSERT_EQ(t, pipe_open(0, shared), 0);
		ends[0] = shared[0];
		ends[1] = shared[1];
		if (!writes)
			EXPECT_EQ(t, put(ends[1], &(uint8_t){ 1 }, 1), 1);
		mover_start(&slow, writes, true);
		(void)fake_slow_go(NULL);
		/* The other end; this returns though the lock is not free. */
		file_put(ends[!writes]);
		EXPECT_FALSE(t, mover_over(&slow));
		fake_slow_answer();
		thread_join(slow.thread);
		EXPECT_EQ(t, slow.ret, 1);
		/* It has been counted out: the end of file, or a pipe that is broken. */
		mover_start(&waiter, writes, false);
		thread_join(waiter.thread);
		EXPECT_EQ(t, waiter.ret, writes ? -EPIPE : 0);
		file_put(ends[writes]);
	}
	EXPECT_EQ(t, frames_free_count(), frames);
}

static const struct ktest_case pipe_cases[] = {
	KTEST(bytes_against_a_queue),
	KTEST(records_stay_whole),
	KTEST(readers_wake_each_other),
	KTEST(ends_are_seen),
	KTEST(out_of_memory),
	KTEST(limits),
	KTEST(a_killed_reader_passes_on),
	KTEST(a_killed_writer_passes_on),
	KTEST(an_end_waits_for_no_copy),
	{ 0 },
};
static const struct ktest_suite pipe_suite = { .name = "ipc.pipe", .cases = pipe_cases };
KTEST_SUITE(pipe_suite);
