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

static bool has(uint64_t features, enum virtio_blk_feature f)
{
	return features & BIT64(f);
}

/* Sectors of one request with one range: whole blocks; 0 where the device cannot. */
static uint64_t range_limit(bool offered, le32_t sectors, le32_t ranges, uint32_t block)
{
	if (!offered || !le32_to_cpu(ranges))
		return 0;
	return ALIGN_DOWN((uint64_t)le32_to_cpu(sectors), (uint64_t)(block >> BLK_SECTOR_SHIFT));
}

int virtio_blk_decode(const struct virtio_blk_config *cfg, uint64_t features, struct blkdev *bd,
		      unsigned int *nr_queues)
{
	const uint64_t capacity = le64_to_cpu(cfg->capacity);
	uint32_t block =
		has(features, VIRTIO_BLK_F_BLK_SIZE) ? le32_to_cpu(cfg->blk_size) : BLK_SECTOR_SIZE;
	uint32_t seg_len =
		has(features, VIRTIO_BLK_F_SIZE_MAX) ? le32_to_cpu(cfg->size_max) : MAX_SEG_LEN;
	uint32_t segs = has(features, VIRTIO_BLK_F_SEG_MAX) ? le32_to_cpu(cfg->seg_max) : 1;
	unsigned int queues = has(features, VIRTIO_BLK_F_MQ) ? le16_to_cpu(cfg->num_queues) : 1;

	if (block < BLK_SECTOR_SIZE || block > 65536 || !IS_POWER_OF_2(block))
		return -EINVAL;
	if (!capacity || capacity > UINT64_MAX >> (BLK_SECTOR_SHIFT + 1))
		return -EINVAL;
	seg_len = ALIGN_DOWN(MIN(seg_len, MAX_SEG_LEN), block);
	if (!seg_len || !segs || !queues)
		return -EINVAL;
	bd->nr_sectors = ALIGN_DOWN(capacity, (uint64_t)(block >> BLK_SECTOR_SHIFT));
	bd->block_size = block;
	bd->max_seg_len = seg_len;
	bd->max_segs = MIN(segs, VIRTIO_BLK_MAX_SEGS);
	bd->max_discard = range_limit(has(features, VIRTIO_BLK_F_DISCARD), cfg->max_discard_sectors,
				      cfg->max_discard_seg, block);
	bd->max_zero = range_limit(has(features, VIRTIO_BLK_F_WRITE_ZEROES),
				   cfg->max_write_zeroes_sectors, cfg->max_write_zeroes_seg, block);
	*nr_queues = queues;
	return bd->nr_sectors ? 0 : -EINVAL;
}
