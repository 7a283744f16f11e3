# SPDX-License-Identifier: MIT
# The mlx4 driver's parts that need no device, with the bus below it.
prog-y       += mlx4
mlx4-folders := drivers/rdma/mlx4 drivers/pci
mlx4-objs    := drivers/rdma/verbs.o
