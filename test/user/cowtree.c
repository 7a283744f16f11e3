/* SPDX-License-Identifier: MIT */
/*
 * A tree of processes over one piece of memory: each writes, checks, discards, unmaps, maps again
 * and moves pages at random, and forks children that go on from there.
 *
 *	cowtree MEGABYTES STEPS SEED
 *
 * Every process knows what each page must hold; what it finds wrong ends it with status 1, and its
 * parents with it. The first one prints a sum over its pages, which depends on nothing but the
 * arguments.
 */
#include "user.h"

#include <sys/mman.h>
#include <sys/wait.h>

#define MAX_PAGES   16384
#define MAX_DEPTH   3
#define MAX_RUNNING 2

static uint64_t want[MAX_PAGES]; /* what the page begins with; 0 = zeroes, never written */
static char mapped[MAX_PAGES];
static char *base;
static uint64_t nr_pages, stamp, state;
static int depth, running;

static uint64_t pick(uint64_t n)
{
	return next_random(&state) % n;
}

static uint64_t *page_at(uint64_t i)
{
	return (uint64_t *)(base + i * PAGE);
}

static void write_page(uint64_t i)
{
	if (!mapped[i])
		return;
	want[i] = ++stamp << 8 | (uint64_t)depth;
	page_at(i)[0] = want[i];
	page_at(i)[PAGE / 8 - 1] = ~want[i];
}

static void check_page(uint64_t i)
{
	const uint64_t *p = page_at(i);

	if (!mapped[i])
		return;
	if (p[0] != want[i] || p[PAGE / 8 - 1] != (want[i] ? ~want[i] : 0) || p[100])
		die("depth %d: page %lu holds %lx and %lx, not %lx", depth, i, p[0],
		    p[PAGE / 8 - 1], want[i]);
}

static void forget(uint64_t first, uint64_t nr, char now)
{
	for (uint64_t i = first; i < first + nr; i++) {
		want[i] = 0;
		mapped[i] = now;
	}
}

static void change_range(uint64_t first, uint64_t nr, uint64_t how)
{
	void *at = base + first * PAGE;

	if (how == 0) {
		CHECK(munmap(at, nr * PAGE) == 0);
		forget(first, nr, 0);
	} else if (how == 1) {
		CHECK(mmap(at, nr * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == at);
		forget(first, nr, 1);
	} else {
		for (uint64_t i = first; i < first + nr; i++)
			if (!mapped[i])
				return;
		CHECK(madvise(at, nr * PAGE, MADV_DONTNEED) == 0);
		forget(first, nr, 1);
	}
}

/* One page to another place. */
static void move_page(uint64_t from, uint64_t to)
{
	if (!mapped[from] || from == to)
		return;
	CHECK(mremap(page_at(from), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page_at(to)) ==
	      (void *)page_at(to));
	want[to] = want[from];
	mapped[to] = 1;
	want[from] = 0;
	mapped[from] = 0;
}

static void check_all(void)
{
	for (uint64_t i = 0; i < nr_pages; i++)
		check_page(i);
}

static void reap(void)
{
	int status;

	CHECK(wait(&status) > 0);
	running--;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		die("depth %d: a child ended with %x", depth, (unsigned int)status);
}

static void run(uint64_t steps);

static void fork_child(uint64_t steps)
{
	const uint64_t seed = next_random(&state);
	pid_t pid;

	while (running >= MAX_RUNNING)
		reap();
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid) {
		running++;
		return;
	}
	depth++;
	running = 0;
	state = seed;
	run(steps);
	_exit(0);
}

static void run(uint64_t steps)
{
	for (uint64_t s = 0; s < steps; s++) {
		const uint64_t what = pick(400), i = pick(nr_pages), n = 1 + pick(24);

		if (what < 220)
			write_page(i);
		else if (what < 380)
			check_page(i);
		else if (what < 390)
			change_range(i, i + n <= nr_pages ? n : 1, what % 3);
		else if (what < 394)
			move_page(i, pick(nr_pages));
		else if (what < 395 + (unsigned int)(depth == 0) * 5 && depth < MAX_DEPTH)
			fork_child(steps / 6);
	}
	while (running)
		reap();
	check_all();
}

int main(int argc, char **argv)
{
	uint64_t hash = HASH_INIT;

	if (argc != 4)
		die("usage: cowtree MEGABYTES STEPS SEED");
	nr_pages = strtoul(argv[1], NULL, 0) * MB / PAGE;
	CHECK(nr_pages && nr_pages <= MAX_PAGES);
	state = strtoul(argv[3], NULL, 0) * 2 + 1;
	base = mmap(NULL, nr_pages * PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(base != MAP_FAILED);
	forget(0, nr_pages, 1);
	run(strtoul(argv[2], NULL, 0));
	for (uint64_t i = 0; i < nr_pages; i++)
		hash = hash_word(hash_word(hash, want[i]), (uint64_t)mapped[i]);
	printf("%lu pages, %lu writes, sum %016lx\n", nr_pages, stamp, hash);
	return 0;
}
