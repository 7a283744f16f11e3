/* SPDX-License-Identifier: MIT */
/*
 * Batches of requests to a block device.
 *
 * Context:	as in <drivers/blkbatch.h>; done() runs wherever the driver completes.
 * Ordering:	pending counts requests in flight, and one for the submitter while it submits, so
 *		that the last one, whoever that is, completes.
 */
#include <drivers/blkbatch.h>

#include <kernel/panic.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/string.h>
#include <mm/slab.h>

#define BATCH_REQS 32u
#define BATCH_SEGS 128u

struct blk_batch {
	struct blkdev *bd;
	struct blk_req reqs[BATCH_REQS];
	struct blk_seg segs[BATCH_SEGS];
	unsigned int nr_reqs;
	unsigned int nr_segs;
	uint32_t nr_runs;
	uint64_t next_sector; /* where the last request ends */
	atomic_t pending;
	atomic_t err; /* the first error, as a positive errno */
	struct completion done;
};

struct blk_batch *blk_batch_new(struct blkdev *bd)
{
	struct blk_batch *b = kzalloc(sizeof(*b));

	if (b)
		b->bd = bd;
	return b;
}

void blk_batch_free(struct blk_batch *b)
{
	ASSERT(!b->nr_reqs);
	kfree(b);
}

static void req_done(struct blk_req *req)
{
	struct blk_batch *b = req->arg;

	if (req->status)
		atomic_cmpxchg(&b->err, 0, -req->status);
	if (atomic_dec_and_test(&b->pending))
		complete(&b->done);
}

static void run(struct blk_batch *b)
{
	const unsigned int nr = b->nr_reqs;

	if (!nr)
		return;
	b->nr_runs++;
	completion_init(&b->done);
	atomic_set(&b->pending, (int)nr + 1);
	blk_submit_many(b->bd, b->reqs, nr);
	if (!atomic_dec_and_test(&b->pending))
		completion_wait(&b->done);
	b->nr_reqs = 0;
	b->nr_segs = 0;
}

/* Append to the last request if @sector follows it there. */
static bool extend(struct blk_batch *b, enum blk_op op, uint64_t sector, uint8_t *buf, uint32_t len)
{
	struct blk_req *req;
	struct blk_seg *seg;

	if (!b->nr_reqs || sector != b->next_sector)
		return false;
	req = &b->reqs[b->nr_reqs - 1];
	seg = &b->segs[b->nr_segs - 1];
	if (req->op != op)
		return false;
	if ((uint8_t *)seg->buf + seg->len == buf && len <= b->bd->max_seg_len - seg->len) {
		seg->len += len;
	} else {
		if (b->nr_segs == BATCH_SEGS || req->nr_segs == b->bd->max_segs)
			return false;
		b->segs[b->nr_segs++] = (struct blk_seg){ .buf = buf, .len = len };
		req->nr_segs++;
	}
	b->next_sector += len >> BLK_SECTOR_SHIFT;
	return true;
}

void blk_batch_add(struct blk_batch *b, enum blk_op op, uint64_t sector, void *buf, uint32_t len)
{
	struct blk_req *req;

	if (extend(b, op, sector, buf, len))
		return;
	if (b->nr_reqs == BATCH_REQS || b->nr_segs == BATCH_SEGS)
		run(b);
	ASSERT(b->nr_reqs < BATCH_REQS && b->nr_segs < BATCH_SEGS);
	req = &b->reqs[b->nr_reqs++];
	*req = (struct blk_req){
		.op = op,
		.sector = sector,
		.segs = &b->segs[b->nr_segs],
		.nr_segs = 1,
		.done = req_done,
		.arg = b,
	};
	b->segs[b->nr_segs++] = (struct blk_seg){ .buf = buf, .len = len };
	b->next_sector = sector + (len >> BLK_SECTOR_SHIFT);
}

uint32_t blk_batch_nr_runs(const struct blk_batch *b)
{
	return b->nr_runs;
}

int blk_batch_run(struct blk_batch *b)
{
	run(b);
	return -atomic_xchg(&b->err, 0);
}
