/* SPDX-License-Identifier: MIT */
/*
 * POSIX message queues: names, limits, descriptors, system calls.
 *
 * Locking:	names_lock (RANK_MONITOR) guards the names and numbers of the queues of all
 *		namespaces, and the numbers and bytes of those of each user, in all of them. A
 *		queue's lock is not held then.
 * Limits:	/proc/sys/fs/mqueue, and RLIMIT_MSGQUEUE for each user as Linux counts it. A queue
 *		is charged to the program that makes it, a message to the one that sends it: ENOMEM.
 *		The queues are this processor's. There is no file system of them.
 */
#include <abi/poll.h>
#include <abi/stat.h>
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/process/timespec.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/file.h>
#include <processor/vfs/path.h>
#include <processor/vfs/uio.h>

#include "ipc_ns.h"
#include "mqueue_private.h"

#define NAME_MAX_LEN 255
#define MSG_COST     48u /* of each message and each priority, by Linux's count */
#define FILE_SIZE    80  /* of what read() answers, at most; what stat() answers */
#define MQUEUE_MAGIC 0x19800202u

struct mq_user { /* one that has a queue */
	struct list_head link;
	uint32_t uid;
	uint32_t nr; /* queues */
	uint64_t bytes;
};

static struct mutex names_lock = MUTEX_INIT(names_lock, "mqueue.names", RANK_MONITOR);
static LIST_HEAD(users); /* names_lock */
static uint64_t last_ino __guarded_by(&names_lock);

/* --- users --------------------------------------------------------------------------- */

static struct mq_user *user_get_locked(uint32_t uid) __must_hold(&names_lock)
{
	struct mq_user *u;

	assert_mutex_held(&names_lock);
	list_for_each_entry(u, &users, link) {
		if (u->uid == uid) {
			u->nr++;
			return u;
		}
	}
	u = kmem_alloc(kmem_current(), sizeof(*u));
	if (!u)
		return NULL;
	u->uid = uid;
	u->nr = 1;
	list_add(&u->link, &users);
	return u;
}

static void user_put_locked(struct mq_user *u, uint64_t bytes) __must_hold(&names_lock)
{
	assert_mutex_held(&names_lock);
	ASSERT(u->nr && u->bytes >= bytes);
	u->bytes -= bytes;
	if (--u->nr)
		return;
	list_del(&u->link);
	kmem_free(u);
}

/* --- making and the end -------------------------------------------------------------- */

static int cmp_names(const struct rb_node *a, const struct rb_node *b)
{
	return strcmp(rb_entry(a, struct mqueue, by_name)->name,
		      rb_entry(b, struct mqueue, by_name)->name);
}

static struct mqueue *find_locked(const char *name) __must_hold(&names_lock)
{
	struct rb_node *n;

	assert_mutex_held(&names_lock);
	n = ipc_ns_current()->mq_names.node;
	while (n) {
		struct mqueue *q = rb_entry(n, struct mqueue, by_name);
		const int order = strcmp(name, q->name);

		if (!order)
			return q;
		n = order < 0 ? n->left : n->right;
	}
	return NULL;
}

static void mqueue_put(struct mqueue *q)
{
	struct mq_notify n;

	if (!refcount_dec_and_test(&q->refs))
		return;
	lock_not_needed(&q->lock, "the last reference is gone");
	n = q->notify;
	mq_notify_removed(&n);
	mqueue_empty(q);
	mutex_lock(&names_lock);
	q->ns->nr_mqueues--;
	user_put_locked(q->user, q->charged);
	mutex_unlock(&names_lock);
	ipc_ns_release(q->ns);
	kmem_free(q->name);
	kmem_free(q);
}

void mqueue_end(struct ipc_ns *ns)
{
	struct rb_node *n;
	struct mqueue *q;

	do {
		mutex_lock(&names_lock);
		n = rb_first(&ns->mq_names);
		q = n ? rb_entry(n, struct mqueue, by_name) : NULL;
		if (q) {
			rb_erase(&q->by_name, &ns->mq_names);
			WRITE_ONCE(q->unlinked, true);
		}
		mutex_unlock(&names_lock);
		if (q)
			mqueue_put(q); /* the name's */
	} while (q);
}

/* 0, or -EINVAL, -EOVERFLOW. @attr NULL: the defaults. */
static int check_size(const struct linux_mq_attr *attr, struct mqueue *q)
{
	const struct mqueue_limits *limits = mqueue_limits();
	const bool root = capable(CAP_SYS_RESOURCE);
	const uint32_t max = READ_ONCE(limits->msg_max);
	const uint32_t max_size = READ_ONCE(limits->msgsize_max);

	if (!attr) {
		q->max_msg = MIN(max, READ_ONCE(limits->msg_default));
		q->msg_size = MIN(max_size, READ_ONCE(limits->msgsize_default));
	} else {
		if (attr->maxmsg <= 0 || attr->msgsize <= 0 ||
		    attr->maxmsg > (root ? MQUEUE_HARD_MSG : max) ||
		    attr->msgsize > (root ? MQUEUE_HARD_MSGSIZE : max_size))
			return -EINVAL;
		q->max_msg = (uint32_t)attr->maxmsg;
		q->msg_size = (uint32_t)attr->msgsize;
	}
	q->charged = (uint64_t)q->max_msg * q->msg_size +
		     (uint64_t)(q->max_msg + MIN(q->max_msg, MQ_PRIO_MAX)) * MSG_COST;
	return 0;
}

/* With its name, and a reference for the caller beside the name's. */
static struct mqueue *make_locked(const char *name, uint32_t mode, const struct linux_mq_attr *attr)
	__must_hold(&names_lock)
{
	struct ipc_ns *ns = ipc_ns_current();
	struct mqueue *q;
	struct rb_node *there;
	int err;

	assert_mutex_held(&names_lock);
	if (ns->nr_mqueues >= READ_ONCE(ns->mq_limits.queues_max) && !capable(CAP_SYS_RESOURCE))
		return ERR_PTR(-ENOSPC);
	q = kmem_alloc(kmem_current(), sizeof(*q));
	if (!q)
		return ERR_PTR(-ENOMEM);
	mqueue_init(q);
	q->ns = ns;
	err = check_size(attr, q);
	if (err)
		goto out_free;
	err = -ENOMEM;
	q->name = kmem_strdup(kmem_current(), name);
	if (!q->name)
		goto out_free;
	q->user = user_get_locked(cred_current()->uid);
	if (!q->user)
		goto out_free;
	if (q->user->bytes + q->charged > process_rlimit(RLIMIT_MSGQUEUE)) {
		user_put_locked(q->user, 0);
		err = -EMFILE;
		goto out_free;
	}
	q->user->bytes += q->charged;
	refcount_set(&q->refs, 2);
	q->mode = mode & 07777 & ~fs_state_umask(fs_current());
	q->uid = cred_current()->fsuid;
	q->gid = cred_current()->fsgid;
	q->ino = ++last_ino;
	there = rb_insert(&q->by_name, &ns->mq_names, cmp_names);
	ASSERT(!there);
	ns->nr_mqueues++;
	ipc_ns_hold(ns);
	return q;

out_free:
	kmem_free(q->name);
	kmem_free(q);
	return ERR_PTR(err);
}

/* --- files --------------------------------------------------------------------------- */

static struct mqueue *queue_of(const struct file *f)
{
	return f->private;
}

static int mqueue_stat(struct file *f, struct file_attr *attr)
{
	const struct mqueue *q = queue_of(f);

	*attr = (struct file_attr){ .mode = S_IFREG | q->mode,
				    .nlink = !READ_ONCE(q->unlinked),
				    .uid = q->uid,
				    .gid = q->gid,
				    .size = FILE_SIZE,
				    .blksize = PAGE_SIZE,
				    .fsid = 17 };
	attr->file.ino = q->ino;
	return 0;
}

static ssize_t mqueue_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	struct mqueue *q = queue_of(f);
	char text[FILE_SIZE];
	size_t len, n;

	mutex_lock(&q->lock);
	snprintf(text, sizeof(text), "QSIZE:%-10llu NOTIFY:%-5d SIGNO:%-5d NOTIFY_PID:%-6u\n",
		 (unsigned long long)q->bytes, q->notify.pid ? q->notify.kind : 0,
		 q->notify.pid && q->notify.kind == SIGEV_SIGNAL ? q->notify.signo : 0,
		 pid_vnr(q->notify.pid));
	mutex_unlock(&q->lock);
	len = strlen(text);
	if (*pos >= len)
		return 0;
	n = MIN(len - (size_t)*pos, uio->left);
	if (n && !(n = uio_put(uio, text + *pos, n)))
		return -EFAULT;
	*pos += n;
	return (ssize_t)n;
}

static unsigned int mqueue_poll(struct file *f)
{
	const struct mqueue *q = queue_of(f);
	const uint32_t nr = READ_ONCE(q->nr);

	return (nr ? POLLIN | POLLRDNORM : 0) | (nr < q->max_msg ? POLLOUT | POLLWRNORM : 0);
}

static struct waitqueue *mqueue_poll_wait(struct file *f)
{
	return &queue_of(f)->changed;
}

static void mqueue_closed(struct file *f)
{
	mq_notify_closed(queue_of(f));
}

static void mqueue_release(struct file *f)
{
	mqueue_put(queue_of(f));
}

static const struct file_ops mqueue_ops = {
	.name = "[mqueue]",
	.read = mqueue_read,
	.stat = mqueue_stat,
	.poll = mqueue_poll,
	.poll_wait = mqueue_poll_wait,
	.closed = mqueue_closed,
	.release = mqueue_release,
	.seekable = true,
	.magic = MQUEUE_MAGIC,
};

struct mqueue *mqueue_of_fd(int fd, struct file **f)
{
	struct file *got = fd_get(fd);

	if (IS_ERR(got))
		return ERR_CAST(got);
	if (got->ops != &mqueue_ops) {
		file_put(got);
		return ERR_PTR(-EBADF);
	}
	*f = got;
	return queue_of(got);
}

/* --- mq_open, mq_unlink -------------------------------------------------------------- */

/* The caller's to kfree(). ERR_PTR(-EFAULT, -ENOENT, -EACCES, -ENAMETOOLONG, -ENOMEM) */
static char *get_name(uint64_t uname)
{
	char *name = kmalloc(FS_PATH_MAX);
	ssize_t len;

	if (!name)
		return ERR_PTR(-ENOMEM);
	len = strncpy_from_user(name, (const char __user *)uname, FS_PATH_MAX);
	if (len == 0)
		len = -ENOENT;
	else if (len > 0 && (strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, "..")))
		len = -EACCES;
	else if (len > NAME_MAX_LEN)
		len = -ENAMETOOLONG;
	if (len > 0)
		return name;
	kfree(name);
	return ERR_PTR(len);
}

static int may_open(const struct mqueue *q, uint32_t flags)
{
	const uint32_t acc = flags & O_ACCMODE;
	struct fs_cred cred;

	if ((flags & O_CREAT) && (flags & O_EXCL))
		return -EEXIST;
	if (acc == O_ACCMODE)
		return -EINVAL;
	process_cred(&cred);
	return fs_access(&cred, q->mode, q->uid, q->gid,
			 (acc != O_WRONLY ? FS_MAY_READ : 0) |
				 (acc != O_RDONLY ? FS_MAY_WRITE : 0));
}

/* Referenced. */
static struct mqueue *find_or_make(const char *name, uint32_t flags, uint32_t mode,
				   const struct linux_mq_attr *attr)
{
	struct mqueue *q;
	int err = mutex_lock_killable(&names_lock);

	if (err)
		return ERR_PTR(err);
	q = find_locked(name);
	if (q) {
		err = may_open(q, flags);
		if (!err)
			refcount_inc(&q->refs);
	} else if (!(flags & O_CREAT)) {
		err = -ENOENT;
	} else if ((flags & O_ACCMODE) == O_ACCMODE) {
		err = -EINVAL;
	} else {
		q = make_locked(name, mode, attr);
	}
	mutex_unlock(&names_lock);
	return err ? ERR_PTR(err) : q;
}

static struct file *open_queue(const char *name, uint32_t flags, uint32_t mode,
			       const struct linux_mq_attr *attr)
{
	struct mqueue *q = find_or_make(name, flags, mode, attr);
	struct file *f;

	if (IS_ERR(q))
		return ERR_CAST(q);
	f = file_create(&mqueue_ops, flags & (O_ACCMODE | O_NONBLOCK), NULL);
	if (IS_ERR(f))
		mqueue_put(q);
	else
		f->private = q;
	return f;
}

/* mq_open(name, flags, mode, attr) */
long sys_mq_open(const struct syscall_args *args)
{
	struct linux_mq_attr attr;
	struct file *f;
	char *name;
	int fd;

	if (args->a[3] && copy_from_user(&attr, (const void __user *)args->a[3], sizeof(attr)))
		return -EFAULT;
	name = get_name(args->a[0]);
	if (IS_ERR(name))
		return PTR_ERR(name);
	fd = files_reserve(files_current(), 0, true);
	if (fd >= 0) {
		f = open_queue(name, (uint32_t)args->a[1], (uint32_t)args->a[2],
			       args->a[3] ? &attr : NULL);
		fd = files_finish(files_current(), fd, f);
	}
	kfree(name);
	return fd;
}

/* As in a directory of root's with the sticky bit. */
static int may_unlink(const struct mqueue *q)
{
	struct fs_cred cred;

	process_cred(&cred);
	return cred.uid == q->uid || fs_cred_is_root(&cred) ? 0 : -EPERM;
}

/* mq_unlink(name) */
long sys_mq_unlink(const struct syscall_args *args)
{
	char *name = get_name(args->a[0]);
	struct mqueue *q = NULL;
	int err;

	if (IS_ERR(name))
		return PTR_ERR(name);
	err = mutex_lock_killable(&names_lock);
	if (!err) {
		q = find_locked(name);
		err = q ? may_unlink(q) : -ENOENT;
		if (!err) {
			rb_erase(&q->by_name, &q->ns->mq_names);
			WRITE_ONCE(q->unlinked, true);
		}
		mutex_unlock(&names_lock);
	}
	kfree(name);
	if (!err)
		mqueue_put(q); /* the name's */
	return err;
}

/* --- messages ------------------------------------------------------------------------ */

static struct mq_msg *get_msg(uint64_t ubuf, uint64_t len, uint32_t prio)
{
	struct mq_msg *m = kmem_alloc(kmem_current(), sizeof(*m) + len);

	if (!m)
		return ERR_PTR(-ENOMEM);
	m->prio = prio;
	m->len = (uint32_t)len;
	if (!copy_from_user(m->data, (const void __user *)ubuf, len))
		return m;
	kmem_free(m);
	return ERR_PTR(-EFAULT);
}

/* mq_timedsend(fd, msg, len, priority, until) */
long sys_mq_timedsend(const struct syscall_args *args)
{
	const uint64_t len = args->a[2];
	uint64_t deadline;
	struct mq_msg *m;
	struct mqueue *q;
	struct file *f;
	int err = user_real_deadline_get(args->a[4], &deadline);

	if (err)
		return err;
	if ((uint32_t)args->a[3] >= MQ_PRIO_MAX)
		return -EINVAL;
	q = mqueue_of_fd((int)args->a[0], &f);
	if (IS_ERR(q))
		return PTR_ERR(q);
	if (!file_writable(f)) {
		err = -EBADF;
	} else if (len > q->msg_size) {
		err = -EMSGSIZE;
	} else {
		m = get_msg(args->a[1], len, (uint32_t)args->a[3]);
		err = IS_ERR(m) ? (int)PTR_ERR(m) : mqueue_send(q, m, file_nonblock(f), deadline);
		if (err && !IS_ERR(m))
			kmem_free(m);
	}
	file_put(f);
	return err;
}

/* mq_timedreceive(fd, buf, len, priority, until) */
long sys_mq_timedreceive(const struct syscall_args *args)
{
	uint64_t deadline;
	struct mq_msg *m;
	struct mqueue *q;
	struct file *f;
	long ret = user_real_deadline_get(args->a[4], &deadline);

	if (ret)
		return ret;
	q = mqueue_of_fd((int)args->a[0], &f);
	if (IS_ERR(q))
		return PTR_ERR(q);
	if (!file_readable(f))
		ret = -EBADF;
	else if (args->a[2] < q->msg_size)
		ret = -EMSGSIZE;
	m = ret ? ERR_PTR(ret) : mqueue_receive(q, file_nonblock(f), deadline);
	file_put(f);
	if (IS_ERR(m))
		return PTR_ERR(m);
	ret = (long)m->len;
	if ((args->a[3] && put_user_u32(m->prio, (void __user *)args->a[3])) ||
	    copy_to_user((void __user *)args->a[1], m->data, m->len))
		ret = -EFAULT;
	kmem_free(m);
	return ret;
}

/* mq_getsetattr(fd, new, old) */
long sys_mq_getsetattr(const struct syscall_args *args)
{
	struct linux_mq_attr new, old = { 0 };
	struct mqueue *q;
	struct file *f;

	if (args->a[1]) {
		if (copy_from_user(&new, (const void __user *)args->a[1], sizeof(new)))
			return -EFAULT;
		if (new.flags & ~(int64_t)O_NONBLOCK)
			return -EINVAL;
	}
	q = mqueue_of_fd((int)args->a[0], &f);
	if (IS_ERR(q))
		return PTR_ERR(q);
	old.flags = file_nonblock(f) ? O_NONBLOCK : 0;
	old.maxmsg = q->max_msg;
	old.msgsize = q->msg_size;
	old.curmsgs = READ_ONCE(q->nr);
	if (args->a[1])
		file_change_flags(f, O_NONBLOCK, (uint32_t)new.flags);
	file_put(f);
	if (args->a[2] && copy_to_user((void __user *)args->a[2], &old, sizeof(old)))
		return -EFAULT;
	return 0;
}
