# SPDX-License-Identifier: MIT
# TCP between two processors, as simulated nodes.
prog-y         += remote
remote-folders := net/rpc
remote-objs    = monitors/processor/account/account.o \
	$(addprefix monitors/processor/socket/,cmsg.o cmsg_decode.o inet.o inet_port.o ioctl.o \
	queue.o remote_buf.o remote_conn.o remote_connect.o remote_net.o remote_ops.o \
	remote_options.o remote_records.o scm.o \
	socket.o stream.o tcp.o tcp_cork.o tcp_info.o tcp_urgent.o unix.o unix_dgram.o unix_far.o \
	unix_far_net.o unix_name.o unix_remote.o unix_remote_net.o walk.o) \
	monitors/processor/vfs/uio.o monitors/proto/pp.o monitors/proto/types.o \
	test/host/ipc_fake.o \
	test/host/user_ns_fake.o test/host/socket_fake.o test/host/rpc_nodes.o \
	$(memverbs-objs) test/host/remote_fake.o test/host/remote_faults_test.o \
	test/host/remote_dgram_test.o test/host/remote_test.o test/host/remote_unix_test.o
remote-exclude := net/rpc/spin_test.o net/rpc/wire_test.o
