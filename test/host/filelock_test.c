/* SPDX-License-Identifier: MIT */
/*
 * The lock table: ranges against arrays, kinds that do not see each other, waits, deadlocks,
 * look-ups that visit few of many locks, and nothing left.
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
#define MANY   100000
#define FEW    150 /* some small multiple of log2(MANY) */

static struct file file_of(uint64_t ino)
{
	/* One address for each number; nothing looks there. */
	return (struct file){ .inode = (struct inode *)(uintptr_t)(ino * 64) };
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

/*
 * Five owners against bytes. The last byte stands for all that follow it, so that ranges reach
 * to the end.
 */
#define PLAYERS 5

struct model {
	uint8_t held[PLAYERS][BYTES]; /* type + 1 */
	uint64_t since[PLAYERS];      /* 0: it has none */
	uint64_t next;
};

static bool model_first(const struct model *m, int o, enum lock_type type, int64_t start,
			int64_t last, int *who, int64_t *from, int64_t *to)
{
	*who = -1;
	for (int p = 0; p < PLAYERS; p++) {
		const uint8_t *h = m->held[p];

		if (p == o || !m->since[p] || (*who >= 0 && m->since[*who] < m->since[p]))
			continue;
		for (int64_t i = start; i <= last; i++) {
			if (!h[i] || (h[i] == LOCK_READ + 1 && type == LOCK_READ))
				continue;
			*who = p;
			for (*from = i; *from && h[*from - 1] == h[i]; (*from)--)
				;
			for (*to = i; *to < BYTES - 1 && h[*to + 1] == h[i]; (*to)++)
				;
			break;
		}
	}
	return *who >= 0;
}

static void model_set(struct model *m, int o, enum lock_type type, int64_t start, int64_t last)
{
	bool any = false;

	memset(&m->held[o][start], type == LOCK_NONE ? 0 : (int)type + 1,
	       (size_t)(last - start + 1));
	for (int i = 0; i < BYTES; i++)
		any |= m->held[o][i] != 0;
	if (!any)
		m->since[o] = 0;
	else if (!m->since[o])
		m->since[o] = ++m->next;
}

static uint64_t model_locks(const struct model *m)
{
	uint64_t nr = 0;

	for (int o = 0; o < PLAYERS; o++) {
		for (int i = 0; i < BYTES; i++)
			nr += m->held[o][i] && (!i || m->held[o][i - 1] != m->held[o][i]);
	}
	return nr;
}

/* Each request: what F_GETLK tells, whether it is granted, and how many locks there are then. */
static void what_is_told_against_a_model(struct ktest *t)
{
	static const char who[PLAYERS];
	struct model m = { 0 };
	struct file f = file_of(1);
	struct prng rnd;

	prng_seed(&rnd, 11);
	for (int i = 0; i < 60000; i++) {
		const int o = (int)prng_below(&rnd, PLAYERS);
		const int64_t start = (int64_t)prng_below(&rnd, BYTES);
		const uint64_t room = (uint64_t)(BYTES - start);
		const int64_t len = 1 + (int64_t)prng_below(&rnd, i % 2 ? room : MIN(room, 4ul));
		const int64_t last = start + len - 1;
		struct lock_req found, req = { .kind = o % 2 ? LOCK_OFD : LOCK_POSIX,
					       .type = (enum lock_type)prng_below(&rnd, 3),
					       .owner = &who[o],
					       .start = start,
					       .end = last < BYTES - 1 ? last : INT64_MAX };
		int64_t from = 0, to = 0;
		bool busy = false;
		int p;

		if (req.type != LOCK_NONE) {
			busy = model_first(&m, o, req.type, start, last, &p, &from, &to);
			ASSERT_EQ(t, filelock_test(&f, &req, &found), busy);
		}
		if (busy) {
			ASSERT_EQ(t, (const char *)found.owner - who, p);
			ASSERT_EQ(t, found.type + 1, m.held[p][from]);
			ASSERT_EQ(t, found.start, from);
			ASSERT_EQ(t, found.end, to < BYTES - 1 ? to : INT64_MAX);
		}
		ASSERT_EQ(t, filelock_set(&f, &req, false), busy ? -EAGAIN : 0);
		if (!busy)
			model_set(&m, o, req.type, start, last);
		if (i % 64 == 0 && !prng_below(&rnd, 8)) {
			filelock_drop(&f, &who[o]);
			model_set(&m, o, LOCK_NONE, 0, BYTES - 1);
		}
		ASSERT_EQ(t, filelock_count(), model_locks(&m));
	}
	for (int o = 0; o < PLAYERS; o++)
		filelock_drop(&f, &who[o]);
	EXPECT_EQ(t, filelock_count(), 0u);
}

/* Ask and try @req; returns how many locks both looked at. */
static uint64_t visits_of(struct file *f, const struct lock_req *req)
{
	const uint64_t before = lock_tree_visits();
	struct lock_req found;

	(void)!filelock_test(f, req, &found);
	if (!filelock_set(f, req, false)) {
		struct lock_req undo = *req;

		undo.type = LOCK_NONE;
		(void)!filelock_set(f, &undo, false);
	}
	return lock_tree_visits() - before;
}

/* Locks are a share of the node's memory: room for MANY. */
#define ROOM     (1ul << 30)
#define ROOM_OLD (256ul << 20)

/* One owner with every other byte, readers and writers in turn. */
static void few_of_many_are_visited(struct ktest *t)
{
	struct file f = file_of(1);
	struct prng rnd;
	uint64_t most = 0;

	shim_frames_init(ROOM);
	for (int i = 0; i < MANY; i++) {
		const uint64_t before = lock_tree_visits();

		ASSERT_EQ(t, set(&f, LOCK_POSIX, i % 2 ? LOCK_WRITE : LOCK_READ, 0, 2L * i, 1), 0);
		most = MAX(most, lock_tree_visits() - before);
	}
	prng_seed(&rnd, 3);
	for (int i = 0; i < 2000; i++) {
		const int64_t at = (int64_t)prng_below(&rnd, 2 * MANY);
		const enum lock_type type = i % 2 ? LOCK_WRITE : LOCK_READ;
		struct lock_req req = request(LOCK_POSIX, type, 1, at, 1 + i % 3);

		most = MAX(most, visits_of(&f, &req));
		req = request(LOCK_OFD, type, 1, at, 0);
		most = MAX(most, visits_of(&f, &req));
		req = request(LOCK_POSIX, type, 0, at | 1, 1);
		most = MAX(most, visits_of(&f, &req));
	}
	EXPECT_LE(t, most, FEW);
	most = lock_tree_visits();
	{
		struct lock_req found, own = request(LOCK_POSIX, LOCK_WRITE, 0, 0, 0);

		EXPECT_FALSE(t, filelock_test(&f, &own, &found)); /* its own are passed by */
	}
	EXPECT_LE(t, lock_tree_visits() - most, FEW);
	filelock_drop(&f, &owners[0]);
	EXPECT_EQ(t, filelock_count(), 0u);
	shim_frames_init(ROOM_OLD);
}

/* As many owners, whose read locks overlap: a search of one byte finds many. */
static void few_of_many_owners_are_visited(struct ktest *t)
{
	static const char who[MANY];
	struct file f = file_of(1);
	struct lock_req req = { .kind = LOCK_OFD, .type = LOCK_READ };
	struct prng rnd;
	uint64_t most = 0, before;

	shim_frames_init(ROOM);
	prng_seed(&rnd, 5);
	for (int i = 0; i < MANY; i++) {
		req.owner = &who[i];
		req.start = (int64_t)prng_below(&rnd, MANY);
		req.end = req.start + 10;
		ASSERT_EQ(t, filelock_set(&f, &req, false), 0);
	}
	for (int i = 0; i < 2000; i++) {
		req = request(LOCK_POSIX, LOCK_WRITE, 0, (int64_t)prng_below(&rnd, MANY), 1 + i);
		before = lock_tree_visits();
		EXPECT_EQ(t, filelock_set(&f, &req, false), -EAGAIN);
		most = MAX(most, lock_tree_visits() - before);
		most = MAX(most, visits_of(&f, &req));
		req.start += 2L * MANY;
		req.end += 2L * MANY;
		most = MAX(most, visits_of(&f, &req));
	}
	EXPECT_LE(t, most, FEW);
	for (int i = 0; i < MANY; i++)
		filelock_drop(&f, &who[i]);
	EXPECT_EQ(t, filelock_count(), 0u);
	shim_frames_init(ROOM_OLD);
}

/* A look-up among many files visits few, and an empty table is small again. */
static void many_files(struct ktest *t)
{
	static struct file files[20000];
	const size_t before = shim_allocs_live();

	for (uint32_t i = 0; i < ARRAY_SIZE(files); i++) {
		files[i] = file_of(i + 1);
		ASSERT_EQ(t, set(&files[i], LOCK_POSIX, LOCK_WRITE, 0, 0, 1), 0);
	}
	EXPECT_LE(t, filelock_longest_chain(), 12u);
	for (uint32_t i = 0; i < ARRAY_SIZE(files); i++)
		EXPECT_EQ(t, set(&files[i], LOCK_OFD, LOCK_READ, 1, 0, 1), -EAGAIN);
	for (uint32_t i = 0; i < ARRAY_SIZE(files); i++)
		filelock_drop(&files[i], &owners[0]);
	EXPECT_EQ(t, filelock_count(), 0u);
	EXPECT_EQ(t, filelock_longest_chain(), 0u);
	EXPECT_EQ(t, shim_allocs_live(), before);
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
	/* Nothing is cut in two. */
	EXPECT_EQ(t, set(&f, LOCK_POSIX, LOCK_NONE, 0, 0, 5), 0);
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

/*
 * 0 reads every other byte and waits for 1, and 1 would wait for the last byte of all, which 0
 * writes: what the look for a deadlock visits does not depend on how many 0 has.
 */
static void deadlock_among_many(struct ktest *t)
{
	struct lock_req last = request(LOCK_POSIX, LOCK_READ, 1, 0, 0);
	struct file f = file_of(1), other = file_of(2);
	struct waiting w;
	uint64_t before;

	shim_frames_init(ROOM);
	for (int i = 0; i < MANY; i++)
		ASSERT_EQ(t, set(&f, LOCK_POSIX, LOCK_READ, 0, 2L * i, 1), 0);
	EXPECT_EQ(t, set(&f, LOCK_POSIX, LOCK_WRITE, 0, 2L * MANY, 1), 0);
	EXPECT_EQ(t, set(&other, LOCK_POSIX, LOCK_WRITE, 1, 0, 1), 0);
	wait_start(&w, &other, request(LOCK_POSIX, LOCK_WRITE, 0, 0, 1));
	before = lock_tree_visits();
	EXPECT_EQ(t, filelock_set(&f, &last, true), -EDEADLK);
	EXPECT_LE(t, lock_tree_visits() - before, FEW);
	filelock_drop(&other, &owners[1]);
	thread_join(w.th);
	filelock_drop(&other, &owners[0]);
	filelock_drop(&f, &owners[0]);
	EXPECT_EQ(t, filelock_count(), 0u);
	shim_frames_init(ROOM_OLD);
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
	KTEST(what_is_told_against_a_model),
	KTEST(few_of_many_are_visited),
	KTEST(few_of_many_owners_are_visited),
	KTEST(many_files),
	KTEST(kinds),
	KTEST(without_memory),
	KTEST(waits),
	KTEST(deadlocks),
	KTEST(deadlock_among_many),
	{ 0 },
};
static const struct ktest_suite filelock_suite = { .name = "ipc.filelock",
						   .cases = filelock_cases };
KTEST_SUITE(filelock_suite);
