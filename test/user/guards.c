/* SPDX-License-Identifier: MIT */
/*
 * Guard pages: what faults, what stays, and how they follow a mapping that is moved, cut, forked
 * and protected. Prints the same as on Linux.
 */
#include "call.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define INSTALL 102 /* as yet in no header of the C library */
#define REMOVE  103
#define ANON    (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW      (PROT_READ | PROT_WRITE)

static sigjmp_buf back;
static volatile int code;

static void on_fault(int signo, siginfo_t *info, void *context)
{
	(void)context;
	code = signo * 100 + info->si_code;
	siglongjmp(back, 1);
}

static char *map(size_t pages, int prot, int flags)
{
	char *p = mmap(NULL, pages * PAGE, prot, flags, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* A letter for each page: G a guard, - no access, 0 zero, or what is in it. */
static void look(const char *what, volatile char *p, size_t pages)
{
	printf("%s: ", what);
	for (size_t i = 0; i < pages; i++) {
		if (sigsetjmp(back, 1))
			putchar(code == SIGSEGV * 100 + SEGV_MAPERR   ? 'G'
				: code == SIGSEGV * 100 + SEGV_ACCERR ? '-'
								      : '?');
		else
			putchar(p[i * PAGE] ? p[i * PAGE] : '0');
	}
	putchar('\n');
}

static void fill(char *p, size_t pages)
{
	for (size_t i = 0; i < pages; i++)
		p[i * PAGE] = (char)('a' + i);
}

static void basics(void)
{
	char *p = map(8, RW, ANON);
	struct iovec local = { "x", 1 }, remote = { p + 2 * PAGE, 1 };
	int fds[2];

	fill(p, 8);
	call("two of eight", madvise(p + 2 * PAGE, 2 * PAGE, INSTALL));
	look("now", p, 8);
	call("again, and one more", madvise(p + 2 * PAGE, 3 * PAGE, INSTALL));
	look("now", p, 8);
	CHECK(pipe(fds) == 0);
	call("write from one", write(fds[1], p + 3 * PAGE, 1));
	CHECK(write(fds[1], "x", 1) == 1);
	call("read into one", read(fds[0], p + 3 * PAGE, 1));
	call("process_vm_writev", process_vm_writev(getpid(), &local, 1, &remote, 1, 0));
	call("DONTNEED of all", madvise(p, 8 * PAGE, MADV_DONTNEED));
	look("now", p, 8);
	call("POPULATE_READ", madvise(p, 8 * PAGE, MADV_POPULATE_READ));
	call("POPULATE_WRITE", madvise(p + PAGE, 2 * PAGE, MADV_POPULATE_WRITE));
	call("mprotect of all", mprotect(p, 8 * PAGE, PROT_READ));
	look("now", p, 8);
	call("and back", mprotect(p, 8 * PAGE, RW));
	look("now", p, 8);
	fill(p, 2);
	call("remove the middle", madvise(p + 3 * PAGE, PAGE, REMOVE));
	look("now", p, 8);
	call("mlock", mlock(p + 2 * PAGE, PAGE));
	CHECK(munlock(p, 8 * PAGE) == 0);
	call("remove of all", madvise(p, 8 * PAGE, REMOVE));
	look("now", p, 8);
	close(fds[0]);
	close(fds[1]);
}

static void arguments(void)
{
	char *p = map(4, RW, ANON);

	CHECK(munmap(p + 2 * PAGE, PAGE) == 0);
	call("not aligned", madvise(p + 1, PAGE, INSTALL));
	call("nothing", madvise(p, 0, INSTALL));
	call("a hole", madvise(p + 2 * PAGE, PAGE, INSTALL));
	call("a hole, to remove", madvise(p + 2 * PAGE, PAGE, REMOVE));
	call("a byte", madvise(p, 1, INSTALL));
	look("that is", p, 2);
	call("101", madvise(p, PAGE, 101));
	call("104", madvise(p, PAGE, 104));
}

static void layouts(void)
{
	char *p = map(8, RW, ANON), *q;
	int status;
	pid_t pid;

	fill(p, 8);
	CHECK(madvise(p + 1 * PAGE, 6 * PAGE, INSTALL) == 0);
	call("unmap the middle", munmap(p + 3 * PAGE, PAGE));
	CHECK(mmap(p + 3 * PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0) == p + 3 * PAGE);
	CHECK(mmap(p + 5 * PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0) == p + 5 * PAGE);
	look("two were replaced", p, 8);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		look("in a child", p, 8);
		call("which removes two", madvise(p + PAGE, 2 * PAGE, REMOVE));
		look("has", p, 8);
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	look("its parent", p, 8);
	q = mremap(p, 3 * PAGE, 20 * PAGE, MREMAP_MAYMOVE);
	CHECK(q != MAP_FAILED && q != p);
	look("moved", q, 6);
	p = map(8, RW, ANON);
	CHECK(mremap(q + PAGE, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + 2 * PAGE) ==
	      p + 2 * PAGE);
	look("moved over another", p, 8);
	look("what was left", q, 1);
	CHECK(madvise(p, 8 * PAGE, INSTALL) == 0);
	q = map(4, RW, ANON);
	CHECK(mremap(q, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + 3 * PAGE) ==
	      p + 3 * PAGE);
	look("another moved over them", p, 8);
}

static void others(void)
{
	char *shared = map(4, RW, MAP_SHARED | MAP_ANONYMOUS), *file, *ro;
	const int fd = memfd_create("guards", 0);
	int status;
	pid_t pid;

	fill(shared, 4);
	CHECK(fd >= 0 && ftruncate(fd, 4 * PAGE) == 0);
	call("shared", madvise(shared + PAGE, PAGE, INSTALL));
	look("now", shared, 4);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		call("a child's own", madvise(shared, PAGE, INSTALL));
		look("has", shared, 4);
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	look("its parent", shared, 4);
	call("removed", madvise(shared, 4 * PAGE, REMOVE));
	look("what was there is", shared, 4);
	file = mmap(NULL, 4 * PAGE, RW, MAP_PRIVATE, fd, 0);
	CHECK(file != MAP_FAILED);
	CHECK(pwrite(fd, "f", 1, PAGE) == 1);
	fill(file, 4);
	call("private, of a file", madvise(file + PAGE, PAGE, INSTALL));
	look("now", file, 4);
	call("removed", madvise(file + PAGE, PAGE, REMOVE));
	look("the file again", file, 4);
	ro = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(ro != MAP_FAILED);
	call("read-only, of a file", madvise(ro, 2 * PAGE, INSTALL));
	look("now", ro, 4);
	close(fd);
}

/* Many ranges, each of one page. */
static void many(void)
{
	enum {
		PAGES = 512
	};
	char *p = map(PAGES, RW, ANON);
	int refused = 0;

	for (int i = 1; i < PAGES; i += 2)
		CHECK(madvise(p + i * PAGE, PAGE, INSTALL) == 0);
	memset(p, 'x', PAGE);
	for (volatile int i = 0; i < PAGES; i++) {
		if (sigsetjmp(back, 1))
			refused++;
		else
			p[i * PAGE] = 'y';
	}
	printf("%d of %d pages\n", refused, PAGES);
	CHECK(munmap(p, PAGES * PAGE) == 0);
}

int main(void)
{
	const struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(sigaction(SIGSEGV, &sa, NULL) == 0 && sigaction(SIGBUS, &sa, NULL) == 0);
	basics();
	arguments();
	layouts();
	others();
	many();
	return 0;
}
