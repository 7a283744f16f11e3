/* SPDX-License-Identifier: MIT */
/*
 * Two ends of connections, to be run on two processors of a vNode. WHERE is a port of 127.0.0.1,
 * for those that connect ADDRESS:PORT as well, or the name of an AF_UNIX socket: a path, or @ and
 * an abstract name.
 *	across echo WHERE: echoes one connection to its end, and prints how many bytes that were
 *	across ask WHERE BYTES: sends them in pieces of many sizes, and prints whether they come
 *		back
 *	across hold WHERE: accepts connections, echoes a byte of each, and keeps them
 *	across serve PORT: echoes each connection to its end, all at the same time
 *	across wait WHERE: has a byte echoed, and prints what then ends the connection
 *	across taken PATH: prints what bind() says
 *	across bind PORT: prints what bind() and listen() say
 *	across packets WHERE: sends packets and datagrams, and prints whether what is echoed has
 *		their borders
 *	across mirror WHERE: echoes the packets of one connection, then datagrams
 *	across udp PORT: echoes datagrams of UDP until an empty one
 *	across asks PORT: sends such, and prints whether they come back, and what a port without a
 *		socket answers
 * With AF_UNIX both ends print who the other one is. echo and hold remove a path that is there.
 */
#include "call.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static unsigned char buf[300000];

static struct sockaddr_in name_of(int port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons((unsigned short)port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static int is_port(const char *where)
{
	return *where >= '0' && *where <= '9';
}

static struct sockaddr_un unix_name(const char *where, socklen_t *len)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", where);
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(where));
	if (*where == '@')
		un.sun_path[0] = '\0';
	else
		(*len)++;
	return un;
}

/* The system says who is at the other end. */
static void tell_peer(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	CHECK(!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len));
	printf("peer %d %d %d\n", (int)cred.pid, (int)cred.uid, (int)cred.gid);
}

static int unix_listening(const char *where, int type)
{
	socklen_t len;
	const struct sockaddr_un un = unix_name(where, &len);
	const int fd = socket(AF_UNIX, type, 0);

	CHECK(fd >= 0);
	unlink(un.sun_path);
	CHECK(!bind(fd, (const void *)&un, len));
	CHECK(!listen(fd, 5));
	printf("ready\n");
	fflush(stdout);
	return fd;
}

static int unix_connected(const char *where, int type)
{
	socklen_t len, got;
	const struct sockaddr_un un = unix_name(where, &len);
	struct sockaddr_un peer;
	const int fd = socket(AF_UNIX, type, 0);

	CHECK(fd >= 0);
	CHECK(!connect(fd, (const void *)&un, len));
	got = sizeof(peer);
	CHECK(!getpeername(fd, (void *)&peer, &got));
	CHECK(got == len && !memcmp(&peer, &un, len));
	tell_peer(fd);
	return fd;
}

static int listening(const char *where)
{
	const struct sockaddr_in in = name_of(atoi(where));
	int fd;

	if (!is_port(where))
		return unix_listening(where, SOCK_STREAM);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0);
	CHECK(!bind(fd, (const void *)&in, sizeof(in)));
	CHECK(!listen(fd, 5));
	printf("ready\n");
	fflush(stdout);
	return fd;
}

static int connected(const char *where)
{
	const char *port = strchr(where, ':');
	struct sockaddr_in peer, in = name_of(atoi(port ? port + 1 : where));
	socklen_t len = sizeof(peer);
	char addr[INET_ADDRSTRLEN];
	int fd;

	if (!is_port(where))
		return unix_connected(where, SOCK_STREAM);
	if (port) {
		snprintf(addr, sizeof(addr), "%.*s", (int)(port - where), where);
		CHECK(inet_pton(AF_INET, addr, &in.sin_addr) == 1);
	}
	fd = socket(AF_INET, SOCK_STREAM, 0);
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

static int echo(const char *where)
{
	const int fd = accept(listening(where), NULL, NULL);
	unsigned long total = 0;
	ssize_t n;

	CHECK(fd >= 0);
	if (!is_port(where))
		tell_peer(fd);
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

static int ask(const char *where, unsigned long bytes)
{
	const int fd = connected(where);
	unsigned long at = 0, wrong = 0;
	ssize_t n;
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
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

static int hold(const char *where)
{
	const int l = listening(where);

	for (;;) {
		const int fd = accept(l, NULL, NULL);

		CHECK(fd >= 0);
		CHECK(recv(fd, buf, 1, 0) == 1);
		send_all(fd, buf, 1);
	}
}

static int serve(const char *where)
{
	const int l = listening(where);

	CHECK(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
	for (;;) {
		const int fd = accept(l, NULL, NULL);
		pid_t child;
		ssize_t n;

		CHECK(fd >= 0);
		child = fork();
		CHECK(child >= 0);
		if (!child) {
			close(l);
			while ((n = recv(fd, buf, sizeof(buf), 0)) > 0 &&
			       send(fd, buf, (size_t)n, MSG_NOSIGNAL) > 0)
				;
			_exit(0);
		}
		close(fd);
	}
}

static int wait_for_end(const char *where)
{
	const int fd = connected(where);
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

/* A datagram socket; its name is @where and @end. */
static int datagrams(const char *where, char end, struct sockaddr_un *un, socklen_t *len)
{
	const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	char text[64];

	CHECK(fd >= 0);
	snprintf(text, sizeof(text), "%s%c", where, end);
	*un = unix_name(text, len);
	return fd;
}

/* Send back what comes, to whoever sent it, until an empty datagram. */
static void mirror_datagrams(int fd)
{
	struct sockaddr_un from;
	socklen_t len = sizeof(from);
	ssize_t n;

	while ((n = recvfrom(fd, buf, sizeof(buf), 0, (void *)&from, &len)) > 0) {
		CHECK(sendto(fd, buf, (size_t)n, 0, (const void *)&from, len) == n);
		len = sizeof(from);
	}
	CHECK(n == 0);
}

static unsigned int ask_datagrams(const char *where)
{
	struct sockaddr_un own, there;
	socklen_t own_len, len;
	const int fd = datagrams(where, 'c', &own, &own_len);
	unsigned int good = 0;

	close(datagrams(where, 'd', &there, &len));
	CHECK(!bind(fd, (const void *)&own, own_len));
	CHECK(!connect(fd, (const void *)&there, len));
	for (size_t n = 1; n < 65000; n = n * 3 + 1) {
		for (size_t i = 0; i < n; i++)
			buf[i] = byte_at(i + n);
		CHECK(send(fd, buf, n, 0) == (ssize_t)n);
		memset(buf, 0, n);
		if (recv(fd, buf, sizeof(buf), 0) == (ssize_t)n && buf[n - 1] == byte_at(2 * n - 1))
			good++;
	}
	CHECK(send(fd, buf, 0, 0) == 0);
	close(fd);
	return good;
}

static int mirror(const char *where)
{
	struct sockaddr_un un;
	socklen_t len;
	const int dg = datagrams(where, 'd', &un, &len);
	ssize_t n;
	int fd;

	CHECK(!bind(dg, (const void *)&un, len));
	fd = accept(unix_listening(where, SOCK_SEQPACKET), NULL, NULL);

	CHECK(fd >= 0);
	tell_peer(fd);
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		CHECK(send(fd, buf, (size_t)n, 0) == n);
	mirror_datagrams(dg);
	printf("%s\n", n ? strerror(errno) : "the end");
	return 0;
}

static int packets(const char *where)
{
	const int fd = unix_connected(where, SOCK_SEQPACKET);
	unsigned int good = 0;

	for (size_t len = 1; len < 150000; len = len * 3 + 1) {
		for (size_t i = 0; i < len; i++)
			buf[i] = byte_at(i + len);
		CHECK(send(fd, buf, len, 0) == (ssize_t)len);
		memset(buf, 0, len);
		if (recv(fd, buf, sizeof(buf), 0) == (ssize_t)len &&
		    buf[len - 1] == byte_at(2 * len - 1))
			good++;
	}
	CHECK(!shutdown(fd, SHUT_WR));
	printf("%u datagrams, ", ask_datagrams(where));
	printf("%u packets, %zd\n", good, recv(fd, buf, sizeof(buf), 0));
	return 0;
}

static int taken(const char *where)
{
	socklen_t len;
	const struct sockaddr_un un = unix_name(where, &len);
	const int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	printf("bind: %s\n", bind(fd, (const void *)&un, len) ? strerror(errno) : "bound");
	return 0;
}

static int udp(int port)
{
	const struct sockaddr_in in = name_of(port);
	const int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	ssize_t n;

	CHECK(fd >= 0);
	CHECK(!bind(fd, (const void *)&in, sizeof(in)));
	printf("ready\n");
	fflush(stdout);
	while ((n = recvfrom(fd, buf, sizeof(buf), 0, (void *)&from, &len)) > 0)
		CHECK(sendto(fd, buf, (size_t)n, 0, (const void *)&from, len) == n);
	printf("%s\n", n ? strerror(errno) : "the end");
	return 0;
}

static int ask_udp(int port)
{
	const struct sockaddr_in in = name_of(port), none = name_of(port + 1);
	const int fd = socket(AF_INET, SOCK_DGRAM, 0);
	unsigned int good = 0;

	CHECK(fd >= 0);
	CHECK(!connect(fd, (const void *)&in, sizeof(in)));
	for (size_t n = 1; n < 60000; n = n * 3 + 1) {
		for (size_t i = 0; i < n; i++)
			buf[i] = byte_at(i + n);
		CHECK(send(fd, buf, n, 0) == (ssize_t)n);
		memset(buf, 0, n);
		if (recv(fd, buf, sizeof(buf), 0) == (ssize_t)n && buf[n - 1] == byte_at(2 * n - 1))
			good++;
	}
	CHECK(send(fd, buf, 0, 0) == 0);
	CHECK(!connect(fd, (const void *)&none, sizeof(none)));
	CHECK(send(fd, "x", 1, 0) == 1);
	CHECK(recv(fd, buf, 1, 0) == -1);
	printf("%u datagrams, then %s\n", good, strerror(errno));
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
	const char *where = argc > 2 ? argv[2] : "";

	if (argc == 4 && !strcmp(argv[1], "ask"))
		return ask(where, strtoul(argv[3], NULL, 0));
	if (argc != 3)
		return 2;
	if (!strcmp(argv[1], "echo"))
		return echo(where);
	if (!strcmp(argv[1], "hold"))
		return hold(where);
	if (!strcmp(argv[1], "serve"))
		return serve(where);
	if (!strcmp(argv[1], "wait"))
		return wait_for_end(where);
	if (!strcmp(argv[1], "mirror"))
		return mirror(where);
	if (!strcmp(argv[1], "packets"))
		return packets(where);
	if (!strcmp(argv[1], "taken"))
		return taken(where);
	if (!strcmp(argv[1], "udp"))
		return udp(atoi(where));
	if (!strcmp(argv[1], "asks"))
		return ask_udp(atoi(where));
	return strcmp(argv[1], "bind") ? 2 : try_bind(atoi(where));
}
