/* SPDX-License-Identifier: MIT */
/*
 * Signals: posting, and the choice of the task that takes one.
 *
 * Flow:	a signal is queued on a task or a process and one task that may take it is notified;
 *		on its way to user mode that one takes it (deliver.c). Stop signals and SIGCONT
 *		cancel each other when they are posted, whether or not they are blocked; a signal
 *		that ends the process ends it at once.
 * Locking:	process.sig_lock, a spinlock, so that faults and lost pages can post from any
 *		context.
 */
#define PR_FMT "signal: "

#include "signal.h"

#include <arch/trap.h>
#include <lib/errno.h>
#include <processor/ns/user_ns.h>
#include <processor/process/process.h>

#include "queue_private.h"
#include "signal_private.h"

enum default_action signal_default_action(int signo)
{
	switch (signo) {
	case SIGCHLD:
	case SIGCONT:
	case SIGURG:
	case SIGWINCH:
		return ACT_IGNORE;
	case SIGSTOP:
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU:
		return ACT_STOP;
	case SIGQUIT:
	case SIGILL:
	case SIGTRAP:
	case SIGABRT:
	case SIGBUS:
	case SIGFPE:
	case SIGSEGV:
	case SIGXCPU:
	case SIGXFSZ:
	case SIGSYS:
		return ACT_CORE;
	default:
		return ACT_TERM;
	}
}

/* A copy, so that sighand.lock is not held for long. */
static struct linux_sigaction sighand_action(struct sighand *sh, int signo)
{
	struct linux_sigaction act;

	spin_lock(&sh->lock);
	act = sh->actions[signo];
	spin_unlock(&sh->lock);
	return act;
}

bool signal_ignored_by(const struct linux_sigaction *act, int signo)
{
	if (signo == SIGKILL || signo == SIGSTOP)
		return false;
	return act->handler == SIG_IGN ||
	       (act->handler == SIG_DFL && signal_default_action(signo) == ACT_IGNORE);
}

/*
 * Does the sender belong to no task in @p's PID namespace? Then it has no number there, and can
 * kill and stop number 1 of it.
 */
static bool from_outside(const struct process *p, const struct linux_siginfo *info)
{
	const struct task *me = task_current();

	if (info->code > 0 || info->code == SI_TIMER || info->code == SI_SIGIO)
		return false;
	return p->pid_ns && me && !pid_ns_within(me->process->pid_ns, p->pid_ns);
}

/* Number 1 of a PID namespace takes no default action, but for what is @forced upon it. */
static bool spared_locked(const struct process *p, int signo, bool forced)
{
	assert_spin_held(&p->sig_lock);
	return p->sig.unkillable && !(forced && (SIGMASK(signo) & SIGMASK_UNBLOCKABLE));
}

/*
 * A blocked signal waits even if it would be ignored: the disposition may change before it is
 * unblocked.
 */
static bool ignored_locked(struct process *p, const struct task *t, int signo, bool forced)
{
	const struct linux_sigaction act = sighand_action(p->sig.sighand, signo);

	assert_spin_held(&p->sig_lock);
	if (!t || ((t->sig.mask | t->sig.wait_set) & SIGMASK(signo)))
		return false;
	/* A tracer may make something of it, but not of SIGKILL. */
	if (task_is_traced(t))
		return false;
	if (act.handler == SIG_DFL && spared_locked(p, signo, forced))
		return true;
	return signal_ignored_by(&act, signo);
}

bool signal_is_held(int signo)
{
	struct task *t = task_current();
	const struct linux_sigaction act = sighand_action(t->process->sig.sighand, signo);

	return (t->sig.mask & SIGMASK(signo)) || signal_ignored_by(&act, signo);
}

uint64_t signal_deliverable_locked(const struct task *t)
{
	const uint64_t pending = t->sig.pending.set | t->process->sig.pending.set;

	assert_spin_held(&t->process->sig_lock);
	return pending & ~(t->sig.mask & ~SIGMASK_UNBLOCKABLE);
}

bool signal_pending(void)
{
	const struct task *t = task_current();
	bool pending;

	spin_lock(&t->process->sig_lock);
	pending = task_ending_locked(t) || signal_deliverable_locked(t) != 0 ||
		  signal_is_to_stop_locked(t);
	/*
	 * Another task may have been told of the signal: a task that answers -ERESTART* for it
	 * must come by deliver.c as well.
	 */
	if (pending)
		thread_notify(t->thread, THREAD_F_SIGNAL);
	spin_unlock(&t->process->sig_lock);
	return pending;
}

bool signal_is_to_stop_locked(const struct task *t)
{
	assert_spin_held(&t->process->sig_lock);
	return (t->process->sig.stop_signo && !t->sig.stopped) || t->trace.trap;
}

void signal_drop_locked(struct process *p, uint64_t set)
{
	struct task *t;

	assert_spin_held(&p->sig_lock);
	sigqueue_drop(&p->sig.pending, set);
	list_for_each_entry(t, &p->tasks, link)
		sigqueue_drop(&t->sig.pending, set);
}

void signal_charge_of(const struct process *p, struct sig_charge *charge)
{
	charge->uid = READ_ONCE(p->uid);
	charge->limit = READ_ONCE(p->rlimits[RLIMIT_SIGPENDING].cur);
	charge->kmem = process_kmem(p);
}

void signal_queue_use(const struct process *p, uint64_t *queued, uint64_t *limit)
{
	struct sig_charge charge;

	signal_charge_of(p, &charge);
	*queued = sig_account_count(charge.uid);
	*limit = charge.limit;
}

/* --- stop and continue ---------------------------------------------------------------- */

static void continue_locked(struct process *p)
{
	struct task *t;

	assert_spin_held(&p->sig_lock);
	p->sig.cont_seq++;
	if (p->sig.stop_signo) {
		p->sig.tell_parent = p->sig.stop_done ? CLD_CONTINUED : CLD_STOPPED;
		p->sig.cont_report = true;
		p->sig.stop_report = 0;
	}
	p->sig.stop_signo = 0;
	p->sig.stop_done = false;
	p->sig.nr_stopped = 0;
	list_for_each_entry(t, &p->tasks, link) {
		t->sig.stopped = false;
		if (p->sig.tell_parent)
			thread_notify(t->thread, THREAD_F_WORK);
		/*
		 * A tracer's task stays as it is, and tells the tracer again if that has seized
		 * it.
		 */
		if (t->trace.tracer && t->trace.seized) {
			t->trace.trap = true;
			thread_notify(t->thread, THREAD_F_SIGNAL);
			wake_all(&t->trace.resumed);
		}
	}
	wake_all(&p->sig.go_on);
}

/* Stop signals and SIGCONT take back what of the other kind is pending. */
static void cancel_opposite_locked(struct process *p, int signo)
{
	assert_spin_held(&p->sig_lock);
	if (SIGMASK(signo) & SIGMASK_STOP) {
		signal_drop_locked(p, SIGMASK(SIGCONT));
	} else if (signo == SIGCONT) {
		signal_drop_locked(p, SIGMASK_STOP);
		continue_locked(p);
	}
}

/* --- posting -------------------------------------------------------------------------- */

static void end_locked(struct process *p, int signo)
{
	struct task *t;

	assert_spin_held(&p->sig_lock);
	p->exiting = true;
	p->wait_status = (uint32_t)signo;
	list_for_each_entry(t, &p->tasks, link)
		thread_notify(t->thread, THREAD_F_SIGNAL | THREAD_F_KILL);
}

/* A stopped task looks when it goes on. */
static bool wants(const struct task *t, int signo)
{
	return (!t->sig.stopped || t->trace.tracer) &&
	       (!(t->sig.mask & SIGMASK(signo)) || (SIGMASK(signo) & SIGMASK_UNBLOCKABLE));
}

/* The first task that does not block it; the others sleep on. */
static struct task *choose_locked(struct process *p, int signo)
{
	struct task *t;

	assert_spin_held(&p->sig_lock);
	list_for_each_entry(t, &p->tasks, link) {
		if (wants(t, signo))
			return t;
	}
	return NULL;
}

/* @t will take @signo. One that ends the process does so now, whatever @t is waiting for. */
static void notify_locked(struct process *p, struct task *t, int signo)
{
	const struct linux_sigaction act = sighand_action(p->sig.sighand, signo);

	assert_spin_held(&p->sig_lock);
	wake_all(&p->sig.posted);
	if (!t)
		return;
	if (act.handler == SIG_DFL && signal_default_action(signo) == ACT_TERM &&
	    !p->sig.unkillable && !(t->sig.wait_set & SIGMASK(signo)) && !t->trace.tracer)
		end_locked(p, signo);
	else
		thread_notify(t->thread, THREAD_F_SIGNAL);
}

/* Does it tell a user? Senders give the kernel's id of it. */
static bool has_uid(const struct linux_siginfo *info)
{
	if (info->code > 0)
		return info->signo == SIGCHLD;
	return info->code != SI_TIMER && info->code != SI_SIGIO;
}

/* For task @t, or for the process. */
static int post_locked(struct process *p, struct task *t, const struct linux_siginfo *info)
{
	const int signo = info->signo;
	const bool outside = from_outside(p, info);
	const bool forced = outside || info->code == SI_KERNEL;
	struct linux_siginfo own;
	struct sig_charge charge;
	struct task *first;
	int err;

	assert_spin_held(&p->sig_lock);
	first = list_first_entry_or_null(&p->tasks, struct task, link);
	if (p->exiting)
		return 0;
	if (signo == SIGKILL) {
		if (!spared_locked(p, signo, forced))
			end_locked(p, signo);
		return 0;
	}
	cancel_opposite_locked(p, signo);
	if (ignored_locked(p, t ? t : first, signo, forced))
		return 0;
	if (outside || unlikely(p->cred && p->cred->user_ns && has_uid(info))) {
		own = *info;
		own.pid = outside ? 0 : own.pid;
		if (p->cred && has_uid(info))
			own.uid = id_out_to(p->cred->user_ns, ID_USER, info->uid);
		info = &own;
	}
	signal_charge_of(p, &charge);
	err = sigqueue_add(t ? &t->sig.pending : &p->sig.pending, info, &charge);
	if (err)
		return err;
	if (!t)
		t = choose_locked(p, signo);
	else if (!wants(t, signo))
		t = NULL;
	notify_locked(p, t, signo);
	return 0;
}

int signal_post_locked(struct process *p, const struct linux_siginfo *info)
{
	assert_spin_held(&p->sig_lock);
	return post_locked(p, NULL, info);
}

int signal_post(struct process *p, const struct linux_siginfo *info)
{
	int err;

	spin_lock(&p->sig_lock);
	err = post_locked(p, NULL, info);
	spin_unlock(&p->sig_lock);
	return err;
}

int signal_post_task(struct task *t, const struct linux_siginfo *info)
{
	int err;

	spin_lock(&t->process->sig_lock);
	err = post_locked(t->process, t, info);
	spin_unlock(&t->process->sig_lock);
	return err;
}

static struct task *find_locked(struct process *p, uint32_t tid)
{
	struct task *t;

	assert_spin_held(&p->sig_lock);
	list_for_each_entry(t, &p->tasks, link) {
		if (t->tid == tid)
			return t;
	}
	return NULL;
}

int signal_post_tid(struct process *p, uint32_t tid, const struct linux_siginfo *info)
{
	struct task *t;
	int err = -ESRCH;

	spin_lock(&p->sig_lock);
	t = find_locked(p, tid);
	if (t)
		err = info ? post_locked(p, t, info) : 0;
	spin_unlock(&p->sig_lock);
	return err;
}

void signal_post_timer_locked(struct process *p, uint32_t tid, struct sigentry *e)
{
	const int signo = e->info.signo;
	struct task *t;

	assert_spin_held(&p->sig_lock);
	t = tid ? find_locked(p, tid) : list_first_entry_or_null(&p->tasks, struct task, link);
	if (p->exiting || !t)
		return;
	if (signo == SIGKILL) {
		if (!spared_locked(p, signo, false))
			end_locked(p, signo);
		return;
	}
	cancel_opposite_locked(p, signo);
	if (ignored_locked(p, t, signo, false)) {
		ptimer_dropped_locked(e->timer);
		return;
	}
	sigqueue_add_timer(tid ? &t->sig.pending : &p->sig.pending, e);
	if (!tid)
		t = choose_locked(p, signo);
	else if (!wants(t, signo))
		t = NULL;
	notify_locked(p, t, signo);
}

/*
 * A fault that is blocked or ignored would repeat for ever: it takes the default action instead, as
 * a handler whose frame cannot be written does.
 */
static void force(struct task *t, const struct linux_siginfo *info, bool ends)
{
	struct process *p = t->process;
	struct sighand *sh = p->sig.sighand;
	const uint64_t bit = SIGMASK(info->signo);
	const struct sig_charge free = { .uid = READ_ONCE(p->uid),
					 .limit = UINT64_MAX,
					 .kmem = process_kmem(p) };

	spin_lock(&p->sig_lock);
	if (p->exiting || info->signo == SIGKILL) {
		if (!p->exiting)
			end_locked(p, SIGKILL);
		spin_unlock(&p->sig_lock);
		return;
	}
	spin_lock(&sh->lock);
	if (sh->actions[info->signo].handler == SIG_IGN || (t->sig.mask & bit))
		sh->actions[info->signo].handler = SIG_DFL;
	/*
	 * Number 1 of a PID namespace does not live on after a fault, either; but a breakpoint is
	 * its tracer's.
	 */
	if (ends || (sh->actions[info->signo].handler == SIG_DFL && !task_is_traced(t)))
		p->sig.unkillable = false;
	spin_unlock(&sh->lock);
	t->sig.mask &= ~bit;
	if (ends)
		t->sig.ends_by = info->signo;
	/* The siginfo of this fault replaces an older one. */
	sigqueue_drop(&t->sig.pending, bit);
	(void)sigqueue_add(&t->sig.pending, info,
			   &free); /* without an entry it has the number at least */
	thread_notify(t->thread, THREAD_F_SIGNAL);
	spin_unlock(&p->sig_lock);
}

void signal_force(struct task *t, const struct linux_siginfo *info)
{
	force(t, info, false);
}

void signal_force_end(struct task *t, const struct linux_siginfo *info)
{
	force(t, info, true);
}

bool signal_post_child(struct process *parent, const struct linux_siginfo *info)
{
	const struct linux_sigaction act = sighand_action(parent->sig.sighand, SIGCHLD);
	const bool ended = info->code != CLD_STOPPED && info->code != CLD_CONTINUED &&
			   info->code != CLD_TRAPPED;

	/* With SA_NOCLDWAIT the signal is sent all the same, with SIG_IGN it is not. */
	if (act.handler != SIG_IGN && (ended || !(act.flags & SA_NOCLDSTOP)))
		(void)signal_post(parent, info);
	return ended && (act.handler == SIG_IGN || (act.flags & SA_NOCLDWAIT));
}

/* --- masks ---------------------------------------------------------------------------- */

void signal_retarget_locked(struct task *t, uint64_t set)
{
	struct process *p = t->process;
	struct task *other;

	assert_spin_held(&p->sig_lock);
	set &= p->sig.pending.set;
	list_for_each_entry(other, &p->tasks, link) {
		if (!set)
			return;
		if (other == t || !(set & ~other->sig.mask))
			continue;
		set &= other->sig.mask;
		thread_notify(other->thread, THREAD_F_SIGNAL);
	}
}

void signal_set_mask_locked(struct task *t, uint64_t mask)
{
	const uint64_t blocked = mask & ~t->sig.mask;

	assert_spin_held(&t->process->sig_lock);
	t->sig.mask = mask & ~SIGMASK_UNBLOCKABLE;
	if (blocked)
		signal_retarget_locked(t, blocked);
	if (signal_deliverable_locked(t))
		thread_notify(t->thread, THREAD_F_SIGNAL);
}

void signal_set_mask(uint64_t mask)
{
	struct task *t = task_current();

	spin_lock(&t->process->sig_lock);
	signal_set_mask_locked(t, mask);
	spin_unlock(&t->process->sig_lock);
}

void signal_set_mask_of(struct task *t, uint64_t mask)
{
	spin_lock(&t->process->sig_lock);
	t->sig.has_saved_mask = false;
	signal_set_mask_locked(t, mask);
	spin_unlock(&t->process->sig_lock);
}

void signal_mask_begin(uint64_t mask)
{
	struct task *t = task_current();

	spin_lock(&t->process->sig_lock);
	t->sig.saved_mask = t->sig.mask;
	t->sig.has_saved_mask = true;
	signal_set_mask_locked(t, mask); /* what is pending ends the wait before it begins */
	spin_unlock(&t->process->sig_lock);
}

static bool interrupted(long ret)
{
	return ret == -EINTR || (ret <= -ERESTARTSYS && ret >= -ERESTART_RESTARTBLOCK);
}

long signal_mask_end(long ret)
{
	struct task *t = task_current();

	if (interrupted(ret) && signal_pending())
		return ret; /* delivered under this mask, on the way to user mode */
	spin_lock(&t->process->sig_lock);
	if (t->sig.has_saved_mask) {
		t->sig.has_saved_mask = false;
		signal_set_mask_locked(t, t->sig.saved_mask);
	}
	spin_unlock(&t->process->sig_lock);
	return ret;
}
