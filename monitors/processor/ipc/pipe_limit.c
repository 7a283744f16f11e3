/* SPDX-License-Identifier: MIT */
/*
 * Limits of pipes: their pages are memory of the kernel.
 *
 * Locking:	lock (RANK_SPIN_MONITOR) guards the list of users; counts are atomic.
 * Limits:	all rings together have at most a quarter of the node's frames as slots (ENFILE);
 *		from an eighth on, new pipes get two slots and none can be made larger. The same
 *		holds from 16384 slots on for a user other than root, as Linux's
 *		pipe-user-pages-soft.
 */
#include "pipe_limit_private.h"

#include <kernel/counter.h>
#include <kernel/spinlock.h>
#include <lib/atomic.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <mm/frame.h>
#include <mm/slab.h>
#include <processor/account/account.h>

#include "pipe.h"

#define USER_SOFT 16384
#define FEW_SLOTS 2u
#define NODE_SOFT 8u /* a share of the frames */
#define NODE_HARD 4u

struct pipe_user {
	struct list_head link;
	uint32_t uid;  /* const */
	uint32_t refs; /* lock */
	atomic64_t slots;
};

static struct spinlock lock = SPINLOCK_INIT("pipe.users", RANK_SPIN_MONITOR);
static LIST_HEAD(users); /* lock: those who have a pipe */

uint64_t pipe_slots_charged(void)
{
	return kmem_count(KMEM_PIPE_SLOTS);
}
GAUGE(pipe_slots_gauge, "pipe.slots", "pages that the pipes may fill", pipe_slots_charged);

static struct pipe_user *find_locked(uint32_t uid)
{
	struct pipe_user *u;

	assert_spin_held(&lock);
	list_for_each_entry(u, &users, link) {
		if (u->uid == uid)
			return u;
	}
	return NULL;
}

struct pipe_user *pipe_user_get(uint32_t uid)
{
	struct pipe_user *new = kzalloc(sizeof(*new)), *u;

	spin_lock(&lock);
	u = find_locked(uid);
	if (!u && new) {
		new->uid = uid;
		list_add(&new->link, &users);
		u = new;
		new = NULL;
	}
	if (u)
		u->refs++;
	spin_unlock(&lock);
	kfree(new);
	return u;
}

void pipe_user_put(struct pipe_user *u)
{
	bool last;

	spin_lock(&lock);
	last = --u->refs == 0;
	if (last)
		list_del(&u->link);
	spin_unlock(&lock);
	if (last)
		kfree(u);
}

static bool charge_node(struct kmem_account *a, uint32_t nr, uint32_t share)
{
	return kmem_take(a, KMEM_PIPE_SLOTS, nr, frames_total_count() / share);
}

static bool user_has_room(struct pipe_user *u, uint32_t nr)
{
	return u->uid == 0 || atomic64_read(&u->slots) + nr <= USER_SOFT;
}

uint32_t pipe_charge_new(struct pipe_user *u, struct kmem_account *a, uint32_t want)
{
	if (!user_has_room(u, want) || !charge_node(a, want, NODE_SOFT)) {
		want = FEW_SLOTS;
		if (!charge_node(a, want, NODE_HARD))
			return 0;
	}
	atomic64_add(&u->slots, want);
	return want;
}

int pipe_recharge(struct pipe_user *u, struct kmem_account *a, uint32_t old, uint32_t new)
{
	if (new <= old) {
		pipe_uncharge(u, a, old - new);
		return 0;
	}
	if (!user_has_room(u, new - old))
		return -EPERM;
	if (!charge_node(a, new - old, NODE_SOFT))
		return -ENOMEM;
	atomic64_add(&u->slots, new - old);
	return 0;
}

void pipe_uncharge(struct pipe_user *u, struct kmem_account *a, uint32_t nr)
{
	kmem_give(a, KMEM_PIPE_SLOTS, nr);
	atomic64_sub(&u->slots, nr);
}
