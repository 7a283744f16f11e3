# SPDX-License-Identifier: MIT
ps_fuzz-objs := $(addprefix monitors/proto/,ps.o ps_batch.o ps_change.o ps_lock.o types.o)
ps_fuzz-max-len := 16384
