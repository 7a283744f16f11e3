/* SPDX-License-Identifier: MIT */
/*
 * TCP between two processors when the peer does wrong, or nothing: hostile messages, refusals,
 * processors that leave or were started again, closed connections that nobody reads.
 */
#include <abi/in.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <net/node.h>
#include <net/rpc.h>
#include <processor/account/account.h>
#include <processor/socket/inet_private.h>
#include <processor/socket/queue.h>
#include <processor/socket/remote_private.h>
#include <proto/pp.h>
#include <shim/shim.h>

#include "memverbs/sim.h"
#include "remote_fake.h"
#include "rpc_nodes.h"

/* --- hostile messages ----------------------------------------------------------------- */

static int say(uint16_t opcode, const void *body, size_t len)
{
	uint8_t reply[64];

	return rpc_call_sync(sim_node_id() == SERVER ? CLIENT : SERVER, RPC_CLASS_DEMAND, opcode,
			     body, (uint32_t)len, reply, sizeof(reply), 0);
}

static int say_data(uint64_t conn, uint64_t position, uint32_t len, uint32_t told)
{
	const struct pp_data_req req = { .conn = conn, .position = position, .len = told };
	uint8_t body[2048] = { 0 };
	struct pp_data_req_wire w;

	pp_data_req_encode(&req, &w);
	memcpy(body, &w, sizeof(w));
	return say(PP_DATA, body, sizeof(w) + len);
}

/* Not by a socket: the id of the server's end. */
static uint64_t connect_by_hand(struct ktest *t, uint32_t vnode, int want)
{
	const struct pp_connect_req req = {
		.conn = 1,
		.vnode = vnode,
		.from_port = 9,
		.to_port = PORT,
		.to_addr = { [10] = 0xff, 0xff, 127, 0, 0, 1 },
	};
	struct pp_connect_req_wire w;
	struct pp_connect_rep_wire rep;
	struct pp_connect_rep r = { 0 };
	int ret;

	pp_connect_req_encode(&req, &w);
	ret = rpc_call_sync(SERVER, RPC_CLASS_CONTROL, PP_CONNECT, &w, sizeof(w), &rep, sizeof(rep),
			    0);
	EXPECT_EQ(t, ret, want);
	if (ret == sizeof(rep))
		EXPECT_EQ(t, pp_connect_rep_decode(&rep, sizeof(rep), &r), 0);
	return r.conn;
}

static void hostile_client(struct ktest *t)
{
	static uint8_t junk[2048];
	uint64_t conn;

	join(t);
	sim_cmd("barrier 1 2");
	memset(junk, 0xa5, sizeof(junk));
	for (uint16_t op = PP_CONNECT; op <= PP_RESET; op++) {
		for (size_t len = 0; len <= sizeof(junk); len = len * 2 + 1)
			EXPECT_LE(t, say(op, junk, len), 0);
	}
	(void)connect_by_hand(t, 9, -EACCES);
	(void)connect_by_hand(t, OTHER_VNODE, -EACCES);
	conn = connect_by_hand(t, PROTO_VNODE_ROOT, sizeof(struct pp_connect_rep_wire));
	EXPECT_EQ(t, say_data(conn, 0, 10, 11), -EMSGSIZE);
	EXPECT_EQ(t, say_data(conn, 0, 10, 10), 8);
	EXPECT_EQ(t, say_data(conn + 1, 10, 10, 10), -ECONNRESET);
	EXPECT_EQ(t, say_data(conn, 0, 10, 10), -EPROTO);      /* again the same bytes */
	EXPECT_EQ(t, say_data(conn, 10, 10, 10), -ECONNRESET); /* that has ended it */
	/* More than it was given room for. */
	conn = connect_by_hand(t, PROTO_VNODE_ROOT, sizeof(struct pp_connect_rep_wire));
	for (uint64_t at = 0;; at += 2000) {
		const int ret = say_data(conn, at, 2000, 2000);

		if (ret == 8)
			continue;
		EXPECT_EQ(t, ret, -EPROTO);
		EXPECT_LE(t, at, 131072);
		break;
	}
	/* Bytes one by one take more memory than room. */
	conn = connect_by_hand(t, PROTO_VNODE_ROOT, sizeof(struct pp_connect_rep_wire));
	for (uint64_t at = 0;; at++) {
		const int ret = say_data(conn, at, 1, 1);

		if (ret == 8)
			continue;
		EXPECT_EQ(t, ret, -ENOBUFS);
		EXPECT_LE(t, at, 4 * 131072 / sizeof(struct sock_msg) + 1);
		break;
	}
	sim_cmd("barrier 2 2");
	sim_cmd("barrier 9 2");
}

static void hostile_server(struct ktest *t)
{
	char buf[16];
	struct socket *l, *s[3];

	join(t);
	l = listener(t, 5);
	sim_cmd("barrier 2 2");
	for (int i = 0; i < 3; i++)
		s[i] = l->ops->accept(l, false);
	EXPECT_EQ(t, take(s[0], buf, sizeof(buf), 0), 10);
	EXPECT_EQ(t, take(s[0], buf, sizeof(buf), 0), -ECONNRESET);
	for (int i = 0; i < 3; i++)
		socket_drop(s[i]);
	socket_drop(l);
	nothing_left(t);
}

static void hostile_messages_end_their_connection_alone(struct ktest *t)
{
	run(t, hostile_server, hostile_client);
}

/* A server sends bytes to one that still asks, and then refuses it. */
static void refusing_server(struct ktest *t)
{
	struct socket *l, *s;
	uint64_t id = 0;

	join(t);
	l = listener(t, 0);
	s = l->ops->accept(l, false);
	ASSERT_FALSE(t, IS_ERR(s));
	EXPECT_EQ(t, take(s, &id, sizeof(id), MSG_WAITALL), (ssize_t)sizeof(id));
	EXPECT_EQ(t, say_data(id, 0, 10, 10), 8);
	socket_drop(l);
	sim_cmd("barrier 2 2");
	socket_drop(s);
	nothing_left(t);
}

static void refused_client(struct ktest *t)
{
	struct socket *s, *fills, *asks;
	struct remote_conn *c;

	join(t);
	sim_cmd("barrier 1 2");
	s = connected(t);
	fills = connected(t);
	asks = make();
	EXPECT_EQ(t, connect_to(asks, true), -EINPROGRESS);
	c = remote_of(asks);
	ASSERT_TRUE(t, c != NULL);
	EXPECT_EQ(t, give(s, &c->id, sizeof(c->id), 0), (ssize_t)sizeof(c->id));
	remote_put(c);
	for (int i = 0; i < 5000 && !READ_ONCE(asks->error); i++)
		pause_us(1000);
	EXPECT_EQ(t, socket_take_error(asks), ECONNREFUSED);
	EXPECT_EQ(t, asks->ops == &tcp_ops, true);
	EXPECT_EQ(t, READ_ONCE(asks->readable), 0);
	sim_cmd("barrier 2 2");
	socket_drop(asks);
	socket_drop(fills);
	socket_drop(s);
	nothing_left(t);
}

static void a_refused_connection_leaves_no_bytes(struct ktest *t)
{
	run(t, refusing_server, refused_client);
}

/* A request waits for a thread, and meanwhile membership takes its sender out. */
static void late_server(struct ktest *t)
{
	struct remote_request r = { .node = CLIENT, .conn = 1, .limit = 65536 };
	struct node_info info;
	struct socket *l, *s;
	uint64_t id, limit;
	char b;

	join(t);
	l = listener(t, 1);
	ASSERT_TRUE(t, rpc_peer_info(CLIENT, &info));
	r.incarn = info.incarn;
	rpc_peer_remove(CLIENT);
	remote_node_gone(CLIENT, info.incarn);
	r.from.port = 9;
	r.to.port = PORT;
	r.to.addr[10] = r.to.addr[11] = 0xff;
	r.to.addr[12] = 127;
	r.to.addr[15] = 1;
	EXPECT_EQ(t, remote_accept(&r, &id, &limit), 0);
	EXPECT_EQ(t, counter_of("socket.remote.connections"), 0);
	s = l->ops->accept(l, true);
	if (!IS_ERR(s)) {
		EXPECT_EQ(t, take(s, &b, 1, MSG_DONTWAIT), -ECONNRESET);
		socket_drop(s);
	}
	socket_drop(l);
	nothing_left(t);
}

static void late_client(struct ktest *t)
{
	join(t);
	sim_cmd("barrier 1 2");
	nothing_left(t);
}

static void a_late_connection_is_reset(struct ktest *t)
{
	run(t, late_server, late_client);
}

/* --- a processor was started again ------------------------------------------------------ */

/* The server's end of it: membership says that the client has left. */
static void client_is_gone(struct ktest *t)
{
	struct node_info info;

	ASSERT_TRUE(t, rpc_peer_info(CLIENT, &info));
	rpc_peer_remove(CLIENT);
	remote_node_gone(CLIENT, info.incarn);
}

static void stale_server(struct ktest *t)
{
	struct socket *l, *s;

	join(t);
	l = listener(t, 0);
	s = l->ops->accept(l, false);
	ASSERT_FALSE(t, IS_ERR(s));
	sim_cmd("barrier 2 2");
	client_is_gone(t);
	socket_drop(s);
	socket_drop(l);
	nothing_left(t);
}

/* The answer to a connect() comes from another incarnation than it was meant for. */
static void stale_client(struct ktest *t)
{
	struct socket *s, *fills, *asks;
	struct remote_conn *c;
	struct node_info info;

	join(t);
	sim_cmd("barrier 1 2");
	s = connected(t);
	fills = connected(t);
	asks = make();
	EXPECT_EQ(t, connect_to(asks, true), -EINPROGRESS);
	pause_us(300000); /* it asks rarely now: no call is under way */
	c = remote_of(asks);
	ASSERT_TRUE(t, c != NULL);
	ASSERT_TRUE(t, rpc_peer_info(SERVER, &info));
	info.incarn++;
	ASSERT_EQ(t, rpc_peer_add(&info), 0);
	remote_connected(c, 0, 77, 65536);
	remote_put(c);
	for (int i = 0; i < 2000 && !READ_ONCE(asks->error); i++)
		pause_us(1000);
	EXPECT_EQ(t, socket_take_error(asks), ECONNREFUSED);
	EXPECT_TRUE(t, asks->ops == &tcp_ops);
	remote_node_gone(SERVER, info.incarn - 1);
	sim_cmd("barrier 2 2");
	socket_drop(asks);
	socket_drop(fills);
	socket_drop(s);
	nothing_left(t);
}

static void another_incarnation_is_no_peer(struct ktest *t)
{
	run(t, stale_server, stale_client);
}

/* --- closed, with bytes left ------------------------------------------------------------ */

#define LEFT (131072u + REMOTE_LARGE) /* more than the window, less than the buffers hold as well */

/* Up to the end of what comes, with a rest before each read: how many bytes. */
static uint64_t take_all(struct ktest *t, struct socket *s, uint64_t rest_us)
{
	static uint8_t buf[65536];
	uint64_t got = 0;
	ssize_t n;

	do {
		pause_us(rest_us);
		n = take(s, buf, sizeof(buf), 0);
		got += n > 0 ? (uint64_t)n : 0;
	} while (n > 0);
	EXPECT_EQ(t, n, 0);
	return got;
}

static void orphan_server(struct ktest *t)
{
	struct socket *l, *s;

	join(t);
	l = listener(t, 1);
	/* It reads slowly, and gets all. */
	s = l->ops->accept(l, false);
	sim_cmd("barrier 2 2");
	EXPECT_EQ(t, take_all(t, s, 200000), LEFT);
	socket_drop(s);
	/* It does not read at all. */
	s = l->ops->accept(l, false);
	sim_cmd("barrier 3 2");
	for (int i = 0; i < 5000 && !READ_ONCE(s->error); i++)
		pause_us(1000);
	EXPECT_EQ(t, socket_take_error(s), ECONNRESET);
	socket_drop(s);
	socket_drop(l);
	nothing_left(t);
}

static void orphan_client(struct ktest *t)
{
	static uint8_t buf[LEFT];
	struct socket *s;

	EXPECT_EQ(t, shim_bootparam_set("sockets.orphan_ms", "400"), 0);
	join(t);
	sim_cmd("barrier 1 2");
	s = connected(t);
	EXPECT_EQ(t, give(s, buf, sizeof(buf), 0), (ssize_t)sizeof(buf));
	sim_cmd("barrier 2 2");
	socket_drop(s);
	s = connected(t);
	EXPECT_EQ(t, counter_of("socket.remote.orphans"), 0);
	EXPECT_EQ(t, give(s, buf, sizeof(buf), 0), (ssize_t)sizeof(buf));
	sim_cmd("barrier 3 2");
	socket_drop(s);
	nothing_left(t);
	EXPECT_EQ(t, counter_of("socket.remote.orphans"), 1);
}

static void what_nobody_reads_goes_with_its_connection(struct ktest *t)
{
	run(t, orphan_server, orphan_client);
}

/* --- no memory for bytes ---------------------------------------------------------------- */

static void refuse_server(struct ktest *t)
{
	struct socket *l, *s;
	uint64_t got;

	join(t);
	l = listener(t, 1);
	s = l->ops->accept(l, false);
	sim_cmd("barrier 2 2");
	got = take_all(t, s, 0);
	sim_cmd("barrier 3 2");
	EXPECT_GT(t, got, 1000);
	socket_drop(s);
	socket_drop(l);
	nothing_left(t);
}

/* Byte by byte, until their messages take more memory over there than they may. */
static void refuse_client(struct ktest *t)
{
	struct socket *s;

	join(t);
	sim_cmd("barrier 1 2");
	s = connected(t);
	while (counter_of("socket.remote.again") < 4) {
		EXPECT_EQ(t, give(s, "a", 1, 0), 1);
		while (s->ops->outq(s) && counter_of("socket.remote.again") < 4)
			pause_us(10);
	}
	pause_us(1500000);
	/* 1, 2, 4 ... 64 ms, then each 100 ms. */
	EXPECT_LE(t, counter_of("socket.remote.again"), 30);
	EXPECT_GE(t, counter_of("socket.remote.again"), 10);
	sim_cmd("barrier 2 2");
	EXPECT_EQ(t, s->ops->shutdown(s, SHUT_WR), 0);
	sim_cmd("barrier 3 2");
	socket_drop(s);
	nothing_left(t);
}

static void refused_bytes_come_ever_less_often(struct ktest *t)
{
	run(t, refuse_server, refuse_client);
}

static const struct ktest_case cases[] = {
	KTEST(hostile_messages_end_their_connection_alone),
	KTEST(a_refused_connection_leaves_no_bytes),
	KTEST(a_late_connection_is_reset),
	KTEST(another_incarnation_is_no_peer),
	KTEST(what_nobody_reads_goes_with_its_connection),
	KTEST(refused_bytes_come_ever_less_often),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "socket.remote_faults", .cases = cases };
KTEST_SUITE(suite);
