/* SPDX-License-Identifier: MIT */
/*
 * A memory node is silent, and membership has not decided yet: programs that are not concerned go
 * on, those that are to end do so at once, and nothing is left anywhere when the node speaks again.
 */
#include <stdlib.h>
#include <unistd.h>

#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <processor/client/nodes.h>
#include <processor/excache/credit.h>
#include <processor/excache/excache.h>
#include <processor/excache/object.h>
#include <processor/mm/aspace.h>
#include <proto/pm.h>
#include <shim/shim.h>

#include "fake_owner.h"
#include "user_word.h"

#define BASE      0x400000ull
#define SOON_NS   (300 * NSEC_PER_MSEC)
#define ENDING_NS (1000 * NSEC_PER_MSEC) /* no program takes longer to end */

extern unsigned int fake_kills;

/* A node that has just begun to speak again is not waited for by a drain. */
#define wait_for(cond)                                       \
	do {                                                 \
		for (int _i = 0; _i < 5000 && !(cond); _i++) \
			usleep(1000);                        \
	} while (0)

static size_t spaces_before;

static void cache_start(void)
{
	fake_cache();
	fake_reset();
	fake_settle();
	fake_kills = 0;
	spaces_before = object_space_count();
}

static struct aspace *space_create(uint32_t home, uint64_t pages)
{
	const struct vma v = { .start = BASE,
			       .end = BASE + pages * PAGE_SIZE,
			       .prot = VMA_PROT_READ | VMA_PROT_WRITE };
	struct aspace *as = aspace_create(object_id(home, object_new_number()), home);

	if (IS_ERR(as))
		abort();
	as->anon->vregion_size = FAKE_VREGION_SIZE;
	if (aspace_set_vma(as, &v, SEQ_ANY))
		abort();
	return as;
}

static void put(struct ktest *t, struct aspace *as, uint64_t page, uint64_t v)
{
	EXPECT_EQ(t, user_word(as, BASE, page, &v, true), 0);
}

/* How long the end of a program with @as takes, until it is reported. */
static uint64_t end_ns(struct aspace *as)
{
	const uint64_t start = time_now_ns();

	aspace_put(as);
	(void)aspace_drain();
	return time_now_ns() - start;
}

/* Nothing is left of any space. */
static void all_gone(struct ktest *t)
{
	fake_settle();
	EXPECT_EQ(t, object_space_count(), spaces_before);
	EXPECT_EQ(t, excache_free_count(), excache_line_count());
	EXPECT_EQ(t, fake_pages(), 0u);
	EXPECT_EQ(t, credit_total(), fake_promised());
	EXPECT_EQ(t, fake_kills, 0u);
}

static unsigned int destroys(void)
{
	struct fake_counts counts;

	fake_counts(&counts);
	return counts.destroys;
}

/* Homes are told of ends beside each other, and nobody waits for a silent one for long. */
static void a_silent_home_holds_up_no_end(struct ktest *t)
{
	struct aspace *there[3], *here;
	struct object *file;

	cache_start();
	here = space_create(2, 4);
	put(t, here, 1, 11);
	for (unsigned int i = 0; i < 3; i++) {
		there[i] = space_create(1, 4);
		put(t, there[i], 1, 22);
	}
	file = object_shared_create(4 * PAGE_SIZE, true);
	ASSERT_FALSE(t, IS_ERR(file));
	fake_silence(1, PM_DESTROY);
	EXPECT_LT(t, end_ns(there[0]), ENDING_NS);
	EXPECT_LT(t, end_ns(here), SOON_NS);
	EXPECT_EQ(t, destroys(), 1u);
	/* It has been silent for so long already. */
	object_put(file);
	EXPECT_LT(t, end_ns(there[1]), SOON_NS);
	EXPECT_LT(t, end_ns(there[2]), SOON_NS);
	EXPECT_EQ(t, destroys(), 1u);
	fake_speak();
	wait_for(destroys() == 5);
	EXPECT_EQ(t, destroys(), 5u);
	all_gone(t);
}

/* Names that have waited here for long do not make a home a silent one. */
static void a_home_that_was_not_asked_is_waited_for(struct ktest *t)
{
	struct aspace *as;

	cache_start();
	as = space_create(1, 4);
	shim_time_freeze(true); /* no timer comes */
	aspace_put(as);
	EXPECT_EQ(t, destroys(), 0u);
	shim_time_advance_ns(2000 * NSEC_PER_MSEC);
	(void)destroy_drain(false);
	EXPECT_EQ(t, destroys(), 1u);
	shim_time_freeze(false);
	all_gone(t);
}

/* Credits beyond need go back, but the end does not wait for it. */
static void credits_of_a_silent_node_hold_up_no_end(struct ktest *t)
{
	struct aspace *as;

	cache_start();
	as = space_create(2, 4);
	put(t, as, 1, 11);
	(void)credit_want(3); /* makes the account */
	for (unsigned int i = 0; i < 10; i++)
		credit_add(&(struct granted){ 3, 1000, credit_hint(3)->report });
	fake_silence(3, PM_CREDIT);
	EXPECT_LT(t, end_ns(as), SOON_NS);
	fake_speak();
	EXPECT_LE(t, credit_held(), 2048u * FAKE_NODES);
	all_gone(t);
}

/* Owners that are to take evicted pages are silent: the end is left to a worker. */
static void an_end_waits_for_no_owner(struct ktest *t)
{
	struct aspace *as;
	uint64_t fit;

	cache_start();
	fit = excache_line_count() - 32; /* without the spare ones: fake_cache() */
	as = space_create(1, fit + 16);
	for (uint64_t i = 0; i < fit; i++)
		put(t, as, i, i);
	for (uint32_t node = 1; node <= FAKE_NODES; node++)
		fake_silence(node, PM_WRITEBACK);
	for (uint64_t i = 0; i < 16; i++)
		put(t, as, fit + i, i);
	EXPECT_LT(t, end_ns(as), ENDING_NS);
	EXPECT_EQ(t, object_space_count(), spaces_before + 1);
	fake_speak();
	wait_for(object_space_count() == spaces_before);
	all_gone(t);
}

/* --- threads that are killed while they wait ---------------------------------------------- */

struct victim {
	struct thread *thread;
	struct aspace *as, *child;
	struct object *obj;
	uint64_t page;
	int (*call)(struct victim *v);
	int err;
	bool over; /* atomic */
};

static void victim_main(void *arg)
{
	struct victim *v = arg;

	v->err = v->call(v);
	__atomic_store_n(&v->over, true, __ATOMIC_RELEASE);
}

static bool is_over(struct victim *v)
{
	return __atomic_load_n(&v->over, __ATOMIC_ACQUIRE);
}

/* It waits when this returns: a kill ends the wait. */
static void victim_start(struct ktest *t, struct victim *v)
{
	v->thread = thread_create("victim", victim_main, v);
	ASSERT_FALSE(t, IS_ERR(v->thread));
	wait_for(is_over(v) || shim_thread_waits_killable(v->thread));
}

/* It waits, and leaves at once when it is told to die. */
static void victim_kill(struct ktest *t, struct victim *v)
{
	EXPECT_FALSE(t, is_over(v));
	thread_notify(v->thread, THREAD_F_KILL);
	wait_for(is_over(v));
	EXPECT_TRUE(t, is_over(v));
	if (!is_over(v))
		fake_speak();
	thread_join(v->thread);
	EXPECT_EQ(t, v->err, -EINTR);
}

static int do_fork(struct victim *v)
{
	return aspace_fork(v->as, &v->child);
}

/*
 * A thread of the parent is in a call to a silent home, with its map_lock: the child ends, though
 * the chain cannot collapse yet.
 */
static void an_end_waits_for_no_other_program(struct ktest *t)
{
	struct victim v = { .call = do_fork };
	struct aspace *c;

	cache_start();
	v.as = space_create(1, 4);
	put(t, v.as, 1, 11);
	ASSERT_EQ(t, aspace_fork(v.as, &c), 0);
	put(t, v.as, 1, 12);
	fake_silence(1, PM_FORK);
	victim_start(t, &v);
	EXPECT_LT(t, end_ns(c), ENDING_NS);
	EXPECT_FALSE(t, is_over(&v));
	fake_speak();
	thread_join(v.thread);
	ASSERT_EQ(t, v.err, 0);
	(void)end_ns(v.child);
	EXPECT_TRUE(t, !v.as->anon->backing);
	(void)end_ns(v.as);
	all_gone(t);
}

/* The home does it later: only then is it told that both spaces are not wanted. */
static void a_killed_fork_is_undone_when_it_is_done(struct ktest *t)
{
	struct fake_counts counts;
	struct victim v = { .call = do_fork };

	cache_start();
	v.as = space_create(1, 4);
	put(t, v.as, 1, 11);
	fake_silence(1, PM_FORK);
	victim_start(t, &v);
	victim_kill(t, &v);
	EXPECT_EQ(t, fake_kills, 0u);
	EXPECT_LT(t, end_ns(v.as), ENDING_NS);
	fake_counts(&counts);
	EXPECT_EQ(t, counts.forks, 0u);
	EXPECT_EQ(t, counts.destroys, 1u);
	fake_speak();
	wait_for((fake_counts(&counts), counts.destroys == 3));
	EXPECT_EQ(t, counts.forks, 1u);
	EXPECT_EQ(t, counts.destroys, 3u);
	all_gone(t);
}

/* It has refused: there is nothing to be undone. */
static void a_killed_fork_may_be_refused(struct ktest *t)
{
	struct victim v = { .call = do_fork };

	cache_start();
	v.as = space_create(1, 4);
	put(t, v.as, 1, 11);
	fake_silence(1, PM_FORK);
	fake_fail(PM_FORK, -ENOMEM);
	victim_start(t, &v);
	victim_kill(t, &v);
	EXPECT_LT(t, end_ns(v.as), ENDING_NS);
	fake_speak();
	wait_for(object_space_count() == spaces_before);
	EXPECT_EQ(t, destroys(), 1u);
	all_gone(t);
}

static int do_put(struct victim *v)
{
	uint64_t word = 1;

	return user_word(v->as, BASE, v->page, &word, true);
}

/* The owner does not know the space, and the home does not say whether that is right. */
static void a_killed_fault_is_no_loss(struct ktest *t)
{
	struct victim v = { .call = do_put, .page = 64 };

	cache_start();
	v.as = space_create(1, 4);
	put(t, v.as, 1, 11);
	fake_fail(PM_FILL_VMA, -ESRCH);
	fake_silence(1, PM_VREGIONS);
	victim_start(t, &v);
	victim_kill(t, &v);
	EXPECT_EQ(t, v.as->failed, 0);
	fake_speak();
	EXPECT_LT(t, end_ns(v.as), ENDING_NS);
	all_gone(t);
}

/* Frames that are granted too late are for others; two threads wait, one for its turn. */
static void a_killed_request_for_credits_loses_none(struct ktest *t)
{
	struct victim v[2] = { { .call = do_put, .page = 1 }, { .call = do_put, .page = 2 } };
	uint32_t owner;
	uint64_t held;

	cache_start();
	v[0].as = v[1].as = space_create(1, 4);
	put(t, v[0].as, 0, 11);
	ASSERT_EQ(t, object_owner(v[0].as->anon, BASE >> PAGE_SHIFT, &owner), 0);
	while (credit_recall(owner))
		;
	held = credit_held();
	fake_silence(owner, PM_CREDIT);
	for (unsigned int i = 0; i < 2; i++)
		victim_start(t, &v[i]);
	for (unsigned int i = 0; i < 2; i++)
		victim_kill(t, &v[i]);
	EXPECT_LT(t, end_ns(v[0].as), ENDING_NS);
	EXPECT_EQ(t, credit_held(), held + 1); /* of the page that was there */
	fake_speak();
	wait_for(credit_held() > held + 1);
	all_gone(t);
}

static int do_write(struct victim *v)
{
	struct line *line;
	const int err = object_shared_get(v->obj, v->page, true, &line);

	if (!err)
		excache_put(line);
	return err;
}

/*
 * A home that is asked to make a shared object: the thread that asked is killed, another one goes
 * on waiting, and objects of other homes are not concerned.
 */
static void a_killed_introduction_goes_on(struct ktest *t)
{
	struct victim v = { .call = do_write, .page = 1 }, w = { .call = do_write, .page = 2 };
	struct fake_counts counts;
	struct object *other;

	cache_start();
	v.obj = w.obj = object_shared_create(4 * PAGE_SIZE, false);
	fake_silence(1, PM_SPACE);
	victim_start(t, &v);
	victim_start(t, &w);
	victim_kill(t, &v);
	EXPECT_FALSE(t, is_over(&w));
	fake_home(2);
	other = object_shared_create(4 * PAGE_SIZE, true);
	EXPECT_FALSE(t, IS_ERR(other));
	fake_home(1);
	fake_speak();
	thread_join(w.thread);
	EXPECT_EQ(t, w.err, 0);
	fake_counts(&counts);
	EXPECT_EQ(t, counts.spaces, 2u);
	object_put(other);
	object_put(v.obj);
	all_gone(t);
	EXPECT_EQ(t, destroys(), 2u);
}

/* The object itself ends before the home has made it. */
static void a_late_shared_object_is_destroyed(struct ktest *t)
{
	struct victim v = { .call = do_write, .page = 1 };

	cache_start();
	v.obj = object_shared_create(4 * PAGE_SIZE, false);
	fake_silence(1, PM_SPACE);
	victim_start(t, &v);
	victim_kill(t, &v);
	object_put(v.obj);
	(void)aspace_drain();
	EXPECT_EQ(t, destroys(), 0u);
	fake_speak();
	wait_for(destroys() == 1);
	EXPECT_EQ(t, destroys(), 1u);
	all_gone(t);
}

/* For /proc/meminfo, vm.overcommit_*, and mmap() of shared memory that is not reserved. */
static void questions_about_a_silent_node_end(struct ktest *t)
{
	const struct commit_policy ask = { 0 };
	struct commit_policy policy;
	struct node_memory mem;

	cache_start();
	fake_silence(1, PM_MEMINFO);
	fake_silence(1, PM_COMMIT);
	EXPECT_EQ(t, node_memory(1, &mem), -ETIMEDOUT);
	EXPECT_EQ(t, node_commit(1, &ask, &policy), -ETIMEDOUT);
	fake_speak();
}

static const struct ktest_case cases[] = {
	KTEST(an_end_waits_for_no_owner),
	KTEST(an_end_waits_for_no_other_program),
	KTEST(a_killed_fork_is_undone_when_it_is_done),
	KTEST(a_killed_fork_may_be_refused),
	KTEST(a_killed_fault_is_no_loss),
	KTEST(a_killed_request_for_credits_loses_none),
	KTEST(a_killed_introduction_goes_on),
	KTEST(a_late_shared_object_is_destroyed),
	KTEST(a_silent_home_holds_up_no_end),
	KTEST(a_home_that_was_not_asked_is_waited_for),
	KTEST(credits_of_a_silent_node_hold_up_no_end),
	KTEST(questions_about_a_silent_node_end),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "processor.silence", .cases = cases };
KTEST_SUITE(suite);
