# SPDX-License-Identifier: MIT
# The parts of drivers that need no device; the transports are tested in virtual machines.
prog-y += virtio
virtio-objs := $(addprefix drivers/,virtio/virtq.o virtio/virtq_test.o block/virtio_blk_decode.o \
	block/virtio_blk_test.o console/vcon_decode.o console/vcon_test.o)
