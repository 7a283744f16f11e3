/* SPDX-License-Identifier: MIT */
/*
 * One pair of queues of a virtio network device: buffers in, frames out.
 *
 * Flow:	receive: every free buffer of the pool that the ring has room for is the device's;
 *		polling takes what it has filled, makes frames of it, and fills the ring again.
 *		transmit: a slot has the header that goes before the frame; polling takes finished
 *		slots back. The device is asked for an interrupt after a transmit only while a
 *		caller has found the ring full: what is finished costs nothing until the next poll.
 * Locking:	the receive side belongs to the polling thread. The lock guards the transmit side;
 *		the user's functions are called without it.
 * Failure:	a frame that cannot be is dropped and counted; a device that breaks its contract is
 *		fenced, and vnet_queue_bury() gives back what it had.
 */
#include "virtio_net.h"

#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

int vnet_queue_init(struct vnet_queue *q, struct virtq *rx, struct virtq *tx)
{
	const unsigned int nr = virtq_size(tx);
	paddr_t paddr;

	spin_lock_init(&q->lock, "virtio-net", RANK_SPIN_QUEUE);
	q->rx = rx;
	q->tx = tx;
	q->rx_dead = false;
	q->tx_full = false;
	q->free = NULL;
	q->partial = (struct vnet_assembly){ 0 };
	q->hdrs_len = nr * sizeof(struct virtio_net_hdr);
	q->slots = kcalloc(nr, sizeof(*q->slots));
	q->hdrs = dma_alloc(q->hdrs_len, &paddr);
	if (!q->slots || !q->hdrs) {
		vnet_queue_free(q);
		return -ENOMEM;
	}
	for (unsigned int i = 0; i < nr; i++) {
		struct vnet_tx_slot *s = &q->slots[i];

		s->hdr = (struct virtio_net_hdr *)q->hdrs + i;
		s->paddr = paddr + i * sizeof(*s->hdr);
		s->next = q->free;
		q->free = s;
	}
	virtq_quiet(tx);
	return 0;
}

void vnet_queue_free(struct vnet_queue *q)
{
	if (q->hdrs)
		dma_free(q->hdrs, q->hdrs_len);
	kfree(q->slots);
	q->hdrs = NULL;
	q->slots = NULL;
}

void vnet_rx_fill(struct vnet_queue *q)
{
	struct net_rxbuf *buf;

	while (!q->rx_dead && virtq_nr_busy(q->rx) < virtq_size(q->rx) &&
	       (buf = net_rxbuf_get(q->pool)) != NULL) {
		const struct virtq_seg seg = { buf->paddr, NET_RXBUF_SIZE };

		if (virtq_add(q->rx, &seg, 0, 1, buf)) {
			net_frame_free(buf);
			break;
		}
	}
	virtq_kick(q->rx);
}

int vnet_queue_transmit(struct vnet_queue *q, const struct net_tx *tx)
{
	struct virtq_seg segs[NET_TX_MAX_SEGS + 1];
	const unsigned long flags = spin_lock_irqsave(&q->lock);
	struct vnet_tx_slot *s = q->free;
	uint64_t bytes = 0;
	int err = -ENOSPC;

	if (s) {
		vnet_encode_tx(tx, s->hdr);
		segs[0] = (struct virtq_seg){ s->paddr, sizeof(*s->hdr) };
		for (unsigned int i = 0; i < tx->nr_segs; i++) {
			segs[1 + i] = (struct virtq_seg){ virt_to_phys(tx->segs[i].buf),
							  tx->segs[i].len };
			bytes += tx->segs[i].len;
		}
		err = virtq_add(q->tx, segs, 1 + tx->nr_segs, 0, s);
	}
	if (!err) {
		q->free = s->next;
		s->token = tx->token;
		q->stats.tx_frames++;
		q->stats.tx_bytes += bytes;
	} else if (err == -ENOSPC) {
		q->stats.tx_full++;
		q->tx_full = true;
	}
	spin_unlock_irqrestore(&q->lock, flags);
	return err;
}

void vnet_queue_kick(struct vnet_queue *q)
{
	const unsigned long flags = spin_lock_irqsave(&q->lock);

	virtq_kick(q->tx);
	spin_unlock_irqrestore(&q->lock, flags);
}

/* The token of a slot that @take (virtq_get() or virtq_detach()) gave back. */
static void *slot_free_locked(struct vnet_queue *q, struct vnet_tx_slot *s) __must_hold(&q->lock)
{
	void *token = s->token;

	assert_spin_held(&q->lock);
	ASSERT(token);
	s->token = NULL;
	s->next = q->free;
	q->free = s;
	return token;
}

/* Take back finished transmits. False: the device is fenced. */
static bool reap(struct vnet_queue *q)
{
	for (;;) {
		const unsigned long flags = spin_lock_irqsave(&q->lock);
		uint32_t len;
		struct vnet_tx_slot *s = virtq_get(q->tx, &len);
		void *token = NULL;

		if (s && !IS_ERR(s)) {
			token = slot_free_locked(q, s);
			q->tx_full = false;
		}
		spin_unlock_irqrestore(&q->lock, flags);
		if (IS_ERR(s))
			return false;
		if (!token)
			return true;
		q->nd->user->sent(q->nd, token, 0);
	}
}

void vnet_queue_bury(struct vnet_queue *q)
{
	struct net_rxbuf *buf;

	WRITE_ONCE(q->nd->link_up, false);
	if (!q->rx_dead) {
		q->rx_dead = true;
		vnet_rx_abort(&q->partial);
		while ((buf = virtq_detach(q->rx)) != NULL)
			net_frame_free(buf);
	}
	for (;;) {
		const unsigned long flags = spin_lock_irqsave(&q->lock);
		struct vnet_tx_slot *s = virtq_detach(q->tx);
		void *token = s ? slot_free_locked(q, s) : NULL;

		spin_unlock_irqrestore(&q->lock, flags);
		if (!token)
			break;
		q->nd->user->sent(q->nd, token, -EIO);
	}
}

unsigned int vnet_queue_poll(struct vnet_queue *q, unsigned int budget)
{
	unsigned int nr = 0;

	virtq_quiet(q->rx);
	if (q->rx_dead || !reap(q)) {
		vnet_queue_bury(q);
		return 0;
	}
	/* The budget counts buffers, so that frames of no use are bounded too. */
	for (unsigned int i = 0; i < budget; i++) {
		struct net_rxbuf *frame = NULL, *buf;
		uint32_t len;

		buf = virtq_get(q->rx, &len);
		if (!buf)
			break;
		if (IS_ERR(buf)) {
			vnet_queue_bury(q);
			return nr;
		}
		nr++;
		switch (vnet_rx_add(&q->partial, buf, len, q->features, &frame)) {
		case VNET_RX_FRAME:
			q->stats.rx_frames++;
			q->stats.rx_bytes += frame->frame_len;
			q->nd->user->received(q->nd, frame);
			break;
		case VNET_RX_MORE:
			break;
		case VNET_RX_DROPPED:
			q->stats.rx_dropped++;
			break;
		case VNET_RX_BROKEN:
			q->fence(q, "sends frames that cannot be");
			vnet_queue_bury(q);
			return nr;
		}
	}
	vnet_rx_fill(q);
	return nr;
}

bool vnet_queue_arm(struct vnet_queue *q)
{
	bool again = virtq_arm(q->rx);
	const unsigned long flags = spin_lock_irqsave(&q->lock);

	if (q->tx_full)
		again |= virtq_arm(q->tx);
	else
		virtq_quiet(q->tx);
	spin_unlock_irqrestore(&q->lock, flags);
	return again && !q->rx_dead;
}
