# SPDX-License-Identifier: MIT
prog-y += fs
fs-folders := fs/access fs/bcache fs/ext4 fs/pathindex
fs-objs := drivers/block/blkbatch.o drivers/block/blkdev.o
# Transactions, recovery and power cuts, with e2fsprogs as the reference.
prog-y += crash
crash-folders := fs/access fs/bcache fs/ext4
crash-exclude := fs/%_test.o
crash-objs := drivers/block/blkbatch.o drivers/block/blkdev.o \
	$(addprefix test/host/,crash_test.o credits_test.o damage_test.o errors_test.o \
		image_kit.o journal_test.o listing_test.o logdisk.o mmp_test.o \
		names_behind_test.o promise_test.o \
		remount_test.o shortage_test.o)
