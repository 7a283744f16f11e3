/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: decode QUERY_FW, QUERY_DEV_CAP and QUERY_PORT.
 *
 * Failure:	a value that would make us shift, divide or allocate out of bounds is refused with a
 *		reason; one that merely limits us is taken as it is.
 */
#include "caps.h"

#include <lib/errno.h>
#include <lib/string.h>

#include "hw.h"

#define HINT_VERSION 1
#define HINT_MAGIC   "TSRA"
#define LOG_BF_MIN   7U     /* two buffers of a line of 64 bytes */
#define LOG_BF_MAX   12U    /* a page */
#define FW_MAX_PAGES 0x8000 /* 128 MiB: no firmware wants that much */

int mlx4_fw_parse(const void *mbox, struct mlx4_fw *fw, const char **why)
{
	const struct mlx4_hw_fw *hw = mbox;
	struct mlx4_fw f = {
		.nr_pages = be16_to_cpu(hw->nr_pages),
		.major = be16_to_cpu(hw->major),
		.subminor = be16_to_cpu(hw->subminor),
		.minor = be16_to_cpu(hw->minor),
		.cmd_rev = be16_to_cpu(hw->cmd_rev),
		.log_max_cmds = hw->log_max_cmds,
		.err_buf = be64_to_cpu(hw->err_buf),
		.err_buf_dwords = be32_to_cpu(hw->err_buf_dwords),
		.err_buf_bar = (uint8_t)(((hw->err_buf_bar & FW_BAR_MASK) >> FW_BAR_SH) * 2),
	};

	if (f.cmd_rev != FW_CMD_REV_NEW) {
		*why = "unknown command interface revision";
		return -EPROTO;
	}
	if (f.nr_pages > FW_MAX_PAGES) {
		*why = "firmware asks for too much memory";
		return -EPROTO;
	}
	if (f.log_max_cmds > 16)
		f.log_max_cmds = 16;
	if (f.err_buf_dwords > 1024 || f.err_buf & 3)
		f.err_buf_dwords = 0; /* do without */
	*fw = f;
	return 0;
}

int mlx4_wait_step(uint64_t ns)
{
	int step = -1;

	while (step + 1 < MLX4_WAIT_STEPS && MLX4_WAIT_UNIT_NS << (step + 1) <= ns)
		step++;
	return step;
}

uint32_t mlx4_hint_parse(const uint8_t *cap)
{
	if (cap[2] < MLX4_HINT_LEN || cap[3] != HINT_VERSION || memcmp(cap + 4, HINT_MAGIC, 4) != 0)
		return 0;
	return get_unaligned_le32(cap + 8);
}

static void caps_decode(const struct mlx4_hw_dev_cap *hw, struct mlx4_caps *c)
{
	*c = (struct mlx4_caps){
		.log_max_qp_wqes = hw->log_max_qp_wqes & DEV_CAP_4_0,
		.log_reserved_qps = hw->log_reserved_qps & DEV_CAP_3_0,
		.log_max_qps = hw->log_max_qps & DEV_CAP_4_0,
		.log_reserved_srqs = hw->log_reserved_srqs >> DEV_CAP_7_4_SH,
		.log_max_srqs = hw->log_max_srqs & DEV_CAP_4_0,
		.log_max_cqes = hw->log_max_cqes & DEV_CAP_4_0,
		.log_reserved_cqs = hw->log_reserved_cqs & DEV_CAP_3_0,
		.log_max_cqs = hw->log_max_cqs & DEV_CAP_4_0,
		.log_max_mpts = hw->log_max_mpts & DEV_CAP_5_0,
		.log_reserved_eqs = hw->log_reserved_eqs & DEV_CAP_3_0,
		.log_max_eqs = hw->log_max_eqs & DEV_CAP_3_0,
		.log_reserved_mtts = hw->log_reserved_mtts >> DEV_CAP_7_4_SH,
		.log_reserved_mrws = hw->log_reserved_mrws & DEV_CAP_3_0,
		.log_max_rd_requester = hw->log_max_rd_requester & DEV_CAP_5_0,
		.log_max_rd_responder = hw->log_max_rd_responder & DEV_CAP_5_0,
		.ack_delay = hw->ack_delay & DEV_CAP_4_0,
		.nr_ports = hw->nr_ports & DEV_CAP_3_0,
		.log_max_msg = hw->log_max_msg & DEV_CAP_4_0,
		.flags = be64_to_cpu(hw->flags),
		.reserved_uars = hw->reserved_uars >> DEV_CAP_7_4_SH,
		.uar_len = 1ULL << ((hw->log_uar_mib & DEV_CAP_5_0) % 32 + 20),
		.max_sq_sg = hw->max_sq_sg,
		.max_sq_desc = be16_to_cpu(hw->max_sq_desc),
		.max_rq_sg = hw->max_rq_sg,
		.max_rq_desc = be16_to_cpu(hw->max_rq_desc),
		.log_max_mcgs = hw->log_max_mcgs,
		.reserved_pds = hw->reserved_pds >> DEV_CAP_7_4_SH,
		.log_max_pds = hw->log_max_pds & DEV_CAP_5_0,
		.rdmarc_len = be16_to_cpu(hw->rdmarc_len),
		.qpc_len = be16_to_cpu(hw->qpc_len),
		.auxc_len = be16_to_cpu(hw->auxc_len),
		.altc_len = be16_to_cpu(hw->altc_len),
		.eqc_len = be16_to_cpu(hw->eqc_len),
		.cqc_len = be16_to_cpu(hw->cqc_len),
		.srqc_len = be16_to_cpu(hw->srqc_len),
		.cmpt_len = be16_to_cpu(hw->cmpt_len),
		.mtt_len = be16_to_cpu(hw->mtt_len),
		.dmpt_len = be16_to_cpu(hw->dmpt_len),
		.max_icm = be64_to_cpu(hw->max_icm),
	};
}

/* BlueFlame registers that cannot be used are as good as none. */
static void bf_decode(const struct mlx4_hw_dev_cap *hw, struct mlx4_caps *c)
{
	const unsigned int log_len = hw->log_bf_reg_len & DEV_CAP_4_0;
	const unsigned int log_regs = hw->log_bf_regs & DEV_CAP_5_0;

	if (!(hw->bf & DEV_CAP_BF) || log_len < LOG_BF_MIN || log_len > LOG_BF_MAX)
		return;
	c->bf_reg_len = 1U << log_len;
	c->bf_regs = 1U << MIN(log_regs, LOG_BF_MAX - log_len);
}

static bool entry_len_ok(uint16_t len, uint16_t min)
{
	return len >= min && len <= MLX4_PAGE_LEN && IS_POWER_OF_2(len);
}

/* The reason why @c cannot be worked with, or NULL. */
static const char *caps_fault(const struct mlx4_caps *c)
{
	if (c->nr_ports < 1 || c->nr_ports > MLX4_MAX_PORTS)
		return "number of ports";
	if (c->log_max_qps > 24 || c->log_max_qps < c->log_reserved_qps + 2)
		return "number of QPs";
	if (c->log_max_cqs > 24 || c->log_max_cqs <= c->log_reserved_cqs)
		return "number of CQs";
	if (c->log_max_srqs > 24 || c->log_max_srqs < c->log_reserved_srqs)
		return "number of SRQs";
	if (c->log_max_eqs > 12 || c->log_max_eqs <= c->log_reserved_eqs)
		return "number of EQs";
	if (c->log_max_mpts > 24 || c->log_max_mpts <= c->log_reserved_mrws)
		return "number of memory regions";
	if (c->log_max_pds > 24 || 1U << c->log_max_pds <= c->reserved_pds + 1)
		return "number of protection domains";
	if (!entry_len_ok(c->qpc_len, 1) || !entry_len_ok(c->auxc_len, 1) ||
	    !entry_len_ok(c->altc_len, 1) || !entry_len_ok(c->rdmarc_len, 1) ||
	    !entry_len_ok(c->eqc_len, 1) || !entry_len_ok(c->cqc_len, 1) ||
	    !entry_len_ok(c->srqc_len, 1) || !entry_len_ok(c->cmpt_len, 1) ||
	    !entry_len_ok(c->dmpt_len, sizeof(struct mlx4_hw_mpt)))
		return "size of a context entry";
	if (c->mtt_len != sizeof(struct mlx4_hw_mtt))
		return "size of a translation entry";
	if (c->max_sq_desc < 128 || c->max_rq_desc < 32 || !c->max_sq_sg || !c->max_rq_sg)
		return "size of a work request";
	if (c->log_max_qp_wqes < 6 || c->log_max_cqes < 6)
		return "size of a queue";
	if (c->uar_len / MLX4_PAGE_LEN <= UAR_FIRST_KERNEL)
		return "number of doorbell pages";
	if (!(c->flags & CAP_RC) || !(c->flags & CAP_UD))
		return "transport services";
	return NULL;
}

int mlx4_caps_parse(const void *mbox, struct mlx4_caps *caps, const char **why)
{
	struct mlx4_caps c;

	caps_decode(mbox, &c);
	bf_decode(mbox, &c);
	*why = caps_fault(&c);
	if (*why)
		return -EPROTO;
	*caps = c;
	return 0;
}

void mlx4_port_caps_parse(const void *mbox, struct mlx4_port_caps *port)
{
	const struct mlx4_hw_port_cap *hw = mbox;
	const uint8_t mtu = hw->mtu_cap & PORT_CAP_MTU_MASK;

	*port = (struct mlx4_port_caps){
		.ib = hw->type & PORT_CAP_IB,
		.mtu_cap = mtu < 1 || mtu > 5 ? 4 : mtu,
		.log_gids = hw->log_gids_pkeys >> PORT_CAP_GIDS_SH,
		.log_pkeys = hw->log_gids_pkeys & PORT_CAP_PKEY_MASK,
		.vl_cap = hw->vl_cap & PORT_CAP_VL_MASK,
	};
}
