/* SPDX-License-Identifier: MIT */
/*
 * The signal state of tasks and processes: made, inherited, reset by exec, given back.
 */
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <processor/account/account.h>
#include <processor/process/process.h>

#include "queue_private.h"
#include "signal_private.h"

/* As Linux: half the number of threads for which an eighth of the memory has stacks. */
uint64_t signal_queue_limit(void)
{
	const uint64_t bytes = frames_total_count() << PAGE_SHIFT;

	return MAX(bytes / (8ull * THREAD_STACK_SIZE) / 2, (uint64_t)1024);
}

static struct sighand *sighand_create(void)
{
	struct sighand *sh = kmem_alloc(kmem_current(), sizeof(*sh));

	if (sh) {
		refcount_set(&sh->refs, 1);
		spin_lock_init(&sh->lock, "sighand", RANK_SPIN_SIGHAND);
	}
	return sh;
}

static struct sighand *sighand_copy(struct sighand *from)
{
	struct sighand *sh = sighand_create();

	if (sh) {
		spin_lock(&from->lock);
		memcpy(sh->actions, from->actions, sizeof(sh->actions));
		spin_unlock(&from->lock);
	}
	return sh;
}

static void sighand_put(struct sighand *sh)
{
	if (sh && refcount_dec_and_test(&sh->refs))
		kmem_free(sh);
}

static int process_init_with(struct process *p, struct sighand *sh)
{
	sigqueue_init(&p->sig.pending);
	waitqueue_init(&p->sig.go_on);
	waitqueue_init(&p->sig.posted);
	p->sig.sighand = sh;
	return sh ? 0 : -ENOMEM;
}

int signal_process_init(struct process *p)
{
	return process_init_with(p, sighand_create());
}

int signal_process_fork(struct process *p, struct process *parent, bool share)
{
	struct sighand *sh = parent->sig.sighand;
	int err;

	if (share)
		refcount_inc(&sh->refs);
	else
		sh = sighand_copy(sh);
	err = process_init_with(p, sh);
	if (err)
		return err;
	/* The limit is inherited, the time used is not. */
	mutex_lock(&p->lock);
	err = signal_cpu_limit_locked(p, p->rlimits[RLIMIT_CPU].cur);
	mutex_unlock(&p->lock);
	return err;
}

void signal_reset_handlers(struct process *p)
{
	struct sighand *sh = p->sig.sighand;

	spin_lock(&sh->lock);
	for (int i = 1; i < NR_SIGNALS; i++) {
		const uint64_t handler = sh->actions[i].handler == SIG_IGN ? SIG_IGN : SIG_DFL;

		sh->actions[i] = (struct linux_sigaction){ .handler = handler };
	}
	spin_unlock(&sh->lock);
}

int signal_exec(struct task *t)
{
	struct process *p = t->process;
	struct sighand *old = p->sig.sighand, *own = old;

	if (refcount_read(&old->refs) > 1) {
		own = sighand_copy(old);
		if (!own)
			return -ENOMEM;
		spin_lock(&p->sig_lock);
		p->sig.sighand = own;
		spin_unlock(&p->sig_lock);
		sighand_put(old);
	}
	signal_reset_handlers(p);
	timers_exec(p);
	t->sig.altstack = (struct linux_stack){ .flags = SS_DISABLE };
	t->sig.restart.fn = NULL;
	return 0;
}

void signal_task_init(struct task *t, const struct task *from, bool keep_altstack)
{
	sigqueue_init(&t->sig.pending);
	t->sig.altstack = (struct linux_stack){ .flags = SS_DISABLE };
	if (!from)
		return;
	/* A mask that holds for the call only is not inherited: a clone is no such call. */
	t->sig.mask = from->sig.mask;
	if (keep_altstack)
		t->sig.altstack = from->sig.altstack;
}

void signal_task_added_locked(struct task *t)
{
	const struct process *p = t->process;

	assert_spin_held(&p->sig_lock);
	/* Its maker has looked, but exit_group or exec may have gone through the list since. */
	if (task_ending_locked(t))
		thread_notify(t->thread, THREAD_F_SIGNAL | THREAD_F_KILL);
	else if (p->sig.stop_signo || p->core_task || signal_deliverable_locked(t))
		thread_notify(t->thread, THREAD_F_SIGNAL);
}

/*
 * Here and not in signal_task_exit(): between the two another thread may see the process, and
 * then sig.nr_stopped counts tasks of the list only.
 */
void signal_task_left_locked(struct task *t)
{
	struct process *p = t->process;

	assert_spin_held(&p->sig_lock);
	if (!t->sig.stopped)
		return;
	ASSERT(p->sig.nr_stopped > 0);
	p->sig.nr_stopped--;
	t->sig.stopped = false;
}

void signal_task_exit(struct task *t)
{
	struct process *p = t->process;
	uint64_t user_ns, system_ns;
	int report = 0;

	spin_lock(&p->sig_lock);
	sigqueue_drop(&t->sig.pending, UINT64_MAX);
	ASSERT(!t->sig.stopped);
	if (p->nr_tasks && !p->exiting) {
		signal_retarget_locked(t, ~t->sig.mask);
		if (signal_stop_complete_locked(p))
			report = p->sig.stop_signo;
	}
	thread_cpu_times(t->thread, &user_ns, &system_ns);
	p->sig.dead_cpu_ns += user_ns + system_ns;
	p->sig.dead_user_ns += user_ns;
	spin_unlock(&p->sig_lock);
	if (report)
		process_report_child(p, CLD_STOPPED, report);
}

void signal_process_exit(struct process *p)
{
	timers_free(p);
	spin_lock(&p->sig_lock);
	sigqueue_drop(&p->sig.pending, UINT64_MAX);
	spin_unlock(&p->sig_lock);
}

void signal_process_free(struct process *p)
{
	signal_process_exit(p); /* of one that never ran */
	sighand_put(p->sig.sighand);
}
