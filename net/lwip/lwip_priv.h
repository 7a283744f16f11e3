/* SPDX-License-Identifier: MIT */
/* The stack's lock, for the files of the port. */
#pragma once

#include <kernel/mutex.h>
#include <lib/compiler.h>
#include <lib/types.h>
#include <net/tcpip.h>

struct ip_addr;

extern struct mutex stack_mutex; /* RANK_NET_STACK */

/* Enter and leave the stack; leaving tells the cards about frames that they were given. */
void stack_lock(void) __acquires(&stack_mutex);
void stack_unlock(void) __releases(&stack_mutex);

/* stack.c: once, before anything else. The init call, for tests. */
int stack_init(void);

/* interface.c */
struct netif;
/* The card with this index, or NULL; and the other way round. */
struct netif *netif_of_index_locked(uint32_t index) __must_hold(&stack_mutex);
uint32_t index_of_netif(const struct netif *netif);
void interfaces_kick_locked(void) __must_hold(&stack_mutex);

/* udp.c: the packet that lwIP has in hand; without ports. */
void packet_of_current(struct tcpip_packet *out);
/* Is @ip an address of one of our cards, which may be used? */
bool is_ours_locked(const struct ip_addr *ip) __must_hold(&stack_mutex);

/* stack.c: IPv4 is ::ffff:a.b.c.d. */
void name_to_ip(const uint8_t addr[16], struct ip_addr *out);
/* The same for what is bound: any is that of IPv6 alone, if the name says so. */
void bound_to_ip(const struct tcpip_name *name, struct ip_addr *out);
void ip_to_name(const struct ip_addr *ip, uint8_t addr[16]);
