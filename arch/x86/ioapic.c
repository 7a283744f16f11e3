/* SPDX-License-Identifier: MIT */
/*
 * Legacy interrupt controllers: the PIC is masked for good, and so are the pins of the first I/O
 * APIC but for those that a driver asks for. Devices use MSI and MSI-X where they can.
 *
 * Context:	start-up on the boot CPU; a line is masked in any context.
 * Locking:	ioapic_lock (RANK_LEAF) guards the pair of registers.
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

#define REDIR_LOW        BIT(13)
#define REDIR_LEVEL      BIT(15)
#define REDIR_MASKED     BIT(16)
#define REDIR_DEST_SHIFT 24

/* Flags of an override in the MADT. */
#define MADT_POLARITY 3u
#define MADT_LOW      3u
#define MADT_TRIGGER  (3u << 2)
#define MADT_LEVEL    (3u << 2)

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

/* The vector, edge or level, and polarity of @pin: as the MADT says, or as PCI has it. */
static uint32_t redirection(unsigned int pin, unsigned int vector)
{
	const uint32_t gsi = acpi_info.ioapic_gsi_base + pin;
	uint32_t flags = MADT_LOW | MADT_LEVEL;

	for (unsigned int i = 0; i < ARRAY_SIZE(acpi_info.isa); i++) {
		if (acpi_info.isa[i].set && acpi_info.isa[i].gsi == gsi)
			flags = acpi_info.isa[i].flags;
	}
	return vector | ((flags & MADT_POLARITY) == MADT_LOW ? REDIR_LOW : 0) |
	       ((flags & MADT_TRIGGER) == MADT_LEVEL ? REDIR_LEVEL : 0);
}

int irq_line_route(unsigned int line, unsigned int vector)
{
	const unsigned int pin = line - acpi_info.ioapic_gsi_base;
	unsigned long flags;

	if (!ioapic || pin >= nr_pins)
		return -ENODEV;
	flags = spin_lock_irqsave(&ioapic_lock);
	/* To the boot CPU. The word with the mask comes last. */
	ioapic_write(REG_REDIR(pin) + 1, apic_id_of_cpu(0) << REDIR_DEST_SHIFT);
	ioapic_write(REG_REDIR(pin), redirection(pin, vector));
	spin_unlock_irqrestore(&ioapic_lock, flags);
	return 0;
}

void irq_line_mask(unsigned int line)
{
	const unsigned int pin = line - acpi_info.ioapic_gsi_base;
	unsigned long flags;

	if (!ioapic || pin >= nr_pins)
		return;
	flags = spin_lock_irqsave(&ioapic_lock);
	ioapic_write(REG_REDIR(pin), REDIR_MASKED);
	spin_unlock_irqrestore(&ioapic_lock, flags);
}
