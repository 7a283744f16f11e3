/* SPDX-License-Identifier: MIT */
/*
 * Numbers in nested PID namespaces: who gets which, and when there are none.
 */
#include <lib/err.h>
#include <lib/ktest.h>

#include "process.h"

/* Made outside of the vNode's table: only the numbers in namespaces matter. */
static int number(struct pid *pid, const uint32_t *wanted, uint32_t nr)
{
	int err;

	spin_lock(&root_vnode.lock);
	err = pid_number_locked(pid, wanted, nr);
	spin_unlock(&root_vnode.lock);
	return err;
}

static void forget(struct pid *pid)
{
	spin_lock(&root_vnode.lock);
	pid_unnumber_locked(pid);
	spin_unlock(&root_vnode.lock);
	pid_free(pid);
}

static void levels(struct ktest *t)
{
	static struct process init;
	struct pid_ns *outer = pid_ns_create(NULL, NULL, NULL),
		      *inner = pid_ns_create(outer, NULL, NULL);
	struct pid_ns *other = pid_ns_create(NULL, NULL, NULL);
	struct pid *first = pid_new(outer, NULL), *second = pid_new(inner, NULL);

	EXPECT_EQ(t, pid_ns_level(NULL), 0u);
	EXPECT_EQ(t, inner->level, 2u);
	EXPECT_EQ(t, number(first, NULL, 0), 0);
	outer->init = &init;
	EXPECT_EQ(t, number(second, NULL, 0), 0);
	inner->init = &init;
	first->nr = 700;
	second->nr = 800;
	EXPECT_EQ(t, pid_nr_in(first, NULL), 700u);
	EXPECT_EQ(t, pid_nr_in(first, outer), 1u);
	EXPECT_EQ(t, pid_nr_in(first, inner), 0u);
	EXPECT_EQ(t, pid_nr_in(second, NULL), 800u);
	EXPECT_EQ(t, pid_nr_in(second, outer), 2u);
	EXPECT_EQ(t, pid_nr_in(second, inner), 1u);
	EXPECT_EQ(t, pid_nr_in(second, other), 0u);
	EXPECT_EQ(t, pid_own_nr(second), 1u);
	EXPECT_TRUE(t, pid_ns_within(inner, outer) && pid_ns_within(inner, NULL));
	EXPECT_TRUE(t, pid_ns_within(outer, outer) && !pid_ns_within(outer, inner));
	EXPECT_TRUE(t, !pid_ns_within(other, outer) && !pid_ns_within(NULL, other));
	EXPECT_TRUE(t, radix_lookup(&outer->pids, 2) == second);
	EXPECT_TRUE(t, radix_lookup(&inner->pids, 1) == second);
	pid_ns_put(inner);
	forget(second); /* the last reference of the inner one */
	EXPECT_TRUE(t, !radix_lookup(&outer->pids, 2));
	forget(first);
	ns_wait_all_freed();
	EXPECT_EQ(t, refcount_read(&outer->ns.inode.refs), 1);
	pid_ns_put(outer);
	pid_ns_put(other);
}

static void the_first_one(struct ktest *t)
{
	static struct process init;
	const uint32_t one = 1, two = 2, none[2] = { 1, 5 };
	struct pid_ns *ns = pid_ns_create(NULL, NULL, NULL);
	struct pid *a = pid_new(ns, NULL), *b = pid_new(ns, NULL);

	EXPECT_EQ(t, number(a, &two, 1), -EINVAL);
	EXPECT_EQ(t, a->inner[0].nr, 0u);
	EXPECT_EQ(t, number(a, none, 2), 0);
	EXPECT_EQ(t, a->inner[0].nr, 1u);
	/* Until it is a process, no other gets in; if it does not become one, the next is first. */
	EXPECT_EQ(t, number(b, NULL, 0), -ENOMEM);
	spin_lock(&root_vnode.lock);
	pid_unnumber_locked(a);
	spin_unlock(&root_vnode.lock);
	EXPECT_EQ(t, number(b, NULL, 0), 0);
	EXPECT_EQ(t, b->inner[0].nr, 1u);
	ns->init = &init;
	EXPECT_EQ(t, number(a, &one, 1), -EEXIST);
	EXPECT_EQ(t, number(a, NULL, 0), 0);
	EXPECT_EQ(t, a->inner[0].nr, 2u);
	spin_lock(&root_vnode.lock);
	EXPECT_TRUE(t, !pid_is_closed_locked(a));
	ns->init = NULL;
	ns->closed = true;
	EXPECT_TRUE(t, pid_is_closed_locked(a));
	pid_unnumber_locked(a);
	spin_unlock(&root_vnode.lock);
	EXPECT_EQ(t, number(a, NULL, 0), -ENOMEM);
	EXPECT_EQ(t, number(a, &one, 1), -ENOMEM);
	forget(b);
	pid_free(a);
	EXPECT_EQ(t, ns->pids.count, (size_t)0);
	pid_ns_put(ns);
}

/* A number that is taken in one level gives back those of the others. */
static void all_or_none(struct ktest *t)
{
	static struct process init;
	const uint32_t wanted[2] = { 1, 1 };
	struct pid_ns *outer = pid_ns_create(NULL, NULL, NULL),
		      *inner = pid_ns_create(outer, NULL, NULL);
	struct pid *a = pid_new(outer, NULL), *b = pid_new(inner, NULL);

	EXPECT_EQ(t, number(a, NULL, 0), 0);
	outer->init = &init;
	EXPECT_EQ(t, number(b, wanted, 2), -EEXIST);
	EXPECT_EQ(t, inner->pids.count, (size_t)0);
	EXPECT_EQ(t, inner->last_pid, 0u);
	EXPECT_EQ(t, number(b, wanted, 1), 0);
	EXPECT_EQ(t, pid_nr_in(b, outer), 2u);
	forget(b);
	forget(a);
	pid_ns_put(inner);
	pid_ns_put(outer);
}

/* Low numbers are not used again; those in use are passed over. */
static void wraps(struct ktest *t)
{
	static struct process init;
	const uint32_t taken = PID_AFTER_WRAP;
	struct pid_ns *ns = pid_ns_create(NULL, NULL, NULL);
	struct pid *p[4];

	for (int i = 0; i < 4; i++)
		p[i] = pid_new(ns, NULL);
	EXPECT_EQ(t, number(p[0], NULL, 0), 0);
	ns->init = &init;
	EXPECT_EQ(t, number(p[1], &taken, 1), 0);
	ns->last_pid = PID_MAX - 2;
	EXPECT_EQ(t, number(p[2], NULL, 0), 0);
	EXPECT_EQ(t, p[2]->inner[0].nr, PID_MAX - 1);
	EXPECT_EQ(t, number(p[3], NULL, 0), 0);
	EXPECT_EQ(t, p[3]->inner[0].nr, PID_AFTER_WRAP + 1);
	for (int i = 0; i < 4; i++)
		forget(p[i]);
	pid_ns_put(ns);
}

static void depth(struct ktest *t)
{
	struct pid_ns *ns = NULL, *inner;
	struct pid *pid;

	for (uint32_t i = 0; i < PID_NS_LEVELS; i++) {
		inner = pid_ns_create(ns, NULL, NULL);
		ASSERT_TRUE(t, !IS_ERR(inner));
		pid_ns_put(ns);
		ns = inner;
	}
	inner = pid_ns_create(ns, NULL, NULL);
	EXPECT_TRUE(t, IS_ERR(inner) && PTR_ERR(inner) == -ENOSPC);
	pid = pid_new(ns, NULL);
	pid_ns_put(ns);
	EXPECT_EQ(t, pid->level, PID_NS_LEVELS);
	EXPECT_TRUE(t, pid->inner[0].ns->level == 1 && pid->inner[31].ns->level == 32);
	pid_free(pid);
}

static const struct ktest_case pid_ns_cases[] = {
	KTEST(levels), KTEST(the_first_one), KTEST(all_or_none), KTEST(wraps), KTEST(depth), { 0 },
};
static const struct ktest_suite pid_ns_suite = { .name = "process.pid_ns", .cases = pid_ns_cases };
KTEST_SUITE(pid_ns_suite);
