/* SPDX-License-Identifier: MIT */
/*
 * Packets of IP as raw sockets see them: headers, sums, and the answer to an echo request.
 *
 * Context:	any; nothing here waits or keeps anything.
 */
#pragma once

#include "inet_private.h"

#define IP4_HEADER 20u /* without options */
#define IP6_HEADER 40u
#define IP_MAX     65535u
#define ICMP_HEAD  8u

/* One packet, which lies in memory of somebody else's. */
struct ip_packet {
	bool six;
	uint8_t protocol;
	const uint8_t *bytes;    /* IPv4: from its header on; IPv6: what follows the headers */
	size_t len;              /* IP_MAX at most */
	struct inet_packet head; /* without ports */
};

/* The sum of RFC 1071 over @len bytes, going on from @sum; and its end: 0 if a sum was right. */
uint32_t ip_sum(const void *data, size_t len, uint32_t sum);
uint16_t ip_sum_end(uint32_t sum);
/* The addresses and the length are part of the sum of @protocol over IPv6: this is theirs. */
uint32_t ip6_pseudo_sum(const uint8_t from[16], const uint8_t to[16], size_t len, uint8_t protocol);
void ip_put16(uint8_t *at, uint16_t value);

/* The bytes that @p carries. False: it is shorter than its header says. */
bool ip_payload(const struct ip_packet *p, const uint8_t **data, size_t *len) __must_check;
/* A header of IPv4, without options, in front of a packet of @total bytes with it. */
void ip4_header_write(uint8_t h[IP4_HEADER], size_t total, const struct ip_packet *p);
/*
 * Check and complete the header that a program has written, of a packet of @len bytes to @to which
 * the system would send from @from: length, sum, and number and source if they are 0, of IPv4; the
 * length of IPv6. -EINVAL: it is wrong, or for another destination. @source: what it says.
 */
int ip4_header_finish(uint8_t *h, size_t len, const uint8_t from[16], const uint8_t to[16],
		      uint8_t source[16]) __must_check;
int ip6_header_finish(uint8_t *h, size_t len, const uint8_t to[16], uint8_t source[16])
	__must_check;
/* Is a packet of IPv4 a part of a longer one? */
bool ip4_is_fragment(const uint8_t h[IP4_HEADER]);

/* ICMP of the version of IP. */
static inline bool ip_is_icmp(const struct ip_packet *p)
{
	return p->protocol == (p->six ? 58 : 1);
}
/* The identifier of an echo request, or of a reply with @reply; -1: @p is none, or damaged. */
int icmp_echo_id(const struct ip_packet *p, bool reply);
/*
 * The answer to request @p, for which icmp_echo_id() has told an identifier: in @buf of p->len
 * bytes, as *@out.
 */
void icmp_echo_answer(const struct ip_packet *p, uint8_t *buf, struct ip_packet *out);
