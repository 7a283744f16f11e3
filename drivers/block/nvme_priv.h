/* SPDX-License-Identifier: MIT */
/*
 * NVMe driver: its structures, and the pure parts for tests.
 *
 * Locking:	nvme_queue.lock (irq-safe) guards ring, slots and waiting requests of one queue
 *		pair; no thread holds two.  The controller belongs to the thread that probes it, and
 *		then to its rescue worker, which alone sends admin commands.
 */
#pragma once

#include <drivers/blkdev.h>
#include <kernel/counter.h>
#include <kernel/spinlock.h>
#include <kernel/timer.h>
#include <kernel/wait.h>
#include <kernel/work.h>
#include <lib/atomic.h>
#include <lib/compiler.h>
#include <lib/list.h>

#include "nvme.h"

#define NVME_PAGE         4096u
#define NVME_LIST_ENTRIES 256u /* of a command's list of pages: 2 KiB, so none crosses a page */
#define NVME_LIST_LEN     (NVME_LIST_ENTRIES * sizeof(le64_t))
#define NVME_MAX_TRANSFER (NVME_LIST_ENTRIES * NVME_PAGE)
#define NVME_MAX_SEGS     64u
#define NVME_ADMIN_DEPTH  16u
#define NVME_IO_DEPTH     128u
#define NVME_TRIES        3u  /* of one command */
#define NVME_SLOT_BITS    10u /* of a command id; the rest counts the uses of the slot */

struct nvme;

/* Facts of the register CAP. */
struct nvme_caps {
	unsigned int max_depth; /* of a queue */
	unsigned int stride;    /* bytes from one doorbell to the next */
	uint64_t ready_ns;      /* how long enabling and disabling may take */
};

/* The answer to Identify, as far as the driver uses it. */
struct nvme_info {
	uint32_t max_transfer; /* bytes of one command */
	uint32_t nr_nsids;     /* the highest id of a namespace */
	bool volatile_cache;
	bool flush_for_fua; /* FUA is not to be relied on */
	bool discard;
	bool zeroes;
	char model[41];
	char serial[21];
};

/* One command, in flight or free. */
struct nvme_slot {
	struct list_head link; /* on the queue's free or busy list, oldest first */
	bool busy;
	bool reported; /* as slow */
	uint16_t use;  /* a part of the command id: a stale answer is recognised */
	unsigned int tries;
	struct blk_req *req; /* NULL: an admin command */
	struct nvme_cmd cmd; /* as sent, to be sent again */
	void *list;          /* DMA memory: pages behind the first, or the range of a discard */
	paddr_t list_paddr;
	uint64_t issued_ns;
	uint64_t aborted_ns; /* 0: no abort was sent */
};

struct nvme_queue {
	struct nvme *c;             /* const */
	unsigned int id;            /* const; 0: the admin queue */
	unsigned int depth;         /* const: entries of each ring; slots are one fewer */
	struct spinlock lock;       /* RANK_SPIN_QUEUE */
	struct nvme_cmd *sq;        /* DMA memory */
	struct nvme_cqe *cq;        /* DMA memory, the controller's */
	paddr_t sq_paddr, cq_paddr; /* const */
	struct nvme_slot *slots;
	void *lists; /* DMA memory of the slots */
	uint16_t sq_tail __guarded_by(&lock);
	uint16_t cq_head __guarded_by(&lock);
	uint16_t phase __guarded_by(&lock); /* of new completions */
	bool ring_due __guarded_by(&lock);  /* commands that the controller was not told of */
	bool open __guarded_by(&lock);      /* commands may be sent, answers count */
	bool dead __guarded_by(&lock);      /* for good */
	struct list_head free __guarded_by(&lock);
	struct list_head busy __guarded_by(&lock);
	struct list_head waiting __guarded_by(&lock); /* requests with parts that are not begun */
};

/* The services of the PCI bus, or of a test. */
struct nvme_bus {
	/* Call nvme_queue_irq(@q) when its interrupt, number nvme_vector(@q), comes. */
	int (*bind)(struct nvme *c, struct nvme_queue *q);
	/* On return the controller reaches no memory. */
	void (*fence)(struct nvme *c);
	/* On return no interrupt of it is handled any more. */
	void (*unbind)(struct nvme *c);
};

struct nvme_ns {
	struct blkdev bd;
	struct nvme *c;
	uint32_t nsid;
	unsigned int shift;    /* of the block size */
	struct list_head link; /* on nvme.namespaces */
};

struct nvme {
	const struct nvme_bus *bus; /* const, as all up to the name */
	void *bus_data;
	volatile uint8_t __iomem *regs;
	uint64_t regs_len;
	unsigned int nr_vectors;
	char name[16];
	struct nvme_caps caps;
	struct nvme_info info;
	struct nvme_queue admin;
	struct nvme_queue *io; /* const from nvme_start() on, as is nr_io */
	unsigned int nr_io;
	struct list_head namespaces; /* const from nvme_start() on */
	void *page;                  /* DMA memory for Identify */
	paddr_t page_paddr;
	struct completion admin_done;
	uint16_t admin_status; /* before admin_done, as is the result */
	uint32_t admin_result;
	bool dead;          /* rescue worker */
	const char *broken; /* atomic: the rule that it broke */
	bool started;       /* atomic: the rescue worker may have it */
	uint32_t watching;  /* atomic: the watchdog is set */
	struct timer watchdog;
	struct work rescue;
	struct workqueue *worker;
};

/* --- pure (nvme_decode.c) */

int __must_check nvme_decode_cap(uint64_t cap, uint64_t regs_len, struct nvme_caps *out);
int __must_check nvme_decode_ctrl(const struct nvme_id_ctrl *id, struct nvme_info *out);
/* Fill sizes and limits of @bd; -EOPNOTSUPP: blocks with metadata; -EINVAL: no sense. */
int __must_check nvme_decode_ns(const struct nvme_id_ns *id, const struct nvme_info *info,
				struct blkdev *bd, unsigned int *shift);
/* How many of the @max ids in @ids are there: they rise from @after on; -EINVAL: they do not. */
int __must_check nvme_decode_nsids(const le32_t *ids, unsigned int max, uint32_t after,
				   uint32_t highest);
int nvme_status_errno(uint16_t status);
/* Is it worth while to send the command again? */
bool nvme_status_again(uint16_t status);
/*
 * The next command of a read or write: as many bytes from @req->progress on as one command of at
 * most @max bytes can name, as pages in @cmd and in @list.  0: an address that no command can name.
 */
uint32_t nvme_cut(const struct blk_req *req, uint32_t max, le64_t *list, paddr_t list_paddr,
		  struct nvme_cmd *cmd);

/* --- rings (nvme_queue.c) */

int __must_check nvme_queue_init(struct nvme_queue *q, struct nvme *c, unsigned int id,
				 unsigned int depth);
void nvme_queue_free(struct nvme_queue *q);
/* Both rings empty, as the controller takes them after its reset.  Slots stay. */
void nvme_queue_rewind_locked(struct nvme_queue *q) __must_hold(&q->lock);
/* Put the command of @s into the ring; nvme_queue_ring_locked() tells of it. */
void nvme_queue_send_locked(struct nvme_queue *q, struct nvme_slot *s) __must_hold(&q->lock);
void nvme_queue_ring_locked(struct nvme_queue *q) __must_hold(&q->lock);
/* The slot of the next answer, copied to @out; NULL: none; ERR_PTR(-EIO): it makes no sense. */
struct nvme_slot *nvme_queue_take_locked(struct nvme_queue *q, struct nvme_cqe *out)
	__must_hold(&q->lock);
/* Tell the controller that the answers were taken. */
void nvme_queue_ack_locked(struct nvme_queue *q) __must_hold(&q->lock);
void nvme_slot_free_locked(struct nvme_queue *q, struct nvme_slot *s) __must_hold(&q->lock);

/* --- the controller (nvme_ctrl.c) */

unsigned int nvme_vector(const struct nvme_queue *q);
uint32_t nvme_read32(const struct nvme *c, enum nvme_reg reg);
/* From nothing to block devices.  On failure nvme_free() follows. */
int __must_check nvme_start(struct nvme *c, unsigned int nr_cpus);
void nvme_free(struct nvme *c);
/* Stop the controller and wait until it has.  -ENODEV: it is gone. */
int __must_check nvme_disable(struct nvme *c);
/* Disable, enable, and make the queues and namespaces again that nvme_start() made. */
int __must_check nvme_restart(struct nvme *c);
/* -ETIMEDOUT: no answer, and the controller has to be reset; -EIO: it refuses. */
int __must_check nvme_abort(struct nvme *c, unsigned int sq_id, uint16_t cid);

/* --- requests (nvme_io.c) */

extern const struct blkdev_ops nvme_blkdev_ops;
/* Take the answers of @q and start what waits.  Any context. */
void nvme_queue_irq(struct nvme_queue *q);
/* No more commands, and no answer counts. */
void nvme_queue_close(struct nvme_queue *q);
/* After a reset: what was with the controller is sent again, or fails after NVME_TRIES. */
void nvme_queue_reopen(struct nvme_queue *q);
/* Everything ends in @err, now and later. */
void nvme_queue_bury(struct nvme_queue *q, int err);

/* --- trouble (nvme_rescue.c) */

void nvme_rescue_init(struct nvme *c, struct workqueue *worker);
/* The controller is started: from now on it is the worker's. */
void nvme_rescue_ready(struct nvme *c);
/* For nvme_free(): neither timer nor worker runs on return. */
void nvme_rescue_end(struct nvme *c);
/* Look after the commands from now on.  Any context. */
void nvme_watch(struct nvme *c);
/* The controller broke the rule @why.  Any context. */
void nvme_broken(struct nvme *c, const char *why);
