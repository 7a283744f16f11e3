/* SPDX-License-Identifier: MIT */
/*
 * AF_UNIX sockets with names: paths, abstract names, listening, connecting, datagrams, descriptors
 * and credentials that travel, options, timeouts. Prints the same on both.
 */
#include "call.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>

static char dir[] = "/tmp/unixes.XXXXXX";
static char buf[4096];

static void events(const char *what, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT | POLLPRI | POLLRDHUP };

	CHECK(poll(&p, 1, 0) >= 0);
	printf("%s: %#x\n", what, p.revents);
}

static socklen_t name_of(struct sockaddr_un *un, const char *name)
{
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	if (*name == '@') {
		snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "%s.%d", name + 1,
			 (int)getpid());
		return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				   strlen(un->sun_path + 1));
	}
	if (*name == '/')
		snprintf(un->sun_path, sizeof(un->sun_path), "%s", name);
	else
		snprintf(un->sun_path, sizeof(un->sun_path), "%s/%s", dir, name);
	return sizeof(*un);
}

static int bind_to(int fd, const char *name)
{
	struct sockaddr_un un;
	const socklen_t len = name_of(&un, name);

	return bind(fd, (struct sockaddr *)&un, len);
}

static int connect_to(int fd, const char *name)
{
	struct sockaddr_un un;
	const socklen_t len = name_of(&un, name);

	return connect(fd, (struct sockaddr *)&un, len);
}

static void show_name(const char *what, int ret, const struct sockaddr_un *un, socklen_t len)
{
	const char *slash = strrchr(un->sun_path, '/');

	call(what, ret);
	if (ret < 0)
		return;
	if (len <= 2)
		printf("  unnamed, %d\n", (int)len);
	else if (un->sun_path[0])
		printf("  path %s, %d more\n", slash ? slash : un->sun_path,
		       (int)(len - offsetof(struct sockaddr_un, sun_path) - strlen(un->sun_path)));
	else
		printf("  abstract\n");
}

static void names(int fd)
{
	struct sockaddr_un un;
	socklen_t len = sizeof(un);

	memset(&un, 0, sizeof(un));
	show_name("own", getsockname(fd, (struct sockaddr *)&un, &len), &un, len);
	len = sizeof(un);
	memset(&un, 0, sizeof(un));
	show_name("peer", getpeername(fd, (struct sockaddr *)&un, &len), &un, len);
}

static int make(int type)
{
	const int fd = socket(AF_UNIX, type, 0);

	CHECK(fd >= 0);
	return fd;
}

static void making(void)
{
	call("type 0", socket(AF_UNIX, 0, 0));
	call("type 9", socket(AF_UNIX, 9, 0));
	call("type 11", socket(AF_UNIX, 11, 0));
	call("rdm", socket(AF_UNIX, SOCK_RDM, 0));
	call("protocol", socket(AF_UNIX, SOCK_STREAM, 5));
	call("family 99", socket(99, SOCK_STREAM, 0));
	call("flags", socket(AF_UNIX, SOCK_STREAM | 0x100000, 0));
	call("bad", bind(-1, NULL, 0));
	call("no socket", bind_to(1, "x"));
	call("listen on none", listen(1, 5));
}

static void binding(int type)
{
	struct sockaddr_un un;
	struct stat st;
	int a = make(type), b = make(type);

	name_of(&un, "a");
	call("short", bind(a, (struct sockaddr *)&un, 1));
	call("long", bind(a, (struct sockaddr *)&un, sizeof(un) + 1));
	un.sun_family = AF_INET;
	call("family", bind(a, (struct sockaddr *)&un, sizeof(un)));
	call("nowhere", bind_to(a, "/nowhere/at/all"));
	call("connect to none", connect_to(a, "a"));
	call("bind", bind_to(a, "a"));
	call("again", bind_to(a, "b"));
	call("same", bind_to(b, "a"));
	names(a);
	name_of(&un, "a");
	CHECK(stat(un.sun_path, &st) == 0);
	printf("mode %o\n", st.st_mode);
	call("open", open(un.sun_path, O_RDWR));
	call("connect", connect_to(b, "a"));
	call("unlink", unlink(un.sun_path));
	call("connect to removed", connect_to(b, "a"));
	close(a);
	a = make(type);
	call("abstract", bind_to(a, "@abs"));
	call("abstract again", bind_to(b, "@abs"));
	names(a);
	close(a);
	call("when closed", bind_to(b, "@abs"));
	close(b);
	a = make(type);
	un.sun_family = AF_UNIX;
	call("any", bind(a, (struct sockaddr *)&un, 2));
	names(a);
	close(a);
	CHECK(close(open(un.sun_path, O_CREAT | O_WRONLY, 0600)) == 0);
	a = make(type);
	call("on a file", bind_to(a, "a"));
	call("to a file", connect_to(a, "a"));
	unlink(un.sun_path);
	close(a);
}

static void listening(int type)
{
	struct sockaddr_un un;
	socklen_t len = sizeof(un);
	int l = make(type), c = make(type), d = make(SOCK_DGRAM), s, err;

	call("listen unbound", listen(l, 5));
	call("accept unbound", accept(l, NULL, NULL));
	call("send unconnected", send(c, "x", 1, MSG_NOSIGNAL));
	call("receive unconnected", recv(c, buf, 1, 0));
	events("new", c);
	call("bind", bind_to(l, "l"));
	call("connect early", connect_to(c, "l"));
	call("listen", listen(l, 1));
	events("listening", l);
	call("wrong type", connect_to(d, "l"));
	CHECK(fcntl(l, F_SETFL, O_NONBLOCK) == 0);
	call("accept none", accept(l, NULL, NULL));
	call("connect", connect_to(c, "l"));
	call("connect again", connect_to(c, "l"));
	events("to accept", l);
	events("connected", c);
	names(c);
	call("send early", send(c, "early", 5, 0));
	memset(&un, 0, sizeof(un));
	s = accept(l, (struct sockaddr *)&un, &len);
	show_name("accept", s >= 0 ? 0 : -1, &un, len);
	names(s);
	printf("flags %#x\n", fcntl(s, F_GETFL));
	call("receive", recv(s, buf, 10, 0));
	call("answer", send(s, "answer", 6, 0));
	call("receive", recv(c, buf, 10, 0));
	call("listen on it", listen(s, 1));
	len = sizeof(err);
	call("is listening", getsockopt(l, SOL_SOCKET, SO_ACCEPTCONN, &err, &len));
	printf("%d\n", err);
	call("send to a listener", send(l, "x", 1, MSG_NOSIGNAL));
	close(s);
	close(c);
	/* A backlog of 1 takes two. */
	int many[4];
	for (int i = 0; i < 4; i++) {
		many[i] = socket(AF_UNIX, type | SOCK_NONBLOCK, 0);
		call("one of many", connect_to(many[i], "l"));
	}
	close(l);
	call("of a closed listener", recv(many[0], buf, 1, 0));
	call("once more", recv(many[0], buf, 1, 0));
	events("of a closed listener", many[1]);
	for (int i = 0; i < 4; i++)
		close(many[i]);
	name_of(&un, "l");
	call("connect when closed", connect_to(d, "l"));
	unlink(un.sun_path);
	close(d);
}

static void datagrams(void)
{
	struct sockaddr_un un;
	socklen_t len = sizeof(un);
	int a = make(SOCK_DGRAM), b = make(SOCK_DGRAM), c = make(SOCK_DGRAM);

	call("listen", listen(a, 1));
	call("accept", accept(a, NULL, NULL));
	call("send", send(a, "x", 1, 0));
	call("bind", bind_to(a, "@da"));
	len = name_of(&un, "@da");
	call("send to", sendto(b, "hello", 5, 0, (struct sockaddr *)&un, len));
	len = sizeof(un);
	memset(&un, 0, sizeof(un));
	call("from", recvfrom(a, buf, 10, 0, (struct sockaddr *)&un, &len));
	printf("length %d\n", (int)len);
	call("bind", bind_to(b, "@db"));
	call("connect", connect_to(b, "@da"));
	call("send", send(b, "named", 5, 0));
	len = sizeof(un);
	memset(&un, 0, sizeof(un));
	show_name("from", (int)recvfrom(a, buf, 10, 0, (struct sockaddr *)&un, &len) - 5, &un, len);
	call("connect back", connect_to(a, "@db"));
	call("third", connect_to(c, "@da"));
	len = name_of(&un, "@da");
	call("third sends", sendto(c, "x", 1, 0, (struct sockaddr *)&un, len));
	call("to itself", connect_to(c, "@dc"));
	close(a);
	call("to a closed one", send(b, "x", 1, 0));
	call("again", send(b, "x", 1, 0));
	un.sun_family = AF_UNSPEC;
	call("disconnect", connect(b, (struct sockaddr *)&un, sizeof(un)));
	close(b);
	close(c);
}

/* --- descriptors and credentials ----------------------------------------------------- */

static ssize_t send_fds(int to, const int *fds, int nr, int type, size_t len)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * 300)];
		struct cmsghdr align;
	} control = { { 0 } };
	struct iovec iov = { "f", 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control };
	struct cmsghdr *c = &control.align;

	m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)nr);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = type;
	c->cmsg_len = len ? len : CMSG_LEN(sizeof(int) * (size_t)nr);
	memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)nr);
	return sendmsg(to, &m, MSG_DONTWAIT);
}

/* Descriptors that came, into fds[]. */
static int recv_fds(int from, int *fds, size_t room, int flags)
{
	union {
		char bytes[512];
		struct cmsghdr align;
	} control = { { 0 } };
	struct iovec iov = { buf, 100 };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = room
	};
	ssize_t n = recvmsg(from, &m, flags | MSG_DONTWAIT);
	int nr = 0;

	call("received", n);
	if (n < 0)
		return 0;
	printf("flags %#x control %d", m.msg_flags, (int)m.msg_controllen);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		printf(" [%d %d %d]", c->cmsg_level, c->cmsg_type, (int)c->cmsg_len);
		if (c->cmsg_type == SCM_RIGHTS) {
			nr = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(fds, CMSG_DATA(c), (size_t)nr * sizeof(int));
		} else if (c->cmsg_type == SCM_CREDENTIALS) {
			struct ucred cred;

			memcpy(&cred, CMSG_DATA(c), sizeof(cred));
			printf(" own %d %d %d", cred.pid == getpid(), cred.uid == getuid(),
			       cred.gid == getgid());
		}
	}
	printf(" fds %d\n", nr);
	return nr;
}

static void descriptors(int type)
{
	int p[2], s[2], fds[300], got[300], nr;

	CHECK(pipe(p) == 0);
	CHECK(socketpair(AF_UNIX, type, 0, s) == 0);
	call("send one", send_fds(s[0], p, 1, SCM_RIGHTS, 0));
	call("peek", recv_fds(s[1], got, 64, MSG_PEEK));
	close(got[0]);
	nr = recv_fds(s[1], got, 64, MSG_CMSG_CLOEXEC);
	CHECK(nr == 1);
	printf("cloexec %d\n", fcntl(got[0], F_GETFD));
	call("write", write(p[1], "through", 7));
	call("read", read(got[0], buf, 100));
	close(got[0]);
	fds[0] = p[0];
	fds[1] = 777;
	call("send a bad one", send_fds(s[0], fds, 2, SCM_RIGHTS, 0));
	for (int i = 0; i < 300; i++)
		fds[i] = p[i & 1];
	call("send 3", send_fds(s[0], fds, 3, SCM_RIGHTS, 0));
	nr = recv_fds(s[1], got, CMSG_LEN(8), 0);
	while (nr > 0)
		close(got[--nr]);
	call("send 254", send_fds(s[0], fds, 254, SCM_RIGHTS, 0));
	call("send 4", send_fds(s[0], fds, 4, SCM_RIGHTS, 0));
	recv_fds(s[1], got, 0, 0);
	call("of length 3", send_fds(s[0], fds, 1, SCM_RIGHTS, 3));
	call("of a kind", send_fds(s[0], fds, 1, 77, 0));
	call("two", send_fds(s[0], fds, 2, SCM_RIGHTS, 0));
	call("plain", send(s[0], "plain", 5, 0));
	call("third", send_fds(s[0], fds, 1, SCM_RIGHTS, 0));
	nr = recv_fds(s[1], got, 64, 0);
	while (nr > 0)
		close(got[--nr]);
	nr = recv_fds(s[1], got, 64, 0);
	while (nr > 0)
		close(got[--nr]);
	/* The write end lies in a queue that goes: the reader sees the end. */
	call("write end", send_fds(s[0], p + 1, 1, SCM_RIGHTS, 0));
	call("itself", send_fds(s[0], s, 2, SCM_RIGHTS, 0));
	close(s[0]);
	close(p[1]);
	CHECK(fcntl(p[0], F_SETFL, O_NONBLOCK) == 0);
	call("still open", read(p[0], buf, 1));
	close(s[1]);
	close(make(SOCK_STREAM));
	for (int i = 0; i < 500 && read(p[0], buf, 1) < 0; i++)
		usleep(1000);
	call("closed", read(p[0], buf, 1));
	close(p[0]);
}

static void credentials(int type)
{
	struct ucred cred = { .pid = getpid(), .uid = getuid(), .gid = getgid() };
	int s[2], on = 1, got[4];
	socklen_t len = sizeof(on);

	CHECK(socketpair(AF_UNIX, type, 0, s) == 0);
	call("pass", setsockopt(s[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)));
	call("passes", getsockopt(s[1], SOL_SOCKET, SO_PASSCRED, &on, &len));
	printf("%d\n", on);
	call("send", send(s[0], "x", 1, 0));
	recv_fds(s[1], got, 64, 0);
	call("own", send_fds(s[0], (int *)&cred, 3, SCM_CREDENTIALS, 0));
	recv_fds(s[1], got, 64, 0);
	call("short", send_fds(s[0], (int *)&cred, 2, SCM_CREDENTIALS, 0));
	recv_fds(s[1], got, 10, 0);
	close(s[0]);
	close(s[1]);
}

/* --- options and waiting ------------------------------------------------------------- */

static void options(void)
{
	static const int ints[] = { SO_DEBUG,     SO_REUSEADDR,  SO_TYPE,     SO_ERROR,
				    SO_DONTROUTE, SO_BROADCAST,  SO_SNDBUF,   SO_RCVBUF,
				    SO_KEEPALIVE, SO_OOBINLINE,  SO_PRIORITY, SO_RCVLOWAT,
				    SO_SNDLOWAT,  SO_ACCEPTCONN, SO_PROTOCOL, SO_DOMAIN,
				    SO_TIMESTAMP, SO_MARK };
	int fd = make(SOCK_STREAM), value;
	struct linger linger = { 1, 7 };
	struct timeval tv = { 1, 1000000 };
	struct ucred cred;
	socklen_t len;

	for (size_t i = 0; i < sizeof(ints) / sizeof(ints[0]); i++) {
		len = sizeof(value);
		value = -1;
		printf("option %d: %d", ints[i], getsockopt(fd, SOL_SOCKET, ints[i], &value, &len));
		printf(" %d of %d\n", value, (int)len);
	}
	for (int i = 0; i < 3; i++) {
		value = i ? 1 << (8 * i) : 0;
		CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, sizeof(value)) == 0);
		len = sizeof(value);
		CHECK(getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, &len) == 0);
		printf("buffer %d\n", value);
	}
	call("linger", setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	len = sizeof(linger);
	memset(&linger, 0, sizeof(linger));
	call("linger", getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &len));
	printf("%d %d\n", linger.l_onoff, linger.l_linger);
	call("timeout", setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	tv.tv_usec = 500000;
	call("timeout", setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	memset(&tv, 0, sizeof(tv));
	len = sizeof(tv);
	call("timeout", getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, &len));
	printf("%ld %ld\n", (long)tv.tv_sec, (long)tv.tv_usec);
	call("short", setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, 8));
	call("type", setsockopt(fd, SOL_SOCKET, SO_TYPE, &value, sizeof(value)));
	call("no such", setsockopt(fd, SOL_SOCKET, 9999, &value, sizeof(value)));
	call("no such", getsockopt(fd, SOL_SOCKET, 9999, &value, &len));
	call("level", setsockopt(fd, 17, 1, &value, sizeof(value)));
	len = sizeof(cred);
	call("peer", getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len));
	printf("%d %d %d\n", cred.pid, (int)cred.uid, (int)cred.gid);
	close(fd);
}

static void on_alarm(int signo)
{
	(void)signo;
}

static void waiting(int type)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct timeval tv = { 0, 20000 };
	struct itimerval it = { .it_value = { 0, 20000 } };
	int s[2], l = make(type);

	CHECK(socketpair(AF_UNIX, type, 0, s) == 0);
	CHECK(setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) == 0);
	call("times out", recv(s[0], buf, 1, 0));
	tv = (struct timeval){ 5, 0 };
	CHECK(setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) == 0);
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
	call("is not restarted", recv(s[0], buf, 1, 0));
	tv = (struct timeval){ 0, 20000 };
	CHECK(setsockopt(s[0], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) == 0);
	while (send(s[0], buf, 1000, 0) > 0)
		;
	printf("full: %s\n", strerrorname_np(errno));
	CHECK(bind_to(l, "@wait") == 0);
	if (type != SOCK_DGRAM) {
		CHECK(listen(l, 0) == 0);
		CHECK(setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) == 0);
		call("accept", accept(l, NULL, NULL));
	}
	close(l);
	close(s[0]);
	close(s[1]);
}

/* A server and clients in processes of their own; the backlog makes them wait. */
static void serving(int type)
{
	const int clients = 8, rounds = 20;
	int l = make(type), status, sum = 0;

	CHECK(bind_to(l, "serve") == 0);
	CHECK(listen(l, 1) == 0);
	fflush(stdout);
	for (int i = 0; i < clients; i++) {
		if (fork())
			continue;
		for (int r = 0; r < rounds; r++) {
			int fd = make(type), n = r;
			struct sockaddr_un un;

			name_of(&un, "serve");
			CHECK(connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0);
			CHECK(send(fd, &n, sizeof(n), 0) == sizeof(n));
			CHECK(recv(fd, &n, sizeof(n), MSG_WAITALL) == sizeof(n));
			CHECK(n == r + 1);
			close(fd);
		}
		_exit(0);
	}
	for (int i = 0; i < clients * rounds; i++) {
		int fd = accept(l, NULL, NULL), n;

		CHECK(fd >= 0);
		CHECK(recv(fd, &n, sizeof(n), MSG_WAITALL) == sizeof(n));
		sum += n;
		n++;
		CHECK(send(fd, &n, sizeof(n), 0) == sizeof(n));
		close(fd);
	}
	for (int i = 0; i < clients; i++) {
		CHECK(wait(&status) > 0);
		CHECK(status == 0);
	}
	printf("served %d\n", sum);
	close(l);
	snprintf(buf, sizeof(buf), "%s/serve", dir);
	unlink(buf);
}

static void peer_of(const char *what, int fd, pid_t parent)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	CHECK(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0);
	printf("%s: the %s, %d %d\n", what,
	       cred.pid == parent     ? "parent"
	       : cred.pid == getpid() ? "process itself"
				      : "child",
	       (int)cred.uid, (int)cred.gid);
}

/* The identity is that of connect() and of listen(), not of the sockets' later users. */
static void peers(int type)
{
	const pid_t parent = getpid();
	struct sockaddr_un un;
	const socklen_t len = name_of(&un, "@peers");
	int l = make(type), c, s[2], status;

	CHECK(bind(l, (struct sockaddr *)&un, len) == 0);
	CHECK(listen(l, 1) == 0);
	CHECK(socketpair(AF_UNIX, type, 0, s) == 0);
	fflush(stdout);
	if (!fork()) {
		CHECK(setresgid(77, 77, 77) == 0 && setresuid(66, 66, 66) == 0);
		peer_of("a pair made before", s[0], parent);
		close(s[0]);
		close(s[1]);
		CHECK(socketpair(AF_UNIX, type, 0, s) == 0);
		peer_of("a pair", s[0], parent);
		c = make(type);
		peer_of("not connected", c, parent);
		CHECK(connect(c, (struct sockaddr *)&un, len) == 0);
		peer_of("who listens", c, parent);
		CHECK(recv(c, buf, 1, 0) == 1);
		_exit(0);
	}
	c = accept(l, NULL, NULL);
	CHECK(c >= 0);
	CHECK(send(c, "x", 1, 0) == 1);
	CHECK(wait(&status) > 0);
	CHECK(status == 0);
	peer_of("who connected", c, parent);
	close(c);
	close(l);
	close(s[0]);
	close(s[1]);
}

static void many_messages(int type)
{
	struct mmsghdr v[4];
	struct iovec iov[4];
	struct timespec ts = { 1, 0 };
	char data[4][8];
	int s[2];

	CHECK(socketpair(AF_UNIX, type, 0, s) == 0);
	memset(v, 0, sizeof(v));
	for (int i = 0; i < 4; i++) {
		snprintf(data[i], sizeof(data[i]), "%.*s", i + 1, "abcdef");
		iov[i] = (struct iovec){ data[i], (size_t)i + 1 };
		v[i].msg_hdr.msg_iov = &iov[i];
		v[i].msg_hdr.msg_iovlen = 1;
	}
	call("sendmmsg", sendmmsg(s[0], v, 4, 0));
	printf("lengths %u %u %u %u\n", v[0].msg_len, v[1].msg_len, v[2].msg_len, v[3].msg_len);
	for (int i = 0; i < 4; i++)
		iov[i].iov_len = 2;
	call("recvmmsg", recvmmsg(s[1], v, 3, MSG_WAITFORONE, &ts));
	for (int i = 0; i < 3; i++)
		printf("%u %.2s %#x\n", v[i].msg_len, data[i], v[i].msg_hdr.msg_flags);
	call("the rest", recvmmsg(s[1], v, 4, MSG_DONTWAIT, NULL));
	call("none", recvmmsg(s[1], v, 4, MSG_DONTWAIT, NULL));
	close(s[0]);
	close(s[1]);
}

int main(void)
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(mkdtemp(dir));
	making();
	for (int i = 0; i < 3; i++) {
		printf("--- %d\n", types[i]);
		binding(types[i]);
		if (types[i] != SOCK_DGRAM) {
			listening(types[i]);
			serving(types[i]);
			peers(types[i]);
		}
		descriptors(types[i]);
		credentials(types[i]);
		waiting(types[i]);
		many_messages(types[i]);
	}
	datagrams();
	options();
	CHECK(rmdir(dir) == 0);
	return 0;
}
