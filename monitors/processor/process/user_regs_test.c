/* SPDX-License-Identifier: MIT */
#include <arch/layout.h>
#include <lib/byteorder.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

#include "user_regs.h"

static void fill(void *p, size_t len)
{
	for (size_t i = 0; i < len / 8; i++)
		put_unaligned_le64(0x1000 + i, (uint8_t *)p + 8 * i);
}

static void regs_round_trip(struct ktest *t)
{
	struct user_bases b = { 0x7000, 0x8000 }, b2 = { 0 };
	struct pt_regs r, r2 = { .rflags = 0x202 };
	struct linux_user_regs u, u2;

	fill(&r, sizeof(r));
	r.rflags = 0x246;
	user_regs_get(&r, &b, &u);
	EXPECT_EQ(t, u.rip, r.rip);
	EXPECT_EQ(t, u.r10, r.r10);
	EXPECT_EQ(t, u.rcx, r.rcx);
	EXPECT_EQ(t, u.cs, (uint64_t)0x33);
	EXPECT_EQ(t, u.ss, (uint64_t)0x2b);
	EXPECT_EQ(t, user_regs_set(&r2, &b2, &u), 0);
	user_regs_get(&r2, &b2, &u2);
	EXPECT_EQ(t, memcmp(&u, &u2, sizeof(u)), 0);
}

static void regs_rejects(struct ktest *t)
{
	static const struct {
		size_t at;
		uint64_t value;
	} bad[] = {
		{ offsetof(struct linux_user_regs, cs), 0x08 },
		{ offsetof(struct linux_user_regs, cs), 0 },
		{ offsetof(struct linux_user_regs, ss), 0x10 },
		{ offsetof(struct linux_user_regs, ds), 0x2b },
		{ offsetof(struct linux_user_regs, gs), 1 },
		{ offsetof(struct linux_user_regs, fs_base), USER_TOP },
		{ offsetof(struct linux_user_regs, gs_base), UINT64_MAX },
	};
	const struct pt_regs r = { .rflags = 0x202, .rip = 0x400000 };
	const struct user_bases b = { 0 };
	struct linux_user_regs u;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct pt_regs got = r;
		struct user_bases b2 = b;

		user_regs_get(&r, &b, &u);
		u.rip = 1;
		put_unaligned_le64(bad[i].value, (uint8_t *)&u + bad[i].at);
		EXPECT_EQ(t, user_regs_set(&got, &b2, &u), -EIO);
		EXPECT_EQ(t, got.rip, r.rip);
	}
}

static void flags_of_the_kernel_stay(struct ktest *t)
{
	struct pt_regs r = { .rflags = 0x202 };
	struct user_bases b = { 0 };
	struct linux_user_regs u;

	user_regs_get(&r, &b, &u);
	u.eflags = UINT64_MAX;
	EXPECT_EQ(t, user_regs_set(&r, &b, &u), 0);
	EXPECT_EQ(t, r.rflags, (uint64_t)0x50fd7); /* no IOPL, NT, VM, VIF, VIP, ID */
	u.eflags = 0;
	EXPECT_EQ(t, user_regs_set(&r, &b, &u), 0);
	EXPECT_EQ(t, r.rflags, (uint64_t)0x202);
}

static void xstate_of_initial_components(struct ktest *t)
{
	uint8_t image[832], out[832];

	memset(image, 0xee, sizeof(image));
	put_unaligned_le64(0x2, image + 512); /* SSE alone was stored */
	user_xstate_get(out, image, sizeof(image), 0x7);
	EXPECT_EQ(t, get_unaligned_le16(out), 0x37f);
	EXPECT_EQ(t, out[2], 0);
	EXPECT_EQ(t, out[24], 0xee); /* MXCSR is stored with any of them */
	EXPECT_EQ(t, out[32], 0);
	EXPECT_EQ(t, out[159], 0);
	EXPECT_EQ(t, out[160], 0xee);
	EXPECT_EQ(t, out[415], 0xee);
	EXPECT_EQ(t, get_unaligned_le64(out + 464), (uint64_t)0x7);
	EXPECT_EQ(t, out[576], 0);
	EXPECT_EQ(t, out[831], 0);
	put_unaligned_le64(0x5, image + 512);
	user_xstate_get(out, image, sizeof(image), 0x7);
	EXPECT_EQ(t, out[32], 0xee);
	EXPECT_EQ(t, out[160], 0);
	EXPECT_EQ(t, out[576], 0xee);
	user_xstate_get(out, image, 512, 0x3); /* a CPU without XSAVE */
	EXPECT_EQ(t, out[464], 0xee);
}

static void code_that_sets_tf(struct ktest *t)
{
	static const struct {
		uint8_t code[4];
		size_t len;
		bool want;
	} cases[] = {
		{ { 0x9d }, 1, true },        /* popf */
		{ { 0x66, 0x9d }, 2, true },  /* popfw */
		{ { 0x48, 0xcf }, 2, true },  /* iretq */
		{ { 0x90, 0x9d }, 2, false }, /* nop */
		{ { 0x9c }, 1, false },       /* pushf */
		{ { 0x66, 0x48 }, 2, false }, /* cut off */
		{ { 0 }, 0, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		EXPECT_EQ(t, user_code_sets_tf(cases[i].code, cases[i].len), cases[i].want);
}

static const struct ktest_case user_regs_cases[] = {
	KTEST(regs_round_trip),          KTEST(regs_rejects),
	KTEST(flags_of_the_kernel_stay), KTEST(xstate_of_initial_components),
	KTEST(code_that_sets_tf),        { 0 },
};
static const struct ktest_suite user_regs_suite = { .name = "processor.user_regs",
						    .cases = user_regs_cases };
KTEST_SUITE(user_regs_suite);
