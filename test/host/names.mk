# SPDX-License-Identifier: MIT
# Names of a vNode's sockets: processors and the managers, as simulated nodes.
prog-y        += names
names-folders := net/rpc
names-objs    = $(addprefix monitors/cluster/,cluster.o lease.o params.o patience.o view.o) \
	$(addprefix managers/,gmm.o gpm.o gsm.o host.o lookup.o members.o names.o \
	names_service.o) \
	monitors/proto/cluster.o monitors/proto/pg.o monitors/proto/types.o \
	drivers/rdma/sa.o drivers/rdma/sa_msg.o monitors/processor/account/account.o \
	monitors/processor/client/names.o $(memverbs-objs) test/host/names_test.o
names-exclude := net/rpc/spin_test.o net/rpc/wire_test.o
