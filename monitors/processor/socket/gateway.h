/* SPDX-License-Identifier: MIT */
/*
 * The vNode's gateway: the processor whose network card is in use, for all the others.
 *
 * Flow:	the managers say which it is (gateway_claim.c). It tells all others of its cards.
 *		They know the vNode's addresses from that, connect to the outside by the gateway's
 *		relays (relay.c), and tell the gateway of their ports that the outside is to reach
 *		(outside_port.c). If several have told, as one has not heard yet that it has left,
 *		the one with the smallest id counts.
 * Locking:	gateways.lock (RANK_SPIN_MONITOR), which no caller sees.
 * Failure:	when the gateway leaves, its connections are reset with it. Another processor with a
 *		card becomes the gateway, and ports are told to that one.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct inet_name;
struct inet_packet;
struct kmem_account;
struct socket;
struct tcpip_interface;
struct tcpip_name;

/* --- gateway.c -------------------------------------------------------------------------- */

/* Another processor that is the gateway for this one; false: none, or this one is. */
bool gateway_find(uint32_t *node, uint32_t *incarn);
/* Is this an address of the vNode's outside? Any context. */
bool gateway_is_own(const uint8_t addr[16]);
/* The @i-th card, here or at the gateway, whose counters stay there; false: there are no more. */
bool gateway_interface(unsigned int i, struct tcpip_interface *out);
/* The MTU of the card that has address @own; 0: none has. */
uint32_t gateway_mtu(const uint8_t own[16]);
/*
 * The address of the vNode that packets to @to carry. A program may have come before the first one:
 * where a card is there, or a gateway is known, it waits for one of IPv4, until FIRST_ADDRESS_NS
 * after the cluster was complete. -ENETUNREACH, -ERESTARTSYS.
 */
int gateway_wait_source(const struct tcpip_name *to, uint8_t addr[16]) __must_check;
/* The cluster is complete, and programs begin to come. */
void gateway_programs_come(void);
/* connect() of @s, which is BUSY, to the outside by the gateway: see outside_connect(). */
int gateway_connect(struct socket *s, const struct inet_name *to, bool nonblock) __must_check;

/* That incarnation says that it has these cards, @nr of them. -ENOBUFS */
int gateway_learn(uint32_t node, uint32_t incarn, const struct tcpip_interface *cards, uint32_t nr)
	__must_check;
/* That incarnation of a processor has left. Does not wait for a node. */
void gateway_node_gone(uint32_t node, uint32_t incarn);
/* There is a new view: processors may have come. */
void gateway_view_changed(void);
/* Once, before programs run. -ENOMEM */
int gateway_init(void) __must_check;

/* --- gateway_claim.c -------------------------------------------------------------------- */

/* The cluster is complete: a processor with a card may be the gateway. Sleeps for moments. */
void gateway_begin(void);
/* The view has changed: there may be no gateway any more. */
void gateway_claim(void);
/* There was another gateway: this processor may ask to be the next one. */
void gateway_claim_heard(void);
int gateway_claim_init(void) __must_check;

/* --- gateway_net.c: the messages. The calls sleep, but for the last ----------------------- */

#define GATEWAY_CARDS 16u /* that are told of */

int gateway_net_tell(uint32_t node, const struct tcpip_interface *cards, uint32_t nr) __must_check;
/* -EAGAIN and the like: to be repeated; other errnos are the gateway's. */
int gateway_net_port(uint32_t node, uint64_t id, uint32_t type, const struct tcpip_name *name,
		     unsigned int backlog) __must_check;
int gateway_net_unport(uint32_t node, uint64_t id) __must_check;
/*
 * A datagram: @port_id: of the port of the gateway's that it leaves by; 0: for a socket on @node.
 * 0: it is on its way, or lost; then @answered, unless it is NULL, is called once, in polling
 * context, with what @node says. -ENOBUFS, -EAGAIN with @nonblock, -EINTR.
 */
typedef void gateway_answered_fn(void *arg, int status);
int gateway_net_send(uint32_t node, uint64_t port_id, const struct inet_packet *packet,
		     const void *data, size_t len, bool nonblock, gateway_answered_fn *answered,
		     void *arg) __must_check;
/* The same from outside, with the stack's lock held; it may be lost. */
void gateway_net_pass(uint32_t node, const struct inet_packet *packet, const void *data,
		      size_t len);
int gateway_net_init(void) __must_check;
