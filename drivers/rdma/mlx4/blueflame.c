/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: BlueFlame: a doorbell that carries its work queue entry, so that the device need
 * not fetch it from memory.
 *
 * Flow:	used for a single request whose entry fits, where the device offers it.  On the
 *		model each store of 8 bytes is an exit, a plain doorbell only one: there it is
 *		off unless mlx4.blueflame=on.  The registers are those of our doorbell page, one
 *		to a CPU as far as they go.  Each is two buffers that are written by turns, so
 *		that one may still be on its way.
 * Ordering:	the entry is in the send queue before it is copied; the device may take it from
 *		either.  A copy has left the CPU before the register's lock is released.
 * Locking:	a register's lock (RANK_SPIN_QUEUE), inside the send queue's, interrupts off.
 */
#include <arch/cpu.h>
#include <arch/io.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "mlx4.h"
#include "regs.h"

#define PR_FMT "mlx4: "
#include <kernel/printk.h>

struct mlx4_bf_reg {
	struct spinlock lock; /* RANK_SPIN_QUEUE */
	uint8_t __iomem *base;
	uint32_t next __guarded_by(&lock); /* offset of the buffer to write */
};

COUNTER(cnt_blueflames, "mlx4.blueflames", "work requests that went with their doorbell");

static enum {
	FLAME_AUTO,
	FLAME_ON,
	FLAME_OFF
} wanted;

static int set_wanted(const char *value)
{
	if (strcmp(value, "auto") == 0)
		wanted = FLAME_AUTO;
	else if (strcmp(value, "on") == 0)
		wanted = FLAME_ON;
	else if (strcmp(value, "off") == 0)
		wanted = FLAME_OFF;
	else
		return -EINVAL;
	return 0;
}
BOOT_PARAM_CB("mlx4.blueflame", set_wanted,
	      "doorbells that bring their work request along: on, off or auto (on a board)");

static bool is_wanted(const struct mlx4_dev *dev)
{
	if (wanted == FLAME_ON && !dev->caps.bf_reg_len)
		pr_warn("%s: the device has no BlueFlame\n", dev->name);
	if (!dev->caps.bf_reg_len || wanted == FLAME_OFF)
		return false;
	return wanted == FLAME_ON || !(dev->hints & MLX4_HINT_EMULATED);
}

void mlx4_bf_open(struct mlx4_dev *dev)
{
	const uint64_t off = dev->caps.uar_len + (uint64_t)dev->uar_index * MLX4_PAGE_LEN;
	const uint32_t nr = dev->caps.bf_regs;
	struct mlx4_bf_reg *regs;

	if (!is_wanted(dev))
		return;
	regs = kcalloc(nr, sizeof(*regs));
	if (!regs)
		return; /* do without */
	dev->bf_page = pci_bar_map_wc(dev->pci, 2, off, MLX4_PAGE_LEN);
	if (IS_ERR(dev->bf_page)) {
		pr_warn("%s: no BlueFlame page: error %d\n", dev->name, (int)PTR_ERR(dev->bf_page));
		dev->bf_page = NULL;
		kfree(regs);
		return;
	}
	for (uint32_t n = 0; n < nr; n++) {
		spin_lock_init(&regs[n].lock, "mlx4_bf", RANK_SPIN_QUEUE);
		regs[n].base = (uint8_t __iomem *)dev->bf_page + (size_t)n * dev->caps.bf_reg_len;
	}
	dev->bf_regs = regs;
	dev->bf_max = dev->caps.bf_reg_len / 2;
	pr_info("%s: BlueFlame: %u registers of %u bytes\n", dev->name, nr, dev->caps.bf_reg_len);
}

void mlx4_bf_close(struct mlx4_dev *dev)
{
	dev->bf_max = 0;
	if (dev->bf_page)
		mmio_unmap(dev->bf_page);
	dev->bf_page = NULL;
	kfree(dev->bf_regs);
	dev->bf_regs = NULL;
}

void mlx4_bf_send(struct mlx4_dev *dev, const void *wqe, uint32_t len)
{
	struct mlx4_bf_reg *reg = &dev->bf_regs[cpu_id() % dev->caps.bf_regs];

	spin_lock(&reg->lock); /* interrupts are off */
	mmio_copy_wc(reg->base + reg->next, wqe, len);
	reg->next ^= dev->bf_max;
	spin_unlock(&reg->lock);
	counter_inc(&cnt_blueflames);
}
