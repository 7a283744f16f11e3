/* SPDX-License-Identifier: MIT */
/*
 * TCP/IP to the outside: connections, listeners and datagrams over the node's network cards.
 *
 * Flow:	one thread polls the cards, runs timers and takes addresses by DHCP and router
 *		advertisements; the calls below enter the stack from the caller's thread. The stack
 *		tells its users of events by functions that they bring.
 * Context:	threads; all calls but tcpip_is_*() and tcpip_data_bytes() take the stack's lock
 *		(RANK_NET_STACK). The users' functions run with that lock held: they do not wait,
 *		and call nothing here but those.
 * Invariants:	a connection, listener or datagram port belongs to its user until it is closed; its
 *		functions are not called after that. Memory of the stack is bounded.
 * See:		docs/design/tcpip.md
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

/* An address and a port. IPv4 is kept as ::ffff:a.b.c.d. */
struct tcpip_name {
	uint8_t addr[16];  /* network order; all zeros: any */
	uint16_t port;     /* host order */
	uint32_t scope_id; /* of link-local addresses and groups: the interface */
	bool only6;        /* listeners and datagram ports: any is that of IPv6 alone */
};

#define TCPIP_IF_NAME_LEN    16
#define TCPIP_IF_ADDRS6      4
#define TCPIP_FIRST_IF_INDEX 2u /* the loopback is 1 */

struct tcpip_interface {
	char name[TCPIP_IF_NAME_LEN];
	uint32_t index;
	uint32_t mtu;
	bool up;
	uint8_t mac[6];
	uint8_t prefix4; /* 0: no address yet */
	uint8_t addr4[4], gateway4[4];
	uint8_t addr6[TCPIP_IF_ADDRS6][16];
	uint8_t gateway6[16]; /* the router that has advertised itself; zeros: none */
	uint32_t nr_addr6;
	uint64_t rx_bytes, rx_packets, rx_drops, tx_bytes, tx_packets, tx_drops;
};

/* Does this node have a network card, whether it is in use or not? Any context. */
bool tcpip_has_cards(void);
/*
 * Open the cards and take addresses; before that they neither send nor answer anything. Once, from
 * one thread. -ENOMEM; -EIO: no card can be opened. After an error none is open.
 */
int __must_check tcpip_start(void);
/* No frame leaves from now on, and none is taken: another node has the address. Any context. */
void tcpip_silence(void);
/* Is a network card in use? Any context. */
bool tcpip_is_present(void);
/*
 * @fn is called when a card or its addresses change, with the stack's lock held. Set once, before
 * tcpip_start(); it is told of later changes alone.
 */
void tcpip_on_change(void (*fn)(void));
/* Is this an address of one of our cards? Any context. */
bool tcpip_is_own(const uint8_t addr[16]);
/* The address of ours that packets to @to carry. -ENETUNREACH. */
int __must_check tcpip_source_for(const struct tcpip_name *to, uint8_t addr[16]);
/* Take part in group @addr on card @interface; once. -ENODEV, -ENOBUFS. */
int __must_check tcpip_join(uint32_t interface, const uint8_t addr[16]);
void tcpip_leave(uint32_t interface, const uint8_t addr[16]);
/* For tests: the @i-th; false: there are no more. */
bool tcpip_interface(unsigned int i, struct tcpip_interface *out);

/* --- connections --------------------------------------------------------------------- */

struct tcpip_conn;

struct tcpip_conn_user {
	void (*connected)(void *arg);
	void (*readable)(void *arg); /* bytes came, or the peer's end */
	void (*writable)(void *arg); /* there is room */
	/* It is gone: 0 after both ends, -ECONNREFUSED, -ECONNRESET or -ETIMEDOUT. */
	void (*gone)(void *arg, int err);
};

/* A moment's state. */
struct tcpip_status {
	bool connected;  /* it was, once */
	bool ended;      /* the peer has sent its end */
	bool gone;       /* nothing more comes or goes */
	int error;       /* why it is gone */
	size_t readable; /* bytes */
	size_t room;     /* bytes that tcpip_send() takes */
	size_t unsent;   /* bytes that the peer has not confirmed */
	bool writable;   /* there is so much room that it is worth while */
	uint32_t mss;
	uint32_t state; /* as Linux counts: 1 is established */
	uint32_t rtt_us;
	uint32_t cwnd, rcv_wnd, snd_wnd; /* bytes */
	uint32_t retransmits;
};

/*
 * Begin a connection from @local (its address may be any, its port not 0). @out is set before the
 * user hears of anything, and not at all after an error. -ENETUNREACH, -EADDRNOTAVAIL, -ENOBUFS.
 */
int __must_check tcpip_connect(const struct tcpip_name *local, const struct tcpip_name *remote,
			       const struct tcpip_conn_user *user, void *arg,
			       struct tcpip_conn **out);
/* For accepted(): events of @c go to this user. */
void tcpip_set_user(struct tcpip_conn *c, const struct tcpip_conn_user *user, void *arg);
/* Bytes taken, perhaps fewer than @len. -EAGAIN; -EPIPE: ended or gone; -ENOBUFS. */
ssize_t tcpip_send(struct tcpip_conn *c, const void *buf, size_t len, bool more);
/* The end of our bytes. -ENOTCONN. */
int tcpip_end(struct tcpip_conn *c);
/* The user has done. @reset: the peer is told that bytes are lost. */
void tcpip_close(struct tcpip_conn *c, bool reset);
void tcpip_status(struct tcpip_conn *c, struct tcpip_status *out);

/* The same in short, for poll: any context, no lock; as of a moment ago. */
struct tcpip_hints {
	size_t readable;
	bool ended, gone, writable;
};
void tcpip_hints(const struct tcpip_conn *c, struct tcpip_hints *out);

/* Received bytes, outside of the stack. */
struct tcpip_data;
/* Take parts with at least @max bytes, or all; NULL: none. One thread at a time. */
struct tcpip_data *tcpip_take(struct tcpip_conn *c, size_t max);
/* The bytes at @off, as many as lie together; NULL: the end. No lock. */
const void *tcpip_data_bytes(const struct tcpip_data *d, size_t off, size_t *len);
/* Give the parts back: @used bytes have been read, the others stay first. */
void tcpip_give_back(struct tcpip_conn *c, struct tcpip_data *d, size_t used);

enum tcpip_option {
	TCPIP_NODELAY,
	TCPIP_CORK,
	TCPIP_KEEPALIVE,
	TCPIP_KEEP_IDLE_S,
	TCPIP_KEEP_INTERVAL_S,
	TCPIP_KEEP_COUNT,
	TCPIP_TTL,
	TCPIP_TOS,
	TCPIP_USER_TIMEOUT_MS, /* that the peer may confirm nothing of what waits; 0: lwIP's own */
	TCPIP_SYN_COUNT,       /* repetitions of a SYN, which are TCPIP_SYN_MAX at most */
	TCPIP_FIN_WAIT_S, /* that a closed one waits for its peer's end: 20 at most; 0: reset */
	TCPIP_UNSENT_LOW, /* bytes not sent yet below which it is writable; 0: any */
	TCPIP_QUICKACK,   /* an acknowledgement that waits leaves now */
};
#define TCPIP_SYN_MAX 12u
#define TCPIP_SYN_DEF 6u /* unless it is set */
/* A connection that is gone takes any. */
void tcpip_set_option(struct tcpip_conn *c, enum tcpip_option option, uint32_t value);

/* --- listeners ----------------------------------------------------------------------- */

struct tcpip_listener;

/* A program has got the connection: its place in the backlog is free. */
void tcpip_accept(struct tcpip_conn *c);

/*
 * A connection came: 0 if the user takes it (then it calls tcpip_set_user() first), or an errno:
 * the peer is refused.
 */
typedef int (*tcpip_accepted_t)(void *arg, struct tcpip_conn *c, const struct tcpip_name *local,
				const struct tcpip_name *remote);

/*
 * -EADDRINUSE, -ENOBUFS. @backlog bounds handshakes that are not over and connections that
 * tcpip_accept() was not called for, 255 at most; SYNs beyond are dropped.
 */
int __must_check tcpip_listen(const struct tcpip_name *local, unsigned int backlog,
			      tcpip_accepted_t accepted, void *arg, struct tcpip_listener **out);
void tcpip_set_backlog(struct tcpip_listener *l, unsigned int backlog);
/* Connections that were taken stay; handshakes that are not over are refused. */
void tcpip_unlisten(struct tcpip_listener *l);

/* --- datagrams ----------------------------------------------------------------------- */

struct tcpip_port;

/* The header of a datagram that came, or that is to be sent. */
struct tcpip_packet {
	struct tcpip_name from, to; /* one to be sent: @from any: the stack's choice; no port */
	uint32_t interface;         /* one to be sent, but to a group: 0: by the way to @to */
	uint8_t ttl, tos;           /* hop limit and traffic class of IPv6 */
	bool may_broadcast;         /* a raw packet to be sent: also to all of a card's network */
};

typedef void (*tcpip_received_t)(void *arg, const struct tcpip_packet *packet, const void *data,
				 size_t len);

/* -EADDRINUSE, -ENOBUFS. */
int __must_check tcpip_port_open(const struct tcpip_name *local, tcpip_received_t received,
				 void *arg, struct tcpip_port **out);
/*
 * A copy of one to a group does not come back. -ENETUNREACH: also: there is no such card, or the
 * source address is none of ours; -EMSGSIZE, -ENOBUFS.
 */
int __must_check tcpip_port_send(struct tcpip_port *p, const struct tcpip_packet *packet,
				 const void *data, size_t len);
void tcpip_port_close(struct tcpip_port *p);

/* --- errors -------------------------------------------------------------------------- */

/* The content of an ICMP message about a datagram that has left. */
struct tcpip_error {
	struct tcpip_name from, to; /* of the datagram, which may be none of ours */
	struct tcpip_packet packet; /* of the message, without ports: from the node that says so */
	uint8_t type, code;         /* of ICMP; of ICMPv6 for a datagram over IPv6 */
	uint32_t info;              /* the greatest packet, or what is wrong in it; 0: nothing */
	const void *data;           /* the bytes of the datagram that came back */
	size_t len;
};

/* @fn hears of them, with the stack's lock held. Once, before tcpip_start(). -ENOMEM */
int __must_check tcpip_on_error(void (*fn)(const struct tcpip_error *e));

/* --- raw packets --------------------------------------------------------------------- */

struct tcpip_raw;

/*
 * Packets of @protocol that come, of IPv6 with @six, else of IPv4; the stack goes on with them as
 * well. @received: the data of IPv4 begins with the header; of IPv6 it is what follows the headers,
 * of packets that have the protocol in the first of them. -ENOBUFS.
 */
int __must_check tcpip_raw_open(bool six, uint8_t protocol, tcpip_received_t received, void *arg,
				struct tcpip_raw **out);
/*
 * Send one from @packet->from, any or an address of a card's. @has_header: the data begins with the
 * header of IP, which is complete and right, and is not divided. With its header a packet is 65,535
 * bytes long at most. -EINVAL: also: the source is none of ours; -EACCES: the destination is a
 * broadcast of the card's, and @packet does not say that it may be; -ENETUNREACH,
 * -EMSGSIZE, -ENOBUFS.
 */
int __must_check tcpip_raw_send(struct tcpip_raw *r, const struct tcpip_packet *packet,
				bool has_header, const void *data, size_t len);
void tcpip_raw_close(struct tcpip_raw *r);
