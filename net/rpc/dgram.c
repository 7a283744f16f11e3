/* SPDX-License-Identifier: MIT */
/*
 * RPC by datagrams: one UD queue pair of this node, its buffers, and the server side.
 *
 * Flow:	a thread of its own takes what arrives, so that a flood of datagrams does not
 *		hold up the poll of the connections.  Replies go to dgram_call.c.  A request
 *		stays in its receive buffer, which the sender cannot reach any more, until it is
 *		answered: inline, or by a worker.
 * Invariants:	the header names the sender.  This node believes it when the source address
 *		(LID, GID) and the source queue pair are those that the peer told over a
 *		connection, and the device has found our Q_Key in the packet.  Between a node and
 *		the host of the managers there must be a keyed hash as well (auth.c).  Then the
 *		incarnation decides: a fenced one is answered -ESTALE.
 * Limits:	nothing is kept per sender.  Requests hold at most half of the receive buffers,
 *		so that replies to our own calls always find one.  Requests beyond that are
 *		dropped, as is a reply that finds no send buffer: the sender retransmits.
 * Failure:	when the queue pair breaks, or a reset of the device loses it, the thread makes
 *		a new one; until then calls end with -ENETDOWN.  A peer learns the new number
 *		with its next connection (after a reset all connections are new).  Until then it
 *		drops our datagrams as forged, and calls end with -ETIMEDOUT.
 */
#define PR_FMT "rpc: "

#include "dgram.h"

#include <kernel/printk.h>
#include <kernel/random.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/blake2b.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#define POLL_BATCH 8
#define RENEW_NS   NSEC_PER_SEC /* between attempts to get a new queue pair */

struct rpc_dgram_net rpc_dgram = { .lock = SPINLOCK_INIT("rpc.dgram", RANK_NET_QP) };

static uint32_t mtu_bytes(enum rdma_mtu mtu)
{
	return 128u << mtu;
}

/* --- addresses ------------------------------------------------------------------------ */

void rpc_dgram_info_fill(struct rpc_conn_info *info)
{
	info->dgram_qpn = READ_ONCE(rpc_dgram.qpn);
	info->dgram_qkey = rpc_dgram.qkey;
	info->dgram_mtu = (uint8_t)rpc_dgram.mtu;
}

void rpc_dgram_learn(struct rpc_peer *peer, const struct rpc_conn_info *info)
{
	spin_lock(&peer->lock);
	peer->dgram = (struct rpc_dgram_addr){ .incarn = info->incarn,
					       .qpn = info->dgram_qpn,
					       .qkey = info->dgram_qkey,
					       .mtu = info->dgram_mtu };
	spin_unlock(&peer->lock);
}

bool rpc_dgram_end_of(struct rpc_peer *peer, struct rpc_dgram_end *end)
{
	struct rpc_dgram_addr a;
	enum node_role role;

	spin_lock(&peer->lock);
	a = peer->dgram;
	end->addr = peer->info.addr;
	role = peer->info.role;
	spin_unlock(&peer->lock);
	end->has_key =
		rpc_auth_pair_key(peer->info.id, role, a.incarn, rpc_peer_is_host(peer), end->key);
	end->qpn = a.qpn;
	end->qkey = a.qkey;
	end->incarn = a.incarn;
	if (!a.qpn)
		return false;
	end->body_max = mtu_bytes(MIN((enum rdma_mtu)a.mtu, rpc_dgram.mtu)) - RPC_DGRAM_HDR_LEN;
	return true;
}

/* --- sending -------------------------------------------------------------------------- */

static void failed_locked(enum rdma_wc_status status)
{
	assert_spin_held(&rpc_dgram.lock);
	if (rpc_dgram.is_broken)
		return;
	WRITE_ONCE(rpc_dgram.is_broken, true);
	/* A queue pair made now might not outlive the reset: the device tells when it is back. */
	WRITE_ONCE(rpc_dgram.is_dead, status == RDMA_WC_FATAL_ERR);
	pr_warn("queue pair for datagrams: %s\n", rdma_wc_status_name(status));
	atomic_set_release(&rpc_dgram.event, 1);
	wake_one(&rpc_dgram.wq);
}

static void send_reap_locked(void)
{
	struct rdma_wc wc[POLL_BATCH];
	int n;

	assert_spin_held(&rpc_dgram.lock);
	do {
		n = rdma_poll_cq(rpc_dgram.send_cq, wc, POLL_BATCH);
		for (int i = 0; i < n; i++) {
			rpc_dgram.send_free[rpc_dgram.nr_send_free++] = (uint32_t)wc[i].wr_id;
			if (wc[i].status != RDMA_WC_SUCCESS)
				failed_locked(wc[i].status);
		}
	} while (n == POLL_BATCH);
}

static int post_locked(const struct rpc_dgram_end *to, const struct rpc_dgram_wire *hdr,
		       const void *body, uint32_t body_len)
{
	struct rdma_sge sge = { .len = RPC_DGRAM_HDR_LEN + body_len,
				.lkey = rdma_mr_lkey(rpc_dgram.mr) };
	struct rdma_send_wr wr = { .sge = &sge,
				   .nr_sge = 1,
				   .opcode = RDMA_WR_SEND,
				   .flags = RDMA_SEND_SIGNALED,
				   .dest = to->addr,
				   .dest_qpn = to->qpn,
				   .dest_qkey = to->qkey };
	const struct rdma_send_wr *bad;
	uint64_t off;
	uint32_t slot;
	int err;

	assert_spin_held(&rpc_dgram.lock);
	if (!rpc_dgram.is_broken)
		send_reap_locked();
	if (rpc_dgram.is_broken)
		return -ENETDOWN;
	if (!rpc_dgram.nr_send_free)
		return -ENOBUFS;
	slot = rpc_dgram.send_free[--rpc_dgram.nr_send_free];
	off = (uint64_t)(rpc_dgram.nr_recv + slot) * rpc_dgram.stride;
	memcpy(rpc_dgram.buf + off, hdr, sizeof(*hdr));
	if (body_len)
		memcpy(rpc_dgram.buf + off + RPC_DGRAM_HDR_LEN, body, body_len);
	sge.addr = rpc_dgram.phys + off;
	wr.wr_id = slot;
	err = rdma_post_send(rpc_dgram.qp, &wr, &bad);
	if (err)
		rpc_dgram.send_free[rpc_dgram.nr_send_free++] = slot;
	return err;
}

int rpc_dgram_post(const struct rpc_dgram_end *to, const struct rpc_dgram_hdr *hdr,
		   const void *body)
{
	struct rpc_dgram_wire w;
	int err;

	rpc_dgram_encode(hdr, &w);
	if (to->has_key)
		rpc_auth_datagram(to->key, &w, body, hdr->body_len, w.mac);
	spin_lock(&rpc_dgram.lock);
	err = post_locked(to, &w, body, hdr->body_len);
	spin_unlock(&rpc_dgram.lock);
	if (err)
		counter_inc(&rpc_c_dgram_dropped);
	return err;
}

/* --- receiving ------------------------------------------------------------------------ */

static const uint8_t *recv_buf(uint32_t slot)
{
	return rpc_dgram.buf + (uint64_t)slot * rpc_dgram.stride;
}

static int recv_post_locked(uint32_t slot)
{
	const struct rdma_sge sge = { .addr = rpc_dgram.phys + (uint64_t)slot * rpc_dgram.stride,
				      .len = rpc_dgram.stride,
				      .lkey = rdma_mr_lkey(rpc_dgram.mr) };
	const struct rdma_recv_wr wr = { .wr_id = slot, .sge = &sge, .nr_sge = 1 };
	const struct rdma_recv_wr *bad;

	assert_spin_held(&rpc_dgram.lock);
	return rdma_post_recv(rpc_dgram.qp, &wr, &bad);
}

/* One that breaks keeps no buffer: qp_renew() posts all that no request has. */
static void recv_repost(uint32_t slot)
{
	spin_lock(&rpc_dgram.lock);
	rpc_dgram.requests[slot].is_held = false;
	/* There is a buffer for every work request, so only a broken queue pair refuses. */
	if (!rpc_dgram.is_broken && recv_post_locked(slot))
		failed_locked(RDMA_WC_GENERAL_ERR);
	spin_unlock(&rpc_dgram.lock);
}

/*
 * Did the datagram come from where the peer sends them?  Then its answer goes there, to the whole
 * address that it came from.
 */
static bool sent_by(const struct rdma_wc *wc, const uint8_t *grh, struct rpc_dgram_end *end)
{
	struct rdma_addr from;

	rdma_addr_of_wc(wc, grh, &from);
	if (wc->src_qpn != end->qpn || !rdma_addr_equal(&from, &end->addr))
		return false;
	end->addr = from;
	return true;
}

/* Where there is a key, has the datagram been sent by who has it? */
static bool has_mac(const struct rpc_dgram_end *end, const uint8_t *msg, uint32_t body_len)
{
	uint8_t mac[RPC_PROOF_LEN];
	struct rpc_dgram_wire w;

	if (!end->has_key)
		return true;
	memcpy(&w, msg, sizeof(w));
	rpc_auth_datagram(end->key, &w, msg + sizeof(w), body_len, mac);
	return bytes_equal(mac, w.mac, sizeof(mac));
}

/* True: the request has the buffer now. */
static bool request_received(struct rpc_peer *peer, const struct rpc_dgram_end *from,
			     const struct rpc_dgram_hdr *hdr, uint32_t slot)
{
	struct rpc_dgram_request *dr = &rpc_dgram.requests[slot];
	bool is_stale;

	if (atomic_inc_return(&rpc_dgram.nr_held) > (int)(rpc_dgram.nr_recv / 2)) {
		atomic_dec(&rpc_dgram.nr_held);
		counter_inc(&rpc_c_dgram_dropped);
		return false;
	}
	counter_inc(&rpc_c_dgram_received);
	is_stale = hdr->dst_incarn != node_self()->incarn ||
		   READ_ONCE(peer->state) == RPC_PEER_REMOVED ||
		   READ_ONCE(peer->info.incarn) != from->incarn;
	dr->from = *from;
	dr->slot = slot;
	dr->attempt = hdr->attempt;
	dr->is_held = true; /* this thread, which also renews, gives it away */
	dr->req =
		(struct rpc_request){ .peer = peer,
				      .body = recv_buf(slot) + RDMA_GRH_LEN + RPC_DGRAM_HDR_LEN,
				      .req_id = hdr->req_id,
				      .received_ns = time_now_ns(),
				      .body_len = hdr->body_len,
				      .expires_ns = rpc_expires_ns(time_now_ns(), hdr->timeout_ms),
				      .peer_incarn = hdr->incarn,
				      .opcode = hdr->opcode };
	if (is_stale) {
		counter_inc(&rpc_c_dgram_stale);
		rpc_reply(&dr->req, -ESTALE, NULL, 0);
	} else {
		rpc_request_dispatch(&dr->req);
	}
	return true;
}

/* True: the buffer stays in use. */
static bool received(const struct rdma_wc *wc)
{
	const uint32_t slot = (uint32_t)wc->wr_id;
	const uint8_t *buf = recv_buf(slot);
	const uint8_t *msg = buf + RDMA_GRH_LEN;
	struct rpc_dgram_end end;
	struct rpc_dgram_hdr hdr;
	struct rpc_peer *peer;

	if (wc->opcode != RDMA_WC_RECV || wc->byte_len < RDMA_GRH_LEN ||
	    wc->byte_len > rpc_dgram.stride ||
	    rpc_dgram_decode(msg, wc->byte_len - RDMA_GRH_LEN, &hdr)) {
		counter_inc(&rpc_c_dgram_malformed);
		return false;
	}
	peer = rpc_peer_find(hdr.src_node);
	if (!peer || !rpc_dgram_end_of(peer, &end) || !sent_by(wc, buf, &end) ||
	    (hdr.incarn == end.incarn && !has_mac(&end, msg, hdr.body_len))) {
		counter_inc(&rpc_c_dgram_forged);
		return false;
	}
	if (hdr.incarn != end.incarn) {
		counter_inc(&rpc_c_dgram_stale);
		return false;
	}
	if (hdr.kind == RPC_DGRAM_REQUEST)
		return request_received(peer, &end, &hdr, slot);
	rpc_dgram_reply_received(peer, &hdr, msg + RPC_DGRAM_HDR_LEN);
	return false;
}

int rpc_dgram_poll(void)
{
	struct rdma_wc wc[POLL_BATCH];
	const int n = rdma_poll_cq(rpc_dgram.recv_cq, wc, POLL_BATCH);

	for (int i = 0; i < n; i++) {
		if (wc[i].status != RDMA_WC_SUCCESS) {
			spin_lock(&rpc_dgram.lock);
			failed_locked(wc[i].status);
			spin_unlock(&rpc_dgram.lock);
		} else if (!received(&wc[i])) {
			recv_repost((uint32_t)wc[i].wr_id);
		}
	}
	return n;
}

/* Interrupt context. */
static void recv_event(struct rdma_cq *cq, void *arg)
{
	atomic_set_release(&rpc_dgram.event, 1);
	wake_one(&rpc_dgram.wq);
}

/* The device's thread. */
static void device_event(struct rdma_event_handler *h, const struct rdma_event *ev)
{
	if (ev->type != RDMA_EVENT_DEVICE_UP)
		return;
	atomic_set_release(&rpc_dgram.is_lost, 1);
	atomic_set_release(&rpc_dgram.event, 1);
	wake_one(&rpc_dgram.wq);
}

static struct rdma_qp *qp_create(void)
{
	const struct rdma_qp_init init = { .type = RDMA_QPT_UD,
					   .send_cq = rpc_dgram.send_cq,
					   .recv_cq = rpc_dgram.recv_cq,
					   .max_send_wr = rpc_dgram.nr_send,
					   .max_recv_wr = rpc_dgram.nr_recv,
					   .max_send_sge = 1,
					   .max_recv_sge = 1,
					   .port = rpc_net.port,
					   .qkey = rpc_dgram.qkey };
	struct rdma_qp *qp = rdma_qp_create(rpc_net.pd, &init);
	int err;

	if (IS_ERR(qp))
		return qp;
	err = rdma_qp_to_rts_ud(qp);
	if (!err)
		return qp;
	rdma_qp_destroy(qp);
	return ERR_PTR(err);
}

/* All buffers are the new queue pair's, but those that requests lie in. */
static int qp_set(struct rdma_qp *qp)
{
	int err = 0;

	spin_lock(&rpc_dgram.lock);
	rpc_dgram.qp = qp;
	WRITE_ONCE(rpc_dgram.qpn, rdma_qp_num(qp));
	for (uint32_t i = 0; i < rpc_dgram.nr_send; i++)
		rpc_dgram.send_free[i] = i;
	rpc_dgram.nr_send_free = rpc_dgram.nr_send;
	for (uint32_t i = 0; i < rpc_dgram.nr_recv && !err; i++) {
		if (!rpc_dgram.requests[i].is_held)
			err = recv_post_locked(i);
	}
	WRITE_ONCE(rpc_dgram.is_broken, err != 0);
	WRITE_ONCE(rpc_dgram.is_dead, false);
	spin_unlock(&rpc_dgram.lock);
	return err;
}

static void cq_discard(struct rdma_cq *cq)
{
	struct rdma_wc wc[POLL_BATCH];

	while (rdma_poll_cq(cq, wc, POLL_BATCH) > 0)
		;
}

/* False: it did not work out. */
static bool qp_renew(void)
{
	struct rdma_qp *qp;

	spin_lock(&rpc_dgram.lock);
	WRITE_ONCE(rpc_dgram.is_broken, true); /* nobody posts from here on */
	qp = rpc_dgram.qp;
	rpc_dgram.qp = NULL;
	spin_unlock(&rpc_dgram.lock);
	cq_discard(rpc_dgram.recv_cq);
	cq_discard(rpc_dgram.send_cq);
	if (qp)
		rdma_qp_destroy(qp); /* it touches no buffer any more */
	atomic_set(&rpc_dgram.is_lost, 0);
	qp = qp_create();
	if (IS_ERR(qp) || qp_set(qp))
		return false;
	counter_inc(&rpc_c_dgram_renewed);
	pr_info("new queue pair for datagrams\n");
	return true;
}

static bool renew_is_due(void)
{
	if (atomic_read_acquire(&rpc_dgram.is_lost))
		return true;
	return READ_ONCE(rpc_dgram.is_broken) && !READ_ONCE(rpc_dgram.is_dead);
}

static bool event_taken(void)
{
	return atomic_xchg(&rpc_dgram.event, 0) != 0;
}

static void recv_main(void *arg)
{
	for (;;) {
		uint64_t until = WAIT_FOREVER;

		if (rpc_dgram_poll())
			continue;
		if (renew_is_due()) {
			if (qp_renew())
				continue;
			until = time_after_ns(RENEW_NS);
		} else if (!READ_ONCE(rpc_dgram.is_broken)) {
			rdma_arm_cq(rpc_dgram.recv_cq, false);
			if (rpc_dgram_poll())
				continue;
		}
		(void)wait_event_timeout(&rpc_dgram.wq, event_taken(), until);
	}
}

/* --- replies -------------------------------------------------------------------------- */

static struct rpc_dgram_request *dgram_of(const struct rpc_request *req)
{
	return container_of(req, struct rpc_dgram_request, req);
}

uint32_t rpc_dgram_reply_max(const struct rpc_request *req)
{
	return dgram_of(req)->from.body_max;
}

void rpc_dgram_reply(struct rpc_request *req, int status, const void *body, uint32_t body_len)
{
	struct rpc_dgram_request *dr = dgram_of(req);
	struct rpc_dgram_hdr hdr = {
		.kind = RPC_DGRAM_REPLY,
		.opcode = req->opcode,
		.attempt = dr->attempt,
		.src_node = node_self()->id,
		.req_id = req->req_id,
		.incarn = node_self()->incarn,
		.dst_incarn = dr->from.incarn,
		.epoch = READ_ONCE(rpc_net.epoch),
		.status = status,
	};

	/* The peer itself has said how much it takes: no reason to warn. */
	if (body_len > dr->from.body_max)
		hdr.status = -EMSGSIZE;
	else
		hdr.body_len = (uint16_t)body_len;
	if (rpc_dgram_post(&dr->from, &hdr, body) == 0)
		counter_inc(&rpc_c_dgram_answered);
	hist_record(&rpc_h_handler, time_now_ns() - req->received_ns);
	recv_repost(dr->slot);
	atomic_dec(&rpc_dgram.nr_held);
}

/* --- start ---------------------------------------------------------------------------- */

static int buffers_create(void)
{
	const uint32_t nr = rpc_dgram.nr_recv + rpc_dgram.nr_send;
	struct rdma_phys_range range;

	lock_not_needed(&rpc_dgram.lock, "start-up: no other thread knows the buffers");
	range.len = ALIGN_UP((uint64_t)nr * rpc_dgram.stride, (uint64_t)PAGE_SIZE);
	rpc_dgram.requests = kcalloc(rpc_dgram.nr_recv, sizeof(*rpc_dgram.requests));
	rpc_dgram.send_free = kcalloc(rpc_dgram.nr_send, sizeof(*rpc_dgram.send_free));
	rpc_dgram.buf = dma_alloc(range.len, &rpc_dgram.phys);
	if (!rpc_dgram.requests || !rpc_dgram.send_free || !rpc_dgram.buf)
		return -ENOMEM;
	range.paddr = rpc_dgram.phys;
	rpc_dgram.mr = rdma_mr_create(rpc_net.pd, range.paddr, &range, 1, RDMA_ACCESS_LOCAL_WRITE);
	return PTR_ERR_OR_ZERO(rpc_dgram.mr);
}

static int queues_create(void)
{
	struct rdma_qp *qp;

	rpc_dgram.recv_cq = rdma_cq_create(rpc_net.dev, rpc_dgram.nr_recv, 0, recv_event, NULL);
	if (IS_ERR(rpc_dgram.recv_cq))
		return (int)PTR_ERR(rpc_dgram.recv_cq);
	rpc_dgram.send_cq = rdma_cq_create(rpc_net.dev, rpc_dgram.nr_send, 0, NULL, NULL);
	if (IS_ERR(rpc_dgram.send_cq))
		return (int)PTR_ERR(rpc_dgram.send_cq);
	qp = qp_create();
	return IS_ERR(qp) ? (int)PTR_ERR(qp) : qp_set(qp);
}

/* A failure is the end of the boot: nothing is undone. */
int rpc_dgram_create(void)
{
	struct rdma_port_attr attr;
	int err;

	err = rdma_port_attr(rpc_net.dev, rpc_net.port, &attr);
	if (err)
		return err;
	waitqueue_init(&rpc_dgram.wq);
	for (uint32_t i = 0; i < RPC_DGRAM_HASH; i++)
		list_init(&rpc_dgram.calls[i]);
	rpc_dgram.mtu = attr.active_mtu;
	rpc_dgram.stride = ALIGN_UP(RDMA_GRH_LEN + mtu_bytes(attr.active_mtu), 64u);
	rpc_dgram.nr_recv = rpc_tune.datagram_buffers;
	rpc_dgram.nr_send = rpc_tune.datagram_buffers / 2;
	/* New at each boot: the device refuses datagrams for the node that was here before. */
	rpc_dgram.qkey = (uint32_t)random_u64() & INT32_MAX;
	err = buffers_create();
	return err ? err : queues_create();
}

int rpc_dgram_init(void)
{
	struct thread *t;
	int err;

	err = rpc_dgram_create();
	if (err)
		return err;
	t = thread_create_prio("rpc-dgram", recv_main, NULL, THREAD_PRIO_HIGH);
	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	rpc_dgram.handler.fn = device_event;
	rdma_event_register(rpc_net.dev, &rpc_dgram.handler);
	return 0;
}
