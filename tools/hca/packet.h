/* SPDX-License-Identifier: MIT */
/*
 * HCA model: the headers of packets, as InfiniBand and RoCE version 2 have them.
 *
 * They are the model's own description: layout.h says why the driver has another.
 */
#pragma once

#include "util.h"

/* Local route header */
struct ib_lrh {
	uint8_t vl_version;
	uint8_t sl_next; /* service level << 4; LNH_... */
	be16_t dlid;
	be16_t len;
	be16_t slid;
} __packed;
static_assert(sizeof(struct ib_lrh) == 8, "ib_lrh is wire layout");
#define LNH_MASK  3u
#define LNH_LOCAL 2u
#define LNH_GRH   3u

/* Global route header */
struct ib_grh {
	be32_t version_tclass_flow;
	be16_t len;
	uint8_t next, hop_limit;
	uint8_t sgid[16], dgid[16];
} __packed;
static_assert(sizeof(struct ib_grh) == 40, "ib_grh is wire layout");

/* Base transport header */
struct ib_bth {
	uint8_t opcode;
	uint8_t flags; /* BTH_..., bytes of padding << 4 */
	be16_t pkey;
	be32_t dqpn; /* the upper byte is variable */
	be32_t psn;  /* bit 31: acknowledge */
} __packed;
static_assert(sizeof(struct ib_bth) == 12, "ib_bth is wire layout");
#define BTH_SOLICITED 0x80u
#define BTH_MIGRATED  0x40u

/* Datagram header */
struct ib_deth {
	be32_t qkey;
	be32_t src_qpn;
} __packed;
static_assert(sizeof(struct ib_deth) == 8, "ib_deth is wire layout");

struct eth_hdr {
	uint8_t dst[6], src[6];
	be16_t type;
} __packed;
static_assert(sizeof(struct eth_hdr) == 14, "eth_hdr is wire layout");

struct ip_hdr {
	uint8_t version_len, tos;
	be16_t len;
	be16_t id, fragment;
	uint8_t ttl, protocol;
	be16_t checksum;
	uint8_t src[4], dst[4];
} __packed;
static_assert(sizeof(struct ip_hdr) == 20, "ip_hdr is wire layout");

struct udp_hdr {
	be16_t src, dst;
	be16_t len;
	be16_t checksum;
} __packed;
static_assert(sizeof(struct udp_hdr) == 8, "udp_hdr is wire layout");

/* The headers that every captured packet begins with. */
struct roce_hdr {
	struct eth_hdr eth;
	struct ip_hdr ip;
	struct udp_hdr udp;
	struct ib_bth bth;
} __packed;
static_assert(sizeof(struct roce_hdr) == 54, "roce_hdr is wire layout");
