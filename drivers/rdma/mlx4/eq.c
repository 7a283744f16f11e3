/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: event queues.
 *
 * Flow:	one queue for asynchronous events and command completions (vector 0), one per
 *		CPU for completions (vectors 1..).  The interrupt handler takes all entries,
 *		passes them on, and arms the queue by one register write.
 * Context:	interrupt.  Completion events are delivered there; other asynchronous events go
 *		to the device's thread, commands to their waiters.
 * Ordering:	owner bit, dma_rmb(), the rest of the entry.
 */
#include <arch/barrier.h>
#include <arch/cpu.h>
#include <arch/io.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "hw.h"
#include "mlx4.h"

#define PR_FMT "mlx4: "
#include <kernel/printk.h>

COUNTER(cnt_irqs, "mlx4.interrupts", "interrupts taken, of all vectors");

static uint32_t max_vectors = MAX_COMP_EQS;
BOOT_PARAM("mlx4.vectors", u32, max_vectors,
	   "completion interrupts at most (default: one per CPU, as many as the device has)");

#define NOP_IM       0x1f
#define EQ_MAP_UNMAP BIT(31)

static struct mlx4_hw_eqe *eqe_at(const struct mlx4_eq *eq, uint32_t ci)
{
	return (struct mlx4_hw_eqe *)eq->buf.virt + (ci & (eq->nr - 1));
}

static bool eqe_ready(const struct mlx4_eq *eq, uint32_t ci)
{
	return !!(READ_ONCE(eqe_at(eq, ci)->owner) & EQE_OWNER) == !!(ci & eq->nr);
}

static void eq_doorbell(const struct mlx4_eq *eq, bool arm)
{
	uint8_t __iomem *page =
		(uint8_t __iomem *)eq->dev->uars + (size_t)(eq->eqn >> 2) * MLX4_PAGE_LEN;

	doorbell_write32be(page + UAR_EQ_DOORBELL + 8 * (eq->eqn & 3),
			   (eq->ci & 0xffffff) | (arm ? UAR_EQ_ARM : 0));
	rdma_count_mmio(1);
}

static void eqe_handle(struct mlx4_dev *dev, const struct mlx4_hw_eqe *eqe)
{
	struct mlx4_async ev = { .type = eqe->type, .subtype = eqe->subtype };

	switch (ev.type) {
	case EVENT_COMP:
		mlx4_cq_event(dev, be32_to_cpu(eqe->object.num) & EQE_NUM_MASK);
		return;
	case EVENT_CMD:
		mlx4_cmd_event(dev, be16_to_cpu(eqe->cmd.token), eqe->cmd.status,
			       be64_to_cpu(eqe->cmd.out));
		return;
	case EVENT_PORT_CHANGE:
		ev.port = (uint8_t)(be32_to_cpu(eqe->port_change.port) >> EQE_PORT_SH);
		break;
	case EVENT_PORT_MGMT:
		ev.port = eqe->port_mgmt.port;
		break;
	default:
		ev.num = be32_to_cpu(eqe->object.num) & EQE_NUM_MASK;
		ev.syndrome = eqe->object.syndrome;
		break;
	}
	mlx4_async_push(dev, &ev);
}

static void eq_interrupt(unsigned int vector, void *arg)
{
	struct mlx4_eq *eq = arg;
	uint32_t taken = 0;

	counter_inc(&cnt_irqs);
	atomic_xchg(&eq->running, 1); /* full barrier: pairs with mlx4_eq_sync() */
	while (eqe_ready(eq, eq->ci)) {
		dma_rmb(); /* the owner bit before the contents */
		eqe_handle(eq->dev, eqe_at(eq, eq->ci));
		eq->ci++;
		/* Tell the device in time that there is room. */
		if (++taken % (eq->nr / 2) == 0)
			eq_doorbell(eq, false);
	}
	if (!mlx4_is_off(eq->dev))
		eq_doorbell(eq, true);
	atomic_set_release(&eq->running, 0);
}

void mlx4_eq_sync(struct mlx4_eq *eq)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	while (atomic_read_acquire(&eq->running))
		cpu_relax();
}

static void eq_context_fill(const struct mlx4_eq *eq, struct mlx4_hw_eqc *ctx)
{
	ctx->flags = cpu_to_be32(EQC_STATE_ARMED << EQC_STATE_SH);
	ctx->log_eqes = (uint8_t)(31 - __builtin_clz(eq->nr));
	ctx->vector = (uint8_t)eq->vector;
	mlx4_buf_fill(&eq->buf, &ctx->buf);
}

static int eq_to_hw(struct mlx4_eq *eq)
{
	struct mlx4_mbox mbox;
	int err;

	err = mlx4_mbox_get(&mbox);
	if (err)
		return err;
	eq_context_fill(eq, mbox.virt);
	err = mlx4_cmd_in(eq->dev, CMD_SW2HW_EQ, 0, eq->eqn, &mbox);
	mlx4_mbox_put(&mbox);
	return err;
}

static void eq_destroy(struct mlx4_eq *eq)
{
	struct mlx4_dev *dev = eq->dev;

	if (!dev)
		return;
	if (eq->live && mlx4_cmd_none(dev, CMD_HW2SW_EQ, 1, eq->eqn) && !mlx4_is_dead(dev))
		mlx4_fatal(dev, "event queue could not be taken back");
	eq->live = false;
	if (eq->irq)
		pci_msix_free(dev->pci, eq->vector);
	eq->irq = false;
	mlx4_buf_free(dev, &eq->buf);
	eq->dev = NULL;
}

/* Give an empty queue to the device, and its interrupt to a CPU. */
static int eq_start(struct mlx4_eq *eq)
{
	const unsigned int cpu = eq->vector ? (eq->vector - 1) % cpu_online_count() : 0;
	int err;

	eq->ci = 0;
	/* Until the device has filled it, every entry is the device's. */
	for (uint32_t n = 0; n < eq->nr; n++)
		eqe_at(eq, n)->owner = EQE_OWNER;
	err = eq_to_hw(eq);
	if (err)
		return err;
	eq->live = true;
	err = pci_msix_request(eq->dev->pci, eq->vector, cpu, eq_interrupt, eq, eq->name);
	if (err)
		return err;
	eq->irq = true;
	eq_doorbell(eq, true);
	return 0;
}

static int eq_create(struct mlx4_dev *dev, struct mlx4_eq *eq, uint32_t eqn, uint32_t nr,
		     unsigned int vector)
{
	int err;

	eq->dev = dev;
	eq->eqn = eqn;
	eq->nr = nr;
	eq->vector = vector;
	atomic_set(&eq->running, 0);
	atomic_set(&eq->nr_cqs, 0);
	if (vector)
		snprintf(eq->name, sizeof(eq->name), "mlx4-comp%u", vector - 1);
	else
		snprintf(eq->name, sizeof(eq->name), "mlx4-async");

	err = mlx4_buf_alloc(dev, (uint64_t)nr * EQE_LEN, &eq->buf);
	if (err)
		return err;
	return eq_start(eq);
}

static int async_events_map(struct mlx4_dev *dev, bool on)
{
	uint64_t mask = EVENT_MASK;
	const struct mlx4_cmd_args args = {
		.op = CMD_MAP_EQ,
		.in_mod = dev->async_eq.eqn | (on ? 0 : EQ_MAP_UNMAP),
		.in = mask | (dev->caps.flags & CAP_PORT_MGMT_EV ? BIT64(EVENT_PORT_MGMT) : 0),
	};

	return mlx4_cmd(dev, &args);
}

int mlx4_eqs_create(struct mlx4_dev *dev)
{
	const uint32_t nr_eqs = 1U << dev->prof.log_eqs;
	/* Doorbells of the event queues in a reserved page are reserved with it. */
	const uint32_t first = MAX(1U << dev->caps.log_reserved_eqs, 4 * dev->caps.reserved_uars);
	unsigned int want = MIN(cpu_online_count(), (unsigned int)MAX_COMP_EQS);
	int vectors, err;

	vectors = pci_msix_enable(dev->pci);
	if (vectors < 2) {
		pr_err("%s: no MSI-X interrupts: error %d\n", dev->name, vectors);
		return vectors < 0 ? vectors : -ENOSPC;
	}
	if (first + 2 > nr_eqs)
		return -ENOSPC;
	want = MIN(want, MAX(max_vectors, 1U));
	want = MIN(want, (unsigned int)vectors - 1);
	want = MIN(want, nr_eqs - first - 1);
	dev->comp_eqs = kcalloc(want, sizeof(*dev->comp_eqs));
	if (!dev->comp_eqs)
		return -ENOMEM;
	dev->nr_comp_eqs = want;

	err = eq_create(dev, &dev->async_eq, first, ASYNC_EQ_ENTRIES, 0);
	for (unsigned int n = 0; n < want && !err; n++)
		err = eq_create(dev, &dev->comp_eqs[n], first + 1 + n, COMP_EQ_ENTRIES, n + 1);
	if (err)
		return err;
	return async_events_map(dev, true);
}

void mlx4_eqs_destroy(struct mlx4_dev *dev)
{
	/* From here on polled: what would tell us of a command's end is going away. */
	mlx4_cmd_events_off(dev);
	if (dev->async_eq.live && async_events_map(dev, false) && !mlx4_is_dead(dev))
		pr_warn("%s: events could not be switched off\n", dev->name);
	for (unsigned int n = 0; dev->comp_eqs && n < dev->nr_comp_eqs; n++)
		eq_destroy(&dev->comp_eqs[n]);
	eq_destroy(&dev->async_eq);
	kfree(dev->comp_eqs);
	dev->comp_eqs = NULL;
	dev->nr_comp_eqs = 0;
	pci_msix_disable(dev->pci);
}

static void eq_suspend(struct mlx4_eq *eq)
{
	if (eq->irq)
		pci_msix_free(eq->dev->pci, eq->vector);
	eq->irq = false;
	eq->live = false;
}

void mlx4_eqs_suspend(struct mlx4_dev *dev)
{
	for (unsigned int n = 0; n < dev->nr_comp_eqs; n++)
		eq_suspend(&dev->comp_eqs[n]);
	eq_suspend(&dev->async_eq);
	pci_msix_disable(dev->pci);
}

int mlx4_eqs_resume(struct mlx4_dev *dev)
{
	const int vectors = pci_msix_enable(dev->pci);
	int err;

	if (vectors <= (int)dev->nr_comp_eqs) {
		pr_err("%s: no MSI-X interrupts any more: error %d\n", dev->name, vectors);
		return vectors < 0 ? vectors : -ENOSPC;
	}
	err = eq_start(&dev->async_eq);
	for (unsigned int n = 0; n < dev->nr_comp_eqs && !err; n++)
		err = eq_start(&dev->comp_eqs[n]);
	return err ? err : async_events_map(dev, true);
}

int mlx4_eqs_test(struct mlx4_dev *dev)
{
	int err;

	err = mlx4_cmd_events_on(dev);
	if (err)
		return err;
	err = mlx4_cmd_none(dev, CMD_NOP, 0, NOP_IM);
	if (err)
		pr_err("%s: interrupts do not arrive\n", dev->name);
	return err;
}
