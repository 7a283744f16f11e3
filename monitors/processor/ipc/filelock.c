/* SPDX-License-Identifier: MIT */
/*
 * The table of advisory locks.
 *
 * A file is known by its inode, or by the name that the storage node has for it; any other open
 * file by the object it stands for. An entry exists while a file has locks or waiting threads.
 *
 * Flow:	when a lock goes or shrinks, the threads that wait for the file and have no conflict
 *		any more are woken. Before a thread waits for a POSIX lock, the table follows owners
 *		from the holder to the lock that the holder waits for, through up to 64 waits, to
 *		find a deadlock. OFD locks and flock have no owner that could wait, as on Linux.
 * Locking:	lock (RANK_MONITOR) guards everything; no thread holds it while it waits.
 * Limits:	processors do not know each other's locks.
 */
#include "filelock.h"

#include <kernel/counter.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/wait.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/list.h>
#include <mm/frame.h>
#include <mm/slab.h>
#include <processor/vfs/file.h>

#define BUCKETS       256u
#define DEADLOCK_LOOK 64u
#define NODE_SHARE    64u /* of the node's memory may be locks */

struct lock_key {
	uint64_t a, b, c;
};

struct lock_file {
	struct hlist_node link;
	struct lock_key key;
	struct list_head locks;   /* struct file_lock */
	struct list_head waiters; /* struct lock_waiter */
	uint32_t users;           /* calls that use it */
};

struct file_lock {
	struct list_head link;
	struct lock_req what;
};

struct lock_waiter {               /* on the waiting thread's stack */
	struct list_head link;     /* lock_file.waiters */
	struct list_head all_link; /* waiters, if it can be part of a deadlock */
	struct list_head todo;     /* a look for deadlocks */
	const struct lock_req *req;
	struct lock_file *file;
	struct waitqueue wq;
	bool retry; /* atomic */
	uint64_t mark;
};

static struct mutex lock = MUTEX_INIT(lock, "filelock", RANK_MONITOR);
static struct hlist_head buckets[BUCKETS]; /* lock */
static LIST_HEAD(waiters);                 /* lock: of POSIX locks */
static uint64_t look_number;               /* lock */
static uint64_t nr_locks, nr_posix;        /* atomic; change under lock */
static uint64_t nr_waiting;                /* atomic; changes under lock */

uint64_t filelock_count(void)
{
	return __atomic_load_n(&nr_locks, __ATOMIC_RELAXED);
}
GAUGE(filelock_gauge, "file.locks", "advisory locks", filelock_count);

uint64_t filelock_waiting(void)
{
	return __atomic_load_n(&nr_waiting, __ATOMIC_RELAXED);
}

bool filelock_any_posix(void)
{
	return __atomic_load_n(&nr_posix, __ATOMIC_SEQ_CST) != 0;
}

/* --- entries ------------------------------------------------------------------------- */

static struct lock_key key_of(const struct file *f)
{
	if (f->inode)
		return (struct lock_key){ 1, (uint64_t)(uintptr_t)f->inode, 0 };
	if (f->attr.file.node)
		return (struct lock_key){ (uint64_t)f->attr.file.node << 32 | 2, f->attr.file.ino,
					  (uint64_t)f->attr.file.gen };
	return (struct lock_key){ 3, (uint64_t)(uintptr_t)f->ops, (uint64_t)(uintptr_t)f->private };
}

static struct hlist_head *bucket_of(const struct lock_key *key)
{
	return &buckets[hash64_pair(hash64_pair(key->a, key->b), key->c) % BUCKETS];
}

static struct lock_file *find_file(const struct lock_key *key)
{
	struct lock_file *lf;

	hlist_for_each_entry(lf, bucket_of(key), link) {
		if (lf->key.a == key->a && lf->key.b == key->b && lf->key.c == key->c)
			return lf;
	}
	return NULL;
}

static struct lock_file *get_file(const struct lock_key *key)
{
	struct lock_file *lf = find_file(key);

	if (!lf) {
		lf = kzalloc(sizeof(*lf));
		if (!lf)
			return NULL;
		lf->key = *key;
		list_init(&lf->locks);
		list_init(&lf->waiters);
		hlist_add_head(&lf->link, bucket_of(key));
	}
	lf->users++;
	return lf;
}

static void put_file(struct lock_file *lf)
{
	assert_mutex_held(&lock);
	ASSERT(lf->users > 0);
	if (--lf->users || !list_empty(&lf->locks))
		return;
	hlist_del(&lf->link);
	kfree(lf);
}

/* --- conflicts ----------------------------------------------------------------------- */

static bool same_world(const struct lock_req *a, const struct lock_req *b)
{
	return (a->kind == LOCK_FLOCK) == (b->kind == LOCK_FLOCK);
}

static bool overlap(const struct lock_req *a, const struct lock_req *b)
{
	return a->start <= b->end && b->start <= a->end;
}

static bool in_the_way(const struct lock_req *held, const struct lock_req *req)
{
	return held->owner != req->owner && same_world(held, req) && overlap(held, req) &&
	       (held->type == LOCK_WRITE || req->type == LOCK_WRITE);
}

static const struct file_lock *conflict(const struct lock_file *lf, const struct lock_req *req)
{
	const struct file_lock *l;

	assert_mutex_held(&lock);
	list_for_each_entry(l, &lf->locks, link) {
		if (in_the_way(&l->what, req))
			return l;
	}
	return NULL;
}

static void wake_waiters(struct lock_file *lf)
{
	struct lock_waiter *w;

	assert_mutex_held(&lock);
	list_for_each_entry(w, &lf->waiters, link) {
		if (w->retry || conflict(lf, w->req))
			continue;
		__atomic_store_n(&w->retry, true, __ATOMIC_RELEASE);
		wake_all(&w->wq);
	}
}

/*
 * The holder of a lock that @req wants may wait too: put those waits on @todo. True: @owner is
 * among the holders and would wait for itself.
 */
static bool look_behind(const struct lock_file *lf, const struct lock_req *req, const void *owner,
			struct list_head *todo, unsigned int *left)
{
	const struct file_lock *l;
	struct lock_waiter *w;

	list_for_each_entry(l, &lf->locks, link) {
		if (l->what.kind != LOCK_POSIX || !in_the_way(&l->what, req))
			continue;
		if (l->what.owner == owner)
			return true;
		list_for_each_entry(w, &waiters, all_link) {
			if (w->req->owner != l->what.owner || w->mark == look_number || !*left)
				continue;
			w->mark = look_number;
			list_add_tail(&w->todo, todo);
			(*left)--;
		}
	}
	return false;
}

static bool would_deadlock(const struct lock_file *lf, const struct lock_req *req)
{
	unsigned int left = DEADLOCK_LOOK;
	bool found;
	LIST_HEAD(todo);

	look_number++;
	found = look_behind(lf, req, req->owner, &todo, &left);
	while (!list_empty(&todo)) {
		struct lock_waiter *w = list_first_entry(&todo, struct lock_waiter, todo);

		list_del(&w->todo);
		if (!found)
			found = look_behind(w->file, w->req, req->owner, &todo, &left);
	}
	return found;
}

/* --- changing ------------------------------------------------------------------------ */

static struct file_lock *lock_create(void)
{
	const uint64_t max =
		frames_total_count() * PAGE_SIZE / NODE_SHARE / sizeof(struct file_lock);

	return filelock_count() < max ? kzalloc(sizeof(struct file_lock)) : NULL;
}

static void lock_add(struct lock_file *lf, struct file_lock *l)
{
	list_add_tail(&l->link, &lf->locks);
	__atomic_add_fetch(&nr_locks, 1, __ATOMIC_SEQ_CST);
	if (l->what.kind == LOCK_POSIX)
		__atomic_add_fetch(&nr_posix, 1, __ATOMIC_SEQ_CST);
}

static void lock_remove(struct file_lock *l)
{
	list_del(&l->link);
	__atomic_sub_fetch(&nr_locks, 1, __ATOMIC_SEQ_CST);
	if (l->what.kind == LOCK_POSIX)
		__atomic_sub_fetch(&nr_posix, 1, __ATOMIC_SEQ_CST);
	kfree(l);
}

static bool touch(const struct lock_req *a, const struct lock_req *b)
{
	return overlap(a, b) || (a->end != INT64_MAX && a->end + 1 == b->start) ||
	       (b->end != INT64_MAX && b->end + 1 == a->start);
}

/* Cut @req's range out of @l; what is left behind it goes into *@rest, which is used then. */
static void cut(struct lock_file *lf, struct file_lock *l, const struct lock_req *req,
		struct file_lock **rest)
{
	const int64_t end = l->what.end;

	if (end > req->end && l->what.start < req->start) {
		(*rest)->what = l->what;
		(*rest)->what.start = req->end + 1;
		l->what.end = req->start - 1;
		lock_add(lf, *rest);
		*rest = NULL;
	} else if (l->what.start < req->start) {
		l->what.end = req->start - 1;
	} else if (end > req->end) {
		l->what.start = req->end + 1;
	} else {
		lock_remove(l);
	}
}

/* Nothing is in the way. All or nothing. */
static int apply(struct lock_file *lf, const struct lock_req *req)
{
	struct file_lock *new = NULL, *rest = lock_create(), *l, *tmp;
	struct lock_req whole = *req;

	if (req->type != LOCK_NONE)
		new = lock_create();
	/* Unlocking all that there is needs no memory: it always succeeds. */
	if ((req->type != LOCK_NONE && !new) || (!rest && req->end != INT64_MAX)) {
		kfree(new);
		kfree(rest);
		return -ENOLCK;
	}
	list_for_each_entry_safe(l, tmp, &lf->locks, link) {
		if (l->what.owner != req->owner || l->what.kind != req->kind)
			continue;
		if (l->what.type == req->type && touch(&l->what, &whole)) {
			whole.start = MIN(whole.start, l->what.start);
			whole.end = MAX(whole.end, l->what.end);
			lock_remove(l);
		} else if (overlap(&l->what, req)) {
			cut(lf, l, req, &rest);
		}
	}
	if (new) {
		new->what = whole;
		lock_add(lf, new);
	}
	kfree(rest);
	wake_waiters(lf);
	return 0;
}

/*
 * flock changes its kind of lock in two steps: what it had is given up first, whatever comes then.
 * True: it has it.
 */
static bool give_up(struct lock_file *lf, const struct lock_req *req)
{
	struct file_lock *l, *tmp;

	list_for_each_entry_safe(l, tmp, &lf->locks, link) {
		if (l->what.owner != req->owner || l->what.kind != LOCK_FLOCK)
			continue;
		if (l->what.type == req->type)
			return true;
		lock_remove(l);
		wake_waiters(lf);
	}
	return false;
}

/* With the lock held, which is dropped meanwhile. 0: try again. */
static int wait_for(struct lock_file *lf, const struct lock_req *req) __must_hold(&lock)
{
	struct lock_waiter w = { .req = req, .file = lf };
	int err;

	assert_mutex_held(&lock);
	waitqueue_init(&w.wq);
	list_init(&w.all_link);
	list_init(&w.todo);
	list_add_tail(&w.link, &lf->waiters);
	if (req->kind == LOCK_POSIX)
		list_add_tail(&w.all_link, &waiters);
	__atomic_add_fetch(&nr_waiting, 1, __ATOMIC_RELAXED);
	mutex_unlock(&lock);
	err = wait_event_interruptible(&w.wq, __atomic_load_n(&w.retry, __ATOMIC_ACQUIRE));
	mutex_lock(&lock);
	list_del(&w.link);
	list_del(&w.all_link);
	__atomic_sub_fetch(&nr_waiting, 1, __ATOMIC_RELAXED);
	return err;
}

int filelock_set(struct file *f, const struct lock_req *req, bool wait)
{
	const struct lock_key key = key_of(f);
	struct lock_file *lf;
	int err = 0;

	mutex_lock(&lock);
	lf = get_file(&key);
	if (!lf) {
		mutex_unlock(&lock);
		return -ENOLCK;
	}
	if (req->kind != LOCK_POSIX)
		f->has_locks = true;
	if (req->kind == LOCK_FLOCK && give_up(lf, req))
		goto out;
	while (!err && req->type != LOCK_NONE && conflict(lf, req)) {
		if (!wait)
			err = -EAGAIN;
		else if (req->kind == LOCK_POSIX && would_deadlock(lf, req))
			err = -EDEADLK;
		else
			err = wait_for(lf, req);
	}
	if (!err)
		err = apply(lf, req);
out:
	put_file(lf);
	mutex_unlock(&lock);
	return err;
}

bool filelock_test(const struct file *f, const struct lock_req *req, struct lock_req *found)
{
	const struct lock_key key = key_of(f);
	const struct file_lock *l = NULL;
	const struct lock_file *lf;

	mutex_lock(&lock);
	lf = find_file(&key);
	if (lf)
		l = conflict(lf, req);
	if (l)
		*found = l->what;
	mutex_unlock(&lock);
	return l;
}

void filelock_drop(const struct file *f, const void *owner)
{
	const struct lock_key key = key_of(f);
	struct file_lock *l, *tmp;
	struct lock_file *lf;
	bool dropped = false;

	mutex_lock(&lock);
	lf = find_file(&key);
	if (lf) {
		lf->users++;
		list_for_each_entry_safe(l, tmp, &lf->locks, link) {
			if (l->what.owner != owner)
				continue;
			lock_remove(l);
			dropped = true;
		}
		if (dropped)
			wake_waiters(lf);
		put_file(lf);
	}
	mutex_unlock(&lock);
}
