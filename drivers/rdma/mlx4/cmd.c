/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: the command interface.
 *
 * Flow:	polled during bring-up and tear-down: write the register, wait for GO to clear, read
 *		the status.  With events on, several commands are under way at once: each has a slot
 *		whose token comes back in a command event.
 * Context:	threads; sleeps.
 * Locking:	hcr_lock covers the register from the first dword until GO is seen clear (polled)
 *		or written (events).
 * Failure:	a status other than OK becomes an errno and one log line.  A command that does not
 *		end in time means that the device is out of step with us: mlx4_fatal().
 */
#include <arch/cpu.h>
#include <arch/io.h>
#include <kernel/bootparam.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "mlx4.h"
#include "regs.h"

#define PR_FMT "mlx4: "
#include <kernel/printk.h>

#define SPIN_NS    (50 * NSEC_PER_USEC)
#define SLEEP_NS   (200 * NSEC_PER_USEC)
#define POLL_TOKEN 0xffff
#define MAX_SLOTS  16U

static uint32_t cmd_timeout_ms = 10000;
BOOT_PARAM("mlx4.cmd_timeout", u32, cmd_timeout_ms,
	   "milliseconds after which a command without an answer means that the device failed");

static const struct {
	uint8_t status;
	int err;
	const char *name;
} statuses[] = {
	{ STATUS_OK, 0, "OK" },
	{ STATUS_INTERNAL_ERR, -EIO, "internal error" },
	{ STATUS_BAD_OP, -EPERM, "command not supported" },
	{ STATUS_BAD_PARAM, -EINVAL, "bad parameter" },
	{ STATUS_BAD_SYS_STATE, -ENXIO, "bad system state" },
	{ STATUS_BAD_RESOURCE, -EBADF, "reserved or unallocated resource" },
	{ STATUS_RESOURCE_BUSY, -EBUSY, "resource busy" },
	{ STATUS_EXCEED_LIM, -ENOMEM, "exceeds limits" },
	{ STATUS_BAD_RES_STATE, -EBADF, "wrong resource state or ownership" },
	{ STATUS_BAD_INDEX, -EBADF, "index out of range" },
	{ STATUS_BAD_NVMEM, -EFAULT, "bad non-volatile memory" },
	{ STATUS_ICM_ERROR, -ENFILE, "context memory not mapped" },
	{ STATUS_BAD_QP_STATE, -EINVAL, "QP not in the presumed state" },
	{ STATUS_BAD_SEG_PARAM, -EFAULT, "bad segment parameters" },
	{ STATUS_REG_BOUND, -EBUSY, "region has windows bound" },
	{ STATUS_LAM_NOT_PRE, -EAGAIN, "no local memory" },
	{ STATUS_BAD_PKT, -EINVAL, "bad packet" },
	{ STATUS_BAD_SIZE, -ENOMEM, "bad size" },
	{ STATUS_MULTI_FUNC_REQ, -EACCES, "not the primary function" },
};

static uint64_t cmd_timeout_ns(void)
{
	return cmd_timeout_ms * NSEC_PER_MSEC;
}

static int mlx4_status_errno(uint8_t status)
{
	for (size_t n = 0; n < ARRAY_SIZE(statuses); n++) {
		if (statuses[n].status == status)
			return statuses[n].err;
	}
	return -EIO;
}

static const char *mlx4_status_name(uint8_t status)
{
	for (size_t n = 0; n < ARRAY_SIZE(statuses); n++) {
		if (statuses[n].status == status)
			return statuses[n].name;
	}
	return "unknown status";
}

int mlx4_mbox_get(struct mlx4_mbox *mbox)
{
	mbox->virt = dma_alloc(MLX4_PAGE_LEN, &mbox->paddr);
	return mbox->virt ? 0 : -ENOMEM;
}

void mlx4_mbox_put(struct mlx4_mbox *mbox)
{
	dma_free(mbox->virt, MLX4_PAGE_LEN);
	mbox->virt = NULL;
}

/* --- the register -------------------------------------------------------------------- */

/* Wait until the device has taken the last command. Returns the status word, or an errno. */
static int hcr_wait(struct mlx4_dev *dev, uint64_t timeout_ns, uint32_t *word)
	__must_hold(&dev->cmd.hcr_lock)
{
	const uint64_t start = time_now_ns();

	assert_mutex_held(&dev->cmd.hcr_lock);
	for (;;) {
		const uint32_t w = dev->regs->read(dev, MLX4_HCR + HCR_STATUS);
		uint64_t waited;

		if (mlx4_is_off(dev) || w == ~0U)
			return -EIO;
		/* The toggle of the last command stays; only ours-to-be means "not yet seen". */
		if (!(w & HCR_GO) && !!(w & HCR_TOGGLE) != dev->cmd.toggle) {
			*word = w;
			return 0;
		}
		waited = time_now_ns() - start;
		if (waited > timeout_ns)
			return -ETIMEDOUT;
		if (waited > SPIN_NS)
			thread_sleep_ns(SLEEP_NS);
		else
			cpu_relax();
	}
}

static int hcr_post(struct mlx4_dev *dev, const struct mlx4_cmd_args *a, uint16_t token, bool event)
	__must_hold(&dev->cmd.hcr_lock)
{
	struct mlx4_cmd *cmd = &dev->cmd;
	uint32_t word;
	int err;

	assert_mutex_held(&cmd->hcr_lock);
	if (!cmd->idle) {
		err = hcr_wait(dev, cmd_timeout_ns(), &word);
		if (err)
			return err;
	}
	word = HCR_GO | (event ? HCR_EVENT : 0) | (cmd->toggle ? HCR_TOGGLE : 0) |
	       (uint32_t)a->op_mod << HCR_OPMOD_SH | a->op;
	dma_wmb(); /* the mailbox before the command */
	dev->regs->write(dev, MLX4_HCR + HCR_IN_HI, (uint32_t)(a->in >> 32));
	dev->regs->write(dev, MLX4_HCR + HCR_IN_LO, (uint32_t)a->in);
	dev->regs->write(dev, MLX4_HCR + HCR_IN_MOD, a->in_mod);
	dev->regs->write(dev, MLX4_HCR + HCR_OUT_HI, (uint32_t)(a->out >> 32));
	dev->regs->write(dev, MLX4_HCR + HCR_OUT_LO, (uint32_t)a->out);
	dev->regs->write(dev, MLX4_HCR + HCR_TOKEN, (uint32_t)token << 16);
	dev->regs->write(dev, MLX4_HCR + HCR_STATUS, word);
	cmd->toggle ^= 1;
	cmd->idle = false;
	return 0;
}

static int cmd_poll(struct mlx4_dev *dev, const struct mlx4_cmd_args *a, uint8_t *status)
{
	struct mlx4_cmd *cmd = &dev->cmd;
	uint32_t word = 0;
	int err;

	mutex_lock(&cmd->hcr_lock);
	assert_mutex_held(&dev->cmd.hcr_lock);
	err = hcr_post(dev, a, POLL_TOKEN, false);
	if (!err)
		err = hcr_wait(dev, cmd_timeout_ns(), &word);
	if (!err) {
		cmd->idle = true;
		*status = (uint8_t)(word >> HCR_STATUS_SH);
		dma_rmb(); /* the status before the output mailbox */
		if (a->imm && *status == STATUS_OK) {
			*a->imm = (uint64_t)dev->regs->read(dev, MLX4_HCR + HCR_OUT_HI) << 32;
			*a->imm |= dev->regs->read(dev, MLX4_HCR + HCR_OUT_LO);
		}
	}
	mutex_unlock(&cmd->hcr_lock);
	return err;
}

/* --- events -------------------------------------------------------------------------- */

static struct mlx4_cmd_slot *slot_try_get(struct mlx4_cmd *cmd)
{
	struct mlx4_cmd_slot *slot = NULL;
	unsigned long flags;

	flags = spin_lock_irqsave(&cmd->slot_lock);
	for (uint32_t n = 0; n < cmd->nr_slots; n++) {
		if (!cmd->slots[n].in_use) {
			slot = &cmd->slots[n];
			slot->in_use = true;
			/* A new generation each time: a late event of an old one is not ours. */
			slot->token = (uint16_t)(slot->token + MAX_SLOTS);
			completion_init(&slot->done);
			break;
		}
	}
	spin_unlock_irqrestore(&cmd->slot_lock, flags);
	return slot;
}

static void slot_put(struct mlx4_cmd *cmd, struct mlx4_cmd_slot *slot)
{
	unsigned long flags;

	flags = spin_lock_irqsave(&cmd->slot_lock);
	slot->in_use = false;
	spin_unlock_irqrestore(&cmd->slot_lock, flags);
	wake_one(&cmd->slot_wq);
}

void mlx4_cmd_event(struct mlx4_dev *dev, uint16_t token, uint8_t status, uint64_t out)
{
	struct mlx4_cmd *cmd = &dev->cmd;
	const uint32_t n = token % MAX_SLOTS;
	bool mine = false;
	unsigned long flags;

	flags = spin_lock_irqsave(&cmd->slot_lock);
	if (n < cmd->nr_slots && cmd->slots[n].in_use && cmd->slots[n].token == token) {
		cmd->slots[n].status = status;
		cmd->slots[n].out = out;
		mine = true;
	}
	spin_unlock_irqrestore(&cmd->slot_lock, flags);
	if (mine)
		complete(&cmd->slots[n].done);
}

static int cmd_wait(struct mlx4_dev *dev, const struct mlx4_cmd_args *a, uint8_t *status)
{
	struct mlx4_cmd *cmd = &dev->cmd;
	struct mlx4_cmd_slot *slot = NULL;
	int err;

	wait_event(&cmd->slot_wq, (slot = slot_try_get(cmd)) != NULL);
	mutex_lock(&cmd->hcr_lock);
	assert_mutex_held(&dev->cmd.hcr_lock);
	err = hcr_post(dev, a, slot->token, true);
	mutex_unlock(&cmd->hcr_lock);
	/* Either this sees that the device is off, or mlx4_cmd_abort() sees our slot. */
	if (!err && mlx4_is_off(dev))
		err = -EIO;
	if (!err && !completion_wait_until(&slot->done, time_now_ns() + cmd_timeout_ns()))
		err = -ETIMEDOUT;
	if (!err && mlx4_is_off(dev))
		err = -EIO;
	if (!err) {
		*status = slot->status;
		if (a->imm)
			*a->imm = slot->out;
	}
	slot_put(cmd, slot);
	return err;
}

void mlx4_cmd_abort(struct mlx4_dev *dev)
{
	struct mlx4_cmd *cmd = &dev->cmd;

	for (uint32_t n = 0; n < cmd->nr_slots; n++)
		complete_all(&cmd->slots[n].done);
}

void mlx4_cmd_restart(struct mlx4_dev *dev)
{
	struct mlx4_cmd *cmd = &dev->cmd;

	mutex_lock(&cmd->hcr_lock);
	cmd->toggle = 1;
	cmd->idle = false;
	WRITE_ONCE(cmd->events, false);
	mutex_unlock(&cmd->hcr_lock);
}

/* --- what the driver calls ----------------------------------------------------------- */

int mlx4_cmd(struct mlx4_dev *dev, const struct mlx4_cmd_args *a)
{
	uint8_t status = 0;
	int err;

	if (mlx4_is_off(dev))
		return -EIO;
	if (dev->cmd.events)
		err = cmd_wait(dev, a, &status);
	else
		err = cmd_poll(dev, a, &status);
	if (err) {
		if (!mlx4_is_off(dev)) {
			pr_err("%s: command %#x: no answer\n", dev->name, a->op);
			mlx4_fatal(dev, "command interface does not answer");
		}
		return -EIO;
	}
	if (status != STATUS_OK && !a->quiet)
		pr_err("%s: command %#x, modifier %#x: %s (%#x)\n", dev->name, a->op, a->in_mod,
		       mlx4_status_name(status), status);
	return mlx4_status_errno(status);
}

int mlx4_cmd_in(struct mlx4_dev *dev, uint16_t op, uint8_t op_mod, uint32_t in_mod,
		const struct mlx4_mbox *in)
{
	const struct mlx4_cmd_args a = {
		.op = op, .op_mod = op_mod, .in_mod = in_mod, .in = in->paddr
	};

	return mlx4_cmd(dev, &a);
}

int mlx4_cmd_out(struct mlx4_dev *dev, uint16_t op, uint8_t op_mod, uint32_t in_mod,
		 const struct mlx4_mbox *out)
{
	const struct mlx4_cmd_args a = {
		.op = op, .op_mod = op_mod, .in_mod = in_mod, .out = out->paddr
	};

	return mlx4_cmd(dev, &a);
}

int mlx4_cmd_none(struct mlx4_dev *dev, uint16_t op, uint8_t op_mod, uint32_t in_mod)
{
	const struct mlx4_cmd_args a = { .op = op, .op_mod = op_mod, .in_mod = in_mod };

	return mlx4_cmd(dev, &a);
}

int mlx4_cmd_init(struct mlx4_dev *dev)
{
	struct mlx4_cmd *cmd = &dev->cmd;

	mutex_init(&cmd->hcr_lock, "mlx4_hcr", RANK_DRIVER);
	spin_lock_init(&cmd->slot_lock, "mlx4_cmd_slots", RANK_SPIN_DRIVER);
	waitqueue_init(&cmd->slot_wq);
	cmd->toggle = 1;
	cmd->idle = false;
	cmd->events = false;
	cmd->nr_slots = 0;
	cmd->slots = kcalloc(MAX_SLOTS, sizeof(*cmd->slots));
	if (!cmd->slots)
		return -ENOMEM;
	for (uint32_t n = 0; n < MAX_SLOTS; n++) {
		cmd->slots[n].token = (uint16_t)n;
		completion_init(&cmd->slots[n].done);
	}
	return 0;
}

void mlx4_cmd_destroy(struct mlx4_dev *dev)
{
	kfree(dev->cmd.slots);
	dev->cmd.slots = NULL;
	dev->cmd.nr_slots = 0;
}

int mlx4_cmd_events_on(struct mlx4_dev *dev)
{
	struct mlx4_cmd *cmd = &dev->cmd;

	cmd->nr_slots = MIN(MAX_SLOTS, 1U << dev->fw.log_max_cmds);
	if (!cmd->slots)
		return -ENOMEM;
	WRITE_ONCE(cmd->events, true);
	return 0;
}

void mlx4_cmd_events_off(struct mlx4_dev *dev)
{
	WRITE_ONCE(dev->cmd.events, false);
}
