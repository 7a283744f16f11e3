/* SPDX-License-Identifier: MIT */
/*
 * Panic: say all that is known, then stop as the boot parameter panic= wants.
 *
 * Flow:	Output: docs/debugging.md.  Registers (when a trap brought us here), backtrace,
 *		locks held, the last trace entries, build id.
 *		CPUs: the first to panic stops the others and prints for all; one that panics
 *		while another does is stopped like the rest.
 * Locking:	none is waited for: panic_owner makes spinlocks and printk stand aside.
 * Failure:	a panic inside a panic prints one line and stops.
 */
#include <kernel/panic.h>

#include <arch/cpu.h>
#include <arch/ipi.h>
#include <arch/kpgtable.h>
#include <arch/layout.h>
#include <arch/trap.h>
#include <kernel/bootparam.h>
#include <kernel/lock_debug.h>
#include <kernel/panic_state.h>
#include <kernel/printk.h>
#include <kernel/reboot.h>
#include <kernel/symbols.h>
#include <kernel/thread.h>
#include <kernel/trace.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>

#define BACKTRACE_MAX 32u
#define TRACE_SHOWN   24u

uint32_t panic_owner;

static enum panic_action {
	PANIC_HALT,
	PANIC_EXIT,
	PANIC_REBOOT
} panic_action;

static int set_panic_action(const char *value)
{
	if (strcmp(value, "halt") == 0)
		panic_action = PANIC_HALT;
	else if (strcmp(value, "exit") == 0)
		panic_action = PANIC_EXIT;
	else if (strcmp(value, "reboot") == 0)
		panic_action = PANIC_REBOOT;
	else
		return -EINVAL;
	return 0;
}
BOOT_PARAM_CB("panic", set_panic_action,
	      "after a panic: halt (default), exit (power off, status 3) or reboot");

/* Frame pointers lead up the stack; stop at anything that cannot be one. */
static bool frame_ok(uint64_t rbp, uint64_t last)
{
	paddr_t paddr;
	bool w;
	bool x;

	return rbp > last && (rbp & 7) == 0 && rbp >= DIRECT_MAP_BASE &&
	       (last == 0 || rbp - last < THREAD_STACK_SIZE * 2u) &&
	       kpt_query(rbp, &paddr, &w, &x) && kpt_query(rbp + 15, &paddr, &w, &x);
}

void backtrace_print_from(uint64_t rip, uint64_t rbp)
{
	uint64_t last = 0;
	char name[96];

	printk(LOG_ERR, "backtrace:\n");
	for (unsigned int i = 0; i < BACKTRACE_MAX; i++) {
		if (rip) {
			/*
			 * The return address may lie past the end of a function that ends in a
			 * call.
			 */
			symbol_format(name, sizeof(name), i ? rip - 1 : rip);
			printk(LOG_ERR, "  %#018lx %s\n", rip, name);
		}
		if (!frame_ok(rbp, last))
			return;
		last = rbp;
		rip = ((const uint64_t *)rbp)[1];
		rbp = ((const uint64_t *)rbp)[0];
		if (rip < KERNEL_BASE)
			return;
	}
}

void backtrace_print(void)
{
	backtrace_print_from(0, (uint64_t)__builtin_frame_address(0));
}

static void print_regs(const struct pt_regs *r)
{
	uint64_t cr2;
	char name[96];

	__asm__ volatile("mov %%cr2, %0" : "=r"(cr2));
	symbol_format(name, sizeof(name), r->rip);
	printk(LOG_ERR, "rip %04lx:%016lx %s\n", r->cs, r->rip, name);
	printk(LOG_ERR, "rsp %04lx:%016lx rflags %08lx trap %lu error %lx cr2 %016lx\n", r->ss,
	       r->rsp, r->rflags, r->vector, r->error, cr2);
	printk(LOG_ERR, "rax %016lx rbx %016lx rcx %016lx rdx %016lx\n", r->rax, r->rbx, r->rcx,
	       r->rdx);
	printk(LOG_ERR, "rsi %016lx rdi %016lx rbp %016lx\n", r->rsi, r->rdi, r->rbp);
	printk(LOG_ERR, "r8  %016lx r9  %016lx r10 %016lx r11 %016lx\n", r->r8, r->r9, r->r10,
	       r->r11);
	printk(LOG_ERR, "r12 %016lx r13 %016lx r14 %016lx r15 %016lx\n", r->r12, r->r13, r->r14,
	       r->r15);
}

static void __noreturn panic_stop(void)
{
	if (panic_action == PANIC_EXIT)
		machine_poweroff(EXIT_STATUS_PANIC);
	if (panic_action == PANIC_REBOOT)
		machine_reboot();
	machine_halt();
}

static void __noreturn vpanic(struct pt_regs *regs, const char *fmt, va_list ap)
{
	const struct thread *t = thread_current();
	uint32_t nobody = 0;
	char msg[256];

	local_irq_disable();
	if (!__atomic_compare_exchange_n(&panic_owner, &nobody, cpu_id() + 1, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		if (!panic_is_mine())
			machine_halt(); /* the NMI of the one that was first still arrives */
		printk(LOG_ERR, "panic inside a panic\n");
		panic_stop();
	}
	smp_stop_others();
	vsnprintf(msg, sizeof(msg), fmt, ap);
	printk(LOG_ERR, "PANIC: %s\n", msg);
	printk(LOG_ERR, "cpu %u, thread %s (%u), preempt count %#x, build %s\n", cpu_id(),
	       t ? t->name : "none", t ? t->tid : 0, percpu_read(preempt_count), build_id());
	if (regs) {
		print_regs(regs);
		backtrace_print_from(regs->rip, regs->rbp);
	} else {
		backtrace_print();
	}
	lock_debug_print_held();
	smp_stopped_print();
	trace_dump(TRACE_SHOWN);
	printk(LOG_ERR, "end of panic\n");
	panic_stop();
}

void panic(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vpanic(NULL, fmt, ap);
}

void panic_regs(struct pt_regs *regs, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vpanic(regs, fmt, ap);
}

void warn_at(const char *file, int line, const char *cond)
{
	printk(LOG_ERR, "WARNING: %s:%d: %s\n", file, line, cond);
	backtrace_print();
}

void bug_at(const char *file, int line, const char *cond)
{
	panic("BUG: %s:%d: %s", file, line, cond);
}
