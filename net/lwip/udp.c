/* SPDX-License-Identifier: MIT */
/*
 * UDP ports on lwIP's raw interface.
 *
 * Locking:	stack_mutex, which lwIP's calls of on_receive() have as well.
 * Limits:	a datagram that came in several buffers is copied into one for its user; without
 *		memory for that it is lost, as on the wire.
 */
#include "lwip_priv.h"

#include <lib/errno.h>
#include <lib/string.h>
#include <lwip/ip.h>
#include <lwip/udp.h>
#include <mm/slab.h>

#define MAX_DATAGRAM 65507u

struct tcpip_port {
	struct udp_pcb *pcb;
	tcpip_received_t received;
	void *arg;
};

void packet_of_current(struct tcpip_packet *out)
{
	ip_to_name(ip_current_src_addr(), out->from.addr);
	ip_to_name(ip_current_dest_addr(), out->to.addr);
	out->interface = index_of_netif(ip_current_input_netif());
	if (ip_current_is_v6()) {
		out->ttl = IP6H_HOPLIM(ip6_current_header());
		out->tos = IP6H_TC(ip6_current_header());
	} else {
		out->ttl = IPH_TTL(ip4_current_header());
		out->tos = IPH_TOS(ip4_current_header());
	}
	if (ip_addr_ismulticast(ip_current_dest_addr()))
		out->to.scope_id = out->interface;
}

static void on_receive(void *arg, struct udp_pcb *pcb, struct pbuf *p, const ip_addr_t *addr,
		       u16_t port)
{
	struct tcpip_packet packet = { .from.port = port, .to.port = pcb->local_port };
	struct tcpip_port *u = arg;
	void *copy = NULL;

	(void)addr;
	assert_mutex_held(&stack_mutex);
	packet_of_current(&packet);
	if (p->next)
		copy = kmalloc(p->tot_len);
	if (copy)
		(void)pbuf_copy_partial(p, copy, p->tot_len, 0);
	if (copy || !p->next)
		u->received(u->arg, &packet, copy ? copy : p->payload, p->tot_len);
	kfree(copy);
	pbuf_free(p);
}

int tcpip_port_open(const struct tcpip_name *local, tcpip_received_t received, void *arg,
		    struct tcpip_port **out)
{
	struct tcpip_port *u = kzalloc(sizeof(*u));
	ip_addr_t ip;
	err_t err = ERR_MEM;

	if (!u)
		return -ENOBUFS;
	u->received = received;
	u->arg = arg;
	bound_to_ip(local, &ip);
	stack_lock();
	u->pcb = udp_new_ip_type(ip.type);
	if (u->pcb) {
		/* Whether a port may be shared, and broadcasts sent, is decided above. */
		ip_set_option(u->pcb, SOF_REUSEADDR | SOF_BROADCAST);
		udp_recv(u->pcb, on_receive, u);
		err = udp_bind(u->pcb, &ip, local->port);
		if (err != ERR_OK)
			udp_remove(u->pcb);
	}
	stack_unlock();
	if (err == ERR_OK) {
		*out = u;
		return 0;
	}
	kfree(u);
	return err == ERR_USE ? -EADDRINUSE : -ENOBUFS;
}

bool is_ours_locked(const ip_addr_t *ip)
{
	struct netif *netif;

	assert_mutex_held(&stack_mutex);
	NETIF_FOREACH(netif)
	{
		if (IP_IS_V4(ip) ? ip4_addr_cmp(ip_2_ip4(ip), netif_ip4_addr(netif))
				 : netif_get_ip6_addr_match(netif, ip_2_ip6(ip)) >= 0)
			return true;
	}
	return false;
}

/* By @netif, from @from, unless that is any: from the address that suits @to there. */
static err_t send_by_locked(struct tcpip_port *u, struct netif *netif, const ip_addr_t *from,
			    const ip_addr_t *to, uint16_t port, struct pbuf *p)
	__must_hold(&stack_mutex)
{
	assert_mutex_held(&stack_mutex);
	if (ip_addr_isany(from))
		return udp_sendto_if(u->pcb, p, to, port, netif);
	if (IP_GET_TYPE(from) != IP_GET_TYPE(to) || !is_ours_locked(from))
		return ERR_RTE;
	return udp_sendto_if_src(u->pcb, p, to, port, netif, from);
}

static err_t send_locked(struct tcpip_port *u, const struct tcpip_packet *packet, const void *data,
			 size_t len) __must_hold(&stack_mutex)
{
	struct netif *netif;
	ip_addr_t from, to;
	struct pbuf *p;
	err_t err;

	assert_mutex_held(&stack_mutex);
	name_to_ip(packet->from.addr, &from);
	name_to_ip(packet->to.addr, &to);
	if (packet->interface)
		netif = netif_of_index_locked(packet->interface);
	else
		netif = ip_route(ip_addr_isany(&from) ? &u->pcb->local_ip : &from, &to);
	if (!netif)
		return ERR_RTE;
	if (packet->interface && IP_IS_V6(&to))
		ip6_addr_assign_zone(ip_2_ip6(&to), IP6_UNKNOWN, netif);
	if (IP_IS_V6(&from) && !ip_addr_isany(&from))
		ip6_addr_assign_zone(ip_2_ip6(&from), IP6_UNICAST, netif);
	p = pbuf_alloc(PBUF_TRANSPORT, (u16_t)len, PBUF_RAM);
	if (!p)
		return ERR_MEM;
	err = pbuf_take(p, data, (u16_t)len);
	/* Every datagram says these for itself. */
	u->pcb->ttl = packet->ttl;
	u->pcb->tos = packet->tos;
	udp_set_multicast_ttl(u->pcb, packet->ttl);
	if (err == ERR_OK)
		err = send_by_locked(u, netif, &from, &to, packet->to.port, p);
	pbuf_free(p);
	return err;
}

static int errno_of(err_t err)
{
	if (err == ERR_OK)
		return 0;
	return err == ERR_RTE ? -ENETUNREACH : -ENOBUFS;
}

int tcpip_port_send(struct tcpip_port *u, const struct tcpip_packet *packet, const void *data,
		    size_t len)
{
	err_t err;

	if (len > MAX_DATAGRAM)
		return -EMSGSIZE;
	stack_lock();
	err = send_locked(u, packet, data, len);
	stack_unlock();
	return errno_of(err);
}

void tcpip_port_close(struct tcpip_port *u)
{
	stack_lock();
	udp_remove(u->pcb);
	stack_unlock();
	kfree(u);
}
