/* SPDX-License-Identifier: MIT */
/*
 * For make bench: programs whose memory does not fit, alone and beside a process that never sleeps.
 *
 * beside alone|shared NAME MIB	runs NAME (see programs[]) over MIB MiB; prints its nanoseconds,
 *				and those of CPU that the other process had.
 * beside quiet NAME MIB	the same alone; prints nothing, so that all runs say the same.
 */
#include "user.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000UL + (uint64_t)ts.tv_nsec;
}

static uint64_t begun; /* when what is measured began */

static void *pages(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* --- k-means: rounds over points of eight whole numbers ------------------------------------ */

#define DIMS  8
#define MEANS 8

struct mean {
	int64_t at[DIMS], sum[DIMS], nr;
};

static void assign_point(const int32_t *p, struct mean *means)
{
	int64_t best = INT64_MAX;
	struct mean *to = means;

	for (struct mean *m = means; m < means + MEANS; m++) {
		int64_t far = 0;

		for (int d = 0; d < DIMS; d++)
			far += (p[d] - m->at[d]) * (p[d] - m->at[d]);
		if (far < best) {
			best = far;
			to = m;
		}
	}
	for (int d = 0; d < DIMS; d++)
		to->sum[d] += p[d];
	to->nr++;
}

static void kmeans_rounds(size_t bytes, int rounds)
{
	const size_t n = bytes / (DIMS * sizeof(int32_t));
	int32_t (*points)[DIMS] = pages(bytes);
	struct mean means[MEANS] = { 0 };
	uint64_t seed = 99;

	for (size_t i = 0; i < n; i++)
		for (int d = 0; d < DIMS; d++)
			points[i][d] = (int32_t)(next_random(&seed) & 0xffff) +
				       (int32_t)(i % MEANS) * 9000;
	for (int k = 0; k < MEANS; k++)
		for (int d = 0; d < DIMS; d++)
			means[k].at[d] = points[k][d];
	for (int round = 0; round < rounds; round++) {
		int64_t all = 0;

		for (size_t i = 0; i < n; i++)
			assign_point(points[i], means);
		for (struct mean *m = means; m < means + MEANS; m++) {
			for (int d = 0; d < DIMS && m->nr; d++) {
				m->at[d] = m->sum[d] / m->nr;
				m->sum[d] = 0;
			}
			all += m->nr;
			m->nr = 0;
		}
		CHECK(all == (int64_t)n);
	}
}

static void kmeans(size_t bytes)
{
	kmeans_rounds(bytes, 2);
}

static void kmeans8(size_t bytes)
{
	kmeans_rounds(bytes, 8);
}

/* --- quicksort ------------------------------------------------------------------------------ */

static void sort(uint64_t *v, long lo, long hi)
{
	while (hi - lo > 16) {
		const uint64_t pivot = v[lo + (hi - lo) / 2];
		long i = lo - 1, j = hi + 1;

		for (;;) {
			uint64_t t;

			while (v[++i] < pivot)
				;
			while (v[--j] > pivot)
				;
			if (i >= j)
				break;
			t = v[i];
			v[i] = v[j];
			v[j] = t;
		}
		if (j - lo < hi - j) {
			sort(v, lo, j);
			lo = j + 1;
		} else {
			sort(v, j + 1, hi);
			hi = j;
		}
	}
	for (long i = lo + 1; i <= hi; i++) {
		const uint64_t x = v[i];
		long j = i;

		for (; j > lo && v[j - 1] > x; j--)
			v[j] = v[j - 1];
		v[j] = x;
	}
}

static void quicksort(size_t bytes)
{
	const long n = (long)(bytes / sizeof(uint64_t));
	uint64_t *v = pages(bytes), seed = 7;

	for (long i = 0; i < n; i++)
		v[i] = next_random(&seed);
	sort(v, 0, n - 1);
	for (long i = 1; i < n; i++)
		CHECK(v[i - 1] <= v[i]);
}

/* --- words: counted in a hash table that points into the text --------------------------------- */

#define SLOTS 32768u

struct slot {
	const char *word;
	uint32_t len, count;
};

static size_t write_words(char *text, size_t bytes)
{
	uint64_t seed = 42;
	size_t at = 0;

	while (at + 12 < bytes) {
		const uint64_t r = next_random(&seed);
		uint64_t w = (r & 0x3fff) & ((r >> 20) | (r >> 40));
		const int len = 3 + (int)(w % 6);

		for (int i = 0; i < len; i++) {
			text[at++] = (char)('a' + w % 26);
			w = w / 26 + 7;
		}
		text[at++] = ' ';
	}
	return at;
}

static struct slot *find_word(struct slot *table, const char *word, uint32_t len, uint32_t hash)
{
	struct slot *s = &table[hash % SLOTS];

	while (s->word && (s->len != len || memcmp(s->word, word, len) != 0))
		s = s == table + SLOTS - 1 ? table : s + 1;
	return s;
}

static void words(size_t bytes)
{
	struct slot *table = pages(SLOTS * sizeof(*table));
	char *text = pages(bytes);
	const size_t end = write_words(text, bytes);
	uint64_t found = 0, counted = 0;

	for (size_t i = 0; i < end; i++) {
		const size_t start = i;
		uint32_t hash = 2166136261u;
		struct slot *s;

		for (; text[i] != ' '; i++)
			hash = (hash ^ (uint8_t)text[i]) * 16777619u;
		s = find_word(table, text + start, (uint32_t)(i - start), hash);
		s->word = text + start;
		s->len = (uint32_t)(i - start);
		s->count++;
		found++;
	}
	for (unsigned int i = 0; i < SLOTS; i++)
		counted += table[i].count;
	CHECK(counted == found);
}

/* --- touches: one word of a page, in order or anywhere; each page says its number ------------ */

#define STEP (PAGE / sizeof(uint64_t)) /* words of a page */

static volatile uint64_t *numbered(size_t nr)
{
	volatile uint64_t *v = pages(nr * PAGE);

	for (size_t i = 0; i < nr; i++)
		v[i * STEP] = i;
	return v;
}

static void touch(size_t bytes, bool random, bool write)
{
	const size_t nr = bytes / PAGE;
	volatile uint64_t *v = numbered(nr);
	uint64_t seed = 5;

	for (size_t i = 0; i < nr; i++) {
		const size_t p = random ? next_random(&seed) % nr : i;

		CHECK(v[p * STEP] == p);
		if (write)
			v[p * STEP + 1] = i;
	}
}

/* Reads in order alone: what is measured begins when the pages are there. */
static void scans(size_t bytes, int rounds)
{
	const size_t nr = bytes / PAGE;
	volatile uint64_t *v = numbered(nr);

	begun = now_ns();
	for (int round = 0; round < rounds; round++)
		for (size_t i = 0; i < nr; i++)
			CHECK(v[i * STEP] == i);
}

static void one_scan(size_t bytes)
{
	scans(bytes, 1);
}

static void eight_scans(size_t bytes)
{
	scans(bytes, 8);
}

static void sequential_reads(size_t bytes)
{
	touch(bytes, false, false);
}

static void random_reads(size_t bytes)
{
	touch(bytes, true, false);
}

static void random_writes(size_t bytes)
{
	touch(bytes, true, true);
}

/* ---------------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*run)(size_t bytes);
} programs[] = {
	{ "kmeans", kmeans },       { "quicksort", quicksort },
	{ "words", words },         { "sequential", sequential_reads },
	{ "random", random_reads }, { "write", random_writes },
	{ "scan", one_scan },       { "scans8", eight_scans },
	{ "kmeans8", kmeans8 },
};

/* A process that never sleeps, until it is killed. */
static pid_t spinner_start(void)
{
	const pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		for (volatile uint64_t n = 0;;)
			n++;
	}
	return pid;
}

/* End it; the CPU time that it has had. */
static uint64_t spinner_end(pid_t pid)
{
	struct rusage ru;
	int status;

	CHECK(kill(pid, SIGKILL) == 0 && wait4(pid, &status, 0, &ru) == pid);
	return (uint64_t)ru.ru_utime.tv_sec * 1000000000UL + (uint64_t)ru.ru_utime.tv_usec * 1000 +
	       (uint64_t)ru.ru_stime.tv_sec * 1000000000UL + (uint64_t)ru.ru_stime.tv_usec * 1000;
}

int main(int argc, char **argv)
{
	const bool shared = argc == 4 && strcmp(argv[1], "shared") == 0;
	const bool quiet = argc == 4 && strcmp(argv[1], "quiet") == 0;

	if (argc != 4 || (!shared && !quiet && strcmp(argv[1], "alone") != 0))
		die("usage: beside alone|shared|quiet NAME MIB");
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		pid_t spinner;
		uint64_t took;

		if (strcmp(argv[2], programs[i].name) != 0)
			continue;
		spinner = shared ? spinner_start() : 0;
		begun = now_ns();
		programs[i].run((size_t)atol(argv[3]) << 20);
		took = now_ns() - begun;
		if (!quiet)
			printf("%lu %lu\n", (unsigned long)took,
			       (unsigned long)(shared ? spinner_end(spinner) : 0));
		return 0;
	}
	die("no such program: %s", argv[2]);
}
