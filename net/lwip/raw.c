/* SPDX-License-Identifier: MIT */
/*
 * Raw packets on lwIP's raw interface.
 *
 * Flow:	what comes is copied by the user's function, and goes on to lwIP's protocols: an
 *		echo request is answered whether or not somebody listens.
 * Locking:	stack_mutex, which lwIP's calls of on_packet() have as well.
 * Limits:	a packet that came in several buffers is copied into one for its user; without
 *		memory for that the user misses it.
 */
#include "lwip_priv.h"

#include <lib/errno.h>
#include <lib/string.h>
#include <lwip/ip.h>
#include <lwip/raw.h>
#include <mm/slab.h>

#define MAX_PACKET 65535u

struct tcpip_raw {
	struct raw_pcb *pcb;
	tcpip_received_t received;
	void *arg;
	bool six;
};

/* 0: @p is not taken. */
static u8_t on_packet(void *arg, struct raw_pcb *pcb, struct pbuf *p, const ip_addr_t *addr)
{
	const struct tcpip_raw *r = arg;
	/* IPv6: @p begins with its headers, which lwIP has gone through. */
	const u16_t skip = r->six ? ip_current_header_tot_len() : 0;
	struct tcpip_packet packet = { .interface = 0 };
	uint8_t *copy = NULL;
	u16_t len;

	(void)pcb;
	(void)addr;
	assert_mutex_held(&stack_mutex);
	if (p->tot_len < skip)
		return 0;
	len = (u16_t)(p->tot_len - skip);
	packet_of_current(&packet);
	if (p->next) {
		copy = kmalloc(MAX(len, (u16_t)1));
		if (!copy)
			return 0;
		(void)pbuf_copy_partial(p, copy, len, skip);
	}
	r->received(r->arg, &packet, copy ? copy : (const uint8_t *)p->payload + skip, len);
	kfree(copy);
	return 0;
}

int tcpip_raw_open(bool six, uint8_t protocol, tcpip_received_t received, void *arg,
		   struct tcpip_raw **out)
{
	struct tcpip_raw *r = kzalloc(sizeof(*r));

	if (!r)
		return -ENOBUFS;
	r->received = received;
	r->arg = arg;
	r->six = six;
	stack_lock();
	r->pcb = raw_new_ip_type(six ? IPADDR_TYPE_V6 : IPADDR_TYPE_V4, protocol);
	if (r->pcb) {
		ip_set_option(r->pcb, SOF_BROADCAST); /* whether it may be sent is decided above */
		raw_recv(r->pcb, on_packet, r);
	}
	stack_unlock();
	if (r->pcb) {
		*out = r;
		return 0;
	}
	kfree(r);
	return -ENOBUFS;
}

static int send_locked(struct tcpip_raw *r, const struct tcpip_packet *packet, bool has_header,
		       const void *data, size_t len) __must_hold(&stack_mutex)
{
	struct netif *netif;
	ip_addr_t from, to;
	struct pbuf *p;
	err_t err;

	assert_mutex_held(&stack_mutex);
	name_to_ip(packet->from.addr, &from);
	name_to_ip(packet->to.addr, &to);
	netif = packet->interface ? netif_of_index_locked(packet->interface) : ip_route(&from, &to);
	if (!netif)
		return -ENETUNREACH;
	if (!r->six && !packet->may_broadcast && ip_addr_isbroadcast(&to, netif))
		return -EACCES;
	if (IP_IS_V6(&from))
		ip6_addr_assign_zone(ip_2_ip6(&from), IP6_UNICAST, netif);
	/* Its user has looked at it; the card may have lost it since, or it is another's. */
	if (!ip_addr_isany(&from) && !is_ours_locked(&from))
		return -EINVAL;
	if (has_header && len > netif->mtu)
		return -EMSGSIZE;
	if (packet->interface && r->six)
		ip6_addr_assign_zone(ip_2_ip6(&to), IP6_UNKNOWN, netif);
	p = pbuf_alloc(has_header ? PBUF_LINK : PBUF_IP, (u16_t)len, PBUF_RAM);
	if (!p)
		return -ENOBUFS;
	err = pbuf_take(p, data, (u16_t)len);
	r->pcb->ttl = packet->ttl;
	r->pcb->tos = packet->tos;
	raw_set_multicast_ttl(r->pcb, packet->ttl);
	if (has_header)
		raw_set_flags(r->pcb, RAW_FLAGS_HDRINCL);
	else
		raw_clear_flags(r->pcb, RAW_FLAGS_HDRINCL);
	if (err == ERR_OK)
		err = raw_sendto_if_src(r->pcb, p, &to, netif, &from);
	pbuf_free(p);
	if (err == ERR_OK)
		return 0;
	return err == ERR_RTE ? -ENETUNREACH : err == ERR_VAL ? -EINVAL : -ENOBUFS;
}

int tcpip_raw_send(struct tcpip_raw *r, const struct tcpip_packet *packet, bool has_header,
		   const void *data, size_t len)
{
	const size_t header = has_header ? 0 : r->six ? IP6_HLEN : IP_HLEN;
	int err;

	if (len > MAX_PACKET - header)
		return -EMSGSIZE;
	stack_lock();
	err = send_locked(r, packet, has_header, data, len);
	stack_unlock();
	return err;
}

void tcpip_raw_close(struct tcpip_raw *r)
{
	stack_lock();
	raw_remove(r->pcb);
	stack_unlock();
	kfree(r);
}
