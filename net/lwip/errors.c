/* SPDX-License-Identifier: MIT */
/*
 * ICMP messages about datagrams that have left: lwIP answers and drops them; its users hear of them
 * by two raw sockets that look at what comes and leave it to lwIP.
 *
 * Flow:	on_icmp() gets each ICMP message, from the IP header on. One that tells of a packet
 *		of UDP is decoded, and what it says goes to the user.
 * Locking:	stack_mutex, which guards the copy of a message as well.
 * Failure:	a message that is malformed, has a wrong checksum or is longer than a packet of
 *		Ethernet has no effect here.
 * Limits:	packets that begin with anything but UDP behind a plain header of IPv6 are not
 *		looked at.
 */
#include "lwip_priv.h"

#include <lib/errno.h>
#include <lib/string.h>
#include <lwip/icmp.h>
#include <lwip/icmp6.h>
#include <lwip/inet_chksum.h>
#include <lwip/ip.h>
#include <lwip/raw.h>
#include <lwip/udp.h>

#define MESSAGE_MAX 1536u
#define ICMP_HEAD   8u

static void (*report)(const struct tcpip_error *e); /* stack_mutex */
static uint8_t message[MESSAGE_MAX];                /* stack_mutex */

static uint32_t load32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return lwip_ntohl(v);
}

static uint16_t load16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

/* The header of UDP at @at, of whose bytes @len came back. */
static bool decode_udp(const uint8_t *at, size_t len, struct tcpip_error *e)
{
	size_t whole;

	if (len < UDP_HLEN)
		return false;
	e->from.port = load16(at);
	e->to.port = load16(at + 2);
	whole = load16(at + 4);
	if (whole < UDP_HLEN)
		return false;
	e->data = at + UDP_HLEN;
	e->len = MIN(len, whole) - UDP_HLEN;
	return true;
}

static void map4(const uint8_t *at, uint8_t addr[16])
{
	memset(addr, 0, 10);
	addr[10] = addr[11] = 0xff;
	memcpy(addr + 12, at, 4);
}

static bool decode4(const uint8_t *m, size_t len, struct tcpip_error *e)
{
	const uint8_t *ip = m + ICMP_HEAD;
	size_t head;

	if (e->type != ICMP_DUR && e->type != ICMP_TE && e->type != ICMP_PP)
		return false;
	if (len < ICMP_HEAD + IP_HLEN || ip[0] >> 4 != 4)
		return false;
	head = (ip[0] & 0xfu) * 4;
	/* The first fragment alone has ports. */
	if (head < IP_HLEN || len < ICMP_HEAD + head || ip[9] != IP_PROTO_UDP ||
	    (load16(ip + 6) & IP_OFFMASK))
		return false;
	map4(ip + 12, e->from.addr);
	map4(ip + 16, e->to.addr);
	if (e->type == ICMP_DUR && e->code == ICMP_DUR_FRAG)
		e->info = load16(m + 6);
	else if (e->type == ICMP_PP)
		e->info = m[4];
	return decode_udp(ip + head, len - ICMP_HEAD - head, e);
}

static bool decode6(const uint8_t *m, size_t len, struct tcpip_error *e)
{
	const uint8_t *ip = m + ICMP_HEAD;

	if (e->type != ICMP6_TYPE_DUR && e->type != ICMP6_TYPE_PTB && e->type != ICMP6_TYPE_TE &&
	    e->type != ICMP6_TYPE_PP)
		return false;
	if (len < ICMP_HEAD + IP6_HLEN || ip[0] >> 4 != 6 || ip[6] != IP6_NEXTH_UDP)
		return false;
	memcpy(e->from.addr, ip + 8, 16);
	memcpy(e->to.addr, ip + 24, 16);
	if (e->type == ICMP6_TYPE_PTB || e->type == ICMP6_TYPE_PP)
		e->info = load32(m + 4);
	return decode_udp(ip + IP6_HLEN, len - ICMP_HEAD - IP6_HLEN, e);
}

/* The checksum of the message that @p begins with. */
static bool is_sound(struct pbuf *p)
{
	if (ip_current_is_v6())
		return !CHECKSUM_CHECK_ICMP6 ||
		       !ip6_chksum_pseudo(p, IP6_NEXTH_ICMP6, p->tot_len, ip6_current_src_addr(),
					  ip6_current_dest_addr());
	return !CHECKSUM_CHECK_ICMP || !inet_chksum_pbuf(p);
}

/* A message to a broadcast or a group is none that a datagram of ours has caused. */
static bool is_for_many(void)
{
	if (ip_current_is_v6())
		return false; /* ICMPv6 does not forbid it */
	return ip4_addr_ismulticast(ip4_current_dest_addr()) ||
	       ip4_addr_isbroadcast(ip4_current_dest_addr(), ip_current_input_netif());
}

/* Types of messages about another packet; the others are not worth a copy. */
static bool is_about_a_packet(uint8_t type)
{
	return ip_current_is_v6() ? type < 128
				  : type == ICMP_DUR || type == ICMP_TE || type == ICMP_PP;
}

/* @p begins with the IP header, and is lwIP's. 0: lwIP goes on with it. */
static u8_t on_icmp(void *arg, struct raw_pcb *pcb, struct pbuf *p, const ip_addr_t *addr)
{
	const u16_t head = ip_current_header_tot_len();
	struct tcpip_error e = { .data = NULL };
	bool sound;
	size_t len;

	(void)arg;
	(void)pcb;
	(void)addr;
	assert_mutex_held(&stack_mutex);
	if (p->tot_len < head + ICMP_HEAD || (size_t)(p->tot_len - head) > MESSAGE_MAX ||
	    !is_about_a_packet(pbuf_get_at(p, head)) || is_for_many() ||
	    pbuf_remove_header(p, head))
		return 0;
	sound = is_sound(p);
	len = pbuf_copy_partial(p, message, MESSAGE_MAX, 0);
	(void)pbuf_add_header_force(p, head);
	if (!sound)
		return 0;
	e.type = message[0];
	e.code = message[1];
	packet_of_current(&e.packet);
	if (ip_current_is_v6() ? decode6(message, len, &e) : decode4(message, len, &e))
		report(&e);
	return 0;
}

int tcpip_on_error(void (*fn)(const struct tcpip_error *e))
{
	struct raw_pcb *four, *six;

	stack_lock();
	four = raw_new_ip_type(IPADDR_TYPE_V4, IP_PROTO_ICMP);
	six = raw_new_ip_type(IPADDR_TYPE_V6, IP6_NEXTH_ICMP6);
	if (four && six) {
		report = fn;
		raw_recv(four, on_icmp, NULL);
		raw_recv(six, on_icmp, NULL);
	} else {
		if (four)
			raw_remove(four);
		if (six)
			raw_remove(six);
	}
	stack_unlock();
	return four && six ? 0 : -ENOMEM;
}
