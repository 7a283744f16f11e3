/* SPDX-License-Identifier: MIT */
/*
 * Two ends of TCP connections through 127.0.0.1, to be run on two processors of a vNode:
 *	across echo PORT: echoes one connection to its end, and prints how many bytes that were
 *	across ask PORT BYTES: sends them in pieces of many sizes, and prints whether they came back
 *	across hold PORT: accepts connections, echoes a byte of each, and keeps them
 *	across wait PORT: has a byte echoed, and prints what then ends the connection
 *	across bind PORT: prints what bind() and listen() say
 */
#include "call.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

static unsigned char buf[300000];

static struct sockaddr_in name_of(int port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons((unsigned short)port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static int listening(int port)
{
	const struct sockaddr_in in = name_of(port);
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	CHECK(!bind(fd, (const void *)&in, sizeof(in)));
	CHECK(!listen(fd, 5));
	printf("ready\n");
	fflush(stdout);
	return fd;
}

static int connected(int port)
{
	const struct sockaddr_in in = name_of(port);
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	CHECK(!connect(fd, (const void *)&in, sizeof(in)));
	CHECK(!getpeername(fd, (void *)&peer, &len));
	CHECK(peer.sin_port == in.sin_port && peer.sin_addr.s_addr == in.sin_addr.s_addr);
	return fd;
}

static void send_all(int fd, const void *data, size_t len)
{
	const unsigned char *at = data;

	while (len) {
		const ssize_t n = send(fd, at, len, 0);

		CHECK(n > 0);
		at += n;
		len -= (size_t)n;
	}
}

static int echo(int port)
{
	const int fd = accept(listening(port), NULL, NULL);
	unsigned long total = 0;
	ssize_t n;

	CHECK(fd >= 0);
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		send_all(fd, buf, (size_t)n);
		total += (unsigned long)n;
	}
	printf("%lu bytes, %s\n", total, n ? strerror(errno) : "the end");
	return 0;
}

static unsigned char byte_at(unsigned long i)
{
	return (unsigned char)(i * 7 + i / 251);
}

static void send_pattern(int fd, unsigned long bytes)
{
	unsigned long at = 0, step = 1;

	while (at < bytes) {
		const unsigned long n = step < bytes - at ? step : bytes - at;

		for (unsigned long i = 0; i < n; i++)
			buf[i] = byte_at(at + i);
		send_all(fd, buf, n);
		at += n;
		step = step * 3 + 1 > sizeof(buf) ? 1 : step * 3 + 1;
	}
	CHECK(!shutdown(fd, SHUT_WR));
}

static int ask(int port, unsigned long bytes)
{
	const int fd = connected(port);
	unsigned long at = 0, wrong = 0;
	const pid_t child = fork();
	ssize_t n;
	int status;

	CHECK(child >= 0);
	if (!child) {
		send_pattern(fd, bytes);
		_exit(0);
	}
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			wrong += buf[i] != byte_at(at + (unsigned long)i);
		at += (unsigned long)n;
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	printf("%lu bytes, %lu wrong, %s\n", at, wrong, n ? strerror(errno) : "the end");
	return 0;
}

static int hold(int port)
{
	const int l = listening(port);

	for (;;) {
		const int fd = accept(l, NULL, NULL);

		CHECK(fd >= 0);
		CHECK(recv(fd, buf, 1, 0) == 1);
		send_all(fd, buf, 1);
	}
}

static int wait_for_end(int port)
{
	const int fd = connected(port);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int error;
	socklen_t len = sizeof(error);

	send_all(fd, "a", 1);
	CHECK(recv(fd, buf, 1, MSG_WAITALL) == 1 && buf[0] == 'a');
	printf("ready\n");
	fflush(stdout);
	CHECK(poll(&p, 1, -1) == 1);
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
	printf("%s: %d %d %d\n", strerror(error), !!(p.revents & POLLIN), !!(p.revents & POLLERR),
	       !!(p.revents & POLLHUP));
	printf("recv %zd, send %zd %s\n", recv(fd, buf, 1, 0), send(fd, buf, 1, MSG_NOSIGNAL),
	       strerror(errno));
	return 0;
}

static int try_bind(int port)
{
	const struct sockaddr_in in = name_of(port);
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (const void *)&in, sizeof(in)))
		printf("bind: %s\n", strerror(errno));
	else if (listen(fd, 5))
		printf("listen: %s\n", strerror(errno));
	else
		printf("listens\n");
	return 0;
}

int main(int argc, char **argv)
{
	const int port = argc > 2 ? atoi(argv[2]) : 0;

	if (argc == 4 && !strcmp(argv[1], "ask"))
		return ask(port, strtoul(argv[3], NULL, 0));
	if (argc != 3)
		return 2;
	if (!strcmp(argv[1], "echo"))
		return echo(port);
	if (!strcmp(argv[1], "hold"))
		return hold(port);
	if (!strcmp(argv[1], "wait"))
		return wait_for_end(port);
	return strcmp(argv[1], "bind") ? 2 : try_bind(port);
}
