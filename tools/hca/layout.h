/* SPDX-License-Identifier: MIT */
/*
 * HCA model: the layout of what the device and its driver read in memory, as
 * packed big-endian structures.
 *
 * The driver has a description of its own (drivers/rdma/mlx4).  The two are apart
 * on purpose: each was written from the documents and from what Linux's driver
 * does, so a wrong offset in one shows as soon as driver and model meet.  A header
 * that both include would be wrong for both and pass every test of ours.  For the
 * same reason the unit tests (fixture.c, *_test.c) write raw offsets.
 *
 * Limits:	only what the model reads or writes has a name.  A reserved field is
 *		named for its offset and kept as the driver wrote it.
 * See:		regs.h for the values of the fields; mad.h for management datagrams
 */
#pragma once

#include "util.h"

#define HW_SIZE(type, size) \
	static_assert(sizeof(struct type) == (size), #type " is hardware layout")
#define HW_AT(type, field, at) \
	static_assert(offsetof(struct type, field) == (at), #type " is hardware layout")

/* ---- commands ---- */

/* The host command register. */
struct hw_hcr {
	be64_t in_param;
	be32_t in_mod;
	be64_t out_param;
	be16_t token;
	be16_t rsvd16;
	be32_t word; /* status, GO, EVENT, opcode modifier, opcode */
} __packed;
HW_SIZE(hw_hcr, 0x1c);
HW_AT(hw_hcr, word, 0x18);

struct hw_query_fw {
	be16_t nr_pages;
	be16_t major, subminor, minor; /* in this order */
	be16_t rsvd08;
	be16_t cmd_revision;
	uint8_t rsvd0c[3];
	uint8_t log_max_cmd;
	uint8_t rsvd10[16];
	be64_t clr_int;
	be64_t rsvd28;
	be64_t err_buf;
	be32_t err_dwords;
	uint8_t rsvd3c[20];
	be64_t clock;
} __packed;
HW_SIZE(hw_query_fw, 0x58);
HW_AT(hw_query_fw, clr_int, 0x20);
HW_AT(hw_query_fw, err_dwords, 0x38);

/* One record of MAP_FA, MAP_ICM_AUX and MAP_ICM. */
struct hw_page_record {
	be64_t virt;
	be64_t phys_log; /* log2 of the number of pages in bits 5..0 */
} __packed;
HW_SIZE(hw_page_record, 16);

struct hw_mod_stat_cfg {
	uint8_t rsvd00[0x14];
	be32_t guid_hi;
	be32_t rsvd18;
	be32_t guid_lo;
} __packed;
HW_SIZE(hw_mod_stat_cfg, 0x20);

struct hw_dev_cap {
	uint8_t rsvd00[16];
	uint8_t log_max_srq_wqes;
	uint8_t log_max_wqes;
	uint8_t log_rsvd_qp;
	uint8_t log_max_qp;
	uint8_t log_rsvd_srq; /* upper half */
	uint8_t log_max_srq;
	uint8_t rsvd16[3];
	uint8_t log_max_cqe;
	uint8_t log_rsvd_cq;
	uint8_t log_max_cq;
	uint8_t rsvd1c;
	uint8_t log_max_mpt;
	uint8_t log_rsvd_eq;
	uint8_t log_max_eq;
	uint8_t log_rsvd_mtt; /* upper half */
	uint8_t rsvd21;
	uint8_t log_rsvd_mpt;
	uint8_t rsvd23[6];
	uint8_t log_max_reads_req; /* reads and atomics outstanding, as requester */
	uint8_t rsvd2a;
	uint8_t log_max_reads_res; /* and as responder */
	uint8_t rsvd2c[3];
	uint8_t log_max_rdma;
	uint8_t rsvd30[5];
	uint8_t ack_delay;
	uint8_t rsvd36;
	uint8_t vl_ports; /* virtual lanes, ports */
	uint8_t log_max_msg;
	uint8_t rsvd39[7];
	be32_t flags_hi, flags_lo;
	uint8_t rsvd_uar; /* upper half */
	uint8_t log_uar_mib;
	uint8_t rsvd4a;
	uint8_t log_min_page;
	uint8_t bf; /* bit 7: BlueFlame is there */
	uint8_t log_bf_reg;
	uint8_t log_bf_regs;
	uint8_t log_bf_pages;
	uint8_t rsvd50;
	uint8_t max_sq_sg;
	be16_t max_sq_desc;
	uint8_t rsvd54;
	uint8_t max_rq_sg;
	be16_t max_rq_desc;
	uint8_t rsvd58[9];
	uint8_t log_qp_per_mcg;
	uint8_t rsvd62;
	uint8_t log_max_mcg;
	uint8_t rsvd_pd; /* upper half */
	uint8_t log_max_pd;
	uint8_t rsvd66[26];
	be16_t size_rdmarc, size_qpc, size_auxc, size_altc, size_eqc, size_cqc, size_srqc;
	be16_t size_cmpt, size_mtt, size_dmpt;
	uint8_t rsvd94[12];
	be64_t max_icm;
} __packed;
HW_SIZE(hw_dev_cap, 0xa8);
HW_AT(hw_dev_cap, log_max_eq, 0x1f);
HW_AT(hw_dev_cap, log_max_rdma, 0x2f);
HW_AT(hw_dev_cap, flags_hi, 0x40);
HW_AT(hw_dev_cap, max_sq_sg, 0x51);
HW_AT(hw_dev_cap, log_qp_per_mcg, 0x61);
HW_AT(hw_dev_cap, size_dmpt, 0x92);

/* A base address in ICM, a multiple of 32, with log2 of the number of entries in bits 4..0. */
typedef be64_t hw_table;

struct hw_init_hca {
	uint8_t version;
	uint8_t rsvd01[11];
	be16_t clock_mhz; /* QUERY_HCA */
	uint8_t rsvd0e[0x22];
	hw_table qpc;
	be64_t rsvd38[2];
	hw_table srqc;
	hw_table cqc;
	be64_t rsvd58;
	hw_table altc;
	be64_t rsvd68;
	hw_table auxc;
	be64_t rsvd78;
	hw_table eqc;
	be64_t rsvd88;
	hw_table rdmarc;
	uint8_t rsvd98[0x28];
	be64_t mcg;
	uint8_t rsvdc8[11];
	uint8_t log_mcg_entry;
	uint8_t rsvdd4[3];
	uint8_t log_mcg_hash;
	uint8_t rsvdd8[3];
	uint8_t log_mcg;
	uint8_t rsvddc[20];
	be64_t dmpt;
	uint8_t rsvdf8[3];
	uint8_t log_mpt;
	uint8_t rsvdfc[4];
	be64_t mtt;
	be64_t cmpt;
	uint8_t rsvd110[0x1a];
	uint8_t log_uars;
	uint8_t log_uar_page; /* less 12 */
	uint8_t rsvd12c[212];
} __packed;
HW_SIZE(hw_init_hca, 512);
HW_AT(hw_init_hca, qpc, 0x30);
HW_AT(hw_init_hca, eqc, 0x80);
HW_AT(hw_init_hca, mcg, 0xc0);
HW_AT(hw_init_hca, log_mcg_entry, 0xd3);
HW_AT(hw_init_hca, dmpt, 0xf0);
HW_AT(hw_init_hca, log_uars, 0x12a);

struct hw_adapter {
	uint8_t rsvd00[0xf0];
	uint8_t board[16]; /* text with each dword's bytes swapped */
} __packed;
HW_SIZE(hw_adapter, 0x100);

struct hw_query_port {
	uint8_t link; /* bit 7: up; bit 0: InfiniBand */
	uint8_t mtu;
	uint8_t rsvd02[4];
	uint8_t width;
	uint8_t log_gids_pkeys;
	uint8_t rsvd08[2];
	uint8_t log_macs_vlans;
	uint8_t vl;
} __packed;
HW_SIZE(hw_query_port, 12);

struct hw_set_port {
	be32_t flags;
	be32_t cap_mask;
} __packed;
HW_SIZE(hw_set_port, 8);

/* WRITE_MTT and READ_MTT. */
struct hw_mtt_list {
	be64_t first; /* address of the first entry */
	be64_t rsvd08;
	be64_t entry[510]; /* address of a page; bit 0: present */
} __packed;
HW_SIZE(hw_mtt_list, 4096);

/* ---- contexts ---- */

/* A buffer, by its MTT entries. */
struct hw_buf {
	uint8_t page_shift; /* less 12 */
	uint8_t rsvd01[2];
	uint8_t mtt_hi;
	be32_t mtt_lo; /* a multiple of 8 */
} __packed;
HW_SIZE(hw_buf, 8);

struct hw_eqc {
	uint8_t rsvd00[2];
	uint8_t state; /* lower half: EQ_ARMED, EQ_FIRED */
	uint8_t rsvd03[9];
	uint8_t log_size;
	uint8_t rsvd0d[10];
	uint8_t vector;
	struct hw_buf buf;
	be64_t rsvd20;
	be32_t consumer, producer;
	uint8_t rsvd30[16];
} __packed;
HW_SIZE(hw_eqc, 64);
HW_AT(hw_eqc, log_size, 0x0c);
HW_AT(hw_eqc, buf, 0x18);
HW_AT(hw_eqc, consumer, 0x28);

struct hw_cqc {
	be32_t flags;
	be64_t rsvd04;
	uint8_t log_size;
	uint8_t rsvd0d[3];
	be16_t period_us, max_count;
	uint8_t rsvd14[3];
	uint8_t eqn;
	struct hw_buf buf;
	be32_t notified, solicited;
	be32_t rsvd28;
	be32_t producer;
	be64_t rsvd30;
	be64_t db;
} __packed;
HW_SIZE(hw_cqc, 64);
HW_AT(hw_cqc, log_size, 0x0c);
HW_AT(hw_cqc, eqn, 0x17);
HW_AT(hw_cqc, producer, 0x2c);

struct hw_srqc {
	uint8_t log_size; /* lower half */
	uint8_t rsvd01[3];
	uint8_t log_stride; /* less 4 */
	uint8_t rsvd05[11];
	struct hw_buf buf;
	be32_t pd;
	be16_t limit, taken;
	be64_t rsvd20;
	be64_t db;
	be64_t rsvd30[2];
} __packed;
HW_SIZE(hw_srqc, 64);
HW_AT(hw_srqc, buf, 0x10);
HW_AT(hw_srqc, db, 0x28);

struct hw_path {
	uint8_t rsvd00[3];
	uint8_t pkey_index;
	uint8_t rsvd04;
	uint8_t grh_mlid; /* bit 7: GRH */
	be16_t dlid;
	uint8_t ack_timeout; /* upper five bits */
	uint8_t rsvd09[7];
	uint8_t dgid[16];
	uint8_t sched; /* service level in bits 5..2 */
	uint8_t rsvd21[11];
} __packed;
HW_SIZE(hw_path, 0x2c);
HW_AT(hw_path, dgid, 0x10);

struct hw_qpc {
	be32_t state; /* bits 31..28; type in bits 19..16 */
	be32_t pd;
	uint8_t mtu_msg; /* MTU, log2 of the longest message */
	uint8_t rq_size; /* log2 of entries, of their stride */
	uint8_t sq_size;
	uint8_t rsvd0b[9];
	be32_t remote_qpn;
	struct hw_path path, alt_path;
	be32_t params1;
	be32_t rsvd74;
	be32_t send_psn;
	be32_t send_cqn;
	be64_t rsvd80[2];
	be32_t params2;
	be32_t rnr_psn; /* RNR timer in bits 28..24, expected PSN */
	be32_t rsvd98;
	be32_t recv_cqn;
	be64_t rq_db;
	be32_t qkey;
	be32_t srq; /* bit 24: it has one */
	be32_t rsvdb0;
	be16_t rq_head, sq_head;
	be64_t rsvdb8[2];
	struct hw_buf buf;
	be64_t rsvdd0[5];
} __packed;
HW_SIZE(hw_qpc, 0xf8);
HW_AT(hw_qpc, path, 0x18);
HW_AT(hw_qpc, params1, 0x70);
HW_AT(hw_qpc, params2, 0x90);
HW_AT(hw_qpc, rq_db, 0xa0);
HW_AT(hw_qpc, rq_head, 0xb4);
HW_AT(hw_qpc, buf, 0xc8);

/* The mailbox of a transition of a QP. */
struct hw_qp_change {
	be32_t opt; /* optional parameters that it names */
	be32_t rsvd04;
	struct hw_qpc ctx;
} __packed;
HW_SIZE(hw_qp_change, 0x100);

/* A memory region. */
struct hw_mpt {
	be32_t flags;
	be32_t rsvd04;
	be32_t index;
	be32_t pd;
	be64_t start, len;
	uint8_t rsvd20[12];
	be64_t mtt; /* 40 bits, a multiple of 8 */
	be32_t rsvd34;
	be32_t page_shift;
	be32_t rsvd3c;
} __packed;
HW_SIZE(hw_mpt, 64);
HW_AT(hw_mpt, mtt, 0x2c);

struct hw_mcg {
	be32_t next; /* index << 6 */
	be32_t count;
	be64_t rsvd08;
	uint8_t gid[16];
	be32_t qp[248];
} __packed;
HW_SIZE(hw_mcg, 1024);
HW_AT(hw_mcg, qp, 0x20);

/* ---- events ---- */

struct hw_eqe {
	uint8_t rsvd00;
	uint8_t type;
	uint8_t rsvd02;
	uint8_t subtype;
	union {
		be32_t number; /* of the queue */
		uint8_t data[24];
	} __packed;
	uint8_t rsvd1c[3];
	uint8_t owner; /* stored last */
} __packed;
HW_SIZE(hw_eqe, 32);
HW_AT(hw_eqe, data, 4);

/* The contents of an entry's data[], by type. */
struct hw_ev_cmd {
	be16_t rsvd00;
	be16_t token;
	uint8_t rsvd04[7];
	uint8_t status;
	be64_t out;
} __packed;
HW_SIZE(hw_ev_cmd, 20);
HW_AT(hw_ev_cmd, status, 0x0f - 4);

struct hw_ev_cq {
	be32_t cqn;
	uint8_t rsvd04[7];
	uint8_t syndrome;
} __packed;
HW_SIZE(hw_ev_cq, 12);

struct hw_ev_port {
	be64_t rsvd00;
	be32_t port; /* << 28 */
} __packed;
HW_SIZE(hw_ev_port, 12);

struct hw_ev_port_mng {
	uint8_t rsvd00[3];
	uint8_t port;
	be16_t sm_lid, lid;
	be32_t changed;
	be32_t rsvd0c;
	be64_t gid_prefix;
} __packed;
HW_SIZE(hw_ev_port_mng, 24);

/* ---- completions and work queue entries ---- */

struct hw_cqe {
	be32_t qpn;
	be32_t imm;
	be32_t src_qpn; /* bit 31: GRH */
	be16_t sl;      /* << 12 */
	be16_t slid;
	be32_t rsvd10;
	be32_t len;
	be16_t wqe;
	uint8_t rsvd1a;
	uint8_t syndrome;
	uint8_t rsvd1c[3];
	uint8_t owner; /* bit 7: owner, bit 6: send, opcode; stored last */
} __packed;
HW_SIZE(hw_cqe, 32);
HW_AT(hw_cqe, len, 0x14);

struct hw_wqe_ctrl {
	be32_t owner_op; /* bit 31: owner; index in bits 23..8 of a BlueFlame copy; opcode */
	be32_t qpn_size; /* QP number << 8; bit 6: fence; size in 16-byte units */
	be32_t flags;
	union {
		be32_t imm;
		be16_t rlid; /* special QPs */
	} __packed;
} __packed;
HW_SIZE(hw_wqe_ctrl, 16);

struct hw_wqe_raddr {
	be64_t addr;
	be32_t rkey;
	be32_t rsvd0c;
} __packed;
HW_SIZE(hw_wqe_raddr, 16);

/* The masks are there in masked operations only. */
struct hw_wqe_atomic {
	be64_t swap_add, compare;
	be64_t swap_mask, compare_mask;
} __packed;
HW_SIZE(hw_wqe_atomic, 32);

/* An address vector. */
struct hw_av {
	be32_t port_pd;
	uint8_t rsvd04;
	uint8_t grh_slid; /* bit 7: GRH; low bits of the source LID */
	be16_t dlid;
	uint8_t rsvd08;
	uint8_t gid_index;
	uint8_t stat_rate;
	uint8_t hop_limit;
	be32_t sl_tclass_flow;
	uint8_t dgid[16];
} __packed;
HW_SIZE(hw_av, 32);
HW_AT(hw_av, sl_tclass_flow, 0x0c);

struct hw_wqe_ud {
	struct hw_av av;
	be32_t dqpn;
	be32_t qkey;
	be64_t rsvd28;
} __packed;
HW_SIZE(hw_wqe_ud, 48);

/* Bit 31 of @count: that many bytes follow in place of the rest. */
struct hw_wqe_data {
	be32_t count;
	be32_t lkey;
	be64_t addr;
} __packed;
HW_SIZE(hw_wqe_data, 16);

/* The beginning of a receive WQE of a shared queue. */
struct hw_srq_wqe {
	be16_t rsvd00;
	be16_t next;
	uint8_t rsvd04[12];
} __packed;
HW_SIZE(hw_srq_wqe, 16);

#undef HW_SIZE
#undef HW_AT
