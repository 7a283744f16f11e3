/* SPDX-License-Identifier: MIT */
/*
 * Legacy interrupt controllers: the PIC is masked for good, the first I/O APIC
 * routes ISA lines on request.
 *
 * Locking:	ioapic_lock around the index/data register pair.
 */
#define PR_FMT "ioapic: "

#include <arch/io.h>
#include <kernel/irq.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <lib/errno.h>
#include <mm/kmap.h>

#include "apic.h"
#include "arch_private.h"

#define IOREGSEL       0x00u
#define IOWIN          0x10u
#define REG_VER        0x01u
#define REG_REDIR(pin) (0x10u + 2u * (pin))

#define REDIR_MASKED     BIT(16)
#define REDIR_LEVEL      BIT(15)
#define REDIR_ACTIVE_LOW BIT(13)

/* MADT flags of an interrupt source override */
#define MPS_POLARITY_LOW  0x3u
#define MPS_TRIGGER_LEVEL 0xcu

static struct spinlock ioapic_lock = SPINLOCK_INIT("ioapic", RANK_LEAF);
static char __iomem *ioapic;
static unsigned int nr_pins;

static uint32_t ioapic_read(uint32_t reg)
{
	mmio_write32(ioapic + IOREGSEL, reg);
	return mmio_read32(ioapic + IOWIN);
}

static void ioapic_write(uint32_t reg, uint32_t val)
{
	mmio_write32(ioapic + IOREGSEL, reg);
	mmio_write32(ioapic + IOWIN, val);
}

static void pic_mask(void)
{
	outb(0x20, 0x11); /* ICW1: initialise, ICW4 follows */
	outb(0xa0, 0x11);
	outb(0x21, VECTOR_PIC);
	outb(0xa1, VECTOR_PIC + 8);
	outb(0x21, 4); /* slave on line 2 */
	outb(0xa1, 2);
	outb(0x21, 1); /* 8086 mode */
	outb(0xa1, 1);
	outb(0x21, 0xff);
	outb(0xa1, 0xff);
}

void ioapic_init(void)
{
	pic_mask();
	if (!acpi_info.ioapic)
		return;
	ioapic = mmio_map(acpi_info.ioapic, PAGE_SIZE);
	if (!ioapic) {
		pr_warn("cannot map the I/O APIC\n");
		return;
	}
	nr_pins = (ioapic_read(REG_VER) >> 16 & 0xff) + 1;
	for (unsigned int pin = 0; pin < nr_pins; pin++)
		ioapic_write(REG_REDIR(pin), REDIR_MASKED);
}

int irq_route_isa(unsigned int line, unsigned int vector)
{
	uint32_t gsi = line;
	uint32_t low = vector;
	unsigned long flags;

	if (!ioapic || line >= ARRAY_SIZE(acpi_info.isa))
		return -ENODEV;
	if (acpi_info.isa[line].set) {
		gsi = acpi_info.isa[line].gsi;
		if ((acpi_info.isa[line].flags & 0x3) == MPS_POLARITY_LOW)
			low |= REDIR_ACTIVE_LOW;
		if ((acpi_info.isa[line].flags & 0xc) == MPS_TRIGGER_LEVEL)
			low |= REDIR_LEVEL;
	}
	if (gsi < acpi_info.ioapic_gsi_base || gsi - acpi_info.ioapic_gsi_base >= nr_pins)
		return -ENODEV;
	gsi -= acpi_info.ioapic_gsi_base;
	flags = spin_lock_irqsave(&ioapic_lock);
	ioapic_write(REG_REDIR(gsi) + 1, apic_id_of_cpu(0) << 24);
	ioapic_write(REG_REDIR(gsi), low);
	spin_unlock_irqrestore(&ioapic_lock, flags);
	return 0;
}
