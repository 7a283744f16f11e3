# SPDX-License-Identifier: MIT
# Walks, mounts and the inodes of storage nodes, beside a storage node that lies.
prog-y      += vfs
vfs-objs    := $(addprefix monitors/processor/vfs/,fs_state.o mount.o storagefs.o walk.o) \
	monitors/proto/ps.o monitors/proto/types.o test/host/vfs_test.o
vfs-folders := fs/access
vfs-exclude := fs/%_test.o
