# SPDX-License-Identifier: MIT
# Directories and inodes of tmpfs, without contents.
prog-y     += tmpfs
tmpfs-objs := monitors/processor/account/account.o monitors/processor/tmpfs/dir.o \
	monitors/processor/tmpfs/handle.o monitors/processor/tmpfs/inode.o \
	monitors/processor/tmpfs/options.o \
	monitors/processor/tmpfs/xattr.o test/host/tmpfs_test.o
tmpfs-folders := fs/access
tmpfs-exclude := fs/%_test.o
