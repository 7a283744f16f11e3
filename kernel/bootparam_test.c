/* SPDX-License-Identifier: MIT */
#include <kernel/bootparam.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

static bool flag;
static uint32_t number;
static uint64_t wide;
static uint64_t bytes;
static const char *text;
static unsigned int calls;

static int callback(const char *value)
{
	calls++;
	return strcmp(value, "good") == 0 ? 0 : -EINVAL;
}

static const struct boot_param params[] = {
	{ .name = "flag", .type = BOOT_PARAM_bool, .var.b = &flag, .max = UINT64_MAX, .help = "" },
	{ .name = "t.number",
	  .type = BOOT_PARAM_u32,
	  .var.u32 = &number,
	  .max = UINT64_MAX,
	  .help = "" },
	{ .name = "wide", .type = BOOT_PARAM_u64, .var.u64 = &wide, .max = UINT64_MAX, .help = "" },
	{ .name = "bytes",
	  .type = BOOT_PARAM_size,
	  .var.u64 = &bytes,
	  .max = UINT64_MAX,
	  .help = "" },
	{ .name = "text",
	  .type = BOOT_PARAM_string,
	  .var.str = &text,
	  .max = UINT64_MAX,
	  .help = "" },
	{ .name = "cb", .type = BOOT_PARAM_cb, .var.cb = callback, .max = UINT64_MAX, .help = "" },
	{ .name = "few",
	  .type = BOOT_PARAM_u32,
	  .min = 1,
	  .max = 64,
	  .var.u32 = &number,
	  .help = "" },
	{ .name = "room",
	  .type = BOOT_PARAM_size,
	  .min = 4096,
	  .max = 1u << 20,
	  .var.u64 = &bytes,
	  .help = "" },
	{ .name = "key", .type = BOOT_PARAM_cb, .secret = true, .var.cb = callback, .help = "" },
};
static const struct boot_param *const table[] = { &params[0], &params[1], &params[2],
						  &params[3], &params[4], &params[5],
						  &params[6], &params[7], &params[8] };

static char line[256];

static unsigned int parse(const char *s)
{
	strlcpy(line, s, sizeof(line));
	flag = false;
	number = 7;
	wide = 7;
	bytes = 7;
	text = NULL;
	calls = 0;
	return bootparam_parse(line, table, table + ARRAY_SIZE(table));
}

static void good_values(struct ktest *t)
{
	EXPECT_EQ(t, parse("flag t.number=12 wide=0x1ffffffff bytes=8M text=abc cb=good"), 0);
	EXPECT_TRUE(t, flag);
	EXPECT_EQ(t, number, 12);
	EXPECT_EQ(t, wide, 0x1fffffffful);
	EXPECT_EQ(t, bytes, 8ul << 20);
	EXPECT_STREQ(t, text, "abc");
	EXPECT_EQ(t, calls, 1);
	EXPECT_EQ(t, parse("  flag=off\ttext=\"a b=c\"  t.number=1 t.number=010 "), 0);
	EXPECT_FALSE(t, flag);
	EXPECT_STREQ(t, text, "a b=c");
	EXPECT_EQ(t, number, 10); /* the last one, and decimal */
	EXPECT_EQ(t, parse(""), 0);
	EXPECT_EQ(t, parse("text="), 0);
	EXPECT_STREQ(t, text, "");
}

static void bad_values_are_refused(struct ktest *t)
{
	static const char *const bad[] = {
		"flag=maybe",
		"t.number",
		"t.number=",
		"t.number=x",
		"t.number=4294967296",
		"t.number=-1",
		"wide=1.5",
		"wide=0x",
		"wide=18446744073709551616",
		"bytes=8Q",
		"bytes=M",
		"bytes=99999999T",
		"cb=bad",
		"cb",
		"text",
		"text=\"open",
		"few=0",
		"few=65",
		"few=4294967297",
		"room=4095",
		"room=2M",
		"room=1",
	};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(t, parse(bad[i]), 1);
		EXPECT_EQ(t, number, 7);
		EXPECT_EQ(t, wide, 7);
		EXPECT_EQ(t, bytes, 7);
	}
}

static void ranges_end_where_they_say(struct ktest *t)
{
	EXPECT_EQ(t, parse("few=1 room=4K"), 0);
	EXPECT_EQ(t, number, 1);
	EXPECT_EQ(t, bytes, 4096);
	EXPECT_EQ(t, parse("few=64 room=1M"), 0);
	EXPECT_EQ(t, number, 64);
	EXPECT_EQ(t, bytes, 1ul << 20);
}

/* The roles have different parameters, and a line may be for all of them. */
static void unknown_names_are_ignored(struct ktest *t)
{
	EXPECT_EQ(t, parse("unknown unknown=1 fla=1 =1 t.number=3"), 0);
	EXPECT_EQ(t, number, 3);
}

static void all_faults_are_named_at_once(struct ktest *t)
{
	EXPECT_EQ(t, parse("few=none wide=x flag"), 2);
	EXPECT_TRUE(t, flag);
}

static void secrets_are_not_shown(struct ktest *t)
{
	static const struct {
		const char *line, *shown;
	} cases[] = {
		{ "key=sesame", "key=..." },
		{ "flag key=sesame few=3", "flag key=... few=3" },
		{ "key=\"open sesame\" x=key=y", "key=... x=key=y" },
		{ "\"key=open sesame", "key=..." },
		{ "key key=", "key key=..." },
		{ "", "" },
	};
	char out[64];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bootparam_redact(cases[i].line, out, sizeof(out), table, table + ARRAY_SIZE(table));
		EXPECT_STREQ(t, out, cases[i].shown);
	}
	bootparam_redact("flag few=3", out, 6, table, table + ARRAY_SIZE(table));
	EXPECT_STREQ(t, out, "flag ");
}

static const struct ktest_case bootparam_cases[] = {
	KTEST(good_values),
	KTEST(bad_values_are_refused),
	KTEST(ranges_end_where_they_say),
	KTEST(unknown_names_are_ignored),
	KTEST(all_faults_are_named_at_once),
	KTEST(secrets_are_not_shown),
	{ 0 },
};
static const struct ktest_suite bootparam_suite = {
	.name = "kernel.bootparam",
	.cases = bootparam_cases,
};
KTEST_SUITE(bootparam_suite);
