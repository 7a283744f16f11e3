/* SPDX-License-Identifier: MIT */
/*
 * The choice of a program to end, as pure functions.
 */
#include "oom_score.h"

#define FRAMES_MAX (1ull << 44) /* more than there are; keeps the products small */

int64_t oom_badness(uint64_t frames, uint64_t total, int adj)
{
	if (adj <= OOM_ADJ_MIN)
		return OOM_NEVER;
	return (int64_t)MIN(frames, FRAMES_MAX) +
	       MIN(adj, OOM_ADJ_MAX) * (int64_t)(MIN(total, FRAMES_MAX) / 1000);
}

uint32_t oom_score(int64_t badness, uint64_t total)
{
	int64_t score;

	if (badness == OOM_NEVER)
		return 0;
	score = 1000 + (total ? badness * 1000 / (int64_t)MIN(total, FRAMES_MAX) : 0);
	return (uint32_t)MIN(MAX(score, (int64_t)0) * 2 / 3, (int64_t)2000);
}

bool oom_is_worse(const struct oom_candidate *c, const struct oom_candidate *best, uint64_t total)
{
	const int64_t points = oom_badness(c->frames, total, c->adj);
	int64_t most;

	/* Its end would give nothing back. */
	if (points == OOM_NEVER || !c->frames)
		return false;
	if (!best)
		return true;
	most = oom_badness(best->frames, total, best->adj);
	return points > most || (points == most && c->start_ns >= best->start_ns);
}
