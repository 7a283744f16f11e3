/* SPDX-License-Identifier: MIT */
/* Configuration and frame headers of virtio network devices, with a device that lies. */
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

#include "virtio_net.h"

#define F(name) BIT64(VIRTIO_NET_F_##name)

static void features_need_others(struct ktest *t)
{
	EXPECT_EQ(t, vnet_choose_features(F(HOST_TSO4) | F(MAC)), F(MAC));
	EXPECT_EQ(t, vnet_choose_features(F(HOST_TSO4) | F(CSUM)), F(HOST_TSO4) | F(CSUM));
	EXPECT_EQ(t, vnet_choose_features(F(GUEST_TSO4) | F(GUEST_CSUM)), F(GUEST_CSUM));
	EXPECT_EQ(t, vnet_choose_features(F(GUEST_TSO6) | F(MRG_RXBUF)), F(MRG_RXBUF));
	EXPECT_EQ(t, vnet_choose_features(F(GUEST_TSO6) | F(MRG_RXBUF) | F(GUEST_CSUM)),
		  F(GUEST_TSO6) | F(MRG_RXBUF) | F(GUEST_CSUM));
	EXPECT_EQ(t, vnet_choose_features(F(MQ) | F(CTRL_RX)), 0ull);
	/* GUEST_ECN, GUEST_UFO and whatever comes later are not ours. */
	EXPECT_EQ(t, vnet_choose_features(BIT64(9) | BIT64(10) | BIT64(63)), 0ull);
}

static void config(struct ktest *t)
{
	static const struct {
		uint64_t features;
		uint8_t mac0;
		uint16_t max_pairs, mtu;
		int err;
		uint32_t want_mtu;
		unsigned int want_pairs;
	} cases[] = {
		{ 0, 0, 0, 0, 0, 1500, 1 },
		{ F(MAC), 0x52, 0, 0, 0, 1500, 1 },
		{ F(MAC), 0x01, 0, 0, -EINVAL, 0, 0 }, /* a multicast address */
		{ F(MTU), 0x52, 0, 1279, -EINVAL, 0, 0 },
		{ F(MTU), 0x52, 0, 1400, 0, 1400, 1 },
		{ F(MTU), 0x52, 0, 9000, 0, 2022, 1 }, /* a frame fits a buffer */
		{ F(MTU) | F(MRG_RXBUF), 0x52, 0, 65535, 0, 9000, 1 },
		{ F(MQ), 0x52, 0, 0, -EINVAL, 0, 0 },
		{ F(MQ), 0x52, 0x8001, 0, -EINVAL, 0, 0 },
		{ F(MQ), 0x52, 3, 0, 0, 1500, 3 },
		{ F(MQ), 0x52, 0x8000, 0, 0, 1500, 4 }, /* as many as CPUs */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct virtio_net_config cfg = {
			.mac = { cases[i].mac0, 1, 2, 3, 4, 5 },
			.max_pairs = cpu_to_le16(cases[i].max_pairs),
			.mtu = cpu_to_le16(cases[i].mtu),
		};
		struct vnet_setup s = { 0 };

		EXPECT_EQ(t, vnet_decode_config(&cfg, cases[i].features, 4, &s), cases[i].err);
		if (cases[i].err)
			continue;
		EXPECT_EQ(t, s.mtu, cases[i].want_mtu);
		EXPECT_EQ(t, s.pairs, cases[i].want_pairs);
	}
}

static const struct virtio_net_config no_address;

static void config_without_an_address(struct ktest *t)
{
	struct vnet_setup s = { 0 };

	EXPECT_EQ(t, vnet_decode_config(&no_address, F(MAC), 1, &s), -EINVAL);
	EXPECT_EQ(t, vnet_decode_config(&no_address, 0, 1, &s), 0);
	EXPECT_FALSE(t, s.has_mac);
}

/* A buffer with a header, as the device leaves it. */
static struct net_rxbuf *filled(struct net_pool *pool, uint16_t num, uint8_t flags, uint8_t gso,
				uint16_t start, uint16_t offset)
{
	const struct virtio_net_hdr hdr = {
		.flags = flags,
		.gso_type = gso,
		.csum_start = cpu_to_le16(start),
		.csum_offset = cpu_to_le16(offset),
		.num_buffers = cpu_to_le16(num),
	};
	struct net_rxbuf *buf = net_rxbuf_get(pool);

	if (buf)
		memcpy(buf->base, &hdr, sizeof(hdr));
	return buf;
}

static void one_buffer(struct ktest *t)
{
	static const struct {
		uint64_t features;
		uint32_t len;
		uint16_t num;
		uint8_t flags, gso;
		uint16_t start, offset;
		enum vnet_rx_result want;
		uint32_t want_flags;
	} cases[] = {
		{ 0, 12 + 60, 0, 0, 0, 0, 0, VNET_RX_FRAME, 0 }, /* num counts when merging only */
		{ F(MRG_RXBUF), 12 + 60, 1, 0, 0, 0, 0, VNET_RX_FRAME, 0 },
		{ F(MRG_RXBUF), 12 + 60, 0, 0, 0, 0, 0, VNET_RX_BROKEN, 0 },
		{ F(MRG_RXBUF), 12 + 60, 35, 0, 0, 0, 0, VNET_RX_BROKEN, 0 },
		{ F(MRG_RXBUF), 12 + 60, 65535, 0, 0, 0, 0, VNET_RX_BROKEN, 0 },
		{ F(MRG_RXBUF), 12 + 60, 2, 0, 0, 0, 0, VNET_RX_MORE, 0 },
		{ 0, 0, 1, 0, 0, 0, 0, VNET_RX_BROKEN, 0 },
		{ 0, 11, 1, 0, 0, 0, 0, VNET_RX_BROKEN, 0 },
		{ 0, 12, 1, 0, 0, 0, 0, VNET_RX_DROPPED, 0 },
		{ 0, 12 + 13, 1, 0, 0, 0, 0, VNET_RX_DROPPED, 0 },
		{ 0, 12 + 14, 1, 0, 0, 0, 0, VNET_RX_FRAME, 0 },
		{ 0, 2048, 1, 0, 0, 0, 0, VNET_RX_FRAME, 0 },
		{ 0, 2049, 1, 0, 0, 0, 0, VNET_RX_BROKEN, 0 },
		{ 0, UINT32_MAX, 1, 0, 0, 0, 0, VNET_RX_BROKEN, 0 },
		/* Segments that were not agreed on. */
		{ 0, 12 + 60, 1, 0, 1, 0, 0, VNET_RX_DROPPED, 0 },
		{ F(GUEST_TSO4), 12 + 60, 1, 0, 1, 0, 0, VNET_RX_FRAME, 0 },
		{ F(GUEST_TSO4), 12 + 60, 1, 0, 0x81, 0, 0, VNET_RX_FRAME, 0 },
		{ F(GUEST_TSO4), 12 + 60, 1, 0, 4, 0, 0, VNET_RX_DROPPED, 0 },
		{ F(GUEST_TSO4) | F(GUEST_TSO6), 12 + 60, 1, 0, 3, 0, 0, VNET_RX_DROPPED, 0 },
		/* Checksums: not agreed on, then inside and outside of the frame. */
		{ 0, 12 + 60, 1, 2, 0, 0, 0, VNET_RX_FRAME, 0 },
		{ F(GUEST_CSUM), 12 + 60, 1, 2, 0, 0, 0, VNET_RX_FRAME, NET_RX_CSUM_OK },
		{ F(GUEST_CSUM), 12 + 60, 1, 1, 0, 34, 16, VNET_RX_FRAME, NET_RX_CSUM_OK },
		{ F(GUEST_CSUM), 12 + 60, 1, 1, 0, 42, 16, VNET_RX_FRAME, NET_RX_CSUM_OK },
		{ F(GUEST_CSUM), 12 + 60, 1, 1, 0, 43, 16, VNET_RX_DROPPED, 0 },
		{ F(GUEST_CSUM), 12 + 60, 1, 1, 0, 65535, 65535, VNET_RX_DROPPED, 0 },
		{ F(GUEST_CSUM), 12 + 60, 1, 1, 0, 13, 2, VNET_RX_DROPPED, 0 },
		{ F(GUEST_CSUM), 12 + 60, 1, 0, 0, 0, 0, VNET_RX_FRAME, 0 },
	};
	struct net_pool pool;

	ASSERT_EQ(t, net_pool_init(&pool, 1), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct net_rxbuf *frame = NULL;
		struct vnet_assembly a = { 0 };
		struct net_rxbuf *buf = filled(&pool, cases[i].num, cases[i].flags, cases[i].gso,
					       cases[i].start, cases[i].offset);

		ASSERT_TRUE(t, buf);
		EXPECT_EQ(t, vnet_rx_add(&a, buf, cases[i].len, cases[i].features, &frame),
			  cases[i].want);
		EXPECT_EQ(t, frame != NULL, cases[i].want == VNET_RX_FRAME);
		if (frame) {
			EXPECT_EQ(t, frame->frame_len, cases[i].len - 12);
			EXPECT_EQ(t, frame->flags, cases[i].want_flags);
		}
		net_frame_free(frame);
		vnet_rx_abort(&a);
		EXPECT_EQ(t, net_pool_free(&pool), pool.nr);
	}
	net_pool_destroy(&pool);
}

static void merged_buffers(struct ktest *t)
{
	struct net_rxbuf *frame = NULL;
	struct vnet_assembly a = { 0 };
	struct net_pool pool;

	ASSERT_EQ(t, net_pool_init(&pool, 64), 0);
	/* Three buffers make one frame. */
	EXPECT_EQ(t, vnet_rx_add(&a, filled(&pool, 3, 0, 0, 0, 0), 2048, F(MRG_RXBUF), &frame),
		  VNET_RX_MORE);
	EXPECT_EQ(t, vnet_rx_add(&a, net_rxbuf_get(&pool), 2048, F(MRG_RXBUF), &frame),
		  VNET_RX_MORE);
	EXPECT_EQ(t, vnet_rx_add(&a, net_rxbuf_get(&pool), 1, F(MRG_RXBUF), &frame), VNET_RX_FRAME);
	ASSERT_TRUE(t, frame && frame->next && frame->next->next);
	EXPECT_EQ(t, frame->frame_len, 2036u + 2048 + 1);
	EXPECT_EQ(t, frame->next->next->len, 1u);
	EXPECT_TRUE(t, !frame->next->next->next);
	net_frame_free(frame);
	EXPECT_EQ(t, net_pool_free(&pool), pool.nr);

	/* An empty buffer in the middle. */
	frame = NULL;
	EXPECT_EQ(t, vnet_rx_add(&a, filled(&pool, 3, 0, 0, 0, 0), 2048, F(MRG_RXBUF), &frame),
		  VNET_RX_MORE);
	EXPECT_EQ(t, vnet_rx_add(&a, net_rxbuf_get(&pool), 0, F(MRG_RXBUF), &frame),
		  VNET_RX_BROKEN);
	EXPECT_EQ(t, net_pool_free(&pool), pool.nr);

	/* More bytes than a frame can have. */
	for (unsigned int i = 0; i < VNET_MAX_BUFFERS - 1; i++) {
		struct net_rxbuf *buf =
			i ? net_rxbuf_get(&pool) : filled(&pool, VNET_MAX_BUFFERS, 0, 0, 0, 0);

		EXPECT_EQ(t, vnet_rx_add(&a, buf, 2048, F(MRG_RXBUF), &frame), VNET_RX_MORE);
	}
	EXPECT_EQ(t, vnet_rx_add(&a, net_rxbuf_get(&pool), 2048, F(MRG_RXBUF), &frame),
		  VNET_RX_DROPPED);
	EXPECT_EQ(t, net_pool_free(&pool), pool.nr);
	net_pool_destroy(&pool);
}

static void pools_run_dry(struct ktest *t)
{
	struct net_rxbuf *all = NULL, *buf;
	struct net_pool pool;
	unsigned int nr = 0;

	ASSERT_EQ(t, net_pool_init(&pool, 33), 0);
	while ((buf = net_rxbuf_get(&pool)) != NULL) {
		buf->next = all;
		all = buf;
		nr++;
	}
	EXPECT_EQ(t, nr, 64u); /* whole chunks */
	net_frame_free(all);
	EXPECT_EQ(t, net_pool_free(&pool), 64u);
	net_pool_destroy(&pool);
}

static void transmit_headers(struct ktest *t)
{
	const struct net_tx plain = { 0 };
	const struct net_tx tso = {
		.flags = NET_TX_CSUM | NET_TX_TSO6,
		.csum_start = 54,
		.csum_offset = 16,
		.hdr_len = 74,
		.mss = 1428,
	};
	struct virtio_net_hdr hdr;

	vnet_encode_tx(&plain, &hdr);
	EXPECT_EQ(t, hdr.flags | hdr.gso_type, 0);
	vnet_encode_tx(&tso, &hdr);
	EXPECT_EQ(t, hdr.flags, VIRTIO_NET_HDR_NEEDS_CSUM);
	EXPECT_EQ(t, hdr.gso_type, VIRTIO_NET_GSO_TCPV6);
	EXPECT_EQ(t, le16_to_cpu(hdr.hdr_len), 74);
	EXPECT_EQ(t, le16_to_cpu(hdr.gso_size), 1428);
	EXPECT_EQ(t, le16_to_cpu(hdr.csum_start), 54);
	EXPECT_EQ(t, le16_to_cpu(hdr.csum_offset), 16);
	EXPECT_EQ(t, le16_to_cpu(hdr.num_buffers), 0);
}

static const struct ktest_case virtio_net_cases[] = {
	KTEST(features_need_others),
	KTEST(config),
	KTEST(config_without_an_address),
	KTEST(one_buffer),
	KTEST(merged_buffers),
	KTEST(pools_run_dry),
	KTEST(transmit_headers),
	{ 0 },
};
static const struct ktest_suite virtio_net_suite = {
	.name = "virtio.net",
	.cases = virtio_net_cases,
};
KTEST_SUITE(virtio_net_suite);
