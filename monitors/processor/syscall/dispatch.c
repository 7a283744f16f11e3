/* SPDX-License-Identifier: MIT */
/*
 * System call dispatch: the handlers that the entry code (arch/x86/entry.S) calls by number.
 *
 * Context:	the calling user thread; handlers may sleep.
 * Locking:	watch_lock counts the watched tasks and chooses the table that the entry code uses.
 * Failure:	a number that is not in the table answers -ENOSYS and is counted; the first use of
 *		each is named in the log.
 */
#define PR_FMT "syscall: "

#include "syscall.h"

#include <arch/trap.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <lib/bitmap.h>
#include <lib/errno.h>
#include <processor/process/process.h>

#include "strace.h"

COUNTER_OF(syscall_count, nr_syscalls, "syscall.count", "system calls");
COUNTER(syscall_enosys, "syscall.enosys", "system calls that do not exist here");

static void name_once(uint64_t nr)
{
	static uint64_t seen[8]; /* atomic; one bit a number */

	if (nr < 512 && !(__atomic_fetch_or(&seen[nr / 64], 1ull << (nr % 64), __ATOMIC_RELAXED) &
			  (1ull << (nr % 64))))
		pr_info("call %llu is not there (ENOSYS)\n", (unsigned long long)nr);
}

/* The last number that may be in the table is 511: see scripts/gen-syscalls.py. */
static syscall_fn handlers[512 + 1]; /* const after start */

static long no_such_call(const struct syscall_args *args)
{
	counter_inc(&syscall_enosys);
	name_once(syscall_regs(args)->orig_rax);
	return -ENOSYS;
}

static long traced_call(const struct syscall_args *args)
{
	const uint64_t nr = syscall_regs(args)->orig_rax;
	const struct syscall_entry *entry = nr < syscall_table_len ? &syscall_table[nr] : NULL;

	if (!entry || !entry->fn)
		(void)no_such_call(args); /* counts and names it */
	return strace_call(entry, nr, args);
}

/* --- while a tracer wants to hear of somebody's calls ----------------------------------- */

static struct spinlock watch_lock = SPINLOCK_INIT("syscall.watch", RANK_LEAF);
static uint64_t nr_watched __guarded_by(&watch_lock);
static syscall_fn watching[ARRAY_SIZE(handlers)]; /* const after start */

static long call_by_number(uint64_t nr, const struct syscall_args *args)
{
	/* No branch: a wrong guess must not index with the user's number. */
	__asm__("cmp %1, %0\n\tcmovae %1, %0" : "+r"(nr) : "r"((uint64_t)syscall_table_len) : "cc");
	return handlers[nr](args);
}

static long watched_call(const struct syscall_args *args)
{
	struct pt_regs *regs = syscall_regs(args);
	struct task *t = task_current();

	if (likely(!READ_ONCE(t->trace.watch)))
		return call_by_number(regs->orig_rax, args);
	if (trace_call_begin(t, regs) && seccomp_call_begin(t, regs))
		regs->rax = (uint64_t)call_by_number(regs->orig_rax, args);
	trace_call_end(t, regs);
	return (long)regs->rax;
}

void syscall_watch_begin(void)
{
	spin_lock(&watch_lock);
	if (!nr_watched++)
		user_syscalls_replace(watching);
	spin_unlock(&watch_lock);
}

void syscall_watch_end(void)
{
	spin_lock(&watch_lock);
	ASSERT(nr_watched > 0);
	if (!--nr_watched)
		user_syscalls_replace(handlers);
	spin_unlock(&watch_lock);
}

const syscall_fn *syscall_handlers(uint64_t *nr)
{
	BUG_ON(syscall_table_len >= ARRAY_SIZE(handlers));
	for (unsigned int i = 0; i <= syscall_table_len; i++) {
		handlers[i] = i < syscall_table_len ? syscall_table[i].fn : NULL;
		if (strace_on)
			handlers[i] = traced_call;
		else if (!handlers[i])
			handlers[i] = no_such_call;
		watching[i] = watched_call;
	}
	*nr = syscall_table_len;
	return handlers;
}
