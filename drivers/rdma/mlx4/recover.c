/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: reset, and recovery of a device that failed.
 *
 * Flow:	the device's thread has told all users that the device is dead.  Now it keeps
 *		verbs out, takes interrupts away, resets the device, and repeats the bring-up
 *		with the memory that is there.  Regions get the keys that they had, completion
 *		queues start empty, ports are opened again.  Queue pairs stay lost: their
 *		outstanding work is flushed, and their owners destroy them and make new ones; a
 *		number is not used again before that.  Then handlers get RDMA_EVENT_DEVICE_UP.
 * Ordering:	the device's right to access memory ended when it failed.  It begins again after
 *		the reset, when the device knows no address any more.
 * Failure:	recovery is repeated after a growing pause.  A device that fails RECOVER_TRIES
 *		times without having worked for RECOVER_QUIET_NS in between is given up; one
 *		that has gone from the bus is given up at once.
 */
#include <arch/io.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/errno.h>

#include "mlx4.h"
#include "regs.h"

#define PR_FMT "mlx4: "
#include <kernel/panic.h>
#include <kernel/printk.h>

#define RESET_SILENCE_NS NSEC_PER_SEC /* a board does not answer for about as long */
#define RESET_TIMEOUT_NS (5 * NSEC_PER_SEC)
#define SEM_TIMEOUT_NS   (10 * NSEC_PER_SEC)
#define RESET_WAIT_AUTO  UINT32_MAX
#define RECOVER_TRIES    5U
#define RECOVER_PAUSE_NS (50 * NSEC_PER_MSEC) /* before the second try; doubles */
#define RECOVER_QUIET_NS (10 * NSEC_PER_SEC)

COUNTER(cnt_recovered, "mlx4.recoveries", "times that a failed device was brought up again");
COUNTER(cnt_recover_failed, "mlx4.recoveries_failed", "attempts at it that failed");

static uint32_t reset_wait_ms = RESET_WAIT_AUTO;
BOOT_PARAM("mlx4.reset_wait", u32, reset_wait_ms,
	   "milliseconds of silence after a reset (default: 1000 on a board, 0 on the model)");

/* --- reset --------------------------------------------------------------------------- */

static int owner_take(struct mlx4_dev *dev)
{
	if (dev->regs->read(dev, MLX4_OWNER)) {
		/* A driver that did not let go: the one of a kernel that was reset under it. */
		pr_info("%s: taking the device over from an earlier owner\n", dev->name);
	}
	dev->owner = true;
	return 0;
}

static int semaphore_take(struct mlx4_dev *dev)
{
	const uint64_t deadline = time_now_ns() + SEM_TIMEOUT_NS;

	while (dev->regs->read(dev, MLX4_SEMAPHORE)) {
		if (time_now_ns() > deadline)
			return -ETIMEDOUT;
		thread_sleep_ns(NSEC_PER_MSEC);
	}
	return 0;
}

/* How long a reset device is left alone: boards need it. */
static uint64_t reset_silence_ns(const struct mlx4_dev *dev)
{
	if (reset_wait_ms != RESET_WAIT_AUTO)
		return reset_wait_ms * NSEC_PER_MSEC;
	return dev->hints & MLX4_HINT_EMULATED ? 0 : RESET_SILENCE_NS;
}

int mlx4_reset(struct mlx4_dev *dev)
{
	const uint64_t silence = reset_silence_ns(dev);
	uint64_t deadline;
	int err;

	if (pci_cfg_read16(dev->pci, PCI_CFG_VENDOR) != pci_vendor_id(dev->pci)) {
		pr_err("%s: it has gone from the bus\n", dev->name);
		return -ENODEV;
	}
	err = owner_take(dev);
	if (err)
		return err;
	pci_state_save(dev->pci);
	err = semaphore_take(dev);
	if (err) {
		pr_err("%s: semaphore is taken\n", dev->name);
		return err;
	}
	dev->regs->write(dev, MLX4_RESET, MLX4_RESET_VAL);
	if (silence)
		thread_sleep_ns(silence);
	deadline = time_now_ns() + RESET_TIMEOUT_NS;
	while (pci_cfg_read16(dev->pci, PCI_CFG_VENDOR) != pci_vendor_id(dev->pci)) {
		if (time_now_ns() > deadline) {
			pr_err("%s: does not come back from reset\n", dev->name);
			return -ETIMEDOUT;
		}
		thread_sleep_ns(NSEC_PER_MSEC);
	}
	pci_state_restore(dev->pci);
	/* Reset gives the ownership away: take it for good. */
	(void)dev->regs->read(dev, MLX4_OWNER);
	return 0;
}

/* --- verbs and recovery -------------------------------------------------------------- */

static bool is_recoverer(struct mlx4_dev *dev)
{
	return __atomic_load_n(&dev->recoverer, __ATOMIC_RELAXED) == thread_current();
}

void mlx4_enter(struct mlx4_dev *dev)
	__no_lock_analysis("the recovering thread has life for writing")
{
	if (!is_recoverer(dev))
		rwsem_read_lock(&dev->life);
}

void mlx4_leave(struct mlx4_dev *dev) __no_lock_analysis("see mlx4_enter()")
{
	if (!is_recoverer(dev))
		rwsem_read_unlock(&dev->life);
}

/* --- recovery ------------------------------------------------------------------------ */

/* Nothing of the device's is running or under way on our side after this. */
static void quiesce(struct mlx4_dev *dev)
{
	mlx4_catas_watch(dev, false);
	mlx4_eqs_suspend(dev);
	mlx4_ports_close(dev);
	dev->ring_tail = __atomic_load_n(&dev->ring_head, __ATOMIC_ACQUIRE);
	dev->hca_up = false;
	dev->special_up = false;
	/* From here on no queue pair that there is counts as one of the device's. */
	WRITE_ONCE(dev->nr_lives, dev->nr_lives + 1);
}

static int bring_back(struct mlx4_dev *dev)
{
	int err;

	err = mlx4_reset(dev);
	if (err)
		return err;
	mlx4_cmd_restart(dev);
	pci_set_master(dev->pci, true);
	ASSERT(atomic_read(&dev->state) == MLX4_DEAD);
	atomic_set(&dev->state, MLX4_RECOVERING);
	err = mlx4_hca_restore(dev);
	if (!err)
		err = mlx4_mrs_restore(dev);
	if (!err)
		err = mlx4_cqs_restore(dev);
	if (!err)
		err = mlx4_ports_open(dev);
	if (!err && atomic_cmpxchg(&dev->state, MLX4_RECOVERING, MLX4_UP) != MLX4_RECOVERING)
		err = -EIO; /* it failed again meanwhile */
	if (err && atomic_xchg(&dev->state, MLX4_DEAD) != MLX4_DEAD)
		pci_set_master(dev->pci, false);
	return err;
}

static void tell_up(struct mlx4_dev *dev)
{
	struct rdma_event ev = { .type = RDMA_EVENT_DEVICE_UP, .dev = &dev->rdma };

	dev->dead_told = false;
	wake_all(&dev->event_wq); /* threads that wait to make an object */
	mlx4_catas_watch(dev, true);
	mlx4_cqs_wake(dev); /* users that armed one while the device was dead arm it again */
	rdma_event_dispatch(&ev);
	ev.type = RDMA_EVENT_PORT_ACTIVE;
	for (unsigned int n = 0; n < dev->caps.nr_ports; n++) {
		struct rdma_port_attr attr;

		ev.port = dev->ports[n].num;
		if (mlx4_port_attr(&dev->rdma, ev.port, &attr) == 0 &&
		    attr.state == RDMA_PORT_ACTIVE)
			rdma_event_dispatch(&ev);
	}
}

static void give_up(struct mlx4_dev *dev, int err)
{
	WRITE_ONCE(dev->given_up, true);
	wake_all(&dev->event_wq); /* threads that wait to make an object */
	pr_err("%s: given up: it cannot be brought up again: error %d\n", dev->name, err);
}

/* Before the next try; ends early when the driver is to stop. */
static void pause_after_failure(struct mlx4_dev *dev)
{
	const uint64_t pause = RECOVER_PAUSE_NS << MIN(dev->nr_failures, RECOVER_TRIES);

	(void)wait_event_timeout(&dev->event_wq, atomic_read(&dev->stop), time_now_ns() + pause);
}

void mlx4_recover(struct mlx4_dev *dev)
{
	const uint64_t start = time_now_ns();
	int err;

	if (dev->up_since_ns && start - dev->up_since_ns > RECOVER_QUIET_NS)
		dev->nr_failures = 0;
	if (dev->nr_failures++ == RECOVER_TRIES) {
		give_up(dev, -EIO);
		return;
	}

	rwsem_write_lock(&dev->life);
	__atomic_store_n(&dev->recoverer, thread_current(), __ATOMIC_RELAXED);
	quiesce(dev);
	err = bring_back(dev);
	__atomic_store_n(&dev->recoverer, NULL, __ATOMIC_RELAXED);
	rwsem_write_unlock(&dev->life);

	if (!err) {
		dev->up_since_ns = time_now_ns();
		counter_inc(&cnt_recovered);
		pr_info("%s: recovered, up again after %lu ms\n", dev->name,
			(unsigned long)((dev->up_since_ns - start) / NSEC_PER_MSEC));
		tell_up(dev);
		return;
	}
	counter_inc(&cnt_recover_failed);
	if (err == -ENODEV)
		give_up(dev, err);
	else
		pause_after_failure(dev);
}
