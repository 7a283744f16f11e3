/* SPDX-License-Identifier: MIT */
/*
 * Start-up of the boot CPU in C, from the boot page tables to kernel_main().
 *
 * Ordering:	serial line and exceptions first, so that everything after can be seen
 *		failing; then the memory map, final page tables and the clock.
 */
#define PR_FMT "boot: "

#include <arch/cpu.h>
#include <arch/fpu.h>
#include <arch/percpu.h>
#include <arch/serial.h>
#include <arch/start.h>
#include <arch/tsc.h>
#include <kernel/boot.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/reboot.h>
#include <kernel/time.h>

#include "apic.h"
#include "arch_private.h"

void __noreturn arch_start(uint32_t protocol, uint32_t info);

extern char boot_stack[];

void __noreturn __attribute__((no_stack_protector)) arch_start(uint32_t protocol, uint32_t info)
{
	percpu_write(percpu_offset, 0);
	tsc_scale.base = tsc_read();
	(void)serial_init();
	cpu_detect();
	gdt_init_cpu();
	idt_init();
	idt_load();
	boot_info_parse(protocol, info);
	if (!cpu_features.nx) {
		pr_err("this CPU has no NX bit\n");
		machine_poweroff(EXIT_STATUS_BOOT);
	}
	cpu_init_control();
	early_alloc_init();
	paging_init();
	tsc_init();
	kernel_main();
}

/* Called by kernel_main() once memory is there. */
void arch_init(void)
{
	acpi_init();
	ioapic_init();
	apic_init();
	fpu_init_cpu();
	syscall_init_cpu();
	cpu_init_number();
}
