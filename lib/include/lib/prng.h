/* SPDX-License-Identifier: MIT */
/*
 * A small seeded generator (splitmix64) for jitter and reproducible tests. Not for secrets.
 */
#pragma once

#include <lib/assert.h>
#include <lib/types.h>

struct prng {
	uint64_t state;
};

static inline void prng_seed(struct prng *p, uint64_t seed)
{
	p->state = seed;
}

static inline uint64_t prng_next(struct prng *p)
{
	uint64_t z = (p->state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* A value below @bound, which is not 0. The bias is below bound / 2^64. */
static inline uint64_t prng_below(struct prng *p, uint64_t bound)
{
	ASSERT(bound != 0);
	return (uint64_t)(((unsigned __int128)prng_next(p) * bound) >> 64);
}
