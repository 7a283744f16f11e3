/* SPDX-License-Identifier: MIT */
/*
 * Namespaces of a user. See user_count.h.
 */
#include "user_count.h"

#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/list.h>
#include <mm/slab.h>

#include "user_ns.h"

#define BUCKETS        256u
#define NAMESPACES_MAX 16384u
#define MOUNTS_MAX     16384u

struct user_count {
	struct hlist_node link; /* counts.lock */
	uint32_t refs;          /* counts.lock */
	uint32_t uid;           /* const */
	struct user_ns *ns;     /* const, counted */
	uint64_t nr[COUNT_KINDS];
};

static struct {
	struct spinlock lock; /* RANK_SPIN_FS: the last reference may go under tables of tasks */
	struct hlist_head buckets[BUCKETS] __guarded_by(&lock);
} counts = { .lock = SPINLOCK_INIT("user.counts", RANK_SPIN_FS) };

uint64_t user_count_max[COUNT_KINDS] = {
	[NS_CGROUP] = NAMESPACES_MAX, [NS_IPC] = NAMESPACES_MAX,   [NS_MNT] = NAMESPACES_MAX,
	[NS_NET] = NAMESPACES_MAX,    [NS_PID] = NAMESPACES_MAX,   [NS_USER] = 0,
	[NS_UTS] = NAMESPACES_MAX,    [COUNT_MOUNTS] = MOUNTS_MAX,
};

static struct hlist_head *bucket(const struct user_ns *ns, uint32_t uid)
{
	return &counts.buckets[hash64_pair((uintptr_t)ns, uid) % BUCKETS];
}

static struct user_count *find_locked(const struct user_ns *ns, uint32_t uid)
{
	struct user_count *c;

	assert_spin_held(&counts.lock);
	hlist_for_each_entry(c, bucket(ns, uid), link) {
		if (c->ns == ns && c->uid == uid) {
			c->refs++;
			return c;
		}
	}
	return NULL;
}

struct user_count *user_count_get(struct user_ns *ns, uint32_t uid)
{
	struct user_count *new = kzalloc(sizeof(*new)), *c;

	if (!new)
		return NULL;
	new->refs = 1;
	new->uid = uid;
	new->ns = ns;
	spin_lock(&counts.lock);
	c = find_locked(ns, uid);
	if (!c) {
		c = new;
		new = NULL;
		(void)user_ns_get(ns);
		hlist_add_head(&c->link, bucket(ns, uid));
	}
	spin_unlock(&counts.lock);
	kfree(new);
	return c;
}

struct user_count *user_count_hold(struct user_count *c)
{
	spin_lock(&counts.lock);
	c->refs++;
	spin_unlock(&counts.lock);
	return c;
}

void user_count_put(struct user_count *c)
{
	bool last;

	if (!c)
		return;
	spin_lock(&counts.lock);
	last = !--c->refs;
	if (last)
		hlist_del(&c->link);
	spin_unlock(&counts.lock);
	if (!last)
		return;
	for (size_t i = 0; i < COUNT_KINDS; i++)
		ASSERT(!c->nr[i]);
	user_ns_put(c->ns);
	kfree(c);
}

/* That of the user that has made the namespace of @c, which counts it, too. NULL: no more. */
static struct user_count *next_of(const struct user_count *c)
{
	return c->ns ? c->ns->ns.count : NULL;
}

static bool add_one(struct user_count *c, unsigned int kind)
{
	const uint64_t max = __atomic_load_n(&user_count_max[kind], __ATOMIC_RELAXED);

	if (__atomic_add_fetch(&c->nr[kind], 1, __ATOMIC_RELAXED) <= max)
		return true;
	__atomic_sub_fetch(&c->nr[kind], 1, __ATOMIC_RELAXED);
	return false;
}

int user_count_add(struct user_count *c, unsigned int kind)
{
	struct user_count *at = c;

	ASSERT(kind < COUNT_KINDS);
	while (at && add_one(at, kind))
		at = next_of(at);
	if (!at)
		return 0;
	for (struct user_count *b = c; b != at; b = next_of(b))
		__atomic_sub_fetch(&b->nr[kind], 1, __ATOMIC_RELAXED);
	return -ENOSPC;
}

void user_count_sub(struct user_count *c, unsigned int kind)
{
	for (; c; c = next_of(c)) {
		ASSERT(c->nr[kind]);
		__atomic_sub_fetch(&c->nr[kind], 1, __ATOMIC_RELAXED);
	}
}
