# SPDX-License-Identifier: MIT
# The outside by the gateway, as simulated nodes.
prog-y          += gateway
gateway-folders := net/rpc
gateway-objs    = monitors/processor/account/account.o \
	$(addprefix monitors/processor/socket/,cmsg.o cmsg_decode.o gateway.o gateway_claim.o \
	gateway_net.o inet.o inet_control.o inet_errors.o inet_port.o interface.o ioctl.o \
	ip_packet.o multicast.o outside.o outside_port.o outside_raw.o ping.o queue.o raw.o \
	raw_send.o raw_table.o relay.o remote_buf.o remote_conn.o remote_connect.o remote_net.o \
	remote_ops.o remote_options.o remote_records.o remote_udp.o scm.o socket.o stream.o tcp.o \
	tcp_cork.o tcp_info.o tcp_urgent.o udp.o udp_cork.o unix.o unix_dgram.o unix_far.o \
	unix_far_net.o unix_name.o unix_remote.o unix_remote_net.o walk.o) \
	monitors/processor/vfs/uio.o monitors/proto/pp.o monitors/proto/types.o \
	test/host/ipc_fake.o \
	test/host/user_ns_fake.o test/host/socket_fake.o test/host/rpc_nodes.o \
	$(memverbs-objs) test/host/gateway_fake.o test/host/gateway_test.o \
	test/host/multicast_test.o test/host/outside_test.o test/host/packets_test.o \
	test/host/raw_test.o test/host/remote_fake.o
gateway-exclude := net/rpc/spin_test.o net/rpc/wire_test.o
