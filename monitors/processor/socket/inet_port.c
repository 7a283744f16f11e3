/* SPDX-License-Identifier: MIT */
/*
 * The table of ports of this processor: binding, finding, ports of the system's choice.
 *
 * Flow:	ports are the vNode's. A port that a program asks for, and one that it listens at,
 *		is told to the managers before the call returns, which know those of the other
 *		processors (client/names.h); a port of the system's choice comes from a run that is
 *		leased to this processor.
 * Invariants:	a socket is in the table from the moment it has a port until it is released.
 */
#include <abi/prctl.h>
#include <kernel/random.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <processor/client/names.h>
#include <processor/process/process.h>

#include "gateway.h"
#include "inet_private.h"

#define BUCKETS         1024u
#define FIRST_PORT      32768u /* net.ipv4.ip_local_port_range */
#define NR_PORTS        28232u
#define PRIVILEGED_PORT 1024u

static struct spinlock table_lock = SPINLOCK_INIT("inet ports", RANK_SOCKET_TABLE);
static struct hlist_head buckets[BUCKETS] __guarded_by(&table_lock);
static uint32_t spread __guarded_by(&table_lock); /* among sockets with SO_REUSEPORT */

/* --- addresses ----------------------------------------------------------------------- */

bool inet_is_any(const uint8_t addr[16])
{
	static const uint8_t any[16];

	return !memcmp(addr, any, 16) || (inet_is_v4(addr) && !memcmp(addr + 12, any, 4));
}

bool inet_is_loopback(const uint8_t addr[16])
{
	static const uint8_t loopback[16] = { [15] = 1 };

	return inet_is_v4(addr) ? addr[12] == 127 : !memcmp(addr, loopback, 16);
}

bool inet_is_local(const uint8_t addr[16])
{
	return inet_is_loopback(addr) || inet_is_any(addr) || gateway_is_own(addr);
}

bool inet_is_multicast(const uint8_t addr[16])
{
	return inet_is_v4(addr) ? (addr[12] & 0xf0) == 0xe0 : addr[0] == 0xff;
}

/* Does @in reach a socket bound to the address of @u? 0: no; more for a closer match. */
static int match(const struct inet_socket *u, const uint8_t in[16])
{
	if (!memcmp(u->local.addr, in, 16))
		return 3;
	if (!inet_is_any(u->local.addr))
		return 0;
	if (inet_is_v4(in))
		return inet_is_v4(u->local.addr) ? 2 : READ_ONCE(u->v6only) ? 0 : 1;
	return inet_is_v4(u->local.addr) ? 0 : 2;
}

/* Could one datagram or connection be for both? */
static bool overlap(const struct inet_socket *a, const struct inet_name *name, bool v6only)
{
	const bool a4 = inet_is_v4(a->local.addr), b4 = inet_is_v4(name->addr);

	if (a4 != b4) {
		/* IPv4 beside IPv6: only the latter's "any" takes both. */
		const uint8_t *six = a4 ? name->addr : a->local.addr;

		return inet_is_any(six) && !(a4 ? v6only : READ_ONCE(a->v6only));
	}
	return inet_is_any(a->local.addr) || inet_is_any(name->addr) ||
	       !memcmp(a->local.addr, name->addr, 16);
}

/* --- the table ----------------------------------------------------------------------- */

static struct hlist_head *bucket_of(uint32_t port) __must_hold(&table_lock)
{
	return &buckets[hash64(port) % BUCKETS];
}

static bool may_share(const struct socket *s, const struct socket *other)
{
	if (socket_option(s, SOCKET_REUSEPORT) && socket_option(other, SOCKET_REUSEPORT) &&
	    s->uid == other->uid)
		return true;
	if (!socket_option(s, SOCKET_REUSEADDR) || !socket_option(other, SOCKET_REUSEADDR))
		return false;
	return s->type == SOCK_DGRAM || READ_ONCE(other->state) != SOCKET_LISTENING;
}

/* Does another socket forbid @s to have @name? */
static bool conflicts_locked(struct socket *s, const struct inet_name *name)
	__must_hold(&table_lock)
{
	struct inet_socket *u;

	assert_spin_held(&table_lock);
	hlist_for_each_entry(u, bucket_of(name->port), node) {
		if (&u->s != s && u->local.port == name->port && u->s.type == s->type &&
		    overlap(u, name, READ_ONCE(inet_of(s)->v6only)) && !may_share(s, &u->s))
			return true;
	}
	return false;
}

static bool in_use_locked(const struct socket *s, uint32_t port) __must_hold(&table_lock)
{
	const struct inet_socket *u;

	assert_spin_held(&table_lock);
	hlist_for_each_entry(u, bucket_of(port), node) {
		if (u->local.port == port && u->s.type == s->type)
			return true;
	}
	return false;
}

static void insert_locked(struct socket *s) __must_hold(&table_lock)
{
	assert_spin_held(&table_lock);
	hlist_add_head(&inet_of(s)->node, bucket_of(inet_of(s)->local.port));
}

/* A port of the system's choice into @name. -EADDRINUSE: all that this processor has are in use. */
static int choose_locked(struct socket *s, struct inet_name *name) __must_hold(&table_lock)
{
	const uint32_t start = (uint32_t)random_u64() % NR_PORTS;
	const bool shared = names_are_shared();

	assert_spin_held(&table_lock);
	for (uint32_t i = 0; i < NR_PORTS; i++) {
		name->port = (uint16_t)(FIRST_PORT + (start + i) % NR_PORTS);
		if (shared) {
			const uint32_t skip = names_skip_ports(name->port);

			i += skip ? skip - 1 : 0;
			if (skip)
				continue;
		}
		if (!in_use_locked(s, name->port))
			return 0;
	}
	name->port = 0;
	return -EADDRINUSE;
}

/* --- the other processors -------------------------------------------------------------- */

/* One call at a time tells the managers about @s. -EINVAL: another one does. */
static int naming_begin(struct socket *s)
{
	struct inet_socket *u = inet_of(s);
	int err = 0;

	spin_lock(&table_lock);
	if (u->naming || !u->local.port)
		err = -EINVAL;
	else
		u->naming = true;
	spin_unlock(&table_lock);
	return err;
}

static void naming_end(struct socket *s)
{
	spin_lock(&table_lock);
	inet_of(s)->naming = false;
	spin_unlock(&table_lock);
}

static int tell(struct socket *s, bool listens)
{
	struct inet_socket *u = inet_of(s);
	struct vnode_name name = {
		.port = u->local.port,
		.kind = s->type == SOCK_STREAM ? NAME_TCP : NAME_UDP,
		.uid = s->uid,
	};
	int err = naming_begin(s);

	if (err)
		return err;
	memcpy(name.addr, u->local.addr, sizeof(name.addr));
	name.flags = (uint8_t)((socket_option(s, SOCKET_REUSEADDR) ? NAME_REUSEADDR : 0) |
			       (socket_option(s, SOCKET_REUSEPORT) ? NAME_REUSEPORT : 0) |
			       (READ_ONCE(u->v6only) ? NAME_V6ONLY : 0) |
			       (listens || s->type == SOCK_DGRAM ? NAME_LISTENING : 0));
	err = names_set(&u->name, &name, kmem_current());
	naming_end(s);
	return err;
}

int inet_tell_listening(struct socket *s, bool listens)
{
	return tell(s, listens);
}

/* @name, or a port of the system's choice. */
static int bind_here(struct socket *s, struct inet_name *name)
{
	struct inet_socket *u = inet_of(s);
	int err = 0;

	spin_lock(&table_lock);
	if (u->local.port || READ_ONCE(s->state) != SOCKET_IDLE)
		err = -EINVAL;
	else if (!name->port)
		err = choose_locked(s, name) ? -ENOSPC : 0;
	else if (conflicts_locked(s, name))
		err = -EADDRINUSE;
	if (!err) {
		u->local = *name;
		u->bound_addr = !inet_is_any(name->addr);
		insert_locked(s);
	}
	spin_unlock(&table_lock);
	return err;
}

int inet_bind(struct socket *s, const struct sock_addr *addr)
{
	struct inet_name name;
	bool chosen;
	int err;

	if (s->family == AF_INET && addr->len >= sizeof(addr->in) && addr->family == AF_UNSPEC &&
	    !addr->in.addr) {
		struct sock_addr any = *addr;

		any.family = AF_INET;
		return inet_bind(s, &any);
	}
	err = inet_name_fetch(s, addr, &name);
	if (err)
		return err;
	if (!inet_is_local(name.addr) && !(s->type == SOCK_DGRAM && inet_is_multicast(name.addr)))
		return -EADDRNOTAVAIL;
	if (name.port && name.port < PRIVILEGED_PORT && !capable(CAP_NET_BIND_SERVICE))
		return -EACCES;
	chosen = !name.port;
	do {
		err = bind_here(s, &name);
	} while (err == -ENOSPC && names_are_shared() && !(err = names_lease()));
	if (err == -ENOSPC)
		err = -EADDRINUSE;
	/* A port that the program asked for may be another processor's. */
	if (!err && !chosen) {
		err = tell(s, false);
		if (err)
			inet_unbind(s);
	}
	return err;
}

static int autobind_here(struct socket *s)
{
	struct inet_socket *u = inet_of(s);
	struct inet_name name;
	int err = 0;

	spin_lock(&table_lock);
	if (!u->local.port) {
		name = u->local;
		err = choose_locked(s, &name) ? -ENOSPC : 0;
		if (!err) {
			u->local = name;
			insert_locked(s);
		}
	}
	spin_unlock(&table_lock);
	return err;
}

int inet_autobind(struct socket *s)
{
	int err;

	do {
		err = autobind_here(s);
	} while (err == -ENOSPC && names_are_shared() && !(err = names_lease()));
	if (!err || err == -EINTR)
		return err;
	return s->type == SOCK_STREAM ? -EADDRNOTAVAIL : -EAGAIN;
}

void inet_enter(struct socket *s)
{
	spin_lock(&table_lock);
	insert_locked(s);
	spin_unlock(&table_lock);
}

static void leave(struct socket *s)
{
	struct inet_socket *u = inet_of(s);
	struct name_entry *name;

	spin_lock(&table_lock);
	if (!hlist_unhashed(&u->node))
		hlist_del(&u->node);
	name = u->name;
	u->name = NULL;
	spin_unlock(&table_lock);
	names_drop(name);
}

void inet_release(struct socket *s)
{
	leave(s);
	inet_groups_leave(s);
}

void inet_unbind(struct socket *s)
{
	struct inet_socket *u = inet_of(s);

	leave(s);
	spin_lock(&table_lock);
	u->local.port = 0;
	u->bound_addr = false;
	spin_unlock(&table_lock);
	inet_forget_remote(s);
}

void inet_connect_names(struct socket *s, const struct inet_name *to)
{
	static const uint8_t loopback4[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
	const bool own = gateway_is_own(to->addr);
	struct inet_socket *u = inet_of(s);

	spin_lock(&table_lock);
	u->remote = *to;
	if (!u->bound_addr)
		memcpy(u->local.addr, inet_is_v4(to->addr) && !own ? loopback4 : to->addr, 16);
	spin_unlock(&table_lock);
}

void inet_set_source(struct socket *s, const uint8_t addr[16])
{
	struct inet_socket *u = inet_of(s);

	spin_lock(&table_lock);
	if (!u->bound_addr)
		memcpy(u->local.addr, addr, 16);
	spin_unlock(&table_lock);
}

void inet_set_bound(struct socket *s, const uint8_t addr[16])
{
	struct inet_socket *u = inet_of(s);

	spin_lock(&table_lock);
	memcpy(u->local.addr, addr, 16);
	u->bound_addr = !inet_is_any(addr);
	spin_unlock(&table_lock);
}

void inet_forget_remote(struct socket *s)
{
	struct inet_socket *u = inet_of(s);

	spin_lock(&table_lock);
	memset(&u->remote, 0, sizeof(u->remote));
	if (!u->bound_addr)
		memset(u->local.addr, 0, 16);
	if (!u->bound_addr && s->family == AF_INET)
		u->local.addr[10] = u->local.addr[11] = 0xff;
	spin_unlock(&table_lock);
}

/* How well @u suits; 0: not at all. */
static int suits(const struct inet_socket *u, uint32_t type, const struct inet_name *to,
		 const struct inet_name *from)
{
	int score = u->local.port == to->port && u->s.type == type ? match(u, to->addr) : 0;

	if (!score)
		return 0;
	if (type == SOCK_STREAM)
		return READ_ONCE(u->s.state) == SOCKET_LISTENING ? score : 0;
	if (!u->remote.port)
		return score;
	return u->remote.port == from->port && !memcmp(u->remote.addr, from->addr, 16) ? score + 4
										       : 0;
}

struct socket *inet_find(uint32_t type, const struct inet_name *to, const struct inet_name *from)
{
	struct inet_socket *u, *best = NULL;
	uint32_t nr = 0;
	int top = 0;

	spin_lock(&table_lock);
	hlist_for_each_entry(u, bucket_of(to->port), node) {
		const int score = suits(u, type, to, from);

		if (score < top || !score)
			continue;
		nr = score > top ? 1 : nr + 1;
		/* Of several that suit alike each gets its share. */
		if (score > top || hash64(++spread) % nr == 0)
			best = u;
		top = score;
	}
	if (best)
		socket_get(&best->s);
	spin_unlock(&table_lock);
	return best ? &best->s : NULL;
}

uint32_t inet_find_group(const struct inet_name *to, const struct inet_name *from,
			 uint32_t interface, struct socket **out, uint32_t max)
{
	struct inet_socket *u;
	uint32_t nr = 0;

	spin_lock(&table_lock);
	hlist_for_each_entry(u, bucket_of(to->port), node) {
		if (!suits(u, SOCK_DGRAM, to, from) ||
		    !inet_group_takes(&u->s, to, from, interface))
			continue;
		if (nr < max) {
			socket_get(&u->s);
			out[nr] = &u->s;
		}
		nr++;
	}
	spin_unlock(&table_lock);
	return nr;
}
