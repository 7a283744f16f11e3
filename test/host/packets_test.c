/* SPDX-License-Identifier: MIT */
/*
 * Packets of UDP inside one processor: what ancillary data and options say of them is what their
 * receivers are told, and their senders hear of errors.
 */
#include <abi/in.h>
#include <abi/poll.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/socket/cmsg.h>
#include <processor/socket/inet_private.h>
#include <processor/socket/queue.h>
#include <processor/vfs/uio.h>

#include "gateway_fake.h"
#include "ipc_fake.h"
#include "remote_fake.h"

#define BOX     6100u
#define NOBODYS 5001u /* as in gateway_test.c */
#define HERE    0x7f000001u
#define CARD    0x0a00020fu
#define AWAY    0x0a010101u

static struct sock_addr name4(uint32_t addr, uint16_t port)
{
	struct sock_addr name = address(port);

	name.in.addr = __builtin_bswap32(addr);
	return name;
}

static struct socket *udp(uint16_t port)
{
	struct socket *s = socket_create(&udp_ops, AF_INET, SOCK_DGRAM, SOL_UDP);
	const struct sock_addr name = name4(0, port);

	return port && s->ops->bind(s, &name) ? NULL : s;
}

static int set_int(struct socket *s, int option, int val)
{
	return s->ops->setsockopt(s, SOL_IP, option, &val, sizeof(val));
}

static struct inet_wish from4(uint32_t addr, uint32_t interface)
{
	struct inet_wish w = { .has = INET_WISH_FROM, .interface = interface };
	const uint32_t in = __builtin_bswap32(addr);

	inet_map_v4(&in, w.from);
	return w;
}

static ssize_t send_wish(struct socket *s, uint32_t addr, uint16_t port, struct inet_wish w,
			 uint32_t flags)
{
	struct socket_msg m = { .addr = name4(addr, port), .wish4 = w, .flags = flags };
	struct uio u;

	uio_kernel(&u, (void *)(uintptr_t)"abc", 3);
	m.uio = &u;
	return s->ops->sendmsg(s, &m);
}

/* The packet of the next datagram. */
static struct inet_packet next(struct ktest *t, struct socket *s)
{
	struct socket_msg m = { .flags = MSG_DONTWAIT };
	struct uio u;
	char buf[16];

	uio_kernel(&u, buf, sizeof(buf));
	m.uio = &u;
	EXPECT_GE(t, s->ops->recvmsg(s, &m), 0);
	EXPECT_TRUE(t, m.has_packet);
	return m.packet;
}

static uint32_t addr_of(const struct inet_name *name)
{
	uint32_t addr;

	memcpy(&addr, name->addr + 12, sizeof(addr));
	return __builtin_bswap32(addr);
}

/* The source of the next datagram. */
static uint32_t next_source(struct ktest *t, struct socket *s)
{
	const struct inet_packet p = next(t, s);

	return addr_of(&p.from);
}

static void nothing_is_left(struct ktest *t)
{
	EXPECT_EQ(t, outside_open_ports(), 0);
	EXPECT_EQ(t, sock_memory(), 0);
	outside_card(false);
}

static void wishes_are_told(struct ktest *t)
{
	const struct inet_wish both = { .has = INET_WISH_TTL | INET_WISH_TOS, .ttl = 3, .tos = 8 };
	const struct inet_wish none = { 0 };
	struct inet_packet p;
	struct socket *a, *s;

	fake_task(0);
	a = udp(BOX);
	s = udp(0);
	EXPECT_EQ(t, send_wish(s, HERE, BOX, none, 0), 3);
	p = next(t, a);
	EXPECT_EQ(t, p.ttl, 64);
	EXPECT_EQ(t, p.tos, 0);
	EXPECT_EQ(t, p.interface, 1);
	EXPECT_EQ(t, addr_of(&p.from), HERE);
	EXPECT_EQ(t, addr_of(&p.to), HERE);
	EXPECT_EQ(t, p.to.port, BOX);
	EXPECT_EQ(t, set_int(s, IP_TTL, 9), 0);
	EXPECT_EQ(t, set_int(s, IP_TOS, 16), 0);
	EXPECT_EQ(t, send_wish(s, HERE, BOX, none, 0), 3);
	p = next(t, a);
	EXPECT_EQ(t, p.ttl, 9);
	EXPECT_EQ(t, p.tos, 16);
	EXPECT_EQ(t, send_wish(s, HERE, BOX, both, 0), 3);
	p = next(t, a);
	EXPECT_EQ(t, p.ttl, 3);
	EXPECT_EQ(t, p.tos, 8);
	EXPECT_EQ(t, set_int(s, IP_TTL, -1), 0);
	EXPECT_EQ(t, set_int(s, IP_TOS, 0), 0);
	/* Of several calls the first one says it. */
	EXPECT_EQ(t, send_wish(s, HERE, BOX, both, MSG_MORE), 3);
	EXPECT_EQ(t, send_wish(s, HERE, BOX, none, 0), 3);
	EXPECT_EQ(t, next(t, a).ttl, 3);
	socket_drop(a);
	socket_drop(s);
	nothing_is_left(t);
}

static void sources_are_the_vnodes(struct ktest *t)
{
	struct socket *a, *s;

	fake_task(0);
	outside_card(true);
	a = udp(BOX);
	s = udp(0);
	EXPECT_EQ(t, send_wish(s, HERE, BOX, from4(HERE + 6, 0), 0), 3);
	EXPECT_EQ(t, next_source(t, a), HERE + 6);
	EXPECT_EQ(t, send_wish(s, HERE, BOX, from4(CARD, 0), 0), 3);
	EXPECT_EQ(t, next_source(t, a), CARD);
	EXPECT_EQ(t, send_wish(s, HERE, BOX, from4(AWAY, 0), 0), -EINVAL);
	EXPECT_EQ(t, send_wish(s, HERE, BOX, from4(0, 2), 0), 3);
	EXPECT_EQ(t, next(t, a).interface, 2);
	EXPECT_EQ(t, send_wish(s, HERE, BOX, from4(0, 7), 0), -ENODEV);
	/* Outside: from the card's address, by the card. */
	EXPECT_EQ(t, send_wish(s, AWAY, OUT_ECHO, from4(CARD, 2), 0), 3);
	EXPECT_EQ(t, next(t, s).interface, 2);
	EXPECT_EQ(t, send_wish(s, AWAY, OUT_ECHO, from4(HERE, 0), 0), -EINVAL);
	EXPECT_EQ(t, send_wish(s, AWAY, OUT_ECHO, from4(0, 1), 0), -ENETUNREACH);
	socket_drop(a);
	socket_drop(s);
	nothing_is_left(t);
}

/* A datagram says how many were lost before it. */
static void losses_are_counted(struct ktest *t)
{
	const struct inet_wish none = { 0 };
	struct socket *a, *s;
	uint32_t lost;

	fake_task(0);
	a = udp(BOX);
	s = udp(0);
	a->rcvbuf = 2048;
	EXPECT_EQ(t, send_wish(s, HERE, BOX, none, 0), 3);
	EXPECT_EQ(t, next(t, a).drops, 0);
	for (int i = 0; i < 100; i++)
		EXPECT_EQ(t, send_wish(s, HERE, BOX, none, 0), 3);
	lost = a->drops;
	EXPECT_GT(t, lost, 0);
	for (uint32_t i = lost; i < 100; i++)
		EXPECT_EQ(t, next(t, a).drops, 0);
	EXPECT_EQ(t, send_wish(s, HERE, BOX, none, 0), 3);
	EXPECT_EQ(t, next(t, a).drops, lost);
	socket_drop(a);
	socket_drop(s);
	nothing_is_left(t);
}

/* The next error: its bytes; -EAGAIN. */
static ssize_t next_error(struct socket *s, struct socket_msg *m, void *buf, size_t len)
{
	struct uio u;

	*m = (struct socket_msg){ .flags = MSG_ERRQUEUE, .wants_addr = true };
	uio_kernel(&u, buf, len);
	m->uio = &u;
	return s->ops->recv_error(s, m);
}

/* One of a port that no socket has, at @offender. */
static void is_refused(struct ktest *t, struct socket *s, uint32_t offender, uint16_t port)
{
	struct socket_msg m;
	char buf[8];

	EXPECT_TRUE(t, s->ops->poll(s) & POLLERR);
	EXPECT_EQ(t, s->error, ECONNREFUSED);
	EXPECT_EQ(t, next_error(s, &m, buf, sizeof(buf)), 3);
	EXPECT_EQ(t, memcmp(buf, "abc", 3), 0);
	EXPECT_EQ(t, m.told, MSG_ERRQUEUE);
	EXPECT_EQ(t, m.error.err, ECONNREFUSED);
	EXPECT_EQ(t, m.error.origin, SO_EE_ORIGIN_ICMP);
	EXPECT_EQ(t, m.error.type, 3);
	EXPECT_EQ(t, m.error.code, 3);
	EXPECT_EQ(t, addr_of(&m.packet.from), offender);
	EXPECT_EQ(t, __builtin_bswap16(m.addr.in.port), port);
	EXPECT_FALSE(t, s->ops->poll(s) & POLLERR);
	EXPECT_EQ(t, next_error(s, &m, buf, sizeof(buf)), -EAGAIN);
}

static void errors_come_back(struct ktest *t)
{
	const struct inet_wish none = { 0 };
	const struct sock_addr away = name4(AWAY, OUT_REFUSES);
	struct socket_msg m;
	struct socket *s;
	char buf[8];

	fake_task(0);
	outside_card(true);
	EXPECT_EQ(t, outside_port_init(), 0);
	s = udp(0);
	/* Unasked for, and not connected: nothing. */
	EXPECT_EQ(t, send_wish(s, HERE, NOBODYS, none, 0), 3);
	EXPECT_EQ(t, send_wish(s, AWAY, OUT_REFUSES, none, 0), 3);
	EXPECT_FALSE(t, s->ops->poll(s) & POLLERR);
	EXPECT_EQ(t, next_error(s, &m, buf, sizeof(buf)), -EAGAIN);
	EXPECT_EQ(t, set_int(s, IP_RECVERR, 1), 0);
	EXPECT_EQ(t, send_wish(s, HERE, NOBODYS, none, 0), 3);
	is_refused(t, s, HERE, NOBODYS);
	EXPECT_EQ(t, send_wish(s, AWAY, OUT_REFUSES, none, 0), 3);
	is_refused(t, s, AWAY, OUT_REFUSES);
	/* Connected: the pending error alone, unless it is asked for. */
	EXPECT_EQ(t, set_int(s, IP_RECVERR, 0), 0);
	EXPECT_EQ(t, s->ops->connect(s, &away, false), 0);
	EXPECT_EQ(t, give(s, "abc", 3, 0), 3);
	EXPECT_EQ(t, next_error(s, &m, buf, sizeof(buf)), -EAGAIN);
	EXPECT_EQ(t, socket_take_error(s), ECONNREFUSED);
	socket_drop(s);
	nothing_is_left(t);
}

/* A router on the way to AWAY says that a packet was too large. */
static int too_big(struct socket *s)
{
	const struct sock_addr away = name4(AWAY, OUT_ECHO);
	struct inet_error e = { .type = 3, .code = 4, .info = 1400 };

	inet_map_v4(&away.in.addr, e.dest.addr);
	inet_error_tell(s, &e, NULL);
	return socket_take_error(s);
}

/* Sizes are for good, unless the program leaves them to the routers. */
static void sizes_are_told(struct ktest *t)
{
	const struct sock_addr away = name4(AWAY, OUT_ECHO);
	const uint8_t doc[16] = { 0x20, 1, 0x0d, 0xb8, [15] = 1 };
	struct inet_error e = { .type = 1, .code = 9 };
	struct socket *s;

	fake_task(0);
	outside_card(true);
	s = udp(0);
	EXPECT_EQ(t, too_big(s), 0);
	EXPECT_EQ(t, s->ops->connect(s, &away, false), 0);
	EXPECT_EQ(t, too_big(s), EMSGSIZE);
	EXPECT_EQ(t, set_int(s, IP_MTU_DISCOVER, 0), 0);
	EXPECT_EQ(t, too_big(s), 0);
	EXPECT_EQ(t, set_int(s, IP_RECVERR, 1), 0);
	EXPECT_EQ(t, too_big(s), 0);
	EXPECT_EQ(t, set_int(s, IP_MTU_DISCOVER, 1), 0);
	EXPECT_EQ(t, too_big(s), EMSGSIZE);
	/* Of IPv6 codes that nobody knows are, too. */
	memcpy(e.dest.addr, doc, sizeof(doc));
	inet_error_tell(s, &e, NULL);
	EXPECT_EQ(t, socket_take_error(s), EPROTO);
	socket_drop(s);
	nothing_is_left(t);
}

/* Errors that nobody reads are bounded, and go with the option or the socket. */
static void errors_are_bounded(struct ktest *t)
{
	const struct inet_wish none = { 0 };
	int64_t before;
	struct socket *s;

	fake_task(0);
	s = udp(0);
	s->rcvbuf = 4096;
	before = sock_memory();
	EXPECT_EQ(t, set_int(s, IP_RECVERR, 1), 0);
	for (int i = 0; i < 1000; i++) {
		EXPECT_EQ(t, send_wish(s, HERE, NOBODYS, none, 0), 3);
		(void)socket_take_error(s);
	}
	EXPECT_GT(t, sock_memory(), before);
	EXPECT_LE(t, sock_memory(), before + 4096);
	EXPECT_EQ(t, set_int(s, IP_RECVERR, 0), 0);
	EXPECT_EQ(t, sock_memory(), before);
	EXPECT_FALSE(t, s->ops->poll(s) & POLLERR);
	EXPECT_EQ(t, set_int(s, IP_RECVERR, 1), 0);
	EXPECT_EQ(t, send_wish(s, HERE, NOBODYS, none, 0), 3);
	socket_drop(s);
	nothing_is_left(t);
}

static int set_tcp(struct socket *s, int level, int option, int val)
{
	return s->ops->setsockopt(s, level, option, &val, sizeof(val));
}

/* Options that were set before connect() are the connection's, too. */
static void options_reach_the_stack(struct ktest *t)
{
	const struct sock_addr to = name4(AWAY, OUT_ECHO);
	struct socket *s;

	fake_task(0);
	outside_card(true);
	s = socket_create(&tcp_ops, AF_INET, SOCK_STREAM, SOL_TCP);
	EXPECT_EQ(t, set_tcp(s, SOL_TCP, TCP_NODELAY, 1), 0);
	EXPECT_EQ(t, set_tcp(s, SOL_TCP, TCP_USER_TIMEOUT, 1234), 0);
	EXPECT_EQ(t, set_tcp(s, SOL_TCP, TCP_LINGER2, -1), 0);
	EXPECT_EQ(t, set_tcp(s, SOL_IP, IP_TTL, 9), 0);
	EXPECT_EQ(t, s->ops->connect(s, &to, false), 0);
	EXPECT_EQ(t, outside_option(TCPIP_NODELAY), 1);
	EXPECT_EQ(t, outside_option(TCPIP_USER_TIMEOUT_MS), 1234);
	EXPECT_EQ(t, outside_option(TCPIP_FIN_WAIT_S), 0);
	EXPECT_EQ(t, outside_option(TCPIP_TTL), 9);
	EXPECT_EQ(t, outside_option(TCPIP_SYN_COUNT), 0); /* it was not told */
	EXPECT_EQ(t, set_tcp(s, SOL_TCP, TCP_SYNCNT, 3), 0);
	EXPECT_EQ(t, outside_option(TCPIP_SYN_COUNT), 3);
	EXPECT_EQ(t, set_tcp(s, SOL_IP, IP_TTL, -1), 0);
	EXPECT_EQ(t, outside_option(TCPIP_TTL), 64);
	socket_drop(s);
	nothing_is_left(t);
}

static unsigned int seen; /* by poll() */

static void look(void *arg)
{
	struct socket *s = arg;

	seen = s->ops->poll(s);
}

/* Another thread may see a connection before connect() has returned: it is one that is there. */
static void a_connection_is_whole_at_once(struct ktest *t)
{
	const struct sock_addr to = name4(AWAY, OUT_SILENT);
	struct socket *s;

	fake_task(0);
	outside_card(true);
	s = socket_create(&tcp_ops, AF_INET, SOCK_STREAM, SOL_TCP);
	outside_at_once(look);
	EXPECT_EQ(t, s->ops->connect(s, &to, false), 0);
	EXPECT_EQ(t, seen, POLLOUT | POLLWRNORM);
	socket_drop(s);
	nothing_is_left(t);
}

/* A datagram that the card would have to cut, and the program forbids that. */
static void a_datagram_may_be_too_large(struct ktest *t)
{
	static char big[1473];
	const struct sock_addr away = name4(AWAY, OUT_ECHO);
	struct socket_msg m;
	struct socket *s;
	char buf[8];

	fake_task(0);
	outside_card(true);
	s = udp(0);
	EXPECT_EQ(t, s->ops->connect(s, &away, false), 0);
	EXPECT_EQ(t, give(s, big, 1473, 0), 1473);
	EXPECT_EQ(t, set_int(s, IP_MTU_DISCOVER, 2), 0);
	EXPECT_EQ(t, give(s, big, 1472, 0), 1472);
	EXPECT_EQ(t, give(s, big, 1473, 0), -EMSGSIZE);
	EXPECT_EQ(t, next_error(s, &m, buf, sizeof(buf)), -EAGAIN);
	EXPECT_EQ(t, set_int(s, IP_RECVERR, 1), 0);
	EXPECT_EQ(t, give(s, big, 1473, 0), -EMSGSIZE);
	EXPECT_EQ(t, next_error(s, &m, buf, sizeof(buf)), 0);
	EXPECT_EQ(t, m.error.err, EMSGSIZE);
	EXPECT_EQ(t, m.error.origin, SO_EE_ORIGIN_LOCAL);
	EXPECT_EQ(t, m.error.info, 1500);
	EXPECT_EQ(t, socket_take_error(s), 0);
	socket_drop(s);
	nothing_is_left(t);
}

static const struct ktest_case cases[] = {
	KTEST(wishes_are_told),
	KTEST(sources_are_the_vnodes),
	KTEST(losses_are_counted),
	KTEST(errors_come_back),
	KTEST(sizes_are_told),
	KTEST(errors_are_bounded),
	KTEST(options_reach_the_stack),
	KTEST(a_connection_is_whole_at_once),
	KTEST(a_datagram_may_be_too_large),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "socket.packets", .cases = cases };
KTEST_SUITE(suite);
