/* SPDX-License-Identifier: MIT */
/* Errors of packets that were sent: Linux's <linux/errqueue.h>, <linux/icmp.h>, icmpv6.h. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

#define SO_EE_ORIGIN_LOCAL 1
#define SO_EE_ORIGIN_ICMP  2
#define SO_EE_ORIGIN_ICMP6 3

struct linux_sock_extended_err {
	uint32_t err;
	uint8_t origin, type, code, pad;
	uint32_t info, data;
};
static_assert(sizeof(struct linux_sock_extended_err) == 16, "struct sock_extended_err is ABI");

#define ICMP_DEST_UNREACH  3
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETERPROB 12
#define ICMP_PORT_UNREACH  3
#define ICMP_FRAG_NEEDED   4

#define ICMPV6_DEST_UNREACH 1
#define ICMPV6_PKT_TOOBIG   2
#define ICMPV6_TIME_EXCEED  3
#define ICMPV6_PARAMPROB    4
#define ICMPV6_PORT_UNREACH 4
