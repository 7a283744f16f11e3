/* SPDX-License-Identifier: MIT */
/*
 * Instructions that touch user memory, each with an entry in the exception
 * table.  The callers in uaccess.c check ranges and open the SMAP window.
 */
	.macro EXTABLE insn, fixup
	.pushsection .extable, "a"
	.balign 8
	.quad \insn, \fixup
	.popsection
	.endm

	.text
	/* size_t uaccess_copy(void *dst, const void *src, size_t len): bytes not copied */
	.globl uaccess_copy
	.type uaccess_copy, @function
uaccess_copy:
	movq %rdx, %rcx
	shrq $3, %rcx
	andl $7, %edx
1:	rep movsq
	movl %edx, %ecx
2:	rep movsb
	xorl %eax, %eax
	ret
3:	leaq (%rdx, %rcx, 8), %rax
	ret
4:	movq %rcx, %rax
	ret
	EXTABLE 1b, 3b
	EXTABLE 2b, 4b
	.size uaccess_copy, . - uaccess_copy

	/* size_t uaccess_clear(void *dst, size_t len): bytes not cleared */
	.globl uaccess_clear
	.type uaccess_clear, @function
uaccess_clear:
	movq %rsi, %rcx
	shrq $3, %rcx
	andl $7, %esi
	xorl %eax, %eax
1:	rep stosq
	movl %esi, %ecx
2:	rep stosb
	ret
3:	leaq (%rsi, %rcx, 8), %rax
	ret
4:	movq %rcx, %rax
	ret
	EXTABLE 1b, 3b
	EXTABLE 2b, 4b
	.size uaccess_clear, . - uaccess_clear

	/*
	 * long uaccess_strncpy(char *dst, const char *src, size_t size)
	 * Length without the NUL, -1 on a fault, @size when there is no NUL.
	 */
	.globl uaccess_strncpy
	.type uaccess_strncpy, @function
uaccess_strncpy:
	xorl %eax, %eax
1:	cmpq %rdx, %rax
	jae 3f
2:	movb (%rsi, %rax), %cl
	movb %cl, (%rdi, %rax)
	testb %cl, %cl
	jz 3f
	incq %rax
	jmp 1b
3:	ret
5:	movq $-1, %rax
	ret
	EXTABLE 2b, 5b
	.size uaccess_strncpy, . - uaccess_strncpy

	/* int uaccess_get32(uint32_t *val, const void *src) and its like: 0 or -1 */
	.globl uaccess_get32
	.type uaccess_get32, @function
uaccess_get32:
1:	movl (%rsi), %ecx
	movl %ecx, (%rdi)
	xorl %eax, %eax
	ret
	.size uaccess_get32, . - uaccess_get32

	.globl uaccess_get64
	.type uaccess_get64, @function
uaccess_get64:
2:	movq (%rsi), %rcx
	movq %rcx, (%rdi)
	xorl %eax, %eax
	ret
	.size uaccess_get64, . - uaccess_get64

	/* int uaccess_put32(uint32_t val, void *dst) */
	.globl uaccess_put32
	.type uaccess_put32, @function
uaccess_put32:
3:	movl %edi, (%rsi)
	xorl %eax, %eax
	ret
	.size uaccess_put32, . - uaccess_put32

	.globl uaccess_put64
	.type uaccess_put64, @function
uaccess_put64:
4:	movq %rdi, (%rsi)
	xorl %eax, %eax
	ret
	.size uaccess_put64, . - uaccess_put64

	/* int uaccess_cmpxchg32(uint32_t *old, void *dst, uint32_t expect, uint32_t val) */
	.globl uaccess_cmpxchg32
	.type uaccess_cmpxchg32, @function
uaccess_cmpxchg32:
	movl %edx, %eax
5:	lock cmpxchgl %ecx, (%rsi)
	movl %eax, (%rdi)
	xorl %eax, %eax
	ret
	.size uaccess_cmpxchg32, . - uaccess_cmpxchg32

uaccess_fault:
	movl $-1, %eax
	ret
	EXTABLE 1b, uaccess_fault
	EXTABLE 2b, uaccess_fault
	EXTABLE 3b, uaccess_fault
	EXTABLE 4b, uaccess_fault
	EXTABLE 5b, uaccess_fault

	.section .note.GNU-stack, "", @progbits
