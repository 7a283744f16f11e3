/* SPDX-License-Identifier: MIT */
/*
 * Entry from user mode and from interrupts, and the way back.
 *
 * Frame:	every entry builds a struct pt_regs (arch/trap.h); from user mode it
 *		always lies at the top of the thread's kernel stack.
 * GS:		kernel code runs with GS base = per-CPU offset.  Entries from user mode
 *		swapgs; entries on an IST stack may interrupt the few instructions
 *		where the kernel runs with the user's GS base, so they save the base
 *		and load the one stored above their stack.
 * SYSRET:	used when the frame is exactly what SYSRET would produce and RIP is
 *		below USER_TOP (a non-canonical RIP would fault with the user's
 *		stack in ring 0); otherwise IRETQ.
 */
#include <arch/layout.h>

#define SEL_KERNEL_CS 0x08
#define SEL_USER_DS   0x2b
#define SEL_USER_CS   0x33
#define TRAP_SYSCALL  256
#define MSR_GS_BASE   0xc0000101
#define RFLAGS_TF_RF  0x10100
#define RIP_HIGH      0xffff8000 /* of its upper half: not below 1 << 47 */
#define THREAD_FLAGS  16 /* struct thread */

/* struct pt_regs */
#define R_R11    48
#define R_RCX    56
#define R_RAX    64
#define R_ARGS   72
#define R_ORIG   120
#define R_ERROR  136
#define R_RIP    144
#define R_CS     152
#define R_RFLAGS 160
#define R_RSP    168
#define R_SS     176
#define R_SIZE   184

	.macro PUSH_REGS
	pushq %r9
	pushq %r8
	pushq %r10
	pushq %rdx
	pushq %rsi
	pushq %rdi
	pushq %rax
	pushq %rcx
	pushq %r11
	pushq %rbx
	pushq %rbp
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	.endm

	.macro POP_REGS rax=%rax
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbp
	popq %rbx
	popq %r11
	popq %rcx
	popq \rax
	popq %rdi
	popq %rsi
	popq %rdx
	popq %r10
	popq %r8
	popq %r9
	.endm

	/* As user_exit_prepare(), with interrupts off: anything to do before user mode? */
	.macro TEST_USER_WORK where
	movq %gs:current_thread, %rdx
	cmpl $0, THREAD_FLAGS(%rdx)
	jne \where
	cmpq $0, %gs:exit_work
	jne \where
	.endm

	.text
	.globl syscall_entry
	.type syscall_entry, @function
syscall_entry:
	swapgs
	movq %rsp, %gs:syscall_scratch
	movq %gs:kernel_stack_top, %rsp
	pushq $SEL_USER_DS
	pushq %gs:syscall_scratch
	pushq %r11
	pushq $SEL_USER_CS
	pushq %rcx
	pushq $0
	pushq $TRAP_SYSCALL
	pushq %rax
	PUSH_REGS
	xorl %ebp, %ebp
	incq %gs:nr_syscalls
	/* A conditional move, not a branch: a wrong guess must not index with the user's number. */
	cmpq syscall_fns_len(%rip), %rax
	cmovaeq syscall_fns_len(%rip), %rax
	movq syscall_fns(%rip), %rdx
	leaq R_ARGS(%rsp), %rdi
	subq $8, %rsp		/* a frame has 23 words: keep calls 16-byte aligned */
	sti
	call *(%rdx, %rax, 8)
	cli
	addq $8, %rsp

	/* On the short way the result stays in rax. */
	TEST_USER_WORK syscall_return

	/* Is the frame what SYSRET makes of it? Its selectors are ours: SYSCALL has pushed them. */
	movq R_RCX(%rsp), %rcx
	cmpq %rcx, R_RIP(%rsp)
	jne syscall_return
	movq R_R11(%rsp), %r11
	cmpq %r11, R_RFLAGS(%rsp)
	jne syscall_return
	testl $RFLAGS_TF_RF, %r11d
	jnz syscall_return
	testl $RIP_HIGH, (R_RIP + 4)(%rsp)
	jnz syscall_return

	POP_REGS rax=%rdi	/* which comes next */
	movq (R_RSP - R_ORIG)(%rsp), %rsp
	swapgs
	sysretq

syscall_return:
	movq %rax, R_RAX(%rsp)
	jmp user_return
	.size syscall_entry, . - syscall_entry

	/* SYSCALL from 32-bit code segments, which we do not offer. */
	.globl syscall_entry_compat
	.type syscall_entry_compat, @function
syscall_entry_compat:
	movl $-38, %eax		/* -ENOSYS */
	sysretl
	.size syscall_entry_compat, . - syscall_entry_compat

	/* Interrupts off, RSP at the user's pt_regs. */
	.globl user_return
	.type user_return, @function
user_return:
	movq %rsp, %rdi
	xorl %ebp, %ebp
	subq $8, %rsp
	call user_exit_prepare	/* returns with interrupts off */
	addq $8, %rsp

	movq R_RCX(%rsp), %rcx
	cmpq %rcx, R_RIP(%rsp)
	jne user_return_iret
	movq R_R11(%rsp), %r11
	cmpq %r11, R_RFLAGS(%rsp)
	jne user_return_iret
	testl $RFLAGS_TF_RF, %r11d
	jnz user_return_iret
	movabsq $USER_TOP, %rax
	cmpq %rax, %rcx
	jae user_return_iret
	cmpq $SEL_USER_CS, R_CS(%rsp)
	jne user_return_iret
	cmpq $SEL_USER_DS, R_SS(%rsp)
	jne user_return_iret

	POP_REGS		/* rcx and r11 hold RIP and RFLAGS */
	movq (R_RSP - R_ORIG)(%rsp), %rsp
	swapgs
	sysretq

user_return_iret:
	POP_REGS
	addq $24, %rsp		/* orig_rax, vector, error */
	swapgs
	iretq
	.size user_return, . - user_return

	/*
	 * void user_enter_asm(const struct pt_regs *regs, struct pt_regs *at)
	 * Interrupts off.  @at is the top of this stack and @regs lies on it, lower
	 * down: copying from the last word down is safe when they overlap, and
	 * nothing is pushed meanwhile.
	 */
	.globl user_enter_asm
	.type user_enter_asm, @function
user_enter_asm:
	movl $(R_SIZE - 8), %ecx
1:	movq (%rdi, %rcx), %rax
	movq %rax, (%rsi, %rcx)
	subq $8, %rcx
	jns 1b
	movq %rsi, %rsp
	jmp user_return
	.size user_enter_asm, . - user_enter_asm

	.type trap_common, @function
trap_common:
	pushq $-1		/* orig_rax: not a system call */
	PUSH_REGS
	cld
	testb $3, R_CS(%rsp)
	jz 1f
	swapgs
trap_from_user:
	xorl %ebp, %ebp
	movq %rsp, %rdi
	subq $8, %rsp
	call trap_dispatch	/* returns with interrupts off */
	addq $8, %rsp
	TEST_USER_WORK user_return
	jmp user_return_iret	/* the frame is as the CPU has pushed it */
1:	movq %rsp, %rdi
	subq $8, %rsp
	call trap_dispatch
	addq $8, %rsp
	POP_REGS
	addq $24, %rsp
	iretq
	.size trap_common, . - trap_common

	/*
	 * #DB is on a stack of its own, where nothing may sleep. From user mode, its frame moves to
	 * the thread's stack: vector, error code, and the five words of the CPU.
	 */
	.type trap_debug, @function
trap_debug:
	testb $3, 24(%rsp)
	jz trap_paranoid
	swapgs
	pushq %rax
	pushq %rcx
	movq %gs:kernel_stack_top, %rax
	.set i, 0
	.rept 7
	movq (16 + i)(%rsp), %rcx
	movq %rcx, (i - 56)(%rax)
	.set i, i + 8
	.endr
	movq 8(%rsp), %rcx
	movq %rcx, -64(%rax)	/* the user's rax */
	popq %rcx
	leaq -64(%rax), %rsp
	popq %rax
	pushq $-1
	PUSH_REGS
	cld
	jmp trap_from_user
	.size trap_debug, . - trap_debug

	.type trap_paranoid, @function
trap_paranoid:
	pushq $-1
	PUSH_REGS
	cld
	movl $MSR_GS_BASE, %ecx
	rdmsr
	movl %eax, %r12d
	movl %edx, %r13d
	movq R_SIZE(%rsp), %rax	/* above the stack: this CPU's per-CPU offset */
	movq %rax, %rdx
	shrq $32, %rdx
	wrmsr
	movq %rsp, %rdi
	subq $8, %rsp
	call trap_dispatch
	addq $8, %rsp
	movl $MSR_GS_BASE, %ecx
	movl %r12d, %eax
	movl %r13d, %edx
	wrmsr
	POP_REGS
	addq $24, %rsp
	iretq
	.size trap_paranoid, . - trap_paranoid

	/* One stub per vector. */
	.altmacro
	.macro STUB n
	.type trap_stub_\n, @function
trap_stub_\n:
	/* For these the CPU pushes an error code; the others get a zero. */
	.if \n == 8 || (\n >= 10 && \n <= 14) || \n == 17 || \n == 21 || \n == 29 || \n == 30
	.else
	pushq $0
	.endif
	pushq $\n
	.if \n == 2 || \n == 8 || \n == 18
	jmp trap_paranoid
	.elseif \n == 1
	jmp trap_debug
	.else
	jmp trap_common
	.endif
	.size trap_stub_\n, . - trap_stub_\n
	.endm

	.macro STUB_ADDR n
	.quad trap_stub_\n
	.endm

	.set i, 0
	.rept 256
	STUB %i
	.set i, i + 1
	.endr

	.section .rodata
	.balign 8
	.globl trap_stubs
trap_stubs:
	.set i, 0
	.rept 256
	STUB_ADDR %i
	.set i, i + 1
	.endr

	.section .bss.percpu, "aw", @nobits
	.balign 8
syscall_scratch:
	.skip 8

	.text
	/*
	 * void switch_context(uint64_t *prev_sp, uint64_t next_sp)
	 * Saves what C calls must keep and changes stacks.
	 */
	.globl switch_context
	.type switch_context, @function
switch_context:
	pushq %rbp
	pushq %rbx
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	movq %rsp, (%rdi)
	movq %rsi, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbx
	popq %rbp
	ret
	.size switch_context, . - switch_context

	/* First return of a new thread: see thread_stack_init(). */
	.globl thread_entry_asm
	.type thread_entry_asm, @function
thread_entry_asm:
	xorl %ebp, %ebp
	call thread_entry
	ud2
	.size thread_entry_asm, . - thread_entry_asm

	/*
	 * void clear_page(void *page)
	 * Without fast string instructions, by stores of 16 bytes: the register is what it was
	 * afterwards, and nobody else runs on this CPU meanwhile who could save or load it.
	 */
	.globl clear_page
	.type clear_page, @function
clear_page:
	cmpb $0, clear_page_by_sse(%rip)
	je 2f
	addl $1, %gs:preempt_count
	subq $16, %rsp
	movups %xmm0, (%rsp)
	xorps %xmm0, %xmm0
	movl $8, %ecx
1:	.set i, 0
	.rept 32
	movaps %xmm0, i(%rdi)
	.set i, i + 16
	.endr
	addq $512, %rdi
	decl %ecx
	jnz 1b
	movups (%rsp), %xmm0
	addq $16, %rsp
	subl $1, %gs:preempt_count
	cmpl $0, %gs:exit_work
	jne preempt_schedule
	ret
2:	movl $512, %ecx
	xorl %eax, %eax
	rep stosq
	ret
	.size clear_page, . - clear_page

	/* void copy_page(void *dst, const void *src) */
	.globl copy_page
	.type copy_page, @function
copy_page:
	movl $512, %ecx
	rep movsq
	ret
	.size copy_page, . - copy_page

	.section .note.GNU-stack, "", @progbits
