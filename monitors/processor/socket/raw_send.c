/* SPDX-License-Identifier: MIT */
/*
 * Packets that raw and ping sockets send.
 *
 * Flow:	the program's bytes are copied once, behind room for a header of IPv4. A packet for
 *		an address inside the vNode goes to the sockets of this processor; an echo request
 *		among them is answered here. Another is the TCP/IP stack's. A packet to a group may
 *		go both ways.
 * Invariants:	the source of every packet is the vNode's, and its destination is the one that the
 *		call names, whatever header the program has written.
 * Limits:	inside, no packet that is a part of another (EINVAL); packets of TCP and UDP reach
 *		raw sockets alone. MSG_MORE is not looked at.
 */
#include <abi/in.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/tcpip.h>
#include <processor/vfs/uio.h>

#include "gateway.h"
#include "interface.h"
#include "raw.h"

static const uint8_t loopback4[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };

static bool is_broadcast(const uint8_t addr[16])
{
	static const uint8_t broadcast[16] = { [10] = 0xff, 0xff, 255, 255, 255, 255 };

	return !memcmp(addr, broadcast, 16);
}

/* For IPv6 the port of a name is the protocol, or nothing. */
static int check_protocol(const struct socket *s, uint16_t port)
{
	if (s->family == AF_INET || !port || s->type != SOCK_RAW)
		return 0;
	return port == s->protocol || s->protocol == IPPROTO_RAW ? 0 : -EINVAL;
}

int raw_destination(struct socket *s, const struct socket_msg *m, struct inet_name *to)
{
	int err = 0;

	if (m->addr.len) {
		err = inet_name_fetch(s, &m->addr, to);
		if (!err)
			err = check_protocol(s, to->port);
	} else if (READ_ONCE(s->state) == SOCKET_CONNECTED) {
		*to = inet_of(s)->remote;
	} else {
		err = -EDESTADDRREQ;
	}
	if (err)
		return err;
	to->port = 0;
	if (inet_is_v4(to->addr) != (s->family == AF_INET))
		return -ENETUNREACH;
	if (is_broadcast(to->addr) && !socket_option(s, SOCKET_BROADCAST))
		return -EACCES;
	inet_make_definite(to);
	return 0;
}

static int find_group_way(struct socket *s, struct raw_out *out)
{
	struct inet_packet *p = &out->packet.head;
	const bool chosen = !inet_is_any(p->from.addr);
	uint8_t from[16];
	int loop, err = inet_group_way(s, &p->to, &p->interface, from);

	if (err)
		return err;
	if (!chosen)
		memcpy(p->from.addr, from, 16);
	if (s->family == AF_INET)
		(void)inet_option_changed(s, SOL_IP, IP_MULTICAST_LOOP, &loop);
	else
		(void)inet_option_changed(s, SOL_IPV6, IPV6_MULTICAST_LOOP, &loop);
	out->inside = p->interface == LOOPBACK_INDEX || loop;
	out->outside = p->interface != LOOPBACK_INDEX && p->ttl;
	return 0;
}

/* The source of a packet to inside, unless it is chosen. */
static void source_inside(struct inet_packet *p)
{
	const bool four = inet_is_v4(p->to.addr) && inet_is_loopback(p->to.addr);

	if (inet_is_any(p->from.addr))
		memcpy(p->from.addr, four ? loopback4 : p->to.addr, 16);
	if (!p->interface)
		p->interface = inet_interface_inside(p->to.addr);
}

int raw_find_way(struct socket *s, const struct socket_msg *m, struct raw_out *out)
{
	const uint8_t *own = inet_of(s)->local.addr;
	struct inet_packet *p = &out->packet.head;
	struct tcpip_name to = { 0 };
	int err = inet_packet_of(s, m, p);

	if (err)
		return err;
	out->may_broadcast = socket_option(s, SOCKET_BROADCAST);
	p->from.port = 0;
	if (inet_is_multicast(p->to.addr))
		return find_group_way(s, out);
	out->inside = inet_is_local(p->to.addr);
	out->outside = !out->inside;
	if (inet_is_any(p->from.addr) && !inet_is_multicast(own))
		memcpy(p->from.addr, own, 16);
	/* While another thread connects the socket, this may be the peer's for a moment. */
	if (!inet_is_any(p->from.addr) && !inet_is_local(p->from.addr))
		return -EINVAL;
	if (out->inside) {
		source_inside(p);
		return 0;
	}
	if (inet_is_loopback(p->from.addr))
		return -EINVAL;
	memcpy(to.addr, p->to.addr, 16);
	if (inet_is_any(p->from.addr))
		err = gateway_wait_source(&to, p->from.addr);
	return err ? err : tcpip_is_present() ? 0 : -ENETUNREACH;
}

/* --- headers ---------------------------------------------------------------------------- */

/* The header that a program has written: it cannot pretend to come from elsewhere. */
static int check_header(struct raw_out *out)
{
	struct ip_packet *p = &out->packet;
	uint8_t *h = out->buf + RAW_ROOM;
	uint8_t source[16];
	int err;

	if (p->six)
		err = ip6_header_finish(h, out->len, p->head.to.addr, source);
	else
		err = ip4_header_finish(h, out->len, p->head.from.addr, p->head.to.addr, source);
	if (err)
		return err;
	p->head.ttl = h[p->six ? 7 : 8];
	if (inet_is_multicast(p->head.to.addr))
		out->outside = p->head.interface != LOOPBACK_INDEX && p->head.ttl;
	if (memcmp(source, p->head.from.addr, 16) && !gateway_is_own(source) &&
	    (out->outside || !inet_is_loopback(source)))
		return -EPERM;
	if (!p->six && out->inside && ip4_is_fragment(h)) {
		if (!out->outside)
			return -EINVAL;
		out->inside = false; /* the group's members in here miss it */
	}
	memcpy(p->head.from.addr, source, 16);
	p->protocol = h[p->six ? 6 : 9];
	p->head.tos = p->six ? (uint8_t)(h[0] << 4 | h[1] >> 4) : h[1];
	return 0;
}

/* The sum of a packet of IPv6 at @at, which the socket's option names. */
static int put_checksum(const struct ip_packet *p, uint8_t *data, size_t len, int32_t at)
{
	uint16_t sum;

	if (at < 0)
		return 0;
	if ((size_t)at + 2 > len)
		return -EINVAL;
	ip_put16(data + at, 0);
	sum = ip_sum_end(ip_sum(
		data, len, ip6_pseudo_sum(p->head.from.addr, p->head.to.addr, len, p->protocol)));
	ip_put16(data + at, sum ? sum : 0xffff);
	return 0;
}

/* --- leaving ------------------------------------------------------------------------------ */

static int send_inside(struct raw_out *out)
{
	struct ip_packet *p = &out->packet, answer;
	uint8_t *copy;

	if (p->six && out->header) {
		p->bytes = out->buf + RAW_ROOM + IP6_HEADER;
		p->len = out->len - IP6_HEADER;
	} else if (p->six || out->header) {
		p->bytes = out->buf + RAW_ROOM;
		p->len = out->len;
	} else {
		ip4_header_write(out->buf, RAW_ROOM + out->len, p);
		p->bytes = out->buf;
		p->len = RAW_ROOM + out->len;
	}
	raw_deliver(p);
	if (inet_is_multicast(p->head.to.addr) || icmp_echo_id(p, false) < 0)
		return 0;
	copy = kmalloc(p->len);
	if (!copy)
		return 0; /* as on a wire, the answer is lost */
	icmp_echo_answer(p, copy, &answer);
	raw_deliver(&answer);
	kfree(copy);
	return 0;
}

int raw_send_packet(struct socket *s, struct raw_out *out)
{
	struct ip_packet *p = &out->packet;
	int err;

	if (out->header)
		err = check_header(out);
	else if (p->six)
		err = put_checksum(p, out->buf + RAW_ROOM, out->len,
				   READ_ONCE(raw_of(s)->checksum));
	else
		err = out->len > IP_MAX - IP4_HEADER ? -EMSGSIZE : 0;
	if (!err && out->outside && !out->header)
		err = inet_check_packet(s, &p->head, p->head.from.addr,
					out->len + (p->six ? IP6_HEADER : IP4_HEADER));
	if (!err && out->inside)
		err = send_inside(out);
	if (!err && out->outside)
		err = outside_raw_send(raw_of(s)->outside, out);
	return err;
}

int raw_begin_send(struct socket *s, const struct socket_msg *m, struct raw_out *out)
{
	int err = raw_destination(s, m, &out->packet.head.to);

	if (!err)
		err = -socket_take_error(s);
	if (!err && (READ_ONCE(s->shut) & SOCKET_SHUT_WR))
		err = -EPIPE;
	return err ? err : raw_find_way(s, m, out);
}

ssize_t raw_sendmsg(struct socket *s, struct socket_msg *m)
{
	struct raw_out out = { .packet = { .six = s->family == AF_INET6,
					   .protocol = (uint8_t)s->protocol },
			       .len = m->uio->left,
			       .header = READ_ONCE(raw_of(s)->header) };
	int err;

	if (out.len > IP_MAX)
		return -EMSGSIZE;
	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	err = raw_begin_send(s, m, &out);
	if (err)
		return err;
	out.buf = kmalloc(RAW_ROOM + out.len);
	if (!out.buf)
		return -ENOBUFS;
	if (uio_fetch(m->uio, out.buf + RAW_ROOM, out.len) < out.len)
		err = -EFAULT;
	else
		err = raw_send_packet(s, &out);
	kfree(out.buf);
	return err ? err : (ssize_t)out.len;
}
