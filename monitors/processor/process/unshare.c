/* SPDX-License-Identifier: MIT */
/*
 * unshare and setns: the calling task leaves what it shares with others.
 *
 * Flow:	everything that the task is to have is made first; then it is put in place, which
 *		cannot fail. A PID namespace is for the children: the task keeps its numbers.
 */
#include "process_private.h"

#include <lib/err.h>
#include <processor/ipc/sysv.h>
#include <processor/ns/user_ns.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/file.h>

/* Parts that the calling task is to have; NULL: it keeps its own. */
struct parts {
	struct fs_state *fs;
	struct files *files;
	struct ns_set *ns;
	struct cred *cred; /* in another user namespace */
	bool undo;         /* it takes back what it did to semaphores */
	struct pid_ns *child_ns;
	bool children_here; /* its children are to be in its own PID namespace again */
};

static void parts_put(struct parts *parts)
{
	if (parts->fs)
		fs_state_leave(parts->fs);
	if (parts->files)
		files_put(parts->files);
	if (parts->ns)
		ns_set_put(parts->ns);
	pid_ns_put(parts->child_ns);
	if (parts->cred)
		cred_put(parts->cred);
	*parts = (struct parts){ 0 };
}

#define SWAP_IF_THERE(mine, theirs)             \
	do {                                    \
		__typeof__(mine) old_ = (mine); \
                                                \
		if (theirs) {                   \
			(mine) = (theirs);      \
			(theirs) = old_;        \
		}                               \
	} while (0)

/* Takes @parts over. -EAGAIN: nothing has changed. */
static int install(struct parts *parts)
{
	struct process *p = process_current();
	struct task *t = task_current();
	struct cred *cred = parts->cred;
	int err;

	parts->cred = NULL;
	err = cred ? cred_install(cred) : 0;
	if (err) {
		parts_put(parts);
		return err;
	}
	if (parts->undo)
		sem_undos_put(t);
	spin_lock(&p->sig_lock);
	SWAP_IF_THERE(t->fs, parts->fs);
	SWAP_IF_THERE(t->files, parts->files);
	SWAP_IF_THERE(t->ns, parts->ns);
	if (parts->children_here) {
		parts->child_ns = t->child_ns;
		t->child_ns = NULL;
	} else {
		SWAP_IF_THERE(t->child_ns, parts->child_ns);
	}
	spin_unlock(&p->sig_lock);
	parts_put(parts);
	return 0;
}

/* --- unshare --------------------------------------------------------------------------------- */

/* Threads, and what they have in common, can only be kept apart by one that is alone. */
static bool is_alone(void)
{
	struct process *p = process_current();
	bool alone;

	spin_lock(&p->sig_lock);
	alone = list_length(&p->tasks) == 1;
	spin_unlock(&p->sig_lock);
	return alone;
}

#define CLONE_NEW_ANY (CLONE_NEWNS | CLONE_NEWPID | NS_SET_FLAGS | CLONE_NEWUSER | CLONE_NEW_NONE)

int clone_check_namespaces(uint64_t flags)
{
	/* In a new user namespace everybody has all capabilities. */
	if ((flags & CLONE_NEW_ANY) && !(flags & CLONE_NEWUSER) && !capable_here(CAP_SYS_ADMIN))
		return -EPERM;
	if (flags & CLONE_NEW_NONE)
		return -EINVAL;
	/* One level at a time: the first child has to be there before the next one. */
	if ((flags & CLONE_NEWPID) && task_current()->child_ns)
		return -EINVAL;
	return 0;
}

/* A user namespace is a task's that is alone, with a root directory of its own. */
static uint64_t implied(uint64_t flags)
{
	return flags & CLONE_NEWUSER ? flags | CLONE_THREAD | CLONE_FS : flags;
}

static int check_unshare(uint64_t flags)
{
	const uint64_t together = CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;

	if (flags & ~(together | CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_NEW_ANY))
		return -EINVAL;
	if ((flags & together) && !is_alone())
		return -EINVAL;
	return clone_check_namespaces(flags);
}

/* The parts that belong to one task alone, by @flags; namespaces are owned by @owner. */
static int make_parts(struct parts *parts, uint64_t flags, struct user_ns *owner)
{
	struct task *t = task_current();
	int err = 0;

	if (flags & CLONE_NEWNS)
		parts->fs = fs_state_copy_mounts(t->fs, owner);
	else if ((flags & CLONE_FS) && fs_state_shared(t->fs))
		parts->fs = fs_state_copy(t->fs);
	if (IS_ERR(parts->fs)) {
		err = (int)PTR_ERR(parts->fs);
		parts->fs = NULL;
	}
	if (!err && (flags & CLONE_FILES) && files_shared(t->files)) {
		struct files *files = files_copy(t->files);

		err = IS_ERR(files) ? PTR_ERR(files) : 0;
		parts->files = err ? NULL : files;
	}
	if (!err && (flags & NS_SET_FLAGS)) {
		struct ns_set *ns = ns_set_make(t->ns, flags, owner);

		err = IS_ERR(ns) ? PTR_ERR(ns) : 0;
		parts->ns = err ? NULL : ns;
	}
	if (!err && (flags & CLONE_NEWPID)) {
		struct pid_ns *ns = pid_ns_create(t->process->pid_ns, owner, kmem_current());

		err = IS_ERR(ns) ? PTR_ERR(ns) : 0;
		parts->child_ns = err ? NULL : ns;
	}
	return err;
}

/* unshare(flags): parts of its own for the caller */
long sys_unshare(const struct syscall_args *args)
{
	const uint64_t flags = implied(args->a[0]);
	struct user_ns *owner = user_ns_current();
	struct parts parts = { 0 };
	int err = check_unshare(flags);

	if (err)
		return err;
	if (flags & CLONE_NEWUSER) {
		struct cred *cred = cred_in_new_user_ns();

		if (IS_ERR(cred))
			return PTR_ERR(cred);
		parts.cred = cred;
		owner = cred->user_ns;
	}
	err = make_parts(&parts, flags, owner);
	if (err) {
		parts_put(&parts);
		return err;
	}
	parts.undo = flags & (CLONE_SYSVSEM | CLONE_NEWIPC);
	return install(&parts);
}

/* --- setns ----------------------------------------------------------------------------------- */

/* Where the caller will be: capabilities there count for what else it enters. */
static const struct user_ns *user_ns_then(const struct parts *parts)
{
	return parts->cred ? parts->cred->user_ns : user_ns_current();
}

/* May the caller, who is in its user namespace by then, enter @ns? */
static bool may_enter(const struct parts *parts, const struct ns *ns)
{
	return ns_capable(ns->owner, CAP_SYS_ADMIN) &&
	       ns_capable(user_ns_then(parts), CAP_SYS_ADMIN);
}

static int enter_user(struct parts *parts, struct user_ns *ns)
{
	/* A task does not get capabilities back that it has dropped in its own. */
	if (ns == user_ns_current() || !is_alone() || fs_state_shared(fs_current()))
		return -EINVAL;
	if (!ns_capable(ns, CAP_SYS_ADMIN))
		return -EPERM;
	ASSERT(!parts->cred);
	parts->cred = cred_in_user_ns(ns);
	return parts->cred ? 0 : -ENOMEM;
}

/* Its root and working directory are those of the namespace, so they can be nobody else's. */
static int enter_mounts(struct parts *parts, struct ns *ns)
{
	struct fs_state *fs;

	if (!may_enter(parts, ns) || !ns_capable(user_ns_then(parts), CAP_SYS_CHROOT))
		return -EPERM;
	if (fs_state_shared(fs_current()))
		return -EINVAL;
	fs = fs_state_enter(fs_current(), mounts_of_ns(ns));
	if (IS_ERR(fs))
		return PTR_ERR(fs);
	if (parts->fs)
		fs_state_leave(parts->fs);
	parts->fs = fs;
	return 0;
}

/* For the caller's children: its own, or one in that. */
static int enter_pids(struct parts *parts, struct ns *head)
{
	struct pid_ns *ns = pid_ns_of(head), *own = process_current()->pid_ns;

	if (!may_enter(parts, head))
		return -EPERM;
	if (!pid_ns_within(ns, own))
		return -EINVAL;
	parts->children_here = ns == own;
	if (ns != own) {
		pid_ns_put(parts->child_ns);
		parts->child_ns = pid_ns_get(ns);
	}
	return 0;
}

static int enter(struct parts *parts, struct ns *ns)
{
	struct ns_set *set;

	if (ns->kind == NS_USER)
		return enter_user(parts, user_ns_of(ns));
	if (ns->kind == NS_MNT)
		return enter_mounts(parts, ns);
	if (ns->kind == NS_PID)
		return enter_pids(parts, ns);
	if (!may_enter(parts, ns))
		return -EPERM;
	set = ns_set_with(parts->ns ? parts->ns : task_current()->ns, ns);
	if (IS_ERR(set))
		return PTR_ERR(set);
	if (parts->ns)
		ns_set_put(parts->ns);
	parts->ns = set;
	parts->undo |= ns->kind == NS_IPC;
	return 0;
}

static int enter_one(struct parts *parts, struct process *p, enum ns_kind kind)
{
	struct ns *ns = ns_of_process(p, 0, kind);
	int err;

	if (IS_ERR(ns))
		return -ESRCH;
	err = enter(parts, ns);
	ns_put(ns);
	return err;
}

/* The namespaces of @p that @flags name: first that of users, which gives the right to others. */
static int enter_all(struct parts *parts, struct process *p, uint64_t flags)
{
	int err = flags & CLONE_NEWUSER ? enter_one(parts, p, NS_USER) : 0;

	for (enum ns_kind k = 0; !err && k < NS_KINDS; k++) {
		if (k != NS_USER && (flags & ns_kind_flag(k)))
			err = enter_one(parts, p, k);
	}
	return err;
}

/* A descriptor of process @p: several namespaces at once. */
static int enter_process(struct parts *parts, struct process *p, uint64_t flags)
{
	const uint64_t known = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWIPC | CLONE_NEWNET |
			       CLONE_NEWPID | CLONE_NEWUSER | CLONE_NEWUTS;

	if (!flags || (flags & ~known))
		return -EINVAL;
	if (READ_ONCE(p->state) != PROCESS_ALIVE)
		return -ESRCH;
	if (!process_may_look(p))
		return -EPERM;
	return enter_all(parts, p, flags);
}

/* setns(fd, flags): the caller enters a namespace, or some of those of a process */
long sys_setns(const struct syscall_args *args)
{
	const int fd = (int)args->a[0];
	const uint64_t flags = (uint32_t)args->a[1];
	struct file *f = fd_get(fd);
	struct parts parts = { 0 };
	struct process *p;
	struct ns *ns;
	bool nonblock;
	int err;

	if (IS_ERR(f))
		return PTR_ERR(f);
	if (f->flags & O_PATH) {
		file_put(f);
		return -EBADF;
	}
	ns = ns_of_inode(f->inode);
	p = ns ? NULL : pidfd_process(fd, &nonblock);
	if (ns)
		err = flags && flags != ns_kind_flag(ns->kind) ? -EINVAL : enter(&parts, ns);
	else
		err = p ? enter_process(&parts, p, flags) : -EINVAL;
	if (p)
		process_put(p);
	if (err)
		parts_put(&parts);
	else
		err = install(&parts);
	file_put(f);
	return err;
}
