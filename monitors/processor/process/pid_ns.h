/* SPDX-License-Identifier: MIT */
/*
 * PID namespaces: numbers of their own for the tasks that were made in them.
 *
 * A task has a number in the vNode (its "nr", by which the monitor knows it) and one in each
 * namespace from its own up to the vNode's. The number that a task sees (Linux calls it the virtual
 * number, "vnr") is the one in its own process's namespace. Namespaces nest; the vNode's own has
 * level 0 and is written as NULL.
 *
 * Flow:	system calls translate on their way in (pid_from_vnr()) and on their way out
 *		(pid_vnr()); everything between knows the vNode's numbers only.
 * Invariants:	number 1 of a namespace is the first process that is made in it, and gets the
 *		orphans of it. When that process ends, all others in it are killed first, and no
 *		task can be made in it any more.
 * Locking:	root_vnode.lock guards what is not const.
 */
#pragma once

#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/list.h>
#include <lib/radix.h>
#include <processor/ns/ns.h>

struct kmem_account;
struct user_ns;
struct process;
struct task;

#define PID_AFTER_WRAP 300u /* low numbers stay with those who were there first, as on Linux */
#define PID_NS_LEVELS  32u  /* as Linux: so deep can namespaces be nested below the vNode's */

struct pid_ns {
	struct ns ns;           /* its file, which has the references */
	uint32_t level;         /* const: from 1 */
	struct pid_ns *parent;  /* const, counted; NULL: the vNode's */
	struct radix_tree pids; /* vnode.lock: number here -> struct pid */
	uint32_t last_pid;      /* vnode.lock: the number given out last; 0: none */
	struct process *init;   /* vnode.lock: number 1; not counted. NULL: not yet, or gone */
	bool closed;            /* vnode.lock: number 1 ends or has ended */
	uint64_t nr_alive;      /* vnode.lock: processes numbered here that are no zombies */
	struct waitqueue left;  /* nr_alive has become smaller */
};

struct pid_number {
	struct pid_ns *ns;
	uint32_t nr;
};

/*
 * The name of a task, a process, a process group or a session, while any of them is there.
 */
struct pid {
	uint32_t nr;              /* const: in the vNode */
	uint32_t level;           /* const: of the namespace it was made in */
	struct task *task;        /* vnode.lock; not counted */
	struct process *process;  /* vnode.lock; not counted: the process may be a zombie */
	struct list_head group;   /* vnode.lock: process.group_link */
	struct list_head session; /* vnode.lock: process.session_link */
	/* Const: the numbers in the namespaces of level 1 to @level; the last one is counted. */
	struct pid_number inner[];
};

/*
 * A namespace below @parent, owned by @owner and charged to @kmem. ERR_PTR(-ENOSPC: it would be too
 * deep, or too many; -ENOMEM).
 */
struct pid_ns *pid_ns_create(struct pid_ns *parent, struct user_ns *owner,
			     struct kmem_account *kmem);
/* Both take NULL. */
struct pid_ns *pid_ns_get(struct pid_ns *ns);
void pid_ns_put(struct pid_ns *ns);

static inline uint32_t pid_ns_level(const struct pid_ns *ns)
{
	return ns ? ns->level : 0;
}

/* The user namespace whose capabilities count in @ns. */
static inline struct user_ns *pid_ns_owner(const struct pid_ns *ns)
{
	return ns ? ns->ns.owner : NULL;
}

/* That of the file @ns, of a kind with PIDs; NULL: the vNode's own. */
struct pid_ns *pid_ns_of(struct ns *ns);
/* The file of @ns; NULL: the vNode's own. */
struct ns *pid_ns_head(struct pid_ns *ns);

/* Is @ns @outer, or nested in it? */
static inline bool pid_ns_within(const struct pid_ns *ns, const struct pid_ns *outer)
{
	while (pid_ns_level(ns) > pid_ns_level(outer))
		ns = ns->parent;
	return ns == outer;
}

/* The number of @pid in @ns; 0: it has none there. */
static inline uint32_t pid_nr_in(const struct pid *pid, const struct pid_ns *ns)
{
	if (!ns)
		return pid->nr;
	if (ns->level > pid->level || pid->inner[ns->level - 1].ns != ns)
		return 0;
	return pid->inner[ns->level - 1].nr;
}

/* The number in the namespace that it was made in. */
static inline uint32_t pid_own_nr(const struct pid *pid)
{
	return pid->level ? pid->inner[pid->level - 1].nr : pid->nr;
}

/* --- for pid.c: vnode.lock is held ------------------------------------------------------ */

/* A pid without a number, for what is made in @ns. NULL: no memory. */
struct pid *pid_new(struct pid_ns *ns, struct kmem_account *kmem);
void pid_free(struct pid *pid);

/*
 * Numbers for @pid in its namespaces, but the vNode's: from the innermost outwards @wanted has
 * @nr_wanted of them, the others are free ones. -EEXIST, -EAGAIN (all are in use), -EINVAL (the
 * first one is to be 1), -ENOMEM (also of a namespace whose number 1 has ended), and none is taken.
 */
int pid_number_locked(struct pid *pid, const uint32_t *wanted, uint32_t nr_wanted) __must_check;
void pid_unnumber_locked(struct pid *pid);
/* Is there a namespace of @pid whose number 1 ends? */
bool pid_is_closed_locked(const struct pid *pid);
