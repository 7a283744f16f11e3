# SPDX-License-Identifier: MIT
# Files that change, without memory nodes and without the cache.
prog-y    += live
live-objs := $(addprefix monitors/processor/vfs/,live.o live_map.o uio.o) test/host/live_test.o
