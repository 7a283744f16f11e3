/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: the device's thread, its events, and what happens when the device fails.
 *
 * Flow:	asynchronous events are put into a ring by the interrupt handler and served
 *		here, in a thread.  A timer looks at the error buffer once a second.
 * Failure:	mlx4_fatal() takes the device's right to access memory away at once, ends all
 *		waits for commands, and lets the thread tell everybody: completion queues get an
 *		event (poll then makes up flush completions), event handlers get
 *		RDMA_EVENT_DEVICE_FATAL.  Then the thread brings the device up again
 *		(recover.c).
 */
#include <arch/io.h>
#include <kernel/counter.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/kmap.h>

#include "mlx4.h"
#include "regs.h"

#define PR_FMT "mlx4: "
#include <kernel/printk.h>

#define CATAS_PERIOD_NS NSEC_PER_SEC

COUNTER(cnt_async, "mlx4.async_events", "asynchronous events from the device");
COUNTER(cnt_odd, "mlx4.odd_events", "events of an unknown type, or of no object of ours");
COUNTER(cnt_async_lost, "mlx4.async_lost", "asynchronous events that found the ring full");

void mlx4_fatal(struct mlx4_dev *dev, const char *why)
{
	if (atomic_xchg(&dev->state, MLX4_DEAD) == MLX4_DEAD)
		return;
	pr_err("%s: device failed: %s\n", dev->name, why);
	if (dev->pci) /* unit tests have none */
		pci_set_master(dev->pci, false);
	mlx4_cmd_abort(dev);
	wake_all(&dev->event_wq);
}

/* --- asynchronous events ------------------------------------------------------------- */

void mlx4_async_push(struct mlx4_dev *dev, const struct mlx4_async *ev)
{
	const uint32_t head = dev->ring_head;

	counter_inc(&cnt_async);
	if (head - __atomic_load_n(&dev->ring_tail, __ATOMIC_ACQUIRE) >= ASYNC_RING) {
		counter_inc(&cnt_async_lost);
		return;
	}
	dev->ring[head % ASYNC_RING] = *ev;
	__atomic_store_n(&dev->ring_head, head + 1, __ATOMIC_RELEASE);
	wake_all(&dev->event_wq);
}

static bool async_pop(struct mlx4_dev *dev, struct mlx4_async *ev)
{
	const uint32_t tail = dev->ring_tail;

	if (tail == __atomic_load_n(&dev->ring_head, __ATOMIC_ACQUIRE))
		return false;
	*ev = dev->ring[tail % ASYNC_RING];
	__atomic_store_n(&dev->ring_tail, tail + 1, __ATOMIC_RELEASE);
	return true;
}

/* An event that makes no sense: counted, and logged now and then.  Any context. */
static void mlx4_odd_event(struct mlx4_dev *dev, uint8_t type, uint8_t subtype, uint32_t num)
{
	counter_inc(&cnt_odd);
	pr_warn_ratelimited("%s: odd event %#x.%#x, number %#x: ignored\n", dev->name, type,
			    subtype, num);
}

static void qp_event(struct mlx4_dev *dev, const struct mlx4_async *a)
{
	struct rdma_event ev = { .type = RDMA_EVENT_QP_FATAL, .dev = &dev->rdma };
	struct mlx4_qp *qp = mlx4_qp_hold(dev, a->num);

	if (!qp) {
		mlx4_odd_event(dev, a->type, a->subtype, a->num);
		return;
	}
	pr_warn("%s: QP %#x: %s\n", dev->name, a->num,
		a->type == EVENT_WQ_ACCESS      ? "access error"
		: a->type == EVENT_WQ_INVAL_REQ ? "invalid request"
						: "queue failed");
	if (a->type == EVENT_WQ_ACCESS)
		ev.type = RDMA_EVENT_QP_ACCESS;
	ev.qp = &qp->rdma;
	ev.port = qp->rdma.port;
	if (dev->registered)
		rdma_event_dispatch(&ev);
	atomic_dec(&qp->users);
}

static void cq_error(struct mlx4_dev *dev, const struct mlx4_async *a)
{
	struct rdma_event ev = { .type = RDMA_EVENT_CQ_ERR, .dev = &dev->rdma };
	struct mlx4_cq *cq = mlx4_cq_hold(dev, a->num);

	if (!cq) {
		mlx4_odd_event(dev, a->type, a->subtype, a->num);
		return;
	}
	pr_err("%s: CQ %#x: %s\n", dev->name, a->num,
	       a->syndrome == 1 ? "overrun" : "access violation");
	ev.cq = &cq->rdma;
	if (dev->registered)
		rdma_event_dispatch(&ev);
	atomic_dec(&cq->users);
	/* Completions are lost, of any number of queue pairs: only a new start is a known state. */
	mlx4_fatal(dev, "a completion queue failed");
}

static void port_event(struct mlx4_dev *dev, const struct mlx4_async *a)
{
	if (a->port < 1 || a->port > dev->caps.nr_ports)
		mlx4_odd_event(dev, a->type, a->subtype, a->port);
	else if (dev->ports[a->port - 1].open)
		mlx4_port_refresh(dev, &dev->ports[a->port - 1]);
}

static void async_serve(struct mlx4_dev *dev, const struct mlx4_async *a)
{
	switch (a->type) {
	case EVENT_PORT_CHANGE:
	case EVENT_PORT_MGMT:
		port_event(dev, a);
		break;
	case EVENT_WQ_CATAS:
	case EVENT_WQ_INVAL_REQ:
	case EVENT_WQ_ACCESS:
		qp_event(dev, a);
		break;
	case EVENT_CQ_ERROR:
		cq_error(dev, a);
		break;
	case EVENT_LOCAL_CATAS:
		mlx4_fatal(dev, "local catastrophic error");
		break;
	case EVENT_EQ_OVERFLOW:
		mlx4_fatal(dev, "event queue overflow");
		break;
	case EVENT_ECC:
	case EVENT_FATAL_WARNING:
		pr_warn("%s: hardware warning, event %#x.%#x\n", dev->name, a->type, a->subtype);
		break;
	case EVENT_COMM_EST: /* the CM's timers cover it */
		break;
	default:
		mlx4_odd_event(dev, a->type, a->subtype, a->num);
		break;
	}
}

static void tell_dead(struct mlx4_dev *dev)
{
	const struct rdma_event ev = { .type = RDMA_EVENT_DEVICE_FATAL, .dev = &dev->rdma };

	dev->dead_told = true;
	if (dev->cqs.leaves)
		mlx4_cqs_wake(dev);
	if (dev->registered)
		rdma_event_dispatch(&ev);
}

static bool must_recover(struct mlx4_dev *dev)
{
	/* Until it is registered its failure is that of the probe. */
	return mlx4_is_dead(dev) && READ_ONCE(dev->registered) && !dev->given_up;
}

static bool event_work(struct mlx4_dev *dev)
{
	return dev->ring_tail != __atomic_load_n(&dev->ring_head, __ATOMIC_ACQUIRE) ||
	       atomic_read(&dev->smi_work) || atomic_read(&dev->stop) ||
	       (mlx4_is_dead(dev) && !dev->dead_told) || must_recover(dev);
}

static void event_thread(void *arg)
{
	struct mlx4_dev *dev = arg;
	struct mlx4_async ev;

	for (;;) {
		wait_event(&dev->event_wq, event_work(dev));
		if (atomic_read(&dev->stop))
			return;
		while (async_pop(dev, &ev))
			async_serve(dev, &ev);
		if (atomic_xchg(&dev->smi_work, 0)) {
			for (unsigned int n = 0; n < dev->caps.nr_ports; n++)
				mlx4_smi_poll(dev, &dev->ports[n]);
		}
		if (mlx4_is_dead(dev) && !dev->dead_told)
			tell_dead(dev);
		if (must_recover(dev))
			mlx4_recover(dev);
	}
}

/* --- error buffer -------------------------------------------------------------------- */

static void catas_timer(void *arg)
{
	struct mlx4_dev *dev = arg;
	uint32_t word;

	if (mlx4_is_dead(dev))
		return;
	word = mmio_read32be(dev->err_buf);
	if (word) {
		pr_err("%s: error buffer: %#x\n", dev->name, word);
		mlx4_fatal(dev, word == ~0U ? "it has gone from the bus" : "internal error");
		return;
	}
	timer_set(&dev->catas_timer, time_now_ns() + CATAS_PERIOD_NS);
}

void mlx4_catas_watch(struct mlx4_dev *dev, bool on)
{
	const uint64_t len = 4ULL * dev->fw.err_buf_dwords;

	if (dev->err_buf) {
		(void)timer_cancel(&dev->catas_timer);
		mmio_unmap(dev->err_buf);
		dev->err_buf = NULL;
	}
	if (!on || !len)
		return;
	dev->err_buf = pci_bar_map(dev->pci, dev->fw.err_buf_bar, dev->fw.err_buf, len);
	if (IS_ERR(dev->err_buf)) {
		dev->err_buf = NULL;
		pr_warn("%s: no error buffer\n", dev->name);
		return;
	}
	timer_set(&dev->catas_timer, time_now_ns() + CATAS_PERIOD_NS);
}

int mlx4_event_thread_start(struct mlx4_dev *dev)
{
	struct thread *t;

	timer_init(&dev->catas_timer, catas_timer, dev);
	t = thread_create("mlx4-events", event_thread, dev);
	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	dev->event_thread = t;
	mlx4_catas_watch(dev, true);
	return 0;
}

void mlx4_event_thread_stop(struct mlx4_dev *dev)
{
	if (!dev->event_thread)
		return;
	atomic_set(&dev->stop, 1);
	wake_all(&dev->event_wq);
	thread_join(dev->event_thread);
	dev->event_thread = NULL;
	mlx4_catas_watch(dev, false);
}
