/* SPDX-License-Identifier: MIT */
/*
 * RPC on the wire: message header, immediate data, the private data of connection set-up, and
 * datagrams.
 *
 * A message is one RDMA WRITE with immediate into a slot of the receiver's ring:
 *
 *	slot:  | struct rpc_hdr_wire (48) | body (body_len) | bulk (bulk_len) |
 *
 * and the immediate tells which slot it is and how long the message is:
 *
 *	bit 31     1 = reply, 0 = request
 *	bits 30:20 slot number
 *	bits 19:0  message length in bytes, header included
 *
 * A datagram of the connectionless mode is one UD SEND:  | struct rpc_dgram_wire (64) | body |
 *
 * See:	docs/protocol/rpc.md
 */
#pragma once

#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <lib/types.h>
#include <rdma/verbs.h>

#define RPC_VERSION 1

struct rpc_hdr_wire {
	uint8_t version;   /* RPC_VERSION */
	uint8_t cls;       /* enum rpc_class */
	le16_t opcode;     /* meaning depends on the handler table; echoed in a reply */
	le32_t body_len;   /* bytes after this header */
	le32_t bulk_len;   /* bytes after the body */
	le32_t src_node;   /* checked against the connection */
	le64_t req_id;     /* grows by one per slot use; echoed in the reply */
	le32_t incarn;     /* sender's incarnation, exchanged at connect */
	le32_t dst_incarn; /* receiver's, as the sender knows it; a mismatch answers -ESTALE */
	le32_t epoch;      /* membership epoch that the sender believes in */
	le32_t status;     /* reply: 0 or a negative errno as two's complement; 0 in a request */
	le32_t timeout_ms; /* request: time left when it was sent; 0 = none.  0 in a reply */
	le32_t flags;      /* RPC_HDR_F_*; others are 0 on send, ignored on receive */
};
static_assert(sizeof(struct rpc_hdr_wire) == 48, "rpc_hdr is ABI");
static_assert(offsetof(struct rpc_hdr_wire, incarn) == 24, "rpc_hdr is ABI");

/*
 * Reply: the request was not run, as its sender has too many or has an older view than the receiver
 * (the reply's epoch is greater); it may be sent again as a new one.
 */
#define RPC_HDR_F_REFUSED 0x01
/* Request: run it though its sender's view is older; the sender cannot get the new one. */
#define RPC_HDR_F_INSIST  0x02

#define RPC_IMM_REPLY      (1u << 31)
#define RPC_IMM_SLOT_SHIFT 20
#define RPC_IMM_SLOT_MASK  0x7ffu
#define RPC_IMM_LEN_MASK   0xfffffu

#define RPC_NONCE_LEN 16u
#define RPC_PROOF_LEN 16u

/* Private data of REQ and REP: the caller's node and where its ring is. */
struct rpc_conn_wire {
	le32_t magic;    /* RPC_CONN_MAGIC */
	uint8_t version; /* RPC_CONN_VERSION */
	uint8_t cls;
	uint8_t role; /* enum node_role of <net/node.h> */
	uint8_t flags;
	le32_t node;
	le32_t incarn;
	le64_t ring_addr; /* of the sender's ring for this peer and class */
	le32_t ring_rkey;
	le16_t nr_slots; /* each way: nr_slots request slots, then nr_slots reply slots */
	le16_t reserved;
	le32_t req_slot_size; /* bytes */
	le32_t rep_slot_size;
	le32_t epoch;
	le32_t dgram_qpn;  /* the sender's queue pair for datagrams */
	le32_t dgram_qkey; /* and the key that it takes them with */
	uint8_t dgram_mtu; /* enum rdma_mtu: the longest datagram, header included */
	uint8_t reserved2[3];
	uint8_t nonce[RPC_NONCE_LEN]; /* REQ: random; REP: 0 */
	uint8_t proof[RPC_PROOF_LEN]; /* of the cluster's key (net/rpc/auth.c); 0 = none */
};
static_assert(sizeof(struct rpc_conn_wire) == 88, "rpc_conn is ABI");
static_assert(offsetof(struct rpc_conn_wire, proof) == 72, "rpc_conn is ABI");
static_assert(offsetof(struct rpc_conn_wire, dgram_qkey) == 48, "rpc_conn is ABI");
#define RPC_CONN_MAGIC   0x41525354u /* "TSRA" */
/* Of REQ and REP: 1 had no datagrams, 2 no proof.  REJ stays at RPC_VERSION. */
#define RPC_CONN_VERSION 3

#define RPC_CONN_F_STRANGER 0x01 /* the sender does not know the receiver's node id */
#define RPC_CONN_F_ALL      0x01

/*
 * Private data of REJ: why a connection was refused. The request is repeated with back-off for
 * CROSSED, UNKNOWN, BUSY, NO_MEMORY, MALFORMED and KEY, and at once for a first CHALLENGE; STALE
 * ends all calls with -ESTALE; GEOMETRY those of the class with -EPROTO.
 */
enum rpc_rej_code {
	RPC_REJ_CROSSED = 1,   /* both connected at once; the node with the smaller id goes on */
	RPC_REJ_UNKNOWN = 2,   /* not (yet) a member as far as we know */
	RPC_REJ_STALE = 3,     /* that incarnation has been fenced or replaced */
	RPC_REJ_MALFORMED = 4, /* private data that makes no sense */
	RPC_REJ_GEOMETRY = 5,  /* numbers or sizes of slots differ from ours */
	RPC_REJ_BUSY = 6,      /* an earlier attempt is still being taken down */
	RPC_REJ_NO_MEMORY = 7,
	RPC_REJ_CHALLENGE = 8, /* prove that you have the cluster's key, with this challenge */
	RPC_REJ_KEY = 9,       /* the proof is not one of that node in that role */
};

struct rpc_rej_wire {
	le32_t magic; /* RPC_CONN_MAGIC */
	uint8_t version;
	uint8_t code; /* enum rpc_rej_code */
	le16_t reserved;
	le32_t node; /* the one that refuses */
	le32_t incarn;
	uint8_t challenge[RPC_NONCE_LEN]; /* with RPC_REJ_CHALLENGE; else 0 */
};
static_assert(sizeof(struct rpc_rej_wire) == 32, "rpc_rej is ABI");

/* A datagram: this header, then the body. */
struct rpc_dgram_wire {
	le32_t magic; /* RPC_DGRAM_MAGIC */
	uint8_t version;
	uint8_t kind;      /* enum rpc_dgram_kind */
	le16_t opcode;     /* echoed in a reply */
	le32_t src_node;   /* checked against the address and the queue pair that it came from */
	le16_t body_len;   /* bytes after this header */
	le16_t attempt;    /* which sending of the request: 0, 1, ...; echoed in the reply */
	le64_t req_id;     /* random; the same in every repetition; echoed in the reply */
	le32_t incarn;     /* sender's incarnation */
	le32_t dst_incarn; /* receiver's, as the sender knows it; a mismatch answers -ESTALE */
	le32_t epoch;      /* membership epoch that the sender believes in */
	le32_t status;     /* reply: 0 or a negative errno as two's complement; 0 in a request */
	le32_t timeout_ms; /* request: time left when it was sent.  0 in a reply */
	le32_t reserved;   /* zero on send, ignored on receive */
	uint8_t mac
		[RPC_PROOF_LEN]; /* between a node and the host: see rpc_auth_datagram(); else 0 */
};
static_assert(sizeof(struct rpc_dgram_wire) == 64, "rpc_dgram is ABI");
static_assert(offsetof(struct rpc_dgram_wire, req_id) == 16, "rpc_dgram is ABI");
#define RPC_DGRAM_MAGIC   0x44525354u /* "TSRD" */
#define RPC_DGRAM_VERSION 2

enum rpc_dgram_kind {
	RPC_DGRAM_REQUEST = 1,
	RPC_DGRAM_REPLY = 2,
};

/* --- host order, and the codec (net/rpc/wire.c: pure) --------------------------------- */

struct rpc_hdr {
	uint8_t cls;
	uint16_t opcode;
	uint32_t body_len;
	uint32_t bulk_len;
	uint32_t src_node;
	uint64_t req_id;
	uint32_t incarn;
	uint32_t dst_incarn;
	uint32_t epoch;
	int32_t status;
	uint32_t timeout_ms;
	uint32_t flags;
};

struct rpc_imm {
	bool reply;
	uint32_t slot;
	uint32_t len;
};

struct rpc_conn_info {
	uint8_t cls;
	uint8_t role;
	uint8_t flags;
	uint32_t node;
	uint32_t incarn;
	uint64_t ring_addr;
	uint32_t ring_rkey;
	uint16_t nr_slots;
	uint32_t req_slot_size;
	uint32_t rep_slot_size;
	uint32_t epoch;
	uint32_t dgram_qpn;
	uint32_t dgram_qkey;
	uint8_t dgram_mtu; /* enum rdma_mtu */
};

struct rpc_dgram_hdr {
	uint8_t kind; /* enum rpc_dgram_kind */
	uint16_t opcode;
	uint16_t body_len;
	uint16_t attempt;
	uint32_t src_node;
	uint64_t req_id;
	uint32_t incarn;
	uint32_t dst_incarn;
	uint32_t epoch;
	int32_t status;
	uint32_t timeout_ms;
};

struct rpc_rej {
	uint8_t code;
	uint32_t node;
	uint32_t incarn;
	uint8_t challenge[RPC_NONCE_LEN];
};

uint32_t rpc_imm_encode(const struct rpc_imm *imm);
/* -EPROTO when the slot is not below @nr_slots or the length does not fit its slot. */
int rpc_imm_decode(uint32_t raw, uint32_t nr_slots, uint32_t req_size, uint32_t rep_size,
		   struct rpc_imm *imm) __must_check;
void rpc_hdr_encode(const struct rpc_hdr *hdr, struct rpc_hdr_wire *out);
/*
 * @w is a private copy of the first 48 of @len message bytes. -EPROTO when a field is impossible or
 * the lengths do not add up to @len.
 */
int rpc_hdr_decode(const struct rpc_hdr_wire *w, uint32_t len, bool reply, struct rpc_hdr *hdr)
	__must_check;
void rpc_conn_encode(const struct rpc_conn_info *info, struct rpc_conn_wire *out);
/* -EMSGSIZE too short, -EPROTONOSUPPORT other version, -EPROTO anything else. */
int rpc_conn_decode(const void *buf, size_t len, struct rpc_conn_info *info) __must_check;
void rpc_dgram_encode(const struct rpc_dgram_hdr *hdr, struct rpc_dgram_wire *out);
/*
 * @buf holds a datagram of @len bytes without its GRH.  -EMSGSIZE too short or lengths that do not
 * agree, -EPROTO anything else.
 */
int rpc_dgram_decode(const void *buf, size_t len, struct rpc_dgram_hdr *hdr) __must_check;
void rpc_rej_encode(const struct rpc_rej *rej, struct rpc_rej_wire *out);
int rpc_rej_decode(const void *buf, size_t len, struct rpc_rej *rej) __must_check;
