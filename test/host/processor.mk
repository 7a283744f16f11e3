# SPDX-License-Identifier: MIT
# ExCache and address spaces over a fake RPC layer whose far side is a model of the owners.
prog-y            += processor
processor-folders := monitors/processor/excache monitors/proto
processor-objs    := monitors/processor/account/account.o \
	monitors/processor/client/nodes.o \
	monitors/processor/mm/advice.o \
	monitors/processor/mm/anon.o monitors/processor/mm/aspace.o \
	monitors/processor/mm/attach.o monitors/processor/mm/expand_calls.o \
	monitors/processor/mm/fault.o monitors/processor/mm/file_map_calls.o \
	monitors/processor/mm/fork.o \
	monitors/processor/mm/grow.o monitors/processor/mm/guard.o \
	monitors/processor/mm/kmem.o monitors/processor/mm/lease.o \
	monitors/processor/mm/lease_calls.o monitors/processor/mm/madvise_calls.o \
	monitors/processor/mm/locked.o \
	monitors/processor/mm/mmap_calls.o monitors/processor/mm/mremap_calls.o \
	monitors/processor/mm/populate.o monitors/processor/mm/remote.o \
	monitors/processor/mm/ranges.o monitors/processor/mm/seal.o \
	monitors/processor/vfs/uio.o \
	test/host/account_mm_test.o test/host/ahead_test.o test/host/around_test.o \
	test/host/aspace_test.o test/host/attach_test.o \
	test/host/excache_test.o test/host/file_dirty_test.o \
	test/host/fake_map.o test/host/fake_owner.o test/host/fake_threads.o \
	test/host/fork_test.o test/host/kill_test.o \
	test/host/lease_file_test.o test/host/lease_test.o test/host/loss_test.o \
	test/host/places_test.o test/host/policy_test.o \
	test/host/range_test.o test/host/ranges_test.o test/host/reclaim_test.o \
	test/host/shared_test.o test/host/silence_test.o \
	test/host/steps_test.o test/host/uio_test.o test/host/user_word.o

$(addprefix $(O)/obj/,monitors/processor/mm/file_map_calls.o \
	monitors/processor/mm/madvise_calls.o monitors/processor/mm/mmap_calls.o \
	monitors/processor/mm/mremap_calls.o monitors/processor/mm/seal.o test/host/kill_test.o \
	test/host/account_mm_test.o test/host/lease_file_test.o test/host/lease_test.o \
	test/host/range_test.o): \
	| $(syscall_handlers)
