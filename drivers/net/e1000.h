/* SPDX-License-Identifier: MIT */
/*
 * Intel gigabit cards, 82540EM (e1000) and 82574L (e1000e): registers, descriptors, and what the
 * files of the driver share. Names follow the manuals (PCI/PCI-X Family of Gigabit Ethernet
 * Controllers; 82574 GbE Controller Family).
 */
#pragma once

#include <arch/io.h>
#include <drivers/netdev.h>
#include <kernel/spinlock.h>
#include <lib/byteorder.h>
#include <lib/compiler.h>

/* Registers, by their offset. */
enum e1000_reg {
	E1000_CTRL = 0x0000,
	E1000_STATUS = 0x0008,
	E1000_EERD = 0x0014,
	E1000_CTRL_EXT = 0x0018,
	E1000_ICR = 0x00c0, /* reading clears it, if nothing is enabled */
	E1000_IMS = 0x00d0,
	E1000_IMC = 0x00d8,
	E1000_IVAR = 0x00e4, /* 82574 */
	E1000_RCTL = 0x0100,
	E1000_TCTL = 0x0400,
	E1000_TIPG = 0x0410,
	E1000_RDBAL = 0x2800,
	E1000_RDBAH = 0x2804,
	E1000_RDLEN = 0x2808,
	E1000_RDH = 0x2810,
	E1000_RDT = 0x2818,
	E1000_RDTR = 0x2820,
	E1000_TDBAL = 0x3800,
	E1000_TDBAH = 0x3804,
	E1000_TDLEN = 0x3808,
	E1000_TDH = 0x3810,
	E1000_TDT = 0x3818,
	E1000_RXCSUM = 0x5000,
	E1000_MTA = 0x5200, /* 128 words: one bit for each hash of a multicast address */
	E1000_RAL0 = 0x5400,
	E1000_RAH0 = 0x5404,
	E1000_REGS_LEN = 0x5408, /* of what the driver uses */
};
#define E1000_MTA_WORDS 128u

static inline uint32_t e1000_read(void __iomem *regs, unsigned int reg)
{
	return mmio_read32((uint8_t __iomem *)regs + reg);
}

static inline void e1000_write(void __iomem *regs, unsigned int reg, uint32_t val)
{
	mmio_write32((uint8_t __iomem *)regs + reg, val);
}

#define E1000_CTRL_GIO_MASTER_DISABLE BIT(2) /* 82574 */
#define E1000_CTRL_LRST               BIT(3)
#define E1000_CTRL_ASDE               BIT(5)
#define E1000_CTRL_SLU                BIT(6)
#define E1000_CTRL_ILOS               BIT(7)
#define E1000_CTRL_RST                BIT(26)
#define E1000_CTRL_VME                BIT(30)
#define E1000_CTRL_PHY_RST            BIT(31)
#define E1000_CTRL_EXT_PBA_SUPPORT    BIT(31) /* 82574: MSI-X */

#define E1000_STATUS_LU                BIT(1)
#define E1000_STATUS_GIO_MASTER_ENABLE BIT(19)

#define E1000_ICR_TXDW   BIT(0)
#define E1000_ICR_LSC    BIT(2)
#define E1000_ICR_RXDMT0 BIT(4)
#define E1000_ICR_RXO    BIT(6)
#define E1000_ICR_RXT0   BIT(7)
/* 82574 with MSI-X. */
#define E1000_ICR_RXQ0   BIT(20)
#define E1000_ICR_TXQ0   BIT(22)
#define E1000_ICR_OTHER  BIT(24)

#define E1000_IVAR_ALL_TO_0 (BIT(3) | BIT(11) | BIT(19)) /* receive, transmit, other */

#define E1000_RCTL_EN    BIT(1)
#define E1000_RCTL_UPE   BIT(3)
#define E1000_RCTL_MPE   BIT(4)
#define E1000_RCTL_BAM   BIT(15)
#define E1000_RCTL_SECRC BIT(26)

#define E1000_TCTL_EN         BIT(1)
#define E1000_TCTL_PSP        BIT(3)
#define E1000_TCTL_CT_SHIFT   4
#define E1000_TCTL_COLD_SHIFT 12

#define E1000_RXCSUM_IPOFL BIT(8)
#define E1000_RXCSUM_TUOFL BIT(9)

#define E1000_RAH_AV BIT(31)

/* A received frame, or a part of it. The card writes all of it. */
struct e1000_rx_desc {
	le64_t addr;
	le16_t len;
	le16_t csum;
	uint8_t status; /* E1000_RXD_* */
	uint8_t errors; /* E1000_RXD_ERR_* */
	le16_t special;
};
static_assert(sizeof(struct e1000_rx_desc) == 16, "e1000_rx_desc is hardware layout");
static_assert(offsetof(struct e1000_rx_desc, status) == 12, "e1000_rx_desc is hardware layout");

#define E1000_RXD_DD    0x01u
#define E1000_RXD_EOP   0x02u
#define E1000_RXD_IXSM  0x04u /* it has checked no checksum */
#define E1000_RXD_TCPCS 0x20u /* it has checked that of TCP or UDP */

#define E1000_RXD_ERR_CE   0x01u
#define E1000_RXD_ERR_SE   0x02u
#define E1000_RXD_ERR_SEQ  0x04u
#define E1000_RXD_ERR_CXE  0x10u
#define E1000_RXD_ERR_TCPE 0x20u
#define E1000_RXD_ERR_RXE  0x80u
#define E1000_RXD_ERR_FRAME                                                            \
	(E1000_RXD_ERR_CE | E1000_RXD_ERR_SE | E1000_RXD_ERR_SEQ | E1000_RXD_ERR_CXE | \
	 E1000_RXD_ERR_RXE)

/* A part of a frame to transmit. The card writes @status once it has read the frame. */
struct e1000_tx_desc {
	le64_t addr;
	le32_t cmd; /* length, E1000_TXD_* */
	uint8_t status;
	uint8_t options; /* E1000_TXD_POPT_* */
	le16_t special;
};
static_assert(sizeof(struct e1000_tx_desc) == 16, "e1000_tx_desc is hardware layout");
static_assert(offsetof(struct e1000_tx_desc, status) == 12, "e1000_tx_desc is hardware layout");

/* Where the checksums of the frames behind it are. */
struct e1000_tx_context {
	uint8_t ipcss, ipcso;
	le16_t ipcse;
	uint8_t tucss; /* where the sum begins */
	uint8_t tucso; /* where it goes */
	le16_t tucse;  /* its last byte; 0: the end */
	le32_t cmd;
	uint8_t status;
	uint8_t hdr_len;
	le16_t mss;
};
static_assert(sizeof(struct e1000_tx_context) == 16, "e1000_tx_context is hardware layout");

#define E1000_TXD_DATA      BIT(20) /* with DEXT: a data descriptor, else a context */
#define E1000_TXD_EOP       BIT(24)
#define E1000_TXD_IFCS      BIT(25)
#define E1000_TXD_RS        BIT(27)
#define E1000_TXD_DEXT      BIT(29)
#define E1000_TXD_DD        0x01u
#define E1000_TXD_POPT_TXSM 0x02u

#define E1000_RING      256u
#define E1000_MAX_FRAME (NET_HEADER_LEN + NET_MTU_DEFAULT)
#define E1000_TX_DESCS  (NET_TX_MAX_SEGS + 1) /* that one frame takes at most */

/* Both rings of a card. */
struct e1000_rings {
	struct netdev *nd;                                     /* const */
	void __iomem *regs;                                    /* const */
	struct net_pool *pool;                                 /* const */
	void (*fence)(struct e1000_rings *r, const char *why); /* const: stop the card */
	paddr_t rx_paddr, tx_paddr;                            /* const */
	bool dead;                                             /* atomic: fenced or stopped */

	/* Receive: the polling thread. */
	struct e1000_rx_desc *rx;
	struct net_rxbuf *bufs[E1000_RING]; /* NULL: the card has none there */
	unsigned int rx_next;               /* the card fills this one next */
	unsigned int rx_fill; /* the next to get a buffer; one before rx_next stays empty */
	bool rx_skip;         /* the rest of a frame that is dropped */

	struct spinlock lock;     /* RANK_SPIN_QUEUE */
	struct e1000_tx_desc *tx; /* const; the descriptors: lock */
	/* At the last descriptor of a frame: its token. */
	void *tokens[E1000_RING] __guarded_by(&lock);
	unsigned int tx_tail __guarded_by(&lock);  /* the next free descriptor */
	unsigned int tx_clean __guarded_by(&lock); /* the oldest that the card has */
	unsigned int tx_told __guarded_by(&lock);  /* as far as the card knows */
	bool tx_full __guarded_by(&lock);          /* a caller waits for room */
	bool has_context __guarded_by(&lock);      /* of the two fields below */
	uint16_t csum_start __guarded_by(&lock), csum_offset __guarded_by(&lock);
	struct netdev_stats stats; /* each by whoever holds its ring; read without */
};

/* --- e1000_ring.c -------------------------------------------------------------------- */

int __must_check e1000_rings_init(struct e1000_rings *r);
void e1000_rings_free(struct e1000_rings *r);
/* The card was reset: everything begins anew, and the card gets its buffers. */
void e1000_rings_start(struct e1000_rings *r);
int __must_check e1000_rings_transmit(struct e1000_rings *r, const struct net_tx *tx);
void e1000_rings_kick(struct e1000_rings *r);
unsigned int e1000_rings_poll(struct e1000_rings *r, unsigned int budget);
/* Does the user wait for the end of transmits? */
bool e1000_rings_wants_tx(struct e1000_rings *r);
/* Is there something to poll? */
bool e1000_rings_pending(struct e1000_rings *r);
/* The card is fenced or stopped: everything comes back. */
void e1000_rings_bury(struct e1000_rings *r);

/* --- e1000_hw.c: registers ----------------------------------------------------------- */

/* Which of the two. */
enum e1000_model {
	E1000_82540EM,
	E1000_82574L,
};

/* No interrupts, no DMA. -EIO: the card does not answer. */
int __must_check e1000_hw_reset(void __iomem *regs, enum e1000_model model);
/* The address of its EEPROM. -EIO: it has none that makes sense. */
int __must_check e1000_hw_read_addr(void __iomem *regs, enum e1000_model model,
				    uint8_t addr[NET_ADDR_LEN]);
/* Tell it the rings, receive and transmit. */
void e1000_hw_start(void __iomem *regs, enum e1000_model model, const struct e1000_rings *r,
		    const uint8_t addr[NET_ADDR_LEN]);
void e1000_hw_set_filter(void __iomem *regs, const struct net_filter *f);
bool e1000_hw_link_is_up(void __iomem *regs);
