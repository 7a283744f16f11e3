/* SPDX-License-Identifier: MIT */
/*
 * Futexes that lend priority: mutexes whose word names the task that owns them.
 *
 * Flow:	a program takes a free mutex by writing its own number into the word, and gives it
 *		back by writing 0: the kernel hears nothing of it. A task that finds a number there
 *		calls, sets FUTEX_WAITERS, so that the owner has to call too, and waits; the owner
 *		is lent its rank (process/inherit.h). UNLOCK gives the word to the first that waits,
 *		which owns it before it runs. When the owner ends, the first that waits gets the
 *		word too, and marks it with FUTEX_OWNER_DIED itself, through its own mapping.
 *		WAIT_REQUEUE_PI is a wait that CMP_REQUEUE_PI turns into one for a mutex.
 * Locking:	as in futex.c; inside the bucket's lock comes that of process/inherit.c. An owner is
 *		looked up by its number without locks; the word, read again with the bucket locked,
 *		says whether it still is the one.
 * Invariants:	there is a futex_pi for a word while tasks wait for it, or while the one that got it
 *		has yet to mark the word. A task that has been given a word takes the lock of
 *		the bucket before it leaves, as any waiter.
 * Failure:	nothing in a word is believed: a number that is no task's answers -ESRCH, one that
 *		is not the owner's that the kernel knows -EINVAL.
 */
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <kernel/thread.h>
#include <lib/errno.h>
#include <mm/slab.h>
#include <processor/process/inherit.h>
#include <processor/process/process.h>

#include "futex_private.h"

#define LOOK_AGAIN (-ESTALE) /* between functions of this file: the word has changed */

struct futex_pi {
	struct list_head link;    /* bucket's lock */
	struct futex_key key;     /* const; the object is counted by each that waits */
	struct inherit_lock lock; /* changed under the bucket's lock, and as it says itself */
	uint32_t owner_tid;       /* bucket's lock: as the word has it */
	bool unmarked;            /* bucket's lock: the owner has yet to write the word */
};

struct futex_pi_waiter {                 /* on the waiting thread's stack */
	struct futex_waiter q;           /* in the bucket's list only until it is moved */
	struct inherit_waiter w;         /* while it waits for the owner of pi */
	struct task *task;               /* const */
	uint32_t tid;                    /* const: what it writes into the word */
	const struct futex_word *target; /* const: the mutex that it is to own */
	struct futex_pi *pi; /* bucket's lock: it waits for that, or is to mark its word; or NULL */
	bool owns;           /* bucket's lock: it has been given the word */
};

/* One task's try to get a word. */
struct try {
	const struct futex_word *word;
	struct futex_bucket *b; /* of the word */
	uint32_t tid;           /* of the task that is to own it */
	bool waited;            /* others will wait for it at once */
	struct futex_pi *spare; /* to be used for those that wait; or NULL */
	uint32_t owner_tid;     /* as the word had it before it was locked; 0: free */
	struct task *owner;     /* referenced; NULL: there is no such task */
};

static void waiter_init(struct futex_pi_waiter *w, const struct futex_word *at,
			const struct futex_word *target, struct waitqueue *wq)
{
	waitqueue_init(wq);
	*w = (struct futex_pi_waiter){ .task = task_current(),
				       .tid = task_vtid(task_current()),
				       .target = target };
	futex_waiter_init(&w->q, at, FUTEX_BITSET_MATCH_ANY, wq);
	w->q.pi = w;
}

/* With the bucket locked: -EFAULT, LOOK_AGAIN. */
static int change_word(uint64_t addr, uint32_t from, uint32_t to)
{
	uint32_t old;

	if (cmpxchg_user_u32(&old, (void __user *)addr, from, to))
		return -EFAULT;
	return old == from ? 0 : LOOK_AGAIN;
}

/* --- those that are waited for -------------------------------------------------------------- */

static struct futex_pi *find_locked(struct futex_bucket *b, const struct futex_key *key)
	__must_hold(&b->lock)
{
	struct futex_pi *pi;

	assert_spin_held(&b->lock);
	list_for_each_entry(pi, &b->pis, link) {
		if (futex_key_equal(&pi->key, key))
			return pi;
	}
	return NULL;
}

bool futex_pi_waited_locked(struct futex_bucket *b, const struct futex_key *key)
{
	assert_spin_held(&b->lock);
	return find_locked(b, key) != NULL;
}

/* The spare one of @t becomes that of its word, which @owner has. -ESRCH: it ends. */
static int make_locked(struct try *t, struct task *owner, uint32_t owner_tid, struct futex_pi **out)
	__must_hold(&t->b->lock)
{
	struct futex_pi *pi = t->spare;
	const int err = inherit_lock_init(&pi->lock, owner);

	assert_spin_held(&t->b->lock);
	if (err)
		return err;
	pi->key = t->word->key;
	pi->owner_tid = owner_tid;
	pi->unmarked = false;
	list_add_tail(&pi->link, &t->b->pis);
	t->spare = NULL;
	*out = pi;
	return 0;
}

/* @pi of @b is freed unless it is still needed. */
static void put_locked(struct futex_bucket *b, struct futex_pi *pi) __must_hold(&b->lock)
{
	assert_spin_held(&b->lock);
	if (pi->unmarked || inherit_first(&pi->lock))
		return;
	list_del(&pi->link);
	inherit_lock_end(&pi->lock);
	kfree(pi);
}

/* @w, which waits for @pi, owns it. @unmarked: the word does not say so yet. */
static void give_locked(struct futex_bucket *b, struct futex_pi *pi, struct futex_pi_waiter *w,
			bool unmarked) __must_hold(&b->lock)
{
	assert_spin_held(&b->lock);
	ASSERT(w->pi == pi && !w->owns);
	inherit_hand_over(&w->w);
	pi->owner_tid = w->tid;
	pi->unmarked = unmarked;
	w->pi = unmarked ? pi : NULL;
	w->owns = true;
	put_locked(b, pi);
	__atomic_store_n(&w->q.woken, true, __ATOMIC_RELEASE);
	wake_all(w->q.wq); /* it takes the bucket's lock before it leaves */
}

/* The owner of @pi is gone, or cannot mark the word: the next one may. */
static void pass_on_locked(struct futex_bucket *b, struct futex_pi *pi) __must_hold(&b->lock)
{
	struct inherit_waiter *w = inherit_first(&pi->lock);

	assert_spin_held(&b->lock);
	pi->unmarked = false;
	if (w)
		give_locked(b, pi, container_of(w, struct futex_pi_waiter, w), true);
	else
		put_locked(b, pi);
}

/* --- to own a word -------------------------------------------------------------------------- */

/* Find the owner of the word of @t, before its bucket is locked. try_end() when done. -EFAULT. */
static int try_begin(struct try *t)
{
	uint32_t now, nr;

	t->owner = NULL;
	if (!t->spare)
		t->spare = kmalloc(sizeof(*t->spare));
	if (!t->spare)
		return -ENOMEM;
	if (get_user_u32(&now, (const void __user *)t->word->addr))
		return -EFAULT;
	t->owner_tid = now & FUTEX_TID_MASK;
	nr = t->owner_tid ? pid_from_vnr(t->owner_tid) : 0;
	if (nr && nr != INIT_PID)
		t->owner = task_find(nr);
	return 0;
}

static void try_end(struct try *t)
{
	if (t->owner)
		task_put(t->owner);
}

/* Does the word, @now, fit to those that wait for it? */
static bool fits(const struct futex_pi *pi, uint32_t now)
{
	const uint32_t tid = now & FUTEX_TID_MASK;

	if (pi->unmarked)
		return true;
	/* Its owner ends, has marked it, and is about to hand it on. */
	if (!tid && (now & FUTEX_OWNER_DIED))
		return true;
	return tid == pi->owner_tid;
}

/*
 * @err, with which the owner of the word was asked for. -ESRCH: it ends, and has let go of its
 * words just before, without the bucket's lock: LOOK_AGAIN if this is one of them.
 */
static int owner_error_locked(const struct try *t, uint32_t owner_tid, int err)
	__must_hold(&t->b->lock)
{
	uint32_t now;

	assert_spin_held(&t->b->lock);
	if (err != -ESRCH)
		return err;
	if (get_user_u32(&now, (const void __user *)t->word->addr))
		return -EFAULT;
	return (now & FUTEX_TID_MASK) == owner_tid ? -ESRCH : LOOK_AGAIN;
}

/* @now names another task, for which nobody waits yet. */
static int first_waiter_locked(struct try *t, uint32_t now, struct futex_pi **pi)
	__must_hold(&t->b->lock)
{
	int err;

	assert_spin_held(&t->b->lock);
	if ((now & FUTEX_TID_MASK) != t->owner_tid)
		return LOOK_AGAIN;
	/* First, so that the owner cannot give it back without a call. */
	err = change_word(t->word->addr, now, now | FUTEX_WAITERS);
	if (err)
		return err;
	if (!t->owner)
		return pid_from_vnr(t->owner_tid) == INIT_PID ? -EPERM : -ESRCH;
	err = make_locked(t, t->owner, t->owner_tid, pi);
	return owner_error_locked(t, t->owner_tid, err);
}

/* 1: it is the task's; 0: it is to wait for *@pi. Else LOOK_AGAIN and as futex_lock_pi(). */
static int try_locked(struct try *t, struct futex_pi **pi) __must_hold(&t->b->lock)
{
	uint32_t now;
	int err;

	assert_spin_held(&t->b->lock);
	if (get_user_u32(&now, (const void __user *)t->word->addr))
		return -EFAULT;
	if ((now & FUTEX_TID_MASK) == t->tid)
		return -EDEADLK;
	*pi = find_locked(t->b, &t->word->key);
	if (*pi)
		return fits(*pi, now) ? 0 : -EINVAL;
	if (futex_first_locked(t->b, &t->word->key))
		return -EINVAL; /* they would not be given it */
	if (now & FUTEX_TID_MASK)
		return first_waiter_locked(t, now, pi);
	err = change_word(t->word->addr, now,
			  (now & FUTEX_OWNER_DIED) | t->tid | (t->waited ? FUTEX_WAITERS : 0));
	return err ? err : 1;
}

/* After a try that did not work: 0 to try again. */
static int look_again(int err, uint64_t addr)
{
	if (err == -EFAULT)
		return futex_fault_in(addr, true);
	if (err != LOOK_AGAIN)
		return err;
	return __atomic_load_n(&thread_current()->flags, __ATOMIC_ACQUIRE) & THREAD_F_KILL ? -EINTR
											   : 0;
}

/* Own the word that @w has been given: its owner has ended. The lock is let go for a fault. */
static int mark(struct futex_bucket *b, struct futex_pi_waiter *w) __must_hold(&b->lock)
{
	const uint64_t addr = w->target->addr;
	int err = 0;

	while (w->pi) {
		uint32_t now;

		assert_spin_held(&b->lock);
		ASSERT(w->pi->unmarked);
		err = get_user_u32(&now, (const void __user *)addr);
		if (!err)
			err = change_word(addr, now, FUTEX_OWNER_DIED | FUTEX_WAITERS | w->tid);
		if (!err) {
			w->pi->unmarked = false;
			put_locked(b, w->pi);
			break;
		}
		spin_unlock(&b->lock);
		err = look_again(err, addr);
		spin_lock(&b->lock);
		if (err) {
			pass_on_locked(b, w->pi);
			break;
		}
	}
	w->pi = NULL;
	return err;
}

/*
 * @w has slept, with what its wait answered: it owns the word, or has given up. @interrupted: the
 * answer to a signal while it waited for the owner.
 */
static int end_wait(struct futex_pi_waiter *w, int err, int interrupted)
{
	struct futex_bucket *b = futex_lock_bucket_of(&w->q);
	struct futex_pi *pi = w->pi;

	assert_spin_held(&b->lock);
	if (w->owns) {
		err = mark(b, w);
	} else if (pi) {
		inherit_wait_end(&w->w);
		put_locked(b, pi);
		err = err == -EINTR ? interrupted : err;
	} else {
		list_del(&w->q.link);
	}
	spin_unlock(&b->lock);
	return err;
}

/* 1: @w owns the word; 0: it waits for it from now on. */
static int lock_or_wait(struct try *t, struct futex_pi_waiter *w, bool try)
{
	struct futex_pi *pi = NULL;
	int err;

	spin_lock(&t->b->lock);
	assert_spin_held(&t->b->lock);
	err = try_locked(t, &pi);
	if (!err && try)
		err = -EAGAIN;
	else if (!err)
		err = owner_error_locked(t, pi->owner_tid, inherit_wait(&pi->lock, &w->w, w->task));
	if (!err)
		w->pi = pi;
	else if (pi)
		put_locked(t->b, pi);
	spin_unlock(&t->b->lock);
	return err;
}

int futex_lock_pi(const struct futex_word *word, uint64_t deadline, bool try)
{
	struct try t = { .word = word, .b = futex_bucket_of(&word->key) };
	struct futex_pi_waiter w;
	struct waitqueue wq;
	int err, ret = 0;

	waiter_init(&w, word, word, &wq);
	t.tid = w.tid;
	do {
		err = try_begin(&t);
		if (err)
			break;
		ret = lock_or_wait(&t, &w, try);
		try_end(&t);
		err = ret < 0 ? look_again(ret, word->addr) : 0;
	} while (!err && ret < 0);
	kfree(t.spare);
	if (err || ret)
		return err;
	err = wait_event_interruptible_timeout(&wq, futex_woken(&w.q), deadline);
	return end_wait(&w, err, -EINTR);
}

/* --- to give it back ------------------------------------------------------------------------ */

static int unlock_locked(struct futex_bucket *b, const struct futex_word *word, uint32_t now)
	__must_hold(&b->lock)
{
	struct futex_pi *pi = find_locked(b, &word->key);
	struct futex_pi_waiter *w;
	int err;

	assert_spin_held(&b->lock);
	if (!pi)
		return futex_first_locked(b, &word->key) ? -EINVAL
							 : change_word(word->addr, now, 0);
	if (pi->lock.owner != task_current())
		return -EINVAL;
	w = container_of(inherit_first(&pi->lock), struct futex_pi_waiter, w);
	err = change_word(word->addr, now, FUTEX_WAITERS | w->tid);
	if (!err)
		give_locked(b, pi, w, false);
	return err;
}

int futex_unlock_pi(const struct futex_word *word)
{
	struct futex_bucket *b = futex_bucket_of(&word->key);
	const uint32_t tid = task_vtid(task_current());
	int err, ret;

	do {
		uint32_t now;

		if (get_user_u32(&now, (const void __user *)word->addr))
			return -EFAULT;
		if ((now & FUTEX_TID_MASK) != tid)
			return -EPERM;
		spin_lock(&b->lock);
		ret = unlock_locked(b, word, now);
		spin_unlock(&b->lock);
		err = look_again(ret, word->addr);
	} while (!err && ret);
	return err;
}

void futex_pi_release(struct task *t, bool ends)
{
	for (;;) {
		const struct inherit_lock *l;
		struct futex_bucket *b;
		struct futex_key key;
		struct futex_pi *pi;

		inherit_begin();
		l = inherit_held_locked(t, ends);
		if (l)
			key = container_of(l, struct futex_pi, lock)->key;
		inherit_end();
		if (!l)
			return;
		/* Those that waited may have gone by now, and the mutex with them. */
		b = futex_bucket_of(&key);
		spin_lock(&b->lock);
		pi = find_locked(b, &key);
		if (pi && pi->lock.owner == t)
			pass_on_locked(b, pi);
		spin_unlock(&b->lock);
	}
}

/* --- waiters that are moved to a mutex ------------------------------------------------------ */

int futex_wait_requeue_pi(const struct futex_word *from, uint32_t val, const struct futex_word *to,
			  uint64_t deadline)
{
	struct futex_pi_waiter w;
	struct waitqueue wq;
	int err;

	if (futex_key_equal(&from->key, &to->key))
		return -EINVAL;
	waiter_init(&w, from, to, &wq);
	err = futex_queue(&w.q, from->addr, val);
	if (err)
		return err;
	err = wait_event_interruptible_timeout(&wq, futex_woken(&w.q), deadline);
	/* When it has been moved the first word is another: the call would not find its value. */
	return end_wait(&w, err, -EAGAIN);
}

/* Two words, and those that wait at the first. */
struct requeue {
	const struct futex_word *from, *to;
	struct futex_bucket *b1, *b2;
	int nr_move;
	struct try t;
};

/* The waiter @q is to be moved: to where it expects it? */
static bool may_move(const struct requeue *r, const struct futex_waiter *q)
{
	return q->pi && futex_key_equal(&q->pi->target->key, &r->to->key);
}

/* The first waiter, @w, got the word. *@pi: what others can wait for, if they are to. -ESRCH. */
static int take_first_locked(struct requeue *r, struct futex_pi_waiter *w, struct futex_pi **pi)
	__must_hold(&r->b1->lock, &r->b2->lock)
{
	int err = 0;

	assert_spin_held(&r->b1->lock);
	assert_spin_held(&r->b2->lock);
	assert_spin_held(&r->t.b->lock);
	if (r->nr_move)
		err = make_locked(&r->t, w->task, w->tid, pi);
	ASSERT(!err); /* it sleeps here, so it does not end */
	list_del(&w->q.link);
	w->owns = true;
	__atomic_store_n(&w->q.woken, true, __ATOMIC_RELEASE);
	wake_all(w->q.wq); /* it takes the first bucket's lock before it leaves */
	return err;
}

/* Let the waiters wait for @pi, as many as are to. How many, @count of them woken, or an error. */
static int move_locked(struct requeue *r, struct futex_pi *pi, int count)
	__must_hold(&r->b1->lock, &r->b2->lock)
{
	struct futex_waiter *q, *tmp;

	assert_spin_held(&r->b1->lock);
	assert_spin_held(&r->b2->lock);
	assert_spin_held(&r->t.b->lock);
	list_for_each_entry_safe(q, tmp, &r->b1->waiters, link) {
		int err;

		if (count - 1 >= r->nr_move)
			break;
		if (!futex_key_equal(&q->key, &r->from->key))
			continue;
		if (!may_move(r, q))
			return -EINVAL;
		/* If the owner ends nobody has been moved yet, or it would have handed it on. */
		err = owner_error_locked(&r->t, pi->owner_tid,
					 inherit_wait(&pi->lock, &q->pi->w, q->pi->task));
		if (err)
			return err;
		list_del(&q->link);
		q->pi->pi = pi;
		q->key = r->to->key;
		__atomic_store_n(&q->bucket, r->b2, __ATOMIC_RELEASE);
		count++;
	}
	return count;
}

static int requeue_pi_locked(struct requeue *r, uint32_t expect)
	__must_hold(&r->b1->lock, &r->b2->lock)
{
	struct futex_waiter *first;
	struct futex_pi *pi = NULL;
	uint32_t now;
	int ret;

	assert_spin_held(&r->b1->lock);
	assert_spin_held(&r->b2->lock);
	assert_spin_held(&r->t.b->lock);
	if (get_user_u32(&now, (const void __user *)r->from->addr))
		return -EFAULT;
	if (now != expect)
		return -EAGAIN;
	first = futex_first_locked(r->b1, &r->from->key);
	if (!first)
		return futex_pi_waited_locked(r->b1, &r->from->key) ? -EINVAL : 0;
	if (!may_move(r, first))
		return -EINVAL;
	r->t.tid = first->pi->tid;
	ret = try_locked(&r->t, &pi);
	if (ret == 1)
		ret = take_first_locked(r, first->pi, &pi) ?: 1;
	if (ret >= 0 && pi)
		ret = move_locked(r, pi, ret);
	if (pi)
		put_locked(r->b2, pi);
	return ret;
}

int futex_requeue_pi(const struct futex_word *from, const struct futex_word *to, int nr_move,
		     uint32_t expect)
{
	struct requeue r = { .from = from,
			     .to = to,
			     .b1 = futex_bucket_of(&from->key),
			     .b2 = futex_bucket_of(&to->key),
			     .nr_move = nr_move };
	int err, ret;

	if (futex_key_equal(&from->key, &to->key))
		return -EINVAL;
	r.t = (struct try){ .word = to, .b = r.b2, .waited = nr_move > 0 };
	do {
		ret = try_begin(&r.t);
		if (!ret) {
			futex_lock_two(r.b1, r.b2);
			ret = requeue_pi_locked(&r, expect);
			futex_unlock_two(r.b1, r.b2);
			try_end(&r.t);
		}
		err = ret == -EFAULT ? futex_fault_in(from->addr, false) : 0;
		if (!err && ret < 0)
			err = look_again(ret, to->addr);
	} while (!err && ret < 0);
	kfree(r.t.spare);
	return err ? err : ret;
}
