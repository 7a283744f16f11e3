/* SPDX-License-Identifier: MIT */
/*
 * The lock behind the mmio_ accessors (see arch/io.h): one access at a time
 * over all CPUs, when the quirk is on.
 */
#define PR_FMT "mmio: "

#include <arch/io.h>

#include <arch/cpu.h>
#include <kernel/bootparam.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "arch_private.h"

bool mmio_lock_quirk;
static struct spinlock mmio_lock = SPINLOCK_INIT("mmio", RANK_MMIO);

static enum {
	LOCK_AUTO,
	LOCK_ON,
	LOCK_OFF
} wanted;

static int set_wanted(const char *value)
{
	if (strcmp(value, "auto") == 0)
		wanted = LOCK_AUTO;
	else if (strcmp(value, "on") == 0)
		wanted = LOCK_ON;
	else if (strcmp(value, "off") == 0)
		wanted = LOCK_OFF;
	else
		return -EINVAL;
	return 0;
}
BOOT_PARAM_CB("mmio.lock", set_wanted,
	      "one device register access at a time: on, off or auto (in a virtual machine with "
	      "several CPUs)");

/* QEMU's x-pci-proxy-dev cannot be told from outside, so any virtual machine is suspected. */
void mmio_lock_choose(unsigned int nr_cpus)
{
	if (wanted == LOCK_ON || (wanted == LOCK_AUTO && nr_cpus > 1 && cpu_is_virtual()))
		mmio_lock_quirk_set(true);
}

void mmio_lock_quirk_set(bool on)
{
	mmio_lock_quirk = on;
	if (on)
		pr_info("quirk: one device register access at a time\n");
}

unsigned long mmio_lock_enter(void)
{
	return spin_lock_irqsave(&mmio_lock);
}

void mmio_lock_leave(unsigned long flags)
{
	spin_unlock_irqrestore(&mmio_lock, flags);
}
