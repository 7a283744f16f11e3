/* SPDX-License-Identifier: MIT */
/*
 * Connection manager: the state machine.
 *
 *	active			passive
 *	REQ_SENT   --REQ-->	REQ_RCVD   (event REQUEST)
 *	ESTABLISHED<--REP--	REP_SENT   (cm_accept; queue pair in RTS)
 *	           --RTU-->	ESTABLISHED
 *	DREQ_SENT  --DREQ->	TIMEWAIT   (event DISCONNECTED)
 *	TIMEWAIT   <-DREP--
 *
 * Flow:	REQ, REP and DREQ are retransmitted, at doubling intervals, until answered.  A
 *		duplicate REQ is answered by MRA (still thinking) or the same REP, a duplicate
 *		REP by the same RTU, any DREQ by DREP, whether we remember the connection or
 *		not.
 * Failure:	a REQ from a queue pair to which we think we are connected means that the peer
 *		has started anew: the old connection ends, and the REQ is rejected so that the
 *		peer retransmits it.  A message that belongs to no connection is dropped, or
 *		answered by REJ where the peer would otherwise wait.
 */
#include <kernel/counter.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>

#include "cm_priv.h"

#define PR_FMT "cm: "
#include <kernel/printk.h>

COUNTER(cnt_bad, "cm.malformed", "connection messages that cannot be decoded");
COUNTER(cnt_stray, "cm.stray", "connection messages that belong to no connection");
COUNTER(cnt_dup, "cm.duplicates", "connection messages that had been seen before");
COUNTER(cnt_resent, "cm.resent", "connection messages sent again");
COUNTER(cnt_stale, "cm.stale", "connections ended because the peer started anew");
COUNTER(cnt_up, "cm.established", "connections established");
COUNTER(cnt_unreachable, "cm.unreachable", "connection attempts without an answer");

/* Short at first: nodes that boot together miss each other by some ten milliseconds. */
#define FIRST_INTERVAL_NS (25 * NSEC_PER_MSEC)
#define MAX_INTERVAL_NS   (2 * NSEC_PER_SEC)
#define MAX_TRIES         11U /* 11.2 s in all */
#define DREQ_TRIES        6U
#define TIMEWAIT_NS       (2 * NSEC_PER_SEC)
#define MRA_TIMEOUT       19 /* 4.096 us * 2^19 = 2.1 s */
#define MRA_MAX_NS        (30 * NSEC_PER_SEC)
#define MIN_RNR_TIMER     12 /* 0.64 ms */
#define MSG_REQ           0
#define MSG_REP           1
#define MSG_OTHER         2

/* --- sending ------------------------------------------------------------------------- */

static void cm_reply(struct cm_port *port, const struct rdma_addr *to, const struct cm_msg *msg)
{
	uint8_t mad[MAD_LEN] __aligned(8);

	cm_msg_encode(msg, mad);
	/* Lost here or on the wire: the peer asks again. */
	if (mad_send(port->agent, to, mad))
		pr_debug("message %#x not sent\n", msg->attr);
}

static void resend(struct cm_conn *conn)
{
	if (mad_send(conn->port->agent, &conn->addr, conn->mad))
		pr_debug("message not sent, will be tried again\n");
}

void cm_send_repeat_locked(struct cm_conn *conn, const struct cm_msg *msg)
{
	assert_mutex_held(&conn->port->lock);
	cm_msg_encode(msg, conn->mad);
	conn->tries = 1;
	conn->interval_ns = FIRST_INTERVAL_NS;
	resend(conn);
	cm_timer_set_locked(conn, time_now_ns() + conn->interval_ns);
}

static void send_short(struct cm_conn *conn, uint16_t attr)
{
	const struct cm_msg msg = {
		.attr = attr,
		.tid = conn->tid,
		.local_id = conn->local_id,
		.remote_id = conn->remote_id,
	};

	cm_reply(conn->port, &conn->addr, &msg);
}

static void send_mra(struct cm_conn *conn)
{
	const struct cm_msg msg = {
		.attr = CM_MRA,
		.tid = conn->tid,
		.local_id = conn->local_id,
		.remote_id = conn->remote_id,
		.mra = { .msg = MSG_REQ, .timeout = MRA_TIMEOUT },
	};

	cm_reply(conn->port, &conn->addr, &msg);
}

void cm_send_rej_locked(struct cm_conn *conn, uint16_t reason, const void *data, size_t len)
{
	struct cm_msg msg = {
		.attr = CM_REJ,
		.tid = conn->tid,
		.local_id = conn->local_id,
		.remote_id = conn->remote_id,
		.rej = { .reason = reason, .msg = MSG_OTHER },
		.private_len = (uint8_t)len,
	};

	assert_mutex_held(&conn->port->lock);
	if (conn->state == CM_REQ_RCVD)
		msg.rej.msg = MSG_REQ;
	else if (conn->active && conn->state != CM_REQ_SENT)
		msg.rej.msg = MSG_REP;
	if (len)
		memcpy(msg.private_data, data, len);
	cm_reply(conn->port, &conn->addr, &msg);
}

/* Refuse @m, to which no connection of ours belongs. */
static void rej_stranger(struct cm_port *port, const struct rdma_addr *to, const struct cm_msg *m,
			 uint8_t msg_kind, uint16_t reason)
{
	const struct cm_msg msg = {
		.attr = CM_REJ,
		.tid = m->tid,
		.local_id = m->remote_id,
		.remote_id = m->local_id,
		.rej = { .msg = msg_kind, .reason = reason },
	};

	cm_reply(port, to, &msg);
}

void cm_send_dreq_locked(struct cm_conn *conn)
{
	const struct cm_msg msg = {
		.attr = CM_DREQ,
		.tid = conn->tid,
		.local_id = conn->local_id,
		.remote_id = conn->remote_id,
		.dreq_qpn = conn->remote_qpn,
	};

	assert_mutex_held(&conn->port->lock);
	cm_set_state_locked(conn, CM_DREQ_SENT);
	cm_send_repeat_locked(conn, &msg);
}

static void send_drep_stranger(struct cm_port *port, const struct rdma_addr *to,
			       const struct cm_msg *m)
{
	const struct cm_msg msg = {
		.attr = CM_DREP,
		.tid = m->tid,
		.local_id = m->remote_id,
		.remote_id = m->local_id,
	};

	cm_reply(port, to, &msg);
}

/* --- states -------------------------------------------------------------------------- */

void cm_timewait_locked(struct cm_conn *conn)
{
	assert_mutex_held(&conn->port->lock);
	cm_set_state_locked(conn, CM_TIMEWAIT);
	cm_timer_set_locked(conn, time_now_ns() + TIMEWAIT_NS);
}

int cm_qp_connect(struct cm_conn *conn)
{
	const struct cm_req *req = &conn->req;
	const struct rdma_qp_conn qc = {
		.addr = conn->addr,
		.remote_qpn = conn->remote_qpn,
		/* The receiver of a message begins to send at that message's Starting PSN. */
		.rq_psn = conn->psn,
		.sq_psn = req->psn,
		.path_mtu = (enum rdma_mtu)conn->path_mtu,
		.ack_timeout = MAX(conn->ack_timeout, conn->active ? (uint8_t)0 : req->ack_timeout),
		.retry_cnt = conn->retry_cnt,
		.rnr_retry = conn->rnr_retry,
		.min_rnr_timer = MIN_RNR_TIMER,
		.max_rd_atomic = MIN(conn->max_rd_atomic, req->responder_resources),
		.max_dest_rd_atomic = MIN(conn->max_rd_atomic, req->initiator_depth),
		.access = conn->access,
	};
	int err;

	err = rdma_qp_to_rtr(conn->qp, &qc);
	if (err)
		return err;
	return rdma_qp_to_rts(conn->qp, &qc);
}

static void event_simple(struct cm_conn *conn, enum cm_event_type type)
{
	const struct cm_event ev = { .type = type, .from = conn->addr };

	assert_mutex_held(&conn->port->lock);
	cm_event_locked(conn, &ev);
}

/* The connection is over: remember it for a while, and tell. */
static void conn_lost(struct cm_conn *conn)
{
	assert_mutex_held(&conn->port->lock);
	cm_timewait_locked(conn);
	event_simple(conn, CM_EVENT_DISCONNECTED);
}

/* A message that was to be answered has been sent often enough. */
static void give_up(struct cm_conn *conn)
{
	assert_mutex_held(&conn->port->lock);
	switch (conn->state) {
	case CM_REQ_SENT:
	case CM_REP_SENT:
		counter_inc(&cnt_unreachable);
		cm_send_rej_locked(conn, CM_REJ_TIMEOUT, NULL, 0);
		cm_set_state_locked(conn, CM_IDLE);
		event_simple(conn, CM_EVENT_UNREACHABLE);
		break;
	case CM_DREQ_SENT:
		cm_timewait_locked(conn);
		if (conn->user)
			event_simple(conn, CM_EVENT_DISCONNECTED);
		break;
	default:
		break;
	}
}

void cm_expired_locked(struct cm_conn *conn)
{
	const uint32_t max = conn->state == CM_DREQ_SENT ? DREQ_TRIES : MAX_TRIES;

	assert_mutex_held(&conn->port->lock);
	if (conn->state == CM_TIMEWAIT) {
		cm_set_state_locked(conn, CM_IDLE);
		if (!conn->user) {
			conn->port->nr_timewait--;
			cm_conn_free_locked(conn);
		}
		return;
	}
	if (conn->tries >= max) {
		give_up(conn);
		return;
	}
	conn->tries++;
	conn->interval_ns = MIN(conn->interval_ns * 2, MAX_INTERVAL_NS);
	counter_inc(&cnt_resent);
	resend(conn);
	cm_timer_set_locked(conn, time_now_ns() + conn->interval_ns);
}

/* --- REQ ----------------------------------------------------------------------------- */

/* True when @conn is what this very REQ has made already. */
static bool req_is_dup(const struct cm_conn *conn, const struct cm_msg *m)
{
	return !conn->active && conn->req.qpn == m->req.qpn && conn->req.psn == m->req.psn &&
	       conn->req.ca_guid == m->req.ca_guid && conn->req.service_id == m->req.service_id;
}

static void req_dup(struct cm_conn *conn)
{
	counter_inc(&cnt_dup);
	if (conn->state == CM_REQ_RCVD)
		send_mra(conn);
	else if (conn->state == CM_REP_SENT)
		resend(conn);
}

/* The reason to refuse @req, or 0. */
static uint16_t req_fault(struct cm_port *port, const struct cm_req *req)
{
	struct rdma_port_attr attr;

	if (req->transport != 0)
		return CM_REJ_INVALID_TRANSPORT;
	if (rdma_port_attr(port->dev, port->num, &attr))
		return CM_REJ_NO_RESOURCES;
	if (req->path_mtu < RDMA_MTU_256 || req->path_mtu > (unsigned int)attr.active_mtu)
		return CM_REJ_INVALID_MTU;
	return 0;
}

static struct cm_listener *listener_find(struct cm_port *port, uint64_t service_id)
{
	struct cm_listener *l;

	assert_mutex_held(&port->lock);
	list_for_each_entry(l, &port->listeners, node) {
		if (l->service_id == service_id)
			return l;
	}
	return NULL;
}

/* Tell the listener. The lock is dropped meanwhile. */
static void req_new(struct cm_port *port, struct cm_listener *l, const struct rdma_addr *from,
		    const struct cm_msg *m) __must_hold(&port->lock)
{
	struct cm_event ev = { .type = CM_EVENT_REQUEST, .from = *from };
	struct cm_conn *conn;

	mutex_unlock(&port->lock);
	conn = cm_conn_alloc(port, from);
	mutex_lock(&port->lock);
	if (IS_ERR(conn)) {
		rej_stranger(port, from, m, MSG_REQ, CM_REJ_NO_RESOURCES);
		return;
	}
	assert_mutex_held(&conn->port->lock);
	conn->fn = l->fn;
	conn->arg = l->arg;
	cm_set_state_locked(conn, CM_REQ_RCVD);
	conn->tid = m->tid;
	conn->req = m->req;
	conn->remote_qpn = m->req.qpn;
	conn->path_mtu = m->req.path_mtu;
	cm_conn_set_remote_locked(conn, m->local_id);
	ev.private_data = m->private_data;
	ev.private_len = m->private_len;
	cm_event_locked(conn, &ev);
}

/* Did the sender name its own port?  On InfiniBand by LID, where there are none by GID. */
static bool req_is_from(const struct cm_msg *m, const struct rdma_addr *from)
{
	if (!from->dlid)
		return memcmp(&from->dgid, &m->req.local_gid, sizeof(from->dgid)) == 0;
	return !m->req.local_lid || from->dlid == m->req.local_lid;
}

static void handle_req(struct cm_port *port, const struct rdma_addr *from, const struct cm_msg *m)
	__must_hold(&port->lock)
{
	struct cm_conn *old = cm_find_remote_locked(port, m->local_id, from);
	struct cm_listener *l;
	uint16_t fault;

	assert_mutex_held(&port->lock);
	if (!req_is_from(m, from)) {
		counter_inc(&cnt_bad);
		return;
	}
	if (old && req_is_dup(old, m)) {
		req_dup(old);
		return;
	}
	if (!old || old->active ||
	    (old->state != CM_REQ_RCVD && old->state != CM_REP_SENT &&
	     old->state != CM_ESTABLISHED))
		old = cm_find_qpn_locked(port, m->req.qpn, from);
	if (old) {
		counter_inc(&cnt_stale);
		rej_stranger(port, from, m, MSG_REQ, CM_REJ_STALE_CONN);
		conn_lost(old);
		return;
	}
	fault = req_fault(port, &m->req);
	if (fault) {
		rej_stranger(port, from, m, MSG_REQ, fault);
		return;
	}
	l = listener_find(port, m->req.service_id);
	if (!l) {
		rej_stranger(port, from, m, MSG_REQ, CM_REJ_INVALID_SERVICE_ID);
		return;
	}
	req_new(port, l, from, m);
}

/* --- the others ---------------------------------------------------------------------- */

static void rep_accept(struct cm_conn *conn, const struct cm_msg *m)
{
	struct cm_event ev = { .type = CM_EVENT_ESTABLISHED, .from = conn->addr };

	assert_mutex_held(&conn->port->lock);
	cm_timer_clear_locked(conn);
	cm_conn_set_remote_locked(conn, m->local_id);
	conn->remote_qpn = m->rep.qpn;
	conn->req.psn = m->rep.psn;
	conn->req.responder_resources = m->rep.responder_resources;
	conn->req.initiator_depth = m->rep.initiator_depth;
	if (cm_qp_connect(conn)) {
		cm_set_state_locked(conn, CM_IDLE);
		cm_send_rej_locked(conn, CM_REJ_NO_RESOURCES, NULL, 0);
		ev.type = CM_EVENT_REJECTED;
		ev.rej_reason = CM_REJ_NO_RESOURCES;
		cm_event_locked(conn, &ev);
		return;
	}
	cm_set_state_locked(conn, CM_ESTABLISHED);
	counter_inc(&cnt_up);
	send_short(conn, CM_RTU);
	ev.private_data = m->private_data;
	ev.private_len = m->private_len;
	cm_event_locked(conn, &ev);
}

static void handle_rep(struct cm_port *port, const struct rdma_addr *from, const struct cm_msg *m)
	__must_hold(&port->lock)
{
	struct cm_conn *conn = cm_find_local_locked(port, m->remote_id, from);

	if (conn && conn->active && conn->state == CM_REQ_SENT) {
		rep_accept(conn, m);
	} else if (conn && conn->active && conn->state == CM_ESTABLISHED &&
		   conn->remote_id == m->local_id) {
		counter_inc(&cnt_dup);
		send_short(conn, CM_RTU);
	} else if (!conn || conn->state == CM_IDLE) {
		/* Else the peer would wait for an RTU that never comes. */
		counter_inc(&cnt_stray);
		rej_stranger(port, from, m, MSG_REP, CM_REJ_INVALID_COMM_ID);
	} else {
		counter_inc(&cnt_stray);
	}
}

static struct cm_conn *conn_of(struct cm_port *port, const struct rdma_addr *from,
			       const struct cm_msg *m) __must_hold(&port->lock)
{
	struct cm_conn *conn = cm_find_local_locked(port, m->remote_id, from);

	return conn && conn->remote_id == m->local_id ? conn : NULL;
}

static void handle_rtu(struct cm_port *port, const struct rdma_addr *from, const struct cm_msg *m)
	__must_hold(&port->lock)
{
	struct cm_conn *conn = conn_of(port, from, m);

	if (!conn || conn->active || conn->state != CM_REP_SENT) {
		counter_inc(conn ? &cnt_dup : &cnt_stray);
		return;
	}
	assert_mutex_held(&conn->port->lock);
	cm_timer_clear_locked(conn);
	cm_set_state_locked(conn, CM_ESTABLISHED);
	counter_inc(&cnt_up);
	event_simple(conn, CM_EVENT_ESTABLISHED);
}

static void handle_mra(struct cm_port *port, const struct rdma_addr *from, const struct cm_msg *m)
	__must_hold(&port->lock)
{
	struct cm_conn *conn = cm_find_local_locked(port, m->remote_id, from);
	const uint64_t more_ns = MIN(4096ULL << m->mra.timeout, MRA_MAX_NS);

	if (!conn || conn->state != (m->mra.msg == MSG_REQ ? CM_REQ_SENT : CM_REP_SENT)) {
		counter_inc(&cnt_stray);
		return;
	}
	assert_mutex_held(&conn->port->lock);
	cm_timer_set_locked(conn, time_now_ns() + more_ns);
}

static void handle_rej(struct cm_port *port, const struct rdma_addr *from, const struct cm_msg *m)
	__must_hold(&port->lock)
{
	struct cm_conn *conn = cm_find_local_locked(port, m->remote_id, from);
	struct cm_event ev = {
		.type = CM_EVENT_REJECTED,
		.rej_reason = m->rej.reason,
		.private_data = m->private_data,
		.private_len = m->private_len,
		.from = *from,
	};

	/* A peer that gives up before we know each other names only itself. */
	if (!conn && m->local_id)
		conn = cm_find_remote_locked(port, m->local_id, from);
	if (!conn) {
		counter_inc(&cnt_stray);
		return;
	}
	assert_mutex_held(&conn->port->lock);
	switch (conn->state) {
	case CM_REQ_SENT:
	case CM_REQ_RCVD:
	case CM_REP_SENT:
		cm_timewait_locked(conn);
		cm_event_locked(conn, &ev);
		break;
	case CM_ESTABLISHED:
		conn_lost(conn);
		break;
	default:
		counter_inc(&cnt_stray);
		break;
	}
}

static void handle_dreq(struct cm_port *port, const struct rdma_addr *from, const struct cm_msg *m)
	__must_hold(&port->lock)
{
	struct cm_conn *conn = conn_of(port, from, m);

	send_drep_stranger(port, from, m);
	if (!conn || conn->qpn != m->dreq_qpn) {
		counter_inc(&cnt_stray);
		return;
	}
	assert_mutex_held(&conn->port->lock);
	if (conn->state == CM_ESTABLISHED || conn->state == CM_REP_SENT ||
	    (conn->state == CM_DREQ_SENT && conn->user)) {
		conn_lost(conn);
	} else if (conn->state == CM_DREQ_SENT) {
		cm_timewait_locked(conn);
	} else {
		counter_inc(&cnt_dup);
	}
}

static void handle_drep(struct cm_port *port, const struct rdma_addr *from, const struct cm_msg *m)
	__must_hold(&port->lock)
{
	struct cm_conn *conn = conn_of(port, from, m);

	if (!conn || conn->state != CM_DREQ_SENT) {
		counter_inc(conn ? &cnt_dup : &cnt_stray);
		return;
	}
	assert_mutex_held(&conn->port->lock);
	if (conn->user)
		conn_lost(conn);
	else
		cm_timewait_locked(conn);
}

static void (*const handlers[])(struct cm_port *port, const struct rdma_addr *from,
				const struct cm_msg *m) = {
	[CM_REQ - CM_REQ] = handle_req,   [CM_MRA - CM_REQ] = handle_mra,
	[CM_REJ - CM_REQ] = handle_rej,   [CM_REP - CM_REQ] = handle_rep,
	[CM_RTU - CM_REQ] = handle_rtu,   [CM_DREQ - CM_REQ] = handle_dreq,
	[CM_DREP - CM_REQ] = handle_drep,
};

void cm_handle(struct cm_port *port, const struct cm_item *item)
{
	struct cm_msg m;

	if (cm_msg_decode(item->mad, &m)) {
		counter_inc(&cnt_bad);
		return;
	}
	mutex_lock(&port->lock);
	handlers[m.attr - CM_REQ](port, &item->from, &m);
	mutex_unlock(&port->lock);
}
