/* SPDX-License-Identifier: MIT */
/*
 * Trap dispatch: exceptions, page faults, system calls, and the work done on
 * the way back to user mode.
 *
 * Flow:	entry.S -> trap_dispatch() -> hooks of the monitor that runs user code
 *		(user mode), fix-up (uaccess), or panic (kernel mode).
 * Context:	entered with interrupts off.  Hooks run with interrupts on, on the
 *		thread's own stack; trap_dispatch() returns with interrupts off.
 * Failure:	a user program can only hurt itself: every user-mode exception becomes a
 *		signal.  A kernel-mode one without a fix-up is a panic.
 */
#include <abi/signal.h>
#include <arch/cpu.h>
#include <arch/debugreg.h>
#include <arch/fpu.h>
#include <arch/layout.h>
#include <arch/trap.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/panic_state.h>
#include <kernel/preempt.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/trace.h>
#include <lib/string.h>

#include "arch_private.h"
#include "smp.h"

COUNTER(count_user_faults, "trap.user_faults", "page faults taken in user mode");
COUNTER(count_uaccess_faults, "trap.uaccess_faults", "page faults taken by user copies");

DEFINE_PERCPU(uint64_t, nr_syscalls); /* entry.S */
COUNTER_OF(count_syscalls, nr_syscalls, "trap.syscalls", "system calls entered");

/* Kernel instructions that may fault, and where to go on; collected by the linker script. */
struct extable_entry {
	uint64_t insn;
	uint64_t fixup;
};
extern const struct extable_entry extable_start[], extable_end[];

static const struct user_trap_ops *trap_ops;
/* Of trap_ops, for entry.S. */
const syscall_fn *syscall_fns;
uint64_t syscall_fns_len;

/* Known to entry.S. */
static_assert(offsetof(struct pt_regs, r11) == 48 && offsetof(struct pt_regs, rcx) == 56 &&
		      offsetof(struct pt_regs, rax) == 64 && offsetof(struct pt_regs, args) == 72 &&
		      offsetof(struct pt_regs, r9) == 112 &&
		      offsetof(struct pt_regs, orig_rax) == 120 && sizeof(struct pt_regs) == 184,
	      "struct pt_regs and entry.S");
static_assert(offsetof(struct thread, flags) == 16, "struct thread and entry.S");

static void trap_ops_set(const struct user_trap_ops *ops)
{
	trap_ops = ops;
	syscall_fns = ops ? ops->syscalls : NULL;
	syscall_fns_len = ops ? ops->nr_syscalls : 0;
}

void user_trap_ops_register(const struct user_trap_ops *ops)
{
	BUG_ON(trap_ops);
	trap_ops_set(ops);
}

void user_syscalls_replace(const syscall_fn *syscalls)
{
	__atomic_store_n(&syscall_fns, syscalls, __ATOMIC_RELEASE);
}

const struct user_trap_ops *user_trap_ops_swap(const struct user_trap_ops *ops)
{
	const struct user_trap_ops *old = trap_ops;

	trap_ops_set(ops);
	return old;
}

static uint64_t read_cr2(void)
{
	uint64_t v;

	__asm__ volatile("mov %%cr2, %0" : "=r"(v));
	return v;
}

static bool fixup(struct pt_regs *regs)
{
	const struct extable_entry *e;

	for (e = extable_start; e < extable_end; e++) {
		if (e->insn == regs->rip) {
			regs->rip = e->fixup;
			return true;
		}
	}
	return false;
}

static bool has_fixup(const struct pt_regs *regs)
{
	const struct extable_entry *e;

	for (e = extable_start; e < extable_end; e++) {
		if (e->insn == regs->rip)
			return true;
	}
	return false;
}

static void kernel_page_fault(struct pt_regs *regs, vaddr_t addr)
{
	const struct thread *t = thread_current();
	const struct user_fault fault = {
		.addr = addr,
		.flags = (uint32_t)regs->error & (FAULT_PRESENT | FAULT_WRITE | FAULT_RSVD),
		.regs = regs,
	};

	if (addr < USER_TOP && has_fixup(regs)) {
		int err = -1;

		counter_inc(&count_uaccess_faults);
		if (trap_ops && t->user.pgtable && !t->faults_off && preemptible() &&
		    (regs->rflags & RFLAGS_IF)) {
			local_irq_enable();
			err = trap_ops->page_fault(&fault);
			local_irq_disable();
		}
		if (err)
			(void)fixup(regs);
		return;
	}
	if (t && addr >= t->stack - PAGE_SIZE && addr < t->stack)
		panic_regs(regs, "kernel stack overflow in thread %s", t->name);
	panic_regs(regs, "page fault in the kernel: %s of %#lx, %s",
		   regs->error & FAULT_EXEC    ? "execution"
		   : regs->error & FAULT_WRITE ? "write"
					       : "read",
		   addr, regs->error & FAULT_PRESENT ? "no right" : "not mapped");
}

static __noinline void user_page_fault(struct pt_regs *regs, vaddr_t addr)
{
	const struct user_fault fault = {
		.addr = addr,
		.flags = (uint32_t)regs->error & 0x1f,
		.regs = regs,
	};

	counter_inc(&count_user_faults);
	local_irq_enable();
	/* On failure the hook has queued a signal, taken by user_exit_prepare(). */
	(void)trap_ops->page_fault(&fault);
	local_irq_disable();
}

static int sse_code(void)
{
	uint32_t mxcsr;
	uint32_t raised;

	__asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
	raised = mxcsr & ~(mxcsr >> 7) & 0x3f;
	if (raised & BIT(0))
		return FPE_FLTINV;
	if (raised & BIT(2))
		return FPE_FLTDIV;
	if (raised & BIT(3))
		return FPE_FLTOVF;
	if (raised & (BIT(4) | BIT(1)))
		return FPE_FLTUND;
	return FPE_FLTRES;
}

static int x87_code(void)
{
	uint16_t sw;
	uint16_t cw;
	uint32_t raised;

	__asm__ volatile("fnstsw %0" : "=m"(sw));
	__asm__ volatile("fnstcw %0" : "=m"(cw));
	raised = sw & ~cw & 0x3f;
	if (raised & BIT(0))
		return FPE_FLTINV;
	if (raised & BIT(2))
		return FPE_FLTDIV;
	if (raised & BIT(3))
		return FPE_FLTOVF;
	if (raised & (BIT(4) | BIT(1)))
		return FPE_FLTUND;
	return FPE_FLTRES;
}

static void describe_debug(struct user_exception *ex)
{
	struct debug_regs *d = &thread_current()->user.debug;

	d->status = debug_take_status();
	ex->signo = SIGTRAP;
	ex->code = (d->status & DR6_STEP)   ? TRAP_TRACE
		   : (d->status & DR6_HITS) ? TRAP_HWBKPT
					    : TRAP_BRKPT;
	ex->addr = ex->regs->rip;
	/* Or an instruction that is a breakpoint would never be executed. */
	if (d->status & DR6_HITS)
		ex->regs->rflags |= RFLAGS_RF;
}

/* The signal that Linux sends for each exception. */
static void describe_exception(struct user_exception *ex)
{
	ex->signo = SIGSEGV;
	ex->code = SI_KERNEL;
	ex->addr = 0;
	switch (ex->trapno) {
	case TRAP_DE:
		ex->signo = SIGFPE;
		ex->code = FPE_INTDIV;
		ex->addr = ex->regs->rip;
		break;
	case TRAP_DB:
		describe_debug(ex);
		break;
	case TRAP_BP:
		ex->signo = SIGTRAP;
		break;
	case TRAP_UD:
		ex->signo = SIGILL;
		ex->code = ILL_ILLOPN;
		ex->addr = ex->regs->rip;
		break;
	case TRAP_NP:
	case TRAP_SS:
		ex->signo = SIGBUS;
		break;
	case TRAP_AC:
		ex->signo = SIGBUS;
		ex->code = BUS_ADRALN;
		break;
	case TRAP_MF:
	case TRAP_XM:
		ex->signo = SIGFPE;
		ex->code = ex->trapno == TRAP_MF ? x87_code() : sse_code();
		ex->addr = ex->regs->rip;
		break;
	default:
		break;
	}
}

static void user_exception(struct pt_regs *regs)
{
	struct user_exception ex = {
		.trapno = (uint32_t)regs->vector,
		.error = regs->error,
		.regs = regs,
	};

	describe_exception(&ex);
	local_irq_enable();
	trap_ops->exception(&ex);
	local_irq_disable();
}

static const char *const trap_names[32] = {
	[TRAP_DE] = "divide error",
	[TRAP_DB] = "debug",
	[TRAP_NMI] = "NMI",
	[TRAP_BP] = "breakpoint",
	[TRAP_OF] = "overflow",
	[TRAP_BR] = "bound range",
	[TRAP_UD] = "invalid opcode",
	[TRAP_NM] = "no FPU",
	[TRAP_DF] = "double fault",
	[TRAP_TS] = "invalid TSS",
	[TRAP_NP] = "segment not present",
	[TRAP_SS] = "stack segment",
	[TRAP_GP] = "general protection",
	[TRAP_PF] = "page fault",
	[TRAP_MF] = "x87 error",
	[TRAP_AC] = "alignment check",
	[TRAP_MC] = "machine check",
	[TRAP_XM] = "SIMD error",
};

static void __noreturn fatal_trap(struct pt_regs *regs)
{
	const struct thread *t = thread_current();
	const char *name = trap_names[regs->vector];
	const uint64_t cr2 = read_cr2();

	if (regs->vector == TRAP_DF && t && cr2 >= t->stack - PAGE_SIZE && cr2 < t->stack)
		panic_regs(regs, "kernel stack overflow in thread %s", t->name);
	panic_regs(regs, "%s in the kernel, error %#lx", name ? name : "reserved exception",
		   regs->error);
}

/*
 * The kernel has touched user memory that a program watches, or ran the first instruction of a
 * system call with a trap of the user's last one pending. Neither is told.
 */
static void kernel_debug(struct pt_regs *regs)
{
	if (debug_take_status() & DR6_STEP)
		regs->rflags &= ~(uint64_t)RFLAGS_TF;
}

static __noinline void exception_dispatch(struct pt_regs *regs)
{
	if (regs->vector == TRAP_NMI && panic_in_progress() && !panic_is_mine())
		smp_stop_this_cpu(regs);
	if (regs->vector == TRAP_NMI || regs->vector == TRAP_DF || regs->vector == TRAP_MC)
		fatal_trap(regs);
	if (regs->vector == TRAP_PF) {
		kernel_page_fault(regs, read_cr2());
		return;
	}
	if (regs_from_user(regs))
		user_exception(regs);
	else if (regs->vector == TRAP_DB)
		kernel_debug(regs);
	else if (!fixup(regs))
		fatal_trap(regs);
}

static inline void clear_ac(void)
{
	if (cpu_features.smap)
		__asm__ volatile("clac" ::: "cc", "memory");
}

void trap_dispatch(struct pt_regs *regs)
{
	/* A user copy may have been interrupted with access to user pages on. */
	clear_ac();
	if (likely(regs->vector == TRAP_PF && regs_from_user(regs))) {
		user_page_fault(regs, read_cr2());
		return;
	}
	if (regs->vector < 32) {
		exception_dispatch(regs);
		return;
	}
	preempt_count_add(PREEMPT_IRQ);
	irq_dispatch((unsigned int)regs->vector, regs_from_user(regs));
	preempt_count_sub(PREEMPT_IRQ);
	if (!regs_from_user(regs) && percpu_read(exit_work.resched) && preemptible())
		preempt_schedule_irq();
}

/*
 * Interrupts are off from the last test to the jump to user mode, so that no
 * signal or reschedule request is left waiting.  The end of syscall_entry does
 * the same tests and comes here when there is something to do.
 */
void user_exit_prepare(struct pt_regs *regs)
{
	struct thread *t = thread_current();

	for (;;) {
		if (unlikely(percpu_read(exit_work.resched))) {
			local_irq_enable();
			schedule();
		} else if (unlikely(thread_user_work(t))) {
			local_irq_enable();
			trap_ops->return_work(regs);
		} else {
			break;
		}
		local_irq_disable();
	}
	/* IRETQ to a non-canonical address would fault in ring 0, whoever set it. */
	if (unlikely(regs->rip >= (1ul << 47)))
		regs->rip = (1ul << 47) - 1;
	fpu_restore_for_user(t->user.fpu);
}

#define RFLAGS_USER_MASK                                                                         \
	(RFLAGS_CF | 0x4u | 0x10u | 0x40u | 0x80u | RFLAGS_TF | RFLAGS_DF | 0x800u | RFLAGS_AC | \
	 RFLAGS_ID)

void user_regs_sanitise(struct pt_regs *regs)
{
	regs->cs = SEL_USER_CS;
	regs->ss = SEL_USER_DS;
	regs->rflags = (regs->rflags & RFLAGS_USER_MASK) | RFLAGS_IF | 0x2u;
	/* IRETQ to a non-canonical address would fault in ring 0: go to an unmapped one. */
	if (regs->rip >= (1ull << 47))
		regs->rip = (1ull << 47) - 1;
}

struct pt_regs *user_regs_of(const struct thread *t)
{
	return (struct pt_regs *)(t->stack_top - sizeof(struct pt_regs));
}

struct pt_regs *user_regs_current(void)
{
	return user_regs_of(thread_current());
}

void user_enter(const struct pt_regs *regs)
{
	struct pt_regs copy = *regs;

	BUG_ON(!trap_ops || !thread_current()->user.pgtable || !thread_current()->user.fpu);
	copy.orig_rax = ~0ull;
	user_regs_sanitise(&copy);
	local_irq_disable();
	user_enter_asm(&copy, user_regs_current());
}
