/* SPDX-License-Identifier: MIT */
/*
 * PCI bus: enumeration, driver matching, device state around a reset.
 *
 * Flow:	pci_init() (initcall level driver) scans the root bus and everything behind bridges,
 *		gives addresses to BARs that firmware left without, then probes drivers.
 * Context:	boot thread.
 * Locking:	none: the list of devices does not change after boot.
 * Failure:	a device without room for its BARs is listed, and its driver sees pci_bar_map()
 *		fail; a failed probe is logged and the next device is tried.
 */
#include <drivers/pci.h>

#include <kernel/bootparam.h>
#include <kernel/initcall.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "pci_priv.h"

#define PR_FMT "pci: "
#include <kernel/printk.h>

/*
 * Where BARs go that firmware has not placed: below the I/O APIC, above any RAM below 4 GiB that
 * a PC may have.  pci_window_alloc() steps around whatever is there already.
 */
#define PCI_WINDOW_START 0xe0000000ULL
#define PCI_WINDOW_END   0xfec00000ULL

static uint32_t nr_reprobe;
BOOT_PARAM("pci.reprobe", u32, nr_reprobe, "for tests: remove and probe all drivers so many times");

static struct pci_bus root_bus = {
	.cfg = &pci_port_cfg_ops,
	.devices = LIST_HEAD_INIT(root_bus.devices),
	.window = { PCI_WINDOW_START, PCI_WINDOW_END },
};

extern const struct pci_driver *const __start_pci_drivers[] __weak;
extern const struct pci_driver *const __stop_pci_drivers[] __weak;

const char *pci_name(const struct pci_device *dev)
{
	return dev->name;
}

uint16_t pci_vendor_id(const struct pci_device *dev)
{
	return dev->vendor;
}

void pci_set_drvdata(struct pci_device *dev, void *data)
{
	dev->drvdata = data;
}

void *pci_drvdata(const struct pci_device *dev)
{
	return dev->drvdata;
}

void pci_enable(struct pci_device *dev)
{
	uint16_t cmd = pci_cfg_read16(dev, PCI_CFG_COMMAND);

	for (unsigned int n = 0; n < PCI_NR_BARS; n++) {
		const struct pci_bar *bar = &dev->bars[n];

		if (bar->len && !(bar->flags & PCI_BAR_F_UNASSIGNED))
			cmd |= bar->flags & PCI_BAR_F_IO ? PCI_COMMAND_IO : PCI_COMMAND_MEMORY;
	}
	cmd |= PCI_COMMAND_INTX_DISABLE; /* drivers here use MSI-X or poll */
	pci_cfg_write16(dev, PCI_CFG_COMMAND, cmd);
}

void pci_set_master(struct pci_device *dev, bool on)
{
	uint16_t cmd = pci_cfg_read16(dev, PCI_CFG_COMMAND);

	if (on)
		cmd |= PCI_COMMAND_MASTER;
	else
		cmd &= (uint16_t)~PCI_COMMAND_MASTER;
	pci_cfg_write16(dev, PCI_CFG_COMMAND, cmd);
}

uint64_t pci_bar_len(const struct pci_device *dev, unsigned int bar)
{
	return bar < PCI_NR_BARS ? dev->bars[bar].len : 0;
}

bool pci_bar_is_io(const struct pci_device *dev, unsigned int bar)
{
	return bar < PCI_NR_BARS && dev->bars[bar].flags & PCI_BAR_F_IO;
}

paddr_t pci_bar_addr(const struct pci_device *dev, unsigned int bar)
{
	return bar < PCI_NR_BARS ? dev->bars[bar].addr : 0;
}

static void __iomem *map_error(int err)
{
	return (void __iomem __force *)ERR_PTR(err);
}

static void __iomem *bar_map(struct pci_device *dev, unsigned int bar, uint64_t off, uint64_t len,
			     void __iomem *(*map)(paddr_t paddr, size_t len))
{
	const struct pci_bar *b;
	void __iomem *p;

	if (bar >= PCI_NR_BARS)
		return map_error(-ENODEV);
	b = &dev->bars[bar];
	if (!b->len || b->flags & (PCI_BAR_F_IO | PCI_BAR_F_UNASSIGNED))
		return map_error(-ENODEV);
	if (off > b->len || len > b->len - off)
		return map_error(-ERANGE);
	p = map(b->addr + off, len ? len : b->len - off);
	return p ? p : map_error(-ENOMEM);
}

void __iomem *pci_bar_map(struct pci_device *dev, unsigned int bar, uint64_t off, uint64_t len)
{
	return bar_map(dev, bar, off, len, mmio_map);
}

void __iomem *pci_bar_map_wc(struct pci_device *dev, unsigned int bar, uint64_t off, uint64_t len)
{
	return bar_map(dev, bar, off, len, mmio_map_wc);
}

void pci_state_save(struct pci_device *dev)
{
	const unsigned int exp = pci_cap_find(dev, PCI_CAP_EXP, 0);

	for (unsigned int n = 0; n < PCI_NR_SAVED; n++)
		dev->saved[n] = pci_cfg_read32(dev, 4 * n);
	if (exp) {
		dev->saved_devctl = pci_cfg_read16(dev, exp + PCI_EXP_DEVCTL);
		dev->saved_lnkctl = pci_cfg_read16(dev, exp + PCI_EXP_LNKCTL);
	}
}

void pci_state_restore(struct pci_device *dev)
{
	const unsigned int exp = pci_cap_find(dev, PCI_CAP_EXP, 0);

	if (exp) {
		pci_cfg_write16(dev, exp + PCI_EXP_DEVCTL, dev->saved_devctl);
		pci_cfg_write16(dev, exp + PCI_EXP_LNKCTL, dev->saved_lnkctl);
	}
	/* The command register last: nothing decodes before the BARs are back. */
	for (unsigned int n = 0; n < PCI_NR_SAVED; n++) {
		if (n != PCI_CFG_COMMAND / 4)
			pci_cfg_write32(dev, 4 * n, dev->saved[n]);
	}
	pci_cfg_write32(dev, PCI_CFG_COMMAND, dev->saved[PCI_CFG_COMMAND / 4]);
}

/* --- enumeration --------------------------------------------------------------------- */

static int bus_scan_one(struct pci_bus *bus, unsigned int nr, struct pci_device *bridge,
			unsigned int depth);

/*
 * Scan behind a bridge.  Firmware has numbered it as a rule; else it gets the next free number, and
 * all numbers up to 255 while what is behind it is found.
 */
static int bridge_scan(struct pci_bus *bus, struct pci_device *dev, unsigned int depth)
{
	unsigned int secondary = pci_cfg_read8(dev, PCI_CFG_SECONDARY_BUS);
	const bool numbered = secondary > PCI_BDF_BUS(dev->bdf);
	int err;

	if (!numbered) {
		if (bus->next_bus > 0xff) {
			pr_warn("%s: no bus number left, devices behind it are ignored\n",
				dev->name);
			return 0;
		}
		secondary = bus->next_bus++;
		pci_cfg_write8(dev, PCI_CFG_PRIMARY_BUS, (uint8_t)PCI_BDF_BUS(dev->bdf));
		pci_cfg_write8(dev, PCI_CFG_SECONDARY_BUS, (uint8_t)secondary);
		pci_cfg_write8(dev, PCI_CFG_SUBORDINATE_BUS, 0xff);
	} else if (bus->next_bus <= secondary) {
		bus->next_bus = secondary + 1;
	}

	err = bus_scan_one(bus, secondary, dev, depth + 1);
	if (!numbered)
		pci_cfg_write8(dev, PCI_CFG_SUBORDINATE_BUS, (uint8_t)(bus->next_bus - 1));
	return err;
}

static int function_add(struct pci_bus *bus, unsigned int bdf, uint32_t id,
			struct pci_device *bridge, unsigned int depth)
{
	struct pci_device *dev = kzalloc(sizeof(*dev));

	if (!dev)
		return -ENOMEM;
	dev->cfg = bus->cfg;
	dev->bdf = bdf;
	dev->bridge = bridge;
	dev->vendor = (uint16_t)id;
	dev->device = (uint16_t)(id >> 16);
	dev->class = pci_cfg_read16(dev, PCI_CFG_CLASS);
	snprintf(dev->name, sizeof(dev->name), "pci %02x:%02x.%u", PCI_BDF_BUS(bdf),
		 PCI_BDF_DEV(bdf), PCI_BDF_FN(bdf));
	pci_bars_probe(dev);
	list_add_tail(&dev->node, &bus->devices);

	if (dev->class == PCI_CLASS_BRIDGE_PCI &&
	    (pci_cfg_read8(dev, PCI_CFG_HEADER_TYPE) & PCI_HEADER_TYPE_MASK) == PCI_HEADER_BRIDGE)
		return bridge_scan(bus, dev, depth);
	return 0;
}

static int bus_scan_one(struct pci_bus *bus, unsigned int nr, struct pci_device *bridge,
			unsigned int depth)
{
	if (depth > 8) {
		pr_warn("bus %02x: bridges nested too deeply, ignored\n", nr);
		return 0;
	}
	for (unsigned int d = 0; d < 32; d++) {
		unsigned int nr_fn = 1;

		for (unsigned int fn = 0; fn < nr_fn; fn++) {
			const unsigned int bdf = PCI_BDF(nr, d, fn);
			const uint32_t id = bus->cfg->read(bus->cfg->arg, bdf, PCI_CFG_VENDOR, 4);
			int err;

			if ((id & 0xffff) == 0xffff || (id & 0xffff) == 0)
				continue;
			if (fn == 0 && bus->cfg->read(bus->cfg->arg, bdf, PCI_CFG_HEADER_TYPE, 1) &
					       PCI_HEADER_MULTI)
				nr_fn = 8;
			err = function_add(bus, bdf, id, bridge, depth);
			if (err)
				return err;
		}
	}
	return 0;
}

/* The range that reaches @dev: its bridge's memory window, or the root's. */
static struct pci_window window_behind(const struct pci_bus *bus, const struct pci_device *dev)
{
	struct pci_window win = bus->window;

	if (dev->bridge) {
		const uint16_t base = pci_cfg_read16(dev->bridge, PCI_CFG_MEMORY_BASE);
		const uint16_t limit = pci_cfg_read16(dev->bridge, PCI_CFG_MEMORY_LIMIT);

		win.start = (uint64_t)(base & 0xfff0) << 16;
		win.end = ((uint64_t)(limit & 0xfff0) << 16) + 0x100000;
	}
	return win;
}

static void bus_assign(struct pci_bus *bus)
{
	struct pci_device *dev;

	list_for_each_entry(dev, &bus->devices, node) {
		for (unsigned int n = 0; n < PCI_NR_BARS; n++) {
			struct pci_bar *bar = &dev->bars[n];
			struct pci_window win;
			uint64_t addr;

			if (!(bar->flags & PCI_BAR_F_UNASSIGNED) || bar->flags & PCI_BAR_F_IO)
				continue;
			win = window_behind(bus, dev);
			addr = pci_window_alloc(&win, bar->len, &bus->devices);
			if (addr)
				pci_bar_assign(dev, n, addr);
			else
				pr_warn("%s: no room for BAR %u of %lu bytes\n", dev->name, n,
					(unsigned long)bar->len);
		}
	}
}

int pci_bus_scan(struct pci_bus *bus)
{
	int err;

	bus->next_bus = 1;
	err = bus_scan_one(bus, 0, NULL, 0);
	if (err)
		return err;
	bus_assign(bus);
	return 0;
}

void pci_bus_free(struct pci_bus *bus)
{
	struct pci_device *dev, *next;

	list_for_each_entry_safe(dev, next, &bus->devices, node) {
		list_del(&dev->node);
		kfree(dev);
	}
}

/* --- drivers ------------------------------------------------------------------------- */

static const struct pci_id *driver_match(const struct pci_driver *drv, const struct pci_device *dev)
{
	for (const struct pci_id *id = drv->ids; id->vendor; id++) {
		if (id->vendor == dev->vendor &&
		    (id->device == dev->device || id->device == PCI_ANY_ID))
			return id;
	}
	return NULL;
}

static void device_probe(struct pci_device *dev)
{
	const struct pci_driver *const *p;

	for (p = __start_pci_drivers; p < __stop_pci_drivers; p++) {
		const struct pci_id *id = driver_match(*p, dev);
		int err;

		if (!id)
			continue;
		dev->driver = *p;
		err = (*p)->probe(dev, id);
		if (!err)
			return;
		dev->driver = NULL;
		pr_err("%s: driver %s failed: error %d\n", dev->name, (*p)->name, err);
	}
}

/* Unbind and bind every driver that can be removed: what it holds afterwards must not grow. */
static void devices_reprobe(void)
{
	struct pci_device *dev;

	list_for_each_entry(dev, &root_bus.devices, node) {
		if (!dev->driver || !dev->driver->remove)
			continue;
		dev->driver->remove(dev);
		dev->driver = NULL;
		pr_info("%s: removed, %zu bytes of heap in use\n", dev->name, slab_bytes_in_use());
		device_probe(dev);
	}
}

static int pci_init(void)
{
	struct pci_device *dev;
	int err;

	ASSERT_BEFORE(monitor); /* which waits for devices */
	err = pci_bus_scan(&root_bus);
	if (err) {
		pr_err("scan failed: error %d\n", err);
		return err;
	}
	list_for_each_entry(dev, &root_bus.devices, node)
		pr_info("%s: %04x:%04x class %04x\n", dev->name, dev->vendor, dev->device,
			dev->class);
	list_for_each_entry(dev, &root_bus.devices, node)
		device_probe(dev);
	for (uint32_t n = 0; n < nr_reprobe; n++)
		devices_reprobe();
	return 0;
}
INITCALL(driver, pci_init);
