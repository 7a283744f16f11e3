/* SPDX-License-Identifier: MIT */
/*
 * Uses memory in one way, without end, from several threads or processes: a test kills it at a
 * moment when memory nodes do not answer. It says "ready" when each of them has gone round once.
 *
 *	busy maps|forks|tmpfs FILE|reads FILE|pipes|sockets
 */
#include "user.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define BIG    (1 * MB)
#define PART   (BIG / 4)
#define NR_TWO 2

/* In memory that forks share. */
static unsigned int *rounds;

static void once_round(unsigned int who)
{
	if (__atomic_add_fetch(&rounds[who], 1, __ATOMIC_RELAXED) == 1 &&
	    __atomic_add_fetch(&rounds[15], 1, __ATOMIC_RELAXED) == NR_TWO)
		CHECK(write(1, "ready\n", 6) == 6);
}

static void touch(char *at, size_t len)
{
	for (size_t i = 0; i < len; i += PAGE)
		at[i]++;
}

/* --- the layout, which threads of one space change --------------------------------- */

static void *maps(void *arg)
{
	const int mine = MAP_PRIVATE | MAP_ANONYMOUS, both = PROT_READ | PROT_WRITE;

	for (;;) {
		char *at = mmap(NULL, BIG, both, mine, -1, 0);

		CHECK(at != MAP_FAILED);
		touch(at, BIG);
		at = mremap(at, BIG, 2 * BIG, MREMAP_MAYMOVE);
		CHECK(at != MAP_FAILED);
		CHECK(mprotect(at, PART, PROT_READ) == 0);
		CHECK(madvise(at + PART, PART, MADV_DONTNEED) == 0);
		touch(at + PART, PART);
		CHECK(mmap(at, PART, both, mine | MAP_FIXED, -1, 0) == at);
		touch(at, PART);
		CHECK(munmap(at, 2 * BIG) == 0);
		once_round((unsigned int)(uintptr_t)arg);
	}
	return NULL;
}

/* --- forks ------------------------------------------------------------------------- */

static void *forks(void *arg)
{
	char *at = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(at != MAP_FAILED);
	for (;;) {
		pid_t pid;

		touch(at, BIG);
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			touch(at, PART);
			_exit(0);
		}
		touch(at + PART, PART);
		CHECK(waitpid(pid, NULL, 0) == pid);
		once_round((unsigned int)(uintptr_t)arg);
	}
	return NULL;
}

/* --- one file, in memory or of the disk -------------------------------------------- */

static int fd;

static void *tmpfs(void *arg)
{
	static char buf[PART];
	const unsigned int who = (unsigned int)(uintptr_t)arg;

	for (;;) {
		CHECK(pwrite(fd, buf, sizeof(buf), (off_t)(who * PART)) >= 0);
		CHECK(pread(fd, buf, sizeof(buf), (off_t)(PART / 2)) >= 0);
		CHECK(fallocate(fd, 3, (off_t)(who * PART / 2), PART) == 0);
		CHECK(ftruncate(fd, (off_t)(BIG - who * PART)) == 0);
		once_round(who);
	}
	return NULL;
}

/* Through one offset, so that one waits while the other reads. */
static void *reads(void *arg)
{
	static char buf[NR_TWO][PART];
	const unsigned int who = (unsigned int)(uintptr_t)arg;

	for (;;) {
		const ssize_t n = read(fd, buf[who], sizeof(buf[who]));

		CHECK(n >= 0);
		if (n == 0)
			CHECK(lseek(fd, 0, SEEK_SET) == 0);
		once_round(who);
	}
	return NULL;
}

/* --- pipes and sockets ------------------------------------------------------------- */

static void pass(int from, int to, unsigned int who)
{
	static char buf[BIG];

	touch(buf, BIG);
	for (;;) {
		size_t done = 0;

		while (who == 0 && done < BIG) {
			const ssize_t n = write(to, buf + done, BIG - done);

			CHECK(n > 0);
			done += (size_t)n;
		}
		while (who == 1 && done < BIG) {
			const ssize_t n = read(from, buf + done, BIG - done);

			CHECK(n > 0);
			done += (size_t)n;
		}
		once_round(who);
	}
}

/* -------------------------------------------------------------------------------- */

static void in_threads(void *(*fn)(void *))
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, fn, (void *)(uintptr_t)1) == 0);
	fn(NULL);
}

static void in_processes(void *(*fn)(void *))
{
	const pid_t pid = fork();

	CHECK(pid >= 0);
	fn((void *)(uintptr_t)(pid == 0));
}

static void in_pipes(bool sockets)
{
	int ends[2];
	pid_t pid;

	CHECK((sockets ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) == 0);
	pid = fork();
	CHECK(pid >= 0);
	pass(ends[0], ends[1], pid == 0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	rounds = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(rounds != MAP_FAILED);
	if (argc > 2)
		CHECK((fd = open(argv[2], strcmp(what, "reads") ? O_RDWR | O_CREAT : O_RDONLY,
				 0600)) >= 0);
	if (!strcmp(what, "maps"))
		in_threads(maps);
	else if (!strcmp(what, "forks"))
		in_processes(forks);
	else if (!strcmp(what, "tmpfs"))
		in_processes(tmpfs);
	else if (!strcmp(what, "reads"))
		in_threads(reads);
	else if (!strcmp(what, "pipes"))
		in_pipes(false);
	else if (!strcmp(what, "sockets"))
		in_pipes(true);
	die("usage: busy maps|forks|tmpfs FILE|reads FILE|pipes|sockets");
}
