/* SPDX-License-Identifier: MIT */
/*
 * Work on a heap that is larger than the processor's cache: heap sort|hash|touch|steps MEGABYTES
 * [SEED]
 *
 * sort:	fill with random numbers, sort, check the order and that no number was lost.
 * hash:	write every page, then read it all twice, forwards and in strides.
 * touch:	write one word of every page once, and read them back.
 * steps:	fill, read all once, print the heap's address; then one pass of reading for every
 *		byte of stdin, so that a test can look at counters in between.
 */
#include "user.h"

static uint64_t checksum(const uint64_t *v, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += v[i] * 0x9e3779b97f4a7c15UL;
	return sum;
}

static void swap(uint64_t *a, uint64_t *b)
{
	const uint64_t t = *a;

	*a = *b;
	*b = t;
}

static void insertion_sort(uint64_t *v, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		const uint64_t x = v[i];
		size_t j = i;

		for (; j > 0 && v[j - 1] > x; j--)
			v[j] = v[j - 1];
		v[j] = x;
	}
}

/* Quicksort, median of three; the larger part is the loop, so the stack stays small. */
static void sort(uint64_t *v, size_t n)
{
	while (n > 24) {
		size_t i = 0, j = n - 1;
		uint64_t pivot;

		if (v[n / 2] < v[0])
			swap(&v[n / 2], &v[0]);
		if (v[n - 1] < v[0])
			swap(&v[n - 1], &v[0]);
		if (v[n - 1] < v[n / 2])
			swap(&v[n - 1], &v[n / 2]);
		pivot = v[n / 2];
		for (;;) {
			while (v[i] < pivot)
				i++;
			while (v[j] > pivot)
				j--;
			if (i >= j)
				break;
			swap(&v[i++], &v[j--]);
		}
		j++;
		if (j < n - j) {
			sort(v, j);
			v += j;
			n -= j;
		} else {
			sort(v + j, n - j);
			n = j;
		}
	}
	insertion_sort(v, n);
}

static void run_sort(uint64_t *v, size_t n, uint64_t seed)
{
	uint64_t before, h = HASH_INIT;

	for (size_t i = 0; i < n; i++)
		v[i] = next_random(&seed);
	before = checksum(v, n);
	sort(v, n);
	for (size_t i = 1; i < n; i++)
		if (v[i - 1] > v[i])
			die("out of order at %zu", i);
	if (checksum(v, n) != before)
		die("numbers were lost");
	for (size_t i = 0; i < n; i += 127)
		h = hash_word(h, v[i]);
	printf("sorted %zu numbers: %016lx\n", n, (unsigned long)h);
}

static void run_hash(uint64_t *v, size_t n, uint64_t seed)
{
	const size_t stride = 8 * PAGE / sizeof(*v) + 3;
	uint64_t h = HASH_INIT;

	for (size_t i = 0; i < n; i++)
		v[i] = next_random(&seed);
	for (size_t i = 0; i < n; i++)
		h = hash_word(h, v[i]);
	printf("forwards: %016lx\n", (unsigned long)h);
	for (size_t first = 0; first < stride; first += 1024)
		for (size_t i = first; i < n; i += stride)
			h = hash_word(h, v[i]);
	printf("in strides: %016lx\n", (unsigned long)h);
}

static void run_touch(uint64_t *v, size_t n)
{
	const size_t step = PAGE / sizeof(*v);

	for (size_t i = 0; i < n; i += step)
		v[i] = i;
	for (size_t i = 0; i < n; i += step)
		if (v[i] != i || v[i + 1] != 0)
			die("page %zu has the wrong contents", i / step);
	printf("touched %zu pages\n", n / step);
}

static uint64_t read_pass(const uint64_t *v, size_t n)
{
	uint64_t h = HASH_INIT;

	for (size_t i = 0; i < n; i += PAGE / sizeof(*v))
		h = hash_word(h, v[i]);
	return h;
}

static void run_steps(uint64_t *v, size_t n, uint64_t seed)
{
	const char *say = "ready";
	char go;

	for (size_t i = 0; i < n; i++)
		v[i] = next_random(&seed);
	do {
		printf("%s %p %016lx\n", say, (void *)v, (unsigned long)read_pass(v, n));
		fflush(stdout);
		say = "pass";
	} while (read(0, &go, 1) == 1);
}

int main(int argc, char **argv)
{
	const size_t bytes = arg_number(argc, argv, 2, 32) * MB;
	const uint64_t seed = arg_number(argc, argv, 3, 1);
	const char *what = argc > 1 ? argv[1] : "";
	uint64_t *v = malloc(bytes);

	if (!v)
		die("no memory");
	if (!strcmp(what, "sort"))
		run_sort(v, bytes / sizeof(*v), seed);
	else if (!strcmp(what, "hash"))
		run_hash(v, bytes / sizeof(*v), seed);
	else if (!strcmp(what, "touch"))
		run_touch(v, bytes / sizeof(*v));
	else if (!strcmp(what, "steps"))
		run_steps(v, bytes / sizeof(*v), seed);
	else
		die("usage: heap sort|hash|touch|steps MEGABYTES [SEED]");
	free(v);
	return 0;
}
