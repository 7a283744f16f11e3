/* SPDX-License-Identifier: MIT */
/*
 * virtio block devices, named vda, vdb, ... in bus order.
 *
 * Flow:	submit takes the queue of this CPU (MQ), and there a free slot (header and status
 *		byte in DMA memory) and room in the ring, or puts the request into that queue's
 *		list of waiting requests.  The interrupt takes what the device has used,
 *		completes it, and starts waiting requests.
 * Context:	submit: any.  Completion: interrupt, or the watchdog's worker.
 * Locking:	each queue's lock (irq-safe) guards its ring, slots and waiting requests; no
 *		thread holds two.  done() runs without it.
 * Ordering:	BLK_FLUSH is passed on; a write with BLK_FUA is followed by a flush.  Without
 *		the FLUSH feature the device has no volatile cache, and both are done at once.
 * Failure:	a request is reported when it has taken 10 s (virtio-blk.slow).  After 60 s
 *		(virtio-blk.timeout) the device is reset and taken out of use: its requests end
 *		in -ETIMEDOUT, later ones in -EIO.  There are no retries: a virtual disk that
 *		fails a read means it.
 * See:		docs/drivers/virtio.md; VIRTIO 1.1, section 5.2
 */
#define PR_FMT "virtio-blk: "

#include "virtio_blk.h"

#include <arch/cpu.h>
#include <drivers/blkdev.h>
#include <drivers/pci.h>
#include <drivers/virtio.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/work.h>
#include <lib/byteorder.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#define QUEUE_SIZE      128u
#define WATCH_PERIOD_NS NSEC_PER_SEC
#define MAX_DISKS       26u /* vda to vdz */

static uint32_t slow_s = 10;
static uint32_t timeout_s = 60;
BOOT_PARAM("virtio-blk.slow", u32, slow_s, "seconds after which a disk request is reported");
BOOT_PARAM("virtio-blk.timeout", u32, timeout_s, "seconds after which a silent disk is given up");

COUNTER(blk_requests, "virtio-blk.requests", "requests given to disks");
COUNTER(blk_bytes, "virtio-blk.bytes", "bytes of those requests");
COUNTER(blk_writes, "virtio-blk.writes", "... that write, and those that zero");
COUNTER(blk_flushes, "virtio-blk.flushes", "flushes given to disks, those after a write included");
COUNTER(blk_errors, "virtio-blk.errors", "requests that ended in an error");
HISTOGRAM(blk_latency, "virtio-blk.latency_ns", "from submit to completion of a request");

/* In DMA memory, one per request in flight. */
struct slot_dma {
	struct virtio_blk_header header;
	struct virtio_blk_range range;
	uint8_t status;
	uint8_t pad[31];
};
static_assert(sizeof(struct slot_dma) == 64, "slots are aligned");

struct slot {
	struct blk_req *req;   /* NULL: free */
	struct list_head link; /* on the queue's free or busy list, oldest first */
	struct slot_dma *dma;
	paddr_t paddr;
	bool flushing; /* the flush behind a write with BLK_FUA */
	bool reported;
};

struct vblk;

struct vqueue {
	struct vblk *b;
	struct spinlock lock; /* RANK_SPIN_QUEUE */
	struct virtq *vq;
	struct list_head free __guarded_by(&lock);
	struct list_head busy __guarded_by(&lock);
	struct list_head waiting __guarded_by(&lock); /* requests without a slot */
	bool dead __guarded_by(&lock);
	bool stuck __guarded_by(&lock); /* being given up: its answers do not count */
	bool watching __guarded_by(&lock);
	struct timer watchdog;
	struct slot *slots;
	unsigned int nr_slots;
	void *dma;
	struct virtq_seg segs[VIRTIO_BLK_MAX_SEGS + 2] __guarded_by(&lock); /* scratch */
};

struct vblk {
	struct blkdev bd;
	struct virtio_device *vd;
	struct work give_up;
	unsigned int nr_queues; /* const from the probe on, as is what follows */
	struct vqueue *queues;
};

static struct workqueue *rescue; /* const after the first probe */
static unsigned int nr_disks;

/* Requests that are over, to be completed without the lock. */
static void complete_list(struct list_head *over)
{
	struct blk_req *req, *next;

	list_for_each_entry_safe(req, next, over, link) {
		list_del(&req->link);
		if (req->status)
			counter_inc(&blk_errors);
		hist_record(&blk_latency, time_now_ns() - req->submitted_ns);
		blk_end(req, req->status);
	}
}

static void end_locked(struct vqueue *q, struct blk_req *req, int status, struct list_head *over)
	__must_hold(&q->lock)
{
	assert_spin_held(&q->lock);
	req->status = status;
	list_add_tail(&req->link, over);
}

static void slot_free_locked(struct vqueue *q, struct slot *s) __must_hold(&q->lock)
{
	assert_spin_held(&q->lock);
	ASSERT(s->req); /* it is in use */
	s->req = NULL;
	list_move_tail(&s->link, &q->free);
}

static uint32_t wire_type(const struct slot *s)
{
	if (s->flushing)
		return VIRTIO_BLK_T_FLUSH;
	switch (s->req->op) {
	case BLK_READ:
		return VIRTIO_BLK_T_IN;
	case BLK_WRITE:
		return VIRTIO_BLK_T_OUT;
	case BLK_DISCARD:
		return VIRTIO_BLK_T_DISCARD;
	case BLK_ZERO:
		return VIRTIO_BLK_T_WRITE_ZEROES;
	case BLK_FLUSH:
		break;
	}
	return VIRTIO_BLK_T_FLUSH;
}

static void count_kind(uint32_t type)
{
	if (type == VIRTIO_BLK_T_OUT || type == VIRTIO_BLK_T_WRITE_ZEROES)
		counter_inc(&blk_writes);
	else if (type == VIRTIO_BLK_T_FLUSH)
		counter_inc(&blk_flushes);
}

/* Put the request of @s into the ring. */
static int add_locked(struct vqueue *q, struct slot *s) __must_hold(&q->lock)
{
	const uint32_t type = wire_type(s);
	const struct blk_req *req = s->req;
	const bool ranged = type == VIRTIO_BLK_T_DISCARD || type == VIRTIO_BLK_T_WRITE_ZEROES;
	const bool moves = type == VIRTIO_BLK_T_IN || type == VIRTIO_BLK_T_OUT;
	const unsigned int nr = moves ? req->nr_segs : ranged;
	const unsigned int nr_out = type == VIRTIO_BLK_T_IN ? 0 : nr;
	int err;

	assert_spin_held(&q->lock);
	s->dma->header.type = cpu_to_le32(type);
	s->dma->header.reserved = cpu_to_le32(0);
	s->dma->header.sector = cpu_to_le64(moves ? req->disk_sector : 0);
	s->dma->status = VIRTIO_BLK_S_NONE;
	q->segs[0] = (struct virtq_seg){ s->paddr, sizeof(s->dma->header) };
	for (unsigned int i = 0; moves && i < nr; i++)
		q->segs[1 + i] =
			(struct virtq_seg){ virt_to_phys(req->segs[i].buf), req->segs[i].len };
	if (ranged) {
		/* The limits of both are numbers of 32 bits. */
		s->dma->range = (struct virtio_blk_range){
			.sector = cpu_to_le64(req->disk_sector),
			.num_sectors = cpu_to_le32((uint32_t)req->nr_sectors),
		};
		q->segs[1] = (struct virtq_seg){ s->paddr + offsetof(struct slot_dma, range),
						 sizeof(s->dma->range) };
	}
	q->segs[1 + nr] = (struct virtq_seg){ s->paddr + offsetof(struct slot_dma, status), 1 };
	err = virtq_add(q->vq, q->segs, 1 + nr_out, nr - nr_out + 1, s);
	if (!err)
		count_kind(type);
	return err;
}

static void watch_locked(struct vqueue *q) __must_hold(&q->lock)
{
	assert_spin_held(&q->lock);
	if (q->watching)
		return;
	q->watching = true;
	timer_set(&q->watchdog, time_after_ns(WATCH_PERIOD_NS));
}

/* Start waiting requests while there is room, and tell the device once. */
static void start_locked(struct vqueue *q, struct list_head *over) __must_hold(&q->lock)
{
	assert_spin_held(&q->lock);
	while (!list_empty(&q->waiting) && !list_empty(&q->free)) {
		struct blk_req *req = list_first_entry(&q->waiting, struct blk_req, link);
		struct slot *s = list_first_entry(&q->free, struct slot, link);
		int err;

		ASSERT(!s->req && !q->dead);
		s->req = req;
		s->flushing = false;
		s->reported = false;
		err = add_locked(q, s);
		if (err == -ENOSPC) {
			s->req = NULL;
			break;
		}
		list_del(&req->link);
		if (err) {
			s->req = NULL;
			end_locked(q, req, -EIO, over);
			continue;
		}
		list_move_tail(&s->link, &q->busy);
		counter_inc(&blk_requests);
		counter_add(&blk_bytes, blk_req_len(req));
		watch_locked(q);
	}
	virtq_kick(q->vq);
}

static void vblk_submit_list(struct blkdev *bd, struct list_head *reqs)
{
	struct vblk *b = bd->driver;
	struct vqueue *q = &b->queues[cpu_id() % b->nr_queues];
	struct blk_req *req, *next;
	unsigned long flags;
	LIST_HEAD(over);

	flags = spin_lock_irqsave(&q->lock);
	list_for_each_entry_safe(req, next, reqs, link) {
		list_del(&req->link);
		if (q->dead)
			end_locked(q, req, -EIO, &over);
		else if (req->op == BLK_FLUSH && !bd->has_flush)
			end_locked(q, req, 0, &over);
		else
			list_add_tail(&req->link, &q->waiting);
	}
	if (!q->dead)
		start_locked(q, &over);
	spin_unlock_irqrestore(&q->lock, flags);
	complete_list(&over);
}

/* The device is done with @s. */
static void used_locked(struct vqueue *q, struct slot *s, uint32_t len, struct list_head *over)
	__must_hold(&q->lock)
{
	struct blk_req *req = s->req;
	int err = virtio_blk_status(READ_ONCE(s->dma->status));

	assert_spin_held(&q->lock);
	/* A short read would leave old bytes in somebody's page. */
	if (!err && req->op == BLK_READ && len != blk_req_len(req) + 1)
		err = -EIO;
	if (!err && req->op == BLK_WRITE && (req->flags & BLK_FUA) && q->b->bd.has_flush &&
	    !s->flushing) {
		s->flushing = true;
		if (!add_locked(q, s))
			return;
		err = -EIO; /* cannot be: the write's own descriptors were just freed */
	}
	slot_free_locked(q, s);
	end_locked(q, req, err, over);
}

/* Everything that the device had or would get from this queue ends in @status. */
static void bury_locked(struct vqueue *q, int status, struct list_head *over) __must_hold(&q->lock)
{
	struct blk_req *req, *next;
	struct slot *s;

	assert_spin_held(&q->lock);
	q->dead = true;
	while ((s = virtq_detach(q->vq)) != NULL) {
		req = s->req;
		slot_free_locked(q, s);
		end_locked(q, req, status, over);
	}
	list_for_each_entry_safe(req, next, &q->waiting, link) {
		list_del(&req->link);
		end_locked(q, req, -EIO, over);
	}
}

/* The device is fenced: that is the end of all its queues. */
static void bury(struct vblk *b, int status)
{
	for (unsigned int i = 0; i < b->nr_queues; i++) {
		struct vqueue *q = &b->queues[i];
		unsigned long flags;
		LIST_HEAD(over);

		flags = spin_lock_irqsave(&q->lock);
		if (!q->dead)
			bury_locked(q, status, &over);
		spin_unlock_irqrestore(&q->lock, flags);
		complete_list(&over);
	}
}

static void vblk_used(struct virtq *vq, void *arg)
{
	struct vqueue *q = arg;
	bool fenced = false;
	unsigned long flags;
	struct slot *s;
	uint32_t len;
	LIST_HEAD(over);

	flags = spin_lock_irqsave(&q->lock);
	while (!q->dead && !q->stuck && (s = virtq_get(vq, &len)) != NULL) {
		fenced = IS_ERR(s);
		if (fenced)
			break;
		used_locked(q, s, len, &over);
	}
	if (!q->dead && !q->stuck && !fenced)
		start_locked(q, &over);
	spin_unlock_irqrestore(&q->lock, flags);
	complete_list(&over);
	if (fenced)
		bury(q->b, -EIO);
}

/* Reset a disk that does not answer.  In a worker, since the reset may take its time. */
static void vblk_give_up(struct work *w)
{
	struct vblk *b = container_of(w, struct vblk, give_up);

	for (unsigned int i = 0; i < b->nr_queues; i++) {
		const unsigned long flags = spin_lock_irqsave(&b->queues[i].lock);

		b->queues[i].stuck = true;
		spin_unlock_irqrestore(&b->queues[i].lock, flags);
	}
	virtio_fence(b->vd, "does not answer");
	bury(b, -ETIMEDOUT);
}

static void vblk_watch(void *arg)
{
	struct vqueue *q = arg;
	const uint64_t now = time_now_ns();
	unsigned long flags;
	struct slot *s;

	flags = spin_lock_irqsave(&q->lock);
	q->watching = false;
	if (!list_empty(&q->busy) && !q->dead) {
		uint64_t age;

		s = list_first_entry(&q->busy, struct slot, link);
		/* It may have been submitted since @now was read. */
		age = now - MIN(now, s->req->submitted_ns);
		if (age > slow_s * NSEC_PER_SEC && !s->reported) {
			s->reported = true;
			pr_warn("%s: sector %llu has been waited for for %llu s\n", q->b->bd.name,
				(unsigned long long)s->req->disk_sector,
				(unsigned long long)(age / NSEC_PER_SEC));
		}
		if (age > timeout_s * NSEC_PER_SEC)
			work_queue(rescue, &q->b->give_up);
		watch_locked(q);
	}
	spin_unlock_irqrestore(&q->lock, flags);
}

static int alloc_slots(struct vqueue *q)
{
	paddr_t paddr;

	q->nr_slots = virtq_size(q->vq);
	q->slots = kcalloc(q->nr_slots, sizeof(*q->slots));
	q->dma = dma_alloc(q->nr_slots * sizeof(struct slot_dma), &paddr);
	if (!q->slots || !q->dma)
		return -ENOMEM;
	for (unsigned int i = 0; i < q->nr_slots; i++) {
		struct slot *s = &q->slots[i];

		s->dma = (struct slot_dma *)q->dma + i;
		s->paddr = paddr + i * sizeof(*s->dma);
		list_add_tail(&s->link, &q->free);
	}
	return 0;
}

#define CONFIG_PART(first, end)                           \
	offsetof(struct virtio_blk_config, first),        \
		offsetof(struct virtio_blk_config, end) - \
			offsetof(struct virtio_blk_config, first)

/* Devices end their configuration where their features end: read only what those bring. */
static const struct {
	unsigned int feature;
	unsigned int off, len;
} config_parts[] = {
	{ VIRTIO_BLK_F_SIZE_MAX, CONFIG_PART(size_max, seg_max) },
	{ VIRTIO_BLK_F_SEG_MAX, CONFIG_PART(seg_max, geometry) },
	{ VIRTIO_BLK_F_BLK_SIZE, CONFIG_PART(blk_size, topology) },
	{ VIRTIO_BLK_F_MQ, CONFIG_PART(num_queues, max_discard_sectors) },
	{ VIRTIO_BLK_F_DISCARD, CONFIG_PART(max_discard_sectors, max_write_zeroes_sectors) },
	{ VIRTIO_BLK_F_WRITE_ZEROES, CONFIG_PART(max_write_zeroes_sectors, reserved1) },
};

static uint64_t wanted_features(void)
{
	uint64_t wanted = BIT64(VIRTIO_BLK_F_RO) | BIT64(VIRTIO_BLK_F_FLUSH);

	for (size_t i = 0; i < ARRAY_SIZE(config_parts); i++)
		wanted |= BIT64(config_parts[i].feature);
	return wanted;
}

static int read_config(struct vblk *b, unsigned int *nr_queues)
{
	struct virtio_blk_config cfg;
	uint64_t features = 0;
	int err;

	memset(&cfg, 0, sizeof(cfg));
	err = virtio_config_read(b->vd, 0, &cfg, offsetof(struct virtio_blk_config, size_max));
	for (size_t i = 0; !err && i < ARRAY_SIZE(config_parts); i++) {
		if (!virtio_has(b->vd, config_parts[i].feature))
			continue;
		features |= BIT64(config_parts[i].feature);
		err = virtio_config_read(b->vd, config_parts[i].off,
					 (uint8_t *)&cfg + config_parts[i].off,
					 config_parts[i].len);
	}
	return err ? err : virtio_blk_decode(&cfg, features, &b->bd, nr_queues);
}

static const struct blkdev_ops vblk_ops = { .submit_list = vblk_submit_list };

static int setup_queue(struct vblk *b, unsigned int index)
{
	struct vqueue *q = &b->queues[index];
	int err;

	q->b = b;
	spin_lock_init(&q->lock, "virtio-blk", RANK_SPIN_QUEUE);
	list_init(&q->free);
	list_init(&q->busy);
	list_init(&q->waiting);
	timer_init(&q->watchdog, vblk_watch, q);
	err = virtq_create(b->vd, index, QUEUE_SIZE, b->bd.max_segs + 2, vblk_used, q, &q->vq);
	if (err)
		return err;
	/* Without indirect tables a chain has to fit the ring. */
	if (virtq_size(q->vq) < 3)
		return -ENODEV;
	b->bd.max_segs = MIN(b->bd.max_segs, virtq_size(q->vq) - 2);
	return alloc_slots(q);
}

static int vblk_setup(struct vblk *b)
{
	unsigned int nr_queues;
	int err;

	err = read_config(b, &nr_queues);
	if (err) {
		pr_err("%s: its configuration makes no sense\n", b->bd.name);
		return err;
	}
	b->bd.read_only = virtio_has(b->vd, VIRTIO_BLK_F_RO);
	b->bd.has_flush = virtio_has(b->vd, VIRTIO_BLK_F_FLUSH);
	b->nr_queues = MIN(nr_queues, cpu_online_count());
	b->queues = kcalloc(b->nr_queues, sizeof(*b->queues));
	if (!b->queues)
		return -ENOMEM;
	for (unsigned int i = 0; !err && i < b->nr_queues; i++)
		err = setup_queue(b, i);
	if (!err)
		err = virtio_start(b->vd);
	if (!err)
		err = blkdev_register(&b->bd);
	return err;
}

static struct vblk *vblk_new(void)
{
	struct vblk *b = kzalloc(sizeof(*b));

	if (!b)
		return NULL;
	work_init(&b->give_up, vblk_give_up);
	b->bd.ops = &vblk_ops;
	b->bd.driver = b;
	return b;
}

static void vblk_free(struct vblk *b)
{
	for (unsigned int i = 0; b->queues && i < b->nr_queues; i++) {
		kfree(b->queues[i].slots);
		if (b->queues[i].dma)
			dma_free(b->queues[i].dma, b->queues[i].nr_slots * sizeof(struct slot_dma));
	}
	kfree(b->queues);
	kfree(b);
}

static int vblk_probe(struct pci_device *pci, const struct pci_id *id)
{
	struct vblk *b;
	int err;

	(void)id;
	if (nr_disks >= MAX_DISKS)
		return -ENOSPC;
	if (!rescue) {
		rescue = workqueue_create("virtio-blk", 1);
		if (IS_ERR(rescue)) {
			err = (int)PTR_ERR(rescue);
			rescue = NULL;
			return err;
		}
	}
	b = vblk_new();
	if (!b)
		return -ENOMEM;
	snprintf(b->bd.name, sizeof(b->bd.name), "vd%c", (char)('a' + nr_disks));
	b->vd = virtio_pci_open(pci, "virtio-blk", wanted_features(), NULL);
	if (IS_ERR(b->vd)) {
		err = (int)PTR_ERR(b->vd);
		vblk_free(b);
		return err;
	}
	err = vblk_setup(b);
	if (err) {
		virtio_close(b->vd);
		vblk_free(b);
		return err;
	}
	nr_disks++;
	pr_info("%s: %llu MiB, blocks of %u, %u queues%s\n", b->bd.name,
		(unsigned long long)(b->bd.nr_sectors >> 11), b->bd.block_size, b->nr_queues,
		b->bd.read_only ? ", read only" : "");
	return 0;
}

static const struct pci_id vblk_ids[] = {
	{ VIRTIO_PCI_VENDOR, 0x1001 }, /* transitional */
	{ VIRTIO_PCI_VENDOR, 0x1042 },
	{ 0, 0 },
};
static const struct pci_driver vblk_driver = {
	.name = "virtio-blk",
	.ids = vblk_ids,
	.probe = vblk_probe,
};
PCI_DRIVER(vblk_driver);
