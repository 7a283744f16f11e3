/* SPDX-License-Identifier: MIT */
/*
 * RPC connections: set-up, tear-down and replacement of the queue pair below a session.
 *
 * Flow:	only conn_work() makes and unmakes connections; CM events and errors leave a
 *		note in the connection and queue it.  Active: connect -> ESTABLISHED -> UP.
 *		Passive: REQ -> incoming -> accept -> (receives already) -> ESTABLISHED -> UP.
 *		Both sides may connect at once: the attempt of the node with the smaller id
 *		wins.  That node refuses the other's REQ; the other node gives its own attempt
 *		up when it sees the REQ.
 * Ordering:	tear-down moves the queue pair to ERR, drains the receive queue (a reply that
 *		came counts) and destroys the queue pair: only then may quarantined targets be
 *		reused and slots be sent again.  The passive side may send before the active
 *		side has read its REP: such messages wait in rpc_conn.early until the peer's
 *		incarnation is known.
 * Locking:	rpc_session.conn_lock around everything; rpc_session.lock for what pollers read.
 */
#define PR_FMT "rpc: "

#include "rpc_priv.h"

#include <kernel/printk.h>
#include <kernel/random.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>

#define BACKOFF_MIN_MS 2u
#define BACKOFF_MAX_MS 500u
#define RENDEZVOUS_NS  (500 * NSEC_PER_MSEC) /* the caller has more patience */
#define CONN_INLINE    128u /* bytes: a header and the body of a typical small message */

/* --- objects -------------------------------------------------------------------------- */

void rpc_conn_post_recv(struct rpc_conn *conn, uint32_t nr)
{
	struct rdma_recv_wr wr[RPC_RECV_BATCH];
	const struct rdma_recv_wr *bad;

	while (nr) {
		const uint32_t n = MIN(nr, RPC_RECV_BATCH);

		for (uint32_t i = 0; i < n; i++)
			wr[i] = (struct rdma_recv_wr){ .next = i + 1 < n ? &wr[i + 1] : NULL };
		if (rdma_post_recv(conn->qp, wr, &bad)) {
			/* Only a queue pair in error refuses; its flushed receives tell. */
			return;
		}
		nr -= n;
	}
}

static bool cq_room_take(struct rpc_queue *q, uint32_t nr)
{
	uint32_t room = __atomic_load_n(&q->room, __ATOMIC_RELAXED);

	do {
		if (room < nr)
			return false;
	} while (!__atomic_compare_exchange_n(&q->room, &room, room - nr, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return true;
}

static void cq_room_give(struct rpc_queue *q, uint32_t nr)
{
	__atomic_add_fetch(&q->room, nr, __ATOMIC_RELAXED);
}

static bool is_read_conn(const struct rpc_conn *conn)
{
	return rpc_class_is_read(conn->session->cls);
}

/* The peer's requests on it are of one kind. Probes are empty WRITEs. */
static uint32_t conn_access(const struct rpc_conn *conn)
{
	return RDMA_ACCESS_REMOTE_WRITE | (is_read_conn(conn) ? RDMA_ACCESS_REMOTE_READ : 0);
}

static void send_cq_destroy(struct rpc_conn *conn)
{
	if (conn->send_cq)
		rdma_cq_destroy(conn->send_cq);
}

static int conn_create_qp(struct rpc_conn *conn, const struct rpc_class_cfg *cfg)
{
	struct rdma_qp_init init = {
		.type = RDMA_QPT_RC,
		.recv_cq = conn->session->queue->cq,
		.max_send_wr = 2 * cfg->nr_slots + 2 * (RPC_WRITES_MAX + 1),
		.max_recv_wr = rpc_recv_depth(conn->session->cls),
		.max_send_sge = MIN(cfg->max_sge + 1, rpc_net.attr.max_sge),
		.max_recv_sge = 1,
		.max_inline = MIN(CONN_INLINE, rpc_net.attr.max_inline),
		.port = rpc_net.port,
		.context = conn,
	};
	int err;

	init.max_send_sge = MIN(init.max_send_sge, (uint32_t)ARRAY_SIZE(conn->req_sge));
	init.max_send_wr = MIN(init.max_send_wr, rpc_net.attr.max_qp_wr);
	conn->sq_size = init.max_send_wr;
	conn->sq_sge = init.max_send_sge;
	conn->sq_inline = init.max_inline;
	if (is_read_conn(conn)) {
		init.max_send_wr = cfg->nr_slots + 1;
		conn->sq_size = init.max_send_wr;
		init.send_cq = init.recv_cq;
	} else {
		conn->send_cq = rdma_cq_create(rpc_net.dev, conn->sq_size + 1, 0, NULL, NULL);
		if (IS_ERR(conn->send_cq))
			return (int)PTR_ERR(conn->send_cq);
		init.send_cq = conn->send_cq;
	}
	conn->qp = rdma_qp_create(conn->session->peer->pd, &init);
	if (IS_ERR(conn->qp)) {
		err = (int)PTR_ERR(conn->qp);
		goto out_cq;
	}
	err = rdma_qp_to_init(conn->qp, conn_access(conn));
	if (err)
		goto out_qp;
	rpc_conn_post_recv(conn, rpc_recv_depth(conn->session->cls));
	return 0;

out_qp:
	rdma_qp_destroy(conn->qp);
out_cq:
	send_cq_destroy(conn);
	return err;
}

/* For the holder of conn_lock, without which s->conn is not written. */
static struct rpc_conn *session_conn(struct rpc_session *s)
{
	assert_mutex_held(&s->conn_lock);
	lock_not_needed(&s->lock, "writers hold conn_lock too");
	return s->conn;
}

/* @state: RPC_CONN_CONNECTING or RPC_CONN_ACCEPTING. */
static struct rpc_conn *conn_create(struct rpc_session *s, enum rpc_conn_state state)
{
	const struct rpc_class_cfg *cfg = &rpc_class_cfg[s->cls];
	struct rpc_conn *conn;
	int err = -ENOMEM;

	if (!cq_room_take(s->queue, rpc_class_cqes(s->cls))) {
		pr_err("no room for a connection to node %u: raise rpc.max_peers\n",
		       s->peer->info.id);
		return ERR_PTR(-ENOSPC);
	}
	conn = kzalloc(sizeof(*conn));
	if (!conn)
		goto out_room;
	conn->early = kcalloc(rpc_recv_depth(s->cls), sizeof(*conn->early));
	conn->ring = rpc_ring_create(s->peer->pd, cfg);
	if (!conn->early || !conn->ring)
		goto out_free;
	conn->session = s;
	conn->state = (uint8_t)state;
	conn->gen = READ_ONCE(s->gen) + 1; /* writers hold conn_lock, as we do */
	conn->opened_ns = time_now_ns();
	err = conn_create_qp(conn, cfg);
	if (err)
		goto out_free;
	return conn;

out_free:
	if (conn->ring)
		rpc_ring_put(conn->ring);
	kfree(conn->early);
	kfree(conn);
out_room:
	cq_room_give(s->queue, rpc_class_cqes(s->cls));
	return ERR_PTR(err);
}

/* Free what conn_create() made; the queue pair is destroyed already. */
static void conn_free(struct rpc_conn *conn)
{
	rpc_ring_put(conn->ring);
	cq_room_give(conn->session->queue, rpc_class_cqes(conn->session->cls));
	kfree(conn->incoming);
	kfree(conn->early);
	kfree(conn);
}

void rpc_conn_break_locked(struct rpc_session *s, struct rpc_conn *conn)
{
	assert_spin_held(&s->lock);
	ASSERT(conn->session == s);
	if (conn->state == RPC_CONN_BROKEN)
		return;
	if (conn->state == RPC_CONN_UP)
		counter_inc(&rpc_c_breaks);
	rpc_conn_set_state_locked(conn, RPC_CONN_BROKEN);
	rpc_session_kick(s);
}

/* --- tear-down ------------------------------------------------------------------------ */

/* The queue pair is gone: nothing that went through it can touch memory any more. */
static struct rpc_call_impl *client_slots_drain_locked(struct rpc_session *s,
						       struct rpc_call_impl **reads)
{
	struct rpc_call_impl *released = NULL;

	assert_spin_held(&s->lock);
	for (uint32_t i = 0; i < rpc_class_cfg[s->cls].nr_slots; i++) {
		struct rpc_cslot *cs = &s->cslots[i];

		if (cs->state == RPC_CSLOT_QUARANTINE) {
			cs->call->next_q = released;
			released = cs->call;
			rpc_cslot_free_locked(s, i);
		} else if (cs->state == RPC_CSLOT_BUSY) {
			struct rpc_call_impl *impl = cs->call;

			if (rpc_read_end_locked(s, i)) {
				impl->next_q = *reads;
				*reads = impl;
				continue;
			}
			cs->retransmitted |= cs->posted;
			cs->posted = false;
			s->c_unsent |= BIT64(i);
			s->c_parked &= ~BIT64(i);
		}
	}
	return released;
}

static void server_slots_drain_locked(struct rpc_session *s, uint32_t gen, struct rpc_batch *b)
{
	assert_spin_held(&s->lock);
	for (uint32_t i = 0; i < rpc_class_cfg[s->cls].nr_slots; i++) {
		struct rpc_sslot *ss = &s->sslots[i];

		if (ss->state != RPC_SSLOT_DONE || ss->gen != gen)
			continue;
		if (ss->keep && ss->nr_writes)
			continue; /* its data may be asked for again: hold on to the sources */
		if (!ss->keep) {
			ss->nr_writes = 0;
			s->s_unsent &= ~BIT64(i);
		}
		if (!ss->sent)
			continue;
		rpc_batch_add(b, ss->sent, ss->sent_arg);
		ss->sent = NULL;
		s->s_sent_pending &= ~BIT64(i);
		rpc_outstanding_dec();
	}
}

static __noinline void slots_drain(struct rpc_session *s, uint32_t gen)
{
	struct rpc_batch b = { .nr = 0 };
	struct rpc_call_impl *released, *reads = NULL;

	spin_lock(&s->lock);
	released = client_slots_drain_locked(s, &reads);
	server_slots_drain_locked(s, gen, &b);
	spin_unlock(&s->lock);
	while (released) {
		struct rpc_call_impl *impl = released;

		released = impl->next_q;
		rpc_call_left_quarantine(impl);
	}
	while (reads) {
		struct rpc_call_impl *impl = reads;

		reads = impl->next_q;
		rpc_call_finish(impl, -EIO, 0, true);
	}
	rpc_batch_run(&b);
	rpc_session_wake_slots(s);
}

static void conn_close(struct rpc_conn *conn)
{
	struct rpc_session *s = conn->session;
	struct rpc_batch b = { .nr = 0 };
	bool was_open;

	spin_lock(&s->lock);
	was_open = conn->is_known;
	if (conn->state != RPC_CONN_BROKEN)
		rpc_conn_set_state_locked(conn, RPC_CONN_BROKEN);
	spin_unlock(&s->lock);
	if (rdma_qp_to_err(conn->qp))
		pr_debug("queue pair did not go to the error state\n");
	rpc_poll_barrier(s->queue); /* replies that came in time count */
	if (conn->cm) {
		if (was_open)
			cm_disconnect(conn->cm);
		cm_conn_destroy(conn->cm);
	}
	spin_lock(&s->lock);
	rpc_reap_locked(conn, &b);
	s->conn = NULL;
	spin_unlock(&s->lock);
	rpc_batch_run(&b);
	rdma_qp_destroy(conn->qp);
	rpc_poll_barrier(s->queue); /* nobody holds a completion of it any more */
	send_cq_destroy(conn);
	slots_drain(s, conn->gen);
	conn_free(conn);
}

/* --- set-up, common ------------------------------------------------------------------- */

static void private_data_fill(const struct rpc_conn *conn, struct rpc_conn_wire *out)
{
	const struct rpc_session *s = conn->session;
	struct rpc_conn_info info = {
		.cls = s->cls,
		.role = (uint8_t)node_self()->role,
		.flags = s->peer->info.id ? 0 : RPC_CONN_F_STRANGER,
		.node = node_self()->id,
		.incarn = node_self()->incarn,
		.ring_addr = conn->ring->phys,
		.ring_rkey = rdma_mr_rkey(conn->ring->mr),
		.nr_slots = (uint16_t)conn->ring->nr_slots,
		.req_slot_size = conn->ring->req_size,
		.rep_slot_size = conn->ring->rep_size,
		.epoch = READ_ONCE(rpc_net.epoch),
	};

	rpc_dgram_info_fill(&info);
	rpc_conn_encode(&info, out);
}

static void cm_params_fill(const struct rpc_conn *conn, const struct rpc_conn_wire *priv,
			   struct cm_params *out)
{
	*out = (struct cm_params){
		.qp = conn->qp,
		.access = conn_access(conn),
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ack_timeout = (uint8_t)rpc_tune.ack_timeout,
		.max_rd_atomic =
			is_read_conn(conn) ? (uint8_t)MIN(rpc_net.attr.max_rd_atomic, 16u) : 1,
		.private_data = priv,
		.private_len = sizeof(*priv),
	};
}

static bool geometry_fits(const struct rpc_session *s, const struct rpc_conn_info *info)
{
	const struct rpc_class_cfg *cfg = &rpc_class_cfg[s->cls];

	if (info->nr_slots == cfg->nr_slots && info->req_slot_size == rpc_req_slot_size(cfg) &&
	    info->rep_slot_size == rpc_rep_slot_size(cfg))
		return true;
	pr_err("node %u has %u %s slots of %u and %u bytes, this node %u of %u and %u: "
	       "rpc.slots.%s must be the same everywhere\n",
	       info->node, info->nr_slots, cfg->name, info->req_slot_size, info->rep_slot_size,
	       cfg->nr_slots, rpc_req_slot_size(cfg), rpc_rep_slot_size(cfg), cfg->name);
	return false;
}

/* The peer's ring and incarnation are known: messages can be understood from here on. */
static void conn_learn(struct rpc_conn *conn, const struct rpc_conn_info *info)
{
	struct rpc_session *s = conn->session;
	struct rpc_batch b = { .nr = 0 };

	spin_lock(&s->lock);
	conn->peer_incarn = info->incarn;
	conn->remote_addr = info->ring_addr;
	conn->remote_rkey = info->ring_rkey;
	if (s->server_incarn != info->incarn) {
		rpc_session_forget_client(s, &b);
		s->server_incarn = info->incarn;
	}
	conn->is_known = true;
	spin_unlock(&s->lock);
	rpc_dgram_learn(s->peer, info);
	rpc_batch_run(&b);
}

static void conn_up(struct rpc_conn *conn)
{
	struct rpc_session *s = conn->session;
	bool up;

	assert_mutex_held(&s->conn_lock);
	spin_lock(&s->lock);
	up = conn->state == RPC_CONN_CONNECTING || conn->state == RPC_CONN_ACCEPTING;
	if (up) {
		rpc_conn_set_state_locked(conn, RPC_CONN_UP);
		rpc_flush_locked(s);
	}
	s->want_conn = false;
	spin_unlock(&s->lock);
	if (!up)
		return;
	rpc_poll_early(conn);
	s->nr_attempts = 0;
	s->nr_challenges = 0;
	WRITE_ONCE(s->next_attempt_ns, 0);
	counter_inc(&rpc_c_connects);
	if (s->was_up)
		counter_inc(&rpc_c_reconnects);
	s->was_up = true;
}

static void attempt_failed(struct rpc_session *s)
{
	uint64_t ms;

	assert_mutex_held(&s->conn_lock);
	ms = MIN(BACKOFF_MIN_MS << MIN(s->nr_attempts, 8u), BACKOFF_MAX_MS);
	s->nr_attempts++;
	/* Jitter keeps two sides from crossing for ever. */
	ms = ms * NSEC_PER_MSEC + random_u64() % (ms * NSEC_PER_MSEC);
	WRITE_ONCE(s->next_attempt_ns, time_now_ns() + ms);
}

static void conn_reject(struct cm_conn *cm, struct rpc_rej rej)
{
	const uint8_t code = rej.code;
	struct rpc_rej_wire w;
	int err;

	counter_inc(&rpc_c_rejected);
	if (code == RPC_REJ_STALE)
		counter_inc(&rpc_c_stale);
	else if (code == RPC_REJ_MALFORMED || code == RPC_REJ_GEOMETRY)
		counter_inc(&rpc_c_malformed);
	rej.node = node_self()->id;
	rej.incarn = node_self()->incarn;
	rpc_rej_encode(&rej, &w);
	err = cm_reject(cm, CM_REJ_CONSUMER, &w, sizeof(w));
	if (err)
		pr_debug("cannot reject a connection: %d\n", err); /* its REQ times out */
}

/* --- CM events ------------------------------------------------------------------------ */

static int conn_event(struct cm_conn *cm, const struct cm_event *ev, void *arg)
{
	struct rpc_conn *conn = arg;
	struct rpc_session *s = conn->session;
	struct rpc_conn_info info = { 0 };
	struct rpc_rej rej = { 0 };
	int info_err = 0;

	if (ev->type == CM_EVENT_ESTABLISHED && !conn->incoming)
		info_err = rpc_conn_decode(ev->private_data, ev->private_len, &info);
	if (ev->type == CM_EVENT_REJECTED &&
	    rpc_rej_decode(ev->private_data, ev->private_len, &rej))
		rej.code = 0;

	pr_debug("node %u %s: CM event %d, reason %u code %u\n", s->peer->info.id,
		 rpc_class_cfg[s->cls].name, ev->type, ev->rej_reason, rej.code);
	spin_lock(&s->lock);
	if (ev->type == CM_EVENT_ESTABLISHED) {
		conn->ev_established = true;
		conn->ev_info = info;
		conn->ev_info_err = info_err;
		if (!info_err && !conn->incoming)
			memcpy(&conn->ev_rep, ev->private_data, sizeof(conn->ev_rep));
	} else {
		conn->ev_ended = true;
		if (rej.code)
			conn->ev_rej_code = rej.code;
		memcpy(conn->ev_challenge, rej.challenge, sizeof(conn->ev_challenge));
	}
	spin_unlock(&s->lock);
	rpc_session_kick(s);
	return 0;
}

/* Events of a REQ that conn_work has not taken yet. */
static int incoming_event(struct cm_conn *cm, const struct cm_event *ev, void *arg)
{
	struct rpc_incoming *inc = arg;

	if (ev->type == CM_EVENT_ESTABLISHED)
		return 0;
	__atomic_store_n(&inc->is_dead, true, __ATOMIC_RELEASE);
	return 0;
}

/* A CM thread: somebody wants to connect. */
int rpc_conn_request_event(struct cm_conn *cm, const struct cm_event *ev, void *arg)
{
	struct rpc_incoming *inc;
	struct rpc_rej rej = { .code = RPC_REJ_MALFORMED };
	struct rpc_conn_info info;
	struct rpc_conn_wire wire;
	struct rpc_session *s;
	struct rpc_peer *peer;
	bool taken;

	if (ev->type != CM_EVENT_REQUEST)
		return 1;
	if (rpc_conn_decode(ev->private_data, ev->private_len, &info))
		goto reject;
	memcpy(&wire, ev->private_data, sizeof(wire));
	peer = rpc_peer_of_req(&info, &wire, &ev->from, &rej);
	pr_debug("node %u %s: REQ, code %u\n", info.node, rpc_class_cfg[info.cls].name, rej.code);
	if (!peer)
		goto reject;
	rej.code = RPC_REJ_NO_MEMORY;
	inc = kzalloc(sizeof(*inc));
	if (!inc)
		goto reject;
	s = &peer->sessions[info.cls];
	inc->cm = cm;
	inc->info = info;
	inc->wire = wire;
	cm_conn_set_arg(cm, incoming_event, inc);
	spin_lock(&s->lock);
	taken = !s->incoming;
	if (taken)
		s->incoming = inc;
	spin_unlock(&s->lock);
	if (taken) {
		rpc_session_kick(s);
		return 0;
	}
	kfree(inc);
	rej.code = RPC_REJ_BUSY;
reject:
	conn_reject(cm, rej);
	return 1;
}

/* --- passive side --------------------------------------------------------------------- */

static void incoming_refuse(struct rpc_incoming *inc, uint8_t code)
{
	conn_reject(inc->cm, (struct rpc_rej){ .code = code });
	cm_conn_destroy(inc->cm);
	kfree(inc);
}

/* Does our own attempt go on instead? */
static bool own_attempt_wins(struct rpc_session *s, const struct rpc_incoming *inc)
{
	const struct rpc_conn *own = session_conn(s);

	return own && own->state == RPC_CONN_CONNECTING && node_self()->id < inc->info.node &&
	       (own->target_incarn == 0 || own->target_incarn == inc->info.incarn);
}

static void incoming_accept(struct rpc_session *s, struct rpc_incoming *inc)
{
	struct cm_params params;
	struct rpc_conn_wire priv;
	struct rpc_conn *conn;
	int err;

	conn = conn_create(s, RPC_CONN_ACCEPTING);
	if (IS_ERR(conn)) {
		incoming_refuse(inc, RPC_REJ_NO_MEMORY);
		return;
	}
	conn->cm = inc->cm;
	conn->incoming = inc;
	spin_lock(&s->lock);
	s->gen = conn->gen;
	s->conn = conn;
	spin_unlock(&s->lock);
	conn_learn(conn, &inc->info);
	cm_conn_set_arg(inc->cm, conn_event, conn);
	private_data_fill(conn, &priv);
	if (s->cls == RPC_CLASS_CONTROL)
		rpc_auth_rep(&priv, &inc->wire);
	cm_params_fill(conn, &priv, &params);
	err = __atomic_load_n(&inc->is_dead, __ATOMIC_ACQUIRE) ? -ECONNRESET
							       : cm_accept(inc->cm, &params);
	if (err) {
		pr_debug("cannot accept node %u: %d\n", inc->info.node, err);
		conn_close(conn);
	}
}

static void incoming_handle(struct rpc_session *s, struct rpc_incoming *inc)
{
	struct rpc_conn *conn;

	if (__atomic_load_n(&inc->is_dead, __ATOMIC_ACQUIRE)) {
		cm_conn_destroy(inc->cm);
		kfree(inc);
		return;
	}
	if (!s->is_ready) {
		incoming_refuse(inc, RPC_REJ_NO_MEMORY);
		return;
	}
	if (!geometry_fits(s, &inc->info)) {
		incoming_refuse(inc, RPC_REJ_GEOMETRY);
		return;
	}
	if (inc->info.incarn != READ_ONCE(s->peer->info.incarn)) {
		incoming_refuse(inc, RPC_REJ_BUSY); /* replaced since: its next REQ is told */
		return;
	}
	if (own_attempt_wins(s, inc)) {
		counter_inc(&rpc_c_crossed);
		incoming_refuse(inc, RPC_REJ_CROSSED);
		return;
	}
	/* An attempt that loses, or a connection whose other end is gone: theirs replaces it. */
	conn = session_conn(s);
	if (conn) {
		if (conn->state == RPC_CONN_CONNECTING)
			counter_inc(&rpc_c_crossed);
		conn_close(conn);
	}
	incoming_accept(s, inc);
}

/* --- active side ---------------------------------------------------------------------- */

static struct rpc_peer *rendezvous; /* not published until its id is known; set once, atomic */

bool rpc_peer_is_host(const struct rpc_peer *peer)
{
	const struct rpc_peer *host = __atomic_load_n(&rendezvous, __ATOMIC_ACQUIRE);

	return host && peer->info.id == host->info.id;
}

static void connect_start(struct rpc_session *s)
{
	struct rdma_addr to = s->peer->info.addr;
	struct cm_params params;
	struct rpc_conn_wire priv;
	struct rpc_conn *conn;
	struct cm_conn *cm;

	assert_mutex_held(&s->conn_lock);
	conn = conn_create(s, RPC_CONN_CONNECTING);
	if (IS_ERR(conn)) {
		attempt_failed(s);
		return;
	}
	conn->target_incarn = s->peer->info.incarn;
	if (rpc_class_cfg[s->cls].sl)
		to.sl = (uint8_t)rpc_class_cfg[s->cls]
				.sl; /* the passive side takes it from the REQ */
	private_data_fill(conn, &priv);
	if (s->cls == RPC_CLASS_CONTROL) {
		conn->wants_proof = rpc_peer_is_host(s->peer) || s->has_challenge;
		rpc_auth_req(&priv, s->has_challenge ? s->challenge : NULL, &to);
		s->has_challenge = false;
		conn->req = priv;
	}
	cm_params_fill(conn, &priv, &params);
	spin_lock(&s->lock);
	s->gen = conn->gen;
	s->conn = conn;
	spin_unlock(&s->lock);
	cm = cm_connect(rpc_net.dev, rpc_net.port, &to, RPC_SERVICE_ID, &params, conn_event, conn);
	if (IS_ERR(cm)) {
		pr_debug("cm_connect: %ld\n", PTR_ERR(cm));
		conn_close(conn);
		attempt_failed(s);
		return;
	}
	conn->cm = cm;
}

/* Our REQ was answered: is it the peer that we wanted? */
static bool rep_check(struct rpc_session *s, struct rpc_conn *conn)
{
	const struct rpc_conn_info *info = &conn->ev_info;
	struct rpc_peer *peer = s->peer;

	if (conn->ev_info_err || info->cls != s->cls ||
	    (peer->info.id && info->node != peer->info.id) || info->node == node_self()->id) {
		counter_inc(&rpc_c_malformed);
		return false;
	}
	if (conn->wants_proof) {
		if (!rpc_auth_rep_is_good(&conn->req, &conn->ev_rep))
			return false;
		if (node_start_of(info->incarn) < node_start_of(peer->info.incarn)) {
			counter_inc(&rpc_c_stale); /* it was stopped, and goes on too late */
			return false;
		}
	} else if (info->role != peer->info.role) {
		counter_inc(&rpc_c_malformed);
		return false;
	} else if (info->incarn != peer->info.incarn) {
		counter_inc(&rpc_c_stale); /* the host's view will tell us, if it is that node */
		return false;
	}
	return geometry_fits(s, info);
}

/* True: the connection stays. */
static bool conn_established(struct rpc_session *s, struct rpc_conn *conn)
{
	struct rpc_peer *peer = s->peer;

	if (conn->incoming) {
		conn_up(conn);
		return true;
	}
	if (!rep_check(s, conn))
		return false;
	if (!peer->info.id) {
		peer->info.id = conn->ev_info.node;
		rpc_peer_restarted(peer, &conn->ev_info, conn);
		if (rpc_peer_publish(peer))
			return false; /* known already by another way */
	} else if (peer->info.incarn != conn->ev_info.incarn) {
		rpc_peer_restarted(peer, &conn->ev_info, conn);
	}
	conn_learn(conn, &conn->ev_info);
	conn_up(conn);
	return true;
}

/* --- the state machine ---------------------------------------------------------------- */

struct notes {
	bool broken, established, connecting;
	uint8_t rej_code;
	uint8_t challenge[RPC_NONCE_LEN];
};

static void conn_notes(struct rpc_session *s, struct rpc_conn *conn, struct notes *n)
{
	spin_lock(&s->lock);
	n->broken = conn->ev_ended || conn->state == RPC_CONN_BROKEN;
	n->established = conn->ev_established;
	n->connecting = conn->state != RPC_CONN_UP;
	n->rej_code = conn->ev_rej_code;
	memcpy(n->challenge, conn->ev_challenge, sizeof(n->challenge));
	if (conn->state == RPC_CONN_UP && conn->ev_ended)
		counter_inc(&rpc_c_breaks);
	spin_unlock(&s->lock);
}

/* The host wants a proof: the next attempt brings it, and the first few need not wait. */
static bool challenge_noted(struct rpc_session *s, const struct notes *n)
{
	assert_mutex_held(&s->conn_lock);
	if (n->rej_code != RPC_REJ_CHALLENGE)
		return false;
	memcpy(s->challenge, n->challenge, sizeof(s->challenge));
	s->has_challenge = true;
	return s->nr_challenges++ < 2;
}

/* Look at what happened to the present connection. */
static void conn_advance(struct rpc_session *s, struct rpc_conn *conn)
{
	struct notes n;

	conn_notes(s, conn, &n);
	if (!n.broken && n.established && n.connecting) {
		if (conn_established(s, conn))
			return;
		n.broken = true;
	}
	if (!n.broken)
		return;
	conn_close(conn);
	/* A crossed attempt is no failure, but the other side's needs a moment. */
	if (n.connecting && !challenge_noted(s, &n))
		attempt_failed(s);
	if (n.rej_code == RPC_REJ_KEY)
		WRITE_ONCE(s->peer->key_refused, true);
	if (n.rej_code == RPC_REJ_STALE)
		rpc_peer_fenced(s->peer);
	else if (n.rej_code == RPC_REJ_GEOMETRY)
		rpc_session_fail_calls(s, -EPROTO); /* another attempt would end alike */
}

void rpc_conn_work(struct work *w)
{
	struct rpc_session *s = container_of(w, struct rpc_session, conn_work);
	struct rpc_incoming *inc;
	struct rpc_conn *conn;
	bool wanted;

	mutex_lock(&s->conn_lock);
	conn = session_conn(s);
	if (conn)
		conn_advance(s, conn);
	wanted = rpc_session_prepare(s) == 0;

	spin_lock(&s->lock);
	inc = s->incoming;
	s->incoming = NULL;
	spin_unlock(&s->lock);
	if (inc)
		incoming_handle(s, inc);

	spin_lock(&s->lock);
	wanted = wanted && !s->conn && (s->nr_busy || s->want_conn) &&
		 time_now_ns() >= READ_ONCE(s->next_attempt_ns) &&
		 READ_ONCE(s->peer->state) == RPC_PEER_ALIVE && !s->peer->fenced_us;
	spin_unlock(&s->lock);
	if (wanted)
		connect_start(s);
	mutex_unlock(&s->conn_lock);
	rpc_session_wake_slots(s);
}

/* --- the rendezvous node -------------------------------------------------------------- */

static struct mutex rendezvous_lock = MUTEX_INIT(rendezvous_lock, "rpc.rendezvous", RANK_NET);

int rpc_peer_add_rendezvous(const struct rdma_addr *addr, uint32_t *node)
{
	const struct node_info info = { .role = NODE_ROLE_STORAGE, .addr = *addr };
	const uint64_t deadline = time_now_ns() + RENDEZVOUS_NS;
	struct rpc_session *s;
	int err = -EHOSTDOWN;

	mutex_lock(&rendezvous_lock);
	if (!rendezvous)
		__atomic_store_n(&rendezvous, rpc_peer_alloc(&info), __ATOMIC_RELEASE);
	if (!rendezvous) {
		mutex_unlock(&rendezvous_lock);
		return -ENOMEM;
	}
	s = &rendezvous->sessions[RPC_CLASS_CONTROL];
	spin_lock(&s->lock);
	s->want_conn = true;
	spin_unlock(&s->lock);
	__atomic_add_fetch(&s->nr_slot_waiters, 1, __ATOMIC_SEQ_CST);
	while (time_now_ns() < deadline) {
		const uint64_t step = time_after_ns(20 * NSEC_PER_MSEC);

		rpc_session_kick(s);
		/* Woken by every step of conn_work; the timeout paces repeated attempts. */
		if (wait_event_timeout(&s->slot_wq, READ_ONCE(rendezvous->info.id) != 0, step)) {
			*node = rendezvous->info.id;
			err = rpc_peer_find(*node) ? 0 : -EAGAIN;
			break;
		}
		if (READ_ONCE(rendezvous->key_refused)) {
			err = -EACCES;
			break;
		}
		if (READ_ONCE(rendezvous->fenced_us)) {
			err = -ESTALE;
			break;
		}
	}
	__atomic_sub_fetch(&s->nr_slot_waiters, 1, __ATOMIC_SEQ_CST);
	mutex_unlock(&rendezvous_lock);
	return err;
}
