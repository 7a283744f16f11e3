/* SPDX-License-Identifier: MIT */
/*
 * Advisory locks of files of storage nodes.
 *
 * The storage node decides, as other processors lock there too. Here is a copy of what this
 * processor's programs have: to tell a storage node that was started again, to see what a close
 * gives up, and to answer without a message what that copy knows.
 *
 * Flow:	one thread at a time asks about a file (begin(), end()), so that the copy and the
 *		storage node change in the same order. To lock: ask, then enter it. To unlock: take
 *		it out, then tell. A thread that has to wait sleeps until an event of the storage
 *		node, and asks again; one thread for each storage node waits for those events while
 *		there are such threads.
 *		When an answer is missing (the thread was killed, the node is away) the owner is in
 *		doubt: before the next request about that file, and by a worker, the storage node is
 *		told all that the copy has for that owner.
 * Invariants:	a file with doubts is in the list of doubtful ones, which counts as a use of it.
 * Locking:	filelock_mutex; no request is made with it.
 * Failure:	-EIO, the storage node was away for storage.wait_s; -ENOLCK, it has too many locks.
 */
#include <kernel/counter.h>
#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/client/file_locks.h>
#include <processor/process/process.h>

#include "filelock_private.h"

COUNTER(locks_lost, "file.locks_lost", "advisory locks that a storage node did not know any more");

#define AGAIN 1 /* of try_once(): wait, then try again */

#define SHORTAGE_NS (100 * NSEC_PER_MSEC) /* before what failed for want of memory is tried again */
#define AGAIN_NS    NSEC_PER_SEC          /* before doubts that stayed are told again */

struct lock_node { /* a storage node; they stay */
	struct list_head link;
	uint32_t node;
	uint64_t nr_waiting; /* atomic; changes under the mutex */
	struct waitqueue wq; /* nr_waiting is not 0 */
};

static LIST_HEAD(nodes);          /* filelock_mutex */
static LIST_HEAD(remote_waiters); /* filelock_mutex */
static LIST_HEAD(doubtful);       /* filelock_mutex: of lock_file */
static uint64_t last_token;       /* filelock_mutex */
static struct workqueue *doubt_queue;
static struct work doubt_work;

/* --- turns ----------------------------------------------------------------------------------- */

/* No other thread asks about @lf until end(). -EINTR, only if @killable. */
static int begin(struct lock_file *lf, bool killable) __must_hold(&filelock_mutex)
{
	int err = 0;

	assert_mutex_held(&filelock_mutex);
	while (!err && lf->busy) {
		mutex_unlock(&filelock_mutex);
		if (killable)
			err = wait_event_killable(&lf->idle, !READ_ONCE(lf->busy));
		else
			wait_event(&lf->idle, !READ_ONCE(lf->busy));
		mutex_lock(&filelock_mutex);
	}
	if (!err)
		WRITE_ONCE(lf->busy, true);
	return err;
}

static void end(struct lock_file *lf) __must_hold(&filelock_mutex)
{
	assert_mutex_held(&filelock_mutex);
	ASSERT(lf->busy);
	WRITE_ONCE(lf->busy, false);
	wake_all(&lf->idle);
}

/* --- doubts ---------------------------------------------------------------------------------- */

static void add_doubt(struct lock_file *lf, struct owner_record *rec) __must_hold(&filelock_mutex)
{
	assert_mutex_held(&filelock_mutex);
	list_add_tail(&rec->link, &lf->doubts);
	if (!list_empty(&lf->doubtful_link))
		return;
	list_add_tail(&lf->doubtful_link, &doubtful);
	lf->users++;
}

/* The lock that @rec has, or the gap, from @at on as far as it is the same. */
static struct lock_req piece_at(const struct lock_file *lf, const struct owner_record *rec,
				int64_t at)
{
	const struct lock_owner *o = lock_owner_find(&lf->tree, rec->o.kind, rec->o.who);
	const struct file_lock *l = o ? lock_owner_from(o, at) : NULL;

	if (l && l->start <= at)
		return lock_as_req(l);
	return (struct lock_req){ .kind = rec->o.kind,
				  .type = LOCK_NONE,
				  .owner = rec->o.who,
				  .start = at,
				  .end = l ? l->start - 1 : INT64_MAX };
}

/* The storage node has given the lock to another one. */
static void lose(struct lock_file *lf, const struct lock_req *req) __must_hold(&filelock_mutex)
{
	(void)filelock_drop_owner(lf, req->kind, req->owner);
	counter_inc(&locks_lost);
	pr_warn_ratelimited("a lock of process %u, of file %llu of storage node %u, is lost\n",
			    req->pid, (unsigned long long)lf->id.ino, lf->id.node);
}

/* With the turn: tell the storage node all that @rec has. */
static int tell_all(struct lock_file *lf, const struct owner_record *rec)
	__must_hold(&filelock_mutex)
{
	int64_t at = 0;

	for (;;) {
		const struct lock_req req = piece_at(lf, rec, at);
		const uint64_t token = ++last_token;
		int state;

		mutex_unlock(&filelock_mutex);
		state = storage_lock(&lf->id, &req, token, false);
		mutex_lock(&filelock_mutex);
		if (state < 0)
			return state;
		/* In its grace it knows what we have declared, and takes what is given up. */
		if (state != STORAGE_LOCK_FREE && req.type == LOCK_NONE)
			return -EPROTO;
		if (state != STORAGE_LOCK_FREE && state != STORAGE_LOCK_GRACE)
			lose(lf, &req);
		else if (req.end == INT64_MAX)
			return 0;
		else
			at = req.end + 1;
	}
}

/* With the turn. 0: the storage node knows what the copy says. */
static int end_doubts(struct lock_file *lf) __must_hold(&filelock_mutex)
{
	int err;

	ASSERT(lf->busy);
	while (!list_empty(&lf->doubts)) {
		struct owner_record *rec = list_first_entry(&lf->doubts, struct owner_record, link);

		err = tell_all(lf, rec);
		if (err)
			return err;
		list_del(&rec->link);
		kmem_free(rec);
	}
	if (!list_empty(&lf->doubtful_link)) {
		list_del(&lf->doubtful_link);
		list_init(&lf->doubtful_link);
		ASSERT(lf->users > 1); /* the caller's */
		lf->users--;
	}
	return 0;
}

/* Each doubtful file once; those that stay so are tried again. The queue has its own thread. */
static void doubts_main(struct work *w)
{
	bool again;
	size_t nr;

	mutex_lock(&filelock_mutex);
	for (nr = list_length(&doubtful); nr && !list_empty(&doubtful); nr--) {
		struct lock_file *lf = list_first_entry(&doubtful, struct lock_file, doubtful_link);

		list_del(&lf->doubtful_link);
		list_add_tail(&lf->doubtful_link, &doubtful);
		lf->users++;
		if (!begin(lf, false)) {
			(void)end_doubts(lf);
			end(lf);
		}
		filelock_put_file(lf);
	}
	again = !list_empty(&doubtful);
	mutex_unlock(&filelock_mutex);
	if (!again)
		return;
	thread_sleep_ns(AGAIN_NS);
	(void)work_queue(doubt_queue, w);
}

/* --- events ---------------------------------------------------------------------------------- */

static void retry(struct lock_waiter *w, int err)
{
	w->err = err;
	__atomic_store_n(&w->retry, true, __ATOMIC_RELEASE);
	wake_all(&w->wq);
}

/* @all: whatever its token. */
static void retry_waiters(uint32_t node, bool all, int err, const struct storage_lock_events *ev)
	__must_hold(&filelock_mutex)
{
	struct lock_waiter *w;

	assert_mutex_held(&filelock_mutex);
	list_for_each_entry(w, &remote_waiters, remote_link) {
		bool told = all;

		for (uint32_t i = 0; i < ev->nr && !told; i++)
			told = ev->tokens[i] == w->token;
		if (told && w->file->id.node == node)
			retry(w, err);
	}
}

static void listener_main(void *arg)
{
	struct storage_lock_events ev = { 0 };
	struct lock_node *n = arg;
	uint32_t incarn;
	bool over;
	int err;

	for (;;) {
		wait_event(&n->wq, __atomic_load_n(&n->nr_waiting, __ATOMIC_ACQUIRE));
		incarn = ev.incarn;
		ev.nr = 0;
		err = storage_lock_events(n->node, &ev);
		/* The node was away for too long, or is another one. Else it is a shortage. */
		over = err == -EIO || err == -ESTALE;
		mutex_lock(&filelock_mutex);
		retry_waiters(n->node, over || (!err && ev.incarn != incarn), over ? -EIO : 0, &ev);
		mutex_unlock(&filelock_mutex);
		if (err && !over)
			thread_sleep_ns(SHORTAGE_NS);
	}
}

/* NULL: no memory. */
static struct lock_node *node_of(uint32_t node) __must_hold(&filelock_mutex)
{
	struct lock_node *n;
	struct thread *t;

	assert_mutex_held(&filelock_mutex);
	list_for_each_entry(n, &nodes, link) {
		if (n->node == node)
			return n;
	}
	n = kzalloc(sizeof(*n));
	if (!n)
		return NULL;
	n->node = node;
	waitqueue_init(&n->wq);
	t = thread_create("lock-events", listener_main, n);
	if (IS_ERR(t)) {
		kfree(n);
		return NULL;
	}
	thread_detach(t);
	list_add(&n->link, &nodes);
	return n;
}

/* The storage node knows of the wait. 0: ask again. */
static int wait_for_event(struct lock_waiter *w) __must_hold(&filelock_mutex)
{
	struct lock_node *n = node_of(w->file->id.node);
	int err;

	if (!n)
		return -ENOLCK;
	__atomic_add_fetch(&n->nr_waiting, 1, __ATOMIC_RELEASE);
	wake_all(&n->wq);
	err = filelock_sleep(w);
	__atomic_sub_fetch(&n->nr_waiting, 1, __ATOMIC_RELEASE);
	if (!err)
		return w->err;
	mutex_unlock(&filelock_mutex);
	/* If this fails the wait becomes an event that nobody is there for. */
	(void)!storage_lock_cancel(&w->file->id, w->req, w->token);
	mutex_lock(&filelock_mutex);
	return err;
}

/* --- locking --------------------------------------------------------------------------------- */

static void waiter_begin(struct lock_waiter *w, struct lock_file *lf, const struct lock_req *req)
	__must_hold(&filelock_mutex)
{
	assert_mutex_held(&filelock_mutex);
	filelock_waiter_init(w, lf, req);
	w->token = ++last_token;
	list_add_tail(&w->remote_link, &remote_waiters);
}

/* Ask the copy about @req: AGAIN if it does not know, 0 if nothing is to be done. */
static int ask_copy(struct lock_file *lf, const struct lock_req *req, bool wait)
	__must_hold(&filelock_mutex)
{
	const struct lock_owner *o = lock_owner_find(&lf->tree, req->kind, req->owner);

	if (req->type == LOCK_NONE)
		return o ? AGAIN : 0;
	if (req->kind == LOCK_FLOCK && o && lock_owner_from(o, 0)->type == req->type)
		return 0;
	/* A lock of another type is given up first, so the storage node is told. */
	if (!wait && !(req->kind == LOCK_FLOCK && o) && lock_tree_conflicts(&lf->tree, req))
		return -EAGAIN;
	if (wait && req->kind == LOCK_POSIX && filelock_would_deadlock(lf, req))
		return -EDEADLK;
	return AGAIN;
}

/* With the turn. AGAIN: wait for an event. @unsure: the storage node may have another state. */
static int try_once(struct lock_file *lf, const struct lock_req *req, bool wait,
		    struct lock_waiter *w, bool *unsure) __must_hold(&filelock_mutex)
{
	int err = ask_copy(lf, req, wait), state;

	if (err != AGAIN)
		return err;
	/* Before anything that may be interrupted: what is unlocked is so at once. */
	err = req->type == LOCK_NONE ? filelock_apply(lf, req) : 0;
	if (err)
		return err;
	err = end_doubts(lf);
	if (err) {
		*unsure = req->type == LOCK_NONE;
		return err == -EINTR ? -EINTR : -EIO;
	}
	w->retry = false;
	w->err = 0;
	mutex_unlock(&filelock_mutex);
	state = storage_lock(&lf->id, req, w->token, wait);
	mutex_lock(&filelock_mutex);
	if (state < 0) {
		*unsure = state != -EDEADLK;
		return state == -EDEADLK || state == -ENOLCK || state == -EINTR ? state : -EIO;
	}
	if (req->type == LOCK_NONE || state == STORAGE_LOCK_GRACE)
		return req->type == LOCK_NONE ? 0 : AGAIN;
	if (state == STORAGE_LOCK_FREE) {
		err = filelock_apply(lf, req);
		*unsure = err;
		return err;
	}
	if (req->kind == LOCK_FLOCK)
		(void)filelock_give_up(lf, req);
	return state == STORAGE_LOCK_WAITS ? AGAIN : -EAGAIN;
}

int filelock_remote_set(struct lock_file *lf, const struct lock_req *req, bool wait)
{
	struct owner_record *rec = kmem_alloc(kmem_current(), sizeof(*rec));
	struct lock_waiter w;
	bool unsure = false;
	int err;

	assert_mutex_held(&filelock_mutex);
	if (!rec)
		return -ENOLCK;
	rec->o.kind = req->kind;
	rec->o.who = req->owner;
	waiter_begin(&w, lf, req);
	do {
		err = begin(lf, true);
		if (err)
			break;
		err = try_once(lf, req, wait, &w, &unsure);
		end(lf);
		if (err == AGAIN)
			err = wait_for_event(&w) ?: AGAIN;
	} while (err == AGAIN);
	list_del(&w.remote_link);
	if (unsure) {
		add_doubt(lf, rec);
		(void)work_queue(doubt_queue, &doubt_work);
	} else {
		kmem_free(rec);
	}
	return err;
}

int filelock_remote_test(struct lock_file *lf, const struct lock_req *req, struct lock_req *found)
{
	const struct file_lock *l;
	struct lock_waiter w;
	int state, err = 0;

	assert_mutex_held(&filelock_mutex);
	l = lock_tree_first(&lf->tree, req);
	if (l) {
		*found = lock_as_req(l);
		return 1;
	}
	waiter_begin(&w, lf, req);
	do {
		w.retry = false;
		w.err = 0;
		mutex_unlock(&filelock_mutex);
		state = storage_lock_test(&lf->id, req, w.token, found);
		mutex_lock(&filelock_mutex);
		if (state == STORAGE_LOCK_GRACE)
			err = wait_for_event(&w);
	} while (!err && state == STORAGE_LOCK_GRACE);
	list_del(&w.remote_link);
	if (err || state < 0)
		return err ? err : state == -EINTR ? -EINTR : -EIO;
	return state == STORAGE_LOCK_BUSY;
}

/* --- giving up ------------------------------------------------------------------------------- */

static bool has_any(const struct lock_file *lf, const void *owner)
{
	for (enum lock_kind kind = LOCK_POSIX; kind <= LOCK_FLOCK; kind++) {
		if (lock_owner_find(&lf->tree, kind, owner))
			return true;
	}
	return false;
}

/*
 * It cannot fail: what the storage node is not told by this thread, which may have been killed, the
 * worker tells it.
 */
void filelock_remote_drop(struct lock_file *lf, const void *owner)
{
	int err;

	assert_mutex_held(&filelock_mutex);
	if (!has_any(lf, owner))
		return;
	err = begin(lf, true);
	for (enum lock_kind kind = LOCK_POSIX; kind <= LOCK_FLOCK; kind++) {
		struct lock_owner *o = lock_owner_find(&lf->tree, kind, owner);
		struct owner_record *rec;

		if (!o)
			continue;
		rec = container_of(o, struct owner_record, o);
		rec->keep = true;
		(void)filelock_drop_owner(lf, kind, owner);
		add_doubt(lf, rec);
	}
	if (!err) {
		err = end_doubts(lf);
		end(lf);
	}
	if (err)
		(void)work_queue(doubt_queue, &doubt_work);
}

/* --- a storage node that was started again --------------------------------------------------- */

/* All locks of @lf, the caller's to kfree(). NULL: no memory. */
static struct lock_req *all_of(const struct lock_file *lf, size_t *nr) __must_hold(&filelock_mutex)
{
	struct lock_req *list = NULL;

	for (int pass = 0; pass < 2; pass++) {
		*nr = 0;
		for (const struct rb_node *n = rb_first(&lf->tree.owners); n; n = rb_next(n)) {
			const struct lock_owner *o = rb_entry(n, struct lock_owner, link);
			const struct file_lock *l;

			for (l = lock_owner_from(o, 0); l; l = lock_owner_next(l), (*nr)++) {
				if (list)
					list[*nr] = lock_as_req(l);
			}
		}
		if (!pass)
			list = kcalloc(*nr + 1, sizeof(*list));
		if (!list)
			return NULL;
	}
	return list;
}

static void lose_all(struct lock_file *lf) __must_hold(&filelock_mutex)
{
	while (lf->tree.owners.node) {
		const struct lock_owner *o =
			rb_entry(lf->tree.owners.node, struct lock_owner, link);
		const struct lock_req req = lock_as_req(lock_owner_from(o, 0));

		lose(lf, &req);
	}
}

/* With the turn. */
static int declare_file(struct lock_file *lf, uint32_t incarn) __must_hold(&filelock_mutex)
{
	size_t nr;
	struct lock_req *list = all_of(lf, &nr);
	int err;

	if (!list)
		return -ENOMEM;
	mutex_unlock(&filelock_mutex);
	err = storage_locks_declare(&lf->id, incarn, list, nr);
	mutex_lock(&filelock_mutex);
	kfree(list);
	if (err != -ENOLCK)
		return err;
	lose_all(lf);
	return 0;
}

int filelock_declare(uint32_t node, uint32_t incarn)
{
	struct lock_walk at = { 0 };
	struct lock_file *lf;
	int err = 0;

	mutex_lock(&filelock_mutex);
	while (!err && (lf = filelock_next_of(node, incarn, &at))) {
		(void)!begin(lf, false);
		while ((err = declare_file(lf, incarn)) == -ENOMEM) {
			mutex_unlock(&filelock_mutex);
			thread_sleep_ns(SHORTAGE_NS);
			mutex_lock(&filelock_mutex);
		}
		end(lf);
		filelock_put_file(lf);
	}
	mutex_unlock(&filelock_mutex);
	return err;
}

static int remote_init(void)
{
	work_init(&doubt_work, doubts_main);
	doubt_queue = workqueue_create("locks", 1);
	return IS_ERR(doubt_queue) ? (int)PTR_ERR(doubt_queue) : 0;
}
INITCALL(core, remote_init);
