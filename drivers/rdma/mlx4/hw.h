/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: the structures that the device and its driver share in memory.  Hardware facts
 * only.
 *
 * Invariants:	every number is big-endian; every structure is packed, because some numbers are
 *		not aligned.  A comment at a field gives its byte offset, as data sheets do.
 *		Fields that share a number have a mask (X_MASK, a single bit without suffix) and
 *		a shift (_SH). The HCA model (tools/hca) has a description of its own, written
 *		from the facts by another author.  The two must stay apart: only while they are
 *		independent does a wrong offset in one of them show as a failure against the
 *		other.  Linux's driver, which runs on the model too, is the reference for both.
 * Limits:	fields that the driver neither reads nor writes are named only where that helps
 *		to find the way; the rest is reserved space, zero when software writes it.
 * See:		regs.h for registers, opcodes and event types; docs/drivers/mlx4.md.
 */
#pragma once

#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <lib/types.h>

#include "regs.h"

#define HW_SIZE(type, len) static_assert(sizeof(struct type) == (len), #type " is hardware layout")
#define HW_AT(type, field, off) \
	static_assert(offsetof(struct type, field) == (off), #type "." #field " is hardware layout")

/* --- replies to queries ----------------------------------------------------------------- */

/* QUERY_FW */
struct mlx4_hw_fw {
	be16_t nr_pages;        /* 00: of 4 KiB, which the firmware wants for itself */
	be16_t major;           /* 02 */
	be16_t subminor;        /* 04 */
	be16_t minor;           /* 06 */
	uint8_t reserved_08[2]; /* 09: PPF id */
	be16_t cmd_rev;         /* 0a: revision of the command interface */
	uint8_t reserved_0c[3];
	uint8_t log_max_cmds;    /* 0f */
	uint8_t reserved_10[32]; /* 20: clear-interrupt register */
	be64_t err_buf;          /* 30: offset in its BAR */
	be32_t err_buf_dwords;   /* 38 */
	uint8_t err_buf_bar;     /* 3c: FW_BAR_MASK */
	uint8_t reserved_3d[195];
} __packed;
HW_SIZE(mlx4_hw_fw, 256);
HW_AT(mlx4_hw_fw, cmd_rev, 0x0a);
HW_AT(mlx4_hw_fw, log_max_cmds, 0x0f);
HW_AT(mlx4_hw_fw, err_buf, 0x30);
HW_AT(mlx4_hw_fw, err_buf_bar, 0x3c);
#define FW_BAR_MASK    0xc0 /* counts pairs: a BAR of 64 bits takes two registers */
#define FW_BAR_SH      6
#define FW_CMD_REV_NEW 3 /* with QUERY_PORT, and INIT_PORT without a mailbox */

/* QUERY_DEV_CAP.  Many numbers are narrower than their byte: mask or shift as the comment says. */
struct mlx4_hw_dev_cap {
	uint8_t reserved_00[17];   /* 10: log2 of entries in a shared receive queue */
	uint8_t log_max_qp_wqes;   /* 11: 4:0 */
	uint8_t log_reserved_qps;  /* 12: 3:0 */
	uint8_t log_max_qps;       /* 13: 4:0 */
	uint8_t log_reserved_srqs; /* 14: 7:4 */
	uint8_t log_max_srqs;      /* 15: 4:0 */
	uint8_t reserved_16[3];
	uint8_t log_max_cqes;     /* 19: 4:0 */
	uint8_t log_reserved_cqs; /* 1a: 3:0 */
	uint8_t log_max_cqs;      /* 1b: 4:0 */
	uint8_t reserved_1c;
	uint8_t log_max_mpts;      /* 1d: 5:0 */
	uint8_t log_reserved_eqs;  /* 1e: 3:0 */
	uint8_t log_max_eqs;       /* 1f: 3:0 */
	uint8_t log_reserved_mtts; /* 20: 7:4 */
	uint8_t reserved_21;
	uint8_t log_reserved_mrws; /* 22: 3:0 */
	uint8_t reserved_23[6];
	uint8_t log_max_rd_requester; /* 29: 5:0 */
	uint8_t reserved_2a;
	uint8_t log_max_rd_responder; /* 2b: 5:0 */
	uint8_t reserved_2c[9];
	uint8_t ack_delay; /* 35: 4:0 */
	uint8_t reserved_36;
	uint8_t nr_ports;    /* 37: 3:0; 7:4 are virtual lanes */
	uint8_t log_max_msg; /* 38: 4:0 */
	uint8_t reserved_39[7];
	be64_t flags;          /* 40: CAP_* of regs.h */
	uint8_t reserved_uars; /* 48: 7:4 */
	uint8_t log_uar_mib;   /* 49: 5:0; log2 of the MiB of the doorbell area */
	uint8_t reserved_4a[2];
	uint8_t bf;             /* 4c: DEV_CAP_BF */
	uint8_t log_bf_reg_len; /* 4d: 4:0 */
	uint8_t log_bf_regs;    /* 4e: 5:0; registers of a page */
	uint8_t reserved_4f[2];
	uint8_t max_sq_sg;  /* 51 */
	be16_t max_sq_desc; /* 52 */
	uint8_t reserved_54;
	uint8_t max_rq_sg;  /* 55 */
	be16_t max_rq_desc; /* 56 */
	uint8_t reserved_58[11];
	uint8_t log_max_mcgs; /* 63 */
	uint8_t reserved_pds; /* 64: 7:4 */
	uint8_t log_max_pds;  /* 65: 5:0 */
	uint8_t reserved_66[26];
	be16_t rdmarc_len; /* 80: from here on bytes of one entry */
	be16_t qpc_len;    /* 82 */
	be16_t auxc_len;   /* 84 */
	be16_t altc_len;   /* 86 */
	be16_t eqc_len;    /* 88 */
	be16_t cqc_len;    /* 8a */
	be16_t srqc_len;   /* 8c */
	be16_t cmpt_len;   /* 8e */
	be16_t mtt_len;    /* 90 */
	be16_t dmpt_len;   /* 92 */
	uint8_t reserved_94[12];
	be64_t max_icm; /* a0: bytes */
	uint8_t reserved_a8[88];
} __packed;
HW_SIZE(mlx4_hw_dev_cap, 256);
HW_AT(mlx4_hw_dev_cap, log_max_qp_wqes, 0x11);
HW_AT(mlx4_hw_dev_cap, log_max_cqes, 0x19);
HW_AT(mlx4_hw_dev_cap, log_max_mpts, 0x1d);
HW_AT(mlx4_hw_dev_cap, log_reserved_mrws, 0x22);
HW_AT(mlx4_hw_dev_cap, log_max_rd_requester, 0x29);
HW_AT(mlx4_hw_dev_cap, log_max_rd_responder, 0x2b);
HW_AT(mlx4_hw_dev_cap, ack_delay, 0x35);
HW_AT(mlx4_hw_dev_cap, nr_ports, 0x37);
HW_AT(mlx4_hw_dev_cap, flags, 0x40);
HW_AT(mlx4_hw_dev_cap, bf, 0x4c);
HW_AT(mlx4_hw_dev_cap, max_sq_sg, 0x51);
HW_AT(mlx4_hw_dev_cap, max_rq_sg, 0x55);
HW_AT(mlx4_hw_dev_cap, log_max_mcgs, 0x63);
HW_AT(mlx4_hw_dev_cap, rdmarc_len, 0x80);
HW_AT(mlx4_hw_dev_cap, dmpt_len, 0x92);
HW_AT(mlx4_hw_dev_cap, max_icm, 0xa0);
#define DEV_CAP_3_0    0x0f
#define DEV_CAP_4_0    0x1f
#define DEV_CAP_5_0    0x3f
#define DEV_CAP_7_4_SH 4
#define DEV_CAP_BF     0x80

/* QUERY_PORT */
struct mlx4_hw_port_cap {
	uint8_t type;            /* 00: PORT_CAP_IB */
	uint8_t mtu_cap;         /* 01: PORT_CAP_MTU_MASK */
	uint8_t reserved_02[5];  /* 06: 3:0 width */
	uint8_t log_gids_pkeys;  /* 07 */
	uint8_t reserved_08[3];  /* 0a: VLANs and MAC addresses */
	uint8_t vl_cap;          /* 0b: PORT_CAP_VL_MASK */
	uint8_t reserved_0c[12]; /* 10: MAC address */
} __packed;
HW_SIZE(mlx4_hw_port_cap, 24);
HW_AT(mlx4_hw_port_cap, log_gids_pkeys, 0x07);
HW_AT(mlx4_hw_port_cap, vl_cap, 0x0b);
#define PORT_CAP_IB        0x01
#define PORT_CAP_MTU_MASK  0x0f
#define PORT_CAP_GIDS_SH   4
#define PORT_CAP_PKEY_MASK 0x0f
#define PORT_CAP_VL_MASK   0x0f

/* --- mailboxes of commands -------------------------------------------------------------- */

/* MOD_STAT_CFG */
struct mlx4_hw_mod_stat_cfg {
	uint8_t reserved_00[2];
	uint8_t set_log_page; /* 02: 1 = take the next field */
	uint8_t log_page;     /* 03: log2 of 4 KiB pages of the firmware's log */
} __packed;
HW_SIZE(mlx4_hw_mod_stat_cfg, 4);

/* One record of MAP_FA, MAP_ICM and MAP_ICM_AUX. */
struct mlx4_hw_map_record {
	be64_t virt;      /* 00: ICM address; MAP_ICM only */
	be64_t paddr_log; /* 08: naturally aligned, so log2 of its 4 KiB pages fits below */
} __packed;
HW_SIZE(mlx4_hw_map_record, 16);

/* INIT_HCA.  Bases marked "log" carry log2 of the number of entries in bits 4:0. */
struct mlx4_hw_init_hca {
	uint8_t version; /* 00 */
	uint8_t reserved_01[13];
	uint8_t cache_line; /* 0e: INIT_HCA_LINE_64 */
	uint8_t reserved_0f[5];
	be32_t flags; /* 14: INIT_HCA_CHECK_PORT */
	uint8_t reserved_18[24];
	be64_t qpc_base; /* 30: log */
	uint8_t reserved_38[16];
	be64_t srqc_base;       /* 48: log */
	be64_t cqc_base;        /* 50: log */
	uint8_t reserved_58[8]; /* 58, 5b: sizes of EQEs and CQEs; 0 = 32 bytes */
	be64_t altc_base;       /* 60 */
	uint8_t reserved_68[8];
	be64_t auxc_base; /* 70 */
	uint8_t reserved_78[8];
	be64_t eqc_base; /* 80: log */
	uint8_t reserved_88[8];
	be64_t rdmarc_base; /* 90: log, of entries per QP */
	uint8_t reserved_98[40];
	be64_t mcg_base; /* c0 */
	uint8_t reserved_c8[11];
	uint8_t log_mcg_len; /* d3 */
	uint8_t reserved_d4[3];
	uint8_t log_mcg_hash_len; /* d7: entries that a hash reaches */
	uint8_t reserved_d8[3];
	uint8_t log_mcgs; /* db */
	uint8_t reserved_dc[20];
	be64_t dmpt_base; /* f0 */
	uint8_t reserved_f8[3];
	uint8_t log_mpts; /* fb */
	uint8_t reserved_fc[4];
	be64_t mtt_base;  /* 100 */
	be64_t cmpt_base; /* 108 */
	uint8_t reserved_110[26];
	uint8_t log_uars;     /* 12a */
	uint8_t log_uar_page; /* 12b: log2 of 4 KiB pages */
	uint8_t reserved_12c[212];
} __packed;
HW_SIZE(mlx4_hw_init_hca, 512);
HW_AT(mlx4_hw_init_hca, cache_line, 0x0e);
HW_AT(mlx4_hw_init_hca, flags, 0x14);
HW_AT(mlx4_hw_init_hca, qpc_base, 0x30);
HW_AT(mlx4_hw_init_hca, srqc_base, 0x48);
HW_AT(mlx4_hw_init_hca, altc_base, 0x60);
HW_AT(mlx4_hw_init_hca, auxc_base, 0x70);
HW_AT(mlx4_hw_init_hca, eqc_base, 0x80);
HW_AT(mlx4_hw_init_hca, rdmarc_base, 0x90);
HW_AT(mlx4_hw_init_hca, mcg_base, 0xc0);
HW_AT(mlx4_hw_init_hca, log_mcg_len, 0xd3);
HW_AT(mlx4_hw_init_hca, log_mcg_hash_len, 0xd7);
HW_AT(mlx4_hw_init_hca, log_mcgs, 0xdb);
HW_AT(mlx4_hw_init_hca, dmpt_base, 0xf0);
HW_AT(mlx4_hw_init_hca, log_mpts, 0xfb);
HW_AT(mlx4_hw_init_hca, mtt_base, 0x100);
HW_AT(mlx4_hw_init_hca, log_uars, 0x12a);
#define INIT_HCA_VERSION    2
#define INIT_HCA_LINE_64    ((6 - 4) << 5 | 0x10) /* 7:5 = log2 of the line's bytes - 4 */
#define INIT_HCA_CHECK_PORT BIT(0)                /* of UD address vectors */

/* SET_PORT for InfiniBand */
struct mlx4_hw_set_port {
	be32_t what;     /* 00 */
	be32_t cap_mask; /* 04: PortInfo.CapabilityMask */
} __packed;
HW_SIZE(mlx4_hw_set_port, 8);
#define SET_PORT_MTU    BIT(22) /* the field below is valid */
#define SET_PORT_VL     BIT(21) /* likewise */
#define SET_PORT_MTU_SH 12
#define SET_PORT_VL_SH  4

/* --- contexts ---------------------------------------------------------------------------- */

/* Where a queue's buffer is: part of the contexts of EQs, CQs and QPs. */
struct mlx4_hw_buf {
	uint8_t log_page; /* 00: log2 of 4 KiB pages in a page of the buffer */
	uint8_t reserved_01[2];
	uint8_t mtt_addr_hi; /* 03: bits 39:32 of the offset from the MTT base */
	be32_t mtt_addr_lo;  /* 04: 31:3 */
} __packed;
HW_SIZE(mlx4_hw_buf, 8);
HW_AT(mlx4_hw_buf, mtt_addr_hi, 3);

/* Event queue: SW2HW_EQ */
struct mlx4_hw_eqc {
	be32_t flags; /* 00: EQC_STATE_* */
	uint8_t reserved_04[8];
	uint8_t log_eqes; /* 0c */
	uint8_t reserved_0d[10];
	uint8_t vector;         /* 17: MSI-X entry */
	struct mlx4_hw_buf buf; /* 18 */
	uint8_t reserved_20[8];
	be32_t consumer; /* 28 */
	be32_t producer; /* 2c */
	uint8_t reserved_30[16];
} __packed;
HW_SIZE(mlx4_hw_eqc, 64);
HW_AT(mlx4_hw_eqc, log_eqes, 0x0c);
HW_AT(mlx4_hw_eqc, vector, 0x17);
HW_AT(mlx4_hw_eqc, buf, 0x18);
HW_AT(mlx4_hw_eqc, consumer, 0x28);
#define EQC_STATE_SH    8
#define EQC_STATE_ARMED 0x9U

/* Completion queue: SW2HW_CQ */
struct mlx4_hw_cqc {
	be32_t flags; /* 00 */
	uint8_t reserved_04[8];
	be32_t log_cqes_uar;    /* 0c */
	uint8_t reserved_10[7]; /* 10, 12: moderation */
	uint8_t eqn;            /* 17 */
	struct mlx4_hw_buf buf; /* 18 */
	uint8_t reserved_20[8]; /* 20: last notified, 24: solicited producer */
	be32_t consumer;        /* 28 */
	be32_t producer;        /* 2c */
	uint8_t reserved_30[8];
	be64_t db_paddr; /* 38: doorbell record */
} __packed;
HW_SIZE(mlx4_hw_cqc, 64);
HW_AT(mlx4_hw_cqc, log_cqes_uar, 0x0c);
HW_AT(mlx4_hw_cqc, eqn, 0x17);
HW_AT(mlx4_hw_cqc, consumer, 0x28);
HW_AT(mlx4_hw_cqc, db_paddr, 0x38);
#define CQC_LOG_CQES_SH 24

/* The way to a port: part of a queue pair's context. */
struct mlx4_hw_path {
	uint8_t reserved_00[3];
	uint8_t pkey_index; /* 03 */
	uint8_t reserved_04;
	uint8_t grh;             /* 05: PATH_GRH; 6:0 are source path bits */
	be16_t dlid;             /* 06 */
	uint8_t ack_timeout;     /* 08: PATH_ACK_TIMEOUT_SH */
	uint8_t sgid_index;      /* 09 */
	uint8_t rate;            /* 0a */
	uint8_t hop_limit;       /* 0b */
	be32_t tclass_flow;      /* 0c */
	uint8_t dgid[16];        /* 10 */
	uint8_t sched_queue;     /* 20: SCHED_QUEUE* */
	uint8_t reserved_21[11]; /* 26: Ethernet address */
} __packed;
HW_SIZE(mlx4_hw_path, 44);
HW_AT(mlx4_hw_path, grh, 0x05);
HW_AT(mlx4_hw_path, dgid, 0x10);
HW_AT(mlx4_hw_path, sched_queue, 0x20);
#define PATH_GRH            0x80
#define PATH_ACK_TIMEOUT_SH 3
#define PATH_HOP_LIMIT      0xff
#define SCHED_QUEUE         0x83 /* with the port and the service level */
#define SCHED_QUEUE_QP0     0x3f /* with the port */
#define SCHED_QUEUE_PORT_SH 6    /* number of the port, counted from 0 */
#define SCHED_QUEUE_SL_SH   2

/* Queue pair */
struct mlx4_hw_qpc {
	be32_t flags;        /* 00: QPC_* below */
	be32_t pd;           /* 04 */
	uint8_t mtu_log_msg; /* 08: QPC_MTU_SH */
	uint8_t rq_size;     /* 09: QPC_LOG_WQES_SH, and log2 of the stride - 4 */
	uint8_t sq_size;     /* 0a: likewise */
	uint8_t reserved_0b;
	be32_t uar;                    /* 0c */
	be32_t local_qpn;              /* 10 */
	be32_t remote_qpn;             /* 14 */
	struct mlx4_hw_path primary;   /* 18 */
	struct mlx4_hw_path alternate; /* 44 */
	be32_t params1;                /* 70: QPC1_* */
	uint8_t reserved_74[4];
	be32_t sq_psn;           /* 78 */
	be32_t send_cqn;         /* 7c */
	uint8_t reserved_80[16]; /* 88: last acknowledged PSN, 8c: SSN */
	be32_t params2;          /* 90: QPC2_* */
	be32_t rnr_rq_psn;       /* 94: QPC_RNR_TIMER_SH */
	uint8_t reserved_98[4];
	be32_t recv_cqn;         /* 9c */
	be64_t rq_db_paddr;      /* a0: doorbell record */
	be32_t qkey;             /* a8 */
	uint8_t reserved_ac[28]; /* ac: SRQ, b0: MSN, b4, b6: counters, c0: params3 */
	struct mlx4_hw_buf buf;  /* c8 */
	uint8_t reserved_d0[40];
} __packed;
HW_SIZE(mlx4_hw_qpc, 248);
HW_AT(mlx4_hw_qpc, mtu_log_msg, 0x08);
HW_AT(mlx4_hw_qpc, uar, 0x0c);
HW_AT(mlx4_hw_qpc, primary, 0x18);
HW_AT(mlx4_hw_qpc, params1, 0x70);
HW_AT(mlx4_hw_qpc, sq_psn, 0x78);
HW_AT(mlx4_hw_qpc, params2, 0x90);
HW_AT(mlx4_hw_qpc, recv_cqn, 0x9c);
HW_AT(mlx4_hw_qpc, qkey, 0xa8);
HW_AT(mlx4_hw_qpc, buf, 0xc8);
#define QPC_STATE_SH     28 /* enum mlx4_qp_hw_state */
#define QPC_SERVICE_SH   16 /* enum mlx4_qp_st */
#define QPC_MIGRATED     (3U << 11)
#define QPC_MTU_SH       5
#define QPC_LOG_WQES_SH  3
#define QPC_RNR_TIMER_SH 24
#define QPC1_ACK_FREQ_SH 28
#define QPC1_LOG_RD_SH   21
#define QPC1_RETRY_SH    16
#define QPC1_RNR_SH      13
#define QPC2_LOG_RD_SH   21
#define QPC2_RRE         BIT(15) /* the peer may read */
#define QPC2_RWE         BIT(14) /* ... write */
#define QPC2_RAE         BIT(13) /* ... do atomics */

/* Mailbox of the commands that change a queue pair's state */
struct mlx4_hw_qp_change {
	be32_t opt_mask; /* 00: QP_OPT_* of regs.h */
	uint8_t reserved_04[4];
	struct mlx4_hw_qpc ctx; /* 08 */
} __packed;
HW_SIZE(mlx4_hw_qp_change, 256);

/* Protection entry (dMPT): SW2HW_MPT */
struct mlx4_hw_mpt {
	be32_t flags; /* 00: MPT_* of regs.h */
	uint8_t reserved_04[4];
	be32_t key_index; /* 08: the key, rotated right by 8 */
	be32_t pd;        /* 0c: MPT_PD_* of regs.h */
	be64_t iova;      /* 10 */
	be64_t len;       /* 18 */
	uint8_t reserved_20[12];
	be64_t mtt_addr;   /* 2c: offset from the MTT base */
	be32_t nr_mtt;     /* 34 */
	be32_t page_shift; /* 38 */
	uint8_t reserved_3c[4];
} __packed;
HW_SIZE(mlx4_hw_mpt, 64);
HW_AT(mlx4_hw_mpt, key_index, 0x08);
HW_AT(mlx4_hw_mpt, mtt_addr, 0x2c);
HW_AT(mlx4_hw_mpt, page_shift, 0x38);

/* Translation entry (MTT) */
struct mlx4_hw_mtt {
	be64_t paddr; /* 00: and MTT_PRESENT of regs.h */
} __packed;
HW_SIZE(mlx4_hw_mtt, 8);

/* --- queue entries ----------------------------------------------------------------------- */

/* Event queue entry.  The layout from 04 on depends on the type. */
struct mlx4_hw_eqe {
	uint8_t reserved_00;
	uint8_t type; /* 01: enum mlx4_event of regs.h */
	uint8_t reserved_02;
	uint8_t subtype; /* 03 */
	union {
		struct {
			be32_t num; /* 04: EQE_NUM_MASK; QP or CQ */
			uint8_t reserved_08[7];
			uint8_t syndrome; /* 0f: CQ errors */
		} __packed object;
		struct {
			uint8_t reserved_04[2];
			be16_t token; /* 06 */
			uint8_t reserved_08[7];
			uint8_t status; /* 0f */
			be64_t out;     /* 10: immediate result */
		} __packed cmd;
		struct {
			uint8_t reserved_04[8];
			be32_t port; /* 0c: EQE_PORT_SH */
		} __packed port_change;
		struct {
			uint8_t reserved_04[3];
			uint8_t port; /* 07 */
		} __packed port_mgmt;
		uint8_t data[24];
	};
	uint8_t reserved_1c[3];
	uint8_t owner; /* 1f: EQE_OWNER */
} __packed;
HW_SIZE(mlx4_hw_eqe, EQE_LEN);
HW_AT(mlx4_hw_eqe, object.num, 0x04);
HW_AT(mlx4_hw_eqe, object.syndrome, 0x0f);
HW_AT(mlx4_hw_eqe, cmd.token, 0x06);
HW_AT(mlx4_hw_eqe, cmd.out, 0x10);
HW_AT(mlx4_hw_eqe, port_change.port, 0x0c);
HW_AT(mlx4_hw_eqe, port_mgmt.port, 0x07);
HW_AT(mlx4_hw_eqe, owner, 0x1f);

/* Completion queue entry */
struct mlx4_hw_cqe {
	be32_t qpn;         /* 00: CQE_QPN_MASK */
	be32_t imm;         /* 04: immediate, or of UD CQE_PKEY_MASK */
	be32_t grh_src_qpn; /* 08: CQE_GRH, CQE_QPN_MASK */
	be16_t sl;          /* 0c: CQE_SL_SH */
	be16_t slid;        /* 0e */
	uint8_t reserved_10[4];
	be32_t byte_len;  /* 14 */
	be16_t wqe_index; /* 18 */
	uint8_t vendor;   /* 1a: errors only */
	uint8_t syndrome; /* 1b: likewise; enum mlx4_syndrome */
	uint8_t reserved_1c[3];
	uint8_t owner; /* 1f: CQE_OWNER, CQE_IS_SEND, CQE_OPCODE_MASK */
} __packed;
HW_SIZE(mlx4_hw_cqe, CQE_LEN);
HW_AT(mlx4_hw_cqe, sl, 0x0c);
HW_AT(mlx4_hw_cqe, byte_len, 0x14);
HW_AT(mlx4_hw_cqe, syndrome, 0x1b);
HW_AT(mlx4_hw_cqe, owner, 0x1f);

/* Control segment: the first of each send queue entry */
struct mlx4_hw_ctrl {
	be32_t owner_op; /* 00: WQE_CTRL_OWNER, enum mlx4_wqe_opcode */
	be32_t size;     /* 04: WQE_CTRL_FENCE, WQE_CTRL_SIZE; BlueFlame: QP number above */
	be32_t flags;    /* 08: WQE_CTRL_CQE, WQE_CTRL_SOLICITED, WQE_MLX_* */
	union {
		be32_t imm;  /* 0c */
		be16_t dlid; /* 0c: special queue pairs */
	};
} __packed;
HW_SIZE(mlx4_hw_ctrl, WQE_CTRL_LEN);
HW_AT(mlx4_hw_ctrl, imm, 0x0c);

struct mlx4_hw_raddr {
	be64_t addr; /* 00 */
	be32_t rkey; /* 08 */
	be32_t reserved_0c;
} __packed;
HW_SIZE(mlx4_hw_raddr, WQE_RADDR_LEN);

struct mlx4_hw_atomic {
	be64_t swap_add; /* 00 */
	be64_t compare;  /* 08 */
} __packed;
HW_SIZE(mlx4_hw_atomic, WQE_ATOMIC_LEN);

struct mlx4_hw_data {
	be32_t len;  /* 00: or, of an inline segment, WQE_INLINE and the length */
	be32_t lkey; /* 04: an inline segment's data begin here */
	be64_t addr; /* 08 */
} __packed;
HW_SIZE(mlx4_hw_data, WQE_DATA_LEN);
HW_AT(mlx4_hw_data, lkey, WQE_INLINE_LEN);

/* Datagram segment: address vector, queue pair and key */
struct mlx4_hw_ud {
	be32_t port_pd; /* 00: UD_PORT_SH */
	uint8_t reserved_04;
	uint8_t grh; /* 05: PATH_GRH */
	be16_t dlid; /* 06 */
	uint8_t reserved_08;
	uint8_t sgid_index;     /* 09 */
	uint8_t rate;           /* 0a */
	uint8_t hop_limit;      /* 0b */
	be32_t sl_tclass_flow;  /* 0c: UD_SL_SH */
	uint8_t dgid[16];       /* 10 */
	be32_t qpn;             /* 20 */
	be32_t qkey;            /* 24 */
	uint8_t reserved_28[8]; /* 28: VLAN, 2a: Ethernet address */
} __packed;
HW_SIZE(mlx4_hw_ud, WQE_UD_LEN);
HW_AT(mlx4_hw_ud, hop_limit, 0x0b);
HW_AT(mlx4_hw_ud, dgid, 0x10);
HW_AT(mlx4_hw_ud, qkey, 0x24);
#define UD_PORT_SH  24
#define UD_SL_SH    28
#define UD_QPN_MASK 0xffffffU

/* --- packets of special queue pairs: the driver writes their headers ----------------------- */

/* Local route header */
struct mlx4_hw_lrh {
	uint8_t vl;    /* 00: LRH_VL_SH */
	uint8_t sl;    /* 01: LRH_SL_SH, LRH_LNH_* */
	be16_t dlid;   /* 02 */
	be16_t dwords; /* 04: of the packet, without the variant CRC */
	be16_t slid;   /* 06: 0, the device adds its own */
} __packed;
HW_SIZE(mlx4_hw_lrh, 8);
#define LRH_VL_SH      4
#define LRH_SL_SH      4
#define LRH_LNH_LOCAL  2
#define LRH_LNH_GLOBAL 3

/* Global route header */
struct mlx4_hw_grh {
	be32_t version_tclass_flow; /* 00: GRH_VERSION_SH */
	be16_t len;                 /* 04 */
	uint8_t next_hdr;           /* 06 */
	uint8_t hop_limit;          /* 07 */
	uint8_t sgid[16];           /* 08 */
	uint8_t dgid[16];           /* 18 */
} __packed;
HW_SIZE(mlx4_hw_grh, 40);
#define GRH_VERSION    6U
#define GRH_VERSION_SH 28
#define GRH_NEXT_HDR   0x1b

/* Base transport header */
struct mlx4_hw_bth {
	uint8_t opcode; /* 00 */
	uint8_t flags;  /* 01: BTH_SOLICITED, BTH_PAD_SH */
	be16_t pkey;    /* 02 */
	be32_t qpn;     /* 04 */
	be32_t psn;     /* 08 */
} __packed;
HW_SIZE(mlx4_hw_bth, 12);
#define BTH_UD_SEND   0x64
#define BTH_SOLICITED 0x80
#define BTH_PAD_SH    4
#define BTH_PSN_MASK  0xffffffU

/* Datagram extended transport header */
struct mlx4_hw_deth {
	be32_t qkey;    /* 00 */
	be32_t src_qpn; /* 04 */
} __packed;
HW_SIZE(mlx4_hw_deth, 8);

/* --- management datagrams for the device's own agents --------------------------------------- */

/* Mailbox of MAD_IFC: the datagram, and with MAD_IFC_EXT where it came from. */
struct mlx4_hw_mad_ifc {
	uint8_t mad[256];         /* 00 */
	uint8_t reserved_100[8];  /* 100: our own QP */
	be32_t src_qpn;           /* 108 */
	uint8_t sl;               /* 10c: MAD_IFC_SL_SH */
	uint8_t reserved_10d[51]; /* 10d: path bits, 112: index of the P_Key */
	uint8_t grh[40];          /* 140 */
} __packed;
HW_SIZE(mlx4_hw_mad_ifc, 0x168);
HW_AT(mlx4_hw_mad_ifc, src_qpn, 0x108);
HW_AT(mlx4_hw_mad_ifc, sl, 0x10c);
HW_AT(mlx4_hw_mad_ifc, grh, 0x140);
#define MAD_IFC_SL_SH   4
#define MAD_IFC_NO_MKEY BIT(0) /* opcode modifier */
#define MAD_IFC_NO_BKEY BIT(1)
#define MAD_IFC_EXT     BIT(2)

/* Subnet management packet */
struct mlx4_hw_smp {
	uint8_t base_version;  /* 00 */
	uint8_t mgmt_class;    /* 01: SMP_CLASS_* */
	uint8_t class_version; /* 02 */
	uint8_t method;        /* 03: SMP_METHOD_* */
	be16_t status;         /* 04: SMP_DR_RETURNS in directed routes */
	uint8_t hop_ptr;       /* 06: directed routes */
	uint8_t hop_cnt;       /* 07 */
	be64_t tid;            /* 08 */
	be16_t attr_id;        /* 10 */
	uint8_t reserved_12[2];
	be32_t attr_mod; /* 14 */
	uint8_t reserved_18[40];
	uint8_t data[64];         /* 40 */
	uint8_t initial_path[64]; /* 80 */
	uint8_t return_path[64];  /* c0 */
} __packed;
HW_SIZE(mlx4_hw_smp, 256);
HW_AT(mlx4_hw_smp, hop_ptr, 6);
HW_AT(mlx4_hw_smp, attr_mod, 20);
HW_AT(mlx4_hw_smp, data, 64);
HW_AT(mlx4_hw_smp, return_path, 192);
#define SMP_CLASS_LID       0x01
#define SMP_CLASS_DR        0x81 /* directed route */
#define SMP_METHOD_GET      0x01
#define SMP_METHOD_SET      0x02
#define SMP_METHOD_REPRESS  0x07
#define SMP_METHOD_RESP     0x80
#define SMP_DR_RETURNS      0x8000 /* the packet is on its way back */
#define SMP_STATUS_MASK     0x7fff
#define SMP_MAX_HOPS        63
#define SMP_ATTR_GUID_INFO  0x14
#define SMP_ATTR_PORT_INFO  0x15
#define SMP_ATTR_PKEY_TABLE 0x16
#define SMP_ATTR_SL_TO_VL   0x17

/* Data of PortInfo */
struct mlx4_hw_port_info {
	uint8_t reserved_00[8]; /* 00: M_Key */
	uint8_t gid_prefix[8];  /* 08 */
	be16_t lid;             /* 10 */
	be16_t sm_lid;          /* 12 */
	be32_t cap_mask;        /* 14 */
	uint8_t reserved_18[8];
	uint8_t speed_state; /* 20: PORT_INFO_STATE_MASK */
	uint8_t reserved_21[3];
	uint8_t mtu_sm_sl; /* 24: PORT_INFO_MTU_SH; active MTU */
	uint8_t reserved_25[27];
} __packed;
HW_SIZE(mlx4_hw_port_info, 64);
HW_AT(mlx4_hw_port_info, lid, 16);
HW_AT(mlx4_hw_port_info, cap_mask, 20);
HW_AT(mlx4_hw_port_info, speed_state, 32);
HW_AT(mlx4_hw_port_info, mtu_sm_sl, 36);
#define PORT_INFO_STATE_MASK 0x0f
#define PORT_INFO_MTU_SH     4

/* Data of GUIDInfo, P_KeyTable, SLtoVLMappingTable */
struct mlx4_hw_guid_info {
	uint8_t guids[8][8];
} __packed;
HW_SIZE(mlx4_hw_guid_info, 64);
struct mlx4_hw_pkey_table {
	be16_t pkeys[32];
} __packed;
HW_SIZE(mlx4_hw_pkey_table, 64);
struct mlx4_hw_sl_to_vl {
	uint8_t vls[8]; /* two lanes a byte, the even service level above */
	uint8_t reserved_08[56];
} __packed;
HW_SIZE(mlx4_hw_sl_to_vl, 64);
