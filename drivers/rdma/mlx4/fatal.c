/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: the device's thread, reset, and what happens when the device fails.
 *
 * Flow:	asynchronous events are put into a ring by the interrupt handler and served here, in a
 *		thread.  A timer looks at the error buffer once a second.
 * Failure:	mlx4_fatal() takes the device's right to access memory away at once, ends all waits
 *		for commands, and lets the thread tell everybody: completion queues get an event (poll
 *		then makes up flush completions), event handlers get RDMA_EVENT_DEVICE_FATAL.
 */
#include <arch/io.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>

#include "mlx4.h"
#include "regs.h"

#define PR_FMT "mlx4: "
#include <kernel/printk.h>

#define CATAS_PERIOD_NS  NSEC_PER_SEC
#define RESET_SILENCE_NS NSEC_PER_SEC /* a board does not answer for about as long */
#define RESET_TIMEOUT_NS (5 * NSEC_PER_SEC)
#define SEM_TIMEOUT_NS   (10 * NSEC_PER_SEC)
#define RESET_WAIT_AUTO  UINT32_MAX

COUNTER(cnt_async, "mlx4.async_events", "asynchronous events from the device");
COUNTER(cnt_async_lost, "mlx4.async_lost", "asynchronous events that found the ring full");

static uint32_t reset_wait_ms = RESET_WAIT_AUTO;
BOOT_PARAM("mlx4.reset_wait", u32, reset_wait_ms,
	   "milliseconds of silence after a reset (default: 1000 on a board, 0 on the model)");

void mlx4_fatal(struct mlx4_dev *dev, const char *why)
{
	if (atomic_xchg(&dev->dead, 1))
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

static void qp_event(struct mlx4_dev *dev, const struct mlx4_async *a)
{
	struct rdma_event ev = { .type = RDMA_EVENT_QP_FATAL, .dev = &dev->rdma };
	struct mlx4_qp *qp = mlx4_qp_hold(dev, a->num);

	pr_warn("%s: QP %#x: %s\n", dev->name, a->num,
		a->type == EVENT_WQ_ACCESS      ? "access error"
		: a->type == EVENT_WQ_INVAL_REQ ? "invalid request"
						: "queue failed");
	if (!qp)
		return;
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

	pr_err("%s: CQ %#x: %s\n", dev->name, a->num,
	       a->syndrome == 1 ? "overrun" : "access violation");
	if (!cq)
		return;
	ev.cq = &cq->rdma;
	if (dev->registered)
		rdma_event_dispatch(&ev);
	atomic_dec(&cq->users);
}

static void port_event(struct mlx4_dev *dev, const struct mlx4_async *a)
{
	if (a->port >= 1 && a->port <= dev->caps.nr_ports && dev->ports[a->port - 1].open)
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
	default: /* communication established: the CM's timers cover it */
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

static bool event_work(struct mlx4_dev *dev)
{
	return dev->ring_tail != __atomic_load_n(&dev->ring_head, __ATOMIC_ACQUIRE) ||
	       atomic_read(&dev->smi_work) || atomic_read(&dev->stop) ||
	       (mlx4_is_dead(dev) && !dev->dead_told);
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

int mlx4_event_thread_start(struct mlx4_dev *dev)
{
	const uint64_t len = 4ULL * dev->fw.err_buf_dwords;
	struct thread *t;

	t = thread_create("mlx4-events", event_thread, dev);
	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	dev->event_thread = t;

	timer_init(&dev->catas_timer, catas_timer, dev);
	if (!len)
		return 0;
	dev->err_buf = pci_bar_map(dev->pci, dev->fw.err_buf_bar, dev->fw.err_buf, len);
	if (IS_ERR(dev->err_buf)) {
		dev->err_buf = NULL;
		pr_warn("%s: no error buffer\n", dev->name);
		return 0;
	}
	timer_set(&dev->catas_timer, time_now_ns() + CATAS_PERIOD_NS);
	return 0;
}

void mlx4_event_thread_stop(struct mlx4_dev *dev)
{
	if (!dev->event_thread)
		return;
	if (dev->err_buf)
		(void)timer_cancel(&dev->catas_timer);
	atomic_set(&dev->stop, 1);
	wake_all(&dev->event_wq);
	thread_join(dev->event_thread);
	dev->event_thread = NULL;
}

/* --- reset --------------------------------------------------------------------------- */

static int owner_take(struct mlx4_dev *dev)
{
	if (dev->regs->read(dev, MLX4_OWNER)) {
		/* A driver that did not let go: the one of a kernel that was reset under it. */
		pr_info("%s: taking the device over from an earlier owner\n", dev->name);
	}
	dev->owner = true;
	return 0;
}

static int semaphore_take(struct mlx4_dev *dev)
{
	const uint64_t deadline = time_now_ns() + SEM_TIMEOUT_NS;

	while (dev->regs->read(dev, MLX4_SEMAPHORE)) {
		if (time_now_ns() > deadline)
			return -ETIMEDOUT;
		thread_sleep_ns(NSEC_PER_MSEC);
	}
	return 0;
}

/* How long a reset device is left alone: boards need it, and boards have PCI Express. */
static uint64_t reset_silence_ns(const struct mlx4_dev *dev)
{
	if (reset_wait_ms != RESET_WAIT_AUTO)
		return reset_wait_ms * NSEC_PER_MSEC;
	return pci_cap_find(dev->pci, PCI_CAP_EXP, 0) ? RESET_SILENCE_NS : 0;
}

int mlx4_reset(struct mlx4_dev *dev)
{
	const uint64_t silence = reset_silence_ns(dev);
	uint64_t deadline;
	int err;

	err = owner_take(dev);
	if (err)
		return err;
	pci_state_save(dev->pci);
	err = semaphore_take(dev);
	if (err) {
		pr_err("%s: semaphore is taken\n", dev->name);
		return err;
	}
	dev->regs->write(dev, MLX4_RESET, MLX4_RESET_VAL);
	if (silence)
		thread_sleep_ns(silence);
	deadline = time_now_ns() + RESET_TIMEOUT_NS;
	while (pci_cfg_read16(dev->pci, PCI_CFG_VENDOR) != pci_vendor_id(dev->pci)) {
		if (time_now_ns() > deadline) {
			pr_err("%s: does not come back from reset\n", dev->name);
			return -ETIMEDOUT;
		}
		thread_sleep_ns(NSEC_PER_MSEC);
	}
	pci_state_restore(dev->pci);
	/* Reset gives the ownership away: take it for good. */
	(void)dev->regs->read(dev, MLX4_OWNER);
	return 0;
}
