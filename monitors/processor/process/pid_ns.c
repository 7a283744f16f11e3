/* SPDX-License-Identifier: MIT */
/*
 * PID namespaces: their making, and the numbers in them.
 *
 * Limits:	PID_NS_LEVELS levels. The nodes of a namespace's table are not charged to a
 *		program: a task's share of the kernel's memory (clone.c) has room for them.
 * Locking:	vnode.lock, the caller's; memory for tree nodes is taken without sleeping.
 * See:		pid_ns.h, pid.c
 */
#include "pid_ns.h"

#include <kernel/panic.h>
#include <lib/err.h>
#include <processor/account/account.h>

#include "process.h"

static struct ns first = NS_FIRST_INIT(NS_PID, 0xeffffffcu);

struct pid_ns *pid_ns_of(struct ns *ns)
{
	ASSERT(ns->kind == NS_PID);
	return ns == &first ? NULL : container_of(ns, struct pid_ns, ns);
}

struct ns *pid_ns_head(struct pid_ns *ns)
{
	return ns ? &ns->ns : &first;
}

/* No task and no file is in it any more. */
static void pid_ns_free(struct ns *head)
{
	struct pid_ns *ns = pid_ns_of(head), *parent = ns->parent;

	radix_destroy(&ns->pids);
	ns_exit(head);
	kmem_free(ns);
	pid_ns_put(parent);
}

struct pid_ns *pid_ns_create(struct pid_ns *parent, struct user_ns *owner,
			     struct kmem_account *kmem)
{
	struct pid_ns *ns;
	int err;

	if (pid_ns_level(parent) >= PID_NS_LEVELS)
		return ERR_PTR(-ENOSPC);
	ns = kmem_alloc(kmem, sizeof(*ns));
	if (!ns)
		return ERR_PTR(-ENOMEM);
	err = ns_init(&ns->ns, NS_PID, owner, pid_ns_free);
	if (err) {
		kmem_free(ns);
		return ERR_PTR(err);
	}
	ns->level = pid_ns_level(parent) + 1;
	ns->parent = pid_ns_get(parent);
	radix_init(&ns->pids);
	waitqueue_init(&ns->left);
	return ns;
}

struct pid_ns *pid_ns_get(struct pid_ns *ns)
{
	if (ns)
		(void)ns_get(&ns->ns);
	return ns;
}

void pid_ns_put(struct pid_ns *ns)
{
	if (ns)
		ns_put(&ns->ns);
}

/* --- numbers -------------------------------------------------------------------------- */

struct pid *pid_new(struct pid_ns *ns, struct kmem_account *kmem)
{
	const uint32_t level = pid_ns_level(ns);
	struct pid *pid = kmem_alloc(kmem, sizeof(*pid) + level * sizeof(pid->inner[0]));

	if (!pid)
		return NULL;
	*pid = (struct pid){ .level = level };
	list_init(&pid->group);
	list_init(&pid->session);
	pid_ns_get(ns);
	for (uint32_t i = level; i > 0; i--, ns = ns->parent)
		pid->inner[i - 1] = (struct pid_number){ .ns = ns };
	return pid;
}

void pid_free(struct pid *pid)
{
	struct pid_ns *ns = pid->level ? pid->inner[pid->level - 1].ns : NULL;

	kmem_free(pid);
	pid_ns_put(ns);
}

/* Any free number behind the last one. */
static int insert_any(struct pid_ns *ns, struct pid *pid, uint32_t *out)
{
	uint32_t nr = ns->last_pid;
	int err = -EEXIST;

	for (uint32_t tries = 0; err == -EEXIST && tries < PID_MAX; tries++) {
		if (++nr >= PID_MAX)
			nr = PID_AFTER_WRAP;
		err = radix_insert(&ns->pids, nr, pid);
	}
	if (!err)
		*out = ns->last_pid = nr;
	return err == -EEXIST ? -EAGAIN : err;
}

static int insert_wanted(struct pid_ns *ns, struct pid *pid, uint32_t wanted, uint32_t *out)
{
	int err;

	if (wanted != INIT_PID && !ns->init)
		return -EINVAL; /* the first one is number 1 */
	err = radix_insert(&ns->pids, wanted, pid);
	if (err)
		return err;
	*out = wanted;
	ns->last_pid = MAX(ns->last_pid, INIT_PID);
	return 0;
}

/* The last reference to a namespace may be that of a number; nsfs.c frees it later. */
static void remove_number(struct pid_number *n)
{
	struct pid_ns *ns = n->ns;

	(void)radix_remove(&ns->pids, n->nr);
	if (n->nr == INIT_PID && !ns->closed)
		ns->last_pid = 0; /* the process has not been made after all: the next is first */
	n->nr = 0;
}

int pid_number_locked(struct pid *pid, const uint32_t *wanted, uint32_t nr_wanted)
{
	int err = 0;

	assert_spin_held(&root_vnode.lock);
	for (uint32_t i = pid->level; i > 0; i--) {
		struct pid_number *n = &pid->inner[i - 1];
		const uint32_t at = pid->level - i;

		if (n->ns->closed || (!n->ns->init && n->ns->last_pid))
			err = -ENOMEM; /* its number 1 has ended, or is still being made */
		else if (at < nr_wanted)
			err = insert_wanted(n->ns, pid, wanted[at], &n->nr);
		else
			err = insert_any(n->ns, pid, &n->nr);
		if (err)
			break;
	}
	if (err)
		pid_unnumber_locked(pid);
	return err;
}

void pid_unnumber_locked(struct pid *pid)
{
	assert_spin_held(&root_vnode.lock);
	for (uint32_t i = 0; i < pid->level; i++) {
		if (pid->inner[i].nr)
			remove_number(&pid->inner[i]);
	}
}

bool pid_is_closed_locked(const struct pid *pid)
{
	assert_spin_held(&root_vnode.lock);
	for (uint32_t i = 0; i < pid->level; i++) {
		if (pid->inner[i].ns->closed)
			return true;
	}
	return false;
}
