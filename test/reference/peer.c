/* SPDX-License-Identifier: MIT */
/*
 * A Linux program that talks RDMA with a Tessera node: Linux's connection manager, verbs and mlx4
 * driver on this side, Tessera's (rdma.selftest=serve) on the other.
 *
 * usage: peer <GID of the node's port> <rounds> <largest transfer>
 *
 * Flow:	connects by service id (AF_IB, so no IP addresses), tells the node by SENDs what to
 *		do or to check, and prints "ok NAME" or "not ok NAME" for each kind of work. Data
 *		is a pattern of another seed and length in every round.
 * Failure:	the first failure ends it with status 1; anything that should come but does not,
 *		after LIMIT_S.
 * See:		drivers/rdma/selftest.h, whose numbers and structures are repeated here.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SERVICE   0x7465737365726100ULL
#define BUF_LEN   (128u * 1024)
#define DATA_AT   8192u
#define DATA_LEN  65536u
#define SLOT      256u
#define NR_SLOTS  16u
#define UD_AT     (DATA_AT + DATA_LEN)
#define UD_SLOT   8192u
#define UD_WINDOW 4u
#define QKEY      0x11111111u
#define GRH_LEN   40u
#define MTU       4096u
#define WR_RECV   0x1000u
#define LIMIT_S   30

enum op {
	ECHO = 1,
	CHECK,
	FILL,
	PING,
	QUIT,
	RESULT,
	PUT,
	GET,
	ADD,
	SWAP,
	DATAGRAMS
};

struct cmd { /* little-endian, as this machine is */
	uint32_t op, arg, len, result;
};

struct hello {
	uint64_t addr;
	uint32_t rkey, reserved;
};

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t *buf;
static struct hello node;

static enum ibv_wc_status last_status; /* of a work request of ours */

static void must(const char *what, bool condition)
{
	if (condition)
		return;
	printf("not ok %s: last error %s, last status %s\n", what, strerror(errno),
	       ibv_wc_status_str(last_status));
	exit(1);
}

static void pattern_fill(uint8_t *p, uint32_t len, uint32_t seed)
{
	for (uint32_t n = 0; n < len; n++)
		p[n] = (uint8_t)(seed + n * 7 + (n >> 8));
}

static bool pattern_ok(const uint8_t *p, uint32_t len, uint32_t seed)
{
	for (uint32_t n = 0; n < len; n++) {
		if (p[n] != (uint8_t)(seed + n * 7 + (n >> 8)))
			return false;
	}
	return true;
}

static struct ibv_sge sge_at(uint32_t off, uint32_t len)
{
	return (struct ibv_sge){ .addr = (uintptr_t)buf + off, .length = len, .lkey = mr->lkey };
}

static void recv_post(uint32_t slot)
{
	struct ibv_sge sge = sge_at(slot * SLOT, SLOT);
	struct ibv_recv_wr wr = { .wr_id = WR_RECV | slot, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	must("post receive", ibv_post_recv(id->qp, &wr, &bad) == 0);
}

static struct ibv_wc poll_one(struct ibv_cq *from)
{
	const time_t end = time(NULL) + LIMIT_S;
	struct ibv_wc wc;

	while (ibv_poll_cq(from, 1, &wc) == 0)
		must("completion in time", time(NULL) < end);
	return wc;
}

/* ---- the connection ---- */

static struct rdma_cm_event *expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;

	must("connection event", rdma_get_cm_event(channel, &ev) == 0);
	if (ev->event != type) {
		printf("not ok %s: %s, status %d\n", rdma_event_str(type),
		       rdma_event_str(ev->event), ev->status);
		exit(1);
	}
	return ev;
}

static void make_objects(void)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 64,
			 .max_recv_wr = NR_SLOTS,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = 64 },
	};

	buf = aligned_alloc(4096, BUF_LEN);
	pd = ibv_alloc_pd(id->verbs);
	cq = ibv_create_cq(id->verbs, 256, NULL, NULL, 0);
	must("objects", buf && pd && cq);
	memset(buf, 0, BUF_LEN);
	mr = ibv_reg_mr(pd, buf, BUF_LEN,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC);
	must("memory region", mr != NULL);
	attr.send_cq = cq;
	attr.recv_cq = cq;
	must("queue pair", rdma_create_qp(id, pd, &attr) == 0);
	for (uint32_t n = 0; n < NR_SLOTS; n++)
		recv_post(n);
}

static void connect_to(const char *gid)
{
	struct sockaddr_ib to = { .sib_family = AF_IB,
				  .sib_pkey = htons(0xffff),
				  .sib_sid = htobe64(SERVICE),
				  .sib_sid_mask = ~0ULL };
	struct hello hello = { 0 };
	struct rdma_conn_param param = { .private_data = &hello,
					 .private_data_len = sizeof(hello),
					 .responder_resources = 4,
					 .initiator_depth = 4,
					 .retry_count = 7,
					 .rnr_retry_count = 7 };
	struct rdma_cm_event *ev;

	must("GID", inet_pton(AF_INET6, gid, &to.sib_addr) == 1);
	channel = rdma_create_event_channel();
	must("event channel", channel != NULL);
	must("identifier", rdma_create_id(channel, &id, NULL, RDMA_PS_IB) == 0);
	must("resolve address", rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 5000) == 0);
	rdma_ack_cm_event(expect(RDMA_CM_EVENT_ADDR_RESOLVED));
	must("resolve route", rdma_resolve_route(id, 5000) == 0);
	rdma_ack_cm_event(expect(RDMA_CM_EVENT_ROUTE_RESOLVED));
	make_objects();
	hello.addr = (uintptr_t)buf;
	hello.rkey = mr->rkey;
	must("connect", rdma_connect(id, &param) == 0);
	ev = expect(RDMA_CM_EVENT_ESTABLISHED);
	must("private data", ev->param.conn.private_data_len >= sizeof(node));
	memcpy(&node, ev->param.conn.private_data, sizeof(node));
	rdma_ack_cm_event(ev);
	puts("ok connect");
}

/* ---- one work request, and a command with its answer ---- */

static enum ibv_wc_status send_wr(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr->send_flags |= IBV_SEND_SIGNALED;
	must("post send", ibv_post_send(id->qp, wr, &bad) == 0);
	wc = poll_one(cq);
	must("completion of a send", !(wc.wr_id & WR_RECV));
	last_status = wc.status;
	return wc.status;
}

static uint32_t answer(void)
{
	const struct ibv_wc wc = poll_one(cq);
	const uint32_t slot = (uint32_t)wc.wr_id & (NR_SLOTS - 1);
	struct cmd cmd;

	must("answer", wc.wr_id & WR_RECV && wc.status == IBV_WC_SUCCESS);
	memcpy(&cmd, buf + slot * SLOT, sizeof(cmd));
	must("kind of answer", cmd.op == RESULT && wc.byte_len == sizeof(cmd));
	recv_post(slot);
	return cmd.result;
}

static uint32_t ask(enum op op, uint32_t arg, uint32_t len, uint32_t result)
{
	struct cmd cmd = { op, arg, len, result };
	struct ibv_sge sge = { .addr = (uintptr_t)&cmd, .length = sizeof(cmd) };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE
	};

	must("send", send_wr(&wr) == IBV_WC_SUCCESS);
	return answer();
}

static struct ibv_send_wr remote(enum ibv_wr_opcode op, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = { .sg_list = sge, .num_sge = 1, .opcode = op };

	wr.wr.rdma.remote_addr = node.addr + DATA_AT;
	wr.wr.rdma.rkey = node.rkey;
	return wr;
}

/* ---- Linux is the active side ---- */

static void do_write(uint32_t seed, uint32_t len)
{
	struct ibv_sge sge = sge_at(DATA_AT, len);
	struct ibv_send_wr wr = remote(IBV_WR_RDMA_WRITE, &sge);

	pattern_fill(buf + DATA_AT, len, seed);
	must("write", send_wr(&wr) == IBV_WC_SUCCESS && ask(CHECK, seed, len, 0) == 1);
	must("write is seen", ask(CHECK, seed + 1, len, 0) == 0);
	wr = remote(IBV_WR_RDMA_WRITE_WITH_IMM, &sge);
	wr.imm_data = htonl(seed ^ 0x5a5a0000);
	pattern_fill(buf + DATA_AT, len, seed + 2);
	must("write_imm", send_wr(&wr) == IBV_WC_SUCCESS && answer() == (seed ^ 0x5a5a0000));
	must("write_imm data", ask(CHECK, seed + 2, len, 0) == 1);
}

static void do_read(uint32_t seed, uint32_t len)
{
	struct ibv_sge sge = sge_at(DATA_AT, len);
	struct ibv_send_wr wr = remote(IBV_WR_RDMA_READ, &sge);

	must("fill", ask(FILL, seed, len, 0) == 1);
	memset(buf + DATA_AT, 0, len);
	must("read", send_wr(&wr) == IBV_WC_SUCCESS && pattern_ok(buf + DATA_AT, len, seed));
}

static uint64_t atomic(enum ibv_wr_opcode op, uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge = sge_at(DATA_AT + 64, 8);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = op };
	uint64_t old;

	wr.wr.atomic.remote_addr = node.addr + DATA_AT;
	wr.wr.atomic.rkey = node.rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	must("atomic", send_wr(&wr) == IBV_WC_SUCCESS);
	memcpy(&old, buf + DATA_AT + 64, 8);
	return old;
}

static void do_atomics(uint32_t seed)
{
	const uint64_t start = seed * 0x100000001ULL;
	struct ibv_sge sge = sge_at(DATA_AT, 8);
	struct ibv_send_wr wr = remote(IBV_WR_RDMA_WRITE, &sge);

	memcpy(buf + DATA_AT, &start, 8);
	must("atomics: write", send_wr(&wr) == IBV_WC_SUCCESS);
	must("fetch_add", atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, ~0ULL, 0) == start);
	must("fetch_add adds", atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 6, 0) == start - 1);
	must("cas", atomic(IBV_WR_ATOMIC_CMP_AND_SWP, start + 5, 100) == start + 5);
	must("cas swaps", atomic(IBV_WR_ATOMIC_CMP_AND_SWP, start, 200) == 100);
	must("cas compares", atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0) == 100);
}

/* ---- the node is the active side ---- */

static void do_node_work(uint32_t seed, uint32_t len)
{
	uint64_t value = seed;

	memset(buf + DATA_AT, 0, DATA_LEN);
	must("node writes", ask(PUT, seed, len, 0) == 1 && pattern_ok(buf + DATA_AT, len, seed));
	must("node writes no more", len == DATA_LEN || buf[DATA_AT + len] == 0);
	pattern_fill(buf + DATA_AT, len, seed + 1);
	must("node reads", ask(GET, seed + 1, len, 0) == 1 && ask(GET, seed + 2, len, 0) == 0);
	memcpy(buf + DATA_AT, &value, 8);
	must("node adds", ask(ADD, 5, 0, 0) == seed && ask(ADD, 7, 0, 0) == seed + 5);
	must("node swaps", ask(SWAP, seed + 12, 0, ~seed) == seed + 12);
	must("node compares", ask(SWAP, seed + 12, 0, 1) == ~seed);
	memcpy(&value, buf + DATA_AT, 8);
	must("node's atomics are here", value == ~seed);
}

/* ---- datagrams ---- */

struct ud {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	uint32_t node_qpn;
};

static void ud_recv_post(struct ud *u, uint32_t slot)
{
	struct ibv_sge sge = sge_at(UD_AT + slot * UD_SLOT, GRH_LEN + MTU);
	struct ibv_recv_wr wr = { .wr_id = WR_RECV | slot, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	must("post datagram receive", ibv_post_recv(u->qp, &wr, &bad) == 0);
}

static void ud_open(struct ud *u)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = UD_WINDOW,
			 .max_recv_wr = UD_WINDOW,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct ibv_ah_attr ah = { .port_num = 1 };

	must("path", id->route.num_paths == 1);
	ah.dlid = ntohs(id->route.path_rec->dlid);
	u->cq = ibv_create_cq(id->verbs, 4 * UD_WINDOW, NULL, NULL, 0);
	init.send_cq = u->cq;
	init.recv_cq = u->cq;
	u->qp = u->cq ? ibv_create_qp(pd, &init) : NULL;
	u->ah = ibv_create_ah(pd, &ah);
	must("datagram objects", u->qp && u->ah);
	must("datagram INIT",
	     !ibv_modify_qp(u->qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	must("datagram RTR", !ibv_modify_qp(u->qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	must("datagram RTS", !ibv_modify_qp(u->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static void ud_send(struct ud *u, uint32_t slot, uint32_t seed, uint32_t len)
{
	struct ibv_sge sge = sge_at(DATA_AT + slot * UD_SLOT, len);
	struct ibv_send_wr wr = { .wr_id = slot,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;

	pattern_fill(buf + DATA_AT + slot * UD_SLOT, len, seed);
	wr.wr.ud.ah = u->ah;
	wr.wr.ud.remote_qpn = u->node_qpn;
	wr.wr.ud.remote_qkey = QKEY;
	ud_recv_post(u, slot);
	must("post datagram", ibv_post_send(u->qp, &wr, &bad) == 0);
}

/* Datagrams in windows; the node sends each back inverted, in order. */
static void do_datagrams(uint32_t seed, uint32_t nr, uint32_t len)
{
	struct ud u;

	ud_open(&u);
	u.node_qpn = ask(DATAGRAMS, nr, 0, 0);
	must("node's datagram queue pair", u.node_qpn > 1);
	for (uint32_t n = 0; n < nr; n += UD_WINDOW) {
		const uint32_t window = nr - n < UD_WINDOW ? nr - n : UD_WINDOW;
		uint32_t got = 0;

		for (uint32_t i = 0; i < window; i++)
			ud_send(&u, i, seed + n + i, len);
		for (uint32_t done = 0; done < 2 * window; done++) {
			const struct ibv_wc wc = poll_one(u.cq);
			uint8_t *p = buf + UD_AT + got * UD_SLOT + GRH_LEN;

			must("datagram", wc.status == IBV_WC_SUCCESS);
			if (!(wc.wr_id & WR_RECV))
				continue;
			must("datagram's sender", wc.src_qp == u.node_qpn);
			must("datagram's length", wc.byte_len == len + GRH_LEN);
			for (uint32_t k = 0; k < len; k++)
				p[k] ^= 0xff;
			must("datagram's data", pattern_ok(p, len, seed + n + got));
			got++;
		}
		must("datagrams back", got == window);
	}
	must("node's count", answer() == 1);
	ibv_destroy_ah(u.ah);
	ibv_destroy_qp(u.qp);
	ibv_destroy_cq(u.cq);
}

static void do_bad_key(void)
{
	struct ibv_sge sge = sge_at(DATA_AT, 64);
	struct ibv_send_wr wr = remote(IBV_WR_RDMA_WRITE, &sge);

	wr.wr.rdma.rkey ^= 0x5000;
	must("bad key", send_wr(&wr) == IBV_WC_REM_ACCESS_ERR);
}

int main(int argc, char **argv)
{
	uint32_t rounds, most;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 4)
		return 2;
	rounds = (uint32_t)strtoul(argv[2], NULL, 0);
	most = (uint32_t)strtoul(argv[3], NULL, 0);
	if (!rounds || most < 16 || most > DATA_LEN)
		return 2;
	connect_to(argv[1]);
	for (uint32_t n = 0; n < rounds; n++)
		must("send", ask(ECHO, n, 0, 0) == 1);
	puts("ok send");
	/* Lengths from a few bytes to the most, none of them round. */
	for (uint32_t n = 0; n < rounds; n++)
		do_write(n * 5, n + 1 == rounds ? most : 9 + n * 4099 % (most - 9));
	puts("ok write");
	for (uint32_t n = 0; n < rounds; n++)
		do_read(n * 3 + 1, n + 1 == rounds ? most : 9 + n * 4099 % (most - 9));
	puts("ok read");
	for (uint32_t n = 0; n < rounds; n++)
		do_atomics(n + 1);
	puts("ok atomics");
	for (uint32_t n = 0; n < rounds; n++)
		do_node_work(n + 1, n + 1 == rounds ? most : 9 + n * 4099 % (most - 9));
	puts("ok node_write\nok node_read\nok node_atomics");
	do_datagrams(40, rounds, 1000);
	do_datagrams(80, rounds, MTU);
	puts("ok datagrams");
	do_bad_key();
	puts("ok bad_key");
	return 0;
}
