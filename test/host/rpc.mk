# SPDX-License-Identifier: MIT
# RPC between simulated nodes: test/host/memverbs is the RDMA provider and the fabric; the
# connection manager above it is the real one.
memverbs-objs := $(addprefix test/host/memverbs/,memverbs.o sim.o) \
	$(addprefix drivers/rdma/,verbs.o addr.o cm.o cm_msg.o cm_port.o cm_proto.o mad.o)

prog-y      += rpc
rpc-folders := net/rpc
rpc-objs    := $(memverbs-objs) $(addprefix test/host/,rpc_nodes.o rpc_pair.o rpc_pair_test.o \
	rpc_lives_test.o rpc_datagram_test.o rpc_doors_test.o rpc_classes_test.o \
	rpc_read_test.o)
# rpc_lives_test.c does something between a submit's look at its peer and its slot.
# rpc_classes_test.c says when a completion queue gives which completions, and events,
# and sees when a CPU rests.
rpc-libs    := -Wl,--wrap=rpc_peer_usable -Wl,--wrap=rdma_poll_cq -Wl,--wrap=rdma_arm_cq \
	-Wl,--wrap=rdma_wait
