/* SPDX-License-Identifier: MIT */
/*
 * A disk in memory that records what is written and flushed, so that a power cut at any moment can
 * be played: all that was flushed, and any part of what was not.
 *
 * Flow:	logdisk_open(image) -> use logdisk_bd() -> logdisk_crash(at, seed, out)
 * Limits:	requests are done on the spot.  Reads see all writes.
 */
#pragma once

#include <drivers/blkdev.h>
#include <lib/types.h>

struct logdisk;

/* A copy of the file @path; aborts when that cannot be read. */
struct logdisk *logdisk_open(const char *path);
void logdisk_close(struct logdisk *d);
struct blkdev *logdisk_bd(struct logdisk *d);
uint64_t logdisk_len(const struct logdisk *d);
/* Its contents, for damage that no write records. */
uint8_t *logdisk_bytes(struct logdisk *d);
/* Writes and flushes so far. */
size_t logdisk_nr_events(const struct logdisk *d);
/* From now on write number @nr and all later ones fail (SIZE_MAX: none). */
void logdisk_fail_at(struct logdisk *d, size_t nr);
/* Only that one fails, of all writes and flushes that are asked for. */
void logdisk_fail_only(struct logdisk *d, size_t nr);
/* Writes and flushes so far, those that failed too. */
size_t logdisk_nr_asked(const struct logdisk *d);
/* From now on all reads fail, or none. */
void logdisk_fail_reads(struct logdisk *d, bool fail);
/* From now on reads that touch bytes [@from, @to) fail; 0, 0: none. */
void logdisk_fail_range(struct logdisk *d, uint64_t from, uint64_t to);
/*
 * Write to @path what the disk may hold after a power cut behind event number @at: every write that
 * a flush or FUA made durable, and each of the others whole, in part
 * (whole sectors) or not, as @seed has it.
 */
void logdisk_crash(const struct logdisk *d, size_t at, uint64_t seed, const char *path);
/* Behind the first write with FUA from @at on: a moment at which much is promised. */
size_t logdisk_next_fua(const struct logdisk *d, size_t at);
/* Write to @path what it holds now. */
void logdisk_save(const struct logdisk *d, const char *path);
