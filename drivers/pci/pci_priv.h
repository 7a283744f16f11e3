/* SPDX-License-Identifier: MIT */
/*
 * PCI internals: what pci.c (bus), config.c, bar.c and msix.c share.
 *
 * Locking:	devices are made at boot by one thread and live for ever.  A device's MSI-X state is
 *		changed by its driver only, from one thread at a time.
 */
#pragma once

#include <drivers/pci.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

/* How configuration space is reached; tests put a fake here. */
struct pci_cfg_ops {
	uint32_t (*read)(void *arg, unsigned int bdf, unsigned int off, unsigned int width);
	void (*write)(void *arg, unsigned int bdf, unsigned int off, unsigned int width,
		      uint32_t val);
	void *arg;
};

/* Bus 15:8, device 7:3, function 2:0. */
#define PCI_BDF(bus, dev, fn) ((unsigned int)(bus) << 8 | (unsigned int)(dev) << 3 | (fn))
#define PCI_BDF_BUS(bdf)      ((bdf) >> 8)
#define PCI_BDF_DEV(bdf)      ((bdf) >> 3 & 0x1f)
#define PCI_BDF_FN(bdf)       ((bdf) & 7)

/* Type 1 (bridge) header. */
enum pci_bridge_cfg {
	PCI_CFG_PRIMARY_BUS = 0x18,
	PCI_CFG_SECONDARY_BUS = 0x19,
	PCI_CFG_SUBORDINATE_BUS = 0x1a,
	PCI_CFG_MEMORY_BASE = 0x20,
	PCI_CFG_MEMORY_LIMIT = 0x22,
};

#define PCI_HEADER_MULTI       0x80
#define PCI_HEADER_TYPE_MASK   0x7f
#define PCI_HEADER_BRIDGE      0x01
#define PCI_CLASS_BRIDGE_PCI   0x0604
#define PCI_STATUS_CAP_LIST    (1 << 4)
#define PCI_BAR_IO             (1U << 0)
#define PCI_BAR_TYPE_MASK      (3U << 1)
#define PCI_BAR_TYPE_64        (2U << 1)
#define PCI_BAR_PREFETCH       (1U << 3)
#define PCI_BAR_IO_MASK        (~(uint32_t)3)
#define PCI_BAR_MEM_MASK       (~(uint32_t)15)
#define PCI_MSIX_CTRL          2 /* from the capability */
#define PCI_MSIX_TABLE         4
#define PCI_MSIX_CTRL_SIZE     0x07ff
#define PCI_MSIX_CTRL_MASKALL  0x4000
#define PCI_MSIX_CTRL_ENABLE   0x8000
#define PCI_MSIX_BIR           7U
#define PCI_MSIX_ENTRY_LEN     16
#define PCI_MSIX_ENTRY_ADDR_LO 0
#define PCI_MSIX_ENTRY_ADDR_HI 4
#define PCI_MSIX_ENTRY_DATA    8
#define PCI_MSIX_ENTRY_CTRL    12
#define PCI_MSIX_ENTRY_MASKED  1U
#define PCI_EXP_DEVCTL         8
#define PCI_EXP_LNKCTL         16

enum pci_bar_flags {
	PCI_BAR_F_IO = 1 << 0,
	PCI_BAR_F_64 = 1 << 1,
	PCI_BAR_F_PREFETCH = 1 << 2,
	PCI_BAR_F_UNASSIGNED = 1 << 3, /* has a size, but no usable address */
};

struct pci_bar {
	uint64_t addr;
	uint64_t len; /* 0 = absent, or high half */
	uint32_t flags;
};

struct pci_msix_entry {
	int vector; /* from irq_alloc(), or 0 */
	unsigned int cpu;
};

#define PCI_NR_SAVED 16 /* header dwords */

struct pci_device {
	struct list_head node; /* bus order; const after boot */
	const struct pci_cfg_ops *cfg;
	unsigned int bdf;
	uint16_t vendor;
	uint16_t device;
	uint16_t class;
	char name[16];
	struct pci_bar bars[PCI_NR_BARS];
	struct pci_device *bridge; /* NULL on the root bus */
	const struct pci_driver *driver;
	void *drvdata;

	unsigned int msix_cap; /* 0 = not enabled */
	unsigned int msix_nr;
	void __iomem *msix_table;
	struct pci_msix_entry *msix;
	struct pci_line_user *intx; /* of its interrupt line; NULL: not asked for */

	uint32_t saved[PCI_NR_SAVED];
	uint16_t saved_devctl;
	uint16_t saved_lnkctl;
};

/* A range of bus addresses from which BARs without an address get one. */
struct pci_window {
	uint64_t start; /* next free */
	uint64_t end;   /* exclusive */
};

/* config.c */
extern const struct pci_cfg_ops pci_port_cfg_ops;

/* bar.c: pure, over pci_cfg_ops */
void pci_bars_probe(struct pci_device *dev);
/* An aligned range of @len in @win that no BAR on @devices claims; 0 = no room. */
uint64_t pci_window_alloc(struct pci_window *win, uint64_t len, const struct list_head *devices);
void pci_bar_assign(struct pci_device *dev, unsigned int bar, uint64_t addr);

/* pci.c */
struct pci_bus {
	const struct pci_cfg_ops *cfg;
	struct list_head devices;
	unsigned int next_bus; /* for bridges that firmware has not numbered */
	struct pci_window window;
};
/* Find every function behind the root bus, then give addresses to BARs that have none. */
int pci_bus_scan(struct pci_bus *bus) __must_check;
void pci_bus_free(struct pci_bus *bus); /* for tests */
