/* SPDX-License-Identifier: MIT */
/*
 * Locks of a storage node's file: the processor's side beside the storage node's table, with
 * another processor that locks there too, answers that are lost, and a storage node that is started
 * again.
 */
#include <kernel/panic.h>
#include <kernel/thread.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <shim/shim.h>

#include "ipc_fake.h"
#include <processor/client/storage_private.h>
#include <processor/ipc/filelock.h>
#include <storage/locks.h>

#define NODE   5u
#define BYTES  32
#define OWNERS 3

/* Each start of the storage node has its own, as a request may still be in the earlier one. */
static struct lock_table lives[32];
static unsigned int life; /* atomic */
#define table  lives[life]
#define INCARN (life + 1)
static const struct storage_peer me = { 1, 1 }, other = { 2, 1 };
static uint64_t other_seq;
static struct file file = { .attr.file = { .ino = 7, .gen = 1, .node = NODE, .vnode = 1 } };
static const char owners[OWNERS];

static enum {
	NET_GOOD,
	NET_LOSES,         /* answers */
	NET_IS_KILLED      /* the calling thread is: nothing is sent */
} net;                     /* atomic */
static unsigned int calls; /* atomic: PS_LOCK */

static int serve(uint16_t opcode, const void *body, size_t len, void *reply, size_t max)
{
	static _Thread_local struct ps_lock_events_rep events;
	static _Thread_local struct ps_locks_req locks;
	struct ps_lock_events_req ask;
	struct ps_lock_req req;
	struct ps_lock_rep rep;
	int err;

	switch (opcode) {
	case PS_LOCK:
		__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
		err = ps_lock_req_decode(body, len, &req)
			      ?: lock_table_request(&table, &me, &req, &rep);
		if (err)
			return err;
		ps_lock_rep_encode(&rep, reply);
		return sizeof(struct ps_lock_rep_wire);
	case PS_LOCKS:
		err = ps_locks_req_decode(body, len, &locks);
		if (!err && locks.incarn != INCARN)
			err = -ESTALE;
		return err ? err : lock_table_declare(&table, &me, &locks);
	case PS_LOCK_EVENTS:
		err = ps_lock_events_req_decode(body, len, &ask);
		while (!err) {
			const unsigned int n = __atomic_load_n(&life, __ATOMIC_SEQ_CST);

			err = lock_table_events(&lives[n], &me, &ask, &events);
			/* A call that ended with the node's life is made again. */
			if (err != -ESHUTDOWN || n == __atomic_load_n(&life, __ATOMIC_SEQ_CST))
				break;
			err = 0;
		}
		return err ? err : (int)ps_lock_events_rep_encode(&events, reply, max);
	default:
		return -ENOSYS;
	}
}

int storage_call(uint32_t node, uint16_t opcode, const void *body, size_t len, void *reply,
		 size_t max)
{
	const int how = opcode == PS_LOCK ? (int)READ_ONCE(net) : (int)NET_GOOD;
	const int ret = how == NET_IS_KILLED || node != NODE ? -EINTR
							     : serve(opcode, body, len, reply, max);

	return how == NET_LOSES ? -EINTR : ret;
}

static void start(bool grace)
{
	const unsigned int last = life;
	static bool begun;

	BUG_ON(!begun && shim_initcalls_run());
	net = NET_GOOD;
	lock_table_init(&lives[last + 1], last + 2, grace, NULL);
	__atomic_store_n(&life, last + 1, __ATOMIC_SEQ_CST);
	if (begun)
		lock_table_close(&lives[last]);
	begun = true;
}

/* The test's thread alone asks the last life by now. */
static void stop(struct ktest *t)
{
	EXPECT_EQ(t, table.nr_locks, 0u);
	EXPECT_EQ(t, table.nr_waits, 0u);
}

static void wait_until_locks(uint64_t nr)
{
	while (__atomic_load_n(&table.nr_locks, __ATOMIC_ACQUIRE) != nr)
		thread_yield();
}

static struct lock_req request(enum lock_kind kind, enum lock_type type, int owner, int64_t start_,
			       int64_t end)
{
	return (struct lock_req){ .kind = kind,
				  .type = type,
				  .owner = &owners[owner],
				  .pid = (uint32_t)owner + 10,
				  .start = start_,
				  .end = end };
}

static int set(enum lock_kind kind, enum lock_type type, int owner, int64_t start_, int64_t end)
{
	const struct lock_req req = request(kind, type, owner, start_, end);

	return filelock_set(&file, &req, false);
}

/* The other processor's only owner, of all kinds. The state, or an errno. */
static int theirs(enum lock_kind kind, enum lock_type type, int64_t start_, int64_t end, int op)
{
	const struct ps_lock_req req = { .file = { .ino = 7, .gen = 1, .node = NODE },
					 .lock = { .owner = 1,
						   .start = start_,
						   .end = end,
						   .pid = 99,
						   .kind = (uint8_t)kind,
						   .type = (uint8_t)type },
					 .seq = ++other_seq,
					 .acked = other_seq,
					 .token = 1,
					 .op = (uint8_t)op };
	struct ps_lock_rep rep;

	return lock_table_request(&table, &other, &req, &rep) ?: (int)rep.state;
}

static int they_set(enum lock_kind kind, enum lock_type type, int64_t start_, int64_t end)
{
	return theirs(kind, type, start_, end, PS_LOCK_OP_SET);
}

static void drop_all(struct ktest *t)
{
	for (int o = 0; o < OWNERS; o++)
		filelock_drop(&file, &owners[o]);
	EXPECT_EQ(t, filelock_count(), 0u);
	for (int kind = 0; kind <= LOCK_FLOCK; kind++)
		(void)they_set((enum lock_kind)kind, LOCK_NONE, 0, INT64_MAX);
	EXPECT_EQ(t, table.nr_locks, 0u);
	EXPECT_EQ(t, table.nr_waits, 0u);
}

static void a_lock_is_one_message(struct ktest *t)
{
	struct lock_req found, req = request(LOCK_POSIX, LOCK_WRITE, 0, 0, 9);

	start(false);
	calls = 0;
	EXPECT_EQ(t, filelock_set(&file, &req, true), 0);
	EXPECT_EQ(t, calls, 1u);
	/* The copy knows of this one, and that there is nothing to unlock. */
	EXPECT_EQ(t, set(LOCK_OFD, LOCK_READ, 1, 0, 0), -EAGAIN);
	EXPECT_EQ(t, set(LOCK_POSIX, LOCK_NONE, 1, 0, 0), 0);
	EXPECT_EQ(t, calls, 1u);
	EXPECT_EQ(t, they_set(LOCK_POSIX, LOCK_READ, 5, 5), PS_LOCK_BUSY);
	EXPECT_EQ(t, they_set(LOCK_POSIX, LOCK_WRITE, 20, 29), PS_LOCK_FREE);
	EXPECT_EQ(t, set(LOCK_POSIX, LOCK_READ, 0, 15, 25), -EAGAIN);
	req = request(LOCK_POSIX, LOCK_READ, 0, 15, 25);
	EXPECT_EQ(t, filelock_test(&file, &req, &found), 1);
	EXPECT_EQ(t, found.start, 20);
	EXPECT_EQ(t, found.end, 29);
	EXPECT_EQ(t, found.pid, 99u);
	EXPECT_EQ(t, (int)found.type, (int)LOCK_WRITE);
	req.end = 19;
	EXPECT_EQ(t, filelock_test(&file, &req, &found), 0);
	calls = 0;
	filelock_drop(&file, &owners[0]);
	EXPECT_EQ(t, calls, 1u);
	EXPECT_EQ(t, they_set(LOCK_POSIX, LOCK_READ, 0, 9), PS_LOCK_FREE);
	drop_all(t);
	stop(t);
}

static void flock_in_vain_gives_up(struct ktest *t)
{
	start(false);
	EXPECT_EQ(t, set(LOCK_FLOCK, LOCK_READ, 0, 0, INT64_MAX), 0);
	EXPECT_EQ(t, they_set(LOCK_FLOCK, LOCK_READ, 0, INT64_MAX), PS_LOCK_FREE);
	EXPECT_EQ(t, set(LOCK_FLOCK, LOCK_WRITE, 0, 0, INT64_MAX), -EAGAIN);
	EXPECT_EQ(t, filelock_count(), 0u);
	EXPECT_EQ(t, table.nr_locks, 1u);
	drop_all(t);
	stop(t);
}

struct waiting {
	struct lock_req req;
	struct thread *th;
	int ret; /* atomic; 1: not yet */
};

static void waiting_main(void *arg)
{
	struct waiting *w = arg;

	WRITE_ONCE(w->ret, filelock_set(&file, &w->req, true));
}

static void wait_start(struct waiting *w, const struct lock_req req)
{
	const uint64_t before = filelock_waiting();

	*w = (struct waiting){ .req = req, .ret = 1 };
	w->th = thread_create("waiter", waiting_main, w);
	while (filelock_waiting() == before)
		thread_yield();
}

static void waits_end_by_events_and_signals(struct ktest *t)
{
	struct waiting a, b;

	start(false);
	EXPECT_EQ(t, they_set(LOCK_POSIX, LOCK_WRITE, 0, 9), PS_LOCK_FREE);
	wait_start(&a, request(LOCK_POSIX, LOCK_WRITE, 0, 5, 5));
	wait_start(&b, request(LOCK_OFD, LOCK_WRITE, 1, 9, 20));
	/* Both are counted before they ask. */
	while (READ_ONCE(table.nr_waits) < 2)
		thread_yield();
	EXPECT_EQ(t, they_set(LOCK_POSIX, LOCK_NONE, 0, 5), PS_LOCK_FREE);
	thread_join(a.th);
	EXPECT_EQ(t, a.ret, 0);
	EXPECT_EQ(t, READ_ONCE(b.ret), 1);
	thread_notify(b.th, THREAD_F_SIGNAL);
	thread_join(b.th);
	EXPECT_EQ(t, b.ret, -EINTR);
	EXPECT_EQ(t, table.nr_waits, 0u);
	/* One that waits for an owner of its own processor hears of it by the storage node, too. */
	wait_start(&a, request(LOCK_POSIX, LOCK_WRITE, 1, 5, 5));
	filelock_drop(&file, &owners[0]);
	thread_join(a.th);
	EXPECT_EQ(t, a.ret, 0);
	drop_all(t);
	stop(t);
}

static void deadlocks_within_a_processor(struct ktest *t)
{
	struct lock_req last = request(LOCK_POSIX, LOCK_WRITE, 1, 0, 0);
	struct waiting w;

	start(false);
	EXPECT_EQ(t, set(LOCK_POSIX, LOCK_WRITE, 0, 0, 0), 0);
	EXPECT_EQ(t, set(LOCK_POSIX, LOCK_WRITE, 1, 1, 1), 0);
	wait_start(&w, request(LOCK_POSIX, LOCK_WRITE, 0, 1, 1));
	EXPECT_EQ(t, filelock_set(&file, &last, true), -EDEADLK);
	filelock_drop(&file, &owners[1]);
	thread_join(w.th);
	EXPECT_EQ(t, w.ret, 0);
	drop_all(t);
	stop(t);
}

/* A thread is killed while it locks, unlocks or closes: in the end the storage node knows. */
static void answers_are_lost(struct ktest *t)
{
	start(false);
	net = NET_LOSES;
	EXPECT_EQ(t, set(LOCK_OFD, LOCK_WRITE, 0, 0, 9), -EINTR);
	EXPECT_EQ(t, filelock_count(), 0u);
	net = NET_GOOD;
	EXPECT_EQ(t, set(LOCK_OFD, LOCK_WRITE, 1, 0, 9), 0); /* tells the doubt first */
	EXPECT_EQ(t, table.nr_locks, 1u);
	EXPECT_EQ(t, set(LOCK_OFD, LOCK_READ, 1, 4, 5), 0);
	EXPECT_EQ(t, table.nr_locks, 3u);
	/* It has unlocked the middle; the storage node hears of it by the next who asks. */
	net = NET_IS_KILLED;
	EXPECT_EQ(t, set(LOCK_OFD, LOCK_NONE, 1, 3, 6), -EINTR);
	EXPECT_EQ(t, table.nr_locks, 3u);
	net = NET_GOOD;
	EXPECT_EQ(t, set(LOCK_POSIX, LOCK_READ, 2, 4, 4), 0);
	EXPECT_EQ(t, they_set(LOCK_POSIX, LOCK_READ, 3, 6), PS_LOCK_FREE);
	EXPECT_EQ(t, they_set(LOCK_POSIX, LOCK_READ, 2, 2), PS_LOCK_BUSY);
	EXPECT_EQ(t, they_set(LOCK_POSIX, LOCK_READ, 7, 7), PS_LOCK_BUSY);
	net = NET_IS_KILLED;
	filelock_drop(&file, &owners[1]);
	filelock_drop(&file, &owners[2]);
	EXPECT_EQ(t, filelock_count(), 0u);
	net = NET_GOOD;
	EXPECT_EQ(t, set(LOCK_POSIX, LOCK_WRITE, 0, 7, 9), 0);
	wait_until_locks(2);
	drop_all(t);
	stop(t);
}

/* No thread asks about the file any more: the worker does. */
static void a_killed_process_unlocks(struct ktest *t)
{
	start(false);
	EXPECT_EQ(t, set(LOCK_POSIX, LOCK_WRITE, 0, 0, 9), 0);
	EXPECT_EQ(t, set(LOCK_POSIX, LOCK_WRITE, 1, 20, 29), 0);
	net = NET_LOSES;
	filelock_drop(&file, &owners[0]);
	wait_until_locks(1);
	net = NET_GOOD;
	filelock_drop(&file, &owners[1]);
	wait_until_locks(0);
	stop(t);
}

/* Locks stay, one who waited goes on, and another processor is not faster. */
static void the_storage_node_is_started_again(struct ktest *t)
{
	struct waiting w, v;

	start(false);
	EXPECT_EQ(t, set(LOCK_POSIX, LOCK_WRITE, 0, 0, 9), 0);
	EXPECT_EQ(t, set(LOCK_OFD, LOCK_READ, 1, 20, 29), 0);
	EXPECT_EQ(t, set(LOCK_FLOCK, LOCK_WRITE, 1, 0, INT64_MAX), 0);
	wait_start(&w, request(LOCK_POSIX, LOCK_READ, 2, 5, 5));
	start(true);
	EXPECT_EQ(t, they_set(LOCK_POSIX, LOCK_WRITE, 0, 9), PS_LOCK_GRACE);
	EXPECT_EQ(t, filelock_declare(NODE, INCARN - 1), -ESTALE);
	EXPECT_EQ(t, filelock_declare(NODE + 1, INCARN), 0);
	EXPECT_EQ(t, table.nr_locks, 0u);
	EXPECT_EQ(t, filelock_declare(NODE, INCARN), 0);
	EXPECT_EQ(t, table.nr_locks, 3u);
	wait_start(&v, request(LOCK_POSIX, LOCK_WRITE, 1, 15, 15)); /* for the end of the grace */
	lock_table_grace_end(&table);
	thread_join(v.th);
	EXPECT_EQ(t, v.ret, 0);
	EXPECT_EQ(t, they_set(LOCK_POSIX, LOCK_WRITE, 0, 9), PS_LOCK_BUSY);
	EXPECT_EQ(t, they_set(LOCK_FLOCK, LOCK_READ, 0, INT64_MAX), PS_LOCK_BUSY);
	EXPECT_EQ(t, READ_ONCE(w.ret), 1);
	filelock_drop(&file, &owners[0]);
	thread_join(w.th);
	EXPECT_EQ(t, w.ret, 0);
	drop_all(t);
	stop(t);
}

/* This processor was away for a lease: its locks of the file are lost, and it says so. */
static void a_declaration_is_refused(struct ktest *t)
{
	start(false);
	EXPECT_EQ(t, set(LOCK_POSIX, LOCK_WRITE, 0, 0, 9), 0);
	EXPECT_EQ(t, set(LOCK_POSIX, LOCK_WRITE, 1, 20, 29), 0);
	start(false);
	EXPECT_EQ(t, they_set(LOCK_POSIX, LOCK_WRITE, 25, 25), PS_LOCK_FREE);
	EXPECT_EQ(t, filelock_declare(NODE, INCARN), 0);
	EXPECT_EQ(t, filelock_count(), 0u);
	EXPECT_EQ(t, table.nr_locks, 1u);
	drop_all(t);
	stop(t);
}

/* Byte @at as a third owner sees it: 0 free, 1 read, 2 write. */
static int seen_at(int64_t at)
{
	if (theirs(LOCK_OFD, LOCK_READ, at, at, PS_LOCK_OP_TEST) == PS_LOCK_BUSY)
		return 2;
	return theirs(LOCK_OFD, LOCK_WRITE, at, at, PS_LOCK_OP_TEST) == PS_LOCK_BUSY;
}

/* With answers that are lost now and then, against arrays. */
static void a_model(struct ktest *t)
{
	static uint8_t held[OWNERS][BYTES];
	struct prng rnd;

	memset(held, 0, sizeof(held));
	prng_seed(&rnd, 31);
	start(false);
	for (int i = 0; i < 4000; i++) {
		const int o = (int)prng_below(&rnd, OWNERS);
		const enum lock_type type = (enum lock_type)prng_below(&rnd, 3);
		const int64_t from = (int64_t)prng_below(&rnd, BYTES);
		const int64_t to = from + (int64_t)prng_below(&rnd, (uint64_t)(BYTES - from));
		const uint64_t luck = prng_below(&rnd, 10);
		bool fits = true;
		int ret;

		for (int p = 0; p < OWNERS; p++) {
			for (int64_t k = from; p != o && k <= to; k++)
				fits &= type == LOCK_NONE || !held[p][k] ||
					(held[p][k] == LOCK_READ + 1 && type == LOCK_READ);
		}
		net = luck == 0 ? NET_LOSES : luck == 1 ? NET_IS_KILLED : NET_GOOD;
		ret = set(LOCK_POSIX, type, o, from, to);
		if (net == NET_GOOD)
			ASSERT_EQ(t, ret, fits ? 0 : -EAGAIN);
		net = NET_GOOD;
		/* Unlocked it is at once, whoever hears of it. */
		if (fits && (!ret || (type == LOCK_NONE && ret == -EINTR)))
			memset(&held[o][from], type == LOCK_NONE ? 0 : type + 1,
			       (size_t)(to - from + 1));
	}
	/* The last doubts are told with a request; then both agree. */
	EXPECT_EQ(t, set(LOCK_OFD, LOCK_READ, 0, BYTES + 1, BYTES + 1), 0);
	for (int64_t k = 0; k < BYTES; k++) {
		int most = 0;

		for (int o = 0; o < OWNERS; o++)
			most = MAX(most, held[o][k]);
		EXPECT_EQ(t, seen_at(k), most);
	}
	drop_all(t);
	stop(t);
}

static const struct ktest_case remote_cases[] = {
	KTEST(a_lock_is_one_message),
	KTEST(flock_in_vain_gives_up),
	KTEST(waits_end_by_events_and_signals),
	KTEST(deadlocks_within_a_processor),
	KTEST(answers_are_lost),
	KTEST(a_killed_process_unlocks),
	KTEST(the_storage_node_is_started_again),
	KTEST(a_declaration_is_refused),
	KTEST(a_model),
	{ 0 },
};
static const struct ktest_suite remote_suite = { .name = "ipc.remote_locks",
						 .cases = remote_cases };
KTEST_SUITE(remote_suite);
