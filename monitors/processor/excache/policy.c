/* SPDX-License-Identifier: MIT */
/*
 * ExCache: replacement policies, which line of a full set is evicted.
 *
 * Flow:	FIFO evicts the line that has been in the set for longest. CLOCK goes round the set
 *		with a hand: a line that was used since the hand passed it last gets another round,
 *		the first that was not is evicted. The hand stands at the head of set->resident:
 *		passing a line moves it to the end.
 * Locking:	the set's lock; CLOCK takes object.lock and aspace.lock inside it to read accessed
 *		bits.
 * Limits:	accessed bits are cleared without a flush. A CPU that has the translation in its
 *		TLB does not set the bit again before it loads the entry anew, so a line in steady
 *		use may look idle and be evicted early. That costs a fault and loses nothing:
 *		eviction unmaps and flushes.
 * See:		docs/design/excache.md, "Replacement"
 */
#include "cache_private.h"

#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>

COUNTER(policy_chances, "excache.second_chances", "used lines that CLOCK kept for another round");

/* FILLING and pinned lines stay whatever the policy. */
static bool is_idle(const struct line *line)
{
	return line->state == LINE_VALID && line->pins == 0;
}

void policy_append_locked(struct cache_set *set, struct line *line)
{
	assert_spin_held(&set->lock);
	list_add_tail(&line->set_link, &set->resident);
}

static void forget_locked(struct cache_set *set, struct line *line)
{
	assert_spin_held(&set->lock);
	list_del(&line->set_link);
}

static void fifo_touch_locked(struct cache_set *set, struct line *line)
{
	assert_spin_held(&set->lock); /* FIFO does not care for use */
}

static struct line *fifo_victim_locked(struct cache_set *set, bool (*may_go)(struct line *line))
{
	struct line *line;

	assert_spin_held(&set->lock);
	list_for_each_entry(line, &set->resident, set_link) {
		if (is_idle(line) && may_go(line))
			return line;
	}
	return NULL;
}

static void clock_touch_locked(struct cache_set *set, struct line *line)
{
	assert_spin_held(&set->lock);
	line->flags &= (uint8_t)~LINE_IDLE;
}

/* Was @line used since the hand passed it last? */
static bool clock_used_locked(struct cache_set *set, struct line *line)
{
	bool used;

	assert_spin_held(&set->lock);
	used = line_clear_accessed_locked(set, line) ||
	       !(line->flags & (LINE_IDLE | LINE_PREFETCH));
	line->flags |= LINE_IDLE;
	return used;
}

static struct line *clock_victim_locked(struct cache_set *set, bool (*may_go)(struct line *line))
	__must_hold(&set->lock)
{
	/* Two rounds: the first may find every line used, and leaves them all marked idle. */
	const uint32_t steps = 2 * set->nr_resident;

	assert_spin_held(&set->lock);
	for (uint32_t i = 0; i < steps; i++) {
		struct line *line = list_first_entry(&set->resident, struct line, set_link);

		list_move_tail(&line->set_link, &set->resident);
		if (!is_idle(line))
			continue;
		if (clock_used_locked(set, line))
			counter_inc(&policy_chances);
		else if (may_go(line))
			return line;
	}
	/* Other CPUs use them faster than the hand goes round: any idle line will do. */
	return fifo_victim_locked(set, may_go);
}

static const struct excache_policy policies[] = {
	{
		.name = "fifo",
		.insert = policy_append_locked,
		.touch = fifo_touch_locked,
		.victim = fifo_victim_locked,
		.forget = forget_locked,
	},
	{
		.name = "clock",
		.insert = policy_append_locked,
		.touch = clock_touch_locked,
		.victim = clock_victim_locked,
		.forget = forget_locked,
	},
};

const struct excache_policy *policy_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		if (strcmp(policies[i].name, name) == 0)
			return &policies[i];
	}
	return NULL;
}
