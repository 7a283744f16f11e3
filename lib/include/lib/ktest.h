/* SPDX-License-Identifier: MIT */
/*
 * Unit tests beside the code: the same x_test.c runs in the kernel (boot option
 * ktest=<glob>, TAP on the serial line) and on the host (cmocka, under ASan and UBSan).
 *
 * Flow:	static void decode_rejects_short(struct ktest *t) { EXPECT_EQ(t, f(), -EINVAL); }
 *		static const struct ktest_case cases[] = { KTEST(decode_rejects_short), { 0 } };
 *		static const struct ktest_suite suite = { .name = "area.thing", .cases = cases };
 *		KTEST_SUITE(suite);
 * EXPECT_*:	note the failure and go on.
 * ASSERT_*:	note the failure and return from the function that they stand in.
 *		Arguments: the value found first, the value wanted second; each is evaluated once.
 *		Runners: kernel/ktest.c and test/host/runner.c define ktest_fail() and ktest_skip()
 *		and walk the section.
 */
#pragma once

#include <lib/string.h>
#include <lib/types.h>

struct ktest {
	const char *suite;
	const char *name;
	unsigned int nr_failed;
	const char *skip_reason; /* NULL: not skipped */
};

struct ktest_case {
	const char *name; /* NULL ends a table */
	void (*run)(struct ktest *t);
};

struct ktest_suite {
	const char *name; /* "folder.object" */
	const struct ktest_case *cases;
};

#define KTEST(fn) { #fn, fn }

/* Pointers to suites, collected by the linker script (kernel.lds.S, test/host/sections.lds). */
extern const struct ktest_suite *const __ktest_start[];
extern const struct ktest_suite *const __ktest_end[];

#define KTEST_SUITE(suite)                                                 \
	static const struct ktest_suite *const CONCAT(ktest_suite_, suite) \
		__used __section(".ktest") = &(suite)

void ktest_fail(struct ktest *t, const char *file, int line, const char *fmt, ...) __printf(4, 5);

/* For tests: mark the running case as skipped, with a literal reason; the case then returns. */
void ktest_skip(struct ktest *t, const char *reason);

#define KTEST_CHECK_CMP(t, a, op, b, on_fail)                                                     \
	do {                                                                                      \
		const __typeof__(a) kt_a_ = (a);                                                  \
		const __typeof__(b) kt_b_ = (b);                                                  \
		_Pragma("GCC diagnostic push")                                                    \
			_Pragma("GCC diagnostic ignored \"-Wsign-compare\"") const bool kt_ok_ =  \
				kt_a_ op kt_b_;                                                   \
		_Pragma("GCC diagnostic pop") if (!kt_ok_)                                        \
		{                                                                                 \
			ktest_fail(t, __FILE__, __LINE__, "%s %s %s: %lld (%#llx), %lld (%#llx)", \
				   #a, #op, #b, (long long)kt_a_, (unsigned long long)kt_a_,      \
				   (long long)kt_b_, (unsigned long long)kt_b_);                  \
			on_fail;                                                                  \
		}                                                                                 \
	} while (0)

#define KTEST_CHECK(t, cond, want, on_fail)                                  \
	do {                                                                 \
		if ((bool)(cond) != (want)) {                                \
			ktest_fail(t, __FILE__, __LINE__, "%s is %s", #cond, \
				   (want) ? "false" : "true");               \
			on_fail;                                             \
		}                                                            \
	} while (0)

#define KTEST_CHECK_STR(t, a, b, on_fail)                                                  \
	do {                                                                               \
		const char *kt_a_ = (a);                                                   \
		const char *kt_b_ = (b);                                                   \
		if (!kt_a_ || !kt_b_ || strcmp(kt_a_, kt_b_) != 0) {                       \
			ktest_fail(t, __FILE__, __LINE__, "%s is \"%s\", want \"%s\"", #a, \
				   kt_a_ ? kt_a_ : "(null)", kt_b_ ? kt_b_ : "(null)");    \
			on_fail;                                                           \
		}                                                                          \
	} while (0)

#define KTEST_CHECK_MEM(t, a, b, len, on_fail)                                        \
	do {                                                                          \
		const uint8_t *kt_a_ = (const uint8_t *)(a);                          \
		const uint8_t *kt_b_ = (const uint8_t *)(b);                          \
		const size_t kt_n_ = (len);                                           \
		size_t kt_i_ = 0;                                                     \
		while (kt_i_ < kt_n_ && kt_a_[kt_i_] == kt_b_[kt_i_])                 \
			kt_i_++;                                                      \
		if (kt_i_ < kt_n_) {                                                  \
			ktest_fail(t, __FILE__, __LINE__,                             \
				   "%s differs from %s at byte %zu of %zu: "          \
				   "%#x, %#x",                                        \
				   #a, #b, kt_i_, kt_n_, kt_a_[kt_i_], kt_b_[kt_i_]); \
			on_fail;                                                      \
		}                                                                     \
	} while (0)

#define EXPECT_EQ(t, a, b)         KTEST_CHECK_CMP(t, a, ==, b, )
#define EXPECT_NE(t, a, b)         KTEST_CHECK_CMP(t, a, !=, b, )
#define EXPECT_LT(t, a, b)         KTEST_CHECK_CMP(t, a, <, b, )
#define EXPECT_LE(t, a, b)         KTEST_CHECK_CMP(t, a, <=, b, )
#define EXPECT_GT(t, a, b)         KTEST_CHECK_CMP(t, a, >, b, )
#define EXPECT_GE(t, a, b)         KTEST_CHECK_CMP(t, a, >=, b, )
#define EXPECT_TRUE(t, cond)       KTEST_CHECK(t, cond, true, )
#define EXPECT_FALSE(t, cond)      KTEST_CHECK(t, cond, false, )
#define EXPECT_STREQ(t, a, b)      KTEST_CHECK_STR(t, a, b, )
#define EXPECT_MEMEQ(t, a, b, len) KTEST_CHECK_MEM(t, a, b, len, )
#define ASSERT_EQ(t, a, b)         KTEST_CHECK_CMP(t, a, ==, b, return)
#define ASSERT_NE(t, a, b)         KTEST_CHECK_CMP(t, a, !=, b, return)
#define ASSERT_TRUE(t, cond)       KTEST_CHECK(t, cond, true, return)
#define ASSERT_FALSE(t, cond)      KTEST_CHECK(t, cond, false, return)
#define ASSERT_STREQ(t, a, b)      KTEST_CHECK_STR(t, a, b, return)
#define ASSERT_MEMEQ(t, a, b, len) KTEST_CHECK_MEM(t, a, b, len, return)
