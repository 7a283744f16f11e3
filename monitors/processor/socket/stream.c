/* SPDX-License-Identifier: MIT */
/*
 * Sending and receiving over the queues: streams, and single messages.
 *
 * Locking:	see "socket.h". A receiver holds recv_lock from its look at the head of the queue to
 *		the end of its copy, and lets go of it while it waits.
 * Failure:	bytes that were moved before a fault or a signal are returned.
 */
#include "queue.h"

#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <processor/process/process.h>
#include <processor/vfs/uio.h>

#include "inet_private.h"
#include "scm.h"

/* Not an errno: to be tried again when something has changed. */
#define MUST_WAIT 1

/* --- sending ------------------------------------------------------------------------- */

static bool may_send(const struct socket *s)
{
	return socket_has_room(s) || (READ_ONCE(s->shut) & SOCKET_SHUT_WR) || READ_ONCE(s->error);
}

int socket_wait_room(struct socket *s, uint64_t deadline_ns)
{
	int err;

	if (may_send(s))
		return 0;
	if (!deadline_ns)
		return -EAGAIN;
	err = wait_event_interruptible_timeout(&s->wr_wait, may_send(s), deadline_ns);
	return err ? socket_wait_error(err, READ_ONCE(s->sndtimeo_ns)) : 0;
}

/* Append @msg, of a call with @hold, to @to's queue. -EPIPE: that one takes nothing any more. */
static int append(struct socket *to, struct sock_msg *msg, uint32_t hold)
{
	struct scm_fds *fds = msg->fds;
	const bool urgent = msg->urgent; /* it may be read and gone in a moment */
	struct sock_msg *old = NULL;
	int err = 0;

	if (fds)
		scm_enqueue(fds, to);
	spin_lock(&to->lock);
	if (to->dead || (to->family == AF_UNIX && (to->shut & SOCKET_SHUT_RD)))
		err = -EPIPE;
	else if (msg->urgent)
		old = tcp_urgent_push_locked(to, msg);
	else if (hold)
		sock_queue_hold_locked(to, msg, hold);
	else
		sock_queue_push_locked(to, msg);
	spin_unlock(&to->lock);
	if (old)
		sock_msg_free(old);
	if (!err && urgent)
		socket_signal_urgent(to);
	if (!err)
		socket_wake(&to->rd_wait);
	else if (fds)
		scm_dequeue(fds);
	return err;
}

/* The errno that keeps @s from sending for good; 0: none. */
static int broken(struct socket *s)
{
	const int err = socket_take_error(s);

	if (err && s->family != AF_UNIX)
		return -err;
	return READ_ONCE(s->shut) & SOCKET_SHUT_WR ? -EPIPE : 0;
}

/* One message of a stream, with the ancillary data of @m if it is the first. */
static int send_chunk(struct socket *s, struct socket *peer, struct socket_msg *m, ssize_t *done)
{
	/* The last byte of a call with MSG_OOB is a message of its own. */
	const bool oob = m->flags & MSG_OOB;
	const size_t len = MIN(m->uio->left - (oob && m->uio->left > 1), (uint64_t)STREAM_CHUNK);
	const bool urgent = oob && m->uio->left == 1;
	struct sock_msg *msg = sock_msg_make(m->uio, len, s);
	int err;

	if (IS_ERR(msg))
		return PTR_ERR(msg);
	msg->cred = m->cred;
	msg->fds = m->fds;
	msg->urgent = urgent;
	err = append(peer, msg, m->hold);
	if (err) {
		msg->fds = NULL; /* still the caller's */
		sock_msg_free(msg);
		return err;
	}
	m->fds = NULL;
	*done += (ssize_t)len;
	return 0;
}

ssize_t socket_send_stream(struct socket *s, struct socket_msg *m)
{
	const uint64_t deadline =
		socket_deadline(READ_ONCE(s->sndtimeo_ns), m->flags & MSG_DONTWAIT);
	struct socket *peer = socket_peer_get(s);
	ssize_t done = 0;
	int err = 0;

	if (!peer)
		return -ENOTCONN;
	do {
		err = broken(s);
		if (!err && !m->uio->left)
			break;
		/* There is no room before the peer has read what is held back, too. */
		if (!err && unlikely(!socket_has_room(s)))
			socket_release_held(peer);
		if (!err)
			err = socket_wait_room(s, deadline);
		if (!err)
			err = broken(s);
		if (!err)
			err = send_chunk(s, peer, m, &done);
	} while (!err && m->uio->left);
	socket_put(peer);
	return done ? done : err;
}

/* --- receiving ----------------------------------------------------------------------- */

bool socket_may_receive(const struct socket *s)
{
	return __atomic_load_n(&s->nr_queued, __ATOMIC_ACQUIRE) || READ_ONCE(s->error) ||
	       (READ_ONCE(s->shut) & SOCKET_SHUT_RD);
}

static void say_wanted(struct socket *s, uint64_t wanted)
{
	spin_lock(&s->lock);
	s->wanted = wanted;
	spin_unlock(&s->lock);
}

/* Wait for something to read, @wanted bytes of a stream; the errno that ends the call. */
static int wait_to_read(struct socket *s, uint64_t wanted, uint64_t deadline)
{
	const uint64_t timeo = READ_ONCE(s->rcvtimeo_ns);
	const uint64_t start = s->ops->waited ? time_now_ns() : 0;
	int err = 0;

	if (!deadline)
		return -EAGAIN;
	if (s->ops->poll_for_bytes)
		say_wanted(s, wanted);
	if (!s->ops->poll_for_bytes || !s->ops->poll_for_bytes(s))
		err = wait_event_interruptible_timeout(&s->rd_wait, socket_may_receive(s),
						       deadline);
	if (s->ops->poll_for_bytes)
		say_wanted(s, 0);
	if (s->ops->waited && (!err || err == -ETIMEDOUT))
		s->ops->waited(s, time_now_ns() - start);
	return err ? socket_wait_error(err, timeo) : 0;
}

static struct sock_msg *first_msg(struct socket *s)
{
	struct sock_msg *msg;

	if (!__atomic_load_n(&s->nr_queued, __ATOMIC_ACQUIRE))
		return NULL;
	spin_lock(&s->lock);
	msg = sock_queue_first_locked(s);
	spin_unlock(&s->lock);
	return msg;
}

static struct sock_msg *next_msg(struct socket *s, struct sock_msg *msg)
{
	spin_lock(&s->lock);
	msg = list_is_last(&msg->node, &s->queue) ? NULL : list_next_entry(msg, node);
	spin_unlock(&s->lock);
	return msg;
}

/* Files and credentials of @msg go to @m. */
static void take_ancillary(struct sock_msg *msg, struct socket_msg *m, bool peek)
{
	m->cred = msg->cred;
	m->has_cred = true;
	m->stamp_ns = msg->stamp_ns;
	if (!msg->fds || m->fds)
		return;
	if (peek) {
		m->fds = scm_copy(msg->fds);
	} else {
		m->fds = msg->fds;
		msg->fds = NULL;
		scm_dequeue(m->fds);
	}
}

/* @n bytes of a stream's first message have been read. */
static void consume(struct socket *s, struct sock_msg *msg, uint32_t n)
{
	spin_lock(&s->lock);
	if (n == msg->len) {
		if (msg->urgent)
			s->urgent = 0;
		sock_queue_pop_locked(s, msg);
	} else {
		__atomic_store_n(&s->readable, s->readable - n, __ATOMIC_RELEASE);
		msg->off += n;
		msg->len -= n;
		msg = NULL;
	}
	spin_unlock(&s->lock);
	if (msg)
		sock_msg_free(msg);
	if (s->ops->consumed)
		s->ops->consumed(s);
}

static bool same_cred(const struct socket_cred *a, const struct socket_cred *b)
{
	return a->pid == b->pid && a->uid == b->uid && a->gid == b->gid;
}

/* May the bytes of @msg follow those already in @m, or does the receiver have to see a border? */
static bool continues(const struct socket *s, const struct sock_msg *msg,
		      const struct socket_msg *m)
{
	if (m->fds)
		return false;
	return !socket_option(s, SOCKET_PASSCRED) || same_cred(&msg->cred, &m->cred);
}

/*
 * Take what there is, up to what is wanted, but not over an urgent byte, which is left out unless
 * it is to be in line. *@done grows; -EFAULT; -EAGAIN: a look has found nothing but such a byte.
 * True in *@border: no more.
 */
static int take_some(struct socket *s, struct socket_msg *m, ssize_t *done, bool *border)
	__must_hold(&s->recv_lock)
{
	const bool peek = m->flags & MSG_PEEK;
	struct sock_msg *msg = first_msg(s);

	assert_mutex_held(&s->recv_lock);
	while (msg && m->uio->left) {
		const uint32_t n = (uint32_t)MIN((uint64_t)msg->len, m->uio->left);

		const bool urgent = READ_ONCE(msg->urgent);

		if (*done && (urgent || !continues(s, msg, m))) {
			*border = true;
			return 0;
		}
		if (unlikely(urgent) && tcp_urgent_leave_out(s, &msg, peek)) {
			if (peek && !msg)
				return -EAGAIN;
			continue;
		}
		if (sock_msg_copy(msg, 0, n, m->uio) < n)
			return -EFAULT;
		take_ancillary(msg, m, peek);
		*done += n;
		if (peek) {
			msg = next_msg(s, msg);
		} else {
			consume(s, msg, n);
			msg = first_msg(s);
		}
	}
	return 0;
}

/* *@done grows. 0: that is all; MUST_WAIT; or the errno. */
static int recv_stream_locked(struct socket *s, struct socket_msg *m, ssize_t target, ssize_t *done)
	__must_hold(&s->recv_lock)
{
	bool border = false;
	int err;

	assert_mutex_held(&s->recv_lock);
	for (;;) {
		/* The order matters: what came before the end is read before the end is told. */
		const bool end = READ_ONCE(s->shut) & SOCKET_SHUT_RD;

		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		err = take_some(s, m, done, &border);
		if (err || border || !m->uio->left || *done >= target)
			return err;
		if (*done && ((m->flags & MSG_PEEK) || READ_ONCE(s->error)))
			return 0;
		if (end && READ_ONCE(s->finished))
			return 0; /* a reset that came after the end is not heard of */
		err = -socket_take_error(s);
		if (err || end)
			return err;
		if (!__atomic_load_n(&s->nr_queued, __ATOMIC_ACQUIRE) &&
		    !(READ_ONCE(s->shut) & SOCKET_SHUT_RD))
			return MUST_WAIT;
	}
}

/* The wait has failed, and bytes may have been lent meanwhile to a reader that leaves. */
static void own_late(struct socket *s)
{
	const struct sock_msg *msg = first_msg(s);

	/* One that is killed does not wait for the lock: it will drop all that is queued. */
	if (!msg || mutex_lock_killable(&s->recv_lock))
		return;
	sock_queue_own(s);
	mutex_unlock(&s->recv_lock);
}

ssize_t socket_recv_stream(struct socket *s, struct socket_msg *m)
{
	const uint64_t deadline =
		socket_deadline(READ_ONCE(s->rcvtimeo_ns), m->flags & MSG_DONTWAIT);
	const uint64_t low = (m->flags & MSG_WAITALL) ? m->uio->left : READ_ONCE(s->rcvlowat);
	const ssize_t target = (ssize_t)MAX(MIN(low, m->uio->left), (uint64_t)1);
	ssize_t done = 0;
	int err;

	do {
		err = mutex_lock_killable(&s->recv_lock);
		if (err)
			break;
		err = recv_stream_locked(s, m, target, &done);
		if (err != MUST_WAIT)
			sock_queue_own(s);
		mutex_unlock(&s->recv_lock);
		if (err == MUST_WAIT)
			err = wait_to_read(s, m->flags & MSG_PEEK ? 0 : m->uio->left, deadline);
		else
			break;
		if (err)
			own_late(s);
	} while (!err);
	return done ? done : err;
}

/* The first message into *@out, or NULL at the end; MUST_WAIT; or the errno. */
static int look_for_message(struct socket *s, bool nonblock, struct sock_msg **out)
	__must_hold(&s->recv_lock)
{
	const int err = -socket_take_error(s);

	assert_mutex_held(&s->recv_lock);
	*out = NULL;
	if (err)
		return err;
	*out = first_msg(s);
	if (*out)
		return 0;
	if ((READ_ONCE(s->shut) & SOCKET_SHUT_RD) && (!nonblock || s->type == SOCK_SEQPACKET))
		return 0;
	return MUST_WAIT;
}

/* Copy @msg; unless it is only looked at, it leaves the queue. */
static ssize_t recv_message_locked(struct socket *s, struct socket_msg *m, struct sock_msg *msg,
				   message_fn *got) __must_hold(&s->recv_lock)
{
	const size_t n = MIN((size_t)msg->len, (size_t)m->uio->left);
	ssize_t ret = (m->flags & MSG_TRUNC) ? (ssize_t)msg->len : (ssize_t)n;

	assert_mutex_held(&s->recv_lock);
	if (n < msg->len)
		m->told |= MSG_TRUNC;
	if (sock_msg_copy(msg, 0, n, m->uio) < n)
		ret = -EFAULT; /* as on Linux, the message is lost */
	else
		take_ancillary(msg, m, m->flags & MSG_PEEK);
	if (got)
		got(s, m, msg);
	if (!(m->flags & MSG_PEEK)) {
		spin_lock(&s->lock);
		m->nr_before = s->nr_queued;
		sock_queue_pop_locked(s, msg);
		spin_unlock(&s->lock);
		sock_msg_free(msg);
	}
	return ret;
}

ssize_t socket_recv_message(struct socket *s, struct socket_msg *m, message_fn *got)
{
	const bool nonblock = m->flags & MSG_DONTWAIT;
	const uint64_t deadline = socket_deadline(READ_ONCE(s->rcvtimeo_ns), nonblock);
	struct sock_msg *msg;
	ssize_t ret;

	m->nr_before = 0;
	do {
		ret = mutex_lock_killable(&s->recv_lock);
		if (ret)
			break;
		ret = look_for_message(s, nonblock, &msg);
		if (msg)
			ret = recv_message_locked(s, m, msg, got);
		mutex_unlock(&s->recv_lock);
		if (ret != MUST_WAIT || msg)
			break;
		ret = wait_to_read(s, 0, deadline);
	} while (!ret);
	return ret;
}
