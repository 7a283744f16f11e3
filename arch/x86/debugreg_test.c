/* SPDX-License-Identifier: MIT */
#include <arch/debugreg.h>
#include <arch/layout.h>
#include <lib/errno.h>
#include <lib/ktest.h>

static void checks(struct ktest *t)
{
	static const struct {
		uint64_t addr, control;
		int want;
	} cases[] = {
		{ 0, 0, 0 },
		{ UINT64_MAX, 0, 0 },                    /* not enabled */
		{ 0x400001, 0x1, 0 },                    /* execution */
		{ 0x400001, 0x2, 0 },                    /* the global bit counts as well */
		{ 0x400001, 0x40001, -EINVAL },          /* execution of two bytes */
		{ 0x1000, 0xd0001, 0 },                  /* four bytes written */
		{ 0x1002, 0xd0001, -EINVAL },            /* not aligned */
		{ 0x1004, 0x90001, -EINVAL },            /* eight bytes */
		{ 0x1008, 0x90001, 0 },                  /* the same, aligned */
		{ 0x1000, 0x20001, -EINVAL },            /* ports */
		{ USER_TOP - 8, 0x90001, 0 },            /* the last */
		{ USER_TOP, 0x10001, -EINVAL },          /* the kernel's */
		{ 0xffffffff80000000ull, 0x1, -EINVAL }, /* the same */
		{ UINT64_MAX, 0x30001, -EINVAL },        /* no sum overflows */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct debug_regs d = { .control = cases[i].control };

		d.addr[0] = cases[i].addr;
		EXPECT_EQ(t, debug_regs_check(&d), cases[i].want);
	}
}

static void control(struct ktest *t)
{
	struct debug_regs d = { 0 };

	EXPECT_EQ(t, debug_control_of(&d), (uint64_t)0x400);
	d.control = 0xffff0000; /* kinds of breakpoints that are off */
	EXPECT_EQ(t, debug_control_of(&d), (uint64_t)0x400);
	/* Nothing but local enables and kinds reaches the CPU: no general detect. */
	d.control = UINT64_MAX;
	EXPECT_EQ(t, debug_control_of(&d), (uint64_t)0xffff0455);
	d.control = 0x00d00008;
	EXPECT_EQ(t, debug_control_of(&d), (uint64_t)0x00d00404);
}

static const struct ktest_case debugreg_cases[] = { KTEST(checks), KTEST(control), { 0 } };
static const struct ktest_suite debugreg_suite = { .name = "arch.debugreg",
						   .cases = debugreg_cases };
KTEST_SUITE(debugreg_suite);
