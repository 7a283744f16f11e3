/* SPDX-License-Identifier: MIT */
/*
 * System calls that send signals: kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo.
 *
 * Permission:	as kill(2): root, or the sender's real or effective user is the receiver's real or saved one;
 *		SIGCONT also inside a session. Whoever may not signal a process learns only that (EPERM).
 * Locking:	the process table is locked while a group is signalled, so that no child is missed: a fork is in
 *		the table, or its parent has the signal pending and forks again after it (-ERESTARTNOINTR).
 */
#include <arch/uaccess.h>
#include <lib/errno.h>
#include <processor/process.h>
#include <processor/signal.h>
#include <processor/syscall.h>

static struct siginfo_k sender_info(int signo, int code)
{
	struct process *p = process_current();

	return (struct siginfo_k){
		.signo = signo, .code = code, .pid = p->pid, .uid = READ_ONCE(p->cred.uid)
	};
}

static bool may_signal(const struct process *me, const struct process *p, int signo)
{
	const uint32_t uid = READ_ONCE(me->cred.uid);

	return me == p || uid == 0 || uid == READ_ONCE(p->cred.uid) ||
	       (signo == SIGCONT && READ_ONCE(me->sid) == READ_ONCE(p->sid));
}

static int send_process(struct process *p, const struct siginfo_k *info)
{
	if (!may_signal(process_current(), p, info->signo))
		return -EPERM;
	return info->signo ? signal_post(p, info) : 0;
}

static long kill_process(uint32_t pid, const struct siginfo_k *info)
{
	struct process *p = process_find(pid);
	long ret;

	if (!p)
		return -ESRCH;
	ret = send_process(p, info);
	process_put(p);
	return ret;
}

struct many {
	const struct siginfo_k *info;
	uint32_t pgid; /* 0: everybody but the caller and pid 1 */
	bool sent, denied;
};

static bool kill_one_of_many(struct process *p, void *arg)
{
	struct many *m = arg;
	int err;

	if (m->pgid ? READ_ONCE(p->pgid) != m->pgid : p == process_current() || p->pid == 1)
		return true;
	err = send_process(p, m->info);
	m->sent |= err != -EPERM;
	m->denied |= err == -EPERM;
	return true;
}

static long kill_many(uint32_t pgid, const struct siginfo_k *info)
{
	struct many m = { .info = info, .pgid = pgid };

	process_for_each(kill_one_of_many, &m);
	if (m.sent)
		return 0;
	return m.denied ? -EPERM : -ESRCH;
}

struct to_group {
	uint32_t pgid;
	const struct siginfo_k *info;
};

static bool post_to_member(struct process *p, void *arg)
{
	const struct to_group *g = arg;

	if (READ_ONCE(p->pgid) == g->pgid)
		(void)signal_post(p, g->info);
	return true;
}

void signal_post_group(uint32_t pgid, const struct siginfo_k *info)
{
	struct to_group g = { .pgid = pgid, .info = info };

	process_for_each(post_to_member, &g);
}

/* kill(pid, signo) */
long sys_kill(const struct syscall_args *args)
{
	const int pid = (int)args->a[0], signo = (int)args->a[1];
	const struct siginfo_k info = sender_info(signo, SI_USER);

	if (signo < 0 || signo >= NR_SIGNALS)
		return pid == INT32_MIN ? -ESRCH : -EINVAL;
	if (pid == INT32_MIN)
		return -ESRCH;
	if (pid > 0)
		return kill_process((uint32_t)pid, &info);
	if (pid == -1)
		return kill_many(0, &info);
	return kill_many(pid ? (uint32_t)-pid : READ_ONCE(process_current()->pgid), &info);
}

struct to_task {
	uint32_t tid;
	const struct siginfo_k *info;
	long ret;
};

static bool post_to_task(struct process *p, void *arg)
{
	struct to_task *to = arg;

	if (signal_post_tid(p, to->tid, NULL))
		return true;
	if (!may_signal(process_current(), p, to->info->signo))
		to->ret = -EPERM;
	else
		to->ret = signal_post_tid(p, to->tid, to->info->signo ? to->info : NULL);
	return false;
}

/* @tgid 0: whatever process it belongs to. */
static long kill_task(uint32_t tgid, uint32_t tid, const struct siginfo_k *info)
{
	struct to_task to = { .tid = tid, .info = info, .ret = -ESRCH };
	struct process *p;

	if (!tgid) {
		process_for_each(post_to_task, &to);
		return to.ret;
	}
	p = process_find(tgid);
	if (p) {
		(void)post_to_task(p, &to);
		process_put(p);
	}
	/* A task that has just ended is not an error for the one who sends to it. */
	return to.ret;
}

/* tkill(tid, signo) */
long sys_tkill(const struct syscall_args *args)
{
	const int tid = (int)args->a[0], signo = (int)args->a[1];
	const struct siginfo_k info = sender_info(signo, SI_TKILL);

	if (tid <= 0 || signo < 0 || signo >= NR_SIGNALS)
		return -EINVAL;
	return kill_task(0, (uint32_t)tid, &info);
}

/* tgkill(tgid, tid, signo) */
long sys_tgkill(const struct syscall_args *args)
{
	const int tgid = (int)args->a[0], tid = (int)args->a[1], signo = (int)args->a[2];
	const struct siginfo_k info = sender_info(signo, SI_TKILL);

	if (tgid <= 0 || tid <= 0 || signo < 0 || signo >= NR_SIGNALS)
		return -EINVAL;
	return kill_task((uint32_t)tgid, (uint32_t)tid, &info);
}

/* --- with a siginfo of the sender's ------------------------------------------------------ */

/* What the kernel itself says (code >= 0, SI_TKILL) can be faked to nobody but oneself. */
static int get_info(struct siginfo_k *info, uint64_t uinfo, int signo, uint32_t to)
{
	uint8_t rest[128 - sizeof(*info)];

	if (copy_from_user(info, (const void __user *)uinfo, sizeof(*info)) ||
	    copy_from_user(rest, (const void __user *)(uinfo + sizeof(*info)), sizeof(rest)))
		return -EFAULT;
	info->signo = signo;
	info->pad = 0;
	if ((info->code >= 0 || info->code == SI_TKILL) && to != process_current()->pid)
		return -EPERM;
	return 0;
}

/* rt_sigqueueinfo(pid, signo, info) */
long sys_rt_sigqueueinfo(const struct syscall_args *args)
{
	const uint32_t pid = (uint32_t)args->a[0];
	const int signo = (int)args->a[1];
	struct siginfo_k info;
	const int err = get_info(&info, args->a[2], signo, pid);

	if (err)
		return err;
	if (signo < 0 || signo >= NR_SIGNALS)
		return -EINVAL;
	return (int)pid <= 0 ? -ESRCH : kill_process(pid, &info);
}

/* rt_tgsigqueueinfo(tgid, tid, signo, info) */
long sys_rt_tgsigqueueinfo(const struct syscall_args *args)
{
	const int tgid = (int)args->a[0], tid = (int)args->a[1], signo = (int)args->a[2];
	struct siginfo_k info;
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
