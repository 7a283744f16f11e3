/* SPDX-License-Identifier: MIT */
/*
 * Leaving the machine: QEMU's isa-debug-exit, ACPI S5, keyboard controller.
 */
#include <arch/cpu.h>
#include <arch/io.h>
#include <arch/serial.h>
#include <kernel/reboot.h>

#include "arch_private.h"

#define DEBUG_EXIT_PORT 0xf4
#define KBC_CMD         0x64
#define KBC_RESET       0xfe
#define PM1_SLP_EN      BIT(13)

void machine_halt(void)
{
	for (;;)
		__asm__ volatile("cli; hlt" ::: "memory");
}

void machine_poweroff(unsigned int status)
{
	local_irq_disable();
	/* Port 0xf4 belongs to no PC device; still, only a virtual machine is asked this way. */
	if (cpu_is_virtual())
		outl(DEBUG_EXIT_PORT, status);
	if (acpi_info.slp_known && acpi_info.pm1a_cnt) {
		outw(acpi_info.pm1a_cnt, (uint16_t)((acpi_info.slp_typ5 & 7) << 10 | PM1_SLP_EN));
		if (acpi_info.pm1b_cnt)
			outw(acpi_info.pm1b_cnt,
			     (uint16_t)((acpi_info.slp_typ5 >> 8 & 7) << 10 | PM1_SLP_EN));
	}
	machine_halt();
}

void machine_reboot(void)
{
	local_irq_disable();
	for (unsigned int i = 0; i < 100000 && (inb(KBC_CMD) & 2); i++)
		;
	outb(KBC_CMD, KBC_RESET);
	machine_halt();
}
