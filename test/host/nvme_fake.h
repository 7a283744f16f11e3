/* SPDX-License-Identifier: MIT */
/*
 * An NVMe controller that is part of the test, and one that lies when told to.
 *
 * Flow:	fake_new() -> settings -> fake_start() -> block devices -> fake_free()
 * Context:	one thread of its own plays the controller: it takes commands when a doorbell is
 *		rung, moves data, answers, and raises the interrupt.
 */
#pragma once

#include "../../drivers/block/nvme_priv.h"

#define FAKE_MAX_NS     4u
#define FAKE_MAX_QUEUES 8u
#define FAKE_REGS_LEN   0x2000u

/* The fate of a command. */
enum fake_deed {
	FAKE_DO,       /* what it says */
	FAKE_SWALLOW,  /* no answer, until an Abort or a reset */
	FAKE_STOP,     /* no answer, and none to what follows, until a reset */
	FAKE_ANSWERED, /* the hook has posted what it wanted */
};

struct fake;

struct fake_ns {
	uint32_t id;
	uint64_t blocks;
	unsigned int shift;
	uint8_t *data;
};

struct fake {
	/* Settings. */
	uint64_t cap;
	struct nvme_id_ctrl id;
	struct fake_ns ns[FAKE_MAX_NS];
	unsigned int nr_ns;
	uint32_t granted; /* answer to the number of queues; 0: what was asked for */
	bool never_ready;
	bool deaf_abort; /* an Abort ends nothing */
	bool no_interrupts;
	/* Any command, before it is done; with the lock, and *status to be changed. */
	enum fake_deed (*hook)(struct fake *f, unsigned int sq, const struct nvme_cmd *cmd,
			       uint16_t *status);
	unsigned int hook_left; /* for hooks: how often */

	/* Counts of events. */
	unsigned int nr_doorbells[FAKE_MAX_QUEUES]; /* of commands */
	unsigned int nr_flushes, nr_fua, nr_ranges, nr_zeroings, nr_transfers, nr_enables,
		nr_fences;
	uint32_t longest; /* transfer */

	/* The controller's. */
	struct nvme c;
	struct workqueue *worker;
	void *priv;
};

struct fake *fake_new(void);
void fake_add_ns(struct fake *f, uint32_t id, uint64_t blocks, unsigned int shift);
int fake_start(struct fake *f, unsigned int nr_cpus);
void fake_free(struct fake *f);
/* Run @fn with the controller standing still. */
void fake_lock(struct fake *f);
void fake_unlock(struct fake *f);
/* The registers read as ones from now on, and no command is taken. */
void fake_vanish(struct fake *f);
/* Set CSTS: a fatal error, or RDY gone. */
void fake_set_csts(struct fake *f, uint32_t csts);
/* Put an answer into the ring of @sq, as it is.  With the lock. */
void fake_post(struct fake *f, unsigned int sq, uint16_t cid, uint16_t sq_id, uint16_t sq_head,
	       uint16_t status);
