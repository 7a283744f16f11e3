# SPDX-License-Identifier: MIT
# Walks, mounts and the inodes of storage nodes, beside a storage node that lies.
prog-y      += vfs
vfs-objs    := monitors/processor/account/account.o monitors/processor/ns/ns.o \
	$(addprefix monitors/processor/client/,behind.o change.o kept.o kept_net.o) \
	$(addprefix monitors/processor/vfs/,attr_access.o fs_state.o mount.o mount_copy.o) \
	$(addprefix monitors/processor/vfs/,mount_move.o mount_table.o storagefs.o) \
	$(addprefix monitors/processor/vfs/,storagefs_change.o storagefs_handle.o storagefs_kept.o \
		storagefs_xattr.o walk.o) \
	$(addprefix monitors/proto/,ps.o ps_batch.o ps_change.o ps_lock.o types.o) \
	test/host/user_ns_fake.o test/host/vfs_alone.o test/host/vfs_test.o
vfs-folders := fs/access
vfs-exclude := fs/%_test.o

# Changes from the processor's inodes to a file system in memory, and back.
prog-y        += files
files-objs    := $(addprefix monitors/processor/vfs/,attr_access.o fs_state.o mount.o mount_copy.o \
		mount_move.o mount_table.o storagefs.o \
		storagefs_change.o storagefs_handle.o storagefs_kept.o \
		storagefs_xattr.o walk.o) \
	$(addprefix monitors/processor/client/,behind.o change.o kept.o kept_net.o storage.o) \
	$(addprefix monitors/storage/,batch.o change.o claim.o grace.o held.o inherit.o keep.o \
		keep_calls.o locks.o \
		memfs_test.o permit.o record.o share.o storage.o) \
	$(addprefix monitors/proto/,ms.o ps.o ps_batch.o ps_change.o ps_lock.o types.o) \
	$(addprefix drivers/block/,blkbatch.o blkdev.o) monitors/processor/account/account.o \
	monitors/processor/ns/ns.o monitors/processor/client/kept_test.o \
	test/host/files_server.o test/host/files_test.o \
	test/host/user_ns_fake.o test/host/vfs_alone.o
files-folders := fs/access fs/bcache fs/ext4 fs/lock fs/pathindex
files-exclude := fs/%_test.o
