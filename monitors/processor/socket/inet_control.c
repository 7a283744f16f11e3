/* SPDX-License-Identifier: MIT */
/*
 * Datagrams of AF_INET and AF_INET6: the packet around the bytes, as programs wish it by ancillary
 * data and options, and as they are told of it.
 *
 * Flow:	sendmsg() makes a struct inet_packet, which goes with the bytes to the receiver's
 *		queue, to another processor or to the TCP/IP stack. recvmsg() tells of the one that
 *		came, by options as IP_PKTINFO, in the order in which Linux does.
 * See:		docs/design/sockets.md
 */
#include <abi/in.h>
#include <abi/socket.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "cmsg.h"
#include "gateway.h"
#include "inet_private.h"
#include "interface.h"

#define ETHERNET_MTU 1500u
#define HEADERS4     28u /* of IPv4 and UDP */
#define HEADERS6     48u

/* --- sending ------------------------------------------------------------------------- */

static bool interface_by_index(uint32_t index, struct inet_interface *out)
{
	for (unsigned int i = 0; inet_interface_at(i, out); i++) {
		if (out->index == index)
			return true;
	}
	return false;
}

/* The source that a program names: an address of the vNode's. */
static int take_source(const uint8_t from[16], struct inet_packet *p)
{
	if (inet_is_v4(from) != inet_is_v4(p->to.addr))
		return -EINVAL;
	if (inet_is_any(from))
		return 0;
	if (!inet_is_local(from))
		return -EINVAL;
	memcpy(p->from.addr, from, sizeof(p->from.addr));
	return 0;
}

static int take_interface(uint32_t index, struct inet_packet *p)
{
	struct inet_interface i;

	if (!index)
		return 0;
	if (!interface_by_index(index, &i))
		return -ENODEV;
	p->interface = index;
	if (inet_is_multicast(p->to.addr))
		p->to.scope_id = index;
	return 0;
}

static int take_wish(const struct inet_wish *w, struct inet_packet *p)
{
	int err = 0;

	if (w->has & INET_WISH_TTL)
		p->ttl = w->ttl;
	if (w->has & INET_WISH_TOS)
		p->tos = w->tos;
	if (w->has & INET_WISH_FROM) {
		err = take_source(w->from, p);
		if (!err)
			err = take_interface(w->interface, p);
	}
	return err;
}

/* By options, of those that packets carry. */
static void take_options(struct socket *s, bool four, bool group, struct inet_packet *p)
{
	const int level = four ? SOL_IP : SOL_IPV6;
	int hops, class;

	(void)inet_option_changed(s, level,
				  four    ? (group ? IP_MULTICAST_TTL : IP_TTL)
				  : group ? IPV6_MULTICAST_HOPS
					  : IPV6_UNICAST_HOPS,
				  &hops);
	(void)inet_option_changed(s, level, four ? IP_TOS : IPV6_TCLASS, &class);
	p->ttl = (uint8_t)hops;
	p->tos = (uint8_t)class;
}

int inet_packet_of(struct socket *s, const struct socket_msg *m, struct inet_packet *p)
{
	const bool four = inet_is_v4(p->to.addr), group = inet_is_multicast(p->to.addr);
	int err = 0;

	memset(&p->from, 0, sizeof(p->from));
	p->from.port = inet_of(s)->local.port;
	p->interface = p->drops = 0;
	p->ttl = group ? 1 : INET_HOPS;
	p->tos = 0;
	if (__atomic_load_n(&inet_of(s)->changed, __ATOMIC_ACQUIRE) & INET_SENDS)
		take_options(s, four, group, p);
	if (!four)
		return m->wish6.has ? take_wish(&m->wish6, p) : 0;
	if (m->wish4.has)
		err = take_wish(&m->wish4, p);
	/* As Linux: of IPv6's ancillary data this one counts. */
	if (!err && (m->wish6.has & INET_WISH_FROM))
		err = take_source(m->wish6.from, p);
	if (!err && (m->wish6.has & INET_WISH_FROM))
		err = take_interface(m->wish6.interface, p);
	return err;
}

uint32_t inet_interface_inside(const uint8_t to[16])
{
	struct inet_interface i;

	/* As Linux: a packet of IPv4 to an own address comes by the loopback. */
	if (inet_is_v4(to) || inet_is_loopback(to))
		return LOOPBACK_INDEX;
	for (unsigned int nr = 1; inet_interface_at(nr, &i); nr++) {
		for (uint32_t a = 0; a < i.nr_addr6; a++) {
			if (!memcmp(i.addr6[a].addr, to, 16))
				return i.index;
		}
	}
	return LOOPBACK_INDEX;
}

int inet_check_packet(struct socket *s, const struct inet_packet *p, const uint8_t from[16],
		      size_t total)
{
	const bool four = inet_is_v4(p->to.addr);
	uint32_t mtu;
	int discover;

	if (!(__atomic_load_n(&inet_of(s)->changed, __ATOMIC_ACQUIRE) & INET_SENDS))
		return 0;
	(void)inet_option_changed(s, four ? SOL_IP : SOL_IPV6,
				  four ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &discover);
	if (discover != IP_PMTUDISC_DO && discover != IP_PMTUDISC_PROBE)
		return 0;
	mtu = gateway_mtu(from);
	if (!mtu)
		mtu = ETHERNET_MTU;
	if (total <= mtu)
		return 0;
	inet_error_local(s, &p->to, EMSGSIZE, mtu);
	return -EMSGSIZE;
}

int inet_check_size(struct socket *s, const struct inet_packet *p, const uint8_t from[16],
		    size_t len)
{
	return inet_check_packet(s, p, from, len + (inet_is_v4(p->to.addr) ? HEADERS4 : HEADERS6));
}

/* --- receiving ----------------------------------------------------------------------- */

static void put_number(struct cmsg_sink *sink, int level, int type, int number)
{
	cmsg_put(sink, level, type, &number, sizeof(number));
}

/* The address by which to answer: that of the interface, for what was sent to a group. */
static uint32_t answer_from(const struct inet_packet *p)
{
	const bool own = !inet_is_multicast(p->to.addr) && inet_is_local(p->to.addr);
	struct inet_interface i;
	uint32_t addr;

	memcpy(&addr, p->to.addr + 12, sizeof(addr));
	if (!own && interface_by_index(p->interface, &i))
		memcpy(&addr, i.addr4, sizeof(addr));
	return addr;
}

/* Of a packet of IPv4. @error: it was about another; as on Linux, one does not answer it. */
static void put4(uint32_t tells, const struct inet_packet *p, bool error, struct cmsg_sink *sink)
{
	struct linux_in_pktinfo info = { .ifindex = p->interface };
	struct linux_sockaddr_in dst = { .family = AF_INET, .port = __builtin_bswap16(p->to.port) };

	memcpy(&info.addr, p->to.addr + 12, sizeof(info.addr));
	dst.addr = info.addr;
	if (tells & INET_TELLS_INFO) {
		info.spec_dst = error ? 0 : answer_from(p);
		cmsg_put(sink, SOL_IP, IP_PKTINFO, &info, sizeof(info));
	}
	if (tells & INET_TELLS_TTL)
		put_number(sink, SOL_IP, IP_TTL, p->ttl);
	if (tells & INET_TELLS_TOS)
		cmsg_put(sink, SOL_IP, IP_TOS, &p->tos, sizeof(p->tos));
	if (tells & INET_TELLS_DST)
		cmsg_put(sink, SOL_IP, IP_RECVORIGDSTADDR, &dst, sizeof(dst));
}

/* Link-local? */
static bool is_near(const uint8_t addr[16])
{
	return addr[0] == 0xfe && (addr[1] & 0xc0) == 0x80;
}

static void put6(uint32_t tells, const struct inet_packet *p, struct cmsg_sink *sink)
{
	struct linux_sockaddr_in6 dst = { .family = AF_INET6,
					  .port = __builtin_bswap16(p->to.port),
					  .scope_id = is_near(p->to.addr) ? p->interface : 0 };

	memcpy(dst.addr, p->to.addr, sizeof(dst.addr));
	if (tells & INET_TELLS_HOPS)
		put_number(sink, SOL_IPV6, IPV6_HOPLIMIT, p->ttl);
	if (tells & INET_TELLS_CLASS)
		put_number(sink, SOL_IPV6, IPV6_TCLASS, p->tos);
	if (tells & INET_TELLS_DST6)
		cmsg_put(sink, SOL_IPV6, IPV6_RECVORIGDSTADDR, &dst, sizeof(dst));
}

/* The error of a packet, and which node says so. */
static void put_error(struct socket *s, const struct socket_msg *m, struct cmsg_sink *sink)
{
	struct {
		struct linux_sock_extended_err ee;
		struct linux_sockaddr_in offender;
	} error4 = { .ee = m->error };
	struct {
		struct linux_sock_extended_err ee;
		struct linux_sockaddr_in6 offender;
	} error6 = { .ee = m->error };

	if (s->family == AF_INET) {
		if (m->has_packet) {
			error4.offender.family = AF_INET;
			memcpy(&error4.offender.addr, m->packet.from.addr + 12, 4);
		}
		cmsg_put(sink, SOL_IP, IP_RECVERR, &error4, sizeof(error4));
		return;
	}
	if (m->has_packet) {
		error6.offender.family = AF_INET6;
		memcpy(error6.offender.addr, m->packet.from.addr, 16);
		if (is_near(m->packet.from.addr))
			error6.offender.scope_id = m->packet.interface;
	}
	cmsg_put(sink, SOL_IPV6, IPV6_RECVERR, &error6, sizeof(error6));
}

static void put_packet(struct socket *s, const struct socket_msg *m, struct cmsg_sink *sink)
{
	const uint32_t tells = __atomic_load_n(&inet_of(s)->changed, __ATOMIC_ACQUIRE);
	const struct inet_packet *p = &m->packet;
	struct linux_in6_pktinfo info = { .ifindex = p->interface };

	if (socket_option(s, SOCKET_RXQ_OVFL) && p->drops)
		cmsg_put(sink, SOL_SOCKET, SO_RXQ_OVFL, &p->drops, sizeof(p->drops));
	memcpy(info.addr, p->to.addr, sizeof(info.addr));
	if (tells & INET_TELLS_INFO6)
		cmsg_put(sink, SOL_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	if (inet_is_v4(p->to.addr))
		put4(tells, p, m->error.err, sink);
	else
		put6(tells, p, sink);
}

void inet_put_control(struct socket *s, const struct socket_msg *m, struct cmsg_sink *sink)
{
	if (m->has_packet)
		put_packet(s, m, sink);
	if (m->error.err)
		put_error(s, m, sink);
}
