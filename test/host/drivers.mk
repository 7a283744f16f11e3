# SPDX-License-Identifier: MIT
# The parts of drivers that need no device; the transports are tested in virtual machines.
prog-y += virtio
virtio-objs := $(addprefix drivers/,virtio/virtq.o virtio/virtq_test.o block/virtio_blk_decode.o \
	block/virtio_blk_test.o console/vcon_decode.o console/vcon_test.o)
# Network devices: the queues of virtio-net against a device that is part of the test.
prog-y += netdev
netdev-objs := $(addprefix drivers/,net/e1000_hw.o net/e1000_ring.o net/netdev.o \
	net/virtio_net_decode.o net/virtio_net_queue.o \
	net/virtio_net_test.o virtio/virtq.o) test/host/e1000_test.o test/host/vnet_test.o
# virtio block devices, all but the transport, against one that is part of the test.
prog-y += vblk
vblk-objs := $(addprefix drivers/,block/blkdev.o block/virtio_blk.o block/virtio_blk_decode.o \
	virtio/virtq.o) test/host/vblk_test.o
# virtio entropy devices, likewise.
prog-y += vrng
vrng-objs := drivers/virtio/virtio_rng.o drivers/virtio/virtq.o test/host/vrng_test.o
# NVMe: the driver, all but its PCI part, against a controller that is part of the test.
prog-y += nvme
nvme-objs := $(addprefix drivers/block/,blkbatch.o blkdev.o nvme_ctrl.o nvme_decode.o nvme_io.o \
	nvme_queue.o nvme_rescue.o nvme_test.o) test/host/nvme_fake.o test/host/nvme_test.o
# Partitions.
prog-y += block
block-objs := $(addprefix drivers/block/,blkbatch.o blkdev.o gpt.o gpt_image_test.o gpt_test.o \
	partition.o)
# Interrupt lines, on a controller that is the shim's.
prog-y += intx
intx-objs := drivers/pci/config.o drivers/pci/intx.o test/host/intx_test.o
