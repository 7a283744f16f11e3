/* SPDX-License-Identifier: MIT */
/*
 * Takes memory without asking for its reservation, and looks at it again:
 * hungry MB [ADJ] [HOLD] [N]
 *
 * ADJ is its oom_score_adj. With HOLD not 0 it says "ready" when it has written all of it, and
 * waits for the end of its input, before it checks every page. Of blocks of 2 MiB it uses each Nth
 * only.
 */
#include "user.h"

#include <fcntl.h>
#include <sys/mman.h>

static void set_adj(const char *adj)
{
	const int fd = open("/proc/self/oom_score_adj", O_WRONLY);

	CHECK(fd >= 0 && write(fd, adj, strlen(adj)) == (ssize_t)strlen(adj));
	close(fd);
}

#define BLOCK (2 * MB)

/* Byte @i of those that are used. */
static uint64_t *at(char *p, size_t i, size_t every)
{
	return (uint64_t *)(p + i / BLOCK * every * BLOCK + i % BLOCK);
}

int main(int argc, char **argv)
{
	const size_t len = arg_number(argc, argv, 1, 16) * MB;
	const size_t every = arg_number(argc, argv, 4, 1);
	char *p = mmap(NULL, every * len + BLOCK, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char c;

	CHECK(p != MAP_FAILED);
	p += -(uintptr_t)p % BLOCK;
	if (argc > 2)
		set_adj(argv[2]);
	for (size_t i = 0; i < len; i += PAGE)
		*at(p, i, every) = i ^ (uint64_t)len;
	if (arg_number(argc, argv, 3, 0)) {
		CHECK(write(1, "ready\n", 6) == 6);
		CHECK(read(0, &c, 1) == 0);
	}
	for (size_t i = 0; i < len; i += PAGE)
		if (*at(p, i, every) != (i ^ (uint64_t)len))
			die("page %zu is wrong", i / PAGE);
	puts("all there");
	return 0;
}
