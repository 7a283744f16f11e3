/* SPDX-License-Identifier: MIT */
/*
 * Mappings: mmap, munmap, mprotect, mremap, brk and madvise against a model of what each page must
 * hold.
 *
 * mapping [ROUNDS] [SEED]: a random walk over one area, every page checked after every step that
 * could have changed it; then named cases. Memory that must not be readable is probed without
 * signals: as a path for access(2), which answers EFAULT.
 */
#include "user.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define AREA_PAGES 600

enum state {
	NONE,
	READ_WRITE,
	READ_ONLY,
	NO_ACCESS
};

static struct {
	enum state state;
	uint64_t value; /* of the page's first and last word; 0: fresh */
} model[AREA_PAGES];
static char *area;

/* Can the page be read, as the kernel sees it? */
static int readable(const void *p)
{
	errno = 0;
	return !(access(p, F_OK) == -1 && errno == EFAULT);
}

static void page_fill(size_t page, uint64_t value)
{
	uint64_t *p = (uint64_t *)(area + page * PAGE);

	p[0] = value;
	p[PAGE / 8 - 1] = ~value;
	model[page].value = value;
}

static void page_check(size_t page)
{
	const uint64_t *p = (const uint64_t *)(area + page * PAGE);
	const uint64_t v = model[page].value;

	if (model[page].state == NONE || model[page].state == NO_ACCESS) {
		if (readable(p))
			die("page %zu can be read", page);
		return;
	}
	if (p[0] != v || p[PAGE / 8 - 1] != (v ? ~v : 0))
		die("page %zu holds %lx, want %lx", page, (unsigned long)p[0], (unsigned long)v);
}

static void set_state(size_t first, size_t n, enum state state, int fresh)
{
	for (size_t i = first; i < first + n; i++) {
		model[i].state = state;
		if (fresh)
			model[i].value = 0;
	}
}

static void step_map(size_t first, size_t n)
{
	char *p = mmap(area + first * PAGE, n * PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	CHECK(p == area + first * PAGE);
	set_state(first, n, READ_WRITE, 1);
}

static void step_unmap(size_t first, size_t n)
{
	CHECK(munmap(area + first * PAGE, n * PAGE) == 0);
	set_state(first, n, NONE, 1);
}

static void step_protect(size_t first, size_t n, uint64_t r)
{
	static const int prots[] = { PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE };
	static const enum state states[] = { READ_WRITE, READ_ONLY, NO_ACCESS };
	size_t whole = 0;
	int ret;

	while (whole < n && model[first + whole].state != NONE)
		whole++;
	ret = mprotect(area + first * PAGE, n * PAGE, prots[r % 3]);
	CHECK(ret == (whole == n ? 0 : -1));
	if (ret)
		CHECK(errno == ENOMEM);
	/* On failure the part before the hole has changed. */
	set_state(first, whole, states[r % 3], 0);
}

static void step_discard(size_t first, size_t n)
{
	for (size_t i = first; i < first + n; i++)
		if (model[i].state == NONE)
			return;
	CHECK(madvise(area + first * PAGE, n * PAGE, MADV_DONTNEED) == 0);
	for (size_t i = first; i < first + n; i++)
		model[i].value = 0;
}

static void step_write(size_t first, size_t n, uint64_t r)
{
	for (size_t i = first; i < first + n; i++)
		if (model[i].state == READ_WRITE)
			page_fill(i, (r + i) | 1);
}

static void walk(unsigned long rounds, uint64_t seed)
{
	for (unsigned long round = 0; round < rounds; round++) {
		const uint64_t r = next_random(&seed);
		const size_t first = r % AREA_PAGES;
		const size_t most = AREA_PAGES - first;
		const size_t n = 1 + (r >> 16) % (most < 40 ? most : 40);

		switch ((r >> 32) % 8) {
		case 0:
			step_map(first, n);
			break;
		case 1:
			step_unmap(first, n);
			break;
		case 2:
		case 3:
			step_protect(first, n, r >> 40);
			break;
		case 4:
			step_discard(first, n);
			break;
		default:
			step_write(first, n, r >> 8);
			break;
		}
		for (size_t i = first; i < first + n; i++)
			page_check(i);
	}
	for (size_t i = 0; i < AREA_PAGES; i++)
		page_check(i);
	printf("walk: %lu steps\n", rounds);
}

static void fill(char *p, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i += PAGE)
		*(uint64_t *)(p + i) = seed + i;
}

static void expect(const char *p, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i += PAGE)
		if (*(const uint64_t *)(p + i) != seed + i)
			die("offset %zu is lost", i);
}

static void remap_cases(void)
{
	const size_t len = 64 * PAGE;
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *q, *hole;

	CHECK(p != MAP_FAILED);
	fill(p, len, 7);
	q = mremap(p, len, len / 2, 0); /* shrink in place */
	CHECK(q == p && !readable(p + len / 2));
	expect(p, len / 2, 7);
	q = mremap(p, len / 2, 4 * len, MREMAP_MAYMOVE); /* grow */
	CHECK(q != MAP_FAILED);
	expect(q, len / 2, 7);
	CHECK(*(uint64_t *)(q + 4 * len - 8) == 0);
	fill(q, 4 * len, 9);
	hole = mmap(NULL, 4 * len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(hole != MAP_FAILED);
	p = mremap(q, 4 * len, 4 * len, MREMAP_MAYMOVE | MREMAP_FIXED, hole); /* move */
	CHECK(p == hole && !readable(q));
	expect(p, 4 * len, 9);
	CHECK(mremap(p, 4 * len, 0, 0) == MAP_FAILED && errno == EINVAL);
	CHECK(mremap(p + 1, PAGE, PAGE, 0) == MAP_FAILED && errno == EINVAL);
	CHECK(mremap(q, PAGE, 2 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
	CHECK(munmap(p, 4 * len) == 0);
	puts("mremap: ok");
}

static char *set_break(char *to)
{
	return (char *)syscall(SYS_brk, to); /* musl's own brk() always refuses */
}

static void brk_cases(void)
{
	char *const start = set_break(NULL);
	char *const p = (char *)(((uintptr_t)start + PAGE - 1) & ~(PAGE - 1));

	CHECK(set_break(p + 3 * MB + 5) == p + 3 * MB + 5);
	fill(p, 3 * MB, 3);
	expect(p, 3 * MB, 3);
	CHECK(set_break(p + MB) == p + MB);
	expect(p, MB, 3);
	CHECK(!readable(p + MB) && set_break(p + 3 * MB) == p + 3 * MB);
	CHECK(*(uint64_t *)(p + 2 * MB) == 0);         /* given back, so zero again */
	CHECK(set_break(p - 1024 * MB) == p + 3 * MB); /* below its start: refused */
	CHECK(set_break(start) == start);
	puts("brk: ok");
}

/*
 * A private file mapping: own writes stay, the file stays as it was, the tail of its page is zero.
 */
static void file_cases(const char *self)
{
	const int fd = open(self, O_RDONLY);
	const off_t size = lseek(fd, 0, SEEK_END);
	char *buf = malloc((size_t)size);
	char *p;

	CHECK(fd >= 0 && size > 0 && buf);
	CHECK(pread(fd, buf, (size_t)size, 0) == size);
	p = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(p != MAP_FAILED && memcmp(p, buf, (size_t)size) == 0);
	for (size_t i = (size_t)size; i % PAGE; i++)
		CHECK(p[i] == 0);
	memset(p, 0x55, PAGE);
	CHECK(memcmp(p + PAGE, buf + PAGE, (size_t)size - PAGE) == 0);
	CHECK(munmap(p, (size_t)size) == 0);
	p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, PAGE);
	CHECK(p != MAP_FAILED && memcmp(p, buf + PAGE, PAGE) == 0);
	CHECK(munmap(p, PAGE) == 0);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 1) == MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EACCES);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, 99, 0) == MAP_FAILED && errno == EBADF);
	CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, PAGE, PROT_READ, 0, fd, 0) == MAP_FAILED && errno == EINVAL);
	close(fd);
	CHECK(memcmp(buf, "\177ELF", 4) == 0);
	free(buf);
	puts("file mappings: ok");
}

/*
 * A changed private mapping takes the place of one of the same pages that never was: what was
 * changed is seen, and may be changed again.
 */
static void moved_over_its_like(const char *self)
{
	const int fd = open(self, O_RDONLY);
	volatile char *to = mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	char *from = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	CHECK(fd >= 0 && to != MAP_FAILED && from != MAP_FAILED);
	CHECK(to[0] == '\177' && to[1] == 'E');
	from[0] = 'x';
	CHECK(mprotect(from, 4 * PAGE, PROT_READ) == 0);
	CHECK(mremap(from, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	CHECK(to[0] == 'x' && to[1] == 'E');
	CHECK(mprotect((void *)to, 4 * PAGE, PROT_READ | PROT_WRITE) == 0);
	to[1] = 'y';
	CHECK(to[0] == 'x' && to[1] == 'y' && to[2] == 'L');
	CHECK(munmap((void *)to, 4 * PAGE) == 0);
	close(fd);
	puts("moved over its like: ok");
}

int main(int argc, char **argv)
{
	const unsigned long rounds = arg_number(argc, argv, 1, 2000);
	const uint64_t seed = arg_number(argc, argv, 2, 12345);

	area = mmap(NULL, AREA_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	CHECK(area != MAP_FAILED);
	set_state(0, AREA_PAGES, READ_WRITE, 1);
	walk(rounds, seed);
	CHECK(munmap(area, AREA_PAGES * PAGE) == 0);
	remap_cases();
	brk_cases();
	file_cases(argv[0]);
	moved_over_its_like(argv[0]);
	return 0;
}
