/* SPDX-License-Identifier: MIT */
/*
 * TCP sockets whose peer is outside of the vNode: connections of the TCP/IP stack.
 *
 * Flow:	connect() to an address that is not the vNode's comes here; the socket gets these
 *		operations for good, as do those that outside_make() makes for listeners. The stack
 *		tells of events by functions that wake the socket's waiters; bytes wait in the
 *		stack, and are copied from and to the program without its lock.
 * Locking:	the stack's lock is outside socket.lock: its functions take that one. recv_lock lets
 *		one receiver at a time at the bytes, and is held over copies.
 * Failure:	a connection that is gone answers what was left of its bytes, then its error once.
 */
#include <abi/in.h>
#include <abi/poll.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/tcpip.h>
#include <processor/process/process.h>
#include <processor/vfs/uio.h>

#include "gateway.h"
#include "inet_private.h"
#include "queue.h"

#define CHUNK 16384u /* bytes that are copied at once */

static const struct socket_ops outside_ops;

static struct tcpip_conn *conn_of(struct socket *s)
{
	return inet_of(s)->outside;
}

/* --- events: the stack's lock is held */

static void on_connected(void *arg)
{
	struct socket *s = arg;

	spin_lock(&s->lock);
	if (s->state == SOCKET_CONNECTING)
		__atomic_store_n(&s->state, SOCKET_CONNECTED, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	socket_wake(&s->wr_wait);
}

static void on_readable(void *arg)
{
	struct socket *s = arg;

	socket_wake(&s->rd_wait);
}

static void on_writable(void *arg)
{
	struct socket *s = arg;

	socket_wake(&s->wr_wait);
}

static void on_gone(void *arg, int err)
{
	struct socket *s = arg;

	spin_lock(&s->lock);
	__atomic_store_n(&s->state, SOCKET_CLOSED, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	socket_shut(s, SOCKET_SHUT_BOTH, -err);
}

static const struct tcpip_conn_user conn_user = {
	.connected = on_connected,
	.readable = on_readable,
	.writable = on_writable,
	.gone = on_gone,
};

/* --- options */

/* Those of the family of the peer, and of TCP, are the stack's as well. */
static const struct {
	int level, option;
	enum tcpip_option to;
} passed[] = {
	{ SOL_TCP, TCP_NODELAY, TCPIP_NODELAY },
	{ SOL_TCP, TCP_CORK, TCPIP_CORK },
	{ SOL_TCP, TCP_KEEPIDLE, TCPIP_KEEP_IDLE_S },
	{ SOL_TCP, TCP_KEEPINTVL, TCPIP_KEEP_INTERVAL_S },
	{ SOL_TCP, TCP_KEEPCNT, TCPIP_KEEP_COUNT },
	{ SOL_IP, IP_TOS, TCPIP_TOS },
	{ SOL_IP, IP_TTL, TCPIP_TTL },
	{ SOL_IPV6, IPV6_TCLASS, TCPIP_TOS },
	{ SOL_IPV6, IPV6_UNICAST_HOPS, TCPIP_TTL },
	{ SOL_TCP, TCP_USER_TIMEOUT, TCPIP_USER_TIMEOUT_MS },
	{ SOL_TCP, TCP_SYNCNT, TCPIP_SYN_COUNT },
	{ SOL_TCP, TCP_LINGER2, TCPIP_FIN_WAIT_S },
	{ SOL_TCP, TCP_NOTSENT_LOWAT, TCPIP_UNSENT_LOW },
	{ SOL_TCP, TCP_QUICKACK, TCPIP_QUICKACK },
};

/* Tell the stack of option @i of the list, if it is about the peer's family. */
static void pass_option(struct socket *s, struct tcpip_conn *c, size_t i)
{
	const bool four = inet_is_v4(inet_of(s)->remote.addr);
	int value;

	if (passed[i].level == (four ? SOL_IPV6 : SOL_IP))
		return;
	(void)inet_option_changed(s, passed[i].level, passed[i].option, &value);
	/* As Linux: negative: it does not wait, but resets; 0: the system's time. */
	if (passed[i].to == TCPIP_FIN_WAIT_S)
		value = value < 0 ? 0 : value ? value : INT32_MAX;
	tcpip_set_option(c, passed[i].to, (uint32_t)value);
}

/* All that are not as at first. */
static void pass_options(struct socket *s, struct tcpip_conn *c)
{
	int value;

	if (socket_option(s, SOCKET_KEEPALIVE))
		tcpip_set_option(c, TCPIP_KEEPALIVE, 1);
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++) {
		if (inet_option_changed(s, passed[i].level, passed[i].option, &value))
			pass_option(s, c, i);
	}
}

/* --- connecting */

static bool is_connecting(const struct socket *s)
{
	return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE) == SOCKET_CONNECTING;
}

static int wait_connected(struct socket *s, bool nonblock)
{
	const uint64_t timeo = READ_ONCE(s->sndtimeo_ns);
	const uint64_t deadline = socket_deadline(timeo, nonblock);
	int err;

	if (is_connecting(s)) {
		if (!deadline)
			return -EINPROGRESS;
		err = wait_event_interruptible_timeout(&s->wr_wait, !is_connecting(s), deadline);
		if (err)
			return err == -ETIMEDOUT ? -EINPROGRESS : socket_wait_error(err, timeo);
	}
	err = -socket_take_error(s);
	if (!err)
		inet_of(s)->told = true;
	return err;
}

static struct tcpip_name tcpip_name_of(const struct inet_name *name)
{
	struct tcpip_name out = { .port = name->port, .scope_id = name->scope_id };

	memcpy(out.addr, name->addr, sizeof(out.addr));
	return out;
}

/* From the address @from of a card of this processor. */
static int connect_from(struct socket *s, const uint8_t from[16], const struct inet_name *to,
			bool nonblock)
{
	const struct inet_socket *u = inet_of(s);
	struct tcpip_name local, remote = tcpip_name_of(to);
	int err;

	err = inet_autobind(s);
	if (err)
		return err;
	inet_connect_names(s, to);
	inet_set_source(s, from);
	local = (struct tcpip_name){ .port = u->local.port };
	memcpy(local.addr, from, 16);
	__atomic_store_n(&s->ops, &outside_ops, __ATOMIC_RELEASE);
	spin_lock(&s->lock);
	__atomic_store_n(&s->state, SOCKET_CONNECTING, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	/* Other threads may see it connected before this call returns: then it has the stack's. */
	err = tcpip_connect(&local, &remote, &conn_user, s, &inet_of(s)->outside);
	if (err) {
		on_gone(s, 0);
		return err;
	}
	/* The first SYN has left with the system's choice. */
	pass_options(s, conn_of(s));
	return wait_connected(s, nonblock);
}

int outside_connect(struct socket *s, const struct inet_name *to, bool nonblock)
{
	const struct inet_socket *u = inet_of(s);
	const struct tcpip_name remote = tcpip_name_of(to);
	uint8_t from[16];
	int err;

	if (u->bound_addr && inet_is_loopback(u->local.addr))
		return -EINVAL;
	err = gateway_wait_source(&remote, from);
	if (err)
		return err;
	/* Which processor is the gateway is looked at last: it may have changed meanwhile. */
	return tcpip_is_present() ? connect_from(s, from, to, nonblock)
				  : gateway_connect(s, to, nonblock);
}

int outside_connect_here(struct socket *s, const struct inet_name *to)
{
	const struct tcpip_name remote = tcpip_name_of(to);
	uint8_t from[16];
	const int err = tcpip_source_for(&remote, from);

	return err ? err : connect_from(s, from, to, true);
}

/* --- moving data */

static bool may_send(struct socket *s)
{
	struct tcpip_hints h;

	tcpip_hints(conn_of(s), &h);
	return h.writable || h.gone || (READ_ONCE(s->shut) & SOCKET_SHUT_WR);
}

static bool may_receive(struct socket *s)
{
	struct tcpip_hints h;

	tcpip_hints(conn_of(s), &h);
	return h.readable || h.ended || h.gone || (READ_ONCE(s->shut) & SOCKET_SHUT_RD);
}

/* Give the stack what it has room for, of at most CHUNK bytes. -EAGAIN: it has none. */
static ssize_t send_some(struct socket *s, struct socket_msg *m, uint8_t *buf)
{
	struct tcpip_status st;
	size_t n;

	if (READ_ONCE(s->shut) & SOCKET_SHUT_WR)
		return -EPIPE;
	tcpip_status(conn_of(s), &st);
	n = MIN(MIN(st.room, m->uio->left), (size_t)CHUNK);
	if (!n)
		return st.gone ? -EPIPE : -EAGAIN;
	n = uio_fetch(m->uio, buf, n);
	if (!n)
		return -EFAULT;
	return tcpip_send(conn_of(s), buf, n, m->uio->left || (m->flags & MSG_MORE));
}

static ssize_t outside_send(struct socket *s, struct socket_msg *m)
{
	const uint64_t timeo = READ_ONCE(s->sndtimeo_ns);
	const uint64_t deadline = socket_deadline(timeo, m->flags & MSG_DONTWAIT);
	const size_t total = m->uio->left;
	size_t done = 0;
	uint8_t *buf;
	ssize_t ret;

	ret = is_connecting(s) ? wait_connected(s, m->flags & MSG_DONTWAIT) : 0;
	if (ret)
		return ret == -EINPROGRESS ? -EAGAIN : ret;
	ret = -socket_take_error(s);
	if (ret)
		return ret;
	if (!conn_of(s))
		return -EPIPE;
	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	buf = kmalloc(CHUNK);
	if (!buf)
		return -ENOBUFS;
	while (done < total) {
		ret = send_some(s, m, buf);
		if (ret > 0) {
			const size_t left = total - done - (size_t)ret;

			done += (size_t)ret;
			if (m->uio->left != left)
				break; /* fetched more than was taken: the caller goes on */
			continue;
		}
		if (ret != -EAGAIN || !deadline)
			break;
		ret = wait_event_interruptible_timeout(&s->wr_wait, may_send(s), deadline);
		if (ret) {
			ret = socket_wait_error((int)ret, timeo);
			break;
		}
	}
	kfree(buf);
	return done ? (ssize_t)done : ret;
}

/* Copy what there is. 0: nothing; -EFAULT. */
static ssize_t receive_some_locked(struct socket *s, struct socket_msg *m)
	__must_hold(&s->recv_lock)
{
	const bool peek = m->flags & MSG_PEEK;
	struct tcpip_data *d = tcpip_take(conn_of(s), m->uio->left);
	size_t done = 0, len;
	const void *p;
	bool fault = false;

	assert_mutex_held(&s->recv_lock);
	while (d && m->uio->left && !fault && (p = tcpip_data_bytes(d, done, &len)) != NULL) {
		const size_t n = MIN(len, (size_t)m->uio->left);
		const size_t put = uio_put(m->uio, p, n);

		done += put;
		fault = put < n;
	}
	if (d)
		tcpip_give_back(conn_of(s), d, peek ? 0 : done);
	return !done && fault ? -EFAULT : (ssize_t)done;
}

static ssize_t outside_recv(struct socket *s, struct socket_msg *m)
{
	const uint64_t timeo = READ_ONCE(s->rcvtimeo_ns);
	const uint64_t deadline = socket_deadline(timeo, m->flags & MSG_DONTWAIT);
	const bool all = (m->flags & MSG_WAITALL) && !(m->flags & MSG_PEEK);
	ssize_t ret, done = 0;

	ret = is_connecting(s) ? wait_connected(s, m->flags & MSG_DONTWAIT) : 0;
	if (ret)
		return ret == -EINPROGRESS ? -EAGAIN : ret;
	if (!conn_of(s))
		return -socket_take_error(s);
	if (m->flags & MSG_OOB)
		return -EINVAL;
	while (m->uio->left) {
		struct tcpip_hints h;

		/* The order matters: bytes that came before the end are read before it is told. */
		tcpip_hints(conn_of(s), &h);
		ret = mutex_lock_killable(&s->recv_lock);
		if (ret)
			break;
		ret = receive_some_locked(s, m);
		mutex_unlock(&s->recv_lock);
		if (ret > 0)
			done += ret;
		if (ret < 0 || (ret > 0 && !all))
			break;
		if (ret > 0)
			continue;
		ret = done ? 0 : -socket_take_error(s);
		if (ret || h.ended || h.gone || (READ_ONCE(s->shut) & SOCKET_SHUT_RD))
			break;
		ret = -EAGAIN;
		if (!deadline)
			break;
		ret = wait_event_interruptible_timeout(&s->rd_wait, may_receive(s), deadline);
		if (ret) {
			ret = socket_wait_error((int)ret, timeo);
			break;
		}
	}
	return done ? done : ret;
}

/* --- state */

static int outside_reconnect(struct socket *s, const struct sock_addr *addr, bool nonblock)
{
	(void)addr;
	if (is_connecting(s))
		return nonblock ? -EALREADY : wait_connected(s, false);
	if (READ_ONCE(s->error))
		return -socket_take_error(s);
	if (!inet_of(s)->told && READ_ONCE(s->state) == SOCKET_CONNECTED) {
		inet_of(s)->told = true;
		return 0;
	}
	return READ_ONCE(s->state) == SOCKET_CONNECTED ? -EISCONN : -ECONNABORTED;
}

static int outside_shutdown(struct socket *s, unsigned int how)
{
	int err = 0;

	if (READ_ONCE(s->state) != SOCKET_CONNECTED || !conn_of(s))
		return -ENOTCONN;
	if ((how + 1) & SOCKET_SHUT_WR)
		err = tcpip_end(conn_of(s));
	socket_shut(s, how + 1, 0);
	return err;
}

static unsigned int outside_poll(struct socket *s)
{
	const uint32_t shut = __atomic_load_n(&s->shut, __ATOMIC_ACQUIRE);
	unsigned int events = READ_ONCE(s->error) ? POLLERR : 0;
	struct tcpip_hints h = { .gone = true };

	if (is_connecting(s))
		return events;
	if (conn_of(s))
		tcpip_hints(conn_of(s), &h);
	if (h.gone || shut == SOCKET_SHUT_BOTH || (h.ended && (shut & SOCKET_SHUT_WR)))
		events |= POLLHUP;
	if (h.gone || h.ended || (shut & SOCKET_SHUT_RD))
		events |= POLLIN | POLLRDNORM | POLLRDHUP;
	if (h.readable >= MAX(READ_ONCE(s->rcvlowat), 1u))
		events |= POLLIN | POLLRDNORM;
	if (h.writable || h.gone || (shut & SOCKET_SHUT_WR))
		events |= POLLOUT | POLLWRNORM;
	return events;
}

static uint64_t outside_inq(struct socket *s)
{
	struct tcpip_hints h = { 0 };

	if (conn_of(s))
		tcpip_hints(conn_of(s), &h);
	return h.readable;
}

void outside_take_options(struct socket *s, const struct socket *from)
{
	struct tcpip_conn *c = s->ops == &outside_ops ? conn_of(s) : NULL;
	const struct inet_socket *u = container_of(from, struct inet_socket, s);
	const bool alive = socket_option(from, SOCKET_KEEPALIVE);

	for (size_t i = 0; i < ARRAY_SIZE(u->options); i++)
		WRITE_ONCE(inet_of(s)->options[i], READ_ONCE(u->options[i]));
	if (!c)
		return;
	tcpip_set_option(c, TCPIP_KEEPALIVE, alive);
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++)
		pass_option(s, c, i);
}

static int outside_setsockopt(struct socket *s, int level, int option, const void *val,
			      uint32_t len)
{
	const int err = inet_setsockopt(s, level, option, val, len);

	if (err || !conn_of(s))
		return err;
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++) {
		if (passed[i].level == level && passed[i].option == option)
			pass_option(s, conn_of(s), i);
	}
	return 0;
}

static int outside_getsockopt(struct socket *s, int level, int option, void *val, uint32_t *len)
{
	struct tcpip_status st = { 0 };

	if (level != SOL_TCP || option != TCP_MAXSEG)
		return inet_getsockopt(s, level, option, val, len);
	if (conn_of(s))
		tcpip_status(conn_of(s), &st);
	if (!st.mss)
		st.mss = DEFAULT_MSS;
	*len = MIN(*len, (uint32_t)sizeof(st.mss));
	memcpy(val, &st.mss, *len);
	return 0;
}

static void outside_option_changed(struct socket *s, int option)
{
	if (option == SO_KEEPALIVE && conn_of(s))
		tcpip_set_option(conn_of(s), TCPIP_KEEPALIVE, socket_option(s, SOCKET_KEEPALIVE));
}

static void outside_release(struct socket *s)
{
	/* A listener that goes resets connections that no program has got. */
	const bool abort =
		(socket_option(s, SOCKET_LINGER) && !READ_ONCE(s->linger_s)) || s->unaccepted;

	inet_release(s);
	spin_lock(&s->lock);
	s->dead = true;
	spin_unlock(&s->lock);
	if (conn_of(s))
		tcpip_close(conn_of(s), abort);
	inet_of(s)->outside = NULL;
}

/* The stack's lock may be held. */
static int outside_init_socket(struct socket *s)
{
	inet_groups_init(s);
	list_init(&inet_of(s)->errors);
	return 0;
}

static const struct socket_ops outside_ops = {
	.name = "tcp",
	.size = sizeof(struct inet_socket),
	.init = outside_init_socket,
	.connect = outside_reconnect,
	.sendmsg = outside_send,
	.recvmsg = outside_recv,
	.shutdown = outside_shutdown,
	.poll = outside_poll,
	.getname = inet_getname,
	.setsockopt = outside_setsockopt,
	.getsockopt = outside_getsockopt,
	.option_changed = outside_option_changed,
	.inq = outside_inq,
	.release = outside_release,
};

/* --- connections that came from outside */

static void attach(struct socket *s, struct tcpip_conn *c, const struct inet_name *local,
		   const struct inet_name *remote)
{
	struct inet_socket *u = inet_of(s);

	u->local = *local;
	u->remote = *remote;
	u->bound_addr = true;
	u->told = true;
	u->outside = c;
	s->state = SOCKET_CONNECTED;
	tcpip_set_user(c, &conn_user, s);
}

struct socket *outside_make(struct socket *l, struct tcpip_conn *c, const struct inet_name *local,
			    const struct inet_name *remote)
{
	struct socket *s = socket_create_like(l, &outside_ops);
	struct inet_socket *u;

	if (IS_ERR(s))
		return s;
	u = inet_of(s);
	s->options = READ_ONCE(l->options);
	s->sndbuf = READ_ONCE(l->sndbuf);
	s->rcvbuf = READ_ONCE(l->rcvbuf);
	s->linger_s = READ_ONCE(l->linger_s);
	memcpy(u->options, inet_of(l)->options, sizeof(u->options));
	u->v6only = READ_ONCE(inet_of(l)->v6only);
	attach(s, c, local, remote);
	inet_enter(s);
	return s;
}

struct socket *outside_make_internal(struct tcpip_conn *c, const struct inet_name *local,
				     const struct inet_name *remote)
{
	struct socket *s = socket_create_internal(
		&outside_ops, inet_is_v4(local->addr) ? AF_INET : AF_INET6, SOCK_STREAM, SOL_TCP);

	if (!IS_ERR(s))
		attach(s, c, local, remote);
	return s;
}

void outside_unmake(struct socket *s)
{
	inet_of(s)->outside = NULL;
	socket_drop(s);
}

/* The listener's options, which the stack could not be told in the middle of its work. */
void outside_accepted(struct socket *s)
{
	struct tcpip_conn *c = s->ops == &outside_ops ? conn_of(s) : NULL;

	if (!c)
		return;
	tcpip_accept(c);
	pass_options(s, c);
}
