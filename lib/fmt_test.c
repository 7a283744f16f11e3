/* SPDX-License-Identifier: MIT */
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/ktest.h>
#include <lib/string.h>

static char out[128];

/* Ours, on the host too; not checked by the compiler, as odd formats are wanted here. */
static const char *ours(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fmt_vsnprintf(out, sizeof(out), fmt, ap);
	va_end(ap);
	return out;
}

static void integers(struct ktest *t)
{
	EXPECT_STREQ(t, ours("%d %d %i", 0, -1, INT32_MIN), "0 -1 -2147483648");
	EXPECT_STREQ(t, ours("%u %lu", UINT32_MAX, UINT64_MAX), "4294967295 18446744073709551615");
	EXPECT_STREQ(t, ours("%ld %lld", INT64_MIN, (long long)INT64_MAX),
		     "-9223372036854775808 9223372036854775807");
	EXPECT_STREQ(t, ours("%hhd %hd %hhu %hu", 257, 65537, 257U, 65537U), "1 1 1 1");
	EXPECT_STREQ(t, ours("%zu %zd %jd %td", (size_t)7, (ssize_t)-7, (intmax_t)8, (ptrdiff_t)-8),
		     "7 -7 8 -8");
	EXPECT_STREQ(t, ours("%x %X %#x %#X %#x", 0xbeefU, 0xbeefU, 0xbeefU, 0xbeefU, 0U),
		     "beef BEEF 0xbeef 0XBEEF 0");
	EXPECT_STREQ(t, ours("%o %#o %#o", 8U, 8U, 0U), "10 010 0");
}

static void widths_and_flags(struct ktest *t)
{
	EXPECT_STREQ(t, ours("[%5d|%-5d|%05d|%+d|% d]", 42, 42, -42, 42, 42),
		     "[   42|42   |-0042|+42| 42]");
	EXPECT_STREQ(t, ours("[%8.3d|%-8.3d|%08.3d|%.0d|%.0d]", 7, 7, 7, 0, 1),
		     "[     007|007     |     007||1]");
	EXPECT_STREQ(t, ours("[%#8x|%#08x|%-#8x]", 255U, 255U, 255U),
		     "[    0xff|0x0000ff|0xff    ]");
	EXPECT_STREQ(t, ours("[%*d|%-*d|%*d]", 4, 1, 4, 2, -4, 3), "[   1|2   |3   ]");
	EXPECT_STREQ(t, ours("[%.*s|%.*s]", 2, "abc", -1, "abc"), "[ab|abc]");
	EXPECT_STREQ(t, ours("[%5s|%-5s|%.1s|%3c|%%]", "ab", "ab", "ab", 'x'),
		     "[   ab|ab   |a|  x|%]");
}

static void pointers_and_null(struct ktest *t)
{
	EXPECT_STREQ(t, ours("%p %s", (void *)0xabcUL, (const char *)NULL), "0xabc (null)");
	EXPECT_STREQ(t, ours("%p", NULL), "(nil)");
	EXPECT_STREQ(t, ours("%.3s", "abcdef"), "abc");
}

static void unknown_conversions_are_text(struct ktest *t)
{
	EXPECT_STREQ(t, ours("%y %d", 5), "%y 5");
	EXPECT_STREQ(t, ours("100%"), "100%");
	EXPECT_STREQ(t, ours("%-08q|"), "%-08q|");
}

static void short_buffers(struct ktest *t)
{
	char buf[8];

	memset(buf, 'x', sizeof(buf));
	EXPECT_EQ(t, scnprintf(buf, 4, "%s", "abcdef"), 3);
	EXPECT_MEMEQ(t, buf, "abc\0xxxx", 8);
	EXPECT_EQ(t, scnprintf(buf, 0, "%s", "abcdef"), 0);
	EXPECT_EQ(t, scnprintf(buf, 1, "%s", "abcdef"), 0);
	EXPECT_MEMEQ(t, buf, "\0bc", 3);
	EXPECT_EQ(t, scnprintf(buf, 8, "%d", 1234567), 7);
	EXPECT_STREQ(t, buf, "1234567");
	EXPECT_EQ(t, snprintf(NULL, 0, "%s", "123456789"), 9);
}

static void numbers_parse(struct ktest *t)
{
	static const struct {
		const char *s;
		unsigned int base;
		int err;
		uint64_t want;
	} cases[] = {
		{ "0", 0, 0, 0 },
		{ "42", 0, 0, 42 },
		{ "+42", 0, 0, 42 },
		{ "0x1F", 0, 0, 31 },
		{ "0x1F", 16, 0, 31 },
		{ "1f", 16, 0, 31 },
		{ "017", 0, 0, 15 },
		{ "017", 10, 0, 17 },
		{ "zz", 36, 0, 35 * 36 + 35 },
		{ "18446744073709551615", 10, 0, UINT64_MAX },
		{ "18446744073709551616", 10, -ERANGE, 0 },
		{ "0x10000000000000000", 0, -ERANGE, 0 },
		{ "", 0, -EINVAL, 0 },
		{ "+", 0, -EINVAL, 0 },
		{ "-1", 0, -EINVAL, 0 },
		{ "12a", 10, -EINVAL, 0 },
		{ "12 ", 10, -EINVAL, 0 },
		{ "0x", 0, -EINVAL, 0 },
		{ "08", 0, -EINVAL, 0 },
		{ "1", 1, -EINVAL, 0 },
		{ "1", 37, -EINVAL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t v = 0xdead;

		EXPECT_EQ(t, kstrtou64(cases[i].s, cases[i].base, &v), cases[i].err);
		EXPECT_EQ(t, v, cases[i].err ? 0xdead : cases[i].want);
	}
}

static void signed_and_narrow_numbers_parse(struct ktest *t)
{
	int64_t s64 = 1;
	int32_t s32 = 1;
	uint32_t u32 = 1;

	EXPECT_EQ(t, kstrtos64("-9223372036854775808", 10, &s64), 0);
	EXPECT_EQ(t, s64, INT64_MIN);
	EXPECT_EQ(t, kstrtos64("-9223372036854775809", 10, &s64), -ERANGE);
	EXPECT_EQ(t, kstrtos64("9223372036854775808", 10, &s64), -ERANGE);
	EXPECT_EQ(t, kstrtos64("--1", 10, &s64), -EINVAL);
	EXPECT_EQ(t, kstrtos64("-+1", 10, &s64), -EINVAL);
	EXPECT_EQ(t, s64, INT64_MIN);
	EXPECT_EQ(t, kstrtos32("-2147483648", 10, &s32), 0);
	EXPECT_EQ(t, s32, INT32_MIN);
	EXPECT_EQ(t, kstrtos32("2147483648", 10, &s32), -ERANGE);
	EXPECT_EQ(t, kstrtou32("4294967295", 10, &u32), 0);
	EXPECT_EQ(t, u32, UINT32_MAX);
	EXPECT_EQ(t, kstrtou32("4294967296", 10, &u32), -ERANGE);
}

static void sizes_parse(struct ktest *t)
{
	static const struct {
		const char *s;
		int err;
		uint64_t want;
	} cases[] = {
		{ "4096", 0, 4096 },     { "64K", 0, 65536 },
		{ "8m", 0, 8 << 20 },    { "8MB", 0, 8 << 20 },
		{ "8MiB", 0, 8 << 20 },  { "1G", 0, 1ULL << 30 },
		{ "2T", 0, 2ULL << 40 }, { "15E", 0, 15ULL << 60 },
		{ "0x10K", 0, 16384 },   { "5B", 0, 5 },
		{ "16E", -ERANGE, 0 },   { "99999999999999999999", -ERANGE, 0 },
		{ "", -EINVAL, 0 },      { "K", -EINVAL, 0 },
		{ "1Q", -EINVAL, 0 },    { "1KK", -EINVAL, 0 },
		{ "1 K", -EINVAL, 0 },   { "-1", -EINVAL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t v = 0xdead;

		EXPECT_EQ(t, parse_size(cases[i].s, &v), cases[i].err);
		EXPECT_EQ(t, v, cases[i].err ? 0xdead : cases[i].want);
	}
}

static void switches_parse(struct ktest *t)
{
	bool b = false;

	EXPECT_EQ(t, parse_bool("Yes", &b), 0);
	EXPECT_TRUE(t, b);
	EXPECT_EQ(t, parse_bool("off", &b), 0);
	EXPECT_FALSE(t, b);
	EXPECT_EQ(t, parse_bool("1", &b), 0);
	EXPECT_TRUE(t, b);
	EXPECT_EQ(t, parse_bool("", &b), -EINVAL);
	EXPECT_EQ(t, parse_bool("2", &b), -EINVAL);
	EXPECT_TRUE(t, b);
}

static const struct ktest_case fmt_cases[] = {
	KTEST(integers),
	KTEST(widths_and_flags),
	KTEST(pointers_and_null),
	KTEST(unknown_conversions_are_text),
	KTEST(short_buffers),
	KTEST(numbers_parse),
	KTEST(signed_and_narrow_numbers_parse),
	KTEST(sizes_parse),
	KTEST(switches_parse),
	{ 0 },
};
static const struct ktest_suite fmt_suite = { .name = "lib.fmt", .cases = fmt_cases };
KTEST_SUITE(fmt_suite);
