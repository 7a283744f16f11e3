/* SPDX-License-Identifier: MIT */
/*
 * The device's description of itself, and the layout of its context memory (ICM).
 *
 * All of this is pure: decoded from the device's output, which is checked field by field, because a
 * size taken on trust becomes an allocation, a shift or an address.
 */
#pragma once

#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <lib/types.h>

#define MLX4_MAX_PORTS 2

struct mlx4_fw {
	uint32_t nr_pages; /* that the firmware wants for itself */
	uint16_t major, minor, subminor;
	uint16_t cmd_rev;
	uint8_t log_max_cmds;
	uint64_t err_buf;
	uint32_t err_buf_dwords;
	uint8_t err_buf_bar;
};

struct mlx4_caps {
	uint64_t flags;
	uint64_t max_icm;
	uint8_t log_max_qp_wqes, log_max_cqes;
	uint8_t log_max_qps, log_reserved_qps;
	uint8_t log_max_srqs, log_reserved_srqs;
	uint8_t log_max_cqs, log_reserved_cqs;
	uint8_t log_max_eqs, log_reserved_eqs;
	uint8_t log_max_mpts, log_reserved_mrws, log_reserved_mtts;
	uint8_t log_max_rd_requester, log_max_rd_responder;
	uint8_t log_max_msg;
	uint8_t log_max_pds;
	uint8_t log_max_mcgs;
	uint8_t nr_ports;
	uint8_t ack_delay;
	uint32_t reserved_pds;
	uint32_t reserved_uars;
	uint64_t uar_len;
	uint32_t bf_reg_len; /* bytes of a BlueFlame register, which is two buffers; 0 = none */
	uint32_t bf_regs;    /* registers of a page */
	uint16_t max_sq_desc, max_rq_desc;
	uint8_t max_sq_sg, max_rq_sg;
	uint16_t rdmarc_len, qpc_len, auxc_len, altc_len, eqc_len, cqc_len, srqc_len, cmpt_len,
		mtt_len, dmpt_len;
};

struct mlx4_port_caps {
	bool ib;
	uint8_t mtu_cap; /* enum rdma_mtu */
	uint8_t vl_cap;
	uint8_t log_gids;
	uint8_t log_pkeys;
};

/*
 * The flags in a vendor-specific PCI capability of MLX4_HINT_LEN bytes, when it is that of the HCA
 * model; 0 for any other.
 */
#define MLX4_HINT_LEN         12
#define MLX4_HINT_EMULATED    BIT(0) /* each register access costs an exit */
#define MLX4_HINT_ONE_AT_ONCE BIT(1) /* and gets lost while another CPU makes one */
#define MLX4_HINT_WAIT        BIT(2) /* there are wait registers */
uint32_t mlx4_hint_parse(const uint8_t *cap);
/* The wait register for at most @ns; negative: it is shorter than the first. */
int mlx4_wait_step(uint64_t ns);

/* Output mailboxes are 4096 bytes.  0, or -EPROTO with a reason in *@why. */
int mlx4_fw_parse(const void *mbox, struct mlx4_fw *fw, const char **why) __must_check;
int mlx4_caps_parse(const void *mbox, struct mlx4_caps *caps, const char **why) __must_check;
void mlx4_port_caps_parse(const void *mbox, struct mlx4_port_caps *port);

enum mlx4_region_id {
	REGION_QPC,
	REGION_AUXC,
	REGION_ALTC,
	REGION_RDMARC,
	REGION_SRQC,
	REGION_CQC,
	REGION_EQC,
	REGION_CMPT,
	REGION_MTT,
	REGION_DMPT,
	REGION_MCG,
	NR_REGIONS,
};

struct mlx4_region {
	uint64_t base;    /* ICM address */
	uint64_t len;     /* bytes, a power of two */
	uint32_t obj_len; /* bytes of one entry */
	uint32_t nr;      /* entries */
};

struct mlx4_profile {
	uint8_t log_qps, log_srqs, log_cqs, log_eqs, log_mpts, log_mtts, log_rdmarc, log_mcgs;
	uint8_t log_mcg_len;
	uint8_t log_uars;
	struct mlx4_region region[NR_REGIONS];
	uint64_t icm_len;
};

/* The numbers to ask for; the device's limits cap them. */
struct mlx4_wish {
	uint8_t log_qps, log_cqs, log_eqs, log_mpts, log_mtts;
};

/* -ENOSPC when the device's ICM cannot hold the layout, or its reserved objects. */
int mlx4_profile_make(const struct mlx4_caps *caps, const struct mlx4_wish *wish,
		      struct mlx4_profile *prof) __must_check;
/* @mbox: 4096 zeroed bytes. */
void mlx4_init_hca_fill(const struct mlx4_profile *prof, void *mbox);
