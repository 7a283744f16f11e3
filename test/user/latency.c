/* SPDX-License-Identifier: MIT */
/*
 * For make bench: latency null|miss COUNT prints nanoseconds, one figure per batch or miss.
 *
 * null:	batches of 1,000 getppid calls.
 * miss:	one load from each page of a heap that is larger than the cache, with nothing dirty
 *		in it.
 */
#include "user.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000UL + (uint64_t)ts.tv_nsec;
}

static void null_calls(unsigned long batches)
{
	for (unsigned long b = 0; b < batches; b++) {
		const uint64_t start = now_ns();

		for (int i = 0; i < 1000; i++)
			syscall(SYS_getppid);
		printf("%lu\n", (unsigned long)((now_ns() - start) / 1000));
	}
}

static void misses(unsigned long pages)
{
	volatile char *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	for (unsigned long i = 0; i < pages; i++)
		p[i * PAGE] = (char)i;
	/* Read all once: what is in the cache then is clean, and the early pages are not in it. */
	for (unsigned long i = 0; i < pages; i++)
		CHECK(p[i * PAGE] == (char)i);
	for (unsigned long i = 0; i < pages / 2; i++) {
		const uint64_t start = now_ns();
		const char c = p[i * PAGE];
		const uint64_t end = now_ns();

		CHECK(c == (char)i);
		printf("%lu\n", (unsigned long)(end - start));
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	const unsigned long count = arg_number(argc, argv, 2, 100);

	if (!strcmp(what, "null"))
		null_calls(count);
	else if (!strcmp(what, "miss"))
		misses(count);
	else
		die("usage: latency null|miss COUNT");
	return 0;
}
