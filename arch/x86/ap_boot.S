/* SPDX-License-Identifier: MIT */
/*
 * First instructions of the other CPUs: from real mode to C.
 *
 * Place:	[ap_trampoline, ap_trampoline_end) is copied to a page below 1 MiB, whose
 *		number is the start-up IPI's vector; it runs there in real mode, then in
 *		protected mode, then under boot page tables that map that page at its own
 *		address, read-only and executable, besides the kernel's half.
 * Position:	the code finds its page in CS; smp.c fills in the four fields that want
 *		absolute addresses.  Nothing is written to the page once a CPU runs on it:
 *		the descriptors are marked as accessed beforehand.
 * Many:	all CPUs may run through it at once.  Each finds itself by its APIC id in
 *		the table of smp.c and takes its stack and per-CPU area from there.
 */
#include <arch/layout.h>

#define CR0_PE   0x00000001
#define CR0_SET  0x80010023	/* PG, WP, NE, MP, PE; CD and NW off */
#define CR4_PAE  0x20
#define MSR_EFER 0xc0000080
#define EFER_SET 0x00000901	/* NXE, LME, SCE */
#define MSR_GS_BASE 0xc0000101

/* struct ap_slot of smp.c */
#define SLOT_APIC_ID   0
#define SLOT_STACK_TOP 8
#define SLOT_GS_BASE   16
#define SLOT_SIZE      32

#define AT(sym) ((sym) - ap_trampoline)

	.section .rodata
	.balign 16
	.globl ap_trampoline
ap_trampoline:
	.code16
	cli
	cld
	xorl %ebx, %ebx
	movw %cs, %bx
	movw %bx, %ds
	shll $4, %ebx			/* physical address of this page */
	lgdtl AT(ap_gdt_ptr)
	movl %cr0, %eax
	orl $CR0_PE, %eax
	movl %eax, %cr0
	ljmpl *AT(ap_jump32)

	.code32
ap_protected:
	movl $0x10, %eax
	movl %eax, %ds
	movl %eax, %es
	movl %eax, %ss
	xorl %eax, %eax
	movl %eax, %fs
	movl %eax, %gs
	movl $CR4_PAE, %eax
	movl %eax, %cr4
	movl AT(ap_cr3)(%ebx), %eax
	movl %eax, %cr3
	movl $MSR_EFER, %ecx
	rdmsr
	orl $EFER_SET, %eax
	wrmsr
	movl $CR0_SET, %eax
	movl %eax, %cr0
	ljmpl *AT(ap_jump64)(%ebx)

	.code64
ap_long:
	movabsq $ap_high, %rax
	jmp *%rax

	.balign 8
ap_gdt:
	.quad 0
	.quad 0x00cf9b000000ffff	/* 32-bit code */
	.quad 0x00cf93000000ffff	/* data */
	.quad 0x00af9b000000ffff	/* 64-bit code */
ap_gdt_ptr:
	.short . - ap_gdt - 1
	.globl ap_gdt_base
ap_gdt_base:
	.long AT(ap_gdt)		/* these four: plus the page's address */
	.globl ap_jump32
ap_jump32:
	.long AT(ap_protected)
	.short 0x08
	.globl ap_jump64
ap_jump64:
	.long AT(ap_long)
	.short 0x18
	.balign 4
	.globl ap_cr3
ap_cr3:
	.long 0
	.globl ap_trampoline_end
ap_trampoline_end:

	.text
	.type ap_high, @function
ap_high:
	/* APIC id: leaf 0xb where it means something, else 8 bits of leaf 1. */
	xorl %eax, %eax
	cpuid
	cmpl $0xb, %eax
	jb 1f
	movl $0xb, %eax
	xorl %ecx, %ecx
	cpuid
	testl %ebx, %ebx
	jnz 2f
1:	movl $1, %eax
	cpuid
	shrl $24, %ebx
	movl %ebx, %edx
2:
	movq $ap_slots, %rsi
	movl ap_nr_slots, %ecx
	xorl %edi, %edi
3:	cmpl %ecx, %edi
	jae 5f
	cmpl %edx, SLOT_APIC_ID(%rsi)
	je 4f
	addq $SLOT_SIZE, %rsi
	incl %edi
	jmp 3b
4:
	movl $MSR_GS_BASE, %ecx
	movl SLOT_GS_BASE(%rsi), %eax
	movl (SLOT_GS_BASE + 4)(%rsi), %edx
	wrmsr
	movq SLOT_STACK_TOP(%rsi), %rsp
	xorl %ebp, %ebp			/* end of the frame chain */
	call ap_main
	ud2

	/* Not one that was called: sleep for ever. */
5:	cli
	hlt
	jmp 5b
	.size ap_high, . - ap_high

	.section .note.GNU-stack, "", @progbits
