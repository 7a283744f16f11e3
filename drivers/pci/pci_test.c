/* SPDX-License-Identifier: MIT */
/* PCI: enumeration, BAR sizing and assignment, and capability lists, on a fake bus. */
#include <lib/ktest.h>
#include <lib/list.h>
#include <lib/string.h>

#include "pci_priv.h"

#define NR_FUNCS 4

struct fake_func {
	unsigned int bdf;
	uint8_t cfg[256];
	uint32_t bar_mask[PCI_NR_BARS]; /* writable bits */
};

struct fake_bus {
	struct fake_func func[NR_FUNCS];
	unsigned int nr;
	struct pci_cfg_ops ops;
	struct pci_bus bus;
};

static struct fake_func *func_find(struct fake_bus *b, unsigned int bdf)
{
	for (unsigned int n = 0; n < b->nr; n++) {
		if (b->func[n].bdf == bdf)
			return &b->func[n];
	}
	return NULL;
}

static uint32_t fake_read(void *arg, unsigned int bdf, unsigned int off, unsigned int width)
{
	const struct fake_func *f = func_find(arg, bdf);
	uint32_t val = 0;

	if (!f)
		return ~0U;
	memcpy(&val, &f->cfg[off], width);
	return val;
}

static void fake_write(void *arg, unsigned int bdf, unsigned int off, unsigned int width,
		       uint32_t val)
{
	struct fake_func *f = func_find(arg, bdf);

	if (!f)
		return;
	if (off >= PCI_CFG_BAR0 && off < PCI_CFG_BAR0 + 4 * PCI_NR_BARS &&
	    (f->cfg[PCI_CFG_HEADER_TYPE] & PCI_HEADER_TYPE_MASK) == 0) {
		const unsigned int n = (off - PCI_CFG_BAR0) / 4;
		uint32_t old;

		memcpy(&old, &f->cfg[off], 4);
		val = (val & f->bar_mask[n]) | (old & ~f->bar_mask[n]);
	}
	memcpy(&f->cfg[off], &val, width);
}

static void put(struct fake_func *f, unsigned int off, uint32_t val, unsigned int width)
{
	memcpy(&f->cfg[off], &val, width);
}

static struct fake_func *func_add(struct fake_bus *b, unsigned int bdf, uint32_t id)
{
	struct fake_func *f = &b->func[b->nr++];

	f->bdf = bdf;
	put(f, PCI_CFG_VENDOR, id, 4);
	return f;
}

static void bus_init(struct fake_bus *b)
{
	memset(b, 0, sizeof(*b));
	b->ops = (struct pci_cfg_ops){ .read = fake_read, .write = fake_write, .arg = b };
	b->bus.cfg = &b->ops;
	b->bus.window = (struct pci_window){ 0xe0000000, 0xe1000000 };
	list_init(&b->bus.devices);
}

static struct pci_device *first_device(struct fake_bus *b)
{
	return list_first_entry(&b->bus.devices, struct pci_device, node);
}

static void bars_are_sized(struct ktest *t)
{
	static struct fake_bus b;
	struct fake_func *f;
	struct pci_device *d;

	bus_init(&b);
	f = func_add(&b, PCI_BDF(0, 3, 0), 0x100315b3);
	put(f, PCI_CFG_BAR0, 0xfe000004, 4); /* 64-bit, 1 MiB */
	f->bar_mask[0] = 0xfff00000;
	f->bar_mask[1] = 0xffffffff;
	put(f, PCI_CFG_BAR0 + 8, 0xfd00000c, 4); /* 64-bit prefetchable; its high half is a stub */
	f->bar_mask[2] = 0xff800000;
	put(f, PCI_CFG_BAR0 + 16, 0xc001, 4); /* I/O, 64 ports, low 16 bits only */
	f->bar_mask[4] = 0x0000ffc0;
	put(f, PCI_CFG_BAR0 + 20, 0x00000004, 4); /* 64-bit in the last register */
	f->bar_mask[5] = 0xfffff000;
	put(f, PCI_CFG_COMMAND, 7, 2);

	ASSERT_EQ(t, pci_bus_scan(&b.bus), 0);
	d = first_device(&b);
	EXPECT_STREQ(t, pci_name(d), "pci 00:03.0");
	EXPECT_EQ(t, pci_bar_len(d, 0), 0x100000ULL);
	EXPECT_EQ(t, pci_bar_addr(d, 0), 0xfe000000ULL);
	EXPECT_EQ(t, pci_bar_len(d, 1), 0ULL);
	EXPECT_EQ(t, pci_bar_len(d, 2), 0x800000ULL);
	EXPECT_EQ(t, pci_bar_len(d, 4), 64ULL);
	EXPECT_TRUE(t, pci_bar_is_io(d, 4));
	EXPECT_EQ(t, pci_bar_len(d, 5), 0ULL);
	EXPECT_EQ(t, pci_bar_len(d, 6), 0ULL);
	/* Sizing puts everything back. */
	EXPECT_EQ(t, pci_cfg_read32(d, PCI_CFG_BAR0), 0xfe000004U);
	EXPECT_EQ(t, pci_cfg_read16(d, PCI_CFG_COMMAND), 7);
	pci_bus_free(&b.bus);
}

static void bar_with_holes_is_absent(struct ktest *t)
{
	static struct fake_bus b;
	struct fake_func *f;

	bus_init(&b);
	f = func_add(&b, PCI_BDF(0, 0, 0), 0x12345678);
	f->bar_mask[0] = 0xff0f0000;
	ASSERT_EQ(t, pci_bus_scan(&b.bus), 0);
	EXPECT_EQ(t, pci_bar_len(first_device(&b), 0), 0ULL);
	pci_bus_free(&b.bus);
}

static void missing_addresses_are_given(struct ktest *t)
{
	static struct fake_bus b;
	struct fake_func *f;
	struct pci_device *d;

	bus_init(&b);
	f = func_add(&b, PCI_BDF(0, 1, 0), 0x11111111);
	put(f, PCI_CFG_BAR0, 0xe0000000, 4); /* placed by firmware */
	f->bar_mask[0] = 0xfff00000;
	f = func_add(&b, PCI_BDF(0, 2, 0), 0x22222222);
	put(f, PCI_CFG_BAR0, 0x4, 4);
	f->bar_mask[0] = 0xffe00000; /* 2 MiB */
	f->bar_mask[1] = 0xffffffff;
	f->bar_mask[2] = 0xfffff000; /* 4 KiB */
	f->bar_mask[3] = 0xfc000000; /* 64 MiB: larger than the window */
	ASSERT_EQ(t, pci_bus_scan(&b.bus), 0);
	d = list_next_entry(first_device(&b), node);
	EXPECT_EQ(t, pci_bar_addr(d, 0), 0xe0200000ULL);
	EXPECT_EQ(t, pci_cfg_read32(d, PCI_CFG_BAR0), 0xe0200004U);
	EXPECT_EQ(t, pci_bar_addr(d, 2), 0xe0100000ULL);
	EXPECT_EQ(t, pci_bar_len(d, 3), 0x4000000ULL);
	EXPECT_EQ(t, pci_bar_addr(d, 3), 0ULL);
	pci_bus_free(&b.bus);
}

static void bridges_are_followed(struct ktest *t)
{
	static struct fake_bus b;
	struct fake_func *f;
	unsigned int nr = 0;
	struct pci_device *d;

	bus_init(&b);
	f = func_add(&b, PCI_BDF(0, 4, 0), 0x33333333); /* not numbered by firmware */
	put(f, PCI_CFG_CLASS, PCI_CLASS_BRIDGE_PCI, 2);
	f->cfg[PCI_CFG_HEADER_TYPE] = PCI_HEADER_BRIDGE;
	put(f, PCI_CFG_MEMORY_BASE, 0xf000, 2);
	put(f, PCI_CFG_MEMORY_LIMIT, 0xf010, 2);
	f = func_add(&b, PCI_BDF(1, 0, 0), 0x44444444);
	f->bar_mask[0] = 0xffff0000;
	ASSERT_EQ(t, pci_bus_scan(&b.bus), 0);
	list_for_each_entry(d, &b.bus.devices, node)
		nr++;
	ASSERT_EQ(t, nr, 2U);
	d = list_next_entry(first_device(&b), node);
	EXPECT_STREQ(t, pci_name(d), "pci 01:00.0");
	EXPECT_EQ(t, pci_bar_addr(d, 0), 0xf0000000ULL); /* inside the bridge's window */
	EXPECT_EQ(t, b.func[0].cfg[PCI_CFG_SECONDARY_BUS], 1);
	EXPECT_EQ(t, b.func[0].cfg[PCI_CFG_SUBORDINATE_BUS], 1);
	pci_bus_free(&b.bus);
}

static void capability_lists_end(struct ktest *t)
{
	static struct fake_bus b;
	struct fake_func *f;
	struct pci_device *d;
	unsigned int pos, nr;

	bus_init(&b);
	f = func_add(&b, PCI_BDF(0, 5, 0), 0x10421af4);
	ASSERT_EQ(t, pci_bus_scan(&b.bus), 0);
	d = first_device(&b);
	EXPECT_EQ(t, pci_cap_find(d, PCI_CAP_MSIX, 0), 0U); /* no list at all */

	put(f, PCI_CFG_STATUS, PCI_STATUS_CAP_LIST, 2);
	put(f, PCI_CFG_CAP_PTR, 0x40, 1);
	put(f, 0x40, 0x5009, 2); /* vendor -> 0x50 */
	put(f, 0x50, 0x6009, 2); /* vendor -> 0x60 */
	put(f, 0x60, 0x4011, 2); /* MSI-X -> back to 0x40: a loop */
	EXPECT_EQ(t, pci_cap_find(d, PCI_CAP_MSIX, 0), 0x60U);
	EXPECT_EQ(t, pci_cap_find(d, PCI_CAP_EXP, 0), 0U);
	for (pos = 0, nr = 0; (pos = pci_cap_find(d, PCI_CAP_VENDOR, pos)) != 0 && nr < 10;)
		nr++;
	EXPECT_EQ(t, nr, 2U);
	put(f, PCI_CFG_CAP_PTR, 0x10, 1); /* into the header */
	EXPECT_EQ(t, pci_cap_find(d, PCI_CAP_VENDOR, 0), 0U);
	put(f, PCI_CFG_CAP_PTR, 0xfc, 1);
	put(f, 0xfc, 0xff05, 2);
	EXPECT_EQ(t, pci_cap_find(d, PCI_CAP_MSI, 0), 0xfcU);
	EXPECT_EQ(t, pci_cap_find(d, PCI_CAP_MSI, 0xfc), 0U);
	pci_bus_free(&b.bus);
}

static void offsets_are_checked(struct ktest *t)
{
	static struct fake_bus b;
	struct pci_device *d;

	bus_init(&b);
	(void)func_add(&b, PCI_BDF(0, 0, 0), 0x12345678);
	ASSERT_EQ(t, pci_bus_scan(&b.bus), 0);
	d = first_device(&b);
	EXPECT_EQ(t, pci_cfg_read32(d, 0), 0x12345678U);
	EXPECT_EQ(t, pci_cfg_read32(d, 2), ~0U);
	EXPECT_EQ(t, pci_cfg_read32(d, 256), ~0U);
	EXPECT_EQ(t, pci_cfg_read16(d, 255), 0xffff);
	EXPECT_EQ(t, pci_cfg_read8(d, 4096), 0xff);
	pci_bus_free(&b.bus);
}

static const struct ktest_case pci_cases[] = {
	KTEST(bars_are_sized),
	KTEST(bar_with_holes_is_absent),
	KTEST(missing_addresses_are_given),
	KTEST(bridges_are_followed),
	KTEST(capability_lists_end),
	KTEST(offsets_are_checked),
	{ 0 },
};
static const struct ktest_suite pci_suite = { .name = "pci", .cases = pci_cases };
KTEST_SUITE(pci_suite);
