# SPDX-License-Identifier: MIT
prog-y += fs
fs-folders := fs/bcache fs/ext4 fs/pathindex
fs-objs := drivers/block/blkdev.o
