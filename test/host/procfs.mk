# SPDX-License-Identifier: MIT
# What the files of /proc and /sys are written with.
prog-y      += procfs
procfs-objs := monitors/processor/account/account.o \
	monitors/processor/procfs/text.o monitors/processor/procfs/text_test.o
