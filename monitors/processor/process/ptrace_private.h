/* SPDX-License-Identifier: MIT */
/*
 * Between the files that serve ptrace(): requests on a task that is stopped, and frozen, for the
 * calling thread. Each answers what the system call does.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct task;

/* ptrace_regs.c */
long ptrace_getregs(struct task *t, uint64_t udata);
long ptrace_setregs(struct task *t, uint64_t udata);
long ptrace_getfpregs(struct task *t, uint64_t udata);
long ptrace_setfpregs(struct task *t, uint64_t udata);
/* PTRACE_GETREGSET, or with @set PTRACE_SETREGSET; @uiov names the buffer. */
long ptrace_regset(struct task *t, uint64_t kind, uint64_t uiov, bool set);
long ptrace_peekuser(struct task *t, uint64_t off, uint64_t udata);
long ptrace_pokeuser(struct task *t, uint64_t off, uint64_t value);
long ptrace_arch_prctl(struct task *t, uint64_t code, uint64_t addr);
/* Make it trap after the next instruction, or no longer. */
void ptrace_step(struct task *t, bool on);

/* ptrace_info.c */
long ptrace_getsiginfo(struct task *t, uint64_t udata);
long ptrace_setsiginfo(struct task *t, uint64_t udata);
long ptrace_peeksiginfo(struct task *t, uint64_t uargs, uint64_t udata);
long ptrace_getsigmask(struct task *t, uint64_t size, uint64_t udata);
long ptrace_setsigmask(struct task *t, uint64_t size, uint64_t udata);
long ptrace_syscall_info(struct task *t, uint64_t size, uint64_t udata);
