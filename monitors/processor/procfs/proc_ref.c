/* SPDX-License-Identifier: MIT */
/*
 * From the subject of a file to the process that it means, the right to look into it, its memory.
 *
 * A pid may be used again while a file about its former owner is open: the time of the start tells
 * them apart.
 */
#include "proc_private.h"

#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/process/cred.h>

int proc_get(const struct pseudo_subject *s, struct proc_ref *ref)
{
	ASSERT(s->pid);
	*ref = (struct proc_ref){ .process = process_find(s->pid) };
	if (!ref->process)
		return -ESRCH;
	if (ref->process->start_ns == s->start_ns) {
		if (!s->tid)
			return 0;
		ref->task = task_find(s->tid);
		if (ref->task && ref->task->process == ref->process)
			return 0;
	}
	proc_put(ref);
	return -ESRCH;
}

void proc_put(struct proc_ref *ref)
{
	if (ref->task)
		task_put(ref->task);
	if (ref->process)
		process_put(ref->process);
	*ref = (struct proc_ref){ 0 };
}

struct process *proc_dir_process(const struct inode *inode)
{
	struct pseudo_subject s;
	struct proc_ref ref;
	int err = pseudo_subject_of(inode, &s);

	if (!err)
		err = proc_get(&s, &ref);
	if (err)
		return ERR_PTR(err);
	if (!ref.task)
		return ref.process;
	proc_put(&ref);
	return ERR_PTR(-ESRCH); /* of a thread: it has a directory, but no process is called so */
}

int proc_aspace(const struct pseudo_subject *s, struct aspace **as)
{
	struct proc_ref ref;
	const int err = proc_get(s, &ref);

	*as = NULL;
	if (err)
		return err;
	*as = process_aspace(ref.process);
	proc_put(&ref);
	return 0;
}

/* --- credentials ----------------------------------------------------------------------------- */

static const struct cred *cred_of(struct process *p)
{
	const struct cred *c;

	spin_lock(&p->sig_lock);
	c = p->cred ? cred_get(p->cred) : NULL;
	spin_unlock(&p->sig_lock);
	return c;
}

int pseudo_owner(const struct pseudo_subject *s, struct pseudo_owner *out)
{
	const struct cred *c;
	struct proc_ref ref;
	int err;

	*out = (struct pseudo_owner){ .time_s = (int64_t)(time_boot_real_ns() / NSEC_PER_SEC) };
	if (!s->pid)
		return 0;
	err = proc_get(s, &ref);
	if (err)
		return err;
	c = cred_of(ref.process);
	if (c) {
		out->euid = c->euid;
		out->egid = c->egid;
		/* As Linux: what is not dumpable is root's. */
		if (!READ_ONCE(ref.process->undumpable)) {
			out->uid = c->euid;
			out->gid = c->egid;
		}
		cred_put(c);
	}
	out->time_s = (int64_t)((time_boot_real_ns() + ref.process->start_ns) / NSEC_PER_SEC);
	proc_put(&ref);
	return 0;
}

/* @p is the caller's process. A walk for the launcher is made by a thread that has none. */
static bool is_current(const struct process *p)
{
	const struct task *t = task_current();

	return t && t->process == p;
}

bool pseudo_is_own(const struct pseudo_subject *s)
{
	struct proc_ref ref;
	bool is_own;

	if (proc_get(s, &ref))
		return false;
	is_own = is_current(ref.process);
	proc_put(&ref);
	return is_own;
}

/* As ptrace_may_access(PTRACE_MODE_READ) of Linux: see process_may_look_as(). */
int pseudo_may_trace(const struct pseudo_subject *s)
{
	struct proc_ref ref;
	int err;

	if (!s->pid)
		return 0;
	if (!task_current())
		return -EACCES; /* a walk for the launcher, which is no process */
	err = proc_get(s, &ref);
	if (err)
		return err;
	if (!process_may_look_as(ref.process, true))
		err = -EACCES;
	proc_put(&ref);
	return err;
}

/* --- its memory ---------------------------------------------------------------------- */

void proc_put_memory(struct text *t, struct aspace *as, vaddr_t start, vaddr_t end)
{
	uint8_t buf[512];

	while (start < end && !t->err) {
		const size_t want = (size_t)MIN(end - start, (vaddr_t)sizeof(buf));
		const size_t got = aspace_read_memory(as, start, buf, want);

		text_bytes(t, buf, got);
		if (got < want)
			return;
		start += got;
	}
}
