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
	{ .name = "flag", .type = BOOT_PARAM_bool, .var.b = &flag, .help = "" },
	{ .name = "t.number", .type = BOOT_PARAM_u32, .var.u32 = &number, .help = "" },
	{ .name = "wide", .type = BOOT_PARAM_u64, .var.u64 = &wide, .help = "" },
	{ .name = "bytes", .type = BOOT_PARAM_size, .var.u64 = &bytes, .help = "" },
	{ .name = "text", .type = BOOT_PARAM_string, .var.str = &text, .help = "" },
	{ .name = "cb", .type = BOOT_PARAM_cb, .var.cb = callback, .help = "" },
	{ .name = "vital",
	  .type = BOOT_PARAM_u32,
	  .critical = true,
	  .var.u32 = &number,
	  .help = "" },
};
static const struct boot_param *const table[] = { &params[0], &params[1], &params[2], &params[3],
						  &params[4], &params[5], &params[6] };

static char line[256];

static unsigned int parse(const char *s, bool *critical)
{
	strlcpy(line, s, sizeof(line));
	flag = false;
	number = 7;
	wide = 7;
	bytes = 7;
	text = NULL;
	calls = 0;
	return bootparam_parse(line, table, table + ARRAY_SIZE(table), critical);
}

static void good_values(struct ktest *t)
{
	bool critical;

	EXPECT_EQ(t,
		  parse("flag t.number=12 wide=0x1ffffffff bytes=8M text=abc cb=good", &critical),
		  0);
	EXPECT_FALSE(t, critical);
	EXPECT_TRUE(t, flag);
	EXPECT_EQ(t, number, 12);
	EXPECT_EQ(t, wide, 0x1fffffffful);
	EXPECT_EQ(t, bytes, 8ul << 20);
	EXPECT_STREQ(t, text, "abc");
	EXPECT_EQ(t, calls, 1);
	EXPECT_EQ(t, parse("  flag=off\ttext=\"a b=c\"  t.number=1 t.number=010 ", &critical), 0);
	EXPECT_FALSE(t, flag);
	EXPECT_STREQ(t, text, "a b=c");
	EXPECT_EQ(t, number, 10); /* the last one, and decimal */
	EXPECT_EQ(t, parse("", &critical), 0);
	EXPECT_EQ(t, parse("text=", &critical), 0);
	EXPECT_STREQ(t, text, "");
}

static void bad_values_are_refused(struct ktest *t)
{
	static const char *const bad[] = {
		"unknown",
		"unknown=1",
		"fla=1",
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
		"=1",
		"text=\"open",
	};
	bool critical;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(t, parse(bad[i], &critical), 1);
		EXPECT_FALSE(t, critical);
		EXPECT_EQ(t, number, 7);
		EXPECT_EQ(t, wide, 7);
		EXPECT_EQ(t, bytes, 7);
	}
}

static void critical_ones_are_reported(struct ktest *t)
{
	bool critical;

	EXPECT_EQ(t, parse("vital=3 nonsense", &critical), 1);
	EXPECT_FALSE(t, critical);
	EXPECT_EQ(t, parse("vital=three flag", &critical), 1);
	EXPECT_TRUE(t, critical);
	EXPECT_TRUE(t, flag); /* the rest is still read, so that all faults are named at once */
}

static const struct ktest_case bootparam_cases[] = {
	KTEST(good_values),
	KTEST(bad_values_are_refused),
	KTEST(critical_ones_are_reported),
	{ 0 },
};
static const struct ktest_suite bootparam_suite = {
	.name = "kernel.bootparam",
	.cases = bootparam_cases,
};
KTEST_SUITE(bootparam_suite);
