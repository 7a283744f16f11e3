/* SPDX-License-Identifier: MIT */
/*
 * A program that is mostly text: SALT makes two of the same shape and different code, so that
 * running both in turn passes different instructions through the same cache lines.
 */
#include "user.h"

#ifndef SALT
# define SALT 1
#endif

#define STEP(n)    x = (x ^ (x >> 7)) * (0x9e3779b97f4a7c15UL + 2UL * (n) * SALT) + SALT * (n);
#define STEP4(n)   STEP(4 * (n)) STEP(4 * (n) + 1) STEP(4 * (n) + 2) STEP(4 * (n) + 3)
#define STEP16(n)  STEP4(4 * (n)) STEP4(4 * (n) + 1) STEP4(4 * (n) + 2) STEP4(4 * (n) + 3)
#define STEP64(n)  STEP16(4 * (n)) STEP16(4 * (n) + 1) STEP16(4 * (n) + 2) STEP16(4 * (n) + 3)
#define STEP256(n) STEP64(4 * (n)) STEP64(4 * (n) + 1) STEP64(4 * (n) + 2) STEP64(4 * (n) + 3)
#define FUNCTION(n)                                                               \
	__attribute__((noinline, aligned(4096))) static uint64_t f##n(uint64_t x) \
	{                                                                         \
		STEP256(n)                                                        \
		return x;                                                         \
	}
#define FUNCTIONS(M) \
	M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15)
#define NAME(n) f##n,

FUNCTIONS(FUNCTION)

static uint64_t (*const functions[])(uint64_t) = { FUNCTIONS(NAME) };

int main(int argc, char **argv)
{
	const unsigned long rounds = arg_number(argc, argv, 1, 20);
	uint64_t x = SALT;

	for (unsigned long r = 0; r < rounds; r++)
		for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
			x = functions[(i * 5 + r) % 16](x);
	printf("code %d: %016lx\n", SALT, (unsigned long)x);
	return 0;
}
