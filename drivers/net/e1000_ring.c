/* SPDX-License-Identifier: MIT */
/*
 * The rings of an Intel gigabit card: buffers in, frames out.
 *
 * Flow:	receive: every free buffer of the pool that the ring has room for is the card's;
 *		polling takes what it has filled and fills the ring again. transmit: a frame takes a
 *		descriptor for each segment, and one before it when the place of its checksum is
 *		another than the last frame's. The card marks the last one when it has read all.
 * Ordering:	descriptor fields, dma_wmb(), then the tail register; the DD bit, dma_rmb(), then
 *		the rest of the descriptor.
 * Locking:	the receive side belongs to the polling thread. The lock guards the transmit side;
 *		the user's functions are called without it.
 * Failure:	the card writes nothing of a descriptor that is used afterwards but lengths and
 *		marks: buffers and tokens are the driver's own lists. A length that cannot be fences
 *		the card, and e1000_rings_bury() gives back what it had.
 */
#include "e1000.h"

#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/kmap.h>

#define RING_LEN    (E1000_RING * sizeof(struct e1000_rx_desc))
#define AFTER(i)    (((i) + 1) % E1000_RING)
#define MAX_CSUM_AT 255u /* the card has 8 bits for the place of a checksum */

int e1000_rings_init(struct e1000_rings *r)
{
	spin_lock_init(&r->lock, "e1000", RANK_SPIN_QUEUE);
	r->dead = true;
	r->rx = dma_alloc(RING_LEN, &r->rx_paddr);
	r->tx = dma_alloc(RING_LEN, &r->tx_paddr);
	if (r->rx && r->tx)
		return 0;
	e1000_rings_free(r);
	return -ENOMEM;
}

void e1000_rings_free(struct e1000_rings *r)
{
	if (r->rx)
		dma_free(r->rx, RING_LEN);
	if (r->tx)
		dma_free(r->tx, RING_LEN);
	r->rx = NULL;
	r->tx = NULL;
}

/* --- receiving ----------------------------------------------------------------------- */

static void rx_fill(struct e1000_rings *r)
{
	const unsigned int before = r->rx_fill;
	struct net_rxbuf *buf;

	while (AFTER(r->rx_fill) != r->rx_next && (buf = net_rxbuf_get(r->pool)) != NULL) {
		ASSERT(!r->bufs[r->rx_fill]);
		r->bufs[r->rx_fill] = buf;
		r->rx[r->rx_fill] = (struct e1000_rx_desc){ .addr = cpu_to_le64(buf->paddr) };
		r->rx_fill = AFTER(r->rx_fill);
	}
	if (r->rx_fill == before)
		return;
	dma_wmb();
	e1000_write(r->regs, E1000_RDT, r->rx_fill);
}

/* A frame that the card has written into @buf, which goes to the user or back to the pool. */
static void rx_frame(struct e1000_rings *r, struct net_rxbuf *buf, const struct e1000_rx_desc *d)
{
	const bool last = d->status & E1000_RXD_EOP;
	const uint32_t len = le16_to_cpu(d->len);

	if (!last || r->rx_skip || (d->errors & E1000_RXD_ERR_FRAME) || len < NET_HEADER_LEN ||
	    len > E1000_MAX_FRAME) {
		/* Longer than we let in: it is counted at its end. */
		r->rx_skip = !last;
		r->stats.rx_dropped += last;
		net_frame_free(buf);
		return;
	}
	buf->len = buf->frame_len = len;
	if ((d->status & E1000_RXD_TCPCS) && !(d->status & E1000_RXD_IXSM) &&
	    !(d->errors & E1000_RXD_ERR_TCPE))
		buf->flags |= NET_RX_CSUM_OK;
	r->stats.rx_frames++;
	r->stats.rx_bytes += len;
	r->nd->user->received(r->nd, buf);
}

/* Take one descriptor that the card has done with. False: there is none. */
static bool rx_take(struct e1000_rings *r)
{
	struct net_rxbuf *buf = r->bufs[r->rx_next];
	struct e1000_rx_desc d;

	if (!buf || !(READ_ONCE(r->rx[r->rx_next].status) & E1000_RXD_DD))
		return false;
	dma_rmb();
	memcpy(&d, &r->rx[r->rx_next], sizeof(d)); /* once: the card may change it */
	r->bufs[r->rx_next] = NULL;
	r->rx_next = AFTER(r->rx_next);
	if (le16_to_cpu(d.len) > NET_RXBUF_SIZE) {
		net_frame_free(buf);
		r->fence(r, "has written more than a buffer");
		return false;
	}
	rx_frame(r, buf, &d);
	return true;
}

/* --- transmitting -------------------------------------------------------------------- */

static unsigned int tx_room_locked(const struct e1000_rings *r) __must_hold(&r->lock)
{
	assert_spin_held(&r->lock);
	return (r->tx_clean + E1000_RING - r->tx_tail - 1) % E1000_RING;
}

static struct e1000_tx_desc *tx_next_locked(struct e1000_rings *r) __must_hold(&r->lock)
{
	struct e1000_tx_desc *d = &r->tx[r->tx_tail];

	assert_spin_held(&r->lock);
	ASSERT(!r->tokens[r->tx_tail]);
	r->tx_tail = AFTER(r->tx_tail);
	return d;
}

static bool needs_context_locked(const struct e1000_rings *r, const struct net_tx *tx)
	__must_hold(&r->lock)
{
	assert_spin_held(&r->lock);
	return (tx->flags & NET_TX_CSUM) && (!r->has_context || r->csum_start != tx->csum_start ||
					     r->csum_offset != tx->csum_offset);
}

static void put_context_locked(struct e1000_rings *r, const struct net_tx *tx) __must_hold(&r->lock)
{
	const struct e1000_tx_context c = {
		.tucss = (uint8_t)tx->csum_start,
		.tucso = (uint8_t)(tx->csum_start + tx->csum_offset),
		.cmd = cpu_to_le32(E1000_TXD_DEXT),
	};

	assert_spin_held(&r->lock);
	memcpy(tx_next_locked(r), &c, sizeof(c));
	r->has_context = true;
	r->csum_start = tx->csum_start;
	r->csum_offset = tx->csum_offset;
}

static void put_frame_locked(struct e1000_rings *r, const struct net_tx *tx) __must_hold(&r->lock)
{
	const uint8_t options = tx->flags & NET_TX_CSUM ? E1000_TXD_POPT_TXSM : 0;

	assert_spin_held(&r->lock);
	for (unsigned int i = 0; i < tx->nr_segs; i++) {
		const bool last = i + 1 == tx->nr_segs;
		const unsigned int at = r->tx_tail;

		*tx_next_locked(r) = (struct e1000_tx_desc){
			.addr = cpu_to_le64(virt_to_phys(tx->segs[i].buf)),
			.cmd = cpu_to_le32(tx->segs[i].len | E1000_TXD_DATA | E1000_TXD_DEXT |
					   E1000_TXD_IFCS |
					   (last ? E1000_TXD_EOP | E1000_TXD_RS : 0)),
			.options = options,
		};
		if (last)
			r->tokens[at] = tx->token;
	}
}

int e1000_rings_transmit(struct e1000_rings *r, const struct net_tx *tx)
{
	unsigned long flags;
	uint64_t bytes = 0;
	int err = 0;

	for (unsigned int i = 0; i < tx->nr_segs; i++) {
		if (!tx->segs[i].len)
			return -EINVAL; /* the manual forbids it */
		bytes += tx->segs[i].len;
	}
	if (bytes > E1000_MAX_FRAME ||
	    ((tx->flags & NET_TX_CSUM) &&
	     (tx->csum_start + tx->csum_offset > MAX_CSUM_AT ||
	      tx->csum_start + tx->csum_offset + sizeof(uint16_t) > bytes)))
		return -EINVAL;
	flags = spin_lock_irqsave(&r->lock);
	if (READ_ONCE(r->dead)) {
		err = -EIO;
	} else if (tx_room_locked(r) < tx->nr_segs + needs_context_locked(r, tx)) {
		r->stats.tx_full++;
		r->tx_full = true;
		err = -ENOSPC;
	} else {
		if (needs_context_locked(r, tx))
			put_context_locked(r, tx);
		put_frame_locked(r, tx);
		r->stats.tx_frames++;
		r->stats.tx_bytes += bytes;
	}
	spin_unlock_irqrestore(&r->lock, flags);
	return err;
}

void e1000_rings_kick(struct e1000_rings *r)
{
	const unsigned long flags = spin_lock_irqsave(&r->lock);

	if (r->tx_told != r->tx_tail && !READ_ONCE(r->dead)) {
		dma_wmb();
		e1000_write(r->regs, E1000_TDT, r->tx_tail);
		r->tx_told = r->tx_tail;
	}
	spin_unlock_irqrestore(&r->lock, flags);
}

/* The last descriptor of the oldest frame; the ring's size: there is none. */
static unsigned int oldest_locked(const struct e1000_rings *r) __must_hold(&r->lock)
{
	unsigned int at = r->tx_clean;

	assert_spin_held(&r->lock);
	while (at != r->tx_tail && !r->tokens[at])
		at = AFTER(at);
	return at == r->tx_tail ? E1000_RING : at;
}

static bool oldest_is_done_locked(const struct e1000_rings *r) __must_hold(&r->lock)
{
	const unsigned int at = oldest_locked(r);

	assert_spin_held(&r->lock);
	return at != E1000_RING && (READ_ONCE(r->tx[at].status) & E1000_TXD_DD);
}

/* The token of the oldest frame, which leaves the ring; NULL. */
static void *take_oldest_locked(struct e1000_rings *r) __must_hold(&r->lock)
{
	const unsigned int at = oldest_locked(r);
	void *token;

	assert_spin_held(&r->lock);
	if (at == E1000_RING)
		return NULL;
	token = r->tokens[at];
	r->tokens[at] = NULL;
	r->tx_clean = AFTER(at);
	r->tx_full = false;
	return token;
}

static void reap(struct e1000_rings *r)
{
	void *token;

	do {
		const unsigned long flags = spin_lock_irqsave(&r->lock);

		token = oldest_is_done_locked(r) ? take_oldest_locked(r) : NULL;
		spin_unlock_irqrestore(&r->lock, flags);
		if (token)
			r->nd->user->sent(r->nd, token, 0);
	} while (token);
}

/* --- both ---------------------------------------------------------------------------- */

void e1000_rings_start(struct e1000_rings *r)
{
	const unsigned long flags = spin_lock_irqsave(&r->lock);

	ASSERT(r->dead);
	memset(r->rx, 0, RING_LEN);
	memset(r->tx, 0, RING_LEN);
	r->tx_tail = r->tx_clean = r->tx_told = 0;
	r->tx_full = false;
	r->has_context = false;
	r->rx_next = r->rx_fill = 0;
	r->rx_skip = false;
	WRITE_ONCE(r->dead, false);
	spin_unlock_irqrestore(&r->lock, flags);
	rx_fill(r);
}

unsigned int e1000_rings_poll(struct e1000_rings *r, unsigned int budget)
{
	unsigned int nr = 0;

	if (!READ_ONCE(r->dead))
		reap(r);
	while (!READ_ONCE(r->dead) && nr < budget && rx_take(r))
		nr++;
	if (READ_ONCE(r->dead))
		e1000_rings_bury(r);
	else
		rx_fill(r);
	return nr;
}

bool e1000_rings_wants_tx(struct e1000_rings *r)
{
	const unsigned long flags = spin_lock_irqsave(&r->lock);
	const bool wants = r->tx_full;

	spin_unlock_irqrestore(&r->lock, flags);
	return wants;
}

bool e1000_rings_pending(struct e1000_rings *r)
{
	unsigned long flags;
	bool pending;

	if (READ_ONCE(r->dead))
		return false;
	if (r->bufs[r->rx_next] && (READ_ONCE(r->rx[r->rx_next].status) & E1000_RXD_DD))
		return true;
	flags = spin_lock_irqsave(&r->lock);
	pending = r->tx_full && oldest_is_done_locked(r);
	spin_unlock_irqrestore(&r->lock, flags);
	return pending;
}

void e1000_rings_bury(struct e1000_rings *r)
{
	void *token;

	ASSERT(READ_ONCE(r->dead));
	WRITE_ONCE(r->nd->link_up, false);
	for (unsigned int i = 0; i < E1000_RING; i++) {
		net_frame_free(r->bufs[i]);
		r->bufs[i] = NULL;
	}
	do {
		const unsigned long flags = spin_lock_irqsave(&r->lock);

		token = take_oldest_locked(r);
		spin_unlock_irqrestore(&r->lock, flags);
		if (token)
			r->nd->user->sent(r->nd, token, -EIO);
	} while (token);
}
