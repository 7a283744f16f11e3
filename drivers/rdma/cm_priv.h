/* SPDX-License-Identifier: MIT */
/*
 * Connection manager internals: what cm.c (calls), cm_proto.c (messages) and cm_port.c (thread,
 * tables, timers) share.
 *
 * Locking:	cm_port.lock (RANK_CM) guards the port's connections and listeners, and every
 *		field of a connection that is not marked const.  It is never held while an event
 *		function runs: conn->in_event keeps the connection meanwhile.
 */
#pragma once

#include <kernel/mutex.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/list.h>
#include <lib/types.h>
#include <rdma/cm.h>
#include <rdma/mad.h>

#include "cm_msg.h"

enum cm_state {
	CM_IDLE,        /* over; only the user knows it */
	CM_REQ_SENT,    /* active: waiting for REP */
	CM_REQ_RCVD,    /* passive: the user has not answered */
	CM_REP_SENT,    /* passive: waiting for RTU */
	CM_ESTABLISHED, /* */
	CM_DREQ_SENT,   /* waiting for DREP */
	CM_TIMEWAIT,    /* over; stragglers are recognised */
};

struct cm_conn {
	struct cm_port *port;        /* const */
	struct hlist_node by_local;  /* port->by_local */
	struct hlist_node by_remote; /* port->by_remote, once remote_id is known */
	struct list_head timer_node; /* port->timers while deadline_ns is set */
	enum cm_state state;
	bool active; /* const: we sent the REQ */
	bool user;   /* the user has not destroyed it */
	bool in_event;
	bool release_after; /* destroyed by its own event function */
	uint32_t local_id;  /* const */
	uint32_t remote_id;
	uint64_t tid;
	struct rdma_addr addr; /* const: the peer */
	uint32_t remote_qpn;
	uint32_t psn; /* the first that we expect */
	cm_event_fn fn;
	void *arg;
	struct rdma_qp *qp; /* NULL until known */
	uint32_t qpn;
	uint32_t access;
	uint8_t retry_cnt, rnr_retry, ack_timeout, max_rd_atomic;
	uint8_t path_mtu;
	struct cm_req req; /* passive: what the peer asked; active: what we asked */

	/* The message under way, and when it is due again. */
	uint64_t deadline_ns; /* 0 = none */
	uint64_t interval_ns;
	uint32_t tries;
	uint8_t mad[MAD_LEN] __aligned(8);
};

struct cm_listener {
	struct cm_port *port;
	struct list_head node; /* port->listeners */
	uint64_t service_id;
	cm_event_fn fn;
	void *arg;
};

struct cm_hash {
	struct hlist_head *heads;
	size_t nr; /* a power of two */
};

struct cm_item { /* one MAD between the MAD thread and ours */
	struct list_head node;
	struct rdma_addr from;
	uint8_t mad[MAD_LEN] __aligned(8);
};

struct cm_port {
	struct list_head node; /* ports, for good */
	struct rdma_device *dev;
	uint8_t num;
	struct mad_agent *agent;
	struct thread *thread;

	struct mutex lock; /* RANK_CM */
	struct cm_hash by_local, by_remote;
	size_t nr_conns;
	size_t nr_timewait;
	uint32_t next_id;
	struct list_head timers;
	struct list_head listeners;

	struct spinlock items_lock; /* RANK_SPIN_NET */
	struct list_head items __guarded_by(&items_lock);
	unsigned int nr_items __guarded_by(&items_lock);
	struct waitqueue wq;
	atomic_t kick;
};

/* cm_port.c */
struct cm_port *cm_port_get(struct rdma_device *dev, uint8_t num);
struct cm_conn *cm_conn_alloc(struct cm_port *port, const struct rdma_addr *addr);
void cm_conn_free_locked(struct cm_conn *conn) __must_hold(&conn->port->lock);
void cm_conn_set_remote_locked(struct cm_conn *conn, uint32_t remote_id)
	__must_hold(&conn->port->lock);
struct cm_conn *cm_find_local_locked(struct cm_port *port, uint32_t local_id,
				     const struct rdma_addr *from) __must_hold(&port->lock);
struct cm_conn *cm_find_remote_locked(struct cm_port *port, uint32_t remote_id,
				      const struct rdma_addr *from) __must_hold(&port->lock);
/* An established connection to queue pair @qpn of @from. */
struct cm_conn *cm_find_qpn_locked(struct cm_port *port, uint32_t qpn, const struct rdma_addr *from)
	__must_hold(&port->lock);
void cm_timer_set_locked(struct cm_conn *conn, uint64_t deadline_ns) __must_hold(&conn->port->lock);
void cm_timer_clear_locked(struct cm_conn *conn) __must_hold(&conn->port->lock);
/* Tell the user; drops the lock meanwhile. The connection may be gone on return. */
void cm_event_locked(struct cm_conn *conn, const struct cm_event *ev)
	__must_hold(&conn->port->lock);
/* The user lets go; @conn is freed, now or when its time has come. */
void cm_conn_release_locked(struct cm_conn *conn) __must_hold(&conn->port->lock);

void cm_set_state_locked(struct cm_conn *conn, enum cm_state to) __must_hold(&conn->port->lock);

/* cm_proto.c */
void cm_handle(struct cm_port *port, const struct cm_item *item);
void cm_expired_locked(struct cm_conn *conn) __must_hold(&conn->port->lock);
/* Send @msg now and again until answered. */
void cm_send_repeat_locked(struct cm_conn *conn, const struct cm_msg *msg)
	__must_hold(&conn->port->lock);
void cm_send_rej_locked(struct cm_conn *conn, uint16_t reason, const void *data, size_t len)
	__must_hold(&conn->port->lock);
void cm_send_dreq_locked(struct cm_conn *conn) __must_hold(&conn->port->lock);
void cm_timewait_locked(struct cm_conn *conn) __must_hold(&conn->port->lock);
/* Bring the queue pair up to RTS. */
int cm_qp_connect(struct cm_conn *conn) __must_check;
