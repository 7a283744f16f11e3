/* SPDX-License-Identifier: MIT */
/*
 * Intel gigabit cards, 82540EM (e1000) and 82574L (e1000e): found, opened, interrupted.
 *
 * Flow:	probe resets the card, reads its address, and registers it; open tells it its rings
 *		(e1000_ring.c) and starts it; close resets it. An interrupt switches the card's
 *		interrupts off and wakes the user, who polls and then arms them again.
 * Context:	probe, open, close, set_filter: threads. The interrupt handler wakes and reads two
 *		registers.
 * Locking:	state_lock orders open, close and filter; the rings have locks of their own.
 * Ordering:	arm() enables interrupts, then looks at the rings: whatever the card writes later
 *		interrupts.
 * Failure:	a card that breaks its contract is fenced: it may not write memory any more, and is
 *		reset by the next close.
 * See:		docs/drivers/net.md
 */
#define PR_FMT "e1000: "

#include "e1000.h"

#include <drivers/pci.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/random.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#define VENDOR_INTEL 0x8086
#define POOL_BUFFERS (2 * E1000_RING) /* the ring, and as many with the user */
#define BAR          0u
#define RX_CAUSES    (E1000_ICR_RXT0 | E1000_ICR_RXDMT0 | E1000_ICR_RXO | E1000_ICR_LSC)
#define MSIX_CAUSES  (E1000_ICR_RXQ0 | E1000_ICR_OTHER | E1000_ICR_LSC)

struct e1000 {
	struct netdev nd;
	struct pci_device *pci;  /* const */
	enum e1000_model model;  /* const */
	bool msix;               /* const once registered */
	void __iomem *regs;      /* const */
	struct mutex state_lock; /* RANK_DRIVER */
	struct net_pool pool;
	struct e1000_rings rings;
};

static void e1000_fence(struct e1000_rings *r, const char *why)
{
	struct e1000 *e = container_of(r, struct e1000, rings);

	if (__atomic_exchange_n(&r->dead, true, __ATOMIC_ACQ_REL))
		return;
	pci_set_master(e->pci, false);
	pr_err("%s %s: fenced\n", e->nd.name, why);
}

/* Was it this card? */
static bool e1000_interrupt(void *arg)
{
	struct e1000 *e = arg;
	const struct netdev_user *user = READ_ONCE(e->nd.user);
	const uint32_t enabled = e->msix ? UINT32_MAX : e1000_read(e->regs, E1000_IMS);
	uint32_t causes;

	if (!enabled)
		return false; /* another device of the line */
	e1000_write(e->regs, E1000_IMC, UINT32_MAX);
	causes = e1000_read(e->regs, E1000_ICR);
	if (!(causes & enabled)) {
		if (!e->msix)
			e1000_write(e->regs, E1000_IMS, enabled);
		return false;
	}
	if (!user)
		return true;
	if (causes & E1000_ICR_LSC) {
		WRITE_ONCE(e->nd.link_up,
			   !READ_ONCE(e->rings.dead) && e1000_hw_link_is_up(e->regs));
		user->link_changed(&e->nd);
	}
	user->wake(&e->nd, 0);
	return true;
}

static void e1000_msix_interrupt(unsigned int vector, void *arg)
{
	(void)vector;
	(void)e1000_interrupt(arg);
}

/* --- the table of operations --------------------------------------------------------- */

static int e1000_open(struct netdev *nd)
{
	struct e1000 *e = nd->driver;
	int err;

	mutex_lock(&e->state_lock);
	err = e1000_hw_reset(e->regs, e->model);
	if (!err) {
		pci_set_master(e->pci, true);
		e1000_hw_start(e->regs, e->model, &e->rings, nd->addr);
		if (e->msix) {
			const uint32_t ext = e1000_read(e->regs, E1000_CTRL_EXT);

			e1000_write(e->regs, E1000_CTRL_EXT, ext | E1000_CTRL_EXT_PBA_SUPPORT);
			e1000_write(e->regs, E1000_IVAR, E1000_IVAR_ALL_TO_0);
		}
		e1000_rings_start(&e->rings);
		WRITE_ONCE(nd->link_up, e1000_hw_link_is_up(e->regs));
	}
	mutex_unlock(&e->state_lock);
	return err;
}

/* The card does nothing any more, and what it had comes back. */
static void stop_locked(struct e1000 *e)
{
	assert_mutex_held(&e->state_lock);
	WRITE_ONCE(e->rings.dead, true);
	if (e1000_hw_reset(e->regs, e->model))
		pr_err("%s: does not end a reset\n", pci_name(e->pci));
	pci_set_master(e->pci, false);
	e1000_rings_bury(&e->rings);
}

static void e1000_close(struct netdev *nd)
{
	struct e1000 *e = nd->driver;

	mutex_lock(&e->state_lock);
	stop_locked(e);
	mutex_unlock(&e->state_lock);
}

static int e1000_transmit(struct netdev *nd, unsigned int queue, const struct net_tx *tx)
{
	struct e1000 *e = nd->driver;

	return e1000_rings_transmit(&e->rings, tx);
}

static void e1000_kick(struct netdev *nd, unsigned int queue)
{
	struct e1000 *e = nd->driver;

	e1000_rings_kick(&e->rings);
}

static unsigned int e1000_poll(struct netdev *nd, unsigned int queue, unsigned int budget)
{
	struct e1000 *e = nd->driver;

	return e1000_rings_poll(&e->rings, budget);
}

static bool e1000_arm(struct netdev *nd, unsigned int queue)
{
	struct e1000 *e = nd->driver;
	uint32_t causes = e->msix ? MSIX_CAUSES : RX_CAUSES;

	if (e1000_rings_wants_tx(&e->rings))
		causes |= e->msix ? E1000_ICR_TXQ0 : E1000_ICR_TXDW;
	if (!READ_ONCE(e->rings.dead))
		e1000_write(e->regs, E1000_IMS, causes);
	return e1000_rings_pending(&e->rings);
}

static int e1000_set_filter(struct netdev *nd, const struct net_filter *filter)
{
	struct e1000 *e = nd->driver;
	int err = 0;

	mutex_lock(&e->state_lock);
	if (READ_ONCE(e->rings.dead))
		err = -EIO;
	else
		e1000_hw_set_filter(e->regs, filter);
	mutex_unlock(&e->state_lock);
	return err;
}

static void e1000_stats(struct netdev *nd, struct netdev_stats *out)
{
	const struct e1000 *e = nd->driver;

	*out = e->rings.stats;
}

static const struct netdev_ops e1000_ops = {
	.open = e1000_open,
	.close = e1000_close,
	.transmit = e1000_transmit,
	.kick = e1000_kick,
	.poll = e1000_poll,
	.arm = e1000_arm,
	.set_filter = e1000_set_filter,
	.stats = e1000_stats,
};

/* --- finding ------------------------------------------------------------------------- */

/* MSI-X where the card has it, or its interrupt line. */
static int request_interrupt(struct e1000 *e)
{
	int err;

	if (e->model == E1000_82540EM)
		return pci_intx_request(e->pci, e1000_interrupt, e);
	err = pci_msix_enable(e->pci);
	if (err < 0)
		return err;
	err = pci_msix_request(e->pci, 0, 0, e1000_msix_interrupt, e, "e1000e");
	if (err)
		pci_msix_disable(e->pci);
	e->msix = !err;
	return err;
}

static void release_interrupt(struct e1000 *e)
{
	if (e->msix)
		pci_msix_disable(e->pci);
	else
		pci_intx_free(e->pci);
}

static void describe(struct e1000 *e)
{
	struct netdev *nd = &e->nd;

	nd->ops = &e1000_ops;
	nd->driver = e;
	nd->driver_name = e->model == E1000_82574L ? "e1000e" : "e1000";
	nd->mtu = NET_MTU_DEFAULT;
	nd->nr_queues = 1;
	nd->features = NETDEV_TX_CSUM | NETDEV_RX_CSUM;
	if (e1000_hw_read_addr(e->regs, e->model, nd->addr)) {
		random_bytes(nd->addr, sizeof(nd->addr));
		/* Locally administered, of one station. */
		nd->addr[0] = (uint8_t)((nd->addr[0] & 0xfc) | 2);
		pr_warn("%s: has no address of its own\n", pci_name(e->pci));
	}
}

/* Buffers and rings. -ENOMEM */
static int make_rings(struct e1000 *e)
{
	int err = net_pool_init(&e->pool, POOL_BUFFERS);

	if (err)
		return err;
	e->rings.nd = &e->nd;
	e->rings.regs = e->regs;
	e->rings.pool = &e->pool;
	e->rings.fence = e1000_fence;
	err = e1000_rings_init(&e->rings);
	if (err)
		net_pool_destroy(&e->pool);
	return err;
}

static int bring_up(struct e1000 *e)
{
	int err;

	pci_enable(e->pci);
	pci_set_master(e->pci, false);
	e->regs = pci_bar_map(e->pci, BAR, 0, E1000_REGS_LEN);
	if (IS_ERR(e->regs))
		return (int)PTR_ERR(e->regs);
	err = e1000_hw_reset(e->regs, e->model);
	if (err)
		return err;
	describe(e);
	err = make_rings(e);
	if (err)
		return err;
	err = request_interrupt(e);
	if (err)
		goto out_rings;
	err = netdev_register(&e->nd);
	if (err)
		goto out_interrupt;
	return 0;

out_interrupt:
	release_interrupt(e);
out_rings:
	e1000_rings_free(&e->rings);
	net_pool_destroy(&e->pool);
	return err;
}

static int e1000_probe(struct pci_device *pci, const struct pci_id *id)
{
	struct e1000 *e = kzalloc(sizeof(*e));
	int err;

	if (!e)
		return -ENOMEM;
	e->pci = pci;
	e->model = id->device == 0x10d3 ? E1000_82574L : E1000_82540EM;
	mutex_init(&e->state_lock, "e1000", RANK_DRIVER);
	err = bring_up(e);
	if (err) {
		kfree(e);
		return err;
	}
	pr_info("%s: %s, %02x:%02x:%02x:%02x:%02x:%02x, mtu %u\n", e->nd.name, e->nd.driver_name,
		e->nd.addr[0], e->nd.addr[1], e->nd.addr[2], e->nd.addr[3], e->nd.addr[4],
		e->nd.addr[5], e->nd.mtu);
	return 0;
}

static const struct pci_id e1000_ids[] = {
	{ VENDOR_INTEL, 0x100e }, /* 82540EM */
	{ VENDOR_INTEL, 0x10d3 }, /* 82574L */
	{ 0, 0 },
};
static const struct pci_driver e1000_driver = {
	.name = "e1000",
	.ids = e1000_ids,
	.probe = e1000_probe,
};
PCI_DRIVER(e1000_driver);
