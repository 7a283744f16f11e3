/* SPDX-License-Identifier: MIT */
/*
 * Traps: the saved registers, the vectors, and the table through which user
 * faults, system calls and exceptions reach the monitor that runs user code.
 *
 * Context:	every hook is called on the thread's own kernel stack with
 *		interrupts and preemption on; all may sleep.
 */
#pragma once

#include <arch/percpu.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct thread;

struct syscall_args {
	uint64_t a[6];
};

/* Layout known to entry.S. */
struct pt_regs {
	uint64_t r15, r14, r13, r12, rbp, rbx;
	uint64_t r11, rcx, rax;
	union {
		struct {
			uint64_t rdi, rsi, rdx, r10, r8, r9;
		};
		struct syscall_args args; /* the same words: handlers read them in place */
	};
	uint64_t orig_rax; /* syscall number, or ~0 */
	uint64_t vector;   /* TRAP_* or TRAP_SYSCALL */
	uint64_t error;    /* error code pushed by the CPU, else 0 */
	uint64_t rip, cs, rflags, rsp, ss;
};

#define TRAP_DE      0
#define TRAP_DB      1
#define TRAP_NMI     2
#define TRAP_BP      3
#define TRAP_OF      4
#define TRAP_BR      5
#define TRAP_UD      6
#define TRAP_NM      7
#define TRAP_DF      8
#define TRAP_TS      10
#define TRAP_NP      11
#define TRAP_SS      12
#define TRAP_GP      13
#define TRAP_PF      14
#define TRAP_MF      16
#define TRAP_AC      17
#define TRAP_MC      18
#define TRAP_XM      19
#define TRAP_SYSCALL 256

#define SEL_KERNEL_CS 0x08
#define SEL_KERNEL_DS 0x10
#define SEL_USER_DS   0x2b /* order fixed by SYSRET: data, then 64-bit code */
#define SEL_USER_CS   0x33
#define SEL_TSS       0x38

/* All registers of the system call whose handler has got @args. */
static inline struct pt_regs *syscall_regs(const struct syscall_args *args)
{
	return container_of(args, struct pt_regs, args);
}

/* The result goes into regs->rax. */
typedef long (*syscall_fn)(const struct syscall_args *args);

DECLARE_PERCPU(uint64_t, nr_syscalls); /* system calls entered */

static inline bool regs_from_user(const struct pt_regs *regs)
{
	return (regs->cs & 3) == 3;
}

#define FAULT_PRESENT 0x01u /* the page was mapped: a rights violation */
#define FAULT_WRITE   0x02u
#define FAULT_USER    0x04u /* user mode made the access; clear: uaccess by the kernel */
#define FAULT_RSVD    0x08u
#define FAULT_EXEC    0x10u

struct user_fault {
	vaddr_t addr;   /* whatever user code computed: kernel addresses too */
	uint32_t flags; /* FAULT_* */
	struct pt_regs *regs;
};

struct user_exception {
	int signo;       /* Linux signal number */
	int code;        /* Linux si_code */
	vaddr_t addr;    /* si_addr where it has a meaning, else RIP */
	uint32_t trapno; /* TRAP_*: sigcontext wants it */
	uint64_t error;
	struct pt_regs *regs;
};

struct user_trap_ops {
	/*
	 * A user address faulted.  0: retry the access.  Negative errno: it cannot
	 * be had; with FAULT_USER the hook has queued the signal itself, without it
	 * the uaccess function returns -EFAULT.
	 */
	int (*page_fault)(const struct user_fault *fault);
	/*
	 * By number, which is also in regs->orig_rax; none is NULL. syscalls[nr_syscalls] answers
	 * all others.
	 */
	const syscall_fn *syscalls;
	uint64_t nr_syscalls;
	/* A user-mode exception other than a page fault; queue the signal. */
	void (*exception)(const struct user_exception *ex);
	/*
	 * Called on the way back to user mode while thread_user_work() of the thread
	 * is set (signals, exit).  May change regs, may call thread_exit().
	 */
	void (*return_work)(struct pt_regs *regs);
};

/* Once, before the first user_enter(). */
void user_trap_ops_register(const struct user_trap_ops *ops);

/*
 * Leave for user mode with @regs (copied).  Selectors, RFLAGS and a
 * non-canonical RIP are sanitised, not trusted.  Never returns; the thread
 * comes back through the hooks and ends by thread_exit().  Before it, the
 * thread needs a page table and FPU state: thread_set_user() in <kernel/thread.h>.
 */
void user_enter(const struct pt_regs *regs) __attribute__((noreturn));

/* Fix up registers that came from user memory (sigreturn): flags, selectors, canonical RIP. */
void user_regs_sanitise(struct pt_regs *regs);

/*
 * Registers with which the current thread, or @t, which is in the kernel and stays there, entered
 * the kernel; only for user threads.
 */
struct pt_regs *user_regs_current(void);
struct pt_regs *user_regs_of(const struct thread *t);

/*
 * Other handlers by number from now on, as many as were registered. A call that is under way, on
 * whatever CPU, may still be served by the ones of before.
 */
void user_syscalls_replace(const syscall_fn *syscalls);
