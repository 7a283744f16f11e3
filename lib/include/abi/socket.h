/* SPDX-License-Identifier: MIT */
/* Sockets: Linux's <linux/socket.h>, <asm/socket.h>, <linux/net.h>. */
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

#define SOCK_STREAM    1u
#define SOCK_DGRAM     2u
#define SOCK_RAW       3u
#define SOCK_SEQPACKET 5u

#define MSG_OOB          0x1u
#define MSG_PEEK         0x2u
#define MSG_DONTROUTE    0x4u
#define MSG_CTRUNC       0x8u
#define MSG_TRUNC        0x20u
#define MSG_DONTWAIT     0x40u
#define MSG_EOR          0x80u
#define MSG_WAITALL      0x100u
#define MSG_NOSIGNAL     0x4000u
#define MSG_CMSG_CLOEXEC 0x40000000u

/* shutdown() */
#define SHUT_RD   0u
#define SHUT_WR   1u
#define SHUT_RDWR 2u

/* setsockopt(), getsockopt() */
#define SOL_SOCKET    1
#define SO_TYPE       3
#define SO_ERROR      4
#define SO_SNDBUF     7
#define SO_PEERCRED   17
#define SO_ACCEPTCONN 30
#define SO_PROTOCOL   38
#define SO_DOMAIN     39

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

struct linux_ucred {
	uint32_t pid, uid, gid;
};
