/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: how many entries of a table each component has, so that one that lies does not
 * fill the memory of all.
 *
 * Context:	any; share_take() and share_give() are called with the lock of the table held.
 * Locking:	the table's.
 * Limits:	SHARE_MAX entries for each life of a component.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/list.h>

#include "record.h"

#define SHARE_MAX 65536u

struct share;

struct shares {
	struct list_head list; /* the table's lock: of components that have something */
	uint64_t max;          /* const after the table's start: SHARE_MAX, less in tests */
};

static inline void shares_init(struct shares *s)
{
	list_init(&s->list);
	s->max = SHARE_MAX;
}

/* For a component that has nothing yet; to be freed by kfree() unless it was used. NULL. */
struct share *share_alloc(void);
/* One entry more for @who; *@fresh is NULL afterwards if it was used. False: it has too many. */
bool share_take(struct shares *s, const struct storage_peer *who, struct share **fresh)
	__must_check;
void share_give(struct shares *s, const struct storage_peer *who);
