# SPDX-License-Identifier: MIT
cm_fuzz-objs := drivers/rdma/cm_msg.o drivers/rdma/sa_msg.o
cm_fuzz-max-len := 256
