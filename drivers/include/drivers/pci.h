/* SPDX-License-Identifier: MIT */
/*
 * PCI: devices, drivers, configuration space, base address registers and MSI-X.
 *
 * Flow:	the bus is enumerated at initcall level "driver"; every function that matches a
 *		PCI_DRIVER() is probed once, in bus order.  A driver's probe enables memory and bus
 *		mastering, maps its BARs, requests MSI-X vectors and registers with its layer.
 * Context:	everything here may sleep and is for set-up and tear-down, except
 *		pci_msix_mask()/pci_msix_unmask() and the configuration accessors, which are safe in
 *		any context.
 * Failure:	a probe that fails is logged with its errno; the bus goes on with the next device.
 * See:		docs/drivers/pci.md; PCI Local Bus Specification 3.0, PCI Express Base 3.0.
 */
#pragma once

#include <kernel/irq.h>
#include <lib/compiler.h>
#include <lib/types.h>

#define PCI_NR_BARS 6
#define PCI_ANY_ID  0xffff

/* Configuration space, type 0 header. */
enum pci_cfg {
	PCI_CFG_VENDOR = 0x00,
	PCI_CFG_DEVICE = 0x02,
	PCI_CFG_COMMAND = 0x04,
	PCI_CFG_STATUS = 0x06,
	PCI_CFG_REVISION = 0x08,
	PCI_CFG_CLASS = 0x0a,
	PCI_CFG_HEADER_TYPE = 0x0e,
	PCI_CFG_BAR0 = 0x10,
	PCI_CFG_SUBSYS_VENDOR = 0x2c,
	PCI_CFG_SUBSYS_ID = 0x2e,
	PCI_CFG_CAP_PTR = 0x34,
	PCI_CFG_INT_LINE = 0x3c,
	PCI_CFG_INT_PIN = 0x3d,
};

enum pci_command {
	PCI_COMMAND_IO = 1 << 0,
	PCI_COMMAND_MEMORY = 1 << 1,
	PCI_COMMAND_MASTER = 1 << 2,
	PCI_COMMAND_INTX_DISABLE = 1 << 10,
};

enum pci_cap_id {
	PCI_CAP_PM = 0x01,
	PCI_CAP_MSI = 0x05,
	PCI_CAP_VENDOR = 0x09,
	PCI_CAP_EXP = 0x10,
	PCI_CAP_MSIX = 0x11,
};

struct pci_id {
	uint16_t vendor; /* 0 ends a table */
	uint16_t device; /* or PCI_ANY_ID */
};

struct pci_device;

struct pci_driver {
	const char *name;
	const struct pci_id *ids;                                      /* ends with { 0, 0 } */
	int (*probe)(struct pci_device *dev, const struct pci_id *id); /* 0 = bound */
	/* Device quiet (no DMA, no interrupts) on return; NULL = cannot be removed. */
	void (*remove)(struct pci_device *dev);
};

/* Put @drv into the linker section that the bus walks. */
#define PCI_DRIVER(drv)                                          \
	static const struct pci_driver *const __pci_driver_##drv \
		__attribute__((used, section("pci_drivers"), aligned(8))) = &(drv)

/* "pci 00:04.0", for log lines. */
const char *pci_name(const struct pci_device *dev);
uint16_t pci_vendor_id(const struct pci_device *dev);

/* The driver's own pointer. */
void pci_set_drvdata(struct pci_device *dev, void *data);
void *pci_drvdata(const struct pci_device *dev);

/*
 * Configuration space; @off is aligned to the width and below 256.  A missing device reads as
 * ones.
 */
uint8_t pci_cfg_read8(const struct pci_device *dev, unsigned int off);
uint16_t pci_cfg_read16(const struct pci_device *dev, unsigned int off);
uint32_t pci_cfg_read32(const struct pci_device *dev, unsigned int off);
void pci_cfg_write8(const struct pci_device *dev, unsigned int off, uint8_t val);
void pci_cfg_write16(const struct pci_device *dev, unsigned int off, uint16_t val);
void pci_cfg_write32(const struct pci_device *dev, unsigned int off, uint32_t val);

/*
 * Offset of the next capability @id behind the one at @after (0 = from the start); 0 = no more.
 * The list is the device's, hence hostile: the walk is bounded and ignores loops.
 */
unsigned int pci_cap_find(const struct pci_device *dev, enum pci_cap_id id, unsigned int after);

/* Memory decoding (and I/O decoding where a BAR is I/O), and bus mastering. */
void pci_enable(struct pci_device *dev);
void pci_set_master(struct pci_device *dev, bool on);

/* Length in bytes of BAR @bar as sized at enumeration; 0 = absent or the high half of another. */
uint64_t pci_bar_len(const struct pci_device *dev, unsigned int bar);
/* The next two are for tests.  An address is physical (memory BAR) or a port number (I/O BAR). */
bool pci_bar_is_io(const struct pci_device *dev, unsigned int bar);
paddr_t pci_bar_addr(const struct pci_device *dev, unsigned int bar);
/*
 * Map @len bytes at @off of memory BAR @bar, uncached; @len 0 = to its end.
 * ERR_PTR: -ENODEV no such memory BAR or no address, -ERANGE outside of it, -ENOMEM.
 */
void __iomem *pci_bar_map(struct pci_device *dev, unsigned int bar, uint64_t off, uint64_t len);
/* The same, write-combining. */
void __iomem *pci_bar_map_wc(struct pci_device *dev, unsigned int bar, uint64_t off, uint64_t len);

/*
 * MSI-X.  pci_msix_enable() maps the table with every entry masked and turns the function on;
 * returns the number of entries in the table, or -ENODEV when there is no usable capability.
 * pci_msix_request() binds entry @index to @fn on @cpu and unmasks it; @fn runs in interrupt
 * context.
 */
int pci_msix_enable(struct pci_device *dev) __must_check;
int pci_msix_request(struct pci_device *dev, unsigned int index, unsigned int cpu, irq_handler_t fn,
		     void *arg, const char *name) __must_check;
void pci_msix_free(struct pci_device *dev, unsigned int index); /* fn is not running on return */
void pci_msix_disable(struct pci_device *dev);                  /* frees what is still bound */

/*
 * The interrupt line, for devices without MSI-X; from probe(). @fn runs in interrupt context and
 * says whether its device was the one: several may share a line. -ENODEV: it has none that reaches
 * a controller; -ENOMEM.
 */
typedef bool (*pci_intx_fn_t)(void *arg);
int pci_intx_request(struct pci_device *dev, pci_intx_fn_t fn, void *arg) __must_check;
/* For a probe that fails: the device has been reset. */
void pci_intx_free(struct pci_device *dev);

/*
 * Keep and put back what a device's reset loses: the header (BARs, command last), the PCI Express
 * control words and the MSI-X table.  Vendor-specific dwords are not touched.
 */
void pci_state_save(struct pci_device *dev);
void pci_state_restore(struct pci_device *dev);
