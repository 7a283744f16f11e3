/* SPDX-License-Identifier: MIT */
/*
 * TCP sockets whose peer is on another processor of the vNode: their operations.
 *
 * Flow:	a socket gets these operations when connect() finds its listener on another
 *		processor, or when it is made for a connection from one; a connect() that fails
 *		gives tcp_ops back. Bytes that arrive lie in the socket's queue, as those of a
 *		peer on this processor do, so receiving is the same. Bytes to be sent are copied
 *		once, into a buffer that the device reads or that is part of a message.
 * Locking:	remote_conn.send_lock lets one call at a time append, and is held over the copy from
 *		user memory.
 * Failure:	bytes that were taken before an error are returned.
 */
#include <abi/poll.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <processor/account/account.h>
#include <processor/vfs/uio.h>

#include "queue.h"
#include "remote_private.h"

/* --- sending ---------------------------------------------------------------------------- */

/* Is there a buffer to append to, or may one be made? */
static bool has_room(const struct remote_conn *c)
{
	const struct remote_buf *next = READ_ONCE(c->next);

	return !next || READ_ONCE(next->len) < next->cap || READ_ONCE(c->state) == REMOTE_GONE;
}

static bool may_send(const struct socket *s, struct remote_conn *c)
{
	bool yes;

	spin_lock(&c->lock);
	yes = has_room(c);
	spin_unlock(&c->lock);
	return yes || (READ_ONCE(s->shut) & SOCKET_SHUT_WR) || READ_ONCE(s->error);
}

/*
 * The buffer to append to, with room, which stays until end_filling(); NULL: there is none yet.
 * *@full: nor may one be made.
 */
static struct remote_buf *begin_filling_locked(struct remote_conn *c, bool *full)
	__must_hold(&c->lock)
{
	struct remote_buf *b = c->next ? c->next : c->cur;

	assert_spin_held(&c->lock);
	ASSERT(!c->filling);
	*full = false;
	if (c->state == REMOTE_GONE)
		return NULL;
	if (b && b->len < b->cap)
		c->filling = b;
	else
		*full = c->next != NULL;
	return c->filling;
}

/* @made is behind the others from here on. */
static void append_locked(struct remote_conn *c, struct remote_buf *made) __must_hold(&c->lock)
{
	assert_spin_held(&c->lock);
	ASSERT(!c->next && !c->filling);
	if (c->cur)
		c->next = made;
	else
		c->cur = made;
	c->filling = made;
}

/* The buffer for the next of @left bytes. NULL: *@err; MUST_WAIT for room. */
#define MUST_WAIT 1
static struct remote_buf *get_room(struct remote_conn *c, uint64_t left, int *err)
	__must_hold(&c->send_lock)
{
	struct remote_buf *b, *made;
	bool full, gone;

	assert_mutex_held(&c->send_lock);
	spin_lock(&c->lock);
	b = begin_filling_locked(c, &full);
	gone = c->state == REMOTE_GONE;
	spin_unlock(&c->lock);
	*err = gone ? -EPIPE : full ? MUST_WAIT : 0;
	if (b || *err)
		return b;
	made = remote_buf_make(kmem_account_of(c), left);
	if (!made) {
		*err = -ENOBUFS;
		return NULL;
	}
	spin_lock(&c->lock);
	gone = c->state == REMOTE_GONE;
	if (!gone)
		append_locked(c, made);
	spin_unlock(&c->lock);
	if (!gone)
		return made;
	remote_buf_free(made);
	*err = -EPIPE;
	return NULL;
}

static void end_filling(struct remote_conn *c, struct remote_buf *b, uint32_t n)
{
	spin_lock(&c->lock);
	ASSERT(c->filling == b && n <= b->cap - b->len);
	b->len += n;
	c->filling = NULL;
	if (c->state == REMOTE_GONE)
		remote_drop_bufs_locked(c);
	spin_unlock(&c->lock);
}

/* Take some bytes. How many; MUST_WAIT with *@wait; or the errno. */
static ssize_t send_some_locked(struct remote_conn *c, struct socket_msg *m, bool *wait)
	__must_hold(&c->send_lock)
{
	struct remote_buf *b;
	uint32_t n;
	size_t got;
	int err;

	assert_mutex_held(&c->send_lock);
	b = get_room(c, m->uio->left, &err);
	*wait = err == MUST_WAIT;
	if (!b)
		return *wait ? 0 : err;
	n = (uint32_t)MIN(m->uio->left, (uint64_t)(b->cap - b->len));
	got = uio_fetch(m->uio, b->data + b->len, n);
	end_filling(c, b, (uint32_t)got);
	return got ? (ssize_t)got : -EFAULT;
}

/* The errno that keeps @s from sending for good; 0: none. */
static int broken(struct socket *s)
{
	const int err = socket_take_error(s);

	return err ? -err : READ_ONCE(s->shut) & SOCKET_SHUT_WR ? -EPIPE : 0;
}

static int wait_room(struct socket *s, struct remote_conn *c, uint64_t deadline)
{
	int err;

	if (!deadline)
		return -EAGAIN;
	err = wait_event_interruptible_timeout(&s->wr_wait, may_send(s, c), deadline);
	return err ? socket_wait_error(err, READ_ONCE(s->sndtimeo_ns)) : 0;
}

static ssize_t send_all(struct socket *s, struct remote_conn *c, struct socket_msg *m)
{
	const uint64_t deadline =
		socket_deadline(READ_ONCE(s->sndtimeo_ns), m->flags & MSG_DONTWAIT);
	ssize_t ret, done = 0;
	bool wait;

	do {
		ret = broken(s);
		if (ret || !m->uio->left)
			break;
		ret = mutex_lock_killable(&c->send_lock);
		if (ret)
			break;
		ret = send_some_locked(c, m, &wait);
		mutex_unlock(&c->send_lock);
		if (ret > 0) {
			done += ret;
			ret = 0;
			remote_kick(c);
		} else if (wait) {
			ret = wait_room(s, c, deadline);
		}
	} while (!ret && m->uio->left);
	return done ? done : ret;
}

static ssize_t remote_send(struct socket *s, struct socket_msg *m)
{
	struct remote_conn *c;
	ssize_t ret = tcp_begin_send(s, m->flags);

	if (ret)
		return ret;
	c = remote_of(s);
	if (!c)
		return -EPIPE;
	ret = send_all(s, c, m);
	remote_put(c);
	return ret;
}

/* --- receiving -------------------------------------------------------------------------- */

/* The sender may wait for room, also in the middle of a call that wants more than there is. */
static void bytes_consumed(struct socket *s)
{
	struct remote_conn *c = remote_of(s);

	if (!c)
		return;
	remote_consumed(c, s);
	remote_put(c);
}

/* --- state ------------------------------------------------------------------------------ */

static int remote_shutdown(struct socket *s, unsigned int how)
{
	struct remote_conn *c;

	if (READ_ONCE(s->state) != SOCKET_CONNECTED)
		return -ENOTCONN;
	socket_shut(s, how + 1, 0);
	c = (how + 1) & SOCKET_SHUT_WR ? remote_of(s) : NULL;
	if (c) {
		remote_end(c);
		remote_put(c);
	}
	return 0;
}

static unsigned int remote_poll(struct socket *s)
{
	const uint32_t shut = __atomic_load_n(&s->shut, __ATOMIC_ACQUIRE);
	const uint32_t state = READ_ONCE(s->state);
	struct remote_conn *c = remote_of(s);
	unsigned int events = READ_ONCE(s->error) ? POLLERR : 0;

	if (shut == SOCKET_SHUT_BOTH || state == SOCKET_CLOSED)
		events |= POLLHUP;
	if (shut & SOCKET_SHUT_RD)
		events |= POLLIN | POLLRDNORM | POLLRDHUP;
	if (state != SOCKET_CONNECTING) {
		if (READ_ONCE(s->readable) >= READ_ONCE(s->rcvlowat))
			events |= POLLIN | POLLRDNORM;
		/* As elsewhere: it is worth writing when a good part of the room is free. */
		if (!c || (shut & SOCKET_SHUT_WR) || !READ_ONCE(c->next) ||
		    READ_ONCE(c->state) == REMOTE_GONE)
			events |= POLLOUT | POLLWRNORM;
	}
	if (c)
		remote_put(c);
	return events;
}

static uint64_t remote_outq(struct socket *s)
{
	struct remote_conn *c = remote_of(s);
	uint64_t bytes = 0;

	if (!c)
		return 0;
	spin_lock(&c->lock);
	if (c->cur)
		bytes += c->cur->len - c->cur->sent;
	if (c->next)
		bytes += c->next->len;
	spin_unlock(&c->lock);
	remote_put(c);
	return bytes;
}

static void remote_release(struct socket *s)
{
	const bool linger0 = socket_option(s, SOCKET_LINGER) && !READ_ONCE(s->linger_s);
	struct remote_conn *c;
	bool unread;

	inet_leave(s);
	spin_lock(&s->lock);
	s->dead = true;
	unread = s->nr_queued > 0;
	c = s->remote_conn;
	s->remote_conn = NULL;
	__atomic_store_n(&s->state, SOCKET_CLOSED, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	sock_queue_purge(s);
	if (!c)
		return;
	remote_close(c, unread || linger0 || s->unaccepted);
	remote_put(c);
}

const struct socket_ops remote_ops = {
	.name = "tcp",
	.size = sizeof(struct inet_socket),
	.init = tcp_init_socket,
	.connect = tcp_connect_to,
	.sendmsg = remote_send,
	.recvmsg = tcp_recvmsg,
	.shutdown = remote_shutdown,
	.poll = remote_poll,
	.getname = inet_getname,
	.setsockopt = inet_setsockopt,
	.getsockopt = inet_getsockopt,
	.outq = remote_outq,
	.consumed = bytes_consumed,
	.release = remote_release,
};
