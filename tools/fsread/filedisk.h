/* SPDX-License-Identifier: MIT */
/* A disk image in a file, or in memory, as a block device on the host. */
#pragma once

#include <drivers/blkdev.h>

/* NULL with errno set. */
struct blkdev *filedisk_open(const char *path);
/* The bytes stay the caller's. */
struct blkdev *memdisk_open(uint8_t *data, size_t len);
void filedisk_close(struct blkdev *bd);
