# SPDX-License-Identifier: MIT
# The mlx4 driver's parts that need no device, with the bus below it.
prog-y       += mlx4
mlx4-folders := drivers/rdma/mlx4 drivers/pci
mlx4-objs    := drivers/rdma/verbs.o

# The connection manager between simulated ports; the test brings the MAD layer.
prog-y  += cm
cm-objs := $(addprefix drivers/rdma/,addr.o cm.o cm_msg.o cm_port.o cm_proto.o sa_msg.o \
	cm_msg_test.o verbs.o) $(addprefix test/host/,rdma_cm_test.o rdma_verbs_test.o)
