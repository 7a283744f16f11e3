/* SPDX-License-Identifier: MIT */
/*
 * Growing text, and the arithmetic of load averages.
 */
#include "text_private.h"

#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <processor/account/account.h>

#include "system_private.h"

static bool text_is(const struct text *t, const char *want)
{
	return t->len == strlen(want) && memcmp(t->buf, want, t->len) == 0;
}

static void text_grows_without_a_limit(struct ktest *t)
{
	struct text x = { 0 };
	char line[600];

	memset(line, 'y', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	for (int i = 0; i < 1000; i++)
		text_printf(&x, "%d %s\n", i % 10, line);
	EXPECT_EQ(t, x.err, 0);
	ASSERT_EQ(t, x.len, 1000 * (2 + sizeof(line) - 1 + 1));
	for (int i = 0; i < 1000; i++) {
		const char *at = x.buf + i * (2 + sizeof(line));

		if (at[0] != '0' + i % 10 || at[1] != ' ' || at[2] != 'y' || at[601] != '\n') {
			EXPECT_EQ(t, i, -1);
			break;
		}
	}
	text_free(&x);
	EXPECT_EQ(t, x.len, 0);
}

static void pieces_of_every_size_fit(struct ktest *t)
{
	char piece[1100];

	for (size_t n = 100; n < sizeof(piece); n++) { /* around each doubling of the buffer */
		struct text x = { 0 };

		memset(piece, 'a', n);
		piece[n] = '\0';
		text_printf(&x, "%s", piece);
		if (x.err || x.len != n || memcmp(x.buf, piece, n))
			EXPECT_EQ(t, n, 0);
		text_free(&x);
		if (n == 1098)
			break;
	}
}

static void names_are_escaped(struct ktest *t)
{
	struct text x = { 0 };

	text_escaped(&x, "/a b\tc\\d\ne#f", "#");
	EXPECT_TRUE(t, text_is(&x, "/a\\040b\\011c\\134d\\012e\\043f"));
	text_free(&x);
}

static void columns_are_filled(struct ktest *t)
{
	struct text x = { 0 };

	text_puts(&x, "first\nab");
	text_pad(&x, 6, 5);
	text_putc(&x, '|');
	text_pad(&x, 6, 3); /* behind it already */
	EXPECT_TRUE(t, text_is(&x, "first\nab   |"));
	text_free(&x);
}

static void cpu_sets(struct ktest *t)
{
	static const struct {
		unsigned int nr, possible;
		const char *list, *mask;
	} cases[] = {
		{ 1, 1, "0", "1" },
		{ 2, 2, "0-1", "3" },
		{ 4, 8, "0-3", "0f" },
		{ 32, 32, "0-31", "ffffffff" },
		{ 33, 33, "0-32", "1,ffffffff" },
		{ 33, 64, "0-32", "00000001,ffffffff" },
		{ 4, 70, "0-3", "00,00000000,0000000f" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct text list = { 0 }, mask = { 0 };

		text_cpu_list(&list, cases[i].nr);
		text_cpu_mask(&mask, 0, cases[i].nr, cases[i].possible);
		EXPECT_TRUE(t, text_is(&list, cases[i].list));
		EXPECT_TRUE(t, text_is(&mask, cases[i].mask));
		text_free(&list);
		text_free(&mask);
	}
}

static void masks_that_begin_later(struct ktest *t)
{
	struct text x = { 0 };

	text_cpu_mask(&x, 3, 4, 4);
	text_putc(&x, ' ');
	text_cpu_mask(&x, 30, 34, 40);
	EXPECT_TRUE(t, text_is(&x, "8 03,c0000000"));
	text_free(&x);
}

static void load_averages_decay(struct ktest *t)
{
	uint32_t avg[3] = { 0 };

	/* Two threads for a minute, five and fifteen: 1 - 1/e of two. */
	for (int i = 0; i < 12; i++)
		avg[0] = loadavg_step(avg[0], 0, 2);
	for (int i = 0; i < 60; i++)
		avg[1] = loadavg_step(avg[1], 1, 2);
	for (int i = 0; i < 180; i++)
		avg[2] = loadavg_step(avg[2], 2, 2);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(t, (avg[i] * 100 + (1u << 15)) >> LOADAVG_SHIFT, 126);
	/* And nothing for long: it ends at 0. */
	for (int i = 0; i < 2000; i++)
		avg[0] = loadavg_step(avg[0], 0, 0);
	EXPECT_EQ(t, avg[0] * 100 >> LOADAVG_SHIFT, 0);
}

static void written_numbers(struct ktest *t)
{
	static const struct {
		const char *text;
		int err;
		uint64_t value;
	} rows[] = {
		{ "0", 0, 0 },
		{ "2\n", 0, 2 },
		{ " \t1 \n", 0, 1 },
		{ "0x2", 0, 2 },
		{ "3", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ "\n", -EINVAL, 0 },
		{ "1x", -EINVAL, 0 },
		{ "1 2", -EINVAL, 0 },
		{ "99999999999999999999", -EINVAL, 0 },
		{ "000000000000000000000000000000000000001", -EINVAL, 0 },
	};
	uint32_t pair[2] = { 0 };
	uint64_t value;
	int adj = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		value = 7;
		EXPECT_EQ(t, text_number(rows[i].text, strlen(rows[i].text), 2, &value),
			  rows[i].err);
		EXPECT_EQ(t, value, rows[i].err ? 7 : rows[i].value);
	}
	EXPECT_EQ(t, text_number("1\0", 2, 2, &value), -EINVAL);
	EXPECT_EQ(t, text_pair("1\t2\n", 4, 9, pair), 0);
	EXPECT_TRUE(t, pair[0] == 1 && pair[1] == 2);
	EXPECT_EQ(t, text_pair(" 3", 2, 9, pair), 0); /* the second stays */
	EXPECT_TRUE(t, pair[0] == 3 && pair[1] == 2);
	EXPECT_EQ(t, text_pair("4 5 x", 5, 9, pair), 0);
	EXPECT_TRUE(t, pair[0] == 4 && pair[1] == 5);
	EXPECT_EQ(t, text_pair("6 x", 3, 9, pair), -EINVAL);
	EXPECT_EQ(t, text_pair("6 10", 4, 9, pair), -EINVAL);
	EXPECT_EQ(t, text_pair(" \n", 2, 9, pair), -EINVAL);
	EXPECT_TRUE(t, pair[0] == 4 && pair[1] == 5);
	EXPECT_EQ(t, text_signed("-1000\n", 6, -1000, 1000, &adj), 0);
	EXPECT_EQ(t, adj, -1000);
	EXPECT_EQ(t, text_signed("-1001", 5, -1000, 1000, &adj), -EINVAL);
	EXPECT_EQ(t, text_signed("1001", 4, -1000, 1000, &adj), -EINVAL);
	EXPECT_EQ(t, text_signed("-", 1, -1000, 1000, &adj), -EINVAL);
	EXPECT_EQ(t, adj, -1000);
}

static void an_open_file_is_charged(struct ktest *t)
{
	struct kmem_account *a = kmem_account_create();
	struct text text = { .account = a };

	kmem_account_set_limits(10000, 0);
	while (!text.err)
		text_puts(&text, "line\n");
	EXPECT_EQ(t, text.err, -ENOMEM);
	EXPECT_EQ(t, kmem_charged(a), text.size);
	EXPECT_GT(t, text.len, 4000u);
	text_free(&text);
	EXPECT_EQ(t, kmem_charged(a), 0u);
	text_puts(&text, "again"); /* the file is read from its begin */
	EXPECT_EQ(t, text.err, 0);
	text_free(&text);
	kmem_account_put(a);
	kmem_account_set_limits(UINT64_MAX, 0);
}

static const struct ktest_case text_cases[] = {
	KTEST(written_numbers),
	KTEST(text_grows_without_a_limit),
	KTEST(an_open_file_is_charged),
	KTEST(pieces_of_every_size_fit),
	KTEST(names_are_escaped),
	KTEST(columns_are_filled),
	KTEST(cpu_sets),
	KTEST(masks_that_begin_later),
	KTEST(load_averages_decay),
	{ 0 },
};
static const struct ktest_suite text_suite = { .name = "processor.text", .cases = text_cases };
KTEST_SUITE(text_suite);
