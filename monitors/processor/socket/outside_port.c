/* SPDX-License-Identifier: MIT */
/*
 * Ports of the vNode that are visible outside: listeners and datagram ports of the TCP/IP stack.
 *
 * Flow:	one of each type, address and port, however many sockets share it. The
 *		table of ports (inet_port.c) chooses the socket for each arrival, as inside.
 * Locking:	ports_mutex (RANK_NET), outside the stack's lock, guards the table and
 *		inet_socket.visible. The stack calls on_accepted() and on_datagram() with its own
 *		lock held; they take spinlocks only, and wait for nothing.
 * Failure:	a connection that no backlog takes is reset, a datagram without room is lost.
 *		Packets from outside with a source address inside the vNode are refused.
 */
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/tcpip.h>
#include <processor/vfs/uio.h>

#include "inet_private.h"

#define BUCKETS      256u
#define MAX_DATAGRAM 65527u

struct outside_port {
	struct hlist_node node;
	uint32_t type; /* const: SOCK_STREAM or SOCK_DGRAM */
	uint32_t users;
	struct tcpip_name name;          /* const */
	struct tcpip_listener *listener; /* const: of SOCK_STREAM */
	struct tcpip_port *datagrams;    /* const: of SOCK_DGRAM */
};

static struct mutex ports_mutex = MUTEX_INIT(ports_mutex, "outside ports", RANK_NET);
static struct hlist_head buckets[BUCKETS] __guarded_by(&ports_mutex);

static struct inet_name inet_name_of(const struct tcpip_name *name)
{
	struct inet_name out = { .port = name->port, .scope_id = name->scope_id };

	memcpy(out.addr, name->addr, sizeof(out.addr));
	return out;
}

/* --- what arrives: the stack's lock is held */

static int on_accepted(void *arg, struct tcpip_conn *c, const struct tcpip_name *local,
		       const struct tcpip_name *remote)
{
	const struct inet_name to = inet_name_of(local), from = inet_name_of(remote);
	struct socket *l, *child;
	int err;

	(void)arg;
	if (inet_is_local(from.addr))
		return -ECONNREFUSED;
	l = inet_find(SOCK_STREAM, &to, NULL);
	if (!l)
		return -ECONNREFUSED;
	child = outside_make(l, c, &to, &from);
	err = IS_ERR(child) ? (int)PTR_ERR(child) : socket_backlog_add(l, child);
	if (err && !IS_ERR(child))
		outside_unmake(child);
	socket_put(l);
	return err;
}

static void on_datagram(void *arg, const struct tcpip_name *from, const struct tcpip_name *to,
			const void *data, size_t len)
{
	const struct inet_name source = inet_name_of(from), dest = inet_name_of(to);
	struct socket *receiver;

	(void)arg;
	if (inet_is_local(source.addr))
		return;
	receiver = inet_find(SOCK_DGRAM, &dest, &source);
	if (!receiver)
		return;
	udp_receive(receiver, &source, data, len);
	socket_put(receiver);
}

/* --- the table */

static struct hlist_head *bucket_of(uint32_t port) __must_hold(&ports_mutex)
{
	return &buckets[hash64(port) % BUCKETS];
}

static struct outside_port *find_locked(uint32_t type, const struct tcpip_name *name)
	__must_hold(&ports_mutex)
{
	struct outside_port *p;

	assert_mutex_held(&ports_mutex);
	hlist_for_each_entry(p, bucket_of(name->port), node) {
		if (p->type == type && p->name.port == name->port && p->name.only6 == name->only6 &&
		    !memcmp(p->name.addr, name->addr, sizeof(name->addr)))
			return p;
	}
	return NULL;
}

/* A port without users. ERR_PTR(-EADDRINUSE, -ENOBUFS). */
static struct outside_port *make_locked(uint32_t type, const struct tcpip_name *name,
					unsigned int backlog) __must_hold(&ports_mutex)
{
	struct outside_port *p = kzalloc(sizeof(*p));
	int err;

	assert_mutex_held(&ports_mutex);
	if (!p)
		return ERR_PTR(-ENOBUFS);
	p->type = type;
	p->name = *name;
	if (type == SOCK_STREAM)
		err = tcpip_listen(name, backlog, on_accepted, NULL, &p->listener);
	else
		err = tcpip_port_open(name, on_datagram, NULL, &p->datagrams);
	if (err) {
		kfree(p);
		return ERR_PTR(err);
	}
	hlist_add_head(&p->node, bucket_of(name->port));
	return p;
}

/* The name of @s as the outside sees it. False: the outside does not see @s. */
static bool visible_name(struct socket *s, struct tcpip_name *name)
{
	const struct inet_socket *u = inet_of(s);

	*name = (struct tcpip_name){ .port = u->local.port,
				     .scope_id = u->local.scope_id,
				     .only6 = READ_ONCE(u->v6only) };
	if (u->bound_addr)
		memcpy(name->addr, u->local.addr, sizeof(name->addr));
	else if (s->family == AF_INET) /* a connection's address may be there: it is any */
		name->addr[10] = name->addr[11] = 0xff;
	return tcpip_is_present() && !inet_is_loopback(name->addr) &&
	       !inet_is_multicast(name->addr);
}

int outside_open(struct socket *s, unsigned int backlog)
{
	struct inet_socket *u = inet_of(s);
	struct outside_port *p;
	struct tcpip_name name;

	if (!visible_name(s, &name))
		return 0;
	mutex_lock(&ports_mutex);
	p = u->visible ? u->visible : find_locked(s->type, &name);
	if (!p)
		p = make_locked(s->type, &name, backlog);
	else if (s->type == SOCK_STREAM)
		tcpip_set_backlog(p->listener, backlog);
	if (!IS_ERR(p) && !u->visible) {
		p->users++;
		__atomic_store_n(&u->visible, p, __ATOMIC_RELEASE);
	}
	mutex_unlock(&ports_mutex);
	return IS_ERR(p) ? (int)PTR_ERR(p) : 0;
}

void outside_close(struct socket *s)
{
	struct inet_socket *u = inet_of(s);
	struct outside_port *p;

	if (!__atomic_load_n(&u->visible, __ATOMIC_ACQUIRE))
		return;
	mutex_lock(&ports_mutex);
	p = u->visible;
	u->visible = NULL;
	if (p && --p->users == 0) {
		hlist_del(&p->node);
		if (p->listener)
			tcpip_unlisten(p->listener);
		else
			tcpip_port_close(p->datagrams);
		kfree(p);
	}
	mutex_unlock(&ports_mutex);
}

/* --- datagrams that leave */

/* May @s send to @to? @from: the address that its packets carry. */
static int source_of(struct socket *s, const struct inet_name *to, uint8_t from[16])
{
	struct tcpip_name dest = { .port = to->port, .scope_id = to->scope_id };

	if (inet_of(s)->bound_addr && inet_is_loopback(inet_of(s)->local.addr))
		return -EINVAL;
	memcpy(dest.addr, to->addr, sizeof(dest.addr));
	return tcpip_source_for(&dest, from);
}

int outside_connect_datagrams(struct socket *s, const struct inet_name *to)
{
	uint8_t from[16];
	int err = source_of(s, to, from);

	if (!err)
		err = outside_open(s, 0);
	if (err)
		return err;
	inet_connect_names(s, to);
	inet_set_source(s, from);
	return 0;
}

ssize_t outside_send_datagram(struct socket *s, struct socket_msg *m, const struct inet_name *to)
{
	struct tcpip_name dest = { .port = to->port, .scope_id = to->scope_id };
	const size_t len = m->uio->left;
	uint8_t from[16], *buf;
	int err = source_of(s, to, from);

	ASSERT(len <= MAX_DATAGRAM); /* udp_send() has looked */
	if (!err)
		err = outside_open(s, 0);
	if (err)
		return err;
	buf = kmalloc(MAX(len, (size_t)1));
	if (!buf)
		return -ENOBUFS;
	memcpy(dest.addr, to->addr, sizeof(dest.addr));
	/* The socket is open as long as a call on it runs, and so is its port. */
	if (uio_fetch(m->uio, buf, len) < len)
		err = -EFAULT;
	else
		err = tcpip_port_send(inet_of(s)->visible->datagrams, &dest, buf, len);
	kfree(buf);
	return err ? err : (ssize_t)len;
}
