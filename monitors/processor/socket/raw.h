/* SPDX-License-Identifier: MIT */
/*
 * Raw sockets, for programs with CAP_NET_RAW, and ping sockets (SOCK_DGRAM of ICMP), for groups of
 * users that /proc/sys/net/ipv4/ping_group_range names.
 *
 * Flow:	each send is one packet, which raw_send_packet() checks and takes to sockets of this
 *		processor or to the TCP/IP stack. A packet that comes, from inside or from the
 *		stack, goes to all raw sockets that take it, and the reply to an echo request to the
 *		ping socket with its identifier (raw_deliver()).
 * Locking:	raw_lock of raw_table.c (RANK_SOCKET_TABLE), outside socket.lock, guards the tables
 *		and the addresses that packets are compared with.
 */
#pragma once

#include "inet_private.h"
#include "ip_packet.h"

#define FILTER_WORDS 8u /* of 32 types */

struct outside_raw;

struct raw_socket {
	struct inet_socket inet;
	struct hlist_node node;      /* raw_lock: in a table, unless it is a ping socket without */
	uint8_t own[16], peer[16];   /* raw_lock: addresses of what it takes; zeros: any */
	struct outside_raw *outside; /* const: the stack's part */
	uint32_t filter[FILTER_WORDS]; /* atomic words: types of ICMP that it does not take */
	int32_t checksum;              /* atomic: IPv6: where it is in what is sent; -1: nowhere */
	bool header;                   /* atomic: the program writes the header of IP */
};

static inline struct raw_socket *raw_of(struct socket *s)
{
	return container_of(inet_of(s), struct raw_socket, inet);
}

extern const struct socket_ops raw_ops, ping_ops;

/* --- raw.c: for both kinds ------------------------------------------------------------ */

/* The structure, and the stack's part. -ENOBUFS. */
int raw_init_any(struct socket *s) __must_check;
int raw_bind_address(struct socket *s, const struct inet_name *name) __must_check;
int raw_connect_to(struct socket *s, const struct sock_addr *addr, bool nonblock);
ssize_t raw_receive(struct socket *s, struct socket_msg *m);
uint64_t raw_inq(struct socket *s);
void raw_release(struct socket *s);

/* --- raw_table.c ---------------------------------------------------------------------- */

/* A raw socket is there; any socket is not there any more. */
void raw_enter(struct socket *s);
void raw_leave(struct socket *s);
/* A ping socket gets identifier @id, or with 0 one of the system's choice. -EADDRINUSE, -EINVAL. */
int ping_enter(struct socket *s, uint16_t id) __must_check;
/* The socket has been bound, connected or disconnected. */
void raw_set_addresses(struct socket *s);
/* Copies for all sockets of this processor that take @p. Any thread; does not wait. */
void raw_deliver(const struct ip_packet *p);

/* --- raw_send.c ------------------------------------------------------------------------ */

/* A packet that is to be sent, behind RAW_ROOM bytes at @buf that are free. */
#define RAW_ROOM IP4_HEADER
struct raw_out {
	struct ip_packet packet;
	uint8_t *buf;
	size_t len;
	bool header; /* it begins with a header of IP that the program has written */
	bool inside, outside;
	bool may_broadcast; /* SO_BROADCAST */
};

/* Where @m of @s goes. The errnos of sendmsg(). */
int raw_destination(struct socket *s, const struct socket_msg *m, struct inet_name *to)
	__must_check;
/*
 * The way of @m, whose destination @out has: source, options, and whether it is inside or outside.
 * -ENETUNREACH, -EINVAL, -ENODEV, -ERESTARTSYS.
 */
int raw_find_way(struct socket *s, const struct socket_msg *m, struct raw_out *out) __must_check;
/*
 * Both, for a message that is to be sent now; the socket's error, and -EPIPE after its end, come
 * between them.
 */
int raw_begin_send(struct socket *s, const struct socket_msg *m, struct raw_out *out) __must_check;
/* Send it. -EINVAL: its header is wrong; -EPERM: its source is not the vNode's; -EMSGSIZE, ... */
int raw_send_packet(struct socket *s, struct raw_out *out) __must_check;
/* sendmsg() of a raw socket. */
ssize_t raw_sendmsg(struct socket *s, struct socket_msg *m);

/* --- ping.c ---------------------------------------------------------------------------- */

/* May the calling task have ping sockets? */
bool ping_is_allowed(void);

/* --- outside_raw.c --------------------------------------------------------------------- */

/* Packets of @protocol come from outside from now on. -ENOBUFS. */
int outside_raw_open(bool six, uint8_t protocol, struct outside_raw **out) __must_check;
void outside_raw_close(struct outside_raw *o);
/*
 * Send @out, whose source and destination are checked. -ENETUNREACH: this processor has no card;
 * -EMSGSIZE, -EINVAL, -ENOBUFS.
 */
int outside_raw_send(struct outside_raw *o, const struct raw_out *out) __must_check;
