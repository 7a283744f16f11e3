/* SPDX-License-Identifier: MIT */
/*
 * Registers of Intel gigabit cards: reset, address, start, filter, link.
 *
 * Context:	threads; e1000_hw_link_is_up() any.
 * Failure:	every wait has an end; a card that does not answer is refused.
 */
#include "e1000.h"

#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/string.h>

#define WAIT_LIMIT_NS  (100 * NSEC_PER_MSEC)
#define WAIT_STEP_NS   (NSEC_PER_MSEC / 10)
#define RESET_NS       NSEC_PER_MSEC /* in which the manual forbids accesses */
#define GONE           UINT32_MAX    /* what a missing card reads as */
#define EERD_START     BIT(0)
#define EERD_ADDR_MASK 0xffffu
#define ADDR_WORDS     3u
#define TIPG_COPPER    (8u | 8u << 10 | 6u << 20)
#define TXDCTL         0x3828u /* 82574 */
#define TXDCTL_MUST    BIT(22)
#define COLLISIONS     15u
#define DISTANCE       0x40u

static bool wait_for(void __iomem *regs, enum e1000_reg reg, uint32_t mask, uint32_t want)
{
	const uint64_t end = time_after_ns(WAIT_LIMIT_NS);

	while ((e1000_read(regs, reg) & mask) != want) {
		if (time_now_ns() >= end)
			return false;
		thread_sleep_ns(WAIT_STEP_NS);
	}
	return true;
}

int e1000_hw_reset(void __iomem *regs, enum e1000_model model)
{
	uint32_t ctrl;

	if (e1000_read(regs, E1000_STATUS) == GONE)
		return -EIO;
	e1000_write(regs, E1000_IMC, UINT32_MAX);
	e1000_write(regs, E1000_RCTL, 0);
	e1000_write(regs, E1000_TCTL, E1000_TCTL_PSP);
	ctrl = e1000_read(regs, E1000_CTRL);
	if (model == E1000_82574L) {
		/* Let its writes arrive first. As Linux, go on if it stays busy. */
		e1000_write(regs, E1000_CTRL, ctrl | E1000_CTRL_GIO_MASTER_DISABLE);
		(void)wait_for(regs, E1000_STATUS, E1000_STATUS_GIO_MASTER_ENABLE, 0);
	}
	e1000_write(regs, E1000_CTRL, ctrl | E1000_CTRL_RST);
	thread_sleep_ns(RESET_NS);
	if (!wait_for(regs, E1000_CTRL, E1000_CTRL_RST, 0))
		return -EIO;
	e1000_write(regs, E1000_IMC, UINT32_MAX);
	(void)e1000_read(regs, E1000_ICR);
	return 0;
}

/* Word @at of the EEPROM. -EIO */
static int read_eeprom(void __iomem *regs, enum e1000_model model, unsigned int at, uint16_t *out)
{
	const unsigned int shift = model == E1000_82574L ? 2 : 8;
	const uint32_t done = model == E1000_82574L ? BIT(1) : BIT(4);

	e1000_write(regs, E1000_EERD, EERD_START | at << shift);
	if (!wait_for(regs, E1000_EERD, done, done))
		return -EIO;
	*out = (uint16_t)(e1000_read(regs, E1000_EERD) >> 16 & EERD_ADDR_MASK);
	return 0;
}

int e1000_hw_read_addr(void __iomem *regs, enum e1000_model model, uint8_t addr[NET_ADDR_LEN])
{
	const uint32_t low = e1000_read(regs, E1000_RAL0), high = e1000_read(regs, E1000_RAH0);
	uint16_t words[ADDR_WORDS] = { (uint16_t)low, (uint16_t)(low >> 16), (uint16_t)high };
	bool valid = high & E1000_RAH_AV;

	/* A reset loads it from the EEPROM, unless that is of no use. */
	for (unsigned int i = 0; !valid && i < ADDR_WORDS; i++) {
		if (read_eeprom(regs, model, i, &words[i]))
			return -EIO;
	}
	for (unsigned int i = 0; i < NET_ADDR_LEN; i++)
		addr[i] = (uint8_t)(words[i / 2] >> (i % 2 ? 8 : 0));
	return net_addr_is_valid(addr) ? 0 : -EIO;
}

static void put_ring(void __iomem *regs, enum e1000_reg base, paddr_t paddr)
{
	const unsigned int high = E1000_RDBAH - E1000_RDBAL, len = E1000_RDLEN - E1000_RDBAL;
	const unsigned int head = E1000_RDH - E1000_RDBAL, tail = E1000_RDT - E1000_RDBAL;

	e1000_write(regs, base, (uint32_t)paddr);
	e1000_write(regs, base + high, (uint32_t)(paddr >> 32));
	e1000_write(regs, base + len, E1000_RING * sizeof(struct e1000_rx_desc));
	e1000_write(regs, base + head, 0);
	e1000_write(regs, base + tail, 0);
}

void e1000_hw_start(void __iomem *regs, enum e1000_model model, const struct e1000_rings *r,
		    const uint8_t addr[NET_ADDR_LEN])
{
	uint32_t ctrl = e1000_read(regs, E1000_CTRL);

	ctrl &= ~(E1000_CTRL_LRST | E1000_CTRL_ILOS | E1000_CTRL_VME | E1000_CTRL_PHY_RST |
		  E1000_CTRL_GIO_MASTER_DISABLE);
	e1000_write(regs, E1000_CTRL, ctrl | E1000_CTRL_SLU | E1000_CTRL_ASDE);
	e1000_write(regs, E1000_RAL0,
		    (uint32_t)addr[0] | (uint32_t)addr[1] << 8 | (uint32_t)addr[2] << 16 |
			    (uint32_t)addr[3] << 24);
	e1000_write(regs, E1000_RAH0, (uint32_t)addr[4] | (uint32_t)addr[5] << 8 | E1000_RAH_AV);
	for (unsigned int i = 0; i < E1000_MTA_WORDS; i++)
		e1000_write(regs, E1000_MTA + 4 * i, 0);
	put_ring(regs, E1000_RDBAL, r->rx_paddr);
	put_ring(regs, E1000_TDBAL, r->tx_paddr);
	e1000_write(regs, E1000_RDTR, 0);
	e1000_write(regs, E1000_TIPG, TIPG_COPPER);
	if (model == E1000_82574L)
		e1000_write(regs, TXDCTL, e1000_read(regs, TXDCTL) | TXDCTL_MUST);
	e1000_write(regs, E1000_RXCSUM, E1000_RXCSUM_IPOFL | E1000_RXCSUM_TUOFL);
	e1000_write(regs, E1000_TCTL,
		    E1000_TCTL_EN | E1000_TCTL_PSP | COLLISIONS << E1000_TCTL_CT_SHIFT |
			    DISTANCE << E1000_TCTL_COLD_SHIFT);
	/* Until a filter says otherwise every multicast comes in: IPv6 needs some. */
	e1000_write(regs, E1000_RCTL,
		    E1000_RCTL_EN | E1000_RCTL_BAM | E1000_RCTL_MPE | E1000_RCTL_SECRC);
}

void e1000_hw_set_filter(void __iomem *regs, const struct net_filter *f)
{
	uint32_t table[E1000_MTA_WORDS] = { 0 };
	uint32_t rctl = e1000_read(regs, E1000_RCTL) & ~(E1000_RCTL_UPE | E1000_RCTL_MPE);

	/* By 12 bits of the address; others with the same come in as well. */
	for (unsigned int i = 0; i < f->nr_multicast; i++) {
		const uint8_t *a = f->multicast[i];
		const unsigned int hash = (a[4] >> 4 | (unsigned int)a[5] << 4) & 0xfff;

		table[hash / 32] |= BIT(hash % 32);
	}
	for (unsigned int i = 0; i < E1000_MTA_WORDS; i++)
		e1000_write(regs, E1000_MTA + 4 * i, table[i]);
	if (f->promiscuous)
		rctl |= E1000_RCTL_UPE | E1000_RCTL_MPE;
	if (f->all_multicast)
		rctl |= E1000_RCTL_MPE;
	e1000_write(regs, E1000_RCTL, rctl);
}

bool e1000_hw_link_is_up(void __iomem *regs)
{
	const uint32_t status = e1000_read(regs, E1000_STATUS);

	return status != GONE && (status & E1000_STATUS_LU);
}
