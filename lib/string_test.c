/* SPDX-License-Identifier: MIT */
/*
 * On the host the C library's functions stand trial, which shows that the expectations are
 * right; in the kernel ours do.
 */
#include <lib/ktest.h>
#include <lib/string.h>

#define LEN   300
#define GUARD 0xee

static uint8_t a[LEN + 32];
static uint8_t b[LEN + 32];

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 7 + 3);
}

/* Is buf[from, to) the pattern, shifted by @shift, and everything around still as it was? */
static bool holds_pattern(const uint8_t *buf, size_t from, size_t to, size_t shift)
{
	for (size_t i = 0; i < LEN + 32; i++) {
		const uint8_t want = i >= from && i < to ? pattern(i - shift) : GUARD;

		if (buf[i] != want)
			return false;
	}
	return true;
}

static void copies(struct ktest *t)
{
	for (size_t len = 0; len <= LEN; len += len < 80 ? 1 : 37) {
		for (size_t off = 0; off < 9; off++) {
			for (size_t i = 0; i < sizeof(a); i++)
				a[i] = pattern(i);
			memset(b, GUARD, sizeof(b));
			EXPECT_TRUE(t, memcpy(b + off, a, len) == b + off);
			ASSERT_TRUE(t, holds_pattern(b, off, off + len, off));
		}
	}
}

static void overlapping_moves(struct ktest *t)
{
	static const int shifts[] = { -17, -8, -1, 0, 1, 7, 8, 16 };

	for (size_t i = 0; i < ARRAY_SIZE(shifts); i++) {
		for (size_t len = 0; len <= 200; len += 13) {
			const size_t from = 20;
			const size_t to = (size_t)((int)from + shifts[i]);

			memset(a, GUARD, sizeof(a));
			for (size_t k = 0; k < len; k++)
				a[from + k] = pattern(k);
			memmove(a + to, a + from, len);
			for (size_t k = 0; k < len; k++)
				ASSERT_EQ(t, a[to + k], pattern(k));
		}
	}
}

static void fills(struct ktest *t)
{
	for (size_t len = 0; len <= LEN; len += len < 80 ? 1 : 41) {
		memset(a, GUARD, sizeof(a));
		EXPECT_TRUE(t, memset(a + 3, 0x1a5, len) == a + 3);
		for (size_t i = 0; i < sizeof(a); i++)
			ASSERT_EQ(t, a[i], i >= 3 && i < 3 + len ? 0xa5 : GUARD);
	}
}

static int sign(int x)
{
	return x < 0 ? -1 : x > 0;
}

static void comparisons(struct ktest *t)
{
	for (size_t i = 0; i < sizeof(a); i++)
		a[i] = b[i] = pattern(i);
	EXPECT_EQ(t, memcmp(a, b, LEN), 0);
	for (size_t at = 0; at < 40; at++) {
		b[at]++;
		EXPECT_EQ(t, sign(memcmp(a, b, 40)), a[at] < b[at] ? -1 : 1);
		EXPECT_EQ(t, memcmp(a, b, at), 0);
		b[at]--;
	}
	EXPECT_EQ(t, sign(memcmp("\x7f", "\x80", 1)), -1); /* bytes are unsigned */
	EXPECT_EQ(t, sign(strcmp("abc", "abd")), -1);
	EXPECT_EQ(t, sign(strcmp("abc", "ab")), 1);
	EXPECT_EQ(t, sign(strcmp("\x7f", "\x80")), -1);
	EXPECT_EQ(t, strcmp("", ""), 0);
	EXPECT_EQ(t, strncmp("abcx", "abcy", 3), 0);
	EXPECT_EQ(t, sign(strncmp("abcx", "abcy", 4)), -1);
	EXPECT_EQ(t, strncmp("ab", "ab", 9), 0);
	EXPECT_EQ(t, strcasecmp("HeLLo", "hEllO"), 0);
	EXPECT_EQ(t, sign(strcasecmp("a", "B")), -1);
}

static void searches(struct ktest *t)
{
	static const char s[] = "hello, hello";

	EXPECT_EQ(t, strlen(s), 12);
	EXPECT_EQ(t, strnlen(s, 5), 5);
	EXPECT_EQ(t, strnlen(s, sizeof(s)), 12);
	EXPECT_TRUE(t, strchr(s, 'l') == s + 2);
	EXPECT_TRUE(t, strrchr(s, 'l') == s + 10);
	EXPECT_TRUE(t, strchr(s, '\0') == s + 12);
	EXPECT_TRUE(t, strrchr(s, '\0') == s + 12);
	EXPECT_TRUE(t, strchr(s, 'x') == NULL);
	EXPECT_TRUE(t, strrchr(s, 'x') == NULL);
	EXPECT_TRUE(t, strchrnul(s, 'x') == s + 12);
	EXPECT_TRUE(t, memchr(s, 'o', 12) == s + 4);
	EXPECT_TRUE(t, memchr(s, 'o', 4) == NULL);
	EXPECT_TRUE(t, strstr(s, "lo, h") == s + 3);
	EXPECT_TRUE(t, strstr(s, "") == s);
	EXPECT_TRUE(t, strstr(s, "helloo") == NULL);
	EXPECT_EQ(t, strcspn(s, " ,"), 5);
	EXPECT_EQ(t, strcspn(s, "x"), 12);
}

static void bounded_copy(struct ktest *t)
{
	char buf[6];

	EXPECT_EQ(t, strlcpy(buf, "abc", sizeof(buf)), 3);
	EXPECT_STREQ(t, buf, "abc");
	EXPECT_EQ(t, strlcpy(buf, "abcdefgh", sizeof(buf)), 8);
	EXPECT_STREQ(t, buf, "abcde");
	EXPECT_EQ(t, strlcpy(buf, "xyz", 0), 3);
	EXPECT_STREQ(t, buf, "abcde");
	EXPECT_EQ(t, strlcpy(buf, "xyz", 1), 3);
	EXPECT_STREQ(t, buf, "");
}

static void globs(struct ktest *t)
{
	static const struct {
		const char *pattern;
		const char *s;
		bool want;
	} cases[] = {
		{ "*", "", true },
		{ "*", "lib.list", true },
		{ "lib.*", "lib.list", true },
		{ "lib.*", "libx", false },
		{ "*list*", "lib.list.add", true },
		{ "l?b", "lib", true },
		{ "l?b", "lb", false },
		{ "a*b*c", "axxbyyc", true },
		{ "a*b*c", "axxbyy", false },
		{ "net.*,lib.*", "lib.list", true },
		{ "net.*,fs.*", "lib.list", false },
		{ "", "", true },
		{ "", "x", false },
		{ "a", "ab", false },
		{ "*a", "banana", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		EXPECT_EQ(t, str_glob_match(cases[i].pattern, cases[i].s), cases[i].want);
	EXPECT_TRUE(t, str_has_prefix("excache.ways", "excache."));
	EXPECT_FALSE(t, str_has_prefix("ex", "excache."));
}

static const struct ktest_case string_cases[] = {
	KTEST(copies),   KTEST(overlapping_moves), KTEST(fills), KTEST(comparisons),
	KTEST(searches), KTEST(bounded_copy),      KTEST(globs), { 0 },
};
static const struct ktest_suite string_suite = { .name = "lib.string", .cases = string_cases };
KTEST_SUITE(string_suite);
