/* SPDX-License-Identifier: MIT */
/*
 * /proc/net: the lines of this program's own sockets, with ports by their order and inodes left
 * out, so that they are the same on both.
 */
#include "call.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define MAX 16

static struct {
	unsigned long ino;
	unsigned int port;
	const char *name;
} mine[MAX];
static int nr_mine;
static char text[1 << 20];
static char long_path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];

/* Remember @fd as @name, with its port, which is bound by now. */
static int own(int fd, const char *name)
{
	struct sockaddr_in6 a = { 0 };
	socklen_t len = sizeof(a);
	struct stat st;

	CHECK(fd >= 0 && fstat(fd, &st) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&a, &len) == 0);
	mine[nr_mine].ino = st.st_ino;
	mine[nr_mine].port = ntohs(a.sin6_port);
	mine[nr_mine++].name = name;
	return fd;
}

static const char *name_of_port(unsigned int port)
{
	for (int i = 0; i < nr_mine; i++) {
		if (mine[i].port == port)
			return mine[i].name;
	}
	return port ? "another" : "none";
}

static char *slurp(const char *path)
{
	FILE *f = fopen(path, "r");
	size_t n;

	CHECK(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	CHECK(n < sizeof(text) - 1);
	text[n] = '\0';
	fclose(f);
	return text;
}

/* The lines of @path about our sockets of AF_INET and AF_INET6, in the order of their making. */
static void ports(const char *path)
{
	char *at, *next, *lines[MAX] = { NULL };

	printf("--- %s\n", path);
	for (at = slurp(path); (next = strchr(at, '\n')); at = next + 1) {
		char local[40], remote[40], queues[20], timer[20];
		unsigned int lport, rport, state, uid;
		unsigned long ino;
		int used, sl, length;

		*next = '\0';
		if (at == text) {
			printf("'%s'\n", at);
			continue;
		}
		used = sscanf(at, "%d: %39[^:]:%x %39[^:]:%x %x %19s %19s %*s %u %*s %lu", &sl,
			      local, &lport, remote, &rport, &state, queues, timer, &uid, &ino);
		CHECK(used == 10);
		/* Not padded: less the inode; the timers of a connection have any length. */
		length = (int)strlen(at);
		if (strlen(local) > 8)
			length = state == 1 ? 0 : length - snprintf(NULL, 0, "%lu", ino);
		for (int i = 0; i < nr_mine; i++) {
			if (mine[i].ino == ino)
				CHECK(asprintf(
					      &lines[i],
					      "%s: %s %s, %s %s, state %02x, %s, uid %u, length %d",
					      mine[i].name, local, name_of_port(lport), remote,
					      name_of_port(rport), state, queues, uid, length) > 0);
		}
	}
	for (int i = 0; i < nr_mine; i++) {
		if (lines[i])
			puts(lines[i]);
	}
}

static void unixes(void)
{
	char *at, *next, *lines[MAX] = { NULL };

	printf("--- unix\n");
	for (at = slurp("/proc/net/unix"); (next = strchr(at, '\n')); at = next + 1) {
		unsigned int flags, type, state, protocol;
		unsigned long ino;
		int rest = 0;

		*next = '\0';
		if (at == text) {
			printf("'%s'\n", at);
			continue;
		}
		CHECK(sscanf(at, "%*[^:]: %*x %x %x %x %x %lu%n", &protocol, &flags, &type, &state,
			     &ino, &rest) == 5);
		for (int i = 0; i < nr_mine; i++) {
			if (mine[i].ino == ino)
				CHECK(asprintf(&lines[i], "%s: %x %08x %04x %02x '%s'",
					       mine[i].name, protocol, flags, type, state,
					       at + rest) > 0);
		}
	}
	for (int i = 0; i < nr_mine; i++) {
		if (lines[i])
			puts(lines[i]);
	}
}

static int inet_socket(int family, int type, const char *name)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_addr = in6addr_any };
	const int fd = socket(family, type, 0);

	if (family == AF_INET)
		CHECK(bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	else
		CHECK(bind(fd, (struct sockaddr *)&a6, sizeof(a6)) == 0);
	return own(fd, name);
}

static int connected(int to, int type, const char *name)
{
	struct sockaddr_in6 a = { 0 };
	socklen_t len = sizeof(a);
	int fd;

	CHECK(getsockname(to, (struct sockaddr *)&a, &len) == 0);
	if (len == sizeof(a))
		a.sin6_addr = in6addr_loopback;
	fd = socket(a.sin6_family, type, 0);
	CHECK(connect(fd, (struct sockaddr *)&a, len) == 0);
	return own(fd, name);
}

static void make_internet(void)
{
	const int l = inet_socket(AF_INET, SOCK_STREAM, "listener");
	const int l6 = inet_socket(AF_INET6, SOCK_STREAM, "listener6");
	const int u = inet_socket(AF_INET, SOCK_DGRAM, "datagram");
	const int u6 = inet_socket(AF_INET6, SOCK_DGRAM, "datagram6");
	int c, s;

	inet_socket(AF_INET, SOCK_STREAM, "only bound");
	CHECK(listen(l, 5) == 0 && listen(l6, 5) == 0);
	c = connected(l, SOCK_STREAM, "client");
	s = own(accept(l, NULL, NULL), "server");
	CHECK(c >= 0 && s >= 0);
	CHECK(send(c, "12345", 5, 0) == 5);
	connected(l6, SOCK_STREAM, "client6");
	own(accept(l6, NULL, NULL), "server6");
	connected(l, SOCK_STREAM, "waiting");
	connected(u, SOCK_DGRAM, "sender");
	connected(u6, SOCK_DGRAM, "sender6");
}

static void make_unix(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	const socklen_t len = offsetof(struct sockaddr_un, sun_path) + 9;
	int l = socket(AF_UNIX, SOCK_STREAM, 0), p[2];

	nr_mine = 0;
	memcpy(un.sun_path, "\0net\0file", 9);
	CHECK(bind(l, (struct sockaddr *)&un, len) == 0 && listen(l, 1) == 0);
	own(l, "listener");
	l = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(connect(l, (struct sockaddr *)&un, len) == 0);
	own(l, "client");
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, p) == 0);
	own(p[0], "one");
	own(p[1], "other");
	own(socket(AF_UNIX, SOCK_DGRAM, 0), "datagram");
	l = socket(AF_UNIX, SOCK_DGRAM, 0);
	strcpy(un.sun_path, "/tmp/netfiles.socket");
	unlink(un.sun_path);
	CHECK(bind(l, (struct sockaddr *)&un, sizeof(un)) == 0);
	own(l, "path");
	l = socket(AF_UNIX, SOCK_DGRAM, 0);
	memset(long_path, 'x', sizeof(long_path) - 1);
	memcpy(long_path, "/tmp/", 5);
	memcpy(un.sun_path, long_path, sizeof(un.sun_path));
	unlink(long_path);
	CHECK(bind(l, (struct sockaddr *)&un, sizeof(un)) == 0);
	own(l, "path of full length");
}

/* The first @head lines of @path, and @columns of those with @word in them. */
static void lines_with(const char *path, int head, const char *word, int columns)
{
	char *at, *next;
	int nr = 0;

	printf("--- %s\n", path);
	for (at = slurp(path); (next = strchr(at, '\n')); at = next + 1) {
		*next = '\0';
		if (nr++ < head)
			printf("'%s'\n", at);
		else if (strstr(at, word))
			printf("'%.*s'\n", columns, at);
	}
}

int main(void)
{
	make_internet();
	ports("/proc/net/tcp");
	ports("/proc/net/tcp6");
	ports("/proc/net/udp");
	ports("/proc/self/net/udp6");
	make_unix();
	unixes();
	CHECK(unlink("/tmp/netfiles.socket") == 0 && unlink(long_path) == 0);
	lines_with("/proc/net/dev", 2, "lo:", 7);
	lines_with("/proc/net/route", 1, "no such", 0);
	lines_with("/proc/net/if_inet6", 0, " lo", 60);
	slurp("/proc/net/sockstat");
	puts(strncmp(text, "sockets: used ", 14) ? text : "sockstat");
	CHECK(readlink("/proc/net", text, sizeof(text)) == 8);
	printf("%.8s\n", text);
	return 0;
}
