/* SPDX-License-Identifier: MIT */
/*
 * PCI base address registers: sizing, and addresses for those that firmware left without.
 *
 * Context:	boot, one thread; over pci_cfg_ops, so tests run it on a fake bus.
 * Failure:	a BAR is the device's word: a size that is no power of two, or a 64-bit BAR in the
 *		last register, counts as absent.
 */
#include "pci_priv.h"

static uint32_t bar_swap_ones(const struct pci_device *dev, unsigned int bar)
{
	const unsigned int off = PCI_CFG_BAR0 + 4 * bar;
	const uint32_t old = pci_cfg_read32(dev, off);
	uint32_t mask;

	pci_cfg_write32(dev, off, ~0U);
	mask = pci_cfg_read32(dev, off);
	pci_cfg_write32(dev, off, old);
	return mask;
}

/* Bytes decoded, from the register's writable bits: the lowest one is the size. */
static uint64_t bar_size(uint64_t mask)
{
	const uint64_t low = mask & -mask;

	/* The writable bits must run from the lowest to the top without a hole. */
	return mask + low == 0 ? low : 0;
}

/* Returns how many registers the BAR takes. */
static unsigned int bar_probe(struct pci_device *dev, unsigned int n)
{
	const unsigned int off = PCI_CFG_BAR0 + 4 * n;
	const uint32_t reg = pci_cfg_read32(dev, off);
	const uint32_t mask = bar_swap_ones(dev, n);
	struct pci_bar *bar = &dev->bars[n];

	*bar = (struct pci_bar){ 0 };
	if (mask == 0 || mask == ~0U)
		return 1;

	if (mask & PCI_BAR_IO) {
		/* A device may implement only the low 16 bits. */
		bar->len = bar_size((mask & PCI_BAR_IO_MASK) | 0xffffffff00000000ULL |
				    ((mask & 0xffff0000) ? 0 : 0xffff0000));
		bar->addr = reg & PCI_BAR_IO_MASK;
		bar->flags = PCI_BAR_F_IO;
		return 1;
	}

	if (reg & PCI_BAR_PREFETCH)
		bar->flags |= PCI_BAR_F_PREFETCH;
	bar->addr = reg & PCI_BAR_MEM_MASK;
	if ((reg & PCI_BAR_TYPE_MASK) != PCI_BAR_TYPE_64) {
		bar->len = bar_size((mask & PCI_BAR_MEM_MASK) | 0xffffffff00000000ULL);
		return 1;
	}

	if (n + 1 >= PCI_NR_BARS)
		return 1;
	bar->flags |= PCI_BAR_F_64;
	bar->addr |= (uint64_t)pci_cfg_read32(dev, off + 4) << 32;
	bar->len = (uint64_t)bar_swap_ones(dev, n + 1) << 32 | (mask & PCI_BAR_MEM_MASK);
	/* Some emulated devices leave the high half unimplemented: then it is a 32-bit window. */
	if (bar->len >> 32 == 0)
		bar->len |= 0xffffffff00000000ULL;
	bar->len = bar_size(bar->len);
	dev->bars[n + 1] = (struct pci_bar){ 0 };
	return 2;
}

void pci_bars_probe(struct pci_device *dev)
{
	const uint16_t cmd = pci_cfg_read16(dev, PCI_CFG_COMMAND);
	const uint8_t type = pci_cfg_read8(dev, PCI_CFG_HEADER_TYPE) & PCI_HEADER_TYPE_MASK;
	const unsigned int nr = type == PCI_HEADER_BRIDGE ? 2 : PCI_NR_BARS;

	/* While a BAR holds all ones it must not decode. */
	pci_cfg_write16(dev, PCI_CFG_COMMAND,
			cmd & (uint16_t)~(PCI_COMMAND_IO | PCI_COMMAND_MEMORY));
	for (unsigned int n = 0; n < nr;)
		n += bar_probe(dev, n);
	pci_cfg_write16(dev, PCI_CFG_COMMAND, cmd);

	for (unsigned int n = 0; n < nr; n++) {
		struct pci_bar *bar = &dev->bars[n];

		if (bar->len && (!bar->addr || bar->addr & (bar->len - 1) ||
				 bar->addr + (bar->len - 1) < bar->addr))
			bar->flags |= PCI_BAR_F_UNASSIGNED;
	}
}

static bool pci_bar_claims(const struct pci_bar *bar, uint64_t start, uint64_t end)
{
	if (!bar->len || bar->flags & (PCI_BAR_F_IO | PCI_BAR_F_UNASSIGNED))
		return false;
	return bar->addr < end && bar->addr + (bar->len - 1) >= start;
}

/* The end of a claimed range that overlaps [start, start + len), or 0. */
static uint64_t window_conflict(uint64_t start, uint64_t len, const struct list_head *devices)
{
	struct pci_device *dev;

	list_for_each_entry(dev, devices, node) {
		for (unsigned int n = 0; n < PCI_NR_BARS; n++) {
			const struct pci_bar *bar = &dev->bars[n];

			if (pci_bar_claims(bar, start, start + len))
				return bar->addr + bar->len;
		}
	}
	return 0;
}

uint64_t pci_window_alloc(struct pci_window *win, uint64_t len, const struct list_head *devices)
{
	uint64_t start = ALIGN_UP(win->start, len);

	while (start >= win->start && start < win->end && len <= win->end - start) {
		const uint64_t taken_end = window_conflict(start, len, devices);

		if (!taken_end)
			return start;
		start = ALIGN_UP(taken_end, len);
	}
	return 0;
}

void pci_bar_assign(struct pci_device *dev, unsigned int n, uint64_t addr)
{
	const unsigned int off = PCI_CFG_BAR0 + 4 * n;
	struct pci_bar *bar = &dev->bars[n];
	const uint16_t cmd = pci_cfg_read16(dev, PCI_CFG_COMMAND);

	pci_cfg_write16(dev, PCI_CFG_COMMAND,
			cmd & (uint16_t)~(PCI_COMMAND_IO | PCI_COMMAND_MEMORY));
	pci_cfg_write32(dev, off, (uint32_t)addr);
	if (bar->flags & PCI_BAR_F_64)
		pci_cfg_write32(dev, off + 4, (uint32_t)(addr >> 32));
	pci_cfg_write16(dev, PCI_CFG_COMMAND, cmd);
	bar->addr = addr;
	bar->flags &= ~(uint32_t)PCI_BAR_F_UNASSIGNED;
}
