/* SPDX-License-Identifier: MIT */
/*
 * Sockets where something ends: descriptors, rights to a path, ports. Prints the same on both.
 *	socklimits: at EMFILE; paths as another user; many messages in one call over TCP and UDP
 *	socklimits ports: takes every port of the system's choice; not for a machine that others use
 *		(`unshare -n`, with lo up and perhaps fewer ports, shows what Linux says)
 */
#include "call.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define MOST 40000

static char dir[] = "/tmp/socklimits.XXXXXX";
static int taken[MOST];

static int make(int family, int type)
{
	const int fd = socket(family, type, 0);

	CHECK(fd >= 0);
	return fd;
}

static struct sockaddr_in loopback(int port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons((unsigned short)port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static int bind_any(int fd)
{
	const struct sockaddr_in in = loopback(0);

	return bind(fd, (const void *)&in, sizeof(in));
}

static struct sockaddr_in name_of(int fd)
{
	struct sockaddr_in in;
	socklen_t len = sizeof(in);

	CHECK(getsockname(fd, (void *)&in, &len) == 0);
	return in;
}

static int connect_to(int fd, int to)
{
	const struct sockaddr_in in = name_of(to);

	return connect(fd, (const void *)&in, sizeof(in));
}

static int listening(void)
{
	const int fd = make(AF_INET, SOCK_STREAM);

	CHECK(bind_any(fd) == 0 && listen(fd, 5) == 0);
	return fd;
}

/* --- descriptors --------------------------------------------------------------------------- */

/* Take descriptors until @left are free; how many those were. */
static int fill(int left)
{
	int nr = 0;

	while ((taken[nr] = dup(0)) >= 0)
		nr++;
	CHECK(errno == EMFILE && nr >= left);
	while (left--)
		close(taken[--nr]);
	return nr;
}

static void give_back(int nr)
{
	while (nr)
		close(taken[--nr]);
}

static void accepting(void)
{
	const int l = listening(), c = make(AF_INET, SOCK_STREAM);
	char byte = 0;
	int nr, s;

	CHECK(fcntl(l, F_SETFL, O_NONBLOCK) == 0);
	nr = fill(0);
	call("accept none", accept(l, NULL, NULL));
	CHECK(connect_to(c, l) == 0);
	CHECK(send(c, "x", 1, 0) == 1);
	call("accept", accept(l, NULL, NULL));
	call("and again", accept4(l, NULL, NULL, SOCK_CLOEXEC));
	call("socket", socket(AF_INET, SOCK_DGRAM, 0));
	give_back(nr);
	/* The connection still waits, with what it has brought. */
	s = accept(l, NULL, NULL);
	CHECK(s >= 0);
	call("receive", recv(s, &byte, 1, 0));
	close(s);
	call("its end", recv(c, &byte, 1, 0));
	close(c);
	close(l);
}

static void pairs(void)
{
	int pair[2] = { -7, -7 }, nr = fill(1);

	call("pair with room for one", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	printf("%d %d\n", pair[0], pair[1]);
	call("that is free still", pair[0] = dup(0));
	give_back(nr);
	close(pair[0]);
}

static void send_fds(int fd, const int *what, int nr)
{
	char room[CMSG_SPACE(4 * sizeof(int))] = "", byte = 'd';
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = room,
			    .msg_controllen = CMSG_SPACE((size_t)nr * sizeof(int)) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN((size_t)nr * sizeof(int));
	memcpy(CMSG_DATA(c), what, (size_t)nr * sizeof(int));
	CHECK(sendmsg(fd, &m, 0) == 1);
}

/* Prints what has come; the descriptors are closed. */
static void receive_fds(const char *what, int fd, int flags)
{
	char room[CMSG_SPACE(4 * sizeof(int))] = "", byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = room,
			    .msg_controllen = sizeof(room) };
	const struct cmsghdr *c;
	int fds[4], nr = 0;

	call(what, recvmsg(fd, &m, flags));
	c = CMSG_FIRSTHDR(&m);
	if (c) {
		nr = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), (size_t)nr * sizeof(int));
	}
	printf("  %d descriptors, flags %#x, control %zu\n", nr, m.msg_flags,
	       (size_t)m.msg_controllen);
	for (int i = 0; i < nr; i++)
		CHECK(close(fds[i]) == 0);
}

static void rights(int type)
{
	int pair[2], pipes[2], copies[3], nr;
	char byte;

	CHECK(socketpair(AF_UNIX, type, 0, pair) == 0 && pipe(pipes) == 0);
	for (int left = 0; left < 4; left++) {
		for (int i = 0; i < 3; i++)
			CHECK((copies[i] = dup(pipes[1])) >= 0);
		send_fds(pair[0], copies, 3);
		for (int i = 0; i < 3; i++)
			close(copies[i]);
		nr = fill(left);
		receive_fds("peek", pair[1], MSG_PEEK);
		receive_fds("rights", pair[1], 0);
		give_back(nr);
	}
	/* No end of the pipe is left anywhere: neither those that came nor those that did not. */
	close(pipes[1]);
	call("the pipe's end", read(pipes[0], &byte, 1));
	close(pipes[0]);
	close(pair[0]);
	close(pair[1]);
}

/* --- paths as another user ----------------------------------------------------------------- */

static struct sockaddr_un path_of(const char *name)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	snprintf(un.sun_path, sizeof(un.sun_path), "%s/%s", dir, name);
	return un;
}

static void try_all(const char *who, int type)
{
	const struct sockaddr_un un = path_of("l"), own = path_of("own");
	const int fd = make(AF_UNIX, type), other = make(AF_UNIX, type);

	printf("%s:\n", who);
	if (type == SOCK_DGRAM)
		call("send", sendto(fd, "x", 1, 0, (const void *)&un, sizeof(un)));
	call("connect", connect(fd, (const void *)&un, sizeof(un)));
	call("bind", bind(other, (const void *)&own, sizeof(own)));
	call("unlink", unlink(own.sun_path));
	close(fd);
	close(other);
}

static void as_user(int type)
{
	int status;

	fflush(stdout);
	if (!fork()) {
		CHECK(setresgid(1001, 1001, 1001) == 0 && setresuid(1001, 1001, 1001) == 0);
		try_all("user", type);
		_exit(0);
	}
	CHECK(wait(&status) > 0 && status == 0);
}

static void paths(int type)
{
	static const struct {
		int socket, dir;
	} modes[] = { { 0600, 0755 }, { 0604, 0755 }, { 0602, 0755 }, { 0666, 0755 },
		      { 0666, 0700 }, { 0666, 0706 }, { 0666, 0707 }, { 0000, 0777 } };
	const struct sockaddr_un un = path_of("l");
	const int l = make(AF_UNIX, type);

	CHECK(bind(l, (const void *)&un, sizeof(un)) == 0);
	if (type != SOCK_DGRAM)
		CHECK(listen(l, 100) == 0);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		printf("--- %d: %04o in %04o\n", type, modes[i].socket, modes[i].dir);
		CHECK(chmod(un.sun_path, (mode_t)modes[i].socket) == 0);
		CHECK(chmod(dir, (mode_t)modes[i].dir) == 0);
		as_user(type);
	}
	try_all("root", type);
	CHECK(unlink(un.sun_path) == 0);
	close(l);
}

/* --- many messages in one call ------------------------------------------------------------- */

#define NR 4

static void messages(struct mmsghdr *v, struct iovec *iov, char data[NR][8], size_t len)
{
	memset(v, 0, NR * sizeof(*v));
	for (size_t i = 0; i < NR; i++) {
		iov[i] = (struct iovec){ data[i], len ? len : i + 1 };
		v[i].msg_hdr.msg_iov = &iov[i];
		v[i].msg_hdr.msg_iovlen = 1;
	}
}

static void many(const char *what, int from, int to)
{
	struct timespec ts = { 20, 0 };
	struct sockaddr_in names[NR];
	char data[NR][8];
	struct mmsghdr v[NR];
	struct iovec iov[NR];
	int got, all = 0;

	printf("--- %s\n", what);
	for (int i = 0; i < NR; i++)
		memset(data[i], 'a' + i, sizeof(data[i]));
	messages(v, iov, data, 0);
	call("sendmmsg", sendmmsg(from, v, NR, 0));
	printf("lengths %u %u %u %u\n", v[0].msg_len, v[1].msg_len, v[2].msg_len, v[3].msg_len);
	memset(data, 0, sizeof(data));
	messages(v, iov, data, 2);
	for (int i = 0; i < NR; i++) {
		v[i].msg_hdr.msg_name = &names[i];
		v[i].msg_hdr.msg_namelen = sizeof(names[i]);
	}
	got = recvmmsg(to, v, NR, 0, &ts);
	call("recvmmsg", got);
	for (int i = 0; i < got; i++) {
		printf("%u %.2s %#x, %u of a name\n", v[i].msg_len, data[i], v[i].msg_hdr.msg_flags,
		       v[i].msg_hdr.msg_namelen);
		all += (int)v[i].msg_len;
	}
	call("the rest", recvmmsg(to, v, NR, MSG_DONTWAIT, NULL));
	/* An error behind one that went is told with the next call. */
	messages(v, iov, data, 1);
	iov[2].iov_base = (void *)8;
	call("the third is bad", sendmmsg(from, v, NR, MSG_NOSIGNAL));
	call("so is the first", sendmmsg(from, v + 2, 1, MSG_NOSIGNAL));
	call("what went", recvmmsg(to, v, 2, MSG_WAITALL, NULL));
	call("too many", sendmmsg(from, v, 0, 0));
	printf("%d bytes\n", all);
}

static void many_messages(void)
{
	const int u = make(AF_INET, SOCK_DGRAM), v = make(AF_INET, SOCK_DGRAM);
	const int l = listening(), c = make(AF_INET, SOCK_STREAM);
	int s;

	CHECK(bind_any(u) == 0 && bind_any(v) == 0);
	CHECK(connect_to(u, v) == 0);
	many("udp", u, v);
	CHECK(connect_to(c, l) == 0);
	s = accept(l, NULL, NULL);
	CHECK(s >= 0);
	many("tcp", c, s);
	close(s);
	close(c);
	close(l);
	close(u);
	close(v);
}

/* --- ports --------------------------------------------------------------------------------- */

static void ports(int type)
{
	const int target = make(AF_INET, type), late = make(AF_INET, type);
	struct sockaddr_in in;
	int nr = 0, bound, other;

	CHECK(bind_any(target) == 0);
	if (type == SOCK_STREAM)
		CHECK(listen(target, 5) == 0);
	in = name_of(target);
	while (nr < MOST) {
		taken[nr] = make(AF_INET, type);
		if (bind_any(taken[nr]))
			break;
		nr++;
	}
	call("bind", bind_any(taken[nr]));
	printf("after %s\n", nr > 1000 ? "many" : "few");
	if (type == SOCK_STREAM)
		call("listen", listen(taken[nr], 1));
	else
		call("send", sendto(taken[nr], "x", 1, 0, (const void *)&in, sizeof(in)));
	call("connect", connect(late, (const void *)&in, sizeof(in)));
	other = make(AF_INET, type == SOCK_STREAM ? SOCK_DGRAM : SOCK_STREAM);
	call("of the other kind", bind_any(other));
	close(other);
	/* One comes back: it is enough for one. */
	close(taken[--nr]);
	call("connect with one", connect(late, (const void *)&in, sizeof(in)));
	call("bind without", bound = bind_any(taken[nr + 1]));
	CHECK(bound < 0);
	close(late);
	close(taken[nr + 1]);
	while (nr)
		close(taken[--nr]);
	close(target);
}

int main(int argc, char **argv)
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };
	struct rlimit limit = { MOST + 100, MOST + 100 };

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && !strcmp(argv[1], "ports")) {
		if (setrlimit(RLIMIT_NOFILE, &limit)) {
			CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
			limit.rlim_cur = limit.rlim_max;
			CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
		}
		ports(SOCK_STREAM);
		ports(SOCK_DGRAM);
		return 0;
	}
	CHECK(mkdtemp(dir));
	for (int i = 0; i < 3; i++)
		paths(types[i]);
	CHECK(rmdir(dir) == 0);
	many_messages();
	limit.rlim_cur = limit.rlim_max = 24;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	accepting();
	pairs();
	for (int i = 0; i < 3; i++)
		rights(types[i]);
	return 0;
}
