/* SPDX-License-Identifier: MIT */
/*
 * Small user programs for user_test.c: position-independent, copied to a user
 * page.  System call numbers are the test's own: 1 report(rdi), 2 yield, 3 exit.
 */
	.macro PROG name
	.balign 16
	.globl user_prog_\name, user_prog_\name\()_end
user_prog_\name:
	.endm
	.macro END name
user_prog_\name\()_end:
	.endm
	.macro EXIT
	movl $3, %eax
	syscall
	ud2
	.endm

	.section .rodata
	/* All six arguments; rcx and r11 are the only registers a system call may change. */
	PROG args
	movl $11, %edi
	movl $22, %esi
	movl $33, %edx
	movl $44, %r10d
	movl $55, %r8d
	movl $66, %r9d
	movl $77, %ebx
	movl $88, %ebp
	movl $99, %r12d
	movl $1, %eax
	syscall
	movq %rax, %rdi		/* the result */
	movl $1, %eax
	syscall
	leaq (%rbx, %rbp), %rdi
	addq %r12, %rdi
	movl $1, %eax
	syscall			/* 77 + 88 + 99 */
	EXIT
	END args

	/* Write, then read back, 64 pages from rdi on. */
	PROG touch
	movl $64, %ecx
	movq %rdi, %rbx
1:	movq %rbx, (%rbx)
	addq $4096, %rbx
	decl %ecx
	jnz 1b
	movq -4096(%rbx), %rdi
	movl $1, %eax
	syscall
	EXIT
	END touch

	PROG ud
	ud2
	END ud

	PROG div
	xorl %ecx, %ecx
	movl $1, %eax
	cltd
	idivl %ecx
	END div

	PROG bp
	int3
	END bp

	PROG hlt
	hlt
	END hlt

	PROG kread
	movq $-4096, %rax
	movq (%rax), %rax
	END kread

	PROG simd
	subq $8, %rsp
	movl $0x1d80, (%rsp)	/* unmask division by zero */
	ldmxcsr (%rsp)
	xorps %xmm1, %xmm1
	movl $0x3f800000, %eax
	movd %eax, %xmm0
	divss %xmm1, %xmm0
	END simd

	PROG align
	pushfq
	orl $0x40000, (%rsp)
	popfq
	movl 1(%rsp), %eax
	END align

	/*
	 * Fill x87, SSE and (if rsi) AVX registers from rdi, yield rdx times, and
	 * report how many rounds found something else in them.
	 */
	PROG fpu
	subq $64, %rsp
	movq %rdx, %r12
	movq %rsi, %r13
	xorl %ebx, %ebx
	movq %rdi, %r14
	movq %rdi, (%rsp)
	fildll (%rsp)
	movq %rdi, %xmm0
	movq %rdi, %xmm15
	testq %r13, %r13
	jz 1f
	vmovq %rdi, %xmm3
	vpbroadcastq %xmm3, %ymm3
1:	movl $2, %eax
	syscall
	movq %xmm0, %rax
	cmpq %rax, %r14
	jne 8f
	movq %xmm15, %rax
	cmpq %rax, %r14
	jne 8f
	fld %st(0)
	fistpll (%rsp)
	cmpq (%rsp), %r14
	jne 8f
	testq %r13, %r13
	jz 2f
	vmovdqu %ymm3, (%rsp)
	cmpq 24(%rsp), %r14	/* the upper half is AVX state */
	jne 8f
2:	decq %r12
	jnz 1b
	jmp 9f
8:	incq %rbx
	jmp 2b
9:	movq %rbx, %rdi
	movl $1, %eax
	syscall
	EXIT
	END fpu

	/* Spin until the word at rdi is not zero: ends only if somebody preempts it. */
	PROG spin
1:	cmpl $0, (%rdi)
	je 1b
	EXIT
	END spin

	/* Keep what FS:0 and GS:0 hold. */
	PROG bases
	movq %fs:0, %rdi
	movl $1, %eax
	syscall
	movl $2, %eax
	syscall
	movq %gs:0, %rdi
	movl $1, %eax
	syscall
	EXIT
	END bases

	.section .note.GNU-stack, "", @progbits
