/* SPDX-License-Identifier: MIT */
/*
 * AF_UNIX: streams and packets, which are connected, and what all types share.
 *
 * Flow:	connect() makes the server's socket, makes it the caller's peer, and puts it in the
 *		listener's backlog; both ends can send from then on, accepted or not. If no socket
 *		of this processor listens there, another one's may (unix_remote.c).
 * Failure:	a socket that is released with data unread, or that was never accepted, gives its
 *		peer ECONNRESET.
 */
#include "unix_private.h"

#include <abi/poll.h>
#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <processor/process/process.h>

#include "queue.h"
#include "scm.h"
#include "unix_remote.h"

/* Not an errno: the listener has to be looked up again. */
#define LOOK_AGAIN 1

/* --- connecting ---------------------------------------------------------------------- */

/* @s goes from IDLE to BUSY: one call connects it. -EISCONN, -EINVAL. */
static int connect_begin(struct socket *s)
{
	int err = 0;

	spin_lock(&s->lock);
	if (s->state == SOCKET_CONNECTED)
		err = -EISCONN;
	else if (s->state != SOCKET_IDLE)
		err = -EINVAL;
	else
		s->state = SOCKET_BUSY;
	spin_unlock(&s->lock);
	return err;
}

static void set_peer(struct socket *s, struct socket *peer, const struct socket_cred *cred)
{
	socket_get(peer);
	spin_lock(&s->lock);
	ASSERT(!s->peer);
	s->peer = peer;
	s->peer_cred = *cred;
	__atomic_store_n(&s->state, SOCKET_CONNECTED, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
}

/* connect() has failed: @s is as before it, if it is not so already. */
static void connect_end(struct socket *s)
{
	spin_lock(&s->lock);
	if (s->state == SOCKET_BUSY)
		__atomic_store_n(&s->state, SOCKET_IDLE, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
}

/* @s is in @state again, and has no peer. */
static void connect_undo(struct socket *s, uint32_t state)
{
	struct socket *peer;

	spin_lock(&s->lock);
	peer = s->peer;
	s->peer = NULL;
	__atomic_store_n(&s->state, state, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	if (peer)
		socket_put(peer);
}

static bool has_backlog_room(const struct socket *l)
{
	return READ_ONCE(l->nr_backlog) <= READ_ONCE(l->max_backlog) ||
	       READ_ONCE(l->state) != SOCKET_LISTENING || READ_ONCE(l->dead) ||
	       (READ_ONCE(l->shut) & SOCKET_SHUT_RD);
}

/* Put @child in the backlog of the socket that @addr names, waiting for room. */
static int connect_to(struct socket *s, struct socket *child, const struct sock_addr *addr,
		      bool nonblock)
{
	const uint64_t timeo = READ_ONCE(s->sndtimeo_ns);
	const uint64_t deadline = socket_deadline(timeo, nonblock);
	int err;

	do {
		struct socket *l = unix_find(addr, s->type);

		if (IS_ERR(l))
			return PTR_ERR(l);
		err = READ_ONCE(l->state) == SOCKET_LISTENING ? 0 : -ECONNREFUSED;
		if (!err && !unix_of(child)->name)
			err = unix_inherit_name(child, l);
		if (!err) {
			s->peer_cred = l->cred;
			child->options |= READ_ONCE(l->options) & SOCKET_PASSCRED;
			err = socket_backlog_add(l, child);
		}
		if (err == -EAGAIN && !nonblock) {
			err = wait_event_interruptible_timeout(&l->room_wait, has_backlog_room(l),
							       deadline);
			err = err ? socket_wait_error(err, timeo) : LOOK_AGAIN;
		}
		socket_put(l);
	} while (err == LOOK_AGAIN);
	return err;
}

/* Connect @s, which is BUSY, to a socket of this processor. An error: it is as before. */
static int connect_here(struct socket *s, const struct sock_addr *addr, bool nonblock)
{
	struct socket_cred cred = socket_cred_current();
	struct socket *child;
	int err;

	child = socket_create(s->ops, s->family, s->type, 0);
	if (IS_ERR(child))
		return PTR_ERR(child);
	/* Each knows the other before a listener can hand out the child. */
	set_peer(child, s, &cred);
	socket_get(child);
	spin_lock(&s->lock);
	s->peer = child;
	spin_unlock(&s->lock);
	err = connect_to(s, child, addr, nonblock);
	if (err) {
		connect_undo(child, SOCKET_IDLE);
		connect_undo(s, SOCKET_BUSY);
		socket_drop(child);
		return err;
	}
	spin_lock(&s->lock);
	__atomic_store_n(&s->state, SOCKET_CONNECTED, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	socket_wake(&s->wr_wait);
	return 0;
}

int unix_connect(struct socket *s, const struct sock_addr *addr, bool nonblock)
{
	int err = unix_check_addr(addr);

	if (!err && socket_option(s, SOCKET_PASSCRED))
		err = unix_autobind(s);
	if (!err)
		err = connect_begin(s);
	if (err)
		return err;
	err = connect_here(s, addr, nonblock);
	if (err == -ECONNREFUSED)
		err = unix_remote_connect(s, addr, nonblock);
	if (err)
		connect_end(s);
	return err;
}

static int unix_pair(struct socket *a, struct socket *b)
{
	const struct socket_cred cred = socket_cred_current();

	set_peer(a, b, &cred);
	set_peer(b, a, &cred);
	return 0;
}

int unix_listen(struct socket *s, int backlog)
{
	int err = 0;

	if (!unix_of(s)->name)
		return -EINVAL;
	/* Connections that come before the state changes are refused. */
	if (READ_ONCE(s->state) == SOCKET_IDLE)
		err = unix_tell_listening(s);
	if (err)
		return err;
	spin_lock(&s->lock);
	if (s->state != SOCKET_IDLE && s->state != SOCKET_LISTENING) {
		err = -EINVAL;
	} else {
		s->max_backlog = (uint32_t)backlog;
		s->cred = socket_cred_current();
		__atomic_store_n(&s->state, SOCKET_LISTENING, __ATOMIC_RELEASE);
	}
	spin_unlock(&s->lock);
	socket_wake(&s->room_wait);
	return err;
}

/* --- moving data --------------------------------------------------------------------- */

static ssize_t stream_send(struct socket *s, struct socket_msg *m)
{
	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (m->addr.len)
		return READ_ONCE(s->state) == SOCKET_CONNECTED ? -EISCONN : -EOPNOTSUPP;
	return socket_send_stream(s, m);
}

static ssize_t stream_recv(struct socket *s, struct socket_msg *m)
{
	struct socket *peer;
	ssize_t ret;

	if (READ_ONCE(s->state) != SOCKET_CONNECTED)
		return -EINVAL;
	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	ret = socket_recv_stream(s, m);
	peer = ret > 0 && m->wants_addr ? socket_peer_get(s) : NULL;
	if (peer) {
		if (__atomic_load_n(&unix_of(peer)->name, __ATOMIC_ACQUIRE))
			unix_copy_name(peer, &m->addr);
		socket_put(peer);
	}
	return ret;
}

static ssize_t packet_send(struct socket *s, struct socket_msg *m)
{
	const int err = -socket_take_error(s);

	if (err)
		return err;
	if (READ_ONCE(s->state) != SOCKET_CONNECTED)
		return -ENOTCONN;
	m->addr.len = 0;
	return unix_send_message(s, m);
}

static ssize_t packet_recv(struct socket *s, struct socket_msg *m)
{
	if (READ_ONCE(s->state) != SOCKET_CONNECTED)
		return -ENOTCONN;
	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	return socket_recv_message(s, m, NULL);
}

/* --- state --------------------------------------------------------------------------- */

static int stream_shutdown(struct socket *s, unsigned int how)
{
	const uint32_t mine = how + 1;
	const uint32_t theirs = (mine & SOCKET_SHUT_RD ? SOCKET_SHUT_WR : 0) |
				(mine & SOCKET_SHUT_WR ? SOCKET_SHUT_RD : 0);
	struct socket *peer = socket_peer_get(s);

	socket_shut(s, mine, 0);
	if (peer) {
		socket_shut(peer, theirs, 0);
		socket_put(peer);
	}
	return 0;
}

static unsigned int stream_poll(struct socket *s)
{
	const uint32_t shut = __atomic_load_n(&s->shut, __ATOMIC_ACQUIRE);
	const uint32_t state = READ_ONCE(s->state);
	unsigned int events = 0;

	if (READ_ONCE(s->error))
		events |= POLLERR;
	if (shut == SOCKET_SHUT_BOTH || state == SOCKET_IDLE || state == SOCKET_BUSY)
		events |= POLLHUP;
	if (shut & SOCKET_SHUT_RD)
		events |= POLLRDHUP | POLLIN | POLLRDNORM;
	if (READ_ONCE(s->nr_queued) || READ_ONCE(s->nr_backlog))
		events |= POLLIN | POLLRDNORM;
	if (state != SOCKET_LISTENING && socket_writable(s))
		events |= POLLOUT | POLLWRNORM | POLLWRBAND;
	return events;
}

static void stream_release(struct socket *s)
{
	const bool embryo = s->unaccepted;
	struct socket *peer;
	bool unread;

	unix_unhash(s);
	spin_lock(&s->lock);
	s->dead = true;
	peer = s->peer;
	s->peer = NULL;
	unread = s->nr_queued > 0;
	__atomic_store_n(&s->state, SOCKET_CLOSED, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	socket_wake(&s->room_wait);
	socket_backlog_drop(s);
	sock_queue_purge(s);
	if (!peer)
		return;
	socket_shut(peer, SOCKET_SHUT_BOTH, unread || embryo ? ECONNRESET : 0);
	socket_put(peer);
}

const struct socket_ops unix_stream_ops = {
	.name = "unix-stream",
	.size = sizeof(struct unix_socket),
	.bind = unix_bind,
	.listen = unix_listen,
	.connect = unix_connect,
	.accept = socket_accept,
	.sendmsg = stream_send,
	.recvmsg = stream_recv,
	.shutdown = stream_shutdown,
	.poll = stream_poll,
	.getname = unix_getname,
	.release = stream_release,
	.destroy = unix_destroy,
};

const struct socket_ops unix_packet_ops = {
	.name = "unix-packet",
	.size = sizeof(struct unix_socket),
	.bind = unix_bind,
	.listen = unix_listen,
	.connect = unix_connect,
	.accept = socket_accept,
	.sendmsg = packet_send,
	.recvmsg = packet_recv,
	.shutdown = stream_shutdown,
	.poll = stream_poll,
	.getname = unix_getname,
	.release = stream_release,
	.destroy = unix_destroy,
};

static const struct socket_ops *unix_choose(uint32_t type, uint32_t *protocol)
{
	if (*protocol && *protocol != AF_UNIX)
		return ERR_PTR(-EPROTONOSUPPORT);
	switch (type) {
	case SOCK_STREAM:
		return &unix_stream_ops;
	case SOCK_SEQPACKET:
		return &unix_packet_ops;
	case SOCK_RAW: /* as Linux, the same as datagrams */
	case SOCK_DGRAM:
		return &unix_dgram_ops;
	default:
		return ERR_PTR(-ESOCKTNOSUPPORT);
	}
}

static const struct socket_family unix_family = {
	.family = AF_UNIX,
	.choose = unix_choose,
	.pair = unix_pair,
};

int unix_init(void)
{
	socket_family_register(&unix_family);
	return 0;
}
INITCALL(fs, unix_init);
