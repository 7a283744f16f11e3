/* SPDX-License-Identifier: MIT */
/*
 * Block device registry, request checks and the synchronous helpers.
 *
 * Context:	as in <drivers/blkdev.h>.
 * Locking:	registry.lock (RANK_SPIN_DRIVER) guards the list; devices are const.
 */
#define PR_FMT "blk: "

#include <drivers/blkdev.h>

#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/errno.h>
#include <lib/string.h>

static struct {
	struct spinlock lock;
	struct list_head devices __guarded_by(&lock);
	struct waitqueue arrived;
} registry = {
	.lock = SPINLOCK_INIT("blkdev", RANK_SPIN_DRIVER),
	.devices = LIST_HEAD_INIT(registry.devices),
	.arrived = WAITQUEUE_INIT(registry.arrived),
};

static struct blkdev *find_locked(const char *name) __must_hold(&registry.lock)
{
	struct blkdev *bd;

	assert_spin_held(&registry.lock);
	list_for_each_entry(bd, &registry.devices, link) {
		if (!strcmp(bd->name, name))
			return bd;
	}
	return NULL;
}

static bool block_size_ok(uint32_t size)
{
	return size >= BLK_SECTOR_SIZE && size <= 65536 && !(size & (size - 1));
}

int blkdev_register(struct blkdev *bd)
{
	int err = 0;

	if (bd->disk ? bd->disk->disk != NULL
		     : !bd->ops || !bd->ops->submit == !bd->ops->submit_list)
		return -EINVAL;
	if (!bd->max_segs || !block_size_ok(bd->block_size))
		return -EINVAL;
	if (bd->max_seg_len < bd->block_size || bd->max_seg_len % bd->block_size)
		return -EINVAL;
	if (!bd->name[0] || strnlen(bd->name, sizeof(bd->name)) == sizeof(bd->name))
		return -EINVAL;
	if (bd->nr_sectors > UINT64_MAX >> BLK_SECTOR_SHIFT)
		return -EINVAL;
	if (MAX(bd->max_discard, bd->max_zero) > UINT64_MAX >> BLK_SECTOR_SHIFT)
		return -EINVAL;

	spin_lock(&registry.lock);
	if (find_locked(bd->name))
		err = -EEXIST;
	else
		list_add_tail(&bd->link, &registry.devices);
	spin_unlock(&registry.lock);
	if (!err)
		wake_all(&registry.arrived);
	return err;
}

struct blkdev *blkdev_get(const char *name)
{
	struct blkdev *bd;

	spin_lock(&registry.lock);
	bd = find_locked(name);
	spin_unlock(&registry.lock);
	return bd;
}

struct blkdev *blkdev_wait(const char *name, uint64_t deadline_ns)
{
	struct blkdev *bd = NULL;

	if (!wait_event_timeout(&registry.arrived, (bd = blkdev_get(name)) != NULL, deadline_ns))
		return NULL;
	return bd;
}

uint64_t blk_req_len(const struct blk_req *req)
{
	uint64_t len = 0;

	if (req->op == BLK_DISCARD || req->op == BLK_ZERO)
		return req->nr_sectors << BLK_SECTOR_SHIFT;
	for (unsigned int i = 0; i < req->nr_segs; i++)
		len += req->segs[i].len;
	return len;
}

static int segs_check(const struct blkdev *bd, const struct blk_req *req)
{
	if (!req->nr_segs || req->nr_segs > bd->max_segs)
		return -EINVAL;
	for (unsigned int i = 0; i < req->nr_segs; i++) {
		const uint32_t len = req->segs[i].len;

		if (!len || len % bd->block_size || len > bd->max_seg_len)
			return -EINVAL;
	}
	return 0;
}

/* Requests that name a range instead of memory. */
static int range_check(const struct blkdev *bd, const struct blk_req *req)
{
	const uint64_t max = req->op == BLK_DISCARD ? bd->max_discard : bd->max_zero;

	if (!max)
		return -EOPNOTSUPP;
	if (req->nr_segs || !req->nr_sectors || req->nr_sectors > max)
		return -EINVAL;
	return req->nr_sectors % (bd->block_size >> BLK_SECTOR_SHIFT) ? -EINVAL : 0;
}

/* Can this device do @req?  0 or -errno. */
static int req_check(const struct blkdev *bd, const struct blk_req *req)
{
	const uint32_t per_block = bd->block_size >> BLK_SECTOR_SHIFT;
	uint64_t nr;
	int err;

	if (req->op == BLK_FLUSH)
		return req->nr_segs ? -EINVAL : 0;
	if (req->op != BLK_READ && bd->read_only)
		return -EROFS;
	if (req->op == BLK_READ || req->op == BLK_WRITE)
		err = segs_check(bd, req);
	else if (req->op == BLK_DISCARD || req->op == BLK_ZERO)
		err = range_check(bd, req);
	else
		err = -EINVAL;
	if (err)
		return err;
	nr = blk_req_len(req) >> BLK_SECTOR_SHIFT;
	if (req->sector % per_block)
		return -EINVAL;
	if (nr > bd->nr_sectors || req->sector > bd->nr_sectors - nr)
		return -EIO;
	return 0;
}

static struct blkdev *disk_of(struct blkdev *bd)
{
	return bd->disk ? bd->disk : bd;
}

/* Check @req and say where on the disk it is; false: it is over. */
static bool req_begin(struct blkdev *bd, struct blk_req *req)
{
	const int err = req_check(bd, req);

	if (err) {
		req->status = err;
		req->done(req);
		return false;
	}
	req->disk = disk_of(bd);
	req->disk_sector = bd->first_sector + req->sector;
	req->progress = (struct blk_progress){ 0 };
	req->submitted_ns = time_now_ns();
	return true;
}

void blk_submit_many(struct blkdev *bd, struct blk_req *reqs, unsigned int nr)
{
	struct blkdev *disk = disk_of(bd);
	LIST_HEAD(good);

	for (unsigned int i = 0; i < nr; i++) {
		if (!req_begin(bd, &reqs[i]))
			continue;
		if (disk->ops->submit)
			disk->ops->submit(disk, &reqs[i]);
		else
			list_add_tail(&reqs[i].link, &good);
	}
	if (!list_empty(&good))
		disk->ops->submit_list(disk, &good);
}

void blk_submit(struct blkdev *bd, struct blk_req *req)
{
	blk_submit_many(bd, req, 1);
}

static const char *op_name(enum blk_op op)
{
	switch (op) {
	case BLK_READ:
		return "read";
	case BLK_WRITE:
		return "write";
	case BLK_FLUSH:
		return "flush";
	case BLK_DISCARD:
		return "discard";
	case BLK_ZERO:
		return "zeroing";
	}
	return "request";
}

void blk_end(struct blk_req *req, int status)
{
	ASSERT(status <= 0);
	/* A device may turn out not to discard; that is no failure of the disk. */
	if (status && status != -EOPNOTSUPP)
		pr_warn_ratelimited("%s: %s of %llu bytes at sector %llu failed (%d)\n",
				    req->disk->name, op_name(req->op),
				    (unsigned long long)blk_req_len(req),
				    (unsigned long long)req->disk_sector, status);
	req->status = status;
	req->done(req);
}

static void sync_done(struct blk_req *req)
{
	complete(req->arg);
}

static int run_sync(struct blkdev *bd, struct blk_req *req)
{
	struct completion done;

	completion_init(&done);
	req->done = sync_done;
	req->arg = &done;
	blk_submit(bd, req);
	completion_wait(&done); /* bounded: the driver's watchdog completes what is stuck */
	return req->status;
}

/* Read or write @len bytes, in as many requests as the device's segment length asks for. */
static int transfer(struct blkdev *bd, enum blk_op op, uint64_t sector, void *buf, uint32_t len,
		    uint32_t flags)
{
	uint8_t *p = buf;
	int err;

	if (!len)
		return -EINVAL;
	while (len) {
		const struct blk_seg seg = { .buf = p, .len = MIN(len, bd->max_seg_len) };
		struct blk_req req = {
			.op = op, .flags = flags, .sector = sector, .segs = &seg, .nr_segs = 1
		};

		err = run_sync(bd, &req);
		if (err)
			return err;
		p += seg.len;
		len -= seg.len;
		sector += seg.len >> BLK_SECTOR_SHIFT;
	}
	return 0;
}

int blk_read(struct blkdev *bd, uint64_t sector, void *buf, uint32_t len)
{
	return transfer(bd, BLK_READ, sector, buf, len, 0);
}

int blk_write(struct blkdev *bd, uint64_t sector, const void *buf, uint32_t len, uint32_t flags)
{
	return transfer(bd, BLK_WRITE, sector, (void *)(uintptr_t)buf, len, flags);
}

int blk_flush(struct blkdev *bd)
{
	struct blk_req req = { .op = BLK_FLUSH };

	return run_sync(bd, &req);
}

static int over_range(struct blkdev *bd, enum blk_op op, uint64_t sector, uint64_t nr_sectors,
		      uint64_t max)
{
	const uint64_t step = ALIGN_DOWN(max, (uint64_t)(bd->block_size >> BLK_SECTOR_SHIFT));

	if (!nr_sectors)
		return -EINVAL;
	if (!step)
		return -EOPNOTSUPP;
	while (nr_sectors) {
		const uint64_t nr = MIN(nr_sectors, step);
		struct blk_req req = { .op = op, .sector = sector, .nr_sectors = nr };
		const int err = run_sync(bd, &req);

		if (err)
			return err;
		sector += nr;
		nr_sectors -= nr;
	}
	return 0;
}

int blk_discard(struct blkdev *bd, uint64_t sector, uint64_t nr_sectors)
{
	return over_range(bd, BLK_DISCARD, sector, nr_sectors, bd->max_discard);
}

int blk_zero(struct blkdev *bd, uint64_t sector, uint64_t nr_sectors)
{
	return over_range(bd, BLK_ZERO, sector, nr_sectors, bd->max_zero);
}
