/* SPDX-License-Identifier: MIT */
/*
 * NVMe: registers, commands, completions and what a controller says about itself.
 *
 * See:		NVM Express Base Specification 1.4, sections 3.1, 4.2 to 4.6, 5 and 6
 */
#pragma once

#include <lib/byteorder.h>
#include <lib/compiler.h>

/* --- registers, offsets in BAR 0 */

enum nvme_reg {
	NVME_REG_CAP = 0x00, /* 64 bits */
	NVME_REG_CC = 0x14,
	NVME_REG_CSTS = 0x1c,
	NVME_REG_AQA = 0x24,
	NVME_REG_ASQ = 0x28, /* 64 bits, as is ACQ */
	NVME_REG_ACQ = 0x30,
	NVME_REG_DOORBELLS = 0x1000,
};

#define NVME_GONE UINT32_MAX /* what the registers of a device that vanished read as */

#define NVME_CC_EN     BIT(0)
#define NVME_CC_IOSQES (6u << 16) /* entries of 64 bytes */
#define NVME_CC_IOCQES (4u << 20) /* and of 16 */

#define NVME_CSTS_RDY BIT(0)
#define NVME_CSTS_CFS BIT(1) /* fatal error */

/* --- commands */

enum nvme_admin_op {
	NVME_ADMIN_CREATE_SQ = 0x01,
	NVME_ADMIN_CREATE_CQ = 0x05,
	NVME_ADMIN_IDENTIFY = 0x06,
	NVME_ADMIN_ABORT = 0x08,
	NVME_ADMIN_SET_FEATURES = 0x09,
};

enum nvme_io_op {
	NVME_IO_FLUSH = 0x00,
	NVME_IO_WRITE = 0x01,
	NVME_IO_READ = 0x02,
	NVME_IO_WRITE_ZEROES = 0x08,
	NVME_IO_DSM = 0x09, /* dataset management: discard */
};

enum nvme_identify {
	NVME_CNS_NAMESPACE = 0,
	NVME_CNS_CONTROLLER = 1,
	NVME_CNS_ACTIVE_NSIDS = 2, /* those above nsid, rising, 0 behind the last */
};

#define NVME_FEATURE_NR_QUEUES 0x07
#define NVME_QUEUE_CONTIGUOUS  BIT(0)
#define NVME_CQ_INTERRUPTS     BIT(1)
#define NVME_VID_QEMU          0x1b36  /* its controller does not look at FUA, in 7.2 at least */
#define NVME_RW_FUA            BIT(30) /* of cdw12 */
#define NVME_DSM_DEALLOCATE    BIT(2)  /* of cdw11 */

struct nvme_cmd {
	uint8_t opcode;
	uint8_t flags;
	le16_t cid;
	le32_t nsid;
	le32_t cdw2, cdw3;
	le64_t metadata;
	le64_t prp1;
	le64_t prp2;
	le32_t cdw10, cdw11, cdw12, cdw13, cdw14, cdw15;
};
static_assert(sizeof(struct nvme_cmd) == 64 && offsetof(struct nvme_cmd, prp1) == 24,
	      "nvme_cmd is device layout");

struct nvme_cqe {
	le32_t result;
	le32_t reserved;
	le16_t sq_head;
	le16_t sq_id;
	le16_t cid;
	le16_t status; /* bit 0: the phase */
};
static_assert(sizeof(struct nvme_cqe) == 16 && offsetof(struct nvme_cqe, cid) == 12,
	      "nvme_cqe is device layout");

/* Of a discard. */
struct nvme_range {
	le32_t attributes;
	le32_t nr_blocks;
	le64_t block;
};
static_assert(sizeof(struct nvme_range) == 16, "nvme_range is device layout");

/* The status field without the phase: code in bits 0 to 7, its type in 8 to 10. */
enum nvme_status {
	NVME_SC_OK = 0x000,
	NVME_SC_INVALID_OPCODE = 0x001,
	NVME_SC_INVALID_FIELD = 0x002,
	NVME_SC_ABORTED = 0x007, /* as asked for by an Abort command */
	NVME_SC_ABORTED_SQ_DELETED = 0x008,
	NVME_SC_WRITE_PROTECTED = 0x020,
	NVME_SC_CAPACITY_EXCEEDED = 0x081,
	NVME_SC_NOT_READY = 0x082,
	NVME_SC_CODE_MASK = 0x7ff,
	NVME_SC_DNR = 0x4000, /* do not retry */
};

/* --- what Identify returns: 4096 bytes each, of which these are the ones that count */

#define NVME_IDENTIFY_LEN 4096u

struct nvme_id_ctrl {
	le16_t vid, ssvid;
	char serial[20];
	char model[40];
	char firmware[8];
	uint8_t reserved0[5];
	uint8_t mdts;
	uint8_t reserved1[178];
	le16_t oacs;
	uint8_t reserved2[254];
	uint8_t sqes, cqes;
	le16_t maxcmd;
	le32_t nn;
	le16_t oncs;
	le16_t fuses;
	uint8_t fna;
	uint8_t vwc;
	uint8_t reserved3[3570];
};
static_assert(sizeof(struct nvme_id_ctrl) == NVME_IDENTIFY_LEN &&
		      offsetof(struct nvme_id_ctrl, mdts) == 77 &&
		      offsetof(struct nvme_id_ctrl, oacs) == 256 &&
		      offsetof(struct nvme_id_ctrl, sqes) == 512 &&
		      offsetof(struct nvme_id_ctrl, oncs) == 520 &&
		      offsetof(struct nvme_id_ctrl, vwc) == 525,
	      "nvme_id_ctrl is device layout");

#define NVME_ONCS_DSM          BIT(2)
#define NVME_ONCS_WRITE_ZEROES BIT(3)
#define NVME_VWC_PRESENT       BIT(0)

#define NVME_NR_FORMATS 16u

struct nvme_id_ns {
	le64_t nsze;
	le64_t ncap;
	le64_t nuse;
	uint8_t nsfeat;
	uint8_t nlbaf; /* less 1 */
	uint8_t flbas;
	uint8_t reserved0[72];
	uint8_t nsattr; /* byte 99; bit 0: write protected */
	uint8_t reserved1[28];
	struct {
		le16_t metadata;
		uint8_t shift; /* of the block size */
		uint8_t rp;
	} formats[NVME_NR_FORMATS];
	uint8_t reserved2[3904];
};
static_assert(sizeof(struct nvme_id_ns) == NVME_IDENTIFY_LEN &&
		      offsetof(struct nvme_id_ns, flbas) == 26 &&
		      offsetof(struct nvme_id_ns, nsattr) == 99 &&
		      offsetof(struct nvme_id_ns, formats) == 128,
	      "nvme_id_ns is device layout");

#define NVME_NSATTR_PROTECTED BIT(0)
