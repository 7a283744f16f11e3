/* SPDX-License-Identifier: MIT */
/*
 * Restartable sequences: rseq.h.
 *
 * Context:	all of it runs in the task that it is about; rseq_leave_all() sends interrupts.
 * Limits:	area, sequence and the word before the abort address are the program's, and other
 *		threads of it may write them meanwhile: each is read once.
 */
#include "rseq.h"

#include <abi/sched.h>
#include <arch/ipi.h>
#include <arch/trap.h>
#include <arch/uaccess.h>
#include <lib/errno.h>
#include <processor/syscall/syscall.h>

#include "process.h"

static void __user *member(const struct task *t, size_t offset)
{
	return (void __user *)(t->rseq.area + offset);
}

#define MEMBER(t, name) member(t, offsetof(struct linux_rseq, name))

static int tell_cpu(const struct task *t, uint32_t start, uint32_t cpu)
{
	if (put_user_u32(start, MEMBER(t, cpu_id_start)) || put_user_u32(cpu, MEMBER(t, cpu_id)) ||
	    put_user_u32(0, MEMBER(t, node_id)))
		return -EFAULT;
	/*
	 * A number below that of the CPUs which no other running thread of the space has: that of
	 * the CPU is one.
	 */
	return put_user_u32(start, MEMBER(t, mm_cid));
}

/* The sequence that the area names; all zero: none. -EFAULT, -EINVAL */
static int read_sequence(const struct task *t, struct linux_rseq_cs *cs)
{
	uint64_t at;
	uint32_t sig;

	*cs = (struct linux_rseq_cs){ 0 };
	if (get_user_u64(&at, MEMBER(t, rseq_cs)))
		return -EFAULT;
	if (!at)
		return 0;
	if (!user_range_ok(at, sizeof(*cs)))
		return -EINVAL;
	if (copy_from_user(cs, (const void __user *)at, sizeof(*cs)))
		return -EFAULT;
	if (cs->version || !user_range_ok(cs->start_ip, 1) ||
	    cs->post_commit_offset >= USER_TOP - cs->start_ip || cs->abort_ip < sizeof(sig) ||
	    !user_range_ok(cs->abort_ip, 1))
		return -EINVAL;
	/* An abort address within the sequence would be left again at once, for ever. */
	if (cs->abort_ip - cs->start_ip < cs->post_commit_offset)
		return -EINVAL;
	if (get_user_u32(&sig, (const void __user *)(cs->abort_ip - sizeof(sig))))
		return -EFAULT;
	return sig == t->rseq.sig ? 0 : -EINVAL;
}

static int leave_sequence(const struct task *t, struct pt_regs *regs)
{
	struct linux_rseq_cs cs;
	uint32_t flags;
	int err = read_sequence(t, &cs);

	if (err || !cs.abort_ip)
		return err;
	if (regs->rip - cs.start_ip >= cs.post_commit_offset)
		return put_user_u64(0, MEMBER(t, rseq_cs)); /* it is over */
	/* Flags once chose what leaves a sequence; Linux refuses them now. */
	if (get_user_u32(&flags, MEMBER(t, flags)))
		return -EFAULT;
	if (flags || cs.flags)
		return -EINVAL;
	if (put_user_u64(0, MEMBER(t, rseq_cs)))
		return -EFAULT;
	regs->rip = cs.abort_ip;
	return 0;
}

int rseq_return(struct task *t, struct pt_regs *regs)
{
	const int cpu = thread_take_switch();
	int err;

	if (likely(cpu < 0) || !t->rseq.area)
		return 0;
	err = leave_sequence(t, regs);
	return err ? err : tell_cpu(t, (uint32_t)cpu, (uint32_t)cpu);
}

int rseq_leave(struct task *t, struct pt_regs *regs)
{
	return t->rseq.area ? leave_sequence(t, regs) : 0;
}

/* --- the threads of a space ----------------------------------------------------------------- */

struct leave_all {
	const struct aspace *as;
	int cpu;
};

/* In an interrupt: the thread that it has stopped stays what it is. */
static void leave_here(void *arg)
{
	const struct leave_all *all = arg;
	const struct task *t = thread_current()->private;

	if (all->cpu >= 0 && all->cpu != (int)cpu_id())
		return;
	/* Only threads of programs note switches. */
	if (READ_ONCE(thread_current()->user.notes_switches) && t->process->as == all->as)
		thread_pretend_switch();
}

void rseq_leave_all(const struct aspace *as, int cpu)
{
	struct leave_all all = { .as = as, .cpu = cpu };

	smp_call_all(leave_here, &all);
}

/* --- life ----------------------------------------------------------------------------------- */

void rseq_forget(struct task *t)
{
	t->rseq = (struct task_rseq){ 0 };
	thread_note_switches(t->thread, false);
}

void rseq_clone(struct task *t, uint64_t flags)
{
	const struct task *from = task_current();

	if ((flags & CLONE_VM) || !from->rseq.area)
		return;
	t->rseq = from->rseq;
	thread_note_switches(t->thread, true);
}

static long unregister(struct task *t, const struct task_rseq *given)
{
	if (!t->rseq.area || given->area != t->rseq.area || given->len != t->rseq.len)
		return -EINVAL;
	if (given->sig != t->rseq.sig)
		return -EPERM;
	if (tell_cpu(t, 0, RSEQ_CPU_ID_UNINITIALIZED))
		return -EFAULT;
	rseq_forget(t);
	return 0;
}

static bool area_ok(const struct task_rseq *given)
{
	/* Before there was AT_RSEQ_FEATURE_SIZE, areas had the size of the whole structure. */
	return IS_ALIGNED(given->area, RSEQ_ALIGN) && given->len >= sizeof(struct linux_rseq);
}

/* rseq(area, len, flags, sig) */
long sys_rseq(const struct syscall_args *args)
{
	const struct task_rseq given = { .area = args->a[0],
					 .len = (uint32_t)args->a[1],
					 .sig = (uint32_t)args->a[3] };
	const uint32_t flags = (uint32_t)args->a[2];
	struct task *t = task_current();

	if (flags & ~RSEQ_FLAG_UNREGISTER)
		return -EINVAL;
	if (flags & RSEQ_FLAG_UNREGISTER)
		return unregister(t, &given);
	if (t->rseq.area) {
		if (given.area != t->rseq.area || given.len != t->rseq.len)
			return -EINVAL;
		return given.sig != t->rseq.sig ? -EPERM : -EBUSY;
	}
	if (!area_ok(&given))
		return -EINVAL;
	if (!given.area || !user_range_ok(given.area, given.len))
		return -EFAULT;
	t->rseq = given;
	thread_note_switches(t->thread, true); /* the area is written before the call returns */
	return 0;
}
