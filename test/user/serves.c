/* SPDX-License-Identifier: MIT */
/*
 * Servers for peers outside of the machine, each on one port:
 *	serves udp PORT N: sends N datagrams back to where they came from
 *	serves late PORT BACKLOG N: lets connections wait until a byte comes on stdin; then echoes
 *		N, one after the other
 *	serves own HOST PORT: from the address that leads to HOST to that address: inside
 *	serves asks HOST PORT: a connected UDP socket asks, and prints the answer
 */
#include "call.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

static char buf[70000];

static struct sockaddr_in name_of(const char *host, int port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((unsigned short)port) };

	CHECK(inet_pton(AF_INET, host, &in.sin_addr) == 1);
	return in;
}

static int bound(int type, const char *host, int port)
{
	const struct sockaddr_in in = name_of(host, port);
	const int fd = socket(AF_INET, type, 0);

	CHECK(fd >= 0);
	CHECK(!bind(fd, (const void *)&in, sizeof(in)));
	return fd;
}

static void ready(void)
{
	printf("ready\n");
	fflush(stdout);
}

static int serve_udp(int port, int nr)
{
	const int fd = bound(SOCK_DGRAM, "0.0.0.0", port);
	size_t total = 0;

	ready();
	for (int i = 0; i < nr; i++) {
		struct sockaddr_in from;
		socklen_t len = sizeof(from);
		const ssize_t n = recvfrom(fd, buf, sizeof(buf), 0, (void *)&from, &len);

		CHECK(n >= 0 && len == sizeof(from));
		CHECK(sendto(fd, buf, (size_t)n, 0, (void *)&from, len) == n);
		total += (size_t)n;
	}
	printf("%zu bytes\n", total);
	return 0;
}

static int serve_late(int port, int backlog, int nr)
{
	const int l = bound(SOCK_STREAM, "0.0.0.0", port);
	struct pollfd p = { .fd = l, .events = POLLIN };
	char byte;

	CHECK(!listen(l, backlog));
	CHECK(poll(&p, 1, 0) == 0);
	ready();
	CHECK(read(0, &byte, 1) == 1);
	for (int i = 0; i < nr; i++) {
		struct sockaddr_in from, to;
		socklen_t len = sizeof(from);
		const int fd = accept(l, (void *)&from, &len);
		ssize_t n;

		CHECK(fd >= 0 && from.sin_port);
		CHECK(!getsockname(fd, (void *)&to, &len));
		CHECK(ntohs(to.sin_port) == port && to.sin_addr.s_addr != INADDR_ANY);
		while ((n = read(fd, buf, sizeof(buf))) > 0)
			CHECK(write(fd, buf, (size_t)n) == n);
		CHECK(!n);
		close(fd);
	}
	close(l);
	printf("%d served\n", nr);
	return 0;
}

/* The address of ours that datagrams to @host carry; waits until there is one. */
static struct in_addr own_address(const char *host)
{
	const struct sockaddr_in to = name_of(host, 9);
	const int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in own;
	socklen_t len = sizeof(own);

	while (connect(fd, (const void *)&to, sizeof(to))) {
		CHECK(errno == ENETUNREACH);
		poll(NULL, 0, 50);
	}
	CHECK(!getsockname(fd, (void *)&own, &len));
	close(fd);
	return own.sin_addr;
}

static int serve_own(const char *host, int port)
{
	char text[INET_ADDRSTRLEN];
	struct sockaddr_in to, peer;
	socklen_t len = sizeof(peer);
	int a, b, l;

	to = name_of(host, port);
	to.sin_addr = own_address(host);
	CHECK(inet_ntop(AF_INET, &to.sin_addr, text, sizeof(text)));
	l = bound(SOCK_STREAM, text, port);
	CHECK(!listen(l, 1));
	a = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!connect(a, (void *)&to, sizeof(to)));
	b = accept(l, (void *)&peer, &len);
	CHECK(b >= 0 && write(a, "in", 2) == 2 && read(b, buf, 9) == 2);
	printf("%s: peer %s\n", text, inet_ntoa(peer.sin_addr));
	a = bound(SOCK_STREAM, "127.0.0.1", 0);
	to = name_of(host, 9);
	printf("from loopback: %s\n", connect(a, (void *)&to, sizeof(to)) ? strerror(errno) : "0");
	printf("not ours: ");
	to = name_of("10.9.8.7", 0);
	a = socket(AF_INET, SOCK_STREAM, 0);
	printf("%s\n", bind(a, (void *)&to, sizeof(to)) ? strerror(errno) : "0");
	return 0;
}

static int ask(const char *host, int port)
{
	const struct sockaddr_in to = name_of(host, port);
	const int fd = socket(AF_INET, SOCK_DGRAM, 0);
	ssize_t n;

	own_address(host);
	CHECK(!connect(fd, (const void *)&to, sizeof(to)));
	CHECK(send(fd, "question", 8, 0) == 8);
	n = recv(fd, buf, sizeof(buf), 0);
	CHECK(n >= 0);
	printf("%.*s\n", (int)n, buf);
	return 0;
}

int main(int argc, char **argv)
{
	CHECK(argc >= 4);
	if (!strcmp(argv[1], "udp"))
		return serve_udp(atoi(argv[2]), atoi(argv[3]));
	if (!strcmp(argv[1], "own"))
		return serve_own(argv[2], atoi(argv[3]));
	if (!strcmp(argv[1], "asks"))
		return ask(argv[2], atoi(argv[3]));
	CHECK(argc == 5 && !strcmp(argv[1], "late"));
	return serve_late(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
}
