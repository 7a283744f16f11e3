/* SPDX-License-Identifier: MIT */
/*
 * Major faults: 16 MiB that were not there, then all of them again, which a small cache has not
 * kept. Prints how many were major the first time and the second, and what /proc/self/stat says of
 * major and minor ones.
 */
#include "user.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define SIZE (16 * MB)

static long major(void)
{
	struct rusage ru;

	CHECK(getrusage(RUSAGE_SELF, &ru) == 0);
	return ru.ru_majflt;
}

int main(void)
{
	volatile char *p =
		mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long at[3], minor, told;
	size_t page = 0;
	char *end, text[1024];
	FILE *f;

	CHECK(p != MAP_FAILED);
	for (int round = 0; round < 2; round++) {
		at[round] = major();
		/* Every page once, with no stride: what is fetched ahead is no fault. */
		for (size_t i = 0; i < SIZE / PAGE; i++) {
			page = (5 * page + 3) % (SIZE / PAGE);
			p[page * PAGE]++;
		}
	}
	at[2] = major();
	f = fopen("/proc/self/stat", "r");
	CHECK(f && fgets(text, sizeof(text), f));
	end = strrchr(text, ')');
	CHECK(sscanf(end, ") %*c %*d %*d %*d %*d %*d %*u %ld %*d %ld", &minor, &told) == 2);
	printf("%ld %ld %ld %ld\n", at[1] - at[0], at[2] - at[1], told, minor);
	return 0;
}
