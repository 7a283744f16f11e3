/* SPDX-License-Identifier: MIT */
/*
 * Fuzz RPC: the decoders, and the receive paths of a session and of datagrams as a hostile peer
 * sees them.
 *
 * The input is a list of commands: put bytes into the ring, deliver an immediate, submit a call,
 * give one up; deliver a datagram, begin, repeat and end a call by datagram, answer a request that
 * was kept. A stub device takes the posted work and delivers the completions that the input names.
 *
 * Invariants:	every call is done exactly once and released exactly once, every request that
 *		reached a handler is answered once, slots and buffers come back, a message that
 *		decodes encodes back, and a reply by datagram is taken only if its sender, its id
 *		and its incarnations are right.
 */
#include <stdlib.h>

#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <net/rpc.h>
#include <shim/shim.h>

#include "../../net/rpc/dgram.h"

#define CHECK(cond)              \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- the stub device -------------------------------------------------------------------- */

static uint8_t stub_object[16][64];
static uint32_t pending_imm;
static bool has_pending;
static struct rpc_conn *the_conn;
static struct rpc_queue queue;
extern volatile uint32_t byte_seen;
volatile uint32_t byte_seen; /* reading is what matters: the sanitizer looks at it */

struct rdma_mr *rdma_mr_create(struct rdma_pd *pd, uint64_t iova,
			       const struct rdma_phys_range *ranges, size_t nr_ranges,
			       uint32_t access)
{
	return (void *)stub_object[0];
}

void rdma_mr_destroy(struct rdma_mr *mr)
{
}

enum rdma_qp_type rdma_qp_type(const struct rdma_qp *qp)
{
	return RDMA_QPT_RC;
}

void *rdma_qp_context(const struct rdma_qp *qp)
{
	return NULL;
}

uint32_t rdma_mr_lkey(const struct rdma_mr *mr)
{
	return 1;
}

uint32_t rdma_mr_rkey(const struct rdma_mr *mr)
{
	return 1;
}

/* The two of the datagrams, in this order. */
struct rdma_cq *rdma_cq_create(struct rdma_device *dev, uint32_t nr_cqe, uint32_t vector,
			       void (*event)(struct rdma_cq *cq, void *arg), void *arg)
{
	static unsigned int nr;

	CHECK(nr < 2);
	return (void *)stub_object[5 + nr++];
}

void rdma_cq_destroy(struct rdma_cq *cq)
{
}

struct rdma_qp *rdma_qp_create(struct rdma_pd *pd, const struct rdma_qp_init *init)
{
	return (void *)stub_object[8];
}

int rdma_qp_to_rts_ud(struct rdma_qp *qp)
{
	return 0;
}

void rdma_event_register(struct rdma_device *dev, struct rdma_event_handler *h)
{
}

const char *rdma_wc_status_name(enum rdma_wc_status status)
{
	return "status";
}

void rdma_qp_destroy(struct rdma_qp *qp)
{
}

uint32_t rdma_qp_num(const struct rdma_qp *qp)
{
	return 2;
}

int rdma_qp_to_init(struct rdma_qp *qp, uint32_t access)
{
	return 0;
}

int rdma_qp_to_err(struct rdma_qp *qp)
{
	return 0;
}

/* --- its queue pair for datagrams --- */

#define DGRAM_BUFFERS 16u

static uint32_t dgram_recv[DGRAM_BUFFERS + 1], nr_dgram_recv; /* posted */
static uint64_t dgram_sent[DGRAM_BUFFERS];                    /* not yet complete */
static uint32_t nr_dgram_sent;
static bool dgram_sends_wait;
static struct rdma_wc dgram_wc; /* qp NULL: none */

static void dgram_posted(const struct rdma_send_wr *wr)
{
	const uint8_t *p = rpc_dgram.buf + (wr->sge[0].addr - rpc_dgram.phys);

	CHECK(nr_dgram_sent < DGRAM_BUFFERS / 2);
	CHECK(wr->nr_sge == 1 && wr->sge[0].addr >= rpc_dgram.phys);
	CHECK(wr->sge[0].addr - rpc_dgram.phys + wr->sge[0].len <=
	      (uint64_t)(DGRAM_BUFFERS + DGRAM_BUFFERS / 2) * rpc_dgram.stride);
	for (uint32_t k = 0; k < wr->sge[0].len; k++)
		byte_seen += p[k];
	dgram_sent[nr_dgram_sent++] = wr->wr_id;
}

static int dgram_sends_done(struct rdma_wc *wc, int max)
{
	int n = 0;

	while (!dgram_sends_wait && nr_dgram_sent && n < max)
		wc[n++] = (struct rdma_wc){ .wr_id = dgram_sent[--nr_dgram_sent] };
	return n;
}

void rdma_ring_send(struct rdma_qp *qp)
{
}

/* Look at every byte that a device would send. */
int rdma_post_send(struct rdma_qp *qp, const struct rdma_send_wr *wr,
		   const struct rdma_send_wr **bad)
{
	for (; wr; wr = wr->next) {
		for (uint32_t i = 0; (wr->flags & RDMA_SEND_INLINE) && i < wr->nr_sge; i++) {
			const uint8_t *p = (const uint8_t *)(uintptr_t)wr->sge[i].addr;

			for (uint32_t k = 0; k < wr->sge[i].len; k++)
				byte_seen += p[k];
		}
		if (qp == rpc_dgram.qp)
			dgram_posted(wr);
		else if (wr->flags & RDMA_SEND_SIGNALED)
			the_conn->sq_completed = wr->wr_id;
	}
	return 0;
}

int rdma_post_recv(struct rdma_qp *qp, const struct rdma_recv_wr *wr,
		   const struct rdma_recv_wr **bad)
{
	if (qp == rpc_dgram.qp || qp == (void *)stub_object[8])
		dgram_recv[nr_dgram_recv++] = (uint32_t)wr->wr_id;
	CHECK(nr_dgram_recv <= DGRAM_BUFFERS);
	return 0;
}

int rdma_poll_cq(struct rdma_cq *cq, struct rdma_wc *wc, int max)
{
	int n;

	if (cq == rpc_dgram.send_cq)
		return dgram_sends_done(wc, max);
	if (cq == rpc_dgram.recv_cq) {
		*wc = dgram_wc;
		dgram_wc.qp = NULL;
		return wc->qp != NULL;
	}
	if (!has_pending || cq != queue.cq)
		return 0;
	has_pending = false;
	/* Some come twice at once: what they post shares a doorbell. */
	n = pending_imm % 3 == 0 && max > 1 ? 2 : 1;
	for (int i = 0; i < n; i++)
		wc[i] = (struct rdma_wc){ .qp = the_conn->qp,
					  .context = the_conn,
					  .opcode = RDMA_WC_RECV_WRITE_IMM,
					  .flags = RDMA_WC_WITH_IMM,
					  .imm = pending_imm };
	return n;
}

void rdma_arm_cq(struct rdma_cq *cq, bool solicited_only)
{
}

struct rdma_pd *rdma_pd_create(struct rdma_device *dev)
{
	return (void *)stub_object[3];
}

bool rdma_wait(struct rdma_device *dev, uint64_t ns)
{
	return false; /* no device on which a CPU can rest */
}

void rdma_pd_destroy(struct rdma_pd *pd)
{
}

void rdma_device_attr(const struct rdma_device *dev, struct rdma_device_attr *attr)
{
}

int rdma_port_attr(struct rdma_device *dev, uint8_t port, struct rdma_port_attr *attr)
{
	*attr = (struct rdma_port_attr){ .state = RDMA_PORT_ACTIVE, .active_mtu = RDMA_MTU_1024 };
	return 0;
}

const char *rdma_device_name(const struct rdma_device *dev)
{
	return "stub";
}

struct cm_listener *cm_listen(struct rdma_device *dev, uint8_t port, uint64_t service_id,
			      cm_event_fn fn, void *arg)
{
	return ERR_PTR(-ENODEV);
}

struct cm_conn *cm_connect(struct rdma_device *dev, uint8_t port, const struct rdma_addr *to,
			   uint64_t service_id, const struct cm_params *params, cm_event_fn fn,
			   void *arg)
{
	return ERR_PTR(-ENODEV);
}

int cm_accept(struct cm_conn *conn, const struct cm_params *params)
{
	return -ENODEV;
}

int cm_reject(struct cm_conn *conn, uint16_t reason, const void *private_data, size_t len)
{
	return 0;
}

void cm_disconnect(struct cm_conn *conn)
{
}

void cm_conn_set_arg(struct cm_conn *conn, cm_event_fn fn, void *arg)
{
}

void cm_conn_destroy(struct cm_conn *conn)
{
}

/* --- the session --------------------------------------------------------------------------- */

#define PEER     9u
#define INCARN   0x1234u
#define PEER_LID 3u
#define PEER_QPN 0x44u
#define MAX_CALL 64

static struct rpc_session *session;
static uint32_t nr_done, nr_released, nr_submitted;
static struct rpc_call *calls[MAX_CALL];

static enum rpc_handler_result echo(struct rpc_request *req, void *arg)
{
	uint32_t len, bulk_len;
	const uint8_t *body = rpc_request_body(req, &len);
	const uint8_t *bulk = rpc_request_bulk(req, &bulk_len);

	for (uint32_t i = 0; i < bulk_len; i++)
		byte_seen += bulk[i];
	rpc_reply(req, 0, body, len);
	return RPC_DONE;
}

static struct rpc_request *kept[DGRAM_BUFFERS];
static uint32_t nr_kept;

/* A datagram is answered some time later. */
static enum rpc_handler_result keep(struct rpc_request *req, void *arg)
{
	if (!rpc_request_is_datagram(req))
		return echo(req, arg);
	CHECK(nr_kept < DGRAM_BUFFERS / 2);
	kept[nr_kept++] = req;
	return RPC_DONE;
}

static void kept_answer(void)
{
	if (nr_kept)
		(void)echo(kept[--nr_kept], NULL);
}

static const struct rpc_handler handlers[] = {
	{ 0x0f10, RPC_HANDLER_INLINE | RPC_HANDLER_IDEMPOTENT | RPC_HANDLER_DATAGRAM, "echo",
	  echo },
	{ 0x0f11, RPC_HANDLER_INLINE, "echo_once", echo },
	{ 0x0f12, RPC_HANDLER_INLINE | RPC_HANDLER_IDEMPOTENT | RPC_HANDLER_DATAGRAM, "keep",
	  keep },
};

static void setup_datagrams(struct rpc_peer *peer)
{
	const struct rpc_conn_info info = {
		.incarn = INCARN, .dgram_qpn = PEER_QPN, .dgram_qkey = 5, .dgram_mtu = RDMA_MTU_512
	};

	rpc_tune.datagram_buffers = DGRAM_BUFFERS;
	CHECK(rpc_dgram_create() == 0);
	rpc_dgram_learn(peer, &info);
}

static void setup(void)
{
	const struct node_info info = {
		.id = PEER, .role = NODE_ROLE_MEMORY, .incarn = INCARN, .addr = { .dlid = PEER_LID }
	};
	struct rpc_peer *peer;

	CHECK(rpc_handlers_register(handlers, ARRAY_SIZE(handlers), NULL) == 0);
	queue.cq = (void *)stub_object[4];
	queue.classes = BIT(RPC_NR_CLASSES) - 1;
	queue.is_polled = true;
	rpc_net.queues = &queue;
	rpc_net.nr_queues = 1;
	rpc_net.is_started = true;
	peer = rpc_peer_alloc(&info);
	CHECK(peer && rpc_peer_publish(peer) == 0);
	setup_datagrams(peer);
	session = &peer->sessions[RPC_CLASS_DEMAND];
	CHECK(rpc_session_prepare(session) == 0);
	the_conn = calloc(1, sizeof(*the_conn));
	the_conn->session = session;
	the_conn->gen = 1;
	the_conn->state = RPC_CONN_UP;
	the_conn->is_known = true;
	the_conn->peer_incarn = INCARN;
	the_conn->ring = rpc_ring_create(NULL, &rpc_class_cfg[RPC_CLASS_DEMAND]);
	the_conn->qp = (void *)stub_object[2];
	the_conn->send_cq = (void *)stub_object[1];
	the_conn->sq_size = 256;
	the_conn->sq_inline = 128;
	the_conn->sq_sge = 5;
	session->conn = the_conn;
	session->gen = 1;
}

static void done(struct rpc_call *call)
{
	nr_done++;
	CHECK(call->status <= 0 && call->reply_len <= call->reply_max);
}

static void release(struct rpc_call *call)
{
	nr_released++;
}

static void submit(uint8_t len)
{
	static uint8_t reply[64];
	static const uint8_t body[256];
	struct rpc_call *call;

	if (nr_submitted >= MAX_CALL)
		return;
	call = rpc_call_alloc();
	call->peer = PEER;
	call->cls = RPC_CLASS_DEMAND;
	call->opcode = 0x0f10;
	call->body = body;
	call->body_len = len;
	call->reply = reply;
	call->reply_max = sizeof(reply);
	call->done = done;
	call->release = release;
	if (rpc_call_submit(call) == 0)
		calls[nr_submitted++] = call;
	else
		rpc_call_put(call);
}

/* As after the tear-down of the connection: nothing can arrive any more. */
static void settle(void)
{
	rpc_session_fail_calls(session, -EHOSTDOWN);
	CHECK(nr_done == nr_submitted);
	for (uint32_t i = 0; i < rpc_class_cfg[RPC_CLASS_DEMAND].nr_slots; i++) {
		struct rpc_call_impl *impl = session->cslots[i].call;

		CHECK(session->cslots[i].state != RPC_CSLOT_BUSY);
		if (session->cslots[i].state != RPC_CSLOT_QUARANTINE)
			continue;
		spin_lock(&session->lock);
		rpc_cslot_free_locked(session, i);
		spin_unlock(&session->lock);
		rpc_call_left_quarantine(impl);
	}
	CHECK(nr_released == nr_submitted && session->inflight_bytes == 0);
	CHECK(session->nr_busy == 0 && session->nr_quarantine == 0);
	for (uint32_t i = 0; i < nr_submitted; i++)
		rpc_call_put(calls[i]);
	for (uint32_t i = 0; i < rpc_class_cfg[RPC_CLASS_DEMAND].nr_slots; i++) {
		CHECK(session->sslots[i].state != RPC_SSLOT_BUSY); /* all were answered */
		session->sslots[i].req_id = 0;
		session->sslots[i].state = RPC_SSLOT_NONE;
	}
	nr_done = nr_released = nr_submitted = 0;
	the_conn->recv_to_post = 0;
}

/* --- input ----------------------------------------------------------------------------------- */

static void decoders(const uint8_t *data, size_t size)
{
	struct rpc_hdr_wire w, again;
	struct rpc_conn_wire cw;
	struct rpc_rej_wire rw;
	struct rpc_conn_info info;
	struct rpc_hdr hdr;
	struct rpc_rej rej;
	struct rpc_dgram_hdr dh;
	struct rpc_dgram_wire dw;

	if (rpc_dgram_decode(data, size, &dh) == 0) {
		rpc_dgram_encode(&dh, &dw);
		CHECK(memcmp(&dw, data, offsetof(struct rpc_dgram_wire, reserved)) == 0);
	}
	if (size >= sizeof(w)) {
		memcpy(&w, data, sizeof(w));
		if (rpc_hdr_decode(&w, (uint32_t)size, data[0] & 0x80, &hdr) == 0) {
			rpc_hdr_encode(&hdr, &again);
			w.flags = cpu_to_le32(
				le32_to_cpu(w.flags) &
				(data[0] & 0x80 ? RPC_HDR_F_REFUSED : RPC_HDR_F_INSIST));
			CHECK(memcmp(&w, &again, sizeof(w)) == 0);
		}
	}
	if (rpc_conn_decode(data, size, &info) == 0) {
		rpc_conn_encode(&info, &cw);
		memset(&cw.reserved, 0, sizeof(cw.reserved));
		CHECK(memcmp(&cw, data, 30) == 0); /* up to the reserved field */
		CHECK(memcmp(&cw.req_slot_size, data + 32, 21) == 0);
	}
	if (rpc_rej_decode(data, size, &rej) == 0) {
		rpc_rej_encode(&rej, &rw);
		CHECK(memcmp(&rw, data, 6) == 0);
	}
}

/* A header that passes the cheap checks, with the input's opcode, id, lengths and status. */
static void plausible(const uint8_t *p, uint32_t *len, bool reply, uint8_t *out)
{
	const struct rpc_hdr hdr = { .cls = RPC_CLASS_DEMAND,
				     .opcode = (uint16_t)(0x0f10 + (p[0] & 3)),
				     .body_len = p[1],
				     .bulk_len = reply ? 0 : (uint32_t)p[2] * 16,
				     .src_node = PEER,
				     .req_id = p[3],
				     .incarn = INCARN,
				     .dst_incarn = node_self()->incarn,
				     .status = reply ? -(int32_t)(p[4] & 7) : 0 };

	rpc_hdr_encode(&hdr, (void *)out);
	*len = RPC_HDR_LEN + hdr.body_len + hdr.bulk_len;
}

static void deliver(uint32_t imm)
{
	pending_imm = imm;
	has_pending = true;
	rpc_poll_try_once(&queue);
}

/* --- datagrams ----------------------------------------------------------------------------- */

#define MAX_DGRAM_CALL 4u

static struct rpc_dgram_call dgram_call[MAX_DGRAM_CALL];
static uint8_t dgram_reply[MAX_DGRAM_CALL][64];
static bool dgram_begun[MAX_DGRAM_CALL];

static void dgram_call_begin(uint32_t i, uint8_t len)
{
	static const uint8_t body[256];

	if (dgram_begun[i])
		return;
	dgram_call[i] = (struct rpc_dgram_call){ .peer = session->peer,
						 .opcode = 0x0f10,
						 .body = body,
						 .body_len = len,
						 .reply = dgram_reply[i],
						 .reply_max = sizeof(dgram_reply[i]) };
	dgram_begun[i] = rpc_dgram_call_begin(&dgram_call[i], NSEC_PER_SEC) == 0;
	CHECK(dgram_begun[i]);
}

static void dgram_call_end(uint32_t i)
{
	int ret;

	if (!dgram_begun[i])
		return;
	dgram_begun[i] = false;
	ret = rpc_dgram_call_end(&dgram_call[i], -ETIMEDOUT);
	CHECK(ret >= -4095 && ret <= (int)sizeof(dgram_reply[i]));
}

/* Deliver what lies in the first posted buffer: @len bytes behind the GRH. */
static void dgram_deliver(uint32_t len, uint32_t src_qpn, uint16_t slid)
{
	uint32_t before = 0, after = 0;

	dgram_wc = (struct rdma_wc){ .wr_id = dgram_recv[0],
				     .qp = rpc_dgram.qp,
				     .opcode = RDMA_WC_RECV,
				     .byte_len = RDMA_GRH_LEN + len,
				     .src_qpn = src_qpn,
				     .slid = slid };
	nr_dgram_recv--;
	memmove(dgram_recv, dgram_recv + 1, nr_dgram_recv * sizeof(dgram_recv[0]));
	for (uint32_t i = 0; i < MAX_DGRAM_CALL; i++)
		before += dgram_begun[i] && dgram_call[i].is_done;
	CHECK(rpc_dgram_poll() == 1);
	for (uint32_t i = 0; i < MAX_DGRAM_CALL; i++)
		after += dgram_begun[i] && dgram_call[i].is_done;
	CHECK(after - before <= 1 &&
	      (after == before || (src_qpn == PEER_QPN && slid == PEER_LID)));
	CHECK(nr_dgram_recv + (uint32_t)atomic_read(&rpc_dgram.nr_held) == DGRAM_BUFFERS);
}

static void dgram_plausible(const uint8_t *p, const uint8_t *raw, size_t raw_len)
{
	const uint32_t i = p[2] % MAX_DGRAM_CALL;
	uint8_t *msg = rpc_dgram.buf + (size_t)dgram_recv[0] * rpc_dgram.stride + RDMA_GRH_LEN;
	const uint32_t len = (uint32_t)MIN(raw_len, (size_t)p[3]);
	const struct rpc_dgram_hdr hdr = {
		.kind = p[0] & 8 ? RPC_DGRAM_REPLY : RPC_DGRAM_REQUEST,
		.opcode = (uint16_t)(0x0f10 + (p[1] & 3)),
		.body_len = (uint16_t)len,
		.attempt = p[1] >> 6,
		.src_node = p[4] & 1 ? PEER + 1 : PEER,
		.req_id = dgram_begun[i] && !(p[4] & 2) ? dgram_call[i].req_id : p[2],
		.incarn = p[4] & 4 ? INCARN + 1 : INCARN,
		.dst_incarn = node_self()->incarn + (p[4] & 8 ? 1 : 0),
		.status = p[0] & 8 ? -(int32_t)(p[5] & 3) : 0,
	};

	rpc_dgram_encode(&hdr, (void *)msg);
	memcpy(msg + RPC_DGRAM_HDR_LEN, raw, len);
	dgram_deliver(RPC_DGRAM_HDR_LEN + len, PEER_QPN + (p[4] >> 4 & 1),
		      (uint16_t)(PEER_LID + (p[4] >> 5 & 1)));
}

static size_t dgram_command(const uint8_t *p, const uint8_t *raw, size_t raw_len)
{
	const uint32_t i = p[1] % MAX_DGRAM_CALL;
	uint8_t *msg = rpc_dgram.buf + (size_t)dgram_recv[0] * rpc_dgram.stride + RDMA_GRH_LEN;
	int err;

	switch (p[0] & 7) {
	case 0:
	case 1:
		dgram_plausible(p, raw, raw_len);
		return MIN(raw_len, (size_t)p[3]);
	case 2:
		raw_len = MIN(raw_len, (size_t)p[1] * 4);
		memcpy(msg, raw, raw_len);
		dgram_deliver((uint32_t)(p[2] & 1 ? p[3] * 8 : raw_len), PEER_QPN, PEER_LID);
		return raw_len;
	case 3:
		dgram_call_begin(i, p[2]);
		return 0;
	case 4:
		if (dgram_begun[i]) {
			err = rpc_dgram_call_send(&dgram_call[i], p[2]);
			CHECK(err == 0);
		}
		return 0;
	case 5:
		dgram_call_end(i);
		return 0;
	case 6:
		dgram_sends_wait = p[1] & 1;
		return 0;
	default:
		kept_answer();
		return 0;
	}
}

static void settle_datagrams(void)
{
	dgram_sends_wait = false;
	while (nr_kept)
		kept_answer();
	for (uint32_t i = 0; i < MAX_DGRAM_CALL; i++)
		dgram_call_end(i);
	CHECK(nr_dgram_recv == DGRAM_BUFFERS && atomic_read(&rpc_dgram.nr_held) == 0);
	CHECK(rpc_dgram.nr_send_free + nr_dgram_sent == DGRAM_BUFFERS / 2);
	for (uint32_t i = 0; i < RPC_DGRAM_HASH; i++)
		CHECK(list_empty(&rpc_dgram.calls[i]));
}

/* One command of 8 bytes; true: it was followed by raw bytes for the ring. */
static size_t command(const uint8_t *p, const uint8_t *raw, size_t raw_len)
{
	const bool reply = p[0] & 0x80;
	const uint32_t slot = p[5] & 31;
	uint8_t *ring = rpc_ring_slot(the_conn->ring, reply, slot);
	struct rpc_imm imm = { .reply = reply, .slot = slot };
	size_t n;

	if (p[0] & 0x40)
		return dgram_command(p, raw, raw_len);
	switch (p[0] & 7) {
	case 0:
	case 1:
		plausible(p + 1, &imm.len, reply, ring);
		deliver(rpc_imm_encode(&imm));
		return 0;
	case 2: /* raw header */
		n = MIN(raw_len, (size_t)RPC_HDR_LEN);
		memcpy(ring, raw, n);
		deliver((uint32_t)p[1] | (uint32_t)p[2] << 8 | (uint32_t)p[3] << 16 |
			(uint32_t)p[4] << 24);
		return n;
	case 3:
	case 4:
		submit(p[1]);
		return 0;
	case 5:
		if (nr_submitted)
			rpc_call_cancel(calls[p[1] % nr_submitted]);
		return 0;
	case 6:
		spin_lock(&session->lock);
		the_conn->state = RPC_CONN_ACCEPTING; /* cannot send for a while */
		spin_unlock(&session->lock);
		return 0;
	default:
		spin_lock(&session->lock);
		the_conn->state = RPC_CONN_UP;
		rpc_flush_locked(session);
		spin_unlock(&session->lock);
		return 0;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!session)
		setup();
	decoders(data, size);
	while (size >= 8) {
		const size_t used = 8 + command(data, data + 8, size - 8);

		data += used;
		size -= used;
	}
	the_conn->state = RPC_CONN_UP;
	spin_lock(&session->lock);
	rpc_flush_locked(session);
	spin_unlock(&session->lock);
	settle();
	settle_datagrams();
	return 0;
}
