/* SPDX-License-Identifier: MIT */
/*
 * AF_UNIX: datagrams, and the sending of packets, which is the same.
 *
 * Flow:	a datagram socket that is connected has a peer, which need not be connected back. A
 *		receiver that is not connected to the sender takes UNIX_DGRAM_QUEUE messages; a
 *		sender beyond that waits for room. A pollable sender is in its peer's list of
 *		senders, and is woken when the peer's queue stops being full. Sockets of other
 *		processors are unix_far.c's.
 * Locking:	unix_socket.peer_lock, then a socket's lock. The first keeps calls that connect one
 *		socket apart: sender_link lies in the list of one peer at a time, and each of them
 *		has another lock. It is not held over copies.
 */
#include <abi/poll.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/vfs/uio.h>

#include "queue.h"
#include "scm.h"
#include "unix_private.h"
#include "unix_remote.h"

/* --- who may send -------------------------------------------------------------------- */

/* Only a socket that is connected to @from takes no others' datagrams. */
static bool may_send_to(struct socket *from, struct socket *to)
{
	const struct socket *peer = __atomic_load_n(&to->peer, __ATOMIC_ACQUIRE);

	return peer == from || (!peer && !unix_far_connected(to));
}

/* Is @to's queue full for @from? */
static bool is_full(const struct socket *from, struct socket *to)
{
	return to != from && to->type == SOCK_DGRAM &&
	       __atomic_load_n(&to->peer, __ATOMIC_ACQUIRE) != from &&
	       READ_ONCE(to->nr_queued) > UNIX_DGRAM_QUEUE && !READ_ONCE(to->dead);
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

/* The fields that say who the peer of @s is. *@old, *@old_far: who it was. */
static void change_peer(struct socket *s, struct socket *peer, struct unix_far_peer *far,
			struct socket **old, struct unix_far_peer **old_far)
{
	struct unix_socket *u = unix_of(s);

	spin_lock(&s->lock);
	*old = s->peer;
	*old_far = u->far_peer;
	__atomic_store_n(&s->peer, peer, __ATOMIC_RELEASE);
	__atomic_store_n(&u->far_peer, far, __ATOMIC_RELEASE);
	__atomic_store_n(&s->state, peer || far ? SOCKET_CONNECTED : SOCKET_IDLE, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	WRITE_ONCE(u->was_full, false);
}

/* With peer_lock. */
static void enter_senders(struct socket *s, struct socket *peer)
{
	spin_lock(&peer->lock);
	if (!peer->dead && list_empty(&s->sender_link))
		list_add_tail(&s->sender_link, &peer->senders);
	spin_unlock(&peer->lock);
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

/* As on Linux, datagrams of an earlier peer are not read any more. */
static void forget_queue(struct socket *s)
{
	if (!mutex_lock_killable(&s->recv_lock)) {
		sock_queue_purge(s);
		mutex_unlock(&s->recv_lock);
	}
	wake_senders(s);
	unix_far_wake(s, true);
}

/*
 * Replace the peer of @s: it is @peer here, @far elsewhere, which it takes over, or neither. @only:
 * nothing is done if the peer is another one (meanwhile). A sender to @s may have to look again.
 */
static void set_peer(struct socket *s, struct socket *peer, struct unix_far_peer *far,
		     const struct socket *only)
{
	struct unix_far_peer *old_far;
	struct socket *old;

	mutex_lock(&unix_of(s)->peer_lock);
	if (only && READ_ONCE(s->peer) != only) {
		mutex_unlock(&unix_of(s)->peer_lock);
		return;
	}
	if (peer)
		socket_get(peer);
	change_peer(s, peer, far, &old, &old_far);
	if (old)
		leave_peer(s, old);
	if (peer)
		enter_senders(s, peer);
	mutex_unlock(&unix_of(s)->peer_lock);
	kmem_free(old_far);
	socket_wake(&s->room_wait);
	if ((old && old != peer) || old_far)
		forget_queue(s);
}

static int dgram_init(struct socket *s)
{
	mutex_init(&unix_of(s)->peer_lock, "socket peer", RANK_PIPE);
	unix_far_init(s);
	return 0;
}

/* connect() to a socket of another processor. */
static int connect_far(struct socket *s, const struct sock_addr *addr)
{
	struct unix_far_peer *far;
	const int err = unix_far_find(s, addr, &far);

	if (!err)
		set_peer(s, NULL, far, NULL);
	return err;
}

static int dgram_connect(struct socket *s, const struct sock_addr *addr, bool nonblock)
{
	struct socket *to;
	int err;

	if (addr->len >= sizeof(addr->family) && addr->family == AF_UNSPEC) {
		set_peer(s, NULL, NULL, NULL);
		return 0;
	}
	err = unix_check_addr(addr);
	if (!err && socket_option(s, SOCKET_PASSCRED))
		err = unix_autobind(s);
	if (err)
		return err;
	to = unix_find(addr, s->type);
	if (IS_ERR(to))
		return PTR_ERR(to) == -ECONNREFUSED ? connect_far(s, addr) : (int)PTR_ERR(to);
	if (may_send_to(s, to))
		set_peer(s, to, NULL, NULL);
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
			set_peer(s, NULL, NULL, to);
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

/* No socket of this processor is the receiver, says @err: may it be another processor's? */
static bool is_far(struct socket *s, const struct socket_msg *m, long err)
{
	if (s->type != SOCK_DGRAM)
		return false;
	return m->addr.len ? err == -ECONNREFUSED : err == -ENOTCONN && unix_far_connected(s);
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
	if (IS_ERR(to) && !is_far(s, m, PTR_ERR(to)))
		return PTR_ERR(to);
	if (m->uio->left + sizeof(struct sock_msg) > READ_ONCE(s->sndbuf))
		err = -EMSGSIZE;
	else if (!to)
		to = find_receiver(s, m);
	if (!err && IS_ERR(to) && !is_far(s, m, PTR_ERR(to)))
		return PTR_ERR(to);
	if (!err && IS_ERR(to))
		err = m->addr.len ? unix_far_send_to(s, m, deadline)
				  : unix_far_send(s, m, deadline);
	else if (!err)
		err = send_to(s, to, m, deadline);
	if (to && !IS_ERR(to))
		socket_put(to);
	return err ? err : len;
}

/* --- receiving ----------------------------------------------------------------------- */

static void tell_source(struct socket *s, struct socket_msg *m, const struct sock_msg *msg)
{
	const struct unix_far *far = msg->aux;

	if (!m->wants_addr)
		return;
	if (msg->from && unix_of(msg->from)->name) {
		unix_copy_name(msg->from, &m->addr);
	} else if (!msg->from && far && far->len) {
		m->addr.len = (uint32_t)UNIX_PATH_OFFSET + far->len;
		m->addr.family = AF_UNIX;
		memcpy(m->addr.un.path, far->path, far->len);
	}
}

static ssize_t dgram_recv(struct socket *s, struct socket_msg *m)
{
	ssize_t ret;

	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	ret = socket_recv_message(s, m, tell_source);
	/* It was full until this message left, also if it filled during the call. */
	if (m->nr_before == UNIX_DGRAM_QUEUE + 1)
		wake_senders(s);
	unix_far_wake(s, false);
	return ret;
}

static int dgram_shutdown(struct socket *s, unsigned int how)
{
	socket_shut(s, how + 1, 0);
	unix_far_wake(s, true);
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
	if (!socket_writable(s) || (unix_far_connected(s) && unix_far_is_full(s)))
		return events;
	spin_lock(&s->lock);
	if (!s->peer || !is_full(s, s->peer))
		events |= POLLOUT | POLLWRNORM | POLLWRBAND;
	spin_unlock(&s->lock);
	return events;
}

static void dgram_release(struct socket *s)
{
	struct unix_far_peer *far;
	struct socket *peer, *sender, *next;

	unix_unhash(s);
	spin_lock(&s->lock);
	s->dead = true;
	far = unix_of(s)->far_peer;
	unix_of(s)->far_peer = NULL;
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
	unix_far_release(s);
	kmem_free(far);
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
