/* SPDX-License-Identifier: MIT */
/*
 * HCA model: the two memory BARs.
 *
 * BAR0 holds the command register, reset, semaphore and the MSI-X table; BAR2
 * the UAR pages with the doorbells and, where offered, the BlueFlame pages. Values are
 * little-endian numbers, as the CPU stored them; the registers' fields are big-endian.
 */
#include "hca.h"

#define UAR_SEND   0x14u
#define UAR_CQ_ARM 0x20u
#define UAR_EQ     0x800u
#define UAR_EQ_END 0x820u

static uint32_t hcr_read(const struct hca *h, uint32_t off)
{
	uint32_t v;

	memcpy(&v, (const uint8_t *)&h->hcr + (off - REG_HCR), sizeof(v));
	return v;
}

static void hcr_write(struct hca *h, uint32_t off, uint32_t val)
{
	const bool go = off == REG_HCR_WORD && swap_be32(val) & HCR_GO;

	memcpy((uint8_t *)&h->hcr + (off - REG_HCR), &val, sizeof(val));
	if (go && !h->hcr_stuck && !h->dead)
		cmd_run_hcr(h);
}

static uint64_t bar0_read32(struct hca *h, uint32_t off)
{
	if (off >= REG_HCR && off < REG_HCR_END)
		return hcr_read(h, off);
	if (off >= REG_ERRBUF && off < REG_ERRBUF + ERRBUF_DWORDS * 4)
		return swap_be32(h->errbuf[(off - REG_ERRBUF) / 4]);
	switch (off) {
	case REG_OWNER:
		if (h->owned)
			return swap_be32(1);
		h->owned = true;
		return 0;
	case REG_CLOCK:
		return swap_be32((uint32_t)(host_time_ns() >> 32));
	case REG_CLOCK + 4:
		return swap_be32((uint32_t)host_time_ns());
	default:
		return 0; /* the semaphore is always free */
	}
}

static void bar0_write32(struct hca *h, uint32_t off, uint32_t val)
{
	if (off >= REG_HCR && off < REG_HCR_END) {
		hcr_write(h, off, val);
		return;
	}
	switch (off) {
	case REG_OWNER:
		if (val == 0)
			h->owned = false;
		break;
	case REG_RESET:
		if (swap_be32(val) & 1)
			hca_reset(h);
		break;
	default:
		break;
	}
}

uint64_t bar_read(struct hca *h, unsigned bar, uint64_t off, unsigned size)
{
	uint64_t v;

	h->stats.mmio++;
	if (bar != 0 || off >= BAR0_SIZE || off & (size - 1)) {
		h->stats.bad_accesses += bar != 2;
		return 0;
	}
	if (off >= MSIX_TABLE && off < MSIX_PBA + 8)
		return msix_read(h, (uint32_t)off, size);
	if (size == 8) {
		v = bar0_read32(h, (uint32_t)off);
		return v | bar0_read32(h, (uint32_t)off + 4) << 32;
	}
	if (size == 4)
		return bar0_read32(h, (uint32_t)off);
	h->stats.bad_accesses++;
	return 0;
}

static void uar_write(struct hca *h, uint64_t off, uint64_t val, unsigned size)
{
	const uint32_t page = (uint32_t)(off >> 12), in = off & 4095;
	const uint32_t lo = swap_be32((uint32_t)val);

	if (h->dead)
		return;
	if (h->stage != STAGE_READY || page >= h->nr_uars) {
		h->stats.bad_doorbells++;
		return;
	}
	if (in == UAR_SEND && size == 4) {
		qp_doorbell(h, lo >> 8);
	} else if (in == UAR_CQ_ARM && size == 8) {
		cq_doorbell(h, lo, swap_be32((uint32_t)(val >> 32)));
	} else if (in == UAR_CQ_ARM && size == 4) {
		h->arm_hi = lo;
		h->arm_half = true;
	} else if (in == UAR_CQ_ARM + 4 && size == 4 && h->arm_half) {
		h->arm_half = false;
		cq_doorbell(h, h->arm_hi, lo);
	} else if (in >= UAR_EQ && in < UAR_EQ_END && size == 4 && !(in & 7)) {
		eq_doorbell(h, page * 4 + (in - UAR_EQ) / 8, lo);
	} else {
		h->stats.bad_doorbells++;
	}
}

void bar_write(struct hca *h, unsigned bar, uint64_t off, uint64_t val, unsigned size)
{
	h->stats.mmio++;
	if (bar == 2 && off < BAR2_SIZE) {
		if (h->fabric->blueflame && off >> LOG_BF_UAR)
			bf_write(h, off & (BIT(LOG_BF_UAR) - 1), val, size);
		else
			uar_write(h, off, val, size);
		return;
	}
	if (bar != 0 || off >= BAR0_SIZE || off & (size - 1)) {
		h->stats.bad_accesses++;
		return;
	}
	if (off >= MSIX_TABLE && off < MSIX_PBA) {
		msix_write(h, (uint32_t)off, val, size);
		return;
	}
	if (size == 8) {
		bar0_write32(h, (uint32_t)off, (uint32_t)val);
		bar0_write32(h, (uint32_t)off + 4, (uint32_t)(val >> 32));
	} else if (size == 4) {
		bar0_write32(h, (uint32_t)off, (uint32_t)val);
	} else {
		h->stats.bad_accesses++;
	}
}
