/* SPDX-License-Identifier: MIT */
/*
 * Ports of the vNode that are visible outside: listeners and datagram ports of the TCP/IP stack,
 * here or at the gateway.
 *
 * Flow:	one of each type, address and port, however many sockets share it. The
 *		table of ports (inet_port.c) chooses the socket for each arrival, as inside. Where
 *		there is no card the gateway is told of the port, before bind() or listen() is
 *		answered, and work tells the next gateway; if that is this node, all ports become
 *		the stack's here (outside_is_here()). At a gateway, the ports of other processors
 *		(struct far_port) use the same objects: what no socket of the gateway is for goes
 *		to one of those.
 * Locking:	ports_mutex (RANK_NET), outside the stack's lock, guards the tables and
 *		inet_socket.visible; no node is asked with it held. far_lock (RANK_SPIN_MONITOR)
 *		guards each port's list of other processors as well. The stack calls on_accepted()
 *		and on_datagram() with its own lock held; they take spinlocks only, and wait for
 *		nothing.
 * Failure:	a connection that no backlog takes is reset, a datagram without room is lost.
 *		Packets from outside with a source address inside the vNode are refused.
 * Limits:	MAX_FAR ports of other processors at a gateway.
 */
#define PR_FMT "gateway: "

#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/node.h>
#include <net/rpc.h>
#include <net/tcpip.h>
#include <processor/account/account.h>
#include <processor/client/names.h>
#include <processor/vfs/uio.h>

#include "gateway.h"
#include "inet_private.h"
#include "interface.h"
#include "queue.h"
#include "relay.h"

#define BUCKETS      256u
#define MAX_DATAGRAM 65527u
#define MAX_FAR      262144u
#define PAUSE_NS     (100 * NSEC_PER_MSEC) /* before the gateway is told again */

struct outside_port {
	struct hlist_node node;
	uint32_t type;                   /* const: SOCK_STREAM or SOCK_DGRAM */
	uint32_t users;                  /* sockets, processors and calls */
	struct tcpip_name name;          /* const */
	struct tcpip_listener *listener; /* of SOCK_STREAM; NULL: the gateway has it */
	struct tcpip_port *datagrams;    /* of SOCK_DGRAM; the same. Both are set once */
	struct list_head far;            /* far_lock: struct far_port.link */
	uint64_t id;                     /* what the gateway calls it; 0, for good: it is here */
	unsigned int backlog;            /* of id */
	uint32_t told, told_incarn;      /* of id: the gateway that has answered; 0: none */
	bool stale;                      /* of id: the backlog has changed since */
	struct list_head dying;          /* of id: nobody has it, and the gateway is to hear so */
};

/* At the gateway: another processor has the port. */
struct far_port {
	struct hlist_node node; /* ports_mutex */
	struct list_head link;  /* far_lock */
	uint32_t peer, incarn;
	uint64_t id; /* const: what that processor calls it */
	struct outside_port *port;
};

COUNTER(far_lost, "gateway.lost", "datagrams and connections whose processor was not reached");

static struct mutex ports_mutex = MUTEX_INIT(ports_mutex, "outside ports", RANK_NET);
static struct hlist_head buckets[BUCKETS] __guarded_by(&ports_mutex);
static struct hlist_head far_buckets[BUCKETS] __guarded_by(&ports_mutex);
static uint32_t nr_far __guarded_by(&ports_mutex);
static uint64_t last_id __guarded_by(&ports_mutex);
static struct list_head dying __guarded_by(&ports_mutex) = LIST_HEAD_INIT(dying);
static struct spinlock far_lock = SPINLOCK_INIT("ports elsewhere", RANK_SPIN_MONITOR);

static void tell_work(struct work *w);

static struct {
	struct workqueue *wq; /* const after start */
	struct work work;
	struct timer timer;
} teller;

static struct inet_name inet_name_of(const struct tcpip_name *name)
{
	struct inet_name out = { .port = name->port, .scope_id = name->scope_id };

	memcpy(out.addr, name->addr, sizeof(out.addr));
	return out;
}

static struct tcpip_name tcpip_name_of(const struct inet_name *name)
{
	struct tcpip_name out = { .port = name->port, .scope_id = name->scope_id };

	memcpy(out.addr, name->addr, sizeof(out.addr));
	return out;
}

/* One to be sent. */
static struct tcpip_packet tcpip_packet_of(const struct inet_packet *p)
{
	return (struct tcpip_packet){ .from = tcpip_name_of(&p->from),
				      .to = tcpip_name_of(&p->to),
				      .interface = p->interface,
				      .ttl = p->ttl,
				      .tos = p->tos };
}

/* --- what arrives: the stack's lock is held */

/* Another processor that has port @p, one after the other; false: none. */
static bool next_far(struct outside_port *p, uint32_t *node, uint32_t *incarn)
{
	struct far_port *f;

	*node = *incarn = 0;
	spin_lock(&far_lock);
	f = list_first_entry_or_null(&p->far, struct far_port, link);
	if (f) {
		*node = f->peer;
		*incarn = f->incarn;
		list_del(&f->link);
		list_add_tail(&f->link, &p->far);
	}
	spin_unlock(&far_lock);
	return f;
}

static int on_accepted(void *arg, struct tcpip_conn *c, const struct tcpip_name *local,
		       const struct tcpip_name *remote)
{
	const struct inet_name to = inet_name_of(local), from = inet_name_of(remote);
	uint32_t node, incarn;
	struct socket *l, *child;
	int err;

	if (inet_is_local(from.addr))
		return -ECONNREFUSED;
	l = inet_find(SOCK_STREAM, &to, NULL);
	if (!l && next_far(arg, &node, &incarn))
		return relay_accept(c, &to, &from, node, incarn);
	if (!l)
		return -ECONNREFUSED;
	child = outside_make(l, c, &to, &from);
	err = IS_ERR(child) ? (int)PTR_ERR(child) : socket_backlog_add(l, child);
	if (err && !IS_ERR(child))
		outside_unmake(child);
	socket_put(l);
	return err;
}

static void on_datagram(void *arg, const struct tcpip_packet *packet, const void *data, size_t len)
{
	const struct inet_packet p = { .from = inet_name_of(&packet->from),
				       .to = inet_name_of(&packet->to),
				       .interface = packet->interface,
				       .ttl = packet->ttl,
				       .tos = packet->tos };
	struct socket *receiver;
	uint32_t node, incarn;

	if (inet_is_local(p.from.addr))
		return;
	if (inet_is_multicast(p.to.addr)) {
		inet_group_deliver(&p, data, len);
		return;
	}
	receiver = inet_find(SOCK_DGRAM, &p.to, &p.from);
	if (!receiver) {
		if (next_far(arg, &node, &incarn))
			gateway_net_pass(node, &p, data, len);
		return;
	}
	udp_receive(receiver, &p, data, len);
	socket_put(receiver);
}

/* ICMP about a datagram of a socket of this processor. */
static void on_error(const struct tcpip_error *e)
{
	const struct inet_name from = inet_name_of(&e->from), to = inet_name_of(&e->to);
	const struct inet_error error = {
		.dest = to,
		.packet = { .from = inet_name_of(&e->packet.from),
			    .to = inet_name_of(&e->packet.to),
			    .interface = e->packet.interface,
			    .ttl = e->packet.ttl,
			    .tos = e->packet.tos },
		.type = e->type,
		.code = e->code,
		.info = e->info,
	};
	const bool four = inet_is_v4(to.addr);
	struct sock_msg *msg = NULL;
	struct socket *s;

	if (!from.port || !to.port || !tcpip_is_own(from.addr) || inet_is_local(to.addr))
		return;
	s = inet_find(SOCK_DGRAM, &from, &to);
	if (!s)
		return;
	if (inet_wants_errors(s, four))
		msg = sock_msg_copy_of(e->data, inet_error_bytes(four, e->len), kmem_account_of(s));
	inet_error_tell(s, &error, IS_ERR(msg) ? NULL : msg);
	socket_put(s);
}

/* --- the table */

static struct hlist_head *bucket_of(uint32_t port) __must_hold(&ports_mutex)
{
	return &buckets[hash64(port) % BUCKETS];
}

static bool is_same(const struct outside_port *p, uint32_t type, const struct tcpip_name *name)
{
	return p->type == type && p->name.port == name->port && p->name.only6 == name->only6 &&
	       !memcmp(p->name.addr, name->addr, sizeof(name->addr));
}

static struct outside_port *find_locked(uint32_t type, const struct tcpip_name *name)
	__must_hold(&ports_mutex)
{
	struct outside_port *p;

	assert_mutex_held(&ports_mutex);
	hlist_for_each_entry(p, bucket_of(name->port), node) {
		if (is_same(p, type, name))
			return p;
	}
	return NULL;
}

/* In the stack of this node. */
static int open_here_locked(struct outside_port *p) __must_hold(&ports_mutex)
{
	assert_mutex_held(&ports_mutex);
	if (p->type == SOCK_STREAM)
		return tcpip_listen(&p->name, p->backlog, on_accepted, p, &p->listener);
	return tcpip_port_open(&p->name, on_datagram, p, &p->datagrams);
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
	p->backlog = backlog;
	list_init(&p->far);
	list_init(&p->dying);
	if (!tcpip_is_present()) {
		p->id = ++last_id;
		err = 0;
	} else {
		err = open_here_locked(p);
	}
	if (err) {
		kfree(p);
		return ERR_PTR(err);
	}
	hlist_add_head(&p->node, bucket_of(name->port));
	return p;
}

static void put_locked(struct outside_port *p) __must_hold(&ports_mutex)
{
	assert_mutex_held(&ports_mutex);
	ASSERT(p->users > 0);
	if (--p->users)
		return;
	hlist_del(&p->node);
	if (p->id && p->told) {
		list_add_tail(&p->dying, &dying);
		outside_tell_gateway();
		return;
	}
	if (p->listener)
		tcpip_unlisten(p->listener);
	else if (p->datagrams)
		tcpip_port_close(p->datagrams);
	kfree(p);
}

static void put(struct outside_port *p)
{
	mutex_lock(&ports_mutex);
	put_locked(p);
	mutex_unlock(&ports_mutex);
}

static void set_backlog_locked(struct outside_port *p, unsigned int backlog)
	__must_hold(&ports_mutex)
{
	assert_mutex_held(&ports_mutex);
	if (p->listener)
		tcpip_set_backlog(p->listener, backlog);
	else if (p->backlog != backlog)
		p->stale = true;
	p->backlog = backlog;
}

/* --- telling the gateway ------------------------------------------------------------------ */

/* May the gateway be asked again? Else it has left, or would answer the same. */
static bool is_passing(int err, uint32_t node)
{
	return (err == -EAGAIN || err == -ENOMEM || err == -ETIMEDOUT || err == -EINTR) &&
	       !rpc_peer_reachable(node);
}

static bool knows_locked(const struct outside_port *p, uint32_t node, uint32_t incarn)
	__must_hold(&ports_mutex)
{
	assert_mutex_held(&ports_mutex);
	return p->told == node && p->told_incarn == incarn && !p->stale;
}

/*
 * Tell the gateway of @p, which the caller holds, unless it knows. 0: it knows now, or will be told
 * later; -EINTR; what it answers.
 */
static int tell(struct outside_port *p)
{
	const uint64_t id = __atomic_load_n(&p->id, __ATOMIC_ACQUIRE);
	uint32_t node, incarn, before;
	unsigned int backlog;
	bool known;
	int err;

	if (!id || !gateway_find(&node, &incarn))
		return 0;
	mutex_lock(&ports_mutex);
	known = knows_locked(p, node, incarn);
	before = p->told != node ? p->told : 0;
	backlog = p->backlog;
	mutex_unlock(&ports_mutex);
	if (known)
		return 0;
	/* One that is not the gateway any more: if it has left it needs to hear nothing. */
	if (before && gateway_net_unport(before, id))
		pr_debug("node %u is not told that it has lost a port\n", before);
	err = gateway_net_port(node, id, p->type, &p->name, backlog);
	if (is_passing(err, node)) {
		timer_set(&teller.timer, time_now_ns() + PAUSE_NS);
		return err == -EINTR ? err : 0;
	}
	mutex_lock(&ports_mutex);
	p->told = node;
	p->told_incarn = incarn;
	p->stale = p->backlog != backlog;
	mutex_unlock(&ports_mutex);
	/* The next gateway is told when this one is known to have left. */
	return err == -EHOSTDOWN || err == -ESTALE ? 0 : err;
}

/* The first port behind bucket @*at that gateway @node does not know, held; NULL: no more. */
static struct outside_port *next_untold(uint32_t *at, uint32_t node, uint32_t incarn)
{
	struct outside_port *p, *found = NULL;

	mutex_lock(&ports_mutex);
	for (; *at < BUCKETS && !found; ++*at) {
		hlist_for_each_entry(p, &buckets[*at], node) {
			if (!p->id || knows_locked(p, node, incarn))
				continue;
			found = p;
			found->users++;
			break;
		}
		if (found)
			break;
	}
	mutex_unlock(&ports_mutex);
	return found;
}

/* All that it does not know. False: a port was not told, so that others would not be, either. */
static bool tell_all(uint32_t node, uint32_t incarn)
{
	struct outside_port *p;
	uint32_t at = 0;
	bool told = true;

	while (told && (p = next_untold(&at, node, incarn))) {
		(void)tell(p); /* a port that is refused is not reached from outside */
		mutex_lock(&ports_mutex);
		told = knows_locked(p, node, incarn);
		mutex_unlock(&ports_mutex);
		put(p);
	}
	return told;
}

static struct outside_port *first_dying(void)
{
	struct outside_port *p;

	mutex_lock(&ports_mutex);
	p = list_first_entry_or_null(&dying, struct outside_port, dying);
	mutex_unlock(&ports_mutex);
	return p;
}

/* Ports that nobody has any more. This work alone takes them off the list. */
static bool tell_dead(void)
{
	struct outside_port *p;

	while ((p = first_dying())) {
		if (is_passing(gateway_net_unport(p->told, p->id), p->told))
			return false;
		mutex_lock(&ports_mutex);
		list_del(&p->dying);
		mutex_unlock(&ports_mutex);
		kfree(p);
	}
	return true;
}

void outside_is_here(void)
{
	struct outside_port *p;

	mutex_lock(&ports_mutex);
	for (uint32_t i = 0; i < BUCKETS; i++) {
		hlist_for_each_entry(p, &buckets[i], node) {
			const int err = p->id ? open_here_locked(p) : 0;

			if (err)
				pr_warn("port %u is not reached from outside: error %d\n",
					p->name.port, err);
			else
				__atomic_store_n(&p->id, 0, __ATOMIC_RELEASE);
		}
	}
	mutex_unlock(&ports_mutex);
}

static void tell_work(struct work *w)
{
	uint32_t node, incarn;
	bool all = tell_dead();

	if (gateway_find(&node, &incarn))
		all = tell_all(node, incarn) && all;
	if (!all)
		timer_set(&teller.timer, time_now_ns() + PAUSE_NS);
}

void outside_tell_gateway(void)
{
	(void)work_queue(teller.wq, &teller.work); /* it may be queued already */
}

static void on_timer(void *arg)
{
	outside_tell_gateway();
}

int outside_port_init(void)
{
	work_init(&teller.work, tell_work);
	timer_init(&teller.timer, on_timer, NULL);
	teller.wq = workqueue_create("outside ports", 1);
	return IS_ERR(teller.wq) ? (int)PTR_ERR(teller.wq) : tcpip_on_error(on_error);
}

/* --- ports of this processor -------------------------------------------------------------- */

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
	/* A datagram to a group does not go to another processor. */
	if (inet_is_multicast(name->addr))
		return tcpip_is_present();
	return (tcpip_is_present() || names_are_shared()) && !inet_is_loopback(name->addr);
}

int outside_open(struct socket *s, unsigned int backlog)
{
	struct inet_socket *u = inet_of(s);
	struct outside_port *p;
	struct tcpip_name name;
	int err;

	if (!visible_name(s, &name))
		return 0;
	mutex_lock(&ports_mutex);
	p = u->visible ? u->visible : find_locked(s->type, &name);
	if (!p)
		p = make_locked(s->type, &name, backlog);
	else if (s->type == SOCK_STREAM)
		set_backlog_locked(p, backlog);
	if (!IS_ERR(p) && !u->visible) {
		p->users++;
		__atomic_store_n(&u->visible, p, __ATOMIC_RELEASE);
	}
	if (!IS_ERR(p))
		p->users++; /* for tell() */
	mutex_unlock(&ports_mutex);
	if (IS_ERR(p))
		return (int)PTR_ERR(p);
	err = tell(p);
	put(p);
	return err;
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
	if (p)
		put_locked(p);
	mutex_unlock(&ports_mutex);
}

/* --- ports of other processors, at the gateway -------------------------------------------- */

static struct hlist_head *far_bucket(uint32_t node, uint64_t id) __must_hold(&ports_mutex)
{
	return &far_buckets[hash64_pair(node, id) % BUCKETS];
}

static struct far_port *far_find_locked(uint32_t node, uint32_t incarn, uint64_t id)
	__must_hold(&ports_mutex)
{
	struct far_port *f;

	assert_mutex_held(&ports_mutex);
	hlist_for_each_entry(f, far_bucket(node, id), node) {
		if (f->peer == node && f->incarn == incarn && f->id == id)
			return f;
	}
	return NULL;
}

static void far_drop_locked(struct far_port *f) __must_hold(&ports_mutex)
{
	assert_mutex_held(&ports_mutex);
	ASSERT(nr_far > 0);
	hlist_del(&f->node);
	nr_far--;
	spin_lock(&far_lock);
	list_del(&f->link);
	spin_unlock(&far_lock);
	put_locked(f->port);
	kfree(f);
}

/* A new one for a port that may be there. */
static int far_make_locked(uint32_t node, uint32_t incarn, uint64_t id, uint32_t type,
			   const struct tcpip_name *name, unsigned int backlog)
	__must_hold(&ports_mutex)
{
	struct outside_port *p = find_locked(type, name);
	struct far_port *f;

	assert_mutex_held(&ports_mutex);
	if (nr_far >= MAX_FAR)
		return -ENOBUFS;
	f = kzalloc(sizeof(*f));
	if (!f)
		return -ENOBUFS;
	if (!p)
		p = make_locked(type, name, backlog);
	else if (type == SOCK_STREAM)
		set_backlog_locked(p, backlog);
	if (IS_ERR(p)) {
		kfree(f);
		return (int)PTR_ERR(p);
	}
	p->users++;
	*f = (struct far_port){ .peer = node, .incarn = incarn, .id = id, .port = p };
	hlist_add_head(&f->node, far_bucket(node, id));
	nr_far++;
	spin_lock(&far_lock);
	list_add_tail(&f->link, &p->far);
	spin_unlock(&far_lock);
	return 0;
}

int outside_far_open(uint32_t node, uint32_t incarn, uint64_t id, uint32_t type,
		     const struct tcpip_name *name, unsigned int backlog)
{
	struct far_port *f;
	int err = 0;

	if (!tcpip_is_present())
		return -ENETUNREACH;
	if (!inet_is_any(name->addr) && !tcpip_is_own(name->addr))
		return -EADDRNOTAVAIL;
	mutex_lock(&ports_mutex);
	f = far_find_locked(node, incarn, id);
	if (!f)
		err = far_make_locked(node, incarn, id, type, name, backlog);
	else if (!is_same(f->port, type, name))
		err = -EPROTO;
	else if (type == SOCK_STREAM)
		set_backlog_locked(f->port, backlog);
	mutex_unlock(&ports_mutex);
	/* Membership looks at the table once: it may have done so before this one was there. */
	if (rpc_peer_has_left(node, incarn))
		outside_far_gone(node, incarn);
	return err;
}

void outside_far_close(uint32_t node, uint32_t incarn, uint64_t id)
{
	struct far_port *f;

	mutex_lock(&ports_mutex);
	f = far_find_locked(node, incarn, id);
	if (f)
		far_drop_locked(f);
	mutex_unlock(&ports_mutex);
}

int outside_far_send(uint32_t node, uint32_t incarn, uint64_t id, const struct inet_packet *packet,
		     const void *data, size_t len)
{
	struct tcpip_packet out = tcpip_packet_of(packet);
	const struct far_port *f;
	int err = -ESTALE;

	/* That processor may know an address that is no more: then the stack chooses. */
	if (!tcpip_is_own(out.from.addr))
		memset(&out.from, 0, sizeof(out.from));

	mutex_lock(&ports_mutex);
	f = far_find_locked(node, incarn, id);
	if (f && f->port->datagrams)
		err = tcpip_port_send(f->port->datagrams, &out, data, len);
	mutex_unlock(&ports_mutex);
	return err;
}

void outside_far_gone(uint32_t node, uint32_t incarn)
{
	struct hlist_node *next;
	struct far_port *f;

	mutex_lock(&ports_mutex);
	for (uint32_t i = 0; i < BUCKETS; i++) {
		hlist_for_each_entry_safe(f, next, &far_buckets[i], node) {
			if (f->peer == node && f->incarn == incarn)
				far_drop_locked(f);
		}
	}
	mutex_unlock(&ports_mutex);
}

/* --- datagrams that leave */

/* May @s send to @to? @from: the address that its packets carry. */
static int source_of(struct socket *s, const struct inet_name *to, uint8_t from[16])
{
	const struct tcpip_name dest = tcpip_name_of(to);

	if (inet_of(s)->bound_addr && inet_is_loopback(inet_of(s)->local.addr))
		return -EINVAL;
	return gateway_wait_source(&dest, from);
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

/* The source of @packet: that of the program, or of the socket; any: the stack has to choose. */
static void own_source(struct socket *s, struct inet_packet *packet)
{
	const uint8_t *own = inet_of(s)->local.addr;

	if (inet_is_any(packet->from.addr) && !inet_is_multicast(own) && !inet_is_loopback(own) &&
	    inet_is_v4(own) == inet_is_v4(packet->to.addr))
		memcpy(packet->from.addr, own, sizeof(packet->from.addr));
}

/* By the gateway's port @id. */
static int send_far(const struct outside_port *p, uint64_t id, const struct inet_packet *packet,
		    const void *data, size_t len, bool nonblock)
{
	struct inet_packet out = *packet;
	uint32_t node, incarn;

	if (!gateway_find(&node, &incarn))
		return -ENETUNREACH;
	out.from.port = p->name.port;
	return gateway_net_send(node, id, &out, data, len, nonblock, NULL, NULL);
}

int outside_send_group(struct socket *s, const struct inet_packet *packet, const void *data,
		       size_t len)
{
	const struct tcpip_packet out = tcpip_packet_of(packet);
	const struct outside_port *p;
	int err = outside_open(s, 0);

	if (err)
		return err;
	p = inet_of(s)->visible;
	if (!p || !p->datagrams)
		return -ENETUNREACH;
	return tcpip_port_send(p->datagrams, &out, data, len);
}

ssize_t outside_send_datagram(struct socket *s, struct socket_msg *m,
			      const struct inet_packet *packet)
{
	const struct tcpip_packet out = tcpip_packet_of(packet);
	const size_t len = m->uio->left;
	struct inet_packet far = *packet;
	const struct outside_port *p;
	uint8_t from[16], *buf;
	uint64_t id;
	int err = source_of(s, &packet->to, from);

	ASSERT(len <= MAX_DATAGRAM); /* udp_send() has looked */
	if (inet_is_loopback(packet->from.addr))
		return -EINVAL;
	if (packet->interface == LOOPBACK_INDEX)
		return -ENETUNREACH;
	own_source(s, &far);
	if (!err)
		err = inet_check_size(s, packet, inet_is_any(far.from.addr) ? from : far.from.addr,
				      len);
	if (!err)
		err = outside_open(s, 0);
	if (err)
		return err;
	/* The socket is open as long as a call on it runs, and so is its port. */
	p = __atomic_load_n(&inet_of(s)->visible, __ATOMIC_ACQUIRE);
	if (!p)
		return -ENETUNREACH; /* bound to a group, which the gateway does not serve */
	buf = kmalloc(MAX(len, (size_t)1));
	if (!buf)
		return -ENOBUFS;
	id = __atomic_load_n(&p->id, __ATOMIC_ACQUIRE); /* pairs with outside_is_here() */
	if (uio_fetch(m->uio, buf, len) < len)
		err = -EFAULT;
	else if (id)
		err = send_far(p, id, &far, buf, len, m->flags & MSG_DONTWAIT);
	else
		err = tcpip_port_send(p->datagrams, &out, buf, len);
	kfree(buf);
	return err ? err : (ssize_t)len;
}
