/* SPDX-License-Identifier: MIT */
/* A member's clock of its lease, over a clock of the test. */
#include <cluster/membership.h>

#include <lib/ktest.h>

#define S     1000000000ull
#define MS    1000000ull
#define LEASE (15 * S)
#define LOOK  (500 * MS)

static struct own_lease l;
static uint64_t now;

/* As the thread does: look, and ask whenever the lease is over; @answers: somebody answers. */
static bool run(uint64_t ns, bool answers)
{
	const uint64_t until = now + ns;

	while (now < until) {
		now += LOOK;
		if (!lease_look(&l, now, LOOK) || !lease_is_over(&l, LEASE))
			continue;
		if (answers)
			lease_heard(&l);
		else if (lease_is_cut_off(&l, LEASE))
			return true;
	}
	return false;
}

static void begin(void)
{
	now = 1000 * S;
	lease_start(&l, now);
}

static void a_silent_host_and_silent_members_are_the_end(struct ktest *t)
{
	begin();
	EXPECT_FALSE(t, run(14 * S, false));
	EXPECT_FALSE(t, lease_is_over(&l, LEASE));
	EXPECT_FALSE(t, run(S, false));
	EXPECT_TRUE(t, lease_is_over(&l, LEASE));
	EXPECT_FALSE(t, run(7 * S, false)); /* it is asked for some time first */
	EXPECT_TRUE(t, run(S, false));
}

static void while_the_host_is_away_the_lease_stands_still(struct ktest *t)
{
	begin();
	EXPECT_FALSE(t, run(3600 * S, true));
	/* Then the others fall silent, too. */
	EXPECT_FALSE(t, run(7 * S, false));
	EXPECT_TRUE(t, run(S, false));
}

static void the_host_renews_it(struct ktest *t)
{
	begin();
	EXPECT_FALSE(t, run(22 * S, false));
	lease_renewed(&l);
	EXPECT_FALSE(t, lease_is_over(&l, LEASE));
	EXPECT_FALSE(t, run(22 * S, false));
	EXPECT_TRUE(t, run(S, false));
}

static void time_in_which_the_node_stood_still_does_not_count(struct ktest *t)
{
	begin();
	for (int i = 0; i < 20; i++) {
		EXPECT_FALSE(t, run(500 * MS, false));
		now += 30 * S;
		EXPECT_FALSE(t, lease_look(&l, now, LOOK));
	}
	EXPECT_FALSE(t, lease_is_over(&l, LEASE));
	EXPECT_FALSE(t, run(12 * S, false));
	EXPECT_TRUE(t, run(S, false));
	/* While it was asking: the others may have stood still with it. */
	begin();
	EXPECT_FALSE(t, run(22 * S, false));
	now += 30 * S;
	EXPECT_FALSE(t, run(7 * S, false));
	EXPECT_TRUE(t, run(S, false));
}

static void a_late_look_counts_and_a_clock_does_not_go_back(struct ktest *t)
{
	begin();
	for (int i = 0; i < 10; i++) {
		now += LOOK + S;
		EXPECT_TRUE(t, lease_look(&l, now, LOOK));
	}
	EXPECT_TRUE(t, lease_is_over(&l, LEASE));
	EXPECT_TRUE(t, lease_look(&l, now - S, LOOK));
	EXPECT_EQ(t, l.ran_ns, 15 * S);
}

static const struct ktest_case cases[] = {
	KTEST(a_silent_host_and_silent_members_are_the_end),
	KTEST(while_the_host_is_away_the_lease_stands_still),
	KTEST(the_host_renews_it),
	KTEST(time_in_which_the_node_stood_still_does_not_count),
	KTEST(a_late_look_counts_and_a_clock_does_not_go_back),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "cluster.lease", .cases = cases };
KTEST_SUITE(suite);
