/* SPDX-License-Identifier: MIT */
/*
 * Datagrams to sockets on other processors of the vNode.
 *
 * Flow:	a datagram for which this processor has no socket goes to the one on which the
 *		managers know a socket with the port, or which has leased it. Their answers are kept
 *		for a moment, also that there is none. That processor says whether a socket has the
 *		port: if not, its answer is forgotten, and a sender that is connected hears
 *		ECONNREFUSED.
 * Locking:	routes.lock and ends.lock (RANK_SPIN_MONITOR). Answers come in polling context: a
 *		worker puts the sockets that they are for.
 * Failure:	a datagram may be lost, as on a wire.
 * Limits:	NR_ROUTES answers are kept; a name whose place another one has is asked for again.
 */
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/client/names.h>
#include <processor/vfs/uio.h>

#include "gateway.h"
#include "inet_private.h"
#include "queue.h"
#include "remote_private.h"

#define NR_ROUTES 256u
#define KEEP_NS   (NSEC_PER_SEC)       /* where a port is */
#define NONE_NS   (20 * NSEC_PER_MSEC) /* that no socket has it */
#define FIND_NS   (5 * NSEC_PER_SEC)   /* for the managers to answer */

COUNTER(udp_sent, "socket.remote.datagrams", "datagrams to sockets of other processors");
COUNTER(udp_refused, "socket.remote.datagrams_refused", "of those, for ports that no socket has");
COUNTER(udp_finds, "socket.remote.datagram_finds", "questions where a port for datagrams is");

struct route {
	uint8_t addr[16];
	uint16_t port;     /* 0: none */
	uint32_t node;     /* 0: no socket has it */
	uint64_t until_ns; /* when it is asked again */
};

static struct {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	struct route by_name[NR_ROUTES] __guarded_by(&lock);
} routes = {
	.lock = SPINLOCK_INIT("datagram routes", RANK_SPIN_MONITOR),
};

/* A datagram under way, and its sender, if that is to hear what becomes of it. */
struct end {
	struct list_head link; /* ends.lock */
	struct socket *s;      /* counted; NULL: it is neither connected nor asks for errors */
	struct inet_packet packet;
	struct sock_msg *msg; /* its first bytes; NULL: none, or no memory */
	int status;
};

static struct {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	struct list_head list __guarded_by(&lock);
	struct workqueue *wq; /* const after start */
	struct work work;
} ends = {
	.lock = SPINLOCK_INIT("datagram ends", RANK_SPIN_MONITOR),
	.list = LIST_HEAD_INIT(ends.list),
};

/* --- where a port is -------------------------------------------------------------------- */

static struct route *place_of_locked(const struct inet_name *to) __must_hold(&routes.lock)
{
	uint64_t half[2];

	assert_spin_held(&routes.lock);
	memcpy(half, to->addr, sizeof(half));
	return &routes.by_name[hash64_pair(hash64_pair(half[0], half[1]), to->port) % NR_ROUTES];
}

static bool is_of(const struct route *r, const struct inet_name *to)
{
	return r->port == to->port && !memcmp(r->addr, to->addr, sizeof(r->addr));
}

static bool known(const struct inet_name *to, uint32_t *node)
{
	const struct route *r;
	bool yes;

	spin_lock(&routes.lock);
	r = place_of_locked(to);
	yes = is_of(r, to) && time_now_ns() < r->until_ns;
	*node = yes ? r->node : 0;
	spin_unlock(&routes.lock);
	return yes;
}

static void keep(const struct inet_name *to, uint32_t node)
{
	struct route *r;

	spin_lock(&routes.lock);
	r = place_of_locked(to);
	*r = (struct route){ .port = to->port,
			     .node = node,
			     .until_ns = time_now_ns() + (node ? KEEP_NS : NONE_NS) };
	memcpy(r->addr, to->addr, sizeof(r->addr));
	spin_unlock(&routes.lock);
}

static void forget(const struct inet_name *to)
{
	struct route *r;

	spin_lock(&routes.lock);
	r = place_of_locked(to);
	if (is_of(r, to))
		r->until_ns = 0;
	spin_unlock(&routes.lock);
}

/* -ECONNREFUSED: no other processor's socket has it; -ETIMEDOUT, -EINTR. */
static int find(const struct inet_name *to, uint32_t *node)
{
	struct vnode_name name = { .port = to->port, .kind = NAME_UDP };
	int err;

	if (!known(to, node)) {
		memcpy(name.addr, to->addr, sizeof(name.addr));
		counter_inc(&udp_finds);
		err = names_find(&name, time_now_ns() + FIND_NS, node);
		if (err && err != -ECONNREFUSED)
			return err;
		if (err)
			*node = 0;
		keep(to, *node);
	}
	return *node ? 0 : -ECONNREFUSED;
}

/* --- sending ---------------------------------------------------------------------------- */

/* The socket hears that no socket has the port. */
static void tell_refused(struct end *e)
{
	struct inet_error error;

	inet_error_of_port(&e->packet, &error);
	inet_error_tell(e->s, &error, e->msg);
	e->msg = NULL;
}

static void end_free(struct end *e)
{
	if (e && e->msg)
		sock_msg_free(e->msg);
	if (e && e->s)
		socket_put(e->s);
	kfree(e);
}

static void end_work(struct work *w)
{
	struct end *e;

	for (;;) {
		spin_lock(&ends.lock);
		e = list_first_entry_or_null(&ends.list, struct end, link);
		if (e)
			list_del(&e->link);
		spin_unlock(&ends.lock);
		if (!e)
			return;
		if (e->status == -ECONNREFUSED)
			tell_refused(e);
		end_free(e);
	}
}

/* Polling. */
static void answered(void *arg, int status)
{
	struct end *e = arg;

	e->status = status;
	if (status == -ECONNREFUSED)
		counter_inc(&udp_refused);
	if (status)
		forget(&e->packet.to);
	if (!e->s) {
		kfree(e);
		return;
	}
	spin_lock(&ends.lock);
	list_add_tail(&e->link, &ends.list);
	spin_unlock(&ends.lock);
	(void)work_queue(ends.wq, &ends.work); /* it may be queued already */
}

static struct end *end_make(struct socket *s, const struct inet_packet *packet)
{
	struct end *e = kzalloc(sizeof(*e));

	if (!e)
		return NULL;
	e->packet = *packet;
	if (READ_ONCE(s->state) == SOCKET_CONNECTED ||
	    inet_wants_errors(s, inet_is_v4(packet->to.addr))) {
		socket_get(s);
		e->s = s;
	}
	return e;
}

/* Keep so much of the datagram @data as an error of it would have. */
static void end_keep(struct end *e, const void *data, size_t len)
{
	const bool four = inet_is_v4(e->packet.to.addr);

	if (!e->s || !inet_wants_errors(e->s, four))
		return;
	e->msg = sock_msg_copy_of(data, inet_error_bytes(four, len), kmem_account_of(e->s));
	if (IS_ERR(e->msg))
		e->msg = NULL;
}

ssize_t remote_send_datagram(struct socket *s, const struct inet_packet *packet,
			     struct socket_msg *m)
{
	const struct inet_name *to = &packet->to;
	const size_t len = m->uio->left;
	struct end *e = NULL;
	uint8_t *buf = NULL;
	uint32_t node;
	int err = find(to, &node);

	if (err)
		return err;
	buf = kmalloc(MAX(len, (size_t)1));
	e = end_make(s, packet);
	if (!buf || !e)
		err = -ENOBUFS;
	else if (uio_fetch(m->uio, buf, len) < len)
		err = -EFAULT;
	if (!err)
		end_keep(e, buf, len);
	if (!err)
		err = gateway_net_send(node, 0, packet, buf, len, m->flags & MSG_DONTWAIT, answered,
				       e);
	kfree(buf);
	if (!err) {
		counter_inc(&udp_sent);
		return (ssize_t)len;
	}
	end_free(e);
	return err;
}

int remote_udp_init(void)
{
	work_init(&ends.work, end_work);
	ends.wq = workqueue_create("datagram ends", 1);
	return IS_ERR(ends.wq) ? (int)PTR_ERR(ends.wq) : 0;
}
