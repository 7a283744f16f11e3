/* SPDX-License-Identifier: MIT */
/*
 * HCA model: the vfio-user protocol, version 0.1, as numbers and structures.
 *
 * All fields are in the host's byte order.
 * See:	the vfio-user specification (docs/interop/vfio-user.rst of QEMU's sources)
 */
#pragma once

#include "util.h"

#define VU_MAJOR 0u
#define VU_MINOR 1u

enum vu_command {
	VU_VERSION = 1,
	VU_DMA_MAP = 2,
	VU_DMA_UNMAP = 3,
	VU_GET_INFO = 4,
	VU_GET_REGION_INFO = 5,
	VU_GET_REGION_IO_FDS = 6,
	VU_GET_IRQ_INFO = 7,
	VU_SET_IRQS = 8,
	VU_REGION_READ = 9,
	VU_REGION_WRITE = 10,
	VU_DEVICE_RESET = 13,
};

#define VU_TYPE_MASK  0xfu
#define VU_TYPE_REPLY 1u
#define VU_NO_REPLY   BIT(4)
#define VU_ERROR      BIT(5)

struct vu_header {
	uint16_t id;
	uint16_t command;
	uint32_t size; /* this header included */
	uint32_t flags;
	uint32_t error;
};
static_assert(sizeof(struct vu_header) == 16, "vu_header is ABI");

struct vu_dma_map {
	uint32_t argsz, flags;
	uint64_t offset, address, size;
};
static_assert(sizeof(struct vu_dma_map) == 32, "vu_dma_map is ABI");

struct vu_dma_unmap {
	uint32_t argsz, flags;
	uint64_t address, size;
};
static_assert(sizeof(struct vu_dma_unmap) == 24, "vu_dma_unmap is ABI");

struct vu_device_info {
	uint32_t argsz, flags, nr_regions, nr_irqs;
};

struct vu_region_info {
	uint32_t argsz, flags, index, cap_offset;
	uint64_t size, offset;
};
static_assert(sizeof(struct vu_region_info) == 32, "vu_region_info is ABI");

struct vu_irq_info {
	uint32_t argsz, flags, index, count;
};

struct vu_irq_set {
	uint32_t argsz, flags, index, start, count;
};
static_assert(sizeof(struct vu_irq_set) == 20, "vu_irq_set is ABI");

struct vu_access {
	uint64_t offset;
	uint32_t region, count;
};
static_assert(sizeof(struct vu_access) == 16, "vu_access is ABI");

#define VU_DMA_READ  BIT(0)
#define VU_DMA_WRITE BIT(1)

#define VU_UNMAP_ALL BIT(1)

#define VU_DEVICE_RESETS BIT(0)
#define VU_DEVICE_PCI    BIT(1)

#define VU_REGION_READS  BIT(0)
#define VU_REGION_WRITES BIT(1)

#define VU_IRQ_EVENTFD  BIT(0)
#define VU_IRQ_NORESIZE BIT(3)

#define VU_DATA_NONE      BIT(0)
#define VU_DATA_BOOL      BIT(1)
#define VU_DATA_EVENTFD   BIT(2)
#define VU_ACTION_TRIGGER BIT(5)
#define VU_DATA_ACTIONS   0x3fu

/*
 * Regions: BAR0..BAR5, ROM, configuration space, VGA. Interrupts: INTx, MSI, MSI-X, error,
 * request.
 */
#define VU_REGION_CONFIG 7u
#define VU_NR_REGIONS    9u
#define VU_IRQ_MSIX      2u
#define VU_NR_IRQS       5u
