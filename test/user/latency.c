/* SPDX-License-Identifier: MIT */
/*
 * For make bench: latency HOW COUNT prints nanoseconds, one figure per batch or access.
 *
 * null:	batches of 1,000 getppid calls.
 * miss:	one load from each page of a heap that is larger than the cache, with nothing dirty
 *		in it.
 * heap:	makes COUNT pages and reads them once, as the next three do before they begin.
 * clean, half, dirty:	accesses to COUNT pages, more than the cache has, in random order: none,
 *		every other one or each of them a store, so that as many of the pages that make room
 *		for others are dirty.
 * flight N:	N threads read random pages of COUNT at a time; one figure, for each page.
 */
#include "user.h"

#include <pthread.h>
#include <stdbool.h>
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

/* --- in random order --------------------------------------------------------------------- */

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static volatile char *heap_of(unsigned long pages)
{
	volatile char *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	for (unsigned long i = 0; i < pages; i++)
		p[i * PAGE] = (char)i;
	/* Read all once, so that each page lies at its owner. */
	for (unsigned long i = 0; i < pages; i++)
		CHECK(p[i * PAGE] == (char)i);
	return p;
}

/* Every @store_every-th access is a store; 0: none is. */
static void accesses(unsigned long pages, unsigned long store_every)
{
	volatile char *p = heap_of(pages);
	uint64_t state = 20261128;

	/* The first half brings the cache into the state that lasts. */
	for (unsigned long i = 0; i < 2 * pages; i++) {
		const unsigned long n = random_next(&state) % pages;
		const bool store = store_every && i % store_every == 0;
		const uint64_t start = now_ns();
		uint64_t end;

		if (store)
			p[n * PAGE] = (char)n;
		else
			CHECK(p[n * PAGE] == (char)n);
		end = now_ns();
		if (i >= pages)
			printf("%lu\n", (unsigned long)(end - start));
	}
}

struct reader {
	pthread_t thread;
	volatile char *p;
	unsigned long pages, nr;
	uint64_t state;
};

static void *reader_main(void *arg)
{
	struct reader *r = arg;

	for (unsigned long i = 0; i < r->nr; i++) {
		const unsigned long n = random_next(&r->state) % r->pages;

		CHECK(r->p[n * PAGE] == (char)n);
	}
	return NULL;
}

static void flight(unsigned long threads, unsigned long pages)
{
	struct reader readers[64];
	volatile char *p;
	uint64_t start;

	CHECK(threads > 0 && threads <= 64);
	p = heap_of(pages);
	start = now_ns();
	for (unsigned long i = 0; i < threads; i++) {
		readers[i] = (struct reader){
			.p = p, .pages = pages, .nr = pages / threads, .state = 4711 + i * 7919
		};
		CHECK(!pthread_create(&readers[i].thread, NULL, reader_main, &readers[i]));
	}
	for (unsigned long i = 0; i < threads; i++)
		CHECK(!pthread_join(readers[i].thread, NULL));
	printf("%lu\n", (unsigned long)((now_ns() - start) / (pages / threads * threads)));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	const unsigned long count = arg_number(argc, argv, 2, 100);

	if (!strcmp(what, "null"))
		null_calls(count);
	else if (!strcmp(what, "miss"))
		misses(count);
	else if (!strcmp(what, "heap"))
		heap_of(count);
	else if (!strcmp(what, "clean"))
		accesses(count, 0);
	else if (!strcmp(what, "half"))
		accesses(count, 2);
	else if (!strcmp(what, "dirty"))
		accesses(count, 1);
	else if (!strcmp(what, "flight"))
		flight(count, arg_number(argc, argv, 3, 8192));
	else
		die("usage: latency null|miss|heap|clean|half|dirty COUNT, latency flight N COUNT");
	return 0;
}
