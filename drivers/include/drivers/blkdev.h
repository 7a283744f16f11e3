/* SPDX-License-Identifier: MIT */
/*
 * Block devices: one request type, one table of operations, a registry by name.
 *
 * Flow:	a driver fills a struct blkdev and calls blkdev_register(); a user finds it with
 *		blkdev_get() or blkdev_wait() and hands it requests by blk_submit(), or calls
 *		the synchronous helpers.
 * Context:	blk_submit() never sleeps and never fails for want of room: a driver queues what
 *		its device has no room for.  done() may run in interrupt context, and before
 *		blk_submit() returns; it must not sleep.  blk_read() and blk_flush() sleep.
 * Limits:	segments are DMA-able: inside the direct map (frames, kmalloc), never a stack or
 *		vmalloc memory.  They belong to the device until done().  A sector is always 512
 *		bytes; a request starts and ends on a multiple of the device's own block_size.
 * Failure:	every submitted request is completed exactly once; a device that stops answering
 *		is reset by its driver, and its requests end in -ETIMEDOUT.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

#define BLK_SECTOR_SHIFT 9
#define BLK_SECTOR_SIZE  512u
#define BLKDEV_NAME_LEN  16

enum blk_op {
	BLK_READ = 0,
	BLK_WRITE = 1,
	BLK_FLUSH = 2, /* no segments: everything written before is durable at done() */
};

enum blk_flags {
	BLK_FUA = 1u << 0, /* a write is durable at done() */
};

struct blk_seg {
	void *buf;
	uint32_t len; /* bytes; a multiple of the device's block_size */
};

struct blkdev;

struct blk_req {
	enum blk_op op;
	uint32_t flags; /* enum blk_flags */
	uint64_t sector;
	const struct blk_seg *segs; /* must outlive done() */
	unsigned int nr_segs;
	void (*done)(struct blk_req *req);
	void *arg;  /* the submitter's */
	int status; /* 0 or -errno; valid from done() on */

	/* The driver's, from blk_submit() to done(). */
	struct list_head link;
	uint64_t submitted_ns;
	void *driver;
};

struct blkdev_ops {
	void (*submit)(struct blkdev *bd, struct blk_req *req);
};

struct blkdev {
	const struct blkdev_ops *ops; /* const */
	void *driver;                 /* const */
	char name[BLKDEV_NAME_LEN];   /* const, unique */
	uint64_t nr_sectors;          /* const */
	uint32_t block_size;          /* const: bytes, a power of two, 512 to 64 KiB */
	unsigned int max_segs;        /* const: segments of one request */
	uint32_t max_seg_len;         /* const: bytes of one segment */
	bool read_only;               /* const */
	bool has_flush;               /* const: false: writes are durable when done */
	struct list_head link;        /* the registry's */
};

/* Make @bd findable.  -EEXIST: the name is taken; -EINVAL: fields out of range. */
int __must_check blkdev_register(struct blkdev *bd);

/* NULL: no such device (yet).  Devices are not unplugged while someone uses them. */
struct blkdev *blkdev_get(const char *name);
/* The same, but waits for the device until the absolute time @deadline_ns. */
struct blkdev *blkdev_wait(const char *name, uint64_t deadline_ns);

/*
 * Start @req.  Bad requests (outside the device, unaligned, too many segments, a write
 * to a read-only device) are completed at once with -EINVAL, -EIO or -EROFS.
 */
void blk_submit(struct blkdev *bd, struct blk_req *req);

/* Bytes that the segments of @req add up to. */
uint64_t blk_req_len(const struct blk_req *req);

/* Synchronous helpers.  @buf is DMA-able; @len and @sector as in struct blk_req. */
int __must_check blk_read(struct blkdev *bd, uint64_t sector, void *buf, uint32_t len);
/* So far for tests, as is blk_flush(): files are read only. */
int __must_check blk_write(struct blkdev *bd, uint64_t sector, const void *buf, uint32_t len,
			   uint32_t flags);
/* So far for tests. */
int __must_check blk_flush(struct blkdev *bd);
