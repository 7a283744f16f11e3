/* SPDX-License-Identifier: MIT */
/*
 * The recording disk.
 *
 * Locking:	disk.lock: threads submit at once.
 */
#include "logdisk.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <lib/errno.h>
#include <lib/prng.h>

struct event {
	uint64_t at;
	uint32_t len; /* 0: a flush */
	bool fua;
	uint8_t *data;
};

struct logdisk {
	struct blkdev bd;
	pthread_mutex_t lock;
	uint8_t *base; /* as it was opened */
	uint8_t *now;
	uint64_t len;
	struct event *events;
	size_t nr_events;
	size_t max_events;
	size_t fail_at;
	size_t nr_asked;  /* writes and flushes, those that failed too */
	size_t fail_only; /* of nr_asked */
	bool reads_fail;  /* atomic */
	uint64_t bad_from, bad_to;
};

static void *must(void *p)
{
	if (!p) {
		perror("logdisk");
		abort();
	}
	return p;
}

static void record(struct logdisk *d, uint64_t at, const void *data, uint32_t len, bool fua)
{
	if (d->nr_events == d->max_events) {
		d->max_events = d->max_events ? 2 * d->max_events : 1024;
		d->events = must(realloc(d->events, d->max_events * sizeof(*d->events)));
	}
	d->events[d->nr_events] = (struct event){ .at = at, .len = len, .fua = fua };
	if (len) {
		d->events[d->nr_events].data = must(malloc(len));
		memcpy(d->events[d->nr_events].data, data, len);
	}
	d->nr_events++;
}

static int transfer(struct logdisk *d, const struct blk_req *req)
{
	uint64_t at = req->sector << BLK_SECTOR_SHIFT;

	if (req->op != BLK_READ && (d->nr_asked++ == d->fail_only || d->nr_events >= d->fail_at))
		return -EIO;
	if (req->op == BLK_READ && __atomic_load_n(&d->reads_fail, __ATOMIC_SEQ_CST))
		return -EIO;
	if (req->op == BLK_FLUSH)
		record(d, 0, NULL, 0, false);
	for (unsigned int i = 0; i < req->nr_segs; i++) {
		const struct blk_seg *seg = &req->segs[i];

		if (req->op == BLK_READ && at < d->bad_to && at + seg->len > d->bad_from)
			return -EIO;
		if (req->op == BLK_WRITE) {
			record(d, at, seg->buf, seg->len, req->flags & BLK_FUA);
			memcpy(d->now + at, seg->buf, seg->len);
		} else {
			memcpy(seg->buf, d->now + at, seg->len);
		}
		at += seg->len;
	}
	return 0;
}

static void submit(struct blkdev *bd, struct blk_req *req)
{
	struct logdisk *d = bd->driver;

	pthread_mutex_lock(&d->lock);
	req->status = transfer(d, req);
	pthread_mutex_unlock(&d->lock);
	req->done(req);
}

static const struct blkdev_ops ops = { .submit = submit };

struct logdisk *logdisk_open(const char *path)
{
	struct logdisk *d = must(calloc(1, sizeof(*d)));
	FILE *f = must(fopen(path, "rb"));
	struct stat st;

	if (fstat(fileno(f), &st))
		abort();
	d->len = (uint64_t)st.st_size;
	d->base = must(malloc(d->len));
	d->now = must(malloc(d->len));
	if (fread(d->base, 1, d->len, f) != d->len)
		abort();
	fclose(f);
	memcpy(d->now, d->base, d->len);
	pthread_mutex_init(&d->lock, NULL);
	d->fail_at = SIZE_MAX;
	d->fail_only = SIZE_MAX;
	d->bd = (struct blkdev){
		.ops = &ops,
		.driver = d,
		.name = "logdisk",
		.nr_sectors = d->len >> BLK_SECTOR_SHIFT,
		.block_size = BLK_SECTOR_SIZE,
		.max_segs = 8,
		.max_seg_len = 65536,
		.has_flush = true,
	};
	return d;
}

void logdisk_close(struct logdisk *d)
{
	for (size_t i = 0; i < d->nr_events; i++)
		free(d->events[i].data);
	free(d->events);
	free(d->base);
	free(d->now);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

struct blkdev *logdisk_bd(struct logdisk *d)
{
	return &d->bd;
}

uint64_t logdisk_len(const struct logdisk *d)
{
	return d->len;
}

uint8_t *logdisk_bytes(struct logdisk *d)
{
	return d->now;
}

size_t logdisk_nr_events(const struct logdisk *d)
{
	return d->nr_events;
}

void logdisk_fail_at(struct logdisk *d, size_t nr)
{
	d->fail_at = nr;
}

void logdisk_fail_only(struct logdisk *d, size_t nr)
{
	d->fail_only = nr;
}

size_t logdisk_nr_asked(const struct logdisk *d)
{
	return d->nr_asked;
}

void logdisk_fail_reads(struct logdisk *d, bool fail)
{
	__atomic_store_n(&d->reads_fail, fail, __ATOMIC_SEQ_CST);
}

void logdisk_fail_range(struct logdisk *d, uint64_t from, uint64_t to)
{
	d->bad_from = from;
	d->bad_to = to;
}

static void save(const uint8_t *data, uint64_t len, const char *path)
{
	FILE *f = must(fopen(path, "wb"));

	if (fwrite(data, 1, len, f) != len || fclose(f)) {
		perror(path);
		abort();
	}
}

/* A write that the power cut short: any of its sectors. */
static void tear(uint8_t *image, const struct event *e, struct prng *rng)
{
	for (uint32_t at = 0; at < e->len; at += BLK_SECTOR_SIZE) {
		if (prng_next(rng) % 2)
			memcpy(image + e->at + at, e->data + at, BLK_SECTOR_SIZE);
	}
}

void logdisk_crash(const struct logdisk *d, size_t at, uint64_t seed, const char *path)
{
	uint8_t *image = must(malloc(d->len));
	struct prng rng;
	size_t durable = 0;
	uint32_t keep; /* of 8 */
	bool torn;

	prng_seed(&rng, seed);
	keep = (uint32_t)(prng_next(&rng) % 9); /* sometimes all, sometimes none */
	torn = prng_next(&rng) % 2;
	for (size_t i = 0; i < at; i++) {
		if (!d->events[i].len)
			durable = i;
	}
	memcpy(image, d->base, d->len);
	for (size_t i = 0; i < at; i++) {
		const struct event *e = &d->events[i];

		if (!e->len)
			continue;
		if (i < durable || e->fua || prng_next(&rng) % 8 < keep)
			memcpy(image + e->at, e->data, e->len);
		else if (torn && prng_next(&rng) % 4 == 0)
			tear(image, e, &rng);
	}
	save(image, d->len, path);
	free(image);
}

size_t logdisk_next_fua(const struct logdisk *d, size_t at)
{
	while (at < d->nr_events && !d->events[at].fua)
		at++;
	return MIN(at + 1, d->nr_events);
}

void logdisk_save(const struct logdisk *d, const char *path)
{
	save(d->now, d->len, path);
}
