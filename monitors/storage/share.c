/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: how many entries of a table each component has.
 */
#include "share.h"

#include <kernel/panic.h>
#include <mm/slab.h>

struct share {
	struct list_head link;
	struct storage_peer who;
	uint64_t nr; /* at least 1 in the list */
};

struct share *share_alloc(void)
{
	return kzalloc(sizeof(struct share));
}

static struct share *share_find(struct shares *s, const struct storage_peer *who)
{
	struct share *share;

	list_for_each_entry(share, &s->list, link) {
		if (share->who.node == who->node && share->who.incarn == who->incarn)
			return share;
	}
	return NULL;
}

bool share_take(struct shares *s, const struct storage_peer *who, struct share **fresh)
{
	struct share *share = share_find(s, who);

	if (!share) {
		if (!s->max)
			return false;
		share = *fresh;
		*fresh = NULL;
		share->who = *who;
		list_add(&share->link, &s->list);
	}
	if (share->nr >= s->max)
		return false;
	share->nr++;
	return true;
}

void share_give(struct shares *s, const struct storage_peer *who)
{
	struct share *share = share_find(s, who);

	ASSERT(share && share->nr);
	if (--share->nr)
		return;
	list_del(&share->link);
	kfree(share);
}
