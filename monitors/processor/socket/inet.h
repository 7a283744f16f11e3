/* SPDX-License-Identifier: MIT */
/*
 * Internet sockets: names, the table of ports, and what a network stack brings that reaches peers
 * outside of the vNode.
 *
 * Flow:	a socket of AF_INET or AF_INET6 is this family's until its peer turns out to be
 *		outside. A destination inside the vNode (127.0.0.0/8, ::1, the vNode's own
 *		addresses) is a short circuit: its socket is found in the table of ports and the
 *		bytes go into that one's queue. For another destination struct inet_outside is
 *		asked; without one it is -ENETUNREACH.
 *
 *		Streams: connect() gives the socket the operations inet_outside.stream and calls
 *		their connect(). listen() on an address that is not of loopback tells
 *		inet_outside.listen(); for a connection that arrives there the stack makes a socket
 *		(socket_create() with its own operations, inet_set_names()) and puts it in the
 *		listener's backlog (socket_backlog_add()).
 *
 *		Datagrams: a socket whose port is visible outside is told to inet_outside.open();
 *		what arrives for it comes by inet_deliver(), what it sends outside goes to send().
 * Locking:	inet_table.lock (RANK_SOCKET_TABLE), outside socket.lock, guards the ports and
 *		the local and remote names of sockets in the table.
 */
#pragma once

#include "socket.h"

struct inet_interface {
	char name[16];
	uint32_t index, mtu, flags; /* IFF_* */
	uint8_t mac[6];
	uint8_t addr4[4], prefix4; /* prefix4 0: none */
	struct {
		uint8_t addr[16], prefix, scope;
	} addr6[4];
	uint32_t nr_addr6;
	uint64_t rx_bytes, rx_packets, rx_errors, rx_drops;
	uint64_t tx_bytes, tx_packets, tx_errors, tx_drops;
};

struct inet_route {
	uint8_t family, prefix;       /* AF_INET or AF_INET6; prefix 0: the default */
	uint8_t dst[16], gateway[16]; /* the first 4 bytes for AF_INET; gateway 0: on the link */
	uint32_t interface, metric;
};

/* A network stack. All may sleep and are called without locks. */
struct inet_outside {
	/* Is this one of the vNode's addresses? Any context, must not sleep. */
	bool (*is_own)(const uint8_t addr[16]);
	/* The address that a socket gets that sends to @to; -ENETUNREACH, -EHOSTUNREACH. */
	int (*source_for)(const struct inet_name *to, uint8_t addr[16]);
	/* Operations of a stream whose peer is outside; of the size INET_SOCKET_SIZE. */
	const struct socket_ops *stream;
	int (*listen)(struct socket *s, const struct inet_name *local);
	void (*unlisten)(struct socket *s);
	int (*open)(struct socket *s, const struct inet_name *local);
	ssize_t (*send)(struct socket *s, const struct inet_name *to, struct socket_msg *m);
	void (*close)(struct socket *s);
	/* The @i-th; false: there are no more. Interface 1 is the loopback and is not asked for. */
	bool (*interface)(unsigned int i, struct inet_interface *out);
	bool (*route)(unsigned int i, struct inet_route *out);
};
/* Once, from an INITCALL or when the first device is up. */
void inet_outside_register(const struct inet_outside *o);
const struct inet_outside *inet_outside(void); /* NULL: none */

/* The stack's own state of a socket; a word that this layer does not look at. */
void *inet_private(const struct socket *s);
void inet_set_private(struct socket *s, void *p);
/* For a connection that came from outside: before socket_backlog_add(). */
void inet_set_names(struct socket *s, const struct inet_name *local,
		    const struct inet_name *remote);
/*
 * A datagram for the port of @to from outside: copied into the queue of the socket that it is for.
 * -ECONNREFUSED: there is none (the stack answers with ICMP); -ENOBUFS: its queue is full.
 */
int inet_deliver(const struct inet_name *from, const struct inet_name *to, const void *data,
		 uint32_t len) __must_check;

/* The state of a TCP socket, as Linux numbers it: enum linux_tcp_state. */
unsigned int inet_tcp_state(struct socket *s);

static inline bool inet_is_v4(const uint8_t addr[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return __builtin_memcmp(addr, mapped, sizeof(mapped)) == 0;
}

/* An address of IPv4, its bytes in network order, as one of IPv6: ::ffff:a.b.c.d. */
static inline void inet_map_v4(const void *addr4, uint8_t out[16])
{
	__builtin_memset(out, 0, 10);
	out[10] = out[11] = 0xff;
	__builtin_memcpy(out + 12, addr4, 4);
}

static inline bool inet_is_zero(const uint8_t *at, size_t len)
{
	uint8_t any = 0;

	for (size_t i = 0; i < len; i++)
		any |= at[i];
	return !any;
}
