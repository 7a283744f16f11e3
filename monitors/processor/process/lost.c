/* SPDX-License-Identifier: MIT */
/*
 * Programs that the system has to end: their memory is lost, or there is none for them.
 *
 * Flow:	all processes of the program are killed; when its first one ends, the launcher gets
 *		a line that says why instead of a status (exit.c), and answers 125. So a program
 *		that the system ended is never taken for one that died by a signal of its own.
 * Locking:	vnode.lock for program.lost. Callers may hold pins and locks below it.
 * Failure:	a program whose first process is ending already ends as it would have: its result
 *		was there before the loss.
 */
#define PR_FMT "process: "

#include "process_private.h"

#include <kernel/counter.h>
#include <kernel/printk.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <processor/mm/aspace.h>

COUNTER(lost_count, "process.lost", "programs that the system had to end");

/* Is its first process ending, or gone? How the program ends is decided then. */
static bool is_ending_locked(const struct program *program, struct vnode *v)
{
	struct process *p;

	assert_spin_held(&v->lock);
	list_for_each_entry(p, &v->processes, all_link) {
		if (p->program == program && p->pid == program->leader)
			return p->state != PROCESS_ALIVE || READ_ONCE(p->exiting);
	}
	return true;
}

static void lose_locked(struct process *lost, const char *line)
{
	struct program *program = lost->program;
	struct vnode *v = lost->vnode;
	struct process *p;

	assert_spin_held(&v->lock);
	if (!program->lost[0] && !is_ending_locked(program, v)) {
		strlcpy(program->lost, line, sizeof(program->lost));
		counter_inc(&lost_count);
		pr_err("%s\n", line);
	}
	list_for_each_entry(p, &v->processes, all_link) {
		if (p->program == program && p->state == PROCESS_ALIVE)
			process_kill(p, SIGKILL);
	}
}

void process_lost(struct process *p, const char *fmt, ...)
{
	char line[LOST_LINE];
	va_list ap;

	va_start(ap, fmt);
	vscnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	spin_lock(&p->vnode->lock);
	lose_locked(p, line);
	spin_unlock(&p->vnode->lock);
}

static void describe_loss(const struct process *p, char *line, size_t size)
{
	const int error = __atomic_load_n(&p->as->failed, __ATOMIC_ACQUIRE);
	const uint32_t node = READ_ONCE(p->as->lost_node);

	lock_not_needed(&p->lock, "a torn name is good enough for a message");
	if (error == -EHOSTDOWN)
		scnprintf(line, size, "node %u is gone, and with it memory of %s (pid %u)", node,
			  p->comm, p->pid);
	else if (node)
		scnprintf(line, size, "memory of %s (pid %u) at node %u is lost: error %d", p->comm,
			  p->pid, node, error);
	else
		scnprintf(line, size, "memory of %s (pid %u) is lost: error %d", p->comm, p->pid,
			  error);
}

void process_kill_failed(void)
{
	struct vnode *v = &root_vnode;
	char line[LOST_LINE];
	struct process *p;

	spin_lock(&v->lock);
	list_for_each_entry(p, &v->processes, all_link) {
		if (!p->as || !READ_ONCE(p->as->failed))
			continue;
		if (READ_ONCE(p->as->failed) == -EINTR) { /* aspace_killed(): nothing is lost */
			if (p->state == PROCESS_ALIVE)
				process_kill(p, SIGKILL);
		} else {
			describe_loss(p, line, sizeof(line));
			lose_locked(p, line);
		}
	}
	spin_unlock(&v->lock);
}

void process_lose_all(const char *why)
{
	struct vnode *v = &root_vnode;
	char line[LOST_LINE];
	struct process *p;

	spin_lock(&v->lock);
	list_for_each_entry(p, &v->processes, all_link) {
		lock_not_needed(&p->lock, "a torn name is good enough for a message");
		scnprintf(line, sizeof(line), "%s, and %s (pid %u) has ended with it", why, p->comm,
			  p->pid);
		lose_locked(p, line);
	}
	spin_unlock(&v->lock);
}
