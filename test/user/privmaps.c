/* SPDX-License-Identifier: MIT */
/*
 * Private mappings: their copies of a file that gets shorter, and what MREMAP_DONTUNMAP leaves
 * behind. The argument is a file to make. Prints the same on both.
 */
#include "call.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static sigjmp_buf back;
static int pipes[2][2];

static void on_signal(int signo)
{
	siglongjmp(back, signo);
}

/* The first byte of each page: a letter, 0, or the signal that ends the look. */
static void show(const char *what, const char *p, int nr)
{
	printf("%s:", what);
	for (int i = 0; i < nr; i++) {
		const int signo = sigsetjmp(back, 1);
		const volatile char *at = p + i * PAGE;

		if (signo)
			printf(" %s", signo == SIGBUS ? "SIGBUS" : "SIGSEGV");
		else if (*at)
			printf(" %c", *at);
		else
			printf(" 0");
	}
	printf("\n");
	fflush(stdout);
}

/* --- truncation ---------------------------------------------------------------------------- */

static void signal_other(int which)
{
	CHECK(write(pipes[which][1], "x", 1) == 1);
}

static void wait_other(int which)
{
	char c;

	CHECK(read(pipes[which][0], &c, 1) == 1);
}

static int make(const char *path)
{
	const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
	char page[PAGE];

	CHECK(fd >= 0);
	for (int i = 0; i < 6; i++) {
		memset(page, 'a' + i, PAGE);
		CHECK(write(fd, page, PAGE) == PAGE);
	}
	return fd;
}

static char *map(int fd, int prot, int flags, int nr)
{
	char *p = mmap(NULL, (size_t)nr * PAGE, prot, flags, fd, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* A child has its own copies, and those that it was forked with. */
static void child(char *p)
{
	p[2 * PAGE] = 'X';
	show("child at first", p, 6);
	signal_other(0);
	wait_other(1);
	show("child after it", p, 6);
	signal_other(0);
	wait_other(1);
	show("child, longer again", p, 6);
	signal_other(0);
	_exit(0);
}

static void truncation(const char *path)
{
	const int fd = make(path);
	char *p = map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE, 6);
	char *ro = map(fd, PROT_READ, MAP_PRIVATE, 6);
	char *second = map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE, 6);
	pid_t pid;

	p[1] = p[PAGE] = p[3 * PAGE] = p[5 * PAGE] = 'P';
	second[4 * PAGE] = 'S';
	show("at first", p, 6);
	show("read only", ro, 6);
	fflush(stdout);
	CHECK(pipe(pipes[0]) == 0 && pipe(pipes[1]) == 0);
	pid = fork();
	if (!pid)
		child(p);
	wait_other(0);
	p[2 * PAGE] = 'Q';
	call("wake in it", syscall(SYS_futex, p + 5 * PAGE, FUTEX_WAKE, 1, NULL, NULL, 0));
	CHECK(ftruncate(fd, PAGE + 5) == 0);
	show("after it", p, 6);
	show("read only", ro, 6);
	show("another", second, 6);
	call("wake behind the end", syscall(SYS_futex, p + 5 * PAGE, FUTEX_WAKE, 1, NULL, NULL, 0));
	signal_other(1);
	wait_other(0);
	CHECK(ftruncate(fd, 6 * PAGE) == 0);
	show("longer again", p, 6);
	show("another", second, 6);
	signal_other(1);
	wait_other(0);
	CHECK(waitpid(pid, NULL, 0) == pid);
	p[3 * PAGE] = 'P';
	CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE, 4 * PAGE) == 0);
	show("a hole below copies", p, 6);
	CHECK(close(open(path, O_RDWR | O_TRUNC)) == 0);
	show("O_TRUNC", p, 6);
	CHECK(munmap(p, 6 * PAGE) == 0 && munmap(second, 6 * PAGE) == 0 && close(fd) == 0);
}

/* --- MREMAP_DONTUNMAP ---------------------------------------------------------------------- */

static char *leave(const char *what, char *p, int nr, int flags, char *to)
{
	char *q = mremap(p, (size_t)nr * PAGE, (size_t)nr * PAGE,
			 MREMAP_MAYMOVE | MREMAP_DONTUNMAP | flags, to);

	if (q == MAP_FAILED) {
		call(what, -1);
		return NULL;
	}
	printf("%s: moved %d\n", what, q != p);
	show("  the old", p, nr);
	show("  the new", q, nr);
	return q;
}

static void dont_unmap(const char *path)
{
	const int fd = make(path);
	char *p = map(-1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, 6), *q;

	p[0] = 'p';
	p[2 * PAGE] = 'q';
	q = leave("anonymous", p, 6, 0, NULL);
	p[0] = 'n';
	q[PAGE] = 'm';
	show("  the old", p, 6);
	show("  the new", q, 6);
	CHECK(leave("over it", q + PAGE, 2, MREMAP_FIXED, p + PAGE) == p + PAGE);
	show("  the old", q, 6);
	show("  the new", p, 6);
	call("another length", (long)mremap(p, PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP));
	call("no length", (long)mremap(p, 0, 0, MREMAP_MAYMOVE | MREMAP_DONTUNMAP));
	call("may not move", (long)mremap(p, PAGE, PAGE, MREMAP_DONTUNMAP));
	CHECK(munmap(p + 4 * PAGE, PAGE) == 0);
	(void)leave("over a hole", p + 3 * PAGE, 3, 0, NULL);
	CHECK(mprotect(p, PAGE, PROT_READ) == 0);
	(void)leave("of two", p, 2, 0, NULL);
	p = leave("read only", p, 1, 0, NULL);
	p = map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE, 6);
	p[PAGE] = 'P';
	q = leave("of a file", p, 6, 0, NULL);
	q[3 * PAGE] = 'Q';
	show("  the old", p, 6);
	p = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED, 6);
	q = leave("shared", p, 6, 0, NULL);
	q[5 * PAGE] = 'S';
	show("  the old", p, 6);
	fflush(stdout);
	if (fork() == 0) {
		show("  a child's", p, 6);
		_exit(0);
	}
	CHECK(wait(NULL) > 0);
	CHECK(close(fd) == 0 && unlink(path) == 0);
}

int main(int argc, char **argv)
{
	const struct sigaction sa = { .sa_handler = on_signal };

	CHECK(argc == 2);
	CHECK(sigaction(SIGBUS, &sa, NULL) == 0 && sigaction(SIGSEGV, &sa, NULL) == 0);
	alarm(60);
	truncation(argv[1]);
	dont_unmap(argv[1]);
	return 0;
}
