/* SPDX-License-Identifier: MIT */
/*
 * Ancillary data of datagrams on the loopback: what recvmsg() tells of a packet, what sendmsg()
 * says of one, and what is wrong about that; errors of datagrams that nobody gets. Prints the same
 * on both.
 */
#include "call.h"

#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#ifndef IPV6_RECVORIGDSTADDR
# define IPV6_RECVORIGDSTADDR 74
#endif

static char buf[70000];

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

static int make(int family, const char *host)
{
	const int fd = socket(family, SOCK_DGRAM, 0);
	struct sockaddr_storage ss;
	const socklen_t len = name_of(&ss, host, 0);

	CHECK(fd >= 0);
	CHECK(bind(fd, (void *)&ss, len) == 0);
	return fd;
}

static int port_of(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	CHECK(getsockname(fd, (void *)&ss, &len) == 0);
	return ntohs(((struct sockaddr_in *)&ss)->sin_port);
}

static void set(const char *what, int fd, int level, int option, int value)
{
	int got = -1;
	socklen_t len = sizeof(got);

	call(what, setsockopt(fd, level, option, &value, sizeof(value)));
	CHECK(getsockopt(fd, level, option, &got, &len) == 0);
	printf("  is %d\n", got);
}

/* --- what is told */

static void show_name(const char *what, const void *name)
{
	const struct sockaddr_in *in = name;
	const struct sockaddr_in6 *in6 = name;
	char text[64] = "?";

	if (in->sin_family == AF_INET)
		inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
	else if (in->sin_family == AF_INET6)
		inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
	printf("  %s family %d %s port %s", what, in->sin_family, text, in->sin_port ? "set" : "0");
	if (in->sin_family == AF_INET6)
		printf(" scope %u", in6->sin6_scope_id);
	putchar('\n');
}

static void show_error(const struct sock_extended_err *e)
{
	printf("  error %s origin %u type %u code %u info %u data %u\n",
	       strerrorname_np((int)e->ee_errno), e->ee_origin, e->ee_type, e->ee_code, e->ee_info,
	       e->ee_data);
	show_name("offender", SO_EE_OFFENDER(e));
}

static void show_control(struct cmsghdr *c)
{
	const void *data = CMSG_DATA(c);
	char a[64], b[64];

	printf("  level %d type %d of %zu\n", c->cmsg_level, c->cmsg_type,
	       c->cmsg_len - CMSG_LEN(0));
	if (c->cmsg_level == SOL_IP && c->cmsg_type == IP_PKTINFO) {
		const struct in_pktinfo *i = data;

		inet_ntop(AF_INET, &i->ipi_spec_dst, a, sizeof(a));
		inet_ntop(AF_INET, &i->ipi_addr, b, sizeof(b));
		printf("  by %d, %s for %s\n", i->ipi_ifindex, a, b);
	} else if (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
		const struct in6_pktinfo *i = data;

		inet_ntop(AF_INET6, &i->ipi6_addr, a, sizeof(a));
		printf("  by %u, %s\n", i->ipi6_ifindex, a);
	} else if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_ORIGDSTADDR) ||
		   (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVORIGDSTADDR)) {
		show_name("for", data);
	} else if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
		   (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR)) {
		show_error(data);
	} else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type != SO_RXQ_OVFL) {
		const struct timeval *tv = data;

		printf("  a time of %s\n", tv->tv_sec > 1700000000 ? "today" : "long ago");
	} else if (c->cmsg_len - CMSG_LEN(0) == 1) {
		printf("  %d\n", *(const unsigned char *)data);
	} else {
		printf("  %d\n", *(const int *)data);
	}
}

static long receive(const char *what, int fd, size_t room, int flags)
{
	char control[1000] = { 0 };
	struct sockaddr_storage from;
	struct iovec iov = { buf, sizeof(buf) };
	struct msghdr m = { &from, sizeof(from), &iov, 1, control, room, 0 };
	const ssize_t n = recvmsg(fd, &m, flags | MSG_DONTWAIT);

	call(what, n);
	if (n < 0)
		return n;
	printf("  flags %#x\n", m.msg_flags);
	if (m.msg_namelen)
		show_name("from", &from);
	else
		puts("  from none");
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		show_control(c);
	return n;
}

static void settle(int fd, short want)
{
	struct pollfd p = { .fd = fd, .events = want };

	CHECK(poll(&p, 1, 2000) >= 0);
}

/* --- what is said */

struct said {
	struct msghdr m;
	struct iovec iov;
	struct sockaddr_storage to;
	char control[512];
	size_t used;
};

static void begin(struct said *s, const char *host, int port)
{
	memset(s, 0, sizeof(*s));
	s->iov = (struct iovec){ (void *)"hello", 5 };
	s->m.msg_iov = &s->iov;
	s->m.msg_iovlen = 1;
	s->m.msg_name = &s->to;
	s->m.msg_namelen = name_of(&s->to, host, port);
	s->m.msg_control = s->control;
}

static void add(struct said *s, int level, int type, const void *data, size_t len)
{
	struct cmsghdr *c = (void *)(s->control + s->used);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), data, len);
	s->used += CMSG_SPACE(len);
	s->m.msg_controllen = s->used;
}

static void add_int(struct said *s, int level, int type, int value)
{
	add(s, level, type, &value, sizeof(value));
}

static void add_source4(struct said *s, const char *host, int interface)
{
	struct in_pktinfo i = { .ipi_ifindex = interface };

	CHECK(inet_pton(AF_INET, host, &i.ipi_spec_dst) == 1);
	add(s, SOL_IP, IP_PKTINFO, &i, sizeof(i));
}

static void add_source6(struct said *s, const char *host, unsigned int interface)
{
	struct in6_pktinfo i = { .ipi6_ifindex = interface };

	CHECK(inet_pton(AF_INET6, host, &i.ipi6_addr) == 1);
	add(s, SOL_IPV6, IPV6_PKTINFO, &i, sizeof(i));
}

static void plain(int fd, const char *host, int port)
{
	struct said s;

	begin(&s, host, port);
	CHECK(sendmsg(fd, &s.m, 0) == 5);
}

static void tell4(int fd, int on)
{
	set("pktinfo", fd, SOL_IP, IP_PKTINFO, on);
	set("ttl", fd, SOL_IP, IP_RECVTTL, on);
	set("tos", fd, SOL_IP, IP_RECVTOS, on);
	set("destination", fd, SOL_IP, IP_RECVORIGDSTADDR, on);
}

static void tell6(int fd, int on)
{
	set("pktinfo", fd, SOL_IPV6, IPV6_RECVPKTINFO, on);
	set("hops", fd, SOL_IPV6, IPV6_RECVHOPLIMIT, on);
	set("class", fd, SOL_IPV6, IPV6_RECVTCLASS, on);
	set("destination", fd, SOL_IPV6, IPV6_RECVORIGDSTADDR, on);
}

static void got(const char *what, int fd)
{
	settle(fd, POLLIN);
	receive(what, fd, 1000, 0);
}

/* --- IPv4 */

static void told4(void)
{
	const int a = make(AF_INET, "0.0.0.0"), b = make(AF_INET, "127.0.0.1");
	const int port = port_of(a);
	int on = 1;

	puts("told of IPv4");
	call("of IPv6", setsockopt(a, SOL_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on)));
	call("a byte", setsockopt(a, SOL_IP, IP_PKTINFO, &on, 1));
	plain(b, "127.0.0.1", port);
	got("one", a);
	tell4(a, 1);
	plain(b, "127.0.0.1", port);
	got("all", a);
	plain(b, "127.1.2.3", port);
	got("another address", a);
	plain(b, "0.0.0.0", port);
	got("any", a);
	set("ttl", b, SOL_IP, IP_TTL, 9);
	set("tos", b, SOL_IP, IP_TOS, 0x2e);
	plain(b, "127.0.0.1", port);
	got("by options", a);
	set("ttl", b, SOL_IP, IP_TTL, -1);
	set("tos", b, SOL_IP, IP_TOS, 0);
	for (size_t room = 0; room < 130; room += 13) {
		plain(b, "127.0.0.1", port);
		settle(a, POLLIN);
		receive("little room", a, room, 0);
	}
	plain(b, "127.0.0.1", port);
	settle(a, POLLIN);
	receive("a look", a, 1000, MSG_PEEK);
	receive("again", a, 1000, 0);
	tell4(a, 0);
	plain(b, "127.0.0.1", port);
	got("none", a);
	close(a);
	close(b);
}

static void said4(void)
{
	const int a = make(AF_INET, "0.0.0.0"), b = make(AF_INET, "0.0.0.0");
	const int port = port_of(a);
	unsigned char byte = 0x10;
	struct said s;

	puts("said of IPv4");
	tell4(a, 1);
	begin(&s, "127.0.0.1", port);
	add_int(&s, SOL_IP, IP_TTL, 3);
	add_int(&s, SOL_IP, IP_TOS, 0xb8);
	call("ttl and tos", sendmsg(b, &s.m, 0));
	got("they", a);
	begin(&s, "127.0.0.1", port);
	add(&s, SOL_IP, IP_TOS, &byte, 1);
	call("a byte", sendmsg(b, &s.m, 0));
	got("it", a);
	begin(&s, "127.0.0.1", port);
	add_source4(&s, "127.0.0.5", 0);
	call("source", sendmsg(b, &s.m, 0));
	got("it", a);
	begin(&s, "127.0.0.1", port);
	add_source4(&s, "0.0.0.0", 1);
	call("interface", sendmsg(b, &s.m, 0));
	got("it", a);
	begin(&s, "127.0.0.1", port);
	add_int(&s, SOL_IPV6, IPV6_HOPLIMIT, 1000);
	add_int(&s, 77, 1, 0);
	call("of others", sendmsg(b, &s.m, 0));
	got("it", a);
	/* Of several calls, the first counts. */
	begin(&s, "127.0.0.1", port);
	add_int(&s, SOL_IP, IP_TTL, 5);
	add_source4(&s, "127.0.0.6", 0);
	call("first", sendmsg(b, &s.m, MSG_MORE));
	begin(&s, "127.0.0.1", port);
	call("second", sendmsg(b, &s.m, 0));
	got("both", a);
	for (int ttl = -1; ttl <= 256; ttl += ttl == 1 ? 254 : 1) {
		begin(&s, "127.0.0.1", port);
		add_int(&s, SOL_IP, IP_TTL, ttl);
		call("a ttl", sendmsg(b, &s.m, 0));
	}
	begin(&s, "127.0.0.1", port);
	add_int(&s, SOL_IP, IP_TOS, 256);
	call("a tos", sendmsg(b, &s.m, 0));
	begin(&s, "127.0.0.1", port);
	add(&s, SOL_IP, IP_TTL, "abc", 3);
	call("short", sendmsg(b, &s.m, 0));
	begin(&s, "127.0.0.1", port);
	add(&s, SOL_IP, IP_PKTINFO, "abcdefgh", 8);
	call("short", sendmsg(b, &s.m, 0));
	begin(&s, "127.0.0.1", port);
	add_int(&s, SOL_IP, 99, 0);
	call("unknown", sendmsg(b, &s.m, 0));
	begin(&s, "127.0.0.1", port);
	add_source4(&s, "0.0.0.0", 7777);
	call("no interface", sendmsg(b, &s.m, 0));
	close(a);
	close(b);
}

/* --- IPv6, and both at once */

static void told6(void)
{
	const int a = make(AF_INET6, "::"), b = make(AF_INET6, "::1"),
		  c = make(AF_INET, "127.0.0.1");
	const int port = port_of(a);

	puts("told of IPv6");
	tell6(a, 1);
	plain(b, "::1", port);
	got("all", a);
	set("hops", b, SOL_IPV6, IPV6_UNICAST_HOPS, 12);
	set("class", b, SOL_IPV6, IPV6_TCLASS, 0x48);
	plain(b, "::1", port);
	got("by options", a);
	set("hops", b, SOL_IPV6, IPV6_UNICAST_HOPS, -1);
	set("class", b, SOL_IPV6, IPV6_TCLASS, -1);
	plain(b, "::1", port);
	got("by default", a);
	plain(c, "127.0.0.1", port);
	got("of IPv4", a);
	tell4(a, 1);
	plain(c, "127.0.0.1", port);
	got("of IPv4", a);
	plain(b, "::1", port);
	got("of IPv6", a);
	tell6(a, 0);
	plain(c, "127.0.0.1", port);
	got("of IPv4", a);
	close(a);
	close(b);
	close(c);
}

static void said6(void)
{
	const int a = make(AF_INET6, "::"), b = make(AF_INET6, "::");
	const int port = port_of(a);
	struct said s;

	puts("said of IPv6");
	tell6(a, 1);
	tell4(a, 1);
	begin(&s, "::1", port);
	add_int(&s, SOL_IPV6, IPV6_HOPLIMIT, 3);
	add_int(&s, SOL_IPV6, IPV6_TCLASS, 0xb8);
	call("hops and class", sendmsg(b, &s.m, 0));
	got("they", a);
	begin(&s, "::1", port);
	add_int(&s, SOL_IPV6, IPV6_HOPLIMIT, -1);
	add_source6(&s, "::1", 1);
	call("default", sendmsg(b, &s.m, 0));
	got("it", a);
	begin(&s, "::ffff:127.0.0.1", port);
	add_int(&s, SOL_IP, IP_TTL, 77);
	add_int(&s, SOL_IPV6, IPV6_HOPLIMIT, 3);
	call("of IPv4", sendmsg(b, &s.m, 0));
	got("it", a);
	begin(&s, "::ffff:127.0.0.1", port);
	add_source6(&s, "::ffff:127.0.0.9", 0);
	call("its source", sendmsg(b, &s.m, 0));
	got("it", a);
	begin(&s, "::ffff:127.0.0.1", port);
	add_source6(&s, "::1", 0);
	call("not its source", sendmsg(b, &s.m, 0));
	begin(&s, "::1", port);
	add_source6(&s, "2001:db8::7", 0);
	call("not ours", sendmsg(b, &s.m, 0));
	begin(&s, "::1", port);
	add_source6(&s, "::", 7777);
	call("no interface", sendmsg(b, &s.m, 0));
	begin(&s, "::1", port);
	add_int(&s, SOL_IPV6, IPV6_HOPLIMIT, 256);
	call("hops", sendmsg(b, &s.m, 0));
	begin(&s, "::1", port);
	add_int(&s, SOL_IPV6, IPV6_TCLASS, -2);
	call("class", sendmsg(b, &s.m, 0));
	begin(&s, "::1", port);
	add_int(&s, SOL_IPV6, 99, 0);
	call("unknown", sendmsg(b, &s.m, 0));
	close(a);
	close(b);
}

/* --- of the socket layer */

static void stamps_and_losses(void)
{
	const int a = make(AF_INET, "127.0.0.1"), b = make(AF_INET, "127.0.0.1");
	const int port = port_of(a);
	int nr = 0, lost = 0;

	puts("stamps and losses");
	set("stamp", a, SOL_SOCKET, SO_TIMESTAMP, 1);
	set("overflow", a, SOL_SOCKET, SO_RXQ_OVFL, 1);
	tell4(a, 1);
	plain(b, "127.0.0.1", port);
	got("both", a);
	set("stamp", a, SOL_SOCKET, SO_TIMESTAMPNS, 1);
	plain(b, "127.0.0.1", port);
	got("finer", a);
	set("stamp", a, SOL_SOCKET, SO_TIMESTAMPNS, 0);
	set("pktinfo", a, SOL_IP, IP_PKTINFO, 0);
	set("ttl", a, SOL_IP, IP_RECVTTL, 0);
	set("tos", a, SOL_IP, IP_RECVTOS, 0);
	set("destination", a, SOL_IP, IP_RECVORIGDSTADDR, 0);
	for (int i = 0; i < 5000; i++)
		plain(b, "127.0.0.1", port);
	while (recv(a, buf, sizeof(buf), MSG_DONTWAIT) >= 0)
		nr++;
	printf("some were lost: %d\n", nr < 5000);
	plain(b, "127.0.0.1", port);
	settle(a, POLLIN);
	{
		char control[100];
		struct iovec iov = { buf, sizeof(buf) };
		struct msghdr m = { NULL, 0, &iov, 1, control, sizeof(control), 0 };
		struct cmsghdr *c;

		CHECK(recvmsg(a, &m, 0) == 5);
		c = CMSG_FIRSTHDR(&m);
		CHECK(c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL);
		memcpy(&lost, CMSG_DATA(c), sizeof(lost));
	}
	printf("all are accounted for: %d\n", nr + lost == 5000);
	close(a);
	close(b);
}

/* --- errors of datagrams that nobody gets */

static void ready(const char *what, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT | POLLPRI };

	CHECK(poll(&p, 1, 0) >= 0);
	printf("%s: %#x\n", what, p.revents);
}

static void error_of(const char *what, int fd)
{
	int err = -1;
	socklen_t len = sizeof(err);

	CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0);
	printf("%s: %s\n", what, strerrorname_np(err) ? strerrorname_np(err) : "none");
}

static int closed_port(int family, const char *host)
{
	const int fd = make(family, host), port = port_of(fd);

	close(fd);
	return port;
}

static void refused(int family, const char *host, const char *to, int level, int option)
{
	const int fd = make(family, host), port = closed_port(family, host);
	struct sockaddr_storage ss;
	const socklen_t len = name_of(&ss, to, port);
	char big[2000] = "big";
	struct iovec iov = { big, 10 };
	struct mmsghdr several[2] = { { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } },
				      { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } } };

	printf("errors of %s\n", to);
	plain(fd, to, port);
	ready("unconnected", fd);
	receive("without", fd, 1000, MSG_ERRQUEUE);
	set("errors", fd, level, option, 1);
	receive("none", fd, 1000, MSG_ERRQUEUE);
	plain(fd, to, port);
	ready("refused", fd);
	receive("its error", fd, 1000, MSG_ERRQUEUE);
	ready("then", fd);
	plain(fd, to, port);
	error_of("pending", fd);
	ready("told", fd);
	receive("in the queue", fd, 1000, MSG_ERRQUEUE);
	plain(fd, to, port);
	call("several", recvmmsg(fd, several, 2, MSG_ERRQUEUE | MSG_DONTWAIT, NULL));
	ready("several", fd);
	plain(fd, to, port);
	call("receive", recv(fd, buf, 10, MSG_DONTWAIT));
	call("receive", recv(fd, buf, 10, MSG_DONTWAIT));
	call("from the queue", recv(fd, buf, 3, MSG_ERRQUEUE | MSG_DONTWAIT));
	plain(fd, to, port);
	call("next", sendto(fd, "x", 1, 0, (void *)&ss, len));
	call("after", sendto(fd, "xy", 2, 0, (void *)&ss, len));
	receive("first", fd, 1000, MSG_ERRQUEUE);
	error_of("second", fd);
	receive("second", fd, 1000, MSG_ERRQUEUE);
	receive("no more", fd, 1000, MSG_ERRQUEUE);
	call("large", sendto(fd, big, sizeof(big), 0, (void *)&ss, len));
	receive("its beginning", fd, 1000, MSG_ERRQUEUE);
	plain(fd, to, port);
	receive("little room", fd, 20, MSG_ERRQUEUE);
	/* With what is told of packets. */
	tell4(fd, 1);
	if (family == AF_INET6)
		tell6(fd, 1);
	plain(fd, to, port);
	receive("the message", fd, 1000, MSG_ERRQUEUE);
	set("class", fd, level, level == SOL_IP ? IP_TOS : IPV6_TCLASS, 0x1c);
	plain(fd, to, port);
	receive("of a class", fd, 1000, MSG_ERRQUEUE);
	plain(fd, to, port);
	set("off", fd, level, option, 0);
	error_of("off", fd);
	ready("off", fd);
	receive("off", fd, 1000, MSG_ERRQUEUE);
	CHECK(connect(fd, (void *)&ss, len) == 0);
	CHECK(send(fd, "x", 1, 0) == 1);
	receive("connected", fd, 1000, MSG_ERRQUEUE);
	call("connected", send(fd, "x", 1, 0));
	set("errors", fd, level, option, 1);
	call("connected", send(fd, "yes, it is", 10, 0));
	receive("connected", fd, 1000, MSG_ERRQUEUE);
	close(fd);
}

/* The queue has an end. */
static void many_errors(void)
{
	const int fd = make(AF_INET, "127.0.0.1"), port = closed_port(AF_INET, "127.0.0.1");
	struct sockaddr_storage ss;
	const socklen_t len = name_of(&ss, "127.0.0.1", port);
	int nr = 0, errors = 0;

	puts("many errors");
	set("errors", fd, SOL_IP, IP_RECVERR, 1);
	for (int i = 0; i < 20000; i++)
		nr += sendto(fd, "x", 1, 0, (void *)&ss, len) == 1;
	while (recv(fd, buf, 10, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0)
		errors++;
	printf("some: %d, not all: %d\n", errors > 10, errors < nr);
	close(fd);
}

int main(void)
{
	told4();
	said4();
	told6();
	said6();
	stamps_and_losses();
	refused(AF_INET, "127.0.0.1", "127.0.0.1", SOL_IP, IP_RECVERR);
	refused(AF_INET6, "::1", "::1", SOL_IPV6, IPV6_RECVERR);
	refused(AF_INET6, "::", "::ffff:127.0.0.1", SOL_IP, IP_RECVERR);
	many_errors();
	return 0;
}
