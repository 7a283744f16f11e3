/* SPDX-License-Identifier: MIT */
/*
 * Interrupt lines of PCI devices: two that share one, one without, and a line that goes on without
 * a reason.
 */
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <shim/shim.h>

#include "../../drivers/pci/pci_priv.h"

#define NR_DEVICES 3u

static uint8_t space[NR_DEVICES][256]; /* by device number */

static uint32_t cfg_read(void *arg, unsigned int bdf, unsigned int off, unsigned int width)
{
	uint32_t val = 0;

	memcpy(&val, &space[PCI_BDF_DEV(bdf)][off], width);
	return val;
}

static void cfg_write(void *arg, unsigned int bdf, unsigned int off, unsigned int width,
		      uint32_t val)
{
	memcpy(&space[PCI_BDF_DEV(bdf)][off], &val, width);
}

static const struct pci_cfg_ops ops = { cfg_read, cfg_write, NULL };
static struct pci_device devices[NR_DEVICES];

static void setup(uint8_t line, uint8_t pin)
{
	for (unsigned int i = 0; i < NR_DEVICES; i++) {
		devices[i] = (struct pci_device){ .cfg = &ops, .bdf = PCI_BDF(0, i, 0) };
		memset(space[i], 0, sizeof(space[i]));
		space[i][PCI_CFG_INT_LINE] = line;
		space[i][PCI_CFG_INT_PIN] = pin;
		pci_cfg_write16(&devices[i], PCI_CFG_COMMAND, PCI_COMMAND_INTX_DISABLE);
	}
}

struct card {
	bool interrupts; /* it was the one */
	unsigned int asked;
};

static bool ask(void *arg)
{
	struct card *c = arg;

	c->asked++;
	return c->interrupts;
}

static void devices_share_a_line(struct ktest *t)
{
	struct card a = { .interrupts = true }, b = { 0 };

	setup(11, 1);
	EXPECT_FALSE(t, shim_line_raise(11));
	ASSERT_EQ(t, pci_intx_request(&devices[0], ask, &a), 0);
	EXPECT_EQ(t, pci_cfg_read16(&devices[0], PCI_CFG_COMMAND), 0);
	ASSERT_EQ(t, pci_intx_request(&devices[1], ask, &b), 0);
	EXPECT_TRUE(t, shim_line_raise(11));
	EXPECT_EQ(t, a.asked, 1u);
	EXPECT_EQ(t, b.asked, 1u);
	pci_intx_free(&devices[0]);
	EXPECT_EQ(t, pci_cfg_read16(&devices[0], PCI_CFG_COMMAND), PCI_COMMAND_INTX_DISABLE);
	EXPECT_TRUE(t, shim_line_raise(11));
	EXPECT_EQ(t, a.asked, 1u);
	EXPECT_EQ(t, b.asked, 2u);
	pci_intx_free(&devices[1]);
}

static void devices_without_a_line(struct ktest *t)
{
	struct card a = { 0 };

	setup(0, 1); /* the firmware left none */
	EXPECT_EQ(t, pci_intx_request(&devices[0], ask, &a), -ENODEV);
	setup(0xff, 1);
	EXPECT_EQ(t, pci_intx_request(&devices[0], ask, &a), -ENODEV);
	setup(200, 1); /* no controller has it */
	EXPECT_EQ(t, pci_intx_request(&devices[0], ask, &a), -ENODEV);
	setup(10, 0); /* the device has none */
	EXPECT_EQ(t, pci_intx_request(&devices[0], ask, &a), -ENODEV);
	EXPECT_EQ(t, pci_cfg_read16(&devices[0], PCI_CFG_COMMAND), PCI_COMMAND_INTX_DISABLE);
}

static void a_line_without_a_reason_is_masked(struct ktest *t)
{
	struct card a = { 0 };

	setup(9, 1);
	ASSERT_EQ(t, pci_intx_request(&devices[0], ask, &a), 0);
	for (unsigned int i = 0; i < 9999; i++)
		ASSERT_TRUE(t, shim_line_raise(9));
	a.interrupts = true; /* one reason in between: it is counted anew */
	EXPECT_TRUE(t, shim_line_raise(9));
	a.interrupts = false;
	for (unsigned int i = 0; i < 10000; i++)
		ASSERT_TRUE(t, shim_line_raise(9));
	EXPECT_FALSE(t, shim_line_raise(9));
	EXPECT_TRUE(t, shim_log_contains("without a reason"));
}

static const struct ktest_case cases[] = {
	KTEST(devices_share_a_line),
	KTEST(devices_without_a_line),
	KTEST(a_line_without_a_reason_is_masked),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "pci.line", .cases = cases };
KTEST_SUITE(suite);
