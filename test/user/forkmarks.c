/* SPDX-License-Identifier: MIT */
/*
 * Memory that a child does not get, or gets empty: MADV_DONTFORK and MADV_WIPEONFORK. Prints the
 * same as on Linux.
 */
#include "call.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW   (PROT_READ | PROT_WRITE)

static int ends[2];

static char *map(size_t pages, int flags, int fd)
{
	char *p = mmap(NULL, pages * PAGE, RW, flags, fd, 0);

	CHECK(p != MAP_FAILED);
	if (fd < 0)
		memset(p, 'p', pages * PAGE);
	return p;
}

/* How the first byte of each page is to be had: '.' is zero, '-' not mapped. */
static void show(const char *what, const char *p, size_t pages)
{
	char c;

	printf("%s: ", what);
	for (size_t i = 0; i < pages; i++) {
		if (write(ends[1], p + i * PAGE, 1) != 1) {
			putchar(errno == EFAULT ? '-' : '?');
			continue;
		}
		CHECK(read(ends[0], &c, 1) == 1);
		putchar(c ? c : '.');
	}
	putchar('\n');
	fflush(stdout);
}

/* Here, in a child, and in the child's child, which gets what the child has written. */
static void generations(const char *what, char *p, size_t pages)
{
	pid_t child;

	puts(what);
	show("  here", p, pages);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		pid_t grandchild;

		show("  child", p, pages);
		for (size_t i = 0; i < pages; i++) {
			if (write(ends[1], p + i * PAGE, 1) == 1) {
				CHECK(read(ends[0], &(char){ 0 }, 1) == 1);
				p[i * PAGE] = 'c';
			}
		}
		grandchild = fork();
		if (!grandchild) {
			show("  grandchild", p, pages);
			_exit(0);
		}
		CHECK(waitpid(grandchild, NULL, 0) == grandchild);
		show("  child", p, pages);
		_exit(0);
	}
	CHECK(waitpid(child, NULL, 0) == child);
	show("  here", p, pages);
}

static void marks(void)
{
	char *p = map(8, ANON, -1);

	call("dont fork", madvise(p + 2 * PAGE, 3 * PAGE, MADV_DONTFORK));
	generations("three of eight", p, 8);
	call("do fork", madvise(p + 3 * PAGE, PAGE, MADV_DOFORK));
	call("wipe", madvise(p + 3 * PAGE, 4 * PAGE, MADV_WIPEONFORK));
	generations("two, and four that are wiped", p, 8);
	call("keep", madvise(p, 5 * PAGE, MADV_KEEPONFORK));
	call("do fork", madvise(p, 8 * PAGE, MADV_DOFORK));
	generations("two that are wiped", p, 8);
	CHECK(munmap(p, 8 * PAGE) == 0);
}

static void kinds(void)
{
	const int fd = memfd_create("marks", 0);
	char *shared = map(3, MAP_SHARED | MAP_ANONYMOUS, -1), *file, *private, *hole, *sealed;

	CHECK(fd >= 0 && ftruncate(fd, 3 * PAGE) == 0);
	file = map(3, MAP_SHARED, fd);
	private = map(3, MAP_PRIVATE, fd);
	file[0] = file[PAGE] = 'f';
	private[0] = 'v';
	call("shared, wiped", madvise(shared, PAGE, MADV_WIPEONFORK));
	call("a file, wiped", madvise(file, PAGE, MADV_WIPEONFORK));
	call("a private file, wiped", madvise(private, PAGE, MADV_WIPEONFORK));
	call("shared, kept", madvise(shared, PAGE, MADV_KEEPONFORK));
	call("shared", madvise(shared, PAGE, MADV_DONTFORK));
	call("a file", madvise(file, PAGE, MADV_DONTFORK));
	call("a private file", madvise(private, PAGE, MADV_DONTFORK));
	generations("shared", shared, 3);
	generations("a file", file, 3);
	generations("a private file", private, 3);
	CHECK(munmap(shared, 3 * PAGE) == 0 && munmap(file, 3 * PAGE) == 0);
	CHECK(munmap(private, 3 * PAGE) == 0);
	close(fd);

	hole = map(3, ANON, -1);
	CHECK(munmap(hole + PAGE, PAGE) == 0);
	call("a hole", madvise(hole, 3 * PAGE, MADV_WIPEONFORK));
	call("not aligned", madvise(hole + 1, PAGE, MADV_DONTFORK));
	call("nothing", madvise(hole, 0, MADV_DONTFORK));
	generations("around a hole", hole, 3);
	CHECK(munmap(hole, 3 * PAGE) == 0);

	sealed = map(2, ANON, -1);
	CHECK(mprotect(sealed, PAGE, PROT_READ) == 0);
	call("read only", madvise(sealed, PAGE, MADV_WIPEONFORK));
	show("here", sealed, 2);
	CHECK(mprotect(sealed, PAGE, RW) == 0);
	generations("was read only", sealed, 2);
	CHECK(munmap(sealed, 2 * PAGE) == 0);
}

/* Marks belong to the mapping, not to the place. */
static void places(void)
{
	char *p = map(6, ANON, -1), *q;

	call("dont fork", madvise(p, 2 * PAGE, MADV_DONTFORK));
	call("wipe", madvise(p + 4 * PAGE, 2 * PAGE, MADV_WIPEONFORK));
	CHECK(mmap(p + PAGE, 4 * PAGE, RW, ANON | MAP_FIXED, -1, 0) == p + PAGE);
	memset(p + PAGE, 'n', 4 * PAGE);
	generations("over half of both", p, 6);
	q = mremap(p + 5 * PAGE, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
	CHECK(q != MAP_FAILED);
	memset(q, 'm', 3 * PAGE);
	generations("what is wiped has moved, and grown", q, 3);
	CHECK(munmap(p, PAGE) == 0);
	CHECK(mmap(p, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0) == p);
	p[0] = 'a';
	generations("another at the place", p, 5);
	CHECK(munmap(p, 5 * PAGE) == 0 && munmap(q, 3 * PAGE) == 0);
}

int main(void)
{
	CHECK(pipe(ends) == 0);
	marks();
	kinds();
	places();
	return 0;
}
