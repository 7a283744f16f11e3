/* SPDX-License-Identifier: MIT */
/*
 * Takes memory until there is no more: mmap and brk must answer ENOMEM in time, what was given must
 * hold what was written, and after giving it back the program goes on: exhaust [STEP_MB]
 */
#include "user.h"

#include <sys/mman.h>

#define MOST 4096

static char *piece[MOST];

int main(int argc, char **argv)
{
	const size_t step = arg_number(argc, argv, 1, 16) * MB;
	size_t n = 0;
	char *p;

	while (n < MOST) {
		p = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			break;
		for (size_t i = 0; i < step; i += PAGE)
			*(uint64_t *)(p + i) = n * step + i;
		piece[n++] = p;
	}
	CHECK(n < MOST && n > 0 && errno == ENOMEM);
	CHECK(sbrk((long)step) == (void *)-1 && errno == ENOMEM);
	for (size_t k = 0; k < n; k++)
		for (size_t i = 0; i < step; i += PAGE)
			if (*(uint64_t *)(piece[k] + i) != k * step + i)
				die("piece %zu lost a page", k);
	fprintf(stderr, "had %zu MiB\n", n * step / MB);
	for (size_t k = 0; k < n; k++)
		CHECK(munmap(piece[k], step) == 0);
	p = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED && *p == 0);
	memset(p, 1, step);
	puts("refused, checked, given back, and going on");
	return 0;
}
