/* SPDX-License-Identifier: MIT */
/*
 * Processor -> processor: PP_CONNECT, PP_WINDOW and PP_RESET (class control), PP_DATA (class demand
 * when its bytes lie in the body, else write-back).
 *
 * Connections between sockets of one vNode on two processors. Each end has an id, which the other
 * end names. Positions in the stream of bytes are counted from the beginning of the connection.
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
};
static_assert(PP_CONNECT == PROTO_FIRST_OPCODE(PROTO_PP), "opcodes are ABI");

struct pp_connect_req_wire {
	le64_t conn;  /* id of the sender's end; not 0 */
	le64_t limit; /* the sender takes bytes up to this position */
	le32_t vnode;
	le16_t from_port;
	le16_t to_port;
	uint8_t from_addr[16]; /* IPv4 addresses are ::ffff:a.b.c.d */
	uint8_t to_addr[16];
	le64_t reserved;
};
static_assert(sizeof(struct pp_connect_req_wire) == 64, "PP_CONNECT is ABI");
/*
 * Errors: -ECONNREFUSED: no socket listens there; -EAGAIN: its backlog is full; -ENOBUFS; -EACCES:
 * the vNode is not on the sender.
 */

struct pp_connect_req {
	uint64_t conn;
	uint64_t limit;
	uint32_t vnode;
	uint16_t from_port, to_port;
	uint8_t from_addr[16], to_addr[16];
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
	PP_FIN = 1, /* no more bytes come */
	PP_DATA_ALL = 1,
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
