/* SPDX-License-Identifier: MIT */
/*
 * All sockets of this processor in the order of their making, for /proc/net.
 *
 * Invariants:	a socket is in the list from its making until its last reference is gone, so one
 *		that a walk holds leads on to the next.
 */
#include "socket.h"

#include <kernel/lock_rank.h>

static struct spinlock walk_lock = SPINLOCK_INIT("all sockets", RANK_SPIN_SOCKET);
static struct list_head all __guarded_by(&walk_lock) = LIST_HEAD_INIT(all);

void socket_walk_enter(struct socket *s)
{
	spin_lock(&walk_lock);
	list_add_tail(&s->walk_link, &all);
	spin_unlock(&walk_lock);
}

void socket_walk_leave(struct socket *s)
{
	spin_lock(&walk_lock);
	list_del(&s->walk_link);
	spin_unlock(&walk_lock);
}

struct socket *socket_next(struct socket *after)
{
	struct socket *found = NULL;

	spin_lock(&walk_lock);
	for (struct list_head *at = after ? after->walk_link.next : all.next; at != &all && !found;
	     at = at->next) {
		struct socket *s = list_entry(at, struct socket, walk_link);

		/* One without a reference is about to leave the list. */
		if (refcount_inc_not_zero(&s->refs))
			found = s;
	}
	spin_unlock(&walk_lock);
	if (after)
		socket_put(after);
	return found;
}
