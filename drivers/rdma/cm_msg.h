/* SPDX-License-Identifier: MIT */
/*
 * Connection management messages: encode and decode.  Pure.
 *
 *	   0                                24                                  256
 *	  +--------------------------------+-------------------------------------+
 *	  | MAD header: class 7, Send      | comm ids, per-message, private data |
 *	  +--------------------------------+-------------------------------------+
 *
 * Decoding writes the result only when everything has been checked.
 * See:		InfiniBand Architecture Specification volume 1, section 12.6; docs/protocol/cm.md
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>
#include <rdma/cm.h>
#include <rdma/mad.h>
#include <rdma/verbs.h>

enum cm_attr {
	CM_REQ = 0x0010,
	CM_MRA = 0x0011,
	CM_REJ = 0x0012,
	CM_REP = 0x0013,
	CM_RTU = 0x0014,
	CM_DREQ = 0x0015,
	CM_DREP = 0x0016,
};

/* More of enum cm_rej_reason, for the connection manager itself. */
#define CM_REJ_INVALID_COMM_ID   6
#define CM_REJ_INVALID_TRANSPORT 9
#define CM_REJ_INVALID_MTU       26

#define CM_PRIVATE_MAX 224

struct cm_req {
	uint64_t service_id;
	uint64_t ca_guid;
	uint32_t qpn;
	uint32_t psn; /* Starting PSN: the first that the sender of this message expects */
	uint8_t responder_resources; /* READs and atomics that the sender can take */
	uint8_t initiator_depth;     /* and those that it will start */
	uint8_t remote_cm_timeout, local_cm_timeout; /* 4.096 us * 2^n */
	uint8_t retry_cnt, rnr_retry, max_cm_retries;
	uint8_t transport; /* 0 = RC */
	uint8_t path_mtu;  /* enum rdma_mtu */
	uint8_t ack_timeout;
	uint8_t sl;
	uint16_t pkey;
	uint16_t local_lid, remote_lid;
	struct rdma_gid local_gid, remote_gid;
};

struct cm_rep {
	uint64_t ca_guid;
	uint32_t qpn;
	uint32_t psn; /* as in a REQ */
	uint8_t responder_resources, initiator_depth;
	uint8_t ack_delay;
	uint8_t rnr_retry;
};

struct cm_msg {
	uint16_t attr; /* enum cm_attr */
	uint64_t tid;
	uint32_t local_id;  /* the sender's */
	uint32_t remote_id; /* not in REQ */
	union {
		struct cm_req req;
		struct cm_rep rep;
		struct {
			uint8_t msg; /* 0 REQ, 1 REP, 2 other */
			uint16_t reason;
		} rej;
		struct {
			uint8_t msg;
			uint8_t timeout; /* 4.096 us * 2^n */
		} mra;
		uint32_t dreq_qpn; /* the receiver's queue pair */
	};
	uint8_t private_len;
	uint8_t private_data[CM_PRIVATE_MAX];
};

/* Bytes of private data that @attr carries, 0 for an unknown one.  For tests. */
uint32_t cm_private_len(uint16_t attr);
/* @mad: MAD_LEN bytes.  Private data beyond msg->private_len is zero. */
void cm_msg_encode(const struct cm_msg *msg, void *mad);
/* -EPROTO malformed, -EOPNOTSUPP another class version, method or attribute. */
int cm_msg_decode(const void *mad, struct cm_msg *msg) __must_check;
