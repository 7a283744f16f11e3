/* SPDX-License-Identifier: MIT */
/*
 * Futexes, inside: keys, waiters, and the operations on them. No user pointer is trusted: a word is
 * read and changed only by the uaccess calls.
 */
#pragma once

#include <abi/futex.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/compiler.h>
#include <lib/list.h>

struct aspace;
struct futex_pi;
struct futex_pi_waiter;
struct object;
struct task;

struct futex_bucket {
	struct spinlock lock; /* RANK_SPIN_TASK */
	struct list_head waiters __guarded_by(&lock);
	struct list_head pis __guarded_by(&lock); /* futex_pi.link */
};

/* The key of a word: (space, address), or (object, offset) in a shared mapping. */
struct futex_key {
	const void *owner;
	uint64_t where;
	struct object *object; /* counted; NULL in a private key */
};

/* A word and its key. */
struct futex_word {
	uint64_t addr;
	struct futex_key key;
};

/*
 * The key of the word at @addr: with @shared, that of a shared mapping if there is one. -EINVAL not
 * aligned, -EFAULT nothing there. futex_word_put() when done.
 */
int futex_word_get(struct aspace *as, uint64_t addr, bool shared, struct futex_word *w)
	__must_check;
void futex_word_put(struct futex_word *w);

static inline bool futex_key_equal(const struct futex_key *a, const struct futex_key *b)
{
	return a->owner == b->owner && a->where == b->where;
}

struct futex_waiter {          /* the waiting thread's */
	struct list_head link; /* bucket's lock */
	struct futex_key key;  /* bucket's lock: requeued; the object's count is the word's */
	uint32_t bitset;       /* const */
	bool woken; /* atomic; set under the bucket's lock, then not touched by the waker again */
	struct futex_bucket *bucket; /* atomic; changes under the locks of both */
	struct waitqueue *wq;        /* const: where the thread sleeps */
	struct futex_pi_waiter *pi;  /* const: it is part of that; NULL: of none */
};

void futex_waiter_init(struct futex_waiter *w, const struct futex_word *word, uint32_t bitset,
		       struct waitqueue *wq);
/* Wait for a wake-up from now on, if the word is @val. -EAGAIN, -EFAULT, -EINTR to be killed. */
int futex_queue(struct futex_waiter *w, uint64_t addr, uint32_t val) __must_check;
/* No more; true when a wake-up has come. */
bool futex_unqueue(struct futex_waiter *w);
static inline bool futex_woken(const struct futex_waiter *w)
{
	return __atomic_load_n(&w->woken, __ATOMIC_ACQUIRE);
}

/* 0 woken, -EAGAIN, -EFAULT, -ETIMEDOUT, -EINTR. */
int futex_wait(const struct futex_word *word, uint32_t val, uint32_t bitset, uint64_t deadline)
	__must_check;
/* How many: at least one is tried. */
int futex_wake(const struct futex_key *key, int nr, uint32_t bitset);
/*
 * Wake @nr_wake waiters of @from, move up to @nr_move others to @to. @expect: if the word still is
 * that, else -EAGAIN. How many were woken or moved; -EFAULT, -EINTR to be killed.
 */
int futex_requeue(const struct futex_word *from, const struct futex_word *to, int nr_wake,
		  int nr_move, const uint32_t *expect);
/* FUTEX_WAKE_OP; @op is its val3. -ENOSYS no such operation, -EFAULT, -EINTR to be killed. */
int futex_wake_op(const struct futex_word *one, const struct futex_word *two, int nr_one,
		  int nr_two, uint32_t op);

/* --- shared by futex.c and futex_pi.c ---------------------------------------------------- */

struct futex_bucket *futex_bucket_of(const struct futex_key *key);
/* The bucket that @w is in now, locked: its caller tells the analysis so by assert_spin_held(). */
struct futex_bucket *futex_lock_bucket_of(struct futex_waiter *w);
void futex_lock_two(struct futex_bucket *a, struct futex_bucket *b) __acquires(&a->lock, &b->lock);
void futex_unlock_two(struct futex_bucket *a, struct futex_bucket *b)
	__releases(&a->lock, &b->lock);
/*
 * Have the page of the word at @addr there, readable, or writable too, for another try of an access
 * that found it missing. -EFAULT, -EINTR to be killed.
 */
int futex_fault_in(uint64_t addr, bool write) __must_check;
/* The first waiter of @key that no futex_pi has; NULL: there is none. */
struct futex_waiter *futex_first_locked(struct futex_bucket *b, const struct futex_key *key)
	__must_hold(&b->lock);

/* --- futex_pi.c: mutexes that lend priority ------------------------------------------------- */

/* Do tasks wait for the owner of the word @key? Then it has no waiters of other operations. */
bool futex_pi_waited_locked(struct futex_bucket *b, const struct futex_key *key)
	__must_hold(&b->lock);

/*
 * The calling task is to own @word. @try: it does not wait. 0, -EAGAIN owned by another, -EDEADLK,
 * -EINVAL the word and its waiters do not fit together, -ESRCH its owner is not there, -EPERM it is
 * the kernel, -EFAULT, -ENOMEM, -ETIMEDOUT, -EINTR.
 */
int futex_lock_pi(const struct futex_word *word, uint64_t deadline, bool try) __must_check;
/* The calling task gives @word to the first that waits. -EPERM not its owner; else as above. */
int futex_unlock_pi(const struct futex_word *word) __must_check;
/*
 * Wait at @from, if it is @val, to be moved to @to by futex_requeue_pi() and then to own that. As
 * futex_lock_pi(); -EAGAIN another value, or a signal came when it had been moved.
 */
int futex_wait_requeue_pi(const struct futex_word *from, uint32_t val, const struct futex_word *to,
			  uint64_t deadline) __must_check;
/* If @from is @expect its first waiter gets @to, or waits there, and up to @nr_move others do. */
int futex_requeue_pi(const struct futex_word *from, const struct futex_word *to, int nr_move,
		     uint32_t expect) __must_check;
/* The words that @t owns go to those that wait for them. @ends: it can own nothing from then on. */
void futex_pi_release(struct task *t, bool ends);
