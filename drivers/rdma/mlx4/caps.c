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

#include "regs.h"

#define HINT_VERSION 1
#define HINT_MAGIC   "TSRA"
#define LOG_BF_MIN   7U     /* two buffers of a line of 64 bytes */
#define LOG_BF_MAX   12U    /* a page */
#define FW_MAX_PAGES 0x8000 /* 128 MiB: no firmware wants that much */

int mlx4_fw_parse(const void *mbox, struct mlx4_fw *fw, const char **why)
{
	struct mlx4_fw f = {
		.nr_pages = mlx4_get16(mbox, 0x00),
		.major = mlx4_get16(mbox, 0x02),
		.subminor = mlx4_get16(mbox, 0x04),
		.minor = mlx4_get16(mbox, 0x06),
		.cmd_rev = mlx4_get16(mbox, 0x0a),
		.log_max_cmds = mlx4_get8(mbox, 0x0f),
		.err_buf = mlx4_get64(mbox, 0x30),
		.err_buf_dwords = mlx4_get32(mbox, 0x38),
		.err_buf_bar = (uint8_t)((mlx4_get8(mbox, 0x3c) >> 6) * 2),
	};

	if (f.cmd_rev != 3) { /* older ones have no QUERY_PORT */
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

uint32_t mlx4_hint_parse(const uint8_t *cap)
{
	if (cap[2] < MLX4_HINT_LEN || cap[3] != HINT_VERSION || memcmp(cap + 4, HINT_MAGIC, 4) != 0)
		return 0;
	return get_unaligned_le32(cap + 8);
}

static void caps_decode(const void *m, struct mlx4_caps *c)
{
	*c = (struct mlx4_caps){
		.log_max_qp_wqes = mlx4_get8(m, 0x11) & 0x1f,
		.log_reserved_qps = mlx4_get8(m, 0x12) & 0xf,
		.log_max_qps = mlx4_get8(m, 0x13) & 0x1f,
		.log_reserved_srqs = mlx4_get8(m, 0x14) >> 4,
		.log_max_srqs = mlx4_get8(m, 0x15) & 0x1f,
		.log_max_cqes = mlx4_get8(m, 0x19) & 0x1f,
		.log_reserved_cqs = mlx4_get8(m, 0x1a) & 0xf,
		.log_max_cqs = mlx4_get8(m, 0x1b) & 0x1f,
		.log_max_mpts = mlx4_get8(m, 0x1d) & 0x3f,
		.log_reserved_eqs = mlx4_get8(m, 0x1e) & 0xf,
		.log_max_eqs = mlx4_get8(m, 0x1f) & 0xf,
		.log_reserved_mtts = mlx4_get8(m, 0x20) >> 4,
		.log_reserved_mrws = mlx4_get8(m, 0x22) & 0xf,
		.log_max_rd_requester = mlx4_get8(m, 0x29) & 0x3f,
		.log_max_rd_responder = mlx4_get8(m, 0x2b) & 0x3f,
		.ack_delay = mlx4_get8(m, 0x35) & 0x1f,
		.nr_ports = mlx4_get8(m, 0x37) & 0xf,
		.log_max_msg = mlx4_get8(m, 0x38) & 0x1f,
		.flags = mlx4_get64(m, 0x40),
		.reserved_uars = mlx4_get8(m, 0x48) >> 4,
		.uar_len = 1ULL << ((mlx4_get8(m, 0x49) & 0x3f) % 32 + 20),
		.max_sq_sg = mlx4_get8(m, 0x51),
		.max_sq_desc = mlx4_get16(m, 0x52),
		.max_rq_sg = mlx4_get8(m, 0x55),
		.max_rq_desc = mlx4_get16(m, 0x56),
		.log_max_mcgs = mlx4_get8(m, 0x63),
		.reserved_pds = mlx4_get8(m, 0x64) >> 4,
		.log_max_pds = mlx4_get8(m, 0x65) & 0x3f,
		.rdmarc_len = mlx4_get16(m, 0x80),
		.qpc_len = mlx4_get16(m, 0x82),
		.auxc_len = mlx4_get16(m, 0x84),
		.altc_len = mlx4_get16(m, 0x86),
		.eqc_len = mlx4_get16(m, 0x88),
		.cqc_len = mlx4_get16(m, 0x8a),
		.srqc_len = mlx4_get16(m, 0x8c),
		.cmpt_len = mlx4_get16(m, 0x8e),
		.mtt_len = mlx4_get16(m, 0x90),
		.dmpt_len = mlx4_get16(m, 0x92),
		.max_icm = mlx4_get64(m, 0xa0),
	};
}

/* BlueFlame registers that cannot be used are as good as none. */
static void bf_decode(const void *m, struct mlx4_caps *c)
{
	const unsigned int log_len = mlx4_get8(m, 0x4d) & 0x1f;
	const unsigned int log_regs = mlx4_get8(m, 0x4e) & 0x3f;

	if (!(mlx4_get8(m, 0x4c) & 0x80) || log_len < LOG_BF_MIN || log_len > LOG_BF_MAX)
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
	    !entry_len_ok(c->dmpt_len, MPT_LEN))
		return "size of a context entry";
	if (c->mtt_len != 8)
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
	const uint8_t mtu = mlx4_get8(mbox, 0x01) & 0xf;

	*port = (struct mlx4_port_caps){
		.ib = mlx4_get8(mbox, 0x00) & 1,
		.mtu_cap = mtu < 1 || mtu > 5 ? 4 : mtu,
		.log_gids = mlx4_get8(mbox, 0x07) >> 4,
		.log_pkeys = mlx4_get8(mbox, 0x07) & 0xf,
		.vl_cap = mlx4_get8(mbox, 0x0b) & 0xf,
	};
}
