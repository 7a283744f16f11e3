/* SPDX-License-Identifier: MIT */
/*
 * epoll as one thread sees it: levels, edges, one shot, nesting, errors. Prints the same on both.
 */
#include "alarms.h"
#include "user.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>

static void *volatile nowhere = (void *)8;

static void result(const char *what, long ret)
{
	printf("%s: %ld%s%s\n", what, ret, ret < 0 ? " " : "",
	       ret < 0 ? strerrorname_np(errno) : "");
}

static int ctl(int ep, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	return epoll_ctl(ep, op, fd, &ev);
}

static int by_data(const void *a, const void *b)
{
	const struct epoll_event *x = a, *y = b;

	return (x->data.u64 > y->data.u64) - (x->data.u64 < y->data.u64);
}

/* Print the descriptors that are ready, sorted. */
static void show_max(const char *what, int ep, int max, int timeout)
{
	struct epoll_event ev[16];
	const int n = epoll_wait(ep, ev, max, timeout);

	printf("%s: %d%s%s", what, n, n < 0 ? " " : "", n < 0 ? strerrorname_np(errno) : "");
	if (n > 0)
		qsort(ev, (size_t)n, sizeof(ev[0]), by_data);
	for (int i = 0; i < n; i++)
		printf(" %llu:%x", (unsigned long long)ev[i].data.u64, ev[i].events);
	putchar('\n');
}

static void show(const char *what, int ep)
{
	show_max(what, ep, 16, 0);
}

static void put(int fd)
{
	CHECK(write(fd, "x", 1) == 1);
}

static void get(int fd)
{
	char c;

	CHECK(read(fd, &c, 1) == 1);
}

static void levels(int ep, int fds[2])
{
	result("add", ctl(ep, EPOLL_CTL_ADD, fds[0], EPOLLIN, 1));
	result("add", ctl(ep, EPOLL_CTL_ADD, fds[1], EPOLLOUT, 2));
	show("writable", ep);
	put(fds[1]);
	show("both", ep);
	show("still", ep);
	show_max("one at a time", ep, 1, 0);
	result("mod", ctl(ep, EPOLL_CTL_MOD, fds[1], 0, 3));
	show("readable", ep);
	get(fds[0]);
	show("nothing", ep);
	show_max("nothing comes", ep, 16, 30);
	result("mod", ctl(ep, EPOLL_CTL_MOD, fds[1], EPOLLOUT | EPOLLIN, 4));
	show("writable", ep);
	result("del", epoll_ctl(ep, EPOLL_CTL_DEL, fds[1], NULL));
	show("nothing", ep);
	put(fds[1]);
	show("readable", ep);
	get(fds[0]);
	result("del", epoll_ctl(ep, EPOLL_CTL_DEL, fds[0], NULL));
}

static void edges(int ep, int fds[2])
{
	result("add", ctl(ep, EPOLL_CTL_ADD, fds[0], EPOLLIN | EPOLLET, 1));
	show("nothing", ep);
	put(fds[1]);
	show("edge", ep);
	show("no edge", ep);
	put(fds[1]);
	show("another", ep);
	get(fds[0]);
	show("no edge", ep);
	result("mod", ctl(ep, EPOLL_CTL_MOD, fds[0], EPOLLIN | EPOLLET, 5));
	show("again by mod", ep);
	get(fds[0]);
	put(fds[1]);
	get(fds[0]);
	show("gone before it was seen", ep);
	result("del", epoll_ctl(ep, EPOLL_CTL_DEL, fds[0], NULL));
	result("add", ctl(ep, EPOLL_CTL_ADD, fds[0], EPOLLIN | EPOLLONESHOT, 6));
	put(fds[1]);
	show("one shot", ep);
	show("no more", ep);
	put(fds[1]);
	show("no more", ep);
	result("mod", ctl(ep, EPOLL_CTL_MOD, fds[0], EPOLLIN | EPOLLONESHOT, 7));
	show("armed", ep);
	show("no more", ep);
	get(fds[0]);
	get(fds[0]);
	result("del", epoll_ctl(ep, EPOLL_CTL_DEL, fds[0], NULL));
}

static void ends(int ep)
{
	int fds[2], copy;

	CHECK(pipe(fds) == 0);
	result("add", ctl(ep, EPOLL_CTL_ADD, fds[0], EPOLLIN, 1));
	result("add", ctl(ep, EPOLL_CTL_ADD, fds[1], 0, 2));
	copy = dup(fds[0]);
	close(fds[0]);
	put(fds[1]);
	show("closed, but open", ep);
	result("del by number", epoll_ctl(ep, EPOLL_CTL_DEL, fds[0], NULL));
	result("del by copy", epoll_ctl(ep, EPOLL_CTL_DEL, copy, NULL));
	close(copy);
	show("no reader", ep);
	close(fds[1]);
	show("nothing", ep);
	CHECK(pipe(fds) == 0);
	result("add", ctl(ep, EPOLL_CTL_ADD, fds[0], 0, 3));
	close(fds[1]);
	show("hung up", ep);
	close(fds[0]);
	show("nothing", ep);
}

static void errors(int ep, int fds[2], const char *path)
{
	struct epoll_event ev;
	int file = open(path, O_RDONLY), other = epoll_create1(0);

	result("file", ctl(ep, EPOLL_CTL_ADD, file, EPOLLIN, 0));
	result("itself", ctl(ep, EPOLL_CTL_ADD, ep, EPOLLIN, 0));
	result("closed", ctl(ep, EPOLL_CTL_ADD, 300, EPOLLIN, 0));
	result("closed epoll", ctl(300, EPOLL_CTL_ADD, fds[0], EPOLLIN, 0));
	result("no epoll", ctl(fds[0], EPOLL_CTL_ADD, fds[1], EPOLLIN, 0));
	result("nowhere", epoll_ctl(ep, EPOLL_CTL_ADD, fds[0], nowhere));
	result("unknown", ctl(ep, 9, fds[0], EPOLLIN, 0));
	result("mod nothing", ctl(ep, EPOLL_CTL_MOD, fds[0], EPOLLIN, 0));
	result("del nothing", ctl(ep, EPOLL_CTL_DEL, fds[0], EPOLLIN, 0));
	result("add", ctl(ep, EPOLL_CTL_ADD, fds[0], EPOLLIN, 0));
	result("twice", ctl(ep, EPOLL_CTL_ADD, fds[0], EPOLLIN, 0));
	result("exclusive mod", ctl(ep, EPOLL_CTL_MOD, fds[0], EPOLLIN | EPOLLEXCLUSIVE, 0));
	result("del", ctl(ep, EPOLL_CTL_DEL, fds[0], 0, 0));
	result("exclusive one shot",
	       ctl(ep, EPOLL_CTL_ADD, fds[0], EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, 0));
	result("exclusive epoll", ctl(ep, EPOLL_CTL_ADD, other, EPOLLIN | EPOLLEXCLUSIVE, 0));
	result("exclusive", ctl(ep, EPOLL_CTL_ADD, fds[0], EPOLLIN | EPOLLEXCLUSIVE | EPOLLET, 9));
	result("mod of exclusive", ctl(ep, EPOLL_CTL_MOD, fds[0], EPOLLIN, 0));
	put(fds[1]);
	show("exclusive", ep);
	get(fds[0]);
	result("del", ctl(ep, EPOLL_CTL_DEL, fds[0], 0, 0));
	result("wait none", epoll_wait(ep, &ev, 0, 0));
	result("wait negative", syscall(SYS_epoll_wait, ep, &ev, -1, 0));
	result("wait nowhere", epoll_wait(ep, nowhere, 1, 0));
	result("wait kernel", epoll_wait(ep, (void *)0xffff888000000000UL, 1, 0));
	result("wait closed", epoll_wait(300, &ev, 1, 0));
	result("wait no epoll", epoll_wait(fds[0], &ev, 1, 0));
	result("add", ctl(ep, EPOLL_CTL_ADD, fds[1], EPOLLOUT | EPOLLET, 0));
	result("wait ready nowhere", epoll_wait(ep, nowhere, 1, 0));
	show("still there", ep);
	result("del", ctl(ep, EPOLL_CTL_DEL, fds[1], 0, 0));
	result("size 0", syscall(SYS_epoll_create, 0));
	result("flags", syscall(SYS_epoll_create1, 1));
	result("read", read(ep, &ev, 4));
	close(other);
	close(file);
}

static void nesting(int fds[2])
{
	int eps[10], n;
	struct pollfd p;

	for (n = 0; n < 10; n++) {
		eps[n] = epoll_create1(0);
		if (ctl(eps[n], EPOLL_CTL_ADD, n ? eps[n - 1] : fds[0], EPOLLIN, (uint64_t)n) < 0)
			break;
	}
	printf("nested %d, then %s\n", n, strerrorname_np(errno));
	result("loop", ctl(eps[0], EPOLL_CTL_ADD, eps[1], EPOLLIN, 0));
	p = (struct pollfd){ eps[n - 1], POLLIN, 0 };
	result("poll", poll(&p, 1, 0));
	show("quiet", eps[n - 1]);
	put(fds[1]);
	for (int i = 0; i < n; i++)
		show_max("one inside", eps[i], 16, 60000);
	result("poll", poll(&p, 1, -1));
	get(fds[0]);
	result("poll", poll(&p, 1, 0));
	show("quiet", eps[n - 1]);
	for (int i = 0; i <= n && i < 10; i++)
		close(eps[i]);
}

static void many(int ep)
{
	static int fds[400];
	uint64_t one = 1, seen = 0;

	for (int i = 0; i < 400; i++) {
		fds[i] = eventfd(0, EFD_NONBLOCK);
		CHECK(ctl(ep, EPOLL_CTL_ADD, fds[i], EPOLLIN, (uint64_t)i) == 0);
	}
	show("none", ep);
	for (int i = 0; i < 400; i += 7)
		CHECK(write(fds[i], &one, 8) == 8);
	for (;;) {
		struct epoll_event ev[10];
		const int n = epoll_wait(ep, ev, 10, 0);

		if (n <= 0)
			break;
		for (int i = 0; i < n; i++) {
			CHECK(ev[i].data.u64 % 7 == 0);
			CHECK(read(fds[ev[i].data.u64], &one, 8) == 8);
			seen++;
		}
	}
	printf("seen %llu\n", (unsigned long long)seen);
	/* All that are ready have their turn, even if only one is taken at a time. */
	for (int i = 0; i < 5; i++)
		CHECK(write(fds[i], &one, 8) == 8);
	seen = 0;
	for (int i = 0; i < 10; i++) {
		struct epoll_event ev;

		CHECK(epoll_wait(ep, &ev, 1, 0) == 1);
		seen |= 1u << ev.data.u64;
	}
	printf("turns %llx\n", (unsigned long long)seen);
	for (int i = 0; i < 400; i++)
		close(fds[i]);
	show("none", ep);
}

static void interrupted(int ep)
{
	const struct timespec ts = { 0, 20000000 }, bad = { 0, -1 };
	struct epoll_event ev;
	sigset_t set;

	alarms_start(SA_RESTART, -1);
	result("interrupted", alarms_end(epoll_wait(ep, &ev, 1, -1)));
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	sigemptyset(&set);
	alarms_start(SA_RESTART, -1);
	result("pwait", alarms_end(epoll_pwait(ep, &ev, 1, -1, &set)));
	result("pwait size", syscall(SYS_epoll_pwait, ep, &ev, 1, 0, &set, 4));
	result("pwait2", syscall(SYS_epoll_pwait2, ep, &ev, 1, &ts, NULL, 8));
	result("pwait2 bad", syscall(SYS_epoll_pwait2, ep, &ev, 1, &bad, NULL, 8));
}

int main(int argc, char **argv)
{
	int ep, fds[2];

	CHECK(argc == 1);
	CHECK(syscall(SYS_close_range, 3L, ~0L, 0L) == 0);
	ep = epoll_create(1);
	CHECK(pipe2(fds, O_NONBLOCK) == 0);
	levels(ep, fds);
	edges(ep, fds);
	ends(ep);
	errors(ep, fds, argv[0]);
	nesting(fds);
	many(ep);
	interrupted(ep);
	return 0;
}
