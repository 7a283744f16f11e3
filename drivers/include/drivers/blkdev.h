/* SPDX-License-Identifier: MIT */
/*
 * Block devices: one request type, one table of operations, a registry by name.
 *
 * Flow:	a driver fills a struct blkdev and calls blkdev_register(); a user finds it with
 *		blkdev_get() or blkdev_wait() and hands it requests by blk_submit(), or calls
 *		the synchronous helpers.
 * Context:	blk_submit() never sleeps and never fails for want of room: a driver queues what
 *		its device has no room for.  done() may run in interrupt context, and before
 *		blk_submit() returns; it must not sleep.  The synchronous helpers sleep.
 * Limits:	segments are DMA-able: inside the direct map (frames, kmalloc), never a stack or
 *		vmalloc memory.  They belong to the device until done().  A sector is always 512
 *		bytes; a request starts and ends on a multiple of the device's own block_size.
 * Failure:	every submitted request is completed exactly once; a device that stops answering
 *		is reset by its driver, and its requests end in -ETIMEDOUT or -EIO.  The driver
 *		ends each request by blk_end(), which writes the line of a failure to the log.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

#define BLK_SECTOR_SHIFT 9
#define BLK_SECTOR_SIZE  512u
#define BLKDEV_NAME_LEN  32

enum blk_op {
	BLK_READ = 0,
	BLK_WRITE = 1,
	BLK_FLUSH = 2, /* no segments: everything written before is durable at done() */
	/* No segments, but nr_sectors: */
	BLK_DISCARD = 3, /* nobody needs the contents; what a later read finds is not said */
	BLK_ZERO = 4,    /* reads find zeros from done() on */
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
	uint64_t nr_sectors; /* of BLK_DISCARD and BLK_ZERO */
	void (*done)(struct blk_req *req);
	void *arg;  /* the submitter's */
	int status; /* 0 or -errno; valid from done() on */

	/* The driver's, from blk_submit() on, which fills in all but .link, to done(). */
	struct list_head link;
	uint64_t submitted_ns;
	struct blkdev *disk;  /* never a partition */
	uint64_t disk_sector; /* where it begins there; .sector is within a partition */
	struct blk_progress {
		unsigned int seg;     /* of a request of several commands: the first segment, */
		uint32_t off;         /* and the byte of it, that no command has yet */
		uint64_t begun;       /* bytes before that */
		unsigned int pending; /* commands with the device */
		int err;
	} progress;
};

struct blkdev_ops { /* one of the two, the other is NULL */
	void (*submit)(struct blkdev *bd, struct blk_req *req);
	/* The requests of a list, linked by .link, with one doorbell. */
	void (*submit_list)(struct blkdev *bd, struct list_head *reqs);
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
	uint64_t max_discard;         /* const: sectors of one BLK_DISCARD; 0: it cannot */
	uint64_t max_zero;            /* const: sectors of one BLK_ZERO; 0: it cannot */
	struct blkdev *disk;          /* const: of a partition, which has no operations itself */
	uint64_t first_sector;        /* const: of a partition on its disk */
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
 * to a read-only device, what the device cannot do) are completed at once with -EINVAL, -EIO,
 * -EROFS or -EOPNOTSUPP.
 */
void blk_submit(struct blkdev *bd, struct blk_req *req);
/* Start @nr requests together: the device is told once. */
void blk_submit_many(struct blkdev *bd, struct blk_req *reqs, unsigned int nr);
/* For drivers: @req, off all lists, is over with @status.  Any context, no lock held. */
void blk_end(struct blk_req *req, int status);

/* Bytes that the segments of @req add up to; of BLK_DISCARD and BLK_ZERO those of the range. */
uint64_t blk_req_len(const struct blk_req *req);

/* Synchronous helpers.  @buf is DMA-able; @len and @sector as in struct blk_req. */
int __must_check blk_read(struct blkdev *bd, uint64_t sector, void *buf, uint32_t len);
/* So far for tests, as is blk_flush(): files are read only. */
int __must_check blk_write(struct blkdev *bd, uint64_t sector, const void *buf, uint32_t len,
			   uint32_t flags);
/* So far for tests. */
int __must_check blk_flush(struct blkdev *bd);
/* In as many requests as the device's limits ask for; -EOPNOTSUPP: it cannot.  For tests. */
int __must_check blk_discard(struct blkdev *bd, uint64_t sector, uint64_t nr_sectors);
int __must_check blk_zero(struct blkdev *bd, uint64_t sector, uint64_t nr_sectors);
