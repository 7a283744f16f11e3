/* SPDX-License-Identifier: MIT */
/*
 * Connections to sockets on other processors: how they are made.
 *
 * Flow:	connect() asks the managers where a socket listens, makes an end here and asks that
 *		processor, which makes the other one in the listener's backlog; while that is full
 *		it is asked again, as a SYN is sent again. A connection to the outside goes to the
 *		gateway in the same way, and stays as it is until the gateway tells what the outside
 *		says.
 * Context:	remote_connected() is polling; the others are tasks' and workers'.
 * Failure:	a connect() that fails gives the socket back as it was. An answer of another
 *		incarnation than was asked is none, and its end is reset.
 */
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <net/node.h>
#include <processor/account/account.h>
#include <processor/client/names.h>
#include <processor/process/process.h>

#include "remote_private.h"

#define CONNECT_NS (127 * NSEC_PER_SEC)  /* as six repetitions of a SYN take */
#define FIND_NS    (5 * NSEC_PER_SEC)    /* for the managers to answer */
#define PAUSE_MAX  (500 * NSEC_PER_MSEC) /* between two questions to a full backlog */

COUNTER(remote_connects, "socket.remote.connects", "connections to other processors");
COUNTER(remote_accepts, "socket.remote.accepts", "connections from other processors");
COUNTER(remote_full, "socket.remote.backlog_full", "connections that found a backlog full");

void remote_ask(struct remote_conn *c)
{
	uint64_t limit;
	int err;

	spin_lock(&c->lock);
	limit = c->rx_limit;
	spin_unlock(&c->lock);
	err = c->kind->ask(c, limit);
	if (err)
		remote_connected(c, err == -ENOMEM ? -EAGAIN : err, 0, 0);
}

/* Does the node still live that the connection was made for? Incarnations do not come back. */
static bool peer_is_the_same(const struct remote_conn *c)
{
	struct node_info info;

	return rpc_peer_info(c->peer, &info) && info.incarn == c->incarn;
}

static int tcp_refusal(const struct remote_conn *c, int status)
{
	if (remote_is_passing(status))
		return ETIMEDOUT;
	if (!c->outside)
		return ECONNREFUSED;
	/* A gateway that has left is a way that is not there. */
	return status == -EHOSTDOWN || status == -ESTALE ? ENETUNREACH : -status;
}

static void open_locked(struct remote_conn *c) __must_hold(&c->lock)
{
	assert_spin_held(&c->lock);
	ASSERT(c->state == REMOTE_ASKING && c->peer_id && c->s);
	c->state = REMOTE_OPEN;
	c->kind->connected(c->s);
}

/* Of an end that was closed meanwhile, the peer's is reset. */
void remote_connected(struct remote_conn *c, int status, uint64_t peer_id, uint64_t limit)
{
	const uint64_t now = time_now_ns();
	const bool stale = !status && !peer_is_the_same(c);
	uint64_t pause = 0;
	int err = 0;

	spin_lock(&c->lock);
	if (!status)
		c->peer_id = peer_id;
	if (c->state == REMOTE_GONE) {
		c->reset_due = !status;
	} else if (stale) {
		/* Another incarnation has made an end: nothing from it would be found here. */
		c->reset_due = true;
		err = ECONNREFUSED;
	} else if (!status) {
		ASSERT(c->state == REMOTE_ASKING);
		c->tx_limit = MAX(c->tx_limit, limit);
		if (!c->outside || c->opened)
			open_locked(c);
	} else if (remote_is_passing(status) && now < c->deadline_ns) {
		pause = c->pause_ns;
		c->pause_ns = MIN(2 * pause, PAUSE_MAX);
		c->ask_due = true;
	} else {
		err = c->kind->refusal(c, status);
	}
	spin_unlock(&c->lock);
	if (err)
		remote_lose(c, err);
	else if (pause)
		remote_later(c, pause);
	else
		remote_wake_worker(c);
}

/* The address of the gateway's that the connection has; then bytes may go. */
int remote_opened(const struct remote_message *m, int status, const uint8_t addr[16])
{
	struct remote_conn *c = remote_find(m->conn, m->node, m->incarn);
	struct socket *s = NULL;

	if (!c)
		return -ECONNRESET;
	spin_lock(&c->lock);
	if (c->outside && c->state == REMOTE_ASKING && !c->opened && c->s) {
		s = c->s;
		socket_get(s);
	}
	spin_unlock(&c->lock);
	if (s && status) {
		remote_lose(c, -status);
	} else if (s) {
		inet_set_source(s, addr);
		spin_lock(&c->lock);
		c->opened = true;
		if (c->state == REMOTE_ASKING && c->peer_id && c->s)
			open_locked(c);
		spin_unlock(&c->lock);
		remote_kick(c);
	}
	if (s)
		socket_put(s);
	remote_put(c);
	return s ? 0 : -EPROTO;
}

const struct remote_kind remote_tcp = {
	.idle = &tcp_ops,
	.ask = remote_net_connect,
	.refusal = tcp_refusal,
	.connected = tcp_connected,
	.fin = tcp_fin,
	.reset = tcp_reset,
	.forget = inet_forget_remote,
};

/* Connect @s, whose names are set, to a socket on @node. -ENOBUFS: it is as before. */
static int begin(struct socket *s, uint32_t node, uint32_t incarn, bool outside)
{
	struct remote_conn *c = remote_make(s, &remote_tcp, kmem_current(), node, incarn);

	if (!c)
		return -ENOBUFS;
	c->from = inet_of(s)->local;
	c->to = inet_of(s)->remote;
	c->outside = outside;
	c->pause_ns = REMOTE_PAUSE_NS;
	c->deadline_ns = time_now_ns() + CONNECT_NS;
	remote_set(s, c);
	__atomic_store_n(&s->ops, &remote_ops, __ATOMIC_RELEASE);
	spin_lock(&s->lock);
	__atomic_store_n(&s->state, SOCKET_CONNECTING, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	counter_inc(&remote_connects);
	if (outside)
		remote_options_begin(s); /* told when the gateway has answered */
	remote_ask(c);
	return 0;
}

static int wait_connected(struct socket *s, bool nonblock)
{
	int err;

	if (nonblock)
		return -EINPROGRESS;
	err = tcp_wait_connected(s, false);
	if (!err)
		inet_of(s)->told = true;
	return err;
}

int remote_connect(struct socket *s, const struct inet_name *to, bool nonblock, bool *taken)
{
	struct vnode_name name = { .port = to->port, .kind = NAME_TCP };
	struct node_info info;
	uint32_t node;
	int err;

	*taken = false;
	if (!names_are_shared())
		return -ECONNREFUSED;
	memcpy(name.addr, to->addr, sizeof(name.addr));
	err = names_find(&name, time_now_ns() + FIND_NS, &node);
	if (err)
		return err;
	if (!rpc_peer_info(node, &info))
		return -ECONNREFUSED;
	inet_connect_names(s, to);
	err = begin(s, node, info.incarn, false);
	*taken = !err;
	return err ? err : wait_connected(s, nonblock);
}

int remote_connect_outside(struct socket *s, const struct inet_name *to, uint32_t gateway,
			   uint32_t incarn, bool nonblock)
{
	int err;

	inet_connect_names(s, to);
	err = begin(s, gateway, incarn, true);
	return err ? err : wait_connected(s, nonblock);
}

int remote_connect_inside(struct socket *s, uint32_t node, uint32_t incarn)
{
	return begin(s, node, incarn, false);
}

/* --- what peers ask --------------------------------------------------------------------- */

struct remote_conn *remote_open_end(struct socket *s, const struct remote_kind *kind,
				    struct kmem_account *account, const struct remote_request *r,
				    uint64_t *id, uint64_t *limit)
{
	struct remote_conn *c = remote_make(s, kind, account, r->node, r->incarn);

	if (!c)
		return NULL;
	c->from = r->from;
	c->to = r->to;
	spin_lock(&c->lock);
	c->peer_id = r->conn;
	c->tx_limit = r->limit;
	c->state = REMOTE_OPEN;
	*id = c->id;
	*limit = c->rx_limit;
	spin_unlock(&c->lock);
	remote_set(s, c);
	return c;
}

void remote_tell_opened(struct remote_conn *c, int err, const uint8_t addr[16])
{
	bool gone;

	spin_lock(&c->lock);
	gone = c->state == REMOTE_GONE;
	c->opened_due = !gone;
	c->opened_status = -err;
	memcpy(c->opened_addr, addr, sizeof(c->opened_addr));
	if (err && !gone) {
		c->state = REMOTE_GONE;
		remote_drop_bufs_locked(c);
	}
	spin_unlock(&c->lock);
	if (gone)
		return;
	if (err)
		remote_leave(c);
	remote_wake_worker(c);
}

bool remote_peer_has_closed(struct socket *s)
{
	struct remote_conn *c = remote_of(s);
	bool closed = !c;

	if (c) {
		closed = READ_ONCE(c->peer_closed);
		remote_put(c);
	}
	return closed;
}

int remote_offer(struct socket *l, struct socket *child, const struct remote_kind *kind,
		 const struct remote_request *r, uint64_t *id, uint64_t *limit)
{
	struct remote_conn *c = remote_open_end(child, kind, kmem_account_of(l), r, id, limit);
	int err;

	if (!c) {
		socket_drop(child);
		return -ENOBUFS;
	}
	err = socket_backlog_add(l, child);
	if (err) {
		/* The peer knows no end here: nothing is to be told. */
		spin_lock(&c->lock);
		c->state = REMOTE_GONE;
		spin_unlock(&c->lock);
		remote_leave(c);
		socket_drop(child);
		counter_inc(&remote_full);
		return err;
	}
	counter_inc(&remote_accepts);
	/* Membership looks at the table once: it may have done so before this one was there. */
	if (rpc_peer_has_left(r->node, r->incarn))
		remote_node_gone(r->node, r->incarn);
	return 0;
}

int remote_accept(const struct remote_request *r, uint64_t *id, uint64_t *limit)
{
	struct socket *l = inet_find(SOCK_STREAM, &r->to, NULL), *child;
	int err;

	if (!l)
		return -ECONNREFUSED;
	child = socket_create_like(l, &remote_ops);
	if (IS_ERR(child)) {
		socket_put(l);
		return -ENOBUFS;
	}
	tcp_inherit(child, l, &r->to, &r->from);
	inet_enter(child);
	socket_get(child);
	err = remote_offer(l, child, &remote_tcp, r, id, limit);
	if (!err)
		remote_options_begin(child);
	socket_put(child);
	socket_put(l);
	return err;
}
