/* SPDX-License-Identifier: MIT */
/*
 * Counters and histograms: per-CPU underneath, one JSON object outside.
 *
 *	COUNTER(excache_miss, "excache.miss", "faults that went to a memory node");
 *	counter_inc(&excache_miss);
 *
 * Context:	updating: anywhere, one instruction, no lock.  Reading sums over all
 *		CPUs and may miss updates in flight.
 */
#pragma once

#include <arch/percpu.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct counter {
	const char *name;
	const char *help;
	uint64_t __percpu *percpu; /* linked address of a per-CPU variable */
};

#define COUNTER(var, cname, chelp)                                     \
	static DEFINE_PERCPU(uint64_t, var##_percpu);                  \
	static const struct counter var = { .name = (cname),           \
					    .help = (chelp),           \
					    .percpu = &var##_percpu }; \
	static const struct counter *const var##_counter_ptr           \
		__attribute__((used, section(".counters"))) = &var

/* One of a per-CPU variable that is there already. */
#define COUNTER_OF(var, variable, cname, chelp)                      \
	static const struct counter var = { .name = (cname),         \
					    .help = (chelp),         \
					    .percpu = &(variable) }; \
	static const struct counter *const var##_counter_ptr         \
		__attribute__((used, section(".counters"))) = &var

/* One that other files update too: COUNTER_DECLARE(var) in their header. */
#define COUNTER_GLOBAL(var, cname, chelp)                                                         \
	static DEFINE_PERCPU(uint64_t, var##_percpu);                                             \
	const struct counter var = { .name = (cname), .help = (chelp), .percpu = &var##_percpu }; \
	static const struct counter *const var##_counter_ptr                                      \
		__attribute__((used, section(".counters"))) = &var
#define COUNTER_DECLARE(var) extern const struct counter var

static inline void counter_add(const struct counter *c, uint64_t n)
{
	percpu_add64_at(c->percpu, n);
}

static inline void counter_inc(const struct counter *c)
{
	counter_add(c, 1);
}

uint64_t counter_read(const struct counter *c);

/* A value sampled when the counters are dumped (free frames, threads). */
struct gauge {
	const char *name;
	const char *help;
	uint64_t (*read)(void);
	bool rises; /* a sum, as a counter is: the launcher's metrics tell */
};
#define GAUGE_KIND(var, gname, ghelp, fn, sum)                               \
	static const struct gauge var = {                                    \
		.name = (gname), .help = (ghelp), .read = (fn), .rises = sum \
	};                                                                   \
	static const struct gauge *const var##_gauge_ptr                     \
		__attribute__((used, section(".gauges"))) = &var
#define GAUGE(var, gname, ghelp, fn)     GAUGE_KIND(var, gname, ghelp, fn, false)
/* One that only rises: the sum is kept elsewhere. */
#define GAUGE_SUM(var, gname, ghelp, fn) GAUGE_KIND(var, gname, ghelp, fn, true)

/*
 * Histogram of a 64-bit value: log-linear, 8 buckets per power of two, so a
 * percentile is exact to 12.5 %.
 */
#define HIST_SUB_BITS 3u
#define HIST_BUCKETS  ((64u - HIST_SUB_BITS + 1u) << HIST_SUB_BITS)

struct histogram {
	const char *name;
	const char *help;
	uint64_t __percpu *percpu; /* HIST_BUCKETS counts, then the sum */
};

#define HISTOGRAM(var, hname, hhelp)                                    \
	static DEFINE_PERCPU(uint64_t, var##_percpu[HIST_BUCKETS + 1]); \
	static const struct histogram var = { .name = (hname),          \
					      .help = (hhelp),          \
					      .percpu = var##_percpu }; \
	static const struct histogram *const var##_histogram_ptr        \
		__attribute__((used, section(".histograms"))) = &var
#define HISTOGRAM_GLOBAL(var, hname, hhelp)                                                        \
	static DEFINE_PERCPU(uint64_t, var##_percpu[HIST_BUCKETS + 1]);                            \
	const struct histogram var = { .name = (hname), .help = (hhelp), .percpu = var##_percpu }; \
	static const struct histogram *const var##_histogram_ptr                                   \
		__attribute__((used, section(".histograms"))) = &var
#define HISTOGRAM_DECLARE(var) extern const struct histogram var

static inline unsigned int hist_bucket(uint64_t v)
{
	unsigned int shift;

	if (v < (1u << HIST_SUB_BITS))
		return (unsigned int)v;
	shift = 63u - (unsigned int)__builtin_clzll(v) - HIST_SUB_BITS;
	return ((shift + 1u) << HIST_SUB_BITS) + (unsigned int)(v >> shift) - (1u << HIST_SUB_BITS);
}

/* Smallest value that lands in bucket @b. */
static inline uint64_t hist_bucket_low(unsigned int b)
{
	const unsigned int shift = b >> HIST_SUB_BITS;

	if (shift == 0)
		return b;
	return (uint64_t)((b & ((1u << HIST_SUB_BITS) - 1u)) + (1u << HIST_SUB_BITS))
	       << (shift - 1u);
}

static inline void hist_record(const struct histogram *h, uint64_t v)
{
	percpu_add64_at(&h->percpu[hist_bucket(v)], 1);
	percpu_add64_at(&h->percpu[HIST_BUCKETS], v);
}

struct hist_summary {
	uint64_t count, sum;
	uint64_t p50, p90, p99, max; /* upper bounds of the buckets */
};
void hist_summarise(const struct histogram *h, struct hist_summary *out);

/*
 * All counters, gauges and histograms as one JSON object: {"name":n, ...,
 * "hist.name":{"count":..,"sum":..,"p50":..,"p90":..,"p99":..,"max":..,
 * "buckets":[[largest value, how many], ...]}}, NUL-terminated; empty buckets are left out.
 * Returns the length without the NUL; -ENOSPC when @len is too small.
 */
ssize_t counters_format_json(char *buf, size_t len) __must_check;
/* Look one up by name (tests, protocol): false if there is none. */
bool counter_find(const char *name, uint64_t *value);
