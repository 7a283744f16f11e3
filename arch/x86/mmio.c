/* SPDX-License-Identifier: MIT */
/*
 * The lock behind the mmio_ accessors (see arch/io.h): one access at a time
 * over all CPUs, when the quirk is on.
 */
#define PR_FMT "mmio: "

#include <arch/io.h>
#include <kernel/bootparam.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>

bool mmio_lock_quirk;
static struct spinlock mmio_lock = SPINLOCK_INIT("mmio", RANK_MMIO);

BOOT_PARAM("mmio.lock", bool, mmio_lock_quirk,
	   "serialise all device register accesses (QEMU x-pci-proxy-dev with several CPUs)");

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
