/* SPDX-License-Identifier: MIT */
/*
 * Registers of a user thread in the layouts of ptrace() and of core dumps.
 *
 * Pure: no state, no locks.
 */
#include "user_regs.h"

#include <arch/cpu.h>
#include <arch/layout.h>
#include <lib/byteorder.h>
#include <lib/errno.h>
#include <lib/string.h>

/* CF PF AF ZF SF TF DF OF RF AC. Not NT, with which IRETQ would fault in ring 0. */
#define FLAGS_CHANGE 0x50dd5ull

void user_regs_get(const struct pt_regs *r, const struct user_bases *b, struct linux_user_regs *out)
{
	*out = (struct linux_user_regs){
		.r15 = r->r15,
		.r14 = r->r14,
		.r13 = r->r13,
		.r12 = r->r12,
		.rbp = r->rbp,
		.rbx = r->rbx,
		.r11 = r->r11,
		.r10 = r->r10,
		.r9 = r->r9,
		.r8 = r->r8,
		.rax = r->rax,
		.rcx = r->rcx,
		.rdx = r->rdx,
		.rsi = r->rsi,
		.rdi = r->rdi,
		.orig_rax = r->orig_rax,
		.rip = r->rip,
		.cs = SEL_USER_CS,
		.eflags = r->rflags,
		.rsp = r->rsp,
		.ss = SEL_USER_DS,
		.fs_base = b->fs,
		.gs_base = b->gs,
	};
}

int user_regs_set(struct pt_regs *r, struct user_bases *b, const struct linux_user_regs *in)
{
	if (in->cs != SEL_USER_CS || in->ss != SEL_USER_DS || in->ds || in->es || in->fs || in->gs)
		return -EIO;
	if (in->fs_base >= USER_TOP || in->gs_base >= USER_TOP)
		return -EIO;
	r->r15 = in->r15;
	r->r14 = in->r14;
	r->r13 = in->r13;
	r->r12 = in->r12;
	r->rbp = in->rbp;
	r->rbx = in->rbx;
	r->r11 = in->r11;
	r->r10 = in->r10;
	r->r9 = in->r9;
	r->r8 = in->r8;
	r->rax = in->rax;
	r->rcx = in->rcx;
	r->rdx = in->rdx;
	r->rsi = in->rsi;
	r->rdi = in->rdi;
	r->orig_rax = in->orig_rax;
	r->rip = in->rip;
	r->rflags = (r->rflags & ~FLAGS_CHANGE) | (in->eflags & FLAGS_CHANGE);
	r->rsp = in->rsp;
	b->fs = in->fs_base;
	b->gs = in->gs_base;
	return 0;
}

/* --- FPU ------------------------------------------------------------------------------ */

#define FX_MXCSR     24u
#define FX_ST        32u /* eight registers of 16 bytes */
#define FX_XMM       160u
#define FX_XMM_END   416u
#define FX_XFEATURES 464u
#define XSAVE_BV     512u
#define YMM_AT       576u
#define YMM_SIZE     256u
#define FCW_DEFAULT  0x037fu
#define XFEATURE_X87 0x1u
#define XFEATURE_SSE 0x2u
#define XFEATURE_AVX 0x4u

void user_xstate_get(void *out, const void *image, size_t size, uint64_t xfeatures)
{
	uint8_t *o = out;
	uint64_t bv;

	memcpy(o, image, size);
	if (size <= USER_FPREGS_SIZE)
		return;
	bv = get_unaligned_le64(o + XSAVE_BV);
	if (!(bv & XFEATURE_X87)) {
		memset(o, 0, FX_MXCSR);
		put_unaligned_le16(FCW_DEFAULT, o);
		memset(o + FX_ST, 0, FX_XMM - FX_ST);
	}
	if (!(bv & XFEATURE_SSE))
		memset(o + FX_XMM, 0, FX_XMM_END - FX_XMM);
	if ((xfeatures & XFEATURE_AVX) && !(bv & XFEATURE_AVX) && size >= YMM_AT + YMM_SIZE)
		memset(o + YMM_AT, 0, YMM_SIZE);
	put_unaligned_le64(xfeatures, o + FX_XFEATURES);
}

/* --- code ----------------------------------------------------------------------------- */

bool user_code_sets_tf(const uint8_t *code, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		switch (code[i]) {
		case 0x9d: /* popf */
		case 0xcf: /* iret */
			return true;
		case 0x26: /* prefixes: segments, sizes, lock, rep */
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x64:
		case 0x65:
		case 0x66:
		case 0x67:
		case 0xf0:
		case 0xf2:
		case 0xf3:
			break;
		default:
			if (code[i] < 0x40 || code[i] > 0x4f) /* REX */
				return false;
		}
	}
	return false;
}
