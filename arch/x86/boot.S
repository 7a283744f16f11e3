/* SPDX-License-Identifier: MIT */
/*
 * First instructions: from the boot loader's 32-bit protected mode to C at the
 * kernel's link address.
 *
 * Entry:	PVH (QEMU -kernel): EBX = physical address of hvm_start_info.
 *		Multiboot2 (GRUB): EAX = 0x36d76289, EBX = physical address of the tags.
 *		Both: flat 32-bit segments, paging off, interrupts off.
 * Map:		first 4 GiB at 0 and at DIRECT_MAP_BASE, first 1 GiB at KERNEL_BASE, all
 *		2 MiB pages, writable and executable; setup.c replaces it soon.
 */
#include <arch/layout.h>

#define PHYS(sym) ((sym) - KERNEL_BASE)

#define CR0_PE 0x00000001
#define CR0_MP 0x00000002
#define CR0_NE 0x00000020
#define CR0_WP 0x00010000
#define CR0_PG 0x80000000
#define CR4_PAE 0x20
#define MSR_EFER 0xc0000080
#define EFER_LME 0x100

#define PTE_TABLE 0x003 /* present, writable */
#define PTE_2M    0x083 /* present, writable, large */

	.section .note.pvh, "a", @note
	.balign 4
	.long 4			/* name size */
	.long 8			/* descriptor size */
	.long 18		/* XEN_ELFNOTE_PHYS32_ENTRY */
	.asciz "Xen"
	.quad PHYS(boot_entry_pvh)

	.section .multiboot2, "a"
	.balign 8
mb2_header:
	.long 0xe85250d6	/* magic */
	.long 0			/* architecture: i386 protected mode */
	.long mb2_header_end - mb2_header
	.long -(0xe85250d6 + (mb2_header_end - mb2_header))
	.balign 8
	.short 3, 0		/* entry address */
	.long 12
	.long PHYS(boot_entry_mb2)
	.balign 8
	.short 0, 0		/* end */
	.long 8
mb2_header_end:

	.section .head.text, "ax"
	.code32
	.globl boot_entry_mb2
boot_entry_mb2:
	cmpl $0x36d76289, %eax
	jne boot_dead
	movl $1, %ebp
	jmp boot_common

boot_entry_pvh:
	xorl %ebp, %ebp

boot_common:
	cli
	cld
	movl %ebx, %esi			/* cpuid clobbers ebx */
	movl $PHYS(boot_stack_top), %esp

	/* Long mode there at all? */
	movl $0x80000000, %eax
	cpuid
	cmpl $0x80000001, %eax
	jb boot_dead
	movl $0x80000001, %eax
	cpuid
	testl $(1 << 29), %edx
	jz boot_dead

	/* Four page directories: 4 GiB in 2 MiB pages. */
	movl $PHYS(boot_pd), %edi
	movl $PTE_2M, %eax
	movl $2048, %ecx
1:	movl %eax, (%edi)
	movl $0, 4(%edi)
	addl $0x200000, %eax
	addl $8, %edi
	decl %ecx
	jnz 1b

	movl $(PHYS(boot_pd) + PTE_TABLE), %eax
	movl %eax, PHYS(boot_pdpt_low)
	movl %eax, PHYS(boot_pdpt_high) + 510 * 8
	addl $0x1000, %eax
	movl %eax, PHYS(boot_pdpt_low) + 8
	addl $0x1000, %eax
	movl %eax, PHYS(boot_pdpt_low) + 16
	addl $0x1000, %eax
	movl %eax, PHYS(boot_pdpt_low) + 24
	movl $(PHYS(boot_pdpt_low) + PTE_TABLE), %eax
	movl %eax, PHYS(boot_pml4)
	movl %eax, PHYS(boot_pml4) + 273 * 8	/* DIRECT_MAP_BASE */
	movl $(PHYS(boot_pdpt_high) + PTE_TABLE), %eax
	movl %eax, PHYS(boot_pml4) + 511 * 8	/* KERNEL_BASE */

	movl $CR4_PAE, %eax
	movl %eax, %cr4
	movl $PHYS(boot_pml4), %eax
	movl %eax, %cr3
	movl $MSR_EFER, %ecx
	rdmsr
	orl $EFER_LME, %eax
	wrmsr
	movl $(CR0_PE | CR0_MP | CR0_NE | CR0_WP | CR0_PG), %eax
	movl %eax, %cr0
	lgdt PHYS(boot_gdt_ptr)
	ljmp $0x08, $PHYS(boot_long)

boot_dead:
	/* No console yet and no long mode: say one letter and stop. */
	movw $0x3f8, %dx
	movb $'!', %al
	outb %al, %dx
2:	hlt
	jmp 2b

	.code64
boot_long:
	movabsq $boot_high, %rax
	jmp *%rax
boot_high:
	movl $0x10, %eax
	movl %eax, %ds
	movl %eax, %es
	movl %eax, %ss
	xorl %eax, %eax
	movl %eax, %fs
	movl %eax, %gs			/* GS base 0: the boot CPU's per-CPU offset */
	movq $boot_stack_top, %rsp
	movl %ebp, %edi			/* protocol */
	movl %esi, %esi			/* physical address of its information */
	xorl %ebp, %ebp			/* end of the frame chain */
	call arch_start
	ud2

	.section .rodata
	.balign 8
boot_gdt:
	.quad 0
	.quad 0x00af9a000000ffff	/* 64-bit code */
	.quad 0x00cf92000000ffff	/* data */
boot_gdt_ptr:
	.short . - boot_gdt - 1
	.long PHYS(boot_gdt)

	.section .bss.page_aligned, "aw", @nobits
	.balign 4096
	/* These three serve the other CPUs' start once more: smp.c. */
	.globl boot_pml4, boot_pdpt_low, boot_pd
boot_pml4:
	.skip 4096
boot_pdpt_low:
	.skip 4096
boot_pdpt_high:
	.skip 4096
boot_pd:
	.skip 4 * 4096
	.globl boot_stack, boot_stack_top
boot_stack:
	.skip 16384
boot_stack_top:

	.section .note.GNU-stack, "", @progbits
