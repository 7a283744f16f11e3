/* SPDX-License-Identifier: MIT */
/*
 * Internet sockets over loopback: TCP and UDP, IPv4, IPv6 and both at once; names, ports, backlog,
 * half-close, resets, errors, poll, options, datagrams of several calls. Prints the same on both.
 */
#include "call.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>

static char buf[1 << 20];

static void events(const char *what, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT | POLLPRI | POLLRDHUP };

	CHECK(poll(&p, 1, 0) >= 0);
	printf("%s: %#x\n", what, p.revents);
}

/* Wait until something of @want is there: packets of Linux take their time. */
static void settle(int fd, short want)
{
	struct pollfd p = { .fd = fd, .events = want };

	CHECK(poll(&p, 1, 2000) >= 0);
}

static socklen_t name_of(struct sockaddr_storage *ss, const char *host, int port)
{
	struct sockaddr_in *in = (void *)ss;
	struct sockaddr_in6 *in6 = (void *)ss;

	memset(ss, 0, sizeof(*ss));
	if (inet_pton(AF_INET, host, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons((unsigned short)port);
		return sizeof(*in);
	}
	CHECK(inet_pton(AF_INET6, host, &in6->sin6_addr) == 1);
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons((unsigned short)port);
	return sizeof(*in6);
}

static int bind_to(int fd, const char *host, int port)
{
	struct sockaddr_storage ss;
	const socklen_t len = name_of(&ss, host, port);

	return bind(fd, (void *)&ss, len);
}

static int connect_to(int fd, const char *host, int port)
{
	struct sockaddr_storage ss;
	const socklen_t len = name_of(&ss, host, port);

	return connect(fd, (void *)&ss, len);
}

static int port_of(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	CHECK(getsockname(fd, (void *)&ss, &len) == 0);
	return ntohs(((struct sockaddr_in *)&ss)->sin_port);
}

static void show(const char *what, int ret, const struct sockaddr_storage *ss, socklen_t len)
{
	char text[64] = "?";

	call(what, ret);
	if (ret < 0)
		return;
	if (ss->ss_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)ss)->sin_addr, text, sizeof(text));
	else
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)ss)->sin6_addr, text,
			  sizeof(text));
	printf("  family %d %s of %d, port %s\n", ss->ss_family, text, (int)len,
	       ((const struct sockaddr_in *)ss)->sin_port ? "set" : "0");
}

static void names(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	memset(&ss, 0, sizeof(ss));
	show("own", getsockname(fd, (void *)&ss, &len), &ss, len);
	len = sizeof(ss);
	memset(&ss, 0, sizeof(ss));
	show("peer", getpeername(fd, (void *)&ss, &len), &ss, len);
}

static int make(int family, int type)
{
	const int fd = socket(family, type, 0);

	CHECK(fd >= 0);
	return fd;
}

static void making(void)
{
	static const int families[] = { AF_INET, AF_INET6 };

	for (int i = 0; i < 2; i++) {
		call("stream udp", socket(families[i], SOCK_STREAM, IPPROTO_UDP));
		call("datagram tcp", socket(families[i], SOCK_DGRAM, IPPROTO_TCP));
		call("packet", socket(families[i], SOCK_SEQPACKET, 0));
		call("pair", socketpair(families[i], SOCK_STREAM, 0, (int *)buf));
		close(make(families[i], SOCK_STREAM));
	}
}

/* A listener on a port of the system's choice. */
static int listener(int family, const char *host, int backlog)
{
	const int fd = make(family, SOCK_STREAM);

	CHECK(bind_to(fd, host, 0) == 0);
	CHECK(listen(fd, backlog) == 0);
	return fd;
}

static void connected(int family, const char *host, int fds[2])
{
	const int l = listener(family, host, 5);

	fds[0] = make(family, SOCK_STREAM);
	CHECK(connect_to(fds[0], host, port_of(l)) == 0);
	fds[1] = accept(l, NULL, NULL);
	CHECK(fds[1] >= 0);
	close(l);
}

static void binding(int family, int type, const char *host, const char *any)
{
	struct sockaddr_storage ss;
	int a = make(family, type), b = make(family, type), on = 1, port;

	names(a);
	events("new", a);
	name_of(&ss, host, 0);
	call("short", bind(a, (void *)&ss, 8));
	ss.ss_family = 77;
	call("family", bind(a, (void *)&ss, sizeof(ss)));
	call("not ours", bind_to(a, family == AF_INET ? "192.0.2.1" : "2001:db8::1", 0));
	call("bind", bind_to(a, host, 0));
	names(a);
	port = port_of(a);
	call("again", bind_to(a, host, 0));
	call("same", bind_to(b, host, port));
	call("any", bind_to(b, any, port));
	CHECK(setsockopt(b, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0);
	call("reuse of one", bind_to(b, host, port));
	CHECK(setsockopt(a, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0);
	call("reuse of both", bind_to(b, host, port));
	close(b);
	b = make(family, type);
	CHECK(setsockopt(a, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0);
	CHECK(setsockopt(b, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0);
	call("listen", listen(a, 1));
	call("listen and connect", connect_to(b, host, port));
	close(a);
	close(b);
}

static void tcp(int family, const char *host)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int l = make(family, SOCK_STREAM), c = make(family, SOCK_STREAM), s, n, port;

	signal(SIGPIPE, SIG_IGN);
	call("unconnected send", send(c, "x", 1, 0));
	call("unconnected receive", recv(c, buf, 1, 0));
	call("unconnected shutdown", shutdown(c, SHUT_WR));
	call("accept", accept(l, NULL, NULL));
	CHECK(bind_to(l, host, 0) == 0);
	port = port_of(l);
	call("refused", connect_to(c, host, port));
	call("listen", listen(l, 1));
	events("listening", l);
	call("connect", connect_to(c, host, port));
	call("again", connect_to(c, host, port));
	names(c);
	settle(l, POLLIN);
	events("to accept", l);
	memset(&ss, 0, sizeof(ss));
	s = accept(l, (void *)&ss, &len);
	show("accepted", s < 0 ? -1 : 0, &ss, len);
	names(s);
	events("connected", c);
	call("send", send(c, "hello", 5, 0));
	call("send", send(c, " world", 6, 0));
	settle(s, POLLIN);
	usleep(10000);
	CHECK(ioctl(s, FIONREAD, &n) == 0);
	printf("waiting %d\n", n);
	call("peek", recv(s, buf, 3, MSG_PEEK));
	call("receive", recv(s, buf, 100, 0));
	printf("%.11s\n", buf);
	call("nothing", recv(s, buf, 100, MSG_DONTWAIT));
	call("out of band", recv(s, buf, 1, MSG_OOB));
	call("shutdown", shutdown(c, SHUT_WR));
	settle(s, POLLRDHUP);
	events("half closed", s);
	events("this side", c);
	call("end", recv(s, buf, 100, 0));
	call("send", send(c, "x", 1, 0));
	call("back", send(s, "back", 4, 0));
	call("receive", recv(c, buf, 4, MSG_WAITALL));
	close(s);
	settle(c, POLLRDHUP);
	events("closed", c);
	call("end", recv(c, buf, 4, 0));
	close(c);
	call("shut listener", shutdown(l, SHUT_RD));
	call("accept", accept(l, NULL, NULL));
	close(l);
}

static void resets(int family, const char *host)
{
	struct linger linger = { 1, 0 };
	int fds[2];

	connected(family, host, fds);
	call("send", send(fds[0], "unread", 6, 0));
	settle(fds[1], POLLIN);
	close(fds[1]);
	settle(fds[0], POLLRDHUP);
	events("closed unread", fds[0]);
	call("receive", recv(fds[0], buf, 1, 0));
	call("receive", recv(fds[0], buf, 1, 0));
	call("send", send(fds[0], "x", 1, 0));
	names(fds[0]);
	close(fds[0]);

	connected(family, host, fds);
	close(fds[1]);
	settle(fds[0], POLLRDHUP);
	call("send to closed", send(fds[0], "x", 1, 0));
	usleep(10000);
	events("after", fds[0]);
	call("send again", send(fds[0], "x", 1, 0));
	call("and again", send(fds[0], "x", 1, 0));
	call("receive", recv(fds[0], buf, 1, 0));
	close(fds[0]);

	connected(family, host, fds);
	CHECK(setsockopt(fds[1], SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0);
	close(fds[1]);
	settle(fds[0], POLLRDHUP);
	call("after an abort", recv(fds[0], buf, 1, 0));
	close(fds[0]);
}

static void nonblocking(int family, const char *host)
{
	int l = listener(family, host, 5), c, err;
	const int port = port_of(l);
	socklen_t len = sizeof(err);

	c = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	call("connect", connect_to(c, host, port));
	settle(c, POLLOUT);
	events("connected", c);
	CHECK(getsockopt(c, SOL_SOCKET, SO_ERROR, &err, &len) == 0);
	printf("error %d\n", err);
	call("once more", connect_to(c, host, port));
	call("and again", connect_to(c, host, port));
	close(c);
	close(l);
	c = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	call("connect", connect_to(c, host, port));
	settle(c, POLLOUT);
	events("refused", c);
	CHECK(getsockopt(c, SOL_SOCKET, SO_ERROR, &err, &len) == 0);
	printf("error %d\n", err);
	close(c);
}

/* Several calls make one datagram. */
static void corks(int family, const char *host)
{
	const int a = make(family, SOCK_DGRAM), b = make(family, SOCK_DGRAM);
	struct sockaddr_storage ss;
	socklen_t len, room = sizeof(int);
	int on = 1, off = 0, value = -1;

	CHECK(bind_to(b, host, 0) == 0);
	len = name_of(&ss, host, port_of(b));
	call("no destination", send(a, "x", 1, MSG_MORE));
	call("first", sendto(a, "ab", 2, MSG_MORE, (void *)&ss, len));
	call("more", send(a, "cde", 3, MSG_MORE));
	call("none yet", recv(b, buf, 10, MSG_DONTWAIT));
	call("last", send(a, "f", 1, 0));
	call("all", recv(b, buf, 10, 0));
	printf("%.6s\n", buf);
	call("empty", sendto(a, "", 0, MSG_MORE, (void *)&ss, len));
	call("none yet", recv(b, buf, 10, MSG_DONTWAIT));
	call("last", send(a, "", 0, 0));
	call("all", recv(b, buf, 10, 0));
	call("long", sendto(a, buf, 65000, MSG_MORE, (void *)&ss, len));
	call("too long", send(a, buf, 1000, 0));
	call("dropped", send(a, "x", 1, 0));
	call("none", recv(b, buf, 10, MSG_DONTWAIT));
	CHECK(connect(a, (void *)&ss, len) == 0);
	call("cork", setsockopt(a, IPPROTO_UDP, UDP_CORK, &on, sizeof(on)));
	call("get", getsockopt(a, IPPROTO_UDP, UDP_CORK, &value, &room));
	printf("%d\n", value);
	call("short", setsockopt(a, IPPROTO_UDP, UDP_CORK, &on, 1));
	call("write", write(a, "hello", 5));
	call("write", write(a, " world", 6));
	call("none yet", recv(b, buf, 20, MSG_DONTWAIT));
	call("uncork", setsockopt(a, IPPROTO_UDP, UDP_CORK, &off, sizeof(off)));
	call("all", recv(b, buf, 20, 0));
	call("a stream has none",
	     setsockopt(make(family, SOCK_STREAM), IPPROTO_UDP, UDP_CORK, &on, sizeof(on)));
	close(a);
	close(b);
}

/* Bytes that wait for more; then what makes them arrive, @how. */
static void held(const char *what, int c, int s, void (*how)(int c))
{
	call(what, send(c, "ab", 2, MSG_MORE));
	call("none yet", recv(s, buf, 10, MSG_DONTWAIT));
	how(c);
	memset(buf, 0, 10);
	call("all", recv(s, buf, 10, 0));
	printf("%.10s\n", buf);
}

static void by_more(int c)
{
	call("more", send(c, "c", 1, MSG_MORE));
	call("last", send(c, "d", 1, 0));
}

static void by_nodelay(int c)
{
	const int on = 1, off = 0;

	CHECK(setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
	CHECK(setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &off, sizeof(off)) == 0);
}

static void by_time(int c)
{
	(void)c;
}

static void by_shutdown(int c)
{
	CHECK(shutdown(c, SHUT_WR) == 0);
}

/* The same on a connection. */
static void tcp_corks(int family, const char *host)
{
	const int l = listener(family, host, 5), c = make(family, SOCK_STREAM), on = 1, off = 0;
	size_t got = 0;
	int s;

	CHECK(connect_to(c, host, port_of(l)) == 0);
	s = accept(l, NULL, NULL);
	CHECK(s >= 0);
	held("more", c, s, by_more);
	held("nodelay", c, s, by_nodelay);
	held("time", c, s, by_time);
	CHECK(setsockopt(c, IPPROTO_TCP, TCP_CORK, &on, sizeof(on)) == 0);
	call("write", write(c, "hello", 5));
	call("write", write(c, " you", 4));
	call("none yet", recv(s, buf, 10, MSG_DONTWAIT));
	CHECK(setsockopt(c, IPPROTO_TCP, TCP_CORK, &off, sizeof(off)) == 0);
	call("all", recv(s, buf, 20, 0));
	for (int i = 0; i < 14; i++)
		CHECK(send(c, buf, 5000, MSG_MORE) == 5000);
	while (got < 70000)
		got += (size_t)recv(s, buf, sizeof(buf), 0);
	call("no more than that", recv(s, buf, 10, MSG_DONTWAIT));
	held("end", c, s, by_shutdown);
	call("the end", recv(s, buf, 10, 0));
	close(c);
	close(s);
	close(l);
}

/* --- urgent bytes */

static volatile sig_atomic_t nr_urgent;

static void count_urgent(int signo)
{
	(void)signo;
	nr_urgent++;
}

static void mark(const char *what, int fd)
{
	int at = -1, n = -1;

	CHECK(!ioctl(fd, SIOCATMARK, &at) && !ioctl(fd, FIONREAD, &n));
	printf("%s: at the mark %d, %d bytes, ", what, at, n);
	events("poll", fd);
}

static void take(int fd, int flags)
{
	char b[16] = { 0 };
	const ssize_t n = recv(fd, b, sizeof(b) - 1, flags | MSG_DONTWAIT);

	if (n < 0)
		printf("recv %#x: %s\n", (unsigned)flags, strerror(errno));
	else
		printf("recv %#x: %zd %s\n", (unsigned)flags, n, b);
}

static void send_urgent(int fds[2], const char *text)
{
	const size_t len = strlen(text);
	char b = 0;

	CHECK(send(fds[0], text, len, MSG_OOB) == (ssize_t)len);
	while (recv(fds[1], &b, 1, MSG_OOB | MSG_PEEK) != 1 || b != text[len - 1])
		usleep(1000);
}

static void urgent(int family, const char *host)
{
	struct msghdr m = { 0 };
	struct iovec iov;
	const int on = 1;
	char b[4];
	int fds[2];

	connected(family, host, fds);
	take(fds[1], MSG_OOB);
	mark("nothing", fds[1]);
	send_urgent(fds, "abc");
	mark("abc", fds[1]);
	take(fds[1], MSG_PEEK);
	take(fds[1], MSG_OOB);
	take(fds[1], MSG_OOB);
	take(fds[1], 0);
	mark("ab was read", fds[1]);
	take(fds[1], 0);
	CHECK(send(fds[0], "de", 2, 0) == 2);
	settle(fds[1], POLLIN);
	mark("de", fds[1]);
	take(fds[1], 0);
	mark("de was read", fds[1]);
	/* One that is not received is passed over. */
	send_urgent(fds, "x");
	mark("x", fds[1]);
	CHECK(send(fds[0], "y", 1, 0) == 1);
	settle(fds[1], POLLIN);
	take(fds[1], 0);
	take(fds[1], MSG_OOB);
	/* The next one takes the place of the first, which vanishes at the mark, or is in line. */
	send_urgent(fds, "1");
	send_urgent(fds, "2");
	CHECK(send(fds[0], "3", 1, 0) == 1);
	settle(fds[1], POLLIN);
	take(fds[1], 0);
	CHECK(send(fds[0], "a", 1, 0) == 1);
	send_urgent(fds, "1");
	send_urgent(fds, "2");
	iov = (struct iovec){ b, sizeof(b) };
	m.msg_iov = &iov;
	m.msg_iovlen = 1;
	CHECK(recvmsg(fds[1], &m, MSG_OOB) == 1);
	printf("recvmsg: %c, flags %#x\n", b[0], (unsigned)m.msg_flags);
	take(fds[1], MSG_WAITALL);
	take(fds[1], 0);
	/* In line. */
	CHECK(!setsockopt(fds[1], SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)));
	CHECK(send(fds[0], "pqr", 3, MSG_OOB) == 3);
	settle(fds[1], POLLPRI);
	take(fds[1], MSG_OOB);
	mark("pqr in line", fds[1]);
	take(fds[1], 0);
	mark("pq was read", fds[1]);
	take(fds[1], 0);
	mark("r was read", fds[1]);
	signal(SIGURG, count_urgent);
	CHECK(!fcntl(fds[1], F_SETOWN, getpid()));
	CHECK(send(fds[0], "!", 1, MSG_OOB) == 1);
	while (!nr_urgent)
		usleep(1000);
	printf("SIGURG: %d\n", (int)nr_urgent);
	nr_urgent = 0;
	close(fds[0]);
	close(fds[1]);
}

static void udp(int family, const char *host)
{
	struct sockaddr_storage ss, from;
	socklen_t len;
	int a = make(family, SOCK_DGRAM), b = make(family, SOCK_DGRAM);
	struct timeval tv = { 0, 10000 };

	call("no destination", send(a, "x", 1, 0));
	call("listen", listen(a, 1));
	call("shutdown", shutdown(a, SHUT_RD));
	CHECK(bind_to(b, host, 0) == 0);
	len = name_of(&ss, host, port_of(b));
	call("send", sendto(a, "hello", 5, 0, (void *)&ss, len));
	call("empty", sendto(a, "", 0, 0, (void *)&ss, len));
	call("large", sendto(a, buf, 65507, 0, (void *)&ss, len));
	call("too large", sendto(a, buf, 65536, 0, (void *)&ss, len));
	settle(b, POLLIN);
	len = sizeof(from);
	memset(&from, 0, sizeof(from));
	show("from", recvfrom(b, buf, 3, 0, (void *)&from, &len) - 3, &from, len);
	call("the empty one", recv(b, buf, 10, 0));
	call("the large one", recv(b, buf, 10, MSG_TRUNC));
	call("none", recv(b, buf, 10, MSG_DONTWAIT));
	names(a);
	call("connect", connect(a, (void *)&ss, sizeof(struct sockaddr_in6)));
	names(a);
	call("send", send(a, "x", 1, 0));
	call("receive", recv(b, buf, 10, 0));
	close(b);
	call("to none", send(a, "x", 1, 0));
	usleep(10000);
	events("refused", a);
	call("told", send(a, "x", 1, 0));
	usleep(10000);
	CHECK(setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) == 0);
	call("told", recv(a, buf, 1, 0));
	call("waits", recv(a, buf, 1, 0));
	ss.ss_family = AF_UNSPEC;
	call("disconnect", connect(a, (void *)&ss, sizeof(ss)));
	call("no destination", send(a, "x", 1, 0));
	close(a);
}

/* One IPv6 socket serves both. */
static void both(void)
{
	int l = listener(AF_INET6, "::", 5), c = make(AF_INET, SOCK_STREAM), s, on = 1;
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	call("IPv4 to IPv6", connect_to(c, "127.0.0.1", port_of(l)));
	s = accept(l, (void *)&ss, &len);
	show("from", s < 0 ? -1 : 0, &ss, len);
	names(c);
	close(c);
	c = make(AF_INET, SOCK_STREAM);
	call("the same port", bind_to(c, "0.0.0.0", port_of(l)));
	close(s);
	close(l);
	l = make(AF_INET6, SOCK_STREAM);
	call("only", setsockopt(l, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)));
	CHECK(bind_to(l, "::", 0) == 0);
	CHECK(listen(l, 1) == 0);
	call("now refused", connect_to(c, "127.0.0.1", port_of(l)));
	call("mapped", connect_to(l, "::ffff:127.0.0.1", 1));
	close(l);
	close(c);
}

static void options(int type)
{
	static const int tcp_options[] = { TCP_NODELAY, TCP_KEEPIDLE, TCP_KEEPINTVL,
					   TCP_KEEPCNT, TCP_CORK,     TCP_USER_TIMEOUT };
	int fd = make(AF_INET, type), value;
	socklen_t len;

	for (size_t i = 0; i < sizeof(tcp_options) / sizeof(*tcp_options); i++) {
		value = -1;
		len = sizeof(value);
		call("get", getsockopt(fd, IPPROTO_TCP, tcp_options[i], &value, &len));
		printf("%d\n", value);
		value = 3;
		call("set", setsockopt(fd, IPPROTO_TCP, tcp_options[i], &value, sizeof(value)));
		call("get", getsockopt(fd, IPPROTO_TCP, tcp_options[i], &value, &len));
		printf("%d\n", value);
	}
	value = 0;
	call("idle 0", setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, sizeof(value)));
	call("short", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, 1));
	value = 16;
	call("tos", setsockopt(fd, IPPROTO_IP, IP_TOS, &value, sizeof(value)));
	call("tos", getsockopt(fd, IPPROTO_IP, IP_TOS, &value, &len));
	printf("%d\n", value);
	call("v6", getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &value, &len));
	len = sizeof(value);
	call("protocol", getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &value, &len));
	printf("%d\n", value);
	close(fd);
}

/* One line of TCP_INFO: what does not depend on packets. */
static void info_line(const char *what, int fd, socklen_t room)
{
	struct tcp_info i = { 0 };

	call(what, getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &room));
	printf("  %u bytes, state %d", room, i.tcpi_state);
	if (i.tcpi_state == TCP_LISTEN)
		printf(", %u of %u wait", i.tcpi_unacked, i.tcpi_sacked);
	putchar('\n');
}

static void info(void)
{
	const int l = make(AF_INET, SOCK_STREAM), c = make(AF_INET, SOCK_STREAM);
	const int u = make(AF_INET, SOCK_DGRAM);
	const socklen_t all = sizeof(struct tcp_info);
	char byte;
	int a;

	info_line("idle", c, all);
	info_line("short", c, 3);
	info_line("udp", u, all);
	CHECK(bind_to(l, "127.0.0.1", 0) == 0 && listen(l, 7) == 0);
	CHECK(connect_to(c, "127.0.0.1", port_of(l)) == 0);
	settle(l, POLLIN);
	info_line("listener", l, all);
	a = accept(l, NULL, NULL);
	CHECK(a >= 0);
	info_line("listener", l, all);
	info_line("client", c, all);
	info_line("server", a, all);
	shutdown(c, SHUT_WR);
	CHECK(read(a, &byte, 1) == 0);
	info_line("is to end", a, all);
	close(a);
	close(c);
	close(l);
	close(u);
}

static void bulk(int family, const char *host)
{
	const long total = 8000000;
	long sent = 0, got = 0;
	int fds[2], status;

	connected(family, host, fds);
	fflush(stdout);
	if (!fork()) {
		ssize_t n;

		close(fds[0]);
		while ((n = read(fds[1], buf, 100000)) > 0)
			got += n;
		_exit(n < 0 || write(fds[1], &got, sizeof(got)) != sizeof(got));
	}
	close(fds[1]);
	while (sent < total) {
		const ssize_t n = write(fds[0], buf, 300000);

		CHECK(n > 0);
		sent += n;
	}
	CHECK(shutdown(fds[0], SHUT_WR) == 0);
	CHECK(recv(fds[0], &got, sizeof(got), MSG_WAITALL) == sizeof(got));
	CHECK(wait(&status) > 0);
	printf("all %d, status %d\n", got == sent, status);
	close(fds[0]);
}

/* Clients in processes of their own, more than the backlog takes. */
static void serving(int family, const char *host)
{
	const int clients = 8, rounds = 10;
	int l = listener(family, host, 1), status, sum = 0;
	const int port = port_of(l);

	fflush(stdout);
	for (int i = 0; i < clients; i++) {
		if (fork())
			continue;
		for (int r = 0; r < rounds; r++) {
			int fd = make(family, SOCK_STREAM), n = r;

			CHECK(connect_to(fd, host, port) == 0);
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
		sum += n++;
		CHECK(send(fd, &n, sizeof(n), 0) == sizeof(n));
		close(fd);
	}
	for (int i = 0; i < clients; i++) {
		CHECK(wait(&status) > 0);
		CHECK(status == 0);
	}
	printf("served %d\n", sum);
	close(l);
}

int main(void)
{
	static const char *const hosts[] = { "127.0.0.1", "::1" };
	static const char *const any[] = { "0.0.0.0", "::" };
	static const int families[] = { AF_INET, AF_INET6 };

	setvbuf(stdout, NULL, _IOLBF, 0);
	making();
	for (int i = 0; i < 2; i++) {
		printf("--- %s\n", hosts[i]);
		binding(families[i], SOCK_STREAM, hosts[i], any[i]);
		binding(families[i], SOCK_DGRAM, hosts[i], any[i]);
		tcp(families[i], hosts[i]);
		resets(families[i], hosts[i]);
		nonblocking(families[i], hosts[i]);
		udp(families[i], hosts[i]);
		corks(families[i], hosts[i]);
		tcp_corks(families[i], hosts[i]);
		urgent(families[i], hosts[i]);
		bulk(families[i], hosts[i]);
		serving(families[i], hosts[i]);
	}
	both();
	options(SOCK_STREAM);
	info();
	return 0;
}
