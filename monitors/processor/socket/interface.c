/* SPDX-License-Identifier: MIT */
/*
 * Interfaces and routes: see interface.h.
 *
 * Limits:	the loopback carries no packets, so its counters stay 0.
 */
#include "interface.h"

#include <abi/net.h>
#include <abi/socket.h>
#include <lib/string.h>
#include <net/tcpip.h>

#include "gateway.h"

#define LOOPBACK_MTU 65536u
#define PREFIX6      64u /* of every address that a card takes */

static void loopback(struct inet_interface *out)
{
	memset(out, 0, sizeof(*out));
	strlcpy(out->name, "lo", sizeof(out->name));
	out->index = LOOPBACK_INDEX;
	out->mtu = LOOPBACK_MTU;
	out->flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING;
	out->addr4[0] = 127;
	out->addr4[3] = 1;
	out->prefix4 = 8;
	out->nr_addr6 = 1;
	out->addr6[0].addr[15] = 1;
	out->addr6[0].prefix = 128;
	out->addr6[0].scope = RT_SCOPE_HOST;
}

static void card(const struct tcpip_interface *in, struct inet_interface *out)
{
	memset(out, 0, sizeof(*out));
	strlcpy(out->name, in->name, sizeof(out->name));
	out->index = in->index;
	out->mtu = in->mtu;
	out->flags = IFF_UP | IFF_BROADCAST | IFF_MULTICAST | (in->up ? IFF_RUNNING : 0);
	memcpy(out->mac, in->mac, sizeof(out->mac));
	memcpy(out->addr4, in->addr4, sizeof(out->addr4));
	out->prefix4 = in->prefix4;
	for (uint32_t i = 0; i < in->nr_addr6 && out->nr_addr6 < ARRAY_SIZE(out->addr6); i++) {
		const bool link_local = in->addr6[i][0] == 0xfe && (in->addr6[i][1] & 0xc0) == 0x80;

		memcpy(out->addr6[out->nr_addr6].addr, in->addr6[i], 16);
		out->addr6[out->nr_addr6].prefix = PREFIX6;
		out->addr6[out->nr_addr6].scope = link_local ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
		out->nr_addr6++;
	}
	out->rx_bytes = in->rx_bytes;
	out->rx_packets = in->rx_packets;
	out->rx_drops = in->rx_drops;
	out->tx_bytes = in->tx_bytes;
	out->tx_packets = in->tx_packets;
	out->tx_drops = in->tx_drops;
}

bool inet_interface_at(unsigned int i, struct inet_interface *out)
{
	struct tcpip_interface in;

	if (i == 0) {
		loopback(out);
		return true;
	}
	if (!gateway_interface(i - 1, &in))
		return false;
	card(&in, out);
	return true;
}

/* The default route of a card (@which 0) and that of its network (1). */
static bool card_route4(const struct tcpip_interface *in, unsigned int which,
			struct inet_route *out)
{
	static const uint8_t none[4];

	if (!in->prefix4 || (which == 0 && !memcmp(in->gateway4, none, 4)))
		return false;
	out->family = AF_INET;
	if (which == 0) {
		memcpy(out->gateway, in->gateway4, 4);
	} else {
		uint32_t addr;

		memcpy(&addr, in->addr4, 4);
		addr &= inet_mask4(in->prefix4);
		memcpy(out->dst, &addr, 4);
		out->prefix = in->prefix4;
	}
	return true;
}

/* The network of the @which-th IPv6 address, unless an earlier one is on it as well. */
static bool card_route6(const struct tcpip_interface *in, unsigned int which,
			struct inet_route *out)
{
	for (unsigned int i = 0; i < which; i++) {
		if (!memcmp(in->addr6[i], in->addr6[which], PREFIX6 / 8))
			return false;
	}
	out->family = AF_INET6;
	memcpy(out->dst, in->addr6[which], PREFIX6 / 8);
	out->prefix = PREFIX6;
	return true;
}

/* By the router that has advertised itself. */
static bool card_default6(const struct tcpip_interface *in, struct inet_route *out)
{
	static const uint8_t none[16];

	if (!memcmp(in->gateway6, none, 16))
		return false;
	out->family = AF_INET6;
	memcpy(out->gateway, in->gateway6, 16);
	return true;
}

/* The @which-th of a card: those of IPv4, then of IPv6. */
static bool card_route(const struct tcpip_interface *in, unsigned int which, struct inet_route *out)
{
	if (which < 2)
		return card_route4(in, which, out);
	if (which < 2 + in->nr_addr6)
		return card_route6(in, which - 2, out);
	return card_default6(in, out);
}

bool inet_route_at(unsigned int i, struct inet_route *out)
{
	struct tcpip_interface in;

	for (unsigned int c = 0; gateway_interface(c, &in); c++) {
		for (unsigned int which = 0; which <= 2 + in.nr_addr6; which++) {
			memset(out, 0, sizeof(*out));
			out->interface = in.index;
			if (card_route(&in, which, out) && i-- == 0)
				return true;
		}
	}
	return false;
}
