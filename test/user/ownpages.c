/* SPDX-License-Identifier: MIT */
/*
 * A program that checks every page it owns: ownpages SEED PAGES SECONDS FILE
 *
 * For SECONDS of its own clock it writes, reads, drops and unmaps pages of private memory, of
 * shared memory and of a file in memory, forks children that do the same, and reads FILE. It keeps
 * for each page what must be in it, checks all words of a page whenever it touches it, and all
 * pages at the end. Status 0 and "all pages are right", or 1 and what was wrong where.
 */
#include "user.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define WORDS      (PAGE / sizeof(uint64_t))
#define SHARED     128 /* pages, of each kind */
#define FILE_PAGES 512

struct area {
	const char *name;
	uint64_t *data;  /* mapped; NULL: a file, by pread and pwrite */
	uint32_t *lives; /* of each page, how often it was written; 0: it is zero */
	size_t pages;
	uint64_t salt;
	int fd;
};

static uint64_t rng;

static size_t below(size_t n)
{
	return next_random(&rng) % n;
}

static uint64_t word_of(const struct area *a, size_t page, size_t i)
{
	if (!a->lives[page])
		return 0;
	return (a->salt ^ (uint64_t)page << 40 ^ (uint64_t)a->lives[page] << 12) + i;
}

static const uint64_t *contents(const struct area *a, size_t page)
{
	static uint64_t copy[WORDS];
	ssize_t n;

	if (a->data)
		return a->data + page * WORDS;
	memset(copy, 0, sizeof(copy));
	n = pread(a->fd, copy, PAGE, (off_t)(page * PAGE));
	if (n < 0)
		die("%s page %zu cannot be read: %s", a->name, page, strerror(errno));
	return copy;
}

static void check(const struct area *a, size_t page)
{
	const uint64_t *w = contents(a, page);

	for (size_t i = 0; i < WORDS; i++) {
		const uint64_t got = *(const volatile uint64_t *)(w + i),
			       want = word_of(a, page, i);

		if (got != want)
			die("WRONG: pid %d: %s page %zu word %zu, life %u: %#llx, not %#llx",
			    getpid(), a->name, page, i, a->lives[page], (unsigned long long)got,
			    (unsigned long long)want);
	}
}

static void put(struct area *a, size_t page)
{
	uint64_t copy[WORDS];

	check(a, page);
	a->lives[page]++;
	for (size_t i = 0; i < WORDS; i++)
		copy[i] = word_of(a, page, i);
	if (a->data)
		memcpy(a->data + page * WORDS, copy, PAGE);
	else if (pwrite(a->fd, copy, PAGE, (off_t)(page * PAGE)) != (ssize_t)PAGE)
		die("%s page %zu cannot be written: %s", a->name, page, strerror(errno));
}

static void check_all(const struct area *a)
{
	for (size_t i = 0; i < a->pages; i++)
		check(a, i);
}

/* Some pages become zero, in one of the ways that there are. */
static void drop(struct area *a)
{
	const size_t first = below(a->pages),
		     n = 1 + below(a->pages - first < 64 ? a->pages - first : 64);
	char *at = (char *)a->data + first * PAGE;

	if (!a->data) {
		if (fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			      (off_t)(first * PAGE), (off_t)(n * PAGE)))
			die("%s page %zu cannot be dropped: %s", a->name, first, strerror(errno));
	} else if (below(2))
		CHECK(madvise(at, n * PAGE, MADV_DONTNEED) == 0);
	else
		CHECK(mmap(at, n * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
	for (size_t i = 0; i < n; i++)
		a->lives[first + i] = 0;
}

static void protect(struct area *a)
{
	const size_t first = below(a->pages);
	char *at = (char *)a->data + first * PAGE;

	CHECK(mprotect(at, PAGE, PROT_READ) == 0);
	check(a, first);
	CHECK(mprotect(at, PAGE, PROT_READ | PROT_WRITE) == 0);
}

/* --- a file of the disk ---------------------------------------------------------------- */

static uint64_t sums[FILE_PAGES]; /* 0: not read yet */

static void read_file(int fd, size_t pages)
{
	char page[PAGE];
	const size_t i = below(pages);
	uint64_t sum;

	if (pread(fd, page, PAGE, (off_t)(i * PAGE)) != (ssize_t)PAGE)
		die("page %zu of the file cannot be read: %s", i, strerror(errno));
	sum = hash_bytes(HASH_INIT, page, PAGE);
	if (sums[i] && sums[i] != sum)
		die("WRONG: pid %d: page %zu of the file has changed", getpid(), i);
	sums[i] = sum;
}

/* --- children ---------------------------------------------------------------------------- */

static void work(struct area *areas, size_t nr, unsigned int steps, int file, size_t file_pages,
		 bool may_fork);

/* It sees all that its parent has, and changes only its own. */
static void child(struct area *priv, int file, size_t file_pages)
{
	const pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (!pid) {
		rng ^= (uint64_t)getpid() << 32;
		work(priv, 1, 100, file, file_pages, false);
		check_all(priv);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		die("a child ended with %#x", status);
}

static void work(struct area *areas, size_t nr, unsigned int steps, int file, size_t file_pages,
		 bool may_fork)
{
	while (steps-- > 0) {
		struct area *a = &areas[below(4) ? 0 : below(nr)];
		const size_t what = below(1000);

		if (what < 600)
			put(a, below(a->pages));
		else if (what < 900)
			check(a, below(a->pages));
		else if (what < 930)
			read_file(file, file_pages);
		else if (what < 960 && a != &areas[1])
			drop(a);
		else if (what < 995)
			protect(&areas[0]);
		else if (may_fork)
			child(&areas[0], file, file_pages);
	}
}

static uint64_t *map(int flags, size_t pages)
{
	uint64_t *p =
		mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

int main(int argc, char **argv)
{
	const size_t pages = arg_number(argc, argv, 2, 1000);
	const time_t seconds = (time_t)arg_number(argc, argv, 3, 5);
	struct area areas[3] = {
		{ .name = "private", .pages = pages },
		{ .name = "shared", .pages = SHARED },
		{ .name = "tmpfs", .pages = SHARED },
	};
	struct timespec now, begin;
	char name[64];
	struct stat st;
	int file;

	if (argc < 5)
		die("usage: ownpages SEED PAGES SECONDS FILE");
	rng = arg_number(argc, argv, 1, 1) * 2 + 1;
	areas[0].data = map(MAP_PRIVATE, pages);
	areas[1].data = map(MAP_SHARED, SHARED);
	for (size_t i = 0; i < 3; i++) {
		areas[i].salt = next_random(&rng);
		areas[i].lives = (uint32_t *)map(MAP_PRIVATE, 1 + areas[i].pages / 1024);
	}
	snprintf(name, sizeof(name), "/dev/shm/own.%d", getpid());
	areas[2].fd = open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
	CHECK(areas[2].fd >= 0 && unlink(name) == 0);
	CHECK(ftruncate(areas[2].fd, SHARED * PAGE) == 0);
	file = open(argv[4], O_RDONLY);
	CHECK(file >= 0 && fstat(file, &st) == 0 && st.st_size >= FILE_PAGES * (off_t)PAGE);
	CHECK(clock_gettime(CLOCK_MONOTONIC, &begin) == 0);
	do {
		work(areas, 3, 500, file, FILE_PAGES, true);
		CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
	} while (now.tv_sec - begin.tv_sec < seconds);
	for (size_t i = 0; i < 3; i++)
		check_all(&areas[i]);
	puts("all pages are right");
	return 0;
}
