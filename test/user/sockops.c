/* SPDX-License-Identifier: MIT */
/*
 * For make bench: what sockets cost. Figures are nanoseconds of CLOCK_MONOTONIC (instructions where
 * QEMU counts them: -icount shift=0) or MB/s, one line "name figure" each.
 *
 * sockops trips ROUNDS		tcp, unix: a round trip of 64 bytes between two processes
 * sockops idle N ACTIVE ROUNDS	epoll: one of ACTIVE connections that has bytes, beside N idle ones
 * sockops serve ADDR [PORT]	the other side of the next two; says "port N" and stays
 * sockops asks ADDR PORT ROUNDS	request: a round trip of 64 bytes to that server
 * sockops bytes ADDR PORT MIB	push, pull: MB/s to and from it
 */
#include "user.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#define SIZE    64u /* bytes of a request, and of an answer */
#define BATCHES 11
#define BLOCK   (64u << 10)
#define EVENTS  256

static char block[BLOCK];

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000UL + (uint64_t)ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void say(const char *name, uint64_t *figures, size_t n)
{
	qsort(figures, n, sizeof(figures[0]), by_value);
	printf("%s %lu\n", name, (unsigned long)figures[n / 2]);
	fflush(stdout);
}

/* Exactly @len bytes; false: the stream has ended. */
static bool fetch(int fd, void *to, size_t len)
{
	size_t got = 0;

	while (got < len) {
		const ssize_t n = read(fd, (char *)to + got, len - got);

		if (n <= 0)
			return false;
		got += (size_t)n;
	}
	return true;
}

static struct sockaddr_in name_of(const char *addr, unsigned long port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	CHECK(inet_aton(addr, &in.sin_addr));
	return in;
}

static int listener(struct sockaddr_in *in)
{
	const int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	socklen_t len = sizeof(*in);

	CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0);
	CHECK(bind(fd, (struct sockaddr *)in, sizeof(*in)) == 0 && listen(fd, 128) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)in, &len) == 0);
	return fd;
}

static int connected(const struct sockaddr_in *in)
{
	const int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)in, sizeof(*in)) == 0);
	CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
	return fd;
}

/* Send back what comes, until the end. */
static void echo(int fd)
{
	char buf[SIZE];

	while (fetch(fd, buf, SIZE) && write(fd, buf, SIZE) == SIZE)
		;
}

/* BATCHES batches of @rounds round trips over @fd, after one that is not counted. */
static void trips_over(const char *name, int fd, unsigned long rounds)
{
	uint64_t figures[BATCHES];
	char buf[SIZE] = { 0 };

	for (int i = -1; i < BATCHES; i++) {
		const uint64_t start = now_ns();

		for (unsigned long r = 0; r < rounds; r++)
			CHECK(write(fd, buf, SIZE) == SIZE && fetch(fd, buf, SIZE));
		if (i >= 0)
			figures[i] = (now_ns() - start) / rounds;
	}
	say(name, figures, BATCHES);
}

/* --- in one system -------------------------------------------------------------------- */

/* Round trips over @ours to another process that has @theirs, which ends when we close. */
static void trips_between(const char *name, int ours, int theirs, unsigned long rounds)
{
	const pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		close(ours);
		echo(theirs);
		_exit(0);
	}
	close(theirs);
	trips_over(name, ours, rounds);
	close(ours);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void trips(unsigned long rounds)
{
	struct sockaddr_in in = name_of("127.0.0.1", 0);
	const int at = listener(&in), ours = connected(&in), theirs = accept(at, NULL, NULL);
	int pair[2];

	CHECK(theirs >= 0);
	trips_between("tcp", ours, theirs, rounds);
	close(at);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	trips_between("unix", pair[0], pair[1], rounds);
}

/* A byte into each active connection; epoll says which have one, and each is answered. */
static void serve_active(int ep, const int *clients, unsigned long active)
{
	struct epoll_event events[EVENTS];
	unsigned long left = active;
	char c = 'x';

	for (unsigned long i = 0; i < active; i++)
		CHECK(write(clients[i], &c, 1) == 1);
	while (left) {
		const int n = epoll_wait(ep, events, EVENTS, -1);

		CHECK(n > 0 && (unsigned long)n <= left);
		left -= (unsigned long)n;
		for (int i = 0; i < n; i++)
			CHECK(read(events[i].data.fd, &c, 1) == 1 &&
			      write(events[i].data.fd, &c, 1) == 1);
	}
	for (unsigned long i = 0; i < active; i++)
		CHECK(read(clients[i], &c, 1) == 1);
}

static void idle(unsigned long nr, unsigned long active, unsigned long rounds)
{
	const unsigned long all = nr + active;
	const struct rlimit files = { 2 * all + 64, 2 * all + 64 };
	struct sockaddr_in in = name_of("127.0.0.1", 0);
	const int at = listener(&in), ep = epoll_create1(0);
	int *clients = calloc(all, sizeof(*clients));
	uint64_t figures[BATCHES];

	CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0 && ep >= 0 && clients);
	for (unsigned long i = 0; i < all; i++) {
		struct epoll_event ev = { .events = EPOLLIN };

		clients[i] = connected(&in);
		ev.data.fd = accept(at, NULL, NULL);
		CHECK(ev.data.fd >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, ev.data.fd, &ev) == 0);
	}
	for (int i = -1; i < BATCHES; i++) {
		const uint64_t start = now_ns();

		for (unsigned long r = 0; r < rounds; r++)
			serve_active(ep, clients, active);
		if (i >= 0)
			figures[i] = (now_ns() - start) / (rounds * active);
	}
	say("epoll", figures, BATCHES);
	free(clients);
}

/* --- between two ---------------------------------------------------------------------- */

/* The wish of a client, at the beginning of its connection. */
struct wish {
	uint32_t what; /* enum below */
	uint32_t mib;
};
enum {
	ECHO,
	PUSH,
	PULL,
};

static void send_mib(int fd, uint32_t mib)
{
	for (uint64_t left = (uint64_t)mib * MB; left;) {
		const ssize_t n = write(fd, block, BLOCK < left ? BLOCK : left);

		CHECK(n > 0);
		left -= (uint64_t)n;
	}
}

static bool take_mib(int fd, uint32_t mib)
{
	for (uint64_t left = (uint64_t)mib * MB; left;) {
		const ssize_t n = read(fd, block, BLOCK < left ? BLOCK : left);

		if (n <= 0)
			return false;
		left -= (uint64_t)n;
	}
	return true;
}

static void serve_one(int fd)
{
	const int on = 1;
	struct wish wish;
	char done = 'd';

	CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
	if (!fetch(fd, &wish, sizeof(wish)))
		return;
	if (wish.what == ECHO)
		echo(fd);
	else if (wish.what == PULL)
		send_mib(fd, wish.mib);
	else if (take_mib(fd, wish.mib))
		CHECK(write(fd, &done, 1) == 1);
}

static void serve(const char *addr, unsigned long port)
{
	struct sockaddr_in in = name_of(addr, port);
	const int at = listener(&in);

	printf("port %u\n", ntohs(in.sin_port));
	fflush(stdout);
	for (;;) {
		const int fd = accept(at, NULL, NULL);

		CHECK(fd >= 0);
		serve_one(fd);
		close(fd);
	}
}

static int wish_of(const struct sockaddr_in *in, uint32_t what, uint32_t mib)
{
	const struct wish wish = { what, mib };
	const int fd = connected(in);

	CHECK(write(fd, &wish, sizeof(wish)) == sizeof(wish));
	return fd;
}

static void asks(const struct sockaddr_in *in, unsigned long rounds)
{
	const int fd = wish_of(in, ECHO, 0);

	trips_over("request", fd, rounds);
	close(fd);
}

static void bytes(const struct sockaddr_in *in, uint32_t mib)
{
	static const struct {
		const char *name;
		uint32_t what;
	} ways[] = { { "push", PUSH }, { "pull", PULL } };

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		const int fd = wish_of(in, ways[i].what, mib);
		const uint64_t start = now_ns();
		char done;

		/* The clock stops when the last byte is read, on whichever side that is. */
		if (ways[i].what == PUSH) {
			send_mib(fd, mib);
			CHECK(fetch(fd, &done, 1));
		} else {
			CHECK(take_mib(fd, mib));
		}
		printf("%s %.3f\n", ways[i].name,
		       (double)mib * MB * 1000 / (double)(now_ns() - start));
		fflush(stdout);
		close(fd);
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	struct sockaddr_in in;

	if (strcmp(how, "trips") == 0) {
		trips(arg_number(argc, argv, 2, 1000));
	} else if (strcmp(how, "idle") == 0) {
		idle(arg_number(argc, argv, 2, 10000), arg_number(argc, argv, 3, 1000),
		     arg_number(argc, argv, 4, 3));
	} else if (strcmp(how, "serve") == 0 && argc > 2) {
		serve(argv[2], arg_number(argc, argv, 3, 0));
	} else if (argc > 3) {
		in = name_of(argv[2], arg_number(argc, argv, 3, 0));
		if (strcmp(how, "asks") == 0)
			asks(&in, arg_number(argc, argv, 4, 1000));
		else
			bytes(&in, (uint32_t)arg_number(argc, argv, 4, 16));
	} else {
		die("usage: see the top of sockops.c");
	}
	return 0;
}
