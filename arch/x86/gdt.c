/* SPDX-License-Identifier: MIT */
/*
 * Descriptor tables of each CPU: GDT, TSS with its interrupt stacks, IDT, and
 * the system call MSRs.
 *
 * Flow:	Stacks: #DF, NMI, #MC and #DB have stacks of their own (IST), because they come when
 *		the current one cannot be trusted: a data breakpoint that MOV SS hits is told at the
 *		first instruction of the system call behind it, which has the user's stack still.
 *		Above each of these stacks lies the CPU's per-CPU offset, from which entry.S
 *		restores the GS base whatever the interrupted code had there.
 * Ordering:	user data before user code, as SYSRET wants it.
 */
#include <arch/cpu.h>
#include <arch/percpu.h>
#include <arch/trap.h>
#include <lib/string.h>

#include "arch_private.h"

#define IST_DF  1u
#define IST_NMI 2u
#define IST_MC  3u
#define IST_DB  4u
#define NR_IST  4u

#define IST_STACK_SIZE 8192u

struct tss {
	uint32_t reserved0;
	uint64_t rsp[3];
	uint64_t reserved1;
	uint64_t ist[7];
	uint64_t reserved2;
	uint16_t reserved3;
	uint16_t iomap_base;
} __packed;
static_assert(sizeof(struct tss) == 104, "TSS is hardware layout");

struct idt_gate {
	uint16_t offset_lo;
	uint16_t selector;
	uint8_t ist;
	uint8_t attr;
	uint16_t offset_mid;
	uint32_t offset_hi;
	uint32_t reserved;
};
static_assert(sizeof(struct idt_gate) == 16, "IDT gate is hardware layout");

struct desc_ptr {
	uint16_t limit;
	uint64_t base;
} __packed;

struct ist_stack {
	uint8_t bytes[IST_STACK_SIZE];
	uint64_t gs_base; /* read by entry.S */
	uint64_t pad;
};

#define GDT_ENTRIES 9u
#define GATE_KERNEL 0x8e /* present, DPL 0, interrupt gate */
#define GATE_USER   0xee /* DPL 3: int3 and into */

static DEFINE_PERCPU(uint64_t, gdt[GDT_ENTRIES]);
static DEFINE_PERCPU(struct tss, cpu_tss) __aligned(16);
static DEFINE_PERCPU(struct ist_stack, ist_stacks[NR_IST]) __aligned(16);
static struct idt_gate idt[256] __aligned(16);

extern const uint64_t trap_stubs[256]; /* entry.S */
void syscall_entry(void);
void syscall_entry_compat(void);

DEFINE_PERCPU(uint64_t, kernel_stack_top); /* entry.S: stack of the current thread */

void gdt_init_cpu(void)
{
	uint64_t *g = this_cpu_ptr(&gdt[0]);
	struct tss *tss = this_cpu_ptr(&cpu_tss);
	const uint64_t base = (uint64_t)tss;
	struct desc_ptr ptr = { .limit = sizeof(gdt) - 1, .base = (uint64_t)g };

	for (unsigned int i = 0; i < NR_IST; i++) {
		struct ist_stack *s = this_cpu_ptr(&ist_stacks[i]);

		s->gs_base = percpu_read(percpu_offset);
		tss->ist[i] = (uint64_t)&s->gs_base;
	}
	tss->iomap_base = sizeof(*tss);
	g[0] = 0;
	g[SEL_KERNEL_CS >> 3] = 0x00af9b000000ffffull;
	g[SEL_KERNEL_DS >> 3] = 0x00cf93000000ffffull;
	g[3] = 0;
	g[4] = 0; /* base of the SYSRET selectors; 32-bit user code is not offered */
	g[SEL_USER_DS >> 3] = 0x00cff3000000ffffull;
	g[SEL_USER_CS >> 3] = 0x00affb000000ffffull;
	g[SEL_TSS >> 3] = (sizeof(*tss) - 1) | (base & 0xffffff) << 16 | 0x89ull << 40 |
			  (base >> 24 & 0xff) << 56;
	g[(SEL_TSS >> 3) + 1] = base >> 32;
	__asm__ volatile("lgdt %0\n\t"
			 "pushq %1\n\t"
			 "leaq 1f(%%rip), %%rax\n\t"
			 "pushq %%rax\n\t"
			 "lretq\n"
			 "1:\tmov %2, %%ss\n\t"
			 "mov %2, %%ds\n\t"
			 "mov %2, %%es\n\t"
			 "ltr %w3" ::"m"(ptr),
			 "i"(SEL_KERNEL_CS), "r"(SEL_KERNEL_DS), "r"(SEL_TSS)
			 : "rax", "memory");
}

void tss_set_kernel_stack(uint64_t top)
{
	this_cpu_ptr(&cpu_tss)->rsp[0] = top;
	percpu_write(kernel_stack_top, top);
}

static void gate_set(unsigned int vector, uint64_t handler, uint8_t ist, uint8_t attr)
{
	idt[vector] = (struct idt_gate){
		.offset_lo = (uint16_t)handler,
		.selector = SEL_KERNEL_CS,
		.ist = ist,
		.attr = attr,
		.offset_mid = (uint16_t)(handler >> 16),
		.offset_hi = (uint32_t)(handler >> 32),
	};
}

void idt_init(void)
{
	for (unsigned int v = 0; v < 256; v++)
		gate_set(v, trap_stubs[v], 0, GATE_KERNEL);
	gate_set(TRAP_BP, trap_stubs[TRAP_BP], 0, GATE_USER);
	gate_set(TRAP_OF, trap_stubs[TRAP_OF], 0, GATE_USER);
	gate_set(TRAP_DF, trap_stubs[TRAP_DF], IST_DF, GATE_KERNEL);
	gate_set(TRAP_NMI, trap_stubs[TRAP_NMI], IST_NMI, GATE_KERNEL);
	gate_set(TRAP_DB, trap_stubs[TRAP_DB], IST_DB, GATE_KERNEL);
	gate_set(TRAP_MC, trap_stubs[TRAP_MC], IST_MC, GATE_KERNEL);
}

void idt_load(void)
{
	const struct desc_ptr ptr = { .limit = sizeof(idt) - 1, .base = (uint64_t)idt };

	__asm__ volatile("lidt %0" ::"m"(ptr));
}

void syscall_init_cpu(void)
{
	/* SYSRET: CS = base + 16, SS = base + 8. */
	const uint64_t sysret_base = SEL_USER_DS - 8;

	wrmsr(MSR_STAR, sysret_base << 48 | (uint64_t)SEL_KERNEL_CS << 32);
	wrmsr(MSR_LSTAR, (uint64_t)syscall_entry);
	wrmsr(MSR_CSTAR, (uint64_t)syscall_entry_compat);
	wrmsr(MSR_SFMASK, RFLAGS_IF | RFLAGS_TF | RFLAGS_DF | RFLAGS_AC | RFLAGS_NT | RFLAGS_IOPL);
}
