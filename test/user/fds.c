/* SPDX-License-Identifier: MIT */
/*
 * Descriptors: lowest free numbers, dup and its kin, limits, flags, close_range. Prints the same
 * on both.
 */
#include "user.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static void result(const char *what, long ret)
{
	printf("%s: %ld%s%s\n", what, ret, ret < 0 ? " " : "",
	       ret < 0 ? strerrorname_np(errno) : "");
}

static void show_open(const char *what, int upto)
{
	int start = -1;

	printf("%s:", what);
	for (int fd = 0; fd <= upto + 1; fd++) {
		const int open = fd <= upto && fcntl(fd, F_GETFD) >= 0;

		if (open && start < 0)
			start = fd;
		if (!open && start >= 0) {
			printf(" %d-%d", start, fd - 1);
			start = -1;
		}
	}
	putchar('\n');
}

static void limit(rlim_t cur)
{
	struct rlimit r;

	CHECK(getrlimit(RLIMIT_NOFILE, &r) == 0);
	r.rlim_cur = cur;
	CHECK(setrlimit(RLIMIT_NOFILE, &r) == 0);
}

static void many(int null)
{
	int fd, last = -1, fds[2];

	limit(5000);
	while ((fd = dup(null)) >= 0)
		last = fd;
	printf("last %d, then %s\n", last, strerrorname_np(errno));
	result("open", open("/dev/null", O_RDONLY));
	result("pipe", pipe(fds));
	result("F_DUPFD", fcntl(null, F_DUPFD, 100));
	result("F_DUPFD above", fcntl(null, F_DUPFD, 5000));
	close(4000);
	close(70);
	close(3);
	result("pipe", pipe(fds));
	printf("%d %d\n", fds[0], fds[1]);
	result("lowest", dup(null));
	result("lowest", dup(null));
	limit(200);
	result("dup2 above the limit", dup2(null, 300));
	result("close above the limit", close(300));
	result("read above the limit", read(400, fds, 0));
	limit(5000);
	result("dup2", dup2(null, 300));
	close(1000);
	close(2000);
	result("from", fcntl(null, F_DUPFD, 1500));
	result("from", fcntl(null, F_DUPFD, 3));
	result("close_range", syscall(SYS_close_range, 3000L, 4000L, 0L));
	result("nothing there", close(3500));
	result("from", fcntl(null, F_DUPFD, 3990));
	result("close_range backwards", syscall(SYS_close_range, 10L, 9L, 0L));
	result("close_range flags", syscall(SYS_close_range, 10L, 11L, 1L));
	result("cloexec range", syscall(SYS_close_range, 100L, 110L, 4L));
	printf("%d %d %d\n", fcntl(99, F_GETFD), fcntl(100, F_GETFD), fcntl(111, F_GETFD));
	show_open("open", 5000);
	result("close all", syscall(SYS_close_range, 3L, ~0L, 2L));
	show_open("open", 5000);
}

static void far(int null)
{
	limit(9000);
	result("far", dup2(null, 8999));
	result("too far", dup2(null, 9000));
	result("negative", dup2(null, -1));
	result("close", close(8999));
	result("again", close(8999));
}

static void duplicates(int null)
{
	int fd;

	result("dup of nothing", dup(50));
	result("dup2 of nothing", dup2(50, 51));
	result("dup2 same", dup2(null, null));
	result("dup2 same, nothing", dup2(50, 50));
	result("dup3 same", dup3(null, null, 0));
	result("dup3 flags", dup3(null, 60, O_NONBLOCK));
	result("dup3", dup3(null, 60, O_CLOEXEC));
	printf("cloexec %d\n", fcntl(60, F_GETFD));
	result("dup2 over it", dup2(null, 60));
	printf("cloexec %d\n", fcntl(60, F_GETFD));
	fd = fcntl(null, F_DUPFD_CLOEXEC, 60);
	printf("%d cloexec %d\n", fd, fcntl(fd, F_GETFD));
	result("FIONCLEX", ioctl(fd, FIONCLEX));
	printf("cloexec %d\n", fcntl(fd, F_GETFD));
	result("FIOCLEX", ioctl(fd, FIOCLEX));
	printf("cloexec %d\n", fcntl(fd, F_GETFD));
	result("negative", fcntl(null, F_DUPFD, -1));
	result("unknown fcntl", fcntl(null, 999, 0));
	result("fcntl of nothing", fcntl(50, F_GETFL));
	close(60);
	close(fd);
}

static void flags(void)
{
	int one = 1, zero = 0, fds[2], copy;

	CHECK(pipe(fds) == 0);
	copy = dup(fds[0]);
	result("FIONBIO", ioctl(fds[0], FIONBIO, &one));
	printf("flags %o, of the copy %o\n", fcntl(fds[0], F_GETFL), fcntl(copy, F_GETFL));
	result("FIONBIO", ioctl(copy, FIONBIO, &zero));
	printf("flags %o\n", fcntl(fds[0], F_GETFL));
	result("FIONBIO nowhere", ioctl(copy, FIONBIO, 8));
	result("F_SETFL", fcntl(fds[1], F_SETFL, O_APPEND | O_RDWR | O_CREAT | O_CLOEXEC));
	printf("flags %o\n", fcntl(fds[1], F_GETFL));
	result("F_SETFL", fcntl(fds[1], F_SETFL, 0));
	printf("flags %o\n", fcntl(fds[1], F_GETFL));
	close(copy);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	int null;

	CHECK(syscall(SYS_close_range, 3L, ~0L, 0L) == 0);
	null = open("/dev/null", O_RDWR);
	CHECK(null == 3);
	duplicates(null);
	flags();
	far(null);
	many(dup2(null, 2));
	return 0;
}
