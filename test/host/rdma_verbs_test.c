/* SPDX-License-Identifier: MIT */
/* The verbs core: devices by name, addresses. */
#include <lib/ktest.h>
#include <lib/string.h>

#include <kernel/time.h>
#include <kernel/timer.h>
#include <rdma/provider.h>
#include <shim/shim.h>

static const struct rdma_device_ops no_ops;

static struct rdma_device *wait_for(const char *name)
{
	return rdma_device_wait(name, time_now_ns() + 20 * NSEC_PER_MSEC);
}

static void devices_by_name(struct ktest *t)
{
	struct rdma_device a = { .ops = &no_ops }, b = { .ops = &no_ops };

	EXPECT_TRUE(t, wait_for("") == NULL);
	ASSERT_EQ(t, rdma_device_register(&a, "alpha"), 0);
	ASSERT_EQ(t, rdma_device_register(&b, "beta"), 0);
	EXPECT_TRUE(t, wait_for("") == &a);
	EXPECT_TRUE(t, wait_for(NULL) == &a);
	EXPECT_TRUE(t, wait_for(rdma_device_name(&b)) == &b);
	EXPECT_TRUE(t, wait_for("beta") == NULL); /* a name is the whole name */
	shim_bootparam_set("rdma.device", rdma_device_name(&b));
	EXPECT_TRUE(t, wait_for(NULL) == &b);
	EXPECT_TRUE(t, wait_for("") == &a);
	shim_bootparam_set("rdma.device", "");
	rdma_device_unregister(&a);
	EXPECT_TRUE(t, wait_for("") == &b);
	rdma_device_unregister(&b);
}

static void addresses(struct ktest *t)
{
#define GID(n)                                    \
	{                                         \
		.raw = { 0xfe, 0x80, [15] = (n) } \
	}
	static const struct {
		struct rdma_addr a, b;
		bool equal;
	} cases[] = {
		{ { .dlid = 3 }, { .dlid = 3 }, true },
		{ { .dlid = 3 }, { .dlid = 4 }, false },
		{ { .dgid = GID(1) }, { .dgid = GID(1) }, true },
		{ { .dgid = GID(1) }, { .dgid = GID(2) }, false },
		/* A field that only one of them knows does not count. */
		{ { .dlid = 3, .dgid = GID(1) }, { .dlid = 3 }, true },
		{ { .dlid = 3, .dgid = GID(1) }, { .dgid = GID(1) }, true },
		{ { .dlid = 3, .dgid = GID(1) }, { .dlid = 3, .dgid = GID(2) }, false },
		{ { .dlid = 3, .dgid = GID(1) }, { .dlid = 4, .dgid = GID(1) }, false },
		/* Nothing in common, or nothing at all. */
		{ { .dlid = 3 }, { .dgid = GID(1) }, false },
		{ { .dlid = 0 }, { .dlid = 0 }, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		EXPECT_EQ(t, rdma_addr_equal(&cases[i].a, &cases[i].b), cases[i].equal);
		EXPECT_EQ(t, rdma_addr_equal(&cases[i].b, &cases[i].a), cases[i].equal);
	}
}

static void address_of_a_datagram(struct ktest *t)
{
	struct rdma_wc wc = { .slid = 7, .sl = 2 };
	uint8_t grh[RDMA_GRH_LEN];
	struct rdma_addr from;

	for (unsigned int i = 0; i < sizeof(grh); i++)
		grh[i] = (uint8_t)i;
	rdma_addr_of_wc(&wc, grh, &from); /* the bytes are not valid */
	EXPECT_EQ(t, from.dlid, 7);
	EXPECT_EQ(t, from.sl, 2);
	EXPECT_FALSE(t, from.has_grh);
	EXPECT_EQ(t, from.dgid.raw[15], 0);
	wc.slid = 0;
	wc.flags = RDMA_WC_GRH;
	rdma_addr_of_wc(&wc, grh, &from);
	EXPECT_EQ(t, from.dlid, 0);
	EXPECT_TRUE(t, from.has_grh);
	EXPECT_EQ(t, memcmp(from.dgid.raw, grh + 8, 16), 0);
}

static const struct ktest_case verbs_cases[] = {
	KTEST(devices_by_name),
	KTEST(addresses),
	KTEST(address_of_a_datagram),
	{ 0 },
};
static const struct ktest_suite verbs_suite = { .name = "rdma.verbs", .cases = verbs_cases };
KTEST_SUITE(verbs_suite);
