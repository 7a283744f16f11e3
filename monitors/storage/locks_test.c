/* SPDX-License-Identifier: MIT */
/*
 * The storage node's table of advisory locks: two processors with several owners each, against
 * arrays; waits and events; deadlocks; the grace; peers that leave, lie or send late; bounds.
 */
#include <kernel/thread.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "storage.h"

#define NODE   5u
#define INCARN 0x10000003u
#define BYTES  40
#define PEERS  2
#define OWNERS 2 /* of each */
#define END    INT64_MAX

struct rig {
	struct lock_table table;
	struct storage_peer peers[PEERS + 1];
	uint64_t seq[PEERS + 1];
	struct ps_lock_rep rep;
	struct ps_lock_events_rep events;
	uint64_t seen[PEERS + 1]; /* events */
};

static bool left[PEERS + 1];

static bool has_left(uint32_t node, uint32_t incarn)
{
	(void)incarn;
	return left[node - 1];
}

static struct rig *rig_new(bool grace)
{
	struct rig *r = kzalloc(sizeof(*r));

	if (!r)
		return NULL;
	memset(left, 0, sizeof(left));
	lock_table_init(&r->table, INCARN, grace, has_left);
	r->table.events_ns = 1;
	for (uint32_t i = 0; i <= PEERS; i++)
		r->peers[i] = (struct storage_peer){ .node = i + 1, .incarn = 9 };
	return r;
}

static void rig_free(struct ktest *t, struct rig *r)
{
	lock_table_destroy(&r->table);
	EXPECT_EQ(t, r->table.nr_locks, 0u);
	EXPECT_EQ(t, r->table.nr_waits, 0u);
	EXPECT_TRUE(t, !r->table.files.node);
	kfree(r);
}

static struct ps_lock lock_of(uint8_t kind, uint8_t type, uint64_t owner, int64_t start,
			      int64_t end)
{
	return (struct ps_lock){ .owner = owner,
				 .start = start,
				 .end = end,
				 .pid = (uint32_t)owner + 100,
				 .kind = kind,
				 .type = type };
}

static struct proto_file file_of(uint64_t ino)
{
	return (struct proto_file){ .ino = ino, .gen = 1, .node = NODE };
}

/* The state, or a negative errno. */
static int request(struct rig *r, int peer, uint64_t ino, struct ps_lock lock, uint8_t op,
		   uint64_t wait_token)
{
	const struct ps_lock_req req = { .file = file_of(ino),
					 .lock = lock,
					 .seq = ++r->seq[peer],
					 .acked = r->seq[peer],
					 .token = wait_token ? wait_token : 1000,
					 .op = op,
					 .wait = wait_token && op == PS_LOCK_OP_SET };
	const int err = lock_table_request(&r->table, &r->peers[peer], &req, &r->rep);

	return err ? err : (int)r->rep.state;
}

static int set(struct rig *r, int peer, uint8_t kind, uint8_t type, uint64_t owner, int64_t start,
	       int64_t end)
{
	return request(r, peer, 1, lock_of(kind, type, owner, start, end), PS_LOCK_OP_SET, 0);
}

/* Ask for the whole of file @ino, and wait with @token. */
static int want(struct rig *r, int peer, uint64_t ino, uint8_t type, uint64_t owner, uint64_t token)
{
	return request(r, peer, ino, lock_of(PS_LOCK_POSIX, type, owner, 0, END), PS_LOCK_OP_SET,
		       token);
}

static int unlock(struct rig *r, int peer, uint64_t ino, uint64_t owner)
{
	return request(r, peer, ino, lock_of(PS_LOCK_POSIX, PS_LOCK_NONE, owner, 0, END),
		       PS_LOCK_OP_SET, 0);
}

/* The token of the only event that @peer has not acknowledged; 0: none; -1: several. */
static long event(struct rig *r, int peer)
{
	const struct ps_lock_events_req req = { .after = r->seen[peer], .incarn = INCARN };

	if (lock_table_events(&r->table, &r->peers[peer], &req, &r->events))
		return -2;
	r->seen[peer] = r->events.last;
	if (r->events.nr_tokens > 1)
		return -1;
	return r->events.nr_tokens ? (long)r->events.tokens[0].token : 0;
}

static bool fits(uint8_t held[PEERS * OWNERS][BYTES], int who, uint8_t type, int64_t start,
		 int64_t end)
{
	for (int o = 0; o < PEERS * OWNERS; o++) {
		for (int64_t i = start; o != who && i <= end; i++) {
			if (held[o][i] == PS_LOCK_WRITE + 1 ||
			    (held[o][i] && type == PS_LOCK_WRITE))
				return false;
		}
	}
	return true;
}

/* Both processors call their owners by the same numbers. */
static void ranges_against_arrays(struct ktest *t)
{
	static uint8_t held[PEERS * OWNERS][BYTES];
	struct rig *r = rig_new(false);
	struct prng rnd;

	ASSERT_TRUE(t, r);
	memset(held, 0, sizeof(held));
	prng_seed(&rnd, 21);
	for (int i = 0; i < 20000; i++) {
		const int who = (int)prng_below(&rnd, PEERS * OWNERS);
		const uint8_t kind = who % OWNERS ? PS_LOCK_OFD : PS_LOCK_POSIX;
		const uint8_t type = (uint8_t)prng_below(&rnd, 3);
		const int64_t start = (int64_t)prng_below(&rnd, BYTES);
		const int64_t end = start + (int64_t)prng_below(&rnd, (uint64_t)(BYTES - start));
		const struct ps_lock l =
			lock_of(kind, type, (uint64_t)(who % OWNERS) + 1, start, end);
		const bool ok = type == PS_LOCK_NONE || fits(held, who, type, start, end);
		const int free = ok ? PS_LOCK_FREE : PS_LOCK_BUSY;

		if (type != PS_LOCK_NONE) {
			EXPECT_EQ(t, request(r, who / OWNERS, 1, l, PS_LOCK_OP_TEST, 0), free);
			EXPECT_EQ(t, r->rep.found.owner != 0, !ok);
			EXPECT_TRUE(t,
				    ok || (r->rep.found.start <= end && r->rep.found.end >= start &&
					   r->rep.found.pid == r->rep.found.owner + 100));
		}
		ASSERT_EQ(t, request(r, who / OWNERS, 1, l, PS_LOCK_OP_SET, 0), free);
		EXPECT_EQ(t, request(r, who / OWNERS, 2, l, PS_LOCK_OP_TEST, 0), PS_LOCK_FREE);
		if (ok)
			memset(&held[who][start], type == PS_LOCK_NONE ? 0 : type + 1,
			       (size_t)(end - start + 1));
	}
	rig_free(t, r);
}

static void flock_and_records_do_not_see_each_other(struct ktest *t)
{
	struct rig *r = rig_new(false);

	ASSERT_TRUE(t, r);
	EXPECT_EQ(t, set(r, 0, PS_LOCK_FLOCK, PS_LOCK_WRITE, 1, 0, END), PS_LOCK_FREE);
	EXPECT_EQ(t, set(r, 1, PS_LOCK_POSIX, PS_LOCK_WRITE, 1, 0, END), PS_LOCK_FREE);
	EXPECT_EQ(t, set(r, 1, PS_LOCK_FLOCK, PS_LOCK_READ, 1, 0, END), PS_LOCK_BUSY);
	EXPECT_EQ(t, set(r, 0, PS_LOCK_OFD, PS_LOCK_READ, 1, 0, 0), PS_LOCK_BUSY);
	/* A change of the type gives up what there was, also when it is in vain. */
	EXPECT_EQ(t, set(r, 0, PS_LOCK_FLOCK, PS_LOCK_READ, 1, 0, END), PS_LOCK_FREE);
	EXPECT_EQ(t, set(r, 1, PS_LOCK_FLOCK, PS_LOCK_READ, 1, 0, END), PS_LOCK_FREE);
	EXPECT_EQ(t, set(r, 0, PS_LOCK_FLOCK, PS_LOCK_WRITE, 1, 0, END), PS_LOCK_BUSY);
	EXPECT_EQ(t, set(r, 1, PS_LOCK_FLOCK, PS_LOCK_WRITE, 1, 0, END), PS_LOCK_FREE);
	EXPECT_EQ(t, set(r, 1, PS_LOCK_FLOCK, PS_LOCK_NONE, 1, 0, END), PS_LOCK_FREE);
	EXPECT_EQ(t, r->table.nr_locks, 1u);
	rig_free(t, r);
}

static void a_wait_is_told_until_it_is_acknowledged(struct ktest *t)
{
	struct rig *r = rig_new(false);

	ASSERT_TRUE(t, r);
	EXPECT_EQ(t, want(r, 0, 1, PS_LOCK_WRITE, 1, 0), PS_LOCK_FREE);
	EXPECT_EQ(t, want(r, 1, 1, PS_LOCK_WRITE, 1, 71), PS_LOCK_WAITS);
	EXPECT_EQ(t, want(r, 1, 1, PS_LOCK_READ, 2, 72), PS_LOCK_WAITS);
	EXPECT_EQ(t, r->table.nr_waits, 2u);
	EXPECT_EQ(t, event(r, 1), 0);
	/* A reader is let in by a change of the type, too. */
	EXPECT_EQ(t, want(r, 0, 1, PS_LOCK_READ, 1, 0), PS_LOCK_FREE);
	EXPECT_EQ(t, event(r, 1), 72);
	r->seen[1] = 0; /* the answer was lost */
	EXPECT_EQ(t, event(r, 1), 72);
	EXPECT_EQ(t, event(r, 1), 0);
	EXPECT_EQ(t, want(r, 1, 1, PS_LOCK_READ, 2, 72), PS_LOCK_FREE);
	EXPECT_EQ(t, unlock(r, 0, 1, 1), PS_LOCK_FREE);
	EXPECT_EQ(t, event(r, 1), 0);
	EXPECT_EQ(t, unlock(r, 1, 1, 2), PS_LOCK_FREE);
	EXPECT_EQ(t, event(r, 1), 71);
	/* Another one is faster: it waits again, by the same token, and gives up then. */
	EXPECT_EQ(t, want(r, 0, 1, PS_LOCK_WRITE, 1, 0), PS_LOCK_FREE);
	EXPECT_EQ(t, want(r, 1, 1, PS_LOCK_WRITE, 1, 71), PS_LOCK_WAITS);
	EXPECT_EQ(t, r->table.nr_waits, 1u);
	EXPECT_EQ(t, request(r, 1, 1, lock_of(0, 0, 1, 0, END), PS_LOCK_OP_CANCEL, 71), 0);
	EXPECT_EQ(t, r->table.nr_waits, 0u);
	EXPECT_EQ(t, unlock(r, 0, 1, 1), PS_LOCK_FREE);
	EXPECT_EQ(t, event(r, 1), 0);
	EXPECT_TRUE(t, !r->table.files.node);
	rig_free(t, r);
}

/* More than one answer has room for. */
static void many_events(struct ktest *t)
{
	struct rig *r = rig_new(false);
	uint64_t next = 1;

	ASSERT_TRUE(t, r);
	EXPECT_EQ(t, want(r, 0, 1, PS_LOCK_WRITE, 1, 0), PS_LOCK_FREE);
	for (uint64_t i = 1; i <= 3 * PS_LOCK_EVENTS_MAX / 2; i++)
		ASSERT_EQ(t, want(r, 1, 1, PS_LOCK_READ, i, i), PS_LOCK_WAITS);
	EXPECT_EQ(t, unlock(r, 0, 1, 1), PS_LOCK_FREE);
	for (int round = 0; round < 3; round++) {
		(void)event(r, 1);
		EXPECT_EQ(t, r->events.nr_tokens,
			  round == 0   ? PS_LOCK_EVENTS_MAX
			  : round == 1 ? PS_LOCK_EVENTS_MAX / 2
				       : 0);
		for (uint32_t i = 0; i < r->events.nr_tokens; i++)
			EXPECT_EQ(t, r->events.tokens[i].token, next++);
	}
	rig_free(t, r);
}

/* One who asks with the events of an earlier life of this node is told of this one at once. */
static void events_of_another_life(struct ktest *t)
{
	const struct ps_lock_events_req old = { .after = 100, .incarn = INCARN - 1 };
	struct rig *r = rig_new(false);

	ASSERT_TRUE(t, r);
	r->table.events_ns = UINT64_MAX / 4;
	EXPECT_EQ(t, lock_table_events(&r->table, &r->peers[0], &old, &r->events), 0);
	EXPECT_EQ(t, r->events.incarn, INCARN);
	EXPECT_EQ(t, r->events.last, 0u);
	EXPECT_EQ(t, r->events.nr_tokens, 0u);
	rig_free(t, r);
}

struct listener {
	struct rig *r;
	int ret;
};

static void listen(void *arg)
{
	struct listener *l = arg;
	const struct ps_lock_events_req req = { .after = l->r->seen[1], .incarn = INCARN };

	l->ret = lock_table_events(&l->r->table, &l->r->peers[1], &req, &l->r->events);
}

/* The request waits: for an event, and for the end of the node. */
static void a_request_waits_for_an_event(struct ktest *t)
{
	struct rig *r = rig_new(false);
	struct listener l = { .r = r };
	struct thread *th;

	ASSERT_TRUE(t, r);
	r->table.events_ns = UINT64_MAX / 4;
	EXPECT_EQ(t, want(r, 0, 1, PS_LOCK_WRITE, 1, 0), PS_LOCK_FREE);
	EXPECT_EQ(t, want(r, 1, 1, PS_LOCK_WRITE, 1, 71), PS_LOCK_WAITS);
	th = thread_create("listener", listen, &l);
	EXPECT_EQ(t, unlock(r, 0, 1, 1), PS_LOCK_FREE);
	thread_join(th);
	EXPECT_EQ(t, l.ret, 0);
	EXPECT_EQ(t, r->events.nr_tokens, 1u);
	r->seen[1] = r->events.last;
	th = thread_create("listener", listen, &l);
	lock_table_close(&r->table);
	thread_join(th);
	EXPECT_EQ(t, l.ret, -ESHUTDOWN);
	rig_free(t, r);
}

/* A ring through both processors: its last link is refused, and a wait without one is not. */
static void deadlocks_across_processors(struct ktest *t)
{
	struct rig *r = rig_new(false);

	ASSERT_TRUE(t, r);
	EXPECT_EQ(t, want(r, 0, 1, PS_LOCK_WRITE, 1, 0), PS_LOCK_FREE);
	EXPECT_EQ(t, want(r, 1, 2, PS_LOCK_WRITE, 1, 0), PS_LOCK_FREE);
	EXPECT_EQ(t, want(r, 1, 3, PS_LOCK_WRITE, 2, 0), PS_LOCK_FREE);
	EXPECT_EQ(t, want(r, 0, 2, PS_LOCK_READ, 1, 7), PS_LOCK_WAITS);
	EXPECT_EQ(t, want(r, 1, 3, PS_LOCK_READ, 1, 7), PS_LOCK_WAITS);
	EXPECT_EQ(t, want(r, 1, 1, PS_LOCK_READ, 2, 8), -EDEADLK);
	EXPECT_EQ(t, want(r, 1, 1, PS_LOCK_READ, 3, 8), PS_LOCK_WAITS);
	/* Once the holder does not wait any more there is no ring. */
	EXPECT_EQ(t, request(r, 0, 2, lock_of(0, 0, 1, 0, END), PS_LOCK_OP_CANCEL, 7), 0);
	EXPECT_EQ(t, want(r, 1, 1, PS_LOCK_READ, 2, 9), PS_LOCK_WAITS);
	rig_free(t, r);
}

static bool is_not_2(const void *arg, const struct storage_peer *peer)
{
	(void)arg;
	return peer->node != 2;
}

static void a_peer_that_leaves(struct ktest *t)
{
	struct rig *r = rig_new(false);

	ASSERT_TRUE(t, r);
	EXPECT_EQ(t, set(r, 1, PS_LOCK_POSIX, PS_LOCK_WRITE, 1, 0, 9), PS_LOCK_FREE);
	EXPECT_EQ(t, set(r, 1, PS_LOCK_OFD, PS_LOCK_WRITE, 1, 10, 19), PS_LOCK_FREE);
	EXPECT_EQ(t, set(r, 1, PS_LOCK_FLOCK, PS_LOCK_WRITE, 2, 0, END), PS_LOCK_FREE);
	EXPECT_EQ(t, want(r, 0, 1, PS_LOCK_WRITE, 1, 7), PS_LOCK_WAITS);
	EXPECT_EQ(t, want(r, 0, 2, PS_LOCK_WRITE, 1, 0), PS_LOCK_FREE);
	EXPECT_EQ(t, want(r, 1, 2, PS_LOCK_WRITE, 3, 7), PS_LOCK_WAITS);
	lock_table_members(&r->table, is_not_2, NULL);
	EXPECT_EQ(t, event(r, 0), 7);
	EXPECT_EQ(t, r->table.nr_locks, 1u);
	EXPECT_EQ(t, r->table.nr_waits, 0u);
	/* A request that it had sent comes when the view is there, and before it is. */
	left[1] = true;
	EXPECT_EQ(t, want(r, 1, 3, PS_LOCK_WRITE, 1, 0), -ESTALE);
	EXPECT_EQ(t, event(r, 1), -2);
	EXPECT_EQ(t, r->table.nr_locks, 1u);
	EXPECT_EQ(t, want(r, 0, 1, PS_LOCK_WRITE, 1, 7), PS_LOCK_FREE);
	rig_free(t, r);
}

/* A request that its sender has given up comes behind the one that undid it. */
static void a_late_request(struct ktest *t)
{
	struct rig *r = rig_new(false);
	struct ps_lock_req late = { .file = file_of(1),
				    .lock = lock_of(0, PS_LOCK_WRITE, 1, 0, END),
				    .seq = 1,
				    .acked = 1,
				    .token = 1 };

	ASSERT_TRUE(t, r);
	EXPECT_EQ(t, lock_table_request(&r->table, &r->peers[0], &late, &r->rep), 0);
	r->seq[0] = 1;
	EXPECT_EQ(t, unlock(r, 0, 1, 1), PS_LOCK_FREE);
	EXPECT_EQ(t, lock_table_request(&r->table, &r->peers[0], &late, &r->rep), -ESTALE);
	EXPECT_EQ(t, r->table.nr_locks, 0u);
	rig_free(t, r);
}

static int declare(struct rig *r, int peer, uint64_t ino, uint32_t nr, const struct ps_lock *locks)
{
	static struct ps_locks_req req; /* too big for a stack */

	req = (struct ps_locks_req){ .file = file_of(ino),
				     .seq = ++r->seq[peer],
				     .acked = r->seq[peer],
				     .nr_locks = nr,
				     .incarn = INCARN };
	memcpy(req.locks, locks, nr * sizeof(*locks));
	return lock_table_declare(&r->table, &r->peers[peer], &req);
}

static void nobody_gets_a_lock_in_the_grace(struct ktest *t)
{
	const struct ps_lock locks[] = { lock_of(PS_LOCK_POSIX, PS_LOCK_WRITE, 1, 0, 9),
					 lock_of(PS_LOCK_OFD, PS_LOCK_READ, 2, 10, 19) };
	struct rig *r = rig_new(true);

	ASSERT_TRUE(t, r);
	/* Peer 1 is faster than the one that had the lock. */
	EXPECT_EQ(t, want(r, 1, 1, PS_LOCK_WRITE, 1, 7), PS_LOCK_GRACE);
	EXPECT_EQ(t, set(r, 1, PS_LOCK_POSIX, PS_LOCK_READ, 2, 50, 60), PS_LOCK_GRACE);
	EXPECT_EQ(t, request(r, 1, 1, lock_of(0, 0, 3, 0, 0), PS_LOCK_OP_TEST, 8), PS_LOCK_GRACE);
	EXPECT_EQ(t, unlock(r, 1, 1, 4), PS_LOCK_FREE);
	EXPECT_EQ(t, event(r, 1), 0);
	EXPECT_EQ(t, declare(r, 0, 1, 2, locks), 0);
	EXPECT_EQ(t, declare(r, 0, 1, 2, locks), 0); /* again */
	EXPECT_EQ(t, r->table.nr_locks, 2u);
	lock_table_grace_end(&r->table);
	EXPECT_EQ(t, event(r, 1), -1);
	EXPECT_EQ(t, r->events.nr_tokens, 2u); /* the token of 1000 was used by unlock() too */
	EXPECT_EQ(t, want(r, 1, 1, PS_LOCK_WRITE, 1, 7), PS_LOCK_WAITS);
	EXPECT_EQ(t, unlock(r, 0, 1, 1), PS_LOCK_FREE);
	EXPECT_EQ(t, event(r, 1), 0);
	EXPECT_EQ(
		t,
		request(r, 0, 1, lock_of(PS_LOCK_OFD, PS_LOCK_NONE, 2, 0, END), PS_LOCK_OP_SET, 0),
		PS_LOCK_FREE);
	EXPECT_EQ(t, event(r, 1), 7);
	rig_free(t, r);
}

/* It was away for a lease: others have what it had, so it loses all of the file. */
static void a_declaration_that_comes_too_late(struct ktest *t)
{
	const struct ps_lock locks[] = { lock_of(PS_LOCK_POSIX, PS_LOCK_WRITE, 1, 0, 9),
					 lock_of(PS_LOCK_POSIX, PS_LOCK_READ, 1, 30, 39) };
	struct rig *r = rig_new(true);

	ASSERT_TRUE(t, r);
	lock_table_grace_end(&r->table);
	EXPECT_EQ(t, set(r, 1, PS_LOCK_POSIX, PS_LOCK_WRITE, 1, 35, 35), PS_LOCK_FREE);
	EXPECT_EQ(t, declare(r, 0, 1, 2, locks), -ENOLCK);
	EXPECT_EQ(t, r->table.nr_locks, 1u);
	EXPECT_EQ(t, declare(r, 0, 1, 1, locks), 0);
	EXPECT_EQ(t, r->table.nr_locks, 2u);
	rig_free(t, r);
}

/* One processor comes to its limit; another one goes on. Unlocking all is possible at the limit. */
static void one_peer_does_not_fill_the_table(struct ktest *t)
{
	struct rig *r = rig_new(false);

	ASSERT_TRUE(t, r);
	r->table.max = 4;
	for (int64_t i = 0; i < 3; i++)
		EXPECT_EQ(t,
			  set(r, 0, PS_LOCK_OFD, PS_LOCK_READ, (uint64_t)i + 1, 9 * i, 9 * i + 5),
			  PS_LOCK_FREE);
	EXPECT_EQ(t, set(r, 1, PS_LOCK_OFD, PS_LOCK_READ, 1, 0, 100), PS_LOCK_FREE);
	EXPECT_EQ(
		t,
		request(r, 0, 1, lock_of(PS_LOCK_OFD, PS_LOCK_WRITE, 9, 0, END), PS_LOCK_OP_SET, 5),
		PS_LOCK_WAITS);
	EXPECT_EQ(
		t,
		request(r, 0, 1, lock_of(PS_LOCK_OFD, PS_LOCK_WRITE, 9, 0, END), PS_LOCK_OP_SET, 6),
		-ENOLCK);
	EXPECT_EQ(t, set(r, 0, PS_LOCK_OFD, PS_LOCK_READ, 4, 0, 5), -ENOLCK);
	EXPECT_EQ(t, set(r, 0, PS_LOCK_OFD, PS_LOCK_NONE, 1, 2, 3), -ENOLCK);
	EXPECT_EQ(t, set(r, 0, PS_LOCK_OFD, PS_LOCK_NONE, 1, 0, END), PS_LOCK_FREE);
	EXPECT_EQ(t, set(r, 0, PS_LOCK_OFD, PS_LOCK_READ, 4, 0, 5), PS_LOCK_FREE);
	EXPECT_EQ(t, set(r, 1, PS_LOCK_OFD, PS_LOCK_READ, 2, 0, 100), PS_LOCK_FREE);
	rig_free(t, r);
}

/* A processor that sends what it likes, within the format, beside one that has a lock. */
static void random_requests(struct ktest *t)
{
	struct rig *r = rig_new(false);
	struct prng rnd;

	ASSERT_TRUE(t, r);
	r->table.max = 100;
	EXPECT_EQ(t, set(r, 0, PS_LOCK_POSIX, PS_LOCK_WRITE, 1, 100, 109), PS_LOCK_FREE);
	prng_seed(&rnd, 5);
	for (int i = 0; i < 20000; i++) {
		const uint8_t kind = (uint8_t)prng_below(&rnd, 3);
		const int64_t start = kind == PS_LOCK_FLOCK ? 0 : (int64_t)prng_below(&rnd, 200);
		const int64_t end = kind == PS_LOCK_FLOCK || !prng_below(&rnd, 4)
					    ? END
					    : start + (int64_t)prng_below(&rnd, 20);
		const struct ps_lock l = lock_of(kind, (uint8_t)prng_below(&rnd, 3),
						 1 + prng_below(&rnd, 30), start, end);

		(void)request(r, 1, 1 + prng_below(&rnd, 4), l, (uint8_t)prng_below(&rnd, 3),
			      prng_below(&rnd, 50));
		if (!prng_below(&rnd, 8)) {
			r->seen[1] = prng_below(&rnd, r->seen[1] + 2);
			(void)event(r, 1);
		}
		EXPECT_LE(t, r->table.nr_locks + r->table.nr_waits, 101u);
	}
	lock_table_members(&r->table, is_not_2, NULL);
	EXPECT_EQ(t, r->table.nr_locks, 1u);
	EXPECT_EQ(t, r->table.nr_waits, 0u);
	EXPECT_EQ(t, want(r, 0, 2, PS_LOCK_WRITE, 1, 0), PS_LOCK_FREE);
	rig_free(t, r);
}

/* --- the messages --------------------------------------------------------------------------- */

static int accept(uint32_t vnode, uint32_t node, bool may_wait)
{
	(void)vnode, (void)node, (void)may_wait;
	return 0;
}

static void messages(struct ktest *t)
{
	static struct storage st;
	static uint8_t body[512], reply[1024];
	const struct storage_options opt = { .index_bytes = 65536,
					     .vnode_check = accept,
					     .incarn = INCARN };
	const struct storage_peer from = { .node = 1, .incarn = 9 };
	const struct ps_lock_events_req ask = { 0 };
	struct ps_lock_req req = { .file = file_of(1),
				   .lock = lock_of(PS_LOCK_OFD, PS_LOCK_WRITE, 1, 0, 9),
				   .seq = 1,
				   .acked = 1,
				   .token = 1 };
	static struct ps_locks_req locks;
	struct ps_lock_req_wire w;
	struct ps_lock_rep rep;
	ssize_t len;

	ASSERT_EQ(t, storage_init(&st, NODE, NULL, &opt), 0);
	ps_lock_req_encode(&req, &w);
	len = storage_lock(&st, PS_LOCK, &from, &w, sizeof(w), reply, sizeof(reply));
	ASSERT_EQ(t, len, (ssize_t)sizeof(struct ps_lock_rep_wire));
	ASSERT_EQ(t, ps_lock_rep_decode(reply, (size_t)len, &rep), 0);
	EXPECT_EQ(t, rep.state, (uint32_t)PS_LOCK_FREE);
	EXPECT_EQ(t, st.lock_table.nr_locks, 1u);
	/* Neither too little, too much, nor into too little. */
	EXPECT_EQ(t, storage_lock(&st, PS_LOCK, &from, &w, sizeof(w) - 1, reply, 99), -EMSGSIZE);
	EXPECT_EQ(t, storage_lock(&st, PS_LOCK, &from, &w, 0, reply, 99), -EMSGSIZE);
	EXPECT_EQ(t, storage_lock(&st, PS_LOCK, &from, &w, sizeof(w), reply, 39), -EMSGSIZE);
	w.lock.kind = 9;
	EXPECT_EQ(t, storage_lock(&st, PS_LOCK, &from, &w, sizeof(w), reply, 99), -EPROTO);
	/* A file of another node. */
	req.file.node = NODE + 1;
	ps_lock_req_encode(&req, &w);
	EXPECT_EQ(t, storage_lock(&st, PS_LOCK, &from, &w, sizeof(w), reply, 99), -ESTALE);
	locks = (struct ps_locks_req){
		.file = file_of(1), .seq = 2, .acked = 2, .nr_locks = 1, .incarn = INCARN - 1
	};
	locks.locks[0] = lock_of(PS_LOCK_OFD, PS_LOCK_READ, 2, 20, 29);
	len = ps_locks_req_encode(&locks, body, sizeof(body));
	EXPECT_EQ(t, storage_locks(&st, PS_LOCKS, &from, body, (size_t)len, NULL, 0), -ESTALE);
	locks.incarn = INCARN;
	len = ps_locks_req_encode(&locks, body, sizeof(body));
	EXPECT_EQ(t, storage_locks(&st, PS_LOCKS, &from, body, (size_t)len, NULL, 0), 0);
	EXPECT_EQ(t, storage_locks(&st, PS_LOCKS, &from, body, (size_t)len - 1, NULL, 0),
		  -EMSGSIZE);
	EXPECT_EQ(t, st.lock_table.nr_locks, 2u);
	ps_lock_events_req_encode(&ask, (struct ps_lock_events_req_wire *)(void *)body);
	EXPECT_EQ(t, storage_lock_events(&st, PS_LOCK_EVENTS, &from, body, 16, reply, 15),
		  -EMSGSIZE);
	EXPECT_EQ(t, storage_lock_events(&st, PS_LOCK_EVENTS, &from, body, 16, reply, 99), 16);
	EXPECT_EQ(t, storage_lock_events(&st, PS_LOCK_EVENTS, &from, body, 15, reply, 99),
		  -EMSGSIZE);
	storage_destroy(&st);
}

static const struct ktest_case locks_cases[] = {
	KTEST(ranges_against_arrays),
	KTEST(flock_and_records_do_not_see_each_other),
	KTEST(a_wait_is_told_until_it_is_acknowledged),
	KTEST(many_events),
	KTEST(events_of_another_life),
	KTEST(a_request_waits_for_an_event),
	KTEST(deadlocks_across_processors),
	KTEST(a_peer_that_leaves),
	KTEST(a_late_request),
	KTEST(nobody_gets_a_lock_in_the_grace),
	KTEST(a_declaration_that_comes_too_late),
	KTEST(one_peer_does_not_fill_the_table),
	KTEST(random_requests),
	KTEST(messages),
	{ 0 },
};
static const struct ktest_suite locks_suite = { .name = "storage.locks", .cases = locks_cases };
KTEST_SUITE(locks_suite);
