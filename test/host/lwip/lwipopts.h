/* SPDX-License-Identifier: MIT */
/*
 * The options of lwIP's own unit tests: ours, with what these tests look at in addition. Numbers of
 * bytes are theirs, as the tests fill whole windows and buffers with segments of known lengths.
 */
#pragma once

#include "../../../net/lwip/port/lwipopts.h"

/* Counts that the tests compare. */
#undef LWIP_STATS
#define LWIP_STATS 1
#define MEM_STATS  1
#define MEMP_STATS 1
#define MIB2_STATS 1

/* Functions that they call, and the interface that they send to. */
#undef LWIP_NETIF_LOOPBACK
#define LWIP_NETIF_LOOPBACK 1
#undef LWIP_HAVE_LOOPIF
#define LWIP_HAVE_LOOPIF 1
#undef IP_SOF_BROADCAST_RECV /* their sockets do not ask for it */
#undef ETHARP_SUPPORT_STATIC_ENTRIES
#define ETHARP_SUPPORT_STATIC_ENTRIES  1
#define LWIP_NETIF_EXT_STATUS_CALLBACK 1
#define LWIP_TESTMODE                  1

/* Sizes. */
#undef TCP_MSS
#define TCP_MSS 536
#undef TCP_RCV_SCALE
#define TCP_RCV_SCALE 0
#undef TCP_WND
#define TCP_WND (10 * TCP_MSS)
#undef PBUF_POOL_BUFSIZE
#undef TCP_OOSEQ_MAX_BYTES /* their test of a bound does not build without one of packets */
#undef TCP_SND_BUF
#define TCP_SND_BUF (12 * TCP_MSS)
#undef TCP_SND_QUEUELEN
#define TCP_SND_QUEUELEN 40
#undef TCP_SNDLOWAT
#define TCP_SNDLOWAT (TCP_SND_BUF / 2)

/* Packets that they count, and the numbers that they begin with. */
#undef DHCP_DOES_ARP_CHECK
#undef LWIP_HOOK_TCP_ISN
