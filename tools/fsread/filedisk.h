/* SPDX-License-Identifier: MIT */
/* A disk image in a file, as a block device on the host. */
#pragma once

#include <drivers/blkdev.h>

/* NULL with errno set. */
struct blkdev *filedisk_open(const char *path, bool read_only);
void filedisk_close(struct blkdev *bd);
