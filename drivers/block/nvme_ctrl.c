/* SPDX-License-Identifier: MIT */
/*
 * NVMe controllers: from reset to block devices, and the admin commands for it.
 *
 * Flow:	nvme_start(): CAP -> disable -> admin queue -> enable -> Identify -> how many queues
 *		-> create them -> namespaces -> blkdev_register().  nvme_restart() does it again
 *		with what is there, and checks that it is still the same.
 * Context:	threads: the one that probes the controller, then its rescue worker.
 * Failure:	what the controller says is checked; one that makes no sense or does not get
 *		ready in the time that CAP says is refused with one line.
 * Limits:	MAX_NAMESPACES of one controller are taken; a line tells of the others.
 * See:		NVM Express Base Specification 1.4, section 7.6.1
 */
#define PR_FMT "nvme: "

#include <arch/io.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "nvme_priv.h"

#define POLL_NS        NSEC_PER_MSEC
#define ADMIN_NS       (10 * NSEC_PER_SEC)
#define MAX_NAMESPACES 128u
#define IDS_PER_PAGE   (NVME_IDENTIFY_LEN / sizeof(le32_t))

unsigned int nvme_vector(const struct nvme_queue *q)
{
	return q->c->nr_vectors > 1 ? q->id : 0;
}

uint32_t nvme_read32(const struct nvme *c, enum nvme_reg reg)
{
	return mmio_read32(c->regs + reg);
}

static void write32(struct nvme *c, enum nvme_reg reg, uint32_t val)
{
	mmio_write32(c->regs + reg, val);
}

static void write64(struct nvme *c, enum nvme_reg reg, uint64_t val)
{
	mmio_write32(c->regs + reg, (uint32_t)val);
	mmio_write32(c->regs + reg + 4, (uint32_t)(val >> 32));
}

static uint64_t read64(const struct nvme *c, enum nvme_reg reg)
{
	const uint32_t low = mmio_read32(c->regs + reg);

	return (uint64_t)mmio_read32(c->regs + reg + 4) << 32 | low;
}

/* --- enable and disable */

/* Wait until CSTS.RDY is @ready. */
static int wait_ready(struct nvme *c, bool ready)
{
	const uint64_t deadline = time_after_ns(c->caps.ready_ns);

	for (;;) {
		const bool late = time_now_ns() > deadline;
		const uint32_t csts = nvme_read32(c, NVME_REG_CSTS);

		if (csts == NVME_GONE)
			return -ENODEV;
		if (((csts & NVME_CSTS_RDY) != 0) == ready)
			return 0;
		if (ready && (csts & NVME_CSTS_CFS))
			return -EIO;
		if (late)
			return -ETIMEDOUT;
		thread_sleep_ns(POLL_NS);
	}
}

int nvme_disable(struct nvme *c)
{
	const uint32_t cc = nvme_read32(c, NVME_REG_CC);

	if (cc == NVME_GONE)
		return -ENODEV;
	if (cc & NVME_CC_EN)
		write32(c, NVME_REG_CC, cc & ~NVME_CC_EN);
	return wait_ready(c, false);
}

static void open_queue(struct nvme_queue *q)
{
	const unsigned long flags = spin_lock_irqsave(&q->lock);

	q->open = true;
	spin_unlock_irqrestore(&q->lock, flags);
}

static void rewind_queue(struct nvme_queue *q)
{
	const unsigned long flags = spin_lock_irqsave(&q->lock);

	nvme_queue_rewind_locked(q);
	spin_unlock_irqrestore(&q->lock, flags);
}

/* An admin command that got no answer is over: the controller was reset. */
static void rewind_admin(struct nvme *c)
{
	struct nvme_queue *q = &c->admin;
	struct nvme_slot *s, *next;
	const unsigned long flags = spin_lock_irqsave(&q->lock);

	nvme_queue_rewind_locked(q);
	list_for_each_entry_safe(s, next, &q->busy, link)
		nvme_slot_free_locked(q, s);
	spin_unlock_irqrestore(&q->lock, flags);
}

static int enable(struct nvme *c)
{
	const uint32_t entries = c->admin.depth - 1;
	int err;

	rewind_admin(c);
	write32(c, NVME_REG_AQA, entries << 16 | entries);
	write64(c, NVME_REG_ASQ, c->admin.sq_paddr);
	write64(c, NVME_REG_ACQ, c->admin.cq_paddr);
	write32(c, NVME_REG_CC, NVME_CC_EN | NVME_CC_IOSQES | NVME_CC_IOCQES);
	err = wait_ready(c, true);
	if (!err)
		open_queue(&c->admin);
	return err;
}

/* --- admin commands */

/* One command, one after the other.  Its answer's dword 0 goes to *result if that is not NULL. */
static int admin(struct nvme *c, const struct nvme_cmd *cmd, uint32_t *result)
{
	struct nvme_queue *q = &c->admin;
	unsigned long flags;
	struct nvme_slot *s;

	completion_init(&c->admin_done);
	flags = spin_lock_irqsave(&q->lock);
	ASSERT(!list_empty(&q->free) && list_empty(&q->busy));
	s = list_first_entry(&q->free, struct nvme_slot, link);
	s->cmd = *cmd;
	s->tries = 0;
	nvme_queue_send_locked(q, s);
	nvme_queue_ring_locked(q);
	spin_unlock_irqrestore(&q->lock, flags);
	if (!completion_wait_until(&c->admin_done, time_after_ns(ADMIN_NS))) {
		nvme_queue_irq(q); /* perhaps only the interrupt is missing */
		if (!completion_done(&c->admin_done)) {
			/* Its answer, if it comes, is for no one: the controller is reset first. */
			nvme_queue_close(q);
			return -ETIMEDOUT;
		}
	}
	if (READ_ONCE(c->broken))
		return -EIO;
	if (result)
		*result = c->admin_result;
	return nvme_status_errno(c->admin_status);
}

static int identify(struct nvme *c, enum nvme_identify what, uint32_t nsid)
{
	const struct nvme_cmd cmd = {
		.opcode = NVME_ADMIN_IDENTIFY,
		.nsid = cpu_to_le32(nsid),
		.prp1 = cpu_to_le64(c->page_paddr),
		.cdw10 = cpu_to_le32(what),
	};

	memset(c->page, 0, NVME_IDENTIFY_LEN);
	return admin(c, &cmd, NULL);
}

int nvme_abort(struct nvme *c, unsigned int sq_id, uint16_t cid)
{
	const struct nvme_cmd cmd = {
		.opcode = NVME_ADMIN_ABORT,
		.cdw10 = cpu_to_le32((uint32_t)cid << 16 | sq_id),
	};

	return admin(c, &cmd, NULL);
}

/* Ask for @wanted I/O queue pairs; the number granted, or -errno. */
static int ask_queues(struct nvme *c, unsigned int wanted)
{
	const struct nvme_cmd cmd = {
		.opcode = NVME_ADMIN_SET_FEATURES,
		.cdw10 = cpu_to_le32(NVME_FEATURE_NR_QUEUES),
		.cdw11 = cpu_to_le32((wanted - 1) << 16 | (wanted - 1)),
	};
	uint32_t granted;
	const int err = admin(c, &cmd, &granted);

	if (err)
		return err;
	return (int)MIN(wanted, MIN(granted & 0xffff, granted >> 16) + 1);
}

static int create_queue(struct nvme_queue *q)
{
	const uint32_t size = (q->depth - 1) << 16 | q->id;
	const struct nvme_cmd cq = {
		.opcode = NVME_ADMIN_CREATE_CQ,
		.prp1 = cpu_to_le64(q->cq_paddr),
		.cdw10 = cpu_to_le32(size),
		.cdw11 = cpu_to_le32(nvme_vector(q) << 16 | NVME_CQ_INTERRUPTS |
				     NVME_QUEUE_CONTIGUOUS),
	};
	const struct nvme_cmd sq = {
		.opcode = NVME_ADMIN_CREATE_SQ,
		.prp1 = cpu_to_le64(q->sq_paddr),
		.cdw10 = cpu_to_le32(size),
		.cdw11 = cpu_to_le32(q->id << 16 | NVME_QUEUE_CONTIGUOUS),
	};
	int err;

	rewind_queue(q);
	err = admin(q->c, &cq, NULL);
	return err ? err : admin(q->c, &sq, NULL);
}

/* --- namespaces */

static int read_ns(struct nvme *c, uint32_t nsid, struct blkdev *bd, unsigned int *shift)
{
	const int err = identify(c, NVME_CNS_NAMESPACE, nsid);

	return err ? err : nvme_decode_ns(c->page, &c->info, bd, shift);
}

/* Without a place for it, or with a format that is not ours, the others go on. */
static int add_ns(struct nvme *c, uint32_t nsid)
{
	struct nvme_ns *ns = kzalloc(sizeof(*ns));
	int err;

	if (!ns)
		return -ENOMEM;
	ns->c = c;
	ns->nsid = nsid;
	ns->bd.ops = &nvme_blkdev_ops;
	ns->bd.driver = ns;
	snprintf(ns->bd.name, sizeof(ns->bd.name), "%sn%u", c->name, nsid);
	err = read_ns(c, nsid, &ns->bd, &ns->shift);
	if (err == -EOPNOTSUPP || err == -EINVAL) {
		pr_err("%s: %s\n", ns->bd.name,
		       err == -EINVAL ? "what it says of its size makes no sense"
				      : "blocks with metadata are not supported");
		kfree(ns);
		return 0;
	}
	if (err) {
		kfree(ns);
		return err;
	}
	list_add_tail(&ns->link, &c->namespaces);
	return 0;
}

/* Make a block device of each active namespace, but tell no one yet. */
static int find_namespaces(struct nvme *c)
{
	uint32_t *ids = kcalloc(MAX_NAMESPACES, sizeof(*ids));
	unsigned int nr = 0;
	int got, err = ids ? 0 : -ENOMEM;

	static_assert(MAX_NAMESPACES <= IDS_PER_PAGE, "one page of ids is enough");
	if (!err)
		err = identify(c, NVME_CNS_ACTIVE_NSIDS, 0);
	if (err)
		goto out;
	got = nvme_decode_nsids(c->page, IDS_PER_PAGE, 0, c->info.nr_nsids);
	if (got < 0) {
		err = got;
		goto out;
	}
	/* All ids first: the page is needed for what each one says. */
	for (; nr < MIN((unsigned int)got, MAX_NAMESPACES); nr++)
		ids[nr] = le32_to_cpu(((const le32_t *)c->page)[nr]);
	if (!nr)
		pr_warn("%s (%s) has no namespaces\n", c->name, c->info.model);
	if ((unsigned int)got > nr)
		pr_warn("%s: only the first %u namespaces are used\n", c->name, nr);
	for (unsigned int i = 0; !err && i < nr; i++)
		err = add_ns(c, ids[i]);
out:
	kfree(ids);
	return err;
}

static void register_namespaces(struct nvme *c)
{
	struct nvme_ns *ns;

	list_for_each_entry(ns, &c->namespaces, link) {
		const int err = blkdev_register(&ns->bd);

		if (err) {
			/* The first ones may be in use: the controller stays for them. */
			pr_err("%s cannot be registered (%d)\n", ns->bd.name, err);
			continue;
		}
		pr_info("%s: %s, %llu MiB, blocks of %u, %u queues%s\n", ns->bd.name, c->info.model,
			(unsigned long long)(ns->bd.nr_sectors >> 11), ns->bd.block_size, c->nr_io,
			ns->bd.read_only ? ", read only" : "");
	}
}

/* --- start and restart */

static int make_io_queues(struct nvme *c, unsigned int nr_cpus)
{
	const unsigned int vectors = c->nr_vectors > 1 ? c->nr_vectors - 1 : 1;
	const uint64_t room = (c->regs_len - NVME_REG_DOORBELLS) / (2 * (uint64_t)c->caps.stride);
	const unsigned int wanted = MIN(nr_cpus, vectors);
	const int granted = ask_queues(c, wanted);
	int err = 0;

	if (granted < 0)
		return granted;
	if (room < 2)
		return -EINVAL; /* no doorbells behind those of the admin queue */
	c->nr_io = (unsigned int)MIN((uint64_t)granted, room - 1);
	c->io = kcalloc(c->nr_io, sizeof(*c->io));
	if (!c->io)
		return -ENOMEM;
	for (unsigned int i = 0; !err && i < c->nr_io; i++) {
		struct nvme_queue *q = &c->io[i];

		err = nvme_queue_init(q, c, i + 1, MIN(c->caps.max_depth, NVME_IO_DEPTH));
		if (!err)
			err = c->bus->bind(c, q);
		if (!err)
			err = create_queue(q);
		if (!err)
			open_queue(q);
	}
	return err;
}

static int read_info(struct nvme *c, struct nvme_info *info)
{
	const int err = identify(c, NVME_CNS_CONTROLLER, 0);

	return err ? err : nvme_decode_ctrl(c->page, info);
}

static int bring_up(struct nvme *c, unsigned int nr_cpus)
{
	int err = nvme_decode_cap(read64(c, NVME_REG_CAP), c->regs_len, &c->caps);

	if (err)
		return err;
	c->page = dma_alloc(NVME_IDENTIFY_LEN, &c->page_paddr);
	if (!c->page)
		return -ENOMEM;
	err = nvme_queue_init(&c->admin, c, 0, MIN(c->caps.max_depth, NVME_ADMIN_DEPTH));
	if (!err)
		err = c->bus->bind(c, &c->admin);
	if (!err)
		err = nvme_disable(c);
	if (!err)
		err = enable(c);
	if (!err)
		err = read_info(c, &c->info);
	if (!err)
		err = make_io_queues(c, nr_cpus);
	return err ? err : find_namespaces(c);
}

int nvme_start(struct nvme *c, unsigned int nr_cpus)
{
	int err;

	list_init(&c->namespaces);
	err = bring_up(c, nr_cpus);
	if (err) {
		const char *why = READ_ONCE(c->broken);

		pr_err("%s cannot be started: %s (%d)\n", c->name,
		       why                  ? why
		       : err == -ENODEV     ? "its registers read as ones"
		       : err == -ETIMEDOUT  ? "it does not answer"
		       : err == -EOPNOTSUPP ? "it has no NVM commands or no pages of 4 KiB"
		       : err == -EINVAL     ? "what it says of itself makes no sense"
					    : "it fails",
		       err);
		return err;
	}
	register_namespaces(c);
	nvme_rescue_ready(c);
	return 0;
}

void nvme_free(struct nvme *c)
{
	struct nvme_ns *ns, *next;

	if (c->caps.stride && nvme_disable(c))
		pr_err("%s: does not stop\n", c->name);
	c->bus->fence(c);
	c->bus->unbind(c);
	nvme_rescue_end(c);
	list_for_each_entry_safe(ns, next, &c->namespaces, link) {
		list_del(&ns->link);
		kfree(ns);
	}
	for (unsigned int i = 0; c->io && i < c->nr_io; i++)
		nvme_queue_free(&c->io[i]);
	kfree(c->io);
	nvme_queue_free(&c->admin);
	if (c->page)
		dma_free(c->page, NVME_IDENTIFY_LEN);
	c->io = NULL;
	c->page = NULL;
}

/* Is each namespace what it was? */
static int same_namespaces(struct nvme *c)
{
	struct nvme_ns *ns;

	list_for_each_entry(ns, &c->namespaces, link) {
		struct blkdev now = { 0 };
		unsigned int shift;
		const int err = read_ns(c, ns->nsid, &now, &shift);

		if (err)
			return err;
		if (now.nr_sectors != ns->bd.nr_sectors || shift != ns->shift)
			return -ENODEV;
	}
	return 0;
}

int nvme_restart(struct nvme *c)
{
	struct nvme_info info;
	int err = nvme_disable(c);

	if (!err)
		err = enable(c);
	if (!err)
		err = read_info(c, &info);
	if (err)
		return err;
	if (strcmp(info.serial, c->info.serial) || info.max_transfer < c->info.max_transfer)
		return -ENODEV; /* another disk */
	err = ask_queues(c, c->nr_io);
	if (err >= 0)
		err = (unsigned int)err < c->nr_io ? -ENOSPC : 0;
	for (unsigned int i = 0; !err && i < c->nr_io; i++)
		err = create_queue(&c->io[i]);
	return err ? err : same_namespaces(c);
}
