/* SPDX-License-Identifier: MIT */
/*
 * A processor without a network card reaches the outside by the gateway, over simulated RDMA:
 * connections both ways, datagrams, refusals, ends, the gateway's death, hostile messages.
 *
 * Node 1 is the gateway, node 2 has the programs.
 */
#include <abi/in.h>
#include <abi/poll.h>
#include <cluster/cluster.h>
#include <ctl/ctl.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <net/node.h>
#include <net/rpc.h>
#include <processor/account/account.h>
#include <processor/client/names.h>
#include <processor/socket/gateway.h>
#include <processor/socket/inet_private.h>
#include <processor/socket/queue.h>
#include <processor/socket/remote.h>
#include <processor/socket/remote_private.h>
#include <processor/vfs/uio.h>
#include <proto/pp.h>

#include "gateway_fake.h"
#include "ipc_fake.h"
#include "memverbs/sim.h"
#include "remote_fake.h"
#include "rpc_nodes.h"
#include "socket_fake.h"

#define GATEWAY 1u
#define NOBODYS 5001u

/* --- surroundings ----------------------------------------------------------------------- */

/* The other node has each port for datagrams but NOBODYS, or so the managers think. */
int names_find(const struct vnode_name *name, uint64_t until_ns, uint32_t *node)
{
	*node = sim_node_id() == GATEWAY ? CLIENT : GATEWAY;
	return name->kind == NAME_UDP && name->port != NOBODYS ? 0 : -ECONNREFUSED;
}

size_t cluster_nodes(enum node_role role, uint32_t *ids, size_t max)
{
	for (size_t i = 0; i < max && i < 2; i++)
		ids[i] = 1 + (uint32_t)i;
	return 2;
}

/* The launcher hears that this node is the gateway. */
static int gateway_told; /* atomic */

void ctl_gateway(void)
{
	__atomic_fetch_add(&gateway_told, 1, __ATOMIC_SEQ_CST);
}

/* And its addresses: how many lists, and what the last one has. */
static int addresses_told;    /* atomic */
static uint32_t nr_addresses; /* those below: const once a list was told */
static uint8_t first_address[16];

void ctl_addresses(const uint8_t (*addrs)[16], uint32_t nr)
{
	nr_addresses = nr;
	if (nr)
		memcpy(first_address, addrs[0], sizeof(first_address));
	__atomic_fetch_add(&addresses_told, 1, __ATOMIC_SEQ_CST);
}

static void start(struct ktest *t)
{
	const bool is_gateway = sim_node_id() == GATEWAY;

	fake_task(0);
	outside_card(is_gateway);
	rpc_node_start(t, NODE_ROLE_PROCESSOR, NULL, 0);
	ASSERT_EQ(t, remote_init(), 0);
	ASSERT_EQ(t, gateway_init(), 0);
	peer_add_role(t, is_gateway ? CLIENT : GATEWAY, NODE_ROLE_PROCESSOR);
	sim_cmd("barrier 0 2");
	gateway_view_changed();
}

static struct sock_addr outside(uint8_t net, uint16_t port)
{
	struct sock_addr addr = address(port);

	addr.in.addr = __builtin_bswap32((uint32_t)net << 24 | 0x010101u);
	return addr;
}

static int dial(struct socket *s, uint8_t net, uint16_t port, bool nonblock)
{
	const struct sock_addr addr = outside(net, port);

	return s->ops->connect(s, &addr, nonblock);
}

/* The gateway has told of its card. */
static void wait_gateway(struct ktest *t)
{
	uint32_t node = 0, incarn;

	for (int i = 0; i < 5000 && !gateway_find(&node, &incarn); i++)
		pause_us(1000);
	ASSERT_EQ(t, node, GATEWAY);
}

static void relays_gone(struct ktest *t)
{
	for (int i = 0; i < 5000 && counter_of("gateway.connections"); i++)
		pause_us(1000);
	EXPECT_EQ(t, counter_of("gateway.connections"), 0);
	for (int i = 0; i < 5000 && outside_open_ports(); i++)
		pause_us(1000);
	EXPECT_EQ(t, outside_open_ports(), 0);
	nothing_left(t);
}

/* The gateway's part of most cases: it has no programs. */
static void serving(struct ktest *t)
{
	start(t);
	sim_cmd("barrier 1 2");
	sim_cmd("barrier 8 2");
	relays_gone(t);
}

static void joined(struct ktest *t)
{
	start(t);
	sim_cmd("barrier 1 2");
	wait_gateway(t);
}

static void left(struct ktest *t)
{
	sim_cmd("barrier 8 2");
	nothing_left(t);
}

/* --- connections to the outside ---------------------------------------------------------- */

#define ECHO_BYTES 400000u

static void echo_thread(void *arg)
{
	struct socket *s = arg;
	static uint8_t buf[30000];

	fake_task(0);
	for (size_t at = 0; at < ECHO_BYTES;) {
		const size_t len = MIN(sizeof(buf) - at % 1000, ECHO_BYTES - at);

		for (size_t i = 0; i < len; i++)
			buf[i] = outside_byte(at + i);
		if (give(s, buf, len, 0) != (ssize_t)len)
			break;
		at += len;
	}
	(void)s->ops->shutdown(s, SHUT_WR);
}

/* All bytes until the end, which are outside_byte()s. */
static size_t read_all(struct ktest *t, struct socket *s)
{
	static uint8_t buf[50000];
	size_t at = 0, wrong = 0;
	ssize_t n;

	while ((n = take(s, buf, sizeof(buf), 0)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			wrong += buf[i] != outside_byte(at + (size_t)i);
		at += (size_t)n;
	}
	EXPECT_EQ(t, n, 0);
	EXPECT_EQ(t, wrong, 0);
	return at;
}

static void connecting_client(struct ktest *t)
{
	struct sock_addr name;
	struct thread *th;
	struct socket *s;
	char b;

	joined(t);
	/* Both ways at once, more than fits anywhere. */
	s = make();
	ASSERT_EQ(t, dial(s, 10, OUT_ECHO, false), 0);
	EXPECT_EQ(t, s->ops->getname(s, false, &name), 0);
	EXPECT_EQ(t, __builtin_bswap32(name.in.addr), 0x0a00020f);
	EXPECT_EQ(t, s->ops->getname(s, true, &name), 0);
	EXPECT_EQ(t, __builtin_bswap32(name.in.addr), 0x0a010101);
	th = thread_create("echo", echo_thread, s);
	ASSERT_FALSE(t, IS_ERR(th));
	thread_detach(th);
	EXPECT_EQ(t, read_all(t, s), ECHO_BYTES);
	socket_drop(s);
	/* The outside ends first. */
	s = make();
	ASSERT_EQ(t, dial(s, 10, OUT_MANY, false), 0);
	EXPECT_EQ(t, read_all(t, s), OUT_MANY_BYTES);
	EXPECT_EQ(t, give(s, "a", 1, 0), 1);
	socket_drop(s);
	/* It resets. */
	s = make();
	ASSERT_EQ(t, dial(s, 10, OUT_RESETS, false), 0);
	EXPECT_EQ(t, give(s, "a", 1, 0), 1);
	EXPECT_EQ(t, take(s, &b, 1, 0), -ECONNRESET);
	socket_drop(s);
	left(t);
}

static void bytes_go_both_ways(struct ktest *t)
{
	run(t, serving, connecting_client);
}

static void refused_outside_client(struct ktest *t)
{
	struct socket *s;

	start(t);
	sim_cmd("barrier 1 2");
	wait_gateway(t);
	s = make();
	EXPECT_EQ(t, dial(s, 10, OUT_REFUSES, false), -ECONNREFUSED);
	EXPECT_EQ(t, dial(s, 10, OUT_NO_WAY, false), -EHOSTUNREACH);
	EXPECT_EQ(t, dial(s, 192, OUT_ECHO, false), -ENETUNREACH);
	/* After that it can connect. */
	EXPECT_EQ(t, dial(s, 10, OUT_ECHO, false), 0);
	EXPECT_EQ(t, dial(s, 10, OUT_ECHO, false), -EISCONN);
	socket_drop(s);
	/* Without waiting. */
	s = make();
	EXPECT_EQ(t, dial(s, 10, OUT_REFUSES, true), -EINPROGRESS);
	EXPECT_EQ(t, dial(s, 10, OUT_REFUSES, true), -EALREADY);
	for (int i = 0; i < 5000 && !(s->ops->poll(s) & POLLERR); i++)
		pause_us(1000);
	EXPECT_EQ(t, socket_take_error(s), ECONNREFUSED);
	socket_drop(s);
	/* One that never answers is given up. */
	s = make();
	EXPECT_EQ(t, dial(s, 10, OUT_SILENT, true), -EINPROGRESS);
	pause_us(50000);
	EXPECT_EQ(t, s->ops->poll(s) & POLLOUT, 0);
	socket_drop(s);
	left(t);
}

static void what_the_outside_says_is_told(struct ktest *t)
{
	run(t, serving, refused_outside_client);
}

/* A program that is gone leaves nothing open outside, also after it had ended its bytes. */
static void closing_server(struct ktest *t)
{
	start(t);
	sim_cmd("barrier 1 2");
	sim_cmd("barrier 2 2");
	for (int i = 0; i < 5000 && counter_of("gateway.connections"); i++)
		pause_us(1000);
	EXPECT_EQ(t, counter_of("gateway.connections"), 0);
	EXPECT_EQ(t, outside_last_closed(OUT_DIALLED + 100), 1);
	EXPECT_EQ(t, outside_last_closed(OUT_DIALLED + 101), 2);
	sim_cmd("barrier 8 2");
	relays_gone(t);
}

static void closing_client(struct ktest *t)
{
	struct socket *s;

	joined(t);
	s = make();
	ASSERT_EQ(t, dial(s, 10, OUT_DIALLED + 100, false), 0);
	EXPECT_EQ(t, give(s, "abc", 3, 0), 3);
	EXPECT_EQ(t, s->ops->shutdown(s, SHUT_WR), 0);
	pause_us(50000);
	socket_drop(s);
	/* The same with SO_LINGER of 0. */
	s = make();
	ASSERT_EQ(t, dial(s, 10, OUT_DIALLED + 101, false), 0);
	s->options |= SOCKET_LINGER;
	s->linger_s = 0;
	socket_drop(s);
	sim_cmd("barrier 2 2");
	left(t);
}

static void a_close_reaches_the_outside(struct ktest *t)
{
	run(t, closing_server, closing_client);
}

/* --- connections from outside ------------------------------------------------------------- */

static void dialling_server(struct ktest *t)
{
	struct tcpip_conn *c, *reset;
	char buf[8] = { 0 };

	start(t);
	sim_cmd("barrier 1 2");
	EXPECT_TRUE(t, !outside_dial(8080));
	sim_cmd("barrier 2 2");
	/* It listens. */
	c = outside_dial(8080);
	ASSERT_TRUE(t, c != NULL);
	outside_says(c, "hello", 5, true);
	for (int i = 0; i < 5000 && outside_heard(c, buf, sizeof(buf)) < 5; i++)
		pause_us(1000);
	EXPECT_EQ(t, memcmp(buf, "world", 5), 0);
	for (int i = 0; i < 5000 && !outside_closed(c); i++)
		pause_us(1000);
	EXPECT_EQ(t, outside_closed(c), 1);
	/* It is closed with a byte unread. */
	reset = outside_dial(8080);
	ASSERT_TRUE(t, reset != NULL);
	outside_says(reset, "hello", 5, false);
	for (int i = 0; i < 5000 && !outside_closed(reset); i++)
		pause_us(1000);
	EXPECT_EQ(t, outside_closed(reset), 2);
	sim_cmd("barrier 3 2");
	/* It does not listen any more. */
	for (int i = 0; i < 5000 && outside_open_ports(); i++)
		pause_us(1000);
	EXPECT_TRUE(t, !outside_dial(8080));
	sim_cmd("barrier 8 2");
	EXPECT_EQ(t, counter_of("gateway.accepted"), 2);
	relays_gone(t);
}

static void listening_client(struct ktest *t)
{
	struct sock_addr addr = address(8080);
	struct socket *l, *s;
	char buf[8];

	joined(t);
	addr.in.addr = 0;
	l = make();
	EXPECT_EQ(t, l->ops->bind(l, &addr), 0);
	EXPECT_EQ(t, l->ops->listen(l, 5), 0);
	sim_cmd("barrier 2 2");
	s = l->ops->accept(l, false);
	ASSERT_FALSE(t, IS_ERR(s));
	EXPECT_EQ(t, s->ops->getname(s, true, &addr), 0);
	EXPECT_EQ(t, __builtin_bswap32(addr.in.addr), 0x0a010101);
	EXPECT_EQ(t, __builtin_bswap16(addr.in.port), 4000);
	EXPECT_EQ(t, s->ops->getname(s, false, &addr), 0);
	EXPECT_EQ(t, __builtin_bswap32(addr.in.addr), 0x0a00020f);
	EXPECT_EQ(t, take(s, buf, sizeof(buf), MSG_WAITALL), 5);
	EXPECT_EQ(t, memcmp(buf, "hello", 5), 0);
	EXPECT_EQ(t, give(s, "world", 5, 0), 5);
	socket_drop(s);
	s = l->ops->accept(l, false);
	ASSERT_FALSE(t, IS_ERR(s));
	while (!READ_ONCE(s->readable))
		pause_us(100);
	socket_drop(s);
	socket_drop(l);
	sim_cmd("barrier 3 2");
	left(t);
}

static void the_outside_connects(struct ktest *t)
{
	run(t, dialling_server, listening_client);
}

/* --- options ------------------------------------------------------------------------------ */

static void wait_option(struct ktest *t, enum tcpip_option option, uint32_t value)
{
	for (int i = 0; i < 5000 && outside_option(option) != value; i++)
		pause_us(1000);
	EXPECT_EQ(t, outside_option(option), value);
}

static void options_server(struct ktest *t)
{
	start(t);
	sim_cmd("barrier 1 2");
	wait_option(t, TCPIP_USER_TIMEOUT_MS, 1234);
	wait_option(t, TCPIP_KEEPALIVE, 1);
	wait_option(t, TCPIP_KEEP_IDLE_S, 60);
	wait_option(t, TCPIP_TTL, 9);
	wait_option(t, TCPIP_NODELAY, 0);
	sim_cmd("barrier 2 2");
	wait_option(t, TCPIP_USER_TIMEOUT_MS, 4321);
	wait_option(t, TCPIP_NODELAY, 1);
	sim_cmd("barrier 3 2");
	sim_cmd("barrier 8 2");
	relays_gone(t);
}

static int set_option(struct socket *s, int level, int option, int value)
{
	return s->ops->setsockopt(s, level, option, &value, sizeof(value));
}

static void options_client(struct ktest *t)
{
	const struct sock_addr to = outside(10, OUT_ECHO);
	struct socket *s;

	joined(t);
	s = socket_create(&tcp_ops, AF_INET, SOCK_STREAM, SOL_TCP);
	s->options |= SOCKET_KEEPALIVE;
	EXPECT_EQ(t, set_option(s, SOL_TCP, TCP_USER_TIMEOUT, 1234), 0);
	EXPECT_EQ(t, set_option(s, SOL_TCP, TCP_KEEPIDLE, 60), 0);
	EXPECT_EQ(t, set_option(s, SOL_IP, IP_TTL, 9), 0);
	EXPECT_EQ(t, s->ops->connect(s, &to, false), 0);
	sim_cmd("barrier 2 2");
	EXPECT_EQ(t, set_option(s, SOL_TCP, TCP_USER_TIMEOUT, 4321), 0);
	EXPECT_EQ(t, set_option(s, SOL_TCP, TCP_NODELAY, 1), 0);
	sim_cmd("barrier 3 2");
	socket_drop(s);
	left(t);
}

/* The gateway's end of a connection has the options of the program's. */
static void options_go_to_the_gateway(struct ktest *t)
{
	run(t, options_server, options_client);
}

/* --- datagrams ---------------------------------------------------------------------------- */

static const size_t sizes[] = { 0, 1, 1000, PP_DATAGRAM_INLINE, PP_DATAGRAM_INLINE + 1, 65507 };

static ssize_t send_to(struct socket *s, const void *buf, size_t len, const struct sock_addr *to)
{
	struct socket_msg m = { .addr = *to };
	struct uio u;

	uio_kernel(&u, (void *)(uintptr_t)buf, len);
	m.uio = &u;
	return s->ops->sendmsg(s, &m);
}

/* TTL and TOS of a datagram go to the gateway, and what came from there comes by its card. */
static void packet_by_the_gateway(struct ktest *t, struct socket *s, const struct sock_addr *to)
{
	struct socket_msg m = {
		.addr = *to, .wish4 = { .has = INET_WISH_TTL | INET_WISH_TOS, .ttl = 9, .tos = 32 }
	};
	struct uio u;
	char buf[8] = "a";

	uio_kernel(&u, buf, 1);
	m.uio = &u;
	EXPECT_EQ(t, s->ops->sendmsg(s, &m), 1);
	uio_kernel(&u, buf, sizeof(buf));
	EXPECT_EQ(t, s->ops->recvmsg(s, &m), 1);
	EXPECT_TRUE(t, m.has_packet);
	EXPECT_EQ(t, m.packet.ttl, 9);
	EXPECT_EQ(t, m.packet.tos, 32);
	EXPECT_EQ(t, m.packet.interface, TCPIP_FIRST_IF_INDEX);
}

static void datagram_client(struct ktest *t)
{
	static uint8_t out[65507], in[65527];
	const struct sock_addr to = outside(10, OUT_ECHO), nowhere = outside(192, OUT_ECHO);
	struct socket *s;

	joined(t);
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = outside_byte(i);
	s = socket_create(&udp_ops, AF_INET, SOCK_DGRAM, SOL_UDP);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		memset(in, 0, sizeof(in));
		EXPECT_EQ(t, send_to(s, out, sizes[i], &to), (ssize_t)sizes[i]);
		EXPECT_EQ(t, take(s, in, sizeof(in), 0), (ssize_t)sizes[i]);
		EXPECT_EQ(t, memcmp(in, out, sizes[i]), 0);
	}
	packet_by_the_gateway(t, s, &to);
	/* There the gateway alone knows that there is no way. */
	EXPECT_EQ(t, send_to(s, out, 1, &nowhere), 1);
	/* One that is connected has the vNode's address. */
	EXPECT_EQ(t, s->ops->connect(s, &to, false), 0);
	EXPECT_EQ(t, give(s, "a", 1, 0), 1);
	EXPECT_EQ(t, take(s, in, sizeof(in), 0), 1);
	socket_drop(s);
	left(t);
}

static void datagrams_go_both_ways(struct ktest *t)
{
	run(t, serving, datagram_client);
}

/* The gateway's part: from where the stack was told to send. */
static void sources_server(struct ktest *t)
{
	static const uint8_t card[16] = { [10] = 0xff, 0xff, 10, 0, 2, 15 }, none[16];

	start(t);
	sim_cmd("barrier 1 2");
	for (unsigned int i = 0; i < 3; i++) {
		struct tcpip_name from;

		sim_cmd("barrier 2 2");
		from = outside_sent_from();
		EXPECT_EQ(t, memcmp(from.addr, i ? card : none, sizeof(none)), 0);
		sim_cmd("barrier 3 2");
	}
	sim_cmd("barrier 8 2");
	relays_gone(t);
}

static void echoes(struct ktest *t, struct socket *s)
{
	const struct sock_addr to = outside(10, OUT_ECHO);
	char b;

	EXPECT_EQ(t, send_to(s, "a", 1, &to), 1);
	EXPECT_EQ(t, take(s, &b, 1, 0), 1);
	sim_cmd("barrier 2 2");
	sim_cmd("barrier 3 2");
}

static void sources_client(struct ktest *t)
{
	const struct sock_addr to = outside(10, OUT_ECHO);
	struct sock_addr name = address(5353);
	struct socket *s;

	joined(t);
	/* The stack knows the way, and what suits it. */
	s = socket_create(&udp_ops, AF_INET, SOCK_DGRAM, SOL_UDP);
	echoes(t, s);
	EXPECT_EQ(t, s->ops->connect(s, &to, false), 0);
	echoes(t, s);
	socket_drop(s);
	name.in.addr = __builtin_bswap32(0x0a00020fu);
	s = socket_create(&udp_ops, AF_INET, SOCK_DGRAM, SOL_UDP);
	EXPECT_EQ(t, s->ops->bind(s, &name), 0);
	echoes(t, s);
	socket_drop(s);
	/* The gateway does not serve groups of other processors. */
	name.in.addr = __builtin_bswap32(0xe00000fbu);
	s = socket_create(&udp_ops, AF_INET, SOCK_DGRAM, SOL_UDP);
	EXPECT_EQ(t, s->ops->bind(s, &name), 0);
	EXPECT_EQ(t, send_to(s, "a", 1, &to), -ENETUNREACH);
	socket_drop(s);
	left(t);
}

static void datagrams_leave_from_their_socket(struct ktest *t)
{
	run(t, sources_server, sources_client);
}

/* --- datagrams between processors --------------------------------------------------------- */

static void answering_server(struct ktest *t)
{
	const struct sock_addr addr = address(5000);
	static uint8_t buf[65527];
	struct socket *s;

	start(t);
	s = socket_create(&udp_ops, AF_INET, SOCK_DGRAM, SOL_UDP);
	EXPECT_EQ(t, s->ops->bind(s, &addr), 0);
	sim_cmd("barrier 1 2");
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct socket_msg m = { .wants_addr = true };
		struct uio u;

		uio_kernel(&u, buf, sizeof(buf));
		m.uio = &u;
		EXPECT_EQ(t, s->ops->recvmsg(s, &m), (ssize_t)sizes[i]);
		EXPECT_EQ(t, m.packet.ttl, 77); /* as the sender's option says */
		EXPECT_EQ(t, m.packet.interface, 1);
		EXPECT_EQ(t, __builtin_bswap32(m.addr.in.addr), 0x7f000001);
		EXPECT_EQ(t, send_to(s, buf, sizes[i], &m.addr), (ssize_t)sizes[i]);
	}
	sim_cmd("barrier 2 2");
	socket_drop(s);
	sim_cmd("barrier 3 2");
	sim_cmd("barrier 8 2");
	relays_gone(t);
}

/* A port that nobody has: a sender that is connected hears so. */
static void is_refused(struct ktest *t, uint16_t port)
{
	const struct sock_addr to = address(port);
	struct socket *s = socket_create(&udp_ops, AF_INET, SOCK_DGRAM, SOL_UDP);

	EXPECT_EQ(t, send_to(s, "a", 1, &to), 1);
	EXPECT_EQ(t, s->ops->connect(s, &to, false), 0);
	EXPECT_EQ(t, give(s, "a", 1, 0), 1);
	for (int i = 0; i < 5000 && !READ_ONCE(s->error); i++)
		pause_us(1000);
	EXPECT_EQ(t, give(s, "a", 1, 0), -ECONNREFUSED);
	socket_drop(s);
}

/* One that asks for errors gets its bytes back. */
static void is_told_of(struct ktest *t, uint16_t port)
{
	const struct sock_addr to = address(port);
	struct socket *s = socket_create(&udp_ops, AF_INET, SOCK_DGRAM, SOL_UDP);
	struct socket_msg m = { .flags = MSG_ERRQUEUE };
	const int on = 1;
	struct uio u;
	char buf[8];

	EXPECT_EQ(t, s->ops->setsockopt(s, SOL_IP, IP_RECVERR, &on, sizeof(on)), 0);
	EXPECT_EQ(t, send_to(s, "lost", 4, &to), 4);
	for (int i = 0; i < 5000 && !inet_has_errors(s); i++)
		pause_us(1000);
	uio_kernel(&u, buf, sizeof(buf));
	m.uio = &u;
	EXPECT_EQ(t, s->ops->recv_error(s, &m), 4);
	EXPECT_EQ(t, memcmp(buf, "lost", 4), 0);
	EXPECT_EQ(t, m.error.err, ECONNREFUSED);
	socket_drop(s);
}

static void asking_client(struct ktest *t)
{
	static uint8_t out[65507], in[65527];
	const struct sock_addr to = address(5000);
	const int ttl = 77;
	struct socket *s;

	joined(t);
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = outside_byte(i);
	s = socket_create(&udp_ops, AF_INET, SOCK_DGRAM, SOL_UDP);
	EXPECT_EQ(t, s->ops->connect(s, &to, false), 0);
	EXPECT_EQ(t, s->ops->setsockopt(s, SOL_IP, IP_TTL, &ttl, sizeof(ttl)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		EXPECT_EQ(t, give(s, out, sizes[i], 0), (ssize_t)sizes[i]);
		EXPECT_EQ(t, take(s, in, sizeof(in), 0), (ssize_t)sizes[i]);
		EXPECT_EQ(t, memcmp(in, out, sizes[i]), 0);
	}
	/* Where the port is was asked once. */
	EXPECT_LE(t, counter_of("socket.remote.datagram_finds"), 2);
	is_refused(t, NOBODYS);
	is_refused(t, 5002);
	is_told_of(t, NOBODYS);
	is_told_of(t, 5002);
	sim_cmd("barrier 2 2");
	/* The receiver is closed. */
	sim_cmd("barrier 3 2");
	EXPECT_EQ(t, give(s, "a", 1, 0), 1);
	for (int i = 0; i < 5000 && !READ_ONCE(s->error); i++)
		pause_us(1000);
	EXPECT_EQ(t, socket_take_error(s), ECONNREFUSED);
	socket_drop(s);
	left(t);
}

static void processors_send_each_other_datagrams(struct ktest *t)
{
	run(t, answering_server, asking_client);
}

/* --- the gateway dies --------------------------------------------------------------------- */

static void dying_server(struct ktest *t)
{
	start(t);
	sim_cmd("barrier 1 2");
	pause_us(30000000); /* killed meanwhile */
}

static void surviving_client(struct ktest *t)
{
	struct node_info info;
	struct socket *s, *l;
	struct sock_addr addr = address(8080);
	uint32_t node, incarn;
	char b;

	joined(t);
	addr.in.addr = 0;
	l = make();
	EXPECT_EQ(t, l->ops->bind(l, &addr), 0);
	EXPECT_EQ(t, l->ops->listen(l, 5), 0);
	s = make();
	ASSERT_EQ(t, dial(s, 10, OUT_ECHO, false), 0);
	sim_cmd("kill %u", GATEWAY);
	ASSERT_TRUE(t, rpc_peer_info(GATEWAY, &info));
	rpc_peer_remove(GATEWAY);
	remote_node_gone(GATEWAY, info.incarn);
	gateway_node_gone(GATEWAY, info.incarn);
	EXPECT_EQ(t, take(s, &b, 1, 0), -ECONNRESET);
	socket_drop(s);
	EXPECT_FALSE(t, gateway_find(&node, &incarn));
	s = make();
	EXPECT_EQ(t, dial(s, 10, OUT_ECHO, false), -ENETUNREACH);
	socket_drop(s);
	/* Ports are bound and closed as before. */
	socket_drop(l);
	l = make();
	EXPECT_EQ(t, l->ops->bind(l, &addr), 0);
	EXPECT_EQ(t, l->ops->listen(l, 5), 0);
	socket_drop(l);
	for (int i = 0; i < 5000 && kmem_count(KMEM_SOCKET_BYTES); i++)
		pause_us(1000);
	EXPECT_EQ(t, kmem_count(KMEM_SOCKET_BYTES), 0);
	for (int i = 0; i < 5000 && counter_of("socket.remote.connections"); i++)
		pause_us(1000);
	EXPECT_EQ(t, counter_of("socket.remote.connections"), 0);
}

static void a_gateway_dies(struct ktest *t)
{
	run(t, dying_server, surviving_client);
}

/* This node has a card on standby: what the gateway had is its own from then on. */
static void succeeding_client(struct ktest *t)
{
	const struct sock_addr to = outside(10, OUT_ECHO);
	struct sock_addr addr = address(8080);
	struct socket *s, *l, *u, *child;
	struct tcpip_conn *c;
	struct node_info info;
	char b = 'a';

	joined(t);
	fake_gateway_answer = -EADDRINUSE;
	outside_spare_card();
	gateway_begin();
	EXPECT_FALSE(t, tcpip_is_present());
	addr.in.addr = 0;
	l = make();
	EXPECT_EQ(t, l->ops->bind(l, &addr), 0);
	EXPECT_EQ(t, l->ops->listen(l, 5), 0);
	u = socket_create(&udp_ops, AF_INET, SOCK_DGRAM, SOL_UDP);
	EXPECT_EQ(t, send_to(u, &b, 1, &to), 1);
	EXPECT_EQ(t, take(u, &b, 1, 0), 1);
	s = make();
	ASSERT_EQ(t, dial(s, 10, OUT_ECHO, false), 0);
	EXPECT_EQ(t, outside_open_ports(), 0);
	EXPECT_EQ(t, gateway_told, 0);

	sim_cmd("kill %u", GATEWAY);
	ASSERT_TRUE(t, rpc_peer_info(GATEWAY, &info));
	rpc_peer_remove(GATEWAY);
	remote_node_gone(GATEWAY, info.incarn);
	__atomic_store_n(&fake_gateway_answer, 0, __ATOMIC_SEQ_CST);
	gateway_node_gone(GATEWAY, info.incarn);
	gateway_view_changed();
	for (int i = 0; i < 5000 && !__atomic_load_n(&gateway_told, __ATOMIC_SEQ_CST); i++)
		pause_us(1000);
	EXPECT_EQ(t, gateway_told, 1);
	EXPECT_TRUE(t, tcpip_is_present());
	EXPECT_EQ(t, outside_open_ports(), 2);
	EXPECT_EQ(t, take(s, &b, 1, 0), -ECONNRESET);
	socket_drop(s);

	c = outside_dial(8080);
	ASSERT_TRUE(t, c != NULL);
	child = l->ops->accept(l, false);
	ASSERT_FALSE(t, IS_ERR(child));
	outside_says(c, "x", 1, false);
	EXPECT_EQ(t, take(child, &b, 1, 0), 1);
	EXPECT_EQ(t, b, 'x');
	socket_drop(child);
	s = make();
	EXPECT_EQ(t, dial(s, 10, OUT_ECHO, false), 0);
	EXPECT_EQ(t, give(s, "y", 1, 0), 1);
	EXPECT_EQ(t, take(s, &b, 1, 0), 1);
	EXPECT_EQ(t, b, 'y');
	socket_drop(s);
	EXPECT_EQ(t, send_to(u, "z", 1, &to), 1);
	EXPECT_EQ(t, take(u, &b, 1, 0), 1);
	EXPECT_EQ(t, b, 'z');
	socket_drop(u);
	socket_drop(l);
	EXPECT_EQ(t, outside_open_ports(), 0);
}

static void another_processor_becomes_the_gateway(struct ktest *t)
{
	run(t, dying_server, succeeding_client);
}

/* --- the first address ---------------------------------------------------------------------- */

/* Its card has no address yet. */
static void unaddressed_server(struct ktest *t)
{
	static const uint8_t own[16] = { [10] = 0xff, 0xff, 10, 0, 2, 15 };

	outside_address(false);
	start(t);
	sim_cmd("barrier 1 2");
	sim_cmd("barrier 2 2");
	pause_us(50000); /* the other node waits by now, or will: both are right */
	EXPECT_EQ(t, __atomic_load_n(&addresses_told, __ATOMIC_SEQ_CST), 0);
	outside_address(true);
	for (int i = 0; i < 5000 && !__atomic_load_n(&addresses_told, __ATOMIC_SEQ_CST); i++)
		pause_us(1000);
	EXPECT_EQ(t, addresses_told, 1);
	EXPECT_EQ(t, nr_addresses, 1u);
	EXPECT_EQ(t, memcmp(first_address, own, 16), 0);
	sim_cmd("barrier 8 2");
	relays_gone(t);
}

/* Programs wait for it, until they have waited long enough. */
static void early_client(struct ktest *t)
{
	const struct sock_addr to = outside(10, OUT_ECHO);
	struct socket *s, *u;
	char b = 'a';

	joined(t);
	s = make();
	EXPECT_EQ(t, dial(s, 10, OUT_ECHO, false), -ENETUNREACH); /* no program is expected yet */
	gateway_programs_come();
	sim_cmd("barrier 2 2");
	EXPECT_EQ(t, dial(s, 10, OUT_ECHO, false), 0);
	u = socket_create(&udp_ops, AF_INET, SOCK_DGRAM, SOL_UDP);
	EXPECT_EQ(t, send_to(u, &b, 1, &to), 1);
	EXPECT_EQ(t, take(u, &b, 1, 0), 1);
	socket_drop(u);
	socket_drop(s);
	left(t);
}

static void programs_wait_for_the_first_address(struct ktest *t)
{
	run(t, unaddressed_server, early_client);
}

/* There is none: the wait has an end. */
static void silent_server(struct ktest *t)
{
	outside_address(false);
	serving(t);
}

static void patient_client(struct ktest *t)
{
	struct socket *s;
	uint64_t since;

	joined(t);
	s = make();
	gateway_programs_come();
	since = time_now_ns();
	EXPECT_EQ(t, dial(s, 10, OUT_ECHO, false), -ENETUNREACH);
	EXPECT_GE(t, time_now_ns() - since, NSEC_PER_SEC);
	since = time_now_ns();
	EXPECT_EQ(t, dial(s, 10, OUT_ECHO, false), -ENETUNREACH);
	EXPECT_LT(t, time_now_ns() - since, NSEC_PER_SEC);
	socket_drop(s);
	left(t);
}

static void without_an_address_the_wait_ends(struct ktest *t)
{
	run(t, silent_server, patient_client);
}

/* A card on standby, and nobody has told of a gateway yet: it will come. */
static void standby_client(struct ktest *t)
{
	struct socket *s;
	uint64_t since;

	fake_task(0);
	outside_spare_card();
	s = make();
	gateway_programs_come();
	since = time_now_ns();
	EXPECT_EQ(t, dial(s, 10, OUT_ECHO, false), -ENETUNREACH);
	EXPECT_GE(t, time_now_ns() - since, NSEC_PER_SEC);
	joined(t);
	EXPECT_EQ(t, dial(s, 10, OUT_ECHO, false), 0);
	socket_drop(s);
	left(t);
}

static void a_standby_waits_for_a_gateway(struct ktest *t)
{
	run(t, serving, standby_client);
}

/* --- hostile messages --------------------------------------------------------------------- */

static int say(enum rpc_class cls, uint16_t opcode, const void *body, size_t len)
{
	uint8_t reply[64];

	return rpc_call_sync(GATEWAY, cls, opcode, body, (uint32_t)len, reply, sizeof(reply), 0);
}

static int say_port(uint64_t id, uint32_t vnode, uint16_t kind, uint8_t last)
{
	const struct pp_port req = {
		.id = id,
		.vnode = vnode,
		.kind = kind,
		.port = 99,
		.addr = { [10] = 0xff, 0xff, last ? 10 : 127, 0, 2, last ? last : 1 },
	};
	struct pp_port_wire w;

	pp_port_encode(&req, &w);
	return say(RPC_CLASS_CONTROL, PP_PORT, &w, sizeof(w));
}

static int say_options(uint64_t conn)
{
	const struct pp_options o = {
		.conn = conn, .keep_idle_s = 1, .keep_interval_s = 1, .keep_count = 1, .ttl = 1
	};
	struct pp_options_wire w;

	pp_options_encode(&o, &w);
	return say(RPC_CLASS_CONTROL, PP_OPTIONS, &w, sizeof(w));
}

static int say_datagram(uint64_t port_id, uint32_t vnode, uint8_t net, uint32_t len, uint32_t told)
{
	const struct pp_datagram_req req = {
		.port_id = port_id,
		.vnode = vnode,
		.len = told,
		.from_port = 99,
		.to_port = OUT_ECHO,
		.from_addr = { [10] = 0xff, 0xff, 10, 0, 2, 15 },
		.to_addr = { [10] = 0xff, 0xff, net, 1, 1, 1 },
	};
	struct pp_datagram_req_wire w;
	uint8_t body[2048] = { 0 };

	pp_datagram_req_encode(&req, &w);
	memcpy(body, &w, sizeof(w));
	return say(RPC_CLASS_DEMAND, PP_DATAGRAM, body, sizeof(w) + len);
}

static int say_gateway(uint32_t vnode)
{
	static struct pp_gateway_req req = { .nr_interfaces = 1 };
	static uint8_t body[PP_GATEWAY_MAX];
	ssize_t len;

	req.vnode = vnode;
	req.interfaces[0] = (struct pp_interface){ .name = "eth0", .index = 2 };
	len = pp_gateway_req_encode(&req, body, sizeof(body));
	return say(RPC_CLASS_CONTROL, PP_GATEWAY, body, (size_t)len);
}

static void hostile_client(struct ktest *t)
{
	static uint8_t junk[16384];
	const struct pp_opened opened = { .conn = 77 };
	struct pp_opened_wire w;

	joined(t);
	memset(junk, 0xa5, sizeof(junk));
	for (uint16_t op = PP_OPENED; op <= PP_DATAGRAM; op++) {
		for (size_t len = 0; len <= sizeof(junk); len = len * 2 + 1)
			EXPECT_LE(t, say(RPC_CLASS_CONTROL, op, junk, len), 0);
	}
	pp_opened_encode(&opened, &w);
	EXPECT_EQ(t, say(RPC_CLASS_CONTROL, PP_OPENED, &w, sizeof(w)), -ECONNRESET);
	EXPECT_EQ(t, say(RPC_CLASS_CONTROL, PP_OPTIONS, "short", 5), -EMSGSIZE);
	EXPECT_EQ(t, say_options(77), -ECONNRESET);
	EXPECT_EQ(t, say_port(1, 9, PP_UDP, 15), -EACCES);
	EXPECT_EQ(t, say_port(1, OTHER_VNODE, PP_UDP, 15), -EACCES);
	EXPECT_EQ(t, say_port(1, PROTO_VNODE_ROOT, PP_UDP, 0), -EADDRNOTAVAIL);  /* 127.0.0.1 */
	EXPECT_EQ(t, say_port(1, PROTO_VNODE_ROOT, PP_UDP, 16), -EADDRNOTAVAIL); /* not ours */
	EXPECT_EQ(t, say_port(1, PROTO_VNODE_ROOT, PP_UDP, 15), 0);
	EXPECT_EQ(t, say_port(1, PROTO_VNODE_ROOT, PP_UDP, 15), 0);
	EXPECT_EQ(t, say_port(1, PROTO_VNODE_ROOT, PP_TCP, 15), -EPROTO);
	EXPECT_EQ(t, say_datagram(1, PROTO_VNODE_ROOT, 10, 5, 6), -EMSGSIZE);
	EXPECT_EQ(t, say_datagram(1, OTHER_VNODE, 10, 5, 5), -EACCES);
	EXPECT_EQ(t, say_datagram(2, PROTO_VNODE_ROOT, 10, 5, 5), -ESTALE);
	EXPECT_EQ(t, say_datagram(1, PROTO_VNODE_ROOT, 127, 5, 5), -ENETUNREACH);
	EXPECT_EQ(t, say_datagram(0, PROTO_VNODE_ROOT, 10, 5, 5), -ECONNREFUSED);
	EXPECT_EQ(t, say_datagram(1, PROTO_VNODE_ROOT, 10, 5, 5), 0);
	EXPECT_EQ(t, say_gateway(OTHER_VNODE), -EACCES);
	EXPECT_EQ(t, say_gateway(PROTO_VNODE_ROOT), 0); /* one that has a card does not use it */
	sim_cmd("barrier 2 2");
	left(t);
}

static void hostile_server(struct ktest *t)
{
	struct node_info info;
	uint32_t node, incarn;

	start(t);
	sim_cmd("barrier 1 2");
	sim_cmd("barrier 2 2");
	EXPECT_FALSE(t, gateway_find(&node, &incarn));
	EXPECT_EQ(t, outside_open_ports(), 1);
	sim_cmd("barrier 8 2");
	/* The things of one that has left go with it. */
	ASSERT_TRUE(t, rpc_peer_info(CLIENT, &info));
	gateway_node_gone(CLIENT, info.incarn);
	relays_gone(t);
}

static void hostile_messages_have_no_effect(struct ktest *t)
{
	run(t, hostile_server, hostile_client);
}

static const struct ktest_case cases[] = {
	KTEST(bytes_go_both_ways),
	KTEST(what_the_outside_says_is_told),
	KTEST(a_close_reaches_the_outside),
	KTEST(the_outside_connects),
	KTEST(options_go_to_the_gateway),
	KTEST(datagrams_go_both_ways),
	KTEST(datagrams_leave_from_their_socket),
	KTEST(processors_send_each_other_datagrams),
	KTEST(a_gateway_dies),
	KTEST(another_processor_becomes_the_gateway),
	KTEST(programs_wait_for_the_first_address),
	KTEST(without_an_address_the_wait_ends),
	KTEST(a_standby_waits_for_a_gateway),
	KTEST(hostile_messages_have_no_effect),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "socket.gateway", .cases = cases };
KTEST_SUITE(suite);
