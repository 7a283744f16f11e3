/* SPDX-License-Identifier: MIT */
/*
 * Commitment: the arithmetic of the three modes.
 */
#include "commit.h"

#define KIB_PER_PAGE (PAGE_SIZE / 1024)

/* @frames of @all, as a share of @pages; @frames is not more than @all. */
static uint64_t share(uint64_t pages, uint64_t frames, uint64_t all)
{
	while (all > UINT32_MAX) {
		all >>= 1;
		frames >>= 1;
	}
	return all ? pages / all * frames + pages % all * frames / all : 0;
}

uint64_t commit_limit(const struct pm_commit *policy, uint64_t frames)
{
	if (policy->kbytes)
		return MIN(share(policy->kbytes / KIB_PER_PAGE, MIN(frames, policy->programs),
				 policy->programs),
			   PM_COMMITTED_MAX);
	/* Hundreds first: no number of frames that there is overflows. */
	return MIN(frames / 100 * policy->ratio + frames % 100 * policy->ratio / 100,
		   PM_COMMITTED_MAX);
}

bool commit_allows(const struct pm_commit *policy, uint64_t frames, uint64_t committed,
		   uint64_t pages)
{
	const uint64_t limit =
		policy->mode == PM_COMMIT_STRICT ? commit_limit(policy, frames) : PM_COMMITTED_MAX;

	return pages <= limit - MIN(limit, committed);
}

/* How far a version may be ahead: of a node that has missed some, of one that was away for long. */
#define AHEAD_PROCESSOR 1024u
#define AHEAD_MEMORY    65536u

static uint64_t count_of(const struct pm_commit *policy)
{
	return policy->version >> PM_COMMIT_NODE_BITS;
}

bool commit_follows(const struct pm_commit *held, const struct pm_commit *next, uint32_t proc)
{
	const uint64_t ahead = count_of(next) - count_of(held);

	if (next->version <= held->version)
		return false;
	if (!proc)
		return !held->version || ahead <= AHEAD_MEMORY;
	return (next->version & ((1u << PM_COMMIT_NODE_BITS) - 1)) == proc &&
	       ahead <= AHEAD_PROCESSOR;
}

bool commit_is_hopeless(const struct commit_size *size)
{
	return size->pages > size->total || size->part > size->largest;
}
