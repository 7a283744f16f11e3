# SPDX-License-Identifier: MIT
prog-y += memory
memory-folders := monitors/memory monitors/proto
memory-objs := managers/gsm.o test/host/memory/apply_test.o test/host/memory/commit_test.o \
	test/host/memory/fake.o test/host/memory/fake_storage.o test/host/memory/files_live_test.o \
	test/host/memory/files_test.o test/host/memory/fork_test.o \
	test/host/memory/fork_model_test.o test/host/memory/lease_test.o \
	test/host/memory/places_test.o test/host/memory/relief_test.o test/host/memory/room_test.o \
	test/host/memory/spaces_test.o test/host/memory/vnode_test.o
memory-exclude := monitors/memory/debug.o monitors/memory/instance.o monitors/memory/msg_data.o \
	monitors/memory/service.o monitors/memory/stats.o monitors/memory/transport.o
