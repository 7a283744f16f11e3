/* SPDX-License-Identifier: MIT */
/*
 * The queues of the virtio network driver on real virtqueues, against a device that is part of the
 * test: frames both ways, a full ring, and devices that lie.
 */
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "../../drivers/net/virtio_net.h"
#include "../../drivers/virtio/virtq.h"

#define SIZE     32u
#define FEATURES (BIT64(VIRTIO_NET_F_MRG_RXBUF) | BIT64(VIRTIO_NET_F_GUEST_CSUM))

struct side {
	struct virtq vq;
	struct virtq_shadow shadow[SIZE];
	uint8_t mem[2048] __aligned(16);
	uint16_t seen;
};

struct fixture {
	struct side rx, tx;
	struct net_pool pool;
	struct vnet_queue q;
	struct netdev nd;
	unsigned int nr_fences, nr_received, nr_sent, nr_failed;
	uint64_t bytes;
	struct net_rxbuf *kept; /* frames that the user does not free */
	bool keep;
};

static struct fixture *fix;

static void ignore_kick(struct virtq *vq)
{
	(void)vq;
}

static void fence_ring(struct virtq *vq, const char *why)
{
	(void)vq;
	(void)why;
	fix->nr_fences++;
	fix->rx.vq.broken = true;
	fix->tx.vq.broken = true;
}

static void fence_device(struct vnet_queue *q, const char *why)
{
	(void)q;
	fence_ring(NULL, why);
}

static void received(struct netdev *nd, struct net_rxbuf *frame)
{
	(void)nd;
	fix->nr_received++;
	fix->bytes += frame->frame_len;
	if (fix->keep) {
		struct net_rxbuf *last = frame;

		while (last->next)
			last = last->next;
		last->next = fix->kept;
		fix->kept = frame;
	} else {
		net_frame_free(frame);
	}
}

static void sent(struct netdev *nd, void *token, int status)
{
	(void)nd;
	(void)token;
	if (status)
		fix->nr_failed++;
	else
		fix->nr_sent++;
}

static const struct netdev_user user = { .received = received, .sent = sent };

static void side_init(struct side *s)
{
	virtq_init(&s->vq, SIZE, NET_TX_MAX_SEGS + 1, s->mem, s->shadow);
	s->vq.notify = ignore_kick;
	s->vq.fence = fence_ring;
}

static bool setup(void)
{
	fix = kzalloc(sizeof(*fix));
	if (!fix || net_pool_init(&fix->pool, 2 * SIZE))
		return false;
	side_init(&fix->rx);
	side_init(&fix->tx);
	fix->nd.user = &user;
	fix->nd.link_up = true;
	fix->q.nd = &fix->nd;
	fix->q.features = FEATURES;
	fix->q.pool = &fix->pool;
	fix->q.fence = fence_device;
	if (vnet_queue_init(&fix->q, &fix->rx.vq, &fix->tx.vq))
		return false;
	vnet_rx_fill(&fix->q);
	return true;
}

/* All that was with the device or the user has come back. */
static void teardown(struct ktest *t)
{
	net_frame_free(fix->kept);
	fence_ring(NULL, "");
	vnet_queue_bury(&fix->q);
	EXPECT_EQ(t, net_pool_free(&fix->pool), fix->pool.nr);
	vnet_queue_free(&fix->q);
	net_pool_destroy(&fix->pool);
	kfree(fix);
}

/* The device's side: the next chain that it was given. */
static bool device_take(struct side *s, uint16_t *head)
{
	if (le16_to_cpu(s->vq.avail->idx) == s->seen)
		return false;
	*head = le16_to_cpu(s->vq.avail->ring[s->seen++ % SIZE]);
	return true;
}

static void device_use(struct side *s, uint32_t id, uint32_t len)
{
	struct virtq_used *used = (struct virtq_used *)(uintptr_t)s->vq.used;
	const uint16_t idx = le16_to_cpu(used->idx);

	used->ring[idx % SIZE].id = cpu_to_le32(id);
	used->ring[idx % SIZE].len = cpu_to_le32(len);
	used->idx = cpu_to_le16((uint16_t)(idx + 1));
}

static void device_fill(struct side *s, uint16_t head, uint16_t num, uint32_t len)
{
	const struct virtio_net_hdr hdr = { .num_buffers = cpu_to_le16(num) };

	memcpy(phys_to_virt(le64_to_cpu(s->vq.desc[head].addr)), &hdr, sizeof(hdr));
	device_use(s, head, len);
}

static void frames_arrive(struct ktest *t)
{
	uint16_t head;

	ASSERT_TRUE(t, setup());
	for (unsigned int round = 0; round < 1000; round++) {
		ASSERT_TRUE(t, device_take(&fix->rx, &head));
		EXPECT_EQ(t, le32_to_cpu(fix->rx.vq.desc[head].len), NET_RXBUF_SIZE);
		device_fill(&fix->rx, head, 2, 2048);
		ASSERT_TRUE(t, device_take(&fix->rx, &head));
		device_use(&fix->rx, head, 100);
		EXPECT_EQ(t, vnet_queue_poll(&fix->q, 64), 2u);
	}
	EXPECT_EQ(t, fix->nr_received, 1000u);
	EXPECT_EQ(t, fix->bytes, 1000ull * (2048 - 12 + 100));
	EXPECT_EQ(t, fix->q.stats.rx_bytes, fix->bytes);
	EXPECT_EQ(t, fix->nr_fences, 0u);
	teardown(t);
}

static void a_user_that_keeps_frames_gets_no_more(struct ktest *t)
{
	unsigned int nr = 0;
	uint16_t head;

	ASSERT_TRUE(t, setup());
	fix->keep = true;
	while (device_take(&fix->rx, &head)) {
		device_fill(&fix->rx, head, 1, 80);
		vnet_queue_poll(&fix->q, 64);
		nr++;
	}
	EXPECT_EQ(t, nr, fix->pool.nr);
	/* One comes back: the device has a buffer again at the next poll. */
	head = 0;
	fix->keep = false;
	net_frame_free(fix->kept);
	fix->kept = NULL;
	vnet_queue_poll(&fix->q, 64);
	EXPECT_TRUE(t, device_take(&fix->rx, &head));
	teardown(t);
}

static int transmit(unsigned int nr_segs)
{
	static uint8_t frame[64];
	struct net_seg segs[NET_TX_MAX_SEGS];
	const struct net_tx tx = { .segs = segs, .nr_segs = nr_segs, .token = &frame };

	for (unsigned int i = 0; i < nr_segs; i++)
		segs[i] = (struct net_seg){ fix->pool.bufs[0].base, 64 };
	return vnet_queue_transmit(&fix->q, &tx);
}

static void frames_leave(struct ktest *t)
{
	uint16_t heads[SIZE];
	unsigned int nr = 0;

	ASSERT_TRUE(t, setup());
	while (!transmit(1))
		nr++;
	EXPECT_EQ(t, nr, SIZE / 2); /* header and frame */
	EXPECT_EQ(t, transmit(1), -ENOSPC);
	EXPECT_EQ(t, fix->q.stats.tx_full, 2u);
	/* Somebody waits for room: the device is asked for an interrupt. */
	EXPECT_FALSE(t, vnet_queue_arm(&fix->q));
	EXPECT_EQ(t, le16_to_cpu(fix->tx.vq.avail->flags), 0);
	for (unsigned int i = 0; i < nr; i++)
		ASSERT_TRUE(t, device_take(&fix->tx, &heads[i]));
	for (unsigned int i = nr; i-- > 0;)
		device_use(&fix->tx, heads[i], 0);
	EXPECT_TRUE(t, vnet_queue_arm(&fix->q));
	EXPECT_EQ(t, vnet_queue_poll(&fix->q, 64), 0u);
	EXPECT_EQ(t, fix->nr_sent, nr);
	EXPECT_FALSE(t, vnet_queue_arm(&fix->q));
	EXPECT_EQ(t, le16_to_cpu(fix->tx.vq.avail->flags), VIRTQ_AVAIL_NO_INTERRUPT);
	EXPECT_EQ(t, transmit(NET_TX_MAX_SEGS), 0);
	teardown(t);
}

static void what_a_fenced_device_had_comes_back(struct ktest *t)
{
	uint16_t head;

	ASSERT_TRUE(t, setup());
	EXPECT_EQ(t, transmit(2), 0);
	EXPECT_EQ(t, transmit(2), 0);
	/* A frame of 30 buffers, of which one came. */
	ASSERT_TRUE(t, device_take(&fix->rx, &head));
	device_fill(&fix->rx, head, 30, 2048);
	EXPECT_EQ(t, vnet_queue_poll(&fix->q, 64), 1u);
	/* A length that is too long for the ring. */
	ASSERT_TRUE(t, device_take(&fix->rx, &head));
	device_use(&fix->rx, head, NET_RXBUF_SIZE + 1);
	EXPECT_EQ(t, vnet_queue_poll(&fix->q, 64), 0u);
	EXPECT_EQ(t, fix->nr_fences, 1u);
	EXPECT_EQ(t, fix->nr_failed, 2u);
	EXPECT_FALSE(t, fix->nd.link_up);
	EXPECT_EQ(t, net_pool_free(&fix->pool), fix->pool.nr);
	EXPECT_EQ(t, transmit(1), -EIO);
	EXPECT_EQ(t, vnet_queue_poll(&fix->q, 64), 0u);
	EXPECT_FALSE(t, vnet_queue_arm(&fix->q));
	teardown(t);
}

/* No buffer is lost to a device that writes anything, and a fence is final. */
static void devices_that_write_anything(struct ktest *t)
{
	struct prng rng;

	prng_seed(&rng, 14);
	for (unsigned int round = 0; round < 3000; round++) {
		ASSERT_TRUE(t, setup());
		for (unsigned int step = 0; step < 60 && !fix->nr_fences; step++) {
			struct side *s = prng_below(&rng, 2) ? &fix->rx : &fix->tx;
			uint16_t head = 0;

			if (prng_below(&rng, 3) == 0)
				(void)transmit(1 + (unsigned int)prng_below(&rng, 4));
			if (!device_take(s, &head))
				continue;
			if (prng_below(&rng, 40) == 0)
				head = (uint16_t)prng_below(&rng, 2 * SIZE);
			if (s == &fix->rx && head < SIZE)
				device_fill(s, head, (uint16_t)prng_below(&rng, 4),
					    (uint32_t)prng_below(&rng, 2060));
			else
				device_use(s, head, (uint32_t)(prng_below(&rng, 30) == 0));
			vnet_queue_poll(&fix->q, 4);
		}
		teardown(t);
	}
}

/* --- the registry, with a card that does nothing */

static unsigned int nr_opened, nr_kicked;

static int fake_open(struct netdev *nd)
{
	(void)nd;
	return nr_opened++ ? -EIO : 0;
}

static void fake_close(struct netdev *nd)
{
	(void)nd;
}

static int fake_transmit(struct netdev *nd, unsigned int queue, const struct net_tx *tx)
{
	(void)nd;
	return (int)(queue + tx->nr_segs);
}

static void fake_kick(struct netdev *nd, unsigned int queue)
{
	(void)nd;
	nr_kicked += queue;
}

static unsigned int fake_poll(struct netdev *nd, unsigned int queue, unsigned int budget)
{
	(void)nd;
	return queue + budget;
}

static bool fake_arm(struct netdev *nd, unsigned int queue)
{
	(void)nd;
	return queue == 1;
}

static void fake_stats(struct netdev *nd, struct netdev_stats *out)
{
	(void)nd;
	out->rx_frames = 7;
}

static const struct netdev_ops fake_ops = {
	.open = fake_open,
	.close = fake_close,
	.transmit = fake_transmit,
	.kick = fake_kick,
	.poll = fake_poll,
	.arm = fake_arm,
	.stats = fake_stats,
};

static void the_registry_checks(struct ktest *t)
{
	static struct netdev nd = {
		.ops = &fake_ops,
		.addr = { 0x52, 0x54, 0, 0x12, 0x34, 0x56 },
		.mtu = 1500,
		.nr_queues = 2,
		.features = NETDEV_TX_CSUM,
	};
	static const struct {
		unsigned int queue, nr_segs;
		uint32_t flags;
		uint16_t mss;
		int want;
	} cases[] = {
		{ 0, 1, 0, 0, 1 },
		{ 1, NET_TX_MAX_SEGS, NET_TX_CSUM, 0, 1 + NET_TX_MAX_SEGS },
		{ 2, 1, 0, 0, -EINVAL },
		{ 0, 0, 0, 0, -EINVAL },
		{ 0, NET_TX_MAX_SEGS + 1, 0, 0, -EINVAL },
		{ 0, 1, NET_TX_TSO4, 1460, -EINVAL }, /* not a feature */
	};
	const struct net_filter filter = { .all_multicast = true };
	struct netdev_stats stats;
	struct netdev bad = nd;

	bad.mtu = NET_MTU_MIN - 1;
	EXPECT_EQ(t, netdev_register(&bad), -EINVAL);
	bad = nd;
	bad.addr[0] = 0x53; /* a multicast address */
	EXPECT_EQ(t, netdev_register(&bad), -EINVAL);
	EXPECT_TRUE(t, !netdev_next(NULL));
	ASSERT_EQ(t, netdev_register(&nd), 0);
	EXPECT_STREQ(t, nd.name, "eth0");
	EXPECT_TRUE(t, netdev_next(NULL) == &nd);
	EXPECT_TRUE(t, !netdev_next(&nd));

	EXPECT_EQ(t, netdev_open(&nd, &user, NULL), 0);
	EXPECT_EQ(t, netdev_open(&nd, &user, NULL), -EBUSY);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static uint8_t byte;
		const struct net_seg seg = { &byte, 1 };
		const struct net_tx tx = {
			.segs = &seg,
			.nr_segs = cases[i].nr_segs,
			.flags = cases[i].flags,
			.mss = cases[i].mss,
			.token = &byte,
		};

		EXPECT_EQ(t, netdev_transmit(&nd, cases[i].queue, &tx), cases[i].want);
	}
	netdev_kick(&nd, 1);
	EXPECT_EQ(t, nr_kicked, 1u);
	EXPECT_EQ(t, netdev_poll(&nd, 1, 64), 65u);
	EXPECT_TRUE(t, netdev_arm(&nd, 1));
	EXPECT_EQ(t, netdev_set_filter(&nd, &filter), -EOPNOTSUPP);
	netdev_stats(&nd, &stats);
	EXPECT_EQ(t, stats.rx_frames + stats.rx_bytes, 7ull);
	netdev_close(&nd);
	/* The driver's failure leaves it free. */
	EXPECT_EQ(t, netdev_open(&nd, &user, NULL), -EIO);
	EXPECT_TRUE(t, !nd.user);
}

static const struct ktest_case vnet_cases[] = {
	KTEST(the_registry_checks),
	KTEST(frames_arrive),
	KTEST(a_user_that_keeps_frames_gets_no_more),
	KTEST(frames_leave),
	KTEST(what_a_fenced_device_had_comes_back),
	KTEST(devices_that_write_anything),
	{ 0 },
};
static const struct ktest_suite vnet_suite = { .name = "net.virtio", .cases = vnet_cases };
KTEST_SUITE(vnet_suite);
