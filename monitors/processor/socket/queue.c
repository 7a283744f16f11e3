/* SPDX-License-Identifier: MIT */
/*
 * Messages: making, queueing, freeing, and the memory that they take.
 *
 * Flow:	a message of up to a page lies in one block; a longer one has its first part in the
 *		message and the rest in a chain of chunks.
 * Limits:	messages of all sockets together take at most a sixteenth of the node's memory.
 */
#include "queue.h"

#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/vfs/uio.h>

#include "scm.h"

#define NODE_SHARE 16
#define CHUNK_DATA (PAGE_SIZE - sizeof(struct sock_chunk))

static int64_t total; /* atomic: bytes of all messages */

int64_t sock_memory(void)
{
	return __atomic_load_n(&total, __ATOMIC_RELAXED);
}

uint64_t socket_send_limit(const struct socket *s)
{
	const uint64_t own = READ_ONCE(s->sndbuf);

	/* Bytes of a TCP connection fill the receiver's window as well. */
	return s->family == AF_UNIX ? own : own + s->window;
}

bool socket_writable(const struct socket *s)
{
	const int64_t used = __atomic_load_n(&s->wmem, __ATOMIC_ACQUIRE);

	/* As Linux: it is worth writing when a good part of the buffer is free. */
	if (s->family == AF_UNIX)
		return (uint64_t)used * 4 <= READ_ONCE(s->sndbuf);
	return (uint64_t)used * 3 <= socket_send_limit(s) * 2;
}

/* --- making and freeing -------------------------------------------------------------- */

static void chunks_free(struct sock_msg *m)
{
	struct sock_chunk *c = m->more;

	while (c) {
		struct sock_chunk *next = c->next;

		kfree(c);
		c = next;
	}
}

/* The memory that a message takes is entered or, with a negative number, taken out. */
static void count_bytes(struct socket *from, int64_t bytes)
{
	__atomic_add_fetch(&total, bytes, __ATOMIC_RELAXED);
	if (from)
		__atomic_add_fetch(&from->wmem, bytes, __ATOMIC_ACQ_REL);
}

/* @cost bytes count for @a, up to the node's share for the sockets of all. */
bool sock_charge_take(struct kmem_account *a, uint64_t cost)
{
	const uint64_t max = frames_total_count() * PAGE_SIZE / NODE_SHARE;

	if (kmem_charge(a, cost))
		return false;
	if (kmem_take(a, KMEM_SOCKET_BYTES, cost, max))
		return true;
	kmem_uncharge(a, cost);
	return false;
}

void sock_charge_give(struct kmem_account *a, uint64_t cost)
{
	kmem_give(a, KMEM_SOCKET_BYTES, cost);
	kmem_uncharge(a, cost);
}

void sock_msg_free(struct sock_msg *m)
{
	struct socket *from = m->from;

	count_bytes(from, -(int64_t)m->cost);
	if (from) {
		if (socket_writable(from))
			socket_wake(&from->wr_wait);
		socket_put(from);
	}
	if (m->fds)
		scm_free(m->fds);
	kmem_free(m->aux);
	sock_charge_give(m->account, m->cost);
	chunks_free(m);
	if (m->loan)
		m->loan->end(m->loan);
	kfree(m);
}

/* The chain behind the first part. -ENOBUFS */
static int chunks_alloc(struct sock_msg *m, size_t left)
{
	struct sock_chunk **at = &m->more;

	while (left) {
		const uint32_t n = (uint32_t)MIN(left, CHUNK_DATA);
		struct sock_chunk *c = kmalloc(sizeof(*c) + n);

		if (!c)
			return -ENOBUFS;
		c->next = NULL;
		c->len = n;
		*at = c;
		at = &c->next;
		left -= n;
	}
	return 0;
}

static int fill(struct sock_msg *m, struct uio *uio)
{
	if (uio_fetch(uio, m->data, m->first) < m->first)
		return -EFAULT;
	for (struct sock_chunk *c = m->more; c; c = c->next) {
		if (uio_fetch(uio, c->data, c->len) < c->len)
			return -EFAULT;
	}
	return 0;
}

/* With room for @len bytes. ERR_PTR(-ENOBUFS). */
static struct sock_msg *alloc(size_t len, struct socket *from, struct kmem_account *account)
{
	const uint32_t first = (uint32_t)MIN(len, STREAM_CHUNK);
	const size_t nr_chunks = DIV_ROUND_UP(len - first, CHUNK_DATA);
	const int64_t cost =
		(int64_t)(sizeof(struct sock_msg) + len + nr_chunks * sizeof(struct sock_chunk));
	struct sock_msg *m;
	int err;

	if (!sock_charge_take(account, (uint64_t)cost))
		return ERR_PTR(-ENOBUFS);
	m = kmalloc(sizeof(*m) + first);
	if (!m) {
		sock_charge_give(account, (uint64_t)cost);
		return ERR_PTR(-ENOBUFS);
	}
	*m = (struct sock_msg){ .from = from,
				.account = account,
				.cost = (uint32_t)cost,
				.len = (uint32_t)len,
				.first = first };
	count_bytes(from, cost);
	if (from)
		socket_get(from);
	err = chunks_alloc(m, len - first);
	if (err) {
		sock_msg_free(m);
		return ERR_PTR(err);
	}
	m->stamp_ns = time_real_ns();
	return m;
}

static struct sock_msg *make(struct uio *uio, size_t len, struct socket *from,
			     struct kmem_account *account)
{
	struct sock_msg *m = alloc(len, from, account);
	const int err = IS_ERR(m) ? 0 : fill(m, uio);

	if (!err)
		return m;
	sock_msg_free(m);
	return ERR_PTR(err);
}

struct sock_msg *sock_msg_make(struct uio *uio, size_t len, struct socket *from)
{
	return make(uio, len, from, kmem_current());
}

struct sock_msg *sock_msg_copy_of(const void *data, size_t len, struct kmem_account *account)
{
	struct uio uio;

	uio_kernel(&uio, (void *)(uintptr_t)data, len); /* it is only read */
	return make(&uio, len, NULL, account);
}

struct sock_msg *sock_msg_alloc(size_t len, struct kmem_account *account)
{
	return alloc(len, NULL, account);
}

struct sock_msg *sock_msg_lend(struct sock_loan *loan, size_t len, struct kmem_account *account)
{
	struct sock_msg *m = alloc(0, NULL, account);

	if (IS_ERR(m))
		return m;
	m->loan = loan;
	m->len = m->first = (uint32_t)len;
	return m;
}

void sock_msg_fill(struct sock_msg *m, size_t off, const void *data, size_t len)
{
	const uint8_t *from = data;
	struct sock_chunk *c = m->more;
	uint8_t *to = m->data;
	size_t have = m->first;

	ASSERT(off <= m->len && len <= m->len - off);
	while (len) {
		if (off < have) {
			const size_t n = MIN(len, have - off);

			memcpy(to + off, from, n);
			from += n;
			len -= n;
			off = 0;
		} else {
			off -= have;
		}
		if (len) {
			to = c->data;
			have = c->len;
			c = c->next;
		}
	}
}

/* --- reading ------------------------------------------------------------------------- */

size_t sock_msg_copy(const struct sock_msg *m, size_t off, size_t len, struct uio *uio)
{
	const struct sock_chunk *c = m->more;
	const uint8_t *data = m->loan ? m->loan->data : m->data;
	size_t have = m->first, done = 0;

	off += m->off;
	for (;;) {
		if (off < have) {
			const size_t n = MIN(len - done, have - off);
			const size_t put = uio_put(uio, data + off, n);

			done += put;
			if (put < n)
				return done;
			off = 0;
		} else {
			off -= have;
		}
		if (done == len || !c)
			return done;
		data = c->data;
		have = c->len;
		c = c->next;
	}
}

static void count_in_locked(struct socket *s, const struct sock_msg *m) __must_hold(&s->lock)
{
	assert_spin_held(&s->lock);
	__atomic_store_n(&s->queued, s->queued + m->cost, __ATOMIC_RELEASE);
	__atomic_store_n(&s->readable, s->readable + m->len, __ATOMIC_RELEASE);
	__atomic_store_n(&s->nr_queued, s->nr_queued + 1, __ATOMIC_RELEASE);
}

static void push_locked(struct socket *s, struct sock_msg *m) __must_hold(&s->lock)
{
	assert_spin_held(&s->lock);
	list_add_tail(&m->node, &s->queue);
	count_in_locked(s, m);
}

void sock_queue_release_locked(struct socket *s)
{
	struct sock_msg *m;

	assert_spin_held(&s->lock);
	while ((m = list_first_entry_or_null(&s->held, struct sock_msg, node))) {
		list_del(&m->node);
		push_locked(s, m);
	}
	s->held_len = 0;
}

void sock_queue_push_locked(struct socket *s, struct sock_msg *m)
{
	assert_spin_held(&s->lock);
	ASSERT(!s->dead);
	if (unlikely(!list_empty(&s->held)))
		sock_queue_release_locked(s);
	push_locked(s, m);
}

void sock_queue_hold_locked(struct socket *s, struct sock_msg *m, uint32_t limit)
{
	assert_spin_held(&s->lock);
	ASSERT(!s->dead);
	if (list_empty(&s->held))
		s->held_ns = time_now_ns();
	list_add_tail(&m->node, &s->held);
	s->held_len += m->len;
	if (s->held_len >= limit)
		sock_queue_release_locked(s);
}

void socket_release_held(struct socket *s)
{
	spin_lock(&s->lock);
	if (!s->dead)
		sock_queue_release_locked(s);
	spin_unlock(&s->lock);
	socket_wake(&s->rd_wait);
}

void sock_queue_pop_locked(struct socket *s, struct sock_msg *m)
{
	assert_spin_held(&s->lock);
	ASSERT(s->nr_queued > 0 && s->queued >= m->cost && s->readable >= m->len);
	list_del(&m->node);
	__atomic_store_n(&s->queued, s->queued - m->cost, __ATOMIC_RELEASE);
	__atomic_store_n(&s->readable, s->readable - m->len, __ATOMIC_RELEASE);
	__atomic_store_n(&s->nr_queued, s->nr_queued - 1, __ATOMIC_RELEASE);
}

struct sock_msg *sock_queue_first_locked(const struct socket *s)
{
	assert_spin_held(&s->lock);
	return list_first_entry_or_null(&s->queue, struct sock_msg, node);
}

void sock_queue_own(struct socket *s)
{
	struct sock_msg *m, *own = NULL;

	assert_mutex_held(&s->recv_lock);
	spin_lock(&s->lock);
	m = sock_queue_first_locked(s);
	spin_unlock(&s->lock);
	if (!m || likely(!m->loan))
		return;
	own = sock_msg_copy_of((const uint8_t *)m->loan->data + m->off, m->len, m->account);
	if (IS_ERR(own))
		return; /* it ends when the bytes have been read */
	own->cred = m->cred;
	own->stamp_ns = m->stamp_ns;
	spin_lock(&s->lock);
	sock_queue_pop_locked(s, m);
	list_add(&own->node, &s->queue);
	count_in_locked(s, own);
	spin_unlock(&s->lock);
	sock_msg_free(m);
}

void sock_queue_purge(struct socket *s)
{
	struct sock_msg *m;

	/* A reader knows a message between two sections of the lock. */
	ASSERT(READ_ONCE(s->dead) || mutex_is_mine(&s->recv_lock));
	do {
		spin_lock(&s->lock);
		sock_queue_release_locked(s);
		m = sock_queue_first_locked(s);
		if (m)
			sock_queue_pop_locked(s, m);
		spin_unlock(&s->lock);
		if (m)
			sock_msg_free(m);
	} while (m);
}
