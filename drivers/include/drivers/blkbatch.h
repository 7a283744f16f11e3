/* SPDX-License-Identifier: MIT */
/*
 * Many requests to a block device, gathered and run together.
 *
 * Flow:	blk_batch_new() -> blk_batch_add()... -> blk_batch_run() -> blk_batch_free()
 * Context:	one thread; add and run sleep.
 * Limits:	neighbours become one request, as far as the device allows.  A batch that is full
 *		is run by the next blk_batch_add().
 * Failure:	the first error of any request is what blk_batch_run() returns; all are done.
 */
#pragma once

#include <drivers/blkdev.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct blk_batch;

/* NULL: no memory. */
struct blk_batch *blk_batch_new(struct blkdev *bd);
/* Nothing may be left to be run. */
void blk_batch_free(struct blk_batch *b);
/* Gather a transfer of @len bytes.  @buf is the device's until blk_batch_run() returns. */
void blk_batch_add(struct blk_batch *b, enum blk_op op, uint64_t sector, void *buf, uint32_t len);
/*
 * How often what was gathered has been run: while the number stays the same, the buffers that were
 * added since may still be changed.
 */
uint32_t blk_batch_nr_runs(const struct blk_batch *b);
/* Start what is gathered, wait for it, and return the first error since the last call, or 0. */
int __must_check blk_batch_run(struct blk_batch *b);
