/* SPDX-License-Identifier: MIT */
/* Tests of what is only in headers: byte order, error pointers, atomics, macros, random numbers. */
#include <lib/atomic.h>
#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <lib/prng.h>

static void byte_order(struct ktest *t)
{
	uint8_t buf[16] = { 0xff, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0xff };
	const uint8_t want[9] = { 0xff, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88 };
	const be32_t be = cpu_to_be32(0x01020304);
	const le32_t le = cpu_to_le32(0x04030201);

	EXPECT_MEMEQ(t, &be, buf + 1, 4);
	EXPECT_MEMEQ(t, &le, buf + 1, 4);
	EXPECT_EQ(t, be32_to_cpu(be), 0x01020304U);
	EXPECT_EQ(t, le32_to_cpu(le), 0x04030201U);
	EXPECT_EQ(t, get_unaligned_le16(buf + 1), 0x0201);
	EXPECT_EQ(t, get_unaligned_be16(buf + 1), 0x0102);
	EXPECT_EQ(t, get_unaligned_le32(buf + 1), 0x04030201U);
	EXPECT_EQ(t, get_unaligned_be32(buf + 1), 0x01020304U);
	EXPECT_EQ(t, get_unaligned_le64(buf + 1), 0x0807060504030201ULL);
	EXPECT_EQ(t, get_unaligned_be64(buf + 1), 0x0102030405060708ULL);
	put_unaligned_be64(0x1122334455667788ULL, buf + 1);
	EXPECT_MEMEQ(t, buf, want, 9);
	put_unaligned_le16(0x2211, buf + 1);
	EXPECT_MEMEQ(t, buf, want, 9);
	EXPECT_EQ(t, buf[9], 0xff);
	EXPECT_EQ(t, le16_to_cpu(CONST_CPU_TO_LE16(0x1234)), 0x1234);
	EXPECT_EQ(t, be64_to_cpu(cpu_to_be64(0x1122334455667788ULL)), 0x1122334455667788ULL);
}

static void error_pointers(struct ktest *t)
{
	int x = 0;

	EXPECT_TRUE(t, IS_ERR(ERR_PTR(-ENOMEM)));
	EXPECT_TRUE(t, IS_ERR(ERR_PTR(-ERR_MAX)));
	EXPECT_FALSE(t, IS_ERR(ERR_PTR(-ERR_MAX - 1)));
	EXPECT_EQ(t, PTR_ERR(ERR_PTR(-EINVAL)), -EINVAL);
	EXPECT_FALSE(t, IS_ERR(&x));
	EXPECT_FALSE(t, IS_ERR(NULL));
	EXPECT_TRUE(t, IS_ERR_OR_NULL(NULL));
	EXPECT_EQ(t, PTR_ERR_OR_ZERO(&x), 0);
	EXPECT_EQ(t, PTR_ERR_OR_ZERO(ERR_PTR(-EIO)), -EIO);
}

#define CONFIG_TEST_ON 1

static void macros(struct ktest *t)
{
	struct pair {
		int a;
		int b;
	} p;
	const int *b = &p.b;

	EXPECT_EQ(t, ALIGN_UP(4097ULL, 4096), 8192);
	EXPECT_EQ(t, ALIGN_UP(4096ULL, 4096), 4096);
	EXPECT_EQ(t, ALIGN_UP(0x100000001ULL, 4096), 0x100001000ULL); /* not cut to 32 bits */
	EXPECT_EQ(t, ALIGN_DOWN(4097ULL, 4096), 4096);
	EXPECT_TRUE(t, IS_ALIGNED(8192ULL, 4096));
	EXPECT_EQ(t, DIV_ROUND_UP(9, 4), 3);
	EXPECT_EQ(t, MIN(3, 4) + MAX(3, 4), 7);
	EXPECT_TRUE(t, IS_POWER_OF_2(64) && !IS_POWER_OF_2(0) && !IS_POWER_OF_2(65));
	EXPECT_EQ(t, GENMASK64(7, 4), 0xf0);
	EXPECT_EQ(t, GENMASK64(63, 0), UINT64_MAX);
	EXPECT_TRUE(t, container_of(b, struct pair, b) == &p);
	EXPECT_EQ(t, IS_ENABLED(CONFIG_TEST_ON), 1);
	EXPECT_EQ(t, IS_ENABLED(CONFIG_TEST_OFF), 0);
	EXPECT_STREQ(t, STRINGIFY(CONFIG_TEST_ON), "1");
}

static void atomics(struct ktest *t)
{
	atomic_t a = ATOMIC_INIT(5);
	atomic64_t b = ATOMIC_INIT(INT64_MAX);

	EXPECT_EQ(t, atomic_add_return(&a, 3), 8);
	atomic_dec(&a);
	EXPECT_EQ(t, atomic_read(&a), 7);
	EXPECT_EQ(t, atomic_cmpxchg(&a, 7, 1), 7);
	EXPECT_EQ(t, atomic_cmpxchg(&a, 7, 2), 1);
	EXPECT_TRUE(t, atomic_dec_and_test(&a));
	EXPECT_EQ(t, atomic_xchg(&a, 9), 0);
	EXPECT_EQ(t, atomic_or(&a, 6), 9);
	EXPECT_EQ(t, atomic_and(&a, 3), 15);
	EXPECT_EQ(t, atomic_read(&a), 3);
	EXPECT_EQ(t, atomic64_sub_return(&b, 1), INT64_MAX - 1);
}

static void reference_counts(struct ktest *t)
{
	refcount_t r = REFCOUNT_INIT(1);

	EXPECT_TRUE(t, refcount_inc_not_zero(&r));
	EXPECT_FALSE(t, refcount_dec_and_test(&r));
	EXPECT_TRUE(t, refcount_dec_and_test(&r));
	EXPECT_FALSE(t, refcount_inc_not_zero(&r));

	/* Too many: it sticks, and the object is never freed. */
	refcount_set(&r, INT32_MAX);
	refcount_inc(&r);
	EXPECT_EQ(t, refcount_read(&r), REFCOUNT_SATURATED);
	EXPECT_FALSE(t, refcount_dec_and_test(&r));
	EXPECT_TRUE(t, refcount_inc_not_zero(&r));
	EXPECT_EQ(t, refcount_read(&r), REFCOUNT_SATURATED);
}

/* splitmix64 with seed 0: the first outputs that its author publishes. */
static void random_numbers(struct ktest *t)
{
	struct prng p;

	prng_seed(&p, 0);
	EXPECT_EQ(t, prng_next(&p), 0xe220a8397b1dcdafULL);
	EXPECT_EQ(t, prng_next(&p), 0x6e789e6aa1b965f4ULL);
	for (int i = 0; i < 1000; i++)
		EXPECT_LT(t, prng_below(&p, 7), 7U);
}

static const struct ktest_case base_cases[] = {
	KTEST(byte_order),       KTEST(error_pointers), KTEST(macros), KTEST(atomics),
	KTEST(reference_counts), KTEST(random_numbers), { 0 },
};
static const struct ktest_suite base_suite = { .name = "lib.base", .cases = base_cases };
KTEST_SUITE(base_suite);
