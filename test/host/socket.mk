# SPDX-License-Identifier: MIT
# Sockets: threads that wait and are killed, connections, descriptors on their way.
prog-y      += socket
socket-objs := monitors/processor/account/account.o \
	monitors/processor/socket/cmsg.o monitors/processor/socket/cmsg_decode.o \
	monitors/processor/socket/ioctl.o monitors/processor/socket/netlink.o \
	monitors/processor/socket/queue.o monitors/processor/socket/rtnl.o \
	monitors/processor/socket/rtnl_codec.o monitors/processor/socket/scm.o \
	monitors/processor/socket/socket.o monitors/processor/socket/stream.o \
	monitors/processor/socket/tcp_urgent.o \
	monitors/processor/socket/unix.o monitors/processor/socket/unix_dgram.o \
	monitors/processor/socket/unix_name.o monitors/processor/socket/walk.o \
	monitors/processor/vfs/uio.o \
	test/host/ipc_fake.o \
	test/host/user_ns_fake.o test/host/netlink_test.o test/host/socket_fake.o \
	test/host/unix_alone.o \
	test/host/socket_test.o test/host/unix_test.o
