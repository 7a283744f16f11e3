# SPDX-License-Identifier: MIT
rpc_fuzz-folders := net/rpc
rpc_fuzz-objs    := drivers/rdma/addr.o
rpc_fuzz-max-len := 4096
