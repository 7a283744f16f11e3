/* SPDX-License-Identifier: MIT */
/*
 * Leases of files: F_SETLEASE and its end.
 *
 * Flow:	an inode counts the open files that may write and those that only read. A lease is
 *		granted by these counts. An opening thread counts first, then looks for leases:
 *		one that does not allow the open is being broken from then on, its holder is
 *		signalled, and the opening thread waits until the holder gives it up (or, for a
 *		reader, turns it into a read lease), or until the break time is over. A time that is
 *		over is noticed by the next look, as on Linux.
 * Ordering:	an open counts, then looks at inode.leases; a grant sets inode.leases, then looks
 *		at the counts. Both are sequentially consistent, so one of the two sees the other.
 * Locking:	lease_lock (RANK_MONITOR) guards all leases; no thread holds it while it waits.
 * Limits:	a file of a storage node may be open on other processors too, which no count here
 *		knows: EINVAL, as on NFS, unless the cluster was made with one processor. A mapping
 *		that outlives its descriptor keeps F_WRLCK away, not F_RDLCK.
 */
#include "filelease.h"

#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <managers/placement.h>
#include <processor/account/account.h>
#include <processor/excache/object.h>
#include <processor/process/process.h>
#include <processor/vfs/file.h>
#include <processor/vfs/inode.h>

#include "async.h"

#define BREAK_S 45 /* as Linux */
#define SECOND  1000000000ull

struct inode_leases {
	struct list_head list; /* struct file_lease */
	unsigned int users;    /* those on the list, and waiting threads */
	uint64_t changes;      /* grows when a lease ends or becomes less; read without the lock */
	struct waitqueue wq;
};

struct file_lease {
	struct list_head link;
	struct file *file; /* not counted: the file drops its lease when it goes */
	int fd;
	uint32_t type;              /* F_RDLCK, F_WRLCK */
	bool ends, shrinks;         /* is being broken: to nothing, to F_RDLCK */
	uint64_t end_ns, shrink_ns; /* when that happens by itself; 0: never */
};

uint32_t filelease_break_s = BREAK_S;
static struct mutex lease_lock = MUTEX_INIT(lease_lock, "filelease", RANK_MONITOR);

/* --- counts -------------------------------------------------------------------------- */

static uint32_t *count_of(struct inode *inode, bool write)
{
	return write ? &inode->nr_writers : &inode->nr_readers;
}

static uint32_t nr_of(struct inode *inode, bool write)
{
	return __atomic_load_n(count_of(inode, write), __ATOMIC_SEQ_CST);
}

/* Do other open files of @f's inode forbid a lease of @type? */
static bool open_otherwise(const struct file *f, uint32_t type)
{
	const uint32_t writes = f->counted && file_writable(f);
	const uint32_t reads = f->counted && !writes;
	const uint32_t nr_writers = nr_of(f->inode, true), nr_readers = nr_of(f->inode, false);

	if (type == F_RDLCK)
		return nr_writers;
	if (nr_writers != writes || nr_readers != reads)
		return true;
	/* References of the object that are neither its file's here nor its inode's: mappings. */
	return refcount_read(&f->object->refs) > (f->attr.file.node ? 1 : 2);
}

/* --- leases -------------------------------------------------------------------------- */

static void put_leases(struct inode *inode, struct inode_leases *ls)
{
	assert_mutex_held(&lease_lock);
	ASSERT(ls->users && inode->leases == ls);
	if (--ls->users)
		return;
	__atomic_store_n(&inode->leases, NULL, __ATOMIC_SEQ_CST);
	kmem_free(ls);
}

static struct inode_leases *get_leases(struct inode *inode)
{
	struct inode_leases *ls = inode->leases;

	assert_mutex_held(&lease_lock);
	if (!ls) {
		ls = kmem_alloc(kmem_current(), sizeof(*ls));
		if (!ls)
			return NULL;
		list_init(&ls->list);
		waitqueue_init(&ls->wq);
		__atomic_store_n(&inode->leases, ls, __ATOMIC_SEQ_CST);
	}
	ls->users++;
	return ls;
}

static void changed(struct inode_leases *ls)
{
	assert_mutex_held(&lease_lock);
	WRITE_ONCE(ls->changes, ls->changes + 1);
	wake_all(&ls->wq);
}

/* With the owner and signal of its file, as Linux. */
static void lease_end(struct file_lease *l)
{
	struct inode *inode = l->file->inode;
	struct inode_leases *ls = inode->leases;
	const struct file_owner none = { 0 };

	assert_mutex_held(&lease_lock);
	async_set_owner(l->file, &none);
	async_set_signal(l->file, 0);
	l->file->lease = NULL;
	list_del(&l->link);
	kmem_free(l);
	changed(ls);
	put_leases(inode, ls);
}

static void lease_become(struct file_lease *l, uint32_t type)
{
	assert_mutex_held(&lease_lock);
	ASSERT(type == F_RDLCK || type == F_WRLCK);
	l->type = type;
	if (type == F_RDLCK) {
		l->shrinks = false;
		l->shrink_ns = 0;
	}
	changed(l->file->inode->leases);
}

/* Those whose time is over. @ls stays the caller's. */
static void expire(struct inode_leases *ls)
{
	const uint64_t now = time_now_ns();
	struct file_lease *l, *next;

	assert_mutex_held(&lease_lock);
	list_for_each_entry_safe(l, next, &ls->list, link) {
		if (l->end_ns && l->end_ns <= now)
			lease_end(l);
		else if (l->shrink_ns && l->shrink_ns <= now)
			lease_become(l, F_RDLCK);
	}
}

/* Of the inode of @f, referenced if there are any. */
static struct inode_leases *leases_now(struct inode *inode)
{
	struct inode_leases *ls = inode->leases;

	assert_mutex_held(&lease_lock);
	if (!ls)
		return NULL;
	ls->users++;
	expire(ls);
	return ls;
}

/* --- F_SETLEASE, F_GETLEASE ---------------------------------------------------------- */

int filelease_get(struct file *f)
{
	int type = F_UNLCK;

	if (!f->inode)
		return type;
	mutex_lock(&lease_lock);
	if (f->lease) {
		struct inode_leases *ls = leases_now(f->inode);

		if (f->lease && !f->lease->ends)
			type = f->lease->shrinks ? F_RDLCK : (int)f->lease->type;
		put_leases(f->inode, ls);
	}
	mutex_unlock(&lease_lock);
	return type;
}

static int may_lease(const struct file *f)
{
	struct file_attr attr;
	int err;

	if (!f->inode || f->inode->mode != S_IFREG || !f->object)
		return -EINVAL;
	if (f->attr.file.node && !gpm_one_processor())
		return -EINVAL;
	err = inode_getattr(f->inode, &attr);
	if (!err && attr.uid != cred_current()->fsuid && !capable(CAP_LEASE))
		err = -EACCES;
	return err;
}

/* May @f, of an inode with @ls, get or change a lease beside those of others? */
static bool others_allow(const struct inode_leases *ls, const struct file *f, uint32_t type)
{
	const struct file_lease *l;

	assert_mutex_held(&lease_lock);
	list_for_each_entry(l, &ls->list, link) {
		if (l->file != f && (type == F_WRLCK || l->ends))
			return false;
	}
	return true;
}

static int grant(struct inode_leases *ls, struct file *f, int fd, uint32_t type)
{
	struct file_lease *l = f->lease;

	assert_mutex_held(&lease_lock);
	if (open_otherwise(f, type) || !others_allow(ls, f, type))
		return -EAGAIN;
	if (l) {
		l->fd = fd;
		lease_become(l, type);
	} else {
		l = kmem_alloc(kmem_current(), sizeof(*l));
		if (!l)
			return -ENOMEM;
		l->file = f;
		l->fd = fd;
		l->type = type;
		list_add_tail(&l->link, &ls->list);
		ls->users++;
		f->lease = l;
	}
	async_own(f);
	return 0;
}

int filelease_set(struct file *f, int fd, uint32_t type)
{
	struct inode_leases *ls;
	int err;

	if (type > F_UNLCK)
		return -EINVAL;
	err = may_lease(f);
	if (err)
		return err;
	mutex_lock(&lease_lock);
	ls = get_leases(f->inode);
	if (!ls) {
		mutex_unlock(&lease_lock);
		return -ENOMEM;
	}
	expire(ls);
	if (type != F_UNLCK)
		err = grant(ls, f, fd, type);
	else if (f->lease)
		lease_end(f->lease);
	else
		err = -EAGAIN;
	put_leases(f->inode, ls);
	mutex_unlock(&lease_lock);
	return err;
}

void filelease_file_gone(struct file *f)
{
	mutex_lock(&lease_lock);
	if (f->lease)
		lease_end(f->lease);
	mutex_unlock(&lease_lock);
}

/* --- breaking ------------------------------------------------------------------------ */

static bool allows(const struct file_lease *l, bool write)
{
	return l->type == F_RDLCK && !write;
}

static void tell(const struct file_lease *l)
{
	const struct file_owner owner = async_owner(l->file);

	async_tell(&owner, async_signal(l->file), l->fd, POLL_MSG);
}

static void lease_break(struct file_lease *l, bool write)
{
	const uint32_t s = READ_ONCE(filelease_break_s);
	const uint64_t deadline = s ? time_now_ns() + s * SECOND : 0;

	assert_mutex_held(&lease_lock);
	if (l->ends || (!write && l->shrinks))
		return;
	if (write) {
		l->ends = true;
		l->end_ns = deadline;
	} else {
		l->shrinks = true;
		l->shrink_ns = deadline;
	}
	tell(l);
}

/* Is a lease in the way? *@deadline: when the first of them ends by itself. */
static bool in_the_way(const struct inode_leases *ls, bool write, uint64_t *deadline)
{
	const struct file_lease *l;
	bool found = false;

	assert_mutex_held(&lease_lock);
	*deadline = WAIT_FOREVER;
	list_for_each_entry(l, &ls->list, link) {
		if (allows(l, write))
			continue;
		found = true;
		if (l->end_ns)
			*deadline = MIN(*deadline, l->end_ns);
		if (l->shrink_ns)
			*deadline = MIN(*deadline, l->shrink_ns);
	}
	return found;
}

static int wait_until_broken(struct inode_leases *ls, bool write)
{
	uint64_t deadline, seen;
	int err = 0;

	assert_mutex_held(&lease_lock);
	while (in_the_way(ls, write, &deadline)) {
		if (err == -EINTR)
			return -ERESTARTSYS;
		seen = ls->changes;
		mutex_unlock(&lease_lock);
		err = wait_event_interruptible_timeout(&ls->wq, READ_ONCE(ls->changes) != seen,
						       deadline);
		mutex_lock(&lease_lock);
		expire(ls);
	}
	return 0;
}

static int break_leases(struct inode *inode, bool write, bool nonblock)
{
	struct inode_leases *ls;
	struct file_lease *l;
	uint64_t deadline;
	int err = 0;

	mutex_lock(&lease_lock);
	ls = leases_now(inode);
	if (ls) {
		list_for_each_entry(l, &ls->list, link) {
			if (!allows(l, write))
				lease_break(l, write);
		}
		if (!nonblock)
			err = wait_until_broken(ls, write);
		else if (in_the_way(ls, write, &deadline))
			err = -EWOULDBLOCK;
		put_leases(inode, ls);
	}
	mutex_unlock(&lease_lock);
	return err;
}

int filelease_open_begin(struct inode *inode, bool write, bool nonblock)
{
	int err;

	__atomic_add_fetch(count_of(inode, write), 1, __ATOMIC_SEQ_CST);
	if (likely(!__atomic_load_n(&inode->leases, __ATOMIC_SEQ_CST)))
		return 0;
	err = break_leases(inode, write, nonblock);
	if (err)
		filelease_open_end(inode, write);
	return err;
}

void filelease_open_end(struct inode *inode, bool write)
{
	const uint32_t left = __atomic_sub_fetch(count_of(inode, write), 1, __ATOMIC_RELEASE);

	ASSERT(left != UINT32_MAX);
}
