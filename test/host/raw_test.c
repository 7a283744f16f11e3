/* SPDX-License-Identifier: MIT */
/*
 * Raw and ping sockets of a processor with a card: packets out and in, headers that programs
 * write, queues that are full. test/user/raws.c compares the loopback with Linux's.
 */
#include <abi/in.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/socket/ping_range.h>
#include <processor/socket/queue.h>
#include <processor/socket/raw.h>
#include <processor/vfs/uio.h>

#include "gateway_fake.h"
#include "ipc_fake.h"
#include "remote_fake.h"

#define OTHER 253u /* a protocol for experiments */
#define HERE  0x7f000001u
#define CARD  0x0a00020fu
#define PEER  0x0a010101u
#define GROUP 0xe9010203u

static const uint8_t peer[16] = { [10] = 0xff, 0xff, 10, 1, 1, 1 };
static const uint8_t card[16] = { [10] = 0xff, 0xff, 10, 0, 2, 15 };
static const uint8_t loopback[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };

static struct sock_addr name4(uint32_t addr)
{
	struct sock_addr name = address(0);

	name.in.addr = __builtin_bswap32(addr);
	return name;
}

static struct socket *raw(uint32_t protocol)
{
	return socket_create(&raw_ops, AF_INET, SOCK_RAW, protocol);
}

static int set_int(struct socket *s, int level, int option, int val)
{
	return s->ops->setsockopt(s, level, option, &val, sizeof(val));
}

static ssize_t send_to(struct socket *s, uint32_t addr, const void *data, size_t len)
{
	struct socket_msg m = { .addr = name4(addr) };
	struct uio u;

	uio_kernel(&u, (void *)(uintptr_t)data, len);
	m.uio = &u;
	return s->ops->sendmsg(s, &m);
}

static ssize_t next(struct socket *s, uint8_t *buf, size_t len)
{
	struct socket_msg m = { .flags = MSG_DONTWAIT };
	struct uio u;

	uio_kernel(&u, buf, len);
	m.uio = &u;
	return s->ops->recvmsg(s, &m);
}

static void nothing_is_left(struct ktest *t)
{
	EXPECT_EQ(t, outside_open_ports(), 0);
	EXPECT_EQ(t, sock_memory(), 0);
	EXPECT_EQ(t, kmem_count(KMEM_SOCKET_BYTES), 0);
	outside_card(false);
}

/* An echo request or reply of 16 bytes. */
static void echo(uint8_t p[16], uint8_t type, uint16_t id)
{
	memset(p, 0, 16);
	p[0] = type;
	ip_put16(p + 4, id);
	p[7] = 9;
	ip_put16(p + 2, ip_sum_end(ip_sum(p, 16, 0)));
}

/* A packet of IPv4 to the card. */
static size_t packet(uint8_t *b, uint8_t protocol, const uint8_t from[16], const void *data,
		     size_t len)
{
	struct ip_packet p = { .protocol = protocol, .head.ttl = 60 };

	memcpy(p.head.from.addr, from, 16);
	memcpy(p.head.to.addr, card, 16);
	ip4_header_write(b, IP4_HEADER + len, &p);
	memcpy(b + IP4_HEADER, data, len);
	return IP4_HEADER + len;
}

static void says(uint8_t protocol, const uint8_t from[16], const void *data, size_t len)
{
	struct tcpip_packet p = { .interface = TCPIP_FIRST_IF_INDEX, .ttl = 60 };

	memcpy(p.from.addr, from, 16);
	memcpy(p.to.addr, card, 16);
	outside_says_raw(false, protocol, &p, data, len);
}

static void packets_leave_by_the_card(struct ktest *t)
{
	static const uint8_t big[1481];
	struct outside_raw_sent sent;
	struct socket *s, *b;
	struct sock_addr to;
	unsigned int before;

	fake_task(0);
	before = outside_raw_sent().nr;
	outside_card(true);
	s = raw(OTHER);
	b = raw(OTHER);
	EXPECT_EQ(t, outside_open_ports(), 1); /* one for both */
	EXPECT_EQ(t, set_int(s, SOL_IP, IP_TTL, 7), 0);
	EXPECT_EQ(t, set_int(s, SOL_IP, IP_TOS, 8), 0);
	EXPECT_EQ(t, send_to(s, PEER, "hello", 5), 5);
	sent = outside_raw_sent();
	EXPECT_EQ(t, sent.nr, before + 1);
	EXPECT_EQ(t, sent.protocol, OTHER);
	EXPECT_EQ(t, sent.len, 5u);
	EXPECT_EQ(t, memcmp(sent.head, "hello", 5), 0);
	EXPECT_EQ(t, memcmp(sent.packet.from.addr, card, 16), 0);
	EXPECT_EQ(t, memcmp(sent.packet.to.addr, peer, 16), 0);
	EXPECT_TRUE(t, sent.packet.ttl == 7 && sent.packet.tos == 8 && !sent.has_header);
	EXPECT_EQ(t, sent.packet.interface, 0);
	/* The other got no copy, and what is for the card's own address does not leave. */
	EXPECT_EQ(t, next(b, sent.head, 64), -EAGAIN);
	EXPECT_EQ(t, send_to(s, CARD, "hello", 5), 5);
	EXPECT_EQ(t, outside_raw_sent().nr, before + 1);
	EXPECT_EQ(t, next(b, sent.head, 64), 25);
	EXPECT_EQ(t, memcmp(sent.head + 12, card + 12, 4), 0);
	/* Not from the loopback, nor without a way. */
	to = name4(HERE);
	EXPECT_EQ(t, b->ops->bind(b, &to), 0);
	EXPECT_EQ(t, send_to(b, PEER, "hello", 5), -EINVAL);
	EXPECT_EQ(t, send_to(s, 0xc0000001, "hello", 5), -ENETUNREACH);
	EXPECT_EQ(t, send_to(s, 0xffffffff, "hello", 5), -EACCES);
	EXPECT_EQ(t, outside_raw_sent().nr, before + 1);
	socket_drop(b);
	EXPECT_EQ(t, outside_open_ports(), 1);
	/* To a group: by the card, and back to members of it. */
	EXPECT_EQ(t, set_int(s, SOL_IP, IP_MULTICAST_TTL, 3), 0);
	EXPECT_EQ(t, send_to(s, GROUP, "all", 3), 3);
	sent = outside_raw_sent();
	EXPECT_FALSE(t, sent.packet.may_broadcast);
	EXPECT_TRUE(t, sent.nr == before + 2 && sent.packet.interface == TCPIP_FIRST_IF_INDEX &&
			       sent.packet.ttl == 3);
	/* The stack is told whether it may be for all, and no packet is larger than is wished. */
	s->options |= SOCKET_BROADCAST;
	EXPECT_EQ(t, set_int(s, SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO), 0);
	EXPECT_EQ(t, send_to(s, PEER, big, 1481), -EMSGSIZE);
	EXPECT_EQ(t, outside_raw_sent().nr, before + 2);
	EXPECT_EQ(t, send_to(s, PEER, big, 1480), 1480);
	EXPECT_TRUE(t, outside_raw_sent().packet.may_broadcast);
	EXPECT_EQ(t, set_int(s, SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT), 0);
	EXPECT_EQ(t, send_to(s, PEER, big, 1481), 1481);
	/* While another thread connects it, the peer's address may stand here. */
	memcpy(inet_of(s)->local.addr, peer, 16);
	EXPECT_EQ(t, send_to(s, PEER, "hello", 5), -EINVAL);
	EXPECT_EQ(t, outside_raw_sent().nr, before + 4);
	inet_forget_remote(s);
	/* Without a card there is no way outside. */
	outside_card(false);
	EXPECT_EQ(t, send_to(s, PEER, "hello", 5), -ENETUNREACH);
	EXPECT_EQ(t, send_to(s, HERE, "hello", 5), 5);
	socket_drop(s);
	nothing_is_left(t);
}

static void headers_are_checked(struct ktest *t)
{
	struct outside_raw_sent sent;
	uint8_t b[2000] = { 0 };
	struct socket *s;
	size_t n;

	fake_task(0);
	outside_card(true);
	s = raw(IPPROTO_RAW);
	n = packet(b, OTHER, card, "hello", 5);
	memcpy(b + 16, peer + 12, 4);
	ip_put16(b + 2, 1); /* the length is made right */
	EXPECT_EQ(t, send_to(s, PEER, b, n), 25);
	sent = outside_raw_sent();
	EXPECT_TRUE(t, sent.has_header && sent.len == 25);
	EXPECT_EQ(t, sent.head[3], 25);
	EXPECT_EQ(t, ip_sum_end(ip_sum(sent.head, IP4_HEADER, 0)), 0);
	/* No source: the card's. */
	memset(b + 12, 0, 4);
	EXPECT_EQ(t, send_to(s, PEER, b, n), 25);
	sent = outside_raw_sent();
	EXPECT_EQ(t, memcmp(sent.head + 12, card + 12, 4), 0);
	EXPECT_EQ(t, memcmp(sent.packet.from.addr, card, 16), 0);
	/* That of another, the loopback's, and another destination. */
	memcpy(b + 12, "\x0a\x01\x01\x02", 4);
	EXPECT_EQ(t, send_to(s, PEER, b, n), -EPERM);
	memcpy(b + 12, loopback + 12, 4);
	EXPECT_EQ(t, send_to(s, PEER, b, n), -EPERM);
	memset(b + 12, 0, 4);
	EXPECT_EQ(t, send_to(s, PEER + 1, b, n), -EINVAL);
	memcpy(b + 16, loopback + 12, 4);
	memcpy(b + 12, peer + 12, 4);
	EXPECT_EQ(t, send_to(s, HERE, b, n), -EPERM);
	memcpy(b + 12, loopback + 12, 4);
	EXPECT_EQ(t, send_to(s, HERE, b, n), 25);
	b[6] = 0x20; /* a part */
	EXPECT_EQ(t, send_to(s, HERE, b, n), -EINVAL);
	b[6] = 0;
	b[0] = 0x44;
	EXPECT_EQ(t, send_to(s, HERE, b, n), -EINVAL);
	b[0] = 0x65;
	EXPECT_EQ(t, send_to(s, HERE, b, n), -EINVAL);
	b[0] = 0x47;
	EXPECT_EQ(t, send_to(s, HERE, b, n), -EINVAL);
	EXPECT_EQ(t, send_to(s, HERE, b, 0), -EINVAL);
	EXPECT_EQ(t, outside_raw_sent().nr, sent.nr);
	socket_drop(s);
	nothing_is_left(t);
}

/* To a group: the header says how far, and a part of a packet is for the outside alone. */
static void headers_to_groups(struct ktest *t)
{
	uint8_t b[100] = { 0 };
	struct socket *s;
	unsigned int before;
	size_t n;

	fake_task(0);
	before = outside_raw_sent().nr;
	outside_card(true);
	s = raw(IPPROTO_RAW);
	EXPECT_EQ(t, set_int(s, SOL_IP, IP_MULTICAST_TTL, 0), 0);
	n = packet(b, OTHER, card, "hello", 5);
	memcpy(b + 16, "\xe9\x01\x02\x03", 4);
	EXPECT_EQ(t, send_to(s, GROUP, b, n), 25);
	EXPECT_EQ(t, outside_raw_sent().nr, before + 1);
	b[6] = 0x20;
	EXPECT_EQ(t, send_to(s, GROUP, b, n), 25);
	EXPECT_EQ(t, outside_raw_sent().nr, before + 2);
	EXPECT_EQ(t, set_int(s, SOL_IP, IP_MULTICAST_TTL, 3), 0);
	b[8] = 0;
	EXPECT_EQ(t, send_to(s, GROUP, b, n), -EINVAL);
	b[6] = 0;
	EXPECT_EQ(t, send_to(s, GROUP, b, n), 25);
	EXPECT_EQ(t, outside_raw_sent().nr, before + 2);
	socket_drop(s);
	nothing_is_left(t);
}

/* An identifier is one socket's; one who is refused has no address either. */
static void identifiers(struct ktest *t)
{
	struct socket *s[3];
	struct sock_addr id = name4(CARD);

	fake_task(0);
	outside_card(true);
	for (int i = 0; i < 3; i++)
		s[i] = socket_create(&ping_ops, AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
	id.in.port = __builtin_bswap16(77);
	EXPECT_EQ(t, s[0]->ops->bind(s[0], &id), 0);
	s[1]->options &= ~(uint32_t)SOCKET_REUSEADDR;
	EXPECT_EQ(t, s[1]->ops->bind(s[1], &id), -EADDRINUSE);
	EXPECT_TRUE(t, inet_is_any(inet_of(s[1])->local.addr) && !inet_of(s[1])->bound_addr);
	id.in.port = 0;
	EXPECT_EQ(t, s[1]->ops->bind(s[1], &id), 0);
	EXPECT_TRUE(t, inet_of(s[1])->local.port && inet_of(s[1])->local.port != 77);
	id.in.port = __builtin_bswap16(77);
	EXPECT_EQ(t, s[2]->ops->bind(s[2], &id), 0);
	/* It is free when its last socket goes. */
	socket_drop(s[0]);
	s[0] = socket_create(&ping_ops, AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
	s[0]->options &= ~(uint32_t)SOCKET_REUSEADDR;
	EXPECT_EQ(t, s[0]->ops->bind(s[0], &id), -EADDRINUSE);
	socket_drop(s[2]);
	EXPECT_EQ(t, s[0]->ops->bind(s[0], &id), 0);
	socket_drop(s[0]);
	socket_drop(s[1]);
	nothing_is_left(t);
}

static void packets_come_in(struct ktest *t)
{
	struct socket *icmp, *ping, *other;
	struct sock_addr id = name4(0);
	uint8_t b[100], out[100], data[16];
	size_t n;

	fake_task(0);
	outside_card(true);
	icmp = raw(IPPROTO_ICMP);
	other = raw(OTHER);
	ping = socket_create(&ping_ops, AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
	id.in.port = __builtin_bswap16(77);
	EXPECT_EQ(t, ping->ops->bind(ping, &id), 0);
	/* A reply: the raw socket gets the header, too. */
	echo(data, ICMP_ECHOREPLY, 77);
	n = packet(b, IPPROTO_ICMP, peer, data, 16);
	says(IPPROTO_ICMP, peer, b, n);
	EXPECT_EQ(t, next(icmp, out, 100), 36);
	EXPECT_EQ(t, memcmp(out, b, n), 0);
	EXPECT_EQ(t, next(ping, out, 100), 16);
	EXPECT_EQ(t, memcmp(out, data, 16), 0);
	EXPECT_EQ(t, next(other, out, 100), -EAGAIN);
	/* One for another, a request, one that is damaged: the ping socket gets none of them. */
	echo(data, ICMP_ECHOREPLY, 78);
	says(IPPROTO_ICMP, peer, b, packet(b, IPPROTO_ICMP, peer, data, 16));
	echo(data, ICMP_ECHO, 77);
	says(IPPROTO_ICMP, peer, b, packet(b, IPPROTO_ICMP, peer, data, 16));
	echo(data, ICMP_ECHOREPLY, 77);
	data[9]++;
	says(IPPROTO_ICMP, peer, b, packet(b, IPPROTO_ICMP, peer, data, 16));
	EXPECT_EQ(t, next(ping, out, 100), -EAGAIN);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(t, next(icmp, out, 100), 36);
	/* Nor does anybody get one with a source in here, or what is shorter than it says. */
	data[9]--;
	says(IPPROTO_ICMP, card, b, packet(b, IPPROTO_ICMP, card, data, 16));
	says(IPPROTO_ICMP, loopback, b, packet(b, IPPROTO_ICMP, loopback, data, 16));
	n = packet(b, IPPROTO_ICMP, peer, data, 16);
	b[0] = 0x4f;
	says(IPPROTO_ICMP, peer, b, n);
	b[0] = 0x41;
	says(IPPROTO_ICMP, peer, b, n);
	b[0] = 0x45;
	says(IPPROTO_ICMP, peer, b, 19);
	says(IPPROTO_ICMP, peer, b, 0);
	says(IPPROTO_ICMP, peer, b, 27); /* not a whole head of ICMP */
	EXPECT_EQ(t, next(ping, out, 100), -EAGAIN);
	EXPECT_EQ(t, next(icmp, out, 100), -EAGAIN);
	socket_drop(icmp);
	socket_drop(ping);
	socket_drop(other);
	nothing_is_left(t);
}

static void a_flood_is_bounded(struct ktest *t)
{
	static uint8_t b[1020], data[1000];
	struct socket *s[20];
	uint32_t got = 0;

	fake_task(0);
	outside_card(true);
	for (int i = 0; i < 20; i++)
		s[i] = raw(OTHER); /* more than need no memory for their list */
	packet(b, OTHER, peer, data, sizeof(data));
	for (int i = 0; i < 1000; i++)
		says(OTHER, peer, b, sizeof(b));
	EXPECT_TRUE(t, READ_ONCE(s[0]->drops) > 500);
	EXPECT_TRUE(t, READ_ONCE(s[0]->queued) <= s[0]->rcvbuf);
	while (next(s[19], b, sizeof(b)) == sizeof(b))
		got++;
	EXPECT_EQ(t, got, 1000 - READ_ONCE(s[19]->drops));
	for (int i = 0; i < 20; i++)
		socket_drop(s[i]);
	nothing_is_left(t);
}

static void echo_requests_are_answered_here(struct ktest *t)
{
	struct socket *s;
	uint8_t data[16], out[100];
	unsigned int before;

	fake_task(0);
	before = outside_raw_sent().nr;
	outside_card(true);
	s = raw(IPPROTO_ICMP);
	echo(data, ICMP_ECHO, 5);
	EXPECT_EQ(t, send_to(s, CARD, data, 16), 16);
	EXPECT_EQ(t, next(s, out, 100), 36);
	EXPECT_EQ(t, next(s, out, 100), 36);
	EXPECT_EQ(t, out[20], ICMP_ECHOREPLY);
	EXPECT_EQ(t, ip_sum_end(ip_sum(out + 20, 16, 0)), 0);
	/* An answer is not answered. */
	EXPECT_EQ(t, next(s, out, 100), -EAGAIN);
	echo(data, ICMP_ECHOREPLY, 5);
	EXPECT_EQ(t, send_to(s, CARD, data, 16), 16);
	EXPECT_EQ(t, next(s, out, 100), 36);
	EXPECT_EQ(t, next(s, out, 100), -EAGAIN);
	EXPECT_EQ(t, outside_raw_sent().nr, before);
	socket_drop(s);
	nothing_is_left(t);
}

static void ping_is_for_groups(struct ktest *t)
{
	uint32_t from, to;

	fake_task(0);
	ping_range_get(&from, &to);
	EXPECT_TRUE(t, from == 1 && to == 0);
	EXPECT_FALSE(t, ping_is_allowed());
	ping_range_set(0, 0);
	EXPECT_TRUE(t, ping_is_allowed());
	ping_range_set(1, 100);
	EXPECT_FALSE(t, ping_is_allowed());
	ping_range_set(5, 4);
	ping_range_get(&from, &to);
	EXPECT_TRUE(t, from == 1 && to == 0);
}

static const struct ktest_case cases[] = {
	KTEST(packets_leave_by_the_card),
	KTEST(headers_are_checked),
	KTEST(headers_to_groups),
	KTEST(identifiers),
	KTEST(packets_come_in),
	KTEST(a_flood_is_bounded),
	KTEST(echo_requests_are_answered_here),
	KTEST(ping_is_for_groups),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "socket.raw", .cases = cases };
KTEST_SUITE(suite);
