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
};

struct virtio_blk_config {
	le64_t capacity; /* of 512 bytes */
	le32_t size_max;
	le32_t seg_max;
	le32_t geometry;
	le32_t blk_size;
};
static_assert(sizeof(struct virtio_blk_config) == 24, "virtio_blk_config is device layout");

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
};

enum virtio_blk_result {
	VIRTIO_BLK_S_OK = 0,
	VIRTIO_BLK_S_IOERR = 1,
	VIRTIO_BLK_S_UNSUPP = 2,
	VIRTIO_BLK_S_NONE = 0xff, /* ours: what the byte holds before */
};

#define VIRTIO_BLK_MAX_SEGS 64u /* that we use of one request */

int virtio_blk_status(uint8_t status);
/* Fill the sizes of @bd; -EINVAL when they make no sense. */
int __must_check virtio_blk_decode(const struct virtio_blk_config *cfg, bool has_blk_size,
				   bool has_size_max, bool has_seg_max, struct blkdev *bd);
