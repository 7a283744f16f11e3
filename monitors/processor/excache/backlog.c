/* SPDX-License-Identifier: MIT */
/*
 * Backlogs: items that are left to do at other nodes.
 *
 * Flow:	a waiter looks at the first item alone: while that changes, the nodes answer. So a
 *		wait lasts as long as the work does, but not as long as a node's silence.
 */
#include "backlog.h"

#include <kernel/panic.h>
#include <lib/errno.h>

void backlog_init(struct backlog *b, const char *name)
{
	spin_lock_init(&b->lock, name, RANK_EXCACHE_FREE);
	list_init(&b->items);
	b->last = b->size = b->moved_ns = 0;
	b->begun = false;
	waitqueue_init(&b->moved);
}

uint64_t backlog_add(struct backlog *b, struct backlog_item *item)
{
	uint64_t size;

	spin_lock(&b->lock);
	if (list_empty(&b->items))
		b->moved_ns = time_now_ns();
	item->nr = ++b->last;
	list_add_tail(&item->link, &b->items);
	size = ++b->size;
	spin_unlock(&b->lock);
	return size;
}

void backlog_done(struct backlog *b, struct backlog_item *item)
{
	spin_lock(&b->lock);
	ASSERT(b->size > 0);
	if (b->items.next == &item->link)
		b->moved_ns = time_now_ns();
	list_del(&item->link);
	b->size--;
	spin_unlock(&b->lock);
	wake_all(&b->moved);
}

void backlog_move(struct backlog *b, struct backlog_item *item, struct backlog_item *to)
{
	spin_lock(&b->lock);
	to->nr = item->nr;
	list_add(&to->link, &item->link);
	list_del(&item->link);
	spin_unlock(&b->lock);
}

void backlog_begin(struct backlog *b, bool begun)
{
	spin_lock(&b->lock);
	b->begun = begun;
	b->moved_ns = time_now_ns();
	spin_unlock(&b->lock);
}

void backlog_kicked(struct backlog *b)
{
	spin_lock(&b->lock);
	if (!b->begun)
		b->moved_ns = time_now_ns();
	spin_unlock(&b->lock);
}

uint64_t backlog_size(struct backlog *b)
{
	uint64_t size;

	spin_lock(&b->lock);
	size = b->size;
	spin_unlock(&b->lock);
	return size;
}

/* Are all items up to @upto done? Else *@until is when the first of them has waited too long. */
static bool is_done(struct backlog *b, uint64_t upto, uint64_t *until)
{
	const struct backlog_item *first;
	bool done;

	spin_lock(&b->lock);
	first = list_first_entry_or_null(&b->items, struct backlog_item, link);
	done = !first || first->nr > upto;
	*until = b->moved_ns + BACKLOG_SILENT_NS;
	spin_unlock(&b->lock);
	return done;
}

int backlog_wait(struct backlog *b, unsigned int mode)
{
	uint64_t upto, until, later;
	int err;

	spin_lock(&b->lock);
	upto = b->last;
	spin_unlock(&b->lock);
	while (!is_done(b, upto, &until)) {
		if (time_now_ns() >= until)
			return -ETIMEDOUT;
		err = wait_event_mode(&b->moved, is_done(b, upto, &later), mode, until);
		if (err == -EINTR)
			return err;
	}
	return 0;
}
