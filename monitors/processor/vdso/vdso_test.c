/* SPDX-License-Identifier: MIT */
/*
 * The data page follows the kernel's clocks.
 */
#include <arch/tsc.h>
#include <kernel/time.h>
#include <lib/ktest.h>

#include "vvar_private.h"

#define HOUR_NS 3600000000000ull

static uint64_t vvar_real_ns(const struct vvar *v, uint64_t tsc)
{
	return (uint64_t)(((unsigned __int128)(tsc - v->tsc_base) * v->mult) >> v->shift) +
	       v->real_offset;
}

static void data_page_agrees_with_the_clock(struct ktest *t)
{
	struct vvar v = { .seq = 4 };
	uint64_t before, now, after;

	vvar_write(&v);
	EXPECT_EQ(t, v.seq, 6);
	before = time_real_ns();
	now = vvar_real_ns(&v, tsc_read());
	after = time_real_ns();
	EXPECT_TRUE(t, before <= now && now <= after);
}

static void a_step_of_the_clock_reaches_the_data_page(struct ktest *t)
{
	const struct vvar *v = vvar_get();
	uint64_t before, seq;

	if (!v)
		return; /* this node starts no programs, or vdso=off */
	seq = v->seq;
	before = vvar_real_ns(v, tsc_read());
	time_set_real_ns(time_real_ns() + HOUR_NS);
	EXPECT_EQ(t, v->seq, seq + 2);
	EXPECT_TRUE(t, vvar_real_ns(v, tsc_read()) - before >= HOUR_NS);
	time_set_real_ns(time_real_ns() - HOUR_NS);
	EXPECT_TRUE(t, vvar_real_ns(v, tsc_read()) - before < HOUR_NS);
}

static const struct ktest_case vdso_cases[] = {
	KTEST(data_page_agrees_with_the_clock),
	KTEST(a_step_of_the_clock_reaches_the_data_page),
	{ 0 },
};
static const struct ktest_suite vdso_suite = { .name = "processor.vdso", .cases = vdso_cases };
KTEST_SUITE(vdso_suite);
