/* SPDX-License-Identifier: MIT */
/*
 * TCP between programs on two processors, over simulated RDMA: bytes beside a model, over
 * connections that break; ends, resets, backlogs, a processor that leaves. Peers that do wrong are
 * in remote_faults_test.c.
 */
#include <abi/in.h>
#include <abi/poll.h>
#include <cluster/cluster.h>
#include <kernel/counter.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <net/rpc.h>
#include <net/tcpip.h>
#include <processor/account/account.h>
#include <processor/client/names.h>
#include <processor/socket/gateway.h>
#include <processor/socket/inet_private.h>
#include <processor/socket/queue.h>
#include <processor/socket/raw.h>
#include <processor/socket/relay.h>
#include <processor/socket/remote_private.h>
#include <processor/vfs/uio.h>
#include <proto/pp.h>
#include <shim/shim.h>

#include "../../net/rpc/rpc_priv.h"
#include "ipc_fake.h"
#include "memverbs/sim.h"
#include "remote_fake.h"
#include "rpc_nodes.h"

/* --- surroundings: no network card, and the managers know that the other node listens - */

const struct socket_ops udp_ops = { .name = "none" }, raw_ops = { .name = "none" },
			ping_ops = { .name = "none" };

bool ping_is_allowed(void)
{
	return false;
}

uint32_t gateway_mtu(const uint8_t own[16])
{
	return 0;
}

bool gateway_is_own(const uint8_t addr[16])
{
	return false;
}

int relay_connect(const struct remote_request *r, uint64_t *id, uint64_t *limit)
{
	return -ENETUNREACH;
}

void tcpip_status(struct tcpip_conn *c, struct tcpip_status *out)
{
	*out = (struct tcpip_status){ 0 };
}

int outside_connect(struct socket *s, const struct inet_name *to, bool nonblock)
{
	return -ENETUNREACH;
}

int outside_connect_here(struct socket *s, const struct inet_name *to)
{
	return -ENETUNREACH;
}

int outside_open(struct socket *s, unsigned int backlog)
{
	return 0;
}

void outside_close(struct socket *s)
{
}

void outside_accepted(struct socket *s)
{
}

void inet_errors_purge(struct socket *s)
{
	(void)s;
}

void inet_groups_init(struct socket *s)
{
}

void inet_groups_leave(struct socket *s)
{
}

bool inet_is_group_option(int level, int option)
{
	return false;
}

int inet_group_set(struct socket *s, int level, int option, const void *val, uint32_t len)
{
	return -ENOPROTOOPT;
}

bool inet_group_takes(struct socket *s, const struct inet_name *to, const struct inet_name *from,
		      uint32_t interface)
{
	return false;
}

int names_find(const struct vnode_name *name, uint64_t until_ns, uint32_t *node)
{
	*node = sim_node_id() == SERVER ? CLIENT : SERVER;
	return sim_node_id() == SERVER && name->kind != NAME_UNIX_DGRAM ? -ECONNREFUSED : 0;
}

/* --- bytes beside a model ------------------------------------------------------------- */

#define TOTAL (1500u * 1000u)

static uint8_t byte_at(uint32_t node, uint64_t i)
{
	return (uint8_t)(i * 7 + i / 251 + node * 31);
}

struct stream {
	struct ktest *t;
	struct socket *s;
	struct completion done;
};

static void send_stream(struct ktest *t, struct socket *s)
{
	static uint8_t buf[100000];
	struct prng r;
	uint64_t at = 0;

	prng_seed(&r, sim_node_id());
	while (at < TOTAL) {
		/* The first ones go alone, so some messages are small whatever gathers later. */
		const bool alone = at < 4000;
		const uint64_t most = alone ? 1500 : prng_below(&r, 3) ? 3000 : sizeof(buf);
		const size_t len = (size_t)MIN(1 + prng_below(&r, most), TOTAL - at);
		ssize_t n;

		for (size_t i = 0; i < len; i++)
			buf[i] = byte_at(sim_node_id(), at + i);
		n = give(s, buf, len, 0);
		ASSERT_EQ(t, n, (ssize_t)len);
		at += len;
		for (int k = 0; alone && k < 20000 && remote_outq(s); k++)
			pause_us(100);
	}
	EXPECT_EQ(t, s->ops->shutdown(s, SHUT_WR), 0);
}

static void stream_thread(void *arg)
{
	struct stream *st = arg;

	fake_task(0);
	send_stream(st->t, st->s);
	complete(&st->done);
}

static void receive_stream(struct ktest *t, struct socket *s)
{
	const uint32_t other = sim_node_id() == SERVER ? CLIENT : SERVER;
	static uint8_t buf[200000];
	struct prng r;
	uint64_t at = 0, wrong = 0;

	prng_seed(&r, sim_node_id() + 10);
	for (;;) {
		const size_t len = 1 + (size_t)prng_below(&r, sizeof(buf));
		const uint32_t flags = prng_below(&r, 4)   ? 0
				       : prng_below(&r, 2) ? MSG_WAITALL
							   : MSG_PEEK;
		const ssize_t n = take(s, buf, len, flags);

		ASSERT_TRUE(t, n >= 0);
		for (ssize_t i = 0; i < n; i++)
			wrong += buf[i] != byte_at(other, at + (uint64_t)i);
		if (!n)
			break;
		if (flags == MSG_WAITALL)
			EXPECT_EQ(t, (uint64_t)n, MIN((uint64_t)len, TOTAL - at));
		if (flags != MSG_PEEK)
			at += (uint64_t)n;
	}
	EXPECT_EQ(t, at, TOTAL);
	EXPECT_EQ(t, wrong, 0);
}

void both_ways(struct ktest *t, struct socket *s)
{
	struct stream st = { .t = t, .s = s };
	struct thread *th;

	completion_init(&st.done);
	th = thread_create("sender", stream_thread, &st);
	ASSERT_FALSE(t, IS_ERR(th));
	thread_detach(th);
	receive_stream(t, s);
	completion_wait(&st.done);
	socket_drop(s);
}

static void stream_server(struct ktest *t)
{
	struct socket *l, *s;

	join(t);
	l = listener(t, 1);
	s = l->ops->accept(l, false);
	ASSERT_FALSE(t, IS_ERR(s));
	s->rcvbuf = 100000;
	both_ways(t, s);
	socket_drop(l);
	EXPECT_GT(t, counter_of("socket.remote.bulks"), 5);
	EXPECT_GT(t, counter_of("socket.remote.messages"), counter_of("socket.remote.bulks"));
	EXPECT_EQ(t, counter_of("socket.remote.lost"), 0);
	nothing_left(t);
}

static void stream_client(struct ktest *t)
{
	join(t);
	sim_cmd("barrier 1 2");
	both_ways(t, connected(t));
	nothing_left(t);
	EXPECT_EQ(t, counter_of("socket.remote.bytes"), TOTAL);
}

static void bytes_are_those_that_were_sent(struct ktest *t)
{
	run(t, stream_server, stream_client);
}

static void breaking_client(struct ktest *t)
{
	join(t);
	sim_cmd("barrier 1 2");
	sim_cmd("delay 0 800");
	sim_cmd("breaks 1000");
	sim_cmd("loss 10");
	both_ways(t, connected(t));
	sim_cmd("breaks 0");
	sim_cmd("loss 0");
	EXPECT_GT(t, sim_cmd("count broken"), 2);
	nothing_left(t);
}

static void also_over_connections_that_break(struct ktest *t)
{
	run(t, stream_server, breaking_client);
}

/* --- ends ----------------------------------------------------------------------------- */

static void ends_server(struct ktest *t)
{
	struct socket *l, *s;
	char buf[8] = { 0 };

	join(t);
	l = listener(t, 1);
	/* Half of it ends: the other half goes on. */
	s = l->ops->accept(l, false);
	EXPECT_EQ(t, take(s, buf, 8, 0), 3);
	EXPECT_EQ(t, take(s, buf, 8, 0), 0);
	EXPECT_EQ(t, s->ops->poll(s) & (POLLIN | POLLRDHUP | POLLOUT | POLLHUP),
		  POLLIN | POLLRDHUP | POLLOUT);
	EXPECT_EQ(t, give(s, "xyz", 3, 0), 3);
	socket_drop(s);
	/* It is closed with a byte unread. */
	s = l->ops->accept(l, false);
	while (!READ_ONCE(s->readable))
		pause_us(100);
	socket_drop(s);
	/* It is closed; what comes later is answered by a reset. */
	s = l->ops->accept(l, false);
	socket_drop(s);
	sim_cmd("barrier 2 2");
	/* The listener goes with a connection that no program has. */
	sim_cmd("barrier 3 2");
	socket_drop(l);
	sim_cmd("barrier 4 2");
	nothing_left(t);
}

static void ends_client(struct ktest *t)
{
	struct sock_addr name;
	struct socket *s;
	char buf[8] = { 0 };

	join(t);
	sim_cmd("barrier 1 2");
	s = connected(t);
	EXPECT_EQ(t, connect_to(s, false), -EISCONN);
	EXPECT_EQ(t, s->ops->getname(s, true, &name), 0);
	EXPECT_EQ(t, __builtin_bswap16(name.in.port), PORT);
	EXPECT_EQ(t, take(s, buf, 8, MSG_DONTWAIT), -EAGAIN);
	EXPECT_EQ(t, give(s, "abc", 3, 0), 3);
	EXPECT_EQ(t, s->ops->shutdown(s, SHUT_WR), 0);
	EXPECT_EQ(t, give(s, "abc", 3, 0), -EPIPE);
	EXPECT_EQ(t, take(s, buf, 3, MSG_WAITALL), 3);
	EXPECT_EQ(t, memcmp(buf, "xyz", 3), 0);
	EXPECT_EQ(t, take(s, buf, 8, 0), 0);
	socket_drop(s);

	s = connected(t);
	EXPECT_EQ(t, give(s, "a", 1, 0), 1);
	EXPECT_EQ(t, take(s, buf, 8, 0), -ECONNRESET);
	EXPECT_EQ(t, take(s, buf, 8, 0), 0);
	EXPECT_EQ(t, give(s, "a", 1, 0), -EPIPE);
	EXPECT_TRUE(t, s->ops->poll(s) & POLLHUP);
	socket_drop(s);

	s = connected(t);
	sim_cmd("barrier 2 2");
	EXPECT_EQ(t, take(s, buf, 8, 0), 0);
	EXPECT_EQ(t, give(s, "a", 1, 0), 1);
	while (!READ_ONCE(s->error))
		pause_us(100);
	EXPECT_EQ(t, give(s, "a", 1, 0), -EPIPE);
	socket_drop(s);

	s = connected(t);
	sim_cmd("barrier 3 2");
	EXPECT_EQ(t, take(s, buf, 8, 0), -ECONNRESET);
	socket_drop(s);
	sim_cmd("barrier 4 2");
	/* Nothing listens any more. */
	s = make();
	EXPECT_EQ(t, connect_to(s, false), -ECONNREFUSED);
	EXPECT_EQ(t, connect_to(s, true), -EINPROGRESS);
	while (!(s->ops->poll(s) & POLLERR))
		pause_us(100);
	EXPECT_EQ(t, socket_take_error(s), ECONNREFUSED);
	socket_drop(s);
	nothing_left(t);
}

static void ends_are_as_of_tcp(struct ktest *t)
{
	run(t, ends_server, ends_client);
}

/* --- backlogs, windows ---------------------------------------------------------------- */

/* Of three sockets, which may be any of the client's. */
static uint64_t readable_of(struct socket *s[3])
{
	return READ_ONCE(s[0]->readable) + READ_ONCE(s[1]->readable) + READ_ONCE(s[2]->readable);
}

static void full_server(struct ktest *t)
{
	struct socket *l, *s[3];

	join(t);
	l = listener(t, 0);
	EXPECT_TRUE(t, wait_counter("socket.remote.backlog_full", 2));
	sim_cmd("barrier 2 2");
	for (int i = 0; i < 3; i++) {
		s[i] = l->ops->accept(l, false);
		EXPECT_FALSE(t, IS_ERR(s[i]));
	}
	sim_cmd("barrier 3 2");
	/* The client has filled the window: it goes on when something is read. */
	while (readable_of(s) < 131072)
		pause_us(100);
	EXPECT_EQ(t, readable_of(s), 131072);
	sim_cmd("barrier 4 2");
	for (int i = 0; i < 3; i++)
		socket_drop(s[i]);
	socket_drop(l);
	nothing_left(t);
}

static void full_client(struct ktest *t)
{
	static uint8_t buf[1 << 20];
	struct socket *s[3];
	uint64_t sent = 0;
	int ready = 0;
	ssize_t n;

	join(t);
	sim_cmd("barrier 1 2");
	for (int i = 0; i < 3; i++) {
		s[i] = make();
		EXPECT_EQ(t, connect_to(s[i], true), -EINPROGRESS);
	}
	pause_us(20000);
	/* Whichever came first has the only place. */
	for (int i = 0; i < 3; i++) {
		if (s[i]->ops->poll(s[i]) & POLLOUT)
			ready++;
		else
			EXPECT_EQ(t, connect_to(s[i], true), -EALREADY);
	}
	EXPECT_LE(t, ready, 1);
	sim_cmd("barrier 2 2");
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 5000 && !(s[i]->ops->poll(s[i]) & POLLOUT); k++)
			pause_us(1000);
		EXPECT_EQ(t, connect_to(s[i], true), 0);
	}
	sim_cmd("barrier 3 2");
	for (int k = 0; k < 300; k++) {
		n = give(s[0], buf, sizeof(buf), MSG_DONTWAIT);
		if (n > 0)
			sent += (uint64_t)n;
		else
			EXPECT_EQ(t, n, -EAGAIN);
		pause_us(1000);
	}
	/* The window over there, and two buffers here. */
	EXPECT_LE(t, sent, 131072 + 2 * REMOTE_LARGE);
	EXPECT_GE(t, sent, 131072);
	EXPECT_EQ(t, s[0]->ops->poll(s[0]) & POLLOUT, 0);
	sim_cmd("barrier 4 2");
	for (int i = 0; i < 3; i++)
		socket_drop(s[i]);
	nothing_left(t);
}

static void backlogs_and_windows_are_bounded(struct ktest *t)
{
	run(t, full_server, full_client);
}

/* --- doorbells ------------------------------------------------------------------------ */

#define ROUNDS       300u
#define LARGE_ROUNDS 20u

static uint8_t large[8192];

/* Doorbells since @before, but for those of replies that waited in vain. */
static uint64_t rung_since(uint64_t before)
{
	return counter("rpc.doorbells") - counter("rpc.late_rings") - before;
}

static void dialogue_server(struct ktest *t)
{
	uint8_t buf[64];
	struct socket *l, *s;
	uint64_t before;

	join(t);
	l = listener(t, 1);
	s = l->ops->accept(l, false);
	ASSERT_FALSE(t, IS_ERR(s));
	before = rung_since(0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(t, take(s, buf, sizeof(buf), MSG_WAITALL), (ssize_t)sizeof(buf));
		EXPECT_EQ(t, buf[0], (uint8_t)i);
		pause_us(300); /* else the answer may be the first of the two */
		ASSERT_EQ(t, give(s, buf, sizeof(buf), 0), (ssize_t)sizeof(buf));
	}
	/* An answer brings the reply to the question along: one doorbell a round, and not two. */
	EXPECT_LE(t, rung_since(before), ROUNDS + ROUNDS / 4);
	EXPECT_GE(t, rung_since(before), ROUNDS);
	/* These have no answer. */
	before = counter("rpc.late_rings");
	for (uint32_t i = 0; i < 3; i++) {
		ASSERT_EQ(t, take(s, buf, sizeof(buf), MSG_WAITALL), (ssize_t)sizeof(buf));
		sim_cmd("barrier %u 2", 2 + i);
	}
	EXPECT_EQ(t, counter("rpc.late_rings") - before, 1u);
	/* Nor can answers like these bring a reply along. */
	before = counter("rpc.late_rings");
	for (uint32_t i = 0; i < LARGE_ROUNDS; i++) {
		ASSERT_EQ(t, take(s, buf, sizeof(buf), MSG_WAITALL), (ssize_t)sizeof(buf));
		ASSERT_EQ(t, give(s, large, sizeof(large), 0), (ssize_t)sizeof(large));
	}
	EXPECT_EQ(t, counter("rpc.late_rings") - before, 0u);
	socket_drop(s);
	socket_drop(l);
	nothing_left(t);
}

static void dialogue_client(struct ktest *t)
{
	uint8_t buf[64] = { 0 };
	struct socket *s;

	join(t);
	sim_cmd("barrier 1 2");
	s = connected(t);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		buf[0] = (uint8_t)i;
		ASSERT_EQ(t, give(s, buf, sizeof(buf), 0), (ssize_t)sizeof(buf));
		ASSERT_EQ(t, take(s, buf, sizeof(buf), MSG_WAITALL), (ssize_t)sizeof(buf));
	}
	for (uint32_t i = 0; i < 3; i++) {
		ASSERT_EQ(t, give(s, buf, sizeof(buf), 0), (ssize_t)sizeof(buf));
		/* The reply comes without an answer, too. */
		for (int k = 0; k < 5000 && remote_outq(s); k++)
			pause_us(1000);
		EXPECT_EQ(t, remote_outq(s), 0u);
		sim_cmd("barrier %u 2", 2 + i);
	}
	for (uint32_t i = 0; i < LARGE_ROUNDS; i++) {
		ASSERT_EQ(t, give(s, buf, sizeof(buf), 0), (ssize_t)sizeof(buf));
		ASSERT_EQ(t, take(s, large, sizeof(large), MSG_WAITALL), (ssize_t)sizeof(large));
	}
	socket_drop(s);
	nothing_left(t);
}

static void an_answer_brings_the_reply_along(struct ktest *t)
{
	run(t, dialogue_server, dialogue_client);
}

/* --- who polls, and who copies ----------------------------------------------------------- */

#define PATIENT_ROUNDS 20u
#define WIDE           60000u
#define WIDE_ROUNDS    10u

static uint8_t wide[WIDE];
static uint32_t wide_round; /* atomic: that the server is in */

/* The client sends when the server's reader waits. */
static void gate_main(void *arg)
{
	struct stream *st = arg;

	fake_task(0);
	for (uint32_t i = 0; i < WIDE_ROUNDS; i++) {
		while (__atomic_load_n(&wide_round, __ATOMIC_ACQUIRE) != i ||
		       READ_ONCE(st->s->wanted) < WIDE)
			pause_us(100);
		EXPECT_EQ(st->t, give(st->s, "g", 1, 0), 1);
	}
	complete(&st->done);
}

static void patient_server(struct ktest *t)
{
	struct stream st = { .t = t };
	struct socket *l, *s;
	struct thread *th;
	uint64_t copied;
	char c;

	join(t);
	l = listener(t, 1);
	st.s = s = l->ops->accept(l, false);
	ASSERT_FALSE(t, IS_ERR(s));
	for (uint32_t i = 0; i < PATIENT_ROUNDS; i++) {
		ASSERT_EQ(t, take(s, &c, 1, 0), 1);
		pause_us(5000);
		ASSERT_EQ(t, give(s, &c, 1, 0), 1);
	}
	/* One that waits for all of a large message copies it from where the device put it. */
	copied = counter_of("socket.remote.copied") + WIDE_ROUNDS; /* of gate_main() */
	completion_init(&st.done);
	th = thread_create("gate", gate_main, &st);
	ASSERT_FALSE(t, IS_ERR(th));
	thread_detach(th);
	for (uint32_t i = 0; i < WIDE_ROUNDS; i++) {
		ASSERT_EQ(t, take(s, wide, WIDE, MSG_WAITALL), (ssize_t)WIDE);
		__atomic_store_n(&wide_round, i + 1, __ATOMIC_RELEASE);
		for (uint32_t k = 0; k < WIDE; k++)
			ASSERT_EQ(t, wide[k], byte_at(CLIENT, i + k));
	}
	completion_wait(&st.done);
	EXPECT_EQ(t, counter_of("socket.remote.copied"), copied);
	/* One that does not wait, or for less, gets it from the socket's queue. */
	sim_cmd("barrier 2 2");
	while (READ_ONCE(s->readable) < WIDE)
		pause_us(100);
	EXPECT_TRUE(t, wait_counter("socket.remote.copied", copied + WIDE));
	ASSERT_EQ(t, take(s, wide, WIDE, 0), (ssize_t)WIDE);
	sim_cmd("barrier 3 2");
	ASSERT_EQ(t, take(s, wide, 10, 0), 10);
	EXPECT_TRUE(t, wait_counter("socket.remote.copied", copied + 2 * WIDE));
	ASSERT_EQ(t, take(s, wide, WIDE - 10, 0), (ssize_t)WIDE - 10);
	socket_drop(s);
	socket_drop(l);
	nothing_left(t);
}

static void patient_client(struct ktest *t)
{
	struct socket *s;
	uint64_t arms;
	char c = 'c';

	rpc_tune.spin_us = 100000;
	rpc_tune.lazy_us = 200;
	join(t);
	sim_cmd("barrier 1 2");
	s = connected(t);
	arms = counter("rpc.arms");
	for (uint32_t i = 0; i < PATIENT_ROUNDS; i++) {
		ASSERT_EQ(t, give(s, &c, 1, 0), 1);
		ASSERT_EQ(t, take(s, &c, 1, 0), 1);
	}
	/* It polls for longer than arming is put off: nobody arms meanwhile. */
	EXPECT_LE(t, counter("rpc.arms") - arms, PATIENT_ROUNDS / 4);
	for (uint32_t i = 0; i < WIDE_ROUNDS + 2; i++) {
		if (i >= WIDE_ROUNDS)
			sim_cmd("barrier %u 2", 2 + i - WIDE_ROUNDS);
		for (uint32_t k = 0; k < WIDE; k++)
			wide[k] = byte_at(CLIENT, i + k);
		if (i < WIDE_ROUNDS)
			ASSERT_EQ(t, take(s, &c, 1, 0), 1); /* the reader waits */
		ASSERT_EQ(t, give(s, wide, WIDE, 0), (ssize_t)WIDE);
		for (int k = 0; k < 20000 && remote_outq(s); k++)
			pause_us(100);
	}
	socket_drop(s);
	nothing_left(t);
}

static void a_reader_polls_and_copies_once(struct ktest *t)
{
	run(t, patient_server, patient_client);
}

/* --- a processor leaves --------------------------------------------------------------- */

static void leave_server(struct ktest *t)
{
	struct socket *l;

	join(t);
	l = listener(t, 5);
	(void)l;
	sim_cmd("barrier 2 2");
	pause_us(30000000); /* killed meanwhile */
}

static void membership_speaks(void *arg)
{
	struct node_info info;

	pause_us(200000);
	(void)rpc_peer_info(SERVER, &info);
	rpc_peer_remove(SERVER);
	remote_node_gone(SERVER, info.incarn);
}

static void leave_client(struct ktest *t)
{
	static uint8_t buf[1 << 20];
	struct socket *idle, *busy;
	struct thread *th;

	join(t);
	sim_cmd("barrier 1 2");
	idle = connected(t);
	busy = connected(t);
	sim_cmd("barrier 2 2");
	EXPECT_GT(t, give(busy, buf, sizeof(buf), MSG_DONTWAIT), 0);
	sim_cmd("kill %u", SERVER);
	th = thread_create("membership", membership_speaks, NULL);
	ASSERT_FALSE(t, IS_ERR(th));
	thread_detach(th);
	EXPECT_EQ(t, take(idle, buf, 1, 0), -ECONNRESET);
	EXPECT_EQ(t, take(busy, buf, 1, 0), -ECONNRESET);
	EXPECT_EQ(t, give(busy, buf, 1, 0), -EPIPE);
	EXPECT_EQ(t, connect_to(idle, false), -EISCONN);
	socket_drop(idle);
	socket_drop(busy);
	for (int i = 0; i < 5000 && kmem_count(KMEM_SOCKET_BYTES); i++)
		pause_us(1000);
	EXPECT_EQ(t, kmem_count(KMEM_SOCKET_BYTES), 0);
	/* The program hears of it before the table does. */
	for (int i = 0; i < 5000 && counter_of("socket.remote.connections"); i++)
		pause_us(1000);
	EXPECT_EQ(t, counter_of("socket.remote.connections"), 0);
}

static void a_processor_leaves(struct ktest *t)
{
	run(t, leave_server, leave_client);
}

static const struct ktest_case cases[] = {
	KTEST(bytes_are_those_that_were_sent),
	KTEST(also_over_connections_that_break),
	KTEST(ends_are_as_of_tcp),
	KTEST(backlogs_and_windows_are_bounded),
	KTEST(an_answer_brings_the_reply_along),
	KTEST(a_reader_polls_and_copies_once),
	KTEST(a_processor_leaves),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "socket.remote", .cases = cases };
KTEST_SUITE(suite);
