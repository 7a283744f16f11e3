/* SPDX-License-Identifier: MIT */
/* Storage monitor: the processor that may keep names and attributes. */
#include "keep.h"

#include <kernel/counter.h>
#include <kernel/panic.h>
#include <lib/string.h>

COUNTER(storage_keepers, "storage.keepers", "times that a processor may keep names and attributes");
COUNTER(storage_recalls, "storage.recalls", "times that this was taken back for another one");

void keep_init(struct keep *k, const struct keep_ops *ops, bool again)
{
	memset(k, 0, sizeof(*k));
	spin_lock_init(&k->lock, "storage.keep", RANK_SPIN_MONITOR);
	list_init(&k->uses);
	waitqueue_init(&k->taken);
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

enum turn {
	TURN_WAITS,
	TURN_TAKES, /* it is this thread that takes it back */
	TURN_ENTERS,
};

static enum turn next_turn(struct keep *k, struct keep_use *use, bool owed)
{
	enum turn turn = TURN_WAITS;

	spin_lock(&k->lock);
	if (!is_in_the_way_locked(k, &use->who) || (owed && k->forgotten)) {
		list_add(&use->link, &k->uses);
		turn = TURN_ENTERS;
	} else if (!k->is_taking) {
		k->is_taking = true;
		turn = TURN_TAKES;
	}
	spin_unlock(&k->lock);
	return turn;
}

static int take_back(struct keep *k)
{
	struct storage_peer keeper;
	int err;

	spin_lock(&k->lock);
	ASSERT(k->is_taking);
	keeper = k->keeper;
	spin_unlock(&k->lock);
	counter_inc(&storage_recalls);
	err = k->ops->recall(keeper.node ? &keeper : NULL);
	if (!err) {
		spin_lock(&k->lock);
		k->keeper = (struct storage_peer){ 0 };
		k->forgotten = false;
		spin_unlock(&k->lock);
		if (k->freed)
			k->freed(k);
	}
	spin_lock(&k->lock);
	k->is_taking = false;
	spin_unlock(&k->lock);
	wake_all(&k->taken);
	return err;
}

int keep_enter(struct keep *k, struct keep_use *use, const struct storage_peer *from, bool owed)
{
	enum turn turn = TURN_WAITS;
	int err;

	use->who = *from;
	do {
		err = wait_event_killable(&k->taken,
					  (turn = next_turn(k, use, owed)) != TURN_WAITS);
		if (!err && turn == TURN_TAKES)
			err = take_back(k);
	} while (!err && turn != TURN_ENTERS);
	return err;
}

void keep_leave(struct keep *k, struct keep_use *use)
{
	spin_lock(&k->lock);
	list_del(&use->link);
	spin_unlock(&k->lock);
}

bool keep_is_keeper(struct keep *k, const struct storage_peer *from)
{
	bool is;

	spin_lock(&k->lock);
	is = same_peer(&k->keeper, from);
	spin_unlock(&k->lock);
	return is;
}

bool keep_was_keeper(struct keep *k, const struct storage_peer *from)
{
	bool was;

	spin_lock(&k->lock);
	was = k->forgotten || same_peer(&k->keeper, from);
	spin_unlock(&k->lock);
	return was;
}

bool keep_has_left(struct keep *k,
		   bool (*is_member)(const void *arg, const struct storage_peer *peer),
		   const void *arg)
{
	struct storage_peer keeper;

	spin_lock(&k->lock);
	keeper = k->keeper;
	spin_unlock(&k->lock);
	return keeper.node && !is_member(arg, &keeper);
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
