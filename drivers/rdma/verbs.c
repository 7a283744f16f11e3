/* SPDX-License-Identifier: MIT */
/*
 * Verbs core: devices, argument checks, dispatch to providers, events, counters.
 *
 * Flow:	rdma_device_register() puts a device on the list and wakes rdma_device_wait(); every
 *		verb checks what needs no knowledge of the provider and calls through dev->ops.
 * Locking:	devices_lock guards the list.  Event handlers run without a lock: the dispatcher
 *		walks the list with a bookmark, and unregister waits while its handler is running.
 * Failure:	a wrong argument is -EINVAL; destroying an object that is still in use is our own
 *		bug and stops at BUG_ON, because the device would go on using freed memory.
 */
#include <rdma/verbs.h>

#include <rdma/provider.h>

#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/string.h>

#define PR_FMT "rdma: "
#include <kernel/printk.h>

COUNTER(cnt_send_wr, "rdma.send_wr", "send work requests posted");
COUNTER(cnt_inline, "rdma.send_inline", "send work requests that carried their data");
COUNTER(cnt_signalled, "rdma.send_signalled", "send work requests that asked for a completion");
COUNTER(cnt_recv_wr, "rdma.recv_wr", "receive work requests posted");
COUNTER(cnt_cqe, "rdma.cqe", "completions taken");
COUNTER(cnt_cqe_err, "rdma.cqe_errors", "completions with an error status");
COUNTER(cnt_doorbells, "rdma.doorbells", "send doorbells rung");
COUNTER(cnt_arms, "rdma.cq_arms", "completion queues armed");
COUNTER(cnt_mmio, "rdma.mmio", "device register accesses on the fast path");
COUNTER(cnt_cq_events, "rdma.cq_events", "completion events delivered");

#define ACCESS_ALL                                                                      \
	(RDMA_ACCESS_LOCAL_WRITE | RDMA_ACCESS_REMOTE_WRITE | RDMA_ACCESS_REMOTE_READ | \
	 RDMA_ACCESS_REMOTE_ATOMIC)

static struct spinlock devices_lock = SPINLOCK_INIT("rdma_devices", RANK_SPIN_RDMA);
static LIST_HEAD(devices);
static unsigned int next_number; /* devices_lock */
static struct waitqueue device_wq = WAITQUEUE_INIT(device_wq);
static const char *wanted_device = "";
BOOT_PARAM("rdma.device", string, wanted_device,
	   "name of the RDMA device to use, such as mlx4_0 (default: the first that comes up)");

/* --- devices ------------------------------------------------------------------------- */

int rdma_device_register(struct rdma_device *dev, const char *prefix)
{
	if (!dev->ops)
		return -EINVAL;
	spin_lock_init(&dev->handlers_lock, "rdma_handlers", RANK_SPIN_RDMA);
	list_init(&dev->handlers);
	dev->running = NULL;
	dev->dispatcher = NULL;
	waitqueue_init(&dev->handler_done);

	spin_lock(&devices_lock);
	snprintf(dev->name, sizeof(dev->name), "%.10s_%u", prefix, next_number++ % 1000);
	list_add_tail(&dev->node, &devices);
	spin_unlock(&devices_lock);
	wake_all(&device_wq);
	return 0;
}

void rdma_device_unregister(struct rdma_device *dev)
{
	spin_lock(&devices_lock);
	list_del(&dev->node);
	spin_unlock(&devices_lock);
	BUG_ON(atomic_read(&dev->nr_users) != 0);
}

/* @name "" = the first. */
static struct rdma_device *device_find(const char *name)
{
	struct rdma_device *dev, *found = NULL;

	spin_lock(&devices_lock);
	list_for_each_entry(dev, &devices, node) {
		if (!found && (!*name || strcmp(dev->name, name) == 0))
			found = dev;
	}
	spin_unlock(&devices_lock);
	return found;
}

struct rdma_device *rdma_device_wait(const char *name, uint64_t deadline_ns)
{
	struct rdma_device *dev = NULL;

	if (!name)
		name = wanted_device;
	(void)wait_event_timeout(&device_wq, (dev = device_find(name)) != NULL, deadline_ns);
	return dev;
}

const char *rdma_device_name(const struct rdma_device *dev)
{
	return dev->name;
}

void rdma_device_attr(const struct rdma_device *dev, struct rdma_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	dev->ops->device_attr(dev, attr);
}

int rdma_port_attr(struct rdma_device *dev, uint8_t port, struct rdma_port_attr *attr)
{
	struct rdma_device_attr da;

	rdma_device_attr(dev, &da);
	if (port < 1 || port > da.nr_ports)
		return -EINVAL;
	memset(attr, 0, sizeof(*attr));
	return dev->ops->port_attr(dev, port, attr);
}

/* --- events -------------------------------------------------------------------------- */

void rdma_event_register(struct rdma_device *dev, struct rdma_event_handler *h)
{
	spin_lock(&dev->handlers_lock);
	list_add_tail(&h->node, &dev->handlers);
	spin_unlock(&dev->handlers_lock);
}

static bool handler_is_running(struct rdma_device *dev, const struct rdma_event_handler *h)
{
	bool running;

	spin_lock(&dev->handlers_lock);
	running = dev->running == h;
	spin_unlock(&dev->handlers_lock);
	return running;
}

void rdma_event_unregister(struct rdma_device *dev, struct rdma_event_handler *h)
{
	bool mine;

	spin_lock(&dev->handlers_lock);
	list_del(&h->node);
	mine = dev->dispatcher == thread_current();
	spin_unlock(&dev->handlers_lock);
	if (!mine)
		wait_event(&dev->handler_done, !handler_is_running(dev, h));
}

void rdma_event_dispatch(const struct rdma_event *ev)
{
	struct rdma_device *dev = ev->dev;
	struct rdma_event_handler bookmark = { .fn = NULL };

	spin_lock(&dev->handlers_lock);
	BUG_ON(dev->dispatcher);
	dev->dispatcher = thread_current();
	list_add(&bookmark.node, &dev->handlers);
	while (!list_is_last(&bookmark.node, &dev->handlers)) {
		struct rdma_event_handler *h = list_next_entry(&bookmark, node);

		list_move(&bookmark.node, &h->node);
		dev->running = h;
		spin_unlock(&dev->handlers_lock);
		h->fn(h, ev);
		spin_lock(&dev->handlers_lock);
		dev->running = NULL;
		wake_all(&dev->handler_done);
	}
	list_del(&bookmark.node);
	dev->dispatcher = NULL;
	spin_unlock(&dev->handlers_lock);
}

void rdma_cq_event(struct rdma_cq *cq)
{
	counter_inc(&cnt_cq_events);
	if (cq->event)
		cq->event(cq, cq->event_arg);
}

/* --- objects ------------------------------------------------------------------------- */

struct rdma_pd *rdma_pd_create(struct rdma_device *dev)
{
	struct rdma_pd *pd = dev->ops->pd_create(dev);

	if (IS_ERR(pd))
		return pd;
	pd->dev = dev;
	atomic_set(&pd->nr_users, 0);
	atomic_inc(&dev->nr_users);
	return pd;
}

void rdma_pd_destroy(struct rdma_pd *pd)
{
	struct rdma_device *dev = pd->dev;

	BUG_ON(atomic_read(&pd->nr_users) != 0);
	dev->ops->pd_destroy(pd);
	atomic_dec(&dev->nr_users);
}

/* Total length of @ranges, or 0 when one of them is not acceptable. */
static uint64_t ranges_len(uint64_t iova, const struct rdma_phys_range *ranges, size_t nr)
{
	uint64_t len = 0;

	for (size_t n = 0; n < nr; n++) {
		const struct rdma_phys_range *r = &ranges[n];

		if (!r->len || (r->len | r->paddr) & PAGE_MASK_LOW)
			return 0;
		if (r->paddr + (r->len - 1) < r->paddr || len + r->len < len)
			return 0;
		len += r->len;
	}
	return len && iova + (len - 1) >= iova ? len : 0;
}

struct rdma_mr *rdma_mr_create(struct rdma_pd *pd, uint64_t iova,
			       const struct rdma_phys_range *ranges, size_t nr_ranges,
			       uint32_t access)
{
	const uint64_t len = ranges_len(iova, ranges, nr_ranges);
	struct rdma_mr *mr;

	if (!len || iova & PAGE_MASK_LOW || access & ~(uint32_t)ACCESS_ALL)
		return ERR_PTR(-EINVAL);
	/* The specification: a peer may write only where we may. */
	if (access & (RDMA_ACCESS_REMOTE_WRITE | RDMA_ACCESS_REMOTE_ATOMIC) &&
	    !(access & RDMA_ACCESS_LOCAL_WRITE))
		return ERR_PTR(-EINVAL);

	mr = pd->dev->ops->mr_create(pd, iova, ranges, nr_ranges, len, access);
	if (IS_ERR(mr))
		return mr;
	mr->dev = pd->dev;
	mr->pd = pd;
	mr->iova = iova;
	mr->len = len;
	mr->access = access;
	atomic_inc(&pd->nr_users);
	return mr;
}

void rdma_mr_destroy(struct rdma_mr *mr)
{
	struct rdma_pd *pd = mr->pd;

	mr->dev->ops->mr_destroy(mr);
	atomic_dec(&pd->nr_users);
}

uint32_t rdma_mr_lkey(const struct rdma_mr *mr)
{
	return mr->lkey;
}

uint32_t rdma_mr_rkey(const struct rdma_mr *mr)
{
	return mr->rkey;
}

struct rdma_cq *rdma_cq_create(struct rdma_device *dev, uint32_t nr_cqe, uint32_t vector,
			       void (*event)(struct rdma_cq *cq, void *arg), void *arg)
{
	struct rdma_device_attr attr;
	struct rdma_cq *cq;

	rdma_device_attr(dev, &attr);
	if (!nr_cqe || nr_cqe > attr.max_cqe || vector >= attr.nr_comp_vectors)
		return ERR_PTR(-EINVAL);
	cq = dev->ops->cq_create(dev, nr_cqe, vector);
	if (IS_ERR(cq))
		return cq;
	cq->dev = dev;
	cq->event_arg = arg;
	cq->event = event;
	atomic_set(&cq->nr_users, 0);
	atomic_inc(&dev->nr_users);
	return cq;
}

void rdma_cq_destroy(struct rdma_cq *cq)
{
	struct rdma_device *dev = cq->dev;

	BUG_ON(atomic_read(&cq->nr_users) != 0);
	dev->ops->cq_destroy(cq);
	atomic_dec(&dev->nr_users);
}

static bool qp_init_ok(const struct rdma_pd *pd, const struct rdma_qp_init *init)
{
	struct rdma_device_attr attr;

	rdma_device_attr(pd->dev, &attr);
	return init->send_cq && init->recv_cq && init->send_cq->dev == pd->dev &&
	       init->recv_cq->dev == pd->dev && init->port >= 1 && init->port <= attr.nr_ports &&
	       init->max_send_wr <= attr.max_qp_wr && init->max_recv_wr <= attr.max_qp_wr &&
	       init->max_send_sge <= attr.max_sge && init->max_recv_sge <= attr.max_sge &&
	       init->max_inline <= attr.max_inline && init->type <= RDMA_QPT_GSI;
}

struct rdma_qp *rdma_qp_create(struct rdma_pd *pd, const struct rdma_qp_init *init)
{
	struct rdma_qp *qp;

	if (!qp_init_ok(pd, init))
		return ERR_PTR(-EINVAL);
	qp = pd->dev->ops->qp_create(pd, init);
	if (IS_ERR(qp))
		return qp;
	qp->dev = pd->dev;
	qp->pd = pd;
	qp->send_cq = init->send_cq;
	qp->recv_cq = init->recv_cq;
	qp->type = init->type;
	qp->port = init->port;
	qp->qkey = init->qkey;
	qp->context = init->context;
	mutex_init(&qp->lock, "rdma_qp", RANK_RDMA);
	qp->state = RDMA_QPS_RESET;
	atomic_inc(&pd->nr_users);
	atomic_inc(&qp->send_cq->nr_users);
	atomic_inc(&qp->recv_cq->nr_users);
	return qp;
}

void rdma_qp_destroy(struct rdma_qp *qp)
{
	struct rdma_pd *pd = qp->pd;
	struct rdma_cq *send_cq = qp->send_cq;
	struct rdma_cq *recv_cq = qp->recv_cq;

	qp->dev->ops->qp_destroy(qp);
	atomic_dec(&recv_cq->nr_users);
	atomic_dec(&send_cq->nr_users);
	atomic_dec(&pd->nr_users);
}

uint32_t rdma_qp_num(const struct rdma_qp *qp)
{
	return qp->qpn;
}

enum rdma_qp_type rdma_qp_type(const struct rdma_qp *qp)
{
	return qp->type;
}

void *rdma_qp_context(const struct rdma_qp *qp)
{
	return qp->context;
}

/* --- queue pair states --------------------------------------------------------------- */

/* The steps of the specification's state diagram that there are verbs for. */
static __maybe_unused bool qp_may_become(enum rdma_qp_state from, enum rdma_qp_state to)
{
	static const uint8_t next[] = {
		[RDMA_QPS_RESET] = BIT(RDMA_QPS_INIT) | BIT(RDMA_QPS_RTS), /* RTS: UD, in one go */
		[RDMA_QPS_INIT] = BIT(RDMA_QPS_RTR) | BIT(RDMA_QPS_ERR),
		[RDMA_QPS_RTR] = BIT(RDMA_QPS_RTS) | BIT(RDMA_QPS_ERR),
		[RDMA_QPS_RTS] = BIT(RDMA_QPS_ERR),
	};

	return next[from] & BIT(to);
}

static void qp_set_state_locked(struct rdma_qp *qp, enum rdma_qp_state to) __must_hold(&qp->lock)
{
	assert_mutex_held(&qp->lock);
	ASSERT(qp_may_become(qp->state, to));
	WRITE_ONCE(qp->state, to);
}

int rdma_qp_to_init(struct rdma_qp *qp, uint32_t access)
{
	int err = -EINVAL;

	if (access & ~(uint32_t)ACCESS_ALL || qp->type != RDMA_QPT_RC)
		return -EINVAL;
	mutex_lock(&qp->lock);
	if (qp->state == RDMA_QPS_RESET) {
		err = qp->dev->ops->qp_to_init(qp, access);
		if (!err)
			qp_set_state_locked(qp, RDMA_QPS_INIT);
	}
	mutex_unlock(&qp->lock);
	return err;
}

static bool conn_ok(const struct rdma_qp_conn *conn)
{
	return conn->path_mtu >= RDMA_MTU_256 && conn->path_mtu <= RDMA_MTU_4096 &&
	       conn->ack_timeout <= 31 && conn->retry_cnt <= 7 && conn->rnr_retry <= 7 &&
	       conn->min_rnr_timer <= 31 && conn->rq_psn <= 0xffffff && conn->sq_psn <= 0xffffff &&
	       conn->remote_qpn <= 0xffffff && conn->addr.sl <= 15 &&
	       !(conn->access & ~(uint32_t)ACCESS_ALL);
}

int rdma_qp_to_rtr(struct rdma_qp *qp, const struct rdma_qp_conn *conn)
{
	int err = -EINVAL;

	if (!conn_ok(conn) || qp->type != RDMA_QPT_RC)
		return -EINVAL;
	mutex_lock(&qp->lock);
	if (qp->state == RDMA_QPS_INIT) {
		err = qp->dev->ops->qp_to_rtr(qp, conn);
		if (!err)
			qp_set_state_locked(qp, RDMA_QPS_RTR);
	}
	mutex_unlock(&qp->lock);
	return err;
}

int rdma_qp_to_rts(struct rdma_qp *qp, const struct rdma_qp_conn *conn)
{
	int err = -EINVAL;

	if (!conn_ok(conn) || qp->type != RDMA_QPT_RC)
		return -EINVAL;
	mutex_lock(&qp->lock);
	if (qp->state == RDMA_QPS_RTR) {
		err = qp->dev->ops->qp_to_rts(qp, conn);
		if (!err)
			qp_set_state_locked(qp, RDMA_QPS_RTS);
	}
	mutex_unlock(&qp->lock);
	return err;
}

int rdma_qp_to_rts_ud(struct rdma_qp *qp)
{
	int err = -EINVAL;

	if (qp->type == RDMA_QPT_RC)
		return -EINVAL;
	mutex_lock(&qp->lock);
	if (qp->state == RDMA_QPS_RESET) {
		err = qp->dev->ops->qp_to_rts_ud(qp);
		if (!err)
			qp_set_state_locked(qp, RDMA_QPS_RTS);
	}
	mutex_unlock(&qp->lock);
	return err;
}

int rdma_qp_to_err(struct rdma_qp *qp)
{
	int err = 0;

	mutex_lock(&qp->lock);
	if (qp->state == RDMA_QPS_RESET) {
		err = -EINVAL;
	} else if (qp->state != RDMA_QPS_ERR) {
		err = qp->dev->ops->qp_to_err(qp);
		if (!err)
			qp_set_state_locked(qp, RDMA_QPS_ERR);
	}
	mutex_unlock(&qp->lock);
	return err;
}

/* --- fast path ----------------------------------------------------------------------- */

int rdma_post_send(struct rdma_qp *qp, const struct rdma_send_wr *wr,
		   const struct rdma_send_wr **bad)
{
	/* RTS, and ERR, where the request is flushed. */
	if (unlikely(READ_ONCE(qp->state) < RDMA_QPS_RTS)) {
		*bad = wr;
		return -EINVAL;
	}
	return qp->dev->ops->post_send(qp, wr, bad);
}

void rdma_ring_send(struct rdma_qp *qp)
{
	qp->dev->ops->ring_send(qp);
}

int rdma_post_recv(struct rdma_qp *qp, const struct rdma_recv_wr *wr,
		   const struct rdma_recv_wr **bad)
{
	if (unlikely(READ_ONCE(qp->state) == RDMA_QPS_RESET)) {
		*bad = wr;
		return -EINVAL;
	}
	return qp->dev->ops->post_recv(qp, wr, bad);
}

int rdma_poll_cq(struct rdma_cq *cq, struct rdma_wc *wc, int max)
{
	return cq->dev->ops->poll_cq(cq, wc, max);
}

void rdma_arm_cq(struct rdma_cq *cq, bool solicited_only)
{
	cq->dev->ops->arm_cq(cq, solicited_only);
}

bool rdma_wait(struct rdma_device *dev, uint64_t ns)
{
	return dev->ops->wait && dev->ops->wait(dev, ns);
}

/* --- counters and names -------------------------------------------------------------- */

void rdma_count_send(uint32_t nr_wr, uint32_t nr_rung)
{
	counter_add(&cnt_send_wr, nr_wr);
	counter_add(&cnt_doorbells, nr_rung);
}

void rdma_count_send_kinds(uint32_t nr_inline, uint32_t nr_signalled)
{
	counter_add(&cnt_inline, nr_inline);
	counter_add(&cnt_signalled, nr_signalled);
}

void rdma_count_recv(uint32_t nr_wr)
{
	counter_add(&cnt_recv_wr, nr_wr);
}

void rdma_count_cqe(uint32_t nr, uint32_t nr_errors)
{
	counter_add(&cnt_cqe, nr);
	if (unlikely(nr_errors))
		counter_add(&cnt_cqe_err, nr_errors);
}

void rdma_count_arm(void)
{
	counter_inc(&cnt_arms);
}

void rdma_count_mmio(uint32_t nr)
{
	counter_add(&cnt_mmio, nr);
}

const char *rdma_wc_status_name(enum rdma_wc_status status)
{
	static const char *const names[] = {
		[RDMA_WC_SUCCESS] = "success",
		[RDMA_WC_LOC_LEN_ERR] = "local length error",
		[RDMA_WC_LOC_QP_OP_ERR] = "local QP operation error",
		[RDMA_WC_LOC_PROT_ERR] = "local protection error",
		[RDMA_WC_WR_FLUSH_ERR] = "flushed",
		[RDMA_WC_MW_BIND_ERR] = "memory window bind error",
		[RDMA_WC_BAD_RESP_ERR] = "bad response",
		[RDMA_WC_LOC_ACCESS_ERR] = "local access error",
		[RDMA_WC_REM_INV_REQ_ERR] = "remote invalid request",
		[RDMA_WC_REM_ACCESS_ERR] = "remote access error",
		[RDMA_WC_REM_OP_ERR] = "remote operation error",
		[RDMA_WC_RETRY_EXC_ERR] = "transport retries exceeded",
		[RDMA_WC_RNR_RETRY_EXC_ERR] = "receiver not ready, retries exceeded",
		[RDMA_WC_REM_ABORT_ERR] = "remote aborted",
		[RDMA_WC_FATAL_ERR] = "device failed",
		[RDMA_WC_GENERAL_ERR] = "general error",
	};

	if ((unsigned int)status >= ARRAY_SIZE(names) || !names[status])
		return "unknown status";
	return names[status];
}
