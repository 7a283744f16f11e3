/* SPDX-License-Identifier: MIT */
/*
 * seccomp: strict mode, filters, and what becomes of a call: see seccomp.h.
 *
 * Context:	the task's own thread, but for SECCOMP_FILTER_FLAG_TSYNC.
 * Limits:	no listeners: SECCOMP_FILTER_FLAG_NEW_LISTENER answers EINVAL, and a filter that
 *		asks for one (SECCOMP_RET_USER_NOTIF) has the call answer ENOSYS, as Linux does
 *		when nobody listens. SECCOMP_RET_LOG logs nothing: there is no audit log.
 */
#include "seccomp.h"

#include <abi/ptrace.h>
#include <abi/seccomp.h>
#include <arch/trap.h>
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <lib/cbpf.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/ns/user_ns.h>
#include <processor/syscall/syscall.h>

#include "process_private.h"

#define ERRNO_MAX  4095u
#define CHAIN_MAX  32768u /* instructions of all filters of a task, */
#define CHAIN_EACH 4u     /* and so many for each */
#define DATA_WORDS (sizeof(struct linux_seccomp_data) / sizeof(uint32_t))

struct seccomp_filter {
	refcount_t refs;
	struct seccomp_filter *prev; /* const once attached: the one before it, counted */
	uint32_t nr;                 /* const */
	struct cbpf_insn prog[];     /* const: checked */
};

/* --- chains --------------------------------------------------------------------------- */

static void filter_put(struct seccomp_filter *f)
{
	while (f && refcount_dec_and_test(&f->refs)) {
		struct seccomp_filter *prev = f->prev;

		kmem_free(f);
		f = prev;
	}
}

uint32_t seccomp_nr_filters(const struct task *t)
{
	uint32_t nr = 0;

	for (const struct seccomp_filter *f = t->seccomp.filter; f; f = f->prev)
		nr++;
	return nr;
}

/* Is @old @f itself, or one of those behind it? NULL is behind all. */
static bool is_behind(const struct seccomp_filter *old, const struct seccomp_filter *f)
{
	while (f && f != old)
		f = f->prev;
	return f == old;
}

static void set_mode_locked(struct task *t, uint32_t mode)
{
	assert_spin_held(&t->process->sig_lock);
	WRITE_ONCE(t->seccomp.mode, mode);
	trace_watch_seccomp_locked(t, true);
}

void seccomp_inherit_locked(struct task *t, const struct task *from)
{
	assert_spin_held(&t->process->sig_lock);
	if (likely(!from->seccomp.mode))
		return;
	t->seccomp.filter = from->seccomp.filter;
	if (t->seccomp.filter)
		refcount_inc(&t->seccomp.filter->refs);
	t->seccomp.no_new_privs_due = from->seccomp.no_new_privs_due;
	set_mode_locked(t, from->seccomp.mode);
}

void seccomp_task_left_locked(struct task *t)
{
	assert_spin_held(&t->process->sig_lock);
	if (unlikely(t->seccomp.mode))
		trace_watch_seccomp_locked(t, false);
}

void seccomp_task_free(struct task *t)
{
	filter_put(t->seccomp.filter);
}

/* --- what becomes of a call ----------------------------------------------------------- */

/* The task ends, or its process with SIGSYS, if it is the last one or @all are to. */
static void end(struct task *t, struct pt_regs *regs, uint32_t data, bool all)
{
	const struct linux_siginfo info = {
		.signo = SIGSYS,
		.err = (int32_t)data,
		.code = SYS_SECCOMP,
		.call_addr = regs->rip,
		.syscall = (int32_t)regs->orig_rax,
		.arch = AUDIT_ARCH_X86_64,
	};

	if (!all && READ_ONCE(t->process->nr_tasks) > 1) {
		trace_exiting(SIGSYS);
		task_exit(SIGSYS);
	}
	regs->rax = regs->orig_rax; /* as the dump shows it */
	signal_force_end(t, &info);
}

static void trap(struct task *t, struct pt_regs *regs, uint32_t data)
{
	const struct linux_siginfo info = {
		.signo = SIGSYS,
		.err = (int32_t)data,
		.code = SYS_SECCOMP,
		.call_addr = regs->rip,
		.syscall = (int32_t)regs->orig_rax,
		.arch = AUDIT_ARCH_X86_64,
	};

	regs->rax = regs->orig_rax;
	signal_force(t, &info);
}

/* The strictest answer of all filters. */
static uint32_t ask(const struct task *t, const struct pt_regs *regs)
{
	const struct seccomp_filter *f = __atomic_load_n(&t->seccomp.filter, __ATOMIC_ACQUIRE);
	union {
		struct linux_seccomp_data data;
		uint32_t words[DATA_WORDS];
	} u = { .data = {
			.nr = (int32_t)regs->orig_rax,
			.arch = AUDIT_ARCH_X86_64,
			.ip = regs->rip,
			.args = { regs->rdi, regs->rsi, regs->rdx, regs->r10, regs->r8, regs->r9 },
		} };
	uint32_t answer = SECCOMP_RET_ALLOW;

	for (; f; f = f->prev) {
		const uint32_t one = cbpf_run(f->prog, u.words, DATA_WORDS);

		if ((int32_t)(one & SECCOMP_RET_ACTION_FULL) <
		    (int32_t)(answer & SECCOMP_RET_ACTION_FULL))
			answer = one;
	}
	return answer;
}

static bool refuse(struct pt_regs *regs, uint32_t err)
{
	regs->rax = (uint64_t)-(int64_t)err;
	return false;
}

/* Ask the tracer, which may change the call; what it makes of it is asked again. */
static bool ask_tracer(struct task *t, struct pt_regs *regs, uint32_t data, bool *again)
{
	if (!trace_wants(t, PTRACE_EVENT_SECCOMP))
		return refuse(regs, ENOSYS);
	regs->rax = (uint64_t)-(int64_t)ENOSYS; /* unless the tracer sets another result */
	trace_event(t, PTRACE_EVENT_SECCOMP, data);
	if ((READ_ONCE(t->thread->flags) & THREAD_F_KILL) || (int32_t)regs->orig_rax < 0)
		return false;
	*again = true;
	return true;
}

static bool act(struct task *t, struct pt_regs *regs, uint32_t answer, bool asked, bool *again)
{
	const uint32_t data = answer & SECCOMP_RET_DATA;

	switch (answer & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_LOG:
		return true;
	case SECCOMP_RET_ERRNO:
		return refuse(regs, MIN(data, ERRNO_MAX));
	case SECCOMP_RET_TRAP:
		trap(t, regs, data);
		return false;
	case SECCOMP_RET_TRACE:
		return asked || ask_tracer(t, regs, data, again);
	case SECCOMP_RET_USER_NOTIF:
		return refuse(regs, ENOSYS);
	case SECCOMP_RET_KILL_THREAD:
		end(t, regs, data, false);
		return false;
	default: /* KILL_PROCESS, and what is not known */
		end(t, regs, data, true);
		return false;
	}
}

static bool strict_allows(uint64_t nr)
{
	return nr == __NR_read || nr == __NR_write || nr == __NR_exit || nr == __NR_rt_sigreturn;
}

/* Linux gives the bit together with the filters; here the task takes it before its next call. */
static void take_no_new_privs(struct task *t)
{
	struct process *p = t->process;
	struct cred *n = cred_copy(t->cred);

	if (!n)
		return; /* before the next call, then */
	n->no_new_privs = true;
	if (cred_install(n))
		return;
	spin_lock(&p->sig_lock);
	t->seccomp.no_new_privs_due = false;
	spin_unlock(&p->sig_lock);
}

bool seccomp_call_begin(struct task *t, struct pt_regs *regs)
{
	bool again = false, made;

	if (unlikely(READ_ONCE(t->seccomp.no_new_privs_due)))
		take_no_new_privs(t);
	switch (READ_ONCE(t->seccomp.mode)) {
	case SECCOMP_DISABLED:
		return true;
	case SECCOMP_STRICT:
		if (strict_allows(regs->orig_rax))
			return true;
		trace_exiting(SIGKILL);
		task_exit(SIGKILL);
	default:
		made = act(t, regs, ask(t, regs), false, &again);
		if (made && again)
			made = act(t, regs, ask(t, regs), true, &again);
		return made;
	}
}

/* --- the calls ------------------------------------------------------------------------ */

static long set_strict(void)
{
	struct task *t = task_current();
	struct process *p = t->process;
	long ret = 0;

	spin_lock(&p->sig_lock);
	if (t->seccomp.mode && t->seccomp.mode != SECCOMP_STRICT)
		ret = -EINVAL;
	else
		set_mode_locked(t, SECCOMP_STRICT);
	spin_unlock(&p->sig_lock);
	if (!ret)
		thread_set_tsc(false); /* a clock that could tell what others do */
	return ret;
}

/* *@out: a checked copy of the program's, with one reference. */
static int filter_from_user(uint64_t user, struct seccomp_filter **out)
{
	struct linux_sock_fprog fprog;
	struct seccomp_filter *f;
	uint16_t *known;
	size_t size;
	int err = 0;

	if (copy_from_user(&fprog, (const void __user *)user, sizeof(fprog)))
		return -EFAULT;
	if (!fprog.len || fprog.len > CBPF_MAX_INSNS)
		return -EINVAL;
	if (!cred_current()->no_new_privs && !capable_here(CAP_SYS_ADMIN))
		return -EACCES;
	size = fprog.len * sizeof(f->prog[0]);
	f = kmem_alloc(kmem_current(), sizeof(*f) + size);
	known = kmalloc(fprog.len * sizeof(*known));
	if (!f || !known)
		err = -ENOMEM;
	else if (copy_from_user(f->prog, (const void __user *)fprog.filter, size))
		err = -EFAULT;
	else
		err = cbpf_check(f->prog, fprog.len, DATA_WORDS, known);
	kfree(known);
	if (err) {
		kmem_free(f);
		return err;
	}
	refcount_set(&f->refs, 1);
	f->nr = fprog.len;
	*out = f;
	return 0;
}

static uint32_t chain_cost(const struct seccomp_filter *f)
{
	uint32_t nr = 0;

	for (; f; f = f->prev)
		nr += f->nr + CHAIN_EACH;
	return nr;
}

/* The number of a thread that has filters of its own, or 0. */
static uint32_t unlike_locked(const struct task *t)
{
	const struct process *p = t->process;
	const struct task *other;

	assert_spin_held(&p->sig_lock);
	list_for_each_entry(other, &p->tasks, link) {
		const struct task_seccomp *s = &other->seccomp;

		if (other == t || !s->mode ||
		    (s->mode == SECCOMP_FILTER && is_behind(s->filter, t->seccomp.filter)))
			continue;
		return task_vtid(other);
	}
	return 0;
}

/* All threads get @t's filters; theirs are behind them. */
static void spread_locked(struct task *t)
{
	struct process *p = t->process;
	struct task *other;

	assert_spin_held(&p->sig_lock);
	list_for_each_entry(other, &p->tasks, link) {
		struct seccomp_filter *old = other->seccomp.filter;

		if (other == t)
			continue;
		refcount_inc(&t->seccomp.filter->refs);
		__atomic_store_n(&other->seccomp.filter, t->seccomp.filter, __ATOMIC_RELEASE);
		/* The new chain holds the old one. */
		ASSERT(is_behind(old, t->seccomp.filter));
		filter_put(old);
		if (t->cred->no_new_privs)
			other->seccomp.no_new_privs_due = true;
		set_mode_locked(other, SECCOMP_FILTER);
	}
}

/* Takes over @f on success. */
static long attach_locked(struct task *t, struct seccomp_filter *f, uint32_t flags)
{
	const uint32_t unlike = flags & SECCOMP_FILTER_FLAG_TSYNC ? unlike_locked(t) : 0;

	assert_spin_held(&t->process->sig_lock);
	if (t->seccomp.mode && t->seccomp.mode != SECCOMP_FILTER)
		return -EINVAL;
	if (chain_cost(t->seccomp.filter) + f->nr > CHAIN_MAX)
		return -ENOMEM;
	if (unlike)
		return flags & SECCOMP_FILTER_FLAG_TSYNC_ESRCH ? -ESRCH : (long)unlike;
	f->prev = t->seccomp.filter; /* with its reference */
	__atomic_store_n(&t->seccomp.filter, f, __ATOMIC_RELEASE);
	set_mode_locked(t, SECCOMP_FILTER);
	if (flags & SECCOMP_FILTER_FLAG_TSYNC)
		spread_locked(t);
	return 0;
}

static long set_filter(uint32_t flags, uint64_t ufilter)
{
	const uint32_t known = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG |
			       SECCOMP_FILTER_FLAG_SPEC_ALLOW | SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
	struct task *t = task_current();
	struct seccomp_filter *f;
	long ret;

	if (flags & ~known)
		return -EINVAL;
	ret = filter_from_user(ufilter, &f);
	if (ret)
		return ret;
	spin_lock(&t->process->sig_lock);
	ret = attach_locked(t, f, flags);
	spin_unlock(&t->process->sig_lock);
	if (ret)
		filter_put(f);
	return ret;
}

static long action_available(uint64_t user)
{
	uint32_t action;

	if (get_user_u32(&action, (const void __user *)user))
		return -EFAULT;
	switch (action) {
	case SECCOMP_RET_KILL_PROCESS:
	case SECCOMP_RET_KILL_THREAD:
	case SECCOMP_RET_TRAP:
	case SECCOMP_RET_ERRNO:
	case SECCOMP_RET_TRACE:
	case SECCOMP_RET_ALLOW:
		return 0;
	default: /* LOG and USER_NOTIF have nobody to tell */
		return -EOPNOTSUPP;
	}
}

static long do_seccomp(uint32_t op, uint32_t flags, uint64_t user)
{
	switch (op) {
	case SECCOMP_SET_MODE_STRICT:
		return flags || user ? -EINVAL : set_strict();
	case SECCOMP_SET_MODE_FILTER:
		return set_filter(flags, user);
	case SECCOMP_GET_ACTION_AVAIL:
		return flags ? -EINVAL : action_available(user);
	default:
		return -EINVAL;
	}
}

long seccomp_prctl(uint64_t mode, uint64_t ufilter)
{
	switch (mode) {
	case SECCOMP_MODE_STRICT:
		return do_seccomp(SECCOMP_SET_MODE_STRICT, 0, 0);
	case SECCOMP_MODE_FILTER:
		return do_seccomp(SECCOMP_SET_MODE_FILTER, 0, ufilter);
	default:
		return -EINVAL;
	}
}

/* seccomp(operation, flags, argument) */
long sys_seccomp(const struct syscall_args *args)
{
	return do_seccomp((uint32_t)args->a[0], (uint32_t)args->a[1], args->a[2]);
}
