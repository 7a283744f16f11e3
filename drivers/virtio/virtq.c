/* SPDX-License-Identifier: MIT */
/*
 * Split virtqueues.
 *
 * Ordering:	descriptors and the ring slot, dma_wmb(), then avail->idx; dma_mb(), then the
 *		device's wish not to be notified.  used->idx, dma_rmb(), then the used element.
 *		avail->flags, dma_mb(), then used->idx (virtq_arm()).
 * Invariants:	free list, chain lengths and tokens live in vq->shadow, which the device cannot
 *		reach; what it writes to the used ring is an index into that, checked.
 * Locking:	the queue's user.
 */
#include "virtq.h"

#include <arch/barrier.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/errno.h>

#define NO_DESC 0xffffu

size_t virtq_ring_len(unsigned int size, size_t *avail_off, size_t *used_off)
{
	const size_t avail_len = sizeof(struct virtq_avail) + size * sizeof(le16_t) + 2;
	const size_t used_len =
		sizeof(struct virtq_used) + size * sizeof(struct virtq_used_elem) + 2;

	*avail_off = size * sizeof(struct virtq_desc);
	*used_off = ALIGN_UP(*avail_off + avail_len, (size_t)4);
	return *used_off + used_len;
}

void virtq_init(struct virtq *vq, unsigned int size, unsigned int max_segs, void *mem,
		struct virtq_shadow *shadow)
{
	size_t avail_off, used_off;

	(void)virtq_ring_len(size, &avail_off, &used_off);
	vq->desc = mem;
	vq->avail = (void *)((uint8_t *)mem + avail_off);
	vq->used = (const void *)((uint8_t *)mem + used_off);
	vq->shadow = shadow;
	vq->size = (uint16_t)size;
	vq->max_segs = (uint16_t)max_segs;
	vq->nr_free = (uint16_t)size;
	vq->free_head = 0;
	for (unsigned int i = 0; i < size; i++)
		shadow[i] = (struct virtq_shadow){
			.next = (uint16_t)(i + 1 < size ? i + 1 : NO_DESC),
		};
}

static uint16_t take_desc(struct virtq *vq)
{
	const uint16_t i = vq->free_head;

	ASSERT(vq->nr_free > 0 && i != NO_DESC && !vq->shadow[i].token);
	vq->free_head = vq->shadow[i].next;
	vq->nr_free--;
	return i;
}

/* Give the chain that begins at @head back to the free list. */
static void free_chain(struct virtq *vq, uint16_t head)
{
	const uint16_t nr = vq->shadow[head].nr_desc;
	uint16_t last = head;

	ASSERT(vq->nr_busy > 0 && nr > 0 && vq->nr_free + nr <= vq->size);
	vq->shadow[head].token = NULL;
	for (uint16_t i = 1; i < nr; i++)
		last = vq->shadow[last].next;
	vq->shadow[last].next = vq->free_head;
	vq->free_head = head;
	vq->nr_free = (uint16_t)(vq->nr_free + nr);
	vq->nr_busy--;
}

static void desc_set(struct virtq_desc *d, const struct virtq_seg *seg, uint16_t flags,
		     uint16_t next)
{
	d->addr = cpu_to_le64(seg->addr);
	d->len = cpu_to_le32(seg->len);
	d->flags = cpu_to_le16(flags);
	d->next = cpu_to_le16(next);
}

/* One descriptor that names a table of its own. */
static uint16_t add_indirect(struct virtq *vq, const struct virtq_seg *segs, unsigned int nr_out,
			     unsigned int nr)
{
	const uint16_t head = take_desc(vq);
	struct virtq_desc *table = vq->indirect + (size_t)head * vq->max_segs;
	const struct virtq_seg whole = {
		.addr = vq->indirect_paddr + (size_t)head * vq->max_segs * sizeof(*table),
		.len = (uint32_t)(nr * sizeof(*table)),
	};

	for (unsigned int i = 0; i < nr; i++) {
		uint16_t flags = i < nr_out ? 0 : VIRTQ_DESC_WRITE;

		if (i + 1 < nr)
			flags |= VIRTQ_DESC_NEXT;
		desc_set(&table[i], &segs[i], flags, (uint16_t)(i + 1 < nr ? i + 1 : 0));
	}
	desc_set(&vq->desc[head], &whole, VIRTQ_DESC_INDIRECT, 0);
	vq->shadow[head].nr_desc = 1;
	return head;
}

static uint16_t add_direct(struct virtq *vq, const struct virtq_seg *segs, unsigned int nr_out,
			   unsigned int nr)
{
	const uint16_t head = take_desc(vq);
	uint16_t cur = head;

	for (unsigned int i = 0; i < nr; i++) {
		uint16_t flags = i < nr_out ? 0 : VIRTQ_DESC_WRITE;
		uint16_t next = 0;

		if (i + 1 < nr) {
			flags |= VIRTQ_DESC_NEXT;
			next = take_desc(vq);
		}
		desc_set(&vq->desc[cur], &segs[i], flags, next);
		if (i + 1 < nr) {
			vq->shadow[cur].next = next;
			cur = next;
		}
	}
	vq->shadow[head].nr_desc = (uint16_t)nr;
	return head;
}

static bool goes_indirect(const struct virtq *vq, unsigned int nr)
{
	return vq->indirect && nr > 1;
}

static bool virtq_has_room(const struct virtq *vq, unsigned int nr_segs)
{
	return vq->nr_free >= (goes_indirect(vq, nr_segs) ? 1 : nr_segs);
}

int virtq_add(struct virtq *vq, const struct virtq_seg *segs, unsigned int nr_out,
	      unsigned int nr_in, void *token)
{
	const unsigned int nr = nr_out + nr_in;
	uint64_t in_len = 0;
	uint16_t head;

	if (READ_ONCE(vq->broken))
		return -EIO;
	if (!nr || nr > vq->max_segs || (!goes_indirect(vq, nr) && nr > vq->size) || !token)
		return -EINVAL;
	for (unsigned int i = nr_out; i < nr; i++)
		in_len += segs[i].len;
	if (in_len > UINT32_MAX)
		return -EINVAL;
	if (!virtq_has_room(vq, nr))
		return -ENOSPC;

	if (goes_indirect(vq, nr))
		head = add_indirect(vq, segs, nr_out, nr);
	else
		head = add_direct(vq, segs, nr_out, nr);
	vq->shadow[head].token = token;
	vq->shadow[head].in_len = (uint32_t)in_len;
	vq->nr_busy++;

	vq->avail->ring[vq->avail_idx & (vq->size - 1)] = cpu_to_le16(head);
	vq->avail_idx++;
	dma_wmb(); /* descriptors and slot before the index that publishes them */
	WRITE_ONCE(vq->avail->idx, cpu_to_le16(vq->avail_idx));
	vq->kick_needed = true;
	return 0;
}

void virtq_kick(struct virtq *vq)
{
	if (!vq->kick_needed || READ_ONCE(vq->broken))
		return;
	vq->kick_needed = false;
	/* Pairs with the device: it sets the flag, then looks at the index once more. */
	dma_mb();
	if (!(le16_to_cpu(vq->used->flags) & VIRTQ_USED_NO_NOTIFY))
		vq->notify(vq);
}

static void *break_queue(struct virtq *vq, const char *why)
{
	WRITE_ONCE(vq->broken, true);
	vq->fence(vq, why);
	return ERR_PTR(-EIO);
}

void *virtq_get(struct virtq *vq, uint32_t *len)
{
	uint16_t used_idx, ahead;
	uint32_t id, used_len;
	void *token;

	if (READ_ONCE(vq->broken))
		return ERR_PTR(-EIO);
	used_idx = le16_to_cpu(vq->used->idx);
	ahead = (uint16_t)(used_idx - vq->last_used);
	if (!ahead)
		return NULL;
	if (ahead > vq->nr_busy)
		return break_queue(vq, "used more chains than it had");
	dma_rmb(); /* the index before the element that it covers */
	id = le32_to_cpu(vq->used->ring[vq->last_used & (vq->size - 1)].id);
	used_len = le32_to_cpu(vq->used->ring[vq->last_used & (vq->size - 1)].len);
	if (id >= vq->size || !vq->shadow[id].token)
		return break_queue(vq, "used a chain that it did not have");
	if (used_len > vq->shadow[id].in_len)
		return break_queue(vq, "says it wrote more than there was room for");

	token = vq->shadow[id].token;
	free_chain(vq, (uint16_t)id);
	vq->last_used++;
	*len = used_len;
	return token;
}

void virtq_quiet(struct virtq *vq)
{
	WRITE_ONCE(vq->avail->flags, cpu_to_le16(VIRTQ_AVAIL_NO_INTERRUPT));
}

bool virtq_arm(struct virtq *vq)
{
	WRITE_ONCE(vq->avail->flags, cpu_to_le16(0));
	/* Pairs with the device: it stores the index, then looks at the flag. */
	dma_mb();
	return READ_ONCE(vq->broken) || le16_to_cpu(vq->used->idx) != vq->last_used;
}

void *virtq_detach(struct virtq *vq)
{
	while (vq->nr_busy && vq->detach_at < vq->size) {
		const uint16_t i = vq->detach_at++;
		void *token = vq->shadow[i].token;

		if (token) {
			free_chain(vq, i);
			return token;
		}
	}
	return NULL;
}

unsigned int virtq_nr_busy(const struct virtq *vq)
{
	return vq->nr_busy;
}

unsigned int virtq_size(const struct virtq *vq)
{
	return vq->size;
}
