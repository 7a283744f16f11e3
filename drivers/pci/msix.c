/* SPDX-License-Identifier: MIT */
/*
 * MSI-X: one interrupt vector per entry of a table in the device's memory.
 *
 * Flow:	enable: map the table, mask every entry, set Enable; request: write address and
 *		data, unmask; free: mask, then give the vector back.
 * Ordering:	an entry is written while masked; the mask bit is the last word written.
 */
#include <arch/io.h>
#include <kernel/irq.h>
#include <lib/err.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "pci_priv.h"

static volatile void __iomem *entry_reg(const struct pci_device *dev, unsigned int index,
					unsigned int reg)
{
	return (volatile uint8_t __iomem *)dev->msix_table + index * PCI_MSIX_ENTRY_LEN + reg;
}

static void msix_ctrl_change(struct pci_device *dev, uint16_t clear, uint16_t set)
{
	const unsigned int off = dev->msix_cap + PCI_MSIX_CTRL;
	const uint16_t ctrl = pci_cfg_read16(dev, off);

	pci_cfg_write16(dev, off, (uint16_t)((ctrl & ~clear) | set));
}

static void pci_msix_mask(struct pci_device *dev, unsigned int index)
{
	if (index < dev->msix_nr)
		mmio_write32(entry_reg(dev, index, PCI_MSIX_ENTRY_CTRL), PCI_MSIX_ENTRY_MASKED);
}

static void pci_msix_unmask(struct pci_device *dev, unsigned int index)
{
	if (index < dev->msix_nr)
		mmio_write32(entry_reg(dev, index, PCI_MSIX_ENTRY_CTRL), 0);
}

int pci_msix_enable(struct pci_device *dev)
{
	const unsigned int cap = pci_cap_find(dev, PCI_CAP_MSIX, 0);
	void __iomem *table;
	unsigned int nr;
	uint32_t where;

	if (dev->msix_cap)
		return -EBUSY;
	if (!cap)
		return -ENODEV;

	nr = (pci_cfg_read16(dev, cap + PCI_MSIX_CTRL) & PCI_MSIX_CTRL_SIZE) + 1U;
	where = pci_cfg_read32(dev, cap + PCI_MSIX_TABLE);
	table = pci_bar_map(dev, where & PCI_MSIX_BIR, where & ~PCI_MSIX_BIR,
			    (uint64_t)nr * PCI_MSIX_ENTRY_LEN);
	if (IS_ERR(table))
		return -ENODEV;
	dev->msix = kcalloc(nr, sizeof(*dev->msix));
	if (!dev->msix) {
		mmio_unmap(table);
		return -ENOMEM;
	}
	dev->msix_table = table;
	dev->msix_nr = nr;
	dev->msix_cap = cap;

	/* Enabled but masked as a whole while single entries are masked: no stray message. */
	msix_ctrl_change(dev, 0, PCI_MSIX_CTRL_ENABLE | PCI_MSIX_CTRL_MASKALL);
	for (unsigned int n = 0; n < nr; n++)
		pci_msix_mask(dev, n);
	msix_ctrl_change(dev, PCI_MSIX_CTRL_MASKALL, 0);
	return (int)nr;
}

int pci_msix_request(struct pci_device *dev, unsigned int index, unsigned int cpu, irq_handler_t fn,
		     void *arg, const char *name)
{
	uint64_t addr;
	int vector;

	if (index >= dev->msix_nr)
		return -EINVAL;
	if (dev->msix[index].vector)
		return -EBUSY;
	vector = irq_alloc(fn, arg, name);
	if (vector < 0)
		return vector;

	addr = msi_address((unsigned int)vector, cpu);
	mmio_write32(entry_reg(dev, index, PCI_MSIX_ENTRY_ADDR_LO), (uint32_t)addr);
	mmio_write32(entry_reg(dev, index, PCI_MSIX_ENTRY_ADDR_HI), (uint32_t)(addr >> 32));
	mmio_write32(entry_reg(dev, index, PCI_MSIX_ENTRY_DATA), msi_data((unsigned int)vector));
	dev->msix[index].vector = vector;
	dev->msix[index].cpu = cpu;
	pci_msix_unmask(dev, index);
	return 0;
}

void pci_msix_free(struct pci_device *dev, unsigned int index)
{
	if (index >= dev->msix_nr || !dev->msix[index].vector)
		return;
	pci_msix_mask(dev, index);
	/* Reading back makes sure that the mask has arrived before the vector is reused. */
	(void)mmio_read32(entry_reg(dev, index, PCI_MSIX_ENTRY_CTRL));
	irq_free((unsigned int)dev->msix[index].vector);
	dev->msix[index].vector = 0;
}

void pci_msix_disable(struct pci_device *dev)
{
	if (!dev->msix_cap)
		return;
	for (unsigned int n = 0; n < dev->msix_nr; n++)
		pci_msix_free(dev, n);
	msix_ctrl_change(dev, PCI_MSIX_CTRL_ENABLE, 0);
	mmio_unmap(dev->msix_table);
	kfree(dev->msix);
	dev->msix = NULL;
	dev->msix_table = NULL;
	dev->msix_nr = 0;
	dev->msix_cap = 0;
}
