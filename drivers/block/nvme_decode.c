/* SPDX-License-Identifier: MIT */
/* NVMe: what a controller says, checked, and how memory is named in a command.  Pure. */
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/kmap.h>

#include "nvme_priv.h"

#define HALF_SECOND_NS  500000000ul
#define READY_MAX_NS    (120 * HALF_SECOND_NS)
#define MAX_DISCARD     ((uint64_t)1 << 21) /* sectors: 1 GiB takes no disk long */
#define MAX_ZERO_BLOCKS 65536u              /* what the field of the command holds */
#define CAP_CSS_NVM     BIT64(37)

int nvme_decode_cap(uint64_t cap, uint64_t regs_len, struct nvme_caps *out)
{
	const unsigned int entries = (unsigned int)(cap & 0xffff) + 1;
	const unsigned int stride = 4u << (cap >> 32 & 0xf);
	const uint64_t ready = MAX(cap >> 24 & 0xff, 1ull) * HALF_SECOND_NS;

	if (cap == UINT64_MAX)
		return -ENODEV;
	/* Memory in pages of 4 KiB has to be among what it can. */
	if (!(cap & CAP_CSS_NVM) || (cap >> 48 & 0xf) != 0)
		return -EOPNOTSUPP;
	/* The specification asks for two entries; the doorbells of the admin queue have to fit. */
	if (entries < 2 || regs_len < NVME_REG_DOORBELLS + 2 * (uint64_t)stride)
		return -EINVAL;
	out->max_depth = entries;
	out->stride = stride;
	out->ready_ns = MIN(ready, READY_MAX_NS);
	return 0;
}

/* Text padded with spaces, from a device: printable, and ended. */
static void copy_text(char *dst, const char *src, size_t len)
{
	while (len && (src[len - 1] == ' ' || !src[len - 1]))
		len--;
	for (size_t i = 0; i < len; i++)
		dst[i] = src[i] >= ' ' && src[i] <= '~' ? src[i] : '?';
	dst[len] = '\0';
}

int nvme_decode_ctrl(const struct nvme_id_ctrl *id, struct nvme_info *out)
{
	const uint16_t oncs = le16_to_cpu(id->oncs);
	uint32_t max = NVME_MAX_TRANSFER;

	/* Required and maximum entry sizes: ours lie between. */
	if ((id->sqes & 0xf) > 6 || id->sqes >> 4 < 6 || (id->cqes & 0xf) > 4 || id->cqes >> 4 < 4)
		return -EINVAL;
	if (!le32_to_cpu(id->nn))
		return -EINVAL;
	if (id->mdts && id->mdts < 20)
		max = MIN(max, NVME_PAGE << id->mdts);
	out->max_transfer = max;
	out->nr_nsids = le32_to_cpu(id->nn);
	out->volatile_cache = id->vwc & NVME_VWC_PRESENT;
	out->flush_for_fua = le16_to_cpu(id->vid) == NVME_VID_QEMU;
	out->discard = oncs & NVME_ONCS_DSM;
	out->zeroes = oncs & NVME_ONCS_WRITE_ZEROES;
	copy_text(out->model, id->model, sizeof(id->model));
	copy_text(out->serial, id->serial, sizeof(id->serial));
	return 0;
}

int nvme_decode_ns(const struct nvme_id_ns *id, const struct nvme_info *info, struct blkdev *bd,
		   unsigned int *shift)
{
	const unsigned int format = id->flbas & 0xf;
	const uint64_t blocks = le64_to_cpu(id->nsze);
	unsigned int bits;
	uint32_t block;

	if (format > id->nlbaf || format >= NVME_NR_FORMATS)
		return -EINVAL;
	bits = id->formats[format].shift;
	/* A command of one block has to be within what the controller takes. */
	if (bits < BLK_SECTOR_SHIFT || bits > 16 || 1u << bits > info->max_transfer)
		return -EINVAL;
	if (le16_to_cpu(id->formats[format].metadata))
		return -EOPNOTSUPP;
	if (!blocks || blocks > UINT64_MAX >> (bits + 1))
		return -EINVAL;
	block = 1u << bits;
	bd->block_size = block;
	bd->nr_sectors = blocks << (bits - BLK_SECTOR_SHIFT);
	bd->max_segs = NVME_MAX_SEGS;
	bd->max_seg_len = NVME_MAX_TRANSFER;
	bd->read_only = id->nsattr & NVME_NSATTR_PROTECTED;
	bd->has_flush = info->volatile_cache;
	bd->max_discard = info->discard ? MAX_DISCARD : 0;
	bd->max_zero = 0;
	if (info->zeroes)
		bd->max_zero = MIN((uint64_t)MAX_ZERO_BLOCKS << bits, info->max_transfer) >>
			       BLK_SECTOR_SHIFT;
	*shift = bits;
	return 0;
}

int nvme_decode_nsids(const le32_t *ids, unsigned int max, uint32_t after, uint32_t highest)
{
	unsigned int nr;

	for (nr = 0; nr < max && le32_to_cpu(ids[nr]); nr++) {
		const uint32_t id = le32_to_cpu(ids[nr]);

		/* Rising, so that a walk from page to page comes to an end. */
		if (id <= after || id > highest)
			return -EINVAL;
		after = id;
	}
	return (int)nr;
}

int nvme_status_errno(uint16_t status)
{
	switch (status & NVME_SC_CODE_MASK) {
	case NVME_SC_OK:
		return 0;
	case NVME_SC_INVALID_OPCODE:
		return -EOPNOTSUPP;
	case NVME_SC_WRITE_PROTECTED:
		return -EROFS;
	case NVME_SC_CAPACITY_EXCEEDED:
		return -ENOSPC;
	default: /* media errors, and what is not defined */
		return -EIO;
	}
}

bool nvme_status_again(uint16_t status)
{
	const unsigned int code = status & NVME_SC_CODE_MASK;

	if (status & NVME_SC_DNR)
		return false;
	return code == NVME_SC_ABORTED || code == NVME_SC_ABORTED_SQ_DELETED ||
	       code == NVME_SC_NOT_READY;
}

uint32_t nvme_cut(const struct blk_req *req, uint32_t max, le64_t *list, paddr_t list_paddr,
		  struct nvme_cmd *cmd)
{
	unsigned int nr = 0; /* pages named */
	uint32_t off = req->progress.off, len = 0;
	paddr_t end = 0;

	ASSERT(max <= NVME_MAX_TRANSFER && !(max % NVME_PAGE));
	cmd->prp2 = cpu_to_le64(0);
	for (unsigned int i = req->progress.seg; i < req->nr_segs && len < max; i++, off = 0) {
		const paddr_t addr = virt_to_phys((const uint8_t *)req->segs[i].buf + off);
		const uint32_t part = MIN(req->segs[i].len - off, max - len);

		/* Between the first page and the last all are whole. */
		if (len && (addr % NVME_PAGE || end % NVME_PAGE))
			break;
		for (paddr_t page = addr; page < addr + part; nr++) {
			if (nr)
				list[nr - 1] = cpu_to_le64(page);
			else
				cmd->prp1 = cpu_to_le64(page);
			page = ALIGN_DOWN(page, (paddr_t)NVME_PAGE) + NVME_PAGE;
		}
		len += part;
		end = addr + part;
	}
	if (le64_to_cpu(cmd->prp1) % 4)
		return 0;
	if (nr == 2)
		cmd->prp2 = list[0];
	else if (nr > 2)
		cmd->prp2 = cpu_to_le64(list_paddr);
	return len;
}
