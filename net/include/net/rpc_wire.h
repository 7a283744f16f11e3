/* SPDX-License-Identifier: MIT */
/*
 * RPC on the wire: message header, immediate data, and the private data of connection set-up.
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
 * See:	docs/protocol/rpc.md
 */
#pragma once

#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <lib/types.h>

#define RPC_VERSION 1

struct rpc_hdr_wire {
	uint8_t version;  /* RPC_VERSION */
	uint8_t cls;      /* enum rpc_class */
	le16_t opcode;    /* meaning depends on the handler table; echoed in a reply */
	le32_t body_len;  /* bytes after this header */
	le32_t bulk_len;  /* bytes after the body */
	le32_t src_node;  /* checked against the connection */
	le64_t req_id;    /* grows by one per slot use; echoed in the reply */
	le32_t incarn;    /* sender's incarnation, exchanged at connect */
	le32_t dst_incarn; /* receiver's, as the sender knows it; a mismatch answers -ESTALE */
	le32_t epoch;     /* membership epoch that the sender believes in */
	le32_t status;    /* reply: 0 or a negative errno as two's complement; 0 in a request */
	le32_t timeout_ms; /* request: time left when it was sent; 0 = none.  0 in a reply */
	le32_t reserved;  /* zero on send, ignored on receive */
};
static_assert(sizeof(struct rpc_hdr_wire) == 48, "rpc_hdr is ABI");
static_assert(offsetof(struct rpc_hdr_wire, incarn) == 24, "rpc_hdr is ABI");

#define RPC_IMM_REPLY      (1u << 31)
#define RPC_IMM_SLOT_SHIFT 20
#define RPC_IMM_SLOT_MASK  0x7ffu
#define RPC_IMM_LEN_MASK   0xfffffu

/* Private data of REQ and REP: who is calling and where its ring is. */
struct rpc_conn_wire {
	le32_t magic; /* RPC_CONN_MAGIC */
	uint8_t version;
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
	le32_t reserved2;
};
static_assert(sizeof(struct rpc_conn_wire) == 48, "rpc_conn is ABI");
#define RPC_CONN_MAGIC 0x41525354u /* "TSRA" */
