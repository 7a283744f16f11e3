/* SPDX-License-Identifier: MIT */
/*
 * Internet sockets inside the vNode: their state, and the table of ports.
 *
 * Locking:	inet_table_lock (RANK_SOCKET_TABLE), outside socket.lock, guards the table and the
 *		names. A name changes only while its socket is not in the table or is unconnected;
 *		calls on one socket that change and read it at once may see either.
 */
#pragma once

#include "inet.h"

#define LOOPBACK_MTU 65536
#define LOOPBACK_MSS 65483
#define INET_HOPS    64  /* that packets go, unless the program says how far */
#define DEFAULT_MSS  536 /* of a TCP socket that is not connected */
/* Options that are a number: kept, and told again. */
#define INET_OPTIONS 48u

struct name_entry;
struct outside_port;
struct sock_msg;
struct tcpip_conn;
struct udp_cork;

/* inet_socket.changed: options that are on, or not as at first. */
enum inet_changed {
	INET_TELLS_INFO = 1 << 0, /* recvmsg() tells of a packet: IP_PKTINFO ... */
	INET_TELLS_TTL = 1 << 1,
	INET_TELLS_TOS = 1 << 2,
	INET_TELLS_DST = 1 << 3,
	INET_TELLS_INFO6 = 1 << 4,
	INET_TELLS_HOPS = 1 << 5,
	INET_TELLS_CLASS = 1 << 6,
	INET_TELLS_DST6 = 1 << 7,
	INET_TELLS_ERRORS = 1 << 8, /* IP_RECVERR */
	INET_TELLS_ERRORS6 = 1 << 9,
	INET_SENDS = 1 << 10, /* one of those that packets carry, as IP_TTL */
};

struct inet_socket {
	struct socket s;
	struct hlist_node node;         /* table lock: in the table, if local.port is set */
	struct inet_name local, remote; /* table lock; remote.port 0: not connected */
	bool bound_addr;                /* table lock: the program chose the address */
	bool naming;                    /* table lock: a call waits for the managers' answer */
	struct name_entry *name;        /* naming, or release(): NULL: of no interest to others */
	bool told;                      /* socket.lock: connect() has said that it is connected */
	bool pending;                   /* socket.lock: its backlog has no place for it yet */
	struct list_head watch_link;    /* watch.lock of tcp_cork.c, as the next two */
	uint64_t watch_ns;
	bool watched;
	struct tcpip_conn *outside;    /* atomic: set once; NULL: the peer is inside */
	struct outside_port *visible;  /* outside_port.c; NULL: not visible outside */
	bool v6only;                   /* atomic */
	struct list_head groups;       /* multicast.c */
	uint32_t mc_if4, mc_if6;       /* atomic: IP_MULTICAST_IF, by index; 0: the system's */
	uint8_t mc_addr4[4];           /* of mc_if4, as the program named it */
	int32_t options[INET_OPTIONS]; /* atomic: by place in the table of options; 0: default */
	uint32_t changed;              /* atomic: enum inet_changed: of those options */
	struct list_head errors;       /* socket.lock: struct sock_msg: inet_errors.c */
	uint64_t errors_cost;          /* socket.lock; poll reads it */
	/* atomic: of a relay's inner socket: how often options came for it, from 1; else 0 */
	uint32_t relayed;
};

static inline struct inet_socket *inet_of(struct socket *s)
{
	return container_of(s, struct inet_socket, s);
}

struct udp_socket {
	struct inet_socket inet;
	struct mutex cork_lock; /* RANK_PIPE */
	struct udp_cork *cork;  /* atomic; changes under cork_lock; NULL: no datagram gathers */
	bool corked;            /* atomic: UDP_CORK */
};

static inline struct udp_socket *udp_of(struct socket *s)
{
	return container_of(inet_of(s), struct udp_socket, inet);
}

extern const struct socket_ops tcp_ops, udp_ops;

/* --- inet.c: names and options ------------------------------------------------------- */

/*
 * A name as @s's family writes it. -EINVAL: it is too short, or IPv4 for one that is IPv6 only;
 * -EAFNOSUPPORT.
 */
int inet_name_fetch(struct socket *s, const struct sock_addr *addr, struct inet_name *out)
	__must_check;
/* The same the other way round. */
void inet_name_put(const struct socket *s, const struct inet_name *name, struct sock_addr *addr);
/* A new socket has the address "any" of its family. */
int inet_init_socket(struct socket *s);
int inet_getname(struct socket *s, bool peer, struct sock_addr *addr);
/* A numeric option that is not as at first; its value. */
bool inet_option_changed(struct socket *s, int level, int option, int *value);
int inet_setsockopt(struct socket *s, int level, int option, const void *val, uint32_t len);
/* Bytes of a packet on the way from @s to its peer: the loopback's, or the card's. */
uint32_t inet_mtu(struct socket *s);
int inet_getsockopt(struct socket *s, int level, int option, void *val, uint32_t *len);

/* --- tcp.c: for connections to other processors -------------------------------------- */

int tcp_init_socket(struct socket *s);
int tcp_connect_to(struct socket *s, const struct sock_addr *addr, bool nonblock);
/* Wait until @s is connected: the answer of a connect(). */
int tcp_wait_connected(struct socket *s, bool nonblock);
/* sendmsg() with @flags calls this before it takes bytes.  0: go on; else its answer. */
int tcp_begin_send(struct socket *s, uint32_t flags);
ssize_t tcp_recvmsg(struct socket *s, struct socket_msg *m);
/* These may be called in any context: connect() has succeeded; no more comes; the peer is gone. */
void tcp_connected(struct socket *s);
void tcp_fin(struct socket *s);
void tcp_reset(struct socket *s);
/* @child, the server's end of a connection, is as listener @l, and has these names. */
void tcp_inherit(struct socket *child, struct socket *l, const struct inet_name *local,
		 const struct inet_name *remote);

/* --- tcp_urgent.c --------------------------------------------------------------------- */

/*
 * The urgent byte of @m comes into the queue; the caller frees what is returned, which never was
 * there, unless it is NULL, when it has let go of the lock.
 */
struct sock_msg *tcp_urgent_push_locked(struct socket *s, struct sock_msg *m) __must_hold(&s->lock)
	__must_check;
/*
 * The reader has found *@at, the first message, urgent. False: it reads it, as it is in line. True:
 * it goes on with *@at as it is then, or with nothing: the byte is left out, and is gone unless it
 * was only a look.
 */
bool tcp_urgent_leave_out(struct socket *s, struct sock_msg **at, bool peek)
	__must_hold(&s->recv_lock);
/* Is the next byte to be read the urgent one? SIOCATMARK. */
bool tcp_urgent_is_next(struct socket *s);
/* Bytes in front of it, or all if it is in line or there is none. FIONREAD. */
uint64_t tcp_readable_locked(const struct socket *s) __must_hold(&s->lock);
/* Of POLLIN, POLLRDNORM and POLLPRI, what is so. */
unsigned int tcp_urgent_poll(struct socket *s);
/* recvmsg() with MSG_OOB. -EINVAL: there is none; -EFAULT. */
ssize_t tcp_urgent_receive(struct socket *s, struct socket_msg *m) __must_check;

/* --- tcp_cork.c ---------------------------------------------------------------------- */

#define CORK_NS (200 * NSEC_PER_MSEC) /* bytes are held back no longer */

/* socket_msg.hold for a send with @flags. */
uint32_t tcp_cork_limit(struct socket *s, uint32_t flags);
/* The bytes that are held back at @peer arrive in time. */
void tcp_cork_watch(struct socket *peer);
/* The bytes of @s that are held back arrive now. */
void tcp_push(struct socket *s);
int tcp_cork_init(void) __must_check;

/* --- tcp_info.c ---------------------------------------------------------------------- */

/* The answer to TCP_INFO, as much as *@len has room for. */
int inet_tcp_info(struct socket *s, void *val, uint32_t *len);

/* --- outside.c ------------------------------------------------------------------------ */

/*
 * Connect @s, which is BUSY, to @to outside of the vNode. -ENETUNREACH: there is no way, and @s is
 * as before; -EINPROGRESS and the errnos of connect(). May wait for the vNode's first address.
 */
int outside_connect(struct socket *s, const struct inet_name *to, bool nonblock) __must_check;
/* The same over a card of this processor, without that wait, for who may not sleep so long. */
int outside_connect_here(struct socket *s, const struct inet_name *to) __must_check;

/*
 * The server's end of connection @c from @remote, on behalf of listener @l, which has its events
 * from now on. The stack's lock is held. ERR_PTR.
 */
struct socket *outside_make(struct socket *l, struct tcpip_conn *c, const struct inet_name *local,
			    const struct inet_name *remote);
/* The same for a listener of another processor: no program has @s. ERR_PTR(-ENOMEM). */
struct socket *outside_make_internal(struct tcpip_conn *c, const struct inet_name *local,
				     const struct inet_name *remote);
/* A listener's backlog did not take it: @s goes, and its connection stays the stack's. */
void outside_unmake(struct socket *s);
/* A program got @s, which may be any TCP socket, by accept(). */
void outside_accepted(struct socket *s);
/* @s, whose peer is outside, has the options of @from from now on, and the stack hears so. */
void outside_take_options(struct socket *s, const struct socket *from);

/* --- outside_port.c: ports that are visible outside ----------------------------------- */

/*
 * Let connections (of up to @backlog) or datagrams for the port of @s come from outside, if its
 * address is reachable from there. -EADDRINUSE, -ENOBUFS.
 */
int outside_open(struct socket *s, unsigned int backlog) __must_check;
void outside_close(struct socket *s);
/*
 * At the gateway: processor @node, incarnation @incarn, has such a port, which it calls @id.
 * -ENETUNREACH: there is no card; -EADDRNOTAVAIL, -EADDRINUSE, -ENOBUFS, -EPROTO.
 */
struct tcpip_name;
int outside_far_open(uint32_t node, uint32_t incarn, uint64_t id, uint32_t type,
		     const struct tcpip_name *name, unsigned int backlog) __must_check;
/* An unknown id is allowed. */
void outside_far_close(uint32_t node, uint32_t incarn, uint64_t id);
/* It sends a datagram by the port. -ESTALE: the id is unknown; the stack's errnos. */
int outside_far_send(uint32_t node, uint32_t incarn, uint64_t id, const struct inet_packet *packet,
		     const void *data, size_t len) __must_check;
/* That incarnation has left. Does not wait for a node. */
void outside_far_gone(uint32_t node, uint32_t incarn);
/* There is another gateway, perhaps: it is told of this processor's ports, soon. */
void outside_tell_gateway(void);
/* This node has become the gateway, tcpip_is_present(): all ports are opened here. */
void outside_is_here(void);
int outside_port_init(void) __must_check;
/*
 * Send a datagram of @data to a group by a card of this processor's. -ENETUNREACH, -EMSGSIZE,
 * -ENOBUFS.
 */
int outside_send_group(struct socket *s, const struct inet_packet *packet, const void *data,
		       size_t len) __must_check;
/* Send a datagram. -ENETUNREACH, -EINVAL: not from this address; -ENOBUFS, -EFAULT. */
ssize_t outside_send_datagram(struct socket *s, struct socket_msg *m,
			      const struct inet_packet *packet);
/* The names of @s, which sends to @to from now on, and its port. -ENETUNREACH, -EINVAL. */
int outside_connect_datagrams(struct socket *s, const struct inet_name *to) __must_check;
/* --- remote_udp.c --------------------------------------------------------------------- */

/*
 * Send @m to a port that no socket of this processor has. -ECONNREFUSED: nor has another's;
 * -EFAULT, -ENOBUFS, -EAGAIN, -ETIMEDOUT, -EINTR.
 */
ssize_t remote_send_datagram(struct socket *s, const struct inet_packet *packet,
			     struct socket_msg *m) __must_check;
int remote_udp_init(void) __must_check;

/* --- udp.c --------------------------------------------------------------------------- */

/* "Any" as a destination is the loopback. */
void inet_make_definite(struct inet_name *name);
/* For raw sockets, too. */
ssize_t udp_recvmsg(struct socket *s, struct socket_msg *m);
int udp_shutdown(struct socket *s, unsigned int how);
unsigned int udp_poll(struct socket *s);

/* Copy what came from outside into the queue of @to, or lose it. */
void udp_receive(struct socket *to, const struct inet_packet *packet, const void *data, size_t len);
/*
 * Sockets that take @what: the first @max of them into @out, referenced. How many there are.
 */
typedef uint32_t inet_find_fn(const void *what, struct socket **out, uint32_t max);
/* Give @what to each socket that @find finds; to none when there is no memory for their list. */
void inet_give_all(inet_find_fn *find, void (*give)(struct socket *to, const void *what),
		   const void *what);
/* Bytes that a datagram of @s carries at most. */
uint32_t udp_max(const struct socket *s);
/*
 * Where @m of @s goes, which may be sent, and has a port; inet_packet_of(). The errnos of
 * sendmsg().
 */
int udp_begin_send(struct socket *s, const struct socket_msg *m, struct inet_packet *packet)
	__must_check;
/* The second half: send @m there. */
ssize_t udp_send_to(struct socket *s, struct socket_msg *m, const struct inet_packet *packet)
	__must_check;

/* --- inet_control.c ------------------------------------------------------------------ */

/*
 * The packet of @m, which @s sends to @packet->to: what ancillary data or options say. Its source
 * is any, with the port of @s, unless the program names one. -EINVAL: not this address; -ENODEV.
 */
int inet_packet_of(struct socket *s, const struct socket_msg *m, struct inet_packet *packet)
	__must_check;
/*
 * May a datagram of @len bytes leave by the card with address @from? -EMSGSIZE: it would be
 * fragmented, and the program forbids that (IP_MTU_DISCOVER).
 */
int inet_check_size(struct socket *s, const struct inet_packet *packet, const uint8_t from[16],
		    size_t len) __must_check;
/* The same for a packet of @total bytes with its headers. */
int inet_check_packet(struct socket *s, const struct inet_packet *packet, const uint8_t from[16],
		      size_t total) __must_check;
/* Tell the program of the packet of @m, which it has received: as socket_ops.put_control. */
void inet_put_control(struct socket *s, const struct socket_msg *m, struct cmsg_sink *sink);
/* The interface that a packet inside of the vNode to @to, an address of it, comes by. Sleeps. */
uint32_t inet_interface_inside(const uint8_t to[16]);

/* --- inet_errors.c ------------------------------------------------------------------- */

/* Bytes of a datagram that come back with an error: what ICMP has room for, less headers. */
#define INET_ERROR_BYTES  520u
#define INET_ERROR_BYTES6 1184u

/* The content of an ICMP message about a packet that a socket has sent. */
struct inet_error {
	struct inet_name dest;     /* where that packet went */
	struct inet_packet packet; /* of the message */
	uint8_t type, code;        /* as ICMP numbers them, or ICMPv6 for a packet of IPv6 */
	uint32_t info;
};

/* sock_msg.aux of an error in the queue. */
struct inet_queued_error {
	struct inet_name dest;
	struct inet_packet packet; /* of no meaning for an error of this node's own */
	struct linux_sock_extended_err ee;
};

/* Does the program ask for errors of packets to IPv4 (@four), or IPv6? */
bool inet_wants_errors(struct socket *s, bool four);
/* So many of the @len bytes of a datagram come back. */
size_t inet_error_bytes(bool four, size_t len);
/* @p was for a port inside of the vNode that no socket has. */
void inet_error_of_port(const struct inet_packet *p, struct inet_error *e);
/*
 * @s has sent a packet of which @e is said. @msg: the first bytes of the datagram, which is
 * consumed; NULL: no memory. Any context.
 */
void inet_error_tell(struct socket *s, const struct inet_error *e, struct sock_msg *msg);
/* The same of an errno that this node finds itself: it is not pending. */
void inet_error_local(struct socket *s, const struct inet_name *dest, int err, uint32_t info);
/* As socket_ops.recv_error. */
ssize_t inet_recv_error(struct socket *s, struct socket_msg *m);
static inline bool inet_has_errors(struct socket *s)
{
	return __atomic_load_n(&inet_of(s)->errors_cost, __ATOMIC_ACQUIRE) > 0;
}
/* All are dropped: the option is off, or the socket is dead. */
void inet_errors_purge(struct socket *s);

/* --- udp_cork.c ---------------------------------------------------------------------- */

/* Is a call with @flags part of a longer datagram? */
bool udp_is_corked(struct socket *s, uint32_t flags);
/* sendmsg() then. */
ssize_t udp_send_corked(struct socket *s, struct socket_msg *m) __must_check;
/* UDP_CORK; its end sends what has gathered. -EINTR */
int udp_set_cork(struct socket *s, bool on) __must_check;
/* @s is closed. */
void udp_drop_cork(struct socket *s);

/* --- multicast.c ---------------------------------------------------------------------- */

void inet_groups_init(struct socket *s);
/* @s is closed. */
void inet_groups_leave(struct socket *s);
bool inet_is_group_option(int level, int option);
/* setsockopt() of one of those. */
int inet_group_set(struct socket *s, int level, int option, const void *val, uint32_t len)
	__must_check;
/* Does @s take a datagram to group @to from @from that came by @interface? Any context. */
bool inet_group_takes(struct socket *s, const struct inet_name *to, const struct inet_name *from,
		      uint32_t interface);
/* The interface and the source address of what @s sends to group @to. -ENETUNREACH, -EINVAL. */
int inet_group_way(struct socket *s, const struct inet_name *to, uint32_t *interface,
		   uint8_t from[16]) __must_check;
/* sendmsg() to a group. */
ssize_t inet_group_send(struct socket *s, struct socket_msg *m, const struct inet_packet *packet)
	__must_check;
/* A copy for each socket of this processor that takes it. Any thread; does not wait. */
void inet_group_deliver(const struct inet_packet *packet, const void *data, size_t len);

/* --- inet_port.c: the table ---------------------------------------------------------- */

bool inet_is_any(const uint8_t addr[16]);
/* 127.0.0.0/8 and ::1. */
bool inet_is_loopback(const uint8_t addr[16]);
/* Inside the vNode: loopback, any, and the vNode's own addresses outside. */
bool inet_is_local(const uint8_t addr[16]);
bool inet_is_multicast(const uint8_t addr[16]);
int inet_bind(struct socket *s, const struct sock_addr *addr);
/*
 * A port of the system's choice, for a socket that has none. -EINTR; all are in use:
 * -EADDRNOTAVAIL for TCP, -EAGAIN for UDP.
 */
int inet_autobind(struct socket *s) __must_check;
/* An accepted socket enters the table with the names that it has. */
void inet_enter(struct socket *s);
/* @s is closed: it leaves the table, and its groups. */
void inet_release(struct socket *s);
/* Undo a bind() that did not come to its end. */
void inet_unbind(struct socket *s);
/*
 * Tell the other processors of the vNode that @s, which has a port, listens from now on, or that it
 * does not. -EADDRINUSE, -ENOBUFS, -EINTR.
 */
int inet_tell_listening(struct socket *s, bool listens) __must_check;
/* The names of a connection; an address that the program did not choose is that of @to. */
void inet_connect_names(struct socket *s, const struct inet_name *to);
/* The address that packets of @s carry, unless the program chose one. */
void inet_set_source(struct socket *s, const uint8_t addr[16]);
void inet_forget_remote(struct socket *s);
/* The address that a raw socket is bound to; any: to none. */
void inet_set_bound(struct socket *s, const uint8_t addr[16]);
/*
 * The listener (streams) or receiver (datagrams, for one sent from @from) of @to, referenced; NULL.
 */
struct socket *inet_find(uint32_t type, const struct inet_name *to, const struct inet_name *from);
/*
 * Sockets for a datagram to group @to that came by @interface: the first @max of them into @out,
 * referenced. How many there are.
 */
uint32_t inet_find_group(const struct inet_name *to, const struct inet_name *from,
			 uint32_t interface, struct socket **out, uint32_t max);
