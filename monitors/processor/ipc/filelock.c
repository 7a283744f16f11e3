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
 *		Files of storage nodes, whose locks hold between processors, are in the table too;
 *		see filelock_remote.c for them.
 * Locking:	filelock_mutex guards everything; no thread holds it while it waits.
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

#include "filelock_private.h"

#define FIRST_BUCKETS 256u
#define DEADLOCK_LOOK 64u
#define NODE_SHARE    32u /* of the node's memory may be locks */

struct mutex filelock_mutex = MUTEX_INIT(filelock_mutex, "filelock", RANK_MONITOR);
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

static const struct lock_mem lock_mem;

static struct lock_key key_of(const struct file *f)
{
	if (f->attr.file.node)
		return (struct lock_key){ (uint64_t)f->attr.file.node << 32 | 2, f->attr.file.ino,
					  (uint64_t)f->attr.file.gen };
	if (f->inode)
		return (struct lock_key){ 1, (uint64_t)(uintptr_t)f->inode, 0 };
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

	assert_mutex_held(&filelock_mutex);
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

	mutex_lock(&filelock_mutex);
	for (size_t i = 0; i < nr_buckets; i++) {
		struct lock_file *lf;
		size_t nr = 0;

		hlist_for_each_entry(lf, &buckets[i], link)
			nr++;
		longest = MAX(longest, nr);
	}
	mutex_unlock(&filelock_mutex);
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

/* Of @f, whose key this is. NULL: no memory. */
static struct lock_file *get_file(const struct file *f, const struct lock_key *key)
{
	struct lock_file *lf = find_file(key);

	if (!lf) {
		lf = kmem_alloc(kmem_current(), sizeof(*lf));
		if (!lf)
			return NULL;
		lf->key = *key;
		lock_tree_init(&lf->tree, &lock_mem);
		list_init(&lf->waiters);
		lf->id = f->attr.file;
		waitqueue_init(&lf->idle);
		list_init(&lf->doubts);
		list_init(&lf->doubtful_link);
		if (!hash_key.k0)
			random_bytes(&hash_key, sizeof(hash_key)); /* the table is empty */
		if (++nr_files > nr_buckets)
			rehash(2 * nr_buckets);
		hlist_add_head(&lf->link, bucket_of(key));
	}
	lf->users++;
	return lf;
}

void filelock_put_file(struct lock_file *lf)
{
	assert_mutex_held(&filelock_mutex);
	ASSERT(lf->users > 0);
	if (--lf->users || !lock_tree_empty(&lf->tree))
		return;
	ASSERT(list_empty(&lf->doubts));
	hlist_del(&lf->link);
	kmem_free(lf);
	if (--nr_files == 0 && nr_buckets != FIRST_BUCKETS)
		rehash(FIRST_BUCKETS);
}

/* --- conflicts ----------------------------------------------------------------------- */

static void wake_waiters(struct lock_file *lf)
{
	struct lock_waiter *w;

	assert_mutex_held(&filelock_mutex);
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

bool filelock_would_deadlock(const struct lock_file *lf, const struct lock_req *req)
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

/* There are other locks than when @lf had @before POSIX locks. */
static void count_posix(const struct lock_file *lf, uint64_t before)
{
	__atomic_add_fetch(&nr_posix, lf->tree.nr_posix - before, __ATOMIC_SEQ_CST);
}

static struct file_lock *lock_create(const struct lock_req *req)
{
	const uint64_t max =
		frames_total_count() * PAGE_SIZE / NODE_SHARE / sizeof(struct file_lock);
	struct file_lock *l = kmem_alloc(kmem_current(), sizeof(*l));

	assert_mutex_held(&filelock_mutex);
	if (l && !kmem_take(kmem_account_of(l), KMEM_FILE_LOCKS, 1, max)) {
		kmem_free(l);
		return NULL;
	}
	return l;
}

static void lock_free(struct file_lock *l)
{
	kmem_give(kmem_account_of(l), KMEM_FILE_LOCKS, 1);
	kmem_free(l);
}

static struct lock_owner *owner_create(const struct lock_req *req)
{
	struct owner_record *rec = kmem_alloc(kmem_current(), sizeof(*rec));

	(void)req;
	return rec ? &rec->o : NULL;
}

static void owner_free(struct lock_owner *o, const void *who)
{
	struct owner_record *rec = container_of(o, struct owner_record, o);

	(void)who;
	if (!rec->keep)
		kmem_free(rec);
}

static const struct lock_mem lock_mem = {
	.lock_alloc = lock_create,
	.lock_free = lock_free,
	.owner_alloc = owner_create,
	.owner_free = owner_free,
};

/* Nothing is in the way. */
int filelock_apply(struct lock_file *lf, const struct lock_req *req)
{
	const uint64_t before = lf->tree.nr_posix;
	const int err = lock_set(&lf->tree, req);

	count_posix(lf, before);
	if (!err)
		wake_waiters(lf);
	return err;
}

bool filelock_drop_owner(struct lock_file *lf, enum lock_kind kind, const void *who)
{
	const uint64_t before = lf->tree.nr_posix;
	const bool dropped = lock_drop(&lf->tree, kind, who);

	count_posix(lf, before);
	return dropped;
}

bool filelock_give_up(struct lock_file *lf, const struct lock_req *req)
{
	switch (lock_give_up(&lf->tree, req)) {
	case LOCK_CONVERT_SAME:
		return true;
	case LOCK_CONVERT_GIVEN:
		wake_waiters(lf);
		return false;
	case LOCK_CONVERT_NONE:
		break;
	}
	return false;
}

void filelock_waiter_init(struct lock_waiter *w, struct lock_file *lf, const struct lock_req *req)
{
	*w = (struct lock_waiter){ .req = req, .file = lf };
	waitqueue_init(&w->wq);
	list_init(&w->link);
	list_init(&w->all_link);
	list_init(&w->todo);
}

int filelock_sleep(struct lock_waiter *w)
{
	int err;

	assert_mutex_held(&filelock_mutex);
	if (w->req->kind == LOCK_POSIX)
		list_add_tail(&w->all_link, &waiters);
	__atomic_add_fetch(&nr_waiting, 1, __ATOMIC_RELAXED);
	mutex_unlock(&filelock_mutex);
	err = wait_event_interruptible(&w->wq, __atomic_load_n(&w->retry, __ATOMIC_ACQUIRE));
	mutex_lock(&filelock_mutex);
	list_del(&w->all_link);
	list_init(&w->all_link);
	__atomic_sub_fetch(&nr_waiting, 1, __ATOMIC_RELAXED);
	return err;
}

/* 0: try again. */
static int wait_for(struct lock_file *lf, const struct lock_req *req) __must_hold(&filelock_mutex)
{
	struct lock_waiter w;
	int err;

	filelock_waiter_init(&w, lf, req);
	list_add_tail(&w.link, &lf->waiters);
	err = filelock_sleep(&w);
	list_del(&w.link);
	return err;
}

/* Of a file of this processor. */
static int set_here(struct lock_file *lf, const struct lock_req *req, bool wait)
	__must_hold(&filelock_mutex)
{
	int err = 0;

	if (req->kind == LOCK_FLOCK && filelock_give_up(lf, req))
		return 0;
	while (!err && req->type != LOCK_NONE && lock_tree_conflicts(&lf->tree, req)) {
		if (!wait)
			err = -EAGAIN;
		else if (req->kind == LOCK_POSIX && filelock_would_deadlock(lf, req))
			err = -EDEADLK;
		else
			err = wait_for(lf, req);
	}
	return err ? err : filelock_apply(lf, req);
}

int filelock_set(struct file *f, const struct lock_req *req, bool wait)
{
	const struct lock_key key = key_of(f);
	struct lock_file *lf;
	int err = -ENOLCK;

	mutex_lock(&filelock_mutex);
	lf = get_file(f, &key);
	if (lf) {
		if (req->kind != LOCK_POSIX)
			f->has_locks = true;
		err = lf->id.node ? filelock_remote_set(lf, req, wait) : set_here(lf, req, wait);
		filelock_put_file(lf);
	}
	mutex_unlock(&filelock_mutex);
	return err;
}

int filelock_test(const struct file *f, const struct lock_req *req, struct lock_req *found)
{
	const struct lock_key key = key_of(f);
	const struct file_lock *l = NULL;
	struct lock_file *lf;
	int ret = 0;

	mutex_lock(&filelock_mutex);
	if (f->attr.file.node) {
		lf = get_file(f, &key);
		ret = lf ? filelock_remote_test(lf, req, found) : -ENOLCK;
		if (lf)
			filelock_put_file(lf);
	} else {
		lf = find_file(&key);
		if (lf)
			l = lock_tree_first(&lf->tree, req);
		if (l)
			*found = lock_as_req(l);
		ret = l != NULL;
	}
	mutex_unlock(&filelock_mutex);
	return ret;
}

static void drop_here(struct lock_file *lf, const void *owner) __must_hold(&filelock_mutex)
{
	bool dropped = false;

	for (enum lock_kind kind = LOCK_POSIX; kind <= LOCK_FLOCK; kind++)
		dropped |= filelock_drop_owner(lf, kind, owner);
	if (dropped)
		wake_waiters(lf);
}

void filelock_drop(const struct file *f, const void *owner)
{
	const struct lock_key key = key_of(f);
	struct lock_file *lf;

	mutex_lock(&filelock_mutex);
	lf = find_file(&key);
	if (lf) {
		lf->users++;
		if (lf->id.node)
			filelock_remote_drop(lf, owner);
		else
			drop_here(lf, owner);
		filelock_put_file(lf);
	}
	mutex_unlock(&filelock_mutex);
}

struct lock_file *filelock_next_of(uint32_t node, uint32_t incarn, struct lock_walk *at)
{
	assert_mutex_held(&filelock_mutex);
	/* The table may have been made anew since. */
	if (at->nr_buckets != nr_buckets)
		*at = (struct lock_walk){ .nr_buckets = nr_buckets };
	for (; at->bucket < nr_buckets; at->bucket++) {
		struct lock_file *lf;

		hlist_for_each_entry(lf, &buckets[at->bucket], link) {
			if (lf->id.node != node || lf->declared == incarn ||
			    (lock_tree_empty(&lf->tree) && !lf->busy))
				continue; /* a busy one may be about to enter its first */
			lf->declared = incarn;
			lf->users++;
			return lf;
		}
	}
	return NULL;
}
