/* SPDX-License-Identifier: MIT */
/*
 * Fast hashes for keys that nobody can choose to hurt us. A key that a peer,
 * user or disk chooses wants <lib/siphash.h> with a secret key.
 */
#pragma once

#include <lib/types.h>

/* A bijection of 64-bit values that spreads every input bit over the output. */
static inline uint64_t hash64(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	x ^= x >> 32;
	return x;
}

static inline uint64_t hash64_pair(uint64_t a, uint64_t b)
{
	return hash64(hash64(a) + 0x9e3779b97f4a7c15ULL + b);
}

uint64_t hash_bytes(const void *data, size_t len, uint64_t seed);
