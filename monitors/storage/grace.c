/* SPDX-License-Identifier: MIT */
/* Storage monitor: the time after a start again. */
#include "grace.h"

#include <lib/errno.h>
#include <mm/slab.h>

struct declared {
	struct list_head link; /* grace.lock */
	struct storage_peer who;
};

void grace_init(struct grace *g, bool wanted)
{
	spin_lock_init(&g->lock, "storage.grace", RANK_SPIN_MONITOR);
	list_init(&g->declared);
	g->over = !wanted;
	waitqueue_init(&g->changed);
}

static void forget_all_locked(struct grace *g) __must_hold(&g->lock)
{
	struct declared *d, *next;

	assert_spin_held(&g->lock);
	list_for_each_entry_safe(d, next, &g->declared, link) {
		list_del(&d->link);
		kfree(d);
	}
}

void grace_destroy(struct grace *g)
{
	(void)grace_end(g);
}

static bool find_locked(struct grace *g, const struct storage_peer *who) __must_hold(&g->lock)
{
	struct declared *d;

	assert_spin_held(&g->lock);
	list_for_each_entry(d, &g->declared, link) {
		if (d->who.node == who->node && d->who.incarn == who->incarn)
			return true;
	}
	return false;
}

int grace_declare(struct grace *g, const struct storage_peer *who)
{
	struct declared *d;

	if (grace_is_over(g))
		return 0;
	d = kmalloc(sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->who = *who;
	spin_lock(&g->lock);
	if (!grace_is_over(g) && !find_locked(g, who)) {
		list_add(&d->link, &g->declared);
		d = NULL;
	}
	spin_unlock(&g->lock);
	kfree(d);
	wake_all(&g->changed);
	return 0;
}

bool grace_has_declared(struct grace *g, const struct storage_peer *who)
{
	bool has;

	spin_lock(&g->lock);
	has = find_locked(g, who);
	spin_unlock(&g->lock);
	return has;
}

bool grace_end(struct grace *g)
{
	bool first;

	spin_lock(&g->lock);
	first = !__atomic_exchange_n(&g->over, true, __ATOMIC_ACQ_REL);
	forget_all_locked(g);
	spin_unlock(&g->lock);
	wake_all(&g->changed);
	return first;
}

void grace_look(struct grace *g)
{
	wake_all(&g->changed);
}

int grace_wait(struct grace *g)
{
	return wait_event_killable(&g->changed, grace_is_over(g));
}
