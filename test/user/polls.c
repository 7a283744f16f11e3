/* SPDX-License-Identifier: MIT */
/*
 * poll, select and their kin, and eventfd, as one thread sees them. Prints the same on both.
 */
#include "alarms.h"
#include "user.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

static char buf[70000];
static void *volatile nowhere = (void *)8; /* the compiler must not know */

static void result(const char *what, long ret)
{
	printf("%s: %ld%s%s\n", what, ret, ret < 0 ? " " : "",
	       ret < 0 ? strerrorname_np(errno) : "");
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void show(const char *what, int fd, short events, int timeout)
{
	struct pollfd p = { .fd = fd, .events = events };
	const int n = poll(&p, 1, timeout);

	printf("%s: %d, %x\n", what, n, p.revents);
}

/* --- eventfd -------------------------------------------------------------------------- */

static void add(int fd, uint64_t n)
{
	result("add", write(fd, &n, sizeof(n)));
}

static void take(int fd)
{
	uint64_t n = 0;
	const ssize_t ret = read(fd, &n, sizeof(n));

	printf("take: %zd %s, %llu\n", ret, ret < 0 ? strerrorname_np(errno) : "",
	       (unsigned long long)n);
}

static void eventfds(void)
{
	struct stat st;
	int fd = eventfd(3, EFD_NONBLOCK);

	show("three", fd, ~0, 0);
	take(fd);
	take(fd);
	show("none", fd, ~0, 0);
	add(fd, 0);
	take(fd);
	add(fd, 5);
	add(fd, 7);
	take(fd);
	add(fd, ~0ull);
	add(fd, ~0ull - 1);
	show("full", fd, ~0, 0);
	add(fd, 1);
	add(fd, 0);
	take(fd);
	result("short read", read(fd, buf, 7));
	result("short write", write(fd, buf, 7));
	result("long read of nothing", read(fd, buf, 20));
	result("read nowhere", read(fd, nowhere, 8));
	add(fd, 2);
	result("read nowhere", read(fd, nowhere, 8));
	take(fd);
	result("write nowhere", write(fd, nowhere, 8));
	result("pread", pread(fd, buf, 8, 0));
	CHECK(fstat(fd, &st) == 0);
	printf("mode %o, flags %o\n", st.st_mode, fcntl(fd, F_GETFL));
	close(fd);
	fd = eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
	take(fd);
	add(fd, 1);
	take(fd);
	take(fd);
	take(fd);
	printf("cloexec %d\n", fcntl(fd, F_GETFD));
	close(fd);
	result("flags", eventfd(0, 2));
}

/* --- poll ----------------------------------------------------------------------------- */

static void polls(int fds[2])
{
	struct pollfd p[4] = { { fds[0], POLLIN, 99 },
			       { -1, POLLIN, 99 },
			       { 500, POLLIN, 99 },
			       { fds[1], POLLOUT, 99 } };
	const struct timespec bad = { 0, 1000000000 }, soon = { 0, 20000000 };
	struct timespec left = soon;
	struct rlimit r;
	long start;

	result("poll", poll(p, 4, -1));
	for (int i = 0; i < 4; i++)
		printf(" %x", p[i].revents);
	putchar('\n');
	start = now_ms();
	result("nothing to come", poll(p, 2, 50));
	printf("waited %d\n", now_ms() - start >= 50);
	start = now_ms();
	result("no files", poll(NULL, 0, 50));
	printf("waited %d\n", now_ms() - start >= 50);
	result("nowhere", poll(nowhere, 1, 0));
	CHECK(getrlimit(RLIMIT_NOFILE, &r) == 0);
	result("too many", syscall(SYS_poll, p, (unsigned)r.rlim_cur + 1, 0));
	result("ppoll", ppoll(p, 1, &soon, NULL));
	result("ppoll bad time", syscall(SYS_ppoll, p, 1, &bad, NULL, 8));
	result("ppoll bad set", syscall(SYS_ppoll, p, 1, &soon, p, 4));
	result("ppoll", syscall(SYS_ppoll, p, 1, &left, NULL, 8));
	printf("left %ld.%09ld\n", (long)left.tv_sec, left.tv_nsec);
	left.tv_sec = 100;
	result("ppoll, ready", syscall(SYS_ppoll, &p[3], 1, &left, NULL, 8));
	printf("left %d\n", left.tv_sec >= 50 && left.tv_sec <= 100);
}

static void many(void)
{
	enum {
		N = 1500
	};
	static struct pollfd p[2 * N];
	static int fds[N][2];
	struct rlimit r;

	CHECK(getrlimit(RLIMIT_NOFILE, &r) == 0);
	r.rlim_cur = 2 * N + 100;
	CHECK(setrlimit(RLIMIT_NOFILE, &r) == 0);
	for (int i = 0; i < N; i++) {
		CHECK(pipe(fds[i]) == 0);
		p[i] = (struct pollfd){ fds[i][0], POLLIN, 0 };
	}
	result("none of many", poll(p, N, 30));
	CHECK(write(fds[N - 1][1], "x", 1) == 1);
	CHECK(write(fds[7][1], "x", 1) == 1);
	result("two of many", poll(p, N, -1));
	printf("%x %x %x\n", p[6].revents, p[7].revents, p[N - 1].revents);
	for (int i = 0; i < N; i++)
		close(fds[i][1]);
	result("all of many", poll(p, N, -1));
	printf("%x %x %x\n", p[6].revents, p[7].revents, p[N - 1].revents);
	for (int i = 0; i < N; i++)
		close(fds[i][0]);
}

/* --- select --------------------------------------------------------------------------- */

static fd_set sets[3];

static void fill_sets(const int *in, const int *out, const int *pri)
{
	const int *const lists[3] = { in, out, pri };

	for (int s = 0; s < 3; s++) {
		FD_ZERO(&sets[s]);
		for (const int *p = lists[s]; p && *p >= 0; p++)
			FD_SET(*p, &sets[s]);
	}
}

static void do_select(const char *what, int nr, struct timeval *tv)
{
	const long ret = syscall(SYS_select, nr, &sets[0], &sets[1], &sets[2], tv);

	result(what, ret);
	for (int s = 0; s < 3; s++) {
		for (int fd = 0; fd < 1024; fd++) {
			if (FD_ISSET(fd, &sets[s]))
				printf(" %c%d", "iop"[s], fd);
		}
	}
	putchar('\n');
}

static void selects(int fds[2])
{
	const int both[] = { fds[0], fds[1], -1 }, in[] = { fds[0], -1 }, closed[] = { 40, -1 };
	struct timeval tv = { 0, 30000 };
	struct timespec ts = { 0, 20000000 };
	long start = now_ms();

	fill_sets(both, both, both);
	do_select("both", 30, NULL);
	fill_sets(in, NULL, NULL);
	do_select("wait", 30, &tv);
	printf("left %ld.%06ld, waited %d\n", (long)tv.tv_sec, (long)tv.tv_usec,
	       now_ms() - start >= 30);
	fill_sets(closed, NULL, NULL);
	do_select("closed", 41, &tv);
	fill_sets(both, both, NULL);
	do_select("few", fds[0] + 1, &tv);
	fill_sets(in, NULL, NULL);
	do_select("negative", -1, &tv);
	tv = (struct timeval){ 0, 100000000 };
	fill_sets(NULL, both, NULL);
	do_select("large usec", 30, &tv);
	printf("left %d\n", tv.tv_sec >= 50 && tv.tv_sec < 100);
	tv = (struct timeval){ -1, 0 };
	do_select("negative time", 30, &tv);
	result("nowhere", syscall(SYS_select, 30, 8, NULL, NULL, NULL));
	tv = (struct timeval){ 0, 10000 };
	result("sleep", syscall(SYS_select, 0, NULL, NULL, NULL, &tv));
	CHECK(write(fds[1], buf, 1) == 1);
	fill_sets(both, both, both);
	do_select("readable", 30, NULL);
	fill_sets(in, NULL, NULL);
	result("pselect", syscall(SYS_pselect6, 30, &sets[0], NULL, NULL, &ts, NULL));
	CHECK(read(fds[0], buf, 1) == 1);
	result("pselect", syscall(SYS_pselect6, 30, &sets[0], NULL, NULL, &ts, NULL));
	printf("left %ld.%09ld\n", (long)ts.tv_sec, ts.tv_nsec);
	close(fds[1]);
	fill_sets(in, in, in);
	do_select("hung up", 30, NULL);
}

/* --- a signal ends the wait ----------------------------------------------------------- */

static void interrupted(void)
{
	struct timeval tv = { 1000, 0 };
	struct pollfd p;
	int fds[2];

	CHECK(pipe(fds) == 0);
	p = (struct pollfd){ fds[0], POLLIN, 0 };
	alarms_start(SA_RESTART, -1);
	result("poll", alarms_end(poll(&p, 1, -1)));
	alarms_start(SA_RESTART, -1);
	result("poll", alarms_end(poll(&p, 1, 1000000)));
	fill_sets(&(int){ -1 }, NULL, NULL);
	FD_SET(fds[0], &sets[0]);
	alarms_start(SA_RESTART, -1);
	do_select("select", 30, &tv);
	alarms_end(0);
	printf("left %d\n", tv.tv_sec >= 900 && tv.tv_sec < 1000);
}

int main(void)
{
	int fds[2];

	CHECK(syscall(SYS_close_range, 3L, ~0L, 0L) == 0);
	eventfds();
	CHECK(pipe(fds) == 0);
	polls(fds);
	selects(fds);
	close(fds[0]);
	interrupted();
	many();
	return 0;
}
