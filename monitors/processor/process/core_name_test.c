/* SPDX-License-Identifier: MIT */
/*
 * Names of core files, as core(5) says them.
 */
#include "core.h"

#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

static const struct core_name_facts facts = {
	.comm = "a/b c",
	.exe = "/usr/bin/a",
	.hostname = "host",
	.pid = 12,
	.tid = 13,
	.uid = 1000,
	.gid = 100,
	.dumpable = 1,
	.signo = 11,
	.limit = UINT64_MAX,
	.time_s = 1700000000,
};

static void names(struct ktest *t)
{
	static const struct {
		const char *pattern, *name;
		bool uses_pid;
	} rows[] = {
		{ "core", "core", false },
		{ "core", "core.12", true },
		{ "core.%p", "core.12", true },
		{ "/tmp/%e-%p.%s", "/tmp/a!b c-12.11", false },
		{ "%E", "!usr!bin!a", false },
		{ "%P %i %I %u %g %d %t %h", "12 13 13 1000 100 1 1700000000 host", false },
		{ "%c", "18446744073709551615", false },
		{ "100%%", "100%", false },
		{ "a%", "a", false },
		{ "a%zb", "ab", false },
		{ "", "", false },
		{ "", ".12", true },
	};
	char out[64];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		EXPECT_EQ(t, core_name(rows[i].pattern, rows[i].uses_pid, &facts, out, sizeof(out)),
			  0);
		EXPECT_STREQ(t, out, rows[i].name);
	}
}

/* No process can name a directory, or leave the one of the pattern. */
static void dots(struct ktest *t)
{
	struct core_name_facts f = facts;
	char out[16];

	f.comm = "..";
	EXPECT_EQ(t, core_name("%e", false, &f, out, sizeof(out)), 0);
	EXPECT_STREQ(t, out, "!.");
	f.comm = ".";
	EXPECT_EQ(t, core_name("%e", false, &f, out, sizeof(out)), 0);
	EXPECT_STREQ(t, out, "!");
	f.comm = "";
	EXPECT_EQ(t, core_name("/a/%e", false, &f, out, sizeof(out)), 0);
	EXPECT_STREQ(t, out, "/a/!");
	f.comm = "../../etc";
	EXPECT_EQ(t, core_name("%e", false, &f, out, sizeof(out)), 0);
	EXPECT_STREQ(t, out, "..!..!etc");
}

static void lengths(struct ktest *t)
{
	char out[8];

	EXPECT_EQ(t, core_name("1234567", false, &facts, out, sizeof(out)), 0);
	EXPECT_EQ(t, core_name("12345678", false, &facts, out, sizeof(out)), -ENAMETOOLONG);
	EXPECT_EQ(t, core_name("%t", false, &facts, out, sizeof(out)), -ENAMETOOLONG);
}

static void patterns(struct ktest *t)
{
	char long_one[CORE_PATTERN_MAX + 1], out[CORE_PATTERN_MAX];

	memset(long_one, 'x', sizeof(long_one));
	EXPECT_EQ(t, core_pattern_set("a.%p\n", 5), 0);
	core_pattern_get(out);
	EXPECT_STREQ(t, out, "a.%p");
	EXPECT_EQ(t, core_pattern_set("|/bin/sh", 8), -EINVAL);
	EXPECT_EQ(t, core_pattern_set(long_one, CORE_PATTERN_MAX), -EINVAL);
	core_pattern_get(out);
	EXPECT_STREQ(t, out, "a.%p");
	EXPECT_EQ(t, core_pattern_set(long_one, CORE_PATTERN_MAX - 1), 0);
	EXPECT_EQ(t, core_pattern_set("core", 4), 0);
}

static const struct ktest_case cases[] = {
	KTEST(names), KTEST(dots), KTEST(lengths), KTEST(patterns), { 0 },
};
static const struct ktest_suite suite = { .name = "processor.core", .cases = cases };
KTEST_SUITE(suite);
