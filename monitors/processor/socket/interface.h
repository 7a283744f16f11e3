/* SPDX-License-Identifier: MIT */
/*
 * The network interfaces, addresses and routes that programs see: the loopback, which is always
 * there, and the cards of the network stack.
 */
#pragma once

#include "inet.h"

#define LOOPBACK_INDEX 1u

/* The @i-th, the loopback first; false: there are no more. Sleeps. */
bool inet_interface_at(unsigned int i, struct inet_interface *out);
/*
 * The @i-th route of the main table, as `ip route` and /proc/net/route list them; false: there are
 * no more. The loopback has none there. Sleeps.
 */
bool inet_route_at(unsigned int i, struct inet_route *out);
/* The mask of a prefix of IPv4, as its bytes in memory are in network order. */
static inline uint32_t inet_mask4(unsigned int prefix)
{
	return prefix ? __builtin_bswap32(~0u << (32 - prefix)) : 0;
}
