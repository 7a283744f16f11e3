/* SPDX-License-Identifier: MIT */
/*
 * NVMe queue pairs: the ring of commands, the ring of answers, and the slots between them.
 *
 * Locking:	the queue's lock.
 * Ordering:	command, dma_wmb() in doorbell_write32(), doorbell.  The phase of an answer,
 *		dma_rmb(), then the rest of it.
 * Invariants:	what an answer names is checked against the slots, which the controller cannot
 *		reach: the slot is in use, for the same time as the answer says.  There is one slot
 *		fewer than entries of a ring, so a ring always has room for a slot's command.
 */
#include <arch/barrier.h>
#include <arch/io.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "nvme_priv.h"

COUNTER(nvme_doorbells, "nvme.doorbells", "writes to doorbells of disks");

static unsigned int nr_slots(const struct nvme_queue *q)
{
	return q->depth - 1;
}

static size_t sq_len(const struct nvme_queue *q)
{
	return q->depth * sizeof(struct nvme_cmd);
}

static size_t cq_len(const struct nvme_queue *q)
{
	return q->depth * sizeof(struct nvme_cqe);
}

int nvme_queue_init(struct nvme_queue *q, struct nvme *c, unsigned int id, unsigned int depth)
{
	paddr_t lists;

	ASSERT(depth >= 2 && depth <= 1u << NVME_SLOT_BITS);
	q->id = id;
	q->depth = depth;
	spin_lock_init(&q->lock, "nvme", RANK_SPIN_QUEUE);
	list_init(&q->free);
	list_init(&q->busy);
	list_init(&q->waiting);
	q->phase = 1;
	q->sq = dma_alloc(sq_len(q), &q->sq_paddr);
	q->cq = dma_alloc(cq_len(q), &q->cq_paddr);
	q->lists = dma_alloc(nr_slots(q) * NVME_LIST_LEN, &lists);
	q->slots = kcalloc(nr_slots(q), sizeof(*q->slots));
	if (!q->sq || !q->cq || !q->lists || !q->slots)
		return -ENOMEM;
	for (unsigned int i = 0; i < nr_slots(q); i++) {
		struct nvme_slot *s = &q->slots[i];

		s->list = (uint8_t *)q->lists + i * NVME_LIST_LEN;
		s->list_paddr = lists + i * NVME_LIST_LEN;
		list_add_tail(&s->link, &q->free);
	}
	/* Last: an interrupt that several queues share looks for it. */
	__atomic_store_n(&q->c, c, __ATOMIC_RELEASE);
	return 0;
}

void nvme_queue_free(struct nvme_queue *q)
{
	if (q->sq)
		dma_free(q->sq, sq_len(q));
	if (q->cq)
		dma_free(q->cq, cq_len(q));
	if (q->lists)
		dma_free(q->lists, nr_slots(q) * NVME_LIST_LEN);
	kfree(q->slots);
	q->sq = NULL;
	q->cq = NULL;
	q->lists = NULL;
	q->slots = NULL;
}

void nvme_queue_rewind_locked(struct nvme_queue *q)
{
	assert_spin_held(&q->lock);
	memset(q->cq, 0, cq_len(q));
	q->sq_tail = 0;
	q->cq_head = 0;
	q->phase = 1;
	q->ring_due = false;
}

void nvme_slot_free_locked(struct nvme_queue *q, struct nvme_slot *s)
{
	assert_spin_held(&q->lock);
	ASSERT(s->busy);
	s->busy = false;
	s->req = NULL;
	list_move_tail(&s->link, &q->free);
}

static uint16_t command_id(const struct nvme_queue *q, const struct nvme_slot *s)
{
	return (uint16_t)((unsigned int)(s - q->slots) | (unsigned int)s->use << NVME_SLOT_BITS);
}

void nvme_queue_send_locked(struct nvme_queue *q, struct nvme_slot *s)
{
	assert_spin_held(&q->lock);
	ASSERT(q->open);
	s->busy = true;
	s->reported = false;
	s->aborted_ns = 0;
	s->issued_ns = time_now_ns();
	s->tries++;
	s->use = (uint16_t)((s->use + 1u) & (0xffffu >> NVME_SLOT_BITS));
	s->cmd.cid = cpu_to_le16(command_id(q, s));
	list_move_tail(&s->link, &q->busy);
	q->sq[q->sq_tail] = s->cmd;
	q->sq_tail = (uint16_t)((q->sq_tail + 1u) % q->depth);
	q->ring_due = true;
}

static volatile uint8_t __iomem *doorbell(const struct nvme_queue *q, unsigned int which)
{
	return q->c->regs + NVME_REG_DOORBELLS + (size_t)(2 * q->id + which) * q->c->caps.stride;
}

void nvme_queue_ring_locked(struct nvme_queue *q)
{
	assert_spin_held(&q->lock);
	if (!q->ring_due)
		return;
	q->ring_due = false;
	doorbell_write32(doorbell(q, 0), q->sq_tail);
	counter_inc(&nvme_doorbells);
}

struct nvme_slot *nvme_queue_take_locked(struct nvme_queue *q, struct nvme_cqe *out)
{
	const volatile struct nvme_cqe *cqe = &q->cq[q->cq_head];
	struct nvme_slot *s;
	unsigned int cid;

	assert_spin_held(&q->lock);
	if ((le16_to_cpu(cqe->status) & 1) != q->phase)
		return NULL;
	dma_rmb();
	/* Copied once: the controller may change it while it is looked at. */
	out->result = cqe->result;
	out->sq_head = cqe->sq_head;
	out->sq_id = cqe->sq_id;
	out->cid = cqe->cid;
	out->status = cqe->status;
	cid = le16_to_cpu(out->cid);
	if (le16_to_cpu(out->sq_id) != q->id || le16_to_cpu(out->sq_head) >= q->depth ||
	    (cid & ((1u << NVME_SLOT_BITS) - 1)) >= nr_slots(q))
		return ERR_PTR(-EIO);
	s = &q->slots[cid & ((1u << NVME_SLOT_BITS) - 1)];
	if (!s->busy || command_id(q, s) != cid)
		return ERR_PTR(-EIO);
	q->cq_head = (uint16_t)((q->cq_head + 1u) % q->depth);
	if (!q->cq_head)
		q->phase ^= 1;
	return s;
}

void nvme_queue_ack_locked(struct nvme_queue *q)
{
	assert_spin_held(&q->lock);
	doorbell_write32(doorbell(q, 1), q->cq_head);
	counter_inc(&nvme_doorbells);
}
