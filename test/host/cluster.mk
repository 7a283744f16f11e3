# SPDX-License-Identifier: MIT
# Membership views and boot parameters; and whole clusters of simulated nodes that find each other.
prog-y          += cluster
cluster-folders := net/rpc
cluster-objs    = $(addprefix monitors/cluster/,cluster.o lease.o lease_test.o params.o patience.o \
	view.o 	view_test.o) \
	$(addprefix managers/,gmm.o gpm.o gsm.o host.o lookup.o members.o names.o \
	names_service.o) \
	monitors/proto/cluster.o monitors/proto/pg.o monitors/proto/types.o \
	drivers/rdma/sa.o drivers/rdma/sa_msg.o \
	$(memverbs-objs) test/host/cluster_test.o
cluster-exclude := net/rpc/spin_test.o net/rpc/wire_test.o
# cluster_test.c does something between a veto and its answer.
cluster-libs    := -Wl,--wrap=cluster_veto_decode
