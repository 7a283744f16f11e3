/* SPDX-License-Identifier: MIT */
/*
 * AF_UNIX: datagrams, and the sending of packets, which is the same.
 *
 * Flow:	a datagram socket that is connected has a peer, which need not be connected back. A
 *		receiver that is not connected to the sender takes DGRAM_QUEUE messages; a sender
 *		beyond that waits for room. A pollable sender is in its peer's list of senders, and
 *		is woken when the peer's queue stops being full.
 * Locking:	unix_socket.peer_lock, then a socket's lock. The first keeps calls that connect one
 *		socket apart: sender_link lies in the list of one peer at a time, and each of them
 *		has another lock. It is not held over copies.
 */
#include <abi/poll.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <processor/vfs/uio.h>

#include "queue.h"
#include "scm.h"
#include "unix_private.h"

#define DGRAM_QUEUE 512u /* net.unix.max_dgram_qlen, as distributions set it */

/* --- who may send -------------------------------------------------------------------- */

/* Only a socket that is connected to @from takes no others' datagrams. */
static bool may_send_to(struct socket *from, struct socket *to)
{
	const struct socket *peer = __atomic_load_n(&to->peer, __ATOMIC_ACQUIRE);

	return !peer || peer == from;
}

/* Is @to's queue full for @from? */
static bool is_full(const struct socket *from, struct socket *to)
{
	return to != from && to->type == SOCK_DGRAM &&
	       __atomic_load_n(&to->peer, __ATOMIC_ACQUIRE) != from &&
	       READ_ONCE(to->nr_queued) > DGRAM_QUEUE && !READ_ONCE(to->dead);
}

/* @s is not connected to @peer any more, which it had a reference of. */
static void leave_peer(struct socket *s, struct socket *peer)
{
	spin_lock(&peer->lock);
	if (!list_empty(&s->sender_link)) {
		list_del(&s->sender_link);
		list_init(&s->sender_link);
	}
	spin_unlock(&peer->lock);
	socket_put(peer);
}

/*
 * Replace the peer of @s; NULL: it is not connected. @only: nothing is done if the peer is another
 * one (meanwhile). A sender to @s may have to look again.
 */
static void set_peer(struct socket *s, struct socket *peer, const struct socket *only)
{
	struct socket *old;

	mutex_lock(&unix_of(s)->peer_lock);
	if (only && READ_ONCE(s->peer) != only) {
		mutex_unlock(&unix_of(s)->peer_lock);
		return;
	}
	if (peer)
		socket_get(peer);
	spin_lock(&s->lock);
	old = s->peer;
	__atomic_store_n(&s->peer, peer, __ATOMIC_RELEASE);
	__atomic_store_n(&s->state, peer ? SOCKET_CONNECTED : SOCKET_IDLE, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	if (old)
		leave_peer(s, old);
	if (peer) {
		spin_lock(&peer->lock);
		if (!peer->dead && list_empty(&s->sender_link))
			list_add_tail(&s->sender_link, &peer->senders);
		spin_unlock(&peer->lock);
	}
	mutex_unlock(&unix_of(s)->peer_lock);
	socket_wake(&s->room_wait);
	/* As Linux: what an earlier peer has sent is not read any more. */
	if (old && old != peer && !mutex_lock_killable(&s->recv_lock)) {
		sock_queue_purge(s);
		mutex_unlock(&s->recv_lock);
	}
}

/* The queue of @s has room again: all who are connected to it may look. */
static void wake_senders(struct socket *s)
{
	struct socket *sender;

	socket_wake(&s->room_wait);
	spin_lock(&s->lock);
	list_for_each_entry(sender, &s->senders, sender_link)
		socket_wake(&sender->wr_wait);
	spin_unlock(&s->lock);
}

static int dgram_init(struct socket *s)
{
	mutex_init(&unix_of(s)->peer_lock, "socket peer", RANK_PIPE);
	return 0;
}

static int dgram_connect(struct socket *s, const struct sock_addr *addr, bool nonblock)
{
	struct socket *to;
	int err;

	if (addr->len >= sizeof(addr->family) && addr->family == AF_UNSPEC) {
		set_peer(s, NULL, NULL);
		return 0;
	}
	err = unix_check_addr(addr);
	if (!err && socket_option(s, SOCKET_PASSCRED))
		err = unix_autobind(s);
	if (err)
		return err;
	to = unix_find(addr, s->type);
	if (IS_ERR(to))
		return PTR_ERR(to);
	if (may_send_to(s, to))
		set_peer(s, to, NULL);
	else
		err = -EPERM;
	socket_put(to);
	return err;
}

/* --- sending ------------------------------------------------------------------------- */

/* The receiver of @m, referenced. ERR_PTR(-ENOTCONN, and what a look-up answers). */
static struct socket *find_receiver(struct socket *s, const struct socket_msg *m)
{
	struct socket *to;

	if (m->addr.len)
		return unix_find(&m->addr, s->type);
	to = socket_peer_get(s);
	return to ? to : ERR_PTR(-ENOTCONN);
}

/* 0, or why @to takes no datagram of @s now: -EAGAIN: its queue is full. */
static int check_receiver(struct socket *s, struct socket *to, bool by_name)
{
	if (!may_send_to(s, to))
		return -EPERM;
	if (READ_ONCE(to->dead)) {
		if (!by_name && s->type == SOCK_DGRAM)
			set_peer(s, NULL, to);
		return s->type == SOCK_DGRAM ? -ECONNREFUSED : -EPIPE;
	}
	if (READ_ONCE(to->shut) & SOCKET_SHUT_RD)
		return -EPIPE;
	return is_full(s, to) ? -EAGAIN : 0;
}

/* Append @msg, or say why not. */
static int deliver(struct socket *to, struct sock_msg *msg)
{
	struct scm_fds *fds = msg->fds;
	int err = 0;

	if (fds)
		scm_enqueue(fds, to);
	spin_lock(&to->lock);
	if (to->dead)
		err = -ECONNREFUSED;
	else
		sock_queue_push_locked(to, msg);
	spin_unlock(&to->lock);
	if (!err)
		socket_wake(&to->rd_wait);
	else if (fds)
		scm_dequeue(fds);
	return err;
}

/* Wait until @to has room for @s, or is to be looked at again. */
static int wait_for_queue(struct socket *s, struct socket *to, uint64_t deadline)
{
	int err;

	if (!deadline)
		return -EAGAIN;
	err = wait_event_interruptible_timeout(
		&to->room_wait, !is_full(s, to) || (READ_ONCE(to->shut) & SOCKET_SHUT_RD),
		deadline);
	return err ? socket_wait_error(err, READ_ONCE(s->sndtimeo_ns)) : 0;
}

static int send_to(struct socket *s, struct socket *to, struct socket_msg *m, uint64_t deadline)
{
	const size_t len = m->uio->left;
	struct sock_msg *msg;
	int err;

	err = socket_wait_room(s, deadline);
	if (!err && (READ_ONCE(s->shut) & SOCKET_SHUT_WR))
		err = -EPIPE;
	if (!err)
		err = -socket_take_error(s);
	if (err)
		return err;
	do {
		err = check_receiver(s, to, m->addr.len);
		if (err != -EAGAIN)
			break;
		err = wait_for_queue(s, to, deadline);
	} while (!err);
	if (err)
		return err;
	msg = sock_msg_make(m->uio, len, s);
	if (IS_ERR(msg))
		return PTR_ERR(msg);
	msg->cred = m->cred;
	msg->fds = m->fds;
	err = deliver(to, msg);
	if (err) {
		msg->fds = NULL;
		sock_msg_free(msg);
		return err;
	}
	m->fds = NULL;
	return 0;
}

ssize_t unix_send_message(struct socket *s, struct socket_msg *m)
{
	const uint64_t deadline =
		socket_deadline(READ_ONCE(s->sndtimeo_ns), m->flags & MSG_DONTWAIT);
	const ssize_t len = (ssize_t)m->uio->left;
	struct socket *to;
	int err = 0;

	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (m->addr.len)
		err = unix_check_addr(&m->addr);
	if (!err && socket_option(s, SOCKET_PASSCRED))
		err = unix_autobind(s);
	if (err)
		return err;
	to = m->addr.len ? NULL : find_receiver(s, m);
	if (IS_ERR(to))
		return PTR_ERR(to);
	if (m->uio->left + sizeof(struct sock_msg) > READ_ONCE(s->sndbuf))
		err = -EMSGSIZE;
	else if (!to)
		to = find_receiver(s, m);
	if (!err && IS_ERR(to))
		return PTR_ERR(to);
	if (!err)
		err = send_to(s, to, m, deadline);
	if (to)
		socket_put(to);
	return err ? err : len;
}

/* --- receiving ----------------------------------------------------------------------- */

static void tell_source(struct socket *s, struct socket_msg *m, const struct sock_msg *msg)
{
	if (m->wants_addr && unix_of(msg->from)->name)
		unix_copy_name(msg->from, &m->addr);
}

static ssize_t dgram_recv(struct socket *s, struct socket_msg *m)
{
	const bool was_full = READ_ONCE(s->nr_queued) > DGRAM_QUEUE;
	ssize_t ret;

	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	ret = socket_recv_message(s, m, tell_source);
	if (was_full && READ_ONCE(s->nr_queued) <= DGRAM_QUEUE)
		wake_senders(s);
	return ret;
}

static int dgram_shutdown(struct socket *s, unsigned int how)
{
	socket_shut(s, how + 1, 0);
	return 0;
}

static unsigned int dgram_poll(struct socket *s)
{
	const uint32_t shut = __atomic_load_n(&s->shut, __ATOMIC_ACQUIRE);
	unsigned int events = 0;

	if (READ_ONCE(s->error))
		events |= POLLERR;
	if (shut == SOCKET_SHUT_BOTH)
		events |= POLLHUP;
	if (shut & SOCKET_SHUT_RD)
		events |= POLLRDHUP | POLLIN | POLLRDNORM;
	if (READ_ONCE(s->nr_queued))
		events |= POLLIN | POLLRDNORM;
	if (!socket_writable(s))
		return events;
	spin_lock(&s->lock);
	if (!s->peer || !is_full(s, s->peer))
		events |= POLLOUT | POLLWRNORM | POLLWRBAND;
	spin_unlock(&s->lock);
	return events;
}

static void dgram_release(struct socket *s)
{
	struct socket *peer, *sender, *next;

	unix_unhash(s);
	spin_lock(&s->lock);
	s->dead = true;
	peer = s->peer;
	__atomic_store_n(&s->peer, NULL, __ATOMIC_RELEASE);
	list_for_each_entry_safe(sender, next, &s->senders, sender_link) {
		list_del(&sender->sender_link);
		list_init(&sender->sender_link);
		socket_wake(&sender->wr_wait);
	}
	spin_unlock(&s->lock);
	socket_wake(&s->room_wait);
	sock_queue_purge(s);
	if (peer)
		leave_peer(s, peer);
}

const struct socket_ops unix_dgram_ops = {
	.name = "unix-dgram",
	.size = sizeof(struct unix_socket),
	.init = dgram_init,
	.bind = unix_bind,
	.connect = dgram_connect,
	.sendmsg = unix_send_message,
	.recvmsg = dgram_recv,
	.shutdown = dgram_shutdown,
	.poll = dgram_poll,
	.getname = unix_getname,
	.release = dgram_release,
	.destroy = unix_destroy,
};
