/* SPDX-License-Identifier: MIT */
/*
 * ptrace(): what a stopped task's signals and system calls look like.
 *
 * Context:	the tracer; the task is stopped and frozen.
 */
#include <abi/ptrace.h>
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "process.h"
#include "ptrace_private.h"

#define SIGINFO_SIZE      128u
#define AUDIT_ARCH_X86_64 0xc000003eu

/* --- siginfo -------------------------------------------------------------------------- */

static long put_info(uint64_t udata, const struct linux_siginfo *info)
{
	uint8_t user[SIGINFO_SIZE] = { 0 };

	memcpy(user, info, sizeof(*info));
	return copy_to_user((void __user *)udata, user, sizeof(user)) ? -EFAULT : 0;
}

long ptrace_getsiginfo(struct task *t, uint64_t udata)
{
	return t->trace.has_info ? put_info(udata, &t->trace.info) : -EINVAL;
}

long ptrace_setsiginfo(struct task *t, uint64_t udata)
{
	uint8_t user[SIGINFO_SIZE];

	if (copy_from_user(user, (const void __user *)udata, sizeof(user)))
		return -EFAULT;
	if (!t->trace.has_info)
		return -EINVAL;
	memcpy(&t->trace.info, user, sizeof(t->trace.info));
	t->trace.info.pad = 0;
	return 0;
}

long ptrace_peeksiginfo(struct task *t, uint64_t uargs, uint64_t udata)
{
	struct process *p = t->process;
	struct linux_ptrace_peeksiginfo_args a;
	struct linux_siginfo info;
	const struct sigqueue *q;
	int32_t done = 0;
	bool found = true;

	if (copy_from_user(&a, (const void __user *)uargs, sizeof(a)))
		return -EFAULT;
	if ((a.flags & ~PTRACE_PEEKSIGINFO_SHARED) || a.nr < 0)
		return -EINVAL;
	if (a.off > UINT64_MAX - (uint32_t)a.nr)
		return 0;
	q = (a.flags & PTRACE_PEEKSIGINFO_SHARED) ? &p->sig.pending : &t->sig.pending;
	for (; done < a.nr && found; done += found) {
		spin_lock(&p->sig_lock);
		found = signal_queue_peek(q, a.off + (uint32_t)done, &info);
		spin_unlock(&p->sig_lock);
		if (found && put_info(udata + (uint64_t)done * SIGINFO_SIZE, &info))
			return done ? done : -EFAULT;
	}
	return done;
}

/* --- masks ---------------------------------------------------------------------------- */

long ptrace_getsigmask(struct task *t, uint64_t size, uint64_t udata)
{
	if (size != sizeof(t->sig.mask))
		return -EINVAL;
	/* In a call with a mask of its own, the program's is the one that comes back. */
	return put_user_u64(t->sig.has_saved_mask ? t->sig.saved_mask : t->sig.mask,
			    (void __user *)udata)
		       ? -EFAULT
		       : 0;
}

long ptrace_setsigmask(struct task *t, uint64_t size, uint64_t udata)
{
	uint64_t mask;

	if (size != sizeof(mask))
		return -EINVAL;
	if (get_user_u64(&mask, (const void __user *)udata))
		return -EFAULT;
	signal_set_mask_of(t, mask);
	return 0;
}

/* --- system calls --------------------------------------------------------------------- */

static bool at_a_call(const struct task *t)
{
	return t->trace.has_info && !t->trace.is_signal && t->trace.code == (SIGTRAP | 0x80);
}

long ptrace_syscall_info(struct task *t, uint64_t size, uint64_t udata)
{
	const struct pt_regs *r = user_regs_of(t->thread);
	struct linux_ptrace_syscall_info i = {
		.op = PTRACE_SYSCALL_INFO_NONE,
		.arch = AUDIT_ARCH_X86_64,
		.ip = r->rip,
		.sp = r->rsp,
	};
	size_t len = offsetof(struct linux_ptrace_syscall_info, entry);

	ASSERT(t->trace.freezes);
	if (at_a_call(t) && t->trace.message == PTRACE_EVENTMSG_SYSCALL_ENTRY) {
		i.op = PTRACE_SYSCALL_INFO_ENTRY;
		i.entry.nr = r->orig_rax;
		memcpy(i.entry.args, &r->args, sizeof(i.entry.args));
		len = offsetof(struct linux_ptrace_syscall_info, entry.args) + sizeof(i.entry.args);
	} else if (at_a_call(t)) {
		i.op = PTRACE_SYSCALL_INFO_EXIT;
		i.exit.rval = (int64_t)r->rax;
		i.exit.is_error = r->rax >= (uint64_t)-4095;
		len = offsetof(struct linux_ptrace_syscall_info, exit.is_error) + 1;
	}
	if (copy_to_user((void __user *)udata, &i, MIN(size, (uint64_t)len)))
		return -EFAULT;
	return (long)len;
}
