/* SPDX-License-Identifier: MIT */
/*
 * Grows the stack to nearly its limit of 8 MiB and checks every frame on the way back: stack [KIB]
 */
#include "user.h"

#define FRAME 1024

__attribute__((noinline)) static uint64_t descend(unsigned long depth, uint64_t seed)
{
	volatile uint64_t frame[FRAME / 8];
	uint64_t below = 0;

	for (size_t i = 0; i < FRAME / 8; i++)
		frame[i] = seed + i;
	if (depth)
		below = descend(depth - 1, seed * 31 + 7);
	for (size_t i = 0; i < FRAME / 8; i++)
		if (frame[i] != seed + i)
			die("frame at depth %lu was changed", depth);
	return below * 17 + seed;
}

int main(int argc, char **argv)
{
	const unsigned long kib = arg_number(argc, argv, 1, 6000);

	printf("%lu KiB of stack: %016lx\n", kib,
	       (unsigned long)descend(kib * 1024 / (FRAME + 64), 1));
	return 0;
}
