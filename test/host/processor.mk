# SPDX-License-Identifier: MIT
# ExCache and address spaces over a fake RPC layer whose far side is a model of the owners.
prog-y            += processor
processor-folders := monitors/processor/excache monitors/proto
processor-objs    := monitors/processor/process/anon.o monitors/processor/process/aspace.o \
	monitors/processor/process/fault.o monitors/processor/process/fork.o \
	monitors/processor/process/remote.o monitors/processor/vfs/uio.o \
	test/host/around_test.o test/host/aspace_test.o test/host/excache_test.o test/host/fake_owner.o test/host/fork_test.o \
	test/host/shared_test.o test/host/uio_test.o test/host/user_word.o
