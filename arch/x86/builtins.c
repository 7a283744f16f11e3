/* SPDX-License-Identifier: MIT */
/*
 * Functions that the compiler calls for builtins that the baseline instruction set lacks
 * (POPCNT is not in x86-64-v1).
 */
#include <lib/types.h>

int __popcountdi2(int64_t v);

int __popcountdi2(int64_t v)
{
	uint64_t x = (uint64_t)v;

	x -= x >> 1 & 0x5555555555555555ull;
	x = (x & 0x3333333333333333ull) + (x >> 2 & 0x3333333333333333ull);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return (int)(x * 0x0101010101010101ull >> 56);
}
