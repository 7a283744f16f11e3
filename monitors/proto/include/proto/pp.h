/* SPDX-License-Identifier: MIT */
/*
 * Processor -> processor: PP_DATA, PP_DATAGRAM and PP_UNIX_DATAGRAM (class demand when their bytes
 * lie in the body, else write-back); all others (class control).
 *
 * Connections between sockets of one vNode on two processors. Each end has an id, which the other
 * end names. Positions in the stream of bytes are counted from the beginning of the connection.
 *
 * The gateway is the processor of the vNode that has a network card: the others connect through it,
 * and tell it which of their ports the outside is to reach.
 *
 * See:	docs/protocol/pp.md, docs/design/sockets.md
 */
#pragma once

#include <proto/types.h>

enum pp_opcode {
	PP_CONNECT = 0x0800, /* to a socket that listens */
	PP_DATA = 0x0801,    /* bytes, or the end of them */
	PP_WINDOW = 0x0802,  /* there is room for more bytes */
	PP_RESET = 0x0803,   /* the connection is gone */
	PP_OPENED = 0x0804,  /* from the gateway: the outside has taken or refused a connection */
	PP_GATEWAY = 0x0805, /* from the gateway: its network cards */
	PP_PORT = 0x0806,    /* to the gateway: a port that the outside is to reach */
	PP_UNPORT = 0x0807,  /* to the gateway: it is not any more */
	PP_DATAGRAM = 0x0808,
	PP_UNIX_CONNECT = 0x0809,  /* to an AF_UNIX socket that listens */
	PP_UNIX_DATAGRAM = 0x080a, /* to an AF_UNIX datagram socket */
	PP_UNIX_ROOM = 0x080b,     /* one has room again that had none */
	PP_OPTIONS = 0x080c,       /* to the gateway: options of a connection with the outside */
};
static_assert(PP_CONNECT == PROTO_FIRST_OPCODE(PROTO_PP), "opcodes are ABI");

enum pp_connect_flags {
	PP_OUTSIDE = 1, /* to_addr is outside of the vNode: PP_OPENED tells what comes of it */
	PP_CONNECT_ALL = 1,
};

struct pp_connect_req_wire {
	le64_t conn;  /* id of the sender's end; not 0 */
	le64_t limit; /* the sender takes bytes up to this position */
	le32_t vnode;
	le16_t from_port;
	le16_t to_port;
	uint8_t from_addr[16]; /* IPv4 addresses are ::ffff:a.b.c.d */
	uint8_t to_addr[16];
	le32_t flags; /* enum pp_connect_flags */
	le32_t scope; /* of to_addr, if it is link-local: the gateway's interface */
};
static_assert(sizeof(struct pp_connect_req_wire) == 64, "PP_CONNECT is ABI");
/*
 * Errors: -ECONNREFUSED: no socket listens there; -EAGAIN: its backlog is full; -ENOBUFS; -EACCES:
 * the vNode is not on the sender. Outside: -ENETUNREACH and the like.
 */

struct pp_connect_req {
	uint64_t conn;
	uint64_t limit;
	uint32_t vnode;
	uint16_t from_port, to_port;
	uint8_t from_addr[16], to_addr[16];
	uint32_t flags, scope;
};

struct pp_connect_rep_wire {
	le64_t conn; /* id of the receiver's end; not 0 */
	le64_t limit;
};
static_assert(sizeof(struct pp_connect_rep_wire) == 16, "PP_CONNECT reply is ABI");

struct pp_connect_rep {
	uint64_t conn;
	uint64_t limit;
};

enum pp_data_flags {
	PP_FIN = 1,    /* no more bytes come */
	PP_CLOSED = 2, /* nor are any read: the program has closed the socket */
	PP_DEAF = 4,   /* AF_UNIX: none are read, though the socket is open */
	PP_DATA_ALL = 7,
};

/* The bytes follow in the body, or are bulk. */
struct pp_data_req_wire {
	le64_t conn;     /* the receiver's end */
	le64_t position; /* of the first byte */
	le64_t limit;    /* the sender takes bytes up to this position */
	le32_t len;
	le32_t flags; /* enum pp_data_flags */
};
static_assert(sizeof(struct pp_data_req_wire) == 32, "PP_DATA is ABI");
/*
 * Errors: -ECONNRESET: there is no such connection, or nobody to read; -ENOBUFS: no memory now;
 * -EPROTO: not the next position, or beyond the limit: the connection is gone.
 */
#define PP_INLINE_MAX 2016u         /* bytes in the body of a message of the demand class */
#define PP_BULK_MAX   (32u * 4096u) /* in the bulk of one of the write-back class */

struct pp_data_req {
	uint64_t conn;
	uint64_t position;
	uint64_t limit;
	uint32_t len;
	uint32_t flags;
};

/* Body of PP_WINDOW. */
struct pp_window_wire {
	le64_t conn; /* the receiver's end */
	le64_t limit;
};
static_assert(sizeof(struct pp_window_wire) == 16, "PP_WINDOW is ABI");

struct pp_window {
	uint64_t conn;
	uint64_t limit;
};

/* Reply to PP_DATA. */
struct pp_data_rep_wire {
	le64_t limit;
};
static_assert(sizeof(struct pp_data_rep_wire) == 8, "PP_DATA reply is ABI");

struct pp_data_rep {
	uint64_t limit;
};

struct pp_reset_wire {
	le64_t conn; /* the receiver's end */
};
static_assert(sizeof(struct pp_reset_wire) == 8, "PP_RESET is ABI");

struct pp_reset {
	uint64_t conn;
};

struct pp_opened_wire {
	le64_t conn;   /* the receiver's end */
	le32_t status; /* 0, or why not: a negative errno */
	le32_t reserved;
	uint8_t addr[16]; /* the vNode's address that the connection has */
};
static_assert(sizeof(struct pp_opened_wire) == 32, "PP_OPENED is ABI");

struct pp_opened {
	uint64_t conn;
	int status;
	uint8_t addr[16];
};

enum pp_option_flags {
	PP_NODELAY = 1,
	PP_KEEPALIVE = 2,
	PP_OPTION_ALL = 3,
};

struct pp_options_wire {
	le64_t conn; /* the receiver's end */
	le32_t user_timeout_ms;
	le16_t keep_idle_s; /* not 0, as the next two */
	le16_t keep_interval_s;
	uint8_t keep_count;
	uint8_t ttl;   /* or hop limit of IPv6; not 0 */
	uint8_t tos;   /* or traffic class */
	uint8_t flags; /* enum pp_option_flags */
	le32_t reserved;
};
static_assert(sizeof(struct pp_options_wire) == 24, "PP_OPTIONS is ABI");
/* Errors: -ECONNRESET: there is no such connection; -EPROTO: it is none with the outside. */

struct pp_options {
	uint64_t conn;
	uint32_t user_timeout_ms;
	uint16_t keep_idle_s, keep_interval_s;
	uint8_t keep_count, ttl, tos, flags;
};

#define PP_INTERFACES_MAX 16u
#define PP_ADDRS6         4u

struct pp_interface_wire {
	uint8_t name[16]; /* ends with a 0 */
	le32_t index;     /* not 0 */
	le32_t mtu;
	le16_t up;       /* 0 or 1 */
	uint8_t prefix4; /* 0: it has no IPv4 address */
	uint8_t nr_addr6;
	uint8_t addr4[4], gateway4[4];
	uint8_t mac[6];
	le16_t reserved;
	uint8_t addr6[PP_ADDRS6][16];
	uint8_t gateway6[16]; /* zeros: none */
};
static_assert(sizeof(struct pp_interface_wire) == 124, "PP_GATEWAY is ABI");

struct pp_interface {
	uint8_t name[16];
	uint32_t index, mtu;
	bool up;
	uint8_t prefix4, nr_addr6;
	uint8_t addr4[4], gateway4[4], mac[6];
	uint8_t addr6[PP_ADDRS6][16];
	uint8_t gateway6[16];
};

/* Header, then the interfaces: one at least. */
struct pp_gateway_req_wire {
	le32_t vnode;
	le32_t nr_interfaces;
};
static_assert(sizeof(struct pp_gateway_req_wire) == 8, "PP_GATEWAY is ABI");
/* Errors: -ENOBUFS, -EACCES. */

struct pp_gateway_req {
	uint32_t vnode;
	uint32_t nr_interfaces;
	struct pp_interface interfaces[PP_INTERFACES_MAX];
};
#define PP_GATEWAY_MAX \
	(sizeof(struct pp_gateway_req_wire) + PP_INTERFACES_MAX * sizeof(struct pp_interface_wire))

enum pp_port_kind {
	PP_TCP = 1,
	PP_UDP = 2,
};

enum pp_port_flags {
	PP_V6ONLY = 1,
	PP_PORT_ALL = 1,
};

struct pp_port_wire {
	le64_t id; /* the sender's own for the port; not 0 */
	le32_t vnode;
	le16_t kind; /* enum pp_port_kind */
	le16_t port; /* not 0 */
	uint8_t addr[16];
	le32_t backlog;
	le32_t flags; /* enum pp_port_flags */
};
static_assert(sizeof(struct pp_port_wire) == 40, "PP_PORT is ABI");
/*
 * Errors: -ENETUNREACH: the receiver has no network card; -EADDRINUSE; -ENOBUFS: no memory, or the
 * sender has as many ports there as it may; -EACCES; -EPROTO: the id has another port.
 */

struct pp_port {
	uint64_t id;
	uint32_t vnode;
	uint16_t kind, port;
	uint8_t addr[16];
	uint32_t backlog, flags;
};

struct pp_unport_wire {
	le64_t id;
};
static_assert(sizeof(struct pp_unport_wire) == 8, "PP_UNPORT is ABI");

struct pp_unport {
	uint64_t id;
};

/* The bytes follow in the body, or are bulk. */
struct pp_datagram_req_wire {
	le64_t port_id; /* to the gateway: of the port that it leaves by; 0: to a socket there */
	le32_t vnode;
	le32_t len;
	le16_t from_port;
	le16_t to_port;
	le32_t scope; /* of to_addr, if it is link-local */
	uint8_t from_addr[16];
	uint8_t to_addr[16];
	le32_t interface; /* by which it came, or is to leave; 0: any */
	uint8_t ttl;      /* or hop limit of IPv6 */
	uint8_t tos;      /* or traffic class */
	le16_t reserved;
};
static_assert(sizeof(struct pp_datagram_req_wire) == 64, "PP_DATAGRAM is ABI");
/*
 * Errors: -ECONNREFUSED: no socket has the port; -ESTALE: the gateway does not know the port's id;
 * -ENOBUFS: it was lost for want of memory; those of a card.
 */
#define PP_DATAGRAM_INLINE 1984u  /* bytes in the body of a message of the demand class */
#define PP_DATAGRAM_MAX    65527u /* in the bulk of one of the write-back class */

struct pp_datagram_req {
	uint64_t port_id;
	uint32_t vnode;
	uint32_t len;
	uint16_t from_port, to_port;
	uint32_t scope;
	uint8_t from_addr[16], to_addr[16];
	uint32_t interface;
	uint8_t ttl, tos;
};

#define PP_UNIX_NAME 108u

enum pp_unix_type { /* as Linux numbers them */
	PP_UNIX_STREAM = 1,
	PP_UNIX_SEQPACKET = 5,
};

/* Bytes of a name behind its length are 0. */
struct pp_unix_connect_req_wire {
	le64_t conn;  /* id of the sender's end; not 0 */
	le64_t limit; /* the sender takes bytes up to this position */
	le32_t vnode;
	le16_t type;     /* enum pp_unix_type */
	le16_t name_len; /* of the sender's socket; 0: it has none */
	le32_t pid;      /* of the program that connects: the vNode's */
	le32_t uid, gid;
	uint8_t key[16]; /* of the listener, as PG_NAME tells it */
	uint8_t name[PP_UNIX_NAME];
};
static_assert(sizeof(struct pp_unix_connect_req_wire) == 160, "PP_UNIX_CONNECT is ABI");
/*
 * Errors: -ECONNREFUSED: no socket of the type listens there; -EAGAIN: its backlog is full;
 * -ENOBUFS; -EACCES: the vNode is not on the sender.
 */

struct pp_unix_connect_req {
	uint64_t conn;
	uint64_t limit;
	uint32_t vnode;
	uint16_t type, name_len;
	uint32_t pid, uid, gid;
	uint8_t key[16];
	uint8_t name[PP_UNIX_NAME];
};

struct pp_unix_connect_rep_wire {
	le64_t conn; /* id of the receiver's end; not 0 */
	le64_t limit;
	le32_t pid; /* of the program that listens */
	le32_t uid, gid;
	le16_t name_len; /* of the socket that listens */
	le16_t reserved;
	uint8_t name[PP_UNIX_NAME];
	le32_t reserved2;
};
static_assert(sizeof(struct pp_unix_connect_rep_wire) == 144, "PP_UNIX_CONNECT reply is ABI");

struct pp_unix_connect_rep {
	uint64_t conn;
	uint64_t limit;
	uint32_t pid, uid, gid;
	uint16_t name_len;
	uint8_t name[PP_UNIX_NAME];
};

enum pp_unix_datagram_flags {
	PP_UNIX_ASKS = 1, /* no datagram: would the receiver take one? */
	PP_UNIX_DATAGRAM_ALL = 1,
};

/* The bytes follow in the body, or are bulk. */
struct pp_unix_datagram_req_wire {
	le64_t sender; /* names the sender's socket in PP_UNIX_ROOM; not 0 */
	le32_t vnode;
	le32_t len;
	le32_t pid; /* of the program that sends, or says to be */
	le32_t uid, gid;
	le16_t name_len;      /* of the sender's socket; 0: it has none */
	le16_t flags;         /* enum pp_unix_datagram_flags */
	uint8_t key[16];      /* of the receiver, as PG_NAME tells it */
	uint8_t from_key[16]; /* of the sender's name; zeros: none, or not told */
	uint8_t name[PP_UNIX_NAME];
	le32_t reserved;
};
static_assert(sizeof(struct pp_unix_datagram_req_wire) == 176, "PP_UNIX_DATAGRAM is ABI");
/*
 * Errors: -ECONNREFUSED: no datagram socket is there; -EPERM: it is connected to another; -EPIPE:
 * it reads no more; -EAGAIN: it has no room, and PP_UNIX_ROOM says when it has; -ENOBUFS; -EACCES:
 * the vNode is not on the sender.
 */
#define PP_UNIX_DATAGRAM_INLINE 1872u  /* bytes in the body of a message of the demand class */
#define PP_UNIX_DATAGRAM_MAX    65504u /* in the bulk of one of the write-back class */

struct pp_unix_datagram_req {
	uint64_t sender;
	uint32_t vnode;
	uint32_t len;
	uint32_t pid, uid, gid;
	uint16_t name_len, flags;
	uint8_t key[16], from_key[16];
	uint8_t name[PP_UNIX_NAME];
};

struct pp_unix_room_wire {
	le64_t sender; /* as in PP_UNIX_DATAGRAM */
};
static_assert(sizeof(struct pp_unix_room_wire) == 8, "PP_UNIX_ROOM is ABI");

struct pp_unix_room {
	uint64_t sender;
};

/* In front of the bytes of each send, among the bytes of an AF_UNIX connection. */
struct pp_record_wire {
	le32_t len; /* of what follows */
	le32_t pid; /* of the program that sends, or says to be */
	le32_t uid, gid;
};
static_assert(sizeof(struct pp_record_wire) == 16, "bytes of AF_UNIX connections are ABI");
#define PP_RECORD_MAX (64u * 4096u)

struct pp_record {
	uint32_t len;
	uint32_t pid, uid, gid;
};

void pp_connect_req_encode(const struct pp_connect_req *m, struct pp_connect_req_wire *w);
int pp_connect_req_decode(const void *buf, size_t len, struct pp_connect_req *out) __must_check;
void pp_connect_rep_encode(const struct pp_connect_rep *m, struct pp_connect_rep_wire *w);
int pp_connect_rep_decode(const void *buf, size_t len, struct pp_connect_rep *out) __must_check;
/* The header alone. */
void pp_data_req_encode(const struct pp_data_req *m, struct pp_data_req_wire *w);
int pp_data_req_decode(const void *buf, size_t len, struct pp_data_req *out) __must_check;
/* Do @inline_len bytes behind the header, or @bulk_len of bulk, fit it? 0, -EMSGSIZE. */
int pp_data_check(const struct pp_data_req *r, size_t inline_len, size_t bulk_len) __must_check;
void pp_data_rep_encode(const struct pp_data_rep *m, struct pp_data_rep_wire *w);
int pp_data_rep_decode(const void *buf, size_t len, struct pp_data_rep *out) __must_check;
void pp_window_encode(const struct pp_window *m, struct pp_window_wire *w);
int pp_window_decode(const void *buf, size_t len, struct pp_window *out) __must_check;
void pp_reset_encode(const struct pp_reset *m, struct pp_reset_wire *w);
int pp_reset_decode(const void *buf, size_t len, struct pp_reset *out) __must_check;
void pp_options_encode(const struct pp_options *m, struct pp_options_wire *w);
int pp_options_decode(const void *buf, size_t len, struct pp_options *out) __must_check;
void pp_opened_encode(const struct pp_opened *m, struct pp_opened_wire *w);
int pp_opened_decode(const void *buf, size_t len, struct pp_opened *out) __must_check;
ssize_t pp_gateway_req_encode(const struct pp_gateway_req *m, void *buf, size_t cap) __must_check;
int pp_gateway_req_decode(const void *buf, size_t len, struct pp_gateway_req *out) __must_check;
void pp_port_encode(const struct pp_port *m, struct pp_port_wire *w);
int pp_port_decode(const void *buf, size_t len, struct pp_port *out) __must_check;
void pp_unport_encode(const struct pp_unport *m, struct pp_unport_wire *w);
int pp_unport_decode(const void *buf, size_t len, struct pp_unport *out) __must_check;
/* The header alone. */
void pp_datagram_req_encode(const struct pp_datagram_req *m, struct pp_datagram_req_wire *w);
int pp_datagram_req_decode(const void *buf, size_t len, struct pp_datagram_req *out) __must_check;
/* As pp_data_check(). */
int pp_datagram_check(const struct pp_datagram_req *r, size_t inline_len, size_t bulk_len)
	__must_check;
void pp_unix_datagram_req_encode(const struct pp_unix_datagram_req *m,
				 struct pp_unix_datagram_req_wire *w);
int pp_unix_datagram_req_decode(const void *buf, size_t len, struct pp_unix_datagram_req *out)
	__must_check;
/* Are the bytes where they belong? */
int pp_unix_datagram_check(const struct pp_unix_datagram_req *r, size_t inline_len, size_t bulk_len)
	__must_check;
void pp_unix_room_encode(const struct pp_unix_room *m, struct pp_unix_room_wire *w);
int pp_unix_room_decode(const void *buf, size_t len, struct pp_unix_room *out) __must_check;
void pp_unix_connect_req_encode(const struct pp_unix_connect_req *m,
				struct pp_unix_connect_req_wire *w);
int pp_unix_connect_req_decode(const void *buf, size_t len, struct pp_unix_connect_req *out)
	__must_check;
void pp_unix_connect_rep_encode(const struct pp_unix_connect_rep *m,
				struct pp_unix_connect_rep_wire *w);
int pp_unix_connect_rep_decode(const void *buf, size_t len, struct pp_unix_connect_rep *out)
	__must_check;
void pp_record_encode(const struct pp_record *m, struct pp_record_wire *w);
int pp_record_decode(const void *buf, size_t len, struct pp_record *out) __must_check;
