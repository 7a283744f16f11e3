/* SPDX-License-Identifier: MIT */
/*
 * virtio network devices, named eth0, eth1, ... in bus order.
 *
 * Flow:	probe brings the device up as far as its queues, reads what it is, and registers it;
 *		open gives it buffers and starts it; close resets it, and the next open brings it up
 *		again. virtio_net_queue.c has the data path.
 *		Control: one command at a time, from a buffer of its own; the caller waits for the
 *		answer.
 * Context:	probe, open, close and commands: threads. Interrupts only wake the user.
 * Locking:	control_lock orders commands, open and close; the queues have locks of their own.
 * Failure:	a device that breaks its contract, or does not answer a command for 2 s, is fenced.
 *		A command that the device refuses is -EIO, and nothing else changes.
 * See:		docs/drivers/net.md; VIRTIO 1.1, section 5.1
 */
#define PR_FMT "virtio-net: "

#include "virtio_net.h"

#include <arch/cpu.h>
#include <drivers/pci.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/random.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#define QUEUE_SIZE         256u
#define POOL_BUFFERS       (2 * QUEUE_SIZE) /* of one pair: the ring, and as many with the user */
#define CONTROL_QUEUE_SIZE 16u
#define CONTROL_LIMIT_NS   (2 * NSEC_PER_SEC)

/* In DMA memory: one command, its data, and the answer. */
struct control_dma {
	uint8_t class;
	uint8_t command;
	uint8_t answer;
	uint8_t pad[5];
	uint8_t data[8 + VNET_MAX_MACS * NET_ADDR_LEN];
};

struct vnet {
	struct netdev nd;
	struct pci_device *pci;    /* const */
	struct mutex control_lock; /* RANK_DRIVER */
	struct virtio_device *vd;  /* const while up; NULL: down. Changes under control_lock */
	uint64_t features;         /* const while up */
	struct vnet_setup setup;   /* const while up */
	struct virtq *control;     /* const while up; used under control_lock */
	struct control_dma *dma;   /* const; used under control_lock */
	paddr_t dma_paddr;         /* const */
	struct completion answered;
	struct net_pool pool;
	unsigned int nr_pairs; /* const */
	struct vnet_queue queues[VNET_MAX_PAIRS];
};

static void vnet_fence(struct vnet_queue *q, const char *why)
{
	struct vnet *v = q->nd->driver;

	virtio_fence(v->vd, why);
}

/* --- interrupts: also before the device is open, for it may be hostile */

static void vnet_used(struct virtq *vq, void *arg)
{
	struct vnet_queue *q = arg;
	const struct netdev_user *user = READ_ONCE(q->nd->user);

	(void)vq;
	if (user)
		user->wake(q->nd, q->index);
}

static void vnet_answered(struct virtq *vq, void *arg)
{
	struct vnet *v = arg;

	(void)vq;
	complete(&v->answered);
}

static void vnet_read_link(struct vnet *v)
{
	le16_t status = cpu_to_le16(VIRTIO_NET_S_LINK_UP);

	if ((v->features & BIT64(VIRTIO_NET_F_STATUS)) &&
	    virtio_config_read(v->vd, offsetof(struct virtio_net_config, status), &status,
			       sizeof(status)))
		status = cpu_to_le16(0);
	WRITE_ONCE(v->nd.link_up, le16_to_cpu(status) & VIRTIO_NET_S_LINK_UP);
}

static void vnet_config_changed(struct virtio_device *vd)
{
	struct vnet *v = virtio_drvdata(vd);
	const struct netdev_user *user = v ? READ_ONCE(v->nd.user) : NULL;

	if (!user)
		return;
	vnet_read_link(v);
	user->link_changed(&v->nd);
}

/* --- commands */

/* Have the device do a command, whose data is in dma->data. */
static int command_locked(struct vnet *v, uint8_t class, uint8_t command, uint32_t len)
{
	struct virtq_seg segs[3];
	uint32_t used;
	void *token;

	assert_mutex_held(&v->control_lock);
	if (!v->vd || !v->control)
		return -EOPNOTSUPP;
	ASSERT(len <= sizeof(v->dma->data));
	v->dma->class = class;
	v->dma->command = command;
	v->dma->answer = (uint8_t)~VIRTIO_NET_CTRL_OK;
	segs[0] = (struct virtq_seg){ v->dma_paddr, 2 };
	segs[1] = (struct virtq_seg){ v->dma_paddr + offsetof(struct control_dma, data), len };
	segs[2] = (struct virtq_seg){ v->dma_paddr + offsetof(struct control_dma, answer), 1 };
	completion_init(&v->answered);
	if (virtq_add(v->control, segs, 2, 1, v))
		return -EIO;
	virtq_kick(v->control);
	while (!(token = virtq_get(v->control, &used))) {
		if (!completion_wait_until(&v->answered, time_after_ns(CONTROL_LIMIT_NS))) {
			virtio_fence(v->vd, "does not answer a command");
			return -EIO;
		}
	}
	if (IS_ERR(token) || READ_ONCE(v->dma->answer) != VIRTIO_NET_CTRL_OK)
		return -EIO;
	return 0;
}

static int set_flag_locked(struct vnet *v, uint8_t command, bool on)
{
	assert_mutex_held(&v->control_lock);
	v->dma->data[0] = on;
	return command_locked(v, VIRTIO_NET_CTRL_RX, command, 1);
}

/* Two tables: unicast addresses, of which there are none, and multicast ones. */
static int set_macs_locked(struct vnet *v, const struct net_filter *f, unsigned int nr)
{
	const le32_t none = cpu_to_le32(0), count = cpu_to_le32(nr);
	uint8_t *at = v->dma->data;

	assert_mutex_held(&v->control_lock);
	memcpy(at, &none, sizeof(none));
	memcpy(at + 4, &count, sizeof(count));
	if (nr)
		memcpy(at + 8, f->multicast, nr * NET_ADDR_LEN);
	return command_locked(v, VIRTIO_NET_CTRL_MAC, VIRTIO_NET_CTRL_MAC_TABLE_SET,
			      8 + nr * NET_ADDR_LEN);
}

static int vnet_set_filter(struct netdev *nd, const struct net_filter *f)
{
	struct vnet *v = nd->driver;
	const bool too_many = f->nr_multicast > VNET_MAX_MACS;
	int err;

	if (!(v->features & BIT64(VIRTIO_NET_F_CTRL_RX)))
		return -EOPNOTSUPP;
	mutex_lock(&v->control_lock);
	err = set_flag_locked(v, VIRTIO_NET_CTRL_RX_PROMISC, f->promiscuous);
	if (!err)
		err = set_flag_locked(v, VIRTIO_NET_CTRL_RX_ALLMULTI, f->all_multicast || too_many);
	if (!err)
		err = set_macs_locked(v, f, too_many ? 0 : f->nr_multicast);
	mutex_unlock(&v->control_lock);
	return err;
}

/* --- up and down */

static int read_config(struct vnet *v)
{
	struct virtio_net_config cfg;
	unsigned int len = sizeof(cfg);

	memset(&cfg, 0, sizeof(cfg));
	/* Devices end their configuration where their features end. */
	if (!(v->features & BIT64(VIRTIO_NET_F_MTU)))
		len = offsetof(struct virtio_net_config, mtu);
	if (!(v->features & (BIT64(VIRTIO_NET_F_MTU) | BIT64(VIRTIO_NET_F_MQ))))
		len = offsetof(struct virtio_net_config, max_pairs);
	if (!(v->features & BIT64(VIRTIO_NET_F_STATUS)) && len < 10)
		len = offsetof(struct virtio_net_config, status);
	if (v->features & (BIT64(VIRTIO_NET_F_MAC) | BIT64(VIRTIO_NET_F_STATUS) |
			   BIT64(VIRTIO_NET_F_MTU) | BIT64(VIRTIO_NET_F_MQ))) {
		const int err = virtio_config_read(v->vd, 0, &cfg, len);

		if (err)
			return err;
	}
	return vnet_decode_config(&cfg, v->features, cpu_online_count(), &v->setup);
}

static int create_queues(struct vnet *v)
{
	unsigned int nr = v->nr_pairs ? v->nr_pairs : v->setup.pairs;
	int err = 0;

	/* After a reset it may offer fewer pairs than before: then it is not the same device. */
	if (nr > v->setup.pairs)
		return -EIO;
	for (unsigned int i = 0; i < nr && !err; i++) {
		struct vnet_queue *q = &v->queues[i];
		struct virtq *rx, *tx;

		q->nd = &v->nd;
		q->index = i;
		q->features = v->features;
		q->pool = &v->pool;
		q->fence = vnet_fence;
		err = virtq_create(v->vd, 2 * i, QUEUE_SIZE, 1, vnet_used, q, &rx);
		if (!err)
			err = virtq_create(v->vd, 2 * i + 1, QUEUE_SIZE, NET_TX_MAX_SEGS + 1,
					   vnet_used, q, &tx);
		if (!err)
			err = vnet_queue_init(q, rx, tx);
		/* Without indirect tables the longest chain has to fit the ring. */
		if (!err && virtq_size(tx) < NET_TX_MAX_SEGS + 1)
			err = -ENODEV;
	}
	v->control = NULL;
	if (!err && (v->features & BIT64(VIRTIO_NET_F_CTRL_VQ)))
		err = virtq_create(v->vd, 2 * v->setup.max_pairs, CONTROL_QUEUE_SIZE, 3,
				   vnet_answered, v, &v->control);
	if (!err)
		v->nr_pairs = nr;
	return err;
}

static void bring_down_locked(struct vnet *v)
{
	assert_mutex_held(&v->control_lock);
	if (!v->vd)
		return;
	virtio_stop(v->vd);
	for (unsigned int i = 0; i < VNET_MAX_PAIRS; i++) {
		if (v->nd.user && v->queues[i].slots)
			vnet_queue_bury(&v->queues[i]);
		vnet_queue_free(&v->queues[i]);
	}
	virtio_close(v->vd);
	v->vd = NULL;
	v->control = NULL;
}

/* As far as the device's queues: it does nothing before virtio_start(). */
static int bring_up_locked(struct vnet *v)
{
	int err;

	assert_mutex_held(&v->control_lock);
	v->vd = virtio_pci_open_choose(v->pci, "virtio-net", vnet_choose_features,
				       vnet_config_changed);
	if (IS_ERR(v->vd)) {
		err = (int)PTR_ERR(v->vd);
		v->vd = NULL;
		return err;
	}
	v->features = 0;
	for (unsigned int i = 0; i < 64; i++)
		v->features |= virtio_has(v->vd, i) ? BIT64(i) : 0;
	err = read_config(v);
	if (err)
		pr_err("%s: its configuration makes no sense\n", pci_name(v->pci));
	else
		err = create_queues(v);
	if (err) {
		bring_down_locked(v);
		return err;
	}
	virtio_set_drvdata(v->vd, v);
	return 0;
}

static int vnet_open(struct netdev *nd)
{
	struct vnet *v = nd->driver;
	int err = 0;

	mutex_lock(&v->control_lock);
	if (!v->vd)
		err = bring_up_locked(v);
	if (!err)
		err = virtio_start(v->vd);
	for (unsigned int i = 0; i < v->nr_pairs && !err; i++)
		vnet_rx_fill(&v->queues[i]);
	if (!err && v->nr_pairs > 1) {
		const le16_t pairs = cpu_to_le16((uint16_t)v->nr_pairs);

		memcpy(v->dma->data, &pairs, sizeof(pairs));
		err = command_locked(v, VIRTIO_NET_CTRL_MQ, VIRTIO_NET_CTRL_MQ_PAIRS_SET,
				     sizeof(pairs));
	}
	if (!err)
		vnet_read_link(v);
	mutex_unlock(&v->control_lock);
	return err;
}

static void vnet_close(struct netdev *nd)
{
	struct vnet *v = nd->driver;

	mutex_lock(&v->control_lock);
	bring_down_locked(v);
	mutex_unlock(&v->control_lock);
}

/* --- the table of operations */

static int vnet_transmit(struct netdev *nd, unsigned int queue, const struct net_tx *tx)
{
	struct vnet *v = nd->driver;

	return vnet_queue_transmit(&v->queues[queue], tx);
}

static void vnet_kick(struct netdev *nd, unsigned int queue)
{
	struct vnet *v = nd->driver;

	vnet_queue_kick(&v->queues[queue]);
}

static unsigned int vnet_poll(struct netdev *nd, unsigned int queue, unsigned int budget)
{
	struct vnet *v = nd->driver;

	return vnet_queue_poll(&v->queues[queue], budget);
}

static bool vnet_arm(struct netdev *nd, unsigned int queue)
{
	struct vnet *v = nd->driver;

	return vnet_queue_arm(&v->queues[queue]);
}

static void vnet_stats(struct netdev *nd, struct netdev_stats *out)
{
	struct vnet *v = nd->driver;

	for (unsigned int i = 0; i < v->nr_pairs; i++) {
		const struct netdev_stats *s = &v->queues[i].stats;

		out->rx_frames += READ_ONCE(s->rx_frames);
		out->rx_bytes += READ_ONCE(s->rx_bytes);
		out->rx_dropped += READ_ONCE(s->rx_dropped);
		out->tx_frames += READ_ONCE(s->tx_frames);
		out->tx_bytes += READ_ONCE(s->tx_bytes);
		out->tx_full += READ_ONCE(s->tx_full);
	}
}

static const struct netdev_ops vnet_ops = {
	.open = vnet_open,
	.close = vnet_close,
	.transmit = vnet_transmit,
	.kick = vnet_kick,
	.poll = vnet_poll,
	.arm = vnet_arm,
	.set_filter = vnet_set_filter,
	.stats = vnet_stats,
};

/* Fill in what users see. */
static void describe(struct vnet *v)
{
	struct netdev *nd = &v->nd;

	nd->mtu = v->setup.mtu;
	nd->nr_queues = v->nr_pairs;
	memcpy(nd->addr, v->setup.mac, sizeof(nd->addr));
	if (!v->setup.has_mac) {
		random_bytes(nd->addr, sizeof(nd->addr));
		/* Locally administered, of one station. */
		nd->addr[0] = (uint8_t)((nd->addr[0] & 0xfc) | 2);
	}
	if (v->features & BIT64(VIRTIO_NET_F_CSUM))
		nd->features |= NETDEV_TX_CSUM;
	if (v->features & BIT64(VIRTIO_NET_F_HOST_TSO4))
		nd->features |= NETDEV_TX_TSO4;
	if (v->features & BIT64(VIRTIO_NET_F_HOST_TSO6))
		nd->features |= NETDEV_TX_TSO6;
	if (v->features & BIT64(VIRTIO_NET_F_GUEST_CSUM))
		nd->features |= NETDEV_RX_CSUM;
}

static struct vnet *vnet_new(struct pci_device *pci)
{
	struct vnet *v = kzalloc(sizeof(*v));

	if (!v)
		return NULL;
	v->pci = pci;
	mutex_init(&v->control_lock, "virtio-net control", RANK_DRIVER);
	completion_init(&v->answered);
	v->nd.ops = &vnet_ops;
	v->nd.driver = v;
	v->nd.driver_name = "virtio-net";
	v->dma = dma_alloc(sizeof(*v->dma), &v->dma_paddr);
	if (v->dma)
		return v;
	kfree(v);
	return NULL;
}

static int vnet_probe(struct pci_device *pci, const struct pci_id *id)
{
	struct vnet *v = vnet_new(pci);
	int err;

	(void)id;
	if (!v)
		return -ENOMEM;
	mutex_lock(&v->control_lock);
	err = bring_up_locked(v);
	mutex_unlock(&v->control_lock);
	if (err)
		goto out_free;
	err = net_pool_init(&v->pool, POOL_BUFFERS * v->nr_pairs);
	if (err)
		goto out_down;
	describe(v);
	err = netdev_register(&v->nd);
	if (err)
		goto out_pool;
	pr_info("%s: %02x:%02x:%02x:%02x:%02x:%02x, mtu %u, %u pair%s of queues\n", v->nd.name,
		v->nd.addr[0], v->nd.addr[1], v->nd.addr[2], v->nd.addr[3], v->nd.addr[4],
		v->nd.addr[5], v->nd.mtu, v->nr_pairs, v->nr_pairs == 1 ? "" : "s");
	return 0;

out_pool:
	net_pool_destroy(&v->pool);
out_down:
	vnet_close(&v->nd);
out_free:
	dma_free(v->dma, sizeof(*v->dma));
	kfree(v);
	return err;
}

static const struct pci_id vnet_ids[] = {
	{ VIRTIO_PCI_VENDOR, 0x1000 }, /* transitional */
	{ VIRTIO_PCI_VENDOR, 0x1041 },
	{ 0, 0 },
};
static const struct pci_driver vnet_driver = {
	.name = "virtio-net",
	.ids = vnet_ids,
	.probe = vnet_probe,
};
PCI_DRIVER(vnet_driver);
