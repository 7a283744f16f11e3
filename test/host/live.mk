# SPDX-License-Identifier: MIT
# Files that change, without memory nodes and without the cache.
live-code   := $(addprefix monitors/processor/vfs/,live.o live_behind.o live_map.o uio.o)
prog-y      += behind live
behind-objs := $(live-code) test/host/behind_test.o
live-objs   := $(live-code) test/host/live_test.o
