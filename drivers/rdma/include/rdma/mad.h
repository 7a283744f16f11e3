/* SPDX-License-Identifier: MIT */
/*
 * Management datagrams (MADs) on QP1, the general service interface.
 *
 * Flow:	a user registers an agent for one management class on a port; MADs of that class are
 *		handed to its receive function; mad_send() sends one to QP1 of another port.
 * Context:	receive functions run in the MAD thread of the device and may sleep briefly.
 * Failure:	UD is unreliable: a MAD may be lost, and the user retries (CM and SA both do).
 * See:		InfiniBand Architecture Specification volume 1, chapter 13.
 */
#pragma once

#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <rdma/verbs.h>

#define MAD_LEN 256

enum mad_class {
	MAD_CLASS_SA = 0x03,
	MAD_CLASS_CM = 0x07,
};

enum mad_method {
	MAD_METHOD_GET = 0x01,
	MAD_METHOD_SET = 0x02,
	MAD_METHOD_SEND = 0x03,
	MAD_METHOD_GET_RESP = 0x81,
};

/* The common header: first 24 bytes of every MAD. */
struct mad_hdr_wire {
	uint8_t base_version; /* 1 */
	uint8_t mgmt_class;
	uint8_t class_version;
	uint8_t method;
	be16_t status;
	be16_t class_specific;
	be64_t tid;
	be16_t attr_id;
	be16_t reserved;
	be32_t attr_mod;
};
static_assert(sizeof(struct mad_hdr_wire) == 24, "MAD header is ABI");

struct mad_agent;

/* @mad: MAD_LEN bytes from a peer, hostile, valid during the call.  @from: where to reply to. */
typedef void (*mad_recv_fn)(void *arg, const void *mad, const struct rdma_addr *from,
			    uint32_t src_qpn);

/* -EBUSY when the class is taken on that port. */
struct mad_agent *mad_agent_register(struct rdma_device *dev, uint8_t port, uint8_t mgmt_class,
				     mad_recv_fn recv, void *arg);
void mad_agent_unregister(struct mad_agent *agent); /* no receive runs once it has returned */

/* Copy and send one MAD to QP1 behind @to. May sleep for a send slot. */
int mad_send(struct mad_agent *agent, const struct rdma_addr *to, const void *mad) __must_check;
