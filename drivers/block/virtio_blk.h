/* SPDX-License-Identifier: MIT */
/* virtio block devices: layout (VIRTIO 1.1, section 5.2), and the pure parts for tests. */
#pragma once

#include <drivers/blkdev.h>
#include <lib/byteorder.h>
#include <lib/compiler.h>

enum virtio_blk_feature {
	VIRTIO_BLK_F_SIZE_MAX = 1,
	VIRTIO_BLK_F_SEG_MAX = 2,
	VIRTIO_BLK_F_RO = 5,
	VIRTIO_BLK_F_BLK_SIZE = 6,
	VIRTIO_BLK_F_FLUSH = 9,
	VIRTIO_BLK_F_MQ = 12,
	VIRTIO_BLK_F_DISCARD = 13,
	VIRTIO_BLK_F_WRITE_ZEROES = 14,
};

struct virtio_blk_config {
	le64_t capacity; /* of 512 bytes */
	le32_t size_max;
	le32_t seg_max;
	le32_t geometry;
	le32_t blk_size;
	uint8_t topology[8];
	uint8_t writeback;
	uint8_t reserved0;
	le16_t num_queues;
	le32_t max_discard_sectors;
	le32_t max_discard_seg;
	le32_t discard_sector_alignment;
	le32_t max_write_zeroes_sectors;
	le32_t max_write_zeroes_seg;
	uint8_t write_zeroes_may_unmap;
	uint8_t reserved1[7]; /* of which 3 bytes are the device's */
};
static_assert(offsetof(struct virtio_blk_config, num_queues) == 34 &&
		      offsetof(struct virtio_blk_config, write_zeroes_may_unmap) == 56,
	      "virtio_blk_config is device layout");

struct virtio_blk_header {
	le32_t type;
	le32_t reserved;
	le64_t sector;
};
static_assert(sizeof(struct virtio_blk_header) == 16, "virtio_blk_header is device layout");

enum virtio_blk_type {
	VIRTIO_BLK_T_IN = 0,
	VIRTIO_BLK_T_OUT = 1,
	VIRTIO_BLK_T_FLUSH = 4,
	VIRTIO_BLK_T_DISCARD = 11,
	VIRTIO_BLK_T_WRITE_ZEROES = 13,
};

/* The subject of a discard or a zeroing. */
struct virtio_blk_range {
	le64_t sector;
	le32_t num_sectors;
	le32_t flags;
};
static_assert(sizeof(struct virtio_blk_range) == 16, "virtio_blk_range is device layout");

#define VIRTIO_BLK_RANGE_UNMAP 1u /* a zeroing may deallocate */

enum virtio_blk_result {
	VIRTIO_BLK_S_OK = 0,
	VIRTIO_BLK_S_IOERR = 1,
	VIRTIO_BLK_S_UNSUPP = 2,
	VIRTIO_BLK_S_NONE = 0xff, /* ours: what the byte holds before */
};

#define VIRTIO_BLK_MAX_SEGS 64u /* that we use of one request */

int virtio_blk_status(uint8_t status);
/*
 * Fill the sizes and limits of @bd from those fields of @cfg that the @features agreed on bring.
 * *nr_queues: those of the device, 1 or more.  -EINVAL when they make no sense.
 */
int __must_check virtio_blk_decode(const struct virtio_blk_config *cfg, uint64_t features,
				   struct blkdev *bd, unsigned int *nr_queues);
