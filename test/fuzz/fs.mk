# SPDX-License-Identifier: MIT
ext4_fuzz-folders := fs/access fs/bcache fs/ext4 fs/pathindex
ext4_fuzz-objs := drivers/block/blkbatch.o drivers/block/blkdev.o
ext4_fuzz-max-len := 512
