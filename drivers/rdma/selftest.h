/* SPDX-License-Identifier: MIT */
/*
 * RDMA self-test: shared by the server and connections (selftest_conn.c), the work that the
 * server does to its client (selftest_peer.c), the client's cases (selftest.c) and those
 * without a peer (selftest_local.c).
 *
 * See:		test/reference/peer.c, which repeats the numbers and the two wire structures.
 */
#pragma once

#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/byteorder.h>
#include <lib/types.h>
#include <rdma/cm.h>
#include <rdma/verbs.h>

#define ST_SERVICE  0x7465737365726100ULL
#define ST_BUF_LEN  (128U * 1024)
#define ST_DATA_AT  8192U /* receive slots and send slots lie below */
#define ST_DATA_LEN 65536U
#define ST_PING_AT  (ST_DATA_AT + ST_DATA_LEN)
#define ST_PONG_AT  (ST_PING_AT + 4096)
#define ST_QKEY     0x11111111U
#define ST_LIMIT_NS (20 * NSEC_PER_SEC)

enum st_op {
	ST_ECHO = 1,
	ST_CHECK = 2, /* is the pattern @arg in your data area? */
	ST_FILL = 3,  /* put the pattern @arg there */
	ST_PING = 4,  /* answer @arg pings of @len bytes */
	ST_QUIT = 5,
	ST_RESULT = 6,
	ST_PUT = 7,   /* WRITE @len bytes of the pattern @arg into my data area */
	ST_GET = 8,   /* READ @len bytes there: are they the pattern @arg? */
	ST_ADD = 9,   /* FETCH_ADD of @arg on the first eight bytes there; answers the old value */
	ST_SWAP = 10, /* CAS there: if it is @arg, make it @result; answers the old value */
	ST_DATAGRAMS = 11, /* answers a UD queue pair's number, then 1 after @arg datagrams */
};

struct st_cmd {
	le32_t op;
	le32_t arg;
	le32_t len;
	le32_t result;
};

struct st_hello { /* private data of REQ and REP */
	le64_t addr;
	le32_t rkey;
	le32_t reserved;
};

struct st_conn {
	struct rdma_device *dev;
	struct rdma_pd *pd;
	struct rdma_mr *mr;
	struct rdma_cq *cq;
	struct rdma_qp *qp;
	struct cm_conn *cm;
	uint8_t *buf;
	paddr_t paddr;
	uint64_t peer_addr;
	uint32_t peer_rkey;
	struct waitqueue wq;
	atomic_t up, over, cq_event;
	unsigned int event_cpu; /* where the last event came */
	uint16_t reason;
	uint32_t imm;
	bool got_imm;
};

void st_pattern_fill(uint8_t *p, uint32_t len, uint32_t seed);
bool st_pattern_ok(const uint8_t *p, uint32_t len, uint32_t seed);
enum rdma_wc_status st_wait_send(struct st_conn *c);
int st_post(struct st_conn *c, struct rdma_send_wr *wr);
enum rdma_wc_status st_do_wr(struct st_conn *c, struct rdma_send_wr *wr);
struct rdma_sge st_sge_at(const struct st_conn *c, uint32_t off, uint32_t len);
enum rdma_wc_status st_send_cmd(struct st_conn *c, uint32_t op, uint32_t arg, uint32_t len,
				uint32_t result);
int st_recv_msg(struct st_conn *c, void *msg, uint32_t len, struct rdma_wc *wc);
int st_ask(struct st_conn *c, uint32_t op, uint32_t arg, uint32_t len);
struct st_conn *st_conn_new(struct rdma_device *dev, uint32_t vector);
void st_conn_free(struct st_conn *c);
struct cm_params st_params_of(const struct st_conn *c, const struct st_hello *hello);
struct st_hello st_hello_of(const struct st_conn *c);
void st_hello_take(struct st_conn *c, const struct cm_event *ev);
uint32_t st_peer_put(struct st_conn *c, uint32_t seed, uint32_t len);
uint32_t st_peer_get(struct st_conn *c, uint32_t seed, uint32_t len);
uint32_t st_peer_atomic(struct st_conn *c, enum rdma_wr_opcode op, uint32_t compare_add,
			uint32_t swap);
uint32_t st_peer_datagrams(struct st_conn *c, uint32_t nr);
void st_report(const char *name, bool ok);
void st_local_cases(struct rdma_device *dev);
int st_server_request(struct cm_conn *cm, const struct cm_event *ev, void *arg);
