/* SPDX-License-Identifier: MIT */
/*
 * System calls that send signals: kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo.
 *
 * A sender may signal as kill(2) says: root may; else the sender's real or effective user must be
 * the receiver's real or saved one; SIGCONT may go to any process of the sender's session.
 *
 * Failure:	EPERM, and nothing else about the process, for a sender that may not signal it.
 * See:		process/group.c finds the receivers
 */
#include <arch/uaccess.h>
#include <lib/errno.h>
#include <processor/ns/user_ns.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "signal.h"

static struct linux_siginfo sender_info(int signo, int code)
{
	struct process *p = process_current();

	return (struct linux_siginfo){
		.signo = signo, .code = code, .pid = process_vpid(p), .uid = cred_current()->uid
	};
}

void signal_raise_sigpipe(void)
{
	const struct linux_siginfo info = sender_info(SIGPIPE, SI_USER);

	(void)signal_post_task(task_current(), &info);
}

void signal_post_group(uint32_t pgid, const struct linux_siginfo *info)
{
	(void)process_signal_group(&root_vnode, pgid, info);
}

/* kill(pid, signo) */
long sys_kill(const struct syscall_args *args)
{
	const int pid = (int)args->a[0], signo = (int)args->a[1];
	const struct linux_siginfo info = sender_info(signo, SI_USER);

	if (signo < 0 || signo >= NR_SIGNALS)
		return pid == INT32_MIN ? -ESRCH : -EINVAL;
	return process_kill_call(pid, &info);
}

/* @vtid of process @vtgid, as the caller sees them; @vtgid 0: whatever process it belongs to. */
static long kill_task(uint32_t vtgid, uint32_t vtid, const struct linux_siginfo *info)
{
	const uint32_t tid = pid_from_vnr(vtid), tgid = vtgid ? pid_from_vnr(vtgid) : 0;
	struct task *t = task_find(tid);
	struct process *p = t ? t->process : process_find(tid);
	long ret = -ESRCH;

	/*
	 * Without a task it is the number of a process whose first task has ended, which takes no
	 * signals.
	 */
	if (p && (!vtgid || p->pid == tgid))
		ret = process_may_signal(p, info->signo) ? 0 : -EPERM;
	if (t && !ret && info->signo)
		ret = signal_post_tid(p, tid, info);
	if (t)
		task_put(t);
	else if (p)
		process_put(p);
	return ret;
}

/* tkill(tid, signo) */
long sys_tkill(const struct syscall_args *args)
{
	const int tid = (int)args->a[0], signo = (int)args->a[1];
	const struct linux_siginfo info = sender_info(signo, SI_TKILL);

	if (tid <= 0 || signo < 0 || signo >= NR_SIGNALS)
		return -EINVAL;
	return kill_task(0, (uint32_t)tid, &info);
}

/* tgkill(tgid, tid, signo) */
long sys_tgkill(const struct syscall_args *args)
{
	const int tgid = (int)args->a[0], tid = (int)args->a[1], signo = (int)args->a[2];
	const struct linux_siginfo info = sender_info(signo, SI_TKILL);

	if (tgid <= 0 || tid <= 0 || signo < 0 || signo >= NR_SIGNALS)
		return -EINVAL;
	return kill_task((uint32_t)tgid, (uint32_t)tid, &info);
}

/* --- with a siginfo of the sender's ------------------------------------------------------ */

/* A code of the kernel's own (>= 0, SI_TKILL) can be faked only to the sender itself. */
static int get_info(struct linux_siginfo *info, uint64_t uinfo, int signo, uint32_t to)
{
	uint8_t rest[128 - sizeof(*info)];

	if (copy_from_user(info, (const void __user *)uinfo, sizeof(*info)) ||
	    copy_from_user(rest, (const void __user *)(uinfo + sizeof(*info)), sizeof(rest)))
		return -EFAULT;
	info->signo = signo;
	info->pad = 0;
	if (info->code <= 0 && info->code != SI_TIMER && info->code != SI_SIGIO)
		info->uid = uid_in(info->uid);
	if ((info->code >= 0 || info->code == SI_TKILL) && to != process_vpid(process_current()))
		return -EPERM;
	return 0;
}

/* rt_sigqueueinfo(pid, signo, info) */
long sys_rt_sigqueueinfo(const struct syscall_args *args)
{
	const uint32_t pid = (uint32_t)args->a[0];
	const int signo = (int)args->a[1];
	struct linux_siginfo info;
	const int err = get_info(&info, args->a[2], signo, pid);

	if (err)
		return err;
	if (signo < 0 || signo >= NR_SIGNALS)
		return -EINVAL;
	return (int)pid <= 0 ? -ESRCH : process_kill_call((int)pid, &info);
}

/* rt_tgsigqueueinfo(tgid, tid, signo, info) */
long sys_rt_tgsigqueueinfo(const struct syscall_args *args)
{
	const int tgid = (int)args->a[0], tid = (int)args->a[1], signo = (int)args->a[2];
	struct linux_siginfo info;
	int err;

	if (tgid <= 0 || tid <= 0)
		return -EINVAL;
	err = get_info(&info, args->a[3], signo, (uint32_t)tgid);
	if (err)
		return err;
	if (signo < 0 || signo >= NR_SIGNALS)
		return -EINVAL;
	return kill_task((uint32_t)tgid, (uint32_t)tid, &info);
}
