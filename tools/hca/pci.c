/* SPDX-License-Identifier: MIT */
/*
 * HCA model: conventional configuration space and MSI-X.
 *
 * The MSI-X table lies in BAR0.  A vector that fires while it is masked, or
 * while MSI-X is off, stays pending and fires when it is let through.
 * A vendor-specific capability, which no board has, tells a driver that this is
 * a model and what its front end asks for (docs/tools/hca.md).
 */
#include "hca.h"

#define CFG_COMMAND     0x04
#define CFG_MASTER      0x04
#define CFG_STATUS      0x06
#define CFG_BAR0        0x10
#define CFG_SUBSYS      0x2c
#define CFG_CAP_PTR     0x34
#define MSIX_CAP        0x9c
#define MSIX_CTRL       (MSIX_CAP + 2)
#define MSIX_ENABLE     0x8000
#define MSIX_FUNC_MASK  0x4000
#define MSIX_ENTRY_MASK 1u
#define HINT_CAP        (MSIX_CAP + 12)

void pci_init(struct hca *h)
{
	uint8_t *c = h->cfg;

	memset(c, 0, sizeof(h->cfg));
	c[0] = PCI_VENDOR_MELLANOX & 0xff;
	c[1] = PCI_VENDOR_MELLANOX >> 8;
	c[2] = PCI_DEVICE_CX3 & 0xff;
	c[3] = PCI_DEVICE_CX3 >> 8;
	c[CFG_STATUS] = 0x10; /* has capabilities */
	c[0x0a] = 0x80;       /* class 02 80 00: network, other */
	c[0x0b] = 0x02;
	memcpy(c + CFG_SUBSYS, c, 2);
	c[CFG_SUBSYS + 2] = 0x50;
	c[CFG_BAR0] = 0x04;     /* 64 bits */
	c[CFG_BAR0 + 8] = 0x0c; /* 64 bits, prefetchable */
	c[CFG_CAP_PTR] = MSIX_CAP;
	c[MSIX_CAP] = 0x11;
	c[MSIX_CAP + 1] = HINT_CAP;
	c[MSIX_CTRL] = NR_MSIX - 1;
	c[MSIX_CAP + 5] = (MSIX_TABLE >> 8) & 0xff; /* table in BAR0 */
	c[MSIX_CAP + 6] = MSIX_TABLE >> 16;
	c[MSIX_CAP + 9] = (MSIX_PBA >> 8) & 0xff;
	c[MSIX_CAP + 10] = MSIX_PBA >> 16;
	c[HINT_CAP] = 0x09; /* vendor specific */
	c[HINT_CAP + 2] = HINT_LEN;
	c[HINT_CAP + 3] = HINT_VERSION;
	memcpy(c + HINT_CAP + 4, HINT_MAGIC, 4);
	for (unsigned i = 0; i < NR_MSIX; i++)
		h->msix[i] = (struct msix_entry){ .ctrl = MSIX_ENTRY_MASK };
	h->msix_pending = 0;
}

void pci_device_reset(struct hca *h)
{
	h->was_reset = true;
	hca_reset(h);
	pci_init(h);
}

bool pci_is_master(const struct hca *h)
{
	return h->cfg[CFG_COMMAND] & CFG_MASTER;
}

uint32_t pci_cfg_read(struct hca *h, uint32_t off, unsigned len)
{
	uint32_t v = 0;

	if (len > 4 || off >= sizeof(h->cfg) || len > sizeof(h->cfg) - off)
		return ~0u;
	h->cfg[HINT_CAP + 8] = HINT_EMULATED | (h->front->one_at_once ? HINT_ONE_AT_ONCE : 0) |
			       (h->front->answer ? HINT_WAIT : 0);
	memcpy(&v, h->cfg + off, len);
	return v;
}

static uint16_t msix_ctrl(const struct hca *h)
{
	return (uint16_t)(h->cfg[MSIX_CTRL] | h->cfg[MSIX_CTRL + 1] << 8);
}

static bool msix_open(const struct hca *h, unsigned vector)
{
	const uint16_t ctrl = msix_ctrl(h);

	return pci_is_master(h) && (ctrl & MSIX_ENABLE) && !(ctrl & MSIX_FUNC_MASK) &&
	       !(h->msix[vector].ctrl & MSIX_ENTRY_MASK);
}

static void msix_flush(struct hca *h)
{
	for (unsigned i = 0; h->msix_pending && i < NR_MSIX; i++) {
		if (!(h->msix_pending & BIT(i)) || h->front->keeps_msix || !msix_open(h, i))
			continue;
		h->msix_pending &= ~BIT(i);
		msix_raise(h, i);
	}
}

/* Bits of byte @off that a write may change. */
static uint8_t writable(const struct hca *h, uint32_t off)
{
	if (off >= CFG_BAR0 && off < CFG_BAR0 + 24) {
		const unsigned bar = (off - CFG_BAR0) / 4, byte = off & 3;
		const uint32_t mask = bar == 0   ? ~(BAR0_SIZE - 1)
				      : bar == 2 ? ~(BAR2_SIZE - 1)
						 : ~0u;

		if (bar > 3 || ((bar & 1) && !h->was_reset))
			return 0; /* QEMU sizes each BAR alone before the first reset */
		return (uint8_t)(mask >> (byte * 8));
	}
	switch (off) {
	case CFG_COMMAND:
		return 0x46; /* memory, bus master, parity */
	case CFG_COMMAND + 1:
		return 0x05; /* SERR, INTx off */
	case 0x0c:
	case 0x3c:
		return 0xff;
	case MSIX_CTRL + 1:
		return (MSIX_ENABLE | MSIX_FUNC_MASK) >> 8;
	default:
		return 0;
	}
}

void pci_cfg_write(struct hca *h, uint32_t off, uint32_t val, unsigned len)
{
	if (len > 4 || off >= sizeof(h->cfg) || len > sizeof(h->cfg) - off)
		return;
	for (unsigned i = 0; i < len; i++) {
		const uint8_t mask = writable(h, off + i);
		uint8_t *b = &h->cfg[off + i];

		*b = (uint8_t)((*b & ~mask) | ((val >> (i * 8)) & mask));
	}
	msix_flush(h);
}

static uint64_t bar_base(const struct hca *h, unsigned bar)
{
	uint64_t v;

	memcpy(&v, h->cfg + CFG_BAR0 + bar * 4, sizeof(v));
	return v & ~0xfull;
}

/* Which BAR is bus address @addr in? */
bool pci_bar_locate(struct hca *h, uint64_t addr, unsigned *bar, uint64_t *off)
{
	static const struct {
		unsigned bar;
		uint64_t size;
	} bars[] = { { 0, BAR0_SIZE }, { 2, BAR2_SIZE } };

	for (size_t i = 0; i < ARRAY_SIZE(bars); i++) {
		const uint64_t base = bar_base(h, bars[i].bar);

		if (!base || addr < base || addr - base >= bars[i].size)
			continue;
		*bar = bars[i].bar;
		*off = addr - base;
		return true;
	}
	return false;
}

void msix_raise(struct hca *h, unsigned vector)
{
	if (vector >= NR_MSIX)
		return;
	if (h->front->keeps_msix ? !pci_is_master(h) : !msix_open(h, vector)) {
		h->msix_pending |= BIT(vector);
		return;
	}
	h->stats.interrupts++;
	h->front->msi(h, vector, h->msix[vector].addr, h->msix[vector].data);
}

uint64_t msix_read(struct hca *h, uint32_t off, unsigned size)
{
	const uint8_t *table = (const uint8_t *)h->msix;
	uint64_t v = 0;

	if (off >= MSIX_PBA)
		return off == MSIX_PBA ? h->msix_pending : 0;
	off -= MSIX_TABLE;
	if (size <= 8 && off + size <= sizeof(h->msix))
		memcpy(&v, table + off, size);
	return v;
}

void msix_write(struct hca *h, uint32_t off, uint64_t val, unsigned size)
{
	off -= MSIX_TABLE;
	if ((size != 4 && size != 8) || off + size > sizeof(h->msix)) {
		h->stats.bad_accesses++;
		return;
	}
	memcpy((uint8_t *)h->msix + off, &val, size);
	msix_flush(h);
}
