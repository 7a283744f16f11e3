/* SPDX-License-Identifier: MIT */
/*
 * Netlink and its route family: <linux/netlink.h>, <linux/rtnetlink.h>, <linux/if_link.h>,
 * <linux/if_addr.h>. All numbers are in host order but addresses.
 */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

#define NETLINK_ROUTE 0

#define NLM_F_REQUEST 0x1u
#define NLM_F_MULTI   0x2u
#define NLM_F_ACK     0x4u
#define NLM_F_DUMP    0x300u
#define NLM_F_CAPPED  0x100u /* of an error: the request is not repeated in it */

#define NLMSG_ERROR    2
#define NLMSG_DONE     3
#define NLMSG_MIN_TYPE 16

struct linux_nlmsghdr {
	uint32_t len; /* with this header, without padding */
	uint16_t type;
	uint16_t flags;
	uint32_t seq;
	uint32_t pid;
};
static_assert(sizeof(struct linux_nlmsghdr) == 16, "struct nlmsghdr is ABI");

struct linux_nlmsgerr {
	int32_t error; /* 0 or negative */
	struct linux_nlmsghdr msg;
};
static_assert(sizeof(struct linux_nlmsgerr) == 20, "struct nlmsgerr is ABI");

/* Options of SOL_NETLINK. */
#define NETLINK_ADD_MEMBERSHIP   1
#define NETLINK_DROP_MEMBERSHIP  2
#define NETLINK_PKTINFO          3
#define NETLINK_BROADCAST_ERROR  4
#define NETLINK_NO_ENOBUFS       5
#define NETLINK_LIST_MEMBERSHIPS 9
#define NETLINK_CAP_ACK          10
#define NETLINK_EXT_ACK          11
#define NETLINK_GET_STRICT_CHK   12

/* Of four types that follow each other the third asks; the others change something. */
#define RTM_BASE     16
#define RTM_NEWLINK  16
#define RTM_GETLINK  18
#define RTM_NEWADDR  20
#define RTM_GETADDR  22
#define RTM_NEWROUTE 24
#define RTM_GETROUTE 26

struct linux_rtattr {
	uint16_t len; /* with this header, without padding */
	uint16_t type;
};
static_assert(sizeof(struct linux_rtattr) == 4, "struct rtattr is ABI");

struct linux_ifinfomsg {
	uint8_t family;
	uint8_t pad;
	uint16_t type; /* ARPHRD_* */
	int32_t index;
	uint32_t flags; /* IFF_* */
	uint32_t change;
};
static_assert(sizeof(struct linux_ifinfomsg) == 16, "struct ifinfomsg is ABI");

#define IFLA_ADDRESS       1
#define IFLA_BROADCAST     2
#define IFLA_IFNAME        3
#define IFLA_MTU           4
#define IFLA_QDISC         6
#define IFLA_STATS         7
#define IFLA_TXQLEN        13
#define IFLA_OPERSTATE     16
#define IFLA_LINKMODE      17
#define IFLA_STATS64       23
#define IFLA_GROUP         27
#define IFLA_PROMISCUITY   30
#define IFLA_NUM_TX_QUEUES 31
#define IFLA_NUM_RX_QUEUES 32
#define IFLA_CARRIER       33
#define IFLA_ALT_IFNAME    53

#define IF_OPER_UNKNOWN 0
#define IF_OPER_DOWN    2
#define IF_OPER_UP      6

/* The beginning of struct rtnl_link_stats64; the older structure has 32 bits for each. */
struct linux_link_stats64 {
	uint64_t rx_packets, tx_packets;
	uint64_t rx_bytes, tx_bytes;
	uint64_t rx_errors, tx_errors;
	uint64_t rx_dropped, tx_dropped;
	uint64_t more[17]; /* of Linux 6.1; collisions and kinds of errors */
};
static_assert(sizeof(struct linux_link_stats64) == 200, "struct rtnl_link_stats64 is ABI");

struct linux_link_stats {
	uint32_t rx_packets, tx_packets;
	uint32_t rx_bytes, tx_bytes;
	uint32_t rx_errors, tx_errors;
	uint32_t rx_dropped, tx_dropped;
	uint32_t more[16];
};
static_assert(sizeof(struct linux_link_stats) == 96, "struct rtnl_link_stats is ABI");

struct linux_ifaddrmsg {
	uint8_t family;
	uint8_t prefixlen;
	uint8_t flags;
	uint8_t scope; /* RT_SCOPE_* */
	uint32_t index;
};
static_assert(sizeof(struct linux_ifaddrmsg) == 8, "struct ifaddrmsg is ABI");

#define IFA_F_PERMANENT 0x80u

#define IFA_ADDRESS   1
#define IFA_LOCAL     2
#define IFA_LABEL     3
#define IFA_BROADCAST 4
#define IFA_CACHEINFO 6
#define IFA_FLAGS     8

struct linux_ifa_cacheinfo {
	uint32_t prefered, valid; /* seconds; UINT32_MAX: for ever */
	uint32_t cstamp, tstamp;
};
static_assert(sizeof(struct linux_ifa_cacheinfo) == 16, "struct ifa_cacheinfo is ABI");

struct linux_rtmsg {
	uint8_t family;
	uint8_t dst_len, src_len;
	uint8_t tos;
	uint8_t table;    /* RT_TABLE_* */
	uint8_t protocol; /* RTPROT_* */
	uint8_t scope;
	uint8_t type; /* RTN_* */
	uint32_t flags;
};
static_assert(sizeof(struct linux_rtmsg) == 12, "struct rtmsg is ABI");

#define RTM_F_CLONED 0x200u

#define RTN_UNICAST 1
#define RTN_LOCAL   2

#define RTPROT_UNSPEC 0
#define RTPROT_KERNEL 2
#define RTPROT_RA     9
#define RTPROT_DHCP   16

#define RT_TABLE_UNSPEC 0
#define RT_TABLE_MAIN   254
#define RT_TABLE_LOCAL  255

#define RTA_DST      1
#define RTA_OIF      4
#define RTA_GATEWAY  5
#define RTA_PRIORITY 6
#define RTA_PREFSRC  7
#define RTA_TABLE    15
