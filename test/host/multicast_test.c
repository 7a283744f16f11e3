/* SPDX-License-Identifier: MIT */
/*
 * UDP of one processor: groups on the loopback and on a card, filters by source, and datagrams of
 * several calls.
 */
#include <abi/in.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/socket/inet_private.h>
#include <processor/socket/queue.h>
#include <processor/vfs/uio.h>

#include "gateway_fake.h"
#include "ipc_fake.h"
#include "remote_fake.h"

#define MC_PORT 6000u
#define GROUP   0xe9010203u /* 233.1.2.3 */
#define HERE    0x7f000001u
#define CARD    0x0a00020fu

static uint32_t net(uint32_t addr)
{
	return __builtin_bswap32(addr);
}

static struct sock_addr name4(uint32_t addr, uint16_t port)
{
	struct sock_addr name = address(port);

	name.in.addr = net(addr);
	return name;
}

static struct socket *udp(uint32_t addr, uint16_t port)
{
	struct socket *s = socket_create(&udp_ops, AF_INET, SOCK_DGRAM, SOL_UDP);
	const struct sock_addr name = name4(addr, port);

	s->options |= SOCKET_REUSEADDR;
	if (port && s->ops->bind(s, &name))
		return NULL;
	return s;
}

static int set(struct socket *s, int level, int option, const void *val, uint32_t len)
{
	return s->ops->setsockopt(s, level, option, val, len);
}

static int set_int(struct socket *s, int level, int option, int val)
{
	return set(s, level, option, &val, sizeof(val));
}

static int member(struct socket *s, int option, uint32_t group, uint32_t by)
{
	const struct linux_ip_mreqn r = { net(group), net(by), 0 };

	return set(s, SOL_IP, option, &r, LINUX_IP_MREQ_SIZE);
}

static int join_here(struct socket *s)
{
	return member(s, IP_ADD_MEMBERSHIP, GROUP, HERE);
}

static int source(struct socket *s, int option, uint32_t from)
{
	const struct linux_ip_mreq_source r = { net(GROUP), net(HERE), net(from) };

	return set(s, SOL_IP, option, &r, sizeof(r));
}

static ssize_t send_flags(struct socket *s, const struct sock_addr *to, const void *data,
			  size_t len, uint32_t flags)
{
	struct socket_msg m = { .flags = flags };
	struct uio u;

	if (to)
		m.addr = *to;
	uio_kernel(&u, (void *)(uintptr_t)data, len);
	m.uio = &u;
	return s->ops->sendmsg(s, &m);
}

static ssize_t say(struct socket *s, uint32_t group, const char *text)
{
	const struct sock_addr to = name4(group, MC_PORT);

	return send_flags(s, &to, text, strlen(text), 0);
}

/* The length of the next datagram; -EAGAIN. */
static ssize_t next(struct socket *s)
{
	char buf[128];

	return take(s, buf, sizeof(buf), MSG_DONTWAIT);
}

/* A socket that sends to groups of the loopback. */
static struct socket *speaker(void)
{
	struct socket *s = udp(0, 0);

	return member(s, IP_MULTICAST_IF, 0, HERE) ? NULL : s;
}

static void nothing_is_left(struct ktest *t)
{
	EXPECT_EQ(t, outside_joined(), 0);
	EXPECT_EQ(t, outside_open_ports(), 0);
	EXPECT_EQ(t, sock_memory(), 0);
	outside_card(false);
}

/* --- groups -------------------------------------------------------------------------------- */

static void a_group_reaches_its_members(struct ktest *t)
{
	struct socket *a, *b, *other, *s;

	fake_task(0);
	a = udp(0, MC_PORT);
	b = udp(GROUP, MC_PORT); /* bound to the group itself */
	other = udp(0, MC_PORT + 1);
	s = speaker();
	EXPECT_EQ(t, say(s, GROUP, "none"), 4); /* nobody has joined it */
	EXPECT_EQ(t, next(a), -EAGAIN);
	EXPECT_EQ(t, join_here(a), 0);
	EXPECT_EQ(t, join_here(b), 0);
	EXPECT_EQ(t, join_here(other), 0);
	EXPECT_EQ(t, say(s, GROUP, "both"), 4);
	EXPECT_EQ(t, next(a), 4);
	EXPECT_EQ(t, next(b), 4);
	EXPECT_EQ(t, next(other), -EAGAIN); /* another port */
	EXPECT_EQ(t, next(a), -EAGAIN);
	EXPECT_EQ(t, say(s, GROUP + 1, "others"), 6);
	EXPECT_EQ(t, next(a), -EAGAIN);
	/* A socket that is no member gets what others have joined, unless it says otherwise. */
	EXPECT_EQ(t, member(a, IP_DROP_MEMBERSHIP, GROUP, HERE), 0);
	EXPECT_EQ(t, say(s, GROUP, "still"), 5);
	EXPECT_EQ(t, next(a), 5);
	EXPECT_EQ(t, set_int(a, SOL_IP, IP_MULTICAST_ALL, 0), 0);
	EXPECT_EQ(t, say(s, GROUP, "no more"), 7);
	EXPECT_EQ(t, next(a), -EAGAIN);
	EXPECT_EQ(t, next(b), 5);
	EXPECT_EQ(t, next(b), 7);
	/* The last members are closed. */
	EXPECT_EQ(t, set_int(a, SOL_IP, IP_MULTICAST_ALL, 1), 0);
	socket_drop(b);
	socket_drop(other);
	EXPECT_EQ(t, say(s, GROUP, "gone"), 4);
	EXPECT_EQ(t, next(a), -EAGAIN);
	socket_drop(a);
	socket_drop(s);
	nothing_is_left(t);
}

static void a_group_may_have_many_members(struct ktest *t)
{
	struct socket *all[50], *s;

	fake_task(0);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		all[i] = udp(0, MC_PORT);
	EXPECT_EQ(t, join_here(all[7]), 0);
	s = speaker();
	EXPECT_EQ(t, say(s, GROUP, "many"), 4);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		EXPECT_EQ(t, next(all[i]), 4);
		EXPECT_EQ(t, next(all[i]), -EAGAIN);
		socket_drop(all[i]);
	}
	socket_drop(s);
	nothing_is_left(t);
}

static void groups_of_ipv6_on_the_loopback(struct ktest *t)
{
	struct linux_ipv6_mreq r = { .multiaddr = { 0xff, 5, [15] = 9 }, .ifindex = 1 };
	struct socket *a = NULL, *s = NULL;
	struct sock_addr name = { .len = sizeof(name.in6) };

	fake_task(0);
	name.in6.family = AF_INET6;
	name.in6.port = __builtin_bswap16(MC_PORT);
	a = socket_create(&udp_ops, AF_INET6, SOCK_DGRAM, SOL_UDP);
	s = socket_create(&udp_ops, AF_INET6, SOCK_DGRAM, SOL_UDP);
	EXPECT_EQ(t, a->ops->bind(a, &name), 0);
	EXPECT_EQ(t, set(a, SOL_IPV6, IPV6_ADD_MEMBERSHIP, &r, sizeof(r) - 1), -EINVAL);
	EXPECT_EQ(t, set(a, SOL_IPV6, IPV6_ADD_MEMBERSHIP, &r, sizeof(r)), 0);
	EXPECT_EQ(t, set(a, SOL_IPV6, IPV6_ADD_MEMBERSHIP, &r, sizeof(r)), -EADDRINUSE);
	memcpy(name.in6.addr, r.multiaddr, 16);
	EXPECT_EQ(t, send_flags(s, &name, "abc", 3, 0), 3); /* there is no card */
	EXPECT_EQ(t, next(a), 3);
	EXPECT_EQ(t, set_int(s, SOL_IPV6, IPV6_MULTICAST_IF, 9), -ENODEV);
	EXPECT_EQ(t, set_int(s, SOL_IPV6, IPV6_MULTICAST_IF, 1), 0);
	EXPECT_EQ(t, send_flags(s, &name, "a", 1, 0), 1);
	EXPECT_EQ(t, next(a), 1);
	name.in6.scope_id = 1;
	EXPECT_EQ(t, set_int(s, SOL_IPV6, IPV6_MULTICAST_IF, 0), 0);
	EXPECT_EQ(t, s->ops->connect(s, &name, false), 0);
	EXPECT_EQ(t, send_flags(s, NULL, "ab", 2, 0), 2);
	EXPECT_EQ(t, next(a), 2);
	EXPECT_EQ(t, inet_of(s)->local.addr[15], 1);
	r.ifindex = 0;
	EXPECT_EQ(t, set(a, SOL_IPV6, IPV6_DROP_MEMBERSHIP, &r, sizeof(r)), 0);
	EXPECT_EQ(t, set(a, SOL_IPV6, IPV6_DROP_MEMBERSHIP, &r, sizeof(r)), -EADDRNOTAVAIL);
	EXPECT_EQ(t, set(a, SOL_IPV6, IPV6_ADD_MEMBERSHIP, &r, sizeof(r)), 0);
	socket_drop(a);
	socket_drop(s);
	nothing_is_left(t);
}

static void what_is_asked_wrongly_is_refused(struct ktest *t)
{
	static const uint32_t sizes[] = { 0, 4, 7 };
	uint8_t req[sizeof(struct linux_group_source_req)] = { 1 };
	const uint32_t loopback = net(HERE);
	struct socket *a, *v6;

	fake_task(0);
	a = udp(0, MC_PORT);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		EXPECT_EQ(t, set(a, SOL_IP, IP_ADD_MEMBERSHIP, req, sizes[i]), -EINVAL);
	EXPECT_EQ(t, set(a, SOL_IP, IP_MULTICAST_IF, &loopback, 3), -EINVAL);
	EXPECT_EQ(t, set(a, SOL_IP, IP_MULTICAST_IF, &loopback, 4), 0);
	EXPECT_EQ(t, member(a, IP_MULTICAST_IF, 0, 0x01020304), -EADDRNOTAVAIL);
	EXPECT_EQ(t, member(a, IP_ADD_MEMBERSHIP, HERE, HERE), -EINVAL);
	EXPECT_EQ(t, member(a, IP_ADD_MEMBERSHIP, GROUP, 0x01020304), -ENODEV);
	EXPECT_EQ(t, say(a, GROUP, "a"), 1);
	EXPECT_EQ(t, member(a, IP_MULTICAST_IF, 0, 0), 0);
	/* A card that is there and has no route. */
	outside_card(true);
	outside_route(false);
	EXPECT_EQ(t, member(a, IP_ADD_MEMBERSHIP, GROUP, 0), -ENODEV);
	EXPECT_EQ(t, say(a, GROUP, "a"), -ENETUNREACH);
	outside_route(true);
	outside_card(false);
	EXPECT_EQ(t, member(a, IP_DROP_MEMBERSHIP, GROUP, HERE), -EADDRNOTAVAIL);
	EXPECT_EQ(t, join_here(a), 0);
	EXPECT_EQ(t, join_here(a), -EADDRINUSE);
	/* struct group_req: sizes, families. */
	EXPECT_EQ(t, set(a, SOL_IP, MCAST_JOIN_GROUP, req, LINUX_GROUP_REQ_SIZE - 1), -EINVAL);
	EXPECT_EQ(t, set(a, SOL_IP, MCAST_JOIN_GROUP, req, LINUX_GROUP_REQ_SIZE), -EINVAL);
	EXPECT_EQ(t, set(a, SOL_IP, MCAST_JOIN_SOURCE_GROUP, req, sizeof(req)), -EADDRNOTAVAIL);
	EXPECT_EQ(t, set(a, SOL_IPV6, MCAST_JOIN_GROUP, req, sizeof(req)), -ENOPROTOOPT);
	for (uint32_t i = 1; i < 20; i++)
		EXPECT_EQ(t, member(a, IP_ADD_MEMBERSHIP, GROUP + i, HERE), 0);
	EXPECT_EQ(t, member(a, IP_ADD_MEMBERSHIP, GROUP + 20, HERE), -ENOBUFS);
	v6 = socket_create(&udp_ops, AF_INET6, SOCK_DGRAM, SOL_UDP);
	EXPECT_EQ(t, set(v6, SOL_IPV6, MCAST_JOIN_GROUP, req, sizeof(req)), -EADDRNOTAVAIL);
	socket_drop(v6);
	socket_drop(a);
	nothing_is_left(t);
}

/* As Linux: the old forms are not for streams, the new ones are; a child is no member. */
static void a_listener_may_join(struct ktest *t)
{
	const struct sock_addr addr = name4(HERE, PORT);
	struct linux_group_source_req r = { .interface = 1 };
	struct linux_sockaddr_in in = { .family = AF_INET, .addr = net(GROUP) };
	struct socket *l, *c, *child;

	fake_task(0);
	memcpy(r.group, &in, sizeof(in));
	l = make();
	EXPECT_EQ(t, join_here(l), -EPROTO);
	EXPECT_EQ(t, member(l, IP_MULTICAST_IF, 0, HERE), -EINVAL);
	EXPECT_EQ(t, set(l, SOL_IP, MCAST_JOIN_GROUP, &r, LINUX_GROUP_REQ_SIZE), 0);
	EXPECT_EQ(t, l->ops->bind(l, &addr), 0);
	EXPECT_EQ(t, l->ops->listen(l, 1), 0);
	c = make();
	EXPECT_EQ(t, connect_to(c, false), 0);
	child = l->ops->accept(l, true);
	EXPECT_EQ(t, set(child, SOL_IP, MCAST_LEAVE_GROUP, &r, LINUX_GROUP_REQ_SIZE),
		  -EADDRNOTAVAIL);
	EXPECT_EQ(t, set(l, SOL_IP, MCAST_LEAVE_GROUP, &r, LINUX_GROUP_REQ_SIZE), 0);
	socket_drop(child);
	socket_drop(c);
	socket_drop(l);
	nothing_is_left(t);
}

static void sources_are_filtered(struct ktest *t)
{
	struct socket *a, *s;

	fake_task(0);
	a = udp(0, MC_PORT);
	s = speaker();
	EXPECT_EQ(t, source(a, IP_BLOCK_SOURCE, HERE), -EINVAL); /* no member */
	EXPECT_EQ(t, join_here(a), 0);
	EXPECT_EQ(t, source(a, IP_UNBLOCK_SOURCE, HERE), -EADDRNOTAVAIL);
	EXPECT_EQ(t, source(a, IP_BLOCK_SOURCE, HERE), 0);
	EXPECT_EQ(t, source(a, IP_BLOCK_SOURCE, HERE), -EADDRNOTAVAIL);
	EXPECT_EQ(t, say(s, GROUP, "no"), 2);
	EXPECT_EQ(t, next(a), -EAGAIN);
	EXPECT_EQ(t, source(a, IP_ADD_SOURCE_MEMBERSHIP, HERE), -EINVAL); /* the other kind */
	EXPECT_EQ(t, source(a, IP_UNBLOCK_SOURCE, HERE), 0);
	EXPECT_EQ(t, say(s, GROUP, "yes"), 3);
	EXPECT_EQ(t, next(a), 3);
	EXPECT_EQ(t, source(a, IP_ADD_SOURCE_MEMBERSHIP, HERE), -EINVAL); /* it keeps its kind */
	EXPECT_EQ(t, member(a, IP_DROP_MEMBERSHIP, GROUP, HERE), 0);
	/* One that never had a source may become one of the other kind. */
	EXPECT_EQ(t, join_here(a), 0);
	for (uint32_t i = 0; i < 10; i++)
		EXPECT_EQ(t, source(a, IP_ADD_SOURCE_MEMBERSHIP, 0x01010101 + i), 0);
	EXPECT_EQ(t, source(a, IP_ADD_SOURCE_MEMBERSHIP, HERE), -ENOBUFS);
	EXPECT_EQ(t, say(s, GROUP, "no"), 2);
	EXPECT_EQ(t, next(a), -EAGAIN);
	EXPECT_EQ(t, source(a, IP_DROP_SOURCE_MEMBERSHIP, 0x01010101), 0);
	EXPECT_EQ(t, source(a, IP_ADD_SOURCE_MEMBERSHIP, HERE), 0);
	EXPECT_EQ(t, say(s, GROUP, "again"), 5);
	EXPECT_EQ(t, next(a), 5);
	for (uint32_t i = 1; i < 10; i++)
		EXPECT_EQ(t, source(a, IP_DROP_SOURCE_MEMBERSHIP, 0x01010101 + i), 0);
	EXPECT_EQ(t, source(a, IP_DROP_SOURCE_MEMBERSHIP, HERE), 0); /* the last: it leaves */
	EXPECT_EQ(t, member(a, IP_DROP_MEMBERSHIP, GROUP, HERE), -EADDRNOTAVAIL);
	socket_drop(a);
	socket_drop(s);
	nothing_is_left(t);
}

static int join6(struct socket *s, uint32_t interface, uint16_t nr)
{
	const struct linux_ipv6_mreq r = { .multiaddr = { 0xff, 2, [13] = 1, (uint8_t)(nr >> 8),
							  (uint8_t)nr },
					   .ifindex = (int32_t)interface };

	return set(s, SOL_IPV6, IPV6_ADD_MEMBERSHIP, &r, sizeof(r));
}

/* A socket is in 64 groups of IPv6, beside 20 of IPv4; all cards are in 1,024. */
static void memberships_are_bounded(struct ktest *t)
{
	struct socket *all[17];

	fake_task(0);
	outside_card(true);
	for (uint32_t i = 0; i < ARRAY_SIZE(all); i++)
		all[i] = socket_create(&udp_ops, AF_INET6, SOCK_DGRAM, SOL_UDP);
	for (uint32_t i = 0; i < 20; i++)
		EXPECT_EQ(t, member(all[0], IP_ADD_MEMBERSHIP, GROUP + i, HERE), 0);
	EXPECT_EQ(t, member(all[0], IP_ADD_MEMBERSHIP, GROUP + 20, HERE), -ENOBUFS);
	for (uint32_t i = 0; i < 1024; i++)
		EXPECT_EQ(t, join6(all[i / 64], TCPIP_FIRST_IF_INDEX, (uint16_t)i), 0);
	EXPECT_EQ(t, join6(all[0], TCPIP_FIRST_IF_INDEX, 1), -EADDRINUSE);
	EXPECT_EQ(t, join6(all[0], TCPIP_FIRST_IF_INDEX, 64), -ENOBUFS);
	EXPECT_EQ(t, outside_joined(), 1024);
	EXPECT_EQ(t, join6(all[16], TCPIP_FIRST_IF_INDEX, 1024), -ENOBUFS);
	EXPECT_EQ(t, outside_joined(), 1024);
	/* One that the card is in, and one of the loopback. */
	EXPECT_EQ(t, join6(all[16], TCPIP_FIRST_IF_INDEX, 64), 0);
	EXPECT_EQ(t, join6(all[16], 1, 1024), 0);
	socket_drop(all[0]);
	EXPECT_EQ(t, outside_joined(), 960);
	EXPECT_EQ(t, join6(all[16], TCPIP_FIRST_IF_INDEX, 1025), 0);
	for (uint32_t i = 1; i < ARRAY_SIZE(all); i++)
		socket_drop(all[i]);
	nothing_is_left(t);
}

/* How many groups of the card the sockets @all can join, from @first on. */
static uint32_t join_all(struct socket **all, uint32_t nr, uint16_t first)
{
	uint32_t n = 0;

	while (n < nr * 64 && !join6(all[n / 64], TCPIP_FIRST_IF_INDEX, (uint16_t)(first + n)))
		n++;
	return n;
}

/* A program gets 896 of the cards' groups; the rest is for those that are in fewer than 16. */
static void one_program_does_not_take_all_groups(struct ktest *t)
{
	struct kmem_account *greedy = kmem_account_create(), *other = kmem_account_create();
	struct socket *all[16], *one, *two;

	outside_card(true);
	fake_account = greedy;
	fake_task(0);
	for (uint32_t i = 0; i < ARRAY_SIZE(all); i++)
		all[i] = socket_create(&udp_ops, AF_INET6, SOCK_DGRAM, SOL_UDP);
	EXPECT_EQ(t, join_all(all, ARRAY_SIZE(all), 0), 896u);
	EXPECT_EQ(t, kmem_count(KMEM_CARD_GROUPS), 896u);
	/* A group that it is in already is no further one. */
	EXPECT_EQ(t, join6(all[15], TCPIP_FIRST_IF_INDEX, 3), 0);
	EXPECT_EQ(t, kmem_count(KMEM_CARD_GROUPS), 896u);
	fake_account = other;
	fake_task(0);
	one = socket_create(&udp_ops, AF_INET6, SOCK_DGRAM, SOL_UDP);
	two = socket_create(&udp_ops, AF_INET6, SOCK_DGRAM, SOL_UDP);
	/* One of the other program's, and 15 new ones. */
	EXPECT_EQ(t, join6(one, TCPIP_FIRST_IF_INDEX, 3), 0);
	EXPECT_EQ(t, join_all(&one, 1, 2000), 15u);
	EXPECT_EQ(t, outside_joined(), 896 + 15);
	EXPECT_EQ(t, kmem_count(KMEM_CARD_GROUPS), 896u + 16);
	/* Another membership stands for the program when one of two goes. */
	EXPECT_EQ(t, join6(two, TCPIP_FIRST_IF_INDEX, 3), 0);
	socket_drop(one);
	EXPECT_EQ(t, kmem_count(KMEM_CARD_GROUPS), 896u + 1);
	for (uint32_t i = 0; i < ARRAY_SIZE(all); i++)
		socket_drop(all[i]);
	EXPECT_EQ(t, outside_joined(), 1);
	EXPECT_EQ(t, kmem_count(KMEM_CARD_GROUPS), 1u);
	socket_drop(two);
	EXPECT_EQ(t, kmem_count(KMEM_CARD_GROUPS), 0u);
	fake_account = NULL;
	fake_task(0);
	kmem_account_put(greedy);
	kmem_account_put(other);
	nothing_is_left(t);
}

static void a_card_takes_part(struct ktest *t)
{
	static const uint8_t group[16] = { [10] = 0xff, 0xff, 233, 1, 2, 3 };
	struct socket *a, *b, *s;

	fake_task(0);
	outside_card(true);
	a = udp(0, MC_PORT);
	b = udp(0, MC_PORT);
	s = udp(0, 0);
	EXPECT_EQ(t, member(a, IP_ADD_MEMBERSHIP, GROUP, 0), 0); /* the default route's card */
	EXPECT_EQ(t, member(b, IP_ADD_MEMBERSHIP, GROUP, CARD), 0);
	EXPECT_EQ(t, outside_joined(), 1);
	outside_says_to_group(group, MC_PORT, "hello", 5);
	EXPECT_EQ(t, next(a), 5);
	EXPECT_EQ(t, next(b), 5);
	EXPECT_EQ(t, say(s, GROUP, "out"), 3);
	EXPECT_EQ(t, outside_group_sent().nr, 1u);
	EXPECT_EQ(t, outside_group_sent().interface, TCPIP_FIRST_IF_INDEX);
	EXPECT_EQ(t, outside_group_sent().port, MC_PORT);
	EXPECT_EQ(t, outside_group_sent().hops, 1);
	EXPECT_EQ(t, outside_group_sent().len, 3u);
	EXPECT_EQ(t, next(a), 3);
	EXPECT_EQ(t, set_int(s, SOL_IP, IP_MULTICAST_LOOP, 0), 0);
	EXPECT_EQ(t, set_int(s, SOL_IP, IP_MULTICAST_TTL, 7), 0);
	EXPECT_EQ(t, say(s, GROUP, "out2"), 4);
	EXPECT_EQ(t, outside_group_sent().hops, 7);
	EXPECT_EQ(t, next(a), -EAGAIN);
	EXPECT_EQ(t, set_int(s, SOL_IP, IP_MULTICAST_TTL, -1), 0);
	EXPECT_EQ(t, say(s, GROUP, "out2"), 4);
	EXPECT_EQ(t, outside_group_sent().hops, 1);
	/* It does not leave this node. */
	EXPECT_EQ(t, set_int(s, SOL_IP, IP_MULTICAST_TTL, 0), 0);
	EXPECT_EQ(t, say(s, GROUP, "in"), 2);
	EXPECT_EQ(t, outside_group_sent().nr, 3u);
	EXPECT_EQ(t, next(a), -EAGAIN);
	EXPECT_EQ(t, set_int(s, SOL_IP, IP_MULTICAST_LOOP, 1), 0);
	/* On the loopback, which nobody has joined it on. */
	EXPECT_EQ(t, member(s, IP_MULTICAST_IF, 0, HERE), 0);
	EXPECT_EQ(t, say(s, GROUP, "lo"), 2);
	EXPECT_EQ(t, next(a), -EAGAIN);
	EXPECT_EQ(t, member(a, IP_DROP_MEMBERSHIP, GROUP, 0), 0);
	EXPECT_EQ(t, outside_joined(), 1);
	socket_drop(b);
	EXPECT_EQ(t, outside_joined(), 0);
	socket_drop(a);
	socket_drop(s);
	nothing_is_left(t);
}

/* As Linux: the address that is named beside an index is only looked at when it is used. */
static void a_named_source_is_the_interfaces_own(struct ktest *t)
{
	const struct sock_addr to = name4(GROUP, MC_PORT);
	struct linux_ip_mreqn r = { .address = net(0x0a090807), .ifindex = 1 };
	struct socket *s;

	fake_task(0);
	s = udp(0, 0);
	EXPECT_EQ(t, set(s, SOL_IP, IP_MULTICAST_IF, &r, sizeof(r)), 0);
	EXPECT_EQ(t, say(s, GROUP, "a"), -EINVAL);
	EXPECT_EQ(t, s->ops->connect(s, &to, false), -EINVAL);
	EXPECT_EQ(t, inet_of(s)->local.addr[12], 0);
	outside_card(true);
	r.address = net(CARD);
	EXPECT_EQ(t, set(s, SOL_IP, IP_MULTICAST_IF, &r, sizeof(r)), 0);
	EXPECT_EQ(t, say(s, GROUP, "a"), -EINVAL); /* another one's */
	r.address = net(0x7f000005);
	EXPECT_EQ(t, set(s, SOL_IP, IP_MULTICAST_IF, &r, sizeof(r)), 0);
	EXPECT_EQ(t, s->ops->connect(s, &to, false), 0);
	EXPECT_EQ(t, inet_of(s)->local.addr[15], 5);
	socket_drop(s);
	nothing_is_left(t);
}

/* --- datagrams of several calls --------------------------------------------------------------- */

static void calls_make_one_datagram(struct ktest *t)
{
	const struct sock_addr to = name4(HERE, MC_PORT), other = name4(HERE, MC_PORT + 1);
	static uint8_t big[65507];
	struct socket *a, *b, *s;
	int value = 0;
	uint32_t len = sizeof(value);

	fake_task(0);
	a = udp(0, MC_PORT);
	b = udp(0, MC_PORT + 1);
	s = udp(0, 0);
	EXPECT_EQ(t, send_flags(s, NULL, "a", 1, MSG_MORE), -EDESTADDRREQ);
	EXPECT_EQ(t, send_flags(s, &to, "ab", 2, MSG_MORE), 2);
	EXPECT_EQ(t, next(a), -EAGAIN);
	/* The first call has said where it goes. */
	EXPECT_EQ(t, send_flags(s, &other, "cde", 3, MSG_MORE), 3);
	EXPECT_EQ(t, send_flags(s, NULL, "", 0, 0), 0);
	EXPECT_EQ(t, next(a), 5);
	EXPECT_EQ(t, next(a), -EAGAIN);
	EXPECT_EQ(t, next(b), -EAGAIN);
	/* By the option, which sends when it ends. */
	EXPECT_EQ(t, set_int(s, SOL_UDP, UDP_CORK, 1), 0);
	EXPECT_EQ(t, s->ops->getsockopt(s, SOL_UDP, UDP_CORK, &value, &len), 0);
	EXPECT_EQ(t, value, 1);
	EXPECT_EQ(t, send_flags(s, &to, big, 100, 0), 100);
	EXPECT_EQ(t, send_flags(s, &to, big, 1, 0), 1);
	EXPECT_EQ(t, next(a), -EAGAIN);
	EXPECT_EQ(t, set_int(s, SOL_UDP, UDP_CORK, 0), 0);
	EXPECT_EQ(t, next(a), 101);
	/* An empty one. */
	EXPECT_EQ(t, send_flags(s, &to, "", 0, MSG_MORE), 0);
	EXPECT_EQ(t, next(a), -EAGAIN);
	EXPECT_EQ(t, send_flags(s, &to, "", 0, 0), 0);
	EXPECT_EQ(t, next(a), 0);
	/* One that gets too long is dropped. */
	EXPECT_EQ(t, send_flags(s, &to, big, sizeof(big) - 1, MSG_MORE), (ssize_t)sizeof(big) - 1);
	EXPECT_EQ(t, send_flags(s, &to, big, 2, 0), -EMSGSIZE);
	EXPECT_EQ(t, next(a), -EAGAIN);
	EXPECT_EQ(t, send_flags(s, &to, "x", 1, 0), 1);
	EXPECT_EQ(t, next(a), 1);
	/* One that was not finished goes with the socket. */
	EXPECT_EQ(t, send_flags(s, &to, big, 3000, MSG_MORE), 3000);
	socket_drop(s);
	EXPECT_EQ(t, next(a), -EAGAIN);
	socket_drop(a);
	socket_drop(b);
	nothing_is_left(t);
}

static const struct ktest_case cases[] = {
	KTEST(a_group_reaches_its_members),
	KTEST(a_group_may_have_many_members),
	KTEST(groups_of_ipv6_on_the_loopback),
	KTEST(what_is_asked_wrongly_is_refused),
	KTEST(a_listener_may_join),
	KTEST(sources_are_filtered),
	KTEST(memberships_are_bounded),
	KTEST(one_program_does_not_take_all_groups),
	KTEST(a_card_takes_part),
	KTEST(a_named_source_is_the_interfaces_own),
	KTEST(calls_make_one_datagram),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "socket.multicast", .cases = cases };
KTEST_SUITE(suite);
