/* SPDX-License-Identifier: MIT */
/*
 * Sockets whose peer is on another processor of the vNode: sending, and the operations of TCP.
 *
 * Flow:	a TCP socket gets these operations when connect() finds its listener on another
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

/* Room that is worth beginning with, for @left bytes. */
static uint64_t least_room(const struct remote_conn *c, uint64_t left)
{
	const uint64_t head = c->kind->records ? REMOTE_RECORD : 0;

	return head + (c->kind->packets ? left : 1);
}

static bool may_send(const struct socket *s, struct remote_conn *c, uint64_t least)
{
	bool yes;

	spin_lock(&c->lock);
	/* Is there a buffer to append to, or may one be made? */
	yes = !c->next || c->next->cap - c->next->len >= least || c->state == REMOTE_GONE;
	spin_unlock(&c->lock);
	return yes || (READ_ONCE(s->shut) & SOCKET_SHUT_WR) || READ_ONCE(s->error);
}

/*
 * The buffer to append to, with room for @least bytes, which stays until end_filling(); NULL: there
 * is none yet.
 * *@full: nor may one be made.
 */
static struct remote_buf *begin_filling_locked(struct remote_conn *c, uint64_t least, bool *full)
	__must_hold(&c->lock)
{
	struct remote_buf *b = c->next ? c->next : c->cur;

	assert_spin_held(&c->lock);
	ASSERT(!c->filling);
	*full = false;
	if (c->state == REMOTE_GONE)
		return NULL;
	if (b && b->cap - b->len >= least)
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
	const uint64_t least = least_room(c, left);
	struct remote_buf *b, *made;
	bool full, gone, more;

	assert_mutex_held(&c->send_lock);
	spin_lock(&c->lock);
	more = c->cur && c->cur->mem;
	b = begin_filling_locked(c, least, &full);
	gone = c->state == REMOTE_GONE;
	spin_unlock(&c->lock);
	*err = gone ? -EPIPE : full ? MUST_WAIT : 0;
	if (b || *err)
		return b;
	/* More follows a large buffer, as a rule: the rest of a call alone would be a message. */
	if (more && !c->kind->packets)
		left = MAX(left, (uint64_t)REMOTE_LARGE);
	made = c->kind->packets ? remote_buf_make_whole(kmem_account_of(c), least)
				: remote_buf_make(kmem_account_of(c), least - 1 + left);
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
	if (n)
		remote_answered_locked(c, b->len);
	c->filling = NULL;
	if (c->state == REMOTE_GONE)
		remote_drop_bufs_locked(c);
	spin_unlock(&c->lock);
}

/* Take some bytes. How many; MUST_WAIT with *@wait; or the errno. */
static ssize_t send_some_locked(struct remote_conn *c, struct socket_msg *m, bool *wait)
	__must_hold(&c->send_lock)
{
	const uint32_t head = c->kind->records ? REMOTE_RECORD : 0;
	struct remote_buf *b;
	uint32_t n;
	size_t got;
	int err;

	assert_mutex_held(&c->send_lock);
	b = get_room(c, m->uio->left, &err);
	*wait = err == MUST_WAIT;
	if (!b)
		return *wait ? 0 : err;
	n = (uint32_t)MIN(m->uio->left, (uint64_t)(b->cap - b->len - head));
	got = uio_fetch(m->uio, b->data + b->len + head, n);
	if (got < n && (c->kind->packets || !got)) {
		end_filling(c, b, 0);
		return -EFAULT;
	}
	if (head)
		remote_record_put(b->data + b->len, (uint32_t)got, &m->cred);
	end_filling(c, b, head + (uint32_t)got);
	return (ssize_t)got;
}

/* The errno that keeps @s from sending for good; 0: none. */
static int broken(struct socket *s)
{
	const int err = socket_take_error(s);

	return err ? -err : READ_ONCE(s->shut) & SOCKET_SHUT_WR ? -EPIPE : 0;
}

struct room {
	const struct socket *s;
	struct remote_conn *c;
	uint64_t least;
};

static bool has_room(void *arg)
{
	const struct room *r = arg;

	return may_send(r->s, r->c, r->least);
}

/* The peer takes the bytes soon: as a reader does, poll for its reply before sleeping. */
static int wait_room(struct socket *s, struct remote_conn *c, uint64_t least, uint64_t deadline)
{
	struct room room = { .s = s, .c = c, .least = least };
	uint64_t start;
	int err = 0;

	if (!deadline)
		return -EAGAIN;
	start = time_now_ns();
	if (!rpc_poll_until(&c->room_spin, has_room, &room))
		err = wait_event_interruptible_timeout(&s->wr_wait, has_room(&room), deadline);
	if (!err || err == -ETIMEDOUT)
		rpc_spin_waited(&c->room_spin, time_now_ns() - start);
	return err ? socket_wait_error(err, READ_ONCE(s->sndtimeo_ns)) : 0;
}

ssize_t remote_send_some(struct socket *s, struct remote_conn *c, struct socket_msg *m,
			 uint64_t deadline)
{
	ssize_t ret;
	bool wait;

	for (;;) {
		ret = mutex_lock_killable(&c->send_lock);
		if (ret)
			return ret;
		ret = send_some_locked(c, m, &wait);
		mutex_unlock(&c->send_lock);
		if (!wait)
			break;
		ret = wait_room(s, c, least_room(c, m->uio->left), deadline);
		if (!ret)
			ret = broken(s);
		if (ret)
			return ret;
	}
	if (ret >= 0)
		remote_kick(c);
	return ret;
}

static ssize_t send_all(struct socket *s, struct remote_conn *c, struct socket_msg *m)
{
	const uint64_t deadline =
		socket_deadline(READ_ONCE(s->sndtimeo_ns), m->flags & MSG_DONTWAIT);
	ssize_t ret, done = 0;

	do {
		ret = broken(s);
		if (ret || !m->uio->left)
			break;
		ret = remote_send_some(s, c, m, deadline);
		done += MAX(ret, (ssize_t)0);
	} while (ret >= 0 && m->uio->left);
	return done ? done : ret;
}

static ssize_t remote_send(struct socket *s, struct socket_msg *m)
{
	struct remote_conn *c;
	ssize_t ret = tcp_begin_send(s, m->flags);

	if (ret)
		return ret;
	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	c = remote_of(s);
	if (!c)
		return -EPIPE;
	ret = send_all(s, c, m);
	remote_put(c);
	return ret;
}

/* --- receiving -------------------------------------------------------------------------- */

/* The sender may wait for room, also in the middle of a call that wants more than there is. */
void remote_bytes_consumed(struct socket *s)
{
	struct remote_conn *c = remote_of(s);

	if (!c)
		return;
	remote_consumed(c, s);
	remote_put(c);
}

static bool has_come(void *arg)
{
	return socket_may_receive(arg);
}

/* Of a dialogue the next bytes come soon: an interrupt and a wake-up would be most of the wait. */
bool remote_poll_for_bytes(struct socket *s)
{
	struct remote_conn *c = remote_of(s);
	bool there = false;

	if (c) {
		there = rpc_poll_until(&c->spin, has_come, s);
		remote_put(c);
	}
	return there;
}

void remote_waited(struct socket *s, uint64_t ns)
{
	struct remote_conn *c = remote_of(s);

	if (!c)
		return;
	rpc_spin_waited(&c->spin, ns);
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

bool remote_may_write(struct socket *s)
{
	struct remote_conn *c = remote_of(s);
	/* As elsewhere: it is worth writing when a good part of the room is free. */
	const bool yes = !c || !READ_ONCE(c->next) || READ_ONCE(c->state) == REMOTE_GONE;

	if (c)
		remote_put(c);
	return yes;
}

static unsigned int remote_poll(struct socket *s)
{
	const uint32_t shut = __atomic_load_n(&s->shut, __ATOMIC_ACQUIRE);
	const uint32_t state = READ_ONCE(s->state);
	unsigned int events = READ_ONCE(s->error) ? POLLERR : 0;

	if (shut == SOCKET_SHUT_BOTH || state == SOCKET_CLOSED)
		events |= POLLHUP;
	if (shut & SOCKET_SHUT_RD)
		events |= POLLIN | POLLRDNORM | POLLRDHUP;
	if (state != SOCKET_CONNECTING) {
		if (READ_ONCE(s->readable) >= READ_ONCE(s->rcvlowat))
			events |= POLLIN | POLLRDNORM;
		if ((shut & SOCKET_SHUT_WR) || remote_may_write(s))
			events |= POLLOUT | POLLWRNORM;
	}
	return events;
}

uint64_t remote_outq(struct socket *s)
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

void remote_release_conn(struct socket *s, bool abort)
{
	struct remote_conn *c;
	bool unread;

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
	remote_close(c, unread || abort || s->unaccepted);
	remote_put(c);
}

static void remote_release(struct socket *s)
{
	inet_release(s);
	remote_release_conn(s, socket_option(s, SOCKET_LINGER) && !READ_ONCE(s->linger_s));
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
	.setsockopt = remote_setsockopt,
	.getsockopt = inet_getsockopt,
	.option_changed = remote_option_changed,
	.outq = remote_outq,
	.consumed = remote_bytes_consumed,
	.poll_for_bytes = remote_poll_for_bytes,
	.waited = remote_waited,
	.release = remote_release,
};
