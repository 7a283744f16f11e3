/* SPDX-License-Identifier: MIT */
/*
 * Reading counters, gauges and histograms; the JSON dump.
 */
#include <kernel/counter.h>

#include <arch/cpu.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>

extern const struct counter *const counters_start[], *const counters_end[];
extern const struct gauge *const gauges_start[], *const gauges_end[];
extern const struct histogram *const histograms_start[], *const histograms_end[];

static uint64_t sum_cpus(uint64_t __percpu *linked)
{
	uint64_t sum = 0;

	for_each_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(linked, cpu));
	return sum;
}

uint64_t counter_read(const struct counter *c)
{
	return sum_cpus(c->percpu);
}

/* Largest value of bucket @b. */
static uint64_t bucket_high(unsigned int b)
{
	return b + 1 < HIST_BUCKETS ? hist_bucket_low(b + 1) - 1 : UINT64_MAX;
}

void hist_summarise(const struct histogram *h, struct hist_summary *out)
{
	uint64_t seen = 0;

	*out = (struct hist_summary){ .sum = sum_cpus(&h->percpu[HIST_BUCKETS]) };
	for (unsigned int b = 0; b < HIST_BUCKETS; b++)
		out->count += sum_cpus(&h->percpu[b]);
	for (unsigned int b = 0; b < HIST_BUCKETS && seen < out->count; b++) {
		const uint64_t n = sum_cpus(&h->percpu[b]);
		const uint64_t before = seen;

		if (!n)
			continue;
		seen += n;
		out->max = bucket_high(b);
		if (before * 100 < out->count * 50 && seen * 100 >= out->count * 50)
			out->p50 = bucket_high(b);
		if (before * 100 < out->count * 90 && seen * 100 >= out->count * 90)
			out->p90 = bucket_high(b);
		if (before * 100 < out->count * 99 && seen * 100 >= out->count * 99)
			out->p99 = bucket_high(b);
	}
}

bool counter_find(const char *name, uint64_t *value)
{
	for (const struct counter *const *c = counters_start; c < counters_end; c++) {
		if (strcmp((*c)->name, name) == 0) {
			*value = counter_read(*c);
			return true;
		}
	}
	for (const struct gauge *const *g = gauges_start; g < gauges_end; g++) {
		if (strcmp((*g)->name, name) == 0) {
			*value = (*g)->read();
			return true;
		}
	}
	return false;
}

struct out {
	char *buf;
	size_t len, at;
	bool full;
};

static void put(struct out *o, const char *fmt, ...) __printf(2, 3);
static void put(struct out *o, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(o->buf + o->at, o->len - o->at, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= o->len - o->at)
		o->full = true;
	else
		o->at += (size_t)n;
}

/* The buckets that are not empty: [[largest value, how many], ...]. */
static void put_buckets(struct out *o, const struct histogram *h)
{
	const char *sep = "";

	put(o, ",\"buckets\":[");
	for (unsigned int b = 0; b < HIST_BUCKETS; b++) {
		const uint64_t n = sum_cpus(&h->percpu[b]);

		if (n) {
			put(o, "%s[%lu,%lu]", sep, bucket_high(b), n);
			sep = ",";
		}
	}
	put(o, "]}");
}

ssize_t counters_format_json(char *buf, size_t len)
{
	struct out o = { .buf = buf, .len = len };
	const char *sep = "";

	if (len == 0)
		return -ENOSPC;
	put(&o, "{");
	for (const struct counter *const *c = counters_start; c < counters_end; c++) {
		put(&o, "%s\"%s\":%lu", sep, (*c)->name, counter_read(*c));
		sep = ",";
	}
	for (const struct gauge *const *g = gauges_start; g < gauges_end; g++) {
		put(&o, "%s\"%s\":%lu", sep, (*g)->name, (*g)->read());
		sep = ",";
	}
	for (const struct histogram *const *h = histograms_start; h < histograms_end; h++) {
		struct hist_summary s;

		hist_summarise(*h, &s);
		put(&o,
		    "%s\"%s\":{\"count\":%lu,\"sum\":%lu,\"p50\":%lu,\"p90\":%lu,\"p99\":%lu,"
		    "\"max\":%lu",
		    sep, (*h)->name, s.count, s.sum, s.p50, s.p90, s.p99, s.max);
		put_buckets(&o, *h);
		sep = ",";
	}
	put(&o, "}");
	return o.full ? -ENOSPC : (ssize_t)o.at;
}
