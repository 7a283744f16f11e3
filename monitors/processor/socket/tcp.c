/* SPDX-License-Identifier: MIT */
/*
 * TCP inside the vNode: no segments, the same behaviour.
 *
 * Flow:	as with AF_UNIX the server's socket is made by connect(), and the two are peers. A
 *		connection for which the backlog has no place is pending: its client is connecting
 *		until accept() makes room. A close with data unread, or with SO_LINGER of 0, is a
 *		reset; any other is a FIN. Data for a socket that is closed vanishes, and its sender
 *		gets a reset, as if it had crossed the wire.
 * Locking:	the order of connect(): own state, listener's backlog, own state. No two at once.
 */
#include <abi/poll.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/process/process.h>
#include <processor/vfs/uio.h>

#include "inet_private.h"
#include "queue.h"
#include "remote_private.h"
#include "scm.h"

#define WINDOW_MIN 65536u
#define CONNECT_NS (127 * NSEC_PER_SEC) /* as six repetitions of a SYN take */

/* --- ends of a connection ------------------------------------------------------------ */

/* @s hears that its peer sends no more. */
void tcp_fin(struct socket *s)
{
	spin_lock(&s->lock);
	sock_queue_release_locked(s); /* what the peer has held back comes before its end */
	s->finished = true;
	spin_unlock(&s->lock);
	socket_shut(s, SOCKET_SHUT_RD, 0);
}

/* @s hears that its peer is gone, or would have no more of it. */
void tcp_reset(struct socket *s)
{
	bool finished;

	spin_lock(&s->lock);
	finished = s->finished;
	__atomic_store_n(&s->state, SOCKET_CLOSED, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	socket_shut(s, SOCKET_SHUT_BOTH, finished ? EPIPE : ECONNRESET);
}

/* --- connecting ---------------------------------------------------------------------- */

/* Where @s stands when connect() is called: 1: it may begin; 0 or an errno: that is the answer. */
static int connect_begin(struct socket *s)
{
	struct inet_socket *u = inet_of(s);
	int err = 0;

	spin_lock(&s->lock);
	switch (s->state) {
	case SOCKET_IDLE:
		err = s->error ? -s->error : 1;
		s->error = 0;
		if (err == 1)
			s->state = SOCKET_BUSY;
		break;
	case SOCKET_CONNECTED:
		err = u->told ? -EISCONN : 0;
		u->told = true;
		break;
	case SOCKET_BUSY:
	case SOCKET_CONNECTING:
		err = -EALREADY;
		break;
	default:
		err = -EISCONN;
		break;
	}
	spin_unlock(&s->lock);
	return err;
}

static void set_state(struct socket *s, uint32_t state)
{
	spin_lock(&s->lock);
	__atomic_store_n(&s->state, state, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
}

/* Each is the other's peer. */
static void link_peers(struct socket *s, struct socket *child)
{
	s->window = MAX(READ_ONCE(child->rcvbuf), WINDOW_MIN);
	child->window = MAX(READ_ONCE(s->rcvbuf), WINDOW_MIN);
	socket_get(s);
	socket_get(child);
	spin_lock(&s->lock);
	s->peer = child;
	spin_unlock(&s->lock);
	child->peer = s;
}

static void unlink_peer(struct socket *s)
{
	struct socket *peer;

	spin_lock(&s->lock);
	peer = s->peer;
	s->peer = NULL;
	spin_unlock(&s->lock);
	if (peer)
		socket_put(peer);
}

void tcp_inherit(struct socket *child, struct socket *l, const struct inet_name *local,
		 const struct inet_name *remote)
{
	struct inet_socket *u = inet_of(child);

	child->options = READ_ONCE(l->options);
	child->sndbuf = READ_ONCE(l->sndbuf);
	child->rcvbuf = READ_ONCE(l->rcvbuf);
	child->linger_s = READ_ONCE(l->linger_s);
	memcpy(u->options, inet_of(l)->options, sizeof(u->options));
	u->v6only = READ_ONCE(inet_of(l)->v6only);
	u->local = *local;
	u->remote = *remote;
	u->bound_addr = true;
	u->told = true;
	child->state = SOCKET_CONNECTED;
}

/* The server's end of a connection of @s to listener @l. ERR_PTR. */
static struct socket *make_child(struct socket *s, struct socket *l)
{
	struct socket *child = socket_create(&tcp_ops, l->family, l->type, l->protocol);

	if (IS_ERR(child))
		return child;
	tcp_inherit(child, l, &inet_of(s)->remote, &inet_of(s)->local);
	return child;
}

/* Put @child in the backlog of @l; *@pending: there is no place for it yet. -ECONNREFUSED. */
static int enqueue(struct socket *l, struct socket *child, bool *pending)
{
	int err = 0;

	scm_embryo(child, l);
	spin_lock(&l->lock);
	if (l->dead || l->state != SOCKET_LISTENING) {
		err = -ECONNREFUSED;
	} else {
		*pending = l->nr_backlog > l->max_backlog;
		inet_of(child)->pending = *pending;
		child->unaccepted = true;
		list_add_tail(&child->accept_link, &l->backlog);
		__atomic_store_n(&l->nr_backlog, l->nr_backlog + 1, __ATOMIC_RELEASE);
	}
	spin_unlock(&l->lock);
	if (err)
		scm_embryo(child, NULL);
	else
		socket_wake(&l->rd_wait);
	return err;
}

/* Connect @s, which is BUSY, to @to inside the vNode. */
static int connect_inside(struct socket *s, const struct inet_name *to, bool *pending)
{
	struct socket *l = inet_find(SOCK_STREAM, to, NULL), *child;
	int err;

	if (!l)
		return -ECONNREFUSED;
	inet_connect_names(s, to);
	child = make_child(s, l);
	if (IS_ERR(child)) {
		socket_put(l);
		return PTR_ERR(child);
	}
	inet_enter(child);
	link_peers(s, child);
	set_state(s, SOCKET_CONNECTING);
	err = enqueue(l, child, pending);
	socket_put(l);
	if (!err) {
		if (!*pending)
			set_state(s, SOCKET_CONNECTED);
		return 0;
	}
	unlink_peer(s);
	unlink_peer(child);
	socket_drop(child);
	return err;
}

void tcp_connected(struct socket *s)
{
	spin_lock(&s->lock);
	if (s->state == SOCKET_CONNECTING)
		__atomic_store_n(&s->state, SOCKET_CONNECTED, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	socket_wake(&s->wr_wait);
}

static bool has_connected(const struct socket *s)
{
	const uint32_t state = __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);

	return state != SOCKET_CONNECTING && state != SOCKET_BUSY;
}

/* Wait until @s is connected. */
int tcp_wait_connected(struct socket *s, bool nonblock)
{
	const uint64_t timeo = READ_ONCE(s->sndtimeo_ns);
	const uint64_t deadline = socket_deadline(MIN(timeo, CONNECT_NS), nonblock);
	int err;

	if (has_connected(s))
		return 0;
	if (!deadline)
		return -EINPROGRESS;
	err = wait_event_interruptible_timeout(&s->wr_wait, has_connected(s), deadline);
	if (err == -ETIMEDOUT)
		return timeo > CONNECT_NS ? -ETIMEDOUT : -EINPROGRESS;
	return err ? socket_wait_error(err, timeo) : -socket_take_error(s);
}

int tcp_connect_to(struct socket *s, const struct sock_addr *addr, bool nonblock)
{
	struct inet_name to;
	bool pending = false, taken;
	int err;

	if (addr->len < sizeof(addr->family))
		return -EINVAL;
	if (addr->family == AF_UNSPEC)
		return -EOPNOTSUPP;
	err = connect_begin(s);
	if (err == -EALREADY && !nonblock)
		return tcp_wait_connected(s, false);
	if (err != 1)
		return err;
	err = inet_name_fetch(s, addr, &to);
	if (err) {
		set_state(s, SOCKET_IDLE);
		return err;
	}
	if (!inet_is_local(to.addr) && !inet_is_multicast(to.addr)) {
		err = outside_connect(s, &to, nonblock);
		if (READ_ONCE(s->state) == SOCKET_BUSY)
			set_state(s, SOCKET_IDLE);
		return err;
	}
	err = inet_is_multicast(to.addr) ? -ENETUNREACH : inet_autobind(s);
	if (!err)
		err = connect_inside(s, &to, &pending);
	if (err == -ECONNREFUSED) {
		err = remote_connect(s, &to, nonblock, &taken);
		if (taken)
			return err;
	}
	if (err) {
		inet_forget_remote(s);
		set_state(s, SOCKET_IDLE);
		if (err != -ECONNREFUSED || !nonblock)
			return err;
		/* The answer to the SYN comes when the call has returned. */
		socket_shut(s, 0, ECONNREFUSED);
		return -EINPROGRESS;
	}
	if (nonblock) {
		socket_wake(&s->wr_wait);
		return -EINPROGRESS;
	}
	err = tcp_wait_connected(s, false);
	if (!err)
		inet_of(s)->told = true;
	return err;
}

static int tcp_listen(struct socket *s, int backlog)
{
	const uint32_t state = READ_ONCE(s->state);
	int err = 0;

	if (state != SOCKET_IDLE && state != SOCKET_LISTENING)
		return -EINVAL;
	if (state == SOCKET_IDLE && inet_autobind(s))
		return -EADDRINUSE;
	/* Another processor of the vNode may listen there. */
	if (state == SOCKET_IDLE)
		err = inet_tell_listening(s, true);
	/* Connections that come before the state changes are refused. */
	if (!err)
		err = outside_open(s, (unsigned int)backlog + 1);
	if (err)
		return err;
	spin_lock(&s->lock);
	if (s->state != SOCKET_IDLE && s->state != SOCKET_LISTENING) {
		err = -EINVAL;
	} else {
		s->max_backlog = (uint32_t)backlog;
		s->shut = 0;
		__atomic_store_n(&s->state, SOCKET_LISTENING, __ATOMIC_RELEASE);
	}
	spin_unlock(&s->lock);
	return err;
}

/* A connection has left the backlog: the first pending one gets its place. */
static void promote(struct socket *l)
{
	struct socket *child, *client = NULL;

	spin_lock(&l->lock);
	list_for_each_entry(child, &l->backlog, accept_link) {
		if (!inet_of(child)->pending)
			continue;
		inet_of(child)->pending = false;
		client = child->peer;
		if (client)
			socket_get(client);
		break;
	}
	spin_unlock(&l->lock);
	if (!client)
		return;
	tcp_connected(client);
	socket_put(client);
}

static struct socket *tcp_accept(struct socket *s, bool nonblock)
{
	struct socket *child = socket_accept(s, nonblock);

	if (!IS_ERR(child)) {
		outside_accepted(child);
		promote(s);
	}
	return child;
}

/* --- moving data --------------------------------------------------------------------- */

/* 0: @s is or was connected. */
static int tcp_want_connected(struct socket *s, uint32_t flags)
{
	const uint32_t state = __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);

	if (state == SOCKET_CONNECTED || state == SOCKET_CLOSED)
		return 0;
	if (state == SOCKET_IDLE || state == SOCKET_LISTENING)
		return -ENOTCONN;
	if (flags & MSG_DONTWAIT)
		return -EAGAIN;
	return tcp_wait_connected(s, false);
}

int tcp_begin_send(struct socket *s, uint32_t flags)
{
	int err = tcp_want_connected(s, flags);

	if (err == -ENOTCONN) {
		err = socket_take_error(s);
		return err ? -err : -EPIPE;
	}
	return err;
}

/* Some of what @s has sent may be held back at its peer. */
static void watch_peer(struct socket *s)
{
	struct socket *peer = socket_peer_get(s);

	if (!peer)
		return;
	tcp_cork_watch(peer);
	socket_put(peer);
}

static ssize_t tcp_send(struct socket *s, struct socket_msg *m)
{
	const ssize_t len = (ssize_t)m->uio->left;
	ssize_t ret = tcp_begin_send(s, m->flags);

	if (ret)
		return ret;
	m->hold = m->flags & MSG_OOB ? 0 : tcp_cork_limit(s, m->flags);
	ret = socket_send_stream(s, m);
	if (ret == -ENOTCONN)
		return -EPIPE;
	if (m->hold)
		watch_peer(s);
	if (ret == -EPIPE && READ_ONCE(s->state) == SOCKET_CONNECTED &&
	    !(READ_ONCE(s->shut) & SOCKET_SHUT_WR)) {
		tcp_reset(s); /* the bytes have left, and the answer to them is a reset */
		return len;
	}
	return ret;
}

ssize_t tcp_recvmsg(struct socket *s, struct socket_msg *m)
{
	const int err = tcp_want_connected(s, m->flags);

	if (err)
		return READ_ONCE(s->error) ? -socket_take_error(s) : err;
	if (m->flags & MSG_OOB)
		return tcp_urgent_receive(s, m);
	return socket_recv_stream(s, m);
}

/* --- state --------------------------------------------------------------------------- */

static int tcp_shutdown(struct socket *s, unsigned int how)
{
	const uint32_t mine = how + 1, state = READ_ONCE(s->state);
	struct socket *peer;

	if (state == SOCKET_LISTENING && (mine & SOCKET_SHUT_RD)) {
		set_state(s, SOCKET_IDLE);
		socket_wake(&s->rd_wait);
		outside_close(s);
		socket_backlog_drop(s);
		return inet_tell_listening(s, false);
	}
	if (state == SOCKET_IDLE || state == SOCKET_CLOSED)
		return -ENOTCONN;
	socket_shut(s, mine, 0);
	peer = mine & SOCKET_SHUT_WR ? socket_peer_get(s) : NULL;
	if (peer) {
		tcp_fin(peer);
		socket_put(peer);
	}
	return 0;
}

int tcp_init_socket(struct socket *s)
{
	s->sndbuf = 16384; /* as tcp_wmem and tcp_rmem */
	s->rcvbuf = 131072;
	return inet_init_socket(s);
}

static unsigned int tcp_poll(struct socket *s)
{
	const uint32_t shut = __atomic_load_n(&s->shut, __ATOMIC_ACQUIRE);
	const uint32_t state = READ_ONCE(s->state);
	unsigned int events = 0;

	if (state == SOCKET_LISTENING)
		return READ_ONCE(s->nr_backlog) ? POLLIN | POLLRDNORM : 0;
	if (shut == SOCKET_SHUT_BOTH || state == SOCKET_IDLE || state == SOCKET_CLOSED)
		events |= POLLHUP;
	if (shut & SOCKET_SHUT_RD)
		events |= POLLIN | POLLRDNORM | POLLRDHUP;
	if (READ_ONCE(s->error))
		events |= POLLERR | (state == SOCKET_IDLE ? POLLIN | POLLRDNORM | POLLRDHUP : 0);
	if (state == SOCKET_CONNECTING || state == SOCKET_BUSY)
		return events;
	events |= tcp_urgent_poll(s);
	if ((shut & SOCKET_SHUT_WR) || socket_writable(s))
		events |= POLLOUT | POLLWRNORM;
	return events;
}

static void tcp_release(struct socket *s)
{
	const bool abort = socket_option(s, SOCKET_LINGER) && !READ_ONCE(s->linger_s);
	struct socket *peer;
	bool unread;

	inet_release(s);
	spin_lock(&s->lock);
	s->dead = true;
	peer = s->peer;
	s->peer = NULL;
	unread = s->nr_queued > 0;
	__atomic_store_n(&s->state, SOCKET_CLOSED, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	outside_close(s);
	socket_backlog_drop(s);
	sock_queue_purge(s);
	if (!peer)
		return;
	if (unread || abort || s->unaccepted)
		tcp_reset(peer);
	else
		tcp_fin(peer);
	socket_put(peer);
}

const struct socket_ops tcp_ops = {
	.name = "tcp",
	.size = sizeof(struct inet_socket),
	.init = tcp_init_socket,
	.bind = inet_bind,
	.listen = tcp_listen,
	.connect = tcp_connect_to,
	.accept = tcp_accept,
	.sendmsg = tcp_send,
	.recvmsg = tcp_recvmsg,
	.shutdown = tcp_shutdown,
	.poll = tcp_poll,
	.getname = inet_getname,
	.setsockopt = inet_setsockopt,
	.getsockopt = inet_getsockopt,
	.release = tcp_release,
};
