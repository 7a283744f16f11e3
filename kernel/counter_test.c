/* SPDX-License-Identifier: MIT */
#include <kernel/counter.h>
#include <kernel/printk.h>
#include <kernel/random.h>
#include <kernel/symbols.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/slab.h>

COUNTER(test_counter, "ktest.counter", "for the test of counters");
HISTOGRAM(test_hist, "ktest.hist", "for the test of histograms");

static uint64_t read_gauge(void)
{
	return 4711;
}
GAUGE(test_gauge, "ktest.gauge", "for the test of gauges", read_gauge);

static void counters_count(struct ktest *t)
{
	const uint64_t before = counter_read(&test_counter);
	uint64_t v;

	counter_inc(&test_counter);
	counter_add(&test_counter, 41);
	EXPECT_EQ(t, counter_read(&test_counter), before + 42);
	EXPECT_TRUE(t, counter_find("ktest.counter", &v));
	EXPECT_EQ(t, v, before + 42);
	EXPECT_TRUE(t, counter_find("ktest.gauge", &v));
	EXPECT_EQ(t, v, 4711);
	EXPECT_FALSE(t, counter_find("ktest.nothing", &v));
}

static void busy_time_passes(struct ktest *t)
{
	const uint64_t began = time_now_ns();
	uint64_t before, after, queued;

	ASSERT_TRUE(t, counter_find("sched.busy_ns", &before));
	while (time_now_ns() - began < 5 * NSEC_PER_MSEC)
		cpu_relax();
	ASSERT_TRUE(t, counter_find("sched.busy_ns", &after));
	EXPECT_GE(t, after - before, 4 * NSEC_PER_MSEC);
	before = after;
	thread_sleep_ns(200 * NSEC_PER_MSEC);
	ASSERT_TRUE(t, counter_find("sched.busy_ns", &after));
	/* All CPUs together: one that slept on counts as idle. */
	EXPECT_LT(t, after - before, 150 * NSEC_PER_MSEC);
	EXPECT_TRUE(t, counter_find("sched.queued", &queued));
}

static void buckets_cover_everything(struct ktest *t)
{
	for (unsigned int b = 0; b < HIST_BUCKETS; b++) {
		const uint64_t low = hist_bucket_low(b);

		EXPECT_EQ(t, hist_bucket(low), b);
		if (b)
			EXPECT_EQ(t, hist_bucket(low - 1), b - 1);
	}
	EXPECT_EQ(t, hist_bucket(0), 0);
	EXPECT_EQ(t, hist_bucket(UINT64_MAX), HIST_BUCKETS - 1);
	EXPECT_EQ(t, hist_bucket_low(hist_bucket(1000)), 960);
}

static void percentiles(struct ktest *t)
{
	struct hist_summary s;

	hist_summarise(&test_hist, &s);
	EXPECT_EQ(t, s.count, 0);
	EXPECT_EQ(t, s.p99, 0);
	for (uint64_t v = 1; v <= 1000; v++)
		hist_record(&test_hist, v);
	hist_summarise(&test_hist, &s);
	EXPECT_EQ(t, s.count, 1000);
	EXPECT_EQ(t, s.sum, 500500);
	EXPECT_GE(t, s.p50, 500);
	EXPECT_LE(t, s.p50, 563);
	EXPECT_GE(t, s.p99, 990);
	EXPECT_LE(t, s.p99, 1114);
	EXPECT_GE(t, s.max, 1000);
}

static void json(struct ktest *t)
{
	char *buf = kmalloc(256 << 10);
	ssize_t len;

	ASSERT_TRUE(t, buf != NULL);
	len = counters_format_json(buf, 256 << 10);
	ASSERT_TRUE(t, len > 0);
	EXPECT_EQ(t, strlen(buf), len);
	EXPECT_EQ(t, buf[0], '{');
	EXPECT_EQ(t, buf[len - 1], '}');
	EXPECT_TRUE(t, strstr(buf, "\"ktest.gauge\":4711") != NULL);
	EXPECT_TRUE(t, strstr(buf, "\"ktest.hist\":{\"count\":1000,") != NULL);
	/* Of 1 to 1000: each alone up to 15, by two up to 31; the last bucket is 960 to 1023. */
	EXPECT_TRUE(t, strstr(buf, ",\"buckets\":[[1,1],[2,1],[3,1],[4,1],") != NULL);
	EXPECT_TRUE(t, strstr(buf, ",[15,1],[17,2],[19,2],") != NULL);
	EXPECT_TRUE(t, strstr(buf, ",[959,64],[1023,41]]}") != NULL);
	kfree(buf);
}

/* Other threads count meanwhile, so the length may change between two calls: often it does not. */
static void json_needs_its_length_and_a_nul(struct ktest *t)
{
	char *buf = kmalloc(256 << 10);
	bool fits = false, is_short = false;

	ASSERT_TRUE(t, buf != NULL);
	EXPECT_EQ(t, counters_format_json(buf, 0), -ENOSPC);
	for (uint32_t i = 0; i < 100 && !(fits && is_short); i++) {
		const ssize_t len = counters_format_json(buf, 256 << 10);

		ASSERT_TRUE(t, len > 0);
		fits = counters_format_json(buf, (size_t)len + 1) == len;
		is_short = counters_format_json(buf, (size_t)len) == -ENOSPC;
	}
	EXPECT_TRUE(t, fits);
	EXPECT_TRUE(t, is_short);
	kfree(buf);
}

static void log_ring_keeps_lines(struct ktest *t)
{
	char buf[200];
	size_t n;

	printk(LOG_INFO, "a line of the %s test, number %d", "log", 17);
	n = log_read(buf, sizeof(buf) - 1);
	buf[n] = '\0';
	EXPECT_TRUE(t, strstr(buf, "info: a line of the log test, number 17\n") != NULL);
	n = strlen(buf);
	printk(LOG_DEBUG, "hidden");
	EXPECT_EQ(t, log_read(buf, sizeof(buf) - 1), n);
	buf[n] = '\0';
	EXPECT_TRUE(t, strstr(buf, "hidden") == NULL);
}

static void addresses_have_names(struct ktest *t)
{
	const uint64_t addr = (uint64_t)counters_format_json;
	uint64_t start;
	uint64_t size;
	char buf[80];

	EXPECT_STREQ(t, symbol_lookup(addr + 3, &start, &size), "counters_format_json");
	EXPECT_EQ(t, start, addr);
	symbol_format(buf, sizeof(buf), addr + 3);
	EXPECT_TRUE(t, str_has_prefix(buf, "counters_format_json+0x3/0x"));
	EXPECT_TRUE(t, symbol_lookup(0x1000, &start, &size) == NULL);
	EXPECT_TRUE(t, symbol_lookup(UINT64_MAX, &start, &size) == NULL);
	EXPECT_EQ(t, strlen(build_id()), 40);
}

static void random_differs(struct ktest *t)
{
	uint8_t a[100];
	uint8_t b[100];
	unsigned int same = 0;

	random_bytes(a, sizeof(a));
	random_bytes(b, sizeof(b));
	for (unsigned int i = 0; i < sizeof(a); i++)
		same += a[i] == b[i];
	EXPECT_LT(t, same, 10);
	EXPECT_NE(t, random_u64(), random_u64());
	EXPECT_TRUE(t, random_is_seeded());
}

static const struct ktest_case counter_cases[] = {
	KTEST(counters_count),
	KTEST(buckets_cover_everything),
	KTEST(percentiles),
	KTEST(json),
	KTEST(json_needs_its_length_and_a_nul),
	KTEST(log_ring_keeps_lines),
	KTEST(addresses_have_names),
	KTEST(random_differs),
	KTEST(busy_time_passes),
	{ 0 },
};
static const struct ktest_suite counter_suite = { .name = "kernel.counter",
						  .cases = counter_cases };
KTEST_SUITE(counter_suite);
