/* SPDX-License-Identifier: MIT */
/*
 * Connection manager: connect RC queue pairs by REQ, REP, RTU, REJ, MRA, DREQ, DREP on QP1.
 *
 * Flow:	active side: cm_connect() -> REQ ... REP -> event ESTABLISHED (RTU sent, QP in RTS);
 *		passive side: cm_listen() -> event REQUEST -> cm_accept() or cm_reject() ->
 *		ESTABLISHED when the RTU (or the first data) came.
 * Context:	all functions may sleep; event functions run in a CM thread and may call back into
 *		cm_*() for their own connection, except that cm_conn_destroy() of a connection
 *		from its own event function is done by returning non-zero from it.
 * Failure:	each message is retried with back-off; after the limit the event is UNREACHABLE.
 *		A malformed or unexpected message is counted and dropped, or answered with REJ.
 * Limits:	private data as the specification gives it (below).
 * See:		InfiniBand Architecture Specification volume 1, chapter 12.
 */
#pragma once

#include <lib/compiler.h>
#include <rdma/verbs.h>

#define CM_REQ_PRIVATE_LEN 92
#define CM_REP_PRIVATE_LEN 196
#define CM_REJ_PRIVATE_LEN 148

enum cm_rej_reason {
	CM_REJ_NO_RESOURCES = 3,
	CM_REJ_TIMEOUT = 4,
	CM_REJ_INVALID_SERVICE_ID = 8,
	CM_REJ_STALE_CONN = 10,
	CM_REJ_CONSUMER = 28,
};

enum cm_event_type {
	CM_EVENT_REQUEST,      /* passive: a REQ came; private data is its */
	CM_EVENT_ESTABLISHED,  /* both: the QP is in RTS; active: private data is the REP's */
	CM_EVENT_REJECTED,     /* reason and private data of the REJ */
	CM_EVENT_UNREACHABLE,  /* no answer within the retries */
	CM_EVENT_DISCONNECTED, /* a DREQ came, or ours was answered */
};

struct cm_conn;

struct cm_event {
	enum cm_event_type type;
	uint16_t rej_reason;
	const void *private_data; /* hostile; valid during the call */
	size_t private_len;
	struct rdma_addr from; /* REQUEST */
};

/* Non-zero: destroy @conn after this event (never of a REQUEST that was accepted). */
typedef int (*cm_event_fn)(struct cm_conn *conn, const struct cm_event *ev, void *arg);

struct cm_listener;

/*
 * Hand REQs for @service_id that come in on @port to @fn; each is a new conn whose arg is @arg
 * until cm_conn_set_arg().
 */
struct cm_listener *cm_listen(struct rdma_device *dev, uint8_t port, uint64_t service_id,
			      cm_event_fn fn, void *arg);

struct cm_params {
	struct rdma_qp *qp; /* in INIT, receives posted; the CM brings it to RTS */
	uint32_t access;    /* what the peer may do through @qp: enum rdma_access */
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t ack_timeout; /* 4.096 us * 2^n */
	uint8_t max_rd_atomic;
	const void *private_data;
	size_t private_len;
};

/* ERR_PTR(-EINVAL) for over-long private data; the outcome comes as an event. */
struct cm_conn *cm_connect(struct rdma_device *dev, uint8_t port, const struct rdma_addr *to,
			   uint64_t service_id, const struct cm_params *params, cm_event_fn fn,
			   void *arg);
int cm_accept(struct cm_conn *conn, const struct cm_params *params) __must_check;
int cm_reject(struct cm_conn *conn, uint16_t reason, const void *private_data, size_t len);
/* Send DREQ; DISCONNECTED follows. The queue pair stays the caller's to destroy. */
void cm_disconnect(struct cm_conn *conn);
void cm_conn_set_arg(struct cm_conn *conn, cm_event_fn fn, void *arg);
void cm_conn_destroy(struct cm_conn *conn); /* no event runs once it has returned */
