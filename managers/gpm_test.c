/* SPDX-License-Identifier: MIT */
/* GPM: the processor of the next program. */
#include <lib/ktest.h>
#include <lib/string.h>
#include <managers/policy.h>

static const uint32_t nodes[] = { 1, 2, 3 };
static struct gpm gpm; /* large */

static void start(const struct gpm_ops *ops)
{
	memset(&gpm, 0, sizeof(gpm));
	gpm.ops = ops;
}

static void report(uint32_t node, uint32_t runnable, uint32_t tasks, uint32_t cpus, uint32_t free)
{
	const struct cluster_load load = {
		.runnable = runnable, .tasks = tasks, .cpus = cpus, .free_lines = free
	};

	gpm_report(&gpm, node, &load);
}

static void programs_spread_without_reports(struct ktest *t)
{
	start(&gpm_least_busy);
	EXPECT_EQ(t, gpm_place(&gpm, nodes, 0), 0u);
	EXPECT_EQ(t, gpm_place(&gpm, nodes, 3), 1u);
	EXPECT_EQ(t, gpm_place(&gpm, nodes, 3), 2u);
	EXPECT_EQ(t, gpm_place(&gpm, nodes, 3), 3u);
	EXPECT_EQ(t, gpm_place(&gpm, nodes, 3), 1u);
	EXPECT_EQ(t, gpm_place(&gpm, nodes + 2, 1), 3u);
}

static void the_least_busy_is_chosen(struct ktest *t)
{
	start(&gpm_least_busy);
	report(1, 2, 2, 1, 100);
	report(2, 3, 3, 2, 0); /* 1.5 for each CPU */
	report(3, 4, 9, 2, 100);
	EXPECT_EQ(t, gpm_place(&gpm, nodes, 3), 2u); /* and now 4 on 2 CPUs */
	/* All have 2 for each CPU: the fewest tasks. */
	EXPECT_EQ(t, gpm_place(&gpm, nodes, 3), 1u);
	/* A report takes the place of what was counted since the last one. */
	report(1, 0, 0, 1, 0);
	EXPECT_EQ(t, gpm_place(&gpm, nodes, 3), 1u);
	report(1, 0, 5, 1, 0);
	report(2, 0, 5, 1, 7);
	report(3, 0, 5, 1, 6);
	EXPECT_EQ(t, gpm_place(&gpm, nodes, 3), 2u); /* free lines */
}

static void those_that_have_left_leave_nothing(struct ktest *t)
{
	start(&gpm_least_busy);
	report(2, 50, 50, 1, 0);
	gpm_forget(&gpm, 2);
	gpm_forget(&gpm, 77);
	EXPECT_EQ(t, gpm_place(&gpm, nodes + 1, 1), 2u);
	EXPECT_EQ(t, gpm_place(&gpm, nodes + 1, 2), 3u); /* 2 has one, not 51 */
	EXPECT_EQ(t, gpm_place(&gpm, nodes + 1, 2), 2u);
}

static void hostile_reports_break_nothing(struct ktest *t)
{
	start(&gpm_least_busy);
	report(1, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX);
	report(2, UINT32_MAX, 0, 0, 0);
	EXPECT_EQ(t, gpm_place(&gpm, nodes, 2), 1u);
	for (uint32_t id = 1; id <= CLUSTER_MAX_MEMBERS + 10; id++)
		report(id + 10, 1, 1, 1, 1); /* more than there is room for */
	EXPECT_EQ(t, gpm_place(&gpm, nodes, 1), 1u);
}

/* A policy of its own: the candidates are all there, in order, with what is known of each. */
static size_t seen_nr;
static struct gpm_node seen[3];

static size_t place_last(const struct gpm_node *list, size_t nr)
{
	seen_nr = nr;
	for (size_t i = 0; i < nr && i < ARRAY_SIZE(seen); i++)
		seen[i] = list[i];
	return nr - 1;
}

static void a_policy_sees_what_was_reported(struct ktest *t)
{
	static const struct gpm_ops last = { .name = "last", .place = place_last };

	start(&last);
	report(2, 4, 6, 2, 100);
	EXPECT_EQ(t, gpm_place(&gpm, nodes, 3), 3u);
	EXPECT_EQ(t, gpm_place(&gpm, nodes, 3), 3u);
	ASSERT_EQ(t, seen_nr, 3u);
	EXPECT_EQ(t, seen[0].id, 1u);
	EXPECT_EQ(t, seen[0].load.cpus, 1u); /* no report yet: idle, one CPU */
	EXPECT_EQ(t, seen[1].id, 2u);
	EXPECT_EQ(t, seen[1].load.runnable, 4u);
	EXPECT_EQ(t, seen[1].load.free_lines, 100u);
	EXPECT_EQ(t, seen[2].placed, 1u);
}

static const struct ktest_case cases[] = {
	KTEST(a_policy_sees_what_was_reported), KTEST(programs_spread_without_reports),
	KTEST(the_least_busy_is_chosen),        KTEST(those_that_have_left_leave_nothing),
	KTEST(hostile_reports_break_nothing),   { 0 },
};
static const struct ktest_suite suite = { .name = "managers.gpm", .cases = cases };
KTEST_SUITE(suite);
