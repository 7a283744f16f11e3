/* SPDX-License-Identifier: MIT */
/* Registers of a user thread in the layouts of ptrace() and of core dumps: pure. */
#pragma once

#include <abi/ptrace.h>
#include <arch/trap.h>
#include <lib/compiler.h>

struct user_bases {
	uint64_t fs, gs;
};

void user_regs_get(const struct pt_regs *r, const struct user_bases *b,
		   struct linux_user_regs *out);
/*
 * The other way. -EIO, and nothing has changed: a selector that there is not, or a base outside the
 * program's addresses. Flags of the kernel's stay as they are.
 */
int user_regs_set(struct pt_regs *r, struct user_bases *b, const struct linux_user_regs *in)
	__must_check;

#define USER_FPREGS_SIZE 512u /* struct user_fpregs_struct: what FXSAVE stores */

/*
 * An image as XSAVE leaves it, @size bytes with features @xfeatures, as PTRACE_GETREGSET shows it:
 * components that are in their initial state, which XSAVE does not store, are written out, and the
 * features stand in the word of the legacy area that Linux puts them in.
 */
void user_xstate_get(void *out, const void *image, size_t size, uint64_t xfeatures);

/* Does the instruction in @code, @len bytes, set TF itself (popf, iret)? */
bool user_code_sets_tf(const uint8_t *code, size_t len);
