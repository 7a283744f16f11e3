# SPDX-License-Identifier: MIT
# Futexes, pipes and file locks: threads against models. With sockets: what programs are charged.
prog-y   += ipc
ipc-objs := monitors/processor/account/account.o monitors/processor/ipc/futex.o \
	monitors/processor/ipc/futex_pi.o monitors/processor/process/inherit.o \
	fs/lock/lock_set.o fs/lock/lock_tree.o monitors/processor/client/file_locks.o \
	monitors/processor/ipc/filelock.o monitors/processor/ipc/filelock_remote.o \
	monitors/proto/ps_lock.o monitors/proto/types.o monitors/storage/locks.o \
	monitors/processor/ipc/ipc_ns.o monitors/processor/ns/ns.o \
	monitors/processor/ipc/msg.o monitors/processor/ipc/sem.o \
	monitors/processor/ipc/sem_undo.o monitors/processor/ipc/sysv.o \
	monitors/processor/ipc/pipe.o monitors/processor/ipc/pipe_limit.o \
	monitors/processor/socket/cmsg.o monitors/processor/socket/ioctl.o \
	monitors/processor/socket/queue.o monitors/processor/socket/scm.o \
	monitors/processor/socket/socket.o monitors/processor/socket/stream.o \
	monitors/processor/socket/tcp_urgent.o \
	monitors/processor/socket/walk.o \
	monitors/processor/socket/unix.o monitors/processor/socket/unix_dgram.o \
	monitors/processor/socket/unix_name.o monitors/processor/vfs/uio.o \
	monitors/processor/process/timespec.o \
	test/host/account_ipc_test.o test/host/filelock_remote_test.o \
	test/host/filelock_test.o test/host/futex_test.o test/host/ipc_fake.o \
	test/host/user_ns_fake.o \
	test/host/pipe_test.o test/host/socket_fake.o test/host/sysv_test.o \
	test/host/unix_alone.o

$(addprefix $(O)/obj/,monitors/processor/ipc/msg.o monitors/processor/ipc/sem.o \
	test/host/sysv_test.o): | $(syscall_handlers)
