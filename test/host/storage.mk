# SPDX-License-Identifier: MIT
# The storage monitor's services, without RPC.
prog-y += storage
storage-objs := \
	$(addprefix monitors/storage/,batch.o change.o claim.o dispatch.o file.o grace.o held.o \
		inherit.o keep.o keep_calls.o \
		live.o locks.o locks_calls.o path.o permit.o promise.o record.o \
		share.o storage.o) \
	$(addprefix monitors/storage/,change_test.o keep_test.o \
		live_test.o locks_test.o memfs_test.o \
		service_test.o toy_image_test.o) \
	$(addprefix monitors/proto/,ms.o ps.o ps_batch.o ps_change.o ps_lock.o types.o) \
	$(addprefix drivers/block/,blkbatch.o blkdev.o)
storage-folders := fs/access fs/bcache fs/ext4 fs/lock fs/pathindex
storage-exclude := fs/%_test.o
