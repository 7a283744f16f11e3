/* SPDX-License-Identifier: MIT */
/*
 * AF_NETLINK over interfaces that the test makes up: answers byte by byte, requests that are wrong,
 * queues that are full, and port ids.
 */
#include <stdlib.h>
#include <string.h>

#include <abi/net.h>
#include <abi/poll.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <processor/socket/interface.h>
#include <processor/socket/netlink.h>
#include <processor/socket/queue.h>
#include <processor/socket/rtnl.h>
#include <processor/vfs/uio.h>

#include "ipc_fake.h"
#include "socket_fake.h"

#define HEADER sizeof(struct linux_nlmsghdr)

/* --- surroundings: the loopback, and cards eth0, eth1, ... that are alike */

static unsigned int nr_cards = 1;

bool inet_interface_at(unsigned int i, struct inet_interface *out)
{
	*out = (struct inet_interface){ .index = i + 1, .mtu = 1500, .nr_addr6 = 1 };
	if (i > nr_cards)
		return false;
	if (i == 0) {
		strcpy(out->name, "lo");
		out->flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING;
		memcpy(out->addr4, (uint8_t[]){ 127, 0, 0, 1 }, 4);
		out->prefix4 = 8;
		out->addr6[0].addr[15] = 1;
		out->addr6[0].prefix = 128;
		out->addr6[0].scope = RT_SCOPE_HOST;
		return true;
	}
	strcpy(out->name, i == 1 ? "eth0" : "another"); /* only the first is asked for by name */
	out->flags = IFF_UP | IFF_BROADCAST | IFF_MULTICAST | IFF_RUNNING;
	memcpy(out->mac, (uint8_t[]){ 2, 0, 0, 0, 0, (uint8_t)i }, 6);
	memcpy(out->addr4, (uint8_t[]){ 10, (uint8_t)i, 2, 15 }, 4);
	out->prefix4 = 20;
	memcpy(out->addr6[0].addr, (uint8_t[]){ 0xfe, 0x80, [15] = (uint8_t)i }, 16);
	out->addr6[0].prefix = 64;
	out->addr6[0].scope = RT_SCOPE_LINK;
	out->rx_packets = 0x123456789;
	return true;
}

bool inet_route_at(unsigned int i, struct inet_route *out)
{
	*out = (struct inet_route){ .family = AF_INET, .interface = i / 3 + 2 };
	if (i / 3 >= nr_cards)
		return false;
	switch (i % 3) {
	case 0:
		memcpy(out->gateway, (uint8_t[]){ 10, 1, 2, 2 }, 4);
		break;
	case 1:
		memcpy(out->dst, (uint8_t[4]){ 10, (uint8_t)(i / 3 + 1) }, 4);
		out->prefix = 20;
		break;
	default:
		out->family = AF_INET6;
		memcpy(out->dst, (uint8_t[2]){ 0xfe, 0x80 }, 2);
		out->prefix = 64;
		break;
	}
	return true;
}

static struct socket *netlink_socket(void)
{
	uint32_t protocol = NETLINK_ROUTE;
	struct socket *s;

	fake_task(0);
	if (netlink_init())
		abort();
	s = socket_create(socket_family_find(AF_NETLINK)->choose(SOCK_RAW, &protocol), AF_NETLINK,
			  SOCK_RAW, protocol);
	if (IS_ERR(s))
		abort();
	return s;
}

static ssize_t send_bytes(struct socket *s, const void *buf, size_t len)
{
	struct socket_msg m = { 0 };
	struct uio u;

	uio_kernel(&u, (void *)(uintptr_t)buf, len);
	m.uio = &u;
	return s->ops->sendmsg(s, &m);
}

static ssize_t recv_bytes(struct socket *s, void *buf, size_t len, uint32_t flags)
{
	struct socket_msg m = { .flags = flags | MSG_DONTWAIT };
	struct uio u;

	uio_kernel(&u, buf, len);
	m.uio = &u;
	return s->ops->recvmsg(s, &m);
}

struct request {
	struct linux_nlmsghdr h;
	uint8_t body[64];
};

/* A request of @len bytes after the header, of which the first is the family. */
static struct request request(uint16_t type, uint16_t flags, uint8_t family, uint32_t len)
{
	struct request r = { .h = { .len = (uint32_t)HEADER + len,
				    .type = type,
				    .flags = NLM_F_REQUEST | flags,
				    .seq = 7 } };

	r.body[0] = family;
	return r;
}

/* The type of the message at the head of @buf, checked; its length to *@len. */
static uint16_t type_of(struct ktest *t, const uint8_t *buf, size_t left, uint32_t *len)
{
	struct linux_nlmsghdr h = { 0 };

	EXPECT_TRUE(t, left >= HEADER);
	memcpy(&h, buf, MIN(left, HEADER));
	EXPECT_TRUE(t, h.len >= HEADER && h.len <= left);
	EXPECT_EQ(t, h.seq, 7u);
	*len = h.len;
	return h.type;
}

/* Read until NLMSG_DONE; how many other messages, all of @type. */
static unsigned int count_dump(struct ktest *t, struct socket *s, uint16_t type,
			       unsigned int *parts)
{
	static uint8_t buf[4096];
	unsigned int nr = 0;

	for (*parts = 0;; (*parts)++) {
		const ssize_t got = recv_bytes(s, buf, sizeof(buf), 0);
		uint32_t len;

		if (got <= 0) {
			EXPECT_EQ(t, got, 1); /* the end is missing */
			return nr;
		}
		EXPECT_TRUE(t, got <= (ssize_t)NL_PART);
		for (size_t at = 0; at < (size_t)got; at += (len + 3) & ~3u) {
			const uint16_t is = type_of(t, buf + at, (size_t)got - at, &len);

			if (is == NLMSG_DONE)
				return nr;
			EXPECT_EQ(t, is, type);
			if (!len)
				return nr;
			nr++;
		}
	}
}

static void dumps_end_and_come_in_parts(struct ktest *t)
{
	struct socket *s = netlink_socket();
	const int64_t memory = sock_memory();
	const struct {
		uint16_t type, answer;
		uint8_t family;
		unsigned int per_card, more;
	} rows[] = {
		{ RTM_GETLINK, RTM_NEWLINK, AF_UNSPEC, 1, 1 },
		{ RTM_GETADDR, RTM_NEWADDR, AF_UNSPEC, 2, 2 },
		{ RTM_GETADDR, RTM_NEWADDR, AF_INET, 1, 1 },
		{ RTM_GETADDR, RTM_NEWADDR, AF_INET6, 1, 1 },
		{ RTM_GETROUTE, RTM_NEWROUTE, AF_UNSPEC, 3, 0 },
		{ RTM_GETROUTE, RTM_NEWROUTE, AF_INET, 2, 0 },
		{ RTM_GETROUTE, RTM_NEWROUTE, AF_INET6, 1, 0 },
	};
	unsigned int parts;

	for (nr_cards = 0; nr_cards < 60; nr_cards += 29) {
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			const struct request r =
				request(rows[i].type, NLM_F_DUMP, rows[i].family, 1);

			EXPECT_EQ(t, send_bytes(s, &r, r.h.len), r.h.len);
			EXPECT_EQ(t, count_dump(t, s, rows[i].answer, &parts),
				  nr_cards * rows[i].per_card + rows[i].more);
			EXPECT_EQ(t, recv_bytes(s, NULL, 0, 0), -EAGAIN);
			if (rows[i].type == RTM_GETLINK && nr_cards)
				EXPECT_TRUE(t, parts > 1);
		}
	}
	nr_cards = 1;
	EXPECT_EQ(t, sock_memory(), memory);
	socket_drop(s);
}

/* The address of eth0, every byte. */
static void an_address_is_as_linux_has_it(struct ktest *t)
{
	static const uint8_t want[] = {
		20,
		0,
		0,
		0, /* type RTM_NEWADDR, flags NLM_F_MULTI */
		AF_INET,
		20,
		IFA_F_PERMANENT,
		0,
		2,
		0,
		0,
		0,
		8,
		0,
		IFA_ADDRESS,
		0,
		10,
		1,
		2,
		15,
		8,
		0,
		IFA_LOCAL,
		0,
		10,
		1,
		2,
		15,
		8,
		0,
		IFA_BROADCAST,
		0,
		10,
		1,
		15,
		255,
		9,
		0,
		IFA_LABEL,
		0,
		'e',
		't',
		'h',
		'0',
		0,
		0,
		0,
		0,
		8,
		0,
		IFA_FLAGS,
		0,
		IFA_F_PERMANENT,
		0,
		0,
		0,
		20,
		0,
		IFA_CACHEINFO,
		0,
		255,
		255,
		255,
		255,
		255,
		255,
		255,
		255,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
	};
	struct nl_reply to = { .seq = 7, .pid = 5 };
	uint8_t buf[256];
	struct nl_sink sink = { .data = buf, .room = sizeof(buf) };
	struct inet_interface i;

	EXPECT_TRUE(t, inet_interface_at(1, &i));
	EXPECT_TRUE(t, rtnl_put_addr4(&sink, &to, &i));
	EXPECT_EQ(t, sink.len, HEADER + sizeof(want) - 4);
	EXPECT_TRUE(t, !memcmp(buf + HEADER, want + 4, sizeof(want) - 4));
	EXPECT_EQ(t, buf[4], 20);
	/* One byte less of room: nothing at all. */
	sink = (struct nl_sink){ .data = buf, .room = HEADER + sizeof(want) - 5 };
	EXPECT_TRUE(t, !rtnl_put_addr4(&sink, &to, &i));
	EXPECT_EQ(t, sink.len, 0u);
}

/* The error that the answer to @r carries; 1: it is another message; 2: there is none. */
static int error_of(struct socket *s, const struct request *r)
{
	static uint8_t buf[4096];
	struct linux_nlmsghdr h;
	struct linux_nlmsgerr e;
	ssize_t got;

	if (send_bytes(s, r, r->h.len) != (ssize_t)r->h.len)
		return 3;
	got = recv_bytes(s, buf, sizeof(buf), 0);
	if (got < (ssize_t)(HEADER + sizeof(e)))
		return 2;
	memcpy(&h, buf, HEADER);
	memcpy(&e, buf + HEADER, sizeof(e));
	return h.type == NLMSG_ERROR ? e.error : 1;
}

/* Append an attribute to the request, behind a header of @header bytes. */
static struct request with(struct request r, uint32_t header, uint16_t type, const void *data,
			   uint16_t len)
{
	const struct linux_rtattr a = { (uint16_t)(sizeof(a) + len), type };

	memcpy(r.body + header, &a, sizeof(a));
	memcpy(r.body + header + sizeof(a), data, len);
	r.h.len = (uint32_t)HEADER + header + a.len;
	return r;
}

static void single_requests_and_errors(struct ktest *t)
{
	const struct request link = request(RTM_GETLINK, 0, AF_UNSPEC, 16);
	const struct request route = request(RTM_GETROUTE, 0, AF_INET, 12);
	const uint8_t own[4] = { 10, 1, 2, 15 }, other[4] = { 10, 1, 3, 9 }, half[2] = { 10, 1 };
	struct request by_index = link;
	const int32_t index = 2, none = 77;
	const struct {
		struct request r;
		int want;
	} rows[] = {
		{ link, -EINVAL },
		{ with(link, 16, IFLA_IFNAME, "eth0", 5), 1 },
		{ with(link, 16, IFLA_IFNAME, "eth0", 4), 1 },
		{ with(link, 16, IFLA_ALT_IFNAME, "lo", 3), 1 },
		{ with(link, 16, IFLA_IFNAME, "eth7", 5), -ENODEV },
		{ with(link, 16, IFLA_IFNAME, "0123456789abcdef", 16), -ERANGE },
		{ request(RTM_GETLINK, 0, AF_UNSPEC, 15), -EINVAL },
		{ request(RTM_GETADDR, 0, AF_INET, 8), -EOPNOTSUPP },
		{ with(route, 12, RTA_DST, own, 4), 1 },
		{ with(route, 12, RTA_DST, other, 4), 1 },
		{ with(route, 12, RTA_DST, half, 2), -EINVAL },
		{ with(with(route, 12, RTA_DST, other, 4), 20, RTA_OIF, &none, 4), -ENETUNREACH },
		{ request(RTM_GETROUTE, 0, AF_UNIX, 12), -EOPNOTSUPP },
		{ request(RTM_GETLINK, NLM_F_DUMP, 7, 1), -EOPNOTSUPP },
		{ request(RTM_GETADDR + 8, NLM_F_DUMP, 0, 1), -EOPNOTSUPP },
		{ request(RTM_NEWADDR, 0, AF_INET, 8), -EOPNOTSUPP },
		{ request(124, 0, AF_INET, 8), -EOPNOTSUPP },
		{ request(RTM_GETLINK, NLM_F_ACK, 0, 0), 0 },
		{ request(RTM_GETLINK, 0, 0, 0), 2 },
	};
	struct socket *s = netlink_socket();
	struct request r;

	memcpy(by_index.body + offsetof(struct linux_ifinfomsg, index), &index, sizeof(index));
	EXPECT_EQ(t, error_of(s, &by_index), 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		EXPECT_EQ(t, error_of(s, &rows[i].r), rows[i].want);
	fake_task(1); /* a user asks, and changes nothing */
	r = request(RTM_NEWADDR, 0, AF_INET, 8);
	EXPECT_EQ(t, error_of(s, &r), -EPERM);
	EXPECT_EQ(t, error_of(s, &by_index), 1);
	/* An attribute that says more than there is. */
	r = with(link, 16, IFLA_IFNAME, "eth0", 5);
	r.body[16] = 10;
	EXPECT_EQ(t, error_of(s, &r), -EINVAL);
	r.body[16] = 3;
	EXPECT_EQ(t, error_of(s, &r), -EINVAL);
	socket_drop(s);
}

/* Broken framing is passed over, as on Linux; an error repeats its request, unless told not to. */
static void framing(struct ktest *t)
{
	struct socket *s = netlink_socket();
	struct request r = request(RTM_GETLINK, 0, AF_UNSPEC, 16);
	uint8_t buf[256];
	const uint32_t on = 1;

	EXPECT_EQ(t, send_bytes(s, &r, 15), 15);
	r.h.len = 15;
	EXPECT_EQ(t, send_bytes(s, &r, 32), 32);
	r.h.len = 33;
	EXPECT_EQ(t, send_bytes(s, &r, 32), 32);
	EXPECT_EQ(t, recv_bytes(s, buf, sizeof(buf), 0), -EAGAIN);
	EXPECT_EQ(t, send_bytes(s, &r, 0), -ENODATA);
	r.h.len = 32;
	EXPECT_EQ(t, send_bytes(s, &r, 32), 32);
	EXPECT_EQ(t, recv_bytes(s, buf, 4, MSG_PEEK | MSG_TRUNC), 16 + 4 + 32);
	EXPECT_EQ(t, recv_bytes(s, buf, sizeof(buf), 0), 16 + 4 + 32);
	EXPECT_TRUE(t, !memcmp(buf + 20, &r, 32));
	EXPECT_EQ(t, s->ops->setsockopt(s, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on)), 0);
	EXPECT_EQ(t, send_bytes(s, &r, 32), 32);
	EXPECT_EQ(t, recv_bytes(s, buf, sizeof(buf), 0), 16 + 4 + 16);
	socket_drop(s);
}

/* A program that asks and does not read loses answers and is told; it keeps a bounded queue. */
static void a_full_queue_loses_answers(struct ktest *t)
{
	struct socket *s = netlink_socket();
	const int64_t memory = sock_memory();
	const struct request r = request(RTM_GETLINK, NLM_F_DUMP, AF_UNSPEC, 16);
	static uint8_t buf[4096];

	s->rcvbuf = 5000;
	for (int i = 0; i < 100; i++)
		EXPECT_EQ(t, send_bytes(s, &r, r.h.len), r.h.len);
	EXPECT_TRUE(t, s->queued < 10000);
	EXPECT_TRUE(t, s->ops->poll(s) & POLLERR);
	EXPECT_EQ(t, recv_bytes(s, buf, sizeof(buf), 0), -ENOBUFS);
	EXPECT_TRUE(t, recv_bytes(s, buf, sizeof(buf), 0) > 0);
	socket_drop(s);
	EXPECT_EQ(t, sock_memory(), memory);
}

static struct sock_addr name_of(uint32_t port, uint32_t groups)
{
	struct sock_addr addr = { .len = sizeof(addr.nl) };

	addr.nl = (struct linux_sockaddr_nl){ .family = AF_NETLINK, .pid = port, .groups = groups };
	return addr;
}

static void port_ids(struct ktest *t)
{
	struct socket *a = netlink_socket(), *b = netlink_socket();
	struct sock_addr any = name_of(0, 0), got, five = name_of(5, 0), six = name_of(6, 0),
			 group = name_of(0, 1), cut = five;
	uint32_t protocol = 15;

	EXPECT_EQ(t, a->ops->bind(a, &five), 0);
	EXPECT_EQ(t, a->ops->bind(a, &five), 0);
	EXPECT_EQ(t, a->ops->bind(a, &six), -EINVAL);
	EXPECT_EQ(t, b->ops->bind(b, &five), -EADDRINUSE);
	EXPECT_EQ(t, b->ops->bind(b, &group), -EOPNOTSUPP);
	cut.len--;
	EXPECT_EQ(t, b->ops->bind(b, &cut), -EINVAL);
	EXPECT_EQ(t, b->ops->bind(b, &any), 0);
	EXPECT_EQ(t, b->ops->getname(b, false, &got), 0);
	EXPECT_TRUE(t, got.nl.pid && got.nl.pid != 5 && got.len == 12);
	EXPECT_EQ(t, b->ops->connect(b, &any, false), 0);
	EXPECT_EQ(t, b->ops->connect(b, &five, false), -EOPNOTSUPP);
	fake_task(1);
	EXPECT_EQ(t, b->ops->connect(b, &five, false), -EPERM);
	socket_drop(a);
	a = netlink_socket();
	EXPECT_EQ(t, a->ops->bind(a, &five), 0);
	socket_drop(a);
	socket_drop(b);
	EXPECT_TRUE(t, IS_ERR(socket_family_find(AF_NETLINK)->choose(SOCK_RAW, &protocol)));
	protocol = 0;
	EXPECT_TRUE(t, IS_ERR(socket_family_find(AF_NETLINK)->choose(SOCK_STREAM, &protocol)));
}

static const struct ktest_case cases[] = {
	KTEST(dumps_end_and_come_in_parts),
	KTEST(an_address_is_as_linux_has_it),
	KTEST(single_requests_and_errors),
	KTEST(framing),
	KTEST(a_full_queue_loses_answers),
	KTEST(port_ids),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "socket.netlink", .cases = cases };
KTEST_SUITE(suite);
