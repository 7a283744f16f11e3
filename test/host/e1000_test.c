/* SPDX-License-Identifier: MIT */
/*
 * The Intel network driver's registers and rings against a card that is part of the test: reset,
 * address, filter, frames both ways, a full ring, and cards that lie.
 */
#include <arch/io.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "../../drivers/net/e1000.h"

#define NR_REGS (E1000_REGS_LEN / 4)

/* --- the card: its registers, and what it has taken from the rings */

static uint32_t regs[NR_REGS] __aligned(4096);
static const uint16_t eeprom[] = { 0x5452, 0x1200, 0x5634 };
static bool never_resets, no_eeprom, has_address;
static enum e1000_model model;

static uint64_t card_read(const volatile void *addr, unsigned int bytes)
{
	const size_t at = (size_t)((const volatile uint8_t *)addr - (uint8_t *)regs);
	const uint32_t val = regs[at / 4];

	if (at >= sizeof(regs) || bytes != 4)
		return UINT64_MAX;
	if (at == E1000_ICR)
		regs[at / 4] = 0;
	return val;
}

static void card_reset(void)
{
	memset(regs, 0, sizeof(regs));
	regs[E1000_STATUS / 4] = E1000_STATUS_LU;
	if (has_address) {
		regs[E1000_RAL0 / 4] = 0x12005452;
		regs[E1000_RAH0 / 4] = 0x5634 | E1000_RAH_AV;
	}
	if (never_resets)
		regs[E1000_CTRL / 4] = E1000_CTRL_RST;
}

static void read_word(uint32_t val)
{
	const unsigned int at = model == E1000_82574L ? val >> 2 & 0x3fff : val >> 8 & 0xff;

	if (!no_eeprom && at < ARRAY_SIZE(eeprom))
		regs[E1000_EERD / 4] =
			(uint32_t)eeprom[at] << 16 | (model == E1000_82574L ? BIT(1) : BIT(4));
}

static void card_write(volatile void *addr, uint64_t val, unsigned int bytes)
{
	const size_t at = (size_t)((volatile uint8_t *)addr - (uint8_t *)regs);

	if (at >= sizeof(regs) || bytes != 4)
		return;
	if (at == E1000_CTRL && (val & E1000_CTRL_RST))
		card_reset();
	else if (at == E1000_EERD)
		read_word((uint32_t)val);
	else
		regs[at / 4] = (uint32_t)val;
}

static const struct shim_mmio_ops card = { card_read, card_write };

/* --- the driver's user */

struct fixture {
	struct net_pool pool;
	struct e1000_rings r;
	struct netdev nd;
	unsigned int nr_fences, nr_received, nr_sent, nr_failed, nr_good;
	uint64_t bytes;
	struct net_rxbuf *kept;
	bool keep;
	unsigned int rx_at, tx_at; /* the card's */
};

static struct fixture *fix;

static void fence(struct e1000_rings *r, const char *why)
{
	(void)why;
	fix->nr_fences++;
	r->dead = true;
}

static void received(struct netdev *nd, struct net_rxbuf *frame)
{
	(void)nd;
	fix->nr_received++;
	fix->nr_good += frame->flags & NET_RX_CSUM_OK;
	fix->bytes += frame->frame_len;
	if (fix->keep) {
		frame->next = fix->kept;
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
static const uint8_t addr[NET_ADDR_LEN] = { 2, 3, 4, 5, 6, 7 };

static bool setup(void)
{
	shim_mmio_ops = &card;
	never_resets = no_eeprom = false;
	has_address = true;
	model = E1000_82540EM;
	card_reset();
	fix = kzalloc(sizeof(*fix));
	if (!fix || net_pool_init(&fix->pool, 2 * E1000_RING))
		return false;
	fix->nd.user = &user;
	fix->r.nd = &fix->nd;
	fix->r.regs = (void __iomem *)regs;
	fix->r.pool = &fix->pool;
	fix->r.fence = fence;
	if (e1000_rings_init(&fix->r) || e1000_hw_reset(fix->r.regs, model))
		return false;
	e1000_hw_start(fix->r.regs, model, &fix->r, addr);
	e1000_rings_start(&fix->r);
	fix->nd.link_up = e1000_hw_link_is_up(fix->r.regs);
	return fix->nd.link_up;
}

/* All that was with the card or the user has come back. */
static void teardown(struct ktest *t)
{
	net_frame_free(fix->kept);
	fix->r.dead = true;
	e1000_rings_bury(&fix->r);
	EXPECT_EQ(t, net_pool_free(&fix->pool), fix->pool.nr);
	e1000_rings_free(&fix->r);
	net_pool_destroy(&fix->pool);
	kfree(fix);
	shim_mmio_ops = NULL;
}

/* The card has a frame, or a part of one. False: it has no buffer. */
static bool card_fill(uint16_t len, uint8_t status, uint8_t errors)
{
	struct e1000_rx_desc *d = &fix->r.rx[fix->rx_at];

	if (fix->rx_at == regs[E1000_RDT / 4])
		return false;
	d->len = cpu_to_le16(len);
	d->errors = errors;
	d->status = status;
	d->addr = cpu_to_le64(0xdeadbeef); /* is the card's to change */
	fix->rx_at = (fix->rx_at + 1) % E1000_RING;
	return true;
}

#define WHOLE (E1000_RXD_DD | E1000_RXD_EOP)

static void it_is_set_up(struct ktest *t)
{
	static const uint8_t groups[2][NET_ADDR_LEN] = { { 0x33, 0x33, 0, 0, 0, 1 },
							 { 1, 0, 0x5e, 0, 0, 0xfb } };
	struct net_filter f = { .multicast = groups, .nr_multicast = 2 };
	uint8_t mac[NET_ADDR_LEN];

	ASSERT_TRUE(t, setup());
	EXPECT_EQ(t, regs[E1000_RAL0 / 4], 0x05040302u);
	EXPECT_EQ(t, regs[E1000_RAH0 / 4], 0x0706u | E1000_RAH_AV);
	EXPECT_EQ(t, regs[E1000_RDLEN / 4], 4096u);
	EXPECT_EQ(t, regs[E1000_RDT / 4], E1000_RING - 1);
	EXPECT_EQ(t, regs[E1000_TDBAL / 4], (uint32_t)fix->r.tx_paddr);
	EXPECT_TRUE(t, regs[E1000_RCTL / 4] & E1000_RCTL_MPE);
	e1000_hw_set_filter(fix->r.regs, &f);
	EXPECT_FALSE(t, regs[E1000_RCTL / 4] & (E1000_RCTL_MPE | E1000_RCTL_UPE));
	EXPECT_EQ(t, regs[E1000_MTA / 4], BIT(0x10)); /* hash 0x010 */
	EXPECT_EQ(t, regs[E1000_MTA / 4 + 0xfb0 / 32], BIT(0xfb0 % 32));
	f = (struct net_filter){ .promiscuous = true };
	e1000_hw_set_filter(fix->r.regs, &f);
	EXPECT_TRUE(t, regs[E1000_RCTL / 4] & E1000_RCTL_UPE);
	EXPECT_EQ(t, regs[E1000_MTA / 4], 0u);
	for (model = E1000_82540EM; model <= E1000_82574L; model++) {
		for (int by_eeprom = 0; by_eeprom < 2; by_eeprom++) {
			has_address = !by_eeprom;
			card_reset();
			EXPECT_EQ(t, e1000_hw_read_addr(fix->r.regs, model, mac), 0);
			EXPECT_MEMEQ(t, mac, "\x52\x54\x00\x12\x34\x56", NET_ADDR_LEN);
		}
	}
	teardown(t);
}

static void cards_that_do_not_answer(struct ktest *t)
{
	uint8_t mac[NET_ADDR_LEN];

	ASSERT_TRUE(t, setup());
	no_eeprom = true;
	has_address = false;
	card_reset();
	EXPECT_EQ(t, e1000_hw_read_addr(fix->r.regs, model, mac), -EIO);
	regs[E1000_RAH0 / 4] = E1000_RAH_AV; /* all zeros */
	EXPECT_EQ(t, e1000_hw_read_addr(fix->r.regs, model, mac), -EIO);
	regs[E1000_RAL0 / 4] = 1; /* a multicast address */
	EXPECT_EQ(t, e1000_hw_read_addr(fix->r.regs, model, mac), -EIO);
	never_resets = true;
	EXPECT_EQ(t, e1000_hw_reset(fix->r.regs, E1000_82574L), -EIO);
	memset(regs, 0xff, sizeof(regs));
	EXPECT_EQ(t, e1000_hw_reset(fix->r.regs, model), -EIO);
	EXPECT_FALSE(t, e1000_hw_link_is_up(fix->r.regs));
	teardown(t);
}

static void frames_arrive(struct ktest *t)
{
	ASSERT_TRUE(t, setup());
	EXPECT_FALSE(t, e1000_rings_pending(&fix->r));
	for (unsigned int round = 0; round < 1000; round++) {
		ASSERT_TRUE(t, card_fill(100, WHOLE | E1000_RXD_TCPCS, 0));
		ASSERT_TRUE(t, card_fill(1514, WHOLE | E1000_RXD_TCPCS, E1000_RXD_ERR_TCPE));
		EXPECT_TRUE(t, e1000_rings_pending(&fix->r));
		EXPECT_EQ(t, e1000_rings_poll(&fix->r, 64), 2u);
	}
	EXPECT_EQ(t, fix->nr_received, 2000u);
	EXPECT_EQ(t, fix->nr_good, 1000u);
	EXPECT_EQ(t, fix->bytes, 1000u * (100 + 1514));
	EXPECT_EQ(t, fix->r.stats.rx_frames, 2000u);
	/* The budget holds. */
	for (unsigned int i = 0; i < 10; i++)
		ASSERT_TRUE(t, card_fill(60, WHOLE | E1000_RXD_IXSM | E1000_RXD_TCPCS, 0));
	EXPECT_EQ(t, e1000_rings_poll(&fix->r, 4), 4u);
	EXPECT_EQ(t, e1000_rings_poll(&fix->r, 64), 6u);
	EXPECT_EQ(t, fix->nr_good, 1000u);
	teardown(t);
}

static void frames_of_no_use_are_dropped(struct ktest *t)
{
	static const struct {
		uint16_t len;
		uint8_t errors;
	} rows[] = { { 13, 0 },
		     { 0, 0 },
		     { 1515, 0 },
		     { 2048, 0 },
		     { 60, E1000_RXD_ERR_CE },
		     { 60, E1000_RXD_ERR_SEQ },
		     { 60, E1000_RXD_ERR_RXE } };

	ASSERT_TRUE(t, setup());
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		ASSERT_TRUE(t, card_fill(rows[i].len, WHOLE, rows[i].errors));
	/* One in three parts counts once, and the next is whole again. */
	ASSERT_TRUE(t, card_fill(2048, E1000_RXD_DD, 0));
	ASSERT_TRUE(t, card_fill(2048, E1000_RXD_DD, 0));
	ASSERT_TRUE(t, card_fill(100, WHOLE, 0));
	ASSERT_TRUE(t, card_fill(100, WHOLE, 0));
	EXPECT_EQ(t, e1000_rings_poll(&fix->r, 64), ARRAY_SIZE(rows) + 4);
	EXPECT_EQ(t, fix->nr_received, 1u);
	EXPECT_EQ(t, fix->r.stats.rx_dropped, ARRAY_SIZE(rows) + 1);
	EXPECT_EQ(t, fix->nr_fences, 0u);
	teardown(t);
}

static void a_user_that_keeps_frames_gets_no_more(struct ktest *t)
{
	unsigned int nr = 0;

	ASSERT_TRUE(t, setup());
	fix->keep = true;
	while (card_fill(80, WHOLE, 0)) {
		e1000_rings_poll(&fix->r, 64);
		nr++;
	}
	EXPECT_EQ(t, nr, fix->pool.nr);
	fix->keep = false;
	net_frame_free(fix->kept);
	fix->kept = NULL;
	EXPECT_EQ(t, e1000_rings_poll(&fix->r, 64), 0u);
	EXPECT_TRUE(t, card_fill(80, WHOLE, 0));
	teardown(t);
}

/* A frame of @nr_segs segments with a checksum at @csum_start; 0: none. */
static int transmit(unsigned int nr_segs, uint16_t csum_start)
{
	static uint8_t frame[64];
	struct net_seg segs[NET_TX_MAX_SEGS];
	const struct net_tx tx = { .segs = segs,
				   .nr_segs = nr_segs,
				   .flags = csum_start ? NET_TX_CSUM : 0,
				   .csum_start = csum_start,
				   .csum_offset = 16,
				   .token = &frame };

	for (unsigned int i = 0; i < nr_segs; i++)
		segs[i] = (struct net_seg){ fix->pool.bufs[0].base, 80 };
	return e1000_rings_transmit(&fix->r, &tx);
}

/* The card reads what it was told of; how many frames? */
static unsigned int card_send(unsigned int max)
{
	unsigned int nr = 0;

	while (fix->tx_at != regs[E1000_TDT / 4] && nr < max) {
		struct e1000_tx_desc *d = &fix->r.tx[fix->tx_at];

		fix->tx_at = (fix->tx_at + 1) % E1000_RING;
		if (le32_to_cpu(d->cmd) & E1000_TXD_RS) {
			d->status = E1000_TXD_DD;
			nr++;
		}
	}
	return nr;
}

static void frames_leave(struct ktest *t)
{
	struct e1000_tx_context c;
	unsigned int nr = 0;

	ASSERT_TRUE(t, setup());
	EXPECT_EQ(t, transmit(2, 34), 0);
	EXPECT_EQ(t, card_send(9), 0u); /* not told yet */
	e1000_rings_kick(&fix->r);
	EXPECT_EQ(t, regs[E1000_TDT / 4], 3u);
	memcpy(&c, &fix->r.tx[0], sizeof(c));
	EXPECT_EQ(t, c.tucss, 34);
	EXPECT_EQ(t, c.tucso, 50);
	EXPECT_EQ(t, le32_to_cpu(c.cmd), E1000_TXD_DEXT);
	EXPECT_EQ(t, fix->r.tx[1].options, E1000_TXD_POPT_TXSM);
	EXPECT_EQ(t, le32_to_cpu(fix->r.tx[1].cmd),
		  80 | E1000_TXD_DATA | E1000_TXD_DEXT | E1000_TXD_IFCS);
	EXPECT_TRUE(t, le32_to_cpu(fix->r.tx[2].cmd) & E1000_TXD_EOP);
	/* The same place: no context. Another: one. None: none. */
	EXPECT_EQ(t, transmit(1, 34), 0);
	EXPECT_EQ(t, transmit(1, 54), 0);
	EXPECT_EQ(t, transmit(1, 0), 0);
	e1000_rings_kick(&fix->r);
	EXPECT_EQ(t, regs[E1000_TDT / 4], 7u);
	EXPECT_EQ(t, fix->r.tx[6].options, 0);
	EXPECT_EQ(t, card_send(9), 4u);
	e1000_rings_poll(&fix->r, 1);
	EXPECT_EQ(t, fix->nr_sent, 4u);
	while (!transmit(1, 0))
		nr++;
	EXPECT_EQ(t, nr, E1000_RING - 1);
	EXPECT_EQ(t, transmit(1, 0), -ENOSPC);
	EXPECT_EQ(t, fix->r.stats.tx_full, 2u);
	EXPECT_TRUE(t, e1000_rings_wants_tx(&fix->r));
	EXPECT_FALSE(t, e1000_rings_pending(&fix->r));
	e1000_rings_kick(&fix->r);
	EXPECT_EQ(t, card_send(1), 1u);
	EXPECT_TRUE(t, e1000_rings_pending(&fix->r));
	e1000_rings_poll(&fix->r, 1);
	EXPECT_FALSE(t, e1000_rings_wants_tx(&fix->r));
	EXPECT_EQ(t, transmit(2, 0), -ENOSPC);
	EXPECT_EQ(t, transmit(1, 0), 0);
	teardown(t);
}

/* Frames that the card cannot have are refused, and change nothing. */
static void frames_that_do_not_fit(struct ktest *t)
{
	static uint8_t token;
	struct net_seg seg = { .len = 1515 };
	struct net_tx tx = { .segs = &seg, .nr_segs = 1, .token = &token };

	ASSERT_TRUE(t, setup());
	seg.buf = fix->pool.bufs[0].base;
	EXPECT_EQ(t, e1000_rings_transmit(&fix->r, &tx), -EINVAL);
	seg.len = 0;
	EXPECT_EQ(t, e1000_rings_transmit(&fix->r, &tx), -EINVAL);
	seg.len = 300;
	tx.flags = NET_TX_CSUM;
	tx.csum_start = 240;
	tx.csum_offset = 16;
	EXPECT_EQ(t, e1000_rings_transmit(&fix->r, &tx), -EINVAL);
	seg.len = 51;
	tx.csum_start = 34;
	EXPECT_EQ(t, e1000_rings_transmit(&fix->r, &tx), -EINVAL);
	EXPECT_EQ(t, fix->r.tx_tail, 0u);
	seg.len = 52;
	EXPECT_EQ(t, e1000_rings_transmit(&fix->r, &tx), 0);
	teardown(t);
}

static void what_a_fenced_card_had_comes_back(struct ktest *t)
{
	ASSERT_TRUE(t, setup());
	EXPECT_EQ(t, transmit(2, 0), 0);
	EXPECT_EQ(t, transmit(2, 34), 0);
	ASSERT_TRUE(t, card_fill(100, WHOLE, 0));
	ASSERT_TRUE(t, card_fill(NET_RXBUF_SIZE + 1, WHOLE, 0));
	ASSERT_TRUE(t, card_fill(100, WHOLE, 0));
	EXPECT_EQ(t, e1000_rings_poll(&fix->r, 64), 1u);
	EXPECT_EQ(t, fix->nr_fences, 1u);
	EXPECT_EQ(t, fix->nr_received, 1u);
	EXPECT_EQ(t, fix->nr_failed, 2u);
	EXPECT_FALSE(t, fix->nd.link_up);
	EXPECT_EQ(t, net_pool_free(&fix->pool), fix->pool.nr);
	EXPECT_EQ(t, transmit(1, 0), -EIO);
	EXPECT_EQ(t, e1000_rings_poll(&fix->r, 64), 0u);
	EXPECT_FALSE(t, e1000_rings_pending(&fix->r));
	/* After a reset it begins anew. */
	EXPECT_EQ(t, e1000_hw_reset(fix->r.regs, model), 0);
	e1000_hw_start(fix->r.regs, model, &fix->r, addr);
	e1000_rings_start(&fix->r);
	fix->rx_at = fix->tx_at = 0;
	EXPECT_EQ(t, transmit(1, 34), 0);
	e1000_rings_kick(&fix->r);
	EXPECT_EQ(t, regs[E1000_TDT / 4], 2u); /* the context is told again */
	ASSERT_TRUE(t, card_fill(100, WHOLE, 0));
	EXPECT_EQ(t, e1000_rings_poll(&fix->r, 64), 1u);
	teardown(t);
}

/* No buffer and no token is lost to a card that writes anything anywhere into its rings. */
static void cards_that_write_anything(struct ktest *t)
{
	struct prng rng;

	prng_seed(&rng, 14);
	for (unsigned int round = 0; round < 500; round++) {
		unsigned int given = 0;

		ASSERT_TRUE(t, setup());
		for (unsigned int step = 0; step < 200; step++) {
			const unsigned int at = (unsigned int)prng_below(&rng, E1000_RING);
			uint8_t *d = prng_below(&rng, 2) ? (uint8_t *)&fix->r.rx[at]
							 : (uint8_t *)&fix->r.tx[at];

			for (unsigned int i = 0; i < sizeof(struct e1000_rx_desc); i++) {
				if (prng_below(&rng, 3) == 0)
					d[i] = (uint8_t)prng_below(&rng, 256);
			}
			if (prng_below(&rng, 8)) /* mostly lengths that can be */
				fix->r.rx[at].len = cpu_to_le16((uint16_t)prng_below(&rng, 2049));
			given += !transmit(1 + (unsigned int)prng_below(&rng, 3),
					   prng_below(&rng, 2) ? 34 : 0);
			e1000_rings_kick(&fix->r);
			e1000_rings_poll(&fix->r, 8);
		}
		fix->r.dead = true;
		e1000_rings_bury(&fix->r);
		EXPECT_EQ(t, fix->nr_sent + fix->nr_failed, given);
		teardown(t);
	}
}

static const struct ktest_case cases[] = {
	KTEST(it_is_set_up),
	KTEST(cards_that_do_not_answer),
	KTEST(frames_arrive),
	KTEST(frames_of_no_use_are_dropped),
	KTEST(a_user_that_keeps_frames_gets_no_more),
	KTEST(frames_leave),
	KTEST(frames_that_do_not_fit),
	KTEST(what_a_fenced_card_had_comes_back),
	KTEST(cards_that_write_anything),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "drivers.e1000", .cases = cases };
KTEST_SUITE(suite);
