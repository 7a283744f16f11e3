/* SPDX-License-Identifier: MIT */
/*
 * Memory whose mappings are sealed by mseal(), and protection keys of a processor that has none.
 * Prints the same as on Linux.
 */
#include "call.h"

#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SEAL 462 /* as yet in no header of the C library */
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW   (PROT_READ | PROT_WRITE)

static long seal(const void *at, size_t len, unsigned long flags)
{
	return syscall(SEAL, at, len, flags);
}

static char *map(size_t pages, int prot, int flags)
{
	char *p = mmap(NULL, pages * PAGE, prot, flags, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* Only whether it was refused: the addresses differ. */
static void mapped(const char *what, const void *p)
{
	call(what, p == MAP_FAILED ? -1 : 0);
}

static void arguments(void)
{
	char *p = map(4, RW, ANON);

	CHECK(munmap(p + 2 * PAGE, PAGE) == 0);
	call("flags", seal(p, PAGE, 1));
	call("all flags", seal(p, PAGE, ~0UL));
	call("not aligned", seal(p + 1, PAGE, 0));
	call("nothing", seal(p, 0, 0));
	call("nothing where nothing is", seal(p + 2 * PAGE, 0, 0));
	call("a length that wraps when it is rounded", seal(p, -PAGE + 1, 0));
	call("a range that wraps", seal(p, -PAGE, 0));
	call("a hole", seal(p + 2 * PAGE, PAGE, 0));
	call("a hole at the end", seal(p + PAGE, 2 * PAGE, 0));
	call("a hole in the middle", seal(p, 4 * PAGE, 0));
	call("beyond the program's memory", seal((char *)(1UL << 47), PAGE, 0));
	call("so nothing was sealed", munmap(p, 4 * PAGE));
}

/* Every call that would change a sealed page: alone, at an edge, in the middle. */
static void refusals(void)
{
	char *p = map(8, RW, ANON), *other = map(4, RW, ANON);

	memset(p, 'x', 8 * PAGE);
	call("two pages of eight", seal(p + 3 * PAGE, PAGE + 1, 0));
	call("again", seal(p + 3 * PAGE, 2 * PAGE, 0));
	call("munmap of all", munmap(p, 8 * PAGE));
	call("munmap of the first", munmap(p + 3 * PAGE, PAGE));
	call("munmap of the second and on", munmap(p + 4 * PAGE, 4 * PAGE));
	call("mprotect of both", mprotect(p + 3 * PAGE, 2 * PAGE, PROT_READ));
	call("mprotect as it is", mprotect(p + 4 * PAGE, PAGE, RW));
	call("mprotect of nothing", mprotect(p + 4 * PAGE, 0, PROT_READ));
	call("pkey_mprotect", syscall(SYS_pkey_mprotect, p + 4 * PAGE, PAGE, PROT_READ, -1));
	mapped("mmap over it", mmap(p, 8 * PAGE, RW, ANON | MAP_FIXED, -1, 0));
	mapped("mmap that replaces nothing",
	       mmap(p, 8 * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
	mapped("mremap, moved",
	       mremap(p + 3 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, other));
	mapped("mremap, smaller", mremap(p + 3 * PAGE, 2 * PAGE, PAGE, 0));
	mapped("mremap, larger", mremap(p + 3 * PAGE, 2 * PAGE, 9 * PAGE, MREMAP_MAYMOVE));
	mapped("mremap over it",
	       mremap(other, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + 4 * PAGE));
	call("madvise of what can be written", madvise(p + 3 * PAGE, PAGE, MADV_DONTNEED));
	printf("%d %d %d\n", p[3 * PAGE], p[4 * PAGE], p[7 * PAGE]);
	p[3 * PAGE] = 'y'; /* it can still be used */
	call("before it", mprotect(p, 3 * PAGE, PROT_READ));
	call("behind it", munmap(p + 5 * PAGE, 3 * PAGE));
	call("its neighbour, too", seal(p + 2 * PAGE, PAGE, 0));
	call("which was not", munmap(p, 2 * PAGE));
	call("and now is", munmap(p + 2 * PAGE, PAGE));
}

static void contents(void)
{
	char *p = map(4, RW, ANON), *shared = map(2, RW, MAP_SHARED | MAP_ANONYMOUS);

	memset(p, 'x', 4 * PAGE);
	memset(shared, 'x', 2 * PAGE);
	CHECK(mprotect(p + PAGE, PAGE, PROT_READ) == 0 && mprotect(shared, PAGE, PROT_READ) == 0);
	CHECK(seal(p, 4 * PAGE, 0) == 0 && seal(shared, 2 * PAGE, 0) == 0);
	call("DONTNEED of all", madvise(p, 4 * PAGE, MADV_DONTNEED));
	call("DONTNEED of what cannot be written", madvise(p + PAGE, PAGE, MADV_DONTNEED));
	call("FREE of it", madvise(p + PAGE, PAGE, MADV_FREE));
	call("DONTNEED_LOCKED of it", madvise(p + PAGE, PAGE, MADV_DONTNEED_LOCKED));
	call("WILLNEED of it", madvise(p + PAGE, PAGE, MADV_WILLNEED));
	call("what can", madvise(p + 2 * PAGE, 2 * PAGE, MADV_DONTNEED));
	call("what is shared", madvise(shared, 2 * PAGE, MADV_DONTNEED));
	printf("%d %d, shared %d\n", p[PAGE], p[2 * PAGE], shared[0]);
}

static void others(void)
{
	const int id = shmget(IPC_PRIVATE, 2 * PAGE, 0600);
	char *p = map(2, RW, ANON), *brk = sbrk(4 * PAGE), *at;
	int status;
	pid_t pid;

	CHECK(id >= 0 && brk != (void *)-1);
	at = shmat(id, NULL, 0);
	CHECK(at != (void *)-1 && shmctl(id, IPC_RMID, NULL) == 0);
	CHECK(seal(p, PAGE, 0) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		call("in a child", munmap(p, 2 * PAGE));
		call("the child seals", seal(p + PAGE, PAGE, 0));
		call("its own", munmap(p + PAGE, PAGE));
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	call("not the parent's", munmap(p + PAGE, PAGE));
	brk = (char *)(((uintptr_t)brk + PAGE - 1) & -PAGE);
	CHECK(seal(brk + PAGE, PAGE, 0) == 0);
	call("a break below", brk == sbrk(0) ? 0 : syscall(SYS_brk, brk) == (long)brk);
	call("a break above", syscall(SYS_brk, brk + 8 * PAGE) == (long)(brk + 8 * PAGE));
	call("and back", syscall(SYS_brk, brk + 3 * PAGE) == (long)(brk + 3 * PAGE));
	CHECK(seal(at + PAGE, PAGE, 0) == 0);
	call("shmat over it", shmat(id, p, SHM_REMAP) == (void *)-1 ? -1 : 0);
}

/* Many ranges, in no order, until they are one. */
static void many(void)
{
	enum {
		PAGES = 256
	};
	char *p = map(PAGES, RW, ANON);
	int refused = 0;

	for (unsigned int i = 0; i < PAGES; i += 2)
		CHECK(seal(p + (i * 37 % PAGES & ~1U) * PAGE, PAGE, 0) == 0);
	for (unsigned int i = 0; i < PAGES; i++)
		refused += mprotect(p + i * PAGE, PAGE, PROT_READ) < 0;
	printf("%d pages refused\n", refused);
	CHECK(seal(p + PAGE, (PAGES - 2) * PAGE, 0) == 0);
	refused = 0;
	for (unsigned int i = 0; i < PAGES; i++)
		refused += munmap(p + i * PAGE, PAGE) < 0;
	printf("%d pages refused\n", refused);
}

/* A sealed stack grows, and its new pages are sealed, too. */
static void grown(void)
{
	char *p = map(300, PROT_NONE, ANON), *stack = p + 290 * PAGE;

	CHECK(munmap(p, 300 * PAGE) == 0);
	CHECK(mmap(stack, 2 * PAGE, RW, ANON | MAP_FIXED | MAP_GROWSDOWN, -1, 0) == stack);
	call("a stack", seal(stack, 2 * PAGE, 0));
	stack[-2 * (ssize_t)PAGE] = 'x';
	call("mprotect of what has grown", mprotect(stack - 2 * PAGE, PAGE, PROT_READ));
	call("munmap of it", munmap(stack - PAGE, PAGE));
	call("munmap below it", munmap(stack - 3 * PAGE, PAGE));
}

static void keys(void)
{
	char *p = map(1, RW, ANON);

	call("no key", syscall(SYS_pkey_mprotect, p, PAGE, PROT_READ, -1));
	call("a key that is not allocated", syscall(SYS_pkey_mprotect, p, PAGE, PROT_READ, 5));
	call("of nothing", syscall(SYS_pkey_mprotect, p, 0, PROT_READ, 5));
	call("not aligned", syscall(SYS_pkey_mprotect, p + 1, 0, PROT_READ, 5));
	call("flags of a key", syscall(SYS_pkey_alloc, 1, 0));
	call("rights of a key", syscall(SYS_pkey_alloc, 0, 4));
	call("free of none", syscall(SYS_pkey_free, 5));
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	arguments();
	refusals();
	contents();
	others();
	many();
	grown();
	keys();
	return 0;
}
