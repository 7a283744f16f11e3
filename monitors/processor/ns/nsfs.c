/* SPDX-License-Identifier: MIT */
/*
 * nsfs: namespaces as files, which a program can open, keep, mount and ask. See ns.h.
 *
 * Flow:	the last reference may be put under sleeping locks (a socket drops a message with
 *		the file), and the end of a namespace of mounts may put that of another one that
 *		is mounted in it, and so on. So a thread frees namespaces, one after the other. A
 *		task that leaves one waits for that (ns_wait_freed()).
 * Locking:	ends.lock; nothing is called with it held but the work queue.
 */
#include <abi/fcntl.h>
#include <abi/ioctl.h>
#include <abi/stat.h>
#include <arch/uaccess.h>
#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/process/process.h>
#include <processor/vfs/file.h>
#include <processor/vfs/path.h>

#include "ns.h"
#include "user_ns.h"

int ns_path(struct ns *ns, struct path *to)
{
	char text[NS_TEXT_MAX];

	ns_text(ns, text);
	to->text = kstrdup(text);
	if (!to->text)
		return -ENOMEM;
	to->inode = &ns_get(ns)->inode;
	return 0;
}

struct ns ns_user_first = NS_FIRST_INIT(NS_USER, 0xeffffffdu);

static int nsfs_getattr(struct inode *inode, struct file_attr *attr)
{
	attr->file.ino = ns_of_inode(inode)->nr;
	attr->mode = S_IFREG | 0444;
	attr->nlink = 1;
	attr->attrs = STATX_ATTR_IMMUTABLE; /* not even root writes it */
	attr->atime.sec = attr->mtime.sec = attr->ctime.sec =
		(int64_t)(time_boot_real_ns() / NSEC_PER_SEC);
	return 0;
}

/* --- the end -------------------------------------------------------------------------- */

static struct {
	struct spinlock lock; /* RANK_SPIN_FS: a reference may be put under tables of tasks */
	struct list_head doomed __guarded_by(&lock);
	uint64_t last_ticket __guarded_by(&lock);
	uint64_t in_work __guarded_by(&lock); /* ticket of what is being freed; 0: nothing is */
	uint64_t done;                        /* lock; read without it: tickets up to here are */
	struct waitqueue freed;               /* done has changed */
	const struct thread *freer;           /* lock: frees, while in_work is not 0 */
	struct workqueue *wq;                 /* const after boot */
	struct work work;
} ends = { .lock = SPINLOCK_INIT("namespaces that end", RANK_SPIN_FS),
	   .doomed = LIST_HEAD_INIT(ends.doomed),
	   .freed = WAITQUEUE_INIT(ends.freed) };

/* Those that a namespace kept have its ticket and are next: its ticket is done after them. */
static void nsfs_release(struct inode *inode)
{
	struct ns *ns = ns_of_inode(inode);
	struct task *t = task_current();

	ASSERT(ns->free); /* the first ones stay */
	spin_lock(&ends.lock);
	if (ends.in_work && ends.freer == thread_current()) {
		ns->ticket = ends.in_work;
		list_add(&ns->doomed, &ends.doomed);
	} else {
		ns->ticket = ++ends.last_ticket;
		list_add_tail(&ns->doomed, &ends.doomed);
		if (t)
			t->ns_ticket = ns->ticket;
	}
	spin_unlock(&ends.lock);
	(void)work_queue(ends.wq, &ends.work);
}

/* The next one to free, after one with the ticket in_work. NULL: there is none. */
static struct ns *next_doomed(void)
{
	struct ns *ns;

	spin_lock(&ends.lock);
	ns = list_first_entry_or_null(&ends.doomed, struct ns, doomed);
	if (ends.in_work && (!ns || ns->ticket != ends.in_work))
		WRITE_ONCE(ends.done, ends.in_work);
	ends.freer = thread_current();
	ends.in_work = ns ? ns->ticket : 0;
	if (ns)
		list_del(&ns->doomed);
	spin_unlock(&ends.lock);
	wake_all(&ends.freed);
	return ns;
}

static void free_doomed(struct work *w)
{
	struct ns *ns;

	while ((ns = next_doomed()))
		ns->free(ns);
}

void ns_wait_freed(void)
{
	struct task *t = task_current();

	if (!t || !t->ns_ticket)
		return;
	wait_event(&ends.freed, READ_ONCE(ends.done) >= t->ns_ticket);
	t->ns_ticket = 0;
}

void ns_wait_all_freed(void)
{
	uint64_t ticket;

	spin_lock(&ends.lock);
	ticket = ends.last_ticket;
	spin_unlock(&ends.lock);
	wait_event(&ends.freed, READ_ONCE(ends.done) >= ticket);
}

/* --- files ---------------------------------------------------------------------------- */

static int nsfs_stat(struct file *f, struct file_attr *attr)
{
	return inode_getattr(f->inode, attr);
}

/* A new descriptor of @ns for the calling task. */
static long open_ns(struct ns *ns)
{
	struct path to = { 0 };
	struct file *f;
	int fd, err = ns_path(ns, &to);

	if (!err)
		err = inode_getattr(to.inode, &to.attr);
	f = err ? ERR_PTR(err) : path_open_found(&to, O_RDONLY);
	path_put(&to);
	if (IS_ERR(f))
		return PTR_ERR(f);
	fd = files_install(files_current(), f, 0, true);
	if (fd < 0)
		file_put(f);
	return fd;
}

/* The user namespace around or above @ns, if the caller may know of it. */
static long open_owner(struct ns *ns)
{
	if (ns == &ns_user_first || !user_ns_within(ns->owner, user_ns_current()))
		return -EPERM;
	return open_ns(user_ns_head(ns->owner));
}

static long open_parent(struct ns *ns)
{
	const struct pid_ns *p;

	if (ns->kind == NS_USER)
		return open_owner(ns);
	if (ns->kind != NS_PID)
		return -EINVAL;
	p = pid_ns_of(ns);
	if (!p || !pid_ns_within(p->parent, pid_ns_current()))
		return -EPERM;
	return open_ns(pid_ns_head(p->parent));
}

static long nsfs_ioctl(struct file *f, uint32_t cmd, uint64_t arg)
{
	struct ns *ns = ns_of_inode(f->inode);
	const struct user_ns *u;

	switch (cmd) {
	case NS_GET_NSTYPE:
		return (long)ns_kind_flag(ns->kind);
	case NS_GET_USERNS:
		return open_owner(ns);
	case NS_GET_PARENT:
		return open_parent(ns);
	case NS_GET_OWNER_UID:
		if (ns->kind != NS_USER)
			return -EINVAL;
		u = user_ns_of(ns);
		return put_user_u32(uid_out(u ? u->uid : 0), (void __user *)arg);
	default:
		return -ENOTTY;
	}
}

static const struct file_ops nsfs_file_ops = {
	.name = "namespace",
	.stat = nsfs_stat,
	.ioctl = nsfs_ioctl,
};

static int nsfs_open(struct inode *inode, struct file *f)
{
	f->ops = &nsfs_file_ops;
	return 0;
}

const struct inode_ops nsfs_inode_ops = {
	.name = "namespace",
	.getattr = nsfs_getattr,
	.release = nsfs_release,
	.open = nsfs_open,
};

struct fs_type nsfs_type = {
	.name = "nsfs",
	.at = "",
	.magic = 0x6e736673,
	.create_error = -EPERM,
	.made_up = true,
};

static int nsfs_init(void)
{
	nsfs_type.dev = fs_new_dev();
	work_init(&ends.work, free_doomed);
	ends.wq = workqueue_create("namespaces", 1);
	return IS_ERR(ends.wq) ? (int)PTR_ERR(ends.wq) : 0;
}
INITCALL(fs, nsfs_init);
