/* SPDX-License-Identifier: MIT */
/*
 * POSIX message queues: messages and the threads that wait for them. See mqueue_private.h.
 *
 * Flow:	messages lie in a tree, highest priority first, then by their coming. Threads wait
 *		in the order in which they came. A receiver that waits gets the next message itself,
 *		which then never was in the queue and notifies nobody; a receiver that makes room
 *		enters the message of the sender that waits longest.
 */
#include "mqueue.h"

#include <kernel/panic.h>
#include <lib/err.h>
#include <processor/account/account.h>

#include "mqueue_private.h"

struct mq_waiter { /* on the waiting thread's stack */
	struct list_head link;
	struct mq_msg *msg;
	bool done; /* written under the lock, read without it */
	struct waitqueue wq;
};

void mqueue_init(struct mqueue *q)
{
	lock_not_needed(&q->lock, "nothing else knows the queue yet");
	mutex_init(&q->lock, "mqueue", RANK_MONITOR);
	q->messages = RB_ROOT;
	list_init(&q->senders);
	list_init(&q->receivers);
	waitqueue_init(&q->changed);
}

/* --- messages ------------------------------------------------------------------------ */

static int cmp(const struct rb_node *a, const struct rb_node *b)
{
	const struct mq_msg *x = rb_entry(a, struct mq_msg, node);
	const struct mq_msg *y = rb_entry(b, struct mq_msg, node);

	if (x->prio != y->prio)
		return x->prio > y->prio ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static void put_locked(struct mqueue *q, struct mq_msg *m) __must_hold(&q->lock)
{
	struct rb_node *there;

	assert_mutex_held(&q->lock);
	ASSERT(q->nr < q->max_msg);
	m->seq = q->seq++;
	there = rb_insert(&m->node, &q->messages, cmp);
	ASSERT(!there);
	q->bytes += m->len;
	WRITE_ONCE(q->nr, q->nr + 1);
}

static struct mq_msg *get_locked(struct mqueue *q) __must_hold(&q->lock)
{
	struct mq_msg *m;

	assert_mutex_held(&q->lock);
	ASSERT(q->nr);
	m = rb_entry(rb_first(&q->messages), struct mq_msg, node);
	rb_erase(&m->node, &q->messages);
	q->bytes -= m->len;
	WRITE_ONCE(q->nr, q->nr - 1);
	return m;
}

void mqueue_empty(struct mqueue *q)
{
	mutex_lock(&q->lock);
	while (q->nr)
		kmem_free(get_locked(q));
	mutex_unlock(&q->lock);
}

/* --- waiting ------------------------------------------------------------------------- */

/* It may be gone as soon as the lock is dropped. */
static void waiter_done_locked(struct mqueue *q, struct mq_waiter *w) __must_hold(&q->lock)
{
	assert_mutex_held(&q->lock);
	list_del(&w->link);
	__atomic_store_n(&w->done, true, __ATOMIC_RELEASE);
	wake_all(&w->wq);
}

/* 0: another thread has done with @w what it waits for. */
static int wait_locked(struct mqueue *q, struct list_head *list, struct mq_waiter *w,
		       uint64_t deadline) __must_hold(&q->lock)
{
	int err;

	assert_mutex_held(&q->lock);
	waitqueue_init(&w->wq);
	list_add_tail(&w->link, list);
	mutex_unlock(&q->lock);
	err = wait_event_interruptible_timeout(&w->wq, __atomic_load_n(&w->done, __ATOMIC_ACQUIRE),
					       deadline);
	mutex_lock(&q->lock);
	if (w->done)
		return 0;
	list_del(&w->link);
	return err == -EINTR ? -ERESTARTSYS : err;
}

static struct mq_waiter *first_of(struct list_head *list)
{
	return list_first_entry_or_null(list, struct mq_waiter, link);
}

/* --- sending and receiving ----------------------------------------------------------- */

int mqueue_send(struct mqueue *q, struct mq_msg *m, bool nonblock, uint64_t deadline)
{
	struct mq_notify n = { 0 };
	struct mq_waiter w = { .msg = m }, *r;
	int err = mutex_lock_killable(&q->lock);

	if (err)
		return -ERESTARTSYS;
	r = first_of(&q->receivers);
	if (r) {
		r->msg = m;
		waiter_done_locked(q, r);
	} else if (q->nr < q->max_msg) {
		put_locked(q, m);
		if (q->nr == 1)
			n = mq_notify_take_locked(q);
		wake_all(&q->changed);
	} else {
		err = nonblock ? -EAGAIN : wait_locked(q, &q->senders, &w, deadline);
	}
	mutex_unlock(&q->lock);
	mq_notify_send(&n);
	return err;
}

struct mq_msg *mqueue_receive(struct mqueue *q, bool nonblock, uint64_t deadline)
{
	struct mq_waiter w = { 0 }, *s;
	int err = mutex_lock_killable(&q->lock);

	if (err)
		return ERR_PTR(-ERESTARTSYS);
	if (q->nr) {
		w.msg = get_locked(q);
		s = first_of(&q->senders);
		if (s) {
			put_locked(q, s->msg);
			waiter_done_locked(q, s);
		}
		wake_all(&q->changed);
	} else {
		err = nonblock ? -EAGAIN : wait_locked(q, &q->receivers, &w, deadline);
	}
	mutex_unlock(&q->lock);
	return err ? ERR_PTR(err) : w.msg;
}
