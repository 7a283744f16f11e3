/* SPDX-License-Identifier: MIT */
/*
 * Sets of namespaces: those of a task. See ns.h.
 */
#include <abi/sched.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/vfs/path.h>

#include "ns.h"
#include "user_ns.h"

/* Kinds of which there is only the first one, so far. */
static struct ns net_first = NS_FIRST_INIT(NS_NET, 0xeffffff9u);
static struct ns cgroup_first = NS_FIRST_INIT(NS_CGROUP, 0xeffffffbu);

/* --- cgroups ------------------------------------------------------------------------- */

static void cgroup_free(struct ns *ns)
{
	ns_exit(ns);
	kmem_free(ns);
}

/* There is one cgroup, so what a namespace of them shows is the same in all: its root. */
static struct ns *cgroup_copy(struct ns *from, struct user_ns *owner)
{
	struct ns *ns = kmem_alloc(kmem_current(), sizeof(*ns));
	const int err = ns ? ns_init(ns, NS_CGROUP, owner, cgroup_free) : -ENOMEM;

	if (!err)
		return ns;
	kmem_free(ns);
	return ERR_PTR(err);
}

/* --- sets ---------------------------------------------------------------------------- */

/* Makes a namespace for one who was in @from; NULL: the kind has only the first one. ERR_PTR. */
static struct ns *(*const makers[NS_KINDS])(struct ns *from, struct user_ns *owner) = {
	[NS_CGROUP] = cgroup_copy,
	[NS_IPC] = ipc_make,
	[NS_UTS] = uts_copy,
};

/* Not a table of constants: some are other files'. */
static struct ns *first_of(enum ns_kind kind)
{
	switch (kind) {
	case NS_CGROUP:
		return &cgroup_first;
	case NS_IPC:
		return ipc_first;
	case NS_NET:
		return &net_first;
	case NS_UTS:
		return uts_first;
	default:
		return NULL;
	}
}

static struct ns_set *set_alloc(void)
{
	struct ns_set *s = kmem_alloc(kmem_current(), sizeof(*s));

	if (s)
		refcount_set(&s->refs, 1);
	return s;
}

struct ns_set *ns_set_first(void)
{
	struct ns_set *s = set_alloc();

	for (enum ns_kind k = 0; s && k < NS_KINDS; k++) {
		if (first_of(k))
			s->of[k] = ns_get(first_of(k));
	}
	return s;
}

void ns_set_put(struct ns_set *s)
{
	if (!refcount_dec_and_test(&s->refs))
		return;
	for (enum ns_kind k = 0; k < NS_KINDS; k++) {
		if (s->of[k])
			ns_put(s->of[k]);
	}
	kmem_free(s);
	ns_wait_freed();
}

struct ns_set *ns_set_make(struct ns_set *s, uint64_t flags, struct user_ns *owner)
{
	struct ns_set *made;

	if (!(flags & NS_SET_FLAGS))
		return ns_set_get(s);
	made = set_alloc();
	if (!made)
		return ERR_PTR(-ENOMEM);
	for (enum ns_kind k = 0; k < NS_KINDS; k++) {
		struct ns *ns = s->of[k];

		if (!ns)
			continue;
		ns = (flags & ns_kind_flag(k)) ? makers[k](ns, owner) : ns_get(ns);
		if (IS_ERR(ns)) {
			ns_set_put(made);
			return ERR_PTR(PTR_ERR(ns));
		}
		made->of[k] = ns;
	}
	return made;
}

struct ns_set *ns_set_with(struct ns_set *s, struct ns *ns)
{
	struct ns_set *made = set_alloc();

	ASSERT(s->of[ns->kind]);
	if (!made)
		return ERR_PTR(-ENOMEM);
	for (enum ns_kind k = 0; k < NS_KINDS; k++) {
		if (s->of[k])
			made->of[k] = ns_get(k == ns->kind ? ns : s->of[k]);
	}
	return made;
}

struct ns *ns_current(enum ns_kind kind)
{
	const struct task *t = task_current();

	return t && t->ns ? t->ns->of[kind] : first_of(kind);
}

/* --- of others ----------------------------------------------------------------------- */

/* sig_lock of the process is held. NULL: it ends. */
static struct ns *ns_of_task_locked(const struct task *t, enum ns_kind kind)
{
	struct ns *ns;

	assert_spin_held(&t->process->sig_lock);
	if (kind == NS_USER)
		return t->process->cred ? ns_get(user_ns_head(t->process->cred->user_ns)) : NULL;
	if (kind == NS_PID)
		return ns_get(pid_ns_head(t->process->pid_ns));
	if (kind == NS_MNT)
		return t->fs ? mounts_ns(t->fs->mounts) : NULL;
	ns = t->ns ? t->ns->of[kind] : NULL;
	return ns ? ns_get(ns) : NULL;
}

struct ns *ns_of_process(struct process *p, uint32_t tid, enum ns_kind kind)
{
	struct ns *ns = NULL;
	struct task *t;

	spin_lock(&p->sig_lock);
	list_for_each_entry(t, &p->tasks, link) {
		if (!ns && (!tid || t->tid == tid))
			ns = ns_of_task_locked(t, kind);
	}
	spin_unlock(&p->sig_lock);
	return ns ? ns : ERR_PTR(-ENOENT);
}

struct ns *ns_of_children(struct process *p, uint32_t tid)
{
	struct pid_ns *ns = NULL;
	bool found = false, begun;
	struct task *t;

	spin_lock(&p->sig_lock);
	list_for_each_entry(t, &p->tasks, link) {
		if (!found && (!tid || t->tid == tid)) {
			ns = pid_ns_get(t->child_ns ? t->child_ns : p->pid_ns);
			found = true;
		}
	}
	spin_unlock(&p->sig_lock);
	begun = found && (!ns || READ_ONCE(ns->last_pid));
	if (begun)
		return ns ? &ns->ns : ns_get(pid_ns_head(NULL));
	pid_ns_put(ns);
	return ERR_PTR(-ENOENT);
}
