# SPDX-License-Identifier: MIT
prog-y += fs
fs-folders := fs/access fs/bcache fs/ext4 fs/pathindex
fs-objs := drivers/block/blkbatch.o drivers/block/blkdev.o
