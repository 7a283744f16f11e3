/* SPDX-License-Identifier: MIT */
/*
 * Datagrams of AF_INET and AF_INET6: what lies around their bytes.
 */
#pragma once

#include <lib/types.h>

/* An address and a port. IPv4 is kept as ::ffff:a.b.c.d. */
struct inet_name {
	uint8_t addr[16];  /* network order */
	uint16_t port;     /* host order */
	uint32_t scope_id; /* of link-local addresses */
};

/* The header of a datagram that came, or that is to be sent. */
struct inet_packet {
	struct inet_name from, to;
	uint32_t interface; /* by which it came; of one to be sent: 0: the system's choice */
	uint32_t drops;     /* received: datagrams that the socket had lost before */
	uint8_t ttl, tos;   /* hop limit and traffic class of IPv6 */
};

enum inet_wish_bits {
	INET_WISH_FROM = 1, /* the address may be any: then the interface alone */
	INET_WISH_TTL = 2,
	INET_WISH_TOS = 4,
};

/* Wishes of sendmsg() for the packet of one datagram, by ancillary data. */
struct inet_wish {
	uint32_t has; /* enum inet_wish_bits */
	uint32_t interface;
	uint8_t from[16];
	uint8_t ttl, tos;
};
