/* SPDX-License-Identifier: MIT */
/*
 * /proc/<pid>/loginuid and sessionid: as whom somebody logged in, whoever the task is by now.
 * Login programs (pam_loginuid) write it, and all that the session starts has it.
 *
 * Flow:	as Linux's audit: a task sets its own, freely while it is not set, later only with
 *		CAP_AUDIT_CONTROL; -1 takes it away. Each setting begins a session with a number of
 *		its own, unique on this processor.
 * Locking:	task.login_uid and task.login_session are written by their task; others read them
 *		without a lock.
 */
#include <abi/prctl.h>
#include <lib/errno.h>
#include <processor/ns/user_ns.h>

#include <processor/process/cred.h>

#include "proc_private.h"
#include "text_private.h"

static uint32_t last_session; /* atomic */

/* The task that @ref means: of a process the first one. False: it has gone. */
static bool find_task(struct proc_ref *ref, const struct pseudo_subject *s)
{
	if (!ref->task)
		ref->task = task_find(s->pid);
	return ref->task;
}

/* LOGIN_UNSET stays what it is. */
static uint32_t login_out(uint32_t uid)
{
	return uid == LOGIN_UNSET ? uid : uid_out(uid);
}

static int show(const struct pseudo_subject *s, struct text *t, bool session)
{
	struct proc_ref ref;
	const int err = proc_get(s, &ref);

	if (err)
		return err;
	if (!find_task(&ref, s))
		text_printf(t, "%u", LOGIN_UNSET);
	else
		text_printf(t, "%u",
			    session ? READ_ONCE(ref.task->login_session)
				    : login_out(READ_ONCE(ref.task->login_uid)));
	proc_put(&ref);
	return 0;
}

SHOW(show_pid_loginuid)
{
	return show(s, t, false);
}

SHOW(show_pid_sessionid)
{
	return show(s, t, true);
}

static uint32_t next_session(void)
{
	uint32_t nr;

	do
		nr = __atomic_add_fetch(&last_session, 1, __ATOMIC_RELAXED);
	while (nr == LOGIN_UNSET);
	return nr;
}

static int set_login(struct task *t, uint32_t uid)
{
	if (t != task_current())
		return -EPERM;
	if (t->login_uid != LOGIN_UNSET && !capable(CAP_AUDIT_CONTROL))
		return -EPERM;
	WRITE_ONCE(t->login_uid, uid);
	WRITE_ONCE(t->login_session, uid == LOGIN_UNSET ? LOGIN_UNSET : next_session());
	return 0;
}

int store_pid_loginuid(const struct pseudo_subject *s, const char *buf, size_t len)
{
	struct proc_ref ref;
	uint64_t uid;
	int err = text_number(buf, len, UINT32_MAX, &uid);

	if (!err)
		err = proc_get(s, &ref);
	if (err)
		return err;
	if (uid != LOGIN_UNSET && uid_in((uint32_t)uid) == ID_NONE)
		err = -EINVAL;
	else
		err = find_task(&ref, s) ? set_login(ref.task, uid_in((uint32_t)uid)) : -EPERM;
	proc_put(&ref);
	return err;
}
