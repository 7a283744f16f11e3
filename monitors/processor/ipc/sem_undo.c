/* SPDX-License-Identifier: MIT */
/*
 * SEM_UNDO: operations of System V semaphores that are taken back when a task ends.
 *
 * Flow:	a task has a list, shared with those that it makes with CLONE_SYSVSEM, with one
 *		entry for each set in which something is to be taken back. The last task of a list
 *		does it.
 * Locking:	sem_undos.lock (RANK_SPIN_TASK) guards the entries of a list, the set's lock their
 *		contents. An entry leaves the list when its set has been removed and another is
 *		made, or with the list.
 */
#include <kernel/panic.h>
#include <processor/account/account.h>
#include <processor/process/process.h>

#include "sem_private.h"

struct sem_undos {
	refcount_t refs;                           /* tasks */
	struct spinlock lock;                      /* RANK_SPIN_TASK */
	struct list_head list __guarded_by(&lock); /* sem_undo.of_list */
};

static struct sem_undos *undos_of(struct task *t)
{
	struct sem_undos *u = t->sem_undos;

	if (u)
		return u;
	u = kmem_alloc(process_kmem(t->process), sizeof(*u));
	if (!u)
		return NULL;
	refcount_set(&u->refs, 1);
	spin_lock_init(&u->lock, "sem.undos", RANK_SPIN_TASK);
	list_init(&u->list);
	t->sem_undos = u;
	return u;
}

int sem_undos_share(struct task *t, struct task *from)
{
	struct sem_undos *u = undos_of(from);

	if (!u)
		return -ENOMEM;
	refcount_inc(&u->refs);
	t->sem_undos = u;
	return 0;
}

static void undo_free(struct sem_undo *undo)
{
	struct sem_set *set = undo->set;

	mutex_lock(&set->lock);
	list_del(&undo->of_set);
	mutex_unlock(&set->lock);
	sysv_put(&set->common);
	kmem_free(undo);
}

void sem_undo_forget_removed(void)
{
	struct sem_undos *u = task_current()->sem_undos;
	struct sem_undo *undo, *next;
	LIST_HEAD(gone);

	if (!u)
		return;
	spin_lock(&u->lock);
	list_for_each_entry_safe(undo, next, &u->list, of_list) {
		if (READ_ONCE(undo->set->common.removed)) {
			list_del(&undo->of_list);
			list_add_tail(&undo->of_list, &gone);
		}
	}
	spin_unlock(&u->lock);
	list_for_each_entry_safe(undo, next, &gone, of_list)
		undo_free(undo);
}

static struct sem_undo *find(struct sem_undos *u, const struct sem_set *set)
{
	struct sem_undo *undo, *found = NULL;

	spin_lock(&u->lock);
	list_for_each_entry(undo, &u->list, of_list) {
		if (undo->set == set) {
			found = undo;
			break;
		}
	}
	spin_unlock(&u->lock);
	return found;
}

/* Tasks of a list that meet here have the same set locked: one of them makes the entry. */
int sem_undo_find_locked(struct sem_set *set, struct sem_undo **out)
{
	struct sem_undos *u = undos_of(task_current());
	struct sem_undo *undo;

	assert_mutex_held(&set->lock);
	if (!u)
		return -ENOMEM;
	undo = find(u, set);
	if (!undo) {
		undo = kmem_alloc(kmem_current(),
				  sizeof(*undo) + set->nr * sizeof(undo->adjust[0]));
		if (!undo)
			return -ENOMEM;
		undo->set = set;
		refcount_inc(&set->common.refs);
		list_add_tail(&undo->of_set, &set->undos);
		spin_lock(&u->lock);
		list_add_tail(&undo->of_list, &u->list);
		spin_unlock(&u->lock);
	}
	*out = undo;
	return 0;
}

static void take_back(struct sem_undo *undo)
{
	struct sem_set *set = undo->set;
	const int32_t pid = sysv_pid();

	mutex_lock(&set->lock);
	if (!READ_ONCE(set->common.removed)) {
		bool changed = false;

		for (uint32_t i = 0; i < set->nr; i++) {
			const int value = set->sems[i].value + undo->adjust[i];

			if (!undo->adjust[i])
				continue;
			/* As on Linux: what can be taken back of it. */
			set->sems[i].value = MAX(0, MIN(value, SEM_VALUE_MAX));
			set->sems[i].pid = pid;
			changed = true;
		}
		if (changed) {
			set->otime = sysv_now();
			sem_changed_locked(set);
		}
	}
	mutex_unlock(&set->lock);
}

void sem_undos_put(struct task *t)
{
	struct sem_undos *u = t->sem_undos;
	struct sem_undo *undo, *next;

	t->sem_undos = NULL;
	if (!u || !refcount_dec_and_test(&u->refs))
		return;
	lock_not_needed(&u->lock, "the last task is gone");
	list_for_each_entry_safe(undo, next, &u->list, of_list) {
		list_del(&undo->of_list);
		take_back(undo);
		undo_free(undo);
	}
	kmem_free(u);
}
