/* SPDX-License-Identifier: MIT */
/*
 * fork of an address space: the order of the steps.
 *
 * Flow:	block faults of the whole parent and wait for those under way -> collapse what only
 *		the parent sees -> ask the home to fork; while the home works: copy the vma list,
 *		write-protect and shoot down -> the answer -> parent and child get new tops in
 *		front of the old one -> unblock. The child loses what it is not to have.
 * Locking:	the parent's map_lock across all of it; no other thread knows the child yet.
 * Failure:	of the home: nothing has changed but rights in the page table, which faults restore.
 *		If it does not say, even when asked again, whether it has frozen the parent, the
 *		parent is failed: its programs end.
 *		Of a thread that is killed meanwhile: if it has sent nothing, nothing has happened.
 *		Else the home is told that both new spaces have ended when it has answered; what
 *		shares the parent's space ends, too.
 *		Of memory for the child, when the home has done it: the parent gets its new top,
 *		with no child beside it, and the child's name ends at the home.
 * See:		docs/design/fork.md
 */
#include <kernel/counter.h>
#include <lib/err.h>
#include <processor/excache/home.h>

#include "advice.h"
#include "anon.h"
#include "aspace.h"
#include "attach.h"
#include "kmem.h"
#include "lease.h"

COUNTER(fork_count, "fork.spaces", "address spaces forked");
COUNTER(fork_failed, "fork.failed", "forks of address spaces that failed");

/* A new top for the chain that @old is the top of. */
static struct object *new_top(const struct object *old)
{
	return anon_create(object_id(old->home, object_new_number()), old->home, old->seed);
}

static void copy_layout(const struct aspace *from, struct aspace *to)
{
	to->brk_start = from->brk_start;
	to->brk = from->brk;
	to->stack_top = from->stack_top;
	to->stack_bottom = from->stack_bottom;
	to->stack_low = from->stack_low;
	to->code_start = from->code_start;
	to->code_end = from->code_end;
	to->data_start = from->data_start;
	to->data_end = from->data_end;
	to->arg_start = from->arg_start;
	to->arg_end = from->arg_end;
	to->env_start = from->env_start;
	to->env_end = from->env_end;
	to->auxv_start = from->auxv_start;
	to->auxv_end = from->auxv_end;
	to->vdso = from->vdso;
}

/*
 * A space with the vmas of @parent and the object @top, which is not in the chain yet; takes the
 * reference.
 */
static struct aspace *make_child(struct aspace *parent, struct object *top)
{
	struct aspace *child = aspace_create_for(top);
	int err;

	if (IS_ERR(child))
		return child;
	copy_layout(parent, child);
	if (parent->exe &&
	    !object_run_begin(parent->exe)) { /* cannot fail while the parent runs it */
		object_get(parent->exe);
		child->exe = parent->exe;
	}
	err = kmem_charge_space(child, parent->kmem, parent->vmas_charged);
	if (!err)
		err = aspace_copy_vmas(parent, child);
	if (!err)
		err = lease_copy(parent, child);
	if (!err)
		err = attach_copy(parent, child);
	if (!err)
		err = ranges_copy(&parent->seals, &child->seals, child->kmem);
	if (!err)
		err = ranges_copy(&parent->guards, &child->guards, child->kmem);
	if (!err)
		err = advice_copy(parent, child);
	if (err) {
		aspace_put(child);
		return ERR_PTR(err);
	}
	return child;
}

/* Nothing of the parent can fault or change. */
static int fork_blocked(struct aspace *parent, struct aspace **out)
{
	struct object *shadow, *top, *behind;
	struct home_fork remote;
	struct aspace *child;
	int err;

	assert_mutex_held(&parent->map_lock);
	if (READ_ONCE(parent->failed))
		return -ENOMEM;
	(void)anon_collapse(parent, false); /* else the chain is longer, for now */
	behind = anon_collapse_behind(parent);
	if (behind)
		aspace_collapse_frozen_later(behind);
	shadow = new_top(parent->anon);
	if (IS_ERR(shadow))
		return PTR_ERR(shadow);
	object_charge_to(shadow, parent->kmem);
	top = new_top(parent->anon);
	if (IS_ERR(top)) {
		object_put(shadow);
		return PTR_ERR(top);
	}
	home_fork_begin(&remote, parent->anon, shadow, top);
	object_get(top); /* until the answer is there, whatever becomes of the child */
	child = make_child(parent, top);
	aspace_write_protect(parent, 0, SPACE_TOP);
	err = home_fork_end(&remote);
	if (err == -ECANCELED) {
		aspace_killed(parent);
		err = -EINTR;
	}
	if (err) {
		object_put(shadow);
		if (!IS_ERR(child))
			aspace_put(child);
	} else {
		anon_push(parent, shadow, IS_ERR(child) ? NULL : child);
		err = IS_ERR(child) ? PTR_ERR(child) : 0;
	}
	object_put(top);
	if (!err)
		*out = child;
	return err;
}

int aspace_fork(struct aspace *parent, struct aspace **child)
{
	struct blocked_range all;
	int err;

	*child = NULL;
	err = aspace_collapse_first(parent);
	if (err)
		return err;
	err = mutex_lock_killable(&parent->map_lock);
	if (err)
		return err;
	aspace_block(parent, &all, 0, SPACE_TOP);
	err = aspace_quiesce(parent, true);
	if (!err)
		err = fork_blocked(parent, child);
	if (lease_may_help(parent, err))
		err = fork_blocked(parent, child);
	aspace_unblock(parent, &all);
	mutex_unlock(&parent->map_lock);
	if (!err)
		err = advice_fork(*child);
	if (err && *child) {
		aspace_put(*child);
		*child = NULL;
	}
	counter_inc(err ? &fork_failed : &fork_count);
	return err;
}
