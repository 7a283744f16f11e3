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

static void on_receive(void *arg, struct udp_pcb *pcb, struct pbuf *p, const ip_addr_t *addr,
		       u16_t port)
{
	struct tcpip_port *u = arg;
	struct tcpip_name from = { .port = port }, to = { .port = pcb->local_port };
	void *copy = NULL;

	assert_mutex_held(&stack_mutex);
	ip_to_name(addr, from.addr);
	ip_to_name(ip_current_dest_addr(), to.addr);
	if (ip_addr_ismulticast(ip_current_dest_addr()))
		to.scope_id = index_of_netif(ip_current_input_netif());
	if (p->next)
		copy = kmalloc(p->tot_len);
	if (copy)
		(void)pbuf_copy_partial(p, copy, p->tot_len, 0);
	if (copy || !p->next)
		u->received(u->arg, &from, &to, copy ? copy : p->payload, p->tot_len);
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

/* By @netif; NULL: by the way to @ip. */
static err_t send_locked(struct tcpip_port *u, const ip_addr_t *ip, uint16_t port,
			 struct netif *netif, const void *data, size_t len)
	__must_hold(&stack_mutex)
{
	struct pbuf *p = pbuf_alloc(PBUF_TRANSPORT, (u16_t)len, PBUF_RAM);
	err_t err;

	assert_mutex_held(&stack_mutex);
	if (!p)
		return ERR_MEM;
	err = pbuf_take(p, data, (u16_t)len);
	if (err == ERR_OK)
		err = netif ? udp_sendto_if(u->pcb, p, ip, port, netif)
			    : udp_sendto(u->pcb, p, ip, port);
	pbuf_free(p);
	return err;
}

static int errno_of(err_t err)
{
	if (err == ERR_OK)
		return 0;
	return err == ERR_RTE ? -ENETUNREACH : -ENOBUFS;
}

int tcpip_port_send(struct tcpip_port *u, const struct tcpip_name *to, const void *data, size_t len)
{
	ip_addr_t ip;
	err_t err;

	if (len > MAX_DATAGRAM)
		return -EMSGSIZE;
	name_to_ip(to->addr, &ip);
	stack_lock();
	err = send_locked(u, &ip, to->port, NULL, data, len);
	stack_unlock();
	return errno_of(err);
}

int tcpip_port_send_group(struct tcpip_port *u, const struct tcpip_name *to, uint32_t interface,
			  uint8_t hops, const void *data, size_t len)
{
	struct netif *netif;
	ip_addr_t ip;
	err_t err = ERR_RTE;

	if (len > MAX_DATAGRAM)
		return -EMSGSIZE;
	name_to_ip(to->addr, &ip);
	stack_lock();
	netif = netif_of_index_locked(interface);
	if (netif && IP_IS_V6(&ip))
		ip6_addr_assign_zone(ip_2_ip6(&ip), IP6_MULTICAST, netif);
	if (netif) {
		udp_set_multicast_ttl(u->pcb, hops);
		err = send_locked(u, &ip, to->port, netif, data, len);
	}
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
