/* SPDX-License-Identifier: MIT */
/*
 * AF_UNIX: connections to sockets on other processors of the vNode.
 *
 * Flow:	connect() that finds no listener here asks the managers for a processor with one of
 *		that name, and asks that processor, which makes the other end in the listener's
 *		backlog. The call waits for the answer, also one that must not block: that answer is
 *		one message away. A full backlog is asked again, or is -EAGAIN. The names and the
 *		identities of both programs travel with the question and its answer. Bytes go as
 *		records (remote_records.c).
 * Invariants:	unix_socket.far is there from before the question to the end of the socket, or until
 *		the connect() has failed.
 * Context:	the operations of struct remote_kind are polling; the others sleep.
 * Failure:	a connect() that fails gives the socket back as it was.
 * Limits:	open files do not travel: EOPNOTSUPP. A packet has REMOTE_RECORD_MAX bytes at most.
 * See:		docs/design/sockets.md, docs/protocol/pp.md
 */
#include "unix_remote.h"

#include <abi/poll.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <net/node.h>
#include <net/rpc.h>
#include <processor/account/account.h>
#include <processor/client/names.h>
#include <processor/process/process.h>
#include <processor/vfs/uio.h>

#include "queue.h"
#include "remote_private.h"
#include "unix_private.h"
#include "unix_remote_private.h"

#define FIND_NS (5 * NSEC_PER_SEC) /* for the managers to answer */

COUNTER(unix_connects, "socket.remote.unix_connects", "AF_UNIX connections to other processors");

static const struct socket_ops remote_stream_ops, remote_packet_ops;
static const struct remote_kind stream_kind, packet_kind;

static const struct remote_kind *kind_of(const struct socket *s)
{
	return s->type == SOCK_STREAM ? &stream_kind : &packet_kind;
}

static const struct socket_ops *ops_of(const struct socket *s)
{
	return s->type == SOCK_STREAM ? &remote_stream_ops : &remote_packet_ops;
}

/* --- what the socket hears, with conn.lock held ------------------------------------------- */

static void heard_connected(struct socket *s)
{
	spin_lock(&s->lock);
	if (s->state == SOCKET_CONNECTING)
		__atomic_store_n(&s->state, SOCKET_CONNECTED, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	socket_wake(&s->wr_wait);
}

static void heard_fin(struct socket *s)
{
	socket_shut(s, SOCKET_SHUT_RD, 0);
}

static void heard_deaf(struct socket *s)
{
	socket_shut(s, SOCKET_SHUT_WR, 0);
}

/* A reset that comes after it is not heard of by a reader. */
static void heard_closed(struct socket *s)
{
	spin_lock(&s->lock);
	s->finished = true;
	spin_unlock(&s->lock);
	socket_shut(s, SOCKET_SHUT_BOTH, 0);
}

static void heard_reset(struct socket *s)
{
	socket_shut(s, SOCKET_SHUT_BOTH, ECONNRESET);
}

/* --- connecting --------------------------------------------------------------------------- */

static int refusal(const struct remote_conn *c, int status)
{
	return remote_is_passing(status) ? EAGAIN : ECONNREFUSED;
}

void unix_remote_learn(struct remote_conn *c, const struct unix_side *there)
{
	spin_lock(&c->lock);
	if (c->s && c->state == REMOTE_ASKING) {
		ASSERT(unix_of(c->s)->far);
		*unix_of(c->s)->far = there->name;
		spin_lock(&c->s->lock);
		c->s->peer_cred = there->cred;
		spin_unlock(&c->s->lock);
	}
	spin_unlock(&c->lock);
}

/* connect() has failed. */
static void forget(struct socket *s)
{
	kmem_free(unix_of(s)->far);
	unix_of(s)->far = NULL;
}

/* The name of @s, as its peer is told. */
static void name_of(struct socket *s, struct unix_far *name)
{
	struct sock_addr addr;

	unix_copy_name(s, &addr);
	name->len = MIN(addr.len - (uint32_t)UNIX_PATH_OFFSET, (uint32_t)sizeof(name->path));
	memcpy(name->path, addr.un.path, name->len);
}

static struct unix_question *question_make(struct socket *s, const uint8_t key[16])
{
	struct unix_question *q = kmem_alloc(kmem_current(), sizeof(*q));

	if (!q)
		return NULL;
	q->type = s->type;
	q->from.cred = socket_cred_current();
	name_of(s, &q->from.name);
	memcpy(q->key, key, sizeof(q->key));
	return q;
}

/* Ask @node for a connection of @s. -ENOMEM: @s is as before. */
static int begin(struct socket *s, const uint8_t key[16], uint32_t node, uint32_t incarn,
		 uint64_t deadline)
{
	struct unix_far *far = kmem_alloc(kmem_current(), sizeof(*far));
	struct unix_question *q = question_make(s, key);
	struct remote_conn *c =
		far && q ? remote_make(s, kind_of(s), kmem_current(), node, incarn) : NULL;

	if (!c) {
		kmem_free(q);
		kmem_free(far);
		return -ENOMEM;
	}
	c->extra = q;
	c->pause_ns = REMOTE_PAUSE_NS;
	c->deadline_ns = deadline;
	unix_of(s)->far = far;
	remote_set(s, c);
	__atomic_store_n(&s->ops, ops_of(s), __ATOMIC_RELEASE);
	spin_lock(&s->lock);
	__atomic_store_n(&s->state, SOCKET_CONNECTING, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	counter_inc(&unix_connects);
	remote_ask(c);
	return 0;
}

static bool is_answered(const struct socket *s)
{
	return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != SOCKET_CONNECTING;
}

/* The answer to connect(): a call that is interrupted takes the question back. */
static int wait_answer(struct socket *s, bool nonblock, uint64_t deadline)
{
	struct remote_conn *c = remote_of(s);
	int err, said;

	if (nonblock)
		err = wait_event_killable(&s->wr_wait, is_answered(s));
	else
		err = wait_event_interruptible_timeout(&s->wr_wait, is_answered(s), deadline);
	if (err && !nonblock)
		err = socket_wait_error(err, READ_ONCE(s->sndtimeo_ns));
	if (err && !(c && remote_give_up(c, EINTR)))
		err = 0; /* the answer was there first */
	if (c)
		remote_put(c);
	wait_event(&s->wr_wait, is_answered(s));
	if (READ_ONCE(s->state) == SOCKET_CONNECTED)
		return 0;
	said = socket_take_error(s);
	if (err)
		return err;
	return said ? -said : -ECONNREFUSED;
}

int unix_remote_find(const struct socket *s, const uint8_t key[16], bool is_path, uint32_t *node)
{
	static const uint32_t types[] = { SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM };
	struct vnode_name name = { .kind = unix_name_kind(s->type) };
	int err;

	memcpy(name.addr, key, sizeof(name.addr));
	err = names_find(&name, time_now_ns() + FIND_NS, node);
	/* A path is one socket's, of whichever type; an abstract name is not. */
	for (size_t i = 0; err == -ECONNREFUSED && is_path && i < ARRAY_SIZE(types); i++) {
		if (types[i] == s->type)
			continue;
		name.kind = unix_name_kind(types[i]);
		err = names_find(&name, time_now_ns() + FIND_NS, node) ? err : -EPROTOTYPE;
	}
	return err;
}

int unix_remote_connect(struct socket *s, const struct sock_addr *addr, bool nonblock)
{
	const uint64_t deadline = socket_deadline(READ_ONCE(s->sndtimeo_ns), nonblock);
	struct node_info info;
	uint8_t key[16];
	uint32_t node;
	int err;

	if (!names_are_shared())
		return -ECONNREFUSED;
	err = unix_key(addr, key);
	if (!err)
		err = unix_remote_find(s, key, addr->un.path[0], &node);
	if (!err && !rpc_peer_info(node, &info))
		err = -ECONNREFUSED;
	if (!err)
		err = begin(s, key, node, info.incarn, deadline);
	return err ? err : wait_answer(s, nonblock, deadline);
}

/* --- moving data -------------------------------------------------------------------------- */

/* The errno that keeps @s from sending; 0: none. */
static int check_send(struct socket *s, const struct socket_msg *m)
{
	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (m->fds)
		return -EOPNOTSUPP; /* they stay on their processor */
	if (READ_ONCE(s->state) != SOCKET_CONNECTED)
		return -ENOTCONN;
	return READ_ONCE(s->shut) & SOCKET_SHUT_WR ? -EPIPE : 0;
}

static ssize_t stream_send(struct socket *s, struct socket_msg *m)
{
	const uint64_t deadline =
		socket_deadline(READ_ONCE(s->sndtimeo_ns), m->flags & MSG_DONTWAIT);
	struct remote_conn *c;
	ssize_t ret, done = 0;

	if (m->addr.len && !(m->flags & MSG_OOB))
		return READ_ONCE(s->state) == SOCKET_CONNECTED ? -EISCONN : -EOPNOTSUPP;
	ret = check_send(s, m);
	c = ret ? NULL : remote_of(s);
	if (!c)
		return ret ? ret : -EPIPE;
	while (!ret && m->uio->left) {
		ret = remote_send_some(s, c, m, deadline);
		if (ret > 0) {
			done += ret;
			ret = check_send(s, m);
		}
	}
	remote_put(c);
	return done ? done : ret;
}

static ssize_t packet_send(struct socket *s, struct socket_msg *m)
{
	const uint64_t deadline =
		socket_deadline(READ_ONCE(s->sndtimeo_ns), m->flags & MSG_DONTWAIT);
	struct remote_conn *c;
	ssize_t ret = -socket_take_error(s);

	if (!ret)
		ret = check_send(s, m);
	if (ret)
		return ret;
	if (m->uio->left > REMOTE_RECORD_MAX ||
	    m->uio->left + sizeof(struct sock_msg) > READ_ONCE(s->sndbuf))
		return -EMSGSIZE;
	c = remote_of(s);
	if (!c)
		return -EPIPE;
	ret = remote_send_some(s, c, m, deadline);
	remote_put(c);
	return ret;
}

static ssize_t stream_recv(struct socket *s, struct socket_msg *m)
{
	ssize_t ret;

	if (READ_ONCE(s->state) != SOCKET_CONNECTED)
		return -EINVAL;
	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	ret = socket_recv_stream(s, m);
	if (ret > 0 && m->wants_addr && unix_of(s)->far->len)
		unix_copy_far(s, &m->addr);
	return ret;
}

static ssize_t packet_recv(struct socket *s, struct socket_msg *m)
{
	ssize_t ret;

	if (READ_ONCE(s->state) != SOCKET_CONNECTED)
		return -ENOTCONN;
	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	ret = socket_recv_message(s, m, NULL);
	remote_bytes_consumed(s);
	return ret;
}

/* --- state -------------------------------------------------------------------------------- */

static int remote_shutdown(struct socket *s, unsigned int how)
{
	const uint32_t mine = how + 1;
	struct remote_conn *c;

	socket_shut(s, mine, 0);
	c = remote_of(s);
	if (!c)
		return 0;
	if (mine & SOCKET_SHUT_RD)
		remote_deafen(c);
	if (mine & SOCKET_SHUT_WR)
		remote_end(c);
	remote_put(c);
	return 0;
}

static unsigned int remote_poll(struct socket *s)
{
	const uint32_t shut = __atomic_load_n(&s->shut, __ATOMIC_ACQUIRE);
	unsigned int events = READ_ONCE(s->error) ? POLLERR : 0;

	if (shut == SOCKET_SHUT_BOTH || READ_ONCE(s->state) != SOCKET_CONNECTED)
		events |= POLLHUP;
	if (shut & SOCKET_SHUT_RD)
		events |= POLLRDHUP | POLLIN | POLLRDNORM;
	if (READ_ONCE(s->nr_queued))
		events |= POLLIN | POLLRDNORM;
	if (remote_may_write(s))
		events |= POLLOUT | POLLWRNORM | POLLWRBAND;
	return events;
}

static void remote_release(struct socket *s)
{
	unix_unhash(s);
	remote_release_conn(s, false);
}

/* The same for streams and packets. */
#define SOCKET_OPS                                                                     \
	.size = sizeof(struct unix_socket), .bind = unix_bind, .listen = unix_listen,  \
	.connect = unix_connect, .accept = socket_accept, .shutdown = remote_shutdown, \
	.poll = remote_poll, .getname = unix_getname, .outq = remote_outq,             \
	.release = remote_release, .destroy = unix_destroy,                            \
	.poll_for_bytes = remote_poll_for_bytes, .waited = remote_waited

static const struct socket_ops remote_stream_ops = {
	.name = "unix-stream",
	.sendmsg = stream_send,
	.recvmsg = stream_recv,
	.consumed = remote_bytes_consumed,
	SOCKET_OPS,
};

static const struct socket_ops remote_packet_ops = {
	.name = "unix-packet",
	.sendmsg = packet_send,
	.recvmsg = packet_recv,
	SOCKET_OPS,
};

#define KIND                                                                                    \
	.records = true, .ask = unix_net_ask, .refusal = refusal, .connected = heard_connected, \
	.fin = heard_fin, .deaf = heard_deaf, .closed = heard_closed, .reset = heard_reset,     \
	.forget = forget

static const struct remote_kind stream_kind = {
	.idle = &unix_stream_ops,
	KIND,
};

static const struct remote_kind packet_kind = {
	.idle = &unix_packet_ops,
	.packets = true,
	KIND,
};

/* --- requests of other processors --------------------------------------------------------- */

/* The server's end of a connection to listener @l; no program has it. ERR_PTR(-ENOBUFS). */
static struct socket *make_child(struct socket *l, const struct unix_side *from)
{
	struct socket *child = socket_create_like(l, ops_of(l));
	struct unix_far *far = NULL;

	if (IS_ERR(child))
		return ERR_PTR(-ENOBUFS);
	if (!unix_inherit_name(child, l))
		far = kmem_alloc(kmem_account_of(l), sizeof(*far));
	if (!far) {
		socket_drop(child);
		return ERR_PTR(-ENOBUFS);
	}
	*far = from->name;
	unix_of(child)->far = far;
	child->options |= READ_ONCE(l->options) & SOCKET_PASSCRED;
	child->peer_cred = from->cred;
	child->state = SOCKET_CONNECTED;
	return child;
}

int unix_remote_accept(const struct remote_request *r, const struct unix_question *q,
		       struct unix_side *here, uint64_t *id, uint64_t *limit)
{
	struct socket *l = unix_find_key(q->key, q->type), *child;
	int err;

	if (!l)
		return -ECONNREFUSED;
	child = make_child(l, &q->from);
	if (IS_ERR(child)) {
		socket_put(l);
		return (int)PTR_ERR(child);
	}
	spin_lock(&l->lock);
	here->cred = l->cred;
	spin_unlock(&l->lock);
	name_of(l, &here->name);
	err = remote_offer(l, child, kind_of(l), r, id, limit);
	socket_put(l);
	return err;
}
