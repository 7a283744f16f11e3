/* SPDX-License-Identifier: MIT */
/*
 * Kernel memory that a program takes by pipes, socket pairs and locks: it makes as many as it can,
 * gets Linux's errno, gives one back and can make one again; at the end it is charged for nothing.
 */
#include <abi/socket.h>
#include <arch/trap.h>
#include <kernel/thread.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/ipc/filelock.h>
#include <processor/ipc/pipe.h>
#include <processor/socket/socket.h>
#include <processor/vfs/uio.h>

#include "ipc_fake.h"
#include "socket_fake.h"

#define LIMIT (256u << 10)
#define MANY  8192

static struct file *ends[MANY][2];

static void begin(uint64_t limit)
{
	kmem_account_set_limits(limit, 0);
	fake_account = kmem_account_create();
	fake_task(1000);
}

static void end(struct ktest *t)
{
	EXPECT_EQ(t, kmem_charged(fake_account), 0u);
	kmem_account_put(fake_account);
	fake_account = NULL;
	fake_task(1000);
	kmem_account_set_limits(UINT64_MAX, 0);
}

static ssize_t put(struct file *f, const void *buf, size_t len)
{
	struct uio u;
	uint64_t pos = 0;

	uio_kernel(&u, (void *)(uintptr_t)buf, len);
	return f->ops->write(f, &u, &pos);
}

static ssize_t get(struct file *f, void *buf, size_t len)
{
	struct uio u;
	uint64_t pos = 0;

	uio_kernel(&u, buf, len);
	return f->ops->read(f, &u, &pos);
}

static int open_pipe(struct file *e[2])
{
	return pipe_open(O_NONBLOCK, e);
}

static int open_pair(struct file *e[2])
{
	return fake_pair_open(SOCK_STREAM, O_NONBLOCK, e);
}

static void close_pair(struct file *e[2])
{
	file_put(e[0]);
	file_put(e[1]);
}

/* Returns how many there were. */
static size_t exhaust(struct ktest *t, int (*open)(struct file *e[2]), const int *want)
{
	size_t n = 0;
	int err;

	while (n < MANY && !(err = open(ends[n])))
		n++;
	EXPECT_GT(t, n, 10u);
	EXPECT_LT(t, n, (size_t)MANY);
	EXPECT_TRUE(t, err == want[0] || err == want[1]);
	close_pair(ends[n / 2]);
	EXPECT_EQ(t, open(ends[n / 2]), 0);
	for (size_t i = 0; i < n; i++)
		close_pair(ends[i]);
	return n;
}

static void pipes(struct ktest *t)
{
	/* Linux: no inode, no ring; or no open file. */
	static const int want[] = { -ENFILE, -ENOMEM };

	begin(LIMIT);
	exhaust(t, open_pipe, want);
	end(t);
}

static void socket_pairs(struct ktest *t)
{
	static const int want[] = { -ENOMEM, -ENOMEM };

	begin(LIMIT);
	exhaust(t, open_pair, want);
	end(t);
}

/* The pages of a pipe, which outlives the program's hold on it. */
static void pipe_pages(struct ktest *t)
{
	static uint8_t buf[65536];
	size_t n = 0;
	ssize_t got = 0;

	begin(LIMIT);
	while (n < MANY) {
		ASSERT_EQ(t, open_pipe(ends[n]), 0);
		got = put(ends[n++][1], buf, sizeof(buf));
		if (got < (ssize_t)sizeof(buf))
			break;
	}
	EXPECT_EQ(t, n, 4u);
	EXPECT_TRUE(t, got > 0 && got % PAGE_SIZE == 0); /* a part, then the end */
	EXPECT_EQ(t, put(ends[n - 1][1], buf, PAGE_SIZE), -ENOMEM);
	EXPECT_EQ(t, get(ends[n - 1][0], buf, PAGE_SIZE), PAGE_SIZE);
	EXPECT_EQ(t, put(ends[n - 1][1], buf, PAGE_SIZE), PAGE_SIZE);
	EXPECT_EQ(t, put(ends[n - 1][1], buf, PAGE_SIZE), -ENOMEM);
	close_pair(ends[0]);
	EXPECT_EQ(t, put(ends[n - 1][1], buf, PAGE_SIZE), PAGE_SIZE);
	for (size_t i = 1; i < n; i++)
		close_pair(ends[i]);
	end(t);
}

/* The writer is charged for what nobody reads. */
static void socket_data(struct ktest *t)
{
	static uint8_t buf[65536];
	size_t n = 0;
	ssize_t got;

	begin(LIMIT);
	do {
		ASSERT_EQ(t, open_pair(ends[n]), 0);
		do {
			got = put(ends[n][0], buf, 16384);
		} while (got > 0);
	} while (got == -EAGAIN && ++n < MANY);
	EXPECT_EQ(t, got, -ENOBUFS);
	EXPECT_EQ(t, n, 1u);
	while (get(ends[0][1], buf, sizeof(buf)) > 0)
		;
	EXPECT_EQ(t, put(ends[n][0], buf, 16384), 16384);
	for (size_t i = 0; i <= n; i++)
		close_pair(ends[i]);
	end(t);
}

static void locks(struct ktest *t)
{
	static const struct file_ops ops = { .name = "locks" };
	struct file f = { .ops = &ops };
	struct lock_req req = { .kind = LOCK_POSIX, .type = LOCK_READ, .owner = &f };
	int64_t n = 0;

	begin(LIMIT);
	while (n < MANY) {
		req.start = req.end = 2 * n;
		if (filelock_set(&f, &req, false))
			break;
		n++;
	}
	EXPECT_LT(t, n, (int64_t)MANY);
	EXPECT_EQ(t, filelock_set(&f, &req, false), -ENOLCK);
	req = (struct lock_req){
		.kind = LOCK_POSIX, .type = LOCK_NONE, .owner = &f, .end = INT64_MAX
	};
	EXPECT_EQ(t, filelock_set(&f, &req, false), 0); /* that needs none */
	EXPECT_EQ(t, filelock_count(), 0u);
	req.type = LOCK_WRITE;
	EXPECT_EQ(t, filelock_set(&f, &req, false), 0);
	filelock_drop(&f, &f);
	end(t);
}

#define OBJECTS 64
#define ROUNDS  20000

/* Pipes and pairs, filled, read and closed at random: never charged too much. */
static void random_operations_end_at_zero(struct ktest *t)
{
	static uint8_t buf[20000];
	struct prng rnd;
	uint64_t refused = 0;

	begin(LIMIT);
	memset(ends, 0, sizeof(ends));
	prng_seed(&rnd, 7);
	for (int i = 0; i < ROUNDS; i++) {
		struct file **e = ends[prng_below(&rnd, OBJECTS)];
		const bool pipe = (e - ends[0]) / 2 % 2;
		const size_t n = 1 + prng_below(&rnd, sizeof(buf));
		ssize_t got = 0;

		if (!e[0]) {
			got = pipe ? open_pipe(e) : open_pair(e);
			if (got)
				e[0] = NULL;
		} else if (prng_below(&rnd, 16) == 0) {
			close_pair(e);
			e[0] = NULL;
		} else if (prng_below(&rnd, 3) == 0) {
			(void)get(e[0], buf, n);
		} else {
			got = put(e[1], buf, n);
		}
		refused += got == -ENOMEM || got == -ENOBUFS || got == -ENFILE;
		EXPECT_LE(t, kmem_charged(fake_account), LIMIT);
	}
	EXPECT_GT(t, refused, 100u);
	for (int i = 0; i < OBJECTS; i++) {
		if (ends[i][0])
			close_pair(ends[i]);
	}
	end(t);
}

/* An end that another program has got is charged to the one that made it, until it is closed. */
static void an_end_passed_on(struct ktest *t)
{
	struct kmem_account *maker, *other;
	static uint8_t buf[PAGE_SIZE];

	begin(LIMIT);
	ASSERT_EQ(t, open_pipe(ends[0]), 0);
	maker = fake_account;
	other = fake_account = kmem_account_create();
	fake_task(1000);
	EXPECT_EQ(t, put(ends[0][1], buf, PAGE_SIZE), PAGE_SIZE);
	EXPECT_EQ(t, kmem_charged(other), 0u);
	EXPECT_GT(t, kmem_charged(maker), (uint64_t)PAGE_SIZE);
	kmem_account_put(maker); /* its program has ended */
	EXPECT_EQ(t, get(ends[0][0], buf, PAGE_SIZE), PAGE_SIZE);
	EXPECT_EQ(t, put(ends[0][1], buf, PAGE_SIZE), PAGE_SIZE);
	close_pair(ends[0]);
	end(t);
}

static const struct ktest_case account_ipc_cases[] = {
	KTEST(pipes),
	KTEST(pipe_pages),
	KTEST(socket_pairs),
	KTEST(socket_data),
	KTEST(locks),
	KTEST(random_operations_end_at_zero),
	KTEST(an_end_passed_on),
	{ 0 },
};
static const struct ktest_suite account_ipc_suite = { .name = "account.ipc",
						      .cases = account_ipc_cases };
KTEST_SUITE(account_ipc_suite);
