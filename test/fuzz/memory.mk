# SPDX-License-Identifier: MIT
proto_fuzz-objs := monitors/proto/mm.o monitors/proto/mp.o monitors/proto/ms.o monitors/proto/pg.o \
	monitors/proto/pm.o monitors/proto/pm_data.o monitors/proto/pm_file.o \
	monitors/proto/pm_fork.o monitors/proto/pm_lease.o monitors/proto/pp.o \
	monitors/proto/types.o
proto_fuzz-max-len := 16384
elf_fuzz-objs := monitors/memory/elf.o
elf_fuzz-max-len := 8192
memory_fuzz-folders := monitors/memory monitors/proto
memory_fuzz-objs := managers/gsm.o test/host/memory/fake.o test/host/memory/fake_storage.o
memory_fuzz-exclude := monitors/memory/debug.o monitors/memory/instance.o \
	monitors/memory/msg_data.o monitors/memory/service.o monitors/memory/stats.o \
	monitors/memory/transport.o
memory_fuzz-max-len := 2048
