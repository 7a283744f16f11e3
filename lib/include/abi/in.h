/* SPDX-License-Identifier: MIT */
/* Internet sockets: Linux's <linux/in.h>, <linux/in6.h>, <linux/tcp.h>. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

#define SOL_IP     0
#define SOL_TCP    6
#define SOL_UDP    17
#define SOL_IPV6   41
#define SOL_ICMPV6 58
#define SOL_RAW    255

#define IPPROTO_ICMP   1
#define IPPROTO_ICMPV6 58
#define IPPROTO_RAW    255

/* Of SOL_ICMPV6; a set bit keeps the type out. */
#define ICMPV6_FILTER 1

#define ICMP_ECHOREPLY      0
#define ICMP_ECHO           8
#define ICMPV6_ECHO_REQUEST 128
#define ICMPV6_ECHO_REPLY   129

#define IP_TOS                  1
#define IP_TTL                  2
#define IP_HDRINCL              3
#define IP_OPTIONS              4
#define IP_RECVOPTS             6
#define IP_PKTINFO              8
#define IP_MTU_DISCOVER         10
#define IP_PMTUDISC_DONT        0
#define IP_PMTUDISC_DO          2
#define IP_PMTUDISC_PROBE       3
#define IP_RECVERR              11
#define IP_RECVTTL              12
#define IP_RECVTOS              13
#define IP_MTU                  14
#define IP_FREEBIND             15
#define IP_TRANSPARENT          19
#define IP_RECVORIGDSTADDR      20
#define IP_BIND_ADDRESS_NO_PORT 24
#define IP_MULTICAST_IF         32
#define IP_MULTICAST_TTL        33
#define IP_MULTICAST_LOOP       34
#define IP_ADD_MEMBERSHIP       35
#define IP_DROP_MEMBERSHIP      36

#define IP_UNBLOCK_SOURCE         37
#define IP_BLOCK_SOURCE           38
#define IP_ADD_SOURCE_MEMBERSHIP  39
#define IP_DROP_SOURCE_MEMBERSHIP 40
#define IP_MULTICAST_ALL          49

/* Of IPv4 and of IPv6. */
#define MCAST_JOIN_GROUP         42
#define MCAST_BLOCK_SOURCE       43
#define MCAST_UNBLOCK_SOURCE     44
#define MCAST_LEAVE_GROUP        45
#define MCAST_JOIN_SOURCE_GROUP  46
#define MCAST_LEAVE_SOURCE_GROUP 47

#define IPV6_CHECKSUM        7
#define IPV6_UNICAST_HOPS    16
#define IPV6_MULTICAST_IF    17
#define IPV6_MULTICAST_HOPS  18
#define IPV6_MULTICAST_LOOP  19
#define IPV6_ADD_MEMBERSHIP  20
#define IPV6_DROP_MEMBERSHIP 21
#define IPV6_MTU_DISCOVER    23
#define IPV6_MTU             24
#define IPV6_RECVERR         25
#define IPV6_V6ONLY          26
#define IPV6_MULTICAST_ALL   29
#define IPV6_HDRINCL         36
#define IPV6_RECVPKTINFO     49
#define IPV6_PKTINFO         50
#define IPV6_RECVHOPLIMIT    51
#define IPV6_HOPLIMIT        52
#define IPV6_RECVTCLASS      66
#define IPV6_TCLASS          67
#define IPV6_RECVORIGDSTADDR 74
#define IPV6_FREEBIND        78

#define UDP_CORK 1

#define TCP_NODELAY       1
#define TCP_MAXSEG        2
#define TCP_CORK          3
#define TCP_KEEPIDLE      4
#define TCP_KEEPINTVL     5
#define TCP_KEEPCNT       6
#define TCP_SYNCNT        7
#define TCP_LINGER2       8
#define TCP_DEFER_ACCEPT  9
#define TCP_WINDOW_CLAMP  10
#define TCP_INFO          11
#define TCP_QUICKACK      12
#define TCP_CONGESTION    13
#define TCP_USER_TIMEOUT  18
#define TCP_FASTOPEN      23
#define TCP_NOTSENT_LOWAT 25

enum linux_tcp_state {
	LINUX_TCP_ESTABLISHED = 1,
	LINUX_TCP_SYN_SENT = 2,
	LINUX_TCP_FIN_WAIT2 = 5,
	LINUX_TCP_CLOSE = 7,
	LINUX_TCP_CLOSE_WAIT = 8,
	LINUX_TCP_LISTEN = 10,
};

#define TCPI_OPT_TIMESTAMPS 1u
#define TCPI_OPT_WSCALE     4u

/* As the C library has it; Linux's own structure goes on. */
struct linux_tcp_info {
	uint8_t state, ca_state, retransmits, probes, backoff;
	uint8_t options; /* TCPI_OPT_* */
	uint8_t wscale;  /* 4 bits each: of the sender, of the receiver */
	uint8_t flags;
	uint32_t rto, ato, snd_mss, rcv_mss;
	uint32_t unacked, sacked, lost, retrans, fackets;
	uint32_t last_data_sent, last_ack_sent, last_data_recv, last_ack_recv;
	uint32_t pmtu, rcv_ssthresh, rtt, rttvar, snd_ssthresh, snd_cwnd, advmss, reordering;
	uint32_t rcv_rtt, rcv_space, total_retrans;
};
static_assert(sizeof(struct linux_tcp_info) == 104, "struct tcp_info is ABI");

struct linux_ip_mreqn {
	uint32_t multiaddr, address; /* network order */
	int32_t ifindex;
};
static_assert(sizeof(struct linux_ip_mreqn) == 12, "struct ip_mreqn is ABI");

/* An older form of the same, of the first two fields. */
#define LINUX_IP_MREQ_SIZE 8u

struct linux_ip_mreq_source {
	uint32_t multiaddr, interface, sourceaddr; /* network order */
};
static_assert(sizeof(struct linux_ip_mreq_source) == 12, "struct ip_mreq_source is ABI");

struct linux_ipv6_mreq {
	uint8_t multiaddr[16];
	int32_t ifindex;
};
static_assert(sizeof(struct linux_ipv6_mreq) == 20, "struct ipv6_mreq is ABI");

/* Names as struct sockaddr_storage. */
struct linux_group_source_req {
	uint32_t interface;
	uint32_t pad;
	uint8_t group[128];
	uint8_t source[128];
};
static_assert(sizeof(struct linux_group_source_req) == 264, "struct group_source_req is ABI");

/* struct group_req: the same without the source. */
#define LINUX_GROUP_REQ_SIZE 136u

struct linux_in_pktinfo {
	uint32_t ifindex;
	uint32_t spec_dst, addr; /* network order */
};

struct linux_in6_pktinfo {
	uint8_t addr[16];
	uint32_t ifindex;
};
