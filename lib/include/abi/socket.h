/* SPDX-License-Identifier: MIT */
/* Sockets: Linux's <linux/socket.h>, <asm/socket.h>, <linux/net.h>, <linux/in.h>, <linux/un.h>. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

#define AF_UNSPEC  0
#define AF_UNIX    1
#define AF_INET    2
#define AF_INET6   10
#define AF_NETLINK 16
#define AF_PACKET  17
#define AF_ALG     38
#define AF_VSOCK   40
#define AF_MAX     46

#define SOCK_STREAM    1u
#define SOCK_DGRAM     2u
#define SOCK_RAW       3u
#define SOCK_RDM       4u
#define SOCK_SEQPACKET 5u

#define MSG_OOB          0x1u
#define MSG_PEEK         0x2u
#define MSG_DONTROUTE    0x4u
#define MSG_CTRUNC       0x8u
#define MSG_TRUNC        0x20u
#define MSG_DONTWAIT     0x40u
#define MSG_EOR          0x80u
#define MSG_WAITALL      0x100u
#define MSG_CONFIRM      0x800u
#define MSG_ERRQUEUE     0x2000u
#define MSG_NOSIGNAL     0x4000u
#define MSG_MORE         0x8000u
#define MSG_WAITFORONE   0x10000u
#define MSG_ZEROCOPY     0x4000000u
#define MSG_FASTOPEN     0x20000000u
#define MSG_CMSG_CLOEXEC 0x40000000u

/* shutdown() */
#define SHUT_RD   0u
#define SHUT_WR   1u
#define SHUT_RDWR 2u

#define SOMAXCONN 4096

/* setsockopt(), getsockopt() */
#define SOL_SOCKET  1
#define SOL_NETLINK 270

#define SO_DEBUG           1
#define SO_REUSEADDR       2
#define SO_TYPE            3
#define SO_ERROR           4
#define SO_DONTROUTE       5
#define SO_BROADCAST       6
#define SO_SNDBUF          7
#define SO_RCVBUF          8
#define SO_KEEPALIVE       9
#define SO_OOBINLINE       10
#define SO_NO_CHECK        11
#define SO_PRIORITY        12
#define SO_LINGER          13
#define SO_REUSEPORT       15
#define SO_PASSCRED        16
#define SO_PEERCRED        17
#define SO_RCVLOWAT        18
#define SO_SNDLOWAT        19
#define SO_RCVTIMEO_OLD    20
#define SO_SNDTIMEO_OLD    21
#define SO_BINDTODEVICE    25
#define SO_ATTACH_FILTER   26
#define SO_DETACH_FILTER   27
#define SO_PEERNAME        28
#define SO_TIMESTAMP_OLD   29
#define SO_ACCEPTCONN      30
#define SO_PEERSEC         31
#define SO_SNDBUFFORCE     32
#define SO_RCVBUFFORCE     33
#define SO_TIMESTAMPNS_OLD 35
#define SO_MARK            36
#define SO_PROTOCOL        38
#define SO_DOMAIN          39
#define SO_RXQ_OVFL        40
#define SO_PEEK_OFF        42
#define SO_INCOMING_CPU    49
#define SO_COOKIE          57
#define SO_PEERGROUPS      59
#define SO_ZEROCOPY        60
#define SO_TIMESTAMP_NEW   63
#define SO_TIMESTAMPNS_NEW 64
#define SO_RCVTIMEO_NEW    66
#define SO_SNDTIMEO_NEW    67

/* Ancillary data. */
#define SCM_RIGHTS       1
#define SCM_CREDENTIALS  2
#define LINUX_SCM_MAX_FD 253u

#define LINUX_SOCKADDR_MAX 128u
#define LINUX_UNIX_PATH    108u

struct linux_sockaddr_un {
	uint16_t family;
	char path[LINUX_UNIX_PATH];
};

/* Ports and addresses are in network order. */
struct linux_sockaddr_in {
	uint16_t family;
	uint16_t port;
	uint32_t addr;
	uint8_t zero[8];
};
static_assert(sizeof(struct linux_sockaddr_in) == 16, "struct sockaddr_in is ABI");

struct linux_sockaddr_in6 {
	uint16_t family;
	uint16_t port;
	uint32_t flowinfo;
	uint8_t addr[16];
	uint32_t scope_id;
};
static_assert(sizeof(struct linux_sockaddr_in6) == 28, "struct sockaddr_in6 is ABI");

struct linux_sockaddr_nl {
	uint16_t family;
	uint16_t pad;
	uint32_t pid;
	uint32_t groups;
};
static_assert(sizeof(struct linux_sockaddr_nl) == 12, "struct sockaddr_nl is ABI");

struct linux_msghdr {
	uint64_t name;
	uint32_t namelen;
	uint32_t pad1;
	uint64_t iov;
	uint64_t iovlen;
	uint64_t control;
	uint64_t controllen;
	uint32_t flags;
	uint32_t pad2;
};
static_assert(sizeof(struct linux_msghdr) == 56, "struct msghdr is ABI");

struct linux_mmsghdr {
	struct linux_msghdr hdr;
	uint32_t len;
	uint32_t pad;
};
static_assert(sizeof(struct linux_mmsghdr) == 64, "struct mmsghdr is ABI");

struct linux_cmsghdr {
	uint64_t len; /* with this header */
	int32_t level;
	int32_t type;
};
static_assert(sizeof(struct linux_cmsghdr) == 16, "struct cmsghdr is ABI");

struct linux_ucred {
	uint32_t pid, uid, gid;
};

struct linux_linger {
	int32_t onoff;
	int32_t linger;
};
