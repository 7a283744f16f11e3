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
 *		find a deadlock; each step asks the threads that wait, not the locks. OFD locks and
 *		flock have no owner that could wait, as on Linux.
 *		The table of files has as many buckets as files, and its hash has a random key, as
 *		programs choose what they lock.
 * Locking:	lock (RANK_MONITOR) guards everything; no thread holds it while it waits.
 * Limits:	processors do not know each other's locks.
 */
#include "filelock.h"

#include <kernel/counter.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/random.h>
#include <kernel/wait.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <lib/siphash.h>
#include <mm/frame.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/vfs/file.h>

#include "lock_tree.h"

#define FIRST_BUCKETS 256u
#define DEADLOCK_LOOK 64u
#define NODE_SHARE    32u /* of the node's memory may be locks */

struct lock_key {
	uint64_t a, b, c;
};

struct lock_file {
	struct hlist_node link;
	struct lock_key key;
	struct lock_tree tree;
	struct list_head waiters; /* struct lock_waiter */
	uint32_t users;           /* calls that use it */
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
static struct hlist_head first_buckets[FIRST_BUCKETS];
static struct hlist_head *buckets = first_buckets; /* lock */
static size_t nr_buckets = FIRST_BUCKETS;          /* lock; a power of two */
static size_t nr_files;                            /* lock */
static struct siphash_key hash_key;                /* lock; random once nr_files was not 0 */
static LIST_HEAD(waiters);                         /* lock: of POSIX locks */
static uint64_t look_number;                       /* lock */
static uint64_t nr_posix;                          /* atomic; changes under lock */
static uint64_t nr_waiting;                        /* atomic; changes under lock */

uint64_t filelock_count(void)
{
	return kmem_count(KMEM_FILE_LOCKS);
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
	const uint64_t words[] = { key->a, key->b, key->c };

	return &buckets[siphash24(&hash_key, words, sizeof(words)) & (nr_buckets - 1)];
}

/* Of @nr buckets; without memory the table stays as it is, which is slower and not wrong. */
static void rehash(size_t nr)
{
	struct hlist_head *fresh =
		nr == FIRST_BUCKETS ? first_buckets : kcalloc(nr, sizeof(*fresh));
	struct hlist_head *old = buckets;
	const size_t nr_old = nr_buckets;

	assert_mutex_held(&lock);
	if (!fresh)
		return;
	buckets = fresh;
	nr_buckets = nr;
	for (size_t i = 0; i < nr_old; i++) {
		struct lock_file *lf;
		struct hlist_node *tmp;

		hlist_for_each_entry_safe(lf, tmp, &old[i], link) {
			hlist_del(&lf->link);
			hlist_add_head(&lf->link, bucket_of(&lf->key));
		}
	}
	if (old != first_buckets)
		kfree(old);
}

size_t filelock_longest_chain(void)
{
	size_t longest = 0;

	mutex_lock(&lock);
	for (size_t i = 0; i < nr_buckets; i++) {
		struct lock_file *lf;
		size_t nr = 0;

		hlist_for_each_entry(lf, &buckets[i], link)
			nr++;
		longest = MAX(longest, nr);
	}
	mutex_unlock(&lock);
	return longest;
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
		lf = kmem_alloc(kmem_current(), sizeof(*lf));
		if (!lf)
			return NULL;
		lf->key = *key;
		list_init(&lf->waiters);
		if (!hash_key.k0)
			random_bytes(&hash_key, sizeof(hash_key)); /* the table is empty */
		if (++nr_files > nr_buckets)
			rehash(2 * nr_buckets);
		hlist_add_head(&lf->link, bucket_of(key));
	}
	lf->users++;
	return lf;
}

static void put_file(struct lock_file *lf)
{
	assert_mutex_held(&lock);
	ASSERT(lf->users > 0);
	if (--lf->users || !lock_tree_empty(&lf->tree))
		return;
	hlist_del(&lf->link);
	kmem_free(lf);
	if (--nr_files == 0 && nr_buckets != FIRST_BUCKETS)
		rehash(FIRST_BUCKETS);
}

/* --- conflicts ----------------------------------------------------------------------- */

static void wake_waiters(struct lock_file *lf)
{
	struct lock_waiter *w;

	assert_mutex_held(&lock);
	list_for_each_entry(w, &lf->waiters, link) {
		if (w->retry || lock_tree_conflicts(&lf->tree, w->req))
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
	struct lock_waiter *w;

	if (lock_tree_holds(&lf->tree, owner, req))
		return true;
	list_for_each_entry(w, &waiters, all_link) {
		if (!*left)
			break;
		if (w->mark == look_number || !lock_tree_holds(&lf->tree, w->req->owner, req))
			continue;
		w->mark = look_number;
		list_add_tail(&w->todo, todo);
		(*left)--;
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
	struct file_lock *l = kmem_alloc(kmem_current(), sizeof(*l));

	assert_mutex_held(&lock);
	if (l && !kmem_take(kmem_account_of(l), KMEM_FILE_LOCKS, 1, max)) {
		kmem_free(l);
		return NULL;
	}
	return l;
}

static void lock_free(struct file_lock *l)
{
	if (l)
		kmem_give(kmem_account_of(l), KMEM_FILE_LOCKS, 1);
	kmem_free(l);
}

static void free_empty(struct lock_file *lf, struct lock_owner *o)
{
	(void)lock_owner_free_empty(&lf->tree, o);
}

static void lock_add(struct lock_file *lf, struct lock_owner *o, struct file_lock *l)
{
	lock_insert(&lf->tree, o, l);
	if (o->kind == LOCK_POSIX)
		__atomic_add_fetch(&nr_posix, 1, __ATOMIC_SEQ_CST);
}

static void lock_remove(struct lock_file *lf, struct file_lock *l)
{
	lock_erase(&lf->tree, l);
	if (l->owner->kind == LOCK_POSIX)
		__atomic_sub_fetch(&nr_posix, 1, __ATOMIC_SEQ_CST);
	lock_free(l);
}

/*
 * Cut @req's range out of @l, which overlaps it; what is left behind the range goes into *@rest,
 * which is used then.
 */
static void cut(struct lock_file *lf, struct file_lock *l, const struct lock_req *req,
		struct file_lock **rest)
{
	const int64_t end = l->end;

	if (end > req->end && l->start < req->start) {
		(*rest)->type = l->type;
		(*rest)->pid = l->pid;
		(*rest)->start = req->end + 1;
		(*rest)->end = end;
		lock_move(&lf->tree, l, l->start, req->start - 1);
		lock_add(lf, l->owner, *rest);
		*rest = NULL;
	} else if (l->start < req->start) {
		lock_move(&lf->tree, l, l->start, req->start - 1);
	} else if (end > req->end) {
		lock_move(&lf->tree, l, req->end + 1, end);
	} else {
		lock_remove(lf, l);
	}
}

/*
 * Take what @o has in @req's range away. Locks of @req's type that overlap the range or touch it
 * go whole, and [*@start, *@end] grows by them.
 */
static void clear(struct lock_file *lf, struct lock_owner *o, const struct lock_req *req,
		  struct file_lock **rest, int64_t *start, int64_t *end)
{
	const int64_t last = req->end == INT64_MAX ? INT64_MAX : req->end + 1;
	struct file_lock *l, *next;

	for (l = lock_owner_from(o, req->start ? req->start - 1 : 0); l && l->start <= last;
	     l = next) {
		next = lock_owner_next(l);
		if (l->type == req->type) {
			*start = MIN(*start, l->start);
			*end = MAX(*end, l->end);
			lock_remove(lf, l);
		} else if (l->start <= req->end && req->start <= l->end) {
			cut(lf, l, req, rest);
		}
	}
}

/* Nothing is in the way. All or nothing. */
static int apply(struct lock_file *lf, const struct lock_req *req)
{
	struct lock_owner *o = lock_owner_find(&lf->tree, req->kind, req->owner), *fresh = NULL;
	struct file_lock *new = NULL, *rest = NULL;
	int64_t start = req->start, end = req->end;

	if (!o && req->type == LOCK_NONE)
		return 0;
	if (!o)
		fresh = kmem_alloc(kmem_current(), sizeof(*fresh));
	else
		rest = lock_create();
	if (req->type != LOCK_NONE)
		new = lock_create();
	/* Unlocking all that there is needs no memory: it always succeeds. */
	if ((req->type != LOCK_NONE && !new) || (!o && !fresh) ||
	    (o && !rest && req->end != INT64_MAX)) {
		kmem_free(fresh);
		lock_free(new);
		lock_free(rest);
		return -ENOLCK;
	}
	if (fresh) {
		fresh->kind = req->kind;
		fresh->who = req->owner;
		lock_owner_add(&lf->tree, fresh);
		o = fresh;
	}
	clear(lf, o, req, &rest, &start, &end);
	if (new) {
		new->type = (uint8_t)req->type;
		new->pid = req->pid;
		new->start = start;
		new->end = end;
		lock_add(lf, o, new);
	}
	free_empty(lf, o);
	lock_free(rest);
	wake_waiters(lf);
	return 0;
}

/* All that @who has with @kind. True: there was something. */
static bool drop_owner(struct lock_file *lf, enum lock_kind kind, const void *who)
{
	struct lock_owner *o = lock_owner_find(&lf->tree, kind, who);
	struct file_lock *l;

	if (!o)
		return false;
	while ((l = lock_owner_from(o, 0)))
		lock_remove(lf, l);
	free_empty(lf, o);
	return true;
}

/*
 * flock changes its kind of lock in two steps: what it had is given up first, whatever comes then.
 * True: it has it.
 */
static bool give_up(struct lock_file *lf, const struct lock_req *req)
{
	const struct lock_owner *o = lock_owner_find(&lf->tree, LOCK_FLOCK, req->owner);

	if (!o)
		return false;
	if (lock_owner_from(o, 0)->type == req->type)
		return true;
	drop_owner(lf, LOCK_FLOCK, req->owner);
	wake_waiters(lf);
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
	while (!err && req->type != LOCK_NONE && lock_tree_conflicts(&lf->tree, req)) {
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
		l = lock_tree_first(&lf->tree, req);
	if (l)
		*found = lock_as_req(l);
	mutex_unlock(&lock);
	return l;
}

void filelock_drop(const struct file *f, const void *owner)
{
	const struct lock_key key = key_of(f);
	struct lock_file *lf;
	bool dropped = false;

	mutex_lock(&lock);
	lf = find_file(&key);
	if (lf) {
		lf->users++;
		for (enum lock_kind kind = LOCK_POSIX; kind <= LOCK_FLOCK; kind++)
			dropped |= drop_owner(lf, kind, owner);
		if (dropped)
			wake_waiters(lf);
		put_file(lf);
	}
	mutex_unlock(&lock);
}
