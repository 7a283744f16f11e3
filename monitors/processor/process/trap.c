/* SPDX-License-Identifier: MIT */
/*
 * Traps from user mode: faults, exceptions, system calls, and the way back.
 */
#define PR_FMT "trap: "

#include "process.h"

#include <arch/trap.h>
#include <kernel/printk.h>
#include <lib/errno.h>
#include <processor/mm/aspace.h>
#include <processor/signal/signal.h>
#include <processor/syscall/syscall.h>

static enum fault_access access_of(uint32_t flags)
{
	if (flags & FAULT_EXEC)
		return FAULT_ACC_EXEC;
	return (flags & FAULT_WRITE) ? FAULT_ACC_WRITE : FAULT_ACC_READ;
}

/* The signal for a fault that cannot be resolved. */
static struct linux_siginfo signal_of(int err, const struct user_fault *fault)
{
	struct linux_siginfo info = {
		.addr = fault->addr,
		.signo = SIGBUS,
		.code = BUS_ADRERR,
	};

	switch (err) {
	case -EFAULT:
		info.signo = SIGSEGV;
		info.code = SEGV_MAPERR;
		break;
	case -EACCES:
		info.signo = SIGSEGV;
		info.code = SEGV_ACCERR;
		break;
	default:
		break;
	}
	return info;
}

/* Keep the facts about the trap for the signal's frame. */
static void note_trap(struct task *t, uint32_t trapno, uint64_t error)
{
	t->sig.trapno = trapno;
	t->sig.error = error;
}

/* Does the program get a signal for it? Else the system cannot do what it should, and ends it. */
static bool is_the_programs_fault(int err)
{
	switch (err) {
	case -EFAULT:
	case -EACCES:
	case -EIO:    /* behind the end of a file, or its disk cannot be read */
	case -ENOSPC: /* the disk has no room for the page of a file */
	case -EROFS:  /* the disk cannot be written any more */
	case -ESTALE: /* the file is gone */
		return true;
	default:
		return false;
	}
}

static void end_program(struct task *t, vaddr_t addr, int err)
{
	const struct process *p = t->process;

	if (READ_ONCE(p->as->failed))
		process_kill_failed();
	else if (err == -ENOMEM)
		process_lost(t->process, "there is no memory for %s (pid %u)", t->comm, p->pid);
	else
		process_lost(t->process, "page %#llx of %s (pid %u) cannot be had: error %d",
			     (unsigned long long)addr, t->comm, p->pid, err);
}

static __noinline int page_fault_failed(struct task *t, const struct user_fault *fault, int err)
{
	struct linux_siginfo info;

	if (err == -EINTR) {
		/*
		 * A task whose wait was ended is to end itself: its process may go on, by exec in
		 * another thread. Else another task, which was fetching the same line, was killed:
		 * fault again.
		 */
		return __atomic_load_n(&t->thread->flags, __ATOMIC_ACQUIRE) & THREAD_F_KILL ? err
											    : 0;
	}
	if (READ_ONCE(t->process->as->failed) || !is_the_programs_fault(err)) {
		end_program(t, fault->addr, err);
		return err;
	}
	if (err != -EFAULT && err != -EACCES)
		pr_warn("pid %u: page %#llx cannot be had: error %d\n", t->process->pid,
			(unsigned long long)fault->addr, err);
	if (fault->flags & FAULT_USER) { /* a kernel copy just answers EFAULT */
		info = signal_of(err, fault);
		/* As Linux: of kernel addresses a program does not learn what is mapped. */
		note_trap(t, TRAP_PF,
			  fault->flags | FAULT_USER |
				  (fault->addr >= USER_TOP ? FAULT_PRESENT : 0));
		t->sig.cr2 = fault->addr;
		signal_force(t, &info);
	}
	return err;
}

static int page_fault(const struct user_fault *fault)
{
	struct task *t = task_current();
	struct aspace *as = t->process->as;
	const uint64_t fetches = t->thread->nr_fetches;
	int err = unlikely(aspace_below_stack(as, fault->addr))
			  ? -EFAULT
			  : aspace_fault(as, fault->addr, access_of(fault->flags));

	if (unlikely(err == -EFAULT) && !aspace_grow(as, fault->addr, process_rlimit(RLIMIT_STACK)))
		err = aspace_fault(as, fault->addr, access_of(fault->flags));

	t->faults++;
	t->major_faults += t->thread->nr_fetches != fetches;
	return likely(!err) ? 0 : page_fault_failed(t, fault, err);
}

static void exception(const struct user_exception *ex)
{
	const struct linux_siginfo info = {
		.signo = ex->signo,
		.code = ex->code,
		.addr = ex->addr,
	};

	note_trap(task_current(), ex->trapno, ex->error);
	signal_force(task_current(), &info);
}

static struct user_trap_ops ops = {
	.page_fault = page_fault,
	.exception = exception,
	.return_work = signal_return_work,
};

void trap_init(void)
{
	ops.syscalls = syscall_handlers(&ops.nr_syscalls);
	user_trap_ops_register(&ops);
}
