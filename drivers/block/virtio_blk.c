/* SPDX-License-Identifier: MIT */
/*
 * virtio block devices, named vda, vdb, ... in bus order.
 *
 * Flow:	submit takes a free slot (header and status byte in DMA memory) and room in the
 *		ring, or puts the request into the queue of waiting requests.  The interrupt
 *		takes what the device has used, completes it, and starts waiting requests.
 * Context:	submit: any.  Completion: interrupt, or the watchdog's worker.
 * Locking:	blk->lock (irq-safe) guards queue, slots and the list of waiting requests.
 *		done() runs without it.
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

static uint32_t slow_s = 10;
static uint32_t timeout_s = 60;
BOOT_PARAM("virtio-blk.slow", u32, slow_s, "seconds after which a disk request is reported");
BOOT_PARAM("virtio-blk.timeout", u32, timeout_s, "seconds after which a silent disk is given up");

COUNTER(blk_requests, "virtio-blk.requests", "requests given to disks");
COUNTER(blk_bytes, "virtio-blk.bytes", "bytes of those requests");
COUNTER(blk_errors, "virtio-blk.errors", "requests that ended in an error");
HISTOGRAM(blk_latency, "virtio-blk.latency_ns", "from submit to completion of a request");

/* In DMA memory, one per request in flight. */
struct slot_dma {
	struct virtio_blk_header header;
	uint8_t status;
	uint8_t pad[15];
};
static_assert(sizeof(struct slot_dma) == 32, "slots are aligned");

struct slot {
	struct blk_req *req;   /* NULL: free */
	struct list_head link; /* on vblk.free or vblk.busy, oldest first */
	struct slot_dma *dma;
	paddr_t paddr;
	bool flushing; /* the flush behind a write with BLK_FUA */
	bool reported;
};

struct vblk {
	struct blkdev bd;
	struct virtio_device *vd;
	struct spinlock lock; /* RANK_SPIN_QUEUE */
	struct virtq *vq;
	struct list_head free __guarded_by(&lock);
	struct list_head busy __guarded_by(&lock);
	struct list_head waiting __guarded_by(&lock); /* requests without a slot */
	bool dead __guarded_by(&lock);
	bool stuck __guarded_by(&lock); /* being given up: its answers do not count */
	bool watching __guarded_by(&lock);
	struct timer watchdog;
	struct work give_up;
	struct slot *slots;
	unsigned int nr_slots;
	void *dma;
	struct virtq_seg segs[VIRTIO_BLK_MAX_SEGS + 2] __guarded_by(&lock); /* scratch */
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
		req->done(req);
	}
}

static void end_locked(struct vblk *b, struct blk_req *req, int status, struct list_head *over)
	__must_hold(&b->lock)
{
	assert_spin_held(&b->lock);
	req->status = status;
	list_add_tail(&req->link, over);
}

static void slot_free_locked(struct vblk *b, struct slot *s) __must_hold(&b->lock)
{
	assert_spin_held(&b->lock);
	ASSERT(s->req); /* it is in use */
	s->req = NULL;
	list_move_tail(&s->link, &b->free);
}

static uint32_t wire_type(const struct slot *s)
{
	if (s->flushing || s->req->op == BLK_FLUSH)
		return VIRTIO_BLK_T_FLUSH;
	return s->req->op == BLK_WRITE ? VIRTIO_BLK_T_OUT : VIRTIO_BLK_T_IN;
}

/* Put the request of @s into the ring. */
static int add_locked(struct vblk *b, struct slot *s) __must_hold(&b->lock)
{
	const uint32_t type = wire_type(s);
	const struct blk_req *req = s->req;
	const unsigned int nr = type == VIRTIO_BLK_T_FLUSH ? 0 : req->nr_segs;
	const unsigned int nr_out = type == VIRTIO_BLK_T_OUT ? nr : 0;

	assert_spin_held(&b->lock);
	s->dma->header.type = cpu_to_le32(type);
	s->dma->header.reserved = cpu_to_le32(0);
	s->dma->header.sector = cpu_to_le64(nr ? req->sector : 0);
	s->dma->status = VIRTIO_BLK_S_NONE;
	b->segs[0] = (struct virtq_seg){ s->paddr, sizeof(s->dma->header) };
	for (unsigned int i = 0; i < nr; i++)
		b->segs[1 + i] =
			(struct virtq_seg){ virt_to_phys(req->segs[i].buf), req->segs[i].len };
	b->segs[1 + nr] = (struct virtq_seg){ s->paddr + offsetof(struct slot_dma, status), 1 };
	return virtq_add(b->vq, b->segs, 1 + nr_out, nr - nr_out + 1, s);
}

static void watch_locked(struct vblk *b) __must_hold(&b->lock)
{
	assert_spin_held(&b->lock);
	if (b->watching)
		return;
	b->watching = true;
	timer_set(&b->watchdog, time_after_ns(WATCH_PERIOD_NS));
}

/* Start waiting requests while there is room. */
static void start_locked(struct vblk *b, struct list_head *over) __must_hold(&b->lock)
{
	assert_spin_held(&b->lock);
	while (!list_empty(&b->waiting) && !list_empty(&b->free)) {
		struct blk_req *req = list_first_entry(&b->waiting, struct blk_req, link);
		struct slot *s = list_first_entry(&b->free, struct slot, link);
		int err;

		ASSERT(!s->req && !b->dead);
		s->req = req;
		s->flushing = false;
		s->reported = false;
		err = add_locked(b, s);
		if (err == -ENOSPC) {
			s->req = NULL;
			break;
		}
		list_del(&req->link);
		if (err) {
			s->req = NULL;
			end_locked(b, req, -EIO, over);
			continue;
		}
		list_move_tail(&s->link, &b->busy);
		counter_inc(&blk_requests);
		counter_add(&blk_bytes, blk_req_len(req));
		watch_locked(b);
	}
	virtq_kick(b->vq);
}

static void vblk_submit(struct blkdev *bd, struct blk_req *req)
{
	struct vblk *b = bd->driver;
	unsigned long flags;
	LIST_HEAD(over);

	req->submitted_ns = time_now_ns();
	flags = spin_lock_irqsave(&b->lock);
	if (b->dead) {
		end_locked(b, req, -EIO, &over);
	} else if (req->op == BLK_FLUSH && !bd->has_flush) {
		end_locked(b, req, 0, &over);
	} else {
		list_add_tail(&req->link, &b->waiting);
		start_locked(b, &over);
	}
	spin_unlock_irqrestore(&b->lock, flags);
	complete_list(&over);
}

/* The device is done with @s. */
static void used_locked(struct vblk *b, struct slot *s, uint32_t len, struct list_head *over)
	__must_hold(&b->lock)
{
	struct blk_req *req = s->req;
	int err = virtio_blk_status(READ_ONCE(s->dma->status));

	assert_spin_held(&b->lock);
	/* A short read would leave old bytes in somebody's page. */
	if (!err && req->op == BLK_READ && len != blk_req_len(req) + 1)
		err = -EIO;
	if (!err && req->op == BLK_WRITE && (req->flags & BLK_FUA) && b->bd.has_flush &&
	    !s->flushing) {
		s->flushing = true;
		if (!add_locked(b, s))
			return;
		err = -EIO; /* cannot be: the write's own descriptors were just freed */
	}
	slot_free_locked(b, s);
	end_locked(b, req, err, over);
}

/* Everything that the device had or would get ends in @status. */
static void bury_locked(struct vblk *b, int status, struct list_head *over) __must_hold(&b->lock)
{
	struct blk_req *req, *next;
	struct slot *s;

	assert_spin_held(&b->lock);
	b->dead = true;
	while ((s = virtq_detach(b->vq)) != NULL) {
		req = s->req;
		slot_free_locked(b, s);
		end_locked(b, req, status, over);
	}
	list_for_each_entry_safe(req, next, &b->waiting, link) {
		list_del(&req->link);
		end_locked(b, req, -EIO, over);
	}
}

static void vblk_used(struct virtq *vq, void *arg)
{
	struct vblk *b = arg;
	unsigned long flags;
	struct slot *s;
	uint32_t len;
	LIST_HEAD(over);

	flags = spin_lock_irqsave(&b->lock);
	while (!b->dead && !b->stuck && (s = virtq_get(vq, &len)) != NULL) {
		if (IS_ERR(s)) {
			bury_locked(b, -EIO, &over);
			break;
		}
		used_locked(b, s, len, &over);
	}
	if (!b->dead && !b->stuck)
		start_locked(b, &over);
	spin_unlock_irqrestore(&b->lock, flags);
	complete_list(&over);
}

/* Reset a disk that does not answer.  In a worker, since the reset may take its time. */
static void vblk_give_up(struct work *w)
{
	struct vblk *b = container_of(w, struct vblk, give_up);
	unsigned long flags;
	LIST_HEAD(over);

	flags = spin_lock_irqsave(&b->lock);
	b->stuck = true;
	spin_unlock_irqrestore(&b->lock, flags);
	virtio_fence(b->vd, "does not answer");
	flags = spin_lock_irqsave(&b->lock);
	if (!b->dead)
		bury_locked(b, -ETIMEDOUT, &over);
	spin_unlock_irqrestore(&b->lock, flags);
	complete_list(&over);
}

static void vblk_watch(void *arg)
{
	struct vblk *b = arg;
	const uint64_t now = time_now_ns();
	unsigned long flags;
	struct slot *s;

	flags = spin_lock_irqsave(&b->lock);
	b->watching = false;
	if (!list_empty(&b->busy) && !b->dead) {
		uint64_t age;

		s = list_first_entry(&b->busy, struct slot, link);
		age = now - s->req->submitted_ns;
		if (age > slow_s * NSEC_PER_SEC && !s->reported) {
			s->reported = true;
			pr_warn("%s: sector %llu has been waited for for %llu s\n", b->bd.name,
				(unsigned long long)s->req->sector,
				(unsigned long long)(age / NSEC_PER_SEC));
		}
		if (age > timeout_s * NSEC_PER_SEC)
			work_queue(rescue, &b->give_up);
		watch_locked(b);
	}
	spin_unlock_irqrestore(&b->lock, flags);
}

static int alloc_slots(struct vblk *b)
{
	paddr_t paddr;

	b->nr_slots = virtq_size(b->vq);
	b->slots = kcalloc(b->nr_slots, sizeof(*b->slots));
	b->dma = dma_alloc(b->nr_slots * sizeof(struct slot_dma), &paddr);
	if (!b->slots || !b->dma)
		return -ENOMEM;
	for (unsigned int i = 0; i < b->nr_slots; i++) {
		struct slot *s = &b->slots[i];

		s->dma = (struct slot_dma *)b->dma + i;
		s->paddr = paddr + i * sizeof(*s->dma);
		list_add_tail(&s->link, &b->free);
	}
	return 0;
}

static int read_config(struct vblk *b)
{
	struct virtio_blk_config cfg;
	int err;

	memset(&cfg, 0, sizeof(cfg));
	/* Devices end their configuration where their features end. */
	err = virtio_config_read(b->vd, 0, &cfg, offsetof(struct virtio_blk_config, size_max));
	if (!err && virtio_has(b->vd, VIRTIO_BLK_F_SIZE_MAX))
		err = virtio_config_read(b->vd, offsetof(struct virtio_blk_config, size_max),
					 &cfg.size_max, sizeof(cfg.size_max));
	if (!err && virtio_has(b->vd, VIRTIO_BLK_F_SEG_MAX))
		err = virtio_config_read(b->vd, offsetof(struct virtio_blk_config, seg_max),
					 &cfg.seg_max, sizeof(cfg.seg_max));
	if (!err && virtio_has(b->vd, VIRTIO_BLK_F_BLK_SIZE))
		err = virtio_config_read(b->vd, offsetof(struct virtio_blk_config, blk_size),
					 &cfg.blk_size, sizeof(cfg.blk_size));
	if (err)
		return err;
	return virtio_blk_decode(&cfg, virtio_has(b->vd, VIRTIO_BLK_F_BLK_SIZE),
				 virtio_has(b->vd, VIRTIO_BLK_F_SIZE_MAX),
				 virtio_has(b->vd, VIRTIO_BLK_F_SEG_MAX), &b->bd);
}

static const struct blkdev_ops vblk_ops = { .submit = vblk_submit };

static int vblk_setup(struct vblk *b)
{
	int err;

	err = read_config(b);
	if (err) {
		pr_err("%s: its configuration makes no sense\n", b->bd.name);
		return err;
	}
	b->bd.read_only = virtio_has(b->vd, VIRTIO_BLK_F_RO);
	b->bd.has_flush = virtio_has(b->vd, VIRTIO_BLK_F_FLUSH);
	err = virtq_create(b->vd, 0, QUEUE_SIZE, b->bd.max_segs + 2, vblk_used, b, &b->vq);
	if (err)
		return err;
	/* Without indirect tables a chain has to fit the ring. */
	if (virtq_size(b->vq) < 3)
		return -ENODEV;
	b->bd.max_segs = MIN(b->bd.max_segs, virtq_size(b->vq) - 2);
	err = alloc_slots(b);
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
	spin_lock_init(&b->lock, "virtio-blk", RANK_SPIN_QUEUE);
	list_init(&b->free);
	list_init(&b->busy);
	list_init(&b->waiting);
	timer_init(&b->watchdog, vblk_watch, b);
	work_init(&b->give_up, vblk_give_up);
	b->bd.ops = &vblk_ops;
	b->bd.driver = b;
	return b;
}

static int vblk_probe(struct pci_device *pci, const struct pci_id *id)
{
	const uint64_t wanted = BIT64(VIRTIO_BLK_F_SIZE_MAX) | BIT64(VIRTIO_BLK_F_SEG_MAX) |
				BIT64(VIRTIO_BLK_F_RO) | BIT64(VIRTIO_BLK_F_BLK_SIZE) |
				BIT64(VIRTIO_BLK_F_FLUSH);
	struct vblk *b;
	int err;

	(void)id;
	if (nr_disks >= 26)
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
	b->vd = virtio_pci_open(pci, "virtio-blk", wanted, NULL);
	if (IS_ERR(b->vd)) {
		err = (int)PTR_ERR(b->vd);
		kfree(b);
		return err;
	}
	err = vblk_setup(b);
	if (err) {
		virtio_close(b->vd);
		kfree(b->slots);
		if (b->dma)
			dma_free(b->dma, b->nr_slots * sizeof(struct slot_dma));
		kfree(b);
		return err;
	}
	nr_disks++;
	pr_info("%s: %llu MiB, blocks of %u%s\n", b->bd.name,
		(unsigned long long)(b->bd.nr_sectors >> 11), b->bd.block_size,
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
