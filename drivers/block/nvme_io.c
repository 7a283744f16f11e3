/* SPDX-License-Identifier: MIT */
/*
 * NVMe: requests of block devices become commands, and answers end requests.
 *
 * Flow:	submit puts requests into the list of waiting ones of this CPU's queue pair.  While
 *		slots are free, the first of them is cut into commands, as few as its memory and the
 *		controller's limits allow; the doorbell is rung once for all.  The interrupt takes
 *		the answers; a request is over when none of its commands is left.
 * Context:	submit and nvme_queue_irq(): any.  The others: the rescue worker.
 * Locking:	the queue's lock.  blk_end() runs without it.
 * Ordering:	BLK_FLUSH is passed on, BLK_FUA is a bit of the write; where the controller is known
 *		to ignore that, a flush follows the request's last command.  Without a volatile
 *		cache all of it is left out.
 * Failure:	a command that was aborted, or lost in a reset, is sent again, NVME_TRIES times in
 *		all; then its request ends in -EIO.  A media error is not tried again.
 */
#include <arch/barrier.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "nvme_priv.h"

COUNTER(nvme_requests, "nvme.requests", "requests given to disks");
COUNTER(nvme_bytes, "nvme.bytes", "bytes of those requests");
COUNTER(nvme_commands, "nvme.commands", "commands that they were cut into");
COUNTER(nvme_errors, "nvme.errors", "requests that ended in an error");
COUNTER(nvme_retries, "nvme.retries", "commands that were sent again");
HISTOGRAM(nvme_latency, "nvme.latency_ns", "from submit to the end of a request");

/* Requests that are over, to be ended without the lock. */
static void end_list(struct list_head *over)
{
	struct blk_req *req, *next;

	list_for_each_entry_safe(req, next, over, link) {
		list_del(&req->link);
		if (req->progress.err)
			counter_inc(&nvme_errors);
		hist_record(&nvme_latency, time_now_ns() - req->submitted_ns);
		blk_end(req, req->progress.err);
	}
}

/* Does every part of @req have a command?  Then it is on no list. */
static bool all_begun(const struct blk_req *req)
{
	return req->progress.seg >= MAX(req->nr_segs, 1u);
}

/* @req has an error: begin no more of it.  True: no command of it is left either. */
static bool fail_req(struct blk_req *req, int err)
{
	if (!req->progress.err) {
		if (!all_begun(req))
			list_del(&req->link);
		req->progress.err = err;
	}
	return !req->progress.pending;
}

static void advance(struct blk_req *req, uint32_t len)
{
	struct blk_progress *p = &req->progress;

	p->begun += len;
	while (len) {
		const uint32_t part = MIN(len, req->segs[p->seg].len - p->off);

		len -= part;
		p->off += part;
		if (p->off == req->segs[p->seg].len) {
			p->seg++;
			p->off = 0;
		}
	}
}

static void set_range(struct nvme_cmd *cmd, uint64_t block, uint32_t nr_blocks)
{
	cmd->cdw10 = cpu_to_le32((uint32_t)block);
	cmd->cdw11 = cpu_to_le32((uint32_t)(block >> 32));
	cmd->cdw12 = cpu_to_le32(nr_blocks - 1);
}

static void build_range(struct nvme_slot *s, const struct blk_req *req, const struct nvme_ns *ns)
{
	const unsigned int shift = ns->shift - BLK_SECTOR_SHIFT;
	const uint64_t block = req->disk_sector >> shift;
	const uint32_t nr = (uint32_t)(req->nr_sectors >> shift); /* bounded by the limits */
	struct nvme_range *range = s->list;

	if (req->op == BLK_ZERO) {
		s->cmd.opcode = NVME_IO_WRITE_ZEROES;
		set_range(&s->cmd, block, nr);
		return;
	}
	*range = (struct nvme_range){ .nr_blocks = cpu_to_le32(nr), .block = cpu_to_le64(block) };
	s->cmd.opcode = NVME_IO_DSM;
	s->cmd.prp1 = cpu_to_le64(s->list_paddr);
	s->cmd.cdw10 = cpu_to_le32(0); /* one range */
	s->cmd.cdw11 = cpu_to_le32(NVME_DSM_DEALLOCATE);
}

static int build_transfer(struct nvme_slot *s, struct blk_req *req, const struct nvme_ns *ns)
{
	const uint64_t at = (req->disk_sector << BLK_SECTOR_SHIFT) + req->progress.begun;
	const uint32_t len =
		nvme_cut(req, ns->c->info.max_transfer, s->list, s->list_paddr, &s->cmd);

	if (!len)
		return -EINVAL;
	ASSERT(!(len & (ns->bd.block_size - 1)));
	s->cmd.opcode = req->op == BLK_WRITE ? NVME_IO_WRITE : NVME_IO_READ;
	set_range(&s->cmd, at >> ns->shift, len >> ns->shift);
	if (req->op == BLK_WRITE && (req->flags & BLK_FUA) && ns->bd.has_flush)
		s->cmd.cdw12 |= cpu_to_le32(NVME_RW_FUA);
	advance(req, len);
	return 0;
}

/* The next command of @req. */
static int build(struct nvme_slot *s, struct blk_req *req)
{
	const struct nvme_ns *ns = req->disk->driver;
	int err = 0;

	s->cmd = (struct nvme_cmd){ .nsid = cpu_to_le32(ns->nsid) };
	s->tries = 0;
	if (req->op == BLK_READ || req->op == BLK_WRITE) {
		err = build_transfer(s, req, ns);
	} else {
		if (req->op == BLK_FLUSH)
			s->cmd.opcode = NVME_IO_FLUSH;
		else
			build_range(s, req, ns);
		req->progress.seg++;
	}
	return err;
}

/* Start what waits while there is room, and tell the controller once. */
static void start_locked(struct nvme_queue *q, struct list_head *over) __must_hold(&q->lock)
{
	assert_spin_held(&q->lock);
	while (q->open && !list_empty(&q->waiting) && !list_empty(&q->free)) {
		struct blk_req *req = list_first_entry(&q->waiting, struct blk_req, link);
		struct nvme_slot *s = list_first_entry(&q->free, struct nvme_slot, link);
		const int err = build(s, req);

		if (err) {
			if (fail_req(req, err))
				list_add_tail(&req->link, over);
			continue;
		}
		if (all_begun(req))
			list_del(&req->link);
		s->req = req;
		req->progress.pending++;
		nvme_queue_send_locked(q, s);
		counter_inc(&nvme_commands);
	}
	nvme_queue_ring_locked(q);
}

static void submit_list(struct blkdev *bd, struct list_head *reqs)
{
	const struct nvme_ns *ns = bd->driver;
	struct nvme_queue *q = &ns->c->io[cpu_id() % ns->c->nr_io];
	struct blk_req *req, *next;
	unsigned long flags;
	LIST_HEAD(over);

	flags = spin_lock_irqsave(&q->lock);
	list_for_each_entry_safe(req, next, reqs, link) {
		list_del(&req->link);
		counter_inc(&nvme_requests);
		counter_add(&nvme_bytes, blk_req_len(req));
		if (q->dead)
			req->progress.err = -EIO;
		if (q->dead || (req->op == BLK_FLUSH && !bd->has_flush))
			list_add_tail(&req->link, &over);
		else
			list_add_tail(&req->link, &q->waiting);
	}
	start_locked(q, &over);
	spin_unlock_irqrestore(&q->lock, flags);
	nvme_watch(ns->c);
	end_list(&over);
}

const struct blkdev_ops nvme_blkdev_ops = { .submit_list = submit_list };

#define FLUSHING UINT32_MAX /* progress.off when all is written, and being flushed */

/* @req was written by the command that is over: is it the device's cache that has it? */
static bool wants_flush(const struct blk_req *req)
{
	const struct nvme_ns *ns = req->disk->driver;

	return req->op == BLK_WRITE && (req->flags & BLK_FUA) && ns->bd.has_flush &&
	       ns->c->info.flush_for_fua && !req->progress.err && req->progress.pending == 1 &&
	       all_begun(req) && req->progress.off != FLUSHING;
}

/* The slot of the last write serves the flush behind it. */
static void flush_behind_locked(struct nvme_queue *q, struct nvme_slot *s) __must_hold(&q->lock)
{
	const struct nvme_ns *ns = s->req->disk->driver;

	assert_spin_held(&q->lock);
	s->req->progress.off = FLUSHING;
	s->cmd = (struct nvme_cmd){ .opcode = NVME_IO_FLUSH, .nsid = cpu_to_le32(ns->nsid) };
	s->tries = 0;
	nvme_queue_send_locked(q, s);
	counter_inc(&nvme_commands);
}

/* The command of @s is over. */
static void over_locked(struct nvme_queue *q, struct nvme_slot *s, int err, struct list_head *over)
	__must_hold(&q->lock)
{
	struct blk_req *req = s->req;

	assert_spin_held(&q->lock);
	if (!err && req && wants_flush(req)) {
		flush_behind_locked(q, s);
		return;
	}
	nvme_slot_free_locked(q, s);
	if (!req)
		return;
	ASSERT(req->progress.pending);
	req->progress.pending--;
	if (err ? fail_req(req, err)
		: !req->progress.pending && (all_begun(req) || req->progress.err))
		list_add_tail(&req->link, over);
}

static void answer_locked(struct nvme_queue *q, struct nvme_slot *s, const struct nvme_cqe *cqe,
			  struct list_head *over) __must_hold(&q->lock)
{
	const uint16_t status = le16_to_cpu(cqe->status) >> 1;

	assert_spin_held(&q->lock);
	if (!s->req) {
		q->c->admin_status = status;
		q->c->admin_result = le32_to_cpu(cqe->result);
		over_locked(q, s, 0, over);
		complete(&q->c->admin_done);
	} else if (nvme_status_again(status) && s->tries < NVME_TRIES) {
		counter_inc(&nvme_retries);
		nvme_queue_send_locked(q, s);
	} else {
		over_locked(q, s, nvme_status_errno(status), over);
	}
}

void nvme_queue_irq(struct nvme_queue *q)
{
	struct nvme_slot *s = NULL;
	struct nvme_cqe cqe;
	bool taken = false;
	unsigned long flags;
	LIST_HEAD(over);

	flags = spin_lock_irqsave(&q->lock);
	while (q->open && (s = nvme_queue_take_locked(q, &cqe)) != NULL) {
		if (IS_ERR(s)) {
			q->open = false;
			break;
		}
		taken = true;
		answer_locked(q, s, &cqe, &over);
	}
	if (taken && q->open)
		nvme_queue_ack_locked(q);
	start_locked(q, &over);
	spin_unlock_irqrestore(&q->lock, flags);
	if (IS_ERR(s)) {
		nvme_broken(q->c, "it answers what was not asked");
		if (!q->id)
			complete(&q->c->admin_done);
	}
	end_list(&over);
}

void nvme_queue_close(struct nvme_queue *q)
{
	const unsigned long flags = spin_lock_irqsave(&q->lock);

	q->open = false;
	spin_unlock_irqrestore(&q->lock, flags);
}

void nvme_queue_reopen(struct nvme_queue *q)
{
	struct nvme_slot *s, *next;
	unsigned long flags;
	LIST_HEAD(again);
	LIST_HEAD(over);

	flags = spin_lock_irqsave(&q->lock);
	ASSERT(!q->open && !q->dead);
	q->open = true;
	list_splice_tail(&q->busy, &again);
	list_for_each_entry_safe(s, next, &again, link) {
		if (s->tries >= NVME_TRIES) {
			over_locked(q, s, -EIO, &over);
		} else {
			counter_inc(&nvme_retries);
			nvme_queue_send_locked(q, s);
		}
	}
	start_locked(q, &over);
	spin_unlock_irqrestore(&q->lock, flags);
	end_list(&over);
}

void nvme_queue_bury(struct nvme_queue *q, int err)
{
	struct blk_req *req, *next_req;
	struct nvme_slot *s, *next;
	unsigned long flags;
	LIST_HEAD(over);

	flags = spin_lock_irqsave(&q->lock);
	q->open = false;
	q->dead = true;
	list_for_each_entry_safe(req, next_req, &q->waiting, link) {
		if (fail_req(req, err))
			list_add_tail(&req->link, &over);
	}
	list_for_each_entry_safe(s, next, &q->busy, link)
		over_locked(q, s, err, &over);
	spin_unlock_irqrestore(&q->lock, flags);
	end_list(&over);
}
