/* SPDX-License-Identifier: MIT */
/*
 * Which program has to end when a memory node has no frame left: the arithmetic, as Linux has it.
 *
 * Context:	pure code, any context.
 * See:		docs/design/memory.md, "Short of frames"
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

#define OOM_ADJ_MIN (-1000) /* never */
#define OOM_ADJ_MAX 1000    /* before all others */
#define OOM_NEVER   INT64_MIN

/*
 * How much a program that has @frames of @total would be missed the least: larger is sooner. @adj
 * shifts it by thousandths of @total.
 */
int64_t oom_badness(uint64_t frames, uint64_t total, int adj);
/* As /proc/<pid>/oom_score tells it: 0 never, 1 to 2000. */
uint32_t oom_score(int64_t badness, uint64_t total);

struct oom_candidate {
	uint64_t frames; /* it has at the node */
	int adj;
	uint64_t start_ns;
	uint32_t pid;
};

/* May @c be ended rather than @best, which may be NULL?  Of equals the younger one. */
bool oom_is_worse(const struct oom_candidate *c, const struct oom_candidate *best, uint64_t total);
