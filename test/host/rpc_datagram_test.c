/* SPDX-License-Identifier: MIT */
/*
 * RPC by datagrams between simulated nodes: loss, duplicates, reordering, overload, forgery, no
 * connection.
 *
 * Flow:	each case is a small cluster (memverbs/sim.h); node 1 serves, the others call.
 *		Where a case plays a hostile node it uses the layer's own queue pair, or one beside
 *		it.
 */
#include "rpc_nodes.h"

#include <pthread.h>
#include <unistd.h>

#include <kernel/time.h>
#include <lib/err.h>
#include <mm/kmap.h>
#include <rdma/provider.h>
#include <shim/shim.h>

#include "../../net/rpc/dgram.h"
#include "memverbs/sim.h"

enum {                      /* opcodes */
	OP_SQUARE = 0x0f11, /* worker: of the uint64_t in the body; -EDOM above 1e6 */
	OP_SLOW = 0x0f12,   /* worker: sleeps so many milliseconds */
	OP_RC_ONLY = 0x0f13,
	OP_LONG = 0x0f14, /* answers more than fits */
	OP_DATA = 0x0f15, /* answers with a data WRITE */
};

enum {                /* sim_shared */
	SH_RUNS = 1,  /* of OP_SQUARE */
	SH_ID = 2,    /* request id of a call under way */
	SH_CALLS = 3, /* repetitions, of all clients */
	SH_LATE = 4,
};

/* --- server ------------------------------------------------------------------------------ */

static enum rpc_handler_result h_square(struct rpc_request *req, void *arg)
{
	uint64_t n = 0;
	uint32_t len;
	const void *body = rpc_request_body(req, &len);

	(void)arg;
	if (len != sizeof(n)) {
		rpc_reply(req, -EMSGSIZE, NULL, 0);
		return RPC_DONE;
	}
	memcpy(&n, body, sizeof(n));
	sim_add(SH_RUNS, 1);
	n *= n;
	rpc_reply(req, n > 1000000000000ull ? -EDOM : 0, &n, sizeof(n));
	return RPC_DONE;
}

static enum rpc_handler_result h_slow(struct rpc_request *req, void *arg)
{
	uint32_t ms = 0, len;
	const void *body = rpc_request_body(req, &len);

	(void)arg;
	memcpy(&ms, body, MIN(len, (uint32_t)sizeof(ms)));
	usleep(ms * 1000);
	rpc_reply(req, 0, &ms, sizeof(ms));
	return RPC_DONE;
}

static enum rpc_handler_result h_long(struct rpc_request *req, void *arg)
{
	static const uint8_t body[8192];

	(void)arg;
	rpc_reply(req, 0, body, rpc_request_reply_max(req) + 1);
	return RPC_DONE;
}

static enum rpc_handler_result h_data(struct rpc_request *req, void *arg)
{
	const struct rpc_write w = { .remote_addr = 0 };

	(void)arg;
	rpc_reply_bulk(req, 0, NULL, 0, &w, 1, NULL, NULL);
	return RPC_DONE;
}

#define ANYHOW (RPC_HANDLER_IDEMPOTENT | RPC_HANDLER_DATAGRAM)
static const struct rpc_handler handlers[] = {
	{ OP_ECHO, RPC_HANDLER_INLINE | ANYHOW, "echo", h_echo },
	{ OP_SQUARE, ANYHOW, "square", h_square },
	{ OP_SLOW, ANYHOW, "slow", h_slow },
	{ OP_RC_ONLY, RPC_HANDLER_INLINE | RPC_HANDLER_IDEMPOTENT, "rc_only", h_echo },
	{ OP_LONG, ANYHOW, "long", h_long },
	{ OP_DATA, ANYHOW, "data", h_data },
};

/* --- set-up ------------------------------------------------------------------------------ */

static void node_start(struct ktest *t)
{
	rpc_node_start(t, NODE_ROLE_MEMORY, handlers, ARRAY_SIZE(handlers));
}

/* Connect once, so that both know where the other takes datagrams. */
static int connect_to(uint32_t id)
{
	return rpc_call_sync(id, RPC_CLASS_CONTROL, OP_ECHO, NULL, 0, NULL, 0, 0);
}

static void node_join(struct ktest *t, uint32_t n)
{
	node_start(t);
	rpc_node_join(t, n);
}

/* Nothing of a call or request is left. */
static void expect_at_rest(struct ktest *t)
{
	for (int i = 0; i < 3000 && atomic_read(&rpc_dgram.nr_held); i++)
		usleep(1000);
	EXPECT_EQ(t, atomic_read(&rpc_dgram.nr_held), 0);
	for (uint32_t i = 0; i < RPC_DGRAM_HASH; i++)
		EXPECT_TRUE(t, list_empty(&rpc_dgram.calls[i]));
}

static void server_n(struct ktest *t, uint32_t n)
{
	node_join(t, n);
	sim_cmd("barrier 1 %u", n); /* the clients are done */
	expect_at_rest(t);
}

static void server2(struct ktest *t)
{
	server_n(t, 2);
}

static int echo_ms(uint32_t peer, uint32_t len, uint32_t ms)
{
	static __thread uint8_t out[4096], in[4096];
	int n;

	for (uint32_t i = 0; i < len; i++)
		out[i] = (uint8_t)(i * 7 + len);
	memset(in, 0xee, sizeof(in));
	n = rpc_datagram_sync(peer, OP_ECHO, out, len, in, sizeof(in), ms * NSEC_PER_MSEC);
	if (n < 0)
		return n;
	return (uint32_t)n == len && memcmp(in, out, len) == 0 ? 0 : -EBADMSG;
}

static int echo(uint32_t peer, uint32_t len)
{
	return echo_ms(peer, len, 20000);
}

static int square(uint32_t peer, uint64_t n)
{
	uint64_t out = 0;
	const int err = rpc_datagram_sync(peer, OP_SQUARE, &n, sizeof(n), &out, sizeof(out), 0);

	if (err < 0)
		return err;
	return err == sizeof(out) && out == n * n ? 0 : -EBADMSG;
}

/* --- plain ------------------------------------------------------------------------------- */

static void plain_client(struct ktest *t)
{
	static const struct rpc_handler bad[] = {
		{ 0x0f20, RPC_HANDLER_DATAGRAM, "not idempotent", h_echo },
		{ 0x0f21, ANYHOW | RPC_HANDLER_WAITS, "waits", h_echo },
	};
	const uint32_t max = 4096 - sizeof(struct rpc_dgram_wire);
	uint8_t b[8];

	EXPECT_EQ(t, rpc_handlers_register(&bad[0], 1, NULL), -EINVAL);
	EXPECT_EQ(t, rpc_handlers_register(&bad[1], 1, NULL), -EINVAL);
	node_join(t, 2);
	/* No message has told this node yet. */
	EXPECT_EQ(t, rpc_datagram_max(1), 0);
	EXPECT_EQ(t, echo(1, 8), -EHOSTUNREACH);
	ASSERT_EQ(t, connect_to(1), 0);
	EXPECT_EQ(t, rpc_datagram_max(1), max);
	EXPECT_EQ(t, echo(1, 0), 0);
	EXPECT_EQ(t, echo(1, 1), 0);
	EXPECT_EQ(t, echo(1, max), 0);
	EXPECT_EQ(t, echo(1, max + 1), -EMSGSIZE);
	EXPECT_EQ(t, square(1, 12), 0);
	EXPECT_EQ(t, square(1, 1000001), -EDOM);
	EXPECT_EQ(t, rpc_datagram_sync(1, OP_ECHO, "abc", 3, b, 2, 0), -EMSGSIZE);
	EXPECT_EQ(t, rpc_datagram_sync(1, OP_ECHO, "abc", 3, NULL, 0, 0), 0);
	EXPECT_EQ(t, rpc_datagram_sync(1, OP_LONG, NULL, 0, b, 8, 0), -EMSGSIZE);
	EXPECT_EQ(t, rpc_datagram_sync(1, OP_DATA, NULL, 0, b, 8, 0), -EOPNOTSUPP);
	EXPECT_EQ(t, rpc_datagram_sync(1, OP_RC_ONLY, NULL, 0, b, 8, 0), -EOPNOTSUPP);
	EXPECT_EQ(t, rpc_datagram_sync(1, 0x0fff, NULL, 0, b, 8, 0), -ENOSYS);
	EXPECT_EQ(t, rpc_datagram_sync(1, RPC_OP_PING, NULL, 0, NULL, 0, 0), 0);
	EXPECT_EQ(t, echo(7, 1), -EHOSTDOWN);
	EXPECT_EQ(t, counter("rpc.datagram.sent"), 12);
	EXPECT_EQ(t, counter("rpc.datagram.replies"), 12);
	EXPECT_EQ(t, counter("rpc.datagram.timeouts"), 0);
	EXPECT_EQ(t, counter("rpc.datagram.malformed"), 0);
	EXPECT_EQ(t, counter("rpc.datagram.forged"), 0);
	EXPECT_EQ(t, counter("rpc.requests"), 1); /* nothing went by connection */
	expect_at_rest(t);
	sim_cmd("barrier 1 2");
}

static void plain(struct ktest *t)
{
	sim_two(t, server2, plain_client, 30);
}

/* --- a bad network ------------------------------------------------------------------------ */

#define BAD_CALLS   120
#define BAD_THREADS 4

static void *bad_thread(void *arg)
{
	struct ktest *t = arg;
	static uint32_t next;
	const uint32_t base = __atomic_fetch_add(&next, 1, __ATOMIC_SEQ_CST) * 1000;

	for (uint32_t i = 0; i < BAD_CALLS / BAD_THREADS; i++) {
		EXPECT_EQ(t, square(1, base + i + 1), 0);
		EXPECT_EQ(t, echo(1, base / 1000 + i * 20), 0);
	}
	return NULL;
}

static void bad_client(struct ktest *t)
{
	pthread_t thread[BAD_THREADS];

	node_join(t, 3);
	ASSERT_EQ(t, connect_to(1), 0);
	sim_cmd("barrier 2 3");
	sim_cmd("barrier 3 3"); /* the network is bad now */
	for (int i = 0; i < BAD_THREADS; i++)
		pthread_create(&thread[i], NULL, bad_thread, t);
	for (int i = 0; i < BAD_THREADS; i++)
		pthread_join(thread[i], NULL);
	EXPECT_EQ(t, counter("rpc.datagram.sent"), 2 * BAD_CALLS);
	EXPECT_EQ(t, counter("rpc.datagram.replies"), 2 * BAD_CALLS);
	EXPECT_EQ(t, counter("rpc.datagram.timeouts"), 0);
	EXPECT_EQ(t, counter("rpc.datagram.forged"), 0);
	EXPECT_EQ(t, counter("rpc.datagram.malformed"), 0);
	sim_add(SH_CALLS, counter("rpc.datagram.resent"));
	sim_add(SH_LATE, counter("rpc.datagram.late"));
	sim_cmd("barrier 1 3");
	expect_at_rest(t);
}

static void bad_server(struct ktest *t)
{
	node_join(t, 3);
	sim_cmd("barrier 2 3");
	sim_cmd("loss 25");
	sim_cmd("dup 25");
	sim_cmd("reorder 25");
	sim_cmd("delay 0 3000");
	sim_cmd("barrier 3 3");
	sim_cmd("barrier 1 3");
	EXPECT_GT(t, sim_cmd("count lost"), 100);
	EXPECT_GT(t, sim_cmd("count duplicated"), 100);
	EXPECT_GT(t, sim_cmd("count reordered"), 100);
	EXPECT_GT(t, sim_get(SH_CALLS), 100); /* repetitions */
	EXPECT_GT(t, sim_get(SH_LATE), 100);
	EXPECT_GT(t, sim_get(SH_RUNS), 2 * BAD_CALLS); /* idempotent: some ran twice */
	EXPECT_GE(t, counter("rpc.datagram.received"), counter("rpc.datagram.answered"));
	expect_at_rest(t);
}

static void bad_network(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = 1, .fn = bad_server },
						 { .id = 2, .fn = bad_client },
						 { .id = 3, .fn = bad_client } };

	sim_run(t, nodes, 3, 60);
}

/* --- no connection ------------------------------------------------------------------------ */

static void unconnected_client(struct ktest *t)
{
	node_join(t, 2);
	ASSERT_EQ(t, connect_to(1), 0);
	sim_cmd("breaks 10000"); /* from here on nothing gets through on any connection */
	EXPECT_EQ(
		t,
		rpc_call_sync(1, RPC_CLASS_CONTROL, OP_ECHO, NULL, 0, NULL, 0, 300 * NSEC_PER_MSEC),
		-ETIMEDOUT);
	EXPECT_EQ(t, echo(1, 100), 0);
	EXPECT_EQ(t, square(1, 9), 0);
	sim_cmd("breaks 0");
	sim_cmd("barrier 1 2");
}

static void without_connection(struct ktest *t)
{
	sim_two(t, server2, unconnected_client, 30);
}

/* --- deadline ----------------------------------------------------------------------------- */

static void deadline_client(struct ktest *t)
{
	uint8_t in[4];
	uint64_t start;

	node_join(t, 2);
	ASSERT_EQ(t, connect_to(1), 0);
	memset(in, 0xee, sizeof(in));
	sim_cmd("hold 1 2");
	start = time_now_ns();
	EXPECT_EQ(t, rpc_datagram_sync(1, OP_ECHO, "abcd", 4, in, 4, 400 * NSEC_PER_MSEC),
		  -ETIMEDOUT);
	EXPECT_GE(t, time_now_ns() - start, 400 * NSEC_PER_MSEC);
	EXPECT_LT(t, time_now_ns() - start, 1500 * NSEC_PER_MSEC);
	EXPECT_GT(t, counter("rpc.datagram.resent"), 1);
	EXPECT_LT(t, counter("rpc.datagram.resent"), 10); /* less and less often */
	sim_cmd("release 1 2");
	/* All of its answers come late, and touch nothing. */
	EXPECT_TRUE(t, wait_counter("rpc.datagram.late", 2));
	EXPECT_EQ(t, echo(1, 3), 0);
	EXPECT_MEMEQ(t, in, "\xee\xee\xee\xee", 4);
	EXPECT_EQ(t, counter("rpc.datagram.timeouts"), 1);
	EXPECT_EQ(t, counter("rpc.datagram.replies"), 1);
	expect_at_rest(t);
	sim_cmd("barrier 1 2");
}

static void deadline(struct ktest *t)
{
	sim_two(t, server2, deadline_client, 30);
}

/* --- too many at once ---------------------------------------------------------------------- */

#define CROWD 24

static void *crowd_thread(void *arg)
{
	struct ktest *t = arg;
	const uint32_t ms = 60;
	uint32_t out = 0;

	EXPECT_EQ(t, rpc_datagram_sync(1, OP_SLOW, &ms, sizeof(ms), &out, sizeof(out), 0),
		  sizeof(out));
	EXPECT_EQ(t, out, ms);
	return NULL;
}

static void crowd_client(struct ktest *t)
{
	pthread_t thread[CROWD];

	node_join(t, 2);
	ASSERT_EQ(t, connect_to(1), 0);
	for (int i = 0; i < CROWD; i++)
		pthread_create(&thread[i], NULL, crowd_thread, t);
	for (int i = 0; i < CROWD; i++)
		pthread_join(thread[i], NULL);
	EXPECT_EQ(t, counter("rpc.datagram.timeouts"), 0);
	sim_cmd("barrier 1 2");
}

static void crowd_server(struct ktest *t)
{
	shim_bootparam_set("rpc.datagram_buffers", "8");
	shim_bootparam_set("rpc.workers", "2");
	server_n(t, 2);
	EXPECT_GT(t, counter("rpc.datagram.dropped"), 0);
	EXPECT_GE(t, counter("rpc.datagram.answered"), CROWD);
}

static void overload(struct ktest *t)
{
	sim_two(t, crowd_server, crowd_client, 60);
}

/* --- fencing and restart -------------------------------------------------------------------- */

static void fence_server(struct ktest *t)
{
	node_join(t, 2);
	sim_cmd("barrier 2 2");
	rpc_peer_remove(2);
	sim_cmd("barrier 3 2");
	sim_cmd("barrier 1 2");
	EXPECT_EQ(t, sim_get(SH_RUNS), 1);
	EXPECT_EQ(t, counter("rpc.datagram.stale"), 1);
}

static void fence_client(struct ktest *t)
{
	node_join(t, 2);
	ASSERT_EQ(t, connect_to(1), 0);
	EXPECT_EQ(t, square(1, 3), 0);
	sim_cmd("barrier 2 2");
	sim_cmd("barrier 3 2");
	EXPECT_EQ(t, square(1, 3), -ESTALE);
	rpc_peer_remove(1);
	EXPECT_EQ(t, square(1, 3), -EHOSTDOWN);
	sim_cmd("barrier 1 2");
}

static void fencing(struct ktest *t)
{
	sim_two(t, fence_server, fence_client, 30);
}

static void restart_server(struct ktest *t)
{
	node_start(t);
	peer_add(t, 2);
	if (sim_incarnation() == 0)
		sim_cmd("barrier 0 2");
	sim_cmd("barrier 1 2"); /* the first one never comes back from here */
}

static void restart_client(struct ktest *t)
{
	node_join(t, 2);
	ASSERT_EQ(t, connect_to(1), 0);
	EXPECT_EQ(t, echo(1, 50), 0);
	sim_shared[SH_BASE + 1] = 0;
	EXPECT_EQ(t, sim_cmd("kill 1"), 0);
	EXPECT_EQ(t, sim_cmd("spawn 1"), 0);
	(void)rpc_node_incarn(1);
	/*
	 * The newcomer has another key and another incarnation: it does not hear what is not for
	 * it.
	 */
	EXPECT_EQ(t, echo_ms(1, 50, 300), -ETIMEDOUT);
	peer_add(t, 1);
	EXPECT_EQ(t, echo(1, 50), -EHOSTUNREACH); /* where it takes datagrams is not known */
	while (connect_to(1))
		usleep(1000);
	EXPECT_EQ(t, echo(1, 50), 0);
	sim_cmd("barrier 1 2");
}

static void restart(struct ktest *t)
{
	sim_two(t, restart_server, restart_client, 30);
}

/* --- the queue pair breaks -------------------------------------------------------------------- */

static void reconnect(void)
{
	sim_cmd("break 1 2");
	while (connect_to(1))
		usleep(1000);
}

/* An error of its own: the thread finds the flushed receives. */
static void break_qp(struct ktest *t)
{
	/* So that it is not destroyed under our hands: what finds it broken wants the lock. */
	spin_lock(&rpc_dgram.lock);
	EXPECT_EQ(t, rpc_dgram.qp->dev->ops->qp_to_err(rpc_dgram.qp), 0);
	spin_unlock(&rpc_dgram.lock);
}

/* After a reset of the device nothing needs to be flushed. */
static void device_is_back(void)
{
	const struct rdma_event ev = { .type = RDMA_EVENT_DEVICE_UP, .dev = rpc_net.dev };

	rdma_event_dispatch(&ev);
}

static void renew_client(struct ktest *t)
{
	pthread_t thread;
	uint32_t qpn;

	node_join(t, 2);
	ASSERT_EQ(t, connect_to(1), 0);
	EXPECT_EQ(t, echo(1, 50), 0);
	qpn = rpc_dgram.qpn;
	break_qp(t);
	EXPECT_TRUE(t, wait_counter("rpc.datagram.renewed", 1));
	EXPECT_NE(t, rpc_dgram.qpn, qpn);
	EXPECT_EQ(t, echo_ms(1, 50, 200), -ETIMEDOUT); /* the server knows another number */
	reconnect();
	EXPECT_EQ(t, echo(1, 50), 0);
	/*
	 * The server's breaks with a request in its hands: the buffer is the request's until it is
	 * answered.
	 */
	pthread_create(&thread, NULL, crowd_thread, t);
	sim_cmd("barrier 2 2");
	sim_cmd("barrier 3 2");
	reconnect();
	pthread_join(thread, NULL);
	for (int i = 0; i < 200; i++) /* every buffer in turn */
		EXPECT_EQ(t, echo(1, 50), 0);
	expect_at_rest(t);
	sim_cmd("barrier 1 2");
}

static void renew_server(struct ktest *t)
{
	node_join(t, 2);
	sim_cmd("barrier 2 2");
	while (!atomic_read(&rpc_dgram.nr_held))
		usleep(100);
	device_is_back();
	EXPECT_TRUE(t, wait_counter("rpc.datagram.renewed", 1));
	sim_cmd("barrier 3 2");
	sim_cmd("barrier 1 2");
	EXPECT_GT(t, counter("rpc.datagram.forged"), 0);
	expect_at_rest(t);
}

static void renewed(struct ktest *t)
{
	sim_two(t, renew_server, renew_client, 30);
}

/* --- hostile ------------------------------------------------------------------------------- */

/* A header that a node can forge when it knows all that a member knows. */
static struct rpc_dgram_hdr forgery(const struct rpc_dgram_end *to, uint8_t kind)
{
	return (struct rpc_dgram_hdr){
		.kind = kind,
		.opcode = OP_SQUARE,
		.body_len = 8,
		.src_node = node_self()->id,
		.req_id = 77,
		.incarn = node_self()->incarn,
		.dst_incarn = to->incarn,
	};
}

static const uint64_t payload = 5;

static void post(struct ktest *t, const struct rpc_dgram_end *to, const struct rpc_dgram_hdr *h)
{
	EXPECT_EQ(t, rpc_dgram_post(to, h, &payload), 0);
}

/* The same from a queue pair that is not the node's. */
static void post_from_elsewhere(struct ktest *t, const struct rpc_dgram_end *to,
				const struct rpc_dgram_hdr *h)
{
	struct rdma_cq *cq = rdma_cq_create(rpc_net.dev, 16, 0, NULL, NULL);
	const struct rdma_qp_init init = { .type = RDMA_QPT_UD,
					   .send_cq = cq,
					   .recv_cq = cq,
					   .max_send_wr = 8,
					   .max_recv_wr = 8,
					   .max_send_sge = 1,
					   .max_recv_sge = 1,
					   .max_inline = 128,
					   .port = 1,
					   .qkey = 1 };
	struct rdma_qp *qp = rdma_qp_create(rpc_net.pd, &init);
	struct {
		struct rpc_dgram_wire hdr;
		uint64_t body;
	} msg = { .body = payload };
	const struct rdma_sge sge = { .addr = (uint64_t)(uintptr_t)&msg, .len = sizeof(msg) };
	const struct rdma_send_wr wr = { .sge = &sge,
					 .nr_sge = 1,
					 .flags = RDMA_SEND_INLINE,
					 .opcode = RDMA_WR_SEND,
					 .dest = to->addr,
					 .dest_qpn = to->qpn,
					 .dest_qkey = to->qkey };
	const struct rdma_send_wr *bad;

	rpc_dgram_encode(h, &msg.hdr);
	EXPECT_EQ(t, rdma_qp_to_rts_ud(qp), 0);
	EXPECT_EQ(t, rdma_post_send(qp, &wr, &bad), 0);
	rdma_qp_destroy(qp);
	rdma_cq_destroy(cq);
}

static void requests_of_others(struct ktest *t, const struct rpc_dgram_end *server)
{
	struct rpc_dgram_hdr h = forgery(server, RPC_DGRAM_REQUEST);
	struct rpc_dgram_end wrong = *server;

	wrong.qkey++; /* the device drops it */
	post(t, &wrong, &h);
	post_from_elsewhere(t, server, &h); /* forged: another queue pair */
	h.src_node = 2;
	post(t, server, &h); /* forged: in the name of node 2 */
	h.src_node = 99;
	post(t, server, &h); /* forged: a stranger */
	h.src_node = node_self()->id;
	h.incarn++;
	post(t, server, &h); /* stale: not us */
	h.incarn--;
	h.dst_incarn++;
	post(t, server, &h); /* stale, and answered: not them */
	h.dst_incarn--;
	h.status = -1;
	post(t, server, &h); /* malformed */
	h.status = 0;
	h.req_id = 0;
	post(t, server, &h); /* malformed */
}

static void hostile_node(struct ktest *t)
{
	struct rpc_dgram_end server, victim;
	struct rpc_dgram_hdr h;

	node_join(t, 3);
	ASSERT_EQ(t, connect_to(1), 0);
	ASSERT_EQ(t, connect_to(2), 0);
	ASSERT_TRUE(t, rpc_dgram_end_of(rpc_peer_find(1), &server));
	ASSERT_TRUE(t, rpc_dgram_end_of(rpc_peer_find(2), &victim));
	sim_cmd("barrier 2 2");
	requests_of_others(t, &server);
	EXPECT_TRUE(t,
		    wait_counter("rpc.datagram.late", 1)); /* the answer that we never asked for */

	/* Node 2 waits for node 1, and its request id has leaked to us. */
	while (!sim_get(SH_ID))
		usleep(1000);
	h = forgery(&victim, RPC_DGRAM_REPLY);
	h.req_id = sim_get(SH_ID);
	h.opcode = OP_ECHO;
	post(t, &victim, &h); /* forged: it asked somebody else */
	h.src_node = 1;
	h.incarn = server.incarn;
	post(t, &victim, &h); /* forged: node 1 sends from elsewhere */
	h = forgery(&victim, RPC_DGRAM_REPLY);
	post(t, &victim, &h); /* late: nobody asked that */
	sim_cmd("barrier 3 2");
	sim_cmd("barrier 1 3");
}

static void *victim_call(void *arg)
{
	struct ktest *t = arg;

	EXPECT_EQ(t, echo(1, 10), 0);
	return NULL;
}

static uint64_t id_under_way(void)
{
	uint64_t id = 0;

	spin_lock(&rpc_dgram.lock);
	for (uint32_t i = 0; i < RPC_DGRAM_HASH; i++) {
		if (!list_empty(&rpc_dgram.calls[i]))
			id = list_first_entry(&rpc_dgram.calls[i], struct rpc_dgram_call, link)
				     ->req_id;
	}
	spin_unlock(&rpc_dgram.lock);
	return id;
}

static void victim_node(struct ktest *t)
{
	uint64_t id;
	pthread_t thread;

	node_join(t, 3);
	ASSERT_EQ(t, connect_to(1), 0);
	sim_cmd("barrier 2 2");
	sim_cmd("hold 1 2");
	pthread_create(&thread, NULL, victim_call, t);
	while ((id = id_under_way()) == 0)
		usleep(1000);
	sim_add(SH_ID, id);
	sim_cmd("barrier 3 2");
	EXPECT_TRUE(t, wait_counter("rpc.datagram.forged", 2));
	EXPECT_TRUE(t, wait_counter("rpc.datagram.late", 1));
	EXPECT_EQ(t, counter("rpc.datagram.replies"), 0);
	sim_cmd("release 1 2");
	pthread_join(thread, NULL);
	EXPECT_EQ(t, counter("rpc.datagram.forged"), 2);
	EXPECT_EQ(t, counter("rpc.datagram.replies"), 1);
	expect_at_rest(t);
	sim_cmd("barrier 1 3");
}

static void hostile_server(struct ktest *t)
{
	server_n(t, 3);
	EXPECT_EQ(t, counter("rpc.datagram.forged"), 3);
	EXPECT_EQ(t, counter("rpc.datagram.stale"), 2);
	EXPECT_EQ(t, counter("rpc.datagram.malformed"), 2);
	EXPECT_EQ(t, sim_get(SH_RUNS), 0);
}

static void hostile(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = 1, .fn = hostile_server },
						 { .id = 2, .fn = victim_node },
						 { .id = 3, .fn = hostile_node } };

	sim_run(t, nodes, 3, 30);
}

/* --- keys ------------------------------------------------------------------------------------ */

static const uint8_t cluster_key[RPC_KEY_LEN] = { 'k', 'e', 'y' };

static void keyed_host(struct ktest *t)
{
	rpc_node_start(t, NODE_ROLE_STORAGE, handlers, ARRAY_SIZE(handlers));
	rpc_key_set(cluster_key, true);
	rpc_accept_strangers(true);
	sim_cmd("barrier 1 2");
	EXPECT_EQ(t, sim_get(SH_RUNS), 2);
	EXPECT_GT(t, counter("rpc.datagram.forged"), 2);
	expect_at_rest(t);
}

/* All that the network shows does not help a node that does not have the key. */
static void keyed_node(struct ktest *t)
{
	const struct rdma_addr addr = { .dlid = 1 };
	uint8_t own[RPC_KEY_LEN], wrong[RPC_KEY_LEN];
	struct rpc_dgram_end host;
	struct rpc_dgram_hdr h;
	uint32_t id = 0;

	node_start(t);
	rpc_node_key(cluster_key, sim_node_id(), NODE_ROLE_MEMORY, 0, own);
	rpc_node_key(cluster_key, sim_node_id() + 1, NODE_ROLE_MEMORY, 0, wrong);
	rpc_key_set(own, false);
	while (rpc_peer_add_rendezvous(&addr, &id) == -EHOSTDOWN)
		;
	ASSERT_EQ(t, connect_to(1), 0);
	EXPECT_EQ(t, square(1, 3), 0);
	ASSERT_TRUE(t, rpc_dgram_end_of(rpc_peer_find(1), &host));
	EXPECT_TRUE(t, host.has_key);
	h = forgery(&host, RPC_DGRAM_REQUEST);
	memcpy(host.key, wrong, sizeof(wrong));
	post(t, &host, &h);
	host.has_key = false; /* no hash at all */
	post(t, &host, &h);
	/* Another key: the host's answers are no good here either. */
	rpc_key_set(wrong, false);
	EXPECT_EQ(t, echo_ms(1, 8, 300), -ETIMEDOUT);
	rpc_key_set(own, false);
	EXPECT_EQ(t, square(1, 4), 0);
	sim_cmd("barrier 1 2");
}

static void forged_without_the_key(struct ktest *t)
{
	sim_two(t, keyed_host, keyed_node, 30);
}

/* --- without LIDs ---------------------------------------------------------------------------- */

static void by_gid(struct ktest *t)
{
	sim_by_gid = true;
	plain(t);
	sim_by_gid = false;
}

static void hostile_by_gid(struct ktest *t)
{
	sim_by_gid = true;
	hostile(t);
	sim_by_gid = false;
}

static const struct ktest_case cases[] = {
	KTEST(plain),    KTEST(bad_network),    KTEST(without_connection),
	KTEST(deadline), KTEST(overload),       KTEST(fencing),
	KTEST(restart),  KTEST(hostile),        KTEST(renewed),
	KTEST(by_gid),   KTEST(hostile_by_gid), KTEST(forged_without_the_key),
	{ 0 },
};
static const struct ktest_suite rpc_datagram_suite = { .name = "rpc.datagram", .cases = cases };
KTEST_SUITE(rpc_datagram_suite);
