# SPDX-License-Identifier: MIT
# RPC between simulated nodes: test/host/memverbs is the RDMA provider and the fabric.
memverbs-objs := $(addprefix test/host/memverbs/,memverbs.o memcm.o sim.o) drivers/rdma/verbs.o

prog-y      += rpc
rpc-folders := net/rpc
rpc-objs    := $(memverbs-objs) test/host/rpc_pair_test.o
