/* SPDX-License-Identifier: MIT */
/*
 * PCI configuration space: mechanism 1 (ports 0xcf8 and 0xcfc), accessors, capabilities.
 *
 * Locking:	the address/data pair of ports is one register set: cfg_lock, with interrupts off.
 * Limits:	256 bytes of configuration space, as all devices that we drive need no more.
 */
#include <arch/io.h>
#include <kernel/spinlock.h>

#include "pci_priv.h"

#define CFG_ADDR_PORT 0xcf8
#define CFG_DATA_PORT 0xcfc
#define CFG_ENABLE    0x80000000U
#define CFG_LEN       256

static struct spinlock cfg_lock = SPINLOCK_INIT("pci_cfg", RANK_LEAF);

static uint32_t port_cfg_read(void *arg, unsigned int bdf, unsigned int off, unsigned int width)
{
	const uint16_t port = (uint16_t)(CFG_DATA_PORT + (off & 3));
	unsigned long flags;
	uint32_t val;

	flags = spin_lock_irqsave(&cfg_lock);
	outl(CFG_ADDR_PORT, CFG_ENABLE | bdf << 8 | (off & 0xfc));
	if (width == 1)
		val = inb(port);
	else if (width == 2)
		val = inw(port);
	else
		val = inl(port);
	spin_unlock_irqrestore(&cfg_lock, flags);
	return val;
}

static void port_cfg_write(void *arg, unsigned int bdf, unsigned int off, unsigned int width,
			   uint32_t val)
{
	const uint16_t port = (uint16_t)(CFG_DATA_PORT + (off & 3));
	unsigned long flags;

	flags = spin_lock_irqsave(&cfg_lock);
	outl(CFG_ADDR_PORT, CFG_ENABLE | bdf << 8 | (off & 0xfc));
	if (width == 1)
		outb(port, (uint8_t)val);
	else if (width == 2)
		outw(port, (uint16_t)val);
	else
		outl(port, val);
	spin_unlock_irqrestore(&cfg_lock, flags);
}

const struct pci_cfg_ops pci_port_cfg_ops = {
	.read = port_cfg_read,
	.write = port_cfg_write,
};

static bool cfg_off_ok(unsigned int off, unsigned int width)
{
	return off <= CFG_LEN - width && !(off & (width - 1));
}

uint8_t pci_cfg_read8(const struct pci_device *dev, unsigned int off)
{
	return cfg_off_ok(off, 1) ? (uint8_t)dev->cfg->read(dev->cfg->arg, dev->bdf, off, 1) : 0xff;
}

uint16_t pci_cfg_read16(const struct pci_device *dev, unsigned int off)
{
	return cfg_off_ok(off, 2) ? (uint16_t)dev->cfg->read(dev->cfg->arg, dev->bdf, off, 2)
				  : 0xffff;
}

uint32_t pci_cfg_read32(const struct pci_device *dev, unsigned int off)
{
	return cfg_off_ok(off, 4) ? dev->cfg->read(dev->cfg->arg, dev->bdf, off, 4) : ~0U;
}

void pci_cfg_write8(const struct pci_device *dev, unsigned int off, uint8_t val)
{
	if (cfg_off_ok(off, 1))
		dev->cfg->write(dev->cfg->arg, dev->bdf, off, 1, val);
}

void pci_cfg_write16(const struct pci_device *dev, unsigned int off, uint16_t val)
{
	if (cfg_off_ok(off, 2))
		dev->cfg->write(dev->cfg->arg, dev->bdf, off, 2, val);
}

void pci_cfg_write32(const struct pci_device *dev, unsigned int off, uint32_t val)
{
	if (cfg_off_ok(off, 4))
		dev->cfg->write(dev->cfg->arg, dev->bdf, off, 4, val);
}

unsigned int pci_cap_find(const struct pci_device *dev, enum pci_cap_id id, unsigned int after)
{
	bool behind = after == 0;
	uint64_t seen = 0; /* one bit a dword: a loop ends the walk */
	unsigned int pos;

	if (!(pci_cfg_read16(dev, PCI_CFG_STATUS) & PCI_STATUS_CAP_LIST))
		return 0;

	pos = pci_cfg_read8(dev, PCI_CFG_CAP_PTR) & 0xfcU;
	while (pos >= 0x40 && !(seen & BIT64(pos / 4))) {
		const uint16_t head = pci_cfg_read16(dev, pos);

		seen |= BIT64(pos / 4);
		if ((head & 0xff) == 0xff)
			return 0;
		if (behind && (head & 0xff) == (unsigned int)id)
			return pos;
		if (pos == after)
			behind = true;
		pos = head >> 8 & 0xfcU;
	}
	return 0;
}
