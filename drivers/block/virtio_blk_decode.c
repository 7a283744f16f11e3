/* SPDX-License-Identifier: MIT */
/* virtio block devices: what their configuration and answers mean.  Pure. */
#include <lib/errno.h>

#include "virtio_blk.h"

#define MAX_SEG_LEN (1u << 20)

int virtio_blk_status(uint8_t status)
{
	switch (status) {
	case VIRTIO_BLK_S_OK:
		return 0;
	case VIRTIO_BLK_S_UNSUPP:
		return -EOPNOTSUPP;
	default: /* IOERR, NONE (it wrote no status) and what is not defined */
		return -EIO;
	}
}

int virtio_blk_decode(const struct virtio_blk_config *cfg, bool has_blk_size, bool has_size_max,
		      bool has_seg_max, struct blkdev *bd)
{
	const uint64_t capacity = le64_to_cpu(cfg->capacity);
	uint32_t block = has_blk_size ? le32_to_cpu(cfg->blk_size) : BLK_SECTOR_SIZE;
	uint32_t seg_len = has_size_max ? le32_to_cpu(cfg->size_max) : MAX_SEG_LEN;
	uint32_t segs = has_seg_max ? le32_to_cpu(cfg->seg_max) : 1;

	if (block < BLK_SECTOR_SIZE || block > 65536 || !IS_POWER_OF_2(block))
		return -EINVAL;
	if (!capacity || capacity > UINT64_MAX >> (BLK_SECTOR_SHIFT + 1))
		return -EINVAL;
	seg_len = ALIGN_DOWN(MIN(seg_len, MAX_SEG_LEN), block);
	if (!seg_len || !segs)
		return -EINVAL;
	bd->nr_sectors = ALIGN_DOWN(capacity, (uint64_t)(block >> BLK_SECTOR_SHIFT));
	bd->block_size = block;
	bd->max_seg_len = seg_len;
	bd->max_segs = MIN(segs, VIRTIO_BLK_MAX_SEGS);
	return bd->nr_sectors ? 0 : -EINVAL;
}
