/* SPDX-License-Identifier: MIT */
/*
 * HCA model: facts of the ConnectX-3 programming interface, as numbers.
 *
 * Offsets are bytes; fields are big-endian unless a name says otherwise.
 * See:	docs/tools/hca.md for what is modelled and what never met a real board.
 */
#pragma once

/* PCI */
#define PCI_VENDOR_MELLANOX 0x15b3
#define PCI_DEVICE_CX3      0x1003
#define BAR0_SIZE           0x100000u
#define BAR2_SIZE           0x800000u
#define MSIX_TABLE          0x7c000u
#define MSIX_PBA            0x7d000u
#define NR_MSIX             32u

/* BlueFlame: where it is offered, the upper half of BAR2; registers of two buffers each */
#define LOG_BF_REG  9u
#define LOG_BF_REGS 3u /* of a page */
#define BF_BUF      (1u << (LOG_BF_REG - 1))
#define BF_BUFS     (4096u / BF_BUF)
#define LOG_BF_UAR  22u /* bytes of UAR pages then */
#define LOG_UAR     23u /* and otherwise */
#define NR_BF_PAGES (1u << (LOG_BF_UAR - 12))

/* The model's own capability: 12 bytes, the text at 4, the flags at 8. */
#define HINT_LEN         12u
#define HINT_VERSION     1u
#define HINT_MAGIC       "TSRA"
#define HINT_EMULATED    BIT(0) /* each register access costs an exit */
#define HINT_ONE_AT_ONCE BIT(1) /* and gets lost while another CPU makes one */
#define HINT_WAIT        BIT(2) /* there are wait registers */

/* BAR0 */
#define REG_HCR       0x80680u
#define REG_HCR_WORD  0x80698u
#define REG_HCR_END   0x8069cu
#define REG_OWNER     0x8069cu
#define REG_RESET     0xf0010u
#define REG_SEM       0xf03fcu
#define REG_CLR_INT   0xf00d8u
#define REG_ERRBUF    0x60000u
#define REG_CLOCK     0x1000u
#define REG_WAIT      0x2000u /* the model's own: wait.c */
#define REG_WAIT_END  (REG_WAIT + 4 * WAIT_STEPS)
#define WAIT_STEPS    8u
#define WAIT_UNIT_US  16ull
#define ERRBUF_DWORDS 16u

/* HCR dword 6 */
#define HCR_GO    BIT(23)
#define HCR_EVENT BIT(22)

/* Command status */
enum hca_status {
	ST_OK = 0x00,
	ST_INTERNAL_ERR = 0x01,
	ST_BAD_OP = 0x02,
	ST_BAD_PARAM = 0x03,
	ST_BAD_SYS_STATE = 0x04,
	ST_BAD_RESOURCE = 0x05,
	ST_BUSY = 0x06,
	ST_EXCEED_LIM = 0x08,
	ST_BAD_RES_STATE = 0x09,
	ST_BAD_INDEX = 0x0a,
	ST_ICM_ERROR = 0x0c,
	ST_BAD_QP_STATE = 0x10,
	ST_BAD_PKT = 0x30,
	ST_BAD_SIZE = 0x40,
};

/* Opcodes */
enum hca_opcode {
	OP_QUERY_DEV_CAP = 0x003,
	OP_QUERY_FW = 0x004,
	OP_QUERY_ADAPTER = 0x006,
	OP_INIT_HCA = 0x007,
	OP_CLOSE_HCA = 0x008,
	OP_INIT_PORT = 0x009,
	OP_CLOSE_PORT = 0x00a,
	OP_QUERY_HCA = 0x00b,
	OP_SET_PORT = 0x00c,
	OP_SW2HW_MPT = 0x00d,
	OP_QUERY_MPT = 0x00e,
	OP_HW2SW_MPT = 0x00f,
	OP_READ_MTT = 0x010,
	OP_WRITE_MTT = 0x011,
	OP_MAP_EQ = 0x012,
	OP_SW2HW_EQ = 0x013,
	OP_HW2SW_EQ = 0x014,
	OP_QUERY_EQ = 0x015,
	OP_SW2HW_CQ = 0x016,
	OP_HW2SW_CQ = 0x017,
	OP_QUERY_CQ = 0x018,
	OP_RST2INIT = 0x019,
	OP_INIT2RTR = 0x01a,
	OP_RTR2RTS = 0x01b,
	OP_RTS2RTS = 0x01c,
	OP_SQERR2RTS = 0x01d,
	OP_2ERR = 0x01e,
	OP_RTS2SQD = 0x01f,
	OP_SQD2RTS = 0x020,
	OP_2RST = 0x021,
	OP_QUERY_QP = 0x022,
	OP_CONF_SPECIAL_QP = 0x023,
	OP_MAD_IFC = 0x024,
	OP_READ_MCG = 0x025,
	OP_WRITE_MCG = 0x026,
	OP_MGID_HASH = 0x027,
	OP_MODIFY_CQ = 0x02c,
	OP_INIT2INIT = 0x02d,
	OP_SYNC_TPT = 0x02f,
	OP_DIAG_RPRT = 0x030,
	OP_NOP = 0x031,
	OP_MOD_STAT_CFG = 0x034,
	OP_SW2HW_SRQ = 0x035,
	OP_HW2SW_SRQ = 0x036,
	OP_QUERY_SRQ = 0x037,
	OP_SQD2SQD = 0x038,
	OP_QUERY_PORT = 0x043,
	OP_ARM_SRQ = 0x040,
	OP_HW_HEALTH_CHECK = 0x050,
	OP_RUN_FW = 0xff6,
	OP_UNMAP_ICM = 0xff9,
	OP_MAP_ICM = 0xffa,
	OP_UNMAP_ICM_AUX = 0xffb,
	OP_MAP_ICM_AUX = 0xffc,
	OP_SET_ICM_SIZE = 0xffd,
	OP_UNMAP_FA = 0xffe,
	OP_MAP_FA = 0xfff,
};

/* Limits that QUERY_DEV_CAP reports (log2 unless plain) */
#define FW_PAGES       256u
#define AUX_PAGES      64u
#define LOG_MAX_QP     18u
#define LOG_RSVD_QP    6u
#define LOG_MAX_SRQ    16u
#define LOG_RSVD_SRQ   6u
#define LOG_MAX_CQ     16u
#define LOG_RSVD_CQ    7u
#define LOG_MAX_EQ     7u
#define LOG_RSVD_EQ    3u
#define LOG_MAX_MPT    19u
#define LOG_MAX_WQES   14u
#define LOG_MAX_CQE    16u
#define LOG_MAX_PD     15u
#define LOG_MAX_MCG    13u
#define LOG_QP_PER_MCG 8u
#define LOG_MAX_MSG    30u
#define MAX_SQ_SG      62u
#define MAX_SQ_DESC    1008u
#define MAX_RQ_SG      32u
#define MAX_RQ_DESC    512u
#define LOG_ICM_MAX    36u
#define NR_GIDS        8u
#define NR_PKEYS       16u

#define SIZE_RDMARC 32u
#define SIZE_QPC    256u
#define SIZE_AUXC   16u
#define SIZE_ALTC   64u
#define SIZE_EQC    64u
#define SIZE_CQC    64u
#define SIZE_SRQC   64u
#define SIZE_CMPT   64u
#define SIZE_MTT    8u
#define SIZE_DMPT   64u

/* MPT entry, dword 0 */
#define MPT_STATUS_SHIFT 28
#define MPT_SW           0xfu
#define MPT_FREE         0x3u
#define MPT_ATOMIC       BIT(14)
#define MPT_REMOTE_WRITE BIT(13)
#define MPT_REMOTE_READ  BIT(12)
#define MPT_LOCAL_WRITE  BIT(11)
#define MPT_LOCAL_READ   BIT(10)
#define MPT_PHYSICAL     BIT(9)
#define MPT_REGION       BIT(8)
#define MPT_PD_MASK      0x1ffffu

/* Event types and subtypes */
enum hca_event {
	EV_COMP = 0x00,
	EV_COMM_EST = 0x02,
	EV_SQ_DRAINED = 0x03,
	EV_CQ_ERROR = 0x04,
	EV_WQ_CATAS = 0x05,
	EV_LOCAL_CATAS = 0x08,
	EV_PORT_CHANGE = 0x09,
	EV_CMD = 0x0a,
	EV_WQ_INVAL_REQ = 0x10,
	EV_WQ_ACCESS = 0x11,
	EV_SRQ_CATAS = 0x12,
	EV_LAST_WQE = 0x13,
	EV_SRQ_LIMIT = 0x14,
	EV_PORT_MNG_CHG = 0x1d,
	NR_EVENTS = 64,
};
#define EV_SUB_PORT_DOWN   1
#define EV_SUB_PORT_ACTIVE 4
#define EV_SUB_PORT_INFO   0x15

/* State of an event queue, in its context */
#define EQ_STATE_MASK 0xfu
#define EQ_ARMED      0x9u
#define EQ_FIRED      0xau

/* QP */
enum qp_state {
	QPS_RST,
	QPS_INIT,
	QPS_RTR,
	QPS_RTS,
	QPS_SQER,
	QPS_SQD,
	QPS_ERR,
	QPS_DRAINING,
};
enum qp_type {
	QPT_RC = 0,
	QPT_UC = 1,
	QPT_UD = 3,
	QPT_MLX = 7,
};
#define QPN_MASK 0xffffffu

/* Send opcodes */
enum wqe_opcode {
	WQE_NOP = 0x00,
	WQE_SEND_INV = 0x01,
	WQE_WRITE = 0x08,
	WQE_WRITE_IMM = 0x09,
	WQE_SEND = 0x0a,
	WQE_SEND_IMM = 0x0b,
	WQE_READ = 0x10,
	WQE_CAS = 0x11,
	WQE_FAA = 0x12,
	WQE_MASKED_CAS = 0x14,
	WQE_MASKED_FAA = 0x15,
};

/* Receive completion opcodes */
#define RCQE_WRITE_IMM 0
#define RCQE_SEND      1
#define RCQE_SEND_IMM  2
#define CQE_OWNER      0x80
#define CQE_SEND       0x40
#define CQE_OP_RESIZE  0x16
#define CQE_OP_ERROR   0x1e

/* Completion syndromes */
enum cqe_syndrome {
	SYN_OK = 0x00,
	SYN_LOCAL_LENGTH = 0x01,
	SYN_LOCAL_QP_OP = 0x02,
	SYN_LOCAL_PROT = 0x04,
	SYN_FLUSH = 0x05,
	SYN_BAD_RESP = 0x10,
	SYN_LOCAL_ACCESS = 0x11,
	SYN_REM_INV_REQ = 0x12,
	SYN_REM_ACCESS = 0x13,
	SYN_REM_OP = 0x14,
	SYN_RETRY_EXC = 0x15,
	SYN_RNR_EXC = 0x16,
};
#define LKEY_END 0x100u /* ends a short receive list */

/* Addresses on the modelled subnet */
#define LID_MCAST_BASE 0xc000u
#define LID_PERMISSIVE 0xffffu
#define SM_LID         0xbfffu /* the switch's port 0, where SM and SA live */
#define MAX_LID        0xbffeu
#define GID_PREFIX     0xfe80000000000000ull
#define QKEY_GSI       0x80010000u
#define PKEY_DEFAULT   0xffffu
#define IB_MTU_4096    5u
#define MAX_PACKET     4096u
