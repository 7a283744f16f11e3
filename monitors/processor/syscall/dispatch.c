/* SPDX-License-Identifier: MIT */
/*
 * System call dispatch.
 *
 * Context:	the calling user thread; handlers may sleep.
 * Failure:	a number that is not in the table answers -ENOSYS and is counted; the first use of each is
 *		named in the log.
 */
#define PR_FMT "syscall: "

#include <processor/syscall.h>

#include <arch/trap.h>
#include <kernel/counter.h>
#include <kernel/printk.h>
#include <lib/bitmap.h>
#include <lib/errno.h>
#include <processor/process.h>
#include <processor/strace.h>

COUNTER(syscall_count, "syscall.count", "system calls");
COUNTER(syscall_enosys, "syscall.enosys", "system calls that do not exist here");

static void name_once(uint64_t nr)
{
	static uint64_t seen[8]; /* atomic; one bit a number */

	if (nr < 512 && !(__atomic_fetch_or(&seen[nr / 64], 1ull << (nr % 64), __ATOMIC_RELAXED) &
			  (1ull << (nr % 64))))
		pr_info("call %llu is not there (ENOSYS)\n", (unsigned long long)nr);
}

void syscall_enter(struct pt_regs *regs)
{
	const struct syscall_args args = {
		.a = { regs->rdi, regs->rsi, regs->rdx, regs->r10, regs->r8, regs->r9 },
		.regs = regs,
	};
	const uint64_t nr = regs->orig_rax;
	const struct syscall_entry *entry = nr < syscall_table_len ? &syscall_table[nr] : NULL;

	counter_inc(&syscall_count);
	if (unlikely(!entry || !entry->fn)) {
		counter_inc(&syscall_enosys);
		name_once(nr);
		regs->rax = (uint64_t)(strace_on ? strace_call(entry, nr, &args) : -ENOSYS);
		return;
	}
	if (likely(!strace_on)) {
		regs->rax = (uint64_t)entry->fn(&args);
		return;
	}
	regs->rax = (uint64_t)strace_call(entry, nr, &args);
}
