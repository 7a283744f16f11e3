/* SPDX-License-Identifier: MIT */
/*
 * Legacy interrupt controllers: the PIC and all pins of the first I/O APIC are masked for good;
 * devices use MSI and MSI-X.
 *
 * Context:	start-up on the boot CPU only.
 */
#define PR_FMT "ioapic: "

#include <arch/io.h>
#include <kernel/irq.h>
#include <kernel/printk.h>
#include <mm/kmap.h>

#include "apic.h"
#include "arch_private.h"

#define IOREGSEL       0x00u
#define IOWIN          0x10u
#define REG_VER        0x01u
#define REG_REDIR(pin) (0x10u + 2u * (pin))

#define REDIR_MASKED BIT(16)

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
