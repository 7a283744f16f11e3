/* SPDX-License-Identifier: MIT */
/*
 * Management datagrams on QP1: agents by class, receive and send buffers.
 *
 * Flow:	the first agent of a port opens it: GSI queue pair, buffers, one thread.  The
 *		thread takes what arrives and calls the agent of its class; classes without an
 *		agent go to the provider's own agents (process_mad).  The last agent closes the
 *		port.
 * Context:	receive functions run in the port's thread.
 * Locking:	ports_lock (RANK_MAD) around opening and closing; port->lock (spinning) around
 *		the agents, the send slots, and posting on the queue pair.  No lock is held
 *		while an agent runs.
 * Failure:	a MAD of the wrong size or version is counted and dropped.  Send buffers come
 *		back by completions; a sender that finds none looks for completions, then waits
 *		a bounded time.  A device that failed and came back has lost the queue pair: the
 *		port's thread makes a new one, and meanwhile sends are -ENETDOWN.
 */
#include <rdma/mad.h>

#include <kernel/counter.h>
#include <kernel/mutex.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/bitmap.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>
#include <rdma/provider.h>

#define PR_FMT "mad: "
#include <kernel/printk.h>

COUNTER(cnt_recv, "mad.recv", "management datagrams received");
COUNTER(cnt_sent, "mad.sent", "management datagrams sent");
COUNTER(cnt_bad, "mad.malformed", "management datagrams dropped: wrong size or version");
COUNTER(cnt_unclaimed, "mad.unclaimed", "management datagrams that no agent wanted");
COUNTER(cnt_no_slot, "mad.no_send_slot", "sends given up for want of a buffer");

#define NR_RECV         128U
#define NR_SEND         64U
#define SLOT_LEN        512U
#define QP1_QKEY        0x80010000U
#define NR_CLASSES      256
#define POLL_BATCH      16
#define BASE_VERSION    1
#define METHOD_RESPONSE 0x80
#define SLOT_WAIT_NS    NSEC_PER_SEC
#define SLOT_NAP_NS     (100 * NSEC_PER_USEC)
#define BUF_LEN         ((NR_RECV + NR_SEND) * SLOT_LEN)
static_assert(BUF_LEN % PAGE_SIZE == 0, "a region is whole pages");

struct mad_port;

struct mad_agent {
	struct mad_port *port;
	uint8_t mgmt_class;
	mad_recv_fn recv;
	void *arg;
};

struct mad_port {
	struct list_head node;  /* ports_lock */
	unsigned int nr_agents; /* ports_lock */
	struct rdma_device *dev;
	uint8_t num;
	struct rdma_pd *pd;
	struct rdma_mr *mr;
	struct rdma_cq *recv_cq, *send_cq;
	struct rdma_qp *qp; /* NULL while there is none; the thread changes it, under lock */
	uint8_t *buf;
	paddr_t paddr;
	struct thread *thread;
	struct waitqueue wq;
	atomic_t event, stop;
	atomic_t renew; /* the device has come back: the queue pair is lost */
	struct rdma_event_handler handler;

	struct spinlock lock; /* RANK_SPIN_NET */
	struct mad_agent *agents[NR_CLASSES] __guarded_by(&lock);
	struct mad_agent *running __guarded_by(&lock);
	struct waitqueue idle;
	DECLARE_BITMAP(send_busy, NR_SEND) __guarded_by(&lock);
};

static struct mutex ports_lock = MUTEX_INIT(ports_lock, "mad_ports", RANK_MAD);
static LIST_HEAD(ports); /* ports_lock */

/* --- buffers ------------------------------------------------------------------------- */

static int recv_post(struct mad_port *port, struct rdma_qp *qp, uint32_t slot)
{
	const struct rdma_sge sge = {
		.addr = port->paddr + slot * SLOT_LEN,
		.len = RDMA_GRH_LEN + MAD_LEN,
		.lkey = rdma_mr_lkey(port->mr),
	};
	const struct rdma_recv_wr wr = { .wr_id = slot, .sge = &sge, .nr_sge = 1 };
	const struct rdma_recv_wr *bad;

	return rdma_post_recv(qp, &wr, &bad);
}

static void send_reclaim(struct mad_port *port)
{
	struct rdma_wc wc[POLL_BATCH];
	int n;

	do {
		n = rdma_poll_cq(port->send_cq, wc, POLL_BATCH);
		spin_lock(&port->lock);
		for (int i = 0; i < n; i++)
			bitmap_clear(port->send_busy, wc[i].wr_id % NR_SEND);
		spin_unlock(&port->lock);
	} while (n == POLL_BATCH);
}

static int send_slot_try(struct mad_port *port)
{
	size_t slot;

	spin_lock(&port->lock);
	slot = bitmap_find_first_zero(port->send_busy, NR_SEND);
	if (slot < NR_SEND)
		bitmap_set(port->send_busy, slot);
	spin_unlock(&port->lock);
	return slot < NR_SEND ? (int)slot : -EAGAIN;
}

static int send_slot_get(struct mad_port *port)
{
	const uint64_t deadline = time_now_ns() + SLOT_WAIT_NS;

	for (;;) {
		int slot;

		send_reclaim(port);
		slot = send_slot_try(port);
		if (slot >= 0)
			return slot;
		if (time_now_ns() > deadline) {
			counter_inc(&cnt_no_slot);
			return -EAGAIN;
		}
		thread_sleep_ns(SLOT_NAP_NS);
	}
}

static int port_send(struct mad_port *port, const struct rdma_addr *to, const void *mad)
{
	struct rdma_sge sge = { .len = MAD_LEN, .lkey = rdma_mr_lkey(port->mr) };
	struct rdma_send_wr wr = {
		.sge = &sge,
		.nr_sge = 1,
		.opcode = RDMA_WR_SEND,
		.flags = RDMA_SEND_SIGNALED,
		.dest = *to,
		.dest_qpn = 1,
		.dest_qkey = QP1_QKEY,
	};
	const struct rdma_send_wr *bad;
	int slot, err;

	slot = send_slot_get(port);
	if (slot < 0)
		return slot;
	wr.wr_id = (uint64_t)slot;
	sge.addr = port->paddr + (NR_RECV + (uint32_t)slot) * SLOT_LEN;
	memcpy(port->buf + (NR_RECV + (uint32_t)slot) * SLOT_LEN, mad, MAD_LEN);
	spin_lock(&port->lock);
	err = port->qp ? rdma_post_send(port->qp, &wr, &bad) : -ENETDOWN;
	if (err)
		bitmap_clear(port->send_busy, (size_t)slot);
	spin_unlock(&port->lock);
	if (!err)
		counter_inc(&cnt_sent);
	return err;
}

int mad_send(struct mad_agent *agent, const struct rdma_addr *to, const void *mad)
{
	return port_send(agent->port, to, mad);
}

/* --- receiving ----------------------------------------------------------------------- */

static struct mad_agent *agent_enter(struct mad_port *port, uint8_t mgmt_class)
{
	struct mad_agent *agent;

	spin_lock(&port->lock);
	agent = port->agents[mgmt_class];
	port->running = agent;
	spin_unlock(&port->lock);
	return agent;
}

static void agent_leave(struct mad_port *port)
{
	spin_lock(&port->lock);
	port->running = NULL;
	spin_unlock(&port->lock);
	wake_all(&port->idle);
}

/* A class that is nobody's here: the device may have an agent for it. */
static void unclaimed(struct mad_port *port, const uint8_t *mad, const struct rdma_addr *from,
		      uint32_t src_qpn)
{
	const struct mad_hdr_wire *hdr = (const void *)mad;
	uint8_t out[MAD_LEN];

	counter_inc(&cnt_unclaimed);
	if (!port->dev->ops->process_mad || hdr->mgmt_class == MAD_CLASS_SA ||
	    hdr->mgmt_class == MAD_CLASS_CM || hdr->method & METHOD_RESPONSE)
		return;
	if (port->dev->ops->process_mad(port->dev, port->num, from, src_qpn, mad, out) == 0 &&
	    port_send(port, from, out))
		pr_debug("answer of class %#x dropped\n", hdr->mgmt_class);
}

static void mad_received(struct mad_port *port, const struct rdma_wc *wc)
{
	const uint8_t *slot = port->buf + wc->wr_id * SLOT_LEN;
	uint8_t mad[MAD_LEN] __aligned(8);
	const struct mad_hdr_wire *hdr = (const void *)mad;
	struct mad_agent *agent;
	struct rdma_addr from;

	counter_inc(&cnt_recv);
	if (wc->byte_len != RDMA_GRH_LEN + MAD_LEN || slot[RDMA_GRH_LEN] != BASE_VERSION) {
		counter_inc(&cnt_bad);
		return;
	}
	memcpy(mad, slot + RDMA_GRH_LEN, MAD_LEN);
	rdma_addr_of_wc(wc, slot, &from);
	agent = agent_enter(port, hdr->mgmt_class);
	if (agent)
		agent->recv(agent->arg, mad, &from, wc->src_qpn);
	else
		unclaimed(port, mad, &from, wc->src_qpn);
	agent_leave(port);
}

/* Returns how many completions there were. */
static int port_poll(struct mad_port *port)
{
	struct rdma_wc wc[POLL_BATCH];
	const int n = rdma_poll_cq(port->recv_cq, wc, POLL_BATCH);

	for (int i = 0; i < n; i++) {
		/* An error means that the queue pair is going away, or the device has. */
		if (wc[i].status != RDMA_WC_SUCCESS)
			continue;
		mad_received(port, &wc[i]);
		if (recv_post(port, wc[i].qp, (uint32_t)wc[i].wr_id))
			pr_warn("%s port %u: receive buffer lost\n", rdma_device_name(port->dev),
				port->num);
	}
	return n;
}

static struct rdma_qp *port_qp_create(struct mad_port *port)
{
	const struct rdma_qp_init init = {
		.type = RDMA_QPT_GSI,
		.send_cq = port->send_cq,
		.recv_cq = port->recv_cq,
		.max_send_wr = NR_SEND,
		.max_recv_wr = NR_RECV,
		.max_send_sge = 1,
		.max_recv_sge = 1,
		.port = port->num,
		.qkey = QP1_QKEY,
	};
	struct rdma_qp *qp = rdma_qp_create(port->pd, &init);
	int err;

	if (IS_ERR(qp))
		return qp;
	err = rdma_qp_to_rts_ud(qp);
	for (uint32_t n = 0; n < NR_RECV && !err; n++)
		err = recv_post(port, qp, n);
	if (!err)
		return qp;
	rdma_qp_destroy(qp);
	return ERR_PTR(err);
}

static void port_qp_set(struct mad_port *port, struct rdma_qp *qp)
{
	spin_lock(&port->lock);
	port->qp = qp;
	spin_unlock(&port->lock);
}

/* The port's thread: take what was flushed, and a new queue pair for the one that is lost. */
static void port_renew(struct mad_port *port)
{
	struct rdma_qp *old = port->qp;
	struct rdma_qp *qp;

	port_qp_set(port, NULL);
	send_reclaim(port);
	while (port_poll(port))
		;
	if (old)
		rdma_qp_destroy(old);
	qp = port_qp_create(port);
	if (IS_ERR(qp)) {
		/* It has failed again, and will tell when it is back. */
		pr_warn("%s port %u: no queue pair: error %d\n", rdma_device_name(port->dev),
			port->num, (int)PTR_ERR(qp));
		return;
	}
	port_qp_set(port, qp);
}

static void device_event(struct rdma_event_handler *h, const struct rdma_event *ev)
{
	struct mad_port *port = container_of(h, struct mad_port, handler);

	if (ev->type != RDMA_EVENT_DEVICE_UP)
		return;
	atomic_set(&port->renew, 1);
	wake_all(&port->wq);
}

static void port_thread(void *arg)
{
	struct mad_port *port = arg;

	while (!atomic_read(&port->stop)) {
		if (atomic_xchg(&port->renew, 0))
			port_renew(port);
		if (port_poll(port))
			continue;
		rdma_arm_cq(port->recv_cq, false);
		if (port_poll(port))
			continue;
		wait_event(&port->wq, atomic_read(&port->event) || atomic_read(&port->renew) ||
					      atomic_read(&port->stop));
		atomic_set(&port->event, 0);
	}
}

static void recv_event(struct rdma_cq *cq, void *arg)
{
	struct mad_port *port = arg;

	atomic_set(&port->event, 1);
	wake_all(&port->wq);
}

/* --- ports --------------------------------------------------------------------------- */

static int port_objects_create(struct mad_port *port)
{
	const struct rdma_phys_range range = { .paddr = port->paddr, .len = BUF_LEN };
	int err;

	port->pd = rdma_pd_create(port->dev);
	if (IS_ERR(port->pd))
		return (int)PTR_ERR(port->pd);
	port->mr = rdma_mr_create(port->pd, port->paddr, &range, 1, RDMA_ACCESS_LOCAL_WRITE);
	err = PTR_ERR_OR_ZERO(port->mr);
	if (err)
		goto out_pd;
	port->recv_cq = rdma_cq_create(port->dev, NR_RECV, 0, recv_event, port);
	err = PTR_ERR_OR_ZERO(port->recv_cq);
	if (err)
		goto out_mr;
	port->send_cq = rdma_cq_create(port->dev, NR_SEND, 0, NULL, NULL);
	err = PTR_ERR_OR_ZERO(port->send_cq);
	if (err)
		goto out_recv_cq;
	port->qp = port_qp_create(port);
	err = PTR_ERR_OR_ZERO(port->qp);
	if (!err)
		return 0;

	rdma_cq_destroy(port->send_cq);
out_recv_cq:
	rdma_cq_destroy(port->recv_cq);
out_mr:
	rdma_mr_destroy(port->mr);
out_pd:
	rdma_pd_destroy(port->pd);
	return err;
}

static void port_objects_destroy(struct mad_port *port)
{
	if (port->qp)
		rdma_qp_destroy(port->qp);
	rdma_cq_destroy(port->send_cq);
	rdma_cq_destroy(port->recv_cq);
	rdma_mr_destroy(port->mr);
	rdma_pd_destroy(port->pd);
}

static struct mad_port *port_open(struct rdma_device *dev, uint8_t num)
{
	struct mad_port *port = kzalloc(sizeof(*port));
	int err = -ENOMEM;

	if (!port)
		return ERR_PTR(-ENOMEM);
	port->dev = dev;
	port->num = num;
	spin_lock_init(&port->lock, "mad_port", RANK_SPIN_NET);
	waitqueue_init(&port->wq);
	waitqueue_init(&port->idle);
	port->buf = dma_alloc(BUF_LEN, &port->paddr);
	if (!port->buf)
		goto out_free;
	err = port_objects_create(port);
	if (err)
		goto out_buf;
	port->thread = thread_create("mad", port_thread, port);
	err = PTR_ERR_OR_ZERO(port->thread);
	if (err)
		goto out_objects;
	port->handler.fn = device_event;
	rdma_event_register(dev, &port->handler);
	list_add_tail(&port->node, &ports);
	return port;

out_objects:
	port_objects_destroy(port);
out_buf:
	dma_free(port->buf, BUF_LEN);
out_free:
	kfree(port);
	return ERR_PTR(err);
}

static void port_close(struct mad_port *port)
{
	list_del(&port->node);
	rdma_event_unregister(port->dev, &port->handler);
	atomic_set(&port->stop, 1);
	wake_all(&port->wq);
	thread_join(port->thread);
	port_objects_destroy(port);
	dma_free(port->buf, BUF_LEN);
	kfree(port);
}

static struct mad_port *port_find_or_open(struct rdma_device *dev, uint8_t num)
{
	struct mad_port *port;

	list_for_each_entry(port, &ports, node) {
		if (port->dev == dev && port->num == num)
			return port;
	}
	return port_open(dev, num);
}

/* --- agents -------------------------------------------------------------------------- */

struct mad_agent *mad_agent_register(struct rdma_device *dev, uint8_t num, uint8_t mgmt_class,
				     mad_recv_fn recv, void *arg)
{
	struct mad_agent *agent = kzalloc(sizeof(*agent));
	struct mad_port *port;
	int err = 0;

	if (!agent)
		return ERR_PTR(-ENOMEM);
	mutex_lock(&ports_lock);
	port = port_find_or_open(dev, num);
	if (IS_ERR(port)) {
		err = (int)PTR_ERR(port);
		goto out_unlock;
	}
	*agent = (struct mad_agent){
		.port = port, .mgmt_class = mgmt_class, .recv = recv, .arg = arg
	};
	spin_lock(&port->lock);
	if (port->agents[mgmt_class])
		err = -EBUSY;
	else
		port->agents[mgmt_class] = agent;
	spin_unlock(&port->lock);
	if (!err)
		port->nr_agents++;
	else if (!port->nr_agents)
		port_close(port);
out_unlock:
	mutex_unlock(&ports_lock);
	if (!err)
		return agent;
	kfree(agent);
	return ERR_PTR(err);
}

static bool agent_is_running(struct mad_port *port, const struct mad_agent *agent)
{
	bool running;

	spin_lock(&port->lock);
	running = port->running == agent;
	spin_unlock(&port->lock);
	return running;
}

void mad_agent_unregister(struct mad_agent *agent)
{
	struct mad_port *port = agent->port;

	spin_lock(&port->lock);
	port->agents[agent->mgmt_class] = NULL;
	spin_unlock(&port->lock);
	wait_event(&port->idle, !agent_is_running(port, agent));
	kfree(agent);

	mutex_lock(&ports_lock);
	if (--port->nr_agents == 0)
		port_close(port);
	mutex_unlock(&ports_lock);
}
