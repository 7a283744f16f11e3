# SPDX-License-Identifier: MIT
# Membership views and placement: the pure parts of the managers.
prog-y       += managers
managers-objs := managers/gpm.o managers/gpm_test.o managers/params.o managers/view.o managers/view_test.o managers/placement.o managers/placement_test.o

# Whole clusters of simulated nodes that find each other.
prog-y          += cluster
cluster-folders := net/rpc
cluster-objs    = $(addprefix managers/,cluster.o gpm.o host.o lookup.o params.o placement.o view.o) \
	monitors/proto/cluster.o monitors/proto/types.o drivers/rdma/sa.o drivers/rdma/sa_msg.o \
	$(memverbs-objs) test/host/cluster_test.o
cluster-exclude := net/rpc/spin_test.o net/rpc/wire_test.o
