/* SPDX-License-Identifier: MIT */
/*
 * Futexes: waiters by key, waking, requeueing. Those that lend priority: futex_pi.c.
 *
 * Locking:	a bucket's lock (RANK_SPIN_TASK) guards its waiters; two are taken in rising address
 *		order. The word is compared with the lock held, so that no wake-up comes between the
 *		look and the queue. With a spinlock held a user access does not fault pages in: it
 *		answers -EFAULT, and futex code drops the lock, touches the page and begins again.
 * Invariants:	a waiter is on its thread's stack. The thread takes the lock of its waiter's bucket
 *		before it leaves, so a waker that holds that lock may use the waiter until it has
 *		set woken.
 */
#include "futex.h"

#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <kernel/random.h>
#include <kernel/thread.h>
#include <lib/errno.h>
#include <lib/siphash.h>

#include "futex_private.h"

#define BUCKETS  1024u
#define OP_TRIES 128 /* of a word that others keep changing, before others may run */

static struct futex_bucket buckets[BUCKETS];
static struct siphash_key hash_key; /* const after futex_init() */

void futex_init(void)
{
	random_bytes(&hash_key, sizeof(hash_key));
	for (size_t i = 0; i < BUCKETS; i++) {
		spin_lock_init(&buckets[i].lock, "futex", RANK_SPIN_TASK);
		list_init(&buckets[i].waiters);
		list_init(&buckets[i].pis);
	}
}

struct futex_bucket *futex_bucket_of(const struct futex_key *key)
{
	const uint64_t words[2] = { (uint64_t)(uintptr_t)key->owner, key->where };

	return &buckets[siphash24(&hash_key, words, sizeof(words)) % BUCKETS];
}

void futex_lock_two(struct futex_bucket *a, struct futex_bucket *b) __acquires(&a->lock, &b->lock)
	__no_lock_analysis("in address order; a and b may be one")
{
	spin_lock(&MIN(a, b)->lock);
	if (a != b)
		spin_lock(&MAX(a, b)->lock);
}

void futex_unlock_two(struct futex_bucket *a, struct futex_bucket *b) __releases(&a->lock, &b->lock)
	__no_lock_analysis("as futex_lock_two()")
{
	if (a != b)
		spin_unlock(&MAX(a, b)->lock);
	spin_unlock(&MIN(a, b)->lock);
}

static bool killed(void)
{
	return __atomic_load_n(&thread_current()->flags, __ATOMIC_ACQUIRE) & THREAD_F_KILL;
}

int futex_fault_in(uint64_t addr, bool write)
{
	void __user *word = (void __user *)addr;
	uint32_t now;

	if (killed())
		return -EINTR;
	if (get_user_u32(&now, word))
		return -EFAULT;
	return write ? cmpxchg_user_u32(&now, word, now, now) : 0;
}

/* --- waiting ------------------------------------------------------------------------- */

void futex_waiter_init(struct futex_waiter *w, const struct futex_word *word, uint32_t bitset,
		       struct waitqueue *wq)
{
	*w = (struct futex_waiter){ .key = word->key, .bitset = bitset, .wq = wq };
	list_init(&w->link);
	w->bucket = futex_bucket_of(&w->key);
}

int futex_queue(struct futex_waiter *w, uint64_t addr, uint32_t val)
{
	struct futex_bucket *b = w->bucket;
	uint32_t now;
	int err;

	for (;;) {
		spin_lock(&b->lock);
		err = get_user_u32(&now, (const void __user *)addr);
		ASSERT(!w->woken && list_empty(&w->link));
		if (!err && now == val)
			list_add_tail(&w->link, &b->waiters);
		spin_unlock(&b->lock);
		if (!err)
			return now == val ? 0 : -EAGAIN;
		err = futex_fault_in(addr, false);
		if (err)
			return err;
	}
}

struct futex_bucket *futex_lock_bucket_of(struct futex_waiter *w)
	__no_lock_analysis("returns it locked")
{
	for (;;) {
		struct futex_bucket *b = __atomic_load_n(&w->bucket, __ATOMIC_ACQUIRE);

		spin_lock(&b->lock);
		if (__atomic_load_n(&w->bucket, __ATOMIC_RELAXED) == b)
			return b;
		spin_unlock(&b->lock);
	}
}

bool futex_unqueue(struct futex_waiter *w)
{
	struct futex_bucket *b = futex_lock_bucket_of(w);

	assert_spin_held(&b->lock);
	list_del(&w->link);
	spin_unlock(&b->lock);
	return w->woken;
}

int futex_wait(const struct futex_word *word, uint32_t val, uint32_t bitset, uint64_t deadline)
{
	struct futex_waiter w;
	struct waitqueue wq;
	int err;

	waitqueue_init(&wq);
	futex_waiter_init(&w, word, bitset, &wq);
	err = futex_queue(&w, word->addr, val);
	if (err)
		return err;
	err = wait_event_interruptible_timeout(&wq, futex_woken(&w), deadline);
	return futex_unqueue(&w) ? 0 : err;
}

/* --- waking -------------------------------------------------------------------------- */

static void wake_locked(struct futex_waiter *w)
{
	struct waitqueue *wq = w->wq;

	assert_spin_held(&w->bucket->lock);
	ASSERT(!w->woken);
	list_del(&w->link);
	__atomic_store_n(&w->woken, true, __ATOMIC_RELEASE);
	wake_all(wq); /* the waiter takes the bucket's lock before it leaves */
}

struct futex_waiter *futex_first_locked(struct futex_bucket *b, const struct futex_key *key)
{
	struct futex_waiter *w;

	assert_spin_held(&b->lock);
	list_for_each_entry(w, &b->waiters, link) {
		if (futex_key_equal(&w->key, key))
			return w;
	}
	return NULL;
}

/* -EINVAL: a task that is to get a mutex cannot be just woken. */
static int wake_key_locked(struct futex_bucket *b, const struct futex_key *key, int nr,
			   uint32_t bitset)
{
	struct futex_waiter *w, *tmp;
	int woken = 0;

	assert_spin_held(&b->lock);
	if (unlikely(futex_pi_waited_locked(b, key)))
		return -EINVAL;
	list_for_each_entry_safe(w, tmp, &b->waiters, link) {
		if (!futex_key_equal(&w->key, key))
			continue;
		if (unlikely(w->pi))
			return -EINVAL;
		if (!(w->bitset & bitset))
			continue;
		wake_locked(w);
		if (++woken >= nr)
			break;
	}
	return woken;
}

int futex_wake(const struct futex_key *key, int nr, uint32_t bitset)
{
	struct futex_bucket *b = futex_bucket_of(key);
	int woken;

	spin_lock(&b->lock);
	woken = wake_key_locked(b, key, nr, bitset);
	spin_unlock(&b->lock);
	return woken;
}

static int requeue_locked(struct futex_bucket *b1, struct futex_bucket *b2,
			  const struct futex_key *from, const struct futex_key *to, int nr_wake,
			  int nr_move)
{
	struct futex_waiter *w, *tmp;
	struct list_head moved;
	int count = 0, err = 0;

	assert_spin_held(&b1->lock);
	assert_spin_held(&b2->lock);
	if (unlikely(futex_pi_waited_locked(b1, from)))
		return -EINVAL;
	list_init(&moved);
	list_for_each_entry_safe(w, tmp, &b1->waiters, link) {
		if (count - nr_wake >= nr_move)
			break;
		if (!futex_key_equal(&w->key, from))
			continue;
		if (unlikely(w->pi)) {
			err = -EINVAL;
			break;
		}
		/*
		 * A waiter counts its own word's object only: for another one it is woken, and
		 * looks for itself.
		 */
		if (++count <= nr_wake || w->key.object != to->object) {
			wake_locked(w);
			continue;
		}
		list_move_tail(&w->link, &moved);
		w->key = *to;
		__atomic_store_n(&w->bucket, b2, __ATOMIC_RELEASE);
	}
	list_splice_tail(&moved, &b2->waiters);
	return err ? err : count;
}

int futex_requeue(const struct futex_word *from, const struct futex_word *to, int nr_wake,
		  int nr_move, const uint32_t *expect)
{
	struct futex_bucket *b1 = futex_bucket_of(&from->key), *b2 = futex_bucket_of(&to->key);
	int ret;

	for (;;) {
		uint32_t now;
		int err = 0;

		futex_lock_two(b1, b2);
		if (expect)
			err = get_user_u32(&now, (const void __user *)from->addr);
		if (err)
			ret = err;
		else if (expect && now != *expect)
			ret = -EAGAIN;
		else
			ret = requeue_locked(b1, b2, &from->key, &to->key, nr_wake, nr_move);
		futex_unlock_two(b1, b2);
		if (!err)
			return ret;
		err = futex_fault_in(from->addr, false);
		if (err)
			return err;
	}
}

/* --- FUTEX_WAKE_OP ------------------------------------------------------------------- */

enum {
	OP_SET,
	OP_ADD,
	OP_OR,
	OP_ANDN,
	OP_XOR,
	OP_NR
};
enum {
	CMP_EQ,
	CMP_NE,
	CMP_LT,
	CMP_LE,
	CMP_GT,
	CMP_GE,
	CMP_NR
};

struct wake_op {
	uint32_t op, cmp;
	int32_t oparg, cmparg;
};

static int32_t sign_extend12(uint32_t v)
{
	return (int32_t)(v << 20) >> 20;
}

static int decode_op(uint32_t v, struct wake_op *out)
{
	*out = (struct wake_op){
		.op = v >> 28 & 7,
		.cmp = v >> 24 & 15,
		.oparg = sign_extend12(v >> 12 & 0xfff),
		.cmparg = sign_extend12(v & 0xfff),
	};
	if (v >> 31) /* the argument is a bit number */
		out->oparg = (int32_t)(1u << (out->oparg & 31));
	return out->op < OP_NR && out->cmp < CMP_NR ? 0 : -ENOSYS;
}

static uint32_t apply_op(const struct wake_op *op, uint32_t old)
{
	const uint32_t arg = (uint32_t)op->oparg;

	switch (op->op) {
	case OP_SET:
		return arg;
	case OP_ADD:
		return old + arg;
	case OP_OR:
		return old | arg;
	case OP_ANDN:
		return old & ~arg;
	default:
		return old ^ arg;
	}
}

static bool compare_op(const struct wake_op *op, int32_t old)
{
	switch (op->cmp) {
	case CMP_EQ:
		return old == op->cmparg;
	case CMP_NE:
		return old != op->cmparg;
	case CMP_LT:
		return old < op->cmparg;
	case CMP_LE:
		return old <= op->cmparg;
	case CMP_GT:
		return old > op->cmparg;
	default:
		return old >= op->cmparg;
	}
}

/* With the locks held. -EFAULT; -EAGAIN others change the word all the time. */
static int change_word(uint64_t addr, const struct wake_op *op, uint32_t *old)
{
	void __user *word = (void __user *)addr;
	uint32_t want;

	if (get_user_u32(&want, word))
		return -EFAULT;
	for (int i = 0; i < OP_TRIES; i++) {
		if (cmpxchg_user_u32(old, word, want, apply_op(op, want)))
			return -EFAULT;
		if (*old == want)
			return 0;
		want = *old;
	}
	return -EAGAIN;
}

int futex_wake_op(const struct futex_word *one, const struct futex_word *two, int nr_one,
		  int nr_two, uint32_t op)
{
	struct futex_bucket *b1 = futex_bucket_of(&one->key), *b2 = futex_bucket_of(&two->key);
	struct wake_op dec;
	int woken = 0, err = decode_op(op, &dec);

	while (!err) {
		uint32_t old;

		futex_lock_two(b1, b2);
		err = change_word(two->addr, &dec, &old);
		if (!err) {
			woken = wake_key_locked(b1, &one->key, nr_one, FUTEX_BITSET_MATCH_ANY);
			if (woken >= 0 && compare_op(&dec, (int32_t)old)) {
				const int more = wake_key_locked(b2, &two->key, nr_two,
								 FUTEX_BITSET_MATCH_ANY);

				woken = more < 0 ? more : woken + more;
			}
		}
		futex_unlock_two(b1, b2);
		if (!err)
			return woken;
		if (err == -EAGAIN)
			thread_yield();
		err = futex_fault_in(two->addr, true);
	}
	return err;
}
