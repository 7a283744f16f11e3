/* SPDX-License-Identifier: MIT */
/*
 * NVMe controllers on PCI: nvme0, nvme1, ... in bus order; their disks are nvme0n1, nvme0n2, ...
 *
 * Context:	the probe: the boot thread.  fence(): the rescue worker.
 * Failure:	a controller without MSI-X is refused: the driver does not poll.
 * Limits:	controllers that QEMU makes; others have ids that the table does not list.
 * See:		docs/drivers/nvme.md
 */
#define PR_FMT "nvme: "

#include <arch/cpu.h>
#include <drivers/pci.h>
#include <kernel/printk.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "nvme_priv.h"

static unsigned int nr_controllers;
static struct workqueue *worker; /* const after the first probe */

static void admin_irq(unsigned int vector, void *arg)
{
	struct nvme *c = arg;

	(void)vector;
	nvme_queue_irq(&c->admin);
	/* With one vector for all there is one queue beside; before it is open it takes nothing. */
	if (c->nr_vectors == 1) {
		struct nvme_queue *io = __atomic_load_n(&c->io, __ATOMIC_ACQUIRE);

		if (io && __atomic_load_n(&io->c, __ATOMIC_ACQUIRE))
			nvme_queue_irq(io);
	}
}

static void io_irq(unsigned int vector, void *arg)
{
	(void)vector;
	nvme_queue_irq(arg);
}

static int bind(struct nvme *c, struct nvme_queue *q)
{
	const unsigned int vector = nvme_vector(q);

	if (!q->id)
		return pci_msix_request(c->bus_data, 0, 0, admin_irq, c, c->name);
	if (!vector)
		return 0; /* the admin queue's */
	return pci_msix_request(c->bus_data, vector, (q->id - 1) % cpu_online_count(), io_irq, q,
				c->name);
}

static void fence(struct nvme *c)
{
	pci_set_master(c->bus_data, false);
}

static void unbind(struct nvme *c)
{
	pci_msix_disable(c->bus_data);
}

static const struct nvme_bus pci_bus = { .bind = bind, .fence = fence, .unbind = unbind };

static int probe_with_registers(struct pci_device *pci, struct nvme *c)
{
	const int nr = pci_msix_enable(pci);
	int err;

	if (nr < 1) {
		pr_err("%s (%s): needs MSI-X\n", c->name, pci_name(pci));
		return -ENODEV;
	}
	c->nr_vectors = (unsigned int)nr;
	pci_set_master(pci, true);
	nvme_rescue_init(c, worker);
	err = nvme_start(c, cpu_online_count());
	if (err)
		nvme_free(c);
	return err;
}

static int nvme_probe(struct pci_device *pci, const struct pci_id *id)
{
	void __iomem *regs;
	struct nvme *c;
	int err;

	(void)id;
	if (!worker) {
		worker = workqueue_create("nvme", 1);
		if (IS_ERR(worker)) {
			err = (int)PTR_ERR(worker);
			worker = NULL;
			return err;
		}
	}
	pci_enable(pci);
	regs = pci_bar_map(pci, 0, 0, 0);
	if (IS_ERR((const void *)(uintptr_t)regs))
		return (int)PTR_ERR((const void *)(uintptr_t)regs);
	c = kzalloc(sizeof(*c));
	if (!c) {
		mmio_unmap(regs);
		return -ENOMEM;
	}
	snprintf(c->name, sizeof(c->name), "nvme%u", nr_controllers);
	c->bus = &pci_bus;
	c->bus_data = pci;
	c->regs = regs;
	c->regs_len = pci_bar_len(pci, 0);
	err = probe_with_registers(pci, c);
	if (err) {
		mmio_unmap(regs);
		kfree(c);
		return err;
	}
	nr_controllers++;
	return 0;
}

static const struct pci_id nvme_ids[] = {
	{ 0x1b36, 0x0010 }, /* QEMU */
	{ 0x8086, 0x5845 }, /* QEMU with use-intel-id=on */
	{ 0, 0 },
};
static const struct pci_driver nvme_driver = {
	.name = "nvme",
	.ids = nvme_ids,
	.probe = nvme_probe,
};
PCI_DRIVER(nvme_driver);
