/* SPDX-License-Identifier: MIT */
/*
 * HCA model: the host command register (HCR).
 *
 * Flow:	the store that sets GO runs the command at once; the result is in
 *		the register (polling) or an event entry of type 0x0a follows.
 * Failure:	an unknown opcode, a wrong stage, a bad mailbox address or a bad
 *		argument is answered with the documented status.  Output goes to
 *		the guest only on success.
 */
#include "hca.h"

#include <stdlib.h>

typedef enum hca_status (*cmd_fn)(struct hca *h, struct cmd *c);

#define IN          BIT(0) /* has an input mailbox */
#define OUT         BIT(1) /* has an output mailbox */
#define IMM         BIT(2) /* has an immediate result */
#define OUT_IF_MOD0 BIT(3)

struct cmd_desc {
	uint16_t op;
	uint8_t flags;
	enum hca_stage stage; /* the earliest at which it works */
	cmd_fn fn;
};

static const struct cmd_desc cmds[] = {
	{ OP_QUERY_FW, OUT, STAGE_RESET, cmd_query_fw },
	{ OP_MAP_FA, IN, STAGE_RESET, cmd_map_fa },
	{ OP_UNMAP_FA, 0, STAGE_RESET, cmd_unmap_fa },
	{ OP_RUN_FW, 0, STAGE_RESET, cmd_run_fw },
	{ OP_MOD_STAT_CFG, OUT, STAGE_FW, cmd_mod_stat_cfg },
	{ OP_QUERY_DEV_CAP, OUT, STAGE_FW, cmd_query_dev_cap },
	{ OP_QUERY_PORT, OUT, STAGE_FW, cmd_query_port },
	{ OP_QUERY_ADAPTER, OUT, STAGE_FW, cmd_query_adapter },
	{ OP_SET_ICM_SIZE, IMM, STAGE_FW, cmd_set_icm_size },
	{ OP_MAP_ICM_AUX, IN, STAGE_FW, cmd_map_icm_aux },
	{ OP_UNMAP_ICM_AUX, 0, STAGE_FW, cmd_unmap_icm_aux },
	{ OP_MAP_ICM, IN, STAGE_FW, cmd_map_icm },
	{ OP_UNMAP_ICM, 0, STAGE_FW, cmd_unmap_icm },
	{ OP_INIT_HCA, IN, STAGE_FW, cmd_init_hca },
	{ OP_CLOSE_HCA, 0, STAGE_READY, cmd_close_hca },
	{ OP_QUERY_HCA, OUT, STAGE_READY, cmd_query_hca },
	{ OP_NOP, 0, STAGE_FW, cmd_nop },
	{ OP_DIAG_RPRT, OUT, STAGE_READY, cmd_diag },
	{ OP_HW_HEALTH_CHECK, 0, STAGE_FW, cmd_nop },
	{ OP_SW2HW_EQ, IN, STAGE_READY, cmd_sw2hw_eq },
	{ OP_HW2SW_EQ, OUT_IF_MOD0, STAGE_READY, cmd_hw2sw_eq },
	{ OP_QUERY_EQ, OUT, STAGE_READY, cmd_query_eq },
	{ OP_MAP_EQ, 0, STAGE_READY, cmd_map_eq },
	{ OP_SW2HW_CQ, IN, STAGE_READY, cmd_sw2hw_cq },
	{ OP_HW2SW_CQ, OUT_IF_MOD0, STAGE_READY, cmd_hw2sw_cq },
	{ OP_QUERY_CQ, OUT, STAGE_READY, cmd_query_cq },
	{ OP_MODIFY_CQ, IN, STAGE_READY, cmd_modify_cq },
	{ OP_SW2HW_SRQ, IN, STAGE_READY, cmd_sw2hw_srq },
	{ OP_HW2SW_SRQ, OUT_IF_MOD0, STAGE_READY, cmd_hw2sw_srq },
	{ OP_QUERY_SRQ, OUT, STAGE_READY, cmd_query_srq },
	{ OP_ARM_SRQ, 0, STAGE_READY, cmd_arm_srq },
	{ OP_SW2HW_MPT, IN, STAGE_READY, cmd_sw2hw_mpt },
	{ OP_HW2SW_MPT, OUT_IF_MOD0, STAGE_READY, cmd_hw2sw_mpt },
	{ OP_QUERY_MPT, OUT, STAGE_READY, cmd_query_mpt },
	{ OP_SYNC_TPT, 0, STAGE_READY, cmd_sync_tpt },
	{ OP_READ_MTT, OUT, STAGE_READY, cmd_read_mtt },
	{ OP_WRITE_MTT, IN, STAGE_READY, cmd_write_mtt },
	{ OP_RST2INIT, IN, STAGE_READY, cmd_qp_modify },
	{ OP_INIT2INIT, IN, STAGE_READY, cmd_qp_modify },
	{ OP_INIT2RTR, IN, STAGE_READY, cmd_qp_modify },
	{ OP_RTR2RTS, IN, STAGE_READY, cmd_qp_modify },
	{ OP_RTS2RTS, IN, STAGE_READY, cmd_qp_modify },
	{ OP_SQERR2RTS, IN, STAGE_READY, cmd_qp_modify },
	{ OP_RTS2SQD, 0, STAGE_READY, cmd_qp_modify },
	{ OP_SQD2SQD, IN, STAGE_READY, cmd_qp_modify },
	{ OP_SQD2RTS, IN, STAGE_READY, cmd_qp_modify },
	{ OP_2ERR, 0, STAGE_READY, cmd_qp_2err },
	{ OP_2RST, 0, STAGE_READY, cmd_qp_2rst },
	{ OP_QUERY_QP, OUT, STAGE_READY, cmd_query_qp },
	{ OP_CONF_SPECIAL_QP, 0, STAGE_READY, cmd_conf_special_qp },
	{ OP_INIT_PORT, 0, STAGE_READY, cmd_init_port },
	{ OP_CLOSE_PORT, 0, STAGE_READY, cmd_close_port },
	{ OP_SET_PORT, IN, STAGE_READY, cmd_set_port },
	{ OP_MAD_IFC, IN | OUT, STAGE_READY, cmd_mad_ifc },
	{ OP_READ_MCG, OUT, STAGE_READY, cmd_read_mcg },
	{ OP_WRITE_MCG, IN, STAGE_READY, cmd_write_mcg },
	{ OP_MGID_HASH, IN | IMM, STAGE_READY, cmd_mgid_hash },
};

static const struct cmd_desc *cmd_find(uint16_t op)
{
	for (size_t i = 0; i < ARRAY_SIZE(cmds); i++) {
		if (cmds[i].op == op)
			return &cmds[i];
	}
	return NULL;
}

/* Run @c, whose mailboxes are guest addresses in in_param and out_param. */
static enum hca_status cmd_run(struct hca *h, struct cmd *c)
{
	static const uint8_t no_input[MAILBOX]; /* a mailbox that the caller may leave out */
	const struct cmd_desc *d = cmd_find(c->op);
	uint8_t in[MAILBOX], out[MAILBOX];
	enum hca_status st;
	bool has_out;

	if (!d)
		return ST_BAD_OP;
	if (h->stage < d->stage)
		return ST_BAD_SYS_STATE;
	c->in = no_input;
	if (d->flags & IN) {
		if (c->in_param & 255 || !mem_read(h, c->in_param, in, sizeof(in)))
			return ST_BAD_PARAM;
		c->in = in;
	}
	has_out = d->flags & OUT || (d->flags & OUT_IF_MOD0 && c->mod == 0);
	c->out = out;
	memset(out, 0, sizeof(out));
	if (has_out && (c->out_param & 255 || !mem_ptr(h, c->out_param, MAILBOX)))
		return ST_BAD_PARAM;
	st = d->fn(h, c);
	if (st == ST_OK && has_out && !mem_write(h, c->out_param, out, sizeof(out)))
		return ST_INTERNAL_ERR;
	if (!(d->flags & IMM))
		c->out_imm = 0;
	return st;
}

static void cmd_event(struct hca *h, uint16_t token, enum hca_status st, uint64_t out)
{
	const struct hw_ev_cmd ev = {
		.token = cpu_to_be16(token),
		.status = (uint8_t)st,
		.out = cpu_to_be64(out),
	};

	eq_event(h, EV_CMD, 0, &ev, sizeof(ev));
}

/* GO was stored. */
void cmd_run_hcr(struct hca *h)
{
	const uint32_t word = be32_to_cpu(h->hcr.word);
	struct cmd c = {
		.op = word & 0xfff,
		.mod = (uint8_t)bits(word, 15, 12),
		.im = be32_to_cpu(h->hcr.in_mod),
		.in_param = be64_to_cpu(h->hcr.in_param),
		.out_param = be64_to_cpu(h->hcr.out_param),
	};
	const uint16_t token = be16_to_cpu(h->hcr.token);
	const unsigned fault = fault_command_next(h, c.op);
	enum hca_status st;

	h->stats.commands++;
	if (fault == FAULT_HANG) {
		h->hcr_stuck = true; /* GO stays */
		return;
	}
	st = fault ? (enum hca_status)fault : cmd_run(h, &c);
	if (st) {
		h->stats.command_errors++;
		hca_log(h, "command %03x.%x im %08x: status %02x", c.op, c.mod, c.im, st);
	}
	h->hcr.word = cpu_to_be32((word & ~HCR_GO & 0x00ffffff) | (uint32_t)st << 24);
	h->hcr.out_param = cpu_to_be64(c.out_imm);
	if (word & HCR_EVENT)
		cmd_event(h, token, st, c.out_imm);
}
