/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: registers, commands, opcodes, event types and flags.  Hardware facts only.
 *
 * Invariants:	every register is big-endian; offsets are bytes.
 *		The HCA model keeps a description of its own: hw.h says why.
 * See:		hw.h for the structures in memory; docs/drivers/mlx4.md.
 */
#pragma once

#include <lib/compiler.h>

#define MLX4_VENDOR   0x15b3
#define MLX4_PAGE_LEN 4096

/* BAR 0 */
#define MLX4_HCR       0x80680
#define MLX4_OWNER     0x8069c
#define MLX4_RESET     0xf0010
#define MLX4_SEMAPHORE 0xf03fc
#define MLX4_BAR0_LEN  0x100000

/*
 * Of the model alone: a read ends when a completion or an event has come since the last such read,
 * or after MLX4_WAIT_UNIT_NS << n for the register MLX4_WAIT + 4 * n.
 */
#define MLX4_WAIT         0x2000
#define MLX4_WAIT_STEPS   8
#define MLX4_WAIT_UNIT_NS 16000ULL
#define MLX4_RESET_VAL    1U

/* Command register (HCR): seven dwords. */
enum mlx4_hcr {
	HCR_IN_HI = 0x00,
	HCR_IN_LO = 0x04,
	HCR_IN_MOD = 0x08,
	HCR_OUT_HI = 0x0c,
	HCR_OUT_LO = 0x10,
	HCR_TOKEN = 0x14,
	HCR_STATUS = 0x18,
};
#define HCR_GO        BIT(23)
#define HCR_EVENT     BIT(22)
#define HCR_TOGGLE    BIT(21)
#define HCR_OPMOD_SH  12
#define HCR_STATUS_SH 24

enum mlx4_opcode {
	CMD_QUERY_DEV_CAP = 0x003,
	CMD_QUERY_FW = 0x004,
	CMD_INIT_HCA = 0x007,
	CMD_CLOSE_HCA = 0x008,
	CMD_INIT_PORT = 0x009,
	CMD_CLOSE_PORT = 0x00a,
	CMD_SET_PORT = 0x00c,
	CMD_SW2HW_MPT = 0x00d,
	CMD_HW2SW_MPT = 0x00f,
	CMD_MAP_EQ = 0x012,
	CMD_SW2HW_EQ = 0x013,
	CMD_HW2SW_EQ = 0x014,
	CMD_SW2HW_CQ = 0x016,
	CMD_HW2SW_CQ = 0x017,
	CMD_RST2INIT_QP = 0x019,
	CMD_INIT2RTR_QP = 0x01a,
	CMD_RTR2RTS_QP = 0x01b,
	CMD_2ERR_QP = 0x01e,
	CMD_2RST_QP = 0x021,
	CMD_CONF_SPECIAL_QP = 0x023,
	CMD_MAD_IFC = 0x024,
	CMD_NOP = 0x031,
	CMD_MOD_STAT_CFG = 0x034,
	CMD_QUERY_PORT = 0x043,
	CMD_RUN_FW = 0xff6,
	CMD_UNMAP_ICM = 0xff9,
	CMD_MAP_ICM = 0xffa,
	CMD_UNMAP_ICM_AUX = 0xffb,
	CMD_MAP_ICM_AUX = 0xffc,
	CMD_SET_ICM_SIZE = 0xffd,
	CMD_UNMAP_FA = 0xffe,
	CMD_MAP_FA = 0xfff,
};

enum mlx4_status {
	STATUS_OK = 0x00,
	STATUS_INTERNAL_ERR = 0x01,
	STATUS_BAD_OP = 0x02,
	STATUS_BAD_PARAM = 0x03,
	STATUS_BAD_SYS_STATE = 0x04,
	STATUS_BAD_RESOURCE = 0x05,
	STATUS_RESOURCE_BUSY = 0x06,
	STATUS_EXCEED_LIM = 0x08,
	STATUS_BAD_RES_STATE = 0x09,
	STATUS_BAD_INDEX = 0x0a,
	STATUS_BAD_NVMEM = 0x0b,
	STATUS_ICM_ERROR = 0x0c,
	STATUS_BAD_QP_STATE = 0x10,
	STATUS_BAD_SEG_PARAM = 0x20,
	STATUS_REG_BOUND = 0x21,
	STATUS_LAM_NOT_PRE = 0x22,
	STATUS_BAD_PKT = 0x30,
	STATUS_BAD_SIZE = 0x40,
	STATUS_MULTI_FUNC_REQ = 0x50,
};

/* UAR page */
#define UAR_SEND_DOORBELL 0x14
#define UAR_CQ_DOORBELL   0x20
#define UAR_EQ_DOORBELL   0x800
#define UAR_EQ_ARM        BIT(31)
#define UAR_FIRST_KERNEL  128 /* pages below ring event queues: 4 each, up to 512 */
#define CQ_ARM_SOLICITED  1U
#define CQ_ARM_ANY        2U

/* Event queue entries */
#define EQE_LEN      32
#define EQE_OWNER    0x80
#define EQE_NUM_MASK 0xffffffU
#define EQE_PORT_SH  28
enum mlx4_event {
	EVENT_COMP = 0x00,
	EVENT_PATH_MIG = 0x01,
	EVENT_COMM_EST = 0x02,
	EVENT_SQ_DRAINED = 0x03,
	EVENT_CQ_ERROR = 0x04,
	EVENT_WQ_CATAS = 0x05,
	EVENT_PATH_MIG_FAILED = 0x07,
	EVENT_LOCAL_CATAS = 0x08,
	EVENT_PORT_CHANGE = 0x09,
	EVENT_CMD = 0x0a,
	EVENT_ECC = 0x0e,
	EVENT_EQ_OVERFLOW = 0x0f,
	EVENT_WQ_INVAL_REQ = 0x10,
	EVENT_WQ_ACCESS = 0x11,
	EVENT_SRQ_CATAS = 0x12,
	EVENT_SRQ_LAST_WQE = 0x13,
	EVENT_SRQ_LIMIT = 0x14,
	EVENT_FATAL_WARNING = 0x1b,
	EVENT_PORT_MGMT = 0x1d,
};
#define EVENT_MASK                                                                       \
	(BIT64(EVENT_CQ_ERROR) | BIT64(EVENT_WQ_CATAS) | BIT64(EVENT_LOCAL_CATAS) |      \
	 BIT64(EVENT_PORT_CHANGE) | BIT64(EVENT_CMD) | BIT64(EVENT_ECC) |                \
	 BIT64(EVENT_EQ_OVERFLOW) | BIT64(EVENT_WQ_INVAL_REQ) | BIT64(EVENT_WQ_ACCESS) | \
	 BIT64(EVENT_FATAL_WARNING) | BIT64(EVENT_COMM_EST))
#define PORT_CHANGE_DOWN   1
#define PORT_CHANGE_ACTIVE 4
#define PORT_MGMT_GUID     0x14
#define PORT_MGMT_PORTINFO 0x15
#define PORT_MGMT_PKEY     0x16
#define PORT_MGMT_SL2VL    0x17

/* Completion queue entries */
#define CQE_LEN            32
#define CQE_OWNER          0x80
#define CQE_IS_SEND        0x40
#define CQE_OPCODE_MASK    0x1f
#define CQE_OPCODE_ERROR   0x1e
#define CQE_QPN_MASK       0xffffffU
#define CQE_PKEY_MASK      0x7f
#define CQE_GRH            BIT(31)
#define CQE_SL_SH          12
#define CQE_RECV_WRITE_IMM 0
#define CQE_RECV_SEND      1
#define CQE_RECV_SEND_IMM  2
#define CQE_RECV_SEND_INV  3
enum mlx4_syndrome {
	SYNDROME_LOCAL_LEN = 0x01,
	SYNDROME_LOCAL_QP_OP = 0x02,
	SYNDROME_LOCAL_PROT = 0x04,
	SYNDROME_FLUSHED = 0x05,
	SYNDROME_MW_BIND = 0x06,
	SYNDROME_BAD_RESP = 0x10,
	SYNDROME_LOCAL_ACCESS = 0x11,
	SYNDROME_REMOTE_INVALID = 0x12,
	SYNDROME_REMOTE_ACCESS = 0x13,
	SYNDROME_REMOTE_OP = 0x14,
	SYNDROME_RETRIES = 0x15,
	SYNDROME_RNR_RETRIES = 0x16,
	SYNDROME_REMOTE_ABORT = 0x22,
};

/* Work queue entries */
#define WQE_CTRL_OWNER     BIT(31)
#define WQE_CTRL_FENCE     0x40U
#define WQE_CTRL_SIZE      0x3fU /* units of 16 bytes */
#define WQE_CTRL_QPN_SH    8     /* BlueFlame */
#define WQE_CTRL_INDEX_SH  8     /* BlueFlame */
#define WQE_CTRL_CQE       0x0000000cU
#define WQE_CTRL_SOLICITED 0x00000002U
#define WQE_MLX_VL15       BIT(17)
#define WQE_MLX_SLR        BIT(16)
#define WQE_MLX_SL_SH      8
#define WQE_INLINE         BIT(31)
#define WQE_INLINE_LEN     4 /* of an inline segment, before its data */
#define WQE_STAMP          0xffffffffU
#define WQE_INVALID_LKEY   0x100
#define WQE_CTRL_LEN       16
#define WQE_RADDR_LEN      16
#define WQE_ATOMIC_LEN     16
#define WQE_DATA_LEN       16
#define WQE_UD_LEN         48
#define WQE_LINE           64
#define SQ_HEADROOM_BYTES  2048
enum mlx4_wqe_opcode {
	WQE_OP_NOP = 0x00,
	WQE_OP_WRITE = 0x08,
	WQE_OP_WRITE_IMM = 0x09,
	WQE_OP_SEND = 0x0a,
	WQE_OP_SEND_IMM = 0x0b,
	WQE_OP_READ = 0x10,
	WQE_OP_CAS = 0x11,
	WQE_OP_FAA = 0x12,
};

/* QP context */
enum mlx4_qp_st {
	QP_ST_RC = 0,
	QP_ST_UD = 3,
	QP_ST_MLX = 7,
};
enum mlx4_qp_hw_state {
	QP_HW_RST = 0,
	QP_HW_INIT = 1,
	QP_HW_RTR = 2,
	QP_HW_RTS = 3,
};
#define QP_OPT_RRE BIT(1)
#define QP_OPT_RAE BIT(2)
#define QP_OPT_RWE BIT(3)

/* Capability flags */
#define CAP_RC           BIT64(0)
#define CAP_UD           BIT64(2)
#define CAP_ATOMIC       BIT64(18)
#define CAP_PORT_MGMT_EV BIT64(59)

/* Memory protection table entry */
#define MPT_SW_OWNS      0xf0000000U
#define MPT_MIO          BIT(17)
#define MPT_ATOMIC       BIT(14)
#define MPT_REMOTE_WRITE BIT(13)
#define MPT_REMOTE_READ  BIT(12)
#define MPT_LOCAL_WRITE  BIT(11)
#define MPT_LOCAL_READ   BIT(10)
#define MPT_REGION       BIT(8)
#define MPT_PD_RAE       BIT(28)
#define MTT_PRESENT      1ULL

/* Object types inside the cMPT region, in bits 25:24 of its index. */
enum mlx4_cmpt_type {
	CMPT_QP = 0,
	CMPT_SRQ = 1,
	CMPT_CQ = 2,
	CMPT_EQ = 3,
};
#define CMPT_TYPE_SH 24
