# SPDX-License-Identifier: MIT
ps_fuzz-objs := monitors/proto/ps.o monitors/proto/ps_change.o monitors/proto/types.o
ps_fuzz-max-len := 16384
