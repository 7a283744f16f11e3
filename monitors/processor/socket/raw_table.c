/* SPDX-License-Identifier: MIT */
/*
 * Raw and ping sockets by what they take, and the packets that are for them.
 *
 * Locking:	raw_lock (RANK_SOCKET_TABLE), outside socket.lock. Copies are made without it.
 * Limits:	a socket's queue holds what SO_RCVBUF allows; what does not fit is lost and counted.
 */
#include <abi/in.h>
#include <kernel/panic.h>
#include <kernel/random.h>
#include <kernel/spinlock.h>
#include <lib/bitmap.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/string.h>

#include "raw.h"

#define BUCKETS   64u
#define ID_CHAINS 1024u
#define NR_IDS    65536u /* 0 is none */

static struct spinlock raw_lock = SPINLOCK_INIT("raw sockets", RANK_SOCKET_TABLE);
static struct hlist_head raws[BUCKETS] __guarded_by(&raw_lock);    /* by protocol */
static struct hlist_head pings[ID_CHAINS] __guarded_by(&raw_lock); /* by identifier */
/* Identifiers that sockets have: to find a free one does not look through the sockets. */
static uint64_t ids[NR_IDS / 64] __guarded_by(&raw_lock) = { 1 };

static struct hlist_head *raws_of(uint8_t protocol) __must_hold(&raw_lock)
{
	return &raws[hash64(protocol) % BUCKETS];
}

static struct hlist_head *pings_of(uint16_t id) __must_hold(&raw_lock)
{
	return &pings[hash64(id) % ID_CHAINS];
}

void raw_enter(struct socket *s)
{
	spin_lock(&raw_lock);
	hlist_add_head(&raw_of(s)->node, raws_of((uint8_t)s->protocol));
	spin_unlock(&raw_lock);
}

/* Has a socket @id that does not share it with @s? Without @s: has any socket @id? */
static bool id_in_use_locked(uint16_t id, const struct socket *s) __must_hold(&raw_lock)
{
	const struct raw_socket *r;

	assert_spin_held(&raw_lock);
	hlist_for_each_entry(r, pings_of(id), node) {
		if (r->inet.local.port == id && !(s && socket_option(s, SOCKET_REUSEADDR) &&
						  socket_option(&r->inet.s, SOCKET_REUSEADDR)))
			return true;
	}
	return false;
}

void raw_leave(struct socket *s)
{
	struct raw_socket *r = raw_of(s);

	spin_lock(&raw_lock);
	if (!hlist_unhashed(&r->node)) {
		hlist_del(&r->node);
		if (s->type == SOCK_DGRAM && !id_in_use_locked(r->inet.local.port, NULL))
			bitmap_clear(ids, r->inet.local.port);
	}
	spin_unlock(&raw_lock);
}

/* 0: all are in use. */
static uint16_t choose_id_locked(void) __must_hold(&raw_lock)
{
	size_t id;

	assert_spin_held(&raw_lock);
	id = bitmap_find_next_zero(ids, NR_IDS, (size_t)(random_u64() % NR_IDS));
	if (id >= NR_IDS)
		id = bitmap_find_next_zero(ids, NR_IDS, 0);
	return id < NR_IDS ? (uint16_t)id : 0;
}

int ping_enter(struct socket *s, uint16_t id)
{
	struct raw_socket *r = raw_of(s);
	int err = 0;

	spin_lock(&raw_lock);
	if (r->inet.local.port) {
		err = -EINVAL;
	} else {
		if (!id)
			id = choose_id_locked();
		else if (id_in_use_locked(id, s))
			id = 0;
		err = id ? 0 : -EADDRINUSE;
	}
	if (!err) {
		r->inet.local.port = id;
		hlist_add_head(&r->node, pings_of(id));
		bitmap_set(ids, id);
	}
	spin_unlock(&raw_lock);
	return err;
}

static void copy_address(uint8_t out[16], const uint8_t addr[16])
{
	if (inet_is_any(addr))
		memset(out, 0, 16);
	else
		memcpy(out, addr, 16);
}

void raw_set_addresses(struct socket *s)
{
	const bool connected = READ_ONCE(s->state) == SOCKET_CONNECTED;
	struct raw_socket *r = raw_of(s);

	spin_lock(&raw_lock);
	copy_address(r->own, r->inet.local.addr);
	if (connected && !inet_is_multicast(r->inet.remote.addr))
		copy_address(r->peer, r->inet.remote.addr);
	else
		memset(r->peer, 0, sizeof(r->peer));
	spin_unlock(&raw_lock);
}

/* --- which sockets ---------------------------------------------------------------------- */

static bool is_or_any(const uint8_t wanted[16], const uint8_t addr[16])
{
	return inet_is_zero(wanted, 16) || !memcmp(wanted, addr, 16);
}

static bool suits_locked(const struct raw_socket *r, const struct ip_packet *p)
	__must_hold(&raw_lock)
{
	assert_spin_held(&raw_lock);
	return (r->inet.s.family == AF_INET6) == p->six && is_or_any(r->own, p->head.to.addr);
}

static uint32_t find_raws(const void *what, struct socket **out, uint32_t max)
{
	const struct ip_packet *p = what;
	struct raw_socket *r;
	uint32_t nr = 0;

	spin_lock(&raw_lock);
	hlist_for_each_entry(r, raws_of(p->protocol), node) {
		if (r->inet.s.protocol != p->protocol || !suits_locked(r, p) ||
		    !is_or_any(r->peer, p->head.from.addr))
			continue;
		if (nr < max) {
			socket_get(&r->inet.s);
			out[nr] = &r->inet.s;
		}
		nr++;
	}
	spin_unlock(&raw_lock);
	return nr;
}

/* The newest ping socket with this identifier, referenced, or NULL. */
static struct socket *find_ping(const struct ip_packet *p, uint16_t id)
{
	struct socket *found = NULL;
	struct raw_socket *r;

	spin_lock(&raw_lock);
	hlist_for_each_entry(r, pings_of(id), node) {
		if (r->inet.local.port != id || !suits_locked(r, p))
			continue;
		found = &r->inet.s;
		socket_get(found);
		break;
	}
	spin_unlock(&raw_lock);
	return found;
}

/* --- delivery ----------------------------------------------------------------------------- */

/* Is the type of ICMP, or the sum of IPv6, such that @s does not take @p? */
static bool is_kept_out(struct socket *s, const struct ip_packet *p)
{
	const struct raw_socket *r = raw_of(s);
	const uint8_t *data;
	size_t len;

	if (!ip_payload(p, &data, &len))
		return true;
	if (p->six && READ_ONCE(r->checksum) >= 0 &&
	    ip_sum_end(
		    ip_sum(data, len,
			   ip6_pseudo_sum(p->head.from.addr, p->head.to.addr, len, p->protocol))))
		return true;
	if (!ip_is_icmp(p))
		return false;
	if (len < ICMP_HEAD)
		return true;
	/* ICMP_FILTER has one word, so types of IPv4 from 32 on are taken. */
	return READ_ONCE(r->filter[data[0] / 32]) >> data[0] % 32 & 1;
}

static void give_raw(struct socket *s, const void *what)
{
	const struct ip_packet *p = what;

	if (inet_is_multicast(p->head.to.addr) &&
	    !inet_group_takes(s, &p->head.to, &p->head.from, p->head.interface))
		return;
	if (!is_kept_out(s, p))
		udp_receive(s, &p->head, p->bytes, p->len);
}

void raw_deliver(const struct ip_packet *p)
{
	const int id = icmp_echo_id(p, true);
	struct socket *s = id >= 0 ? find_ping(p, (uint16_t)id) : NULL;
	const uint8_t *data;
	size_t len;

	inet_give_all(find_raws, give_raw, p);
	if (!s)
		return;
	if (ip_payload(p, &data, &len))
		udp_receive(s, &p->head, data, len);
	socket_put(s);
}
