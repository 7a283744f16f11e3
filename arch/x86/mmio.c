/* SPDX-License-Identifier: MIT */
/*
 * The lock behind the mmio_ accessors (see arch/io.h): one access at a time
 * over all CPUs, when the quirk is on.
 *
 * Flow:	at boot when mmio.lock=on says so; otherwise, unless it says off,
 *		when a driver finds that its device asks for it.  That is before the
 *		driver's first access, so it does not matter that accesses to other
 *		devices may be under way without the lock.  It stays on then.
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
BOOT_PARAM_CB(
	"mmio.lock", set_wanted,
	"one device register access at a time: on, off or auto (when a device asks for it and "
	"there are several CPUs)");

void mmio_lock_choose(void)
{
	if (wanted != LOCK_ON)
		return;
	mmio_lock_quirk_set(true);
	pr_info("quirk: one device register access at a time\n");
}

void mmio_lock_ask(const char *who)
{
	if (wanted != LOCK_AUTO || cpu_online_count() < 2 || READ_ONCE(mmio_lock_quirk))
		return;
	mmio_lock_quirk_set(true);
	pr_info("quirk: one device register access at a time, for %s\n", who);
}

void mmio_lock_quirk_set(bool on)
{
	WRITE_ONCE(mmio_lock_quirk, on);
}

unsigned long mmio_lock_enter(void) __no_lock_analysis("callers take it only with the quirk on")
{
	return spin_lock_irqsave(&mmio_lock);
}

void mmio_lock_leave(unsigned long flags) __no_lock_analysis("as mmio_lock_enter()")
{
	spin_unlock_irqrestore(&mmio_lock, flags);
}
