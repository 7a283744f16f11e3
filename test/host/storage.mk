# SPDX-License-Identifier: MIT
# The storage monitor's services, without RPC.
prog-y += storage
storage-objs := \
	$(addprefix monitors/storage/,file.o path.o storage.o service_test.o toy_image_test.o) \
	$(addprefix monitors/proto/,ms.o ps.o types.o) drivers/block/blkdev.o
storage-folders := fs/access fs/bcache fs/ext4 fs/pathindex
storage-exclude := fs/%_test.o
