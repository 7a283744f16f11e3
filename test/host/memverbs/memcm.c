/* SPDX-License-Identifier: MIT */
/*
 * The connection manager's API over the simulated fabric, without MADs: for tests of what is above it.
 *
 * Flow:	the device thread queues messages; one CM thread runs the events, in order.
 * Locking:	cm_lock guards the table and the queue; event_lock is held while an event runs, so
 *		that destroy and set_arg can wait for it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/list.h>
#include <lib/string.h>
#include <rdma/cm.h>

#include "fabric.h"

enum kind {
	CM_UNREACHABLE = 0,
	CM_REQ = 1,
	CM_REP,
	CM_RTU,
	CM_REJ,
	CM_DREQ
};

struct cm_conn {
	struct list_head link;
	struct rdma_device *dev;
	uint32_t id, remote_id; /* ids of both ends; cm_lock */
	uint16_t peer;
	cm_event_fn fn;
	void *arg;
	struct rdma_qp *qp;
	struct cm_params params;
	uint32_t remote_qpn;
	uint64_t service_id; /* active side */
	bool accepted, ended;
	time_t give_up; /* active side: no answer by then, 0 = answered; event_lock */
};

struct cm_listener {
	struct list_head link;
	struct rdma_device *dev;
	uint64_t service_id;
	cm_event_fn fn;
	void *arg;
};

struct msg {
	struct list_head link;
	struct fab_hdr hdr;
	uint8_t data[CM_REP_PRIVATE_LEN];
};

static pthread_mutex_t cm_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t event_lock; /* recursive */
static pthread_cond_t cm_cond = PTHREAD_COND_INITIALIZER;
static LIST_HEAD(conns);
static LIST_HEAD(msgs);
static LIST_HEAD(listeners); /* event_lock */
static uint32_t next_id = 1;

static void *cm_main(void *arg);

static time_t now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec;
}

static void __attribute__((constructor)) cm_init(void)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&event_lock, &attr);
}

static void cm_thread_start(void)
{
	static pthread_t thread;
	static bool started;

	pthread_mutex_lock(&cm_lock);
	if (!started && pthread_create(&thread, NULL, cm_main, NULL) == 0)
		started = true;
	pthread_mutex_unlock(&cm_lock);
}

static void msg_send(const struct cm_conn *c, enum kind kind, const void *data, size_t len,
		     uint32_t reason)
{
	struct fab_hdr h = { .type = FAB_CM,
			     .dst = c->peer,
			     .len = (uint32_t)len,
			     .seq = kind,
			     .src_qpn = c->id,
			     .dst_qpn = c->remote_id,
			     .rkey = c->qp ? rdma_qp_num(c->qp) : 0,
			     .raddr = c->service_id,
			     .imm = reason };

	memverbs_frame_send(&h, data);
}

void memcm_arrived(const struct fab_hdr *hdr, const void *data)
{
	struct msg *m = calloc(1, sizeof(*m));

	if (!m || hdr->len > sizeof(m->data))
		abort();
	m->hdr = *hdr;
	memcpy(m->data, data, hdr->len);
	pthread_mutex_lock(&cm_lock);
	list_add_tail(&m->link, &msgs);
	pthread_cond_signal(&cm_cond);
	pthread_mutex_unlock(&cm_lock);
}

static struct cm_conn *conn_find(uint32_t id, uint16_t peer)
{
	struct cm_conn *c;

	list_for_each_entry(c, &conns, link) {
		if (c->id == id && c->peer == peer)
			return c;
	}
	return NULL;
}

static struct cm_conn *conn_new(struct rdma_device *dev, uint16_t peer, cm_event_fn fn, void *arg)
{
	struct cm_conn *c = calloc(1, sizeof(*c));

	c->dev = dev;
	c->peer = peer;
	c->fn = fn;
	c->arg = arg;
	pthread_mutex_lock(&cm_lock);
	c->id = next_id++;
	list_add_tail(&c->link, &conns);
	pthread_mutex_unlock(&cm_lock);
	return c;
}

static int qp_connect(struct cm_conn *c, bool rtr, bool rts)
{
	const struct rdma_qp_conn qc = { .addr = { .dlid = c->peer },
					 .remote_qpn = c->remote_qpn,
					 .path_mtu = RDMA_MTU_4096,
					 .ack_timeout = c->params.ack_timeout,
					 .retry_cnt = 7,
					 .rnr_retry = 7,
					 .access = c->params.access };
	int err = rtr ? rdma_qp_to_rtr(c->qp, &qc) : 0;

	return err ? err : rts ? rdma_qp_to_rts(c->qp, &qc) : 0;
}

/* event_lock is held: the connection stays unless its function says otherwise. */
static void event_run(struct cm_conn *c, enum cm_event_type type, const struct msg *m)
{
	const struct cm_event ev = { .type = type,
				     .rej_reason = m ? (uint16_t)m->hdr.imm : 0,
				     .private_data = m ? m->data : NULL,
				     .private_len = m ? m->hdr.len : 0,
				     .from = { .dlid = c->peer } };

	c->give_up = 0;
	if (type != CM_EVENT_REQUEST && type != CM_EVENT_ESTABLISHED)
		c->ended = true;
	if (c->fn(c, &ev, c->arg))
		cm_conn_destroy(c);
}

static struct cm_listener *listener_find(uint64_t service_id)
{
	struct cm_listener *l;

	list_for_each_entry(l, &listeners, link) {
		if (l->service_id == service_id)
			return l;
	}
	return NULL;
}

static void msg_run(const struct msg *m)
{
	const struct fab_hdr *h = &m->hdr;
	struct cm_listener *l;
	struct cm_conn *c;

	if (h->seq == CM_REQ) {
		l = listener_find(h->raddr);
		if (!l) {
			const struct cm_conn none = { .peer = h->src, .remote_id = h->src_qpn };

			msg_send(&none, CM_REJ, NULL, 0, CM_REJ_INVALID_SERVICE_ID);
			return;
		}
		c = conn_new(l->dev, h->src, l->fn, l->arg);
		c->remote_id = h->src_qpn;
		c->remote_qpn = h->rkey;
		event_run(c, CM_EVENT_REQUEST, m);
		return;
	}
	pthread_mutex_lock(&cm_lock);
	c = conn_find(h->dst_qpn, h->src);
	pthread_mutex_unlock(&cm_lock);
	if (!c || c->ended)
		return;
	switch ((enum kind)h->seq) {
	case CM_REP:
		c->remote_id = h->src_qpn;
		c->remote_qpn = h->rkey;
		if (qp_connect(c, true, true)) {
			event_run(c, CM_EVENT_UNREACHABLE, NULL);
			return;
		}
		msg_send(c, CM_RTU, NULL, 0, 0);
		event_run(c, CM_EVENT_ESTABLISHED, m);
		return;
	case CM_RTU:
		if (c->accepted && qp_connect(c, false, true) == 0)
			event_run(c, CM_EVENT_ESTABLISHED, m);
		return;
	case CM_REJ:
		event_run(c, CM_EVENT_REJECTED, m);
		return;
	case CM_DREQ:
		event_run(c, CM_EVENT_DISCONNECTED, NULL);
		return;
	case CM_UNREACHABLE:
		event_run(c, CM_EVENT_UNREACHABLE, NULL);
		return;
	case CM_REQ:
		break;
	}
}

/* Attempts that nobody answered; event_lock is held. */
static void check_timeouts(void)
{
	struct cm_conn *c, *late;

	do {
		late = NULL;
		pthread_mutex_lock(&cm_lock);
		list_for_each_entry(c, &conns, link) {
			if (c->give_up && c->give_up < now_s())
				late = c;
		}
		pthread_mutex_unlock(&cm_lock);
		if (late)
			event_run(late, CM_EVENT_UNREACHABLE, NULL);
	} while (late);
}

static void *cm_main(void *arg)
{
	(void)arg;
	for (;;) {
		struct timespec until = { .tv_sec = now_s() + 1 };
		struct msg *m;

		pthread_mutex_lock(&cm_lock);
		if (list_empty(&msgs))
			pthread_cond_timedwait(&cm_cond, &cm_lock, &until);
		m = list_first_entry_or_null(&msgs, struct msg, link);
		if (m)
			list_del(&m->link);
		pthread_mutex_unlock(&cm_lock);
		pthread_mutex_lock(&event_lock);
		if (m)
			msg_run(m);
		check_timeouts();
		pthread_mutex_unlock(&event_lock);
		free(m);
	}
	return NULL;
}

struct cm_listener *cm_listen(struct rdma_device *dev, uint8_t port, uint64_t service_id,
			      cm_event_fn fn, void *arg)
{
	struct cm_listener *l = calloc(1, sizeof(*l));

	(void)port;
	*l = (struct cm_listener){ .dev = dev, .service_id = service_id, .fn = fn, .arg = arg };
	pthread_mutex_lock(&event_lock);
	list_add_tail(&l->link, &listeners);
	pthread_mutex_unlock(&event_lock);
	cm_thread_start();
	return l;
}

void cm_listener_destroy(struct cm_listener *l)
{
	pthread_mutex_lock(&event_lock);
	list_del(&l->link);
	pthread_mutex_unlock(&event_lock);
	free(l);
}

struct cm_conn *cm_connect(struct rdma_device *dev, uint8_t port, const struct rdma_addr *to,
			   uint64_t service_id, const struct cm_params *params, cm_event_fn fn,
			   void *arg)
{
	struct cm_conn *c;

	(void)port;
	if (params->private_len > CM_REQ_PRIVATE_LEN)
		return ERR_PTR(-EINVAL);
	cm_thread_start();
	c = conn_new(dev, to->dlid, fn, arg);
	c->give_up = now_s() + 2;
	c->service_id = service_id;
	c->params = *params;
	c->qp = params->qp;
	msg_send(c, CM_REQ, params->private_data, params->private_len, 0);
	return c;
}

int cm_accept(struct cm_conn *c, const struct cm_params *params)
{
	int err;

	if (params->private_len > CM_REP_PRIVATE_LEN)
		return -EINVAL;
	pthread_mutex_lock(&event_lock);
	c->params = *params;
	c->qp = params->qp;
	err = c->ended ? -ECONNRESET : qp_connect(c, true, false);
	if (!err) {
		c->accepted = true;
		msg_send(c, CM_REP, params->private_data, params->private_len, 0);
	}
	pthread_mutex_unlock(&event_lock);
	return err;
}

int cm_reject(struct cm_conn *c, uint16_t reason, const void *private_data, size_t len)
{
	if (len > CM_REJ_PRIVATE_LEN)
		return -EINVAL;
	msg_send(c, CM_REJ, private_data, len, reason);
	return 0;
}

void cm_disconnect(struct cm_conn *c)
{
	msg_send(c, CM_DREQ, NULL, 0, 0);
}

void cm_conn_set_arg(struct cm_conn *c, cm_event_fn fn, void *arg)
{
	pthread_mutex_lock(&event_lock);
	c->fn = fn;
	c->arg = arg;
	pthread_mutex_unlock(&event_lock);
}

void cm_conn_destroy(struct cm_conn *c)
{
	pthread_mutex_lock(&event_lock);
	pthread_mutex_lock(&cm_lock);
	list_del(&c->link);
	pthread_mutex_unlock(&cm_lock);
	pthread_mutex_unlock(&event_lock);
	free(c);
}
