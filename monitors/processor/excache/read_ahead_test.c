/* SPDX-License-Identifier: MIT */
/* Which pages of a file are asked for ahead of readers of several kinds. */
#include <lib/ktest.h>

#include "read_ahead.h"

/* A read(2) of pages [pgoff, pgoff + nr): how many requests ahead, the pages asked for added. */
static uint32_t read_pages(struct read_ahead *ra, uint64_t pgoff, uint64_t nr, uint64_t *pages)
{
	uint32_t requests = 0;

	for (uint64_t i = 0; i < nr; i++) {
		const struct read_step step = { .pgoff = pgoff + i, .nr_pages = nr - i };
		uint64_t first;
		const uint32_t n = read_ahead_step(ra, &step, &first);

		requests += n != 0;
		*pages += n;
	}
	return requests;
}

static void a_reader_from_the_begin_is_ahead_at_once(struct ktest *t)
{
	struct read_ahead ra = { 0 };
	const struct read_step step = { .pgoff = 0, .nr_pages = 1 };
	uint64_t first, pages = 0;
	uint32_t requests = 0;

	EXPECT_EQ(t, read_ahead_step(&ra, &step, &first), READ_AHEAD_MIN);
	EXPECT_EQ(t, first, 1);
	/* Windows of 8, 16 and then always 32 pages. */
	for (uint64_t pgoff = 1; pgoff < 1024; pgoff++)
		requests += read_pages(&ra, pgoff, 1, &pages);
	EXPECT_EQ(t, requests, 2 + DIV_ROUND_UP(1024 + READ_AHEAD_MAX - 29, READ_AHEAD_MAX));
	EXPECT_EQ(t, READ_AHEAD_MIN + pages, ra.end - 1);
}

static void a_page_anywhere_asks_for_no_other(struct ktest *t)
{
	struct read_ahead ra = { 0 };
	uint64_t pages = 0;

	for (uint64_t i = 1; i < 2000; i++) {
		EXPECT_EQ(t, read_pages(&ra, i * 1009 % 65536, 1, &pages), 0);
		/* The other half of the same page. */
		EXPECT_EQ(t, read_pages(&ra, i * 1009 % 65536, 1, &pages), 0);
	}
}

static void a_long_read_anywhere_is_one_request(struct ktest *t)
{
	struct read_ahead ra = { 0 };

	for (uint64_t i = 1; i < 100; i++) {
		uint64_t pages = 0;

		EXPECT_EQ(t, read_pages(&ra, i * 10007 % 65536, 16, &pages), 1);
		EXPECT_EQ(t, pages, 15);
	}
	for (uint64_t i = 1; i < 100; i++) {
		uint64_t pages = 0;

		EXPECT_EQ(t, read_pages(&ra, i * 10007 % 65536, READ_AHEAD_MAX + 1, &pages), 1);
		EXPECT_EQ(t, pages, READ_AHEAD_MAX);
	}
}

static void a_very_long_read_goes_forward(struct ktest *t)
{
	struct read_ahead ra = { 0 };
	uint64_t pages = 0;

	/* A window more than it reads, which it may want next. */
	EXPECT_EQ(t, read_pages(&ra, 5000, 256, &pages), 256 / READ_AHEAD_MAX + 1);
	EXPECT_EQ(t, pages, 256 + READ_AHEAD_MAX);
}

static void who_goes_on_after_a_jump_goes_forward(struct ktest *t)
{
	struct read_ahead ra = { 0 };
	uint64_t pages = 0;

	EXPECT_EQ(t, read_pages(&ra, 100, 4, &pages), 1);
	EXPECT_EQ(t, pages, 3);
	EXPECT_EQ(t, read_pages(&ra, 104, 1, &pages), 1);
	EXPECT_EQ(t, pages, 3 + READ_AHEAD_MIN);
	EXPECT_EQ(t, read_pages(&ra, 105, 1, &pages), 1);
	EXPECT_EQ(t, pages, 3 + READ_AHEAD_MIN + 2 * READ_AHEAD_MIN);
}

/* Two programs, or threads, that share an open file and read it from two places on. */
static void streams_in_turns_go_on(struct ktest *t)
{
	struct read_ahead ra = { 0 };
	uint64_t first;

	for (uint64_t i = 0; i < 10; i++) {
		const struct read_step a = { 1000 + i, 1, i > 0 }, b = { 9000 + i, 1, i > 0 };

		EXPECT_EQ(t, read_ahead_step(&ra, &a, &first), i ? READ_AHEAD_MIN : 0);
		EXPECT_EQ(t, first, 1001 + i);
		EXPECT_EQ(t, read_ahead_step(&ra, &b, &first), i ? READ_AHEAD_MIN : 0);
		EXPECT_EQ(t, first, 9001 + i);
	}
}

static const struct ktest_case cases[] = {
	KTEST(a_reader_from_the_begin_is_ahead_at_once),
	KTEST(a_page_anywhere_asks_for_no_other),
	KTEST(a_long_read_anywhere_is_one_request),
	KTEST(a_very_long_read_goes_forward),
	KTEST(who_goes_on_after_a_jump_goes_forward),
	KTEST(streams_in_turns_go_on),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "excache.read_ahead", .cases = cases };
KTEST_SUITE(suite);
