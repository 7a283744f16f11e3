/* SPDX-License-Identifier: MIT */
/*
 * Interrupt lines of devices that have nothing better. The firmware has written into a device's
 * configuration which line it is on; several may share one.
 *
 * Flow:	the first device of a line gets it a vector. An interrupt asks all devices of the
 *		line. Its end is told before they are asked, so a line that they take back
 *		interrupts once more than needed, and no device has a reason for that one.
 * Locking:	lines and their users are made at boot by one thread and live for ever; the handler
 *		walks them without a lock.
 * Failure:	a line that goes on and on while no device has a reason is masked, with a line in
 *		the log: a broken device must not hold the CPU.
 */
#define PR_FMT "pci: "

#include <kernel/printk.h>
#include <lib/errno.h>
#include <mm/slab.h>

#include "pci_priv.h"

#define NO_LINE       0xffu
#define UNCLAIMED_MAX 10000u

struct pci_line_user {
	struct pci_line_user *next; /* const once published */
	pci_intx_fn_t fn;           /* atomic; NULL: it has gone */
	void *arg;                  /* const */
};

struct pci_line {
	struct pci_line *next;
	unsigned int number;         /* const */
	int vector;                  /* const */
	struct pci_line_user *users; /* atomic */
	unsigned int unclaimed;      /* the handler: interrupts in a row without a reason */
};

static struct pci_line *lines;

static void line_interrupt(unsigned int vector, void *arg)
{
	struct pci_line *line = arg;
	struct pci_line_user *u = __atomic_load_n(&line->users, __ATOMIC_ACQUIRE);
	bool claimed = false;

	(void)vector;
	for (; u; u = u->next) {
		const pci_intx_fn_t fn = __atomic_load_n(&u->fn, __ATOMIC_ACQUIRE);

		claimed |= fn && fn(u->arg);
	}
	line->unclaimed = claimed ? 0 : line->unclaimed + 1;
	if (line->unclaimed != UNCLAIMED_MAX)
		return;
	irq_line_mask(line->number);
	pr_err("line %u interrupts without a reason: masked\n", line->number);
}

/* The line @number, which is routed to its vector; NULL: it cannot be had. */
static struct pci_line *line_get(unsigned int number)
{
	struct pci_line *line;

	for (line = lines; line; line = line->next) {
		if (line->number == number)
			return line;
	}
	line = kzalloc(sizeof(*line));
	if (!line)
		return NULL;
	line->number = number;
	line->vector = irq_alloc(line_interrupt, line, "pci line");
	if (line->vector < 0)
		goto out_free;
	if (irq_line_route(number, (unsigned int)line->vector))
		goto out_vector;
	line->next = lines;
	lines = line;
	return line;

out_vector:
	irq_free((unsigned int)line->vector);
out_free:
	kfree(line);
	return NULL;
}

int pci_intx_request(struct pci_device *dev, pci_intx_fn_t fn, void *arg)
{
	const uint8_t number = pci_cfg_read8(dev, PCI_CFG_INT_LINE);
	const uint16_t command = pci_cfg_read16(dev, PCI_CFG_COMMAND);
	struct pci_line_user *u;
	struct pci_line *line;

	if (!pci_cfg_read8(dev, PCI_CFG_INT_PIN) || !number || number == NO_LINE)
		return -ENODEV;
	u = kzalloc(sizeof(*u));
	if (!u)
		return -ENOMEM;
	line = line_get(number);
	if (!line) {
		kfree(u);
		return -ENODEV;
	}
	u->arg = arg;
	u->fn = fn;
	u->next = line->users;
	__atomic_store_n(&line->users, u, __ATOMIC_RELEASE);
	dev->intx = u;
	pci_cfg_write16(dev, PCI_CFG_COMMAND, (uint16_t)(command & ~PCI_COMMAND_INTX_DISABLE));
	return 0;
}

void pci_intx_free(struct pci_device *dev)
{
	const uint16_t command = pci_cfg_read16(dev, PCI_CFG_COMMAND);

	pci_cfg_write16(dev, PCI_CFG_COMMAND, (uint16_t)(command | PCI_COMMAND_INTX_DISABLE));
	if (dev->intx)
		__atomic_store_n(&dev->intx->fn, NULL, __ATOMIC_RELEASE);
	dev->intx = NULL;
}
