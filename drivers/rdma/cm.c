/* SPDX-License-Identifier: MIT */
/*
 * Connection manager: the calls of <rdma/cm.h>.
 *
 * Context:	user threads, and event functions in the CM thread.
 * See:		cm_proto.c for the state machine.
 */
#include <rdma/cm.h>

#include <kernel/random.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <rdma/verbs.h>

#include "cm_priv.h"

/* The active side's proposal of how long an answer may take: 4.096 us * 2^16 = 0.27 s. */
#define CM_RESPONSE_TIMEOUT 16
#define NAP_NS              100000U

static void params_take(struct cm_conn *conn, const struct cm_params *p)
{
	conn->qp = p->qp;
	conn->qpn = rdma_qp_num(p->qp);
	conn->access = p->access;
	conn->retry_cnt = p->retry_cnt & 7;
	conn->rnr_retry = p->rnr_retry & 7;
	conn->ack_timeout = p->ack_timeout & 31;
	conn->max_rd_atomic = p->max_rd_atomic;
	conn->psn = (uint32_t)random_u64() & 0xffffff;
}

struct cm_listener *cm_listen(struct rdma_device *dev, uint8_t num, uint64_t service_id,
			      cm_event_fn fn, void *arg)
{
	struct cm_port *port = cm_port_get(dev, num);
	struct cm_listener *l, *other;

	if (IS_ERR(port))
		return ERR_CAST(port);
	l = kzalloc(sizeof(*l));
	if (!l)
		return ERR_PTR(-ENOMEM);
	*l = (struct cm_listener){ .port = port, .service_id = service_id, .fn = fn, .arg = arg };
	mutex_lock(&port->lock);
	list_for_each_entry(other, &port->listeners, node) {
		if (other->service_id == service_id) {
			mutex_unlock(&port->lock);
			kfree(l);
			return ERR_PTR(-EBUSY);
		}
	}
	list_add_tail(&l->node, &port->listeners);
	mutex_unlock(&port->lock);
	return l;
}

static int req_fill(struct cm_conn *conn, uint64_t service_id, const struct cm_params *p)
{
	struct rdma_port_attr attr;
	int err;

	err = rdma_port_attr(conn->port->dev, conn->port->num, &attr);
	if (err)
		return err;
	conn->path_mtu = (uint8_t)attr.active_mtu;
	conn->req = (struct cm_req){
		.service_id = service_id,
		.ca_guid = get_unaligned_be64(attr.gid.raw + 8),
		.qpn = conn->qpn,
		.psn = conn->psn,
		.responder_resources = p->max_rd_atomic,
		.initiator_depth = p->max_rd_atomic,
		.remote_cm_timeout = CM_RESPONSE_TIMEOUT,
		.local_cm_timeout = CM_RESPONSE_TIMEOUT,
		.retry_cnt = conn->retry_cnt,
		.rnr_retry = conn->rnr_retry,
		.max_cm_retries = 15,
		.path_mtu = conn->path_mtu,
		.ack_timeout = conn->ack_timeout,
		.sl = conn->addr.sl,
		.pkey = 0xffff,
		.local_lid = attr.lid,
		.remote_lid = conn->addr.dlid,
		.local_gid = attr.gid,
		.remote_gid = conn->addr.dgid,
	};
	return 0;
}

struct cm_conn *cm_connect(struct rdma_device *dev, uint8_t num, const struct rdma_addr *to,
			   uint64_t service_id, const struct cm_params *p, cm_event_fn fn,
			   void *arg)
{
	struct cm_msg msg = { .attr = CM_REQ };
	struct cm_port *port;
	struct cm_conn *conn;
	int err;

	if (p->private_len > CM_REQ_PRIVATE_LEN || !p->qp)
		return ERR_PTR(-EINVAL);
	port = cm_port_get(dev, num);
	if (IS_ERR(port))
		return ERR_CAST(port);
	conn = cm_conn_alloc(port, to);
	if (IS_ERR(conn))
		return conn;
	mutex_lock(&port->lock);
	assert_mutex_held(&conn->port->lock);
	conn->active = true;
	conn->fn = fn;
	conn->arg = arg;
	params_take(conn, p);
	err = req_fill(conn, service_id, p);
	if (err) {
		cm_conn_free_locked(conn);
		mutex_unlock(&port->lock);
		return ERR_PTR(err);
	}
	conn->tid = random_u64();
	cm_set_state_locked(conn, CM_REQ_SENT);
	msg.tid = conn->tid;
	msg.local_id = conn->local_id;
	msg.req = conn->req;
	msg.private_len = (uint8_t)p->private_len;
	if (p->private_len)
		memcpy(msg.private_data, p->private_data, p->private_len);
	cm_send_repeat_locked(conn, &msg);
	mutex_unlock(&port->lock);
	return conn;
}

int cm_accept(struct cm_conn *conn, const struct cm_params *p)
{
	struct cm_port *port = conn->port;
	struct cm_msg msg = { .attr = CM_REP };
	int err = -EINVAL;

	if (p->private_len > CM_REP_PRIVATE_LEN || !p->qp)
		return -EINVAL;
	mutex_lock(&port->lock);
	assert_mutex_held(&conn->port->lock);
	if (conn->state != CM_REQ_RCVD)
		goto out_unlock;
	params_take(conn, p);
	err = cm_qp_connect(conn);
	if (err)
		goto out_unlock;

	msg.tid = conn->tid;
	msg.local_id = conn->local_id;
	msg.remote_id = conn->remote_id;
	msg.rep = (struct cm_rep){
		.ca_guid = conn->req.ca_guid,
		.qpn = conn->qpn,
		.psn = conn->psn,
		.responder_resources = MIN(p->max_rd_atomic, conn->req.initiator_depth),
		.initiator_depth = MIN(p->max_rd_atomic, conn->req.responder_resources),
		.rnr_retry = conn->rnr_retry,
	};
	msg.private_len = (uint8_t)p->private_len;
	if (p->private_len)
		memcpy(msg.private_data, p->private_data, p->private_len);
	cm_set_state_locked(conn, CM_REP_SENT);
	cm_send_repeat_locked(conn, &msg);
out_unlock:
	mutex_unlock(&port->lock);
	return err;
}

int cm_reject(struct cm_conn *conn, uint16_t reason, const void *private_data, size_t len)
{
	struct cm_port *port = conn->port;
	int err = -EINVAL;

	if (len > CM_REJ_PRIVATE_LEN)
		return -EINVAL;
	mutex_lock(&port->lock);
	assert_mutex_held(&conn->port->lock);
	if (conn->state == CM_REQ_RCVD || conn->state == CM_REP_SENT) {
		cm_send_rej_locked(conn, reason, private_data, len);
		cm_timewait_locked(conn);
		err = 0;
	}
	mutex_unlock(&port->lock);
	return err;
}

void cm_disconnect(struct cm_conn *conn)
{
	struct cm_port *port = conn->port;

	mutex_lock(&port->lock);
	assert_mutex_held(&conn->port->lock);
	if (conn->state == CM_ESTABLISHED || conn->state == CM_REP_SENT) {
		cm_send_dreq_locked(conn);
	} else if (conn->state == CM_REQ_SENT) {
		/* Nothing to disconnect yet: withdraw, and let the thread say so. */
		cm_send_rej_locked(conn, CM_REJ_TIMEOUT, NULL, 0);
		cm_set_state_locked(conn, CM_DREQ_SENT);
		conn->tries = UINT32_MAX;
		cm_timer_set_locked(conn, 1);
	}
	mutex_unlock(&port->lock);
}

void cm_conn_set_arg(struct cm_conn *conn, cm_event_fn fn, void *arg)
{
	mutex_lock(&conn->port->lock);
	conn->fn = fn;
	conn->arg = arg;
	mutex_unlock(&conn->port->lock);
}

static bool conn_in_event(struct cm_conn *conn)
{
	bool in_event;

	mutex_lock(&conn->port->lock);
	in_event = conn->in_event;
	mutex_unlock(&conn->port->lock);
	return in_event;
}

void cm_conn_destroy(struct cm_conn *conn)
{
	struct cm_port *port = conn->port;

	/* No new event from here on; one that runs is finished first. */
	mutex_lock(&port->lock);
	conn->fn = NULL;
	if (conn->in_event && thread_current() == port->thread) {
		conn->release_after = true;
		mutex_unlock(&port->lock);
		return;
	}
	mutex_unlock(&port->lock);
	while (conn_in_event(conn))
		thread_sleep_ns(NAP_NS);
	mutex_lock(&port->lock);
	assert_mutex_held(&conn->port->lock);
	cm_conn_release_locked(conn);
	mutex_unlock(&port->lock);
}
