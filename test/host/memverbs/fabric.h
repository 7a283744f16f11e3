/* SPDX-License-Identifier: MIT */
/*
 * The frames between the nodes of a simulated cluster and its fabric.
 *
 * A stream socket pair per node process carries them; the fabric runs in the test's process.
 *
 * Ordering:	frames of one (source, destination, service level) keep their order, whatever
 *		delays are set.
 */
#pragma once

#include <lib/types.h>

#define FAB_MAX_PAYLOAD (1u << 20)
#define FAB_MAX_NODES   16
#define FAB_NR_SL       4 /* service levels */

enum fab_type {
	FAB_WRITE = 1, /* RC: seq, raddr, rkey, flags, imm; payload is the data */
	FAB_READ,      /* RC: seq, raddr, rkey, imm: how many bytes */
	FAB_ACK,       /* RC: seq, status of it; of a READ: payload is the data */
	FAB_UD,        /* datagram: dst_qpn, rkey is its Q_Key; payload is what was sent */
	FAB_BREAK,     /* from the fabric: queue pair dst_qpn to ERR, 0 = all to node src */
	FAB_CMD,       /* payload: a command line */
	FAB_CMD_REPLY, /* seq: its result */
};

enum fab_flags {
	FAB_F_IMM = 1,
	FAB_F_SEND = 2, /* of a FAB_WRITE: a SEND, which has no payload */
};

struct fab_hdr {
	uint32_t len; /* payload bytes */
	uint16_t type;
	uint16_t src; /* node ids, which are the LIDs, too */
	uint16_t dst;
	uint16_t flags;
	uint32_t sl;
	uint32_t src_qpn;
	uint32_t dst_qpn;
	uint32_t rkey;
	uint32_t imm;
	uint32_t status; /* enum rdma_wc_status */
	uint64_t raddr;
	uint64_t seq;
};
