/* SPDX-License-Identifier: MIT */
/* Storage monitor: the processor that may keep names and attributes. */
#include "keep.h"

#include <kernel/counter.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>

COUNTER(storage_keepers, "storage.keepers", "times that a processor may keep names and attributes");
COUNTER(storage_recalls, "storage.recalls", "times that this was taken back for another one");

void keep_init(struct keep *k, const struct keep_ops *ops, bool again)
{
	memset(k, 0, sizeof(*k));
	mutex_init(&k->taking, "storage.keep", RANK_MONITOR);
	spin_lock_init(&k->lock, "storage.keep", RANK_SPIN_MONITOR);
	list_init(&k->uses);
	k->ops = ops;
	k->forgotten = ops && again;
}

static bool same_peer(const struct storage_peer *a, const struct storage_peer *b)
{
	return a->node == b->node && a->incarn == b->incarn;
}

/* Must somebody be told before a request of @from is begun? */
static bool is_in_the_way_locked(const struct keep *k, const struct storage_peer *from)
	__must_hold(&k->lock)
{
	assert_spin_held(&k->lock);
	return k->forgotten || (k->keeper.node && !same_peer(&k->keeper, from));
}

static int take_back_locked(struct keep *k, const struct storage_peer *from) __must_hold(&k->taking)
{
	struct storage_peer keeper;
	bool needed;
	int err;

	assert_mutex_held(&k->taking);
	spin_lock(&k->lock);
	needed = is_in_the_way_locked(k, from);
	keeper = k->keeper;
	k->is_taking = needed;
	spin_unlock(&k->lock);
	if (!needed)
		return 0; /* another thread has done it */
	counter_inc(&storage_recalls);
	err = k->ops->recall(keeper.node ? &keeper : NULL, from);
	spin_lock(&k->lock);
	if (!err) {
		k->keeper = (struct storage_peer){ 0 };
		k->forgotten = false;
	}
	k->is_taking = false;
	spin_unlock(&k->lock);
	return err;
}

int keep_enter(struct keep *k, struct keep_use *use, const struct storage_peer *from)
{
	int err = 0;

	use->who = *from;
	for (;;) {
		spin_lock(&k->lock);
		if (!is_in_the_way_locked(k, from))
			break;
		spin_unlock(&k->lock);
		err = mutex_lock_killable(&k->taking);
		if (err)
			return err;
		err = take_back_locked(k, from);
		mutex_unlock(&k->taking);
		if (err)
			return err;
	}
	list_add(&use->link, &k->uses);
	spin_unlock(&k->lock);
	return 0;
}

void keep_leave(struct keep *k, struct keep_use *use)
{
	spin_lock(&k->lock);
	list_del(&use->link);
	spin_unlock(&k->lock);
}

static bool others_are_under_way_locked(const struct keep *k, const struct storage_peer *from)
	__must_hold(&k->lock)
{
	const struct keep_use *use;

	assert_spin_held(&k->lock);
	list_for_each_entry(use, &k->uses, link) {
		if (!same_peer(&use->who, from))
			return true;
	}
	return false;
}

bool keep_grant(struct keep *k, const struct storage_peer *from)
{
	/* Only what is wise: a processor that comes now takes it back with its first request. */
	bool granted = k->ops && k->ops->is_alone(from);

	if (!granted)
		return false;
	spin_lock(&k->lock);
	granted = !k->is_taking && !is_in_the_way_locked(k, from) &&
		  !others_are_under_way_locked(k, from);
	if (granted)
		k->keeper = *from;
	spin_unlock(&k->lock);
	if (granted)
		counter_inc(&storage_keepers);
	return granted;
}
