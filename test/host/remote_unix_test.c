/* SPDX-License-Identifier: MIT */
/*
 * AF_UNIX between programs on two processors, over simulated RDMA: names, identities, bytes beside
 * a model, packets, ends, backlogs, peers that do wrong.
 */
#include <abi/in.h>
#include <abi/poll.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <net/rpc.h>
#include <processor/account/account.h>
#include <processor/client/names.h>
#include <processor/process/process.h>
#include <processor/socket/queue.h>
#include <processor/socket/remote_private.h>
#include <processor/socket/scm.h>
#include <processor/socket/unix_private.h>
#include <processor/vfs/uio.h>
#include <proto/pp.h>

#include "ipc_fake.h"
#include "memverbs/sim.h"
#include "remote_fake.h"
#include "rpc_nodes.h"
#include "socket_fake.h"

/* The name as text: an abstract one begins with '@'. */
static struct sock_addr name(const char *text)
{
	struct sock_addr addr = { 0 };

	addr.family = AF_UNIX;
	addr.len = (uint32_t)(UNIX_PATH_OFFSET + strlen(text));
	memcpy(addr.un.path, text, strlen(text));
	if (text[0] == '@')
		addr.un.path[0] = 0;
	return addr;
}

static struct socket *unix_make(uint32_t type)
{
	return socket_create(type == SOCK_STREAM ? &unix_stream_ops : &unix_packet_ops, AF_UNIX,
			     type, 0);
}

/* The node runs, and its programs have the process id 100 + its own. */
static void enter(void)
{
	process_current()->pid = 100 + sim_node_id();
}

static struct socket *unix_listener(struct ktest *t, uint32_t type, const char *text, int backlog)
{
	const struct sock_addr addr = name(text);
	struct socket *l = unix_make(type);

	enter();
	EXPECT_EQ(t, l->ops->bind(l, &addr), 0);
	EXPECT_EQ(t, l->ops->listen(l, backlog), 0);
	sim_cmd("barrier 1 2");
	return l;
}

static int unix_dial(struct socket *s, const char *text, bool nonblock)
{
	const struct sock_addr addr = name(text);

	return s->ops->connect(s, &addr, nonblock);
}

static struct socket *unix_connected(struct ktest *t, uint32_t type, const char *text)
{
	struct socket *s = unix_make(type);

	EXPECT_EQ(t, unix_dial(s, text, false), 0);
	return s;
}

static void client_starts(struct ktest *t)
{
	join(t);
	enter();
	sim_cmd("barrier 1 2");
}

static void expect_name(struct ktest *t, struct socket *s, bool peer, const char *text)
{
	const struct sock_addr want = name(text);
	struct sock_addr got = { 0 };

	EXPECT_EQ(t, s->ops->getname(s, peer, &got), 0);
	/* A path is told with the zero behind it. */
	EXPECT_EQ(t, got.len, want.len + (text[0] && text[0] != '@'));
	EXPECT_EQ(t, memcmp(&got.un, &want.un, want.len), 0);
}

/* --- names and identities ----------------------------------------------------------------- */

static void names_server(struct ktest *t)
{
	struct socket *l, *s;
	char b;

	join(t);
	l = unix_listener(t, SOCK_STREAM, "/root/socket", 1);
	s = l->ops->accept(l, false);
	ASSERT_FALSE(t, IS_ERR(s));
	expect_name(t, s, false, "/root/socket");
	expect_name(t, s, true, "@client");
	EXPECT_EQ(t, s->peer_cred.pid, 100 + CLIENT);
	EXPECT_EQ(t, take(s, &b, 1, 0), 1);
	socket_drop(s);
	s = l->ops->accept(l, false);
	expect_name(t, s, true, "");
	socket_drop(s);
	socket_drop(l);
	nothing_left(t);
}

static void names_client(struct ktest *t)
{
	const struct sock_addr own = name("@client");
	struct socket *s = NULL;

	client_starts(t);
	s = unix_make(SOCK_STREAM);
	EXPECT_EQ(t, unix_dial(s, "/root/locked socket", false), -EACCES);
	EXPECT_EQ(t, unix_dial(s, "/tmp/socket", false), -ENOENT);
	EXPECT_EQ(t, unix_dial(s, "/root/file", false), -ECONNREFUSED);
	EXPECT_EQ(t, unix_dial(s, "/root/other socket", false), -ECONNREFUSED);
	EXPECT_EQ(t, unix_dial(s, "@nobody", true), -ECONNREFUSED);
	EXPECT_EQ(t, s->ops == &unix_stream_ops, true);
	EXPECT_EQ(t, READ_ONCE(s->state), SOCKET_IDLE);
	EXPECT_EQ(t, socket_take_error(s), 0);
	/* The same socket finds the one that there is. */
	EXPECT_EQ(t, s->ops->bind(s, &own), 0);
	EXPECT_EQ(t, unix_dial(s, "/root/socket", false), 0);
	EXPECT_EQ(t, unix_dial(s, "/root/socket", false), -EISCONN);
	expect_name(t, s, false, "@client");
	expect_name(t, s, true, "/root/socket");
	EXPECT_EQ(t, s->peer_cred.pid, 100 + SERVER);
	EXPECT_EQ(t, give(s, "a", 1, 0), 1);
	socket_drop(s);
	/* One that must not wait is connected when the call returns. */
	s = unix_make(SOCK_STREAM);
	EXPECT_EQ(t, unix_dial(s, "/root/socket", true), 0);
	socket_drop(s);
	nothing_left(t);
}

static void names_and_programs_are_told(struct ktest *t)
{
	run(t, names_server, names_client);
}

/* --- a peer that is no socket -------------------------------------------------------------- */

static int say(uint16_t opcode, const void *body, size_t len)
{
	uint8_t reply[256];

	return rpc_call_sync(SERVER, RPC_CLASS_DEMAND, opcode, body, (uint32_t)len, reply,
			     sizeof(reply), 0);
}

/* Bytes for the server's end; what they are answered. */
static int say_bytes(uint64_t conn, uint64_t position, const void *bytes, uint32_t len,
		     uint32_t flags)
{
	const struct pp_data_req req = {
		.conn = conn, .position = position, .len = len, .flags = flags
	};
	uint8_t body[256];
	struct pp_data_req_wire w;

	pp_data_req_encode(&req, &w);
	memcpy(body, &w, sizeof(w));
	memcpy(body + sizeof(w), bytes, len);
	return say(PP_DATA, body, sizeof(w) + len);
}

/* Not by a socket: the id of the server's end. */
static uint64_t connect_by_hand(struct ktest *t, const char *text, uint16_t type, uint32_t vnode,
				int want)
{
	const struct sock_addr addr = name(text);
	struct pp_unix_connect_req req = {
		.conn = 1, .limit = 65536, .vnode = vnode, .type = type, .pid = 1
	};
	struct pp_unix_connect_req_wire w;
	struct pp_unix_connect_rep_wire rep;
	struct pp_unix_connect_rep r = { 0 };
	int ret;

	names_hash(addr.un.path, addr.len - UNIX_PATH_OFFSET, req.key);
	pp_unix_connect_req_encode(&req, &w);
	ret = rpc_call_sync(SERVER, RPC_CLASS_CONTROL, PP_UNIX_CONNECT, &w, sizeof(w), &rep,
			    sizeof(rep), 0);
	EXPECT_EQ(t, ret, want);
	if (ret == sizeof(rep))
		EXPECT_EQ(t, pp_unix_connect_rep_decode(&rep, sizeof(rep), &r), 0);
	return r.conn;
}

#define ANSWER ((int)sizeof(struct pp_unix_connect_rep_wire))

/* --- bytes -------------------------------------------------------------------------------- */

static void stream_server(struct ktest *t)
{
	struct socket *l, *s;

	join(t);
	l = unix_listener(t, SOCK_STREAM, "@bytes", 1);
	s = l->ops->accept(l, false);
	ASSERT_FALSE(t, IS_ERR(s));
	both_ways(t, s);
	socket_drop(l);
	EXPECT_GT(t, counter_of("socket.remote.bulks"), 5);
	nothing_left(t);
}

static void stream_client(struct ktest *t)
{
	client_starts(t);
	both_ways(t, unix_connected(t, SOCK_STREAM, "@bytes"));
	nothing_left(t);
}

static void bytes_are_those_that_were_sent(struct ktest *t)
{
	run(t, stream_server, stream_client);
}

static void breaking_client(struct ktest *t)
{
	client_starts(t);
	sim_cmd("delay 0 800");
	sim_cmd("breaks 1000");
	sim_cmd("loss 10");
	both_ways(t, unix_connected(t, SOCK_STREAM, "@bytes"));
	sim_cmd("breaks 0");
	sim_cmd("loss 0");
	EXPECT_GT(t, sim_cmd("count broken"), 2);
	nothing_left(t);
}

static void also_over_connections_that_break(struct ktest *t)
{
	run(t, stream_server, breaking_client);
}

/* How many bytes one call gets, and whose. */
static ssize_t take_whose(struct socket *s, void *buf, size_t len, struct socket_cred *whose)
{
	struct socket_msg m = { 0 };
	struct uio u;
	ssize_t n;

	uio_kernel(&u, buf, len);
	m.uio = &u;
	n = s->ops->recvmsg(s, &m);
	*whose = m.cred;
	return n;
}

static void whose_server(struct ktest *t)
{
	struct socket_cred whose;
	struct socket *l, *s;
	char buf[16];

	join(t);
	l = unix_listener(t, SOCK_STREAM, "@whose", 1);
	l->options |= SOCKET_PASSCRED;
	s = l->ops->accept(l, false);
	ASSERT_FALSE(t, IS_ERR(s));
	EXPECT_TRUE(t, socket_option(s, SOCKET_PASSCRED));
	sim_cmd("barrier 2 2");
	/* Bytes of two senders are not told in one call. */
	EXPECT_EQ(t, take_whose(s, buf, sizeof(buf), &whose), 4);
	EXPECT_EQ(t, memcmp(buf, "abcd", 4), 0);
	EXPECT_EQ(t, whose.pid, 41);
	EXPECT_EQ(t, whose.uid, 7);
	EXPECT_EQ(t, whose.gid, 8);
	EXPECT_EQ(t, take_whose(s, buf, sizeof(buf), &whose), 2);
	EXPECT_EQ(t, whose.pid, 42);
	EXPECT_EQ(t, take_whose(s, buf, sizeof(buf), &whose), 0);
	socket_drop(s);
	socket_drop(l);
	nothing_left(t);
}

/* One message with the bytes of three calls. */
static void whose_client(struct ktest *t)
{
	const struct socket_cred first = { 41, 7, 8 }, second = { 42, 7, 8 };
	uint8_t bytes[3 * 18];
	uint64_t conn;

	client_starts(t);
	conn = connect_by_hand(t, "@whose", SOCK_STREAM, PROTO_VNODE_ROOT, ANSWER);
	for (int i = 0; i < 3; i++) {
		remote_record_put(bytes + 18 * i, 2, i < 2 ? &first : &second);
		memcpy(bytes + 18 * i + 16, "abcdef" + 2 * i, 2);
	}
	EXPECT_EQ(t, say_bytes(conn, 0, bytes, sizeof(bytes), PP_FIN), 8);
	sim_cmd("barrier 2 2");
	sim_cmd("barrier 9 2");
}

static void the_sender_of_bytes_is_told(struct ktest *t)
{
	run(t, whose_server, whose_client);
}

/* --- packets ------------------------------------------------------------------------------ */

static const uint32_t sizes[] = { 1, 0, 2000, 2001, 16, 65504, 65505, 200000, 0, 3 };

static void packet_server(struct ktest *t)
{
	static uint8_t buf[300000];
	struct socket *l, *s;
	uint64_t wrong = 0;

	join(t);
	l = unix_listener(t, SOCK_SEQPACKET, "@packets", 1);
	s = l->ops->accept(l, false);
	ASSERT_FALSE(t, IS_ERR(s));
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			EXPECT_EQ(t, take(s, buf, sizeof(buf), 0), (ssize_t)sizes[i]);
			for (uint32_t k = 0; k < sizes[i]; k++)
				wrong += buf[k] != (uint8_t)(k * 7 + k / 251 + i);
		}
	}
	EXPECT_EQ(t, wrong, 0);
	/* Of a packet that is longer than the buffer, the rest is lost. */
	EXPECT_EQ(t, take(s, buf, 2, 0), 2);
	EXPECT_EQ(t, take(s, buf, 10, 0), 1);
	EXPECT_EQ(t, take(s, buf, 10, 0), 0);
	socket_drop(s);
	socket_drop(l);
	nothing_left(t);
}

static void packet_client(struct ktest *t)
{
	struct scm_fds none = { 0 };
	struct socket_msg m = { .fds = &none };
	static uint8_t buf[300000];
	struct socket *s;
	struct uio u;

	client_starts(t);
	s = unix_connected(t, SOCK_SEQPACKET, "@packets");
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			for (uint32_t k = 0; k < sizes[i]; k++)
				buf[k] = (uint8_t)(k * 7 + k / 251 + i);
			EXPECT_EQ(t, give(s, buf, sizes[i], 0), (ssize_t)sizes[i]);
		}
	}
	EXPECT_EQ(t, give(s, buf, sizeof(buf), 0), -EMSGSIZE);
	s->sndbuf = 1 << 20;
	EXPECT_EQ(t, give(s, buf, sizeof(buf), 0), -EMSGSIZE);
	/* Open files stay on their processor. */
	uio_kernel(&u, buf, 1);
	m.uio = &u;
	EXPECT_EQ(t, s->ops->sendmsg(s, &m), -EOPNOTSUPP);
	EXPECT_EQ(t, give(s, "abcdef", 6, 0), 6);
	EXPECT_EQ(t, give(s, "g", 1, 0), 1);
	socket_drop(s);
	nothing_left(t);
}

static void packets_keep_their_borders(struct ktest *t)
{
	run(t, packet_server, packet_client);
}

/* --- ends --------------------------------------------------------------------------------- */

static void ends_server(struct ktest *t)
{
	struct socket *l, *s;
	char buf[8] = { 0 };

	join(t);
	l = unix_listener(t, SOCK_STREAM, "@ends", 1);
	/* It reads no more, and then writes no more. */
	s = l->ops->accept(l, false);
	EXPECT_EQ(t, s->ops->shutdown(s, SHUT_RD), 0);
	sim_cmd("barrier 2 2");
	EXPECT_EQ(t, give(s, "xyz", 3, 0), 3);
	EXPECT_EQ(t, s->ops->shutdown(s, SHUT_WR), 0);
	sim_cmd("barrier 3 2");
	socket_drop(s);
	/* It is closed with a byte unread. */
	s = l->ops->accept(l, false);
	while (!READ_ONCE(s->readable))
		pause_us(100);
	socket_drop(s);
	/* It is closed with nothing unread. */
	s = l->ops->accept(l, false);
	EXPECT_EQ(t, take(s, buf, 1, 0), 1);
	EXPECT_EQ(t, give(s, "bye", 3, 0), 3);
	socket_drop(s);
	/* The listener goes with a connection that no program has. */
	sim_cmd("barrier 4 2");
	socket_drop(l);
	sim_cmd("barrier 5 2");
	nothing_left(t);
}

static void ends_client(struct ktest *t)
{
	struct socket *s;
	char buf[8] = { 0 };

	client_starts(t);
	s = unix_connected(t, SOCK_STREAM, "@ends");
	sim_cmd("barrier 2 2");
	for (int i = 0; i < 5000 && !(READ_ONCE(s->shut) & SOCKET_SHUT_WR); i++)
		pause_us(1000);
	EXPECT_EQ(t, give(s, "a", 1, 0), -EPIPE);
	EXPECT_EQ(t, take(s, buf, 3, MSG_WAITALL), 3);
	EXPECT_EQ(t, take(s, buf, 8, 0), 0);
	EXPECT_EQ(t, s->ops->poll(s) & (POLLHUP | POLLERR), POLLHUP);
	sim_cmd("barrier 3 2");
	socket_drop(s);

	s = unix_connected(t, SOCK_STREAM, "@ends");
	EXPECT_EQ(t, give(s, "a", 1, 0), 1);
	EXPECT_EQ(t, take(s, buf, 8, 0), -ECONNRESET);
	EXPECT_EQ(t, take(s, buf, 8, 0), 0);
	EXPECT_EQ(t, give(s, "a", 1, 0), -EPIPE);
	socket_drop(s);

	s = unix_connected(t, SOCK_STREAM, "@ends");
	EXPECT_EQ(t, give(s, "a", 1, 0), 1);
	EXPECT_EQ(t, take(s, buf, 3, MSG_WAITALL), 3);
	EXPECT_EQ(t, take(s, buf, 8, 0), 0);
	for (int i = 0; i < 5000 && !(READ_ONCE(s->shut) & SOCKET_SHUT_WR); i++)
		pause_us(1000);
	EXPECT_EQ(t, give(s, "a", 1, 0), -EPIPE);
	EXPECT_EQ(t, socket_take_error(s), 0);
	socket_drop(s);

	s = unix_connected(t, SOCK_STREAM, "@ends");
	sim_cmd("barrier 4 2");
	EXPECT_EQ(t, take(s, buf, 8, 0), -ECONNRESET);
	socket_drop(s);
	sim_cmd("barrier 5 2");
	nothing_left(t);
}

static void ends_are_as_on_one_processor(struct ktest *t)
{
	run(t, ends_server, ends_client);
}

/* --- a full backlog ----------------------------------------------------------------------- */

static void full_server(struct ktest *t)
{
	struct socket *l, *s[2];

	join(t);
	l = unix_listener(t, SOCK_STREAM, "@full", 0);
	sim_cmd("barrier 2 2");
	pause_us(50000);
	for (int i = 0; i < 2; i++) {
		s[i] = l->ops->accept(l, false);
		EXPECT_FALSE(t, IS_ERR(s[i]));
	}
	for (int i = 0; i < 2; i++)
		socket_drop(s[i]);
	socket_drop(l);
	nothing_left(t);
}

static void full_client(struct ktest *t)
{
	struct socket *first, *s;

	client_starts(t);
	first = unix_connected(t, SOCK_STREAM, "@full");
	s = unix_make(SOCK_STREAM);
	EXPECT_EQ(t, unix_dial(s, "@full", true), -EAGAIN);
	s->sndtimeo_ns = 30 * NSEC_PER_MSEC;
	EXPECT_EQ(t, unix_dial(s, "@full", false), -EAGAIN);
	EXPECT_EQ(t, READ_ONCE(s->state), SOCKET_IDLE);
	s->sndtimeo_ns = WAIT_FOREVER;
	sim_cmd("barrier 2 2");
	EXPECT_EQ(t, unix_dial(s, "@full", false), 0);
	socket_drop(first);
	socket_drop(s);
	nothing_left(t);
}

static void a_full_backlog_is_waited_for(struct ktest *t)
{
	run(t, full_server, full_client);
}

/* --- a processor leaves ------------------------------------------------------------------- */

static void leave_server(struct ktest *t)
{
	join(t);
	(void)unix_listener(t, SOCK_STREAM, "@leaves", 5);
	sim_cmd("barrier 2 2");
	pause_us(30000000); /* killed meanwhile */
}

static void leave_client(struct ktest *t)
{
	struct node_info info;
	struct socket *s;
	char b;

	client_starts(t);
	s = unix_connected(t, SOCK_STREAM, "@leaves");
	sim_cmd("barrier 2 2");
	sim_cmd("kill %u", SERVER);
	EXPECT_TRUE(t, rpc_peer_info(SERVER, &info));
	rpc_peer_remove(SERVER);
	remote_node_gone(SERVER, info.incarn);
	EXPECT_EQ(t, take(s, &b, 1, 0), -ECONNRESET);
	EXPECT_EQ(t, give(s, &b, 1, 0), -EPIPE);
	socket_drop(s);
	for (int i = 0; i < 5000 && counter_of("socket.remote.connections"); i++)
		pause_us(1000);
	EXPECT_EQ(t, counter_of("socket.remote.connections"), 0);
}

static void a_processor_leaves(struct ktest *t)
{
	run(t, leave_server, leave_client);
}

/* --- hostile messages --------------------------------------------------------------------- */

static void hostile_client(struct ktest *t)
{
	const uint8_t empty[16] = { 0 }, endless[16] = { 0xff, 0xff, 0xff, 0xff };
	const uint8_t one[17] = { 1, [4] = 5, [16] = 'x' };
	static uint8_t junk[2048];
	uint64_t conn;

	client_starts(t);
	memset(junk, 0xa5, sizeof(junk));
	for (size_t len = 0; len <= sizeof(junk); len = len * 2 + 1)
		EXPECT_LE(t, say(PP_UNIX_CONNECT, junk, len), 0);
	(void)connect_by_hand(t, "@hostile", SOCK_STREAM, 9, -EACCES);
	(void)connect_by_hand(t, "@hostile", SOCK_STREAM, OTHER_VNODE, -EACCES);
	(void)connect_by_hand(t, "@hostile", SOCK_SEQPACKET, PROTO_VNODE_ROOT, -ECONNREFUSED);
	/* Headers in pieces are headers; one of nothing, or of too much, ends the connection. */
	conn = connect_by_hand(t, "@hostile", SOCK_STREAM, PROTO_VNODE_ROOT, ANSWER);
	EXPECT_EQ(t, say_bytes(conn, 0, one, 3, 0), 8);
	EXPECT_EQ(t, say_bytes(conn, 3, one + 3, 14, 0), 8);
	EXPECT_EQ(t, say_bytes(conn, 17, empty, 16, 0), -EPROTO);
	EXPECT_EQ(t, say_bytes(conn, 17, one, 17, 0), -ECONNRESET);
	conn = connect_by_hand(t, "@hostile", SOCK_STREAM, PROTO_VNODE_ROOT, ANSWER);
	EXPECT_EQ(t, say_bytes(conn, 0, endless, 16, 0), -EPROTO);
	/* A header without its bytes, and then no more. */
	conn = connect_by_hand(t, "@hostile", SOCK_STREAM, PROTO_VNODE_ROOT, ANSWER);
	EXPECT_EQ(t, say_bytes(conn, 0, one, 16, PP_FIN), 8);
	EXPECT_EQ(t, say_bytes(conn, 16, one, 0, PP_DEAF), 8);
	EXPECT_EQ(t, say_bytes(conn, 16, one, 1, 0), -EPROTO);
	sim_cmd("barrier 2 2");
	sim_cmd("barrier 9 2");
}

static void hostile_server(struct ktest *t)
{
	struct socket *l, *s;
	char buf[16];

	join(t);
	l = unix_listener(t, SOCK_STREAM, "@hostile", 5);
	sim_cmd("barrier 2 2");
	s = l->ops->accept(l, true);
	ASSERT_FALSE(t, IS_ERR(s));
	EXPECT_EQ(t, take(s, buf, sizeof(buf), 0), 1);
	EXPECT_EQ(t, buf[0], 'x');
	EXPECT_EQ(t, take(s, buf, sizeof(buf), 0), -ECONNRESET);
	socket_drop(s);
	socket_drop(l);
	nothing_left(t);
}

static void hostile_messages_end_their_connection_alone(struct ktest *t)
{
	run(t, hostile_server, hostile_client);
}

static const struct ktest_case cases[] = {
	KTEST(names_and_programs_are_told),
	KTEST(bytes_are_those_that_were_sent),
	KTEST(also_over_connections_that_break),
	KTEST(the_sender_of_bytes_is_told),
	KTEST(packets_keep_their_borders),
	KTEST(ends_are_as_on_one_processor),
	KTEST(a_full_backlog_is_waited_for),
	KTEST(a_processor_leaves),
	KTEST(hostile_messages_end_their_connection_alone),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "socket.remote_unix", .cases = cases };
KTEST_SUITE(suite);
