/* SPDX-License-Identifier: MIT */
/*
 * Functions that the files of arch/x86 call in each other at start-up.
 */
#pragma once

#include <arch/percpu.h>
#include <arch/trap.h>
#include <lib/types.h>

struct thread;

/* Image bounds (kernel.lds.S). */
extern char image_start[], image_end[];
extern char text_start[], text_end[];
extern char rodata_start[], rodata_end[];
extern char data_start[];

/* cpu.c */
void cpu_detect(void);
void cpu_init_control(void);
void cpu_set_possible(unsigned int nr);
void cpu_set_online(unsigned int cpu); /* one after the other */
void cpu_init_number(void);

/* gdt.c: descriptor tables and the task state segment of one CPU. */
void gdt_init_cpu(void);
void idt_init(void);
void idt_load(void);
void tss_set_kernel_stack(uint64_t top);
void syscall_init_cpu(void);

/* bootinfo.c */
void boot_info_parse(uint32_t protocol, paddr_t info);
struct boot_info;
/* NULL, or why the boot cannot go on; @bi starts zeroed.  For tests. */
const char *boot_info_read(uint32_t protocol, paddr_t info, struct boot_info *bi);

/* early.c: page-granular memory before the frame allocator. */
void early_alloc_init(void);

/* paging.c */
extern uint64_t kernel_pml4[];
void paging_init(void);
void paging_load_cpu(void);
uint64_t kernel_cr3(void);

/* entry.S */
void user_enter_asm(const struct pt_regs *regs, struct pt_regs *at) __noreturn;
void thread_entry_asm(void);
extern const syscall_fn *syscall_fns;
extern uint64_t syscall_fns_len;

/*
 * fpu.c, for clear_page() in entry.S: the CPU has no fast string instructions, but vector
 * registers.
 */
extern bool clear_page_by_sse;

/* traps.c, for entry.S */
void trap_dispatch(struct pt_regs *regs);
void user_exit_prepare(struct pt_regs *regs);
/* For tests: replace the hooks, returning the old ones. */
const struct user_trap_ops *user_trap_ops_swap(const struct user_trap_ops *ops);

/* mmio.c: whether device accesses take turns; before the other CPUs run threads. */
void mmio_lock_choose(void);

/* irq.c: a vector of 32 or more. */
/* @user: it interrupted user mode. */
void irq_dispatch(unsigned int vector, bool user);

/* apic.c; the machine's local APIC */
void apic_init(void);
void apic_init_cpu(void);
void apic_eoi(void);

/* acpi.c: what the MADT says; zero where it says nothing. */
struct acpi_info {
	paddr_t lapic;
	paddr_t ioapic;
	uint32_t ioapic_gsi_base;
	unsigned int nr_cpus;
	uint32_t apic_ids[MAX_CPUS];
	struct {
		uint32_t gsi;
		uint16_t flags;
		bool set;
	} isa[16];                   /* interrupt source overrides */
	uint16_t pm1a_cnt, pm1b_cnt; /* ports, 0: none */
	uint16_t slp_typ5;
	bool slp_known;
};
extern struct acpi_info acpi_info;
void acpi_init(void);
/* Parse one table already in memory; pure, for tests. */
int acpi_parse_madt(const void *table, size_t len, struct acpi_info *out);
int acpi_parse_s5(const void *table, size_t len, struct acpi_info *out);
