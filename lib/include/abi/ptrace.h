/* SPDX-License-Identifier: MIT */
/*
 * Tracing of processes: Linux's <linux/ptrace.h>, <asm/ptrace-abi.h>, <asm/ptrace.h>, <sys/user.h>.
 */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

/* ptrace() */
#define PTRACE_TRACEME            0
#define PTRACE_PEEKTEXT           1
#define PTRACE_PEEKDATA           2
#define PTRACE_PEEKUSR            3
#define PTRACE_POKETEXT           4
#define PTRACE_POKEDATA           5
#define PTRACE_POKEUSR            6
#define PTRACE_CONT               7
#define PTRACE_KILL               8
#define PTRACE_SINGLESTEP         9
#define PTRACE_GETREGS            12
#define PTRACE_SETREGS            13
#define PTRACE_GETFPREGS          14
#define PTRACE_SETFPREGS          15
#define PTRACE_ATTACH             16
#define PTRACE_DETACH             17
#define PTRACE_SYSCALL            24
#define PTRACE_ARCH_PRCTL         30
#define PTRACE_SETOPTIONS         0x4200
#define PTRACE_GETEVENTMSG        0x4201
#define PTRACE_GETSIGINFO         0x4202
#define PTRACE_SETSIGINFO         0x4203
#define PTRACE_GETREGSET          0x4204
#define PTRACE_SETREGSET          0x4205
#define PTRACE_SEIZE              0x4206
#define PTRACE_INTERRUPT          0x4207
#define PTRACE_LISTEN             0x4208
#define PTRACE_PEEKSIGINFO        0x4209
#define PTRACE_GETSIGMASK         0x420a
#define PTRACE_SETSIGMASK         0x420b
#define PTRACE_GET_SYSCALL_INFO   0x420e
#define PTRACE_PEEKSIGINFO_SHARED 0x1u

/* Why it has stopped: bits 8 and up of the stop's code */
#define PTRACE_EVENT_FORK       1
#define PTRACE_EVENT_VFORK      2
#define PTRACE_EVENT_CLONE      3
#define PTRACE_EVENT_EXEC       4
#define PTRACE_EVENT_VFORK_DONE 5
#define PTRACE_EVENT_EXIT       6
#define PTRACE_EVENT_SECCOMP    7
#define PTRACE_EVENT_STOP       128

/* The answer of PTRACE_GETEVENTMSG in a stop at a system call */
#define PTRACE_EVENTMSG_SYSCALL_ENTRY 1
#define PTRACE_EVENTMSG_SYSCALL_EXIT  2

#define PTRACE_O_TRACESYSGOOD   0x1u
#define PTRACE_O_TRACEFORK      0x2u
#define PTRACE_O_TRACEVFORK     0x4u
#define PTRACE_O_TRACECLONE     0x8u
#define PTRACE_O_TRACEEXEC      0x10u
#define PTRACE_O_TRACEVFORKDONE 0x20u
#define PTRACE_O_TRACEEXIT      0x40u
#define PTRACE_O_TRACESECCOMP   0x80u
#define PTRACE_O_EXITKILL       0x100000u

#define PTRACE_SYSCALL_INFO_NONE  0
#define PTRACE_SYSCALL_INFO_ENTRY 1
#define PTRACE_SYSCALL_INFO_EXIT  2

struct linux_user_regs { /* struct user_regs_struct */
	uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8;
	uint64_t rax, rcx, rdx, rsi, rdi, orig_rax, rip, cs, eflags, rsp, ss;
	uint64_t fs_base, gs_base, ds, es, fs, gs;
};
static_assert(sizeof(struct linux_user_regs) == 216, "struct user_regs_struct is ABI");

/* struct user, in whose offsets PTRACE_PEEKUSR and POKEUSR speak */
struct linux_user {
	struct linux_user_regs regs;
	int32_t fpvalid, pad0;
	uint8_t i387[512];
	uint64_t tsize, dsize, ssize, start_code, start_stack;
	int64_t signal;
	int32_t reserved, pad1;
	uint64_t ar0, fpstate, magic;
	char comm[32];
	uint64_t debugreg[8];
	uint64_t error_code, fault_address;
};
static_assert(offsetof(struct linux_user, debugreg) == 848, "struct user is ABI");

struct linux_ptrace_peeksiginfo_args {
	uint64_t off;
	uint32_t flags;
	int32_t nr;
};

struct linux_ptrace_syscall_info {
	uint8_t op, pad[3];
	uint32_t arch;
	uint64_t ip, sp;
	union {
		struct {
			uint64_t nr, args[6];
		} entry;
		struct {
			int64_t rval;
			uint8_t is_error;
		} exit;
	};
};
static_assert(offsetof(struct linux_ptrace_syscall_info, entry.args) == 32, "ABI of ptrace");
