/* SPDX-License-Identifier: MIT */
/*
 * AF_UNIX datagrams between programs on two processors, over simulated RDMA: names, sizes, peers,
 * queues that are full, sockets that are closed, hostile messages.
 */
#include <abi/poll.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <net/rpc.h>
#include <processor/client/names.h>
#include <processor/process/process.h>
#include <processor/socket/queue.h>
#include <processor/socket/remote.h>
#include <processor/socket/scm.h>
#include <processor/socket/unix_private.h>
#include <processor/vfs/uio.h>
#include <proto/pp.h>
#include <shim/shim.h>

#include "ipc_fake.h"
#include "memverbs/sim.h"
#include "remote_fake.h"
#include "rpc_nodes.h"
#include "socket_fake.h"

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

static struct socket *dgram(struct ktest *t, const char *text)
{
	struct socket *s = socket_create(&unix_dgram_ops, AF_UNIX, SOCK_DGRAM, 0);
	const struct sock_addr addr = name(text);

	if (*text)
		EXPECT_EQ(t, s->ops->bind(s, &addr), 0);
	return s;
}

static void node_starts(struct ktest *t)
{
	join(t);
	process_current()->pid = 100 + sim_node_id();
}

static ssize_t send_name(struct socket *s, const char *to, const void *data, size_t len,
			 uint32_t flags)
{
	struct socket_msg m = { .flags = flags };
	struct uio u;

	if (to)
		m.addr = name(to);
	uio_kernel(&u, (void *)(uintptr_t)data, len);
	m.uio = &u;
	return socket_send(s, &m);
}

static int dial(struct socket *s, const char *to)
{
	const struct sock_addr addr = name(to);

	return s->ops->connect(s, &addr, false);
}

/* The next datagram, whose sender has the name @from and this process id. */
static ssize_t hear(struct ktest *t, struct socket *s, void *buf, size_t len, const char *from,
		    uint32_t pid)
{
	const struct sock_addr want = name(from);
	struct socket_msg m = { .wants_addr = true };
	struct uio u;
	ssize_t ret;

	uio_kernel(&u, buf, len);
	m.uio = &u;
	ret = s->ops->recvmsg(s, &m);
	/* A path is told with the zero behind it. */
	EXPECT_EQ(t, m.addr.len, *from ? want.len + (*from != '@') : 0);
	EXPECT_EQ(t, memcmp(&m.addr.un, &want.un, *from ? want.len : 0), 0);
	EXPECT_EQ(t, m.cred.pid, pid);
	return ret;
}

static bool may_write(struct socket *s)
{
	return s->ops->poll(s) & POLLOUT;
}

/* --- names and sizes ----------------------------------------------------------------------- */

static const size_t sizes[] = { 0, 1, 1872, 1873, 5000, 65504 };
static uint8_t out[65505], in[65505];

static void fill(void)
{
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (uint8_t)(i * 7 + i / 250);
}

static void sizes_server(struct ktest *t)
{
	struct socket *s;

	node_starts(t);
	fill();
	s = dgram(t, "@dg server");
	sim_cmd("barrier 1 2");
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		memset(in, 0, sizeof(in));
		EXPECT_EQ(t, hear(t, s, in, sizeof(in), "@dg client", 100 + CLIENT),
			  (ssize_t)sizes[i]);
		EXPECT_EQ(t, memcmp(in, out, sizes[i]), 0);
		EXPECT_EQ(t, send_name(s, "@dg client", in, sizes[i], 0), (ssize_t)sizes[i]);
	}
	EXPECT_EQ(t, hear(t, s, in, sizeof(in), "", 100 + CLIENT), 2);
	sim_cmd("barrier 2 2");
	socket_drop(s);
	nothing_left(t);
}

static void sizes_client(struct ktest *t)
{
	struct socket *s, *unnamed;
	struct scm_fds *fds = (void *)in;
	struct socket_msg m = { .addr = name("@dg server"), .fds = fds };
	struct uio u;

	node_starts(t);
	fill();
	sim_cmd("barrier 1 2");
	s = dgram(t, "@dg client");
	unnamed = dgram(t, "");
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		EXPECT_EQ(t, send_name(s, "@dg server", out, sizes[i], 0), (ssize_t)sizes[i]);
		EXPECT_EQ(t, hear(t, s, in, sizeof(in), "@dg server", 100 + SERVER),
			  (ssize_t)sizes[i]);
		EXPECT_EQ(t, memcmp(in, out, sizes[i]), 0);
	}
	EXPECT_EQ(t, send_name(s, "@dg server", out, sizeof(out), 0), -EMSGSIZE);
	EXPECT_EQ(t, send_name(s, "@dg nobody", out, 1, 0), -ECONNREFUSED);
	uio_kernel(&u, out, 1);
	m.uio = &u;
	EXPECT_EQ(t, s->ops->sendmsg(s, &m), -EOPNOTSUPP); /* open files stay */
	EXPECT_TRUE(t, m.fds == fds);
	EXPECT_EQ(t, send_name(unnamed, "@dg server", out, 2, 0), 2);
	sim_cmd("barrier 2 2");
	EXPECT_EQ(t, send_name(unnamed, NULL, out, 2, 0), -ENOTCONN);
	socket_drop(unnamed);
	socket_drop(s);
	nothing_left(t);
}

static void datagrams_have_names_and_sizes(struct ktest *t)
{
	run(t, sizes_server, sizes_client);
}

/* --- peers ------------------------------------------------------------------------------------ */

static void peers_server(struct ktest *t)
{
	struct socket *s, *other, *closed;

	node_starts(t);
	s = dgram(t, "/root/dg socket");
	other = dgram(t, "@dg other");
	closed = dgram(t, "@dg closed");
	EXPECT_EQ(t, dial(other, "@dg closed"), 0);
	sim_cmd("barrier 1 2");
	EXPECT_EQ(t, hear(t, s, in, sizeof(in), "@dg client", 100 + CLIENT), 1);
	/* Connected to the client, it takes nobody else's. */
	EXPECT_EQ(t, dial(s, "@dg client"), 0);
	EXPECT_EQ(t, send_name(s, NULL, "ab", 2, 0), 2);
	EXPECT_EQ(t, send_name(other, "/root/dg socket", "x", 1, 0), -EPERM);
	sim_cmd("barrier 2 2");
	sim_cmd("barrier 3 2");
	EXPECT_EQ(t, hear(t, s, in, sizeof(in), "@dg client", 100 + CLIENT), 3);
	socket_drop(closed);
	socket_drop(s);
	sim_cmd("barrier 4 2");
	sim_cmd("barrier 5 2");
	socket_drop(other);
	nothing_left(t);
}

static void peers_client(struct ktest *t)
{
	struct sock_addr got = { 0 };
	struct socket *s, *b;

	node_starts(t);
	sim_cmd("barrier 1 2");
	s = dgram(t, "@dg client");
	b = dgram(t, "@dg second");
	EXPECT_EQ(t, dial(s, "@dg nobody"), -ECONNREFUSED);
	EXPECT_EQ(t, dial(s, "@dg other"), -EPERM); /* it has another peer */
	EXPECT_EQ(t, s->ops->getname(s, true, &got), -ENOTCONN);
	EXPECT_EQ(t, dial(s, "/root/dg socket"), 0);
	EXPECT_EQ(t, s->ops->getname(s, true, &got), 0);
	EXPECT_EQ(t, got.len, UNIX_PATH_OFFSET + sizeof("/root/dg socket"));
	EXPECT_STREQ(t, got.un.path, "/root/dg socket");
	EXPECT_EQ(t, send_name(s, NULL, "a", 1, 0), 1);
	EXPECT_EQ(t, hear(t, s, in, sizeof(in), "/root/dg socket", 100 + SERVER), 2);
	sim_cmd("barrier 2 2");
	EXPECT_EQ(t, send_name(b, "/root/dg socket", "x", 1, 0), -EPERM);
	EXPECT_EQ(t, dial(b, "/root/dg socket"), -EPERM);
	EXPECT_EQ(t, send_name(s, NULL, "abc", 3, 0), 3);
	sim_cmd("barrier 3 2");
	sim_cmd("barrier 4 2");
	/* It is closed: as on one processor, the sender is not connected any more. */
	EXPECT_EQ(t, send_name(s, NULL, "a", 1, 0), -ECONNREFUSED);
	EXPECT_EQ(t, send_name(s, NULL, "a", 1, 0), -ENOTCONN);
	EXPECT_EQ(t, READ_ONCE(s->state), SOCKET_IDLE);
	sim_cmd("barrier 5 2");
	socket_drop(s);
	socket_drop(b);
	nothing_left(t);
}

static void peers_are_as_on_one_processor(struct ktest *t)
{
	run(t, peers_server, peers_client);
}

/* --- a queue that is full ------------------------------------------------------------------ */

static void full_server(struct ktest *t)
{
	uint32_t nr = 0;
	struct socket *s;
	ssize_t got;

	node_starts(t);
	s = dgram(t, "@dg full");
	sim_cmd("barrier 1 2");
	sim_cmd("barrier 2 2");
	while ((got = take(s, in, sizeof(in), MSG_DONTWAIT)) == 1)
		nr++;
	EXPECT_EQ(t, nr, UNIX_DGRAM_QUEUE + 1);
	/* The one that has waited, which may be here by now, and the one behind it. */
	if (got == -EAGAIN)
		got = take(s, in, sizeof(in), 0);
	EXPECT_EQ(t, got, 2);
	EXPECT_EQ(t, take(s, in, sizeof(in), 0), 3);
	/* It fills again, by bytes this time, and the socket is closed with a sender waiting. */
	sim_cmd("barrier 3 2");
	sim_cmd("barrier 4 2");
	/* There is no memory for the word of room: it is said later. */
	shim_fail_alloc_after(0);
	while (take(s, in, sizeof(in), MSG_DONTWAIT) == 60000)
		;
	pause_us(50 * 1000);
	EXPECT_EQ(t, counter_of("socket.remote.unix_words"), 1);
	shim_fail_alloc_after(-1);
	EXPECT_EQ(t, take(s, in, sizeof(in), 0), 60000);
	EXPECT_EQ(t, counter_of("socket.remote.unix_words"), 0);
	sim_cmd("barrier 5 2");
	sim_cmd("barrier 6 2");
	socket_drop(s);
	nothing_left(t);
}

static void last_sender(void *arg)
{
	fake_task(0);
	*(ssize_t *)arg = send_name(*(struct socket **)((ssize_t *)arg + 1), NULL, out, 60000, 0);
}

struct last {
	ssize_t ret;
	struct socket *s;
};

/* Fill the queue, and have another thread wait for room. */
static struct thread *fill_and_wait(struct ktest *t, struct last *last)
{
	struct thread *th;
	uint32_t nr = 0;

	while (send_name(last->s, NULL, out, 60000, MSG_DONTWAIT) > 0)
		nr++;
	EXPECT_GT(t, nr, 1);
	EXPECT_LE(t, nr, 4);
	th = thread_create("last", last_sender, last);
	EXPECT_FALSE(t, IS_ERR(th));
	while (!fake_sleepers(&last->s->wr_wait))
		pause_us(1000);
	return th;
}

static void full_client(struct ktest *t)
{
	struct last last = { 0 };
	struct thread *th;
	struct socket *s;
	uint32_t nr = 0;

	node_starts(t);
	sim_cmd("barrier 1 2");
	s = last.s = dgram(t, "");
	EXPECT_EQ(t, dial(s, "@dg full"), 0);
	while (send_name(s, NULL, "a", 1, MSG_DONTWAIT) == 1)
		nr++;
	EXPECT_EQ(t, nr, UNIX_DGRAM_QUEUE + 1);
	EXPECT_FALSE(t, may_write(s));
	EXPECT_EQ(t, send_name(s, NULL, "a", 1, MSG_DONTWAIT), -EAGAIN);
	sim_cmd("barrier 2 2");
	EXPECT_EQ(t, send_name(s, NULL, "ab", 2, 0), 2); /* it waits */
	for (int i = 0; i < 5000 && !may_write(s); i++)
		pause_us(1000);
	EXPECT_TRUE(t, may_write(s));
	EXPECT_EQ(t, send_name(s, NULL, "abc", 3, 0), 3);
	sim_cmd("barrier 3 2");
	th = fill_and_wait(t, &last);
	sim_cmd("barrier 4 2");
	thread_join(th);
	EXPECT_EQ(t, last.ret, 60000);
	sim_cmd("barrier 5 2");
	th = fill_and_wait(t, &last);
	sim_cmd("barrier 6 2");
	thread_join(th);
	EXPECT_EQ(t, last.ret, -ECONNREFUSED);
	socket_drop(s);
	nothing_left(t);
}

static void a_full_queue_is_waited_for(struct ktest *t)
{
	run(t, full_server, full_client);
}

/* --- hostile messages ---------------------------------------------------------------------- */

static int say(const struct pp_unix_datagram_req *req, uint32_t len)
{
	struct {
		struct pp_unix_datagram_req_wire w;
		uint8_t bytes[100];
	} body = { 0 };

	pp_unix_datagram_req_encode(req, &body.w);
	return rpc_call_sync(SERVER, RPC_CLASS_DEMAND, PP_UNIX_DATAGRAM, &body,
			     (uint32_t)sizeof(body.w) + len, NULL, 0, 0);
}

static int say_room(uint64_t id)
{
	const struct pp_unix_room m = { .sender = id };
	struct pp_unix_room_wire w;

	pp_unix_room_encode(&m, &w);
	return rpc_call_sync(SERVER, RPC_CLASS_CONTROL, PP_UNIX_ROOM, &w, sizeof(w), NULL, 0, 0);
}

static void hostile_client(struct ktest *t)
{
	const struct sock_addr addr = name("@dg hostile");
	struct pp_unix_datagram_req good = {
		.sender = 1, .vnode = PROTO_VNODE_ROOT, .len = 5, .pid = 1
	};
	struct pp_unix_datagram_req r;

	node_starts(t);
	sim_cmd("barrier 1 2");
	names_hash(addr.un.path, addr.len - UNIX_PATH_OFFSET, good.key);
	EXPECT_EQ(t, say(&good, 4), -EMSGSIZE);
	EXPECT_EQ(t, say(&good, 6), -EMSGSIZE);
	r = good;
	r.vnode = OTHER_VNODE;
	EXPECT_EQ(t, say(&r, 5), -EACCES);
	r = good;
	r.flags = 2;
	EXPECT_EQ(t, say(&r, 5), -EPROTO);
	r.flags = PP_UNIX_ASKS;
	EXPECT_EQ(t, say(&r, 5), -EPROTO);
	r = good;
	r.name_len = 109;
	EXPECT_EQ(t, say(&r, 5), -EPROTO);
	r = good;
	r.sender = 0;
	EXPECT_EQ(t, say(&r, 5), -EPROTO);
	r = good;
	r.key[0] ^= 1;
	EXPECT_EQ(t, say(&r, 5), -ECONNREFUSED);
	EXPECT_EQ(t,
		  rpc_call_sync(SERVER, RPC_CLASS_DEMAND, PP_UNIX_DATAGRAM, &good, 9, NULL, 0, 0),
		  -EMSGSIZE);
	EXPECT_EQ(t, say_room(0), -EPROTO);
	EXPECT_EQ(t, say_room(77), 0); /* nobody's */
	EXPECT_EQ(t, say(&good, 5), 0);
	sim_cmd("barrier 2 2");
	nothing_left(t);
}

static void hostile_server(struct ktest *t)
{
	struct socket *s;

	node_starts(t);
	s = dgram(t, "@dg hostile");
	sim_cmd("barrier 1 2");
	sim_cmd("barrier 2 2");
	EXPECT_EQ(t, take(s, in, sizeof(in), MSG_DONTWAIT), 5);
	EXPECT_EQ(t, take(s, in, sizeof(in), MSG_DONTWAIT), -EAGAIN);
	socket_drop(s);
	nothing_left(t);
}

static void hostile_messages_are_refused(struct ktest *t)
{
	run(t, hostile_server, hostile_client);
}

/* --- a processor that does not hear -------------------------------------------------------- */

#define MUTE 3u

static void three_start(struct ktest *t, const struct rpc_handler *handlers, size_t nr)
{
	fake_task(0);
	rpc_node_start(t, NODE_ROLE_PROCESSOR, handlers, nr);
	if (!nr)
		ASSERT_EQ(t, remote_init(), 0);
	for (uint32_t id = SERVER; id <= MUTE; id++) {
		if (id != sim_node_id())
			peer_add_role(t, id, NODE_ROLE_PROCESSOR);
	}
	sim_cmd("barrier 0 3");
}

static void mute_server(struct ktest *t)
{
	struct socket *s;

	three_start(t, NULL, 0);
	s = dgram(t, "@dg hostile");
	sim_cmd("barrier 1 3");
	sim_cmd("barrier 2 3"); /* the queue is full, and it has many words to hear */
	EXPECT_GE(t, counter_of("socket.remote.unix_words"), 4096 - 32);
	sim_cmd("barrier 3 3"); /* a sender waits on the other processor */
	while (take(s, in, sizeof(in), MSG_DONTWAIT) == 5)
		;
	EXPECT_EQ(t, take(s, in, sizeof(in), 0), 2);
	EXPECT_GE(t, counter_of("socket.remote.unix_words"), 4096 - 32);
	remote_node_gone(MUTE, rpc_node_incarn(MUTE));
	EXPECT_EQ(t, counter_of("socket.remote.unix_words"), 0);
	sim_cmd("barrier 4 3");
	socket_drop(s);
	sim_cmd("barrier 5 3");
}

static void good_sender(void *arg)
{
	struct last *last = arg;

	fake_task(0);
	last->ret = send_name(last->s, "@dg hostile", "ab", 2, 0);
}

static void mute_other(struct ktest *t)
{
	struct last last = { 0 };
	struct thread *th;

	three_start(t, NULL, 0);
	sim_cmd("barrier 1 3");
	sim_cmd("barrier 2 3");
	last.s = dgram(t, "");
	th = thread_create("sender", good_sender, &last);
	ASSERT_FALSE(t, IS_ERR(th));
	while (!fake_sleepers(&last.s->wr_wait))
		pause_us(1000);
	sim_cmd("barrier 3 3");
	thread_join(th);
	EXPECT_EQ(t, last.ret, 2);
	sim_cmd("barrier 4 3");
	socket_drop(last.s);
	sim_cmd("barrier 5 3");
}

/* It does not answer. */
static enum rpc_handler_result hears_nothing(struct rpc_request *req, void *arg)
{
	return RPC_DONE;
}

static void mute_sender(struct ktest *t)
{
	static const struct rpc_handler handlers[] = {
		{ PP_UNIX_ROOM, 0, "mute", hears_nothing },
	};
	const struct sock_addr addr = name("@dg hostile");
	struct pp_unix_datagram_req r = { .vnode = PROTO_VNODE_ROOT, .len = 5, .pid = 1 };
	uint32_t taken = 0, full = 0;
	int err;

	three_start(t, handlers, ARRAY_SIZE(handlers));
	sim_cmd("barrier 1 3");
	names_hash(addr.un.path, addr.len - UNIX_PATH_OFFSET, r.key);
	/* Each from another sender, or so it says. */
	for (r.sender = 1; r.sender < 8000; r.sender++) {
		err = say(&r, 5);
		taken += !err;
		full += err == -EAGAIN;
		if (err && err != -EAGAIN)
			break;
	}
	EXPECT_EQ(t, err, -ENOBUFS);
	EXPECT_EQ(t, taken, UNIX_DGRAM_QUEUE + 1);
	EXPECT_GE(t, full, 4096);
	EXPECT_LE(t, full, 6 * 1024);
	sim_cmd("barrier 2 3");
	sim_cmd("barrier 3 3");
	sim_cmd("barrier 4 3");
	sim_cmd("barrier 5 3");
}

static void one_that_does_not_hear_keeps_no_other_waiting(struct ktest *t)
{
	const struct sim_node nodes[] = {
		{ .id = SERVER, .fn = mute_server },
		{ .id = CLIENT, .fn = mute_other },
		{ .id = MUTE, .fn = mute_sender },
	};

	sim_run(t, nodes, ARRAY_SIZE(nodes), 60);
}

static const struct ktest_case cases[] = {
	KTEST(datagrams_have_names_and_sizes),
	KTEST(peers_are_as_on_one_processor),
	KTEST(a_full_queue_is_waited_for),
	KTEST(hostile_messages_are_refused),
	KTEST(one_that_does_not_hear_keeps_no_other_waiting),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "socket.remote_dgram", .cases = cases };
KTEST_SUITE(suite);
