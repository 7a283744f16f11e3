/* SPDX-License-Identifier: MIT */
/*
 * Multicast on the loopback: groups joined by each form of the call, filters by source, options,
 * errors, and which sockets get a datagram. Prints the same on both.
 */
#include "call.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#define GROUP "239.1.2.3"

static char buf[100];

static struct sockaddr_in name_of(const char *host, int port)
{
	struct sockaddr_in in = { .sin_family = AF_INET };

	in.sin_port = htons((unsigned short)port);
	CHECK(inet_pton(AF_INET, host, &in.sin_addr) == 1);
	return in;
}

static int make(const char *host, int port)
{
	const struct sockaddr_in in = name_of(host, port);
	const int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1;

	CHECK(fd >= 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0);
	CHECK(bind(fd, (const void *)&in, sizeof(in)) == 0);
	return fd;
}

static int port_of(int fd)
{
	struct sockaddr_in in;
	socklen_t len = sizeof(in);

	CHECK(getsockname(fd, (void *)&in, &len) == 0);
	return ntohs(in.sin_port);
}

/* One that sends by the loopback. */
static int speaker(void)
{
	const int fd = make("0.0.0.0", 0);
	const struct in_addr lo = name_of("127.0.0.1", 0).sin_addr;

	CHECK(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &lo, sizeof(lo)) == 0);
	return fd;
}

static int member(int fd, int option, const char *group, const char *by)
{
	struct ip_mreq r;

	r.imr_multiaddr = name_of(group, 0).sin_addr;
	r.imr_interface = name_of(by, 0).sin_addr;
	return setsockopt(fd, IPPROTO_IP, option, &r, sizeof(r));
}

static int source(int fd, int option, const char *from)
{
	struct ip_mreq_source r;

	r.imr_multiaddr = name_of(GROUP, 0).sin_addr;
	r.imr_interface = name_of("127.0.0.1", 0).sin_addr;
	r.imr_sourceaddr = name_of(from, 0).sin_addr;
	return setsockopt(fd, IPPROTO_IP, option, &r, sizeof(r));
}

static int by_index(int fd, int option, const char *group, unsigned int index)
{
	struct group_req r = { .gr_interface = index };
	const struct sockaddr_in in = name_of(group, 0);

	memcpy(&r.gr_group, &in, sizeof(in));
	return setsockopt(fd, IPPROTO_IP, option, &r, sizeof(r));
}

static int say(int fd, const char *group, int port, const char *text)
{
	const struct sockaddr_in in = name_of(group, port);

	return (int)sendto(fd, text, strlen(text), 0, (const void *)&in, sizeof(in));
}

static void hear(const char *who, int fd)
{
	struct sockaddr_in from = { 0 };
	socklen_t len = sizeof(from);
	char text[INET_ADDRSTRLEN] = "?";
	const ssize_t n = recvfrom(fd, buf, sizeof(buf), MSG_DONTWAIT, (void *)&from, &len);

	if (n < 0) {
		call(who, n);
		return;
	}
	inet_ntop(AF_INET, &from.sin_addr, text, sizeof(text));
	printf("%s: %.*s from %s\n", who, (int)n, buf, text);
}

static void membership(void)
{
	const int a = make("0.0.0.0", 0), b = make(GROUP, port_of(a)), s = speaker();
	const int other = make("127.0.0.1", port_of(a)), off = 0, on = 1;

	call("nobody", say(s, GROUP, port_of(a), "nobody"));
	hear("a", a);
	call("join", member(a, IP_ADD_MEMBERSHIP, GROUP, "127.0.0.1"));
	call("again", member(a, IP_ADD_MEMBERSHIP, GROUP, "127.0.0.1"));
	call("no group", member(a, IP_ADD_MEMBERSHIP, "127.0.0.1", "127.0.0.1"));
	call("no interface", member(a, IP_ADD_MEMBERSHIP, GROUP, "192.0.2.77"));
	call("short", setsockopt(a, IPPROTO_IP, IP_ADD_MEMBERSHIP, buf, 7));
	call("say", say(s, GROUP, port_of(a), "one"));
	hear("a", a);
	hear("b", b);
	hear("other", other);
	call("alone", setsockopt(b, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off)));
	call("say", say(s, GROUP, port_of(a), "two"));
	hear("a", a);
	hear("b", b);
	call("by index", by_index(b, MCAST_JOIN_GROUP, GROUP, 1));
	call("say", say(s, GROUP, port_of(a), "three"));
	hear("a", a);
	hear("b", b);
	call("leave", member(a, IP_DROP_MEMBERSHIP, GROUP, "127.0.0.1"));
	call("leave again", member(a, IP_DROP_MEMBERSHIP, GROUP, "127.0.0.1"));
	call("say", say(s, GROUP, port_of(a), "four"));
	hear("a", a);
	hear("b", b);
	call("no such", by_index(b, MCAST_JOIN_GROUP, GROUP, 9999));
	call("leave", by_index(b, MCAST_LEAVE_GROUP, GROUP, 1));
	call("not joined", by_index(b, MCAST_LEAVE_GROUP, GROUP, 1));
	call("say", say(s, GROUP, port_of(a), "five"));
	hear("a", a);
	/* All are in this one, everywhere. */
	call("say", say(s, "224.0.0.1", port_of(a), "six"));
	hear("a", a);
	/* The loopback brings it back whatever the sender says. */
	CHECK(member(a, IP_ADD_MEMBERSHIP, GROUP, "127.0.0.1") == 0);
	CHECK(setsockopt(s, IPPROTO_IP, IP_MULTICAST_LOOP, &off, sizeof(off)) == 0);
	call("say", say(s, GROUP, port_of(a), "seven"));
	hear("a", a);
	CHECK(setsockopt(s, IPPROTO_IP, IP_MULTICAST_LOOP, &on, sizeof(on)) == 0);
	close(a);
	close(b);
	close(other);
	close(s);
}

static void sources(void)
{
	const int a = make("0.0.0.0", 0), s = speaker();

	call("no member", source(a, IP_BLOCK_SOURCE, "127.0.0.1"));
	call("join", member(a, IP_ADD_MEMBERSHIP, GROUP, "127.0.0.1"));
	call("unblock", source(a, IP_UNBLOCK_SOURCE, "127.0.0.1"));
	call("block", source(a, IP_BLOCK_SOURCE, "127.0.0.1"));
	call("block", source(a, IP_BLOCK_SOURCE, "127.0.0.1"));
	call("say", say(s, GROUP, port_of(a), "blocked"));
	hear("a", a);
	call("other kind", source(a, IP_ADD_SOURCE_MEMBERSHIP, "127.0.0.1"));
	call("unblock", source(a, IP_UNBLOCK_SOURCE, "127.0.0.1"));
	call("say", say(s, GROUP, port_of(a), "free"));
	hear("a", a);
	call("other kind", source(a, IP_ADD_SOURCE_MEMBERSHIP, "127.0.0.1"));
	call("leave", member(a, IP_DROP_MEMBERSHIP, GROUP, "127.0.0.1"));
	call("join", member(a, IP_ADD_MEMBERSHIP, GROUP, "127.0.0.1"));
	for (int i = 1; i <= 11; i++) {
		snprintf(buf, sizeof(buf), "192.0.2.%d", i);
		call("add", source(a, IP_ADD_SOURCE_MEMBERSHIP, buf));
	}
	call("say", say(s, GROUP, port_of(a), "from others"));
	hear("a", a);
	call("drop", source(a, IP_DROP_SOURCE_MEMBERSHIP, "192.0.2.1"));
	call("drop", source(a, IP_DROP_SOURCE_MEMBERSHIP, "192.0.2.1"));
	call("add", source(a, IP_ADD_SOURCE_MEMBERSHIP, "127.0.0.1"));
	call("say", say(s, GROUP, port_of(a), "from me"));
	hear("a", a);
	for (int i = 2; i <= 10; i++) {
		snprintf(buf, sizeof(buf), "192.0.2.%d", i);
		call("drop", source(a, IP_DROP_SOURCE_MEMBERSHIP, buf));
	}
	call("drop the last", source(a, IP_DROP_SOURCE_MEMBERSHIP, "127.0.0.1"));
	call("no member", source(a, IP_DROP_SOURCE_MEMBERSHIP, "127.0.0.1"));
	call("join to hear one", source(a, IP_ADD_SOURCE_MEMBERSHIP, "127.0.0.1"));
	call("leave", member(a, IP_DROP_MEMBERSHIP, GROUP, "127.0.0.1"));
	close(a);
	close(s);
}

static void options(int type)
{
	static const int numbers[] = { 0, 1, 255, 256, -1, -2 };
	const int fd = socket(AF_INET, type, 0);
	struct in_addr in = name_of("127.0.0.1", 0).sin_addr;
	socklen_t len = sizeof(in);
	struct ip_mreqn by = { .imr_ifindex = 1 };
	int value;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		call("ttl", setsockopt(fd, IPPROTO_IP, IP_TTL, &numbers[i], sizeof(int)));
		if (type == SOCK_STREAM)
			continue;
		call("group ttl",
		     setsockopt(fd, IPPROTO_IP, IP_MULTICAST_TTL, &numbers[i], sizeof(int)));
		CHECK(getsockopt(fd, IPPROTO_IP, IP_MULTICAST_TTL, &value, &len) == 0);
		printf("%d\n", value);
	}
	call("interface", setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &in, sizeof(in)));
	in.s_addr = 0;
	call("which", getsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &in, &len));
	printf("%s\n", inet_ntoa(in));
	call("by index", setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof(by)));
	call("which", getsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &in, &len));
	printf("%s\n", inet_ntoa(in));
	by.imr_ifindex = 9999;
	call("none", setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof(by)));
	call("short", setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &by, 3));
	call("join", member(fd, IP_ADD_MEMBERSHIP, GROUP, "127.0.0.1"));
	call("join by index", by_index(fd, MCAST_JOIN_GROUP, "239.1.2.4", 1));
	close(fd);
}

static void six(void)
{
	const int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	struct ipv6_mreq r = { .ipv6mr_interface = 1 };
	unsigned int index = 1, got = 9;
	socklen_t len = sizeof(got);

	call("interface", setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &index, sizeof(index)));
	call("which", getsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &got, &len));
	printf("%u\n", got);
	index = 9999;
	call("none", setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &index, sizeof(index)));
	call("no group", setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &r, sizeof(r)));
	CHECK(inet_pton(AF_INET6, "ff05::1234", &r.ipv6mr_multiaddr) == 1);
	call("leave", setsockopt(fd, IPPROTO_IPV6, IPV6_DROP_MEMBERSHIP, &r, sizeof(r)));
	call("join", setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &r, sizeof(r)));
	call("again", setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &r, sizeof(r)));
	call("short", setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &r, sizeof(r) - 1));
	call("leave", setsockopt(fd, IPPROTO_IPV6, IPV6_DROP_MEMBERSHIP, &r, sizeof(r)));
	close(fd);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	membership();
	sources();
	options(SOCK_DGRAM);
	options(SOCK_STREAM);
	six();
	return 0;
}
