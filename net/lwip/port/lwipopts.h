/* SPDX-License-Identifier: MIT */
/*
 * lwIP's options. It runs without threads of its own ("no system"): our lock around every call,
 * our thread for its timers, its raw interface under our sockets.
 *
 * Limits:	memory comes from lwip_alloc() (stack.c), which bounds all of it; counts of lwIP's
 *		own pools mean nothing then.
 */
#pragma once

#define NO_SYS               1
#define SYS_LIGHTWEIGHT_PROT 0 /* every call is under the stack's lock */
#define LWIP_NETCONN         0
#define LWIP_SOCKET          0
#define LWIP_STATS           0
#define LWIP_TIMERS          1

/* Memory. */
#define MEM_LIBC_MALLOC          1
#define MEMP_MEM_MALLOC          1
#define MEM_ALIGNMENT            8
#define mem_clib_malloc          lwip_alloc
#define mem_clib_calloc          lwip_calloc
#define mem_clib_free            lwip_free
#define PBUF_POOL_BUFSIZE        1536
#define LWIP_SUPPORT_CUSTOM_PBUF 1

/* Protocols. */
#define IP_DEFAULT_TTL                 64 /* as Linux */
#define LWIP_IPV4                      1
#define LWIP_IPV6                      1
#define LWIP_ETHERNET                  1
#define LWIP_ARP                       1
#define ETHARP_SUPPORT_STATIC_ENTRIES  0
#define ARP_TABLE_SIZE                 64
#define ARP_QUEUEING                   1
#define LWIP_ICMP                      1
#define LWIP_ICMP6                     1
#define LWIP_RAW                       1
#define LWIP_UDP                       1
#define LWIP_TCP                       1
#define LWIP_DHCP                      1
#define LWIP_DHCP_DOES_ACD_CHECK       0
#define DHCP_DOES_ARP_CHECK            0 /* it would delay the first address by a second */
#define LWIP_DNS                       0
#define LWIP_IGMP                      1
#define LWIP_IPV6_MLD                  1
#define LWIP_IPV6_AUTOCONFIG           1
#define LWIP_IPV6_SEND_ROUTER_SOLICIT  1
#define LWIP_IPV6_NUM_ADDRESSES        4
#define LWIP_ND6_NUM_NEIGHBORS         64
#define LWIP_ND6_NUM_DESTINATIONS      64
#define LWIP_ND6_MAX_MULTICAST_SOLICIT 3
#define LWIP_MULTICAST_TX_OPTIONS      1
#define IP_REASSEMBLY                  1
#define IP_FRAG                        1
#define IP_REASS_MAX_PBUFS             128
#define LWIP_IPV6_REASS                1
#define LWIP_IPV6_FRAG                 1
#define IPV6_FRAG_COPYHEADER           1 /* pointers are wider than the header has room for */
#define IP_SOF_BROADCAST               1
#define IP_SOF_BROADCAST_RECV          1
#define SO_REUSE                       1

/* Names of interfaces' states. */
#define LWIP_NETIF_HOSTNAME          1
#define LWIP_NETIF_STATUS_CALLBACK   1
#define LWIP_NETIF_LOOPBACK          0
#define LWIP_HAVE_LOOPIF             0
#define LWIP_CHECKSUM_CTRL_PER_NETIF 1

#ifdef __TESSERA_FUZZ__ /* a fuzzer does not guess checksums */
# define CHECKSUM_CHECK_IP    0
# define CHECKSUM_CHECK_UDP   0
# define CHECKSUM_CHECK_TCP   0
# define CHECKSUM_CHECK_ICMP  0
# define CHECKSUM_CHECK_ICMP6 0
#endif

/* TCP. */
#define TCP_MSS                    1460
#define LWIP_WND_SCALE             1
#define TCP_RCV_SCALE              4
#define TCP_WND                    (512 * 1024)
#define TCP_SND_BUF                (512 * 1024)
#define TCP_SND_QUEUELEN           (4 * TCP_SND_BUF / TCP_MSS)
#define TCP_SNDLOWAT               32768
#define TCP_SNDQUEUELOWAT          (TCP_SND_QUEUELEN / 2)
#define TCP_QUEUE_OOSEQ            1
#define TCP_OOSEQ_MAX_BYTES        TCP_WND
#define TCP_LISTEN_BACKLOG         1
#define LWIP_TCP_SACK_OUT          1
#define LWIP_TCP_MAX_SACK_NUM      4
#define LWIP_TCP_TIMESTAMPS        1
#define LWIP_TCP_KEEPALIVE         1
#define TCP_OVERSIZE               TCP_MSS
#define TCP_SYNMAXRTX              12 /* a connection may have fewer: tcp.c */
#define TCP_MAXRTX                 12
#define LWIP_TCP_PCB_NUM_EXT_ARGS  1
#define MEMP_NUM_TCP_PCB           65535 /* bounded by memory */
#define TCP_DEFAULT_LISTEN_BACKLOG 128

/* A peer cannot guess where a connection's numbers begin (RFC 6528). */
#define LWIP_HOOK_FILENAME "lwip_hooks.h"
#define LWIP_HOOK_TCP_ISN  lwip_tcp_isn

#define LWIP_ASSERT_CORE_LOCKED() lwip_assert_locked()
