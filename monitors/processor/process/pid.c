/* SPDX-License-Identifier: MIT */
/*
 * Numbers: the pid table of a vNode, and everything that looks processes and tasks up by number.
 *
 * Numbers of PID namespaces are in tables of these (pid_ns.c).
 *
 * Invariants:	a number is in the table as long as a task, a process (zombies too), a process group
 *		or a session is named by it, and is not given out again meanwhile.
 * Locking:	vnode.lock for all of it; memory for tree nodes is taken without sleeping.
 */
#include "process_private.h"

#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/mm/aspace.h>
#include <processor/vfs/file.h>

#define PID_MIN_RANGE 32768u

/*
 * The numbers that this node gives out: a vNode spans processors, and its numbers are unique
 * because each processor has its own range of them. Const after boot.
 */
static uint32_t pid_low = INIT_PID + 1;
static uint32_t pid_high = PID_MAX - 1;

static int set_pids(const char *text)
{
	const char *dash = strchr(text, '-');
	char low_text[16];
	uint32_t low, high;

	if (!dash || (size_t)(dash - text) >= sizeof(low_text))
		return -EINVAL;
	memcpy(low_text, text, (size_t)(dash - text));
	low_text[dash - text] = '\0';
	if (kstrtou32(low_text, 10, &low) || kstrtou32(dash + 1, 10, &high))
		return -EINVAL;
	if (low <= INIT_PID || high >= PID_MAX || high < low || high - low < PID_MIN_RANGE - 1)
		return -EINVAL;
	pid_low = low;
	pid_high = high;
	lock_not_needed(&root_vnode.lock, "start-up: there is no process yet");
	root_vnode.last_pid = low - 1;
	return 0;
}
BOOT_PARAM_CB("pids", set_pids,
	      "process ids that this node gives out: LOW-HIGH; those of two processors are apart");

struct user {
	uint64_t nr_tasks;
};

struct vnode root_vnode = {
	.id = 1,
	.lock = SPINLOCK_INIT("vnode", RANK_SPIN_TREE),
	.pids = RADIX_TREE_INIT,
	.last_pid = INIT_PID,
	.processes = LIST_HEAD_INIT(root_vnode.processes),
	.users = RADIX_TREE_INIT,
};

static uint64_t gauge_processes(void)
{
	return __atomic_load_n(&root_vnode.nr_processes, __ATOMIC_RELAXED);
}
GAUGE(process_gauge, "process.processes", "processes, zombies included", gauge_processes);

static uint64_t gauge_tasks(void)
{
	return __atomic_load_n(&root_vnode.nr_tasks, __ATOMIC_RELAXED);
}
GAUGE(task_gauge, "process.tasks", "tasks of processes", gauge_tasks);

static uint64_t gauge_zombies(void)
{
	return __atomic_load_n(&root_vnode.nr_zombies, __ATOMIC_RELAXED);
}
GAUGE(zombie_gauge, "process.zombies", "processes that have ended and were not waited for",
      gauge_zombies);

static uint64_t gauge_pids(void)
{
	return __atomic_load_n(&root_vnode.pids.count, __ATOMIC_RELAXED);
}
GAUGE(pid_gauge, "process.pids", "numbers in use by tasks, processes, groups and sessions",
      gauge_pids);

/* --- numbers -------------------------------------------------------------------------- */

struct pid *pid_find_locked(struct vnode *v, uint32_t nr)
{
	assert_spin_held(&v->lock);
	return radix_lookup(&v->pids, nr);
}

static int insert_locked(struct vnode *v, struct pid *pid, uint32_t wanted)
{
	int err = -EEXIST;
	uint32_t nr;

	assert_spin_held(&v->lock);
	nr = wanted ? wanted : v->last_pid;
	if (wanted == INIT_PID)
		return -EEXIST; /* the kernel's */
	if (wanted && (wanted < pid_low || wanted > pid_high))
		return -EINVAL; /* another processor's */
	/* There are far fewer tasks than numbers. */
	for (uint32_t tries = 0; err == -EEXIST && tries < PID_MAX; tries++) {
		if (!wanted && ++nr > pid_high)
			nr = MAX(pid_low, PID_AFTER_WRAP);
		pid->nr = nr;
		err = radix_insert(&v->pids, nr, pid);
		if (wanted)
			return err;
	}
	if (!err)
		v->last_pid = nr;
	return err == -EEXIST ? -EAGAIN : err;
}

struct pid *pid_alloc(struct vnode *v, struct pid_ns *ns, const uint32_t *wanted,
		      uint32_t nr_wanted)
{
	struct pid *pid = pid_new(ns, kmem_current());
	const uint32_t level = pid_ns_level(ns);
	int err;

	if (!pid)
		return ERR_PTR(-ENOMEM);
	spin_lock(&v->lock);
	err = pid_number_locked(pid, wanted, nr_wanted);
	if (!err) {
		err = insert_locked(v, pid, nr_wanted > level ? wanted[level] : 0);
		if (err)
			pid_unnumber_locked(pid);
	}
	spin_unlock(&v->lock);
	if (!err)
		return pid;
	pid_free(pid);
	return ERR_PTR(err);
}

void pid_release_locked(struct vnode *v, struct pid *pid)
{
	assert_spin_held(&v->lock);
	if (pid->task || pid->process || !list_empty(&pid->group) || !list_empty(&pid->session))
		return;
	(void)radix_remove(&v->pids, pid->nr);
	pid_unnumber_locked(pid);
	pid_free(pid);
}

void process_set_group_locked(struct process *p, struct pid *group)
{
	struct pid *old = p->group;

	assert_spin_held(&p->vnode->lock);
	p->group = group;
	__atomic_store_n(&p->pgid, group ? group->nr : 0, __ATOMIC_RELAXED);
	if (old)
		list_del(&p->group_link);
	if (group)
		list_add_tail(&p->group_link, &group->group);
	if (old)
		pid_release_locked(p->vnode, old);
}

void process_set_session_locked(struct process *p, struct pid *session)
{
	struct pid *old = p->session;

	assert_spin_held(&p->vnode->lock);
	p->session = session;
	__atomic_store_n(&p->sid, session ? session->nr : 0, __ATOMIC_RELAXED);
	if (old)
		list_del(&p->session_link);
	if (session)
		list_add_tail(&p->session_link, &session->session);
	if (old)
		pid_release_locked(p->vnode, old);
}

/* --- tasks of a user ------------------------------------------------------------------ */

int user_charge_locked(struct vnode *v, uint32_t uid)
{
	struct user *u = radix_lookup(&v->users, uid);
	int err;

	assert_spin_held(&v->lock);
	if (!u) {
		u = kzalloc(sizeof(*u));
		err = u ? radix_insert(&v->users, uid, u) : -ENOMEM;
		if (err) {
			kfree(u);
			return err;
		}
	}
	u->nr_tasks++;
	return 0;
}

void user_uncharge_locked(struct vnode *v, uint32_t uid)
{
	struct user *u = radix_lookup(&v->users, uid);

	assert_spin_held(&v->lock);
	if (u && --u->nr_tasks == 0) {
		(void)radix_remove(&v->users, uid);
		kfree(u);
	}
}

uint64_t user_tasks_locked(const struct vnode *v, uint32_t uid)
{
	const struct user *u = radix_lookup(&v->users, uid);

	assert_spin_held(&v->lock);
	return u ? u->nr_tasks : 0;
}

/* --- looking up ----------------------------------------------------------------------- */

uint32_t pid_vnr_in(uint32_t nr, const struct pid_ns *ns)
{
	const struct pid *pid;
	uint32_t vnr;

	if (!ns)
		return nr;
	spin_lock(&root_vnode.lock);
	pid = pid_find_locked(&root_vnode, nr);
	vnr = pid ? pid_nr_in(pid, ns) : 0;
	spin_unlock(&root_vnode.lock);
	return vnr;
}

uint32_t pid_from_vnr_in(uint32_t vnr, const struct pid_ns *ns)
{
	const struct pid *pid;
	uint32_t nr;

	if (!ns)
		return vnr;
	spin_lock(&root_vnode.lock);
	pid = radix_lookup(&ns->pids, vnr);
	nr = pid ? pid->nr : 0;
	spin_unlock(&root_vnode.lock);
	return nr;
}

struct process *process_find_locked(struct vnode *v, uint32_t pid)
{
	const struct pid *entry = pid_find_locked(v, pid);

	assert_spin_held(&v->lock);
	return entry ? entry->process : NULL;
}

struct process *process_find(uint32_t pid)
{
	struct process *p;

	spin_lock(&root_vnode.lock);
	p = process_find_locked(&root_vnode, pid);
	if (p)
		process_get(p);
	spin_unlock(&root_vnode.lock);
	return p;
}

void process_for_each(bool (*fn)(struct process *p, void *arg), void *arg)
{
	struct vnode *v = &root_vnode;
	struct process *p;

	spin_lock(&v->lock);
	list_for_each_entry(p, &v->processes, all_link) {
		if (p->state == PROCESS_ALIVE && !fn(p, arg))
			break;
	}
	spin_unlock(&v->lock);
}

struct task *task_find(uint32_t tid)
{
	const struct pid *entry;
	struct task *t = NULL;

	spin_lock(&root_vnode.lock);
	entry = pid_find_locked(&root_vnode, tid);
	if (entry && entry->task) {
		t = entry->task;
		task_get(t);
	}
	spin_unlock(&root_vnode.lock);
	return t;
}

struct process *process_next(const struct pid_ns *ns, uint32_t *pid)
{
	struct process *found = NULL;
	struct pid *entry;
	uint64_t nr = *pid;

	spin_lock(&root_vnode.lock);
	while ((entry = radix_next(ns ? &ns->pids : &root_vnode.pids, &nr)) && !entry->process)
		nr++;
	if (entry) {
		found = entry->process;
		process_get(found);
		*pid = (uint32_t)nr;
	}
	spin_unlock(&root_vnode.lock);
	return found;
}

struct task *process_next_task(struct process *p, const struct pid_ns *ns, uint32_t *tid)
{
	struct task *t, *best = NULL;
	uint32_t nr, best_nr = PID_MAX;

	spin_lock(&p->vnode->lock);
	spin_lock(&p->sig_lock);
	list_for_each_entry(t, &p->tasks, link) {
		nr = pid_nr_in(t->pid_entry, ns);
		if (nr >= *tid && nr < best_nr) {
			best = t;
			best_nr = nr;
		}
	}
	if (best) {
		task_get(best);
		*tid = best_nr;
	}
	spin_unlock(&p->sig_lock);
	spin_unlock(&p->vnode->lock);
	return best;
}

struct files *process_files(struct process *p)
{
	struct files *files = NULL;
	struct task *t;

	spin_lock(&p->sig_lock);
	list_for_each_entry(t, &p->tasks, link) {
		if (t->files) {
			files = t->files;
			files_get_table(files);
			break;
		}
	}
	spin_unlock(&p->sig_lock);
	return files;
}

struct fs_state *process_fs(struct process *p)
{
	struct fs_state *fs = NULL;
	struct task *t;

	spin_lock(&p->sig_lock);
	list_for_each_entry(t, &p->tasks, link) {
		if (t->fs) {
			fs = t->fs;
			fs_state_get(fs);
			break;
		}
	}
	spin_unlock(&p->sig_lock);
	return fs;
}

struct aspace *process_aspace(struct process *p)
{
	struct aspace *as;

	spin_lock(&p->vnode->lock);
	as = p->as;
	if (as)
		aspace_get(as);
	spin_unlock(&p->vnode->lock);
	return as;
}
