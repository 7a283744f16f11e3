/* SPDX-License-Identifier: MIT */
/*
 * Mappings of files in memory (/dev/shm): shared with read and write, with children, privately;
 * truncation; rights that the descriptor does not have. Prints the same as on Linux.
 */
#include "user.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define NAME  "/dev/shm/tessera-shmaps"
#define PAGES 40

static sigjmp_buf jump;

static void on_fault(int signo)
{
	siglongjmp(jump, signo);
}

/* The byte at @p, or the negative signal. */
static int peek(const volatile char *p)
{
	const int signo = sigsetjmp(jump, 1);

	return signo ? -signo : *p;
}

static char *map(int fd, int prot, int flags)
{
	char *p = mmap(NULL, PAGES * PAGE, prot, flags, fd, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static void coherent(int fd, char *shared)
{
	char buf[8] = "";

	memcpy(shared + 3 * PAGE + 5, "hello", 5);
	CHECK(pread(fd, buf, 5, 3 * PAGE + 5) == 5);
	printf("read sees %s\n", buf);
	CHECK(pwrite(fd, "world", 5, 3 * PAGE + 5) == 5);
	printf("map sees %.5s, hole %d\n", shared + 3 * PAGE + 5, shared[9 * PAGE]);
}

static void children(char *shared, char *private)
{
	for (int i = 0; i < 5; i++) {
		const pid_t pid = fork();
		int status;

		CHECK(pid >= 0);
		if (pid == 0) {
			shared[(10 + i) * PAGE] = (char)('a' + i);
			private[(20 + i) * PAGE] = (char)('A' + i);
			_exit(private[(20 + i) * PAGE] == 'A' + i ? 0 : 1);
		}
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
		printf("child %d: %c %d\n", i, shared[(10 + i) * PAGE], private[(20 + i) * PAGE]);
	}
}

static void private_copies(int fd, char *shared, char *private)
{
	private[3 * PAGE + 5] = 'W';
	CHECK(pwrite(fd, "x", 1, 4 * PAGE) == 1);
	printf("private %.5s, shared %.5s, behind it %c\n", private + 3 * PAGE + 5,
	       shared + 3 * PAGE + 5, private[4 * PAGE]);
}

static void truncation(int fd, char *shared, char *private)
{
	shared[30 * PAGE] = 'z';
	shared[12 * PAGE + 100] = 'y';
	CHECK(ftruncate(fd, 12 * PAGE + 50) == 0);
	printf("cut: %d %d %d\n", peek(shared + 12 * PAGE + 100), peek(shared + 13 * PAGE),
	       peek(private + 30 * PAGE));
	CHECK(ftruncate(fd, PAGES * PAGE) == 0);
	printf("grown: %d %d %d\n", peek(shared + 12 * PAGE + 100), peek(shared + 13 * PAGE),
	       peek(shared + 30 * PAGE));
}

static void result(const char *what, int ret)
{
	printf("%s: %s\n", what, ret == 0 ? "ok" : strerror(errno));
}

static void rights(void)
{
	const int fd = open(NAME, O_RDONLY);
	char *p, *q;

	CHECK(fd >= 0);
	result("shared, writable",
	       mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
	p = map(fd, PROT_READ, MAP_SHARED);
	CHECK(close(fd) == 0);
	result("becomes writable", mprotect(p, PAGE, PROT_READ | PROT_WRITE));
	CHECK(mprotect(p, 5 * PAGE, PROT_NONE) == 0);
	CHECK(mprotect(p, PAGES * PAGE, PROT_READ) == 0);
	result("after a change", mprotect(p, PAGE, PROT_READ | PROT_WRITE));
	q = map(-1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS);
	CHECK(mremap(p, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q) == q);
	printf("moved: %.5s\n", q + 3 * PAGE + 5);
	result("after a move", mprotect(q, PAGE, PROT_READ | PROT_WRITE));
	CHECK(munmap(q, PAGES * PAGE) == 0);
}

int main(void)
{
	struct sigaction sa = { .sa_handler = on_fault };
	int fd = open(NAME, O_RDWR | O_CREAT | O_TRUNC, 0600);
	char *shared, *private;

	CHECK(fd >= 0);
	CHECK(sigaction(SIGBUS, &sa, NULL) == 0);
	CHECK(ftruncate(fd, PAGES * PAGE) == 0);
	shared = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	private = map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	coherent(fd, shared);
	children(shared, private);
	private_copies(fd, shared, private);
	truncation(fd, shared, private);
	rights();
	CHECK(unlink(NAME) == 0);
	CHECK(close(fd) == 0);
	/* The mapping keeps the memory. */
	printf("unlinked: %.5s\n", shared + 3 * PAGE + 5);
	return 0;
}
