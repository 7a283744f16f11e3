/* SPDX-License-Identifier: MIT */
/*
 * HCA model: layout of management datagrams (InfiniBand specification, volume 1).
 *
 * The driver's description is drivers/rdma/include/rdma/mad.h; layout.h says why the two are apart.
 */
#pragma once

#include "util.h"

#define MAD_SIZE      256u
#define SMP_DATA_LEN  64u
#define SMP_DIRECTION 0x8000

/* The header of all classes; hop pointer and count are those of directed routes. */
struct mad_hdr {
	uint8_t version, class, class_version, method;
	be16_t status;
	uint8_t hop_ptr, hop_cnt;
	be64_t tid;
	be16_t attr;
	be16_t rsvd12;
	be32_t mod;
} __packed;
static_assert(sizeof(struct mad_hdr) == 24, "mad_hdr is wire layout");
static_assert(offsetof(struct mad_hdr, attr) == 16, "mad_hdr is wire layout");

/* Subnet management; performance management has its data at the same place. */
struct smp {
	struct mad_hdr hdr;
	be64_t m_key;
	uint8_t rsvd20[32];
	uint8_t data[SMP_DATA_LEN];
	uint8_t path[64], back[64];
} __packed;
static_assert(sizeof(struct smp) == MAD_SIZE, "smp is wire layout");
static_assert(offsetof(struct smp, data) == 64, "smp is wire layout");
static_assert(offsetof(struct smp, path) == 128, "smp is wire layout");

struct pma_mad {
	struct mad_hdr hdr;
	uint8_t rsvd18[40];
	uint8_t data[192];
} __packed;
static_assert(sizeof(struct pma_mad) == MAD_SIZE, "pma_mad is wire layout");

/* Subnet administration, with the header of segmented transfers (RMPP). */
struct sa_mad {
	struct mad_hdr hdr;
	uint8_t rmpp_version, rmpp_type, rmpp_flags, rmpp_status;
	be32_t segment;
	be32_t payload;
	be64_t sm_key;
	be16_t attr_offset; /* size of a record, in units of 8 bytes */
	be16_t rsvd2e;
	be64_t mask;
	uint8_t data[200];
} __packed;
static_assert(sizeof(struct sa_mad) == MAD_SIZE, "sa_mad is wire layout");
static_assert(offsetof(struct sa_mad, attr_offset) == 44, "sa_mad is wire layout");
static_assert(offsetof(struct sa_mad, data) == 56, "sa_mad is wire layout");

struct node_info {
	uint8_t base_version, class_version, type, nr_ports;
	be64_t system_guid, node_guid, port_guid;
	be16_t nr_pkeys, device;
	be32_t revision;
	uint8_t port, vendor[3];
} __packed;
static_assert(sizeof(struct node_info) == 40, "node_info is wire layout");

struct port_info {
	be64_t m_key, gid_prefix;
	be16_t lid, sm_lid;
	be32_t cap_mask;
	be16_t diag, m_key_lease;
	uint8_t port;
	uint8_t width_enabled, width_supported, width_active;
	uint8_t speed_state;
	uint8_t phys_down_state;
	uint8_t m_key_lmc;
	uint8_t speeds;
	uint8_t mtu_sm_sl;
	uint8_t vl_cap;
	uint8_t rsvd26[3];
	uint8_t mtu_cap;
	uint8_t rsvd2a[8];
	uint8_t nr_gids;
	uint8_t subnet_timeout;
} __packed;
static_assert(sizeof(struct port_info) == 52, "port_info is wire layout");
static_assert(offsetof(struct port_info, mtu_cap) == 41, "port_info is wire layout");

struct switch_info {
	be16_t linear_cap, random_cap, multicast_cap, linear_top;
} __packed;

struct sm_info {
	be64_t guid, key;
	be32_t act_count;
	uint8_t prio_state;
} __packed;

struct class_port_info {
	uint8_t base_version, class_version;
	be16_t cap_mask;
	uint8_t rsvd04[3];
	uint8_t response_time;
} __packed;
static_assert(sizeof(struct class_port_info) == 8, "class_port_info is wire layout");

/* Behind the 24 bytes of selectors and error counters, which stay 0. */
struct port_counters {
	uint8_t rsvd00[24];
	be32_t tx_words, rx_words, tx_packets, rx_packets;
} __packed;

struct port_counters_x {
	uint8_t rsvd00[8];
	be64_t tx_words, rx_words, tx_packets, rx_packets;
} __packed;

struct path_rec {
	be64_t service_id;
	uint8_t dgid[16], sgid[16];
	be16_t dlid, slid;
	be32_t hop_flow;
	uint8_t tclass;
	uint8_t reversible_numb;
	be16_t pkey;
	be16_t qos_sl;
	uint8_t mtu, rate, life;
	uint8_t preference;
	uint8_t rsvd3a[6];
} __packed;
static_assert(sizeof(struct path_rec) == 64, "path_rec is wire layout");
static_assert(offsetof(struct path_rec, dlid) == 40, "path_rec is wire layout");
static_assert(offsetof(struct path_rec, mtu) == 54, "path_rec is wire layout");

struct mc_rec {
	uint8_t mgid[16], port_gid[16];
	be32_t qkey;
	be16_t mlid;
	uint8_t mtu, tclass;
	be16_t pkey;
	uint8_t rate, life;
	be32_t sl_flow_hop;
	uint8_t scope_state; /* scope, join state */
	uint8_t rsvd31[3];
} __packed;
static_assert(sizeof(struct mc_rec) == 52, "mc_rec is wire layout");
static_assert(offsetof(struct mc_rec, scope_state) == 48, "mc_rec is wire layout");

#define RMPP_DATA   1 /* type; 2 ACK, 3 STOP, 4 ABORT */
#define RMPP_ACTIVE BIT(0)
#define RMPP_FIRST  BIT(1)
#define RMPP_LAST   BIT(2)

#define CLASS_SMP_LID    0x01
#define CLASS_SMP_ROUTED 0x81
#define CLASS_SA         0x03
#define CLASS_PMA        0x04

#define METHOD_GET       0x01
#define METHOD_SET       0x02
#define METHOD_GET_TABLE 0x12
#define METHOD_DELETE    0x15
#define METHOD_RESPONSE  0x80

#define MAD_ST_BAD_METHOD 0x08 /* method and attribute do not go together */
#define MAD_ST_BAD_ATTR   0x0c
#define MAD_ST_BAD_VALUE  0x1c

#define ATTR_CLASS_PORT_INFO 0x01
#define ATTR_NODE_DESC       0x10
#define ATTR_NODE_INFO       0x11
#define ATTR_SWITCH_INFO     0x12
#define ATTR_GUID_INFO       0x14
#define ATTR_PORT_INFO       0x15
#define ATTR_PKEY_TABLE      0x16
#define ATTR_SL2VL           0x17
#define ATTR_VL_ARB          0x18
#define ATTR_SM_INFO         0x20
#define ATTR_EXT_PORT_INFO   0xff90
#define ATTR_PORT_COUNTERS   0x12
#define ATTR_PORT_COUNTERS_X 0x1d
#define ATTR_PATH_RECORD     0x35
#define ATTR_MC_MEMBER       0x38
