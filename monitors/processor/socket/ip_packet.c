/* SPDX-License-Identifier: MIT */
/*
 * Packets of IP as raw sockets see them.
 *
 * Limits:	an answer to an echo request has no IP options.
 */
#include "ip_packet.h"

#include <abi/in.h>
#include <kernel/panic.h>
#include <kernel/random.h>
#include <lib/errno.h>
#include <lib/string.h>

#define DONT_FRAGMENT 0x4000u
#define FRAGMENT_MASK 0x3fffu /* more of them, and the offset */

/* --- sums ---------------------------------------------------------------------------- */

uint32_t ip_sum(const void *data, size_t len, uint32_t sum)
{
	const uint8_t *p = data;

	ASSERT(len <= IP_MAX);
	for (; len > 1; len -= 2, p += 2)
		sum += (uint32_t)(p[0] << 8 | p[1]);
	return len ? sum + (uint32_t)(p[0] << 8) : sum;
}

uint16_t ip_sum_end(uint32_t sum)
{
	sum = (sum >> 16) + (sum & 0xffff);
	return (uint16_t)~(sum + (sum >> 16));
}

uint32_t ip6_pseudo_sum(const uint8_t from[16], const uint8_t to[16], size_t len, uint8_t protocol)
{
	return ip_sum(to, 16, ip_sum(from, 16, (uint32_t)len + protocol));
}

void ip_put16(uint8_t *at, uint16_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static uint32_t get16(const uint8_t *at)
{
	return (uint32_t)(at[0] << 8 | at[1]);
}

/* --- headers ------------------------------------------------------------------------- */

static size_t header_len(const uint8_t *h)
{
	return (size_t)(h[0] & 15) * 4;
}

bool ip_payload(const struct ip_packet *p, const uint8_t **data, size_t *len)
{
	size_t skip = 0;

	if (!p->six) {
		if (p->len < IP4_HEADER)
			return false;
		skip = header_len(p->bytes);
		if (skip < IP4_HEADER || skip > p->len)
			return false;
	}
	*data = p->bytes + skip;
	*len = p->len - skip;
	return true;
}

void ip4_header_write(uint8_t h[IP4_HEADER], size_t total, const struct ip_packet *p)
{
	ASSERT(total >= IP4_HEADER && total <= IP_MAX);
	memset(h, 0, IP4_HEADER);
	h[0] = 0x45;
	h[1] = p->head.tos;
	ip_put16(h + 2, (uint16_t)total);
	ip_put16(h + 4, (uint16_t)random_u64());
	ip_put16(h + 6, DONT_FRAGMENT);
	h[8] = p->head.ttl;
	h[9] = p->protocol;
	memcpy(h + 12, p->head.from.addr + 12, 4);
	memcpy(h + 16, p->head.to.addr + 12, 4);
	ip_put16(h + 10, ip_sum_end(ip_sum(h, IP4_HEADER, 0)));
}

int ip4_header_finish(uint8_t *h, size_t len, const uint8_t from[16], const uint8_t to[16],
		      uint8_t source[16])
{
	if (len < IP4_HEADER || len > IP_MAX || h[0] >> 4 != 4 || header_len(h) < IP4_HEADER ||
	    header_len(h) > len || memcmp(h + 16, to + 12, 4))
		return -EINVAL;
	ip_put16(h + 2, (uint16_t)len);
	if (!get16(h + 4))
		ip_put16(h + 4, (uint16_t)random_u64());
	if (inet_is_zero(h + 12, 4))
		memcpy(h + 12, from + 12, 4);
	inet_map_v4(h + 12, source);
	ip_put16(h + 10, 0);
	ip_put16(h + 10, ip_sum_end(ip_sum(h, header_len(h), 0)));
	return 0;
}

int ip6_header_finish(uint8_t *h, size_t len, const uint8_t to[16], uint8_t source[16])
{
	if (len < IP6_HEADER || len > IP_MAX || h[0] >> 4 != 6 || memcmp(h + 24, to, 16))
		return -EINVAL;
	ip_put16(h + 4, (uint16_t)(len - IP6_HEADER));
	memcpy(source, h + 8, 16);
	return 0;
}

bool ip4_is_fragment(const uint8_t h[IP4_HEADER])
{
	return get16(h + 6) & FRAGMENT_MASK;
}

/* --- echo ---------------------------------------------------------------------------- */

/* The sum of what @p carries, with what belongs to it: 0 if it is right. */
static uint16_t icmp_sum(const struct ip_packet *p, const uint8_t *data, size_t len)
{
	const uint32_t begin =
		p->six ? ip6_pseudo_sum(p->head.from.addr, p->head.to.addr, len, p->protocol) : 0;

	return ip_sum_end(ip_sum(data, len, begin));
}

int icmp_echo_id(const struct ip_packet *p, bool reply)
{
	const uint8_t type = p->six ? (reply ? ICMPV6_ECHO_REPLY : ICMPV6_ECHO_REQUEST)
				    : (reply ? ICMP_ECHOREPLY : ICMP_ECHO);
	const uint8_t *data;
	size_t len;

	if (!ip_is_icmp(p) || !ip_payload(p, &data, &len) || len < ICMP_HEAD || data[0] != type ||
	    data[1] != 0 || icmp_sum(p, data, len))
		return -1;
	return (int)get16(data + 4);
}

void icmp_echo_answer(const struct ip_packet *p, uint8_t *buf, struct ip_packet *out)
{
	const size_t room = p->six ? 0 : IP4_HEADER;
	const uint8_t *data = NULL;
	size_t len = 0;
	const bool right = ip_payload(p, &data, &len);

	ASSERT(right && len >= ICMP_HEAD && room + len <= p->len);
	*out = *p;
	out->head.from = p->head.to;
	out->head.to = p->head.from;
	out->head.ttl = INET_HOPS;
	out->bytes = buf;
	out->len = room + len;
	if (!p->six)
		ip4_header_write(buf, out->len, out);
	memcpy(buf + room, data, len);
	buf[room] = p->six ? ICMPV6_ECHO_REPLY : ICMP_ECHOREPLY;
	ip_put16(buf + room + 2, 0);
	ip_put16(buf + room + 2, icmp_sum(out, buf + room, len));
}
