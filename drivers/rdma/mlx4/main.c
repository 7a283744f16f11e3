/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: probe, bring-up, tear-down, and the restart after a reset.
 *
 * Flow:	reset, QUERY_FW, firmware memory, RUN_FW, QUERY_DEV_CAP, QUERY_PORT, context
 *		memory, INIT_HCA, event queues, interrupt test, ports, registration with the
 *		verbs core.  A restart repeats these commands with the memory that is there
 *		already.
 * Context:	boot thread; the device's thread for the restart.
 * Failure:	each step undoes itself; mlx4_hca_down() looks at what is up and takes it down.
 *		A device that describes itself differently at a restart is refused, because
 *		everything was laid out after its first answer.
 */
#include <arch/cpu.h>
#include <arch/io.h>
#include <kernel/bootparam.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "hw.h"
#include "mlx4.h"

#define PR_FMT "mlx4: "
#include <kernel/printk.h>
#include <kernel/random.h>

static uint32_t wish_qps = 14, wish_cqs = 12, wish_mrs = 14, wish_mtts = 18;
BOOT_PARAM_RANGE("mlx4.log_qps", u32, wish_qps, 0, 24, "log2 of the number of queue pairs");
BOOT_PARAM_RANGE("mlx4.log_cqs", u32, wish_cqs, 0, 24, "log2 of the number of completion queues");
BOOT_PARAM_RANGE("mlx4.log_mrs", u32, wish_mrs, 0, 24, "log2 of the number of memory regions");
BOOT_PARAM_RANGE("mlx4.log_mtts", u32, wish_mtts, 0, 28,
		 "log2 of the number of translation entries");

/* --- registers ----------------------------------------------------------------------- */

static uint32_t bar0_read(struct mlx4_dev *dev, uint32_t off)
{
	return mmio_read32be((uint8_t __iomem *)dev->bar0 + off);
}

static void bar0_write(struct mlx4_dev *dev, uint32_t off, uint32_t val)
{
	mmio_write32be((uint8_t __iomem *)dev->bar0 + off, val);
}

static const struct mlx4_reg_ops bar0_ops = {
	.read = bar0_read,
	.write = bar0_write,
};

/* --- bring-up ------------------------------------------------------------------------ */

static int query(struct mlx4_dev *dev, uint16_t op, uint32_t in_mod, struct mlx4_mbox *mbox)
{
	int err;

	err = mlx4_mbox_get(mbox);
	if (err)
		return err;
	err = mlx4_cmd_out(dev, op, 0, in_mod, mbox);
	if (err)
		mlx4_mbox_put(mbox);
	return err;
}

static int fw_start(struct mlx4_dev *dev)
{
	struct mlx4_mbox mbox;
	const char *why = "";
	int err;

	err = query(dev, CMD_QUERY_FW, 0, &mbox);
	if (err)
		return err;
	err = mlx4_fw_parse(mbox.virt, &dev->fw, &why);
	mlx4_mbox_put(&mbox);
	if (err) {
		pr_err("%s: firmware: %s\n", dev->name, why);
		return err;
	}
	pr_info("%s: firmware %u.%u.%u\n", dev->name, dev->fw.major, dev->fw.minor,
		dev->fw.subminor);

	if (dev->fw_mapped) /* before the reset: the device has forgotten it */
		mlx4_mem_free(&dev->fw_mem);
	dev->fw_mapped = false;
	err = mlx4_mem_alloc(&dev->fw_mem, (uint64_t)dev->fw.nr_pages * MLX4_PAGE_LEN);
	if (err)
		return err;
	dev->fw_mapped = true;
	err = mlx4_mem_map(dev, CMD_MAP_FA, &dev->fw_mem, 0);
	if (err)
		return err;
	return mlx4_cmd_none(dev, CMD_RUN_FW, 0, 0);
}

/* Ask for a log of pages of 4 KiB; firmware that cannot does so anyway. */
static void mod_stat_cfg(struct mlx4_dev *dev)
{
	struct mlx4_hw_mod_stat_cfg *cfg;
	struct mlx4_mbox mbox;

	if (mlx4_mbox_get(&mbox))
		return;
	cfg = mbox.virt;
	cfg->set_log_page = 1;
	cfg->log_page = 0;
	if (mlx4_cmd_in(dev, CMD_MOD_STAT_CFG, 0, 0, &mbox))
		pr_warn("%s: page size of the log cannot be set\n", dev->name);
	mlx4_mbox_put(&mbox);
}

static int ports_query(struct mlx4_dev *dev)
{
	struct mlx4_mbox mbox;

	for (unsigned int n = 0; n < dev->caps.nr_ports; n++) {
		struct mlx4_port *port = &dev->ports[n];
		int err = query(dev, CMD_QUERY_PORT, n + 1, &mbox);

		if (err)
			return err;
		mlx4_port_caps_parse(mbox.virt, &port->caps);
		mlx4_mbox_put(&mbox);
	}
	return 0;
}

static int caps_query(struct mlx4_dev *dev)
{
	struct mlx4_mbox mbox;
	const char *why = "";
	int err;

	err = query(dev, CMD_QUERY_DEV_CAP, 0, &mbox);
	if (err)
		return err;
	err = mlx4_caps_parse(mbox.virt, &dev->caps, &why);
	memcpy(dev->caps_raw, mbox.virt, sizeof(dev->caps_raw));
	mlx4_mbox_put(&mbox);
	if (err) {
		pr_err("%s: device capabilities: bad %s\n", dev->name, why);
		dev->caps.nr_ports = 0;
		return err;
	}
	for (unsigned int n = 0; n < dev->caps.nr_ports; n++) {
		struct mlx4_port *port = &dev->ports[n];

		port->num = (uint8_t)(n + 1);
		spin_lock_init(&port->lock, "mlx4_port", RANK_SPIN_DRIVER);
		port->attr.state = RDMA_PORT_DOWN;
	}
	return ports_query(dev);
}

static int caps_compare(struct mlx4_dev *dev)
{
	struct mlx4_mbox mbox;
	bool same;
	int err;

	err = query(dev, CMD_QUERY_DEV_CAP, 0, &mbox);
	if (err)
		return err;
	same = memcmp(dev->caps_raw, mbox.virt, sizeof(dev->caps_raw)) == 0;
	mlx4_mbox_put(&mbox);
	if (!same) {
		pr_err("%s: device capabilities: not those of before the reset\n", dev->name);
		return -EPROTO;
	}
	return ports_query(dev);
}

static uint8_t log2_up(uint32_t v)
{
	return v <= 1 ? 0 : (uint8_t)(32 - __builtin_clz(v - 1));
}

static int profile_choose(struct mlx4_dev *dev)
{
	const uint32_t first_eq =
		MAX(1U << dev->caps.log_reserved_eqs, 4 * dev->caps.reserved_uars);
	const struct mlx4_wish wish = {
		.log_qps = (uint8_t)wish_qps,
		.log_cqs = (uint8_t)wish_cqs,
		.log_mpts = (uint8_t)wish_mrs,
		.log_mtts = (uint8_t)wish_mtts,
		.log_eqs =
			log2_up(first_eq + 1 + MIN(cpu_online_count(), (unsigned int)MAX_COMP_EQS)),
	};
	int err;

	err = mlx4_profile_make(&dev->caps, &wish, &dev->prof);
	if (err)
		pr_err("%s: context memory of the device is too small\n", dev->name);
	return err;
}

static int tables_init(struct mlx4_dev *dev)
{
	const struct mlx4_profile *p = &dev->prof;
	const struct mlx4_caps *c = &dev->caps;
	/* The special queue pairs: eight numbers, aligned, just above the reserved ones. */
	const uint32_t special = ALIGN_UP(1U << c->log_reserved_qps, 8U);
	const uint32_t nr_pds = 1U << MIN(c->log_max_pds, (uint8_t)16);
	int err;

	dev->special_qpn = special;
	err = mlx4_ids_init(&dev->qpns, special + 8, 1U << p->log_qps);
	if (!err)
		err = mlx4_ids_init(&dev->cqns, 1U << c->log_reserved_cqs, 1U << p->log_cqs);
	if (!err)
		err = mlx4_ids_init(&dev->mpts, 1U << c->log_reserved_mrws, 1U << p->log_mpts);
	if (!err)
		mlx4_ids_begin_at(&dev->mpts, (uint32_t)random_u64());
	if (!err)
		err = mlx4_ids_init(&dev->pdns, MAX(c->reserved_pds, 1U), nr_pds);
	if (!err)
		err = mlx4_buddy_init(&dev->mtts, p->log_mtts);
	if (!err)
		err = mlx4_table_init(&dev->qps, 1U << p->log_qps);
	if (!err)
		err = mlx4_table_init(&dev->cqs, 1U << p->log_cqs);
	/* The firmware's own translation entries are the first ones. */
	if (!err && mlx4_buddy_get(&dev->mtts, c->log_reserved_mtts) != 0)
		err = -ENOSPC;
	return err;
}

static int icm_aux_lend(struct mlx4_dev *dev)
{
	uint64_t aux_pages = 0;
	const struct mlx4_cmd_args args = { .op = CMD_SET_ICM_SIZE,
					    .in = dev->prof.icm_len,
					    .imm = &aux_pages };
	int err;

	err = mlx4_cmd(dev, &args);
	if (err)
		return err;
	if (aux_pages > (1U << 20)) {
		pr_err("%s: firmware asks for too much auxiliary memory\n", dev->name);
		return -EPROTO;
	}
	if (dev->aux_mapped)
		mlx4_mem_free(&dev->aux_mem);
	dev->aux_mapped = false;
	err = mlx4_mem_alloc(&dev->aux_mem, aux_pages * MLX4_PAGE_LEN);
	if (err)
		return err;
	dev->aux_mapped = true;
	return mlx4_mem_map(dev, CMD_MAP_ICM_AUX, &dev->aux_mem, 0);
}

static int hca_init(struct mlx4_dev *dev)
{
	struct mlx4_mbox mbox;
	int err;

	err = mlx4_mbox_get(&mbox);
	if (err)
		return err;
	mlx4_init_hca_fill(&dev->prof, mbox.virt);
	err = mlx4_cmd_in(dev, CMD_INIT_HCA, 0, 0, &mbox);
	mlx4_mbox_put(&mbox);
	dev->hca_up = !err;
	return err;
}

static int uars_map(struct mlx4_dev *dev)
{
	const uint32_t index = MAX((uint32_t)UAR_FIRST_KERNEL, dev->caps.reserved_uars);

	if ((uint64_t)(index + 1) * MLX4_PAGE_LEN >
	    MIN(dev->caps.uar_len, pci_bar_len(dev->pci, 2)))
		return -ENOSPC;
	dev->uars = pci_bar_map(dev->pci, 2, 0, (uint64_t)(index + 1) * MLX4_PAGE_LEN);
	if (IS_ERR(dev->uars)) {
		const int err = (int)PTR_ERR(dev->uars);

		dev->uars = NULL;
		return err;
	}
	dev->uar_index = index;
	dev->uar = (uint8_t __iomem *)dev->uars + (size_t)index * MLX4_PAGE_LEN;
	mlx4_bf_open(dev);
	return 0;
}

static int mlx4_hca_up(struct mlx4_dev *dev)
{
	int err;

	err = fw_start(dev);
	if (err)
		return err;
	mod_stat_cfg(dev);
	err = caps_query(dev);
	if (!err)
		err = profile_choose(dev);
	if (!err)
		err = tables_init(dev);
	if (!err)
		err = icm_aux_lend(dev);
	if (!err)
		err = mlx4_icm_init(dev);
	if (!err)
		err = hca_init(dev);
	if (!err)
		err = uars_map(dev);
	if (!err)
		err = mlx4_eqs_create(dev);
	if (!err)
		err = mlx4_eqs_test(dev);
	if (!err)
		err = mlx4_cmd_none(dev, CMD_CONF_SPECIAL_QP, 0, dev->special_qpn);
	dev->special_up = !err;
	if (!err)
		err = mlx4_event_thread_start(dev);
	if (!err)
		err = mlx4_ports_open(dev);
	return err;
}

int mlx4_hca_restore(struct mlx4_dev *dev)
{
	int err;

	err = fw_start(dev);
	if (err)
		return err;
	mod_stat_cfg(dev);
	err = caps_compare(dev);
	if (!err)
		err = icm_aux_lend(dev);
	if (!err)
		err = mlx4_icm_restore(dev);
	if (!err)
		err = hca_init(dev);
	if (!err)
		err = mlx4_eqs_resume(dev);
	if (!err)
		err = mlx4_eqs_test(dev);
	if (!err)
		err = mlx4_cmd_none(dev, CMD_CONF_SPECIAL_QP, 0, dev->special_qpn);
	dev->special_up = !err;
	return err;
}

static void mem_return(struct mlx4_dev *dev, bool *mapped, uint16_t op, struct mlx4_mem *mem)
{
	if (!*mapped)
		return;
	/* A device that will not give it back has lost its right to write anyway. */
	if (mlx4_cmd_none(dev, op, 0, 0) && !mlx4_is_dead(dev))
		mlx4_fatal(dev, "memory could not be taken back");
	mlx4_mem_free(mem);
	*mapped = false;
}

/* Take down all below the verbs that is up; safe after a bring-up that failed half-way. */
static void mlx4_hca_down(struct mlx4_dev *dev)
{
	/* The thread serves QP0: it ends before that goes. */
	mlx4_event_thread_stop(dev);
	mlx4_ports_close(dev);
	if (dev->special_up && mlx4_cmd_none(dev, CMD_CONF_SPECIAL_QP, 0, 0) && !mlx4_is_dead(dev))
		pr_warn("%s: special queue pairs stay\n", dev->name);
	dev->special_up = false;
	mlx4_eqs_destroy(dev);
	if (dev->hca_up && mlx4_cmd_none(dev, CMD_CLOSE_HCA, 0, 0) && !mlx4_is_dead(dev))
		mlx4_fatal(dev, "HCA does not close");
	dev->hca_up = false;
	if (dev->icm_up)
		mlx4_icm_destroy(dev);
	mem_return(dev, &dev->aux_mapped, CMD_UNMAP_ICM_AUX, &dev->aux_mem);
	mem_return(dev, &dev->fw_mapped, CMD_UNMAP_FA, &dev->fw_mem);
	mlx4_db_destroy_all(dev);
	mlx4_table_destroy(&dev->qps);
	mlx4_table_destroy(&dev->cqs);
	mlx4_ids_destroy(&dev->qpns);
	mlx4_ids_destroy(&dev->cqns);
	mlx4_ids_destroy(&dev->mpts);
	mlx4_ids_destroy(&dev->pdns);
	mlx4_buddy_destroy(&dev->mtts);
	mlx4_bf_close(dev);
	if (dev->uars)
		mmio_unmap(dev->uars);
	dev->uars = NULL;
}

/* --- probe --------------------------------------------------------------------------- */

static void dev_free(struct mlx4_dev *dev)
{
	if (dev->owner && !mlx4_is_dead(dev))
		dev->regs->write(dev, MLX4_OWNER, 0);
	pci_set_master(dev->pci, false);
	mlx4_cmd_destroy(dev);
	if (dev->bar0)
		mmio_unmap(dev->bar0);
	kfree(dev);
}

/* The hints that the model gives about itself; a board gives none. */
static uint32_t hints_read(const struct pci_device *pci)
{
	uint32_t hints = 0;

	for (unsigned int pos = 0; (pos = pci_cap_find(pci, PCI_CAP_VENDOR, pos)) != 0;) {
		uint8_t cap[MLX4_HINT_LEN];

		for (unsigned int n = 0; n < sizeof(cap); n++)
			cap[n] = pos + n < 256 ? pci_cfg_read8(pci, pos + n) : 0;
		hints |= mlx4_hint_parse(cap);
	}
	return hints;
}

/* A device may fail while the state of its ports is read: then its thread resets it. */
static void say_up(const struct mlx4_dev *dev, uint64_t start)
{
	const unsigned long ms = (unsigned long)((time_now_ns() - start) / NSEC_PER_MSEC);

	if (mlx4_is_dead(dev))
		pr_warn("%s: %s failed while it came up, after %lu ms\n", dev->name,
			rdma_device_name(&dev->rdma), ms);
	else
		pr_info("%s: %s is up after %lu ms\n", dev->name, rdma_device_name(&dev->rdma), ms);
}

static int mlx4_probe(struct pci_device *pci, const struct pci_id *id)
{
	const uint64_t start = time_now_ns();
	struct mlx4_dev *dev = kzalloc(sizeof(*dev));
	int err;

	if (!dev)
		return -ENOMEM;
	dev->pci = pci;
	dev->name = pci_name(pci);
	dev->rdma.ops = &mlx4_rdma_ops;
	dev->regs = &bar0_ops;
	spin_lock_init(&dev->table_lock, "mlx4_table", RANK_SPIN_RDMA);
	list_init(&dev->db_pages);
	list_init(&dev->mrs);
	rwsem_init(&dev->life, "mlx4_life", RANK_RDMA_DEVICE);
	waitqueue_init(&dev->event_wq);
	err = mlx4_cmd_init(dev);
	if (err)
		goto out_free;

	dev->hints = hints_read(pci);
	if (dev->hints & MLX4_HINT_ONE_AT_ONCE)
		mmio_lock_ask(dev->name);
	pci_enable(pci);
	pci_set_master(pci, true);
	dev->bar0 = pci_bar_map(pci, 0, 0, MLX4_BAR0_LEN);
	if (IS_ERR(dev->bar0)) {
		err = (int)PTR_ERR(dev->bar0);
		dev->bar0 = NULL;
		goto out_free;
	}
	err = mlx4_reset(dev);
	if (err)
		goto out_free;
	err = mlx4_hca_up(dev);
	if (err)
		goto out_down;
	err = rdma_device_register(&dev->rdma, "mlx4");
	if (err)
		goto out_down;
	pci_set_drvdata(pci, dev);
	WRITE_ONCE(dev->registered, true);
	wake_all(&dev->event_wq); /* it may have failed meanwhile */
	say_up(dev, start);
	return 0;

out_down:
	mlx4_hca_down(dev);
out_free:
	dev_free(dev);
	return err;
}

static void mlx4_remove(struct pci_device *pci)
{
	struct mlx4_dev *dev = pci_drvdata(pci);

	/* Our own objects first: the core insists that nobody uses the device any more. */
	WRITE_ONCE(dev->registered, false);
	mlx4_event_thread_stop(dev);
	mlx4_ports_close(dev);
	rdma_device_unregister(&dev->rdma);
	mlx4_hca_down(dev);
	dev_free(dev);
	pci_set_drvdata(pci, NULL);
}

static const struct pci_id mlx4_ids[] = {
	{ MLX4_VENDOR, 0x1003 }, /* ConnectX-3 */
	{ MLX4_VENDOR, 0x1007 }, /* ConnectX-3 Pro */
	{ 0, 0 },
};

static const struct pci_driver mlx4_driver = {
	.name = "mlx4",
	.ids = mlx4_ids,
	.probe = mlx4_probe,
	.remove = mlx4_remove,
};
PCI_DRIVER(mlx4_driver);
