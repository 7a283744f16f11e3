/* SPDX-License-Identifier: MIT */
/*
 * The frame that a signal handler finds on its stack: Linux's <asm/sigcontext.h>,
 * <asm/ucontext.h>.
 */
#pragma once

#include <abi/signal.h>

#define UC_FP_XSTATE     1u
#define UC_SIGCONTEXT_SS 2u

#define FP_XSTATE_MAGIC1 0x46505853u
#define FP_XSTATE_MAGIC2 0x46505845u

struct linux_sigcontext {
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
	uint16_t cs, gs, fs, ss;
	uint64_t err, trapno, oldmask, cr2;
	uint64_t fpstate; /* user pointer */
	uint64_t reserved[8];
};
static_assert(sizeof(struct linux_sigcontext) == 256, "struct sigcontext is ABI");

struct linux_ucontext {
	uint64_t flags;
	uint64_t link;
	struct linux_stack stack;
	struct linux_sigcontext mcontext;
	uint64_t sigmask;
};
static_assert(offsetof(struct linux_ucontext, sigmask) == 296, "ucontext is ABI");

struct linux_fp_sw_bytes { /* in the reserved bytes of the FXSAVE area */
	uint32_t magic1;
	uint32_t extended_size;
	uint64_t xfeatures;
	uint32_t xstate_size;
	uint32_t pad[7];
};
static_assert(sizeof(struct linux_fp_sw_bytes) == 48, "struct _fpx_sw_bytes is ABI");
