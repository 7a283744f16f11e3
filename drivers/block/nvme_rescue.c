/* SPDX-License-Identifier: MIT */
/*
 * NVMe controllers in trouble: slow commands, aborts, resets, and the end.
 *
 * Flow:	while commands are in flight a timer looks once a second at the controller's status
 *		and at the age of the oldest command of each queue.  When something is wrong, the
 *		worker acts:
 *		- the registers read as ones, or the controller broke a rule: it is taken out of
 *		  use;
 *		- it reports a fatal error, or has reset itself: it is reset, and what it had is
 *		  sent again;
 *		- a command is older than nvme.timeout: the worker looks for an answer without
 *		  an interrupt, sends an Abort and, ABORT_NS later, resets the controller.
 * Context:	nvme_watch(), nvme_broken(): any.  The timer: interrupt.  The rest: the worker.
 * Failure:	a controller that does not come back is fenced (no DMA any more), and all its
 *		requests end in -EIO, now and later.  Nothing else of the node is concerned.
 */
#define PR_FMT "nvme: "

#include <kernel/bootparam.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <lib/errno.h>

#include "nvme_priv.h"

#define WATCH_NS NSEC_PER_SEC
#define ABORT_NS (5 * NSEC_PER_SEC) /* what an aborted command may take to end */

static uint32_t slow_s = 10;
static uint32_t timeout_s = 30;
BOOT_PARAM("nvme.slow", u32, slow_s, "seconds after which a command to an NVMe disk is reported");
BOOT_PARAM("nvme.timeout", u32, timeout_s, "seconds after which it is aborted");

COUNTER(nvme_aborts, "nvme.aborts", "commands that were aborted for taking too long");
COUNTER(nvme_resets, "nvme.resets", "resets of controllers in use");

void nvme_watch(struct nvme *c)
{
	if (!__atomic_exchange_n(&c->watching, 1, __ATOMIC_ACQ_REL))
		timer_set(&c->watchdog, time_after_ns(WATCH_NS));
}

void nvme_broken(struct nvme *c, const char *why)
{
	const char *none = NULL;

	(void)__atomic_compare_exchange_n(&c->broken, &none, why, false, __ATOMIC_ACQ_REL,
					  __ATOMIC_ACQUIRE);
	if (__atomic_load_n(&c->started, __ATOMIC_ACQUIRE))
		work_queue(c->worker, &c->rescue);
}

/* Look at the oldest command.  True: the worker has to. */
static bool look(struct nvme_queue *q, bool *active)
{
	const unsigned long flags = spin_lock_irqsave(&q->lock);
	bool overdue = false;

	*active |= !q->dead && (!list_empty(&q->busy) || !list_empty(&q->waiting));
	if (q->open && !list_empty(&q->busy)) {
		struct nvme_slot *s = list_first_entry(&q->busy, struct nvme_slot, link);
		const uint64_t age = time_now_ns() - s->issued_ns;

		if (age > slow_s * NSEC_PER_SEC && !s->reported && s->req) {
			s->reported = true;
			pr_warn("%s: sector %llu has been waited for for %llu s\n",
				s->req->disk->name, (unsigned long long)s->req->disk_sector,
				(unsigned long long)(age / NSEC_PER_SEC));
		}
		overdue = age > timeout_s * NSEC_PER_SEC;
	}
	spin_unlock_irqrestore(&q->lock, flags);
	return overdue;
}

static bool status_is_bad(uint32_t csts)
{
	return (csts & (NVME_CSTS_RDY | NVME_CSTS_CFS)) != NVME_CSTS_RDY;
}

static void watchdog(void *arg)
{
	struct nvme *c = arg;
	bool active = false, trouble = status_is_bad(nvme_read32(c, NVME_REG_CSTS));

	/* First, so that a command that comes now sets the timer itself. */
	__atomic_store_n(&c->watching, 0, __ATOMIC_SEQ_CST);
	for (unsigned int i = 0; i < c->nr_io; i++)
		trouble |= look(&c->io[i], &active);
	if (!active)
		return;
	if (trouble)
		work_queue(c->worker, &c->rescue);
	nvme_watch(c);
}

static void take_out(struct nvme *c, const char *why)
{
	int err;

	ASSERT(!c->dead);
	c->dead = true;
	pr_err("%s (%s): %s: taken out of use\n", c->name, c->info.model, why);
	nvme_queue_close(&c->admin);
	for (unsigned int i = 0; i < c->nr_io; i++)
		nvme_queue_close(&c->io[i]);
	/* One that does not stop, or is gone, is stopped by the bus. */
	err = nvme_disable(c);
	if (err && err != -ENODEV)
		pr_err("%s: does not stop (%d)\n", c->name, err);
	c->bus->fence(c);
	for (unsigned int i = 0; i < c->nr_io; i++)
		nvme_queue_bury(&c->io[i], -EIO);
}

static void reset(struct nvme *c, const char *why)
{
	int err;

	counter_inc(&nvme_resets);
	pr_warn("%s (%s): %s: resetting it\n", c->name, c->info.model, why);
	nvme_queue_close(&c->admin);
	for (unsigned int i = 0; i < c->nr_io; i++)
		nvme_queue_close(&c->io[i]);
	err = nvme_restart(c);
	if (err) {
		take_out(c, err == -ENODEV ? "another disk, or none, came back"
					   : "it does not come back");
		return;
	}
	for (unsigned int i = 0; i < c->nr_io; i++)
		nvme_queue_reopen(&c->io[i]);
	pr_info("%s: is back\n", c->name);
}

/*
 * The next command of @q that is overdue: true, and its id.  *late: an Abort has not ended one of
 * them.
 */
static bool find_overdue(struct nvme_queue *q, uint16_t *cid, bool *late)
{
	const unsigned long flags = spin_lock_irqsave(&q->lock);
	const uint64_t now = time_now_ns();
	struct nvme_slot *s;
	bool found = false;

	list_for_each_entry(s, &q->busy, link) {
		if (now - s->issued_ns <= timeout_s * NSEC_PER_SEC)
			break;
		if (s->aborted_ns) {
			*late |= now - s->aborted_ns > ABORT_NS;
			continue;
		}
		s->aborted_ns = now;
		*cid = le16_to_cpu(s->cmd.cid);
		found = true;
		break;
	}
	spin_unlock_irqrestore(&q->lock, flags);
	return found;
}

/* Abort what is overdue.  True: that does not help. */
static bool abort_overdue(struct nvme *c)
{
	bool late = false;
	uint16_t cid;

	for (unsigned int i = 0; i < c->nr_io; i++) {
		struct nvme_queue *q = &c->io[i];

		nvme_queue_irq(q); /* perhaps only the interrupt is missing */
		while (find_overdue(q, &cid, &late)) {
			counter_inc(&nvme_aborts);
			pr_warn("%s: a command takes too long: aborting it\n", c->name);
			if (nvme_abort(c, q->id, cid))
				return true;
		}
	}
	return late;
}

static void rescue(struct work *w)
{
	struct nvme *c = container_of(w, struct nvme, rescue);
	const char *why = __atomic_load_n(&c->broken, __ATOMIC_ACQUIRE);
	uint32_t csts;

	if (c->dead)
		return;
	if (why) {
		take_out(c, why);
		return;
	}
	csts = nvme_read32(c, NVME_REG_CSTS);
	if (csts == NVME_GONE)
		take_out(c, "it is gone");
	else if (csts & NVME_CSTS_CFS)
		reset(c, "it reports a fatal error");
	else if (!(csts & NVME_CSTS_RDY))
		reset(c, "it has stopped by itself");
	else if (abort_overdue(c))
		reset(c, "it does not answer");
}

void nvme_rescue_init(struct nvme *c, struct workqueue *worker)
{
	c->worker = worker;
	timer_init(&c->watchdog, watchdog, c);
	work_init(&c->rescue, rescue);
}

void nvme_rescue_ready(struct nvme *c)
{
	__atomic_store_n(&c->started, true, __ATOMIC_RELEASE);
	/* An answer without sense that came before. */
	if (__atomic_load_n(&c->broken, __ATOMIC_ACQUIRE))
		work_queue(c->worker, &c->rescue);
}

void nvme_rescue_end(struct nvme *c)
{
	timer_cancel(&c->watchdog);
	work_cancel(&c->rescue);
	work_flush(&c->rescue);
}
