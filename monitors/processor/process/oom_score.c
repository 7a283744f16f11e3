/* SPDX-License-Identifier: MIT */
/*
 * The weight of a program, as pure functions.
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
